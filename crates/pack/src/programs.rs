//! Files of a site that are programs: the server runs them, and no image has them, so that it never sends their source.
//!
//! A file is judged by its place without symbolic links: no link leads around this.

use crate::walk::{SiteFile, TreeFile};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Which files are programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramFiles {
    /// Those whose names end so, such as `.cgi`. Default: none.
    pub suffixes: Vec<String>,
    /// Those below these directories, which may lie elsewhere. Default: none.
    pub directories: Vec<PathBuf>,
}

impl ProgramFiles {
    /// Removes the programs from the files of a site.
    pub(crate) fn remove_from(&self, files: &mut Vec<SiteFile<TreeFile>>) {
        if self == &ProgramFiles::default() {
            return;
        }
        // The configured name and the resolved one: this process may lack the right to resolve a name.
        let real = |path: &Path| path.canonicalize().ok();
        let directories: Vec<_> =
            self.directories.iter().flat_map(|dir| [Some(absolute(dir)), real(dir)]).flatten().collect();
        // The files of a tree follow each other mostly.
        let mut last: Option<(PathBuf, Vec<PathBuf>)> = None;
        files.retain(|file| {
            let name = file.path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
            if self.has_suffix(name) || self.has_suffix(file_name(&file.location.path)) {
                return false;
            }
            if directories.is_empty() {
                return true;
            }
            let root = file.location.tree.path();
            if last.as_ref().is_none_or(|(of, _)| of != root) {
                let roots = [Some(absolute(root)), real(root)].into_iter().flatten().collect();
                last = Some((root.to_owned(), roots));
            }
            let roots = last.iter().flat_map(|(_, roots)| roots);
            let mut places = roots.map(|root| root.join(&file.location.path));
            !places.any(|place| directories.iter().any(|directory| place.starts_with(directory)))
        });
    }

    /// Returns whether a name ends as those of programs do.
    pub(crate) fn has_suffix(&self, name: &[u8]) -> bool {
        self.suffixes.iter().any(|suffix| name.ends_with(suffix.as_bytes()))
    }
}

fn file_name(path: &Path) -> &[u8] {
    path.file_name().map_or(&[][..], OsStr::as_bytes)
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
