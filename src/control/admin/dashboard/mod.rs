//! The dashboard: a page that shows the numbers of a server, and the stream of events that keeps it current.
//!
//! ```text
//! GET /dashboard ─▶ page.html, without any number
//! GET /events    ─▶ head ─▶ data: {…} ─ a second ─▶ data: {…} ─▶ …    until the client or the listener ends
//! ```
//!
//! | file | what |
//! |---|---|
//! | `page.html` | the page, its style and its script |
//! | `sample` | the numbers of an event |
//!
//! The page loads nothing else: its policy allows this one script and this one style, by their hashes, and connections to its own origin.

mod sample;

use super::answer::{AdminAnswer, page};
use crate::control::metrics::Metrics;
use aws_lc_rs::digest::{SHA256, digest};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use sample::DashboardSample;
use std::sync::OnceLock;
use tarpon_http::status::Status;

/// The page.
const PAGE: &str = include_str!("page.html");

/// The time between two events. Shorter ones show no more, as workers count their CPU time once a second.
pub(super) const EVENT_INTERVAL_MS: u64 = 1_000;

/// Returns the page.
pub(super) fn dashboard() -> AdminAnswer {
    AdminAnswer {
        media: "text/html; charset=utf-8",
        fields: format!(
            "Content-Security-Policy: {}\r\nReferrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n",
            policy()
        ),
        ..page(Status::Ok, PAGE)
    }
}

/// Returns the policy of the page. A test compares it with what a browser enforces.
fn policy() -> &'static str {
    static POLICY: OnceLock<String> = OnceLock::new();
    POLICY.get_or_init(|| {
        let [script, style] = ["script", "style"].map(|element| hash(text_of(element)));
        format!(
            "default-src 'none'; script-src '{script}'; style-src '{style}'; connect-src 'self'; base-uri 'none'; \
             form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
        )
    })
}

/// Returns the text of the only element of a name.
fn text_of(element: &str) -> &'static str {
    let text = PAGE
        .split_once(&format!("<{element}>"))
        .and_then(|(_, rest)| rest.split_once(&format!("</{element}>")));
    text.expect("the page has the element").0
}

fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(digest(&SHA256, text.as_bytes())))
}

/// The head of a stream of events. The stream ends with the connection.
pub(super) const EVENTS_HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
     X-Content-Type-Options: nosniff\r\nCross-Origin-Resource-Policy: same-origin\r\nCache-Control: no-store\r\n\
     Connection: close\r\n\r\n";

/// Returns an event with the metrics of a moment. `at_ms`: a clock that never goes back. `unix_s`: seconds since 1970.
pub(super) fn event(metrics: &Metrics, at_ms: u64, unix_s: u64) -> Vec<u8> {
    let sample = DashboardSample::of(metrics, at_ms, unix_s);
    // JSON has no line ends, so an event is one line.
    let json = serde_json::to_string(&sample).expect("a sample serializes to JSON");
    format!("data: {json}\n\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_has_one_script_and_one_style_and_loads_nothing() {
        for element in ["script", "style"] {
            assert_eq!(PAGE.matches(&format!("<{element}")).count(), 1, "{element}");
            assert!(!text_of(element).is_empty());
        }
        // The policy would stop all of these; the page must not need them.
        for forbidden in [
            " src=",
            " href=",
            "url(",
            "@import",
            " style=",
            " onclick=",
            "innerHTML",
            "localStorage",
            "eval(",
        ] {
            assert!(!PAGE.contains(forbidden), "{forbidden}");
        }
        assert!(!policy().contains("unsafe") && !policy().contains('\n'), "{}", policy());
    }

    #[test]
    fn event_is_one_line_whatever_the_names() {
        let mut metrics = Metrics { version: "1\n\ndata: x".to_owned(), ..Metrics::default() };
        metrics.sites.push(crate::SiteMetrics {
            host: Some("a\r\n\u{202e}\u{2028}<b>".to_owned()),
            ..Default::default()
        });
        let event = String::from_utf8(event(&metrics, 5, 6)).unwrap();
        assert_eq!(event.lines().collect::<Vec<_>>().len(), 2, "{event}");
        assert!(event.starts_with("data: {") && event.ends_with("}\n\n"), "{event}");
        assert!(event.contains(r"a\\r\\n\\u{202e}\\u{2028}<b>"), "{event}");
    }
}
