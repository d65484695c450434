//! How servers forward requests to an upstream: the same for all of them.
//!
//! ```text
//! client ─▶ server ─ PATH and below ─▶ upstream     a pool of idle connections, or a connection for each request
//!                  └ other paths ────▶ site
//! ```
//!
//! Each server tells the upstream the host that the client has named, and the address of the client.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use crate::error::LabError;

/// What servers forward, and to which upstream.
#[derive(Clone, Debug)]
pub(crate) struct ProxySetup {
    pub(crate) upstream: SocketAddr,
    /// Requests for this path, and all below it, go to the upstream. HAProxy forwards all requests.
    pub(crate) path: &'static str,
    /// Idle connections to the upstream that a server keeps. 0: a connection carries one request.
    pub(crate) pool_size: u32,
}

/// Parts of a server that can be switched off, whether or not it forwards requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ServerSwitches {
    /// A client may send another request on its connection.
    pub(crate) keeps_clients: bool,
    /// nginx sends files with sendfile(2). tarpon always does, for large files.
    pub(crate) sendfile: bool,
    /// tarpon counts what runs, and may write the counters to a file: it has no sandbox, and keeps its user.
    pub(crate) writes_profile: bool,
}

impl Default for ServerSwitches {
    fn default() -> ServerSwitches {
        ServerSwitches { keeps_clients: true, sendfile: true, writes_profile: false }
    }
}

impl ProxySetup {
    /// Adds the options of `tarpon serve` to its command. Only a pool of another size than the default needs a configuration file.
    pub(super) fn add_to_tarpon(&self, command: &mut Command, work_dir: &Path) -> Result<(), LabError> {
        let ProxySetup { upstream, path, pool_size } = self;
        if *pool_size == POOL_SIZE {
            command.arg(format!("--proxy={path}=http://{upstream}"));
            return Ok(());
        }
        let file = work_dir.join("upstream.toml");
        fs::write(&file, self.tarpon())?;
        command.arg(format!("--proxy={path}=lab")).arg("--config").arg(file);
        Ok(())
    }

    /// Returns the configuration file of tarpon.
    fn tarpon(&self) -> String {
        let ProxySetup { upstream, pool_size, .. } = self;
        format!("[[upstream]]\nname = \"lab\"\nservers = [\"http://{upstream}\"]\npool-size = {pool_size}\n")
    }

    /// Returns the upstream and the location of nginx. Its buffers hold a complete response of 64 KiB, so that none is written to a file.
    pub(super) fn nginx(&self) -> (String, String) {
        let ProxySetup { upstream, path, pool_size } = self;
        let (pool, connection) = match pool_size {
            0 => (String::new(), "close"),
            size => {
                let limits =
                    format!("keepalive_requests {POOL_REQUESTS}; keepalive_timeout {POOL_SECONDS}s;");
                (format!("keepalive {size}; {limits}"), "")
            }
        };
        let upstream = format!("upstream lab {{ server {upstream}; {pool} }}");
        let location = format!(
            "location {path} {{
                 proxy_pass http://lab;
                 proxy_http_version 1.1;
                 proxy_set_header Host $http_host;
                 proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
                 proxy_set_header Connection \"{connection}\";
                 proxy_buffer_size 16k;
                 proxy_buffers 8 16k;
                 proxy_busy_buffers_size 64k;
                 proxy_max_temp_file_size 0;
             }}
             location {path}tunnel {{
                 proxy_pass http://lab;
                 proxy_http_version 1.1;
                 proxy_set_header Host $http_host;
                 proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
                 proxy_set_header Connection upgrade;
                 proxy_set_header Upgrade $http_upgrade;
                 proxy_read_timeout 1h;
                 proxy_send_timeout 1h;
             }}"
        );
        (upstream, location)
    }

    /// Returns the backend of HAProxy.
    pub(super) fn haproxy(&self) -> String {
        let ProxySetup { upstream, pool_size, .. } = self;
        // The first request on a connection is no reuse of it.
        let reuses = POOL_REQUESTS - 1;
        let (reuse, pool) = match pool_size {
            0 => ("http-reuse never\n             option http-server-close", String::new()),
            size => {
                let limits = format!("pool-purge-delay {POOL_SECONDS}s max-reuse {reuses}");
                ("http-reuse always", format!("pool-max-conn {size} {limits}"))
            }
        };
        format!(
            "backend lab
             option forwardfor
             {reuse}
             server lab {upstream} {pool}"
        )
    }
}

/// The pool of the published story: idle connections, requests for each of them, and the seconds that one may be idle. tarpon's defaults.
pub(crate) const POOL_SIZE: u32 = 128;
const POOL_REQUESTS: u32 = 1_000;
const POOL_SECONDS: u32 = 65;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_has_the_same_pool_or_none() {
        let setup =
            |pool_size| ProxySetup { upstream: "127.0.0.1:9000".parse().unwrap(), path: "/api/", pool_size };
        let tarpon = |size| {
            let (mut command, directory) = (Command::new("tarpon"), tempfile::tempdir().unwrap());
            setup(size).add_to_tarpon(&mut command, directory.path()).unwrap();
            let arguments = command.get_args().map(|argument| argument.to_string_lossy().into_owned());
            let file = fs::read_to_string(directory.path().join("upstream.toml")).unwrap_or_default();
            arguments.collect::<Vec<_>>().join(" ") + &file
        };
        let nginx = |size| {
            let (upstream, location) = setup(size).nginx();
            upstream + &location
        };
        #[rustfmt::skip]
        let cases: &[(&str, String, &[&str], &[&str])] = &[
            // case                 configuration            has                                                          has not
            ("tarpon, pool",        tarpon(128),             &["--proxy=/api/=http://127.0.0.1:9000"],                    &["--config", "pool-size"]),
            ("tarpon, small pool",  tarpon(2),               &["--proxy=/api/=lab --config ", "pool-size = 2\n"],         &[]),
            ("tarpon, no pool",     tarpon(0),               &["pool-size = 0\n", "[\"http://127.0.0.1:9000\"]"],         &[]),
            ("nginx, pool",         nginx(128),              &["keepalive 128; keepalive_requests 1000; keepalive_timeout 65s;", "Connection \"\";"], &["close"]),
            ("nginx, no pool",      nginx(0),                &["upstream lab { server 127.0.0.1:9000;", "Connection \"close\";"], &["keepalive"]),
            ("HAProxy, pool",       setup(128).haproxy(),    &["http-reuse always", "pool-max-conn 128 pool-purge-delay 65s max-reuse 999"], &["close"]),
            ("HAProxy, no pool",    setup(0).haproxy(),      &["http-reuse never", "option http-server-close", "server lab 127.0.0.1:9000"], &["pool-"]),
        ];
        for (name, text, has, has_not) in cases {
            for part in *has {
                assert!(text.contains(part), "{name}: {text}");
            }
            for part in *has_not {
                assert!(!text.contains(part), "{name}: {text}");
            }
        }
    }
}
