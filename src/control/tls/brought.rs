//! Certificates that ACME brings while the server serves, and those that answer its challenges.

use super::{certificate::TlsCertificate, provider};
use crate::data::acme_table::{AcmeTable, ChallengeCertificate};
use rustls::{
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};
use std::sync::{Arc, PoisonError, RwLock};

/// The protocol of handshakes that show control over a name: RFC 8737, section 3.
pub(super) const CHALLENGE_PROTOCOL: &[u8] = b"acme-tls/1";

/// The certificates in the memory that the supervisor writes. Each process reads them again when they have changed.
pub(super) struct BroughtCertificates<I> {
    table: Arc<AcmeTable>,
    /// What was made of them, and their number of changes at that time. Locked for a look-up once per full handshake.
    read: RwLock<Option<(u64, Arc<I>)>>,
}

impl<I> BroughtCertificates<I> {
    pub(super) fn new(table: Arc<AcmeTable>) -> BroughtCertificates<I> {
        BroughtCertificates { table, read: RwLock::new(None) }
    }

    /// Returns what `make` makes of the certificates of now.
    pub(super) fn current(&self, make: impl FnOnce(&[TlsCertificate]) -> I) -> Arc<I> {
        // Looked at before the certificates: a later change is then seen the next time.
        let count = self.table.change_count();
        let known = |read: &Option<(u64, Arc<I>)>| {
            read.as_ref().filter(|(known, _)| *known == count).map(|(_, made)| Arc::clone(made))
        };
        if let Some(made) = known(&self.read.read().unwrap_or_else(PoisonError::into_inner)) {
            return made;
        }
        let certificates: Vec<_> =
            self.table.certificates().iter().filter_map(|(_, text)| of_pem(text.as_bytes())).collect();
        let made = Arc::new(make(&certificates));
        *self.read.write().unwrap_or_else(PoisonError::into_inner) = Some((count, Arc::clone(&made)));
        made
    }

    /// Returns the certificate that answers the challenge for a name.
    pub(super) fn challenge(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        let ChallengeCertificate { certificate, key } = self.table.challenge_certificate(name)?;
        let key = provider().key_provider.load_private_key(PrivateKeyDer::try_from(key).ok()?).ok()?;
        // Not compared with the key: rustls reads no certificate with the extension of a challenge, which is critical: RFC 8737, section 3.
        Some(CertifiedKey::new(vec![certificate.into()], key).into())
    }
}

/// Reads a certificate with its key. `None`: they do not fit, which the supervisor has checked before it published them.
fn of_pem(text: &[u8]) -> Option<TlsCertificate> {
    let key = PrivateKeyDer::from_pem_slice(text).ok()?;
    let chain = CertificateDer::pem_slice_iter(text).collect::<Result<_, _>>().ok()?;
    TlsCertificate::new(chain, key, None).ok()
}
