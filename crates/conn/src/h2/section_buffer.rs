//! The buffer that field blocks are decoded to.
//!
//! A worker has one. A connection takes it while it decodes a block, and gives it back at once; only while the rest of a block or a page of an
//! image is missing does it stay with the connection, and the worker makes another one when it needs it.

use tarpon_http::h2::hpack::{FieldSection, SECTION_SIZE_MAX, SectionBytes};

/// The buffer of a worker for decoded field sections.
#[derive(Default)]
pub struct SectionBuffer(Option<Box<BlockFields>>);

/// A field section, decoded as far as it has arrived.
#[derive(Clone, Debug)]
pub(crate) struct BlockFields {
    pub(super) section: FieldSection,
    pub(super) bytes: SectionBytes,
    /// The start of a field whose rest is in the next frame.
    pub(super) rest: Vec<u8>,
}

impl SectionBuffer {
    /// Takes the buffer, without fields.
    #[inline]
    pub(super) fn take(&mut self) -> Box<BlockFields> {
        match self.0.take() {
            Some(mut decoded) => {
                decoded.section.clear();
                decoded.rest.clear();
                decoded
            }
            None => Box::new(BlockFields {
                section: FieldSection::new(),
                bytes: [0; SECTION_SIZE_MAX],
                rest: Vec::new(),
            }),
        }
    }

    /// Gives a buffer back.
    #[inline]
    pub(super) fn put_back(&mut self, decoded: Box<BlockFields>) {
        self.0 = Some(decoded);
    }
}
