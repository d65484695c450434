//! The file with the values that settings had before `--apply`: `doctor-undo.json` in the state directory.
//!
//! ```text
//! /var/lib/tarpon ── each step above belongs to root alone ── doctor-undo.json: root's, one link, mode 0600
//! ```
//!
//! The state directory may belong to the user of the service, as that of the packaged unit does. That user can remove the file, but cannot make
//! one that belongs to root. Whatever the file says, only settings of [`SYSCTL_RULES`] are written, and only while they still have the value
//! that the doctor has set.

use super::sysctl_rules::SYSCTL_RULES;
use crate::{
    base::error::{UserError, reason},
    site::trusted_path::{PathBarrier, TrustedPath},
};
use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, fsync, openat, renameat, unlinkat},
    io::Errno,
    process::geteuid,
};
use serde::{Deserialize, Serialize};
use std::{
    fs::{DirBuilder, File},
    io::{self, Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::DirBuilderExt,
    },
    path::{self, Path, PathBuf},
};
use tarpon_site::Printable;

/// The state directory, opened once.
#[derive(Debug)]
pub(super) struct UndoStore {
    dir: OwnedFd,
    path: PathBuf,
}

/// The former values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct UndoRecord {
    pub(super) values: Vec<FormerValue>,
}

/// A setting that the doctor has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FormerValue {
    pub(super) name: String,
    pub(super) before: String,
    pub(super) after: String,
}

impl UndoStore {
    /// Opens the state directory. Makes it if `makes` says so; otherwise `None` if it does not exist.
    ///
    /// # Errors
    /// Other users can replace a directory on the path, or it cannot be opened.
    pub(super) fn open(state: &Path, makes: bool) -> Result<Option<UndoStore>, UserError> {
        let path = path::absolute(state).map_err(|error| state_error(state, reason(&error)))?;
        if makes {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
            made.map_err(|error| state_error(state, reason(&error)))?;
        }
        let user = geteuid().as_raw();
        let root = match TrustedPath::find(&path, Some(&[0, user]), |_, _| ()).end {
            Ok(root) if !root.is_file() => root,
            Ok(_) => return Err(state_error(state, "it is no directory".to_owned())),
            Err(PathBarrier::Missing(_)) => return Ok(None),
            Err(PathBarrier::Untrusted(at) | PathBarrier::Denied(at)) => {
                let why = format!("other users can replace entries of {}", at.path.printable());
                return Err(state_error(state, why));
            }
            Err(PathBarrier::Failed(_, error)) => return Err(state_error(state, reason(&error))),
        };
        let dir =
            root.descriptor().try_clone_to_owned().map_err(|error| state_error(state, reason(&error)))?;
        Ok(Some(UndoStore { dir, path }))
    }

    /// Returns the path of the record.
    pub(super) fn file(&self) -> PathBuf {
        self.path.join(NAME)
    }

    /// Reads the record: an empty one if there is none.
    ///
    /// # Errors
    /// The file is not one that root has written, or is damaged.
    pub(super) fn read(&self) -> Result<UndoRecord, UserError> {
        let error = |why: String| {
            let hint = "remove the file if nothing is to be undone";
            UserError::new(format_args!("cannot use {}", self.file().printable()), why, hint)
        };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat(&self.dir, NAME, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(UndoRecord::default()),
            Err(Errno::LOOP) => return Err(error("it is a symbolic link".to_owned())),
            Err(errno) => return Err(error(reason(&errno.into()))),
        };
        let stat = fstat(&file).map_err(|errno| error(reason(&errno.into())))?;
        if let Some(why) = distrust(&stat, geteuid().as_raw()) {
            return Err(error(why.to_owned()));
        }
        let mut text = String::new();
        let read = File::from(file).take(LEN_MAX).read_to_string(&mut text);
        read.map_err(|io| error(reason(&io)))?;
        let record: UndoRecord =
            serde_json::from_str(&text).map_err(|json| error(format!("it is damaged: {json}")))?;
        match record.values.iter().find(|value| !value.is_valid()) {
            Some(value) => {
                Err(error(format!("the doctor does not write such a setting: {}", value.name.printable())))
            }
            None => Ok(record),
        }
    }

    /// Replaces the record, or removes it if nothing is left: after a crash there is the former one or this one.
    ///
    /// # Errors
    /// The disk is full or read-only.
    pub(super) fn write(&self, record: &UndoRecord) -> Result<(), UserError> {
        let written = if record.values.is_empty() { self.remove() } else { self.replace(record) };
        written.map_err(|error| {
            let what = format_args!("cannot write {}", self.file().printable()).to_string();
            UserError::new(what, reason(&error), "make room on its disk; no setting was changed since")
        })
    }

    fn remove(&self) -> io::Result<()> {
        match unlinkat(&self.dir, NAME, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn replace(&self, record: &UndoRecord) -> io::Result<()> {
        // One of an earlier run that was killed.
        let _ = unlinkat(&self.dir, TEMPORARY, AtFlags::empty());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(&self.dir, TEMPORARY, flags, Mode::RUSR | Mode::WUSR)?);
        file.write_all(&serde_json::to_vec_pretty(record)?)?;
        file.sync_all()?;
        renameat(&self.dir, TEMPORARY, &self.dir, NAME)?;
        // The directory is open without the right to read it.
        let dir = openat(self.dir.as_fd(), ".", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(fsync(dir)?)
    }
}

const NAME: &str = "doctor-undo.json";
const TEMPORARY: &str = "doctor-undo.json.new";
/// More than all settings take.
const LEN_MAX: u64 = 64 << 10;

impl FormerValue {
    /// Returns whether the doctor may have written this.
    fn is_valid(&self) -> bool {
        let is_value = |text: &str| {
            let is_char = |char: char| char.is_ascii_alphanumeric() || " _-.".contains(char);
            (1..=100).contains(&text.len()) && text.chars().all(is_char)
        };
        let is_known = SYSCTL_RULES.iter().any(|rule| rule.name == self.name);
        is_known && is_value(&self.before) && is_value(&self.after)
    }
}

/// Returns why a file cannot be one that this user has written.
fn distrust(stat: &Stat, user: u32) -> Option<&'static str> {
    let mode = Mode::from_raw_mode(stat.st_mode);
    match () {
        () if !FileType::from_raw_mode(stat.st_mode).is_file() => Some("it is no regular file"),
        () if stat.st_uid != user => Some("it belongs to another user"),
        () if mode.intersects(Mode::WGRP | Mode::WOTH) => Some("other users may write to it"),
        () if stat.st_nlink != 1 => Some("it has another name, too"),
        () => None,
    }
}

fn state_error(state: &Path, why: String) -> UserError {
    UserError::new(
        format_args!("cannot use the state directory {}", state.printable()),
        why,
        "name another with state-directory in [server], or set $STATE_DIRECTORY",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs::{self, Permissions},
        os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    };

    fn value(name: &str, before: &str, after: &str) -> FormerValue {
        FormerValue { name: name.to_owned(), before: before.to_owned(), after: after.to_owned() }
    }

    #[test]
    fn record_is_private_and_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("a/b");
        assert!(UndoStore::open(&state, false).unwrap().is_none());
        let store = UndoStore::open(&state, true).unwrap().unwrap();
        assert_eq!(store.read().unwrap(), UndoRecord::default());
        let record = UndoRecord {
            values: vec![value("net.ipv4.tcp_wmem", "4096 16384 4194304", "4096 16384 16777216")],
        };
        for _ in 0..2 {
            store.write(&record).unwrap();
            assert_eq!(store.read().unwrap(), record);
        }
        assert_eq!(fs::metadata(store.file()).unwrap().mode() & 0o7777, 0o600);
        assert_eq!(fs::metadata(&state).unwrap().mode() & 0o777, 0o700);
        store.write(&UndoRecord::default()).unwrap();
        assert_eq!(fs::read_dir(&state).unwrap().count(), 0, "an empty record is no file");
    }

    #[test]
    fn file_that_the_doctor_has_not_written_is_refused() {
        let good =
            serde_json::to_string(&UndoRecord { values: vec![value("net.core.somaxconn", "128", "4096")] })
                .unwrap();
        type Prepare<'a> = &'a dyn Fn(&Path);
        let write = |file: &Path, text: &str| fs::write(file, text).unwrap();
        let with = |name: &str, before: &str| {
            serde_json::to_string(&UndoRecord { values: vec![value(name, before, "1")] }).unwrap()
        };
        #[rustfmt::skip]
        let cases: &[(&str, Prepare<'_>, Option<&str>)] = &[
            ("as written",     &|file| write(file, &good),                                               None),
            ("damaged",        &|file| write(file, "{"),                                                 Some("it is damaged")),
            ("another setting", &|file| write(file, &with("kernel.core_pattern", "x")),                  Some("does not write such a setting: kernel.core_pattern")),
            ("a path as name", &|file| write(file, &with("../../etc/passwd", "x")),                      Some("does not write such a setting")),
            ("a bad value",    &|file| write(file, &with("net.core.somaxconn", "1\n2")),                 Some("does not write such a setting")),
            ("a link",         &|file| { write(&file.with_extension("x"), &good); symlink(file.with_extension("x"), file).unwrap(); }, Some("it is a symbolic link")),
            ("a second name",  &|file| { write(file, &good); fs::hard_link(file, file.with_extension("x")).unwrap(); }, Some("another name")),
            ("of all users",   &|file| { write(file, &good); fs::set_permissions(file, Permissions::from_mode(0o666)).unwrap(); }, Some("other users may write")),
            ("a directory",    &|file| fs::create_dir(file).unwrap(),                                    Some("no regular file")),
        ];
        for (name, prepare, want) in cases {
            let dir = tempfile::tempdir().unwrap();
            let store = UndoStore::open(dir.path(), false).unwrap().unwrap();
            prepare(&store.file());
            match (store.read(), want) {
                (Ok(record), None) => assert_eq!(record.values.len(), 1),
                (Err(error), Some(want)) => assert!(error.to_string().contains(want), "{name}: {error}"),
                (found, want) => panic!("{name}: {found:?} instead of {want:?}"),
            }
        }
    }

    #[test]
    fn path_that_others_can_replace_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let open = dir.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
        let error = UndoStore::open(&open.join("state"), true).unwrap_err().to_string();
        assert!(error.contains("other users can replace entries of "), "{error}");
    }
}
