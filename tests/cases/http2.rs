//! Runs the protocol cases over HTTP/2, as far as it can express their requests: status, fields and content are those over HTTP/1.

use super::{CASES, PACKED, ProtocolCase, check, fixture, response, split_words};
use crate::common::{
    ENGINES, has_http2,
    http2_client::{Http2Client, StreamReceived, preface},
    http2_request::Http2Request,
    program::{RunningProgram, serve_exactly},
};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};
use tarpon_conn::{
    AcceptedClient, HttpVersions, Limits, Sites,
    sim::{Cuts, Sim},
};

/// Cases whose responses differ, because the limits do.
const DIFFERENT: &[&str] = &[
    // A section may have 256 fields, and its size counts 32 bytes for each: RFC 9113, section 6.5.2.
    "a hundred and one fields",
    "a head of 16 KiB",
    // The whole section is too large, and not its first line.
    "a request-line longer than a head",
];

#[test]
fn cases_pass_over_http2() {
    let count = all().len();
    assert!(count > CASES.len() * 2 / 5, "{count} of {} cases", CASES.len());
    check(|case| {
        [Some(Http2Case::of(case)), case.with_head().map(|case| Http2Case::of(&case))]
            .into_iter()
            .flatten()
            .flatten()
            .find_map(|case| {
                [Cuts::NONE, Cuts { read: 100, send: 1_000 }]
                    .into_iter()
                    .find_map(|cuts| case.failure_in_memory(cuts))
            })
    });
}

/// All on one connection, so that the tables for fields are used too.
#[test]
fn cases_pass_over_http2_on_every_engine_that_offers_it() {
    let offering = ENGINES.iter().copied().filter(|engine| has_http2(*engine));
    for engine in offering {
        let dir = fixture();
        let served = RunningProgram::start_ready(serve_exactly(dir.path(), &["--engine", engine.name()]));
        let failed = failures_on(served.address(), &all());
        assert!(failed.is_empty(), "{engine}: {}", failed.concat());
    }
}

/// Returns all cases that HTTP/2 can express.
fn all() -> Vec<Http2Case> {
    CASES.iter().filter_map(Http2Case::of).collect()
}

/// The requests of a case, and what they get.
struct Http2Case {
    name: String,
    requests: Vec<Http2Request>,
    want: Vec<StreamReceived>,
}

impl Http2Case {
    /// Returns `None` if HTTP/2 cannot express a request of the case.
    fn of(case: &ProtocolCase) -> Option<Http2Case> {
        if DIFFERENT.contains(&&*case.name) {
            return None;
        }
        let (mut requests, mut rest) = (Vec::new(), &case.request[..]);
        while !rest.is_empty() {
            let (request, len) = Http2Request::split_first(rest).ok().flatten()?;
            if request.is_last {
                return None;
            }
            requests.push(request);
            rest = &rest[len..];
        }
        if requests.len() != case.responses.len() {
            return None;
        }
        let want =
            requests.iter().zip(&case.responses).map(|(request, line)| wanted(line, request.is_head()));
        Some(Http2Case { name: case.name.clone(), want: want.collect(), requests })
    }

    /// Returns the bytes that send the requests, on streams from `first` on.
    fn frames(&self, first: u32) -> Vec<u8> {
        let streams = self.requests.iter().zip((first..).step_by(2));
        streams.flat_map(|(request, stream)| request.frames(stream)).collect()
    }

    fn failure_in_memory(&self, cuts: Cuts) -> Option<String> {
        let (image, files) = &*PACKED;
        let sites = Sites::new(image.clone(), Limits::default());
        let accepted = AcceptedClient { versions: HttpVersions::All, ..AcceptedClient::default() };
        let mut sim = Sim::accept(sites, accepted);
        sim.files.clone_from(files);
        sim.client_sends(&preface(&[]));
        sim.client_sends(&self.frames(1));
        let mut client = Http2Client::default();
        client.run(&mut sim, cuts);
        self.failure(&client, 1).map(|failure| format!("{failure}, {cuts:?}"))
    }

    fn failure(&self, client: &Http2Client, first: u32) -> Option<String> {
        for ((number, want), stream) in self.want.iter().enumerate().zip((first..).step_by(2)) {
            let mut got = client.streams.get(&stream).cloned().unwrap_or_default();
            for (_, value) in got.sections.iter_mut().flatten().filter(|(name, _)| name == "date") {
                *value = "*".to_owned();
            }
            // A malformed request is an error of its stream: RFC 9113, section 8.1.1. So is `*` without OPTIONS: section 8.3.1.
            let is_refused = got.reset == Some(PROTOCOL_ERROR) && got.sections.is_empty();
            let may_be_refused = want.status() == "400" || self.requests[number].field(":path") == Some("*");
            if got != *want && !(is_refused && may_be_refused) {
                let (got_len, want_len) = (got.content.len(), want.content.len());
                return Some(format!(
                    "\n{}, request {number}:\n got {:?}, {got_len} bytes, complete: {}, reset: {:?}\nwant {:?}, {want_len} bytes",
                    self.name, got.sections, got.is_complete, got.reset, want.sections
                ));
            }
        }
        None
    }
}

/// Returns the response of this name, as HTTP/2 has it.
fn wanted(line: &str, is_head: bool) -> StreamReceived {
    let response = response(split_words(line).0);
    let at = response.windows(4).position(|end| end == b"\r\n\r\n").expect("a head");
    let head = std::str::from_utf8(&response[..at]).expect("text");
    let (status_line, lines) = head.split_once("\r\n").expect("fields");
    let status = (":status".to_owned(), status_line[9..12].to_owned());
    let fields = lines.split("\r\n").map(|line| {
        let (name, value) = line.split_once(": ").expect("a field");
        (name.to_lowercase(), value.to_owned())
    });
    let fields = fields.filter(|(name, _)| name != "connection");
    let content = if is_head { Vec::new() } else { response[at + 4..].to_vec() };
    let sections = vec![[status].into_iter().chain(fields).collect()];
    StreamReceived { sections, content, is_complete: true, reset: None }
}

/// Sends all cases on one connection, one after the other. Returns the failures.
fn failures_on(address: SocketAddr, cases: &[Http2Case]) -> Vec<String> {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(READ_TIMEOUT)).expect("a socket");
    stream.set_nodelay(true).expect("a socket");
    stream.write_all(&preface(&[])).expect("a connection");
    let (mut client, mut wire, mut next) = (Http2Client::default(), Vec::new(), 1);
    let mut failed = Vec::new();
    for case in cases {
        let first = next;
        next += 2 * case.requests.len() as u32;
        stream.write_all(&case.frames(first)).expect("a connection");
        let is_open = |client: &Http2Client| {
            let mut streams = (first..next).step_by(2).map(|stream| client.streams.get(&stream));
            streams.any(|got| got.is_none_or(|got| !got.is_complete && got.reset.is_none()))
        };
        while is_open(&client) {
            let mut bytes = [0; 16_384];
            let len = stream.read(&mut bytes).unwrap_or_else(|error| panic!("{}: {error}", case.name));
            assert!(len > 0, "{}: the server has closed", case.name);
            wire.extend_from_slice(&bytes[..len]);
            let replies = client.read(&wire);
            stream.write_all(&replies).expect("a connection");
        }
        failed.extend(case.failure(&client, first));
    }
    failed
}

/// RFC 9113, section 7.
const PROTOCOL_ERROR: u32 = 1;

/// A test that waits so long has failed.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
