//! Heads up to the limit of their length, and beyond it: for limits from the usual one to the highest.

use super::{
    backends::worker,
    functions,
    properties::{cuts, through},
    records::recorded,
    sites::{sim, sim_of, throughs},
    tls::tls13,
    upstreams::UpstreamWorld,
};
use proptest::prelude::*;
use tarpon_conn::{
    AcceptedClient, UpstreamReply,
    sim::{Cuts, Sim, Through},
};

/// The usual limit, one between, and the highest.
const LIMITS: [usize; 3] = [16_384, 40_000, 65_536];

/// Returns a request for `target` with a long field, of `len` bytes.
fn long_field(target: &str, len: usize) -> Vec<u8> {
    let head = |value: &str| format!("GET {target} HTTP/1.1\r\nHost: a\r\nX: {value}\r\n\r\n");
    head(&"x".repeat(len - head("").len())).into_bytes()
}

/// Returns a request with a long query, of `len` bytes.
fn long_query(target: &str, len: usize) -> Vec<u8> {
    let head = |query: &str| format!("GET {target}?{query} HTTP/1.1\r\nHost: a\r\n\r\n");
    head(&"q".repeat(len - head("").len())).into_bytes()
}

/// Sends requests, and returns the statuses of the responses.
fn statuses(mut sim: Sim, bytes: &[u8], cuts: Cuts) -> Vec<u16> {
    sim.client_sends(bytes);
    sim.run(cuts);
    statuses_of(&sim.wire)
}

fn statuses_of(wire: &[u8]) -> Vec<u16> {
    let text = String::from_utf8_lossy(wire);
    let lines = text.split("HTTP/1.1 ").skip(1);
    lines.map(|line| line[..3].parse().expect("a status")).collect()
}

#[test]
fn a_head_passes_up_to_the_limit_and_no_byte_more() {
    const AFTER: &[u8] = b"GET /small HTTP/1.1\r\nHost: a\r\n\r\n";
    for limit in LIMITS {
        #[rustfmt::skip]
        let cases: &[(&str, Vec<u8>, &[u16])] = &[
            // what is long               head                            statuses, with a request after it
            ("a field",                   long_field("/", limit),         &[200, 200]),
            ("a field, a byte more",      long_field("/", limit + 1),     &[431]),
            ("a query",                   long_query("/", limit),         &[200, 200]),
            ("a query, a byte more",      long_query("/", limit + 1),     &[431]),
            ("a request line beyond",     long_query("/", limit + 15),    &[414]),
            ("a path",                    long_field(&"/x".repeat(limit / 3), limit), &[404, 200]),
        ];
        for (what, head, want) in cases {
            let bytes = [head, AFTER].concat();
            for (through, read) in
                throughs().into_iter().chain([tls13()]).zip([1_460, 20_000, usize::MAX, 1_460])
            {
                let found =
                    statuses(sim().with_heads(limit).through(&through), &bytes, Cuts { read, ..Cuts::NONE });
                assert_eq!(found, *want, "{what}, at most {limit} bytes, {read} at once");
            }
            for sim in [sim_of(true), recorded(sim(), false)] {
                let found = statuses(sim.with_heads(limit), &bytes, Cuts::NONE);
                assert_eq!(found, *want, "{what}, at most {limit} bytes, in steps");
            }
        }
    }
}

#[test]
fn the_longest_head_may_arrive_byte_by_byte() {
    let limit = LIMITS[2];
    for (len, want) in [(limit, 200), (limit + 1, 431)] {
        let mut sim = sim().with_heads(limit);
        sim.client_sends(&long_field("/", len));
        // No line ends in these: the head is not parsed again.
        let steps = (0..).take_while(|_| sim.step(Cuts { read: 1, send: usize::MAX })).count();
        assert_eq!(statuses_of(&sim.wire), [want], "{len} bytes");
        assert!(steps <= 2 * len + 9, "{steps} steps");
    }
}

#[test]
fn a_redirect_repeats_the_longest_query() {
    let limit = LIMITS[2];
    let request = long_query("/dir", limit);
    let query = request.split(|&byte| matches!(byte, b'?' | b' ')).nth(2).expect("a query").to_vec();
    for through in throughs() {
        let mut sim = sim().with_heads(limit).through(&through);
        sim.client_sends(&request);
        sim.run(Cuts { read: 10_000, send: 3_000 });
        let location = [b"\r\nLocation: /dir/?", &*query, b"\r\n"].concat();
        assert!(sim.wire.windows(location.len()).any(|found| found == location), "{through:?}");
        assert_eq!(sim.bufs_held(), 0);
    }
}

#[test]
fn content_behind_the_longest_head_is_its_own() {
    let limit = LIMITS[2];
    let head = String::from_utf8(long_field("/f", limit - 25)).unwrap().replace("GET ", "POST ");
    let head = head.replace("Host: a\r\n", "Host: a\r\nContent-Length: 40000\r\n");
    let content: Vec<u8> = (0..40_000u32).map(|number| b'a' + (number % 23) as u8).collect();
    let bytes = [head.as_bytes(), &content].concat();
    for through in throughs() {
        for read in [usize::MAX, 30_000, 999] {
            let mut sim = Sim::accept(functions::sites(), AcceptedClient::default())
                .with_heads(limit)
                .through(&through);
            sim.client_sends(&bytes);
            sim.run(Cuts { read, ..Cuts::NONE });
            assert!(sim.wire.ends_with(&content), "{through:?}, {read} bytes at a time");
        }
    }
}

#[test]
fn backends_get_the_longest_head() {
    for limit in LIMITS {
        for (len, want) in [(limit, 200), (limit + 1, 431)] {
            for through in throughs() {
                let mut sim = worker().with_heads(limit);
                sim.through = through.clone();
                let client = sim.connect();
                let head = String::from_utf8(long_field("/app/", len - 13)).unwrap();
                sim.client_sends(
                    client,
                    head.replace("Host: a\r\n", "Host: a\r\nX-Length: 0\r\n").as_bytes(),
                );
                sim.run(Cuts { read: 5_000, ..Cuts::NONE });
                assert_eq!(statuses_of(&sim.take_received(client)), [want], "{len} bytes, {through:?}");
            }
        }
    }
}

#[test]
fn a_redirect_of_a_backend_may_have_the_longest_head() {
    let limit = LIMITS[2];
    for (path, want) in [("/small", 200), ("/app/again", 200), ("/none", 404)] {
        let mut sim = worker().with_heads(limit);
        let client = sim.connect();
        let extra = format!("X-Redirect: {path}\r\nX-Loop: 1\r\n");
        let head = String::from_utf8(long_field("/app/", limit - extra.len() - 200)).unwrap();
        sim.client_sends(client, head.replace("Host: a\r\n", &format!("Host: a\r\n{extra}")).as_bytes());
        sim.run(Cuts::NONE);
        let found = statuses_of(&sim.take_received(client));
        let want = if path.starts_with("/app") { 502 } else { want };
        assert_eq!(found, [want], "{path}");
    }
}

/// A server gets the head as a whole, or nothing.
#[test]
fn servers_get_a_whole_head_or_none() {
    let answer = |_, text: &str| match text.ends_with("\r\n\r\n") {
        true => {
            UpstreamReply { bytes: b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec(), ends: false }
        }
        false => UpstreamReply::default(),
    };
    for limit in LIMITS {
        let mut outcomes = Vec::new();
        // The server gets the host three times: a long one does not fit.
        for host_len in [1, 100, 240] {
            let host = "h".repeat(host_len.min(60)) + &".h".repeat(host_len.saturating_sub(60) / 2);
            for field_count in [1, 97] {
                let mut world = UpstreamWorld::new(answer);
                world.sim = world.sim.with_heads(limit);
                let head = |value: &str| {
                    let fields: String =
                        (0..field_count).map(|number| format!("x{number}: {value}\r\n")).collect();
                    format!("GET /app/ HTTP/1.1\r\nHost: {host}\r\n{fields}Last: z\r\n\r\n")
                };
                let request = head(&"v".repeat((limit - head("").len()) / field_count));
                let response = world.respond_in_cuts(&request, Cuts { read: 9_000, ..Cuts::NONE });
                let status = response[9..12].parse::<u16>().unwrap();
                let received = world.received();
                match status {
                    200 => {
                        let sent = request.lines().skip(2).filter(|line| !line.is_empty());
                        sent.for_each(|line| {
                            assert!(received.contains(&line.to_lowercase()), "{limit}: {line}")
                        });
                        assert!(
                            received.ends_with("\r\n\r\n") && received.matches("HTTP/1.1\r\n").count() == 1
                        );
                    }
                    431 => assert_eq!(received, "", "{limit}"),
                    status => panic!("{limit}: {status}"),
                }
                outcomes.push(status);
            }
        }
        assert_eq!(outcomes[0], 200, "{limit}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn the_bytes_sent_do_not_depend_on_cuts_of_long_heads(
        lens in proptest::collection::vec((prop_oneof![60usize..400, 16_000usize..17_000, 60_000usize..70_000], any::<bool>()), 1..4),
        limit in proptest::sample::select(&LIMITS[..]),
        cuts in cuts(),
        through in through(),
    ) {
        let heads = lens.iter().map(|&(len, in_query)| match in_query {
            true => long_query("/dir", len),
            false => long_field("/small", len),
        });
        let bytes = heads.collect::<Vec<_>>().concat();
        let cuts = Cuts { read: cuts.read.max(37), send: cuts.send.max(37) };
        let [whole, cut] = [(Through::Plain, Cuts::NONE), (through, cuts)].map(|(through, cuts)| {
            let mut sim = sim().with_heads(limit).through(&through);
            sim.client_sends(&bytes);
            sim.run(cuts);
            sim.wire
        });
        prop_assert!(whole == cut, "{} and {} bytes", whole.len(), cut.len());
    }
}
