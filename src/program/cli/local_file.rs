//! The file `./tarpon.toml`, which `tarpon serve` reads without being told.
//!
//! Only a file that no other user can write is read: a directory of another user must not decide what this user serves.

use crate::{UserError, base::error::reason, config::ConfigFile};
use rustix::{
    fs::{Mode, Stat, lstat, stat},
    io::Errno,
    process::geteuid,
};
use std::sync::OnceLock;

/// Its name in the current directory.
pub(super) const NAME: &str = "tarpon.toml";

/// Reads the file. `None`: the current directory had none when this program first looked.
///
/// # Errors
/// Another user can write the file or replace it, or it is unreadable. It was there at the start, and now it is missing: a reload must not
/// serve the current directory instead.
pub(super) fn read() -> Result<Option<ConfigFile>, UserError> {
    static WAS_THERE: OnceLock<bool> = OnceLock::new();
    let found = lstat(NAME);
    let is_there = !matches!(found, Err(Errno::NOENT));
    if !*WAS_THERE.get_or_init(|| is_there) {
        return Ok(None);
    }
    let why = match (found, stat(".")) {
        (Ok(file), Ok(dir)) => barrier(&file, &dir, geteuid().as_raw()),
        (Err(error), _) | (_, Err(error)) => Some(reason(&error.into())),
    };
    match why {
        None => ConfigFile::open(NAME).map(Some),
        Some(why) => Err(UserError::new(
            format_args!("cannot use ./{NAME}"),
            why,
            format_args!(
                "to use it, name it, as in tarpon serve --config {NAME}; to serve the directory without it, name that: tarpon serve ."
            ),
        )),
    }
}

/// Returns why the content of a file may come from a user other than root and this one.
fn barrier(file: &Stat, dir: &Stat, user: u32) -> Option<String> {
    let is_foreign = |stat: &Stat| ![0, user].contains(&stat.st_uid);
    // An access control list is visible in the group bits: acl(5).
    let others_write = |stat: &Stat| Mode::from_raw_mode(stat.st_mode).intersects(Mode::WGRP | Mode::WOTH);
    let is_file = rustix::fs::FileType::from_raw_mode(file.st_mode).is_file();
    let (what, stat) = match () {
        () if !is_file => return Some("it is no regular file".to_owned()),
        () if is_foreign(file) || others_write(file) => ("it", file),
        () if is_foreign(dir) || others_write(dir) => ("its directory", dir),
        () => return None,
    };
    Some(match is_foreign(stat) {
        true => format!("{what} belongs to another user, number {}", stat.st_uid),
        false => format!("other users may write to {what} (mode {:04o})", stat.st_mode & 0o7777),
    })
}
