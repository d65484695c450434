//! An outbox names bytes by place, and holds the images and buffers that they lie in.

use super::sites::{LARGE_LEN, archived, distinct_bytes, established, sim, site, site_of, throughs};
use tarpon_conn::{
    Input, SPAN_COUNT_MAX, SiteId, Span,
    sim::{Cuts, Sim},
};

#[test]
fn a_small_response_is_two_spans_and_copies_nothing() {
    for through in &throughs() {
        let mut sim = established(sim(), through);
        sim.client_sends(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        sim.run(Cuts { read: usize::MAX, send: 0 });
        assert!(matches!(sim.outbox(), [Span::Prefix(_), Span::Site { .. }]), "{:?}", sim.outbox());
        assert_eq!(sim.bufs_held(), 0, "the receive buffer is free once the head is parsed");
    }
}

#[test]
fn a_large_file_is_one_span() {
    for through in &throughs() {
        let mut sim = established(sim(), through);
        sim.client_sends(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
        sim.run(Cuts { read: usize::MAX, send: 0 });
        let [Span::Prefix(_), Span::Site { .. }, Span::File { number: 0, at: 0, len, .. }] = *sim.outbox()
        else {
            panic!("{:?}", sim.outbox());
        };
        assert_eq!(len, LARGE_LEN as u64);
    }
}

#[test]
fn a_content_in_an_archive_is_one_span_and_arrives_with_any_cuts() {
    for through in &throughs() {
        for send in [1, 7, 100, usize::MAX] {
            let mut sim = established(archived(), through);
            sim.client_sends(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
            sim.run(Cuts { read: usize::MAX, send: 0 });
            assert!(matches!(
                sim.outbox(),
                [Span::Prefix(_), Span::Site { .. }, Span::Archive { at: 512, len: 800, .. }]
            ));
            sim.run(Cuts { send, ..Cuts::NONE });
            assert!(sim.wire.ends_with(&distinct_bytes(800)), "{send}");
        }
    }
}

#[test]
fn a_burst_waits_in_the_kernel_while_the_client_reads_nothing() {
    for through in &throughs() {
        let mut sim = established(sim(), through);
        sim.client_sends(&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(100));
        sim.run(Cuts { read: 100, send: 0 });
        assert_eq!(sim.input(), Input::Pause);
        assert!(sim.outbox().len() <= SPAN_COUNT_MAX);
        sim.run(Cuts::NONE);
        assert_eq!(sim.wire.windows(9).filter(|bytes| bytes == b"\r\n\r\nhello").count(), 100);
    }
}

#[test]
fn a_burst_of_redirects_with_queries_holds_few_buffers() {
    for through in &throughs() {
        let mut sim = established(sim(), through);
        sim.client_sends(&b"GET /dir?query HTTP/1.1\r\nHost: a\r\n\r\n".repeat(20));
        // Each send ends within a response prefix, after the next heads were read.
        while sim.step(Cuts { read: 100, send: 0 }) || sim.step(Cuts { read: 100, send: 60 }) {}
        let locations = sim.wire.windows(24).filter(|bytes| bytes == b"\r\nLocation: /dir/?query\r");
        assert_eq!(locations.count(), 20);
    }
}

#[test]
fn a_prefix_sent_in_part_keeps_its_date() {
    for through in &throughs() {
        let mut sim = established(sim(), through);
        sim.client_sends(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        sim.run(Cuts { read: usize::MAX, send: 0 });
        sim.step(Cuts { read: usize::MAX, send: 60 });
        sim.pass(5_000);
        sim.run(Cuts::NONE);
        let text = String::from_utf8_lossy(&sim.wire);
        assert!(text.contains("\r\nDate: Mon, 07 Nov 1994 08:49:37 GMT\r\n"), "{text}");
    }
}

#[test]
fn an_exchange_in_progress_keeps_its_image_and_the_next_uses_the_new_one() {
    for through in &throughs() {
        let mut sim = established(sim(), through);
        sim.client_sends(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        sim.run(Cuts { read: usize::MAX, send: 0 });
        sim.sites.swap(SiteId::FIRST, site("changed"));
        assert_eq!(sim.sites.retire().count(), 0, "a span still names the old image");
        sim.client_sends(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        sim.run(Cuts { read: usize::MAX, send: 0 });
        sim.run(Cuts::NONE);
        let text = String::from_utf8_lossy(&sim.wire);
        let (old, new) = (text.find("\r\n\r\nhello").unwrap(), text.find("\r\n\r\nchanged").unwrap());
        assert!(old < new);
        assert_eq!(sim.sites.retire().count(), 1, "no span names it any more");
    }
}

#[test]
fn assets_of_earlier_images_are_served_until_these_are_dropped() {
    const OLD: &str = "/assets/app-B4qfzvDp.js";
    const BOTH: &str = "/assets/both-1f2e3d4c.js";
    let release = |number: &str| {
        let content = number.as_bytes();
        site_of(&[(OLD, content), (BOTH, content), ("/page-B4qfzvDp.html", content), ("/plain.js", content)])
    };
    let mut sim = Sim::new(release("1"));
    let (first, _) = sim.sites.current(SiteId::FIRST);
    let second = sim.sites.add(release("2"));
    let third = sim.sites.add(site_of(&[(BOTH, b"3"), ("/other.js", b"3")]));
    sim.sites.serve(SiteId::FIRST, third, vec![second, first]);
    let request = |sim: &mut Sim, line: &str| {
        let from = sim.wire.len();
        sim.client_sends(format!("{line} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        sim.run(Cuts::NONE);
        let text = String::from_utf8_lossy(&sim.wire[from..]).into_owned();
        let (head, content) = text.split_once("\r\n\r\n").unwrap();
        format!("{} {content}", &head["HTTP/1.1 ".len()..][..3])
    };
    let missing = request(&mut sim, "GET /nothing");
    assert!(missing.starts_with("404 "), "{missing}");
    let asset = format!("GET {OLD}?query");
    #[rustfmt::skip]
    let cases = [
        ("the latest earlier one", asset.clone(),                               "200 2"),
        ("normalized",            format!("GET /x/..{OLD}"),                    "200 2"),
        ("absolute",              format!("GET http://a{OLD}"),                 "200 2"),
        ("HEAD",                  format!("HEAD {OLD}"),                        "200 "),
        ("in the current image",  format!("GET {BOTH}"),                        "200 3"),
        ("a page",                "GET /page-B4qfzvDp.html".to_owned(),         &*missing),
        ("a name without a hash", "GET /plain.js".to_owned(),                   &*missing),
        ("only in the current",   "GET /other.js".to_owned(),                   "200 3"),
        ("another method",        format!("DELETE {OLD}"),                      "405"),
    ];
    for (name, line, want) in cases {
        let got = request(&mut sim, &line);
        assert!(got.starts_with(want) && (want.len() < 5 || got == want), "{name}: {got}");
    }
    // An image is held until its spans have been sent.
    sim.client_sends(format!("{asset} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
    sim.run(Cuts { read: usize::MAX, send: 0 });
    sim.sites.serve(SiteId::FIRST, third, vec![first]);
    assert_eq!(sim.sites.retire().count(), 0, "a span still names it");
    sim.run(Cuts::NONE);
    assert!(sim.wire.ends_with(b"\r\n\r\n2"));
    assert_eq!(sim.sites.retire().collect::<Vec<_>>(), [second]);
    assert_eq!(request(&mut sim, &asset), "200 1");
    sim.sites.serve(SiteId::FIRST, third, Vec::new());
    assert_eq!(sim.sites.retire().collect::<Vec<_>>(), [first]);
    assert_eq!(request(&mut sim, &asset), missing);
}

#[test]
fn an_asset_of_an_earlier_image_takes_precedence_over_a_rule_for_all_paths() {
    const OLD: &str = "/app-B4qfzvDp.js";
    let cases = [
        ("/* /index.html 200", "HTTP/1.1 200 OK\r\n"),
        ("/* https://other_host.example/:splat 302", "HTTP/1.1 302 Found\r\n"),
        ("/* /index.html 404", "HTTP/1.1 404 Not Found\r\n"),
    ];
    for (rule, otherwise) in cases {
        let mut sim = Sim::new(site_of(&[(OLD, b"the earlier one")]));
        let (first, _) = sim.sites.current(SiteId::FIRST);
        let new = sim.sites.add(site_of(&[("/index.html", b"home"), ("/_redirects", rule.as_bytes())]));
        for (earlier, want) in [(vec![first], "HTTP/1.1 200 OK\r\n"), (vec![], otherwise)] {
            sim.sites.serve(SiteId::FIRST, new, earlier.clone());
            let from = sim.wire.len();
            sim.client_sends(format!("GET {OLD} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
            sim.run(Cuts::NONE);
            let got = String::from_utf8_lossy(&sim.wire[from..]);
            assert!(got.starts_with(want), "{rule}: {got}");
            assert_eq!(got.ends_with("\r\n\r\nthe earlier one"), !earlier.is_empty(), "{rule}: {got}");
        }
    }
}
