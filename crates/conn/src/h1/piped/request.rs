//! Writes the head of a request for a backend: its fields without a protocol.

use crate::{
    backend::{BackendProtocol, HashKey},
    bounded_writer::BoundedWriter,
    h1::{RequestContent, request::request, request_content::expects_continue},
    pipe::fields::{MessageFieldsWriter, end_to_end_fields},
    plan,
    request::{Client, Request, Resource},
};
use std::{
    hash::{DefaultHasher, Hash, Hasher},
    io::Write,
    net::IpAddr,
};
use tarpon_http::{
    FieldName, Method, field,
    head::{self, Head, Version},
    persist,
    status::Status,
    target::Scheme,
};

/// What a connection keeps of a request for a backend.
pub(super) struct PipedRequest {
    pub(super) version: Version,
    pub(super) client_persists: bool,
    pub(super) with_content: bool,
    pub(super) awaits_continue: bool,
    /// The client asks for another protocol.
    pub(super) wants_upgrade: bool,
    pub(super) content: Option<RequestContent>,
    /// The length of the head in the input.
    pub(super) head_len: usize,
    /// The length of the list of fields.
    pub(super) list_len: usize,
    /// The hash by which a server is chosen.
    pub(super) key: u64,
}

impl PipedRequest {
    /// Writes the head at the start of `bytes` as a list of fields.
    ///
    /// # Errors
    /// Returns the status of the response: the request is invalid, or not for a backend.
    pub(super) fn write(bytes: &[u8], target: &PipedTarget, to: &mut [u8]) -> Result<PipedRequest, Status> {
        let &PipedTarget { client, content_len_max, hash_key, protocol, .. } = target;
        let (head, head_len) = head::parse(bytes).ok().flatten().ok_or(Status::BadRequest)?;
        let host = head.host().map_err(|error| error.status())?;
        let content = RequestContent::of(&head, content_len_max)?;
        if head.fields.has(FieldName::Expect) && !plan::expects_only_continue(&head.fields) {
            return Err(Status::ExpectationFailed);
        }
        let request = Request { client, ..request(&head, bytes, host) };
        let to_server = protocol == BackendProtocol::Http1;
        if to_server && head.method == Method::Trace {
            // It would show a client the fields that this server adds, and those that proxies before it have added.
            return Err(Status::MethodNotAllowed);
        }
        if to_server && head.method == Method::Options && is_last_recipient(&head) {
            return Err(Status::NotImplemented);
        }
        let awaits_continue = content.is_some() && expects_continue(&head);
        let upgrade = upgrade(&head).filter(|_| to_server && content.is_none());
        let added = AddedFields {
            peer: target.peer,
            upgrade,
            expects: to_server && awaits_continue,
            is_chunked: to_server && matches!(content, Some(RequestContent::Chunked { .. })),
        };
        let method = bytes.trim_ascii_start().split(|&byte| byte == b' ').next().unwrap_or_default();
        Ok(PipedRequest {
            version: head.version,
            client_persists: persist::persists(head.version, &head.fields),
            with_content: request.with_content(),
            awaits_continue,
            wants_upgrade: upgrade.is_some(),
            content,
            head_len,
            list_len: write_request(&request, &head, method, &added, to)?,
            key: key(&request, hash_key),
        })
    }
}

/// The backend and the client of a request.
pub(super) struct PipedTarget {
    pub(super) client: Client,
    /// The address of the peer, which may be a proxy.
    pub(super) peer: Option<IpAddr>,
    pub(super) content_len_max: u64,
    pub(super) hash_key: HashKey,
    pub(super) protocol: BackendProtocol,
}

/// What only servers that speak HTTP get.
struct AddedFields<'a> {
    peer: Option<IpAddr>,
    upgrade: Option<&'a [u8]>,
    expects: bool,
    /// The content of the request has no length.
    is_chunked: bool,
}

/// Returns the protocol that a request asks for besides HTTP/1. RFC 9110, section 7.8. A version of HTTP or TLS belongs to the connection with
/// this server, so it is none.
fn upgrade<'a>(head: &Head<'a>) -> Option<&'a [u8]> {
    let mut values = head.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"upgrade"));
    let (_, value) = values.next().filter(|_| head.version == Version::Http11)?;
    let is_named = field::has_token(head.fields.all(FieldName::Connection), b"upgrade");
    let is_own = |start: &[u8]| value.get(..start.len()).is_some_and(|of| of.eq_ignore_ascii_case(start));
    let is_one = values.next().is_none() && !value.is_empty() && !value.contains(&b',');
    (is_named && is_one && ![&b"h2"[..], b"http", b"tls"].into_iter().any(is_own)).then_some(value)
}

/// Returns whether a request must not be forwarded further. RFC 9110, section 7.6.2.
fn is_last_recipient(head: &Head<'_>) -> bool {
    let mut fields = head.fields.iter();
    fields.any(|(name, value)| name.eq_ignore_ascii_case(b"max-forwards") && value == b"0")
}

/// Returns the hash by which a server is chosen: equal for exchanges that belong together, in all workers.
fn key(request: &Request<'_>, hash_key: HashKey) -> u64 {
    let mut hasher = DefaultHasher::new();
    match (hash_key, request.resource) {
        (HashKey::Client, _) => request.client.address.hash(&mut hasher),
        (HashKey::Path, Ok(Resource::Path { path, .. })) => path.hash(&mut hasher),
        _ => return 0,
    }
    hasher.finish()
}

/// The length of the longest text of an address.
const ADDRESS_LEN_MAX: usize = "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255".len();

/// The length of the longest port.
const PORT_LEN_MAX: usize = "65535".len();

/// Writes an address as text, and returns its length.
fn write_address(address: IpAddr, to: &mut [u8; ADDRESS_LEN_MAX]) -> usize {
    let mut rest = &mut to[..];
    // The text of every address fits.
    let _ = write!(rest, "{address}");
    let left = rest.len();
    ADDRESS_LEN_MAX - left
}

/// Writes a request as a list of fields. Returns the length of the list.
fn write_request(
    request: &Request<'_>,
    head: &Head<'_>,
    method: &[u8],
    added: &AddedFields<'_>,
    to: &mut [u8],
) -> Result<usize, Status> {
    let path = match request.resource {
        Ok(Resource::Path { path, query: None }) => [path, b""],
        // With its `?`. A target in absolute form may have a query and no path.
        Ok(Resource::Path { path, query: Some(query) }) => {
            [path, request.part(query).with_byte_before().of(request.bytes)]
        }
        Ok(Resource::Server) => [&b"*"[..], b""],
        // Tunnels are not for backends.
        Ok(Resource::Tunnel) => return Err(Status::MethodNotAllowed),
        Err(error) => return Err(error.status()),
    };
    let scheme: &[u8] = match request.client.scheme {
        Some(Scheme::Https) => b"https",
        Some(Scheme::Http) | None => b"http",
    };
    let mut writer = MessageFieldsWriter::new(to);
    let mut write = || {
        writer.put(b":method", method)?;
        writer.put(b":scheme", scheme)?;
        writer.put(b":authority", request.authority.unwrap_or_default())?;
        writer.put_joined(b":path", path)?;
        writer.put(b":version", if head.version == Version::Http10 { b"1.0" } else { b"1.1" })?;
        if let Some(address) = request.client.address {
            let mut text = [0; ADDRESS_LEN_MAX];
            let len = write_address(address, &mut text);
            writer.put(b":client", &text[..len])?;
        }
        if let Some(port) = request.client.port {
            let mut digits = [0; PORT_LEN_MAX];
            let mut text = BoundedWriter::new(&mut digits);
            text.put_number(port.get().into())?;
            let len = text.len();
            writer.put(b":client-port", &digits[..len])?;
        }
        if let Some(address) = added.peer {
            let mut text = [0; ADDRESS_LEN_MAX];
            let len = write_address(address, &mut text);
            writer.put(b":peer", &text[..len])?;
        }
        if let Some(protocol) = added.upgrade {
            writer.put(b":upgrade", protocol)?;
        }
        if added.is_chunked {
            writer.put(b":chunked", b"1")?;
        }
        if added.expects {
            writer.put(b"expect", b"100-continue")?;
        }
        for (name, value) in end_to_end_fields(&head.fields) {
            writer.put(name, value)?;
        }
        Some(writer.len())
    };
    write().ok_or(Status::RequestHeaderFieldsTooLarge)
}
