//! A packed site: what tar programs extract from it, and what a server finds in it.

use bytes::Bytes;
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::num::NonZeroUsize;
use std::os::unix::{
    ffi::OsStrExt,
    fs::{MetadataExt, PermissionsExt, symlink},
};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, UNIX_EPOCH};
use tarpon_pack::{
    ArchiveSizes, Changes, CompressionEffort, Dialect, Dictionaries, OpenError, PackError, PackInput,
    PackReport, PackStep, Policy, Progress, Reuse, SiteError, SiteOptions, SkipReason, pack_site, verify,
};
use tarpon_site::format::{HEADER_LEN, Header, hash};
use tarpon_site::packed::image_in;
use tarpon_site::{Coding, Content, Entry, Image, Variant};
use tempfile::TempDir;
use xxhash_rust::xxh3::xxh3_128;

#[test]
fn each_file_has_the_variants_that_are_worth_it() {
    let site = PackedTestSite::new();
    let (report, archive) = site.pack("site.tar", CompressionEffort::Fast);
    let packed = Packed::new(&archive);
    for (path, content) in files() {
        let Some(Entry::File(file)) = packed.image.find(format!("/{path}").as_bytes()).unwrap() else {
            panic!("{path} is not found")
        };
        assert!(packed.content(&file.identity) == content, "{path}");
        let coded: Vec<_> = packed.image.coded_variants(file).collect();
        let is_text = ["index.html", "guide/index.html", "large.css", "copy.css"].contains(&path);
        assert_eq!(coded.len(), if is_text { 3 } else { 0 }, "{path}");
        for (coding, variant) in coded {
            let name = format!("{path}, {coding:?}");
            let coded = packed.content(&variant);
            assert!(coded.len() < content.len(), "{name}");
            assert!(decoded(coding, &coded) == content, "{name}");
        }
    }
    assert!(matches!(packed.image.find(b"/guide").unwrap(), Some(Entry::Redirect(_))));
    assert!(packed.image.find(b"/").unwrap().is_some() && packed.image.find(b"/guide/").unwrap().is_some());
    assert_eq!(packed.image.find(b"/.secret").unwrap(), None);
    assert_eq!(report.files, files().len() as u64 + 1, "{report:?}");
    assert_eq!(report.len, packed.bytes.len() as u64);
}

#[test]
fn large_contents_are_page_aligned_and_stored_once() {
    let site = PackedTestSite::new();
    let (_, archive) = site.pack("site.tar", CompressionEffort::Fast);
    let packed = Packed::new(&archive);
    let place = |path: &str| {
        let Some(Entry::File(file)) = packed.image.find(path.as_bytes()).unwrap() else { panic!("{path}") };
        let variants = packed.image.coded_variants(file).map(|(_, variant)| variant).chain([file.identity]);
        variants.map(|variant| variant.content).collect::<Vec<_>>()
    };
    let mut large_count = 0;
    for path in ["/index.html", "/large.css", "/picture.png", "/small.txt"] {
        for content in place(path) {
            match content {
                Content::Archive(place) => {
                    large_count += 1;
                    assert!(place.len > 16 << 10 && place.at.is_multiple_of(4096), "{path}: {place:?}");
                }
                Content::Image(place) => assert!(place.len <= 16 << 10, "{path}: {place:?}"),
                Content::File { .. } => panic!("{path}: the image has no files beside it"),
            }
        }
    }
    assert_eq!(large_count, 5, "the style sheet in four codings, and the picture");
    assert_eq!(place("/large.css"), place("/copy.css"));
}

#[test]
fn tar_programs_extract_the_site() {
    let site = PackedTestSite::new();
    let (_, archive) = site.pack("site.tar", CompressionEffort::Fast);
    // With the strict filter, in versions of Python that have it.
    let tarfile = "import sys, tarfile; strict = {'filter': 'data'} if hasattr(tarfile, 'data_filter') else {}; \
        tarfile.open(sys.argv[1]).extractall(sys.argv[2], **strict)";
    let programs: [(&str, &[&str]); 3] = [
        ("GNU tar", &["tar", "-xf", "{tar}", "-C", "{dir}"]),
        ("bsdtar", &["bsdtar", "-xf", "{tar}", "-C", "{dir}"]),
        ("tarfile", &["python3", "-c", tarfile, "{tar}", "{dir}"]),
    ];
    for (name, command) in programs {
        let out = tempfile::tempdir().expect("a directory");
        let mut words = command.iter().map(|word| match *word {
            "{tar}" => archive.as_os_str(),
            "{dir}" => out.path().as_os_str(),
            word => word.as_ref(),
        });
        let ran = Command::new(words.next().expect("a program")).args(words).output().expect(name);
        assert!(ran.status.success() && ran.stderr.is_empty(), "{name}: {ran:?}");
        let mut want: Vec<_> =
            files().into_iter().map(|(path, content)| (path.to_owned(), content)).collect();
        want.push(("linked.css".to_owned(), large_css()));
        want.sort();
        let got = tree(out.path());
        let names =
            |files: &[(String, Vec<u8>)]| files.iter().map(|(path, _)| path.clone()).collect::<Vec<_>>();
        assert_eq!(names(&got), names(&want), "{name}");
        assert!(got == want, "{name}");
        assert!(out.path().join(".tarpon/image").is_file(), "{name}");
        let modified =
            fs::metadata(out.path().join("small.txt")).and_then(|meta| meta.modified()).expect(name);
        assert_eq!(modified, UNIX_EPOCH + Duration::from_secs(MODIFIED_S), "{name}");
    }
}

#[test]
fn directories_modes_and_times_survive_packing() {
    let temp = tempfile::tempdir().expect("a directory");
    let (dir, plain) = (temp.path().join("site"), temp.path().join("plain.tar"));
    #[rustfmt::skip]
    let entries: &[(&str, Option<&[u8]>, u32, u64)] = &[
        // path                  content            mode     modified, seconds since 1970
        ("empty/",               None,              0o755,   1_500_000_001),
        ("a/b/c/",               None,              0o2711,  1_500_000_002),
        ("a/run",                Some(b"#!"),       0o755,   1_500_000_003),
        ("a/secret.txt",         Some(b"s"),        0o600,   1_500_000_004),
        ("a/readonly.css",       Some(&[b'r'; 99]), 0o444,   1_500_000_005),
        ("a/suid",               Some(b"x"),        0o4755,  1_500_000_006),
        ("large",                Some(LARGE),       0o644,   1_500_000_007),
        ("the-same",             Some(LARGE),       0o644,   1_500_000_007),
        ("other-mode",           Some(LARGE),       0o640,   1_500_000_007),
        ("only-hidden/",         None,              0o750,   1_500_000_008),
        ("a/b/",                 None,              0o555,   1_500_000_009),
        ("a/",                   None,              0o755,   1_500_000_010),
    ];
    for (path, content, ..) in entries {
        let at = dir.join(path);
        fs::create_dir_all(if content.is_some() { at.parent().expect("a parent") } else { &at }).expect(path);
        content.iter().for_each(|content| fs::write(&at, content).expect(path));
    }
    fs::write(dir.join("only-hidden/.secret"), "x").expect("a file");
    // Times of directories come last: a new entry would change them.
    for (path, _, mode, modified_s) in entries {
        fs::set_permissions(dir.join(path), Permissions::from_mode(*mode)).expect(path);
        let file = File::open(dir.join(path)).expect(path);
        file.set_modified(UNIX_EPOCH + Duration::from_secs(*modified_s)).expect(path);
    }
    let status = Command::new("tar").arg("-cf").arg(&plain).arg("-C").arg(&dir).arg(".").status();
    assert!(status.expect("tar").success());
    let file = File::open(&plain).expect("an archive");
    let tarfile = "import sys, tarfile; strict = {'filter': 'fully_trusted'} if hasattr(tarfile, 'data_filter') else {}; \
        tarfile.open(sys.argv[1]).extractall(sys.argv[2], **strict)";
    let inputs = [
        ("directory", PackInput::Dir(&dir)),
        ("archive", PackInput::Archive { file: &file, path: &plain, prefix: Path::new("") }),
    ];
    let mut archives = Vec::new();
    for (input_name, input) in inputs {
        let archive = temp.path().join("site.tar");
        let report = pack_site(input, &archive, &options(CompressionEffort::Fast), &Progress::default())
            .expect("packs");
        let [skipped] = &report.skipped[..] else { panic!("{report:?}") };
        assert_eq!(
            (skipped.reason, skipped.example.to_str()),
            (SkipReason::Dotfile, Some("only-hidden/.secret"))
        );
        let packed = File::open(&archive).expect("an archive");
        assert_eq!(
            verify(&packed, &archive, &Dictionaries::default(), NonZeroUsize::MIN, &Progress::default())
                .expect("a packed site")
                .defects,
            []
        );
        archives.push(fs::read(&archive).expect("an archive"));
        for command in [&["tar", "-xpf"][..], &["bsdtar", "-xpf"], &["python3", "-c", tarfile]] {
            let out = tempfile::tempdir().expect("a directory");
            let mut program = Command::new(command[0]);
            program.args(&command[1..]).arg(&archive);
            program.args((command[0] != "python3").then_some("-C")).arg(out.path());
            let ran = program.output().expect(command[0]);
            assert!(ran.status.success() && ran.stderr.is_empty(), "{ran:?}");
            for (path, content, mode, modified_s) in entries {
                let place = format!("{path} from {input_name}, {}", command[0]);
                let meta = fs::metadata(out.path().join(path)).expect(&place);
                let got = (meta.is_dir(), meta.mode() & 0o7777, meta.mtime());
                assert_eq!(got, (content.is_none(), mode & 0o777, *modified_s as i64), "{place}");
                if let Some(content) = content {
                    assert!(fs::read(out.path().join(path)).expect(&place) == *content, "{place}");
                }
            }
            let inode = |name: &str| fs::metadata(out.path().join(name)).expect(name).ino();
            assert_eq!(inode("large"), inode("the-same"));
            assert_ne!(inode("large"), inode("other-mode"));
        }
    }
    assert!(archives[0] == archives[1], "both inputs give the same bytes");
}

#[test]
fn same_site_gives_the_same_bytes() {
    let (one, other) = (PackedTestSite::new(), PackedTestSite::new());
    for effort in [CompressionEffort::Fast, CompressionEffort::Best] {
        let (report, archive) = one.pack("site.tar", effort);
        let again = other.root().join("again.tar");
        let options = SiteOptions { workers: NonZeroUsize::MIN, ..options(effort) };
        let repeated = pack_site(PackInput::Dir(&other.dir()), &again, &options, &Progress::default());
        assert_eq!(repeated.expect("packs"), report);
        assert!(
            fs::read(&archive).expect("an archive") == fs::read(&again).expect("an archive"),
            "{effort:?}"
        );
    }
}

#[test]
fn packed_site_packed_again_gives_the_same_bytes() {
    let site = PackedTestSite::new();
    let (_, archive) = site.pack("site.tar", CompressionEffort::Fast);
    let file = File::open(&archive).expect("an archive");
    let input = PackInput::Archive { file: &file, path: &archive, prefix: Path::new("") };
    let again = site.root().join("again.tar");
    pack_site(input, &again, &options(CompressionEffort::Fast), &Progress::default()).expect("packs");
    assert!(fs::read(&archive).expect("an archive") == fs::read(&again).expect("an archive"));
}

#[test]
#[rustfmt::skip]
fn precompressed_file_is_used_if_it_decodes_to_its_source() {
    let text = "p { color: red }\n".repeat(40).into_bytes();
    let other = "p { color: tan }\n".repeat(40).into_bytes();
    let (coded, brotli) = (gzip(&text), brotli_of(&text));
    let cut = &coded[..coded.len() - 1];
    let twice = [&coded[..], &coded].concat();
    let larger = gzip_stored(&text);
    type Row<'a> = (&'a str, &'a str, &'a [u8], bool, &'a [SkipReason]);
    let cases: &[Row<'_>] = &[
        // what it shows      its name    its content             used    skipped
        ("gzip",              "a.css.gz", &coded,                 true,  &[]),
        ("Brotli",            "a.css.br", &brotli,                true,  &[]),
        ("of another file",   "a.css.gz", &gzip(&other),       false, &[SkipReason::PrecompressedMismatch]),
        ("in another coding", "a.css.br", &coded,                 false, &[SkipReason::PrecompressedMismatch]),
        ("cut short",         "a.css.gz", cut,                    false, &[SkipReason::PrecompressedMismatch]),
        ("two members",       "a.css.gz", &twice,                 false, &[SkipReason::PrecompressedMismatch]),
        ("text",              "a.css.gz", b"text",                false, &[SkipReason::PrecompressedMismatch]),
        ("empty",             "a.css.br", b"",                    false, &[SkipReason::PrecompressedMismatch]),
        ("not smaller",       "a.css.gz", &larger,                false, &[]),
    ];
    for &(name, beside, content, used, skipped) in cases {
        let temp = tempfile::tempdir().expect("a directory");
        let dir = temp.path().join("site");
        fs::create_dir(&dir).expect("a directory");
        fs::write(dir.join("a.css"), &text).expect("a file");
        fs::write(dir.join(beside), content).expect("a file");
        // The packer decodes the file, so its age does not matter.
        let old = UNIX_EPOCH + Duration::from_secs(1);
        File::options().append(true).open(dir.join(beside)).and_then(|file| file.set_modified(old)).expect("a file");
        let archive = temp.path().join("site.tar");
        let report = pack_site(PackInput::Dir(&dir), &archive, &options(CompressionEffort::Fast), &Progress::default()).expect(name);
        let packed = Packed::new(&archive);
        let Some(Entry::File(file)) = packed.image.find(b"/a.css").unwrap() else { panic!("{name}") };
        let variants: Vec<_> = packed.image.coded_variants(file).map(|(coding, variant)| (coding, packed.content(&variant))).collect();
        assert_eq!(variants.len(), 3, "{name}: the packer makes the missing variants");
        assert!(variants.iter().all(|(coding, variant)| decoded(*coding, variant) == text), "{name}");
        assert_eq!(variants.iter().any(|(_, variant)| variant == content), used, "{name}");
        assert_eq!(report.saved.iter().map(|saved| saved.reused).sum::<u64>(), u64::from(used), "{name}");
        assert_eq!(report.skipped.iter().map(|row| row.reason).collect::<Vec<_>>(), skipped, "{name}");
        let Some(Entry::File(own)) = packed.image.find(format!("/{beside}").as_bytes()).unwrap() else { panic!("{name}") };
        assert!(packed.content(&own.identity) == content, "{name}: at its own path");
    }
}

#[test]
fn existing_output_saves_work_and_gives_the_same_bytes() {
    let site = PackedTestSite::new();
    let (first, archive) = site.pack("site.tar", CompressionEffort::Fast);
    let bytes = fs::read(&archive).expect("an archive");
    assert_eq!((&first.reuse, &first.changes), (&Reuse::None, &None));
    assert!(first.compressed > 12, "{first:?}");
    let taken = |report: &PackReport| report.saved.map(|saved| saved.reused);
    assert_eq!(taken(&first), [0; 3]);

    // No file has changed: the packer compresses nothing, and the bytes are the same.
    let (again, _) = site.pack("site.tar", CompressionEffort::Fast);
    assert_eq!((again.compressed, &again.reuse), (0, &Reuse::Reused));
    assert_eq!(taken(&again), again.saved.map(|saved| saved.files));
    assert!(again.changes.as_ref().is_some_and(Changes::is_none), "{again:?}");
    assert!(fs::read(&archive).expect("an archive") == bytes);

    // The packer compresses new and changed files only; a renamed file is neither.
    fs::write(site.dir().join("index.html"), "<p>another page".repeat(200)).expect("a file");
    fs::write(site.dir().join("new.txt"), "new").expect("a file");
    fs::remove_file(site.dir().join("small.txt")).expect("a file");
    fs::rename(site.dir().join("picture.png"), site.dir().join("renamed.png")).expect("a file");
    let (changed, _) = site.pack("site.tar", CompressionEffort::Fast);
    assert_eq!(changed.compressed, 6, "index.html and new.txt, in three codings each");
    let changes = changed.changes.expect("an archive before");
    assert_eq!((changes.added, changes.added_len, changes.removed, changes.removed_len), (1, 3, 1, 5));
    assert_eq!((changes.changed, changes.changed_len_before, changes.changed_len), (1, 1500, 3000));
    assert_eq!(changes.grown, [(b"/index.html".to_vec(), 1500), (b"/new.txt".to_vec(), 3)]);
    assert_eq!(changes.len_before, bytes.len() as u64);
    let (fresh, other) = site.pack("fresh.tar", CompressionEffort::Fast);
    assert!(
        fresh.compressed > 6
            && fs::read(&archive).expect("an archive") == fs::read(&other).expect("an archive")
    );

    // Another effort gives other bytes.
    let (best, _) = site.pack("site.tar", CompressionEffort::Best);
    let (fresh, other) = site.pack("best.tar", CompressionEffort::Best);
    assert_eq!((best.compressed, &best.reuse), (fresh.compressed, &Reuse::OtherEncoders));
    assert!(best.changes.as_ref().is_some_and(Changes::is_none), "{best:?}");
    assert!(fs::read(&archive).expect("an archive") == fs::read(&other).expect("an archive"));
}

#[test]
fn named_archive_is_reused_instead_of_the_output() {
    let site = PackedTestSite::new();
    let (_, earlier) = site.pack("earlier.tar", CompressionEffort::Fast);
    fs::write(site.root().join("site.tar"), "not read").expect("a file");
    let options = SiteOptions { reuse: Some(&earlier), ..options(CompressionEffort::Fast) };
    let archive = site.root().join("site.tar");
    let report =
        pack_site(PackInput::Dir(&site.dir()), &archive, &options, &Progress::default()).expect("packs");
    assert_eq!((report.compressed, report.reuse), (0, Reuse::Reused));
    assert!(fs::read(&archive).expect("an archive") == fs::read(&earlier).expect("an archive"));

    // A named archive must be usable.
    let mut bytes = fs::read(&earlier).expect("an archive");
    bytes[4096 + 200] ^= 1;
    fs::write(&earlier, &bytes).expect("a file");
    let error = pack_site(PackInput::Dir(&site.dir()), &archive, &options, &Progress::default())
        .expect_err("damaged");
    assert!(matches!(error, SiteError::Reuse { error: OpenError::Body, .. }), "{error:?}");
}

#[test]
fn damaged_or_foreign_output_is_replaced() {
    let site = PackedTestSite::new();
    let (report, good) = site.pack("good.tar", CompressionEffort::Fast);
    let bytes = fs::read(&good).expect("an archive");
    let place = image_in(&bytes, bytes.len() as u64).expect("a good one").expect("a packed site");
    let flipped = |at: usize| {
        let mut bytes = bytes.clone();
        bytes[at] ^= 1;
        bytes
    };
    let large = bytes.len() - 10_000;
    assert!(large as u64 > place.at + place.len);
    let plain_tar = [&b"index.html"[..], &[0; 1526]].concat();
    let unusable = |why: &str| Reuse::Unusable(why.to_owned());
    #[rustfmt::skip]
    let cases: &[(&str, Vec<u8>, Reuse, u64)] = &[
        // the existing output           its bytes                      its reuse                            contents compressed
        ("an empty file",                Vec::new(),                    Reuse::None,                         report.compressed),
        ("another file",                 b"a letter to a friend".into(), unusable("it is not a packed site"),   report.compressed),
        ("an archive of another kind",   plain_tar,                     unusable("it is not a packed site"),    report.compressed),
        ("cut short",                    bytes[..bytes.len() - 1].into(), unusable("the archive is cut short, or something was appended to it"), report.compressed),
        ("a record is damaged",          flipped(4096 + 200),           unusable("its image is damaged"),    report.compressed),
        ("one variant is damaged",       flipped(large),                Reuse::Reused,                        1),
    ];
    for (name, content, reuse, compressed) in cases {
        let archive = site.root().join("site.tar");
        fs::write(&archive, content).expect("a file");
        let (report, archive) = site.pack("site.tar", CompressionEffort::Fast);
        assert_eq!((&report.reuse, report.compressed), (reuse, *compressed), "{name}");
        assert!(fs::read(&archive).expect("an archive") == bytes, "{name}");
    }
}

#[test]
fn forged_variants_with_valid_checksums_are_not_reused() {
    let site = PackedTestSite::new();
    let (_, archive) = site.pack("site.tar", CompressionEffort::Fast);
    let bytes = fs::read(&archive).expect("an archive");
    let packed = Packed::new(&archive);
    // Forges every variant, with a matching entity-tag.
    let mut forged = bytes.clone();
    for path in ["/large.css", "/index.html", "/guide/index.html"] {
        let Some(Entry::File(file)) = packed.image.find(path.as_bytes()).unwrap() else { panic!("{path}") };
        for (_, variant) in packed.image.coded_variants(file) {
            let at = match variant.content {
                Content::Archive(place) => place.at,
                Content::Image(place) => 4096 + place.at,
                Content::File { .. } => panic!("the image has no files beside it"),
            };
            let content = &mut forged[at as usize..][..variant.content.len() as usize];
            let middle = content.len() / 2;
            content[middle..][..4].copy_from_slice(b"evil");
            let tag = format!("\"{:032x}\"", xxh3_128(content));
            forged[4096 + variant.etag.at as usize..][..tag.len()].copy_from_slice(tag.as_bytes());
        }
    }
    fix_image_hash(&mut forged);
    fs::write(&archive, &forged).expect("a file");
    let (report, archive) = site.pack("site.tar", CompressionEffort::Fast);
    assert_eq!((report.compressed, report.reuse), (9, Reuse::Reused));
    assert!(fs::read(&archive).expect("an archive") == bytes);
}

/// Recomputes the hash of an image.
fn fix_image_hash(archive: &mut [u8]) {
    let header = Header::decode(archive[4096..].first_chunk().expect("a header")).expect("a header");
    let body = &archive[4096 + HEADER_LEN..][..header.pages_at as usize - HEADER_LEN];
    let header = Header { body_hash: hash(body), ..header };
    archive[4096..][..HEADER_LEN].copy_from_slice(&header.encode());
}

#[test]
fn pages_at_clean_urls_are_reused_and_precompressed_files_are_not() {
    let policy = Policy { clean_urls: true, ..Policy::default() };
    let site = PackedTestSite::new();
    fs::write(site.dir().join("about.html"), "<p>about the world".repeat(100)).expect("a file");
    let options = SiteOptions { policy: &policy, ..options(CompressionEffort::Fast) };
    let pack = |name: &str| {
        let archive = site.root().join(name);
        let report = pack_site(PackInput::Dir(&site.dir()), &archive, &options, &Progress::default());
        (report.expect("packs"), fs::read(archive).expect("an archive"))
    };
    pack("site.tar");
    assert_eq!(pack("site.tar").0.compressed, 0);
    // Another program made this file. After its removal, the variant is the same as in a fresh archive.
    let beside = site.dir().join("about.html.br");
    fs::write(&beside, brotli_of(&"<p>about the world".repeat(100).into_bytes())).expect("a file");
    pack("site.tar");
    fs::remove_file(&beside).expect("a file");
    let (report, reused) = pack("site.tar");
    assert_eq!(report.compressed, 1);
    assert!(reused == pack("fresh.tar").1);
}

#[test]
fn parts_in_the_report_add_up_to_the_archive() {
    let site = PackedTestSite::new();
    let (report, archive) = site.pack("site.tar", CompressionEffort::Fast);
    let ArchiveSizes { files: files_len, coded, inline: small, program, overhead: rest } = report.sizes;
    assert_eq!(files_len + coded + small + program + rest, fs::metadata(&archive).expect("an archive").len());
    // The two style sheets, and the link to one, have the same content, which the archive stores once.
    let all = files().into_iter().filter(|(path, _)| *path != "copy.css");
    let (large_files, small_files): (Vec<_>, Vec<_>) = all.partition(|(_, content)| content.len() > 16 << 10);
    let len =
        |files: Vec<(&str, Vec<u8>)>| files.iter().map(|(_, content)| content.len() as u64).sum::<u64>();
    let small_len = len(small_files);
    assert_eq!((files_len, small, program), (len(large_files) + small_len, small_len, 0));
    let packed = Packed::new(&archive);
    let lens = ["/index.html", "/guide/index.html", "/large.css"].into_iter().flat_map(|path| {
        let Some(Entry::File(file)) = packed.image.find(path.as_bytes()).unwrap() else { panic!("{path}") };
        packed.image.coded_variants(file).map(|(_, variant)| variant.content.len()).collect::<Vec<_>>()
    });
    assert_eq!(coded, lens.sum::<u64>());
    assert!(rest > 0 && rest < 128 << 10, "{rest}");
}

#[test]
fn precompressed_file_of_an_earlier_archive_is_not_reused() {
    let site = PackedTestSite::new();
    fs::write(site.dir().join("index.html.br"), brotli_of(&files()[0].1)).expect("a file");
    let (_, earlier) = site.pack("earlier.tar", CompressionEffort::Fast);
    fs::remove_file(site.dir().join("index.html.br")).expect("a file");
    let (_, fresh) = site.pack("fresh.tar", CompressionEffort::Fast);
    let reused = site.root().join("reused.tar");
    let options = SiteOptions { reuse: Some(&earlier), ..options(CompressionEffort::Fast) };
    pack_site(PackInput::Dir(&site.dir()), &reused, &options, &Progress::default()).expect("packs");
    assert!(fs::read(&fresh).expect("an archive") == fs::read(&reused).expect("an archive"));
}

#[test]
fn no_time_is_later_than_the_latest_allowed() {
    let site = PackedTestSite::new();
    for (latest_s, want) in [(MODIFIED_S + 1, MODIFIED_S), (MODIFIED_S - 1, MODIFIED_S - 1), (0, 0)] {
        let archive = site.root().join("site.tar");
        let options = SiteOptions { max_mtime_s: latest_s, ..options(CompressionEffort::Fast) };
        pack_site(PackInput::Dir(&site.dir()), &archive, &options, &Progress::default()).expect("packs");
        let packed = Packed::new(&archive);
        let Some(Entry::File(file)) = packed.image.find(b"/small.txt").unwrap() else { panic!("not found") };
        assert_eq!(file.identity.last_modified, want);
        let mut members = tar::Archive::new(&packed.bytes[..]);
        for member in members.entries().expect("an archive") {
            let header = member.expect("a member").header().clone();
            assert_eq!(header.mtime().expect("a time"), want);
            assert_eq!((header.uid().ok(), header.gid().ok()), (Some(0), Some(0)));
        }
    }
}

#[test]
fn failed_packing_returns_an_error_and_leaves_no_file() {
    let site = PackedTestSite::new();
    let names = |dir: &Path| fs::read_dir(dir).expect("a directory").count();
    symlink("/dev/null", site.root().join("device")).expect("a link");
    let (before, inside) = (names(site.root()), names(&site.dir()));
    type Want = fn(&SiteError) -> bool;
    let missing = site.root().join("missing");
    let cases: [(&str, PathBuf, PathBuf, Option<&Path>, Want); 6] = [
        ("no site", missing.clone(), site.root().join("a.tar"), None, |error| {
            matches!(error, SiteError::Input(PackError::Root { .. }))
        }),
        ("no target directory", site.dir(), missing.join("a.tar"), None, |error| {
            matches!(error, SiteError::Write { .. })
        }),
        ("a directory as the target", site.dir(), site.root().to_owned(), None, |error| {
            matches!(error, SiteError::Write { .. })
        }),
        ("a device as the target", site.dir(), site.root().join("device"), None, |error| {
            matches!(error, SiteError::Write { .. })
        }),
        ("within the site", site.dir(), site.dir().join("guide/a.tar"), None, |error| {
            matches!(error, SiteError::Inside { .. })
        }),
        ("nothing to reuse", site.dir(), site.root().join("a.tar"), Some(&missing), |error| {
            matches!(error, SiteError::Reuse { .. })
        }),
    ];
    for (name, dir, target, reuse, want) in cases {
        let options = SiteOptions { reuse, ..options(CompressionEffort::Fast) };
        let error = pack_site(PackInput::Dir(&dir), &target, &options, &Progress::default()).expect_err(name);
        assert!(want(&error), "{name}: {error:?}");
        assert_eq!((names(site.root()), names(&site.dir())), (before, inside), "{name}");
    }
    // A hidden directory is no part of the site.
    fs::create_dir(site.dir().join(".out")).expect("a directory");
    let target = site.dir().join(".out/a.tar");
    pack_site(PackInput::Dir(&site.dir()), &target, &options(CompressionEffort::Fast), &Progress::default())
        .expect("packs");
}

#[test]
fn file_that_changes_meanwhile_ends_the_packing() {
    type Change = fn(&Path);
    let changes: [(&str, Change); 3] = [
        ("written", |path| fs::write(path, "other").expect("a file")),
        ("longer", |path| fs::write(path, "small, but larger").expect("a file")),
        ("gone", |path| fs::remove_file(path).expect("a file")),
    ];
    for (name, change) in changes {
        let site = PackedTestSite::new();
        // Compressing this takes longer than the loop below needs to see the step.
        let long = noise(24 << 10).iter().flat_map(|byte| byte.to_string().into_bytes()).collect::<Vec<_>>();
        fs::write(site.dir().join("long.txt"), long).expect("a file");
        let (archive, progress) = (site.root().join("site.tar"), Progress::default());
        let error = thread::scope(|scope| {
            let packing = scope.spawn(|| {
                pack_site(PackInput::Dir(&site.dir()), &archive, &options(CompressionEffort::Best), &progress)
            });
            while progress.now().step == PackStep::Reading && !packing.is_finished() {
                thread::yield_now();
            }
            change(&site.dir().join("small.txt"));
            packing.join().expect("no panic").expect_err(name)
        });
        let is_named = matches!(&error, SiteError::Changed { path } if path.ends_with("small.txt"));
        assert!(is_named, "{name}: {error:?}");
        assert_eq!(fs::read_dir(site.root()).expect("a directory").count(), 1, "{name}: no file is left");
    }
}

#[test]
fn name_that_is_not_utf8_and_an_empty_site_can_be_packed() {
    let long = [&b"d/"[..], &[0xe9; 120]].concat();
    for name in [Some(&b"caf\xe9.txt"[..]), Some(&long), None] {
        let temp = tempfile::tempdir().expect("a directory");
        let (dir, out) = (temp.path().join("site"), temp.path().join("out"));
        fs::create_dir_all(dir.join("d")).and_then(|()| fs::create_dir(&out)).expect("a directory");
        if let Some(name) = name {
            fs::write(dir.join(OsStr::from_bytes(name)), "text").expect("a file");
        }
        let archive = temp.path().join("site.tar");
        let report = pack_site(
            PackInput::Dir(&dir),
            &archive,
            &options(CompressionEffort::Fast),
            &Progress::default(),
        );
        assert_eq!(report.expect("packs").files, u64::from(name.is_some()));
        let file = File::open(&archive).expect("an archive");
        let verified =
            verify(&file, &archive, &Dictionaries::default(), NonZeroUsize::MIN, &Progress::default())
                .expect("a packed site");
        assert_eq!(verified.defects, []);
        for program in ["tar", "bsdtar"] {
            let ran =
                Command::new(program).arg("-xf").arg(&archive).arg("-C").arg(&out).output().expect(program);
            assert!(ran.status.success(), "{program}: {ran:?}");
            if let Some(name) = name {
                let extracted = out.join(OsStr::from_bytes(name));
                assert_eq!(fs::read(&extracted).expect("a file"), b"text", "{program}");
                fs::remove_file(extracted).expect("a file");
            }
        }
        if let Some(name) = name {
            let path = [b"/", name].concat();
            assert!(Packed::new(&archive).image.find(&path).unwrap().is_some());
        }
    }
}

/// A small site with all kinds of files, in a temporary directory.
struct PackedTestSite(TempDir);

impl PackedTestSite {
    fn new() -> PackedTestSite {
        let temp = tempfile::tempdir().expect("a directory");
        let site = PackedTestSite(temp);
        for (path, content) in files() {
            let at = site.dir().join(path);
            fs::create_dir_all(at.parent().expect("a directory")).expect("a directory");
            fs::write(&at, content).expect("a file");
            let modified = UNIX_EPOCH + Duration::from_secs(MODIFIED_S);
            File::options()
                .append(true)
                .open(&at)
                .and_then(|file| file.set_modified(modified))
                .expect("a file");
        }
        symlink("large.css", site.dir().join("linked.css")).expect("a link");
        fs::write(site.dir().join(".secret"), "x").expect("a file");
        let guide = File::open(site.dir().join("guide")).expect("a directory");
        guide.set_modified(UNIX_EPOCH + Duration::from_secs(MODIFIED_S)).expect("a directory");
        site
    }

    fn root(&self) -> &Path {
        self.0.path()
    }

    /// Returns the site's directory; archives lie beside it.
    fn dir(&self) -> PathBuf {
        self.root().join("site")
    }

    fn pack(&self, name: &str, effort: CompressionEffort) -> (PackReport, PathBuf) {
        let archive = self.root().join(name);
        let report = pack_site(PackInput::Dir(&self.dir()), &archive, &options(effort), &Progress::default());
        (report.expect("packs"), archive)
    }
}

/// The default policy.
static POLICY: LazyLock<Policy> = LazyLock::new(Policy::default);

fn options(effort: CompressionEffort) -> SiteOptions<'static> {
    let workers = NonZeroUsize::new(3).expect("three");
    SiteOptions {
        effort,
        workers,
        max_mtime_s: 2_000_000_000,
        reuse: None,
        dictionaries: &[],
        offer_dictionaries: false,
        program: None,
        programs: None,
        dialect: Dialect::Netlify,
        policy: &POLICY,
    }
}

fn files() -> Vec<(&'static str, Vec<u8>)> {
    let long: &str = Box::leak("n".repeat(120).into_boxed_str());
    vec![
        ("index.html", "<p>hello, world".repeat(100).into_bytes()),
        ("guide/index.html", "<p>a guide to the world".repeat(100).into_bytes()),
        ("large.css", large_css()),
        ("copy.css", large_css()),
        ("picture.png", noise(40_000)),
        ("small.txt", b"small".to_vec()),
        ("empty", Vec::new()),
        ("caf\u{e9} & co.txt", b"name".to_vec()),
        (long, b"long".to_vec()),
    ]
}

/// Returns text that stays above 16 KiB in every coding.
fn large_css() -> Vec<u8> {
    noise(18_000).chunks(4).flat_map(|noise| format!(".{noise:02x?}{{}}\n").into_bytes()).collect()
}

/// Returns bytes that no coding can compress.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len).map(next).collect()
}

/// An archive and its image, like in a server.
struct Packed {
    image: Image,
    bytes: Bytes,
}

impl Packed {
    fn new(archive: &Path) -> Packed {
        let bytes = Bytes::from(fs::read(archive).expect("an archive"));
        let place = image_in(&bytes, bytes.len() as u64).expect("a good one").expect("a packed site");
        let image = bytes.slice(place.at as usize..(place.at + place.len) as usize);
        Packed { image: Image::new(image).expect("an image"), bytes }
    }

    fn content(&self, variant: &Variant) -> Vec<u8> {
        match variant.content {
            Content::Image(place) => self.image.bytes(place).to_vec(),
            Content::Archive(place) => self.bytes[place.at as usize..][..place.len as usize].to_vec(),
            Content::File { .. } => panic!("the image has no files beside it"),
        }
    }
}

fn decoded(coding: Coding, coded: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    match coding {
        Coding::Identity => (&coded[..]).read_to_end(&mut plain),
        Coding::Br => brotli::Decompressor::new(coded, 4096).read_to_end(&mut plain),
        Coding::Gzip => flate2::read::GzDecoder::new(coded).read_to_end(&mut plain),
        Coding::Zstd => zstd::stream::Decoder::new(coded).and_then(|mut from| from.read_to_end(&mut plain)),
        Coding::Dcb | Coding::Dcz => panic!("no dictionary in this test"),
    }
    .expect("coded");
    plain
}

/// Returns one gzip member, smaller than its file and different from the packer's output.
fn gzip(plain: &[u8]) -> Vec<u8> {
    gzip_at(plain, flate2::Compression::new(3))
}

/// Returns a gzip member without compression, larger than its file.
fn gzip_stored(plain: &[u8]) -> Vec<u8> {
    gzip_at(plain, flate2::Compression::none())
}

fn gzip_at(plain: &[u8], level: flate2::Compression) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
    encoder.write_all(plain).and_then(|()| encoder.finish()).expect("memory")
}

fn brotli_of(plain: &[u8]) -> Vec<u8> {
    let mut coded = Vec::new();
    let params = brotli::enc::BrotliEncoderParams { quality: 2, ..Default::default() };
    brotli::BrotliCompress(&mut &*plain, &mut coded, &params).expect("memory");
    coded
}

/// Returns the files of a directory with their contents, sorted, without the reserved directory.
fn tree(root: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    let mut todo = vec![root.to_owned()];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            let name = path.strip_prefix(root).expect("below").to_str().expect("UTF-8").to_owned();
            match path.is_dir() {
                true if name == ".tarpon" => {}
                true => todo.push(path),
                false => files.push((name, fs::read(path).expect("a file"))),
            }
        }
    }
    files.sort();
    files
}

/// A content too large for the image.
const LARGE: &[u8] = &[b'l'; 20_000];
/// The time of the last change of all files.
const MODIFIED_S: u64 = 1_600_000_000;
