//! How much time compressing may take. `packed/encode.rs` chooses the encoders for it.

/// How much time compressing may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompressionEffort {
    /// Many times faster, and about a tenth larger. For trying out.
    Fast,
    /// Within a few percent of `Best` in a fraction of its time.
    #[default]
    Balanced,
    /// The smallest result.
    Best,
}
