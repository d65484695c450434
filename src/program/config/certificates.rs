//! Checks the files of certificates, for `tarpon config check`: the start reports the same.

use super::{ConfigErrors, OptionValue, ResolvedConfig, acme, conflict::is_option};
use crate::{
    CertificateFiles, HostName, UserError,
    control::tls::{
        certificate::TlsCertificate,
        service::{self, TlsWarning},
    },
};

/// Checks the certificates of a configuration at this time, in seconds since 1970. Returns warnings.
///
/// # Errors
/// Each file that cannot be used, and each certificate that has expired or is not valid yet.
pub(crate) fn check_certificates(
    resolved: &ResolvedConfig,
    unix_s: i64,
) -> Result<Vec<UserError>, ConfigErrors> {
    let (mut errors, mut warnings, mut certificates) = (Vec::new(), Vec::new(), Vec::new());
    let config = &resolved.config;
    let sites = config.sites.iter().enumerate().map(|(number, site)| ("site", number, &site.certificates));
    for (section, number, all) in [("server", 0, &config.server.certificates)].into_iter().chain(sites) {
        let is_entry =
            |entry: &&OptionValue| entry.number == Some(number) && is_option(entry, section, "tls-cert");
        let Some(entry) = resolved.entries.iter().find(is_entry) else { continue };
        for (at, files) in all.iter().enumerate() {
            let mut found = Vec::new();
            let read = service::read(files, unix_s, &mut found);
            for TlsWarning { error, is_outage, .. } in found {
                match is_outage {
                    true => {
                        errors.push(error_of(entry, at, &error, "expected a certificate that is valid now"))
                    }
                    false => warnings.push(error),
                }
            }
            match read {
                Ok(certificate) => certificates.push(certificate),
                Err(error) => errors.push(error_of(entry, at, &error, "expected a certificate with its key")),
            }
        }
    }
    if !errors.is_empty() {
        return Err(ConfigErrors::new(resolved.file.as_ref(), errors));
    }
    if let Some(first) = first_files(resolved).filter(|_| !config.server.is_self_signed) {
        let hosts = config.sites.iter().flat_map(|site| site.hosts_of_files());
        let is_covered =
            |host: &HostName| certificates.iter().any(|known: &TlsCertificate| known.covers(host));
        warnings.extend(hosts.filter(|host| !is_covered(host)).map(|host| service::uncovered(host, first)));
    }
    warnings.extend(acme::unreachable(config));
    Ok(warnings)
}

fn first_files(resolved: &ResolvedConfig) -> Option<&CertificateFiles> {
    let config = &resolved.config;
    config.server.certificates.iter().chain(config.sites.iter().flat_map(|site| &site.certificates)).next()
}

fn error_of(entry: &OptionValue, at: usize, error: &UserError, expected: &str) -> super::ConfigError {
    let (found, hint) = error.found_and_hint();
    entry.error(at, found, expected, hint)
}
