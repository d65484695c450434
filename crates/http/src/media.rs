//! Which of two media types a client likes better. RFC 9110, section 12.5.1.
//!
//! ```text
//! Accept: application/json, text/*;q=0.8, */*;q=0.1  ─▶  for each type the weight of what names it most closely
//! ```
//!
//! Tolerant: a member that is malformed counts as not there, and of parameters only the weight counts. The field is rare
//! where it matters, so it is not among those that a head notes: it is looked for. Knows no types by itself.

use crate::field::{members, trim_ows};
use crate::head::Head;
use crate::negotiate::QValue;

/// A media type: type and subtype, in small letters.
pub type MediaType = (&'static str, &'static str);

/// Whether a client likes `this` better than `that`, which it gets otherwise: it gives it more weight; or the same, but names
/// it more closely, as whoever asks for `application/json, */*` does.
#[cold]
pub fn is_preferred(head: &Head<'_>, this: MediaType, that: MediaType) -> bool {
    let (this, that) = (weight(head, this), weight(head, that));
    this.weight > 0 && this > that
}

/// What a client said of a type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct MediaPreference {
    /// In thousandths.
    weight: u16,
    specificity: Specificity,
}

/// How closely a type was named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Specificity {
    #[default]
    Unlisted,
    /// `*/*`
    Any,
    /// `type/*`
    Type,
    /// `type/subtype`
    Exact,
}

/// What the field lines Accept say of a type; the closest member counts, of equally close ones the last.
fn weight(head: &Head<'_>, media: MediaType) -> MediaPreference {
    let lines = head.fields().filter(|(name, _)| name.eq_ignore_ascii_case(b"Accept"));
    let mut said = MediaPreference::default();
    for (closeness, weight) in
        lines.flat_map(|(_, value)| members(value)).filter_map(|one| member(one, media))
    {
        if closeness >= said.specificity {
            said = MediaPreference { weight, specificity: closeness };
        }
    }
    said
}

/// How closely a member names a type, and with what weight. None: it is about others.
fn member(member: &[u8], media: MediaType) -> Option<(Specificity, u16)> {
    let mut parts = member.split(|&byte| byte == b';').map(trim_ows);
    let range = parts.next()?;
    let slash = range.iter().position(|&byte| byte == b'/')?;
    let (of_type, subtype) = (&range[..slash], &range[slash + 1..]);
    let closeness = match (of_type, subtype) {
        (b"*", b"*") => Specificity::Any,
        _ if !of_type.eq_ignore_ascii_case(media.0.as_bytes()) => return None,
        (_, b"*") => Specificity::Type,
        _ if subtype.eq_ignore_ascii_case(media.1.as_bytes()) => Specificity::Exact,
        _ => return None,
    };
    let weight = parts.find_map(|part| match part {
        [b'q' | b'Q', b'=', qvalue @ ..] => Some(QValue::parse(qvalue)),
        _ => None,
    });
    Some((closeness, weight.unwrap_or(Some(QValue::FULL))?.thousandths()))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::format;

    use super::*;
    use crate::head::parse;

    #[test]
    fn the_closest_member_counts_and_the_greater_weight_wins() {
        #[rustfmt::skip]
        let cases: &[(&str, &str, bool)] = &[
            // what it shows           fields                                                    JSON
            ("nothing said",           "",                                                       false),
            ("that alone",             "Accept: application/json\r\n",                           true),
            ("any case, any space",    "ACCEPT:  Application/JSON ; Q=0.5\r\n",                  true),
            ("a browser",              "Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n",  false),
            ("anything",               "Accept: */*\r\n",                                        false),
            ("with anything",          "Accept: application/json, text/plain, */*\r\n",          true),
            ("anything first",         "Accept: */*, application/json\r\n",                      true),
            ("both",                   "Accept: application/json, text/html\r\n",                false),
            ("both, more weight",      "Accept: text/html;q=0.5, application/json;q=0.501\r\n",  true),
            ("both, less weight",      "Accept: text/html;q=0.5, application/json;q=0.4\r\n",    false),
            ("of the type",            "Accept: application/*, text/*;q=0.9\r\n",                true),
            ("a closer one excludes",  "Accept: application/*, application/json;q=0\r\n",        false),
            ("not the other",          "Accept: */*, text/html;q=0\r\n",                         true),
            ("neither",                "Accept: application/json;q=0, text/html;q=0\r\n",        false),
            ("another type",           "Accept: application/jsonp\r\n",                          false),
            ("another suffix",         "Accept: application/ld+json\r\n",                        false),
            ("parameters",             "Accept: application/json;charset=utf-8;q=0.9\r\n",       true),
            ("two lines",              "Accept: text/html;q=0.3\r\nX: y\r\nAccept: application/json\r\n", true),
            ("no weight",              "Accept: application/json;q=2\r\n",                       false),
            ("no type",                "Accept: json\r\n",                                       false),
            ("quoted",                 "Accept: text/html;a=\", application/json\"\r\n",         false),
            ("empty",                  "Accept: ,\r\n",                                          false),
        ];
        for (name, fields, want) in cases {
            let wire = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
            let (head, _) = parse(wire.as_bytes()).unwrap().unwrap();
            assert_eq!(is_preferred(&head, ("application", "json"), ("text", "html")), *want, "{name}");
        }
    }
}
