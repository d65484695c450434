//! The names of the fields that the server interprets, and their recognition without a loop.
//!
//! ```text
//! Accept-Encoding ─ length, first four bytes ─ hash ─▶ slot ─┬─ empty: another field
//!                                                            └─ a name ─ compare as words, in any case ─▶ FieldName
//! ```

macro_rules! names {
    ($($name:ident $text:literal,)*) => {
        /// The name of a field that the server interprets.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum FieldName {
            $(#[doc = $text] $name,)*
        }

        impl FieldName {
            /// All field names.
            pub const ALL: [FieldName; NAME_COUNT] = [$(FieldName::$name),*];
        }

        const NAMES: [(FieldName, &str); [$($text),*].len()] = [$((FieldName::$name, $text)),*];
    };
}

/// The number of field names.
pub(crate) const NAME_COUNT: usize = NAMES.len();

names! {
    Host "Host",
    Connection "Connection",
    ContentLength "Content-Length",
    TransferEncoding "Transfer-Encoding",
    Expect "Expect",
    IfNoneMatch "If-None-Match",
    IfModifiedSince "If-Modified-Since",
    IfMatch "If-Match",
    IfUnmodifiedSince "If-Unmodified-Since",
    IfRange "If-Range",
    AcceptEncoding "Accept-Encoding",
    AvailableDictionary "Available-Dictionary",
    Range "Range",
}

impl FieldName {
    /// Returns the field name in its usual spelling.
    pub const fn as_str(self) -> &'static str {
        NAMES[self as usize].1
    }

    /// Returns the field name of `len` bytes at the start of `line`. Field names are case-insensitive: RFC 9110, section 5.1.
    #[inline(always)]
    pub(crate) fn at_start_of(line: &[u8], len: usize) -> Option<FieldName> {
        let first = u32::from_le_bytes(*line.first_chunk()?);
        let index = SLOTS[slot(first, len)] as usize;
        let pattern = PATTERNS.get(index)?;
        (len == pattern.len && pattern.is_in(&line[..len])).then(|| FieldName::ALL[index])
    }

    /// Returns the field name with these bytes.
    pub(crate) fn from_bytes(name: &[u8]) -> Option<FieldName> {
        FieldName::at_start_of(name, name.len())
    }
}

/// The names of `NAMES`, as words.
static PATTERNS: [NamePattern; NAME_COUNT] = {
    let mut patterns = [const { NamePattern::new("Host") }; NAMES.len()];
    let mut index = 0;
    while index < NAMES.len() {
        patterns[index] = NamePattern::new(NAMES[index].1);
        index += 1;
    }
    patterns
};

/// A name of 4 to 24 bytes as words in lower case, for a comparison without a loop. The words may overlap.
#[derive(Clone, Copy)]
struct NamePattern {
    len: usize,
    /// The first eight bytes; of a shorter name, the first four.
    first: u64,
    /// The second eight bytes of a name of more than 16.
    middle: u64,
    /// The last eight bytes; of a shorter name, the last four.
    last: u64,
}

impl NamePattern {
    const fn new(name: &str) -> NamePattern {
        let (name, len) = (name.as_bytes(), name.len());
        assert!(len >= 4 && len <= 24);
        let word_len = if len < 8 { 4 } else { 8 };
        NamePattern {
            len,
            first: NamePattern::word(name, 0, word_len),
            middle: if len > 16 { NamePattern::word(name, 8, 8) } else { 0 },
            last: NamePattern::word(name, len - word_len, word_len),
        }
    }

    const fn word(name: &[u8], at: usize, len: usize) -> u64 {
        let (mut word, mut end) = (0, at + len);
        while end > at {
            end -= 1;
            word = word << 8 | name[end].to_ascii_lowercase() as u64;
        }
        word
    }

    /// Returns whether `name`, which has the length of the pattern, is the name in any case. The bit 0x20 distinguishes the cases of a
    /// letter, and with it no other byte of a token becomes a letter or `-`.
    #[inline(always)]
    fn is_in(&self, name: &[u8]) -> bool {
        let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes) | 0x2020_2020_2020_2020;
        let short = |bytes: &[u8; 4]| u64::from(u32::from_le_bytes(*bytes) | 0x2020_2020);
        if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
            word(first) == self.first
                && word(last) == self.last
                && (name.len() <= 16 || name[8..].first_chunk().is_some_and(|at| word(at) == self.middle))
        } else if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
            short(first) == self.first && short(last) == self.last
        } else {
            false
        }
    }
}

/// Maps a slot to the index in `NAMES` of its name. Most slots are empty, so the parser skips most other fields without comparing names.
static SLOTS: [u8; SLOT_COUNT] = {
    let mut slots = [NAMES.len() as u8; SLOT_COUNT];
    let mut index = 0;
    while index < NAMES.len() {
        let name = NAMES[index].1.as_bytes();
        let slot = slot(u32::from_le_bytes([name[0], name[1], name[2], name[3]]), name.len());
        assert!(slots[slot] as usize == NAMES.len(), "two names in one slot: change `slot`");
        slots[slot] = index as u8;
        index += 1;
    }
    slots
};

const SLOT_COUNT: usize = 256;

/// Hashes the length and the first four bytes of a name, ignoring case. The factor was searched: except for `Accept-Language`, no other
/// field that browsers send shares a slot with a name in `NAMES`.
#[inline(always)]
const fn slot(first: u32, len: usize) -> usize {
    let product = (first | 0x2020_2020).wrapping_add(len as u32).wrapping_mul(0x414c_343d);
    (product >> 24) as usize
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec::Vec;

    use super::*;

    #[test]
    fn every_name_is_found_in_any_case_and_no_other() {
        for (name, text) in NAMES {
            let cases = [text.into(), text.to_ascii_lowercase(), text.to_ascii_uppercase()];
            for text in cases {
                assert_eq!(FieldName::from_bytes(text.as_bytes()), Some(name), "{text}");
            }
            for at in 0..text.len() {
                let mut other: Vec<u8> = text.into();
                other[at] = b'~';
                assert_eq!(FieldName::from_bytes(&other), None, "{text} without its byte {at}");
                assert_eq!(FieldName::from_bytes(&text.as_bytes()[..at]), None, "{at} bytes of {text}");
            }
        }
    }
}
