//! Releases: one takes the place of another, and no client notices.

mod common;

use common::{
    ENGINES,
    client::{Client, Response, get},
    program::{Program, serve},
    releases::{current, pack, point},
    wait_for, write_files,
};
use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};
use tarpon::Engine;

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
    let releases = tempfile::tempdir().unwrap();
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
            wait_for(name, || program.err()[warned..].contains("is still served").then_some(()));
            assert!(program.err()[warned..].contains(why), "{name}: {}", program.err());
            assert_eq!(number_in(&client.get("/")), number, "{engine}, {name}");
            number += 1;
            packed_switch(releases.path(), number);
            wait_for("the next release", || (number_in(&client.get("/")) == number).then_some(()));
        }
        // A link that leads nowhere.
        let warned = program.err().len();
        point(releases.path(), "missing");
        wait_for("a warning", || program.err()[warned..].contains("no such file").then_some(()));
        assert_eq!(number_in(&client.get("/")), number, "{engine}");
    }
}

/// Clients that keep their connections get every response whole and of one release, never of an earlier one than before;
/// in the end the server holds what it held at first.
fn follow_each_other_under_load(engine: Engine, switch: fn(&Path, usize)) {
    const SWITCH_COUNT: usize = 100;
    const CLIENT_COUNT: usize = 3;
    let releases = tempfile::tempdir().unwrap();
    switch(releases.path(), 0);
    let current = releases.path().join("current");
    let program = Program::started(serve(&current, &["--engine", engine.name(), "--workers", "2"]));
    let before = held(&program);
    assert!(before.map_count > 0, "{engine}");
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
    wait_for(&format!("{engine}: {before:?}, as at first"), || (held(&program) == before).then_some(()));
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

/// What a program holds of sites: maps, and descriptors of all kinds. proc(5), /proc/pid/maps.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    map_count: usize,
    descriptor_count: usize,
}

fn held(program: &Program) -> Held {
    let of = |what: &str| format!("/proc/{}/{what}", program.pid().as_raw_nonzero());
    let maps = fs::read_to_string(of("maps")).unwrap();
    let is_site = |line: &&str| line.contains("/memfd:") || line.contains(".tar") || line.contains("/next");
    Held {
        map_count: maps.lines().filter(is_site).count(),
        descriptor_count: fs::read_dir(of("fd")).unwrap().count(),
    }
}
