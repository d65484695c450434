//! Parses lists and quoted strings in field values. RFC 9110, sections 5.3, 5.6.1 and 5.6.4.

use crate::token::{VALUE, in_class};

/// Returns the members of a comma-separated list, without optional whitespace (OWS) around them. Skips empty members. A comma
/// within a quoted-string does not separate members.
///
/// ```
/// let members: Vec<_> = tarpon_http::field::members(br#"a, "b,c",,d "#).collect();
/// assert_eq!(members, [&b"a"[..], br#""b,c""#, b"d"]);
/// ```
pub fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    elements(value).filter(|element| !element.is_empty())
}

/// Returns the members of a list, including empty members; at least one.
pub(crate) fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(value);
    core::iter::from_fn(move || {
        let (element, behind) = split_element(rest?);
        rest = behind;
        Some(element)
    })
}

/// Returns whether `token`, ignoring case, is a member of the list that the field lines `values` form together.
pub fn has_token<'a>(values: impl IntoIterator<Item = &'a [u8]>, token: &[u8]) -> bool {
    values.into_iter().flat_map(members).any(|member| member.eq_ignore_ascii_case(token))
}

/// Returns the length of the quoted-string at the start of `bytes`, including its quotes. Returns `None` if `bytes` does not begin
/// with a complete quoted-string.
pub(crate) fn quoted_string(bytes: &[u8]) -> Option<usize> {
    let inner = bytes.strip_prefix(b"\"")?;
    let mut escaped = false;
    for (at, &byte) in inner.iter().enumerate() {
        match byte {
            // The bytes that a backslash may escape are a subset of VALUE.
            _ if !in_class(VALUE, byte) => return None,
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(at + 2),
            _ => {}
        }
    }
    None
}

/// Returns `bytes` without SP and HTAB at either end.
pub(crate) fn trim_ows(bytes: &[u8]) -> &[u8] {
    let is_ows = |byte: &u8| matches!(byte, b' ' | b'\t');
    let Some(from) = bytes.iter().position(|byte| !is_ows(byte)) else { return &[] };
    let to = bytes.iter().rposition(|byte| !is_ows(byte)).map_or(from, |last| last + 1);
    &bytes[from..to]
}

/// Returns the first element of `list`, and the bytes after its comma if it has a comma.
fn split_element(list: &[u8]) -> (&[u8], Option<&[u8]>) {
    let (mut quoted, mut escaped) = (false, false);
    for (at, &byte) in list.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' if !quoted => return (trim_ows(&list[..at]), Some(&list[at + 1..])),
            _ => {}
        }
    }
    (trim_ows(list), None)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec::Vec;

    use super::*;

    #[test]
    fn members_are_trimmed_and_not_empty() {
        #[rustfmt::skip]
        let cases: &[(&str, &str, &[&str])] = &[
            // case                  value                members
            ("one",                  "a",                 &["a"]),
            ("two",                  "a,b",               &["a", "b"]),
            ("space",                "\ta , b ",          &["a", "b"]),
            ("empty members",        ",a, ,,b,",          &["a", "b"]),
            ("nothing",              "",                  &[]),
            ("only commas",          " , ,",              &[]),
            ("space within",         "a b, c",            &["a b", "c"]),
            ("quoted comma",         r#""a,b", c"#,       &[r#""a,b""#, "c"]),
            ("escaped quote",        r#""a\",b", c"#,     &[r#""a\",b""#, "c"]),
            ("escaped backslash",    r#""a\\",b"#,        &[r#""a\\""#, "b"]),
            ("backslash, unquoted",  r"a\,b",             &[r"a\", "b"]),
            ("quote left open",      r#"a, "b, c"#,       &["a", r#""b, c"#]),
        ];
        for (name, value, want) in cases {
            let found: Vec<_> = members(value.as_bytes()).collect();
            assert_eq!(found, want.iter().map(|member| member.as_bytes()).collect::<Vec<_>>(), "{name}");
        }
    }

    #[test]
    fn quoted_string_ends_at_the_first_unescaped_quote() {
        #[rustfmt::skip]
        let cases: &[(&str, &str, Option<&str>)] = &[
            // case                bytes               quoted-string
            ("one",                r#""a""#,           Some(r#""a""#)),
            ("empty",              r#""""#,            Some(r#""""#)),
            ("more after",         r#""a"b""#,         Some(r#""a""#)),
            ("escaped quote",      r#""a\"b"c"#,       Some(r#""a\"b""#)),
            ("escaped backslash",  r#""a\\"b"#,        Some(r#""a\\""#)),
            ("separators",         "\"a;=, \t\" ",      Some("\"a;=, \t\"")),
            ("obs-text",           "\"\u{fc}\"",       Some("\"\u{fc}\"")),
            ("left open",          r#""a"#,            None),
            ("escape left open",   r#""a\""#,          None),
            ("no quote before",    r#"a""#,            None),
            ("nothing",            "",                 None),
            ("control byte",       "\"a\x01\"",        None),
            ("escaped NUL",        "\"\\\0\"",         None),
            ("bare CR",            "\"\r\"",          None),
        ];
        for (name, bytes, want) in cases {
            assert_eq!(quoted_string(bytes.as_bytes()), want.map(str::len), "{name}");
        }
    }

    #[test]
    fn token_is_found_in_any_case_and_line() {
        #[rustfmt::skip]
        let cases: &[(&[&str], bool)] = &[
            (&["close"],            true),
            (&["keep-alive, CLOSE"],true),
            (&["te", "Close"],      true),
            (&["closed"],           false),
            (&["clos e"],           false),
            (&["\"close\""],        false),
            (&[],                   false),
        ];
        for (values, want) in cases {
            assert_eq!(has_token(values.iter().map(|value| value.as_bytes()), b"close"), *want, "{values:?}");
        }
    }
}
