//! The state of a running server, as a few lines for a terminal.

use crate::program::output::{
    messages::{Bytes, Count},
    upstream_table,
};
use crate::{Metrics, ServerState, SiteReading};
use anstyle::Style;
use std::{
    io::{self, Write},
    time::{SystemTime, UNIX_EPOCH},
};
use tarpon_site::Printable;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();

/// Writes the state. `unix_s`: the current time in seconds since 1970.
pub(crate) fn write(metrics: &Metrics, unix_s: u64, to: &mut impl Write) -> io::Result<()> {
    let state = match metrics.state {
        ServerState::Starting => {
            return writeln!(to, "{BOLD}starting{BOLD:#}: the sites are not loaded yet");
        }
        ServerState::Serving => "serving",
        ServerState::Draining => "draining",
    };
    let Metrics {
        version,
        engine,
        accepted,
        open,
        sent_len,
        received_len,
        aborted,
        log_dropped,
        log_lost,
        ..
    } = metrics;
    // These texts come from the server.
    let (version, engine) = (version.printable(), engine.printable());
    let (up, workers) =
        (unix_s.saturating_sub(metrics.start_unix_s), Count(metrics.workers as u64, "worker"));
    writeln!(
        to,
        "{BOLD}{state}{BOLD:#} for {}  {DIM}tarpon {version}, {engine}, {workers}{DIM:#}",
        uptime(up)
    )?;
    let (sent, received) = (Bytes(*sent_len), Bytes(*received_len));
    let rows = [
        ("connections", grouped(*open), format!("open, of {} accepted", grouped(*accepted))),
        ("requests", grouped(metrics.response_count()), by_status(metrics)),
        ("sent", sent.to_string(), format!("received {received}")),
        ("aborted", grouped(*aborted), "responses: the client left or was too slow".to_owned()),
        (
            "not logged",
            grouped(log_dropped + log_lost),
            "requests: the log was slow, or its disk full".to_owned(),
        ),
    ];
    for (what, value, more) in rows {
        writeln!(to, "  {what:<12} {value:>14}  {DIM}{more}{DIM:#}")?;
    }
    if metrics.completed > 0 {
        let [p50, p99] = [0.5, 0.99].map(|share| percentile(metrics, share));
        writeln!(to, "  {:<12} {p50:>14}  {DIM}p50; p99 {p99}{DIM:#}", "duration")?;
    }
    if let Some(cgi) = &metrics.cgi {
        let more = format!(
            "running, {} queued; {} started, {} failed, {} timed out, {} requests refused",
            grouped(cgi.queued),
            grouped(cgi.started),
            grouped(cgi.failed),
            grouped(cgi.timed_out),
            grouped(cgi.refused)
        );
        writeln!(to, "  {:<12} {:>14}  {DIM}{more}{DIM:#}", "CGI programs", grouped(cgi.running))?;
    }
    upstream_table::write(&metrics.upstreams, to)?;
    for (number, site) in metrics.sites.iter().enumerate() {
        let name = site.host.clone().unwrap_or_else(|| format!("site {}", number + 1));
        let name = name.printable();
        let (files, bytes, loads) = (Count(site.files, "file"), Bytes(site.bytes), Count(site.loads, "time"));
        writeln!(to, "  {BOLD}{name}{BOLD:#}  {files}, {bytes}; loaded {loads}")?;
        if let Some(reading) = &site.reading {
            write_reading(reading, unix_s, to)?;
        }
    }
    for certificate in &metrics.certificates {
        let names = certificate.names.join(", ");
        let left = |end: u64| match end.checked_sub(unix_s) {
            Some(left) => format!("valid for {}", Count(left / 86_400, "day")),
            None => "EXPIRED".to_owned(),
        };
        let validity = certificate.not_after_unix_s.map_or_else(|| "none yet".to_owned(), left);
        writeln!(to, "  {BOLD}certificate{BOLD:#} {}  {validity}", names.printable())?;
        if let Some(failure) = &certificate.failure {
            let (failures, failure) = (Count(certificate.failures, "order"), failure.printable());
            writeln!(to, "    {BOLD}failing{BOLD:#}: {failures}: {failure}")?;
            if let Some(retry) = certificate.retry_unix_s {
                writeln!(
                    to,
                    "    next attempt in {}",
                    Count(retry.saturating_sub(unix_s).div_ceil(60), "minute")
                )?;
            }
        }
    }
    Ok(())
}

/// Writes which version of a site is live, and what is wrong with it.
fn write_reading(reading: &SiteReading, unix_s: u64, to: &mut impl Write) -> io::Result<()> {
    let ago = |since: u64| uptime(unix_s.saturating_sub(since));
    let release = reading.release.as_ref().unwrap_or(&reading.path).printable();
    let digest = reading.digest.get(..DIGEST_LEN).unwrap_or_default().printable();
    writeln!(to, "    {DIM}live for {}: {release}, digest {digest}{DIM:#}", ago(reading.live_since_unix_s))?;
    if let Some(failure) = &reading.failure {
        let why = failure.why.printable();
        writeln!(to, "    {BOLD}stale for {}{BOLD:#}: {why}", ago(failure.since_unix_s))?;
    }
    if let Some(example) = &reading.unreadable_example {
        let (count, example) = (Count(reading.unreadable, "unreadable path"), example.printable());
        writeln!(to, "    {BOLD}{count}{BOLD:#}, such as {example}")?;
    }
    Ok(())
}

/// Digits of a digest that are shown: enough to tell releases apart.
const DIGEST_LEN: usize = 12;

/// Returns the time in seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Returns the share of each class of responses, as in "2xx 97.0%, 4xx 3.0%".
fn by_status(metrics: &Metrics) -> String {
    let all = metrics.response_count().max(1) as f64;
    let share = |class: u16| {
        let of_class = metrics.responses.iter().filter(|responses| responses.status / 100 == class);
        let count: u64 = of_class.map(|responses| responses.count).sum();
        (count > 0).then(|| format!("{class}xx {:.1}%", 100.0 * count as f64 / all))
    };
    (2..=5).filter_map(share).collect::<Vec<_>>().join(", ")
}

/// Returns the time within which this share of all responses was sent: the end of a bucket of the histogram.
fn percentile(metrics: &Metrics, share: f64) -> String {
    let wanted = (metrics.completed as f64 * share).ceil() as u64;
    match metrics.latencies.iter().find(|&&(_, count)| count >= wanted) {
        Some(&(us, _)) if us < 1_000 => format!("up to {us} µs"),
        Some((us, _)) => format!("up to {} ms", *us as f64 / 1e3),
        None => "over 10 s".to_owned(),
    }
}

/// Formats a duration in its two largest units.
pub(super) fn uptime(seconds: u64) -> String {
    let (mut rest, mut parts) = (seconds, Vec::new());
    for (unit, name) in [(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")] {
        if rest >= unit && parts.len() < 2 {
            parts.push(format!("{}{name}", rest / unit));
        }
        rest %= unit;
    }
    if parts.is_empty() { "0s".to_owned() } else { parts.join(" ") }
}

/// Formats a number in groups of three digits.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_two_units_and_numbers_have_groups() {
        let times =
            [(0, "0s"), (59, "59s"), (61, "1m 1s"), (3_600, "1h"), (90_061, "1d 1h"), (86_460, "1d 1m")];
        for (seconds, want) in times {
            assert_eq!(uptime(seconds), want);
        }
        for (number, want) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), want);
        }
    }
}
