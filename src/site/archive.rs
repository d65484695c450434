//! Opens a tar archive for random access; unpacks a compressed archive into memory.
//!
//! ```text
//! site.tar ────────────────────────────▶ its own descriptor ─┬─ map ─▶ small contents
//! site.tar.gz, site.tar.zst ─ unpack ──▶ a sealed memfd ─────┴───────▶ large contents
//! program with an embedded site ───────▶ a region of its descriptor, likewise
//! ```
//!
//! The first bytes decide the type of the file; its name does not matter. Does not read the members of the archive.

use crate::{
    base::{
        error::{UserError, reason},
        size,
    },
    sys::{mapped::Mapped, memory},
};
use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;
use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
    sync::Arc,
};
use tarpon_pack::embedded_site;
use tarpon_site::Printable;
use tarpon_site::{Image, ImageError, Region, packed};

/// An open and mapped archive.
#[derive(Debug)]
pub(crate) struct Archive {
    /// The file that contains the archive.
    pub(crate) file: Arc<File>,
    /// The offset of the archive in the file.
    pub(crate) at: u64,
    pub(crate) map: Arc<Mapped>,
    /// Whether the archive is in memory, in huge pages if the system allows.
    pub(crate) is_preloaded: bool,
}

/// An archive that is open, and unpacked if it was compressed, but not mapped.
pub(crate) struct OpenedArchive {
    file: File,
    /// The region of the archive in the file.
    place: Region,
}

impl Archive {
    /// Opens and maps an archive. Unpacks a compressed archive into memory; `preload` copies any other archive there.
    pub(crate) fn new(path: &Path, max_unpacked_len: u64, preload: bool) -> Result<Archive, UserError> {
        Archive::map(open(path, max_unpacked_len)?, path, preload)
    }

    /// Like [`new`](Archive::new), with a file that is open. `path` is its name in errors.
    pub(crate) fn from_file(
        file: File,
        path: &Path,
        max_unpacked_len: u64,
        preload: bool,
    ) -> Result<Archive, UserError> {
        Archive::map(unpack_if_compressed(file, path, max_unpacked_len)?, path, preload)
    }

    fn map(opened: OpenedArchive, path: &Path, preload: bool) -> Result<Archive, UserError> {
        let OpenedArchive { file, place } = if preload { opened.copy_to_memory(path)? } else { opened };
        Archive::from_region(file, place, preload).map_err(|error| {
            let what = format_args!("cannot map {}", path.printable());
            UserError::new(
                what,
                reason(&error),
                "serve it from a local file system, or serve fewer archives at once",
            )
        })
    }

    /// Maps an archive that is a region of a file.
    pub(crate) fn from_region(
        file: impl Into<Arc<File>>,
        place: Region,
        is_preloaded: bool,
    ) -> io::Result<Archive> {
        let file = file.into();
        let map = Mapped::new(&file, place, is_preloaded)?;
        Ok(Archive { file, at: place.at, map: Arc::new(map), is_preloaded })
    }

    /// Returns the image in the archive if it is a packed site.
    pub(crate) fn image(&self) -> Result<Option<Image>, ImageError> {
        let len = self.map.len();
        let front = Region { at: 0, len: len.min(packed::FRONT_LEN as u64) };
        let front = self.map.bytes(front).unwrap_or_default();
        let Some(place) = packed::image_in(front, len)? else { return Ok(None) };
        Image::new(self.map.image(place).ok_or(ImageError::Length)?).map(Some)
    }
}

impl OpenedArchive {
    /// Copies the archive into sealed memory, in huge pages if the system allows.
    fn copy_to_memory(mut self, path: &Path) -> Result<OpenedArchive, UserError> {
        let mut copy = || {
            let mut copy = memory::file()?;
            self.file.seek(SeekFrom::Start(self.place.at))?;
            io::copy(&mut (&self.file).take(self.place.len), &mut copy)?;
            memory::freeze(&copy)?;
            Ok(OpenedArchive { place: whole(&copy)?, file: copy })
        };
        copy().map_err(|error| {
            UserError::new(
                format_args!("cannot read {}", path.printable()),
                reason(&error),
                "free some memory",
            )
        })
    }
}

/// Opens an archive as a file that begins with the archive. Unpacks a compressed archive into memory, and copies an embedded site there.
pub(crate) fn open_as_file(path: &Path, max_unpacked_len: u64) -> Result<File, UserError> {
    let opened = open(path, max_unpacked_len)?;
    Ok(if opened.place.at == 0 { opened.file } else { opened.copy_to_memory(path)?.file })
}

/// Opens an archive. Unpacks a compressed archive into memory, up to `max_unpacked_len` bytes.
fn open(path: &Path, max_unpacked_len: u64) -> Result<OpenedArchive, UserError> {
    // Does not wait for the writer of a FIFO.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    unpack_if_compressed(file.map_err(|error| unreadable(path, &error))?, path, max_unpacked_len)
}

/// Returns the message for an archive that cannot be read.
pub(crate) fn unreadable(path: &Path, error: &io::Error) -> UserError {
    let what = format_args!("cannot open {}", path.printable());
    UserError::new(what, reason(error), "name a directory or tar archive that exists and may be read")
}

/// Identifies a file by its first bytes, and unpacks it into memory if it is compressed.
fn unpack_if_compressed(file: File, path: &Path, max_unpacked_len: u64) -> Result<OpenedArchive, UserError> {
    let what = || format!("cannot open {}", path.printable());
    let unreadable = |error| unreadable(path, &error);
    let mut start = [0; START_LEN];
    let len = file.read_at(&mut start, 0).map_err(unreadable)?;
    let coding = match &start[..len] {
        [0x1f, 0x8b, ..] => ArchiveCompression::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => ArchiveCompression::Zstd,
        start => {
            if let Some((_, why, hint)) = UNSUPPORTED.iter().find(|(magic, ..)| start.starts_with(magic)) {
                return Err(UserError::new(what(), why, hint));
            }
            let embedded = embedded_site(&file).map_err(unreadable)?.map(|embedded| embedded.site);
            let place = match embedded {
                Some(place) => place,
                None => whole(&file).map_err(unreadable)?,
            };
            return Ok(OpenedArchive { file, place });
        }
    };
    let unpacked = unpack(coding, BufReader::with_capacity(READ_LEN, file), max_unpacked_len)
        .and_then(|file| Ok(OpenedArchive { place: whole(&file)?, file }));
    unpacked.map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => {
            let why = format_args!("it unpacks to more than {}, in memory", size::format(max_unpacked_len));
            let hint = "raise --max-unpacked-size, or unpack it on disk, and name the archive or directory";
            UserError::new(what(), why, hint)
        }
        io::ErrorKind::StorageFull | io::ErrorKind::OutOfMemory => {
            UserError::new(what(), reason(&error), "free some memory")
        }
        _ => {
            let why = "it is incomplete or damaged, and cannot be unpacked";
            UserError::new(what(), why, "write it whole under another name, then rename it")
        }
    })
}

/// Returns the region of the whole file.
fn whole(file: &File) -> io::Result<Region> {
    Ok(Region { at: 0, len: file.metadata()?.len() })
}

/// Types of files that cannot be served but that users try: the first bytes, the reason and the hint.
const UNSUPPORTED: &[(&[u8], &str, &str)] = &[
    (b"Salted__", ENCRYPTED, DECRYPT),
    (b"age-encryption.org/", ENCRYPTED, DECRYPT),
    (b"-----BEGIN AGE ENCRYPTED FILE", ENCRYPTED, DECRYPT),
    (b"-----BEGIN PGP MESSAGE", ENCRYPTED, DECRYPT),
    (b"PK\x03\x04", "it is a zip archive", "unpack it and serve the directory"),
    (b"7z\xbc\xaf\x27\x1c", "it is a 7z archive", "unpack it and serve the directory"),
    (b"\xfd7zXZ\0", "it is compressed with xz", "compress it with gzip or zstd instead, or not at all"),
    (b"BZh", "it is compressed with bzip2", "compress it with gzip or zstd instead, or not at all"),
];
const ENCRYPTED: &str = "it is encrypted";
const DECRYPT: &str = "decrypt it, and serve the tar archive in it";
/// The length of the longest first bytes.
const START_LEN: usize = 29;

/// How an archive is compressed.
#[derive(Clone, Copy)]
enum ArchiveCompression {
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
}

/// Unpacks all members of a gzip file, or all frames of a zstd file, into sealed memory. Fails beyond `len_max` bytes.
fn unpack(coding: ArchiveCompression, mut from: impl BufRead, len_max: u64) -> io::Result<File> {
    let mut to = memory::file()?;
    // One byte more than the limit tells a file of exactly that length from a longer one.
    let read_max = len_max.saturating_add(1);
    let mut len = 0;
    match coding {
        ArchiveCompression::Gzip => len = io::copy(&mut MultiGzDecoder::new(from).take(read_max), &mut to)?,
        ArchiveCompression::Zstd => {
            while len < read_max && !from.fill_buf()?.is_empty() {
                let frame = StreamingDecoder::new(&mut from).map_err(io::Error::other)?;
                len += io::copy(&mut frame.take(read_max - len), &mut to)?;
            }
        }
    }
    if len == read_max {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    memory::freeze(&to)?;
    Ok(to)
}

/// Size of the read buffer, in bytes.
const READ_LEN: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    use std::io::{Seek, Write};

    #[test]
    fn all_members_are_unpacked_up_to_the_limit() {
        let gzip = |content: &[u8]| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(content).and_then(|()| encoder.finish()).expect("memory")
        };
        let zstd = |content: &[u8]| compress_to_vec(content, CompressionLevel::Fastest);
        let cases = [
            ("gzip", ArchiveCompression::Gzip, [gzip(&[b'a'; 500]), gzip(&[b'b'; 500])].concat()),
            ("zstd", ArchiveCompression::Zstd, [zstd(&[b'a'; 500]), zstd(&[b'b'; 500])].concat()),
        ];
        for (name, coding, packed) in cases {
            let mut file = unpack(coding, &packed[..], 1000).expect(name);
            let mut content = Vec::new();
            file.rewind().and_then(|()| file.read_to_end(&mut content)).expect(name);
            assert_eq!(content, [[b'a'; 500], [b'b'; 500]].concat(), "{name}");
            assert!(file.write_all(b"x").is_err(), "{name}: sealed");
            let refused = unpack(coding, &packed[..], 999).expect_err(name);
            assert_eq!(refused.kind(), io::ErrorKind::FileTooLarge, "{name}");
        }
    }
}
