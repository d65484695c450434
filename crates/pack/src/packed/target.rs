//! The archive while it is written: nothing under its name until it is whole and on disk.
//!
//! ```text
//! file without a name ─ write ─ fsync ─ link to a name beside ─ rename over the target ─ fsync of the directory
//! ```
//!
//! A file without a name (`O_TMPFILE`) is gone with whoever wrote it, however that ended. Where the file system has
//! none, the file has a name beside the target from the start, and is removed when the writing fails.

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// An archive that is being written.
pub(crate) struct Target {
    pub(crate) file: File,
    path: PathBuf,
    /// The name it has meanwhile, if it has one.
    beside: Option<PathBuf>,
}

impl Target {
    /// Begins an archive that is to lie at `path`.
    pub(crate) fn new(path: &Path) -> io::Result<Target> {
        // An open file is not found at its name any more once a directory has taken it.
        if path.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let path = path.to_owned();
        match unnamed(dir_of(&path)) {
            Ok(file) => Ok(Target { file, path, beside: None }),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
                let beside = beside(&path)?;
                let file = File::options().read(true).write(true).create_new(true).open(&beside)?;
                Ok(Target { file, path, beside: Some(beside) })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// A temporary file on the same file system, which has no name and so leaves nothing behind.
    pub(crate) fn scratch(&self) -> io::Result<File> {
        match unnamed(dir_of(&self.path)) {
            Ok(file) => Ok(file),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
                let beside = beside(&self.path)?;
                let file = File::options().read(true).write(true).create_new(true).open(&beside)?;
                fs::remove_file(&beside)?;
                Ok(file)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Gives it its name, in the place of what had that before.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        if self.beside.is_none() {
            let beside = beside(&self.path)?;
            let from = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            rustix::fs::linkat(CWD, from, CWD, &beside, AtFlags::SYMLINK_FOLLOW)?;
            self.beside = Some(beside);
        }
        if let Some(beside) = &self.beside {
            fs::rename(beside, &self.path)?;
            self.beside = None;
        }
        File::open(dir_of(&self.path))?.sync_all()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if let Some(beside) = &self.beside {
            // Whatever failed has been told; that this fails too would help nobody.
            let _ = fs::remove_file(beside);
        }
    }
}

fn unnamed(dir: &Path) -> Result<File, Errno> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::open(dir, flags, Mode::from_raw_mode(0o666)).map(File::from)
}

/// A name beside the target that nothing has: two that write the same target do not meet.
fn beside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    for number in 0..u32::MAX {
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}-{number}.tmp", std::process::id()));
        let beside = path.with_file_name(hidden);
        if let Err(error) = fs::symlink_metadata(&beside) {
            return match error.kind() {
                io::ErrorKind::NotFound => Ok(beside),
                _ => Err(error),
            };
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn dir_of(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}
