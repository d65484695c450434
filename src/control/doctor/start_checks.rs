//! What the start of the server would refuse, as findings.

use super::finding::Finding;
use crate::{
    base::log_config::LogOwner,
    control::supervisor::{Service, ServicePart, StartError},
};
use tarpon_site::Printable;

/// Returns a finding for each error. Without errors, returns a good one.
pub(super) fn examine(errors: &[StartError], service: &Service) -> Vec<Finding> {
    const WHY: &str = "These checks run the code of the start, as the same users.";
    match errors.is_empty() {
        true => vec![Finding::good("start", "a server with this configuration would start", WHY)],
        false => errors.iter().map(|error| finding(error, service)).collect(),
    }
}

fn finding(StartError { part, error }: &StartError, service: &Service) -> Finding {
    let (found, hint) = error.found_and_hint();
    let site =
        |number: &usize| service.sites.get(*number).map(|site| site.source.path.printable().to_string());
    let (why, subject) = match part {
        ServicePart::Server => ("The server does not start.", None),
        ServicePart::Listener(address) => {
            ("The server does not start without its listeners.", Some(address.to_string()))
        }
        ServicePart::Admin => ("The server does not start without its admin listener.", None),
        ServicePart::Log(LogOwner::Server) => ("The server does not start without its log.", None),
        ServicePart::Log(LogOwner::Site(number)) => {
            ("The server does not start without its logs.", site(number))
        }
        ServicePart::Site(number) => ("The server does not start without its sites.", site(number)),
        ServicePart::Cgi(number) => {
            ("The server does not start without the programs of its sites.", site(number))
        }
        ServicePart::Upstream(name) => ("The server does not start with such an upstream.", name.clone()),
        ServicePart::Tls => ("A listener with TLS needs a certificate.", None),
    };
    // Most messages name it.
    let subject = subject.filter(|subject| !found.contains(subject));
    let finding = Finding::problem("start", found, why, hint);
    match subject {
        Some(subject) => finding.about(subject),
        None => finding,
    }
}
