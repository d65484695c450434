//! The client of a request: the peer, or the client that the fields of a trusted proxy name.
//!
//! ```text
//! peer ─ trusted? ─┬ no ─▶ the peer
//!                  └ yes ─ fields ─ from right to left ─▶ the first address that is not trusted
//! ```

use crate::{
    proxy_trust::{PeerAddress, ProxyTrust},
    record::AcceptedClient,
    request::Client,
    sites::Sites,
};
use std::num::NonZeroU16;
use tarpon_http::{
    fields::Fields,
    forwarded::{self, ForwardedClient, ForwardedField, MalformedForwarded},
    target::Scheme,
};

/// Finds the clients of the requests of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientFinder {
    accepted: AcceptedClient,
    /// The field that names the client. `None`: the client is the peer.
    field: Option<ForwardedField>,
}

impl ClientFinder {
    pub(crate) fn new(trust: &ProxyTrust, accepted: AcceptedClient) -> ClientFinder {
        ClientFinder { accepted, field: forwarded_field(trust, accepted.peer) }
    }

    /// Returns the connection that was accepted, with the peer that its PROXY header names.
    #[inline]
    pub(crate) fn accepted(&self) -> &AcceptedClient {
        &self.accepted
    }

    /// Sets the peer that a PROXY header names.
    pub(crate) fn set_peer(
        &mut self,
        trust: &ProxyTrust,
        peer: Option<PeerAddress>,
        port: Option<NonZeroU16>,
    ) {
        (self.accepted.peer, self.accepted.peer_port) = (peer, port);
        self.field = forwarded_field(trust, peer);
    }

    /// Returns the client of a request with these fields.
    #[inline]
    pub(crate) fn client(&self, sites: &Sites, fields: &Fields<'_>) -> Client {
        match self.field {
            None => self.peer(),
            Some(field) => self.forwarded_client(sites.proxy_trust(), field, fields),
        }
    }

    /// Returns the peer as the client.
    #[inline]
    pub(crate) fn peer(&self) -> Client {
        Client {
            address: self.accepted.peer.and_then(PeerAddress::ip),
            port: self.accepted.peer_port,
            scheme: self.accepted.has_tls.then_some(Scheme::Https),
            is_malformed: false,
            password: None,
        }
    }

    #[inline(never)]
    fn forwarded_client(&self, trust: &ProxyTrust, field: ForwardedField, fields: &Fields<'_>) -> Client {
        let peer = self.peer();
        match forwarded::find_client(fields, field, |address| trust.trusts(PeerAddress::Ip(address))) {
            Ok(ForwardedClient { address, scheme }) => Client {
                address: address.or(peer.address),
                // That of the peer belongs to the address of the peer.
                port: if address.is_none() { peer.port } else { None },
                scheme: scheme.or(peer.scheme),
                ..peer
            },
            Err(MalformedForwarded) => Client { is_malformed: true, ..peer },
        }
    }
}

/// Returns the field that names the clients of a peer. `None`: the peer is not trusted, or no field is to be read.
fn forwarded_field(trust: &ProxyTrust, peer: Option<PeerAddress>) -> Option<ForwardedField> {
    trust.field.filter(|_| peer.is_some_and(|peer| trust.trusts(peer)))
}
