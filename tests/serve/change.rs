//! The program follows its directory: what changes there is served soon, also on connections that are open.

use super::serve;
use crate::common::{
    client::{Client, Response},
    program::{Program, as_ourselves, unprivileged},
    site, wait_for, write_files,
};
use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    thread,
    time::Duration,
};

/// Asks on the same connection until the answer is so. A connection that is reset fails the test.
#[track_caller]
fn wait_until(client: &mut Client, target: &str, is_so: impl Fn(&Response) -> bool) {
    wait_for(target, || is_so(&client.get(target)).then_some(()));
}

#[track_caller]
fn wait_for_content(client: &mut Client, target: &str, content: &str) {
    wait_until(client, target, |response| response.status == 200 && response.content == content.as_bytes());
}

#[test]
fn a_file_that_comes_changes_and_goes_is_followed() {
    let dir = site(&[("index.html", "old")]);
    let program = Program::started(serve(dir.path(), &[]));
    let mut client = Client::connect(program.address());
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
    wait_for("what is said of it", || program.out().contains("\nchanged: 2 files, ").then_some(()));
    assert_eq!(program.err(), "");
}

#[test]
fn a_file_that_is_written_aside_and_renamed_is_followed() {
    let dir = site(&[("index.html", "old")]);
    let program = Program::started(serve(dir.path(), &[]));
    let mut client = Client::connect(program.address());
    write_files(dir.path(), &[(".index.html.tmp", "new")]);
    fs::rename(dir.path().join(".index.html.tmp"), dir.path().join("index.html")).unwrap();
    wait_for_content(&mut client, "/", "new");
}

#[test]
fn a_large_file_that_changes_is_followed() {
    let dir = site(&[("large", vec![b'x'; 100_000])]);
    let program = Program::started(serve(dir.path(), &[]));
    let mut client = Client::connect(program.address());
    assert_eq!(client.get("/large").content, [b'x'; 100_000]);
    write_files(dir.path(), &[(".large", vec![b'y'; 100_000])]);
    fs::rename(dir.path().join(".large"), dir.path().join("large")).unwrap();
    wait_until(&mut client, "/large", |response| response.content == [b'y'; 100_000]);
}

#[test]
fn a_directory_that_takes_the_place_of_another_is_followed() {
    let outer = site(&[("site/dir/page", "old"), ("new/page", "new")]);
    let at = |name: &str| outer.path().join(name);
    let program = Program::started(serve(&at("site"), &[]));
    let mut client = Client::connect(program.address());
    assert_eq!(client.get("/dir/page").content, b"old");
    fs::rename(at("site/dir"), at("old")).unwrap();
    fs::rename(at("new"), at("site/dir")).unwrap();
    wait_for_content(&mut client, "/dir/page", "new");
    // It is watched, too.
    write_files(&at("site"), &[("dir/page", "newer")]);
    wait_for_content(&mut client, "/dir/page", "newer");
}

#[test]
fn a_site_that_takes_the_place_of_another_is_followed() {
    let outer = site(&[("site/index.html", "old"), ("new/index.html", "new")]);
    let at = |name: &str| outer.path().join(name);
    let program = Program::started(serve(&at("site"), &[]));
    let mut client = Client::connect(program.address());
    fs::rename(at("site"), at("old")).unwrap();
    fs::rename(at("new"), at("site")).unwrap();
    wait_for_content(&mut client, "/", "new");
    write_files(&at("site"), &[("index.html", "newer")]);
    wait_for_content(&mut client, "/", "newer");
}

#[test]
fn a_link_to_a_site_that_leads_elsewhere_is_followed() {
    let outer = site(&[("1/index.html", "first"), ("2/index.html", "second")]);
    let at = |name: &str| outer.path().join(name);
    symlink("1", at("site")).unwrap();
    let program = Program::started(serve(&at("site"), &[]));
    let mut client = Client::connect(program.address());
    assert_eq!(client.get("/").content, b"first");
    symlink("2", at("next")).unwrap();
    fs::rename(at("next"), at("site")).unwrap();
    wait_for_content(&mut client, "/", "second");
    write_files(outer.path(), &[("2/index.html", "changed")]);
    wait_for_content(&mut client, "/", "changed");
}

#[test]
fn a_link_above_a_site_that_leads_elsewhere_is_followed() {
    let releases = [("releases/1/public/index.html", "first"), ("releases/2/public/index.html", "second")];
    let outer = site(&releases);
    let at = |name: &str| outer.path().join(name);
    symlink("releases/1", at("current")).unwrap();
    let program = Program::started(serve(&at("current/public"), &[]));
    let mut client = Client::connect(program.address());
    assert_eq!(client.get("/").content, b"first");
    symlink("releases/2", at("next")).unwrap();
    fs::rename(at("next"), at("current")).unwrap();
    wait_for_content(&mut client, "/", "second");
    write_files(outer.path(), &[("releases/2/public/index.html", "changed")]);
    wait_for_content(&mut client, "/", "changed");
}

#[test]
fn a_site_that_is_named_by_the_way_upwards_is_followed() {
    let dir = site(&[("index.html", "old"), ("css/style", "old")]);
    let mut command = serve(Path::new(".."), &[]);
    command.current_dir(dir.path().join("css"));
    let program = Program::started(command);
    let mut client = Client::connect(program.address());
    // In the directory it was started from first: an event elsewhere would have that one read again, too.
    for (file, target) in [("css/style", "/css/style"), ("index.html", "/")] {
        assert_eq!(client.get(target).content, b"old");
        write_files(dir.path(), &[(file, "new")]);
        wait_for_content(&mut client, target, "new");
    }
}

#[test]
fn what_a_link_out_of_the_site_leads_to_is_not_watched() {
    let outer = site(&[("site/index.html", "old"), ("out/file", "old")]);
    for number in 0..50 {
        fs::create_dir(outer.path().join(format!("out/{number}"))).unwrap();
    }
    symlink("../out", outer.path().join("site/out")).unwrap();
    symlink("../out/file", outer.path().join("site/file")).unwrap();
    let program = Program::started(serve(&outer.path().join("site"), &[]));
    let mut client = Client::connect(program.address());
    let count = watch_count(&program);
    // The site, and what is above it.
    assert!((1..10).contains(&count), "{count} watches");
    write_files(outer.path(), &[("out/file", "new"), ("out/new", "new")]);
    // Several times as long as a burst takes to end.
    thread::sleep(Duration::from_millis(300));
    assert!(!program.out().contains("changed"), "{}", program.out());
    write_files(outer.path(), &[("site/index.html", "new")]);
    wait_for_content(&mut client, "/", "new");
}

#[test]
fn a_site_that_vanishes_is_still_served_until_there_is_another() {
    let outer = site(&[("site/index.html", "old"), ("new/index.html", "new")]);
    let at = |name: &str| outer.path().join(name);
    let program = Program::started(serve(&at("site"), &[]));
    let mut client = Client::connect(program.address());
    // In one step: a directory that is being emptied may be read half empty.
    fs::rename(at("site"), at("gone")).unwrap();
    wait_for("a warning", || program.err().contains("; still serving the previous version").then_some(()));
    assert_eq!(client.get("/").status, 200, "{}", program.err());
    fs::rename(at("new"), at("site")).unwrap();
    wait_for_content(&mut client, "/", "new");
    write_files(&at("site"), &[("index.html", "newer")]);
    wait_for_content(&mut client, "/", "newer");
}

#[test]
fn a_site_that_becomes_unreadable_is_still_served_as_it_was() {
    let dir = site(&[("index.html", "home"), ("page", "old")]);
    let program = Program::started(unprivileged(&serve(dir.path(), &[])));
    let mut client = Client::connect(program.address());
    let set_mode =
        |mode| fs::set_permissions(dir.path().join("page"), fs::Permissions::from_mode(mode)).unwrap();
    set_mode(0o000);
    let want = format!("{}/page (owned by ", dir.path().display());
    let kept = "; still serving the previous version\n";
    wait_for("a warning", || {
        let said = program.err();
        (said.contains(&want) && said.ends_with(kept)).then_some(())
    });
    assert_eq!(client.get("/page").content, b"old");
    assert_eq!(client.get("/").content, b"home");
    set_mode(0o644);
    write_files(dir.path(), &[("page", "new")]);
    wait_for_content(&mut client, "/page", "new");
}

#[test]
fn a_build_that_failed_is_tried_again_although_nothing_changes() {
    let dir = site(&[("index.html", "old")]);
    let program = Program::started(serve(dir.path(), as_ourselves()));
    let mut client = Client::connect(program.address());
    assert_eq!(client.get("/").content, b"old");
    // Too few descriptors for anything new, and then as many as before.
    let few = Rlimit { current: Some(3), ..getrlimit(Resource::Nofile) };
    let enough = prlimit(Some(program.keeper()), Resource::Nofile, few).unwrap();
    write_files(dir.path(), &[("index.html", "new")]);
    wait_for("a warning", || program.err().contains("; still serving the previous version").then_some(()));
    assert_eq!(client.get("/").content, b"old");
    prlimit(Some(program.keeper()), Resource::Nofile, enough).unwrap();
    // What goes on beside the site, without a pause, does not put it off.
    let beside = tempfile::NamedTempFile::new_in(dir.path().parent().unwrap()).unwrap();
    wait_for("the new content", || {
        fs::write(beside.path(), "x").unwrap();
        (client.get("/").content == b"new").then_some(())
    });
}

/// Directories and files that the kernel watches for a program. proc(5), /proc/pid/fdinfo.
fn watch_count(program: &Program) -> usize {
    let dir = format!("/proc/{}/fdinfo", program.keeper().as_raw_nonzero());
    let infos = fs::read_dir(dir).unwrap().map(|entry| fs::read_to_string(entry.unwrap().path()));
    // A descriptor may be closed meanwhile.
    infos.flatten().map(|info| info.matches("inotify wd:").count()).sum()
}
