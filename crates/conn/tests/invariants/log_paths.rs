//! The paths that a site keeps out of the access log: every response counts, and none is recorded as logged.

use super::records::recorded;
use bytes::Bytes;
use std::{fs, io::Cursor, num::NonZeroU32};
use tarpon_conn::{
    CounterName, Hosts, Limits, Record, Recording, Records, RequestStart, SiteId, Sites,
    sim::{Cuts, Sim},
};
use tarpon_pack::{BuildCache, PackOptions, PathEntry, Policy, RedirectEntry, RuleText, pack_dir};
use tarpon_site::Image;

#[test]
#[rustfmt::skip]
fn path_of_the_request_decides_whether_it_is_logged() {
    let cases: &[(&str, &str, &str, u16, bool)] = &[
        // case                      request                  more fields                      status  logged
        ("another path",             "GET /",                 "Host: a\r\n",                      200, true),
        ("a file",                   "GET /quiet/a.txt",      "Host: a\r\n",                      200, false),
        ("with a query",             "GET /quiet/a.txt?b=c",  "Host: a\r\n",                      200, false),
        ("HEAD",                     "HEAD /quiet/a.txt",     "Host: a\r\n",                      200, false),
        ("OPTIONS",                  "OPTIONS /quiet/a.txt",  "Host: a\r\n",                      204, false),
        ("absolute form",            "GET http://a/quiet/",   "Host: a\r\n",                      404, false),
        ("to normalize",             "GET /x/../%71uiet/a.txt", "Host: a\r\n",                    200, false),
        ("not modified",             "GET /quiet/a.txt",      "Host: a\r\nIf-None-Match: *\r\n",  304, false),
        ("a failed precondition",    "GET /quiet/a.txt",      "Host: a\r\nIf-Match: \"b\"\r\n",   412, false),
        ("a range",                  "GET /quiet/a.txt",      "Host: a\r\nRange: bytes=0-0\r\n",  206, false),
        ("no such range",            "GET /quiet/a.txt",      "Host: a\r\nRange: bytes=99-\r\n",  416, false),
        ("a missing file",           "GET /quiet/none",       "Host: a\r\n",                      404, false),
        ("a directory's redirect",   "GET /quiet/dir",        "Host: a\r\n",                      301, false),
        ("a redirect by a rule",     "GET /quiet/moved",      "Host: a\r\n",                      301, false),
        ("a rule with a placeholder", "GET /quiet/by/b",      "Host: a\r\n",                      302, false),
        ("a method for nothing",     "POST /quiet/a.txt",     "Host: a\r\nContent-Length: 0\r\n", 405, false),
        ("an unknown method",        "BREW /quiet/a.txt",     "Host: a\r\n",                      501, false),
        ("an expectation",           "GET /quiet/a.txt",      "Host: a\r\nExpect: tea\r\n",       417, false),
        ("the health check",         "GET /quiet/health",     "Host: a\r\n",                      200, false),
        ("the same, another host",   "GET /quiet/health",     "Host: 192.0.2.1\r\n",              200, false),
        ("on again",                 "GET /quiet/but/a.txt",  "Host: a\r\n",                      200, true),
        ("on again, missing",        "GET /quiet/but/none",   "Host: a\r\n",                      404, true),
        ("a redirect into it",       "GET /into",             "Host: a\r\n",                      301, true),
        ("a rewrite into it",        "GET /as",               "Host: a\r\n",                      200, true),
        ("the server",               "OPTIONS *",             "Host: a\r\n",                      204, true),
        ("a bad escape",             "GET /quiet/%zz",        "Host: a\r\n",                      400, true),
        ("no Host",                  "GET /quiet/a.txt",      "",                                 400, true),
        ("a bad length",             "GET /quiet/a.txt",      "Host: a\r\nContent-Length: b\r\n", 400, true),
        ("an unknown host",          "GET /quiet/a.txt",      "Host: b\r\n",                      421, true),
        ("a redirect host",          "GET /quiet/a.txt",      "Host: www.a\r\n",                  301, true),
    ];
    let image = image();
    for &(name, request, fields, status, want) in cases {
        for heads in [false, true] {
            let mut sim = recorded(sim(&image), heads);
            sim.client_sends(format!("{request} HTTP/1.1\r\n{fields}\r\n").as_bytes());
            sim.run(Cuts::NONE);
            assert!(sim.wire.starts_with(format!("HTTP/1.1 {status} ").as_bytes()), "{name}: {}", sim.wire.escape_ascii());
            // Metrics and the records of heads have every request.
            let responses = sim.counters.each().filter(|(name, _)| matches!(name, CounterName::Responses(..)));
            assert_eq!(responses.map(|(_, count)| count.get()).sum::<u64>(), 1, "{name}");
            let found: Vec<_> = starts(&sim).map(|start| start.is_sampled).collect();
            let expected = if heads { vec![want] } else { vec![true; usize::from(want)] };
            assert_eq!((found, sim.records.take_lost()), (expected, 0), "{name}, heads: {heads}");
        }
    }
}

#[test]
fn path_comes_before_the_sample_and_before_errors() {
    let image = image();
    // A sample that selects errors alone.
    let rare = NonZeroU32::new(u32::MAX).expect("a number");
    let mut sim = sim(&image);
    sim.records = Records::new(Recording { one_in: [Some(rare)].into(), heads: false, seed: 1 });
    for path in ["/", "/none", "/quiet/a.txt", "/quiet/none", "/quiet/but/none"] {
        sim.client_sends(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        sim.run(Cuts::NONE);
    }
    let lines: Vec<_> = starts(&sim).map(|start| String::from_utf8_lossy(start.line.bytes)).collect();
    assert_eq!(lines, ["GET /none HTTP/1.1", "GET /quiet/but/none HTTP/1.1"]);
}

/// Returns the start records.
fn starts(sim: &Sim) -> impl Iterator<Item = RequestStart<'_>> {
    let mut bytes = sim.records.bytes();
    let records = std::iter::from_fn(move || {
        let (record, len) = Record::read(bytes)?;
        bytes = &bytes[len..];
        Some(record)
    });
    records.filter_map(|record| match record {
        Record::Start(start) => Some(start),
        Record::End(_) => None,
    })
}

/// Returns a simulation of a site at the host `a`, with a redirect host and a path for health checks.
fn sim(image: &Image) -> Sim {
    let mut hosts = Hosts::new(None);
    hosts.add("a".parse().unwrap(), SiteId::FIRST).unwrap();
    hosts.add_redirect_host("www.a".parse().unwrap(), SiteId::FIRST).unwrap();
    let mut sim = Sim::with_sites(Sites::by_host([(image.clone(), Limits::default())], hosts.into()));
    sim.sites.set_health_path(b"/quiet/health"[..].into());
    sim
}

fn image() -> Image {
    let dir = tempfile::tempdir().unwrap();
    for path in ["index.html", "quiet/a.txt", "quiet/dir/index.html", "quiet/but/a.txt"] {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).and_then(|()| fs::write(&path, "content")).unwrap();
    }
    let text = |text: &str| RuleText { text: text.to_owned(), ..RuleText::default() };
    let path = |path, on| PathEntry { path: text(path), access_log: Some(on), ..PathEntry::default() };
    let redirect = |from, to, status| RedirectEntry {
        from: text(from),
        to: text(to),
        status: Some(status),
        force: false,
    };
    let mut policy = Policy::default();
    policy.rules.paths = vec![path("/quiet/*", false), path("/quiet/but/*", true)];
    policy.rules.redirects = vec![
        redirect("/quiet/moved", "/", 301),
        redirect("/quiet/by/:name", "/:name", 302),
        redirect("/into", "/quiet/a.txt", 301),
        redirect("/as", "/quiet/a.txt", 200),
    ];
    let options = PackOptions { policy, ..PackOptions::new(784_111_777) };
    let mut out = Cursor::new(Vec::new());
    pack_dir(dir.path(), &mut out, &options, &mut BuildCache::default()).unwrap();
    Image::new(Bytes::from(out.into_inner())).unwrap()
}
