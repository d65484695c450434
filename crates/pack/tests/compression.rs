//! Compressing the contents of a site while it is served: each pack has the variants that are known, and asks for those that are missing.

use bytes::Bytes;
use std::{
    fs::{self, File},
    io::{Read, Seek, Write},
    path::Path,
};
use tarpon_pack::{
    BackgroundCompression, BuildCache, CompressionEffort, JobFiles, PackOptions, VariantCache, pack_dir,
};
use tarpon_site::{Coding, Content, Entry, Image, Variant};
use tempfile::TempDir;

const CODED: [Coding; 3] = [Coding::Br, Coding::Gzip, Coding::Zstd];

/// A directory, and what a server keeps of it.
struct CompressedSite {
    dir: TempDir,
    cache: BuildCache,
    options: PackOptions,
    /// The hash of the content of the last pack.
    content_id: u128,
}

impl CompressedSite {
    fn new(memory_max: u64) -> CompressedSite {
        let compression = BackgroundCompression { effort: CompressionEffort::Fast, memory_max };
        let options = PackOptions { compression: Some(compression), ..PackOptions::new(1_900_000_000) };
        let (dir, cache) = (tempfile::tempdir().expect("a directory"), BuildCache::default());
        CompressedSite { dir, cache, options, content_id: 0 }
    }

    fn write(&self, name: &str, content: &[u8]) {
        fs::write(self.dir.path().join(name), content).expect(name);
    }

    /// Packs the directory. Returns the image, and the file that holds it.
    fn pack(&mut self) -> (Image, File) {
        let mut file = tempfile::tempfile().expect("a file");
        let packed = pack_dir(self.dir.path(), &mut file, &self.options, &mut self.cache).expect("a site");
        self.content_id = packed.content_id;
        let mut bytes = Vec::new();
        file.rewind().and_then(|()| file.read_to_end(&mut bytes)).expect("the image");
        let image = Image::new(Bytes::from(bytes)).expect("an image");
        self.cache.variants.follow(file.try_clone().expect("a descriptor"), &image);
        (image, file)
    }

    /// Packs the directory, does all jobs, and packs again. Returns the image, and the lengths of the contents of the jobs.
    fn compress(&mut self) -> (Image, usize) {
        let (_, image) = self.pack();
        let files = JobFiles { image, archive: None };
        let jobs = self.cache.variants.take_jobs();
        for job in &jobs {
            let made = job.run(&files, CompressionEffort::Fast).expect("a content");
            self.cache.variants.insert(made, self.options.compression.expect("it is set").memory_max);
        }
        (self.pack().0, jobs.len())
    }
}

/// Returns the codings of the file at a path.
fn codings(image: &Image, path: &str) -> Vec<Coding> {
    let Ok(Some(Entry::File(file))) = image.find(path.as_bytes()) else { panic!("{path} is no file") };
    image.coded_variants(file).map(|(coding, _)| coding).collect()
}

/// Returns a text of some length that differs by `seed`.
fn text(seed: u32, len: usize) -> Vec<u8> {
    let words = (0u32..).flat_map(|at| format!("{} ", at.wrapping_mul(seed) % 5_000).into_bytes());
    words.take(len).collect()
}

/// Returns bytes that no encoder makes shorter.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

#[test]
fn files_that_gain_get_variants_and_a_change_costs_only_what_changed() {
    let mut served = CompressedSite::new(64 << 20);
    served.write("index.html", &text(7, 3_000));
    served.write("large.js", &text(11, 300_000));
    served.write("tiny.txt", b"hello");
    served.write("noise.bin", &noise(100_000));
    served.write("picture.png", &text(13, 5_000));
    let (image, job_count) = served.compress();
    assert_eq!(job_count, 4, "pictures are compressed already");
    for (path, want) in [
        ("/", &CODED[..]),
        ("/large.js", &CODED),
        ("/tiny.txt", &[]),
        ("/noise.bin", &[]),
        ("/picture.png", &[]),
    ] {
        assert_eq!(codings(&image, path), want, "{path}");
    }
    let content_id = served.content_id;
    assert_eq!(served.compress().1, 0, "all is known");
    assert_eq!(served.content_id, content_id, "variants are no content");
    // A change, and the same content under another name.
    served.write("index.html", &text(17, 3_000));
    fs::rename(served.dir.path().join("large.js"), served.dir.path().join("renamed.js")).expect("renamed");
    let (image, _) = served.pack();
    assert_eq!(served.cache.variants.take_jobs().len(), 1, "only the changed file");
    assert_eq!((codings(&image, "/"), codings(&image, "/renamed.js")), (vec![], CODED.to_vec()));
    assert_ne!(served.content_id, content_id);
}

#[test]
fn variants_decode_to_their_files() {
    let mut served = CompressedSite::new(64 << 20);
    let contents = [("small.css", text(7, 2_000)), ("large.svg", text(11, 200_000))];
    contents.iter().for_each(|(name, content)| served.write(name, content));
    let (image, _) = served.compress();
    for (name, content) in contents {
        let Ok(Some(Entry::File(file))) = image.find(format!("/{name}").as_bytes()) else { panic!("{name}") };
        for (coding, variant) in image.coded_variants(file) {
            let Content::Image(place) = variant.content else { panic!("{name}: not in the image") };
            let coded = image.bytes(place);
            let mut plain = Vec::new();
            match coding {
                Coding::Gzip => drop(flate2::read::GzDecoder::new(coded).read_to_end(&mut plain)),
                Coding::Br => drop(brotli::Decompressor::new(coded, 4096).read_to_end(&mut plain)),
                _ => drop(zstd::stream::copy_decode(coded, &mut plain)),
            }
            assert!(plain == content, "{name}, {}", coding.name());
        }
    }
}

#[test]
fn precompressed_file_that_is_removed_takes_its_variant_along() {
    let mut site = CompressedSite::new(64 << 20);
    site.write("index.html", &text(7, 3_000));
    // Of another content, as its author has noticed.
    site.write("index.html.br", b"of another page");
    let (image, _) = site.compress();
    let br = |image: &Image| {
        let Ok(Some(Entry::File(file))) = image.find(b"/") else { panic!("no page") };
        let variant = image.coded_variants(file).find(|(coding, _)| *coding == Coding::Br);
        let Some((_, Variant { content: Content::Image(place), .. })) = variant else { panic!("no br") };
        image.bytes(place).to_owned()
    };
    assert_eq!(br(&image), b"of another page");
    fs::remove_file(site.dir.path().join("index.html.br")).expect("removed");
    let (image, job_count) = site.compress();
    assert_eq!(job_count, 1);
    assert_ne!(br(&image), b"of another page");
}

#[test]
fn another_process_continues_with_the_variants_of_an_image() {
    let mut served = CompressedSite::new(64 << 20);
    served.write("index.html", &text(7, 3_000));
    served.compress();
    let (image, file) = served.pack();
    served.cache = BuildCache::default();
    served.cache.variants = VariantCache::of_image(file, &image);
    assert_eq!(served.compress().1, 0);
}

#[test]
fn without_room_for_all_the_largest_gains_stay() {
    let texts = [("a.txt", 40_000), ("b.txt", 60_000), ("c.txt", 20_000)];
    let mut served = CompressedSite::new(1 << 40);
    texts.iter().for_each(|&(name, len)| served.write(name, &text(len as u32, len)));
    let all: u64 = lens(&served.compress().0);
    // Contents of up to an eighth of the memory are compressed, so the texts are short beside it.
    served.options.compression.as_mut().expect("it is set").memory_max = all - 1;
    served.cache.variants.insert(Vec::new(), all - 1);
    let (image, _) = served.pack();
    assert!(lens(&image) < all);
    assert_eq!(codings(&image, "/b.txt").len(), 3, "the longest gains most");
    assert!(codings(&image, "/c.txt").len() < 3, "the shortest gains least");
    assert_eq!(served.cache.variants.take_jobs().len(), 0, "what has no room is not tried again");
    // With the longest file gone there is room.
    fs::remove_file(served.dir.path().join("b.txt")).expect("removed");
    served.options.compression.as_mut().expect("it is set").memory_max = 1 << 40;
    served.pack();
    served.compress();
    assert_eq!(codings(&served.pack().0, "/c.txt").len(), 3);
}

/// Returns the length of all variants of an image.
fn lens(image: &Image) -> u64 {
    let files = image.entries().filter_map(|(_, entry)| match entry {
        Entry::File(file) => {
            Some(image.coded_variants(file).map(|(_, variant)| variant.content.len()).sum::<u64>())
        }
        _ => None,
    });
    files.sum()
}

#[test]
fn jobs_hold_few_files_open_and_the_next_packs_have_the_others() {
    let mut served = CompressedSite::new(64 << 20);
    served.options.file_count_max = 8;
    for number in 0..5 {
        served.write(&format!("{number}.txt"), &text(number, 100_000));
    }
    let mut job_counts = Vec::new();
    loop {
        served.pack();
        let has_more = served.cache.variants.has_more_jobs();
        let (image, job_count) = served.compress();
        job_counts.push(job_count);
        if !has_more {
            assert!((0..5).all(|number| codings(&image, &format!("/{number}.txt")).len() == 3));
            break;
        }
    }
    assert_eq!(job_counts, [2, 2, 1]);
}

#[test]
fn content_that_has_changed_since_the_build_is_left_as_it_is() {
    let mut served = CompressedSite::new(64 << 20);
    served.write("large.txt", &text(7, 100_000));
    let (_, image) = served.pack();
    let [job] = &served.cache.variants.take_jobs()[..] else { panic!("one job") };
    let mut file = File::options().write(true).open(served.dir.path().join("large.txt")).expect("the file");
    file.write_all(b"other").expect("written");
    let made = job.run(&JobFiles { image, archive: None }, CompressionEffort::Fast).expect("it can be read");
    assert!(made.is_empty(), "{made:?}");
}

#[test]
fn contents_known_by_identity_are_compressed_as_long_as_the_file_is_the_same() {
    let mut served = CompressedSite::new(64 << 20);
    served.options.read_len_max = 1;
    let path = served.dir.path().join("large.txt");
    served.write("large.txt", &text(7, 100_000));
    served.write("other.txt", &text(11, 90_000));
    // Long after the files were written, as the options have it, so that their times tell versions apart.
    let (_, image) = served.pack();
    let files = JobFiles { image, archive: None };
    let jobs = served.cache.variants.take_jobs();
    File::options()
        .append(true)
        .open(Path::new(&path))
        .expect("the file")
        .set_modified(std::time::UNIX_EPOCH)
        .expect("a time");
    let made: Vec<_> =
        jobs.iter().map(|job| job.run(&files, CompressionEffort::Fast).expect("read").len()).collect();
    assert_eq!(made, [0, 3], "the first has another time");
}

#[test]
fn without_the_option_nothing_is_asked_for() {
    let mut served = CompressedSite::new(1);
    served.options.compression = None;
    served.write("index.html", &text(7, 3_000));
    let (image, _) = served.pack();
    assert_eq!((codings(&image, "/"), served.cache.variants.take_jobs().len()), (vec![], 0));
}
