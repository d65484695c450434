//! Other servers, as proxies in front of tarpon or for a comparison: nginx, Caddy, HAProxy and Apache.

use super::{TEST_TIMEOUT, client::TestClient, wait_for};
use rustix::{
    net::{AddressFamily, SocketType, bind, connect, socket},
    process::{Pid, Signal, kill_process},
};
use std::{
    env, fs,
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
};

/// A current version of Caddy, which `tests/setup --soak` builds.
pub(crate) const CURRENT_CADDY: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/caddy/caddy");

/// Another server, running with a configuration of a test.
pub(crate) struct OtherServer(Child);

impl OtherServer {
    /// Starts nginx, Caddy, HAProxy or Apache. Its files are in `dir`. `program` is its name, or [`CURRENT_CADDY`].
    pub(crate) fn start(program: &str, config: &str, dir: &Path) -> OtherServer {
        let kind = if program == CURRENT_CADDY { "caddy" } else { program };
        let file = dir.join(kind);
        let path = |name: &str| dir.join(name).to_str().expect("UTF-8").to_owned();
        let (config, arguments): (String, Vec<String>) = match kind {
            "caddy" => {
                let options = ["run", "--adapter", "caddyfile", "--config"].map(str::to_owned);
                (format!("{{\n admin off\n}}\n{config}"), options.into())
            }
            "apache2" => (config.to_owned(), ["-D", "FOREGROUND", "-f"].map(str::to_owned).into()),
            "haproxy" => (config.to_owned(), ["-db", "-f"].map(str::to_owned).into()),
            "nginx" => {
                let names = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
                let own_files: String =
                    names.iter().map(|name| format!("{name}_temp_path {};\n", path(name))).collect();
                let options = format!("daemon off; pid {};", path("pid"));
                let own_files = format!("http {{\naccess_log off;\n{own_files}");
                let arguments =
                    ["-p", &path(""), "-e", &path("nginx.log"), "-g", &options, "-c"].map(str::to_owned);
                (config.replace("http {\n", &own_files), arguments.into())
            }
            other => panic!("{other} is no server of the tests"),
        };
        fs::write(&file, config).expect("a file");
        // Debian installs servers to directories that are not in the PATH of an ordinary user.
        let search = env::var("PATH").unwrap_or_default() + ":/usr/local/sbin:/usr/sbin:/sbin";
        let mut command = Command::new(program);
        command.args(arguments).arg(file).env("PATH", search).env("HOME", dir).env("XDG_DATA_HOME", dir);
        command.env("XDG_CONFIG_HOME", dir).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn();
        OtherServer(child.unwrap_or_else(|error| panic!("{program} is missing: run tests/setup: {error}")))
    }

    /// Connects from an address of this host when the server listens. `case`: for the message of a failure.
    pub(crate) fn connect(&mut self, from: &str, address: SocketAddr, case: &str) -> TestClient {
        let from: SocketAddr = from.parse().expect("an address");
        let stream = wait_for("the other server", || {
            let ended = self.0.try_wait().expect("a child");
            assert!(ended.is_none(), "the other server has exited: {case}");
            let stream = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
            bind(&stream, &from).expect("an address of this host");
            connect(&stream, &address).is_ok().then_some(stream)
        });
        let stream = TcpStream::from(stream);
        stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
        TestClient::new(stream)
    }
}

impl Drop for OtherServer {
    fn drop(&mut self) {
        // nginx ends its workers then.
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let _ = self.0.wait();
    }
}
