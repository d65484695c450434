//! Version and command line of each server.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::client::tls::SERVER_NAME;
use crate::error::LabError;
use crate::records::server::{PeerServer, SiteForm};

/// The builds of tarpon.
pub(crate) struct TarponBuilds {
    pub(crate) current: PathBuf,
    /// An earlier build.
    pub(crate) before: Option<PathBuf>,
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
        let Some(engine) = server.engine() else {
            match server {
                PeerServer::H2o => return h2o_version(),
                PeerServer::Caddy => return caddy_version(),
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
        Ok(format!("{version}{form}, {engine}{log}"))
    }

    /// Returns the command that starts a server in the foreground. For nginx, h2o and Caddy, also writes the configuration.
    pub(crate) fn start_command(
        &self,
        server: PeerServer,
        values: &StartValues,
    ) -> Result<Command, LabError> {
        let tls = if values.certificate.is_some() { "tls:" } else { "" };
        let listen = format!("--listen={tls}{}", values.address);
        let Some(engine) = server.engine() else {
            let work_dir = &values.work_dir;
            if server == PeerServer::H2o {
                let configuration = work_dir.join("h2o.yaml");
                fs::write(&configuration, h2o_configuration(values))?;
                let mut command = Command::new("h2o");
                command.arg("--conf").arg(configuration);
                return Ok(command);
            }
            if server == PeerServer::Caddy {
                let configuration = work_dir.join("Caddyfile");
                fs::write(&configuration, caddy_configuration(values))?;
                let mut command = Command::new("caddy");
                command.args(["run", "--adapter=caddyfile", "--config"]).arg(configuration);
                // Caddy keeps files in these directories, and in that of the user without them.
                command.env("XDG_DATA_HOME", work_dir).env("XDG_CONFIG_HOME", work_dir);
                return Ok(command);
            }
            let configuration = work_dir.join("nginx.conf");
            fs::write(&configuration, nginx_configuration(server, values))?;
            let mut command = Command::new("nginx");
            command.arg("-p").arg(work_dir).arg("-c").arg(configuration);
            command.arg("-e").arg(work_dir.join("nginx.log"));
            return Ok(command);
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
        let workers = format!("--workers={}", server.pool_size().unwrap_or(1));
        command.args([&listen, &workers, &format!("--engine={engine}")]);
        if server.is_logging() {
            command.arg("--access-log").arg(&values.access_log);
        }
        if let Some((chain, key)) = &values.certificate {
            command.arg("--tls-cert").arg(chain).arg("--tls-key").arg(key);
        }
        if has_option(program, KEEPALIVE_REQUESTS)? {
            command.arg(format!("{KEEPALIVE_REQUESTS}={}", u32::MAX));
        }
        Ok(command)
    }

    /// Returns the command that packs a directory. Less effort makes coded contents larger and changes nothing else.
    pub(crate) fn pack_command(&self, from: &Path, to: &Path, effort: &str) -> Command {
        let mut command = Command::new(&self.current);
        command.arg("pack").arg(from).arg("--output").arg(to).arg(format!("--effort={effort}"));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }
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

fn nginx_version() -> Result<String, LabError> {
    let output = Command::new("nginx").arg("-v").output().map_err(|error| {
        format!("nginx: {error}; install it (Debian: nginx-light), or omit it with `--only`")
    })?;
    let version = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Ok(version.rsplit(": ").next().unwrap_or_default().replace('/', " "))
}

/// Returns the fastest configuration of nginx for the lab: a cache of open files, unlimited keep-alive, and no access log or a
/// buffered one. `tcp_nopush` is off, as it would delay the last part of pipelined responses.
fn nginx_configuration(server: PeerServer, values: &StartValues) -> String {
    let (prefix, site, address) = (values.work_dir.display(), values.site.display(), values.address);
    let log = match server.is_logging() {
        true => format!("{} combined buffer=64k flush=1s", values.access_log.display()),
        false => "off".to_owned(),
    };
    let aio = if server == PeerServer::NginxThreads { "threads" } else { "off" };
    let (ssl, certificate) = match &values.certificate {
        None => ("", String::new()),
        Some((chain, key)) => (
            " ssl",
            format!(
                "ssl_protocols TLSv1.3; ssl_session_tickets on; ssl_certificate {}; ssl_certificate_key {};",
                chain.display(),
                key.display()
            ),
        ),
    };
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
             server {{ listen {address}{ssl} backlog=65535; root {site}; {certificate} }}
         }}\n"
    )
}

fn h2o_version() -> Result<String, LabError> {
    let output = Command::new("h2o").arg("--version").output().map_err(|error| {
        format!("h2o: {error}; install it (Debian: h2o), or omit it with `--only` or `--peers`")
    })?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().replace(" version", ""))
}

/// Returns the configuration of h2o for the lab: one thread, and connections that stay open. h2o keeps open files by itself, and writes no
/// log unless asked.
fn h2o_configuration(values: &StartValues) -> String {
    // JSON strings are YAML.
    let quoted = |path: &Path| serde_json::Value::from(path.to_string_lossy()).to_string();
    let ssl = values.certificate.as_ref().map_or(String::new(), |(chain, key)| {
        let (chain, key) = (quoted(chain), quoted(key));
        format!(", ssl: {{ certificate-file: {chain}, key-file: {key}, minimum-version: TLSv1.3 }}")
    });
    format!(
        "user: root\n\
         num-threads: 1\n\
         max-connections: 32768\n\
         http1-request-timeout: 3600\n\
         error-log: {error_log}\n\
         listen: {{ host: {host}, port: {port}{ssl} }}\n\
         hosts: {{ default: {{ paths: {{ /: {{ file.dir: {site} }} }} }} }}\n",
        error_log = quoted(&values.work_dir.join("h2o.log")),
        host = values.address.ip(),
        port = values.address.port(),
        site = quoted(&values.site),
    )
}

fn caddy_version() -> Result<String, LabError> {
    let output = Command::new("caddy").arg("version").output().map_err(|error| {
        format!("caddy: {error}; install it (Debian: caddy), or omit it with `--only` or `--peers`")
    })?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.split_whitespace().next().unwrap_or_default();
    Ok(format!("Caddy {}", version.trim_start_matches('v')))
}

/// Returns the configuration of Caddy for the lab: HTTP/1.1 alone, and no port but that of the lab. Caddy writes no access log unless asked,
/// and runs on as many threads as it may use cores.
fn caddy_configuration(values: &StartValues) -> String {
    let quoted = |path: &Path| format!("\"{}\"", path.display());
    let (scheme, tls) = match &values.certificate {
        None => ("http", String::new()),
        Some((chain, key)) => ("https", format!("tls {} {}", quoted(chain), quoted(key))),
    };
    format!(
        "{{
             admin off
             auto_https disable_redirects
             servers {{
                 protocols h1
             }}
         }}
         {scheme}://{host}:{port} {{
             bind {address}
             {tls}
             root * {site}
             file_server
         }}\n",
        host = if values.certificate.is_some() { SERVER_NAME } else { "" },
        port = values.address.port(),
        address = values.address.ip(),
        site = quoted(&values.site),
    )
}

/// The option that lets tarpon keep connections open as long as nginx does: a race does not measure new connections.
const KEEPALIVE_REQUESTS: &str = "--keepalive-requests";
