//! Certificates for `localhost`: signed by their own key, which the client trusts.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256};
use rustls::pki_types::CertificateDer;

use crate::client::tls::SERVER_NAME;
use crate::error::LabError;

/// The kind of key in a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CertificateKey {
    EcdsaP256,
    Rsa2048,
}

/// A certificate and its key, as PEM files for servers and as DER for the client.
pub(crate) struct LabCertificate {
    /// The PEM file of the certificate.
    pub(crate) chain: PathBuf,
    /// The PEM file of the key.
    pub(crate) key: PathBuf,
    pub(crate) der: CertificateDer<'static>,
}

impl LabCertificate {
    /// Makes a new key and its certificate, and writes both into a directory.
    pub(crate) fn create(directory: &Path, kind: CertificateKey) -> Result<LabCertificate, LabError> {
        let (algorithm, name) = match kind {
            CertificateKey::EcdsaP256 => (&PKCS_ECDSA_P256_SHA256, "ecdsa"),
            // The key has 2048 bits, the default of the library.
            CertificateKey::Rsa2048 => (&PKCS_RSA_SHA256, "rsa"),
        };
        let key = KeyPair::generate_for(algorithm)?;
        let certificate = CertificateParams::new([SERVER_NAME.to_owned()])?.self_signed(&key)?;
        let files = LabCertificate {
            chain: directory.join(format!("{name}.crt")),
            key: directory.join(format!("{name}.key")),
            der: certificate.der().clone(),
        };
        fs::write(&files.chain, certificate.pem())?;
        fs::write(&files.key, key.serialize_pem())?;
        Ok(files)
    }
}
