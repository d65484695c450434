//! What a packed site is made of: the files of a directory, or the members of another archive, opened alike.

use crate::archive::{self, MemberContent};
use crate::content::OffsetReader;
use crate::error::PackError;
use crate::skip::Skipped;
use crate::tree::DirTree;
use crate::walk::{self, SiteDir, SiteFile, TreeFile, permissions};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a packed site is made of.
#[derive(Clone, Copy, Debug)]
pub enum Input<'i> {
    /// A directory.
    Dir(&'i Path),
    /// A tar archive, not compressed.
    Archive {
        /// The archive.
        file: &'i File,
        /// Its name, for errors.
        path: &'i Path,
        /// The directory of it that is the site; empty: all of it.
        prefix: &'i Path,
    },
}

/// Where a file lies.
#[derive(Debug)]
pub(crate) enum Lies {
    /// In a directory.
    File(TreeFile),
    /// In the archive.
    Member(MemberContent),
}

/// A file, open for reading: at any place, by any number of readers.
pub(crate) struct Plain<'i> {
    file: Held<'i>,
    at: u64,
    /// In bytes, when it was opened.
    pub(crate) len: u64,
    /// Seconds since 1970; 0 before.
    pub(crate) modified_s: u64,
    pub(crate) mode: u32,
}

/// What an input has.
pub(crate) struct Listed {
    /// Sorted by path, as the directories.
    pub(crate) found: Vec<SiteFile<Lies>>,
    pub(crate) dirs: Vec<SiteDir>,
    pub(crate) skipped: Vec<Skipped>,
}

enum Held<'i> {
    Own(File),
    Lent(&'i File),
}

impl<'i> Input<'i> {
    /// Lists what it has.
    pub(crate) fn list(&self) -> Result<Listed, PackError> {
        let mut listed = match *self {
            Input::Dir(root) => {
                let tree = DirTree::open(root);
                let tree = tree.map_err(|error| PackError::Root { path: root.to_owned(), error })?;
                let walk = walk::list(&Arc::new(tree))?;
                let found = walk.files.into_iter();
                let found =
                    found.map(|found| SiteFile { path: found.path, location: Lies::File(found.location) });
                Listed { found: found.collect(), dirs: walk.dirs, skipped: walk.skipped }
            }
            Input::Archive { file, path, prefix } => {
                let (walk, _) = archive::list(file, path, prefix)?;
                let found = walk.files.into_iter();
                let found = found.map(|found| SiteFile {
                    path: found.path,
                    location: Lies::Member(found.location.content),
                });
                Listed { found: found.collect(), dirs: walk.dirs, skipped: walk.skipped }
            }
        };
        listed.found.sort_by(|one, other| one.path.cmp(&other.path));
        listed.dirs.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(listed)
    }

    /// Whether a file at `path` would be a part of it.
    pub(crate) fn would_have(&self, path: &Path) -> bool {
        let Input::Dir(root) = self else { return false };
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // Whatever cannot be found is told when it is opened.
        let (Ok(root), Ok(dir)) = (root.canonicalize(), dir.canonicalize()) else { return false };
        let Ok(below) = dir.strip_prefix(root) else { return false };
        let is_hidden = |name: &OsStr| name.as_bytes().starts_with(b".") && name != ".well-known";
        !below.iter().chain(path.file_name()).any(is_hidden)
    }

    /// Opens a file. None if it is gone, or not a regular file any more.
    pub(crate) fn open(&self, lies: &Lies) -> Result<Option<Plain<'i>>, PackError> {
        match (self, lies) {
            (_, Lies::File(file)) => Ok(file.open()?.map(|(file, meta)| Plain {
                file: Held::Own(file),
                at: 0,
                len: meta.len(),
                modified_s: u64::try_from(meta.mtime()).unwrap_or(0),
                mode: permissions(meta.mode()),
            })),
            (&Input::Archive { file, .. }, &Lies::Member(MemberContent { at, len, modified_s, mode })) => {
                Ok(Some(Plain { file: Held::Lent(file), at, len, modified_s, mode }))
            }
            (Input::Dir(_), Lies::Member(_)) => unreachable!("a directory has no members"),
        }
    }

    /// What a file is called in an error.
    pub(crate) fn name(&self, lies: &Lies) -> PathBuf {
        match (self, lies) {
            (_, Lies::File(file)) => file.full_path(),
            (Input::Archive { path, .. } | Input::Dir(path), Lies::Member(_)) => (*path).to_owned(),
        }
    }
}

impl Plain<'_> {
    /// Reads from the start; no more than the file had when it was opened.
    pub(crate) fn reader(&self) -> impl Read {
        OffsetReader { file: self.file(), at: self.at }.take(self.len)
    }

    /// Reads a block at a place within the file; less than asked for at its end.
    pub(crate) fn block(&self, at: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut block =
            vec![0; usize::try_from(self.len.saturating_sub(at)).map_or(len, |rest| rest.min(len))];
        self.file().read_exact_at(&mut block, self.at + at)?;
        Ok(block)
    }

    fn file(&self) -> &File {
        match &self.file {
            Held::Own(file) => file,
            Held::Lent(file) => file,
        }
    }
}
