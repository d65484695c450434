//! Prints the time to decode a field block of HTTP/2, and to check its request: `cargo run --release -p tarpon-http --example h2_ns`.
//!
//! With `--once COUNT`, decodes the second request of the browser so often and prints nothing: to count its instructions with callgrind.

use std::hint::black_box;
use std::time::Instant;

use tarpon_http::h2::H2Request;
use tarpon_http::h2::hpack::{FieldSection, HpackDecoder, SECTION_SIZE_MAX, SectionBytes};

/// The fields of Chromium 140 for a page. All but `:method`, `:scheme` and `:path` are added to the dynamic table.
const BROWSER: [(&str, &str); 18] = [
    (":method", "GET"),
    (":authority", "www.example.org"),
    (":scheme", "https"),
    (":path", "/articles/2026/index.html"),
    ("sec-ch-ua", "\"Chromium\";v=\"140\", \"Not=A?Brand\";v=\"24\", \"Google Chrome\";v=\"140\""),
    ("sec-ch-ua-mobile", "?0"),
    ("sec-ch-ua-platform", "\"Linux\""),
    ("upgrade-insecure-requests", "1"),
    (
        "user-agent",
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
    ),
    (
        "accept",
        "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8",
    ),
    ("sec-fetch-site", "same-origin"),
    ("sec-fetch-mode", "navigate"),
    ("sec-fetch-user", "?1"),
    ("sec-fetch-dest", "document"),
    ("referer", "https://www.example.org/articles/"),
    ("accept-encoding", "gzip, deflate, br, zstd"),
    ("accept-language", "en-US,en;q=0.9"),
    ("priority", "u=0, i"),
];

/// The number of rounds. The fastest counts, because other processes disturbed it least.
const ROUND_COUNT: usize = 20;

fn main() {
    let mut requests = Requests::new();
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if let [flag, count] = &arguments[..]
        && flag == "--once"
    {
        for _ in 0..count.parse().expect("a number") {
            requests.decode_second();
        }
        return;
    }
    let first = requests.first.clone();
    println!("first request: {} bytes, {:.1} ns", first.len(), fastest_ns(|| requests.decode_first()));
    let second_ns = fastest_ns(|| requests.decode_second());
    println!("second request: {} bytes, {second_ns:.1} ns", requests.second.len());
    let (section, bytes) = (requests.section.clone(), requests.bytes);
    let check_ns = fastest_ns(|| {
        black_box(H2Request::parse(black_box(&section), black_box(&bytes), false).is_ok());
    });
    println!("check of the request: {check_ns:.1} ns");
}

/// A connection, and the blocks that it receives.
struct Requests {
    decoder: HpackDecoder,
    section: FieldSection,
    bytes: SectionBytes,
    first: Vec<u8>,
    second: Vec<u8>,
}

impl Requests {
    fn new() -> Requests {
        let (mut first, mut second) = (Vec::new(), Vec::new());
        let added_count = BROWSER.len() - 3;
        let mut index = 61 + added_count;
        for (name, value) in BROWSER {
            match name {
                ":method" => [&mut first, &mut second].into_iter().for_each(|block| block.push(0x82)),
                ":scheme" => [&mut first, &mut second].into_iter().for_each(|block| block.push(0x87)),
                ":path" => {
                    // A literal without indexing, its name from the static table, its value with the Huffman code, as Chromium sends it.
                    for block in [&mut first, &mut second] {
                        let from = block.len();
                        tarpon_http::h2::hpack::encode_field(
                            name.as_bytes(),
                            value.as_bytes(),
                            &mut |byte| block.push(byte),
                        );
                        assert_eq!(block[from], 0x04);
                    }
                }
                _ => {
                    first.push(0x40);
                    for text in [name, value] {
                        // A field without a name in the static table has its strings at its end, in one piece.
                        let mut coded = Vec::new();
                        tarpon_http::h2::hpack::encode_field(b"x", text.as_bytes(), &mut |byte| {
                            coded.push(byte)
                        });
                        let name_len = 1 + usize::from(coded[1] & 0x7f) + 1;
                        first.extend(&coded[name_len..]);
                    }
                    second.push(0x80 | index as u8);
                    index -= 1;
                }
            }
        }
        let mut requests = Requests {
            decoder: HpackDecoder::new(),
            section: FieldSection::new(),
            bytes: [0; SECTION_SIZE_MAX],
            first,
            second,
        };
        requests.decode_first();
        requests.decode_second();
        let fields = requests.section.iter(&requests.bytes);
        assert!(fields.eq(BROWSER.map(|(name, value)| (name.as_bytes(), value.as_bytes()))));
        requests
    }

    /// Decodes the first request of a connection.
    fn decode_first(&mut self) {
        self.decoder = HpackDecoder::new();
        self.section.clear();
        let used = self.decoder.decode(black_box(&self.first), true, &mut self.section, &mut self.bytes);
        black_box(used.expect("a block"));
    }

    /// Decodes another request of the same connection, and checks it.
    #[inline(never)]
    fn decode_second(&mut self) {
        self.section.clear();
        let used = self.decoder.decode(black_box(&self.second), true, &mut self.section, &mut self.bytes);
        black_box(used.expect("a block"));
        let request = H2Request::parse(&self.section, &self.bytes, false);
        black_box(request.is_ok());
    }
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
