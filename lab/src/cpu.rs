//! Who used a core: the server, the client, or somebody else.
//!
//! ```text
//! core's time = server + client + foreign + stolen + idle
//!               schedstat  clock   └── /proc/stat ──┘
//! ```

use std::fs;
use std::io;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use crate::Trouble;

/// What a core has done since the machine started, to a tick of the kernel (10 ms as a rule).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CoreTime {
    /// Anything but idling, time stolen excluded.
    pub(crate) busy: Duration,
    /// Time the host gave to others while this core had work.
    pub(crate) steal: Duration,
    /// Both, on all the other cores together.
    pub(crate) elsewhere: Duration,
}

impl CoreTime {
    /// Of one core, now.
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
            let &[user, nice, system, _idle, _iowait, irq, softirq, steal, ..] = ticks.as_slice() else {
                return None;
            };
            Some((user + nice + system + irq + softirq, steal))
        };
        let (busy, steal) = ticks(&format!("cpu{core}"))?;
        let (all_busy, all_steal) = ticks("cpu")?;
        let time = |ticks: u64| Duration::from_nanos(ticks * tick_ns);
        let elsewhere = (all_busy + all_steal).saturating_sub(busy + steal);
        Some(CoreTime { busy: time(busy), steal: time(steal), elsewhere: time(elsewhere) })
    }

    /// What was done since `earlier`.
    pub(crate) fn since(self, earlier: CoreTime) -> CoreTime {
        CoreTime {
            busy: self.busy.saturating_sub(earlier.busy),
            steal: self.steal.saturating_sub(earlier.steal),
            elsewhere: self.elsewhere.saturating_sub(earlier.elsewhere),
        }
    }
}

/// The threads of a server and of the processes it has started. Those of a process may be gone when they are asked about.
pub(crate) struct Threads {
    /// Whose children's time is theirs as well.
    processes: Vec<u32>,
    /// Directories of threads, `/proc/PID/task/TID`.
    paths: Vec<String>,
    ids: Vec<i32>,
    names: Vec<String>,
}

impl Threads {
    /// Of the process and its descendants, as they are now.
    pub(crate) fn of(process: u32) -> io::Result<Threads> {
        let processes = family(process)?;
        let mut threads = Threads { processes, paths: Vec::new(), ids: Vec::new(), names: Vec::new() };
        for process in &threads.processes {
            let Some(tasks) = unless_gone(fs::read_dir(format!("/proc/{process}/task")))? else { continue };
            for task in tasks {
                let Some(task) = unless_gone(task)? else { continue };
                let id = task.file_name().into_string().unwrap_or_default();
                let path = format!("/proc/{process}/task/{id}");
                let Some(name) = unless_gone(fs::read_to_string(format!("{path}/comm")))? else { continue };
                threads.names.push(name.trim_end().to_owned());
                threads.paths.push(path);
                threads.ids.push(id.parse().map_err(io::Error::other)?);
            }
        }
        Ok(threads)
    }

    /// Those of this name.
    pub(crate) fn named(self, name: &str) -> Threads {
        self.only(|other| other == name)
    }

    /// The others.
    pub(crate) fn without(self, name: &str) -> Threads {
        self.only(|other| other != name)
    }

    fn only(self, is_meant: impl Fn(&str) -> bool) -> Threads {
        let Threads { processes, paths, ids, names } = self;
        let all = paths.into_iter().zip(ids).zip(names).filter(|(_, name)| is_meant(name));
        let ((paths, ids), names) = all.unzip();
        Threads { processes, paths, ids, names }
    }

    /// Lets each of them run on every core but the one it was bound to.
    pub(crate) fn move_away(&self) -> Result<(), Trouble> {
        for id in &self.ids {
            let thread = Pid::from_raw(*id);
            let bound = sched_getaffinity(thread)?;
            let mut elsewhere = CpuSet::new();
            (0..CpuSet::MAX_CPU).filter(|core| !bound.is_set(*core)).for_each(|core| elsewhere.set(core));
            let moved = sched_setaffinity(thread, &elsewhere);
            moved.map_err(|error| format!("there is no other core for the log: {error}"))?;
        }
        Ok(())
    }

    /// Their numbers.
    pub(crate) fn ids(&self) -> &[i32] {
        &self.ids
    }

    /// CPU time they have used, and the children of their processes that have ended: to a tick of the kernel for each process
    /// with such children. The first number in `schedstat` is in nanoseconds.
    pub(crate) fn time(&self) -> io::Result<Duration> {
        let mut total = Duration::ZERO;
        for path in &self.paths {
            let Some(schedstat) = unless_gone(fs::read_to_string(format!("{path}/schedstat")))? else {
                continue;
            };
            let ran = schedstat.split(' ').next().and_then(|text| text.parse().ok());
            total += ran.map(Duration::from_nanos).ok_or_else(|| io::Error::other("schedstat: no number"))?;
        }
        for process in &self.processes {
            let Some(stat) = unless_gone(fs::read_to_string(format!("/proc/{process}/stat")))? else {
                continue;
            };
            total += children_time(&stat).ok_or_else(|| io::Error::other("stat: no number"))?;
        }
        Ok(total)
    }

    /// Fails if one of them may run elsewhere than on `core`: then nothing measured there holds.
    pub(crate) fn expect_on(&self, core: usize) -> Result<(), Trouble> {
        for id in &self.ids {
            let set = match sched_getaffinity(Pid::from_raw(*id)) {
                Err(Errno::SRCH) => continue,
                set => set?,
            };
            if set.count() != 1 || !set.is_set(core) {
                return Err(format!("it left core {core}, on which it was started").into());
            }
        }
        Ok(())
    }
}

/// `None`: what it is about has ended meanwhile.
fn unless_gone<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => Ok(None),
        read => read.map(Some),
    }
}

/// CPU time of the children that a process has waited for, and of theirs, out of its `stat`. proc_pid_stat(5).
fn children_time(stat: &str) -> Option<Duration> {
    // The name may contain anything; behind its last parenthesis comes the third field.
    let mut fields = stat.rsplit(')').next()?.split_ascii_whitespace();
    let (user, system): (u64, u64) = (fields.nth(16 - 3)?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(Duration::from_nanos((user + system) * (1_000_000_000 / rustix::param::clock_ticks_per_second())))
}

/// The process and its descendants, as they are now.
pub(crate) fn family(process: u32) -> io::Result<Vec<u32>> {
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

/// Every process with its parent.
fn parents() -> io::Result<Vec<(u32, u32)>> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(process) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        // A process may end while we look.
        let Ok(stat) = fs::read_to_string(format!("/proc/{process}/stat")) else { continue };
        // The name may contain anything; behind its last parenthesis come state and parent.
        let parent =
            stat.rsplit(')').next().and_then(|rest| rest.split_ascii_whitespace().nth(1)?.parse().ok());
        parents.extend(parent.map(|parent| (process, parent)));
    }
    Ok(parents)
}

/// CPU time of the thread that asks.
pub(crate) fn own_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// CPU time of all threads of this process.
pub(crate) fn process_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Keeps this thread, and what it starts, on one core.
pub(crate) fn pin(core: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(core);
    Ok(sched_setaffinity(None, &set)?)
}

/// The core with the least to do just now, of those this process may use.
pub(crate) fn least_busy(watch: Duration) -> io::Result<usize> {
    let allowed = sched_getaffinity(None)?;
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
    let before = cores.iter().map(|core| CoreTime::read(*core)).collect::<io::Result<Vec<_>>>()?;
    std::thread::sleep(watch);
    let mut least = (Duration::MAX, 0);
    for (core, before) in cores.into_iter().zip(before) {
        let time = CoreTime::read(core)?.since(before);
        // Of equals the last: interrupts tend to go to the first.
        if time.busy + time.steal <= least.0 {
            least = (time.busy + time.steal, core);
        }
    }
    Ok(least.1)
}

/// What a machine had to do while nothing of ours ran.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// The share of its time in which the core was busy or stolen.
    pub(crate) core: f64,
    /// How many of the other cores were.
    pub(crate) elsewhere: f64,
}

impl Load {
    fn watch(core: usize) -> io::Result<Load> {
        let (before, start) = (CoreTime::read(core)?, Instant::now());
        std::thread::sleep(QUIET_TIME);
        let (time, elapsed) = (CoreTime::read(core)?.since(before), start.elapsed());
        Ok(Load {
            core: (time.busy + time.steal).div_duration_f64(elapsed),
            elsewhere: time.elsewhere.div_duration_f64(elapsed),
        })
    }
}

/// Waits until a core has no more to do than `share` of its time, at most for about `longest`. Returns what it
/// had to do at last.
pub(crate) fn await_quiet(core: usize, share: f64, longest: Duration) -> io::Result<Load> {
    let start = Instant::now();
    loop {
        let load = Load::watch(core)?;
        if load.core <= share || start.elapsed() >= longest {
            return Ok(load);
        }
    }
}

/// How long a core must have been quiet: long enough for a few percent to be a tick.
const QUIET_TIME: Duration = Duration::from_millis(400);

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_core_is_busy_with_all_but_idling_and_waiting() {
        let stat = "cpu  100 100 100 9000 9000 100 100 200 0 0\ncpu1 1 2 4 800 900 8 16 32 64 0\ncpu10 5 0 0 0 0 0 0 0 0 0\nintr 1\n";
        let times = |core| {
            CoreTime::parse(stat, core, 10)
                .map(|time| [time.busy, time.steal, time.elsewhere].map(|time| time.as_nanos()))
        };
        assert_eq!(times(1), Some([310, 320, 6370]));
        assert_eq!(times(10), Some([50, 0, 6950]));
        assert_eq!(times(2), None);
    }

    #[test]
    fn of_a_child_that_has_ended_its_parent_has_the_time() {
        let threads = Threads::of(std::process::id()).unwrap();
        let before = threads.time().unwrap();
        let busy = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done";
        assert!(Command::new("sh").args(["-c", busy]).status().unwrap().success());
        assert!(threads.time().unwrap() >= before + Duration::from_millis(20));
        // The fields 16 and 17 of proc_pid_stat(5).
        let stat = "7 (a b) c) S 1 7 7 0 -1 0 9 9 9 9 11 12 13 14 20 0 1";
        let tick = 1_000 / rustix::param::clock_ticks_per_second();
        assert_eq!(children_time(stat), Some(Duration::from_millis(27 * tick)));
        assert_eq!(children_time("7 (a) S 1"), None);
    }

    #[test]
    fn time_spent_is_seen() {
        let threads = Threads::of(std::process::id()).unwrap();
        assert!(!threads.ids().is_empty());
        let (before, own_before) = (threads.time().unwrap(), own_time());
        while own_time() - own_before < Duration::from_millis(20) {}
        std::thread::yield_now();
        assert!(threads.time().unwrap() >= before + Duration::from_millis(5));
    }
}
