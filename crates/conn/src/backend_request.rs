//! Writes the head of a request for a backend: its fields without a protocol.

use crate::{
    backend::{BackendProtocol, HashKey},
    bounded_writer::BoundedWriter,
    pipe::fields::{MessageFields, MessageFieldsWriter, end_to_end_fields},
    plan,
    request::{Request, Resource},
    websocket_keys::WebSocketKey,
};
use std::{
    hash::{DefaultHasher, Hash, Hasher},
    io::Write,
    net::IpAddr,
};
use tarpon_http::{
    FieldName, Method,
    basic::{self, CREDENTIALS_LEN_MAX},
    fields::Fields,
    head::Version,
    status::Status,
    target::Scheme,
};

/// A request for a backend.
pub(crate) struct BackendRequest<'a> {
    pub(crate) request: &'a Request<'a>,
    /// The method, as received.
    pub(crate) method: &'a [u8],
    pub(crate) version: Version,
    pub(crate) protocol: BackendProtocol,
    /// The address of the peer, which may be a proxy.
    pub(crate) peer: Option<IpAddr>,
    /// The protocol that the client asks for.
    pub(crate) upgrade: Option<&'a [u8]>,
    /// The key that the server gets in the place of one from the client. RFC 8441, section 5.
    pub(crate) websocket_key: Option<WebSocketKey>,
    /// The client waits for 100 (Continue).
    pub(crate) awaits_continue: bool,
    /// The content has no length.
    pub(crate) has_unknown_length: bool,
}

impl BackendRequest<'_> {
    /// Writes a request as a list of fields. Returns the length of the list.
    ///
    /// # Errors
    /// Returns the status of the response: the request is not for a backend, or too long.
    pub(crate) fn write(&self, to: &mut [u8]) -> Result<usize, Status> {
        let fields = self.request.fields;
        if fields.has(FieldName::Expect) && !plan::expects_only_continue(fields) {
            return Err(Status::ExpectationFailed);
        }
        let to_server = self.protocol == BackendProtocol::Http1;
        if to_server && self.request.method == Method::Trace {
            // It would show a client the fields that this server adds, and those that proxies before it have added.
            return Err(Status::MethodNotAllowed);
        }
        if to_server && self.request.method == Method::Options && is_last_recipient(fields) {
            return Err(Status::NotImplemented);
        }
        let path = match self.request.resource {
            Ok(Resource::Path { path, query: None }) => [path, b""],
            // With its `?`. A target in absolute form may have a query and no path.
            Ok(Resource::Path { path, query: Some(query) }) => {
                [path, self.request.part(query).with_byte_before().of(self.request.bytes)]
            }
            Ok(Resource::Server) => [&b"*"[..], b""],
            // Tunnels are not for backends.
            Ok(Resource::Tunnel) => return Err(Status::MethodNotAllowed),
            Err(error) => return Err(error.status()),
        };
        self.write_fields(path, to).ok_or(Status::RequestHeaderFieldsTooLarge)
    }

    fn write_fields(&self, path: [&[u8]; 2], to: &mut [u8]) -> Option<usize> {
        let (request, to_server) = (self.request, self.protocol == BackendProtocol::Http1);
        let mut writer = MessageFieldsWriter::new(to);
        writer.put(b":method", self.method)?;
        writer.put(
            b":scheme",
            match request.client.scheme {
                Some(Scheme::Https) => b"https",
                Some(Scheme::Http) | None => b"http",
            },
        )?;
        writer.put(b":authority", request.authority.unwrap_or_default())?;
        writer.put_joined(b":path", path)?;
        writer.put(
            b":version",
            match self.version {
                Version::Http10 => b"1.0",
                Version::Http11 => b"1.1",
                Version::Http2 => b"2.0",
            },
        )?;
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
        if request.client.password.is_some() {
            let mut decoded = [0; CREDENTIALS_LEN_MAX];
            if let Some(credentials) = basic::credentials(request.fields, &mut decoded) {
                writer.put(b":user", credentials.name)?;
            }
        }
        if let Some(address) = self.peer {
            let mut text = [0; ADDRESS_LEN_MAX];
            let len = write_address(address, &mut text);
            writer.put(b":peer", &text[..len])?;
        }
        if let Some(protocol) = self.upgrade {
            writer.put(b":upgrade", protocol)?;
        }
        if let Some(key) = self.websocket_key {
            writer.put(b"sec-websocket-key", &key)?;
        }
        if to_server && self.has_unknown_length {
            writer.put(b":chunked", b"1")?;
        }
        if to_server && self.awaits_continue {
            writer.put(b"expect", b"100-continue")?;
        }
        // A client of HTTP/2 may split its cookies, and other protocols have one field: RFC 9113, section 8.2.3.
        let joins_cookies = self.version == Version::Http2;
        let is_cookie = |name: &[u8]| joins_cookies && name == b"cookie";
        let has_key = self.websocket_key.is_some();
        let is_other_key = |name: &[u8]| has_key && name == b"sec-websocket-key";
        let is_usual = |(name, _): &(&[u8], &[u8])| !is_cookie(name) && !is_other_key(name);
        for (name, value) in end_to_end_fields(request.fields).filter(is_usual) {
            writer.put(name, value)?;
        }
        let cookies = || end_to_end_fields(request.fields).filter(|(name, _)| is_cookie(name));
        if cookies().next().is_some() {
            writer.put_list(b"cookie", || cookies().map(|(_, value)| value), b"; ")?;
        }
        Some(writer.len())
    }

    /// Returns the hash by which a server is chosen: equal for exchanges that belong together, in all workers.
    pub(crate) fn key(&self, hash_key: HashKey) -> u64 {
        let mut hasher = DefaultHasher::new();
        match (hash_key, self.request.resource) {
            (HashKey::Client, _) => self.request.client.address.hash(&mut hasher),
            (HashKey::Path, Ok(Resource::Path { path, .. })) => path.hash(&mut hasher),
            _ => return 0,
        }
        hasher.finish()
    }
}

/// Returns whether a request must not be forwarded further. RFC 9110, section 7.6.2.
fn is_last_recipient(fields: &Fields<'_>) -> bool {
    fields.iter().any(|(name, value)| name.eq_ignore_ascii_case(b"max-forwards") && value == b"0")
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

/// Writes a list of fields, to which a backend has redirected, as the head of a request of HTTP/1.
pub(crate) fn write_as_head(list: MessageFields<'_>, writer: &mut BoundedWriter<'_>) -> Option<()> {
    writer.put(list.get(b":method")?)?;
    writer.put(b" ")?;
    writer.put(list.get(b":path")?)?;
    writer.put(b" HTTP/1.1\r\nHost: ")?;
    writer.put(list.get(b":authority").unwrap_or_default())?;
    writer.put(b"\r\n")?;
    for (name, value) in list.iter().filter(|(name, _)| !name.starts_with(b":")) {
        writer.put(name)?;
        writer.put(b": ")?;
        writer.put(value)?;
        writer.put(b"\r\n")?;
    }
    writer.put(b"\r\n")
}
