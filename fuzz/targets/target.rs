//! Request targets: a simple implementation of RFC 3986 normalizes paths the same way, and a path never leaves the root.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tarpon_http::Method;
use tarpon_http::target::{self, PATH_LEN_MAX, Target, TargetError};

fuzz_target!(|input: &[u8]| {
    for method in [Method::Get, Method::Options, Method::Connect] {
        let Ok(target) = target::parse(method, input) else { continue };
        match target {
            Target::Origin { path, query } | Target::Absolute { path, query, .. } => {
                assert_eq!(path.first(), Some(&b'/'));
                assert!(!path.contains(&b'?'));
                assert!(input.ends_with(query.unwrap_or(if input.ends_with(path) { path } else { b"" })));
                normalize(path);
            }
            Target::Authority(authority) => assert!(!authority.is_empty()),
            Target::Asterisk => assert_eq!(input, b"*"),
        }
    }
});

fn normalize(path: &[u8]) {
    let mut scratch = [0; PATH_LEN_MAX];
    let found = target::normalize(path, &mut scratch).map(<[u8]>::to_vec);
    match &found {
        Ok(plain) => {
            assert_eq!(plain.first(), Some(&b'/'));
            assert!(plain.len() <= path.len().min(PATH_LEN_MAX));
            assert!(!plain.split(|&byte| byte == b'/').any(|segment| segment == b"." || segment == b".."));
            if !plain.contains(&b'%') {
                assert_eq!(target::normalize(plain, &mut scratch), Ok(plain.as_slice()), "a second time");
            }
            assert_eq!(Some(plain), rfc3986(path).as_ref());
        }
        Err(TargetError::NoSuchName) if path.len() > PATH_LEN_MAX => {}
        Err(_) => assert_eq!(rfc3986(path), None),
    }
    if target::is_plain(path) {
        assert_eq!(found.as_deref(), Ok(path));
    }
}

/// Normalizes a path as RFC 3986 describes: decodes it, then removes dot segments, one by one.
fn rfc3986(path: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::new();
    let mut rest = path.strip_prefix(b"/")?;
    while let [byte, behind @ ..] = rest {
        if *byte == b'%' {
            let digits = str::from_utf8(behind.get(..2)?).ok().filter(|digits| !digits.starts_with('+'))?;
            let byte = u8::from_str_radix(digits, 16).ok().filter(|byte| !b"/\0".contains(byte))?;
            decoded.push(byte);
            rest = &behind[2..];
        } else {
            decoded.push(*byte);
            rest = behind;
        }
    }
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut segments = decoded.split(|&byte| byte == b'/').peekable();
    while let Some(segment) = segments.next() {
        match segment {
            b"." => {}
            b".." => drop(kept.pop()),
            name => {
                kept.push(name);
                continue;
            }
        }
        // A dot segment at the end leaves a path that ends in a slash.
        if segments.peek().is_none() {
            kept.push(b"");
        }
    }
    Some([b"/", kept.join(&b'/').as_slice()].concat())
}
