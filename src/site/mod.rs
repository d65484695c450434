//! A site in memory, and how files become one.
//!
//! ```text
//! directory ─────────────────────┐                                       ┌─▶ swap into the workers
//! tar archive, packed site ──────┼─ SiteBuilder ─▶ Site ─┬─ SiteHistory ─┤
//! embedded site of the program ──┘       ▲               └─ SiteTransfer ┴─▶ another process, as descriptors
//!                                        │
//! kernel events ── SiteWatcher ──────────┘ rebuilds when files change
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | [`Site`]: the image that workers serve, and its descriptors |
//! | `builder.rs` | builds a site from a directory or an archive, and rebuilds it |
//! | `compressor.rs` | compresses contents while the site is served without them |
//! | `build_error.rs` | the messages for sites that cannot be built |
//! | `archive.rs` | opens, unpacks and maps an archive |
//! | `trusted_path.rs` | opens the path to a site step by step, only through trusted directories |
//! | `link_trees.rs` | opens the trees that symbolic links of a site may lead into |
//! | `user_directories.rs` | which users have directories below `/~name/` |
//! | `watch/` | notices changes to files and triggers a rebuild |
//! | `virtual_hosts.rs` | the sites of a server, and the host names of each |
//! | `server_routes.rs` | which sites answer at which listeners, hosts and paths |
//! | `set.rs` | all sites of a server, current and earlier, for new workers |
//! | `versions.rs` | the current version of one site and the earlier ones that are kept |
//! | `descriptor_budget.rs` | how many descriptors the sites may take in a process |
//! | `transfer.rs` | sends a site to another process as descriptors |
//! | `pack.rs` | packs a site into an archive, with the messages for failures |
//! | `no_compressor.rs` | takes the place of `compressor.rs` without the feature `pack` |
//! | `embedded.rs` | the site that is embedded in a program |
//! | `inspect.rs` | lists a packed site |
//! | `verify.rs` | verifies a packed site |
//! | `releases/` | a directory of packed releases, and the link to the current one |

pub(crate) mod archive;
mod build_error;
pub(crate) mod builder;
#[cfg_attr(not(feature = "pack"), path = "no_compressor.rs")]
mod compressor;
pub(crate) mod descriptor_budget;
pub(crate) mod embedded;
pub(crate) mod inspect;
pub(crate) mod link_trees;
#[cfg(feature = "pack")]
pub(crate) mod pack;
pub(crate) mod releases;
pub(crate) mod server_routes;
pub(crate) mod set;
#[cfg(feature = "program")]
pub(crate) mod transfer;
pub(crate) mod trusted_path;
pub(crate) mod user_directories;
#[cfg(feature = "pack")]
pub(crate) mod verify;
pub(crate) mod versions;
pub(crate) mod virtual_hosts;
pub(crate) mod watch;

pub(crate) use {build_error::missing, builder::from_archive};

use crate::{
    base::{error::UserError, site_config::SiteSource},
    sys::memory,
};
use archive::Archive;
use build_error::pack_error;
use builder::SiteBuilder;
use std::{
    fmt,
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
};
use tarpon_pack::{BuildCache, CompressedFiles, DirTree, Omitted, PackError, Progress, SkipReason, Skipped};
use tarpon_site::{Image, Region, packed};
use trusted_path::fd_path;

/// A site, ready to be served: an immutable image of its files.
///
/// Later changes on disk do not change it: build another site and [swap](crate::Handle::swap) it in.
#[derive(Debug)]
pub struct Site {
    image: Image,
    /// The descriptor of the memory that holds the image. `None`: the image is part of the archive.
    store: Option<Arc<File>>,
    /// Open files that are too large for the image.
    files: Vec<Arc<File>>,
    /// The archive that holds the contents.
    archive: Option<Archive>,
    file_count: u64,
    /// Total size of all files, in bytes.
    content_len: u64,
    /// A hash of all paths, contents and rules. Versions with the same hash differ in compressed variants at most.
    content_id: u128,
    notes: BuildNotes,
}

/// What a build says of a site beside its image. Another process that gets the site does not need it.
#[derive(Debug, Default)]
struct BuildNotes {
    skipped: Vec<Skipped>,
    /// Directories of users that this build omits and the previous build did not.
    omitted: Vec<Omitted>,
    /// The directory that was read, without links.
    root: Option<PathBuf>,
    /// Files that browsers keep for a year. `None`: unknown, as of a packed site.
    immutable_count: Option<u64>,
    /// The files with variants that were compressed in the background.
    compressed: CompressedFiles,
}

impl Site {
    /// Builds a site from a directory. A file that cannot be read answers 403, and [`warnings`](Site::warnings) tells of it.
    ///
    /// # Errors
    /// The directory does not exist or cannot be read, or there are more large files than the limit on open files allows.
    pub fn from_dir(dir: impl AsRef<Path>) -> Result<Site, UserError> {
        let source = SiteSource { path: dir.as_ref().to_owned(), ..SiteSource::default() };
        let failed = |error| pack_error(PackError::Root { path: source.path.clone(), error }, None);
        SiteBuilder::default().dir(DirTree::open(&source.path).map_err(failed)?, &source)
    }

    /// Builds a site from a tar archive, or from its directory `prefix` if that is not empty. The server sends contents from the
    /// archive, which stays mapped: to replace the archive, rename another file over it; do not write to it. If the archive is
    /// truncated anyway, a SIGBUS handler keeps the process alive; it forwards faults of other memory to the previous handler.
    ///
    /// # Errors
    /// The archive does not exist, is not a complete tar archive, has sparse members, or has no such directory.
    pub fn from_archive(path: impl AsRef<Path>, prefix: impl AsRef<Path>) -> Result<Site, UserError> {
        let (path, prefix) = (path.as_ref().to_owned(), prefix.as_ref().to_owned());
        let source = SiteSource { path, prefix, ..SiteSource::default() };
        let archive = Archive::new(&source.path, source.max_unpacked_len, source.preload)?;
        from_archive(archive, &source, &mut BuildCache::default(), &Progress::default())
    }

    /// Returns a site without files: each of its responses is an error page.
    ///
    /// # Panics
    /// If the process is out of memory or descriptors.
    pub fn empty() -> Site {
        builder::empty().expect("memory for a small image")
    }

    /// Returns the number of files.
    pub fn file_count(&self) -> u64 {
        self.file_count
    }

    /// Returns the total size of all files, in bytes.
    pub fn content_len(&self) -> u64 {
        self.content_len
    }

    /// Returns how many files browsers keep for a year, as their paths change with their contents. `None`: unknown, as of a packed site.
    pub fn immutable_count(&self) -> Option<u64> {
        self.notes.immutable_count
    }

    /// Returns how many files and directories cannot be read, and the first of them.
    pub(crate) fn unreadable(&self) -> (u64, Option<&Path>) {
        let row = self.notes.skipped.iter().find(|row| row.reason == SkipReason::Unreadable);
        row.map_or((0, None), |row| (row.count, Some(&row.example)))
    }

    /// Returns which files have variants that were compressed in the background: those of a packed site were compressed before.
    pub fn compressed(&self) -> CompressedFiles {
        self.notes.compressed
    }

    /// Returns a hash of all paths, contents and rules, in hexadecimal. Compressing contents in the background does not change it.
    pub fn digest(&self) -> String {
        format!("{:032x}", self.content_id)
    }

    /// Returns the path of the directory or archive that was read, without links. `None`: the system does not tell, or it was removed.
    pub(crate) fn real_path(&self) -> Option<PathBuf> {
        let path = match (&self.archive, &self.notes.root) {
            (Some(archive), _) => fd_path(&archive.file),
            (None, Some(root)) => return Some(root.clone()),
            (None, None) => return None,
        };
        path.read_link().ok()
    }

    /// Returns one line for each kind of entry that the site does not serve, such as sockets or unreadable user directories.
    pub fn warnings(&self) -> impl Iterator<Item = impl fmt::Display + '_> {
        let skipped = self.notes.skipped.iter().map(Skipped::to_string);
        skipped.chain(self.notes.omitted.iter().map(Omitted::to_string))
    }

    /// Returns whether two sites have the same paths, contents and rules. Their compressed variants may differ.
    pub(crate) fn is_same(&self, other: &Site) -> bool {
        self.content_id == other.content_id
    }

    /// Returns how many descriptors the site keeps open.
    pub(crate) fn descriptor_count(&self) -> usize {
        self.files.len() + usize::from(self.archive.is_some()) + 1
    }

    /// Returns all open descriptors.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = &Arc<File>> {
        let archive = self.archive.as_ref().map(|archive| &archive.file);
        self.store.iter().chain(archive).chain(&self.files)
    }

    #[inline]
    pub(crate) fn image(&self) -> &Image {
        &self.image
    }

    /// Returns the descriptor that holds the image, and the offset of the image in it.
    #[inline]
    pub(crate) fn store(&self) -> (&File, u64) {
        match &self.store {
            Some(store) => (store, 0),
            None => (&self.archive().file, self.archive().at + packed::IMAGE_AT),
        }
    }

    /// Returns a range of the image for system calls to read; only the kernel may read it.
    #[inline]
    pub(crate) fn bytes_for_kernel(&self, place: Region) -> &[u8] {
        match &self.store {
            Some(_) => self.image.bytes(place),
            None => {
                let place = Region { at: place.at + packed::IMAGE_AT, ..place };
                self.archive().map.bytes_for_kernel(place).unwrap_or_default()
            }
        }
    }

    /// Returns whether the image is part of an archive that was truncated. Nothing read from such an image can be trusted.
    #[inline]
    pub(crate) fn is_damaged(&self) -> bool {
        self.is_packed() && self.archive().map.is_damaged()
    }

    #[inline]
    pub(crate) fn file(&self, number: u32) -> &File {
        &self.files[number as usize]
    }

    /// Returns the sizes of the open files, in bytes.
    pub(crate) fn file_lens(&self) -> impl Iterator<Item = u64> {
        self.files.iter().map(|file| memory::len(file).unwrap_or(0))
    }

    /// Returns the offset at which the archive begins in its file; 0 without an archive.
    pub(crate) fn archive_at(&self) -> u64 {
        self.archive.as_ref().map_or(0, |archive| archive.at)
    }

    /// Returns the offset at which the archive ends in its file; 0 without an archive.
    pub(crate) fn archive_end(&self) -> u64 {
        self.archive.as_ref().map_or(0, |archive| archive.at + archive.map.len())
    }

    /// Returns whether any content is in a file instead of the site's own memory.
    pub(crate) fn is_on_disk(&self) -> bool {
        !self.files.is_empty() || self.archive.is_some()
    }

    /// Returns the files that hold contents: the archive and the large files.
    pub(crate) fn files_on_disk(&self) -> impl Iterator<Item = &File> {
        self.archive.iter().map(|archive| &archive.file).chain(&self.files).map(|file| &**file)
    }

    /// Returns whether the image is part of the archive: a packed site.
    #[inline]
    pub(crate) fn is_packed(&self) -> bool {
        self.store.is_none()
    }

    /// Returns the descriptor of a store, and the offset at which the store begins.
    #[inline]
    pub(crate) fn file_of(&self, store: StoreId) -> (&File, u64) {
        match store {
            StoreId::Archive => (&self.archive().file, self.archive().at),
            StoreId::File(number) => (self.file(number), 0),
        }
    }

    #[inline]
    pub(crate) fn archive(&self) -> &Archive {
        self.archive.as_ref().expect("an image that names an archive came from one")
    }
}

/// A file that holds contents of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreId {
    /// The archive.
    Archive,
    /// The large file with this number.
    File(u32),
}

/// A range of one of a site's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileRange {
    pub(crate) store: StoreId,
    /// Offset and length in the file.
    pub(crate) region: Region,
}
