//! The compressor of a build without the feature `pack`: it cannot be started, so sites are served uncompressed.

use super::builder::CompressionBatch;
use std::io;
use tarpon_pack::{BackgroundCompression, MadeVariant};

/// The handle of the thread. There is none.
pub(super) enum Compressor {}

impl Compressor {
    pub(super) fn start(
        _: BackgroundCompression,
        _: impl FnMut(Vec<MadeVariant>) + Send + 'static,
    ) -> io::Result<Compressor> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn compress(&self, _: CompressionBatch) {
        match *self {}
    }
}
