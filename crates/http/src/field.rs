//! Parts of field values: lists and quoted strings. RFC 9110, sections 5.3, 5.6.1 and 5.6.4.
//!
//! Knows neither the fields nor what their members mean.

use crate::token::{VALUE, in_class};

/// The members of a list, without the OWS around them. Empty ones are skipped; a comma within a
/// quoted-string does not separate.
pub fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    elements(value).filter(|element| !element.is_empty())
}

/// The same with the empty ones: what stands between the commas, so at least one.
pub(crate) fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(value);
    core::iter::from_fn(move || {
        let (element, behind) = split_element(rest?);
        rest = behind;
        Some(element)
    })
}

/// Whether `token`, in any case, is a member of the one list that the field lines `values` make.
pub fn has_token<'a>(values: impl IntoIterator<Item = &'a [u8]>, token: &[u8]) -> bool {
    values.into_iter().flat_map(members).any(|member| member.eq_ignore_ascii_case(token))
}

/// Length of the quoted-string at the front of `bytes`, with its quotes. `None` if there is none, or not
/// all of it.
pub(crate) fn quoted_string(bytes: &[u8]) -> Option<usize> {
    let inner = bytes.strip_prefix(b"\"")?;
    let mut escaped = false;
    for (at, &byte) in inner.iter().enumerate() {
        match byte {
            // What may be escaped, may stand in a value, too.
            _ if !in_class(VALUE, byte) => return None,
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(at + 2),
            _ => {}
        }
    }
    None
}

/// `bytes` without SP and HTAB at either end.
pub(crate) fn trim_ows(bytes: &[u8]) -> &[u8] {
    let is_ows = |byte: &u8| matches!(byte, b' ' | b'\t');
    let Some(from) = bytes.iter().position(|byte| !is_ows(byte)) else { return &[] };
    let to = bytes.iter().rposition(|byte| !is_ows(byte)).map_or(from, |last| last + 1);
    &bytes[from..to]
}

/// The first element, and what stands behind its comma, if it has one.
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
    fn a_list_has_its_members_without_space_and_emptiness() {
        #[rustfmt::skip]
        let cases: &[(&str, &str, &[&str])] = &[
            // what it shows         value                members
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
    fn a_quoted_string_ends_at_the_first_quote_that_is_not_escaped() {
        #[rustfmt::skip]
        let cases: &[(&str, &str, Option<&str>)] = &[
            // what it shows       bytes               quoted-string
            ("one",                r#""a""#,           Some(r#""a""#)),
            ("empty",              r#""""#,            Some(r#""""#)),
            ("more behind",        r#""a"b""#,         Some(r#""a""#)),
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
    fn a_token_is_found_in_any_case_and_any_line_but_only_whole() {
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
