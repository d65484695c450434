//! Names are not watched by descriptor on this system: the paths of sites are looked at from time to time.

use std::{ffi::OsStr, io, os::fd::BorrowedFd};

/// No names.
pub(crate) struct NameWatch;

/// What became of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameChange {
    /// It may mean another file or directory, or nothing any more.
    #[expect(dead_code, reason = "no name is watched")]
    Replaced,
    /// The file of the site with this number was written, or may be read by others than before.
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

    pub(crate) fn follow(self, _told: impl FnMut(NameChange) + Send + 'static) -> io::Result<()> {
        Ok(())
    }
}
