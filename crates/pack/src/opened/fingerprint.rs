//! Fingerprints of contents: length and hash.

use std::io::{self, Read, Write};
use xxhash_rust::xxh3::Xxh3;

/// Identifies a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Fingerprint {
    /// In bytes.
    pub(crate) len: u64,
    /// XXH3-128.
    pub(crate) hash: u128,
}

/// Hashes and counts the bytes that are written through it.
pub(crate) struct HashingWriter<W> {
    to: W,
    hasher: Xxh3,
    /// Number of bytes since the last [`HashingWriter::restart`].
    pub(crate) len: u64,
}

impl<W> HashingWriter<W> {
    pub(crate) fn new(to: W) -> HashingWriter<W> {
        HashingWriter { to, hasher: Xxh3::new(), len: 0 }
    }

    /// Returns the fingerprint of the bytes written since the last restart.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        Fingerprint { len: self.len, hash: self.hasher.digest128() }
    }

    /// Returns the XXH3-64 hash of the same bytes.
    pub(crate) fn hash64(&self) -> u64 {
        self.hasher.digest()
    }

    /// Begins a new count and hash.
    pub(crate) fn restart(&mut self) {
        self.hasher.reset();
        self.len = 0;
    }
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

/// Returns the fingerprint of a content. Reads at most one byte more than `len_max`.
pub(crate) fn fingerprint_of(from: impl Read, len_max: u64) -> io::Result<Fingerprint> {
    let mut out = HashingWriter::new(io::sink());
    match copy(from.take(len_max.saturating_add(1)), &mut out) {
        Ok(()) => Ok(out.fingerprint()),
        Err(CopyError::Read(error) | CopyError::Write(error)) => Err(error),
    }
}

/// The side of a copy that failed.
pub(crate) enum CopyError {
    Read(io::Error),
    Write(io::Error),
}

/// Copies in large blocks. Unlike [`io::copy`], tells which side failed.
pub(crate) fn copy(mut from: impl Read, to: &mut impl Write) -> Result<(), CopyError> {
    let mut block = vec![0; BLOCK_LEN];
    loop {
        match from.read(&mut block) {
            Ok(0) => return Ok(()),
            Ok(count) => to.write_all(&block[..count]).map_err(CopyError::Write)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(CopyError::Read(error)),
        }
    }
}

/// Bytes read at once.
const BLOCK_LEN: usize = 64 << 10;
