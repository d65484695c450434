//! User directories beside a site: which files are served, and which directories are omitted.

use bytes::Bytes;
use std::fs::{self, File};
use std::io::Cursor;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tarpon_pack::{
    BuildCache, OmitReason, PackOptions, PackedImage, Policy, USER_ENTRY_COUNT_MAX, USER_LEN_MAX,
    UserDirectory, pack_dir,
};
use tarpon_site::{Content, Entry, Image};
use tempfile::TempDir;

/// An entry of the directory that is packed.
enum UserFixture {
    Text(&'static str),
    /// A file of zeros.
    Zeros(&'static str, u64),
    Link(&'static str, &'static str),
    /// A directory with this number of empty files.
    Many(&'static str, usize),
}
use UserFixture::*;

#[test]
fn user_directory_is_served_at_the_name_of_the_user() {
    type Case<'a> = (&'a str, Vec<UserFixture>, &'a [&'a str], &'a [(&'a str, OmitReason)]);
    #[rustfmt::skip]
    let cases: Vec<Case<'_>> = vec![
        // what it shows, the entries, the paths served of users, the omitted users
        ("a page", vec![Text("home/ann/www/index.html"), Text("home/ann/www/a/b.css"), Text("home/ann/diary")],
            &["/~ann", "/~ann/", "/~ann/a/b.css", "/~ann/index.html"], &[]),
        ("of both users", vec![Text("home/ann/www/a"), Text("home/bob/www/a")], &["/~ann/a", "/~bob/a"], &[]),
        ("of no other user", vec![Text("home/eve/www/a")], &[], &[]),
        ("no such directory", vec![Text("home/ann/a")], &[], &[]),
        ("a file of that name", vec![Text("home/ann/www")], &[], &[]),
        ("dotfiles", vec![Text("home/ann/www/.htaccess"), Text("home/ann/www/.well-known/a")], &["/~ann/.well-known/a"], &[]),
        ("rules have no effect and are not served",
            vec![Text("home/ann/www/_headers"), Text("home/ann/www/_redirects.gz"), Text("home/ann/www/a/_headers")],
            &["/~ann/a/_headers"], &[]),
        ("a link within", vec![Text("home/ann/www/a"), Link("home/ann/www/b", "a")], &["/~ann/a", "/~ann/b"], &[]),
        ("a link out of it", vec![Text("home/ann/diary"), Text("home/ann/www/a"), Link("home/ann/www/b", "../diary")],
            &["/~ann/a"], &[]),
        ("a link to another user", vec![Text("home/bob/www/a"), Link("home/ann/www/b", "../../bob/www")], &["/~bob/a"], &[]),
        ("a link within the home", vec![Text("home/ann/site/a"), Link("home/ann/www", "site")], &["/~ann/a"], &[]),
        ("a link out of the home", vec![Text("home/bob/www/a"), Link("home/ann/www", "../bob/www")],
            &["/~bob/a"], &[("ann", OmitReason::Outside)]),
        ("a link to the whole home", vec![Text("home/ann/a"), Link("home/ann/www", ".")], &[], &[("ann", OmitReason::Outside)]),
        ("a home that is a link", vec![Text("disk/ann/www/a"), Link("home/ann", "../disk/ann")], &["/~ann/a"], &[]),
        ("a name that the site has itself", vec![Text("site/~ann/own"), Text("home/ann/www/a"), Text("home/bob/www/a")],
            &["/~ann/own", "/~bob/a"], &[("ann", OmitReason::Taken)]),
        ("a longer name in the site", vec![Text("site/~annie"), Text("home/ann/www/a")], &["/~ann/a", "/~annie"], &[]),
        ("too many files", vec![Many("home/ann/www", USER_ENTRY_COUNT_MAX + 1), Text("home/bob/www/a")],
            &["/~bob/a"], &[("ann", OmitReason::EntryCount)]),
        ("too many, dotfiles too", vec![Many("home/ann/www/.git", 1), Many("home/ann/www/a", USER_ENTRY_COUNT_MAX - 1)],
            &[], &[("ann", OmitReason::EntryCount)]),
        ("too many large files", vec![Zeros("home/ann/www/a", LARGE), Zeros("home/ann/www/b", LARGE), Zeros("home/bob/www/a", LARGE)],
            &["/~bob/a"], &[("ann", OmitReason::LargeCount(1))]),
        ("as many large files as allowed", vec![Zeros("site/a", LARGE), Zeros("home/ann/www/a", LARGE)], &["/~ann/a"], &[]),
    ];
    for (name, entries, want, omitted) in cases {
        let dir = fixture(&entries);
        let (image, packed) =
            pack(dir.path(), &PackOptions { file_count_max: LARGE_MAX, ..PackOptions::new(0) });
        assert_eq!(of_users(&image), want, "{name}");
        let got: Vec<_> =
            packed.omitted.iter().map(|omitted| (&*omitted.user.name, omitted.reason)).collect();
        assert_eq!(got, omitted, "{name}");
    }
}

/// Bytes of a file that is too large for an image.
const LARGE: u64 = 70_000;
/// The number of large files that the site may have here. A user may have one of them.
const LARGE_MAX: usize = 8;

#[test]
fn small_files_of_a_user_have_a_byte_limit() {
    const LEN: u64 = 65_536;
    let count = (USER_LEN_MAX / LEN) as usize;
    for (count, want) in [(count, None), (count + 1, Some(OmitReason::Len))] {
        let dir = fixture(&[Many("home/ann/www", count)]);
        for entry in fs::read_dir(dir.path().join("home/ann/www")).unwrap() {
            File::options().write(true).open(entry.unwrap().path()).unwrap().set_len(LEN).unwrap();
        }
        let (_, packed) = pack(dir.path(), &PackOptions::new(0));
        assert_eq!(packed.omitted.first().map(|omitted| omitted.reason), want);
        assert_eq!(packed.summary.files, if want.is_none() { count as u64 } else { 0 });
    }
}

#[test]
fn large_files_of_users_are_skipped_beyond_the_limit_of_the_site() {
    const NAMES: [&str; LARGE_MAX] =
        ["site/a", "site/b", "site/c", "site/d", "site/e", "site/f", "site/g", "site/h"];
    let mut entries: Vec<_> = NAMES.map(|name| Zeros(name, LARGE)).into();
    entries.extend([Zeros("home/ann/www/large", LARGE), Text("home/ann/www/small")]);
    let dir = fixture(&entries);
    let (image, packed) = pack(dir.path(), &PackOptions { file_count_max: LARGE_MAX, ..PackOptions::new(0) });
    assert_eq!(of_users(&image), ["/~ann/small"]);
    let skipped: Vec<_> = packed.skipped.iter().map(ToString::to_string).collect();
    assert_eq!(skipped, ["skipped 1 large file of a user because of the open-file limit: ~ann/large"]);
}

#[test]
fn listing_of_the_root_names_no_users_and_user_directories_have_listings() {
    let dir = fixture(&[Text("site/a"), Text("home/ann/www/b/c")]);
    let policy = Policy { listings: true, ..Policy::default() };
    let (image, _) = pack(dir.path(), &PackOptions { policy, ..PackOptions::new(0) });
    let page = |path: &[u8]| {
        let Some(Entry::File(variants)) = image.find(path).unwrap() else { panic!("no listing") };
        let Content::Image(place) = variants.identity.content else { panic!("not in the image") };
        String::from_utf8_lossy(image.bytes(place)).into_owned()
    };
    assert!(page(b"/").contains("href=\"/a\"") && !page(b"/").contains("ann"));
    assert!(page(b"/~ann/").contains("href=\"/~ann/b/\""));
    assert!(page(b"/~ann/b/").contains("href=\"/~ann/b/c\""));
}

/// Makes a directory with a site and with home directories.
fn fixture(entries: &[UserFixture]) -> TempDir {
    let dir = TempDir::new().expect("a directory");
    let at = |name: &str| {
        let at = dir.path().join(name);
        fs::create_dir_all(at.parent().expect("in the directory")).expect("directories");
        at
    };
    drop((at("site/x"), at("home/x")));
    for entry in entries {
        match *entry {
            Text(name) => fs::write(at(name), name).expect("a file"),
            Zeros(name, len) => File::create(at(name)).and_then(|file| file.set_len(len)).expect("a file"),
            Link(name, target) => symlink(target, at(name)).expect("a link"),
            Many(name, count) => {
                for number in 0..count {
                    File::create(at(&format!("{name}/{number}"))).expect("a file");
                }
            }
        }
    }
    dir
}

fn pack(root: &Path, options: &PackOptions) -> (Image, PackedImage) {
    let user = |name: &str| UserDirectory {
        name: name.to_owned(),
        home: root.join("home").join(name),
        dir: PathBuf::from("www"),
    };
    let options = PackOptions { users: ["ann", "bob"].map(user).into(), ..options.clone() };
    let mut out = Cursor::new(Vec::new());
    let packed = pack_dir(&root.join("site"), &mut out, &options, &mut BuildCache::default()).expect("packs");
    (Image::new(Bytes::from(out.into_inner())).expect("an image"), packed)
}

/// Returns all paths that begin with `/~`.
fn of_users(image: &Image) -> Vec<String> {
    let mut paths: Vec<_> =
        image.entries().map(|(path, _)| String::from_utf8_lossy(path).into_owned()).collect();
    paths.retain(|path| path.starts_with("/~"));
    paths.sort();
    paths
}
