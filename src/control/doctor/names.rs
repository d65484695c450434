//! Where the names of the sites lead: to this machine, elsewhere, or nowhere.

use super::{bounded::run_all, finding::Finding};
use crate::{control::supervisor::Service, sys::interfaces};
use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs},
    time::Duration,
};
use tarpon_conn::HostName;
use tarpon_site::Printable;

/// A name with the result of its look-up.
#[derive(Debug)]
pub(super) struct ExaminedName {
    pub(super) name: String,
    /// A certificate for the name is obtained by ACME.
    pub(super) is_obtained: bool,
    pub(super) found: NameAddresses,
}

/// The result of a look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NameAddresses {
    /// These addresses.
    At(Vec<IpAddr>),
    /// The name has no address.
    Nowhere(String),
    /// The look-up has failed, for this reason.
    Failed(String),
}

/// Looks up the names of the sites, except for wildcards and addresses.
pub(super) fn look_up(service: &Service) -> Vec<ExaminedName> {
    let mut names: BTreeMap<String, bool> = BTreeMap::new();
    for site in &service.sites {
        let all = site.hosts.iter().chain(&site.redirect_hosts).map(|host| (host, false));
        for (host, is_obtained) in all.chain(site.domains.iter().map(|host| (host, true))) {
            if is_looked_up(host) {
                *names.entry(host.to_string()).or_default() |= is_obtained;
            }
        }
    }
    let found = run_all(names.keys().cloned().collect(), LOOK_UP_LIMIT, |name: &String| resolve(name));
    let late = || NameAddresses::Failed("no answer in time".to_owned());
    let all = names.into_iter().zip(found);
    all.map(|((name, is_obtained), found)| ExaminedName {
        name,
        is_obtained,
        found: found.unwrap_or_else(late),
    })
    .collect()
}

/// How long all look-ups together may take. The C library asks each name server again after five seconds.
const LOOK_UP_LIMIT: Duration = Duration::from_secs(10);

/// Examines where the names lead.
pub(super) fn examine(names: &[ExaminedName]) -> Vec<Finding> {
    let local = interfaces::addresses().unwrap_or_default();
    names.iter().map(|name| judge(name, &local).about(&name.name)).collect()
}

fn is_looked_up(host: &HostName) -> bool {
    let name = host.to_string();
    let is_local = name == "localhost" || name.ends_with(".localhost");
    !host.is_wildcard() && !is_local && !name.starts_with('[') && name.parse::<Ipv4Addr>().is_err()
}

fn resolve(name: &str) -> NameAddresses {
    match (name, 80).to_socket_addrs() {
        Ok(found) => {
            let mut addresses: Vec<IpAddr> = found.map(|address| address.ip().to_canonical()).collect();
            addresses.sort();
            addresses.dedup();
            NameAddresses::At(addresses)
        }
        Err(error) => {
            // The library adds its own words: "failed to lookup address information: …".
            let text = error.to_string();
            let why = text.rsplit(": ").next().unwrap_or(&text).to_owned();
            match is_of_resolver(&why) {
                true => NameAddresses::Failed(why),
                false => NameAddresses::Nowhere(why),
            }
        }
    }
}

/// Returns whether the look-up has failed, not the name: EAI_AGAIN, EAI_FAIL and EAI_SYSTEM of glibc and musl.
fn is_of_resolver(why: &str) -> bool {
    ["temporary", "try again", "non-recoverable", "unrecoverable", "system error", "memory"]
        .iter()
        .any(|part| why.to_lowercase().contains(part))
}

/// Judges where a name leads, given the addresses of this machine.
fn judge(name: &ExaminedName, local: &[IpAddr]) -> Finding {
    const CHECK: &str = "name";
    const WHY: &str = "Clients find a site at the addresses of its name.";
    const WHY_ACME: &str =
        "Clients, and the directory that issues the certificate, find a site at the addresses of its name.";
    let why = if name.is_obtained { WHY_ACME } else { WHY };
    let wrong = |value: String, advice: &str| match name.is_obtained {
        true => Finding::problem(CHECK, value, why, advice),
        false => Finding::advice(CHECK, value, why, advice),
    };
    let addresses = match &name.found {
        NameAddresses::At(addresses) => addresses,
        NameAddresses::Failed(reason) => {
            return Finding::unknown(CHECK, format!("cannot look it up: {}", reason.printable()), why);
        }
        NameAddresses::Nowhere(reason) => {
            let value = format!("the resolver of this machine knows no address: {}", reason.printable());
            return wrong(value, "add records A and AAAA with the addresses of this machine");
        }
    };
    let list = |all: &[&IpAddr]| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let (here, elsewhere): (Vec<&IpAddr>, Vec<&IpAddr>) =
        addresses.iter().partition(|&address| local.contains(address));
    let is_loopback = |address: &&IpAddr| address.is_loopback();
    if addresses.iter().all(|address| address.is_loopback()) {
        let value = format!(
            "{}: this machine itself answers so, and other machines may get another answer",
            list(&here)
        );
        return Finding::unknown(CHECK, value, why);
    }
    // An address of the same family that all of the internet reaches: without one, a router in front of this machine may have it.
    let has_public = |of: &IpAddr| local.iter().any(|own| own.is_ipv4() == of.is_ipv4() && is_public(own));
    let hidden = |address: &&&IpAddr| !has_public(address);
    match (here.is_empty(), elsewhere.is_empty()) {
        (_, true) if here.iter().any(is_loopback) => {
            Finding::unknown(CHECK, format!("{}: some are loopback addresses", list(&here)), why)
        }
        (_, true) => Finding::good(CHECK, format!("{}: this machine", list(&here)), why),
        _ if elsewhere.iter().filter(hidden).count() == elsewhere.len() => {
            let value = format!(
                "{}: cannot tell, as this machine has private addresses alone: a router or a balancer may lead here",
                list(&elsewhere)
            );
            Finding::unknown(CHECK, value, why)
        }
        (true, _) => wrong(
            format!("{}: not this machine", list(&elsewhere)),
            "correct its records A and AAAA, unless a proxy, a balancer or a content network leads from there to here",
        ),
        (false, _) => wrong(
            format!("{}: this machine; {}: not this machine", list(&here), list(&elsewhere)),
            "remove the records that lead elsewhere, unless another server answers there for the same sites",
        ),
    }
}

/// Returns whether the internet may reach an address: RFC 6890 lists those that it does not.
fn is_public(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let [first, second, ..] = address.octets();
            // Shared by customers of a provider: RFC 6598.
            let is_shared = first == 100 && (64..128).contains(&second);
            !(address.is_private()
                || address.is_loopback()
                || address.is_link_local()
                || address.is_unspecified()
                || address.is_documentation()
                || is_shared)
        }
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v6(address: &Ipv6Addr) -> bool {
    // 2000::/3 is all that is assigned so far: RFC 4291, section 2.4; 2001:db8::/32 is for documentation: RFC 3849.
    address.segments()[0] & 0xe000 == 0x2000 && address.segments()[..2] != [0x2001, 0xdb8]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::doctor::finding::Verdict::{self, Advice, Good, Problem, Unknown};

    #[test]
    fn names_are_compared_with_the_addresses_of_the_machine() {
        let ips = |list: &[&str]| list.iter().map(|text| text.parse().unwrap()).collect::<Vec<IpAddr>>();
        let at = |list: &[&str]| NameAddresses::At(ips(list));
        const PUBLIC: &[&str] = &["127.0.0.1", "::1", "8.8.4.1", "2600::1"];
        const PRIVATE: &[&str] = &["127.0.0.1", "10.0.0.5", "fd00::5"];
        #[rustfmt::skip]
        let cases: &[(&str, NameAddresses, &[&str], [Verdict; 2])] = &[
            // case                found                                        machine  of a host, by ACME
            ("here",               at(&["8.8.4.1"]),                            PUBLIC,  [Good, Good]),
            ("both families",      at(&["8.8.4.1", "2600::1"]),                 PUBLIC,  [Good, Good]),
            ("elsewhere",          at(&["8.8.4.9"]),                            PUBLIC,  [Advice, Problem]),
            ("AAAA elsewhere",     at(&["8.8.4.1", "2600::9"]),                 PUBLIC,  [Advice, Problem]),
            ("behind NAT",         at(&["8.8.4.9"]),                            PRIVATE, [Unknown, Unknown]),
            ("v6 behind NAT",      at(&["8.8.4.9"]),                            &["10.0.0.5", "2600::1"], [Unknown, Unknown]),
            ("v6 not behind NAT",  at(&["2600::9"]),                            &["10.0.0.5", "2600::1"], [Advice, Problem]),
            ("private, here",      at(&["10.0.0.5"]),                           PRIVATE, [Good, Good]),
            ("loopback",           at(&["127.0.1.1"]),                          PUBLIC,  [Unknown, Unknown]),
            ("no name",            NameAddresses::Nowhere("no such name".into()), PUBLIC, [Advice, Problem]),
            ("no resolver",        NameAddresses::Failed("try again".into()),   PUBLIC,  [Unknown, Unknown]),
        ];
        for (case, found, machine, want) in cases {
            for (is_obtained, want) in [false, true].into_iter().zip(want) {
                let name = ExaminedName { name: "example.org".to_owned(), is_obtained, found: found.clone() };
                let finding = judge(&name, &ips(machine));
                assert_eq!(finding.verdict, *want, "{case}: {finding:?}");
            }
        }
    }

    #[test]
    fn wildcards_and_addresses_are_not_looked_up() {
        for (host, want) in [
            ("example.org", true),
            ("*.example.org", false),
            ("localhost", false),
            ("a.localhost", false),
            ("192.0.2.7", false),
            ("[2001:db8::7]", false),
        ] {
            assert_eq!(is_looked_up(&host.parse().unwrap()), want, "{host}");
        }
    }

    #[test]
    fn failures_of_the_resolver_are_told_from_names_without_addresses() {
        #[rustfmt::skip]
        let cases = [
            ("Temporary failure in name resolution", true),
            ("Try again",                            true),
            ("Name or service not known",            false),
            ("Name does not resolve",                false),
            ("No address associated with hostname",  false),
        ];
        for (why, want) in cases {
            assert_eq!(is_of_resolver(why), want, "{why}");
        }
        // No name of this domain exists: RFC 6761, section 6.4. A machine without a name server cannot tell.
        assert!(!matches!(resolve("a.invalid"), NameAddresses::At(_)));
    }
}
