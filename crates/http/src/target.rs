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
        /// What the client would reach it by.
        scheme: Scheme,
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

/// The scheme of a target. RFC 9110, sections 4.2.1 and 4.2.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // each is the scheme of that name
pub enum Scheme {
    Http,
    Https,
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

/// Whether a byte stands for itself in a query, or begins an escape. Others may be received, but must not be sent.
/// RFC 3986, section 3.4.
pub fn is_query_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/?%".contains(&byte)
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
    /// None of the forms the method may have, or an authority that is no host: RFC 9112, section 3.2.
    Form,
    /// A `%` without two hexadecimal digits: RFC 3986, section 2.1.
    Escape,
    /// An escaped `/` or NUL, which no name contains and which must not become a separator or an
    /// end, or a path longer than [`PATH_LEN_MAX`], even if only before a dot segment shortens it.
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
    let port = &authority[colon + 1..];
    // Digits, lest the last colon be one within an IPv6 address.
    let has_port = !port.is_empty() && port.iter().all(u8::is_ascii_digit);
    if !has_port || !host::is_valid(authority) {
        return Err(TargetError::Form);
    }
    Ok(Target::Authority(authority))
}

/// RFC 9112, section 3.2.2; RFC 9110, sections 4.2.1 (the host is not empty) and 4.2.4 (userinfo
/// is an error).
#[cold]
fn absolute_form(target: &[u8]) -> Result<Target<'_>, TargetError> {
    let (scheme, rest) = [(Scheme::Http, b"http://".as_slice()), (Scheme::Https, b"https://")]
        .into_iter()
        .find_map(|(scheme, text)| {
            let (start, rest) = target.split_at_checked(text.len())?;
            start.eq_ignore_ascii_case(text).then_some((scheme, rest))
        })
        .ok_or(TargetError::Form)?;
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    if !host::is_valid(authority) {
        return Err(TargetError::Form);
    }
    let (path, query) = split_query(rest);
    let path = if path.is_empty() { b"/" } else { path };
    Ok(Target::Absolute { scheme, authority, path, query })
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

#[cfg(test)]
mod tests {
    extern crate std;
    use std::format;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_target_has_the_form_its_method_may_have() {
        use Method::*;
        let origin = |path: &'static str, query: Option<&'static str>| {
            Ok(Target::Origin { path: path.as_bytes(), query: query.map(str::as_bytes) })
        };
        let absolute = |scheme, authority: &'static str, path: &'static str, query: Option<&'static str>| {
            let (authority, path) = (authority.as_bytes(), path.as_bytes());
            Ok(Target::Absolute { scheme, authority, path, query: query.map(str::as_bytes) })
        };
        let refused = Err(TargetError::Form);
        #[rustfmt::skip]
        let cases = [
            // what it shows           method   target                      parts
            ("path",                   Get,     "/a/b",                     origin("/a/b", None)),
            ("query",                  Head,    "/a?b=c?d",                 origin("/a", Some("b=c?d"))),
            ("empty query",            Get,     "/?",                       origin("/", Some(""))),
            ("two slashes",            Get,     "//a/b",                    origin("//a/b", None)),
            ("not a URI's bytes",      Get,     "/{|}",                     origin("/{|}", None)),
            ("OPTIONS with a path",    Options, "/a",                       origin("/a", None)),
            ("absolute for OPTIONS",   Options, "http://a",                 absolute(Scheme::Http, "a", "/", None)),
            ("any method, a path",     Other,   "/a",                       origin("/a", None)),
            ("absolute",               Get,     "http://a:80/b?c",          absolute(Scheme::Http, "a:80", "/b", Some("c"))),
            ("scheme in any case",     Get,     "hTTpS://a/",               absolute(Scheme::Https, "a", "/", None)),
            ("no path",                Get,     "http://a",                 absolute(Scheme::Http, "a", "/", None)),
            ("no path but a query",    Get,     "http://a?b/c",             absolute(Scheme::Http, "a", "/", Some("b/c"))),
            ("IPv6",                   Get,     "http://[::1]:1/",          absolute(Scheme::Http, "[::1]:1", "/", None)),
            ("asterisk",               Options, "*",                        Ok(Target::Asterisk)),
            ("authority",              Connect, "a:443",                    Ok(Target::Authority(b"a:443"))),
            ("authority, IPv6",        Connect, "[::1]:443",                Ok(Target::Authority(b"[::1]:443"))),
            ("asterisk, not OPTIONS",  Get,     "*",                        refused),
            ("more than an asterisk",  Options, "*/",                       refused),
            ("authority, not CONNECT", Get,     "a:443",                    refused),
            ("CONNECT without port",   Connect, "a",                        refused),
            ("CONNECT, empty port",    Connect, "a:",                       refused),
            ("CONNECT without host",   Connect, ":443",                     refused),
            ("CONNECT, IPv6 no port",  Connect, "[::1]",                    refused),
            ("CONNECT with a path",    Connect, "/",                        refused),
            ("CONNECT, userinfo",      Connect, "me@a:443",                 refused),
            ("CONNECT, two ports",     Connect, "a:1:2",                    refused),
            ("CONNECT, asterisk",      Connect, "*",                        refused),
            ("CONNECT, absolute",      Connect, "http://a:1/",              refused),
            ("no leading slash",       Get,     "a/b",                      refused),
            ("query alone",            Get,     "?a",                       refused),
            ("another scheme",         Get,     "ftp://a/",                 refused),
            ("one slash",              Get,     "http:/a",                  refused),
            ("no host",                Get,     "http:///a",                refused),
            ("port without host",      Get,     "http://:80/",              refused),
            ("userinfo",               Get,     "http://me@a/",             refused),
            ("two hosts",              Get,     "http://a,b/",              refused),
            ("IPv6 left open",         Get,     "http://[::1/",             refused),
            ("port no number",         Get,     "http://a:x/",              refused),
            ("backslash for a slash",  Get,     "http:\\\\a",                refused),
            ("backslash in the host",  Get,     "http://a\\b/",             refused),
            ("host no host",           Get,     "http://a%zz/",             refused),
        ];
        for (name, method, target, want) in cases {
            assert_eq!(parse(method, target.as_bytes()), want, "{name}: {target}");
        }
    }

    #[test]
    fn a_path_is_decoded_once_and_never_leaves_the_root() {
        use TargetError::*;
        #[rustfmt::skip]
        let cases: &[(&str, &str, Result<&[u8], TargetError>)] = &[
            // what it shows              path                  looked up
            ("root",                      "/",                  Ok(b"/")),
            ("plain",                     "/a/b.html",          Ok(b"/a/b.html")),
            ("trailing slash",            "/a/",                Ok(b"/a/")),
            ("empty segments",            "//a///b//",          Ok(b"//a///b//")),
            ("hidden name",               "/.well-known/a",     Ok(b"/.well-known/a")),
            ("three dots",                "/.../a..",           Ok(b"/.../a..")),
            ("dots in a name",            "/a../..b",           Ok(b"/a../..b")),
            ("backslash is a byte",       "/..\\a",             Ok(b"/..\\a")),
            ("escape",                    "/%61%2Eb",           Ok(b"/a.b")),
            ("digits in either case",     "/%c3%Bc",            Ok("/ü".as_bytes())),
            ("decoded once",              "/%2561",             Ok(b"/%61")),
            ("escaped dots once",         "/%252e%252e/a",      Ok(b"/%2e%2e/a")),
            ("escaped ?",                 "/a%3Fb",             Ok(b"/a?b")),
            ("escaped backslash",         "/..%5ca",            Ok(b"/..\\a")),
            ("not UTF-8",                 "/%ff",               Ok(b"/\xff")),
            ("overlong / is no /",        "/..%c0%af..",        Ok(b"/..\xc0\xaf..")),
            ("dot segment",               "/a/./b",             Ok(b"/a/b")),
            ("dot segment last",          "/a/.",               Ok(b"/a/")),
            ("dot segment alone",         "/.",                 Ok(b"/")),
            ("parent",                    "/a/b/../c",          Ok(b"/a/c")),
            ("parent last",               "/a/b/..",            Ok(b"/a/")),
            ("parent to the root",        "/a/..",              Ok(b"/")),
            ("above the root",            "/../../a",           Ok(b"/a")),
            ("far above the root",        "/a/../../../b/..",   Ok(b"/")),
            ("example of RFC 3986",       "/a/b/c/./../../g",   Ok(b"/a/g")),
            ("parent of an empty one",    "/a//../b",           Ok(b"/a/b")),
            ("escaped parent",            "/a/%2e%2E/b",        Ok(b"/b")),
            ("half-escaped parent",       "/a/.%2e/b",          Ok(b"/b")),
            ("escaped dot",               "/a/%2e/b",           Ok(b"/a/b")),
            ("escaped slash",             "/a%2fb",             Err(NoSuchName)),
            ("escaped slash and dots",    "/..%2F..%2fetc",     Err(NoSuchName)),
            ("escaped NUL",               "/a%00.html",         Err(NoSuchName)),
            ("no digits",                 "/%zz",               Err(Escape)),
            ("second no digit",           "/%4g",               Err(Escape)),
            ("sign for a digit",          "/%+1",               Err(Escape)),
            ("one digit",                 "/%4",                Err(Escape)),
            ("no digit",                  "/%",                 Err(Escape)),
            ("digits beyond a slash",     "/%4/1",              Err(Escape)),
            ("no slash",                  "a",                  Err(Form)),
            ("nothing",                   "",                   Err(Form)),
        ];
        for (name, path, want) in cases {
            let mut scratch = [0; PATH_LEN_MAX];
            assert_eq!(normalize(path.as_bytes(), &mut scratch), *want, "{name}: {path}");
        }
    }

    #[test]
    fn only_a_path_that_stays_as_it_is_is_plain() {
        let cases = [
            ("/", true),
            ("/a/b.html", true),
            ("//", true),
            ("/a.", true),
            ("/.", false),
            ("/a/../b", false),
            ("/a%41", false),
            ("a", false),
            ("", false),
        ];
        for (path, want) in cases {
            assert_eq!(is_plain(path.as_bytes()), want, "{path}");
        }
    }

    #[test]
    fn the_length_of_a_path_is_bounded_as_decoded() {
        let plain = |len: usize| format!("/{}", "a".repeat(len - 1));
        let escaped = |len: usize| format!("/{}", "%41".repeat(len - 1));
        #[rustfmt::skip]
        let cases = [
            ("longest",               plain(PATH_LEN_MAX),                           Ok(PATH_LEN_MAX)),
            ("longest, escaped",      escaped(PATH_LEN_MAX),                         Ok(PATH_LEN_MAX)),
            ("longer but removed",    format!("{}/../a", plain(PATH_LEN_MAX - 3)),   Ok(2)),
            ("longer",                plain(PATH_LEN_MAX + 1),                       Err(TargetError::NoSuchName)),
            ("longer, escaped",       escaped(PATH_LEN_MAX + 1),                     Err(TargetError::NoSuchName)),
        ];
        for (name, path, want) in cases {
            let mut scratch = [0; PATH_LEN_MAX];
            assert_eq!(normalize(path.as_bytes(), &mut scratch).map(<[u8]>::len), want, "{name}");
        }
    }

    proptest! {
        #[test]
        fn what_is_looked_up_has_no_dot_segments(path in "/([a./]|%2e|%2E|%25|%2f|%00|%|\\PC){0,20}") {
            let (mut scratch, mut again) = ([0; PATH_LEN_MAX], [0; PATH_LEN_MAX]);
            if let Ok(found) = normalize(path.as_bytes(), &mut scratch) {
                prop_assert!(found.starts_with(b"/"));
                prop_assert!(!found.split(|&byte| byte == b'/').any(|segment| matches!(segment, b"." | b"..")));
                prop_assert!(!found.contains(&0));
                if !found.contains(&b'%') {
                    prop_assert_eq!(normalize(found, &mut again), Ok(found));
                }
                if is_plain(path.as_bytes()) {
                    prop_assert_eq!(found, path.as_bytes());
                    prop_assert_eq!(rewrite(path.as_bytes(), &mut again), Ok(found));
                }
            }
        }

        #[test]
        fn no_bytes_make_it_panic(target in proptest::collection::vec(any::<u8>(), 0..40)) {
            for method in [Method::Get, Method::Options, Method::Connect] {
                let _ = parse(method, &target);
            }
            let _ = normalize(&target, &mut [0; PATH_LEN_MAX]);
        }
    }
}
