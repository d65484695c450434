//! Variants that wait in temporary files for the archive, so that memory does not grow with the site.

use super::dictionaries::DictionaryDigest;
use super::fingerprint::{Fingerprint, HashingWriter};
use crate::content::OffsetReader;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use tarpon_site::Coding;

/// A temporary file of one worker. It has no name.
pub(crate) struct SpillFile {
    /// Number of the worker.
    pub(crate) worker: usize,
    pub(crate) file: File,
    /// Where the next variant begins.
    end: u64,
}

/// A compressed content in a temporary file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpilledVariant {
    /// Number of the worker whose file has the variant.
    pub(crate) worker: usize,
    /// Where the variant begins in the file.
    pub(crate) at: u64,
    pub(crate) fingerprint: Fingerprint,
    /// Whether the variant comes from the previous archive.
    pub(crate) is_reused: bool,
}

/// A variant for clients that have a dictionary.
pub(crate) struct DeltaVariant {
    pub(crate) dictionary: DictionaryDigest,
    pub(crate) coding: Coding,
    pub(crate) variant: SpilledVariant,
}

/// The temporary files, by worker.
pub(crate) type SpillFiles = Vec<File>;

impl SpillFile {
    pub(crate) fn new(worker: usize, file: File) -> SpillFile {
        SpillFile { worker, file, end: 0 }
    }

    /// Writes a variant after the others. The next variant overwrites it, unless [`SpillFile::keep`] is called.
    pub(crate) fn write(
        &mut self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<SpilledVariant> {
        self.file.seek(SeekFrom::Start(self.end))?;
        let mut out = HashingWriter::new(BufWriter::new(&self.file));
        write(&mut out)?;
        out.flush()?;
        let fingerprint = out.fingerprint();
        Ok(SpilledVariant { worker: self.worker, at: self.end, fingerprint, is_reused: false })
    }

    /// Keeps the variant that was written last.
    pub(crate) fn keep(&mut self, variant: SpilledVariant) {
        self.end = variant.at + variant.fingerprint.len;
    }
}

impl SpilledVariant {
    /// Returns a reader of the variant in the file of its worker.
    pub(crate) fn reader<'f>(&self, file: &'f File) -> impl Read + use<'f> {
        OffsetReader { file, at: self.at }.take(self.fingerprint.len)
    }
}
