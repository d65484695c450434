//! The format of durations: `20s`, `1m30s`, `500ms`, or a plain number of seconds.

use std::time::Duration;

/// Units in nanoseconds, from large to small. A duration has each at most once, in this order.
const UNITS: [(&str, u64); 5] =
    [("d", 86_400 * SECOND), ("h", 3_600 * SECOND), ("m", 60 * SECOND), ("s", SECOND), ("ms", SECOND / 1000)];

const SECOND: u64 = 1_000_000_000;

/// Parses a duration.
pub(super) fn parse(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.parse() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let (mut rest, mut units, mut sum) = (text, &UNITS[..], 0u64);
    while !rest.is_empty() {
        let (digits, tail) = rest.split_at(rest.find(|char: char| !char.is_ascii_digit())?);
        let name = &tail[..tail.find(|char: char| char.is_ascii_digit()).unwrap_or(tail.len())];
        let at = units.iter().position(|(unit, _)| *unit == name)?;
        sum = digits.parse::<u64>().ok()?.checked_mul(units[at].1)?.checked_add(sum)?;
        (rest, units) = (&tail[name.len()..], &units[at + 1..]);
    }
    (!text.is_empty()).then_some(Duration::from_nanos(sum))
}

/// Formats a duration in its largest units.
pub(super) fn format(time: Duration) -> String {
    let mut rest = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let mut text = String::new();
    for (unit, len) in UNITS {
        if rest >= len {
            text += &format!("{}{unit}", rest / len);
            rest %= len;
        }
    }
    // The rest is smaller than the smallest unit.
    if rest > 0 {
        time.as_secs_f64().to_string()
    } else if text.is_empty() {
        "0s".to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[rustfmt::skip]
    fn durations_are_parsed_and_formatted() {
        let cases: &[(&str, Option<(u64, &str)>)] = &[
            // text          microseconds, formatted
            ("20",           Some((20_000_000, "20s"))),
            ("20s",          Some((20_000_000, "20s"))),
            ("0.5",          Some((500_000, "500ms"))),
            ("500ms",        Some((500_000, "500ms"))),
            ("1m30s",        Some((90_000_000, "1m30s"))),
            ("90",           Some((90_000_000, "1m30s"))),
            ("1d2h3m4s5ms",  Some((93_784_005_000, "1d2h3m4s5ms"))),
            ("24h",          Some((86_400_000_000, "1d"))),
            ("0.0015",       Some((1_500, "0.0015"))),
            ("0",            Some((0, "0s"))),
            ("1e3",          Some((1_000_000_000, "16m40s"))),
            ("",             None),
            ("s",            None),
            ("5x",           None),
            ("30s1m",        None),
            ("1s1s",         None),
            ("1m30",         None),
            ("1.5s",         None),
            ("-1",           None),
            ("nan",          None),
            ("inf",          None),
            ("1 s",          None),
            ("99999999999d", None),
        ];
        for &(text, want) in cases {
            let got = parse(text);
            assert_eq!(got, want.map(|(us, _)| Duration::from_micros(us)), "{text}");
            let Some(((_, want), time)) = want.zip(got) else { continue };
            assert_eq!(format(time), want, "{text}");
            assert_eq!(parse(&format(time)), Some(time), "{text}");
        }
    }
}
