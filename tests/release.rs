//! `tarpon release`: one of the packed sites in a directory is current, whoever changes that, and whatever happens meanwhile.

#![allow(clippy::disallowed_methods, reason = "a test names files of its own")]

mod common;

use common::{
    ENGINES,
    client::TestClient,
    program::{ProgramExit, RunningProgram, serve, tarpon},
    releases::{current, pack, set_current},
    wait_for,
};
use rustix::{
    fs::{FlockOperation, flock},
    process::Signal,
};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};
use tarpon::Releases;
use tempfile::TempDir;

#[test]
fn what_is_activated_is_served_and_a_rollback_goes_back() {
    let dir = releases(&["a.tar", "b.tar", "c.tar"]);
    assert_said(&run(dir.path(), "activate", &["a.tar"]), "a.tar is current\n");
    for &engine in ENGINES {
        run(dir.path(), "activate", &["a.tar"]);
        let program =
            RunningProgram::start_ready(serve(&dir.path().join("current"), &["--engine", engine.name()]));
        let mut client = TestClient::connect(program.address());
        let mut assert_served = |name: &str| {
            wait_for(name, || (client.get("/").content == name.as_bytes()).then_some(()));
        };
        assert_served("a.tar");
        assert_said(&run(dir.path(), "activate", &["b.tar"]), "b.tar is current, a.tar was before\n");
        assert_served("b.tar");
        assert_said(&run(dir.path(), "activate", &["b.tar"]), "b.tar is current already\n");
        assert_said(
            &run(dir.path(), "activate", &["--verify", "c.tar"]),
            "c.tar is current, b.tar was before\n",
        );
        assert_served("c.tar");
        assert_said(&run(dir.path(), "rollback", &[]), "b.tar is current, c.tar was before\n");
        assert_served("b.tar");
        assert_said(&run(dir.path(), "rollback", &[]), "a.tar is current, b.tar was before\n");
        assert_served("a.tar");
        assert_eq!(program.err(), "", "{engine}");
    }
}

#[test]
fn a_list_shows_which_is_current_which_was_before_and_which_is_broken() {
    let dir = releases(&["a.tar", "b.tar", "c.tar"]);
    let cut = fs::read(dir.path().join("c.tar")).unwrap();
    fs::write(dir.path().join("d.tar"), &cut[..cut.len() - 1]).unwrap();
    // What is no release.
    fs::write(dir.path().join("notes.txt"), "").unwrap();
    fs::write(dir.path().join(".next.tar"), "").unwrap();
    fs::create_dir(dir.path().join("directory.tar")).unwrap();
    for (name, days) in [("a.tar", 3), ("b.tar", 2), ("c.tar", 4), ("d.tar", 1)] {
        let file = File::options().write(true).open(dir.path().join(name)).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(days * 86_400)).unwrap();
    }
    run(dir.path(), "activate", &["c.tar"]);
    run(dir.path(), "activate", &["a.tar"]);
    let listed = run(dir.path(), "list", &[]);
    let rows: Vec<_> = listed.out.lines().collect();
    assert!(rows.len() == 5 && rows[0].starts_with("release  modified (UTC)"), "{listed:?}");
    let len = cut.len() as f64 / 1024.0;
    for (row, begin, end) in [
        (1, "c.tar    05 Jan 1970 00:00:00", "  before"),
        (2, "a.tar    04 Jan 1970 00:00:00", "  current"),
        (3, "b.tar    03 Jan 1970 00:00:00", "  1"),
        (
            4,
            "d.tar    02 Jan 1970 00:00:00",
            "cut short, or something was appended to it; see tarpon verify, and pack the site again",
        ),
    ] {
        assert!(rows[row].starts_with(begin) && rows[row].ends_with(end), "{listed:?}");
        assert!(rows[row].contains(&format!("{len:.1} KiB")), "{listed:?}");
    }
}

#[test]
fn what_cannot_be_activated_is_told_with_its_remedy_and_changes_nothing() {
    let dir = releases(&["a.tar", "b.tar"]);
    let at = |name: &str| dir.path().join(name);
    let good = fs::read(at("b.tar")).unwrap();
    fs::write(at("cut.tar"), &good[..good.len() / 2]).unwrap();
    fs::write(at("text.tar"), "no archive").unwrap();
    // A content, which the tables know nothing of.
    let mut damaged = good.clone();
    let content = damaged.windows(5).position(|window| window == b"b.tar").unwrap();
    damaged[content] ^= 1;
    fs::write(at("damaged.tar"), &damaged).unwrap();
    let plain = Command::new("tar")
        .args(["-cf"])
        .arg(at("plain.tar"))
        .arg("-C")
        .arg(dir.path())
        .arg("b.tar")
        .status();
    assert!(plain.expect("tar").success());
    run(dir.path(), "activate", &["a.tar"]);
    #[rustfmt::skip]
    let cases: &[(&str, &[&str], &str)] = &[
        ("activate", &["missing.tar"],             "there is no such file in "),
        ("activate", &["../b.tar"],                "it is a path, not the name of a release; see tarpon release list "),
        ("activate", &["current"],                 "it is not the name of a release, such as 2026-11-21.tar"),
        ("activate", &["x\ny.tar"],                "it is not the name of a release"),
        ("activate", &["cut.tar"],                 "cut short, or something was appended to it; see tarpon verify"),
        ("activate", &["text.tar"],                "it is no tar archive"),
        ("activate", &["plain.tar"],               "it is not a packed site; pack it, as with tarpon pack DIR -o FILE"),
        ("activate", &["damaged.tar", "--verify"], "of the image are damaged, and 1 more; download it again"),
        ("rollback", &[],                          "no release was active before; see tarpon release list "),
    ];
    for (action, arguments, want) in cases {
        let ended = run(dir.path(), action, arguments);
        assert!(!ended.status.success() && ended.error_line().contains(want), "{arguments:?}: {ended:?}");
        assert_eq!(current(dir.path()), at("a.tar").canonicalize().unwrap(), "{arguments:?}");
    }
    let missing = run(&at("nowhere"), "list", &[]);
    assert!(
        missing
            .error_line()
            .contains("no such file or directory; name the directory that contains your packed sites")
    );

    fs::write(at(".tarpon.history"), "activate 5 a.tar\nremove 5 a.tar\n").unwrap();
    assert!(run(dir.path(), "rollback", &[]).error_line().contains("line 2 is damaged; remove that line"));
    fs::remove_file(at(".tarpon.history")).unwrap();
    set_current(dir.path(), "/elsewhere/a.tar");
    assert!(
        run(dir.path(), "list", &[]).error_line().contains("it leads out of the directory; move it away")
    );
    fs::remove_file(at("current")).unwrap();
    fs::write(at("current"), "precious").unwrap();
    assert!(
        run(dir.path(), "activate", &["b.tar"])
            .error_line()
            .contains("it is not a symbolic link; move it away")
    );
    assert_eq!(fs::read(at("current")).unwrap(), b"precious");
}

#[test]
fn a_link_that_was_changed_by_hand_counts() {
    let dir = releases(&["a.tar", "b.tar", "c.tar"]);
    // As ln -s would have it, with the whole path; and nothing is remembered.
    set_current(dir.path(), dir.path().join("a.tar").to_str().unwrap());
    assert_said(&run(dir.path(), "activate", &["b.tar"]), "b.tar is current, a.tar was before\n");
    set_current(dir.path(), "c.tar");
    assert_said(&run(dir.path(), "rollback", &[]), "b.tar is current, c.tar was before\n");
    assert_said(&run(dir.path(), "rollback", &[]), "a.tar is current, b.tar was before\n");
}

#[test]
fn two_at_once_change_the_link_one_after_the_other() {
    let names = ["a.tar", "b.tar"];
    let dir = releases(&names);
    run(dir.path(), "activate", &["a.tar"]);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let changers = names.map(|name| {
            scope.spawn(|| {
                for _ in 0..15 {
                    let ended = run(dir.path(), "activate", &[name]);
                    assert!(ended.status.success(), "{ended:?}");
                }
            })
        });
        let reader = scope.spawn(|| {
            while !over.load(Relaxed) {
                let current = current(dir.path());
                assert!(names.iter().any(|name| current.ends_with(name)), "{}", current.display());
            }
        });
        changers.into_iter().for_each(|changer| changer.join().unwrap());
        over.store(true, Relaxed);
        reader.join().unwrap();
    });
    // Each change was made to what the one before had left.
    let history = fs::read_to_string(dir.path().join(".tarpon.history")).unwrap();
    let active: Vec<_> = history.lines().map(|line| line.rsplit_once(' ').unwrap().1).collect();
    assert!(active.windows(2).all(|pair| pair[0] != pair[1]), "{history}");
    assert!(current(dir.path()).ends_with(active.last().unwrap()), "{history}");
}

#[test]
fn who_has_to_wait_is_told_for_whom() {
    let dir = releases(&["a.tar"]);
    let lock = File::create(dir.path().join(".tarpon.lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    fs::write(dir.path().join(".tarpon.lock"), "4711\n").unwrap();
    let mut waiting = RunningProgram::start(release(dir.path(), "activate", &["a.tar"]));
    wait_for("a word", || waiting.err().contains("waiting for process 4711, which changes").then_some(()));
    assert!(waiting.is_running() && !dir.path().join("current").exists());
    drop(lock);
    assert_said(&waiting.wait(), "a.tar is current\n");
}

#[test]
fn whoever_is_stopped_midway_leaves_the_one_or_the_other() {
    let dir = releases(&["a.tar", "b.tar"]);
    let at = |name: &str| dir.path().join(name);
    run(dir.path(), "activate", &["a.tar"]);
    for number in 0..40 {
        let program =
            RunningProgram::start(release(dir.path(), "activate", &[["b.tar", "a.tar"][number % 2]]));
        thread::sleep(Duration::from_micros(100) * number as u32);
        // It may have ended.
        let _ = rustix::process::kill_process(program.pid(), Signal::KILL);
        drop(program);
        assert!(["a.tar", "b.tar"].iter().any(|name| current(dir.path()).ends_with(name)));
        assert!(run(dir.path(), "list", &[]).status.success());
    }
    // Stopped between each two of its steps.
    run(dir.path(), "activate", &["a.tar"]);
    // One that was killed may have left it already.
    let _ = fs::remove_file(at(".tarpon.link"));
    std::os::unix::fs::symlink("half", at(".tarpon.link")).unwrap();
    fs::write(at(".tarpon.history.new"), "activate 5").unwrap();
    set_current(dir.path(), "b.tar");
    assert_said(&run(dir.path(), "rollback", &[]), "a.tar is current, b.tar was before\n");
}

#[test]
fn no_link_leads_what_is_written_elsewhere() {
    let dir = releases(&["a.tar", "b.tar"]);
    let at = |name: &str| dir.path().join(name);
    fs::write(at("other"), "of somebody else").unwrap();
    run(dir.path(), "activate", &["a.tar"]);
    std::os::unix::fs::symlink("other", at(".tarpon.history.new")).unwrap();
    assert!(run(dir.path(), "activate", &["b.tar"]).status.success());
    fs::remove_file(at(".tarpon.lock")).unwrap();
    std::os::unix::fs::symlink("other", at(".tarpon.lock")).unwrap();
    let refused = run(dir.path(), "activate", &["a.tar"]);
    assert!(!refused.status.success() && refused.err.contains(".tarpon.lock"), "{refused:?}");
    assert!(current(dir.path()).ends_with("b.tar"));
    assert_eq!(fs::read_to_string(at("other")).unwrap(), "of somebody else");
}

/// A directory of packed sites, each with its own name for a page.
#[test]
fn a_history_that_others_have_written_leads_nowhere_else() {
    let outer = common::readable_dir();
    let dir = outer.path().join("releases");
    fs::create_dir(&dir).unwrap();
    let elsewhere = outer.path().join("x.tar");
    for archive in [&dir.join("a.tar"), &dir.join("b.tar"), &elsewhere] {
        pack(&[("index.html", "home")], archive);
    }
    run(&dir, "activate", &["b.tar"]);
    run(&dir, "activate", &["a.tar"]);
    let (link, history) = (dir.join("current"), dir.join(".tarpon.history"));
    assert_eq!(Releases::earlier_archives(&link), [dir.join("b.tar")]);
    for outside in [elsewhere.to_str().unwrap(), "../x.tar", "a.tar/../../x.tar"] {
        fs::write(&history, format!("activate 5 {outside}\nactivate 6 a.tar\n")).unwrap();
        assert_eq!(Releases::earlier_archives(&link), Vec::<PathBuf>::new(), "{outside}");
        let ended = run(&dir, "rollback", &[]);
        assert!(ended.error_line().contains("line 1 is damaged; remove that line"), "{outside}: {ended:?}");
        assert_eq!(current(&dir), dir.join("a.tar").canonicalize().unwrap(), "{outside}");
    }
}

fn releases(names: &[&str]) -> TempDir {
    let dir = common::readable_dir();
    for name in names {
        pack(&[("index.html", name)], &dir.path().join(name));
    }
    dir
}

fn release(dir: &Path, action: &str, arguments: &[&str]) -> Command {
    let mut command = tarpon(["release".as_ref(), action.as_ref(), dir.as_os_str()]);
    command.args(arguments);
    command
}

fn run(dir: &Path, action: &str, arguments: &[&str]) -> ProgramExit {
    RunningProgram::run(release(dir, action, arguments))
}

#[track_caller]
fn assert_said(ended: &ProgramExit, want: &str) {
    assert!(ended.status.success() && ended.out == want, "{ended:?}");
}
