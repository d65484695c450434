//! Dates and names of certificates: those of files, and those that ACME has obtained.

use super::finding::Finding;
use crate::{
    base::{error::reason, tls_config::CertificateFiles},
    control::{
        acme::store::AcmeStore,
        supervisor::{Service, acme_sets},
        tls::{certificate::TlsCertificate, service},
    },
};
use tarpon_site::Printable;

/// Examines the certificates of a service at this time, in seconds since 1970.
pub(super) fn examine(service: &Service, unix_s: i64) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !service.tls.listeners.is_empty() {
        of_files(service, unix_s, &mut findings);
    }
    of_acme(service, unix_s, &mut findings);
    findings
}

fn of_files(service: &Service, unix_s: i64, findings: &mut Vec<Finding>) {
    const WHY: &str = "Browsers refuse a site whose certificate has expired.";
    let of_sites = service.sites.iter().flat_map(|site| &site.certificates);
    let all: Vec<&CertificateFiles> = service.tls.certificates.iter().chain(of_sites).collect();
    let mut certificates: Vec<TlsCertificate> = Vec::new();
    for files in &all {
        let mut warnings = Vec::new();
        let finding = match service::read(files, unix_s, &mut warnings) {
            Err(error) => {
                let (found, hint) = error.found_and_hint();
                Finding::problem("certificate", found, "A listener with TLS needs its certificates.", hint)
            }
            Ok(certificate) => {
                let judged = judge(certificate.validity(), unix_s, WHY);
                let names = certificate.names().iter().map(|name| name.printable().to_string());
                let names = names.collect::<Vec<_>>().join(", ");
                certificates.push(certificate);
                Finding { value: format!("{}; names: {names}", judged.value), ..judged }
            }
        };
        findings.push(finding.about(files.chain.printable()));
        findings.extend(warnings.iter().filter(|warning| !warning.is_outage).map(|warning| {
            let (found, hint) = warning.error.found_and_hint();
            let why = "With the key, any program can pass for this server.";
            Finding::advice("certificate-key", found, why, hint).about(files.key_file().printable())
        }));
    }
    if service.tls.is_self_signed || all.len() > certificates.len() {
        return;
    }
    let hosts = service.sites.iter().flat_map(|site| site.hosts_of_files());
    let uncovered = hosts.filter(|host| !certificates.iter().any(|certificate| certificate.covers(host)));
    let mut uncovered: Vec<String> = uncovered.map(ToString::to_string).collect();
    uncovered.dedup();
    if let (Some(first), false) = (all.first(), uncovered.is_empty()) {
        let value = format!(
            "no certificate covers {}: clients get {}",
            uncovered.join(", "),
            first.chain.printable()
        );
        let why = "A browser shows a warning instead of the site.";
        let advice = "add a certificate with these names by tls-cert, or obtain one with domain";
        findings.push(Finding::advice("certificate-names", value, why, advice));
    }
}

fn of_acme(service: &Service, unix_s: i64, findings: &mut Vec<Finding>) {
    const WHY: &str =
        "tarpon renews a certificate once two thirds of its lifetime have passed, while it runs.";
    let (sets, state) = acme_sets(service);
    findings.extend(sets.iter().map(|names| {
        let finding = match AcmeStore::find(&state, &service.acme.directory, names) {
            Ok(None) => {
                let value = format!("none in {} yet: the server obtains it once it runs", state.printable());
                Finding::unknown("acme-certificate", value, WHY)
            }
            Err(error) => {
                let value =
                    format!("cannot read it in {}: {}", state.printable(), reason(&error).printable());
                Finding::unknown("acme-certificate", value, WHY)
            }
            Ok(Some(certificate)) => {
                let validity = certificate.validity();
                let seconds = |time| i64::try_from(time).unwrap_or(i64::MAX);
                let judged =
                    judge((seconds(validity.not_before_s), seconds(validity.not_after_s)), unix_s, WHY);
                let hint = "look for the reason in the events of the server, and in tarpon status";
                Finding {
                    check: "acme-certificate",
                    advice: judged.advice.map(|_| hint.to_owned()),
                    ..judged
                }
            }
        };
        finding.about(names.join(", "))
    }));
}

/// Judges the validity of a certificate at a time, in seconds since 1970.
fn judge((from, until): (i64, i64), unix_s: i64, why: &str) -> Finding {
    const CHECK: &str = "certificate";
    let days = |seconds: i64| match seconds / DAY_S {
        0 => "less than a day".to_owned(),
        1 => "one day".to_owned(),
        count => format!("{count} days"),
    };
    match unix_s {
        _ if unix_s < from => {
            let value = format!("not valid for another {}", days(from.saturating_sub(unix_s)));
            Finding::problem(CHECK, value, why, "set the clock of this machine, or use another certificate")
        }
        _ if unix_s > until => {
            let value = format!("expired {} ago", days(unix_s.saturating_sub(until)));
            Finding::problem(CHECK, value, why, "renew it, or set the clock of this machine")
        }
        _ => {
            let (left, lifetime) = (until.saturating_sub(unix_s), until.saturating_sub(from));
            let value = format!("expires in {}", days(left));
            match left < lifetime / 4 {
                true => {
                    Finding::advice(CHECK, value, why, "renew it: three quarters of its lifetime have passed")
                }
                false => Finding::good(CHECK, value, why),
            }
        }
    }
}

const DAY_S: i64 = 86_400;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::doctor::finding::Verdict::{self, Advice, Good, Problem};

    #[test]
    fn certificates_are_judged_by_the_share_of_their_lifetime() {
        let day = |day: i64| day * DAY_S;
        #[rustfmt::skip]
        let cases: &[((i64, i64), i64, Verdict, &str)] = &[
            // validity             now             verdict  value
            ((day(100), day(190)),  day(99),        Problem, "not valid for another one day"),
            ((day(100), day(190)),  day(100),       Good,    "expires in 90 days"),
            ((day(100), day(190)),  day(160),       Good,    "expires in 30 days"),
            ((day(100), day(190)),  day(170),       Advice,  "expires in 20 days"),
            ((day(100), day(106)),  day(102),       Good,    "expires in 4 days"),
            ((day(100), day(190)),  day(190) - 5,   Advice,  "expires in less than a day"),
            ((day(100), day(190)),  day(190) + 1,   Problem, "expired less than a day ago"),
            ((day(100), day(190)),  day(200),       Problem, "expired 10 days ago"),
        ];
        for (validity, now, verdict, value) in cases {
            let found = judge(*validity, *now, "why");
            assert_eq!((found.verdict, &*found.value), (*verdict, *value));
            assert_eq!(found.advice.is_some(), *verdict != Good, "{found:?}");
        }
    }
}
