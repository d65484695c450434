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
    pack_as(files, Packing::new(target));
}

/// Packs a site of these files that may be dictionaries for later ones, with those of earlier archives as dictionaries.
pub(crate) fn pack_with_dictionaries<P: AsRef<Path>, C: AsRef<[u8]>>(
    files: &[(P, C)],
    before: &[PathBuf],
    target: &Path,
) {
    pack_as(files, Packing { dictionaries: before.to_vec(), offers: true, ..Packing::new(target) });
}

fn pack_as<P: AsRef<Path>, C: AsRef<[u8]>>(files: &[(P, C)], packing: Packing) {
    let dir = site(files);
    let source = Source { path: dir.path().into(), ..Source::default() };
    let packing = Packing { effort: Effort::Fast, ..packing };
    tarpon::pack(&source, &packing, &Progress::default()).expect("a packed site");
}

/// Has the link `current` lead to `name`, from one moment to the next.
pub(crate) fn set_current(releases: &Path, name: &str) {
    symlink(name, releases.join("link")).expect("a link");
    fs::rename(releases.join("link"), releases.join("current")).expect("another link");
}

/// Where the link `current` leads to.
pub(crate) fn current(releases: &Path) -> PathBuf {
    releases.join("current").canonicalize().expect("a link to something")
}
