//! The compressed variants of a site that is served from a directory, kept from one image to the next: a change costs only what has changed.
//!
//! ```text
//! the last image ──── known ─┐
//! compressed since ─── made ─┴─▶ add_to: each content with its variants ─▶ the next image ─▶ follow: it becomes the last
//!        ▲                           └─ a variant is missing ─▶ CompressionJob ─┐
//!        └──────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! The last image is the memory that is served, so keeping its variants costs nothing. A variant is found by the hash of its content: a
//! file that moves, or that another directory has too, keeps its variants.

use crate::background::{CompressionJob, JobSource, MadeVariant};
use crate::content::{ContentPlace, FileContent, OffsetReader};
use crate::opened::{CODINGS, codings::SUFFIXES, fingerprint::Fingerprint, open::stored_fingerprint};
use crate::options::BackgroundCompression;
use crate::site_writer::PlacedFile;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Read;
use tarpon_site::format::Storage;
use tarpon_site::{Coding, Content, Entry, Image, Region};

/// The compressed variants of contents. Keep it from one pack of a site to the next.
#[derive(Debug, Default)]
pub struct VariantCache {
    /// The last image.
    image: Option<File>,
    /// The places of variants in the last image, by content and by [`CODINGS`].
    known: HashMap<Fingerprint, [Option<Region>; 3]>,
    /// The variants that were compressed since.
    made: HashMap<VariantKey, Vec<u8>>,
    /// The variants that the site does without.
    left_out: HashMap<VariantKey, LeftOut>,
    /// What the current pack needs.
    pack: CurrentPack,
}

/// A content, and the number of a coding in [`CODINGS`].
pub(crate) type VariantKey = (Fingerprint, usize);

/// Why a site does without a variant.
#[derive(Debug)]
struct LeftOut {
    /// Others save more, and there is no room for all.
    has_no_room: bool,
    /// Whether the current pack has its content.
    is_used: bool,
}

/// What one pack notes.
#[derive(Debug, Default)]
struct CurrentPack {
    options: Option<BackgroundCompression>,
    /// The variants that the new image has already, apart from their fields: another file with the same content uses them.
    placed: HashMap<VariantKey, FileContent>,
    jobs: Vec<CompressionJob>,
    /// How many more jobs may hold a file open.
    job_files_left: usize,
    /// Whether contents wait for the next pack, as too many jobs hold files open.
    has_more: bool,
    /// The contents that have a job.
    asked: HashSet<Fingerprint>,
    saved: CompressedFiles,
}

/// The files of a site that have compressed variants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompressedFiles {
    /// Number of files.
    pub files: u64,
    /// Bytes of their contents.
    pub plain: u64,
    /// Bytes of the smallest variant of each.
    pub coded: u64,
}

impl VariantCache {
    /// Returns a cache with the variants of an image, which `file` holds from its start.
    pub fn of_image(file: File, image: &Image) -> VariantCache {
        let mut cache = VariantCache::default();
        cache.follow(file, image);
        cache
    }

    /// Begins a pack, whose jobs hold at most this many files open.
    pub(crate) fn begin(&mut self, options: Option<BackgroundCompression>, job_files_max: usize) {
        self.pack = CurrentPack { options, job_files_left: job_files_max, ..CurrentPack::default() };
        self.left_out.values_mut().for_each(|left_out| left_out.is_used = false);
    }

    /// Adds the known variants to a content, in each coding that it does not have. The first of `contents` is not coded.
    pub(crate) fn add_to(&mut self, contents: &mut Vec<(Coding, FileContent)>) {
        let Some((_, plain)) = contents.first().filter(|_| self.pack.options.is_some()) else { return };
        let (fingerprint, last_modified) = (fingerprint_of(plain), plain.last_modified);
        let mut smallest = None;
        for (number, coding) in CODINGS.into_iter().enumerate() {
            if contents.iter().any(|(known, _)| *known == coding) {
                continue;
            }
            if let Some(variant) = self.get((fingerprint, number)) {
                smallest = Some(smallest.unwrap_or(u64::MAX).min(variant.len));
                contents.push((coding, FileContent { last_modified, ..variant }));
            }
        }
        if let Some(coded) = smallest {
            let saved = &mut self.pack.saved;
            saved.files += 1;
            saved.plain += fingerprint.len;
            saved.coded += coded;
        }
    }

    /// Notes the places of variants, and adds a job for those that are missing.
    pub(crate) fn written(&mut self, file: &PlacedFile, open_files: &[File]) {
        let PlacedFile { contents, plain_at } = file;
        let (Some(options), Some((_, plain))) = (self.pack.options, contents.first()) else { return };
        let fingerprint = fingerprint_of(plain);
        for (coding, content) in &contents[1..] {
            let number = CODINGS.into_iter().position(|known| known == *coding);
            if let (Some(number), ContentPlace::Placed(home, at)) = (number, &content.source) {
                self.pack.placed.insert((fingerprint, number), content.at(*home, *at));
            }
        }
        let is_missing = |coding| !contents.iter().any(|(known, _)| *known == coding);
        let mut codings = CODINGS.map(is_missing);
        for (number, is_missing) in codings.iter_mut().enumerate() {
            if let Some(left_out) = self.left_out.get_mut(&(fingerprint, number)) {
                (left_out.is_used, *is_missing) = (true, false);
            }
        }
        let is_wanted = fingerprint.len > 0 && fingerprint.len <= options.content_len_max();
        if !is_wanted || !codings.contains(&true) || !self.pack.asked.insert(fingerprint) {
            return;
        }
        let source = match *plain_at {
            (Storage::Image, at) => JobSource::Image(at),
            (Storage::Archive, at) => JobSource::Archive(at),
            (Storage::File, _) if self.pack.job_files_left == 0 => {
                self.pack.has_more = true;
                return;
            }
            (Storage::File, number) => {
                self.pack.job_files_left -= 1;
                // Without a descriptor the file is served uncompressed.
                let file = open_files.get(number as usize).and_then(|file| file.try_clone().ok());
                let Some(file) = file else { return };
                JobSource::File(file)
            }
        };
        self.pack.jobs.push(CompressionJob { content: fingerprint, source, codings });
    }

    /// Returns which files of the last pack have variants of this cache.
    pub fn saved(&self) -> CompressedFiles {
        self.pack.saved
    }

    /// Returns whether contents of the last pack have no job yet: the next pack adds jobs for them, once those of the last one are done.
    pub fn has_more_jobs(&self) -> bool {
        self.pack.has_more
    }

    /// Takes the jobs of the last pack: the contents that lack variants, the longest first, since they gain most.
    pub fn take_jobs(&mut self) -> Vec<CompressionJob> {
        let mut jobs = std::mem::take(&mut self.pack.jobs);
        jobs.sort_by_key(|job| std::cmp::Reverse(job.content.len));
        jobs
    }

    /// Adds variants that were compressed since the last pack. If there is no room for all, those that save most are kept.
    pub fn insert(&mut self, made: Vec<MadeVariant>, memory_max: u64) {
        for MadeVariant { key, coded } in made {
            match coded {
                Some(coded) => drop(self.made.insert(key, coded)),
                None => drop(self.left_out.insert(key, LeftOut { has_no_room: false, is_used: true })),
            }
        }
        let known = self.known.iter().flat_map(|(content, places)| {
            let places = places.iter().enumerate();
            places.filter_map(|(number, place)| Some(((*content, number), place.as_ref()?.len)))
        });
        let made = self.made.iter().map(|(key, coded)| (*key, coded.len() as u64));
        let mut all: Vec<_> = known.chain(made).collect();
        let mut len: u64 = all.iter().map(|(_, len)| len).sum();
        if len <= memory_max {
            return;
        }
        all.sort_by_key(|((content, number), len)| (content.len - content.len.min(*len), *content, *number));
        for (key, coded_len) in all {
            if len <= memory_max {
                break;
            }
            len -= coded_len;
            self.made.remove(&key);
            if let Some(places) = self.known.get_mut(&key.0) {
                places[key.1] = None;
            }
            self.left_out.insert(key, LeftOut { has_no_room: true, is_used: true });
        }
    }

    /// Keeps the variants of a new image, and no others: their contents no longer exist. `file` holds the image from its start.
    pub fn follow(&mut self, file: File, image: &Image) {
        let len_before = self.len();
        self.known.clear();
        self.made.clear();
        self.pack.placed.clear();
        // Precompressed files are the work of their author: a variant goes with its file.
        let precompressed: HashSet<_> =
            image.entries().filter_map(|(path, entry)| precompressed(image, path, &entry)).collect();
        for (_, entry) in image.entries() {
            let Entry::File(variants) = entry else { continue };
            let Some(fingerprint) = stored_fingerprint(image, &variants.identity) else { continue };
            for (coding, variant) in image.coded_variants(variants) {
                let number = CODINGS.into_iter().position(|known| known == coding);
                if let (Some(number), Content::Image(place)) = (number, variant.content)
                    && !precompressed.contains(image.bytes(variant.etag))
                {
                    self.known.entry(fingerprint).or_default()[number] = Some(place);
                }
            }
        }
        self.image = Some(file);
        let has_more_room = self.len() < len_before;
        self.left_out.retain(|_, left_out| left_out.is_used && !(has_more_room && left_out.has_no_room));
    }

    /// Returns the length of all variants of the last image, in bytes.
    fn len(&self) -> u64 {
        self.known.values().flatten().flatten().map(|place| place.len).sum()
    }

    /// Returns a variant. `None`: not known.
    fn get(&mut self, key: VariantKey) -> Option<FileContent> {
        if let Some(placed) = self.pack.placed.get(&key) {
            let ContentPlace::Placed(home, at) = placed.source else { return None };
            return Some(placed.at(home, at));
        }
        if let Some(coded) = self.made.get(&key) {
            return Some(FileContent::of(coded.clone()));
        }
        let (place, file) = (self.known.get(&key.0)?[key.1]?, self.image.as_ref()?);
        let mut coded = Vec::with_capacity(place.len as usize);
        OffsetReader { file, at: place.at }.take(place.len).read_to_end(&mut coded).ok()?;
        (coded.len() as u64 == place.len).then(|| FileContent::of(coded))
    }
}

/// Returns the entity-tag of a file whose name is that of a precompressed file.
fn precompressed<'i>(image: &'i Image, path: &[u8], entry: &Entry) -> Option<&'i [u8]> {
    let is_named_so = SUFFIXES.iter().any(|suffix| path.ends_with(suffix.as_bytes()));
    match entry {
        Entry::File(file) if is_named_so => Some(image.bytes(file.identity.etag)),
        _ => None,
    }
}

fn fingerprint_of(content: &FileContent) -> Fingerprint {
    Fingerprint { len: content.len, hash: content.hash }
}
