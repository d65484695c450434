//! Lists the paths of a packed site, and their responses.

use super::error::OpenError;
use super::open::OpenedSite;
use std::fs::File;
use tarpon_site::format::section;
use tarpon_site::rules::{LogPaths, RuleInfo, RuleStep, RuleSteps};
use tarpon_site::{Coding, Entry, Image, Variant};

/// The content of a packed site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteInspection {
    /// Length of the archive.
    pub len: u64,
    /// Length of the image.
    pub image_len: u64,
    /// The encoders that made the variants, if the image has this information.
    pub encoders: Option<String>,
    /// Sorted by path.
    pub paths: Vec<InspectedPath>,
    /// The rules that the server tries for a request, in order. Most rules for plain paths are in `paths` instead.
    pub rules: Vec<InspectedRule>,
    /// The paths that the access log leaves out, or has in spite of an earlier one. The last that matches counts.
    pub log_paths: Vec<InspectedLogPath>,
}

/// A pattern of paths that decides whether the access log has their requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InspectedLogPath {
    /// The paths that match. Placeholders have numbers as names.
    pub path: String,
    /// Whether requests for these paths are logged.
    pub is_logged: bool,
}

/// A rule of `_redirects`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InspectedRule {
    /// The paths and query parameters that match. Placeholders have numbers as names.
    pub source: String,
    /// The status of the response.
    pub status: u16,
    /// Whether the rule applies even if the site has the path.
    pub forced: bool,
    /// The target of the redirect, or the file to send.
    pub target: String,
}

/// A path of the site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InspectedPath {
    /// The decoded path, which may not be UTF-8.
    pub path: Vec<u8>,
    /// Whether requests for it are logged, if the server has an access log.
    pub is_logged: bool,
    /// The response.
    pub entry: InspectedEntry,
}

/// The response for a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InspectedEntry {
    /// A file.
    File {
        /// The status: 200, unless a rule sets another one.
        status: u16,
        /// Whether the file is a generated directory listing.
        is_listing: bool,
        /// The value of Content-Type.
        media_type: String,
        /// Seconds since 1970.
        last_modified: u64,
        /// The value of Cache-Control.
        cache_control: String,
        /// The uncompressed file, then its variants, then its deltas.
        variants: Vec<InspectedVariant>,
    },
    /// A redirect.
    Redirect {
        /// The status: 301, unless a rule sets another one.
        status: u16,
        /// The value of Location.
        to: String,
    },
}

/// A file in one coding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InspectedVariant {
    /// The coding.
    pub coding: Coding,
    /// SHA-256 of the dictionary, for a delta.
    pub dictionary: Option<[u8; 32]>,
    /// In bytes.
    pub len: u64,
    /// The entity-tag, with its quotes.
    pub etag: String,
}

/// Lists the paths and rules of a packed site.
///
/// # Errors
/// The file cannot be read, is not a packed site, or its image is damaged.
pub fn inspect(archive: &File) -> Result<SiteInspection, OpenError> {
    let OpenedSite { image, .. } = OpenedSite::new(archive)?;
    let encoders = image.sections().find(|(row, _)| row.kind == section::ENCODERS);
    // Records whose name is not a path refer to files that have a path too.
    let mut paths: Vec<_> = image
        .entries()
        .filter(|(path, _)| path.starts_with(b"/"))
        .map(|(path, entry)| InspectedPath {
            path: path.to_vec(),
            is_logged: image.log_paths().is_none_or(|paths| paths.is_logged(path)),
            entry: what(&image, path, entry),
        })
        .collect();
    paths.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(SiteInspection {
        len: image.archive_len(),
        image_len: image.len(),
        encoders: encoders.map(|(_, line)| text(line)),
        paths,
        rules: image.rules().ok().flatten().map(|rules| rules.all().map(rule).collect()).unwrap_or_default(),
        log_paths: image.log_paths().into_iter().flat_map(LogPaths::all).map(log_path).collect(),
    })
}

fn what(image: &Image, path: &[u8], entry: Entry) -> InspectedEntry {
    match entry {
        Entry::File(file) => {
            let form =
                |(dictionary, coding, variant): (Option<[u8; 32]>, Coding, Variant)| InspectedVariant {
                    coding,
                    dictionary,
                    len: variant.content.len(),
                    etag: text(image.bytes(variant.etag)),
                };
            let (fields, deltas) = (image.bytes(file.identity.fields().text), image.all_deltas(file));
            InspectedEntry::File {
                status: file.rule_status.unwrap_or(200),
                is_listing: matches!(image.listing_json(path), Ok(Some(_))),
                media_type: field(fields, "Content-Type: "),
                last_modified: file.identity.last_modified,
                cache_control: field(fields, "Cache-Control: "),
                variants: [(Coding::Identity, file.identity)]
                    .into_iter()
                    .chain(image.coded_variants(file))
                    .map(|(coding, variant)| (None, coding, variant))
                    .chain(deltas.map(|(dictionary, coding, variant)| (Some(dictionary), coding, variant)))
                    .map(form)
                    .collect(),
            }
        }
        Entry::Redirect(redirect) => InspectedEntry::Redirect {
            status: redirect.rule_status.unwrap_or(301),
            to: field(image.bytes(redirect.fields().text), "Location: "),
        },
    }
}

/// Returns a rule as text. Placeholders get numbers, since an image does not have their names.
fn rule(rule: RuleInfo<'_>) -> InspectedRule {
    let (mut to, mut names) = (String::new(), Vec::new());
    let from = source(rule.pattern.chain(rule.parameters), &mut names);
    for step in rule.target {
        match step {
            RuleStep::Text(bytes) => to.push_str(&text(bytes)),
            RuleStep::Captured(number)
            | RuleStep::CapturedInQuery(number)
            | RuleStep::CapturedParameter(number) => {
                to.push_str(names.get(usize::from(number)).map_or(":", String::as_str));
            }
            _ => {}
        }
    }
    to.push_str(&text(rule.fragment));
    InspectedRule { source: from, status: rule.status, forced: rule.forced, target: to }
}

fn log_path((pattern, is_logged): (RuleSteps<'_>, bool)) -> InspectedLogPath {
    InspectedLogPath { path: source(pattern, &mut Vec::new()), is_logged }
}

/// Returns what a rule matches, as text. Adds the names of its placeholders to `names`.
fn source<'s>(steps: impl Iterator<Item = RuleStep<'s>>, names: &mut Vec<String>) -> String {
    let mut from = String::new();
    for step in steps {
        match step {
            RuleStep::Text(bytes) => from.push_str(&text(bytes)),
            RuleStep::Name(name) => from.extend([" ", &text(name), "="]),
            RuleStep::CaptureRest => {
                from.push('*');
                names.push(":splat".to_owned());
            }
            _ => {
                names.push(format!(":{}", names.len() + 1));
                from.push_str(&names[names.len() - 1]);
            }
        }
    }
    from
}

/// Returns the value of a field, or an empty string.
fn field(fields: &[u8], name: &str) -> String {
    let mut lines = fields.split(|&byte| byte == b'\n');
    let value = lines.find_map(|line| line.strip_prefix(name.as_bytes())).unwrap_or_default();
    text(value.strip_suffix(b"\r").unwrap_or(value))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
