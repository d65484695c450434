//! Checks a packed site: every checksum, every variant against its file, and every member against what the server sends.
//!
//! ```text
//! image ─┬─ header, tables ─ checked when the site is opened
//!        ├─ records, fields, small contents ─ one checksum
//!        └─ sections ─ one checksum each ─ stretches ─▶ the rest of the archive
//! each entry ─ content matches its entity-tag ─ variants decode to it ─ the member has the same content
//! ```
//!
//! The check goes on after a defect, to find all of them. The length of the archive limits the work, whatever the archive contains: the
//! check reads a content once, contents must not overlap, and no variant may decode to more than its file.

use super::decode::{decodes_to, decodes_with_dictionary, names_dictionary};
use super::dictionaries::Dictionaries;
use super::error::OpenError;
use super::fingerprint::{Fingerprint, HashingWriter, copy, fingerprint_of};
use super::jobs::run_jobs;
use super::open::{OpenedSite, stored_fingerprint};
use super::progress::{PackStep, Progress};
use crate::archive;
use crate::content::OffsetReader;
use crate::rules::is_hidden;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::num::NonZeroUsize;
use std::path::Path;
use tarpon_http::target::{PATH_LEN_MAX, normalize};
use tarpon_site::Printable;
use tarpon_site::format::{CHECKSUM_LEN, ChecksumRow, SectionRow, hash, section};
use tarpon_site::{Coding, Content, Entry, Image, JSON_SUFFIX, Redirect, Variant, Variants};

/// The result of a check.
#[derive(Debug)]
pub struct Verification {
    /// Number of paths.
    pub paths: u64,
    /// Number of contents and variants.
    pub contents: u64,
    /// Number of deltas that were not decoded, since their dictionary was not available.
    pub undecoded: u64,
    /// Length of the archive.
    pub len: u64,
    /// All defects, in the order of the checks.
    pub defects: Vec<Defect>,
}

/// A defect of a packed site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Defect {
    /// The records, fields or small contents of the image do not match their checksum.
    Body,
    /// A section of the image does not match its checksum.
    Section {
        /// The kind of the section.
        kind: u32,
    },
    /// Some records are unreachable or invalid.
    Records {
        /// The number of such records.
        count: u64,
    },
    /// Bytes outside of the image do not match their checksum.
    Stretch {
        /// The offset of the bytes.
        at: u64,
        /// The number of bytes.
        len: u64,
    },
    /// The rest of the archive has no checksum.
    Unchecked {
        /// The offset of the rest.
        at: u64,
    },
    /// A content does not match its entity-tag.
    Content {
        /// The path of the content.
        path: Vec<u8>,
        /// The coding of the content.
        coding: Coding,
    },
    /// The fields of a response do not frame its content, so the server does not send it.
    Framing {
        /// The path of the response, or the name of its record.
        path: Vec<u8>,
    },
    /// The HPACK block of a response does not have the fields of its text.
    Hpack {
        /// The path.
        path: Vec<u8>,
    },
    /// A variant does not decode to its file.
    Undecodable {
        /// The path of the file.
        path: Vec<u8>,
        /// The coding of the variant.
        coding: Coding,
    },
    /// Contents or fields overlap, or a content has too many variants. Contents after this one were not checked.
    Overlap {
        /// The path of the content.
        path: Vec<u8>,
    },
    /// The archive is not a valid tar archive.
    Tar(String),
    /// Tar programs extract another content than the server sends.
    Member {
        /// The path of the file.
        path: Vec<u8>,
    },
}

/// Checks a packed site. `path` is its name in errors. Decodes the deltas whose dictionaries are among `dictionaries`. Reports to `progress`.
///
/// # Errors
/// The archive cannot be read, is not a packed site, or its image is so damaged that the server could not serve it.
pub fn verify(
    archive: &File,
    path: &Path,
    dictionaries: &Dictionaries,
    workers: NonZeroUsize,
    progress: &Progress,
) -> Result<Verification, OpenError> {
    let opened = OpenedSite::new(archive)?;
    let image = &opened.image;
    let mut defects = Vec::new();
    checksums(&opened, archive, progress, &mut defects);
    framing(image, &mut defects);
    let mut entries: BTreeMap<_, _> = image.entries().collect();
    let invalid = image.record_count().saturating_sub(entries.len() as u64);
    // Records whose name is not a path refer to files that have a path too, apart from JSON listings.
    entries.retain(|path, _| path.starts_with(b"/") || path.ends_with(JSON_SUFFIX));
    if invalid > 0 {
        defects.push(Defect::Records { count: invalid });
    }
    let paths = entries.keys().filter(|path| path.starts_with(b"/")).count() as u64;
    let (contents, undecoded) =
        contents(&opened, archive, &entries, dictionaries, workers, progress, &mut defects);
    members(image, archive, path, &entries, progress, &mut defects);
    Ok(Verification { paths, contents, undecoded, len: image.archive_len(), defects })
}

/// Checks all checksums.
fn checksums(opened: &OpenedSite, archive: &File, progress: &Progress, defects: &mut Vec<Defect>) {
    let header = opened.header();
    progress.begin(PackStep::Checksums, header.archive_len);
    if !opened.is_body_good() {
        defects.push(Defect::Body);
    }
    let mut rows: &[[u8; CHECKSUM_LEN]] = &[];
    let mut section_count = 0;
    for (SectionRow { kind, hash: expected, .. }, bytes) in opened.image.sections() {
        section_count += 1;
        if hash(bytes) != expected {
            defects.push(Defect::Section { kind });
        }
        if kind == section::CHECKSUMS {
            rows = bytes.as_chunks().0;
        }
    }
    if section_count < header.section_count {
        defects.push(Defect::Body);
    }
    let image_end = opened.image_at + header.len;
    let mut at = 0;
    for row in rows.iter().map(ChecksumRow::decode) {
        let Some(end) = row.at.checked_add(row.len).filter(|&end| end <= header.archive_len) else { break };
        if row.at != at {
            break;
        }
        if checksum(archive, row) != Some(row.hash) {
            defects.push(Defect::Stretch { at: row.at, len: row.len });
        }
        progress.add(row.len);
        at = if end == opened.image_at { image_end } else { end };
    }
    if at != header.archive_len {
        defects.push(Defect::Unchecked { at });
    }
}

fn checksum(archive: &File, row: ChecksumRow) -> Option<u64> {
    let mut out = HashingWriter::new(std::io::sink());
    copy(OffsetReader { file: archive, at: row.at }.take(row.len), &mut out).ok()?;
    (out.len == row.len).then(|| out.hash64())
}

/// Checks that the fields of each response frame its content, and that its HPACK block has the same fields.
fn framing(image: &Image, defects: &mut Vec<Defect>) {
    let (mut checked, mut with_deltas) = (BTreeSet::new(), BTreeSet::new());
    // Fields do not overlap, so their total length is at most that of the image.
    let mut left = image.len();
    let has_hpack = |fields| matches!(image.hpack(fields), Ok(Some(_)));
    for (path, entry) in image.entries() {
        let (is_framed, has_hpack) = match entry {
            Entry::Redirect(to) => {
                left = left.saturating_sub(to.fields().text.len);
                (image.is_redirect_framed(&to) == Ok(true), has_hpack(to.fields()))
            }
            Entry::File(file) => {
                let coded = image.coded_variants(file).map(|(_, variant)| variant);
                let mut variants: Vec<_> = [file.identity].into_iter().chain(coded).collect();
                if with_deltas.insert(file.identity.fields().text.at) {
                    variants.extend(image.all_deltas(file).map(|(.., variant)| variant));
                }
                // Several paths may have the same response.
                variants.retain(|variant| {
                    let (fields, not_modified) = (variant.fields().text, variant.not_modified().text);
                    let lens = (fields.len, not_modified.len, variant.content.len());
                    let is_new = checked.insert((fields.at, lens));
                    left = left.saturating_sub(if is_new { fields.len } else { 0 });
                    is_new
                });
                let are_framed = variants.iter().all(|variant| image.is_framed(variant) == Ok(true));
                (are_framed, variants.iter().all(|variant| has_hpack(variant.fields())))
            }
        };
        if !is_framed {
            defects.push(Defect::Framing { path: path.to_vec() });
        } else if !has_hpack {
            defects.push(Defect::Hpack { path: path.to_vec() });
        }
        if left == 0 {
            return defects.push(Defect::Overlap { path: path.to_vec() });
        }
    }
}

/// Checks each content once, even if it has several paths. Returns the number of contents and variants, and the number of deltas without an
/// available dictionary.
fn contents(
    opened: &OpenedSite,
    archive: &File,
    entries: &BTreeMap<&[u8], Entry>,
    dictionaries: &Dictionaries,
    workers: NonZeroUsize,
    progress: &Progress,
    defects: &mut Vec<Defect>,
) -> (u64, u64) {
    let known = dictionaries.by_hash();
    let mut budget = ContentBudget::new(opened.image.archive_len());
    let mut jobs = Vec::new();
    for (&path, entry) in entries {
        let Entry::File(file) = *entry else { continue };
        // An error page has no entity-tag. Its content is also that of another path.
        if file.rule_status.is_some_and(|status| status != 200) {
            continue;
        }
        match budget.add(&opened.image, file) {
            Ok(true) => jobs.push((path, file)),
            Ok(false) => {}
            Err(OverBudget) => {
                defects.push(Defect::Overlap { path: path.to_vec() });
                break;
            }
        }
    }
    progress.begin(PackStep::Contents, jobs.len() as u64);
    let mut workers = vec![(); workers.get()];
    let checked = run_jobs(&mut workers, &jobs, |(), &(path, file)| {
        let mut checked = FileCheck::default();
        let plain = stored_fingerprint(&opened.image, &file.identity);
        if plain.is_none() || content(opened, archive, &file.identity) != plain {
            checked.defects.push(Defect::Content { path: path.to_vec(), coding: Coding::Identity });
        }
        let mut check = |coding, variant: &Variant, decodes: &mut dyn FnMut(Fingerprint) -> bool| {
            let (path, own) = (path.to_vec(), stored_fingerprint(&opened.image, variant));
            if own.is_none() || content(opened, archive, variant) != own {
                checked.defects.push(Defect::Content { path, coding });
            } else if !plain.is_some_and(decodes) {
                checked.defects.push(Defect::Undecodable { path, coding });
            }
            checked.contents += 1;
        };
        for (coding, variant) in opened.image.coded_variants(file) {
            check(coding, &variant, &mut |plain| {
                decodes_to(coding, reader(opened, archive, &variant), plain)
            });
        }
        let mut undecoded = 0;
        for (hash, coding, variant) in opened.image.all_deltas(file) {
            check(coding, &variant, &mut |plain| {
                let mut coded = reader(opened, archive, &variant);
                match known.get(&hash).and_then(|&number| dictionaries.read(number).ok()) {
                    Some(dictionary) => decodes_with_dictionary(coding, coded, &dictionary, plain),
                    None => {
                        undecoded += 1;
                        names_dictionary(coding, &mut coded, &hash)
                    }
                }
            });
        }
        checked.undecoded = undecoded;
        progress.add(1);
        Ok::<_, Infallible>(checked)
    });
    let Ok(checked) = checked;
    let (mut count, mut undecoded) = (jobs.len() as u64, 0);
    for checked in checked {
        count += checked.contents;
        undecoded += checked.undecoded;
        defects.extend(checked.defects);
    }
    (count, undecoded)
}

/// Finds the distinct contents, and limits their total length.
struct ContentBudget {
    /// Files with all their variants.
    files: BTreeSet<Vec<(ContentRange, Option<Fingerprint>)>>,
    ranges: BTreeSet<ContentRange>,
    /// By content: the number of variants to decode.
    coded_counts: BTreeMap<ContentRange, usize>,
    /// Length of the archive without the contents found so far.
    left: u64,
}

/// The position of a content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ContentRange {
    /// Whether the offset is one of the archive. Otherwise it is one of the image.
    in_archive: bool,
    at: u64,
    len: u64,
}

/// The contents overlap, or a content has too many variants.
struct OverBudget;

impl ContentBudget {
    fn new(archive_len: u64) -> ContentBudget {
        let (files, ranges, coded_counts) = (BTreeSet::new(), BTreeSet::new(), BTreeMap::new());
        ContentBudget { files, ranges, coded_counts, left: archive_len }
    }

    /// Adds a file with its variants. Returns whether it differs from all files before.
    fn add(&mut self, image: &Image, file: Variants) -> Result<bool, OverBudget> {
        let deltas = image.all_deltas(file).map(|(.., variant)| variant);
        let coded = image.coded_variants(file).map(|(_, variant)| variant).chain(deltas);
        let all: Vec<_> = [file.identity]
            .into_iter()
            .chain(coded)
            .map(|variant| (ContentRange::of(variant.content), stored_fingerprint(image, &variant)))
            .collect();
        if self.files.contains(&all) {
            return Ok(false);
        }
        for &(range, _) in &all {
            if self.ranges.insert(range) {
                self.left = self.left.checked_sub(range.len).ok_or(OverBudget)?;
            }
        }
        let coded_count = self.coded_counts.entry(all[0].0).or_default();
        *coded_count += all.len() - 1;
        if *coded_count > CODED_COUNT_MAX {
            return Err(OverBudget);
        }
        self.files.insert(all);
        Ok(true)
    }
}

impl ContentRange {
    fn of(content: Content) -> ContentRange {
        let (in_archive, at, len) = match content {
            Content::Image(place) => (false, place.at, place.len),
            Content::Archive(place) => (true, place.at, place.len),
            // A packed site has no such content.
            Content::File { .. } => (true, 0, 0),
        };
        ContentRange { in_archive, at, len }
    }
}

/// The result of checking one file.
#[derive(Default)]
struct FileCheck {
    defects: Vec<Defect>,
    /// Number of variants.
    contents: u64,
    undecoded: u64,
}

/// Checks that tar programs extract the same contents as the server sends.
fn members(
    image: &Image,
    archive: &File,
    path: &Path,
    entries: &BTreeMap<&[u8], Entry>,
    progress: &Progress,
    defects: &mut Vec<Defect>,
) {
    let walk = match archive::list(archive, path, Path::new("")) {
        Ok((walk, _)) => walk,
        Err(error) => return defects.push(Defect::Tar(error.to_string())),
    };
    // A page may have another name as a member. The list of members leaves out names that are not UTF-8.
    let mut missing: BTreeSet<_> = entries
        .iter()
        .filter(|(_, entry)| matches!(entry, Entry::File(file) if file.rule_status.is_none()))
        .filter(|(path, _)| std::str::from_utf8(path).is_ok())
        // Listings are no members.
        .filter(|(path, _)| path.starts_with(b"/") && image.listing_json(path) == Ok(None))
        .map(|(&path, _)| path)
        .collect();
    progress.begin(PackStep::Members, walk.files.iter().map(|found| found.location.content.len).sum());
    // By offset, since a member may have many links.
    let mut read = BTreeMap::new();
    for found in walk.files.iter().filter(|found| !is_hidden(&found.path)) {
        let stretch = found.location.content;
        let member = *read.entry(stretch.at).or_insert_with(|| {
            fingerprint_of(OffsetReader { file: archive, at: stretch.at }.take(stretch.len), u64::MAX).ok()
        });
        progress.add(stretch.len);
        let mut scratch = [0; PATH_LEN_MAX];
        let served = match entries.get(&found.path[..]) {
            Some(Entry::File(file)) => stored_fingerprint(image, &file.identity),
            // A member whose page has another address, to which this path redirects.
            Some(Entry::Redirect(to)) => match entries.get(target(image, to, &mut scratch)) {
                Some(Entry::File(file)) => stored_fingerprint(image, &file.identity),
                _ => None,
            },
            None => None,
        };
        for suffix in [&b""[..], b".html", b"index.html", b"/index.html"] {
            let Some(address) = found.path.strip_suffix(suffix) else { continue };
            missing.remove(address);
            missing.remove(&[address, b"/"].concat()[..]);
        }
        if served.is_none() || member != served {
            defects.push(Defect::Member { path: found.path.clone() });
        }
    }
    defects.extend(missing.into_iter().map(|path| Defect::Member { path: path.to_vec() }));
}

/// Returns the path that a redirect leads to.
fn target<'s>(image: &'s Image, to: &Redirect, scratch: &'s mut [u8; PATH_LEN_MAX]) -> &'s [u8] {
    let uri = image.bytes(to.before_query()).strip_prefix(b"Location: ").unwrap_or_default();
    let path = normalize(uri, scratch).unwrap_or_default();
    path.strip_prefix(image.base()).unwrap_or_default()
}

/// Computes the fingerprint of a content.
fn content(opened: &OpenedSite, archive: &File, variant: &Variant) -> Option<Fingerprint> {
    fingerprint_of(reader(opened, archive, variant), variant.content.len()).ok()
}

fn reader<'a>(opened: &'a OpenedSite, archive: &'a File, variant: &Variant) -> Box<dyn Read + 'a> {
    match variant.content {
        Content::Image(place) => Box::new(opened.image.bytes(place)),
        Content::Archive(place) => Box::new(OffsetReader { file: archive, at: place.at }.take(place.len)),
        // A packed site has no such content. In a forged image it counts as empty.
        Content::File { .. } => Box::new(std::io::empty()),
    }
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Defect::Body => {
                f.write_str("the records, response headers or small contents of the image are damaged")
            }
            Defect::Section { kind } => write!(f, "section {kind} of the image is damaged"),
            Defect::Records { count } => {
                write!(f, "{count} paths are unreachable: their records are invalid")
            }
            Defect::Stretch { at, len } => write!(f, "bytes {at} to {} are damaged", at + len),
            Defect::Unchecked { at } => write!(f, "the bytes from {at} on have no checksum"),
            Defect::Content { path, coding } => {
                write!(f, "{} ({}): the content is damaged", path.printable(), coding.name())
            }
            Defect::Framing { path } => {
                write!(
                    f,
                    "{}: its response headers do not match its content, so it is not sent",
                    path.printable()
                )
            }
            Defect::Hpack { path } => {
                write!(
                    f,
                    "{}: its response headers for HTTP/2 differ from those for HTTP/1",
                    path.printable()
                )
            }
            Defect::Undecodable { path, coding } => {
                write!(f, "{} ({}): does not decompress to its file", path.printable(), coding.name())
            }
            Defect::Overlap { path } => write!(
                f,
                "{}: its content or headers overlap others, or it has too many variants; the rest was not checked",
                path.printable()
            ),
            Defect::Tar(error) => f.write_str(error),
            Defect::Member { path } => {
                write!(f, "{}: the server sends another content than tar extracts", path.printable())
            }
        }
    }
}

/// The largest number of variants of a content that are decoded. No real site has so many files with the same content and different
/// variants.
const CODED_COUNT_MAX: usize = 10_000;
