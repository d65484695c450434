//! Measures packing a site of many small files, and finding a path in its image.
//!
//! `cargo bench -p tarpon-pack --bench find`. Under `cargo test` the bench runs once on a small site, as a check.

use bytes::Bytes;
use std::hint::black_box;
use std::time::{Duration, Instant};
use std::{fs, io::Cursor};
use tarpon_pack::{BuildCache, PackOptions, pack_dir};
use tarpon_site::{Entry, Image, Variants, format};

fn main() {
    let measured = std::env::args().any(|arg| arg == "--bench");
    let (file_count, rounds) = if measured { (3_000, 20_000_000) } else { (30, 1_000) };

    let dir = tempfile::tempdir().expect("a directory");
    for number in 0..file_count {
        let section = dir.path().join(format!("section{}", number % 60));
        fs::create_dir_all(&section).expect("a directory");
        fs::write(section.join(format!("page{number}.html")), "tarpon ".repeat(number * 7919 % 3_000))
            .expect("a file");
    }

    let begin = Instant::now();
    let mut out = Cursor::new(Vec::new());
    let packed =
        pack_dir(dir.path(), &mut out, &PackOptions::new(0), &mut BuildCache::default()).expect("packs");
    let elapsed = begin.elapsed();
    println!("pack: {} files, {} bytes in {elapsed:.1?}", packed.summary.files, packed.summary.bytes);

    let image = Image::new(Bytes::from(out.into_inner())).expect("an image");
    let paths: Vec<&[u8]> = image.entries().map(|(path, _)| path).collect();
    assert_eq!(paths.len(), file_count);
    for path_count in [1, 16, paths.len()] {
        let paths = &paths[..path_count];
        let hash = each(paths, rounds, |path| {
            black_box(format::hash(path));
        });
        let find = each(paths, rounds, |path| {
            let Some(Entry::File(Variants { identity: variant, .. })) = image.find(path).unwrap() else {
                panic!("not found")
            };
            black_box(variant.fields().text.at + variant.fields().text.len);
        });
        let ns = |elapsed: Duration| elapsed.as_nanos() as f64 / rounds as f64;
        println!("find: {:.1} ns for {path_count} paths, {:.1} of it for the hash", ns(find), ns(hash));
    }
}

/// Calls `operation` with path after path, `rounds` times in all. Returns the time.
fn each(paths: &[&[u8]], rounds: usize, mut operation: impl FnMut(&[u8])) -> Duration {
    let begin = Instant::now();
    for path in paths.iter().cycle().take(rounds) {
        operation(black_box(path));
    }
    begin.elapsed()
}
