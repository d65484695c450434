//! Requests over TLS: the server allocates as often as rustls alone does for as many records.
//!
//! ```text
//! client ── requests ──▶ server of tarpon:  allocations
//!    └─ counts the records in both directions       ‖
//! rustls alone, in memory: allocations to open a record, and to seal one, times those numbers
//! ```

use crate::{
    common::{
        EMBEDDED,
        client::{Stream, TestClient, connected, get},
        endpoint::TestTls,
        kernel::TcpPair,
        server::{EmbeddedServer, settings},
    },
    counting::{allocation_count, allocations_of},
    wait_for_sleep,
};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, SupportedProtocolVersion,
    crypto::aws_lc_rs,
    pki_types::PrivateKeyDer,
    server::UnbufferedServerConnection,
    unbuffered::{ConnectionState, UnbufferedStatus},
    version::{TLS12, TLS13},
};
use std::{
    io::{self, Read, Write},
    net::TcpStream,
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tarpon::{Settings, VirtualHosts};

/// Requests of each kind that are counted.
const REQUEST_COUNT: usize = 300;

/// Requests before them: the worker allocates while its first connection begins.
const WARM_UP_COUNT: usize = 20;

pub(crate) fn only_rustls_allocates(site: impl Fn() -> VirtualHosts) {
    let tls = TestTls::new();
    let costs = [RecordCost::of(&TLS13), RecordCost::of(&TLS12)];
    for &engine in EMBEDDED {
        let settings = Settings { keepalive_requests: NonZeroU32::MAX, ..settings(engine, 1) };
        let served = EmbeddedServer::start(tls.listeners(), &settings, site());
        let [_, tls13, tls12] = tls.endpoints(&served.addresses);
        for (endpoint, cost) in [tls13, tls12].iter().zip(costs) {
            let records = Arc::new(RecordCounts::default());
            let socket = CountingSocket::new(connected(endpoint.address), Arc::clone(&records));
            let mut client = endpoint.client(socket);
            let tag = client.get("/").field("ETag").expect("an entity-tag").to_owned();
            #[rustfmt::skip]
            let kinds: &[(&str, String, &[u16], Option<u64>)] = &[
                // what              request                                                                        statuses     records, if told
                ("small",            get("/"),                                                                      &[200],      Some(1)),
                ("not modified",     format!("GET / HTTP/1.1\r\nHost: a\r\nIf-None-Match: {tag}\r\n\r\n"),          &[304],      Some(1)),
                ("an error",         get("/nothing"),                                                               &[404],      Some(1)),
                ("a redirect",       get("/old?a"),                                                                 &[301],      Some(1)),
                ("two records",      get("/middle"),                                                                &[200],      Some(2)),
                ("a file",           get("/large"),                                                                 &[200],      None),
                ("ranges",           get("/middle").replace("\r\n\r\n", "\r\nRange: bytes=0-9,20-29,-1\r\n\r\n"),  &[206],      None),
                ("pipelined",        get("/").repeat(5),                                                            &[200; 5],   None),
            ];
            for (kind, requests, statuses, record_count) in kinds {
                let what = format!("{engine}, {endpoint}, {kind}");
                ask(&mut client, requests, statuses, WARM_UP_COUNT);
                wait_for_sleep();
                let (before, before_records) = (allocation_count(), records.get());
                ask(&mut client, requests, statuses, REQUEST_COUNT);
                wait_for_sleep();
                let allocations = allocation_count() - before;
                let [opened, sealed] =
                    [0, 1].map(|direction| records.get()[direction] - before_records[direction]);
                assert_eq!(
                    opened, REQUEST_COUNT as u64,
                    "{what}: a record for each request, or several requests"
                );
                if let Some(record_count) = record_count {
                    assert_eq!(sealed, record_count * REQUEST_COUNT as u64, "{what}: records of the server");
                }
                assert!(sealed >= opened, "{what}: {sealed} records of the server");
                let by_rustls = opened * cost.opened + sealed * cost.sealed;
                assert_eq!(
                    allocations, by_rustls,
                    "{what}: {opened} records opened, {sealed} sealed, {cost:?}"
                );
            }
        }
    }
}

/// Sends the same requests `count` times, and reads their responses.
fn ask(client: &mut TestClient, requests: &str, statuses: &[u16], count: usize) {
    for _ in 0..count {
        client.send(requests);
        for status in statuses {
            assert_eq!(client.response().status, *status, "{requests}");
        }
    }
}

/// How often rustls allocates for a record.
#[derive(Clone, Copy, Debug)]
struct RecordCost {
    opened: u64,
    sealed: u64,
}

impl RecordCost {
    /// Counts in memory, with the calls that a worker makes.
    fn of(version: &'static SupportedProtocolVersion) -> RecordCost {
        let (mut client, mut server) = shaken_hands(version);
        // The first record makes the queues of a connection.
        let [_, costs @ ..] = [1, 1, 100, 16_384].map(|len| {
            let plain = vec![b'x'; len];
            let mut wire = Vec::new();
            client.writer().write_all(&plain).expect("memory");
            client.write_tls(&mut wire).expect("memory");
            let mut opened_len = 0;
            let (discard, opened) = allocations_of(|| {
                let UnbufferedStatus { discard, state } = server.process_tls_records(&mut wire);
                let Ok(ConnectionState::ReadTraffic(mut traffic)) = state else { panic!("a record") };
                opened_len += traffic.next_record().expect("a record").expect("is valid").payload.len();
                discard
            });
            assert_eq!((opened_len, discard), (len, wire.len()));
            let mut sealed_record = vec![0; len + 100];
            let (_, sealed) = allocations_of(|| match server.process_tls_records(&mut []).state {
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    traffic.encrypt(&plain, &mut sealed_record).expect("room")
                }
                _ => panic!("an established connection"),
            });
            (opened, sealed)
        });
        assert!(costs.iter().all(|cost| *cost == costs[0]), "the length does not matter: {costs:?}");
        RecordCost { opened: costs[0].0, sealed: costs[0].1 }
    }
}

/// Returns both ends of an established connection in memory.
fn shaken_hands(
    version: &'static SupportedProtocolVersion,
) -> (ClientConnection, UnbufferedServerConnection) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let provider = Arc::new(aws_lc_rs::default_provider());
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).expect("a key");
    let server = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let server = server.with_protocol_versions(&[version]).expect("a version").with_no_client_auth();
    let server = server.with_single_cert(vec![cert.der().clone()], key).expect("a certificate");
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).expect("a certificate");
    let client = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]);
    let client = client.expect("a version").with_root_certificates(roots).with_no_client_auth();
    let name = "localhost".try_into().expect("a name");
    let mut client = ClientConnection::new(client.into(), name).expect("a usable configuration");
    let mut server = UnbufferedServerConnection::new(server.into()).expect("a usable configuration");
    let (mut to_server, mut to_client, mut record) = (Vec::new(), Vec::new(), vec![0; 1 << 15]);
    while client.is_handshaking() || client.wants_write() || !to_client.is_empty() {
        while client.wants_write() {
            client.write_tls(&mut to_server).expect("memory");
        }
        loop {
            let UnbufferedStatus { discard, state } = server.process_tls_records(&mut to_server);
            let is_waiting = match state.expect("the client speaks TLS") {
                ConnectionState::EncodeTlsData(mut data) => {
                    let len = data.encode(&mut record).expect("room");
                    to_client.extend_from_slice(&record[..len]);
                    false
                }
                ConnectionState::TransmitTlsData(data) => {
                    data.done();
                    false
                }
                ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_) => true,
                other => panic!("no state of a handshake: {other:?}"),
            };
            to_server.drain(..discard);
            if is_waiting {
                break;
            }
        }
        let mut rest = &to_client[..];
        while !rest.is_empty() {
            client.read_tls(&mut rest).expect("memory");
            client.process_new_packets().expect("the server speaks TLS");
        }
        to_client.clear();
    }
    (client, server)
}

/// The records that have passed a socket.
#[derive(Default)]
struct RecordCounts {
    sent: AtomicU64,
    received: AtomicU64,
}

impl RecordCounts {
    /// Returns how many the client has sent, and received.
    fn get(&self) -> [u64; 2] {
        [&self.sent, &self.received].map(|count| count.load(Ordering::Relaxed))
    }
}

/// A socket that counts the records of TLS in both directions.
struct CountingSocket {
    socket: TcpStream,
    counts: Arc<RecordCounts>,
    sent: RecordParser,
    received: RecordParser,
}

/// Where a record ends, whatever the cuts.
#[derive(Default)]
struct RecordParser {
    /// The part of a header that has arrived.
    header: Vec<u8>,
    /// The bytes that the record still has.
    rest_len: usize,
}

impl RecordParser {
    /// Returns how many records end in these bytes.
    fn ends_in(&mut self, bytes: &[u8]) -> u64 {
        let mut count = 0;
        for &byte in bytes {
            if self.rest_len > 0 {
                self.rest_len -= 1;
                count += u64::from(self.rest_len == 0);
                continue;
            }
            self.header.push(byte);
            if let [_, _, _, high, low] = self.header[..] {
                self.rest_len = u16::from_be_bytes([high, low]).into();
                self.header.clear();
            }
        }
        count
    }
}

impl CountingSocket {
    fn new(socket: TcpStream, counts: Arc<RecordCounts>) -> CountingSocket {
        CountingSocket { socket, counts, sent: RecordParser::default(), received: RecordParser::default() }
    }
}

impl Read for CountingSocket {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let len = self.socket.read(to)?;
        self.counts.received.fetch_add(self.received.ends_in(&to[..len]), Ordering::Relaxed);
        Ok(len)
    }
}

impl Write for CountingSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = self.socket.write(bytes)?;
        self.counts.sent.fetch_add(self.sent.ends_in(&bytes[..len]), Ordering::Relaxed);
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

impl Stream for CountingSocket {
    fn shutdown_write(&self) -> io::Result<()> {
        self.socket.shutdown_write()
    }

    fn set_blocking(&self, blocking: bool) -> io::Result<()> {
        self.socket.set_blocking(blocking)
    }

    fn tcp_pair(&self) -> Option<TcpPair> {
        self.socket.tcp_pair()
    }
}
