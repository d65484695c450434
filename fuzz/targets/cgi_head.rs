//! The head of a CGI program's response: a cut never changes it, and its fields hold nothing that ends a line.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tarpon_http::cgi::{CGI_HEAD_LEN_MAX, CgiResponse, parse};

fuzz_target!(|input: &[u8]| {
    let whole = parse(input);
    for cut in 0..input.len().min(256) {
        match parse(&input[..cut]) {
            Ok(None) => {}
            part => assert_eq!(part, whole, "at {cut}"),
        }
    }
    let Ok(Some((head, len))) = whole else { return };
    assert!(len <= CGI_HEAD_LEN_MAX && input[..len].ends_with(b"\n"));
    for (name, value) in head.fields() {
        assert!(!name.is_empty() && !name.contains(&b':') && !name.eq_ignore_ascii_case(b"status"));
        assert!(value.iter().all(|byte| !matches!(byte, b'\r' | b'\n' | 0)));
    }
    match head.response() {
        CgiResponse::Response(status) => assert!((200..600).contains(&status)),
        CgiResponse::LocalRedirect(path) => assert!(path.starts_with(b"/") && head.status.is_none()),
    }
});
