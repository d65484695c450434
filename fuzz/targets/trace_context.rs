//! Values of traceparent: what was read is in the value at its place, and the value has nothing that the grammar has not.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tarpon_http::trace_context::TraceId;

fuzz_target!(|value: &[u8]| {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let parts: Vec<&[u8]> = value.split(|&byte| byte == b'-').collect();
    let has_parts = parts.len() >= 4
        && parts.iter().take(4).map(|part| part.len()).eq([2, 32, 16, 2])
        && parts.iter().take(4).all(|part| part.iter().all(is_digit));
    let is_zero = |part: &[u8]| part.iter().all(|&byte| byte == b'0');
    let is_valid = has_parts
        && !is_zero(parts[1])
        && !is_zero(parts[2])
        && parts[0] != b"ff"
        && (parts[0] != b"00" || parts.len() == 4);
    let found = TraceId::parse(value);
    assert_eq!(found.is_some(), is_valid, "{}", value.escape_ascii());
    if let Some(id) = found {
        assert_eq!(id.to_string().as_bytes(), parts[1]);
    }
});
