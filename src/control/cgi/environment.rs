//! The environment and the arguments of a program: RFC 3875, sections 4.1 and 4.4. Nothing else gets into it.

use super::{request::CgiRequest, resolve::FoundProgram, service::CgiMount};
use std::{collections::BTreeMap, ffi::CString, os::unix::ffi::OsStrExt};

/// Arguments of an indexed query, at most: no search has more words.
const ARGUMENT_COUNT_MAX: usize = 64;

/// Where programs look others up.
const PATH: &[u8] = b"/usr/local/bin:/usr/bin:/bin";

/// Fields that are no variables: those that have a variable of their own, and Proxy, whose variable HTTP_PROXY would name a proxy to programs
/// that connect elsewhere (CVE-2016-5385 and others).
const NO_VARIABLES: [&[u8]; 4] = [b"content-length", b"content-type", b"host", b"proxy"];

/// Credentials, which other processes of the host could read.
const CREDENTIALS: [&[u8]; 2] = [b"authorization", b"proxy-authorization"];

/// The part of the environment that all programs of a configuration share.
#[derive(Clone, Debug, Default)]
pub(super) struct CommonEnvironment {
    /// The variables of the configuration.
    pub(super) configured: Vec<(String, Vec<u8>)>,
    pub(super) passes_authorization: bool,
}

/// Returns the environment of a program. `content_length`: that of the content which it gets.
///
/// # Errors
/// `None`: a value has a NUL.
pub(super) fn environment(
    common: &CommonEnvironment,
    mount: &CgiMount,
    program: &FoundProgram,
    request: &CgiRequest,
    content_length: Option<u64>,
) -> Option<Vec<CString>> {
    let get = |name: &[u8]| request.get(name);
    let mut variables: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    // First, so that no field replaces a variable below.
    add_fields(&mut variables, request, common.passes_authorization);
    let mut set = |name: &str, value: &[u8]| drop(variables.insert(name.into(), value.to_vec()));
    set("PATH", PATH);
    for (name, value) in &common.configured {
        set(name, value);
    }
    set("GATEWAY_INTERFACE", b"CGI/1.1");
    set("SERVER_SOFTWARE", concat!("tarpon/", env!("CARGO_PKG_VERSION")).as_bytes());
    let is_https = get(b":scheme") == Some(b"https");
    set("REQUEST_SCHEME", if is_https { b"https" } else { b"http" });
    if is_https {
        set("HTTPS", b"on");
    }
    let authority = get(b":authority").unwrap_or_default();
    let (host, port) = split_authority(authority);
    set("SERVER_NAME", if host.is_empty() { mount.server_name.as_bytes() } else { host });
    set("SERVER_PORT", port.unwrap_or(if is_https { b"443" } else { b"80" }));
    if !authority.is_empty() {
        set("HTTP_HOST", authority);
    }
    let version = get(b":version").unwrap_or(b"1.1");
    set("SERVER_PROTOCOL", &[b"HTTP/", version].concat());
    set("REQUEST_METHOD", get(b":method").unwrap_or_default());
    set("REQUEST_URI", request.target());
    set("QUERY_STRING", request.query());
    // Required: RFC 3875, section 4.1.8. A client on a Unix socket has none, and nginx writes the same.
    let client = get(b":client").unwrap_or(b"unix:");
    set("REMOTE_ADDR", client);
    set("REMOTE_HOST", client);
    if let Some(user) = get(b":user") {
        set("REMOTE_USER", user);
        set("AUTH_TYPE", b"Basic");
    }
    if let Some(port) = get(b":client-port") {
        set("REMOTE_PORT", port);
    }
    let (script, path_info) = request.path.split_at(program.script_len);
    set("SCRIPT_NAME", script);
    set("SCRIPT_FILENAME", program.path.as_os_str().as_bytes());
    let root = mount.document_root.as_os_str().as_bytes();
    set("DOCUMENT_ROOT", root);
    if !path_info.is_empty() {
        set("PATH_INFO", path_info);
        set("PATH_TRANSLATED", &[root.strip_suffix(b"/").unwrap_or(root), path_info].concat());
    }
    if let Some(length) = content_length {
        set("CONTENT_LENGTH", length.to_string().as_bytes());
        if let Some(media_type) = get(b"content-type") {
            set("CONTENT_TYPE", media_type);
        }
    }
    variables.into_iter().map(|(name, value)| CString::new([&name[..], b"=", &value].concat()).ok()).collect()
}

/// Adds a variable for each field, with the values of repeated fields joined: RFC 3875, section 4.1.18. A name with other characters than
/// letters, digits and hyphens is left out: its variable would be that of another field.
fn add_fields(variables: &mut BTreeMap<Vec<u8>, Vec<u8>>, request: &CgiRequest, with_credentials: bool) {
    for (name, value) in request.fields().iter() {
        let is_plain = name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-');
        if !is_plain || NO_VARIABLES.contains(&name) || !with_credentials && CREDENTIALS.contains(&name) {
            continue;
        }
        let letters = name.iter().map(|byte| if *byte == b'-' { b'_' } else { byte.to_ascii_uppercase() });
        let variable = b"HTTP_".iter().copied().chain(letters).collect();
        // RFC 6265, section 5.4: Cookie is no list.
        let separator: &[u8] = if name == b"cookie" { b"; " } else { b", " };
        variables
            .entry(variable)
            .and_modify(|before| before.extend([separator, value].concat()))
            .or_insert_with(|| value.to_vec());
    }
}

/// Splits a valid authority into host and port.
fn split_authority(authority: &[u8]) -> (&[u8], Option<&[u8]>) {
    let colon = authority.iter().rposition(|&byte| byte == b':');
    match colon.filter(|&at| authority[at + 1..].iter().all(u8::is_ascii_digit)) {
        Some(at) => (&authority[..at], Some(&authority[at + 1..]).filter(|port| !port.is_empty())),
        None => (authority, None),
    }
}

/// Returns the arguments of a program, its name first: those of an indexed query, RFC 3875, section 4.4. If one of them begins with a hyphen,
/// the program gets none: it might take it for an option (CVE-2012-1823).
pub(super) fn arguments(program: &FoundProgram, request: &CgiRequest) -> Vec<CString> {
    let query = request.query();
    let is_indexed = matches!(request.get(b":method"), Some(b"GET" | b"HEAD"))
        && !query.is_empty()
        && !query.contains(&b'=');
    let words = query.split(|&byte| byte == b'+').filter(|_| is_indexed);
    let words: Option<Vec<CString>> = words.map(decoded).collect();
    let is_safe = |words: &Vec<CString>| {
        words.len() <= ARGUMENT_COUNT_MAX && !words.iter().any(|word| word.as_bytes().starts_with(b"-"))
    };
    let words = words.filter(is_safe).unwrap_or_default();
    [program.file.clone()].into_iter().chain(words).collect()
}

/// Decodes the escapes of a word. `None`: one is invalid, or a NUL.
fn decoded(word: &[u8]) -> Option<CString> {
    let (mut bytes, mut rest) = (Vec::new(), word);
    while let Some((&byte, behind)) = rest.split_first() {
        (bytes, rest) = match byte {
            b'%' => {
                let (digits, behind) = behind.split_at_checked(2)?;
                let text =
                    str::from_utf8(digits).ok().filter(|_| digits.iter().all(u8::is_ascii_hexdigit))?;
                bytes.push(u8::from_str_radix(text, 16).ok()?);
                (bytes, behind)
            }
            _ => {
                bytes.push(byte);
                (bytes, behind)
            }
        };
    }
    CString::new(bytes).ok()
}
