//! Parses the request target and normalizes its path. RFC 9112, section 3.2; RFC 3986, sections 3.3, 5.2.4 and 6.2.2.
//!
//! ```text
//! origin     /path?query              CONNECT only:  authority  host:port
//! absolute   http://host/path?query   OPTIONS only:  asterisk   *
//! ```

use tarpon_simd::{BLOCK_LEN, Block, ByteClass, equal, outside, padded};

use crate::host;
use crate::method::Method;
use crate::status::Status;
use crate::token::skip;

/// The maximum length of a decoded path in bytes: `PATH_MAX` of Linux, so no file has a longer one.
pub const PATH_LEN_MAX: usize = 4096;

/// A request target, split into its components. A path begins with `/` and is as received; see [`normalize`]. A query is as
/// received, without its `?`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// `/path?query`
    Origin {
        /// The path, from the first `/`.
        path: &'a [u8],
        /// The bytes after the first `?`, if there is one.
        query: Option<&'a [u8]>,
    },
    /// `http://host/path?query`, or `https`.
    Absolute {
        /// The scheme of the URI.
        scheme: Scheme,
        /// Host and port, valid and not empty. They take precedence over the Host field.
        authority: &'a [u8],
        /// The path, or `/` if the target has none.
        path: &'a [u8],
        /// The bytes after the first `?`, if there is one.
        query: Option<&'a [u8]>,
    },
    /// `host:port`, for CONNECT.
    Authority(&'a [u8]),
    /// `*`, for OPTIONS.
    Asterisk,
}

/// The scheme of a target. RFC 9110, sections 4.2.1 and 4.2.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // each variant is the scheme of that name
pub enum Scheme {
    Http,
    Https,
}

/// Splits `target`, as in [`Head::target`](crate::head::Head), into its components.
///
/// Accepts bytes that RFC 3986 requires to be escaped but that browsers send unescaped, such as `|` and `{`.
///
/// # Errors
///
/// Returns [`TargetError::Form`] if the target does not have a form that `method` allows.
///
/// ```
/// use tarpon_http::Method;
/// use tarpon_http::target::{self, Target};
///
/// assert_eq!(target::parse(Method::Get, b"/a?b"), Ok(Target::Origin { path: b"/a", query: Some(b"b") }));
/// ```
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

/// Returns whether a query may contain this byte; `%` begins an escape. The server may receive other bytes in a query, but must not
/// send them. RFC 3986, section 3.4.
pub fn is_query_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/?%".contains(&byte)
}

/// Returns whether `path` is plain: it contains no escape and no segment that begins with a dot. A plain path is already
/// normalized; [`normalize`] handles the others.
#[inline]
pub fn is_plain(path: &[u8]) -> bool {
    if path.first() != Some(&b'/') || path.len() > PATH_LEN_MAX {
        return false;
    }
    let mut rest = path;
    let mut after_slash = 0;
    while !rest.is_empty() {
        if not_plain(&padded(rest), &mut after_slash) != 0 {
            return false;
        }
        rest = rest.get(BLOCK_LEN..).unwrap_or(&[]);
    }
    true
}

/// Returns which bytes of a block of a path are a `%`, or a dot at the start of a segment: bit 0 stands for the first byte. `after_slash` is 1
/// if a slash precedes the block; it becomes 1 if the block ends in one.
#[inline(always)]
fn not_plain(block: &Block, after_slash: &mut u32) -> u32 {
    let slashes = equal(b'/', block);
    let marks = equal(b'%', block) | (equal(b'.', block) & (slashes << 1 | *after_slash));
    *after_slash = slashes >> (BLOCK_LEN - 1);
    marks
}

/// Normalizes a path for lookup: percent-decodes it exactly once, then removes dot segments without leaving the root. Returns `path`
/// itself if it [`is_plain`].
///
/// Keeps empty segments (RFC 3986, section 3.3). Does not check that the path is UTF-8: a lookup of other bytes finds nothing.
///
/// # Errors
///
/// Returns the first error in the path: [`TargetError::Escape`] for a `%` without two hexadecimal digits, or
/// [`TargetError::NoSuchName`] if no file can have the path.
///
/// ```
/// use tarpon_http::target::{PATH_LEN_MAX, TargetError, normalize};
///
/// let mut scratch = [0; PATH_LEN_MAX];
/// assert_eq!(normalize(b"/a/../%62", &mut scratch), Ok(&b"/b"[..]));
/// assert_eq!(normalize(b"/a%2fb", &mut scratch), Err(TargetError::NoSuchName));
/// ```
#[inline]
pub fn normalize<'a>(path: &'a [u8], scratch: &'a mut [u8; PATH_LEN_MAX]) -> Result<&'a [u8], TargetError> {
    if is_plain(path) { Ok(path) } else { rewrite(path, scratch, EscapedSlash::Refused) }
}

/// Normalizes a path as [`normalize`] does, but keeps an escaped `/`, as `%2F`: to compare the path with a prefix whose requests go to
/// another server.
///
/// # Errors
///
/// As [`normalize`], but for an escaped `/`.
///
/// ```
/// use tarpon_http::target::{PATH_LEN_MAX, normalize_for_server};
///
/// assert_eq!(normalize_for_server(b"/a%2fb/%62", &mut [0; PATH_LEN_MAX]), Ok(&b"/a%2Fb/b"[..]));
/// ```
#[inline]
pub fn normalize_for_server<'a>(
    path: &'a [u8],
    scratch: &'a mut [u8; PATH_LEN_MAX],
) -> Result<&'a [u8], TargetError> {
    if is_plain(path) { Ok(path) } else { rewrite(path, scratch, EscapedSlash::Kept) }
}

/// What happens to an escaped `/`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EscapedSlash {
    Refused,
    Kept,
}

/// The reason to refuse a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetError {
    /// The target has no form that the method allows, or its authority is not a host: RFC 9112, section 3.2.
    Form,
    /// A `%` without two hexadecimal digits: RFC 3986, section 2.1.
    Escape,
    /// The path contains an escaped `/` or NUL, or exceeds [`PATH_LEN_MAX`] before dot segments are removed. No file name contains
    /// `/` or NUL, and decoding must not turn them into a separator or the end of a string.
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

/// The path of a target that begins with `/`; of another target it means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TargetPath {
    /// The length in bytes. The target ends there, or a `?` follows.
    pub(crate) len: u16,
    /// Whether the path [`is_plain`].
    pub(crate) is_plain: bool,
}

impl TargetPath {
    /// Finds the path of a target.
    pub(crate) fn of(target: &[u8]) -> TargetPath {
        let (path, _) = split_query(target);
        TargetPath { len: path.len() as u16, is_plain: is_plain(path) }
    }

    /// Finds the path at the start of `bytes`: visible ASCII up to a `?` or another byte that a path cannot have.
    pub(crate) fn at_start_of(bytes: &[u8]) -> TargetPath {
        let (mut rest, mut marks, mut after_slash) = (bytes, 0, 0);
        loop {
            // The padding ends a path, too.
            let block = padded(rest);
            let ends = outside(ByteClass::Path, &block);
            let found = not_plain(&block, &mut after_slash);
            let in_block = ends.trailing_zeros() as usize;
            if in_block < BLOCK_LEN {
                marks |= found & (ends - 1) & !ends;
                let len = bytes.len() - rest.len() + in_block;
                let is_plain = marks == 0 && bytes.first() == Some(&b'/') && len <= PATH_LEN_MAX;
                return TargetPath { len: len as u16, is_plain };
            }
            marks |= found;
            rest = &rest[BLOCK_LEN..];
        }
    }

    /// Finds the path of the target at the start of `bytes`. Returns the bytes after the target, too, or `None` if the scan reaches the last
    /// 15 bytes.
    #[inline(always)]
    pub(crate) fn scan(bytes: &[u8]) -> Option<(TargetPath, &[u8])> {
        let (mut rest, mut marks, mut after_slash) = (bytes, 0, 0);
        let behind_path = loop {
            let (block, behind) = rest.split_first_chunk()?;
            let ends = outside(ByteClass::Path, block);
            let found = not_plain(block, &mut after_slash);
            if ends as u16 != 0 {
                let before_end = (ends - 1) & !ends;
                marks |= found & before_end;
                break &rest[ends.trailing_zeros() as usize % BLOCK_LEN..];
            }
            marks |= found;
            rest = behind;
        };
        let len = bytes.len() - behind_path.len();
        let is_plain = marks == 0 && bytes.first() == Some(&b'/') && len <= PATH_LEN_MAX;
        let behind = match behind_path {
            [b'?', ..] => skip(ByteClass::Target, behind_path)?,
            _ => behind_path,
        };
        Some((TargetPath { len: len as u16, is_plain }, behind))
    }

    /// Returns the path of this target.
    #[inline(always)]
    pub(crate) fn of_target(self, target: &[u8]) -> &[u8] {
        &target[..self.len.into()]
    }

    /// Splits a target that begins with `/`, and whose path this is.
    #[inline(always)]
    pub(crate) fn split(self, target: &[u8]) -> Target<'_> {
        let (path, query) = target.split_at(self.len.into());
        Target::Origin { path, query: query.get(1..) }
    }
}

/// Splits a target that begins with a path into the path and the query, without its `?`.
#[inline(always)]
pub(crate) fn split_query(target: &[u8]) -> (&[u8], Option<&[u8]>) {
    let mut rest = target;
    while !rest.is_empty() {
        let marks = equal(b'?', &padded(rest));
        if marks != 0 {
            let at = target.len() - rest.len() + marks.trailing_zeros() as usize;
            return (&target[..at], Some(&target[at + 1..]));
        }
        rest = rest.get(BLOCK_LEN..).unwrap_or(&[]);
    }
    (target, None)
}

/// Parses the authority form, which requires a port. RFC 9112, section 3.2.3.
#[cold]
fn authority_form(authority: &[u8]) -> Result<Target<'_>, TargetError> {
    let colon = authority.iter().rposition(|&byte| byte == b':').ok_or(TargetError::Form)?;
    let port = &authority[colon + 1..];
    // The check for digits rejects a colon within an IPv6 address.
    let has_port = !port.is_empty() && port.iter().all(u8::is_ascii_digit);
    if !has_port || !host::is_valid(authority) {
        return Err(TargetError::Form);
    }
    Ok(Target::Authority(authority))
}

/// Parses the absolute form. RFC 9112, section 3.2.2; RFC 9110, sections 4.2.1 (the host is not empty) and 4.2.4 (userinfo is an
/// error).
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
fn rewrite<'a>(
    path: &[u8],
    out: &'a mut [u8; PATH_LEN_MAX],
    slash: EscapedSlash,
) -> Result<&'a [u8], TargetError> {
    let Some(relative) = path.strip_prefix(b"/") else { return Err(TargetError::Form) };
    out[0] = b'/';
    let mut len = 1;
    let mut segments = relative.split(|&byte| byte == b'/').peekable();
    while let Some(segment) = segments.next() {
        let from = len;
        len = decode(segment, out, from, slash)?;
        match &out[from..len] {
            b"." => len = from,
            b".." => len = parent(&out[..from]),
            _ if segments.peek().is_some() => len = push(out, len, b'/')?,
            _ => {}
        }
    }
    Ok(&out[..len])
}

/// Percent-decodes `segment` and appends it to `out[..len]`. Returns the new length.
fn decode(
    mut segment: &[u8],
    out: &mut [u8; PATH_LEN_MAX],
    mut len: usize,
    slash: EscapedSlash,
) -> Result<usize, TargetError> {
    while let [byte, behind @ ..] = segment {
        if slash == EscapedSlash::Kept
            && let [b'%', b'2', b'F' | b'f', behind @ ..] = segment
        {
            for byte in *b"%2F" {
                len = push(out, len, byte)?;
            }
            segment = behind;
            continue;
        }
        let (byte, behind) = if *byte == b'%' { unescape(behind)? } else { (*byte, behind) };
        len = push(out, len, byte)?;
        segment = behind;
    }
    Ok(len)
}

/// Decodes the two hexadecimal digits after a `%`. Returns the byte and the rest.
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

/// Returns the length of `path`, which ends in `/`, without its last segment; at least 1, for the root.
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
    fn target_has_a_form_that_the_method_allows() {
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
            // case                    method   target                      parts
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

    proptest! {
        #[test]
        fn path_at_the_start_ends_at_its_query_or_at_a_bad_byte(text in "/?([a-z/.%?# \u{e9}]|[a-z]{16}){0,40}") {
            let bytes = text.as_bytes();
            let TargetPath { len, is_plain: found } = TargetPath::at_start_of(bytes);
            let end = bytes.iter().position(|byte| !byte.is_ascii_graphic() || b"?#".contains(byte));
            prop_assert_eq!(usize::from(len), end.unwrap_or(bytes.len()));
            prop_assert_eq!(found, is_plain(&bytes[..len.into()]));
        }

        #[test]
        fn fast_scans_agree_with_slow_ones(target in "/[a-z/.%?]{0,60}|/([a-z]{1,20}[/.]){0,5}[?%]?") {
            let target = target.as_bytes();
            let (path, query) = split_query(target);
            prop_assert_eq!(path, target.split(|&byte| byte == b'?').next().unwrap());
            prop_assert_eq!(query.map_or(target.len(), |query| target.len() - query.len() - 1), path.len());
            let is_rewritten = path.contains(&b'%') || path.windows(2).any(|pair| pair == b"/.");
            prop_assert_eq!(is_plain(path), !is_rewritten);
            for behind in [" HTTP/1.1\r\nHost: a\r\n\r\n", "#", "\u{e9}", ""] {
                let bytes = [target, behind.as_bytes()].concat();
                if let Some((found, rest)) = TargetPath::scan(&bytes) {
                    prop_assert_eq!((found, rest), (TargetPath::of(target), behind.as_bytes()));
                    prop_assert_eq!(found.split(target), Target::Origin { path, query });
                }
            }
        }
    }

    #[test]
    fn path_is_decoded_once_and_stays_below_the_root() {
        use TargetError::*;
        #[rustfmt::skip]
        let cases: &[(&str, &str, Result<&[u8], TargetError>)] = &[
            // case                       path                  looked up
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
    fn plain_path_is_recognized() {
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
    fn length_of_the_decoded_path_is_bounded() {
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
        fn normalized_path_has_no_dot_segments(path in "/([a./]|%2e|%2E|%25|%2f|%00|%|\\PC){0,20}") {
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
                    prop_assert_eq!(rewrite(path.as_bytes(), &mut again, EscapedSlash::Refused), Ok(found));
                }
            }
        }

        #[test]
        fn any_bytes_are_handled_without_panic(target in proptest::collection::vec(any::<u8>(), 0..40)) {
            for method in [Method::Get, Method::Options, Method::Connect] {
                let _ = parse(method, &target);
            }
            let _ = normalize(&target, &mut [0; PATH_LEN_MAX]);
        }
    }
}
