//! The headers of a tar member. POSIX.1-2017, pax, "ustar Interchange Format" and "pax Extended Header".
//!
//! ```text
//! [ header of 'x' ][ records, perhaps with a comment as padding ] [ header ][ data ][ zeros to 512 ]
//!  └────────────── only if necessary ─────────────────────────┘            └ at a multiple of 4096, if aligned
//! ```
//!
//! Owner and group are 0, without names, so that an archive does not depend on the machine that made it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use tar::{EntryType, Header};
use tarpon_site::format::CONTENT_ALIGN;

/// The headers of a member.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TarMember<'m> {
    pub(crate) name: &'m [u8],
    pub(crate) member_type: MemberType<'m>,
    /// Bytes of data.
    pub(crate) len: u64,
    pub(crate) mode: u32,
    /// Seconds since 1970.
    pub(crate) modified_s: u64,
    /// Whether the data begins at a multiple of [`CONTENT_ALIGN`].
    pub(crate) aligned: bool,
}

/// The type of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemberType<'m> {
    File,
    /// A directory, without data. Its name ends in a slash.
    Dir,
    /// A hard link to this name, without data.
    Link(&'m [u8]),
}

impl MemberType<'_> {
    fn link(&self) -> Option<&[u8]> {
        match self {
            MemberType::Link(name) => Some(name),
            MemberType::File | MemberType::Dir => None,
        }
    }
}

impl TarMember<'_> {
    /// Returns the headers of a member at the offset `at`. The data follows them.
    pub(crate) fn headers(&self, at: u64) -> Vec<u8> {
        let mut header = Header::new_ustar();
        let mut records = Vec::new();
        if header.set_path(as_path(self.name)).is_err() {
            record(&mut records, "path", self.name);
            // For programs that do not know extended headers.
            header.as_old_mut().name = truncated(self.name);
        }
        let link = self.member_type.link();
        if let Some(link) = link
            && header.set_link_name_literal(link).is_err()
        {
            record(&mut records, "linkpath", link);
            header.as_old_mut().linkname = truncated(link);
        }
        if [Some(self.name), link].into_iter().flatten().any(|name| std::str::from_utf8(name).is_err())
            && !records.is_empty()
        {
            // POSIX requires this record for names that are not UTF-8. GNU tar does not know it, warns, and extracts the member. Without
            // it, bsdtar extracts the member, but reports an error.
            let mut charset = Vec::new();
            record(&mut charset, "hdrcharset", b"BINARY");
            records = [charset, records].concat();
        }
        if self.len > OCTAL_MAX {
            record(&mut records, "size", self.len.to_string().as_bytes());
        }
        header.set_entry_type(match self.member_type {
            MemberType::File => EntryType::Regular,
            MemberType::Dir => EntryType::Directory,
            MemberType::Link(_) => EntryType::Link,
        });
        common(&mut header, self.len.min(OCTAL_MAX), self.mode, self.modified_s);
        let shifted = self.aligned && !(at + BLOCK_LEN).is_multiple_of(CONTENT_ALIGN);
        if shifted || !records.is_empty() {
            // Where the data would begin without padding.
            let least = (records.len() as u64).next_multiple_of(BLOCK_LEN).max(BLOCK_LEN);
            let data_at = at + 2 * BLOCK_LEN + least;
            if self.aligned {
                pad(&mut records, least + data_at.next_multiple_of(CONTENT_ALIGN) - data_at, "");
            }
            return extended(EXTENDED_NAME, records).into_iter().chain(*header.as_bytes()).collect();
        }
        header.as_bytes().to_vec()
    }
}

/// Returns the front of a packed site, before its image of `len` bytes: [`IMAGE_AT`](tarpon_site::packed::IMAGE_AT) bytes.
pub(crate) fn front(len: u64, modified_s: u64) -> Vec<u8> {
    use tarpon_site::packed::{FRONT_NAME, IMAGE_AT, IMAGE_NAME};
    let mut records = Vec::new();
    if len > OCTAL_MAX {
        record(&mut records, "size", len.to_string().as_bytes());
    }
    pad(&mut records, IMAGE_AT - 2 * BLOCK_LEN, FRONT_COMMENT);
    let mut header = Header::new_ustar();
    header.set_path(IMAGE_NAME).expect("a short name");
    header.set_entry_type(EntryType::Regular);
    common(&mut header, len.min(OCTAL_MAX), OWN_MODE, modified_s);
    extended(FRONT_NAME, records).into_iter().chain(*header.as_bytes()).collect()
}

/// Returns an extended header with its records, padded to the next block.
fn extended(name: &str, mut records: Vec<u8>) -> Vec<u8> {
    let mut header = Header::new_ustar();
    header.set_path(name).expect("a short name");
    header.set_entry_type(EntryType::XHeader);
    common(&mut header, records.len() as u64, OWN_MODE, 0);
    records.resize(records.len().next_multiple_of(BLOCK_LEN as usize), 0);
    [header.as_bytes(), &records[..]].concat()
}

fn common(header: &mut Header, len: u64, mode: u32, modified_s: u64) {
    header.set_size(len);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(modified_s.min(OCTAL_MAX));
    header.set_cksum();
}

/// Adds a record: its length, which includes the digits of the length itself, a key and a value.
fn record(to: &mut Vec<u8>, key: &str, value: &[u8]) {
    let rest = key.len() + value.len() + 3;
    let mut len = rest + 1;
    while len != rest + len.to_string().len() {
        len = rest + len.to_string().len();
    }
    to.extend_from_slice(format!("{len} {key}=").as_bytes());
    to.extend_from_slice(value);
    to.push(b'\n');
}

/// Pads the records to `len` bytes with a comment that begins with `text`. Adds nothing if there is too little room for a comment; zeros
/// fill that room.
fn pad(records: &mut Vec<u8>, len: u64, text: &str) {
    let rest = len as usize - records.len();
    let comment = format!("{rest} comment={text}");
    if comment.len() < rest {
        records.extend_from_slice(comment.as_bytes());
        records.resize(len as usize - 1, b' ');
        records.push(b'\n');
    }
}

/// Returns the first bytes of a name that is too long.
fn truncated(name: &[u8]) -> [u8; 100] {
    let mut field = [0; 100];
    let len = name.len().min(field.len());
    field[..len].copy_from_slice(&name[..len]);
    field
}

fn as_path(name: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(name))
}

/// The mode of members that are not part of the site: all users may read them.
pub(crate) const OWN_MODE: u32 = 0o644;
/// Length of a header. Data is padded to a multiple of it.
pub(crate) const BLOCK_LEN: u64 = 512;
/// The largest number of eleven octal digits.
const OCTAL_MAX: u64 = (1 << 33) - 1;
/// The name of extended headers, which only programs that do not know such headers show.
const EXTENDED_NAME: &str = ".tarpon/PaxHeaders/member";
/// For users who view the first bytes of the archive.
const FRONT_COMMENT: &str = "A static site, packed by tarpon: `tarpon serve` serves this archive as it is, `tar -xf` \
    extracts it. The directory .tarpon is not part of the site; its files belong to this archive only.";

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn member_headers_can_be_read_back() {
        let long = "n/".repeat(130) + "name";
        let names: [&[u8]; 6] = [b"a", b"dir/a b", &[b'n'; 100], &[b'n'; 101], long.as_bytes(), b"caf\xe9"];
        let dirs = names.map(|name| [name, b"/"].concat());
        let links = [&b"b"[..], &[b'l'; 101], long.as_bytes()].map(MemberType::Link);
        let types = || [MemberType::File].into_iter().chain(links);
        let files = names.iter().flat_map(|name| types().map(|member_type| (*name, member_type)));
        for (name, member_type) in files.chain(dirs.iter().map(|name| (&name[..], MemberType::Dir))) {
            for (block, aligned) in (0..9).flat_map(|block| [(block, false), (block, true)]) {
                let (at, len) = (block * BLOCK_LEN, if member_type == MemberType::File { 5 } else { 0 });
                let member =
                    TarMember { name, member_type, len, mode: 0o751, modified_s: 784_111_777, aligned };
                let headers = member.headers(at);
                let what = format!("{member:?} at {at}");
                assert!(headers.len() as u64 <= 2 * CONTENT_ALIGN, "{what}");
                assert!(!aligned || (at + headers.len() as u64).is_multiple_of(CONTENT_ALIGN), "{what}");
                let archive = [&headers[..], b"hello", &[0; 507 + 1024]].concat();
                let mut archive = tar::Archive::new(&archive[..]);
                let mut entry =
                    archive.entries().expect("an archive").next().expect("a member").expect("a header");
                assert_eq!(&*entry.path_bytes(), name, "{what}");
                assert_eq!(entry.link_name_bytes().as_deref(), member_type.link(), "{what}");
                assert_eq!(entry.header().entry_type().is_dir(), member_type == MemberType::Dir, "{what}");
                assert_eq!(entry.header().mode().ok(), Some(0o751), "{what}");
                assert_eq!((entry.size(), entry.header().mtime().ok()), (len, Some(784_111_777)), "{what}");
                let mut content = String::new();
                entry.read_to_string(&mut content).expect("content");
                assert_eq!(content, &"hello"[..len as usize], "{what}");
            }
        }
    }

    #[test]
    fn size_beyond_octal_digits_goes_into_a_record() {
        for (len, record) in [(OCTAL_MAX, ""), (OCTAL_MAX + 1, "19 size=8589934592\n")] {
            let (name, member_type): (&[u8], _) = (b"large", MemberType::File);
            let member = TarMember { name, member_type, len, mode: 0o644, modified_s: 0, aligned: false };
            let headers = member.headers(0);
            let records = if record.is_empty() { &[][..] } else { &headers[512..][..record.len()] };
            assert_eq!(records, record.as_bytes());
            let front = front(len, 0);
            assert_eq!(front.len() as u64, tarpon_site::packed::IMAGE_AT);
            assert!(front[512..].starts_with(record.as_bytes()));
        }
    }
}
