//! A file that gets its name when it is complete and on disk.
//!
//! ```text
//! file without a name ─ write ─ fsync ─ link to a temporary name ─ rename to the target ─ fsync of the directory
//! ```
//!
//! The kernel removes a file without a name (`O_TMPFILE`) when the process ends, even if the process crashes. If the system or the file
//! system does not support such files, the file has a temporary name from the start, and is removed if writing fails.

use super::tmpfile;
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// A file that is not complete yet.
pub(crate) struct AtomicFile {
    pub(crate) file: File,
    path: PathBuf,
    /// The temporary name, if the file has one.
    temporary: Option<PathBuf>,
}

impl AtomicFile {
    /// Creates a file that [`AtomicFile::finish`] moves to `path`.
    pub(crate) fn new(path: &Path) -> io::Result<AtomicFile> {
        // Fail now, not after all the work. The rename would also replace a device.
        match fs::metadata(path) {
            Ok(meta) if meta.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(meta) if !meta.is_file() => {
                return Err(io::Error::other("it exists and is not a regular file"));
            }
            _ => {}
        }
        match tmpfile::create(dir_of(path))? {
            Some(file) => Ok(AtomicFile { file, path: path.to_owned(), temporary: None }),
            None => AtomicFile::named(path),
        }
    }

    /// Creates the file with a temporary name.
    fn named(path: &Path) -> io::Result<AtomicFile> {
        let (file, temporary) = create_temporary(path)?;
        Ok(AtomicFile { file, path: path.to_owned(), temporary: Some(temporary) })
    }

    /// Creates a temporary file without a name on the same file system.
    pub(crate) fn scratch(&self) -> io::Result<File> {
        match tmpfile::create(dir_of(&self.path))? {
            Some(file) => Ok(file),
            None => {
                let (file, temporary) = create_temporary(&self.path)?;
                fs::remove_file(&temporary)?;
                Ok(file)
            }
        }
    }

    /// Gives the file its name. Replaces the old file of this name.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        if self.temporary.is_none() {
            let temporary = link_temporary(&self.file, &self.path)?;
            self.temporary = Some(temporary);
        }
        if let Some(temporary) = &self.temporary {
            fs::rename(temporary, &self.path)?;
            self.temporary = None;
        }
        File::open(dir_of(&self.path))?.sync_all()
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // The caller reports the error that came first.
            let _ = fs::remove_file(temporary);
        }
    }
}

/// Creates a file with a temporary name in the directory of the target.
fn create_temporary(path: &Path) -> io::Result<(File, PathBuf)> {
    with_free_name(path, |temporary| File::options().read(true).write(true).create_new(true).open(temporary))
}

/// Gives a file a temporary name in the directory of the target.
fn link_temporary(file: &File, path: &Path) -> io::Result<PathBuf> {
    with_free_name(path, |temporary| tmpfile::link(file, temporary)).map(|((), temporary)| temporary)
}

/// Tries temporary names until one is free, since other processes may write the same target.
fn with_free_name<T>(path: &Path, make: impl Fn(&Path) -> io::Result<T>) -> io::Result<(T, PathBuf)> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut number = 0;
    loop {
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}-{number}.tmp", std::process::id()));
        let temporary = path.with_file_name(hidden);
        match make(&temporary) {
            Ok(made) => return Ok((made, temporary)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Follows symbolic links at the target, even to a file that does not exist. `tar -cf` and `cp` follow them too: the target of a link may
/// be on another disk.
pub(crate) fn resolve_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINK_COUNT_MAX {
        match fs::read_link(&path) {
            Ok(link) => path = dir_of(&path).join(link),
            // The path is not a link, or does not exist.
            Err(_) => return Ok(path),
        }
    }
    Err(Errno::LOOP.into())
}

fn dir_of(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}

/// The number of symbolic links that Linux follows.
const LINK_COUNT_MAX: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::symlink;

    #[test]
    fn file_has_its_name_only_after_finish() {
        type Begin = fn(&Path) -> io::Result<AtomicFile>;
        let begin: [(&str, Begin, usize); 2] =
            [("without a name", AtomicFile::new, 0), ("with a name", AtomicFile::named, 1)];
        for (name, begin, meanwhile) in begin {
            let dir = tempfile::tempdir().expect("a directory");
            let path = dir.path().join("site.tar");
            let names = || {
                let entries = fs::read_dir(dir.path()).expect("a directory");
                entries.map(|entry| entry.expect("an entry").file_name()).collect::<Vec<_>>()
            };
            let target = begin(&path).expect(name);
            let scratch = target.scratch().expect(name);
            (&scratch).write_all(b"scratch").expect(name);
            (&target.file).write_all(b"half").expect(name);
            assert_eq!(names().len(), meanwhile, "{name}");
            assert!(!path.exists(), "{name}");
            drop(target);
            assert_eq!(names().len(), 0, "{name}: no file is left");

            for content in ["one", "another in its place"] {
                let target = begin(&path).expect(name);
                (&target.file).write_all(content.as_bytes()).expect(name);
                target.finish().expect(name);
                assert_eq!(names(), ["site.tar"], "{name}");
                assert_eq!(fs::read(&path).expect(name), content.as_bytes(), "{name}");
            }
        }
    }

    #[test]
    fn finish_replaces_the_target_of_a_link() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("elsewhere")).expect("a directory");
        symlink("elsewhere/link", at("site.tar")).expect("a link");
        symlink("real.tar", at("elsewhere/link")).expect("a link");
        for content in ["new", "another in its place"] {
            let target =
                AtomicFile::new(&resolve_links(&at("site.tar")).expect("a target")).expect("a target");
            (&target.file).write_all(content.as_bytes()).expect("a file");
            target.finish().expect("a file");
            assert_eq!(fs::read(at("elsewhere/real.tar")).expect("a file"), content.as_bytes());
            assert!(at("site.tar").is_symlink() && at("elsewhere/link").is_symlink());
        }
        symlink("circle", at("circle")).expect("a link");
        assert!(resolve_links(&at("circle")).is_err());
    }

    #[test]
    fn unwritable_target_fails_at_creation() {
        let dir = tempfile::tempdir().expect("a directory");
        for path in [dir.path().to_owned(), dir.path().join("missing/site.tar"), PathBuf::from("/")] {
            assert!(AtomicFile::new(&path).is_err(), "{path:?}");
        }
    }
}
