//! Releases of a site: made, packed, and made the current one by hand.

use super::site;
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};
use tarpon::{Effort, Packing, Progress, Source};

/// Packs a site of these files.
pub(crate) fn pack<P: AsRef<Path>, C: AsRef<[u8]>>(files: &[(P, C)], target: &Path) {
    let dir = site(files);
    let source = Source { path: dir.path().into(), ..Source::default() };
    let packing = Packing { effort: Effort::Fast, ..Packing::new(target) };
    tarpon::pack(&source, &packing, &Progress::default()).expect("a packed site");
}

/// Has the link `current` lead to `name`, from one moment to the next.
pub(crate) fn point(releases: &Path, name: &str) {
    symlink(name, releases.join("link")).expect("a link");
    fs::rename(releases.join("link"), releases.join("current")).expect("another link");
}

/// Where the link `current` leads to.
pub(crate) fn current(releases: &Path) -> PathBuf {
    releases.join("current").canonicalize().expect("a link to something")
}
