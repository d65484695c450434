//! What known scanners find in TLS: sslyze and testssl.sh, with a certificate of ECDSA and with one of RSA.

use crate::common::{
    program::{RunningProgram, serve_config},
    site,
    tls_files::TlsFiles,
};
use rcgen::{
    CrlDistributionPoint, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
    PKCS_RSA_SHA256, SignatureAlgorithm,
};
use serde_json::Value;
use std::{
    fs,
    time::{Duration, SystemTime},
};
use tempfile::TempDir;

const KEYS: [(&str, &SignatureAlgorithm); 2] =
    [("ECDSA P-256", &PKCS_ECDSA_P256_SHA256), ("RSA-2048", &PKCS_RSA_SHA256)];

/// The environment of `tests/setup --soak`.
const SSLYZE_PYTHON: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/sslyze/bin/python");

#[test]
#[ignore = "soak: tests/setup --soak installs sslyze"]
fn sslyze_finds_the_configuration_that_mozilla_recommends() {
    for (key, algorithm) in KEYS {
        let scanned = Scanned::start(algorithm);
        let options = "-W ignore -m sslyze --mozilla_config=intermediate --early_data \
                       --certinfo_ca_file=ca.pem";
        let options: Vec<_> = options.split_whitespace().collect();
        let text = scanned.scan(SSLYZE_PYTHON, &options);
        assert!(text.contains(": OK - Compliant."), "{key}: {text}");
        let lines: Vec<_> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        let facts = [
            "OK - Compression disabled",
            "OK - Not vulnerable to OpenSSL CCS injection",
            "TLS_FALLBACK_SCSV: OK - Supported",
            "OK - Not vulnerable to Heartbleed",
            "OK - Not vulnerable, RSA cipher suites not supported.",
            "Client Renegotiation DoS Attack: OK - Not vulnerable",
            "Secure Renegotiation: OK - Supported",
            "Supplied CA file CA Store (N/A): OK - Certificate is trusted",
            // Early data, the only scan with this answer.
            "Not Supported",
        ];
        for fact in facts {
            assert!(lines.iter().any(|line| line == fact), "{key}: {fact}: {text}");
        }
    }
}

/// What testssl.sh finds above `LOW`, and why it is no weakness.
#[rustfmt::skip]
const EXCUSED: &[(&str, &str)] = &[
    // finding                   why
    ("engine_problem",           "the scanner's own copy of OpenSSL has no engine"),
    ("sessionresumption_ticket", "the scanner leaves before the tickets of TLS 1.3 arrive; tests/https.rs resumes sessions"),
    // Mozilla's recommendation, which sslyze checks, is the same.
    ("cipher_order",             "all suites are sound, so the client chooses: one without instructions for AES is faster with ChaCha20"),
];

#[test]
#[ignore = "soak: takes minutes"]
fn testssl_finds_nothing_above_low() {
    for (key, algorithm) in KEYS {
        let scanned = Scanned::start(algorithm);
        let text = scanned.scan(
            "testssl",
            &[
                "--quiet",
                "--color",
                "0",
                "--warnings",
                "off",
                "--add-ca",
                "ca.pem",
                "--jsonfile",
                "testssl.json",
            ],
        );
        let findings = scanned.json("testssl.json");
        let findings = findings.as_array().expect("a list");
        assert!(findings.len() > 100, "{key}: the scan ended early: {text}");
        let is_low = |finding: &&Value| {
            ["OK", "INFO", "LOW", "DEBUG"].iter().any(|known| finding["severity"] == *known)
        };
        let is_excused = |finding: &&Value| EXCUSED.iter().any(|(id, _)| finding["id"] == *id);
        let serious: Vec<_> =
            findings.iter().filter(|finding| !is_low(finding) && !is_excused(finding)).collect();
        assert!(serious.is_empty(), "{key}: {serious:#?}");
    }
}

/// A server to scan.
struct Scanned {
    files: TlsFiles,
    program: RunningProgram,
    _site: TempDir,
}

impl Scanned {
    fn start(algorithm: &'static SignatureAlgorithm) -> Scanned {
        let files = TlsFiles::new();
        let key = KeyPair::generate_for(algorithm).expect("a key");
        let day = Duration::from_secs(24 * 3600);
        files.issue_with_key("a", &key, &["localhost"], |params| {
            params.use_authority_key_identifier_extension = true;
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            params.crl_distribution_points =
                vec![CrlDistributionPoint { uris: vec!["http://ca.test/revoked".into()] }];
            // As long as one of a public authority.
            params.not_before = (SystemTime::now() - day).into();
            params.not_after = (SystemTime::now() + 90 * day).into();
        });
        let dir = site(&[("index.html", "home")]);
        let config = format!(
            "[[site]]\npath = {:?}\nhosts = [\"localhost\"]\nredirect-to-https = true\nhsts = \"730d\"\n\
             [[listener]]\naddress = \"tls:127.0.0.1:0\"\n[server]\ntls-cert = [\"a.pem\"]\ntls-key = [\"a.key\"]\n",
            dir.path()
        );
        let mut command = serve_config(&config, files.path(), &[]);
        command.current_dir(files.path());
        Scanned { files, program: RunningProgram::start_ready(command), _site: dir }
    }

    /// Runs a scanner in the directory of the certificates. Returns what it prints.
    fn scan(&self, program: &str, options: &[&str]) -> String {
        let target = format!("localhost:{}", self.program.address().port());
        let output = self.files.run(program, &[options, &[&*target]].concat());
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn json(&self, name: &str) -> Value {
        let text = fs::read_to_string(self.files.path().join(name)).expect("a result of the scanner");
        serde_json::from_str(&text).expect("JSON")
    }
}
