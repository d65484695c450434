//! CPU time of server, client and cores.
//!
//! ```text
//! time of the core = server    + client + other processes + stolen + idle
//!                    schedstat   clock    └──────── /proc/stat ────────┘
//! ```

use std::fs;
use std::io;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use crate::error::LabError;
use crate::records::cpu::CpuTimes;

/// Times of one core since boot, with the resolution of a kernel tick (usually 10 ms).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CoreTime {
    /// Time that was neither idle nor stolen.
    pub(crate) busy: Duration,
    /// Time that the hypervisor took while this core had work.
    pub(crate) steal: Duration,
    /// Time without work. The kernel measures it from change to change, but samples the times above at its ticks: if a core works for a
    /// few microseconds at fixed times, the ticks may meet the work always or never.
    pub(crate) idle: Duration,
    /// Busy and stolen time of all other cores together.
    pub(crate) other_cores: Duration,
}

impl CoreTime {
    /// Reads the times of one core.
    pub(crate) fn read(core: usize) -> io::Result<CoreTime> {
        let stat = fs::read_to_string("/proc/stat")?;
        let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second();
        CoreTime::parse(&stat, core, tick_ns).ok_or_else(|| io::Error::other("/proc/stat: no such core"))
    }

    fn parse(stat: &str, core: usize, tick_ns: u64) -> Option<CoreTime> {
        let ticks = |name: &str| {
            let line = stat.lines().find(|line| line.split(' ').next() == Some(name))?;
            let ticks: Vec<u64> =
                line.split_ascii_whitespace().skip(1).map_while(|text| text.parse().ok()).collect();
            let &[user, nice, system, idle, iowait, irq, softirq, steal, ..] = ticks.as_slice() else {
                return None;
            };
            Some((user + nice + system + irq + softirq, steal, idle + iowait))
        };
        let (busy, steal, idle) = ticks(&format!("cpu{core}"))?;
        let (all_busy, all_steal, _) = ticks("cpu")?;
        let time = |ticks: u64| Duration::from_nanos(ticks * tick_ns);
        let other_cores = (all_busy + all_steal).saturating_sub(busy + steal);
        let (busy, steal, idle) = (time(busy), time(steal), time(idle));
        Some(CoreTime { busy, steal, idle, other_cores: time(other_cores) })
    }

    /// Returns the difference to an earlier reading.
    pub(crate) fn since(self, earlier: CoreTime) -> CoreTime {
        CoreTime {
            busy: self.busy.saturating_sub(earlier.busy),
            steal: self.steal.saturating_sub(earlier.steal),
            idle: self.idle.saturating_sub(earlier.idle),
            other_cores: self.other_cores.saturating_sub(earlier.other_cores),
        }
    }
}

/// The threads of a server, its child processes included. A thread may exit at any time.
pub(crate) struct ServerThreads {
    /// The processes of the threads. The time of their reaped children counts too.
    processes: Vec<u32>,
    /// Directories of threads, `/proc/PID/task/TID`.
    paths: Vec<String>,
    ids: Vec<i32>,
    names: Vec<String>,
}

impl ServerThreads {
    /// Lists the threads of a process and of its descendants.
    pub(crate) fn of(process: u32) -> io::Result<ServerThreads> {
        let processes = process_tree(process)?;
        let mut threads = ServerThreads { processes, paths: Vec::new(), ids: Vec::new(), names: Vec::new() };
        for process in &threads.processes {
            let Some(tasks) = unless_exited(fs::read_dir(format!("/proc/{process}/task")))? else { continue };
            for task in tasks {
                let Some(task) = unless_exited(task)? else { continue };
                let id = task.file_name().into_string().unwrap_or_default();
                let path = format!("/proc/{process}/task/{id}");
                let Some(name) = unless_exited(fs::read_to_string(format!("{path}/comm")))? else { continue };
                threads.names.push(name.trim_end().to_owned());
                threads.paths.push(path);
                threads.ids.push(id.parse().map_err(io::Error::other)?);
            }
        }
        Ok(threads)
    }

    /// Returns the processes of the threads.
    pub(crate) fn processes(&self) -> &[u32] {
        &self.processes
    }

    /// Keeps the threads of this name.
    pub(crate) fn named(self, name: &str) -> ServerThreads {
        self.filter(|other| other == name)
    }

    /// Removes the threads of this name.
    pub(crate) fn without(self, name: &str) -> ServerThreads {
        self.filter(|other| other != name)
    }

    fn filter(self, keep: impl Fn(&str) -> bool) -> ServerThreads {
        let ServerThreads { processes, paths, ids, names } = self;
        let all = paths.into_iter().zip(ids).zip(names).filter(|(_, name)| keep(name));
        let ((paths, ids), names) = all.unzip();
        ServerThreads { processes, paths, ids, names }
    }

    /// Allows each thread to run on every core except those to which it was pinned.
    pub(crate) fn move_to_other_cores(&self) -> Result<(), LabError> {
        for id in &self.ids {
            let thread = Pid::from_raw(*id);
            let pinned = sched_getaffinity(thread)?;
            let mut others = CpuSet::new();
            (0..CpuSet::MAX_CPU).filter(|core| !pinned.is_set(*core)).for_each(|core| others.set(core));
            let moved = sched_setaffinity(thread, &others);
            moved.map_err(|error| format!("cannot move the log thread to another core: {error}"))?;
        }
        Ok(())
    }

    /// Returns the thread ids.
    pub(crate) fn ids(&self) -> &[i32] {
        &self.ids
    }

    /// Returns the CPU time of the threads, and of reaped children of their processes. The first number in `schedstat` is in
    /// nanoseconds; the time of reaped children has the resolution of a tick for each process.
    pub(crate) fn time(&self) -> io::Result<Duration> {
        let mut total = Duration::ZERO;
        for path in &self.paths {
            let Some(schedstat) = unless_exited(fs::read_to_string(format!("{path}/schedstat")))? else {
                continue;
            };
            let time = schedstat.split(' ').next().and_then(|text| text.parse().ok());
            total +=
                time.map(Duration::from_nanos).ok_or_else(|| io::Error::other("schedstat: no number"))?;
        }
        for process in &self.processes {
            let Some(stat) = unless_exited(fs::read_to_string(format!("/proc/{process}/stat")))? else {
                continue;
            };
            total += children_time(&stat).ok_or_else(|| io::Error::other("stat: no number"))?;
        }
        Ok(total)
    }

    /// Fails if a thread may run on another core than `core`: the times of that core would then be wrong.
    pub(crate) fn expect_pinned_to(&self, core: usize) -> Result<(), LabError> {
        for id in &self.ids {
            let set = match sched_getaffinity(Pid::from_raw(*id)) {
                Err(Errno::SRCH) => continue,
                set => set?,
            };
            if set.count() != 1 || !set.is_set(core) {
                return Err(format!("a thread of the server may run on other cores than core {core}").into());
            }
        }
        Ok(())
    }
}

/// Returns `None` if the process or thread has exited.
fn unless_exited<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => Ok(None),
        read => read.map(Some),
    }
}

/// Returns the CPU time of the reaped children of a process, from its `stat` file. proc_pid_stat(5).
fn children_time(stat: &str) -> Option<Duration> {
    // The name may contain any character; the third field follows its last parenthesis.
    let mut fields = stat.rsplit(')').next()?.split_ascii_whitespace();
    let (user, system): (u64, u64) = (fields.nth(16 - 3)?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(Duration::from_nanos((user + system) * (1_000_000_000 / rustix::param::clock_ticks_per_second())))
}

/// Returns the process and its descendants.
pub(crate) fn process_tree(process: u32) -> io::Result<Vec<u32>> {
    let mut processes = vec![process];
    let parents = parents()?;
    let mut at = 0;
    while at < processes.len() {
        let children = parents.iter().filter(|(_, parent)| *parent == processes[at]).map(|(child, _)| *child);
        processes.extend(children.collect::<Vec<_>>());
        at += 1;
    }
    Ok(processes)
}

/// Returns every process with its parent.
fn parents() -> io::Result<Vec<(u32, u32)>> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(process) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        // The process may have exited since the directory was listed.
        let Ok(stat) = fs::read_to_string(format!("/proc/{process}/stat")) else { continue };
        // The name may contain any character; state and parent follow its last parenthesis.
        let parent =
            stat.rsplit(')').next().and_then(|rest| rest.split_ascii_whitespace().nth(1)?.parse().ok());
        parents.extend(parent.map(|parent| (process, parent)));
    }
    Ok(parents)
}

/// Returns the CPU time of the calling thread.
pub(crate) fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Returns the CPU time of all threads of this process.
pub(crate) fn process_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Returns the CPU time of the children of this process that have ended, with the resolution of a tick for each of them.
pub(crate) fn ended_children_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    children_time(&stat).unwrap_or_default()
}

/// Measures CPU times from its creation to [`finish`](CpuMeter::finish).
pub(crate) struct CpuMeter {
    core: usize,
    /// Reads the CPU time of the client: that of one thread, of the process, or of children that have ended.
    client_time: fn() -> Duration,
    core_before: CoreTime,
    server_before: Duration,
    client_before: Duration,
}

impl CpuMeter {
    /// Starts measuring a core and the threads of a server.
    pub(crate) fn start(
        core: usize,
        threads: &ServerThreads,
        client_time: fn() -> Duration,
    ) -> io::Result<CpuMeter> {
        let (core_before, server_before) = (CoreTime::read(core)?, threads.time()?);
        Ok(CpuMeter { core, client_time, core_before, server_before, client_before: client_time() })
    }

    /// Returns the times since the start. `server_time` reads the CPU time of the server, after that of the client.
    pub(crate) fn finish(
        self,
        elapsed: Duration,
        server_time: impl FnOnce() -> Result<Duration, LabError>,
    ) -> Result<CpuTimes, LabError> {
        let client = (self.client_time)() - self.client_before;
        let server = server_time()?.saturating_sub(self.server_before);
        let core = CoreTime::read(self.core)?.since(self.core_before);
        Ok(CpuTimes {
            elapsed_ns: elapsed.as_nanos() as u64,
            server_ns: server.as_nanos() as u64,
            client_ns: client.as_nanos() as u64,
            busy_ns: core.busy.as_nanos() as u64,
            steal_ns: core.steal.as_nanos() as u64,
            other_cores_ns: core.other_cores.as_nanos() as u64,
        })
    }
}

/// Pins this thread, and the threads and processes that it creates, to one core.
pub(crate) fn pin(core: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(core);
    Ok(sched_setaffinity(None, &set)?)
}

/// Returns the least busy of the cores that this process may use.
pub(crate) fn least_busy(watch: Duration) -> io::Result<usize> {
    let allowed = sched_getaffinity(None)?;
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
    let before = cores.iter().map(|core| CoreTime::read(*core)).collect::<io::Result<Vec<_>>>()?;
    std::thread::sleep(watch);
    let mut least = (Duration::MAX, 0);
    for (core, before) in cores.into_iter().zip(before) {
        let time = CoreTime::read(core)?.since(before);
        // Among equals, take the last core: interrupts tend to go to the first.
        if time.busy + time.steal <= least.0 {
            least = (time.busy + time.steal, core);
        }
    }
    Ok(least.1)
}

/// The load of the machine while the lab is idle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuLoad {
    /// The share of time in which the core was busy or stolen.
    pub(crate) core: f64,
    /// How many other cores were busy or stolen.
    pub(crate) other_cores: f64,
}

impl CpuLoad {
    fn watch(core: usize) -> io::Result<CpuLoad> {
        let (before, start) = (CoreTime::read(core)?, Instant::now());
        std::thread::sleep(IDLE_TIME);
        let (time, elapsed) = (CoreTime::read(core)?.since(before), start.elapsed());
        Ok(CpuLoad {
            core: (time.busy + time.steal).div_duration_f64(elapsed),
            other_cores: time.other_cores.div_duration_f64(elapsed),
        })
    }
}

/// Waits until a core is busy for at most `share` of the time, but not much longer than `wait_max`. Returns the last load.
pub(crate) fn wait_until_idle(core: usize, share: f64, wait_max: Duration) -> io::Result<CpuLoad> {
    let start = Instant::now();
    loop {
        let load = CpuLoad::watch(core)?;
        if load.core <= share || start.elapsed() >= wait_max {
            return Ok(load);
        }
    }
}

/// How long a core must have been idle: long enough for a few percent to be a tick.
const IDLE_TIME: Duration = Duration::from_millis(400);

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn core_time_excludes_idle_and_iowait() {
        let stat = "cpu  100 100 100 9000 9000 100 100 200 0 0\ncpu1 1 2 4 800 900 8 16 32 64 0\ncpu10 5 0 0 0 0 0 0 0 0 0\nintr 1\n";
        let times = |core| {
            CoreTime::parse(stat, core, 10)
                .map(|time| [time.busy, time.steal, time.idle, time.other_cores].map(|time| time.as_nanos()))
        };
        assert_eq!(times(1), Some([310, 320, 17000, 6370]));
        assert_eq!(times(10), Some([50, 0, 0, 6950]));
        assert_eq!(times(2), None);
    }

    #[test]
    fn time_of_a_reaped_child_counts_for_its_parent() {
        let threads = ServerThreads::of(std::process::id()).unwrap();
        let before = threads.time().unwrap();
        let busy = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done";
        // The sum loses the time of each thread that ends, and other tests of this process have threads.
        let is_counted = (0..100).any(|_| {
            assert!(Command::new("sh").args(["-c", busy]).status().unwrap().success());
            threads.time().unwrap() >= before + Duration::from_millis(20)
        });
        assert!(is_counted);
        // Fields 16 and 17 of proc_pid_stat(5).
        let stat = "7 (a b) c) S 1 7 7 0 -1 0 9 9 9 9 11 12 13 14 20 0 1";
        let tick = 1_000 / rustix::param::clock_ticks_per_second();
        assert_eq!(children_time(stat), Some(Duration::from_millis(27 * tick)));
        assert_eq!(children_time("7 (a) S 1"), None);
    }

    #[test]
    fn busy_loop_adds_cpu_time() {
        let threads = ServerThreads::of(std::process::id()).unwrap();
        assert!(!threads.ids().is_empty());
        let before = threads.time().unwrap();
        // The sum loses the time of each thread that ends, and other tests of this process have threads.
        let is_counted = (0..500).any(|_| {
            let thread_before = thread_time();
            while thread_time() - thread_before < Duration::from_millis(20) {}
            std::thread::yield_now();
            threads.time().unwrap() >= before + Duration::from_millis(5)
        });
        assert!(is_counted);
    }
}
