//! The request-target: its four forms, and the path it is looked up by.
//! RFC 9112, section 3.2; RFC 3986, sections 3.3, 5.2.4 and 6.2.2.
//!
//! ```text
//! origin     /path?query              CONNECT only:  authority  host:port
//! absolute   http://host/path?query   OPTIONS only:  asterisk   *
//! ```
//!
//! Knows nothing of files or of what a path names.

use crate::head::Method;
use crate::host;
use crate::status::Status;

/// The longest path looked up, decoded: what Linux takes for a path (`PATH_MAX`), so no file's is
/// longer.
pub const PATH_LEN_MAX: usize = 4096;

/// A request-target, in parts. Paths begin with `/` and are as received, see [`normalize`];
/// queries are as received, without their `?`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// `/path?query`
    Origin {
        /// From the first `/` on.
        path: &'a [u8],
        /// What stands behind the first `?`, if there is one.
        query: Option<&'a [u8]>,
    },
    /// `http://host/path?query`, or `https`.
    Absolute {
        /// Host and port, valid and not empty. Takes precedence over the Host field.
        authority: &'a [u8],
        /// `/` where the target has no path.
        path: &'a [u8],
        /// What stands behind the first `?`, if there is one.
        query: Option<&'a [u8]>,
    },
    /// `host:port`, of CONNECT.
    Authority(&'a [u8]),
    /// `*`, of OPTIONS.
    Asterisk,
}

/// Takes `target`, as a [`crate::head::Head`] has it, apart.
///
/// Lenient where nothing depends on it: bytes that RFC 3986 wants escaped but browsers send as
/// they are, such as `|` and `{`, stand for themselves.
///
/// # Errors
///
/// [`TargetError::Form`], unless the target has one of the forms that `method` may have.
#[inline]
pub fn parse(method: Method, target: &[u8]) -> Result<Target<'_>, TargetError> {
    if method != Method::Connect && target.first() == Some(&b'/') {
        let (path, query) = split_query(target);
        return Ok(Target::Origin { path, query });
    }
    match (method, target) {
        (Method::Connect, authority) => authority_form(authority),
        (Method::Options, b"*") => Ok(Target::Asterisk),
        (_, target) => absolute_form(target),
    }
}

/// Whether `path` needs no normalizing: no escape, no segment that begins with a dot. (Such a
/// segment is rarely anything but a dot segment; [`normalize`] looks closer.)
#[inline]
pub fn is_plain(path: &[u8]) -> bool {
    if path.first() != Some(&b'/') || path.len() > PATH_LEN_MAX {
        return false;
    }
    let mut before = b'/';
    for &byte in &path[1..] {
        if byte == b'%' || (byte == b'.' && before == b'/') {
            return false;
        }
        before = byte;
    }
    true
}

/// The path as it is looked up: percent-decoded exactly once, then dot segments removed, never
/// above the root. Returns `path` itself where it [`is_plain`].
///
/// Empty segments stay, for they are segments (RFC 3986, section 3.3). Bytes are not checked to be
/// UTF-8: what no name has simply matches nothing.
///
/// # Errors
///
/// [`TargetError::Escape`] for a `%` without two hexadecimal digits, [`TargetError::NoSuchName`]
/// for a path that can name nothing; the first of them in the path.
#[inline]
pub fn normalize<'a>(path: &'a [u8], scratch: &'a mut [u8; PATH_LEN_MAX]) -> Result<&'a [u8], TargetError> {
    if is_plain(path) { Ok(path) } else { rewrite(path, scratch) }
}

/// Why a target is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetError {
    /// None of the forms the method may have, or an authority that is no host.
    Form,
    /// A `%` without two hexadecimal digits.
    Escape,
    /// An escaped `/` or NUL, which no name contains and which must not become a separator or an
    /// end, or a path longer than [`PATH_LEN_MAX`].
    NoSuchName,
}

impl TargetError {
    /// The status to answer with.
    pub fn status(self) -> Status {
        match self {
            TargetError::Form | TargetError::Escape => Status::BadRequest,
            TargetError::NoSuchName => Status::NotFound,
        }
    }
}

fn split_query(target: &[u8]) -> (&[u8], Option<&[u8]>) {
    match target.iter().position(|&byte| byte == b'?') {
        Some(at) => (&target[..at], Some(&target[at + 1..])),
        None => (target, None),
    }
}

/// RFC 9112, section 3.2.3: the port may not be missing.
#[cold]
fn authority_form(authority: &[u8]) -> Result<Target<'_>, TargetError> {
    let colon = authority.iter().rposition(|&byte| byte == b':').ok_or(TargetError::Form)?;
    let (host, port) = (&authority[..colon], &authority[colon + 1..]);
    if host.is_empty() || port.is_empty() || !host::is_valid(authority) {
        return Err(TargetError::Form);
    }
    Ok(Target::Authority(authority))
}

/// RFC 9112, section 3.2.2; RFC 9110, sections 4.2.1 (the host is not empty) and 4.2.4 (userinfo
/// is an error).
#[cold]
fn absolute_form(target: &[u8]) -> Result<Target<'_>, TargetError> {
    let rest = [b"http://".as_slice(), b"https://"]
        .into_iter()
        .find_map(|scheme| {
            let (start, rest) = target.split_at_checked(scheme.len())?;
            start.eq_ignore_ascii_case(scheme).then_some(rest)
        })
        .ok_or(TargetError::Form)?;
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    if matches!(authority, [] | [b':', ..]) || !host::is_valid(authority) {
        return Err(TargetError::Form);
    }
    let (path, query) = split_query(rest);
    let path = if path.is_empty() { b"/" } else { path };
    Ok(Target::Absolute { authority, path, query })
}

#[cold]
fn rewrite<'a>(path: &[u8], out: &'a mut [u8; PATH_LEN_MAX]) -> Result<&'a [u8], TargetError> {
    let Some(relative) = path.strip_prefix(b"/") else { return Err(TargetError::Form) };
    out[0] = b'/';
    let mut len = 1;
    let mut segments = relative.split(|&byte| byte == b'/').peekable();
    while let Some(segment) = segments.next() {
        let from = len;
        len = decode(segment, out, from)?;
        match &out[from..len] {
            b"." => len = from,
            b".." => len = parent(&out[..from]),
            _ if segments.peek().is_some() => len = push(out, len, b'/')?,
            _ => {}
        }
    }
    Ok(&out[..len])
}

/// Percent-decodes `segment` to the end of `out[..len]`. Returns the new length.
fn decode(mut segment: &[u8], out: &mut [u8; PATH_LEN_MAX], mut len: usize) -> Result<usize, TargetError> {
    while let [byte, behind @ ..] = segment {
        let (byte, behind) = if *byte == b'%' { unescape(behind)? } else { (*byte, behind) };
        len = push(out, len, byte)?;
        segment = behind;
    }
    Ok(len)
}

/// The byte that the two hexadecimal digits behind a `%` stand for, and what follows them.
fn unescape(digits: &[u8]) -> Result<(u8, &[u8]), TargetError> {
    let [high, low, behind @ ..] = digits else { return Err(TargetError::Escape) };
    let digit = |byte: u8| (byte as char).to_digit(16).ok_or(TargetError::Escape);
    match (digit(*high)? << 4 | digit(*low)?) as u8 {
        b'/' | 0 => Err(TargetError::NoSuchName),
        byte => Ok((byte, behind)),
    }
}

fn push(out: &mut [u8; PATH_LEN_MAX], len: usize, byte: u8) -> Result<usize, TargetError> {
    *out.get_mut(len).ok_or(TargetError::NoSuchName)? = byte;
    Ok(len + 1)
}

/// Length of what is left of `path`, which ends in `/`, without its last segment; the root stays.
fn parent(path: &[u8]) -> usize {
    path[..path.len() - 1].iter().rposition(|&byte| byte == b'/').map_or(1, |slash| slash + 1)
}
