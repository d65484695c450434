//! Standard output and standard error, with control characters escaped.
//!
//! ```text
//! message ─ lines ─▶ Output ─ only newlines and our colours pass ─▶ anstream ─ drops colours unless wanted ─▶ terminal
//! ```
//!
//! The code that formats a message makes every name in it [`Printable`](tarpon_site::Printable). This module is the second guard,
//! for texts of libraries, of other processes and of the command line. It cannot tell a newline of a name from one of the message,
//! so the first guard stays necessary.

pub(crate) mod doctor_report;
pub(crate) mod events;
pub(crate) mod full_screen;
pub(crate) mod loading;
pub(crate) mod messages;
pub(crate) mod notice_text;
pub(crate) mod progress;
pub(crate) mod release_table;
pub(crate) mod status;
pub(crate) mod tables;
pub(crate) mod top;
mod upstream_table;

use std::{
    fmt,
    io::{self, Write},
};
use tarpon_site::printable::{is_invisible, write_escaped};

/// The form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputForm {
    /// Text for people, with colours.
    Text,
    /// JSON for programs. Escapes are those of JSON strings: elsewhere, JSON has no such characters.
    Json,
}

/// A stream that escapes control characters, except newlines and the colours that the program uses.
pub(crate) struct Output<W: Write> {
    to: W,
    form: OutputForm,
    /// Bytes that are not written yet.
    pending: Vec<u8>,
}

/// Standard output.
pub(crate) fn stdout(form: OutputForm) -> Output<impl Write> {
    Output::new(anstream::stdout(), form)
}

/// Standard error.
pub(crate) fn stderr(form: OutputForm) -> Output<impl Write> {
    Output::new(anstream::stderr(), form)
}

impl<W: Write> Output<W> {
    fn new(to: W, form: OutputForm) -> Output<W> {
        Output { to, form, pending: Vec::new() }
    }

    /// Writes a line and flushes the stream.
    pub(crate) fn print_line(mut self, text: fmt::Arguments<'_>) -> io::Result<()> {
        writeln!(self, "{text}")?;
        self.flush()
    }

    /// Escapes and writes the first `len` pending bytes.
    fn write_pending(&mut self, len: usize) -> io::Result<()> {
        let safe = match self.form {
            OutputForm::Text => escape_text(&self.pending[..len]),
            OutputForm::Json => escape_json(&self.pending[..len]),
        };
        self.pending.drain(..len);
        self.to.write_all(safe.as_bytes())
    }
}

impl<W: Write> Write for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pending.extend_from_slice(bytes);
        // A write may split a colour or a character, but neither contains a newline.
        if self.pending.len() >= BLOCK_LEN
            && let Some(newline) = self.pending.iter().rposition(|&byte| byte == b'\n')
        {
            self.write_pending(newline + 1)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_pending(self.pending.len())?;
        self.to.flush()
    }
}

impl<W: Write> Drop for Output<W> {
    fn drop(&mut self) {
        // A caller that handles errors calls `flush` itself.
        let _ = self.flush();
    }
}

/// Escapes text for a terminal.
fn escape_text(bytes: &[u8]) -> String {
    let mut safe = String::with_capacity(bytes.len());
    let is_escaped = |char| char != '\n' && is_invisible(char);
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|&byte| byte == 0x1b) {
        let len = colour_len(&rest[at..]);
        // Of any other sequence, escapes the first byte; the rest of it is plain text.
        let _ = write_escaped(&rest[..at + usize::from(len == 0)], is_escaped, &mut safe);
        safe.extend(rest[at..at + len].iter().map(|&byte| char::from(byte)));
        rest = &rest[at + len.max(1)..];
    }
    let _ = write_escaped(rest, is_escaped, &mut safe);
    safe
}

/// Escapes JSON for a terminal. RFC 8259, section 7.
fn escape_json(bytes: &[u8]) -> String {
    let mut safe = String::with_capacity(bytes.len());
    for char in String::from_utf8_lossy(bytes).chars() {
        match char == '\n' || !is_invisible(char) {
            true => safe.push(char),
            false => char.encode_utf16(&mut [0; 2]).iter().for_each(|unit| safe += &format!("\\u{unit:04x}")),
        }
    }
    safe
}

/// Returns the length of the colour at the front, or 0 if there is none of ours. ECMA-48, SGR.
fn colour_len(bytes: &[u8]) -> usize {
    let Some(tail) = bytes.strip_prefix(b"\x1b[") else { return 0 };
    let Some(len) = tail.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b';')) else { return 0 };
    let is_ours = |number: &[u8]| OUR_COLOURS.contains(&number);
    match tail[len] == b'm' && tail[..len].split(|&byte| byte == b';').all(is_ours) {
        true => b"\x1b[".len() + len + b"m".len(),
        false => 0,
    }
}

/// Plain, bold, dim, underlined, and the colours of messages and help. None of them hides text.
const OUR_COLOURS: [&[u8]; 8] = [b"0", b"1", b"2", b"4", b"31", b"32", b"33", b"36"];

/// A full block is written up to its last newline.
const BLOCK_LEN: usize = 8 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_newlines_and_our_colours_pass() {
        #[rustfmt::skip]
        let cases: &[(&str, &[u8], &str)] = &[
            // case               input                         on the terminal
            ("nothing",           b"",                          ""),
            ("lines",             b"a\nb\n",                    "a\nb\n"),
            ("a colour",          b"\x1b[1m\x1b[31ma\x1b[0m",   "\x1b[1m\x1b[31ma\x1b[0m"),
            ("two at once",       b"\x1b[1;33ma",               "\x1b[1;33ma"),
            ("concealed",         b"\x1b[8ma",                  "\\x1b[8ma"),
            ("black on black",    b"\x1b[30;40ma",              "\\x1b[30;40ma"),
            ("a title",           b"\x1b]0;t\x07",              "\\x1b]0;t\\x07"),
            ("the screen",        b"\x1b[2J\x1b[31",            "\\x1b[2J\\x1b[31"),
            ("nothing behind",    b"a\x1b",                     "a\\x1b"),
            ("ours behind it",    b"\x1b\x1b[0m",               "\\x1b\x1b[0m"),
            ("C1",                "\u{9b}2J".as_bytes(),        "\\u{9b}2J"),
            ("not UTF-8",         b"\x9b2J\xff",                "\\x9b2J\\xff"),
            ("back and forth",    b"a\r\x08\tb",                "a\\r\\x08\\tb"),
            ("another order",     "\u{202e}a".as_bytes(),       "\\u{202e}a"),
            ("a backslash",       b"\\x1b",                     "\\x1b"),
        ];
        for (name, input, want) in cases {
            for len in 1..=input.len().max(1) {
                let mut buffer = Vec::new();
                let mut output = Output::new(&mut buffer, OutputForm::Text);
                input.chunks(len).for_each(|part| output.write_all(part).expect("memory"));
                drop(output);
                assert_eq!(String::from_utf8(buffer).as_deref(), Ok(*want), "{name}, {len} bytes at a time");
            }
        }
    }

    #[test]
    fn escaping_keeps_json_values() {
        let value = "a\u{9b}b\u{202e}c\u{e0041}d\u{7f}";
        let mut buffer = Vec::new();
        Output::new(&mut buffer, OutputForm::Json)
            .print_line(format_args!("{}", serde_json::to_string(value).expect("text")))
            .expect("memory");
        let text = String::from_utf8(buffer).expect("text");
        assert_eq!(text, "\"a\\u009bb\\u202ec\\udb40\\udc41d\\u007f\"\n");
        assert_eq!(serde_json::from_str::<String>(&text).expect("JSON"), value);
    }

    #[test]
    fn long_output_is_written_in_blocks() {
        let mut output = Output::new(Vec::new(), OutputForm::Text);
        (0..1000).for_each(|_| output.write_all(b"0123456789\n").expect("memory"));
        assert!(output.pending.len() < BLOCK_LEN && output.to.len() >= BLOCK_LEN);
    }
}
