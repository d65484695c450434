//! The upstream server: the one process behind all proxies of an experiment.
//!
//! ```text
//! proxy ─ GET …/1024 ───▶ 1,024 bytes of content           GET …/stall ──▶ nothing, ever
//!       ─ GET …/tunnel ─▶ 101, then each message comes back   GET …/counts ─▶ requests and tunnels that wait
//! ```
//!
//! | file | content |
//! |---|---|
//! | `head.rs` | finds the request and the few fields that matter |
//! | `serve.rs` | the event loop: one thread on epoll, edge triggered |
//!
//! It reads only the last segment of the path and the field Connection, and sends responses that it has made before, so that it costs less
//! than any proxy in front of it. A server that parses nothing would not do: without a pool, a proxy asks for a close.

mod head;
mod serve;

use std::net::{SocketAddr, TcpListener};

use clap::Args;
use rustix::net::sockopt::set_tcp_nodelay;
use rustix::process::{Signal, set_parent_process_death_signal};

use self::serve::LabUpstreamLoop;
use crate::client::web_socket;
use crate::error::LabError;
use crate::generated_site;

/// Options of `tarpon-lab upstream-server`.
#[derive(Args)]
pub(crate) struct UpstreamServerArgs {
    /// Listen on this address
    #[arg(long, value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Have responses with these lengths of content, each at the path that ends with its length
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_value = "1024")]
    sizes: Vec<usize>,
}

/// Serves until the process is killed or its parent exits.
pub(crate) fn run(args: &UpstreamServerArgs) -> Result<(), LabError> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let listener = TcpListener::bind(args.listen)?;
    // Connections inherit the option: the last segment of a long response must not wait for an ACK.
    set_tcp_nodelay(&listener, true)?;
    let responses = LabUpstreamResponses::new(&args.sizes);
    LabUpstreamLoop::new(listener, responses)?
        .run()
        .map_err(|error| format!("upstream server: {error}").into())
}

/// The last segments of the paths that are no lengths.
pub(crate) const STALL: &str = "stall";
pub(crate) const TUNNEL: &str = "tunnel";
pub(crate) const COUNTS: &str = "counts";

/// Returns the content of a response of this length: JSON, if two bytes are enough for it.
pub(crate) fn content(len: usize) -> Vec<u8> {
    match len.checked_sub(2) {
        None => vec![b'0'; len],
        // The text has no quotes and no backslashes, and in JSON no line breaks.
        Some(len) => {
            format!("\"{}\"", String::from_utf8_lossy(&generated_site::lines(len)).replace('\n', " "))
                .into_bytes()
        }
    }
}

/// All responses of the server. They live as long as the process.
struct LabUpstreamResponses {
    /// By the last segment of the path.
    contents: Vec<(String, LabUpstreamResponse)>,
    not_found: LabUpstreamResponse,
    /// The response that opens a tunnel.
    switching: &'static [u8],
}

/// The bytes of a response.
#[derive(Clone, Copy)]
struct LabUpstreamResponse {
    /// On a connection that stays open.
    kept: &'static [u8],
    /// With `Connection: close`.
    closing: &'static [u8],
}

impl LabUpstreamResponses {
    fn new(sizes: &[usize]) -> LabUpstreamResponses {
        let sized = |size: &usize| (size.to_string(), LabUpstreamResponse::new("200 OK", &content(*size)));
        let switching = format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Accept: {}\r\n\r\n",
            web_socket::ACCEPT
        );
        LabUpstreamResponses {
            contents: sizes.iter().map(sized).collect(),
            not_found: LabUpstreamResponse::new("404 Not Found", b""),
            switching: switching.into_bytes().leak(),
        }
    }

    /// Returns the response to a request for a path with this last segment.
    fn find(&self, segment: &[u8]) -> LabUpstreamResponse {
        let found = self.contents.iter().find(|(name, _)| name.as_bytes() == segment);
        found.map_or(self.not_found, |(_, response)| *response)
    }
}

impl LabUpstreamResponse {
    fn new(status: &str, content: &[u8]) -> LabUpstreamResponse {
        let [kept, closing] = ["", "Connection: close\r\n"].map(|field| wire(status, field, content));
        LabUpstreamResponse { kept: kept.leak(), closing: closing.leak() }
    }
}

/// Returns a response with the fields that applications usually send, and `field`. The date stays the same: proxies pass it on.
fn wire(status: &str, field: &str, content: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status}\r\nServer: lab\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nCache-Control: no-cache\r\n{field}\r\n",
        content.len()
    );
    [head.as_bytes(), content].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::response::ResponseSummary;

    #[test]
    fn content_is_json_of_this_length() {
        for len in [0, 1, 2, 3, 1024, 65_536] {
            let content = content(len);
            assert_eq!(content.len(), len);
            assert_eq!(serde_json::from_slice::<serde_json::Value>(&content).is_ok(), len > 0, "{len}");
        }
    }

    #[test]
    fn responses_have_the_lengths_of_their_paths() {
        let responses = LabUpstreamResponses::new(&[0, 1024, 65_536]);
        #[rustfmt::skip]
        let cases: &[(&str, u16, usize)] = &[
            // segment   status  content
            ("0",        200,    0),
            ("1024",     200,    1024),
            ("65536",    200,    65_536),
            ("1025",     404,    0),
            ("",         404,    0),
        ];
        for (segment, status, len) in cases {
            let LabUpstreamResponse { kept, closing } = responses.find(segment.as_bytes());
            for wire in [kept, closing] {
                let head = ResponseSummary::parse(wire).unwrap().unwrap();
                assert_eq!((head.status, head.size.content_len), (*status, *len), "{segment}");
                assert_eq!(head.size.len(), wire.len(), "{segment}");
            }
            assert!(!kept.windows(5).any(|part| part == b"close"), "{segment}");
            assert!(closing.windows(5).any(|part| part == b"close"), "{segment}");
        }
    }
}
