//! Chunked transfer coding: the result does not depend on how the input is split, and decoding reverts encoding.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tarpon_http::chunked::{ChunkError, ChunkedDecoder};

// The first byte sets the length of the pieces into which the rest is split.
fuzz_target!(|input: &[u8]| {
    let Some((&cut, wire)) = input.split_first() else { return };
    let cut = usize::from(cut) + 1;

    let at_once = decode(wire, wire.len().max(1));
    assert_eq!(decode(wire, cut), at_once, "{cut} bytes at a time");
    assert_eq!(decode(wire, 1), at_once, "a byte at a time");

    let encoded = encode(wire, cut);
    let behind = [encoded.as_slice(), b"GET"].concat();
    assert_eq!(decode(&behind, cut), Ok((wire.to_vec(), encoded.len(), true)));
});

/// Decodes `wire`, which arrives `cut` bytes at a time. Returns the content, the consumed bytes, and whether the message is complete.
fn decode(wire: &[u8], cut: usize) -> Result<(Vec<u8>, usize, bool), ChunkError> {
    let mut decoder = ChunkedDecoder::default();
    let (mut content, mut used) = (Vec::new(), 0);
    for arrived in (0..wire.len()).step_by(cut).map(|at| (at + cut).min(wire.len())) {
        loop {
            let rest = &wire[used..arrived];
            let piece = decoder.decode(rest)?;
            assert!(piece.content.end <= piece.used && piece.used <= rest.len());
            content.extend_from_slice(&rest[piece.content]);
            used += piece.used;
            if piece.used == 0 {
                break;
            }
        }
    }
    Ok((content, used, decoder.is_done()))
}

fn encode(content: &[u8], cut: usize) -> Vec<u8> {
    let mut wire = Vec::new();
    for chunk in content.chunks(cut) {
        wire.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        wire.extend_from_slice(chunk);
        wire.extend_from_slice(b"\r\n");
    }
    wire.extend_from_slice(b"0\r\n\r\n");
    wire
}
