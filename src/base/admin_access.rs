//! Which clients may use the admin listener.

use tarpon_conn::HostName;

/// Which clients may use the admin listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminAccess {
    /// The mode of its Unix socket in the file system. On Linux, a client needs the permission to write. Default: 0o600.
    pub mode: u32,
    /// The host names under which clients reach it over TCP, besides `localhost`. Without ports and wildcards. Default: none.
    pub hosts: Vec<HostName>,
}

impl Default for AdminAccess {
    /// Only the user of the process and root may connect.
    fn default() -> AdminAccess {
        AdminAccess { mode: 0o600, hosts: Vec::new() }
    }
}
