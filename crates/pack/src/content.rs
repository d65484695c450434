//! The content of one file: read once, so that its length, its hash and its bytes agree even if another process writes to it.
//!
//! ```text
//! open ─┬─ small ─▶ read into memory
//!       └─ large ─▶ known from the build cache, or read in blocks for its hash; the file stays open
//!                   all large files together too long to read ─▶ the hash is that of the file's identity
//! ```
//!
//! The identity is that of `build_cache.rs`: device, inode, length and times. So the tag of a file stays as long as its content does, and changes with
//! it, without a read. It differs from machine to machine, which is why the contents of usual sites are read.

use crate::archive::MemberContent;
use crate::build_cache::{ContentCache, ContentInfo, FileIdentity};
use crate::error::PackError;
use crate::media::{SniffedType, may_be_text};
use crate::options::PackOptions;
use crate::walk::TreeFile;
use rustix::fs::{Advice, fadvise};
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use tarpon_site::format::Storage;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// The content of a file, and its properties.
#[derive(Debug)]
pub(crate) struct FileContent {
    pub(crate) source: ContentPlace,
    /// In bytes.
    pub(crate) len: u64,
    /// XXH3-128.
    pub(crate) hash: u128,
    pub(crate) sniffed: SniffedType,
    /// Seconds since 1970.
    pub(crate) last_modified: u64,
}

/// The place of a content's bytes.
#[derive(Debug)]
pub(crate) enum ContentPlace {
    InMemory(Vec<u8>),
    OnDisk(File),
    /// At a place in the image or the archive, or a file with a number: the writer has written it already, or the archive has it.
    Placed(Storage, u64),
}

impl FileContent {
    /// A content that the packer has generated.
    pub(crate) fn of(bytes: impl Into<Vec<u8>>) -> FileContent {
        let bytes = bytes.into();
        let (len, hash, sniffed) = (bytes.len() as u64, xxh3_128(&bytes), SniffedType::of(&bytes));
        FileContent { source: ContentPlace::InMemory(bytes), len, hash, sniffed, last_modified: 0 }
    }

    /// Returns the same content at a place.
    pub(crate) fn at(&self, home: Storage, at: u64) -> FileContent {
        FileContent { source: ContentPlace::Placed(home, at), ..*self }
    }
}

/// Where the hashes of large contents come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HashSource {
    Content,
    /// The identity of the file.
    Identity,
}

impl HashSource {
    /// Returns the source for contents of these lengths.
    pub(crate) fn of(lens: impl Iterator<Item = u64>, options: &PackOptions) -> HashSource {
        let len = lens.filter(|&len| len > options.file_len_min).fold(0, u64::saturating_add);
        if len > options.read_len_max { HashSource::Identity } else { HashSource::Content }
    }
}

/// Reads a file. Returns `None` if it no longer exists, or is no regular file.
pub(crate) fn read(
    file: &TreeFile,
    hash: HashSource,
    options: &PackOptions,
    cache: &mut ContentCache,
) -> Result<Option<FileContent>, PackError> {
    let Some((opened, meta)) = file.open()? else { return Ok(None) };
    let name = file.path.file_name().map(OsStrExt::as_bytes).unwrap_or_default();
    read_open(opened, &meta, name, hash, options, cache).map(Some).map_err(|error| file.unreadable(error))
}

/// Reads the first `len` bytes of a file. Returns `None` if it no longer exists, or is no regular file.
pub(crate) fn read_start(file: &TreeFile, len: u64) -> Result<Option<Vec<u8>>, PackError> {
    let Some((opened, _)) = file.open()? else { return Ok(None) };
    let mut text = Vec::new();
    let read = opened.take(len).read_to_end(&mut text);
    read.map(|_| Some(text)).map_err(|error| file.unreadable(error))
}

/// Reads a member of an archive. Sniffs as much of it as of a file, so that both get the same fields. `name`: the last part of its path.
pub(crate) fn read_member(
    archive: &File,
    member: MemberContent,
    name: &[u8],
    hash: HashSource,
    options: &PackOptions,
) -> io::Result<FileContent> {
    let MemberContent { at, len, modified_s, .. } = member;
    let mut bytes = OffsetReader { file: archive, at }.take(len);
    let info = if len <= options.file_len_min {
        let mut content = Vec::with_capacity(len as usize);
        bytes.read_to_end(&mut content)?;
        ContentInfo {
            len: content.len() as u64,
            hash: xxh3_128(&content),
            sniffed: SniffedType::of(&content),
        }
    } else if hash == HashSource::Content {
        hash_blocks(&mut bytes)?
    } else {
        let meta = archive.metadata()?;
        // The archive may have become shorter since it was listed.
        let is_whole = at.checked_add(len).is_some_and(|end| end <= meta.len());
        let identity = FileIdentity::of(&meta).hash(options.now);
        ContentInfo {
            len: if is_whole { len } else { 0 },
            hash: member_identity_hash(identity, at, len),
            sniffed: sniff_start(archive, at, len, name)?,
        }
    };
    if info.len != len {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let last_modified = modified_s.min(options.now);
    let source = ContentPlace::Placed(Storage::Archive, at);
    Ok(FileContent { source, len, hash: info.hash, sniffed: info.sniffed, last_modified })
}

/// Returns the hash of a member that is known by the identity of its archive, of which this is the hash, and by its place there.
pub(crate) fn member_identity_hash(archive: u128, at: u64, len: u64) -> u128 {
    content_hash(format!("{archive} {at} {len}").as_bytes())
}

/// Reads a file from an offset on, and does not move the position of the descriptor.
pub(crate) struct OffsetReader<'f> {
    pub(crate) file: &'f File,
    pub(crate) at: u64,
}

impl Read for OffsetReader<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let len = self.file.read_at(to, self.at)?;
        self.at += len as u64;
        Ok(len)
    }
}

fn read_open(
    file: File,
    meta: &Metadata,
    name: &[u8],
    hash: HashSource,
    options: &PackOptions,
    cache: &mut ContentCache,
) -> io::Result<FileContent> {
    let identity = FileIdentity::of(meta);
    // A time before 1970 becomes 0.
    let last_modified = u64::try_from(identity.modified_s()).unwrap_or(0).min(options.now);
    // Up to the length at the time of opening: a log that grows as fast as the packer reads would have no end.
    let mut bytes = (&file).take(meta.len());
    if meta.len() <= options.file_len_min {
        let mut content = Vec::with_capacity(meta.len() as usize);
        bytes.read_to_end(&mut content)?;
        return Ok(FileContent { last_modified, ..FileContent::of(content) });
    }
    let info = match cache.get(&identity) {
        Some(info) => info,
        None => {
            let info = match hash {
                HashSource::Content => hash_blocks(&mut bytes)?,
                HashSource::Identity => ContentInfo {
                    len: meta.len(),
                    hash: identity.hash(options.now),
                    sniffed: sniff_start(&file, 0, meta.len(), name)?,
                },
            };
            if identity.is_settled(options.now) && FileIdentity::of(&file.metadata()?) == identity {
                cache.insert(identity, info);
            }
            info
        }
    };
    let ContentInfo { len, hash, sniffed } = info;
    Ok(FileContent { source: ContentPlace::OnDisk(file), len, hash, sniffed, last_modified })
}

/// Reads the first bytes of a large content, which lies at a place of a file, for its media type: a text has enough to tell its charset. Reads nothing ahead, which would take as long as
/// the whole of many files.
fn sniff_start(file: &File, at: u64, len: u64, name: &[u8]) -> io::Result<SniffedType> {
    let len = len.min(if may_be_text(name) { TEXT_START_LEN } else { START_LEN });
    let mut block = vec![0; len as usize];
    // It costs time only if it fails.
    let _ = fadvise(file, 0, None, Advice::Random);
    let filled = read_block(&mut OffsetReader { file, at }, &mut block);
    let _ = fadvise(file, 0, None, Advice::Normal);
    Ok(SniffedType::of_prefix(&block[..filled?]))
}

/// Bytes of a text that [`sniff_start`] reads.
const TEXT_START_LEN: u64 = 16 << 10;
/// Bytes of another content: a page, in which each magic number lies.
const START_LEN: u64 = 4 << 10;

/// Reads in blocks, for hash and media type only.
pub(crate) fn hash_blocks(from: &mut impl Read) -> io::Result<ContentInfo> {
    let mut block = vec![0; BLOCK_LEN];
    let mut hasher = Xxh3::new();
    let mut len = 0;
    let mut sniffed = None;
    loop {
        let filled = read_block(from, &mut block)?;
        hasher.update(&block[..filled]);
        len += filled as u64;
        let sniffed = *sniffed.get_or_insert_with(|| match filled < block.len() {
            true => SniffedType::of(&block[..filled]),
            false => SniffedType::of_prefix(&block),
        });
        if filled < block.len() {
            return Ok(ContentInfo { len, hash: hasher.digest128(), sniffed });
        }
    }
}

/// Reads until the block is full or the file ends.
fn read_block(from: &mut impl Read, block: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < block.len() {
        match from.read(&mut block[filled..]) {
            Ok(0) => break,
            Ok(len) => filled += len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Bytes of a large file that are read at once. The first block decides the media type.
const BLOCK_LEN: usize = 64 << 10;

/// Returns the XXH3 hash of some bytes.
pub fn content_hash(bytes: &[u8]) -> u128 {
    xxh3_128(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::DirTree;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::{fs, os::unix, sync::Arc};

    #[test]
    fn file_replaced_by_something_else_is_not_served() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        fs::write(at("file"), "x").expect("a file");
        fs::create_dir(at("directory")).expect("a directory");
        unix::fs::symlink(at("file"), at("link")).expect("a link");
        mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RUSR, 0).expect("a FIFO");
        drop(unix::net::UnixListener::bind(at("socket")).expect("a socket"));
        let tree = Arc::new(DirTree::open(dir.path()).expect("a tree"));
        let cases = [
            ("file", true),
            ("file/below", false),
            ("gone", false),
            ("directory", false),
            ("link", false),
            ("fifo", false),
            ("socket", false),
        ];
        for (name, served) in cases {
            let file = TreeFile { tree: Arc::clone(&tree), path: name.into() };
            let content =
                read(&file, HashSource::Content, &PackOptions::new(0), &mut ContentCache::default())
                    .expect(name);
            assert_eq!(content.is_some(), served, "{name}");
        }
    }

    #[test]
    fn hash_in_blocks_equals_the_hash_of_the_whole() {
        for len in [0, 1, BLOCK_LEN - 1, BLOCK_LEN, BLOCK_LEN + 1, 3 * BLOCK_LEN, 3 * BLOCK_LEN + 7] {
            let bytes: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
            let info = hash_blocks(&mut &bytes[..]).expect("memory can be read");
            assert_eq!((info.len, info.hash), (len as u64, xxh3_128(&bytes)), "{len}");
        }
    }
}
