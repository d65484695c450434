//! A profile of a server under load: utilisation, then CPU, then calls, then distributions.
//!
//! ```text
//! server ◀─ load, all the time      core times ─▶ perf record ─▶ flame graph, functions     strace -c ─▶ calls     bpftrace ─▶ histograms
//! ```

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use inferno::collapse::Collapse;
use inferno::collapse::perf::{Folder, Options as FoldOptions};
use inferno::flamegraph::{self, Options as FlameOptions};

use super::cores::TwoCores;
use super::options::{CommonArgs, IsolationArgs, TwoCoreArgs};
use crate::client::closed_loop::{ClosedLoopClient, OnClose, RequestBatch};
use crate::error::LabError;
use crate::format::percent;
use crate::generated_site;
use crate::measure::cpu::CoreTime;
use crate::records::server::PeerServer;
use crate::servers::process::ServerProcess;
use crate::servers::test_bed::TestBed;

/// Options of `tarpon-lab profile`.
#[derive(Args)]
pub(crate) struct ProfileArgs {
    /// Profile this server
    #[arg(long, value_enum, hide_possible_values = true, default_value_t = PeerServer::TarponEpoll)]
    server: PeerServer,
    /// Request a page with this many bytes of content
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    size: usize,
    /// Open this many connections
    #[arg(long, value_name = "COUNT", default_value_t = 64)]
    connections: usize,
    /// Open a new connection for each request
    #[arg(long)]
    reconnect: bool,
    /// Look this long with each program
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Write the results to this directory
    #[arg(long, value_name = "DIR", default_value = "lab/profile")]
    dir: PathBuf,
    #[command(flatten)]
    cores: TwoCoreArgs,
    #[command(flatten)]
    isolation: IsolationArgs,
    #[command(flatten)]
    common: CommonArgs,
}

/// Profiles a server, and prints what it has found in the order in which to read it.
pub(crate) fn run(args: &ProfileArgs) -> Result<(), LabError> {
    args.isolation.enter_with_usual_policy()?;
    let cores = TwoCores::choose(&args.cores)?;
    fs::create_dir_all(&args.dir)?;
    let page = ("page.html", generated_site::lines(args.size));
    let bed = TestBed::new(&env::temp_dir(), page, args.common.tarpon.as_deref(), None)?;
    let name = bed.prepare(vec![args.server])?.remove(0).name;
    let process = bed.start(args.server)?;
    let (ends, started) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let load = scope.spawn(|| {
            let loaded = cores.on_client_core(|| args.load(&process, &bed, &started, &ends));
            started.store(true, Ordering::Release);
            loaded.map_err(|error| error.to_string())
        });
        while !started.load(Ordering::Acquire) {
            thread::sleep(Duration::from_millis(5));
        }
        let profiled = if load.is_finished() { Ok(()) } else { args.profile(&name, &process, &cores) };
        ends.store(true, Ordering::Release);
        let requests = load.join().expect("the load does not panic")?;
        println!("{requests} requests in all");
        profiled
    })
}

impl ProfileArgs {
    /// Sends requests until told to end. Returns how many were answered.
    fn load(
        &self,
        process: &ServerProcess,
        bed: &TestBed,
        started: &AtomicBool,
        ends: &AtomicBool,
    ) -> Result<u64, LabError> {
        let batch = RequestBatch { closes: self.reconnect, ..RequestBatch::ONE };
        let keeps = self.server.keeps(self.connections) && !self.reconnect;
        let on_close = if keeps { OnClose::Fail } else { OnClose::Reconnect };
        let mut client =
            ClosedLoopClient::connect(process.address(), &bed.path(), batch, self.connections, on_close)?;
        let mut requests = 0;
        while !ends.load(Ordering::Acquire) {
            requests += client.run(Duration::from_millis(100))?.requests;
            started.store(true, Ordering::Release);
        }
        Ok(requests)
    }

    fn profile(&self, name: &str, process: &ServerProcess, cores: &TwoCores) -> Result<(), LabError> {
        println!("{name}, {} connections, {} bytes of content", self.connections, self.size);
        self.utilisation(cores)?;
        let before = process.processes()?;
        // A server that forks for each request has processes that end at once. Their parent passes its counters on.
        thread::sleep(SHORT_LIFE);
        let now = process.processes()?;
        let ids: Vec<String> = before.iter().filter(|id| now.contains(id)).map(u32::to_string).collect();
        for (what, looked) in [
            ("CPU", self.flame_graph(&ids)),
            ("system calls", self.calls(&ids)),
            ("response times", self.distribution("response_time", &ids)),
            ("times of calls", self.distribution("call_times", &ids)),
            ("connections", self.connections(&ids)),
        ] {
            match looked {
                Ok(text) => println!("\n== {what}\n{text}"),
                Err(error) => println!("\n== {what}: not looked at: {error}"),
            }
        }
        Ok(())
    }

    /// Prints how busy both cores are. A core that is busy all the time is the limit.
    fn utilisation(&self, cores: &TwoCores) -> Result<(), LabError> {
        let read =
            || -> Result<_, LabError> { Ok([CoreTime::read(cores.server)?, CoreTime::read(cores.client)?]) };
        let (before, start) = (read()?, Instant::now());
        thread::sleep(Duration::from_secs(1));
        let (after, elapsed) = (read()?, start.elapsed());
        let busy =
            |at: usize| percent(1.0 - after[at].since(before[at]).idle.div_duration_f64(elapsed).min(1.0));
        println!("\n== utilisation\nserver's core {}, client's core {}", busy(0), busy(1));
        Ok(())
    }

    /// Samples the stacks of the server. Returns the functions in which it was most often.
    fn flame_graph(&self, ids: &[String]) -> Result<String, LabError> {
        let data = self.dir.join("perf.data");
        let seconds = self.seconds.to_string();
        let mut record = Command::new("perf");
        record.args(["record", "--quiet", "--event=cpu-clock", "--freq=999", "--call-graph=dwarf,16384"]);
        record.args(["--pid", &ids.join(","), "--output"]).arg(&data).args(["--", "sleep", &seconds]);
        output(&mut record, "linux-perf")?;
        let mut script = Command::new("perf");
        // Names of inlined functions take minutes, as perf asks another program for each address.
        let stacks = output(script.args(["script", "--no-inline", "--input"]).arg(&data), "linux-perf")?;
        let mut folded = Vec::new();
        Folder::from(FoldOptions::default()).collapse(stacks.as_bytes(), &mut folded)?;
        let folded = String::from_utf8_lossy(&folded).into_owned();
        let mut options = FlameOptions::default();
        options.title = "Stacks of the server".to_owned();
        let graph = self.dir.join("flame.svg");
        flamegraph::from_lines(&mut options, folded.lines(), File::create(&graph)?)?;
        fs::remove_file(&data)?;
        Ok(format!("{}the graph: {}", most_often(&folded), printable(&graph)))
    }

    /// Counts the system calls, which takes time of its own.
    fn calls(&self, ids: &[String]) -> Result<String, LabError> {
        let table = self.dir.join("calls.txt");
        let seconds = self.seconds.to_string();
        let mut strace = Command::new("timeout");
        strace.args(["--signal=INT", &seconds, "strace", "-c", "-f", "-o"]).arg(&table);
        ids.iter().for_each(|id| {
            strace.args(["-p", id]);
        });
        let ended = strace.stderr(Stdio::null()).status();
        ended.map_err(|error| format!("timeout: {error}; install it (Debian: coreutils)"))?;
        let text = fs::read_to_string(&table)
            .map_err(|error| format!("strace: {error}; install it (Debian: strace)"))?;
        Ok(text.lines().take(TABLE_LINES).collect::<Vec<_>>().join("\n"))
    }

    /// Runs a script of `lab/trace` on the process that works.
    fn distribution(&self, script: &str, ids: &[String]) -> Result<String, LabError> {
        let worker = ids.last().ok_or("no process")?;
        self.trace(script, &[&script_path(script), worker])
    }

    /// Runs the script that uses the static probes of tarpon.
    fn connections(&self, ids: &[String]) -> Result<String, LabError> {
        if !self.server.is_tarpon() {
            return Err("only tarpon has these probes".into());
        }
        let worker = ids.last().ok_or("no process")?;
        self.trace("connections", &["-p", worker, &script_path("connections")])
    }

    fn trace(&self, script: &str, arguments: &[&str]) -> Result<String, LabError> {
        let mut bpftrace = Command::new("bpftrace");
        let text = output(bpftrace.args(arguments).arg(self.seconds.to_string()), "bpftrace")?;
        fs::write(self.dir.join(format!("{script}.txt")), &text)?;
        let lines: Vec<&str> =
            text.lines().filter(|line| !line.is_empty() && !line.starts_with("Attaching")).collect();
        if lines.is_empty() {
            return Ok("none: the last process of the server makes no such calls, as with io_uring or a process for each request".to_owned());
        }
        Ok(lines.into_iter().take(2 * TABLE_LINES).collect::<Vec<_>>().join("\n"))
    }
}

/// Runs a program, and returns what it prints. Fails unless it succeeds.
fn output(command: &mut Command, package: &str) -> Result<String, LabError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output =
        command.output().map_err(|error| format!("{program}: {error}; install it (Debian: {package})"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim()).into()),
    }
}

/// Returns the functions at the top of most stacks, a line for each.
fn most_often(folded: &str) -> String {
    let mut counts: Vec<(&str, u64)> = Vec::new();
    for line in folded.lines() {
        let Some((stack, count)) = line.rsplit_once(' ') else { continue };
        let (name, count) = (stack.rsplit(';').next().unwrap_or_default(), count.parse().unwrap_or(0));
        match counts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum += count,
            None => counts.push((name, count)),
        }
    }
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let all: u64 = counts.iter().map(|(_, count)| count).sum();
    let line = |(name, count): &(&str, u64)| format!("{:>6}  {name}\n", percent(*count as f64 / all as f64));
    // The clock of the samples counts nanoseconds.
    format!("{:.1} s of CPU time\n", all as f64 / 1e9)
        + &counts.iter().take(TABLE_LINES).map(line).collect::<String>()
}

/// Returns a path of the options as text.
fn printable(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// How long a process lives at least that is looked at.
const SHORT_LIFE: Duration = Duration::from_millis(100);

/// Lines of a table on the terminal.
const TABLE_LINES: usize = 16;

fn script_path(script: &str) -> String {
    format!("{SCRIPTS}/{script}.bt")
}

/// The scripts of bpftrace.
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/trace");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_ordered_by_their_samples() {
        let text = most_often(
            "server;main;read 100000000\nserver;main;write 600000000\nserver;other;read 300000000\n",
        );
        assert_eq!(text, "1.0 s of CPU time\n   60%  write\n   40%  read\n");
    }
}
