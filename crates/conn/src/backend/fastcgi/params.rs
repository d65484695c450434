//! Writes the start of a request: the record that begins it, and its parameters. FastCGI Specification 1.0, sections 5.1, 5.2 and 6.2.
//!
//! The parameters are those that a program of CGI gets as its environment (RFC 3875, section 4.1). The parameters of the configuration replace
//! those of the same name, as `fastcgi_param` of nginx does. No field of a client replaces another parameter: all of its names begin with
//! `HTTP_`, and each name is written once.

use super::script::{self, FoundScript};
use crate::{
    backend::{BackendSettings, FastCgiSettings, http1::client_fields::names_client},
    bounded_writer::{BoundedWriter, NUMBER_LEN_MAX, decimal},
    pipe::fields::MessageFields,
};
use tarpon_http::{
    fastcgi::{
        FASTCGI_BEGIN_LEN, FASTCGI_HEADER_LEN, FastCgiHeader, FastCgiKind, FastCgiLength, begin_request,
        end_of_stream,
    },
    host,
    status::Status,
    target::{self, PATH_LEN_MAX},
};

/// The maximum length of the start of a request with a head of this length: its query is written twice, and a path of 4 KiB up to six times.
pub(in crate::backend) const fn request_len_max(head_len_max: usize) -> usize {
    2 * head_len_max + 6 * PATH_LEN_MAX
}

/// The maximum length of the content of a record. Section 3.3.
const RECORD_LEN_MAX: usize = u16::MAX as usize;

/// Fields that are no parameters: those that have a parameter of their own, and Proxy, whose parameter HTTP_PROXY would name a proxy to programs
/// that connect elsewhere (CVE-2016-5385 and others).
const NO_PARAMETERS: [&[u8]; 5] =
    [b"content-length", b"content-type", b"host", b"proxy", b"proxy-authorization"];

/// Why a request is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::backend) enum FastCgiRefusal {
    /// The list is no request, or its Content-Length is no number.
    Malformed,
    /// The path names no script.
    NotFound,
    /// The length of the content is unknown, and applications read as much as CONTENT_LENGTH says.
    LengthRequired,
    /// The parameters do not fit.
    TooLong,
}

impl FastCgiRefusal {
    /// Returns the status of the response.
    pub(in crate::backend) fn status(self) -> Status {
        match self {
            FastCgiRefusal::Malformed => Status::BadRequest,
            FastCgiRefusal::NotFound => Status::NotFound,
            FastCgiRefusal::LengthRequired => Status::LengthRequired,
            FastCgiRefusal::TooLong => Status::RequestHeaderFieldsTooLarge,
        }
    }
}

/// Returns the length of the content of a request. `is_complete`: nothing follows its head. `Ok(None)`: there is no content.
///
/// # Errors
/// Content follows, but its length is unknown.
pub(in crate::backend) fn content_length(
    list: MessageFields<'_>,
    is_complete: bool,
) -> Result<Option<u64>, FastCgiRefusal> {
    let length = match list.get(b"content-length") {
        None => None,
        Some(digits) => {
            let text = str::from_utf8(digits).ok().filter(|_| digits.iter().all(u8::is_ascii_digit));
            Some(text.and_then(|text| text.parse().ok()).ok_or(FastCgiRefusal::Malformed)?)
        }
    };
    match (length, is_complete) {
        (Some(1..), true) => Err(FastCgiRefusal::Malformed),
        (length, true) => Ok(length),
        (Some(length), false) => Ok(Some(length)),
        (None, false) => Err(FastCgiRefusal::LengthRequired),
    }
}

/// Writes the start of a request to the front of `to`, of which it needs [`request_len_max`] bytes at most: BeginRequest, Params, and their end;
/// without content also the end of Stdin. Returns its length.
///
/// # Errors
/// The request has no script, or too many parameters.
pub(in crate::backend) fn write_request(
    list: MessageFields<'_>,
    settings: &BackendSettings,
    content_length: Option<u64>,
    keeps_connection: bool,
    to: &mut [u8],
) -> Result<usize, FastCgiRefusal> {
    let default = FastCgiSettings::default();
    let fastcgi = settings.fastcgi.as_ref().unwrap_or(&default);
    let sent = list.get(b":path").ok_or(FastCgiRefusal::Malformed)?;
    let (path, query) = split_path(sent);
    let mut scratch = [0; PATH_LEN_MAX];
    let path = target::normalize(path, &mut scratch).map_err(|_| FastCgiRefusal::NotFound)?;
    let script = script::find(path, fastcgi).ok_or(FastCgiRefusal::NotFound)?;
    let mut writer = BoundedWriter::new(to);
    let mut write = || {
        writer.put(&begin_request(keeps_connection))?;
        // Replaced below, when the length is known.
        writer.put(&[0; FASTCGI_HEADER_LEN])?;
        let mut params = ParamsWriter { writer: &mut writer, configured: &fastcgi.params };
        params.put_fields(list)?;
        params.put_server(list, settings.host.as_deref().map(str::as_bytes))?;
        params.put_request(list, content_length)?;
        params.put("REQUEST_URI", &[sent])?;
        params.put("QUERY_STRING", &[query])?;
        params.put_script(&script, fastcgi.root.as_bytes())?;
        params.put_configured()?;
        let params_len = writer.len() - PARAMS_AT;
        // Room for the headers of further records: the parameters move behind them.
        for _ in 1..params_len.div_ceil(RECORD_LEN_MAX) {
            writer.put(&[0; FASTCGI_HEADER_LEN])?;
        }
        writer.put(&end_of_stream(FastCgiKind::Params))?;
        if content_length.is_none_or(|length| length == 0) {
            writer.put(&end_of_stream(FastCgiKind::Stdin))?;
        }
        Some((params_len, writer.len()))
    };
    let (params_len, len) = write().ok_or(FastCgiRefusal::TooLong)?;
    put_record_headers(to, params_len);
    Ok(len)
}

/// Where the parameters begin: behind BeginRequest and the header of their first record.
const PARAMS_AT: usize = FASTCGI_BEGIN_LEN + FASTCGI_HEADER_LEN;

/// Divides the parameters in records: writes the header of each, the last one first. There is room for all headers behind the parameters.
fn put_record_headers(to: &mut [u8], params_len: usize) {
    for number in (0..params_len.div_ceil(RECORD_LEN_MAX)).rev() {
        let from = number * RECORD_LEN_MAX;
        let len = RECORD_LEN_MAX.min(params_len - from);
        let at = PARAMS_AT + from + number * FASTCGI_HEADER_LEN;
        to.copy_within(PARAMS_AT + from..PARAMS_AT + from + len, at);
        let header = FastCgiHeader::new(FastCgiKind::Params, len as u16).encode();
        to[at - FASTCGI_HEADER_LEN..at].copy_from_slice(&header);
    }
}

/// Returns the path and the query of a target. A target in absolute form may have no path: RFC 9112, section 3.2.1.
fn split_path(sent: &[u8]) -> (&[u8], &[u8]) {
    let (path, query) = match sent.iter().position(|&byte| byte == b'?') {
        Some(at) => (&sent[..at], &sent[at + 1..]),
        None => (sent, &b""[..]),
    };
    (if path.is_empty() { b"/" } else { path }, query)
}

/// Writes parameters.
struct ParamsWriter<'w, 't> {
    writer: &'w mut BoundedWriter<'t>,
    configured: &'w [(Box<str>, Box<str>)],
}

impl ParamsWriter<'_, '_> {
    /// Writes a parameter, unless the configuration has one of this name.
    fn put(&mut self, name: &str, value: &[&[u8]]) -> Option<()> {
        if self.is_configured(|configured| configured == name.as_bytes()) {
            return Some(());
        }
        self.put_lengths(name.len(), value.iter().map(|part| part.len()).sum())?;
        self.writer.put(name.as_bytes())?;
        value.iter().try_for_each(|part| self.writer.put(part))
    }

    fn put_lengths(&mut self, name_len: usize, value_len: usize) -> Option<()> {
        self.writer.put(FastCgiLength::new(name_len)?.bytes())?;
        self.writer.put(FastCgiLength::new(value_len)?.bytes())
    }

    fn is_configured(&self, is_name: impl Fn(&[u8]) -> bool) -> bool {
        self.configured.iter().any(|(name, _)| is_name(name.as_bytes()))
    }

    /// Writes a parameter for each field, with the values of repeated fields joined: RFC 3875, section 4.1.18. A name with other characters
    /// than letters, digits and hyphens is left out: its parameter would be that of another field.
    fn put_fields(&mut self, list: MessageFields<'_>) -> Option<()> {
        for (at, (name, _)) in list.iter().enumerate() {
            let is_plain = name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-');
            // The client could forge those that name it, and REMOTE_ADDR, REQUEST_SCHEME and HTTP_HOST say the same.
            let is_left_out = NO_PARAMETERS.contains(&name) || names_client(name);
            let is_repeated = list.iter().take(at).any(|(before, _)| before == name);
            let letters = || {
                b"HTTP_".iter().copied().chain(name.iter().map(|byte| match byte {
                    b'-' => b'_',
                    byte => byte.to_ascii_uppercase(),
                }))
            };
            let is_configured = || self.is_configured(|configured| letters().eq(configured.iter().copied()));
            if !is_plain || is_left_out || is_repeated || is_configured() {
                continue;
            }
            // RFC 6265, section 5.4: Cookie is no list.
            let separator: &[u8] = if name == b"cookie" { b"; " } else { b", " };
            let values = || list.iter().filter(|(found, _)| *found == name).map(|(_, value)| value);
            let values_len = values().map(|value| value.len() + separator.len()).sum::<usize>();
            self.put_lengths(letters().count(), values_len - separator.len())?;
            for letter in letters() {
                self.writer.put(&[letter])?;
            }
            for (at, value) in values().enumerate() {
                self.writer.put(if at == 0 { b"" } else { separator })?;
                self.writer.put(value)?;
            }
        }
        Some(())
    }

    /// Writes what the server and its client are. `host`: that of the configuration.
    fn put_server(&mut self, list: MessageFields<'_>, host: Option<&[u8]>) -> Option<()> {
        self.put("GATEWAY_INTERFACE", &[b"CGI/1.1"])?;
        self.put("SERVER_SOFTWARE", &[concat!("tarpon/", env!("CARGO_PKG_VERSION")).as_bytes()])?;
        let is_https = list.get(b":scheme") == Some(b"https");
        self.put("REQUEST_SCHEME", &[if is_https { b"https" } else { b"http" }])?;
        if is_https {
            self.put("HTTPS", &[b"on"])?;
        }
        let authority = host.or_else(|| list.get(b":authority")).unwrap_or_default();
        let (name, port) = host::split_port(authority);
        // Required: RFC 3875, section 4.1.14.
        self.put("SERVER_NAME", &[if name.is_empty() { b"localhost" } else { name }])?;
        let port: &[u8] = match port.strip_prefix(b":").unwrap_or_default() {
            b"" if is_https => b"443",
            b"" => b"80",
            port => port,
        };
        self.put("SERVER_PORT", &[port])?;
        if !authority.is_empty() {
            self.put("HTTP_HOST", &[authority])?;
        }
        // Required: RFC 3875, section 4.1.8. A client on a Unix socket has none, and nginx writes the same.
        let client = list.get(b":client").unwrap_or(b"unix:");
        self.put("REMOTE_ADDR", &[client])?;
        self.put("REMOTE_HOST", &[client])?;
        if let Some(user) = list.get(b":user") {
            self.put("REMOTE_USER", &[user])?;
            self.put("AUTH_TYPE", &[b"Basic"])?;
        }
        list.get(b":client-port").map_or(Some(()), |port| self.put("REMOTE_PORT", &[port]))
    }

    /// Writes what the request is, without its path.
    fn put_request(&mut self, list: MessageFields<'_>, content_length: Option<u64>) -> Option<()> {
        self.put("SERVER_PROTOCOL", &[b"HTTP/", list.get(b":version").unwrap_or(b"1.1")])?;
        self.put("REQUEST_METHOD", &[list.get(b":method").unwrap_or_default()])?;
        // PHP refuses to run without it if it was built with --enable-force-cgi-redirect.
        self.put("REDIRECT_STATUS", &[b"200"])?;
        if let Some(length) = content_length {
            self.put("CONTENT_LENGTH", &[decimal(length, &mut [0; NUMBER_LEN_MAX])])?;
            if let Some(media_type) = list.get(b"content-type") {
                self.put("CONTENT_TYPE", &[media_type])?;
            }
        }
        Some(())
    }

    /// Writes where the script lies.
    fn put_script(&mut self, script: &FoundScript<'_>, root: &[u8]) -> Option<()> {
        let FoundScript { name: [name, index], path_info } = *script;
        let root = root.strip_suffix(b"/").unwrap_or(root);
        self.put("SCRIPT_NAME", &[name, index])?;
        self.put("SCRIPT_FILENAME", &[root, name, index])?;
        self.put("DOCUMENT_URI", &[name, index, path_info])?;
        self.put("DOCUMENT_ROOT", &[if root.is_empty() { b"/" } else { root }])?;
        if !path_info.is_empty() {
            self.put("PATH_INFO", &[path_info])?;
            self.put("PATH_TRANSLATED", &[root, path_info])?;
        }
        Some(())
    }

    /// Writes the parameters of the configuration. Of those with the same name, the last one holds.
    fn put_configured(&mut self) -> Option<()> {
        for (at, (name, value)) in self.configured.iter().enumerate() {
            if self.configured[at + 1..].iter().any(|(later, _)| later == name) {
                continue;
            }
            self.put_lengths(name.len(), value.len())?;
            self.writer.put(name.as_bytes())?;
            self.writer.put(value.as_bytes())?;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests;
