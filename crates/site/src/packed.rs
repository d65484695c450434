//! A packed site: a tar archive whose first member is the image, at a fixed place.
//!
//! ```text
//! 0          512                 3584       4096                     end of the image
//! ├ extended ┼ one comment, which ┼ header ──┼ image ───────────── ─ ─ ┼ zeros to 512 ┼ other members … ─┤
//! │ header   │ pads               │ .tarpon/ │ home `archive` counts                    from 0
//! │ (pax)    │                    │ image    │
//! ```
//!
//! Knows nothing of the other members: tar programs read those.

use crate::error::ImageError;
use crate::format::{HEADER_LEN, Header};
use crate::region::Region;

/// Where the image lies in a packed site: the least multiple of a page with room for two headers and a comment.
pub const IMAGE_AT: u64 = 4096;
/// How much of an archive [`image_in`] must see.
pub const FRONT_LEN: usize = IMAGE_AT as usize + HEADER_LEN;
/// The directory of an archive that is no part of the site: what the packer adds lies in it.
pub const RESERVED_DIR: &str = ".tarpon";
/// The name of the member that is the image.
pub const IMAGE_NAME: &str = ".tarpon/image";
/// The name of the extended header before it.
pub const FRONT_NAME: &str = ".tarpon/PaxHeaders/image";

/// Where the image lies in an archive of `archive_len` bytes that begins with `front`, [`FRONT_LEN`] bytes at least
/// if it has so many. None: it is no packed site, but perhaps another tar archive.
///
/// # Errors
/// It is a packed site, but cut short, longer than it was, of another version, its header is damaged, or its image wants
/// files beside it.
pub fn image_in(front: &[u8], archive_len: u64) -> Result<Option<Region>, ImageError> {
    if !is_packed(front) {
        return Ok(None);
    }
    let header = front.get(IMAGE_AT as usize..).and_then(|image| image.first_chunk());
    let header = Header::decode(header.ok_or(ImageError::ArchiveLength)?)?;
    if header.archive_len != archive_len {
        return Err(ImageError::ArchiveLength);
    }
    // All that is served lies in the archive.
    if header.file_count != 0 {
        return Err(ImageError::Files);
    }
    let place = Region { at: IMAGE_AT, len: header.len }.within(archive_len);
    place.map(Some).ok_or(ImageError::Length)
}

/// Whether an archive begins as packed sites do: with an extended header of a length that leads to the header of a
/// member named [`IMAGE_NAME`].
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

/// Bytes of a header, and what contents are padded to.
const BLOCK_LEN: usize = 512;
/// Where the header of the image's member lies.
const MEMBER_AT: usize = IMAGE_AT as usize - BLOCK_LEN;
/// In a header: the size of the content, octal.
const SIZE_AT: usize = 124;
/// The extended header's: what lies between it and the other.
const FRONT_SIZE: &[u8] = b"00000006000\0";
/// In a header: the kind of member.
const KIND_AT: usize = 156;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_is_what_lies_between() {
        let size = u64::from_str_radix("6000", 8).expect("octal");
        assert_eq!(size, (MEMBER_AT - BLOCK_LEN) as u64);
    }

    #[test]
    #[rustfmt::skip]
    fn an_image_is_found_where_it_lies() {
        type Change = fn(&mut Vec<u8>);
        type Found = Result<Option<Region>, ImageError>;
        let there = Ok(Some(Region { at: 4096, len: 900 }));
        let cases: &[(&str, Change, u64, Found)] = &[
            // case                     what is done to the front              of   what is found
            ("as packed",               |_| (),                                5000, there),
            ("more than the front",     |front| front.resize(5000, 0),         5000, there),
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
            ("damaged",                 |front| front[4200] = 1,               5000, Err(ImageError::HeaderHash)),
            ("files beside it",         |front| front.splice(4096.., filed()).for_each(drop), 5000, Err(ImageError::Files)),
            ("longer than the archive", |front| front.splice(4096.., header(905, 5000)).for_each(drop), 5000, Err(ImageError::Length)),
            ("wraps around",            |front| front.splice(4096.., header(u64::MAX, 5000)).for_each(drop), 5000, Err(ImageError::Length)),
        ];
        for &(name, change, archive_len, want) in cases {
            let mut front = front();
            change(&mut front);
            assert_eq!(image_in(&front, archive_len), want, "{name}");
        }
    }

    /// The front of a packed site of 5000 bytes, with an image of 900.
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

    fn filed() -> [u8; HEADER_LEN] {
        Header { len: 900, archive_len: 5000, file_count: 1, ..Header::default() }.encode()
    }

    fn header(len: u64, archive_len: u64) -> [u8; HEADER_LEN] {
        Header { len, archive_len, ..Header::default() }.encode()
    }
}
