//! A generated site: pages of HTML, the same on every machine.
//!
//! ```text
//! number ─▶ seed ─▶ length, words ─▶ page        d017/p000417.html
//! ```
//!
//! Words are drawn unevenly from a vocabulary, so that pages compress about as well as prose does.

use std::fs;
use std::path::Path;

use crate::Trouble;

/// Where a page lies in the site.
pub(crate) fn path(number: usize) -> String {
    format!("d{:03}/p{number:06}.html", number % DIRECTORY_COUNT)
}

/// Its content.
pub(crate) fn page(number: usize) -> Vec<u8> {
    let mut chance = Chance::new(number as u64);
    let len = LEN_MIN as f64 * (LEN_MAX as f64 / LEN_MIN as f64).powf(chance.share());
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>Page {number}</title>\n\
         </head>\n<body>\n<h1>{} {}</h1>\n",
        chance.word(),
        chance.word()
    );
    while page.len() + END.len() < len as usize {
        page += "<p>";
        for _ in 0..8 + chance.below(40) {
            page += &chance.word();
            page += if chance.below(9) == 0 { ", " } else { " " };
        }
        page += &format!("<a href=\"/{}\">{}</a>.</p>\n", path(chance.below(1000) as usize), chance.word());
    }
    (page + END).into_bytes()
}

/// Writes the first `count` pages into a directory. Returns how many bytes they have.
pub(crate) fn write(directory: &Path, count: usize) -> Result<u64, Trouble> {
    for number in 0..DIRECTORY_COUNT.min(count) {
        fs::create_dir_all(directory.join(path(number)).parent().expect("a page lies in a directory"))?;
    }
    let mut len = 0;
    for number in 0..count {
        let page = page(number);
        fs::write(directory.join(path(number)), &page)?;
        len += page.len() as u64;
    }
    Ok(len)
}

/// Bytes that look like those of a film: no coding makes them smaller.
pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut chance = Chance::new(seed);
    let mut noise: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| chance.next().to_le_bytes()).collect();
    noise.truncate(len);
    noise
}

/// Numbers that look like chance: xorshift64*, of which only the seed decides.
struct Chance(u64);

impl Chance {
    fn new(seed: u64) -> Chance {
        let mut chance = Chance((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        chance.next();
        chance
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn below(&mut self, end: u64) -> u64 {
        (self.share() * end as f64) as u64
    }

    /// One of [`WORD_COUNT`], the first more often than the last.
    fn word(&mut self) -> String {
        let share = self.share();
        let mut rank = (share * share * share * WORD_COUNT as f64) as usize;
        let mut word = String::new();
        loop {
            word += SYLLABLES[rank % SYLLABLES.len()];
            rank /= SYLLABLES.len();
            if rank == 0 {
                return word;
            }
        }
    }
}

/// As many as a file system likes to have files below, each.
const DIRECTORY_COUNT: usize = 400;

/// Lengths of pages, in bytes: as many between one and two KiB as between ten and twenty. A last paragraph may exceed it.
const LEN_MIN: usize = 512;
const LEN_MAX: usize = 20 << 10;

const WORD_COUNT: usize = 4000;

const END: &str = "</body>\n</html>\n";

#[rustfmt::skip]
const SYLLABLES: [&str; 16] =
    ["ta", "ri", "on", "se", "lu", "men", "ka", "do", "per", "vi", "ste", "no", "fa", "bel", "qui", "or"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_the_same_every_time_and_no_other() {
        assert_eq!(page(7), page(7));
        assert_ne!(page(7), page(8));
        assert!(page(7).starts_with(b"<!doctype html>") && page(7).ends_with(END.as_bytes()));
        assert_eq!(path(417), "d017/p000417.html");
        assert_ne!(noise(0, 100), noise(1, 100));
        assert_eq!(noise(3, 13).len(), 13);
    }

    #[test]
    fn lengths_lie_where_they_shall_and_spread() {
        let mut lens: Vec<usize> = (0..1000).map(|number| page(number).len()).collect();
        lens.sort_unstable();
        assert!(lens[0] >= 300 && lens[999] <= LEN_MAX + 1024, "{} to {}", lens[0], lens[999]);
        assert!((2000..5000).contains(&lens[500]), "{}", lens[500]);
    }
}
