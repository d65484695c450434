//! Finds a packed site that is embedded in a program, by the trailer at the end of the file.
//!
//! ```text
//! 0          program_len      at, on 64 KiB                             trailer, the last 40 bytes
//! ├ program ─┼ zeros ─────────┼ packed site, a tar archive ─────────────┼ magic, program_len, at, len, hash ┤
//! ```
//!
//! The program is an ELF file. The system loads only the segments in its headers and ignores appended bytes; `strip` and similar
//! tools remove them.

use crate::format::hash;
use crate::region::Region;

/// The trailer of a program with an embedded site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmbeddedTrailer {
    /// The length of the program without the site.
    pub program_len: u64,
    /// The site, a complete packed archive.
    pub site: Region,
}

/// The alignment of an embedded site: a multiple of the page size of every system, so that the site can be mapped.
pub const EMBEDDED_ALIGN: u64 = 64 * 1024;
/// The length of the trailer.
pub const TRAILER_LEN: usize = 40;
/// The magic number of a program that can have an embedded site.
pub const PROGRAM_MAGIC: &[u8; 4] = b"\x7fELF";

const MAGIC: &[u8; 8] = b"tarpon\x00\x01";

impl EmbeddedTrailer {
    /// Creates the trailer for a site of `site_len` bytes that is appended to a program.
    pub fn new(program_len: u64, site_len: u64) -> EmbeddedTrailer {
        let site = Region { at: program_len.next_multiple_of(EMBEDDED_ALIGN), len: site_len };
        EmbeddedTrailer { program_len, site }
    }

    /// Returns the bytes of the trailer.
    pub fn encode(&self) -> [u8; TRAILER_LEN] {
        let mut trailer = [0; TRAILER_LEN];
        trailer[..8].copy_from_slice(MAGIC);
        let numbers = [self.program_len, self.site.at, self.site.len];
        for (to, number) in trailer[8..32].as_chunks_mut().0.iter_mut().zip(numbers) {
            *to = number.to_le_bytes();
        }
        let check = hash(&trailer[..32]);
        trailer[32..].copy_from_slice(&check.to_le_bytes());
        trailer
    }

    /// Decodes the last bytes of a program, which are at offset `trailer_at`. Returns `None` if they are not a valid trailer, that is,
    /// if no site is embedded.
    pub fn decode(trailer: &[u8; TRAILER_LEN], trailer_at: u64) -> Option<EmbeddedTrailer> {
        let number = |at: usize| u64::from_le_bytes(trailer[at..at + 8].try_into().expect("8 bytes"));
        let decoded =
            EmbeddedTrailer { program_len: number(8), site: Region { at: number(16), len: number(24) } };
        let Region { at, len } = decoded.site;
        let sound = trailer.starts_with(MAGIC)
            && number(32) == hash(&trailer[..32])
            && decoded.program_len <= at
            && at.is_multiple_of(EMBEDDED_ALIGN)
            && at.checked_add(len) == Some(trailer_at);
        sound.then_some(decoded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_trailer_is_ignored() {
        let good = EmbeddedTrailer::new(5, 9);
        let trailer_at = EMBEDDED_ALIGN + 9;
        assert_eq!(EmbeddedTrailer::decode(&good.encode(), trailer_at), Some(good));
        #[rustfmt::skip]
        let cases = [
            ("cut or appended to",  good, trailer_at + 1),
            ("before the program",  EmbeddedTrailer { program_len: EMBEDDED_ALIGN + 1, ..good }, trailer_at),
            ("not on a page",       EmbeddedTrailer { site: Region { at: 4096, len: 9 }, ..good }, 4105),
            ("around the end",      EmbeddedTrailer { site: Region { at: EMBEDDED_ALIGN, len: u64::MAX }, ..good }, EMBEDDED_ALIGN - 1),
        ];
        for (name, decoded, trailer_at) in cases {
            assert_eq!(EmbeddedTrailer::decode(&decoded.encode(), trailer_at), None, "{name}");
        }
        for bit in 0..TRAILER_LEN * 8 {
            let mut trailer = good.encode();
            trailer[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(EmbeddedTrailer::decode(&trailer, trailer_at), None, "bit {bit}");
        }
    }
}
