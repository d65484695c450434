//! The listeners of a test that runs with and without TLS, and the clients that connect to them.
//!
//! ```text
//! TestTls ─┬─ options or listeners ─▶ server: a plain listener, and one with TLS
//!          └─ endpoints ─▶ Endpoint: plain, TLS 1.3, TLS 1.2 ─▶ TestClient
//! ```

use super::{
    client::{Stream, TestClient, connected},
    has_http2,
    http2_stream::Http2Stream,
    program::{serve, serve_exactly},
    tls_files::TlsFiles,
    tls_stream::TlsStream,
};
use aws_lc_rs::digest::{SHA256, digest};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use rcgen::PublicKeyData;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs::default_provider,
    version::{TLS12, TLS13},
};
use std::{
    fmt, io,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};
use tarpon::{Engine, Listener, TlsCertificate, TlsConfig};

/// The certificate of a server, and clients that trust it.
pub(crate) struct TestTls {
    files: TlsFiles,
    /// The public key of the certificate, as SubjectPublicKeyInfo in DER.
    public_key: Vec<u8>,
    config: TlsConfig,
    /// Each version with its client, which remembers sessions.
    clients: [(&'static str, Arc<ClientConfig>); 2],
}

/// Where a server accepts clients, and how these speak to it.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    tls: Option<(&'static str, Arc<ClientConfig>)>,
    /// Clients speak HTTP/2, as [`Http2Stream`] does.
    is_http2: bool,
}

impl TestTls {
    /// Returns a certificate for `localhost` and `127.0.0.1`.
    pub(crate) fn new() -> TestTls {
        TestTls::for_hosts(&[])
    }

    /// Returns a certificate for these hosts too, so that the server does not warn of them.
    pub(crate) fn for_hosts(hosts: &[&str]) -> TestTls {
        let files = TlsFiles::new();
        let (certificate, key) = files.issue("server", &[&["localhost", "127.0.0.1"], hosts].concat());
        let chain = vec![certificate.der().to_vec()];
        let certificate = TlsCertificate::from_der(chain, key.serialize_der()).expect("a certificate");
        let mut roots = RootCertStore::empty();
        roots.add(files.authority().clone()).expect("an authority");
        let provider = Arc::new(default_provider());
        let clients = [("TLS 1.3", &TLS13), ("TLS 1.2", &TLS12)].map(|(name, version)| {
            let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
            let builder = builder.with_protocol_versions(&[version]).expect("a version");
            let mut client = builder.with_root_certificates(roots.clone()).with_no_client_auth();
            client.alpn_protocols = vec![b"http/1.1".to_vec()];
            (name, client.into())
        });
        TestTls {
            config: TlsConfig::new(&[certificate]).expect("one certificate"),
            public_key: key.subject_public_key_info(),
            files,
            clients,
        }
    }

    /// Returns the certificate of the authority, for clients that are programs.
    pub(crate) fn authority(&self) -> PathBuf {
        self.files.file("ca", "pem")
    }

    /// Returns the SHA-256 of the public key in base64, as Chromium takes it.
    pub(crate) fn public_key_hash(&self) -> String {
        BASE64_STANDARD.encode(digest(&SHA256, &self.public_key))
    }

    /// Returns the configuration of a client of TLS 1.3.
    pub(crate) fn client(&self) -> Arc<ClientConfig> {
        let [(_, tls13), _] = &self.clients;
        Arc::clone(tls13)
    }

    /// Returns the files of the certificate and of its key.
    pub(crate) fn files(&self) -> [String; 2] {
        ["pem", "key"].map(|extension| {
            let file = self.files.file("server", extension);
            file.into_os_string().into_string().expect("UTF-8")
        })
    }

    /// Returns the options for `tarpon serve`: a plain listener, and one with TLS. Each has its own address, as listeners differ by that.
    pub(crate) fn options(&self) -> Vec<String> {
        let [certificate, key] = self.files();
        [
            "--listen",
            "127.0.0.2:0",
            "--listen",
            "tls:127.0.0.1:0",
            "--tls-cert",
            &certificate,
            "--tls-key",
            &key,
        ]
        .map(str::to_owned)
        .into()
    }

    /// Returns the command `tarpon serve` with these listeners, as [`serve`].
    pub(crate) fn serve(&self, dir: &Path, options: &[&str]) -> Command {
        self.serve_as(serve, dir, options)
    }

    /// As [`serve_exactly`].
    pub(crate) fn serve_exactly(&self, dir: &Path, options: &[&str]) -> Command {
        self.serve_as(serve_exactly, dir, options)
    }

    fn serve_as(&self, serve: fn(&Path, &[&str]) -> Command, dir: &Path, options: &[&str]) -> Command {
        let listeners = self.options();
        serve(dir, &listeners.iter().map(String::as_str).chain(options.iter().copied()).collect::<Vec<_>>())
    }

    /// Returns the listeners for a server in the process of the test: a plain one, and one with TLS.
    pub(crate) fn listeners(&self) -> Vec<Listener> {
        let [plain, tls] = [(); 2].map(|()| {
            let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
            Listener::try_from(socket).expect("a listener for all workers")
        });
        vec![plain, tls.with_tls(&self.config)]
    }

    /// Returns how clients speak to a server with these listeners: without TLS, and with each version.
    ///
    /// # Panics
    /// The server has other listeners.
    pub(crate) fn endpoints(&self, addresses: &[SocketAddr]) -> [Endpoint; 3] {
        let &[plain, tls] = addresses else { panic!("the addresses of two listeners: {addresses:?}") };
        let [tls13, tls12] = self.clients.each_ref().map(|client| Endpoint {
            address: tls,
            tls: Some(client.clone()),
            is_http2: false,
        });
        [Endpoint::plain(plain), tls13, tls12]
    }

    /// Returns the same and, if the engine offers it, how clients speak HTTP/2 without TLS.
    pub(crate) fn endpoints_with_http2(&self, engine: Engine, addresses: &[SocketAddr]) -> Vec<Endpoint> {
        let http2 = Endpoint { is_http2: true, ..Endpoint::plain(addresses[0]) };
        let http2 = Some(http2).filter(|_| has_http2(engine));
        self.endpoints(addresses).into_iter().chain(http2).collect()
    }
}

impl Endpoint {
    /// Returns a place for clients without TLS.
    pub(crate) fn plain(address: SocketAddr) -> Endpoint {
        Endpoint { address, tls: None, is_http2: false }
    }

    #[track_caller]
    pub(crate) fn connect(&self) -> TestClient {
        self.client(connected(self.address))
    }

    /// Returns the client of a connected socket.
    #[track_caller]
    pub(crate) fn client(&self, socket: impl Stream + 'static) -> TestClient {
        self.try_client(socket).unwrap_or_else(|error| panic!("{self}: the handshake fails: {error}"))
    }

    /// Returns the client of a connected socket.
    ///
    /// # Errors
    /// The handshake fails.
    pub(crate) fn try_client(&self, socket: impl Stream + 'static) -> io::Result<TestClient> {
        match &self.tls {
            None if self.is_http2 => Ok(TestClient::new(Http2Stream::new(socket))),
            None => Ok(TestClient::new(socket)),
            Some((_, config)) => TlsStream::new(socket, config).map(TestClient::new),
        }
    }

    pub(crate) fn is_http2(&self) -> bool {
        self.is_http2
    }

    /// Returns the configuration of clients with TLS.
    pub(crate) fn config(&self) -> Option<&Arc<ClientConfig>> {
        self.tls.as_ref().map(|(_, config)| config)
    }

    pub(crate) fn has_tls(&self) -> bool {
        self.tls.is_some()
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = if self.is_http2 { "HTTP/2" } else { "plain" };
        f.write_str(self.tls.as_ref().map_or(plain, |(version, _)| version))
    }
}
