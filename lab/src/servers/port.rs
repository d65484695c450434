//! Ports for the servers that the lab starts.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::process;
use std::sync::atomic::{AtomicU16, Ordering};

/// Returns an address of this host at which nothing listens.
///
/// The kernel gives none of these ports to a client: one that it chooses itself may be that of a client before the server binds it, as a
/// load opens thousands of connections. Two processes of the lab begin at different ports.
pub(crate) fn unused_address() -> io::Result<SocketAddr> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let ports = below_client_ports();
    let first = process::id().wrapping_mul(PORTS_PER_PROCESS) as usize;
    for _ in 0..ports.len() {
        let at = first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed).into());
        let port = ports.start + (at % ports.len()) as u16;
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(listener) => return listener.local_addr(),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(
        io::ErrorKind::AddrInUse,
        format!("all ports from {} to {} are in use", ports.start, ports.end - 1),
    ))
}

/// Returns ports that are below those of clients.
fn below_client_ports() -> Range<u16> {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let lowest = range.split_whitespace().next().and_then(|lowest| lowest.parse().ok());
    let end = lowest.unwrap_or(USUAL_CLIENT_PORT);
    // A host whose clients have all ports leaves none: the usual ones are as good as any then.
    if end >= FIRST_PORT + PORTS_PER_PROCESS as u16 { FIRST_PORT..end } else { FIRST_PORT..USUAL_CLIENT_PORT }
}

/// Above the ports of common services.
const FIRST_PORT: u16 = 12_000;

/// The lowest port that Linux gives to a client, by default.
const USUAL_CLIENT_PORT: u16 = 32_768;

/// More than the servers of an experiment that run at a time.
const PORTS_PER_PROCESS: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_unused_and_of_no_client() {
        let addresses: Vec<_> = (0..3).map(|_| unused_address().unwrap()).collect();
        let listeners: Vec<_> = addresses.iter().map(|address| TcpListener::bind(address).unwrap()).collect();
        assert_eq!(listeners.len(), 3);
        assert!(
            addresses.iter().all(|address| below_client_ports().contains(&address.port())),
            "{addresses:?}"
        );
        let another = unused_address().unwrap();
        assert!(!addresses.contains(&another), "{another} is in use");
    }
}
