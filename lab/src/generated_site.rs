//! A generated site: HTML pages that are the same on every machine.
//!
//! ```text
//! number ─▶ seed ─▶ length, words ─▶ page        d017/p000417.html
//! ```
//!
//! The generator draws words unevenly from a vocabulary, so that pages compress about as well as prose.

use std::fs;
use std::path::Path;

use crate::error::LabError;

/// Returns the path of a page in the site.
pub(crate) fn path(number: usize) -> String {
    format!("d{:03}/p{number:06}.html", number % DIRECTORY_COUNT)
}

/// Returns the content of a page.
pub(crate) fn page(number: usize) -> Vec<u8> {
    let mut rng = PageRng::new(number as u64);
    let len = LEN_MIN as f64 * (LEN_MAX as f64 / LEN_MIN as f64).powf(rng.fraction());
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>Page {number}</title>\n\
         </head>\n<body>\n<h1>{} {}</h1>\n",
        rng.word(),
        rng.word()
    );
    while page.len() + END.len() < len as usize {
        page += "<p>";
        for _ in 0..8 + rng.below(40) {
            page += &rng.word();
            page += if rng.below(9) == 0 { ", " } else { " " };
        }
        page += &format!("<a href=\"/{}\">{}</a>.</p>\n", path(rng.below(1000) as usize), rng.word());
    }
    (page + END).into_bytes()
}

/// Writes the first `count` pages into a directory. Returns their total size in bytes.
pub(crate) fn write(directory: &Path, count: usize) -> Result<u64, LabError> {
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

/// Returns `len` bytes in lines of 64: the content of the page that races and null servers use.
pub(crate) fn lines(len: usize) -> Vec<u8> {
    (0..len).map(|at| if at % 64 == 63 { b'\n' } else { b'a' + (at % 26) as u8 }).collect()
}

/// Returns `len` bytes that do not compress, like those of a video.
pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = PageRng::new(seed);
    let mut noise: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| rng.next().to_le_bytes()).collect();
    noise.truncate(len);
    noise
}

/// A pseudorandom generator, xorshift64*. The same seed gives the same numbers.
pub(crate) struct PageRng(u64);

impl PageRng {
    pub(crate) fn new(seed: u64) -> PageRng {
        let mut rng = PageRng((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        rng.next();
        rng
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number from 0 to 1, without 1.
    pub(crate) fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        (self.fraction() * end as f64) as u64
    }

    /// Returns one of [`WORD_COUNT`] words; low ranks are more frequent.
    fn word(&mut self) -> String {
        let fraction = self.fraction();
        let mut rank = (fraction * fraction * fraction * WORD_COUNT as f64) as usize;
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

/// Directories of the site. Few enough files per directory keep file systems fast.
const DIRECTORY_COUNT: usize = 400;

/// Lengths of pages in bytes, evenly distributed on a logarithmic scale. The last paragraph may exceed the maximum.
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
    fn pages_are_reproducible_and_distinct() {
        assert_eq!(page(7), page(7));
        assert_ne!(page(7), page(8));
        assert!(page(7).starts_with(b"<!doctype html>") && page(7).ends_with(END.as_bytes()));
        assert_eq!(path(417), "d017/p000417.html");
        assert_ne!(noise(0, 100), noise(1, 100));
        assert_eq!(noise(3, 13).len(), 13);
    }

    #[test]
    fn page_lengths_stay_within_their_limits() {
        let mut lens: Vec<usize> = (0..1000).map(|number| page(number).len()).collect();
        lens.sort_unstable();
        assert!(lens[0] >= 300 && lens[999] <= LEN_MAX + 1024, "{} to {}", lens[0], lens[999]);
        assert!((2000..5000).contains(&lens[500]), "{}", lens[500]);
    }
}
