//! Passwords: a request waits until another thread has verified its credentials, and then gets what it would have got at once; the others of its
//! connection are answered in order. Credentials that were verified before pass at once.

use super::{
    http2_client::{END_HEADERS, END_STREAM, Http2Client, frame, preface, request},
    sites::{IMAGE, LARGE_LEN, distinct_bytes, site},
};
use std::{
    hash::RandomState,
    iter,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};
use tarpon_conn::{
    AcceptedClient, BackendId, BackendLimits, BackendRoute, BackendSim, ClientLimits, Close,
    CredentialDigest, Hosts, HttpVersions, Limits, PasswordRule, PasswordRuleId, PasswordUsers, PathLimits,
    RATE_WORD_COUNT, RateTable, RouteTable, RouteTarget, SiteId, SitePathLimits, Sites,
    sim::{Cuts, Sim},
};
use tarpon_http::{basic::BasicCredentials, h2::FrameType};

/// One user. Its hash is the password itself.
#[derive(Debug, Default)]
struct OneUser {
    remembered: Mutex<Vec<CredentialDigest>>,
    verified_count: AtomicUsize,
}

impl PasswordUsers for OneUser {
    fn recall(
        &self,
        BasicCredentials { name, password }: BasicCredentials<'_>,
    ) -> Result<(), CredentialDigest> {
        let mut digest = CredentialDigest([0; 32]);
        for (to, byte) in digest.0.iter_mut().zip(name.iter().chain(b":").chain(password)) {
            *to = *byte;
        }
        if self.remembered.lock().unwrap().contains(&digest) { Ok(()) } else { Err(digest) }
    }

    fn verify(
        &self,
        BasicCredentials { name, password }: BasicCredentials<'_>,
        digest: &CredentialDigest,
    ) -> bool {
        self.verified_count.fetch_add(1, Ordering::Relaxed);
        let is_right = (name, password) == (b"ann", b"open");
        if is_right {
            self.remembered.lock().unwrap().push(*digest);
        }
        is_right
    }
}

/// ann:open, ann:shut and bob:open.
const RIGHT: &str = "Authorization: Basic YW5uOm9wZW4=\r\n";
const WRONG: &str = "Authorization: Basic YW5uOnNodXQ=\r\n";
const UNKNOWN: &str = "Authorization: Basic Ym9iOm9wZW4=\r\n";

/// A name; the target and the credentials of each request; the statuses; how many passwords are verified.
type PasswordCase = (&'static str, &'static [(&'static str, &'static str)], &'static str, usize);

#[test]
fn each_request_waits_for_its_own_password_however_it_is_cut() {
    #[rustfmt::skip]
    let cases: &[PasswordCase] = &[
        // case                     target, Authorization                                              statuses                 verified
        ("none",                    &[("/", "")],                                                      "401",                   0),
        ("malformed",               &[("/", "Authorization: Basic %\r\n")],                            "401",                   0),
        ("another scheme",          &[("/", "Authorization: Bearer YW5uOm9wZW4=\r\n")],                "401",                   0),
        ("right",                   &[("/", RIGHT)],                                                   "200",                   1),
        ("wrong",                   &[("/", WRONG)],                                                   "401",                   1),
        ("unknown",                 &[("/", UNKNOWN)],                                                 "401",                   1),
        ("right again",             &[("/", RIGHT), ("/large", RIGHT), ("/none", RIGHT)],              "200 200 404",           1),
        ("wrong again",             &[("/", WRONG), ("/", WRONG)],                                     "401 401",               2),
        ("each of its own",         &[("/", WRONG), ("/", RIGHT), ("/", ""), ("/", UNKNOWN), ("/", RIGHT)], "401 200 401 401 200", 3),
        ("outside",                 &[("/middle", ""), ("/", WRONG), ("/middle", ""), ("/", RIGHT)],    "200 401 200 200",       2),
    ];
    for &(case, requests, want, verified) in cases {
        let request =
            |(target, field): &(&str, &str)| format!("GET {target} HTTP/1.1\r\nHost: a\r\n{field}\r\n");
        let bytes: String = requests.iter().map(request).collect();
        for read in [1, 7, 60, bytes.len()] {
            for send in [usize::MAX, 5_000] {
                let (mut sim, users) = sim(AcceptedClient::default());
                sim.client_sends(bytes.as_bytes());
                sim.run(Cuts { read, send });
                let wire = String::from_utf8_lossy(&sim.wire).into_owned();
                let statuses: Vec<_> =
                    wire.split("HTTP/1.1 ").skip(1).map(|response| &response[..3]).collect();
                assert_eq!(statuses.join(" "), want, "{case}: {read} bytes at a time");
                assert_eq!(users.verified_count.load(Ordering::Relaxed), verified, "{case}");
                let refused = statuses.iter().filter(|status| **status == "401").count();
                let challenge = "\r\nWWW-Authenticate: Basic realm=\"a\"\r\n";
                assert_eq!(wire.matches(challenge).count(), refused, "{case}: {wire}");
                assert_eq!(sim.counters.requests_unauthorized.get(), refused as u64, "{case}");
                let counted = [&sim.counters.passwords_right, &sim.counters.passwords_wrong];
                assert_eq!(
                    counted.iter().map(|counter| counter.get()).sum::<u64>(),
                    verified as u64,
                    "{case}"
                );
                assert_eq!(sim.close(), Close::No, "{case}: the connection stays usable");
            }
        }
    }
}

#[test]
fn protected_responses_stay_out_of_shared_caches() {
    #[rustfmt::skip]
    let cases = [
        // target     fields                                              status  is private
        ("/",         "",                                                 200,    true),
        ("/large",    "Range: bytes=0-4\r\n",                             206,    true),
        ("/large",    "Range: bytes=0-4,10-14,100-104\r\n",               206,    true),
        ("/none",     "",                                                 404,    true),
        ("/middle",   "",                                                 200,    false),
    ];
    for (target, fields, status, is_private) in cases {
        let (mut sim, _) = sim(AcceptedClient::default());
        sim.client_sends(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{RIGHT}{fields}\r\n").as_bytes());
        sim.run(Cuts::NONE);
        let wire = String::from_utf8_lossy(&sim.wire);
        assert!(wire.starts_with(&format!("HTTP/1.1 {status} ")), "{target}: {wire}");
        assert_eq!(wire.contains("\r\nCache-Control: private\r\n"), is_private, "{target}: {wire}");
    }
}

#[test]
fn streams_wait_for_their_passwords() {
    for read in [1, 9, 50, 4_096] {
        let accepted = AcceptedClient { versions: HttpVersions::All, ..AcceptedClient::default() };
        let ((mut sim, users), mut client) = (sim(accepted), Http2Client::default());
        let with = |stream: u32, path: &str, field: &str| {
            let value = field.trim_start_matches("Authorization: ").trim_end();
            let fields = [("authorization", value)];
            let fields = if value.is_empty() { &[][..] } else { &fields };
            frame(FrameType::Headers, END_HEADERS | END_STREAM, stream, &request("GET", path, fields))
        };
        let requests =
            [("/large", RIGHT), ("/", ""), ("/", WRONG), ("/middle", ""), ("/", UNKNOWN), ("/", RIGHT)];
        let streams = requests
            .iter()
            .zip((1..).step_by(2))
            .flat_map(|((path, field), stream)| with(stream, path, field));
        sim.client_sends(&[preface(&[]), streams.collect()].concat());
        client.run(&mut sim, Cuts { read, ..Cuts::NONE });
        let statuses: Vec<_> = client.streams.values().map(|stream| stream.status().to_owned()).collect();
        assert_eq!(statuses, ["200", "401", "401", "200", "401", "200"], "{read} bytes at a time");
        let refused = &client.streams[&5];
        assert_eq!(refused.field("www-authenticate"), Some("Basic realm=\"a\""));
        let [protected, open] =
            [1, 7].map(|stream| client.streams[&stream].field("cache-control").map(str::to_owned));
        assert_eq!((protected.as_deref(), open.as_deref() == Some("private")), (Some("private"), false));
        assert!(client.streams.values().all(|stream| stream.is_complete), "{read} bytes at a time");
        assert_eq!((users.verified_count.load(Ordering::Relaxed), sim.close()), (3, Close::No));
    }
}

#[test]
fn a_backend_gets_requests_with_right_passwords_alone() {
    let mut routes = RouteTable::new(Arc::new(Hosts::new(Some(SiteId::FIRST))));
    let limits = BackendLimits::default();
    let route = RouteTarget::Backend(BackendRoute { backend: BackendId(0), limits });
    routes.add(None, "/".parse().unwrap(), route).unwrap();
    let mut sites = Sites::by_route([(site("hello"), Limits::default())], [routes].into());
    let users = Arc::new(OneUser::default());
    sites.set_client_limits(client_limits(&users), 0);
    let mut sim = BackendSim::new(sites);
    let client = sim.connect();
    let post = |field: &str| {
        format!("POST /secret HTTP/1.1\r\nHost: a\r\n{field}Content-Length: 5\r\nX-Length: 5\r\n\r\nhello")
    };
    sim.client_sends(client, [post(RIGHT), post(WRONG), post(RIGHT), post("")].concat().as_bytes());
    sim.run(Cuts::NONE);
    let received = String::from_utf8(sim.take_received(client)).expect("text");
    let statuses: Vec<_> = received.split("HTTP/1.1 ").skip(1).map(|response| &response[..3]).collect();
    assert_eq!(statuses, ["200", "401", "200", "401"]);
    assert_eq!(users.verified_count.load(Ordering::Relaxed), 2);
}

/// Accepts a client of a site with a user for all paths but /middle.
fn sim(accepted: AcceptedClient) -> (Sim, Arc<OneUser>) {
    let users = Arc::new(OneUser::default());
    let mut sites = Sites::new(IMAGE.clone(), Limits::default());
    sites.set_client_limits(client_limits(&users), 0);
    let mut sim = Sim::accept(sites, accepted);
    sim.files = vec![distinct_bytes(LARGE_LEN)];
    (sim, users)
}

fn client_limits(users: &Arc<OneUser>) -> Arc<ClientLimits> {
    let words: Vec<_> = iter::repeat_with(AtomicU64::default).take(RATE_WORD_COUNT).collect();
    let rest = PathLimits { passwords: Some(PasswordRuleId(0)), ..PathLimits::default() };
    let prefixes = vec![("/middle".parse().expect("a prefix"), PathLimits::default())];
    let rule = PasswordRule {
        users: Arc::<OneUser>::clone(users),
        challenge: b"WWW-Authenticate: Basic realm=\"a\"\r\n"[..].into(),
        label: "the site".into(),
    };
    Arc::new(ClientLimits {
        rates: RateTable::new(words, RandomState::new()),
        sites: vec![SitePathLimits { mount: None, prefixes, rest }],
        passwords: vec![rule],
        report: |_| (),
    })
}
