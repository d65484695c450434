//! The cost of a request: instructions in user space, counted by callgrind. Unlike a time, a count hardly depends on the machine and on what
//! else runs there.
//!
//! ```text
//! instructions of a long run − instructions of a short run
//! ──────────────────────────────────────────────────────── = instructions per request, without the start
//!     requests of the long run − requests of the short run
//! ```

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;

use crate::client::http2_frames::{self, Http2Requests};
use crate::client::{self, request::RequestForm};
use crate::error::LabError;
use crate::format::thousands;
use crate::generated_site;
use crate::measure::cpu::process_tree;
use crate::measure::instructions::Callgrind;
use crate::records::cost::{CostRecord, InstructionCount};
use crate::servers::port::unused_address;
use crate::servers::programs::run_command;

/// Options of `tarpon-lab cost`.
#[derive(Args)]
pub(crate) struct CostArgs {
    /// Measure this build of tarpon [default: the program next to tarpon-lab]
    #[arg(long, value_name = "PATH")]
    tarpon: Option<PathBuf>,
    /// Measure a connection with this build of the driver, and with that of HTTP/2 next to it [default: the programs next to tarpon-lab]
    #[arg(long, value_name = "PATH")]
    conn_driver: Option<PathBuf>,
    /// Print the counts as JSON
    #[arg(long)]
    json: bool,
    /// Fail if a count is more than 2% higher than the accepted one
    #[arg(long)]
    check: bool,
    /// Write the counts to the file of accepted counts
    #[arg(long, conflicts_with = "check")]
    accept: bool,
    /// Read and write the accepted counts in this file
    #[arg(long, value_name = "FILE", default_value = "lab/results/cost.json")]
    accepted: PathBuf,
}

/// Counts the instructions per request, prints them, and checks or accepts them.
pub(crate) fn run(args: &CostArgs) -> Result<(), LabError> {
    let mut accepted = read_accepted(args)?;
    let measured = CostRecord { rustc: rustc_version(), counts: measure(args)? };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&measured.counts)?);
    } else {
        print_table(&measured, &accepted);
    }
    if args.check {
        accepted.check(&measured)?;
    }
    if args.accept {
        accepted.accept(&measured);
        fs::write(&args.accepted, serde_json::to_string_pretty(&accepted)? + "\n")?;
    }
    Ok(())
}

fn measure(args: &CostArgs) -> Result<Vec<InstructionCount>, LabError> {
    let next_to_lab = |name: &str| Ok::<PathBuf, LabError>(std::env::current_exe()?.with_file_name(name));
    let tarpon = args.tarpon.clone().map_or_else(|| next_to_lab("tarpon"), Ok)?;
    let driver = args.conn_driver.clone().map_or_else(|| next_to_lab("tarpon-conn-driver"), Ok)?;
    let http2_driver = driver.with_file_name(HTTP2_DRIVER);
    let programs =
        [(&tarpon, "tarpon"), (&driver, "tarpon-conn-driver"), (&http2_driver, "tarpon-conn-driver")];
    for (program, package) in programs {
        if !program.exists() {
            let hint = format!("run `cargo build --release --package {package}`");
            return Err(format!("{}: no such program; {hint}", program.display()).into());
        }
    }
    let bench = CostBench::new(tarpon)?;
    let mut counts = Vec::new();
    let requests = [
        ("conn-small", RequestForm::Short, SHORT_HOST),
        ("conn-browser", RequestForm::Browser, BROWSER_HOST),
    ];
    for (name, form, host) in requests {
        let request = form.request(host, PATH);
        let run = |count| bench.connection_instructions(&driver, &request, count);
        counts.push(InstructionCount {
            name: name.into(),
            profile: profile(&driver),
            instructions: per_request(CONN_RUNS, run)?,
        });
    }
    for (name, form, host) in [
        ("conn-h2-small", RequestForm::Short, SHORT_HOST),
        ("conn-h2-browser", RequestForm::Browser, BROWSER_HOST),
    ] {
        let requests = Http2Requests::new("http", host, PATH, form);
        let run = |count| bench.http2_instructions(&http2_driver, &requests, count);
        counts.push(InstructionCount {
            name: name.into(),
            profile: profile(&driver),
            instructions: per_request(HTTP2_RUNS, run)?,
        });
    }
    let run = |count| bench.server_instructions(count);
    let instructions = per_request(SERVER_RUNS, run)?;
    counts.push(InstructionCount {
        name: "epoll-small".into(),
        profile: profile(&bench.tarpon),
        instructions,
    });
    Ok(counts)
}

/// Returns the instructions of one request, rounded.
fn per_request(
    (short, long): (u32, u32),
    run: impl Fn(u32) -> Result<u64, LabError>,
) -> Result<u64, LabError> {
    let (short_count, long_count) = (run(short)?, run(long)?);
    let requests = u64::from(long - short);
    let more = long_count.checked_sub(short_count).ok_or("a run of more requests had fewer instructions")?;
    Ok((more + requests / 2) / requests)
}

/// A packed site, and a directory for requests and counts.
struct CostBench {
    directory: TempDir,
    tarpon: PathBuf,
    callgrind: Callgrind,
}

impl CostBench {
    fn new(tarpon: PathBuf) -> Result<CostBench, LabError> {
        let directory = tempfile::Builder::new().prefix("tarpon-lab-").tempdir()?;
        let counts = directory.path().join("counts");
        fs::create_dir(&counts)?;
        let bench = CostBench { directory, tarpon, callgrind: Callgrind::new(counts) };
        let pages = bench.path("pages");
        fs::create_dir(&pages)?;
        fs::write(pages.join("index.html"), generated_site::lines(PAGE_LEN))?;
        let mut pack = Command::new(&bench.tarpon);
        pack.arg("pack").arg(pages).arg("--output").arg(bench.site()).arg("--effort=fast");
        run_command(pack.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()))?;
        Ok(bench)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn site(&self) -> PathBuf {
        self.path("site.tar")
    }

    /// Counts a connection in memory that receives a request `count` times.
    fn connection_instructions(&self, driver: &Path, request: &[u8], count: u32) -> Result<u64, LabError> {
        let file = self.path("request");
        fs::write(&file, request)?;
        let count = count.to_string();
        self.callgrind.run(driver, &[self.site().as_ref(), file.as_ref(), OsStr::new(&count)])
    }

    /// The same over HTTP/2, with 32 requests at a time. The first request of the connection, which fills the table of fields, belongs to
    /// the opening.
    fn http2_instructions(
        &self,
        driver: &Path,
        requests: &Http2Requests,
        count: u32,
    ) -> Result<u64, LabError> {
        let (opening, request) = (self.path("opening"), self.path("request"));
        let first = [http2_frames::opening(STREAM_WINDOW), http2_frames::settings_ack(), requests.headers(1)]
            .concat();
        fs::write(&opening, first)?;
        fs::write(&request, requests.headers(3))?;
        let (count, streams) = (count.to_string(), STREAMS.to_string());
        self.callgrind.run(
            driver,
            &[self.site().as_ref(), opening.as_ref(), request.as_ref(), streams.as_ref(), count.as_ref()],
        )
    }

    /// Counts a server on epoll that receives a request `count` times on one connection.
    fn server_instructions(&self, count: u32) -> Result<u64, LabError> {
        let address = unused_address()?;
        let output = fs::File::create(self.path("server.log"))?;
        let mut command = self.callgrind.command(&self.tarpon);
        command.arg("serve").arg(self.site()).arg(format!("--listen={address}"));
        // The sandbox forbids system calls that callgrind makes for the server.
        command.args(["--engine=epoll", "--workers=1", "--no-sandbox", "--compress=off"]);
        if geteuid().is_root() {
            // Another user could not write the counts.
            command.arg("--user=root");
        }
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let mut server = CountedServer { child: command.spawn()?, address };
        let served = server.serve(count);
        server.stop()?;
        let log = || fs::read_to_string(self.path("server.log")).unwrap_or_default();
        let worker = served.map_err(|error| format!("{error}\n{}", log()))?;
        self.callgrind.count(worker)
    }
}

/// A server under callgrind. Dropping the value kills it.
struct CountedServer {
    child: Child,
    address: SocketAddr,
}

impl CountedServer {
    /// Requests a page `count` times on one connection. Returns the process that served it.
    fn serve(&mut self, count: u32) -> Result<u32, LabError> {
        let mut stream = self.connect()?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(START_TIME_MAX))?;
        let mut wire = Vec::new();
        let request = RequestForm::Short.request(SHORT_HOST, PATH);
        for _ in 0..count {
            stream.write_all(&request)?;
            let size = client::read_response(&mut stream, &mut wire)?;
            wire.drain(..size.len());
        }
        let name_of = |process: &u32| fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
        let worker =
            process_tree(self.child.id())?.into_iter().find(|process| name_of(process).trim() == SERVER_NAME);
        Ok(worker.ok_or_else(|| format!("no process is named {SERVER_NAME}"))?)
    }

    fn connect(&mut self) -> Result<TcpStream, LabError> {
        let start = Instant::now();
        loop {
            match TcpStream::connect(self.address) {
                Ok(stream) => return Ok(stream),
                Err(error) if start.elapsed() > START_TIME_MAX => return Err(error.into()),
                Err(_) => sleep(POLL_INTERVAL),
            }
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("the server exited before it listened: {status}").into());
            }
        }
    }

    /// Sends SIGTERM, and waits until callgrind has written its counts.
    fn stop(&mut self) -> Result<(), LabError> {
        if let (None, Some(process)) = (self.child.try_wait()?, Pid::from_raw(self.child.id() as i32)) {
            kill_process(process, Signal::TERM)?;
        }
        let start = Instant::now();
        while self.child.try_wait()?.is_none() {
            if start.elapsed() > START_TIME_MAX {
                return Err("the server did not exit after SIGTERM".into());
            }
            sleep(POLL_INTERVAL);
        }
        Ok(())
    }
}

impl Drop for CountedServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the profile of Cargo that built a program, by the name of its directory.
fn profile(program: &Path) -> String {
    match program.parent().and_then(Path::file_name).map(OsStr::to_string_lossy).as_deref() {
        Some("debug") => "dev".into(),
        Some(name) => name.into(),
        None => "unknown".into(),
    }
}

fn rustc_version() -> String {
    let output = Command::new("rustc").arg("--version").output();
    let version = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    version.unwrap_or_else(|_| "unknown".into())
}

fn read_accepted(args: &CostArgs) -> Result<CostRecord, LabError> {
    match fs::read(&args.accepted) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
        Err(_) if !args.check => Ok(CostRecord::default()),
        Err(error) => Err(format!("{}: {error}", args.accepted.display()).into()),
    }
}

fn print_table(measured: &CostRecord, accepted: &CostRecord) {
    println!("{:16}{:10}{:>14}{:>10}{:>9}", "", "profile", "instructions", "accepted", "change");
    for count in &measured.counts {
        let before = accepted.accepted(count);
        let change = before.map_or(String::new(), |before| {
            format!("{:+.1}%", (count.instructions as f64 / before as f64 - 1.0) * 100.0)
        });
        let before = before.map_or(String::new(), |before| thousands(before as usize));
        let instructions = thousands(count.instructions as usize);
        println!("{:16}{:10}{instructions:>14}{before:>10}{change:>9}", count.name, count.profile);
    }
}

/// The path and the hosts of the requests, the short one of 36 bytes and the one of a browser of 680 bytes.
const PATH: &str = "/index.html";
const SHORT_HOST: &str = "a";
const BROWSER_HOST: &str = "www.example.org";

/// Requests of a short and of a long run, in memory.
const CONN_RUNS: (u32, u32) = (100, 1_100);

/// The same over HTTP/2: multiples of the streams at a time.
const HTTP2_RUNS: (u32, u32) = (4 * STREAMS, 36 * STREAMS);

/// Streams of a connection at a time, and the window of each of them.
const STREAMS: u32 = 32;
const STREAM_WINDOW: u32 = 65_535;

/// Requests of a short and of a long run of a server. Among so many requests, the dates that the worker renders once per second do not matter.
const SERVER_RUNS: (u32, u32) = (200, 16_200);

/// Bytes of the page.
const PAGE_LEN: usize = 1024;

/// The driver of HTTP/2, which the package of the driver has too.
const HTTP2_DRIVER: &str = "tarpon-http2-driver";

/// The name of the process that serves requests.
const SERVER_NAME: &str = "tarpon-server";

/// Longest wait for a start, a response or an exit: under callgrind all take fifty times as long.
const START_TIME_MAX: Duration = Duration::from_secs(60);

const POLL_INTERVAL: Duration = Duration::from_millis(20);
