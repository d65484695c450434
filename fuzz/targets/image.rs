//! Site images: for any bytes, a lookup ends and returns only regions within the image.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use tarpon_site::format::{
    DeltaRow, EntryRecord, HEADER_LEN, Header, HpackPlace, RECORD_ALIGN, RECORD_LEN, RecordKind, SECTION_LEN,
    SectionRow, StatusPageRow, Storage, VARIANT_LEN, hash, section,
};
use tarpon_site::{Coding, Content, Entry, FieldBlock, Image, Region, STATUS_PAGE_CODES, build_index, hpack};

// The input is an image, and a list of changes to a valid image whose checksums are then corrected.
fuzz_target!(|input: &[u8]| {
    if let Ok(image) = Image::new(Bytes::copy_from_slice(input)) {
        visit(&image);
    }
    let mut bytes = good_image();
    let image = Image::new(bytes.clone().into()).expect("a valid image");
    assert!(PATHS.iter().all(|path| image.find(path).unwrap().is_some()));
    change(&mut bytes, input);
    seal(&mut bytes);
    if let Ok(image) = Image::new(bytes.into()) {
        visit(&image);
    }
});

const DICTIONARY: [u8; 32] = [7; 32];
const PATHS: [&[u8]; 4] = [b"/", b"/style.css", b"/film.mp4", b"/guide"];

/// Reads everything in an image; a region outside of it panics. Checks that the fields of each response that the server may send frame
/// its content for a client that splits fields at line ends.
fn visit(image: &Image) {
    image.sections().for_each(|(row, bytes)| assert_eq!(row.len, bytes.len() as u64));
    for code in STATUS_PAGE_CODES {
        let page = image.status_page(code);
        touch(image, &[page.content]);
        touch_fields(image, &[page.fields]);
        assert_eq!(
            content_length(image.bytes(page.fields.text)),
            Some((code != 204).then_some(page.content.len))
        );
    }
    let found = image.entries().map(|(path, _)| path).collect::<Vec<_>>();
    for path in PATHS.into_iter().chain(found).chain([b"/nowhere".as_slice(), b""]) {
        match image.find(path).unwrap() {
            None => {}
            Some(Entry::File(file)) => {
                assert!(!file.is_single() || image.coded_variants(file).count() == 0);
                let deltas: Vec<_> = image.all_deltas(file).collect();
                for (coding, _) in image.deltas(file, DICTIONARY).unwrap() {
                    assert!(deltas.iter().any(|delta| (delta.0, delta.1) == (DICTIONARY, coding)));
                }
                let coded = image.coded_variants(file).map(|(_, variant)| variant);
                let deltas = deltas.into_iter().map(|(_, _, variant)| variant);
                for variant in coded.chain(deltas).chain([file.identity]) {
                    touch(image, &[variant.etag]);
                    touch_fields(image, &[variant.fields(), variant.not_modified()]);
                    if image.is_framed(&variant).unwrap() {
                        let not_modified = image.bytes(variant.not_modified().text);
                        assert_eq!(
                            content_length(image.bytes(variant.fields().text)),
                            Some(Some(variant.content.len()))
                        );
                        assert!(not_modified.is_empty() || content_length(not_modified) == Some(None));
                    }
                    match variant.content {
                        Content::Image(region) => touch(image, &[region]),
                        Content::File { number, .. } => assert!(u64::from(number) < image.file_count()),
                        Content::Archive(region) => assert!(region.at + region.len <= image.archive_len()),
                    }
                }
            }
            Some(Entry::Redirect(redirect)) => {
                touch(image, &[redirect.before_query(), redirect.content]);
                touch_fields(image, &[redirect.fields(), redirect.after_query()]);
                if image.is_redirect_framed(&redirect).unwrap() {
                    let query: &[u8] = if redirect.before_query().len == 0 { b"" } else { b"?q" };
                    let fields = [
                        image.bytes(redirect.before_query()),
                        query,
                        image.bytes(redirect.after_query().text),
                    ];
                    assert_eq!(content_length(&fields.concat()), Some(Some(redirect.content.len)));
                }
            }
        }
    }
}

/// Reads both forms of fields.
fn touch_fields(image: &Image, all: &[FieldBlock]) {
    for &fields in all {
        touch(image, &[fields.text]);
        touch(image, image.hpack(fields).unwrap().as_slice());
    }
}

/// Returns the content length in the fields, if any. Returns `None` if they are not the fields of one response.
fn content_length(fields: &[u8]) -> Option<Option<u64>> {
    let text = String::from_utf8_lossy(fields);
    let text = text.strip_suffix("\r\n")?;
    let mut found = None;
    for line in text.split_inclusive("\r\n") {
        let (name, value) = line.strip_suffix("\r\n")?.split_once(':')?;
        let is_known = !name.eq_ignore_ascii_case("transfer-encoding") && !value.contains(['\r', '\n']);
        if !is_known || name.contains(['\r', '\n']) {
            return None;
        }
        if name.eq_ignore_ascii_case("content-length") && found.replace(value.trim().parse().ok()?).is_some()
        {
            return None;
        }
    }
    Some(found)
}

fn touch(image: &Image, regions: &[Region]) {
    for &region in regions {
        assert_eq!(image.bytes(region).len() as u64, region.len);
    }
}

/// Applies changes: each is an offset (two bytes), a count of one to eight (one byte), and the new bytes.
fn change(bytes: &mut [u8], mut input: &[u8]) {
    while let [low, high, count, rest @ ..] = input {
        let at = usize::from(u16::from_le_bytes([*low, *high])) % bytes.len();
        let count = (usize::from(*count) % 8 + 1).min(rest.len()).min(bytes.len() - at);
        let (new, behind) = rest.split_at(count);
        bytes[at..at + count].copy_from_slice(new);
        input = behind;
    }
}

/// Corrects magic, version and checksums, so that the image passes the first checks.
fn seal(bytes: &mut [u8]) {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let pages_at = usize::try_from(word(48)).unwrap_or(usize::MAX);
    let header = Header {
        len: word(16),
        index_at: word(24),
        slot_count: word(32),
        record_count: word(40),
        pages_at: word(48),
        page_count: word(56),
        file_count: word(64),
        archive_len: word(80),
        sections_at: word(88),
        section_count: word(96),
        body_hash: word(104),
        tables_hash: bytes.get(pages_at..).map_or(0, hash),
    };
    bytes[..HEADER_LEN].copy_from_slice(&header.encode());
}

/// Returns a small valid image with an inline content and a coded variant, a separate content, a content in an external file, and a
/// redirect.
fn good_image() -> Vec<u8> {
    const FIELDS_304: &[u8] = b"ETag: \"a\"\r\n\r\n";
    const FIELDS_200: &[u8] = b"Content-Length: 5\r\nETag: \"a\"\r\n\r\n";
    const FIELDS_204: &[u8] = b"Allow: GET\r\n\r\n";
    const FIELDS_301: &[u8] = b"Location: /guide/\r\nContent-Length: 0\r\n\r\n";
    let mut bytes = vec![0; HEADER_LEN];
    let file = |fields_at: usize, content_at: usize, storage| EntryRecord {
        path_len: 0,
        kind: RecordKind::File,
        variant_count: 1,
        before_query: 0,
        last_modified: 784_111_777,
        fields_at: fields_at as u64,
        not_modified_len: FIELDS_304.len() as u32,
        fields_len: FIELDS_200.len() as u32,
        content_at: content_at as u64,
        content_len: 5,
        etag_at: 6,
        etag_len: 3,
        storage,
        coding: Coding::Identity,
        status: 0,
        checks_rules: false,
    };

    let mut blocks = Vec::new();
    let mut put_fields = |bytes: &mut Vec<u8>, fields: &[u8]| {
        let at = blocks.len();
        hpack::encode(fields, &mut |byte| blocks.push(byte)).expect("field lines");
        let place = HpackPlace { at: at as u32, len: (blocks.len() - at) as u32 };
        bytes.extend_from_slice(&place.encode());
        bytes.extend_from_slice(fields);
        bytes.len() - fields.len()
    };
    let fields_at = put_fields(&mut bytes, FIELDS_200);
    let hello_at = bytes.len();
    bytes.extend_from_slice(b"hello");
    let redirect_at = put_fields(&mut bytes, FIELDS_301);
    let elsewhere = bytes.len();
    bytes.extend_from_slice(b"body{}");
    let allow_at = put_fields(&mut bytes, FIELDS_204);
    let records = [
        EntryRecord { variant_count: 2, ..file(fields_at, hello_at, Storage::Image) },
        file(fields_at, elsewhere, Storage::Image),
        file(fields_at, 0, Storage::File),
        EntryRecord {
            kind: RecordKind::Redirect,
            before_query: b"Location: /guide/".len() as u32,
            not_modified_len: 0,
            fields_len: FIELDS_301.len() as u32,
            content_len: 0,
            etag_at: 0,
            etag_len: 0,
            ..file(redirect_at, redirect_at, Storage::Image)
        },
    ];
    let mut places = Vec::new();
    for (path, record) in PATHS.into_iter().zip(&records) {
        pad(&mut bytes, RECORD_ALIGN);
        places.push((hash(path), bytes.len() as u64));
        let record = EntryRecord { path_len: path.len() as u16, ..*record };
        bytes.extend_from_slice(&record.encode());
        // The first file has a gzip variant.
        if record.variant_count == 2 {
            let coded = EntryRecord { coding: Coding::Gzip, ..record }.encode();
            bytes.extend_from_slice(&coded[RECORD_LEN - VARIANT_LEN..]);
        }
        bytes.extend_from_slice(path);
    }

    pad(&mut bytes, RECORD_ALIGN);
    // The second file has a variant with a dictionary.
    let sections_at = bytes.len() as u64;
    let variant = EntryRecord { coding: Coding::Dcz, ..records[1] };
    let delta = DeltaRow { file_at: records[1].fields_at, dictionary: DICTIONARY, variant }.encode();
    let sections = [(section::DELTAS, &delta[..]), (section::HPACK, &blocks)];
    let mut at = sections_at + (sections.len() * SECTION_LEN) as u64;
    for (kind, content) in sections {
        let len = content.len() as u64;
        bytes.extend_from_slice(&SectionRow { kind, at, len, hash: hash(content) }.encode());
        at += len;
    }
    sections.iter().for_each(|(_, content)| bytes.extend_from_slice(content));
    pad(&mut bytes, RECORD_ALIGN);
    let pages_at = bytes.len() as u64;
    for code in STATUS_PAGE_CODES {
        let (fields_at, fields_len) = match code {
            204 => (allow_at, FIELDS_204.len()),
            _ => (redirect_at, FIELDS_301.len()),
        };
        let (fields_at, fields_len, content_at) = (fields_at as u64, fields_len as u32, elsewhere as u64);
        bytes.extend_from_slice(
            &StatusPageRow { code, fields_len, fields_at, content_at, content_len: 0 }.encode(),
        );
    }
    pad(&mut bytes, RECORD_ALIGN);
    let index_at = bytes.len() as u64;
    let slots = build_index(&places).expect("a small image");
    bytes.extend_from_slice(slots.as_flattened());

    let header = Header {
        len: bytes.len() as u64,
        index_at,
        slot_count: slots.len() as u64,
        record_count: PATHS.len() as u64,
        pages_at,
        page_count: STATUS_PAGE_CODES.len() as u64,
        file_count: 1,
        archive_len: 0,
        tables_hash: 0,
        sections_at,
        section_count: sections.len() as u64,
        ..Header::default()
    };
    bytes[..HEADER_LEN].copy_from_slice(&header.encode());
    seal(&mut bytes);
    bytes
}

fn pad(bytes: &mut Vec<u8>, align: u64) {
    bytes.resize(bytes.len().next_multiple_of(align as usize), 0);
}
