//! Blocks of another encoder, the package `hpack` of Python: `tests/hpack/make` writes them.

use tarpon_http::h2::hpack::{FieldSection, HpackDecoder, SECTION_SIZE_MAX};

#[test]
fn blocks_of_another_encoder_are_decoded() {
    let (mut decoder, mut section, mut bytes) =
        (HpackDecoder::new(), FieldSection::new(), [0; SECTION_SIZE_MAX]);
    let (mut fields, mut block_count) = (Vec::new(), 0);
    for line in include_str!("hpack/vectors.txt").lines() {
        if let Some(hex) = line.strip_prefix("> ") {
            let digits: Vec<_> = hex.chars().map(|digit| digit.to_digit(16).expect("hexadecimal")).collect();
            let block: Vec<_> = digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect();
            section.clear();
            let used = decoder.decode(&block, true, &mut section, &mut bytes);
            assert_eq!(used, Ok(block.len()), "block {block_count}");
            fields = section.iter(&bytes).collect();
            fields.reverse();
            block_count += 1;
        } else if let Some(size) = line.strip_prefix("= ") {
            assert_eq!(fields.pop(), None, "block {block_count} has more fields");
            assert_eq!(Ok(decoder.table_size()), size.parse(), "block {block_count}");
        } else {
            let (name, value) = line.split_once('\t').expect("a field");
            assert_eq!(fields.pop(), Some((name.as_bytes(), value.as_bytes())), "block {block_count}");
        }
    }
    assert_eq!(block_count, 300);
}
