//! A network of our own, so that no rule, queue or congestion control of the machine's has a part in a race.
//!
//! ```text
//! race ─▶ unshare --net --mount race ─▶ loopback up, reno, long accept queues, tracefs ─▶ the race
//! ```

use std::env;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::process::geteuid;

use crate::Trouble;
use crate::count::mount_tracefs;

/// Runs this program again inside namespaces of its own; returns only there, with all set up.
pub(crate) fn enter() -> Result<(), Trouble> {
    if env::var_os(INSIDE).is_some() {
        return set_up();
    }
    if !geteuid().is_root() {
        return Err(format!("a race needs a private network namespace, and that needs root. {REMEDY}").into());
    }
    let probe = unshare().arg("true").stderr(Stdio::null()).status();
    match probe {
        Ok(status) if status.success() => {}
        Ok(_) => {
            let what = "unshare is refused here: a container needs the capability SYS_ADMIN";
            return Err(format!("{what}. {REMEDY}").into());
        }
        Err(error) => {
            return Err(format!("unshare: {error}; it is in the package util-linux. {REMEDY}").into());
        }
    }
    let error = unshare().arg(env::current_exe()?).args(env::args_os().skip(1)).env(INSIDE, "1").exec();
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

const REMEDY: &str = "Run it with sudo, or try it out with --here, which measures less well and says so";

const CONGESTION_CONTROL: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
const ACCEPT_QUEUE: &str = "/proc/sys/net/core/somaxconn";
const SYN_QUEUE: &str = "/proc/sys/net/ipv4/tcp_max_syn_backlog";
