//! tarpon as a proxy before scripted upstream servers, and a client of it.
//!
//! ```text
//! ProxyClient ─▶ Proxied ─┬─ /app/… ─▶ the upstream "up"
//!                         └─ others ─▶ the files of the site, and its pages for errors
//! ```

use super::{
    scripted::ScriptedServer,
    wire::{StrictMessage, WireError, WireReader},
};
use crate::common::{
    ENGINES,
    client::{TestClient, connected},
    program::{ProgramExit, RunningProgram, serve_config},
    site, wait_for, workers, write_files,
};
use serde_json::Value;
use std::{
    io::Write,
    net::{Shutdown, SocketAddr, TcpStream},
    path::PathBuf,
};
use tarpon::Engine;
use tempfile::TempDir;

/// A running proxy.
pub(super) struct Proxied {
    program: RunningProgram,
    dir: TempDir,
}

/// What a test sets in the configuration of a proxy. The default: one worker, which sends `/app/` to the upstream `up`.
#[derive(Clone, Copy)]
pub(super) struct ProxyConfig<'a> {
    pub(super) worker_count: usize,
    /// The value of `proxy` in the only site, as TOML.
    pub(super) proxy: &'a str,
    /// Further lines of the section of the upstream `up`.
    pub(super) upstream: &'a str,
    /// Further lines of `[server]`.
    pub(super) server: &'a str,
    /// Further files of the site.
    pub(super) files: &'a [(String, String)],
}

/// A connection to a proxy.
pub(super) struct ProxyClient {
    reader: WireReader<TcpStream>,
}

/// A final response, with the interim ones before it.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) interim: Vec<StrictMessage>,
    pub(super) response: StrictMessage,
}

impl Default for ProxyConfig<'_> {
    fn default() -> Self {
        ProxyConfig { worker_count: 1, proxy: "\"/app/=up\"", upstream: "", server: "", files: &[] }
    }
}

/// Runs a test on each engine, before a server.
#[track_caller]
pub(super) fn on_every_engine(server: &ScriptedServer, mut test: impl FnMut(&Proxied, Engine)) {
    on_engines(server, ProxyConfig::default(), &mut test);
}

/// Runs a test on each engine, before a server, with this configuration.
#[track_caller]
pub(super) fn on_engines(
    server: &ScriptedServer,
    config: ProxyConfig<'_>,
    mut test: impl FnMut(&Proxied, Engine),
) {
    for &engine in ENGINES {
        let proxied = Proxied::start(engine, &[server.url()], config);
        test(&proxied, engine);
        drop(proxied);
        server.check(engine.name());
    }
}

impl Proxied {
    /// Serves a site whose path `/app/` belongs to these servers.
    pub(super) fn start<S: AsRef<str>>(engine: Engine, servers: &[S], config: ProxyConfig<'_>) -> Proxied {
        let dir = site(&[
            ("site/index.html", "home"),
            ("site/502.html", "page of the site for 502"),
            ("site/503.html", "page of the site for 503"),
            ("site/504.html", "page of the site for 504"),
        ]);
        write_files(&dir.path().join("site"), config.files);
        let servers: Vec<String> = servers.iter().map(|server| format!("{:?}", server.as_ref())).collect();
        let ProxyConfig { worker_count, proxy, upstream, server, .. } = config;
        // A site must use each upstream.
        let unused = if proxy.contains("=up") { "" } else { ", \"/unused/=up\"" };
        let text = format!(
            "[[site]]\npath = \"site\"\nproxy = [{proxy}{unused}]\n{}\
             [[listener]]\naddress = \"127.0.0.1:0\"\n\
             [server]\nengine = \"{engine}\"\nworkers = {}\n{server}\n\
             [[upstream]]\nname = \"up\"\nservers = [{}]\n{}",
            error_pages(),
            workers(engine, worker_count),
            servers.join(", "),
            with_defaults(upstream),
        );
        let admin = format!("unix:{}", dir.path().join("admin").display());
        let program = RunningProgram::start_ready(serve_config(&text, dir.path(), &["--admin", &admin]));
        Proxied { program, dir }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.program.address()
    }

    pub(super) fn program(&self) -> &RunningProgram {
        &self.program
    }

    /// Waits until the program exits.
    pub(super) fn wait(self) -> ProgramExit {
        let Proxied { program, dir: _dir } = self;
        program.wait()
    }

    /// Returns the socket of the admin listener.
    pub(super) fn admin(&self) -> PathBuf {
        self.dir.path().join("admin")
    }

    pub(super) fn connect(&self) -> ProxyClient {
        ProxyClient::new(connected(self.address()))
    }

    /// Sends a request on a new connection, and reads the response.
    #[track_caller]
    pub(super) fn ask(&self, request: impl AsRef<[u8]>) -> Answered {
        self.connect().ask(request)
    }

    /// Sends a GET on a new connection, and reads the response.
    #[track_caller]
    pub(super) fn get(&self, target: &str) -> StrictMessage {
        self.ask(get(target)).response
    }

    /// Returns what `tarpon status --json` reads: the status, as the admin listener has it.
    pub(super) fn status(&self) -> Value {
        let response = TestClient::connect_unix(&self.admin()).get("/status");
        serde_json::from_slice(&response.content).expect("a status in JSON")
    }

    /// Waits until the status of a server of the upstream `up` has this value.
    #[track_caller]
    pub(super) fn wait_for_state(&self, server: usize, state: &str) {
        wait_for(state, || (self.server_state(server) == state).then_some(()));
    }

    /// Returns the state of a server of the upstream `up`.
    pub(super) fn server_state(&self, server: usize) -> String {
        let status = self.status();
        status["upstreams"][server]["state"]
            .as_str()
            .unwrap_or_else(|| panic!("no state of server {server} in {status}"))
            .to_owned()
    }
}

/// Returns the sections of the error pages of a site.
fn error_pages() -> String {
    let page = |status| format!("[[site.error-page]]\nstatus = {status}\npath = \"/{status}.html\"\n");
    [502, 503, 504].map(page).concat()
}

/// Returns the lines of an upstream, with defaults for tests: no timeout ends a test on a busy machine, and failures take no server out.
fn with_defaults(lines: &str) -> String {
    let timeouts =
        ["connect-timeout", "response-timeout", "idle-timeout", "tunnel-timeout", "pool-idle-time"];
    let mut all = lines.to_owned() + "\n";
    for (name, value) in timeouts.map(|name| (name, "\"1h\"")).into_iter().chain([("max-fails", "0")]) {
        if !lines.lines().any(|line| line.split(' ').next() == Some(name)) {
            all += &format!("{name} = {value}\n");
        }
    }
    all
}

impl ProxyClient {
    pub(super) fn new(stream: TcpStream) -> ProxyClient {
        ProxyClient { reader: WireReader::new(stream) }
    }

    /// Sends bytes. `false`: the proxy has closed the connection.
    pub(super) fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.reader.stream.write_all(bytes.as_ref()).is_ok()
    }

    pub(super) fn shutdown_write(&mut self) {
        // Fails if the proxy closed first.
        let _ = self.reader.stream.shutdown(Shutdown::Write);
    }

    /// Sends a request, and reads the response.
    #[track_caller]
    pub(super) fn ask(&mut self, request: impl AsRef<[u8]>) -> Answered {
        let request = request.as_ref();
        assert!(self.send(request), "closed before {}", request.escape_ascii());
        let method = request.split(|&byte| byte == b' ').next().expect("a first word");
        self.answered(str::from_utf8(method).expect("a method"))
    }

    /// Reads the response to a request of this method.
    #[track_caller]
    pub(super) fn answered(&mut self, method: &str) -> Answered {
        self.try_answered(method).unwrap_or_else(|error| panic!("no whole response: {error:?}"))
    }

    pub(super) fn try_answered(&mut self, method: &str) -> Result<Answered, WireError> {
        let mut interim = Vec::new();
        loop {
            let response = self.reader.response(method)?;
            match response.status() {
                100 | 102..200 => interim.push(response),
                _ => return Ok(Answered { interim, response }),
            }
        }
    }

    /// Reads an interim or a final response.
    pub(super) fn try_response(&mut self, method: &str) -> Result<StrictMessage, WireError> {
        self.reader.response(method)
    }

    /// Reads the head of a response.
    #[track_caller]
    pub(super) fn response_head(&mut self) -> StrictMessage {
        self.reader.response_head().unwrap_or_else(|error| panic!("no head: {error:?}"))
    }

    /// Reads one chunk behind a head: nothing if it is the last one.
    #[track_caller]
    pub(super) fn chunk(&mut self) -> Vec<u8> {
        self.reader.chunk().unwrap_or_else(|error| panic!("no chunk: {error:?}"))
    }

    /// Reads this many bytes behind a head.
    #[track_caller]
    pub(super) fn raw(&mut self, len: usize) -> Vec<u8> {
        self.reader.raw(len).unwrap_or_else(|error| panic!("{len} bytes: {error:?}"))
    }

    /// Reads until the proxy closes or resets the connection.
    pub(super) fn rest(&mut self) -> Vec<u8> {
        self.reader.rest()
    }

    /// Returns a second handle of the connection, for another thread.
    pub(super) fn stream(&self) -> TcpStream {
        self.reader.stream.try_clone().expect("a descriptor")
    }
}

/// Returns a GET request with only a Host field.
pub(super) fn get(target: &str) -> String {
    request("GET", target, "")
}

/// Returns the head of a request with these further fields.
pub(super) fn request(method: &str, target: &str, fields: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n")
}

/// Returns a POST request with this content.
pub(super) fn post(target: &str, content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    let head = request("POST", target, &format!("Content-Length: {}\r\n", content.len()));
    [head.as_bytes(), content].concat()
}
