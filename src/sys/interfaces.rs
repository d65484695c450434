//! The addresses of the network interfaces of this machine: getifaddrs(3).

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    ptr,
};

/// Returns the addresses of all interfaces, loopback included.
pub(crate) fn addresses() -> io::Result<Vec<IpAddr>> {
    let mut first: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: writes the pointer to a list that the C library allocates.
    if unsafe { libc::getifaddrs(&mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut next = first;
    // SAFETY: the entries of the list are valid until it is freed below, and the last one has no next one.
    while let Some(entry) = unsafe { next.as_ref() } {
        // SAFETY: an address is null, or a structure of its family that lies in the list.
        found.extend(unsafe { address(entry.ifa_addr) });
        next = entry.ifa_next;
    }
    // SAFETY: the list is freed once, and nothing names it any more.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

/// Returns an address of IPv4 or IPv6.
///
/// # Safety
/// The pointer is null, or names a socket address as long as its family has it.
unsafe fn address(at: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: as the caller says. It may lie at any address, so it is copied.
    unsafe {
        match i32::from(at.as_ref()?.sa_family) {
            libc::AF_INET => {
                let address = ptr::read_unaligned(at.cast::<libc::sockaddr_in>());
                Some(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).into())
            }
            libc::AF_INET6 => {
                let address = ptr::read_unaligned(at.cast::<libc::sockaddr_in6>());
                Some(Ipv6Addr::from(address.sin6_addr.s6_addr).into())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_among_the_addresses() {
        let found = addresses().unwrap();
        assert!(found.contains(&IpAddr::V4(Ipv4Addr::LOCALHOST)), "{found:?}");
    }
}
