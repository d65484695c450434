//! Finds the program of a path: step by step below its mount, never through a symbolic link.
//!
//! ```text
//! /cgi-bin  /tools  /a.cgi  /x/y        mount, directories, program, PATH_INFO
//!    fd  ─▶   fd   ─▶ file
//! ```
//!
//! Each step is a name in an open directory. So a path stays below its mount even if another process renames directories.

use super::{
    request::CgiRefusal,
    service::{CgiMount, CgiMountKind},
};
use crate::sys::spawn::DIRECTORY;
use rustix::{
    fs::{Access, AtFlags, FileType, Mode, OFlags, Stat, accessat, fstat, open, openat, statat},
    io::Errno,
};
use std::{
    ffi::{CString, OsStr},
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::PathBuf,
};

/// The users that may not have been able to change a program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Distrust {
    /// The user and the groups of the server, if programs run as another user. `None`: every other user alone.
    pub(crate) server: Option<(u32, Vec<u32>)>,
}

/// A program that was found.
#[derive(Debug)]
pub(super) struct FoundProgram {
    /// Its directory.
    pub(super) directory: OwnedFd,
    /// Its name there, as a path: `./a.cgi`.
    pub(super) file: CString,
    /// Its absolute path.
    pub(super) path: PathBuf,
    /// The length of the normalized path of the request up to the program: the rest is PATH_INFO.
    pub(super) script_len: usize,
}

/// The maximum number of directories below a mount: each is a system call or two.
const DEPTH_MAX: usize = 32;

impl Distrust {
    /// Returns whether a user that is not trusted could change a file or directory.
    pub(crate) fn is_untrusted(&self, stat: &Stat) -> bool {
        let (mode, uid, gid) = (stat.st_mode, stat.st_uid, stat.st_gid);
        let by_server = self
            .server
            .as_ref()
            .is_some_and(|(server, groups)| uid == *server || mode & 0o020 != 0 && groups.contains(&gid));
        mode & 0o002 != 0 || by_server
    }
}

/// Finds the program for the normalized path of a request.
///
/// # Errors
/// There is none that may run.
pub(super) fn resolve(
    mount: &CgiMount,
    distrust: &Distrust,
    path: &[u8],
) -> Result<FoundProgram, CgiRefusal> {
    let rest = path.strip_prefix(mount.url_prefix.as_bytes()).ok_or(CgiRefusal::NotFound)?;
    let mut at = open(&mount.directory, DIRECTORY, Mode::empty()).map_err(|_| CgiRefusal::NoMount)?;
    let (mut full, mut script_len) = (mount.directory.clone(), mount.url_prefix.len());
    let mut segments = rest.strip_prefix(b"/").ok_or(CgiRefusal::NotFound)?.split(|&byte| byte == b'/');
    for _ in 0..DEPTH_MAX {
        let name = segments.next().ok_or(CgiRefusal::NotFound)?;
        // A normalized path has no other names that lead elsewhere. Dotfiles are no part of a site either.
        if name.is_empty() || name.starts_with(b".") || name.contains(&0) {
            return Err(CgiRefusal::NotFound);
        }
        if distrust.is_untrusted(&fstat(&at).map_err(|_| CgiRefusal::NoMount)?) {
            return Err(CgiRefusal::Untrusted);
        }
        let stat = statat(&at, name, AtFlags::SYMLINK_NOFOLLOW).map_err(refusal)?;
        full.push(OsStr::from_bytes(name));
        script_len += 1 + name.len();
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                at = openat(&at, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty()).map_err(refusal)?;
            }
            FileType::RegularFile => {
                check_program(mount, distrust, name, &stat)?;
                accessat(&at, name, Access::EXEC_OK, AtFlags::EACCESS)
                    .map_err(|_| CgiRefusal::NotExecutable)?;
                let file = CString::new([b"./", name].concat()).map_err(|_| CgiRefusal::NotFound)?;
                return Ok(FoundProgram { directory: at, file, path: full, script_len });
            }
            FileType::Symlink => return Err(CgiRefusal::Link),
            _ => return Err(CgiRefusal::NotFound),
        }
    }
    Err(CgiRefusal::NotFound)
}

fn check_program(mount: &CgiMount, distrust: &Distrust, name: &[u8], stat: &Stat) -> Result<(), CgiRefusal> {
    if let CgiMountKind::Suffix(suffix) = &mount.kind
        && !name.ends_with(suffix.as_bytes())
    {
        return Err(CgiRefusal::NotFound);
    }
    if name.starts_with(b"nph-") {
        return Err(CgiRefusal::NonParsed);
    }
    if distrust.is_untrusted(stat) {
        return Err(CgiRefusal::Untrusted);
    }
    if stat.st_mode & 0o111 == 0 {
        return Err(CgiRefusal::NotExecutable);
    }
    Ok(())
}

fn refusal(error: Errno) -> CgiRefusal {
    match error {
        Errno::ACCESS => CgiRefusal::NoMount,
        Errno::LOOP => CgiRefusal::Link,
        _ => CgiRefusal::NotFound,
    }
}
