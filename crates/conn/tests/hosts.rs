//! Several sites on one connection: the site of each request, its limits, and its images.

#![allow(clippy::disallowed_methods, reason = "the ban is for the core, not for its tests")]

use bytes::Bytes;
use std::{fs, io::Cursor};
use tarpon_conn::{
    Hosts, Limits, RouteTable, RouteTarget, SiteId, Sites, Span,
    sim::{Cuts, Sim},
};
use tarpon_pack::{BuildCache, PackOptions, Policy, pack_dir};
use tarpon_site::Image;

/// Returns the image of a site whose start page is its name, with a 404 page.
fn image(name: &str) -> Image {
    image_below(name, "")
}

/// Returns the image of such a site for a mount at this path.
fn image_below(name: &str, base: &str) -> Image {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("index.html"), name).unwrap();
    fs::write(dir.path().join("404.html"), format!("missing in {name}")).unwrap();
    fs::create_dir(dir.path().join("dir")).unwrap();
    fs::write(dir.path().join("dir/index.html"), format!("dir of {name}")).unwrap();
    fs::write(dir.path().join("_redirects"), format!("/where/:it /{name}/:it")).unwrap();
    let mut out = Cursor::new(Vec::new());
    let policy = Policy { base: base.to_owned(), ..Policy::default() };
    let options = PackOptions { policy, ..PackOptions::new(784_111_777) };
    pack_dir(dir.path(), &mut out, &options, &mut BuildCache::default()).unwrap();
    Image::new(Bytes::from(out.into_inner())).unwrap()
}

const ONE: &str = "one";
const TWO: &str = "two";
const WILD: &str = "wild";

fn id(number: usize) -> SiteId {
    SiteId::new(number)
}

/// Returns a simulation of three sites: `one.org`, `two.org` with the redirect host `www.two.org`, and `*.two.org`.
fn sim(default: Option<SiteId>) -> Sim {
    Sim::with_sites(Sites::by_host(images(), hosts(default).into()))
}

fn images() -> [(Image, Limits); 3] {
    [ONE, TWO, WILD].map(|name| (image(name), Limits::default()))
}

fn hosts(default: Option<SiteId>) -> Hosts {
    let mut hosts = Hosts::new(default);
    for (name, site) in [("one.org", 0), ("two.org", 1), ("*.two.org", 2)] {
        hosts.add(name.parse().unwrap(), id(site)).unwrap();
    }
    hosts.add_redirect_host("www.two.org".parse().unwrap(), id(1)).unwrap();
    hosts
}

/// Returns each response: its status, and its Location or else its content.
fn responses(wire: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(wire).into_owned();
    let each = text.split("HTTP/1.1 ").skip(1).map(|response| {
        let (head, content) = response.split_once("\r\n\r\n").unwrap();
        let location = head.lines().find_map(|line| line.strip_prefix("Location: "));
        let content = content.lines().next().unwrap_or_default();
        format!("{} {}", &head[..3], location.unwrap_or(content))
    });
    each.collect()
}

fn send(sim: &mut Sim, head: &str) -> Vec<String> {
    let from = sim.wire.len();
    sim.client_sends(head.as_bytes());
    sim.run(Cuts::NONE);
    responses(&sim.wire[from..])
}

#[test]
#[rustfmt::skip]
fn the_host_selects_the_site() {
    const PAGE: &str = "<!doctype html>";
    let [strict, second] = [None, Some(id(1))];
    let cases: &[(&str, Option<SiteId>, &str, &str)] = &[
        // case                        default  request                                                      response
        ("name",                       strict,  "GET / HTTP/1.1\r\nHost: one.org",                           "200 one"),
        ("another",                    strict,  "GET / HTTP/1.1\r\nHost: two.org",                           "200 two"),
        ("wildcard",                   strict,  "GET / HTTP/1.1\r\nHost: a.b.two.org:8080",                  "200 wild"),
        ("any case, port, root",       strict,  "GET / HTTP/1.1\r\nHost: TWO.org.:81",                       "200 two"),
        ("no site",                    strict,  "GET / HTTP/1.1\r\nHost: three.org",                         &format!("421 {PAGE}")),
        ("no site, HEAD",              strict,  "HEAD / HTTP/1.1\r\nHost: three.org",                        "421 "),
        ("no site, another method",    strict,  "DELETE / HTTP/1.1\r\nHost: three.org",                      &format!("421 {PAGE}")),
        ("default",                    second,  "GET / HTTP/1.1\r\nHost: three.org",                         "200 two"),
        ("HTTP/1.0, no host",          second,  "GET / HTTP/1.0",                                            "200 two"),
        ("HTTP/1.0, no host, strict",  strict,  "GET / HTTP/1.0",                                            &format!("421 {PAGE}")),
        ("HTTP/1.0 with host",         second,  "GET / HTTP/1.0\r\nHost: one.org",                           "200 one"),
        ("target before field",        strict,  "GET http://two.org/ HTTP/1.1\r\nHost: one.org",             "200 two"),
        ("target without a site",      strict,  "GET http://three.org/ HTTP/1.1\r\nHost: one.org",           &format!("421 {PAGE}")),
        ("https comes first",          strict,  "GET https://one.org/ HTTP/1.1\r\nHost: one.org",            &format!("421 {PAGE}")),
        ("its own page",               strict,  "GET /a HTTP/1.1\r\nHost: two.org",                          "404 missing in two"),
        ("its own rules",              strict,  "GET /where/x HTTP/1.1\r\nHost: two.org",                    "301 /two/x"),
        ("its own redirect",           second,  "GET /dir?q HTTP/1.1\r\nHost: one.org",                      "301 /dir/?q"),
        ("redirect",                   strict,  "GET /dir/?q HTTP/1.1\r\nHost: www.two.org",                 "301 //two.org/dir/?q"),
        ("redirect, HTTP/1.0",         strict,  "GET / HTTP/1.0\r\nHost: www.two.org",                       "301 //two.org/"),
        ("redirect, port",             strict,  "GET / HTTP/1.1\r\nHost: www.two.org:8080",                  "301 //two.org:8080/"),
        ("redirect by target",         strict,  "GET http://WWW.two.org HTTP/1.1\r\nHost: one.org",          "301 //two.org/"),
        ("redirect, another method",   strict,  "POST /a HTTP/1.1\r\nHost: www.two.org",                     "308 //two.org/a"),
        ("redirect, whole server",     strict,  "OPTIONS * HTTP/1.1\r\nHost: www.two.org",                   "204 "),
        ("redirect, https",            strict,  "GET https://www.two.org/ HTTP/1.1\r\nHost: a",              &format!("421 {PAGE}")),
        ("bad target, redirect",       strict,  "GET a HTTP/1.1\r\nHost: www.two.org",                       &format!("400 {PAGE}")),
        ("bad host",                   strict,  "GET / HTTP/1.1\r\nHost: a b",                               &format!("400 {PAGE}")),
        ("no host",                    second,  "GET / HTTP/1.1",                                            &format!("400 {PAGE}")),
        ("content too large",          strict,  "PUT / HTTP/1.1\r\nHost: two.org\r\nContent-Length: 9999999", &format!("413 {PAGE}")),
    ];
    for &(name, default, request, want) in cases {
        assert_eq!(send(&mut sim(default), &format!("{request}\r\n\r\n")), [want], "{name}: {request}");
    }
}

#[test]
#[rustfmt::skip]
fn the_path_selects_the_site_before_the_host() {
    const PAGE: &str = "<!doctype html>";
    let cases: &[(&str, &str, &str, &str)] = &[
        // case                       host           target          response
        ("no route",                  "one.org",     "/",            "200 one"),
        ("route of any host",         "one.org",     "/dir/",        "200 dir of wild"),
        ("the whole path is looked up", "one.org",   "/dir",         "301 /dir/"),
        ("route of the host",         "two.org",     "/dir/",        "200 dir of one"),
        ("unknown host",              "three.org",   "/dir/",        "200 dir of wild"),
        ("unknown host, no route",    "three.org",   "/",            &format!("421 {PAGE}")),
        ("redirect host",             "www.two.org", "/dir/",        "301 //two.org/dir/"),
        ("not normalized",            "one.org",     "/x/../%64ir/", "200 dir of wild"),
        ("another segment",           "one.org",     "/dirs",        "404 missing in one"),
    ];
    let mut routes = RouteTable::new(hosts(None).into());
    for (host, site) in [(None, 2), (Some("two.org".parse().unwrap()), 0)] {
        routes.add(host.as_ref(), "/dir".parse().unwrap(), RouteTarget::Site(id(site))).unwrap();
    }
    let mut sim = Sim::with_sites(Sites::by_route(images(), [routes].into()));
    for &(name, host, target, want) in cases {
        let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        assert_eq!(send(&mut sim, &request), [want], "{name}: {target} at {host}");
    }
}

#[test]
#[rustfmt::skip]
fn a_mount_strips_its_path_and_redirects_below_it() {
    const PAGE: &str = "<!doctype html>";
    let cases: &[(&str, &str, &str, &str)] = &[
        // case                       host           target               response
        ("the root of the host",      "one.org",     "/",                 "200 one"),
        ("the mount",                 "one.org",     "/docs/",            "200 two"),
        ("without a slash",           "one.org",     "/docs",             "301 /docs/"),
        ("without a slash, query",    "one.org",     "/docs?q",           "301 /docs/?q"),
        ("escaped",                   "one.org",     "/%64ocs",           "301 /docs/"),
        ("a directory",               "one.org",     "/docs/dir",         "301 /docs/dir/"),
        ("a directory and a query",   "one.org",     "/docs/dir?q",       "301 /docs/dir/?q"),
        ("below it",                  "one.org",     "/docs/dir/",        "200 dir of two"),
        ("dots below it",             "one.org",     "/docs/./x/../dir/", "200 dir of two"),
        ("out of it",                 "one.org",     "/docs/../dir/",     "200 dir of one"),
        ("its rules",                 "one.org",     "/docs/where/x",     "301 /docs/two/x"),
        ("its 404",                   "one.org",     "/docs/x",           "404 missing in two"),
        ("another segment",           "one.org",     "/docsx",            "404 missing in one"),
        ("another case",              "one.org",     "/Docs/",            "404 missing in one"),
        ("an escaped slash",          "one.org",     "/docs%2fdir",       &format!("404 {PAGE}")),
        ("NUL",                       "one.org",     "/docs/%00",         &format!("404 {PAGE}")),
        ("health check",              "one.org",     "/health",           "200 ok"),
        ("not below a mount",         "one.org",     "/docs/health",      "404 missing in two"),
        ("unknown host",              "three.org",   "/",                 &format!("421 {PAGE}")),
        ("its mount",                 "three.org",   "/docs/dir/",        "200 dir of two"),
        ("a host of its own",         "wild.org",    "/a%20b/dir",        "301 /a%20b/dir/"),
        ("not there",                 "wild.org",    "/dir/",             &format!("404 {PAGE}")),
        ("redirect host",             "www.one.org", "/docs/",            "301 //one.org/docs/"),
        ("a bad escape",              "one.org",     "/docs/%",           &format!("400 {PAGE}")), // the last: the connection closes
    ];
    let mut hosts = Hosts::new(None);
    hosts.add("one.org".parse().unwrap(), id(0)).unwrap();
    hosts.add_redirect_host("www.one.org".parse().unwrap(), id(0)).unwrap();
    let mut routes = RouteTable::new(hosts.into());
    routes.add(None, "/docs".parse().unwrap(), RouteTarget::Mount(id(1))).unwrap();
    routes.add(Some(&"wild.org".parse().unwrap()), "/a b".parse().unwrap(), RouteTarget::Mount(id(2))).unwrap();
    let images = [image(ONE), image_below(TWO, "/docs"), image_below(WILD, "/a b")];
    let mut sites = Sites::by_route(images.map(|image| (image, Limits::default())), [routes].into());
    sites.set_health_path((*b"/health").into());
    let mut sim = Sim::with_sites(sites);
    for &(name, host, target, want) in cases {
        let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        assert_eq!(send(&mut sim, &request), [want], "{name}: {target} at {host}");
    }
}

/// A host of a site that answers at other listeners only gets no content of the sites of this one, unless a mount names the host.
#[test]
#[rustfmt::skip]
fn hosts_of_other_listeners_are_misdirected() {
    const PAGE: &str = "<!doctype html>";
    let cases: &[(&str, &str, &str)] = &[
        // case                       request                                                   response
        ("its own host",              "GET / HTTP/1.1\r\nHost: one.org",                        "200 one"),
        ("unknown host",              "GET / HTTP/1.1\r\nHost: three.org",                      "200 one"),
        ("no host",                   "GET / HTTP/1.0\r\nConnection: keep-alive",               "200 one"),
        ("host of the other",         "GET / HTTP/1.1\r\nHost: intern.org",                     &format!("421 {PAGE}")),
        ("case, port and dot",        "GET / HTTP/1.1\r\nHost: Intern.ORG.:8443",               &format!("421 {PAGE}")),
        ("a path that is not there",  "GET /x HTTP/1.1\r\nHost: intern.org",                    &format!("421 {PAGE}")),
        ("a rule",                    "GET /where/x HTTP/1.1\r\nHost: intern.org",              &format!("421 {PAGE}")),
        ("HEAD",                      "HEAD / HTTP/1.1\r\nHost: intern.org",                    "421 "),
        ("another method",            "POST / HTTP/1.1\r\nHost: intern.org\r\nContent-Length: 0", &format!("421 {PAGE}")),
        ("by the target",             "GET http://intern.org/ HTTP/1.1\r\nHost: one.org",       &format!("421 {PAGE}")),
        ("by the field alone",        "GET http://one.org/ HTTP/1.1\r\nHost: intern.org",       "200 one"),
        ("its wildcard",              "GET / HTTP/1.1\r\nHost: a.intern.org",                   &format!("421 {PAGE}")),
        ("a name here before it",     "GET / HTTP/1.1\r\nHost: both.intern.org",                "200 two"),
        ("a name there first",        "GET / HTTP/1.1\r\nHost: intern.two.org",                 &format!("421 {PAGE}")),
        ("the wildcard here",         "GET / HTTP/1.1\r\nHost: a.two.org",                      "200 wild"),
        ("the same name",             "GET / HTTP/1.1\r\nHost: two.org",                        "200 two"),
        ("mount of every host",       "GET /docs/ HTTP/1.1\r\nHost: intern.org",                &format!("421 {PAGE}")),
        ("the same, unknown host",    "GET /docs/ HTTP/1.1\r\nHost: three.org",                 "200 two"),
        ("mount of the host",         "GET /docs/a/ HTTP/1.1\r\nHost: intern.org",              "200 one"),
        ("health check",              "GET /health HTTP/1.1\r\nHost: intern.org",               "200 ok"),
    ];
    let name = |text: &str| text.parse().unwrap();
    let mut hosts = hosts(Some(id(0)));
    hosts.add(name("both.intern.org"), id(1)).unwrap();
    for other in ["intern.org", "*.intern.org", "intern.two.org", "two.org"] {
        hosts.add_of_other_listener(&name(other), id(2));
    }
    let mut routes = RouteTable::new(hosts.into());
    let mount = |prefix: &str| prefix.parse().unwrap();
    routes.add(None, mount("/docs"), RouteTarget::Mount(id(1))).unwrap();
    routes.add(Some(&name("intern.org")), mount("/docs/a"), RouteTarget::Mount(id(0))).unwrap();
    let mut sites = Sites::by_route(images(), [routes].into());
    sites.set_health_path((*b"/health").into());
    let mut sim = Sim::with_sites(sites);
    for &(name, request, want) in cases {
        assert_eq!(send(&mut sim, &format!("{request}\r\n\r\n")), [want], "{name}: {request}");
    }
}

/// Names of other listeners are none of this one: where no site is named, a path without a mount is not found.
#[test]
fn hosts_of_other_listeners_do_not_name_the_sites_of_this_one() {
    let mut hosts = Hosts::new(None);
    hosts.add_of_other_listener(&"intern.org".parse().unwrap(), id(2));
    let mut routes = RouteTable::new(hosts.into());
    routes.add(None, "/docs".parse().unwrap(), RouteTarget::Mount(id(1))).unwrap();
    let mut sim = Sim::with_sites(Sites::by_route(images(), [routes].into()));
    for (host, target, want) in [
        ("a", "/docs/", "200 two"),
        ("a", "/", "404 <!doctype html>"),
        ("intern.org", "/docs/", "421 <!doctype html>"),
        ("intern.org", "/", "421 <!doctype html>"),
    ] {
        let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        assert_eq!(send(&mut sim, &request), [want], "{target} at {host}");
    }
}

#[test]
fn a_single_site_with_a_route_by_path_keeps_its_table() {
    let mut routes = RouteTable::new(Hosts::new(Some(id(0))).into());
    routes.add(None, "/dir".parse().unwrap(), RouteTarget::Site(id(1))).unwrap();
    let mut sim = Sim::with_sites(Sites::by_route(images(), [routes].into()));
    assert_eq!(send(&mut sim, "GET /dir/ HTTP/1.1\r\nHost: a\r\n\r\n"), ["200 dir of two"]);
    assert_eq!(send(&mut sim, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"), ["200 one"]);
}

#[test]
fn requests_on_one_connection_may_have_different_hosts() {
    let mut sim = sim(None);
    let get = |host: &str| format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let pipelined: String =
        ["one.org", "two.org", "www.two.org", "x.two.org", "three.org", "one.org"].map(get).concat();
    let want = ["200 one", "200 two", "301 //two.org/", "200 wild", "421 <!doctype html>", "200 one"];
    assert_eq!(send(&mut sim, &pipelined), want, "pipelined");
    for (host, want) in [("one.org", want[0]), ("two.org", want[1]), ("www.two.org", want[2])] {
        assert_eq!(send(&mut sim, &get(host)), [want], "one after the other");
    }
}

#[test]
fn a_swap_changes_one_site_only() {
    let mut sim = sim(None);
    let requests = "GET / HTTP/1.1\r\nHost: one.org\r\n\r\nGET / HTTP/1.1\r\nHost: two.org\r\n\r\n";
    sim.client_sends(requests.as_bytes());
    sim.run(Cuts { send: 0, ..Cuts::NONE });
    let (old, _) = sim.sites.current(id(1));
    sim.sites.swap(id(1), image("new"));
    assert_eq!(sim.sites.retire().count(), 0, "a span still names it");
    assert_eq!(send(&mut sim, requests), ["200 one", "200 two", "200 one", "200 new"]);
    assert_eq!(sim.sites.retire().collect::<Vec<_>>(), [old]);
    assert_eq!(sim.sites.retire().count(), 0, "it has retired");
}

#[test]
fn an_image_that_is_served_again_before_it_retires_stays() {
    let mut sim = sim(None);
    let (old, _) = sim.sites.current(id(0));
    let new = sim.sites.swap(id(0), image("new"));
    sim.sites.serve(id(0), old, Vec::new());
    assert_eq!(sim.sites.retire().collect::<Vec<_>>(), [new]);
    assert_eq!(send(&mut sim, "GET / HTTP/1.1\r\nHost: one.org\r\n\r\n"), ["200 one"]);
}

#[test]
fn limits_are_those_of_the_site_of_the_last_request() {
    let mut sim = sim(Some(id(0)));
    let limits = sim.sites.limits_mut(id(1));
    limits.idle_ms = 1_234;
    limits.content_ms = 2_345;
    limits.send_ms = 3_456;
    limits.keepalive_requests = 3.try_into().unwrap();
    let default = Limits::default();
    let get = |host: &str| format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
    assert_eq!(sim.deadline_ms(), default.head_ms, "before the first request");
    send(&mut sim, &get("one.org"));
    assert_eq!(sim.deadline_ms(), default.idle_ms);
    send(&mut sim, &get("two.org"));
    assert_eq!(sim.deadline_ms(), 1_234);
    send(&mut sim, &get("one.org"));
    assert_eq!(sim.deadline_ms(), default.idle_ms);
    sim.client_sends(get("two.org").as_bytes());
    sim.run(Cuts { send: 0, ..Cuts::NONE });
    assert_eq!(sim.deadline_ms(), 3_456);
    sim.run(Cuts::NONE);
    let last = String::from_utf8_lossy(&sim.wire);
    let connection = last.rsplit("HTTP/1.1 ").next().unwrap().contains("\r\nConnection: close\r\n");
    assert!(connection, "it is the fourth request, and this site allows three");

    let mut sim = sim_with_long_content_time(id(1));
    sim.client_sends(b"POST / HTTP/1.1\r\nHost: two.org\r\nContent-Length: 3\r\n\r\n");
    sim.run(Cuts::NONE);
    assert_eq!(sim.deadline_ms(), 9_999);
}

fn sim_with_long_content_time(site: SiteId) -> Sim {
    let mut sim = sim(None);
    sim.sites.limits_mut(site).content_ms = 9_999;
    sim
}

#[test]
fn the_requested_sites_are_reported_once() {
    let mut sim = sim(None);
    assert_eq!(sim.sites.take_requested().count(), 0);
    send(&mut sim, "GET / HTTP/1.1\r\nHost: two.org\r\n\r\n");
    assert_eq!(sim.sites.take_requested().collect::<Vec<_>>(), [id(1)]);
    assert_eq!(sim.sites.take_requested().count(), 0, "since the last call");
    send(&mut sim, "GET / HTTP/1.1\r\nHost: x.two.org\r\n\r\nGET / HTTP/1.1\r\nHost: two.org\r\n\r\n");
    assert_eq!(sim.sites.take_requested().collect::<Vec<_>>(), [id(1), id(2)]);

    let mut single = Sim::new(image(ONE));
    for _ in 0..2 {
        assert_eq!(single.sites.take_requested().collect::<Vec<_>>(), [SiteId::FIRST], "the only site");
    }
    assert_eq!(send(&mut single, "GET / HTTP/1.1\r\nHost: any\r\n\r\n"), ["200 one"]);
}

#[test]
fn a_host_redirect_is_a_prefix_and_one_buffer() {
    let mut sim = sim(None);
    sim.client_sends(b"GET /a HTTP/1.1\r\nHost: www.two.org\r\n\r\n");
    sim.run(Cuts { send: 0, ..Cuts::NONE });
    assert!(matches!(sim.outbox(), [Span::Prefix(_), Span::Buf(_)]), "{:?}", sim.outbox());
    let long = format!("GET /{} HTTP/1.1\r\nHost: www.two.org\r\n\r\n", "|".repeat(6_000));
    assert_eq!(
        send(&mut sim, &long),
        ["301 //two.org/a", "414 <!doctype html>"],
        "escaping makes it three times as long"
    );
}
