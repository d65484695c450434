//! Several sites on one connection: who answers, with what limits, and what becomes of their images.

#![allow(clippy::disallowed_methods, reason = "the ban is for the core, not for those who test it")]

use bytes::Bytes;
use std::{fs, io::Cursor};
use tarpon_conn::{
    Hosts, Limits, SiteId, Sites, Span,
    sim::{Cuts, Sim},
};
use tarpon_pack::{BuildCache, PackOptions, pack_dir};
use tarpon_site::Image;

/// A site whose start page is its name, with a page of its own for what is missing.
fn image(name: &str) -> Image {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("index.html"), name).unwrap();
    fs::write(dir.path().join("404.html"), format!("missing in {name}")).unwrap();
    fs::create_dir(dir.path().join("dir")).unwrap();
    fs::write(dir.path().join("dir/index.html"), format!("dir of {name}")).unwrap();
    fs::write(dir.path().join("_redirects"), format!("/where/:it /{name}/:it")).unwrap();
    let mut out = Cursor::new(Vec::new());
    pack_dir(dir.path(), &mut out, &PackOptions::new(784_111_777), &mut BuildCache::default()).unwrap();
    Image::new(Bytes::from(out.into_inner())).unwrap()
}

const ONE: &str = "one";
const TWO: &str = "two";
const WILD: &str = "wild";

fn id(number: usize) -> SiteId {
    SiteId::new(number)
}

/// `one.org`, `two.org` with the alias `www.two.org`, and `*.two.org`.
fn sim(default: Option<SiteId>) -> Sim {
    let mut hosts = Hosts::new(default);
    for (name, site) in [("one.org", 0), ("two.org", 1), ("*.two.org", 2)] {
        hosts.add(name.parse().unwrap(), id(site)).unwrap();
    }
    hosts.add_redirect_host("www.two.org".parse().unwrap(), id(1)).unwrap();
    let images = [ONE, TWO, WILD].map(|name| (image(name), Limits::default()));
    Sim::with_sites(Sites::by_host(images, hosts.into()))
}

/// What the client has received since `from`: status, Location if there is one, and content, of each response.
fn answers(wire: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(wire).into_owned();
    let each = text.split("HTTP/1.1 ").skip(1).map(|response| {
        let (head, content) = response.split_once("\r\n\r\n").unwrap();
        let location = head.lines().find_map(|line| line.strip_prefix("Location: "));
        let content = content.lines().next().unwrap_or_default();
        format!("{} {}", &head[..3], location.unwrap_or(content))
    });
    each.collect()
}

fn ask(sim: &mut Sim, request: &str) -> Vec<String> {
    let from = sim.wire.len();
    sim.client_sends(request.as_bytes());
    sim.run(Cuts::NONE);
    answers(&sim.wire[from..])
}

#[test]
#[rustfmt::skip]
fn the_host_says_who_answers() {
    const PAGE: &str = "<!doctype html>";
    let [strict, second] = [None, Some(id(1))];
    let cases: &[(&str, Option<SiteId>, &str, &str)] = &[
        // what it shows               default  request                                                      answer
        ("name",                       strict,  "GET / HTTP/1.1\r\nHost: one.org",                           "200 one"),
        ("another",                    strict,  "GET / HTTP/1.1\r\nHost: two.org",                           "200 two"),
        ("wildcard",                   strict,  "GET / HTTP/1.1\r\nHost: a.b.two.org:8080",                  "200 wild"),
        ("any case, port, root",       strict,  "GET / HTTP/1.1\r\nHost: TWO.org.:81",                       "200 two"),
        ("nobody",                     strict,  "GET / HTTP/1.1\r\nHost: three.org",                         &format!("421 {PAGE}")),
        ("nobody, HEAD",               strict,  "HEAD / HTTP/1.1\r\nHost: three.org",                        "421 "),
        ("nobody, another method",     strict,  "DELETE / HTTP/1.1\r\nHost: three.org",                      &format!("421 {PAGE}")),
        ("default",                    second,  "GET / HTTP/1.1\r\nHost: three.org",                         "200 two"),
        ("HTTP/1.0, no host",          second,  "GET / HTTP/1.0",                                            "200 two"),
        ("HTTP/1.0, no host, strict",  strict,  "GET / HTTP/1.0",                                            &format!("421 {PAGE}")),
        ("HTTP/1.0 with host",         second,  "GET / HTTP/1.0\r\nHost: one.org",                           "200 one"),
        ("target before field",        strict,  "GET http://two.org/ HTTP/1.1\r\nHost: one.org",             "200 two"),
        ("target names nobody",        strict,  "GET http://three.org/ HTTP/1.1\r\nHost: one.org",           &format!("421 {PAGE}")),
        ("https comes first",          strict,  "GET https://one.org/ HTTP/1.1\r\nHost: one.org",            &format!("421 {PAGE}")),
        ("its own page",               strict,  "GET /a HTTP/1.1\r\nHost: two.org",                          "404 missing in two"),
        ("its own rules",              strict,  "GET /where/x HTTP/1.1\r\nHost: two.org",                    "301 /two/x"),
        ("its own redirect",           second,  "GET /dir?q HTTP/1.1\r\nHost: one.org",                      "301 /dir/?q"),
        ("alias",                      strict,  "GET /dir/?q HTTP/1.1\r\nHost: www.two.org",                 "301 //two.org/dir/?q"),
        ("alias, HTTP/1.0",            strict,  "GET / HTTP/1.0\r\nHost: www.two.org",                       "301 //two.org/"),
        ("alias, port",                strict,  "GET / HTTP/1.1\r\nHost: www.two.org:8080",                  "301 //two.org:8080/"),
        ("alias by target",            strict,  "GET http://WWW.two.org HTTP/1.1\r\nHost: one.org",          "301 //two.org/"),
        ("alias, another method",      strict,  "POST /a HTTP/1.1\r\nHost: www.two.org",                     "308 //two.org/a"),
        ("alias, whole server",        strict,  "OPTIONS * HTTP/1.1\r\nHost: www.two.org",                   "204 "),
        ("alias, https",               strict,  "GET https://www.two.org/ HTTP/1.1\r\nHost: a",              &format!("421 {PAGE}")),
        ("bad target at an alias",     strict,  "GET a HTTP/1.1\r\nHost: www.two.org",                       &format!("400 {PAGE}")),
        ("bad host",                   strict,  "GET / HTTP/1.1\r\nHost: a b",                               &format!("400 {PAGE}")),
        ("no host",                    second,  "GET / HTTP/1.1",                                            &format!("400 {PAGE}")),
        ("content too large",          strict,  "PUT / HTTP/1.1\r\nHost: two.org\r\nContent-Length: 9999999", &format!("413 {PAGE}")),
    ];
    for &(name, default, request, want) in cases {
        assert_eq!(ask(&mut sim(default), &format!("{request}\r\n\r\n")), [want], "{name}: {request}");
    }
}

#[test]
fn each_request_on_a_connection_has_a_host_of_its_own() {
    let mut sim = sim(None);
    let request = |host: &str| format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let requests: String =
        ["one.org", "two.org", "www.two.org", "x.two.org", "three.org", "one.org"].map(request).concat();
    let want = ["200 one", "200 two", "301 //two.org/", "200 wild", "421 <!doctype html>", "200 one"];
    assert_eq!(ask(&mut sim, &requests), want, "pipelined");
    for (host, want) in [("one.org", want[0]), ("two.org", want[1]), ("www.two.org", want[2])] {
        assert_eq!(ask(&mut sim, &request(host)), [want], "one behind the other");
    }
}

#[test]
fn one_site_is_swapped_and_the_others_are_not() {
    let mut sim = sim(None);
    let requests = "GET / HTTP/1.1\r\nHost: one.org\r\n\r\nGET / HTTP/1.1\r\nHost: two.org\r\n\r\n";
    sim.client_sends(requests.as_bytes());
    sim.run(Cuts { send: 0, ..Cuts::NONE });
    let (old, _) = sim.sites.current(id(1));
    sim.sites.swap(id(1), image("new"));
    assert_eq!(sim.sites.retire().count(), 0, "it is still owed");
    assert_eq!(ask(&mut sim, requests), ["200 one", "200 two", "200 one", "200 new"]);
    assert_eq!(sim.sites.retire().collect::<Vec<_>>(), [old]);
    assert_eq!(sim.sites.retire().count(), 0, "once");
}

#[test]
fn an_image_that_comes_back_before_it_has_gone_stays() {
    let mut sim = sim(None);
    let (old, _) = sim.sites.current(id(0));
    let new = sim.sites.swap(id(0), image("new"));
    sim.sites.serve(id(0), old, Vec::new());
    assert_eq!(sim.sites.retire().collect::<Vec<_>>(), [new]);
    assert_eq!(ask(&mut sim, "GET / HTTP/1.1\r\nHost: one.org\r\n\r\n"), ["200 one"]);
}

#[test]
fn limits_are_those_of_the_site_that_was_asked_last() {
    let mut sim = sim(Some(id(0)));
    let limits = sim.sites.limits_mut(id(1));
    limits.idle_ms = 1_234;
    limits.content_ms = 2_345;
    limits.send_ms = 3_456;
    limits.keepalive_requests = 3.try_into().unwrap();
    let default = Limits::default();
    let get = |host: &str| format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
    assert_eq!(sim.deadline_ms(), default.head_ms, "none was asked yet");
    ask(&mut sim, &get("one.org"));
    assert_eq!(sim.deadline_ms(), default.idle_ms);
    ask(&mut sim, &get("two.org"));
    assert_eq!(sim.deadline_ms(), 1_234);
    ask(&mut sim, &get("one.org"));
    assert_eq!(sim.deadline_ms(), default.idle_ms);
    sim.client_sends(get("two.org").as_bytes());
    sim.run(Cuts { send: 0, ..Cuts::NONE });
    assert_eq!(sim.deadline_ms(), 3_456);
    sim.run(Cuts::NONE);
    let last = String::from_utf8_lossy(&sim.wire);
    let connection = last.rsplit("HTTP/1.1 ").next().unwrap().contains("\r\nConnection: close\r\n");
    assert!(connection, "the fourth request on it, and this site takes three");

    let mut sim = super_slow(id(1));
    sim.client_sends(b"POST / HTTP/1.1\r\nHost: two.org\r\nContent-Length: 3\r\n\r\n");
    sim.run(Cuts::NONE);
    assert_eq!(sim.deadline_ms(), 9_999);
}

fn super_slow(site: SiteId) -> Sim {
    let mut sim = sim(None);
    sim.sites.limits_mut(site).content_ms = 9_999;
    sim
}

#[test]
fn who_was_asked_is_known_to_who_wants_to_know() {
    let mut sim = sim(None);
    assert_eq!(sim.sites.take_requested().count(), 0);
    ask(&mut sim, "GET / HTTP/1.1\r\nHost: two.org\r\n\r\n");
    assert_eq!(sim.sites.take_requested().collect::<Vec<_>>(), [id(1)]);
    assert_eq!(sim.sites.take_requested().count(), 0, "since it was asked before");
    ask(&mut sim, "GET / HTTP/1.1\r\nHost: x.two.org\r\n\r\nGET / HTTP/1.1\r\nHost: two.org\r\n\r\n");
    assert_eq!(sim.sites.take_requested().collect::<Vec<_>>(), [id(1), id(2)]);

    let mut single = Sim::new(image(ONE));
    for _ in 0..2 {
        assert_eq!(single.sites.take_requested().collect::<Vec<_>>(), [SiteId::FIRST], "there is no other");
    }
    assert_eq!(ask(&mut single, "GET / HTTP/1.1\r\nHost: whoever\r\n\r\n"), ["200 one"]);
}

#[test]
fn the_redirect_of_an_alias_is_a_start_and_one_buffer() {
    let mut sim = sim(None);
    sim.client_sends(b"GET /a HTTP/1.1\r\nHost: www.two.org\r\n\r\n");
    sim.run(Cuts { send: 0, ..Cuts::NONE });
    assert!(matches!(sim.outbox(), [Span::Prefix(_), Span::Buf(_)]), "{:?}", sim.outbox());
    let long = format!("GET /{} HTTP/1.1\r\nHost: www.two.org\r\n\r\n", "|".repeat(6_000));
    assert_eq!(
        ask(&mut sim, &long),
        ["301 //two.org/a", "414 <!doctype html>"],
        "three times as long escaped"
    );
}
