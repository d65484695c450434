//! Formats and parses HTTP dates. RFC 9110, section 5.6.7.
//!
//! ```text
//! IMF-fixdate   Sun, 06 Nov 1994 08:49:37 GMT     the only form that senders may generate
//! rfc850-date   Sunday, 06-Nov-94 08:49:37 GMT    obsolete, accepted from old senders
//! asctime-date  Sun Nov  6 08:49:37 1994          obsolete, accepted from old senders
//! ```
//!
//! Times are seconds since 1970-01-01 00:00:00 UTC, without leap seconds.

/// The last second that IMF-fixdate can express with its four-digit year: the end of 9999.
pub const UNIX_S_MAX: u64 = 253_402_300_799;

/// Formats `unix_s` as IMF-fixdate. Clamps it to [`UNIX_S_MAX`].
///
/// ```
/// use tarpon_http::date;
///
/// assert_eq!(&date::format(784_111_777), b"Sun, 06 Nov 1994 08:49:37 GMT");
/// ```
pub fn format(unix_s: u64) -> [u8; 29] {
    let unix_s = unix_s.min(UNIX_S_MAX);
    let (days, second) = (unix_s / DAY_S, unix_s % DAY_S);
    let (year, month, day) = civil_from_days(days);
    let mut date = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    date[..3].copy_from_slice(&DAYS[(days % 7) as usize].as_bytes()[..3]);
    date[5..7].copy_from_slice(&two_digits(day));
    date[8..11].copy_from_slice(MONTHS[month as usize - 1]);
    date[12..14].copy_from_slice(&two_digits(year / 100));
    date[14..16].copy_from_slice(&two_digits(year % 100));
    date[17..19].copy_from_slice(&two_digits(second / 3600));
    date[20..22].copy_from_slice(&two_digits(second / 60 % 60));
    date[23..25].copy_from_slice(&two_digits(second % 60));
    date
}

/// Formats `unix_s` like `2026-01-14T04:21:21Z`, as RFC 3339 and HTML define it. Clamps it to [`UNIX_S_MAX`].
pub fn format_rfc3339(unix_s: u64) -> [u8; 20] {
    let unix_s = unix_s.min(UNIX_S_MAX);
    let (days, second) = (unix_s / DAY_S, unix_s % DAY_S);
    let (year, month, day) = civil_from_days(days);
    let mut date = *b"1970-01-01T00:00:00Z";
    let parts = [year / 100, year % 100, month, day, second / 3600, second / 60 % 60, second % 60];
    for (at, part) in [0, 2, 5, 8, 11, 14, 17].into_iter().zip(parts) {
        date[at..at + 2].copy_from_slice(&two_digits(part));
    }
    date
}

/// Formats `unix_ms`, in milliseconds, like `2026-01-14T04:21:21.042Z`. Clamps it to the last second of [`UNIX_S_MAX`].
pub fn format_rfc3339_ms(unix_ms: u64) -> [u8; 24] {
    let mut date = *b"1970-01-01T00:00:00.000Z";
    date[..19].copy_from_slice(&format_rfc3339(unix_ms / 1000)[..19]);
    let ms = unix_ms % 1000;
    date[20] = b'0' + (ms / 100) as u8;
    date[21..23].copy_from_slice(&two_digits(ms % 100));
    date
}

/// Formats `unix_s` like `14/Jan/2026:04:21:21 +0000`, as the common log format has it. Clamps it to [`UNIX_S_MAX`].
pub fn format_common_log(unix_s: u64) -> [u8; 26] {
    let from = format(unix_s);
    let mut date = *b"01/Jan/1970:00:00:00 +0000";
    date[..2].copy_from_slice(&from[5..7]);
    date[3..6].copy_from_slice(&from[8..11]);
    date[7..11].copy_from_slice(&from[12..16]);
    date[12..20].copy_from_slice(&from[17..25]);
    date
}

/// Parses a date in one of the three forms. Returns `None` if `value` has none of the forms, if the day or time does not exist, or
/// if it is before 1970.
///
/// `now` decides the century of a two-digit year: a date that would be more than 50 years in the future is in the past. The day
/// name must be a valid one, but may be wrong for the date.
///
/// ```
/// use tarpon_http::date;
///
/// let now = 1_795_219_200;
/// assert_eq!(date::parse(b"Sunday, 06-Nov-94 08:49:37 GMT", now), Some(784_111_777));
/// assert_eq!(date::parse(b"yesterday", now), None);
/// ```
pub fn parse(value: &[u8], now: u64) -> Option<u64> {
    match value.iter().position(|&byte| byte == b',') {
        Some(3) => imf_fixdate(value),
        Some(_) => rfc850_date(value, now),
        None => asctime_date(value),
    }
}

fn imf_fixdate(value: &[u8]) -> Option<u64> {
    let (name, rest) = value.split_first_chunk::<3>()?;
    day_name(|full| full.as_bytes()[..3] == *name)?;
    let [b',', b' ', d1, d2, b' ', m1, m2, m3, b' ', y1, y2, y3, y4, b' ', time @ ..] = rest else {
        return None;
    };
    let year = number(&[*y1, *y2, *y3, *y4])?;
    unix_s(year, month(&[*m1, *m2, *m3])?, number(&[*d1, *d2])?, gmt(time)?)
}

fn rfc850_date(value: &[u8], now: u64) -> Option<u64> {
    let comma = value.iter().position(|&byte| byte == b',')?;
    let (name, rest) = value.split_at(comma);
    day_name(|full| full.as_bytes() == name)?;
    let [b',', b' ', d1, d2, b'-', m1, m2, m3, b'-', y1, y2, b' ', time @ ..] = rest else { return None };
    let (month, day) = (month(&[*m1, *m2, *m3])?, number(&[*d1, *d2])?);
    let (this_year, ..) = civil_from_days(now.min(UNIX_S_MAX) / DAY_S);
    // The latest year with these digits that is at most 50 years in the future.
    let latest = this_year + 50;
    let year = latest - (latest - number(&[*y1, *y2])?) % 100;
    let time = gmt(time)?;
    // In that last year, the day or the time may still be more than 50 years in the future.
    match unix_s(year, month, day, time) {
        Some(ahead) if year == latest && ahead > fifty_years_after(now) => {
            unix_s(year - 100, month, day, time)
        }
        other => other,
    }
}

fn asctime_date(value: &[u8]) -> Option<u64> {
    let (name, rest) = value.split_first_chunk::<3>()?;
    day_name(|full| full.as_bytes()[..3] == *name)?;
    let [b' ', m1, m2, m3, b' ', d1, d2, b' ', time @ ..] = rest else { return None };
    let (time, [b' ', year @ ..]) = time.split_last_chunk::<5>()? else { return None };
    // date3 = month SP ( 2DIGIT / ( SP 1DIGIT ))
    let day = if *d1 == b' ' { number(&[*d2])? } else { number(&[*d1, *d2])? };
    unix_s(number(year)?, month(&[*m1, *m2, *m3])?, day, time_of_day(time)?)
}

fn day_name(is: impl Fn(&str) -> bool) -> Option<()> {
    DAYS.iter().any(|day| is(day)).then_some(())
}

fn month(name: &[u8; 3]) -> Option<u64> {
    MONTHS.iter().position(|month| *month == name).map(|index| index as u64 + 1)
}

fn gmt(value: &[u8]) -> Option<u64> {
    time_of_day(value.strip_suffix(b" GMT")?)
}

/// Parses a time of day into seconds since midnight. The second may be 60, for a leap second.
fn time_of_day(value: &[u8]) -> Option<u64> {
    let [h1, h2, b':', m1, m2, b':', s1, s2] = value else { return None };
    let (hour, minute, second) = (number(&[*h1, *h2])?, number(&[*m1, *m2])?, number(&[*s1, *s2])?);
    (hour < 24 && minute < 60 && second <= 60).then_some(hour * 3600 + minute * 60 + second)
}

fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |sum, digit| digit.is_ascii_digit().then(|| sum * 10 + u64::from(digit - b'0')))
}

fn two_digits(number: u64) -> [u8; 2] {
    [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8]
}

fn fifty_years_after(now: u64) -> u64 {
    let now = now.min(UNIX_S_MAX);
    let (year, month, day) = civil_from_days(now / DAY_S);
    // 50 years after 29 February there is no such day, so this takes the day before.
    let day = day.min(days_in(year + 50, month));
    days_from_civil(year + 50, month, day) * DAY_S + now % DAY_S
}

/// Converts a date and time to Unix time. Returns `None` if the day does not exist or is before 1970.
fn unix_s(year: u64, month: u64, day: u64, second_of_day: u64) -> Option<u64> {
    let exists = year >= 1970 && (1..=days_in(year, month)).contains(&day);
    exists.then(|| days_from_civil(year, month, day) * DAY_S + second_of_day)
}

fn days_in(year: u64, month: u64) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

/// Returns the days from 1970-01-01 to this day. Counts years from March, so that the leap day is the last day of a year, and any
/// five months from March on have 153 days.
fn days_from_civil(year: u64, month: u64, day: u64) -> u64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    year * 365 + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - EPOCH_DAYS
}

/// Returns year, month and day of the day `days` after 1970-01-01; the inverse of [`days_from_civil`].
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let days = days + EPOCH_DAYS;
    let (era, day_of_era) = (days / ERA_DAYS, days % ERA_DAYS);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (year_of_era * 365 + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year_of_era + next, month, day)
}

const DAY_S: u64 = 24 * 3600;

/// The days in 400 years, the period of the calendar.
const ERA_DAYS: u64 = 146_097;

/// The days from 1 March of year 0 to 1970-01-01.
const EPOCH_DAYS: u64 = 719_468;

/// The days of the week, beginning with that of 1970-01-01.
const DAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];

const MONTHS: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

#[cfg(test)]
mod tests {
    extern crate std;
    use std::string::ToString;
    use std::time::{Duration, UNIX_EPOCH};

    use proptest::prelude::*;

    use super::*;

    /// 2026-11-21 00:00:00
    const NOW: u64 = 1_795_219_200;

    #[test]
    fn only_the_three_forms_are_parsed() {
        #[rustfmt::skip]
        let cases: &[(&str, &str, Option<u64>)] = &[
            // case                     value                                time
            ("IMF-fixdate",             "Sun, 06 Nov 1994 08:49:37 GMT",     Some(784_111_777)),
            ("rfc850-date",             "Sunday, 06-Nov-94 08:49:37 GMT",    Some(784_111_777)),
            ("asctime-date",            "Sun Nov  6 08:49:37 1994",          Some(784_111_777)),
            ("asctime, two digits",     "Sun Nov 13 08:49:37 1994",          Some(784_716_577)),
            ("epoch",                   "Thu, 01 Jan 1970 00:00:00 GMT",     Some(0)),
            ("leap second",             "Sat, 31 Dec 2016 23:59:60 GMT",     Some(1_483_228_800)),
            ("leap day",                "Thu, 29 Feb 2024 00:00:00 GMT",     Some(1_709_164_800)),
            ("leap century",            "Tue, 29 Feb 2000 00:00:00 GMT",     Some(951_782_400)),
            ("another day's name",      "Mon, 06 Nov 1994 08:49:37 GMT",     Some(784_111_777)),
            ("49 years ahead",          "Sunday, 21-Nov-75 00:00:00 GMT",    Some(3_341_520_000)),
            ("50 years ahead",          "Saturday, 21-Nov-76 00:00:00 GMT",  Some(3_373_142_400)),
            ("a second more",           "Saturday, 21-Nov-76 00:00:01 GMT",  Some(217_382_401)),
            ("a year more",             "Monday, 21-Nov-77 00:00:00 GMT",    Some(248_918_400)),
            ("no leap year",            "Wed, 29 Feb 2023 00:00:00 GMT",     None),
            ("no leap century",         "Mon, 29 Feb 2100 00:00:00 GMT",     None),
            ("no such day",             "Sun, 31 Nov 1994 08:49:37 GMT",     None),
            ("day 0",                   "Sun, 00 Nov 1994 08:49:37 GMT",     None),
            ("no such month",           "Sun, 06 Nox 1994 08:49:37 GMT",     None),
            ("month in another case",   "Sun, 06 nov 1994 08:49:37 GMT",     None),
            ("no such day's name",      "Son, 06 Nov 1994 08:49:37 GMT",     None),
            ("hour 24",                 "Sun, 06 Nov 1994 24:00:00 GMT",     None),
            ("minute 60",               "Sun, 06 Nov 1994 08:60:37 GMT",     None),
            ("second 61",               "Sun, 06 Nov 1994 08:49:61 GMT",     None),
            ("another zone",            "Sun, 06 Nov 1994 08:49:37 UTC",     None),
            ("no zone",                 "Sun, 06 Nov 1994 08:49:37",         None),
            ("one digit",               "Sun, 6 Nov 1994 08:49:37 GMT",      None),
            ("space for a digit",       "Sun, 06 Nov 1994  8:49:37 GMT",     None),
            ("sign",                    "Sun, +6 Nov 1994 08:49:37 GMT",     None),
            ("two digits of a year",    "Sun, 06 Nov 94 08:49:37 GMT",       None),
            ("rfc850, four digits",     "Sunday, 06-Nov-1994 08:49:37 GMT",  None),
            ("rfc850, short name",      "Sun, 06-Nov-94 08:49:37 GMT",       None),
            ("asctime with zone",       "Sun Nov  6 08:49:37 1994 GMT",      None),
            ("asctime, zero for space", "Sun Nov 06 08:49:37 1994",          Some(784_111_777)),
            ("junk after",              "Sun, 06 Nov 1994 08:49:37 GMT ",    None),
            ("a second date",           "Sun, 06 Nov 1994 08:49:37 GMT, a",  None),
            ("before 1970",             "Wed, 31 Dec 1969 23:59:59 GMT",     None),
            ("year 0",                  "Sat, 01 Jan 0000 00:00:00 GMT",     None),
            ("empty",                   "",                                  None),
            ("a number",                "784111777",                         None),
        ];
        for (name, value, want) in cases {
            assert_eq!(parse(value.as_bytes(), NOW), *want, "{name}: {value}");
        }
    }

    #[test]
    fn logs_have_their_own_forms() {
        assert_eq!(&format_rfc3339_ms(784_111_777_042), b"1994-11-06T08:49:37.042Z");
        assert_eq!(&format_rfc3339_ms(u64::MAX)[..19], b"9999-12-31T23:59:59");
        assert_eq!(&format_common_log(784_111_777), b"06/Nov/1994:08:49:37 +0000");
        assert_eq!(&format_common_log(u64::MAX), b"31/Dec/9999:23:59:59 +0000");
    }

    #[test]
    fn later_times_are_clamped_to_the_last_second() {
        assert_eq!(&format(UNIX_S_MAX), b"Fri, 31 Dec 9999 23:59:59 GMT");
        assert_eq!(format(u64::MAX), format(UNIX_S_MAX));
        assert_eq!(&format_rfc3339(UNIX_S_MAX), b"9999-12-31T23:59:59Z");
        assert_eq!(format_rfc3339(u64::MAX), format_rfc3339(UNIX_S_MAX));
        assert_eq!(&format_rfc3339(0), b"1970-01-01T00:00:00Z");
        assert_eq!(&format_rfc3339(951_782_400 + 86_399), b"2000-02-29T23:59:59Z");
        assert_eq!(&format_rfc3339(784_111_777), b"1994-11-06T08:49:37Z");
    }

    proptest! {
        #[test]
        fn formatted_date_agrees_with_httpdate_and_parses_back(unix_s in 0..=UNIX_S_MAX) {
            let oracle = httpdate::HttpDate::from(UNIX_EPOCH + Duration::from_secs(unix_s)).to_string();
            prop_assert_eq!(&format(unix_s)[..], oracle.as_bytes());
            prop_assert_eq!(parse(&format(unix_s), NOW), Some(unix_s));
        }

        #[test]
        fn two_digit_year_is_within_fifty_years_of_now(now in 2_000_000_000..UNIX_S_MAX / 2, years in 0_u64..100) {
            let (year, ..) = civil_from_days(now / DAY_S);
            let value = std::format!("Sunday, 01-Mar-{:02} 00:00:00 GMT", (year + years) % 100);
            let read = parse(value.as_bytes(), now).unwrap();
            prop_assert!(read <= fifty_years_after(now));
            prop_assert!(read + 101 * 366 * DAY_S > fifty_years_after(now));
        }

        #[test]
        fn accepted_dates_agree_with_httpdate(
            value in "(Sun|Mon), [0-3][0-9] (Jan|Feb|Nov) (1970|19[7-9][0-9]|20[0-9]{2}) [0-2][0-9]:[0-6][0-9]:[0-6][0-9] GMT",
        ) {
            if let (Some(ours), Ok(theirs)) = (parse(value.as_bytes(), NOW), httpdate::parse_http_date(&value)) {
                prop_assert_eq!(UNIX_EPOCH + Duration::from_secs(ours), theirs);
            }
        }

        #[test]
        fn any_bytes_are_handled_without_panic(value in proptest::collection::vec(any::<u8>(), 0..40), now: u64) {
            let _ = parse(&value, now);
        }
    }
}
