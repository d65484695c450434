//! PROXY headers: the result does not depend on how the input is split, nor on what follows the header; and a simple parser finds the same
//! source.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tarpon_http::proxy_header::{ProxySource, V1_LEN_MAX, V2_LEN_MAX, parse};

fuzz_target!(|input: &[u8]| {
    let result = parse(input);
    let (mut len, step) = (0, 1 + input.len() / 256);
    while len < input.len() {
        let early = parse(&input[..len]);
        assert!(early == Ok(None) || early == result, "{early:?} after {len} bytes, then {result:?}");
        len += step;
    }
    match result {
        Ok(None) => assert!(input.len() < V2_LEN_MAX),
        Ok(Some((source, len))) => {
            assert!(len <= if input[0] == b'P' { V1_LEN_MAX } else { V2_LEN_MAX });
            assert_eq!(parse(&input[..len]), result, "without what follows");
            assert_eq!(parse(&input[..len - 1]), Ok(None), "not before the end");
            assert_eq!(Some(source), source_of(&input[..len]));
        }
        Err(_) => {}
    }
});

/// Returns the source that a whole header names.
fn source_of(header: &[u8]) -> Option<ProxySource> {
    let ip = |address: IpAddr| ProxySource::Ip(address.to_canonical());
    if header[0] == b'P' {
        let line = str::from_utf8(header).ok()?;
        let parts: Vec<&str> = line.split_ascii_whitespace().collect();
        return match parts[..] {
            ["PROXY", "TCP4", source, _, _, _] => Some(ip(source.parse::<Ipv4Addr>().ok()?.into())),
            ["PROXY", "TCP6", source, _, _, _] => Some(ip(source.parse::<Ipv6Addr>().ok()?.into())),
            ["PROXY", "UNKNOWN", ..] => Some(ProxySource::Peer),
            _ => None,
        };
    }
    match (header[12], header[13]) {
        (0x21, 0x11 | 0x12) => Some(ip(<[u8; 4]>::try_from(&header[16..20]).ok()?.into())),
        (0x21, 0x21 | 0x22) => Some(ip(<[u8; 16]>::try_from(&header[16..32]).ok()?.into())),
        (0x21, 0x31 | 0x32) => Some(ProxySource::Unix),
        (0x20, _) | (0x21, 0x00..=0x02 | 0x10 | 0x20 | 0x30) => Some(ProxySource::Peer),
        _ => None,
    }
}
