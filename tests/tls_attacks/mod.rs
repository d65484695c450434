//! Clients that attack TLS over real sockets, on every engine. After each attack the same worker serves another client, and in the end no
//! connection and no descriptor is left, and the metrics have counted the failures.
//!
//! | file | what |
//! |---|---|
//! | `first_flights` | what a client sends before the server has answered |
//! | `records` | records after the handshake |
//! | `certificates` | certificates of clients |
//! | `endings` | clients that stop, close or reset at each step, and deadlines |

mod certificates;
mod endings;
mod first_flights;
mod records;

use crate::common::{
    TEST_TIMEOUT,
    client::{TestClient, connected},
    is_disconnect,
    kernel::connection_count,
    load::pause,
    port::ReservedPort,
    program::{RunningProgram, serve_config},
    site,
    tls_files::{TlsCounts, TlsFiles},
    tls_stream::TlsStream,
    wait_for,
};
use rustix::process::{Pid, Signal};
use rustls::{
    ClientConfig, SupportedProtocolVersion,
    version::{TLS12, TLS13},
};
use std::{
    fs,
    io::Write,
    net::{SocketAddr, TcpStream},
    sync::Arc,
    time::Instant,
};
use tarpon::Engine;
use tempfile::TempDir;

/// A server with one worker, which is attacked.
struct AttackedServer {
    engine: Engine,
    files: TlsFiles,
    /// How clients of each of the [`VERSIONS`] shake hands.
    clients: [Arc<ClientConfig>; 2],
    address: SocketAddr,
    /// A listener that requires certificates of clients.
    closed: ReservedPort,
    program: RunningProgram,
    _site: TempDir,
}

/// The versions of TLS, with their names in messages.
const VERSIONS: [(&str, &SupportedProtocolVersion); 2] = [("TLS 1.3", &TLS13), ("TLS 1.2", &TLS12)];

/// The length of a file that does not fit in the buffers of a socket.
const LARGE_LEN: usize = 16 << 20;

impl AttackedServer {
    fn start(engine: Engine, options: &[&str]) -> AttackedServer {
        let files = TlsFiles::new();
        files.issue("a", &["localhost"]);
        let dir = site(&[("index.html", b"home".to_vec()), ("large", vec![b'l'; LARGE_LEN])]);
        let closed = ReservedPort::new();
        let config = format!(
            "[[site]]\npath = {site:?}\n[[site]]\npath = {site:?}\nlisten = [\"tls:{closed}\"]\n\
             [[listener]]\naddress = \"tls:127.0.0.1:0\"\n\
             [[listener]]\naddress = \"tls:{closed}\"\ntls-client-ca = \"ca.pem\"\n\
             [server]\ntls-cert = [\"a.pem\"]\ntls-key = [\"a.key\"]\n",
            site = dir.path(),
            closed = closed.address,
        );
        let workers = crate::common::workers(engine, 1).to_string();
        let usual = ["--engine", engine.name(), "--workers", &workers, "--admin", "unix:admin.sock"];
        let mut command = serve_config(&config, files.path(), &[&usual[..], options].concat());
        command.current_dir(files.path());
        let program = RunningProgram::start_ready(command);
        let clients = VERSIONS.map(|(_, version)| files.client(version));
        let open = program.addresses().into_iter().find(|address| *address != closed.address);
        let address = open.expect("a listener for all clients");
        AttackedServer { engine, files, clients, address, closed, program, _site: dir }
    }

    fn connect(&self) -> TcpStream {
        connected(self.address)
    }

    /// Connects, and sends nothing yet.
    fn begin(&self, version: usize) -> TlsStream<TcpStream> {
        TlsStream::begin(self.connect(), &self.clients[version])
    }

    /// Gets the home page as another client.
    fn serves_others(&self, after: &str) {
        let client = TlsStream::new(self.connect(), &self.clients[0]);
        let mut client = TestClient::new(client.unwrap_or_else(|error| panic!("after {after}: {error}")));
        assert_eq!(client.get("/").content, b"home", "{}, after {after}", self.engine);
    }

    /// Waits until the metrics have counted this since `before`.
    fn wait_for_counts(&self, what: &str, before: TlsCounts, [handshakes, failures]: [u64; 2]) {
        let want =
            TlsCounts { handshakes: before.handshakes + handshakes, failures: before.failures + failures };
        wait_for(&format!("{want:?} after {what}, {}", self.engine), || {
            (self.files.counts() == want).then_some(())
        });
    }

    /// Returns the files of the descriptors of the server. `None`: its processes or threads come and go, and their descriptors with them.
    fn descriptors(&self) -> Option<Vec<String>> {
        (!self.engine.is_blocking()).then(|| self.program.processes().into_iter().flat_map(targets).collect())
    }

    /// Waits until nothing of the attacks is left, and stops the server.
    fn end(self, before: Option<Vec<String>>) {
        for address in [self.address, self.closed.address] {
            let what = format!("the end of all connections, {}", self.engine);
            wait_for(&what, || (connection_count(address.port()) == 0).then_some(()));
        }
        // At the start, a descriptor of the load or of the first client may still be open.
        if let Some(before) = before {
            let since = Instant::now();
            while let Some(left) = self.descriptors().filter(|left| left.len() > before.len()) {
                assert!(since.elapsed() < TEST_TIMEOUT, "{}: from {before:#?}\nto {left:#?}", self.engine);
                pause();
            }
        }
        assert_eq!(self.program.err(), "", "{}", self.engine);
        self.program.signal(Signal::TERM);
        let exit = self.program.wait();
        assert!(exit.status.success() && exit.err.is_empty(), "{}: {exit:?}", self.engine);
    }
}

/// Returns the files of the descriptors of a process, as `/proc` names them.
fn targets(pid: Pid) -> Vec<String> {
    let links = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())).into_iter().flatten().flatten();
    links.filter_map(|link| Some(format!("{pid:?} {}", fs::read_link(link.path()).ok()?.display()))).collect()
}

/// Sends bytes to a server that may close before it has read all.
fn send(socket: &mut TcpStream, bytes: &[u8]) {
    if let Err(error) = socket.write_all(bytes) {
        assert!(is_disconnect(&error), "{error}");
    }
}
