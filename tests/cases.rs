//! Runs the protocol cases of `tests/cases`: request bytes and response bytes. `tests/cases/README.md` documents the format.
//!
//! ```text
//! case ─┬─ in memory, with every split of the request ─┐
//!       └─ on a real server, for every engine ─────────┴─▶ output = the responses of the case
//! ```

#[cfg(debug_assertions)]
#[path = "cases/faults.rs"]
mod faults;
#[path = "cases/http2.rs"]
mod http2;

use crate::common::{
    ENGINES,
    endpoint::{Endpoint, TestTls},
    server::TestServer,
};
use bytes::Bytes;
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
fn cases_pass_with_every_split_of_the_request() {
    check(|case| {
        let mut cuts = cuts_of(case.request.len()).map(|read| Cuts { read, ..Cuts::NONE });
        cuts.find_map(|cuts| case.failure_in_memory(cuts, KeepsOpen))
    });
}

#[test]
fn cases_pass_with_many_splits_of_the_response() {
    check(|case| {
        // Sending a long response in small pieces takes long and tests no more than a short one.
        let least = case.want.len() / 2_000;
        let cuts = [1, 2, 3, 5, 17, 100, 124, 1_460, 16_384, 65_536].into_iter().filter(|&cut| cut > least);
        let mut cuts = cuts.map(|send| Cuts { send, ..Cuts::NONE });
        cuts.find_map(|cuts| case.failure_in_memory(cuts, KeepsOpen))
    });
}

#[test]
fn cases_pass_on_every_engine() {
    check_on_engines(|case, address| case.failure_on(address, case.request.len(), KeepsOpen));
}

#[test]
fn short_cases_pass_byte_by_byte_on_every_engine() {
    check_on_engines(|case, address| {
        let is_short = case.request.len() < 300;
        is_short.then(|| case.failure_on(address, 1, KeepsOpen)).flatten()
    });
}

#[test]
fn cases_pass_when_the_client_shuts_down_sending() {
    check(|case| case.failure_in_memory(Cuts { read: 100, send: 1_000 }, ShutsDown));
    check_on_engines(|case, address| case.failure_on(address, case.request.len(), ShutsDown));
}

/// In one record, or a short case in records of one byte. Then the client ends in one of the ways that TLS has: each case in each way, as the
/// engines and versions take turns.
#[test]
fn cases_pass_over_tls_on_every_engine() {
    check_on_endpoints(&TestTls::new(), ProtocolCase::failure_over_tls);
}

/// Runs each case once, where the endpoints and the ways to end take turns. Returns the failures.
pub(crate) fn failures_over_tls(endpoints: &[Endpoint]) -> Vec<String> {
    let turns = CASES.iter().enumerate();
    let failure = |(turn, case): (usize, &ProtocolCase)| {
        let endpoint = &endpoints[turn % endpoints.len()];
        let failure = case.failure_over_tls(endpoint, turn / endpoints.len());
        failure.map(|failure| format!("{endpoint} at {}: {failure}", endpoint.address))
    };
    turns.filter_map(failure).collect()
}

#[test]
fn head_has_the_response_of_get_without_content() {
    let count = CASES.iter().filter_map(ProtocolCase::with_head).count();
    assert!(count > CASES.len() / 3, "{count} cases of {}", CASES.len());
    check(|case| case.with_head()?.failure_in_memory(Cuts { read: 100, send: 1_000 }, KeepsOpen));
}

#[test]
fn responses_are_used_and_case_names_are_unique() {
    let responses = CASES.iter().flat_map(|case| [&case.responses, &case.tls_responses]).flatten();
    let mut used: Vec<&str> = responses.map(|line| split_words(line).0).collect();
    used.sort_unstable();
    used.dedup();
    let mut known: Vec<&str> = RESPONSES.keys().map(String::as_str).collect();
    known.sort_unstable();
    assert_eq!(used, known);
    let mut names: Vec<&str> = CASES.iter().map(|case| case.name.as_str()).collect();
    names.sort_unstable();
    for pair in names.windows(2) {
        assert_ne!(pair[0], pair[1]);
    }
}

/// One parsed case.
struct ProtocolCase {
    name: String,
    request: Vec<u8>,
    /// The name of each response with its modifying words.
    responses: Vec<String>,
    /// The same over TLS.
    tls_responses: Vec<String>,
    /// The bytes of the responses, with `*` instead of each date.
    want: Vec<u8>,
    end: CaseEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CaseEnd {
    Open,
    Closes,
}

use AfterRequest::{Announces, KeepsOpen, ShutsDown, ShutsDownInSilence};

/// The action of the client after its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AfterRequest {
    KeepsOpen,
    /// With TLS, the client sends the closing alert first.
    ShutsDown,
    /// Sends the closing alert of TLS, and keeps the socket open.
    Announces,
    /// Shuts the socket down without the closing alert of TLS.
    ShutsDownInSilence,
}

impl ProtocolCase {
    /// Returns the case with the responses over TLS.
    fn with_tls(&self) -> ProtocolCase {
        ProtocolCase {
            name: self.name.clone(),
            request: self.request.clone(),
            responses: self.tls_responses.clone(),
            tls_responses: self.tls_responses.clone(),
            want: self.tls_responses.iter().flat_map(|line| response(line)).collect(),
            end: self.end,
        }
    }

    /// Returns the case with HEAD instead of GET. Returns `None` if HEAD would change more than the content: the request has
    /// content, or a Range, which HEAD ignores, or the server rejects the head before its method, or the head has the maximum length.
    fn with_head(&self) -> Option<ProtocolCase> {
        let text = self.request.to_ascii_lowercase();
        let has = |field: &[u8]| text.windows(field.len()).any(|window| window == field);
        if has(b"content-length") || has(b"transfer-encoding") || has(b"\nrange:") || text.len() > 10_000 {
            return None;
        }
        let is_request_line = |line: &[u8]| line.starts_with(b"GET ") || line.starts_with(b"HEAD ");
        let mut request = self.request.as_slice();
        while let Some(rest) = request.strip_prefix(b"\r\n") {
            request = rest;
        }
        let lines: Vec<&[u8]> = request.split_inclusive(|&byte| byte == b'\n').collect();
        let count = lines.iter().filter(|line| is_request_line(line)).count();
        if !is_request_line(request) || count != self.responses.len() {
            return None;
        }
        let heads = lines.iter().map(|line| match line.strip_prefix(b"GET ") {
            Some(rest) => [b"HEAD ", rest].concat(),
            None => line.to_vec(),
        });
        Some(ProtocolCase {
            name: self.name.clone(),
            request: heads.collect::<Vec<_>>().concat(),
            want: self.responses.iter().flat_map(|line| response(&format!("{line} head"))).collect(),
            responses: self.responses.clone(),
            tls_responses: self.tls_responses.clone(),
            end: self.end,
        })
    }

    /// Runs the case in memory. Returns a description of a failure.
    fn failure_in_memory(&self, cuts: Cuts, then: AfterRequest) -> Option<String> {
        let (image, files) = &*PACKED;
        let mut sim = Sim::new(image.clone());
        sim.files.clone_from(files);
        sim.client_sends(&self.request);
        let mut end = self.end;
        if then == KeepsOpen {
            sim.run(cuts);
            end = if sim.close() == Close::No { CaseEnd::Open } else { CaseEnd::Closes };
        }
        sim.client_ends();
        sim.run(cuts);
        let closed = sim.close() == Close::Both;
        let got = without_dates(&sim.wire);
        let fails = got != self.want || end != self.end || !closed;
        fails.then(|| self.failure(&format!("{cuts:?}, {end:?}, closed: {closed}"), &got, &self.want))
    }

    /// Runs the case on a real server. Returns a description of a failure.
    fn failure_on(&self, address: SocketAddr, cut: usize, then: AfterRequest) -> Option<String> {
        self.failure_at(&Endpoint::plain(address), cut, then)
    }

    /// Runs the case on a real server with TLS, where `turn` selects one of the ways to end.
    fn failure_over_tls(&self, endpoint: &Endpoint, turn: usize) -> Option<String> {
        let (case, whole) = (self.with_tls(), self.request.len());
        match (turn + case.name.len()) % 6 {
            0 => case.failure_at(endpoint, whole, KeepsOpen),
            1 => case.failure_at(endpoint, whole, Announces),
            2 => case.failure_at(endpoint, whole, ShutsDown),
            3 => case.failure_at(endpoint, whole, ShutsDownInSilence),
            4 => case.failure_at(endpoint, if whole < 300 { 1 } else { whole }, KeepsOpen),
            _ => case.with_head()?.failure_at(endpoint, whole, KeepsOpen),
        }
    }

    fn failure_at(&self, endpoint: &Endpoint, cut: usize, then: AfterRequest) -> Option<String> {
        self.failure_unless(|got, want| got == want, endpoint, cut, then)
    }

    /// Runs the case on a real server. Returns a description of a failure unless `passes` accepts the bytes received for those wanted.
    fn failure_unless(
        &self,
        passes: fn(&[u8], &[u8]) -> bool,
        endpoint: &Endpoint,
        cut: usize,
        then: AfterRequest,
    ) -> Option<String> {
        // A client that keeps sending after the server closes may get a reset before it reads the response: RFC 9112, section 9.6.
        // That does not happen every time, so the test retries.
        let may_be_reset = cut == 1 && self.end == CaseEnd::Closes;
        let mut attempts = if may_be_reset { 5 } else { 1 };
        loop {
            attempts -= 1;
            match self.try_on(passes, endpoint, cut, then) {
                Ok(failure) => return failure,
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset && attempts > 0 => {}
                Err(error) => {
                    return Some(format!("\n{}, {cut} bytes at once, {then:?}: {error}\n", self.name));
                }
            }
        }
    }

    fn try_on(
        &self,
        passes: fn(&[u8], &[u8]) -> bool,
        endpoint: &Endpoint,
        cut: usize,
        then: AfterRequest,
    ) -> io::Result<Option<String>> {
        let mut client = endpoint.connect();
        // A failed write is no failure: the server may have rejected the request and closed.
        self.request.chunks(cut.max(1)).all(|part| client.send(part));
        let mut want = self.want.clone();
        match then {
            ShutsDown => client.shutdown_write(),
            Announces => client.send_close_notify(),
            ShutsDownInSilence => client.shutdown_socket(),
            KeepsOpen if self.end == CaseEnd::Open => {
                // A further request gets its response with nothing before it.
                client.send("HEAD /empty.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
                want.extend(response("empty.txt close head"));
            }
            KeepsOpen => {}
        }
        let got = without_dates(&client.try_read_to_end()?);
        Ok((!passes(&got, &want))
            .then(|| self.failure(&format!("{cut} bytes at once, {then:?}"), &got, &want)))
    }

    fn failure(&self, how: &str, got: &[u8], want: &[u8]) -> String {
        let same = got.iter().zip(want).take_while(|(got, want)| got == want).count();
        let from = same.saturating_sub(200);
        let shown = |bytes: &[u8]| bytes[from..bytes.len().min(same + 400)].escape_ascii().to_string();
        let (got, want) = (shown(got), shown(want));
        format!("\n{}, {how}: differs from byte {same} on\n got …{got}…\nwant …{want}…\n", self.name)
    }
}

/// Runs all cases in two threads, then reports all failures.
#[track_caller]
fn check(failure: impl Fn(&ProtocolCase) -> Option<String> + Sync) {
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
fn check_on_engines(failure: impl Fn(&ProtocolCase, SocketAddr) -> Option<String> + Sync) {
    for &engine in ENGINES {
        let dir = fixture();
        let served = TestServer::dir(engine, 2, dir.path());
        let address = served.address;
        check(|case| failure(case, address).map(|failure| format!("{engine:?}: {failure}")));
    }
}

/// Runs all cases on a server of each engine, with each version of TLS, which take turns.
#[track_caller]
fn check_on_endpoints(
    tls: &TestTls,
    failure: impl Fn(&ProtocolCase, &Endpoint, usize) -> Option<String> + Sync,
) {
    let mut turn = 0;
    for &engine in ENGINES {
        let dir = fixture();
        let served = TestServer::dir_with_tls(engine, 2, dir.path(), tls);
        for endpoint in tls.endpoints(&served.addresses).iter().filter(|endpoint| endpoint.has_tls()) {
            let place = format!("{engine:?}, {endpoint}");
            check(|case| failure(case, endpoint, turn).map(|failure| format!("{place}: {failure}")));
            turn += 1;
        }
    }
}

/// Returns every split length of a request; for requests of a megabyte, only a few.
fn cuts_of(len: usize) -> impl Iterator<Item = usize> {
    let step = if len <= 20_000 { 1 } else { 9_973 };
    (1..=len).rev().step_by(step)
}

/// Replaces each valid date in a Date field with `*`.
fn without_dates(bytes: &[u8]) -> Vec<u8> {
    const FIELD: &[u8] = b"\r\nDate: ";
    const DATE_LEN: usize = 29;
    let mut rest = bytes;
    let mut out = Vec::with_capacity(bytes.len());
    while let Some(at) = rest.windows(FIELD.len()).position(|window| window == FIELD) {
        let (before, after) = rest.split_at(at + FIELD.len());
        out.extend_from_slice(before);
        rest = after;
        if let Some((date, after)) = after.split_at_checked(DATE_LEN)
            && tarpon_http::date::parse(date, UNIX_S).is_some()
        {
            out.push(b'*');
            rest = after;
        }
    }
    out.extend_from_slice(rest);
    out
}

static CASES: LazyLock<Vec<ProtocolCase>> = LazyLock::new(|| {
    let mut files: Vec<_> =
        fs::read_dir(CASES_DIR).expect("the cases").map(|entry| entry.expect("a case").path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "http"));
    files.sort();
    files.iter().flat_map(|file| cases(&read(file))).collect()
});

static RESPONSES: LazyLock<HashMap<String, Vec<u8>>> = LazyLock::new(|| responses(&read("responses")));

/// The packed site of the cases and the files outside of its image.
static PACKED: LazyLock<(Image, Vec<Vec<u8>>)> = LazyLock::new(|| {
    let (dir, mut out) = (fixture(), Cursor::new(Vec::new()));
    let options = PackOptions::new(UNIX_S);
    let packed = pack_dir(dir.path(), &mut out, &options, &mut BuildCache::default()).expect("a site");
    let content = |mut file: File| {
        let mut content = Vec::new();
        // Packing has read the file to hash it.
        file.rewind().and_then(|()| file.read_to_end(&mut content)).expect("a file of the site");
        content
    };
    let image = Image::new(Bytes::from(out.into_inner())).expect("an image");
    (image, packed.files.into_iter().map(content).collect())
});

/// The modification time of every file, in seconds since 1970: one day before the clock of the tests in memory, that is Sun, 06 Nov
/// 1994 08:49:37 GMT.
const MODIFIED_S: u64 = UNIX_S - 24 * 60 * 60;

const CASES_DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases");

fn read(name: impl AsRef<Path>) -> String {
    fs::read_to_string(Path::new(CASES_DIR).join(name)).expect("a text")
}

/// Creates the site that the file `site` describes.
pub(crate) fn fixture() -> TempDir {
    let dir = crate::common::readable_dir();
    let modified = UNIX_EPOCH + Duration::from_secs(MODIFIED_S);
    for line in read("site").lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some((name, target)) = line.split_once(" -> ") {
            symlink(target, dir.path().join(name.trim())).expect("a link");
            continue;
        }
        let (name, content) = line.split_once('|').unwrap_or_else(|| panic!("neither file nor link: {line}"));
        let name = name.trim();
        crate::common::write_files(
            dir.path(),
            &[(name, bytes(content.strip_prefix(' ').unwrap_or(content)))],
        );
        let file = File::options().append(true).open(dir.path().join(name)).expect("a file");
        file.set_modified(modified).expect("a date");
    }
    dir
}

/// Parses the cases of one file.
fn cases(text: &str) -> Vec<ProtocolCase> {
    let mut cases: Vec<ProtocolCase> = Vec::new();
    let mut done = true;
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (sign, rest) = line.split_at(1);
        let rest = rest.strip_prefix(' ').unwrap_or(rest);
        if sign == "@" {
            assert!(done, "the previous case has no open or closes line: {line}");
            done = false;
            let name = rest.to_owned();
            cases.push(ProtocolCase {
                name,
                request: Vec::new(),
                responses: Vec::new(),
                tls_responses: Vec::new(),
                want: Vec::new(),
                end: CaseEnd::Open,
            });
            continue;
        }
        let case = cases.last_mut().filter(|_| !done).unwrap_or_else(|| panic!("outside of a case: {line}"));
        match (sign, line) {
            (">", _) => case.request.extend(line_bytes(rest, "\r\n")),
            ("<", _) => {
                case.responses.push(rest.to_owned());
                case.tls_responses.push(rest.to_owned());
                case.want.extend(response(rest));
            }
            ("=", _) => {
                rest.clone_into(case.tls_responses.last_mut().expect("a response of a plain connection"))
            }
            (_, "open" | "closes") => {
                case.end = if line == "open" { CaseEnd::Open } else { CaseEnd::Closes };
                done = true;
            }
            _ => panic!("not a line of a case: {line}"),
        }
    }
    assert!(done, "the last case has no open or closes line");
    cases
}

/// Parses the responses by name.
fn responses(text: &str) -> HashMap<String, Vec<u8>> {
    let mut responses = HashMap::new();
    for text in text.split("\n@ ").skip(1) {
        let (name, text) = text.split_once('\n').expect("a response below its name");
        let (head, content) = text.split_once("\n\n").expect("an empty line after the head");
        let mut response: Vec<u8> = head.lines().flat_map(|line| line_bytes(line, "\r\n")).collect();
        response.extend(b"\r\n");
        for line in content.lines().filter(|line| !line.is_empty()) {
            let line = line.strip_prefix('|').unwrap_or_else(|| panic!("not a line of content: {line}"));
            response.extend(line_bytes(line.strip_prefix(' ').unwrap_or(line), "\n"));
        }
        assert!(responses.insert(name.to_owned(), response).is_none(), "two responses named {name}");
    }
    responses
}

/// Returns the response of this name, modified by the words after the name.
fn response(line: &str) -> Vec<u8> {
    let (name, words) = split_words(line);
    let mut response = RESPONSES.get(name).unwrap_or_else(|| panic!("no response named {name}")).clone();
    for word in words {
        let at =
            |what: &[u8]| response.windows(what.len()).position(|window| window == what).expect("a head");
        match word {
            "head" => response.truncate(at(b"\r\n\r\n") + 4),
            option => {
                let after = at(b"\r\nDate: *\r\n") + "\r\nDate: *\r\n".len();
                response.splice(after..after, format!("Connection: {option}\r\n").into_bytes());
            }
        }
    }
    response
}

/// Splits the name of a response from the words after it.
fn split_words(line: &str) -> (&str, Vec<&str>) {
    let (mut name, mut words) = (line, Vec::new());
    while let Some((before, word @ ("close" | "keep-alive" | "head"))) = name.rsplit_once(' ') {
        (name, words) = (before, [words, vec![word]].concat());
    }
    (name, words)
}

/// Returns the bytes of a line, with `end` appended unless the line ends in a backslash.
pub(crate) fn line_bytes(line: &str, end: &str) -> Vec<u8> {
    // Two backslashes are an escaped backslash.
    match line.strip_suffix('\\').filter(|rest| !rest.ends_with('\\')) {
        Some(rest) => bytes(rest),
        None => [bytes(line), end.into()].concat(),
    }
}

/// Unescapes a text.
pub(crate) fn bytes(text: &str) -> Vec<u8> {
    let (bytes, rest) = unescape(text.as_bytes(), false);
    assert!(rest.is_empty(), "{text}");
    bytes
}

/// Unescapes the front of `text` and returns the rest. Inside of `{…}`, the rest starts at the `*` before the count.
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
