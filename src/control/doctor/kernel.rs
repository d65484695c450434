//! Huge pages, io_uring, kernel TLS, and what the sandbox can do.

use super::{
    finding::Finding,
    system_facts::{SystemFacts, SystemPlan},
};

pub(super) fn examine(facts: &SystemFacts, plan: &SystemPlan) -> Vec<Finding> {
    vec![
        huge_pages(facts),
        shared_huge_pages(facts),
        reserved_huge_pages(facts),
        io_uring(facts),
        io_uring_features(facts),
        kernel_tls(facts, plan),
        landlock(facts, plan),
        seccomp(facts, plan),
    ]
}

/// Returns the word in brackets, as in `always [madvise] never`.
fn chosen(text: &str) -> Option<&str> {
    text.split(' ').find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))
}

fn huge_pages(facts: &SystemFacts) -> Finding {
    const CHECK: &str = "huge-pages";
    const PATH: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    const WHY: &str = "tarpon asks for huge pages for large images and archives in memory, which need fewer misses of the TLB.";
    match facts.file(PATH) {
        Err(why) => Finding::unknown(CHECK, why, WHY),
        Ok(text) => match chosen(&text) {
            Some("never") => Finding::advice(CHECK, "never", WHY, "allow them to programs that ask")
                .command(format!("echo madvise > {PATH}")),
            Some(word @ ("always" | "madvise")) => Finding::good(CHECK, word, WHY),
            _ => Finding::unknown(CHECK, format!("{PATH} has the unexpected value {text}"), WHY),
        },
    }
}

fn shared_huge_pages(facts: &SystemFacts) -> Finding {
    const CHECK: &str = "shared-huge-pages";
    const PATH: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
    const WHY: &str =
        "Images lie in shared memory. tarpon asks for huge pages itself, which only deny forbids.";
    match facts.file(PATH) {
        Err(why) => Finding::unknown(CHECK, why, WHY),
        Ok(text) => match chosen(&text) {
            Some("deny") => {
                let command = format!("echo advise > {PATH}");
                Finding::advice(CHECK, "deny", WHY, "allow them to programs that ask").command(command)
            }
            Some(word) => Finding::good(CHECK, word, WHY),
            None => Finding::unknown(CHECK, format!("{PATH} has the unexpected value {text}"), WHY),
        },
    }
}

fn reserved_huge_pages(facts: &SystemFacts) -> Finding {
    const CHECK: &str = "reserved-huge-pages";
    const WHY: &str =
        "tarpon does not use reserved huge pages. Memory that is reserved for them is lost for other uses.";
    match facts.sysctl("vm.nr_hugepages").as_deref() {
        Err(why) => Finding::unknown(CHECK, why, WHY),
        Ok("0") => Finding::good(CHECK, "0", WHY),
        Ok(count) => {
            let advice = "reserve none, unless another program needs them";
            Finding::advice(CHECK, count, WHY, advice).command("sysctl -w vm.nr_hugepages=0")
        }
    }
}

fn io_uring(facts: &SystemFacts) -> Finding {
    const CHECK: &str = "io-uring";
    const WHY: &str = "The engine io_uring needs fewer system calls than epoll, which tarpon uses where io_uring is missing.";
    let disabled = facts.sysctl("kernel.io_uring_disabled");
    let group = facts.sysctl("kernel.io_uring_group").unwrap_or_else(|_| "-1".to_owned());
    match (&facts.ring_refusal, disabled.as_deref()) {
        (_, Ok("2")) => {
            let advice = "allow it, if this machine runs no programs of strangers";
            Finding::advice(CHECK, "forbidden: kernel.io_uring_disabled is 2", WHY, advice)
                .command("sysctl -w kernel.io_uring_disabled=0")
        }
        (_, Ok("1")) => {
            let value = format!("for group {group} alone: kernel.io_uring_disabled is 1");
            let advice = "make the group of the server's user that of io_uring";
            Finding::advice(CHECK, value, WHY, advice)
                .command("sysctl -w kernel.io_uring_group=$(id -g tarpon)")
        }
        (None, _) => Finding::good(CHECK, "allowed, with all that tarpon needs", WHY),
        (Some(why), _) => {
            let advice = match &**why {
                "this host forbids it" => {
                    "allow io_uring_setup, io_uring_enter and io_uring_register in the seccomp filter of the container"
                }
                "this kernel is older than Linux 6.1" | "this kernel does not have it" => {
                    "use Linux 6.1 or newer, built with io_uring"
                }
                _ => "raise the limit of locked memory: systemd: LimitMEMLOCK=infinity",
            };
            Finding::advice(CHECK, why, WHY, advice)
        }
    }
}

fn io_uring_features(facts: &SystemFacts) -> Finding {
    const CHECK: &str = "io-uring-features";
    const WHY: &str = "tarpon needs what Linux 6.1 has. Later features are shown for information.";
    match &facts.ring_features {
        Err(why) => Finding::unknown(CHECK, format!("cannot make a ring: {why}"), WHY),
        Ok(features) => {
            let later = match features.names.is_empty() {
                true => "no later features".to_owned(),
                false => features.names.join(", "),
            };
            Finding::good(CHECK, format!("{} operations; {later}", features.operation_count), WHY)
        }
    }
}

fn kernel_tls(facts: &SystemFacts, plan: &SystemPlan) -> Finding {
    const CHECK: &str = "kernel-tls";
    const WHY: &str =
        "With TLS in the kernel, files go from the page cache to the socket without a copy in the server.";
    let suites = &facts.kernel_suites;
    let is_loaded = facts.has_tls_module();
    match plan.wants_kernel_tls {
        _ if !suites.is_empty() => Finding::good(CHECK, suites.join(", "), WHY),
        Some(false) => Finding::good(CHECK, "none, and not needed by the configuration", WHY),
        _ if is_loaded => {
            let advice = "use a newer kernel, and bring the loopback interface up; without it the server encrypts by itself";
            Finding::advice(CHECK, "none: the module tls is loaded, and takes no keys", WHY, advice)
        }
        _ => {
            let advice = "load the module; without it the server encrypts by itself";
            let command = "modprobe tls   # at each start: /etc/modules-load.d/tls.conf";
            Finding::advice(CHECK, "none: the module tls is not loaded", WHY, advice).command(command)
        }
    }
}

fn landlock(facts: &SystemFacts, plan: &SystemPlan) -> Finding {
    const CHECK: &str = "landlock";
    const WHY: &str = "With Landlock a compromised server process opens no files, and since version 4 makes no TCP connections.";
    match &facts.landlock {
        _ if !plan.is_sandboxed => switched_off(CHECK, WHY),
        Ok(version) if *version >= LANDLOCK_WITH_TCP => {
            Finding::good(CHECK, format!("version {version}"), WHY)
        }
        Ok(version) => {
            let advice = "use Linux 6.7 or newer, which restricts TCP too";
            Finding::advice(CHECK, format!("version {version}"), WHY, advice)
        }
        Err(why) => {
            let advice = "add landlock to the kernel's boot parameter lsm=, or allow it in the container";
            Finding::advice(CHECK, format!("missing: {why}"), WHY, advice)
        }
    }
}

/// The first version that restricts connections of TCP.
const LANDLOCK_WITH_TCP: i32 = 4;

fn switched_off(check: &'static str, why: &str) -> Finding {
    let advice = "remove sandbox = false from [server]";
    Finding::advice(check, "switched off by the configuration", why, advice)
}

fn seccomp(facts: &SystemFacts, plan: &SystemPlan) -> Finding {
    const CHECK: &str = "seccomp";
    const WHY: &str = "With seccomp a compromised server process makes only the system calls of serving.";
    let actions = facts.file("/proc/sys/kernel/seccomp/actions_avail");
    let is_filtered = facts.file("/proc/self/status").is_ok_and(|status| status.contains(" Seccomp: 2 "));
    match actions {
        _ if !plan.is_sandboxed => switched_off(CHECK, WHY),
        Ok(actions) if !actions.split(' ').any(|action| action == "kill_process") => {
            Finding::advice(CHECK, format!("only {actions}"), WHY, "use Linux 4.14 or newer")
        }
        Ok(_) if is_filtered => Finding::good(CHECK, "available; a filter of a container is in force", WHY),
        Ok(_) => Finding::good(CHECK, "available", WHY),
        Err(why) => Finding::unknown(CHECK, why, WHY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::doctor::finding::Verdict::{self, Advice, Good, Unknown};
    use crate::control::doctor::system_facts::TestSettings;

    const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    const SHMEM: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
    const ACTIONS: &str = "/proc/sys/kernel/seccomp/actions_avail";

    fn verdict(check: &str, facts: &SystemFacts, plan: &SystemPlan) -> Verdict {
        examine(facts, plan).iter().find(|finding| finding.check == check).expect("a check").verdict
    }

    #[test]
    fn files_of_the_kernel_have_verdicts() {
        #[rustfmt::skip]
        let cases: &[(&str, TestSettings, Verdict)] = &[
            // check                settings                                            verdict
            ("huge-pages",          &[(THP, "always [madvise] never")],                 Good),
            ("huge-pages",          &[(THP, "always madvise [never]")],                 Advice),
            ("huge-pages",          &[(THP, "always")],                                 Unknown),
            ("huge-pages",          &[],                                                Unknown),
            ("shared-huge-pages",   &[(SHMEM, "always within_size advise [never] deny force")], Good),
            ("shared-huge-pages",   &[(SHMEM, "always within_size advise never [deny] force")], Advice),
            ("reserved-huge-pages", &[("vm.nr_hugepages", "0")],                        Good),
            ("reserved-huge-pages", &[("vm.nr_hugepages", "512")],                      Advice),
            ("io-uring",            &[],                                                Good),
            ("io-uring",            &[("kernel.io_uring_disabled", "0")],               Good),
            ("io-uring",            &[("kernel.io_uring_disabled", "1")],               Advice),
            ("io-uring",            &[("kernel.io_uring_disabled", "2")],               Advice),
            ("seccomp",             &[(ACTIONS, "kill_process kill_thread errno allow")], Good),
            ("seccomp",             &[(ACTIONS, "kill errno allow")],                   Advice),
            ("seccomp",             &[],                                                Unknown),
        ];
        for (check, settings, want) in cases {
            let found = verdict(check, &SystemFacts::of(settings), &SystemPlan::of_test());
            assert_eq!(found, *want, "{check} {settings:?}");
        }
    }

    #[test]
    fn probes_have_verdicts() {
        let facts = || SystemFacts::of(&[]);
        let plan = SystemPlan::of_test;
        let with_tls = SystemPlan { wants_kernel_tls: Some(true), ..plan() };
        let without_tls = SystemPlan { wants_kernel_tls: Some(false), ..plan() };
        let open = SystemPlan { is_sandboxed: false, ..plan() };
        let suites = vec!["TLS 1.3 AES-128-GCM".to_owned()];
        let why = || "not implemented".to_owned();
        #[rustfmt::skip]
        let cases: &[(&str, SystemFacts, SystemPlan, Verdict)] = &[
            ("io-uring",          SystemFacts { ring_refusal: Some(why()), ..facts() },        plan(),              Advice),
            ("io-uring-features", facts(),                                                     plan(),              Good),
            ("io-uring-features", SystemFacts { ring_features: Err(why()), ..facts() },        plan(),              Unknown),
            ("kernel-tls",        SystemFacts { kernel_suites: suites, ..facts() },            with_tls.clone(),    Good),
            ("kernel-tls",        facts(),                                                     with_tls,            Advice),
            ("kernel-tls",        facts(),                                                     plan(),              Advice),
            ("kernel-tls",        facts(),                                                     without_tls,         Good),
            ("landlock",          facts(),                                                     plan(),              Good),
            ("landlock",          SystemFacts { landlock: Ok(3), ..facts() },                  plan(),              Advice),
            ("landlock",          SystemFacts { landlock: Err(why()), ..facts() },             plan(),              Advice),
            ("landlock",          facts(),                                                     open.clone(),        Advice),
            ("seccomp",           facts(),                                                     open,                Advice),
        ];
        for (check, facts, plan, want) in cases {
            assert_eq!(verdict(check, facts, plan), *want, "{check} {facts:?} {plan:?}");
        }
    }
}
