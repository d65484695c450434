//! Version and command line of each server.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::geteuid;

use super::configurations::{self, PROGRAM_USER, PROGRAMS_PATH};
use super::proxy_setup::{ProxySetup, ServerSwitches};
use crate::error::LabError;
use crate::naive_server;
use crate::records::server::{PeerServer, SiteForm};

/// The builds of tarpon, and of programs that embed a server.
pub(crate) struct TarponBuilds {
    pub(crate) current: PathBuf,
    /// An earlier build.
    pub(crate) before: Option<PathBuf>,
    /// The directory of the programs that embed a server.
    pub(crate) embedding: PathBuf,
    /// The command line of another server.
    pub(crate) other: Option<String>,
}

/// The values that differ between two starts of the same server.
pub(crate) struct StartValues {
    pub(crate) address: SocketAddr,
    /// The site, in the form of the server.
    pub(crate) site: PathBuf,
    /// A directory for the configuration, logs and temporary files of the server.
    pub(crate) work_dir: PathBuf,
    pub(crate) access_log: PathBuf,
    /// The PEM files of certificate and key, if the server speaks TLS.
    pub(crate) certificate: Option<(PathBuf, PathBuf)>,
    /// Whether clients speak HTTP/2.
    pub(crate) has_http2: bool,
    /// Whether files in gzip lie beside the others.
    pub(crate) has_gzip: bool,
    /// The directory of CGI programs, if there are any.
    pub(crate) programs: Option<PathBuf>,
    /// The upstream and the paths that the server forwards to it, if there is one.
    pub(crate) proxy: Option<ProxySetup>,
    pub(crate) switches: ServerSwitches,
    /// Bytes of head and content that a null server sends.
    pub(crate) null_response: (usize, usize),
    /// Bytes of a request of which a null server gets several at once.
    pub(crate) null_request_len: Option<usize>,
}

impl TarponBuilds {
    /// Returns the build that a server runs.
    fn program(&self, server: PeerServer) -> Result<&Path, LabError> {
        match server.current_build() {
            None => Ok(&self.current),
            Some(_) => Ok(self.before.as_deref().ok_or("pass the earlier build with `--before`")?),
        }
    }

    /// Returns the name and version of a server, as its program prints them. Fails if the program is not installed.
    pub(crate) fn version(&self, server: PeerServer) -> Result<String, LabError> {
        let log = if server.is_logging() { ", access log" } else { "" };
        if let Some(program) = server.embedding_program() {
            let version = self.embedding_version(program.file)?;
            return Ok([program.name, &version].join(" ").trim_end().to_owned());
        }
        if let Some((_, name)) = server.naive_rung() {
            if server == PeerServer::NaiveProgram {
                first_line_of("file", "file")?;
            }
            if server == PeerServer::NaiveDatabase && !Path::new(naive_server::DATABASE).exists() {
                return Err(format!("{}: install it (Debian: libmagic-mgc)", naive_server::DATABASE).into());
            }
            return Ok(name.to_owned());
        }
        let Some(engine) = server.engine() else {
            match server {
                PeerServer::H2o => return h2o_version(),
                PeerServer::Caddy => return caddy_version(),
                PeerServer::Apache => return apache_version(),
                PeerServer::Lighttpd => return lighttpd_version(),
                PeerServer::Haproxy => return haproxy_version(),
                PeerServer::Python => return python_version(),
                PeerServer::StaticWebServer => return static_web_server_version(),
                PeerServer::Other => return Ok(self.other_words()?.next().unwrap_or_default().to_owned()),
                _ => {}
            }
            let threads = if server == PeerServer::NginxThreads { ", aio threads" } else { "" };
            return nginx_version().map(|name| name + threads + log);
        };
        if server.is_null() {
            return Ok(format!("null {engine}"));
        }
        let form = match server.site_form() {
            SiteForm::Directory => "",
            SiteForm::Tar => ", tar",
            SiteForm::Packed => ", packed",
        };
        let version = tarpon_version(self.program(server)?)?;
        let name = if server.current_build().is_some() { "tarpon before" } else { "tarpon" };
        let version = version.replacen("tarpon", name, 1);
        let allocator = match server.has_jemalloc() {
            true => format!(", jemalloc {}", jemalloc_version(self.program(server)?)?),
            false => String::new(),
        };
        Ok(format!("{version}{form}{allocator}, {engine}{log}"))
    }

    /// Returns the command that starts a server in the foreground. For other servers than tarpon, also writes the configuration.
    pub(crate) fn start_command(
        &self,
        server: PeerServer,
        values: &StartValues,
    ) -> Result<Command, LabError> {
        let tls = if values.certificate.is_some() { "tls:" } else { "" };
        let listen = format!("--listen={tls}{}", values.address);
        if let Some(program) = server.embedding_program() {
            let mut command = Command::new(self.embedding.join(program.file));
            command.arg(values.address.to_string()).args(program.arguments);
            return Ok(command);
        }
        if let Some((rung, _)) = server.naive_rung() {
            let mut command = Command::new(std::env::current_exe()?);
            command.args([
                "naive-server",
                &format!("--rung={rung}"),
                &format!("--listen={}", values.address),
            ]);
            command.arg("--site").arg(&values.site).arg("--log").arg(&values.access_log);
            return Ok(command);
        }
        let Some(engine) = server.engine() else {
            return match server {
                PeerServer::Other => self.other_command(values),
                PeerServer::Python => Ok(python_command(values)),
                PeerServer::StaticWebServer => Ok(static_web_server_command(values)),
                _ => peer_command(server, values),
            };
        };
        if server.is_null() {
            let mut command = Command::new(std::env::current_exe()?);
            let engine = if engine == "io_uring" { "uring" } else { engine };
            let (head_size, size) = values.null_response;
            let (size, head_size) = (format!("--size={size}"), format!("--head-size={head_size}"));
            command.args(["null-server", &listen, &size, &head_size, &format!("--engine={engine}")]);
            command.args(values.null_request_len.map(|len| format!("--request-size={len}")));
            return Ok(command);
        }
        let program = self.program(server)?;
        let mut command = Command::new(program);
        command.arg("serve").arg(&values.site);
        if server.has_jemalloc() {
            command.env(PRELOAD, JEMALLOC);
        }
        let workers = format!("--workers={}", server.pool_size().unwrap_or(1));
        command.args([&listen, &workers, &format!("--engine={engine}")]);
        if server.is_logging() {
            command.arg("--access-log").arg(&values.access_log);
        }
        if let Some((chain, key)) = &values.certificate {
            command.arg("--tls-cert").arg(chain).arg("--tls-key").arg(key);
        }
        if let Some(programs) = &values.programs {
            command.arg(format!("--cgi={PROGRAMS_PATH}={}", programs.display()));
            command.args([&format!("--cgi-user={PROGRAM_USER}"), "--cgi-max-programs=256"]);
        }
        // Requests are for files as they are, and a second version of the site would change a measurement.
        if has_option(program, COMPRESS)? {
            command.arg(format!("{COMPRESS}=off"));
        }
        if has_option(program, KEEPALIVE_REQUESTS)? {
            let count = if values.switches.keeps_clients { u32::MAX } else { 1 };
            command.arg(format!("{KEEPALIVE_REQUESTS}={count}"));
        }
        if values.switches.writes_profile {
            command.arg("--no-sandbox");
            if geteuid().is_root() {
                // Another user could not write the counters.
                command.arg("--user=root");
            }
        }
        if let Some(proxy) = &values.proxy {
            proxy.add_to_tarpon(&mut command, &values.work_dir)?;
        }
        Ok(command)
    }

    /// Returns the words of the command line of another server.
    fn other_words(&self) -> Result<impl Iterator<Item = &str>, LabError> {
        Ok(self
            .other
            .as_deref()
            .ok_or("pass the command of the other server with `--other`")?
            .split_whitespace())
    }

    /// Returns the command of another server, with the values of this start in place of their names.
    fn other_command(&self, values: &StartValues) -> Result<Command, LabError> {
        let site = values.site.display().to_string();
        let names = [
            ("{address}", values.address.to_string()),
            ("{host}", values.address.ip().to_string()),
            ("{port}", values.address.port().to_string()),
            ("{site}", site),
        ];
        let fill =
            |word: &str| names.iter().fold(word.to_owned(), |word, (name, value)| word.replace(name, value));
        let mut words = self.other_words()?;
        let mut command = Command::new(words.next().ok_or("`--other` is empty")?);
        command.args(words.map(fill)).current_dir(&values.work_dir);
        Ok(command)
    }

    /// Returns the version of the library in a program, which the program or a file beside it tells. Fails if the program is not built.
    fn embedding_version(&self, file: &str) -> Result<String, LabError> {
        let path = self.embedding.join(file);
        if !path.exists() {
            let hint = "build it with `lab/hello/build`, or pass its directory with `--programs`";
            return Err(format!("{}: no such program; {hint}", path.display()).into());
        }
        Ok(fs::read_to_string(path.with_extension("version")).unwrap_or_default().trim().to_owned())
    }

    /// Returns the command that packs a directory. Less effort makes coded contents larger and changes nothing else.
    pub(crate) fn pack_command(&self, from: &Path, to: &Path, effort: &str) -> Command {
        let mut command = Command::new(&self.current);
        command.arg("pack").arg(from).arg("--output").arg(to).arg(format!("--effort={effort}"));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }
}

/// Returns the command that starts another server, and writes its configuration.
fn peer_command(server: PeerServer, values: &StartValues) -> Result<Command, LabError> {
    let work_dir = &values.work_dir;
    let (file, text) = match server {
        PeerServer::H2o => ("h2o.yaml", configurations::h2o(values)),
        PeerServer::Caddy => ("Caddyfile", configurations::caddy(values)),
        PeerServer::Apache => ("httpd.conf", configurations::apache(values)),
        PeerServer::Lighttpd => ("lighttpd.conf", configurations::lighttpd(values)),
        PeerServer::Haproxy => ("haproxy.cfg", configurations::haproxy(values)?),
        _ => ("nginx.conf", configurations::nginx(server, values)),
    };
    let path = work_dir.join(file);
    fs::write(&path, text)?;
    let arguments: &[&str] = match server {
        PeerServer::H2o => &["h2o", "--conf"],
        PeerServer::Caddy => &["caddy", "run", "--adapter=caddyfile", "--config"],
        PeerServer::Apache => &[APACHE, "-D", "FOREGROUND", "-f"],
        PeerServer::Lighttpd => &[LIGHTTPD, "-D", "-f"],
        // In the foreground, as one process.
        PeerServer::Haproxy => &[HAPROXY, "-db", "-f"],
        _ => &["nginx", "-c"],
    };
    let mut command = Command::new(arguments[0]);
    command.args(&arguments[1..]).arg(path);
    match server {
        // Caddy keeps files in these directories, and in that of the user without them.
        PeerServer::Caddy => {
            command.env("XDG_DATA_HOME", work_dir).env("XDG_CONFIG_HOME", work_dir);
        }
        PeerServer::Nginx | PeerServer::NginxLog | PeerServer::NginxThreads => {
            command.arg("-p").arg(work_dir).arg("-e").arg(work_dir.join("nginx.log"));
        }
        _ => {}
    }
    Ok(command)
}

/// Returns the command of Python's server. It serves HTTP/1.0 unless asked, and writes a line for each request.
fn python_command(values: &StartValues) -> Command {
    let mut command = Command::new("python3");
    command.args(["-m", "http.server", "--protocol=HTTP/1.1"]);
    command.arg(format!("--bind={}", values.address.ip())).arg("--directory").arg(&values.site);
    command.arg(values.address.port().to_string());
    command
}

/// Returns the command of static-web-server: one thread, and no compression of files as they are requested.
fn static_web_server_command(values: &StartValues) -> Command {
    let mut command = Command::new("static-web-server");
    command.args(["--log-level=error", "--threads-multiplier=1", "--compression=false", "--http2=false"]);
    command.arg("--compression-static").arg(format!("--host={}", values.address.ip()));
    command.arg(format!("--port={}", values.address.port())).arg("--root").arg(&values.site);
    command
}

/// Runs a command, and fails if its exit status is not 0.
pub(crate) fn run_command(command: &mut Command) -> Result<(), LabError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|error| format!("{program}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{program}: {status}").into()) }
}

/// Returns the name and version of a build of tarpon.
pub(crate) fn tarpon_version(program: &Path) -> Result<String, LabError> {
    Ok(output_of(program, &["--version"])?.trim().to_owned())
}

/// Returns whether `tarpon serve` has an option. Earlier builds may lack it.
fn has_option(program: &Path, option: &str) -> Result<bool, LabError> {
    Ok(output_of(program, &["serve", "--help"])?.contains(option))
}

fn output_of(program: &Path, arguments: &[&str]) -> Result<String, LabError> {
    let output = Command::new(program).args(arguments).output().map_err(|error| {
        let hint = "run `cargo build --release`, or pass the program with `--tarpon` or `--before`";
        format!("{}: {error}; {hint}", program.display())
    })?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the version of jemalloc, which prints it as the program ends if it is its allocator. Fails if it is not.
fn jemalloc_version(program: &Path) -> Result<String, LabError> {
    let output = Command::new(program)
        .arg("--version")
        .env(PRELOAD, JEMALLOC)
        .env("MALLOC_CONF", "stats_print:true")
        .output()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let version = text.lines().find_map(|line| line.trim().strip_prefix("Version: \""));
    let version = version.and_then(|version| version.split('-').next()).ok_or_else(|| {
        let hint = "install it (Debian: libjemalloc2), and build tarpon with a shared C library";
        format!("{JEMALLOC} is not the allocator of {}; {hint}", program.display())
    })?;
    Ok(version.to_owned())
}

fn nginx_version() -> Result<String, LabError> {
    let output = Command::new("nginx").arg("-v").output().map_err(|error| {
        format!("nginx: {error}; install it (Debian: nginx-light), or omit it with `--only`")
    })?;
    let version = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Ok(version.rsplit(": ").next().unwrap_or_default().replace('/', " "))
}

fn h2o_version() -> Result<String, LabError> {
    let output = Command::new("h2o").arg("--version").output().map_err(|error| {
        format!("h2o: {error}; install it (Debian: h2o), or omit it with `--only` or `--peers`")
    })?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().replace(" version", ""))
}

fn caddy_version() -> Result<String, LabError> {
    let output = Command::new("caddy").arg("version").output().map_err(|error| {
        format!("caddy: {error}; install it (Debian: caddy), or omit it with `--only` or `--peers`")
    })?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.split_whitespace().next().unwrap_or_default();
    Ok(format!("Caddy {}", version.trim_start_matches('v')))
}

fn apache_version() -> Result<String, LabError> {
    first_line_of(APACHE, "apache2").map(|line| {
        let version = line.split_whitespace().find_map(|word| word.strip_prefix("Apache/"));
        format!("Apache {}", version.unwrap_or_default())
    })
}

fn lighttpd_version() -> Result<String, LabError> {
    first_line_of(LIGHTTPD, "lighttpd")
        .map(|line| line.split_whitespace().next().unwrap_or_default().replace('/', " "))
}

fn haproxy_version() -> Result<String, LabError> {
    first_line_of(HAPROXY, "haproxy").map(|line| {
        let version = line.split_whitespace().nth(2).unwrap_or_default();
        format!("HAProxy {}", version.split('-').next().unwrap_or_default())
    })
}

fn python_version() -> Result<String, LabError> {
    let output = Command::new("python3").arg("--version").output();
    let output =
        output.map_err(|error| format!("python3: {error}; install it, or omit it with `--peers`"))?;
    Ok(format!("{}, http.server", String::from_utf8_lossy(&output.stdout).trim()))
}

fn static_web_server_version() -> Result<String, LabError> {
    let output = Command::new("static-web-server").arg("--version").output().map_err(|error| {
        let hint = "install it (`cargo install --locked static-web-server`), or omit it with `--peers`";
        format!("static-web-server: {error}; {hint}")
    })?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.lines().find_map(|line| line.strip_prefix("Version:")).unwrap_or_default();
    Ok(format!("static-web-server {}", version.trim()))
}

/// Returns the first line that a program prints for `-v`.
fn first_line_of(program: &str, package: &str) -> Result<String, LabError> {
    let output = Command::new(program).arg("-v").output().map_err(|error| {
        format!("{program}: {error}; install it (Debian: {package}), or omit it with `--only`")
    })?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned())
}

/// Debian installs these servers to a directory that is not in the PATH of an ordinary user.
const APACHE: &str = "/usr/sbin/apache2";
const LIGHTTPD: &str = "/usr/sbin/lighttpd";
const HAPROXY: &str = "/usr/sbin/haproxy";

/// The option that lets tarpon keep connections open as long as nginx does: a race does not measure new connections.
const KEEPALIVE_REQUESTS: &str = "--keepalive-requests";
/// The variable that lets the dynamic linker load a library before all others, and the library.
const PRELOAD: &str = "LD_PRELOAD";
const JEMALLOC: &str = "libjemalloc.so.2";
/// The option of background compression, which earlier versions lack.
const COMPRESS: &str = "--compress";
