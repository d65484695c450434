//! All checks of a configuration.

use super::{certificates, disk, finding::Finding, names, ports, site_path, start_checks};
use crate::{
    control::{
        sandbox::Privileges,
        supervisor::{Service, ServicePart, look_up, start_errors},
    },
    sys::process::SingleThreaded,
};
use std::{collections::BTreeSet, path::PathBuf};

/// Examines a service at this time, in seconds since 1970. Sets the addresses that it has by default. This process must have one thread, as
/// children check the sites as the user of the server.
pub(crate) fn examine_service(service: &mut Service, unix_s: i64) -> Vec<Finding> {
    let certificates = certificates::examine(service, unix_s);
    let errors = start_errors(service, unix_s);
    // The certificates have findings of their own.
    let is_of_certificate = |finding: &Finding| finding.check == "certificate" && finding.advice.is_some();
    let has_bad_certificate = certificates.iter().any(is_of_certificate);
    let errors: Vec<_> =
        errors.into_iter().filter(|error| !(has_bad_certificate && error.part == ServicePart::Tls)).collect();
    let mut findings = start_checks::examine(&errors, service);
    findings.extend(of_user(service));
    findings.extend(certificates);
    let refused: Vec<_> = errors
        .iter()
        .filter_map(|error| match &error.part {
            ServicePart::Listener(address) => Some(address),
            _ => None,
        })
        .collect();
    // From here on there are threads.
    let names = names::look_up(service);
    findings.extend(names::examine(&names));
    findings.extend(ports::examine(service, &names, &refused));
    findings.extend(disk::examine(service));
    findings
}

/// Examines the user of the server, and what it may read.
fn of_user(service: &Service) -> Vec<Finding> {
    const CHECK: &str = "user";
    const WHY: &str = "The server runs as a user that owns nothing else, so that a compromised process reaches nothing else.";
    // The start reports a user that it cannot become.
    let Ok(privileges) = look_up(|| Privileges::new(service.user.as_deref(), service.sandbox)) else {
        return Vec::new();
    };
    let Ok(single_threaded) = SingleThreaded::new() else { return Vec::new() };
    let name = privileges.user_name();
    let user = match name.as_deref() {
        None => {
            let value = "the user that starts it: only root can become another one";
            Finding::good(CHECK, value, WHY)
        }
        Some("root") => Finding::advice(
            CHECK,
            "root",
            WHY,
            "remove user = \"root\", and let the sites be readable for a user of their own",
        ),
        Some("nobody") => {
            let advice = "create a user for the server alone: other programs use this one too";
            Finding::advice(CHECK, "nobody", WHY, advice)
                .command("useradd --system --shell /usr/sbin/nologin tarpon")
        }
        Some(name) => Finding::good(CHECK, name, WHY),
    };
    let sites = service
        .sites
        .iter()
        .flat_map(|site| [&site.source.path].into_iter().chain(&site.source.follow_links));
    let distinct: BTreeSet<&PathBuf> = sites.collect();
    let paths = distinct.into_iter().map(|path| site_path::examine(path, &privileges, &single_threaded));
    [user].into_iter().chain(paths).collect()
}
