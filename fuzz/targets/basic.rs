//! Credentials of the scheme Basic: a value has one form, so encoding what was read gives the same value again, with the name of the scheme in any
//! case and spaces around.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tarpon_http::basic::{CREDENTIALS_LEN_MAX, parse};

fuzz_target!(|value: &[u8]| {
    let mut to = [0; CREDENTIALS_LEN_MAX];
    let Some(found) = parse(value, &mut to) else { return };
    assert!(!found.name.contains(&b':'));
    let text = [found.name, b":", found.password].concat();
    assert!(text.len() <= CREDENTIALS_LEN_MAX && !text.iter().any(u8::is_ascii_control));
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t');
    let digits: Vec<u8> = value.iter().skip_while(|byte| is_space(byte)).skip(5).copied().collect();
    let digits: Vec<u8> = digits.into_iter().filter(|byte| !is_space(byte)).collect();
    assert_eq!(digits, encoded(&text), "{}", value.escape_ascii());
});

/// Encodes base64. RFC 4648, section 4.
fn encoded(bytes: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = Vec::new();
    for part in bytes.chunks(3) {
        let mut all = [0; 3];
        all[..part.len()].copy_from_slice(part);
        let bits = all.iter().fold(0, |bits: u32, &byte| bits << 8 | u32::from(byte));
        let digit = |at: usize| DIGITS[(bits >> (18 - 6 * at) & 63) as usize];
        text.extend((0..=part.len()).map(digit));
        text.extend(std::iter::repeat_n(b'=', 3 - part.len()));
    }
    text
}
