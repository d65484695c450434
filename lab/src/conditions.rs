//! The conditions of a race: made once, the same for all.
//!
//! ```text
//! race ─▶ unshare --net --mount ─▶ chrt --batch ─▶ race ─▶ loopback up, reno, long accept queues, tracefs
//! ```
//!
//! *A private network*, so that no rule, queue or congestion control of the machine's has a part in it.
//!
//! *Batch scheduling* of server and client. Otherwise a client that is woken interrupts a server that has had
//! more of the core than itself, and the switches make a slow server look slower: of two microseconds burnt
//! in a null server three were seen. A batch task waits for its turn; two were seen.

use std::env;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::process::geteuid;

use crate::Trouble;
use crate::count::mount_tracefs;

/// Runs this program again under the conditions of a race; returns only there.
pub(crate) fn enter() -> Result<(), Trouble> {
    if env::var_os(INSIDE).is_some() {
        return set_up();
    }
    if !geteuid().is_root() {
        return Err(format!("a race needs a private network namespace, and that needs root. {REMEDY}").into());
    }
    let probe = unshare().args(["chrt", "--batch", "0", "true"]).stderr(Stdio::null()).status();
    match probe {
        Ok(status) if status.success() => {}
        Ok(_) => {
            let what = "`unshare --net --mount chrt --batch 0 true` fails here: a container needs SYS_ADMIN";
            return Err(format!("{what}. {REMEDY}").into());
        }
        Err(error) => {
            return Err(format!("unshare: {error}; it is in the package util-linux. {REMEDY}").into());
        }
    }
    let mut command = unshare();
    command.args(["chrt", "--batch", "0"]).arg(env::current_exe()?).args(env::args_os().skip(1));
    let error = command.env(INSIDE, "1").exec();
    Err(format!("unshare: {error}").into())
}

/// The congestion control in force here.
pub(crate) fn congestion_control() -> Option<String> {
    fs::read_to_string(CONGESTION_CONTROL).ok().map(|name| name.trim().to_owned())
}

fn unshare() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "--"]);
    command
}

fn set_up() -> Result<(), Trouble> {
    let up = Command::new("ip").args(["link", "set", "lo", "up"]).status();
    if !up.map_err(|error| format!("ip: {error}; it is in the package iproute2"))?.success() {
        return Err("the loopback device cannot be brought up".into());
    }
    // Reno: what a kernel prefers otherwise may pace, which on loopback measures the pacing.
    for (path, value) in [(CONGESTION_CONTROL, "reno"), (ACCEPT_QUEUE, "65535"), (SYN_QUEUE, "65535")] {
        fs::write(path, value).map_err(|error| format!("{path} cannot be set to {value}: {error}"))?;
    }
    if let Err(error) = mount_tracefs() {
        eprintln!("tarpon-lab: no tracefs ({error}); system calls will not be counted");
    }
    Ok(())
}

/// Set for the run inside.
const INSIDE: &str = "TARPON_LAB_INSIDE";

const REMEDY: &str = "Run it with sudo, or try it out with --here, which measures badly and says so";

const CONGESTION_CONTROL: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
const ACCEPT_QUEUE: &str = "/proc/sys/net/core/somaxconn";
const SYN_QUEUE: &str = "/proc/sys/net/ipv4/tcp_max_syn_backlog";
