//! Damage anywhere in a packed site: `verify` finds it, and nothing panics.

use bytes::Bytes;
use std::fs::{self, File};
use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::LazyLock;
use tarpon_pack::{
    CompressionEffort, Defect, Dialect, Dictionaries, OpenError, PackInput, Policy, Progress, SiteOptions,
    inspect, pack_site, verify,
};
use tarpon_site::format::{HEADER_LEN, Header, hash, section};
use tarpon_site::packed::{IMAGE_AT, image_in};
use tarpon_site::{Coding, Content, Entry, Image, ImageError, Variant};
use tempfile::TempDir;
use xxhash_rust::xxh3::xxh3_128;

#[test]
fn undamaged_site_has_no_findings() {
    let site = DamageableArchive::new();
    let verified =
        verify(&site.file, Path::new("site.tar"), &Dictionaries::default(), WORKERS, &Progress::default())
            .expect("a packed site");
    assert_eq!(verified.defects, []);
    // The page and its directory have one content in four codings, and so has the style sheet. `name` is too short for a coding.
    assert_eq!((verified.paths, verified.contents, verified.len), (4, 9, site.len));
}

#[test]
fn archive_cut_anywhere_is_refused() {
    let site = DamageableArchive::new();
    for len in (0..site.len).rev() {
        site.file.set_len(len).expect("a file");
        let refused = verify(
            &site.file,
            Path::new("site.tar"),
            &Dictionaries::default(),
            WORKERS,
            &Progress::default(),
        )
        .expect_err("refused");
        let is_right = matches!(refused, OpenError::NotPacked | OpenError::Image(ImageError::ArchiveLength));
        assert!(is_right, "{len}: {refused:?}");
        assert!(inspect(&site.file).is_err(), "{len}");
    }
}

#[test]
fn archive_with_appended_bytes_is_refused() {
    let site = DamageableArchive::new();
    site.file.set_len(site.len + 512).expect("a file");
    let refused =
        verify(&site.file, Path::new("site.tar"), &Dictionaries::default(), WORKERS, &Progress::default())
            .expect_err("refused");
    assert!(matches!(refused, OpenError::Image(ImageError::ArchiveLength)), "{refused:?}");
}

#[test]
fn flipped_bit_is_found_anywhere() {
    let site = DamageableArchive::new();
    let image_end = IMAGE_AT + site.image().len();
    for at in 0..site.len {
        // Flips all bits of headers and tables, and one bit of each other byte.
        let is_table = at < IMAGE_AT + HEADER_LEN as u64 || (image_end - 512..image_end).contains(&at);
        for bit in (0..8).filter(|bit| is_table || *bit == at % 8) {
            site.flip(at, bit);
            let verified = verify(
                &site.file,
                Path::new("site.tar"),
                &Dictionaries::default(),
                WORKERS,
                &Progress::default(),
            );
            assert!(
                verified.is_err() || verified.is_ok_and(|verified| !verified.defects.is_empty()),
                "{at}, {bit}"
            );
            let _ = inspect(&site.file);
            site.flip(at, bit);
        }
    }
}

#[test]
fn finding_names_the_damaged_part() {
    type Hurt = fn(&DamageableArchive);
    #[rustfmt::skip]
    let cases: &[(&str, Hurt, &[Defect])] = &[
        ("a small content", |site| {
            let Content::Image(place) = site.variant(b"/a.css", Coding::Identity).content else { panic!("large") };
            site.flip(IMAGE_AT + place.at, 0);
        }, &[Defect::Body, Defect::Content { path: b"/a.css".to_vec(), coding: Coding::Identity }]),
        ("a variant", |site| {
            let Content::Image(place) = site.variant(b"/a.css", Coding::Gzip).content else { panic!("large") };
            site.flip(IMAGE_AT + place.at + 20, 0);
        }, &[Defect::Body, Defect::Content { path: b"/a.css".to_vec(), coding: Coding::Gzip }]),
        ("a member's owner", |site| site.flip(site.len - 1024 - 512 - 512 + 108, 0),
            &[Defect::Stretch { at: 0, len: 0 }, Defect::Tar(String::new())]),
        ("a wrong variant, with valid hashes", |site| site.forge(b"/a.css", Coding::Br),
            &[Defect::Hpack { path: b"/a.css".to_vec() }, Defect::Undecodable { path: b"/a.css".to_vec(), coding: Coding::Br }]),
        ("another length, with valid hashes", |site| site.misframe(b"/name"),
            &[Defect::Framing { path: b"/name".to_vec() }]),
        ("another file, with valid hashes", |site| site.forge(b"/name", Coding::Identity),
            &[Defect::Hpack { path: b"/name".to_vec() }, Defect::Member { path: b"/name".to_vec() }]),
        ("an HPACK block", |site| {
            let fields = site.variant(b"/a.css", Coding::Gzip).fields();
            let block = site.image().hpack(fields).unwrap().expect("a block");
            site.flip(IMAGE_AT + block.at + 1, 0);
        }, &[Defect::Body, Defect::Section { kind: section::HPACK }, Defect::Hpack { path: b"/a.css".to_vec() }]),
    ];
    for (name, hurt, want) in cases {
        let site = DamageableArchive::new();
        hurt(&site);
        let verified = verify(
            &site.file,
            Path::new("site.tar"),
            &Dictionaries::default(),
            WORKERS,
            &Progress::default(),
        )
        .expect(name);
        let plain = |finding: &Defect| match finding {
            // Ignores the place, which depends on the layout, and the text of the tar reader.
            Defect::Stretch { .. } => Defect::Stretch { at: 0, len: 0 },
            Defect::Tar(_) => Defect::Tar(String::new()),
            other => other.clone(),
        };
        assert_eq!(verified.defects.iter().map(plain).collect::<Vec<_>>(), *want, "{name}");
    }
}

#[test]
fn overlapping_contents_are_refused_and_not_read_again() {
    let site = DamageableArchive::new();
    let mut bytes = site.image().as_bytes().to_vec();
    // Each content spans nearly the whole image, so together they exceed the length of the archive.
    for (number, (path, coding)) in [
        (&b"/a.css"[..], Coding::Identity),
        (b"/a.css", Coding::Br),
        (b"/name", Coding::Identity),
        (b"/index.html", Coding::Identity),
    ]
    .into_iter()
    .enumerate()
    {
        let Content::Image(place) = site.variant(path, coding).content else { panic!("large") };
        let row = |at: u64, len: u64| [at.to_le_bytes(), len.to_le_bytes()].concat();
        let found = bytes.windows(16).position(|window| window == row(place.at, place.len)).expect("a row");
        let all = row(number as u64, bytes.len() as u64 - number as u64);
        bytes[found..][..16].copy_from_slice(&all);
    }
    site.write(bytes);
    let verified =
        verify(&site.file, Path::new("site.tar"), &Dictionaries::default(), WORKERS, &Progress::default())
            .expect("a packed site");
    assert!(verified.defects.iter().any(|finding| matches!(finding, Defect::Overlap { .. })), "{verified:?}");
}

#[test]
fn content_with_many_paths_is_read_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let (site, path) = (dir.path().join("site"), dir.path().join("site.tar"));
    fs::create_dir(&site).expect("a directory");
    fs::write(site.join("large.bin"), vec![7; 40_000]).expect("a file");
    // Each rule applies to two paths, with and without a trailing slash.
    let contents = |count: usize| {
        let rules: String = (0..count).map(|number| format!("/{number} /large.bin 200\n")).collect();
        fs::write(site.join("_redirects"), rules).expect("a file");
        pack_site(PackInput::Dir(&site), &path, &options(), &Progress::default()).expect("packs");
        let file = File::open(&path).expect("an archive");
        let verified = verify(&file, &path, &Dictionaries::default(), WORKERS, &Progress::default())
            .expect("a packed site");
        assert_eq!(verified.defects, []);
        (verified.paths, verified.contents)
    };
    assert_eq!((contents(0), contents(100)), ((1, 4), (201, 4)));
}

#[test]
fn other_archive_is_no_packed_site() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("a.tar");
    for content in [&b""[..], b"x", &[0; 10_240]] {
        fs::write(&path, content).expect("a file");
        let file = File::open(&path).expect("a file");
        assert!(matches!(
            verify(&file, &path, &Dictionaries::default(), WORKERS, &Progress::default()),
            Err(OpenError::NotPacked)
        ));
        assert!(matches!(inspect(&file), Err(OpenError::NotPacked)));
    }
}

/// A small packed site that a test damages.
struct DamageableArchive {
    file: File,
    len: u64,
    _dir: TempDir,
}

impl DamageableArchive {
    fn new() -> DamageableArchive {
        let dir = tempfile::tempdir().expect("a directory");
        let site = dir.path().join("site");
        fs::create_dir(&site).expect("a directory");
        fs::write(site.join("index.html"), "<p>hello, world ".repeat(30)).expect("a file");
        fs::write(site.join("a.css"), "p { color: red }\n".repeat(30)).expect("a file");
        fs::write(site.join("name"), "x").expect("a file");
        let archive = dir.path().join("site.tar");
        pack_site(PackInput::Dir(&site), &archive, &options(), &Progress::default()).expect("packs");
        let file = File::options().read(true).write(true).open(&archive).expect("an archive");
        DamageableArchive { len: file.metadata().expect("a file").len(), file, _dir: dir }
    }

    fn image(&self) -> Image {
        let mut bytes = vec![0; self.len as usize];
        self.file.read_exact_at(&mut bytes, 0).expect("an archive");
        let place = image_in(&bytes, self.len).expect("a good one").expect("a packed site");
        let image = Bytes::from(bytes).slice(place.at as usize..(place.at + place.len) as usize);
        Image::new(image).expect("an image")
    }

    fn variant(&self, path: &[u8], coding: Coding) -> Variant {
        let image = self.image();
        let Some(Entry::File(file)) = image.find(path).unwrap() else { panic!("not found") };
        let mut all = image.coded_variants(file).chain([(Coding::Identity, file.identity)]);
        all.find(|(found, _)| *found == coding).expect("a variant").1
    }

    fn flip(&self, at: u64, bit: u64) {
        let mut byte = [0];
        self.file.read_exact_at(&mut byte, at).expect("a byte");
        self.file.write_all_at(&[byte[0] ^ (1 << bit)], at).expect("a byte");
    }

    /// Changes a content, and recomputes its entity-tag and all hashes.
    fn forge(&self, path: &[u8], coding: Coding) {
        let variant = self.variant(path, coding);
        let mut bytes = self.image().as_bytes().to_vec();
        let Content::Image(content) = variant.content else { panic!("large") };
        bytes[content.at as usize] ^= 1;
        let tag = xxh3_128(&bytes[content.at as usize..][..content.len as usize]);
        let tag = format!("\"{tag:032x}\"");
        bytes[variant.etag.at as usize..][..tag.len()].copy_from_slice(tag.as_bytes());
        self.write(bytes);
    }

    /// Changes the Content-Length of a file, and recomputes all hashes.
    fn misframe(&self, path: &[u8]) {
        const LENGTH: &[u8] = b"Content-Length: 1";
        let variant = self.variant(path, Coding::Identity);
        let mut bytes = self.image().as_bytes().to_vec();
        let fields = &mut bytes[variant.fields().text.at as usize..];
        assert!(fields.starts_with(LENGTH));
        fields[LENGTH.len() - 1] = b'2';
        self.write(bytes);
    }

    /// Replaces the image by another one of the same length, with valid hashes.
    fn write(&self, mut bytes: Vec<u8>) {
        let header = Header::decode(bytes.first_chunk().expect("a header")).expect("a header");
        let body_hash = hash(&bytes[HEADER_LEN..header.pages_at as usize]);
        bytes[..HEADER_LEN].copy_from_slice(&Header { body_hash, ..header }.encode());
        self.file.write_all_at(&bytes, IMAGE_AT).expect("a file");
    }
}

fn options() -> SiteOptions<'static> {
    SiteOptions {
        effort: CompressionEffort::Fast,
        workers: WORKERS,
        max_mtime_s: 1_000_000_000,
        reuse: None,
        dictionaries: &[],
        offer_dictionaries: false,
        program: None,
        programs: None,
        dialect: Dialect::Netlify,
        policy: &POLICY,
    }
}

/// The default policy.
static POLICY: LazyLock<Policy> = LazyLock::new(Policy::default);
const WORKERS: NonZeroUsize = NonZeroUsize::MIN;
