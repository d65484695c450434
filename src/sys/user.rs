//! System users, and switching to one of them: getpwnam(3), getpwent(3), getgrouplist(3), setuid(2).

use std::{
    ffi::{CStr, CString, OsStr, OsString, c_char},
    io, mem,
    os::unix::ffi::OsStrExt,
    path::Path,
    ptr,
    sync::{Mutex, PoisonError},
};

/// A user.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "program", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct User {
    name: CString,
    uid: libc::uid_t,
    gid: libc::gid_t,
    /// No path, as a path that is no text cannot be serialised.
    home: OsString,
}

impl User {
    /// Returns all users that the system lists. Large databases such as LDAP may list none.
    pub(crate) fn all() -> Vec<User> {
        let _alone = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = Vec::new();
        // SAFETY: the iteration state is global to the process, and `ALL` is held. An entry is valid until the next call.
        unsafe {
            libc::setpwent();
            while let Some(entry) = libc::getpwent().as_ref() {
                all.push(user(entry));
            }
            libc::endpwent();
        }
        all
    }

    /// Looks up a user by name.
    pub(crate) fn named(name: &str) -> io::Result<Option<User>> {
        let Ok(name) = CString::new(name) else { return Ok(None) };
        find(|entry, room, found| {
            // SAFETY: the name ends in a zero, `entry` and `found` are written, and of `room` no more than its length.
            unsafe { libc::getpwnam_r(name.as_ptr(), entry, room.as_mut_ptr().cast(), room.len(), found) }
        })
    }

    /// Returns the effective user of this process.
    pub(crate) fn current() -> io::Result<Option<User>> {
        User::numbered(rustix::process::geteuid().as_raw())
    }

    /// Looks up a user by number.
    pub(crate) fn numbered(uid: u32) -> io::Result<Option<User>> {
        find(|entry, room, found| {
            // SAFETY: as for the name.
            unsafe { libc::getpwuid_r(uid, entry, room.as_mut_ptr().cast(), room.len(), found) }
        })
    }

    /// Returns the user that the kernel shows for owners it cannot represent, for a system without users. proc(5),
    /// /proc/sys/kernel/overflowuid
    pub(crate) fn nobody() -> User {
        let id = 65_534;
        User { name: c"nobody".to_owned(), uid: id, gid: id, home: "/".into() }
    }

    pub(crate) fn name(&self) -> String {
        self.name.to_string_lossy().into_owned()
    }

    /// Creates a user that need not exist.
    #[cfg(test)]
    pub(crate) fn of(name: &str, uid: u32, home: &str) -> User {
        User { name: CString::new(name).expect("no zero"), uid, gid: uid, home: home.into() }
    }

    /// Returns the user's number.
    pub(crate) fn uid(&self) -> u32 {
        self.uid
    }

    /// Returns the home directory.
    pub(crate) fn home(&self) -> &Path {
        Path::new(&self.home)
    }

    /// Returns whether the user is root.
    pub(crate) fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// Looks up the groups of the user.
    pub(crate) fn groups(&self) -> io::Result<Vec<libc::gid_t>> {
        let mut groups: Vec<libc::gid_t> = vec![0; GROUP_COUNT_USUAL];
        loop {
            let mut count = groups.len() as libc::c_int;
            // SAFETY: the name ends in a zero. At most `count` groups are written, and `groups` has room for as many.
            let result = unsafe {
                libc::getgrouplist(self.name.as_ptr(), self.gid as _, groups.as_mut_ptr().cast(), &mut count)
            };
            let (count, room) = (usize::try_from(count).unwrap_or(0), groups.len());
            groups.resize(count, 0);
            match result {
                // The call reports how much room it needs.
                -1 if count > room => {}
                -1 => return Err(io::Error::last_os_error()),
                _ => return Ok(groups),
            }
        }
    }

    /// Switches this process to the user and these groups, permanently. Asks no user database.
    pub(crate) fn become_user(&self, groups: &[libc::gid_t]) -> io::Result<()> {
        let &User { uid, gid, .. } = self;
        // SAFETY: the groups are read, and are as many as said. The C library would switch every thread; there is only one. As root, all
        // three ids of user and group are set.
        let done = unsafe {
            libc::setgroups(groups.len() as _, groups.as_ptr()) == 0
                && libc::setgid(gid) == 0
                && libc::setuid(uid) == 0
        };
        if done { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Looks up the number of a group by name: getgrnam(3).
pub(crate) fn group_number(name: &str) -> io::Result<Option<u32>> {
    let Ok(name) = CString::new(name) else { return Ok(None) };
    let mut room: Vec<c_char> = vec![0; GROUP_LEN_MAX];
    let mut found = ptr::null_mut();
    // SAFETY: plain numbers and pointers, of which none is used before it was set.
    let mut entry: libc::group = unsafe { mem::zeroed() };
    // SAFETY: the name ends in a zero, `entry` and `found` are written, and of `room` no more than its length.
    let code = unsafe {
        libc::getgrnam_r(name.as_ptr(), &mut entry, room.as_mut_ptr().cast(), room.len(), &mut found)
    };
    match code {
        0 if found.is_null() => Ok(None),
        0 => Ok(Some(entry.gr_gid)),
        // As for users.
        libc::ENOENT | libc::ESRCH => Ok(None),
        code => Err(io::Error::from_raw_os_error(code)),
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
        // SAFETY: an entry that was found; its texts lie in `room`.
        0 => Ok(Some(unsafe { user(&entry) })),
        // Some libraries report an unknown user this way; musl also a missing database. getpwnam(3)
        libc::ENOENT | libc::ESRCH => Ok(None),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// Copies an entry.
///
/// # Safety
/// The entry's strings end in zeros, or are null.
unsafe fn user(entry: &libc::passwd) -> User {
    let text = |text: *const c_char| match text.is_null() {
        true => CString::default(),
        // SAFETY: it ends in a zero, as the caller says.
        false => unsafe { CStr::from_ptr(text) }.to_owned(),
    };
    let home = OsStr::from_bytes(text(entry.pw_dir).as_bytes()).to_owned();
    User { name: text(entry.pw_name), uid: entry.pw_uid, gid: entry.pw_gid, home }
}

/// Guards the iteration over all users.
static ALL: Mutex<()> = Mutex::new(());

/// Few users have more groups.
const GROUP_COUNT_USUAL: usize = 64;

/// Buffer size for the strings of one entry; sysconf(_SC_GETPW_R_SIZE_MAX) suggests 1 KiB.
const ENTRY_LEN_MAX: usize = 64 * 1024;

/// Buffer size for the strings of a group: its members may be tens of thousands of users.
const GROUP_LEN_MAX: usize = 1024 * 1024;
