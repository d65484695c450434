//! Forwarded and X-Forwarded-For: a simple parser, which splits the whole list, finds the same client; and nothing that a client sends to the
//! left of it changes the result.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::net::{IpAddr, Ipv6Addr};
use tarpon_http::forwarded::{
    ELEMENT_COUNT_MAX, ELEMENT_LEN_MAX, ForwardedClient, ForwardedField, MalformedForwarded, find_client,
};
use tarpon_http::head;

// The first byte selects the field. The rest is its lines.
fuzz_target!(|input: &[u8]| {
    let Some((&selector, lists)) = input.split_first() else { return };
    let lines: Vec<&[u8]> = lists.split(|&byte| byte == b'\n').collect();
    let field = match selector % 2 {
        0 => ForwardedField::XForwardedFor,
        _ => ForwardedField::Forwarded,
    };
    let Some(found) = find(field, &lines) else { return };
    if field == ForwardedField::XForwardedFor {
        assert_eq!(found.map(|client| client.address), listed(&lines));
    }
    // An address that is not trusted ends the walk.
    if let Ok(ForwardedClient { address: Some(address), .. }) = found
        && !is_trusted(address)
    {
        for forged in [&b"10.0.0.1"[..], b"for=10.0.0.1;by=\"", b"\"\\", b"for=\"\\\"", b",,"] {
            let extended: Vec<&[u8]> = [forged].into_iter().chain(lines.iter().copied()).collect();
            // Such a head may be too long.
            assert!(find(field, &extended).is_none_or(|other| other == found), "{}", forged.escape_ascii());
            let joined = [forged, b",", lines[0]].concat();
            let extended: Vec<&[u8]> = [&joined[..]].into_iter().chain(lines[1..].iter().copied()).collect();
            assert!(find(field, &extended).is_none_or(|other| other == found), "{}", forged.escape_ascii());
        }
    }
});

/// Finds the client in a head with these lines. `None`: they are no field values, or too long.
fn find(field: ForwardedField, lines: &[&[u8]]) -> Option<Result<ForwardedClient, MalformedForwarded>> {
    let name = match field {
        ForwardedField::Forwarded => "Forwarded",
        ForwardedField::XForwardedFor => "X-Forwarded-For",
    };
    let mut wire = b"GET / HTTP/1.1\r\n".to_vec();
    for line in lines {
        wire.extend_from_slice(name.as_bytes());
        wire.extend_from_slice(b": ");
        wire.extend_from_slice(line);
        wire.extend_from_slice(b"\r\n");
    }
    wire.extend_from_slice(b"\r\n");
    let (head, _) = head::parse(&wire).ok()??;
    Some(find_client(&head.fields, field, is_trusted))
}

fn is_trusted(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(v4) if v4.octets()[0] == 10)
}

/// Returns the address that X-Forwarded-For leads to.
fn listed(lines: &[&[u8]]) -> Result<Option<IpAddr>, MalformedForwarded> {
    let mut client = None;
    let elements = lines.iter().rev().flat_map(|line| line.rsplit(|&byte| byte == b','));
    for (number, element) in elements.enumerate() {
        let text = String::from_utf8_lossy(element);
        let text = text.trim_matches([' ', '\t']);
        if number == ELEMENT_COUNT_MAX || element.len() > ELEMENT_LEN_MAX {
            return Err(MalformedForwarded);
        }
        match text {
            "" => {}
            _ if is_hidden(text) => break,
            _ => {
                let address = address(text).ok_or(MalformedForwarded)?;
                client = Some(address);
                if !is_trusted(address) {
                    break;
                }
            }
        }
    }
    Ok(client)
}

/// Returns whether an element hides its address. It may have a port.
fn is_hidden(text: &str) -> bool {
    let name = match text.split_once(':') {
        Some((name, port)) if is_port(port) => name,
        _ => text,
    };
    name.eq_ignore_ascii_case("unknown") || is_identifier(name)
}

fn address(text: &str) -> Option<IpAddr> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            return (port.is_empty() || is_port(port.strip_prefix(':')?)).then(|| v6(host))?;
        }
        None if text.matches(':').count() > 1 => return v6(text),
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    host.parse::<std::net::Ipv4Addr>().ok().filter(|_| port.is_none_or(is_port)).map(IpAddr::from)
}

fn v6(text: &str) -> Option<IpAddr> {
    let (address, zone) = text.split_once('%').unwrap_or((text, "zone"));
    let address: Ipv6Addr = address.parse().ok()?;
    (!zone.is_empty() && zone.chars().all(is_name)).then(|| IpAddr::from(address).to_canonical())
}

fn is_port(port: &str) -> bool {
    (1..=5).contains(&port.len()) && port.chars().all(|char| char.is_ascii_digit()) || is_identifier(port)
}

fn is_identifier(text: &str) -> bool {
    text.strip_prefix('_').is_some_and(|rest| !rest.is_empty() && rest.chars().all(is_name))
}

fn is_name(char: char) -> bool {
    char.is_ascii_alphanumeric() || ['.', '_', '-'].contains(&char)
}
