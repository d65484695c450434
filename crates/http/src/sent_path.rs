//! The path that a gateway sends on: as received, without dot segments. RFC 3986, section 5.2.4.
//!
//! ```text
//! /a/%2e%2e/b%2Fc/./d   ─▶  /b%2Fc/d        escapes stay as they are: only the server knows what they mean to it
//! ```
//!
//! The path and its [normalized](crate::target::normalize) form name the same resource, so a server cannot take it for another one than that
//! which was routed.

/// Removes dot segments, escaped ones too. Returns `path` itself if it has none. Writes the result to `scratch` otherwise. `None`: it is
/// longer than `scratch`.
///
/// ```
/// let mut scratch = [0; 64];
/// let sent = tarpon_http::sent_path::without_dot_segments(b"/a/%2E%2e/b%2fc/.", &mut scratch);
/// assert_eq!(sent, Some(&b"/b%2fc/"[..]));
/// ```
pub fn without_dot_segments<'a>(path: &'a [u8], scratch: &'a mut [u8]) -> Option<&'a [u8]> {
    let segments = || path.split(|&byte| byte == b'/').skip(1);
    if segments().all(|segment| dots(segment) == Dots::No) {
        return Some(path);
    }
    *scratch.first_mut()? = b'/';
    let mut len = 1;
    let mut segments = segments().peekable();
    while let Some(segment) = segments.next() {
        match dots(segment) {
            Dots::One => {}
            Dots::Two => {
                let before = &scratch[..len - 1];
                len = before.iter().rposition(|&byte| byte == b'/').map_or(1, |slash| slash + 1);
            }
            Dots::No => {
                let end = len + segment.len();
                scratch.get_mut(len..end)?.copy_from_slice(segment);
                len = end;
                if segments.peek().is_some() {
                    *scratch.get_mut(len)? = b'/';
                    len += 1;
                }
            }
        }
    }
    Some(&scratch[..len])
}

/// Returns the rest of a path without dot segments behind the first `len` bytes of its normalized form.
pub fn behind_prefix(path: &[u8], len: usize) -> &[u8] {
    let (mut rest, mut left) = (path, len);
    while left > 0 {
        let (decoded_len, behind) = match rest {
            // An escaped slash stays escaped when a path is compared with a prefix.
            [b'%', b'2', b'F' | b'f', behind @ ..] => (3, behind),
            [b'%', _, _, behind @ ..] | [_, behind @ ..] => (1, behind),
            [] => return rest,
        };
        left = left.saturating_sub(decoded_len);
        rest = behind;
    }
    rest
}

/// Whether a segment is `.` or `..`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dots {
    No,
    One,
    Two,
}

fn dots(segment: &[u8]) -> Dots {
    let behind_dot = |bytes: &'_ [u8]| -> Option<usize> {
        match bytes {
            [b'.', ..] => Some(1),
            [b'%', b'2', b'e' | b'E', ..] => Some(3),
            _ => None,
        }
    };
    let Some(first) = behind_dot(segment) else { return Dots::No };
    let rest = &segment[first..];
    match behind_dot(rest) {
        _ if rest.is_empty() => Dots::One,
        Some(len) if len == rest.len() => Dots::Two,
        _ => Dots::No,
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::string::String;

    use proptest::prelude::*;

    use super::*;
    use crate::target::{PATH_LEN_MAX, normalize};

    fn sent(path: &str) -> String {
        let mut scratch = [0; 256];
        String::from_utf8(without_dot_segments(path.as_bytes(), &mut scratch).unwrap().into()).unwrap()
    }

    #[test]
    #[rustfmt::skip]
    fn dot_segments_are_removed_and_escapes_kept() {
        let cases = [
            ("/",                "/"),
            ("/a/b",             "/a/b"),
            ("/a/./b",           "/a/b"),
            ("/a/../b",          "/b"),
            ("/a/..",            "/"),
            ("/a/.",             "/a/"),
            ("/..",              "/"),
            ("/../../a",         "/a"),
            ("/a/%2e%2E/b",      "/b"),
            ("/a/.%2e/b",        "/b"),
            ("/a/%2e/b%2fc",     "/a/b%2fc"),
            ("/a//../b",         "/a/b"),
            ("/.../a",           "/.../a"),
            ("/.a/..b",          "/.a/..b"),
            ("/%2e%2e%2fa",      "/%2e%2e%2fa"),
        ];
        for (path, want) in cases {
            assert_eq!(sent(path), want, "{path}");
        }
        assert_eq!(without_dot_segments(b"/./abc", &mut [0; 3]), None);
    }

    #[test]
    #[rustfmt::skip]
    fn prefix_is_counted_in_decoded_bytes() {
        let cases: [(&str, usize, &str); 6] = [
            ("/api/x",       4, "/x"),
            ("/%61pi/x%2f",  4, "/x%2f"),
            ("/api",         4, ""),
            ("/a%2Fb/c",     6, "/c"),
            ("/a",           0, "/a"),
            ("/a",           9, ""),
        ];
        for (path, len, want) in cases {
            assert_eq!(behind_prefix(path.as_bytes(), len), want.as_bytes(), "{path}");
        }
    }

    proptest! {
        #[test]
        fn sent_path_names_the_same_resource(path in "/([a./]|%2e|%2E|%25|%41|\\PC){0,20}") {
            let (mut one, mut other) = ([0; PATH_LEN_MAX], [0; PATH_LEN_MAX]);
            let mut scratch = [0; 512];
            let sent = without_dot_segments(path.as_bytes(), &mut scratch).unwrap();
            let want = normalize(path.as_bytes(), &mut one);
            if want.is_ok() {
                prop_assert_eq!(normalize(sent, &mut other), want);
            }
        }
    }
}
