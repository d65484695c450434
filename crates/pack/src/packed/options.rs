//! Options for packing a site.

use super::encode::CompressionEffort;
use crate::policy::Policy;
use crate::programs::ProgramFiles;
use crate::rules::Dialect;
use std::fs::File;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

/// Options for packing a site.
#[derive(Clone, Copy, Debug)]
pub struct SiteOptions<'o> {
    /// How much time compressing may take.
    pub effort: CompressionEffort,
    /// The number of threads. It does not change the bytes.
    pub workers: NonZeroUsize,
    /// The latest modification time in the archive, in seconds since 1970. Later times become this one.
    pub max_mtime_s: u64,
    /// A previous archive, or a program with an embedded site. Its variants of unchanged contents are reused. `None`: reuse the file
    /// at the target, if it is usable.
    pub reuse: Option<&'o Path>,
    /// Archives of earlier releases. Clients may have their files, and use them as dictionaries.
    pub dictionaries: &'o [PathBuf],
    /// Whether responses offer files as dictionaries for later releases.
    pub offer_dictionaries: bool,
    /// A program to embed the site in. The target becomes that program.
    pub program: Option<&'o File>,
    /// Files that are programs: they are left out.
    pub programs: Option<&'o ProgramFiles>,
    /// The format of `_headers` and `_redirects` at the root of the site.
    pub dialect: Dialect,
    /// Which addresses files have, and which fields responses have.
    pub policy: &'o Policy,
}
