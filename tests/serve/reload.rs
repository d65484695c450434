//! The server reloads the site when its directory changes and serves the change on open connections too.

use super::serve;
use crate::common::{
    client::{Response, TestClient},
    program::{RunningProgram, unprivileged, without_user_change},
    site, wait_for, write_files,
};
use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::Path,
};

/// Repeats a request on one connection until the response matches. A reset fails the test.
#[track_caller]
fn wait_until(client: &mut TestClient, target: &str, matches: impl Fn(&Response) -> bool) {
    wait_for(target, || matches(&client.get(target)).then_some(()));
}

#[track_caller]
fn wait_for_content(client: &mut TestClient, target: &str, content: &str) {
    wait_until(client, target, |response| response.status == 200 && response.content == content.as_bytes());
}

#[test]
fn file_is_added_changed_and_removed() {
    let dir = site(&[("index.html", "old")]);
    let program = RunningProgram::start_ready(serve(dir.path(), &[]));
    let mut client = TestClient::connect(program.address());
    assert_eq!(client.get("/new").status, 404);
    let tag = client.get("/").field("ETag").map(str::to_owned);

    write_files(dir.path(), &[("new", "new")]);
    wait_for_content(&mut client, "/new", "new");
    write_files(dir.path(), &[("index.html", "changed")]);
    wait_for_content(&mut client, "/", "changed");
    assert_ne!(client.get("/").field("ETag").map(str::to_owned), tag);
    write_files(dir.path(), &[("a/b/c.html", "deep")]);
    wait_for_content(&mut client, "/a/b/c.html", "deep");
    write_files(dir.path(), &[("a/b/c.html", "deeper")]);
    wait_for_content(&mut client, "/a/b/c.html", "deeper");
    fs::remove_file(dir.path().join("new")).unwrap();
    wait_until(&mut client, "/new", |response| response.status == 404);
    wait_for("the message", || program.out().contains("\nread the site again: 2 files, ").then_some(()));
    assert_eq!(program.err(), "");
}

#[test]
fn file_replaced_by_rename_is_reloaded() {
    let dir = site(&[("index.html", "old")]);
    let program = RunningProgram::start_ready(serve(dir.path(), &[]));
    let mut client = TestClient::connect(program.address());
    write_files(dir.path(), &[(".index.html.tmp", "new")]);
    fs::rename(dir.path().join(".index.html.tmp"), dir.path().join("index.html")).unwrap();
    wait_for_content(&mut client, "/", "new");
}

#[test]
fn changed_large_file_is_reloaded() {
    let dir = site(&[("large", vec![b'x'; 100_000])]);
    let program = RunningProgram::start_ready(serve(dir.path(), &[]));
    let mut client = TestClient::connect(program.address());
    assert_eq!(client.get("/large").content, [b'x'; 100_000]);
    write_files(dir.path(), &[(".large", vec![b'y'; 100_000])]);
    fs::rename(dir.path().join(".large"), dir.path().join("large")).unwrap();
    wait_until(&mut client, "/large", |response| response.content == [b'y'; 100_000]);
}

#[test]
fn replaced_directory_is_reloaded_and_watched() {
    let outer = site(&[("site/dir/page", "old"), ("new/page", "new")]);
    let at = |name: &str| outer.path().join(name);
    let program = RunningProgram::start_ready(serve(&at("site"), &[]));
    let mut client = TestClient::connect(program.address());
    assert_eq!(client.get("/dir/page").content, b"old");
    fs::rename(at("site/dir"), at("old")).unwrap();
    fs::rename(at("new"), at("site/dir")).unwrap();
    wait_for_content(&mut client, "/dir/page", "new");
    // The server watches the new directory too.
    write_files(&at("site"), &[("dir/page", "newer")]);
    wait_for_content(&mut client, "/dir/page", "newer");
}

#[test]
fn replaced_site_directory_is_reloaded() {
    let outer = site(&[("site/index.html", "old"), ("new/index.html", "new")]);
    let at = |name: &str| outer.path().join(name);
    let program = RunningProgram::start_ready(serve(&at("site"), &[]));
    let mut client = TestClient::connect(program.address());
    fs::rename(at("site"), at("old")).unwrap();
    fs::rename(at("new"), at("site")).unwrap();
    wait_for_content(&mut client, "/", "new");
    write_files(&at("site"), &[("index.html", "newer")]);
    wait_for_content(&mut client, "/", "newer");
}

#[test]
fn changed_link_to_the_site_is_reloaded() {
    let outer = site(&[("1/index.html", "first"), ("2/index.html", "second")]);
    let at = |name: &str| outer.path().join(name);
    symlink("1", at("site")).unwrap();
    let program = RunningProgram::start_ready(serve(&at("site"), &[]));
    let mut client = TestClient::connect(program.address());
    assert_eq!(client.get("/").content, b"first");
    symlink("2", at("next")).unwrap();
    fs::rename(at("next"), at("site")).unwrap();
    wait_for_content(&mut client, "/", "second");
    write_files(outer.path(), &[("2/index.html", "changed")]);
    wait_for_content(&mut client, "/", "changed");
}

#[test]
fn changed_link_in_the_path_of_the_site_is_reloaded() {
    let releases = [("releases/1/public/index.html", "first"), ("releases/2/public/index.html", "second")];
    let outer = site(&releases);
    let at = |name: &str| outer.path().join(name);
    symlink("releases/1", at("current")).unwrap();
    let program = RunningProgram::start_ready(serve(&at("current/public"), &[]));
    let mut client = TestClient::connect(program.address());
    assert_eq!(client.get("/").content, b"first");
    symlink("releases/2", at("next")).unwrap();
    fs::rename(at("next"), at("current")).unwrap();
    wait_for_content(&mut client, "/", "second");
    write_files(outer.path(), &[("releases/2/public/index.html", "changed")]);
    wait_for_content(&mut client, "/", "changed");
}

#[test]
fn site_at_dot_dot_is_reloaded() {
    let dir = site(&[("index.html", "old"), ("css/style", "old")]);
    let mut command = serve(Path::new(".."), &[]);
    command.current_dir(dir.path().join("css"));
    let program = RunningProgram::start_ready(command);
    let mut client = TestClient::connect(program.address());
    // The working directory comes first: an event in another directory would reload it too.
    for (file, target) in [("css/style", "/css/style"), ("index.html", "/")] {
        assert_eq!(client.get(target).content, b"old");
        write_files(dir.path(), &[(file, "new")]);
        wait_for_content(&mut client, target, "new");
    }
}

#[test]
fn target_of_a_link_out_of_the_site_is_not_watched() {
    let outer = site(&[("site/index.html", "old"), ("out/file", "old")]);
    for number in 0..50 {
        fs::create_dir(outer.path().join(format!("out/{number}"))).unwrap();
    }
    symlink("../out", outer.path().join("site/out")).unwrap();
    symlink("../out/file", outer.path().join("site/file")).unwrap();
    let program = RunningProgram::start_ready(serve(&outer.path().join("site"), &[]));
    let mut client = TestClient::connect(program.address());
    let watched = watched_inodes(&program);
    // The site and its parent directories.
    assert!((1..10).contains(&watched.len()), "{watched:?}");
    for outside in ["out", "out/file", "out/0"] {
        let inode = fs::metadata(outer.path().join(outside)).unwrap().ino();
        assert!(!watched.contains(&inode), "{outside} is watched: {watched:?}");
    }
    let inode = fs::metadata(outer.path().join("site")).unwrap().ino();
    assert!(watched.contains(&inode), "the site is not watched: {watched:?}");
    write_files(outer.path(), &[("site/index.html", "new")]);
    wait_for_content(&mut client, "/", "new");
}

#[test]
fn removed_site_is_served_until_a_new_one_appears() {
    let outer = site(&[("site/index.html", "old"), ("new/index.html", "new")]);
    let at = |name: &str| outer.path().join(name);
    let program = RunningProgram::start_ready(serve(&at("site"), &[]));
    let mut client = TestClient::connect(program.address());
    // A rename is atomic; the server could read a directory in the middle of its removal.
    fs::rename(at("site"), at("gone")).unwrap();
    wait_for("a warning", || program.err().contains("; still serving the previous version").then_some(()));
    assert_eq!(client.get("/").status, 200, "{}", program.err());
    fs::rename(at("new"), at("site")).unwrap();
    wait_for_content(&mut client, "/", "new");
    write_files(&at("site"), &[("index.html", "newer")]);
    wait_for_content(&mut client, "/", "newer");
}

#[test]
fn unreadable_site_keeps_its_last_version() {
    let dir = site(&[("index.html", "home"), ("page", "old")]);
    let program = RunningProgram::start_ready(unprivileged(&serve(dir.path(), &["--strict"])));
    let mut client = TestClient::connect(program.address());
    let set_mode =
        |mode| fs::set_permissions(dir.path().join("page"), fs::Permissions::from_mode(mode)).unwrap();
    set_mode(0o000);
    let want = format!("{}/page (owned by ", dir.path().display());
    let suffix = "; still serving the previous version\n";
    wait_for("a warning", || {
        let err = program.err();
        (err.contains(&want) && err.ends_with(suffix)).then_some(())
    });
    assert_eq!(client.get("/page").content, b"old");
    assert_eq!(client.get("/").content, b"home");
    set_mode(0o644);
    write_files(dir.path(), &[("page", "new")]);
    wait_for_content(&mut client, "/page", "new");
}

#[test]
fn failed_build_is_retried_without_a_change() {
    let dir = site(&[("index.html", "old")]);
    let program = RunningProgram::start_ready(serve(dir.path(), without_user_change()));
    let mut client = TestClient::connect(program.address());
    assert_eq!(client.get("/").content, b"old");
    // Sets the descriptor limit too low for a build, then restores it.
    let low = Rlimit { current: Some(3), ..getrlimit(Resource::Nofile) };
    let original = prlimit(Some(program.builder()), Resource::Nofile, low).unwrap();
    write_files(dir.path(), &[("index.html", "new")]);
    wait_for("a warning", || program.err().contains("; still serving the previous version").then_some(()));
    assert_eq!(client.get("/").content, b"old");
    prlimit(Some(program.builder()), Resource::Nofile, original).unwrap();
    // Constant changes outside of the site do not delay the retry.
    let outside = tempfile::NamedTempFile::new_in(dir.path().parent().unwrap()).unwrap();
    wait_for("the new content", || {
        fs::write(outside.path(), "x").unwrap();
        (client.get("/").content == b"new").then_some(())
    });
}

/// Returns the inode of each inotify watch of the builder. proc(5), /proc/pid/fdinfo.
fn watched_inodes(program: &RunningProgram) -> Vec<u64> {
    let dir = format!("/proc/{}/fdinfo", program.builder().as_raw_nonzero());
    let infos = fs::read_dir(dir).unwrap().map(|entry| fs::read_to_string(entry.unwrap().path()));
    // The builder may close a descriptor before this test reads its file.
    let infos: Vec<String> = infos.flatten().collect();
    let watches = infos.iter().flat_map(|info| info.lines()).filter(|line| line.starts_with("inotify wd:"));
    let inode = |watch: &str| {
        let inode = watch.split(' ').find_map(|field| field.strip_prefix("ino:")).expect("an inode");
        u64::from_str_radix(inode, 16).expect("a number")
    };
    watches.map(inode).collect()
}
