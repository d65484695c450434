//! Turns a directory, or a tar archive, into a site image. Takes its time, so that a request need not.
//!
//! ```text
//! directory ─ walk ─▶ path, file ─ content ─▶ bytes, hash, look ─ fields ─▶ run ─ write ─▶ image
//!                                    │                                                      ▲
//!                                    └─ too large: stays open beside the image        page ─┘
//! ```
//!
//! | file | what |
//! |---|---|
//! | `walk.rs` | which files are served, at which paths |
//! | `tree.rs` | a directory, read by descriptor, step by step |
//! | `repeats.rs` | how often links may lead to the same entries |
//! | `archive.rs` | which members of an archive are served, at which paths |
//! | `content.rs` | the content of one file: read once, so that length, hash and bytes agree |
//! | `precompressed.rs` | which files are coded forms of another |
//! | `media.rs` | Content-Type, by name and by content |
//! | `fields.rs` | the fields of each answer |
//! | `policy.rs` | what the caller decides of how a site answers |
//! | `address.rs` | at which paths a page answers, and which lead there |
//! | `listing.rs` | lists of what directories have |
//! | `cache_control.rs` | how long a cache may keep it |
//! | `dictionary.rs` | which file may be the dictionary of which later one |
//! | `page.rs` | the answers that are about no file |
//! | `user.rs` | directories of users, which are served too |
//! | `write.rs` | places everything in the image |
//! | `rules/` | `_headers` and `_redirects`, the rules that travel with a site |
//! | `rule_records.rs` | a site written by its rules |
//! | `build_cache.rs` | what was learned of large files, for the next time |
//! | `packed/` | a packed site: the image with all variants, in one archive |
//! | `skip.rs` | what was not served, for the one who asks why |
//! | `error.rs` | why there is no image |
//!
//! Knows nothing of requests and sockets. The image itself is told in `tarpon-site` and in
//! `docs/site-format.md`.

#![forbid(unsafe_code)]

mod address;
mod archive;
mod build_cache;
mod cache_control;
mod content;
mod dictionary;
mod error;
mod fields;
mod listing;
mod media;
mod packed;
mod page;
mod policy;
mod precompressed;
mod repeats;
mod rule_records;
mod rules;
mod skip;
mod tree;
mod user;
mod walk;
mod write;

pub use build_cache::BuildCache;
pub use error::{Damage, Inaccessible, PackError};
pub use packed::{
    CODINGS, Changes, DELTA_CODINGS, Dictionaries, Effort, Finding, Form, Input, Inspected, Makeup, Now,
    OpenError, PathRow, Progress, Report, Reuse, Rule, Saved, SiteError, SiteOptions, Step, Verified, What,
    carried_by, inspect, pack_site, verify,
};
#[doc(hidden)]
pub use packed::{Encoder, compress};
pub use policy::{Policy, TrailingSlash};
pub use rules::{Dialect, RuleError, RuleFile, check as check_rules};
pub use skip::{SkipReason, Skipped};
pub use tree::DirTree;
pub use user::{OmitReason, Omitted, USER_ENTRY_COUNT_MAX, USER_LEN_MAX, UserDirectory};

use address::{PageAddress, PageAddresses};
use archive::{ArchiveMember, MemberContent};
use content::{ContentSource, FileContent, OffsetReader};
use fields::{Representation, Varies};
use listing::{ListedFile, Listing};
use precompressed::{Precompressed, PrecompressedFiles};
use rule_records::RuleRecords;
use rules::{Rules, is_hidden};
use skip::skip;
use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use tarpon_site::format::PATH_LEN_MAX;
use tarpon_site::{Coding, JSON};
use tree::TreeFile;
use walk::SiteFile;
use write::{FileRecord, ImageDelta, ImageVariant, ImageWriter};

/// What the caller decides.
#[derive(Clone, Debug)]
pub struct PackOptions {
    /// A content of more bytes than this stays on disk, as an open file.
    pub file_len_min: u64,
    /// Files that may stay open: the caller knows how many descriptors it can spare.
    pub file_count_max: usize,
    /// Seconds since 1970. No Last-Modified is later (RFC 9110, section 8.8.2.1).
    pub now: u64,
    /// How `_headers` and `_redirects` at the root of the site are read. They are not served.
    pub dialect: Dialect,
    /// How the site answers.
    pub policy: Policy,
    /// Directories of users that are served too, below `/~name/`; of a directory alone. What is wrong with one of them is its
    /// user's own affair: it is left out.
    pub users: Vec<UserDirectory>,
}

impl PackOptions {
    /// The usual options, at this time: contents above 64 KiB stay on disk, at most 512 of them; rules as Netlify has
    /// them.
    pub fn new(now: u64) -> PackOptions {
        let (file_len_min, file_count_max) = (FILE_LEN_MIN, FILE_COUNT_MAX);
        let (dialect, policy, users) = (Dialect::Netlify, Policy::default(), Vec::new());
        PackOptions { file_len_min, file_count_max, now, dialect, policy, users }
    }
}

/// What was packed.
#[derive(Debug)]
pub struct PackedImage {
    /// The files beside the image; the image knows each by its place in this list.
    pub files: Vec<File>,
    /// How much it is.
    pub summary: Summary,
    /// What was left out, a row for each kind, in the order of [`Kind`].
    pub skipped: Vec<Skipped>,
    /// Directories of users that were left out as a whole.
    pub omitted: Vec<Omitted>,
}

/// How much was packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Files served.
    pub files: u64,
    /// Bytes of their contents.
    pub bytes: u64,
}

/// Packs the directory `root` into an image, written from the start of `out`, which should be empty: an image
/// ends where it ends.
///
/// Serves regular files, and the directories that have an `index.html`. The same directory gives the same
/// bytes. A file `page.html.br`, `.gz` or `.zst` beside `page.html` is offered as its coded form too. Holds at
/// most one content in memory, in all its forms. A file that changes meanwhile gives a consistent answer,
/// though perhaps of neither version; one that vanishes is left out.
///
/// # Errors
/// Something cannot be read, `out` cannot be written, more files would stay open than granted, or the rules of the site say
/// what cannot be done.
pub fn pack_dir<W: Write + Seek>(
    root: &Path,
    out: &mut W,
    options: &PackOptions,
    memo: &mut BuildCache,
) -> Result<PackedImage, PackError> {
    let tree = DirTree::open(root).map_err(|error| PackError::Root { path: root.to_owned(), error })?;
    pack_tree(tree, out, options, memo)
}

/// Packs a directory that is open, as [`pack_dir`] does. Follows no link out of it, even if other processes replace entries during
/// the packing.
///
/// # Errors
/// Those of [`pack_dir`].
pub fn pack_tree<W: Write + Seek>(
    tree: DirTree,
    out: &mut W,
    options: &PackOptions,
    memo: &mut BuildCache,
) -> Result<PackedImage, PackError> {
    let mut walk = walk::list(&Arc::new(tree))?;
    let rules = Rules::read(&walk.found, options.dialect, content::read_start)?;
    walk.found.retain(|found| !is_hidden(&found.path));
    let site_count = walk.found.len();
    let limits =
        user::UserLimits { file_len_min: options.file_len_min, file_count_max: options.file_count_max };
    let mut of_users = user::list(&options.users, &walk.found, limits, &mut walk.skipped);
    walk.found.append(&mut of_users.found);
    let listed = SiteContents { found: walk.found, site_count, skipped: walk.skipped, archive_len: 0 };
    let packed =
        write_site(listed, &rules, out, options, |file: &TreeFile| content::read(file, options, memo))?;
    memo.evict_unused();
    Ok(PackedImage { omitted: of_users.omitted, ..packed })
}

/// Packs a tar archive into an image, written from the start of `out`, which should be empty. The contents stay
/// where they lie in the archive. `path` is the name it has in errors; only what lies below `prefix` is served,
/// all if that is empty.
///
/// The same files give the same answers as [`pack_dir`] gives them, coded forms included.
///
/// # Errors
/// The archive is none, is incomplete or damaged, has sparse members, or has nothing below `prefix`; or the rules of the
/// site say what cannot be done.
pub fn pack_tar<W: Write + Seek>(
    archive: &File,
    path: &Path,
    prefix: &Path,
    out: &mut W,
    options: &PackOptions,
) -> Result<PackedImage, PackError> {
    let mut walk = archive::list(archive, path, prefix)?;
    let failed = |member: &ArchiveMember, error: io::Error| {
        let path = path.to_owned();
        match error.kind() {
            ErrorKind::UnexpectedEof => PackError::Archive {
                path,
                damage: Damage::Truncated,
                at: member.stretch.at,
                member: member.name.clone(),
            },
            _ => PackError::Read { path, error },
        }
    };
    let rules = Rules::read(&walk.found, options.dialect, |member: &ArchiveMember, len| {
        let MemberContent { at, len: member_len, .. } = member.stretch;
        let mut text = Vec::new();
        let mut from = OffsetReader { file: archive, at }.take(member_len.min(len));
        from.read_to_end(&mut text).map_err(|error| failed(member, error))?;
        Ok(Some(text))
    })?;
    walk.found.retain(|found| !is_hidden(&found.path));
    let site_count = walk.found.len();
    let listed = SiteContents { found: walk.found, site_count, skipped: walk.skipped, archive_len: walk.len };
    write_site(listed, &rules, out, options, |member: &ArchiveMember| {
        content::read_member(archive, member.stretch, options)
            .map(Some)
            .map_err(|error| failed(member, error))
    })
}

/// All there is to be served.
struct SiteContents<F> {
    found: Vec<SiteFile<F>>,
    /// So many are of the site itself, the others of users.
    site_count: usize,
    skipped: Vec<Skipped>,
    archive_len: u64,
}

/// Writes the image of what was found; `read` reads a file, if it is still there.
fn write_site<F, W: Write + Seek>(
    SiteContents { found, site_count, mut skipped, archive_len }: SiteContents<F>,
    rules: &Rules,
    out: &mut W,
    options: &PackOptions,
    mut read: impl FnMut(&F) -> Result<Option<FileContent>, PackError>,
) -> Result<PackedImage, PackError> {
    let mut siblings = PrecompressedFiles::of(&found);
    let addresses = PageAddresses::new(found.iter().map(|found| &found.path[..]), &options.policy)?;
    addresses.report_skipped(&mut skipped);
    let mut ruled = RuleRecords::new(rules, &addresses)?;
    let mut writer = ImageWriter::new(out)?;
    let mut files = Vec::new();
    let mut summary = Summary::default();
    let mut listed = Vec::new();
    let mut large_count = 0;
    for (number, SiteFile { path, file }) in found.iter().enumerate() {
        if siblings.is_taken(number) {
            continue;
        }
        let is_of_user = number >= site_count;
        let mut unread = 0;
        let mut read = |file: &F| match read(file) {
            Err(PackError::Read { .. } | PackError::Denied { .. }) if is_of_user => {
                unread += 1;
                Ok(None)
            }
            result => result,
        };
        let content = read(file)?;
        let coded = match &content {
            Some(content) => siblings.take(number, content, &mut skipped, &mut read)?,
            None => Vec::new(),
        };
        for _ in 0..unread {
            skip(&mut skipped, SkipReason::UserUnreadable, relative(path));
        }
        let Some(content) = content else { continue };
        let forms = || coded.iter().map(|coded| (coded.path, &coded.content)).chain([(&path[..], &content)]);
        let more = forms().filter(|(_, content)| matches!(content.source, ContentSource::OnDisk(_))).count();
        if is_of_user && large_count + more > options.file_count_max {
            skip(&mut skipped, SkipReason::UserLarge, relative(path));
            continue;
        }
        large_count += more;
        for (path, content) in forms() {
            listed.push(ListedFile { path, len: content.len, modified_s: content.last_modified, is_of_user });
            summary.files += 1;
            summary.bytes += content.len;
        }
        if large_count > options.file_count_max {
            // There will be no image, but the error shall tell how many files there are.
            continue;
        }
        write_file(&mut writer, &mut ruled, path, content, coded, &mut files)?;
    }
    if large_count > options.file_count_max {
        return Err(PackError::FileCount { count: large_count, max: options.file_count_max });
    }
    for Listing { dir, html, json, modified_s } in listing::listings(listed, &addresses) {
        let content = |text: String| {
            vec![(Coding::Identity, FileContent { last_modified: modified_s, ..FileContent::of(text) })]
        };
        write_listing(&mut writer, &mut ruled, &dir, content(html), content(json))?;
    }
    let section = ruled.finish(&mut writer)?;
    writer.finish(files.len() as u64, archive_len, section.as_slice())?;
    Ok(PackedImage { files, summary, skipped, omitted: Vec::new() })
}

/// Writes a file with its coded forms, and each of these at its own name too.
fn write_file<W: Write + Seek>(
    writer: &mut ImageWriter<'_, W>,
    ruled: &mut RuleRecords<'_>,
    path: &[u8],
    content: FileContent,
    coded: Vec<Precompressed<'_>>,
    files: &mut Vec<File>,
) -> Result<(), PackError> {
    let media = media_of(path, &content);
    let mut contents = vec![(Coding::Identity, content)];
    let mut paths = Vec::new();
    for Precompressed { path, coding, content } in coded {
        contents.push((coding, content));
        paths.push(path);
    }
    let whole = FileToWrite { media, contents, deltas: Vec::new(), offer: None };
    let contents = write_variants(writer, ruled, path, whole, files)?;
    for (path, (_, content)) in paths.into_iter().zip(contents.into_iter().skip(1)) {
        let (media, contents) = (media_of(path, &content), vec![(Coding::Identity, content)]);
        let whole = FileToWrite { media, contents, deltas: Vec::new(), offer: None };
        write_variants(writer, ruled, path, whole, files)?;
    }
    Ok(())
}

/// A file, as whole as it is to be written.
struct FileToWrite<'w> {
    /// The value of Content-Type.
    media: Cow<'static, str>,
    /// The first is the file as it is.
    contents: Vec<(Coding, FileContent)>,
    /// Those for clients that have a dictionary of this SHA-256.
    deltas: Vec<([u8; 32], Coding, FileContent)>,
    /// What it may be the dictionary of, as a pattern.
    offer: Option<&'w str>,
}

/// Writes a file in all its codings, wherever it answers, and what leads there. Returns the contents, placed as far as
/// another file could have them.
fn write_variants<W: Write + Seek>(
    writer: &mut ImageWriter<'_, W>,
    ruled: &mut RuleRecords<'_>,
    path: &[u8],
    whole: FileToWrite<'_>,
    files: &mut Vec<File>,
) -> Result<Vec<(Coding, FileContent)>, PackError> {
    let FileToWrite { media, contents, deltas, offer } = whole;
    let (media, varies) = (&*media, Varies::of(contents.len(), deltas.len()));
    let cache = cache_control::of_file(path);
    let Some(last_modified) = contents.first().map(|(_, content)| content.last_modified) else {
        return Ok(contents);
    };
    let PageAddress { at, from } = ruled.addresses.address_of(path);
    let mores: Vec<_> = at.iter().map(|path| ruled.fields(path)).collect();
    let sent = |coding, more| Representation { media, coding, varies, offer, last_modified, cache, more };
    let variants =
        contents.into_iter().map(|(coding, content)| ImageVariant::new(sent(coding, &mores[0]), content));
    let mut variants: Vec<_> = variants.collect();
    let deltas = deltas.into_iter().map(|(dictionary, coding, content)| ImageDelta {
        dictionary,
        variant: ImageVariant::new(sent(coding, &mores[0]), content),
    });
    let mut deltas: Vec<_> = deltas.collect();
    let [first, rest @ ..] = &at[..] else { unreachable!("a file is somewhere") };
    let mut runs = writer.file(first, &mut variants, ruled.file_record(first), files)?;
    writer.deltas(&runs, &mut deltas, files)?;
    ruled.file_written(path, first, media, &variants, &runs);
    for (address, more) in rest.iter().zip(mores.windows(2)) {
        match more[0] == more[1] {
            true => writer.alias(address, &runs, ruled.has_rule(address))?,
            false => {
                for variant in variants.iter_mut().chain(deltas.iter_mut().map(|delta| &mut delta.variant)) {
                    variant.set_fields(sent(variant.coding, &more[1]));
                }
                runs = writer.file(address, &mut variants, ruled.file_record(address), files)?;
                writer.deltas(&runs, &mut deltas, files)?;
            }
        }
        ruled.file_written(path, address, media, &variants, &runs);
    }
    let canonical = rest.last().unwrap_or(first);
    for path in &from {
        let redirect = fields::redirect(canonical, &ruled.fields(path));
        writer.redirect(path, &redirect, None, ruled.has_rule(path))?;
    }
    Ok(variants.into_iter().map(|variant| (variant.coding, variant.content)).collect())
}

/// Writes a list of what a directory has where the directory answers: as a page, and beside it as JSON.
fn write_listing<W: Write + Seek>(
    writer: &mut ImageWriter<'_, W>,
    ruled: &mut RuleRecords<'_>,
    dir: &[u8],
    html: Vec<(Coding, FileContent)>,
    json: Vec<(Coding, FileContent)>,
) -> Result<(), PackError> {
    let PageAddress { at, from } = ruled.addresses.address_of(dir);
    let [address] = &at[..] else { unreachable!("a list has one address") };
    let more = ruled.fields(address).with("Vary", "Accept");
    // What rules say is the type of the page.
    let (_, more_of_json) = more.clone().split_off("Content-Type");
    let variants = |media, contents: Vec<(Coding, FileContent)>, more| {
        let varies = Varies::of(contents.len(), 0);
        let variant = |(coding, content): (Coding, FileContent)| {
            let (last_modified, cache) = (content.last_modified, cache_control::REVALIDATE);
            ImageVariant::new(
                Representation { media, coding, varies, offer: None, last_modified, cache, more },
                content,
            )
        };
        contents.into_iter().map(variant).collect::<Vec<_>>()
    };
    let media = "text/html; charset=utf-8";
    let mut page = variants(media, html, &more);
    // There may be a choice, so it is not answered without a second look.
    let runs = writer.file(address, &mut page, FileRecord::File { asks: true }, &mut Vec::new())?;
    ruled.file_written(dir, address, media, &page, &runs);
    let name = [address.strip_prefix(b"/").unwrap_or(address), JSON].concat();
    if name.len() <= PATH_LEN_MAX {
        let mut json = variants("application/json", json, &more_of_json);
        writer.file(&name, &mut json, FileRecord::File { asks: false }, &mut Vec::new())?;
    }
    for path in &from {
        let redirect = fields::redirect(address, &ruled.fields(path));
        writer.redirect(path, &redirect, None, ruled.has_rule(path))?;
    }
    Ok(())
}

/// A path, from the root of the site.
fn relative(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(path.strip_prefix(b"/").unwrap_or(path)))
}

/// The directory, with the slash behind, of the file at a path, if that has this name.
fn directory_of<'p>(path: &'p [u8], name: &[u8]) -> Option<&'p [u8]> {
    path.strip_suffix(name).filter(|dir| dir.ends_with(b"/"))
}

fn media_of(path: &[u8], content: &FileContent) -> Cow<'static, str> {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    media::content_type(name, &content.sniffed)
}

/// See [`Options::new`]. Measured: up to here a copy out of memory is about as fast as sending from a file.
const FILE_LEN_MIN: u64 = 64 << 10;
/// See [`Options::new`]. Half of the usual soft limit of 1,024 open files.
const FILE_COUNT_MAX: usize = 512;
