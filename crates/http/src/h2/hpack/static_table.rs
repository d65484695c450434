//! The static table of HPACK. RFC 7541, appendix A.

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
