//! Field blocks of one connection: a decoder as simple as can be agrees on fields, errors and the size of the dynamic table, and no cut changes
//! anything. Requests do not depend on how their fields were encoded, and neither does what an encoder with a dynamic table sends.

#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use tarpon_http::h2::hpack::{
    FIELD_COUNT_BEYOND_MAX, FIELD_REPRESENTATION_LEN_MAX, FieldSection, HEADER_TABLE_SIZE, HpackDecoder,
    HpackEncoder, HpackError, SECTION_FIELD_COUNT_MAX, SECTION_SIZE_MAX, SIZE_BEYOND_MAX,
    SIZE_UPDATES_LEN_MAX, SectionBytes, encode_field,
};
use tarpon_http::h2::{H2Request, MalformedRequest, parse_trailers};

/// A name and a value.
type Field = (Vec<u8>, Vec<u8>);

// The first byte is the length of the pieces that arrive. Then come the blocks, each after its length in two bytes.
fuzz_target!(|input: &[u8]| {
    let Some((&cut, mut rest)) = input.split_first() else { return };
    let (mut whole, mut in_parts, mut naive) =
        (BlockConnection::new(), BlockConnection::new(), NaiveDecoder::new());
    let (mut encoder, mut client) = (HpackEncoder::new(), BlockConnection::new());
    encoder.limit_size(u32::from(cut) * 32);
    while let Some((len, behind)) = rest.split_first_chunk() {
        let len = usize::from(u16::from_be_bytes(*len)).min(behind.len());
        let (block, behind) = behind.split_at(len);
        rest = behind;

        let result = whole.decode(block, usize::MAX);
        assert_eq!(in_parts.decode(block, 1 + usize::from(cut)), result);
        assert_eq!(naive.decode(block), result);
        let Ok(fields) = result else { return };
        assert_eq!(whole.decoder.table_size(), naive.size());
        assert_eq!(in_parts.decoder.table_size(), naive.size());
        assert!(naive.size() <= HEADER_TABLE_SIZE);
        if !whole.section.is_too_large() {
            assert!(whole.section.len() <= SECTION_SIZE_MAX && fields.len() <= SECTION_FIELD_COUNT_MAX);
            requests_agree(&whole, &fields);
            client_decodes(&mut encoder, &mut client, &fields);
            assert!(client.decoder.table_size() <= usize::from(cut) * 32);
        }
    }
});

/// A decoder, and what it decodes to.
struct BlockConnection {
    decoder: HpackDecoder,
    section: FieldSection,
    bytes: Box<SectionBytes>,
}

impl BlockConnection {
    fn new() -> BlockConnection {
        let bytes = Box::new([0; SECTION_SIZE_MAX]);
        BlockConnection { decoder: HpackDecoder::new(), section: FieldSection::new(), bytes }
    }

    fn decode(&mut self, block: &[u8], cut: usize) -> Result<Vec<Field>, HpackError> {
        self.section.clear();
        let (mut used, mut arrived) = (0, 0);
        loop {
            arrived = block.len().min(usize::saturating_add(arrived, cut));
            let is_end = arrived == block.len();
            used += self.decoder.decode(&block[used..arrived], is_end, &mut self.section, &mut self.bytes)?;
            if is_end {
                let fields = self.section.iter(&self.bytes[..]);
                return Ok(fields.map(|(name, value)| (name.into(), value.into())).collect());
            }
        }
    }
}

/// Encodes the fields as the server does, and checks that the request is the same.
fn requests_agree(connection: &BlockConnection, fields: &[Field]) {
    let request = H2Request::parse(&connection.section, &connection.bytes[..], true);
    if let Ok(request) = &request {
        assert_eq!(request.fields.iter().count(), fields.iter().filter(|(name, _)| name[0] != b':').count());
        assert!(request.cookies().count() <= fields.len());
        let _ = (request.priority(), request.content_length);
    }
    let trailers =
        parse_trailers(&connection.section, &connection.bytes[..]).map(|fields| fields.iter().count());
    assert!(trailers.is_err() || trailers == Ok(fields.len()));

    // The encoder writes names in lower case.
    if fields.iter().any(|(name, _)| name.iter().any(u8::is_ascii_uppercase)) {
        assert!(request.is_err());
        return;
    }
    let mut block = Vec::new();
    for (name, value) in fields {
        encode_field(name, value, &mut |byte| block.push(byte));
    }
    let mut other = BlockConnection::new();
    assert_eq!(other.decode(&block, usize::MAX).as_deref(), Ok(fields));
    let again = H2Request::parse(&other.section, &other.bytes[..], true);
    assert_eq!(summary(&again), summary(&request));
}

/// Sends the fields to a client, with its dynamic table.
fn client_decodes(encoder: &mut HpackEncoder, client: &mut BlockConnection, fields: &[Field]) {
    let fields: Vec<Field> =
        fields.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone())).collect();
    let mut packed = Vec::new();
    for (name, value) in &fields {
        encode_field(name, value, &mut |byte| packed.push(byte));
    }
    let mut block = vec![0; SIZE_UPDATES_LEN_MAX + packed.len()];
    let begun = encoder.begin_block(&mut block);
    let len = begun + encoder.put(&packed, &mut block[begun..]);
    assert_eq!(client.decode(&block[..len], usize::MAX), Ok(fields));
}

/// Converts a request to a form that can be compared.
fn summary(request: &Result<H2Request<'_>, MalformedRequest>) -> Result<String, MalformedRequest> {
    let parts = |request: &H2Request<'_>| {
        let H2Request { method_token, scheme, authority, target, has_plain_path, protocol, .. } = request;
        let parts = (method_token, scheme, authority, target, has_plain_path, protocol);
        format!("{parts:?} {:?} {:?}", request.content_length, request.priority())
    };
    request.as_ref().map(parts).map_err(|error| *error)
}

/// A decoder that is written as the RFC reads.
struct NaiveDecoder {
    /// The newest field is the first.
    table: Vec<Field>,
    size_max: usize,
}

impl NaiveDecoder {
    fn new() -> NaiveDecoder {
        NaiveDecoder { table: Vec::new(), size_max: HEADER_TABLE_SIZE }
    }

    fn size(&self) -> usize {
        size_of_all(&self.table)
    }

    fn decode(&mut self, block: &[u8]) -> Result<Vec<Field>, HpackError> {
        let (mut fields, mut beyond, mut update_count) = (Vec::new(), (0, 0), 0);
        let mut is_too_large = false;
        let mut reader = Reader { block, at: 0 };
        while let Some(&first) = block.get(reader.at) {
            if first & 0xe0 == 0x20 {
                if update_count == 2 {
                    return Err(HpackError::UpdatePlace);
                }
                update_count += 1;
                self.size_max = reader.integer(5)?;
                if self.size_max > HEADER_TABLE_SIZE {
                    return Err(HpackError::UpdateSize);
                }
                self.evict();
                continue;
            }
            let field = if first & 0x80 != 0 {
                let index = reader.integer(7)?;
                self.field(index)?
            } else {
                let from = reader.at;
                let index = reader.integer(if first & 0x40 != 0 { 6 } else { 4 })?;
                let name = if index == 0 { reader.string(from)? } else { (self.field(index)?.0, false) };
                let value = reader.string(from)?;
                let field = (decode_string(name)?, decode_string(value)?);
                if first & 0x40 != 0 {
                    self.table.insert(0, field.clone());
                    self.evict();
                }
                field
            };
            update_count = 2;
            let size = size_of(&field);
            fields.push(field);
            if is_too_large
                || size_of_all(&fields) > SECTION_SIZE_MAX
                || fields.len() > SECTION_FIELD_COUNT_MAX
            {
                is_too_large = true;
                fields.clear();
                beyond = (beyond.0 + size, beyond.1 + 1);
            }
            if beyond.0 > SIZE_BEYOND_MAX || beyond.1 > FIELD_COUNT_BEYOND_MAX {
                return Err(HpackError::TooLong);
            }
        }
        Ok(fields)
    }

    fn field(&self, index: usize) -> Result<Field, HpackError> {
        let index = index.checked_sub(1).ok_or(HpackError::Index)?;
        let field = static_fields().get(index).or_else(|| self.table.get(index - static_fields().len()));
        field.cloned().ok_or(HpackError::Index)
    }

    fn evict(&mut self) {
        while self.size() > self.size_max {
            self.table.pop();
        }
    }
}

fn size_of((name, value): &Field) -> usize {
    name.len() + value.len() + 32
}

fn size_of_all(fields: &[Field]) -> usize {
    fields.iter().map(size_of).sum()
}

/// Reads a block.
struct Reader<'a> {
    block: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn byte(&mut self) -> Result<u8, HpackError> {
        let byte = self.block.get(self.at).ok_or(HpackError::Incomplete)?;
        self.at += 1;
        Ok(*byte)
    }

    fn integer(&mut self, prefix: u32) -> Result<usize, HpackError> {
        let max = (1 << prefix) - 1;
        let mut value = usize::from(self.byte()?) & max;
        if value == max {
            for shift in [0, 7, 14, 21] {
                let byte = usize::from(self.byte()?);
                value += (byte & 0x7f) << shift;
                if byte < 0x80 {
                    return Ok(value);
                }
            }
            return Err(HpackError::Integer);
        }
        Ok(value)
    }

    /// Returns the bytes of a string, and whether they have the Huffman code. `from`: where its field begins.
    fn string(&mut self, from: usize) -> Result<(Vec<u8>, bool), HpackError> {
        let has_code = self.block.get(self.at).is_some_and(|byte| byte & 0x80 != 0);
        let len = self.integer(7)?;
        if self.at + len - from > FIELD_REPRESENTATION_LEN_MAX {
            return Err(HpackError::TooLong);
        }
        let bytes = self.block.get(self.at..self.at + len).ok_or(HpackError::Incomplete)?;
        self.at += len;
        Ok((bytes.into(), has_code))
    }
}

/// Decodes a string bit by bit.
fn decode_string((bytes, has_code): (Vec<u8>, bool)) -> Result<Vec<u8>, HpackError> {
    if !has_code {
        return Ok(bytes);
    }
    let (mut text, mut code) = (Vec::new(), Vec::new());
    for bit in bits(&bytes) {
        code.push(bit);
        if let Ok(at) = codes().binary_search_by(|(known, _)| known.cmp(&code)) {
            text.push(codes()[at].1);
            code.clear();
        }
        if code.len() == 30 {
            return Err(HpackError::Huffman);
        }
    }
    let is_padding = code.len() < 8 && code.iter().all(|bit| *bit);
    if is_padding { Ok(text) } else { Err(HpackError::Huffman) }
}

fn bits(bytes: &[u8]) -> Vec<bool> {
    bytes.iter().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1 == 1)).collect()
}

/// The Huffman code, sorted, as the encoder has it.
fn codes() -> &'static [(Vec<bool>, u8)] {
    static CODES: OnceLock<Vec<(Vec<bool>, u8)>> = OnceLock::new();
    CODES.get_or_init(|| {
        let code = |byte: u8| {
            // With so many zeros, whose code is 00000, any byte is shorter with the code.
            const ZERO_COUNT: usize = 60;
            let mut block = Vec::new();
            let value = [&[byte][..], &[b'0'; ZERO_COUNT]].concat();
            encode_field(b"x", &value, &mut |byte| block.push(byte));
            let mut string = Reader { block: &block, at: 0 };
            string.integer(4).and_then(|_| string.string(0)).expect("a name");
            let (coded, has_code) = string.string(0).expect("a value");
            assert!(has_code);
            let mut bits = bits(&coded);
            while bits.last() == Some(&true) {
                bits.pop();
            }
            bits.truncate(bits.len() - 5 * ZERO_COUNT);
            (bits, byte)
        };
        let mut codes: Vec<_> = (0..=u8::MAX).map(code).collect();
        codes.sort();
        codes
    })
}

/// The static table, which has tests of its own.
fn static_fields() -> &'static [Field] {
    static FIELDS: OnceLock<Vec<Field>> = OnceLock::new();
    FIELDS.get_or_init(|| {
        let block: Vec<u8> = (1..=61).map(|index| 0x80 | index).collect();
        BlockConnection::new().decode(&block, usize::MAX).expect("the static table")
    })
}
