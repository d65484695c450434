//! A browser: what a page that asks for everything gets in headless Chromium. What it asks for is in
//! `tests/browser/check.js`.

mod common;

use common::{
    ENGINES,
    client::Client,
    page::Page,
    program::{Program, serve},
    releases::{pack, pack_after, point},
    site, wait_for,
    web::{CODED, PICTURE, PLAIN, SOUND_S, web},
    write_files,
};
use serde_json::Value;
use std::{
    collections::HashSet,
    ffi::OsStr,
    fs,
    io::{Cursor, Read, Write},
    net::{SocketAddr, TcpListener},
    os::unix::ffi::OsStrExt,
    path::Path,
    process::{Command, Stdio},
    thread,
};
use tarpon_pack::{BuildCache, PackOptions, pack_dir};
use tarpon_site::{Image, PAGE_CODES};

#[test]
fn a_page_that_asks_for_everything_gets_it_in_a_browser() {
    let site = web();
    let page = include_str!("browser/check.html");
    write_files(site.path(), &[("check.html", page), ("check.js", include_str!("browser/check.js"))]);
    for engine in ENGINES {
        let program = Program::started(serve(site.path(), &["--engine", engine.name()]));
        let url = format!("http://{}/", program.address());
        let page = Page::load(&format!("{url}check.html"), &["--cache", "--verdict", "#verdict"]);
        assert!(!page.verdict.contains("wrong: "), "{engine}: {}", page.verdict);
        // Each of them once as it is, and once more when the browser has asked whether it still holds; one out of parts.
        assert_eq!(page.verdict.lines().count(), 2 * (PLAIN.len() + 1) + 1, "{engine}: {}", page.verdict);
        compare(site.path(), CODED.trim_start_matches('/'), &page.verdict);
        // The player asks for the beginning, and then for where it is to play; it takes only what it needs.
        let (player, others): (Vec<_>, Vec<_>) =
            page.resources.iter().partition(|line| line.contains("?player"));
        let len = fs::metadata(site.path().join("sound.wav")).expect("a file").len();
        let starts: Vec<_> = player
            .iter()
            .filter_map(|line| {
                answered_from(line, len).unwrap_or_else(|wrong| panic!("{engine}: {wrong}: {page:?}"))
            })
            .collect();
        let (sound_at, header_len) = (len * 50 / SOUND_S as u64, 1 << 16);
        assert!(starts.contains(&0), "{engine}: {player:?}");
        assert!(
            starts.iter().any(|&at| at > sound_at - len / 10 && at < sound_at + header_len),
            "{engine}: {player:?}"
        );
        assert!(others.iter().all(|line| line.contains(r#""error": null"#)), "{engine}: {others:?}");
        let answered_count = page.resources.len() - page.count(r#""status": null"#);
        assert_eq!(page.count(r#""protocol": "http/1.1""#), answered_count, "{engine}: {page:?}");
        // Over a few connections, which it uses again and again.
        let connection = |resource: &String| {
            Some(resource.split_once(r#""connection": "#)?.1.split_once(',')?.0.to_owned())
        };
        let connections: HashSet<_> = page.resources.iter().filter_map(connection).collect();
        assert!(page.resources.len() > 40 && connections.len() <= 10, "{engine}: {page:?}");
        let failed = |answer: &str, file: &str| {
            let failed = "Failed to load resource: the server responded with a status of";
            format!("\"{failed} {answer} {url}{file}\"")
        };
        let unsatisfiable = failed("416 (Range Not Satisfiable)", "sound.wav");
        assert_eq!(
            page.errors,
            format!("[{unsatisfiable}, {}]", failed("404 (Not Found)", "nothing")),
            "{engine}"
        );
        assert_eq!(program.err(), "", "{engine}");
    }
}

/// Returns the first byte of the answer to a request of the player. `None`: the player cancelled the request before the answer, or
/// the page was complete before.
///
/// # Errors
/// The server answered wrongly, or failed.
fn answered_from(resource: &str, len: u64) -> Result<Option<u64>, String> {
    // The last one is followed by the end of the list.
    let resource: Value = serde_json::from_str(resource.trim_end_matches([',', ']'])).expect("JSON");
    let wrong = |what: &str| Err(format!("{what}: {resource}"));
    // The player cancels a request when it has enough.
    if !resource["error"].is_null() && resource["canceled"] != true {
        return wrong("a failure");
    }
    if resource["status"].is_null() {
        return Ok(None);
    }
    let range = resource["range"].as_str().and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
    let Some((Ok(first), last)) = range.map(|(first, last)| (first.parse::<u64>(), last.parse().ok())) else {
        return wrong("no range");
    };
    let last = last.map_or(len - 1, |last: u64| last.min(len - 1));
    if resource["status"] != 206 {
        return wrong("a status");
    }
    match resource["contentRange"] == format!("bytes {first}-{last}/{len}") {
        true => Ok(Some(first)),
        false => wrong("another range"),
    }
}

#[test]
fn a_player_may_end_its_requests_and_a_server_may_not() {
    let line = |status: &str, content_range: &str, error: &str, canceled: bool| {
        format!(
            r#"  {{"range": "bytes=5-", "status": {status}, "contentRange": {content_range}, "error": {error}, "canceled": {canceled}}},"#
        )
    };
    let (right, aborted) = (r#""bytes 5-9/10""#, r#""net::ERR_ABORTED""#);
    #[rustfmt::skip]
    let cases = [
        // status, Content-Range, error, canceled            answered from
        (line("206", right, "null", false),                  Ok(Some(5))),
        (line("206", right, aborted, true),                  Ok(Some(5))),
        (line("null", "null", aborted, true),                Ok(None)),
        (line("null", "null", "null", false),                Ok(None)),
        (line("206", right, aborted, false),                 Err(())),
        (line("null", "null", r#""net::ERR_CONNECTION_RESET""#, false), Err(())),
        (line("206", r#""bytes 4-9/10""#, aborted, true),    Err(())),
        (line("206", "null", aborted, true),                 Err(())),
        (line("200", "null", aborted, true),                 Err(())),
        (line("416", r#""bytes */10""#, "null", false),      Err(())),
    ];
    for (line, want) in cases {
        assert_eq!(answered_from(&line, 10).map_err(drop), want, "{line}");
    }
}

/// Names that want care, as somebody else may choose them.
const NAMES: [&[u8]; 14] = [
    b"a b.txt",
    b"quo\"te'.txt",
    b"<img src=x onerror=alert(1)>.txt",
    b"100%25.txt",
    b"a?b.txt",
    b"a#b.txt",
    b"a&amp;b.txt",
    b"back\\slash.txt",
    b"javascript:alert(1)",
    b"new\nline.txt",
    "\u{202e}txt.exe".as_bytes(),
    "שלום.txt".as_bytes(),
    b"not utf-8 \xff.txt",
    &[b'w'; 250],
];

#[test]
fn a_list_is_read_on_a_phone_and_in_the_dark_and_its_links_lead_where_they_say() {
    let check = [
        ("list.html", include_str!("browser/list.html")),
        ("list.js", include_str!("browser/list.js")),
        ("shown.js", include_str!("browser/shown.js")),
        ("odd/dir/file", "in a directory"),
    ];
    let site = site(&check);
    for name in NAMES {
        let content = String::from_utf8_lossy(name).into_owned();
        fs::write(site.path().join("odd").join(OsStr::from_bytes(name)), content).expect("a file");
    }
    for engine in ENGINES {
        let program = Program::started(serve(site.path(), &["--listings", "--engine", engine.name()]));
        let url = format!("http://{}/list.html", program.address());
        for verdict in in_light_and_dark(&url) {
            let links = format!("links: {}, up: /, scripts: 0", NAMES.len() + 1);
            assert!(verdict.ends_with(&links), "{engine}: {verdict}");
        }
    }
}

#[test]
fn every_page_for_an_error_is_read_on_a_phone_and_in_the_dark_in_a_browser() {
    let site = site(&[
        ("errors.html", include_str!("browser/errors.html")),
        ("errors.js", include_str!("browser/errors.js")),
        ("shown.js", include_str!("browser/shown.js")),
    ]);
    let mut out = Cursor::new(Vec::new());
    pack_dir(site.path(), &mut out, &PackOptions::new(0), &mut BuildCache::default()).expect("a site");
    let image = Image::new(out.into_inner().into()).expect("an image");
    // No content is no page.
    let codes: Vec<_> = PAGE_CODES.into_iter().filter(|&code| code != 204).collect();
    for &code in &codes {
        let page = image.bytes(image.page(code).content);
        write_files(site.path(), &[(format!("errors/{code}.html"), page)]);
    }
    let program = Program::started(serve(site.path(), &[]));
    let numbers: Vec<_> = codes.iter().map(u16::to_string).collect();
    let url = format!("http://{}/errors.html?{}", program.address(), numbers.join(","));
    for verdict in in_light_and_dark(&url) {
        assert_eq!(verdict.lines().count(), 2 * codes.len(), "{verdict}");
    }
}

/// What a page that looks at others finds, where light colours are preferred, and dark ones: nothing that is wrong, and text
/// of one colour, which is another in the dark.
fn in_light_and_dark(url: &str) -> [String; 2] {
    [("rgb(0, 0, 0)", &[][..]), ("rgb(255, 255, 255)", &["--dark"])].map(|(colour, dark)| {
        let Page { verdict, .. } = Page::load(url, &[&["--verdict", "#verdict"], dark].concat());
        assert!(!verdict.contains("wrong: "), "{dark:?}: {verdict}");
        let found = verdict.lines().filter_map(|line| line.split_once(": fits, "));
        let found: HashSet<_> = found.map(|(_, colour)| colour.to_owned()).collect();
        assert_eq!(found, HashSet::from([colour.to_owned()]), "{dark:?}: {verdict}");
        verdict
    })
}

#[test]
fn a_page_that_was_loaded_in_a_browser_before_a_switch_gets_the_rest_of_its_release() {
    // What it imports, of which release; whether the next one is there; its picture; what has no hash in its name.
    for (keep, want) in
        [("1", "release 1, 200, 1, 404"), ("0", "TypeError: Failed to fetch dynamically imported")]
    {
        for engine in ENGINES {
            let (releases, loaded) = (common::open_dir(), TcpListener::bind("127.0.0.1:0").expect("a port"));
            let port = loaded.local_addr().expect("an address").port();
            pack(&release(1, "B4qfzvDp", "CxT9_qWe", port), &releases.path().join("1.tar"));
            pack(&release(2, "CxT9_qWe", "B4qfzvDp", port), &releases.path().join("2.tar"));
            point(releases.path(), "1.tar");
            let options = ["--engine", engine.name(), "--keep-releases", keep];
            let program = Program::started(serve(&releases.path().join("current"), &options));
            let address = program.address();
            let page = thread::scope(|scope| {
                scope.spawn(|| switch_when_loaded(&loaded, releases.path(), address));
                Page::load(&format!("http://{address}/"), &["--verdict", "#verdict"])
            });
            assert!(page.verdict.starts_with(want), "{engine}, {keep}: {page:?}");
            assert_eq!(program.err(), "", "{engine}");
        }
    }
}

#[test]
fn a_browser_that_has_a_script_gets_what_the_next_release_has_changed_in_it() {
    for engine in ENGINES {
        let (releases, loaded) =
            (tempfile::tempdir().expect("a directory"), TcpListener::bind("127.0.0.1:0").expect("a port"));
        let port = loaded.local_addr().expect("an address").port();
        let archives = ["1.tar", "2.tar"].map(|name| releases.path().join(name));
        pack_after(&with_script(1, "B4qfzvDp", "CxT9_qWe", port), &[], &archives[0]);
        let files = with_script(2, "CxT9_qWe", "B4qfzvDp", port);
        pack_after(&files, &archives[..1], &archives[1]);
        point(releases.path(), "1.tar");
        let options = ["--engine", engine.name(), "--keep-releases", "1"];
        let program = Program::started(serve(&releases.path().join("current"), &options));
        let address = program.address();
        let page = thread::scope(|scope| {
            scope.spawn(|| switch_when_loaded(&loaded, releases.path(), address));
            Page::load(&format!("http://{address}/"), &["--cache", "--verdict", "#verdict"])
        });
        let (got, sum) = page.verdict.split_once('\n').unwrap_or_else(|| panic!("{engine}: {page:?}"));
        let size = got.strip_prefix("release 2, dcb, ").and_then(|size| size.parse().ok());
        // Of 60 KB.
        assert!(size.is_some_and(|size: u32| size < 200), "{engine}: {page:?}");
        let site = common::site(&files);
        compare(site.path(), "assets/app-CxT9_qWe.js", sum);
        assert_eq!((&*page.errors, program.err()), ("[]", String::new()), "{engine}");
    }
}

/// A page with a script of some size, in which little changes. The second release lacks what has no hash in its name.
fn with_script(number: u32, hash: &str, other: &str, port: u16) -> Vec<(String, Vec<u8>)> {
    let filled = |text: &str| {
        let text = text.replace("{hash}", hash).replace("{other}", other);
        text.replace("{port}", &port.to_string()).into_bytes()
    };
    let line = |at: u32| format!("const v{at} = {};\n", at.wrapping_mul(0x9e37_79b9));
    let script: String =
        (0..3000).map(line).chain([format!("export const release = 'release {number}';\n")]).collect();
    let mut files = vec![
        ("index.html".to_owned(), filled(include_str!("browser/delta.html"))),
        ("delta.js".to_owned(), filled(include_str!("browser/delta.js"))),
        (format!("assets/app-{hash}.js"), script.into()),
    ];
    if number == 1 {
        files.push(("plain.js".to_owned(), b"0;".into()));
    }
    files
}

/// A page with what it loads at once, and what it asks for later. The second release lacks what has no hash in its name.
fn release(number: usize, hash: &str, other: &str, port: u16) -> Vec<(String, Vec<u8>)> {
    let filled = |text: &str| {
        let text =
            text.replace("{hash}", hash).replace("{other}", other).replace("{port}", &port.to_string());
        text.into_bytes()
    };
    let mut files = vec![
        ("index.html".to_owned(), filled(include_str!("browser/release.html"))),
        (format!("assets/page-{hash}.js"), filled(include_str!("browser/release.js"))),
        (
            format!("assets/part-{hash}.js"),
            format!("export const release = 'release {number}';").into_bytes(),
        ),
        (format!("assets/style-{hash}.css"), b"body { margin: 0 }".into()),
        (format!("assets/picture-{hash}.png"), PICTURE.into()),
    ];
    if number == 1 {
        files.push(("plain.js".to_owned(), b"0;".into()));
    }
    files
}

/// Waits for the word of the page, and answers when the second release is served.
fn switch_when_loaded(loaded: &TcpListener, releases: &Path, address: SocketAddr) {
    let (mut page, _) = loaded.accept().expect("the page, loaded");
    point(releases, "2.tar");
    let mut client = Client::connect(address);
    wait_for("the second release", || (client.get("/plain.js").status == 404).then_some(()));
    let mut block = [0; 4096];
    let _ = page.read(&mut block).expect("a request");
    page.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").expect("a client that listens");
}

/// Compares files with what `sha256sum` would write of them.
fn compare(dir: &Path, name: &str, sums: &str) {
    assert!(sums.contains(name), "{sums}");
    let mut command = Command::new("sha256sum");
    command.args(["--check", "--strict", "--quiet"]).current_dir(dir).stdin(Stdio::piped());
    let mut child = command.spawn().expect("sha256sum, of the coreutils");
    writeln!(child.stdin.take().expect("a pipe"), "{sums}").expect("a pipe");
    assert!(child.wait().expect("a child").success(), "{sums}");
}
