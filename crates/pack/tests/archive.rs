//! Which members of a tar archive are served, and which archives are refused.

use bytes::Bytes;
use proptest::prelude::*;
use std::fs::File;
use std::io::{Cursor, Write};
use std::path::Path;
use tar::{Builder, EntryType, Header};
use tarpon_pack::{BuildCache, Damage, PackError, PackOptions, PackedImage, Progress, SkipReason, pack_tar};
use tarpon_site::{Coding, Content, Entry, Image};

/// A member: its kind, its name, and its content or target.
#[derive(Clone, Copy)]
enum TestMember<'m> {
    File(&'m str, &'m str),
    Dir(&'m str),
    Symlink(&'m str, &'m str),
    Hard(&'m str, &'m str),
    Fifo(&'m str),
}
use TestMember::{Dir, Fifo, File as Plain, Hard, Symlink};

#[test]
#[rustfmt::skip]
fn members_are_served_like_files() {
    let cases: &[(&str, &[TestMember<'_>], &[&str])] = &[
        ("a file",               &[Plain("a", "x")],                                  &["/a x"]),
        ("a leading ./",         &[Dir("./"), Plain("./a", "x")],                     &["/a x"]),
        ("an empty file",        &[Plain("a", "")],                                   &["/a "]),
        ("an index",             &[Plain("d/index.html", "x")],                       &["/d -> /d/", "/d/ x", "/d/index.html x"]),
        ("the last one wins",    &[Plain("a", "old"), Plain("./a", "new")],           &["/a new"]),
        ("file, then link",      &[Plain("a", "x"), Plain("b", "y"), Symlink("a", "b")], &["/a y", "/b y"]),
        ("directory, then file", &[Plain("a/b", "x"), Plain("a", "y")],               &["/a y"]),
        ("file, then directory", &[Plain("a", "x"), Plain("a/b", "y")],               &["/a/b y"]),
        ("a dot name",           &[Plain(".git/x", "x"), Plain(".well-known/y", "y")], &["/.well-known/y y"]),
        ("a hard link",          &[Plain("a", "x"), Hard("b", "a"), Hard("c", "./b")], &["/a x", "/b x", "/c x"]),
        ("a hard link to a replaced file", &[Plain("a", "x"), Hard("b", "a"), Plain("a", "y")], &["/a y", "/b x"]),
        ("a chain of links",     &[Symlink("a", "b"), Symlink("b", "d/../c"), Dir("d"), Plain("c", "x")], &["/a x", "/b x", "/c x"]),
        ("a link to a directory", &[Symlink("a", ".d"), Plain(".d/x", "x")],          &["/a/x x"]),
        ("a link through a link", &[Symlink("a", "d"), Symlink("b", "a/x"), Plain("d/x", "x")], &["/a/x x", "/b x", "/d/x x"]),
    ];
    for (name, members, want) in cases {
        let (image, packed, _) = pack(&archive(members), "").expect(name);
        assert_eq!(lines(&image, &archive(members)), *want, "{name}");
        assert!(packed.skipped.iter().all(|row| row.reason == SkipReason::Dotfile), "{name}: {:?}", packed.skipped);
    }
}

#[test]
#[rustfmt::skip]
fn members_that_cannot_be_served_are_skipped_with_a_reason() {
    let deep = "x/".repeat(2048) + "x";
    let cases: &[(&str, &[TestMember<'_>], SkipReason)] = &[
        ("dotfile",             &[Plain(".env", "x")],                        SkipReason::Dotfile),
        ("FIFO",                &[Fifo("a")],                                 SkipReason::Special),
        ("link out",            &[Symlink("a", "../b")],                      SkipReason::LinkOutside),
        ("link out and in",     &[Symlink("a", "../site/ok")],                SkipReason::LinkOutside),
        ("absolute link",       &[Symlink("a", "/etc/passwd")],               SkipReason::LinkOutside),
        ("dangling link",       &[Symlink("a", "b")],                         SkipReason::LinkDangling),
        ("link into a file",    &[Symlink("a", "ok/b")],                      SkipReason::LinkDangling),
        ("dangling hard link",  &[Hard("a", "b")],                            SkipReason::LinkDangling),
        ("link to itself",      &[Symlink("a", "a")],                         SkipReason::LinkLoop),
        ("loop of links",       &[Symlink("a", "b"), Symlink("b", "a")],      SkipReason::LinkLoop),
        ("link to its own dir", &[Symlink("d/a", ".")],                       SkipReason::LinkLoop),
        ("absolute name",       &[Plain("/a", "x")],                          SkipReason::NameAbsolute),
        ("name with ..",        &[Plain("d/../../a", "x")],                   SkipReason::NameUpwards),
        ("long name",           &[Plain(&deep, "x")],                         SkipReason::PathTooLong),
    ];
    for (name, members, want) in cases {
        let bytes = archive(&[members, &[Plain("ok", "ok")][..]].concat());
        let (image, packed, _) = pack(&bytes, "").expect(name);
        assert_eq!(lines(&image, &bytes), ["/ok ok"], "{name}");
        assert_eq!(packed.skipped.iter().map(|row| row.reason).collect::<Vec<_>>(), [*want], "{name}");
    }
}

#[test]
#[rustfmt::skip]
fn precompressed_member_becomes_a_variant_like_a_file() {
    let page = "page ".repeat(20);
    type Row<'a> = (&'a str, &'a [TestMember<'a>], &'a [Coding], &'a [SkipReason]);
    let cases: &[Row<'_>] = &[
        ("none",          &[Plain("a", &page)],                                         &[],           &[]),
        ("one",           &[Plain("a", &page), Plain("a.br", "br")],                    &[Coding::Br], &[]),
        ("before it",     &[Plain("a.br", "br"), Plain("a", &page)],                    &[Coding::Br], &[]),
        ("by a link",     &[Plain("a", &page), Plain("b", "br"), Symlink("a.br", "b")], &[Coding::Br], &[]),
        ("as large",      &[Plain("a", "br"), Plain("a.br", "br")],                     &[],           &[]),
        ("no gzip",       &[Plain("a", &page), Plain("a.gz", "text")],                    &[],           &[SkipReason::PrecompressedInvalid]),
        ("an empty file", &[Plain("a", &page), Plain("a.br", "")],                      &[],           &[SkipReason::PrecompressedInvalid]),
    ];
    for (name, members, want, skipped) in cases {
        let bytes = archive(members);
        let (image, packed, _) = pack(&bytes, "").expect(name);
        let Some(Entry::File(file)) = image.find(b"/a").unwrap() else { panic!("{name}: no file") };
        let coded: Vec<_> = image.coded_variants(file).collect();
        assert_eq!(coded.iter().map(|(coding, _)| *coding).collect::<Vec<_>>(), *want, "{name}");
        assert_eq!(packed.skipped.iter().map(|row| row.reason).collect::<Vec<_>>(), *skipped, "{name}");
        // A precompressed member is served at its own path too, and lies in the archive once.
        assert_eq!(lines(&image, &bytes).len(), members.len(), "{name}");
        for (_, variant) in coded {
            let Some(Entry::File(own)) = image.find(b"/a.br").unwrap() else { panic!("{name}: not at its own path") };
            assert_eq!(variant.content, own.identity.content, "{name}");
        }
    }
}

#[test]
fn deepest_name_is_served() {
    let name = "x/".repeat(2047) + "y";
    let bytes = archive(&[Plain(&name, "deep")]);
    assert_eq!(lines(&pack(&bytes, "").expect("packs").0, &bytes), [format!("/{name} deep")]);
}

#[test]
fn name_that_is_not_utf8_is_skipped() {
    let mut bytes = archive(&[Plain("a", "x"), Plain("ok", "ok")]);
    bytes[0] = 0xff;
    fix_checksum(&mut bytes[..512]);
    let (image, packed, _) = pack(&bytes, "").expect("packs");
    assert_eq!(lines(&image, &bytes), ["/ok ok"]);
    assert_eq!(packed.skipped[0].reason, SkipReason::NameNotText);
}

#[test]
fn prefix_becomes_the_root() {
    let bytes = archive(&[
        Plain("out", "x"),
        Plain("s/t/a", "y"),
        Hard("s/t/b", "out"),
        Symlink("s/t/c", "../../out"),
    ]);
    let (image, packed, _) = pack(&bytes, "./s/t/").expect("packs");
    assert_eq!(lines(&image, &bytes), ["/a y", "/b x"]);
    assert_eq!(packed.skipped[0].reason, SkipReason::LinkOutside);
    for prefix in ["u", "s/t/a", "out"] {
        assert!(matches!(pack(&bytes, prefix), Err(PackError::Prefix { .. })), "{prefix}");
    }
}

#[test]
#[rustfmt::skip]
fn incomplete_or_damaged_archive_is_refused() {
    let good = archive(&[Plain("a", &"x".repeat(700)), Plain("b", "y")]);
    let change = |at: usize, to: &[u8]| {
        let mut bytes = good.clone();
        bytes[at..at + to.len()].copy_from_slice(to);
        bytes
    };
    let forged = |size: &[u8]| {
        let mut bytes = change(124, size);
        fix_checksum(&mut bytes[..512]);
        bytes
    };
    let cases: &[(&str, Vec<u8>, Damage, u64)] = &[
        ("empty",                     Vec::new(),                    Damage::NotTar,    0),
        ("text",                      b"hello".to_vec(),             Damage::NotTar,    0),
        ("a block of text",           vec![b'x'; 2048],              Damage::NotTar,    0),
        ("cut in the first header",   good[..100].to_vec(),          Damage::NotTar,    0),
        ("cut in a content",          good[..600].to_vec(),          Damage::Truncated, 512),
        ("cut after a content" ,      good[..512 + 700].to_vec(),    Damage::Truncated, 1536),
        ("cut between members",       good[..1536].to_vec(),         Damage::Truncated, 1536),
        ("cut in a header",           good[..1700].to_vec(),         Damage::Truncated, 1536),
        ("no zeros at the end",       good[..2560].to_vec(),         Damage::Truncated, 2560),
        ("a damaged header",          change(1536, b"?"),            Damage::Header,    1536),
        ("a forged size",             forged(b"77777777777\0"),      Damage::Truncated, 512),
        ("the largest size there is", forged(&[0x80, 0, 0, 0, 0x7f, 255, 255, 255, 255, 255, 255, 255]), Damage::Truncated, 512),
    ];
    for (name, bytes, want, offset) in cases {
        match pack(bytes, "") {
            Err(PackError::Archive { damage, at, .. }) => assert_eq!((damage, at), (*want, *offset), "{name}"),
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn bytes_after_the_end_are_ignored() {
    let mut bytes = archive(&[Plain("a", "x")]);
    bytes.extend(b"garbage".repeat(1000));
    assert_eq!(lines(&pack(&bytes, "").expect("packs").0, &bytes), ["/a x"]);
}

#[test]
fn links_that_multiply_entries_are_refused() {
    let names: Vec<_> =
        (0..30).map(|at| (format!("d{at}/a"), format!("d{at}/b"), format!("../d{}", at + 1))).collect();
    let mut members: Vec<_> = names.iter().flat_map(|(a, b, to)| [Symlink(a, to), Symlink(b, to)]).collect();
    members.push(Plain("d30/x", "x"));
    let refused = pack(&archive(&members), "");
    assert!(matches!(refused, Err(PackError::Archive { damage: Damage::TooMany, .. })));
}

proptest! {
    /// Any cut and any flipped bits give a site or an error, never a panic. All contents of a site lie in the archive.
    #[test]
    fn damaged_archive_gives_a_site_or_an_error(cut in 0..5000_usize, flips in prop::collection::vec((0..5000_usize, 0..8_u8), 0..4)) {
        let long = "n/".repeat(90) + "n";
        let mut bytes = archive(&[Plain("a", "x"), Plain(&long, "y"), Symlink("l", "a"), Hard("h", "a")]);
        for (at, bit) in flips {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << bit;
            }
        }
        bytes.truncate(if cut % 3 == 0 { cut } else { usize::MAX });
        if let Ok((image, ..)) = pack(&bytes, "") {
            lines(&image, &bytes);
        }
    }
}

fn archive(members: &[TestMember<'_>]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for member in members {
        let mut header = Header::new_gnu();
        header.set_mtime(784_111_777);
        header.set_mode(0o644);
        let (kind, name, content, link) = match *member {
            Plain(name, content) => (EntryType::Regular, name, content, ""),
            Dir(name) => (EntryType::Directory, name, "", ""),
            Symlink(name, to) => (EntryType::Symlink, name, "", to),
            Hard(name, to) => (EntryType::Link, name, "", to),
            Fifo(name) => (EntryType::Fifo, name, "", ""),
        };
        header.set_entry_type(kind);
        header.set_size(content.len() as u64);
        if !link.is_empty() {
            header.set_link_name_literal(link).expect("a short name");
        }
        // The crate refuses to write names such as `..`, so the test writes them into the header.
        if name.starts_with('/') || name.contains("..") {
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_cksum();
            builder.append(&header, content.as_bytes()).expect("memory");
        } else {
            builder.append_data(&mut header, name, content.as_bytes()).expect("memory");
        }
    }
    builder.into_inner().expect("memory")
}

/// Recomputes the checksum of a header.
fn fix_checksum(header: &mut [u8]) {
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

fn pack(bytes: &[u8], prefix: &str) -> Result<(Image, PackedImage, File), PackError> {
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(bytes).expect("a file");
    let mut out = Cursor::new(Vec::new());
    let options = PackOptions::new(1_700_000_000);
    let packed = pack_tar(
        &file,
        Path::new("site.tar"),
        Path::new(prefix),
        &mut out,
        &options,
        &mut BuildCache::default(),
        &Progress::default(),
    )?;
    let image = Image::new(Bytes::from(out.into_inner())).expect("an image");
    assert_eq!(image.archive_len(), bytes.len() as u64);
    Ok((image, packed, file))
}

/// Each path with its content or target, sorted.
fn lines(image: &Image, archive: &[u8]) -> Vec<String> {
    let mut lines: Vec<_> = image
        .entries()
        .map(|(path, entry)| {
            let path = String::from_utf8_lossy(path);
            match entry {
                Entry::File(file) => {
                    let Content::Archive(place) = file.identity.content else {
                        panic!("{path}: not in the archive")
                    };
                    let content = &archive[place.at as usize..][..place.len as usize];
                    format!("{path} {}", String::from_utf8_lossy(content))
                }
                Entry::Redirect(to) => {
                    let to = String::from_utf8_lossy(image.bytes(to.before_query())).into_owned();
                    format!("{path} -> {}", to.strip_prefix("Location: ").expect("a Location"))
                }
            }
        })
        .collect();
    lines.sort();
    lines
}
