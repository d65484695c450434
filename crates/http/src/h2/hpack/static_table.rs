//! The static table of HPACK. RFC 7541, appendix A.

use super::dynamic_table::TableEntry;
use crate::FieldName;
use crate::h2::MalformedRequest;
use crate::h2::field_class::{FieldClass, PathForm};
use crate::method::Method;
use crate::target::Scheme;

/// The position of a field in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StaticIndex {
    /// The table has name and value.
    Field(u8),
    /// The table has the name, and this is the first row with it.
    Name(u8),
}

/// Finds a field. The case of its name does not matter.
pub(super) fn find(name: &[u8], value: &[u8]) -> Option<StaticIndex> {
    let named = || (1..).zip(TABLE).filter(|(_, (known, _))| known.eq_ignore_ascii_case(name));
    let mut same = named().filter(|(_, (_, known))| *known == value);
    let field = same.next().map(|(index, _)| StaticIndex::Field(index));
    field.or_else(|| named().next().map(|(index, _)| StaticIndex::Name(index)))
}

/// The fields of the table, by index - 1. They lie in [`STATIC_BYTES`].
pub(super) static STATIC_ENTRIES: [TableEntry; TABLE.len()] = {
    let none = TableEntry { at: 0, name_len: 0, value_len: 0, class: FieldClass::Other };
    let (mut entries, mut at, mut row) = ([none; TABLE.len()], 0, 0);
    while row < TABLE.len() {
        let (name_len, value_len) = (TABLE[row].0.len() as u16, TABLE[row].1.len() as u16);
        entries[row] = TableEntry { at, name_len, value_len, class: class(row + 1) };
        at += name_len + value_len;
        row += 1;
    }
    entries
};

/// The names and values of the table, one after another.
pub(super) static STATIC_BYTES: [u8; bytes_len()] = {
    let (mut bytes, mut len, mut row) = ([0; bytes_len()], 0, 0);
    while row < TABLE.len() {
        let (name, value) = TABLE[row];
        let mut at = 0;
        while at < name.len() + value.len() {
            bytes[len] = if at < name.len() { name[at] } else { value[at - name.len()] };
            (len, at) = (len + 1, at + 1);
        }
        row += 1;
    }
    bytes
};

const fn bytes_len() -> usize {
    let (mut len, mut row) = (0, 0);
    while row < TABLE.len() {
        len += TABLE[row].0.len() + TABLE[row].1.len();
        row += 1;
    }
    len
}

/// Returns the class of the field with an index.
const fn class(index: usize) -> FieldClass {
    match index {
        1 => FieldClass::Malformed(MalformedRequest::Authority),
        2 => FieldClass::Method(Method::Get),
        3 => FieldClass::Method(Method::Post),
        4 | 5 => FieldClass::Path(PathForm::Plain),
        6 => FieldClass::Scheme(Some(Scheme::Http)),
        7 => FieldClass::Scheme(Some(Scheme::Https)),
        8..=14 => FieldClass::Malformed(MalformedRequest::PseudoField),
        16 => FieldClass::Known(FieldName::AcceptEncoding),
        28 => FieldClass::Known(FieldName::ContentLength),
        32 => FieldClass::Cookie,
        35 => FieldClass::Known(FieldName::Expect),
        38 => FieldClass::Known(FieldName::Host),
        39 => FieldClass::Known(FieldName::IfMatch),
        40 => FieldClass::Known(FieldName::IfModifiedSince),
        41 => FieldClass::Known(FieldName::IfNoneMatch),
        42 => FieldClass::Known(FieldName::IfRange),
        43 => FieldClass::Known(FieldName::IfUnmodifiedSince),
        50 => FieldClass::Known(FieldName::Range),
        57 => FieldClass::Malformed(MalformedRequest::ConnectionField),
        _ => FieldClass::Other,
    }
}

/// Names and values; the first has index 1.
#[rustfmt::skip]
const TABLE: [(&[u8], &[u8]); 61] = [
    (b":authority",                  b""), // 1
    (b":method",                     b"GET"), // 2
    (b":method",                     b"POST"), // 3
    (b":path",                       b"/"), // 4
    (b":path",                       b"/index.html"), // 5
    (b":scheme",                     b"http"), // 6
    (b":scheme",                     b"https"), // 7
    (b":status",                     b"200"), // 8
    (b":status",                     b"204"), // 9
    (b":status",                     b"206"), // 10
    (b":status",                     b"304"), // 11
    (b":status",                     b"400"), // 12
    (b":status",                     b"404"), // 13
    (b":status",                     b"500"), // 14
    (b"accept-charset",              b""), // 15
    (b"accept-encoding",             b"gzip, deflate"), // 16
    (b"accept-language",             b""), // 17
    (b"accept-ranges",               b""), // 18
    (b"accept",                      b""), // 19
    (b"access-control-allow-origin", b""), // 20
    (b"age",                         b""), // 21
    (b"allow",                       b""), // 22
    (b"authorization",               b""), // 23
    (b"cache-control",               b""), // 24
    (b"content-disposition",         b""), // 25
    (b"content-encoding",            b""), // 26
    (b"content-language",            b""), // 27
    (b"content-length",              b""), // 28
    (b"content-location",            b""), // 29
    (b"content-range",               b""), // 30
    (b"content-type",                b""), // 31
    (b"cookie",                      b""), // 32
    (b"date",                        b""), // 33
    (b"etag",                        b""), // 34
    (b"expect",                      b""), // 35
    (b"expires",                     b""), // 36
    (b"from",                        b""), // 37
    (b"host",                        b""), // 38
    (b"if-match",                    b""), // 39
    (b"if-modified-since",           b""), // 40
    (b"if-none-match",               b""), // 41
    (b"if-range",                    b""), // 42
    (b"if-unmodified-since",         b""), // 43
    (b"last-modified",               b""), // 44
    (b"link",                        b""), // 45
    (b"location",                    b""), // 46
    (b"max-forwards",                b""), // 47
    (b"proxy-authenticate",          b""), // 48
    (b"proxy-authorization",         b""), // 49
    (b"range",                       b""), // 50
    (b"referer",                     b""), // 51
    (b"refresh",                     b""), // 52
    (b"retry-after",                 b""), // 53
    (b"server",                      b""), // 54
    (b"set-cookie",                  b""), // 55
    (b"strict-transport-security",   b""), // 56
    (b"transfer-encoding",           b""), // 57
    (b"user-agent",                  b""), // 58
    (b"vary",                        b""), // 59
    (b"via",                         b""), // 60
    (b"www-authenticate",            b""), // 61
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_names_values_and_classes() {
        for (index, (entry, (name, value))) in (1..).zip(STATIC_ENTRIES.iter().zip(TABLE)) {
            let bytes = &STATIC_BYTES[usize::from(entry.at)..][..entry.len()];
            let parts = bytes.split_at(entry.name_len.into());
            assert_eq!(parts, (name, value), "{index}");
            assert_eq!(entry.class, FieldClass::of(name, value), "{index}");
        }
    }
}
