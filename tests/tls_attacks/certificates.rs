//! Certificates of clients, at a listener that requires one.

use super::{AttackedServer, VERSIONS};
use crate::common::{
    ENGINES,
    client::{connected, get},
    tls_stream::TlsStream,
};
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, KeyPair, date_time_ymd};
use rustls::{
    AlertDescription::{
        self, CertificateExpired, CertificateRequired, DecryptError, UnknownCA, UnsupportedCertificate,
    },
    Error,
};
use std::{
    fs,
    io::{self, Read, Write},
};

/// A case: the files of a certificate and of a key, and the alert with each of the [`VERSIONS`].
type ClientCertificateCase =
    (&'static str, Option<(&'static str, &'static str)>, [Option<AlertDescription>; 2]);

#[test]
fn wrong_certificates_of_clients_are_refused_by_alert() {
    #[rustfmt::skip]
    let cases: &[ClientCertificateCase] = &[
        // case                certificate, key              TLS 1.3                       TLS 1.2
        ("a valid one",        Some(("client", "client")),   [None,                        None]),
        ("none",               None,                         [Some(CertificateRequired); 2]),
        ("expired",            Some(("expired", "expired")), [Some(CertificateExpired); 2]),
        ("not valid yet",      Some(("early", "early")),     [Some(CertificateExpired); 2]),
        ("self-signed",        Some(("own", "own")),         [Some(UnknownCA); 2]),
        ("of a server",        Some(("server", "server")),   [Some(UnsupportedCertificate); 2]),
        ("with another's key", Some(("client", "own")),      [Some(DecryptError); 2]),
    ];
    for &engine in ENGINES {
        let target = AttackedServer::start(engine, &[]);
        let files = &target.files;
        files.issue_for_client("client");
        let of_client = vec![ExtendedKeyUsagePurpose::ClientAuth];
        files.issue_with("expired", &["client"], |params| {
            (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
            params.extended_key_usages = of_client.clone();
        });
        files.issue_with("early", &["client"], |params| {
            params.not_before = date_time_ymd(2090, 1, 1);
            params.extended_key_usages = of_client.clone();
        });
        files.issue_with("server", &["client"], |params| {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        });
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(["client".to_owned()]).expect("a name");
        params.extended_key_usages = of_client.clone();
        let own = params.self_signed(&key).expect("a certificate");
        fs::write(files.file("own", "pem"), own.pem()).expect("a file");
        fs::write(files.file("own", "key"), key.serialize_pem()).expect("a file");
        target.serves_others("the start");
        let descriptors = target.descriptors();
        for (name, identity, alerts) in cases {
            for ((version_name, version), alert) in VERSIONS.into_iter().zip(alerts) {
                let config = match identity {
                    None => files.client(version),
                    Some((certificate, key)) => files.client_with(version, certificate, key),
                };
                let before = files.counts();
                let socket = connected(target.closed.address);
                let mut client = TlsStream::begin(socket, &config);
                let mut response = [0; 13];
                let answered = client
                    .shake_hands()
                    .and_then(|()| client.write_all(get("/").as_bytes()))
                    .and_then(|()| client.read_exact(&mut response));
                let seen = answered.as_ref().err().map(refusal);
                assert_eq!(seen, *alert, "{engine}, {name}, {version_name}: {answered:?}");
                drop(client);
                target.serves_others(name);
                let complete = u64::from(alert.is_none());
                target.wait_for_counts(name, before, [1 + complete, 1 - complete]);
            }
        }
        target.end(descriptors);
    }
}

/// Returns the alert that an error is.
fn refusal(error: &io::Error) -> AlertDescription {
    match error.get_ref().and_then(|error| error.downcast_ref()) {
        Some(Error::AlertReceived(alert)) => *alert,
        _ => panic!("no alert: {error}"),
    }
}
