//! Numbers as text, for tables and messages.

/// Formats requests per second with about three digits.
pub(crate) fn rate(per_second: f64) -> String {
    match per_second {
        10_000.0.. => format!("{:.0}k", per_second / 1e3),
        1_000.0.. => format!("{:.1}k", per_second / 1e3),
        _ => format!("{per_second:.0}"),
    }
}

/// Formats a share as a percentage.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

/// Formats a ratio of two numbers.
pub(crate) fn factor(ratio: f64) -> String {
    format!("×{ratio:.3}")
}

/// Formats an interval.
pub(crate) fn range(min: &str, max: &str) -> String {
    format!("{min}–{max}")
}

/// Formats nanoseconds as milliseconds with about three digits.
pub(crate) fn ms(ns: f64) -> String {
    match ns / 1e6 {
        ms @ 100.0.. => format!("{ms:.0}"),
        ms @ 1.0.. => format!("{ms:.1}"),
        ms => format!("{ms:.2}"),
    }
}

/// Formats bytes as MiB with about three digits.
pub(crate) fn mib(bytes: f64) -> String {
    match bytes / (1 << 20) as f64 {
        mib @ 100.0.. => format!("{mib:.0}"),
        mib => format!("{mib:.1}"),
    }
}

/// Formats a count with a comma before every three digits.
pub(crate) fn thousands(count: usize) -> String {
    match count {
        0..1000 => count.to_string(),
        _ => format!("{},{:03}", thousands(count / 1000), count % 1000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_about_three_digits() {
        for (number, want) in [(306_120.4, "306k"), (62_000.0, "62k"), (3_849.0, "3.8k"), (47.2, "47")] {
            assert_eq!(rate(number), want);
        }
        for (ns, want) in [(1.234e9, "1234"), (12.34e6, "12.3"), (1.0e6, "1.0"), (45_600.0, "0.05")] {
            assert_eq!(ms(ns), want);
        }
        for (bytes, want) in [(f64::from(1 << 30), "1024"), (1_572_864.0, "1.5"), (0.0, "0.0")] {
            assert_eq!(mib(bytes), want);
        }
        for (count, want) in [(1, "1"), (1000, "1,000"), (12_034, "12,034"), (1_000_007, "1,000,007")] {
            assert_eq!(thousands(count), want);
        }
    }
}
