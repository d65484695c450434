//! A packed site: what tar programs make of it, and what is served out of it.

use bytes::Bytes;
use std::fs::{self, File};
use std::io::Read;
use std::num::NonZeroUsize;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};
use tarpon_pack::{Effort, Input, Progress, Report, SiteOptions, pack_site};
use tarpon_site::packed::image_in;
use tarpon_site::{Coding, Content, Entry, Image, Variant};
use tempfile::TempDir;

#[test]
fn every_file_is_served_with_the_variants_that_are_worth_it() {
    let site = Site::new();
    let (report, archive) = site.pack("site.tar", Effort::Fast);
    let packed = Packed::new(&archive);
    for (path, content) in files() {
        let Some(Entry::File(file)) = packed.image.find(format!("/{path}").as_bytes()) else {
            panic!("{path} is not there")
        };
        assert!(packed.content(&file.identity) == content, "{path}");
        let coded: Vec<_> = packed.image.coded(file).collect();
        let is_text = ["index.html", "guide/index.html", "large.css", "copy.css"].contains(&path);
        assert_eq!(coded.len(), if is_text { 3 } else { 0 }, "{path}");
        for (coding, variant) in coded {
            let name = format!("{path}, {coding:?}");
            let coded = packed.content(&variant);
            assert!(coded.len() < content.len(), "{name}");
            assert!(decoded(coding, &coded) == content, "{name}");
        }
    }
    assert!(matches!(packed.image.find(b"/guide"), Some(Entry::Redirect(_))));
    assert!(packed.image.find(b"/").is_some() && packed.image.find(b"/guide/").is_some());
    assert_eq!(packed.image.find(b"/.secret"), None);
    assert_eq!(report.files, files().len() as u64 + 1, "{report:?}");
    assert_eq!(report.len, packed.bytes.len() as u64);
}

#[test]
fn large_contents_lie_on_pages_and_each_of_them_once() {
    let site = Site::new();
    let (_, archive) = site.pack("site.tar", Effort::Fast);
    let packed = Packed::new(&archive);
    let place = |path: &str| {
        let Some(Entry::File(file)) = packed.image.find(path.as_bytes()) else { panic!("{path}") };
        let variants = packed.image.coded(file).map(|(_, variant)| variant).chain([file.identity]);
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
                Content::File { .. } => panic!("{path}: no file lies beside"),
            }
        }
    }
    assert_eq!(large_count, 5, "the style sheet in four forms, and the picture");
    assert_eq!(place("/large.css"), place("/copy.css"));
}

#[test]
fn any_tar_program_gives_the_site_back() {
    let site = Site::new();
    let (_, archive) = site.pack("site.tar", Effort::Fast);
    let tarfile = "import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2], filter='data')";
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
fn the_same_site_gives_the_same_bytes() {
    let (one, other) = (Site::new(), Site::new());
    for effort in [Effort::Fast, Effort::Best] {
        let (report, archive) = one.pack("site.tar", effort);
        let again = other.root().join("again.tar");
        let options = SiteOptions { workers: NonZeroUsize::MIN, ..options(effort) };
        let repeated = pack_site(Input::Dir(&other.dir()), &again, &options, &Progress::default());
        assert_eq!(repeated.expect("packs"), report);
        assert!(
            fs::read(&archive).expect("an archive") == fs::read(&again).expect("an archive"),
            "{effort:?}"
        );
    }
}

#[test]
fn an_archive_packed_gives_the_same_bytes_as_its_directory() {
    let site = Site::new();
    let (_, archive) = site.pack("site.tar", Effort::Fast);
    let file = File::open(&archive).expect("an archive");
    let input = Input::Archive { file: &file, path: &archive, prefix: Path::new("") };
    let again = site.root().join("again.tar");
    pack_site(input, &again, &options(Effort::Fast), &Progress::default()).expect("packs");
    assert!(fs::read(&archive).expect("an archive") == fs::read(&again).expect("an archive"));
}

/// A small site of all there is, in a directory of its own.
struct Site(TempDir);

impl Site {
    fn new() -> Site {
        let temp = tempfile::tempdir().expect("a directory");
        let site = Site(temp);
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
        site
    }

    fn root(&self) -> &Path {
        self.0.path()
    }

    /// The site itself; archives lie beside it.
    fn dir(&self) -> PathBuf {
        self.root().join("site")
    }

    fn pack(&self, name: &str, effort: Effort) -> (Report, PathBuf) {
        let archive = self.root().join(name);
        let report = pack_site(Input::Dir(&self.dir()), &archive, &options(effort), &Progress::default());
        (report.expect("packs"), archive)
    }
}

fn options(effort: Effort) -> SiteOptions<'static> {
    let workers = NonZeroUsize::new(3).expect("three");
    SiteOptions { effort, workers, latest_s: 2_000_000_000, reuse: None }
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

/// Text that stays above 16 KiB whatever codes it.
fn large_css() -> Vec<u8> {
    noise(30_000).iter().flat_map(|byte| format!(".c{byte}{{}}\n").into_bytes()).collect()
}

/// Bytes that nothing can compress.
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

/// An archive, as a server has it.
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
            Content::File { .. } => panic!("no file lies beside"),
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
    }
    .expect("coded");
    plain
}

/// The files of a directory with their contents, without what is reserved; sorted.
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

/// When all files were modified.
const MODIFIED_S: u64 = 1_600_000_000;
