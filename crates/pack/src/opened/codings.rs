//! The codings of variants, and when a variant is worthwhile.

use tarpon_site::Coding;

/// The codings of variants without a dictionary. Arrays by coding have this order.
pub const CODINGS: [Coding; 3] = [Coding::Br, Coding::Gzip, Coding::Zstd];
/// The codings of variants for clients that have a dictionary.
pub const DELTA_CODINGS: [Coding; 2] = [Coding::Dcb, Coding::Dcz];

/// The suffixes of precompressed files, by [`CODINGS`].
pub(crate) const SUFFIXES: [&str; 3] = [".br", ".gz", ".zst"];

/// Returns whether a variant is worthwhile. It must save a sixteenth of its file, since clients have to decode it, and more than the
/// two additional fields of a compressed response cost.
pub(crate) fn is_worthwhile(coded_len: u64, plain_len: u64) -> bool {
    coded_len + (plain_len / 16).max(FIELDS_LEN) <= plain_len
}

/// The length of `Content-Encoding: gzip` and `Vary: Accept-Encoding` with their line ends, and a byte.
const FIELDS_LEN: u64 = 48;
/// The largest content that is compressed. Larger files are downloads, which few clients request compressed, and compressing them
/// takes hours.
pub(crate) const CODED_LEN_MAX: u64 = 128 << 20;
