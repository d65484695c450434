//! A server in the process of the test.

use super::{
    EMBEDDED, SERVER_TIMEOUT,
    endpoint::TestTls,
    program::{RunningProgram, serve_exactly},
    workers,
};
use std::{
    any::Any,
    net::{SocketAddr, TcpListener},
    num::NonZeroUsize,
    path::Path,
    sync::mpsc::channel,
    thread,
    time::Duration,
};
use tarpon::{Address, Engine, Handle, Http2Use, Listener, Server, Settings, Site, VirtualHosts};

/// An embedded server that stops when the value is dropped.
pub(crate) struct EmbeddedServer {
    /// The address of the first listener.
    pub(crate) address: SocketAddr,
    /// The addresses of all listeners.
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) handle: Handle,
    server: Option<Server>,
}

/// Returns settings with this engine, [`workers`]`(engine, worker_count)` workers and the timeouts [`SERVER_TIMEOUT`].
pub(crate) fn settings(engine: Engine, worker_count: usize) -> Settings {
    Settings {
        // The tests send bytes of HTTP/1, to which the preface of HTTP/2 is a request.
        http2: Http2Use::Off,
        engine,
        worker_count: NonZeroUsize::new(workers(engine, worker_count)),
        header_timeout: SERVER_TIMEOUT,
        body_timeout: SERVER_TIMEOUT,
        idle_timeout: SERVER_TIMEOUT,
        send_timeout: SERVER_TIMEOUT,
        ..Settings::default()
    }
}

/// Returns the same settings for tests that send HTTP/1 and HTTP/2.
pub(crate) fn settings_with_http2(engine: Engine, worker_count: usize) -> Settings {
    Settings { http2: Http2Use::On, ..settings(engine, worker_count) }
}

/// A server on any engine: embedded, or the program if the engine uses processes.
pub(crate) struct TestServer {
    /// The address of the first listener.
    pub(crate) address: SocketAddr,
    /// The addresses of all listeners.
    pub(crate) addresses: Vec<SocketAddr>,
    _server: Box<dyn Any>,
}

impl TestServer {
    /// Serves a directory with [`workers`]`(engine, worker_count)` workers.
    pub(crate) fn dir(engine: Engine, worker_count: usize, dir: &Path) -> TestServer {
        TestServer::with_workers(engine, workers(engine, worker_count), dir)
    }

    /// Serves a directory with exactly `worker_count` workers.
    pub(crate) fn with_workers(engine: Engine, worker_count: usize, dir: &Path) -> TestServer {
        if EMBEDDED.contains(&engine) {
            let worker_count = NonZeroUsize::new(worker_count);
            return EmbeddedServer::dir(&Settings { worker_count, ..settings(engine, 1) }, dir).into();
        }
        let workers = worker_count.to_string();
        RunningProgram::start_ready(serve_exactly(dir, &["--engine", engine.name(), "--workers", &workers]))
            .into()
    }

    /// Serves a directory with [`workers`]`(engine, worker_count)` workers, on the listeners of `tls`.
    pub(crate) fn dir_with_tls(engine: Engine, worker_count: usize, dir: &Path, tls: &TestTls) -> TestServer {
        if EMBEDDED.contains(&engine) {
            let site = Site::from_dir(dir).expect("a site");
            return EmbeddedServer::start(tls.listeners(), &settings_with_http2(engine, worker_count), site)
                .into();
        }
        let options = ["--engine", engine.name(), "--workers", &worker_count.to_string()];
        RunningProgram::start_ready(tls.serve(dir, &options)).into()
    }

    /// Keeps temporary directories until the server stops, because the program watches them.
    pub(crate) fn keep(self, dirs: impl Any) -> TestServer {
        TestServer { _server: Box::new((self._server, dirs)), ..self }
    }
}

impl From<EmbeddedServer> for TestServer {
    fn from(served: EmbeddedServer) -> TestServer {
        TestServer { address: served.address, addresses: served.addresses.clone(), _server: Box::new(served) }
    }
}

impl From<RunningProgram> for TestServer {
    fn from(program: RunningProgram) -> TestServer {
        TestServer { address: program.address(), addresses: program.addresses(), _server: Box::new(program) }
    }
}

impl EmbeddedServer {
    /// Serves a directory on a free port.
    pub(crate) fn dir(settings: &Settings, dir: &Path) -> EmbeddedServer {
        EmbeddedServer::dir_on(TcpListener::bind("127.0.0.1:0").expect("a free port"), settings, dir)
    }

    /// Serves a directory on an existing listener.
    pub(crate) fn dir_on(listener: TcpListener, settings: &Settings, dir: &Path) -> EmbeddedServer {
        EmbeddedServer::sites_on(listener, settings, Site::from_dir(dir).expect("a site"))
    }

    /// Serves sites on a free port.
    pub(crate) fn sites(settings: &Settings, sites: impl Into<VirtualHosts>) -> EmbeddedServer {
        EmbeddedServer::sites_on(TcpListener::bind("127.0.0.1:0").expect("a free port"), settings, sites)
    }

    fn sites_on(
        listener: TcpListener,
        settings: &Settings,
        sites: impl Into<VirtualHosts>,
    ) -> EmbeddedServer {
        let bound = listener.try_into().expect("a listener for all workers");
        EmbeddedServer::start(vec![bound], settings, sites)
    }

    /// Serves sites on these listeners.
    pub(crate) fn start(
        listeners: Vec<Listener>,
        settings: &Settings,
        sites: impl Into<VirtualHosts>,
    ) -> EmbeddedServer {
        let server = Server::start(settings, listeners, sites).expect("a server");
        let tcp = |address: &Address| match address {
            Address::Tcp(address) => *address,
            other => panic!("a TCP address: {other}"),
        };
        let addresses: Vec<SocketAddr> = server.addresses().iter().map(tcp).collect();
        EmbeddedServer { address: addresses[0], addresses, handle: server.handle(), server: Some(server) }
    }

    /// Waits for a server that was stopped through its handle.
    pub(crate) fn join_within(mut self, time: Duration) {
        let server = self.server.take().expect("a running server");
        let (send, ended) = channel();
        thread::spawn(move || send.send(server.join()));
        ended.recv_timeout(time).expect("the server stops in time").expect("no worker fails");
    }

    /// Stops the server. Returns an error if a worker failed.
    pub(crate) fn stop(mut self) -> std::io::Result<()> {
        self.handle.stop(Duration::ZERO);
        self.server.take().expect("a running server").join()
    }
}

impl Drop for EmbeddedServer {
    fn drop(&mut self) {
        self.handle.stop(Duration::ZERO);
        if let Some(server) = self.server.take() {
            let joined = server.join();
            assert!(std::thread::panicking() || joined.is_ok(), "{joined:?}");
        }
    }
}
