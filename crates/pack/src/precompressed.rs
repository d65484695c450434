//! Precompressed files: `page.html.br`, `.gz` and `.zst` beside `page.html`.
//!
//! ```text
//! page.html ─┬─ page.html.br   smaller, not older                ─▶ a variant of page.html, and a file at its own path
//!            ├─ page.html.gz   begins with the magic of gzip     ─▶ the same
//!            └─ page.html.zst  older than page.html, or not zstd ─▶ a file at its own path only, and counted as skipped
//! ```
//!
//! The packer does not decode a precompressed file: its author is responsible for the content. An older file was made of another
//! state of its source, so its content would be wrong.

use crate::content::FileContent;
use crate::error::PackError;
use crate::skip::{SkipReason, Skipped, skip_path};
use crate::walk::SiteFile;
use std::collections::HashMap;
use tarpon_site::Coding;

/// A precompressed file that is a variant of another file.
pub(crate) struct Precompressed<'f> {
    /// Its own path.
    pub(crate) path: &'f [u8],
    pub(crate) coding: Coding,
    pub(crate) content: FileContent,
}

/// The files that may be precompressed files, by their names.
pub(crate) struct PrecompressedFiles<'f, F> {
    files: &'f [SiteFile<F>],
    /// Indexes of `files`.
    by_path: HashMap<&'f [u8], usize>,
    /// By the index in `files`: whether it became a variant of another file.
    is_variant: Vec<bool>,
}

impl<'f, F> PrecompressedFiles<'f, F> {
    pub(crate) fn of(files: &'f [SiteFile<F>]) -> PrecompressedFiles<'f, F> {
        let by_path = files.iter().enumerate().filter_map(|(number, file)| {
            let path = &file.path[..];
            FORMATS.iter().any(|format| path.ends_with(format.suffix)).then_some((path, number))
        });
        PrecompressedFiles { files, by_path: by_path.collect(), is_variant: vec![false; files.len()] }
    }

    /// Returns whether a file became a variant of its source, which comes first in the order of names.
    pub(crate) fn is_variant(&self, number: usize) -> bool {
        self.is_variant[number]
    }

    /// Takes the variants of a file with this content that are useful. `read` reads a file, and returns `None` if it no longer
    /// exists.
    pub(crate) fn take(
        &mut self,
        number: usize,
        content: &FileContent,
        skipped: &mut Vec<Skipped>,
        mut read: impl FnMut(&F) -> Result<Option<FileContent>, PackError>,
    ) -> Result<Vec<Precompressed<'f>>, PackError> {
        let mut variants = Vec::new();
        for format in FORMATS {
            let path = [&self.files[number].path, format.suffix].concat();
            let Some(&number) = self.by_path.get(&path[..]) else { continue };
            let SiteFile { path, location } = &self.files[number];
            let Some(compressed) = read(location)? else { continue };
            match format.rejection(&compressed, content) {
                None => {
                    self.is_variant[number] = true;
                    variants.push(Precompressed { path, coding: format.coding, content: compressed });
                }
                Some(Rejection::NotSmaller) => {}
                Some(Rejection::Skipped(reason)) => skip_path(skipped, reason, path),
            }
        }
        Ok(variants)
    }
}

/// A format of precompressed files.
struct PrecompressedFormat {
    suffix: &'static [u8],
    coding: Coding,
    /// The media type of its magic number. Brotli has none.
    magic: Option<&'static str>,
}

/// Why a precompressed file is not used as a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rejection {
    NotSmaller,
    Skipped(SkipReason),
}

impl PrecompressedFormat {
    /// Compares times in whole seconds: a copy of a site may write a file and its precompressed file in either order.
    fn rejection(&self, compressed: &FileContent, source: &FileContent) -> Option<Rejection> {
        if compressed.len == 0 || self.magic.is_some_and(|magic| !compressed.sniffed.has_magic(magic)) {
            Some(Rejection::Skipped(SkipReason::PrecompressedInvalid))
        } else if compressed.last_modified < source.last_modified {
            Some(Rejection::Skipped(SkipReason::PrecompressedStale))
        } else {
            (compressed.len >= source.len).then_some(Rejection::NotSmaller)
        }
    }
}

const FORMATS: [PrecompressedFormat; 3] = [
    PrecompressedFormat { suffix: b".br", coding: Coding::Br, magic: None },
    PrecompressedFormat { suffix: b".gz", coding: Coding::Gzip, magic: Some("application/gzip") },
    PrecompressedFormat { suffix: b".zst", coding: Coding::Zstd, magic: Some("application/zstd") },
];
