//! Forwarded and X-Forwarded-For: finds the client of a request in what trusted proxies have added. RFC 7239.
//!
//! ```text
//! X-Forwarded-For: 198.51.100.9, 203.0.113.7, 10.0.0.2        peer 10.0.0.1
//!                  └ forged, not read   └ client  └ trusted ◀── trusted
//! ```
//!
//! Each proxy adds the address of its own client at the right end of the list. So the list is read from right to left, as long as the
//! addresses are those of trusted proxies: the first other address is the client's. The elements to its left are never read, as a client
//! can send anything there. A list in several field lines is one list: RFC 9110, section 5.3.

use crate::{
    field::trim_ows,
    fields::Fields,
    target::Scheme,
    token::{TCHAR, VALUE, in_class},
};
use core::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::{self, FromStr},
};

/// The field in which the proxies name the client. A server reads one of them: a client could forge the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardedField {
    /// Forwarded, with the scheme in `proto=`: RFC 7239.
    Forwarded,
    /// X-Forwarded-For, with the scheme in X-Forwarded-Proto.
    XForwardedFor,
}

/// The client that the fields name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForwardedClient {
    /// Its address: the first one from the right that is not trusted, or the leftmost one of all that are trusted. An IPv4-mapped address is
    /// in its IPv4 form. `None`: the list names no address before it ends, or before an element without an address; then the peer is
    /// the last trusted address.
    pub address: Option<IpAddr>,
    /// The scheme that the client has used: that of the element which names it, or which ends the walk; with X-Forwarded-For, the last value of
    /// X-Forwarded-Proto. `None`: unknown, or another than `http` and `https`.
    pub scheme: Option<Scheme>,
}

/// The error that an element is malformed which a trusted proxy has added, or that the list has more trusted proxies than
/// [`ELEMENT_COUNT_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedForwarded;

/// The maximum number of elements that are read, empty ones included: a request passes a few proxies, and in a longer list the proxies
/// form a loop.
pub const ELEMENT_COUNT_MAX: usize = 32;

/// The maximum length of an element in bytes. An element has a few addresses, each at most 56 bytes long, and perhaps a host name of up to
/// 253 bytes.
pub const ELEMENT_LEN_MAX: usize = 512;

/// Finds the client in the fields of a request. The caller has checked that it trusts the peer. `is_trusted` decides about the other
/// addresses.
///
/// An element whose address is hidden (`unknown`, or an obfuscated identifier) ends the walk, as nothing tells whether the addresses to
/// its left can be trusted. Then the address is the last trusted one.
///
/// # Errors
///
/// An element is malformed, other than those to the left of the client.
///
/// ```
/// use tarpon_http::forwarded::{ForwardedField, find_client};
/// use tarpon_http::head;
///
/// let input = b"GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: forged, 203.0.113.7, 10.0.0.2\r\n\r\n";
/// let (head, _) = head::parse(input)?.expect("a complete head");
/// let is_trusted = |address: std::net::IpAddr| address.to_string().starts_with("10.");
/// let client = find_client(&head.fields, ForwardedField::XForwardedFor, is_trusted).expect("a well-formed list");
/// assert_eq!(client.address, Some([203, 0, 113, 7].into()));
/// # Ok::<(), tarpon_http::HeadError>(())
/// ```
pub fn find_client(
    fields: &Fields<'_>,
    field: ForwardedField,
    is_trusted: impl Fn(IpAddr) -> bool,
) -> Result<ForwardedClient, MalformedForwarded> {
    let name: &[u8] = match field {
        ForwardedField::Forwarded => b"Forwarded",
        ForwardedField::XForwardedFor => b"X-Forwarded-For",
    };
    let mut client = ForwardedClient::default();
    for element in ElementsFromRight::new(fields, name, field == ForwardedField::Forwarded) {
        let element = element?;
        let (node, scheme) = match field {
            ForwardedField::Forwarded => forwarded_element(element)?,
            ForwardedField::XForwardedFor => (listed_node(element)?, None),
        };
        client.scheme = scheme;
        let Node::Address(address) = node else { break };
        client.address = Some(address);
        if !is_trusted(address) {
            break;
        }
    }
    if field == ForwardedField::XForwardedFor {
        client.scheme = forwarded_proto(fields);
    }
    Ok(client)
}

/// The elements of a list that are not empty, from right to left.
struct ElementsFromRight<'a> {
    /// The last lines, in a ring: each has at least one element.
    lines: [&'a [u8]; ELEMENT_COUNT_MAX],
    /// The number of lines that are left.
    line_count: usize,
    /// The rest of a line.
    rest: Option<&'a [u8]>,
    /// The number of elements read.
    count: usize,
    /// A comma within a quoted-string separates nothing.
    has_quotes: bool,
}

impl<'a> ElementsFromRight<'a> {
    fn new(fields: &Fields<'a>, name: &[u8], has_quotes: bool) -> ElementsFromRight<'a> {
        let (mut lines, mut line_count) = ([&[][..]; ELEMENT_COUNT_MAX], 0);
        for (found, value) in fields.iter() {
            if found.eq_ignore_ascii_case(name) {
                lines[line_count % ELEMENT_COUNT_MAX] = value;
                line_count += 1;
            }
        }
        ElementsFromRight { lines, line_count, rest: None, count: 0, has_quotes }
    }
}

impl<'a> Iterator for ElementsFromRight<'a> {
    type Item = Result<&'a [u8], MalformedForwarded>;

    fn next(&mut self) -> Option<Result<&'a [u8], MalformedForwarded>> {
        loop {
            let line = match self.rest.take() {
                Some(rest) => rest,
                None => {
                    self.line_count = self.line_count.checked_sub(1)?;
                    self.lines[self.line_count % ELEMENT_COUNT_MAX]
                }
            };
            if self.count == ELEMENT_COUNT_MAX {
                return Some(Err(MalformedForwarded));
            }
            self.count += 1;
            // Beyond the limit nothing is scanned.
            let scanned = &line[line.len().saturating_sub(ELEMENT_LEN_MAX + 1)..];
            let element = match element_start(scanned, self.has_quotes) {
                Some(comma) => {
                    let (rest, element) = line.split_at(line.len() - scanned.len() + comma);
                    self.rest = Some(rest);
                    trim_ows(&element[1..])
                }
                None if line.len() <= ELEMENT_LEN_MAX => trim_ows(line),
                None => return Some(Err(MalformedForwarded)),
            };
            // A recipient skips empty elements: RFC 9110, section 5.6.1.
            if !element.is_empty() {
                return Some(Ok(element));
            }
        }
    }
}

/// Returns the offset of the comma before the last element of `list`. Scans from the right, so that a quote which a client has left open
/// takes nothing from the elements that proxies have added.
fn element_start(list: &[u8], has_quotes: bool) -> Option<usize> {
    let mut at = list.len();
    let mut quoted = false;
    while at > 0 {
        at -= 1;
        match list[at] {
            b'"' if has_quotes => {
                let backslashes = list[..at].iter().rev().take_while(|&&byte| byte == b'\\').count();
                // An escaped quote lies within the quoted-string.
                quoted = !quoted || backslashes % 2 == 1;
            }
            b',' if !quoted => return Some(at),
            _ => {}
        }
    }
    None
}

/// What names a party in an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Address(IpAddr),
    /// `unknown`, an obfuscated identifier, or nothing.
    Hidden,
}

/// Parses an element of Forwarded: `[ forwarded-pair ] *( ";" [ forwarded-pair ] )`. RFC 7239, section 4. Allows whitespace beside the
/// semicolons, as the examples there have it, and colons and brackets without quotes, as some proxies send them.
fn forwarded_element(element: &[u8]) -> Result<(Node, Option<Scheme>), MalformedForwarded> {
    let (mut node, mut scheme, mut rest) = (None, None, element);
    loop {
        rest = trim_ows(rest);
        let name_len = rest.iter().take_while(|&&byte| in_class(TCHAR, byte)).count();
        if name_len > 0 {
            let (name, behind) = rest.split_at(name_len);
            let mut text = [0; NODE_LEN_MAX];
            let (value, behind) =
                pair_value(behind.strip_prefix(b"=").ok_or(MalformedForwarded)?, &mut text)?;
            rest = trim_ows(behind);
            // Each parameter occurs at most once.
            if name.eq_ignore_ascii_case(b"for") {
                let value = value.ok_or(MalformedForwarded)?;
                if node.replace(node_of(value)?).is_some() {
                    return Err(MalformedForwarded);
                }
            } else if name.eq_ignore_ascii_case(b"proto") {
                let value = value.ok_or(MalformedForwarded)?;
                if scheme.replace(scheme_of(value)?).is_some() {
                    return Err(MalformedForwarded);
                }
            }
        }
        match rest {
            [] => return Ok((node.unwrap_or(Node::Hidden), scheme.flatten())),
            [b';', behind @ ..] => rest = behind,
            _ => return Err(MalformedForwarded),
        }
    }
}

/// The maximum length of the value of `for` and `proto`: an IPv6 address with a zone and a port, or an obfuscated identifier.
const NODE_LEN_MAX: usize = 128;

/// Splits the value of a pair off the front of `bytes`: a token or a quoted-string. Writes it to `text`, without its quotes. Returns it with
/// the rest of the bytes; the value is `None` if it is too long for `text`.
fn pair_value<'t, 'a>(
    bytes: &'a [u8],
    text: &'t mut [u8; NODE_LEN_MAX],
) -> Result<(Option<&'t [u8]>, &'a [u8]), MalformedForwarded> {
    let mut len = 0;
    let mut put = |byte: u8| {
        if let Some(place) = text.get_mut(len) {
            *place = byte;
        }
        len += 1;
    };
    let behind = match bytes.strip_prefix(b"\"") {
        None => {
            let is_unquoted = |byte: u8| in_class(TCHAR, byte) || b":[]".contains(&byte);
            let end = bytes.iter().position(|&byte| !is_unquoted(byte)).unwrap_or(bytes.len());
            bytes[..end].iter().for_each(|&byte| put(byte));
            &bytes[end..]
        }
        Some(inner) => {
            let (mut at, mut escaped) = (0, false);
            loop {
                let byte = *inner.get(at).filter(|&&byte| in_class(VALUE, byte)).ok_or(MalformedForwarded)?;
                at += 1;
                match byte {
                    _ if escaped => {
                        escaped = false;
                        put(byte);
                    }
                    b'\\' => escaped = true,
                    b'"' => break,
                    _ => put(byte),
                }
            }
            &inner[at..]
        }
    };
    match len {
        0 => Err(MalformedForwarded),
        _ => Ok((text.get(..len), behind)),
    }
}

/// Parses the `node` of Forwarded: RFC 7239, section 6. An IPv6 address has brackets.
fn node_of(node: &[u8]) -> Result<Node, MalformedForwarded> {
    match node.strip_prefix(b"[") {
        Some(rest) => bracketed(rest),
        None => match split_port(node)? {
            name if is_hidden(name) => Ok(Node::Hidden),
            name => Ok(Node::Address(address::<Ipv4Addr>(name)?)),
        },
    }
}

/// Parses an element of X-Forwarded-For: an address, with or without brackets and port, or a name that hides it.
fn listed_node(element: &[u8]) -> Result<Node, MalformedForwarded> {
    match element {
        [b'[', rest @ ..] => bracketed(rest),
        _ if element.iter().filter(|&&byte| byte == b':').count() > 1 => Ok(Node::Address(v6(element)?)),
        _ => node_of(element),
    }
}

/// Parses what follows the opening bracket of an IPv6 address.
fn bracketed(rest: &[u8]) -> Result<Node, MalformedForwarded> {
    let end = rest.iter().position(|&byte| byte == b']').ok_or(MalformedForwarded)?;
    match split_port(&rest[end + 1..])? {
        [] => Ok(Node::Address(v6(&rest[..end])?)),
        _ => Err(MalformedForwarded),
    }
}

/// Returns the bytes before a port, which is a number or an obfuscated one.
fn split_port(node: &[u8]) -> Result<&[u8], MalformedForwarded> {
    let Some(colon) = node.iter().position(|&byte| byte == b':') else { return Ok(node) };
    let port = &node[colon + 1..];
    let is_number = (1..=PORT_DIGITS_MAX).contains(&port.len()) && port.iter().all(u8::is_ascii_digit);
    if is_number || is_obfuscated(port) { Ok(&node[..colon]) } else { Err(MalformedForwarded) }
}

/// `port = 1*5DIGIT`: RFC 7239, section 6.
const PORT_DIGITS_MAX: usize = 5;

/// Parses an IPv6 address. Ignores a zone, which has a meaning only on the host of the proxy.
fn v6(text: &[u8]) -> Result<IpAddr, MalformedForwarded> {
    let (digits, zone) = match text.iter().position(|&byte| byte == b'%') {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let is_zone = |zone: &[u8]| !zone.is_empty() && zone.iter().all(|&byte| is_name_byte(byte));
    if !zone.is_none_or(is_zone) {
        return Err(MalformedForwarded);
    }
    Ok(address::<Ipv6Addr>(digits)?.to_canonical())
}

/// Returns whether a name hides the address: `"unknown" / obfnode` of RFC 7239, section 6.
fn is_hidden(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"unknown") || is_obfuscated(name)
}

/// `obfnode = "_" 1*( ALPHA / DIGIT / "." / "_" / "-")`
fn is_obfuscated(name: &[u8]) -> bool {
    matches!(name, [b'_', rest @ ..] if !rest.is_empty() && rest.iter().all(|&byte| is_name_byte(byte)))
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._-".contains(&byte)
}

/// Returns the scheme that the nearest proxy has set: the last value of X-Forwarded-Proto. A proxy sets the field or adds to it, so a
/// client cannot forge the last value, while one further left can be the client's own. `None`: there is none, or it is malformed, or not a
/// scheme of HTTP.
fn forwarded_proto(fields: &Fields<'_>) -> Option<Scheme> {
    let last = ElementsFromRight::new(fields, b"X-Forwarded-Proto", false).next()?;
    last.and_then(scheme_of).ok().flatten()
}

/// Parses a scheme: RFC 3986, section 3.1. `None`: it is not one of HTTP.
fn scheme_of(scheme: &[u8]) -> Result<Option<Scheme>, MalformedForwarded> {
    let is_scheme_byte = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    match scheme {
        [first, ..] if first.is_ascii_alphabetic() && scheme.iter().all(is_scheme_byte) => {}
        _ => return Err(MalformedForwarded),
    }
    Ok(match scheme {
        _ if scheme.eq_ignore_ascii_case(b"http") => Some(Scheme::Http),
        _ if scheme.eq_ignore_ascii_case(b"https") => Some(Scheme::Https),
        _ => None,
    })
}

/// Parses an address without port and brackets.
fn address<A: FromStr + Into<IpAddr>>(text: &[u8]) -> Result<IpAddr, MalformedForwarded> {
    let text = str::from_utf8(text).map_err(|_| MalformedForwarded)?;
    text.parse().map(A::into).map_err(|_| MalformedForwarded)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::{borrow::ToOwned, format, string::String, vec::Vec};

    use proptest::prelude::*;

    use super::*;
    use crate::head;

    /// The case; the lines of the field; the address, or the error; the scheme.
    type ForwardedRow =
        (&'static str, &'static [&'static str], Result<Option<&'static str>, MalformedForwarded>);

    const MALFORMED: Result<Option<&str>, MalformedForwarded> = Err(MalformedForwarded);

    #[test]
    fn x_forwarded_for_leads_to_the_first_address_that_is_not_trusted() {
        #[rustfmt::skip]
        let cases: &[ForwardedRow] = &[
            // case                         field lines                                          address
            ("no field",                    &[],                                                 Ok(None)),
            ("one address",                 &["203.0.113.7"],                                    Ok(Some("203.0.113.7"))),
            ("a forged left part",          &["198.51.100.9, 203.0.113.7"],                      Ok(Some("203.0.113.7"))),
            ("a trusted address, forged",   &["10.0.0.9, 203.0.113.7"],                          Ok(Some("203.0.113.7"))),
            ("behind two proxies",          &["198.51.100.9, 203.0.113.7, 10.0.0.2"],            Ok(Some("203.0.113.7"))),
            ("all are trusted",             &["10.0.0.4, 10.0.0.3,10.0.0.2"],                    Ok(Some("10.0.0.4"))),
            ("garbage left of the client",  &["\"<script>, \u{fc}, 999.1.1.1,, 203.0.113.7"],    Ok(Some("203.0.113.7"))),
            ("several lines",               &["198.51.100.9", "203.0.113.7", "10.0.0.2"],        Ok(Some("203.0.113.7"))),
            ("lists in lines",              &["198.51.100.9, 203.0.113.7", "10.0.0.3, 10.0.0.2"], Ok(Some("203.0.113.7"))),
            ("empty elements",              &[", 203.0.113.7,, ,", "", " , "],                   Ok(Some("203.0.113.7"))),
            ("empty",                       &[""],                                               Ok(None)),
            ("only commas",                 &[",,"],                                             Ok(None)),
            ("a port",                      &["203.0.113.7:4711"],                               Ok(Some("203.0.113.7"))),
            ("port 0",                      &["203.0.113.7:0"],                                  Ok(Some("203.0.113.7"))),
            ("a long port",                 &["203.0.113.7:123456"],                             MALFORMED),
            ("an empty port",               &["203.0.113.7:"],                                   MALFORMED),
            ("an obfuscated port",          &["203.0.113.7:_a"],                                 Ok(Some("203.0.113.7"))),
            ("a port that is none",         &["203.0.113.7:8o"],                                 MALFORMED),
            ("IPv6",                        &["2001:db8::1"],                                    Ok(Some("2001:db8::1"))),
            ("IPv6 in capitals",            &["2001:DB8::A"],                                    Ok(Some("2001:db8::a"))),
            ("IPv6 in brackets",            &["[2001:db8::1]"],                                  Ok(Some("2001:db8::1"))),
            ("IPv6 and a port",             &["[2001:db8::1]:4711"],                             Ok(Some("2001:db8::1"))),
            ("IPv6 without its end",        &["[2001:db8::1"],                                   MALFORMED),
            ("IPv6, more after it",         &["[2001:db8::1]x"],                                 MALFORMED),
            ("a zone",                      &["fe80::1%eth0"],                                   Ok(Some("fe80::1"))),
            ("a zone as in a URI",          &["[fe80::1%25eth0]:80"],                            Ok(Some("fe80::1"))),
            ("a zone with other bytes",     &["[fe80::1%e]h]:80"],                               MALFORMED),
            ("a number as zone",            &["[fe80::1%2]:80"],                                 Ok(Some("fe80::1"))),
            ("an empty zone",               &["fe80::1%"],                                       MALFORMED),
            ("a zone of IPv4",              &["203.0.113.7%eth0"],                               MALFORMED),
            ("IPv4-mapped, trusted",        &["203.0.113.7, ::ffff:10.0.0.2"],                   Ok(Some("203.0.113.7"))),
            ("IPv4-mapped",                 &["::ffff:203.0.113.7"],                             Ok(Some("203.0.113.7"))),
            ("unknown",                     &["203.0.113.7, unknown"],                           Ok(None)),
            ("unknown behind a proxy",      &["203.0.113.7, Unknown, 10.0.0.2"],                 Ok(Some("10.0.0.2"))),
            ("an obfuscated identifier",    &["203.0.113.7, _hidden, 10.0.0.2"],                 Ok(Some("10.0.0.2"))),
            ("an underscore alone",         &["_"],                                              MALFORMED),
            ("a host name",                 &["example.org"],                                    MALFORMED),
            ("leading zeros",               &["203.0.113.07"],                                   MALFORMED),
            ("three numbers",               &["203.0.113"],                                      MALFORMED),
            ("a decimal number",            &["3405803783"],                                     MALFORMED),
            ("hexadecimal",                 &["0xcb007107"],                                     MALFORMED),
            ("quotes",                      &["\"203.0.113.7\""],                                MALFORMED),
            ("quotes split by a comma",     &["\"10.0.0.2, 203.0.113.7\""],                      MALFORMED),
            ("not ASCII",                   &["203.0.113.\u{0667}"],                             MALFORMED),
            ("whitespace within",           &["203.0.113.7 10.0.0.2"],                           MALFORMED),
            ("tabs",                        &["\t203.0.113.7\t,\t10.0.0.2\t"],                   Ok(Some("203.0.113.7"))),
            ("malformed behind a proxy",    &["203.0.113.7, x, 10.0.0.2"],                       MALFORMED),
        ];
        check(ForwardedField::XForwardedFor, cases);
    }

    #[test]
    fn forwarded_leads_to_the_first_address_that_is_not_trusted() {
        #[rustfmt::skip]
        let cases: &[ForwardedRow] = &[
            // case                         field lines                                                address
            ("no field",                    &[],                                                       Ok(None)),
            ("one address",                 &["for=203.0.113.7"],                                      Ok(Some("203.0.113.7"))),
            ("name in capitals",            &["FOR=203.0.113.7"],                                      Ok(Some("203.0.113.7"))),
            ("a forged left part",          &["for=198.51.100.9, for=203.0.113.7, for=10.0.0.2"],      Ok(Some("203.0.113.7"))),
            ("all parameters",              &["for=203.0.113.7;proto=http;by=10.0.0.1;host=a.example"], Ok(Some("203.0.113.7"))),
            ("spaces at semicolons",        &["for=203.0.113.7; proto=http ;by=10.0.0.1"],             Ok(Some("203.0.113.7"))),
            ("empty pairs",                 &[";for=203.0.113.7;;"],                                   Ok(Some("203.0.113.7"))),
            ("quoted",                      &["for=\"203.0.113.7\""],                                  Ok(Some("203.0.113.7"))),
            ("quoted, escapes",             &["for=\"\\2\\03.0.113.7\""],                              Ok(Some("203.0.113.7"))),
            ("quoted, a port",              &["for=\"203.0.113.7:4711\""],                             Ok(Some("203.0.113.7"))),
            ("a port without quotes",       &["for=203.0.113.7:4711"],                                 Ok(Some("203.0.113.7"))),
            ("IPv6",                        &["for=\"[2001:db8::1]\""],                                Ok(Some("2001:db8::1"))),
            ("IPv6 and a port",             &["for=\"[2001:db8::1]:4711\""],                           Ok(Some("2001:db8::1"))),
            ("IPv6 without quotes",         &["for=[2001:db8::1]"],                                    Ok(Some("2001:db8::1"))),
            ("IPv6 without brackets",       &["for=\"2001:db8::1\""],                                  MALFORMED),
            ("a zone",                      &["for=\"[fe80::1%eth0]\""],                               Ok(Some("fe80::1"))),
            ("a comma in quotes",           &["for=203.0.113.7;by=\"a, for=10.0.0.2\""],               Ok(Some("203.0.113.7"))),
            ("an escaped quote",            &["for=203.0.113.7;by=\"a\\\", for=10.0.0.2\""],            Ok(Some("203.0.113.7"))),
            ("an escaped backslash",        &["for=203.0.113.7;by=\"a\\\\\", for=10.0.0.2"],           Ok(Some("203.0.113.7"))),
            ("a client leaves a quote open", &["for=\"10.0.0.9, for=203.0.113.7"],                     Ok(Some("203.0.113.7"))),
            ("a client ends with a backslash", &["for=\"\\, for=\"203.0.113.7\""],                    Ok(Some("203.0.113.7"))),
            ("a quote is open in a line",   &["for=\"10.0.0.9", "for=203.0.113.7"],                    Ok(Some("203.0.113.7"))),
            ("a quote is open at the end",  &["for=203.0.113.7;by=\"a"],                               MALFORMED),
            ("hidden",                      &["for=203.0.113.7, for=_hidden, for=10.0.0.2"],           Ok(Some("10.0.0.2"))),
            ("hidden by the nearest",       &["for=203.0.113.7, for=\"_a:_b\""],                       Ok(None)),
            ("unknown",                     &["for=203.0.113.7, for=unknown"],                         Ok(None)),
            ("without an address",          &["for=203.0.113.7, proto=https", "for=10.0.0.2"],         Ok(Some("10.0.0.2"))),
            ("two addresses",               &["for=203.0.113.7;for=10.0.0.2"],                         MALFORMED),
            ("two schemes",                 &["for=203.0.113.7;proto=http;proto=https"],               MALFORMED),
            ("no value",                    &["for="],                                                 MALFORMED),
            ("an empty value",              &["for=\"\""],                                             MALFORMED),
            ("no equals sign",              &["for"],                                                  MALFORMED),
            ("a space at the equals sign",  &["for= 203.0.113.7"],                                     MALFORMED),
            ("no parameter",                &["203.0.113.7"],                                          MALFORMED),
            ("a scheme that is none",       &["for=203.0.113.7;proto=\"a b\""],                        MALFORMED),
            ("not ASCII",                   &["for=\"203.0.113.7\u{fc}\""],                            MALFORMED),
            ("an unknown parameter",        &["for=203.0.113.7;secret=\"a b\""],                       Ok(Some("203.0.113.7"))),
        ];
        check(ForwardedField::Forwarded, cases);
    }

    fn check(field: ForwardedField, cases: &[ForwardedRow]) {
        for (case, lines, want) in cases {
            let found = find(field, lines, &[]).map(|client| client.address);
            assert_eq!(found, want.map(|want| want.map(|text| text.parse().expect("an address"))), "{case}");
        }
    }

    #[test]
    fn scheme_is_what_the_proxies_have_set() {
        let (http, https) = (Some(Scheme::Http), Some(Scheme::Https));
        #[rustfmt::skip]
        let forwarded: &[(&str, &[&str], Option<Scheme>)] = &[
            // case                     field lines                                                        scheme
            ("https",                   &["for=203.0.113.7;proto=https"],                                  https),
            ("in capitals",             &["for=203.0.113.7;proto=\"HTTP\""],                               http),
            ("of the client's element", &["for=198.51.100.9;proto=http, for=203.0.113.7;proto=https, for=10.0.0.2;proto=http"], https),
            ("of a hidden client",      &["for=198.51.100.9;proto=http, for=_a;proto=https"],              https),
            ("none beside the client",  &["for=203.0.113.7, for=10.0.0.2;proto=https"],                    None),
            ("another scheme",          &["for=203.0.113.7;proto=gopher"],                                 None),
        ];
        for (case, lines, want) in forwarded {
            let found = find(ForwardedField::Forwarded, lines, &["https"]).expect(case);
            assert_eq!(found.scheme, *want, "{case}");
        }
        #[rustfmt::skip]
        let listed: &[(&str, &[&str], Option<Scheme>)] = &[
            // case                     lines of X-Forwarded-Proto    scheme
            ("no field",                &[],                          None),
            ("https",                   &["https"],                   https),
            ("in capitals",             &["HTTP"],                    http),
            ("a forged value",          &["http, https"],             https),
            ("a forged line",           &["http", "https"],           https),
            ("an empty element",        &["https,"],                  https),
            ("another scheme",          &["gopher"],                  None),
            ("malformed",               &["h ttp"],                   None),
        ];
        for (case, lines, want) in listed {
            let found = find(ForwardedField::XForwardedFor, &["203.0.113.7"], lines).expect(case);
            assert_eq!((found.scheme, found.address), (*want, Some([203, 0, 113, 7].into())), "{case}");
        }
    }

    #[test]
    fn long_lists_are_read_up_to_the_limits() {
        let many = |count: usize, element: &str| format!("203.0.113.7{}", element.repeat(count));
        let long =
            |len: usize| format!("for=203.0.113.7;by={}", "a".repeat(len - "for=203.0.113.7;by=".len()));
        let (last, client) = (ELEMENT_COUNT_MAX - 1, Ok(Some("203.0.113.7")));
        #[rustfmt::skip]
        let cases: &[(&str, ForwardedField, String, Result<Option<&str>, MalformedForwarded>)] = &[
            // case                          field                          value                                        address
            ("all that are read",            ForwardedField::XForwardedFor, many(last, ",10.0.0.2"),                     client),
            ("one more",                     ForwardedField::XForwardedFor, many(last + 1, ",10.0.0.2"),                 MALFORMED),
            ("empty elements",               ForwardedField::XForwardedFor, many(last, ","),                             client),
            ("more of them",                 ForwardedField::XForwardedFor, many(10_000, ","),                           MALFORMED),
            ("10,000 forged elements",       ForwardedField::XForwardedFor, "1,".repeat(5_000) + &",".repeat(5_000) + "203.0.113.7", client),
            ("a long forged element",        ForwardedField::XForwardedFor, "a".repeat(10_000) + ",203.0.113.7",         client),
            ("an element of the maximum",    ForwardedField::Forwarded,     long(ELEMENT_LEN_MAX),                       client),
            ("one byte longer",              ForwardedField::Forwarded,     long(ELEMENT_LEN_MAX + 1),                   MALFORMED),
            ("the maximum, after a comma",   ForwardedField::Forwarded,     ",".to_owned() + &long(ELEMENT_LEN_MAX),     client),
            ("longer, after a comma",        ForwardedField::Forwarded,     ",".to_owned() + &long(ELEMENT_LEN_MAX + 1), MALFORMED),
            ("only quotes",                  ForwardedField::Forwarded,     "\"".repeat(10_000),                          MALFORMED),
            ("only backslashes",             ForwardedField::Forwarded,     "\\".repeat(10_000) + "\"",                   MALFORMED),
            ("a long obfuscated identifier", ForwardedField::Forwarded,     format!("for=_{}", "a".repeat(200)),         MALFORMED),
        ];
        for (case, field, value, want) in cases {
            let found = find(*field, &[value], &[]).map(|client| client.address);
            assert_eq!(found, want.map(|want| want.map(|text| text.parse().expect("an address"))), "{case}");
        }
        let lines: Vec<_> =
            ["198.51.100.9"; 60].into_iter().chain(["203.0.113.7"]).chain(["10.0.0.2"; 31]).collect();
        let found = find(ForwardedField::XForwardedFor, &lines, &[]).map(|client| client.address);
        assert_eq!(found, Ok(Some([203, 0, 113, 7].into())), "many lines");
        let found = find(ForwardedField::XForwardedFor, &["10.0.0.2"; 40], &[]);
        assert_eq!(found, Err(MalformedForwarded), "a loop in many lines");
    }

    proptest! {
        /// Whatever a client sends to the left, and in how many lines the proxies send it on: what the proxies have added decides.
        #[test]
        fn a_client_cannot_change_what_proxies_have_added(
            forged in "[ -~]{0,40}",
            proxies in 0..5_usize,
            cuts in proptest::collection::vec(any::<bool>(), 6),
            quoted in any::<bool>(),
        ) {
            let client = if quoted { "for=\"203.0.113.7:1\";by=\"a,b\"" } else { "for=203.0.113.7" };
            let added = [client].into_iter().chain(["for=10.0.0.2;host=\"x,\\\"y\""; 5].into_iter().take(proxies));
            let mut lines = Vec::from([forged]);
            for (element, begins_line) in added.zip(cuts) {
                match lines.last_mut() {
                    Some(line) if !begins_line => *line = format!("{line}, {element}"),
                    _ => lines.push(element.into()),
                }
            }
            let lines: Vec<_> = lines.iter().map(|line| &**line).collect();
            let found = find(ForwardedField::Forwarded, &lines, &[]);
            prop_assert_eq!(found.map(|client| client.address), Ok(Some([203, 0, 113, 7].into())), "{:?}", lines);
        }
    }

    /// Finds the client in a head with these field lines, and lines of X-Forwarded-Proto. The addresses in 10.0.0.0/8 are trusted.
    fn find(
        field: ForwardedField,
        lines: &[&str],
        protos: &[&str],
    ) -> Result<ForwardedClient, MalformedForwarded> {
        let name = match field {
            ForwardedField::Forwarded => "forwarded",
            ForwardedField::XForwardedFor => "X-FORWARDED-FOR",
        };
        let lines: String = lines.iter().map(|line| format!("{name}: {line}\r\n")).collect();
        let protos: String = protos.iter().map(|line| format!("x-forwarded-proto:{line}\r\n")).collect();
        let wire = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}{protos}\r\n");
        let (head, _) = head::parse(wire.as_bytes()).expect("a head").expect("a whole head");
        find_client(&head.fields, field, |address| matches!(address, IpAddr::V4(v4) if v4.octets()[0] == 10))
    }
}
