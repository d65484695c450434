//! Writes the head of a request of HTTP/1 for a backend.

use crate::{
    backend::{BackendProtocol, HashKey},
    backend_request::BackendRequest,
    h1::{RequestContent, request::request, request_content::expects_continue},
    request::{Client, Request},
};
use std::net::IpAddr;
use tarpon_http::{
    FieldName, field,
    head::{self, Head, Version},
    persist,
    status::Status,
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
        let &PipedTarget { client, content_len_max, hash_key, protocol, peer } = target;
        let (head, head_len) = head::parse(bytes).ok().flatten().ok_or(Status::BadRequest)?;
        let host = head.host().map_err(|error| error.status())?;
        let content = RequestContent::of(&head, content_len_max)?;
        let request = Request { client, ..request(&head, bytes, host) };
        let awaits_continue = content.is_some() && expects_continue(&head);
        let to_server = protocol == BackendProtocol::Http1;
        let upgrade = upgrade(&head).filter(|_| to_server && content.is_none());
        let of_backend = BackendRequest {
            request: &request,
            method: bytes.trim_ascii_start().split(|&byte| byte == b' ').next().unwrap_or_default(),
            version: head.version,
            protocol,
            peer,
            upgrade,
            websocket_key: None,
            awaits_continue,
            has_unknown_length: matches!(content, Some(RequestContent::Chunked { .. })),
        };
        Ok(PipedRequest {
            version: head.version,
            client_persists: persist::persists(head.version, &head.fields),
            with_content: request.with_content(),
            awaits_continue,
            wants_upgrade: upgrade.is_some(),
            head_len,
            list_len: of_backend.write(to)?,
            key: of_backend.key(hash_key),
            content,
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
