//! Tests of hand-made images: lookups, refused images, and damage.

use bytes::Bytes;
use proptest::prelude::*;
use std::iter;
use tarpon_site::format::{
    ChecksumRow, DeltaRow, EntryRecord, HEADER_LEN, HPACK_PLACE_LEN, Header, HpackPlace, INDEX_ALIGN,
    IndexSlot, RECORD_ALIGN, RECORD_LEN, RecordKind, SECTION_ALIGN, SLOT_LEN, STATUS_PAGE_CODES, SectionRow,
    StatusPageRow, Storage, VARIANT_LEN, hash, section,
};
use tarpon_site::hpack;
use tarpon_site::rules::{LogPathRow, RuleRow, RuleStep, encode_head};
use tarpon_site::{Coding, Content, Entry, FieldBlock, Image, ImageError, Region, Variants, build_index};

#[test]
fn file_is_found_with_its_properties() {
    let mut builder = ImageBuilder::default();
    builder.file(b"/a", "hello");
    let image = builder.image();
    let Some(Entry::File(Variants { identity: variant, .. })) = image.find(b"/a").unwrap() else {
        panic!("not found")
    };
    assert_eq!(image.bytes(variant.not_modified().text), b"ETag: \"7\"\r\n\r\n");
    assert_eq!(image.bytes(variant.fields().text), b"Content-Length: 5\r\nETag: \"7\"\r\n\r\n");
    assert_eq!(image.bytes(variant.etag), b"\"7\"");
    assert_eq!(variant.last_modified, 784_111_777);
    let Content::Image(content) = variant.content else { panic!("not in the image") };
    assert_eq!(image.bytes(content), b"hello");
    assert_eq!(variant.fields().text.at + variant.fields().text.len, content.at);
    assert_eq!(
        image.entries().collect::<Vec<_>>(),
        [(&b"/a"[..], image.find(b"/a").unwrap().expect("found"))]
    );
}

#[test]
fn damaged_coded_variant_is_skipped() {
    type Damage = fn(&mut EntryRecord);
    #[rustfmt::skip]
    let cases: &[(&str, Damage, &[Coding])] = &[
        // case                   change to the second of three        remaining coded variants
        ("nothing",               |_| (),                              &[Coding::Br, Coding::Zstd, Coding::Gzip]),
        ("no coding",             |row| row.coding = Coding::Identity, &[Coding::Br, Coding::Gzip]),
        ("fields over the end",   |row| row.fields_at = u64::MAX,         &[Coding::Br, Coding::Gzip]),
        ("tag beyond the fields", |row| row.etag_at = u32::MAX,        &[Coding::Br, Coding::Gzip]),
        ("content over the end",  |row| row.content_len = u64::MAX,    &[Coding::Br, Coding::Gzip]),
        ("no such file",          |row| row.storage = Storage::File,         &[Coding::Br, Coding::Gzip]),
        ("beyond the archive",    |row| (row.storage, row.content_at) = (Storage::Archive, 100), &[Coding::Br, Coding::Gzip]),
    ];
    for (name, damage, want) in cases {
        let mut builder = ImageBuilder::default();
        builder.coded(b"/a", &["plain", "brot", "zst", "gz"], damage);
        builder.file(b"/b", "other");
        let image = builder.image();
        let Some(Entry::File(file)) = image.find(b"/a").unwrap() else { panic!("not found: {name}") };
        assert_eq!(image.content(b"/a"), b"plain", "{name}");
        let codings: Vec<_> = image.coded_variants(file).map(|(coding, _)| coding).collect();
        assert_eq!(&codings, want, "{name}");
        for (coding, variant) in image.coded_variants(file) {
            let Content::Image(content) = variant.content else { panic!("not in the image") };
            let content = image.bytes(content);
            assert_eq!(content, ["brot", "gz", "zst"][coding as usize - 1].as_bytes());
            assert_eq!(
                image.bytes(variant.fields().text),
                format!("Content-Length: {}\r\nETag: \"7\"\r\n\r\n", content.len()).as_bytes()
            );
            assert_eq!(variant.last_modified, 784_111_777);
        }
        let Some(Entry::File(file)) = image.find(b"/b").unwrap() else { panic!("not found: {name}") };
        assert!(file.is_single() && image.coded_variants(file).count() == 0);
        visit(&image);
    }
}

#[test]
fn variant_with_a_dictionary_is_only_found_with_it() {
    type Damage = fn(&mut EntryRecord);
    const KNOWN: [u8; 32] = [7; 32];
    const ALL: &[Coding] = &[Coding::Dcb, Coding::Dcz];
    #[rustfmt::skip]
    let cases: &[(&str, Damage, &[Coding])] = &[
        // case                   change to the second of two          remaining variants
        ("nothing",               |_| (),                              ALL),
        ("a coding without one",  |row| row.coding = Coding::Zstd,     &[Coding::Dcb]),
        ("no coding",             |row| row.coding = Coding::Identity, &[Coding::Dcb]),
        ("fields over the end",   |row| row.fields_at = u64::MAX,         &[Coding::Dcb]),
        ("tag beyond the fields", |row| row.etag_at = u32::MAX,        &[Coding::Dcb]),
        ("content over the end",  |row| row.content_len = u64::MAX,    &[Coding::Dcb]),
        ("beyond the archive",    |row| (row.storage, row.content_at) = (Storage::Archive, 100), &[Coding::Dcb]),
    ];
    for (name, damage, want) in cases {
        let mut builder = sample();
        builder.deltas(
            &[
                (b"/a", [6; 32], Coding::Dcz, "below"),
                (b"/a", KNOWN, Coding::Dcb, "first"),
                (b"/a", KNOWN, Coding::Dcz, "second"),
                (b"/a", [8; 32], Coding::Dcz, "above"),
                (b"/b", KNOWN, Coding::Dcb, "other"),
            ],
            damage,
        );
        let image = builder.image();
        let Some(Entry::File(file)) = image.find(b"/a").unwrap() else { panic!("not found: {name}") };
        assert!(file.is_single() && image.coded_variants(file).count() == 0, "{name}");
        let found: Vec<_> = image.deltas(file, KNOWN).unwrap().collect();
        assert_eq!(&found.iter().map(|(coding, _)| *coding).collect::<Vec<_>>(), want, "{name}");
        for ((_, variant), want) in found.iter().zip(["first", "second"]) {
            let Content::Image(content) = variant.content else { panic!("not in the image") };
            assert_eq!(image.bytes(content), want.as_bytes(), "{name}");
            assert_eq!(image.bytes(variant.etag), b"\"7\"", "{name}");
            assert_eq!(variant.last_modified, 784_111_777, "{name}");
        }
        assert_eq!(image.deltas(file, [9; 32]).unwrap().count(), 0, "{name}");
        assert_eq!(image.all_deltas(file).count(), 2 + want.len(), "{name}");
        let Some(Entry::File(other)) = image.find(b"/b").unwrap() else { panic!("not found: {name}") };
        assert_eq!(
            (image.deltas(other, KNOWN).unwrap().count(), image.deltas(other, [6; 32]).unwrap().count()),
            (1, 0),
            "{name}"
        );
        visit(&image);
    }
    // A variant with a dictionary in a record is invalid.
    let mut builder = ImageBuilder::default();
    builder.coded(b"/a", &["plain", "brot", "zst"], &|row| row.coding = Coding::Dcz);
    let image = builder.image();
    let Some(Entry::File(file)) = image.find(b"/a").unwrap() else { panic!("not found") };
    assert_eq!(image.coded_variants(file).map(|(coding, _)| coding).collect::<Vec<_>>(), [Coding::Br]);
    assert_eq!(image.all_deltas(file).count(), 0);
}

#[test]
fn redirect_has_a_position_for_the_query() {
    let mut builder = ImageBuilder::default();
    builder.redirect(b"/a");
    let image = builder.image();
    let Some(Entry::Redirect(redirect)) = image.find(b"/a").unwrap() else { panic!("not found") };
    assert_eq!(image.bytes(redirect.before_query()), b"Location: /a/");
    assert_eq!(image.bytes(redirect.after_query().text), b"\r\nContent-Length: 5\r\n\r\n");
    assert_eq!(image.bytes(redirect.content), b"moved");
}

#[test]
fn each_part_of_the_fields_has_its_hpack_block() {
    let image = sample().image();
    let block = |fields| image.hpack(fields).unwrap().map(|block| image.bytes(block));
    let Some(Entry::File(file)) = image.find(b"/a").unwrap() else { panic!("not found") };
    let Some(Entry::Redirect(redirect)) = image.find(b"/c").unwrap() else { panic!("not found") };
    let fields = file.identity.fields();
    #[rustfmt::skip]
    let cases: &[(&str, FieldBlock, &[u8])] = &[
        // case                    fields                        block
        ("200",                    fields,                       b"\x0f\x0d\x015\x0f\x13\x03\"7\""),
        ("200, again",             fields,                       b"\x0f\x0d\x015\x0f\x13\x03\"7\""),
        ("206",                    fields.skip(19),              b"\x0f\x13\x03\"7\""),
        ("304",                    file.identity.not_modified(), b"\x0f\x13\x03\"7\""),
        ("from within a line on",  fields.skip(18),              b"\x0f\x13\x03\"7\""),
        ("the empty line",         fields.skip(30),              b""),
        ("nothing",                FieldBlock::EMPTY,            b""),
        ("a redirect",             redirect.fields(),            b"\x0f\x1f\x03/a/\x0f\x0d\x015"),
        ("with a query",           redirect.after_query(),       b"\x0f\x0d\x015"),
        ("204",                    image.status_page(204).fields, b""),
        ("404",                    image.status_page(404).fields, b"\x0f\x0d\x013"),
    ];
    for &(name, fields, want) in cases {
        assert_eq!(block(fields), Some(want), "{name}");
    }
    for (_, variant) in image.coded_variants(file) {
        assert!(block(variant.fields()).is_some());
    }
}

#[test]
fn forged_hpack_block_is_not_returned() {
    let mut builder = ImageBuilder::default();
    builder.file(b"/a", "hello");
    builder.file(b"/b", "hello!");
    let blocks_len = builder.hpack.len() as u32;
    let bytes = builder.bytes();
    let place_at = |path: &[u8]| {
        let image = Image::new(bytes.clone().into()).expect("an image");
        let Some(Entry::File(file)) = image.find(path).unwrap() else { panic!("not found") };
        file.identity.fields().text.at as usize - HPACK_PLACE_LEN
    };
    let place = |path| HpackPlace::decode(bytes[place_at(path)..].first_chunk().expect("a place"));
    let (good, other) = (place(b"/a"), place(b"/b"));
    #[rustfmt::skip]
    let cases = [
        // case                 place of the block of "/a"
        ("of another response", other),
        ("shorter",             HpackPlace { len: good.len - 1, ..good }),
        ("longer",              HpackPlace { len: good.len + 1, ..good }),
        ("empty",               HpackPlace { len: 0, ..good }),
        ("after the others",    HpackPlace { at: blocks_len, ..good }),
        ("beyond the section",  HpackPlace { at: u32::MAX, ..good }),
        ("longest",             HpackPlace { len: u32::MAX, ..good }),
    ];
    for (name, forged) in cases {
        let mut bytes = bytes.clone();
        bytes[place_at(b"/a")..][..HPACK_PLACE_LEN].copy_from_slice(&forged.encode());
        let image = Image::new(bytes.into()).expect("an image");
        for (path, is_good) in [(b"/a", false), (b"/b", true), (b"/a", false)] {
            let Some(Entry::File(file)) = image.find(path).unwrap() else { panic!("not found") };
            assert!(image.is_framed(&file.identity).unwrap(), "{name}: the text is as packed");
            for fields in [file.identity.fields(), file.identity.not_modified()] {
                assert_eq!(image.hpack(fields).unwrap().is_some(), is_good, "{name}");
            }
        }
    }
}

#[test]
fn image_whose_status_page_has_no_hpack_block_is_refused() {
    let mut builder = ImageBuilder::default();
    builder.hpack.push(0x82);
    let good = builder.bytes();
    let at = good.windows(4).position(|bytes| bytes == b"\x0f\x0d\x013").expect("the block of a page");
    for (at, value) in [(at, 0x0e), (at + 3, b'4')] {
        let mut bytes = good.clone();
        bytes[at] = value;
        assert_eq!(Image::new(bytes.into()).expect_err("refused"), ImageError::Pages);
    }
    assert!(Image::new(good.into()).is_ok());
}

#[test]
fn image_of_version_1_is_refused_with_a_hint() {
    let mut bytes = ImageBuilder::default().bytes();
    bytes[8] = 1;
    let error = Image::new(bytes.into()).expect_err("refused");
    assert_eq!(error, ImageError::Version { found: 1 });
    assert!(
        error.to_string().contains("version 1 of the format") && error.to_string().contains("tarpon pack")
    );
}

#[test]
fn every_status_has_its_page() {
    let image = ImageBuilder::default().image();
    for code in STATUS_PAGE_CODES {
        let fields: &[u8] = if code == 204 { b"\r\n" } else { b"Content-Length: 3\r\n\r\n" };
        assert_eq!(image.bytes(image.status_page(code).fields.text), fields);
        assert_eq!(image.bytes(image.status_page(code).content), code.to_string().as_bytes());
    }
}

#[test]
fn checked_responses_are_ready() {
    let mut builder = ImageBuilder::default();
    builder.coded(b"/a", &["plain", "br"], &|_| ());
    builder.file(b"/b", "plain");
    let image = builder.image();
    let is_ready = |path: &&[u8]| {
        let record = image.find_record(path).unwrap().unwrap();
        let mut offers = iter::once(None).chain(record.offers().map(Some));
        offers.all(|offer| image.ready_response(record, offer).is_some())
    };
    for (count, want) in [(0, 0), (1, 1), (9, 2)] {
        image.check_framing(count);
        assert_eq!([&b"/a"[..], b"/b"].into_iter().filter(is_ready).count(), want);
    }
}

#[test]
#[rustfmt::skip]
fn unframed_response_is_detected() {
    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Subject { File, Brotli, Delta, Redirect }
    use Subject::*;
    let cases: &[(&str, Subject, &str, &str)] = &[
        // case                     of        before                      after
        ("nothing",                 File,     "Content-Length: 5",        "Content-Length: 5"),
        ("a longer content",        File,     "Content-Length: 5",        "Content-Length: 4"),
        ("zeros",                   File,     "Content-Length: 5",        "Content-Length:00"),
        ("a line end too early",    File,     "Content-Length: 5",        "Content-Leng\r\n\r\n5"),
        ("no length",               File,     "Content-Length: 5",        "Content-LengtX: 5"),
        ("304 with a line too many", File,    "ETag: \"7\"\r\n\r\n",      "ETag:\r\n\r\n\r\n\r\n"),
        ("304 without its end",     File,     "ETag: \"7\"\r\n\r\n",      "ETag: \"7\"\r\n\r:"),
        ("a variant",               Brotli,   "Content-Length: 3",        "Content-Length: 4"),
        ("with a dictionary",       Delta,    "Content-Length: 2",        "Content-Length: 3"),
        ("a redirect",              Redirect, "Content-Length: 5",        "Content-Length: 3"),
        ("to another host",         Redirect, "Location: /a/",            "Location: //a"),
        ("a line end",              Redirect, "Location: /a/",            "Location: /\r\n"),
        ("a bare LF",               Redirect, "Location: /a/",            "Location: /\n/"),
    ];
    for &(name, of, before, after) in cases {
        assert_eq!(before.len(), after.len(), "{name}");
        let mut builder = ImageBuilder::default();
        builder.coded(b"/b", &["world", "wld"], &|_| ());
        builder.redirect(b"/c");
        builder.deltas(&[(b"/b", [7; 32], Coding::Dcb, "ll")], &|_| ());
        let mut bytes = builder.bytes();
        // The redirect follows the files.
        let from = if of == Redirect { bytes.windows(9).position(|at| at == b"Location:").expect("a redirect") } else { 0 };
        let at = from + bytes[from..].windows(before.len()).position(|at| at == before.as_bytes()).expect("such fields");
        bytes[at..at + after.len()].copy_from_slice(after.as_bytes());
        let image = Image::new(bytes.into()).expect("an image");
        let (Some(Entry::File(file)), Some(Entry::Redirect(redirect))) = (image.find(b"/b").unwrap(), image.find(b"/c").unwrap()) else { panic!("{name}") };
        let (_, coded) = image.coded_variants(file).next().expect("Brotli");
        let (_, _, delta) = image.all_deltas(file).next().expect("a delta");
        // The second check uses the stored result of the first.
        for check in ["first", "second"] {
            let got = [image.is_framed(&file.identity).unwrap(), image.is_framed(&coded).unwrap(), image.is_framed(&delta).unwrap(), image.is_redirect_framed(&redirect).unwrap()];
            let want = [File, Brotli, Delta, Redirect].map(|other| other != of || before == after);
            assert_eq!(got, want, "{name}, {check} check");
        }
    }
}

#[test]
fn forged_status_page_or_rule_is_refused() {
    for (before, after) in
        [("Content-Length: 3", "Content-Length: 4"), ("Content-Length: 3", "Content-Leng\r\n\r\n3")]
    {
        let mut bytes = ImageBuilder::default().bytes();
        let at = bytes.windows(before.len()).position(|at| at == before.as_bytes()).expect("a page");
        bytes[at..at + after.len()].copy_from_slice(after.as_bytes());
        assert_eq!(Image::new(bytes.into()).expect_err(after), ImageError::Pages);
    }
    const FIELDS: &str = "Content-Length: 5\r\n\r\n";
    #[rustfmt::skip]
    let cases: &[(&str, &str, u16, &[RuleStep<'_>], bool)] = &[
        // case                    fields                  status  target
        ("as packed",              FIELDS,                 301, &[RuleStep::Text(b"/a/"), RuleStep::Captured(0)],              true),
        ("a rewrite",              FIELDS,                 200, &[RuleStep::Text(b"/a b/"), RuleStep::Captured(0)],            true),
        ("an error",               FIELDS,                 404, &[RuleStep::Text(b"/404.html")],                       true),
        ("another host",           FIELDS,                 301, &[RuleStep::Text(b"https://a.org/"), RuleStep::Captured(0)],   true),
        ("a host alone",           FIELDS,                 301, &[RuleStep::Text(b"https://a.org")],                   true),
        ("a fragment",             FIELDS,                 301, &[RuleStep::Text(b"https://a.org"), RuleStep::Text(b"#"), RuleStep::CapturedInQuery(0)], true),
        ("a part of a host",       FIELDS,                 301, &[RuleStep::Text(b"https://a.org"), RuleStep::Captured(0)],    false),
        ("a captured host",        FIELDS,                 301, &[RuleStep::Text(b"https://"), RuleStep::Captured(0)],         false),
        ("a capture alone",        FIELDS,                 301, &[RuleStep::Captured(0)],                                  false),
        ("nowhere",                FIELDS,                 301, &[],                                               false),
        ("a line end",             FIELDS,                 301, &[RuleStep::Text(b"/a\r\nX: 1")],                      false),
        ("a line end after",       FIELDS,                 301, &[RuleStep::Text(b"/a"), RuleStep::Captured(0), RuleStep::Text(b"\n")], false),
        ("a tab",                  FIELDS,                 301, &[RuleStep::Text(b"/\t/a.org")],                       false),
        ("a backslash",            FIELDS,                 301, &[RuleStep::Text(b"/\\a.org")],                       false),
        ("a status without content", FIELDS,               304, &[RuleStep::Text(b"/a/")],                             false),
        ("and another",            FIELDS,                 204, &[RuleStep::Text(b"/a/")],                             false),
        ("an interim one",         FIELDS,                 100, &[RuleStep::Text(b"/a/")],                             false),
        ("another length",         "Content-Length: 6\r\n\r\n", 301, &[RuleStep::Text(b"/a/")],                       false),
        ("a Location",             "Location: /\r\nContent-Length: 5\r\n\r\n", 301, &[RuleStep::Text(b"/a/")],        false),
    ];
    for &(name, fields, status, target, is_good) in cases {
        let (pattern, parameters, fragment) = (&[RuleStep::Text(b"/x/"), RuleStep::CaptureRest], &[], b"");
        let row = RuleRow {
            status,
            forced: true,
            optional_slash: true,
            keeps_query: true,
            pattern,
            parameters,
            target,
            fragment,
        };
        let mut builder = ImageBuilder::default();
        let head = encode_head(fields.as_bytes(), builder.hpack_block(fields), b"moved");
        let section = [head, row.encode().expect("short")].concat();
        builder.section(section::RULES, &section);
        let got = Image::new(builder.bytes().into()).map(|_| ());
        assert_eq!(got, if is_good { Ok(()) } else { Err(ImageError::Rules) }, "{name}");
    }
}

#[test]
fn damaged_or_forged_log_paths_are_refused() {
    let row = |pattern: &[RuleStep<'_>]| {
        LogPathRow { is_logged: false, optional_slash: true, pattern }.encode().expect("a short pattern")
    };
    let row = row(&[RuleStep::Text(b"/quiet/"), RuleStep::CaptureRest]);
    type Damage = fn(&mut SectionRow);
    #[rustfmt::skip]
    let cases: &[(&str, &[u8], Damage, bool)] = &[
        ("as packed",          &row,                |_| (),                 true),
        ("a cut row",          &row[..row.len() - 1], |_| (),               false),
        ("no row",             b"",                 |_| (),                 false),
        ("another checksum",   &row,                |row| row.hash ^= 1,    false),
        ("outside",            &row,                |row| row.at = 1 << 40, false),
        ("an unknown section", b"",                 |row| row.kind = 9,     true),
    ];
    for (name, section, damage, is_good) in cases {
        let mut builder = ImageBuilder::default();
        builder.file(b"/quiet/a", "x");
        builder.section(section::LOG_PATHS, section);
        damage(builder.sections.last_mut().expect("a section"));
        let got = Image::new(builder.bytes().into());
        let logged = got.as_ref().ok().and_then(|image| Some(image.log_paths()?.is_logged(b"/quiet/a")));
        assert_eq!(got.map(drop), if *is_good { Ok(()) } else { Err(ImageError::LogPaths) }, "{name}");
        assert_eq!(logged, (*name == "as packed").then_some(false), "{name}");
    }
}

#[test]
fn only_the_exact_path_is_found() {
    let mut builder = ImageBuilder::default();
    for path in [&b"/"[..], b"/a/", b"/a/b", b"/\xff"] {
        builder.file(path, "x");
    }
    let image = builder.image();
    for path in [&b"/"[..], b"/a/", b"/a/b", b"/\xff"] {
        assert!(image.find(path).unwrap().is_some(), "{path:?}");
    }
    for path in [&b""[..], b"a", b"/a", b"/a/b/", b"/A/", b"/a/\0"] {
        assert_eq!(image.find(path).unwrap(), None, "{path:?}");
    }
}

#[test]
fn search_wraps_around_the_index() {
    // The hashes of all these paths select the last of eight slots.
    let last = |number: &u32| hash(format!("/{number}").as_bytes()) & 7 == 7;
    let numbers: Vec<u32> = (0..).filter(last).take(5).collect();
    let (missing, present) = numbers.split_last().expect("five");
    let mut builder = ImageBuilder::default();
    for number in present {
        builder.file(format!("/{number}").as_bytes(), &number.to_string());
    }
    let image = builder.image();
    for number in present {
        assert_eq!(image.content(format!("/{number}").as_bytes()), number.to_string().as_bytes());
    }
    assert_eq!(image.find(format!("/{missing}").as_bytes()).unwrap(), None);
}

#[test]
fn paths_with_the_same_hash_are_distinguished() {
    // Simulates a collision: `other` gets the hash of `path`.
    let mut builder = ImageBuilder::default();
    builder.file(b"/other", "other");
    builder.records[0].0 = hash(b"/path");
    builder.file(b"/path", "path");
    let image = builder.image();
    assert_eq!(image.content(b"/path"), b"path");
    assert_eq!(image.find(b"/other").unwrap(), None);
    assert_eq!(image.entries().count(), 2);
}

#[test]
fn search_in_a_full_index_ends() {
    let mut builder = ImageBuilder::default();
    builder.file(b"/a", "x");
    let full = vec![IndexSlot::new(hash(b"/b"), builder.records[0].1).expect("small offsets").encode(); 8];
    let image = builder.image_with(full);
    assert_eq!(image.find(b"/b").unwrap(), None);
    assert_eq!(image.find(b"/a").unwrap(), None);
}

#[test]
fn index_refuses_a_large_offset() {
    let far = RECORD_ALIGN << 32;
    assert_eq!(build_index(&[(0, far - RECORD_ALIGN)]).map(|slots| slots.len()), Some(8));
    assert_eq!(build_index(&[(0, far)]), None);
    for (count, slots) in [(0, 8), (4, 8), (5, 16), (8, 16), (9, 32)] {
        assert_eq!(build_index(&vec![(7, 128); count]).expect("small offsets").len(), slots, "{count}");
    }
}

#[test]
#[rustfmt::skip]
fn record_out_of_bounds_is_ignored() {
    type Damage = fn(&mut EntryRecord, u64);
    let file: &[(&str, bool, Damage)] = &[
        // case                        found  change to the record of a file, in an image of this length
        ("nothing",                    true,  |_, _| ()),
        ("path longer",                false, |record, _| record.path_len += 1),
        ("path beyond the end",        false, |record, _| record.path_len = u16::MAX),
        ("fields to the end",          true,  |record, len| record.fields_at = len - 32),
        ("fields over the end",        false, |record, len| record.fields_at = len - 31),
        ("fields far off",             false, |record, _| record.fields_at = u64::MAX),
        ("longest fields",             false, |record, _| record.fields_len = u32::MAX),
        ("fields of 304 over the end", false, |record, _| record.not_modified_len = u32::MAX),
        ("tag to the end",             true,  |record, _| record.etag_len = 7),
        ("tag over the end",           false, |record, _| record.etag_len = 8),
        ("tag beyond the fields",      false, |record, _| record.etag_at = u32::MAX),
        ("content over the end",       false, |record, len| record.content_len = len),
        ("content far off",            false, |record, _| record.content_at = u64::MAX),
        ("largest content length",     false, |record, _| record.content_len = u64::MAX),
        ("the file",                   true,  |record, _| (record.storage, record.content_at) = (Storage::File, 0)),
        ("no such file",               false, |record, _| (record.storage, record.content_at) = (Storage::File, 1)),
        ("more variants",              false, |record, _| record.variant_count = 2),
        ("a redirect",                 true,  |record, _| record.kind = RecordKind::Redirect),
        ("split to the end",           true,  |record, _| (record.kind, record.before_query) = (RecordKind::Redirect, 32)),
        ("split beyond the end",       false, |record, _| (record.kind, record.before_query) = (RecordKind::Redirect, 33)),
        ("redirect, coded",            false, |record, _| (record.kind, record.variant_count) = (RecordKind::Redirect, 2)),
        ("the whole archive",          true,  |record, _| (record.storage, record.content_at, record.content_len) = (Storage::Archive, 0, 100)),
        ("beyond the archive",         false, |record, _| (record.storage, record.content_at, record.content_len) = (Storage::Archive, 1, 100)),
        ("redirect to an archive",     false, |record, _| (record.kind, record.storage, record.content_at) = (RecordKind::Redirect, Storage::Archive, 0)),
        ("redirect to a file",         false, |record, _| (record.kind, record.storage, record.content_at) = (RecordKind::Redirect, Storage::File, 0)),
    ];
    for (name, is_found, damage) in file {
        let mut builder = ImageBuilder { file_count: 1, archive_len: 100, ..ImageBuilder::default() };
        builder.file(b"/a", "hello");
        let at = builder.records[0].1 as usize;
        let mut bytes = builder.bytes();
        let head = bytes[at..].first_chunk::<RECORD_LEN>().expect("a record");
        let mut record = EntryRecord::decode(head).expect("a record");
        damage(&mut record, bytes.len() as u64);
        bytes[at..][..RECORD_LEN].copy_from_slice(&record.encode());
        let image = Image::new(bytes.into()).expect("an image");
        assert_eq!(image.find(b"/a").unwrap().is_some(), *is_found, "{name}");
        visit(&image);
    }
    for (name, at, value) in [("kind", 2, 4), ("variants", 3, 2), ("no variant", 3, 0), ("five variants", 3, 5), ("255 variants", 3, 255), ("home", 56, 3), ("coded", 57, 1), ("coding", 57, 4)] {
        let mut builder = ImageBuilder::default();
        builder.file(b"/a", "hello");
        let record = builder.records[0].1 as usize;
        let mut bytes = builder.bytes();
        bytes[record + at] = value;
        assert_eq!(Image::new(bytes.into()).expect("an image").find(b"/a").unwrap(), None, "{name}");
    }
}

#[test]
#[rustfmt::skip]
fn invalid_image_is_refused() {
    type Change = fn(&mut Header);
    let cases: &[(&str, Change, ImageError)] = &[
        ("too short",             |header| header.len -= 1,                       ImageError::Length),
        ("too long",              |header| header.len += 1,                       ImageError::Length),
        ("index elsewhere",       |header| header.index_at -= 64,                 ImageError::Index),
        ("index not aligned",     |header| header.index_at += 8,                  ImageError::Index),
        ("index far off",         |header| header.index_at = u64::MAX - 7,        ImageError::Index),
        ("slots not a power",     |header| header.slot_count = 7,                 ImageError::Index),
        ("no slots",              |header| (header.slot_count, header.index_at) = (0, header.len), ImageError::Index),
        ("slots beyond counting", |header| header.slot_count = 1 << 63,           ImageError::Index),
        ("more records than fit", |header| header.record_count = 5,               ImageError::Index),
        ("pages in the header",   |header| header.pages_at = 0,                   ImageError::Pages),
        ("pages not aligned",     |header| header.pages_at += 4,                  ImageError::Pages),
        ("pages far off",         |header| header.pages_at = !7,                  ImageError::Pages),
        ("pages in the index",    |header| header.page_count += 3,                ImageError::Pages),
        ("pages beyond counting", |header| header.page_count = u64::MAX,          ImageError::Pages),
        ("another hash",          |header| header.tables_hash ^= 1,               ImageError::TablesHash),
        ("a page less",           |header| header.page_count -= 1,                ImageError::PageMissing),
        ("sections over the end", |header| (header.sections_at, header.section_count) = (header.len - 31, 1), ImageError::Sections),
        ("sections far off",      |header| (header.sections_at, header.section_count) = (u64::MAX, 1), ImageError::Sections),
        ("sections beyond counting", |header| header.section_count = u64::MAX,    ImageError::Sections),
    ];
    for (name, change, want) in cases {
        let mut bytes = ImageBuilder::default().bytes();
        let mut header = Header::decode(bytes.first_chunk().expect("a header")).expect("a header");
        change(&mut header);
        bytes[..HEADER_LEN].copy_from_slice(&header.encode());
        assert_eq!(Image::new(bytes.into()).expect_err(name), *want, "{name}");
    }
    for (at, want) in [(0, ImageError::Magic), (7, ImageError::Magic), (8, ImageError::Version { found: 3 }), (12, ImageError::Version { found: 2 }), (100, ImageError::HeaderHash), (127, ImageError::HeaderHash)] {
        let mut bytes = ImageBuilder::default().bytes();
        bytes[at] ^= 1;
        assert_eq!(Image::new(bytes.into()).expect_err("refused"), want, "{at}");
    }
    assert_eq!(Image::new(Bytes::new()).expect_err("refused"), ImageError::Magic);
}

#[test]
fn section_out_of_bounds_is_skipped() {
    let mut builder = ImageBuilder::default();
    let at = builder.bytes.len() as u64;
    builder.bytes.extend_from_slice(b"sections");
    let row = |kind, at, len| SectionRow { kind, at, len, hash: 7 };
    let rows = [row(9, at, 8), row(1, at, u64::MAX), row(2, u64::MAX, 1), row(3, at + 8, 0), row(9, at, 3)];
    builder.sections.extend(rows);
    let image = builder.image();
    let want = [(rows[0], &b"sections"[..]), (rows[3], b""), (rows[4], b"sec")];
    let others = image.sections().filter(|(row, _)| row.kind != section::HPACK);
    assert_eq!(others.collect::<Vec<_>>(), want);
    assert_eq!(ImageBuilder::default().image().sections().count(), 1);
}

#[test]
fn status_page_out_of_bounds_is_refused() {
    let builder = ImageBuilder { page_shift: 1 << 40, ..ImageBuilder::default() };
    assert_eq!(Image::new(builder.bytes().into()).expect_err("refused"), ImageError::Pages);
}

/// Repeats the layout by hand, so that an accidental change fails.
#[test]
#[rustfmt::skip]
fn layout_is_that_of_version_2() {
    let header = Header { len: 1, index_at: 2, slot_count: 3, record_count: 4, pages_at: 5, page_count: 6, file_count: 7, tables_hash: 8, archive_len: 9, sections_at: 10, section_count: 11, body_hash: 12 };
    let mut want = b"tarpon\0\x01\x02\0\0\0\x80\0\0\0".to_vec();
    for value in 1..=12u64 {
        want.extend(value.to_le_bytes());
    }
    want.resize(120, 0);
    want.extend(hash(&want).to_le_bytes());
    assert_eq!(header.encode(), want[..]);
    assert_eq!(Header::decode(&header.encode()), Ok(header));

    let slot = IndexSlot::new(0x0123_4567_89ab_cdef, 0x40 * 0x0a0b_0c0d).expect("small offsets");
    assert_eq!(slot.encode(), *b"\x67\x45\x23\x01\x0d\x0c\x0b\x0a");
    assert_eq!(IndexSlot::decode(&slot.encode()), Some(slot));
    assert_eq!(IndexSlot::decode(&[0; SLOT_LEN]), None);

    let record = EntryRecord {
        path_len: 0x0201, kind: RecordKind::Redirect, variant_count: 4, before_query: 3, last_modified: 4, fields_at: 5, not_modified_len: 6,
        fields_len: 7, content_at: 8, content_len: 9, etag_at: 10, etag_len: 11, storage: Storage::File,
        coding: Coding::Zstd, status: 0x0d0c, checks_rules: true,
    };
    let want = b"\x01\x02\x01\x04\x03\0\0\0\x04\0\0\0\0\0\0\0\
                 \x05\0\0\0\0\0\0\0\x06\0\0\0\x07\0\0\0\x08\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\
                 \x0a\0\0\0\x0b\0\0\0\x01\x03\x0c\x0d\x01\0\0\0";
    assert_eq!(record.encode(), *want);
    assert_eq!(EntryRecord::decode(&record.encode()), Some(record));

    let row = StatusPageRow { code: 0x0102, fields_len: 3, fields_at: 4, content_at: 5, content_len: 6 };
    let want = b"\x02\x01\0\0\x03\0\0\0\x04\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\x06\0\0\0\0\0\0\0";
    assert_eq!(row.encode(), *want);
    assert_eq!(StatusPageRow::decode(&row.encode()), Some(row));

    let row = SectionRow { kind: 0x0102, at: 3, len: 4, hash: 5 };
    assert_eq!(row.encode(), *b"\x02\x01\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0");
    assert_eq!(SectionRow::decode(&row.encode()), row);

    let variant = EntryRecord { path_len: 0, kind: RecordKind::File, variant_count: 1, before_query: 0, last_modified: 0, coding: Coding::Dcz, ..record };
    let row = DeltaRow { file_at: 1, dictionary: *b"an SHA-256 has thirty-two bytes.", variant };
    let want = b"\x01\0\0\0\0\0\0\0an SHA-256 has thirty-two bytes.\
                 \x05\0\0\0\0\0\0\0\x06\0\0\0\x07\0\0\0\x08\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\
                 \x0a\0\0\0\x0b\0\0\0\x01\x05\x0c\x0d\x01\0\0\0";
    assert_eq!(row.encode(), *want);
    assert_eq!(DeltaRow::decode(&row.encode()), Some(row));
    assert_eq!(DeltaRow::key(&row.encode()), (row.file_at, row.dictionary));

    let place = HpackPlace { at: 0x0201, len: 0x0403 };
    assert_eq!(place.encode(), *b"\x01\x02\0\0\x03\x04\0\0");
    assert_eq!(HpackPlace::decode(&place.encode()), place);

    let row = ChecksumRow { at: 1, len: 2, hash: 3 };
    assert_eq!(row.encode(), *b"\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0");
    assert_eq!(ChecksumRow::decode(&row.encode()), row);
}

proptest! {
    #[test]
    fn damaged_image_is_handled_without_panic(
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        cut in proptest::option::of(any::<prop::sample::Index>()),
        sealed in any::<bool>(),
    ) {
        let mut bytes = sample().bytes();
        for (at, value) in flips {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if sealed {
            seal(&mut bytes);
        }
        if let Ok(image) = Image::new(bytes.into()) {
            visit(&image);
        }
    }

    #[test]
    fn random_record_stays_in_bounds(head in any::<[u8; RECORD_LEN]>(), kind in 0..2u8, home in 0..2u8) {
        let mut builder = sample();
        builder.file(b"/x", "x");
        let at = builder.records.last().expect("a record").1 as usize;
        let mut bytes = builder.bytes();
        // The first bytes are valid, because random ones would rarely pass the first checks.
        bytes[at..][..RECORD_LEN].copy_from_slice(&head);
        bytes[at..][..4].copy_from_slice(&[2, 0, kind, 1]);
        bytes[at..][56..58].copy_from_slice(&[home, 0]);
        visit(&Image::new(bytes.into()).expect("an image"));
    }
}

/// Corrects the checksums, if the header is long enough.
fn seal(bytes: &mut [u8]) {
    let Some(header) = bytes.first_chunk::<HEADER_LEN>() else { return };
    let at = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
    let (len, pages_at) = (bytes.len() as u64, at(48));
    let tables_hash = hash(&bytes[pages_at.min(len) as usize..]);
    let header = Header {
        len,
        index_at: at(24),
        slot_count: at(32),
        record_count: at(40),
        pages_at,
        page_count: at(56),
        archive_len: at(80),
        file_count: at(64),
        tables_hash,
        sections_at: at(88),
        section_count: at(96),
        body_hash: at(104),
    };
    bytes[..HEADER_LEN].copy_from_slice(&header.encode());
}

/// Reads everything in an image. A region outside of it panics.
fn visit(image: &Image) {
    image.sections().for_each(|(row, bytes)| assert_eq!(row.len, bytes.len() as u64));
    for path in [&b"/a"[..], b"/b", b"/c", b"/x", b"/missing"] {
        image.find(path).unwrap().into_iter().for_each(|entry| visit_entry(image, entry));
    }
    image.entries().for_each(|(_, entry)| visit_entry(image, entry));
    for code in STATUS_PAGE_CODES {
        image.bytes(image.status_page(code).fields.text);
        assert!(image.hpack(image.status_page(code).fields).unwrap().is_some());
        image.bytes(image.status_page(code).content);
    }
}

fn visit_entry(image: &Image, entry: Entry) {
    let check = |region: Region| assert_eq!(image.bytes(region).len() as u64, region.len);
    match entry {
        Entry::File(file) => {
            let coded = image.coded_variants(file).map(|(_, variant)| variant);
            let deltas = image.all_deltas(file).map(|(_, _, variant)| variant);
            for variant in coded.chain(deltas).chain([file.identity]) {
                check(variant.etag);
                for fields in [variant.fields(), variant.not_modified()] {
                    check(fields.text);
                    image.hpack(fields).unwrap().into_iter().for_each(check);
                }
                if image.is_framed(&variant).unwrap() {
                    assert_eq!(content_len(image.bytes(variant.fields().text)), Some(variant.content.len()));
                }
                match variant.content {
                    Content::Image(region) => check(region),
                    Content::File { number, .. } => assert!(u64::from(number) < image.file_count()),
                    Content::Archive(region) => assert!(region.at + region.len <= image.archive_len()),
                }
            }
        }
        Entry::Redirect(redirect) => {
            let (before_query, after_query) = (redirect.before_query(), redirect.after_query());
            [before_query, after_query.text, redirect.content].into_iter().for_each(check);
            for fields in [redirect.fields(), after_query] {
                image.hpack(fields).unwrap().into_iter().for_each(check);
            }
            if image.is_redirect_framed(&redirect).unwrap() {
                let fields = [image.bytes(before_query), b"?q", image.bytes(after_query.text)];
                let fields = if before_query.len == 0 { fields[2].to_vec() } else { fields.concat() };
                assert_eq!(content_len(&fields), Some(redirect.content.len));
            }
        }
    }
}

/// Parses fields like a client that splits them at line ends. Returns the content length, or `None` if they are not the fields of one
/// response.
fn content_len(fields: &[u8]) -> Option<u64> {
    let text = String::from_utf8_lossy(fields);
    let lines: Vec<_> = text.strip_suffix("\r\n\r\n")?.split("\r\n").collect();
    let values: Vec<_> = lines
        .iter()
        .filter_map(|line| line.split_once(':'))
        .filter(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .map(|(_, value)| value.trim_matches(' '))
        .collect();
    let is_line = |line: &&str| line.contains(':') && !line.contains(['\r', '\n']);
    match (lines.iter().all(is_line), &values[..]) {
        (true, [value]) => value.parse().ok(),
        _ => None,
    }
}

fn sample() -> ImageBuilder {
    let mut builder = ImageBuilder { file_count: 3, ..ImageBuilder::default() };
    builder.file(b"/a", "hello");
    builder.coded(b"/b", &["world", "wld"], &|_| ());
    builder.redirect(b"/c");
    builder.deltas(&[(b"/a", [7; 32], Coding::Dcb, "ll"), (b"/b", [7; 32], Coding::Dcz, "rl")], &|_| ());
    builder
}

/// The last fields of a file.
const NOT_MODIFIED: &str = "ETag: \"7\"\r\n\r\n";

/// A builder of test images.
struct ImageBuilder {
    bytes: Vec<u8>,
    records: Vec<(u64, u64)>,
    file_count: u64,
    archive_len: u64,
    sections: Vec<SectionRow>,
    /// The HPACK blocks so far.
    hpack: Vec<u8>,
    /// The error in the offsets of the status pages.
    page_shift: u64,
}

impl Default for ImageBuilder {
    fn default() -> ImageBuilder {
        ImageBuilder {
            bytes: vec![0; HEADER_LEN],
            records: Vec::new(),
            file_count: 0,
            archive_len: 0,
            sections: Vec::new(),
            hpack: Vec::new(),
            page_shift: 0,
        }
    }
}

impl ImageBuilder {
    fn file(&mut self, path: &[u8], content: &str) {
        self.coded(path, &[content], &|_| ());
    }

    /// Adds a file with its contents in this order: identity, Brotli, Zstandard, gzip. Applies `damage` to the third.
    fn coded(&mut self, path: &[u8], contents: &[&str], damage: &dyn Fn(&mut EntryRecord)) {
        let codings = [Coding::Identity, Coding::Br, Coding::Zstd, Coding::Gzip];
        self.align(RECORD_ALIGN);
        let at = self.bytes.len();
        self.records.push((hash(path), at as u64));
        let (mut rows, mut responses) = (Vec::new(), Vec::new());
        for (content, coding) in contents.iter().zip(codings) {
            let response_at =
                at + RECORD_LEN + (contents.len() - 1) * VARIANT_LEN + path.len() + responses.len();
            let fields_at = response_at + HPACK_PLACE_LEN;
            let fields = format!("Content-Length: {}\r\n{NOT_MODIFIED}", content.len());
            let mut record = EntryRecord {
                path_len: path.len() as u16,
                kind: RecordKind::File,
                variant_count: contents.len() as u8,
                before_query: 0,
                last_modified: 784_111_777,
                fields_at: fields_at as u64,
                not_modified_len: NOT_MODIFIED.len() as u32,
                fields_len: fields.len() as u32,
                content_at: (fields_at + fields.len()) as u64,
                content_len: content.len() as u64,
                etag_at: 6,
                etag_len: 3,
                storage: Storage::Image,
                coding,
                status: 0,
                checks_rules: false,
            };
            if coding == Coding::Zstd {
                damage(&mut record);
            }
            let repeated = if rows.is_empty() { 0 } else { RECORD_LEN - VARIANT_LEN };
            rows.extend_from_slice(&record.encode()[repeated..]);
            responses.extend(self.response(&fields, content));
        }
        self.bytes.extend(rows);
        self.bytes.extend(path);
        self.bytes.extend(responses);
    }

    /// Adds variants with a dictionary to the files with these paths. Applies `damage` to the variant with the content `second`.
    fn deltas(&mut self, deltas: &[(&[u8], [u8; 32], Coding, &str)], damage: &dyn Fn(&mut EntryRecord)) {
        let mut rows = Vec::new();
        for &(path, dictionary, coding, content) in deltas {
            let (_, at) = *self.records.iter().find(|(found, _)| *found == hash(path)).expect("a file");
            let record =
                self.bytes[at as usize..].first_chunk().and_then(EntryRecord::decode).expect("a record");
            let fields_at = (self.bytes.len() + HPACK_PLACE_LEN) as u64;
            let fields = format!("Content-Length: {}\r\n{NOT_MODIFIED}", content.len());
            let response = self.response(&fields, content);
            self.bytes.extend(response);
            let content_at = fields_at + fields.len() as u64;
            let inline = EntryRecord {
                content_at,
                content_len: content.len() as u64,
                storage: Storage::Image,
                ..record
            };
            let (not_modified_len, fields_len) = (NOT_MODIFIED.len() as u32, fields.len() as u32);
            let mut variant = EntryRecord { fields_at, not_modified_len, fields_len, coding, ..inline };
            if content == "second" {
                damage(&mut variant);
            }
            rows.push(DeltaRow { file_at: record.fields_at, dictionary, variant }.encode());
        }
        self.section(section::DELTAS, rows.as_flattened());
    }

    /// Adds a section, and removes an earlier one of the same kind.
    fn section(&mut self, kind: u32, bytes: &[u8]) {
        self.align(SECTION_ALIGN);
        self.sections.retain(|row| row.kind != kind);
        let (at, len) = (self.bytes.len() as u64, bytes.len() as u64);
        self.sections.push(SectionRow { kind, at, len, hash: hash(bytes) });
        self.bytes.extend(bytes);
    }

    /// Returns a packed response, with the place of its HPACK block before it.
    fn response(&mut self, fields: &str, content: &str) -> Vec<u8> {
        let place = self.hpack_block(fields);
        [&place.encode(), fields.as_bytes(), content.as_bytes()].concat()
    }

    fn hpack_block(&mut self, fields: &str) -> HpackPlace {
        let at = self.hpack.len();
        hpack::encode(fields.as_bytes(), &mut |byte| self.hpack.push(byte)).expect("field lines");
        HpackPlace { at: at as u32, len: (self.hpack.len() - at) as u32 }
    }

    fn redirect(&mut self, path: &[u8]) {
        let fields = "Location: /a/\r\nContent-Length: 5\r\n\r\n";
        self.record(path, fields, "moved", |fields_at| EntryRecord {
            path_len: path.len() as u16,
            kind: RecordKind::Redirect,
            variant_count: 1,
            before_query: 13,
            last_modified: 0,
            fields_at,
            not_modified_len: 0,
            fields_len: fields.len() as u32,
            content_at: fields_at + fields.len() as u64,
            content_len: 5,
            etag_at: 0,
            etag_len: 0,
            storage: Storage::Image,
            coding: Coding::Identity,
            status: 0,
            checks_rules: false,
        });
    }

    fn record(&mut self, path: &[u8], fields: &str, content: &str, record: impl Fn(u64) -> EntryRecord) {
        self.align(RECORD_ALIGN);
        let at = self.bytes.len() as u64;
        self.records.push((hash(path), at));
        self.bytes.extend(record(at + (RECORD_LEN + path.len() + HPACK_PLACE_LEN) as u64).encode());
        self.bytes.extend(path);
        let response = self.response(fields, content);
        self.bytes.extend(response);
    }

    fn image(self) -> Image {
        let index = build_index(&self.records).expect("small offsets");
        self.image_with(index)
    }

    fn image_with(self, index: Vec<[u8; SLOT_LEN]>) -> Image {
        Image::new(self.bytes_with(&index).into()).expect("an image")
    }

    fn bytes(self) -> Vec<u8> {
        let index = build_index(&self.records).expect("small offsets");
        self.bytes_with(&index)
    }

    fn bytes_with(mut self, index: &[[u8; SLOT_LEN]]) -> Vec<u8> {
        let mut rows = Vec::new();
        for code in STATUS_PAGE_CODES {
            let at = (self.bytes.len() + HPACK_PLACE_LEN) as u64 + self.page_shift;
            let fields = if code == 204 { "\r\n" } else { "Content-Length: 3\r\n\r\n" };
            let (fields_len, content_at) = (fields.len() as u32, at + fields.len() as u64);
            let response = self.response(fields, &code.to_string());
            self.bytes.extend(response);
            rows.extend(
                StatusPageRow { code, fields_len, fields_at: at, content_at, content_len: 3 }.encode(),
            );
        }
        let blocks = std::mem::take(&mut self.hpack);
        self.section(section::HPACK, &blocks);
        self.align(SECTION_ALIGN);
        let sections_at = self.bytes.len() as u64;
        self.sections.iter().for_each(|row| self.bytes.extend(row.encode()));
        let pages_at = self.bytes.len();
        self.bytes.extend(rows);
        self.align(INDEX_ALIGN);
        let index_at = self.bytes.len() as u64;
        self.bytes.extend(index.as_flattened());
        let header = Header {
            len: self.bytes.len() as u64,
            index_at,
            slot_count: index.len() as u64,
            record_count: self.records.len() as u64,
            pages_at: pages_at as u64,
            page_count: STATUS_PAGE_CODES.len() as u64,
            file_count: self.file_count,
            archive_len: self.archive_len,
            tables_hash: hash(&self.bytes[pages_at..]),
            sections_at,
            section_count: self.sections.len() as u64,
            body_hash: 0,
        };
        self.bytes[..HEADER_LEN].copy_from_slice(&header.encode());
        self.bytes
    }

    fn align(&mut self, align: u64) {
        self.bytes.resize(self.bytes.len().next_multiple_of(align as usize), 0);
    }
}

/// A shortcut to the content of a path.
trait ImageContent {
    fn content(&self, path: &[u8]) -> &[u8];
}

impl ImageContent for Image {
    fn content(&self, path: &[u8]) -> &[u8] {
        let Some(Entry::File(Variants { identity: variant, .. })) = self.find(path).unwrap() else {
            panic!("no file at {path:?}")
        };
        let Content::Image(region) = variant.content else { panic!("not in the image") };
        self.bytes(region)
    }
}
