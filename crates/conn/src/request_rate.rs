//! How many requests an address may send: a rate, and how many may come at once.
//!
//! ```text
//! "10/s", burst 20 ─▶ RequestPace: an interval of 100 ms, 20 of which a client may be ahead
//!
//! ahead of the rate:  0 ──────── one interval for each request ────────▶ 20 intervals: refused
//!                     ◀────────────── time that passes ───────────────
//! ```
//!
//! This is the generic cell rate algorithm (ITU-T I.371): a token bucket whose state is one time, that at which the client is idle again. It
//! knows neither clocks nor clients.

use std::{fmt, num::NonZeroU32, str::FromStr};

/// A number of requests in a second, a minute or an hour. The text is `10/s`, `300/m` or `1000/h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestRate {
    count: NonZeroU32,
    period: RatePeriod,
}

/// The period of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RatePeriod {
    Second,
    Minute,
    Hour,
}

/// A rate, and how many requests may come at once after a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimit {
    /// The rate in the long run.
    pub rate: RequestRate,
    /// The requests that may come at once. `None`: those of one second, at least one.
    pub burst: Option<NonZeroU32>,
}

/// A limit in the units of a table of rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestPace {
    /// How far each request takes the client ahead.
    interval: u64,
    /// How far ahead a client may be that sends another request.
    tolerance: u64,
}

/// The reason why a pair of rate and burst is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BurstTooLong;

/// The unit of time of a table of rates, in microseconds.
pub(crate) const UNIT_US: u64 = 4;

/// The longest time that a client can be ahead of its rate, in these units: a day. A table takes a time that is further away for one that has
/// passed long ago.
pub(crate) const AHEAD_MAX: u64 = 86_400 * 1_000_000 / UNIT_US;

/// The largest number of requests in a second. An interval then has 25 units, so that rounding changes no rate by more than 2 %.
const PER_SECOND_MAX: u32 = 10_000;

const EXPECTED: &str = "expected a number of requests and s, m or h, up to 10000 in a second";

impl RequestRate {
    /// Returns the time between two requests, in units of a table.
    fn interval(self) -> u64 {
        let period = u64::from(self.period.seconds()) * 1_000_000 / UNIT_US;
        let count = u64::from(self.count.get());
        // To the nearest.
        (period + count / 2) / count
    }
}

impl RatePeriod {
    fn seconds(self) -> u32 {
        match self {
            RatePeriod::Second => 1,
            RatePeriod::Minute => 60,
            RatePeriod::Hour => 3_600,
        }
    }
}

impl RequestLimit {
    /// Returns the number of requests that may come at once.
    pub fn burst(self) -> NonZeroU32 {
        let of_second = self.rate.count.get().div_ceil(self.rate.period.seconds());
        self.burst.or(NonZeroU32::new(of_second)).unwrap_or(NonZeroU32::MIN)
    }

    /// Checks that the requests of a burst are those of a day at most.
    ///
    /// # Errors
    /// They are more.
    pub fn check(self) -> Result<(), BurstTooLong> {
        match u64::from(self.burst().get()).checked_mul(self.rate.interval()) {
            Some(ahead) if ahead <= AHEAD_MAX => Ok(()),
            _ => Err(BurstTooLong),
        }
    }

    /// Returns the limit in the units of a table. A burst of more than a day has the requests of a day.
    pub(crate) fn pace(self) -> RequestPace {
        let interval = self.rate.interval();
        let tolerance = u64::from(self.burst().get() - 1).saturating_mul(interval);
        RequestPace { interval, tolerance: tolerance.min(AHEAD_MAX - interval) }
    }
}

impl RequestPace {
    /// Returns how far ahead a client is after another request, if it was `ahead` before.
    ///
    /// # Errors
    /// The request is one too many. Returns how long the client has to wait.
    #[inline]
    pub(crate) fn admit(self, ahead: u64) -> Result<u64, u64> {
        match ahead.checked_sub(self.tolerance) {
            None | Some(0) => Ok(ahead + self.interval),
            Some(wait) => Err(wait),
        }
    }
}

impl FromStr for RequestRate {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<RequestRate, &'static str> {
        let (count, period) = text.split_once('/').ok_or(EXPECTED)?;
        let period = match period {
            "s" => RatePeriod::Second,
            "m" => RatePeriod::Minute,
            "h" => RatePeriod::Hour,
            _ => return Err(EXPECTED),
        };
        let is_number = count.bytes().all(|byte| byte.is_ascii_digit());
        let count: NonZeroU32 = count.parse().ok().filter(|_| is_number).ok_or(EXPECTED)?;
        match count.get() <= PER_SECOND_MAX * period.seconds() {
            true => Ok(RequestRate { count, period }),
            false => Err(EXPECTED),
        }
    }
}

impl fmt::Display for RequestRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let period = match self.period {
            RatePeriod::Second => 's',
            RatePeriod::Minute => 'm',
            RatePeriod::Hour => 'h',
        };
        write!(f, "{}/{period}", self.count)
    }
}

impl fmt::Display for BurstTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the requests of a burst are those of more than a day")
    }
}

impl std::error::Error for BurstTooLong {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_a_count_and_a_period() {
        #[rustfmt::skip]
        let cases: &[(&str, Option<u64>)] = &[
            // text         microseconds between two requests
            ("1/s",         Some(1_000_000)),
            ("10/s",        Some(100_000)),
            ("300/m",       Some(200_000)),
            ("1/m",         Some(60_000_000)),
            ("1/h",         Some(3_600_000_000)),
            ("007/s",       Some(142_856)),
            ("10000/s",     Some(100)),
            ("600000/m",    Some(100)),
            ("36000000/h",  Some(100)),
            ("10001/s",     None),
            ("600001/m",    None),
            ("36000001/h",  None),
            ("4294967296/h", None),
            ("0/s",         None),
            ("/s",          None),
            ("10",          None),
            ("10/",         None),
            ("10/d",        None),
            ("10/sec",      None),
            ("10 /s",       None),
            ("+10/s",       None),
            ("-1/s",        None),
            ("1.5/s",       None),
            ("10r/s",       None),
            ("",            None),
        ];
        for &(text, want) in cases {
            let rate = text.parse::<RequestRate>();
            assert_eq!(rate.map(|rate| rate.interval() * UNIT_US).ok(), want, "{text}");
            if let Ok(rate) = rate {
                assert_eq!(rate.to_string(), text.trim_start_matches('0'));
            }
        }
    }

    #[test]
    fn a_burst_is_that_of_a_second_unless_it_is_given() {
        #[rustfmt::skip]
        let cases: &[(&str, u32, u32, bool)] = &[
            // rate    given   requests at once, fit into a day
            ("10/s",   0,      10,               true),
            ("10/s",   1,      1,                true),
            ("10/s",   864_000, 864_000,         true),
            ("10/s",   864_001, 864_001,         false),
            ("300/m",  0,      5,                true),
            ("301/m",  0,      6,                true),
            ("1/m",    0,      1,                true),
            ("1/h",    24,     24,               true),
            ("1/h",    25,     25,               false),
            ("1/h",    u32::MAX, u32::MAX,       false),
        ];
        for &(rate, given, burst, fits) in cases {
            let limit = RequestLimit { rate: rate.parse().expect(rate), burst: NonZeroU32::new(given) };
            assert_eq!((limit.burst().get(), limit.check().is_ok()), (burst, fits), "{rate}, {given}");
            let RequestPace { interval, tolerance } = limit.pace();
            assert!(interval + tolerance <= AHEAD_MAX, "{rate}, {given}");
        }
    }

    #[test]
    fn a_burst_passes_and_then_one_request_in_each_interval() {
        let limit = RequestLimit { rate: "10/s".parse().unwrap(), burst: NonZeroU32::new(3) };
        let (pace, interval) = (limit.pace(), 25_000);
        let mut ahead = 0;
        for _ in 0..3 {
            ahead = pace.admit(ahead).expect("within the burst");
        }
        assert_eq!(pace.admit(ahead), Err(interval));
        assert_eq!(pace.admit(ahead - interval + 1), Err(1));
        assert_eq!(pace.admit(ahead - interval), Ok(ahead));
    }
}
