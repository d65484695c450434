//! Reads certificates and keys from PEM files: RFC 7468.

use super::certificate::{CertificateError, TlsCertificate};
use crate::base::error::{UserError, reason};
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer,
    pem::{Error as PemError, PemObject},
};
use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};
use tarpon_site::Printable;
use zeroize::Zeroizing;

/// The longest file: a chain with its key has some 10 KiB, the certificate authorities of an organisation some more.
const LEN_MAX: u64 = 1 << 20;

/// Reads a chain, its key, and a response of OCSP that is stapled to it.
///
/// # Errors
/// A file cannot be read, or has another content; the key is encrypted, or does not fit the certificate.
pub(super) fn read(chain: &Path, key: &Path, ocsp: Option<&Path>) -> Result<TlsCertificate, UserError> {
    let (chain_text, key_text) = (read_file(chain, "certificate")?, read_file(key, "key")?);
    let certificates = certificates(chain, &chain_text)?;
    let private_key = private_key(key, &key_text)?;
    let ocsp = ocsp.map(read_ocsp).transpose()?;
    TlsCertificate::new(certificates, private_key, ocsp).map_err(|error| {
        let (chain, shown_key) = (chain.printable(), key.printable());
        let hint = match &error {
            CertificateError::Malformed(_) => {
                "name the file of the certificate chain, that of the server first".to_owned()
            }
            CertificateError::UnsupportedKey(_) => {
                format!("make a key of a kind that browsers support, as with openssl ecparam -name prime256v1 -genkey -out {shown_key}")
            }
            CertificateError::KeyMismatch => {
                format!("name the key that {chain} was issued for; the server's certificate comes first in the file")
            }
        };
        UserError::new(format_args!("cannot use certificate {chain} with key {shown_key}"), error, hint)
    })
}

/// Reads the certificates of a file, such as those of the authorities whose clients are accepted.
///
/// # Errors
/// The file cannot be read, or has no certificate.
pub(super) fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, UserError> {
    certificates(path, &read_file(path, "certificate")?)
}

fn certificates(path: &Path, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, UserError> {
    let what = || format!("cannot read certificate {}", path.printable());
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    let found = found.map_err(|error| UserError::new(what(), pem_reason(&error), NOT_PEM))?;
    match found.is_empty() {
        false => Ok(found),
        true => Err(UserError::new(what(), "the file has no -----BEGIN CERTIFICATE-----", NOT_PEM)),
    }
}

fn private_key(path: &Path, text: &[u8]) -> Result<PrivateKeyDer<'static>, UserError> {
    let shown = path.printable();
    let what = format!("cannot read key {shown}");
    let has = |part: &[u8]| text.windows(part.len()).any(|window| window == part);
    // RFC 5958, section 3, and the header of RFC 1421, which OpenSSL still writes.
    if has(b"-----BEGIN ENCRYPTED PRIVATE KEY-----") || has(b"Proc-Type: 4,ENCRYPTED") {
        let hint = format!(
            "decrypt it, as with openssl pkey -in {shown} -out plain.pem, and let only its owner read it"
        );
        return Err(UserError::new(what, "the key is encrypted, and the server has no password", hint));
    }
    PrivateKeyDer::from_pem_slice(text).map_err(|error| match error {
        PemError::NoItemsFound => UserError::new(
            what,
            "the file has no -----BEGIN PRIVATE KEY-----",
            "name the file of the key with tls-key",
        ),
        error => UserError::new(what, pem_reason(&error), NOT_PEM),
    })
}

/// Reads a response of OCSP, as a certificate authority sends it: RFC 6960, section 4.2.1.
fn read_ocsp(path: &Path) -> Result<Vec<u8>, UserError> {
    let text = read_file(path, "OCSP response")?;
    // OCSPResponse is a SEQUENCE that begins with the status: ENUMERATED successful (0).
    let parsed = x509_parser::der_parser::parse_der(&text).ok().filter(|(rest, _)| rest.is_empty());
    let status = parsed.and_then(|(_, response)| response.as_sequence().ok()?.first()?.as_u64().ok());
    let what = format!("cannot use OCSP response {}", path.printable());
    let hint = "fetch it again, as with openssl ocsp -respout FILE, or leave tls-ocsp out";
    match status {
        Some(0) => Ok(text.to_vec()),
        Some(_) => Err(UserError::new(what, "the certificate authority has answered with an error", hint)),
        None => Err(UserError::new(what, "the file is no OCSP response in DER", hint)),
    }
}

/// Returns whether every user of the machine may read a key.
pub(super) fn is_readable_by_all(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.mode() & 0o004 != 0)
}

/// Reads a regular file. The supervisor reads it while it serves, so it must not wait for the writer of a pipe.
fn read_file(path: &Path, what: &str) -> Result<Zeroizing<Vec<u8>>, UserError> {
    let read = || {
        let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
        let meta = file.metadata()?;
        if meta.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if !meta.is_file() {
            return Err(io::Error::other("it is no regular file"));
        }
        // A vector that grows would leave a copy of the key in memory that it frees.
        let mut text = Zeroizing::new(Vec::with_capacity(meta.len().min(LEN_MAX) as usize + 1));
        match file.take(LEN_MAX + 1).read_to_end(&mut text)? as u64 > LEN_MAX {
            true => Err(io::ErrorKind::FileTooLarge.into()),
            false => Ok(text),
        }
    };
    read().map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::NotFound => {
                "create it, or name another; relative paths start at the directory of the file"
            }
            io::ErrorKind::PermissionDenied => "let the user that starts tarpon read it",
            _ => "name a PEM file",
        };
        UserError::new(format_args!("cannot read {what} {}", path.printable()), reason(&error), hint)
    })
}

fn pem_reason(error: &PemError) -> String {
    match error {
        PemError::MissingSectionEnd { .. } => "the file ends within a section: it was cut".to_owned(),
        PemError::Base64Decode(why) => format!("a section is damaged ({why})"),
        error => error.to_string(),
    }
}

const NOT_PEM: &str = "name a file in PEM format, as certificate authorities send it";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::tls::test_certificates::{issue, pem_of};
    use std::fs;

    #[test]
    #[rustfmt::skip]
    fn each_broken_file_gets_its_message() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let (certificate, key) = pem_of(&issue(&["example.org"]));
        let (_, other_key) = pem_of(&issue(&["example.org"]));
        let half = &key[..key.len() / 2];
        let encrypted = key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
        let header = key.replace("KEY-----\n", "KEY-----\nProc-Type: 4,ENCRYPTED\n");
        let damaged = certificate.replacen("MI", "!!", 1);
        let nonsense = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
        let odd_key = "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n";
        let both = [&*certificate, &*key].concat();
        let files: &[(&str, &str)] = &[
            ("cert", &certificate), ("key", &key), ("both", &both), ("other", &other_key), ("empty", ""), ("half", half),
            ("encrypted", &encrypted), ("header", &header), ("damaged", &damaged), ("nonsense", nonsense), ("odd", odd_key),
        ];
        for (name, content) in files {
            fs::write(at(name), content).unwrap();
        }
        fs::create_dir(at("dir")).unwrap();
        fs::write(at("ok.der"), [0x30, 3, 0x0a, 1, 0]).unwrap();
        fs::write(at("later.der"), [0x30, 3, 0x0a, 1, 3]).unwrap();
        type Optional = Option<&'static str>;
        let cases: &[(&str, &str, &str, Optional, Optional)] = &[
            // case                certificate key       OCSP               error
            ("fits",               "cert",     "key",    None,              None),
            ("one file",           "both",     "both",   None,              None),
            ("stapled",            "cert",     "key",    Some("ok.der"),    None),
            ("no certificate",     "none",     "key",    None,              Some("cannot read certificate DIR/none: no such file or directory; create it")),
            ("no key",             "cert",     "none",   None,              Some("cannot read key DIR/none: no such file or directory; create it")),
            ("a directory",        "dir",      "key",    None,              Some("cannot read certificate DIR/dir: is a directory; name a PEM file")),
            ("empty",              "empty",    "key",    None,              Some("cannot read certificate DIR/empty: the file has no -----BEGIN CERTIFICATE-----; name a file in PEM")),
            ("the files swapped",  "key",      "cert",   None,              Some("cannot read certificate DIR/key: the file has no -----BEGIN CERTIFICATE-----;")),
            ("twice certificate",  "cert",     "cert",   None,              Some("cannot read key DIR/cert: the file has no -----BEGIN PRIVATE KEY-----; name the file of the key")),
            ("half a key",         "cert",     "half",   None,              Some("cannot read key DIR/half: the file ends within a section: it was cut;")),
            ("damaged",            "damaged",  "key",    None,              Some("cannot read certificate DIR/damaged: a section is damaged")),
            ("another's key",      "cert",     "other",  None,              Some("cannot use certificate DIR/cert with key DIR/other: the key does not fit the certificate; name the key")),
            ("encrypted, PKCS #8", "cert",     "encrypted", None,           Some("cannot read key DIR/encrypted: the key is encrypted, and the server has no password; decrypt it")),
            ("encrypted, OpenSSL", "cert",     "header", None,              Some("cannot read key DIR/header: the key is encrypted,")),
            ("no X.509",           "nonsense", "key",    None,              Some("cannot use certificate DIR/nonsense with key DIR/key: it is no X.509 certificate")),
            ("an odd key",         "cert",     "odd",    None,              Some("cannot use certificate DIR/cert with key DIR/odd: its key cannot be used")),
            ("no OCSP response",   "cert",     "key",    Some("cert"),      Some("cannot use OCSP response DIR/cert: the file is no OCSP response in DER; fetch it again")),
            ("try later",          "cert",     "key",    Some("later.der"), Some("cannot use OCSP response DIR/later.der: the certificate authority has answered with an error;")),
        ];
        for (name, certificate, key, ocsp, want) in cases {
            let ocsp = ocsp.map(at);
            let found = read(&at(certificate), &at(key), ocsp.as_deref()).err().map(|error| error.to_string());
            let found = found.map(|text| text.replace(&dir.path().printable().to_string(), "DIR"));
            match want {
                None => assert_eq!(found, None, "{name}"),
                Some(want) => assert!(found.as_ref().is_some_and(|found| found.starts_with(want)), "{name}: {found:?}"),
            }
        }
        fs::write(at("large"), vec![b'\n'; LEN_MAX as usize + 1]).unwrap();
        assert!(read_certificates(&at("large")).unwrap_err().to_string().contains("file too large"));
    }
}
