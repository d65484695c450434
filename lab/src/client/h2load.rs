//! The load generator of nghttp2, for HTTP/2: the lab runs the program, and reads what it prints.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use super::tls;
use crate::error::LabError;
use crate::records::http2::Http2Load;

/// What h2load counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct H2loadCounts {
    /// Responses with a status of 200 to 299.
    pub(crate) requests: usize,
    /// Requests per second.
    pub(crate) rate: f64,
}

/// Returns the name and version. Fails if the program is not installed.
pub(crate) fn version() -> Result<String, LabError> {
    let output = Command::new(PROGRAM).arg("--version").output();
    let output =
        output.map_err(|error| format!("{PROGRAM}: {error}; install it (Debian: nghttp2-client)"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().replace('/', " "))
}

/// Requests a path for a time, with this many connections and streams. Fails unless each response is complete, with a content of `content_len`
/// bytes.
pub(crate) fn run(
    server: SocketAddr,
    has_tls: bool,
    (path, content_len): (&str, usize),
    load: Http2Load,
    time: Duration,
) -> Result<H2loadCounts, LabError> {
    let authority = if has_tls { tls::host(server) } else { server.to_string() };
    let scheme = if has_tls { "https" } else { "http" };
    let mut command = Command::new(PROGRAM);
    command
        .arg(format!("--clients={}", load.connections))
        .arg(format!("--max-concurrent-streams={}", load.streams))
        .arg(format!("--duration={}ms", time.as_millis()))
        // The same cryptography as in other experiments with TLS.
        .args(["--tls13-ciphers=TLS_AES_128_GCM_SHA256", "--groups=X25519"])
        .arg(format!("--connect-to={server}"))
        .arg(format!("{scheme}://{authority}{path}"));
    let output = command.output().map_err(|error| format!("{PROGRAM}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let counts = parse(&text, content_len);
    Ok(counts.ok_or_else(|| {
        format!(
            "{PROGRAM}: not every response was complete:\n{text}{}",
            String::from_utf8_lossy(&output.stderr)
        )
    })?)
}

/// Returns the counts in the output of h2load, if every request succeeded over HTTP/2 with a content of this length.
fn parse(output: &str, content_len: usize) -> Option<H2loadCounts> {
    let line = |start: &str| output.lines().find_map(|line| line.strip_prefix(start));
    let protocol = line("Application protocol: ")?;
    let rate = number_before(line("finished in ")?, " req/s")?;
    let requests = line("requests: ")?;
    let succeeded: usize = number_before(requests, " succeeded")?;
    let failures = [" failed", " errored", " timeout"].map(|name| number_before::<usize>(requests, name));
    let statuses: usize = number_before(line("status codes: ")?, " 2xx")?;
    // A number in brackets, without a unit.
    let data_len: usize = number_before(line("traffic: ")?, ") data")?;
    let is_complete = matches!(protocol, "h2" | "h2c")
        && failures == [Some(0); 3]
        && succeeded > 0
        && statuses >= succeeded
        && data_len >= succeeded * content_len;
    is_complete.then_some(H2loadCounts { requests: succeeded, rate })
}

/// Returns the number that ends where `unit` begins.
fn number_before<T: std::str::FromStr>(text: &str, unit: &str) -> Option<T> {
    let (before, _) = text.split_once(unit)?;
    before.rsplit([' ', '(']).next()?.parse().ok()
}

const PROGRAM: &str = "h2load";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_counts_only_if_every_response_is_complete() {
        #[rustfmt::skip]
        let cases: &[(&str, &str, &str, Option<usize>)] = &[
            // case                  in the output       replaced by          requests
            ("as it is",             "",                 "",                  Some(58_248)),
            ("over TLS",             "protocol: h2c",    "protocol: h2",      Some(58_248)),
            ("over HTTP/1",          "protocol: h2c",    "protocol: http/1.1", None),
            ("a failure",            " 0 failed",        " 1 failed",         None),
            ("an error",             " 0 errored",       " 1 errored",        None),
            ("a time-out",           " 0 timeout",       " 1 timeout",        None),
            ("another status",       "58248 2xx",        "58247 2xx",         None),
            ("a content too short",  "(59645952) data",  "(59645951) data",   None),
            ("nothing",              "58248 succeeded",  "0 succeeded",       None),
        ];
        for (name, from, to, want) in cases {
            let counts = parse(&OUTPUT.replacen(from, to, usize::from(!from.is_empty())), 1024);
            assert_eq!(counts.map(|counts| counts.requests), *want, "{name}");
            assert!(counts.is_none_or(|counts| counts.rate == 116_496.0), "{name}");
        }
    }

    const OUTPUT: &str = "\
Application protocol: h2c
Main benchmark duration is over for thread #0. Stopping all clients.

finished in 515.55ms, 116496.00 req/s, 116.99MB/s
requests: 58248 total, 58280 started, 58248 done, 58248 succeeded, 0 failed, 0 errored, 0 timeout
status codes: 58248 2xx, 0 3xx, 0 4xx, 0 5xx
traffic: 58.49MB (61335884) total, 626.29KB (641324) headers (space savings 96.01%), 56.88MB (59645952) data
";
}
