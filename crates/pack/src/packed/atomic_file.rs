//! The archive while it is written: nothing under its name until it is whole and on disk.
//!
//! ```text
//! file without a name ─ write ─ fsync ─ link to a name beside ─ rename over the target ─ fsync of the directory
//! ```
//!
//! A file without a name (`O_TMPFILE`) is gone with whoever wrote it, however that ended. Where the file system or the system
//! has none, the file has a name beside the target from the start, and is removed when the writing fails.

use super::tmpfile;
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// An archive that is being written.
pub(crate) struct AtomicFile {
    pub(crate) file: File,
    path: PathBuf,
    /// The name it has meanwhile, if it has one.
    beside: Option<PathBuf>,
}

impl AtomicFile {
    /// Begins an archive that is to lie at `path`.
    pub(crate) fn new(path: &Path) -> io::Result<AtomicFile> {
        // Told now, and not when all the work is done; and a device would be replaced like a file.
        match fs::metadata(path) {
            Ok(there) if there.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(there) if !there.is_file() => {
                return Err(io::Error::other("it is there, and no regular file"));
            }
            _ => {}
        }
        match tmpfile::create(dir_of(path))? {
            Some(file) => Ok(AtomicFile { file, path: path.to_owned(), beside: None }),
            None => AtomicFile::named(path),
        }
    }

    /// The same with a name from the start.
    fn named(path: &Path) -> io::Result<AtomicFile> {
        let (file, beside) = create_beside(path)?;
        Ok(AtomicFile { file, path: path.to_owned(), beside: Some(beside) })
    }

    /// A temporary file on the same file system, which has no name and so leaves nothing behind.
    pub(crate) fn scratch(&self) -> io::Result<File> {
        match tmpfile::create(dir_of(&self.path))? {
            Some(file) => Ok(file),
            None => {
                let (file, beside) = create_beside(&self.path)?;
                fs::remove_file(&beside)?;
                Ok(file)
            }
        }
    }

    /// Gives it its name, in the place of what had that before.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        if self.beside.is_none() {
            let beside = link_beside(&self.file, &self.path)?;
            self.beside = Some(beside);
        }
        if let Some(beside) = &self.beside {
            fs::rename(beside, &self.path)?;
            self.beside = None;
        }
        File::open(dir_of(&self.path))?.sync_all()
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if let Some(beside) = &self.beside {
            // Whatever failed has been told; that this fails too would help nobody.
            let _ = fs::remove_file(beside);
        }
    }
}

/// Creates a file beside the target.
fn create_beside(path: &Path) -> io::Result<(File, PathBuf)> {
    free_beside(path, |beside| File::options().read(true).write(true).create_new(true).open(beside))
}

/// Gives a file a name beside the target.
fn link_beside(file: &File, path: &Path) -> io::Result<PathBuf> {
    free_beside(path, |beside| tmpfile::link(file, beside)).map(|((), beside)| beside)
}

/// Tries names until one is free: two that write the same target do not meet.
fn free_beside<T>(path: &Path, make: impl Fn(&Path) -> io::Result<T>) -> io::Result<(T, PathBuf)> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut number = 0;
    loop {
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}-{number}.tmp", std::process::id()));
        let beside = path.with_file_name(hidden);
        match make(&beside) {
            Ok(made) => return Ok((made, beside)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Where a target lies: where a symbolic link leads, whether or not something is there. So do `tar -cf` and `cp`; whoever keeps
/// a link to a file on another disk means that file.
pub(crate) fn resolve_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINK_COUNT_MAX {
        match fs::read_link(&path) {
            Ok(link) => path = dir_of(&path).join(link),
            // No link, or nothing there yet.
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

/// Symbolic links on the way to a file: as many as Linux follows.
const LINK_COUNT_MAX: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::symlink;

    #[test]
    fn nothing_has_a_name_until_it_is_whole() {
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
            assert_eq!(names().len(), 0, "{name}: nothing is left");

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
    fn a_link_stays_and_the_file_it_leads_to_is_replaced() {
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
    fn what_cannot_be_written_is_told_at_once() {
        let dir = tempfile::tempdir().expect("a directory");
        for path in [dir.path().to_owned(), dir.path().join("missing/site.tar"), PathBuf::from("/")] {
            assert!(AtomicFile::new(&path).is_err(), "{path:?}");
        }
    }
}
