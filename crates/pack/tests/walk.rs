//! A directory that changes while the packer walks it, and links that multiply entries.

use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs;
use std::io::Cursor;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use tarpon_pack::{BuildCache, PackError, PackOptions, pack_dir};

#[test]
fn directory_exchanged_for_a_link_leaks_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name);
    // The same names inside and outside, at two depths. Each directory on the path is exchanged.
    for (top, text) in [("site/docs", "public"), ("outside", SECRET)] {
        fs::create_dir_all(at(top).join("deep")).expect("directories");
        for name in ["a.html", "b.html", "deep/c.html", "deep/d.html"] {
            fs::write(at(top).join(name), text).expect("a file");
        }
    }
    symlink(at("outside"), at("link")).expect("a link");
    symlink(at("outside/deep"), at("link-deep")).expect("a link");
    let pairs = [(at("site/docs"), at("link")), (at("site/docs/deep"), at("link-deep"))];
    let (is_over, exchanged) = (AtomicBool::new(false), AtomicUsize::new(0));
    let leaked = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                for (one, other) in [&pairs[0], &pairs[0], &pairs[1], &pairs[1]] {
                    // While the upper directory is exchanged, the lower path does not exist.
                    if renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).is_ok() {
                        exchanged.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        });
        let pack = || {
            let mut out = Cursor::new(Vec::new());
            let packed = pack_dir(&at("site"), &mut out, &PackOptions::new(NOW), &mut BuildCache::default());
            packed.is_err() || contains(out.get_ref(), SECRET)
        };
        // Ends when both threads have run often enough, on any number of cores.
        let leaked = (0..)
            .map(|_| pack())
            .zip(1..)
            .find(|&(leaked, count)| leaked || count >= 400 && exchanged.load(Ordering::Relaxed) >= 4_000);
        is_over.store(true, Ordering::Relaxed);
        leaked.is_some_and(|(leaked, _)| leaked)
    });
    assert!(!leaked, "an image contains a file from outside, or packing failed");
}

#[test]
fn links_that_multiply_entries_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let level = |number: usize| dir.path().join(format!("d{number:02}"));
    // Sixteen levels of two links each: 49 entries, 65,536 paths.
    for number in 0..16 {
        fs::create_dir(level(number)).expect("a directory");
        for name in ["a", "b"] {
            symlink(format!("../d{:02}", number + 1), level(number).join(name)).expect("a link");
        }
    }
    fs::create_dir(level(16)).expect("a directory");
    fs::write(level(16).join("x"), "x").expect("a file");
    let mut out = Cursor::new(Vec::new());
    let refused = pack_dir(dir.path(), &mut out, &PackOptions::new(NOW), &mut BuildCache::default())
        .expect_err("too many");
    assert!(matches!(refused, PackError::Repeats { .. }), "{refused}");
    assert!(refused.to_string().contains("remove links to directories"), "{refused}");
}

#[test]
fn tree_with_many_names_is_served_at_each_of_them() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::create_dir(dir.path().join("v3")).expect("a directory");
    for number in 0..300 {
        fs::write(dir.path().join(format!("v3/{number}")), "x").expect("a file");
    }
    for number in 0..100 {
        symlink("v3", dir.path().join(format!("name{number}"))).expect("a link");
    }
    let mut out = Cursor::new(Vec::new());
    let packed =
        pack_dir(dir.path(), &mut out, &PackOptions::new(NOW), &mut BuildCache::default()).expect("packs");
    assert_eq!(packed.summary.files, 101 * 300);
}

fn contains(image: &[u8], text: &str) -> bool {
    image.windows(text.len()).any(|window| window == text.as_bytes())
}

const SECRET: &str = "confidential";
const NOW: u64 = 1_700_000_000;
