//! Isolation: a private network namespace, and batch scheduling.
//!
//! ```text
//! tarpon-lab ─▶ unshare --net --mount ─▶ chrt --batch ─▶ tarpon-lab ─▶ loopback up, congestion control, long accept queues, tracefs
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

/// Restarts this program in isolation, where new connections use this congestion control. Returns only in the restarted program.
pub(crate) fn enter(policy: SchedulingPolicy, congestion_control: &str) -> Result<(), LabError> {
    if env::var_os(INSIDE).is_some() {
        return set_up(congestion_control);
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

fn set_up(congestion_control: &str) -> Result<(), LabError> {
    let up = Command::new("ip").args(["link", "set", "lo", "up"]).status();
    if !up.map_err(|error| format!("ip: {error}; install iproute2"))?.success() {
        return Err("`ip link set lo up` fails: no loopback device in the network namespace".into());
    }
    fs::write(CONGESTION_CONTROL, congestion_control).map_err(|error| {
        // A network namespace may use only what the machine allows to all.
        format!(
            "cannot use the congestion control {congestion_control}: {error}; `modprobe tcp_{congestion_control}` loads it, and \
             `sysctl net.ipv4.tcp_allowed_congestion_control=\"reno {congestion_control}\"` allows it"
        )
    })?;
    for path in [ACCEPT_QUEUE, SYN_QUEUE] {
        fs::write(path, QUEUE_MAX).map_err(|error| format!("cannot write {QUEUE_MAX} to {path}: {error}"))?;
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
/// The length of both queues.
const QUEUE_MAX: &str = "65535";
