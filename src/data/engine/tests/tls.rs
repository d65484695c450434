//! Responses through TLS, on every engine: contents in the image, in files beside it, and of more than one record.

use super::*;
use crate::{
    data::worker::SocketSettings,
    site::{Site, versions::SiteVersions},
};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    crypto::aws_lc_rs,
    pki_types::PrivateKeyDer,
    version::{TLS12, TLS13},
};
use std::fs;
use tarpon_conn::{
    Limits,
    sim::{Through, TransportClient},
};

#[test]
fn responses_pass_through_tls() {
    let contents = [vec![b'a'; 50], vec![b'b'; 17_000], (0..300_000).map(|at| (at % 251) as u8).collect()];
    let sites: Arc<[_]> =
        [(SiteVersions { current: site(&contents), earlier: [].into() }, Limits::default())].into();
    let (server, clients) = ends();
    for engine in engines() {
        // In the thread of the worker, and in another one.
        let threads = match engine {
            TestedEngine::Engine(engine) => engine.start_handshakes(1).unwrap(),
            TestedEngine::OneConnection => None,
        };
        for ((version, client), handshakes) in
            clients.iter().flat_map(|client| [(client, None), (client, threads.clone())])
        {
            let settings = SocketSettings { tls: Some(Arc::clone(&server)), ..SocketSettings::default() };
            let change = |config| WorkerConfig {
                socket_settings: [settings].into(),
                sites: Arc::clone(&sites),
                handshakes: handshakes.clone(),
                ..config
            };
            let worker = RunningWorker::start_with(engine, EchoConnector::default(), change);
            let socket = TcpStream::connect(worker.address).unwrap();
            let through = Through::Tls(Arc::clone(&server), Arc::clone(client));
            let mut client = SealingClient::new(socket, &through);
            for (number, content) in contents.iter().enumerate() {
                client.send(format!("GET /{number} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
                while !client.plain.ends_with(content) {
                    assert!(
                        client.exchange(),
                        "{engine:?}, {version}: the connection ended in the response {number}"
                    );
                }
            }
            assert!(client.plain.starts_with(b"HTTP/1.1 200 OK\r\n"), "{engine:?}, {version}");
            client.end();
            while client.exchange() {}
            assert!(
                client.end.has_alert(),
                "{engine:?}, {version}: the server announces that it sends no more"
            );
        }
    }
}

/// Returns a configuration of the server, and one of a client for each version.
fn ends() -> (Arc<ServerConfig>, [(&'static str, Arc<ClientConfig>); 2]) {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&TLS12, &TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![cert.der().clone()],
            PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap(),
        )
        .unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let clients = [("TLS 1.2", &TLS12), ("TLS 1.3", &TLS13)].map(|(name, version)| {
        let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots.clone())
            .with_no_client_auth();
        (name, client.into())
    });
    (server.into(), clients)
}

/// Longer than any response takes.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Returns a site of files with these contents, named by number.
fn site(contents: &[Vec<u8>]) -> Arc<Site> {
    let dir = tempfile::tempdir().unwrap();
    for (number, content) in contents.iter().enumerate() {
        fs::write(dir.path().join(number.to_string()), content).unwrap();
    }
    Arc::new(Site::from_dir(dir.path()).unwrap())
}

/// A client behind a socket.
struct SealingClient {
    socket: TcpStream,
    end: TransportClient,
    unsent: Vec<u8>,
    plain: Vec<u8>,
}

impl SealingClient {
    fn new(socket: TcpStream, through: &Through) -> SealingClient {
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut unsent = Vec::new();
        SealingClient { end: TransportClient::new(through, &mut unsent), socket, unsent, plain: Vec::new() }
    }

    fn send(&mut self, plain: &[u8]) {
        self.end.send(plain, &mut self.unsent);
    }

    fn end(&mut self) {
        self.end.end(&mut self.unsent);
    }

    /// Sends what waits, and receives once. Returns whether the server may send more.
    fn exchange(&mut self) -> bool {
        // The server may have closed already.
        let _ = self.socket.write_all(&self.unsent);
        self.unsent.clear();
        let mut received = [0; 1_000];
        let len = retry_on_intr(|| read(&self.socket, &mut received)).unwrap_or(0);
        self.end.receive(&received[..len], &mut self.plain, &mut self.unsent);
        len > 0
    }
}
