//! Backlogs, buffers and algorithms of TCP.

use super::{
    finding::Finding,
    sysctl_rules::SysctlRule,
    system_facts::{SystemFacts, SystemPlan},
};

pub(super) fn examine(facts: &SystemFacts, plan: &SystemPlan) -> Vec<Finding> {
    let judge = |check| SysctlRule::of(check).judge(facts);
    vec![
        judge("accept-backlog"),
        syn_backlog(facts),
        judge("syn-cookies"),
        judge("send-buffers"),
        judge("receive-buffers"),
        judge("slow-start-after-idle"),
        fast_open(facts),
        time_wait_reuse(facts, plan),
        local_ports(facts, plan),
        congestion_control(facts),
        queue_discipline(facts),
    ]
}

/// With SYN cookies the accept backlog bounds handshakes, not this setting.
fn syn_backlog(facts: &SystemFacts) -> Finding {
    let rule = SysctlRule::of("syn-backlog");
    let (value, cookies) = (facts.sysctl(rule.name), facts.sysctl("net.ipv4.tcp_syncookies"));
    match (value, cookies.as_deref()) {
        (Ok(value), Ok("1" | "2")) => {
            let why = "With SYN cookies the kernel needs no larger one: beyond the accept backlog it answers by cookies.";
            Finding::good(rule.check, value, why)
        }
        _ => rule.judge(facts),
    }
}

fn fast_open(facts: &SystemFacts) -> Finding {
    const CHECK: &str = "fast-open";
    const NAME: &str = "net.ipv4.tcp_fastopen";
    const WHY: &str = "Only a listener with fast-open asks for TCP Fast Open: browsers do not use it, and many networks drop its packets.";
    /// The kernel uses it on every listening socket: Linux, ip-sysctl.rst.
    const FOR_ALL: u64 = 0x400;
    /// Servers may use it.
    const FOR_SERVERS: u64 = 0x2;
    match facts.sysctl(NAME).map(|value| value.parse::<u64>().map_err(|_| value)) {
        Err(why) => Finding::unknown(CHECK, why, WHY),
        Ok(Err(value)) => Finding::unknown(CHECK, format!("{NAME} has the unexpected value {value}"), WHY),
        Ok(Ok(bits)) if bits & FOR_ALL != 0 && bits & FOR_SERVERS != 0 => {
            let value = format!("{bits}: used on every listener, also those of tarpon");
            Finding::good(
                CHECK,
                value,
                "A request in the first packet may arrive twice. A static site does not mind.",
            )
        }
        Ok(Ok(bits)) if bits & FOR_SERVERS != 0 => {
            Finding::good(CHECK, format!("{bits}: for listeners with fast-open"), WHY)
        }
        Ok(Ok(bits)) => Finding::good(CHECK, format!("{bits}: not for servers, with fast-open neither"), WHY),
    }
}

fn time_wait_reuse(facts: &SystemFacts, plan: &SystemPlan) -> Finding {
    let rule = SysctlRule::of("time-wait-reuse");
    match facts.sysctl(rule.name).as_deref() {
        // 2: only over loopback.
        Ok(value @ ("1" | "2")) => Finding::good(rule.check, value, rule.why),
        Ok(value @ "0") if !plan.has_upstreams => {
            let why = "It is about connections to upstream servers, and has no effect on those of clients.";
            Finding::good(rule.check, format!("{value}: no matter without upstream servers"), why)
        }
        _ => rule.judge(facts),
    }
}

fn local_ports(facts: &SystemFacts, plan: &SystemPlan) -> Finding {
    const CHECK: &str = "local-ports";
    const NAME: &str = "net.ipv4.ip_local_port_range";
    const WHY: &str =
        "Each connection to an upstream server takes a port of this range. Clients of tarpon take none.";
    let value = match facts.sysctl(NAME) {
        Ok(value) => value,
        Err(why) => return Finding::unknown(CHECK, why, WHY),
    };
    let ports: Vec<u64> = value.split(' ').filter_map(|port| port.parse().ok()).collect();
    match ports[..] {
        [first, last] if first <= last && last - first < LOCAL_PORTS_ENOUGH && plan.has_upstreams => {
            let command = format!("sysctl -w {NAME}='32768 60999'");
            Finding::advice(CHECK, value, WHY, "widen the range").command(command)
        }
        [first, last] if first <= last => Finding::good(CHECK, value, WHY),
        _ => Finding::unknown(CHECK, format!("{NAME} has the unexpected value {value}"), WHY),
    }
}

/// Half of the usual range.
const LOCAL_PORTS_ENOUGH: u64 = 14_000;

fn congestion_control(facts: &SystemFacts) -> Finding {
    const CHECK: &str = "congestion-control";
    const NAME: &str = "net.ipv4.tcp_congestion_control";
    const WHY: &str = "CUBIC suits most networks. BBR may send faster over long lossy paths, and may take more than its share of a link.";
    let available = facts.sysctl("net.ipv4.tcp_available_congestion_control");
    let has_bbr = available.is_ok_and(|all| all.split(' ').any(|name| name == "bbr"));
    match facts.sysctl(NAME).as_deref() {
        Err(why) => Finding::unknown(CHECK, why, WHY),
        Ok("bbr") => Finding::good(CHECK, "bbr", WHY),
        Ok("cubic") => {
            let bbr = if has_bbr { "bbr is available" } else { "bbr is not loaded" };
            Finding::good(CHECK, format!("cubic; {bbr}"), WHY)
        }
        Ok(other) => {
            Finding::advice(CHECK, other, WHY, format!("use cubic, unless {other} was chosen on purpose"))
                .command(format!("sysctl -w {NAME}=cubic"))
        }
    }
}

fn queue_discipline(facts: &SystemFacts) -> Finding {
    let rule = SysctlRule::of("queue-discipline");
    let uses_bbr = facts.sysctl("net.ipv4.tcp_congestion_control").as_deref() == Ok("bbr");
    match facts.sysctl(rule.name).as_deref() {
        Ok(value @ ("fq_codel" | "cake")) if !uses_bbr => Finding::good(rule.check, value, rule.why),
        _ => rule.judge(facts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::doctor::finding::Verdict::{self, Advice, Good, Unknown};
    use crate::control::doctor::system_facts::TestSettings;

    #[test]
    fn settings_have_verdicts_and_changes() {
        #[rustfmt::skip]
        let cases: &[(&str, bool, TestSettings, Verdict, Option<&str>)] = &[
            // check                   upstreams  settings                                             verdict  proposal
            ("accept-backlog",         false, &[("net.core.somaxconn", "4096")],                       Good,    None),
            ("accept-backlog",         false, &[("net.core.somaxconn", "128")],                        Advice,  Some("4096")),
            ("accept-backlog",         false, &[],                                                     Unknown, None),
            ("syn-backlog",            false, &[("net.ipv4.tcp_max_syn_backlog", "256")],              Advice,  Some("8192")),
            ("syn-backlog",            false, &[("net.ipv4.tcp_max_syn_backlog", "256"), ("net.ipv4.tcp_syncookies", "0")], Advice, Some("8192")),
            ("syn-backlog",            false, &[("net.ipv4.tcp_max_syn_backlog", "256"), ("net.ipv4.tcp_syncookies", "1")], Good, None),
            ("syn-backlog",            false, &[("net.ipv4.tcp_syncookies", "1")],                     Unknown, None),
            ("syn-cookies",            false, &[("net.ipv4.tcp_syncookies", "1")],                     Good,    None),
            ("syn-cookies",            false, &[("net.ipv4.tcp_syncookies", "2")],                     Advice,  Some("1")),
            ("send-buffers",           false, &[("net.ipv4.tcp_wmem", "4096 16384 4194304")],          Advice,  Some("4096 16384 16777216")),
            ("send-buffers",           false, &[("net.ipv4.tcp_wmem", "4096 65536 33554432")],         Good,    None),
            ("receive-buffers",        false, &[("net.ipv4.tcp_rmem", "4096 131072 6291456")],         Good,    None),
            ("slow-start-after-idle",  false, &[("net.ipv4.tcp_slow_start_after_idle", "1")],          Advice,  Some("0")),
            ("fast-open",              false, &[("net.ipv4.tcp_fastopen", "1")],                       Good,    None),
            ("fast-open",              false, &[("net.ipv4.tcp_fastopen", "1027")],                    Good,    None),
            ("fast-open",              false, &[("net.ipv4.tcp_fastopen", "x")],                       Unknown, None),
            ("time-wait-reuse",        false, &[("net.ipv4.tcp_tw_reuse", "0")],                       Good,    None),
            ("time-wait-reuse",        true,  &[("net.ipv4.tcp_tw_reuse", "0")],                       Advice,  Some("1")),
            ("time-wait-reuse",        true,  &[("net.ipv4.tcp_tw_reuse", "2")],                       Good,    None),
            ("local-ports",            true,  &[("net.ipv4.ip_local_port_range", "32768 60999")],      Good,    None),
            ("local-ports",            true,  &[("net.ipv4.ip_local_port_range", "60000 60999")],      Advice,  None),
            ("local-ports",            false, &[("net.ipv4.ip_local_port_range", "60000 60999")],      Good,    None),
            ("local-ports",            true,  &[("net.ipv4.ip_local_port_range", "9 1")],              Unknown, None),
            ("congestion-control",     false, &[("net.ipv4.tcp_congestion_control", "cubic")],         Good,    None),
            ("congestion-control",     false, &[("net.ipv4.tcp_congestion_control", "vegas")],         Advice,  None),
            ("queue-discipline",       false, &[("net.core.default_qdisc", "pfifo_fast")],             Advice,  Some("fq")),
            ("queue-discipline",       false, &[("net.core.default_qdisc", "fq_codel")],               Good,    None),
            ("queue-discipline",       false, &[("net.core.default_qdisc", "fq_codel"), ("net.ipv4.tcp_congestion_control", "bbr")], Advice, Some("fq")),
            ("queue-discipline",       false, &[],                                                     Unknown, None),
        ];
        for (check, has_upstreams, settings, verdict, proposal) in cases {
            let plan = SystemPlan { has_upstreams: *has_upstreams, ..SystemPlan::of_test() };
            let found = examine(&SystemFacts::of(settings), &plan);
            let found = found.iter().find(|finding| finding.check == *check).expect(check);
            let to = found.change.as_ref().map(|change| &*change.to);
            assert_eq!((found.verdict, to), (*verdict, *proposal), "{settings:?}: {found:?}");
        }
    }
}
