//! Heads of responses: the result does not depend on bytes behind the head, and a head that is written anew is the same one.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tarpon_http::response_head;

fuzz_target!(|input: &[u8]| {
    let Ok(Some((head, len))) = response_head::parse(input) else { return };
    let (alone, alone_len) =
        response_head::parse(&input[..len]).expect("a valid head").expect("a whole head");
    assert_eq!((alone.status, alone_len), (head.status, len));
    assert!(response_head::parse(&input[..len - 1]).is_ok_and(|head| head.is_none()));
    let mut written = format!("HTTP/1.1 {} \r\n", head.status).into_bytes();
    for (name, value) in head.fields() {
        for part in [name, b":", value, b"\r\n"] {
            written.extend_from_slice(part);
        }
    }
    written.extend_from_slice(b"\r\n");
    let (again, _) = response_head::parse(&written).expect("a valid head").expect("a whole head");
    assert!(again.fields().eq(head.fields()));
    if head.version == tarpon_http::Version::Http11 {
        assert_eq!(again.framing(false), head.framing(false));
    }
});
