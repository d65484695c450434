//! The cores of server and client, and the times on them.

use std::io;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity};

use crate::error::LabError;
use crate::experiments::options::{CoreArgs, LabUpstreamCoreArgs, TwoCoreArgs};
use crate::experiments::rounds::pin_to_core;
use crate::measure::cpu::{self, CoreTime, CpuMeter, ServerThreads};
use crate::records::cold::Latencies;
use crate::records::two_cores::{TwoCoreCpu, TwoCoreTimes};
use crate::servers::upstream::LabUpstream;
use crate::stats::quantile;

/// The cores of an experiment in which server and client have a core each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TwoCores {
    pub(crate) server: usize,
    pub(crate) client: usize,
    /// A core that neither of them uses, if the lab may use three.
    third: Option<usize>,
}

impl TwoCores {
    /// Chooses two different cores, and pins this thread to that of the server: servers that it starts stay there.
    pub(crate) fn choose(args: &TwoCoreArgs) -> Result<TwoCores, LabError> {
        let &TwoCoreArgs { core: server, client_core: client, .. } = args;
        let allowed = sched_getaffinity(None)?;
        // A core of the server that was not given must differ from a given core of the client.
        let free = |core: &usize| allowed.is_set(*core) && Some(*core) != client;
        let only = (0..CpuSet::MAX_CPU).filter(free).collect::<Vec<_>>();
        let core = match only[..] {
            [core] => server.or(Some(core)),
            _ => server,
        };
        let server = pin_to_core(&CoreArgs { core, idle_wait: 0 })?;
        let client = client.or_else(|| only.iter().copied().find(|core| *core != server));
        let third = only.into_iter().find(|core| *core != server && Some(*core) != client);
        match client {
            Some(client) if client != server => Ok(TwoCores { server, client, third }),
            _ => Err("server and client need a core each, and the lab may use one core only".into()),
        }
    }

    /// Runs a function while this thread, and threads that it creates, are pinned to the core of the client.
    pub(crate) fn on_client_core<T>(&self, run: impl FnOnce() -> Result<T, LabError>) -> Result<T, LabError> {
        self.on_core(self.client, run)
    }

    fn on_core<T>(&self, core: usize, run: impl FnOnce() -> Result<T, LabError>) -> Result<T, LabError> {
        cpu::pin(core).map_err(|error| format!("core {core}: {error}"))?;
        let result = run();
        cpu::pin(self.server)?;
        result
    }

    /// Starts the server behind proxies, with responses of these lengths: on the given core, on a third one, or on that of the client.
    pub(crate) fn start_upstream(
        &self,
        args: &LabUpstreamCoreArgs,
        sizes: &[usize],
    ) -> Result<(LabUpstream, usize), LabError> {
        let core = args.upstream_core.or(self.third).unwrap_or(self.client);
        if core == self.server {
            return Err("the core of the server is for the server alone; change `--upstream-core`".into());
        }
        Ok((self.on_core(core, || LabUpstream::start(sizes))?, core))
    }

    /// The same as [`measure`](TwoCores::measure) with an upstream. Returns its CPU time too, which is no time of other processes.
    pub(crate) fn measure_with_upstream(
        &self,
        (upstream, core): (&LabUpstream, usize),
        threads: impl Fn() -> Result<ServerThreads, LabError>,
        run: impl FnOnce() -> Result<(usize, Vec<u64>), LabError>,
    ) -> Result<(TwoCoreTimes, Duration), LabError> {
        let before = upstream.cpu_time()?;
        let mut times = self.measure(threads, run)?;
        let upstream_time = upstream.cpu_time()?.saturating_sub(before);
        if core == self.client {
            let upstream_ns = upstream_time.as_nanos() as u64;
            times.client_core_busy_ns = times.client_core_busy_ns.saturating_sub(upstream_ns);
        }
        Ok((times, upstream_time))
    }

    /// Measures the CPU times of operations. `threads` lists the threads of the server, which may start more of them in the meantime. `run`
    /// returns the number of operations, and the times of most of them in nanoseconds.
    pub(crate) fn measure(
        &self,
        threads: impl Fn() -> Result<ServerThreads, LabError>,
        run: impl FnOnce() -> Result<(usize, Vec<u64>), LabError>,
    ) -> Result<TwoCoreTimes, LabError> {
        let ((requests, mut times), TwoCoreCpu { cpu, client_core_busy_ns }) =
            self.measure_cpu(threads, cpu::process_time, run)?;
        times.sort_unstable();
        if times.is_empty() {
            return Err("no operation was completed in the window; make it longer".into());
        }
        let latencies = Latencies {
            requests,
            p50_ns: quantile(&times, 0.5),
            p99_ns: quantile(&times, 0.99),
            max_ns: quantile(&times, 1.0),
            cpu,
        };
        Ok(TwoCoreTimes { latencies, client_core_busy_ns })
    }

    /// Measures the CPU times of anything that a client does. `client_time` reads the CPU time of the client.
    pub(crate) fn measure_cpu<T>(
        &self,
        threads: impl Fn() -> Result<ServerThreads, LabError>,
        client_time: fn() -> Duration,
        run: impl FnOnce() -> Result<T, LabError>,
    ) -> Result<(T, TwoCoreCpu), LabError> {
        let read = || -> io::Result<_> { Ok([CoreTime::read(self.server)?, CoreTime::read(self.client)?]) };
        let (before, all) = (read()?, Instant::now());
        let meter = CpuMeter::start(self.server, &threads()?, client_time)?;
        let start = Instant::now();
        let result = run()?;
        let mut cpu = meter.finish(start.elapsed(), || Ok(threads()?.time()?))?;
        let (after, all) = (read()?, all.elapsed());
        let core_time = |at: usize| after[at].since(before[at]);
        let (server_core, client_core) = (core_time(0), core_time(1));
        // Both cores are idle for a part of the window, so the ticks of the kernel sample their work too coarsely.
        cpu.busy_ns = (all.saturating_sub(server_core.idle + server_core.steal)).as_nanos() as u64;
        let client_core_busy = all.saturating_sub(client_core.idle);
        Ok((result, TwoCoreCpu { cpu, client_core_busy_ns: client_core_busy.as_nanos() as u64 }))
    }
}
