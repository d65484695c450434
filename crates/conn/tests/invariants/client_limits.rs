//! The limits of clients: each request counts once, however its bytes are cut and whatever it waits for; a refused one leaves the connection
//! usable.

use super::{
    http2_client::{Http2Client, get, preface},
    sites::{IMAGE, LARGE_LEN, distinct_bytes, site},
};
use std::{
    hash::RandomState,
    iter,
    num::NonZeroU32,
    sync::{Arc, atomic::AtomicU64},
};
use tarpon_conn::{
    AcceptedClient, AddressList, BackendId, BackendLimits, BackendRoute, BackendSim, ClientLimits, Close,
    Hosts, HttpVersions, Limits, PathLimits, PeerAddress, ProxyTrust, RATE_WORD_COUNT, RateTable,
    RequestLimit, RequestRule, RouteTable, RouteTarget, SiteId, SitePathLimits, Sites,
    sim::{Cuts, Sim},
};
use tarpon_http::forwarded::ForwardedField;

/// The requests that may come at once.
const BURST: usize = 3;

#[test]
fn each_request_counts_once_however_it_is_cut() {
    #[rustfmt::skip]
    let cases: &[(&str, &str, &str)] = &[
        // case                     request                                                                    status within the limit
        ("a small file",            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",                                       "200"),
        ("a large file",            "GET /large HTTP/1.1\r\nHost: a\r\n\r\n",                                  "200"),
        ("ranges",                  "GET /middle HTTP/1.1\r\nHost: a\r\nRange: bytes=0-9,20-29,40-49,60-69\r\n\r\n", "206"),
        ("content",                 "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",            "405"),
        ("nothing there",           "GET /none HTTP/1.1\r\nHost: a\r\n\r\n",                                   "404"),
        ("a query, and a redirect", "GET /dir?q HTTP/1.1\r\nHost: a\r\n\r\n",                                  "301"),
        ("an empty line before",    "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",                                   "200"),
    ];
    for &(case, request, within) in cases {
        let bytes = request.repeat(BURST + 4);
        let reads = (1..=request.len()).step_by(7).chain([bytes.len(), 4_096]);
        for (read, send) in reads.flat_map(|read| [(read, usize::MAX), (read, 5_000)]) {
            let mut sim = sim(Some("192.0.2.1"));
            sim.client_sends(bytes.as_bytes());
            sim.run(Cuts { read, send });
            let wire = String::from_utf8_lossy(&sim.wire).into_owned();
            let statuses: Vec<_> = wire.split("HTTP/1.1 ").skip(1).map(|response| &response[..3]).collect();
            let want: Vec<_> = iter::repeat_n(within, BURST).chain(iter::repeat_n("429", 4)).collect();
            assert_eq!(statuses, want, "{case}: {read} bytes at a time");
            assert_eq!(sim.counters.requests_limited.get(), 4, "{case}");
            // The rate is one in a minute: it is full again after a minute for each request of the burst.
            assert_eq!(wire.matches("\r\nRetry-After: 60\r\n").count(), 4, "{case}: {wire}");
            assert_eq!(sim.close(), Close::No, "{case}");
        }
    }
}

#[test]
fn a_client_waits_as_long_as_it_is_told() {
    let mut sim = sim(Some("192.0.2.1"));
    let status = |sim: &mut Sim| {
        sim.wire.clear();
        sim.client_sends(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        sim.run(Cuts::NONE);
        String::from_utf8_lossy(&sim.wire[9..12]).into_owned()
    };
    (0..BURST).for_each(|_| assert_eq!(status(&mut sim), "200"));
    sim.pass(20_000);
    assert_eq!(status(&mut sim), "429");
    assert!(String::from_utf8_lossy(&sim.wire).contains("\r\nRetry-After: 40\r\n"));
    sim.pass(40_000);
    assert_eq!((status(&mut sim), status(&mut sim)), ("200".to_owned(), "429".to_owned()));
    // An idle connection would end.
    (0..6).for_each(|_| {
        sim.pass(60_000);
        assert_eq!(status(&mut sim), "200");
    });
    assert_eq!(status(&mut sim), "429");
}

#[test]
fn streams_count_as_requests() {
    for read in [1, 9, 50, 4_096] {
        let accepted = AcceptedClient { versions: HttpVersions::All, ..accepted(Some("192.0.2.1")) };
        let (mut sim, mut client) = (sim_with(sites(), accepted), Http2Client::default());
        let paths = ["/", "/large", "/middle", "/", "/none", "/large", "/"];
        let streams = paths.iter().zip((1..).step_by(2)).flat_map(|(path, stream)| get(stream, path));
        sim.client_sends(&[preface(&[]), streams.collect()].concat());
        client.run(&mut sim, Cuts { read, ..Cuts::NONE });
        let statuses: Vec<_> = client.streams.values().map(|stream| stream.status().to_owned()).collect();
        assert_eq!(statuses, ["200", "200", "200", "429", "429", "429", "429"], "{read} bytes at a time");
        let refused = &client.streams[&7];
        assert_eq!((refused.field("retry-after"), refused.is_complete), (Some("60"), true));
        assert!(String::from_utf8_lossy(&refused.content).contains("Too Many Requests"));
        assert_eq!((sim.counters.requests_limited.get(), sim.close()), (4, Close::No));
    }
}

#[test]
fn the_client_is_the_one_that_a_trusted_proxy_names() {
    let mut sites = sites();
    let proxies = ["10.0.0.0/8", "unix"].map(|text| text.parse().expect("a network")).into();
    sites.set_proxy_trust(Arc::new(ProxyTrust { proxies, field: Some(ForwardedField::Forwarded) }));
    let mut sim = sim_with(sites, accepted(Some("10.0.0.1")));
    let request = |client: &str| format!("GET / HTTP/1.1\r\nHost: a\r\nForwarded: for={client}\r\n\r\n");
    let one = request("203.0.113.7").repeat(BURST + 1);
    // Two addresses of one network of IPv6, and another network.
    let v6 = ["\"[2001:db8::1]\"", "\"[2001:db8::2]\""].map(request).concat().repeat(2);
    sim.client_sends([one, request("203.0.113.8"), v6, request("\"[2001:db8:0:1::]\"")].concat().as_bytes());
    sim.run(Cuts::NONE);
    assert_eq!(statuses(&sim), "200 200 200 429 200 200 200 200 429 200");
}

#[test]
fn a_client_without_an_address_has_no_limit() {
    let mut sim = sim(None);
    sim.client_sends("GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(BURST + 2).as_bytes());
    sim.run(Cuts::NONE);
    assert_eq!(statuses(&sim), "200 200 200 200 200");
}

#[test]
fn an_exchange_with_a_backend_counts() {
    let mut routes = RouteTable::new(Arc::new(Hosts::new(Some(SiteId::FIRST))));
    let limits = BackendLimits::default();
    let route = RouteTarget::Backend(BackendRoute { backend: BackendId(0), limits });
    routes.add(None, "/app".parse().unwrap(), route).unwrap();
    let mut sites = Sites::by_route([(site("hello"), Limits::default())], [routes].into());
    sites.set_client_limits(client_limits(), 0);
    let mut sim = BackendSim::new(sites);
    let client = sim.connect_from("192.0.2.1".parse().unwrap());
    let get = "GET /app/ HTTP/1.1\r\nHost: a\r\nX-Length: 0\r\n\r\n".repeat(BURST);
    let post = "POST /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nX-Length: 5\r\n\r\nhello".repeat(2);
    sim.client_sends(client, [get, post].concat().as_bytes());
    sim.run(Cuts::NONE);
    let received = String::from_utf8(sim.take_received(client)).expect("text");
    let statuses: Vec<_> = received.split("HTTP/1.1 ").skip(1).map(|response| &response[..3]).collect();
    assert_eq!(statuses, ["200", "200", "200", "429", "429"]);
}

#[test]
fn only_allowed_addresses_get_responses() {
    let entries =
        |texts: &[&str]| texts.iter().map(|text| text.parse().expect("an entry")).collect::<Vec<_>>();
    let list = AddressList::new(&entries(&["10.0.0.0/8"]), &entries(&["10.9.0.0/16"]));
    let rest = PathLimits { addresses: Some(Arc::new(list)), ..PathLimits::default() };
    let mut sites = sites();
    sites.set_client_limits(limits_of(rest), 0);
    let proxies = ["10.0.0.1".parse().expect("a network")].into();
    sites.set_proxy_trust(Arc::new(ProxyTrust { proxies, field: Some(ForwardedField::Forwarded) }));
    let mut sim = sim_with(sites, accepted(Some("10.0.0.1")));
    let request = |client: &str| format!("GET / HTTP/1.1\r\nHost: a\r\nForwarded: for={client}\r\n\r\n");
    // A malformed list names the proxy, whose own address is allowed.
    let clients = ["10.1.2.3", "10.9.2.3", "192.0.2.1", "\"[::1]\"", "10.1.2.3, ,=", "unknown", "10.1.2.3"];
    sim.client_sends(clients.map(request).concat().as_bytes());
    sim.run(Cuts::NONE);
    assert_eq!(statuses(&sim), "200 403 403 403 403 200 200");
    assert_eq!((sim.counters.requests_denied.get(), sim.close()), (4, Close::No));
}

fn statuses(sim: &Sim) -> String {
    let wire = String::from_utf8_lossy(&sim.wire);
    let statuses: Vec<_> = wire.split("HTTP/1.1 ").skip(1).map(|response| &response[..3]).collect();
    statuses.join(" ")
}

/// Accepts this client, for a worker that lets each address send 3 requests, and one more in each minute.
fn sim(peer: Option<&str>) -> Sim {
    sim_with(sites(), accepted(peer))
}

fn sim_with(sites: Sites, accepted: AcceptedClient) -> Sim {
    let mut sim = Sim::accept(sites, accepted);
    sim.files = vec![distinct_bytes(LARGE_LEN)];
    sim
}

fn accepted(peer: Option<&str>) -> AcceptedClient {
    let peer = peer.map_or(PeerAddress::Unix, |peer| PeerAddress::Ip(peer.parse().expect("an address")));
    AcceptedClient { peer: Some(peer), ..AcceptedClient::default() }
}

fn sites() -> Sites {
    let mut sites = Sites::new(IMAGE.clone(), Limits::default());
    sites.set_client_limits(client_limits(), 7);
    sites
}

fn client_limits() -> Arc<ClientLimits> {
    let limit = RequestLimit { rate: "1/m".parse().expect("a rate"), burst: NonZeroU32::new(BURST as u32) };
    let requests = Some(Arc::new(RequestRule::new(1, limit, "all sites")));
    limits_of(PathLimits { requests, ..PathLimits::default() })
}

/// Returns these limits for all paths.
fn limits_of(rest: PathLimits) -> Arc<ClientLimits> {
    let words: Vec<_> = iter::repeat_with(AtomicU64::default).take(RATE_WORD_COUNT).collect();
    let sites = vec![SitePathLimits { mount: None, prefixes: Vec::new(), rest }];
    let rates = RateTable::new(words, RandomState::new());
    Arc::new(ClientLimits { rates, sites, passwords: Vec::new(), report: |_| () })
}
