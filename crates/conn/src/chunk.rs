//! Writes the chunked transfer coding around content in a message of a pipe. RFC 9112, section 7.1.

use crate::{BufRange, ConnResources};

/// The last chunk, without trailers.
pub(crate) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Turns content into a chunk, in the room that messages have. The content is not empty.
pub(crate) fn put_chunk(cx: &mut ConnResources<'_>, data: BufRange) -> BufRange {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    // The maximum length of a message has four digits.
    let mut line = *b"0000\r\n";
    for (place, digit) in line[..4].iter_mut().enumerate() {
        *digit = DIGITS[(data.len >> (12 - 4 * place)) as usize & 15];
    }
    let chunk = cx.pool.prepend(data, &line);
    cx.pool.append(chunk, b"\r\n")
}
