//! Checks a packed site: every checksum, every variant against its file, every member against what is served.
//!
//! ```text
//! image ─┬─ header, tables ─ checked when it is opened
//!        ├─ records, fields, small contents ─ one checksum
//!        └─ sections ─ one each ─ stretches ─▶ all the rest of the archive
//! each entry ─ content against its tag ─ variant decodes to it ─ member has the same
//! ```
//!
//! Goes on after damage, to find all of it. Whatever an archive says, the work is bounded by its length: a content is read
//! once, contents do not lie over one another, and of each no more is decoded than its file has, and not without end.

use super::decode::{Print, decodes_to, decodes_with, names, print_of};
use super::dictionaries::Dictionaries;
use super::error::OpenError;
use super::open::{Opened, print};
use super::work::each;
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
use tarpon_site::format::{STRETCH_LEN, SectionRow, StretchRow, hash, section};
use tarpon_site::{Coding, Content, Entry, Image, JSON, Redirect, Variant, Variants};

/// What a check looked at, and what is wrong.
#[derive(Debug)]
pub struct Verified {
    /// Paths.
    pub paths: u64,
    /// Contents, in all their codings.
    pub contents: u64,
    /// Of them, those for clients with a dictionary that was not at hand: not decoded.
    pub undecoded: u64,
    /// Bytes of the archive.
    pub len: u64,
    /// In the order of where they are looked for.
    pub damage: Vec<Finding>,
}

/// Something that is not as it was packed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The records, fields or small contents of the image differ from their checksum.
    Body,
    /// A section of the image differs from its checksum.
    Section {
        /// Its kind.
        kind: u32,
    },
    /// Records that cannot be found or make no sense.
    Records {
        /// How many.
        count: u64,
    },
    /// Bytes around the image differ from their checksum.
    Stretch {
        /// Where they begin, in bytes.
        at: u64,
        /// How many.
        len: u64,
    },
    /// From here on there is no checksum.
    Unchecked {
        /// In bytes.
        at: u64,
    },
    /// A content differs from its entity-tag.
    Content {
        /// The path it is served at.
        path: Vec<u8>,
        /// In which coding.
        coding: Coding,
    },
    /// Fields do not frame their response, so it is not sent.
    Framing {
        /// The path it is served at, or the name of the record.
        path: Vec<u8>,
    },
    /// A coded variant does not decode to its file.
    Coded {
        /// The path it is served at.
        path: Vec<u8>,
        /// Its coding.
        coding: Coding,
    },
    /// Contents or fields lie over one another, or a content has more variants than any site: from here on they were not checked.
    Crowded {
        /// The path it is served at.
        path: Vec<u8>,
    },
    /// The archive cannot be read as one.
    Tar(String),
    /// What a tar program extracts is not what is served.
    Member {
        /// The path.
        path: Vec<u8>,
    },
}

/// Checks a packed site, whose name is `path`. What is coded with a dictionary is decoded if that is among `dictionaries`.
///
/// # Errors
/// It cannot be read, is no packed site, or its image is so damaged that nothing could be served.
pub fn verify(
    archive: &File,
    path: &Path,
    dictionaries: &Dictionaries,
    workers: NonZeroUsize,
) -> Result<Verified, OpenError> {
    let opened = Opened::new(archive)?;
    let image = &opened.image;
    let mut damage = Vec::new();
    sums(&opened, archive, &mut damage);
    framing(image, &mut damage);
    let mut entries: BTreeMap<_, _> = image.entries().collect();
    let lost = image.record_count().saturating_sub(entries.len() as u64);
    // What answers for what is missing is there by its own name too; a list as JSON is not.
    entries.retain(|path, _| path.starts_with(b"/") || path.ends_with(JSON));
    if lost > 0 {
        damage.push(Finding::Records { count: lost });
    }
    let paths = entries.keys().filter(|path| path.starts_with(b"/")).count() as u64;
    let (contents, undecoded) = contents(&opened, archive, &entries, dictionaries, workers, &mut damage);
    members(image, archive, path, &entries, &mut damage);
    Ok(Verified { paths, contents, undecoded, len: image.archive_len(), damage })
}

/// Checks all sums that are about bytes, whatever these mean.
fn sums(opened: &Opened, archive: &File, damage: &mut Vec<Finding>) {
    let header = opened.header();
    if !opened.is_body_good() {
        damage.push(Finding::Body);
    }
    let mut rows: &[[u8; STRETCH_LEN]] = &[];
    let mut section_count = 0;
    for (SectionRow { kind, hash: sum, .. }, bytes) in opened.image.sections() {
        section_count += 1;
        if hash(bytes) != sum {
            damage.push(Finding::Section { kind });
        }
        if kind == section::STRETCHES {
            rows = bytes.as_chunks().0;
        }
    }
    if section_count < header.section_count {
        damage.push(Finding::Body);
    }
    let image_end = opened.image_at + header.len;
    let mut at = 0;
    for row in rows.iter().map(StretchRow::decode) {
        let Some(end) = row.at.checked_add(row.len).filter(|&end| end <= header.archive_len) else { break };
        if row.at != at {
            break;
        }
        if sum(archive, row) != Some(row.hash) {
            damage.push(Finding::Stretch { at: row.at, len: row.len });
        }
        at = if end == opened.image_at { image_end } else { end };
    }
    if at != header.archive_len {
        damage.push(Finding::Unchecked { at });
    }
}

fn sum(archive: &File, row: StretchRow) -> Option<u64> {
    let mut bytes = OffsetReader { file: archive, at: row.at }.take(row.len);
    let mut hasher = xxhash_rust::xxh3::Xxh3::new();
    let mut block = vec![0; BLOCK_LEN];
    let mut len = 0;
    while let count @ 1.. = bytes.read(&mut block).ok()? {
        hasher.update(&block[..count]);
        len += count as u64;
    }
    (len == row.len).then(|| hasher.digest())
}

/// Checks that the fields of each response frame it.
fn framing(image: &Image, damage: &mut Vec<Finding>) {
    let (mut checked, mut with_deltas) = (BTreeSet::new(), BTreeSet::new());
    // Fields do not lie over one another, so all of them together are not longer than the image.
    let mut left = image.len();
    for (path, entry) in image.entries() {
        let is_framed = match entry {
            Entry::Redirect(to) => {
                left = left.saturating_sub(to.before_query.len + to.after_query.len);
                image.is_redirect_framed(&to)
            }
            Entry::File(file) => {
                let coded = image.coded(file).map(|(_, variant)| variant);
                let mut variants: Vec<_> = [file.identity].into_iter().chain(coded).collect();
                if with_deltas.insert(file.identity.not_modified.at) {
                    variants.extend(image.all_deltas(file).map(|(.., variant)| variant));
                }
                // Other paths may lead to the same response.
                variants.retain(|Variant { fields, not_modified, content, .. }| {
                    let lens = (fields.len, not_modified.len, content.len());
                    let is_new = checked.insert((fields.at, not_modified.at, lens));
                    left = left.saturating_sub(if is_new { fields.len + not_modified.len } else { 0 });
                    is_new
                });
                variants.iter().all(|variant| image.is_framed(variant))
            }
        };
        if !is_framed {
            damage.push(Finding::Framing { path: path.to_vec() });
        }
        if left == 0 {
            return damage.push(Finding::Crowded { path: path.to_vec() });
        }
    }
}

/// Checks what is served: each content once, however many paths lead to it. Returns how many there are, and how many of them
/// could not be decoded for want of a dictionary.
fn contents(
    opened: &Opened,
    archive: &File,
    entries: &BTreeMap<&[u8], Entry>,
    dictionaries: &Dictionaries,
    workers: NonZeroUsize,
    damage: &mut Vec<Finding>,
) -> (u64, u64) {
    let known = dictionaries.by_digest();
    let mut room = Room::new(opened.image.archive_len());
    let mut jobs = Vec::new();
    for (&path, entry) in entries {
        let Entry::File(file) = *entry else { continue };
        // What stands for an error has no tag. It is the content of another path.
        if file.ruled.is_some_and(|status| status != 200) {
            continue;
        }
        match room.take(&opened.image, file) {
            Ok(true) => jobs.push((path, file)),
            Ok(false) => {}
            Err(Crowded) => {
                damage.push(Finding::Crowded { path: path.to_vec() });
                break;
            }
        }
    }
    let mut workers = vec![(); workers.get()];
    let checked = each(&mut workers, &jobs, |(), &(path, file)| {
        let mut checked = Checked::default();
        let plain = print(&opened.image, &file.identity);
        if plain.is_none() || content(opened, archive, &file.identity) != plain {
            checked.damage.push(Finding::Content { path: path.to_vec(), coding: Coding::Identity });
        }
        let mut check = |coding, variant: &Variant, decodes: &mut dyn FnMut(Print) -> bool| {
            let (path, own) = (path.to_vec(), print(&opened.image, variant));
            if own.is_none() || content(opened, archive, variant) != own {
                checked.damage.push(Finding::Content { path, coding });
            } else if !plain.is_some_and(decodes) {
                checked.damage.push(Finding::Coded { path, coding });
            }
            checked.contents += 1;
        };
        for (coding, variant) in opened.image.coded(file) {
            check(coding, &variant, &mut |plain| {
                decodes_to(coding, reader(opened, archive, &variant), plain)
            });
        }
        let mut undecoded = 0;
        for (digest, coding, variant) in opened.image.all_deltas(file) {
            check(coding, &variant, &mut |plain| {
                let mut coded = reader(opened, archive, &variant);
                match known.get(&digest).and_then(|&number| dictionaries.read(number).ok()) {
                    Some(dictionary) => decodes_with(coding, coded, &dictionary, plain),
                    None => {
                        undecoded += 1;
                        names(coding, &mut coded, &digest)
                    }
                }
            });
        }
        checked.undecoded = undecoded;
        Ok::<_, Infallible>(checked)
    });
    let Ok(checked) = checked;
    let (mut count, mut undecoded) = (jobs.len() as u64, 0);
    for checked in checked {
        count += checked.contents;
        undecoded += checked.undecoded;
        damage.extend(checked.damage);
    }
    (count, undecoded)
}

/// Which contents there are, and whether they are as many as there can be.
struct Room {
    /// Files with all their variants.
    files: BTreeSet<Vec<(Lies, Option<Print>)>>,
    places: BTreeSet<Lies>,
    /// Of each content, how many variants are decoded to be compared with it.
    coded_counts: BTreeMap<Lies, usize>,
    /// Bytes of the archive that are in no content yet.
    left: u64,
}

/// Whether in the archive and not in its image, where, and how many bytes.
type Lies = (bool, u64, u64);

struct Crowded;

impl Room {
    fn new(archive_len: u64) -> Room {
        let (files, places, coded_counts) = (BTreeSet::new(), BTreeSet::new(), BTreeMap::new());
        Room { files, places, coded_counts, left: archive_len }
    }

    /// Whether a file, with its variants, is another one than those before.
    fn take(&mut self, image: &Image, file: Variants) -> Result<bool, Crowded> {
        let deltas = image.all_deltas(file).map(|(.., variant)| variant);
        let coded = image.coded(file).map(|(_, variant)| variant).chain(deltas);
        let all: Vec<_> = [file.identity]
            .into_iter()
            .chain(coded)
            .map(|variant| {
                let lies = match variant.content {
                    Content::Image(place) => (false, place.at, place.len),
                    Content::Archive(place) => (true, place.at, place.len),
                    // There is none.
                    Content::File { .. } => (true, 0, 0),
                };
                (lies, print(image, &variant))
            })
            .collect();
        if self.files.contains(&all) {
            return Ok(false);
        }
        for &(lies, _) in &all {
            if self.places.insert(lies) {
                self.left = self.left.checked_sub(lies.2).ok_or(Crowded)?;
            }
        }
        let coded_count = self.coded_counts.entry(all[0].0).or_default();
        *coded_count += all.len() - 1;
        if *coded_count > CODED_COUNT_MAX {
            return Err(Crowded);
        }
        self.files.insert(all);
        Ok(true)
    }
}

/// What a check of one file has shown.
#[derive(Default)]
struct Checked {
    damage: Vec<Finding>,
    /// Coded ones.
    contents: u64,
    undecoded: u64,
}

/// Checks that the files a tar program extracts are those that are served.
fn members(
    image: &Image,
    archive: &File,
    path: &Path,
    entries: &BTreeMap<&[u8], Entry>,
    damage: &mut Vec<Finding>,
) {
    let walk = match archive::list(archive, path, Path::new("")) {
        Ok((walk, _)) => walk,
        Err(error) => return damage.push(Finding::Tar(error.to_string())),
    };
    // A page may be a member by another name. A name that is no text is one that a plain archive is not served with, so it
    // is not listed.
    let mut missing: BTreeSet<_> = entries
        .iter()
        .filter(|(_, entry)| matches!(entry, Entry::File(file) if file.ruled.is_none()))
        .filter(|(path, _)| std::str::from_utf8(path).is_ok())
        // A list is nobody's file.
        .filter(|(path, _)| path.starts_with(b"/") && image.listing_json(path).is_none())
        .map(|(&path, _)| path)
        .collect();
    // Many links may lead to one member.
    let mut read = BTreeMap::new();
    for found in walk.files.iter().filter(|found| !is_hidden(&found.path)) {
        let stretch = found.location.content;
        let member = *read.entry(stretch.at).or_insert_with(|| {
            print_of(OffsetReader { file: archive, at: stretch.at }.take(stretch.len), u64::MAX).ok()
        });
        let mut scratch = [0; PATH_LEN_MAX];
        let served = match entries.get(&found.path[..]) {
            Some(Entry::File(file)) => print(image, &file.identity),
            // The name of a page, which has an address without it.
            Some(Entry::Redirect(to)) => match entries.get(target(image, to, &mut scratch)) {
                Some(Entry::File(file)) => print(image, &file.identity),
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
            damage.push(Finding::Member { path: found.path.clone() });
        }
    }
    damage.extend(missing.into_iter().map(|path| Finding::Member { path: path.to_vec() }));
}

/// The path that a redirect leads to.
fn target<'s>(image: &'s Image, to: &Redirect, scratch: &'s mut [u8; PATH_LEN_MAX]) -> &'s [u8] {
    let uri = image.bytes(to.before_query).strip_prefix(b"Location: ").unwrap_or_default();
    normalize(uri, scratch).unwrap_or_default()
}

/// What a content is.
fn content(opened: &Opened, archive: &File, variant: &Variant) -> Option<Print> {
    print_of(reader(opened, archive, variant), variant.content.len()).ok()
}

fn reader<'a>(opened: &'a Opened, archive: &'a File, variant: &Variant) -> Box<dyn Read + 'a> {
    match variant.content {
        Content::Image(place) => Box::new(opened.image.bytes(place)),
        Content::Archive(place) => Box::new(OffsetReader { file: archive, at: place.at }.take(place.len)),
        // A packed site has none, and an image that says so has nothing there.
        Content::File { .. } => Box::new(std::io::empty()),
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Body => {
                f.write_str("the records, response headers or small contents of the image are damaged")
            }
            Finding::Section { kind } => write!(f, "section {kind} of the image is damaged"),
            Finding::Records { count } => write!(f, "{count} paths are lost: their records make no sense"),
            Finding::Stretch { at, len } => write!(f, "bytes {at} to {} are damaged", at + len),
            Finding::Unchecked { at } => write!(f, "from byte {at} on there is no checksum"),
            Finding::Content { path, coding } => {
                write!(f, "{} ({}): the content is damaged", path.printable(), coding.name())
            }
            Finding::Framing { path } => {
                write!(f, "{}: its fields do not frame its content; it is not sent", path.printable())
            }
            Finding::Coded { path, coding } => {
                write!(f, "{} ({}): does not decompress to its file", path.printable(), coding.name())
            }
            Finding::Crowded { path } => write!(
                f,
                "{}: its content or fields lie over others, or have too many variants; from here on they were not checked",
                path.printable()
            ),
            Finding::Tar(error) => f.write_str(error),
            Finding::Member { path } => {
                write!(f, "{}: what is served is not what a tar program extracts", path.printable())
            }
        }
    }
}

/// Variants of one content that are decoded: as many files as have the same content, with variants of their own beside them, and
/// of as many earlier releases, are no site.
const CODED_COUNT_MAX: usize = 10_000;
/// Bytes read at once.
const BLOCK_LEN: usize = 64 << 10;
