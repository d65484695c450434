//! Packs releases of a site and switches the `current` link between them.

use super::site;
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};
use tarpon::{CompressionEffort, Progress, SitePacking, SiteSource};

/// Packs a site with these files.
pub(crate) fn pack<P: AsRef<Path>, C: AsRef<[u8]>>(files: &[(P, C)], target: &Path) {
    pack_as(files, SitePacking::new(target));
}

/// Packs a site with these files, uses the files of earlier archives as dictionaries and offers its own to later archives.
pub(crate) fn pack_with_dictionaries<P: AsRef<Path>, C: AsRef<[u8]>>(
    files: &[(P, C)],
    before: &[PathBuf],
    target: &Path,
) {
    pack_as(
        files,
        SitePacking { dictionaries: before.to_vec(), offer_dictionaries: true, ..SitePacking::new(target) },
    );
}

fn pack_as<P: AsRef<Path>, C: AsRef<[u8]>>(files: &[(P, C)], packing: SitePacking) {
    let dir = site(files);
    let source = SiteSource { path: dir.path().into(), ..SiteSource::default() };
    let packing = SitePacking { effort: CompressionEffort::Fast, ..packing };
    tarpon::pack(&source, &packing, &Progress::default()).expect("a packed site");
}

/// Replaces the link `current` atomically with one to `name`.
pub(crate) fn set_current(releases: &Path, name: &str) {
    symlink(name, releases.join("link")).expect("a link");
    fs::rename(releases.join("link"), releases.join("current")).expect("another link");
}

/// Returns the target of the link `current`.
pub(crate) fn current(releases: &Path) -> PathBuf {
    releases.join("current").canonicalize().expect("a link to something")
}
