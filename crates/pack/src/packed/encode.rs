//! Compresses contents.
//!
//! | coding | fast | balanced | best |
//! |---|---|---|---|
//! | `br` | quality 5 | quality 10 | quality 11 |
//! | `gzip` | libdeflate 9 | libdeflate 10 | Zopfli up to 8 MiB, libdeflate 12 above |
//! | `zstd` | level 9 | level 15 | level 22 |
//! | `dcb`, `dcz` | as `br` and `zstd`, after a header that names the dictionary | | |
//!
//! `docs/packing.md` shows what each level costs and saves. The same content gives the same bytes on any machine: the crates are pinned to
//! a version, run in one thread, and are built without the logarithm of the C library. No window is larger than every browser supports.

use super::codings::CODINGS;
use super::dictionaries::{Dictionary, DictionaryDigest};
pub(super) use crate::effort::CompressionEffort;
use flate2::Crc;
use libdeflater::{CompressionLvl, Compressor};
use std::fmt;
use std::io::{self, Read, Write};
use std::num::NonZeroU64;
use tarpon_site::Coding;

/// An encoder at one of its levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoder {
    /// Brotli, quality 0 to 11.
    Brotli(u8),
    /// libdeflate for gzip, level 0 to 12.
    Libdeflate(u8),
    /// Zopfli for gzip, with its number of rounds.
    Zopfli(u8),
    /// Zstandard, level 1 to 22.
    Zstd(u8),
}

impl CompressionEffort {
    /// Returns the encoder for a content of `len` bytes. `None`: the coding is identity.
    pub(crate) fn encoder(self, coding: Coding, len: u64) -> Option<Encoder> {
        let by_effort = |[fast, balanced, best]: [Encoder; 3]| match self {
            CompressionEffort::Fast => fast,
            CompressionEffort::Balanced => balanced,
            CompressionEffort::Best => best,
        };
        use Encoder::{Brotli, Libdeflate, Zopfli, Zstd};
        let best_gzip = if len <= ZOPFLI_LEN_MAX { Zopfli(ZOPFLI_ROUNDS) } else { Libdeflate(12) };
        match coding {
            Coding::Identity => None,
            Coding::Br | Coding::Dcb => Some(by_effort([Brotli(5), Brotli(10), Brotli(11)])),
            Coding::Gzip => Some(by_effort([Libdeflate(9), Libdeflate(10), best_gzip])),
            Coding::Zstd | Coding::Dcz => Some(by_effort([Zstd(9), Zstd(15), Zstd(22)])),
        }
    }

    /// Returns the encoders of all codings without a dictionary, for contents of a usual length.
    #[doc(hidden)]
    pub fn encoders(self) -> [Encoder; 3] {
        CODINGS.map(|coding| self.encoder(coding, 0).expect("the coding has an encoder"))
    }

    /// Returns the name in the line of [`encoders`].
    fn name(self) -> &'static str {
        match self {
            CompressionEffort::Fast => "fast",
            CompressionEffort::Balanced => "balanced",
            CompressionEffort::Best => "best",
        }
    }
}

impl Encoder {
    /// Returns the approximate CPU time per byte, in nanoseconds, for a first estimate.
    pub(crate) fn cost_ns(self) -> u64 {
        match self {
            Encoder::Brotli(11) => 1000,
            Encoder::Brotli(10) => 600,
            Encoder::Brotli(_) => 35,
            Encoder::Libdeflate(12) => 300,
            Encoder::Libdeflate(10) => 90,
            Encoder::Libdeflate(_) => 20,
            Encoder::Zopfli(_) => 3000,
            Encoder::Zstd(22) => 600,
            Encoder::Zstd(15) => 120,
            Encoder::Zstd(_) => 20,
        }
    }
}

impl fmt::Display for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Encoder::Brotli(quality) => write!(f, "brotli {BROTLI} {quality}"),
            Encoder::Libdeflate(level) => write!(f, "libdeflate {LIBDEFLATE} {level}"),
            Encoder::Zopfli(rounds) => write!(f, "zopfli {ZOPFLI} {rounds}"),
            Encoder::Zstd(level) => write!(f, "zstd {} {level}", zstd::zstd_safe::version_string()),
        }
    }
}

/// Returns a line that names the effort and its encoders. Archives with the same line have the same bytes for the same content. The line
/// begins with the version of the rules in `codings.rs`, which decide which variants are worthwhile.
pub(crate) fn encoders(effort: CompressionEffort) -> String {
    let mut line = format!("1; {}", effort.name());
    for coding in CODINGS {
        let short = effort.encoder(coding, 0).expect("the coding has an encoder");
        let long = effort.encoder(coding, u64::MAX).expect("the coding has an encoder");
        line += &format!("; {}: {short}", coding.name());
        if long != short {
            line += &format!(", {long}");
        }
    }
    line
}

/// Compresses a content with one encoder. For benchmarks.
#[doc(hidden)]
pub fn compress(encoder: Encoder, plain: &[u8]) -> io::Result<Vec<u8>> {
    let mut to = Vec::new();
    encode_by(encoder, plain, plain.len() as u64, &mut to)?;
    Ok(to)
}

/// Compresses a content of `len` bytes.
pub(crate) fn encode(
    coding: Coding,
    effort: CompressionEffort,
    mut plain: impl Read,
    len: u64,
    mut to: impl Write,
) -> io::Result<()> {
    assert!(!coding.needs_dictionary(), "the coding needs no dictionary");
    match effort.encoder(coding, len) {
        None => io::copy(&mut plain, &mut to).map(drop),
        Some(encoder) => encode_by(encoder, plain, len, to),
    }
}

fn encode_by(encoder: Encoder, plain: impl Read, len: u64, to: impl Write) -> io::Result<()> {
    match encoder {
        Encoder::Brotli(quality) => brotli(quality, plain, len, to),
        Encoder::Libdeflate(level) => libdeflate(level, plain, len, to),
        Encoder::Zopfli(rounds) => zopfli(rounds, plain, to),
        Encoder::Zstd(level) => zstd_to(zstd::stream::Encoder::new(to, level.into())?, plain, len),
    }
}

/// Compresses a content with a dictionary, which precedes the content in the window. RFC 9842, sections 4 and 5.
pub(crate) fn encode_with_dictionary(
    coding: Coding,
    effort: CompressionEffort,
    dictionary: &Dictionary,
    plain: &[u8],
    mut to: impl Write,
) -> io::Result<()> {
    to.write_all(&dictionary_header(coding, &dictionary.hash))?;
    match effort.encoder(coding, plain.len() as u64) {
        Some(Encoder::Brotli(quality)) => brotli_with_dictionary(quality, &dictionary.bytes, plain, to),
        Some(Encoder::Zstd(level)) => {
            let encoder = zstd::stream::Encoder::with_ref_prefix(to, level.into(), &dictionary.bytes)?;
            zstd_to(encoder, plain, plain.len() as u64)
        }
        _ => unreachable!("the coding has a dictionary"),
    }
}

/// Returns the first bytes of a content that is compressed with a dictionary: a magic number, and the SHA-256 of the dictionary.
pub(crate) fn dictionary_header(coding: Coding, dictionary: &DictionaryDigest) -> Vec<u8> {
    let magic: &[u8] = match coding {
        Coding::Dcb => b"\xffDCB",
        // A frame of 32 bytes, which decoders skip (RFC 8878, section 3.1.2).
        Coding::Dcz => &[0x5e, 0x2a, 0x4d, 0x18, 32, 0, 0, 0],
        _ => unreachable!("the coding has a dictionary"),
    };
    [magic, dictionary].concat()
}

fn brotli(quality: u8, mut plain: impl Read, len: u64, mut to: impl Write) -> io::Result<()> {
    brotli::BrotliCompress(&mut plain, &mut to, &brotli_params(quality, len, len)).map(drop)
}

/// Compresses with a dictionary instead of Brotli's built-in dictionary of words.
fn brotli_with_dictionary(
    quality: u8,
    dictionary: &[u8],
    mut plain: &[u8],
    mut to: impl Write,
) -> io::Result<()> {
    let (len, window) = (plain.len() as u64, (dictionary.len() + plain.len()) as u64);
    let (mut input, mut output) = ([0; BROTLI_BLOCK_LEN], [0; BROTLI_BLOCK_LEN]);
    brotli::enc::BrotliCompressCustomIoCustomDict(
        &mut brotli::IoReaderWrapper(&mut plain),
        &mut brotli::IoWriterWrapper(&mut to),
        &mut input,
        &mut output,
        &brotli_params(quality, len, window),
        brotli::enc::StandardAlloc::default(),
        &mut |_, _, _, _| (),
        dictionary,
        io::ErrorKind::UnexpectedEof.into(),
    )
    .map(drop)
}

/// Returns the parameters for a content of `len` bytes that can refer to `window` bytes.
fn brotli_params(quality: u8, len: u64, window: u64) -> brotli::enc::BrotliEncoderParams {
    brotli::enc::BrotliEncoderParams {
        quality: quality.into(),
        // At most 24 (RFC 7932, section 9.1). A larger window than necessary wastes memory of the client. Windows as short as each content, on
        // the other hand, let the allocator give memory back after each: packing 20,000 pages took 75 s in the kernel in place of 1.4.
        lgwin: if window > 4 << 20 { 24 } else { 22 },
        size_hint: usize::try_from(len).unwrap_or(usize::MAX),
        ..Default::default()
    }
}

fn zstd_to(
    mut encoder: zstd::stream::Encoder<'_, impl Write>,
    mut plain: impl Read,
    len: u64,
) -> io::Result<()> {
    encoder.set_pledged_src_size(Some(len))?;
    encoder.window_log(ZSTD_WINDOW_LOG)?;
    io::copy(&mut plain, &mut encoder)?;
    encoder.finish().map(drop)
}

/// Writes one member without a name or a time (RFC 1952, section 2.3). libdeflate needs the whole content in memory.
fn libdeflate(level: u8, mut plain: impl Read, len: u64, mut to: impl Write) -> io::Result<()> {
    let mut content = Vec::with_capacity(usize::try_from(len).map_err(io::Error::other)?);
    plain.read_to_end(&mut content)?;
    let level = CompressionLvl::new(level.into()).expect("the level is valid");
    let mut compressor = Compressor::new(level);
    let mut coded = vec![0; compressor.gzip_compress_bound(content.len())];
    let coded_len = compressor.gzip_compress(&content, &mut coded).expect("the bound leaves room");
    to.write_all(&coded[..coded_len])
}

/// Writes one member without a name or a time (RFC 1952, section 2.3).
fn zopfli(rounds: u8, plain: impl Read, mut to: impl Write) -> io::Result<()> {
    // Magic number; deflate; no flags; no time; best compression; unknown system.
    to.write_all(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 255])?;
    let mut reader = CrcReader { plain, crc: Crc::new() };
    let rounds = NonZeroU64::new(rounds.into()).expect("there is at least one round");
    let options = zopfli::Options { iteration_count: rounds, ..Default::default() };
    // The content has at most ZOPFLI_LEN_MAX bytes, so the result fits into memory.
    let mut encoder = zopfli::DeflateEncoder::new(options, zopfli::BlockType::Dynamic, Vec::new());
    let mut block = Vec::new();
    while reader.by_ref().take(ZOPFLI_BLOCK_LEN).read_to_end(&mut block)? > 0 {
        zopfli::Write::write_all(&mut encoder, &block).expect("writing to a Vec succeeds");
        block.clear();
    }
    to.write_all(&encoder.finish().expect("writing to a Vec succeeds"))?;
    to.write_all(&reader.crc.sum().to_le_bytes())?;
    to.write_all(&reader.crc.amount().to_le_bytes())
}

/// Computes the checksum of the bytes that are read through it.
struct CrcReader<R> {
    plain: R,
    crc: Crc,
}

impl<R: Read> Read for CrcReader<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let len = self.plain.read(to)?;
        self.crc.update(&to[..len]);
        Ok(len)
    }
}

/// The versions in the manifest. A test compares them.
const BROTLI: &str = "9.1.1";
const ZOPFLI: &str = "0.8.4";
const LIBDEFLATE: &str = "1.26.1";
/// Bytes that Brotli reads and writes at once.
const BROTLI_BLOCK_LEN: usize = 4096;
/// 8 MiB, which every client must support and senders must not exceed: RFC 9659, section 3, and with a dictionary RFC 9842, section 5.
pub(super) const ZSTD_WINDOW_LOG: u32 = 23;
/// The default of Zopfli. It saves half a percent more than one round; further rounds save almost nothing.
const ZOPFLI_ROUNDS: u8 = 15;
/// The largest content for Zopfli, which takes about five seconds per MiB. Larger files are downloads, of which it would save one percent.
const ZOPFLI_LEN_MAX: u64 = 8 << 20;
/// Bytes that Zopfli optimizes as a whole: the same as its own default.
const ZOPFLI_BLOCK_LEN: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use xxhash_rust::xxh3::xxh3_64;

    /// If this test fails, the encoders make other bytes. Then the line of [`encoders`] has to change too, since archives with the same
    /// line must have the same bytes.
    #[test]
    fn encoders_make_known_bytes() {
        let plain: Vec<u8> =
            (0..30_000u32).flat_map(|at| (at * at / 7 % 1000).to_string().into_bytes()).collect();
        #[rustfmt::skip]
        let cases = [
            (Coding::Br,   CompressionEffort::Fast,     0xfb6a_de52_13bb_2527),
            (Coding::Br,   CompressionEffort::Balanced, 0x22da_fa47_cd94_8849),
            (Coding::Br,   CompressionEffort::Best,     0x22da_fa47_cd94_8849),
            (Coding::Gzip, CompressionEffort::Fast,     0xd443_787e_3185_a8e5),
            (Coding::Gzip, CompressionEffort::Balanced, 0xd7d8_1ce8_0d86_b7d9),
            (Coding::Gzip, CompressionEffort::Best,     0x72c7_460c_d9b1_e46b),
            (Coding::Zstd, CompressionEffort::Fast,     0x8c3d_895b_a6fe_a084),
            (Coding::Zstd, CompressionEffort::Balanced, 0xedbe_1ffa_2727_1755),
            (Coding::Zstd, CompressionEffort::Best,     0x8b62_a5eb_5153_6491),
        ];
        let coded = cases.map(|(coding, effort, _)| {
            let mut coded = Vec::new();
            encode(coding, effort, &plain[..], plain.len() as u64, &mut coded).expect("memory");
            (coding, effort, xxh3_64(&coded))
        });
        assert_eq!(coded, cases, "{coded:x?}");
        assert_eq!(
            encoders(CompressionEffort::Balanced),
            "1; balanced; br: brotli 9.1.1 10; gzip: libdeflate 1.26.1 10; zstd: zstd 1.5.7 15"
        );
        assert_eq!(
            encoders(CompressionEffort::Best),
            "1; best; br: brotli 9.1.1 11; gzip: zopfli 0.8.4 15, libdeflate 1.26.1 12; zstd: zstd 1.5.7 22"
        );
    }

    #[test]
    fn versions_match_the_manifest() {
        let manifest = include_str!("../../Cargo.toml");
        for (name, version) in [
            ("brotli", BROTLI),
            ("zopfli", ZOPFLI),
            ("libdeflater", LIBDEFLATE),
            ("libdeflate-sys", LIBDEFLATE),
        ] {
            let line = manifest.lines().find(|line| line.starts_with(&format!("{name} ="))).expect(name);
            assert!(line.contains(&format!("\"={version}\"")), "{line}");
        }
    }
}
