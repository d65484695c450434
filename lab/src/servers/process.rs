//! A running server.

use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::error::LabError;
use crate::measure::cpu::{self, ServerThreads};
use crate::records::server::PeerServer;

/// A running server. Dropping the value stops it.
pub(crate) struct ServerProcess {
    server: PeerServer,
    child: Child,
    address: SocketAddr,
    spawn_time: Instant,
}

impl ServerProcess {
    /// Starts the command of a server, which listens on `address`.
    pub(crate) fn spawn(
        server: PeerServer,
        command: &mut Command,
        address: SocketAddr,
    ) -> Result<ServerProcess, LabError> {
        let spawn_time = Instant::now();
        Ok(ServerProcess { server, child: command.spawn()?, address, spawn_time })
    }

    /// Returns the address of the listener.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the time just before the process was created.
    pub(crate) fn spawn_time(&self) -> Instant {
        self.spawn_time
    }

    /// Returns the process and its descendants.
    pub(crate) fn processes(&self) -> Result<Vec<u32>, LabError> {
        Ok(cpu::process_tree(self.child.id())?)
    }

    /// Returns the threads of all processes, without the log thread of tarpon: it runs on other cores.
    pub(crate) fn threads(&self) -> Result<ServerThreads, LabError> {
        let threads = ServerThreads::of(self.child.id())?;
        Ok(if self.has_log_thread() { threads.without(LOG_THREAD) } else { threads })
    }

    /// Allows the log thread of tarpon to run on any core except that of the worker, as it may on a server that is not pinned.
    /// nginx writes its log in its worker.
    pub(crate) fn unpin_log_thread(&self) -> Result<(), LabError> {
        if self.has_log_thread() {
            ServerThreads::of(self.child.id())?.named(LOG_THREAD).move_to_other_cores()?;
        }
        Ok(())
    }

    fn has_log_thread(&self) -> bool {
        self.server.is_logging() && self.server.is_tarpon()
    }

    /// Connects as soon as the server listens.
    pub(crate) fn connect(&mut self) -> Result<TcpStream, LabError> {
        let start = Instant::now();
        loop {
            if let Ok(stream) = TcpStream::connect(self.address) {
                return Ok(stream);
            }
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("the server exited before it listened: {status}").into());
            }
            if start.elapsed() > START_TIME_MAX {
                let seconds = START_TIME_MAX.as_secs();
                return Err(format!("the server did not listen within {seconds} s of its start").into());
            }
            sleep(CONNECT_INTERVAL);
        }
    }

    /// Waits up to `time` for the process to exit.
    fn exits_within(&mut self, time: Duration) -> bool {
        let start = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(None) if start.elapsed() < time => sleep(POLL_INTERVAL),
                Ok(None) => return false,
                _ => return true,
            }
        }
    }
}

impl Drop for ServerProcess {
    /// Sends SIGTERM, then SIGKILL if the server does not exit in time, and waits until the port is free: an io_uring listener may
    /// accept connections after the exit, which would disturb the next window.
    fn drop(&mut self) {
        let threads = ServerThreads::of(self.child.id());
        if let Some(process) =
            Pid::from_raw(self.child.id() as i32).filter(|_| !self.exits_within(Duration::ZERO))
        {
            let _ = kill_process(process, Signal::TERM);
        }
        if !self.exits_within(EXIT_TIME_MAX) {
            for thread in threads.iter().flat_map(ServerThreads::ids) {
                let _ = Pid::from_raw(*thread).map(|thread| kill_process(thread, Signal::KILL));
            }
            let _ = self.child.wait();
        }
        let start = Instant::now();
        while TcpStream::connect(self.address).is_ok() && start.elapsed() < EXIT_TIME_MAX {
            sleep(POLL_INTERVAL);
        }
    }
}

/// The name of the thread that writes tarpon's access log.
const LOG_THREAD: &str = "log";

/// Longest wait for a server to listen after its start.
const START_TIME_MAX: Duration = Duration::from_secs(10);

/// Longest wait for a server to exit after SIGTERM.
const EXIT_TIME_MAX: Duration = Duration::from_secs(2);

/// Interval of connection attempts to a starting server. The measured start times are milliseconds.
const CONNECT_INTERVAL: Duration = Duration::from_micros(100);

const POLL_INTERVAL: Duration = Duration::from_millis(5);
