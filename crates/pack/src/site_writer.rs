//! Writes every file of a site to the image, with its variants, its redirects and its listing.

use crate::address::PageAddress;
use crate::cache_control;
use crate::content::{ContentPlace, FileContent};
use crate::error::PackError;
use crate::fields::{self, Representation, Varies};
use crate::listing::{self, ListedFile, Listing};
use crate::media::content_type;
use crate::options::PackOptions;
use crate::precompressed::{Precompressed, PrecompressedFiles};
use crate::rule_records::RuleRecords;
use crate::rules::RuleSet;
use crate::skip::{SkipReason, Skipped, skip_path};
use crate::url_path::file_name;
use crate::variant_cache::VariantCache;
use crate::walk::SiteFile;
use crate::write::{FileRecord, ImageDelta, ImageVariant, ImageWriter};
use crate::{PackedImage, Summary, address::PageAddresses};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{ErrorKind, Seek, Write};
use tarpon_site::format::{PATH_LEN_MAX, Storage};
use tarpon_site::{Coding, JSON_SUFFIX};
use xxhash_rust::xxh3::Xxh3;

/// The files of a site and of its users.
pub(crate) struct SiteContents<F> {
    /// The files of the site, and then those of users.
    pub(crate) files: Vec<SiteFile<F>>,
    /// The number of files of the site itself.
    pub(crate) site_count: usize,
    pub(crate) skipped: Vec<Skipped>,
    /// The paths of directories and links that cannot be read.
    pub(crate) unreadable: Vec<Vec<u8>>,
    pub(crate) archive_len: u64,
}

/// Writes the image of a site, with those compressed variants that `variants` knows. `read` reads a file, and returns `None` if it no longer
/// exists.
pub(crate) fn write_site<F, W: Write + Seek>(
    SiteContents { files, site_count, mut skipped, unreadable, archive_len }: SiteContents<F>,
    rules: &RuleSet,
    out: &mut W,
    options: &PackOptions,
    compressed: &mut VariantCache,
    mut read: impl FnMut(&F) -> Result<Option<FileContent>, PackError>,
) -> Result<PackedImage, PackError> {
    let mut precompressed = PrecompressedFiles::of(&files);
    let addresses = PageAddresses::new(files.iter().map(|file| &file.path[..]), &options.policy)?;
    addresses.report_skipped(&mut skipped);
    let mut rule_records = RuleRecords::new(rules, &addresses)?;
    let mut writer = ImageWriter::new(out)?;
    let mut open_files = Vec::new();
    let mut summary = Summary::default();
    let mut listed = Vec::new();
    let mut id = ContentId::new(rules, options);
    compressed.begin(options.compression, options.file_count_max / JOB_FILES_PART);
    let mut large_count = 0;
    for (number, SiteFile { path, location }) in files.iter().enumerate() {
        if precompressed.is_variant(number) {
            continue;
        }
        let is_of_user = number >= site_count;
        let content = read(location);
        let unreadable = content.as_ref().err().and_then(status_if_unreadable);
        if let Some(status) = unreadable.filter(|_| !options.is_strict && !is_of_user) {
            skip_path(&mut skipped, SkipReason::Unreadable, path);
            id.add(path, u128::from(status), 0);
            write_error(&mut writer, &rule_records, path, status)?;
            continue;
        }
        let mut unread = 0;
        let mut or_none = |content: Result<Option<FileContent>, PackError>| match content {
            Err(error) if is_of_user && status_if_unreadable(&error).is_some() => {
                unread += 1;
                Ok(None)
            }
            // An unreadable variant is read once more, at its own path.
            Err(error) if !options.is_strict && status_if_unreadable(&error).is_some() => Ok(None),
            content => content,
        };
        let content = or_none(content)?;
        let variants = match &content {
            Some(content) => precompressed.take(number, content, &mut skipped, |file| or_none(read(file)))?,
            None => Vec::new(),
        };
        for _ in 0..unread {
            skip_path(&mut skipped, SkipReason::UserUnreadable, path);
        }
        let Some(content) = content else { continue };
        let all =
            || variants.iter().map(|variant| (variant.path, &variant.content)).chain([(&path[..], &content)]);
        let more = all().filter(|(_, content)| matches!(content.source, ContentPlace::OnDisk(_))).count();
        if is_of_user && large_count + more > options.file_count_max {
            skip_path(&mut skipped, SkipReason::UserLarge, path);
            continue;
        }
        large_count += more;
        for (path, content) in all() {
            id.add(path, content.hash, content.last_modified);
            listed.push(ListedFile { path, len: content.len, modified_s: content.last_modified, is_of_user });
            summary.files += 1;
            summary.bytes += content.len;
            let cache = cache_control::of_file(path, &options.policy.immutable);
            summary.immutable += u64::from(cache == cache_control::IMMUTABLE);
        }
        if large_count > options.file_count_max {
            // There will be no image; the loop goes on to count the large files for the error.
            continue;
        }
        let file = SourceFile { path, content, precompressed: variants };
        write_file(&mut writer, &mut rule_records, file, compressed, &mut open_files)?;
    }
    if large_count > options.file_count_max {
        return Err(PackError::FileCount { count: large_count, max: options.file_count_max });
    }
    for path in unreadable {
        id.add(&path, u128::from(UNREADABLE_STATUS), 0);
        write_missing_error(&mut writer, &rule_records, &path, UNREADABLE_STATUS)?;
    }
    for Listing { dir, html, json, modified_s } in listing::listings(listed, &addresses) {
        let mut content = |text: String| {
            let text = FileContent { last_modified: modified_s, ..FileContent::of(text) };
            let mut contents = vec![(Coding::Identity, text)];
            compressed.add_to(&mut contents);
            contents
        };
        let (html, json) = (content(html), content(json));
        for written in write_listing(&mut writer, &mut rule_records, &dir, html, json)? {
            compressed.written(&written, &open_files);
        }
    }
    let sections = rule_records.finish(&mut writer)?;
    writer.finish(open_files.len() as u64, archive_len, &sections)?;
    Ok(PackedImage { files: open_files, summary, skipped, omitted: Vec::new(), content_id: id.finish() })
}

/// The part of the files that may stay open which jobs of one pack may hold open besides, while the next pack opens its own.
const JOB_FILES_PART: usize = 4;

/// A hash of what a site consists of, apart from compressed variants.
struct ContentId(Xxh3);

impl ContentId {
    fn new(rules: &RuleSet, options: &PackOptions) -> ContentId {
        let mut id = ContentId(Xxh3::new());
        id.0.update(format!("{rules:?} {:?} {:?}", options.dialect, options.policy).as_bytes());
        id
    }

    /// Adds a file, or the status that answers in its place.
    fn add(&mut self, path: &[u8], content: u128, last_modified: u64) {
        self.0.update(&(path.len() as u64).to_le_bytes());
        self.0.update(path);
        self.0.update(&content.to_le_bytes());
        self.0.update(&last_modified.to_le_bytes());
    }

    fn finish(self) -> u128 {
        self.0.digest128()
    }
}

/// A file of a site, as it was read.
struct SourceFile<'f> {
    path: &'f [u8],
    content: FileContent,
    precompressed: Vec<Precompressed<'f>>,
}

/// Writes a file with its precompressed variants and those that are known, and each precompressed one at its own path too.
fn write_file<W: Write + Seek>(
    writer: &mut ImageWriter<'_, W>,
    rule_records: &mut RuleRecords<'_>,
    SourceFile { path, content, precompressed }: SourceFile<'_>,
    compressed: &mut VariantCache,
    files: &mut Vec<File>,
) -> Result<(), PackError> {
    let media = media_of(path, &content);
    let mut contents = vec![(Coding::Identity, content)];
    let mut paths = Vec::new();
    for Precompressed { path, coding, content } in precompressed {
        contents.push((coding, content));
        paths.push(path);
    }
    let has_variants = !is_compressed(&media);
    if has_variants {
        compressed.add_to(&mut contents);
    }
    let file = FileToWrite { media, contents, deltas: Vec::new(), offer: None };
    let written = write_variants(writer, rule_records, path, file, files)?;
    if has_variants {
        compressed.written(&written, files);
    }
    for (path, (_, content)) in paths.into_iter().zip(written.contents.into_iter().skip(1)) {
        let (media, contents) = (media_of(path, &content), vec![(Coding::Identity, content)]);
        let file = FileToWrite { media, contents, deltas: Vec::new(), offer: None };
        write_variants(writer, rule_records, path, file, files)?;
    }
    Ok(())
}

/// The status of what this process may not read.
const UNREADABLE_STATUS: u16 = 403;

/// Returns the status for a file that cannot be read. `None`: the error is not about reading it.
fn status_if_unreadable(error: &PackError) -> Option<u16> {
    match error {
        PackError::Denied { .. } => Some(UNREADABLE_STATUS),
        PackError::Read { error, .. } if error.kind() == ErrorKind::PermissionDenied => {
            Some(UNREADABLE_STATUS)
        }
        // The disk is at fault.
        PackError::Read { .. } => Some(500),
        _ => None,
    }
}

/// Writes the server's page for a status in place of a file, and the redirects to the file.
fn write_error<W: Write + Seek>(
    writer: &mut ImageWriter<'_, W>,
    rule_records: &RuleRecords<'_>,
    path: &[u8],
    status: u16,
) -> Result<(), PackError> {
    let PageAddress { served_at, redirects } = rule_records.addresses.address_of(path);
    for address in &served_at {
        rule_records.error_page(writer, address, status)?;
    }
    match served_at.last() {
        Some(target) => write_redirects(writer, rule_records, &redirects, target),
        None => Ok(()),
    }
}

/// Writes the server's page for a status at the path of a directory or link, where no file and no rule is. A directory answers without its
/// trailing slash too.
fn write_missing_error<W: Write + Seek>(
    writer: &mut ImageWriter<'_, W>,
    rule_records: &RuleRecords<'_>,
    path: &[u8],
    status: u16,
) -> Result<(), PackError> {
    for path in BTreeSet::from([path, path.strip_suffix(b"/").unwrap_or(path)]) {
        if !rule_records.has(path) {
            rule_records.error_page(writer, path, status)?;
        }
    }
    Ok(())
}

/// A file with all of its contents.
pub(crate) struct FileToWrite<'w> {
    /// The value of Content-Type.
    pub(crate) media: Cow<'static, str>,
    /// The first content is not coded.
    pub(crate) contents: Vec<(Coding, FileContent)>,
    /// The deltas against dictionaries, each given by its SHA-256.
    pub(crate) deltas: Vec<([u8; 32], Coding, FileContent)>,
    /// The URL pattern of the files that may use this one as a dictionary.
    pub(crate) offer: Option<&'w str>,
}

/// A file that the writer has written.
pub(crate) struct PlacedFile {
    /// Those that the writer has placed can be used by other files. The first content is not coded.
    pub(crate) contents: Vec<(Coding, FileContent)>,
    /// The place of the first of them.
    pub(crate) plain_at: (Storage, u64),
}

/// Writes a file in all its codings, at each of its paths, and the redirects to it.
pub(crate) fn write_variants<W: Write + Seek>(
    writer: &mut ImageWriter<'_, W>,
    rule_records: &mut RuleRecords<'_>,
    path: &[u8],
    file: FileToWrite<'_>,
    files: &mut Vec<File>,
) -> Result<PlacedFile, PackError> {
    let FileToWrite { media, contents, deltas, offer } = file;
    let (media, varies) = (&*media, Varies::of(contents.len(), deltas.len()));
    let cache = cache_control::of_file(path, &rule_records.addresses.policy.immutable);
    let last_modified = contents.first().expect("a file has a content").1.last_modified;
    let PageAddress { served_at, redirects } = rule_records.addresses.address_of(path);
    let extras: Vec<_> = served_at.iter().map(|path| rule_records.fields(path)).collect();
    let representation =
        |coding, extra| Representation { media, coding, varies, offer, last_modified, cache, extra };
    let variants = contents
        .into_iter()
        .map(|(coding, content)| ImageVariant::new(representation(coding, &extras[0]), content));
    let mut variants: Vec<_> = variants.collect();
    let deltas = deltas.into_iter().map(|(dictionary, coding, content)| ImageDelta {
        dictionary,
        variant: ImageVariant::new(representation(coding, &extras[0]), content),
    });
    let mut deltas: Vec<_> = deltas.collect();
    let [first, rest @ ..] = &served_at[..] else { unreachable!("each file has a path") };
    let mut records = writer.file(first, &mut variants, rule_records.file_record(first), files)?;
    let plain_at = records.place();
    writer.deltas(&records, &mut deltas, files)?;
    rule_records.file_written(path, first, media, &variants, &records);
    for (address, extra) in rest.iter().zip(extras.windows(2)) {
        match extra[0] == extra[1] {
            true => writer.alias(address, &records, rule_records.has_rule(address))?,
            false => {
                for variant in variants.iter_mut().chain(deltas.iter_mut().map(|delta| &mut delta.variant)) {
                    variant.set_fields(representation(variant.coding, &extra[1]));
                }
                records = writer.file(address, &mut variants, rule_records.file_record(address), files)?;
                writer.deltas(&records, &mut deltas, files)?;
            }
        }
        rule_records.file_written(path, address, media, &variants, &records);
    }
    write_redirects(writer, rule_records, &redirects, rest.last().unwrap_or(first))?;
    Ok(PlacedFile { contents: contents_of(variants), plain_at })
}

fn contents_of(variants: Vec<ImageVariant>) -> Vec<(Coding, FileContent)> {
    variants.into_iter().map(|variant| (variant.coding, variant.content)).collect()
}

/// Writes the listing of a directory at the address of the directory, as a page and as JSON. Returns both.
pub(crate) fn write_listing<W: Write + Seek>(
    writer: &mut ImageWriter<'_, W>,
    rule_records: &mut RuleRecords<'_>,
    dir: &[u8],
    html: Vec<(Coding, FileContent)>,
    json: Vec<(Coding, FileContent)>,
) -> Result<Vec<PlacedFile>, PackError> {
    let PageAddress { served_at, redirects } = rule_records.addresses.address_of(dir);
    let [address] = &served_at[..] else { unreachable!("a listing has one address") };
    let extra = rule_records.fields(address).with("Vary", "Accept");
    // A rule that sets Content-Type is about the page.
    let (_, json_extra) = extra.clone().split_off("Content-Type");
    let variants = |media, contents: Vec<(Coding, FileContent)>, extra| {
        let varies = Varies::of(contents.len(), 0);
        let variant = |(coding, content): (Coding, FileContent)| {
            let (last_modified, cache) = (content.last_modified, cache_control::REVALIDATE);
            let representation =
                Representation { media, coding, varies, offer: None, last_modified, cache, extra };
            ImageVariant::new(representation, content)
        };
        contents.into_iter().map(variant).collect::<Vec<_>>()
    };
    let media = "text/html; charset=utf-8";
    let mut page = variants(media, html, &extra);
    // The server must compare Accept with both formats, so the record has the flag of a rule.
    let purpose = FileRecord::AtPath { has_rule: true };
    let records = writer.file(address, &mut page, purpose, &mut Vec::new())?;
    rule_records.file_written(dir, address, media, &page, &records);
    let mut written = vec![PlacedFile { contents: contents_of(page), plain_at: records.place() }];
    let name = [address.strip_prefix(b"/").unwrap_or(address), JSON_SUFFIX].concat();
    if name.len() <= PATH_LEN_MAX {
        let mut json = variants("application/json", json, &json_extra);
        let purpose = FileRecord::AtPath { has_rule: false };
        let records = writer.file(&name, &mut json, purpose, &mut Vec::new())?;
        written.push(PlacedFile { contents: contents_of(json), plain_at: records.place() });
    }
    write_redirects(writer, rule_records, &redirects, address)?;
    Ok(written)
}

fn write_redirects<W: Write + Seek>(
    writer: &mut ImageWriter<'_, W>,
    rule_records: &RuleRecords<'_>,
    redirects: &[Vec<u8>],
    target: &[u8],
) -> Result<(), PackError> {
    let target = rule_records.addresses.policy.public_path(target);
    for path in redirects {
        let redirect = fields::redirect(&target, &rule_records.fields(path));
        writer.redirect(path, &redirect, None, rule_records.has_rule(path))?;
    }
    Ok(())
}

/// Returns whether contents of a media type are compressed already.
fn is_compressed(media: &str) -> bool {
    let kind = media.split(';').next().unwrap_or(media);
    let is_text = ["image/svg+xml", "image/bmp", "image/x-icon", "image/vnd.microsoft.icon"].contains(&kind);
    let of_kind = ["image/", "video/", "audio/"].iter().any(|start| kind.starts_with(start));
    (of_kind && !is_text) || COMPRESSED_MEDIA.contains(&kind)
}

/// Media types of contents that are compressed already, beside pictures, sound and video.
const COMPRESSED_MEDIA: [&str; 9] = [
    "font/woff",
    "font/woff2",
    "application/zip",
    "application/gzip",
    "application/zstd",
    "application/x-xz",
    "application/x-bzip2",
    "application/x-7z-compressed",
    "application/vnd.rar",
];

fn media_of(path: &[u8], content: &FileContent) -> Cow<'static, str> {
    content_type(file_name(path), &content.sniffed)
}
