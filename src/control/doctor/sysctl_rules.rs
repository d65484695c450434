//! The settings of the kernel that the doctor may change, with the values that it proposes: `packaging/sysctl.d/90-tarpon.conf` has the
//! same ones, as a test shows.

use super::{
    finding::{Finding, SysctlChange},
    system_facts::SystemFacts,
};
use crate::sys::BACKLOG;

/// A setting that the doctor may change. No other setting is ever written, whatever a record of former values says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SysctlRule {
    /// The check that judges it.
    pub(super) check: &'static str,
    /// The name, as in `net.core.somaxconn`.
    pub(super) name: &'static str,
    /// How the value is judged.
    pub(super) wanted: WantedValue,
    pub(super) why: &'static str,
}

/// The values of a setting that are good.
#[derive(Clone, Copy, Debug)]
pub(super) enum WantedValue {
    /// At least the first number; otherwise the second one is proposed.
    AtLeast(u64, u64),
    /// This value.
    Exactly(&'static str),
    /// Three numbers, of which the last one is at least this.
    MaximumAtLeast(u64),
}

/// All of them.
#[rustfmt::skip]
pub(crate) const SYSCTL_RULES: [SysctlRule; 11] = [
    SysctlRule { check: "accept-backlog", name: "net.core.somaxconn", wanted: WantedValue::AtLeast(BACKLOG as u64, BACKLOG as u64),
        why: "Connections wait in this queue until a worker accepts them. tarpon asks for 4096 places; if the queue is full, clients retry after a second." },
    SysctlRule { check: "syn-backlog", name: "net.ipv4.tcp_max_syn_backlog", wanted: WantedValue::AtLeast(8192, 8192),
        why: "Without SYN cookies the kernel drops new handshakes beyond three quarters of this number." },
    SysctlRule { check: "syn-cookies", name: "net.ipv4.tcp_syncookies", wanted: WantedValue::Exactly("1"),
        why: "With 1 the kernel answers a flood of SYNs by cookies instead of dropping clients, and only then." },
    SysctlRule { check: "send-buffers", name: "net.ipv4.tcp_wmem", wanted: WantedValue::MaximumAtLeast(16 << 20),
        why: "The largest window of a connection: 16 MiB fill 100 Mbit/s over 1.3 s. The kernel takes the memory only when needed." },
    SysctlRule { check: "receive-buffers", name: "net.ipv4.tcp_rmem", wanted: WantedValue::MaximumAtLeast(1 << 20),
        why: "Clients send little to a site. Uploads to upstream servers need more room." },
    SysctlRule { check: "slow-start-after-idle", name: "net.ipv4.tcp_slow_start_after_idle", wanted: WantedValue::Exactly("0"),
        why: "With 0 an idle connection keeps its congestion window, so the next page does not start slowly again." },
    SysctlRule { check: "queue-discipline", name: "net.core.default_qdisc", wanted: WantedValue::Exactly("fq"),
        why: "fq paces packets, which BBR expects and others benefit from. A network device takes it when it is set up." },
    SysctlRule { check: "time-wait-reuse", name: "net.ipv4.tcp_tw_reuse", wanted: WantedValue::Exactly("1"),
        why: "It lets new connections to upstream servers take ports in TIME_WAIT. It has no effect on connections of clients." },
    SysctlRule { check: "file-table", name: "fs.file-max", wanted: WantedValue::AtLeast(65_536, 1 << 20),
        why: "The limit of open files of all processes together." },
    SysctlRule { check: "watches", name: "fs.inotify.max_user_watches", wanted: WantedValue::AtLeast(65_536, 524_288),
        why: "tarpon watches each subdirectory of a site that is a directory. A packed site needs no watch." },
    SysctlRule { check: "watch-instances", name: "fs.inotify.max_user_instances", wanted: WantedValue::AtLeast(128, 1024),
        why: "Each site that is a directory takes an inotify instance, and another one during a reload or upgrade." },
];

impl SysctlRule {
    /// Returns the rule of a check.
    pub(super) fn of(check: &str) -> SysctlRule {
        let mut rules = SYSCTL_RULES.into_iter();
        rules.find(|rule| rule.check == check).expect("the checks name rules of the table")
    }

    /// Judges the value of the setting.
    pub(super) fn judge(self, facts: &SystemFacts) -> Finding {
        let SysctlRule { check, name, wanted, why } = self;
        match facts.sysctl(name) {
            Err(reason) => Finding::unknown(check, reason, why),
            Ok(value) => match wanted.proposal(&value) {
                Err(()) => Finding::unknown(check, format!("{name} has the unexpected value {value}"), why),
                Ok(None) => Finding::good(check, value, why),
                Ok(Some(to)) => {
                    let change = SysctlChange { name, from: value.clone(), to: to.clone() };
                    Finding::advice(check, value, why, format!("set {name} to {to}")).change(change)
                }
            },
        }
    }
}

impl WantedValue {
    /// Returns the rule with another least number, and the same proposal.
    pub(super) fn at_least(self, least: u64) -> WantedValue {
        match self {
            WantedValue::AtLeast(_, proposed) => WantedValue::AtLeast(least, proposed.max(least)),
            other => other,
        }
    }

    /// Returns the value to set. `None`: the present one is good.
    fn proposal(self, value: &str) -> Result<Option<String>, ()> {
        let number = |text: &str| text.parse::<u64>().map_err(drop);
        match self {
            WantedValue::AtLeast(least, proposed) => {
                Ok((number(value)? < least).then(|| proposed.to_string()))
            }
            WantedValue::Exactly(wanted) => Ok((value != wanted).then(|| wanted.to_owned())),
            WantedValue::MaximumAtLeast(least) => {
                let [low, usual, high] = value.split(' ').collect::<Vec<_>>()[..] else { return Err(()) };
                let (low, usual) = (number(low)?, number(usual)?);
                Ok((number(high)? < least).then(|| format!("{low} {usual} {least}")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_below_the_wanted_ones_get_a_proposal() {
        use WantedValue::{AtLeast, Exactly, MaximumAtLeast};
        #[rustfmt::skip]
        let cases = [
            (AtLeast(4096, 8192),   "128",                    Ok(Some("8192"))),
            (AtLeast(4096, 8192),   "4095",                   Ok(Some("8192"))),
            (AtLeast(4096, 8192),   "4096",                   Ok(None)),
            (AtLeast(4096, 8192),   "9223372036854775807",    Ok(None)),
            (AtLeast(4096, 8192),   "many",                   Err(())),
            (AtLeast(4096, 8192),   "-1",                     Err(())),
            (Exactly("fq"),         "fq",                     Ok(None)),
            (Exactly("fq"),         "pfifo_fast",             Ok(Some("fq"))),
            (MaximumAtLeast(1000),  "1 10 1000",              Ok(None)),
            (MaximumAtLeast(1000),  "1 10 999",               Ok(Some("1 10 1000"))),
            (MaximumAtLeast(1000),  "1 10",                   Err(())),
            (MaximumAtLeast(1000),  "1 x 999",                Err(())),
        ];
        for (wanted, value, want) in cases {
            assert_eq!(wanted.proposal(value), want.map(|to| to.map(str::to_owned)), "{wanted:?} {value}");
        }
    }

    /// From the defaults of the kernel, the proposals are the lines of the file.
    #[test]
    fn proposals_agree_with_the_packaged_file() {
        let file = include_str!("../../../packaging/sysctl.d/90-tarpon.conf");
        let lines = file.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let mut count = 0;
        for line in lines {
            let (name, value) = line.split_once(" = ").expect("a name and a value");
            let rule = SYSCTL_RULES.iter().find(|rule| rule.name == name);
            let rule = rule.unwrap_or_else(|| panic!("the doctor does not know {name}"));
            let default = match rule.wanted {
                WantedValue::AtLeast(..) => "1",
                WantedValue::Exactly(_) => "pfifo_fast",
                WantedValue::MaximumAtLeast(_) => "4096 16384 4194304",
            };
            assert_eq!(rule.wanted.proposal(default), Ok(Some(value.to_owned())), "{name}");
            count += 1;
        }
        assert_eq!(count, 7, "each line of the file is a setting");
    }
}
