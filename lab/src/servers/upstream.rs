//! The running server behind proxies, a process of its own.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::port::unused_address;
use crate::client::request::RequestForm;
use crate::client::{connect, read_response};
use crate::error::LabError;
use crate::measure::cpu::ServerThreads;
use crate::upstream_server::COUNTS;

/// The server behind all proxies of an experiment. Dropping the value stops it.
pub(crate) struct LabUpstream {
    child: Child,
    address: SocketAddr,
}

/// What waits at the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LabUpstreamCounts {
    /// Requests that get no response.
    pub(crate) stalled: usize,
    pub(crate) tunnels: usize,
}

impl LabUpstream {
    /// Starts the server on the core of this thread, with responses of these lengths.
    pub(crate) fn start(sizes: &[usize]) -> Result<LabUpstream, LabError> {
        let address = unused_address()?;
        let sizes = sizes.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("upstream-server").arg(format!("--listen={address}")).arg(format!("--sizes={sizes}"));
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
        let mut upstream = LabUpstream { child, address };
        let start = Instant::now();
        while TcpStream::connect(address).is_err() {
            if let Some(status) = upstream.child.try_wait()? {
                return Err(format!("the upstream server exited before it listened: {status}").into());
            }
            if start.elapsed() > WAIT_MAX {
                return Err("the upstream server does not listen".into());
            }
            sleep(POLL_INTERVAL);
        }
        Ok(upstream)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the CPU time of the server since its start.
    pub(crate) fn cpu_time(&self) -> Result<Duration, LabError> {
        Ok(ServerThreads::of(self.child.id())?.time()?)
    }

    /// Asks the server what waits there.
    pub(crate) fn counts(&self) -> Result<LabUpstreamCounts, LabError> {
        let mut stream = connect(self.address, WAIT_MAX)?;
        stream.write_all(&RequestForm::Short.request("upstream", &format!("/{COUNTS}")))?;
        let mut wire = Vec::new();
        let size = read_response(&mut stream, &mut wire)?;
        let content = String::from_utf8(size.content(&wire)?)?;
        let counts = content.split_once(' ').ok_or("the upstream server sent no counts")?;
        Ok(LabUpstreamCounts { stalled: counts.0.parse()?, tunnels: counts.1.parse()? })
    }

    /// Waits until a count has this value. `what` names it in the plural.
    pub(crate) fn wait_for(
        &self,
        what: &str,
        count: impl Fn(LabUpstreamCounts) -> usize,
        wanted: usize,
    ) -> Result<(), LabError> {
        let start = Instant::now();
        loop {
            let arrived = count(self.counts()?);
            if arrived == wanted {
                return Ok(());
            }
            if start.elapsed() > WAIT_MAX {
                let seconds = WAIT_MAX.as_secs();
                return Err(format!(
                    "{arrived} instead of {wanted} {what} at the upstream after {seconds} s"
                )
                .into());
            }
            sleep(POLL_INTERVAL);
        }
    }
}

impl Drop for LabUpstream {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Longest wait for the server: it has nothing to do but to answer.
const WAIT_MAX: Duration = Duration::from_secs(20);

const POLL_INTERVAL: Duration = Duration::from_millis(5);
