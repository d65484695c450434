//! Prints the time to parse a head: `cargo run --release -p tarpon-http --example parse_ns`.

use std::hint::black_box;
use std::time::Instant;

use tarpon_http::negotiate::{AcceptEncoding, ContentCoding};
use tarpon_http::{framing, head, persist, precondition, target};

const LOAD_GENERATOR: &[u8] = b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n";

const BROWSER: &[u8] = b"GET /articles/2026/index.html HTTP/1.1\r\n\
    Host: www.example.org\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
    Accept-Language: en-US,en;q=0.5\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\n\
    Referer: https://www.example.org/articles/\r\n\
    Connection: keep-alive\r\n\
    Upgrade-Insecure-Requests: 1\r\n\
    Sec-Fetch-Dest: document\r\n\
    Sec-Fetch-Mode: navigate\r\n\
    Sec-Fetch-Site: same-origin\r\n\
    Priority: u=0, i\r\n\r\n";

/// The number of rounds. The fastest counts, because other processes disturbed it least.
const ROUND_COUNT: usize = 20;

fn main() {
    for (name, wire) in [("load generator", LOAD_GENERATOR), ("browser", BROWSER)] {
        let parse = fastest_ns(|| {
            black_box(head::parse(black_box(wire)).is_ok());
        });
        let everything = fastest_ns(|| {
            black_box(everything(black_box(wire)));
        });
        println!("{name}: {} bytes, parse {parse:.1} ns, with all checks {everything:.1} ns", wire.len());
    }
    let Ok(Some((head, _))) = head::parse(BROWSER) else { unreachable!("the head is complete") };
    let negotiate = fastest_ns(|| {
        let offered = [
            (ContentCoding::Identity, 9, 0),
            (ContentCoding::Br, 3, 1),
            (ContentCoding::Zstd, 4, 2),
            (ContentCoding::Gzip, 5, 3),
        ];
        black_box(AcceptEncoding::parse(black_box(&head.fields)).choose(offered));
    });
    println!("browser: negotiation {negotiate:.1} ns");
}

/// Runs all parsers that a server runs before it looks up the path.
fn everything(wire: &[u8]) -> Option<(usize, bool)> {
    let (head, len) = head::parse(wire).ok()??;
    let host = head.host().ok()??;
    let target::Target::Origin { .. } = head.split_target().ok()? else {
        return None;
    };
    let ready = head.has_plain_path()
        && framing::framing(&head) == Ok(framing::Framing::None)
        && precondition::evaluate(&head.fields, b"\"1\"", 0, 0) == precondition::Outcome::Proceed;
    Some((len + host.len(), ready && persist::persists(head.version, &head.fields)))
}

fn fastest_ns(mut work: impl FnMut()) -> f64 {
    const CALL_COUNT: u32 = 100_000;
    let mut fastest = f64::INFINITY;
    for _ in 0..ROUND_COUNT {
        let start = Instant::now();
        for _ in 0..CALL_COUNT {
            work();
        }
        fastest = fastest.min(start.elapsed().as_secs_f64() * 1e9 / f64::from(CALL_COUNT));
    }
    fastest
}
