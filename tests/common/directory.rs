//! An ACME directory for tests: Pebble, with the server that answers its questions to the DNS. `tests/setup` builds both.

use super::{port::ReservedPort, wait_for};
use aws_lc_rs::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair},
};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
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
    /// Where a test tells the directory what to answer.
    console: ReservedPort,
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
        let [port, management, console, dns] = std::array::from_fn(|_| ReservedPort::new());
        let DirectoryOptions { http_port, tls_port, validity_s, needs_external_account } = options;
        let file = |name: &str| dir.join(name).to_str().expect("UTF-8").to_owned();
        let [key_id, key] = EXTERNAL_ACCOUNT;
        let config = serde_json::json!({ "pebble": {
            "listenAddress": port.address.to_string(),
            "managementListenAddress": console.address.to_string(),
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
            console,
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

    /// Lets the directory recommend to renew a certificate, in PEM, between these times in seconds since 1970: RFC 9773, section 4.2.
    pub(crate) fn recommend_renewal(&self, certificate: &str, [start, end]: [u64; 2]) {
        let text =
            |unix_s| String::from_utf8(tarpon_http::date::format_rfc3339(unix_s).to_vec()).expect("ASCII");
        let window = serde_json::json!({ "suggestedWindow": { "start": text(start), "end": text(end) } });
        let request = serde_json::json!({ "Certificate": certificate, "ARIResponse": window.to_string() });
        let url = format!("https://localhost:{}/set-renewal-info/", self.console.address.port());
        let response = self.curl(&["--data", &request.to_string(), &url]);
        assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    }

    /// Deactivates an account, with the stored credentials: RFC 8555, section 7.3.6.
    pub(crate) fn deactivate(&self, credentials: &str) {
        let credentials: serde_json::Value = serde_json::from_str(credentials).expect("JSON");
        let [url, key] = ["id", "key_pkcs8"].map(|name| credentials[name].as_str().expect(name));
        let key = BASE64_URL_SAFE_NO_PAD.decode(key).expect("base64url");
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &key).expect("a key");
        let encode = |value: serde_json::Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        // Again if the directory rejects the nonce.
        wait_for("the deactivation", || {
            let head =
                self.curl(&["--head", &format!("https://localhost:{}/nonce-plz", self.port.address.port())]);
            let nonce = head.lines().find_map(|line| line.strip_prefix("Replay-Nonce: ")).expect("a nonce");
            let protected =
                encode(serde_json::json!({ "alg": "ES256", "kid": url, "nonce": nonce, "url": url }));
            let payload = encode(serde_json::json!({ "status": "deactivated" }));
            let signature = key.sign(&SystemRandom::new(), format!("{protected}.{payload}").as_bytes());
            let signature = BASE64_URL_SAFE_NO_PAD.encode(signature.expect("a signature"));
            let request =
                serde_json::json!({ "protected": protected, "payload": payload, "signature": signature });
            let request = request.to_string();
            let response =
                self.curl(&["--header", "Content-Type: application/jose+json", "--data", &request, url]);
            assert!(response.contains("deactivated") || response.contains("badNonce"), "{response}");
            response.contains("deactivated").then_some(())
        });
    }

    /// Returns a response of the directory, with its head.
    fn curl(&self, arguments: &[&str]) -> String {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--include", "--http1.1", "--cacert", &self.root()]);
        let output = curl.args(arguments).output().expect("curl runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).replace("\r\n", "\n")
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
        for port in [&self.port, &self.management, &self.console] {
            wait_for("the directory", || TcpStream::connect(port.address).ok());
        }
    }
}

/// A proxy in front of a directory, which answers some requests in its place: `tests/clients/directory_proxy.py` describes its rules.
pub(crate) struct DirectoryProxy {
    program: Child,
    dir: PathBuf,
    port: ReservedPort,
}

impl DirectoryProxy {
    pub(crate) fn start(directory: &AcmeDirectory) -> DirectoryProxy {
        let (port, dir) = (ReservedPort::new(), directory.dir.clone());
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/directory_proxy.py");
        let ports = [&port, &directory.port].map(|port| port.address.port().to_string());
        let mut command = Command::new("python3");
        command.arg(script).args(ports).arg(&dir).stdin(Stdio::null());
        let program = command.spawn().expect("python3");
        wait_for("the proxy", || TcpStream::connect(port.address).ok());
        DirectoryProxy { program, dir, port }
    }

    /// Returns the URL of the directory behind it.
    pub(crate) fn url(&self) -> String {
        format!("https://localhost:{}/dir", self.port.address.port())
    }

    /// Returns the path of a file with bytes to answer with.
    pub(crate) fn file(&self, name: &str, content: &[u8]) -> String {
        let path = self.dir.join(name);
        fs::write(&path, content).expect("a file");
        path.to_str().expect("UTF-8").to_owned()
    }

    /// Replaces the rules: none are left if the text is empty.
    pub(crate) fn set_rules(&self, rules: &str) {
        let new = self.file("answers.new", rules.as_bytes());
        fs::rename(new, self.dir.join("answers")).expect("a file");
    }

    /// Returns what has been requested and answered so far: each a JSON object.
    pub(crate) fn log(&self) -> Vec<serde_json::Value> {
        let text = fs::read_to_string(self.dir.join("requests")).unwrap_or_default();
        // The last line may not be whole.
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

impl Drop for DirectoryProxy {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
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
    // OpenSSL takes a certificate with the name of its issuer for a self-signed one.
    root.distinguished_name.push(DnType::CommonName, "root of the directory");
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
