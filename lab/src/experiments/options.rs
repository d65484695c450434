//! Options that several experiments share, and the command that repeats an experiment.

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use super::isolation::{self, SchedulingPolicy};
use crate::error::LabError;

/// Options of every experiment.
#[derive(Clone, Args)]
pub(crate) struct CommonArgs {
    /// Measure this build of tarpon [default: the program next to tarpon-lab]
    #[arg(long, value_name = "PATH")]
    pub(crate) tarpon: Option<PathBuf>,
    /// Write all measured numbers to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// How an experiment is isolated.
#[derive(Clone, Args)]
pub(crate) struct IsolationArgs {
    /// Measure without network namespace and batch scheduling; for trial runs without root
    #[arg(long)]
    pub(crate) no_isolation: bool,
    /// Send with this congestion control of the kernel, as bbr; one that paces makes an experiment on one machine measure its pace
    #[arg(long, value_name = "NAME", default_value = USUAL_CONGESTION_CONTROL, conflicts_with = "no_isolation")]
    pub(crate) congestion_control: String,
}

impl IsolationArgs {
    /// Restarts this program in isolation, unless the option forbids it.
    pub(crate) fn enter(&self) -> Result<(), LabError> {
        self.enter_with(SchedulingPolicy::Batch)
    }

    /// The same, but the threads keep the usual policy. For servers whose threads interrupt each other, with a core for themselves.
    pub(crate) fn enter_with_usual_policy(&self) -> Result<(), LabError> {
        self.enter_with(SchedulingPolicy::Usual)
    }

    fn enter_with(&self, policy: SchedulingPolicy) -> Result<(), LabError> {
        if self.no_isolation { Ok(()) } else { isolation::enter(policy, &self.congestion_control) }
    }
}

/// Options of experiments that run on one core.
#[derive(Args)]
pub(crate) struct CoreArgs {
    /// Run server and clients on this core [default: the least busy core]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) core: Option<usize>,
    /// Wait at most this long for an idle core, at the start and after a dirty round
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub(crate) idle_wait: u32,
}

/// Options of experiments in which server and client have a core each.
#[derive(Args)]
pub(crate) struct TwoCoreArgs {
    /// Run the server on this core [default: the least busy core]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) core: Option<usize>,
    /// Run the client on this core [default: another core]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) client_core: Option<usize>,
    /// Wait at most this long for an idle core, at the start and after a dirty round
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    idle_wait: u32,
    /// Reject a round if other processes used more than this percentage of one of both cores; raise it for trial runs on a busy machine
    #[arg(long, value_name = "PERCENT", default_value_t = OTHER_PERCENT_MAX, value_parser = clap::value_parser!(u16).range(1..))]
    other_max: u16,
}

impl TwoCoreArgs {
    /// Returns the options of an experiment that would run on one core: the client gets another one.
    pub(crate) fn with_client_core(core: &CoreArgs) -> TwoCoreArgs {
        let &CoreArgs { core, idle_wait } = core;
        TwoCoreArgs { core, client_core: None, idle_wait, other_max: OTHER_PERCENT_MAX }
    }

    pub(crate) fn idle_wait(&self) -> Duration {
        Duration::from_secs(self.idle_wait.into())
    }

    /// Returns the largest share of a clean round that other processes may use.
    pub(crate) fn other_share_max(&self) -> f64 {
        f64::from(self.other_max) / 100.0
    }

    /// Returns the options of a command, and these after them.
    pub(crate) fn after<'a>(&self, options: &[(&'a str, String)]) -> Vec<(&'a str, String)> {
        let number = |core: Option<usize>| core.map_or_else(String::new, |core| core.to_string());
        let is_usual = self.other_max == OTHER_PERCENT_MAX;
        let other_max = if is_usual { String::new() } else { self.other_max.to_string() };
        let own = [
            ("other-max", other_max),
            ("core", number(self.core)),
            ("client-core", number(self.client_core)),
        ];
        options.iter().cloned().chain(own).collect()
    }
}

/// The core of the server behind proxies.
#[derive(Args)]
pub(crate) struct LabUpstreamCoreArgs {
    /// Run the upstream on this core [default: a third core, or that of the client]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) upstream_core: Option<usize>,
}

impl LabUpstreamCoreArgs {
    /// Returns the option of a command.
    pub(crate) fn option(&self) -> (&'static str, String) {
        ("upstream-core", self.upstream_core.map_or_else(String::new, |core| core.to_string()))
    }
}

/// The default of `--other-max`. It is higher than the limit of experiments on one core, because interrupts that arrive at an idle core count as
/// the work of other processes: about 2% beside a storm of handshakes.
const OTHER_PERCENT_MAX: u16 = 5;

/// The congestion control of experiments: it does not pace.
const USUAL_CONGESTION_CONTROL: &str = "reno";

/// The directory of a large site.
#[derive(Args)]
pub(crate) struct SiteDirArgs {
    /// Create the site below this directory [default: the directory for temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl SiteDirArgs {
    /// Returns the directory.
    pub(crate) fn dir(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(env::temp_dir)
    }
}

/// Parses the length of a window: long enough for a request, short enough to wait for.
pub(crate) fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.01..=600.0).contains(&seconds) => Ok(seconds),
        _ => Err("not a number of seconds between 0.01 and 600".into()),
    }
}

/// Returns the command that repeats an experiment on any machine: defaults are explicit, options without a value are omitted.
pub(crate) fn command_line(name: &str, options: &[(&str, String)]) -> String {
    let set = options.iter().filter(|(_, value)| !value.is_empty());
    set.fold(format!("tarpon-lab {name}"), |command, (option, value)| format!("{command} --{option} {value}"))
}

/// Appends to a command how its experiment is isolated, if not as usual.
pub(crate) fn with_isolation(command: String, isolation: &IsolationArgs) -> String {
    let control = &isolation.congestion_control;
    match isolation.no_isolation {
        true => command + " --no-isolation",
        false if control == USUAL_CONGESTION_CONTROL => command,
        false => format!("{command} --congestion-control {control}"),
    }
}

/// Returns the file name of a path, for a command line without directories of this machine.
pub(crate) fn file_name(path: Option<&Path>) -> String {
    path.and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned()
}
