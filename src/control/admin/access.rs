//! The rules by which the admin listener refuses requests.
//!
//! | request | Unix socket | TCP |
//! |---|---|---|
//! | with an Origin | refused | refused |
//! | dashboard of another web page | refused | refused |
//! | with the name of another host | answered, but for the dashboard | refused |
//! | to read, without the token | answered | refused, if there is a token; the dashboard in any case |
//! | order | obeyed | obeyed from this host only, if there is no token |
//! | order with Fetch Metadata | refused | refused |

use super::answer::{AdminAnswer, page};
use crate::base::admin_access::{AdminAccess, AdminToken};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use rustix::net::{AddressFamily, getpeername, getsockname};
use std::{
    net::{IpAddr, SocketAddr},
    os::fd::AsFd,
};
use tarpon_conn::HostName;
use tarpon_http::{head::Head, host::split_port, status::Status};

/// Where a request comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    /// A Unix socket.
    Unix,
    /// TCP from this host.
    ThisHost,
    /// TCP from another host. Also from a client that has disconnected: the kernel no longer knows its address.
    OtherHost,
}

impl Peer {
    pub(super) fn of(client: impl AsFd) -> Peer {
        if getsockname(&client).is_ok_and(|own| own.address_family() == AddressFamily::UNIX) {
            return Peer::Unix;
        }
        let peer = getpeername(&client).ok().flatten().and_then(|peer| SocketAddr::try_from(peer).ok());
        match peer {
            Some(peer) if peer.ip().to_canonical().is_loopback() => Peer::ThisHost,
            _ => Peer::OtherHost,
        }
    }
}

/// Returns the refusal of a request that a web page may have sent, or that is for another host.
pub(super) fn refusal(
    head: &Head<'_>,
    host: Option<&[u8]>,
    peer: Peer,
    access: &AdminAccess,
) -> Option<AdminAnswer> {
    // In DNS rebinding, a web page reaches the listener under the name of its own site, so the browser treats both as one origin. The listener
    // has no authority for that name, which is what 421 tells: RFC 9110, section 7.4. 403 would refuse the right to a resource that it has.
    if peer != Peer::Unix && host.is_some_and(|host| !is_own_host(host, &access.hosts)) {
        return Some(misdirected());
    }
    // A browser sends it for each request of a web page to another origin: RFC 6454. Programs send none.
    let is_from_page = head.fields.iter().any(|(name, _)| name.eq_ignore_ascii_case(b"Origin"));
    is_from_page.then(|| page(Status::Forbidden, "not for web pages\n"))
}

/// Returns the refusal of a request to read.
///
/// The dashboard is for browsers, which may reach a Unix socket by a forwarded port. So its paths have the rules against web pages on
/// every socket.
pub(super) fn refusal_to_read(
    head: &Head<'_>,
    path: &[u8],
    host: Option<&[u8]>,
    peer: Peer,
    access: &AdminAccess,
) -> Option<AdminAnswer> {
    let is_page = path == b"/dashboard";
    if is_page || path == b"/events" {
        if host.is_some_and(|host| !is_own_host(host, &access.hosts)) {
            return Some(misdirected());
        }
        // Another page could take all streams with pictures of this address. A link to the page may lead from anywhere.
        if !is_page && values(head, b"sec-fetch-site").any(|site| site != b"same-origin" && site != b"none") {
            return Some(page(Status::Forbidden, "not for other web pages\n"));
        }
    }
    match (&access.token, peer) {
        (_, Peer::Unix) => None,
        (None, _) if is_page || path == b"/events" => {
            let hint = "the dashboard needs a token over TCP: set admin-token-file, or use a Unix socket\n";
            Some(page(Status::Forbidden, hint))
        }
        (None, _) => None,
        // The page has no number, and probes need no secret to learn the state.
        (Some(_), _) if is_page || path == b"/health" || path == b"/ready" => None,
        (Some(token), _) if has_token(head, token) => None,
        (Some(_), _) => {
            let fields = "WWW-Authenticate: Bearer realm=\"admin\"\r\n".to_owned();
            Some(AdminAnswer { fields, ..page(Status::Unauthorized, "send the token\n") })
        }
    }
}

/// Returns whether the only Authorization has the token. The time of the comparison depends only on the length of what the client sent.
fn has_token(head: &Head<'_>, token: &AdminToken) -> bool {
    let mut values = values(head, b"authorization");
    let (Some(value), None) = (values.next(), values.next()) else { return false };
    // The scheme has no case: RFC 9110, section 11.1.
    let Some((scheme, sent)) = value.split_first_chunk::<7>() else { return false };
    scheme.eq_ignore_ascii_case(b"Bearer ")
        && verify_slices_are_equal(sent.trim_ascii_start(), token.secret().as_bytes()).is_ok()
}

fn values<'a>(head: &Head<'a>, wanted: &[u8]) -> impl Iterator<Item = &'a [u8]> {
    head.fields.iter().filter(move |(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value)
}

fn misdirected() -> AdminAnswer {
    page(
        Status::MisdirectedRequest,
        "unknown host: use an IP address or localhost, or add the name to admin-hosts\n",
    )
}

/// Returns whether the client may give orders. A browser may not: it sends Fetch Metadata. On a Unix socket every client may, on TCP a client
/// on this host, if the listener has no token: a token gives the right to read.
pub(super) fn may_order(head: &Head<'_>, peer: Peer, token: Option<&AdminToken>) -> bool {
    let is_browser = head.fields.iter().any(|(name, _)| name.to_ascii_lowercase().starts_with(b"sec-fetch-"));
    !is_browser && (peer == Peer::Unix || peer == Peer::ThisHost && token.is_none())
}

/// Returns whether a valid Host is an address, `localhost` or one of these names, with or without a port.
fn is_own_host(host: &[u8], hosts: &[HostName]) -> bool {
    let (name, _) = split_port(host);
    let Ok(name) = std::str::from_utf8(name) else { return false };
    if name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok() {
        return true;
    }
    // A host name has a canonical form: small letters, without the dot of the root.
    let Ok(name) = name.parse::<HostName>() else { return false };
    name.to_string() == "localhost" || hosts.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::sockopt::set_socket_linger;
    use std::{
        net::{TcpListener, TcpStream},
        os::unix::net::UnixStream,
        thread,
        time::Duration,
    };

    #[test]
    fn own_host_is_an_address_localhost_or_an_allowed_name() {
        let hosts: Vec<HostName> = ["metrics.example"].map(|name| name.parse().unwrap()).into();
        #[rustfmt::skip]
        let cases: &[(&str, bool)] = &[
            ("localhost",                   true),
            ("LocalHost:9000",              true),
            ("localhost.",                  true),
            ("127.0.0.1",                   true),
            ("192.0.2.7:9000",              true),
            ("[::1]",                       true),
            ("[2001:db8::7]:9000",          true),
            ("metrics.example",             true),
            ("METRICS.example.:9000",       true),
            ("rebound.example",             false),
            ("rebound.example:9000",        false),
            ("a.metrics.example",           false),
            ("metrics.example.org",         false),
            ("127.0.0.1.rebound.example",   false),
            ("localhost.rebound.example",   false),
            ("a.localhost",                 false),
            ("*.example",                   false),
            ("2130706433",                  false),
            ("[v1.a]",                      false),
        ];
        for (host, want) in cases {
            assert!(tarpon_http::host::is_valid(host.as_bytes()), "{host}");
            assert_eq!(is_own_host(host.as_bytes(), &hosts), *want, "{host}");
        }
    }

    #[test]
    fn disconnected_client_is_on_another_host() {
        let (unix, _other) = UnixStream::pair().unwrap();
        assert_eq!(Peer::of(&unix), Peer::Unix);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        assert_eq!(Peer::of(&accepted), Peer::ThisHost);
        // A request may still be readable, but the kernel no longer knows the peer.
        set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
        drop(client);
        while getpeername(&accepted).is_ok() {
            thread::yield_now();
        }
        assert_eq!(Peer::of(&accepted), Peer::OtherHost);
    }
}
