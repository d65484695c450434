//! Codes a content: as small as it gets, since it is done once and sent often.
//!
//! | coding | best | fast |
//! |---|---|---|
//! | `gzip` | Zopfli up to 8 MiB, DEFLATE 9 above | DEFLATE 9 |
//! | `br` | quality 11 | quality 5 |
//! | `zstd` | level 22 | level 9 |
//! | `dcb`, `dcz` | as `br` and `zstd`, and behind a head that names the dictionary | |
//!
//! The same content gives the same bytes, on any machine: the crates are pinned to a version, run in one thread, and
//! are built to calculate without the C library's logarithm. Windows are what every browser grants.

use super::dictionaries::{Dictionary, Digest};
use flate2::{Compression, Crc, write::DeflateEncoder};
use std::io::{self, Read, Write};
use std::num::NonZeroU64;
use tarpon_site::Coding;

/// How much time coding may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effort {
    /// A few percent larger, and a hundred times faster: to try something out.
    Fast,
    /// As small as it gets.
    #[default]
    Best,
}

/// What codes, in one line: archives with the same line have the same bytes for the same content. It begins with the
/// version of the rules in `variants.rs`, which decide what is worth coding.
pub(crate) fn encoders(effort: Effort) -> String {
    let zstd = zstd::zstd_safe::version_string();
    match effort {
        Effort::Fast => {
            format!("1; fast; br: brotli {BROTLI} 5; gzip: miniz_oxide {MINIZ} 9; zstd: {zstd} 9")
        }
        Effort::Best => format!(
            "1; best; br: brotli {BROTLI} 11; gzip: zopfli {ZOPFLI} {ZOPFLI_ROUNDS}, miniz_oxide {MINIZ} 9; zstd: {zstd} 22"
        ),
    }
}

/// Codes a content of `len` bytes.
pub(crate) fn encode(
    coding: Coding,
    effort: Effort,
    mut plain: impl Read,
    len: u64,
    mut to: impl Write,
) -> io::Result<()> {
    match coding {
        Coding::Identity => io::copy(&mut plain, &mut to).map(drop),
        Coding::Br => brotli(effort, plain, len, to),
        Coding::Gzip => gzip(effort, plain, len, to),
        Coding::Zstd => zstd(effort, plain, len, to),
        Coding::Dcb | Coding::Dcz => unreachable!("there is no dictionary"),
    }
}

/// Codes a content with a dictionary: what comes before it in the window. RFC 9842, sections 4 and 5.
pub(crate) fn encode_with(
    coding: Coding,
    effort: Effort,
    dictionary: &Dictionary,
    plain: &[u8],
    mut to: impl Write,
) -> io::Result<()> {
    to.write_all(&head_with(coding, &dictionary.digest))?;
    match coding {
        Coding::Dcb => brotli_with(effort, &dictionary.bytes, plain, to),
        Coding::Dcz => {
            let encoder = zstd::stream::Encoder::with_ref_prefix(to, zstd_level(effort), &dictionary.bytes)?;
            zstd_to(encoder, plain, plain.len() as u64)
        }
        _ => unreachable!("a coding with a dictionary"),
    }
}

/// What a content that is coded with a dictionary begins with: a sign, and the SHA-256 of the dictionary.
pub(crate) fn head_with(coding: Coding, dictionary: &Digest) -> Vec<u8> {
    let sign: &[u8] = match coding {
        Coding::Dcb => b"\xffDCB",
        // A frame of 32 bytes that decoders skip: RFC 8878, section 3.1.2.
        Coding::Dcz => &[0x5e, 0x2a, 0x4d, 0x18, 32, 0, 0, 0],
        _ => unreachable!("a coding with a dictionary"),
    };
    [sign, dictionary].concat()
}

fn brotli(effort: Effort, mut plain: impl Read, len: u64, mut to: impl Write) -> io::Result<()> {
    brotli::BrotliCompress(&mut plain, &mut to, &brotli_params(effort, len, len)).map(drop)
}

/// The dictionary of words that every decoder has is not used beside one.
fn brotli_with(effort: Effort, dictionary: &[u8], mut plain: &[u8], mut to: impl Write) -> io::Result<()> {
    let (len, window) = (plain.len() as u64, (dictionary.len() + plain.len()) as u64);
    let (mut input, mut output) = ([0; BROTLI_BLOCK_LEN], [0; BROTLI_BLOCK_LEN]);
    brotli::enc::BrotliCompressCustomIoCustomDict(
        &mut brotli::IoReaderWrapper(&mut plain),
        &mut brotli::IoWriterWrapper(&mut to),
        &mut input,
        &mut output,
        &brotli_params(effort, len, window),
        brotli::enc::StandardAlloc::default(),
        &mut |_, _, _, _| (),
        dictionary,
        io::ErrorKind::UnexpectedEof.into(),
    )
    .map(drop)
}

/// For a content of `len` bytes that can refer to `window` bytes.
fn brotli_params(effort: Effort, len: u64, window: u64) -> brotli::enc::BrotliEncoderParams {
    brotli::enc::BrotliEncoderParams {
        quality: match effort {
            Effort::Fast => 5,
            Effort::Best => 11,
        },
        // RFC 7932, section 9.1: 24 at most. A larger window than that takes memory from the client for nothing.
        lgwin: if window > 4 << 20 { 24 } else { 22 },
        size_hint: usize::try_from(len).unwrap_or(usize::MAX),
        ..Default::default()
    }
}

fn zstd(effort: Effort, plain: impl Read, len: u64, to: impl Write) -> io::Result<()> {
    zstd_to(zstd::stream::Encoder::new(to, zstd_level(effort))?, plain, len)
}

fn zstd_level(effort: Effort) -> i32 {
    match effort {
        Effort::Fast => 9,
        Effort::Best => 22,
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

/// One member, without a name or a time: RFC 1952, section 2.3.
fn gzip(effort: Effort, plain: impl Read, len: u64, mut to: impl Write) -> io::Result<()> {
    // Deflate; no flags; no time; compressed as small as possible; from a system that does not matter.
    to.write_all(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 255])?;
    let mut summed = Summed { plain, crc: Crc::new() };
    if effort == Effort::Best && len <= ZOPFLI_LEN_MAX {
        zopfli(&mut summed, &mut to)?;
    } else {
        let mut encoder = DeflateEncoder::new(&mut to, Compression::best());
        io::copy(&mut summed, &mut encoder)?;
        encoder.finish()?;
    }
    to.write_all(&summed.crc.sum().to_le_bytes())?;
    to.write_all(&summed.crc.amount().to_le_bytes())
}

fn zopfli(plain: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let rounds = NonZeroU64::new(ZOPFLI_ROUNDS).expect("a constant that is not zero");
    let options = zopfli::Options { iteration_count: rounds, ..Default::default() };
    // At most ZOPFLI_LEN_MAX, as is what it becomes.
    let mut encoder = zopfli::DeflateEncoder::new(options, zopfli::BlockType::Dynamic, Vec::new());
    let mut block = Vec::new();
    while plain.by_ref().take(ZOPFLI_BLOCK_LEN).read_to_end(&mut block)? > 0 {
        zopfli::Write::write_all(&mut encoder, &block).expect("a Vec takes all");
        block.clear();
    }
    to.write_all(&encoder.finish().expect("a Vec takes all"))
}

/// Sums up what is read through it.
struct Summed<R> {
    plain: R,
    crc: Crc,
}

impl<R: Read> Read for Summed<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let len = self.plain.read(to)?;
        self.crc.update(&to[..len]);
        Ok(len)
    }
}

/// As the manifest has them: a test compares.
const BROTLI: &str = "9.1.1";
const ZOPFLI: &str = "0.8.4";
const MINIZ: &str = "0.9.1";
/// Bytes that Brotli takes and gives at once.
const BROTLI_BLOCK_LEN: usize = 4096;
/// 8 MiB: RFC 9659, section 3, asks every client for so much, and no sender for more; with a dictionary, RFC 9842, section 5,
/// does too.
pub(super) const ZSTD_WINDOW_LOG: u32 = 23;
/// As many as Zopfli takes by default; from one round to these there is half a percent, from these on next to nothing.
const ZOPFLI_ROUNDS: u64 = 15;
/// Zopfli takes about five seconds for each MiB; what is larger is a download, of which it would save one percent.
const ZOPFLI_LEN_MAX: u64 = 8 << 20;
/// Bytes Zopfli looks at as a whole: its own choice where it reads by itself.
const ZOPFLI_BLOCK_LEN: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use xxhash_rust::xxh3::xxh3_64;

    /// If this fails, bytes have changed: then the line of [`encoders`] has to change too, or archives that say they were made
    /// alike were not.
    #[test]
    fn the_bytes_are_what_they_were() {
        let plain: Vec<u8> =
            (0..30_000u32).flat_map(|at| (at * at / 7 % 1000).to_string().into_bytes()).collect();
        #[rustfmt::skip]
        let cases = [
            (Coding::Br,   Effort::Fast, 0xfb6a_de52_13bb_2527),
            (Coding::Br,   Effort::Best, 0x22da_fa47_cd94_8849),
            (Coding::Gzip, Effort::Fast, 0x5c4d_0d67_0ff0_6ae8),
            (Coding::Gzip, Effort::Best, 0x72c7_460c_d9b1_e46b),
            (Coding::Zstd, Effort::Fast, 0x8c3d_895b_a6fe_a084),
            (Coding::Zstd, Effort::Best, 0x8b62_a5eb_5153_6491),
        ];
        let coded = cases.map(|(coding, effort, _)| {
            let mut coded = Vec::new();
            encode(coding, effort, &plain[..], plain.len() as u64, &mut coded).expect("memory");
            (coding, effort, xxh3_64(&coded))
        });
        assert_eq!(coded, cases, "{coded:x?}");
        assert_eq!(
            encoders(Effort::Best),
            "1; best; br: brotli 9.1.1 11; gzip: zopfli 0.8.4 15, miniz_oxide 0.9.1 9; zstd: 1.5.7 22"
        );
    }

    #[test]
    fn the_versions_are_those_of_the_manifest() {
        let manifest = include_str!("../../Cargo.toml");
        for (name, version) in [("brotli", BROTLI), ("zopfli", ZOPFLI), ("miniz_oxide", MINIZ)] {
            let line = manifest.lines().find(|line| line.starts_with(&format!("{name} ="))).expect(name);
            assert!(line.contains(&format!("\"={version}\"")), "{line}");
        }
    }
}
