//! The doctor: examines the machine and a configuration, and advises. Changes a setting of the kernel only on request.
//!
//! ```text
//! /proc, /sys, limits, probes ─▶ SystemFacts ─▶ limits, network, kernel, processor ─┐
//! configuration ─▶ start errors, paths, certificates, names, ports, disks ──────────┼─▶ findings
//!                                                                                   │
//!               kernel ◀── sysctl: apply, undo ◀── changes of the findings ◀────────┘
//!                            └─▶ undo record in the state directory
//! ```
//!
//! Facts are read in one place. Whatever judges them is a function of facts, so a test shows each verdict on any machine.
//!
//! | file | what |
//! |---|---|
//! | `finding` | the result of a check: value, verdict, advice, reason, command |
//! | `system_facts` | reads what the checks of the system judge |
//! | `sysctl_rules` | the settings of the kernel that the doctor may change, and their values |
//! | `limits` | open files, watches, memory |
//! | `network` | backlogs, buffers and algorithms of TCP |
//! | `kernel` | huge pages, io_uring, kernel TLS, and what the sandbox can do |
//! | `processor` | governor, NUMA nodes, workers, clock |
//! | `service` | all checks of a configuration |
//! | `start_checks` | what the start of the server would refuse |
//! | `site_path` | permissions on the path to a site |
//! | `certificates` | dates and names of certificates |
//! | `names` | where the names of the sites lead |
//! | `ports` | whether the listeners answer, and ports 80 and 443 at the names |
//! | `disk` | room for logs and state |
//! | `bounded` | runs calls that may hang for at most a given time |
//! | `sysctl` | applies changes, and undoes them |
//! | `undo_record` | the file with the former values |

mod bounded;
mod certificates;
mod disk;
mod finding;
mod kernel;
mod limits;
mod names;
mod network;
mod ports;
mod processor;
mod service;
mod site_path;
mod start_checks;
mod sysctl;
mod sysctl_rules;
mod system_facts;
mod undo_record;

pub(crate) use finding::{Finding, FindingGroup, SysctlChange, Verdict};
pub(crate) use service::examine_service;
pub(crate) use sysctl::{ChangeOutcome, ChangeReport, apply, undo};
pub(crate) use system_facts::{ProcessLimits, SystemFacts, SystemPlan};

/// Examines the system for a server with this plan.
pub(crate) fn examine_system(facts: &SystemFacts, plan: &SystemPlan) -> Vec<FindingGroup> {
    if !cfg!(target_os = "linux") {
        let value = "tarpon knows the settings of Linux alone";
        let finding =
            Finding::unknown("system", value, "Settings of the kernel decide how many clients it serves.");
        return vec![FindingGroup { name: "system", findings: vec![finding] }];
    }
    vec![
        FindingGroup { name: "limits", findings: limits::examine(facts, plan) },
        FindingGroup { name: "network", findings: network::examine(facts, plan) },
        FindingGroup { name: "kernel", findings: kernel::examine(facts, plan) },
        FindingGroup { name: "processor", findings: processor::examine(facts, plan) },
    ]
}
