//! Escapes a name for a message, so that the name stays on one line, does not control the terminal, and reads in its own order.
//!
//! | in the name | shown as |
//! |---|---|
//! | visible text of any script, space, emoji | itself |
//! | `\` | `\\` |
//! | LF, CR, TAB | `\n`, `\r`, `\t` |
//! | other ASCII control characters | `\x1b` |
//! | C1 controls, bidi controls, line separators, zero-width and other invisible characters | `\u{202e}` |
//! | a byte that is not UTF-8 | `\xff` |
//!
//! The escapes are unambiguous, because a backslash in a name becomes two.
//!
//! ```
//! use tarpon_site::Printable;
//!
//! assert_eq!(b"a\x1b[31m\xff".printable().to_string(), r"a\x1b[31m\xff");
//! ```

use std::{ffi::OsStr, fmt, path::Path};

/// A name that can be shown in a message.
pub trait Printable {
    /// Returns the name in a form that is safe to print to a terminal.
    fn printable(&self) -> Escaped<'_>;
}

/// A name that displays with escapes for characters that are invisible or control the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Escaped<'a>(&'a [u8]);

impl Printable for [u8] {
    fn printable(&self) -> Escaped<'_> {
        Escaped(self)
    }
}

impl Printable for str {
    fn printable(&self) -> Escaped<'_> {
        Escaped(self.as_bytes())
    }
}

impl Printable for OsStr {
    fn printable(&self) -> Escaped<'_> {
        Escaped(self.as_encoded_bytes())
    }
}

impl Printable for Path {
    fn printable(&self) -> Escaped<'_> {
        self.as_os_str().printable()
    }
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_escaped(self.0, |char| char == '\\' || is_invisible(char), f)
    }
}

/// Writes `bytes` with an escape for each character for which `is_escaped` is true, and for each byte that is not UTF-8.
///
/// # Errors
/// Returns the error of `to`.
pub fn write_escaped(
    bytes: &[u8],
    is_escaped: impl Fn(char) -> bool,
    to: &mut impl fmt::Write,
) -> fmt::Result {
    for chunk in bytes.utf8_chunks() {
        let mut rest = chunk.valid();
        while let Some(at) = rest.find(&is_escaped) {
            let char = rest[at..].chars().next().expect("the character that `find` found");
            to.write_str(&rest[..at])?;
            write_escape(char, to)?;
            rest = &rest[at + char.len_utf8()..];
        }
        to.write_str(rest)?;
        chunk.invalid().iter().try_for_each(|byte| write!(to, "\\x{byte:02x}"))?;
    }
    Ok(())
}

fn write_escape(char: char, to: &mut impl fmt::Write) -> fmt::Result {
    match char {
        '\\' => to.write_str("\\\\"),
        '\n' => to.write_str("\\n"),
        '\r' => to.write_str("\\r"),
        '\t' => to.write_str("\\t"),
        // `\x` with two digits means a byte, so characters above ASCII use `\u`.
        char if char.is_ascii() => write!(to, "\\x{:02x}", u32::from(char)),
        char => write!(to, "\\u{{{:x}}}", u32::from(char)),
    }
}

/// Returns whether a character is invisible, or controls the terminal or the text around it: control characters, and characters that
/// Unicode calls default-ignorable, assigned or not. Spaces and the selectors between text and emoji (U+FE0E, U+FE0F) count as
/// visible.
pub fn is_invisible(char: char) -> bool {
    match char {
        ' '..='~' => false,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{feff}' | '\u{3164}' | '\u{ffa0}' => true,
        // Hangul fillers, Khmer inherent vowels, Mongolian selectors.
        '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}' => true,
        // Zero-width characters and marks of direction; line and paragraph separators; embeddings and overrides of direction;
        // invisible operators and isolates.
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        // Joiners of hieroglyphs.
        '\u{13430}'..='\u{1343f}' => true,
        // Selectors of variants; annotations; shorthand and musical controls; tags and further selectors.
        '\u{fe00}'..='\u{fe0d}' | '\u{fff0}'..='\u{fffb}' => true,
        '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}' => true,
        char => char.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_stays_on_one_line_and_in_order() {
        #[rustfmt::skip]
        let cases: &[(&str, &[u8], &str)] = &[
            // case                 the name                          in a message
            ("nothing",             b"",                              ""),
            ("ASCII",               b"a b~!\"'$.html",                "a b~!\"'$.html"),
            ("umlauts",             "f\u{fc}r u\u{308}ber".as_bytes(), "f\u{fc}r u\u{308}ber"),
            ("other scripts",       "\u{6f22}\u{5b57} \u{5e9}\u{5dc}".as_bytes(), "\u{6f22}\u{5b57} \u{5e9}\u{5dc}"),
            ("emoji",               "\u{1f980}\u{2764}\u{fe0f}".as_bytes(), "\u{1f980}\u{2764}\u{fe0f}"),
            ("a colour",            b"\x1b[31mred",                   "\\x1b[31mred"),
            ("a line of its own",   b"a\nerror: b\r\tc",              "a\\nerror: b\\r\\tc"),
            ("NUL and DEL",         b"\0\x7f",                        "\\x00\\x7f"),
            ("a backslash",         b"\\n\\x1b",                      "\\\\n\\\\x1b"),
            ("C1 as UTF-8",         "\u{9b}1m".as_bytes(),            "\\u{9b}1m"),
            ("C1 as a byte",        b"\x9b1m",                        "\\x9b1m"),
            ("another order",       "a\u{202e}fdp.exe".as_bytes(),    "a\\u{202e}fdp.exe"),
            ("isolates",            "\u{2066}a\u{2069}".as_bytes(),   "\\u{2066}a\\u{2069}"),
            ("marks of direction",  "\u{200e}\u{200f}\u{61c}".as_bytes(), "\\u{200e}\\u{200f}\\u{61c}"),
            ("separators",          "\u{2028}\u{2029}\u{85}".as_bytes(), "\\u{2028}\\u{2029}\\u{85}"),
            ("no width",            "a\u{200b}\u{200d}\u{feff}\u{2060}".as_bytes(), "a\\u{200b}\\u{200d}\\u{feff}\\u{2060}"),
            ("tags",                "\u{e0041}\u{e0fff}".as_bytes(),  "\\u{e0041}\\u{e0fff}"),
            ("not UTF-8",           b"a\xff\xc3(\xe2\x82",            "a\\xff\\xc3(\\xe2\\x82"),
        ];
        for (name, bytes, want) in cases {
            assert_eq!(bytes.printable().to_string(), *want, "{name}");
        }
    }

    #[test]
    fn different_names_have_different_escapes() {
        let names: [&[u8]; 8] =
            [b"\n", b"\\n", b"\\\n", b"\x9b", "\u{9b}".as_bytes(), b"\\x9b", b"\\u{9b}", b"\\\\n"];
        let shown: std::collections::BTreeSet<_> =
            names.iter().map(|name| name.printable().to_string()).collect();
        assert_eq!(shown.len(), names.len(), "{shown:?}");
    }

    #[test]
    fn escaped_name_has_no_invisible_character() {
        for char in (0..=u32::from(char::MAX)).filter_map(char::from_u32) {
            let shown = char.encode_utf8(&mut [0; 4]).printable().to_string();
            assert!(!shown.chars().any(is_invisible), "{char:?}");
            assert!(!char.is_control() || shown.starts_with('\\'), "{char:?}");
            assert!(!char.is_alphanumeric() || shown.chars().eq([char]) || is_invisible(char), "{char:?}");
        }
    }
}
