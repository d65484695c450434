//! Accept-Encoding and Available-Dictionary: a simple parser returns the same, and the chosen offer is the best acceptable one.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tarpon_http::negotiate::{AcceptEncoding, ContentCoding};
use tarpon_http::{dictionary, head};

// Each line is an Accept-Encoding field value, and a value of Available-Dictionary in a request of its own.
fuzz_target!(|input: &[u8]| {
    input.split(|&byte| byte == b'\n').for_each(dictionary);
    let mut wire = b"GET / HTTP/1.1\r\n".to_vec();
    let lines: Vec<_> = input.split(|&byte| byte == b'\n').collect();
    for line in &lines {
        wire.extend_from_slice(&[b"Accept-Encoding:", *line, b"\r\n"].concat());
    }
    wire.extend_from_slice(b"\r\n");
    let Ok(Some((head, _))) = head::parse(&wire) else { return };
    let acceptable = AcceptEncoding::parse(&head.fields);
    for (coding, names) in CODINGS {
        assert_eq!(acceptable.weight(coding), simple_weight(&lines, names), "{coding:?}");
    }
    let offered = CODINGS.map(|(coding, _)| coding).into_iter().zip([9, 3, 5, 3, 3, 2]);
    match acceptable.choose(offered.clone().map(|(coding, len)| (coding, len, (coding, len)))) {
        None => assert!(offered.clone().all(|(coding, _)| acceptable.weight(coding).is_none())),
        Some((chosen, chosen_len)) => {
            let weight = acceptable.weight(chosen).expect("acceptable");
            for (coding, len) in offered {
                let other = acceptable.weight(coding);
                assert!(other < Some(weight) || other == Some(weight) && len >= chosen_len);
            }
        }
    }
});

const CODINGS: [(ContentCoding, &[&str]); 6] = [
    (ContentCoding::Identity, &["identity"]),
    (ContentCoding::Br, &["br"]),
    (ContentCoding::Gzip, &["gzip", "x-gzip"]),
    (ContentCoding::Zstd, &["zstd"]),
    (ContentCoding::Dcb, &["dcb"]),
    (ContentCoding::Dcz, &["dcz"]),
];

fn dictionary(value: &[u8]) {
    let wire = [b"GET / HTTP/1.1\r\nAvailable-Dictionary:", value, b"\r\n\r\n"].concat();
    let Ok(Some((head, _))) = head::parse(&wire) else { return };
    assert_eq!(dictionary::available(&head.fields).map(Vec::from), simple_dictionary(value));
}

/// Decodes a Byte Sequence of 32 bytes, bit by bit.
fn simple_dictionary(value: &[u8]) -> Option<Vec<u8>> {
    const ALPHABET: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    // The parser ignores everything after the Byte Sequence.
    let value = String::from_utf8_lossy(value);
    let value = value.trim_matches([' ', '\t']);
    let (base64, behind) = value.strip_prefix(':')?.split_once(':')?;
    let digits = base64.strip_suffix('=').unwrap_or(base64);
    let digits: Option<Vec<usize>> = digits.chars().map(|digit| ALPHABET.find(digit)).collect();
    let bits: String = digits?.into_iter().map(|digit| format!("{digit:06b}")).collect();
    let bytes = bits
        .as_bytes()
        .chunks_exact(8)
        .map(|byte| u8::from_str_radix(std::str::from_utf8(byte).expect("ASCII"), 2).expect("a byte"));
    let is_end = behind.is_empty() || behind.starts_with(';');
    (is_end && bits.len() == 43 * 6).then(|| bytes.collect())
}

/// Returns the weight of a coding, parsed with strings and numbers of the standard library.
fn simple_weight(lines: &[&[u8]], names: &[&str]) -> Option<u16> {
    let mut listed = None;
    let mut any = None;
    for member in lines.iter().flat_map(|line| tarpon_http::field::members(line)) {
        let Ok(member) = std::str::from_utf8(member) else { continue };
        let ows = [' ', '\t'];
        let (name, weight) = match member.split_once(';') {
            None => (member, Some(1000)),
            Some((name, weight)) => {
                let weight = weight.trim_matches(ows);
                (
                    name.trim_matches(ows),
                    weight.strip_prefix("q=").or(weight.strip_prefix("Q=")).and_then(qvalue),
                )
            }
        };
        match weight {
            Some(weight) if names.contains(&&*name.to_ascii_lowercase()) => listed = Some(weight),
            Some(weight) if name == "*" => any = Some(weight),
            _ => {}
        }
    }
    // `*` does not cover the codings that need a dictionary.
    let any = any.filter(|_| !names.iter().any(|name| name.starts_with("dc")));
    let left = names.contains(&"identity").then_some(0);
    listed.or(any).map_or(left, |weight| (weight > 0).then_some(weight))
}

fn qvalue(text: &str) -> Option<u16> {
    let plain = text.starts_with(['0', '1'])
        && text.len() <= 5
        && text
            .bytes()
            .enumerate()
            .all(|(at, byte)| if at == 1 { byte == b'.' } else { byte.is_ascii_digit() });
    let value: f64 = text.parse().ok().filter(|_| plain)?;
    (value <= 1.0).then_some((value * 1000.0).round() as u16)
}
