//! HTTP-date: formatting and parsing are inverse, and agree with httpdate.

#![no_main]

use std::time::{Duration, UNIX_EPOCH};

use libfuzzer_sys::fuzz_target;
use tarpon_http::date::{UNIX_S_MAX, format, parse};

// The input is a field value; its first eight bytes are also a time.
fuzz_target!(|input: &[u8]| {
    if let Some(bytes) = input.first_chunk() {
        format_and_parse(u64::from_le_bytes(*bytes) % (UNIX_S_MAX + 1));
    }
    let found = parse(input, NOW);
    if let Some(unix_s) = found.filter(|&unix_s| unix_s <= UNIX_S_MAX) {
        format_and_parse(unix_s);
        parse_and_format(input, unix_s);
    }
    if let Some(unix_s) = found {
        assert_httpdate_agrees(input, unix_s);
    }
});

/// Checks that httpdate accepts the date and returns the same time, with two exceptions: httpdate refuses a wrong day name and a leap
/// second. It accepts other bytes in place of some spaces, which this crate refuses.
fn assert_httpdate_agrees(input: &[u8], unix_s: u64) {
    let text = str::from_utf8(input).expect("a date is ASCII");
    match httpdate::parse_http_date(text) {
        Ok(theirs) => assert_eq!(theirs, UNIX_EPOCH + Duration::from_secs(unix_s)),
        Err(_) => {
            assert!(input[..3] != format(unix_s)[..3] || text.contains(":60"), "httpdate refuses {text}")
        }
    }
}

fn format_and_parse(unix_s: u64) {
    let date = format(unix_s);
    assert_eq!(parse(&date, NOW), Some(unix_s));
    assert_eq!(date, *httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(unix_s)).as_bytes());
}

/// Checks that a parsed IMF-fixdate formats to the same text, except for a wrong day name or a leap second.
fn parse_and_format(input: &[u8], unix_s: u64) {
    if let [_, _, _, b',', rest @ ..] = input
        && !input.ends_with(b":60 GMT")
    {
        assert_eq!(rest.escape_ascii().to_string(), format(unix_s)[4..].escape_ascii().to_string());
    }
}

/// The last second of 2019: two digits of a year then mean 1970 to 2069, which is what httpdate always takes them for.
const NOW: u64 = 1_577_836_799;
