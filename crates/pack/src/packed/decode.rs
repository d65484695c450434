//! Checks that a compressed content decodes to its file: decodes with limits, and compares length and hash.
//!
//! Where possible the decoders differ from the encoders: `ruzstd` for zstd, `miniz_oxide` for gzip. A content that only some clients would
//! accept is rejected: more than one member or frame, trailing bytes, or a window larger than browsers support. With a dictionary, libzstd
//! decodes Zstandard, since `ruzstd` does not support raw dictionaries.

use super::dictionaries::{Dictionary, DictionaryDigest};
use super::encode::{ZSTD_WINDOW_LOG, dictionary_header};
use super::fingerprint::{Fingerprint, fingerprint_of};
use brotli::enc::StandardAlloc;
use brotli::{Allocator as _, SliceWrapperMut as _};
use flate2::bufread::GzDecoder;
use ruzstd::decoding::StreamingDecoder;
use std::io::{self, BufRead, BufReader, Read};
use tarpon_site::Coding;

/// Returns whether `coded` decodes to the content with the fingerprint `plain`. Decodes at most one byte more than that content has.
pub(crate) fn decodes_to(coding: Coding, coded: impl Read, plain: Fingerprint) -> bool {
    let coded = BufReader::with_capacity(BLOCK_LEN, coded);
    let decoded = match coding {
        Coding::Identity => fingerprint_of(coded, plain.len),
        Coding::Br => brotli(coded, None, plain.len),
        Coding::Gzip => {
            let mut decoder = GzDecoder::new(coded);
            fingerprint_of(&mut decoder, plain.len)
                .and_then(|fingerprint| at_end(decoder.into_inner(), fingerprint))
        }
        Coding::Zstd => StreamingDecoder::new_with_max_window_size(coded, 1 << ZSTD_WINDOW_LOG)
            .map_err(io::Error::other)
            .and_then(|mut decoder| {
                let fingerprint = fingerprint_of(&mut decoder, plain.len)?;
                at_end(decoder.into_inner(), fingerprint)
            }),
        Coding::Dcb | Coding::Dcz => return false,
    };
    decoded.is_ok_and(|fingerprint| fingerprint == plain)
}

/// Returns whether `coded` names this dictionary, and decodes with it to the content with the fingerprint `plain`. Decodes at most one byte
/// more than that content has.
pub(crate) fn decodes_with_dictionary(
    coding: Coding,
    mut coded: impl Read,
    dictionary: &Dictionary,
    plain: Fingerprint,
) -> bool {
    if !names_dictionary(coding, &mut coded, &dictionary.hash) {
        return false;
    }
    let coded = BufReader::with_capacity(BLOCK_LEN, coded);
    let decoded = match coding {
        Coding::Dcb => brotli(coded, Some(&dictionary.bytes), plain.len),
        Coding::Dcz => zstd_with_dictionary(coded, &dictionary.bytes, plain.len),
        _ => return false,
    };
    decoded.is_ok_and(|fingerprint| fingerprint == plain)
}

/// Returns whether a compressed content, read from its start, names this dictionary.
pub(crate) fn names_dictionary(coding: Coding, coded: &mut impl Read, dictionary: &DictionaryDigest) -> bool {
    let head = dictionary_header(coding, dictionary);
    let mut found = vec![0; head.len()];
    coded.read_exact(&mut found).is_ok() && found == head
}

fn zstd_with_dictionary(coded: impl BufRead, dictionary: &[u8], len: u64) -> io::Result<Fingerprint> {
    let mut decoder = zstd::stream::Decoder::with_ref_prefix(coded, dictionary)?.single_frame();
    decoder.window_log_max(ZSTD_WINDOW_LOG)?;
    let fingerprint = fingerprint_of(&mut decoder, len)?;
    at_end(decoder.finish(), fingerprint)
}

fn brotli(mut coded: impl BufRead, dictionary: Option<&[u8]>, len: u64) -> io::Result<Fingerprint> {
    if coded.fill_buf()?.first().is_some_and(|first| first & 0x7f == BROTLI_LARGE) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut decoder = brotli::Decompressor::new(coded, BLOCK_LEN);
    if let Some(dictionary) = dictionary {
        let mut cell = StandardAlloc::default().alloc_cell(dictionary.len());
        cell.slice_mut().copy_from_slice(dictionary);
        if !decoder.attach_dictionary(cell) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
    }
    let fingerprint = fingerprint_of(&mut decoder, len)?;
    // Another read fails if the decoder has already read trailing bytes.
    match decoder.read(&mut [0])? {
        0 => at_end(BufReader::new(decoder.into_inner()), fingerprint),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Returns the fingerprint, if there are no trailing bytes.
fn at_end(mut rest: impl BufRead, fingerprint: Fingerprint) -> io::Result<Fingerprint> {
    match rest.fill_buf()? {
        [] => Ok(fingerprint),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// The first byte of a stream whose window may be larger than 16 MiB. RFC 7932, section 9.1, calls it invalid, but the decoder supports it,
/// and would allocate up to a GiB.
const BROTLI_LARGE: u8 = 0b001_0001;
/// Bytes read at once.
const BLOCK_LEN: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::super::encode::{CompressionEffort, encode, encode_with_dictionary};
    use super::*;
    use crate::opened::DELTA_CODINGS;
    use sha2::{Digest as _, Sha256};

    const CODINGS: [Coding; 3] = [Coding::Br, Coding::Gzip, Coding::Zstd];
    const EFFORTS: [CompressionEffort; 3] =
        [CompressionEffort::Fast, CompressionEffort::Balanced, CompressionEffort::Best];

    #[test]
    fn content_decodes_to_its_own_fingerprint_only() {
        let text: Vec<u8> = (0..40_000u32).flat_map(|at| (at * at / 7).to_string().into_bytes()).collect();
        for plain in [&b""[..], b"a", &[0; 70_000], &text] {
            for (coding, effort) in
                CODINGS.into_iter().flat_map(|coding| EFFORTS.map(|effort| (coding, effort)))
            {
                let name = format!("{coding:?}, {effort:?}, {} bytes", plain.len());
                let coded = coded(coding, effort, plain);
                let fingerprint = fingerprint_of(plain, u64::MAX).expect("memory");
                assert!(decodes_to(coding, &coded[..], fingerprint), "{name}");
                assert!(
                    !decodes_to(
                        coding,
                        &coded[..],
                        Fingerprint { hash: fingerprint.hash ^ 1, ..fingerprint }
                    ),
                    "{name}: other"
                );
                assert!(
                    !decodes_to(coding, &coded[..], Fingerprint { len: fingerprint.len + 1, ..fingerprint }),
                    "{name}: longer"
                );
                assert!(
                    !decodes_to(coding, &[&coded[..], b"x"].concat()[..], fingerprint),
                    "{name}: trailing byte"
                );
                assert!(!decodes_to(coding, &coded[..coded.len() - 1], fingerprint), "{name}: cut");
                assert!(
                    !decodes_to(coding, &[&coded[..], &coded[..]].concat()[..], fingerprint),
                    "{name}: twice"
                );
                assert!(!decodes_to(coding, &b""[..], fingerprint), "{name}: nothing");
            }
        }
    }

    #[test]
    fn delta_decodes_with_its_own_dictionary_only() {
        let text: Vec<u8> = (0..40_000u32).flat_map(|at| (at * at / 7).to_string().into_bytes()).collect();
        let mut changed = text[5000..].to_vec();
        changed.extend_from_slice(&text[..5000]);
        let other = dictionary(b"something else");
        let cases: [(&str, &[u8], &[u8]); 5] = [
            ("the same", &text, &text),
            ("changed", &text, &changed),
            ("nothing in common", b"0123456789", &[b'x'; 70_000]),
            ("a byte", b"d", b"p"),
            ("no content", b"d", b""),
        ];
        for (name, bytes, plain) in cases {
            let dictionary = dictionary(bytes);
            let fingerprint = fingerprint_of(plain, u64::MAX).expect("memory");
            for (coding, effort) in
                DELTA_CODINGS.into_iter().flat_map(|coding| EFFORTS.map(|effort| (coding, effort)))
            {
                let name = format!("{name}, {coding:?}, {effort:?}");
                let mut coded = Vec::new();
                encode_with_dictionary(coding, effort, &dictionary, plain, &mut coded).expect("memory");
                let decodes = |coded: &[u8], with, fingerprint| {
                    decodes_with_dictionary(coding, coded, with, fingerprint)
                };
                assert!(decodes(&coded, &dictionary, fingerprint), "{name}");
                assert!(!decodes(&coded, &other, fingerprint), "{name}: another dictionary");
                assert!(
                    !decodes(&coded, &dictionary, Fingerprint { hash: fingerprint.hash ^ 1, ..fingerprint }),
                    "{name}: other"
                );
                assert!(!decodes(&coded[..coded.len() - 1], &dictionary, fingerprint), "{name}: cut");
                assert!(
                    !decodes(&[&coded[..], b"x"].concat(), &dictionary, fingerprint),
                    "{name}: trailing byte"
                );
                assert!(!decodes(&coded[1..], &dictionary, fingerprint), "{name}: without its first byte");
                assert!(!decodes(b"", &dictionary, fingerprint), "{name}: nothing");
                assert!(!decodes_to(coding, &coded[..], fingerprint), "{name}: without a dictionary");
                // Content that the dictionary has takes almost no space.
                assert!(coded.len() < 60 + plain.len() / 100, "{name}: {}", coded.len());
            }
        }
    }

    #[test]
    fn dictionary_and_content_may_exceed_the_window() {
        let letter = |at: u32| b'a' + (at.wrapping_mul(0x9e37_79b9) >> 28) as u8;
        let bytes: Vec<u8> = (0..6 << 20).map(letter).collect();
        let plain = [&bytes[1000..], b"and more", &bytes].concat();
        let (dictionary, fingerprint) =
            (dictionary(&bytes), fingerprint_of(&plain[..], u64::MAX).expect("memory"));
        for coding in DELTA_CODINGS {
            let mut coded = Vec::new();
            encode_with_dictionary(coding, CompressionEffort::Fast, &dictionary, &plain, &mut coded)
                .expect("memory");
            assert!(decodes_with_dictionary(coding, &coded[..], &dictionary, fingerprint), "{coding:?}");
        }
    }

    fn dictionary(bytes: &[u8]) -> Dictionary {
        Dictionary { hash: Sha256::digest(bytes).into(), bytes: bytes.to_vec() }
    }

    #[test]
    fn window_larger_than_browsers_support_is_rejected() {
        let plain = vec![7; 20 << 20];
        let fingerprint = fingerprint_of(&plain[..], u64::MAX).expect("memory");
        for (log, accepted) in [(23, true), (24, false)] {
            let mut encoder = zstd::stream::Encoder::new(Vec::new(), 1).expect("an encoder");
            encoder.window_log(log).expect("a window");
            io::copy(&mut &plain[..], &mut encoder).expect("memory");
            let coded = encoder.finish().expect("memory");
            assert_eq!(decodes_to(Coding::Zstd, &coded[..], fingerprint), accepted, "{log}");
        }
        for (log, accepted) in [(24, true), (25, false)] {
            let params = brotli::enc::BrotliEncoderParams {
                quality: 1,
                large_window: !accepted,
                lgwin: log,
                ..Default::default()
            };
            let mut coded = Vec::new();
            brotli::BrotliCompress(&mut &plain[..], &mut coded, &params).expect("memory");
            assert_eq!(decodes_to(Coding::Br, &coded[..], fingerprint), accepted, "{log}");
        }
    }

    #[test]
    fn decompression_bomb_stops_at_the_file_length() {
        assert_eq!(fingerprint_of(io::repeat(0), 1000).expect("endless").len, 1001);
        let bomb = vec![0; 64 << 20];
        let small = fingerprint_of(&b"small"[..], u64::MAX).expect("memory");
        for coding in CODINGS {
            assert!(
                !decodes_to(coding, &coded(coding, CompressionEffort::Fast, &bomb)[..], small),
                "{coding:?}"
            );
        }
    }

    fn coded(coding: Coding, effort: CompressionEffort, plain: &[u8]) -> Vec<u8> {
        let mut coded = Vec::new();
        encode(coding, effort, plain, plain.len() as u64, &mut coded).expect("memory");
        coded
    }
}
