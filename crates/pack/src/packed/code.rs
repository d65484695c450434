//! Codes a content: as small as it gets, since it is done once and sent often.
//!
//! | coding | best | fast |
//! |---|---|---|
//! | `gzip` | Zopfli up to 8 MiB, DEFLATE 9 above | DEFLATE 9 |
//! | `br` | quality 11 | quality 5 |
//! | `zstd` | level 22 | level 9 |
//!
//! The same content gives the same bytes, on any machine: the crates are pinned to a version, run in one thread, and
//! are built to calculate without the C library's logarithm. Windows are what every browser grants.

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
    }
}

fn brotli(effort: Effort, mut plain: impl Read, len: u64, mut to: impl Write) -> io::Result<()> {
    let params = brotli::enc::BrotliEncoderParams {
        quality: match effort {
            Effort::Fast => 5,
            Effort::Best => 11,
        },
        // RFC 7932, section 9.1: 24 at most. A larger window than the content takes memory from the client for nothing.
        lgwin: if len > 4 << 20 { 24 } else { 22 },
        size_hint: usize::try_from(len).unwrap_or(usize::MAX),
        ..Default::default()
    };
    brotli::BrotliCompress(&mut plain, &mut to, &params).map(drop)
}

fn zstd(effort: Effort, mut plain: impl Read, len: u64, to: impl Write) -> io::Result<()> {
    let level = match effort {
        Effort::Fast => 9,
        Effort::Best => 22,
    };
    let mut encoder = zstd::stream::Encoder::new(to, level)?;
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
/// 8 MiB: RFC 9659, section 3, asks every client for so much, and no sender for more.
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
