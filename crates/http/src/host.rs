//! Validates the host of a request: `uri-host [ ":" port ]`. RFC 9110, section 7.2; RFC 3986, section 3.2.2.
//!
//! This module checks syntax only; it does not decide which hosts the server serves.

use core::net::Ipv6Addr;

use tarpon_simd::ByteClass;

use crate::target::Scheme;
use crate::token::{REG_NAME, fast_prefix_len, in_class};

/// Returns whether `value` is a valid Host field value and a valid authority of an http or https URI.
///
/// The function is stricter than the grammar in two points. The host must not be empty: an http URI without a host is invalid
/// (RFC 9110, section 4.2.1). The host must not contain a comma: reg-name allows it, but no host name has one, and it would be a
/// sign of two Host fields that an intermediary joined (RFC 9110, section 5.3). Userinfo is not allowed.
#[inline(never)]
pub fn is_valid(value: &[u8]) -> bool {
    if let [b'[', literal @ ..] = value {
        let Some(end) = literal.iter().position(|&byte| byte == b']') else { return false };
        return is_ip_literal(&literal[..end]) && is_port(&literal[end + 1..]);
    }
    if let [] | [b':', ..] = value {
        return false;
    }
    // An IPv4 address matches reg-name, too.
    let mut at = fast_prefix_len(ByteClass::Host, value);
    while let Some(&byte) = value.get(at) {
        if in_class(REG_NAME, byte) {
            at += 1;
        } else if byte == b'%' && is_escape(&value[at..]) {
            at += 3;
        } else {
            return is_port(&value[at..]);
        }
    }
    true
}

/// Splits a value that [`is_valid`] into the host and the port. The port includes its colon; it may be empty or a colon alone.
///
/// ```
/// use tarpon_http::host::split_port;
///
/// assert_eq!(split_port(b"[::1]:80"), (&b"[::1]"[..], &b":80"[..]));
/// assert_eq!(split_port(b"example.org"), (&b"example.org"[..], &b""[..]));
/// ```
#[inline]
pub fn split_port(value: &[u8]) -> (&[u8], &[u8]) {
    let digits = value.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    match value[..value.len() - digits] {
        // An IPv6 address contains digits after a colon, too, but ends with a bracket.
        [.., b':'] => value.split_at(value.len() - digits - 1),
        _ => value.split_at(value.len()),
    }
}

/// Returns whether two values that are [valid](is_valid) name the same host and port, for a scheme: names without case and the dot of the root,
/// IPv6 addresses by value, ports by value with the default of the scheme.
pub(crate) fn is_same(a: &[u8], b: &[u8], scheme: Option<Scheme>) -> bool {
    let ((a_host, a_port), (b_host, b_port)) = (split_port(a), split_port(b));
    let name = |host: &'_ [u8]| host.strip_suffix(b".").unwrap_or(host).len();
    let is_same_host = match (ipv6(a_host), ipv6(b_host)) {
        (Some(a), Some(b)) => a == b,
        _ => a_host[..name(a_host)].eq_ignore_ascii_case(&b_host[..name(b_host)]),
    };
    is_same_host && port_digits(a_port, scheme) == port_digits(b_port, scheme)
}

/// Returns the address of an IPv6 literal.
fn ipv6(host: &[u8]) -> Option<Ipv6Addr> {
    let literal = host.strip_prefix(b"[")?.strip_suffix(b"]")?;
    core::str::from_utf8(literal).ok()?.parse().ok()
}

/// Returns the digits of a port with its colon, without zeros before them. An empty port is the default of the scheme: RFC 9110, section 4.2.3.
fn port_digits(port: &[u8], scheme: Option<Scheme>) -> &[u8] {
    let default: &[u8] = match scheme {
        Some(Scheme::Http) => b"80",
        Some(Scheme::Https) => b"443",
        None => b"",
    };
    match port {
        [] | [b':'] => default,
        [_, digits @ ..] => &digits[digits.iter().take_while(|digit| **digit == b'0').count()..],
    }
}

/// Returns whether `rest` is empty, or a colon and digits. RFC 3986, section 3.2.3, allows a colon without digits.
fn is_port(rest: &[u8]) -> bool {
    match rest {
        [] => true,
        [b':', digits @ ..] => digits.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

fn is_escape(rest: &[u8]) -> bool {
    matches!(rest, [b'%', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit())
}

fn is_ip_literal(literal: &[u8]) -> bool {
    match literal {
        // IPvFuture = "v" 1*HEXDIG "." 1*( unreserved / sub-delims / ":" )
        [b'v' | b'V', future @ ..] => {
            let version = future.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
            match &future[version..] {
                [b'.', address @ ..] if version > 0 && !address.is_empty() => {
                    address.iter().all(|&byte| in_class(REG_NAME, byte) || byte == b':')
                }
                _ => false,
            }
        }
        _ => core::str::from_utf8(literal).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_is_a_name_or_an_address_with_an_optional_port() {
        #[rustfmt::skip]
        let cases: &[(&str, &str, bool)] = &[
            // case                      value                        valid
            ("name",                     "example.org",               true),
            ("name and port",            "example.org:8080",          true),
            ("empty port",               "example.org:",              true),
            ("IPv4",                     "127.0.0.1:80",              true),
            ("escape",                   "ex%41mple",                 true),
            ("all of reg-name",          "a-._~!$&'()*+;=Z9",         true),
            ("IPv6",                     "[::1]",                     true),
            ("IPv6 with IPv4 and port",  "[::ffff:192.0.2.1]:80",     true),
            ("IPvFuture",                "[v1f.a:b]",                 true),
            ("empty",                    "",                          false),
            ("port alone",               ":80",                       false),
            ("colon alone",              ":",                         false),
            ("two hosts by comma",       "a,b",                       false),
            ("sign in port",             "a:+80",                     false),
            ("space before port",        "a: 80",                     false),
            ("query",                    "a?b",                       false),
            ("fragment",                 "a#b",                       false),
            ("backslash",                "a\\b",                      false),
            ("quotes",                   "\"a\"",                     false),
            ("markup",                   "<a>",                       false),
            ("two ports",                "a:1:2",                     false),
            ("port not digits",          "a:8o",                      false),
            ("userinfo",                 "me@example.org",            false),
            ("path",                     "example.org/",              false),
            ("two hosts by space",       "a b",                       false),
            ("half an escape",           "a%4",                       false),
            ("escape not hex",           "a%4g",                      false),
            ("not ASCII",                "é",                         false),
            ("IPv6 without brackets",    "::1",                       false),
            ("open bracket",             "[::1",                      false),
            ("nothing in brackets",      "[]",                        false),
            ("IPv6 too short",           "[1:2]",                     false),
            ("IPv6 with zone",           "[fe80::1%25eth0]",          false),
            ("name in brackets",         "[example.org]",             false),
            ("junk after brackets" ,     "[::1]a",                    false),
            ("two brackets",             "[[::1]]",                   false),
            ("IPvFuture, no version",    "[v.a]",                     false),
            ("IPvFuture, no address",    "[v1.]",                     false),
        ];
        for (name, value, valid) in cases {
            assert_eq!(is_valid(value.as_bytes()), *valid, "{name}: {value}");
        }
    }

    #[test]
    #[rustfmt::skip]
    fn hosts_are_compared_for_a_scheme() {
        let (http, https) = (Some(Scheme::Http), Some(Scheme::Https));
        let cases = [
            // case               one                 another               scheme, same
            ("equal",             "a.example",        "a.example",          https, true),
            ("case",              "A.example",        "a.EXAMPLE",          https, true),
            ("dot of the root",   "a.example.",       "a.example",          https, true),
            ("default port",      "a.example:443",    "a.example",          https, true),
            ("empty port",        "a.example:",       "a.example:80",       http,  true),
            ("zeros in the port", "a.example:0443",   "a.example.",         https, true),
            ("equal ports",       "a.example:81",     "a.example:81",       None,  true),
            ("IPv6 addresses",    "[::1]:80",         "[0:0::1]",           http,  true),
            ("another default",   "a.example:80",     "a.example",          https, false),
            ("no default",        "a.example:443",    "a.example",          None,  false),
            ("other ports",       "a.example:81",     "a.example:82",       http,  false),
            ("another name",      "a.example",        "b.example",          http,  false),
            ("another address",   "[::1]",            "[::2]",              http,  false),
            ("longer",            "a.example",        "a.example.org",      http,  false),
        ];
        for (name, one, another, scheme, want) in cases {
            assert_eq!(is_same(one.as_bytes(), another.as_bytes(), scheme), want, "{name}");
            assert_eq!(is_same(another.as_bytes(), one.as_bytes(), scheme), want, "{name}");
        }
    }

    #[test]
    fn port_is_split_off() {
        #[rustfmt::skip]
        let cases = [
            // case              value              host           port
            ("no port",          "example.org",     "example.org", ""),
            ("port",             "example.org:80",  "example.org", ":80"),
            ("colon alone",      "example.org:",    "example.org", ":"),
            ("IPv4",             "192.0.2.7:8080",  "192.0.2.7",   ":8080"),
            ("IPv4 without",     "192.0.2.7",       "192.0.2.7",   ""),
            ("IPv6",             "[2001:db8::7]:1", "[2001:db8::7]", ":1"),
            ("IPv6 without",     "[2001:db8::7]",   "[2001:db8::7]", ""),
            ("nothing but digits", "7",             "7",           ""),
        ];
        for (name, value, host, port) in cases {
            assert!(is_valid(value.as_bytes()), "{name}: {value}");
            assert_eq!(split_port(value.as_bytes()), (host.as_bytes(), port.as_bytes()), "{name}: {value}");
        }
    }
}
