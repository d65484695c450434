//! The options of packing a directory or an archive into an image.

use crate::effort::CompressionEffort;
use crate::policy::Policy;
use crate::programs::ProgramFiles;
use crate::rules::Dialect;
use crate::user::UserDirectory;

/// The options of packing.
#[derive(Clone, Debug)]
pub struct PackOptions {
    /// A file of more bytes than this stays on disk, and open.
    pub file_len_min: u64,
    /// If the contents that stay on disk have more bytes than this together, they are not read: their tags come from what the file system knows of
    /// the files, and change with each version of a file.
    pub read_len_max: u64,
    /// The number of files that may stay open. The caller knows how many descriptors it can spare.
    pub file_count_max: usize,
    /// Seconds since 1970. No Last-Modified is later (RFC 9110, section 8.8.2.1).
    pub now: u64,
    /// The dialect of `_headers` and `_redirects` at the root of the site. These files are not served.
    pub dialect: Dialect,
    /// How the site answers.
    pub policy: Policy,
    /// User directories that are served below `/~name/`, beside a directory and not beside an archive. An error in one of them
    /// omits that directory, and packing goes on.
    pub users: Vec<UserDirectory>,
    /// Files that are programs: they are left out. Only a directory has them.
    pub programs: ProgramFiles,
    /// Whether a file or directory that cannot be read ends the packing. Otherwise it answers 403, or 500 if the disk is at fault, and the
    /// rest is served. `_headers` and `_redirects` must be readable anyway: they may restrict the rest.
    pub is_strict: bool,
    /// How contents are compressed while the site is served. `None`: the image has no variants but those of precompressed files.
    pub compression: Option<BackgroundCompression>,
}

/// How contents are compressed while the site is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackgroundCompression {
    /// How much time compressing may take. Default: [`CompressionEffort::Fast`].
    pub effort: CompressionEffort,
    /// The most bytes of all variants together. While contents are compressed, up to half as much is used besides. Default: 256 MiB.
    pub memory_max: u64,
}

impl Default for BackgroundCompression {
    fn default() -> BackgroundCompression {
        BackgroundCompression { effort: CompressionEffort::Fast, memory_max: COMPRESSION_MEMORY_MAX }
    }
}

impl BackgroundCompression {
    /// Returns the longest content that is compressed, in bytes: an encoder holds it in memory, with its result.
    pub fn content_len_max(&self) -> u64 {
        self.memory_max / 8
    }

    /// Returns how many bytes of new variants wait for the next image, at most.
    pub fn waiting_len_max(&self) -> u64 {
        self.memory_max / 4
    }
}

impl PackOptions {
    /// Returns the default options at this time: contents above 64 KiB stay on disk, at most 512 of them, and are read if they have at most 256 MiB together; rules are in the dialect
    /// of Netlify; everything must be readable.
    pub fn new(now: u64) -> PackOptions {
        let (file_len_min, file_count_max) = (FILE_LEN_MIN, FILE_COUNT_MAX);
        let (dialect, policy, users) = (Dialect::Netlify, Policy::default(), Vec::new());
        let programs = ProgramFiles::default();
        let (is_strict, read_len_max) = (true, READ_LEN_MAX);
        PackOptions {
            file_len_min,
            read_len_max,
            file_count_max,
            now,
            dialect,
            policy,
            users,
            programs,
            is_strict,
            compression: None,
        }
    }
}

/// See [`PackOptions::new`]. Measured: up to this length, a copy out of memory is about as fast as sending from a file.
const FILE_LEN_MIN: u64 = 64 << 10;
/// See [`PackOptions::new`]. A second of a slow disk.
const READ_LEN_MAX: u64 = 256 << 20;
/// See [`BackgroundCompression::memory_max`]. The variants of a text take about half of its length together, so this is enough for half a GiB of text.
const COMPRESSION_MEMORY_MAX: u64 = 256 << 20;
/// See [`PackOptions::new`]. Half of the usual soft limit of 1,024 open files.
const FILE_COUNT_MAX: usize = 512;
