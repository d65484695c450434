//! Coded variants on their way into the archive: in temporary files, so that memory does not grow with the site.

use super::decode::Fingerprint;
use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use xxhash_rust::xxh3::Xxh3;

/// A temporary file of one worker, without a name.
pub(crate) struct SpillFile {
    /// Which of the [stores](super::Piece::store) it is.
    pub(crate) store: usize,
    pub(crate) file: File,
    /// Where the next variant goes.
    end: u64,
}

impl SpillFile {
    pub(crate) fn new(store: usize, file: File) -> SpillFile {
        SpillFile { store, file, end: 0 }
    }

    /// Writes a variant behind the others. It stays there only if it is kept.
    pub(crate) fn write(
        &mut self,
        with: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<(u64, Fingerprint)> {
        self.file.seek(SeekFrom::Start(self.end))?;
        let mut out = HashingWriter { to: BufWriter::new(&self.file), hasher: Xxh3::new(), len: 0 };
        with(&mut out)?;
        out.flush()?;
        Ok((self.end, Fingerprint { len: out.len, hash: out.hasher.digest128() }))
    }

    /// Keeps what was written last.
    pub(crate) fn keep(&mut self, len: u64) {
        self.end += len;
    }
}

/// Takes the fingerprint of what is written through it.
struct HashingWriter<W> {
    to: W,
    hasher: Xxh3,
    len: u64,
}

impl<W: Write> Write for HashingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = self.to.write(bytes)?;
        self.hasher.update(&bytes[..len]);
        self.len += len as u64;
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
