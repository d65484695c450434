//! The load generators of published stories: the lab runs hey, wrk and ab, and reads what they print.

use std::net::SocketAddr;
use std::process::Command;

use crate::error::LabError;
use crate::records::stories::{StoryLoad, StoryResult};

/// Runs a load on a server. Fails unless every response has status 200 and arrives whole.
pub(crate) fn run(
    load: StoryLoad,
    server: SocketAddr,
    path: &str,
    seconds: u32,
) -> Result<StoryResult, LabError> {
    let url = format!("http://{server}{path}");
    let duration = format!("{seconds}s");
    let long_head: Vec<String> =
        (0..LONG_HEAD_FIELDS).map(|at| format!("X-Long-{at}: {}", "x".repeat(LONG_HEAD_VALUE))).collect();
    let wrk = |threads, connections| {
        ("wrk", "wrk", vec![threads, connections, "-d", &duration, "--timeout", "10", "--latency", &url])
    };
    let (program, package, arguments): (_, _, Vec<&str>) = match load {
        StoryLoad::Hey => ("hey", "hey", vec!["-z", &duration, "-c", "8", &url]),
        StoryLoad::HeyClosed => ("hey", "hey", vec!["-z", &duration, "-c", "8", "-disable-keepalive", &url]),
        StoryLoad::Wrk => wrk("-t8", "-c8"),
        StoryLoad::WrkCaseStudy => wrk("-t12", "-c400"),
        StoryLoad::WrkWarmUp => wrk("-t8", "-c1000"),
        StoryLoad::WrkMany => wrk("-t8", "-c10000"),
        StoryLoad::WrkHeads => {
            let (program, package, mut arguments) = wrk("-t4", "-c5000");
            arguments.extend(long_head.iter().flat_map(|field| ["-H", &**field]));
            (program, package, arguments)
        }
        StoryLoad::Ab => ("ab", "apache2-utils", vec!["-q", "-n", "8000", "-c", "10", &url]),
        StoryLoad::AbTenth => ("ab", "apache2-utils", vec!["-q", "-n", "800", "-c", "10", &url]),
        StoryLoad::AbFew => ("ab", "apache2-utils", vec!["-q", "-n", "300", "-c", "4", &url]),
    };
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|error| format!("{program}: {error}; install it (Debian: {package})"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let result = match load {
        StoryLoad::Hey | StoryLoad::HeyClosed => parse_hey(&text),
        StoryLoad::Ab | StoryLoad::AbTenth | StoryLoad::AbFew => parse_ab(&text),
        _ => parse_wrk(&text),
    };
    Ok(result.ok_or_else(|| {
        let error = String::from_utf8_lossy(&output.stderr);
        format!("{program}: not every response was complete, with status 200:\n{text}{error}")
    })?)
}

/// A head of 4 KiB; the story does not tell its own.
const LONG_HEAD_FIELDS: usize = 20;
const LONG_HEAD_VALUE: usize = 200;

/// Returns the number behind the first of these words.
fn number_after(text: &str, words: &str) -> Option<f64> {
    let rest = text.split_once(words)?.1.trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    rest[..end].parse().ok()
}

fn parse_hey(text: &str) -> Option<StoryResult> {
    let statuses = text.split_once("Status code distribution:")?.1;
    // A line for each status, and a part for each kind of error.
    let is_clean = statuses.matches('[').count() == 1 && statuses.contains("[200]");
    let ms = |words| Some(number_after(text, words)? * 1e3);
    let rate = number_after(text, "Requests/sec:")?;
    is_clean.then_some(StoryResult { rate, p50_ms: ms("50% in"), p99_ms: ms("99% in") })
}

fn parse_wrk(text: &str) -> Option<StoryResult> {
    let is_clean = !text.contains("Non-2xx") && !text.contains("Socket errors");
    let ms = |words: &str| {
        let number = number_after(text, words)?;
        let unit = text
            .split_once(words)?
            .1
            .trim_start()
            .trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let scale = if unit.starts_with("us") {
            1e-3
        } else if unit.starts_with("ms") {
            1.0
        } else {
            1e3
        };
        Some(number * scale)
    };
    let rate = number_after(text, "Requests/sec:")?;
    is_clean.then_some(StoryResult { rate, p50_ms: ms("50%"), p99_ms: ms("99%") })
}

fn parse_ab(text: &str) -> Option<StoryResult> {
    let is_clean = number_after(text, "Failed requests:") == Some(0.0) && !text.contains("Non-2xx");
    let rate = number_after(text, "Requests per second:")?;
    is_clean.then_some(StoryResult {
        rate,
        p50_ms: number_after(text, "50% "),
        p99_ms: number_after(text, "99% "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEY: &str = "Summary:\n  Total:\t1.0 secs\n  Requests/sec:\t2451.5\n\nLatency distribution:\n  50% in 0.0018 secs\n  99% in 0.0021 secs\n\n\
                       Status code distribution:\n  [200]\t2451 responses\n";
    const WRK: &str = "  Thread Stats   Avg\n  Latency Distribution\n     50%   63.00us\n     99%    1.50ms\n  900 requests in 1.00s\nRequests/sec:  126395.00\n";
    const AB: &str = "Complete requests:      8000\nFailed requests:        0\nRequests per second:    355.06 [#/sec] (mean)\n  50%     27\n  99%     31\n";

    #[test]
    fn outputs_have_a_rate_and_times() {
        let result = |rate, p50, p99| Some(StoryResult { rate, p50_ms: Some(p50), p99_ms: Some(p99) });
        assert_eq!(parse_wrk(WRK), result(126_395.0, 0.063, 1.5));
        assert_eq!(parse_ab(AB), result(355.06, 27.0, 31.0));
        let hey = parse_hey(HEY).expect("a result");
        assert_eq!(
            (hey.rate, hey.p50_ms.map(|ms| ms.round()), hey.p99_ms.map(|ms| ms.round())),
            (2451.5, Some(2.0), Some(2.0))
        );
    }

    #[test]
    fn failed_requests_are_no_result() {
        for text in [
            HEY.replace("[200]\t2451 responses", "[200]\t2450 responses\n  [404]\t1 responses"),
            format!("{HEY}\nError distribution:\n  [7]\tGet: EOF\n"),
        ] {
            assert_eq!(parse_hey(&text), None, "{text}");
        }
        assert_eq!(parse_wrk(&format!("{WRK}  Non-2xx or 3xx responses: 1\n")), None);
        assert_eq!(parse_wrk(&format!("  Socket errors: connect 0, read 1\n{WRK}")), None);
        assert_eq!(parse_ab(&AB.replace("Failed requests:        0", "Failed requests:        3")), None);
    }
}
