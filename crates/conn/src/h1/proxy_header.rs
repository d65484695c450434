//! The PROXY header before the first request of a connection.
//!
//! ```text
//! accepted ─ trusted? ─▶ ProxyHeader ─ header ─▶ Head, with the peer of the header
//!              │             └ malformed, late, or the end of the input ─▶ Closed, without an answer
//!              └ no ─▶ Closed
//! ```
//!
//! The socket's own peer decides about the trust in the header; the peer that the header names, about the fields of the requests.

use super::{Http1, Http1Phase};
use crate::{AcceptedClient, BufRange, ConnResources, proxy_trust::PeerAddress};
use tarpon_http::proxy_header::{self, ProxySource};

impl Http1 {
    /// Waits for a PROXY header, or closes the connection if its peer is not trusted to send one.
    #[cold]
    pub(super) fn expect_proxy_header(&mut self, cx: &ConnResources<'_>) {
        match self.finder.accepted().peer {
            Some(peer) if cx.sites.proxy_trust().trusts(peer) => self.phase = Http1Phase::ProxyHeader,
            _ => self.refuse_proxy_header(cx),
        }
    }

    /// Returns whether a PROXY header must come next.
    #[inline]
    pub(crate) fn awaits_proxy_header(&self) -> bool {
        matches!(self.phase, Http1Phase::ProxyHeader)
    }

    /// Reads the PROXY header at the front of `input`. Returns how many bytes it has consumed, 0 if the header is incomplete.
    #[cold]
    #[inline(never)]
    pub(crate) fn read_proxy_header(&mut self, cx: &ConnResources<'_>, input: BufRange) -> usize {
        match proxy_header::parse(cx.pool.bytes(input)) {
            Ok(None) => {
                self.incomplete_len = input.len;
                0
            }
            Ok(Some((source, len))) => {
                let AcceptedClient { peer, peer_port, .. } = *self.finder.accepted();
                let (peer, peer_port) = match source {
                    ProxySource::Peer => (peer, peer_port),
                    ProxySource::Ip(ip) => (Some(PeerAddress::Ip(ip)), None),
                    ProxySource::Unix => (Some(PeerAddress::Unix), None),
                };
                self.finder.set_peer(cx.sites.proxy_trust(), peer, peer_port);
                self.incomplete_len = 0;
                self.phase = self.first_phase();
                len
            }
            Err(_) => {
                self.refuse_proxy_header(cx);
                input.len as usize
            }
        }
    }

    /// Closes a connection whose header has not arrived. A connection without any bytes is no refusal: a load balancer may only check
    /// whether the server listens.
    #[cold]
    pub(super) fn proxy_header_missing(&mut self, cx: &ConnResources<'_>) {
        match self.incomplete_len {
            0 => self.enter_closed(),
            _ => self.refuse_proxy_header(cx),
        }
    }

    fn refuse_proxy_header(&mut self, cx: &ConnResources<'_>) {
        cx.counters.proxy_refused.add(1);
        self.enter_closed();
    }
}
