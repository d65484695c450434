//! Clients with a file of an earlier release get the next release as a delta. The tests pack and serve deltas with the program and decode
//! them with the reference decoder of Zstandard. The tests of the browser decode Brotli with a dictionary, because the program `brotli`
//! cannot.

use crate::common::{
    ENGINES,
    client::{Response, connect_on},
    program::{RunningProgram, serve, tarpon},
    site, write_files,
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;

const OLD: &str = "/assets/app.B4qfzvDp.js";
const NEW: &str = "/assets/app.Xk2pQz9a.js";

#[test]
fn client_with_the_earlier_file_gets_a_delta() {
    let releases = TestReleases::new();
    let dictionary = releases.digest(&script(1));
    let other = releases.digest(b"something else");
    let has = |field: &str| format!("Available-Dictionary: {field}\r\n");
    let accepts = |codings: &str| format!("Accept-Encoding: {codings}\r\n");
    let (browser, zstd) = (accepts("gzip, deflate, br, zstd, dcb, dcz"), accepts("zstd, dcz"));
    let each = ENGINES.iter().flat_map(|engine| connect_on(*engine).map(move |connect| (engine, connect)));
    for (engine, (version, connect)) in each {
        let [before, now] = releases.archives.each_ref().map(|archive| {
            RunningProgram::start_ready(serve(archive, &["--engine", engine.name(), "--workers", "1"]))
        });
        let mut client = connect(before.address());
        let response = client.get(OLD);
        assert_eq!(response.field("Use-As-Dictionary"), Some("match=\"/assets/app.*.js\""), "{response:?}");
        assert!(response.content == script(1));
        assert_eq!(client.get("/plain.js").field("Use-As-Dictionary"), None);

        let mut client = connect(now.address());
        let mut request = |method: &str, path: &str, fields: &str| -> Response {
            client.send(format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
            if method == "HEAD" { client.try_head().expect("a head") } else { client.response() }
        };
        let with = |fields: &str| format!("{fields}{}", has(&dictionary));
        #[rustfmt::skip]
        let cases: &[(&str, &str, String, Option<&str>)] = &[
            // case                              path           fields                                        coding
            ("a browser",                        NEW,           with(&browser),                               Some("dcb")),
            ("a single delta coding",            NEW,           with(&zstd),                                  Some("dcz")),
            ("a hash without padding",           NEW,           zstd.clone() + &has(&dictionary.replace('=', "")), Some("dcz")),
            ("the same name",                    "/plain.js",   with(&zstd),                                  Some("dcz")),
            ("weights come first",               NEW,           with(&accepts("zstd, dcz;q=0.9")),            Some("zstd")),
            ("no delta coding",                  NEW,           with(&accepts("gzip, br, zstd")),             Some("br")),
            ("no Accept-Encoding",               NEW,           with(""),                                     None),
            ("a wildcard is no delta",           NEW,           with(&accepts("*;q=0, gzip")),                Some("gzip")),
            ("no dictionary",                    NEW,           browser.clone(),                              Some("br")),
            ("another dictionary",               NEW,           zstd.clone() + &has(&other),                  Some("zstd")),
            ("an invalid hash",                  NEW,           zstd.clone() + &has(&dictionary.replace(':', "")), Some("zstd")),
            ("the fields twice",                 NEW,           with(&with(&zstd)),                           Some("zstd")),
            ("another file",                     "/other.css",  with(&zstd),                                  Some("zstd")),
            ("a file without variants",          "/picture.png", with(&zstd),                                 None),
        ];
        for (name, path, fields, coding) in cases {
            let dictionary =
                if *path == "/plain.js" { releases.digest(&plain(1)) } else { dictionary.clone() };
            let fields = fields.replace(&releases.digest(&script(1)), &dictionary);
            let name = format!("{engine}, {version}, {name}");
            let response = request("GET", path, &fields);
            assert_eq!((response.status, response.field("Content-Encoding")), (200, *coding), "{name}");
            let has_delta = *path == NEW || *path == "/plain.js";
            let vary = match *path {
                _ if has_delta => Some("Accept-Encoding, Available-Dictionary"),
                "/picture.png" => None,
                _ => Some("Accept-Encoding"),
            };
            assert_eq!(response.field("Vary"), vary, "{name}");
            if *coding == Some("dcz") {
                let (before, now) = if *path == NEW { (script(1), script(2)) } else { (plain(1), plain(2)) };
                assert!(response.content.len() < 400, "{name}: {}", response.content.len());
                assert!(releases.unzstd(&before, &response.content) == now, "{name}");
            }
            // HEAD has the same fields; If-None-Match gets 304.
            let head = request("HEAD", path, &fields);
            assert_eq!(head.head_without_date(), response.head_without_date(), "{name}");
            let tag = response.field("ETag").expect("a tag");
            let again = request("GET", path, &format!("{fields}If-None-Match: {tag}\r\n"));
            assert_eq!(
                (again.status, again.field("ETag"), again.field("Vary")),
                (304, Some(tag), vary),
                "{name}"
            );
            assert_eq!(again.field("Use-As-Dictionary"), None, "{name}");
            let part = request("GET", path, &format!("{fields}Range: bytes=4-23\r\n"));
            assert_eq!((part.status, part.field("Content-Encoding")), (206, *coding), "{name}");
            assert!(part.content == response.content[4..24], "{name}");
        }
        // Each coding has its own entity-tag.
        let tags = [&browser, &zstd]
            .map(|codings| request("GET", NEW, &with(codings)).field("ETag").map(str::to_owned));
        let plain = request("GET", NEW, &zstd).field("ETag").map(str::to_owned);
        assert!(tags[0] != tags[1] && !tags.contains(&plain), "{tags:?}, {plain:?}");
        let changed =
            request("GET", NEW, &format!("{}If-None-Match: {}\r\n", with(&zstd), plain.expect("a tag")));
        assert_eq!((changed.status, changed.field("Content-Encoding")), (200, Some("dcz")));
        // The decoded delta is a dictionary for later releases.
        assert_eq!(changed.field("Use-As-Dictionary"), Some("match=\"/assets/app.*.js\""));
    }
}

#[test]
fn deltas_are_reported_inspected_and_verified() {
    let releases = TestReleases::new();
    let [before, now] = &releases.archives;
    let packed = releases.pack(1, &[("--dictionary", before)]);
    // The previous archive at the output has the same deltas.
    for row in ["  dcb  2 files, 2 reused: ", "  dcz  2 files, 2 reused: "] {
        assert!(packed.out.contains(row), "{packed:?}");
    }
    assert!(!packed.err.contains("warning"), "{packed:?}");
    let without_offer = releases.dir.path().join("without-offer.tar");
    fs::copy(before, &without_offer).expect("an archive");
    let mut command = tarpon(["pack".as_ref(), releases.sites[0].path().as_os_str()]);
    let ended = RunningProgram::run({
        command.args(["--effort", "fast", "-o"]).arg(&without_offer);
        command
    });
    assert!(ended.status.success(), "{ended:?}");
    let packed = releases.pack(1, &[("--dictionary", &without_offer)]);
    assert!(
        packed.err.contains("warning: browsers do not keep the files of the earlier archive"),
        "{packed:?}"
    );

    let run = |arguments: &[&str], archive: &Path| {
        let mut command = tarpon(arguments.iter().map(|argument| argument.as_ref()));
        command.arg(archive);
        RunningProgram::run(command)
    };
    let shown = run(&["inspect"], now);
    let heads = shown.out.lines().next().expect("heads").split_whitespace().collect::<Vec<_>>();
    assert_eq!(heads, ["path", "type", "bytes", "br", "gzip", "zstd", "delta", "cache", "tag"]);
    assert!(!run(&["inspect"], before).out.contains("delta"));
    let json = run(&["inspect", "--json"], now);
    let script = "import hashlib, json, sys; site = json.load(open(sys.argv[1])); \
        digest = hashlib.sha256(open(sys.argv[2], 'rb').read()).hexdigest(); \
        print(*[f['coding'] for p in site['paths'] if p['path'] == sys.argv[3] for f in p['forms'] \
        if f.get('dictionary') == digest])";
    let files = ["json", "dictionary"].map(|name| releases.dir.path().join(name));
    fs::write(&files[0], &json.out).expect("a file");
    fs::write(&files[1], self::script(1)).expect("a file");
    let read = Command::new("python3").args(["-c", script]).args(&files).arg(NEW).output().expect("python3");
    assert_eq!(String::from_utf8_lossy(&read.stdout).trim(), "dcb dcz", "{read:?}");

    let whole = run(&["verify", "--dictionary", before.to_str().expect("UTF-8")], now);
    assert!(whole.status.success() && !whole.out.contains("not decoded"), "{whole:?}");
    let without = run(&["verify"], now);
    assert!(without.status.success() && without.out.contains("not decoded: 4 contents"), "{without:?}");
    for arguments in [
        &["verify", "--dictionary", "missing.tar"][..],
        &["pack", "-o", "x.tar", "--dictionary", "missing.tar"],
    ] {
        let path = if arguments[0] == "pack" { releases.sites[0].path() } else { now };
        let ended = run(arguments, path);
        assert!(!ended.status.success(), "{ended:?}");
        assert!(ended.err.contains("cannot read dictionaries from missing.tar"), "{ended:?}");
    }
}

/// Two packed releases of a site.
struct TestReleases {
    sites: [TempDir; 2],
    archives: [PathBuf; 2],
    dir: TempDir,
}

impl TestReleases {
    fn new() -> TestReleases {
        let dir = crate::common::readable_dir();
        let sites = [(OLD, 1), (NEW, 2)].map(|(path, number)| {
            let site = site(&[(&path[1..], script(number)), ("plain.js", plain(number))]);
            let picture: Vec<u8> =
                (0..9000_u32).flat_map(|at| at.wrapping_mul(0x9e37_79b9).to_be_bytes()).collect();
            write_files(site.path(), &[("other.css", other()), ("picture.png", picture)]);
            site
        });
        let archives = ["before.tar", "now.tar"].map(|name| dir.path().join(name));
        let releases = TestReleases { sites, archives, dir };
        releases.pack(0, &[]);
        releases.pack(1, &[("--dictionary", &releases.archives[0])]);
        releases
    }

    /// Packs one release. The first one offers dictionaries.
    fn pack(&self, number: usize, options: &[(&str, &Path)]) -> crate::common::program::ProgramExit {
        let mut command = tarpon(["pack".as_ref(), self.sites[number].path().as_os_str()]);
        command.args(["--effort", "fast", "-o"]).arg(&self.archives[number]);
        for (option, value) in options {
            command.arg(option).arg(value);
        }
        if number == 0 {
            command.arg("--offer-dictionaries");
        }
        let ended = RunningProgram::run(command);
        assert!(ended.status.success(), "{ended:?}");
        ended
    }

    /// Returns the value of Available-Dictionary for a content, computed by Python.
    fn digest(&self, content: &[u8]) -> String {
        let file = self.dir.path().join("content");
        fs::write(&file, content).expect("a file");
        let script = "import base64, hashlib, sys; \
            print(base64.b64encode(hashlib.sha256(open(sys.argv[1], 'rb').read()).digest()).decode())";
        let output = Command::new("python3").args(["-c", script]).arg(&file).output().expect("python3");
        format!(":{}:", String::from_utf8(output.stdout).expect("ASCII").trim())
    }

    /// Decodes a content with its dictionary with the reference decoder.
    fn unzstd(&self, dictionary: &[u8], coded: &[u8]) -> Vec<u8> {
        let files = ["dictionary", "coded"].map(|name| self.dir.path().join(name));
        fs::write(&files[0], dictionary).expect("a file");
        fs::write(&files[1], coded).expect("a file");
        let mut command = Command::new("zstd");
        command.args(["-dc", "-D"]).arg(&files[0]).stdin(fs::File::open(&files[1]).expect("a file"));
        let output = command.output().expect("zstd");
        assert!(output.status.success(), "{output:?}");
        output.stdout
    }
}

/// Returns a script that differs little between releases.
fn script(number: u32) -> Vec<u8> {
    let line = |at: u32| format!("export const v{at} = {};\n", at.wrapping_mul(0x9e37_79b9));
    let text = (0..3000).map(|at| if at == 1000 { format!("console.log({number});\n") } else { line(at) });
    text.collect::<String>().into_bytes()
}

fn plain(number: u32) -> Vec<u8> {
    [&script(number)[..20_000], b"// plain\n"]
        .concat()
        .into_iter()
        .chain(format!("f({number})\n").into_bytes())
        .collect()
}

fn other() -> Vec<u8> {
    ".a{color:red}\n".repeat(100).into_bytes()
}
