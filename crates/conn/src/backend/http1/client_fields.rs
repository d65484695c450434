//! The fields that name the client of a request: Forwarded (RFC 7239), X-Forwarded-For and its like.
//!
//! They are written anew: for the client that this server knows, and for the proxy before it if that is trusted. So no client can forge them.

use crate::{bounded_writer::BoundedWriter, pipe::fields::MessageFields};

/// Returns whether a field of a request names its client, in any spelling: programs often take `_` for `-`.
pub(in crate::backend) fn names_client(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 11] = [
        b"forwarded",
        b"x-forwarded-for",
        b"x-forwarded-proto",
        b"x-forwarded-host",
        b"x-forwarded-port",
        b"x-forwarded-by",
        b"x-forwarded-server",
        b"x-forwarded-scheme",
        b"x-forwarded-ssl",
        b"x-real-ip",
        b"x-client-ip",
    ];
    NAMES.iter().any(|of| is_spelling_of(name, of))
}

/// Returns whether programs that take `_` for `-` take `name` for `of`.
pub(super) fn is_spelling_of(name: &[u8], of: &[u8]) -> bool {
    let dashed = |byte: &u8| if *byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    name.len() == of.len() && name.iter().map(dashed).eq(of.iter().copied())
}

/// Writes the fields of a request.
pub(super) fn write(list: MessageFields<'_>, writer: &mut BoundedWriter<'_>) -> Option<()> {
    let scheme = list.get(b":scheme")?;
    let host = list.get(b":authority").filter(|host| !host.is_empty());
    let client = list.get(b":client");
    let peer = list.get(b":peer").filter(|peer| client.is_some() && Some(*peer) != client);
    let mut put = |parts: &[&[u8]]| parts.iter().try_for_each(|part| writer.put(part));

    // RFC 7239, section 4. Values with colons or brackets are quoted.
    put(&[b"Forwarded: for="])?;
    put_node(&mut put, client)?;
    if let Some(host) = host {
        put(&[b";host=\"", host, b"\""])?;
    }
    put(&[b";proto=", scheme])?;
    if peer.is_some() {
        put(&[b", for="])?;
        put_node(&mut put, peer)?;
    }
    put(&[b"\r\n"])?;

    if let Some(client) = client {
        put(&[b"X-Forwarded-For: ", client])?;
        peer.map_or(Some(()), |peer| put(&[b", ", peer]))?;
        put(&[b"\r\n"])?;
    }
    if let Some(host) = host {
        put(&[b"X-Forwarded-Host: ", host, b"\r\n"])?;
    }
    put(&[b"X-Forwarded-Proto: ", scheme, b"\r\n"])
}

/// Writes a node of Forwarded: RFC 7239, section 6.
fn put_node(put: &mut impl FnMut(&[&[u8]]) -> Option<()>, address: Option<&[u8]>) -> Option<()> {
    match address {
        None => put(&[b"unknown"]),
        Some(address) if address.contains(&b':') => put(&[b"\"[", address, b"]\""]),
        Some(address) => put(&[address]),
    }
}
