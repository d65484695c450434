//! Packs a directory, or a tar archive, into a site image. Packing takes time, so that a request need not.
//!
//! ```text
//! directory ─ walk ─▶ path, file ─ content ─▶ bytes, hash, type ─ fields ─▶ variants ─ write ─▶ image
//!                                    │                                                           ▲
//!                                    └─ too large: stays open beside the image             page ─┘
//! ```
//!
//! | file | what |
//! |---|---|
//! | `options.rs` | the options of packing |
//! | `policy.rs` | the options of how a site answers |
//! | `tree.rs` | a directory, read by descriptor, name by name |
//! | `walk.rs` | lists the files of a site, and their paths |
//! | `repeats.rs` | limits how often symbolic links may repeat entries |
//! | `archive.rs` | lists the members of an archive |
//! | `user.rs` | user directories beside a site |
//! | `skip.rs` | the entries that are not served, by reason |
//! | `content.rs` | the content of one file: read once, so that length, hash and bytes agree |
//! | `build_cache.rs` | what is kept from one pack to the next: the hashes of large files, and variants |
//! | `variant_cache.rs` | compressed variants of a site that is served from a directory |
//! | `background.rs`, `effort.rs` | which contents of a site are compressed while it is served, and with how much time |
//! | `media.rs` | Content-Type, by name and by content |
//! | `precompressed.rs` | `.br`, `.gz` and `.zst` files beside their sources |
//! | `url_path.rs` | paths of URLs |
//! | `address.rs` | the addresses of pages, and the redirects to them |
//! | `listing.rs` | listings of directories |
//! | `fields.rs` | the fields of each response |
//! | `cache_control.rs` | how long a cache may use a response |
//! | `dictionary.rs` | which file may be the dictionary of which later file |
//! | `page.rs` | the server's own error pages |
//! | `rules/` | `_headers` and `_redirects` |
//! | `rule_records.rs` | the records of rules |
//! | `site_writer.rs` | writes every file of a site |
//! | `write.rs` | writes the image |
//! | `opened/` | opens and lists a packed site |
//! | `packed/` | makes and checks a packed site: the image with all variants, in one archive. Needs the feature `compress` |
//! | `progress.rs` | the progress of packing, reading or verifying |
//! | `error.rs` | the errors of packing |
//!
//! This crate knows no requests and no sockets. `tarpon-site` and `docs/site-format.md` describe the image.

#![forbid(unsafe_code)]
// Parts serve packing alone. The build with all features checks that each is in use.
#![cfg_attr(not(feature = "compress"), allow(dead_code))]

mod address;
mod archive;
mod background;
mod build_cache;
mod cache_control;
mod content;
mod dictionary;
mod effort;
mod error;
mod fields;
mod listing;
mod media;
mod opened;
mod options;
#[cfg_attr(not(feature = "compress"), path = "no_packed.rs")]
mod packed;
mod page;
mod policy;
mod precompressed;
mod programs;
mod progress;
mod repeats;
mod rule_records;
mod rules;
mod site_writer;
mod skip;
mod tree;
mod url_path;
mod user;
mod variant_cache;
mod walk;
mod write;

pub use background::{CompressionJob, JobFiles, MadeVariant};
pub use build_cache::BuildCache;
pub use content::content_hash;
pub use effort::CompressionEffort;
pub use error::{Damage, PackError};
pub use opened::{
    CODINGS, DELTA_CODINGS, InspectedEntry, InspectedLogPath, InspectedPath, InspectedRule, InspectedVariant,
    OpenError, SiteInspection, embedded_site, inspect,
};
pub use options::{BackgroundCompression, PackOptions};
#[cfg(feature = "compress")]
pub use packed::{
    ArchiveSizes, Changes, Defect, Dictionaries, PackInput, PackReport, Reuse, Savings, SiteError,
    SiteOptions, Verification, pack_site, verify,
};
#[cfg(feature = "compress")]
#[doc(hidden)]
pub use packed::{Encoder, compress};
pub use policy::{Policy, TrailingSlash};
pub use programs::ProgramFiles;
pub use progress::{PackStep, Progress, ProgressSnapshot};
pub use rules::{
    ConfiguredRules, Dialect, ErrorPage, HeaderEntry, PathEntry, RedirectEntry, RuleError, RuleFile,
    RuleFileError, RuleFileErrors, RulePosition, RuleText, check as check_rules,
};
pub use skip::{SkipReason, Skipped};
pub use tree::{DirTree, Inaccessible, LINK_COUNT_MAX, OPEN_DIR, reversed_components};
pub use user::{OmitReason, Omitted, USER_ENTRY_COUNT_MAX, USER_LEN_MAX, UserDirectory};
pub use variant_cache::{CompressedFiles, VariantCache};

use archive::{ArchiveMember, MemberContent};
use content::{HashSource, OffsetReader};
use rules::{RuleSet, is_hidden};
use site_writer::{SiteContents, write_site};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::path::Path;
use std::sync::Arc;
use walk::TreeFile;

/// The result of packing, beside the image.
#[derive(Debug)]
pub struct PackedImage {
    /// The files beside the image. The image refers to each by its index in this list.
    pub files: Vec<File>,
    /// The number of files, and their bytes.
    pub summary: Summary,
    /// The entries that were skipped, a row for each reason, in the order of [`SkipReason`].
    pub skipped: Vec<Skipped>,
    /// User directories that are not served.
    pub omitted: Vec<Omitted>,
    /// A hash of all paths, contents and rules: images with the same hash differ in compressed variants at most.
    pub content_id: u128,
}

/// The number of files, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Files served.
    pub files: u64,
    /// Bytes of their contents.
    pub bytes: u64,
    /// Files whose paths change with their contents: browsers keep them for a year.
    pub immutable: u64,
}

/// Packs the directory `root` into an image, written from the start of `out`. `out` should be empty: an image ends at the end of its
/// file.
///
/// The image has the regular files, and each directory with an `index.html`. The same directory gives the same bytes. A file
/// `page.html.br`, `.gz` or `.zst` beside `page.html` becomes its variant too. The packer holds at most one content in memory, with
/// its variants. If another process writes to a file, the image has a consistent content, though perhaps that of neither version; if
/// it removes a file, the image does not have it.
///
/// # Errors
/// A file cannot be read, `out` cannot be written, more files would stay open than the options allow, or `_headers` or `_redirects`
/// has an error.
pub fn pack_dir<W: Write + Seek>(
    root: &Path,
    out: &mut W,
    options: &PackOptions,
    cache: &mut BuildCache,
) -> Result<PackedImage, PackError> {
    let tree = DirTree::open(root).map_err(|error| PackError::Root { path: root.to_owned(), error })?;
    pack_tree(tree, out, options, cache, &Progress::default())
}

/// Packs an open directory, like [`pack_dir`]. Follows no link out of it, even if other processes replace entries during
/// packing. Reports to `progress` how many files it has read.
///
/// # Errors
/// Those of [`pack_dir`].
pub fn pack_tree<W: Write + Seek>(
    tree: DirTree,
    out: &mut W,
    options: &PackOptions,
    cache: &mut BuildCache,
    progress: &Progress,
) -> Result<PackedImage, PackError> {
    progress.begin(PackStep::Reading, 0);
    let mut site = walk::list(&Arc::new(tree), options.is_strict)?;
    options.programs.remove_from(&mut site.files);
    let rules = RuleSet::read(
        site.files.iter().map(|file| (&file.path[..], &file.location)),
        &options.policy.rules,
        options.dialect,
        content::read_start,
    )?;
    site.files.retain(|file| !is_hidden(&file.path));
    let site_count = site.files.len();
    let limits =
        user::UserLimits { file_len_min: options.file_len_min, file_count_max: options.file_count_max };
    let mut users = user::list(&options.users, &site.files, limits, &mut site.skipped);
    options.programs.remove_from(&mut users.files);
    site.files.append(&mut users.files);
    let walk::SiteFiles { files, skipped, unreadable, .. } = site;
    let hash = HashSource::of(files.iter().filter_map(|file| file.location.len()), options);
    let contents = SiteContents { files, site_count, skipped, unreadable, archive_len: 0 };
    progress.begin(PackStep::Reading, contents.files.len() as u64);
    let BuildCache { contents: known, variants } = cache;
    let packed = write_site(contents, &rules, out, options, variants, |file: &TreeFile| {
        let read = content::read(file, hash, options, known);
        progress.add(1);
        read
    })?;
    cache.contents.evict_unused();
    Ok(PackedImage { omitted: users.omitted, ..packed })
}

/// Packs a tar archive into an image, written from the start of `out`, which should be empty. The contents of files stay in the
/// archive. `path` names the archive in errors. Only members below `prefix` are served, or all if the prefix is empty.
///
/// The same files give the same responses as with [`pack_dir`], precompressed variants included. Reports to `progress` how many files were
/// read.
///
/// # Errors
/// The file is no tar archive, is incomplete or damaged, has sparse members, or has nothing below `prefix`; or `_headers` or
/// `_redirects` has an error.
pub fn pack_tar<W: Write + Seek>(
    archive: &File,
    path: &Path,
    prefix: &Path,
    out: &mut W,
    options: &PackOptions,
    cache: &mut BuildCache,
    progress: &Progress,
) -> Result<PackedImage, PackError> {
    progress.begin(PackStep::Reading, 0);
    let (mut site, archive_len) = archive::list(archive, path, prefix)?;
    let failed = |member: &ArchiveMember, error: io::Error| {
        let path = path.to_owned();
        match error.kind() {
            ErrorKind::UnexpectedEof => PackError::Archive {
                path,
                damage: Damage::Truncated,
                at: member.content.at,
                member: member.name.clone(),
            },
            _ => PackError::Read { path, error },
        }
    };
    let rules = RuleSet::read(
        site.files.iter().map(|file| (&file.path[..], &file.location)),
        &options.policy.rules,
        options.dialect,
        |member: &ArchiveMember, len| {
            let MemberContent { at, len: member_len, .. } = member.content;
            let mut text = Vec::new();
            let mut from = OffsetReader { file: archive, at }.take(member_len.min(len));
            from.read_to_end(&mut text).map_err(|error| failed(member, error))?;
            Ok::<_, PackError>(Some(text))
        },
    )?;
    site.files.retain(|file| !is_hidden(&file.path));
    let site_count = site.files.len();
    let walk::SiteFiles { files, skipped, unreadable, .. } = site;
    let hash = HashSource::of(files.iter().map(|file| file.location.content.len), options);
    let contents = SiteContents { files, site_count, skipped, unreadable, archive_len };
    progress.begin(PackStep::Reading, contents.files.len() as u64);
    write_site(contents, &rules, out, options, &mut cache.variants, |member: &ArchiveMember| {
        let name = url_path::file_name(&member.name);
        let read = content::read_member(archive, member.content, name, hash, options);
        progress.add(1);
        read.map(Some).map_err(|error| failed(member, error))
    })
}
