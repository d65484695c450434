//! Pages in headless Chromium: all kinds of requests (`tests/browser/check.js`), listings, error pages, a switch between releases.

use crate::common::{
    ENGINES,
    client::TestClient,
    endpoint::TestTls,
    page::BrowserPage,
    program::{RunningProgram, serve},
    releases::{pack, pack_with_dictionaries, set_current},
    sample::{CODED, PICTURE, PLAIN, SOUND_S, sample_site},
    site, wait_for, write_files,
};
use serde_json::Value;
use std::{
    collections::HashSet,
    ffi::OsStr,
    fs::{self, File},
    io::{Cursor, Read, Write},
    net::{SocketAddr, TcpListener},
    os::unix::ffi::OsStrExt,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, UNIX_EPOCH},
};
use tarpon_pack::{BuildCache, PackOptions, pack_dir};
use tarpon_site::{Image, STATUS_PAGE_CODES};

#[test]
fn browser_page_gets_correct_responses_to_all_kinds_of_requests() {
    let (site, tls) = (sample_site(), TestTls::new());
    let trusted = tls.public_key_hash();
    let page = include_str!("browser/check.html");
    write_files(site.path(), &[("check.html", page), ("check.js", include_str!("browser/check.js"))]);
    for (engine, scheme) in ENGINES.iter().flat_map(|engine| [(engine, "http"), (engine, "https")]) {
        let program = RunningProgram::start_ready(tls.serve(site.path(), &["--engine", engine.name()]));
        let url = format!("{scheme}://{}/", program.addresses()[usize::from(scheme == "https")]);
        let place = format!("{engine}, {scheme}");
        let options = ["--cache", "--verdict", "#verdict", "--trust-key", &trusted];
        let page = BrowserPage::load(&format!("{url}check.html"), &options);
        assert!(!page.verdict.contains("wrong: "), "{place}: {}", page.verdict);
        // Two lines per file, one fresh and one validated, and one line for the file assembled from ranges.
        assert_eq!(page.verdict.lines().count(), 2 * (PLAIN.len() + 1) + 1, "{place}: {}", page.verdict);
        compare(site.path(), CODED.trim_start_matches('/'), &page.verdict);
        // The player requests the start and the position that it plays; it cancels a request when it has enough.
        let (player, others): (Vec<_>, Vec<_>) =
            page.resources.iter().partition(|line| line.contains("?player"));
        let len = fs::metadata(site.path().join("sound.wav")).expect("a file").len();
        let starts: Vec<_> = player
            .iter()
            .filter_map(|line| {
                response_start(line, len).unwrap_or_else(|wrong| panic!("{place}: {wrong}: {page:?}"))
            })
            .collect();
        let (sound_at, header_len) = (len * 50 / SOUND_S as u64, 1 << 16);
        assert!(starts.contains(&0), "{place}: {player:?}");
        assert!(
            starts.iter().any(|&at| at > sound_at - len / 10 && at < sound_at + header_len),
            "{place}: {player:?}"
        );
        assert!(others.iter().all(|line| line.contains(r#""error": null"#)), "{place}: {others:?}");
        let answered_count = page.resources.len() - page.count(r#""status": null"#);
        let counts = ["http/1.1", "h2"].map(|name| page.count(&format!(r#""protocol": "{name}""#)));
        assert_eq!(counts.iter().sum::<usize>(), answered_count, "{place}: {page:?}");
        assert!(counts.contains(&0), "a browser has one protocol for an origin: {place}: {counts:?}");
        // The browser reuses a few connections.
        let connection = |resource: &String| {
            Some(resource.split_once(r#""connection": "#)?.1.split_once(',')?.0.to_owned())
        };
        let connections: HashSet<_> = page.resources.iter().filter_map(connection).collect();
        assert!(page.resources.len() > 40 && connections.len() <= 10, "{place}: {page:?}");
        let failed = |status: &str, file: &str| {
            let failed = "Failed to load resource: the server responded with a status of";
            format!("\"{failed} {status} {url}{file}\"")
        };
        // HTTP/2 has no reason phrases: RFC 9113, section 8.3.2.
        let with_reasons = ["416 (Range Not Satisfiable)", "404 (Not Found)"];
        let [unsatisfiable, missing] = if counts[1] > 0 { ["416 ()", "404 ()"] } else { with_reasons };
        let unsatisfiable = failed(unsatisfiable, "sound.wav");
        assert_eq!(page.errors, format!("[{unsatisfiable}, {}]", failed(missing, "nothing")), "{place}");
        assert_eq!(program.err(), "", "{place}");
    }
}

/// Returns the first byte of the response to a player's request. Returns `None` if the player cancelled the request before the
/// response, or if the page was complete first.
///
/// # Errors
/// The response is wrong or the request failed.
fn response_start(resource: &str, len: u64) -> Result<Option<u64>, String> {
    // The last line also ends the list.
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
fn player_may_cancel_a_request_but_not_the_server() {
    let line = |status: &str, content_range: &str, error: &str, canceled: bool| {
        format!(
            r#"  {{"range": "bytes=5-", "status": {status}, "contentRange": {content_range}, "error": {error}, "canceled": {canceled}}},"#
        )
    };
    let (right, aborted) = (r#""bytes 5-9/10""#, r#""net::ERR_ABORTED""#);
    #[rustfmt::skip]
    let cases = [
        // status, Content-Range, error, canceled            first byte
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
        assert_eq!(response_start(&line, 10).map_err(drop), want, "{line}");
    }
}

/// File names with characters that need escaping.
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
fn listing_fits_a_phone_and_its_links_work_in_a_browser() {
    let check = [
        ("list.html", include_str!("browser/list.html")),
        ("list.js", include_str!("browser/list.js")),
        ("render.js", include_str!("browser/render.js")),
        ("odd/dir/file", "in a directory"),
    ];
    let site = site(&check);
    for name in NAMES {
        let content = String::from_utf8_lossy(name).into_owned();
        let path = site.path().join("odd").join(OsStr::from_bytes(name));
        fs::write(&path, content).expect("a file");
        let modified = UNIX_EPOCH + Duration::from_secs(1_000_000_000 - name.len() as u64);
        File::options().write(true).open(&path).and_then(|file| file.set_modified(modified)).expect("a file");
    }
    for engine in ENGINES {
        let program =
            RunningProgram::start_ready(serve(site.path(), &["--listings", "--engine", engine.name()]));
        let url = format!("http://{}/list.html", program.address());
        for verdict in in_light_and_dark(&url) {
            // Each file, a directory, and the directory above.
            let links = format!("links: {}, up: /, scripts: 0", NAMES.len() + 2);
            assert!(verdict.ends_with(&links), "{engine}: {verdict}");
            assert_sorted(&verdict, engine.name());
        }
    }
}

/// Checks the orders that the checking page reports: first the directory above.
#[track_caller]
fn assert_sorted(verdict: &str, engine: &str) {
    let orders = verdict.lines().filter(|line| line.starts_with("by "));
    let orders: Vec<_> = orders.map(|line| line.split_once(": ").expect("an order")).collect();
    let at = |order: &str| {
        let found: Vec<_> =
            orders.iter().filter(|(name, _)| name.starts_with(&format!("by {order} "))).collect();
        assert!(
            found.len() == 2 && found[0].1 == found[1].1,
            "{engine}: a phone has the same order: {verdict}"
        );
        found[0].1
    };
    // Names that are longer than three characters are shown by the first one.
    let (by_name, by_size, by_date) = (at("name"), at("size"), at("date"));
    assert!(by_name.starts_with("../ d ") && by_size.starts_with("../ d w "), "{engine}: {verdict}");
    assert!(by_date.starts_with("../ d ") && by_date.ends_with(" w"), "{engine}: {verdict}");
}

#[test]
fn error_pages_fit_a_phone_in_a_browser() {
    let site = site(&[
        ("errors.html", include_str!("browser/errors.html")),
        ("errors.js", include_str!("browser/errors.js")),
        ("render.js", include_str!("browser/render.js")),
    ]);
    let mut out = Cursor::new(Vec::new());
    pack_dir(site.path(), &mut out, &PackOptions::new(0), &mut BuildCache::default()).expect("a site");
    let image = Image::new(out.into_inner().into()).expect("an image");
    // A 204 has no page.
    let codes: Vec<_> = STATUS_PAGE_CODES.into_iter().filter(|&code| code != 204).collect();
    for &code in &codes {
        let page = image.bytes(image.status_page(code).content);
        write_files(site.path(), &[(format!("errors/{code}.html"), page)]);
    }
    let program = RunningProgram::start_ready(serve(site.path(), &[]));
    let numbers: Vec<_> = codes.iter().map(u16::to_string).collect();
    let url = format!("http://{}/errors.html?{}", program.address(), numbers.join(","));
    for verdict in in_light_and_dark(&url) {
        assert_eq!(verdict.lines().count(), 2 * codes.len(), "{verdict}");
    }
}

/// Loads a checking page with light and with dark colours preferred, and returns its verdicts. All text must be black on light
/// and white on dark.
fn in_light_and_dark(url: &str) -> [String; 2] {
    [("rgb(0, 0, 0)", &[][..]), ("rgb(255, 255, 255)", &["--dark"])].map(|(colour, dark)| {
        let BrowserPage { verdict, .. } =
            BrowserPage::load(url, &[&["--verdict", "#verdict"], dark].concat());
        assert!(!verdict.contains("wrong: "), "{dark:?}: {verdict}");
        let found = verdict.lines().filter_map(|line| line.split_once(": fits, "));
        let found: HashSet<_> = found.map(|(_, colour)| colour.to_owned()).collect();
        assert_eq!(found, HashSet::from([colour.to_owned()]), "{dark:?}: {verdict}");
        verdict
    })
}

#[test]
fn page_loaded_before_a_switch_gets_its_release_in_a_browser() {
    // The release of the imported module; the status of a file of the next release; the width of the picture; the status of a file
    // without a hash in its name.
    for (keep, want) in
        [("1", "release 1, 200, 1, 404"), ("0", "TypeError: Failed to fetch dynamically imported")]
    {
        for engine in ENGINES {
            let (releases, loaded) =
                (crate::common::readable_dir(), TcpListener::bind("127.0.0.1:0").expect("a port"));
            let port = loaded.local_addr().expect("an address").port();
            pack(&release(1, "B4qfzvDp", "CxT9_qWe", port), &releases.path().join("1.tar"));
            pack(&release(2, "CxT9_qWe", "B4qfzvDp", port), &releases.path().join("2.tar"));
            set_current(releases.path(), "1.tar");
            let options = ["--engine", engine.name(), "--keep-releases", keep];
            let program = RunningProgram::start_ready(serve(&releases.path().join("current"), &options));
            let address = program.address();
            let page = thread::scope(|scope| {
                scope.spawn(|| switch_when_loaded(&loaded, releases.path(), address));
                BrowserPage::load(&format!("http://{address}/"), &["--verdict", "#verdict"])
            });
            assert!(page.verdict.starts_with(want), "{engine}, {keep}: {page:?}");
            assert_eq!(program.err(), "", "{engine}");
        }
    }
}

#[test]
fn browser_gets_a_delta_to_the_script_of_the_next_release() {
    for engine in ENGINES {
        let (releases, loaded) =
            (tempfile::tempdir().expect("a directory"), TcpListener::bind("127.0.0.1:0").expect("a port"));
        let port = loaded.local_addr().expect("an address").port();
        let archives = ["1.tar", "2.tar"].map(|name| releases.path().join(name));
        pack_with_dictionaries(&with_script(1, "B4qfzvDp", "CxT9_qWe", port), &[], &archives[0]);
        let files = with_script(2, "CxT9_qWe", "B4qfzvDp", port);
        pack_with_dictionaries(&files, &archives[..1], &archives[1]);
        set_current(releases.path(), "1.tar");
        let options = ["--engine", engine.name(), "--keep-releases", "1"];
        let program = RunningProgram::start_ready(serve(&releases.path().join("current"), &options));
        let address = program.address();
        let page = thread::scope(|scope| {
            scope.spawn(|| switch_when_loaded(&loaded, releases.path(), address));
            BrowserPage::load(&format!("http://{address}/"), &["--cache", "--verdict", "#verdict"])
        });
        let (got, sum) = page.verdict.split_once('\n').unwrap_or_else(|| panic!("{engine}: {page:?}"));
        let size = got.strip_prefix("release 2, dcb, ").and_then(|size| size.parse().ok());
        // The whole script has 60 KB.
        assert!(size.is_some_and(|size: u32| size < 200), "{engine}: {page:?}");
        let site = crate::common::site(&files);
        compare(site.path(), "assets/app-CxT9_qWe.js", sum);
        assert_eq!((&*page.errors, program.err()), ("[]", String::new()), "{engine}");
    }
}

/// Returns a page with a large script in which the releases differ little. The second release lacks the file without a hash.
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

/// Returns a page with the files that it loads immediately and later. The second release lacks the file without a hash.
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

/// Waits for the request of the loaded page, switches releases, and responds when the server serves the second one.
fn switch_when_loaded(loaded: &TcpListener, releases: &Path, address: SocketAddr) {
    let (mut page, _) = loaded.accept().expect("a request of the page");
    set_current(releases, "2.tar");
    let mut client = TestClient::connect(address);
    wait_for("the second release", || (client.get("/plain.js").status == 404).then_some(()));
    let mut block = [0; 4096];
    let _ = page.read(&mut block).expect("a request");
    page.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").expect("a connected client");
}

/// Compares files with their checksums in the format of `sha256sum`.
fn compare(dir: &Path, name: &str, sums: &str) {
    assert!(sums.contains(name), "{sums}");
    let mut command = Command::new("sha256sum");
    command.args(["--check", "--strict", "--quiet"]).current_dir(dir).stdin(Stdio::piped());
    let mut child = command.spawn().expect("sha256sum of the coreutils");
    writeln!(child.stdin.take().expect("a pipe"), "{sums}").expect("a pipe");
    assert!(child.wait().expect("a child").success(), "{sums}");
}
