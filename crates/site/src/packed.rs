//! Finds the image in a packed site, a tar archive whose first member is the image, at a fixed offset.
//!
//! ```text
//! 0          512             3584       4096                     end of the image
//! ├ extended ┼ a comment for ┼ header ──┼ image ───────────── ─ ─ ┼ zeros to 512 ┼ other members … ─┤
//! │ header   │ padding       │ .tarpon/ │
//! │ (pax)    │               │ image    │
//! ```
//!
//! Offsets of contents with [`Storage::Archive`](crate::format::Storage::Archive) count from the start of the archive. This module
//! does not read the other members; any tar program can.

use crate::error::ImageError;
use crate::format::{HEADER_LEN, Header};
use crate::region::Region;

/// The offset of the image in a packed site: a multiple of the page size, with room for two headers and a comment before it.
pub const IMAGE_AT: u64 = 4096;
/// The length of the prefix of an archive that [`image_in`] needs.
pub const FRONT_LEN: usize = IMAGE_AT as usize + HEADER_LEN;
/// The directory in an archive for members that the packer adds. It is not a part of the site.
pub const RESERVED_DIR: &str = ".tarpon";
/// The name of the image's member.
pub const IMAGE_NAME: &str = ".tarpon/image";
/// The name of the extended header before it.
pub const FRONT_NAME: &str = ".tarpon/PaxHeaders/image";

/// Returns the region of the image in an archive of `archive_len` bytes, or `None` if the archive is not a packed site. `front` is the
/// start of the archive: at least [`FRONT_LEN`] bytes, or the whole archive if it is shorter.
///
/// # Errors
/// Returns an error if the archive is a packed site, but truncated, appended to, of another version, with a damaged header, or with
/// an image that refers to files beside it.
pub fn image_in(front: &[u8], archive_len: u64) -> Result<Option<Region>, ImageError> {
    if !is_packed(front) {
        return Ok(None);
    }
    let header = front.get(IMAGE_AT as usize..).and_then(|image| image.first_chunk());
    let header = Header::decode(header.ok_or(ImageError::ArchiveLength)?)?;
    if header.archive_len != archive_len {
        return Err(ImageError::ArchiveLength);
    }
    // A packed site contains all its contents.
    if header.file_count != 0 {
        return Err(ImageError::Files);
    }
    let region = Region { at: IMAGE_AT, len: header.len }.within(archive_len);
    region.map(Some).ok_or(ImageError::Length)
}

/// Returns whether an archive begins like a packed site: with an extended header of the right length, then the header of a member
/// named [`IMAGE_NAME`].
fn is_packed(front: &[u8]) -> bool {
    let (Some(extended), Some(member)) = (front.get(..BLOCK_LEN), front.get(MEMBER_AT..)) else {
        return false;
    };
    let named = |block: &[u8], name: &str| {
        block.strip_prefix(name.as_bytes()).is_some_and(|behind| behind.first() == Some(&0))
    };
    named(extended, FRONT_NAME)
        && extended[KIND_AT] == b'x'
        && extended[SIZE_AT..].starts_with(FRONT_SIZE)
        && named(member, IMAGE_NAME)
}

/// The length of a tar header; members are padded to a multiple of it.
const BLOCK_LEN: usize = 512;
/// The offset of the tar header of the image.
const MEMBER_AT: usize = IMAGE_AT as usize - BLOCK_LEN;
/// The offset of the size field, which is octal, in a tar header.
const SIZE_AT: usize = 124;
/// The size field of the extended header: the distance between the two headers.
const FRONT_SIZE: &[u8] = b"00000006000\0";
/// The offset of the type flag in a tar header.
const KIND_AT: usize = 156;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_is_the_distance_between_the_headers() {
        let size = u64::from_str_radix("6000", 8).expect("octal");
        assert_eq!(size, (MEMBER_AT - BLOCK_LEN) as u64);
    }

    #[test]
    #[rustfmt::skip]
    fn image_is_found_or_refused() {
        type Change = fn(&mut Vec<u8>);
        type Found = Result<Option<Region>, ImageError>;
        let found = Ok(Some(Region { at: 4096, len: 900 }));
        let cases: &[(&str, Change, u64, Found)] = &[
            // case                     change to the front                    len  result
            ("as packed",               |_| (),                                5000, found),
            ("more than the front",     |front| front.resize(5000, 0),         5000, found),
            ("another archive",         |front| front[0] = b'x',               5000, Ok(None)),
            ("a longer name",           |front| front[FRONT_NAME.len()] = b'x', 5000, Ok(None)),
            ("no extended header",      |front| front[KIND_AT] = b'0',         5000, Ok(None)),
            ("a longer one",            |front| front[SIZE_AT + 8] = b'7',     5000, Ok(None)),
            ("another member",          |front| front[MEMBER_AT] = b'x',       5000, Ok(None)),
            ("nothing",                 |front| front.clear(),                 0,    Ok(None)),
            ("cut in the comment",      |front| front.truncate(3584),          3584, Ok(None)),
            ("cut in the image header", |front| front.truncate(4097),          4097, Err(ImageError::ArchiveLength)),
            ("cut after it",            |_| (),                                4999, Err(ImageError::ArchiveLength)),
            ("appended to",             |_| (),                                5512, Err(ImageError::ArchiveLength)),
            ("another content",         |front| front[4096] = b'x',            5000, Err(ImageError::Magic)),
            ("another version",         |front| front[4104] = 1,               5000, Err(ImageError::Version { found: 1 })),
            ("damaged",                 |front| front[4200] = 1,               5000, Err(ImageError::HeaderHash)),
            ("external files",          |front| front.splice(4096.., header_with_files()).for_each(drop), 5000, Err(ImageError::Files)),
            ("longer than the archive", |front| front.splice(4096.., header(905, 5000)).for_each(drop), 5000, Err(ImageError::Length)),
            ("wraps around",            |front| front.splice(4096.., header(u64::MAX, 5000)).for_each(drop), 5000, Err(ImageError::Length)),
        ];
        for &(name, change, archive_len, want) in cases {
            let mut front = front();
            change(&mut front);
            assert_eq!(image_in(&front, archive_len), want, "{name}");
        }
    }

    /// Returns the front of a packed site of 5000 bytes, with an image of 900 bytes.
    fn front() -> Vec<u8> {
        let mut front = vec![0; MEMBER_AT];
        front[..FRONT_NAME.len()].copy_from_slice(FRONT_NAME.as_bytes());
        front[SIZE_AT..][..FRONT_SIZE.len()].copy_from_slice(FRONT_SIZE);
        front[KIND_AT] = b'x';
        front.extend_from_slice(IMAGE_NAME.as_bytes());
        front.resize(IMAGE_AT as usize, 0);
        front.extend(header(900, 5000));
        front
    }

    fn header_with_files() -> [u8; HEADER_LEN] {
        Header { len: 900, archive_len: 5000, file_count: 1, ..Header::default() }.encode()
    }

    fn header(len: u64, archive_len: u64) -> [u8; HEADER_LEN] {
        Header { len, archive_len, ..Header::default() }.encode()
    }
}
