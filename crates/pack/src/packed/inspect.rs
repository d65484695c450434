//! What a packed site has: its paths, and what is sent for each.

use super::error::OpenError;
use super::open::Opened;
use std::fs::File;
use tarpon_site::format::section;
use tarpon_site::{Coding, Entry, Image, Variant};

/// What a packed site has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspected {
    /// Bytes of the archive.
    pub len: u64,
    /// Bytes of the image.
    pub image_len: u64,
    /// What coded the variants, if that is told.
    pub encoders: Option<String>,
    /// In the order of their paths.
    pub paths: Vec<PathRow>,
}

/// What lies at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathRow {
    /// Decoded, so not always UTF-8.
    pub path: Vec<u8>,
    /// What it is.
    pub what: What,
}

/// What a path is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A file.
    File {
        /// The value of Content-Type.
        media: String,
        /// Seconds since 1970.
        last_modified: u64,
        /// The value of Cache-Control.
        cache: String,
        /// The first is the file as it is.
        forms: Vec<Form>,
    },
    /// Another path.
    Redirect {
        /// The value of Location.
        to: String,
    },
}

/// A file as it is, or coded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    /// How it is coded.
    pub coding: Coding,
    /// In bytes.
    pub len: u64,
    /// The entity-tag, with its quotes.
    pub tag: String,
}

/// Looks into a packed site.
///
/// # Errors
/// It cannot be read, is no packed site, or its image is damaged.
pub fn inspect(archive: &File) -> Result<Inspected, OpenError> {
    let Opened { image, .. } = Opened::new(archive)?;
    let encoders = image.sections().find(|(row, _)| row.kind == section::ENCODERS);
    // What answers for what is missing is there by its own name too.
    let mut paths: Vec<_> = image
        .entries()
        .filter(|(path, _)| path.starts_with(b"/"))
        .map(|(path, entry)| PathRow { path: path.to_vec(), what: what(&image, entry) })
        .collect();
    paths.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(Inspected {
        len: image.archive_len(),
        image_len: image.len(),
        encoders: encoders.map(|(_, line)| text(line)),
        paths,
    })
}

fn what(image: &Image, entry: Entry) -> What {
    match entry {
        Entry::File(file) => {
            let form = |(coding, variant): (Coding, Variant)| Form {
                coding,
                len: variant.content.len(),
                tag: text(image.bytes(variant.etag)),
            };
            let fields = image.bytes(file.identity.fields);
            What::File {
                media: field(fields, "Content-Type: "),
                last_modified: file.identity.last_modified,
                cache: field(fields, "Cache-Control: "),
                forms: [(Coding::Identity, file.identity)]
                    .into_iter()
                    .chain(image.coded(file))
                    .map(form)
                    .collect(),
            }
        }
        Entry::Redirect(redirect) => {
            What::Redirect { to: field(image.bytes(redirect.before_query), "Location: ") }
        }
    }
}

/// The value of a field; nothing if it is not there.
fn field(fields: &[u8], name: &str) -> String {
    let mut lines = fields.split(|&byte| byte == b'\n');
    let value = lines.find_map(|line| line.strip_prefix(name.as_bytes())).unwrap_or_default();
    text(value.strip_suffix(b"\r").unwrap_or(value))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
