//! Sites below a directory that only root may enter, such as root's home: a server that has dropped root's privileges serves and
//! reloads them, and other users cannot make it serve files of the directory.
//!
//! Only root can start such a server, so these tests do nothing for other users.

use crate::common::{
    ENGINES,
    client::TestClient,
    program::{ProgramExit, RunningProgram, serve},
    readable_dir,
    releases::{pack, set_current},
    wait_for, write_files,
};
use rustix::process::geteuid;
use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, chown, lchown, symlink},
    path::PathBuf,
};
use tempfile::TempDir;

#[test]
fn site_below_a_closed_directory_is_served_and_reloaded() {
    let Some(closed) = ClosedDir::new() else { return };
    for &engine in ENGINES {
        let site = closed.at("site");
        write_files(&site, &[("index.html", "first"), ("sub/page", "first")]);
        let program = RunningProgram::start_ready(serve(&site, &["--engine", engine.name()]));
        expect(&program, "/sub/page", "first");
        write_files(&site, &[("sub/page", "changed"), ("new/dir/page", "new")]);
        expect(&program, "/sub/page", "changed");
        expect(&program, "/new/dir/page", "new");
        // The server watches files of a new directory too.
        write_files(&site, &[("new/dir/page", "newer")]);
        expect(&program, "/new/dir/page", "newer");
        // A new directory replaces the site.
        write_files(&closed.at("next"), &[("index.html", "another")]);
        fs::rename(&site, closed.at("old")).unwrap();
        fs::rename(closed.at("next"), &site).unwrap();
        expect(&program, "/", "another");
        write_files(&site, &[("index.html", "another, changed")]);
        expect(&program, "/", "another, changed");
        drop(program);
        fs::remove_dir_all(closed.at("old")).unwrap();
        fs::remove_dir_all(&site).unwrap();
    }
}

#[test]
fn links_and_archives_below_a_closed_directory_are_reloaded() {
    let Some(closed) = ClosedDir::new() else { return };
    write_files(&closed.at("7"), &[("index.html", "seven")]);
    write_files(&closed.at("8"), &[("index.html", "eight")]);
    symlink("7", closed.at("current")).unwrap();
    // Also a link above the root of the site.
    symlink(".", closed.at("above")).unwrap();
    let program = RunningProgram::start_ready(serve(&closed.at("above/current"), &[]));
    expect(&program, "/", "seven");
    set_current(&closed.path, "8");
    expect(&program, "/", "eight");
    fs::remove_file(closed.at("current")).unwrap();
    wait_for("a message", || program.err().contains("does not exist").then_some(()));
    expect(&program, "/", "eight");
    set_current(&closed.path, "7");
    expect(&program, "/", "seven");
    drop(program);

    let program = RunningProgram::start_ready(serve(&closed.at("above/7/../current"), &[]));
    expect(&program, "/", "seven");
    drop(program);

    pack(&[("index.html", "packed")], &closed.at("site.tar"));
    pack(&[("index.html", "packed anew")], &closed.at("next.tar"));
    let program = RunningProgram::start_ready(serve(&closed.at("site.tar"), &[]));
    expect(&program, "/", "packed");
    fs::rename(closed.at("next.tar"), closed.at("site.tar")).unwrap();
    expect(&program, "/", "packed anew");
}

#[test]
fn earlier_releases_below_a_closed_directory_are_served() {
    let Some(closed) = ClosedDir::new() else { return };
    let (old, new) = ("app.0123abcd45.js", "app.67890abcde.js");
    pack(&[("index.html", "one"), (old, "old")], &closed.at("1.tar"));
    pack(&[("index.html", "two"), (new, "new")], &closed.at("2.tar"));
    for name in ["1.tar", "2.tar"] {
        let mut command = crate::common::program::tarpon(["release", "activate"].map(AsRef::as_ref));
        command.arg(&closed.path).arg(name);
        let ProgramExit { status, err, .. } = RunningProgram::run(command);
        assert!(status.success(), "{err}");
    }
    let options = ["--keep-releases", "2"];
    let program = RunningProgram::start_ready(serve(&closed.at("current"), &options));
    expect(&program, "/", "two");
    expect(&program, &format!("/{old}"), "old");
    expect(&program, &format!("/{new}"), "new");
}

/// With root's privileges, the server would follow links of any user.
#[test]
fn link_of_another_user_into_a_closed_directory_is_refused() {
    let Some(closed) = ClosedDir::new() else { return };
    write_files(&closed.at("secret"), &[("index.html", "secret")]);
    let home = readable_dir();
    let at = |name: &str| home.path().join(name);
    let link = |name: &str| {
        symlink(closed.at("secret"), at(name)).unwrap();
        lchown(at(name), Some(USER), Some(USER)).unwrap();
    };
    write_files(&at("ann/site"), &[("index.html", "of ann")]);
    for name in ["ann", "ann/site"] {
        chown(at(name), Some(USER), Some(USER)).unwrap();
    }
    // A link in Ann's home, Ann's link in a directory of root, and a link of root through Ann's link.
    link("ann/link");
    link("link-of-ann");
    symlink("ann/link", at("through")).unwrap();
    for name in ["ann/link", "link-of-ann", "through"] {
        let ProgramExit { status, err, .. } = RunningProgram::run(serve(&at(name), &[]));
        assert!(!status.success(), "{name}");
        assert!(err.contains("may not enter"), "{name}: {err}");
    }
    // A link within the site that leads out of it.
    link("ann/site/below");
    let program = RunningProgram::start_ready(serve(&at("ann/site"), &[]));
    expect(&program, "/", "of ann");
    assert_eq!(TestClient::connect(program.address()).get("/below/").status, 404);
    // A link replaces the site while the server runs.
    fs::rename(at("ann/site"), at("ann/old")).unwrap();
    symlink(closed.at("secret"), at("ann/site")).unwrap();
    wait_for("a message", || program.err().contains("cannot").then_some(()));
    expect(&program, "/", "of ann");
}

#[test]
fn unreadable_path_is_reported_with_owner_mode_user_and_hints() {
    let Some(closed) = ClosedDir::new() else { return };
    write_files(&closed.at("private/site"), &[("index.html", "x")]);
    write_files(&closed.at("half"), &[("index.html", "x"), ("deep/page", "x")]);
    pack(&[("index.html", "x")], &closed.at("private.tar"));
    let mode = |name: &str, mode| fs::set_permissions(closed.at(name), Permissions::from_mode(mode)).unwrap();
    mode("private", 0o700);
    mode("private/site", 0o700);
    mode("private.tar", 0o600);
    mode("half/deep/page", 0o640);
    let home = readable_dir();
    let of_user = home.path().join("ann/site");
    write_files(&of_user, &[("index.html", "x")]);
    chown(home.path().join("ann"), Some(USER), Some(USER)).unwrap();
    fs::set_permissions(home.path().join("ann"), Permissions::from_mode(0o700)).unwrap();
    let ann = home.path().join("ann").display().to_string();
    let name = |name: &str| closed.at(name).display().to_string();
    #[rustfmt::skip]
    let cases = [
        // site                         unreadable path          reason
        (closed.at("private"),          name("private"),         "(owner root, mode 0700)"),
        (closed.at("private/site"),     name("private/site"),    "(owner root, mode 0700)"),
        (closed.at("private.tar"),      name("private.tar"),     "(owner root, mode 0600)"),
        (closed.at("half"),             name("half/deep/page"),  "(owned by root, mode 0640)"),
        (of_user,                       ann,                     "mode 0700)"),
    ];
    for (site, path, reason) in cases {
        let ProgramExit { status, err, .. } = RunningProgram::run(serve(&site, &["--strict"]));
        assert!(!status.success(), "{err}");
        for words in [&*path, reason, "user nobody may not", "chmod o+r", " or "] {
            assert!(err.contains(words), "{}: {words}: {err}", site.display());
        }
        assert_eq!(err.lines().count(), 1, "{err}");
    }
    for missing in ["nothing", "private/site/nothing", "nothing/site"] {
        let ProgramExit { err, .. } = RunningProgram::run(serve(&closed.at(missing), &[]));
        assert!(err.contains("does not exist"), "{missing}: {err}");
    }
}

/// A directory that only root may enter.
struct ClosedDir {
    path: PathBuf,
    _dir: TempDir,
}

impl ClosedDir {
    /// Returns `None` for users other than root, who cannot use such a directory.
    fn new() -> Option<ClosedDir> {
        if !geteuid().is_root() {
            return None;
        }
        let dir = readable_dir();
        let path = dir.path().join("closed");
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
        Some(ClosedDir { path, _dir: dir })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

/// Waits until the response for a path has this content.
#[track_caller]
fn expect(program: &RunningProgram, path: &str, want: &str) {
    let content = || TestClient::connect(program.address()).get(path).content;
    wait_for(want, || (content() == want.as_bytes()).then_some(()));
}

/// A user without privileges.
const USER: u32 = 4711;
