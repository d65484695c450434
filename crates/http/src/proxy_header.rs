//! The header of the PROXY protocol, versions 1 and 2, which a proxy sends before the first request of a connection. The specification:
//! <https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt>.
//!
//! ```text
//! version 1   "PROXY TCP4 203.0.113.7 10.0.0.1 4711 80" CRLF
//! version 2   signature  version, command  family, transport  length  │ addresses, TLVs
//!             12 bytes   1                 1                  2       │ length bytes
//! ```
//!
//! The result depends only on the bytes received, not on how the network split them. The parser skips the TLVs, the checksum among them
//! too: TCP has one already.

use core::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::{self, FromStr},
};

/// The source of a connection, as its PROXY header names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxySource {
    /// The proxy itself, as for a health check (`LOCAL`), or a client of which it knows no address (`UNKNOWN`): the address of the socket
    /// stays.
    Peer,
    /// A client with this address. An IPv4-mapped address is in its IPv4 form.
    Ip(IpAddr),
    /// A client at a Unix socket of the proxy.
    Unix,
}

/// Why a PROXY header is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyHeaderError {
    /// The connection does not begin with a PROXY header.
    Signature,
    /// The line of version 1 does not end within [`V1_LEN_MAX`] bytes, or version 2 is longer than [`V2_LEN_MAX`].
    Length,
    /// The line of version 1 does not match its grammar.
    Line,
    /// The version in a header with the signature of version 2 is not 2.
    Version,
    /// The command of version 2 is unknown.
    Command,
    /// The address family or the transport of version 2 is unknown.
    Family,
    /// Version 2 is too short for its addresses.
    Addresses,
}

/// The maximum length of version 1, with its CRLF: section 2.1 of the specification.
pub const V1_LEN_MAX: usize = 107;

/// The maximum length of version 2, in bytes. The addresses take up to 216 bytes and the usual TLVs some 100; a TLV with the certificate of a
/// client takes up to 3 KiB.
pub const V2_LEN_MAX: usize = 4096;

/// Parses the PROXY header at the start of `input`. Returns the source and the length of the header. `None`: it is incomplete.
///
/// # Errors
///
/// The connection begins otherwise, or the header is malformed: the caller closes the connection, as its source is unknown.
///
/// ```
/// use tarpon_http::proxy_header::{ProxySource, parse};
///
/// let input = b"PROXY TCP4 203.0.113.7 10.0.0.1 4711 80\r\nGET / HTTP/1.1\r\n";
/// assert_eq!(parse(input), Ok(Some((ProxySource::Ip([203, 0, 113, 7].into()), 41))));
/// assert_eq!(parse(&input[..40]), Ok(None));
/// ```
pub fn parse(input: &[u8]) -> Result<Option<(ProxySource, usize)>, ProxyHeaderError> {
    if begins(input, V1_SIGNATURE) {
        v1(input)
    } else if begins(input, V2_SIGNATURE) {
        v2(input)
    } else {
        Err(ProxyHeaderError::Signature)
    }
}

const V1_SIGNATURE: &[u8] = b"PROXY ";
const V2_SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Returns whether `input` begins with `signature`, or is a part of it.
fn begins(input: &[u8], signature: &[u8]) -> bool {
    let len = input.len().min(signature.len());
    input[..len] == signature[..len]
}

fn v1(input: &[u8]) -> Result<Option<(ProxySource, usize)>, ProxyHeaderError> {
    let seen = &input[..input.len().min(V1_LEN_MAX)];
    let Some(line_feed) = seen.iter().position(|&byte| byte == b'\n') else {
        return if seen.len() < V1_LEN_MAX { Ok(None) } else { Err(ProxyHeaderError::Length) };
    };
    let line = seen[V1_SIGNATURE.len()..line_feed].strip_suffix(b"\r").ok_or(ProxyHeaderError::Line)?;
    let source = v1_source(line).ok_or(ProxyHeaderError::Line)?;
    Ok(Some((source, line_feed + 1)))
}

/// Parses the line after `PROXY `. Its parts have one space between them.
fn v1_source(line: &[u8]) -> Option<ProxySource> {
    let line = str::from_utf8(line).ok()?;
    let (family, rest) = line.split_once(' ').unwrap_or((line, ""));
    // The receiver ignores the rest of the line.
    if family == "UNKNOWN" {
        return Some(ProxySource::Peer);
    }
    let mut parts = rest.split(' ');
    let addresses = [parts.next()?, parts.next()?];
    let ports = [parts.next()?, parts.next()?];
    if parts.next().is_some() || !ports.iter().all(|port| is_port(port)) {
        return None;
    }
    let [source, _] = match family {
        "TCP4" => parsed::<Ipv4Addr>(addresses)?,
        "TCP6" => parsed::<Ipv6Addr>(addresses)?,
        _ => return None,
    };
    Some(ProxySource::Ip(source.to_canonical()))
}

/// Parses the source and the destination.
fn parsed<A: FromStr + Into<IpAddr>>([source, destination]: [&str; 2]) -> Option<[IpAddr; 2]> {
    let parse = |text: &str| text.parse::<A>().ok().map(A::into);
    Some([parse(source)?, parse(destination)?])
}

/// Returns whether `port` is a number from 0 to 65535 without leading zeros.
fn is_port(port: &str) -> bool {
    let is_canonical = port == "0" || matches!(port.as_bytes(), [b'1'..=b'9', ..]);
    is_canonical && port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok()
}

fn v2(input: &[u8]) -> Result<Option<(ProxySource, usize)>, ProxyHeaderError> {
    let Some((fixed, _)) = input.split_first_chunk::<V2_FIXED_LEN>() else { return Ok(None) };
    let &[.., version_and_command, family_and_transport, len_high, len_low] = fixed;
    let len = V2_FIXED_LEN + usize::from(u16::from_be_bytes([len_high, len_low]));
    if version_and_command >> 4 != 2 {
        return Err(ProxyHeaderError::Version);
    }
    let is_local = match version_and_command & 0xf {
        0 => true,
        1 => false,
        _ => return Err(ProxyHeaderError::Command),
    };
    let family = match (family_and_transport >> 4, family_and_transport & 0xf) {
        // The family of a local connection is ignored.
        _ if is_local => V2Family::Unspecified,
        (4.., _) | (_, 3..) => return Err(ProxyHeaderError::Family),
        (0, _) | (_, 0) => V2Family::Unspecified,
        (1, _) => V2Family::Inet,
        (2, _) => V2Family::Inet6,
        (3, _) => V2Family::Unix,
    };
    if len > V2_LEN_MAX {
        return Err(ProxyHeaderError::Length);
    }
    if len - V2_FIXED_LEN < family.addresses_len() {
        return Err(ProxyHeaderError::Addresses);
    }
    let Some(header) = input.get(..len) else { return Ok(None) };
    let addresses = &header[V2_FIXED_LEN..];
    let source = match family {
        V2Family::Unspecified => ProxySource::Peer,
        V2Family::Inet => ip(addresses.first_chunk::<4>().map(|octets| IpAddr::from(*octets))),
        V2Family::Inet6 => ip(addresses.first_chunk::<16>().map(|octets| IpAddr::from(*octets))),
        V2Family::Unix => ProxySource::Unix,
    };
    Ok(Some((source, len)))
}

/// The signature, version and command, family and transport, and the length.
const V2_FIXED_LEN: usize = 16;

#[derive(Clone, Copy)]
enum V2Family {
    Unspecified,
    Inet,
    Inet6,
    Unix,
}

impl V2Family {
    /// Returns the length of both addresses and ports, or of both paths.
    fn addresses_len(self) -> usize {
        match self {
            V2Family::Unspecified => 0,
            V2Family::Inet => 2 * (4 + 2),
            V2Family::Inet6 => 2 * (16 + 2),
            V2Family::Unix => 2 * 108,
        }
    }
}

fn ip(address: Option<IpAddr>) -> ProxySource {
    ProxySource::Ip(address.expect("the header is long enough for its addresses").to_canonical())
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::{format, vec::Vec};

    use super::*;

    type Parsed = Result<Option<(ProxySource, usize)>, ProxyHeaderError>;

    /// Checks that the header has this result, whatever follows it, and that no shorter part of it has another.
    fn check(case: &str, header: &[u8], want: Result<ProxySource, ProxyHeaderError>) {
        let want: Parsed = want.map(|source| Some((source, header.len())));
        for behind in [&b""[..], b"G", b"GET / HTTP/1.1\r\n\r\n", b"\r\n", b"PROXY TCP4 "] {
            let input = [header, behind].concat();
            for len in header.len()..=input.len() {
                assert_eq!(parse(&input[..len]), want, "{case}: {len} bytes");
            }
        }
        for len in 0..header.len() {
            let early = parse(&header[..len]);
            assert!(
                early == Ok(None) || early.is_err() && early == want,
                "{case}: {early:?} after {len} bytes"
            );
        }
    }

    #[test]
    fn lines_of_version_1_match_the_grammar_exactly() {
        let ip = |text: &str| Ok(ProxySource::Ip(text.parse().expect("an address")));
        let (line, length, none) =
            (Err(ProxyHeaderError::Line), Err(ProxyHeaderError::Length), Err(ProxyHeaderError::Signature));
        let v6 = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
        #[rustfmt::skip]
        let cases: &[(&str, &str, Result<ProxySource, ProxyHeaderError>)] = &[
            // case                       line                                                     source
            ("IPv4",                      "PROXY TCP4 203.0.113.7 10.0.0.1 4711 80\r\n",           ip("203.0.113.7")),
            ("the longest of IPv4",       "PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n", ip("255.255.255.255")),
            ("IPv6",                      "PROXY TCP6 2001:db8::7 ::1 4711 80\r\n",                ip("2001:db8::7")),
            ("IPv6 in capitals",          "PROXY TCP6 2001:DB8::A ::1 4711 80\r\n",                ip("2001:db8::a")),
            ("the longest of IPv6",       &format!("PROXY TCP6 {v6} {v6} 65535 65535\r\n"),        ip(v6)),
            ("IPv4-mapped",               "PROXY TCP6 ::ffff:203.0.113.7 ::1 4711 80\r\n",         ip("203.0.113.7")),
            ("unknown",                   "PROXY UNKNOWN\r\n",                                     Ok(ProxySource::Peer)),
            ("unknown, with addresses",   &format!("PROXY UNKNOWN {v6} {v6} 65535 65535\r\n"),     Ok(ProxySource::Peer)),
            ("unknown, anything after",   "PROXY UNKNOWN  x \r\r\n",                               Ok(ProxySource::Peer)),
            ("port 0",                    "PROXY TCP4 203.0.113.7 10.0.0.1 0 0\r\n",               ip("203.0.113.7")),
            ("a port with zeros",         "PROXY TCP4 203.0.113.7 10.0.0.1 04711 80\r\n",          line),
            ("a port that is too large",  "PROXY TCP4 203.0.113.7 10.0.0.1 4711 65536\r\n",        line),
            ("a port with a sign",        "PROXY TCP4 203.0.113.7 10.0.0.1 +4711 80\r\n",          line),
            ("an empty port",             "PROXY TCP4 203.0.113.7 10.0.0.1  80\r\n",               line),
            ("no port",                   "PROXY TCP4 203.0.113.7 10.0.0.1 4711\r\n",              line),
            ("one part more",             "PROXY TCP4 203.0.113.7 10.0.0.1 4711 80 1\r\n",         line),
            ("an address with zeros",     "PROXY TCP4 203.0.113.07 10.0.0.1 4711 80\r\n",          line),
            ("an address too large",      "PROXY TCP4 203.0.113.256 10.0.0.1 4711 80\r\n",         line),
            ("a zone",                    "PROXY TCP6 fe80::1%eth0 ::1 4711 80\r\n",               line),
            ("brackets",                  "PROXY TCP6 [2001:db8::7] ::1 4711 80\r\n",              line),
            ("the other family",          "PROXY TCP4 2001:db8::7 ::1 4711 80\r\n",                line),
            ("two families",              "PROXY TCP6 2001:db8::7 10.0.0.1 4711 80\r\n",           line),
            ("an unknown family",         "PROXY UDP4 203.0.113.7 10.0.0.1 4711 80\r\n",           line),
            ("a family in lower case",    "PROXY tcp4 203.0.113.7 10.0.0.1 4711 80\r\n",           line),
            ("almost unknown",            "PROXY UNKNOWNS\r\n",                                    line),
            ("two spaces",                "PROXY TCP4  203.0.113.7 10.0.0.1 4711 80\r\n",          line),
            ("a tab",                     "PROXY TCP4\t203.0.113.7 10.0.0.1 4711 80\r\n",          line),
            ("a space at the end",        "PROXY TCP4 203.0.113.7 10.0.0.1 4711 80 \r\n",          line),
            ("a space before the family", "PROXY  TCP4 203.0.113.7 10.0.0.1 4711 80\r\n",          line),
            ("LF without CR",             "PROXY TCP4 203.0.113.7 10.0.0.1 4711 80\n",             line),
            ("not ASCII",                 "PROXY TCP4 203.0.113.\u{0667} 10.0.0.1 4711 80\r\n",    line),
            ("NUL",                       "PROXY TCP4 203.0.113.7\0 10.0.0.1 4711 80\r\n",         line),
            ("no family",                 "PROXY \r\n",                                            line),
            ("no space",                  "PROXY\r\n",                                             none),
            ("a request",                 "GET / HTTP/1.1\r\n",                                    none),
            ("lower case",                "proxy TCP4 203.0.113.7 10.0.0.1 4711 80\r\n",           none),
            ("an empty line before it",   "\r\nPROXY TCP4 203.0.113.7 10.0.0.1 4711 80\r\n",       none),
            ("the longest line",          &format!("PROXY UNKNOWN {}\r\n", "x".repeat(V1_LEN_MAX - 16)), Ok(ProxySource::Peer)),
            ("one byte longer",           &format!("PROXY UNKNOWN {}\r\n", "x".repeat(V1_LEN_MAX - 15)), length),
            ("no end",                    &format!("PROXY TCP4 {}", "1".repeat(200)),              length),
        ];
        for (case, header, want) in cases {
            check(case, header.as_bytes(), *want);
        }
    }

    #[test]
    fn headers_of_version_2_have_known_values_and_room_for_their_addresses() {
        let v4 = [203, 0, 113, 7, 10, 0, 0, 1, 0x12, 0x67, 0, 80];
        let client = Ok(ProxySource::Ip([203, 0, 113, 7].into()));
        let v6: Vec<u8> = [&Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7).octets()[..], &[0; 20]].concat();
        let mapped: Vec<u8> =
            [&Ipv4Addr::new(203, 0, 113, 7).to_ipv6_mapped().octets()[..], &[0; 20]].concat();
        let client_v6 = Ok(ProxySource::Ip("2001:db8::7".parse().expect("an address")));
        let tlvs = |len: usize| [&v4[..], &std::vec![0x20; len]].concat();
        let (peer, unix) = (Ok(ProxySource::Peer), Ok(ProxySource::Unix));
        #[rustfmt::skip]
        let cases: &[(&str, u8, u8, &[u8], Result<ProxySource, ProxyHeaderError>)] = &[
            // case                          version    family, transport, the rest                    source
            ("TCP, IPv4",                    0x21,      0x11,   &v4,                                   client),
            ("UDP, IPv4",                    0x21,      0x12,   &v4,                                   client),
            ("TCP, IPv6",                    0x21,      0x21,   &v6,                                   client_v6),
            ("UDP, IPv6",                    0x21,      0x22,   &v6,                                   client_v6),
            ("IPv4-mapped",                  0x21,      0x21,   &mapped,                               client),
            ("a Unix socket",                0x21,      0x31,   &[b'/'; 216],                          unix),
            ("datagrams of a Unix socket",   0x21,      0x32,   &[0; 216],                             unix),
            ("an unspecified family",        0x21,      0x00,   &[],                                   peer),
            ("unspecified, with bytes",      0x21,      0x01,   &v4,                                   peer),
            ("an unspecified transport",     0x21,      0x10,   &v4,                                   peer),
            ("local",                        0x20,      0x00,   &[],                                   peer),
            ("local, with addresses",        0x20,      0x11,   &v4,                                   peer),
            ("local, an unknown family",     0x20,      0xff,   &[1; 5],                               peer),
            ("TLVs",                         0x21,      0x11,   &tlvs(100),                            client),
            ("TLVs cut short",               0x21,      0x11,   &tlvs(2),                              client),
            ("the longest",                  0x21,      0x11,   &tlvs(V2_LEN_MAX - 16 - 12),           client),
            ("one byte longer",              0x21,      0x11,   &tlvs(V2_LEN_MAX - 16 - 11),           Err(ProxyHeaderError::Length)),
            ("the longest local one",        0x20,      0x00,   &[0; V2_LEN_MAX - 15],                 Err(ProxyHeaderError::Length)),
            ("one byte short, IPv4",         0x21,      0x11,   &v4[..11],                             Err(ProxyHeaderError::Addresses)),
            ("one byte short, IPv6",         0x21,      0x21,   &v6[..35],                             Err(ProxyHeaderError::Addresses)),
            ("one byte short, Unix",         0x21,      0x31,   &[0; 215],                             Err(ProxyHeaderError::Addresses)),
            ("nothing",                      0x21,      0x11,   &[],                                   Err(ProxyHeaderError::Addresses)),
            ("version 1",                    0x11,      0x11,   &v4,                                   Err(ProxyHeaderError::Version)),
            ("version 3",                    0x31,      0x11,   &v4,                                   Err(ProxyHeaderError::Version)),
            ("an unknown command",           0x22,      0x11,   &v4,                                   Err(ProxyHeaderError::Command)),
            ("the last command",             0x2f,      0x00,   &[],                                   Err(ProxyHeaderError::Command)),
            ("an unknown family",            0x21,      0x41,   &v4,                                   Err(ProxyHeaderError::Family)),
            ("an unknown transport",         0x21,      0x13,   &v4,                                   Err(ProxyHeaderError::Family)),
        ];
        for (case, version, family, rest, want) in cases {
            let len = (rest.len() as u16).to_be_bytes();
            check(case, &[V2_SIGNATURE, &[*version, *family], &len, rest].concat(), *want);
        }
        for at in 0..V2_SIGNATURE.len() {
            let mut header = [V2_SIGNATURE, &[0x21, 0x11, 0, 12], &v4].concat();
            header[at] ^= 0x20;
            check(&format!("another byte {at}"), &header, Err(ProxyHeaderError::Signature));
        }
    }
}
