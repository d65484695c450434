//! `tarpon release`: exactly one of the packed sites in a directory is current, also with concurrent changes and after a kill.

use crate::common::{
    ENGINES,
    client::TestClient,
    program::{ProgramExit, RunningProgram, serve, tarpon},
    releases::{current, pack, set_current},
    seeds_factor, wait_for,
};
use rustix::{
    fs::{FlockOperation, flock},
    process::Signal,
};
use serde_json::Value;
use std::{
    fs::{self, File},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, UNIX_EPOCH},
};
use tarpon::Releases;
use tempfile::TempDir;

#[test]
fn activate_serves_a_release_and_rollback_serves_the_previous_one() {
    let dir = releases(&["a.tar", "b.tar", "c.tar"]);
    assert_output(&run(dir.path(), "activate", &["a.tar"]), "a.tar is current\n");
    for &engine in ENGINES {
        run(dir.path(), "activate", &["a.tar"]);
        let program =
            RunningProgram::start_ready(serve(&dir.path().join("current"), &["--engine", engine.name()]));
        let mut client = TestClient::connect(program.address());
        let mut assert_served = |name: &str| {
            wait_for(name, || (client.get("/").content == name.as_bytes()).then_some(()));
        };
        assert_served("a.tar");
        assert_output(&run(dir.path(), "activate", &["b.tar"]), "b.tar is current; a.tar was before\n");
        assert_served("b.tar");
        assert_output(&run(dir.path(), "activate", &["b.tar"]), "b.tar is already current\n");
        assert_output(
            &run(dir.path(), "activate", &["--verify", "c.tar"]),
            "c.tar is current; b.tar was before\n",
        );
        assert_served("c.tar");
        assert_output(&run(dir.path(), "rollback", &[]), "b.tar is current; c.tar was before\n");
        assert_served("b.tar");
        assert_output(&run(dir.path(), "rollback", &[]), "a.tar is current; b.tar was before\n");
        assert_served("a.tar");
        assert_eq!(program.err(), "", "{engine}");
    }
}

#[test]
fn list_shows_the_current_the_previous_and_the_damaged_release() {
    let dir = releases(&["a.tar", "b.tar", "c.tar"]);
    let cut = fs::read(dir.path().join("c.tar")).unwrap();
    fs::write(dir.path().join("d.tar"), &cut[..cut.len() - 1]).unwrap();
    // These are not releases.
    fs::write(dir.path().join("notes.txt"), "").unwrap();
    fs::write(dir.path().join(".next.tar"), "").unwrap();
    fs::create_dir(dir.path().join("directory.tar")).unwrap();
    age(dir.path(), &[("a.tar", 3), ("b.tar", 2), ("c.tar", 4), ("d.tar", 1)]);
    run(dir.path(), "activate", &["c.tar"]);
    run(dir.path(), "activate", &["a.tar"]);
    let listed = run(dir.path(), "list", &[]);
    let rows: Vec<_> = listed.out.lines().collect();
    assert!(rows.len() == 5 && rows[0].starts_with("release  modified (UTC)"), "{listed:?}");
    let len = cut.len() as f64 / 1024.0;
    for (row, begin, end) in [
        (1, "c.tar    05 Jan 1970 00:00:00", "  previous"),
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
fn list_has_forms_for_programs() {
    let dir = releases(&["a.tar", "b.tar"]);
    age(dir.path(), &[("a.tar", 1), ("b.tar", 2)]);
    run(dir.path(), "activate", &["a.tar"]);
    assert_output(&run(dir.path(), "list", &["--names"]), "b.tar\na.tar\n");
    let listed = run(dir.path(), "list", &["--json"]);
    let rows: Value = serde_json::from_str(&listed.out).unwrap();
    let len = fs::metadata(dir.path().join("a.tar")).unwrap().len();
    assert_eq!(
        rows[1],
        serde_json::json!({
            "name": "a.tar", "modified": "1970-01-02T00:00:00Z", "size": len, "files": 1, "state": "current", "error": null
        })
    );
    assert_eq!((&rows[0]["name"], &rows[0]["state"]), (&"b.tar".into(), &Value::Null));
}

#[test]
fn prune_keeps_the_newest_the_current_and_the_previous_release() {
    let dir = releases(&["1.tar", "2.tar", "3.tar", "4.tar", "5.tar", "6.tar"]);
    let at = |name: &str| dir.path().join(name);
    run(dir.path(), "activate", &["2.tar"]);
    run(dir.path(), "activate", &["3.tar"]);
    // An upload that is under way, and a link to an archive that stays.
    fs::write(at("0.tar"), &fs::read(at("1.tar")).unwrap()[..1000]).unwrap();
    symlink("6.tar", at("latest.tar")).unwrap();
    age(
        dir.path(),
        &[("0.tar", 1), ("1.tar", 2), ("2.tar", 3), ("3.tar", 4), ("4.tar", 5), ("5.tar", 6), ("6.tar", 7)],
    );
    let names = || run(dir.path(), "list", &["--names"]).out;
    let all = "6.tar\nlatest.tar\n5.tar\n4.tar\n3.tar\n2.tar\n1.tar\n0.tar\n";
    let size = format!("{:.1} KiB", fs::metadata(at("1.tar")).unwrap().len() as f64 / 1024.0);
    let size_2 = format!("{:.1} KiB", 2.0 * fs::metadata(at("1.tar")).unwrap().len() as f64 / 1024.0);

    let planned = run(dir.path(), "prune", &["--keep", "3", "--dry-run"]);
    let want = format!(
        "would remove 4.tar  {size}\nwould remove 1.tar  {size}\nwould remove 2 releases, which frees {size_2}; keeps 5 releases\n"
    );
    assert_output(&planned, &want);
    assert!(planned.error_line().starts_with("warning: kept 0.tar, which is no valid release: "));
    assert_eq!(names(), all);

    let pruned = run(dir.path(), "prune", &["--keep", "3"]);
    let want = format!(
        "removed 4.tar  {size}\nremoved 1.tar  {size}\nremoved 2 releases, which frees {size_2}; kept 5 releases\n"
    );
    assert_output(&pruned, &want);
    assert_eq!(names(), "6.tar\nlatest.tar\n5.tar\n3.tar\n2.tar\n0.tar\n");
    assert_output(&run(dir.path(), "prune", &["--keep", "3"]), "nothing to remove; 5 releases stay\n");
    // The link has the newest release, so only the link counts as another one.
    assert_output(&run(dir.path(), "rollback", &[]), "2.tar is current; 3.tar was before\n");
    let pruned = run(dir.path(), "prune", &["--keep", "1"]);
    assert!(pruned.out.contains("removed 5.tar") && pruned.out.contains("removed 3.tar"), "{pruned:?}");
    assert_eq!(names(), "6.tar\nlatest.tar\n2.tar\n0.tar\n");
}

#[test]
fn pruned_release_is_sent_to_its_end() {
    let dir = releases(&["a.tar", "b.tar", "c.tar"]);
    age(dir.path(), &[("a.tar", 1), ("b.tar", 2), ("c.tar", 3)]);
    run(dir.path(), "activate", &["a.tar"]);
    let program = RunningProgram::start_ready(serve(&dir.path().join("current"), &[]));
    let mut client = TestClient::connect(program.address());
    assert_eq!(client.get("/").content, b"a.tar");
    for name in ["b.tar", "c.tar"] {
        run(dir.path(), "activate", &[name]);
    }
    run(dir.path(), "prune", &["--keep", "1"]);
    assert!(!dir.path().join("a.tar").exists());
    wait_for("the current release", || (client.get("/").content == b"c.tar").then_some(()));
    assert_eq!(program.err(), "");
}

#[test]
fn hint_tells_how_to_activate_the_first_release() {
    let dir = crate::common::readable_dir();
    let shown = dir.path().display().to_string();
    let link = dir.path().join("current");
    let serve_error = || RunningProgram::run(serve(&link, &[]));
    let refused = |want: &str| {
        let want = format!("no release is active yet; {want}");
        for ended in
            [run(dir.path(), "rollback", &[]), run(dir.path(), "prune", &["--keep", "1"]), serve_error()]
        {
            assert!(!ended.status.success() && ended.error_line().ends_with(&want), "{want}: {ended:?}");
        }
        let listed = run(dir.path(), "list", &[]);
        assert!(listed.status.success() && listed.error_line() == want, "{want}: {listed:?}");
    };
    refused(&format!(
        "pack one, as in tarpon pack DIR -o {shown}/2026-11-21.tar, and activate it, as in tarpon release activate {shown} 2026-11-21.tar"
    ));
    pack(&[("index.html", "home")], &dir.path().join("a.tar"));
    refused(&format!("activate one, as in tarpon release activate {shown} a.tar"));
    // Other programs have links of this name.
    fs::remove_file(dir.path().join("a.tar")).unwrap();
    fs::create_dir(dir.path().join("2026-11-21")).unwrap();
    fs::remove_file(dir.path().join(".tarpon.lock")).ok();
    assert!(serve_error().error_line().contains("it does not exist; name a directory or tar archive"));
}

#[test]
fn failed_activation_prints_a_hint_and_changes_nothing() {
    let dir = releases(&["a.tar", "b.tar"]);
    let at = |name: &str| dir.path().join(name);
    let good = fs::read(at("b.tar")).unwrap();
    fs::write(at("cut.tar"), &good[..good.len() / 2]).unwrap();
    fs::write(at("text.tar"), "no archive").unwrap();
    // The content of a file, which only `--verify` reads.
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
        ("activate", &["text.tar"],                "not a tar archive"),
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
fn manual_change_of_the_link_counts() {
    let dir = releases(&["a.tar", "b.tar", "c.tar"]);
    // An absolute link, as from `ln -s`, and no history.
    set_current(dir.path(), dir.path().join("a.tar").to_str().unwrap());
    assert_output(&run(dir.path(), "activate", &["b.tar"]), "b.tar is current; a.tar was before\n");
    set_current(dir.path(), "c.tar");
    assert_output(&run(dir.path(), "rollback", &[]), "b.tar is current; c.tar was before\n");
    assert_output(&run(dir.path(), "rollback", &[]), "a.tar is current; b.tar was before\n");
}

#[test]
fn concurrent_activations_change_the_link_one_after_the_other() {
    let names = ["a.tar", "b.tar"];
    let dir = releases(&names);
    run(dir.path(), "activate", &["a.tar"]);
    let stop = AtomicBool::new(false);
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
            while !stop.load(Relaxed) {
                let current = current(dir.path());
                assert!(names.iter().any(|name| current.ends_with(name)), "{}", current.display());
            }
        });
        changers.into_iter().for_each(|changer| changer.join().unwrap());
        stop.store(true, Relaxed);
        reader.join().unwrap();
    });
    // Each activation saw the result of the previous one.
    let history = fs::read_to_string(dir.path().join(".tarpon.history")).unwrap();
    let active: Vec<_> = history.lines().map(|line| line.rsplit_once(' ').unwrap().1).collect();
    assert!(active.windows(2).all(|pair| pair[0] != pair[1]), "{history}");
    assert!(current(dir.path()).ends_with(active.last().unwrap()), "{history}");
}

#[test]
fn waiting_activation_names_the_process_with_the_lock() {
    let dir = releases(&["a.tar"]);
    let lock = File::create(dir.path().join(".tarpon.lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    fs::write(dir.path().join(".tarpon.lock"), "4711\n").unwrap();
    let mut waiting = RunningProgram::start(release(dir.path(), "activate", &["a.tar"]));
    wait_for("the message", || {
        waiting.err().contains("waiting for process 4711, which is changing").then_some(())
    });
    assert!(waiting.is_running() && !dir.path().join("current").exists());
    drop(lock);
    assert_output(&waiting.wait(), "a.tar is current\n");
}

#[test]
#[ignore = "soak: kills at random times"]
fn killed_activation_leaves_the_old_or_the_new_release() {
    let dir = releases(&["a.tar", "b.tar"]);
    run(dir.path(), "activate", &["a.tar"]);
    for number in 0..40 * seeds_factor() {
        let program =
            RunningProgram::start(release(dir.path(), "activate", &[["b.tar", "a.tar"][number % 2]]));
        // At another step each time.
        thread::sleep(Duration::from_micros(100) * (number % 40) as u32);
        // The program may have exited.
        let _ = rustix::process::kill_process(program.pid(), Signal::KILL);
        drop(program);
        assert!(["a.tar", "b.tar"].iter().any(|name| current(dir.path()).ends_with(name)));
        assert!(run(dir.path(), "list", &[]).status.success());
    }
}

#[test]
fn files_of_an_interrupted_activation_do_no_harm() {
    let dir = releases(&["a.tar", "b.tar"]);
    let at = |name: &str| dir.path().join(name);
    run(dir.path(), "activate", &["a.tar"]);
    symlink("half", at(".tarpon.link")).unwrap();
    fs::write(at(".tarpon.history.new"), "activate 5").unwrap();
    set_current(dir.path(), "b.tar");
    assert!(run(dir.path(), "list", &[]).status.success());
    assert_output(&run(dir.path(), "rollback", &[]), "a.tar is current; b.tar was before\n");
}

#[test]
fn release_never_writes_through_a_link() {
    let dir = releases(&["a.tar", "b.tar"]);
    let at = |name: &str| dir.path().join(name);
    fs::write(at("other"), "another file").unwrap();
    run(dir.path(), "activate", &["a.tar"]);
    symlink("other", at(".tarpon.history.new")).unwrap();
    assert!(run(dir.path(), "activate", &["b.tar"]).status.success());
    fs::remove_file(at(".tarpon.lock")).unwrap();
    symlink("other", at(".tarpon.lock")).unwrap();
    let refused = run(dir.path(), "activate", &["a.tar"]);
    assert!(!refused.status.success() && refused.err.contains(".tarpon.lock"), "{refused:?}");
    assert!(current(dir.path()).ends_with("b.tar"));
    assert_eq!(fs::read_to_string(at("other")).unwrap(), "another file");
}

#[test]
fn forged_history_leads_to_no_file_outside_of_the_directory() {
    let outer = crate::common::readable_dir();
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

/// Sets the modification times of files, in days since 1970.
fn age(dir: &Path, days: &[(&str, u64)]) {
    for (name, days) in days {
        let file = File::options().write(true).open(dir.join(name)).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(days * 86_400)).unwrap();
    }
}

/// Makes a directory of packed sites. The page of each is its name.
fn releases(names: &[&str]) -> TempDir {
    let dir = crate::common::readable_dir();
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
fn assert_output(ended: &ProgramExit, want: &str) {
    assert!(ended.status.success() && ended.out == want, "{ended:?}");
}
