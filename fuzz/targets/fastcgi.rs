//! The records of a FastCGI application: neither a cut nor a pipe without room changes the content, and a response has one end.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tarpon_http::fastcgi::{
    FASTCGI_HEADER_LEN, FastCgiDecoded, FastCgiDecoder, FastCgiEnd, FastCgiError, FastCgiHeader, FastCgiPart,
};

// The first two bytes are the length of the pieces that arrive, and of those that are taken.
fuzz_target!(|input: &[u8]| {
    let Some((&[cut, take_max], wire)) = input.split_first_chunk() else { return };
    let whole = decode(wire, wire.len().max(1), usize::MAX);
    let part = decode(wire, 1 + usize::from(cut), 1 + usize::from(take_max));
    assert_eq!(part, whole);
    // Each byte of content lies behind a header.
    assert!(whole.stdout.len() + whole.stderr.len() <= wire.len().saturating_sub(FASTCGI_HEADER_LEN));
    if let Ok(Some(header)) = FastCgiHeader::decode(wire) {
        // The last byte is reserved.
        assert_eq!(header.encode()[..7], wire[..7]);
    }
});

/// A response as far as it was decoded.
#[derive(Debug, Default, PartialEq, Eq)]
struct DecodedOutput {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    end: Option<FastCgiEnd>,
    error: Option<FastCgiError>,
}

fn decode(wire: &[u8], cut: usize, take_max: usize) -> DecodedOutput {
    let (mut decoder, mut response) = (FastCgiDecoder::default(), DecodedOutput::default());
    let (mut at, mut arrived) = (0, 0);
    loop {
        let bytes = &wire[at..arrived];
        let FastCgiDecoded { used, part } = match decoder.decode(bytes) {
            Ok(decoded) => decoded,
            Err(error) => {
                response.error = Some(error);
                return response;
            }
        };
        at += used;
        let (range, is_error) = match part {
            FastCgiPart::Incomplete if arrived == wire.len() => return response,
            FastCgiPart::Incomplete => {
                arrived = wire.len().min(arrived + cut);
                continue;
            }
            FastCgiPart::End(range, end) => {
                assert_eq!(response.end.replace(end), None, "one end");
                decoder.take(range.len());
                assert!(decoder.is_done());
                at += range.len();
                continue;
            }
            FastCgiPart::Stdout(range) => (range, false),
            FastCgiPart::Stderr(range) => (range, true),
        };
        assert!(range.start == used && !range.is_empty() && response.end.is_none());
        let taken = &bytes[range][..];
        let taken = &taken[..taken.len().min(take_max)];
        if is_error { &mut response.stderr } else { &mut response.stdout }.extend_from_slice(taken);
        decoder.take(taken.len());
        at += taken.len();
    }
}
