//! Deltas: variants for clients that have a file of an earlier release. Which files get them, and against which dictionaries.

use bytes::Bytes;
use std::fs::{self, File};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::slice::from_ref;
use std::sync::LazyLock;
use tarpon_pack::{
    CompressionEffort, Defect, Dialect, Dictionaries, InspectedEntry, OpenError, PackInput, PackReport,
    Policy, Progress, SiteError, SiteOptions, TrailingSlash, Verification, inspect, pack_site, verify,
};
use tarpon_site::packed::image_in;
use tarpon_site::{Coding, Entry, Image};
use tempfile::TempDir;

#[test]
fn file_gets_deltas_against_earlier_files_of_its_name() {
    const KEPT: &str = "/*\n  Cache-Control: max-age=60\n";
    type Files<'f> = &'f [(&'f str, u32)];
    #[rustfmt::skip]
    let cases: &[(&str, Files<'_>, Files<'_>, &str, usize)] = &[
        // what it shows           before                              now                        path                     dictionaries
        ("the same name",          &[("a.js", 1)],                     &[("a.js", 2)],            "/a.js",                 1),
        ("another hash",           &[("a.B4qfzvDp.js", 1)],            &[("a.Xk2pQz9a.js", 2)],   "/a.Xk2pQz9a.js",        1),
        ("another hash, hyphen",   &[("d/a-1f2e3d4c.css", 1)],         &[("d/a-0a9b8c7d.css", 2)], "/d/a-0a9b8c7d.css",    1),
        ("several before",         &[("a-B4qfzvDp.js", 1), ("a-Bk7xQ2dZ.js", 3)], &[("a-Xk2pQz9a.js", 2)], "/a-Xk2pQz9a.js", 2),
        ("in a directory",         &[("d/a.js", 1)],                   &[("d/a.js", 2)],          "/d/a.js",               1),
        ("a data file",            &[("a.json", 1)],                   &[("a.json", 2)],          "/a.json",               1),

        ("unchanged",              &[("a.js", 1)],                     &[("a.js", 1)],            "/a.js",                 0),
        ("another name",           &[("b.js", 1)],                     &[("a.js", 2)],            "/a.js",                 0),
        ("another extension",      &[("a.B4qfzvDp.js", 1)],            &[("a.Xk2pQz9a.css", 2)],  "/a.Xk2pQz9a.css",       0),
        ("another directory",      &[("d/a.js", 1)],                   &[("a.js", 2)],            "/a.js",                 0),
        ("nothing in common",      &[("a.js", 1)],                     &[("a.js", 1_000_001)],    "/a.js",                 0),
        ("too small",              &[("a.js", 1)],                     &[("a.js", 0)],            "/a.js",                 0),
        ("a picture",              &[("a.png", 1)],                    &[("a.png", 2)],           "/a.png",                0),
        ("a page",                 &[("a.html", 1)],                   &[("a.html", 2)],          "/a.html",               0),
        ("a page that is stored",  &[("a.html", 1), (KEPT, 0)],        &[("a.html", 2), (KEPT, 0)], "/a.html",             1),
        ("a page by its address",  &[("index.html", 1), (KEPT, 0)],    &[("index.html", 2), (KEPT, 0)], "/",               1),
        ("too many of one pattern", &[("a-B4qfzvDp.js", 1), ("a-Bk7xQ2dZ.js", 3), ("a-C4qfzvDp.js", 4), ("a-D4qfzvDp.js", 5),
            ("a-E4qfzvDp.js", 6)],                                     &[("a-Xk2pQz9a.js", 2)],   "/a-Xk2pQz9a.js",        0),
    ];
    for (name, before, now, path, count) in cases {
        let dir = tempfile::tempdir().expect("a directory");
        let [before, now] = [("before", before), ("now", now)].map(|(name, files)| {
            let files: Vec<_> = files
                .iter()
                .map(|&(path, seed)| match path {
                    KEPT => ("_headers", KEPT.as_bytes().to_vec()),
                    path => (path, content(path, seed)),
                })
                .collect();
            site(&dir, name, &files)
        });
        let (_, before) = pack(&before, &[], None);
        let (report, archive) = pack(&now, from_ref(&before), None);
        let variants = variants(&archive, path);
        let mut dictionaries: Vec<_> = variants.iter().filter_map(|variant| variant.2).collect();
        dictionaries.dedup();
        assert_eq!(dictionaries.len(), *count, "{name}: {variants:?}");
        let codings: Vec<_> =
            variants.iter().filter(|variant| variant.2.is_some()).map(|variant| variant.0).collect();
        assert_eq!(codings, [Coding::Dcb, Coding::Dcz].repeat(*count), "{name}");
        let best = variants
            .iter()
            .filter(|variant| variant.2.is_none())
            .map(|variant| variant.1)
            .min()
            .expect("a variant");
        assert!(
            variants.iter().all(|variant| variant.2.is_none() || variant.1 < best / 2),
            "{name}: {variants:?}"
        );
        assert_eq!(report.deltas.map(|saved| saved.files), [u64::from(*count > 0); 2], "{name}: {report:?}");
        assert_eq!(check(&archive, from_ref(&before)).defects, [], "{name}");
    }
}

#[test]
fn file_that_may_be_a_dictionary_has_use_as_dictionary() {
    let own = "/own.*\n  Use-As-Dictionary: match=\"/own/*\"\n";
    let dir = tempfile::tempdir().expect("a directory");
    let chunks = ["B4qfzvD1", "Bk7xQ2d2", "C4qfzvD3", "D4qfzvD4", "E4qfzvD5"];
    let chunks: Vec<_> = chunks.iter().map(|hash| format!("chunk-{hash}.js")).collect();
    let headers =
        ["/a.txt", "/a"].map(|path| format!("{path}\n  Cache-Control: max-age=60\n")).concat() + own;
    let mut files = vec![
        ("app.B4qfzvDp.js", content("a.js", 1)),
        ("a.txt", content("a.txt", 2)),
        ("a.html", content("a.html", 3)),
        ("a.js", content("a.js", 4)),
        ("own.B4qfzvDp.js", content("a.js", 5)),
        ("small.B4qfzvDp.js", b"small".to_vec()),
        ("picture.B4qfzvDp.png", content("a.png", 6)),
        ("_headers", headers.into_bytes()),
    ];
    files.extend(chunks.iter().zip(10..).map(|(name, seed)| (&**name, content("a.js", seed))));
    let site = site(&dir, "site", &files);
    let policy = Policy { clean_urls: true, trailing_slash: TrailingSlash::Auto, ..Policy::default() };
    #[rustfmt::skip]
    let cases = [
        // path                  Use-As-Dictionary
        ("/app.B4qfzvDp.js",     "match=\"/app.*.js\""),
        ("/a.txt",               "match=\"/a.txt\""),
        ("/a",                   "match=\"/a\""),
        ("/own.B4qfzvDp.js",     "match=\"/own/*\""),
        ("/a.js",                ""),
        ("/small.B4qfzvDp.js",   ""),
        ("/picture.B4qfzvDp.png", ""),
        ("/chunk-B4qfzvD1.js",   ""),
    ];
    for offers in [true, false] {
        let archive = dir.path().join("site.tar");
        let options = SiteOptions { offer_dictionaries: offers, policy: &policy, ..options() };
        pack_site(PackInput::Dir(&site), &archive, &options, &Progress::default()).expect("packs");
        let (image, _) = image(&archive);
        for (path, want) in cases {
            let Some(Entry::File(file)) = image.find(path.as_bytes()).unwrap() else {
                panic!("{path} is not found")
            };
            let want = if offers || path.starts_with("/own") { want } else { "" };
            for variant in image.coded_variants(file).map(|(_, variant)| variant).chain([file.identity]) {
                assert_eq!(offer(image.bytes(variant.fields().text)), want, "{path}");
                // A 304 never has it, except by a rule.
                assert!(
                    path.starts_with("/own") || offer(image.bytes(variant.not_modified().text)).is_empty(),
                    "{path}"
                );
            }
        }
    }
}

#[test]
fn reused_archive_saves_deltas_too_and_gives_the_same_bytes() {
    let dir = tempfile::tempdir().expect("a directory");
    let releases = [1, 2, 3].map(|seed| {
        let name = format!("a.B4qfzvD{seed}.js");
        site(&dir, &format!("{seed}"), &[(&name, content("a.js", seed)), ("large.css", large(seed))])
    });
    let counts = |report: &PackReport| report.deltas.map(|saved| (saved.files, saved.reused));
    let (_, first) = pack(&releases[0], &[], None);
    let (report, second) = pack(&releases[1], from_ref(&first), None);
    assert_eq!(counts(&report), [(2, 0); 2]);
    assert!(report.are_dictionaries_unoffered, "the files of the first release had no Use-As-Dictionary");
    // One delta is too large for a place right after its fields.
    assert!(
        variants(&second, "/large.css").iter().any(|variant| variant.2.is_some() && variant.1 > 16 << 10)
    );

    let (report, again) = pack(&releases[1], from_ref(&first), Some(&second));
    assert_eq!(counts(&report), [(2, 2); 2]);
    assert!(fs::read(&second).expect("an archive") == fs::read(&again).expect("an archive"));

    // Against both earlier releases.
    let both = [first, second];
    let (report, third) = pack(&releases[2], &both, Some(&both[1]));
    assert_eq!(counts(&report), [(2, 0); 2]);
    assert!(!report.are_dictionaries_unoffered, "the files of the second release had Use-As-Dictionary");
    assert_eq!(variants(&third, "/a.B4qfzvD3.js").iter().filter(|variant| variant.2.is_some()).count(), 4);
    assert_eq!((check(&third, &both).defects, check(&third, &both).undecoded), (vec![], 0));
}

#[test]
fn verify_decodes_a_delta_with_its_dictionary_and_finds_damage_without() {
    let dir = tempfile::tempdir().expect("a directory");
    let [before, now] = [1, 2].map(|seed| site(&dir, &format!("{seed}"), &[("a.js", content("a.js", seed))]));
    let (_, before) = pack(&before, &[], None);
    let (_, archive) = pack(&now, from_ref(&before), None);
    let without = check(&archive, &[]);
    assert_eq!((without.defects, without.undecoded), (vec![], 2));
    let with = check(&archive, from_ref(&before));
    assert_eq!((with.defects, with.undecoded, with.contents), (vec![], 0, without.contents));

    let (image, at) = image(&archive);
    let Some(Entry::File(file)) = image.find(b"/a.js").unwrap() else { panic!("not found") };
    let (_, coding, variant) = image.all_deltas(file).next().expect("a delta");
    let tarpon_site::Content::Image(place) = variant.content else { panic!("large") };
    let mut bytes = fs::read(&archive).expect("an archive");
    bytes[(at + place.at) as usize + 38] ^= 1;
    fs::write(&archive, &bytes).expect("a file");
    let damage = [Defect::Body, Defect::Content { path: b"/a.js".to_vec(), coding }];
    assert_eq!(check(&archive, &[]).defects, damage);
    assert_eq!(check(&archive, from_ref(&before)).defects, damage);
}

#[test]
fn unusable_earlier_archive_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let site = site(&dir, "site", &[("a.js", content("a.js", 1))]);
    let (_, good) = pack(&site, &[], None);
    let mut damaged = fs::read(&good).expect("an archive");
    damaged[4096 + 200] ^= 1;
    let other = dir.path().join("other.tar");
    for (content, want) in [(&damaged[..], "its image is damaged"), (b"x", "it is not a packed site")] {
        fs::write(&other, content).expect("a file");
        let dictionaries = [good.clone(), other.clone()];
        let options = SiteOptions { dictionaries: &dictionaries, ..options() };
        let target = dir.path().join("target.tar");
        let error =
            pack_site(PackInput::Dir(&site), &target, &options, &Progress::default()).expect_err("refused");
        let SiteError::Dictionary { path, error } = &error else { panic!("{error}") };
        assert_eq!((path, &*error.to_string()), (&other, want));
        assert!(!target.exists());
    }
    let missing = [dir.path().join("missing.tar")];
    let error = Dictionaries::open(&missing).expect_err("not found");
    assert!(matches!(error, SiteError::Dictionary { error: OpenError::Read(_), .. }), "{error}");
}

/// Returns text that a seed up to a million changes a little, and a larger seed completely. For pictures, returns noise.
fn content(path: &str, seed: u32) -> Vec<u8> {
    let mix = |at: u32| at.wrapping_mul(0x9e37_79b9).rotate_left(15).wrapping_mul(0x85eb_ca6b);
    if seed == 0 {
        return b"small".to_vec();
    }
    if path.ends_with(".png") {
        return (0..2000).flat_map(|at| mix(at + seed).to_le_bytes()).collect();
    }
    if seed > 1_000_000 {
        return (0..900)
            .map(|at| format!("p#x{:x} {{ }}\n", mix(at + seed) >> 8))
            .collect::<String>()
            .into_bytes();
    }
    let mut text: String =
        (0..400).map(|at| format!("const v{} = {};\n", mix(at) % 1000, mix(at + 500))).collect();
    text.insert_str(1000, &format!("console.log({seed});\n"));
    text.into_bytes()
}

/// Returns text that partly depends on the seed.
fn large(seed: u32) -> Vec<u8> {
    let of = |seed: u32, count: u32| {
        (0..count).map(move |at| format!(".c{:x}{{}}\n", (at + seed * 100_000).wrapping_mul(0x9e37_79b9)))
    };
    of(0, 9000).chain(of(seed, 6000)).collect::<String>().into_bytes()
}

fn site(dir: &TempDir, name: &str, files: &[(&str, Vec<u8>)]) -> PathBuf {
    let root = dir.path().join(name);
    for (path, content) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, content).expect("a file");
    }
    root
}

/// Packs a directory into a new archive beside it.
fn pack(site: &Path, dictionaries: &[PathBuf], reuse: Option<&Path>) -> (PackReport, PathBuf) {
    let archive =
        (0..).map(|number| site.with_extension(format!("{number}.tar"))).find(|path| !path.exists());
    let archive = archive.expect("a name");
    let options =
        SiteOptions { dictionaries, reuse, offer_dictionaries: !dictionaries.is_empty(), ..options() };
    let report = pack_site(PackInput::Dir(site), &archive, &options, &Progress::default());
    (report.expect("packs"), archive)
}

fn options() -> SiteOptions<'static> {
    static POLICY: LazyLock<Policy> = LazyLock::new(Policy::default);
    SiteOptions {
        effort: CompressionEffort::Fast,
        workers: NonZeroUsize::new(2).expect("two"),
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

/// Returns the variants of a path: coding, length, and dictionary.
fn variants(archive: &Path, path: &str) -> Vec<(Coding, u64, Option<[u8; 32]>)> {
    let site = inspect(&File::open(archive).expect("an archive")).expect("a packed site");
    let row = site.paths.into_iter().find(|row| row.path == path.as_bytes()).expect(path);
    let InspectedEntry::File { variants, .. } = row.entry else { panic!("{path} is no file") };
    variants.into_iter().map(|variant| (variant.coding, variant.len, variant.dictionary)).collect()
}

fn check(archive: &Path, dictionaries: &[PathBuf]) -> Verification {
    let dictionaries = Dictionaries::open(dictionaries).expect("earlier archives");
    let file = File::open(archive).expect("an archive");
    verify(&file, archive, &dictionaries, NonZeroUsize::MIN, &Progress::default()).expect("a packed site")
}

/// Returns the image of an archive, and its offset.
fn image(archive: &Path) -> (Image, u64) {
    let bytes = Bytes::from(fs::read(archive).expect("an archive"));
    let place = image_in(&bytes, bytes.len() as u64).expect("a good one").expect("a packed site");
    let image = bytes.slice(place.at as usize..(place.at + place.len) as usize);
    (Image::new(image).expect("an image"), place.at)
}

/// Returns the value of Use-As-Dictionary.
fn offer(fields: &[u8]) -> &str {
    let fields = std::str::from_utf8(fields).expect("ASCII");
    fields.lines().find_map(|line| line.strip_prefix("Use-As-Dictionary: ")).unwrap_or_default()
}
