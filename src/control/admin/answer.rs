//! From a request to the response of the admin listener.

use super::{
    Order,
    access::{self, Peer},
    client_table::REQUEST_LEN_MAX,
    dashboard::{dashboard, event},
};
use crate::{
    base::admin_access::AdminAccess,
    control::{
        counters::ServerCounters,
        metrics::{Metrics, ServerState, SiteMetrics},
        stats::ServerStats,
    },
};
use rustix::time::{ClockId, clock_gettime};
use std::sync::{Arc, OnceLock};
use tarpon_http::{
    head::{self, Head, Method},
    media::{self, MediaType},
    status::Status,
    target::{self, Target},
};

/// Answers requests about a server.
pub(super) struct Responder {
    /// Empty until the server has started.
    pub(super) server: Arc<OnceLock<Arc<ServerStats>>>,
    /// The counters of the service, for the time before.
    pub(super) counters: Option<ServerCounters>,
    /// Which clients may ask what.
    pub(super) access: AdminAccess,
}

/// How a request is answered.
pub(super) enum AdminReply {
    Answer(AdminAnswer),
    /// The supervisor answers when the order is done.
    Order(Order),
    /// The event loop sends events.
    Events,
}

/// An answer to a request.
pub(crate) struct AdminAnswer {
    pub(super) status: Status,
    pub(super) media: &'static str,
    pub(super) content: String,
    /// Further header lines.
    pub(super) fields: String,
}

impl Responder {
    /// Answers a request as far as it has arrived. `None`: it is incomplete.
    pub(super) fn reply(&self, request: &[u8], peer: impl FnOnce() -> Peer) -> Option<AdminReply> {
        match head::parse(request) {
            Ok(Some((head, _))) => Some(self.reply_to(&head, peer())),
            Ok(None) if request.len() == REQUEST_LEN_MAX => {
                Some(page(Status::RequestHeaderFieldsTooLarge, "too long\n").into())
            }
            Ok(None) => None,
            Err(error) => Some(page(error.status(), "malformed request\n").into()),
        }
    }

    fn reply_to(&self, head: &Head<'_>, peer: Peer) -> AdminReply {
        let host = match head.host() {
            Ok(host) => host,
            Err(error) => return page(error.status(), "the request needs one valid Host\n").into(),
        };
        // The host of an absolute target replaces that of the field: RFC 9112, section 3.2.2.
        let (path, host) = match target::parse(head.method, head.target) {
            Ok(Target::Absolute { authority, path, query: None, .. }) => (path, Some(authority)),
            _ => (head.target, host),
        };
        if let Some(refusal) = access::refusal(head, host, peer, &self.access) {
            return refusal.into();
        }
        match Order::ALL.into_iter().find(|order| order.target().as_bytes() == path) {
            None => match access::refusal_to_read(head, path, host, peer, &self.access) {
                Some(refusal) => refusal.into(),
                None => self.answer(head, path),
            },
            Some(_) if head.method != Method::Post => not_allowed("POST").into(),
            Some(_) if !access::may_order(head, peer, self.access.token.as_ref()) => {
                page(Status::Forbidden, "not from there\n").into()
            }
            Some(order) => AdminReply::Order(order),
        }
    }

    fn answer(&self, head: &Head<'_>, path: &[u8]) -> AdminReply {
        match (head.method, path) {
            (Method::Get, b"/events") => AdminReply::Events,
            (_, b"/events") => not_allowed("GET").into(),
            (Method::Get | Method::Head, _) => self.read(head, path).into(),
            _ => not_allowed("GET, HEAD").into(),
        }
    }

    fn read(&self, head: &Head<'_>, path: &[u8]) -> AdminAnswer {
        match path {
            b"/dashboard" => dashboard(),
            b"/health" => page(Status::Ok, "alive\n"),
            b"/ready" => match self.metrics() {
                Metrics { state: ServerState::Starting, .. } => {
                    page(Status::ServiceUnavailable, "starting\n")
                }
                // Clients are served: a balancer must not leave the server out, and a monitor may look at the text.
                Metrics { state: ServerState::Serving, sites, .. }
                    if sites.iter().any(SiteMetrics::is_stale) =>
                {
                    page(Status::Ok, "degraded\n")
                }
                Metrics { state: ServerState::Serving, .. } => page(Status::Ok, "serving\n"),
                Metrics { state: ServerState::Draining, .. } => {
                    page(Status::ServiceUnavailable, "draining\n")
                }
            },
            b"/metrics" if media::is_preferred(&head.fields, OPENMETRICS, PLAIN) => {
                let media = "application/openmetrics-text; version=1.0.0; charset=utf-8";
                AdminAnswer { media, ..page(Status::Ok, &self.metrics().openmetrics()) }
            }
            b"/metrics" => {
                let media = "text/plain; version=0.0.4; charset=utf-8";
                AdminAnswer { media, ..page(Status::Ok, &self.metrics().prometheus()) }
            }
            b"/status" => {
                let content = serde_json::to_string(&self.metrics()).expect("metrics serialize to JSON");
                AdminAnswer { media: "application/json", ..page(Status::Ok, &(content + "\n")) }
            }
            _ => page(
                Status::NotFound,
                "try /health, /ready, /metrics, /status, /dashboard, or POST to /reload or /upgrade\n",
            ),
        }
    }

    /// Returns an event with the current metrics. `at_ms`: a clock that never goes back.
    pub(super) fn event(&self, at_ms: u64) -> Vec<u8> {
        let unix_s = clock_gettime(ClockId::Realtime).tv_sec.max(0).cast_unsigned();
        event(&self.metrics(), at_ms, unix_s)
    }

    fn metrics(&self) -> Metrics {
        match (self.server.get(), &self.counters) {
            (Some(stats), _) => stats.metrics(),
            (None, Some(counters)) => Metrics::of(counters, &counters.totals()),
            (None, None) => Metrics::default(),
        }
    }
}

/// The types of the formats of metrics. Prometheus asks for both, and prefers the first.
const OPENMETRICS: MediaType = ("application", "openmetrics-text");
const PLAIN: MediaType = ("text", "plain");

impl AdminAnswer {
    pub(crate) fn bytes(&self, with_content: bool) -> Vec<u8> {
        let AdminAnswer { status, media, content, fields } = self;
        let (code, reason, len) = (status.code(), status.reason(), content.len());
        let head = format!(
            "HTTP/1.1 {code} {reason}\r\nContent-Type: {media}\r\nX-Content-Type-Options: nosniff\r\n\
             Content-Length: {len}\r\n{fields}Cache-Control: no-store\r\nConnection: close\r\n\r\n"
        );
        let mut bytes = head.into_bytes();
        if with_content {
            bytes.extend_from_slice(content.as_bytes());
        }
        bytes
    }
}

impl From<AdminAnswer> for AdminReply {
    fn from(answer: AdminAnswer) -> AdminReply {
        AdminReply::Answer(answer)
    }
}

/// Returns an answer that is plain text.
pub(crate) fn page(status: Status, content: &str) -> AdminAnswer {
    AdminAnswer {
        status,
        media: "text/plain; charset=utf-8",
        content: content.to_owned(),
        fields: String::new(),
    }
}

/// Returns the answer to a client for which there is no stream of events.
pub(super) fn busy() -> AdminAnswer {
    let fields = "Retry-After: 5\r\n".to_owned();
    AdminAnswer { fields, ..page(Status::ServiceUnavailable, "too many clients watch the events\n") }
}

fn not_allowed(allow: &'static str) -> AdminAnswer {
    let content = allow.replace(", ", " or ") + "\n";
    AdminAnswer { fields: format!("Allow: {allow}\r\n"), ..page(Status::MethodNotAllowed, &content) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(request: &str, peer: Peer, token: Option<&str>) -> Option<u16> {
        let access = AdminAccess {
            hosts: vec!["metrics.example".parse().unwrap()],
            token: token.map(|token| token.parse().unwrap()),
            ..AdminAccess::default()
        };
        let responder = Responder { server: Arc::default(), counters: None, access };
        match responder.reply(request.as_bytes(), || peer)? {
            AdminReply::Answer(answer) => Some(answer.status.code()),
            AdminReply::Order(_) => Some(0),
            AdminReply::Events => Some(1),
        }
    }

    #[test]
    fn request_has_the_status_of_its_host_peer_and_target() {
        use Peer::{OtherHost as Other, ThisHost as This, Unix};
        const ORDER: u16 = 0;
        #[rustfmt::skip]
        let cases: &[(&str, Peer, &str, u16)] = &[
            // case                        from   request                                                                status
            ("no host",                    This,  "GET /health HTTP/1.1\r\n\r\n",                                        400),
            ("no host, Unix",              Unix,  "GET /health HTTP/1.1\r\n\r\n",                                        400),
            ("two hosts",                  Unix,  "GET /health HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",                  400),
            ("invalid host",               This,  "GET /health HTTP/1.1\r\nHost: ::1\r\n\r\n",                           400),
            ("HTTP/1.0",                   This,  "GET /health HTTP/1.0\r\n\r\n",                                        200),
            ("HTTP/1.0, foreign",          This,  "GET /health HTTP/1.0\r\nHost: a\r\n\r\n",                             421),
            ("foreign",                    This,  "GET /health HTTP/1.1\r\nHost: a\r\n\r\n",                             421),
            ("foreign, unknown path",      Other, "GET /x HTTP/1.1\r\nHost: a\r\n\r\n",                                  421),
            ("foreign, order",             This,  "POST /reload HTTP/1.1\r\nHost: a\r\n\r\n",                            421),
            ("any host, Unix",             Unix,  "GET /health HTTP/1.1\r\nHost: a\r\n\r\n",                             200),
            ("any host, order, Unix",      Unix,  "POST /reload HTTP/1.1\r\nHost: a\r\n\r\n",                            ORDER),
            ("local name",                 This,  "POST /reload HTTP/1.1\r\nHost: localhost:9000\r\n\r\n",               ORDER),
            ("address",                    Other, "GET /health HTTP/1.1\r\nHost: 192.0.2.7:9000\r\n\r\n",                200),
            ("allowed name",               Other, "GET /health HTTP/1.1\r\nHost: metrics.example:9000\r\n\r\n",          200),
            ("order from afar",            Other, "POST /reload HTTP/1.1\r\nHost: metrics.example\r\n\r\n",              403),
            ("absolute target",            This,  "GET http://localhost/health HTTP/1.1\r\nHost: a\r\n\r\n",             200),
            ("absolute, foreign",          This,  "GET http://a/health HTTP/1.1\r\nHost: localhost\r\n\r\n",             421),
            ("from a page",                This,  "GET /health HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\n\r\n",     403),
            ("order of a browser",         Unix,  "POST /reload HTTP/1.1\r\nHost: a\r\nsec-fetch-site: none\r\n\r\n",    403),
            ("page of a browser",          This,  "GET /health HTTP/1.1\r\nHost: [::1]\r\nSec-Fetch-Site: none\r\n\r\n", 200),
        ];
        for &(case, peer, request, expected) in cases {
            assert_eq!(status(request, peer, None), Some(expected), "{case}");
            for cut in 0..request.len() - 2 {
                assert_eq!(status(&request[..cut], peer, None), None, "{case}: {cut} bytes");
            }
        }
        assert_eq!(status(&format!("GET /{}", "x".repeat(REQUEST_LEN_MAX - 5)), This, None), Some(431));
    }

    #[test]
    fn token_is_needed_over_tcp_to_read_and_gives_no_right_to_order() {
        use Peer::{OtherHost as Other, ThisHost as This, Unix};
        const TOKEN: &str = "0123456789abcdefghij";
        const RIGHT: &str = "authorization: bearer 0123456789abcdefghij\r\n";
        const WRONG: &str = "Authorization: Bearer 0123456789abcdefghiJ\r\n";
        const SHORT: &str = "Authorization: Bearer 0123456789\r\n";
        const BASIC: &str = "Authorization: Basic 0123456789abcdefghij\r\n";
        const TWICE: &str = "Authorization: Bearer 0123456789abcdefghij\r\nAuthorization: Bearer x\r\n";
        const SAME: &str = "Authorization: Bearer 0123456789abcdefghij\r\nSec-Fetch-Site: same-origin\r\n";
        const CROSS: &str = "Authorization: Bearer 0123456789abcdefghij\r\nSec-Fetch-Site: cross-site\r\n";
        const REBOUND: &str = "Host: rebound.example\r\n";
        const EVENTS: u16 = 1;
        #[rustfmt::skip]
        let cases: &[(&str, Peer, &str, &str, u16, u16)] = &[
            // case                     from   request           fields   with a token, without one
            ("state",                   Other, "GET /ready",      "",      503,    503),
            ("health",                  Other, "GET /health",     "",      200,    200),
            ("metrics",                 Other, "GET /metrics",    "",      401,    200),
            ("metrics, right",          Other, "GET /metrics",    RIGHT,   200,    200),
            ("status, wrong",           This,  "GET /status",     WRONG,   401,    200),
            ("status, short",           This,  "GET /status",     SHORT,   401,    200),
            ("status, not Bearer",      This,  "GET /status",     BASIC,   401,    200),
            ("status, two tokens",      This,  "GET /status",     TWICE,   401,    200),
            ("status, right",           This,  "GET /status",     RIGHT,   200,    200),
            ("any other path",          This,  "GET /x",          "",      401,    404),
            ("page",                    Other, "GET /dashboard",  "",      200,    403),
            ("page, Unix",              Unix,  "GET /dashboard",  "",      200,    200),
            ("page, HEAD",              Unix,  "HEAD /dashboard", "",      200,    200),
            ("events",                  This,  "GET /events",     "",      401,    403),
            ("events, wrong",           This,  "GET /events",     WRONG,   401,    403),
            ("events, right",           Other, "GET /events",     RIGHT,   EVENTS, 403),
            ("events, own page",        Other, "GET /events",     SAME,    EVENTS, 403),
            ("events, other page",      Other, "GET /events",     CROSS,   403,    403),
            ("events, Unix",            Unix,  "GET /events",     "",      EVENTS, EVENTS),
            ("events, Unix, other page", Unix, "GET /events",     CROSS,   403,    403),
            ("events, Unix, wrong",     Unix,  "GET /events",     WRONG,   EVENTS, EVENTS),
            ("events, Unix, rebound",   Unix,  "GET /events",     REBOUND, 421,    421),
            ("page, Unix, rebound",     Unix,  "GET /dashboard",  REBOUND, 421,    421),
            ("events, HEAD",            Unix,  "HEAD /events",    "",      405,    405),
            ("query",                   Unix,  "GET /events?a",   "",      404,    404),
            ("order",                   This,  "POST /reload",    RIGHT,   403,    0),
            ("order, Unix",             Unix,  "POST /reload",    "",      0,      0),
        ];
        for &(case, peer, line, fields, with, without) in cases {
            let host = if fields == REBOUND { "" } else { "Host: localhost\r\n" };
            let request = format!("{line} HTTP/1.1\r\n{host}{fields}\r\n");
            assert_eq!(status(&request, peer, Some(TOKEN)), Some(with), "{case}, with a token");
            assert_eq!(status(&request, peer, None), Some(without), "{case}, without one");
        }
    }
}
