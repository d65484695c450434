//! Which files are coded forms of another: `page.html.br`, `.gz` and `.zst` beside `page.html`.
//!
//! ```text
//! page.html ─┬─ page.html.br   smaller, not older             ─▶ a variant of page.html, and a file by its name
//!            ├─ page.html.gz   begins as gzip does            ─▶
//!            └─ page.html.zst  older than page.html, or no zstd ─▶ a file by its name only, and said so
//! ```
//!
//! That a form really decodes to its file is not checked; whoever makes it answers for it. An older one was
//! made of another state of the file, so it would be wrong, and is not offered.

use crate::content::FileContent;
use crate::error::PackError;
use crate::skip::{SkipReason, Skipped, skip};
use crate::walk::SiteFile;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use tarpon_site::Coding;

/// A coded form of a file.
pub(crate) struct Precompressed<'f> {
    /// Its own path.
    pub(crate) path: &'f [u8],
    pub(crate) coding: Coding,
    pub(crate) content: FileContent,
}

/// The files whose names say that they may be coded forms.
pub(crate) struct PrecompressedFiles<'f, F> {
    found: &'f [SiteFile<F>],
    /// Number in `found`.
    by_path: HashMap<&'f [u8], usize>,
    /// By number in `found`.
    taken: Vec<bool>,
}

impl<'f, F> PrecompressedFiles<'f, F> {
    pub(crate) fn of(found: &'f [SiteFile<F>]) -> PrecompressedFiles<'f, F> {
        let by_path = found.iter().enumerate().filter_map(|(number, found)| {
            let path = &found.path[..];
            FORMATS.iter().any(|form| path.ends_with(form.suffix)).then_some((path, number))
        });
        PrecompressedFiles { found, by_path: by_path.collect(), taken: vec![false; found.len()] }
    }

    /// Whether a file was taken as a coded form. In the order of names it comes behind the file it is of.
    pub(crate) fn is_taken(&self, number: usize) -> bool {
        self.taken[number]
    }

    /// Takes the coded forms of a file with this content, as far as they are worth it; `read` reads a file, if
    /// it is still there.
    pub(crate) fn take(
        &mut self,
        number: usize,
        content: &FileContent,
        skipped: &mut Vec<Skipped>,
        mut read: impl FnMut(&F) -> Result<Option<FileContent>, PackError>,
    ) -> Result<Vec<Precompressed<'f>>, PackError> {
        let mut coded = Vec::new();
        for form in FORMATS {
            let path = [&self.found[number].path, form.suffix].concat();
            let Some(&number) = self.by_path.get(&path[..]) else { continue };
            let SiteFile { path, file } = &self.found[number];
            let Some(form_content) = read(file)? else { continue };
            match form.rejection(&form_content, content) {
                None => {
                    self.taken[number] = true;
                    coded.push(Precompressed { path, coding: form.coding, content: form_content });
                }
                Some(Rejection::NotSmaller) => {}
                Some(Rejection::Skipped(kind)) => {
                    let relative = path.strip_prefix(b"/").unwrap_or(path);
                    skip(skipped, kind, Path::new(OsStr::from_bytes(relative)));
                }
            }
        }
        Ok(coded)
    }
}

/// How coded forms are named, and what they begin with.
struct PrecompressedFormat {
    suffix: &'static [u8],
    coding: Coding,
    /// What the first bytes tell. Those of Brotli tell nothing.
    magic: Option<&'static str>,
}

/// Why a form is not offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rejection {
    /// It is not smaller.
    NotSmaller,
    /// Somebody should know.
    Skipped(SkipReason),
}

impl PrecompressedFormat {
    /// Times are compared in whole seconds: a copy of a site may write a file and its form in either order.
    fn rejection(&self, form: &FileContent, file: &FileContent) -> Option<Rejection> {
        if form.len == 0 || self.magic.is_some_and(|magic| !form.sniffed.is(magic)) {
            Some(Rejection::Skipped(SkipReason::PrecompressedInvalid))
        } else if form.last_modified < file.last_modified {
            Some(Rejection::Skipped(SkipReason::PrecompressedStale))
        } else {
            (form.len >= file.len).then_some(Rejection::NotSmaller)
        }
    }
}

const FORMATS: [PrecompressedFormat; 3] = [
    PrecompressedFormat { suffix: b".br", coding: Coding::Br, magic: None },
    PrecompressedFormat { suffix: b".gz", coding: Coding::Gzip, magic: Some("application/gzip") },
    PrecompressedFormat { suffix: b".zst", coding: Coding::Zstd, magic: Some("application/zstd") },
];
