//! Frequency governor, NUMA nodes, workers and their cores, and the clock.

use super::{
    finding::Finding,
    system_facts::{SystemFacts, SystemPlan},
};

pub(super) fn examine(facts: &SystemFacts, plan: &SystemPlan) -> Vec<Finding> {
    vec![governor(facts), numa(facts, plan), workers(facts, plan), clock(facts)]
}

fn governor(facts: &SystemFacts) -> Finding {
    const CHECK: &str = "cpu-governor";
    const WHY: &str = "A core that runs slowly when a request arrives adds to its latency.";
    let cores = match &facts.cores {
        Ok(cores) => cores,
        Err(why) => return Finding::unknown(CHECK, why, WHY),
    };
    let path = |core: &usize, file: &str| format!("/sys/devices/system/cpu/cpu{core}/cpufreq/{file}");
    let read = |file| cores.iter().filter_map(|core| facts.file(&path(core, file)).ok()).collect::<Vec<_>>();
    let (mut governors, drivers) = (read("scaling_governor"), read("scaling_driver"));
    governors.sort();
    governors.dedup();
    if governors.is_empty() {
        let value =
            "no core has one: the firmware, or the host of this virtual machine, chooses the frequency";
        return Finding::unknown(CHECK, value, WHY);
    }
    // These drivers choose the frequency by load with any governor.
    let is_dynamic = |driver: &String| driver == "intel_pstate" || driver == "amd-pstate-epp";
    let is_dynamic = !drivers.is_empty() && drivers.iter().all(is_dynamic);
    let is_good =
        |name: &String| ["performance", "schedutil"].contains(&&**name) || is_dynamic && name == "powersave";
    let value = governors.join(", ");
    match governors.iter().all(is_good) {
        true => Finding::good(CHECK, value, WHY),
        false => Finding::advice(CHECK, value, WHY, "use performance, or schedutil to save power")
            .command("cpupower frequency-set -g performance"),
    }
}

fn numa(facts: &SystemFacts, plan: &SystemPlan) -> Finding {
    const CHECK: &str = "numa-nodes";
    const WHY: &str =
        "Memory of another node is slower. An image lies on the node of the process that has built it.";
    let nodes = match facts.file("/sys/devices/system/node/online") {
        Ok(nodes) => nodes,
        Err(why) => return Finding::unknown(CHECK, why, WHY),
    };
    match list_len(&nodes) {
        None => Finding::unknown(CHECK, format!("unexpected list {nodes}"), WHY),
        Some(0 | 1) => Finding::good(CHECK, "one node", WHY),
        Some(count) if plan.is_pinned => {
            Finding::good(CHECK, format!("{count} nodes; each worker has its core"), WHY)
        }
        Some(count) => {
            let advice = "pin the workers with --cpu-affinity, or run the server on one node";
            let command = "numactl --cpunodebind=0 --membind=0 tarpon serve";
            Finding::advice(CHECK, format!("{count} nodes; workers move between them"), WHY, advice)
                .command(command)
        }
    }
}

/// Counts a list of the kernel, as in `0-1,4`.
fn list_len(list: &str) -> Option<usize> {
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        (last + 1).checked_sub(first)
    };
    list.split(',').map(range).sum()
}

fn workers(facts: &SystemFacts, plan: &SystemPlan) -> Finding {
    const CHECK: &str = "workers";
    const WHY: &str =
        "One worker per core keeps all cores busy. More workers than cores wait for each other.";
    let cores = match &facts.cores {
        Ok(cores) => cores.len(),
        Err(why) => return Finding::unknown(CHECK, why, WHY),
    };
    let quota = cpu_quota(facts).filter(|quota| *quota < cores as f64);
    let quota_text =
        quota.map(|quota| format!(", of which the group may use {quota:.1}")).unwrap_or_default();
    let value = format!("{} workers (engine {}), {cores} cores{quota_text}", plan.worker_count, plan.engine);
    let available = quota.map_or(cores, |quota| quota.ceil() as usize).max(1);
    if plan.engine.is_blocking() {
        let why =
            "A worker of this engine serves one connection at a time, so it needs more workers than cores.";
        return Finding::good(CHECK, value, why);
    }
    match plan.worker_count {
        count if count > available => {
            Finding::advice(CHECK, value, WHY, format!("set workers to {available}"))
        }
        _ => Finding::good(CHECK, value, WHY),
    }
}

/// Returns how many cores the quota of the control group allows. `None`: it has none. Linux, cgroup-v2.rst, cpu.max.
fn cpu_quota(facts: &SystemFacts) -> Option<f64> {
    let text = facts.file("/sys/fs/cgroup/cpu.max").ok()?;
    let (quota, period) = text.split_once(' ')?;
    Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
}

fn clock(facts: &SystemFacts) -> Finding {
    const CHECK: &str = "clock-source";
    const DIR: &str = "/sys/devices/system/clocksource/clocksource0";
    const WHY: &str = "Reading tsc, kvm-clock or arch_sys_counter needs no system call. With any other clock each reading may take a microsecond.";
    let current = match facts.file(&format!("{DIR}/current_clocksource")) {
        Ok(current) => current,
        Err(why) => return Finding::unknown(CHECK, why, WHY),
    };
    let available = facts.file(&format!("{DIR}/available_clocksource")).unwrap_or_default();
    let better = available.split(' ').find(|name| FAST_CLOCKS.contains(name));
    match (FAST_CLOCKS.contains(&&*current), better) {
        (true, _) => Finding::good(CHECK, current, WHY),
        (false, Some(better)) => Finding::advice(CHECK, current, WHY, format!("use {better}"))
            .command(format!("echo {better} > {DIR}/current_clocksource")),
        (false, None) => {
            let advice =
                format!("find out why the kernel offers only {available}: dmesg | grep -i clocksource");
            Finding::advice(CHECK, current, WHY, advice)
        }
    }
}

/// The clocks that the kernel reads without a system call: vdso(7).
const FAST_CLOCKS: [&str; 5] =
    ["tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", "riscv_clocksource"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        base::engine::Engine,
        control::doctor::{
            finding::Verdict::{self, Advice, Good, Unknown},
            system_facts::TestSettings,
        },
    };

    const GOVERNORS: [&str; 2] = [
        "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
        "/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor",
    ];
    const DRIVER: &str = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver";
    const NODES: &str = "/sys/devices/system/node/online";
    const CLOCK: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    const CLOCKS: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
    const QUOTA: &str = "/sys/fs/cgroup/cpu.max";

    #[test]
    fn processors_have_verdicts() {
        let plan = SystemPlan::of_test;
        let pinned = SystemPlan { is_pinned: true, ..plan() };
        let many = |is_pinned| SystemPlan { worker_count: 3, is_pinned, ..plan() };
        let threads = SystemPlan { engine: Engine::Threads, worker_count: 64, ..plan() };
        #[rustfmt::skip]
        let cases: &[(&str, TestSettings, SystemPlan, Verdict)] = &[
            // check          facts                                                         plan            verdict
            ("cpu-governor",  &[],                                                          plan(),         Unknown),
            ("cpu-governor",  &[(GOVERNORS[0], "performance"), (GOVERNORS[1], "schedutil")], plan(),        Good),
            ("cpu-governor",  &[(GOVERNORS[0], "performance"), (GOVERNORS[1], "ondemand")], plan(),         Advice),
            ("cpu-governor",  &[(GOVERNORS[0], "powersave")],                               plan(),         Advice),
            ("cpu-governor",  &[(GOVERNORS[0], "powersave"), (DRIVER, "intel_pstate")],     plan(),         Good),
            ("cpu-governor",  &[(GOVERNORS[0], "powersave"), (DRIVER, "acpi-cpufreq")],     plan(),         Advice),
            ("numa-nodes",    &[(NODES, "0")],                                              plan(),         Good),
            ("numa-nodes",    &[(NODES, "0-1")],                                            plan(),         Advice),
            ("numa-nodes",    &[(NODES, "0-1")],                                            pinned,         Good),
            ("numa-nodes",    &[(NODES, "x")],                                              plan(),         Unknown),
            ("workers",       &[],                                                          plan(),         Good),
            ("workers",       &[],                                                          many(false),    Advice),
            ("workers",       &[],                                                          many(true),     Advice),
            ("workers",       &[],                                                          threads,        Good),
            ("workers",       &[(QUOTA, "max 100000")],                                     plan(),         Good),
            ("workers",       &[(QUOTA, "100000 100000")],                                  plan(),         Advice),
            ("workers",       &[(QUOTA, "150000 100000")],                                  plan(),         Good),
            ("clock-source",  &[(CLOCK, "tsc")],                                            plan(),         Good),
            ("clock-source",  &[(CLOCK, "hpet"), (CLOCKS, "hpet tsc acpi_pm")],             plan(),         Advice),
            ("clock-source",  &[(CLOCK, "hpet"), (CLOCKS, "hpet acpi_pm")],                 plan(),         Advice),
            ("clock-source",  &[],                                                          plan(),         Unknown),
        ];
        for (check, facts, plan, verdict) in cases {
            let found = examine(&SystemFacts::of(facts), plan);
            let found = found.iter().find(|finding| finding.check == *check).expect(check);
            assert_eq!(found.verdict, *verdict, "{check} {facts:?}: {found:?}");
        }
    }

    #[test]
    fn lists_of_the_kernel_are_counted() {
        for (list, len) in [("0", Some(1)), ("0-1", Some(2)), ("0-1,4", Some(3)), ("", None), ("1-", None)] {
            assert_eq!(list_len(list), len, "{list}");
        }
    }
}
