//! Directories of users: which users have one, which changes are followed, and that no user affects the others.
//!
//! A test that runs as root starts the program in a mount namespace, with its own file of users at /etc/passwd. Without root, the tests give
//! users to a server within their own process.

use crate::common::{
    ENGINES, TEST_TIMEOUT,
    client::{CONNECT, Response, TestClient},
    program::{RunningProgram, serve, wrap_command},
    readable_dir, wait_for, write_files,
};
use rustix::process::geteuid;
use std::{
    fs::{self, File, Permissions},
    io::Write,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::Command,
    sync::mpsc::channel,
};
use tarpon::{SiteChange, SiteSource, SiteWatcher, UserDirectories, UserDirectory};
use tempfile::TempDir;

#[test]
fn users_have_directories_below_their_names() {
    if !geteuid().is_root() {
        return;
    }
    let host = UserHost::new();
    host.add("alice", 1000);
    host.add("barred", 1001);
    host.add("closed", 1002);
    host.add("leading", 1003);
    host.add("late", 1004);
    host.add("www", 33);
    host.write(&[
        ("site/index.html", "the site"),
        ("site/_headers", "/~alice/*\n  X-From: the site\n"),
        ("home/alice/public_html/index.html", "alice"),
        ("home/alice/public_html/404.html", "not of alice"),
        ("home/alice/public_html/a b/.well-known/file", "known"),
        ("home/alice/public_html/.htaccess", "secret"),
        ("home/alice/public_html/_headers", "/*\n  X-From: alice\n"),
        ("home/alice/public_html/private", "private"),
        ("home/alice/diary", "secret"),
        ("home/barred/public_html/index.html", "barred"),
        ("home/closed/public_html/index.html", "closed"),
        ("home/www/public_html/index.html", "of the system"),
        ("root/public_html/index.html", "of root"),
    ]);
    let link = |target: &str, name: &str| symlink(target, host.at(name)).unwrap();
    link("../diary", "home/alice/public_html/out");
    link("index.html", "home/alice/public_html/in");
    link("/etc", "home/leading/public_html");
    host.set_mode("home/alice/public_html/private", 0o600);
    host.set_mode("home/barred", 0o700);
    host.set_mode("home/closed/public_html", 0o700);
    let program = host.serve(&["--user-directories", "public_html"]);
    #[rustfmt::skip]
    let cases: &[(&str, &str, u16, &str)] = &[
        // what it shows           target                                status  content or location
        ("the site",               "/",                                  200, "the site"),
        ("a home page",            "/~alice/",                           200, "alice"),
        ("percent-encoded",        "/%7Ealice/",                         200, "alice"),
        ("without the slash",      "/~alice?q",                          301, "/~alice/?q"),
        ("a link within",          "/~alice/in",                         200, "alice"),
        ("deep down",              "/~alice/a%20b/.well-known/file",     200, "known"),
        ("a link out of it",       "/~alice/out",                        404, "not of alice"),
        ("a dotfile",              "/~alice/.htaccess",                  404, "not of alice"),
        ("rules of a user",        "/~alice/_headers",                   404, "not of alice"),
        ("a private file",         "/~alice/private",                    404, "not of alice"),
        ("an unknown user",        "/~nobodyhere/",                      404, ""),
        ("no directory",           "/~late/",                            404, ""),
        ("a closed home",          "/~barred/",                          404, ""),
        ("a closed directory",     "/~closed/",                          404, ""),
        ("a link out of the home", "/~leading/passwd",                   404, ""),
        ("a user of the system",   "/~www/",                             404, ""),
        ("root",                   "/~root/",                            404, ""),
        ("no name",                "/~/",                                404, ""),
    ];
    for (version, connect) in CONNECT {
        let mut client = connect(program.address());
        for (name, target, status, want) in cases {
            let response = client.get(target);
            let got = response.field("Location").unwrap_or(std::str::from_utf8(&response.content).unwrap());
            assert_eq!(response.status, *status, "{version}, {name}");
            assert!(want.is_empty() || got == *want, "{version}, {name}: {got}");
        }
        assert_eq!(
            client.get("/~alice/").field("X-From"),
            Some("the site"),
            "rules of the site apply, and rules of users do not"
        );
    }
    let errors = program.err();
    for want in [
        format!("skipped 1 home directory without search permission: {}", host.at("home/barred").display()),
        "skipped 1 unreadable file or directory of a user: ~alice/private".to_owned(),
        format!("omitted /~leading/: {0} is outside", host.at("home/leading/public_html").display()),
        format!(
            "omitted /~closed/: cannot read {0}: permission denied; make it readable, for example with chmod o+rx {0}",
            host.at("home/closed/public_html").display()
        ),
    ] {
        assert!(errors.contains(&want), "{want} in {errors}");
    }
}

#[test]
fn options_select_and_exclude_users() {
    if !geteuid().is_root() {
        return;
    }
    let host = UserHost::new();
    for (name, uid) in [("alice", 1000), ("bob", 1001), ("www", 33)] {
        host.add(name, uid);
        host.write(&[(&*format!("home/{name}/web/pages/index.html"), "x")]);
    }
    host.write(&[("site/index.html", "x")]);
    #[rustfmt::skip]
    let cases: &[(&[&str], [u16; 3])] = &[
        // options                                                               alice, bob, www
        (&[],                                                                    [404, 404, 404]),
        (&["--user-directories", "web/pages"],                                   [200, 200, 404]),
        (&["--user-directories", "web/pages", "--user-directories-of", "www"],   [404, 404, 200]),
        (&["--user-directories", "web/pages", "--user-directories-except", "bob"], [200, 404, 404]),
    ];
    for (engine, (options, want)) in
        ENGINES.iter().flat_map(|engine| cases.iter().map(move |case| (engine, case)))
    {
        let program = host.serve(&[options, &["--engine", engine.name()][..]].concat());
        let mut client = TestClient::connect(program.address());
        let got = ["/~alice/", "/~bob/", "/~www/"].map(|target| client.get(target).status);
        assert_eq!(got, *want, "{engine}, {options:?}");
    }
}

#[test]
fn changes_by_users_are_followed_and_no_user_takes_the_site_down() {
    if !geteuid().is_root() {
        return;
    }
    let host = UserHost::new();
    host.add("alice", 1000);
    host.add("bob", 1001);
    host.write(&[
        ("site/index.html", "the site"),
        ("home/alice/public_html/index.html", "alice"),
        ("home/bob/x", ""),
    ]);
    host.set_mode("home/bob", 0o711);
    let program = host.serve(&["--user-directories", "public_html"]);
    let builder = program.builder();
    host.write(&[("home/alice/public_html/new/deep/page.html", "deep")]);
    program.wait_for("/~alice/new/deep/page.html", |page| page.content == b"deep");
    host.write(&[("home/alice/public_html/new/deep/page.html", "deeper")]);
    program.wait_for("/~alice/new/deep/page.html", |page| page.content == b"deeper");
    assert_eq!(program.builder(), builder, "the same builder reads the new files");
    host.write(&[("home/bob/public_html/index.html", "bob")]);
    program.wait_for("/~bob/", |page| page.content == b"bob");
    host.set_mode("home/bob/public_html", 0o700);
    program.wait_for("/~bob/", |page| page.status == 404);
    host.set_mode("home/bob/public_html", 0o755);
    program.wait_for("/~bob/", |page| page.content == b"bob");
    fs::rename(host.at("home/bob/public_html"), host.at("home/bob/before")).unwrap();
    program.wait_for("/~bob/", |page| page.status == 404);
    host.write(&[("home/bob/public_html/index.html", "bob again")]);
    program.wait_for("/~bob/", |page| page.content == b"bob again");
    host.write(&[("home/carol/public_html/index.html", "carol")]);
    host.add("carol", 1002);
    program.wait_for("/~carol/", |page| page.content == b"carol");
    let many: Vec<_> = (0..10_001).map(|number| (format!("home/alice/public_html/{number}"), "")).collect();
    host.write(&many);
    program.wait_for("/~alice/", |page| page.status == 404);
    let want = format!(
        "omitted /~alice/: {} has more than 10000 files and directories; move some out of it",
        host.at("home/alice/public_html").display()
    );
    wait_for("the warning", || program.err().contains(&want).then_some(()));
    host.write(&[("site/index.html", "goes on")]);
    program.wait_for("/", |page| page.content == b"goes on");
    let mut client = TestClient::connect(program.address());
    assert_eq!(client.get("/~carol/").content, b"carol");
}

#[test]
fn archive_with_user_directories_is_an_error() {
    let dir = readable_dir();
    let archive = dir.path().join("site.tar");
    let status = Command::new("tar").arg("-cf").arg(&archive).args(["-T", "/dev/null"]).status().unwrap();
    assert!(status.success());
    fs::set_permissions(&archive, Permissions::from_mode(0o644)).unwrap();
    let ended = RunningProgram::run(serve(&archive, &["--user-directories", "public_html"]));
    let want = format!(
        "tarpon: cannot serve directories of users beside {}: it is an archive, and only a directory can have them; leave \
         --user-directories out, or serve a directory",
        archive.display()
    );
    assert_eq!((ended.status.code(), ended.error_line()), (Some(1), &*want));
}

#[test]
fn library_follows_the_directories_of_given_users() {
    let dir = readable_dir();
    write_files(dir.path(), &[("site/index.html", "home"), ("home/alice/index.html", "not served")]);
    let user = UserDirectory { name: "alice".into(), home: dir.path().join("home/alice"), dir: "www".into() };
    let users = UserDirectories { directories: vec![user], user_database: None };
    let source = SiteSource { path: dir.path().join("site"), users, ..SiteSource::default() };
    let (watched, site) = SiteWatcher::new(source).unwrap();
    assert_eq!(site.file_count(), 1);
    let (send, changes) = channel();
    let _following = watched.follow(move |change| drop(send.send(change))).unwrap();
    let wait_for_count = |count| loop {
        match changes.recv_timeout(TEST_TIMEOUT).expect("a change") {
            SiteChange::Site(site) if site.file_count() == count => return,
            _ => {}
        }
    };
    write_files(dir.path(), &[("home/alice/www/a", "a")]);
    wait_for_count(2);
    write_files(dir.path(), &[("home/alice/www/b/c", "c")]);
    wait_for_count(3);
    fs::remove_dir_all(dir.path().join("home/alice/www")).unwrap();
    wait_for_count(1);
}

/// The files of a host: a site, users, and their homes.
struct UserHost {
    dir: TempDir,
}

impl UserHost {
    fn new() -> UserHost {
        let dir = readable_dir();
        let root = dir.path().join("root");
        let users = format!(
            "root:x:0:0::{}:/bin/sh\nnobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n",
            root.display()
        );
        write_files(dir.path(), &[("passwd", &*users), ("site/x", ""), ("home/x", "")]);
        UserHost { dir }
    }

    /// Adds a user with a home.
    fn add(&self, name: &str, uid: u32) {
        let home = self.at("home").join(name);
        fs::create_dir_all(&home).unwrap();
        let mut file = File::options().append(true).open(self.at("passwd")).unwrap();
        writeln!(file, "{name}:x:{uid}:{uid}::{}:/bin/sh", home.display()).unwrap();
    }

    fn at(&self, path: &str) -> std::path::PathBuf {
        self.dir.path().join(path)
    }

    fn write<P: AsRef<Path>, C: AsRef<[u8]>>(&self, files: &[(P, C)]) {
        write_files(self.dir.path(), files);
    }

    fn set_mode(&self, path: &str, mode: u32) {
        fs::set_permissions(self.at(path), Permissions::from_mode(mode)).unwrap();
    }

    /// Serves the site with the users of this host.
    fn serve(&self, options: &[&str]) -> HostProgram {
        let passwd = self.at("passwd");
        let script = "mount --bind \"$0\" /etc/passwd && exec \"$@\"";
        let starter = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script];
        let starter: Vec<_> = starter.into_iter().chain(passwd.to_str()).collect();
        HostProgram(RunningProgram::start_ready(wrap_command(&starter, &serve(&self.at("site"), options))))
    }
}

/// A program that serves the site of a host.
struct HostProgram(RunningProgram);

impl HostProgram {
    /// Sends requests until the response matches. No response may be an error of the server.
    #[track_caller]
    fn wait_for(&self, target: &str, matches: impl Fn(&Response) -> bool) {
        wait_for(target, || {
            let response = TestClient::connect(self.address()).get(target);
            assert!(response.status < 500, "{response:?}");
            matches(&response).then_some(())
        });
    }
}

impl std::ops::Deref for HostProgram {
    type Target = RunningProgram;

    fn deref(&self) -> &RunningProgram {
        &self.0
    }
}
