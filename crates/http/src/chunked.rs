//! Decodes the chunked transfer coding. RFC 9112, section 7.1.
//!
//! ```text
//! Size ─CRLF→ Data ─last byte→ DataEnd ─CRLF→ Size
//!   └─ size 0 → Trailers ─empty line→ Done
//! ```
//!
//! The decoder checks the syntax of chunk extensions and trailers, limits their length, and ignores their meaning.

use core::ops::Range;

use crate::field::quoted_string;
use crate::head::field_line;
use crate::status::Status;
use crate::token::{TCHAR, prefix_len};

/// The maximum length of a line, including its CRLF. A caller must be able to buffer that many bytes.
pub const LINE_LEN_MAX: usize = 4096;

/// The maximum length of all chunk extensions of a message. RFC 9112, section 7.1.1, asks for a limit: without one, a client
/// could make the server read a whole line for each byte of content.
pub const EXTENSION_LEN_MAX: usize = 4096;

/// The maximum length of all trailers of a message, including CRLFs: half of a head.
pub const TRAILERS_LEN_MAX: usize = 8 * 1024;

/// A decoder for the content of one message.
///
/// ```
/// use tarpon_http::chunked::ChunkedDecoder;
///
/// let mut decoder = ChunkedDecoder::default();
/// let input = b"5\r\nhello\r\n0\r\n\r\n";
/// let first = decoder.decode(input)?;
/// assert_eq!(&input[first.content], b"hello");
/// let second = decoder.decode(&input[first.used..])?;
/// assert!(second.content.is_empty() && decoder.is_done());
/// assert_eq!(first.used + second.used, input.len());
/// # Ok::<(), tarpon_http::chunked::ChunkError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ChunkedDecoder {
    state: ChunkState,
    /// The number of bytes that are missing from the current chunk. Not 0 in `Data`.
    left: u64,
    /// The number of bytes of extensions so far.
    extensions: u16,
    /// The number of bytes of trailers so far.
    trailers: u16,
}

/// The result of one call to [`ChunkedDecoder::decode`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// The number of input bytes that the decoder consumed.
    pub used: usize,
    /// The range of the input that is content, within the consumed bytes. Empty if the call found no content.
    pub content: Range<usize>,
    /// The range of the input that is trailers, within the consumed bytes: whole field lines, each with its CRLF.
    pub trailers: Range<usize>,
}

/// The element of the grammar that the decoder expects next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ChunkState {
    #[default]
    Size,
    Data,
    DataEnd,
    Trailers,
    Done,
}

impl ChunkedDecoder {
    /// Decodes the start of `wire`. Call it again with the bytes that it did not consume, followed by newly received bytes, until
    /// it consumes nothing. The decoded content does not depend on how the input is split.
    ///
    /// # Errors
    ///
    /// Returns the first violation of the grammar or of a limit. Drop the decoder after an error.
    pub fn decode(&mut self, wire: &[u8]) -> Result<Decoded, ChunkError> {
        let (mut used, mut trailers) = (0, 0..0);
        loop {
            let rest = &wire[used..];
            match self.state {
                ChunkState::Size => {
                    let Some(line) = line(rest)? else { break };
                    used += line.len();
                    self.left = self.size(&line[..line.len() - 2])?;
                    self.state = if self.left == 0 { ChunkState::Trailers } else { ChunkState::Data };
                }
                ChunkState::Data => {
                    let len = usize::try_from(self.left).map_or(rest.len(), |left| left.min(rest.len()));
                    self.left -= len as u64;
                    if self.left == 0 {
                        self.state = ChunkState::DataEnd;
                    }
                    return Ok(Decoded { used: used + len, content: used..used + len, trailers });
                }
                ChunkState::DataEnd => match rest {
                    [b'\r', b'\n', ..] => {
                        used += 2;
                        self.state = ChunkState::Size;
                    }
                    [] | [b'\r'] => break,
                    _ => return Err(ChunkError::LineEnd),
                },
                ChunkState::Trailers => {
                    let Some(line) = line(rest)? else { break };
                    used += line.len();
                    if line == b"\r\n" {
                        self.state = ChunkState::Done;
                    } else {
                        self.trailer(line)?;
                        let start = if trailers.is_empty() { used - line.len() } else { trailers.start };
                        trailers = start..used;
                    }
                }
                ChunkState::Done => break,
            }
        }
        Ok(Decoded { used, content: used..used, trailers })
    }

    /// Returns whether the message is complete. The decoder does not consume bytes after it.
    pub fn is_done(&self) -> bool {
        self.state == ChunkState::Done
    }

    /// Parses chunk-size and checks the extensions after it.
    fn size(&mut self, line: &[u8]) -> Result<u64, ChunkError> {
        let len = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let (digits, extension) = line.split_at(len);
        if digits.is_empty() {
            return Err(ChunkError::Size);
        }
        if !extension.is_empty() {
            if without_bws(extension).first() != Some(&b';') {
                return Err(ChunkError::Size);
            }
            check_extensions(extension)?;
            // A line has at most LINE_LEN_MAX bytes, so this sum cannot overflow, and neither can the one in `trailer`.
            self.extensions += extension.len() as u16;
            if self.extensions as usize > EXTENSION_LEN_MAX {
                return Err(ChunkError::ExtensionsTooLarge);
            }
        }
        digits.iter().try_fold(0_u64, |sum, &digit| {
            let digit = (digit as char).to_digit(16).ok_or(ChunkError::Size)?;
            sum.checked_mul(16).map(|sum| sum | u64::from(digit)).ok_or(ChunkError::Overflow)
        })
    }

    /// Checks a trailer, which is a field line. RFC 9112, section 7.1.2.
    fn trailer(&mut self, line: &[u8]) -> Result<(), ChunkError> {
        self.trailers += line.len() as u16;
        if self.trailers as usize > TRAILERS_LEN_MAX {
            return Err(ChunkError::TrailersTooLarge);
        }
        field_line(line).map(|_| ()).map_err(|_| ChunkError::Trailer)
    }
}

/// The reason to refuse a chunked message. The server cannot tell where the message ends, so it must close the connection.
/// Sections are those of RFC 9112.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkError {
    /// chunk-size is not 1*HEXDIG, or is followed by something other than an extension: section 7.1.
    Size,
    /// chunk-size does not fit in 64 bits: section 7.1.
    Overflow,
    /// An extension is not a token, with or without a value: section 7.1.1.
    Extension,
    /// More than [`EXTENSION_LEN_MAX`] bytes of extensions: section 7.1.1.
    ExtensionsTooLarge,
    /// A trailer is not a field line: section 7.1.2.
    Trailer,
    /// More than [`TRAILERS_LEN_MAX`] bytes of trailers.
    TrailersTooLarge,
    /// A line or the data of a chunk does not end in CRLF: sections 2.2 and 7.1.
    LineEnd,
    /// A line has more than [`LINE_LEN_MAX`] bytes.
    LineTooLong,
}

impl ChunkError {
    /// The status to answer with.
    pub fn status(self) -> Status {
        match self {
            ChunkError::Overflow => Status::ContentTooLarge,
            ChunkError::TrailersTooLarge => Status::RequestHeaderFieldsTooLarge,
            ChunkError::Size
            | ChunkError::Extension
            | ChunkError::ExtensionsTooLarge
            | ChunkError::Trailer
            | ChunkError::LineEnd
            | ChunkError::LineTooLong => Status::BadRequest,
        }
    }
}

/// Checks that `rest` matches `chunk-ext = *( BWS ";" BWS chunk-ext-name [ BWS "=" BWS chunk-ext-val ] )`, where a value is a token
/// or a quoted-string. A recipient ignores unknown extensions, but they must be well formed. RFC 9112, section 7.1.1.
fn check_extensions(mut rest: &[u8]) -> Result<(), ChunkError> {
    let token = |bytes| Some(prefix_len(TCHAR, bytes)).filter(|&len| len > 0);
    while !rest.is_empty() {
        rest = without_bws(rest).strip_prefix(b";").map(without_bws).ok_or(ChunkError::Extension)?;
        rest = &rest[token(rest).ok_or(ChunkError::Extension)?..];
        if let Some(value) = without_bws(rest).strip_prefix(b"=").map(without_bws) {
            let len = quoted_string(value).or_else(|| token(value)).ok_or(ChunkError::Extension)?;
            rest = &value[len..];
        }
    }
    Ok(())
}

/// Returns `bytes` without leading bad whitespace (BWS).
fn without_bws(bytes: &[u8]) -> &[u8] {
    let len = bytes.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    &bytes[len..]
}

/// Returns the first line with its CRLF, or `None` if it is incomplete. Ignores bytes beyond LINE_LEN_MAX, so that the result does
/// not depend on how many of them have arrived.
fn line(wire: &[u8]) -> Result<Option<&[u8]>, ChunkError> {
    let seen = &wire[..wire.len().min(LINE_LEN_MAX)];
    match seen.iter().position(|&byte| byte == b'\n') {
        Some(at) if at > 0 && seen[at - 1] == b'\r' => Ok(Some(&seen[..at + 1])),
        Some(_) => Err(ChunkError::LineEnd),
        None if seen.len() < LINE_LEN_MAX => Ok(None),
        None => Err(ChunkError::LineTooLong),
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec::Vec;
    use std::{format, vec};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn result_does_not_depend_on_how_the_message_is_split() {
        use ChunkError::*;
        #[rustfmt::skip]
        let cases: &[(&str, &[u8], Result<&[u8], ChunkError>)] = &[
            // case                     on the wire                                   content
            ("one chunk",               b"5\r\nhello\r\n0\r\n\r\n",                   Ok(b"hello")),
            ("two chunks",              b"1\r\na\r\n2\r\nbc\r\n0\r\n\r\n",            Ok(b"abc")),
            ("no content",              b"0\r\n\r\n",                                 Ok(b"")),
            ("hexadecimal, either case",b"A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n", Ok(b"01234567890123456789")),
            ("leading zeros",           b"0001\r\nx\r\n000\r\n\r\n",                  Ok(b"x")),
            ("CRLF as content",         b"2\r\n\r\n\r\n0\r\n\r\n",                    Ok(b"\r\n")),
            ("extension",               b"1;a=b\r\nx\r\n0;c\r\n\r\n",                 Ok(b"x")),
            ("quoted extension",        b"1;a=\"b;c\"\r\nx\r\n0\r\n\r\n",             Ok(b"x")),
            ("space before extension",  b"1 \t; a\r\nx\r\n0\r\n\r\n",                 Ok(b"x")),
            ("two extensions",          b"1;a;b=c ; d = \"e;f\" \t;g\r\nx\r\n0\r\n\r\n", Ok(b"x")),
            ("escape in an extension",  b"1;a=\"\\\"\\\\\"\r\nx\r\n0\r\n\r\n",         Ok(b"x")),
            ("trailers",                b"0\r\nDigest: q\r\nA:\r\n\r\n",              Ok(b"")),
            ("next request",            b"1\r\nx\r\n0\r\n\r\nGET / HTTP/1.1\r\n",     Ok(b"x")),
            ("largest size",            b"ffffffffffffffff\r\nx",                     Ok(b"x")),
            ("no size",                 b"\r\n",                                      Err(Size)),
            ("extension without size",  b";a\r\n",                                    Err(Size)),
            ("not a digit",             b"5g\r\nhello",                               Err(Size)),
            ("prefix",                  b"0x5\r\nhello",                              Err(Size)),
            ("sign",                    b"+5\r\nhello",                               Err(Size)),
            ("space before size",       b" 5\r\nhello",                               Err(Size)),
            ("space after size",       b"5 \r\nhello",                               Err(Size)),
            ("size in two parts",       b"5 5\r\nhello",                              Err(Size)),
            ("underscore",              b"1_0\r\nhello",                             Err(Size)),
            ("negative",                b"-1\r\n",                                  Err(Size)),
            ("vertical tab for space",  b"1\x0b;a\r\nx",                            Err(Size)),
            ("comma for a semicolon",   b"1,a\r\nx",                                Err(Size)),
            ("size too large",          b"10000000000000000\r\n",                     Err(Overflow)),
            ("bare CR in extension",    b"1;a\rb\r\nx\r\n0\r\n\r\n",                  Err(Extension)),
            ("no extension",            b"1;\r\nx\r\n0\r\n\r\n",                    Err(Extension)),
            ("no extension, last",      b"0;\r\n\r\n",                              Err(Extension)),
            ("none after another",      b"1;a;\r\nx\r\n0\r\n\r\n",                  Err(Extension)),
            ("space after extension",   b"1;a \r\nx\r\n0\r\n\r\n",                  Err(Extension)),
            ("no name",                 b"1;=a\r\nx\r\n0\r\n\r\n",                  Err(Extension)),
            ("name no token",           b"1;[\r\nx\r\n0\r\n\r\n",                   Err(Extension)),
            ("no value",                b"1;a=\r\nx\r\n0\r\n\r\n",                  Err(Extension)),
            ("two values",              b"1;a=b=c\r\nx\r\n0\r\n\r\n",               Err(Extension)),
            ("quote left open",         b"1;a=\"b\r\nx\r\n0\r\n\r\n",               Err(Extension)),
            ("junk after a quote",      b"1;a=\"b\"c\r\nx\r\n0\r\n\r\n",            Err(Extension)),
            ("byte beyond ASCII",       b"1;\xff\r\nx\r\n0\r\n\r\n",               Err(Extension)),
            ("NUL in extension",        b"1;\0\r\nx\r\n0\r\n\r\n",                    Err(Extension)),
            ("bare LF after size",      b"1\nx\r\n0\r\n\r\n",                         Err(LineEnd)),
            ("LF alone",                b"\n",                                        Err(LineEnd)),
            ("bare LF in extension",    b"1;a\nx\r\n0\r\n\r\n",                    Err(LineEnd)),
            ("bare LF in a quote",      b"1;a=\"\nx\"\r\n0\r\n\r\n",               Err(LineEnd)),
            ("two CRs after size",      b"1\r\r\nx\r\n0\r\n\r\n",                  Err(Size)),
            ("bare LF after data",      b"1\r\nx\n0\r\n\r\n",                         Err(LineEnd)),
            ("bare CR after data",      b"1\r\nx\r0\r\n\r\n",                         Err(LineEnd)),
            ("data too long",           b"1\r\nxy\r\n0\r\n\r\n",                      Err(LineEnd)),
            ("data too short",          b"3\r\nx\r\n0\r\n\r\n",                       Err(LineEnd)),
            ("bare LF at the end",      b"0\r\n\n",                                   Err(LineEnd)),
            ("bare LF in trailers",     b"0\r\na: b\n\r\n",                           Err(LineEnd)),
            ("trailer without colon",   b"0\r\na\r\n\r\n",                            Err(Trailer)),
            ("space before colon",      b"0\r\na : b\r\n\r\n",                        Err(Trailer)),
            ("folded trailer",          b"0\r\na: b\r\n c\r\n\r\n",                   Err(Trailer)),
            ("NUL in trailer",          b"0\r\na: \0\r\n\r\n",                        Err(Trailer)),
        ];
        for (name, wire, want) in cases {
            for cut in 1..=wire.len() {
                assert_eq!(content(wire, cut), want.map(<[u8]>::to_vec), "{name}, {cut} bytes at a time");
            }
        }
    }

    #[test]
    fn lines_extensions_and_trailers_are_bounded() {
        use ChunkError::*;
        let digits = |count: usize, behind: &str| format!("{}{behind}", "0".repeat(count));
        let extensions = |len: usize| {
            let chunk = format!("1;{}\r\nx\r\n", "e".repeat(1023));
            format!("{}1;{}\r\nx\r\n0\r\n\r\n", chunk.repeat(3), "e".repeat(len - 3 * 1024 - 1))
        };
        let trailers = |len: usize| {
            let line = format!("t:{}\r\n", "v".repeat(1020));
            format!("0\r\n{}t:{}\r\n\r\n", line.repeat(7), "v".repeat(len - 7 * 1024 - 4))
        };
        #[rustfmt::skip]
        let cases = [
            // case                     on the wire                                   content
            ("longest line",            digits(LINE_LEN_MAX - 2, "\r\n\r\n"),         Ok(0)),
            ("longer line",             digits(LINE_LEN_MAX - 1, "\r\n\r\n"),         Err(LineTooLong)),
            ("longest extensions",      extensions(EXTENSION_LEN_MAX),                Ok(4)),
            ("longer extensions",       extensions(EXTENSION_LEN_MAX + 1),            Err(ExtensionsTooLarge)),
            ("longest trailers",        trailers(TRAILERS_LEN_MAX),                   Ok(0)),
            ("longer trailers",         trailers(TRAILERS_LEN_MAX + 1),               Err(TrailersTooLarge)),
        ];
        for (name, wire, want) in cases {
            for cut in [1, 7, 4096, wire.len()] {
                let found = content(wire.as_bytes(), cut).map(|content| content.len());
                assert_eq!(found, want, "{name}, {cut} bytes at a time");
            }
        }
    }

    #[test]
    fn decoder_stops_after_the_last_byte_of_the_message() {
        let wire = b"1\r\nx\r\n0\r\na: b\r\n\r\n";
        for len in 0..=wire.len() {
            let mut decoder = ChunkedDecoder::default();
            let followed = [&wire[..len], if len == wire.len() { b"5\r\n" } else { b"" }].concat();
            let mut used = 0;
            for _ in 0..3 {
                used += decoder.decode(&followed[used..]).unwrap().used;
            }
            assert_eq!(decoder.is_done(), len == wire.len(), "{len} bytes");
            assert!(used <= len);
        }
    }

    proptest! {
        #[test]
        fn result_for_any_bytes_does_not_depend_on_how_they_are_split(
            wire in proptest::collection::vec(
                prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'0'), Just(b'2'), Just(b';'), Just(b':'), any::<u8>()],
                0..60,
            ),
            cut in 1_usize..20,
        ) {
            prop_assert_eq!(content(&wire, cut), content(&wire, wire.len().max(1)));
        }
    }

    /// Decodes `wire`, which arrives `cut` bytes at a time.
    fn content(wire: &[u8], cut: usize) -> Result<Vec<u8>, ChunkError> {
        let (mut decoder, mut content, mut from) = (ChunkedDecoder::default(), vec![], 0);
        for to in (cut..wire.len()).step_by(cut).chain([wire.len()]) {
            loop {
                let piece = decoder.decode(&wire[from..to])?;
                content.extend_from_slice(&wire[from..to][piece.content]);
                from += piece.used;
                if piece.used == 0 {
                    break;
                }
            }
        }
        Ok(content)
    }
}
