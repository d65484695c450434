//! Users of the system, and to become one of them: getpwnam(3), setuid(2).

use std::{
    ffi::{CStr, CString, c_char},
    io, mem, ptr,
};

/// A user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    name: CString,
    uid: libc::uid_t,
    gid: libc::gid_t,
}

impl User {
    /// Looks a user up.
    pub(crate) fn named(name: &str) -> io::Result<Option<User>> {
        let Ok(name) = CString::new(name) else { return Ok(None) };
        find(|entry, room, found| {
            // SAFETY: the name ends in a zero, `entry` and `found` are written, and of `room` no more than its length.
            unsafe { libc::getpwnam_r(name.as_ptr(), entry, room.as_mut_ptr().cast(), room.len(), found) }
        })
    }

    /// Who this process is.
    pub(crate) fn current() -> io::Result<Option<User>> {
        // SAFETY: it has no arguments, and cannot fail.
        let uid = unsafe { libc::geteuid() };
        find(|entry, room, found| {
            // SAFETY: as for the name.
            unsafe { libc::getpwuid_r(uid, entry, room.as_mut_ptr().cast(), room.len(), found) }
        })
    }

    pub(crate) fn name(&self) -> String {
        self.name.to_string_lossy().into_owned()
    }

    /// Whether it may do everything.
    pub(crate) fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// Makes this process one of the user and of its groups, for good.
    pub(crate) fn assume(&self) -> io::Result<()> {
        let &User { ref name, uid, gid } = self;
        // SAFETY: the name ends in a zero. Every thread is changed by the C library; there is only one. Of root, which this process is, all
        // three numbers of each are changed.
        let done = unsafe {
            libc::initgroups(name.as_ptr(), gid as _) == 0 && libc::setgid(gid) == 0 && libc::setuid(uid) == 0
        };
        if done { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

fn find(
    ask: impl FnOnce(*mut libc::passwd, &mut [c_char], *mut *mut libc::passwd) -> i32,
) -> io::Result<Option<User>> {
    let mut room = vec![0; ENTRY_LEN_MAX];
    let mut found = ptr::null_mut();
    // SAFETY: plain numbers and pointers, of which none is used before it was set.
    let mut entry: libc::passwd = unsafe { mem::zeroed() };
    match ask(&mut entry, &mut room, &mut found) {
        0 if found.is_null() => Ok(None),
        0 => {
            // SAFETY: an entry that was found has a name, which ends in a zero and lies in `room`.
            let name = unsafe { CStr::from_ptr(entry.pw_name) }.to_owned();
            Ok(Some(User { name, uid: entry.pw_uid, gid: entry.pw_gid }))
        }
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// Bytes of all texts of one entry; sysconf(_SC_GETPW_R_SIZE_MAX) suggests 1 KiB.
const ENTRY_LEN_MAX: usize = 64 * 1024;
