//! A server within the test's own process.

use super::{
    EMBEDDED,
    program::{Program, exactly},
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
use tarpon::{Address, Engine, Handle, Server, Settings, Site, VirtualHosts};

/// A server that ends when the test does.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    pub(crate) handle: Handle,
    server: Option<Server>,
}

/// Settings with this engine and so many [`workers`].
pub(crate) fn settings(engine: Engine, worker_count: usize) -> Settings {
    let worker_count = NonZeroUsize::new(workers(engine, worker_count));
    Settings { engine, worker_count, ..Settings::default() }
}

/// A directory that is served with an engine: within this process, or by the program where the engine is of processes.
pub(crate) struct Somewhere {
    pub(crate) address: SocketAddr,
    _server: Box<dyn Any>,
}

impl Somewhere {
    /// With so many workers, or more: as with [`settings`].
    pub(crate) fn dir(engine: Engine, worker_count: usize, dir: &Path) -> Somewhere {
        Somewhere::exactly(engine, workers(engine, worker_count), dir)
    }

    /// With so many workers.
    pub(crate) fn exactly(engine: Engine, worker_count: usize, dir: &Path) -> Somewhere {
        if EMBEDDED.contains(&engine) {
            let worker_count = NonZeroUsize::new(worker_count);
            return Served::dir(&Settings { engine, worker_count, ..Settings::default() }, dir).into();
        }
        let workers = worker_count.to_string();
        Program::started(exactly(dir, &["--engine", engine.name(), "--workers", &workers])).into()
    }
}

impl Somewhere {
    /// Keeps directories until the server ends: a program notices that one is gone.
    pub(crate) fn with(self, dirs: impl Any) -> Somewhere {
        Somewhere { address: self.address, _server: Box::new((self._server, dirs)) }
    }
}

impl From<Served> for Somewhere {
    fn from(served: Served) -> Somewhere {
        Somewhere { address: served.address, _server: Box::new(served) }
    }
}

impl From<Program> for Somewhere {
    fn from(program: Program) -> Somewhere {
        Somewhere { address: program.address(), _server: Box::new(program) }
    }
}

impl Served {
    /// Serves a directory on a free port.
    pub(crate) fn dir(settings: &Settings, dir: &Path) -> Served {
        Served::dir_on(TcpListener::bind("127.0.0.1:0").expect("a free port"), settings, dir)
    }

    /// Serves a directory on a listener.
    pub(crate) fn dir_on(listener: TcpListener, settings: &Settings, dir: &Path) -> Served {
        Served::sites_on(listener, settings, Site::from_dir(dir).expect("a site"))
    }

    /// Serves sites on a free port.
    pub(crate) fn sites(settings: &Settings, sites: impl Into<VirtualHosts>) -> Served {
        Served::sites_on(TcpListener::bind("127.0.0.1:0").expect("a free port"), settings, sites)
    }

    fn sites_on(listener: TcpListener, settings: &Settings, sites: impl Into<VirtualHosts>) -> Served {
        let bound = listener.try_into().expect("a listener for all workers");
        let server = Server::start(settings, vec![bound], sites).expect("a server");
        let [Address::Tcp(address)] = server.addresses() else { panic!("one TCP address") };
        Served { address: *address, handle: server.handle(), server: Some(server) }
    }

    /// Waits for it to end, as it has been told to.
    pub(crate) fn join_within(mut self, time: Duration) {
        let server = self.server.take().expect("it ends once");
        let (send, ended) = channel();
        thread::spawn(move || send.send(server.join()));
        ended.recv_timeout(time).expect("it ends in time").expect("no worker fails");
    }

    /// Stops it. What it ended with is `Ok` unless a worker failed.
    pub(crate) fn end(mut self) -> std::io::Result<()> {
        self.handle.stop(Duration::ZERO);
        self.server.take().expect("it ends once").join()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.handle.stop(Duration::ZERO);
        if let Some(server) = self.server.take() {
            let joined = server.join();
            assert!(std::thread::panicking() || joined.is_ok(), "{joined:?}");
        }
    }
}
