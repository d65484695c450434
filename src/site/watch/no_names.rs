//! Replaces `names` on systems without inotify: watches nothing. `SiteWatcher` polls the paths of sites instead.

use std::{ffi::OsStr, io, os::fd::BorrowedFd};

/// A watch that cannot be created.
pub(crate) struct NameWatch;

/// A change of a watched name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameChange {
    /// The name was created, renamed or removed: it may lead to another file or directory.
    #[expect(dead_code, reason = "no name is watched")]
    Replaced,
    /// The file of the site with this number was written, or its permissions have changed.
    #[expect(dead_code, reason = "no name is watched")]
    Written(usize),
}

impl NameWatch {
    pub(crate) fn new() -> io::Result<NameWatch> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn add(&mut self, _dir: BorrowedFd<'_>, _name: &OsStr, _site: usize) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn add_content(&mut self, _site: usize) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn follow(self, _report: impl FnMut(NameChange) + Send + 'static) -> io::Result<()> {
        Ok(())
    }
}
