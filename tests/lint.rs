//! What REDbot, a checker of HTTP resources, thinks of the answers: nothing bad, and of what it warns only what is meant.
//!
//! It asks on its own for other codings, ranges, and what it knows already, and compares what it gets.

mod common;

use common::{
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
fn redbot_finds_nothing_bad() {
    #[rustfmt::skip]
    let cases: &[Case] = &[
        // what it shows    target          fields                           answers to all that it asks                                               what it praises
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
        ("not there",       "/nothing",     &[],                             "default 404, conneg 404",                                                WHOLE),
        ("known",           "/",            &["If-None-Match: *"],           "default 304, conneg 304",                                                &[]),
        ("not the same",    "/",            &["If-Match: \"other\""],        "default 412, conneg 412",                                                WHOLE),
        ("a range",         LARGE,          &["Range: bytes=9-99"],          "default 206, etag_validate 304, lm_validate 304",                        KNOWN),
        ("ranges",          LARGE,          &["Range: bytes=9-99,-5"],       "default 206, etag_validate 304, lm_validate 304",                        KNOWN),
        ("a coded range",   CODED,          &["Range: bytes=-5", "Accept-Encoding: br"], "default 206, etag_validate 304, lm_validate 304",            KNOWN),
        ("of another",      LARGE,          &["Range: bytes=9-99", "If-Range: \"other\""], "default 200, conneg 200",                                  WHOLE),
        ("behind the end",  "/",            &["Range: bytes=9999-"],         "default 416, conneg 416",                                                WHOLE),
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
        let said = lint(program.address(), &requests);
        for (number, (name, target, _, answers, praise)) in cases.iter().enumerate() {
            let of_it = |said: &&Said| said.number == number;
            let got: Vec<_> = said.iter().filter(of_it).filter_map(Said::answer).collect();
            assert_eq!(got.join(", "), *answers, "{engine}, {name}");
            for note in said.iter().filter(of_it).filter(|said| said.is_complaint()) {
                let is_this =
                    |(what, of): &(&str, &str)| note.words[1] == *what && [*target, *name].contains(of);
                assert!(ACCEPTED.iter().any(is_this), "{engine}, {name}: {note:?}");
            }
            for good in *praise {
                let praised =
                    said.iter().filter(of_it).any(|said| said.words[0] == "GOOD" && said.words[1] == *good);
                assert!(praised, "{engine}, {name}: not {good}");
            }
        }
        assert_eq!(program.err(), "", "{engine}");
    }
}

#[test]
fn redbot_finds_what_is_bad() {
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
    let said = lint(address, &["/".to_owned()]);
    assert!(said.iter().any(|said| said.words[0] == "BAD" && said.is_complaint()), "{said:?}");
}

/// What a request shows, its target and fields; the answers to all that REDbot asks then, and what it has to praise.
type Case = (&'static str, &'static str, &'static [&'static str], &'static str, &'static [&'static str]);

/// Notes that are not good, of which target or case, and why we have them.
const ACCEPTED: &[(&str, &str)] = &[
    // A redirect that is asked for again costs a round trip; one that a cache keeps after the site has changed can lead in a
    // circle.
    ("FRESHNESS_NO_CACHE_NO_VALIDATOR", "a redirect"),
    // It goes without saying, and yet some caches in front of servers want to hear it.
    ("STORE_PUBLIC_UNNECESSARY", IMMUTABLE),
    // REDbot knows WAV as audio/wave alone, as the MIME Sniffing Standard does; everybody else says audio/wav.
    ("CONTENT_TYPE_MISMATCH", LARGE),
    // It asks for 97 bytes, and there are fewer: all of them are that range.
    ("RANGE_CL_FULL", "/picture.png"),
    // It knows nothing of multipart/byteranges, which says in each part what that is: RFC 9110, section 15.3.7.2.
    ("PARTIAL_WITHOUT_RANGE", "ranges"),
];

/// A file whose name has a hash.
const IMMUTABLE: &str = "/assets/app-B4qfzvDp.js";

/// Notes that say: the content is as long as announced; what a client has already is recognised, by tag and by date; a part
/// is a part of the whole; the coded form and the other differ in what they must, and in nothing else.
const WHOLE: &[&str] = &["DATE_CORRECT", "CL_CORRECT"];
const KNOWN: &[&str] = &["DATE_CORRECT", "CL_CORRECT", "INM_304", "IMS_304"];
const VALID: &[&str] = &["DATE_CORRECT", "CL_CORRECT", "INM_304", "IMS_304", "RANGE_CORRECT"];
const CODED_VALID: &[&str] =
    &["DATE_CORRECT", "CL_CORRECT", "INM_304", "IMS_304", "RANGE_CORRECT", "CONNEG_GZIP_GOOD"];
const IMMUTABLE_VALID: &[&str] =
    &["DATE_CORRECT", "CL_CORRECT", "INM_304", "RANGE_CORRECT", "FRESHNESS_FRESH"];

/// One line of what `tests/clients/lint` says.
#[derive(Debug)]
struct Said {
    /// Of the request.
    number: usize,
    is_note: bool,
    /// Which of the questions it was an answer to.
    question: String,
    /// The status; or the level of a note, its name, and what it says.
    words: Vec<String>,
}

impl Said {
    fn read(line: &str) -> Said {
        let mut words = line.split('\t');
        let mut word = || words.next().expect("a word").to_owned();
        let (kind, number, question) = (word(), word(), word());
        let number = number.parse().expect("a number");
        Said { number, is_note: kind == "note", question, words: words.map(str::to_owned).collect() }
    }

    fn answer(&self) -> Option<String> {
        (!self.is_note).then(|| format!("{} {}", self.question, self.words[0]))
    }

    fn is_complaint(&self) -> bool {
        self.is_note && !["GOOD", "INFO"].contains(&&*self.words[0])
    }
}

/// What REDbot says of the answers to these requests.
fn lint(address: SocketAddr, requests: &[String]) -> Vec<Said> {
    let python = Path::new(env!("CARGO_TARGET_TMPDIR")).join("redbot/bin/python");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/lint");
    let mut command = Command::new("timeout");
    command.arg("180").arg(python).arg(script).arg(address.to_string());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("timeout, of the coreutils");
    // Few enough to fit into the pipe.
    child.stdin.take().expect("a pipe").write_all((requests.join("\n") + "\n").as_bytes()).expect("a pipe");
    let Output { status, stdout, stderr } = child.wait_with_output().expect("a child");
    let errors = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "REDbot: {status}; is it there? run tests/setup: {errors}");
    String::from_utf8(stdout).expect("UTF-8").lines().map(Said::read).collect()
}
