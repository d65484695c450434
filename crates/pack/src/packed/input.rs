//! The input of packing: the files of a directory, or the members of a tar archive, with the same interface.

use crate::archive::{self, MemberContent};
use crate::content::OffsetReader;
use crate::error::PackError;
use crate::programs::ProgramFiles;
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

/// The input of packing.
#[derive(Clone, Copy, Debug)]
pub enum PackInput<'i> {
    /// A directory.
    Dir(&'i Path),
    /// An open directory, with the trees that its links may lead into.
    Tree(&'i Arc<DirTree>),
    /// An uncompressed tar archive.
    Archive {
        /// The archive.
        file: &'i File,
        /// The name of the archive, for errors.
        path: &'i Path,
        /// The directory in the archive that is the site. Empty: the whole archive.
        prefix: &'i Path,
    },
}

/// The location of a file.
#[derive(Debug)]
pub(crate) enum ContentLocation {
    /// A file of a directory.
    File(TreeFile),
    /// A member of the archive.
    Member(MemberContent),
}

/// An open file or member. Several threads can read it at once.
pub(crate) struct InputFile<'i> {
    file: FileHandle<'i>,
    at: u64,
    /// Length when the file was opened.
    pub(crate) len: u64,
    /// Seconds since 1970; 0 before.
    pub(crate) modified_s: u64,
    pub(crate) mode: u32,
}

/// The files and directories of an input.
pub(crate) struct InputList {
    /// Sorted by path.
    pub(crate) found: Vec<SiteFile<ContentLocation>>,
    /// Sorted by path.
    pub(crate) dirs: Vec<SiteDir>,
    pub(crate) skipped: Vec<Skipped>,
}

enum FileHandle<'i> {
    Owned(File),
    Borrowed(&'i File),
}

impl<'i> PackInput<'i> {
    /// Lists the files and directories, without programs.
    pub(crate) fn list(&self, programs: Option<&ProgramFiles>) -> Result<InputList, PackError> {
        let mut listed = match *self {
            PackInput::Dir(root) => {
                let tree = DirTree::open(root);
                let tree = tree.map_err(|error| PackError::Root { path: root.to_owned(), error })?;
                list_tree(&Arc::new(tree), programs)?
            }
            PackInput::Tree(tree) => list_tree(tree, programs)?,
            PackInput::Archive { file, path, prefix } => {
                let (walk, _) = archive::list(file, path, prefix)?;
                let is_program = |path: &[u8]| programs.is_some_and(|programs| programs.has_suffix(path));
                let found = walk.files.into_iter();
                let found =
                    found.filter(|found| !is_program(&found.path) && !is_program(&found.location.name));
                let found = found.map(|found| SiteFile {
                    path: found.path,
                    location: ContentLocation::Member(found.location.content),
                });
                InputList { found: found.collect(), dirs: walk.dirs, skipped: walk.skipped }
            }
        };
        listed.found.sort_by(|one, other| one.path.cmp(&other.path));
        listed.dirs.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(listed)
    }

    /// Returns whether a file at `path` would be part of the input.
    pub(crate) fn would_contain(&self, path: &Path) -> bool {
        let roots = match *self {
            PackInput::Dir(root) => vec![root],
            PackInput::Tree(tree) => tree.links().iter().chain([tree]).map(|tree| tree.path()).collect(),
            PackInput::Archive { .. } => return false,
        };
        roots.into_iter().any(|root| is_served_below(root, path))
    }

    /// Opens a file. `None`: the file was removed, or is no longer a regular file.
    pub(crate) fn open(&self, location: &ContentLocation) -> Result<Option<InputFile<'i>>, PackError> {
        match (self, location) {
            (_, ContentLocation::File(file)) => Ok(file.open()?.map(|(file, meta)| InputFile {
                file: FileHandle::Owned(file),
                at: 0,
                len: meta.len(),
                modified_s: u64::try_from(meta.mtime()).unwrap_or(0),
                mode: permissions(meta.mode()),
            })),
            (
                &PackInput::Archive { file, .. },
                &ContentLocation::Member(MemberContent { at, len, modified_s, mode }),
            ) => Ok(Some(InputFile { file: FileHandle::Borrowed(file), at, len, modified_s, mode })),
            (PackInput::Dir(_) | PackInput::Tree(_), ContentLocation::Member(_)) => {
                unreachable!("a directory has no members")
            }
        }
    }

    /// Returns the name of a file for errors.
    pub(crate) fn name(&self, location: &ContentLocation) -> PathBuf {
        match (self, location) {
            (_, ContentLocation::File(file)) => file.full_path(),
            (PackInput::Archive { path, .. } | PackInput::Dir(path), ContentLocation::Member(_)) => {
                (*path).to_owned()
            }
            (PackInput::Tree(tree), ContentLocation::Member(_)) => tree.path().to_owned(),
        }
    }
}

fn list_tree(tree: &Arc<DirTree>, programs: Option<&ProgramFiles>) -> Result<InputList, PackError> {
    let mut walk = walk::list(tree, true)?;
    if let Some(programs) = programs {
        programs.remove_from(&mut walk.files);
    }
    let found = walk.files.into_iter();
    let found =
        found.map(|found| SiteFile { path: found.path, location: ContentLocation::File(found.location) });
    Ok(InputList { found: found.collect(), dirs: walk.dirs, skipped: walk.skipped })
}

/// Returns whether a file at `path` would be served with the directory `root`.
fn is_served_below(root: &Path, path: &Path) -> bool {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // If a directory does not exist, opening it returns the error.
    let (Ok(root), Ok(dir)) = (root.canonicalize(), dir.canonicalize()) else { return false };
    let Ok(below) = dir.strip_prefix(root) else { return false };
    let is_hidden = |name: &OsStr| name.as_bytes().starts_with(b".") && name != ".well-known";
    !below.iter().chain(path.file_name()).any(is_hidden)
}

impl InputFile<'_> {
    /// Returns a reader from the start. It ends at the length that the file had when it was opened.
    pub(crate) fn reader(&self) -> impl Read {
        OffsetReader { file: self.file(), at: self.at }.take(self.len)
    }

    /// Reads a block at an offset. At the end of the file it is shorter.
    pub(crate) fn block(&self, at: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut block =
            vec![0; usize::try_from(self.len.saturating_sub(at)).map_or(len, |rest| rest.min(len))];
        self.file().read_exact_at(&mut block, self.at + at)?;
        Ok(block)
    }

    fn file(&self) -> &File {
        match &self.file {
            FileHandle::Owned(file) => file,
            FileHandle::Borrowed(file) => file,
        }
    }
}
