//! Sites mounted at paths: a directory, an archive and a packed site in one server.

use crate::common::{
    ENGINES,
    client::TestClient,
    endpoint::TestTls,
    program::{RunningProgram, serve_config, tarpon},
    server::TestServer,
    site, wait_for,
};
use std::{ffi::OsStr, fs, path::Path, process::Command};
use tarpon::{
    CompressionEffort, Engine, PathPrefix, Policy, Progress, Site, SitePacking, SiteSource, SiteWatcher,
    UnknownHost, VirtualHost, VirtualHosts, pack,
};
use tempfile::TempDir;

/// Returns a site with its name in the content, with rules, an error page and a directory without a page.
fn dir(name: &str) -> TempDir {
    site(&[
        ("index.html", name.to_owned()),
        ("a b/index.html", format!("a b of {name}")),
        ("files/one.txt", format!("one of {name}")),
        ("404.html", format!("missing in {name}")),
        (
            "_redirects",
            "/old /new\n/was/:it /is/:it\n/out https://example.org/\n/one.txt /files/one.txt 200\n"
                .to_owned(),
        ),
        ("_headers", format!("/*\n  X-Site: {name}\n")),
    ])
}

/// Starts a server with a site of its own at `/`, a directory at `/docs`, a packed site at `/docs/api v1`, and at one host an archive.
fn four_sites(engine: Engine, tls: &TestTls) -> TestServer {
    let dirs = ["main", "docs", "api", "tar"].map(dir);
    let work = crate::common::readable_dir();
    let (packed, archive) = (work.path().join("api.tar"), work.path().join("plain.tar"));
    pack_for("/docs/api v1", dirs[2].path(), &packed);
    tar(dirs[3].path(), &archive);
    let config = format!(
        "[[site]]\npath = {:?}\n\
         [[site]]\npath = {:?}\nmount = \"/docs/\"\nlistings = true\n\
         [[site]]\npath = {packed:?}\nmount = \"/docs/api v1\"\n\
         [[site]]\npath = {archive:?}\nmount = \"/docs\"\nhosts = [\"tar.example\"]\n",
        dirs[0].path(),
        dirs[1].path(),
    );
    let mut command = serve_config(&config, work.path(), &["--engine", engine.name()]);
    command.args(tls.options());
    TestServer::from(RunningProgram::start_ready(command)).keep((work, dirs))
}

fn pack_for(base: &str, dir: &Path, target: &Path) {
    let policy = Policy { base: base.to_owned(), ..Policy::default() };
    let source = SiteSource { path: dir.into(), policy, ..SiteSource::default() };
    let packing = SitePacking { effort: CompressionEffort::Fast, ..SitePacking::new(target) };
    pack(&source, &packing, &Progress::default()).expect("a packed site");
}

fn tar(dir: &Path, target: &Path) {
    let status = Command::new("tar").arg("-cf").arg(target).arg("-C").arg(dir).arg(".").status();
    assert!(status.expect("tar").success());
}

/// Returns the status of a response, and its Location or else the first line of its content.
fn get(client: &mut TestClient, host: &str, target: &str) -> String {
    client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    let response = client.response();
    let content = String::from_utf8_lossy(&response.content);
    let content = content.lines().next().unwrap_or_default();
    format!("{} {}", response.status, response.field("Location").unwrap_or(content))
}

#[test]
fn mount_answers_below_its_path_on_every_engine() {
    #[rustfmt::skip]
    let cases = [
        // case                      host           target                          response
        ("the site of the host",     "a.example",   "/",                            "200 main"),
        ("its directory",            "a.example",   "/a%20b",                       "301 /a%20b/"),
        ("a mount",                  "a.example",   "/docs/",                       "200 docs"),
        ("without its slash",        "a.example",   "/docs?q",                      "301 /docs/?q"),
        ("a directory below it",     "a.example",   "/docs/a%20b?q",                "301 /docs/a%20b/?q"),
        ("a page below it",          "a.example",   "/docs/a%20b/",                 "200 a b of docs"),
        ("its plain rule",           "a.example",   "/docs/old",                    "301 /docs/new"),
        ("its rule with a name",     "a.example",   "/docs/was/x?q",                "301 /docs/is/x?q"),
        ("its rule to another host", "a.example",   "/docs/out",                    "301 https://example.org/"),
        ("its rewrite",              "a.example",   "/docs/one.txt",                "200 one of docs"),
        ("its 404",                  "a.example",   "/docs/none",                   "404 missing in docs"),
        ("another segment",          "a.example",   "/docsx",                       "404 missing in main"),
        ("another case",             "a.example",   "/DOCS/",                       "404 missing in main"),
        ("an escaped slash",         "a.example",   "/docs%2f",                     "404 <!doctype html>"),
        ("dots out of it",           "a.example",   "/docs/../a%20b/",              "200 a b of main"),
        ("dots into it",             "a.example",   "/x/%2e./docs/./files/one.txt", "200 one of docs"),
        ("the longest mount",        "a.example",   "/docs/api%20v1/files/one.txt", "200 one of api"),
        ("escaped otherwise",        "a.example",   "/d%6Fcs/api%20%761/",          "200 api"),
        ("its redirect, packed",     "a.example",   "/docs/api%20v1/a%20b?q",       "301 /docs/api%20v1/a%20b/?q"),
        ("its rule, packed",         "a.example",   "/docs/api%20v1/old",           "301 /docs/api%20v1/new"),
        ("its name rule, packed",    "a.example",   "/docs/api%20v1/was/x",         "301 /docs/api%20v1/is/x"),
        ("no slash, packed",         "a.example",   "/docs/api%20v1",               "301 /docs/api%20v1/"),
        ("the mount of a host",      "tar.example", "/docs/files/one.txt",          "200 one of tar"),
        ("its directory",            "tar.example", "/docs/a%20b",                  "301 /docs/a%20b/"),
        ("a longer one of any host", "tar.example", "/docs/api%20v1/",              "200 api"),
        ("the default site",         "tar.example", "/files/one.txt",               "200 one of main"),
    ];
    let tls = TestTls::for_hosts(&["tar.example"]);
    let servers = ENGINES.iter().map(|&engine| (engine, four_sites(engine, &tls)));
    for (engine, served) in servers {
        for endpoint in tls.endpoints_with_http2(engine, &served.addresses) {
            let place = format!("{engine}, {endpoint}");
            let mut client = endpoint.connect();
            for (name, host, target, want) in cases {
                assert_eq!(get(&mut client, host, target), want, "{place}: {name}: {target} at {host}");
            }
            client.send("GET /docs/files/ HTTP/1.1\r\nHost: a\r\n\r\nGET /docs/ HTTP/1.1\r\nHost: a\r\n\r\n");
            let listing = client.response();
            let page = String::from_utf8(listing.content.clone()).expect("a page");
            for href in ["href=\"/docs/\"", "href=\"/docs/files/one.txt\""] {
                assert!(page.contains(href), "{place}: {href} in {page}");
            }
            assert_eq!(client.response().field("X-Site"), Some("docs"), "{place}");
        }
    }
}

#[test]
fn only_mounts_answer_404_elsewhere() {
    let docs = dir("docs");
    let options = ["--mount", "/docs", "--listen", "127.0.0.1:0", "--admin", "off"];
    let mut command = tarpon([OsStr::new("serve"), docs.path().as_os_str()]);
    command.args(options);
    let program = RunningProgram::start_ready(command);
    let mut client = TestClient::connect(program.address());
    #[rustfmt::skip]
    let cases = [
        ("/",          "404 <!doctype html>"),
        ("/docs/",     "200 docs"),
        ("/docs/none", "404 missing in docs"),
        ("/a%20b/",    "404 <!doctype html>"),
    ];
    for (target, want) in cases {
        assert_eq!(get(&mut client, "a", target), want, "{target}");
    }
}

#[test]
fn base_precedes_redirects_for_a_proxy_that_strips_it() {
    let docs = dir("docs");
    let options = ["--base", "/x", "--listen", "127.0.0.1:0", "--admin", "off"];
    let mut command = tarpon([OsStr::new("serve"), docs.path().as_os_str()]);
    command.args(options);
    let program = RunningProgram::start_ready(command);
    let mut client = TestClient::connect(program.address());
    for (target, want) in [
        ("/", "200 docs"),
        ("/a%20b", "301 /x/a%20b/"),
        ("/was/y", "301 /x/is/y"),
        ("/x/", "404 missing in docs"),
    ] {
        assert_eq!(get(&mut client, "a", target), want, "{target}");
    }
}

#[test]
fn mounted_site_is_followed_and_a_mount_is_added_by_a_reload() {
    let (main, docs, work) = (dir("main"), dir("docs"), crate::common::readable_dir());
    let admin = format!("unix:{}", work.path().join("admin.sock").to_str().expect("UTF-8"));
    let config = |mount: &str| {
        format!(
            "[server]\nadmin = {admin:?}\n[[listener]]\naddress = \"127.0.0.1:0\"\n[[site]]\npath = {:?}\n[[site]]\npath = {:?}\nmount = {mount:?}\n",
            main.path(),
            docs.path(),
        )
    };
    let file = work.path().join("tarpon.toml");
    fs::write(&file, config("/docs")).expect("a file");
    let program =
        RunningProgram::start_ready(tarpon([OsStr::new("serve"), OsStr::new("--config"), file.as_os_str()]));
    let mut client = TestClient::connect(program.address());
    fs::write(docs.path().join("new.txt"), "new").expect("a file");
    wait_for("the new file", || (get(&mut client, "a", "/docs/new.txt") == "200 new").then_some(()));
    fs::write(&file, config("/manual")).expect("a file");
    let reload =
        RunningProgram::run(tarpon([OsStr::new("reload"), OsStr::new("--admin"), OsStr::new(&admin)]));
    assert!(reload.status.success(), "{}", reload.err);
    // The server before may still accept some clients.
    wait_for("the new mount", || {
        let mut client = TestClient::connect(program.address());
        (get(&mut client, "a", "/manual/a%20b") == "301 /manual/a%20b/").then(|| {
            assert_eq!(get(&mut client, "a", "/docs/"), "404 missing in main");
        })
    });
}

#[test]
fn unusable_mounts_fail_with_a_hint() {
    let (docs, work) = (dir("docs"), crate::common::readable_dir());
    let packed = work.path().join("docs.tar");
    pack_for("", docs.path(), &packed);
    #[rustfmt::skip]
    let cases = [
        // case              sites                                                                                    error
        ("twice",            "[[site]]\npath = \".\"\nmount = \"/a\"\n[[site]]\npath = \".\"\nmount = \"/a/\"\n",     "mount /a of every host occurs twice"),
        ("twice at a host",  "[[site]]\npath = \".\"\nmount = \"/a\"\nhosts = [\"b\"]\n[[site]]\npath = \".\"\nmount = \"/a\"\nhosts = [\"B\"]\n", "mount /a of b occurs twice"),
        ("relative",         "[[site]]\npath = \".\"\nmount = \"a\"\n",                                               "expected a path that begins with /"),
        ("escaped",          "[[site]]\npath = \".\"\nmount = \"/a%20b\"\n",                                          "no %, ?, #"),
        ("redirect hosts",   "[[site]]\npath = \".\"\nmount = \"/a\"\nhosts = [\"b\"]\nredirect-hosts = [\"c\"]\n",   "a site with a mount cannot have `redirect-hosts`"),
        ("default",          "[[site]]\npath = \".\"\nmount = \"/a\"\ndefault = true\n",                              "a site with a mount cannot be the default"),
        ("packed otherwise", "[[site]]\npath = \"docs.tar\"\nmount = \"/a\"\n",                                       "pack it with --base /a"),
    ];
    for (name, sites, want) in cases {
        let config = format!("[[listener]]\naddress = \"127.0.0.1:0\"\n{sites}");
        let exit = RunningProgram::run(serve_config(&config, work.path(), &[]));
        assert!(!exit.status.success() && exit.err.contains(want), "{name}: {}", exit.err);
    }
}

#[test]
fn library_mounts_a_site() {
    let (main, docs) = (dir("main"), dir("docs"));
    let mount: PathPrefix = "/docs".parse().expect("a prefix");
    let with_base = |base: &str| {
        let policy = Policy { base: base.to_owned(), ..Policy::default() };
        let source = SiteSource { path: docs.path().into(), policy, ..SiteSource::default() };
        SiteWatcher::new(source).expect("a site").1
    };
    let sites = |docs: Site| {
        let mounted = VirtualHost { mount: Some(mount.clone()), ..docs.into() };
        VirtualHosts::new(
            vec![Site::from_dir(main.path()).expect("a site").into(), mounted],
            UnknownHost::Site(0),
        )
    };
    let error = sites(with_base("")).expect_err("its redirects lead elsewhere").to_string();
    assert!(error.contains("Policy::base"), "{error}");
    let served = crate::common::server::EmbeddedServer::sites(
        &crate::common::server::settings(Engine::Poll, 1),
        sites(with_base("/docs")).expect("different paths"),
    );
    let mut client = TestClient::connect(served.address);
    assert_eq!(get(&mut client, "a", "/docs/a%20b"), "301 /docs/a%20b/");
    assert_eq!(get(&mut client, "a", "/files/one.txt"), "200 one of main");
}
