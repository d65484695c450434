//! The class of a field: its meaning for a request, or the rule that it breaks by itself. RFC 9113, sections 8.2 and 8.3.
//!
//! ```text
//! literal ─ FieldClass::of ─▶ class ─┬─▶ dynamic table ─ index ─▶ class
//!                                    └─▶ section
//! ```
//!
//! A field keeps its class in the dynamic table, so the rules are applied once, though a client sends the field with each request.

use tarpon_simd::ByteClass;

use super::MalformedRequest;
use crate::FieldName;
use crate::host;
use crate::method::Method;
use crate::target::{Scheme, TargetPath};
use crate::token::{TCHAR, VALUE, fast_prefix_len, in_class, prefix_len};

/// The meaning of a field for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldClass {
    /// `:method`, a token.
    Method(Method),
    /// `:scheme`, valid. `None`: neither http nor https.
    Scheme(Option<Scheme>),
    /// `:authority`, valid and not empty.
    Authority,
    /// `:path`, valid.
    Path(PathForm),
    /// `:protocol`, a token.
    Protocol,
    /// A field that the server interprets. Its value is not checked.
    Known(FieldName),
    /// `cookie`.
    Cookie,
    /// `priority`.
    Priority,
    /// Any other valid field.
    Other,
    /// A field that makes its request malformed.
    Malformed(MalformedRequest),
}

/// The form of a `:path`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathForm {
    /// A path that [is plain](crate::target::is_plain), perhaps with a query.
    Plain,
    /// Another path, perhaps with a query.
    Escaped,
    /// `*`
    Asterisk,
}

impl FieldClass {
    /// Finds the class of a field.
    pub(crate) fn of(name: &[u8], value: &[u8]) -> FieldClass {
        match name {
            [b':', ..] => FieldClass::of_pseudo(name, value),
            _ if is_name(name) => FieldClass::of_valid_name(name, value),
            _ => FieldClass::Malformed(MalformedRequest::Name),
        }
    }

    /// Finds the class of a field that has its name from a field of another class. Does not check the name again: a client can name 4 KiB with one byte.
    pub(crate) fn of_name_in(class: FieldClass, name: &[u8], value: &[u8]) -> FieldClass {
        match name {
            _ if class == FieldClass::Malformed(MalformedRequest::Name) => class,
            [b':', ..] => FieldClass::of_pseudo(name, value),
            _ => FieldClass::of_valid_name(name, value),
        }
    }

    /// Finds the class of a field with a valid name.
    fn of_valid_name(name: &[u8], value: &[u8]) -> FieldClass {
        if !is_value(value) {
            return FieldClass::Malformed(MalformedRequest::Value);
        }
        match FieldName::from_bytes(name) {
            Some(FieldName::Connection | FieldName::TransferEncoding) => {
                return FieldClass::Malformed(MalformedRequest::ConnectionField);
            }
            Some(name) => return FieldClass::Known(name),
            None => {}
        }
        match name {
            b"cookie" => FieldClass::Cookie,
            b"priority" => FieldClass::Priority,
            b"keep-alive" | b"proxy-connection" | b"upgrade" => {
                FieldClass::Malformed(MalformedRequest::ConnectionField)
            }
            b"te" if !value.eq_ignore_ascii_case(b"trailers") => FieldClass::Malformed(MalformedRequest::Te),
            _ => FieldClass::Other,
        }
    }

    /// Finds the class of a pseudo-header field. RFC 9113, section 8.3.1; RFC 8441, section 4.
    fn of_pseudo(name: &[u8], value: &[u8]) -> FieldClass {
        let check = |is_valid, class, error| if is_valid { class } else { FieldClass::Malformed(error) };
        match name {
            b":method" => {
                let class = FieldClass::Method(Method::from_token(value));
                check(is_token(value), class, MalformedRequest::Method)
            }
            b":scheme" => {
                let class = FieldClass::Scheme(scheme(value));
                check(is_scheme(value), class, MalformedRequest::Scheme)
            }
            b":authority" => check(host::is_valid(value), FieldClass::Authority, MalformedRequest::Authority),
            b":path" => match path_form(value) {
                Some(form) => FieldClass::Path(form),
                None => FieldClass::Malformed(MalformedRequest::Path),
            },
            b":protocol" => check(is_token(value), FieldClass::Protocol, MalformedRequest::Protocol),
            _ => FieldClass::Malformed(MalformedRequest::PseudoField),
        }
    }
}

/// Returns whether a name is a token without capitals. RFC 9113, section 8.2.1; RFC 9110, section 5.1.
fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|&byte| in_class(TCHAR, byte) && !byte.is_ascii_uppercase())
}

/// Returns whether a value has no control bytes, and no white space at either end. RFC 9113, section 8.2.1; RFC 9110, section 5.5.
fn is_value(value: &[u8]) -> bool {
    let has_ows = |end: Option<&u8>| matches!(end, Some(b' ' | b'\t'));
    let text_len = fast_prefix_len(ByteClass::Text, value);
    let len = text_len + prefix_len(VALUE, &value[text_len..]);
    len == value.len() && !has_ows(value.first()) && !has_ows(value.last())
}

/// Returns whether a value is a token. RFC 9110, section 5.6.2.
fn is_token(value: &[u8]) -> bool {
    !value.is_empty() && prefix_len(TCHAR, value) == value.len()
}

/// Returns whether a value has the grammar of a scheme. RFC 3986, section 3.1.
fn is_scheme(value: &[u8]) -> bool {
    value.first().is_some_and(u8::is_ascii_alphabetic)
        && value.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte))
}

fn scheme(value: &[u8]) -> Option<Scheme> {
    match value {
        b"https" => Some(Scheme::Https),
        b"http" => Some(Scheme::Http),
        // RFC 3986, section 3.1: schemes are case-insensitive.
        _ if value.eq_ignore_ascii_case(b"https") => Some(Scheme::Https),
        _ if value.eq_ignore_ascii_case(b"http") => Some(Scheme::Http),
        _ => None,
    }
}

/// Returns the form of a `:path`. `None`: it is neither `*` nor begins with `/`, or contains bytes that a target cannot have. RFC 9113, section
/// 8.3.1; RFC 9112, section 3.2.
fn path_form(value: &[u8]) -> Option<PathForm> {
    if value == b"*" {
        return Some(PathForm::Asterisk);
    }
    let path = TargetPath::at_start_of(value);
    let behind = &value[path.len.into()..];
    let query_len = fast_prefix_len(ByteClass::Target, behind);
    let is_valid = value.first() == Some(&b'/') && query_len == behind.len();
    is_valid.then_some(if path.is_plain { PathForm::Plain } else { PathForm::Escaped })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[rustfmt::skip]
    fn field_has_a_class_by_itself() {
        use FieldClass::*;
        let cases: &[(&str, &[u8], &[u8], FieldClass)] = &[
            // case                     name                value                class                                  RFC 9113
            ("method",                  b":method",         b"GET",              Method(super::Method::Get)),
            ("unknown method",          b":method",         b"BREW",             Method(super::Method::Other)),
            ("empty method",            b":method",         b"",                 Malformed(MalformedRequest::Method)),         // 8.3.1
            ("method with a space",     b":method",         b"GET /",            Malformed(MalformedRequest::Method)),         // 8.3.1
            ("scheme",                  b":scheme",         b"https",            Scheme(Some(super::Scheme::Https))),
            ("scheme in capitals",      b":scheme",         b"HTTP",             Scheme(Some(super::Scheme::Http))),
            ("another scheme",          b":scheme",         b"svn+ssh",          Scheme(None)),
            ("no scheme",               b":scheme",         b"https://x",        Malformed(MalformedRequest::Scheme)),         // 8.3.1
            ("empty scheme",            b":scheme",         b"",                 Malformed(MalformedRequest::Scheme)),         // 8.3.1
            ("scheme with a digit first", b":scheme",       b"3a",               Malformed(MalformedRequest::Scheme)),         // 8.3.1
            ("authority",               b":authority",      b"a.example:443",    Authority),
            ("empty authority",         b":authority",      b"",                 Malformed(MalformedRequest::Authority)),      // 8.3.1
            ("userinfo",                b":authority",      b"me@a.example",     Malformed(MalformedRequest::Authority)),      // 8.3.1
            ("two hosts",               b":authority",      b"a,b",              Malformed(MalformedRequest::Authority)),      // 8.3.1
            ("path",                    b":path",           b"/a/b?c=/../%",     Path(PathForm::Plain)),
            ("path with an escape",     b":path",           b"/%61",             Path(PathForm::Escaped)),
            ("path with dots",          b":path",           b"/../a",            Path(PathForm::Escaped)),
            ("asterisk",                b":path",           b"*",                Path(PathForm::Asterisk)),
            ("empty path",              b":path",           b"",                 Malformed(MalformedRequest::Path)),           // 8.3.1
            ("path without a slash",    b":path",           b"a",                Malformed(MalformedRequest::Path)),           // 8.3.1
            ("absolute form",           b":path",           b"http://a/b",       Malformed(MalformedRequest::Path)),           // 8.3.1
            ("space in the path",       b":path",           b"/a b",             Malformed(MalformedRequest::Path)),           // 8.3.1
            ("control byte in the path", b":path",          b"/a\x7f",           Malformed(MalformedRequest::Path)),           // 8.3.1
            ("request line in the path", b":path",          b"/ HTTP/1.1\r\nX: ", Malformed(MalformedRequest::Path)),          // 10.3
            ("fragment",                b":path",           b"/a#b",             Malformed(MalformedRequest::Path)),           // 8.3.1
            ("beyond ASCII",            b":path",           b"/\xc3\xa9",        Malformed(MalformedRequest::Path)),           // 8.3.1
            ("protocol",                b":protocol",       b"websocket",        Protocol),
            ("empty protocol",          b":protocol",       b"",                 Malformed(MalformedRequest::Protocol)),       // RFC 8441, 4
            ("status",                  b":status",         b"200",              Malformed(MalformedRequest::PseudoField)),    // 8.3
            ("unknown pseudo-field",    b":x",              b"1",                Malformed(MalformedRequest::PseudoField)),    // 8.3
            ("colon alone",             b":",               b"",                 Malformed(MalformedRequest::PseudoField)),    // 8.3
            ("pseudo-field in capitals", b":Path",          b"/",                Malformed(MalformedRequest::PseudoField)),    // 8.3
            ("known",                   b"range",           b"bytes=0-",         Known(FieldName::Range)),
            ("host",                    b"host",            b"",                 Known(FieldName::Host)),
            ("cookie",                  b"cookie",          b"a=b",              Cookie),
            ("priority",                b"priority",        b"u=1",              Priority),
            ("other",                   b"x-a_b~1",         b"1 \t2 \xff",       Other),
            ("empty value",             b"x",               b"",                 Other),
            ("empty name",              b"",                b"x",                Malformed(MalformedRequest::Name)),           // 8.2.1
            ("capital in the name",     b"rAnge",           b"x",                Malformed(MalformedRequest::Name)),           // 8.2.1
            ("colon in the name",       b"a:b",             b"x",                Malformed(MalformedRequest::Name)),           // 8.2.1
            ("space in the name",       b"a b",             b"x",                Malformed(MalformedRequest::Name)),           // 8.2.1
            ("line end in the name",    b"a\r\n",           b"x",                Malformed(MalformedRequest::Name)),           // 8.2.1
            ("zero in the name",        b"a\0",             b"x",                Malformed(MalformedRequest::Name)),           // 8.2.1
            ("name beyond ASCII",       b"\xc3\xa9",        b"x",                Malformed(MalformedRequest::Name)),           // 8.2.1
            ("quote in the name",       b"a\"",             b"x",                Malformed(MalformedRequest::Name)),           // 8.2.1
            ("CR in the value",         b"x",               b"a\rb",             Malformed(MalformedRequest::Value)),          // 8.2.1
            ("LF in the value",         b"x",               b"a\nb: c",          Malformed(MalformedRequest::Value)),          // 8.2.1
            ("zero in the value",       b"range",           b"a\0b",             Malformed(MalformedRequest::Value)),          // 8.2.1
            ("another control byte",    b"x",               b"a\x1bb",           Malformed(MalformedRequest::Value)),          // RFC 9110, 5.5
            ("space before",            b"x",               b" a",               Malformed(MalformedRequest::Value)),          // 8.2.1
            ("tab behind",              b"x",               b"a\t",              Malformed(MalformedRequest::Value)),          // 8.2.1
            ("space alone",             b"cookie",          b" ",                Malformed(MalformedRequest::Value)),          // 8.2.1
            ("connection",              b"connection",      b"close",            Malformed(MalformedRequest::ConnectionField)), // 8.2.2
            ("keep-alive",              b"keep-alive",      b"1",                Malformed(MalformedRequest::ConnectionField)), // 8.2.2
            ("proxy-connection",        b"proxy-connection", b"close",           Malformed(MalformedRequest::ConnectionField)), // 8.2.2
            ("transfer-encoding",       b"transfer-encoding", b"chunked",        Malformed(MalformedRequest::ConnectionField)), // 8.2.2
            ("upgrade",                 b"upgrade",         b"h2c",              Malformed(MalformedRequest::ConnectionField)), // 8.2.2
            ("te",                      b"te",              b"Trailers",         Other),
            ("te with another coding",  b"te",              b"trailers, gzip",   Malformed(MalformedRequest::Te)),             // 8.2.2
            ("te with nothing",         b"te",              b"",                 Malformed(MalformedRequest::Te)),             // 8.2.2
        ];
        for &(name, field, value, want) in cases {
            let class = FieldClass::of(field, value);
            assert_eq!(class, want, "{name}");
            for value in [&b"x"[..], b"\0", value] {
                let want = FieldClass::of(field, value);
                assert_eq!(FieldClass::of_name_in(class, field, value), want, "{name}, then {value:?}");
            }
        }
    }

    #[test]
    fn entry_of_a_table_stays_small() {
        assert_eq!(size_of::<FieldClass>(), 2);
    }
}
