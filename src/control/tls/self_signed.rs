//! A certificate for development, which the server makes for itself. Clients do not trust it by default.

use super::certificate::TlsCertificate;
use crate::base::error::UserError;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use std::fmt::Write;
use tarpon_conn::HostName;

/// A self-signed certificate, and the hosts that it was made for.
#[derive(Clone, Debug)]
pub(crate) struct SelfSigned {
    hosts: Vec<String>,
    pub(crate) certificate: TlsCertificate,
}

/// The names of this machine for itself.
const LOCAL: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

impl SelfSigned {
    /// Makes a certificate for these hosts and for localhost. If `former` has the same hosts, it stays: a browser that accepted it goes on.
    ///
    /// # Errors
    /// A host cannot stand in a certificate.
    pub(crate) fn new<'a>(
        hosts: impl Iterator<Item = &'a HostName>,
        former: Option<&SelfSigned>,
    ) -> Result<SelfSigned, UserError> {
        let mut names: Vec<String> = LOCAL.map(str::to_owned).into();
        for host in hosts {
            let host = host.to_string();
            let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
            if !names.contains(&bare) {
                names.push(bare);
            }
        }
        if let Some(former) = former.filter(|former| former.hosts == names) {
            return Ok(former.clone());
        }
        let make = || {
            let key = KeyPair::generate()?;
            let mut params = CertificateParams::new(names.clone())?;
            params.distinguished_name = DistinguishedName::new();
            params.distinguished_name.push(DnType::CommonName, "tarpon, self-signed");
            Ok::<_, rcgen::Error>((params.self_signed(&key)?, key))
        };
        let (certificate, key) = make().map_err(|error| {
            UserError::new("cannot make a self-signed certificate", error, "check the hosts of the sites")
        })?;
        let certificate = TlsCertificate::from_der(vec![certificate.der().to_vec()], key.serialize_der())?;
        Ok(SelfSigned { hosts: names, certificate })
    }

    /// Returns the SHA-256 of the certificate, as browsers and openssl show it.
    pub(crate) fn fingerprint(&self) -> String {
        let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, self.certificate.leaf());
        let mut text = String::new();
        for (number, byte) in hash.as_ref().iter().enumerate() {
            let colon = if number == 0 { "" } else { ":" };
            let _ = write!(text, "{colon}{byte:02X}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificate_covers_localhost_and_all_hosts_and_stays_while_they_do() {
        let hosts = ["example.org", "*.example.net", "192.0.2.7", "[2001:db8::1]", "localhost"];
        let hosts = hosts.map(|host| host.parse::<HostName>().unwrap());
        let made = SelfSigned::new(hosts.iter(), None).unwrap();
        for host in hosts.iter().map(HostName::to_string).chain([
            "localhost".into(),
            "127.0.0.1".into(),
            "[::1]".into(),
        ]) {
            assert!(made.certificate.covers(&host.parse().unwrap()), "{host}");
        }
        assert!(!made.certificate.covers(&"example.com".parse().unwrap()));
        let same = SelfSigned::new(hosts.iter(), Some(&made)).unwrap();
        assert_eq!(same.fingerprint(), made.fingerprint());
        let other = SelfSigned::new(hosts[..1].iter(), Some(&made)).unwrap();
        assert_ne!(other.fingerprint(), made.fingerprint());
        assert_eq!(made.fingerprint().len(), 32 * 3 - 1);
    }
}
