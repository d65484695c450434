//! A packed site, opened to be looked at.

use super::decode::Fingerprint;
use super::embed::embedded_site;
use super::error::OpenError;
use bytes::Bytes;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use tarpon_site::format::{HEADER_LEN, Header, hash};
use tarpon_site::packed::{FRONT_LEN, image_in};
use tarpon_site::{Content, Image, ImageError, Region, Variant};

/// A packed site.
#[derive(Debug)]
pub(crate) struct OpenedSite {
    pub(crate) image: Image,
    /// Where the image lies in the archive.
    pub(crate) image_at: u64,
    /// Where the archive lies in its file.
    archive_at: u64,
}

impl OpenedSite {
    /// Reads the image of an archive.
    pub(crate) fn new(archive: &File) -> Result<OpenedSite, OpenError> {
        let len = archive.metadata().map_err(OpenError::Read)?.len();
        OpenedSite::at(archive, Region { at: 0, len })
    }

    /// The same of an archive, or of the one that a program carries.
    pub(crate) fn of(file: &File) -> Result<OpenedSite, OpenError> {
        match embedded_site(file).map_err(OpenError::Read)? {
            Some(carried) => OpenedSite::at(file, carried.site),
            None => OpenedSite::new(file),
        }
    }

    fn at(file: &File, archive: Region) -> Result<OpenedSite, OpenError> {
        let mut front = vec![0; archive.len.min(FRONT_LEN as u64) as usize];
        read(file, &mut front, archive.at)?;
        let place = image_in(&front, archive.len).map_err(OpenError::Image)?.ok_or(OpenError::NotPacked)?;
        // No longer than the archive, so a header that lies cannot ask for more than there is.
        let mut bytes = vec![0; place.len as usize];
        read(file, &mut bytes, archive.at + place.at)?;
        let image = Image::new(Bytes::from(bytes)).map_err(OpenError::Image)?;
        Ok(OpenedSite { image, image_at: place.at, archive_at: archive.at })
    }

    /// Where in the file a content begins. None: it lies in another one, which no packed site has.
    pub(crate) fn place_of(&self, content: Content) -> Option<u64> {
        let at = match content {
            Content::Image(place) => self.image_at + place.at,
            Content::Archive(place) => place.at,
            Content::File { .. } => return None,
        };
        Some(self.archive_at + at)
    }

    /// The header of the image.
    pub(crate) fn header(&self) -> Header {
        let front = self.image.as_bytes().first_chunk().expect("an image has a header");
        Header::decode(front).expect("it was decoded before")
    }

    /// Whether records, fields and small contents have the sum that the header tells.
    pub(crate) fn is_body_good(&self) -> bool {
        let Header { pages_at, body_hash, .. } = self.header();
        hash(&self.image.as_bytes()[HEADER_LEN..pages_at as usize]) == body_hash
    }
}

fn read(archive: &File, to: &mut [u8], at: u64) -> Result<(), OpenError> {
    archive.read_exact_at(to, at).map_err(|error| match error.kind() {
        // It was longer a moment ago.
        io::ErrorKind::UnexpectedEof => OpenError::Image(ImageError::ArchiveLength),
        _ => OpenError::Read(error),
    })
}

/// What a content is said to be.
pub(crate) fn stored_fingerprint(image: &Image, variant: &Variant) -> Option<Fingerprint> {
    Some(Fingerprint { len: variant.content.len(), hash: tag(image.bytes(variant.etag))? })
}

/// The hash that an entity-tag tells.
fn tag(etag: &[u8]) -> Option<u128> {
    let digits = etag.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let digits = std::str::from_utf8(digits).ok().filter(|digits| digits.len() == 32)?;
    u128::from_str_radix(digits, 16).ok()
}
