//! `tarpon doctor`: examines the machine and a configuration, and advises.

use super::{CommandResult, ignore_closed_pipe, inspect::terminal_width, read, serve};
use crate::config::{self, ConfigErrors, ResolvedConfig};
use crate::control::{
    acme::store::state_directory,
    doctor::{
        self, ChangeReport, Finding, FindingGroup, ProcessLimits, SysctlChange, SystemFacts, SystemPlan,
        Verdict,
    },
};
use crate::program::output::{
    self, OutputForm,
    doctor_report::{self, ReportLayout},
    messages::Count,
};
use crate::{Settings, UserError};
use clap::{ArgMatches, FromArgMatches, Parser};
use rustix::time::{ClockId, clock_gettime};
use std::io::{self, IsTerminal, Write};

/// Examine this machine and a configuration, and advise
///
/// Examines limits, the network, the kernel and the processor; with a configuration also its sites, certificates, names, ports and logs.
/// Each finding has its value, what to do, why, and the command for it. Changes nothing without --apply. The exit status is 0 if
/// there is no problem, else 1.
#[derive(Debug, Parser)]
#[command(name = "doctor")]
struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Change the settings of the kernel that the table lists
    ///
    /// Only those settings whose finding has a line `apply`. They hold until the machine restarts. The values before are kept in
    /// doctor-undo.json in the state directory.
    #[arg(long, conflicts_with = "undo")]
    apply: bool,

    /// Restore the settings that --apply has changed
    ///
    /// Leaves a setting that was changed again since.
    #[arg(long)]
    undo: bool,

    /// Print the changes of --apply as a file for /etc/sysctl.d
    ///
    /// With such a file, the settings outlast a restart of the machine.
    #[arg(long, conflicts_with_all = ["json", "apply", "undo"])]
    sysctl: bool,
}

pub(super) fn command() -> clap::Command {
    <DoctorArgs as clap::CommandFactory>::command().args(read::optional_file_args())
}

pub(super) fn run(matches: &ArgMatches) -> CommandResult {
    let arguments = DoctorArgs::from_arg_matches(matches)?;
    let is_configured = matches.contains_id("file") || matches.contains_id("config");
    let resolved = is_configured.then(|| read::resolve_file(matches)).transpose()?;
    let configured =
        resolved.as_ref().and_then(|resolved| resolved.config.server.acme.state_directory.as_deref());
    let state = state_directory(configured, rustix::process::geteuid().is_root());
    if arguments.undo {
        let report = doctor::undo(&state)?;
        print_changes(&report, arguments.json, "restored")?;
        return complete(&report);
    }
    let groups = examine(resolved.as_ref());
    let changes: Vec<SysctlChange> = findings(&groups).filter_map(|finding| finding.change.clone()).collect();
    if arguments.sysctl {
        return print(OutputForm::Text, |out| doctor_report::write_sysctl(&changes, out));
    }
    let applied = arguments.apply.then(|| doctor::apply(&changes, &state)).transpose()?;
    match arguments.json {
        true => print(OutputForm::Json, |out| {
            serde_json::to_writer_pretty(&mut *out, &doctor_report::json(&groups, applied.as_ref()))?;
            writeln!(out)
        })?,
        false => {
            print(OutputForm::Text, |out| doctor_report::write(&groups, layout(), out))?;
            if let Some(report) = &applied {
                print_changes(report, false, "changed")?;
            }
        }
    }
    applied.as_ref().map_or(Ok(()), complete)?;
    match findings(&groups).filter(|finding| finding.verdict == Verdict::Problem).count() {
        0 => Ok(()),
        count => {
            Err(format!("{} found; the advice beside each tells what to do", Count(count as u64, "problem"))
                .into())
        }
    }
}

/// Examines the system, and the configuration if there is one.
fn examine(resolved: Option<&ResolvedConfig>) -> Vec<FindingGroup> {
    let limits = ProcessLimits::read();
    // As `tarpon config check`: the limits decide how many large files a site may have.
    serve::raise_limits();
    let Some(resolved) = resolved else {
        return doctor::examine_system(&SystemFacts::read(limits), &SystemPlan::new(&Settings::default()));
    };
    let mut service = serve::service(resolved.config.clone());
    // Before anything starts a thread: children examine the sites.
    let mut findings = of_file(resolved);
    findings.extend(doctor::examine_service(&mut service, clock_gettime(ClockId::Realtime).tv_sec));
    let plan = SystemPlan::new(&service.settings).with_service(&service);
    let mut groups = doctor::examine_system(&SystemFacts::read(limits), &plan);
    groups.push(FindingGroup { name: "configuration", findings });
    groups
}

/// Examines what only the file tells.
fn of_file(resolved: &ResolvedConfig) -> Vec<Finding> {
    const WHY: &str = "The server does not start with such a configuration.";
    let (system, exposed) = (config::check_system(resolved), config::check_exposed(resolved));
    let errors = [system, exposed].into_iter().filter_map(Result::err);
    let lines = errors.flat_map(|errors: ConfigErrors| errors.lines());
    let problems =
        lines.map(|line| Finding::problem("configuration", line, WHY, "correct this value of the file"));
    let advice = |check, why| {
        move |warning: UserError| {
            let (found, hint) = warning.found_and_hint();
            Finding::advice(check, found, why, hint)
        }
    };
    let programs = config::cgi_warnings(resolved).into_iter();
    let programs = programs.map(advice("cgi-programs", "Only executable files are programs."));
    let acme = config::unreachable(&resolved.config).into_iter();
    let acme = acme.map(advice("acme-port", "Without this connection no certificate is issued."));
    problems.chain(programs).chain(acme).collect()
}

fn findings(groups: &[FindingGroup]) -> impl Iterator<Item = &Finding> {
    groups.iter().flat_map(|group| &group.findings)
}

fn print_changes(report: &ChangeReport, is_json: bool, verb: &str) -> CommandResult {
    match is_json {
        true => print(OutputForm::Json, |out| {
            serde_json::to_writer_pretty(&mut *out, report)?;
            writeln!(out)
        }),
        false => print(OutputForm::Text, |out| doctor_report::write_changes(report, verb, layout(), out)),
    }
}

fn complete(report: &ChangeReport) -> CommandResult {
    match report.is_complete() {
        true => Ok(()),
        false => Err("not every setting has changed; the table has the reasons".into()),
    }
}

/// Prints to standard output.
fn print(form: OutputForm, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> CommandResult {
    let mut out = output::stdout(form);
    ignore_closed_pipe(write(&mut out).and_then(|()| out.flush()))
}

fn layout() -> ReportLayout {
    let is_terminal = io::stdout().is_terminal();
    ReportLayout { width: is_terminal.then(|| terminal_width().unwrap_or(80)) }
}
