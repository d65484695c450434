//! Heads and trailers without a protocol: a list of fields in one buffer.
//!
//! ```text
//! [ length of the name, 2 ][ length of the value, 2 ][ name, in lower case ][ value ] …
//! ```
//!
//! As in HTTP/2, pseudo-fields come first: `:method`, `:scheme`, `:authority` and `:path` in a request, `:status` in a response
//! (RFC 9113, section 8.3). A request also has `:version`, that of HTTP which its
//! client speaks, and `:client` and `:client-port`, the address and the port of the client, as far as they are known. One for a server that
//! speaks HTTP has `:peer`, the address of the client's connection; `:upgrade`, the protocol that the client asks for; and `:chunked` if the
//! content has no length. Fields that belong to one
//! connection are not in the list (RFC 9110, section 7.6.1).

use crate::bounded_writer::BoundedWriter;
use tarpon_http::{FieldName, field::has_token, fields::Fields};

/// The length of what precedes a name.
const PREFIX_LEN: usize = 4;

/// A valid list of fields.
#[derive(Clone, Copy, Debug)]
pub struct MessageFields<'a>(&'a [u8]);

impl<'a> MessageFields<'a> {
    /// Checks a list: its lengths, that names are tokens in lower case, and that values contain no line break and no NUL (RFC 9110,
    /// section 5.5). Pseudo-fields come first.
    pub fn parse(bytes: &'a [u8]) -> Option<MessageFields<'a>> {
        let list = MessageFields(bytes);
        let (mut len, mut are_pseudo) = (0, true);
        for (name, value) in list.iter() {
            len += PREFIX_LEN + name.len() + value.len();
            let is_pseudo = name.starts_with(b":");
            let bare = name.strip_prefix(b":").unwrap_or(name);
            let is_valid = !bare.is_empty()
                && bare.iter().all(|byte| is_name_byte(*byte))
                && value.iter().all(|byte| !matches!(byte, b'\r' | b'\n' | b'\0'));
            if !is_valid || is_pseudo && !are_pseudo {
                return None;
            }
            are_pseudo &= is_pseudo;
        }
        (len == bytes.len()).then_some(list)
    }

    /// Returns a list that is known to be valid, as all lists in pipes are: connections write them of heads that they have parsed, or check
    /// them.
    pub(crate) fn known(bytes: &'a [u8]) -> MessageFields<'a> {
        debug_assert!(MessageFields::parse(bytes).is_some(), "lists in pipes are valid");
        MessageFields(bytes)
    }

    /// Returns names and values, in order. Ends early if a length is wrong.
    pub fn iter(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let (prefix, behind) = rest.split_first_chunk::<PREFIX_LEN>()?;
            let [a, b, c, d] = *prefix;
            let name_len = u16::from_le_bytes([a, b]) as usize;
            let (name, behind) = behind.split_at_checked(name_len)?;
            let (value, behind) = behind.split_at_checked(u16::from_le_bytes([c, d]) as usize)?;
            rest = behind;
            Some((name, value))
        })
    }

    /// Returns the code of `:status`, three digits.
    pub(crate) fn status(self) -> Option<u16> {
        let digits: [u8; 3] = self.get(b":status")?.try_into().ok()?;
        digits
            .iter()
            .try_fold(0, |code, digit| digit.is_ascii_digit().then(|| code * 10 + u16::from(digit - b'0')))
    }

    /// Returns the length of the content in bytes, if the fields name it.
    ///
    /// # Errors
    /// It is no number, or another field names another: RFC 9112, section 6.3.
    pub(crate) fn content_length(self) -> Result<Option<u64>, InvalidLength> {
        let mut lengths = self.iter().filter(|(name, _)| *name == b"content-length").map(|(_, value)| value);
        let Some(value) = lengths.next() else { return Ok(None) };
        let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
        let text = std::str::from_utf8(value).ok().filter(|_| is_number).ok_or(InvalidLength)?;
        match lengths.all(|other| other == value) {
            true => text.parse().map(Some).map_err(|_| InvalidLength),
            false => Err(InvalidLength),
        }
    }

    /// Returns the value of the first field with a name.
    pub fn get(self, name: &[u8]) -> Option<&'a [u8]> {
        self.iter().find(|(found, _)| *found == name).map(|(_, value)| value)
    }
}

/// The error that Content-Length is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidLength;

/// Returns whether a byte may be in a name: a token without upper-case letters (RFC 9110, section 5.1; RFC 9113, section 8.2.1).
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Writes a list of fields.
pub struct MessageFieldsWriter<'t>(BoundedWriter<'t>);

impl<'t> MessageFieldsWriter<'t> {
    /// Writes to the front of `to`.
    pub fn new(to: &'t mut [u8]) -> MessageFieldsWriter<'t> {
        MessageFieldsWriter(BoundedWriter::new(to))
    }

    /// Adds a field, with its name in lower case. Returns `None` if it does not fit.
    pub fn put(&mut self, name: &[u8], value: &[u8]) -> Option<()> {
        self.put_joined(name, [value, b""])
    }

    /// Adds a field whose value has two parts.
    pub(crate) fn put_joined(&mut self, name: &[u8], value: [&[u8]; 2]) -> Option<()> {
        let value_len = value[0].len() + value[1].len();
        let lengths = [u16::try_from(name.len()).ok()?, u16::try_from(value_len).ok()?];
        for len in lengths {
            self.0.put(&len.to_le_bytes())?;
        }
        for byte in name {
            self.0.put(&[byte.to_ascii_lowercase()])?;
        }
        value.into_iter().try_for_each(|part| self.0.put(part))
    }

    /// Adds a field whose value is a list, with a separator between its members.
    pub(crate) fn put_list<'v, I: Iterator<Item = &'v [u8]>>(
        &mut self,
        name: &[u8],
        members: impl Fn() -> I,
        separator: &[u8],
    ) -> Option<()> {
        let len: usize = members().map(|member| member.len() + separator.len()).sum();
        let lengths = [name.len(), len.saturating_sub(separator.len())];
        for len in lengths {
            self.0.put(&u16::try_from(len).ok()?.to_le_bytes())?;
        }
        self.0.put(name)?;
        for (number, member) in members().enumerate() {
            self.0.put(if number > 0 { separator } else { b"" })?;
            self.0.put(member)?;
        }
        Some(())
    }

    /// Returns the number of bytes written.
    #[expect(clippy::len_without_is_empty, reason = "nothing asks")]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// Returns the fields of a request that a backend or a function gets: not those that belong to the connection, also by a member of Connection;
/// nor Host and Expect, which the server handles.
pub(crate) fn end_to_end_fields<'a>(
    fields: &'a Fields<'a>,
) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
    fields.iter().filter(|(name, _)| {
        !belongs_to_connection(name)
            && !name.eq_ignore_ascii_case(b"host")
            && !name.eq_ignore_ascii_case(b"expect")
            && !has_token(fields.all(FieldName::Connection), name)
    })
}

/// Returns whether a field belongs to one connection, and so never passes through a pipe: RFC 9110, section 7.6.1.
pub(crate) fn belongs_to_connection(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 7] = [
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"te",
        b"transfer-encoding",
        b"upgrade",
        b"http2-settings",
    ];
    NAMES.iter().any(|of| name.eq_ignore_ascii_case(of))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_is_read_as_it_was_written() {
        let mut bytes = [0; 100];
        let mut writer = MessageFieldsWriter::new(&mut bytes);
        let fields: [(&[u8], &[u8]); 3] =
            [(b":status", b"200"), (b"content-type", b"text/html"), (b"x", b"")];
        writer.put(b":status", b"200").unwrap();
        writer.put(b"Content-Type", b"text/html").unwrap();
        writer.put(b"X", b"").unwrap();
        let len = writer.len();
        let list = MessageFields::parse(&bytes[..len]).unwrap();
        assert!(list.iter().eq(fields));
        assert_eq!(list.get(b"content-type"), Some(&b"text/html"[..]));
        assert_eq!(list.get(b"y"), None);
    }

    #[test]
    fn invalid_lists_are_refused() {
        #[rustfmt::skip]
        let cases: &[(&str, &[u8], bool)] = &[
            // case                          list                                  valid
            ("empty",                        b"",                                  true),
            ("one field",                    b"\x01\0\x01\0ab",                    true),
            ("pseudo-field",                 b"\x02\0\x01\0:ab",                   true),
            ("lengths cut",                  b"\x01\0\x01",                        false),
            ("value cut",                    b"\x01\0\x02\0ab",                    false),
            ("name longer than the list",    b"\xff\xff\0\0ab",                    false),
            ("no name",                      b"\0\0\x01\0b",                       false),
            ("colon alone",                  b"\x01\0\x01\0:b",                    false),
            ("upper case",                   b"\x01\0\x01\0Ab",                    false),
            ("space in a name",              b"\x02\0\x01\0a b",                   false),
            ("line break in a value",        b"\x01\0\x02\0a\r\n",                 false),
            ("NUL in a value",               b"\x01\0\x01\0a\0",                   false),
            ("pseudo-field after a field",   b"\x01\0\0\0a\x02\0\0\0:a",           false),
        ];
        for &(what, bytes, want) in cases {
            assert_eq!(MessageFields::parse(bytes).is_some(), want, "{what}");
        }
    }

    #[test]
    fn field_that_does_not_fit_is_refused() {
        let mut bytes = [0; 6];
        assert_eq!(MessageFieldsWriter::new(&mut bytes).put(b"a", b"bc"), None);
        assert_eq!(MessageFieldsWriter::new(&mut bytes).put(b"a", b"b"), Some(()));
    }
}
