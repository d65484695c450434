//! Quantiles of response times, with two significant digits.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::records::race::TimeQuantiles;

/// The response times of one run.
pub(crate) struct ResponseTimes {
    histogram: Histogram<u64>,
}

impl ResponseTimes {
    /// Creates an empty value. Adding times allocates nothing.
    pub(crate) fn new() -> ResponseTimes {
        let histogram = Histogram::new_with_bounds(1, LONGEST.as_nanos() as u64, DIGITS);
        ResponseTimes { histogram: histogram.expect("bounds in order") }
    }

    /// Adds a time. One above the maximum counts as the maximum.
    pub(crate) fn add(&mut self, time: Duration) {
        self.histogram.saturating_record(time.as_nanos() as u64);
    }

    pub(crate) fn clear(&mut self) {
        self.histogram.reset();
    }

    /// Returns the quantiles; `None` without times.
    pub(crate) fn quantiles(&self) -> Option<TimeQuantiles> {
        let quantile = |share| self.histogram.value_at_quantile(share);
        (!self.histogram.is_empty()).then(|| TimeQuantiles {
            p50_ns: quantile(0.5),
            p99_ns: quantile(0.99),
            p999_ns: quantile(0.999),
        })
    }
}

/// A longer time than the client waits for.
const LONGEST: Duration = Duration::from_secs(10);

/// An error of 1% is less than rounds differ. With one digit more the counters would not fit into the first cache.
const DIGITS: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_one_percent() {
        let mut times = ResponseTimes::new();
        assert_eq!(times.quantiles(), None);
        (1..=1000).for_each(|micros| times.add(Duration::from_micros(micros)));
        let TimeQuantiles { p50_ns, p99_ns, p999_ns } = times.quantiles().expect("times");
        for (got, want) in [(p50_ns, 500_000), (p99_ns, 990_000), (p999_ns, 999_000)] {
            assert!(got.abs_diff(want) <= want / 100, "{got}, {want}");
        }
        times.clear();
        times.add(LONGEST * 2);
        assert!(times.quantiles().expect("a time").p50_ns >= LONGEST.as_nanos() as u64 * 99 / 100);
    }
}
