//! The error page for a missing path: the 404.html of the nearest directory above.

use bytes::Bytes;
use proptest::prelude::*;
use std::{collections::BTreeSet, fs, io::Cursor, path::Path};
use tarpon_pack::{BuildCache, PackOptions, pack_dir};
use tarpon_site::{Content, Fallback, Image, NOT_FOUND_DEPTH_MAX};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn finds_the_same_page_as_a_naive_search(
        dirs in prop::collection::vec(prop::collection::vec("[ab]", 0..5), 0..6),
        missing in prop::collection::vec("[ab]{0,2}|404.html", 1..7),
    ) {
        let dirs: BTreeSet<String> = dirs.iter().map(|dir| dir.iter().map(|name| format!("{name}/")).collect()).collect();
        let image = packed(&dirs);
        let path = format!("/{}", missing.join("/"));
        prop_assume!(image.find(path.as_bytes()).unwrap().is_none());
        prop_assert_eq!(page(&image, &path), naive(&dirs, &path));
    }
}

#[test]
fn page_beyond_the_search_depth_is_an_ordinary_file() {
    for depth in [NOT_FOUND_DEPTH_MAX - 1, NOT_FOUND_DEPTH_MAX, NOT_FOUND_DEPTH_MAX + 1] {
        let dir = "a/".repeat(depth);
        let image = packed(&BTreeSet::from([dir.clone()]));
        assert!(image.find(format!("/{dir}404.html").as_bytes()).unwrap().is_some());
        for below in ["x", "b/x", "b/b/b/x"] {
            let want = (depth <= NOT_FOUND_DEPTH_MAX).then(|| dir.clone());
            assert_eq!(page(&image, &format!("/{dir}{below}")), want, "{depth}");
        }
        assert_eq!(page(&image, "/x"), None, "{depth}");
    }
    let image = packed(&BTreeSet::from([String::new()]));
    assert_eq!(page(&image, &"/".repeat(4096)), Some(String::new()));
}

#[test]
fn error_page_has_no_validators_and_is_not_stored() {
    let image = packed(&BTreeSet::from([String::new()]));
    let Fallback::NotFoundPage(page) = image.fallback(b"/x").unwrap() else { panic!("no page") };
    let fields = std::str::from_utf8(image.bytes(page.identity.fields().text)).expect("ASCII");
    let want = "Content-Length: 0\r\nContent-Type: text/html; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n\r\n";
    assert_eq!(fields, want);
}

/// Packs a site with an error page in each of these directories. The content of each page is its directory.
fn packed(dirs: &BTreeSet<String>) -> Image {
    let root = tempfile::tempdir().expect("a directory");
    fs::write(root.path().join("index.html"), "home").expect("a page");
    for dir in dirs {
        let at = root.path().join(dir);
        fs::create_dir_all(&at).and_then(|()| fs::write(at.join("404.html"), dir)).expect("a page");
    }
    image(root.path())
}

fn image(root: &Path) -> Image {
    let mut out = Cursor::new(Vec::new());
    pack_dir(root, &mut out, &PackOptions::new(1_000_000_000), &mut BuildCache::default()).expect("packs");
    Image::new(Bytes::from(out.into_inner())).expect("an image")
}

/// Returns the directory of the error page for a missing path.
fn page(image: &Image, path: &str) -> Option<String> {
    match image.fallback(path.as_bytes()).unwrap() {
        Fallback::NotFoundPage(page) => {
            let Content::Image(place) = page.identity.content else { panic!("not in the image") };
            Some(String::from_utf8(image.bytes(place).to_vec()).expect("ASCII"))
        }
        Fallback::AppShell(_) => panic!("the site is no single-page application"),
        Fallback::StatusPage => None,
    }
}

/// Returns the same by checking each directory above.
fn naive(dirs: &BTreeSet<String>, path: &str) -> Option<String> {
    let ends = path.match_indices('/').map(|(at, _)| at + 1).rev();
    ends.map(|end| path[1..end].to_owned()).find(|dir| dirs.contains(dir))
}
