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
use crate::place::Place;

/// Where in a program its site lies, and how long the program alone is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// The program without its site, in bytes.
    pub program_len: u64,
    /// The site: a whole packed archive.
    pub place: Place,
}

/// What a carried site is aligned to, so that it can be mapped: a page on every system.
pub const CARRIED_ALIGN: u64 = 64 * 1024;
/// Bytes of the last line.
pub const CARRIED_LEN: usize = 40;
/// How a program begins that may carry a site.
pub const PROGRAM_MAGIC: &[u8; 4] = b"\x7fELF";

const MAGIC: &[u8; 8] = b"tarpon\x00\x01";

impl Carried {
    /// Where a site of `site_len` bytes comes to lie behind a program.
    pub fn behind(program_len: u64, site_len: u64) -> Carried {
        let place = Place { at: program_len.next_multiple_of(CARRIED_ALIGN), len: site_len };
        Carried { program_len, place }
    }

    /// The line as it lies behind the site.
    pub fn encode(&self) -> [u8; CARRIED_LEN] {
        let mut line = [0; CARRIED_LEN];
        line[..8].copy_from_slice(MAGIC);
        let numbers = [self.program_len, self.place.at, self.place.len];
        for (to, number) in line[8..32].as_chunks_mut().0.iter_mut().zip(numbers) {
            *to = number.to_le_bytes();
        }
        let check = hash(&line[..32]);
        line[32..].copy_from_slice(&check.to_le_bytes());
        line
    }

    /// Reads the last bytes of a program, which lie at `line_at` and may say anything. `None`: it carries no site.
    pub fn decode(line: &[u8; CARRIED_LEN], line_at: u64) -> Option<Carried> {
        let number = |at: usize| u64::from_le_bytes(line[at..at + 8].try_into().expect("8 bytes"));
        let carried = Carried { program_len: number(8), place: Place { at: number(16), len: number(24) } };
        let Place { at, len } = carried.place;
        let sound = line.starts_with(MAGIC)
            && number(32) == hash(&line[..32])
            && carried.program_len <= at
            && at.is_multiple_of(CARRIED_ALIGN)
            && at.checked_add(len) == Some(line_at);
        sound.then_some(carried)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_looks_like_it_carries_none() {
        let good = Carried::behind(5, 9);
        let line_at = CARRIED_ALIGN + 9;
        assert_eq!(Carried::decode(&good.encode(), line_at), Some(good));
        #[rustfmt::skip]
        let cases = [
            ("cut or appended to",  good, line_at + 1),
            ("before the program",  Carried { program_len: CARRIED_ALIGN + 1, ..good }, line_at),
            ("not on a page",       Carried { place: Place { at: 4096, len: 9 }, ..good }, 4105),
            ("around the end",      Carried { place: Place { at: CARRIED_ALIGN, len: u64::MAX }, ..good }, CARRIED_ALIGN - 1),
        ];
        for (name, carried, line_at) in cases {
            assert_eq!(Carried::decode(&carried.encode(), line_at), None, "{name}");
        }
        for bit in 0..CARRIED_LEN * 8 {
            let mut line = good.encode();
            line[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Carried::decode(&line, line_at), None, "bit {bit}");
        }
    }
}
