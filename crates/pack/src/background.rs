//! The contents of a site to compress while it is served. `packed/background_job.rs` compresses them.
//!
//! ```text
//! CompressionJob ─ read ─ unchanged? ─ worth an attempt? ─ encode ─ decodes? ─▶ MadeVariant, or none that is worthwhile
//! ```
//!
//! A job holds what it reads by descriptor, so that it needs no rights: the caller runs it on a thread of its own. A content that has changed since
//! the site was built has no result; the next build asks for it again.

use crate::build_cache::FileIdentity;
use crate::content::{OffsetReader, content_hash, member_identity_hash};
use crate::opened::fingerprint::Fingerprint;
use crate::variant_cache::VariantKey;
use std::fs::File;
use std::io::{self, Read};

/// A content that lacks compressed variants.
#[derive(Debug)]
pub struct CompressionJob {
    pub(crate) content: Fingerprint,
    pub(crate) source: JobSource,
    /// Which of [`CODINGS`](crate::CODINGS) are missing.
    pub(crate) codings: [bool; 3],
}

/// The place of the content of a job.
#[derive(Debug)]
pub(crate) enum JobSource {
    /// At this offset of the image.
    Image(u64),
    /// At this offset of the archive.
    Archive(u64),
    File(File),
}

/// A compressed variant of a content.
#[derive(Debug)]
pub struct MadeVariant {
    pub(crate) key: VariantKey,
    /// `None`: none is worthwhile.
    pub(crate) coded: Option<Vec<u8>>,
}

/// The files that jobs of one build read.
#[derive(Debug)]
pub struct JobFiles {
    /// Holds the image from its start.
    pub image: File,
    /// The tar archive of the site.
    pub archive: Option<File>,
}

impl CompressionJob {
    /// Returns the length of the content, in bytes.
    pub fn content_len(&self) -> u64 {
        self.content.len
    }

    /// Returns the hash of the content.
    pub fn hash(&self) -> u128 {
        self.content.hash
    }

    /// Returns the content. `None`: it has changed.
    pub(crate) fn read(&self, files: &JobFiles) -> io::Result<Option<Vec<u8>>> {
        let (file, at) = match &self.source {
            JobSource::Image(at) => (&files.image, *at),
            JobSource::Archive(at) => match &files.archive {
                Some(archive) => (archive, *at),
                None => return Ok(None),
            },
            JobSource::File(file) => (file, 0),
        };
        let Fingerprint { len, hash } = self.content;
        let mut plain = Vec::with_capacity(usize::try_from(len).map_err(io::Error::other)?);
        OffsetReader { file, at }.take(len).read_to_end(&mut plain)?;
        if plain.len() as u64 != len {
            return Ok(None);
        }
        // Long contents may be known by the identity of their file only.
        let is_same = content_hash(&plain) == hash || {
            let identity = FileIdentity::of(&file.metadata()?).settled_hash();
            match &self.source {
                JobSource::Image(_) => false,
                JobSource::Archive(at) => member_identity_hash(identity, *at, len) == hash,
                JobSource::File(_) => identity == hash,
            }
        };
        Ok(is_same.then_some(plain))
    }
}

impl MadeVariant {
    /// Returns the length of the variant, in bytes; 0 if none is worthwhile.
    #[expect(clippy::len_without_is_empty, reason = "no variant is empty")]
    pub fn len(&self) -> u64 {
        self.coded.as_ref().map_or(0, |coded| coded.len() as u64)
    }
}
