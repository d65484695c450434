//! Opens a packed site.

use super::embed::embedded_site;
use super::error::OpenError;
use super::fingerprint::Fingerprint;
use bytes::Bytes;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use tarpon_site::format::{HEADER_LEN, Header, hash};
use tarpon_site::packed::{FRONT_LEN, image_in};
use tarpon_site::{Content, Image, ImageError, Region, Variant};

/// An open packed site.
#[derive(Debug)]
pub(crate) struct OpenedSite {
    pub(crate) image: Image,
    /// Offset of the image in the archive.
    pub(crate) image_at: u64,
    /// Offset of the archive in its file.
    archive_at: u64,
}

impl OpenedSite {
    /// Opens an archive.
    pub(crate) fn new(archive: &File) -> Result<OpenedSite, OpenError> {
        let len = archive.metadata().map_err(OpenError::Read)?.len();
        OpenedSite::at(archive, Region { at: 0, len })
    }

    /// Opens an archive, or the embedded archive of a program.
    pub(crate) fn new_or_embedded(file: &File) -> Result<OpenedSite, OpenError> {
        match embedded_site(file).map_err(OpenError::Read)? {
            Some(carried) => OpenedSite::at(file, carried.site),
            None => OpenedSite::new(file),
        }
    }

    fn at(file: &File, archive: Region) -> Result<OpenedSite, OpenError> {
        let mut front = vec![0; archive.len.min(FRONT_LEN as u64) as usize];
        read(file, &mut front, archive.at)?;
        let place = image_in(&front, archive.len).map_err(OpenError::Image)?.ok_or(OpenError::NotPacked)?;
        // `image_in` limits the length to that of the archive, so a forged header cannot allocate more.
        let mut bytes = vec![0; place.len as usize];
        read(file, &mut bytes, archive.at + place.at)?;
        let image = Image::new(Bytes::from(bytes)).map_err(OpenError::Image)?;
        Ok(OpenedSite { image, image_at: place.at, archive_at: archive.at })
    }

    /// Returns the offset of a content in the file. `None`: the content is in a file of its own, which packed sites do not have.
    pub(crate) fn offset_of(&self, content: Content) -> Option<u64> {
        let at = match content {
            Content::Image(place) => self.image_at + place.at,
            Content::Archive(place) => place.at,
            Content::File { .. } => return None,
        };
        Some(self.archive_at + at)
    }

    /// Returns the header of the image.
    pub(crate) fn header(&self) -> Header {
        let front = self.image.as_bytes().first_chunk().expect("an image has a header");
        Header::decode(front).expect("the image was decoded before")
    }

    /// Returns whether records, fields and small contents match the checksum in the header.
    pub(crate) fn is_body_good(&self) -> bool {
        let Header { pages_at, body_hash, .. } = self.header();
        hash(&self.image.as_bytes()[HEADER_LEN..pages_at as usize]) == body_hash
    }
}

fn read(archive: &File, to: &mut [u8], at: u64) -> Result<(), OpenError> {
    archive.read_exact_at(to, at).map_err(|error| match error.kind() {
        // The file became shorter.
        io::ErrorKind::UnexpectedEof => OpenError::Image(ImageError::ArchiveLength),
        _ => OpenError::Read(error),
    })
}

/// Returns the fingerprint of a content, from its entity-tag.
pub(crate) fn stored_fingerprint(image: &Image, variant: &Variant) -> Option<Fingerprint> {
    Some(Fingerprint { len: variant.content.len(), hash: etag_hash(image.bytes(variant.etag))? })
}

/// Returns the hash in an entity-tag.
fn etag_hash(etag: &[u8]) -> Option<u128> {
    let digits = etag.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let digits = std::str::from_utf8(digits).ok().filter(|digits| digits.len() == 32)?;
    u128::from_str_radix(digits, 16).ok()
}
