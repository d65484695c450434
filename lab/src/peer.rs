//! How each server is started, at its best, and ended.
//!
//! All of them serve the same directory with one worker, or a pool of those that serve one connection each, on the core of the thread that starts them, each
//! time on a new port.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::Trouble;
use crate::check::check;
use crate::client::{Client, Keeping};
use crate::cpu::{self, Threads};
use crate::limit;
use crate::record::Entrant;

/// A server the lab can start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Server {
    /// The limit on epoll.
    NullEpoll,
    /// The limit on io_uring.
    NullUring,
    /// The server in this repository, on io_uring.
    TarponUring,
    /// The same on epoll.
    TarponEpoll,
    /// The same on poll.
    TarponPoll,
    /// The same with a pool of threads, each for one connection.
    TarponThreads,
    /// The same with a pool of processes, each for one connection.
    TarponPrefork,
    /// The same with a process for each connection.
    TarponFork,
    /// An earlier build of it, on io_uring.
    BeforeUring,
    /// The same on epoll.
    BeforeEpoll,
    /// The server in this repository, with the site in a tar archive, on io_uring.
    TarponUringTar,
    /// The same on epoll.
    TarponEpollTar,
    /// The server in this repository, with the packed site, on io_uring.
    TarponUringPacked,
    /// The same on epoll.
    TarponEpollPacked,
    /// An earlier build of it, with the packed site, on io_uring.
    BeforeUringPacked,
    /// The same on epoll.
    BeforeEpollPacked,
    /// The server in this repository, with an access log, on io_uring.
    TarponUringLog,
    /// The same on epoll.
    TarponEpollLog,
    /// nginx, with its cache of open files.
    Nginx,
    /// nginx, with an access log.
    NginxLog,
    /// nginx, and what it sends is read from the disk by a pool of threads.
    NginxThreads,
}

/// What a server serves the site from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As it is.
    Directory,
    /// In a tar archive.
    Tar,
    /// In one that `tarpon pack` has made.
    Packed,
}

impl Server {
    /// What it is called on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned())
    }

    /// Whether it answers anything with the same bytes.
    pub(crate) fn is_null(self) -> bool {
        matches!(self, Server::NullEpoll | Server::NullUring)
    }

    /// Whether it is a build of the server in this repository.
    pub(crate) fn is_tarpon(self) -> bool {
        !self.is_null() && !self.is_nginx()
    }

    fn is_nginx(self) -> bool {
        matches!(self, Server::Nginx | Server::NginxLog | Server::NginxThreads)
    }

    /// Whether it writes a line of each request to a file.
    pub(crate) fn is_logging(self) -> bool {
        matches!(self, Server::TarponUringLog | Server::TarponEpollLog | Server::NginxLog)
    }

    /// What an earlier build is compared with: the one of now, on the same engine.
    pub(crate) fn after(self) -> Option<Server> {
        match self {
            Server::BeforeUring => Some(Server::TarponUring),
            Server::BeforeEpoll => Some(Server::TarponEpoll),
            Server::BeforeUringPacked => Some(Server::TarponUringPacked),
            Server::BeforeEpollPacked => Some(Server::TarponEpollPacked),
            _ => None,
        }
    }

    /// The engine of a null server or of tarpon, by the name that tarpon has for it.
    fn engine(self) -> Option<&'static str> {
        use Server::*;
        match self {
            NullUring | TarponUring | BeforeUring | TarponUringTar | TarponUringPacked
            | BeforeUringPacked | TarponUringLog => Some("io_uring"),
            NullEpoll | TarponEpoll | BeforeEpoll | TarponEpollTar | TarponEpollPacked
            | BeforeEpollPacked | TarponEpollLog => Some("epoll"),
            TarponPoll => Some("poll"),
            TarponThreads => Some("threads"),
            TarponPrefork => Some("prefork"),
            TarponFork => Some("fork"),
            Nginx | NginxLog | NginxThreads => None,
        }
    }

    /// Its workers, where each serves one connection at a time; of all others there is one.
    fn pool(self) -> Option<usize> {
        match self {
            Server::TarponThreads | Server::TarponPrefork => Some(POOL_LEN),
            Server::TarponFork => Some(FORK_COUNT_MAX),
            _ => None,
        }
    }

    /// What becomes of so many connections.
    pub(crate) fn keeping(self, connections: usize) -> Keeping {
        if self.pool().is_some_and(|len| len < connections) { Keeping::Some } else { Keeping::All }
    }

    /// What it serves the site from; a null server from nothing.
    pub(crate) fn form(self) -> Form {
        use Server::*;
        match self {
            TarponUringTar | TarponEpollTar => Form::Tar,
            TarponUringPacked | TarponEpollPacked | BeforeUringPacked | BeforeEpollPacked => Form::Packed,
            _ => Form::Directory,
        }
    }

    /// Whether it races only when it is named.
    pub(crate) fn is_peer(self) -> bool {
        use Server::{TarponFork, TarponPoll, TarponPrefork, TarponThreads};
        let is_other = matches!(self, TarponPoll | TarponThreads | TarponPrefork | TarponFork);
        self.form() != Form::Directory || self.is_nginx() || self.is_logging() || is_other
    }
}

/// Servers as on the command line.
pub(crate) fn names(servers: &[Server]) -> String {
    servers.iter().map(|server| server.name()).collect::<Vec<_>>().join(",")
}

/// What servers need to run: a directory to serve, programs, a place for their files.
pub(crate) struct Stage {
    directory: TempDir,
    /// The page that shows whether a server is worth timing.
    page: &'static str,
    content: Vec<u8>,
    tarpon: PathBuf,
    before: Option<PathBuf>,
    /// Bytes of the head that the null servers send.
    null_head_len: usize,
}

impl Stage {
    /// Prepares a site with one page, by its name and content, in a new directory in `place`.
    pub(crate) fn set(
        place: &Path,
        (page, content): (&'static str, Vec<u8>),
        tarpon: Option<&Path>,
        before: Option<&Path>,
    ) -> Result<Stage, Trouble> {
        let directory = tempfile::Builder::new()
            .prefix("tarpon-lab-")
            .tempdir_in(place)
            .map_err(|error| format!("{}: {error}", place.display()))?;
        // tarpon serves as another user than root.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755))?;
        let tarpon = match tarpon {
            Some(path) => path.to_owned(),
            None => std::env::current_exe()?.with_file_name("tarpon"),
        };
        let before = before.map(Path::to_owned);
        let stage = Stage { directory, page, content, tarpon, before, null_head_len: limit::HEAD_LEN };
        fs::create_dir(stage.site())?;
        fs::write(stage.site().join(page), &stage.content)?;
        Ok(stage)
    }

    /// The directory that is served. More may be put into it before [`entrants`](Stage::entrants) is called.
    pub(crate) fn site(&self) -> PathBuf {
        self.directory.path().join("site")
    }

    /// Where the site lies in this form.
    pub(crate) fn site_as(&self, form: Form) -> PathBuf {
        match form {
            Form::Directory => self.site(),
            Form::Tar => self.directory.path().join("site.tar"),
            Form::Packed => self.directory.path().join("packed.tar"),
        }
    }

    /// The servers of these that this host can run, with their versions; and the site in the forms that they need.
    pub(crate) fn entrants(&self, mut servers: Vec<Server>) -> Result<Vec<Entrant>, Trouble> {
        if let Err(error) = limit::probe() {
            eprintln!(
                "left out: null io_uring, tarpon on io_uring; this host does not offer io_uring ({error})"
            );
            servers.retain(|server| server.engine() != Some("io_uring"));
        }
        if servers.is_empty() {
            return Err("no server is left; see --only".into());
        }
        let mut entrants = Vec::new();
        for server in servers {
            entrants.push(Entrant { server, name: self.version(server)? });
        }
        let needs = |form| entrants.iter().any(|entrant| entrant.server.form() == form);
        if needs(Form::Tar) {
            let mut tar = Command::new("tar");
            run(tar.arg("-cf").arg(self.site_as(Form::Tar)).arg("-C").arg(self.site()).arg("."))?;
        }
        if needs(Form::Packed) {
            run(&mut self.pack(&self.site(), &self.site_as(Form::Packed), "fast"))?;
        }
        Ok(entrants)
    }

    /// The command that packs a directory. Without `best` effort only what is compressed is larger.
    pub(crate) fn pack(&self, from: &Path, to: &Path, effort: &str) -> Command {
        let mut command = Command::new(&self.tarpon);
        command.arg("pack").arg(from).arg("--output").arg(to).arg(format!("--effort={effort}"));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    /// What is asked of every server.
    pub(crate) fn path(&self) -> String {
        format!("/{}", self.page)
    }

    /// Name and version, as the program tells it. Fails where it is not installed.
    fn version(&self, server: Server) -> Result<String, Trouble> {
        let Some(engine) = server.engine() else {
            return nginx_version().map(|name| name + nginx_variant(server) + log_variant(server));
        };
        if server.is_null() {
            return Ok(format!("null {engine}"));
        }
        let form = match server.form() {
            Form::Directory => "",
            Form::Tar => ", tar",
            Form::Packed => ", packed",
        };
        let version = program_version(self.program(server)?)?;
        let name = if server.after().is_some() { "tarpon before" } else { "tarpon" };
        let version = version.replacen("tarpon", name, 1);
        Ok(format!("{version}{form}, {engine}{}", log_variant(server)))
    }

    /// Name and version of tarpon.
    pub(crate) fn tarpon_version(&self) -> Result<String, Trouble> {
        program_version(&self.tarpon)
    }

    /// Lets the null servers answer with as many bytes as this server does. Fewer would cost less, and the limit
    /// would be out of reach.
    pub(crate) fn match_null(&mut self, server: Server) -> Result<(), Trouble> {
        let running = self.start(server)?;
        let response_len = Client::connect(running.address(), &self.path(), 1, Keeping::All)?.response_len();
        self.null_head_len = response_len - self.content.len();
        Ok(())
    }

    /// Starts a server, waits until it answers, and checks that it is worth timing.
    pub(crate) fn start(&self, server: Server) -> Result<Running, Trouble> {
        let mut running = self.spawn(server)?;
        running
            .connect()
            .and_then(|_| check(running.address, &self.path(), &self.content, !server.is_null()))
            .map_err(|error| format!("{error}\n{}", self.said()))?;
        running.set_apart()?;
        Ok(running)
    }

    /// Starts a server and returns at once.
    pub(crate) fn spawn(&self, server: Server) -> Result<Running, Trouble> {
        // In a network of our own nobody else takes it before the server does.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let mut command = self.command(server, address)?;
        let log = self.log();
        command
            .stdin(Stdio::null())
            .stdout(File::create(&log)?)
            .stderr(File::options().append(true).open(&log)?);
        // None begins with the lines of another one.
        let _ = fs::remove_file(self.access_log());
        let began = Instant::now();
        Ok(Running { server, child: command.spawn()?, address, began })
    }

    /// What the last server has said.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(self.log()).unwrap_or_default()
    }

    fn log(&self) -> PathBuf {
        self.directory.path().join("server.log")
    }

    fn access_log(&self) -> PathBuf {
        self.directory.path().join("access.log")
    }

    fn command(&self, server: Server, address: SocketAddr) -> Result<Command, Trouble> {
        let listen = format!("--listen={address}");
        let Some(engine) = server.engine() else {
            let prefix = self.directory.path();
            let configuration = prefix.join("nginx.conf");
            fs::write(&configuration, nginx_configuration(server, prefix, &self.site(), address))?;
            let mut command = Command::new("nginx");
            command
                .arg("-p")
                .arg(prefix)
                .arg("-c")
                .arg(configuration)
                .arg("-e")
                .arg(prefix.join("nginx.log"));
            return Ok(command);
        };
        if server.is_null() {
            let mut command = Command::new(std::env::current_exe()?);
            let engine = if engine == "io_uring" { "uring" } else { engine };
            let size = format!("--size={}", self.content.len());
            let head = format!("--head={}", self.null_head_len);
            command.args(["null", &listen, &size, &head, &format!("--engine={engine}")]);
            return Ok(command);
        }
        let program = self.program(server)?;
        let mut command = Command::new(program);
        command.arg("serve").arg(self.site_as(server.form()));
        let workers = format!("--workers={}", server.pool().unwrap_or(1));
        command.args([&listen, &workers, &format!("--engine={engine}")]);
        if server.is_logging() {
            command.arg("--access-log").arg(self.access_log());
        }
        if offers(program, REQUESTS_MAX)? {
            command.arg(format!("{REQUESTS_MAX}={}", u32::MAX));
        }
        Ok(command)
    }

    /// The build of tarpon that a server is.
    fn program(&self, server: Server) -> Result<&Path, Trouble> {
        match server.after() {
            None => Ok(&self.tarpon),
            Some(_) => Ok(self.before.as_deref().ok_or("name the earlier build with --before")?),
        }
    }
}

/// Runs a command to its end, which has to be a good one.
pub(crate) fn run(command: &mut Command) -> Result<(), Trouble> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|error| format!("{program}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{program}: {status}").into()) }
}

fn program_version(program: &Path) -> Result<String, Trouble> {
    Ok(said(program, &["--version"])?.trim().to_owned())
}

/// Whether a build of tarpon has an option. An earlier one may not, nor what it is about.
fn offers(program: &Path, option: &str) -> Result<bool, Trouble> {
    Ok(said(program, &["serve", "--help"])?.contains(option))
}

fn said(program: &Path, arguments: &[&str]) -> Result<String, Trouble> {
    let output = Command::new(program).args(arguments).output().map_err(|error| {
        let remedy = "build it with `cargo build --release`, or name it with --tarpon or --before";
        format!("{}: {error}; {remedy}", program.display())
    })?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn nginx_version() -> Result<String, Trouble> {
    let output = Command::new("nginx").arg("-v").output().map_err(|error| {
        format!("nginx: {error}; install it (Debian: nginx-light), or leave it out with --only")
    })?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Ok(said.rsplit(": ").next().unwrap_or_default().replace('/', " "))
}

fn log_variant(server: Server) -> &'static str {
    if server.is_logging() { ", access log" } else { "" }
}

fn nginx_variant(server: Server) -> &'static str {
    if server == Server::NginxThreads { ", aio threads" } else { "" }
}

/// nginx at its best: open files cached, connections kept for ever, nothing logged, or by the buffer. `tcp_nopush` would
/// hold back the last part of what is pipelined.
fn nginx_configuration(server: Server, prefix: &Path, site: &Path, address: SocketAddr) -> String {
    let (prefix, site) = (prefix.display(), site.display());
    let log = match server.is_logging() {
        true => format!("{prefix}/access.log combined buffer=64k flush=1s"),
        false => "off".to_owned(),
    };
    let aio = if server == Server::NginxThreads { "threads" } else { "off" };
    format!(
        "daemon off;
         user root root;
         worker_processes 1;
         worker_rlimit_nofile 65536;
         pid {prefix}/nginx.pid;
         error_log {prefix}/nginx.log;
         events {{ worker_connections 32768; }}
         http {{
             access_log {log};
             sendfile on;
             aio {aio};
             tcp_nopush off;
             tcp_nodelay on;
             keepalive_requests 1000000000;
             keepalive_timeout 1h;
             open_file_cache max=16384 inactive=1h;
             open_file_cache_valid 1h;
             open_file_cache_min_uses 1;
             types {{ text/html html; }}
             client_body_temp_path {prefix}/temp;
             proxy_temp_path {prefix}/temp;
             fastcgi_temp_path {prefix}/temp;
             uwsgi_temp_path {prefix}/temp;
             scgi_temp_path {prefix}/temp;
             server {{ listen {address} backlog=65535; root {site}; }}
         }}\n"
    )
}

/// A server that answers; it ends with this value.
pub(crate) struct Running {
    server: Server,
    child: Child,
    address: SocketAddr,
    began: Instant,
}

impl Running {
    /// Where it answers.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Just before its process was made.
    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    /// It, and its children.
    pub(crate) fn processes(&self) -> Result<Vec<u32>, Trouble> {
        Ok(cpu::family(self.child.id())?)
    }

    /// Its threads, and those of its children; without one that was set apart.
    pub(crate) fn threads(&self) -> Result<Threads, Trouble> {
        let threads = Threads::of(self.child.id())?;
        Ok(if self.sets_apart() { threads.without(LOG_THREAD) } else { threads })
    }

    /// Lets what writes the log of tarpon run on any core but that of its worker, as it does where nobody binds the two to
    /// one. What nginx logs, its worker writes.
    fn set_apart(&self) -> Result<(), Trouble> {
        if self.sets_apart() {
            Threads::of(self.child.id())?.named(LOG_THREAD).move_away()?;
        }
        Ok(())
    }

    fn sets_apart(&self) -> bool {
        self.server.is_logging() && self.server.is_tarpon()
    }

    /// Connects as soon as it listens.
    pub(crate) fn connect(&mut self) -> Result<TcpStream, Trouble> {
        let start = Instant::now();
        loop {
            if let Ok(stream) = TcpStream::connect(self.address) {
                return Ok(stream);
            }
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("it ended before it answered: {status}").into());
            }
            if start.elapsed() > START_TIME_MAX {
                return Err(format!("no answer within {} s of its start", START_TIME_MAX.as_secs()).into());
            }
            sleep(CONNECT_INTERVAL);
        }
    }

    /// Waits up to `time` for the process to end.
    fn ended_within(&mut self, time: Duration) -> bool {
        let start = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(None) if start.elapsed() < time => sleep(POLL_INTERVAL),
                Ok(None) => return false,
                _ => return true,
            }
        }
    }
}

impl Drop for Running {
    /// Asks it to end, insists if it does not, and waits until its port is free: what an io_uring listener
    /// still accepts must not be in the next window.
    fn drop(&mut self) {
        let threads = Threads::of(self.child.id());
        if let Some(process) =
            Pid::from_raw(self.child.id() as i32).filter(|_| !self.ended_within(Duration::ZERO))
        {
            let _ = kill_process(process, Signal::TERM);
        }
        if !self.ended_within(END_TIME_MAX) {
            for thread in threads.iter().flat_map(Threads::ids) {
                let _ = Pid::from_raw(*thread).map(|thread| kill_process(thread, Signal::KILL));
            }
            let _ = self.child.wait();
        }
        let start = Instant::now();
        while TcpStream::connect(self.address).is_ok() && start.elapsed() < END_TIME_MAX {
            sleep(POLL_INTERVAL);
        }
    }
}

/// The thread of tarpon that writes its access log.
const LOG_THREAD: &str = "log";

/// Workers of one connection each: as many as tarpon has where nobody says how many.
const POOL_LEN: usize = 64;

/// Processes of one connection each, at most: the same.
const FORK_COUNT_MAX: usize = 256;

/// How tarpon is told to keep connections, as nginx is: what is measured is not how they are made.
const REQUESTS_MAX: &str = "--keepalive-requests";

/// Longest wait for a server to answer after its start.
const START_TIME_MAX: Duration = Duration::from_secs(10);

/// Longest wait for a server to end when asked to.
const END_TIME_MAX: Duration = Duration::from_secs(2);

/// How often a server that is starting is tried: what is timed with it takes milliseconds.
const CONNECT_INTERVAL: Duration = Duration::from_micros(100);

const POLL_INTERVAL: Duration = Duration::from_millis(5);
