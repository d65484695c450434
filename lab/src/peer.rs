//! How each server is started, at its best, and ended.
//!
//! All of them serve the same directory with one worker, on the core of the thread that starts them, each
//! time on a new port.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener, TcpStream};
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
use crate::client::Client;
use crate::cpu::Threads;
use crate::limit::{self, Engine};

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
    /// An earlier build of it, on io_uring.
    BeforeUring,
    /// The same on epoll.
    BeforeEpoll,
    /// The server in this repository, with the site in a tar archive, on io_uring.
    TarponUringTar,
    /// The same on epoll.
    TarponEpollTar,
    /// nginx, with its cache of open files.
    Nginx,
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
        use Server::*;
        matches!(self, TarponUring | TarponEpoll | TarponUringTar | TarponEpollTar) || self.after().is_some()
    }

    /// What an earlier build is compared with: the one of now, on the same engine.
    pub(crate) fn after(self) -> Option<Server> {
        match self {
            Server::BeforeUring => Some(Server::TarponUring),
            Server::BeforeEpoll => Some(Server::TarponEpoll),
            _ => None,
        }
    }

    /// The engine of a null server or of tarpon.
    pub(crate) fn engine(self) -> Option<Engine> {
        use Server::*;
        match self {
            NullUring | TarponUring | BeforeUring | TarponUringTar => Some(Engine::Uring),
            NullEpoll | TarponEpoll | BeforeEpoll | TarponEpollTar => Some(Engine::Epoll),
            Nginx => None,
        }
    }

    /// Whether it races only when it is named.
    pub(crate) fn is_peer(self) -> bool {
        matches!(self, Server::TarponUringTar | Server::TarponEpollTar | Server::Nginx)
    }
}

/// What servers need to run: a directory to serve, programs, a place for their files.
pub(crate) struct Stage {
    directory: TempDir,
    content: Vec<u8>,
    tarpon: PathBuf,
    before: Option<PathBuf>,
    /// Bytes of the head that the null servers send.
    null_head_len: usize,
}

impl Stage {
    /// Prepares a site with one page of `size` bytes.
    pub(crate) fn set(size: usize, tarpon: Option<&Path>, before: Option<&Path>) -> Result<Stage, Trouble> {
        let directory = tempfile::Builder::new().prefix("tarpon-lab-").tempdir()?;
        let content = limit::content(size);
        fs::create_dir(directory.path().join("site"))?;
        fs::write(directory.path().join("site").join(PAGE), &content)?;
        let archived = Command::new("tar")
            .current_dir(directory.path())
            .args(["-cf", ARCHIVE, "-C", "site", "."])
            .status()
            .map_err(|error| format!("tar: {error}"))?;
        if !archived.success() {
            return Err(format!("tar: {archived}").into());
        }
        let tarpon = match tarpon {
            Some(path) => path.to_owned(),
            None => std::env::current_exe()?.with_file_name("tarpon"),
        };
        let before = before.map(Path::to_owned);
        Ok(Stage { directory, content, tarpon, before, null_head_len: limit::HEAD_LEN })
    }

    /// What is asked of every server.
    pub(crate) fn path(&self) -> String {
        format!("/{PAGE}")
    }

    /// Name and version, as the program tells it. Fails where it is not installed.
    pub(crate) fn version(&self, server: Server) -> Result<String, Trouble> {
        match server {
            Server::NullEpoll => Ok("null epoll".into()),
            Server::NullUring => Ok("null io_uring".into()),
            Server::TarponUring => Ok(format!("{}, io_uring", tarpon_version(&self.tarpon)?)),
            Server::TarponEpoll => Ok(format!("{}, epoll", tarpon_version(&self.tarpon)?)),
            Server::BeforeUring => Ok(format!("{}, io_uring", self.before_version()?)),
            Server::BeforeEpoll => Ok(format!("{}, epoll", self.before_version()?)),
            Server::TarponUringTar => Ok(format!("{}, tar, io_uring", tarpon_version(&self.tarpon)?)),
            Server::TarponEpollTar => Ok(format!("{}, tar, epoll", tarpon_version(&self.tarpon)?)),
            Server::Nginx => {
                let output = Command::new("nginx").arg("-v").output().map_err(|error| {
                    format!("nginx: {error}; install it (Debian: nginx-light), or leave it out with --only")
                })?;
                let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                Ok(said.rsplit(": ").next().unwrap_or_default().replace('/', " "))
            }
        }
    }

    /// Lets the null servers answer with as many bytes as this server does. Fewer would cost less, and the limit
    /// would be out of reach.
    pub(crate) fn match_null(&mut self, server: Server) -> Result<(), Trouble> {
        let running = self.start(server)?;
        let response_len = Client::connect(running.address(), &self.path(), 1)?.response_len();
        self.null_head_len = response_len - self.content.len();
        Ok(())
    }

    /// Starts a server, waits until it answers, and checks that it is worth timing.
    pub(crate) fn start(&self, server: Server) -> Result<Running, Trouble> {
        // In a network of our own nobody else takes it before the server does.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let mut command = self.command(server, address)?;
        let log = self.directory.path().join("server.log");
        command
            .stdin(Stdio::null())
            .stdout(File::create(&log)?)
            .stderr(File::options().append(true).open(&log)?);
        let child = command.spawn()?;
        let mut running = Running { child, address };
        running
            .await_answer()
            .and_then(|()| check(address, &self.path(), &self.content, !server.is_null()))
            .map_err(|error| format!("{error}\n{}", fs::read_to_string(&log).unwrap_or_default()))?;
        Ok(running)
    }

    fn command(&self, server: Server, address: SocketAddr) -> Result<Command, Trouble> {
        let site = self.directory.path().join("site");
        let listen = format!("--listen={address}");
        let null = |engine: &str| -> Result<Command, Trouble> {
            let mut command = Command::new(std::env::current_exe()?);
            let size = format!("--size={}", self.content.len());
            let head = format!("--head={}", self.null_head_len);
            command.args(["null", &listen, &size, &head, &format!("--engine={engine}")]);
            Ok(command)
        };
        let archive = self.directory.path().join(ARCHIVE);
        let tarpon = |program: &Path, site: &Path, engine: &str| -> Result<Command, Trouble> {
            let mut command = Command::new(program);
            command.arg("serve").arg(site);
            command.args([&listen, "--workers=1", &format!("--engine={engine}")]);
            if offers(program, REQUESTS_MAX)? {
                command.arg(format!("{REQUESTS_MAX}={}", u32::MAX));
            }
            Ok(command)
        };
        match server {
            Server::NullEpoll => null("epoll"),
            Server::NullUring => null("uring"),
            Server::TarponUring => tarpon(&self.tarpon, &site, "io_uring"),
            Server::TarponEpoll => tarpon(&self.tarpon, &site, "epoll"),
            Server::BeforeUring => tarpon(self.before()?, &site, "io_uring"),
            Server::BeforeEpoll => tarpon(self.before()?, &site, "epoll"),
            Server::TarponUringTar => tarpon(&self.tarpon, &archive, "io_uring"),
            Server::TarponEpollTar => tarpon(&self.tarpon, &archive, "epoll"),
            Server::Nginx => {
                let prefix = self.directory.path();
                let configuration = prefix.join("nginx.conf");
                fs::write(&configuration, nginx_configuration(prefix, &site, address))?;
                let mut command = Command::new("nginx");
                command
                    .arg("-p")
                    .arg(prefix)
                    .arg("-c")
                    .arg(configuration)
                    .arg("-e")
                    .arg(prefix.join("nginx.log"));
                Ok(command)
            }
        }
    }

    fn before_version(&self) -> Result<String, Trouble> {
        Ok(tarpon_version(self.before()?)?.replacen("tarpon", "tarpon before", 1))
    }

    fn before(&self) -> Result<&Path, Trouble> {
        Ok(self.before.as_deref().ok_or("name the earlier build with --before")?)
    }
}

fn tarpon_version(program: &Path) -> Result<String, Trouble> {
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

/// nginx at its best: open files cached, connections kept for ever, nothing logged. `tcp_nopush` would hold
/// back the last part of what is pipelined.
fn nginx_configuration(prefix: &Path, site: &Path, address: SocketAddr) -> String {
    let (prefix, site) = (prefix.display(), site.display());
    format!(
        "daemon off;
         user root root;
         worker_processes 1;
         worker_rlimit_nofile 65536;
         pid {prefix}/nginx.pid;
         error_log {prefix}/nginx.log;
         events {{ worker_connections 32768; }}
         http {{
             access_log off;
             sendfile on;
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
    child: Child,
    address: SocketAddr,
}

impl Running {
    /// Where it answers.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its threads, and those of its children.
    pub(crate) fn threads(&self) -> Result<Threads, Trouble> {
        Ok(Threads::of(self.child.id())?)
    }

    fn await_answer(&mut self) -> Result<(), Trouble> {
        let start = Instant::now();
        while TcpStream::connect(self.address).is_err() {
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("it ended before it answered: {status}").into());
            }
            if start.elapsed() > START_TIME_MAX {
                return Err(format!("no answer within {} s of its start", START_TIME_MAX.as_secs()).into());
            }
            sleep(POLL_INTERVAL);
        }
        Ok(())
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

/// How tarpon is told to keep connections, as nginx is: what is measured is not how they are made.
const REQUESTS_MAX: &str = "--requests-max";

/// The page that is asked for.
const PAGE: &str = "page.html";

/// The site again, in one file.
const ARCHIVE: &str = "site.tar";

/// Longest wait for a server to answer after its start.
const START_TIME_MAX: Duration = Duration::from_secs(10);

/// Longest wait for a server to end when asked to.
const END_TIME_MAX: Duration = Duration::from_secs(2);

const POLL_INTERVAL: Duration = Duration::from_millis(5);
