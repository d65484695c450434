//! A directory with the files of a certificate authority, and of certificates that it has issued; clients that trust it.

use super::{client::TestClient, record_forge::FORGED_SUITES};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::{
    ClientConfig, ConfigBuilder, RootCertStore, SupportedProtocolVersion,
    client::{Resumption, WantsClientCert},
    crypto::aws_lc_rs as provider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::{CertifiedKey, SingleCertAndKey},
};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::Arc,
};
use tempfile::TempDir;

/// The directory; `ca.pem` is the certificate of the authority.
pub(crate) struct TlsFiles {
    dir: TempDir,
    issuer: Issuer<'static, KeyPair>,
    authority: CertificateDer<'static>,
}

/// What a server has counted of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TlsCounts {
    pub(crate) handshakes: u64,
    pub(crate) failures: u64,
}

impl TlsFiles {
    pub(crate) fn new() -> TlsFiles {
        let dir = tempfile::tempdir().expect("a directory");
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new([]).expect("no names");
        // OpenSSL takes a certificate with the name of its issuer for a self-signed one.
        params.distinguished_name.push(DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let authority = params.self_signed(&key).expect("a certificate");
        fs::write(dir.path().join("ca.pem"), authority.pem()).expect("a file");
        TlsFiles { issuer: Issuer::new(params, key), authority: authority.der().clone(), dir }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn authority(&self) -> &CertificateDer<'static> {
        &self.authority
    }

    /// Issues a certificate for a server: writes `NAME.pem` and `NAME.key`.
    pub(crate) fn issue(&self, name: &str, hosts: &[&str]) -> (Certificate, KeyPair) {
        self.issue_with(name, hosts, |_| ())
    }

    pub(crate) fn issue_for_client(&self, name: &str) {
        self.issue_with(name, &["client"], |params| {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        });
    }

    pub(crate) fn issue_with(
        &self,
        name: &str,
        hosts: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> (Certificate, KeyPair) {
        let key = KeyPair::generate().expect("a key");
        (self.issue_with_key(name, &key, hosts, change), key)
    }

    pub(crate) fn issue_with_key(
        &self,
        name: &str,
        key: &KeyPair,
        hosts: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> Certificate {
        let hosts: Vec<_> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut params = CertificateParams::new(hosts).expect("names");
        change(&mut params);
        let certificate = params.signed_by(key, &self.issuer).expect("a certificate");
        fs::write(self.file(name, "pem"), certificate.pem()).expect("a file");
        let key_file = self.file(name, "key");
        fs::write(&key_file, key.serialize_pem()).expect("a file");
        // tarpon warns of a key that every user can read.
        fs::set_permissions(key_file, fs::Permissions::from_mode(0o600)).expect("a file of this user");
        certificate
    }

    /// Returns the configuration of a client with one version, which trusts the authority and resumes no session. Its key exchange is the
    /// cheapest, as tests have thousands of clients, and its only cipher the one of a [`RecordForge`](super::record_forge::RecordForge).
    pub(crate) fn client(&self, version: &'static SupportedProtocolVersion) -> Arc<ClientConfig> {
        configured(self.client_builder(version).with_no_client_auth())
    }

    /// Returns such a configuration with a certificate of the client, and a key that may be another's.
    pub(crate) fn client_with(
        &self,
        version: &'static SupportedProtocolVersion,
        certificate: &str,
        key: &str,
    ) -> Arc<ClientConfig> {
        let chain = CertificateDer::from_pem_file(self.file(certificate, "pem")).expect("a certificate");
        let key = PrivateKeyDer::from_pem_file(self.file(key, "key")).expect("a key");
        let key = provider::sign::any_supported_type(&key).expect("a key");
        let certified = SingleCertAndKey::from(CertifiedKey::new(vec![chain], key));
        configured(self.client_builder(version).with_client_cert_resolver(Arc::new(certified)))
    }

    fn client_builder(
        &self,
        version: &'static SupportedProtocolVersion,
    ) -> ConfigBuilder<ClientConfig, WantsClientCert> {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.clone()).expect("an authority");
        let mut provider = provider::default_provider();
        provider.cipher_suites.retain(|suite| FORGED_SUITES.contains(&suite.suite()));
        provider.kx_groups = vec![provider::kx_group::X25519];
        ClientConfig::builder_with_provider(provider.into())
            .with_protocol_versions(&[version])
            .expect("a version of the provider")
            .with_root_certificates(roots)
    }

    /// Reads the metrics of a server whose admin listener is `unix:admin.sock` in this directory.
    pub(crate) fn counts(&self) -> TlsCounts {
        let metrics = TestClient::connect_unix(&self.path().join("admin.sock")).get("/metrics").content;
        let text = String::from_utf8(metrics).expect("UTF-8");
        let value = |row: &str| {
            row.rsplit_once(' ').and_then(|(_, value)| value.parse::<u64>().ok()).expect("a number")
        };
        let sum = |name| text.lines().filter(|row| row.starts_with(name)).map(value).sum();
        TlsCounts {
            handshakes: sum("tarpon_tls_handshakes_total"),
            failures: sum("tarpon_tls_failures_total"),
        }
    }

    /// Runs a program in the directory.
    pub(crate) fn run(&self, program: &str, arguments: &[&str]) -> Output {
        let output = Command::new(program).args(arguments).current_dir(self.path()).output();
        output.unwrap_or_else(|error| panic!("{program}: {error}; run tests/setup"))
    }

    pub(crate) fn file(&self, name: &str, extension: &str) -> PathBuf {
        self.path().join(format!("{name}.{extension}"))
    }
}

fn configured(mut config: ClientConfig) -> Arc<ClientConfig> {
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.resumption = Resumption::disabled();
    config.enable_secret_extraction = true;
    config.into()
}
