//! Whether the listeners answer on this machine, and ports 80 and 443 at the names that lead here.

use super::{
    bounded::run_all,
    finding::Finding,
    names::{ExaminedName, NameAddresses},
};
use crate::{
    base::{acme_config::AcmeChallenge, address::Address, error::reason},
    control::supervisor::Service,
    sys::interfaces,
};
use std::{
    io::ErrorKind,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream},
    time::Duration,
};

/// The result of an attempt to connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PortState {
    Open,
    /// No program listens.
    Refused,
    /// No answer in time.
    Silent,
    /// Another error.
    Unreachable(String),
}

/// Connects to the listeners, and to the names. `refused`: the listeners that this machine could not bind.
pub(super) fn examine(service: &Service, names: &[ExaminedName], refused: &[&Address]) -> Vec<Finding> {
    let listeners: Vec<SocketAddr> = service.addresses.iter().filter_map(listening).collect();
    let usable: Vec<SocketAddr> = listeners
        .iter()
        .copied()
        .filter(|address| !refused.iter().any(|refused| listening(refused) == Some(*address)))
        .collect();
    let local = interfaces::addresses().unwrap_or_default();
    let wanted = wanted_ports(service, names, &local);
    let targets = usable.iter().map(|address| reachable(*address));
    let targets: Vec<SocketAddr> = targets.chain(wanted.iter().map(|(_, target)| *target)).collect();
    let mut states = run_all(targets, CONNECT_LIMIT_OF_ALL, |target| connect(*target)).into_iter();
    let mut next =
        || states.next().flatten().unwrap_or_else(|| PortState::Unreachable("not tried in time".to_owned()));
    let of_listeners: Vec<(SocketAddr, PortState)> =
        usable.iter().map(|address| (*address, next())).collect();
    let mut findings: Vec<_> =
        of_listeners.iter().map(|(address, state)| listener(*address, state)).collect();
    findings.extend(wanted.iter().map(|(name, target)| {
        let is_answered = of_listeners
            .iter()
            .any(|(address, state)| address.port() == target.port() && *state == PortState::Open);
        port_of_name(
            *target,
            &next(),
            is_answered,
            listeners.iter().any(|known| known.port() == target.port()),
        )
        .about(format!("{name}:{}", target.port()))
    }));
    findings
}

/// How long one attempt may take: a program on this machine answers at once.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);
/// And all of them together.
const CONNECT_LIMIT_OF_ALL: Duration = Duration::from_secs(10);

fn listening(address: &Address) -> Option<SocketAddr> {
    match address {
        // The kernel chooses another port at each start.
        Address::Tcp(address) if address.port() > 0 => Some(*address),
        _ => None,
    }
}

/// Returns the address at which a client on this machine reaches a listener.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), address.port()),
        IpAddr::V6(ip) if ip.is_unspecified() => SocketAddr::new(Ipv6Addr::LOCALHOST.into(), address.port()),
        _ => address,
    }
}

/// Returns the ports to try at the names that lead to this machine: 80, and 443 with TLS.
fn wanted_ports<'n>(
    service: &Service,
    names: &'n [ExaminedName],
    local: &[IpAddr],
) -> Vec<(&'n str, SocketAddr)> {
    let has_tls = !service.tls.listeners.is_empty();
    let mut wanted = Vec::new();
    for name in names {
        let NameAddresses::At(addresses) = &name.found else { continue };
        for ip in addresses.iter().filter(|ip| local.contains(ip) && !ip.is_loopback()) {
            let needs_http = name.is_obtained && service.acme.challenge == AcmeChallenge::Http01;
            let has = |port| {
                service.addresses.iter().any(|address| listening(address).is_some_and(|at| at.port() == port))
            };
            for (port, is_wanted) in [(80, needs_http || has(80)), (443, has_tls && has(443))] {
                if is_wanted {
                    wanted.push((&*name.name, SocketAddr::new(*ip, port)));
                }
            }
        }
    }
    wanted
}

fn connect(target: SocketAddr) -> PortState {
    match TcpStream::connect_timeout(&target, CONNECT_LIMIT) {
        Ok(_) => PortState::Open,
        Err(error) => match error.kind() {
            ErrorKind::ConnectionRefused => PortState::Refused,
            ErrorKind::TimedOut => PortState::Silent,
            _ => PortState::Unreachable(reason(&error)),
        },
    }
}

/// Judges a listener that this machine can bind, or that is in use.
fn listener(address: SocketAddr, state: &PortState) -> Finding {
    const CHECK: &str = "listener";
    const WHY: &str = "A client on this machine has connected to the address of the listener.";
    let finding = match state {
        PortState::Open => Finding::good(CHECK, "a program answers", WHY),
        PortState::Refused => Finding::good(CHECK, "free: the server can listen here once it starts", WHY),
        PortState::Silent => {
            let value = format!("no answer within {} s", CONNECT_LIMIT.as_secs());
            Finding::advice(CHECK, value, WHY, "look for a rule of a packet filter that drops packets")
                .command("nft list ruleset")
        }
        PortState::Unreachable(why) => Finding::unknown(CHECK, format!("cannot connect: {why}"), WHY),
    };
    finding.about(address)
}

/// Judges a port at a name that leads to this machine. `is_answered`: a listener with this port answers. `is_configured`: there is one.
fn port_of_name(target: SocketAddr, state: &PortState, is_answered: bool, is_configured: bool) -> Finding {
    const CHECK: &str = "port";
    const WHY: &str = "A client on this machine has connected to an address of the name. A firewall outside may still close the port.";
    let at = target.ip();
    match state {
        PortState::Open => Finding::good(CHECK, format!("a program answers at {at}"), WHY),
        PortState::Refused if !is_configured => {
            let advice =
                format!("add --listen :{}, or lead the port of a router to a listener", target.port());
            Finding::problem(
                CHECK,
                format!("no program listens at {at}, and no listener has the port"),
                WHY,
                advice,
            )
        }
        PortState::Refused if is_answered => {
            let advice = "let the listener have this address too, or all addresses";
            Finding::problem(CHECK, format!("no program listens at {at}"), WHY, advice)
        }
        PortState::Refused => Finding::unknown(
            CHECK,
            format!("no program listens at {at} yet: start the server, and ask again"),
            WHY,
        ),
        PortState::Silent => {
            let advice = "look for a rule of a packet filter that drops packets";
            Finding::problem(
                CHECK,
                format!("no answer at {at} within {} s", CONNECT_LIMIT.as_secs()),
                WHY,
                advice,
            )
            .command("nft list ruleset")
        }
        PortState::Unreachable(why) => Finding::unknown(CHECK, format!("cannot connect to {at}: {why}"), WHY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::doctor::finding::Verdict::{self, Advice, Good, Problem, Unknown};
    use std::net::TcpListener;

    #[test]
    fn ports_have_verdicts() {
        let at: SocketAddr = "192.0.2.1:80".parse().unwrap();
        let error = PortState::Unreachable("network is unreachable".into());
        #[rustfmt::skip]
        let cases: &[(PortState, bool, bool, Verdict, Verdict)] = &[
            // state            answered  configured  listener  at a name
            (PortState::Open,    true,     true,       Good,     Good),
            (PortState::Refused, false,    true,       Good,     Unknown),
            (PortState::Refused, true,     true,       Good,     Problem),
            (PortState::Refused, false,    false,      Good,     Problem),
            (PortState::Silent,  true,     true,       Advice,   Problem),
            (error,              true,     true,       Unknown,  Unknown),
        ];
        for (state, is_answered, is_configured, of_listener, of_name) in cases {
            assert_eq!(listener(at, state).verdict, *of_listener, "{state:?}");
            let found = port_of_name(at, state, *is_answered, *is_configured);
            assert_eq!(found.verdict, *of_name, "{state:?} {is_answered} {is_configured}");
        }
    }

    #[test]
    fn connections_to_this_machine_tell_open_ports_from_closed_ones() {
        let open = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(connect(open.local_addr().unwrap()), PortState::Open);
        // The port stays taken, and no program listens.
        let bound =
            rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None)
                .unwrap();
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        rustix::net::bind(&bound, &any).unwrap();
        let at = SocketAddr::try_from(rustix::net::getsockname(&bound).unwrap()).unwrap();
        assert_eq!(connect(at), PortState::Refused);
    }

    #[test]
    fn listeners_of_all_addresses_are_reached_over_loopback() {
        for (listens, want) in
            [("0.0.0.0:80", "127.0.0.1:80"), ("[::]:80", "[::1]:80"), ("192.0.2.1:80", "192.0.2.1:80")]
        {
            assert_eq!(reachable(listens.parse().unwrap()), want.parse().unwrap(), "{listens}");
        }
        assert_eq!(listening(&"127.0.0.1:0".parse().unwrap()), None);
    }
}
