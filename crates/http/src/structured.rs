//! Parses Dictionaries of structured fields. RFC 9651, section 4.2.2.
//!
//! ```text
//! u=2, i;reason="x", later=(1 2)   ─▶   u: Integer 2   i: Boolean true   later: another type
//! ```
//!
//! A value that breaks the grammar is ignored as a whole; so the parser checks all types, though it returns two.

use crate::token::{TCHAR, in_class};

/// The value of a member of a Dictionary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemberValue {
    /// An Integer. Section 3.3.1.
    Integer(i64),
    /// A Boolean. Section 3.3.6.
    Boolean(bool),
    /// A value of another type.
    Other,
}

/// Passes each member of a Dictionary to `found`, in order: a later member replaces an earlier one with the same key. Returns `None` if the
/// value breaks the grammar; then the members found have no meaning. Parameters are checked and dropped.
pub(crate) fn dictionary(value: &[u8], mut found: impl FnMut(&[u8], MemberValue)) -> Option<()> {
    let mut rest = skip(value, b" ");
    if rest.is_empty() {
        return Some(());
    }
    loop {
        let (key, behind) = key(rest)?;
        let (value, behind) = match behind {
            [b'=', b'(', list @ ..] => (MemberValue::Other, inner_list(list)?),
            [b'=', item @ ..] => bare_item(item)?,
            _ => (MemberValue::Boolean(true), behind),
        };
        rest = parameters(behind)?;
        found(key, value);
        if skip(rest, b" ").is_empty() {
            return Some(());
        }
        rest = skip(skip(rest, b" \t").strip_prefix(b",")?, b" \t");
    }
}

/// Returns a key, and what follows it. Section 4.2.3.3.
fn key(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let len =
        run(bytes, |byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(&byte));
    matches!(bytes.first()?, b'a'..=b'z' | b'*').then(|| bytes.split_at(len))
}

/// Returns what follows the parameters at the start of `rest`, if there are any. Section 4.2.3.2.
fn parameters(mut rest: &[u8]) -> Option<&[u8]> {
    while let [b';', parameter @ ..] = rest {
        let (_, behind) = key(skip(parameter, b" "))?;
        rest = match behind {
            [b'=', item @ ..] => bare_item(item)?.1,
            _ => behind,
        };
    }
    Some(rest)
}

/// Returns what follows an inner list, after its opening bracket. Section 4.2.1.2.
fn inner_list(mut rest: &[u8]) -> Option<&[u8]> {
    loop {
        rest = skip(rest, b" ");
        if let [b')', behind @ ..] = rest {
            return Some(behind);
        }
        rest = parameters(bare_item(rest)?.1)?;
        if !matches!(rest, [b' ' | b')', ..]) {
            return None;
        }
    }
}

/// Returns an item without its parameters, and what follows it. Section 4.2.3.1.
fn bare_item(bytes: &[u8]) -> Option<(MemberValue, &[u8])> {
    let other = |rest| (MemberValue::Other, rest);
    match bytes {
        [b'-' | b'0'..=b'9', ..] => number(bytes),
        [b'"', text @ ..] => string(text).map(other),
        [b'*' | b'a'..=b'z' | b'A'..=b'Z', ..] => {
            let len = run(bytes, |byte| in_class(TCHAR, byte) || byte == b':' || byte == b'/');
            Some(other(&bytes[len..]))
        }
        [b':', base64 @ ..] => {
            let len = run(base64, |byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
            base64[len..].strip_prefix(b":").map(other)
        }
        [b'?', digit @ (b'0' | b'1'), rest @ ..] => Some((MemberValue::Boolean(*digit == b'1'), rest)),
        // A Date is an Integer.
        [b'@', date @ ..] => match number(date)? {
            (MemberValue::Integer(_), rest) => Some(other(rest)),
            _ => None,
        },
        [b'%', b'"', text @ ..] => display_string(text).map(other),
        _ => None,
    }
}

/// Returns an Integer or a Decimal, and what follows it. Section 4.2.4.
fn number(bytes: &[u8]) -> Option<(MemberValue, &[u8])> {
    let (sign, digits) = match bytes {
        [b'-', digits @ ..] => (-1, digits),
        digits => (1, digits),
    };
    let len = run(digits, |byte| byte.is_ascii_digit());
    let (whole, rest) = digits.split_at(len);
    if let [b'.', fraction @ ..] = rest {
        let fraction_len = run(fraction, |byte| byte.is_ascii_digit());
        let is_valid = (1..=12).contains(&len) && (1..=3).contains(&fraction_len);
        return is_valid.then(|| (MemberValue::Other, &fraction[fraction_len..]));
    }
    let integer = whole.iter().fold(0_i64, |sum, digit| sum.wrapping_mul(10) + i64::from(digit - b'0'));
    (1..=15).contains(&len).then(|| (MemberValue::Integer(sign * integer), rest))
}

/// Returns what follows a String, after its opening quote. Section 4.2.5.
fn string(mut rest: &[u8]) -> Option<&[u8]> {
    loop {
        rest = match rest {
            [b'"', behind @ ..] => return Some(behind),
            [b'\\', b'"' | b'\\', behind @ ..] => behind,
            [b' '..=b'[' | b']'..=b'~', behind @ ..] => behind,
            _ => return None,
        };
    }
}

/// Returns what follows a Display String, after its opening quote. Does not check that it is UTF-8. Section 4.2.10.
fn display_string(mut rest: &[u8]) -> Option<&[u8]> {
    loop {
        rest = match rest {
            [b'"', behind @ ..] => return Some(behind),
            [b'%', b'0'..=b'9' | b'a'..=b'f', b'0'..=b'9' | b'a'..=b'f', behind @ ..] => behind,
            [b' '..=b'$' | b'&'..=b'~', behind @ ..] => behind,
            _ => return None,
        };
    }
}

/// Returns `bytes` without those of `skipped` at the start.
fn skip<'a>(bytes: &'a [u8], skipped: &[u8]) -> &'a [u8] {
    &bytes[run(bytes, |byte| skipped.contains(&byte))..]
}

/// Returns how many bytes at the start are members.
fn run(bytes: &[u8], is_member: impl Fn(u8) -> bool) -> usize {
    bytes.iter().take_while(|byte| is_member(**byte)).count()
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::string::String;
    use std::vec::Vec;

    use super::*;

    #[test]
    #[rustfmt::skip]
    fn dictionary_has_members_or_is_ignored() {
        use MemberValue::{Boolean, Integer, Other};
        let cases: &[(&str, &str, Option<&[(&str, MemberValue)]>)] = &[
            // case                     value                        RFC 9651, section 4.2.2
            ("nothing",                 "",                          Some(&[])),
            ("only spaces",             "  ",                        Some(&[])),
            ("integers",                "a=1,b=-2",                  Some(&[("a", Integer(1)), ("b", Integer(-2))])),
            ("white space",             " a=1 \t,\t b=2  ",          Some(&[("a", Integer(1)), ("b", Integer(2))])),
            ("booleans",                "a, b=?0, c=?1",             Some(&[("a", Boolean(true)), ("b", Boolean(false)), ("c", Boolean(true))])),
            ("a key again",             "a=1, a=2",                  Some(&[("a", Integer(1)), ("a", Integer(2))])),
            ("parameters",              "a=1;x;y=\"z\"; *q=:YQ==:, b;c", Some(&[("a", Integer(1)), ("b", Boolean(true))])),
            ("most digits",             "a=999999999999999",         Some(&[("a", Integer(999_999_999_999_999))])),
            ("zeros",                   "a=007",                     Some(&[("a", Integer(7))])),
            ("other types",             "a=1.5, b=\"\\\"\", c=to/k:en*, d=:YQ:, e=@12, f=%\"%c3%a9\"", Some(&[("a", Other), ("b", Other), ("c", Other), ("d", Other), ("e", Other), ("f", Other)])),
            ("inner lists",             "a=(), b=( 1  \"x\";y );z",  Some(&[("a", Other), ("b", Other)])),
            ("strange keys",            "*=1, a_-.*9=2",             Some(&[("*", Integer(1)), ("a_-.*9", Integer(2))])),
            ("one digit too many",      "a=1000000000000000",        None),
            ("far too many digits",     "a=99999999999999999999999999999999", None),
            ("no digit",                "a=-",                       None),
            ("no fraction",             "a=1.",                      None),
            ("long fraction",           "a=1.2345",                  None),
            ("long Decimal",            "a=1234567890123.1",         None),
            ("no value",                "a=",                        None),
            ("space before the value",  "a= 1",                      None),
            ("comma at the end",        "a=1,",                      None),
            ("comma at the start",      ",a=1",                      None),
            ("two commas",              "a=1,,b=2",                  None),
            ("no comma",                "a=1 b=2",                   None),
            ("tab at the end",          "a=1\t",                     None),
            ("tab at the start",        "\ta=1",                     None),
            ("capital key",             "A=1",                       None),
            ("key of a digit",          "1=1",                       None),
            ("open string",             "a=\"x",                     None),
            ("escape in a string",      "a=\"\\x\"",                 None),
            ("beyond ASCII",            "a=\"\u{e9}\"",              None),
            ("open list",               "a=(1 2",                    None),
            ("list without spaces",     "a=(1\"x\")",                None),
            ("Boolean 2",               "a=?2",                      None),
            ("Decimal as a Date",       "a=@1.5",                    None),
            ("open byte sequence",      "a=:YQ==",                   None),
            ("capital escape",          "a=%\"%C3\"",                None),
            ("parameter without a key", "a;=1",                      None),
            ("control byte",            "a=\0",                      None),
        ];
        for &(name, value, want) in cases {
            let mut members = Vec::new();
            let read = dictionary(value.as_bytes(), |key, value| {
                members.push((String::from_utf8(key.into()).unwrap(), value));
            });
            let members: Vec<_> = members.iter().map(|(key, value)| (&key[..], *value)).collect();
            assert_eq!(read.map(|()| &members[..]), want, "{name}");
        }
    }
}
