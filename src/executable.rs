//! A program that carries its site: this program, a packed site, and a line that tells where it lies.
//!
//! ```text
//! 0          program_len      at, on 64 KiB                             the last 40 bytes
//! ├ program ─┼ zeros ─────────┼ packed site, a tar archive ─────────────┼ magic, program_len, at, len, hash ┤
//! ```
//!
//! Programs of this form are ELF files with bytes behind them, which the system does not load. `strip` and the like
//! would take the site away.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::FileExt,
};
use tarpon_site::{Place, format::hash};

/// Where in a program its site lies, and how long the program alone is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Carried {
    /// The program without its site, in bytes.
    pub(crate) program_len: u64,
    /// The site.
    pub(crate) place: Place,
}

/// A page, on every system: the site is mapped.
const ALIGN: u64 = 64 * 1024;
const MAGIC: &[u8; 8] = b"tarpon\x00\x01";
const ELF: &[u8; 4] = b"\x7fELF";
/// Bytes of the last line.
const LINE_LEN: usize = 40;

impl Carried {
    /// Looks for a site in a file. `None`: it is no program, or carries none.
    pub(crate) fn find(file: &File) -> io::Result<Option<Carried>> {
        let mut magic = [0; ELF.len()];
        let len = file.metadata()?.len();
        let Some(at) = len.checked_sub(LINE_LEN as u64) else { return Ok(None) };
        let mut line = [0; LINE_LEN];
        file.read_exact_at(&mut magic, 0)?;
        file.read_exact_at(&mut line, at)?;
        Ok(if magic == *ELF { Carried::decode(&line, at) } else { None })
    }

    /// Writes a program that carries a site: as much of `program` as is the program alone, and all of `site`.
    pub(crate) fn write(program: &File, site: &mut File, to: &mut File) -> io::Result<()> {
        let whole = program.metadata()?.len();
        let program_len = Carried::find(program)?.map_or(whole, |carried| carried.program_len);
        let place = Place { at: program_len.next_multiple_of(ALIGN), len: site.metadata()?.len() };
        let mut from = program;
        from.seek(SeekFrom::Start(0))?;
        io::copy(&mut from.take(program_len), to)?;
        to.seek(SeekFrom::Start(place.at))?;
        site.seek(SeekFrom::Start(0))?;
        io::copy(site, to)?;
        to.write_all(&Carried { program_len, place }.encode())
    }

    fn encode(&self) -> [u8; LINE_LEN] {
        let mut line = [0; LINE_LEN];
        line[..8].copy_from_slice(MAGIC);
        let numbers = [self.program_len, self.place.at, self.place.len];
        for (to, number) in line[8..32].as_chunks_mut().0.iter_mut().zip(numbers) {
            *to = number.to_le_bytes();
        }
        let check = hash(&line[..32]);
        line[32..].copy_from_slice(&check.to_le_bytes());
        line
    }

    /// Reads a line that lies at `line_at`, and may say anything.
    fn decode(line: &[u8; LINE_LEN], line_at: u64) -> Option<Carried> {
        let number = |at: usize| u64::from_le_bytes(line[at..at + 8].try_into().expect("8 bytes"));
        let carried = Carried { program_len: number(8), place: Place { at: number(16), len: number(24) } };
        let Place { at, len } = carried.place;
        let sound = line.starts_with(MAGIC)
            && number(32) == hash(&line[..32])
            && carried.program_len <= at
            && at.is_multiple_of(ALIGN)
            && at.checked_add(len) == Some(line_at);
        sound.then_some(carried)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_carries_its_site_and_only_the_program_goes_into_the_next() {
        let file = |content: &[u8]| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(content).unwrap();
            file
        };
        let all = |file: &File| {
            let mut content = vec![0; file.metadata().unwrap().len() as usize];
            file.read_exact_at(&mut content, 0).unwrap();
            content
        };
        let program = [&ELF[..], &[7; 100_000]].concat();
        let (mut first, mut second, mut again) = (file(b""), file(b""), file(b""));
        Carried::write(&file(&program), &mut file(b"a site"), &mut first).unwrap();
        Carried::write(&first, &mut file(b"another site"), &mut second).unwrap();
        Carried::write(&second, &mut file(b"a site"), &mut again).unwrap();
        let carried = Carried::find(&second).unwrap().unwrap();
        let want = Carried { program_len: program.len() as u64, place: Place { at: 128 << 10, len: 12 } };
        assert_eq!(carried, want);
        assert_eq!(&all(&second)[128 << 10..][..12], b"another site");
        assert_eq!(&all(&second)[..program.len()], program);
        assert_eq!(all(&first), all(&again));
    }

    #[test]
    fn what_only_looks_like_it_carries_none() {
        let good = Carried { program_len: 5, place: Place { at: ALIGN, len: 9 } };
        let line_at = ALIGN + 9;
        assert_eq!(Carried::decode(&good.encode(), line_at), Some(good));
        #[rustfmt::skip]
        let cases = [
            ("cut or appended to",  good, line_at + 1),
            ("before the program",  Carried { program_len: ALIGN + 1, ..good }, line_at),
            ("not on a page",       Carried { place: Place { at: 4096, len: 9 }, ..good }, 4105),
            ("around the end",      Carried { place: Place { at: ALIGN, len: u64::MAX }, ..good }, ALIGN - 1),
        ];
        for (name, carried, line_at) in cases {
            assert_eq!(Carried::decode(&carried.encode(), line_at), None, "{name}");
        }
        for bit in 0..LINE_LEN * 8 {
            let mut line = good.encode();
            line[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Carried::decode(&line, line_at), None, "bit {bit}");
        }
    }
}
