//! Checks responses with REDbot, a checker of HTTP resources: no errors, and only accepted warnings.
//!
//! REDbot sends follow-up requests for content codings, ranges and validators, and compares the responses.

use crate::common::{
    ENGINES,
    program::{RunningProgram, serve},
    sample::{CODED, LARGE, sample_site},
    write_files,
};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    path::Path,
    process::{Command, Output, Stdio},
    thread,
};

#[test]
fn redbot_finds_no_error() {
    #[rustfmt::skip]
    let cases: &[LintCase] = &[
        // case             target          fields                           responses to all requests of REDbot                                       notes of level GOOD
        ("a page",          "/",            &[],                             "default 200, conneg 200, range 206, etag_validate 304, lm_validate 304", VALID),
        ("a picture",       "/picture.png", &[],                             "default 200, conneg 200, range 206, etag_validate 304, lm_validate 304", VALID),
        ("a large file",    LARGE,          &[],                             "default 200, conneg 200, range 206, etag_validate 304, lm_validate 304", VALID),
        ("coded or not",    CODED,          &[],                             "default 200, conneg 200, range 206, etag_validate 304, lm_validate 304", CODED_VALID),
        ("gzip",            CODED,          &["Accept-Encoding: gzip"],      "default 200, range 206, etag_validate 304, lm_validate 304",             VALID),
        ("br",              CODED,          &["Accept-Encoding: br"],        "default 200, range 206, etag_validate 304, lm_validate 304",             VALID),
        ("zstd",            CODED,          &["Accept-Encoding: zstd"],      "default 200, range 206, etag_validate 304, lm_validate 304",             VALID),
        ("immutable",       IMMUTABLE,      &[],                             "default 200, conneg 200, range 206, etag_validate 304, lm_validate 304", IMMUTABLE_VALID),
        ("an empty file",   "/empty.txt",   &[],                             "default 200, conneg 200, etag_validate 304, lm_validate 304",            KNOWN),
        ("a redirect",      "/guide",       &[],                             "default 301, conneg 301",                                                WHOLE),
        ("missing",         "/nothing",     &[],                             "default 404, conneg 404",                                                WHOLE),
        ("not modified",    "/",            &["If-None-Match: *"],           "default 304, conneg 304",                                                &[]),
        ("failed If-Match", "/",            &["If-Match: \"other\""],        "default 412, conneg 412",                                                WHOLE),
        ("a range",         LARGE,          &["Range: bytes=9-99"],          "default 206, etag_validate 304, lm_validate 304",                        KNOWN),
        ("ranges",          LARGE,          &["Range: bytes=9-99,-5"],       "default 206, etag_validate 304, lm_validate 304",                        KNOWN),
        ("a coded range",   CODED,          &["Range: bytes=-5", "Accept-Encoding: br"], "default 206, etag_validate 304, lm_validate 304",            KNOWN),
        ("failed If-Range", LARGE,          &["Range: bytes=9-99", "If-Range: \"other\""], "default 200, conneg 200",                                  WHOLE),
        ("after the end",   "/",            &["Range: bytes=9999-"],         "default 416, conneg 416",                                                WHOLE),
    ];
    let requests: Vec<_> =
        cases.iter().map(|(_, target, fields, ..)| [&[*target], *fields].concat().join("\t")).collect();
    let site = sample_site();
    write_files(
        site.path(),
        &[(IMMUTABLE.trim_start_matches('/'), "globalThis.scripted = true;\n".repeat(9))],
    );
    for engine in ENGINES {
        let program = RunningProgram::start_ready(serve(site.path(), &["--engine", engine.name()]));
        let report = lint(program.address(), &requests);
        for (number, (name, target, _, responses, praise)) in cases.iter().enumerate() {
            let of_case = |line: &&LintLine| line.number == number;
            let got: Vec<_> = report.iter().filter(of_case).filter_map(LintLine::response).collect();
            assert_eq!(got.join(", "), *responses, "{engine}, {name}");
            for note in report.iter().filter(of_case).filter(|line| line.is_complaint()) {
                let is_accepted =
                    |(what, of): &(&str, &str)| note.words[1] == *what && [*target, *name].contains(of);
                assert!(ACCEPTED.iter().any(is_accepted), "{engine}, {name}: {note:?}");
            }
            for good in *praise {
                let praised = report
                    .iter()
                    .filter(of_case)
                    .any(|line| line.words[0] == "GOOD" && line.words[1] == *good);
                assert!(praised, "{engine}, {name}: not {good}");
            }
        }
        assert_eq!(program.err(), "", "{engine}");
    }
}

#[test]
fn redbot_finds_errors_of_a_broken_server() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a client");
            let _ = stream.read(&mut [0; 4096]);
            let head =
                "HTTP/1.1 200 OK\r\nDate: yesterday\r\nContent-Length: 2\r\nContent-Encoding: gzip\r\n";
            let _ = stream.write_all(format!("{head}Connection: close\r\n\r\nno").as_bytes());
        }
    });
    let report = lint(address, &["/".to_owned()]);
    assert!(report.iter().any(|line| line.words[0] == "BAD" && line.is_complaint()), "{report:?}");
}

/// The name, target and fields of a request; the responses to all requests of REDbot; its expected notes of level GOOD.
type LintCase = (&'static str, &'static str, &'static [&'static str], &'static str, &'static [&'static str]);

/// Accepted warnings with their target or case and the reason.
const ACCEPTED: &[(&str, &str)] = &[
    // Requesting a redirect again costs a round trip; a cached redirect can cause a loop after a change of the site.
    ("FRESHNESS_NO_CACHE_NO_VALIDATOR", "a redirect"),
    // `public` is implied, but some caches in front of servers require it.
    ("STORE_PUBLIC_UNNECESSARY", IMMUTABLE),
    // REDbot knows WAV only as audio/wave, as the MIME Sniffing Standard does; servers and clients use audio/wav.
    ("CONTENT_TYPE_MISMATCH", LARGE),
    // REDbot requests 97 bytes of a smaller file, so the range is the whole file.
    ("RANGE_CL_FULL", "/picture.png"),
    // REDbot does not know multipart/byteranges, where each part has its Content-Range: RFC 9110, section 15.3.7.2.
    ("PARTIAL_WITHOUT_RANGE", "ranges"),
];

/// A file with a hash in its name.
const IMMUTABLE: &str = "/assets/app-B4qfzvDp.js";

/// Notes of level GOOD: the content has the announced length; validators match by tag and by date; a range matches the whole
/// file; the coded and the uncoded variant differ only where they must.
const WHOLE: &[&str] = &["DATE_CORRECT", "CL_CORRECT"];
const KNOWN: &[&str] = &["DATE_CORRECT", "CL_CORRECT", "INM_304", "IMS_304"];
const VALID: &[&str] = &["DATE_CORRECT", "CL_CORRECT", "INM_304", "IMS_304", "RANGE_CORRECT"];
const CODED_VALID: &[&str] =
    &["DATE_CORRECT", "CL_CORRECT", "INM_304", "IMS_304", "RANGE_CORRECT", "CONNEG_GZIP_GOOD"];
const IMMUTABLE_VALID: &[&str] =
    &["DATE_CORRECT", "CL_CORRECT", "INM_304", "RANGE_CORRECT", "FRESHNESS_FRESH"];

/// One line of the output of `tests/clients/lint`.
#[derive(Debug)]
struct LintLine {
    /// The number of the request.
    number: usize,
    is_note: bool,
    /// The check of REDbot that sent the request.
    check: String,
    /// The status, or the level, name and text of a note.
    words: Vec<String>,
}

impl LintLine {
    fn parse(line: &str) -> LintLine {
        let mut words = line.split('\t');
        let mut word = || words.next().expect("a word").to_owned();
        let (kind, number, check) = (word(), word(), word());
        let number = number.parse().expect("a number");
        LintLine { number, is_note: kind == "note", check, words: words.map(str::to_owned).collect() }
    }

    fn response(&self) -> Option<String> {
        (!self.is_note).then(|| format!("{} {}", self.check, self.words[0]))
    }

    fn is_complaint(&self) -> bool {
        self.is_note && !["GOOD", "INFO"].contains(&&*self.words[0])
    }
}

/// Checks these requests with REDbot.
fn lint(address: SocketAddr, requests: &[String]) -> Vec<LintLine> {
    let python = Path::new(env!("CARGO_TARGET_TMPDIR")).join("redbot/bin/python");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/lint");
    let mut command = Command::new("timeout");
    command.arg("180").arg(python).arg(script).arg(address.to_string());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("timeout of the coreutils");
    // The requests fit into the pipe.
    child.stdin.take().expect("a pipe").write_all((requests.join("\n") + "\n").as_bytes()).expect("a pipe");
    let Output { status, stdout, stderr } = child.wait_with_output().expect("a child");
    let errors = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "REDbot: {status}; if it is missing, run tests/setup: {errors}");
    String::from_utf8(stdout).expect("UTF-8").lines().map(LintLine::parse).collect()
}
