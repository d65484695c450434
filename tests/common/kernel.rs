//! What the kernel reports about TCP connections and threads: the events that a test waits for instead of a time.

use super::{client::TestClient, wait_for};
use rustix::process::Pid;
use std::{
    fs,
    net::{SocketAddr, TcpStream},
    path::PathBuf,
};

/// The two addresses of a client's TCP connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TcpPair {
    pub(crate) client: SocketAddr,
    pub(crate) server: SocketAddr,
}

/// A row of the kernel's table of TCP sockets. proc(5), /proc/net/tcp.
struct TcpRow {
    local_port: u16,
    remote_port: u16,
    /// Bytes that the peer has not acknowledged.
    unacked: u64,
    /// Bytes that the process has not read.
    unread: u64,
    /// A process has the socket open.
    has_owner: bool,
    state: TcpState,
}

#[derive(PartialEq, Eq)]
enum TcpState {
    /// Neither side has sent FIN, or only the peer. Without an owner, the connection is in an accept queue.
    Open,
    Listening,
    Other,
}

/// How long each thread ran, and how often. proc(5), /proc/pid/schedstat.
type RunCounts = Vec<(PathBuf, String)>;

impl TcpPair {
    /// Returns `None` if the connection has ended.
    pub(crate) fn of(client: &TcpStream) -> Option<TcpPair> {
        Some(TcpPair { client: client.local_addr().ok()?, server: client.peer_addr().ok()? })
    }

    /// Returns whether the server's kernel has acknowledged all that the client has sent.
    fn has_arrived(self, rows: &[TcpRow]) -> bool {
        rows.iter().all(|row| !row.is(self.client, self.server) || row.unacked == 0)
    }

    /// Returns whether the server has accepted the connection and read all that has arrived.
    fn is_read(self, rows: &[TcpRow]) -> bool {
        rows.iter().all(|row| {
            !row.is(self.server, self.client)
                || row.unread == 0 && (row.has_owner || row.state != TcpState::Open)
        })
    }
}

/// Waits until the server's kernel has all that this client has sent.
#[track_caller]
pub(crate) fn wait_until_arrived(client: &TestClient) {
    let pair = client.tcp_pair();
    wait_for("the client's bytes arrive", || pair.has_arrived(&tcp_rows()).then_some(()));
}

/// Waits until the server has accepted these connections and read all that their clients have sent.
#[track_caller]
pub(crate) fn wait_until_read<'a>(clients: impl IntoIterator<Item = &'a TestClient>) {
    let pairs: Vec<TcpPair> = clients.into_iter().map(TestClient::tcp_pair).collect();
    // In this order: bytes on their way are in neither queue of a server's row.
    wait_for("the clients' bytes arrive", || {
        let rows = tcp_rows();
        pairs.iter().all(|pair| pair.has_arrived(&rows)).then_some(())
    });
    wait_for("the server reads the clients' bytes", || {
        let rows = tcp_rows();
        pairs.iter().all(|pair| pair.is_read(&rows)).then_some(())
    });
}

/// Counts the connections on a server's port that a process has open.
pub(crate) fn connection_count(port: u16) -> usize {
    let is_open = |row: &&TcpRow| row.local_port == port && row.state != TcpState::Listening && row.has_owner;
    tcp_rows().iter().filter(is_open).count()
}

/// Counts the connections to a port that a process has open as their client.
pub(crate) fn client_count(port: u16) -> usize {
    let is_open = |row: &&TcpRow| row.remote_port == port && row.has_owner;
    tcp_rows().iter().filter(is_open).count()
}

fn tcp_rows() -> Vec<TcpRow> {
    let table = fs::read_to_string("/proc/net/tcp").expect("the table of the kernel");
    let port = |address: &str| u16::from_str_radix(&address[address.len() - 4..], 16).expect("a port");
    let len = |queue: &str| u64::from_str_radix(queue, 16).expect("a length");
    let rows = table.lines().skip(1).map(|row| row.split_whitespace().collect::<Vec<_>>());
    rows.map(|row| {
        let (unacked, unread) = row[4].split_once(':').expect("two queues");
        TcpRow {
            local_port: port(row[1]),
            remote_port: port(row[2]),
            unacked: len(unacked),
            unread: len(unread),
            has_owner: row[9] != "0",
            // The numbers of tcp_states.h: TCP_ESTABLISHED, TCP_CLOSE_WAIT, TCP_LISTEN.
            state: match row[3] {
                "01" | "08" => TcpState::Open,
                "0A" => TcpState::Listening,
                _ => TcpState::Other,
            },
        }
    })
    .collect()
}

impl TcpRow {
    fn is(&self, local: SocketAddr, remote: SocketAddr) -> bool {
        (self.local_port, self.remote_port) == (local.port(), remote.port())
    }
}

/// Waits until all threads of these processes sleep, but not the calling thread: none of them runs between two looks. A thread that
/// spins runs all the time.
#[track_caller]
pub(crate) fn wait_until_asleep(what: &str, processes: impl Fn() -> Vec<Pid>) {
    let mut last = None;
    wait_for(what, || {
        let now = run_counts(&processes());
        let is_asleep = now.is_some() && now == last;
        last = now;
        is_asleep.then_some(())
    });
}

/// Counts how often the threads of these processes have gone to sleep.
pub(crate) fn sleep_count(processes: &[Pid]) -> u64 {
    let tasks = processes.iter().map(|pid| fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())));
    let threads = tasks.flat_map(|tasks| tasks.expect("a process"));
    threads
        .map(|thread| thread.expect("a thread").path())
        .map(|thread| {
            let status = fs::read_to_string(thread.join("status")).expect("the status of a thread");
            let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            count.expect("the count").trim().parse::<u64>().expect("a number")
        })
        .sum()
}

/// Returns how each thread of these processes ran until now, without the calling thread, or `None` if a thread is runnable.
fn run_counts(processes: &[Pid]) -> Option<RunCounts> {
    let own = format!("/{}", rustix::thread::gettid().as_raw_nonzero());
    let tasks = processes.iter().map(|pid| fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())));
    let threads = tasks.flatten().flatten().map(|thread| thread.expect("a thread").path());
    threads
        .filter(|thread| !thread.to_string_lossy().ends_with(&own))
        .map(|thread| {
            let read = |name| fs::read_to_string(thread.join(name)).ok();
            let (stat, counts) = (read("stat")?, read("schedstat")?);
            let (_, state) = stat.rsplit_once(") ")?;
            state.starts_with('S').then_some((thread, counts))
        })
        .collect()
}

/// Returns the length of the memory that a process alone has. proc(5), /proc/pid/status.
pub(crate) fn private_len(pid: Pid) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).expect("a process");
    let kib = status.lines().find_map(|line| line.strip_prefix("RssAnon:")?.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.parse::<usize>().ok()).expect("a number") << 10
}
