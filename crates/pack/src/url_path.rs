//! PathSet of URLs: percent-encoded for a URI, and relative to the root of the site. A path is decoded, and begins with a slash.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Returns a path in the form that a URI has: percent-encodes each byte that is neither a pchar nor a slash. RFC 3986, section 3.3.
pub(crate) fn percent_encode(path: &[u8]) -> String {
    let mut to = Vec::with_capacity(path.len());
    for &byte in path {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' => to.push(byte),
            _ if b"-._~!$&'()*+,;=:@".contains(&byte) => to.push(byte),
            _ => push_percent_encoded(byte, &mut to),
        }
    }
    String::from_utf8(to).expect("all of it is ASCII")
}

/// Appends one byte, percent-encoded.
pub(crate) fn push_percent_encoded(byte: u8, to: &mut Vec<u8>) {
    to.extend(format!("%{byte:02X}").bytes());
}

/// Returns a path relative to the root of the site, for messages: without the first slash, and without the trailing slash of a
/// directory.
pub(crate) fn relative(path: &[u8]) -> &Path {
    let path = path.strip_prefix(b"/").unwrap_or(path);
    Path::new(OsStr::from_bytes(path.strip_suffix(b"/").unwrap_or(path)))
}

/// Returns the directory of a path, with its trailing slash, if the path ends in this file name.
pub(crate) fn dir_of<'p>(path: &'p [u8], file_name: &[u8]) -> Option<&'p [u8]> {
    path.strip_suffix(file_name).filter(|dir| dir.ends_with(b"/"))
}

/// Returns the last component of a path.
pub(crate) fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
}
