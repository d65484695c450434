//! Which users may connect to a Unix socket.

/// Which users may connect to the Unix socket of a listener: the permissions of its file. On Linux, a client needs the permission to
/// write. The umask has no effect.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SocketAccess {
    /// The mode of the file. Default: 0o660.
    pub mode: u32,
    /// The name or number of the user that owns the file. `None`: the user of this process. Default: `None`.
    pub owner: Option<String>,
    /// The name or number of the group of the file. `None`: the group that a new file in the directory gets. Default: `None`.
    pub group: Option<String>,
}

impl Default for SocketAccess {
    /// The user and the group of the process, and root, may connect.
    fn default() -> SocketAccess {
        SocketAccess { mode: 0o660, owner: None, group: None }
    }
}
