//! An archive as a file that can be read at any place: the file itself, or, if it is compressed, what it unpacks to.
//!
//! ```text
//! site.tar ────────────────────────────▶ its own descriptor ─┬─ map ─▶ small contents
//! site.tar.gz, site.tar.zst ─ unpack ──▶ a sealed memfd ─────┴───────▶ large contents
//! program that carries a site ─────────▶ a stretch of its descriptor, the same
//! ```
//!
//! What it is, its first bytes tell, whatever its name. Knows nothing of members.

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

/// An archive that is served from.
#[derive(Debug)]
pub(crate) struct Archive {
    /// What it lies in.
    pub(crate) file: File,
    /// Where it begins there.
    pub(crate) at: u64,
    pub(crate) map: Arc<Mapped>,
    /// It lies in memory, and in huge pages where the system allows.
    pub(crate) is_preloaded: bool,
}

/// An archive that was opened.
pub(crate) struct OpenedArchive {
    file: File,
    /// Where it lies in the file.
    place: Region,
}

impl Archive {
    /// Opens an archive, unpacks it into memory if it is compressed, copies it there if it is to be preloaded, and maps
    /// it.
    pub(crate) fn new(path: &Path, max_unpacked_len: u64, preload: bool) -> Result<Archive, UserError> {
        Archive::of(open(path, max_unpacked_len)?, path, preload)
    }

    /// The same with a file that is open. `path` is its name in errors.
    pub(crate) fn from_file(
        file: File,
        path: &Path,
        max_unpacked_len: u64,
        preload: bool,
    ) -> Result<Archive, UserError> {
        Archive::of(look_into(file, path, max_unpacked_len)?, path, preload)
    }

    fn of(opened: OpenedArchive, path: &Path, preload: bool) -> Result<Archive, UserError> {
        let OpenedArchive { file, place } = if preload { opened.copied(path)? } else { opened };
        Archive::from_region(file, place, preload).map_err(|error| {
            let what = format_args!("cannot map {}", path.printable());
            UserError::new(
                what,
                reason(&error),
                "serve it from a local file system, or serve fewer archives at once",
            )
        })
    }

    /// Maps an archive that lies at this place of a file.
    pub(crate) fn from_region(file: File, place: Region, is_preloaded: bool) -> io::Result<Archive> {
        let map = Mapped::new(&file, place, is_preloaded)?;
        Ok(Archive { file, at: place.at, map: Arc::new(map), is_preloaded })
    }

    /// The image in it, if it is a packed site.
    pub(crate) fn image(&self) -> Result<Option<Image>, ImageError> {
        let len = self.map.len();
        let front = Region { at: 0, len: len.min(packed::FRONT_LEN as u64) };
        let front = self.map.bytes(front).unwrap_or_default();
        let Some(place) = packed::image_in(front, len)? else { return Ok(None) };
        Image::new(self.map.image(place).ok_or(ImageError::Length)?).map(Some)
    }
}

impl OpenedArchive {
    /// A copy in memory, in huge pages where the system allows.
    fn copied(mut self, path: &Path) -> Result<OpenedArchive, UserError> {
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

/// Opens an archive as a file of its own: one that a program carries is copied into memory, as one that is unpacked is.
pub(crate) fn open_as_file(path: &Path, max_unpacked_len: u64) -> Result<File, UserError> {
    let opened = open(path, max_unpacked_len)?;
    Ok(if opened.place.at == 0 { opened.file } else { opened.copied(path)?.file })
}

/// Opens an archive, and unpacks it into memory if it is compressed: into so many bytes at most.
fn open(path: &Path, max_unpacked_len: u64) -> Result<OpenedArchive, UserError> {
    // Does not wait for the writer of a FIFO.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    look_into(file.map_err(|error| unreadable(path, &error))?, path, max_unpacked_len)
}

/// Returns the message for an archive that cannot be read.
pub(crate) fn unreadable(path: &Path, error: &io::Error) -> UserError {
    let what = format_args!("cannot open {}", path.printable());
    UserError::new(what, reason(error), "name a directory or tar archive that exists and may be read")
}

/// Tells what a file is, and unpacks it into memory if it is compressed.
fn look_into(file: File, path: &Path, max_unpacked_len: u64) -> Result<OpenedArchive, UserError> {
    let what = || format!("cannot open {}", path.printable());
    let unreadable = |error| unreadable(path, &error);
    let mut start = [0; START_LEN];
    let len = file.read_at(&mut start, 0).map_err(unreadable)?;
    let coding = match &start[..len] {
        [0x1f, 0x8b, ..] => ArchiveCompression::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => ArchiveCompression::Zstd,
        start => {
            if let Some((_, why, remedy)) = OTHERS.iter().find(|(magic, ..)| start.starts_with(magic)) {
                return Err(UserError::new(what(), why, remedy));
            }
            let carried = embedded_site(&file).map_err(unreadable)?.map(|carried| carried.site);
            let place = match carried {
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
            let remedy = "raise --max-unpacked-size, or unpack it on disk, and name the archive or directory";
            UserError::new(what(), why, remedy)
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

fn whole(file: &File) -> io::Result<Region> {
    Ok(Region { at: 0, len: file.metadata()?.len() })
}

/// First bytes of what is often taken for an archive that can be served, what it is, and what to do.
const OTHERS: &[(&[u8], &str, &str)] = &[
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
/// As long as the longest of them.
const START_LEN: usize = 29;

/// How an archive is compressed.
#[derive(Clone, Copy)]
enum ArchiveCompression {
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
}

/// Unpacks into memory: all members of a gzip file, all frames of a zstd file. At most `len_max` bytes.
fn unpack(coding: ArchiveCompression, mut from: impl BufRead, len_max: u64) -> io::Result<File> {
    let mut to = memory::file()?;
    // One byte more, to tell what ends there from what goes on.
    let more = len_max.saturating_add(1);
    let mut len = 0;
    match coding {
        ArchiveCompression::Gzip => len = io::copy(&mut MultiGzDecoder::new(from).take(more), &mut to)?,
        ArchiveCompression::Zstd => {
            while len < more && !from.fill_buf()?.is_empty() {
                let frame = StreamingDecoder::new(&mut from).map_err(io::Error::other)?;
                len += io::copy(&mut frame.take(more - len), &mut to)?;
            }
        }
    }
    if len == more {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    memory::freeze(&to)?;
    Ok(to)
}

/// Bytes read at once.
const READ_LEN: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    use std::io::{Seek, Write};

    #[test]
    fn all_parts_are_unpacked_up_to_a_limit() {
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
