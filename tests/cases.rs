//! The protocol cases of `tests/cases`: bytes in, bytes out. `tests/cases/README.md` tells how they are written.
//!
//! ```text
//! case ─┬─ in memory, at every cut of the request ─┐
//!       └─ on a real server, for every engine ─────┴─▶ all that came back = the responses the case names
//! ```

mod common;

use bytes::Bytes;
use common::{ENGINES, client::Client, served::Somewhere};
use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Cursor, Read, Seek},
    net::SocketAddr,
    os::unix::fs::symlink,
    path::Path,
    sync::LazyLock,
    thread,
    time::{Duration, UNIX_EPOCH},
};
use tarpon_conn::{
    Close,
    sim::{Cuts, Sim, UNIX_S},
};
use tarpon_pack::{BuildCache, PackOptions, pack_dir};
use tarpon_site::Image;
use tempfile::TempDir;

#[test]
fn each_case_comes_out_the_same_at_every_cut_of_the_request() {
    check(|case| {
        let mut cuts = cuts_of(case.request.len()).map(|read| Cuts { read, ..Cuts::NONE });
        cuts.find_map(|cuts| case.failure_in_memory(cuts, Stays))
    });
}

#[test]
fn each_case_comes_out_the_same_at_any_cut_of_the_response() {
    check(|case| {
        // A cut of a few bytes in a long response takes long, and shows what it shows in a short one.
        let least = case.want.len() / 2_000;
        let cuts = [1, 2, 3, 5, 17, 100, 124, 1_460, 16_384, 65_536].into_iter().filter(|&cut| cut > least);
        let mut cuts = cuts.map(|send| Cuts { send, ..Cuts::NONE });
        cuts.find_map(|cuts| case.failure_in_memory(cuts, Stays))
    });
}

#[test]
fn each_case_comes_out_the_same_on_every_engine() {
    check_on_engines(|case, address| case.failure_on(address, case.request.len(), Stays));
}

#[test]
fn each_short_case_comes_out_the_same_on_every_engine_byte_by_byte() {
    check_on_engines(|case, address| {
        let is_short = case.request.len() < 300;
        is_short.then(|| case.failure_on(address, 1, Stays)).flatten()
    });
}

#[test]
fn each_case_comes_out_the_same_when_the_client_closes_its_side_behind_the_request() {
    check(|case| case.failure_in_memory(Cuts { read: 100, send: 1_000 }, Leaves));
    check_on_engines(|case, address| case.failure_on(address, case.request.len(), Leaves));
}

#[test]
fn head_is_answered_as_get_is_but_for_the_content() {
    let count = CASES.iter().filter_map(Case::with_head).count();
    assert!(count > CASES.len() / 3, "{count} cases of {}", CASES.len());
    check(|case| case.with_head()?.failure_in_memory(Cuts { read: 100, send: 1_000 }, Stays));
}

#[test]
fn every_answer_is_used_and_no_name_stands_for_two_cases() {
    let answers = CASES.iter().flat_map(|case| &case.answers);
    let mut used: Vec<&str> = answers.map(|line| split_words(line).0).collect();
    used.sort_unstable();
    used.dedup();
    let mut known: Vec<&str> = ANSWERS.keys().map(String::as_str).collect();
    known.sort_unstable();
    assert_eq!(used, known);
    let mut names: Vec<&str> = CASES.iter().map(|case| case.name.as_str()).collect();
    names.sort_unstable();
    for pair in names.windows(2) {
        assert_ne!(pair[0], pair[1]);
    }
}

/// One case, as written.
struct Case {
    name: String,
    request: Vec<u8>,
    /// The names of the responses, each with the words behind it.
    answers: Vec<String>,
    /// The bytes of the responses, with `*` for each date.
    want: Vec<u8>,
    end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Open,
    Closes,
}

use Then::{Leaves, Stays};

/// What a client does that has sent its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// It could send another.
    Stays,
    /// It closes its sending side.
    Leaves,
}

impl Case {
    /// The same case with HEAD for every GET. `None` if that makes more of a difference: content follows, or there
    /// is a Range, which means nothing to HEAD, or the head is refused before its method, or may not be longer.
    fn with_head(&self) -> Option<Case> {
        let text = self.request.to_ascii_lowercase();
        let has = |field: &[u8]| text.windows(field.len()).any(|window| window == field);
        if has(b"content-length") || has(b"transfer-encoding") || has(b"\nrange:") || text.len() > 10_000 {
            return None;
        }
        let begins = |line: &[u8]| line.starts_with(b"GET ") || line.starts_with(b"HEAD ");
        let mut request = self.request.as_slice();
        while let Some(rest) = request.strip_prefix(b"\r\n") {
            request = rest;
        }
        let lines: Vec<&[u8]> = request.split_inclusive(|&byte| byte == b'\n').collect();
        let count = lines.iter().filter(|line| begins(line)).count();
        if !begins(request) || count != self.answers.len() {
            return None;
        }
        let heads = lines.iter().map(|line| match line.strip_prefix(b"GET ") {
            Some(rest) => [b"HEAD ", rest].concat(),
            None => line.to_vec(),
        });
        Some(Case {
            name: self.name.clone(),
            request: heads.collect::<Vec<_>>().concat(),
            want: self.answers.iter().flat_map(|line| answer(&format!("{line} head"))).collect(),
            answers: self.answers.clone(),
            end: self.end,
        })
    }

    /// What is wrong in memory, if anything is.
    fn failure_in_memory(&self, cuts: Cuts, then: Then) -> Option<String> {
        let (image, files) = &*PACKED;
        let mut sim = Sim::new(image.clone());
        sim.files.clone_from(files);
        sim.client_sends(&self.request);
        let mut end = self.end;
        if then == Stays {
            sim.run(cuts);
            end = if sim.close() == Close::No { End::Open } else { End::Closes };
        }
        sim.client_ends();
        sim.run(cuts);
        let closed = sim.close() == Close::Both;
        let got = without_dates(&sim.wire);
        let fails = got != self.want || end != self.end || !closed;
        fails.then(|| self.failure(&format!("{cuts:?}, {end:?}, closed: {closed}"), &got, &self.want))
    }

    /// What is wrong on a real server, if anything is.
    fn failure_on(&self, address: SocketAddr, cut: usize, then: Then) -> Option<String> {
        // Who sends on behind the close that a request has asked for may meet a reset before he has read the answer: RFC 9112,
        // section 9.6. Not each time.
        let may_be_reset = cut == 1 && self.end == End::Closes;
        let mut attempts = if may_be_reset { 5 } else { 1 };
        loop {
            attempts -= 1;
            match self.try_on(address, cut, then) {
                Ok(failure) => return failure,
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset && attempts > 0 => {}
                Err(error) => return Some(format!("\n{}, {cut} bytes at once: {error}\n", self.name)),
            }
        }
    }

    fn try_on(&self, address: SocketAddr, cut: usize, then: Then) -> io::Result<Option<String>> {
        let mut client = Client::connect(address);
        // A server that has refused reads on, and what it does not read any more does not matter.
        self.request.chunks(cut.max(1)).all(|part| client.send(part));
        let mut want = self.want.clone();
        if then == Leaves {
            client.end();
        } else if self.end == End::Open {
            // It takes another request, and nothing else comes before the response to that.
            client.send("HEAD /empty.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            want.extend(answer("empty.txt close head"));
        }
        let got = without_dates(&client.try_rest()?);
        Ok((got != want).then(|| self.failure(&format!("{cut} bytes at once"), &got, &want)))
    }

    fn failure(&self, how: &str, got: &[u8], want: &[u8]) -> String {
        let same = got.iter().zip(want).take_while(|(got, want)| got == want).count();
        let from = same.saturating_sub(200);
        let shown = |bytes: &[u8]| bytes[from..bytes.len().min(same + 400)].escape_ascii().to_string();
        let (got, want) = (shown(got), shown(want));
        format!("\n{}, {how}: other from byte {same} on\n got …{got}…\nwant …{want}…\n", self.name)
    }
}

/// Runs all cases, in two threads, and then tells what is wrong with each that fails.
#[track_caller]
fn check(failure: impl Fn(&Case) -> Option<String> + Sync) {
    let failed: Vec<String> = thread::scope(|scope| {
        let half = |first| {
            let failure = &failure;
            scope.spawn(move || CASES.iter().skip(first).step_by(2).filter_map(failure).collect::<Vec<_>>())
        };
        let halves = [half(0), half(1)];
        halves.into_iter().flat_map(|half| half.join().expect("no panic")).collect()
    });
    assert!(failed.is_empty(), "{}", failed.concat());
}

/// Runs all cases on a server of each engine.
#[track_caller]
fn check_on_engines(failure: impl Fn(&Case, SocketAddr) -> Option<String> + Sync) {
    for &engine in ENGINES {
        let dir = fixture();
        let served = Somewhere::dir(engine, 2, dir.path());
        let address = served.address;
        check(|case| failure(case, address).map(|failure| format!("{engine:?}: {failure}")));
    }
}

/// Every cut of a request. One of a megabyte is cut in a few places only.
fn cuts_of(len: usize) -> impl Iterator<Item = usize> {
    let step = if len <= 20_000 { 1 } else { 9_973 };
    (1..=len).rev().step_by(step)
}

/// The bytes with `*` for each date in a field Date.
fn without_dates(bytes: &[u8]) -> Vec<u8> {
    const FIELD: &[u8] = b"\r\nDate: ";
    const DATE_LEN: usize = 29;
    let mut rest = bytes;
    let mut out = Vec::with_capacity(bytes.len());
    while let Some(at) = rest.windows(FIELD.len()).position(|window| window == FIELD) {
        let (before, behind) = rest.split_at(at + FIELD.len());
        out.extend_from_slice(before);
        rest = behind;
        if let Some((date, behind)) = behind.split_at_checked(DATE_LEN)
            && tarpon_http::date::parse(date, UNIX_S).is_some()
        {
            out.push(b'*');
            rest = behind;
        }
    }
    out.extend_from_slice(rest);
    out
}

static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| {
    let mut files: Vec<_> =
        fs::read_dir(CASES_DIR).expect("the cases").map(|entry| entry.expect("a case").path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "http"));
    files.sort();
    files.iter().flat_map(|file| cases(&read(file))).collect()
});

static ANSWERS: LazyLock<HashMap<String, Vec<u8>>> = LazyLock::new(|| answers(&read("answers")));

/// The site of the cases, packed, and the files beside its image.
static PACKED: LazyLock<(Image, Vec<Vec<u8>>)> = LazyLock::new(|| {
    let (dir, mut out) = (fixture(), Cursor::new(Vec::new()));
    let options = PackOptions::new(UNIX_S);
    let packed = pack_dir(dir.path(), &mut out, &options, &mut BuildCache::default()).expect("a site");
    let content = |mut file: File| {
        let mut content = Vec::new();
        // It was read for its hash.
        file.rewind().and_then(|()| file.read_to_end(&mut content)).expect("a file of the site");
        content
    };
    let image = Image::new(Bytes::from(out.into_inner())).expect("an image");
    (image, packed.files.into_iter().map(content).collect())
});

/// When every file was changed: Sun, 06 Nov 1994 08:49:37 GMT, in seconds since 1970. In memory that was yesterday.
const CHANGED_S: u64 = UNIX_S - 24 * 60 * 60;

const CASES_DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases");

fn read(name: impl AsRef<Path>) -> String {
    fs::read_to_string(Path::new(CASES_DIR).join(name)).expect("a text")
}

/// Makes the site that `site` describes.
fn fixture() -> TempDir {
    let dir = common::open_dir();
    let changed = UNIX_EPOCH + Duration::from_secs(CHANGED_S);
    for line in read("site").lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some((name, target)) = line.split_once(" -> ") {
            symlink(target, dir.path().join(name.trim())).expect("a link");
            continue;
        }
        let (name, content) = line.split_once('|').unwrap_or_else(|| panic!("neither file nor link: {line}"));
        let name = name.trim();
        common::write_files(dir.path(), &[(name, bytes(content.strip_prefix(' ').unwrap_or(content)))]);
        let file = File::options().append(true).open(dir.path().join(name)).expect("a file");
        file.set_modified(changed).expect("a date");
    }
    dir
}

/// The cases of one file.
fn cases(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let mut done = true;
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (sign, rest) = line.split_at(1);
        let rest = rest.strip_prefix(' ').unwrap_or(rest);
        if sign == "@" {
            assert!(done, "the case before ends neither open nor closed: {line}");
            done = false;
            let name = rest.to_owned();
            cases.push(Case {
                name,
                request: Vec::new(),
                answers: Vec::new(),
                want: Vec::new(),
                end: End::Open,
            });
            continue;
        }
        let case = cases.last_mut().filter(|_| !done).unwrap_or_else(|| panic!("outside of a case: {line}"));
        match (sign, line) {
            (">", _) => case.request.extend(line_bytes(rest, "\r\n")),
            ("<", _) => {
                case.answers.push(rest.to_owned());
                case.want.extend(answer(rest));
            }
            (_, "open" | "closes") => {
                case.end = if line == "open" { End::Open } else { End::Closes };
                done = true;
            }
            _ => panic!("not a line of a case: {line}"),
        }
    }
    assert!(done, "the last case ends neither open nor closed");
    cases
}

/// The answers by name.
fn answers(text: &str) -> HashMap<String, Vec<u8>> {
    let mut answers = HashMap::new();
    for text in text.split("\n@ ").skip(1) {
        let (name, text) = text.split_once('\n').expect("an answer below its name");
        let (head, content) = text.split_once("\n\n").expect("an empty line behind the head");
        let mut answer: Vec<u8> = head.lines().flat_map(|line| line_bytes(line, "\r\n")).collect();
        answer.extend(b"\r\n");
        for line in content.lines().filter(|line| !line.is_empty()) {
            let line = line.strip_prefix('|').unwrap_or_else(|| panic!("not a line of content: {line}"));
            answer.extend(line_bytes(line.strip_prefix(' ').unwrap_or(line), "\n"));
        }
        assert!(answers.insert(name.to_owned(), answer).is_none(), "two answers named {name}");
    }
    answers
}

/// The answer of this name, as the words behind the name say it differs.
fn answer(line: &str) -> Vec<u8> {
    let (name, words) = split_words(line);
    let mut answer = ANSWERS.get(name).unwrap_or_else(|| panic!("no answer is named {name}")).clone();
    for word in words {
        let at = |what: &[u8]| answer.windows(what.len()).position(|window| window == what).expect("a head");
        match word {
            "head" => answer.truncate(at(b"\r\n\r\n") + 4),
            option => {
                let behind = at(b"\r\nDate: *\r\n") + "\r\nDate: *\r\n".len();
                answer.splice(behind..behind, format!("Connection: {option}\r\n").into_bytes());
            }
        }
    }
    answer
}

/// The name of an answer, and the words behind it.
fn split_words(line: &str) -> (&str, Vec<&str>) {
    let (mut name, mut words) = (line, Vec::new());
    while let Some((before, word @ ("close" | "keep-alive" | "head"))) = name.rsplit_once(' ') {
        (name, words) = (before, [words, vec![word]].concat());
    }
    (name, words)
}

/// The bytes of a line, which ends in `end` unless a backslash says that it does not.
fn line_bytes(line: &str, end: &str) -> Vec<u8> {
    // Two would be one backslash, and not the end.
    match line.strip_suffix('\\').filter(|rest| !rest.ends_with('\\')) {
        Some(rest) => bytes(rest),
        None => [bytes(line), end.into()].concat(),
    }
}

/// The bytes that a text stands for.
fn bytes(text: &str) -> Vec<u8> {
    let (bytes, rest) = unescape(text.as_bytes(), false);
    assert!(rest.is_empty(), "{text}");
    bytes
}

/// The bytes that the front of `text` stands for, and what is behind; of a repeated text, the `*` and the count.
fn unescape(mut text: &[u8], repeated: bool) -> (Vec<u8>, &[u8]) {
    let mut bytes = Vec::new();
    loop {
        let (byte, rest) = match text {
            [] => return (bytes, text),
            [b'*', ..] if repeated => return (bytes, text),
            [b'\\', b'x', high, low, rest @ ..] => {
                let digit = |byte: u8| (byte as char).to_digit(16).expect("a hexadecimal digit");
                ((digit(*high) << 4 | digit(*low)) as u8, rest)
            }
            [b'\\', name, rest @ ..] => match name {
                b'r' => (b'\r', rest),
                b'n' => (b'\n', rest),
                b't' => (b'\t', rest),
                b'\\' | b'{' => (*name, rest),
                _ => panic!("no such escape: {}", text.escape_ascii()),
            },
            [b'{', rest @ ..] => {
                let (part, rest) = unescape(rest, true);
                let end = rest.iter().position(|&byte| byte == b'}').expect("a closing brace");
                let count = std::str::from_utf8(&rest[1..end]).ok().and_then(|count| count.parse().ok());
                bytes.extend(part.repeat(count.expect("a count between * and }")));
                text = &rest[end + 1..];
                continue;
            }
            [byte, rest @ ..] => (*byte, rest),
        };
        bytes.push(byte);
        text = rest;
    }
}
