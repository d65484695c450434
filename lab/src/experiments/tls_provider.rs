//! The cryptography behind TLS: what rustls costs a server with aws-lc-rs and with ring, in memory, on one core.
//!
//! ```text
//! server of each provider ⇄ the same client   handshakes and records through memory; only the time of the server counts
//! ```

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256, SignatureAlgorithm};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::version::{TLS12, TLS13};
use rustls::{
    CipherSuite, ClientConfig, ClientConnection, ConnectionCommon, DigitallySignedStruct, NamedGroup,
    ServerConfig, ServerConnection, SignatureScheme, SupportedProtocolVersion,
};

use crate::error::LabError;
use crate::stats::Spread;

/// Options of `tarpon-lab tls-provider`.
#[derive(Args)]
pub(crate) struct TlsProviderArgs {
    /// Measure each case this long in each round
    #[arg(long, value_name = "SECONDS", default_value = "0.5", value_parser = super::options::parse_seconds)]
    window: f64,
    /// Measure each case in this many rounds, the providers in turn
    #[arg(long, value_name = "COUNT", default_value_t = 7)]
    rounds: usize,
}

/// Measures each case with both providers in turn, and prints a table in Markdown.
pub(crate) fn run(args: &TlsProviderArgs) -> Result<(), LabError> {
    let window = Duration::from_secs_f64(args.window);
    println!("| of the server, in µs | aws-lc-rs | ring | ring/aws-lc-rs |");
    println!("|---|---|---|---|");
    for case in cases() {
        let (mut of_aws, mut of_ring) = (Vec::new(), Vec::new());
        for _ in 0..args.rounds {
            of_aws.push(case.measure(aws_lc_rs::default_provider(), window)?);
            if !case.is_post_quantum() {
                of_ring.push(case.measure(ring::default_provider(), window)?);
            }
        }
        let ratio = Spread::of_ratios(of_ring.iter().copied().zip(of_aws.iter().copied()));
        let us = |spread: Option<Spread>| {
            spread.map_or("–".into(), |Spread { median, min, max }| {
                format!("{median:.2} ({min:.2}–{max:.2})")
            })
        };
        let ratio = ratio.map_or("–".into(), |ratio| format!("{:.2}", ratio.median));
        println!("| {} | {} | {} | {ratio} |", case.name, us(Spread::of(of_aws)), us(Spread::of(of_ring)));
    }
    Ok(())
}

/// A row of the table.
#[derive(Clone, Copy)]
struct TlsCase {
    name: &'static str,
    key: &'static SignatureAlgorithm,
    version: &'static SupportedProtocolVersion,
    group: NamedGroup,
    suite: CipherSuite,
    work: TlsWork,
}

#[derive(Clone, Copy)]
enum TlsWork {
    Handshake { resumes: bool },
    Seal { len: usize },
}

#[rustfmt::skip]
fn cases() -> Vec<TlsCase> {
    use CipherSuite::{
        TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 as ECDSA_12, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 as RSA_12,
        TLS13_AES_128_GCM_SHA256 as AES, TLS13_CHACHA20_POLY1305_SHA256 as CHACHA,
    };
    use NamedGroup::{X25519, X25519MLKEM768};
    use TlsWork::{Handshake, Seal};
    let (full, resumed) = (Handshake { resumes: false }, Handshake { resumes: true });
    let (ecdsa, rsa) = (&PKCS_ECDSA_P256_SHA256, &PKCS_RSA_SHA256);
    [
        ("full handshake, TLS 1.3, P-256",                 ecdsa, &TLS13, X25519,         AES,      full),
        ("full handshake, TLS 1.3, P-256, X25519MLKEM768", ecdsa, &TLS13, X25519MLKEM768, AES,      full),
        ("full handshake, TLS 1.3, RSA-2048",              rsa,   &TLS13, X25519,         AES,      full),
        ("full handshake, TLS 1.2, P-256",                 ecdsa, &TLS12, X25519,         ECDSA_12, full),
        ("full handshake, TLS 1.2, RSA-2048",              rsa,   &TLS12, X25519,         RSA_12,   full),
        ("resumed by ticket, TLS 1.3",                     ecdsa, &TLS13, X25519,         AES,      resumed),
        ("resumed by ticket, TLS 1.2",                     ecdsa, &TLS12, X25519,         ECDSA_12, resumed),
        ("record of 600 B, AES-128-GCM",                   ecdsa, &TLS13, X25519,         AES,      Seal { len: 600 }),
        ("record of 16 KiB, AES-128-GCM",                  ecdsa, &TLS13, X25519,         AES,      Seal { len: 16 << 10 }),
        ("record of 600 B, ChaCha20-Poly1305",             ecdsa, &TLS13, X25519,         CHACHA,   Seal { len: 600 }),
        ("record of 16 KiB, ChaCha20-Poly1305",            ecdsa, &TLS13, X25519,         CHACHA,   Seal { len: 16 << 10 }),
    ]
    .map(|(name, key, version, group, suite, work)| TlsCase { name, key, version, group, suite, work })
    .into()
}

impl TlsCase {
    fn is_post_quantum(&self) -> bool {
        self.group == NamedGroup::X25519MLKEM768
    }

    /// Returns the time of the server for one handshake or one record, in microseconds.
    fn measure(&self, provider: CryptoProvider, window: Duration) -> Result<f64, LabError> {
        let server = Arc::new(self.server(provider)?);
        let client = Arc::new(self.client()?);
        let (mut busy, mut count) = (Duration::ZERO, 0);
        let end = Instant::now() + window;
        match self.work {
            TlsWork::Handshake { resumes } => {
                // The first handshake brings the tickets.
                connect(&server, &client, resumes)?;
                while Instant::now() < end {
                    let (_, _, time) = connect(&server, &client, resumes)?;
                    (busy, count) = (busy + time, count + 1);
                }
            }
            TlsWork::Seal { len } => {
                let (mut server, ..) = connect(&server, &client, false)?;
                let (content, mut sealed) = (vec![7; len], Vec::with_capacity(2 * len + 256));
                while Instant::now() < end {
                    let start = Instant::now();
                    for _ in 0..RECORDS_PER_TURN {
                        sealed.clear();
                        std::io::Write::write_all(&mut server.writer(), &content)?;
                        server.write_tls(&mut sealed)?;
                        black_box(&mut sealed);
                    }
                    (busy, count) = (busy + start.elapsed(), count + RECORDS_PER_TURN);
                }
            }
        }
        Ok(busy.as_secs_f64() * 1e6 / f64::from(count))
    }

    fn server(&self, provider: CryptoProvider) -> Result<ServerConfig, LabError> {
        let key = KeyPair::generate_for(self.key)?;
        let certificate = CertificateParams::new(vec!["localhost".into()])?.self_signed(&key)?;
        let ticketer = match provider.kx_groups.iter().any(|group| group.name() == NamedGroup::X25519MLKEM768)
        {
            true => aws_lc_rs::Ticketer::new()?,
            false => ring::Ticketer::new()?,
        };
        let key = PrivateKeyDer::try_from(key.serialize_der())?;
        let builder = ServerConfig::builder_with_provider(self.only_its_suite(provider).into());
        let builder = builder.with_protocol_versions(&[self.version])?.with_no_client_auth();
        let mut config = builder.with_single_cert(vec![certificate.into()], key)?;
        config.ticketer = ticketer;
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        config.send_tls13_tickets = 1;
        Ok(config)
    }

    /// The client is the same for both servers.
    fn client(&self) -> Result<ClientConfig, LabError> {
        let provider = Arc::new(self.only_its_suite(aws_lc_rs::default_provider()));
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_protocol_versions(&[self.version])?.dangerous();
        let builder = builder.with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)));
        let mut config = builder.with_no_client_auth();
        config.resumption = Resumption::in_memory_sessions(4);
        Ok(config)
    }

    fn only_its_suite(&self, mut provider: CryptoProvider) -> CryptoProvider {
        provider.cipher_suites.retain(|suite| suite.suite() == self.suite);
        provider.kx_groups.retain(|group| group.name() == self.group);
        provider
    }
}

/// Connects, and returns the server, the client, and the time that the server took.
fn connect(
    server: &Arc<ServerConfig>,
    client: &Arc<ClientConfig>,
    resumes: bool,
) -> Result<(ServerConnection, ClientConnection, Duration), LabError> {
    if !resumes {
        // A client of its own, without tickets.
        let mut fresh = ClientConfig::clone(client);
        fresh.resumption = Resumption::disabled();
        return shake_hands(server, Arc::new(fresh));
    }
    shake_hands(server, Arc::clone(client))
}

fn shake_hands(
    server: &Arc<ServerConfig>,
    client: Arc<ClientConfig>,
) -> Result<(ServerConnection, ClientConnection, Duration), LabError> {
    let mut client = ClientConnection::new(client, ServerName::try_from("localhost")?)?;
    let mut busy = Duration::ZERO;
    let start = Instant::now();
    let mut server = ServerConnection::new(Arc::clone(server))?;
    busy += start.elapsed();
    loop {
        let mut wire = Vec::new();
        flush(&mut client, &mut wire)?;
        let start = Instant::now();
        receive(&mut server, &wire)?;
        let received_len = wire.len();
        wire.clear();
        flush(&mut server, &mut wire)?;
        busy += start.elapsed();
        receive(&mut client, &wire)?;
        if received_len == 0 && wire.is_empty() {
            break;
        }
    }
    if client.is_handshaking() || server.is_handshaking() {
        return Err("the handshake did not finish".into());
    }
    Ok((server, client, busy))
}

fn flush<D>(connection: &mut ConnectionCommon<D>, wire: &mut Vec<u8>) -> Result<(), LabError> {
    while connection.wants_write() {
        connection.write_tls(wire)?;
    }
    Ok(())
}

fn receive<D>(connection: &mut ConnectionCommon<D>, mut wire: &[u8]) -> Result<(), LabError> {
    while !wire.is_empty() {
        connection.read_tls(&mut wire)?;
        connection.process_new_packets()?;
    }
    Ok(())
}

/// Accepts every certificate, but checks the signature: the certificates are made for this run.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Records between two looks at the clock, which costs as much as a small record.
const RECORDS_PER_TURN: u32 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_runs_with_both_providers() {
        for case in cases() {
            for (provider, is_ring) in
                [(aws_lc_rs::default_provider(), false), (ring::default_provider(), true)]
            {
                if !(is_ring && case.is_post_quantum()) {
                    case.measure(provider, Duration::from_micros(1))
                        .unwrap_or_else(|error| panic!("{}: {error}", case.name));
                }
            }
        }
    }

    #[test]
    fn second_handshake_of_a_client_resumes() {
        for case in cases() {
            let TlsWork::Handshake { resumes: true } = case.work else { continue };
            let (server, client) = (case.server(ring::default_provider()).unwrap(), case.client().unwrap());
            let (server, client) = (Arc::new(server), Arc::new(client));
            let kinds = [(); 2].map(|()| connect(&server, &client, true).unwrap().0.handshake_kind());
            use rustls::HandshakeKind::{Full, Resumed};
            assert_eq!(kinds, [Some(Full), Some(Resumed)], "{}", case.name);
        }
    }
}
