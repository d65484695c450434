//! Releases: one release replaces another without an effect on clients.

use crate::common::{
    ENGINES, TEST_TIMEOUT,
    client::{Response, TestClient, get},
    load::{SetOnDrop, pause},
    program::{RunningProgram, has_exited, serve},
    releases::{current, pack, set_current},
    seeds_factor, site, wait_for, write_files,
};
use rustix::process::{Signal, kill_process};
use std::{
    collections::BTreeSet,
    fs::{self, File},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Instant,
};
use tarpon::{Engine, Releases};

#[test]
fn packed_releases_replace_each_other_under_load() {
    thread::scope(|scope| {
        for &engine in ENGINES {
            scope.spawn(move || switch_under_load(engine, packed_switch));
        }
    });
}

#[test]
fn directories_replace_each_other_under_load() {
    thread::scope(|scope| {
        for &engine in ENGINES {
            scope.spawn(move || switch_under_load(engine, directory_switch));
        }
    });
}

#[test]
fn damaged_release_is_refused_and_the_current_one_stays() {
    let releases = crate::common::readable_dir();
    let at = |name: &str| releases.path().join(name);
    pack(&release(0), &at("good.tar"));
    let good = fs::read(at("good.tar")).unwrap();
    let mut damaged = good.clone();
    // A byte of the header of the image, which is the first member.
    damaged[4096 + 40] ^= 1;
    #[rustfmt::skip]
    let cases: &[(&str, &[u8], &str)] = &[
        ("cut",      &good[..good.len() / 2], "cut short"),
        ("damaged",  &damaged,                "the header is damaged"),
        ("empty",    b"",                     "not a tar archive"),
        ("zip",      b"PK\x03\x04",           "it is a zip archive"),
        ("text",     b"release 7",            "not a tar archive"),
    ];
    for &engine in ENGINES {
        set_current(releases.path(), "good.tar");
        let program = RunningProgram::start_ready(serve(&at("current"), &["--engine", engine.name()]));
        let mut client = TestClient::connect(program.address());
        let mut number = 0;
        for (name, bytes, why) in cases {
            fs::write(at(name), bytes).unwrap();
            let warned = program.err().len();
            set_current(releases.path(), name);
            wait_for(name, || program.err()[warned..].contains("still serving").then_some(()));
            assert!(program.err()[warned..].contains(why), "{name}: {}", program.err());
            assert_eq!(number_in(&client.get("/")), number, "{engine}, {name}");
            number += 1;
            packed_switch(releases.path(), number);
            wait_for("the next release", || (number_in(&client.get("/")) == number).then_some(()));
        }
        // A dangling link.
        let warned = program.err().len();
        set_current(releases.path(), "missing");
        wait_for("a warning", || program.err()[warned..].contains("does not exist").then_some(()));
        assert_eq!(number_in(&client.get("/")), number, "{engine}");
    }
}

#[test]
fn retained_assets_outlive_a_reload_without_changes() {
    const FIRST_ASSET: &str = "/assets/app-B4qfzvDp.js";
    let dir =
        site(&[("1/index.html", "one"), ("1/assets/app-B4qfzvDp.js", "first"), ("2/index.html", "two")]);
    set_current(dir.path(), "1");
    let program = RunningProgram::start_ready(serve(&dir.path().join("current"), &["--keep-releases", "1"]));
    let ask = |target: &str| TestClient::connect(program.address()).get(target).content;
    assert_eq!(ask(FIRST_ASSET), b"first");
    set_current(dir.path(), "2");
    wait_for("the second release", || (ask("/") == b"two").then_some(()));
    assert_eq!(ask(FIRST_ASSET), b"first");
    let changes = || program.out().matches("read the site again").count();
    // The server may serve the change before the supervisor prints the message of the builder.
    let before = wait_for("the message", || Some(changes()).filter(|&count| count > 0));
    write_files(dir.path(), &[("2/.hidden", "not served")]);
    wait_for("a reload", || (changes() > before).then_some(()));
    let server = program.server();
    kill_process(server, Signal::KILL).expect("a server");
    wait_for("another server", || (has_exited(server) && program.server() != server).then_some(()));
    let first = program.connect_after_kill().get(FIRST_ASSET).content;
    assert_eq!(first, b"first", "from the releases that the supervisor retains");
}

#[test]
fn assets_of_earlier_releases_with_a_hash_in_their_names_are_retained() {
    for &engine in ENGINES {
        let releases = crate::common::readable_dir();
        let options = ["--engine", engine.name(), "--workers", "1", "--keep-releases", "2"];
        let at = |name: &str| releases.path().join(name);
        let activate = |number: usize| {
            pack(&release_with_assets(number), &at(&format!("{number}.tar")));
            Releases::new(releases.path()).unwrap().activate(&format!("{number}.tar"), None, |_| {}).unwrap();
        };
        activate(1);
        let mut program = RunningProgram::start_ready(serve(&at("current"), &options));
        let mut client = TestClient::connect(program.address());
        let mut before = None;
        for number in 2..=9 {
            activate(number);
            wait_for("the next release", || (number_in(&client.get("/")) == number).then_some(()));
            assert_retained(&mut client, number, 2);
            // The server holds the archives of the current release and of two earlier ones.
            if number == 4 {
                // A worker that has not received the release yet holds one archive more.
                before = Some(wait_for("three archives", || {
                    // Each is open once: none is on its way to a worker.
                    let is_at_rest =
                        |files: &OpenFiles| files.archives().len() == 3 && files.open_archive_count() == 3;
                    Some(open_files(&program)).filter(is_at_rest)
                }));
            }
        }
        wait_for_open_files(&program, &before.unwrap());
        // The next program has only the archives.
        drop((client, program));
        program = RunningProgram::start_ready(serve(&at("current"), &options));
        client = TestClient::connect(program.address());
        assert_retained(&mut client, 9, 2);
        // After a retained archive is truncated, its assets are missing, and the other releases are complete.
        File::options().write(true).open(at("8.tar")).unwrap().set_len(0).unwrap();
        wait_for("a response without that release", || {
            let mut other = TestClient::connect(program.address());
            other.send(get(&asset(8, "large")));
            other.try_response().is_ok_and(|response| response.status == 404).then_some(())
        });
        // Each worker notices the truncation by itself.
        wait_for("the other releases", || {
            client = TestClient::connect(program.address());
            client.send(get("/") + &get(&asset(7, "large")));
            let numbers = [(); 2].map(|()| client.try_response().map(|response| number_in(&response)).ok());
            (numbers == [Some(9), Some(7)]).then_some(())
        });

        drop(program);
        let without = RunningProgram::start_ready(serve(&at("current"), &options[..4]));
        assert_eq!(TestClient::connect(without.address()).get(&asset(7, "small")).status, 404);
    }
}

#[test]
fn assets_of_a_rewritten_directory_are_retained() {
    let dir = crate::common::readable_dir();
    for &engine in ENGINES {
        let write = |number| write_files(dir.path(), &release_with_assets(number));
        write(1);
        // More than one, as the server may read a half-written directory as a release.
        let options = ["--engine", engine.name(), "--keep-releases", "5"];
        let program = RunningProgram::start_ready(serve(dir.path(), &options));
        let mut client = TestClient::connect(program.address());
        fs::remove_dir_all(dir.path().join("assets")).unwrap();
        fs::remove_file(dir.path().join("page-1.html")).unwrap();
        write(2);
        wait_for("the next release", || {
            // The server may have read the directory before the last file was complete.
            let mut is_written = |(path, content): &(String, String)| {
                let response = client.get(&format!("/{path}"));
                response.status == 200 && response.content == content.as_bytes()
            };
            let mut files = release_with_assets(2);
            files[0].0.clear();
            (files.iter().all(&mut is_written) && client.get("/page-1.html").status == 404).then_some(())
        });
        assert_retained(&mut client, 2, 1);
    }
}

/// Checks that the server retains the assets of `count` releases before `number`: only files with a hash in their names, in every form.
#[track_caller]
fn assert_retained(client: &mut TestClient, number: usize, count: usize) {
    for earlier in 1..number {
        let is_retained = number - earlier <= count;
        for size in ["small", "large"] {
            let got = client.get(&asset(earlier, size));
            assert_eq!(got.status, if is_retained { 200 } else { 404 }, "{earlier}, {size}, at {number}");
            if is_retained {
                assert_eq!(number_in(&got), earlier);
                let of = |client: &mut TestClient, field: &str| {
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
    assert_eq!(
        number_in(&client.get("/assets/both-B4qfzvDp.js")),
        number,
        "the current release has this asset too"
    );
}

/// Returns the files of a release: assets with and without a hash in their names, and a page.
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

/// Clients with persistent connections get complete responses of one release each, and never of an older release than before. In the end
/// the server has as many maps and descriptors as at first.
fn switch_under_load(engine: Engine, switch: fn(&Path, usize)) {
    const CLIENT_COUNT: usize = 3;
    let switch_count = 20 * seeds_factor();
    let releases = crate::common::readable_dir();
    switch(releases.path(), 0);
    let current = releases.path().join("current");
    // No limit of requests: on a busy machine the switches take long enough for more than the default of 100,000.
    let options = ["--engine", engine.name(), "--workers", "2", "--keepalive-requests", "4294967295"];
    let program = RunningProgram::start_ready(serve(&current, &options));
    let before = open_files(&program);
    assert!(!before.maps.is_empty(), "{engine}");
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stops = SetOnDrop(&stop);
        let clients: Vec<_> = (0..CLIENT_COUNT)
            .map(|_| scope.spawn(|| ask_until(&stop, TestClient::connect(program.address()))))
            .collect();
        let mut client = TestClient::connect(program.address());
        for number in 1..=switch_count {
            switch(releases.path(), number);
            wait_for("the next release", || (number_in(&client.get("/")) == number).then_some(()));
        }
        stop.store(true, Relaxed);
        for client in clients {
            let request_count = client.join().unwrap();
            assert!(request_count > switch_count, "{engine}: {request_count} requests");
        }
    });
    assert_eq!(program.err(), "", "{engine}");
    wait_for_open_files(&program, &before);
}

/// Requests all files on one connection, one by one and pipelined. Returns the number of requests.
fn ask_until(stop: &AtomicBool, mut client: TestClient) -> usize {
    let mut seen = [0; TARGETS.len()];
    let mut request_count = 0;
    while !stop.load(Relaxed) {
        for (target, seen) in TARGETS.iter().zip(&mut seen) {
            let number = number_in(&client.get(target));
            assert!(number >= *seen, "{target}: release {number} after {seen}");
            *seen = number;
        }
        client.send(TARGETS.map(get).concat());
        for seen in &mut seen {
            let number = number_in(&client.response());
            assert!(number >= *seen, "release {number} after {seen}");
            *seen = number;
        }
        request_count += 2 * TARGETS.len();
        pause();
    }
    request_count
}

/// The server copies the first file into the response, gathers the second, and sends the third from its descriptor.
const TARGETS: [&str; 3] = ["/", "/middle.txt", "/large.txt"];

/// Returns the files of a release. Each repeats the number of the release, once more than in the previous release.
fn release(number: usize) -> [(&'static str, String); 3] {
    let content = |count: usize| format!("{number:05} ").repeat(count + number);
    [("index.html", content(20)), ("middle.txt", content(1_200)), ("large.txt", content(15_000))]
}

/// Returns the release of a response.
///
/// # Panics
/// If the response is incomplete or mixes releases.
#[track_caller]
fn number_in(response: &Response) -> usize {
    assert_eq!(response.status, 200, "{response:?}");
    let front =
        response.content.get(..5).and_then(|front| std::str::from_utf8(front).ok()).expect("a number");
    let number = front.parse().expect("a number");
    let is_complete = release(number).iter().any(|(_, content)| content.as_bytes() == response.content);
    assert!(is_complete, "a response of release {number}, of {} bytes", response.content.len());
    number
}

/// Switches to a release with a link to its archive, or by a rename of its archive onto the current one.
fn packed_switch(releases: &Path, number: usize) {
    let next = releases.join("next");
    pack(&release(number), &next);
    match number % 2 {
        0 => {
            let name = format!("{number}.tar");
            fs::rename(next, releases.join(&name)).unwrap();
            set_current(releases, &name);
        }
        _ => fs::rename(next, current(releases)).unwrap(),
    }
}

/// Switches to a release with a link to its directory, or with new files in the current directory.
fn directory_switch(releases: &Path, number: usize) {
    match number % 2 {
        0 => {
            let name = number.to_string();
            write_files(&releases.join(&name), &release(number));
            set_current(releases, &name);
        }
        _ => {
            write_files(&releases.join("next"), &release(number));
            for (name, _) in release(number) {
                fs::rename(releases.join("next").join(name), current(releases).join(name)).unwrap();
            }
        }
    }
}

/// The maps and the descriptors of sites in a server process. proc(5), /proc/pid/maps.
#[derive(Debug)]
struct OpenFiles {
    maps: Vec<String>,
    descriptors: Vec<PathBuf>,
}

impl OpenFiles {
    fn counts(&self) -> [usize; 2] {
        [self.maps.len(), self.descriptors.len()]
    }

    /// Counts the descriptors of archives.
    fn open_archive_count(&self) -> usize {
        self.descriptors.iter().filter(|path| path.display().to_string().contains(".tar")).count()
    }

    /// Returns the archives that are mapped or open.
    fn archives(&self) -> BTreeSet<String> {
        let mapped = self.maps.iter().filter_map(|line| line.find('/').map(|at| line[at..].to_owned()));
        let open = self.descriptors.iter().map(|path| path.display().to_string());
        mapped.chain(open).filter(|path| path.contains(".tar")).collect()
    }
}

fn open_files(program: &RunningProgram) -> OpenFiles {
    let of = |what: &str| format!("/proc/{}/{what}", program.server().as_raw_nonzero());
    let maps = fs::read_to_string(of("maps")).unwrap();
    let is_site = |line: &&str| line.contains("/memfd:") || line.contains(".tar") || line.contains("/next");
    let descriptors = fs::read_dir(of("fd")).unwrap();
    OpenFiles {
        maps: maps.lines().filter(is_site).map(str::to_owned).collect(),
        // A descriptor may be closed at the same time. Sockets, pipes and `anon_inode` belong to workers, which may still start.
        descriptors: descriptors
            .filter_map(|entry| fs::read_link(entry.unwrap().path()).ok())
            .filter(|of| of.starts_with("/") && !of.starts_with("/dev"))
            .collect(),
    }
}

/// Waits until the server has no more maps and descriptors than then. Right after it received a site, the server may hold the site twice.
#[track_caller]
fn wait_for_open_files(program: &RunningProgram, then: &OpenFiles) {
    let mut now = open_files(program);
    let since = Instant::now();
    while now.counts().iter().zip(then.counts()).any(|(now, then)| *now > then) {
        assert!(since.elapsed() < TEST_TIMEOUT, "now: {now:#?}, then: {then:#?}");
        pause();
        now = open_files(program);
    }
}
