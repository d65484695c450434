//! The decoder: the examples of RFC 7541, its refusals, limits, cuts, and what a reference encoder encodes.

extern crate std;
use std::collections::VecDeque;
use std::string::String;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use super::{huffman, integer};

/// Names and values.
pub(super) type TestFields = Vec<(Vec<u8>, Vec<u8>)>;

/// A connection: blocks in the order in which they are decoded.
pub(super) struct TestConnection {
    pub(super) decoder: HpackDecoder,
    section: FieldSection,
    bytes: SectionBytes,
}

impl TestConnection {
    pub(super) fn new() -> TestConnection {
        TestConnection {
            decoder: HpackDecoder::new(),
            section: FieldSection::new(),
            bytes: [0; SECTION_SIZE_MAX],
        }
    }

    /// Decodes a block of which `cut` more bytes arrive at a time.
    pub(super) fn decode(&mut self, block: &[u8], cut: usize) -> Result<TestFields, HpackError> {
        self.section.clear();
        let (mut used, mut arrived) = (0, 0);
        loop {
            arrived = block.len().min(arrived + cut);
            let is_end = arrived == block.len();
            used += self.decoder.decode(&block[used..arrived], is_end, &mut self.section, &mut self.bytes)?;
            if is_end {
                assert_eq!(used, block.len());
                let fields = self.section.iter(&self.bytes);
                return Ok(fields.map(|(name, value)| (name.into(), value.into())).collect());
            }
        }
    }
}

#[test]
#[rustfmt::skip]
fn examples_of_the_rfc_are_decoded() {
    const GET: [(&str, &str); 4] = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")];
    const FIRST: &[(&str, &str)] = &GET;
    const SECOND: &[(&str, &str)] = &[GET[0], GET[1], GET[2], GET[3], ("cache-control", "no-cache")];
    const THIRD: &[(&str, &str)] = &[GET[0], (":scheme", "https"), (":path", "/index.html"), GET[3], ("custom-key", "custom-value")];
    const DATE: (&str, &str) = ("date", "Mon, 21 Oct 2013 20:13:21 GMT");
    const LOCATION: (&str, &str) = ("location", "https://www.example.com");
    const FOUND: &[(&str, &str)] = &[(":status", "302"), ("cache-control", "private"), DATE, LOCATION];
    const REDIRECTED: &[(&str, &str)] = &[(":status", "307"), ("cache-control", "private"), DATE, LOCATION];
    const OK: &[(&str, &str)] = &[
        (":status", "200"), ("cache-control", "private"), ("date", "Mon, 21 Oct 2013 20:13:22 GMT"), LOCATION, ("content-encoding", "gzip"),
        ("set-cookie", "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1"),
    ];
    // The responses of C.5 and C.6 suppose a table of 256 bytes: an update, 3fe101, sets its size.
    type Block = (&'static str, &'static [(&'static str, &'static str)], usize);
    let cases: &[(&str, &[Block])] = &[
        // section     blocks, fields, size of the dynamic table
        ("C.2.1",      &[("400a637573746f6d2d6b65790d637573746f6d2d686561646572", &[("custom-key", "custom-header")], 55)]),
        ("C.2.2",      &[("040c2f73616d706c652f70617468", &[(":path", "/sample/path")], 0)]),
        ("C.2.3",      &[("100870617373776f726406736563726574", &[("password", "secret")], 0)]),
        ("C.2.4",      &[("82", &[(":method", "GET")], 0)]),
        ("C.3",        &[("828684410f7777772e6578616d706c652e636f6d", FIRST, 57),
                         ("828684be58086e6f2d6361636865", SECOND, 110),
                         ("828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565", THIRD, 164)]),
        ("C.4",        &[("828684418cf1e3c2e5f23a6ba0ab90f4ff", FIRST, 57),
                         ("828684be5886a8eb10649cbf", SECOND, 110),
                         ("828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf", THIRD, 164)]),
        ("C.5",        &[("3fe1014803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a323120474d546e1768747470733a2f2f7777772e6578616d706c652e636f6d", FOUND, 222),
                         ("4803333037c1c0bf", REDIRECTED, 222),
                         ("88c1611d4d6f6e2c203231204f637420323031332032303a31333a323220474d54c05a04677a69707738666f6f3d4153444a4b48514b425a584f5157454f50495541585157454f49553b206d61782d6167653d333630303b2076657273696f6e3d31", OK, 215)]),
        ("C.6",        &[("3fe101488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae82ae43d3", FOUND, 222),
                         ("4883640effc1c0bf", REDIRECTED, 222),
                         ("88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b335dfdfcd5b3960d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007", OK, 215)]),
    ];
    for (section, blocks) in cases {
        let longest = blocks.iter().map(|(block, ..)| block.len() / 2).max().unwrap();
        for cut in 1..=longest {
            let mut connection = TestConnection::new();
            for (block, fields, table_size) in *blocks {
                let want = Ok(list(fields));
                assert_eq!(connection.decode(&from_hex(block), cut), want, "{section}, {cut} bytes at a time");
                assert_eq!(connection.decoder.table_size(), *table_size, "{section}");
            }
        }
    }
}

#[test]
#[rustfmt::skip]
fn malformed_blocks_are_refused() {
    use HpackError::*;
    let cases: &[(&str, &str, HpackError)] = &[
        // case                          block                                          error          RFC 7541
        ("index 0",                      "80",                                          Index),        // 6.1
        ("index of nothing",             "be",                                          Index),        // 2.3.3
        ("index far beyond",             "ffffffff7f",                                  Index),        // 2.3.3
        ("name of nothing",              "7e0161",                                      Index),        // 2.3.3
        ("name of nothing, not added",   "0f2f0161",                                    Index),        // 2.3.3
        ("long index",                   "ffffffffffff01",                              Integer),      // 5.1
        ("long length",                  "007fffffffffff0161",                          Integer),      // 5.1
        ("long size",                    "3fffffffffff01",                              Integer),      // 5.1
        ("padding of zeros",             "008118 0161",                                 Huffman),      // 5.2
        ("a byte of padding",            "00821fff 0161",                               Huffman),      // 5.2
        ("EOS in a value",               "000161 84ffffffff",                           Huffman),      // 5.2
        ("size above the maximum",       "3fe21f",                                      UpdateSize),   // 6.3
        ("size far above the maximum",   "3fffffff7f",                                  UpdateSize),   // 6.3
        ("size after a field",           "82 20",                                       UpdatePlace),  // 4.2
        ("size after a literal",         "00016100 20",                                 UpdatePlace),  // 4.2
        ("three sizes",                  "20 3fe11f 20",                                UpdatePlace),  // 4.2
        ("string of more than all",      "007fffffff7f",                                TooLong),      // RFC 9113, 10.5.1
        ("index without its end",        "ff",                                          Incomplete),   // RFC 9113, 4.3
        ("size without its end",         "3f",                                          Incomplete),   // RFC 9113, 4.3
        ("name without its end",         "000361",                                      Incomplete),   // RFC 9113, 4.3
        ("value without its end",        "0001610262",                                  Incomplete),   // RFC 9113, 4.3
        ("no value",                     "000161",                                      Incomplete),   // RFC 9113, 4.3
    ];
    for (name, block, want) in cases {
        let block = from_hex(block);
        for cut in 1..=block.len() {
            assert_eq!(TestConnection::new().decode(&block, cut), Err(*want), "{name}, {cut} bytes at a time");
        }
    }
}

#[test]
fn two_updates_may_begin_a_block() {
    let mut connection = TestConnection::new();
    // A field, and then: the table is emptied, set to its maximum, and has the same field again.
    let block = b"\x40\x01a\x01b";
    for before in [&b""[..], b"\x20\x3f\xe1\x1f", b"\x20\x3f\xe1\x1f"] {
        let fields = connection.decode(&[before, block].concat(), 1);
        assert_eq!(fields, Ok(list(&[("a", "b")])));
        assert_eq!(connection.decoder.table_size(), 34);
    }
    assert_eq!(connection.decode(b"\x20\xbe", 1), Err(HpackError::Index));
}

#[test]
fn update_after_a_field_of_the_dynamic_table_is_refused() {
    for before in [&b""[..], b"\x3f\xe1\x1f"] {
        let mut connection = TestConnection::new();
        connection.decode(b"\x40\x01a\x01b", 1).expect("a field");
        assert_eq!(connection.decode(&[before, b"\xbe"].concat(), 9), Ok(list(&[("a", "b")])));
        assert_eq!(connection.decode(&[before, b"\xbe\x20"].concat(), 9), Err(HpackError::UpdatePlace));
    }
}

#[test]
fn name_of_a_field_that_is_evicted_for_it_is_kept() {
    // RFC 7541, section 4.4: "the name is ... a reference to an entry that will be evicted"
    let mut connection = TestConnection::new();
    let name = "n".repeat(2_000);
    let first = literal(0x40, 6, 0, Some(name.as_bytes()), b"1", false);
    connection.decode(&first, 1).expect("a field");
    let value = "v".repeat(1_500);
    let fields = connection.decode(&literal(0x40, 6, 62, None, value.as_bytes(), true), 100);
    assert_eq!(fields, Ok(list(&[(&name, &value)])));
    assert_eq!(connection.decoder.table_size(), 3_532);
    assert_eq!(connection.decode(b"\xbe", 1), Ok(list(&[(&name, &value)])));
    assert_eq!(connection.decode(b"\xbf", 1), Err(HpackError::Index));
}

#[test]
fn fields_beyond_a_limit_are_dropped_and_the_table_stays_in_step() {
    let long = "v".repeat(3_000);
    let added = literal(0x40, 6, 0, Some(b"x"), long.as_bytes(), true);
    let longer = literal(0x40, 6, 0, Some(b"y"), "w".repeat(6_000).as_bytes(), true);
    let (last, probe) =
        (literal(0x40, 6, 0, Some(b"last"), b"1", false), literal(0, 4, 62, None, b"2", false));
    #[rustfmt::skip]
    let cases: &[(&str, Vec<u8>, usize)] = &[
        // case                       fields before the last                                          size of the table after it
        ("a long field often",        [&added[..], &[0xbe; 6]].concat(),                              3_033 + 37),
        ("long literals",             added.repeat(6),                                                3_033 + 37),
        ("longer than the table",     longer.repeat(3),                                               37),
        ("literals not added",        literal(0, 4, 0, Some(b"x"), long.as_bytes(), false).repeat(6), 37),
        ("one field of 16 KiB",       literal(0x40, 6, 0, Some(b"x"), &[b'0'; 16_370], true),         37),
        ("one that grows",            literal(0x40, 6, 0, Some(b"x"), &[b'0'; 24_000], true),         37),
        ("very many fields",          vec![0x82; SECTION_FIELD_COUNT_MAX],                            37),
        ("very many empty ones",      literal(0x40, 6, 0, Some(b""), b"", false).repeat(600),         126 * 32 + 37),
    ];
    for (name, before, table_size) in cases {
        for cut in [7, 1_000, 100_000] {
            let mut connection = TestConnection::new();
            let block = [&before[..], &last].concat();
            assert_eq!(connection.decode(&block, cut), Ok(Vec::new()), "{name}, cut {cut}");
            assert!(connection.section.is_too_large(), "{name}, cut {cut}");
            assert_eq!(connection.decoder.table_size(), *table_size, "{name}, cut {cut}");
            assert_eq!(connection.decode(&probe, cut), Ok(list(&[("last", "2")])), "{name}, cut {cut}");
            assert!(!connection.section.is_too_large());
        }
    }
}

#[test]
fn section_at_its_limits_is_decoded() {
    // The size counts 32 for each field.
    let value = "v".repeat(SECTION_SIZE_MAX - 32 - 1);
    let block = literal(0, 4, 0, Some(b"x"), value.as_bytes(), false);
    // In a block, a field may have no more bytes than a section.
    let coded = literal(0, 4, 0, Some(b"x"), value.as_bytes(), true);
    for block in [block, coded] {
        let mut connection = TestConnection::new();
        assert_eq!(connection.decode(&block, 4_096), Ok(list(&[("x", &value)])));
        let with_one = [&block[..], &[0x82]].concat();
        assert_eq!(connection.decode(&with_one, 4_096), Ok(Vec::new()));
    }
    let mut connection = TestConnection::new();
    let block = [0x82; SECTION_FIELD_COUNT_MAX];
    assert_eq!(connection.decode(&block, 100).map(|fields| fields.len()), Ok(SECTION_FIELD_COUNT_MAX));
}

#[test]
fn block_that_only_loads_the_server_is_refused() {
    let mut connection = TestConnection::new();
    let field = literal(0x40, 6, 0, Some(b"x"), &[b'v'; 4_000], false);
    connection.decode(&field, 10_000).expect("a field");
    assert_eq!(connection.decode(&[0xbe; 60], 10_000), Ok(Vec::new()));
    assert_eq!(connection.decode(&[0xbe; 80], 10_000), Err(HpackError::TooLong));
    let mut connection = TestConnection::new();
    connection.decode(&field, 10_000).expect("a field");
    // The name of 4,000 bytes, with another value each time.
    let long_name = literal(0x40, 6, 0, Some(&[b'n'; 4_000]), b"", false);
    connection.decode(&long_name, 10_000).expect("a field");
    assert_eq!(connection.decode(&b"\x7e\x00".repeat(80), 10_000), Err(HpackError::TooLong));
    for cut in [7, 100_000] {
        let count = SECTION_FIELD_COUNT_MAX + FIELD_COUNT_BEYOND_MAX;
        let decode = |count| TestConnection::new().decode(&b"\x00\x01a\x00".repeat(count), cut);
        assert_eq!(decode(count), Ok(Vec::new()));
        assert_eq!(decode(count + 1), Err(HpackError::TooLong));
    }
}

#[test]
fn field_that_the_huffman_code_makes_too_long_is_refused() {
    // Its code has 26 bits, so no encoder has a reason to use it here.
    let block = literal(0x40, 6, 0, Some(b"x"), &[200; 6_000], true);
    assert_eq!(TestConnection::new().decode(&block, 1_000), Err(HpackError::TooLong));
    let block = literal(0x40, 6, 0, Some(b"x"), &[200; 6_000], false);
    assert_eq!(TestConnection::new().decode(&block, 1_000).map(|fields| fields.len()), Ok(1));
}

#[test]
fn field_that_is_never_complete_is_refused() {
    let mut connection = TestConnection::new();
    // A length of 16,000 is announced, then another string of as many bytes.
    let block = [&b"\x00\x7f\x81\x7c"[..], &[b'n'; 16_000], b"\x7f\x81\x7c"].concat();
    assert_eq!(connection.decode(&block, 100), Err(HpackError::TooLong));
}

/// A field, and how to encode it.
#[derive(Clone, Debug)]
struct EncodedField {
    name: Vec<u8>,
    value: Vec<u8>,
    representation: usize,
    has_huffman_code: (bool, bool),
}

/// A block: updates of the size of the table before it, and fields.
type EncodedBlock = (Vec<usize>, Vec<EncodedField>);

fn field() -> impl Strategy<Value = EncodedField> {
    let text = || {
        prop_oneof![
            4 => "[a-c]{0,3}".prop_map(String::into_bytes),
            4 => "[ -~]{0,40}".prop_map(String::into_bytes),
            1 => proptest::collection::vec(any::<u8>(), 0..40),
            1 => (b' '..=b'~', 0..3_000_usize).prop_map(|(byte, len)| vec![byte; len]),
        ]
    };
    let of_table = (0..61_usize).prop_map(|row| {
        let entry = &static_table::STATIC_ENTRIES[row];
        let bytes = &static_table::STATIC_BYTES[usize::from(entry.at)..][..entry.len()];
        let (name, value) = bytes.split_at(entry.name_len.into());
        (name.to_vec(), value.to_vec())
    });
    let pair = prop_oneof![2 => (text(), text()), 1 => of_table];
    (pair, 0..4_usize, any::<(bool, bool)>()).prop_map(|((name, value), representation, has_huffman_code)| {
        EncodedField { name, value, representation, has_huffman_code }
    })
}

fn blocks() -> impl Strategy<Value = Vec<EncodedBlock>> {
    let updates = prop_oneof![
        3 => Just(Vec::new()),
        1 => proptest::collection::vec(0..=HEADER_TABLE_SIZE, 1..3),
        1 => Just(vec![HEADER_TABLE_SIZE]),
    ];
    proptest::collection::vec((updates, proptest::collection::vec(field(), 0..12)), 1..12)
}

proptest! {
    #[test]
    fn what_the_reference_encodes_is_decoded(blocks in blocks(), cut in 1..300_usize) {
        let (mut encoder, mut connection) = (ReferenceEncoder::new(), TestConnection::new());
        for (updates, fields) in blocks {
            let block = encoder.encode(&updates, &fields);
            let size: usize = fields.iter().map(|field| field.name.len() + field.value.len() + 32).sum();
            let want: TestFields = match size > SECTION_SIZE_MAX {
                true => Vec::new(),
                false => fields.into_iter().map(|field| (field.name, field.value)).collect(),
            };
            prop_assert_eq!(connection.decode(&block, cut), Ok(want));
            prop_assert_eq!(connection.section.is_too_large(), size > SECTION_SIZE_MAX);
            prop_assert_eq!(connection.decoder.table_size(), encoder.size());
        }
    }

    #[test]
    fn fields_that_a_client_names_in_order_are_decoded(
        lens in proptest::collection::vec((0..40_usize, 0..150_usize, any::<u8>()), 1..150),
        gap in 0..70_usize,
    ) {
        // They lie one after another in the ring, and some of them across its end.
        let (mut encoder, mut connection) = (ReferenceEncoder::new(), TestConnection::new());
        for (name_len, value_len, byte) in lens {
            let (name, value) = (vec![byte; name_len], vec![!byte; value_len]);
            let field = EncodedField { name, value, representation: 1, has_huffman_code: (false, false) };
            let block = encoder.encode(&[], &[field]);
            prop_assert!(connection.decode(&block, 1_000).is_ok());
            let mut indexes: Vec<_> = (0..encoder.table.len().min(65)).rev().collect();
            if gap < indexes.len() {
                indexes.remove(gap);
            }
            let block: Vec<_> = indexes.iter().map(|index| INDEXED | (62 + index) as u8).collect();
            let want = indexes.iter().map(|index| encoder.table[*index].clone()).collect();
            prop_assert_eq!(connection.decode(&block, 1_000), Ok(want));
        }
    }

    #[test]
    fn cuts_change_nothing(block in proptest::collection::vec(any::<u8>(), 0..200), cut in 1..50_usize) {
        let (mut whole, mut in_parts) = (TestConnection::new(), TestConnection::new());
        for _ in 0..2 {
            prop_assert_eq!(whole.decode(&block, usize::MAX / 2), in_parts.decode(&block, cut));
            prop_assert_eq!(whole.decoder.table_size(), in_parts.decoder.table_size());
        }
    }
}

/// An encoder as simple as can be.
struct ReferenceEncoder {
    /// The newest field is the first.
    table: VecDeque<(Vec<u8>, Vec<u8>)>,
    size_max: usize,
}

impl ReferenceEncoder {
    fn new() -> ReferenceEncoder {
        ReferenceEncoder { table: VecDeque::new(), size_max: HEADER_TABLE_SIZE }
    }

    fn encode(&mut self, updates: &[usize], fields: &[EncodedField]) -> Vec<u8> {
        let mut block = Vec::new();
        for &update in updates {
            integer::encode(0x20, 5, update, &mut |byte| block.push(byte));
            self.size_max = update;
            self.evict();
        }
        for EncodedField { name, value, representation, has_huffman_code } in fields {
            let field = (name.clone(), value.clone());
            let both = self.find(|known| *known == field);
            let named = self.find(|known| known.0 == *name);
            match (representation, both, named) {
                (0, Some(index), _) => integer::encode(INDEXED, 7, index, &mut |byte| block.push(byte)),
                (0..=1, _, named) => {
                    block.extend(literal_of(0x40, 6, named, name, value, *has_huffman_code));
                    self.table.push_front(field);
                    self.evict();
                }
                (2, _, named) => block.extend(literal_of(0x10, 4, named, name, value, *has_huffman_code)),
                _ => block.extend(literal_of(0x00, 4, None, name, value, *has_huffman_code)),
            }
        }
        block
    }

    fn find(&self, is_wanted: impl Fn(&(Vec<u8>, Vec<u8>)) -> bool) -> Option<usize> {
        let of_table = static_table::STATIC_ENTRIES.iter().map(|entry| {
            let bytes = &static_table::STATIC_BYTES[usize::from(entry.at)..][..entry.len()];
            let (name, value) = bytes.split_at(entry.name_len.into());
            (name.to_vec(), value.to_vec())
        });
        // The last one, to find those of the dynamic table, too.
        let all: Vec<_> = of_table.chain(self.table.iter().cloned()).collect();
        all.iter().rposition(is_wanted).map(|at| at + 1)
    }

    fn size(&self) -> usize {
        self.table.iter().map(|(name, value)| name.len() + value.len() + 32).sum()
    }

    fn evict(&mut self) {
        while self.size() > self.size_max {
            self.table.pop_back();
        }
    }
}

fn literal_of(
    pattern: u8,
    prefix: u32,
    index: Option<usize>,
    name: &[u8],
    value: &[u8],
    has_huffman_code: (bool, bool),
) -> Vec<u8> {
    let mut block = Vec::new();
    integer::encode(pattern, prefix, index.unwrap_or(0), &mut |byte| block.push(byte));
    if index.is_none() {
        string(name, has_huffman_code.0, &mut block);
    }
    string(value, has_huffman_code.1, &mut block);
    block
}

fn literal(
    pattern: u8,
    prefix: u32,
    index: usize,
    name: Option<&[u8]>,
    value: &[u8],
    has_code: bool,
) -> Vec<u8> {
    let index = name.is_none().then_some(index);
    literal_of(pattern, prefix, index, name.unwrap_or_default(), value, (has_code, has_code))
}

fn string(text: &[u8], has_huffman_code: bool, to: &mut Vec<u8>) {
    let mut coded = Vec::new();
    match has_huffman_code {
        true => huffman::encode(text.iter().copied(), &mut |byte| coded.push(byte)),
        false => coded.extend(text),
    }
    let pattern = if has_huffman_code { HUFFMAN } else { 0 };
    integer::encode(pattern, 7, coded.len(), &mut |byte| to.push(byte));
    to.extend(coded);
}

fn list(fields: &[(&str, &str)]) -> TestFields {
    fields.iter().map(|(name, value)| (name.as_bytes().into(), value.as_bytes().into())).collect()
}

fn from_hex(hex: &str) -> Vec<u8> {
    let digits: Vec<_> = hex.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}
