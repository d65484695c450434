//! The permissions of the file of a Unix socket, with users and groups as numbers.

use crate::{
    base::{
        error::{UserError, reason},
        socket_access::SocketAccess,
    },
    sys::user::{User, group_number},
};
use rustix::{
    io::Errno,
    process::{getegid, geteuid, getgroups},
};
use std::{fs, io, os::unix::fs::MetadataExt, path::Path};
use tarpon_site::Printable;

/// The mode, the user and the group of a socket file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SocketPermissions {
    pub(crate) mode: u32,
    uid: Option<u32>,
    gid: Option<u32>,
}

impl SocketPermissions {
    /// Looks the user and the group up, unless they are numbers.
    ///
    /// # Errors
    /// There is no such user or group, or the lookup failed.
    pub(crate) fn new(access: &SocketAccess) -> Result<SocketPermissions, UserError> {
        let user = |name: &str| Ok(User::named(name)?.map(|user| user.uid()));
        let uid = access.owner.as_deref().map(|owner| number("owner", "user", owner, user)).transpose()?;
        let gid =
            access.group.as_deref().map(|name| number("group", "group", name, group_number)).transpose()?;
        Ok(SocketPermissions { mode: access.mode, uid, gid })
    }

    /// Returns permissions with the user and the group of this process.
    pub(crate) fn of_process(mode: u32) -> SocketPermissions {
        SocketPermissions { mode, uid: None, gid: None }
    }

    /// Returns the user and the group of the file at a path.
    pub(crate) fn ids(&self, path: &Path) -> (u32, u32) {
        let uid = self.uid.unwrap_or_else(|| geteuid().as_raw());
        (uid, self.gid.unwrap_or_else(|| default_gid(path)))
    }
}

impl SocketPermissions {
    /// Checks whether this process may give a file of its own these permissions: chown(2).
    ///
    /// # Errors
    /// It is not root, and another user or a group of others is to have the file.
    pub(crate) fn check(&self, path: &Path) -> io::Result<()> {
        let (uid, gid) = self.ids(path);
        let is_own_group = || {
            gid == getegid().as_raw()
                || getgroups().is_ok_and(|all| all.iter().any(|own| own.as_raw() == gid))
        };
        let is_own = uid == geteuid().as_raw() && (gid == default_gid(path) || is_own_group());
        if geteuid().is_root() || is_own { Ok(()) } else { Err(Errno::PERM.into()) }
    }
}

/// Returns the number of a user or group.
fn number(
    option: &str,
    kind: &str,
    text: &str,
    look_up: impl FnOnce(&str) -> io::Result<Option<u32>>,
) -> Result<u32, UserError> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let name = text.printable();
    let what = format_args!("cannot use {option} = \"{name}\" of a listener");
    let error = match look_up(text) {
        Ok(Some(number)) => return Ok(number),
        Ok(None) => UserError::new(
            what,
            format_args!("the {kind} does not exist"),
            format_args!("create it, as with {kind}add --system {name}, or name another"),
        ),
        Err(error) => UserError::new(
            what,
            format_args!("cannot look up the {kind}: {}", reason(&error)),
            "check /etc/nsswitch.conf, or give its number",
        ),
    };
    Err(error.about(option))
}

/// Returns the group that a new file at a path gets: that of its directory if this has the set-group-ID bit, and on BSD always.
/// inode(7), S_ISGID; open(2)
fn default_gid(path: &Path) -> u32 {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let meta = fs::metadata(dir).ok();
    let meta = meta.filter(|meta| cfg!(not(target_os = "linux")) || meta.mode() & SET_GROUP_ID != 0);
    meta.map_or_else(|| getegid().as_raw(), |meta| meta.gid())
}

const SET_GROUP_ID: u32 = 0o2000;
