//! A sweep over lengths of files: what it costs a server to send them, by each method that Linux has.
//!
//! ```text
//! one core: sender ─ loopback, or a pair of virtual Ethernet devices ─▶ another core: `tarpon-lab sink`, in a namespace of its own
//! ```
//!
//! Loopback flatters methods that hand pages over: the receiver gets the same pages, and no device reads them.

use std::env;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::process::{Signal, set_parent_process_death_signal};

use super::cores::TwoCores;
use super::options::{CommonArgs, IsolationArgs, TwoCoreArgs, command_line, with_isolation};
use super::output::RecordFile;
use crate::error::LabError;
use crate::generated_site;
use crate::measure::machine::this_machine;
use crate::records::LabRecord;
use crate::records::send_method::SendMethod;
use crate::records::sweep::{SweepLink, SweepRecord, SweepSeries, SweepSettings, SweepWindow};
use crate::servers::port::unused_address;
use crate::servers::programs::run_command;
use crate::sys::file_sender::{FileSender, drain, sending_time};

/// Options of `tarpon-lab sweep`.
#[derive(Args)]
pub(crate) struct SweepArgs {
    /// Run this many rounds
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Send files of these lengths
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_values_t = SIZES, value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    sizes: Vec<u64>,
    /// Send this many MiB in each window, or one file if that is longer
    #[arg(long, value_name = "MIB", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=4096))]
    window: u32,
    /// Send over these links; that between two namespaces needs root
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [SweepLink::Loopback, SweepLink::Veth])]
    links: Vec<SweepLink>,
    #[command(flatten)]
    cores: TwoCoreArgs,
    #[command(flatten)]
    isolation: IsolationArgs,
    #[command(flatten)]
    common: CommonArgs,
}

/// Options of `tarpon-lab sink`.
#[derive(Args)]
pub(crate) struct SinkArgs {
    /// Listen on this port of all addresses
    port: u16,
}

/// Accepts connections one after the other, and drops what arrives on them. Ends with its parent.
pub(crate) fn sink(args: &SinkArgs) -> Result<(), LabError> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, args.port))?;
    loop {
        let (socket, _) = listener.accept()?;
        drain(socket)?;
    }
}

/// Measures each method at each length, prints the report and writes the record.
pub(crate) fn run(args: &SweepArgs) -> Result<(), LabError> {
    args.isolation.enter_with_usual_policy()?;
    let output = RecordFile::open(args.common.out.as_deref())?;
    let record = measure(args)?;
    output.finish(&LabRecord::Sweep(record))
}

fn measure(args: &SweepArgs) -> Result<SweepRecord, LabError> {
    let machine = this_machine();
    let cores = TwoCores::choose(&args.cores)?;
    let directory = tempfile::tempdir()?;
    for size in &args.sizes {
        fs::write(directory.path().join(size.to_string()), generated_site::noise(*size, *size as usize))?;
    }
    let settings = SweepSettings {
        rounds: args.rounds,
        head_len: HEAD_LEN,
        window_len: u64::from(args.window) << 20,
        sender_core: cores.server,
        receiver_core: cores.client,
        isolated: !args.isolation.no_isolation,
    };
    let mut series = Vec::new();
    for link in &args.links {
        let sink = cores.on_client_core(|| Sink::start(*link))?;
        let mut rounds = Vec::new();
        for round in 1..=args.rounds {
            eprintln!("{link}: round {round} of {}", args.rounds);
            rounds.push(measure_round(args, &settings, &sink, directory.path())?);
        }
        series.push(SweepSeries { link: *link, rounds });
    }
    Ok(SweepRecord { command: args.command(), machine, settings, series })
}

fn measure_round(
    args: &SweepArgs,
    settings: &SweepSettings,
    sink: &Sink,
    directory: &Path,
) -> Result<Vec<SweepWindow>, LabError> {
    let mut windows = Vec::new();
    for &size in &args.sizes {
        for method in SendMethod::ALL {
            let mut sender = FileSender::open(&directory.join(size.to_string()), vec![b'h'; HEAD_LEN])?;
            let socket = TcpStream::connect(sink.address)?;
            socket.set_nodelay(true)?;
            let files = (settings.window_len / size).clamp(1, FILES_MAX);
            // The first ones open the window of the receiver, and make the thread of the ring.
            let warm_up = files.min(WARM_UP_COUNT);
            (0..warm_up).try_for_each(|_| sender.send(method, &socket))?;
            let (start, before) = (Instant::now(), sending_time()?);
            (0..files).try_for_each(|_| sender.send(method, &socket))?;
            let cpu = sending_time()?.saturating_sub(before);
            let (cpu_ns, elapsed_ns) = (cpu.as_nanos() as u64, start.elapsed().as_nanos() as u64);
            windows.push(SweepWindow { method, size, files, cpu_ns, elapsed_ns });
        }
    }
    Ok(windows)
}

/// A receiver, on the core of the thread that starts it. Dropping the value ends it.
struct Sink {
    child: Child,
    address: SocketAddr,
}

impl Drop for Sink {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Sink {
    fn start(link: SweepLink) -> Result<Sink, LabError> {
        let port = unused_address()?.port();
        let program = env::current_exe()?;
        let mut command = match link {
            SweepLink::Loopback => Command::new(program),
            SweepLink::Veth => {
                let mut command = Command::new("unshare");
                command.args(["--net", "--"]).arg(program);
                command
            }
        };
        let child = command.args(["sink", &port.to_string()]).stdin(Stdio::null()).spawn()?;
        let mut sink = Sink { child, address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)) };
        if link == SweepLink::Veth {
            sink.address = SocketAddr::from((SINK_ADDRESS, port));
            sink.connect_namespaces()?;
        }
        let start = Instant::now();
        while TcpStream::connect(sink.address).is_err() {
            if start.elapsed() > START_TIME_MAX {
                return Err(format!("the receiver does not listen on {}", sink.address).into());
            }
            sleep(Duration::from_millis(5));
        }
        Ok(sink)
    }

    /// Makes a pair of devices, one of them in the namespace of the receiver.
    fn connect_namespaces(&self) -> Result<(), LabError> {
        let start = Instant::now();
        let own = fs::read_link("/proc/self/ns/net")?;
        // The process begins in the namespace of this one.
        while fs::read_link(format!("/proc/{}/ns/net", self.child.id()))? == own {
            if start.elapsed() > START_TIME_MAX {
                return Err("the receiver gets no network namespace of its own".into());
            }
            sleep(Duration::from_millis(5));
        }
        let process = self.child.id().to_string();
        let ip = |arguments: &str| run_command(Command::new("ip").args(arguments.split(' ')));
        let inside = |arguments: &str| {
            let mut command = Command::new("nsenter");
            command.args(["--target", &process, "--net", "--", "ip"]).args(arguments.split(' '));
            run_command(&mut command)
        };
        ip(&format!("link add lab0 type veth peer name lab1 netns {process}"))?;
        ip(&format!("address add {SENDER_ADDRESS}/24 dev lab0"))?;
        ip("link set lab0 up")?;
        inside(&format!("address add {SINK_ADDRESS}/24 dev lab1"))?;
        inside("link set lab1 up")
    }
}

impl SweepArgs {
    /// Returns the command that repeats the experiment on any machine.
    fn command(&self) -> String {
        let list = |numbers: &[u64]| numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        let links = self.links.iter().map(|link| match link {
            SweepLink::Loopback => "loopback",
            SweepLink::Veth => "veth",
        });
        let options = self.cores.after(&[
            ("rounds", self.rounds.to_string()),
            ("sizes", list(&self.sizes)),
            ("window", self.window.to_string()),
            ("links", links.collect::<Vec<_>>().join(",")),
        ]);
        with_isolation(command_line("sweep", &options), &self.isolation)
    }
}

/// From a small page to a download.
const SIZES: [u64; 10] =
    [1 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 256 << 10, 1 << 20, 16 << 20, 100 << 20];

/// As long as the head of a response of tarpon.
const HEAD_LEN: usize = 220;

/// Enough files for a window, even if they are short.
const FILES_MAX: u64 = 20_000;

const WARM_UP_COUNT: u64 = 20;

const SENDER_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const SINK_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

/// Longest wait for the receiver.
const START_TIME_MAX: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn command_contains_defaults() {
        let args = SweepCli::parse_from(["sweep", "--sizes=1,2", "--links=veth", "--no-isolation"]).args;
        let want = "tarpon-lab sweep --rounds 5 --sizes 1,2 --window 32 --links veth --no-isolation";
        assert_eq!(args.command(), want);
    }

    #[derive(Parser)]
    struct SweepCli {
        #[command(flatten)]
        args: SweepArgs,
    }
}
