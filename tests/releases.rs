//! Releases: one takes the place of another, and no client notices.

#![allow(clippy::disallowed_methods, reason = "a test names files of its own")]

mod common;

use common::{
    ENGINES, PATIENCE,
    client::{Client, Response, get},
    program::{Program, has_ended, serve},
    releases::{current, pack, point},
    site, wait_for, write_files,
};
use rustix::process::{Signal, kill_process};
use std::{
    collections::BTreeSet,
    fs::{self, File},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};
use tarpon::{Engine, Releases};

#[test]
fn a_hundred_packed_releases_follow_each_other_under_load() {
    thread::scope(|scope| {
        for &engine in ENGINES {
            scope.spawn(move || follow_each_other_under_load(engine, packed_switch));
        }
    });
}

#[test]
fn a_hundred_directories_follow_each_other_under_load() {
    thread::scope(|scope| {
        for &engine in ENGINES {
            scope.spawn(move || follow_each_other_under_load(engine, directory_switch));
        }
    });
}

#[test]
fn a_release_that_is_broken_is_refused_and_the_one_before_stays() {
    let releases = common::open_dir();
    let at = |name: &str| releases.path().join(name);
    pack(&release(0), &at("good.tar"));
    let good = fs::read(at("good.tar")).unwrap();
    let mut damaged = good.clone();
    // In the header of the image, which lies in the first member.
    damaged[4096 + 40] ^= 1;
    #[rustfmt::skip]
    let cases: &[(&str, &[u8], &str)] = &[
        ("cut",      &good[..good.len() / 2], "cut short"),
        ("damaged",  &damaged,                "the header is damaged"),
        ("empty",    b"",                     "it is no tar archive"),
        ("zip",      b"PK\x03\x04",           "it is a zip archive"),
        ("text",     b"release 7",            "it is no tar archive"),
    ];
    for &engine in ENGINES {
        point(releases.path(), "good.tar");
        let program = Program::started(serve(&at("current"), &["--engine", engine.name()]));
        let mut client = Client::connect(program.address());
        let mut number = 0;
        for (name, bytes, why) in cases {
            fs::write(at(name), bytes).unwrap();
            let warned = program.err().len();
            point(releases.path(), name);
            wait_for(name, || program.err()[warned..].contains("still serving").then_some(()));
            assert!(program.err()[warned..].contains(why), "{name}: {}", program.err());
            assert_eq!(number_in(&client.get("/")), number, "{engine}, {name}");
            number += 1;
            packed_switch(releases.path(), number);
            wait_for("the next release", || (number_in(&client.get("/")) == number).then_some(()));
        }
        // A link that leads nowhere.
        let warned = program.err().len();
        point(releases.path(), "missing");
        wait_for("a warning", || program.err()[warned..].contains("does not exist").then_some(()));
        assert_eq!(number_in(&client.get("/")), number, "{engine}");
    }
}

#[test]
fn what_is_kept_outlives_what_is_read_again_without_having_changed() {
    const OF_THE_FIRST: &str = "/assets/app-B4qfzvDp.js";
    let dir =
        site(&[("1/index.html", "one"), ("1/assets/app-B4qfzvDp.js", "first"), ("2/index.html", "two")]);
    point(dir.path(), "1");
    let program = Program::started(serve(&dir.path().join("current"), &["--keep-releases", "1"]));
    let ask = |target: &str| Client::connect(program.address()).get(target).content;
    assert_eq!(ask(OF_THE_FIRST), b"first");
    point(dir.path(), "2");
    wait_for("the second", || (ask("/") == b"two").then_some(()));
    assert_eq!(ask(OF_THE_FIRST), b"first");
    let changes = || program.out().matches("changed").count();
    let before = changes();
    write_files(dir.path(), &[("2/.hidden", "not served")]);
    wait_for("another reading", || (changes() > before).then_some(()));
    let server = program.server();
    kill_process(server, Signal::KILL).expect("a server");
    wait_for("another server", || (has_ended(server) && program.server() != server).then_some(()));
    assert_eq!(ask(OF_THE_FIRST), b"first", "from what the supervisor has kept");
}

#[test]
fn a_page_that_was_loaded_before_still_finds_what_its_release_had_under_a_name_with_a_hash() {
    for &engine in ENGINES {
        let releases = common::open_dir();
        let options = ["--engine", engine.name(), "--workers", "1", "--keep-releases", "2"];
        let at = |name: &str| releases.path().join(name);
        let activate = |number: usize| {
            pack(&release_with_assets(number), &at(&format!("{number}.tar")));
            Releases::new(releases.path())
                .unwrap()
                .activate(&format!("{number}.tar"), false, |_| {})
                .unwrap();
        };
        activate(1);
        let mut program = Program::started(serve(&at("current"), &options));
        let mut client = Client::connect(program.address());
        let mut before = None;
        for number in 2..=9 {
            activate(number);
            wait_for("the next release", || (number_in(&client.get("/")) == number).then_some(()));
            assert_kept(&mut client, number, 2);
            // Each has its archive, but no more of them than that.
            if number == 4 {
                // Of several workers one may hear of it last, and have one more until then.
                before = Some(wait_for("no more than it keeps", || {
                    // Nor one on its way to a worker.
                    let is_at_rest =
                        |held: &Held| held.archives().len() == 3 && held.open_archive_count() == 3;
                    Some(held(&program)).filter(is_at_rest)
                }));
            }
        }
        wait_for_held(&program, &before.unwrap());
        // So that nothing is left but the archives.
        drop((client, program));
        program = Program::started(serve(&at("current"), &options));
        client = Client::connect(program.address());
        assert_kept(&mut client, 9, 2);
        // One that was kept is truncated: its answers are cut, and those of the others are not.
        File::options().write(true).open(at("8.tar")).unwrap().set_len(0).unwrap();
        wait_for("an answer without that release", || {
            let mut other = Client::connect(program.address());
            other.send(get(&asset(8, "large")));
            other.try_response().is_ok_and(|response| response.status == 404).then_some(())
        });
        // Each worker finds out for itself.
        wait_for("the others as before", || {
            client = Client::connect(program.address());
            client.send(get("/") + &get(&asset(7, "large")));
            let numbers = [(); 2].map(|()| client.try_response().map(|response| number_in(&response)).ok());
            (numbers == [Some(9), Some(7)]).then_some(())
        });

        drop(program);
        let without = Program::started(serve(&at("current"), &options[..4]));
        assert_eq!(Client::connect(without.address()).get(&asset(7, "small")).status, 404);
    }
}

#[test]
fn what_a_directory_had_before_it_was_written_anew_is_kept() {
    let dir = common::open_dir();
    for &engine in ENGINES {
        let write = |number| write_files(dir.path(), &release_with_assets(number));
        write(1);
        // More than one: on a busy machine it may be read while it is half written.
        let options = ["--engine", engine.name(), "--keep-releases", "5"];
        let program = Program::started(serve(dir.path(), &options));
        let mut client = Client::connect(program.address());
        fs::remove_dir_all(dir.path().join("assets")).unwrap();
        fs::remove_file(dir.path().join("page-1.html")).unwrap();
        write(2);
        wait_for("the next release", || {
            // The server may have read the directory before the last file was whole.
            let mut is_written = |(path, content): &(String, String)| {
                let response = client.get(&format!("/{path}"));
                response.status == 200 && response.content == content.as_bytes()
            };
            let mut files = release_with_assets(2);
            files[0].0.clear();
            (files.iter().all(&mut is_written) && client.get("/page-1.html").status == 404).then_some(())
        });
        assert_kept(&mut client, 2, 1);
    }
}

/// That of the releases before `number` so many are kept: what has a hash in its name, in every form, and nothing else.
#[track_caller]
fn assert_kept(client: &mut Client, number: usize, count: usize) {
    for earlier in 1..number {
        let is_kept = number - earlier <= count;
        for size in ["small", "large"] {
            let got = client.get(&asset(earlier, size));
            assert_eq!(got.status, if is_kept { 200 } else { 404 }, "{earlier}, {size}, at {number}");
            if is_kept {
                assert_eq!(number_in(&got), earlier);
                let of = |client: &mut Client, field: &str| {
                    let target = asset(earlier, size);
                    client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n"));
                    client.response()
                };
                let tag = format!("If-None-Match: {}", got.field("ETag").unwrap());
                assert_eq!(of(client, &tag).status, 304);
                let part = of(client, "Range: bytes=6-11");
                assert_eq!((part.status, &*part.content), (206, &got.content[6..12]));
                if size == "large" {
                    let parts = of(client, "Range: bytes=0-5, 12-17");
                    assert!(
                        parts.status == 206 && parts.content.windows(6).any(|part| part == &got.content[..6])
                    );
                }
            }
        }
        assert_eq!(client.get(&format!("/page-{earlier}.html")).status, 404);
        assert_eq!(client.get(&format!("/assets/plain-{earlier}.js")).status, 404);
    }
    assert_eq!(number_in(&client.get("/assets/both-B4qfzvDp.js")), number, "the current one has it too");
}

/// A release with files of its own: with a hash in the name, without one, and a page.
fn release_with_assets(number: usize) -> Vec<(String, String)> {
    let [(_, small), _, (_, large)] = release(number);
    vec![
        ("index.html".into(), small.clone()),
        (format!("page-{number}.html"), small.clone()),
        (format!("assets/plain-{number}.js"), small.clone()),
        ("assets/both-B4qfzvDp.js".into(), small.clone()),
        (asset(number, "small"), small),
        (asset(number, "large"), large),
    ]
    .into_iter()
    .map(|(path, content)| (path.trim_start_matches('/').to_owned(), content))
    .collect()
}

fn asset(number: usize, size: &str) -> String {
    format!("/assets/{size}-1a2b3c{number:02}.js")
}

/// Clients that keep their connections get every response whole and of one release, never of an earlier one than before;
/// in the end the server holds what it held at first.
fn follow_each_other_under_load(engine: Engine, switch: fn(&Path, usize)) {
    const SWITCH_COUNT: usize = 100;
    const CLIENT_COUNT: usize = 3;
    let releases = common::open_dir();
    switch(releases.path(), 0);
    let current = releases.path().join("current");
    let program = Program::started(serve(&current, &["--engine", engine.name(), "--workers", "2"]));
    let before = held_at_rest(&program);
    assert!(!before.maps.is_empty(), "{engine}");
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENT_COUNT)
            .map(|_| scope.spawn(|| ask_until(&over, Client::connect(program.address()))))
            .collect();
        let mut client = Client::connect(program.address());
        for number in 1..=SWITCH_COUNT {
            switch(releases.path(), number);
            wait_for("the next release", || (number_in(&client.get("/")) == number).then_some(()));
        }
        over.store(true, Relaxed);
        for client in clients {
            let asked = client.join().unwrap();
            assert!(asked > SWITCH_COUNT, "{engine}: {asked} requests");
        }
    });
    assert_eq!(program.err(), "", "{engine}");
    wait_for_held(&program, &before);
}

/// Asks for everything, in turn and all at once, on one connection. Returns how often.
fn ask_until(over: &AtomicBool, mut client: Client) -> usize {
    let mut seen = [0; TARGETS.len()];
    let mut asked = 0;
    while !over.load(Relaxed) {
        for (target, seen) in TARGETS.iter().zip(&mut seen) {
            let number = number_in(&client.get(target));
            assert!(number >= *seen, "{target}: release {number} behind {seen}");
            *seen = number;
        }
        client.send(TARGETS.map(get).concat());
        for seen in &mut seen {
            let number = number_in(&client.response());
            assert!(number >= *seen, "release {number} behind {seen}");
            *seen = number;
        }
        asked += 2 * TARGETS.len();
        thread::sleep(Duration::from_millis(1));
    }
    asked
}

/// Copied, gathered, and sent from the descriptor.
const TARGETS: [&str; 3] = ["/", "/middle.txt", "/large.txt"];

/// What a release has: in each file its number, again and again, and more often than the one before.
fn release(number: usize) -> [(&'static str, String); 3] {
    let content = |count: usize| format!("{number:05} ").repeat(count + number);
    [("index.html", content(20)), ("middle.txt", content(1_200)), ("large.txt", content(15_000))]
}

/// Which release a response is of.
///
/// # Panics
/// It is not of one alone.
#[track_caller]
fn number_in(response: &Response) -> usize {
    assert_eq!(response.status, 200, "{response:?}");
    let front =
        response.content.get(..5).and_then(|front| std::str::from_utf8(front).ok()).expect("a number");
    let number = front.parse().expect("a number");
    let is_whole = release(number).iter().any(|(_, content)| content.as_bytes() == response.content);
    assert!(is_whole, "a response of release {number}, of {} bytes", response.content.len());
    number
}

/// A release becomes the current one by a link to another archive, or by another archive in its place.
fn packed_switch(releases: &Path, number: usize) {
    let next = releases.join("next");
    pack(&release(number), &next);
    match number % 2 {
        0 => {
            let name = format!("{number}.tar");
            fs::rename(next, releases.join(&name)).unwrap();
            point(releases, &name);
        }
        _ => fs::rename(next, current(releases)).unwrap(),
    }
}

/// A release becomes the current one by a link to another directory, or by other files in the same.
fn directory_switch(releases: &Path, number: usize) {
    match number % 2 {
        0 => {
            let name = number.to_string();
            write_files(&releases.join(&name), &release(number));
            point(releases, &name);
        }
        _ => {
            write_files(&releases.join("next"), &release(number));
            for (name, _) in release(number) {
                fs::rename(releases.join("next").join(name), current(releases).join(name)).unwrap();
            }
        }
    }
}

/// What a program holds: maps of sites, and descriptors, with what they are of. proc(5), /proc/pid/maps.
#[derive(Debug)]
struct Held {
    maps: Vec<String>,
    descriptors: Vec<PathBuf>,
}

impl Held {
    fn counts(&self) -> [usize; 2] {
        [self.maps.len(), self.descriptors.len()]
    }

    /// Descriptors of archives, each as often as it is open.
    fn open_archive_count(&self) -> usize {
        self.descriptors.iter().filter(|path| path.display().to_string().contains(".tar")).count()
    }

    /// That are mapped or open.
    fn archives(&self) -> BTreeSet<String> {
        let mapped = self.maps.iter().filter_map(|line| line.find('/').map(|at| line[at..].to_owned()));
        let open = self.descriptors.iter().map(|path| path.display().to_string());
        mapped.chain(open).filter(|path| path.contains(".tar")).collect()
    }
}

fn held(program: &Program) -> Held {
    let of = |what: &str| format!("/proc/{}/{what}", program.server().as_raw_nonzero());
    let maps = fs::read_to_string(of("maps")).unwrap();
    let is_site = |line: &&str| line.contains("/memfd:") || line.contains(".tar") || line.contains("/next");
    let descriptors = fs::read_dir(of("fd")).unwrap();
    Held {
        maps: maps.lines().filter(is_site).map(str::to_owned).collect(),
        // One may be closed meanwhile; and what a worker waits with, it makes when it begins.
        descriptors: descriptors
            .filter_map(|entry| fs::read_link(entry.unwrap().path()).ok())
            .filter(|of| {
                !of.starts_with("anon_inode:[eventpoll]") && !of.starts_with("anon_inode:[io_uring]")
            })
            .collect(),
    }
}

/// The same when it has stayed so for a moment: what it has just been sent it may have twice.
fn held_at_rest(program: &Program) -> Held {
    wait_for("rest", || {
        let before = held(program);
        thread::sleep(Duration::from_millis(100));
        Some(held(program)).filter(|now| now.counts() == before.counts())
    })
}

/// Waits until it holds as much as then.
#[track_caller]
fn wait_for_held(program: &Program, then: &Held) {
    let since = Instant::now();
    loop {
        let now = held(program);
        if now.counts() == then.counts() {
            return;
        }
        assert!(since.elapsed() < PATIENCE, "held: {now:#?}, and then: {then:#?}");
        thread::sleep(Duration::from_millis(20));
    }
}
