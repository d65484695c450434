//! The process that runs the DNS hook: it keeps the rights that the program was started with, and speaks to no stranger.
//!
//! ```text
//! tarpon-net ── add, _acme-challenge.example.org, VALUE ─▶ hook process ── runs ─▶ PROGRAM add NAME VALUE
//!            ◀─────────────── done, or why not ──────────
//! ```
//!
//! It runs the configured program only, with records of the configured names and values that a directory may ask for. So a helper that an
//! attacker controls gains nothing but records that prove nothing.

use super::super::message::is_base64url;
use crate::{
    control::process::{channel::Channel, fork::fork},
    sys::{process::SingleThreaded, socket},
};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use std::{
    io,
    os::{fd::AsFd, unix::process::CommandExt},
    path::Path,
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};
use tarpon_site::Printable;

/// The hook process.
#[derive(Debug)]
pub(crate) struct HookProcess {
    channel: Channel,
}

/// What the hook is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum HookAction {
    Add,
    Remove,
}

#[derive(Debug, Serialize, Deserialize)]
struct HookRequest {
    action: HookAction,
    name: String,
    value: String,
}

/// How long the program may run: it may wait until all name servers have the record.
const HOOK_TIME_MAX: Duration = Duration::from_secs(5 * 60);
/// The length of a value: SHA-256 in base64url, RFC 8555, section 8.4.
const VALUE_LEN: usize = 43;

impl HookProcess {
    /// Starts the process.
    pub(super) fn start(
        single_threaded: &SingleThreaded,
        program: &Path,
        names: &[Vec<String>],
    ) -> io::Result<HookProcess> {
        let (ours, theirs) = socket::pair()?;
        let ends = (Channel::new(ours), Channel::new(theirs));
        let (_, channel) = fork(single_threaded, c"tarpon-hook", ends, Vec::new(), |channel| {
            serve(program, names, channel);
            0
        })?;
        Ok(HookProcess { channel })
    }

    /// Runs the program, and waits for it.
    ///
    /// # Errors
    /// The program failed, in words.
    pub(crate) fn run(&mut self, action: HookAction, name: &str, value: &str) -> Result<(), String> {
        let request = HookRequest { action, name: name.to_owned(), value: value.to_owned() };
        let gone = |_| "the process that runs it has exited".to_owned();
        self.channel.sender.send(&request).map_err(gone)?;
        let answer = self.channel.receiver.receive::<Result<(), String>>().map_err(gone)?;
        answer.map_or_else(|| Err("the process that runs it has exited".to_owned()), |(answer, _)| answer)
    }
}

/// Runs the program on request, until the other end is closed.
fn serve(program: &Path, names: &[Vec<String>], mut channel: Channel) {
    while let Ok(Some((request, _))) = channel.receiver.receive::<HookRequest>() {
        let answer = match request.is_allowed(names) {
            true => run(program, &request),
            false => Err("the record belongs to no configured name".to_owned()),
        };
        if channel.sender.send(&answer).is_err() {
            return;
        }
    }
}

impl HookRequest {
    /// Returns whether a directory may ask for this record.
    fn is_allowed(&self, names: &[Vec<String>]) -> bool {
        let base = self.name.strip_prefix("_acme-challenge.");
        let is_ours =
            |base: &str| names.iter().flatten().any(|name| name.strip_prefix("*.").unwrap_or(name) == base);
        base.is_some_and(is_ours) && self.value.len() == VALUE_LEN && is_base64url(&self.value)
    }
}

fn run(program: &Path, request: &HookRequest) -> Result<(), String> {
    let action = match request.action {
        HookAction::Add => "add",
        HookAction::Remove => "remove",
    };
    let spawned = Command::new(program)
        .args([action, &request.name, &request.value])
        .stdin(Stdio::null())
        // What it says goes to the log of the service, and mixes with no output.
        .stdout(io::stderr().as_fd().try_clone_to_owned().map_or_else(|_| Stdio::null(), Stdio::from))
        // A group of its own: the time limit ends all that it has started.
        .process_group(0)
        .spawn();
    let mut child = spawned.map_err(|error| format!("cannot run {}: {error}", program.printable()))?;
    let group = Pid::from_child(&child);
    let (done, ended) = mpsc::channel();
    let waiting = thread::spawn(move || drop(done.send(child.wait())));
    let status = match ended.recv_timeout(HOOK_TIME_MAX) {
        Ok(status) => status.map_err(|error| error.to_string()),
        Err(_) => Err(format!("{} took longer than {HOOK_TIME_MAX:?}", program.printable())),
    };
    // What it has left in the background ends too.
    let _ = kill_process_group(group, Signal::KILL);
    let _ = waiting.join();
    match status? {
        status if status.success() => Ok(()),
        status => Err(format!("{} {action} {}: {status}", program.printable(), request.name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_records_of_configured_names_are_allowed() {
        let names = vec![vec!["a.example".to_owned(), "*.b.example".to_owned()]];
        let good = "v".repeat(VALUE_LEN);
        #[rustfmt::skip]
        let cases = [
            ("a name",           "_acme-challenge.a.example",   &*good,                           true),
            ("of a wildcard",    "_acme-challenge.b.example",   &good,                            true),
            ("another name",     "_acme-challenge.c.example",   &good,                            false),
            ("below a wildcard", "_acme-challenge.x.b.example", &good,                            false),
            ("no challenge",     "a.example",                   &good,                            false),
            ("a short value",    "_acme-challenge.a.example",   "v",                              false),
            ("an option",        "_acme-challenge.a.example",   &format!("-{}", &good[1..]),      true),
            ("a command",        "_acme-challenge.a.example",   &format!("$(id){}", &good[5..]),  false),
        ];
        for (what, name, value, want) in cases {
            let request =
                HookRequest { action: HookAction::Add, name: name.to_owned(), value: value.to_owned() };
            assert_eq!(request.is_allowed(&names), want, "{what}");
        }
    }

    #[test]
    fn failures_of_the_program_are_told() {
        let request = |value: &str| HookRequest {
            action: HookAction::Add,
            name: "n".to_owned(),
            value: value.to_owned(),
        };
        assert_eq!(run(Path::new("/bin/true"), &request("v")), Ok(()));
        let error = run(Path::new("/bin/false"), &request("v")).unwrap_err();
        assert_eq!(error, "/bin/false add n: exit status: 1");
        let error = run(Path::new("/nonexistent"), &request("v")).unwrap_err();
        assert!(error.starts_with("cannot run /nonexistent: "), "{error}");
    }
}
