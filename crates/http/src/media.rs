//! Parses Accept and compares two media types. RFC 9110, section 12.5.1.
//!
//! ```text
//! Accept: application/json, text/*;q=0.8, */*;q=0.1  ─▶  for each type the weight of the most specific member
//! ```
//!
//! The parser ignores malformed members, and parameters other than the weight. Few requests need this field, so
//! [`Fields`] does not record its place, and this module scans all fields.

use crate::field::{members, trim_ows};
use crate::fields::Fields;
use crate::negotiate::QValue;

/// A media type: type and subtype, in lower case.
pub type MediaType = (&'static str, &'static str);

/// Returns whether the client prefers `this` to `that`, the default. It does if it gives `this` a higher weight, or the same
/// weight with a more specific member, as in `application/json, */*`.
///
/// ```
/// use tarpon_http::{head, media};
///
/// let (json, html) = (("application", "json"), ("text", "html"));
/// let (head, _) = head::parse(b"GET / HTTP/1.1\r\nAccept: application/json, */*\r\n\r\n").unwrap().unwrap();
/// assert!(media::is_preferred(&head.fields, json, html));
/// ```
#[cold]
pub fn is_preferred(fields: &Fields<'_>, this: MediaType, that: MediaType) -> bool {
    let (this, that) = (weight(fields, this), weight(fields, that));
    this.weight > 0 && this > that
}

/// The preference of a client for a media type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct MediaPreference {
    /// The weight in thousandths.
    weight: u16,
    specificity: Specificity,
}

/// How specific the member is that matches a type.
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

/// Returns the preference for a type: that of the most specific member in all Accept field lines; the last of equally specific ones.
fn weight(fields: &Fields<'_>, media: MediaType) -> MediaPreference {
    let lines = fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"Accept"));
    let mut found = MediaPreference::default();
    for (closeness, weight) in
        lines.flat_map(|(_, value)| members(value)).filter_map(|one| member(one, media))
    {
        if closeness >= found.specificity {
            found = MediaPreference { weight, specificity: closeness };
        }
    }
    found
}

/// Returns how specifically a member matches a type, and its weight. Returns `None` if it does not match.
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
    fn most_specific_member_counts_and_higher_weight_wins() {
        #[rustfmt::skip]
        let cases: &[(&str, &str, bool)] = &[
            // case                    fields                                                    JSON
            ("no field",               "",                                                       false),
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
            ("exact type excluded",    "Accept: application/*, application/json;q=0\r\n",        false),
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
            assert_eq!(
                is_preferred(&head.fields, ("application", "json"), ("text", "html")),
                *want,
                "{name}"
            );
        }
    }
}
