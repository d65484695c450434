//! Directory listings on every engine, of a directory, a tar archive and a packed site.

use crate::common::{
    ENGINES,
    client::{Response, TestClient},
    endpoint::TestTls,
    program::{RunningProgram, serve, tarpon},
    readable_dir, site, wait_for, write_files,
};
use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;

/// File names that need escaping. A tar archive omits the last one.
const NAMES: [&[u8]; 13] = [
    b"a b.txt",
    b"quo\"te'.txt",
    b"<script>alert(1)<.txt",
    b"100%.txt",
    b"a?b.txt",
    b"a#b.txt",
    b"a&b;.txt",
    b"back\\slash.txt",
    b"javascript:alert(1).txt",
    b"new\nline.txt",
    "\u{202e}txt.exe".as_bytes(),
    "שלום.txt".as_bytes(),
    b"not utf-8 \xff.txt",
];

/// A site as a directory, as a tar archive, and packed.
struct SiteFormats {
    dir: TempDir,
    out: TempDir,
}

impl SiteFormats {
    fn new() -> SiteFormats {
        let dir = site(&[
            ("index.html", "home"),
            ("with/index.html", "a page"),
            ("list/sub/file", "x"),
            ("list/page.html", "page"),
            ("list/.hidden", "no"),
            ("list/2.txt", "two"),
            ("list/10.txt", "ten"),
            ("odd/deeper/file", "y"),
        ]);
        for name in NAMES {
            let content = String::from_utf8_lossy(name).into_owned();
            fs::write(dir.path().join("odd").join(OsString::from_vec(name.to_vec())), content)
                .expect("a file");
        }
        let long = "n".repeat(250);
        fs::write(dir.path().join("odd").join(&long), &long).expect("a file");
        let out = readable_dir();
        let mut tar = Command::new("tar");
        tar.args(["--format=pax", "-cf"])
            .arg(out.path().join("plain.tar"))
            .arg("-C")
            .arg(dir.path())
            .arg(".");
        assert!(tar.status().expect("tar").success());
        SiteFormats { dir, out }
    }

    /// Returns the path of each format and whether it contains names that are not UTF-8.
    fn paths(&self, options: &[&str]) -> [(PathBuf, bool); 3] {
        let packed = self.out.path().join("packed.tar");
        let mut pack = tarpon([OsStr::new("pack"), self.dir.path().as_os_str()]);
        pack.args(["--effort", "fast", "-o"]).arg(&packed).args(options);
        let ended = RunningProgram::run(pack);
        assert!(ended.status.success(), "{ended:?}");
        let checked = RunningProgram::run(tarpon([OsStr::new("verify"), packed.as_os_str()]));
        assert!(checked.status.success(), "{checked:?}");
        [(self.dir.path().to_owned(), true), (self.out.path().join("plain.tar"), false), (packed, true)]
    }

    /// Serves each format on each engine and runs the check.
    fn check_each(&self, options: &[&str], check: impl Fn(&mut TestClient, &str, bool)) {
        let tls = TestTls::new();
        for (path, is_whole) in self.paths(options) {
            for engine in ENGINES {
                let is_packed = path.ends_with("packed.tar");
                let own = if is_packed { &[] } else { options };
                let options = [&["--engine", engine.name()], own].concat();
                let program = RunningProgram::start_ready(tls.serve(&path, &options));
                for endpoint in tls.endpoints_with_http2(*engine, &program.addresses()) {
                    let what = format!("{engine}, {endpoint}, {}", path.display());
                    check(&mut endpoint.connect(), &what, is_whole);
                }
                // A warning reports the files that a tar archive omits.
                assert!(
                    !is_whole || program.err().is_empty() || program.err().contains("dotfile"),
                    "{}",
                    program.err()
                );
            }
        }
    }
}

fn request(client: &mut TestClient, target: &str, fields: &str) -> Response {
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    client.response()
}

const JSON: &str = "Accept: application/json\r\n";

#[test]
fn directory_without_index_is_listed_with_the_option() {
    let formats = SiteFormats::new();
    formats.check_each(&["--listings"], |client, what, _| {
        let list = client.get("/list/");
        assert_eq!(
            (list.status, list.field("Content-Type")),
            (200, Some("text/html; charset=utf-8")),
            "{what}"
        );
        assert_eq!(list.field("Cache-Control"), Some("no-cache"), "{what}");
        assert!(
            list.field("Vary").is_some_and(|vary| vary.split(", ").any(|name| name == "Accept")),
            "{what}"
        );
        let html = String::from_utf8(list.content.clone()).expect("UTF-8");
        let order = ["sub", "2.txt", "10.txt", "page.html"].map(|name| {
            html.find(&format!("<bdi>{name}</bdi>")).unwrap_or_else(|| panic!("{what}: no {name} in {html}"))
        });
        assert!(order.is_sorted(), "{what}: {html}");
        assert!(!html.contains(".hidden") && !html.contains("<script"), "{what}: {html}");

        let tag = list.field("ETag").expect("a tag");
        let again = request(client, "/list/", &format!("If-None-Match: {tag}\r\n"));
        assert_eq!((again.status, again.field("Vary")), (304, list.field("Vary")), "{what}");
        let redirect = client.get("/list?q");
        assert_eq!((redirect.status, redirect.field("Location")), (301, Some("/list/?q")), "{what}");
        assert_eq!(client.get("/with/").content, b"a page", "{what}");
        assert_eq!(client.get("/").content, b"home", "{what}");
        assert_eq!(client.get("/none/").status, 404, "{what}");
        assert_eq!(client.get("/list/index.html").status, 404, "{what}");
        assert_eq!(client.get("/list/%20json").status, 404, "{what}");
        client.send("HEAD /list/ HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(
            client.try_head().expect("a head").field("Content-Length"),
            list.field("Content-Length"),
            "{what}"
        );
    });
    formats.check_each(&[], |client, what, _| {
        assert_eq!((client.get("/list/").status, client.get("/list").status), (404, 404), "{what}");
    });
}

#[test]
fn json_listing_is_negotiated() {
    let formats = SiteFormats::new();
    let times = ["sub/file", "2.txt", "10.txt", "page.html"]
        .map(|name| modified(&formats.dir.path().join("list").join(name)));
    let want = format!(
        "[\n{{\"name\":\"sub\",\"type\":\"directory\",\"modified\":\"{}\",\"href\":\"/list/sub/\"}},\n\
         {{\"name\":\"2.txt\",\"type\":\"file\",\"size\":3,\"modified\":\"{}\",\"href\":\"/list/2.txt\"}},\n\
         {{\"name\":\"10.txt\",\"type\":\"file\",\"size\":3,\"modified\":\"{}\",\"href\":\"/list/10.txt\"}},\n\
         {{\"name\":\"page.html\",\"type\":\"file\",\"size\":4,\"modified\":\"{}\",\"href\":\"/list/page.html\"}}\n]\n",
        times[0], times[1], times[2], times[3]
    );
    formats.check_each(&["--listings"], |client, what, _| {
        let html = client.get("/list/");
        let json = request(client, "/list/", JSON);
        assert_eq!((json.status, json.field("Content-Type")), (200, Some("application/json")), "{what}");
        assert_eq!(String::from_utf8_lossy(&json.content), want, "{what}");
        assert!(
            json.field("Vary").is_some_and(|vary| vary.split(", ").any(|name| name == "Accept")),
            "{what}"
        );
        let tag = json.field("ETag").expect("a tag");
        assert_ne!(Some(tag), html.field("ETag"), "{what}");
        assert_eq!(
            request(client, "/list/", &format!("{JSON}If-None-Match: {tag}\r\n")).status,
            304,
            "{what}"
        );
        assert_eq!(request(client, "/list/", &format!("If-None-Match: {tag}\r\n")).status, 200, "{what}");
        for (accept, is_json) in [
            ("application/json, text/plain, */*", true),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", false),
            ("*/*", false),
            ("application/json;q=0.5, text/html;q=0.6", false),
            ("application/json;q=0.6, text/html;q=0.5", true),
        ] {
            let got = request(client, "/list/", &format!("Accept: {accept}\r\n"));
            let got_json = got.field("Content-Type") == Some("application/json");
            assert_eq!(got_json, is_json, "{what}: {accept}");
        }
        // The Accept field does not change files and index pages.
        assert_eq!(request(client, "/list/page.html", JSON).content, b"page", "{what}");
        assert_eq!(request(client, "/with/", JSON).content, b"a page", "{what}");
    });
}

/// Returns the modification time of a file in the format of `date`.
fn modified(path: &Path) -> String {
    let out =
        Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ", "-r"]).arg(path).output().expect("date");
    String::from_utf8_lossy(&out.stdout).trim().to_owned()
}

#[test]
fn links_lead_to_the_named_files() {
    let formats = SiteFormats::new();
    formats.check_each(&["--listings"], |client, what, is_whole| {
        let list = String::from_utf8(client.get("/odd/").content).expect("UTF-8");
        let hrefs: Vec<_> =
            list.split("<td><a href=\"").skip(1).map(|rest| rest.split('"').next().unwrap_or("")).collect();
        // With a directory, a long name, and the directory above.
        let count = NAMES.len() + 3 - usize::from(!is_whole);
        assert_eq!(hrefs.len(), count, "{what}: {list}");
        let mut contents = Vec::new();
        for href in hrefs {
            let target = href.replace("&amp;", "&");
            let got = client.get(&target);
            assert_eq!(got.status, 200, "{what}: {target}");
            contents.push(got.content);
        }
        for name in NAMES.iter().filter(|name| is_whole || str::from_utf8(name).is_ok()) {
            let content = String::from_utf8_lossy(name).into_owned().into_bytes();
            assert!(contents.contains(&content), "{what}: {}", name.escape_ascii());
        }
    });
}

#[test]
fn listings_follow_the_url_policy() {
    let formats = SiteFormats::new();
    formats.check_each(&["--listings", "--clean-urls", "--trailing-slash", "never"], |client, what, _| {
        let redirect = client.get("/list/");
        assert_eq!((redirect.status, redirect.field("Location")), (301, Some("/list")), "{what}");
        let list = String::from_utf8(client.get("/list").content).expect("UTF-8");
        assert!(
            list.contains("<a href=\"/list/page\">") && list.contains("<a href=\"/list/sub\">"),
            "{what}: {list}"
        );
        let json = request(client, "/list", JSON);
        assert_eq!(json.field("Content-Type"), Some("application/json"), "{what}");
    });
}

#[test]
fn packed_listing_is_compressed_and_inspected() {
    let formats = SiteFormats::new();
    let [_, _, (packed, _)] = formats.paths(&["--listings"]);
    let program = RunningProgram::start_ready(serve(&packed, &[]));
    let mut client = TestClient::connect(program.address());
    for accept in ["", JSON] {
        let coded = request(&mut client, "/odd/", &format!("{accept}Accept-Encoding: br\r\n"));
        assert_eq!(coded.field("Content-Encoding"), Some("br"), "{accept}");
        assert_eq!(coded.field("Vary"), Some("Accept-Encoding, Accept"), "{accept}");
        assert!(coded.content.len() < request(&mut client, "/odd/", accept).content.len() / 2, "{accept}");
    }
    let ended = RunningProgram::run(tarpon(["inspect".as_ref(), packed.as_os_str()]));
    let row = ended.out.lines().find(|line| line.starts_with("/list/ ")).expect("a row");
    assert!(row.contains("listing, text/html"), "{row}");
    let ended = RunningProgram::run(tarpon(["inspect".as_ref(), "--json".as_ref(), packed.as_os_str()]));
    assert!(ended.out.contains(r#"{"path":"/list/","status":200,"listing":true,"#), "{}", ended.out);
    assert!(ended.out.contains(r#"{"path":"/with/","status":200,"listing":false,"#), "{}", ended.out);
}

#[test]
fn listing_is_reloaded() {
    let dir = site(&[("index.html", "home"), ("list/one", "1")]);
    for engine in ENGINES {
        let program =
            RunningProgram::start_ready(serve(dir.path(), &["--listings", "--engine", engine.name()]));
        let mut client = TestClient::connect(program.address());
        let name = format!("of {engine}");
        assert!(!String::from_utf8_lossy(&client.get("/list/").content).contains(&name));
        write_files(dir.path(), &[(format!("list/{name}"), "2")]);
        wait_for("the new file", || {
            String::from_utf8_lossy(&client.get("/list/").content).contains(&name).then_some(())
        });
        fs::remove_dir_all(dir.path().join("list")).expect("removed");
        wait_for("the listing is removed", || (client.get("/list/").status == 404).then_some(()));
        write_files(dir.path(), &[("list/one", "1")]);
        wait_for("the listing is restored", || (client.get("/list/").status == 200).then_some(()));
    }
}

#[test]
fn rules_and_headers_apply_to_listings() {
    let dir = site(&[
        ("list/one", "1"),
        ("_headers", "/list/*\n  X-A: b\n  Vary: Origin\n"),
        ("_redirects", "/old /list/ 200\n/list/ /elsewhere 302!\n"),
    ]);
    for engine in ENGINES {
        let options = ["--listings", "--secure-headers", "--engine", engine.name()];
        let program = RunningProgram::start_ready(serve(dir.path(), &options));
        let mut client = TestClient::connect(program.address());
        let root = client.get("/");
        assert_eq!((root.status, root.field("X-Content-Type-Options")), (200, Some("nosniff")), "{engine}");
        assert!(!String::from_utf8_lossy(&root.content).contains("_headers"), "{engine}");
        let old = client.get("/old");
        assert!(String::from_utf8_lossy(&old.content).contains("<bdi>one</bdi>"), "{engine}: {}", old.head);
        assert_eq!(client.get("/list/").field("Location"), Some("/elsewhere"), "{engine}: a forced rule");
    }
}
