//! The credentials of the scheme Basic: RFC 7617, in the field Authorization of RFC 9110, section 11.6.2.
//!
//! ```text
//! Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==
//!                      └─ base64 ─▶ Aladdin:open sesame ─ first colon ─▶ name, password
//! ```
//!
//! Base64 is read strictly, so that one value has one form: no other letters, all of its padding, and no bits beyond the last byte.

use crate::{field::trim_ows, fields::Fields};

/// The length of the longest name and password together, with the colon between them. Password managers make passwords of 64 characters.
pub const CREDENTIALS_LEN_MAX: usize = 512;

/// A name and a password. Both may be empty, and neither has a control character.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BasicCredentials<'a> {
    /// The name of the user.
    pub name: &'a [u8],
    /// The password.
    pub password: &'a [u8],
}

/// Returns the credentials of a request, decoded into `to`. `None`: it has none of this scheme, or they are malformed or too long.
pub fn credentials<'t>(
    fields: &Fields<'_>,
    to: &'t mut [u8; CREDENTIALS_LEN_MAX],
) -> Option<BasicCredentials<'t>> {
    let mut values = fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"authorization"));
    let (_, value) = values.next()?;
    // Which of several a program behind this server would read is unknown.
    values.next().is_none().then(|| parse(value, to))?
}

/// Returns the credentials that a value of the field Authorization has.
pub fn parse<'t>(value: &[u8], to: &'t mut [u8; CREDENTIALS_LEN_MAX]) -> Option<BasicCredentials<'t>> {
    let value = trim_ows(value);
    let (scheme, rest) = value.split_at_checked(SCHEME.len())?;
    let space_len = rest.iter().take_while(|&&byte| byte == b' ').count();
    if !scheme.eq_ignore_ascii_case(SCHEME) || space_len == 0 {
        return None;
    }
    let decoded = decode(&rest[space_len..], to)?;
    // Control characters are invalid in both: RFC 7617, section 2.
    if decoded.iter().any(u8::is_ascii_control) {
        return None;
    }
    let colon = decoded.iter().position(|&byte| byte == b':')?;
    Some(BasicCredentials { name: &decoded[..colon], password: &decoded[colon + 1..] })
}

/// The name of the scheme, in any case: RFC 9110, section 11.1.
const SCHEME: &[u8] = b"basic";

/// Decodes base64 with its padding: RFC 4648, section 4.
fn decode<'t>(text: &[u8], to: &'t mut [u8]) -> Option<&'t [u8]> {
    let (quads, []) = text.as_chunks::<4>() else { return None };
    let (last, before) = quads.split_last()?;
    let mut len = 0;
    for quad in before {
        to.get_mut(len..len + 3)?.copy_from_slice(&bytes_of(quad)?);
        len += 3;
    }
    let padding_len = last.iter().rev().take_while(|&&digit| digit == b'=').count();
    if padding_len > 2 {
        return None;
    }
    let mut filled = *last;
    filled[4 - padding_len..].fill(b'A');
    let bytes = bytes_of(&filled)?;
    let (front, behind) = bytes.split_at(3 - padding_len);
    if behind.iter().any(|&byte| byte != 0) {
        return None;
    }
    to.get_mut(len..len + front.len())?.copy_from_slice(front);
    Some(&to[..len + front.len()])
}

/// Returns the bytes of four digits.
fn bytes_of(quad: &[u8; 4]) -> Option<[u8; 3]> {
    let mut bits = 0;
    for &digit in quad {
        bits = bits << 6 | crate::dictionary::sextet(digit)?;
    }
    let [_, bytes @ ..] = bits.to_be_bytes();
    Some(bytes)
}

impl core::fmt::Debug for BasicCredentials<'_> {
    /// Shows no password.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let name = format_args!("\"{}\"", self.name.escape_ascii());
        f.debug_struct("BasicCredentials").field("name", &name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::{format, string::String, vec::Vec};

    use super::*;
    use crate::head;
    use proptest::prelude::*;

    #[test]
    fn credentials_are_those_of_rfc_7617() {
        let longest = format!("a:{}", "b".repeat(CREDENTIALS_LEN_MAX - 2));
        let too_long = format!("a:{}", "b".repeat(CREDENTIALS_LEN_MAX - 1));
        #[rustfmt::skip]
        let cases: &[(&str, String, Option<(&[u8], &[u8])>)] = &[
            // case                    value                                       name, password
            ("the example",            "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==".into(), Some((b"Aladdin", b"open sesame"))),
            ("UTF-8",                  "Basic dGVzdDoxMjPCow==".into(),            Some((b"test", "123£".as_bytes()))),
            ("another case",           "bASIC YTpi".into(),                        Some((b"a", b"b"))),
            ("several spaces",         "Basic   YTpi".into(),                      Some((b"a", b"b"))),
            ("spaces around",          " Basic YTpi\t".into(),                     Some((b"a", b"b"))),
            ("one byte of padding",    "Basic YTpiYw==".into(),                    Some((b"a", b"bc"))),
            ("two bytes",              "Basic YTpiY2Q=".into(),                    Some((b"a", b"bcd"))),
            ("a colon in the password", encoded(b"a:b:c"),                         Some((b"a", b"b:c"))),
            ("an empty password",      encoded(b"a:"),                             Some((b"a", b""))),
            ("an empty name",          encoded(b":b"),                             Some((b"", b"b"))),
            ("the longest",            encoded(longest.as_bytes()),                Some((b"a", &longest.as_bytes()[2..]))),
            ("too long",               encoded(too_long.as_bytes()),               None),
            ("no colon",               encoded(b"ab"),                             None),
            ("a control character",    encoded(b"a:b\n"),                          None),
            ("NUL",                    encoded(b"a:\0"),                           None),
            ("nothing",                "".into(),                                  None),
            ("the scheme alone",       "Basic".into(),                             None),
            ("an empty value",         "Basic ".into(),                            None),
            ("another scheme",         "Bearer YTpi".into(),                       None),
            ("a longer scheme",        "Basics YTpi".into(),                       None),
            ("no space",               "BasicYTpi".into(),                         None),
            ("a tab",                  "Basic\tYTpi".into(),                       None),
            ("a tab behind a space",   "Basic \tYTpi".into(),                     None),
            ("no padding",             "Basic YTpiYw".into(),                      None),
            ("half a padding",         "Basic YTpiYw=".into(),                     None),
            ("too much padding",       "Basic YTpi====".into(),                    None),
            ("three bytes of padding", "Basic YTpiY===".into(),                    None),
            ("padding within",         "Basic YT==YTpi".into(),                    None),
            ("bits beyond the end",    "Basic YTpiY2R=".into(),                    None),
            ("base64url",              "Basic YTr-_w==".into(),                    None),
            ("a parameter",            "Basic YTpi, realm=a".into(),               None),
            ("text behind it",         "Basic YTpi x".into(),                      None),
        ];
        for (case, value, want) in cases {
            let mut to = [0; CREDENTIALS_LEN_MAX];
            let found = parse(value.as_bytes(), &mut to);
            assert_eq!(found.map(|found| (found.name, found.password)), *want, "{case}: {value}");
        }
    }

    #[test]
    fn a_request_has_one_field_of_credentials() {
        #[rustfmt::skip]
        let cases = [
            ("none",            "",                                                               None),
            ("one",             "Authorization: Basic YTpi\r\n",                                  Some(&b"a"[..])),
            ("in another case", "AUTHORIZATION: Basic YTpi\r\n",                                  Some(b"a")),
            ("another field",   "Proxy-Authorization: Basic YTpi\r\n",                            None),
            ("two",             "Authorization: Basic YTpi\r\nAuthorization: Basic YTpi\r\n",     None),
        ];
        for (case, lines, want) in cases {
            let wire = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
            let (head, _) = head::parse(wire.as_bytes()).expect(case).expect(case);
            let mut to = [0; CREDENTIALS_LEN_MAX];
            assert_eq!(credentials(&head.fields, &mut to).map(|found| found.name), want, "{case}");
        }
    }

    #[test]
    fn debug_output_has_no_password() {
        let credentials = BasicCredentials { name: b"a\n", password: b"secret" };
        assert_eq!(format!("{credentials:?}"), r#"BasicCredentials { name: "a\n", .. }"#);
    }

    proptest! {
        #[test]
        fn what_is_decoded_is_what_was_encoded(name in "[^:\\x00-\\x1f\\x7f]{0,40}", password in "[^\\x00-\\x1f\\x7f]{0,40}") {
            let value = encoded(format!("{name}:{password}").as_bytes());
            let mut to = [0; CREDENTIALS_LEN_MAX];
            let found = parse(value.as_bytes(), &mut to).expect("valid");
            prop_assert_eq!((found.name, found.password), (name.as_bytes(), password.as_bytes()));
        }

        #[test]
        fn one_value_has_one_form(text in "[ABYZabyz019+/=]{0,16}") {
            let mut to = [0; CREDENTIALS_LEN_MAX];
            let value = format!("Basic {text}");
            if let Some(found) = parse(value.as_bytes(), &mut to) {
                prop_assert_eq!(encoded(&[found.name, b":", found.password].concat()), value);
            }
        }
    }

    /// Returns a value of the field.
    fn encoded(bytes: &[u8]) -> String {
        const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut value = String::from("Basic ");
        for part in bytes.chunks(3) {
            let mut all = [0; 3];
            all[..part.len()].copy_from_slice(part);
            let bits = all.iter().fold(0, |bits: u32, &byte| bits << 8 | u32::from(byte));
            let digits: Vec<u8> = (0..4).map(|at| DIGITS[(bits >> (18 - 6 * at) & 63) as usize]).collect();
            value.extend(digits.iter().take(part.len() + 1).map(|&digit| char::from(digit)));
            value.extend(core::iter::repeat_n('=', 3 - part.len()));
        }
        value
    }
}
