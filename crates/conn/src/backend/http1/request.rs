//! Writes the head of a request for a server. RFC 9112, section 3; RFC 9110, section 7.6.

use super::client_fields::{self, is_spelling_of, names_client};
use crate::{
    backend::{BackendLimits, BackendSettings, PathRewrite, exchange::is_idempotent},
    bounded_writer::{BoundedWriter, NUMBER_LEN_MAX, decimal},
    pipe::fields::MessageFields,
};
use tarpon_http::{
    head::HEAD_LEN_USUAL,
    sent_path::{behind_prefix, without_dot_segments},
};

/// What a connection keeps of a request.
pub(super) struct WrittenRequest<'a> {
    pub(super) len: usize,
    pub(super) is_head: bool,
    /// The protocol that the client has asked for besides HTTP/1.
    pub(super) upgrade: Option<&'a [u8]>,
    /// To repeat it has the effect of one request: RFC 9110, section 9.2.2. It has no content.
    pub(super) is_repeatable: bool,
    pub(super) content: ContentToSend,
}

/// The rest of the content that a request is to have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ContentToSend {
    #[default]
    Nothing,
    Length {
        left: u64,
    },
    Chunked,
    /// The bytes of another protocol.
    Tunnel,
}

/// Writes a request to the front of `to`. `is_complete`: it has no content. `None`: it does not fit, or the list is no request.
pub(super) fn write<'a>(
    list: &'a [u8],
    settings: Option<&BackendSettings>,
    limits: &BackendLimits,
    is_complete: bool,
    to: &mut [u8],
) -> Option<WrittenRequest<'a>> {
    let list = MessageFields::known(list);
    let method = list.get(b":method")?;
    let upgrade = list.get(b":upgrade");
    let length = list.get(b"content-length").and_then(|value| std::str::from_utf8(value).ok()?.parse().ok());
    let content = match length {
        _ if is_complete || upgrade.is_some() => ContentToSend::Nothing,
        Some(left) => ContentToSend::Length { left },
        None => ContentToSend::Chunked,
    };
    let mut writer = BoundedWriter::new(to);
    writer.put(method)?;
    writer.put(b" ")?;
    write_target(list.get(b":path")?, settings.and_then(|settings| settings.rewrite.as_ref()), &mut writer)?;
    writer.put(b" HTTP/1.1\r\n")?;
    let mut put = |parts: &[&[u8]]| parts.iter().try_for_each(|part| writer.put(part));
    // First, as RFC 9110, section 7.2, advises.
    let host = settings.and_then(|settings| settings.host.as_deref()).map(str::as_bytes);
    put(&[b"Host: ", host.or_else(|| list.get(b":authority")).unwrap_or_default(), b"\r\n"])?;
    for (name, value) in list.iter().filter(|(name, _)| is_passed_on(name)) {
        if name == b"max-forwards" && method == b"OPTIONS" {
            // RFC 9110, section 7.6.2. A request with 0 does not come here.
            let count = std::str::from_utf8(value).ok().and_then(|count| count.parse::<u64>().ok());
            let Some(count) = count else { continue };
            put(&[name, b": ", decimal(count.saturating_sub(1), &mut [0; NUMBER_LEN_MAX]), b"\r\n"])?;
        } else {
            put(&[name, b": ", value, b"\r\n"])?;
        }
    }
    write_via(list, &mut put)?;
    client_fields::write(list, &mut writer)?;
    let mut put = |parts: &[&[u8]]| parts.iter().try_for_each(|part| writer.put(part));
    match content {
        ContentToSend::Chunked => put(&[b"Transfer-Encoding: chunked\r\n"])?,
        ContentToSend::Length { left } => put_length(&mut writer, left)?,
        // Empty content: some servers ask for its length.
        _ if length == Some(0) || list.get(b":chunked").is_some() => put_length(&mut writer, 0)?,
        _ => {}
    }
    let mut put = |parts: &[&[u8]]| parts.iter().try_for_each(|part| writer.put(part));
    match upgrade {
        Some(protocol) => put(&[b"Connection: Upgrade\r\nUpgrade: ", protocol, b"\r\n"])?,
        None if limits.idle_ms == 0 || limits.requests_max <= 1 => put(&[b"Connection: close\r\n"])?,
        None => {}
    }
    writer.put(b"\r\n")?;
    Some(WrittenRequest {
        len: writer.len(),
        is_head: method == b"HEAD",
        upgrade,
        is_repeatable: is_complete && upgrade.is_none() && is_idempotent(method),
        content,
    })
}

fn put_length(writer: &mut BoundedWriter<'_>, len: u64) -> Option<()> {
    writer.put(b"Content-Length: ")?;
    writer.put_number(len)?;
    writer.put(b"\r\n")
}

/// Returns whether the server gets this field of the client unchanged. It gets the others in a form of this server's, or not at all.
fn is_passed_on(name: &[u8]) -> bool {
    // In a spelling that programs take for the field itself, no client sends these for a good reason.
    const OWN: [&[u8]; 8] = [
        b"host",
        b"content-length",
        b"transfer-encoding",
        b"connection",
        b"upgrade",
        b"te",
        b"via",
        b"keep-alive",
    ];
    !name.starts_with(b":") && !names_client(name) && !OWN.iter().any(|own| is_spelling_of(name, own))
}

/// Writes Via, with what earlier proxies have written. RFC 9110, section 7.6.3.
fn write_via(list: MessageFields<'_>, put: &mut impl FnMut(&[&[u8]]) -> Option<()>) -> Option<()> {
    put(&[b"Via: "])?;
    for (_, value) in list.iter().filter(|(name, value)| *name == b"via" && !value.is_empty()) {
        put(&[value, b", "])?;
    }
    put(&[list.get(b":version").unwrap_or(b"1.1"), b" tarpon\r\n"])
}

/// The maximum length of a path from which dot segments are removed. No route leads to a longer path.
const DOTTED_PATH_LEN_MAX: usize = HEAD_LEN_USUAL;

/// Writes the target: the path without dot segments, below its new base if it has one, and the query as received.
fn write_target(
    received: &[u8],
    rewrite: Option<&PathRewrite>,
    writer: &mut BoundedWriter<'_>,
) -> Option<()> {
    if !received.starts_with(b"/") && !received.starts_with(b"?") {
        // `*`, for OPTIONS.
        return writer.put(received);
    }
    let end = received.iter().position(|&byte| byte == b'?').unwrap_or(received.len());
    let (path, query) = received.split_at(end);
    let mut scratch = [0; DOTTED_PATH_LEN_MAX];
    let path = without_dot_segments(path, &mut scratch)?;
    let path = match rewrite {
        Some(PathRewrite { prefix_len, base }) => {
            writer.put(base.as_bytes())?;
            behind_prefix(path, *prefix_len)
        }
        None => path,
    };
    if !path.starts_with(b"/") {
        writer.put(b"/")?;
    }
    writer.put(path)?;
    writer.put(query)
}
