//! An ACME directory for tests: Pebble, with the server that answers its questions to the DNS. `tests/setup` builds both.

use super::{port::ReservedPort, wait_for};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::{
    fs,
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// A running directory. It forgets all accounts and certificates when it stops.
pub(crate) struct AcmeDirectory {
    programs: Vec<Child>,
    dir: PathBuf,
    port: ReservedPort,
    /// Where a hook sets records.
    pub(crate) management: ReservedPort,
    dns: ReservedPort,
    config: String,
}

/// How a directory behaves.
pub(crate) struct DirectoryOptions {
    /// The port at which it checks names by http-01.
    pub(crate) http_port: u16,
    /// The port at which it checks names by tls-alpn-01.
    pub(crate) tls_port: u16,
    /// How long certificates are valid, in seconds.
    pub(crate) validity_s: u64,
    /// Whether an account needs the external account [`EXTERNAL_ACCOUNT`].
    pub(crate) needs_external_account: bool,
}

/// The identifier and the key of an external account.
pub(crate) const EXTERNAL_ACCOUNT: [&str; 2] =
    ["kid-1", "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W"];

impl AcmeDirectory {
    /// Starts a directory, which rejects one of seven nonces. Its files are in `dir`.
    pub(crate) fn start(dir: &Path, options: &DirectoryOptions) -> AcmeDirectory {
        certify(dir);
        let [port, management, dns] = std::array::from_fn(|_| ReservedPort::new());
        let DirectoryOptions { http_port, tls_port, validity_s, needs_external_account } = options;
        let file = |name: &str| dir.join(name).to_str().expect("UTF-8").to_owned();
        let [key_id, key] = EXTERNAL_ACCOUNT;
        let config = serde_json::json!({ "pebble": {
            "listenAddress": port.address.to_string(),
            "managementListenAddress": "",
            "certificate": file("directory.pem"),
            "privateKey": file("directory.key"),
            "httpPort": http_port,
            "tlsPort": tls_port,
            "keyAlgorithm": "ecdsa",
            "externalAccountBindingRequired": needs_external_account,
            "externalAccountMACKeys": { key_id: key },
            "retryAfter": { "authz": 1, "order": 1 },
            "profiles": { "default": { "description": "of tests", "validityPeriod": validity_s } },
        } });
        let mut directory = AcmeDirectory {
            programs: Vec::new(),
            dir: dir.to_owned(),
            port,
            management,
            dns,
            config: config.to_string(),
        };
        directory.restart();
        directory
    }

    /// Returns the URL.
    pub(crate) fn url(&self) -> String {
        format!("https://localhost:{}/dir", self.port.address.port())
    }

    /// Returns the file with the root that certifies the directory.
    pub(crate) fn root(&self) -> String {
        self.dir.join("root.pem").to_str().expect("UTF-8").to_owned()
    }

    /// Stops the directory, if it runs.
    pub(crate) fn stop(&mut self) {
        for mut program in self.programs.drain(..) {
            let _ = program.kill();
            let _ = program.wait();
        }
    }

    /// Starts the directory again, without what it knew.
    pub(crate) fn restart(&mut self) {
        self.stop();
        let address = |port: &ReservedPort| port.address.to_string();
        let file = self.dir.join("pebble.json");
        fs::write(&file, &self.config).expect("a file");
        let mut names = Command::new(program("pebble-challtestsrv"));
        names.args(["-defaultIPv6", "", "-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", ""]);
        names.args(["-dnsserver", &address(&self.dns), "-management", &address(&self.management)]);
        let mut pebble = Command::new(program("pebble"));
        pebble.arg("-config").arg(&file).args(["-dnsserver", &address(&self.dns)]);
        pebble
            .env("PEBBLE_VA_NOSLEEP", "1")
            .env("PEBBLE_WFE_NONCEREJECT", "15")
            .env("PEBBLE_AUTHZREUSE", "0");
        for command in [&mut names, &mut pebble] {
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            self.programs.push(command.spawn().expect("run tests/setup, which builds Pebble"));
        }
        for port in [&self.port, &self.management] {
            wait_for("the directory", || TcpStream::connect(port.address).ok());
        }
    }
}

impl Drop for AcmeDirectory {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Returns the path of a program that `tests/setup` has built.
fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("pebble").join(name)
}

/// Writes a root, and a certificate for `localhost` with its key.
fn certify(dir: &Path) {
    let mut root = CertificateParams::new(Vec::new()).expect("no names");
    root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root = CertifiedIssuer::self_signed(root, KeyPair::generate().expect("a key")).expect("a root");
    let key = KeyPair::generate().expect("a key");
    let leaf = CertificateParams::new(["localhost".to_owned()]).expect("a name");
    let leaf = leaf.signed_by(&key, &root).expect("a certificate");
    for (name, text) in
        [("root.pem", root.pem()), ("directory.pem", leaf.pem()), ("directory.key", key.serialize_pem())]
    {
        fs::write(dir.join(name), text).expect("a file");
    }
}
