//! Chooses the certificate of a connection by the name that the client asks for: RFC 6066, section 3.

use super::{
    brought::{BroughtCertificates, CHALLENGE_PROTOCOL},
    certificate::TlsCertificate,
};
use crate::data::acme_table::AcmeTable;
use rustls::{
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

/// The certificates of a server, by name. They can be replaced while the server serves.
pub(crate) struct CertificateTable {
    /// Locked for a look-up once per full handshake.
    index: RwLock<CertificateIndex>,
    /// Those that ACME brings.
    brought: Option<BroughtCertificates<CertificateIndex>>,
    /// A client that asks for an unknown name gets no certificate, and an alert.
    refuses_unknown: bool,
}

struct CertificateIndex {
    /// By exact name.
    exact: HashMap<String, Arc<CertifiedKey>>,
    /// By the name behind `*.`: one label stands for the star.
    wildcards: HashMap<String, Arc<CertifiedKey>>,
    /// The first certificate: for clients that ask for no name, or for an unknown one.
    default: Option<Arc<CertifiedKey>>,
}

impl CertificateTable {
    pub(crate) fn new(certificates: &[TlsCertificate], refuses_unknown: bool) -> CertificateTable {
        let index = RwLock::new(CertificateIndex::new(certificates));
        CertificateTable { index, brought: None, refuses_unknown }
    }

    /// Adds the certificates that ACME brings. Those with the same names that were given to [`new`](CertificateTable::new) come first.
    pub(crate) fn with_brought(self, table: Arc<AcmeTable>) -> CertificateTable {
        CertificateTable { brought: Some(BroughtCertificates::new(table)), ..self }
    }

    /// Returns whether a handshake may be one that shows control over a name.
    pub(super) fn has_challenges(&self) -> bool {
        self.brought.is_some()
    }

    /// Replaces all certificates. Handshakes under way go on with the former ones.
    pub(crate) fn replace(&self, certificates: &[TlsCertificate]) {
        let index = CertificateIndex::new(certificates);
        *self.index.write().unwrap_or_else(PoisonError::into_inner) = index;
    }

    fn find(&self, name: Option<&str>) -> Option<Arc<CertifiedKey>> {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        let brought = self.brought.as_ref().map(|brought| brought.current(CertificateIndex::new));
        let default = || index.default.clone().or_else(|| brought.as_ref()?.default.clone());
        let Some(name) = name else { return default() };
        // rustls passes names that are syntactically valid, in any case.
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        match index.find(&name).or_else(|| brought.as_ref()?.find(&name)) {
            Some(found) => Some(found),
            None if self.refuses_unknown => None,
            None => default(),
        }
    }
}

impl CertificateIndex {
    /// If two certificates have a name, the first of them is used.
    fn new(certificates: &[TlsCertificate]) -> CertificateIndex {
        let (mut exact, mut wildcards) = (HashMap::new(), HashMap::new());
        for certificate in certificates {
            for name in &*certificate.names {
                let (map, name) = match name.strip_prefix("*.") {
                    Some(parent) => (&mut wildcards, parent),
                    None => (&mut exact, &**name),
                };
                map.entry(name.to_owned()).or_insert_with(|| Arc::clone(&certificate.key));
            }
        }
        let default = certificates.first().map(|certificate| Arc::clone(&certificate.key));
        CertificateIndex { exact, wildcards, default }
    }

    /// Finds the certificate for a name in lower case.
    fn find(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        let parent = || name.split_once('.').and_then(|(_, parent)| self.wildcards.get(parent));
        self.exact.get(name).or_else(parent).map(Arc::clone)
    }
}

impl ResolvesServerCert for CertificateTable {
    /// `None`: the handshake ends, and the transport sends the alert unrecognized_name.
    fn resolve(&self, client_hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // A client that checks a challenge offers this protocol alone: RFC 8737, section 3.
        let mut protocols = client_hello.alpn().into_iter().flatten();
        if let (Some(brought), Some(CHALLENGE_PROTOCOL), None) =
            (&self.brought, protocols.next(), protocols.next())
        {
            return brought.challenge(client_hello.server_name()?);
        }
        self.find(client_hello.server_name())
    }
}

impl fmt::Debug for CertificateTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateTable").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::tls::test_certificates::certificate;

    #[test]
    #[rustfmt::skip]
    fn name_selects_the_certificate() {
        let certificates = [
            certificate(&["example.org", "www.example.org"]), certificate(&["*.example.org"]), certificate(&["Example.NET", "a.example.org"]),
            certificate(&["example.org"]),
        ];
        let cases: &[(&str, Option<&str>, usize, bool)] = &[
            // case                   asked for                number, known
            ("no name",               None,                    0, true),
            ("exact",                 Some("www.example.org"), 0, true),
            ("the first of two",      Some("example.org"),     0, true),
            ("wildcard",              Some("b.example.org"),   1, true),
            ("exact before wildcard", Some("a.example.org"),   2, true),
            ("any case",              Some("A.Example.ORG"),   2, true),
            ("case in certificate",   Some("example.net"),     2, true),
            ("dot of the root",       Some("example.net."),    2, true),
            ("two labels",            Some("a.b.example.org"), 0, false),
            ("unknown",               Some("example.com"),     0, false),
            ("parent of a wildcard",  Some("org"),             0, false),
        ];
        for refuses_unknown in [false, true] {
            let table = CertificateTable::new(&certificates, refuses_unknown);
            for (name, asked, number, is_known) in cases {
                let want = (*is_known || !refuses_unknown).then(|| &certificates[*number].key);
                let found = table.find(*asked);
                let is_same = match (&found, want) {
                    (Some(found), Some(want)) => Arc::ptr_eq(found, want),
                    (None, None) => true,
                    _ => false,
                };
                assert!(is_same, "{name}, refuses unknown: {refuses_unknown}");
            }
        }
        let table = CertificateTable::new(&certificates[..1], false);
        table.replace(&certificates[2..3]);
        assert!(Arc::ptr_eq(&table.find(Some("example.org")).unwrap(), &certificates[2].key), "replaced");
        assert!(CertificateTable::new(&[], false).find(None).is_none(), "no certificate yet");
    }
}
