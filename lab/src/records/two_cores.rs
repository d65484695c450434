//! Times of windows in which server and client have a core each, and the number that decides whether such a window is dirty.

use serde::{Deserialize, Serialize};

use super::cold::Latencies;
use super::cpu::CpuTimes;

/// The use of the cores in a window in which server and client have a core each.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TwoCoreCpu {
    /// Server and client, and the use of the server's core.
    #[serde(flatten)]
    pub(crate) cpu: CpuTimes,
    /// Time during which the client's core was busy with any task, or stolen.
    pub(crate) client_core_busy_ns: u64,
}

impl TwoCoreCpu {
    /// Returns the share of the window in which the server's core did not run the server, or the client's core not the client, although it
    /// was busy or stolen: the larger of the two.
    pub(crate) fn other_share(&self) -> f64 {
        let cpu = &self.cpu;
        let server_core = cpu.busy_ns.saturating_sub(cpu.server_ns) + cpu.steal_ns;
        let client_core = self.client_core_busy_ns.saturating_sub(cpu.client_ns);
        server_core.max(client_core) as f64 / cpu.elapsed_ns as f64
    }
}

/// Times of a window in which server and client have a core each.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TwoCoreTimes {
    /// The operations, and the use of the server's core.
    #[serde(flatten)]
    pub(crate) latencies: Latencies,
    /// Time during which the client's core was busy with any task, or stolen.
    pub(crate) client_core_busy_ns: u64,
}

impl TwoCoreTimes {
    /// Returns the [share of other processes](TwoCoreCpu::other_share).
    pub(crate) fn other_share(&self) -> f64 {
        let cpu = TwoCoreCpu { cpu: self.latencies.cpu, client_core_busy_ns: self.client_core_busy_ns };
        cpu.other_share()
    }

    /// Returns operations per second.
    pub(crate) fn rate(&self) -> f64 {
        self.latencies.requests as f64 / (self.latencies.cpu.elapsed_ns as f64 / 1e9)
    }

    /// Returns the CPU time of the server per operation, in microseconds.
    pub(crate) fn server_us(&self) -> f64 {
        self.latencies.cpu.server_ns as f64 / 1e3 / self.latencies.requests as f64
    }

    /// Returns the CPU time of the client per operation, in microseconds.
    pub(crate) fn client_us(&self) -> f64 {
        self.latencies.cpu.client_ns as f64 / 1e3 / self.latencies.requests as f64
    }

    /// Returns the share of its core that the server used.
    pub(crate) fn server_share(&self) -> f64 {
        self.latencies.cpu.server_ns as f64 / self.latencies.cpu.elapsed_ns as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_share_is_that_of_the_busier_core() {
        #[rustfmt::skip]
        let cases = [
            // case                               busy, steal, client's core, share
            ("no others",                          400,   0,    700,           0.0),
            ("a tick too few",                     390,   0,    690,           0.0),
            ("others beside the server",           450,   0,    700,           0.05),
            ("stolen from the server",             400,  20,    700,           0.02),
            ("others beside the client",           410,   0,    770,           0.07),
        ];
        for (name, busy_ns, steal_ns, client_core_busy_ns, want) in cases {
            let (elapsed_ns, server_ns, client_ns) = (1000, 400, 700);
            let cpu = CpuTimes { elapsed_ns, server_ns, client_ns, busy_ns, steal_ns, other_cores_ns: 0 };
            let latencies = Latencies { requests: 1, p50_ns: 1, p99_ns: 1, max_ns: 1, cpu };
            let times = TwoCoreTimes { latencies, client_core_busy_ns };
            assert!((times.other_share() - want).abs() < 1e-9, "{name}");
        }
    }
}
