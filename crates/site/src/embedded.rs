//! Where in a program the packed site lies that it carries: the last line of the file.
//!
//! ```text
//! 0          program_len      at, on 64 KiB                             the last 40 bytes
//! ├ program ─┼ zeros ─────────┼ packed site, a tar archive ─────────────┼ magic, program_len, at, len, hash ┤
//! ```
//!
//! The program is an ELF file, of which the system loads what its own headers name, and not what lies behind. `strip`
//! and the like would take the site away.

use crate::format::hash;
use crate::region::Region;

/// Where in a program its site lies, and how long the program alone is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmbeddedTrailer {
    /// The program without its site, in bytes.
    pub program_len: u64,
    /// The site: a whole packed archive.
    pub site: Region,
}

/// What a carried site is aligned to, so that it can be mapped: a page on every system.
pub const EMBEDDED_ALIGN: u64 = 64 * 1024;
/// Bytes of the last line.
pub const TRAILER_LEN: usize = 40;
/// How a program begins that may carry a site.
pub const PROGRAM_MAGIC: &[u8; 4] = b"\x7fELF";

const MAGIC: &[u8; 8] = b"tarpon\x00\x01";

impl EmbeddedTrailer {
    /// Where a site of `site_len` bytes comes to lie behind a program.
    pub fn new(program_len: u64, site_len: u64) -> EmbeddedTrailer {
        let place = Region { at: program_len.next_multiple_of(EMBEDDED_ALIGN), len: site_len };
        EmbeddedTrailer { program_len, site: place }
    }

    /// The line as it lies behind the site.
    pub fn encode(&self) -> [u8; TRAILER_LEN] {
        let mut line = [0; TRAILER_LEN];
        line[..8].copy_from_slice(MAGIC);
        let numbers = [self.program_len, self.site.at, self.site.len];
        for (to, number) in line[8..32].as_chunks_mut().0.iter_mut().zip(numbers) {
            *to = number.to_le_bytes();
        }
        let check = hash(&line[..32]);
        line[32..].copy_from_slice(&check.to_le_bytes());
        line
    }

    /// Reads the last bytes of a program, which lie at `line_at` and may say anything. `None`: it carries no site.
    pub fn decode(line: &[u8; TRAILER_LEN], line_at: u64) -> Option<EmbeddedTrailer> {
        let number = |at: usize| u64::from_le_bytes(line[at..at + 8].try_into().expect("8 bytes"));
        let carried =
            EmbeddedTrailer { program_len: number(8), site: Region { at: number(16), len: number(24) } };
        let Region { at, len } = carried.site;
        let sound = line.starts_with(MAGIC)
            && number(32) == hash(&line[..32])
            && carried.program_len <= at
            && at.is_multiple_of(EMBEDDED_ALIGN)
            && at.checked_add(len) == Some(line_at);
        sound.then_some(carried)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_looks_like_it_carries_none() {
        let good = EmbeddedTrailer::new(5, 9);
        let line_at = EMBEDDED_ALIGN + 9;
        assert_eq!(EmbeddedTrailer::decode(&good.encode(), line_at), Some(good));
        #[rustfmt::skip]
        let cases = [
            ("cut or appended to",  good, line_at + 1),
            ("before the program",  EmbeddedTrailer { program_len: EMBEDDED_ALIGN + 1, ..good }, line_at),
            ("not on a page",       EmbeddedTrailer { site: Region { at: 4096, len: 9 }, ..good }, 4105),
            ("around the end",      EmbeddedTrailer { site: Region { at: EMBEDDED_ALIGN, len: u64::MAX }, ..good }, EMBEDDED_ALIGN - 1),
        ];
        for (name, carried, line_at) in cases {
            assert_eq!(EmbeddedTrailer::decode(&carried.encode(), line_at), None, "{name}");
        }
        for bit in 0..TRAILER_LEN * 8 {
            let mut line = good.encode();
            line[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(EmbeddedTrailer::decode(&line, line_at), None, "bit {bit}");
        }
    }
}
