//! Packs directories: which files are served at which paths, and which are skipped.

use bytes::Bytes;
use std::fs::{self, File};
use std::io::Cursor;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tarpon_pack::{BuildCache, Dialect, PackError, PackOptions, PackedImage, Policy, SkipReason, pack_dir};
use tarpon_site::{Coding, Content, Entry, Image, Region, STATUS_PAGE_CODES, Variants};
use tempfile::TempDir;

/// An entry of the directory that is packed.
enum FixtureFile<'a> {
    Text(&'a str, &'a [u8]),
    /// A file of zeros.
    Zeros(&'a str, usize),
    Bytes(&'a [u8], &'a [u8]),
    Link(&'a str, &'a str),
    Dir(&'a str),
    Fifo(&'a str),
    Socket(&'a str),
}
use FixtureFile::*;

#[test]
#[rustfmt::skip]
fn each_file_is_served_or_skipped() {
    type Row<'a> = (&'a str, &'a [FixtureFile<'a>], &'a [&'a str], &'a [(SkipReason, u64, &'a str)]);
    let cases: &[Row<'_>] = &[
        // what it shows, the entries, the paths served, the entries skipped
        ("nothing", &[], &[], &[]),
        ("the root", &[Text("index.html", b"x")], &["/ 1", "/index.html 1"], &[]),
        ("a directory with an index",
            &[Text("a/b/index.html", b"xy"), Text("a/c.css", b"xyz")],
            &["/a/b -> /a/b/", "/a/b/ 2", "/a/b/index.html 2", "/a/c.css 3"], &[]),
        ("a directory without",             &[Dir("a/b")],                           &[],                     &[]),
        ("an empty file",                   &[Text("a", b"")],                       &["/a 0"],               &[]),
        ("another name than index.html",     &[Text("a/myindex.html", b"")],          &["/a/myindex.html 0"],  &[]),
        ("a directory called index.html",   &[Text("index.html/a", b"")],            &["/index.html/a 0"],    &[]),
        ("right after the fields",          &[Zeros("a", 16384)],                    &["/a 16384 inline"],    &[]),
        ("on its own page of memory",       &[Zeros("a", 16385)],                    &["/a 16385 page"],      &[]),
        ("just in the image",               &[Zeros("a", 65536)],                    &["/a 65536 page"],      &[]),
        ("on disk",                         &[Zeros("a", 65537)],                    &["/a 65537 disk 0"],    &[]),
        ("two on disk",                     &[Zeros("b", 65537), Zeros("a", 65538)], &["/a 65538 disk 0", "/b 65537 disk 1"], &[]),
        ("a large index",
            &[Zeros("a/index.html", 65537)],
            &["/a -> /a/", "/a/ 65537 disk 0", "/a/index.html 65537 disk 0"], &[]),
        ("spaces, percent, unicode",
            &[Text("a b/%41/é?#/index.html", b"")],
            &["/a b/%41/é?# -> /a%20b/%2541/%C3%A9%3F%23/", "/a b/%41/é?#/ 0", "/a b/%41/é?#/index.html 0"], &[]),
        ("a name that looks like a host",
            &[Text("\\evil.example/index.html", b"")],
            &["/\\evil.example -> /%5Cevil.example/", "/\\evil.example/ 0", "/\\evil.example/index.html 0"], &[]),
        ("a name that is not UTF-8",        &[Bytes(b"caf\xe9.css", b"x")],          &["/caf\u{fffd}.css 1"], &[]),
        ("dotfiles",
            &[Text(".git/config", b""), Text(".env", b""), Text("a/.htaccess", b""), Text("a.b", b"")],
            &["/a.b 0"], &[(SkipReason::Dotfile, 3, ".env")]),
        ("a well-known directory",
            &[Text(".well-known/acme", b"x"), Text(".well-known/.git", b"x")],
            &["/.well-known/acme 1"], &[(SkipReason::Dotfile, 1, ".well-known/.git")]),
        ("FIFO and socket",                 &[Fifo("a"), Socket("b")],               &[], &[(SkipReason::Special, 2, "a")]),
        ("a link to a file",                &[Text("a", b"x"), Link("b", "a")],      &["/a 1", "/b 1"], &[]),
        ("a link to a directory",
            &[Text("a/index.html", b"x"), Link("b", "a")],
            &["/a -> /a/", "/a/ 1", "/a/index.html 1", "/b -> /b/", "/b/ 1", "/b/index.html 1"], &[]),
        ("a link to a hidden directory",    &[Text(".releases/7/a", b"x"), Link("b", ".releases/7")], &["/b/a 1"], &[(SkipReason::Dotfile, 1, ".releases")]),
        ("a hidden link",                   &[Text("a", b"x"), Link(".b", "a")],     &["/a 1"], &[(SkipReason::Dotfile, 1, ".b")]),
        ("a link out",                      &[Link("a", "/etc/passwd"), Link("d", "/etc")], &[], &[(SkipReason::LinkOutside, 2, "a")]),
        ("a link up and out",               &[Link("a/b", "../..")],                 &[], &[(SkipReason::LinkOutside, 1, "a/b")]),
        ("a link to a device",              &[Link("a", "/dev/zero")],               &[], &[(SkipReason::LinkOutside, 1, "a")]),
        ("a link to a FIFO",                &[Fifo("a"), Link("b", "a")],            &[], &[(SkipReason::Special, 2, "a")]),
        ("a dangling link",                 &[Link("a", "b"), Text("c", b""), Link("d", "c/e")], &["/c 0"], &[(SkipReason::LinkDangling, 2, "a")]),
        ("a link to itself",                &[Link("a", "a")],                       &[], &[(SkipReason::LinkLoop, 1, "a")]),
        ("a link to the root",              &[Text("f", b""), Link("a", ".")],       &["/f 0"], &[(SkipReason::LinkLoop, 1, "a")]),
        ("two directories with links to each other",
            &[Text("a/f", b""), Text("b/g", b""), Link("a/to", "../b"), Link("b/to", "../a")],
            &["/a/f 0", "/a/to/g 0", "/b/g 0", "/b/to/f 0"], &[(SkipReason::LinkLoop, 2, "a/to/to")]),
    ];
    for (name, entries, want, skipped) in cases {
        let site = FixtureDir::new(entries);
        let (image, packed) = site.pack();
        let mut got: Vec<_> = image.entries().map(|(path, entry)| site.line(&image, &packed, path, entry)).collect();
        got.sort();
        let got: Vec<_> = got.iter().map(String::as_str).collect();
        // Only rows about the place of contents compare `inline`.
        let got: Vec<_> = got.iter().zip(want.iter().chain([&""; 9])).map(|(got, want)| match want.contains("inline") {
            true => got,
            false => got.strip_suffix(" inline").unwrap_or(got),
        }).collect();
        assert_eq!(got, *want, "{name}");
        let rows: Vec<_> = packed.skipped.iter().map(|row| (row.reason, row.count, row.example.to_str().expect("ASCII"))).collect();
        assert_eq!(rows, *skipped, "{name}");
    }
}

#[test]
fn path_up_to_the_limit_is_served_and_a_longer_one_skipped() {
    let site = FixtureDir::new(&[Text("f", b"")]);
    // No path reaches the innermost directory, so links make the paths shorter.
    let part = "d".repeat(250);
    let mut at = site.root().to_owned();
    for depth in 0..20 {
        fs::create_dir(at.join(&part)).expect("a directory");
        fs::write(at.join(&part).join("f"), b"x").expect("a file");
        at = match depth % 8 {
            // Continues in a directory at the root. Each part is short enough; all of them together are too long.
            7 => {
                let next = site.root().join(format!("part{depth}"));
                fs::create_dir(&next).expect("a directory");
                symlink(&next, at.join(&part).join("l")).expect("a link");
                next
            }
            _ => at.join(&part),
        };
    }
    let (image, packed) = site.pack();
    let longest = image.entries().map(|(path, _)| path.len()).max().expect("an entry");
    assert!((3800..=4096).contains(&longest), "{longest}");
    assert_eq!(packed.skipped.iter().map(|row| row.reason).collect::<Vec<_>>(), [SkipReason::PathTooLong]);
}

#[test]
fn image_has_the_contents_and_fields_of_the_files() {
    let site = FixtureDir::new(&[
        Text("index.html", b"<p>hello"),
        Text("a/caf.css", b"p{}"),
        Zeros("middle.bin", 20_000),
        Zeros("large.bin", 200_000),
    ]);
    let modified = UNIX_EPOCH + Duration::from_secs(784_111_777);
    File::options()
        .write(true)
        .open(site.root().join("index.html"))
        .expect("open")
        .set_modified(modified)
        .expect("set");
    let (image, packed) = site.pack();
    assert_eq!((packed.summary.files, packed.summary.bytes), (4, 8 + 3 + 20_000 + 200_000));
    for path in ["index.html", "a/caf.css", "middle.bin", "large.bin"] {
        let Some(Entry::File(Variants { identity: variant, .. })) =
            image.find(format!("/{path}").as_bytes()).unwrap()
        else {
            panic!("{path}")
        };
        let want = fs::read(site.root().join(path)).expect("read");
        assert_eq!(content(&image, &packed, variant.content), want, "{path}");
        let (fields, etag) = (text(&image, variant.fields().text), text(&image, variant.etag));
        let first = format!("Content-Length: {}\r\nContent-Type: ", want.len());
        assert!(
            fields.starts_with(&first) && fields.ends_with(" GMT\r\nCache-Control: no-cache\r\n\r\n"),
            "{fields}"
        );
        let rest = format!(
            "\r\nX-Content-Type-Options: nosniff\r\nAccept-Ranges: bytes\r\nETag: {etag}\r\nLast-Modified: "
        );
        assert!(fields.contains(&rest), "{fields}");
        let hash = xxhash_rust::xxh3::xxh3_128(&want);
        assert_eq!(etag, format!("\"{hash:032x}\""));
        assert!(fields.ends_with(text(&image, variant.not_modified().text)), "{fields}");
    }
    let Some(Entry::File(Variants { identity: root, .. })) = image.find(b"/").unwrap() else {
        panic!("no root")
    };
    let Some(Entry::File(by_name)) = image.find(b"/index.html").unwrap() else { panic!("no index") };
    assert_eq!(
        (by_name.identity.fields().text, by_name.identity.content),
        (root.fields().text, root.content)
    );
    assert_eq!(root.last_modified, 784_111_777);
    assert!(text(&image, root.fields().text).contains("Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n"));
    for path in ["", "/a", "/a/", "//", "/index", "index.html", "/middle.bin/"] {
        assert_eq!(image.find(path.as_bytes()).unwrap(), None, "{path}");
    }
}

#[test]
fn each_response_with_content_has_nosniff() {
    const FIELD: &str = "\r\nX-Content-Type-Options: ";
    let site = FixtureDir::new(&[
        Text("a.css", b"p{} p{} p{}"),
        Text("a.css.gz", b"\x1f\x8b\x08"),
        Text("dir/index.html", b"here"),
        Text("404.html", b"nothing"),
        Text("_redirects", b"/old /new\n/gone /404.html 410\n/x/* /y/:splat\n/z/* /:splat/404.html 404\n/list/* /a.css 200\n"),
        Text("_headers", b"/given.txt\n  X-Content-Type-Options: none\n/gone\n  X-A: 1\n"),
        Text("given.txt", b"x"),
        Text("list/x", b"x"),
    ]);
    for allow_sniffing in [false, true] {
        let policy = Policy { allow_sniffing, listings: true, ..Policy::default() };
        let options = PackOptions { policy, ..PackOptions::new(now()) };
        let (image, _) = site.pack_with(&options, &mut BuildCache::default()).expect("packs");
        let check = |fields: Region, name: &str| {
            let value =
                text(&image, fields).split(FIELD).skip(1).map(|rest| rest.lines().next().expect("a line"));
            let want = match name {
                "/given.txt" => Some("none"),
                _ => (!allow_sniffing).then_some("nosniff"),
            };
            assert_eq!(value.collect::<Vec<_>>(), want.into_iter().collect::<Vec<_>>(), "{name}");
        };
        let mut count = 0;
        for (path, entry) in image.entries() {
            let name = String::from_utf8_lossy(path);
            match entry {
                Entry::File(file) => {
                    let coded = image.coded_variants(file).map(|(_, variant)| variant);
                    for variant in coded.chain([file.identity]) {
                        check(variant.fields().text, &name);
                        assert!(!text(&image, variant.not_modified().text).contains(FIELD), "{name}");
                        count += 1;
                    }
                }
                Entry::Redirect(to) => {
                    check(to.fields().text, &name);
                    count += 1;
                }
            }
        }
        assert!(count > 15, "{count}");
        for code in STATUS_PAGE_CODES.into_iter().filter(|&code| code != 204) {
            check(image.status_page(code).fields.text, &code.to_string());
        }
        check(image.rules().unwrap().expect("a rule").fields().text, "rules");
    }
    // A rule in the dialect of Cloudflare can remove the field.
    let site = FixtureDir::new(&[
        Text("a.txt", b"a"),
        Text("b.txt", b"b"),
        Text("_headers", b"/a.txt\n  ! X-Content-Type-Options\n"),
    ]);
    let options = PackOptions { dialect: Dialect::Cloudflare, ..PackOptions::new(now()) };
    let (image, _) = site.pack_with(&options, &mut BuildCache::default()).expect("packs");
    let has = |path: &str| {
        let Some(Entry::File(file)) = image.find(path.as_bytes()).unwrap() else { panic!("{path}") };
        text(&image, file.identity.fields().text).contains(FIELD)
    };
    assert!(!has("/a.txt") && has("/b.txt"));
}

#[test]
#[rustfmt::skip]
fn useful_precompressed_file_becomes_a_variant() {
    const GZIP: &[u8] = b"\x1f\x8b\x08 gzip";
    const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd zstd";
    type Row<'a> = (&'a str, &'a [FixtureFile<'a>], &'a str, &'a [Coding], &'a [(SkipReason, u64, &'a str)]);
    let cases: &[Row<'_>] = &[
        // what it shows, the entries, a path, its codings, the entries skipped
        ("none",               &[Zeros("a", 99)],                                    "/a",      &[], &[]),
        ("all",                &[Zeros("a", 99), Text("a.br", b"br"), Text("a.gz", GZIP), Text("a.zst", ZSTD)],
                                                                                     "/a",      &[Coding::Br, Coding::Gzip, Coding::Zstd], &[]),
        ("others between",     &[Zeros("a", 99), Text("a-b", b""), Text("a.gz", GZIP), Text("a.b", b"")], "/a", &[Coding::Gzip], &[]),
        ("its own path",       &[Zeros("a", 99), Text("a.gz", GZIP)],                "/a.gz",   &[], &[]),
        ("twice compressed",   &[Zeros("a", 99), Zeros("a.br", 98), Text("a.br.gz", GZIP)], "/a.br", &[], &[]),
        ("of another case",    &[Zeros("a", 99), Text("a.GZ", GZIP)],                "/a",      &[], &[]),
        ("in a directory",     &[Zeros("d/index.html", 99), Text("d/index.html.br", b"br")], "/d/", &[Coding::Br], &[]),
        ("of another",         &[Zeros("d/a", 99), Text("a.br", b"br")],             "/d/a",    &[], &[]),
        ("as large",           &[Text("a", b"0123456"), Text("a.br", b"brotli!")],   "/a",      &[], &[]),
        ("by a link",          &[Zeros("a", 99), Text("b", GZIP), Link("a.gz", "b")], "/a",     &[Coding::Gzip], &[]),
        ("a directory",        &[Zeros("a", 99), Text("a.gz/b", GZIP)],              "/a",      &[], &[]),
        ("no gzip",            &[Zeros("d/a", 99), Text("d/a.gz", b"text")],         "/d/a",    &[], &[(SkipReason::PrecompressedInvalid, 1, "d/a.gz")]),
        ("no zstd",            &[Zeros("a", 99), Text("a.zst", GZIP)],               "/a",      &[], &[(SkipReason::PrecompressedInvalid, 1, "a.zst")]),
        ("an empty file",      &[Zeros("a", 99), Text("a.br", b"")],                 "/a",      &[], &[(SkipReason::PrecompressedInvalid, 1, "a.br")]),
    ];
    for (name, entries, path, want, skipped) in cases {
        let site = FixtureDir::new(entries);
        let (image, packed) = site.pack();
        let Some(Entry::File(file)) = image.find(path.as_bytes()).unwrap() else { panic!("{name}: no file") };
        let codings: Vec<_> = image.coded_variants(file).map(|(coding, _)| coding).collect();
        assert_eq!(codings, *want, "{name}");
        let vary = "\r\nVary: Accept-Encoding\r\n";
        assert_eq!(text(&image, file.identity.fields().text).contains(vary), !want.is_empty(), "{name}");
        let rows: Vec<_> = packed.skipped.iter().map(|row| (row.reason, row.count, row.example.to_str().expect("ASCII"))).collect();
        assert_eq!(rows, *skipped, "{name}");
        // A precompressed file is served at its own path too.
        for (path, entry) in image.entries().filter(|(path, _)| !path.ends_with(b"/")) {
            site.line(&image, &packed, path, entry);
        }
    }
}

#[test]
fn precompressed_file_is_a_variant_and_a_file() {
    // Right after its fields, on its own pages of memory, and on disk. The image has the content of the latter two once.
    for len in [300, 20_000, 70_000] {
        let form = [b"\x1f\x8b\x08", &vec![b'z'; len][..]].concat();
        let site = FixtureDir::new(&[Zeros("dir/index.html", 100_000), Text("dir/index.html.gz", &form)]);
        let (image, packed) = site.pack();
        assert_eq!((packed.summary.files, packed.summary.bytes), (2, 100_003 + len as u64));
        assert_eq!(packed.files.len(), if len == 70_000 { 2 } else { 1 });
        let Some(Entry::File(by_name)) = image.find(b"/dir/index.html.gz").unwrap() else {
            panic!("not at its own path")
        };
        let by_name = by_name.identity;
        let shown = text(&image, by_name.fields().text);
        assert!(
            shown.contains(
                "\r\nContent-Type: application/gzip\r\nX-Content-Type-Options: nosniff\r\nAccept-Ranges: "
            ),
            "{shown}"
        );
        assert!(!shown.contains("Vary"), "{shown}");
        for path in [&b"/dir/"[..], b"/dir/index.html"] {
            let Some(Entry::File(file)) = image.find(path).unwrap() else { panic!("no file") };
            let coded: Vec<_> = image.coded_variants(file).collect();
            let [(Coding::Gzip, variant)] = coded[..] else { panic!("{coded:?}") };
            assert!(content(&image, &packed, variant.content) == form);
            assert_eq!(variant.content == by_name.content, len > 16_384, "{len}");
            assert_eq!(variant.last_modified, file.identity.last_modified);
            let (fields, etag) = (text(&image, variant.fields().text), text(&image, variant.etag));
            let rest = text(&image, variant.not_modified().text);
            assert!(
                rest.contains("\r\nLast-Modified: ") && rest.ends_with("\r\nVary: Accept-Encoding\r\n\r\n")
            );
            let first = format!("Content-Length: {}\r\nContent-Type: text/html", form.len());
            assert!(fields.starts_with(&first), "{fields}");
            let coding = format!("\r\nContent-Encoding: gzip\r\nAccept-Ranges: bytes\r\n{rest}");
            assert!(fields.ends_with(&coding), "{fields}");
            assert_eq!(etag, text(&image, by_name.etag));
            assert_ne!(etag, text(&image, file.identity.etag));
        }
    }
}

#[test]
fn precompressed_file_older_than_its_source_is_no_variant() {
    let site = FixtureDir::new(&[Zeros("a", 99), Text("a.br", b"br")]);
    let base = UNIX_EPOCH + Duration::from_secs(784_111_777);
    let set = |name, after_ms| {
        let file = File::options().write(true).open(site.root().join(name)).expect("open");
        file.set_modified(base + Duration::from_millis(after_ms)).expect("set");
    };
    for (file_ms, form_ms, offered) in
        [(0, 0, true), (0, 5_000, true), (900, 100, true), (1_000, 999, false), (5_000, 0, false)]
    {
        set("a", file_ms);
        set("a.br", form_ms);
        let (image, packed) = site.pack();
        let Some(Entry::File(file)) = image.find(b"/a").unwrap() else { panic!("no file") };
        assert_eq!(image.coded_variants(file).count(), usize::from(offered), "{file_ms}, {form_ms}");
        let kinds: Vec<_> = packed.skipped.iter().map(|row| row.reason).collect();
        assert_eq!(
            kinds,
            if offered { vec![] } else { vec![SkipReason::PrecompressedStale] },
            "{file_ms}, {form_ms}"
        );
        assert!(image.find(b"/a.br").unwrap().is_some());
    }
}

#[test]
fn each_status_has_a_page() {
    let (image, _) = FixtureDir::new(&[]).pack();
    for code in STATUS_PAGE_CODES {
        let page = image.status_page(code);
        let (fields, content) = (text(&image, page.fields.text), text(&image, page.content));
        let last = match code {
            204 | 405 => "Allow: GET, HEAD, OPTIONS\r\n",
            503 => "Retry-After: 5\r\n",
            _ => "",
        };
        let len = content.len();
        let html = format!(
            "Content-Type: text/html; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\nContent-Length: {len}\r\n\
             Cache-Control: no-store\r\n"
        );
        let html = if code == 204 { "" } else { &html };
        assert_eq!(fields, format!("{html}{last}\r\n"));
        assert_eq!(content.contains(&code.to_string()), code != 204);
        assert_eq!(
            page.fields.text.at + page.fields.text.len,
            page.content.at,
            "{code}: the content follows the fields"
        );
    }
}

#[test]
fn same_directory_gives_the_same_bytes() {
    let site =
        FixtureDir::new(&[Text("b/index.html", b"b"), Text("a", b"a"), Zeros("c", 70_000), Link("d", "b")]);
    assert_eq!(site.pack().0.as_bytes(), site.pack().0.as_bytes());
}

#[test]
fn last_modified_is_not_in_the_future() {
    let site = FixtureDir::new(&[Text("later", b"a"), Text("earlier", b"a")]);
    let set = |name, time| {
        File::options()
            .write(true)
            .open(site.root().join(name))
            .expect("open")
            .set_modified(time)
            .expect("set")
    };
    set("later", SystemTime::now() + Duration::from_secs(1_000_000));
    set("earlier", UNIX_EPOCH - Duration::from_secs(1_000_000));
    let options = PackOptions::new(now());
    let (image, _) = site.pack_with(&options, &mut BuildCache::default()).expect("packs");
    for (path, want) in [("/later", options.now), ("/earlier", 0)] {
        let Some(Entry::File(Variants { identity: variant, .. })) = image.find(path.as_bytes()).unwrap()
        else {
            panic!("{path}")
        };
        assert_eq!(variant.last_modified, want, "{path}");
    }
}

#[test]
fn build_cache_skips_an_unchanged_large_file_and_detects_a_change() {
    let site = FixtureDir::new(&[Zeros("large", 100_000)]);
    let later = PackOptions::new(now() + 10);
    let mut cache = BuildCache::default();
    let etag = |cache: &mut BuildCache| {
        let (image, _) = site.pack_with(&later, cache).expect("packs");
        let Some(Entry::File(Variants { identity: variant, .. })) = image.find(b"/large").unwrap() else {
            panic!("not found")
        };
        text(&image, variant.etag).to_owned()
    };
    let first = etag(&mut cache);
    assert_eq!(etag(&mut cache), first);
    assert!(!format!("{cache:?}").contains("files: {}"), "the file is cached: {cache:?}");
    File::options()
        .write(true)
        .open(site.root().join("large"))
        .expect("open")
        .write_all_at(b"1", 50_000)
        .expect("write");
    let second = etag(&mut cache);
    assert_ne!(second, first);
    assert_eq!(second, etag(&mut BuildCache::default()));
    fs::remove_file(site.root().join("large")).expect("remove");
    site.pack_with(&later, &mut cache).expect("packs");
    assert!(format!("{cache:?}").contains("{}"), "the file is evicted: {cache:?}");
}

#[test]
fn file_that_changes_meanwhile_gives_a_consistent_content() {
    let site = FixtureDir::new(&[Zeros("small", 3_000), Zeros("large", 400_000)]);
    let (stop, root) = (std::sync::atomic::AtomicBool::new(false), site.root());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let open = |name| File::options().write(true).open(root.join(name)).expect("open");
            let (small, large) = (open("small"), open("large"));
            let mut round = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                round += 1;
                small.set_len(round * 7919 % 60_000).expect("set");
                small.write_all_at(&round.to_le_bytes(), round % 50).expect("write");
                large.set_len(70_000 + round * 104_729 % 1_000_000).expect("set");
            }
        });
        for _ in 0..200 {
            let (image, packed) = site.pack();
            let Some(Entry::File(Variants { identity: variant, .. })) = image.find(b"/small").unwrap() else {
                panic!("not found")
            };
            let bytes = content(&image, &packed, variant.content);
            let hash = xxhash_rust::xxh3::xxh3_128(&bytes);
            assert_eq!(text(&image, variant.etag), format!("\"{hash:032x}\""));
            assert!(
                text(&image, variant.fields().text).contains(&format!("Content-Length: {}\r\n", bytes.len()))
            );
            let Some(Entry::File(Variants { identity: variant, .. })) = image.find(b"/large").unwrap() else {
                panic!("not found")
            };
            let Content::File { len, .. } = variant.content else { panic!("not a file") };
            assert!(text(&image, variant.fields().text).contains(&format!("Content-Length: {len}\r\n")));
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn too_many_large_files_are_counted() {
    let site = FixtureDir::new(&[Zeros("a", 70_000), Zeros("b", 70_000), Zeros("c", 70_000), Text("d", b"")]);
    let options = PackOptions { file_count_max: 2, ..PackOptions::new(now()) };
    let error = site.pack_with(&options, &mut BuildCache::default()).expect_err("refused");
    assert!(matches!(error, PackError::FileCount { count: 3, max: 2 }), "{error:?}");
    assert!(
        error.to_string().contains("3 large files") && error.to_string().contains("ulimit -n"),
        "{error}"
    );
    site.pack_with(&PackOptions { file_count_max: 3, ..options }, &mut BuildCache::default()).expect("packs");
}

#[test]
fn large_contents_have_tags_without_a_read() {
    let site = FixtureDir::new(&[Zeros("a.bin", 70_000), Zeros("b.bin", 70_000), Text("c.css", b"small")]);
    let path = site.root().join("a.bin");
    let age = |seconds| {
        let time = SystemTime::now() - Duration::from_secs(seconds);
        File::options().write(true).open(&path).and_then(|file| file.set_modified(time)).expect("a time");
    };
    let tag = |options: &PackOptions, cache: &mut BuildCache| {
        let (image, _) = site.pack_with(options, cache).expect("packs");
        let Some(Entry::File(variants)) = image.find(b"/a.bin").expect("in memory") else {
            panic!("no file")
        };
        let fields = text(&image, variants.identity.fields().text);
        assert!(fields.contains("Content-Type: application/octet-stream\r\n"), "{fields}");
        fields.lines().find_map(|line| line.strip_prefix("ETag: ")).expect("a tag").to_owned()
    };
    // Later than the change of the files, as if they were settled.
    let all = PackOptions::new(now() + 10);
    let none = PackOptions { read_len_max: 139_999, ..all.clone() };
    let (content, identity) = (tag(&all, &mut BuildCache::default()), tag(&none, &mut BuildCache::default()));
    assert_ne!(content, identity);
    assert_eq!(
        tag(&PackOptions { read_len_max: 140_000, ..all.clone() }, &mut BuildCache::default()),
        content
    );
    // It stays for this version of the file, in this process and in others, even if later everything may be read.
    let mut cache = BuildCache::default();
    assert_eq!(tag(&none, &mut cache), identity);
    assert_eq!(tag(&all, &mut cache), identity);
    assert_eq!(tag(&PackOptions { now: now() + 20, ..none.clone() }, &mut BuildCache::default()), identity);
    // Each version has another.
    age(100);
    let changed = tag(&none, &mut BuildCache::default());
    assert_ne!(changed, identity);
    // A file that was written just now may change again within the same tick of the clock.
    let early = |now| tag(&PackOptions { now, ..none.clone() }, &mut BuildCache::default());
    assert_ne!(early(now()), early(now() + 1));
}

#[test]
fn root_that_is_no_directory_is_refused() {
    let site = FixtureDir::new(&[Text("a", b"")]);
    for name in ["a", "b"] {
        let root = site.root().join(name);
        let error =
            pack_dir(&root, &mut Cursor::new(Vec::new()), &PackOptions::new(0), &mut BuildCache::default());
        let error = error.expect_err("refused");
        assert!(matches!(error, PackError::Root { .. }), "{error:?}");
        assert!(error.to_string().contains(root.to_str().expect("UTF-8")), "{error}");
    }
}

#[test]
fn unreadable_entry_is_named() {
    for name in ["a/file", "a/dir"] {
        let site = FixtureDir::new(&[Text("a/file", b"x"), Text("a/dir/file", b"x")]);
        let path = site.root().join(name);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).expect("set");
        let result = site.pack_with(&PackOptions::new(now()), &mut BuildCache::default());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("set");
        match result {
            Err(error) => assert!(error.to_string().contains(name), "{error}"),
            // Root can read every file.
            Ok(_) => assert!(rustix::process::geteuid().is_root(), "{name}"),
        }
    }
}

#[test]
fn unreadable_entries_answer_403_beside_the_rest() {
    let names = ["a.css", "page.html", "page.html.gz", "dir/file", "open"].map(|name| Text(name, b"text"));
    let site = FixtureDir::new(&names);
    fs::create_dir(site.root().join("_closed")).expect("a directory");
    let closed = ["a.css", "page.html.gz", "dir", "_closed"].map(|name| site.root().join(name));
    let set = |mode| {
        closed.iter().for_each(|path| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("our own");
        });
    };
    set(0o000);
    let options = PackOptions { is_strict: false, ..PackOptions::new(now()) };
    let packed = site.pack_with(&options, &mut BuildCache::default());
    let is_denied = fs::read(&closed[0]).is_err();
    set(0o700);
    let (image, packed) = packed.expect("packs");
    // Root can read every file.
    if !is_denied {
        return;
    }
    for path in ["/a.css", "/page.html.gz", "/dir", "/dir/", "/_closed", "/_closed/"] {
        let found = image.find(path.as_bytes()).expect("in memory");
        let Some(Entry::File(variants)) = found else { panic!("{path}: {found:?}") };
        assert_eq!(variants.rule_status, Some(403), "{path}");
    }
    for path in ["/open", "/page.html"] {
        let found = image.find(path.as_bytes()).expect("in memory");
        assert!(matches!(found, Some(Entry::File(variants)) if variants.rule_status.is_none()), "{path}");
    }
    assert!(image.find(b"/dir/file").expect("in memory").is_none());
    let lines: Vec<_> = packed.skipped.iter().map(ToString::to_string).collect();
    let want = "skipped 4 unreadable files or directories, such as _closed; make them readable, as with chmod -R a+rX, or start with \
                --strict to refuse such a site";
    assert_eq!(lines, [want]);
}

/// A directory with entries for one test.
struct FixtureDir(TempDir);

impl FixtureDir {
    fn new(entries: &[FixtureFile<'_>]) -> FixtureDir {
        let dir = TempDir::new().expect("a directory");
        for entry in entries {
            let at = |name: &[u8]| {
                let at = dir.path().join(std::ffi::OsStr::from_bytes(name));
                fs::create_dir_all(at.parent().expect("a parent")).expect("directories");
                at
            };
            match entry {
                Text(name, content) => fs::write(at(name.as_bytes()), content).expect("a file"),
                Zeros(name, len) => fs::write(at(name.as_bytes()), vec![0; *len]).expect("a file"),
                Bytes(name, content) => fs::write(at(name), content).expect("a file"),
                Link(name, target) => symlink(target, at(name.as_bytes())).expect("a link"),
                Dir(name) => fs::create_dir_all(at(name.as_bytes())).expect("a directory"),
                Fifo(name) => {
                    let mode = rustix::fs::Mode::from_raw_mode(0o600);
                    rustix::fs::mknodat(
                        rustix::fs::CWD,
                        at(name.as_bytes()),
                        rustix::fs::FileType::Fifo,
                        mode,
                        0,
                    )
                    .expect("a FIFO");
                }
                Socket(name) => {
                    drop(std::os::unix::net::UnixListener::bind(at(name.as_bytes())).expect("a socket"))
                }
            }
        }
        FixtureDir(dir)
    }

    fn root(&self) -> &Path {
        self.0.path()
    }

    fn pack(&self) -> (Image, PackedImage) {
        self.pack_with(&PackOptions::new(now()), &mut BuildCache::default()).expect("packs")
    }

    fn pack_with(
        &self,
        options: &PackOptions,
        cache: &mut BuildCache,
    ) -> Result<(Image, PackedImage), PackError> {
        let mut out = Cursor::new(Vec::new());
        let packed = pack_dir(self.root(), &mut out, options, cache)?;
        let image = Image::new(Bytes::from(out.into_inner())).expect("an image");
        assert_eq!(image.file_count(), packed.files.len() as u64);
        assert_eq!(image.record_count(), image.entries().count() as u64);
        Ok((image, packed))
    }

    /// Returns an entry in the format of the table: path, length and place, or path and target. Compares the content with the file.
    fn line(&self, image: &Image, packed: &PackedImage, path: &[u8], entry: Entry) -> String {
        let shown = String::from_utf8_lossy(path);
        assert_eq!(image.find(path).unwrap(), Some(entry), "{shown}");
        match entry {
            Entry::File(Variants { identity: variant, .. }) => {
                let mut file = path[1..].to_vec();
                if path.ends_with(b"/") {
                    file.extend_from_slice(b"index.html");
                }
                let want = fs::read(self.root().join(std::ffi::OsStr::from_bytes(&file))).expect("the file");
                assert!(content(image, packed, variant.content) == want, "{shown}");
                let place = match variant.content {
                    Content::Image(place)
                        if place.at == variant.fields().text.at + variant.fields().text.len =>
                    {
                        "inline".into()
                    }
                    Content::Image(place) if place.at % 4096 == 0 => "page".into(),
                    Content::Image(place) => panic!("{place:?}"),
                    Content::File { number, .. } => format!("disk {number}"),
                    Content::Archive(place) => panic!("{place:?}"),
                };
                format!("{shown} {} {place}", want.len())
            }
            Entry::Redirect(redirect) => {
                let target = text(image, redirect.before_query())
                    .strip_prefix("Location: ")
                    .expect("a Location")
                    .to_owned();
                assert!(text(image, redirect.content).contains(&target.replace('&', "&amp;")), "{shown}");
                let rest =
                    format!("Content-Length: {}\r\nCache-Control: no-cache\r\n\r\n", redirect.content.len);
                assert!(text(image, redirect.after_query().text).ends_with(&rest));
                format!("{shown} -> {target}")
            }
        }
    }
}

fn content(image: &Image, packed: &PackedImage, content: Content) -> Vec<u8> {
    match content {
        Content::Image(place) => image.bytes(place).to_vec(),
        Content::File { number, len, .. } => {
            let mut bytes = vec![0; len as usize];
            packed.files[number as usize].read_exact_at(&mut bytes, 0).expect("the file");
            bytes
        }
        Content::Archive(place) => panic!("{place:?}"),
    }
}

fn text(image: &Image, place: Region) -> &str {
    std::str::from_utf8(image.bytes(place)).expect("ASCII")
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}
