//! Isolation: a private network namespace, and batch scheduling.
//!
//! ```text
//! tarpon-lab ─▶ unshare --net --mount ─▶ chrt --batch ─▶ tarpon-lab ─▶ loopback up, reno, long accept queues, tracefs
//! ```
//!
//! *Network namespace*: no firewall rule, queue or congestion control of the machine affects a measurement.
//!
//! *Batch scheduling* of server and client: under the default policy, a client that wakes up preempts a server that has used more
//! of the core. The context switches make a slow server look slower than it is: 2 µs of work in a null server cost 3 µs. As a batch
//! task, the client waits for its turn, and the cost is 2 µs. A batch task never interrupts another, so storms of handshakes keep the usual
//! policy: there the server is alone on its core, and its workers interrupt handshakes.

use std::env;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::process::geteuid;

use crate::error::LabError;
use crate::measure::machine::CONGESTION_CONTROL;
use crate::measure::syscalls::mount_tracefs;

/// The scheduling policy of server and client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SchedulingPolicy {
    Batch,
    Usual,
}

/// Restarts this program in isolation. Returns only in the restarted program.
pub(crate) fn enter(policy: SchedulingPolicy) -> Result<(), LabError> {
    if env::var_os(INSIDE).is_some() {
        return set_up();
    }
    if !geteuid().is_root() {
        return Err(format!("a private network namespace needs root. {HINT}").into());
    }
    let probe = unshare().args(["chrt", "--batch", "0", "true"]).stderr(Stdio::null()).status();
    match probe {
        Ok(status) if status.success() => {}
        Ok(_) => {
            let what = "`unshare --net --mount chrt --batch 0 true` fails: a container needs CAP_SYS_ADMIN";
            return Err(format!("{what}. {HINT}").into());
        }
        Err(error) => {
            return Err(format!("unshare: {error}; install util-linux. {HINT}").into());
        }
    }
    let mut command = unshare();
    if policy == SchedulingPolicy::Batch {
        command.args(["chrt", "--batch", "0"]);
    }
    command.arg(env::current_exe()?).args(env::args_os().skip(1));
    let error = command.env(INSIDE, "1").exec();
    Err(format!("unshare: {error}").into())
}

fn unshare() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "--"]);
    command
}

fn set_up() -> Result<(), LabError> {
    let up = Command::new("ip").args(["link", "set", "lo", "up"]).status();
    if !up.map_err(|error| format!("ip: {error}; install iproute2"))?.success() {
        return Err("`ip link set lo up` fails: no loopback device in the network namespace".into());
    }
    // Other congestion controls than reno may pace, and a measurement on loopback would then measure the pacing.
    for (path, value) in [(CONGESTION_CONTROL, "reno"), (ACCEPT_QUEUE, "65535"), (SYN_QUEUE, "65535")] {
        fs::write(path, value).map_err(|error| format!("cannot write {value} to {path}: {error}"))?;
    }
    if let Err(error) = mount_tracefs() {
        eprintln!("tarpon-lab: cannot mount tracefs ({error}); system calls will not be counted");
    }
    Ok(())
}

/// The environment variable of the restarted program.
const INSIDE: &str = "TARPON_LAB_INSIDE";

const HINT: &str =
    "Run tarpon-lab with sudo, or pass `--no-isolation` for a trial run with inaccurate numbers";

const ACCEPT_QUEUE: &str = "/proc/sys/net/core/somaxconn";
const SYN_QUEUE: &str = "/proc/sys/net/ipv4/tcp_max_syn_backlog";
