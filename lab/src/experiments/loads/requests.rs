//! The requests of each load, and the responses that the server must send.
//!
//! | load | requests |
//! |---|---|
//! | warm-up, baseline | a short GET |
//! | header stress | a GET with large headers |
//! | heavy payloads | in turn: a POST with a large content, a short GET, a malformed request |

use crate::client::checked_loop::{CheckedRequest, ExpectedContent};
use crate::records::loads::FunctionLoad;

/// Returns the requests that each connection sends in turn.
pub(super) fn requests(load: FunctionLoad) -> Vec<CheckedRequest> {
    match load {
        FunctionLoad::WarmUp | FunctionLoad::Baseline => vec![hello("")],
        FunctionLoad::HeaderStress => vec![hello(&large_fields())],
        FunctionLoad::HeavyPayloads => heavy(),
    }
}

/// Returns a GET with these fields.
fn hello(fields: &str) -> CheckedRequest {
    CheckedRequest {
        name: "GET".into(),
        wire: format!("GET / HTTP/1.1\r\n{HOST}{fields}\r\n").into_bytes(),
        status: 200,
        content: ExpectedContent::Bytes(HELLO.into()),
        closes: false,
    }
}

/// Returns the lines of large headers.
fn large_fields() -> String {
    (0..FIELD_COUNT).map(|number| format!("X-Header-{number:02}: {}\r\n", "v".repeat(VALUE_LEN))).collect()
}

/// Returns as many contents and short requests as there are malformed requests, in turn.
fn heavy() -> Vec<CheckedRequest> {
    let mut requests = Vec::new();
    for (number, malformed) in malformed().into_iter().enumerate() {
        let (path, len, coding) = CONTENTS[number % CONTENTS.len()];
        requests.extend([post(path, len, coding, number as u64), hello(""), malformed]);
    }
    requests
}

/// How a request frames its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestFraming {
    Length,
    Chunked,
}

/// Returns a POST with a generated content.
fn post(path: &str, len: usize, framing: RequestFraming, seed: u64) -> CheckedRequest {
    let content = generated_content(len, seed);
    let mut wire = format!("POST {path} HTTP/1.1\r\n{HOST}").into_bytes();
    match framing {
        RequestFraming::Length => {
            wire.extend_from_slice(format!("Content-Length: {len}\r\n\r\n").as_bytes());
            wire.extend_from_slice(&content);
        }
        RequestFraming::Chunked => {
            wire.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
            wire.extend_from_slice(&chunked(&content));
        }
    }
    CheckedRequest {
        name: format!("POST {path}, {len} bytes, {framing:?}"),
        wire,
        status: 200,
        content: ExpectedContent::Bytes(length_and_checksum(&content).into_bytes()),
        closes: false,
    }
}

/// Returns a content in chunks of different sizes.
fn chunked(content: &[u8]) -> Vec<u8> {
    let (mut wire, mut rest, mut number) = (Vec::new(), content, 0);
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(CHUNK_LENS[number % CHUNK_LENS.len()].min(rest.len()));
        wire.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        wire.extend_from_slice(chunk);
        wire.extend_from_slice(b"\r\n");
        (rest, number) = (after, number + 1);
    }
    wire.extend_from_slice(b"0\r\n\r\n");
    wire
}

/// Returns bytes that no other seed has. Xorshift, Marsaglia, 2003.
fn generated_content(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.flatten().take(len).collect()
}

/// Returns the response of the server to a content: the length, and FNV-1a over words of eight bytes, the last one filled up with zeros.
fn length_and_checksum(content: &[u8]) -> String {
    let hash = content.chunks(8).fold(0xcbf2_9ce4_8422_2325, |hash: u64, bytes| {
        let word = bytes.iter().rev().fold(0, |word, byte| (word << 8) | u64::from(*byte));
        // Bytes that are missing at the end are the high bytes of the word, and zero.
        (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{} {hash:016x}\n", content.len())
}

/// Returns the malformed requests. The server must refuse each with the status and close the connection.
fn malformed() -> Vec<CheckedRequest> {
    let head = |line: &str, fields: &str| format!("{line}\r\n{fields}\r\n");
    let get = |fields: &str| head("GET / HTTP/1.1", fields);
    let with_host = |fields: &str| get(&format!("{HOST}{fields}"));
    let content = |path: &str, fields: &str, content: &str| {
        head(&format!("POST {path} HTTP/1.1"), &format!("{HOST}{fields}")) + content
    };
    let chunks = |path: &str, chunks: &str| content(path, "Transfer-Encoding: chunked\r\n", chunks);
    let more = "x".repeat(CONTENT_LEN_MAX + 1);
    #[rustfmt::skip]
    let cases = [
        // case                                 on the wire                                                      status
        ("no target",                           head("GET HTTP/1.1", HOST),                                      400),
        ("two spaces after the method",         head("GET  / HTTP/1.1", HOST),                                   400),
        ("no version",                          head("GET /", HOST),                                             400),
        ("a control byte in the target",        head("GET /\x01 HTTP/1.1", HOST),                                400),
        ("HTTP/2.0",                            head("GET / HTTP/2.0", HOST),                                    505),
        ("a target longer than a head",         head(&format!("GET /{} HTTP/1.1", "x".repeat(17_000)), HOST),    414),
        ("no Host",                             get(""),                                                         400),
        ("two Hosts",                           with_host(HOST),                                                 400),
        ("a field without a colon",             with_host("X\r\n"),                                              400),
        ("a space before the colon",            with_host("X : y\r\n"),                                          400),
        ("a folded value",                      with_host("X: y\r\n z\r\n"),                                     400),
        ("a NUL in a value",                    with_host("X: y\0z\r\n"),                                        400),
        ("a bare LF",                           with_host("X: y\nZ: z\r\n"),                                     400),
        ("a head longer than 16 KiB",           with_host(&format!("X: {}\r\n", "x".repeat(17_000))),            431),
        ("more than a hundred fields",          with_host(&"X: y\r\n".repeat(100)),                              431),
        ("lengths that differ",                 content("/", "Content-Length: 5\r\nContent-Length: 6\r\n", "hello"), 400),
        ("a length with a sign",                content("/", "Content-Length: +5\r\n", "hello"),                 400),
        ("a length and chunks",                 content("/", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), 400),
        ("an unknown coding",                   content("/", "Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"), 501),
        ("chunked twice",                       content("/", "Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n"), 400),
        ("a chunk-size without a digit",        chunks("/", "five\r\nhello\r\n0\r\n\r\n"),                       400),
        ("a chunk longer than its size",        chunks("/", "3\r\nhello\r\n0\r\n\r\n"),                          400),
        ("the same, read on a thread",          chunks("/stream", "3\r\nhello\r\n0\r\n\r\n"),                    400),
        ("a chunk-size of more than 64 bits",   chunks("/", "10000000000000000\r\nhello\r\n0\r\n\r\n"),          413),
        ("a length above the limit",            content("/", &format!("Content-Length: {}\r\n", more.len()), ""), 413),
        ("content above the limit",             content("/", &format!("Content-Length: {}\r\n", more.len()), &more), 413),
        ("chunks above the limit",              chunks("/", &format!("{:x}\r\n{more}\r\n0\r\n\r\n", more.len())), 413),
    ];
    let refused = |(name, wire, status): (&str, String, u16)| CheckedRequest {
        name: name.into(),
        wire: wire.into_bytes(),
        status,
        content: ExpectedContent::ErrorPage,
        closes: true,
    };
    cases.into_iter().map(refused).collect()
}

/// The Host of all requests.
const HOST: &str = "Host: lab.example\r\n";

/// The response of the server to a GET.
const HELLO: &str = "Hello world\n";

/// Headers of header stress. With forty fields of two hundred bytes, a head has 8,040 bytes: just below 8 KiB, the most that common servers
/// accept by default. tarpon accepts 16 KiB and a hundred fields.
const FIELD_COUNT: usize = 40;
const VALUE_LEN: usize = 200 - "X-Header-00: \r\n".len();

/// Maximum content of a request to a function on the worker.
const CONTENT_LEN_MAX: usize = 1 << 20;

/// Contents: path, length and framing. Functions on the worker get them in memory, and those of `/stream` read them on a thread as they
/// arrive. The lengths are two that programs often send, and the odd ones end within a word of the checksum.
const CONTENTS: [(&str, usize, RequestFraming); 8] = [
    ("/", 64 << 10, RequestFraming::Length),
    ("/", (64 << 10) + 3, RequestFraming::Chunked),
    ("/", CONTENT_LEN_MAX, RequestFraming::Length),
    ("/", CONTENT_LEN_MAX - 3, RequestFraming::Chunked),
    ("/stream", 64 << 10, RequestFraming::Length),
    ("/stream", (64 << 10) + 3, RequestFraming::Chunked),
    ("/stream", 4 * CONTENT_LEN_MAX, RequestFraming::Length),
    ("/stream", 4 * CONTENT_LEN_MAX + 3, RequestFraming::Chunked),
];

/// Lengths of chunks, in turn: as of a program with a small buffer, a single byte, as of a program with a large buffer, and between.
const CHUNK_LENS: [usize; 4] = [4096, 1, 64 << 10, 1000];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_headers_fit_in_eight_kib() {
        let [request] = &requests(FunctionLoad::HeaderStress)[..] else { panic!("one request") };
        let line_count = request.wire.iter().filter(|&&byte| byte == b'\n').count();
        let other_len = "GET / HTTP/1.1\r\n\r\n".len() + HOST.len();
        assert_eq!((request.wire.len(), line_count), (8000 + other_len, FIELD_COUNT + 3));
        assert!(request.wire.len() < 8 << 10);
    }

    #[test]
    fn checksum_depends_on_every_byte() {
        #[rustfmt::skip]
        let cases: &[(&str, &[u8], &str)] = &[
            // case          content                     length and checksum
            ("nothing",      b"",                        "0 cbf29ce484222325\n"),
            ("a word",       b"12345678",                "8 49f2564e2d0004fc\n"),
            ("two words",    b"0123456789abcdef",        "16 677356ce06b78095\n"),
            ("a part",       b"hello",                   "5 db864ebbbd0174d7\n"),
            ("a zero more",  b"hello\0",                 "6 db864ebbbd0174d7\n"),
        ];
        for (name, content, want) in cases {
            assert_eq!(length_and_checksum(content), *want, "{name}");
        }
        let content = generated_content(1003, 1);
        for at in 0..content.len() {
            let mut other = content.clone();
            other[at] ^= 1;
            assert_ne!(length_and_checksum(&other), length_and_checksum(&content), "{at}");
        }
        assert_ne!(generated_content(16, 1), generated_content(16, 2));
    }

    #[test]
    fn chunks_contain_the_content() {
        #[rustfmt::skip]
        let cases: &[(&str, usize, usize)] = &[
            // case             content     wire
            ("nothing",         0,          5),
            ("one chunk",       5,          5 + 5 + 5),
            ("three chunks",    4098,       (4096 + 8) + (1 + 5) + (1 + 5) + 5),
        ];
        for (name, len, want) in cases {
            assert_eq!(chunked(&vec![b'x'; *len]).len(), *want, "{name}");
        }
    }

    #[test]
    fn heavy_payloads_mix_valid_and_malformed_requests() {
        let requests = requests(FunctionLoad::HeavyPayloads);
        let malformed = requests.iter().filter(|request| request.closes).count();
        assert_eq!(requests.len(), 3 * malformed);
        for (path, len, framing) in CONTENTS {
            let name = format!("POST {path}, {len} bytes, {framing:?}");
            assert!(requests.iter().any(|request| request.name == name), "{name}");
        }
        for request in &requests {
            assert_eq!(request.closes, request.status != 200, "{}", request.name);
            assert_eq!(
                request.closes,
                matches!(request.content, ExpectedContent::ErrorPage),
                "{}",
                request.name
            );
        }
        for status in [400, 413, 414, 431, 501, 505] {
            assert!(requests.iter().any(|request| request.status == status), "{status}");
        }
    }
}
