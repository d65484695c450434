//! Parses Accept-Encoding and chooses a content coding. RFC 9110, section 12.5.3.
//!
//! ```text
//! Accept-Encoding: gzip, br;q=0.5, *;q=0   ─▶  a weight for each coding  ─ choose ─▶  highest weight,
//!                  └────────┘ member                                                  then fewest bytes
//! ```
//!
//! The parser ignores members that are malformed or name an unknown coding.

use crate::field::{members, trim_ows};
use crate::field_name::FieldName;
use crate::fields::Fields;

/// A content coding. RFC 9110, section 8.4.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentCoding {
    /// No coding.
    Identity,
    /// `br`: Brotli, RFC 7932.
    Br,
    /// `gzip`, or its old name `x-gzip`: RFC 1952.
    Gzip,
    /// `zstd`: RFC 8878.
    Zstd,
    /// `dcb`: Brotli with a dictionary, RFC 9842, section 4.
    Dcb,
    /// `dcz`: Zstandard with a dictionary, RFC 9842, section 5.
    Dcz,
}

/// The weights that a client gives to content codings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptEncoding {
    /// For each coding, by number: 0 if it is not acceptable, else its weight in thousandths and 1.
    ranks: [u16; CODING_COUNT],
}

impl AcceptEncoding {
    /// Parses all Accept-Encoding field lines. If a coding is listed twice, the last weight counts.
    ///
    /// A request without the field is treated like one with an empty field. RFC 9110 would accept any coding then, but a client
    /// that does not send the field may not support any.
    #[inline]
    pub fn parse(fields: &Fields<'_>) -> AcceptEncoding {
        match fields.first(FieldName::AcceptEncoding) {
            None => AcceptEncoding::of(&[]),
            Some(value) if fields.is_repeated(FieldName::AcceptEncoding) || value.len() > BROWSER_LEN_MAX => {
                AcceptEncoding::parse_lists(fields)
            }
            Some(value) if value == b"gzip, deflate, br, zstd" => {
                AcceptEncoding::of(&[ContentCoding::Gzip, ContentCoding::Br, ContentCoding::Zstd])
            }
            Some(value) if value == b"gzip, deflate, br" => {
                AcceptEncoding::of(&[ContentCoding::Gzip, ContentCoding::Br])
            }
            Some(value) if value == b"gzip, deflate" => AcceptEncoding::of(&[ContentCoding::Gzip]),
            Some(_) => AcceptEncoding::parse_lists(fields),
        }
    }

    fn parse_lists(fields: &Fields<'_>) -> AcceptEncoding {
        let mut listed = [None; CODING_COUNT];
        let mut any = None;
        for (name, weight) in fields.all(FieldName::AcceptEncoding).flat_map(members).filter_map(member) {
            if name == b"*" {
                any = Some(weight);
            } else if let Some(coding) = coding(name) {
                listed[coding as usize] = Some(weight);
            }
        }
        for coding in [ContentCoding::Identity, ContentCoding::Br, ContentCoding::Gzip, ContentCoding::Zstd] {
            listed[coding as usize] = listed[coding as usize].or(any);
        }
        let mut found = AcceptEncoding { ranks: listed.map(|weight| weight.map_or(0, QValue::rank)) };
        if listed[ContentCoding::Identity as usize].is_none() {
            found.ranks[ContentCoding::Identity as usize] = 1;
        }
        found
    }

    /// Accepts identity with weight 0, and these codings with weight 1.
    #[inline(always)]
    fn of(codings: &[ContentCoding]) -> AcceptEncoding {
        let mut ranks = [0; CODING_COUNT];
        ranks[ContentCoding::Identity as usize] = 1;
        for coding in codings {
            ranks[*coding as usize] = QValue::FULL.rank();
        }
        AcceptEncoding { ranks }
    }

    /// Returns the weight of a coding in thousandths, or `None` if the coding is not acceptable.
    ///
    /// Identity is acceptable unless the client excludes it by name or with `*`. If the client does not list it, its weight is 0, so
    /// the client prefers every listed coding. `*` does not cover the codings that need a dictionary: a client that has a dictionary
    /// lists them.
    #[inline]
    pub fn weight(&self, coding: ContentCoding) -> Option<u16> {
        self.ranks[coding as usize].checked_sub(1)
    }

    /// Chooses one of the offers: the one with the highest weight, then the shortest, then the first. An offer is a coding, its
    /// length in bytes, and the value to return. Returns `None` if no offer is acceptable; the server may then send any
    /// representation, which serves the client better than an error.
    ///
    /// ```
    /// use tarpon_http::head;
    /// use tarpon_http::negotiate::{AcceptEncoding, ContentCoding};
    ///
    /// let input = b"GET / HTTP/1.1\r\nAccept-Encoding: br, gzip\r\n\r\n";
    /// let (head, _) = head::parse(input).unwrap().unwrap();
    /// let offers = [(ContentCoding::Gzip, 400, "gz"), (ContentCoding::Br, 300, "br")];
    /// assert_eq!(AcceptEncoding::parse(&head.fields).choose(offers), Some("br"));
    /// ```
    #[inline]
    pub fn choose<T>(&self, offered: impl IntoIterator<Item = (ContentCoding, u64, T)>) -> Option<T> {
        let mut best = (0, 0, None);
        offered.into_iter().for_each(|(coding, len, what)| {
            let rank = self.ranks[coding as usize];
            let (best_rank, best_len, _) = best;
            // No length is below that of the first best, which has the rank of what is not acceptable.
            if rank > best_rank || rank == best_rank && len < best_len {
                best = (rank, len, Some(what));
            }
        });
        best.2
    }
}

/// The longest value that browsers send without a dictionary.
const BROWSER_LEN_MAX: usize = b"gzip, deflate, br, zstd".len();

const CODING_COUNT: usize = ContentCoding::Dcz as usize + 1;

impl Default for AcceptEncoding {
    /// Returns the weights of a request without the field.
    fn default() -> AcceptEncoding {
        AcceptEncoding::of(&[])
    }
}

/// Returns the coding of this name. Names are case-insensitive.
fn coding(name: &[u8]) -> Option<ContentCoding> {
    const NAMES: [(&str, ContentCoding); 7] = [
        ("br", ContentCoding::Br),
        ("gzip", ContentCoding::Gzip),
        ("zstd", ContentCoding::Zstd),
        ("dcb", ContentCoding::Dcb),
        ("dcz", ContentCoding::Dcz),
        ("identity", ContentCoding::Identity),
        ("x-gzip", ContentCoding::Gzip),
    ];
    NAMES.iter().find(|(text, _)| name.eq_ignore_ascii_case(text.as_bytes())).map(|(_, coding)| *coding)
}

/// A weight in thousandths, 0 to 1000; 0 means "not acceptable". RFC 9110, section 12.4.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QValue(u16);

impl QValue {
    pub(crate) const FULL: QValue = QValue(1000);

    /// Returns the rank of a coding with this weight; see [`AcceptEncoding`].
    const fn rank(self) -> u16 {
        if self.0 == 0 { 0 } else { self.0 + 1 }
    }

    pub(crate) fn thousandths(self) -> u16 {
        self.0
    }

    /// Parses a qvalue: `0` or `1`, and up to three decimals, which are zeros after `1`.
    pub(crate) fn parse(qvalue: &[u8]) -> Option<QValue> {
        let (whole, decimals) = match qvalue {
            [whole @ (b'0' | b'1')] => (whole, &[][..]),
            [whole @ (b'0' | b'1'), b'.', decimals @ ..] if decimals.len() <= 3 => (whole, decimals),
            _ => return None,
        };
        let mut weight = u16::from(whole - b'0') * 1000;
        for (digit, place) in decimals.iter().zip([100, 10, 1]) {
            if !digit.is_ascii_digit() {
                return None;
            }
            weight += u16::from(digit - b'0') * place;
        }
        (weight <= QValue::FULL.0).then_some(QValue(weight))
    }
}

/// Parses a member, `name [ OWS ";" OWS "q=" qvalue ]`, into name and weight.
#[inline]
fn member(member: &[u8]) -> Option<(&[u8], QValue)> {
    let Some(semicolon) = member.iter().position(|&byte| byte == b';') else {
        return Some((member, QValue::FULL));
    };
    let [b'q' | b'Q', b'=', qvalue @ ..] = trim_ows(&member[semicolon + 1..]) else { return None };
    Some((trim_ows(&member[..semicolon]), QValue::parse(qvalue)?))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::format;
    use std::string::String;

    use super::ContentCoding::*;
    use super::*;
    use crate::head::parse;

    const ALL: [(ContentCoding, u64); 6] =
        [(Identity, 1000), (Br, 300), (Gzip, 400), (Zstd, 350), (Dcb, 20), (Dcz, 30)];

    #[test]
    fn highest_weight_is_chosen_then_the_shortest() {
        #[rustfmt::skip]
        let cases: &[(&str, &[&str], Option<ContentCoding>)] = &[
            // case                              field lines                              chosen
            ("a browser",                        &["gzip, deflate, br, zstd"],            Some(Br)),
            ("absent",                           &[],                                     Some(Identity)),
            ("empty",                            &[""],                                   Some(Identity)),
            ("only commas",                      &[" , ,"],                               Some(Identity)),
            ("one",                              &["gzip"],                               Some(Gzip)),
            ("in any case",                      &["GZip"],                               Some(Gzip)),
            ("an old name",                      &["x-gzip"],                             Some(Gzip)),
            ("weights come before length",       &["gzip, br;q=0.9"],                     Some(Gzip)),
            ("a thousandth decides",             &["gzip;q=0.501, br;q=0.5"],             Some(Gzip)),
            ("decimals are not integers",        &["gzip;q=0.9, br;q=0.10"],              Some(Gzip)),
            ("space around a weight",            &["gzip;q=0.2 , zstd \t; \tq=0.3"],      Some(Zstd)),
            ("Q",                                &["gzip, br;Q=0.1"],                     Some(Gzip)),
            ("excluded",                         &["gzip, br;q=0"],                       Some(Gzip)),
            ("excluded with decimals",           &["gzip, br;q=0.000"],                   Some(Gzip)),
            ("all excluded, identity is left",   &["gzip;q=0, br;q=0, zstd;q=0"],         Some(Identity)),
            ("unknown",                          &["deflate, compress"],                  Some(Identity)),
            ("unlisted identity comes last",     &["gzip;q=0.001"],                       Some(Gzip)),
            ("listed identity has its weight",   &["gzip;q=0.5, identity"],               Some(Identity)),
            ("identity, as much as another",     &["gzip, identity"],                     Some(Gzip)),
            ("identity excluded",                &["zstd, identity;q=0"],                 Some(Zstd)),
            ("any",                              &["*"],                                  Some(Br)),
            ("any but one",                      &["*, br;q=0"],                          Some(Zstd)),
            ("any is not for what is listed",    &["*;q=0.5, br;q=0.1, gzip;q=0.7"],      Some(Gzip)),
            ("any is for identity too",          &["*;q=0.5, br;q=0.1"],                  Some(Zstd)),
            ("none but one",                     &["*;q=0, gzip"],                        Some(Gzip)),
            ("none but identity",                &["*;q=0, identity"],                    Some(Identity)),
            ("nothing at all",                   &["*;q=0"],                              None),
            ("none but a dictionary",            &["*;q=0, dcz"],                         Some(Dcz)),
            ("nothing we have",                  &["deflate, identity;q=0"],              None),
            ("two lines",                        &["gzip;q=0.5", "zstd"],                 Some(Zstd)),
            ("last weight counts",               &["br, gzip, br;q=0"],                   Some(Gzip)),
            ("a browser with a dictionary",      &["gzip, deflate, br, zstd, dcb, dcz"],  Some(Dcb)),
            ("one kind of dictionary",           &["gzip, br, DCZ"],                      Some(Dcz)),
            ("a dictionary, if need be",         &["gzip, dcb;q=0.9, dcz;q=0"],           Some(Gzip)),
            ("any is for no dictionary",         &["*, br;q=0, zstd;q=0"],                Some(Gzip)),
            ("1 with decimals",                  &["gzip;q=0.999, br;q=1.000"],           Some(Br)),
            ("a dot alone",                      &["gzip;q=1., br;q=0."],                 Some(Gzip)),
        ];
        for (name, lines, want) in cases {
            assert_eq!(chosen(lines), *want, "{name}");
        }
    }

    #[test]
    fn malformed_member_is_ignored() {
        #[rustfmt::skip]
        let cases = [
            "br;q=", "br;q=2", "br;q=1.001", "br;q=0.1234", "br;q=.5", "br;q=-1", "br;q=0.x", "br;q=00",
            "br;q=\"1\"", "br;q = 1", "br;level=5", "br;q=1;q=1", "br;", "br q=1", "\"br\"", "br=1",
            ";q=1", ";", "brr", "b r",
        ];
        for malformed in cases {
            assert_eq!(chosen(&[&format!("{malformed}, gzip;q=0.1")]), Some(Gzip), "{malformed}");
            assert_eq!(chosen(&[malformed]), Some(Identity), "{malformed}");
        }
    }

    #[test]
    fn first_of_equal_offers_is_chosen() {
        let head = "GET / HTTP/1.1\r\nAccept-Encoding: *\r\n\r\n";
        let (head, _) = parse(head.as_bytes()).unwrap().unwrap();
        let acceptable = AcceptEncoding::parse(&head.fields);
        assert_eq!(acceptable.choose([(Zstd, 7, 1), (Br, 7, 2)]), Some(1));
        assert_eq!(acceptable.choose::<()>([]), None);
    }

    fn chosen(lines: &[&str]) -> Option<ContentCoding> {
        let lines: String = lines.iter().map(|line| format!("Accept-Encoding: {line}\r\n")).collect();
        let wire = format!("GET / HTTP/1.1\r\n{lines}\r\n");
        let (head, _) = parse(wire.as_bytes()).unwrap().unwrap();
        AcceptEncoding::parse(&head.fields).choose(ALL.map(|(coding, len)| (coding, len, coding)))
    }
}
