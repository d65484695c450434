//! Parses the request line, and the empty lines before it. RFC 9112, sections 2.2 and 3.

use super::{HeadError, ParseError, Version};
use crate::method::Method;
use crate::target::TargetPath;
use crate::token::{TARGET, TCHAR, prefix_len};

/// A request line.
pub(super) struct RequestLine<'a> {
    pub(super) method: Method,
    pub(super) target: &'a [u8],
    pub(super) path: TargetPath,
    pub(super) version: Version,
}

/// Parses a request line of GET or HEAD and HTTP/1.1. Returns what [`request_line`] returns, or `None` for other lines.
#[inline(always)]
pub(super) fn usual_request_line(seen: &[u8]) -> Option<(RequestLine<'_>, &[u8])> {
    let (method, rest) = match seen.split_first_chunk() {
        // Compared at once: a pattern compares byte by byte.
        Some((start, rest)) if u32::from_ne_bytes(*start) == u32::from_ne_bytes(*b"GET ") => {
            (Method::Get, rest)
        }
        _ => (Method::Head, seen.strip_prefix(b"HEAD ")?),
    };
    let (path, behind) = TargetPath::scan(rest)?;
    let target = &rest[..rest.len() - behind.len()];
    let (version, section) = behind.split_first_chunk()?;
    if target.is_empty() || version != b" HTTP/1.1\r\n" {
        return None;
    }
    Some((RequestLine { method, target, path, version: Version::Http11 }, section))
}

/// Parses the empty lines and the request line at the start of `seen`. Returns the bytes after the request line, too.
#[cold]
pub(super) fn request_line(seen: &[u8]) -> Result<(RequestLine<'_>, &[u8]), ParseError> {
    // RFC 9112, section 3: one SP each between method, target and version.
    let mut at = empty_lines(seen);
    let method = &seen[at..][..prefix_len(TCHAR, &seen[at..])];
    at += method.len();
    if method.is_empty() || seen.get(at) != Some(&b' ') {
        return Err(ParseError { at, error: HeadError::Method });
    }
    at += 1;
    let target = &seen[at..][..prefix_len(TARGET, &seen[at..])];
    at += target.len();
    if target.is_empty() || seen.get(at) != Some(&b' ') {
        return Err(ParseError { at, error: HeadError::Target });
    }
    at += 1;
    let version = match version(&seen[at..]) {
        Ok(version) => version,
        Err(error) => return Err(ParseError { at, error }),
    };
    at += VERSION_LINE_LEN;
    let (method, path) = (Method::from_token(method), TargetPath::of(target));
    Ok((RequestLine { method, target, path, version }, &seen[at..]))
}

/// Returns the length of the empty lines at the start, which RFC 9112, section 2.2, asks a server to skip.
#[inline(always)]
pub(super) fn empty_lines(seen: &[u8]) -> usize {
    let mut at = 0;
    while seen[at..].starts_with(b"\r\n") {
        at += 2;
    }
    at
}

/// The length of `HTTP/1.1` and its CRLF.
const VERSION_LINE_LEN: usize = 10;

/// Parses the version and its CRLF. RFC 9112, section 2.3: case-sensitive, with one digit each.
#[inline(always)]
fn version(rest: &[u8]) -> Result<Version, HeadError> {
    match rest.first_chunk::<VERSION_LINE_LEN>() {
        Some(b"HTTP/1.1\r\n") => Ok(Version::Http11),
        Some(b"HTTP/1.0\r\n") => Ok(Version::Http10),
        Some([b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'0'..=b'9', b'\r', b'\n']) => Ok(Version::Http11),
        Some([b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9', b'\r', b'\n']) => {
            Err(HeadError::Version)
        }
        _ => Err(HeadError::VersionSyntax),
    }
}
