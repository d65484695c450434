//! Responses that leave at a limited rate: the same bytes as without a limit, however they are cut, and never more of them than the rate allows.

use super::{
    functions,
    http2_client::{Http2Client, get, preface},
    sites::{IMAGE, LARGE_LEN, distinct_bytes, established, throughs},
};
use std::{
    hash::RandomState,
    iter,
    sync::{Arc, atomic::AtomicU64},
};
use tarpon_conn::{
    AcceptedClient, BUF_LEN, BackendSim, ClientLimits, Close, HttpVersions, Limits, PathLimits,
    RATE_WORD_COUNT, RateTable, SendRate, SitePathLimits, Sites,
    sim::{Cuts, Sim},
};

/// Bytes per second. A step has 4 KiB, and takes 256 ms.
const RATE: u32 = 16_000;
const STEP_LEN: usize = 4096;

/// More than the heads and frames of all responses of a case.
const OVERHEAD: usize = 2_000;

#[test]
fn a_response_leaves_at_its_rate_and_whole() {
    #[rustfmt::skip]
    let cases: &[(&str, &[&str], usize)] = &[
        // case                   requests                                                                             seconds
        ("short",                 &["GET / HTTP/1.1\r\nHost: a\r\n\r\n"],                                              0),
        ("in the image",          &["GET /middle HTTP/1.1\r\nHost: a\r\n\r\n"],                                        1),
        ("in a file",             &["GET /large HTTP/1.1\r\nHost: a\r\n\r\n"],                                         6),
        ("no content",            &["HEAD /large HTTP/1.1\r\nHost: a\r\n\r\n"],                                        0),
        ("last",                  &["GET /middle HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"],                   1),
        ("of HTTP/1.0",           &["GET /middle HTTP/1.0\r\n\r\n"],                                                   1),
        ("a range",               &["GET /large HTTP/1.1\r\nHost: a\r\nRange: bytes=5-30004\r\n\r\n"],                 1),
        ("ranges",                &["GET /large HTTP/1.1\r\nHost: a\r\nRange: bytes=0-9999,20000-39999\r\n\r\n"],      1),
        ("short between",         &["GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET /middle HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"], 1),
        ("one after the other",   &["GET /middle HTTP/1.1\r\nHost: a\r\n\r\n", "GET /middle HTTP/1.1\r\nHost: a\r\n\r\n"], 2),
        ("content that is dropped", &["GET /middle HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"], 1),
    ];
    for &(case, requests, seconds) in cases {
        for through in &throughs() {
            for (read, send) in [(usize::MAX, usize::MAX), (1, 700), (30, 5_000)] {
                let run = |rate| {
                    let mut sim = established(sim(rate), through);
                    sim.client_sends(requests.concat().as_bytes());
                    let ms = pass_paces(&mut sim, Cuts { read, send });
                    let text = String::from_utf8_lossy(&sim.wire);
                    let without_date =
                        text.split("Date: ").map(|part| part.trim_start_matches(|c| c != '\n'));
                    (without_date.collect::<String>(), ms, sim.close(), sim.bufs_held(), sim.input())
                };
                let (want, none, close, _, input) = run(None);
                let (found, ms, found_close, held, found_input) = run(Some(RATE));
                assert!(found == want, "{case}");
                assert_eq!((none, found_close, found_input, held), (0, close, input, 0), "{case}");
                assert_eq!(ms / 1_000, seconds, "{case}: {ms} ms");
            }
        }
    }
}

#[test]
fn streams_leave_at_their_rates_side_by_side() {
    let accepted = AcceptedClient { versions: HttpVersions::All, ..AcceptedClient::default() };
    let (mut sim, mut client) = (accept(Some(RATE), accepted), Http2Client::default());
    let requests = [preface(&[]), get(1, "/large"), get(3, "/middle"), get(5, "/"), get(7, "/large")];
    sim.client_sends(&requests.concat());
    let mut ends = [None; 4];
    let mut ms = 0;
    for _ in 0..1_000 {
        client.run(&mut sim, Cuts::NONE);
        for (end, stream) in ends.iter_mut().zip([1, 3, 5, 7]) {
            let received = &client.streams[&stream];
            let allowed = STEP_LEN + RATE as usize * ms / 1_000;
            assert!(received.content.len() <= allowed, "stream {stream} after {ms} ms");
            *end = end.or(received.is_complete.then_some(ms / 1_000));
        }
        if ends.iter().all(Option::is_some) {
            break;
        }
        let wait_ms = sim.deadline_ms();
        ms += wait_ms as usize;
        sim.pass(wait_ms);
    }
    assert_eq!(ends, [Some(6), Some(1), Some(0), Some(6)]);
    assert!(client.streams[&1].content == distinct_bytes(LARGE_LEN));
    assert_eq!((sim.close(), sim.bufs_held()), (Close::No, 0));
    // The connection goes on as any other.
    sim.client_sends(&get(9, "/small"));
    client.run(&mut sim, Cuts::NONE);
    assert!(client.streams[&9].is_complete);
    assert_eq!(sim.deadline_ms(), 75_000);
}

#[test]
fn a_client_that_stops_reading_is_cut_off_and_one_that_leaves_frees_all() {
    for full in [true, false] {
        let mut sim = sim(Some(RATE));
        sim.client_sends(b"GET /large HTTP/1.1\r\nHost: a\r\nRange: bytes=0-9999,20000-39999\r\n\r\n");
        sim.run(Cuts::NONE);
        sim.pass(sim.deadline_ms());
        assert!(sim.bufs_held() > 0, "the heads of parts wait");
        match full {
            true => {
                sim.step(Cuts { send: 0, ..Cuts::NONE });
                assert_eq!(sim.deadline_ms(), 30_000);
                sim.unacked = 1 << 30;
                sim.pass(30_000);
            }
            // Other connections need the buffers.
            false => sim.evict(),
        }
        sim.run(Cuts::NONE);
        assert_eq!((sim.close(), sim.bufs_held()), (Close::Both, 0), "{full}");
    }
}

#[test]
fn a_paced_response_is_sent_whole_when_the_server_stops() {
    let mut sim = sim(Some(RATE));
    sim.client_sends(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    sim.run(Cuts::NONE);
    sim.stop();
    pass_paces(&mut sim, Cuts::NONE);
    let wire = String::from_utf8_lossy(&sim.wire);
    assert_eq!((wire.matches("HTTP/1.1 200").count(), sim.close()), (1, Close::Both));
    assert!(sim.wire.ends_with(&distinct_bytes(LARGE_LEN)));
}

#[test]
fn backends_and_functions_respond_at_the_rate() {
    const LEN: usize = 40_000;
    let echo = format!(
        "POST /cgi-bin/a HTTP/1.1\r\nHost: a\r\nContent-Length: {LEN}\r\nX-Length: {LEN}\r\n\r\n{}",
        "x".repeat(LEN)
    );
    let chunked = echo.replacen("X-Length", "X-Other", 1);
    let function = format!("GET /f?len={LEN} HTTP/1.1\r\nHost: a\r\n\r\n");
    for (case, request) in [("length", echo), ("chunks", chunked), ("function", function)] {
        let mut sites = functions::sites();
        sites.set_client_limits(client_limits(Some(RATE)), 0);
        let mut sim = BackendSim::new(sites);
        let client = sim.connect();
        sim.client_sends(client, request.as_bytes());
        let (mut ms, mut received) = (0, Vec::new());
        // A pipelined request is answered after the response.
        sim.client_sends(client, b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        while ms < 10_000 && !received.ends_with(b"hello") {
            sim.run(Cuts::NONE);
            received.extend(sim.take_received(client));
            // A message of a backend leaves whole.
            let allowed = OVERHEAD + STEP_LEN + BUF_LEN + RATE as usize * ms / 1_000;
            assert!(received.len() <= allowed, "{case}: {} after {ms} ms", received.len());
            ms += 50;
            sim.pass(50, Cuts::NONE);
        }
        assert!(received.starts_with(b"HTTP/1.1 200 "), "{case}: {}", String::from_utf8_lossy(&received));
        assert!(received.len() > LEN && received.ends_with(b"hello"), "{case}: {}", received.len());
        let least = (LEN - STEP_LEN - BUF_LEN) * 1_000 / RATE as usize;
        assert!((least..4_000).contains(&ms), "{case}: {ms} ms");
        assert_eq!(sim.bufs_held(), 0, "{case}");
    }
}

/// Runs a connection until it waits for more than a pace. Returns how many milliseconds that took. Checks that no more has left than the rate
/// allows.
fn pass_paces(sim: &mut Sim, cuts: Cuts) -> usize {
    let mut ms = 0;
    loop {
        sim.run(cuts);
        let response_count = String::from_utf8_lossy(&sim.wire).matches("HTTP/1.1 2").count();
        let allowed = response_count * (STEP_LEN + OVERHEAD) + RATE as usize * ms / 1_000;
        assert!(ms == 0 || sim.wire.len() <= allowed, "{} after {ms} ms", sim.wire.len());
        let wait_ms = sim.deadline_ms();
        // The deadlines of connections that wait for something else are longer.
        if sim.close() == Close::Both || wait_ms > 1_000 {
            return ms;
        }
        ms += wait_ms as usize;
        sim.pass(wait_ms);
    }
}

fn sim(rate: Option<u32>) -> Sim {
    accept(rate, AcceptedClient::default())
}

/// Accepts a client of a site whose responses leave at this rate.
fn accept(rate: Option<u32>, accepted: AcceptedClient) -> Sim {
    let mut sites = Sites::new(IMAGE.clone(), Limits::default());
    sites.set_client_limits(client_limits(rate), 0);
    let mut sim = Sim::accept(sites, accepted);
    sim.files = vec![distinct_bytes(LARGE_LEN)];
    sim
}

fn client_limits(rate: Option<u32>) -> Arc<ClientLimits> {
    let words: Vec<_> = iter::repeat_with(AtomicU64::default).take(RATE_WORD_COUNT).collect();
    let send_rate = rate.map(|rate| SendRate(rate.try_into().expect("a rate")));
    Arc::new(ClientLimits {
        rates: RateTable::new(words, RandomState::new()),
        sites: vec![SitePathLimits {
            rest: PathLimits { send_rate, ..PathLimits::default() },
            ..SitePathLimits::default()
        }],
        passwords: vec![],
        report: |_| (),
    })
}
