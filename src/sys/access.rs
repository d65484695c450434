//! Whether this process may create or write a file, without doing so.

use rustix::fs::{Access, AtFlags, CWD, accessat};
use std::{
    fs,
    io::{self, ErrorKind},
    path::Path,
};

/// Checks whether this process may create a file or directory at a path. One that exists is fine.
///
/// # Errors
/// The directory is missing or not writable, or the path is invalid.
pub(crate) fn may_create(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => may_change(dir_of(path)),
        Err(error) => Err(error),
    }
}

/// Checks whether this process may create a path with all directories that are missing on it.
///
/// # Errors
/// Those of [`may_create`] for the first directory that is missing.
pub(crate) fn may_create_all(path: &Path) -> io::Result<()> {
    let missing = |path: &&Path| fs::metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound);
    match path.ancestors().filter(|path| !path.as_os_str().is_empty()).take_while(missing).last() {
        Some(first) => may_create(first),
        None => fs::metadata(path).map(drop),
    }
}

/// Checks whether this process may create and remove entries of a directory.
///
/// # Errors
/// It may not, or there is no such directory.
pub(crate) fn may_change(dir: &Path) -> io::Result<()> {
    if !fs::metadata(dir)?.is_dir() {
        return Err(ErrorKind::NotADirectory.into());
    }
    Ok(accessat(CWD, dir, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)?)
}

/// Checks whether this process may write to a file.
///
/// # Errors
/// It may not, or there is no such file.
pub(crate) fn may_write(path: &Path) -> io::Result<()> {
    Ok(accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS)?)
}

/// Returns the directory that contains a path.
pub(crate) fn dir_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_directories_are_told_from_those_that_can_be_made() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("file"), "").unwrap();
        #[rustfmt::skip]
        let cases = [
            // path       a file there                   with its directories
            ("file",      None,                          None),
            ("new",       None,                          None),
            ("new/file",  Some(ErrorKind::NotFound),     None),
            ("file/new",  Some(ErrorKind::NotADirectory), Some(ErrorKind::NotADirectory)),
        ];
        for (path, one, all) in cases {
            assert_eq!(may_create(&at(path)).err().map(|error| error.kind()), one, "{path}");
            assert_eq!(may_create_all(&at(path)).err().map(|error| error.kind()), all, "{path}");
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing was created");
    }
}
