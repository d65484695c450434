//! The TLS of a service: from the files of its configuration to the configurations of its listeners.

use super::{
    certificate::TlsCertificate, pem, policy::TlsConfig, self_signed::SelfSigned, table::CertificateTable,
    tickets::TicketKeys,
};
use crate::base::{
    address::Address,
    error::UserError,
    settings::UnknownHost,
    site_config::SiteConfig,
    tls_config::{CertificateFiles, ServiceTls, TlsPolicy},
};
use crate::data::acme_table::AcmeTable;
use std::{
    mem,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
};
use tarpon_conn::HostName;
use tarpon_site::Printable;

/// The TLS of a generation: all files are read, and each listener has its configuration.
#[derive(Debug, Default)]
pub(crate) struct PreparedTls {
    listeners: Vec<(Address, TlsConfig)>,
    pub(crate) self_signed: Option<SelfSigned>,
    /// What the server can live with, and a user should know.
    pub(crate) warnings: Vec<TlsWarning>,
    /// The files that were read, as they were just before.
    files: FileStates,
}

/// A defect of a certificate that the server uses all the same.
#[derive(Debug)]
pub(crate) struct TlsWarning {
    pub(crate) error: UserError,
    /// No client accepts it now: it has expired, or is not valid yet.
    pub(crate) is_outage: bool,
}

/// The files of certificates at some time: tells whether one of them has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileStates(Vec<(PathBuf, Option<FileFingerprint>)>);

/// Device, inode, length, time of change in seconds and nanoseconds. A file that is written or replaced gets another.
type FileFingerprint = (u64, u64, u64, i64, i64);

impl PreparedTls {
    /// Reads the files of a service. `brought`: certificates that ACME obtains, perhaps later; they come after those of files.
    ///
    /// # Errors
    /// A file cannot be used; or a listener has TLS and there is no certificate for it, nor will there be.
    pub(crate) fn new(
        tls: &ServiceTls,
        sites: &[SiteConfig],
        unknown_host: UnknownHost,
        keys: &Arc<TicketKeys>,
        brought: Option<&Arc<AcmeTable>>,
        former: Option<&SelfSigned>,
        unix_s: i64,
    ) -> Result<PreparedTls, UserError> {
        if tls.listeners.is_empty() {
            return Ok(PreparedTls::default());
        }
        let files = FileStates::of(tls, sites);
        let (mut certificates, mut warnings) = (Vec::new(), Vec::new());
        let of_sites = sites.iter().flat_map(|site| &site.certificates);
        for files in tls.certificates.iter().chain(of_sites) {
            certificates.push(read(files, unix_s, &mut warnings)?);
        }
        let hosts = sites.iter().flat_map(|site| site.hosts.iter().chain(&site.redirect_hosts));
        let self_signed = tls.is_self_signed.then(|| SelfSigned::new(hosts, former)).transpose()?;
        certificates.extend(self_signed.iter().map(|made| made.certificate.clone()));
        if let (true, Some((address, _))) =
            (certificates.is_empty() && brought.is_none(), tls.listeners.first())
        {
            return Err(no_certificate(address));
        }
        let hosts = sites.iter().flat_map(SiteConfig::hosts_of_files);
        for host in hosts.filter(|host| !certificates.iter().any(|certificate| certificate.covers(host))) {
            let first =
                tls.certificates.iter().chain(sites.iter().flat_map(|site| &site.certificates)).next();
            let warning =
                |files: &CertificateFiles| TlsWarning { error: uncovered(host, files), is_outage: false };
            warnings.extend(first.map(warning));
        }
        let table = CertificateTable::new(&certificates, unknown_host == UnknownHost::Refused);
        let table = Arc::new(match brought {
            Some(brought) => table.with_brought(Arc::clone(brought)),
            None => table,
        });
        // Listeners with the same policy share a configuration.
        let mut made: Vec<(&TlsPolicy, TlsConfig)> = Vec::new();
        let mut listeners = Vec::new();
        for (address, policy) in &tls.listeners {
            let known = made.iter().find(|(known, _)| *known == policy);
            let config = match known {
                Some((_, config)) => config.clone(),
                None => TlsConfig::with_policy(policy, Arc::clone(&table), keys)?,
            };
            made.push((policy, config.clone()));
            listeners.push((address.clone(), config));
        }
        Ok(PreparedTls { listeners, self_signed, warnings, files })
    }

    /// Returns whether it was read from files.
    pub(crate) fn has_files(&self) -> bool {
        !self.files.0.is_empty()
    }

    /// Looks at the files again. Returns whether they have changed since the last look.
    pub(crate) fn have_files_changed(&mut self) -> bool {
        let now = FileStates(self.files.0.iter().map(|(path, _)| (path.clone(), identity(path))).collect());
        mem::replace(&mut self.files, now.clone()) != now
    }

    /// Returns the configuration of a listener. `None`: it has no TLS.
    pub(crate) fn of(&self, address: &Address) -> Option<&TlsConfig> {
        self.listeners.iter().find(|(known, _)| known == address).map(|(_, config)| config)
    }
}

/// Reads the files of a certificate, and adds what is wrong with them.
///
/// # Errors
/// A file cannot be used.
pub(crate) fn read(
    files: &CertificateFiles,
    unix_s: i64,
    warnings: &mut Vec<TlsWarning>,
) -> Result<TlsCertificate, UserError> {
    let CertificateFiles { chain, ocsp, .. } = files;
    let key = files.key_file();
    let certificate = pem::read(chain, key, ocsp.as_deref())?;
    if let Some(why) = certificate.is_invalid_at(unix_s) {
        let what = format!("no client accepts certificate {}", chain.printable());
        let hint = "renew it, or set the clock of this machine";
        warnings.push(TlsWarning { error: UserError::new(what, why, hint), is_outage: true });
    }
    if pem::is_readable_by_all(key) {
        let shown = key.printable();
        let (what, why) = (format!("key {shown} is no secret"), "every user of this machine can read it");
        let error = UserError::new(
            what,
            why,
            format_args!("run chmod o-r {shown}; tarpon reads it before it drops its rights"),
        );
        warnings.push(TlsWarning { error, is_outage: false });
    }
    Ok(certificate)
}

fn no_certificate(address: &Address) -> UserError {
    UserError::new(
        format_args!("cannot serve HTTPS at tls:{address}"),
        "there is no certificate",
        "name one with --tls-cert FILE --tls-key FILE, or add --tls self-signed for development",
    )
}

/// Returns the warning about a host that no certificate covers. `first`: the certificate that its clients get.
pub(crate) fn uncovered(host: &HostName, first: &CertificateFiles) -> UserError {
    let why = format!("no certificate covers it, so they get {}", first.chain.printable());
    let hint = "add a certificate for it with tls-cert, or remove it from hosts";
    UserError::new(format_args!("browsers warn of {host}"), why, hint)
}

impl FileStates {
    /// Looks at the files of a service.
    pub(crate) fn of(tls: &ServiceTls, sites: &[SiteConfig]) -> FileStates {
        if tls.listeners.is_empty() {
            return FileStates::default();
        }
        let files = tls.certificates.iter().chain(sites.iter().flat_map(|site| &site.certificates));
        let paths = files
            .flat_map(|CertificateFiles { chain, key, ocsp }| [Some(chain), key.as_ref(), ocsp.as_ref()]);
        let authorities = tls.listeners.iter().map(|(_, policy)| policy.client_ca.as_ref());
        let paths = paths.chain(authorities).flatten();
        FileStates(paths.map(|path| (path.clone(), identity(path))).collect())
    }
}

/// Links are followed: certbot switches links at each renewal.
fn identity(path: &Path) -> Option<FileFingerprint> {
    let meta = path.metadata().ok()?;
    Some((meta.dev(), meta.ino(), meta.len(), meta.ctime(), meta.ctime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        base::tls_config::TlsPolicy,
        control::tls::{
            test_certificates::{issue, pem_of},
            tickets::TicketSecret,
        },
    };
    use std::{fs, os::unix::fs::symlink};

    #[test]
    fn listeners_share_certificates_and_changed_files_are_noticed_once() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for number in [1, 2] {
            let (certificate, key) = pem_of(&issue(&["example.org"]));
            fs::create_dir(at(&number.to_string())).unwrap();
            fs::write(at(&format!("{number}/cert.pem")), certificate).unwrap();
            fs::write(at(&format!("{number}/key.pem")), key).unwrap();
        }
        // As certbot does it.
        symlink("1", at("live")).unwrap();
        let addresses: Vec<Address> = ["127.0.0.1:1", "127.0.0.1:2"].map(|text| text.parse().unwrap()).into();
        let tls = ServiceTls {
            listeners: addresses.iter().map(|address| (address.clone(), TlsPolicy::default())).collect(),
            certificates: vec![CertificateFiles {
                chain: at("live/cert.pem"),
                key: Some(at("live/key.pem")),
                ocsp: None,
            }],
            is_self_signed: false,
        };
        let site = SiteConfig {
            hosts: vec!["example.org".parse().unwrap(), "example.net".parse().unwrap()],
            ..SiteConfig::default()
        };
        let keys = TicketKeys::new(TicketSecret::random());
        let prepare = |tls: &ServiceTls| {
            PreparedTls::new(
                tls,
                std::slice::from_ref(&site),
                UnknownHost::Refused,
                &keys,
                None,
                None,
                1_000_000_000,
            )
        };
        let mut prepared = prepare(&tls).unwrap();
        let warnings: Vec<_> = prepared.warnings.iter().map(|warning| warning.error.to_string()).collect();
        assert!(
            warnings
                .iter()
                .any(|text| text.starts_with("browsers warn of example.net: no certificate covers it")),
            "{warnings:?}"
        );
        assert!(
            prepared.of(&addresses[0]).is_some() && prepared.of(&"127.0.0.1:3".parse().unwrap()).is_none()
        );
        assert!(prepared.has_files() && !prepared.have_files_changed());
        let steps: &[(&str, &dyn Fn())] = &[
            ("a link is switched", &|| {
                fs::remove_file(at("live")).unwrap();
                symlink("2", at("live")).unwrap();
            }),
            ("a file grows", &|| fs::write(at("2/cert.pem"), "more").unwrap()),
            ("a file is removed", &|| fs::remove_file(at("2/key.pem")).unwrap()),
        ];
        for (name, change) in steps {
            change();
            assert!(prepared.have_files_changed(), "{name}");
            assert!(!prepared.have_files_changed(), "{name}, noticed once");
        }
        let none = ServiceTls { certificates: Vec::new(), ..tls.clone() };
        let error = prepare(&none).unwrap_err().to_string();
        assert!(
            error.starts_with("cannot serve HTTPS at tls:127.0.0.1:1: there is no certificate; name one"),
            "{error}"
        );
        let plain = ServiceTls { listeners: Vec::new(), ..none };
        assert!(!prepare(&plain).unwrap().has_files());
    }
}
