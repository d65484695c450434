//! Packed sites: for any bytes, verification ends, detects every change unless the checksums were corrected, and all contents are
//! within the archive.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use std::{
    fs::{self, File},
    io::{Seek, Write},
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::OnceLock,
};
use tarpon_pack::{
    CompressionEffort, Dialect, Dictionaries, PackInput, Policy, Progress, SiteOptions, inspect, pack_site,
    verify,
};
use tarpon_site::format::{HEADER_LEN, Header, hash};
use tarpon_site::packed::{IMAGE_AT, image_in};
use tarpon_site::{Content, Entry, Image};

// The input is a packed site, and a list of changes to a valid one: whether to correct its checksums (one byte), its new length (one
// byte), then for each change an offset (three bytes), a count of one to eight (one byte), and the new bytes.
fuzz_target!(|input: &[u8]| {
    visit(input);
    let [sealed, cut, rest @ ..] = input else { return };
    let mut bytes = good().to_vec();
    change(&mut bytes, rest);
    if sealed % 2 == 1 {
        seal(&mut bytes);
    }
    if *cut > 0 {
        bytes.truncate(bytes.len() * usize::from(*cut) / 256);
    }
    let is_damaged = visit(&bytes);
    assert!(sealed % 2 == 1 || is_damaged != (bytes == good()), "{} bytes", bytes.len());
});

/// Verifies, inspects and reads an archive. Returns whether it is damaged.
fn visit(bytes: &[u8]) -> bool {
    let file = scratch(bytes);
    let verified = verify(
        &file,
        Path::new("site.tar"),
        &Dictionaries::default(),
        NonZeroUsize::MIN,
        &Progress::default(),
    );
    let inspected = inspect(&file);
    let len = bytes.len() as u64;
    let image = image_in(bytes, len).ok().flatten().and_then(|place| {
        let image = Bytes::copy_from_slice(&bytes[place.at as usize..(place.at + place.len) as usize]);
        Image::new(image).ok()
    });
    assert_eq!(image.is_some(), inspected.is_ok());
    assert_eq!(image.is_some(), verified.is_ok());
    for (_, entry) in image.iter().flat_map(Image::entries) {
        let Entry::File(file) = entry else { continue };
        let coded = image.iter().flat_map(|image| image.coded_variants(file)).map(|(_, variant)| variant);
        for variant in coded.chain([file.identity]) {
            // The fields of a response that the server may send have one empty line, at the end.
            let fields = image
                .as_ref()
                .filter(|image| image.is_framed(&variant).unwrap())
                .map(|image| image.bytes(variant.fields().text));
            assert!(fields.is_none_or(|fields| frames(fields, variant.content.len())), "{variant:?}");
            match variant.content {
                Content::Archive(place) => {
                    assert!(
                        place.at.checked_add(place.len).is_some_and(|end| end <= len),
                        "{place:?} of {len}"
                    );
                }
                Content::File { .. } => panic!("a packed site has no external files"),
                Content::Image(_) => {}
            }
        }
    }
    verified.map_or(true, |verified| !verified.defects.is_empty())
}

/// Returns whether fields have this content length and end with their first empty line.
fn frames(fields: &[u8], len: u64) -> bool {
    let end = fields.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    let found = String::from_utf8_lossy(fields).lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    end.is_some_and(|end| end + 4 == fields.len()) && found == Some(len)
}

fn change(bytes: &mut [u8], mut input: &[u8]) {
    while let [low, middle, high, count, rest @ ..] = input {
        let at = u32::from_le_bytes([*low, *middle, *high, 0]) as usize % bytes.len();
        let count = (usize::from(*count) % 8 + 1).min(rest.len()).min(bytes.len() - at);
        let (new, behind) = rest.split_at(count);
        bytes[at..at + count].copy_from_slice(new);
        input = behind;
    }
}

/// Corrects the checksums of the image, so that it passes the first checks.
fn seal(bytes: &mut [u8]) {
    let image = &mut bytes[IMAGE_AT as usize..];
    let word =
        |image: &[u8], at: usize| u64::from_le_bytes(image[at..at + 8].try_into().expect("eight bytes"));
    let len = usize::try_from(word(image, 16)).unwrap_or(usize::MAX).min(image.len());
    let pages_at = usize::try_from(word(image, 48)).unwrap_or(usize::MAX);
    let header = Header {
        len: word(image, 16),
        index_at: word(image, 24),
        slot_count: word(image, 32),
        record_count: word(image, 40),
        pages_at: word(image, 48),
        page_count: word(image, 56),
        file_count: word(image, 64),
        archive_len: word(image, 80),
        sections_at: word(image, 88),
        section_count: word(image, 96),
        tables_hash: image.get(pages_at..len).map_or(0, hash),
        body_hash: image.get(HEADER_LEN..pages_at).map_or(0, hash),
    };
    image[..HEADER_LEN].copy_from_slice(&header.encode());
}

/// Returns a small packed site with a page, a large text whose variants are members, and a file of one byte.
fn good() -> &'static [u8] {
    static GOOD: OnceLock<Vec<u8>> = OnceLock::new();
    GOOD.get_or_init(|| {
        let dir = dir();
        let site = dir.join("site");
        fs::create_dir_all(&site).expect("a directory");
        let large = (0..20_000u32).map(|at| (at.wrapping_mul(at) >> 7) as u8 % 200).collect::<Vec<_>>();
        for (name, content) in
            [("index.html", "<p>hello".repeat(40).into_bytes()), ("large", large), ("x", b"x".to_vec())]
        {
            fs::write(site.join(name), content).expect("a file");
        }
        let archive = dir.join("site.tar");
        let options = SiteOptions {
            effort: CompressionEffort::Fast,
            workers: NonZeroUsize::MIN,
            max_mtime_s: 0,
            reuse: None,
            dictionaries: &[],
            offer_dictionaries: false,
            program: None,
            programs: None,
            dialect: Dialect::Netlify,
            policy: &Policy::default(),
        };
        pack_site(PackInput::Dir(&site), &archive, &options, &Progress::default()).expect("packs");
        let bytes = fs::read(&archive).expect("an archive");
        fs::remove_dir_all(dir).expect("a directory");
        bytes
    })
}

fn dir() -> PathBuf {
    std::env::temp_dir().join(format!("tarpon-fuzz-packed-{}", std::process::id()))
}

/// Creates a file without a name, which the kernel deletes when it is closed.
fn scratch(bytes: &[u8]) -> File {
    let path = std::env::temp_dir().join(format!("tarpon-fuzz-packed-{}.tar", std::process::id()));
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&path);
    let mut file = file.expect("a file for the archive");
    fs::remove_file(&path).expect("its name is not needed");
    file.write_all(bytes).and_then(|()| file.rewind()).expect("a file for the archive");
    file
}
