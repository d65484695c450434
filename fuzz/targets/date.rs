//! HTTP-date: written and read back, and read as httpdate reads it.

#![no_main]

use std::time::{Duration, UNIX_EPOCH};

use libfuzzer_sys::fuzz_target;
use tarpon_http::date::{UNIX_S_MAX, format, parse};

// Eight bytes are a time; any number of bytes is a field value.
fuzz_target!(|input: &[u8]| {
    if let Some(bytes) = input.first_chunk() {
        written_and_read_back(u64::from_le_bytes(*bytes) % (UNIX_S_MAX + 1));
    }
    let found = parse(input, NOW);
    if let Some(unix_s) = found.filter(|&unix_s| unix_s <= UNIX_S_MAX) {
        written_and_read_back(unix_s);
        read_and_written_back(input, unix_s);
    }
    if let Some(unix_s) = found {
        httpdate_agrees(input, unix_s);
    }
});

/// What we accept, httpdate accepts, and reads the same in it. It differs in two things: it holds the name of the day
/// against the date, and knows no leap second. (What it takes besides, other bytes for some of the spaces, we do not.)
fn httpdate_agrees(input: &[u8], unix_s: u64) {
    let text = str::from_utf8(input).expect("a date is ASCII");
    match httpdate::parse_http_date(text) {
        Ok(theirs) => assert_eq!(theirs, UNIX_EPOCH + Duration::from_secs(unix_s)),
        Err(_) => {
            assert!(input[..3] != format(unix_s)[..3] || text.contains(":60"), "httpdate refuses {text}")
        }
    }
}

fn written_and_read_back(unix_s: u64) {
    let date = format(unix_s);
    assert_eq!(parse(&date, NOW), Some(unix_s));
    assert_eq!(date, *httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(unix_s)).as_bytes());
}

/// A date in the form we write comes out as it went in, but for a wrong name of the day, and for a leap second.
fn read_and_written_back(input: &[u8], unix_s: u64) {
    if let [_, _, _, b',', rest @ ..] = input
        && !input.ends_with(b":60 GMT")
    {
        assert_eq!(rest.escape_ascii().to_string(), format(unix_s)[4..].escape_ascii().to_string());
    }
}

/// The last second of 2019: two digits of a year then mean 1970 to 2069, which is what httpdate always takes them for.
const NOW: u64 = 1_577_836_799;
