//! Open files, watches, and memory that the kernel limits.

use super::{
    finding::Finding,
    sysctl_rules::SysctlRule,
    system_facts::{ResourceLimit, SystemFacts, SystemPlan},
};
use crate::base::engine::Engine;

pub(super) fn examine(facts: &SystemFacts, plan: &SystemPlan) -> Vec<Finding> {
    vec![
        open_files(facts.open_files),
        open_files_maximum(facts),
        file_table(facts),
        SysctlRule::of("watches").judge(facts),
        watch_instances(facts, plan),
        locked_memory(facts, plan),
        overcommit(facts),
    ]
}

fn open_files((soft, hard): ResourceLimit) -> Finding {
    const CHECK: &str = "open-files";
    const WHY: &str = "Each client and each large file takes a descriptor, and tarpon raises the limit up to the hard one. This is the \
                       limit of this shell: a service of systemd has its own.";
    let number = |limit: Option<u64>| limit.map_or("unlimited".to_owned(), |limit| limit.to_string());
    let value = format!("{}, may be raised to {}", number(soft), number(hard));
    let value = if soft == hard { number(hard) } else { value };
    let advice =
        format!("raise the hard limit to {OPEN_FILES_WANTED}; further clients wait in the accept backlog");
    let command = format!("ulimit -Hn {OPEN_FILES_WANTED}   # systemd: LimitNOFILE={OPEN_FILES_WANTED}");
    match hard {
        Some(hard) if hard < OPEN_FILES_MIN => Finding::problem(CHECK, value, WHY, advice).command(command),
        Some(hard) if hard < OPEN_FILES_ENOUGH => Finding::advice(CHECK, value, WHY, advice).command(command),
        _ => Finding::good(CHECK, value, WHY),
    }
}

/// With fewer, a browser with a few pages may meet the limit: sites may take three quarters.
const OPEN_FILES_MIN: u64 = 256;
/// Enough for tens of thousands of clients.
const OPEN_FILES_ENOUGH: u64 = 65_536;
/// That of the unit in `packaging/systemd`.
const OPEN_FILES_WANTED: u64 = 1 << 20;

/// The largest limit that a process can have.
fn open_files_maximum(facts: &SystemFacts) -> Finding {
    const CHECK: &str = "open-files-maximum";
    const NAME: &str = "fs.nr_open";
    const WHY: &str =
        "No limit of open files can be larger. A service with LimitNOFILE=1048576 gets less if this is less.";
    match number(facts, NAME) {
        Err(why) => Finding::unknown(CHECK, why, WHY),
        Ok(value) if value < OPEN_FILES_WANTED => {
            let advice = format!("set {NAME} to {OPEN_FILES_WANTED}");
            let command = format!("sysctl -w {NAME}={OPEN_FILES_WANTED}");
            Finding::advice(CHECK, value.to_string(), WHY, advice).command(command)
        }
        Ok(value) => Finding::good(CHECK, value.to_string(), WHY),
    }
}

/// A small machine has a small table, and needs no larger one for few open files.
fn file_table(facts: &SystemFacts) -> Finding {
    let rule = SysctlRule::of("file-table");
    let least = facts.open_files.1.unwrap_or(u64::MAX).min(OPEN_FILES_ENOUGH);
    SysctlRule { wanted: rule.wanted.at_least(least), ..rule }.judge(facts)
}

/// The rule suits a few dozens of sites. More need two instances each.
fn watch_instances(facts: &SystemFacts, plan: &SystemPlan) -> Finding {
    let rule = SysctlRule::of("watch-instances");
    let needed = WATCH_INSTANCES_OF_OTHERS + 2 * plan.watched_count as u64;
    let least = rule.wanted.at_least(needed.max(128));
    SysctlRule { wanted: least, ..rule }.judge(facts)
}

/// Other programs of the same user take some.
const WATCH_INSTANCES_OF_OTHERS: u64 = 16;

fn locked_memory(facts: &SystemFacts, plan: &SystemPlan) -> Finding {
    const CHECK: &str = "locked-memory";
    const WHY: &str = "The kernel counts the rings of io_uring as locked memory, for all processes of a user together. tarpon raises the \
                       limit as far as it may.";
    let needed = plan.worker_count as u64 * LOCKED_LEN_OF_WORKER;
    match facts.locked_memory.1 {
        _ if ![Engine::Auto, Engine::IoUring].contains(&plan.engine) => {
            Finding::good(CHECK, format!("not needed by the engine {}", plan.engine), WHY)
        }
        None => Finding::good(CHECK, "unlimited", WHY),
        Some(limit) if facts.is_root => {
            Finding::good(CHECK, format!("{limit} bytes, which root may raise"), WHY)
        }
        Some(limit) if limit < needed => {
            let advice = format!("allow at least {needed} bytes");
            let command = "ulimit -Hl unlimited   # systemd: LimitMEMLOCK=infinity";
            Finding::advice(CHECK, format!("{limit} bytes"), WHY, advice).command(command)
        }
        Some(limit) => Finding::good(CHECK, format!("{limit} bytes"), WHY),
    }
}

/// A ring with its queues, twice: a reload starts new workers before the former ones end.
const LOCKED_LEN_OF_WORKER: u64 = 1 << 20;

fn overcommit(facts: &SystemFacts) -> Finding {
    const CHECK: &str = "overcommit";
    const NAME: &str = "vm.overcommit_memory";
    const WHY: &str = "With 2 the kernel counts reserved address space as memory, and forked processes in full. tarpon reserves space that \
                       it may never use.";
    match facts.sysctl(NAME).as_deref() {
        Err(why) => Finding::unknown(CHECK, why, WHY),
        Ok("2") => {
            let advice = format!("set {NAME} to 0, or leave memory uncommitted for tarpon");
            Finding::advice(CHECK, "2", WHY, advice).command(format!("sysctl -w {NAME}=0"))
        }
        Ok(value) => Finding::good(CHECK, value, WHY),
    }
}

fn number(facts: &SystemFacts, name: &str) -> Result<u64, String> {
    let value = facts.sysctl(name)?;
    value.parse().map_err(|_| format!("{name} has the unexpected value {value}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::doctor::finding::Verdict::{self, Advice, Good, Problem, Unknown};

    #[test]
    fn open_files_are_judged_by_the_hard_limit() {
        #[rustfmt::skip]
        let cases: &[(ResourceLimit, Verdict, &str)] = &[
            ((Some(1024), Some(1024)),       Advice,  "1024"),
            ((Some(1024), Some(65_535)),     Advice,  "1024, may be raised to 65535"),
            ((Some(1024), Some(65_536)),     Good,    "1024, may be raised to 65536"),
            ((Some(64), Some(255)),          Problem, "64, may be raised to 255"),
            ((Some(1024), None),             Good,    "1024, may be raised to unlimited"),
            ((None, None),                   Good,    "unlimited"),
        ];
        for (limit, verdict, value) in cases {
            let found = open_files(*limit);
            assert_eq!((found.verdict, &*found.value), (*verdict, *value));
            assert_eq!(found.command.is_some(), *verdict != Good, "{limit:?}");
        }
    }

    #[test]
    fn watch_instances_follow_the_number_of_sites() {
        #[rustfmt::skip]
        let cases: &[(usize, &str, Verdict, Option<&str>)] = &[
            // sites  value   verdict  change
            (1,       "128",  Good,    None),
            (1,       "100",  Advice,  Some("1024")),
            (56,      "128",  Good,    None),
            (57,      "128",  Advice,  Some("1024")),
            (57,      "1024", Good,    None),
            (600,     "1024", Advice,  Some("1216")),
            (1,       "x",    Unknown, None),
        ];
        for (sites, value, verdict, change) in cases {
            let facts = SystemFacts::of(&[("fs.inotify.max_user_instances", value)]);
            let plan = SystemPlan { watched_count: *sites, ..SystemPlan::of_test() };
            let found = watch_instances(&facts, &plan);
            let to = found.change.as_ref().map(|change| &*change.to);
            assert_eq!((found.verdict, to), (*verdict, *change), "{sites} sites, {value}");
        }
    }

    #[test]
    fn file_table_need_not_be_larger_than_the_limit_of_a_process() {
        for (hard, verdict) in [(Some(4096), Good), (Some(65_536), Advice), (None, Advice)] {
            let facts =
                SystemFacts { open_files: (hard, hard), ..SystemFacts::of(&[("fs.file-max", "41384")]) };
            assert_eq!(file_table(&facts).verdict, verdict, "{hard:?}");
        }
    }

    #[test]
    fn locked_memory_matters_to_rings_of_users_other_than_root() {
        #[rustfmt::skip]
        let cases: &[(Engine, bool, Option<u64>, Verdict)] = &[
            (Engine::Auto,  false, None,          Good),
            (Engine::Auto,  false, Some(65_536),  Advice),
            (Engine::Auto,  false, Some(2 << 20), Good),
            (Engine::Auto,  true,  Some(65_536),  Good),
            (Engine::Poll,  false, Some(65_536),  Good),
        ];
        for (engine, is_root, limit, verdict) in cases {
            let facts =
                SystemFacts { is_root: *is_root, locked_memory: (*limit, *limit), ..SystemFacts::of(&[]) };
            let plan = SystemPlan { engine: *engine, ..SystemPlan::of_test() };
            assert_eq!(locked_memory(&facts, &plan).verdict, *verdict, "{engine} {is_root} {limit:?}");
        }
    }

    #[test]
    fn values_of_the_kernel_have_verdicts() {
        #[rustfmt::skip]
        let cases: &[(&str, &str, Verdict)] = &[
            // check               setting and value               verdict
            ("open-files-maximum", "fs.nr_open 1048576",           Good),
            ("open-files-maximum", "fs.nr_open 65536",             Advice),
            ("open-files-maximum", "fs.none 1",                    Unknown),
            ("file-table",         "fs.file-max 9223372036854775807", Good),
            ("file-table",         "fs.file-max 65535",            Advice),
            ("watches",            "fs.inotify.max_user_watches 8192", Advice),
            ("watches",            "fs.inotify.max_user_watches 65536", Good),
            ("overcommit",         "vm.overcommit_memory 0",       Good),
            ("overcommit",         "vm.overcommit_memory 1",       Good),
            ("overcommit",         "vm.overcommit_memory 2",       Advice),
            ("overcommit",         "vm.none 2",                    Unknown),
        ];
        for (check, setting, verdict) in cases {
            let facts = SystemFacts::of(&[setting.split_once(' ').unwrap()]);
            let found = examine(&facts, &SystemPlan::of_test());
            let found = found.iter().find(|finding| finding.check == *check).unwrap();
            assert_eq!(found.verdict, *verdict, "{setting}: {found:?}");
        }
    }
}
