//! Preconditions: a simple implementation of RFC 9110, section 13, has the same outcome.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tarpon_http::precondition::{Outcome, evaluate, range_applies};
use tarpon_http::{date, head};

// The first byte decides whether the entity tag of the server is weak; each line after it is a field line.
fuzz_target!(|input: &[u8]| {
    let Some((&first, text)) = input.split_first() else { return };
    let etag: &[u8] = if first & 1 == 0 { br#""a,b""# } else { br#"W/"a,b""# };
    let lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
    let wire = [b"GET / HTTP/1.1\r\n", lines.join(&b"\r\n"[..]).as_slice(), b"\r\n\r\n"].concat();
    let Ok(Some((head, len))) = head::parse(&wire) else { return };
    // An empty line in the input ends the head early.
    let fields =
        ConditionalFields(wire[b"GET / HTTP/1.1\r\n".len()..len - 2].split(|&byte| byte == b'\n').collect());
    assert_eq!(evaluate(&head.fields, etag, MODIFIED, NOW), fields.outcome(etag));
    assert_eq!(range_applies(&head.fields, etag, MODIFIED, NOW), fields.range_applies(etag));
});

/// Sun, 06 Nov 1994 08:49:37 GMT
const MODIFIED: u64 = 784_111_777;
/// The end of 2019.
const NOW: u64 = 1_577_836_799;

/// The field lines of a request.
struct ConditionalFields<'a>(Vec<&'a [u8]>);

impl ConditionalFields<'_> {
    /// Evaluates the four steps of section 13.2.2 for a GET.
    fn outcome(&self, etag: &[u8]) -> Outcome {
        let (if_match, if_none_match) = (self.values("if-match"), self.values("if-none-match"));
        if !if_match.is_empty() {
            if !matches(&if_match, |tag| tag == etag && !tag.starts_with(b"W/")) {
                return Outcome::Failed;
            }
        } else if self.date("if-unmodified-since").is_some_and(|date| MODIFIED > date) {
            return Outcome::Failed;
        }
        let opaque = |tag: &[u8]| tag[tag.len() - r#""a,b""#.len().min(tag.len())..].to_vec();
        if !if_none_match.is_empty() {
            let is_ours =
                |tag: &[u8]| tag == opaque(etag) || tag == [b"W/", opaque(etag).as_slice()].concat();
            if matches(&if_none_match, is_ours) {
                return Outcome::NotModified;
            }
        } else if self.date("if-modified-since").is_some_and(|date| MODIFIED <= date) {
            return Outcome::NotModified;
        }
        Outcome::Proceed
    }

    /// Evaluates If-Range. Section 13.1.5.
    fn range_applies(&self, etag: &[u8]) -> bool {
        match self.values("if-range").as_slice() {
            [] => true,
            [value] => value == etag && value[0] == b'"' || date::parse(value, NOW) == Some(MODIFIED),
            _ => false,
        }
    }

    fn date(&self, name: &str) -> Option<u64> {
        match self.values(name).as_slice() {
            [value] => date::parse(value, NOW),
            _ => None,
        }
    }

    fn values(&self, name: &str) -> Vec<Vec<u8>> {
        let value = |line: &&[u8]| {
            let colon = line.iter().position(|&byte| byte == b':')?;
            let (found, value) = (&line[..colon], line[colon + 1..].strip_suffix(b"\r")?);
            found.eq_ignore_ascii_case(name.as_bytes()).then(|| trim(value).to_vec())
        };
        self.0.iter().filter_map(value).collect()
    }
}

/// Returns whether the values are `*`, or contain a matching entity tag before any malformed member.
fn matches(values: &[Vec<u8>], is_ours: impl Fn(&[u8]) -> bool) -> bool {
    if values == [b"*"] {
        return true;
    }
    for member in values.iter().flat_map(|value| members(value)) {
        if !is_tag(member) {
            return false;
        }
        if is_ours(member) {
            return true;
        }
    }
    false
}

/// Splits a value at commas outside of quotes. Returns the members that are not empty.
fn members(value: &[u8]) -> Vec<&[u8]> {
    let mut quotes = 0;
    let comma = |byte: &u8| {
        quotes += usize::from(*byte == b'"');
        *byte == b',' && quotes % 2 == 0
    };
    value.split(comma).map(trim).filter(|member| !member.is_empty()).collect()
}

/// `entity-tag = [ "W/" ] DQUOTE *( %x21 / %x23-7E / obs-text ) DQUOTE`
fn is_tag(member: &[u8]) -> bool {
    match member.strip_prefix(b"W/").unwrap_or(member) {
        [b'"', inner @ .., b'"'] => inner.iter().all(|&byte| byte > b' ' && byte != b'"' && byte != 0x7f),
        _ => false,
    }
}

fn trim(bytes: &[u8]) -> &[u8] {
    let Some(from) = bytes.iter().position(|byte| !b" \t".contains(byte)) else { return b"" };
    let to = bytes.iter().rposition(|byte| !b" \t".contains(byte)).map_or(from, |last| last + 1);
    &bytes[from..to]
}
