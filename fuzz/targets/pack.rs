//! Packing: any packed archive is valid, and packing it again gives the same bytes.

#![no_main]

use libfuzzer_sys::{arbitrary, arbitrary::Arbitrary, fuzz_target};
use std::{
    fs::{self, File},
    num::NonZeroUsize,
    path::{Path, PathBuf},
};
use tar::{Builder, EntryType, Header};
use tarpon_pack::{
    CompressionEffort, Dialect, Dictionaries, PackInput, Policy, Progress, SiteOptions, pack_site, verify,
};

/// A member of the archive to pack.
#[derive(Arbitrary, Debug)]
struct FuzzMember<'a> {
    name: &'a [u8],
    kind: MemberKind<'a>,
    modified_s: u32,
}

#[derive(Arbitrary, Debug)]
enum MemberKind<'a> {
    /// A content and how often it is repeated.
    File(&'a [u8], u8),
    /// This many pseudo-random bytes from this seed.
    Noise(u16, u64),
    Link(&'a [u8]),
    Hard(&'a [u8]),
}

fuzz_target!(|members: Vec<FuzzMember<'_>>| {
    let dir = dir();
    fs::create_dir_all(&dir).expect("a directory");
    let [plain, packed, again] = ["plain.tar", "packed.tar", "again.tar"].map(|name| dir.join(name));
    fs::write(&plain, archive(&members)).expect("an archive");
    if pack(&plain, &packed) {
        let file = File::open(&packed).expect("an archive");
        let verified =
            verify(&file, &packed, &Dictionaries::default(), NonZeroUsize::MIN, &Progress::default())
                .expect("a packed site");
        assert!(verified.defects.is_empty(), "{:?}", verified.defects);
        assert!(pack(&packed, &again), "a packed site can be packed again");
        assert!(fs::read(&packed).expect("an archive") == fs::read(&again).expect("an archive"));
    }
    fs::remove_dir_all(dir).expect("a directory");
});

/// Packs an archive. Returns whether that succeeds.
fn pack(from: &Path, to: &Path) -> bool {
    let file = File::open(from).expect("an archive");
    let input = PackInput::Archive { file: &file, path: from, prefix: Path::new("") };
    let options = SiteOptions {
        effort: CompressionEffort::Fast,
        workers: NonZeroUsize::MIN,
        max_mtime_s: u64::MAX,
        reuse: None,
        dictionaries: &[],
        offer_dictionaries: false,
        program: None,
        programs: None,
        dialect: Dialect::Netlify,
        policy: &Policy::default(),
    };
    pack_site(input, to, &options, &Progress::default()).is_ok()
}

fn archive(members: &[FuzzMember<'_>]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for FuzzMember { name, kind, modified_s } in members.iter().take(16) {
        let mut header = Header::new_ustar();
        let name = path(name);
        header.as_old_mut().name[..name.len()].copy_from_slice(&name);
        header.set_mtime((*modified_s).into());
        header.set_entry_type(EntryType::Regular);
        let content = match kind {
            MemberKind::File(content, count) => content.repeat((*count).into()),
            MemberKind::Noise(len, seed) => noise(*len, *seed),
            MemberKind::Link(to) | MemberKind::Hard(to) => {
                let to = path(to);
                header.as_old_mut().linkname[..to.len()].copy_from_slice(&to);
                let is_hard = matches!(kind, MemberKind::Hard(_));
                header.set_entry_type(if is_hard { EntryType::Link } else { EntryType::Symlink });
                Vec::new()
            }
        };
        header.set_size(content.len() as u64);
        header.set_cksum();
        builder.append(&header, &content[..]).expect("memory");
    }
    builder.into_inner().expect("memory")
}

/// Builds a name from a few words, so that names collide, with all special parts of a path.
fn path(bytes: &[u8]) -> Vec<u8> {
    const WORDS: [&[u8]; 16] = [
        b"a",
        b"b",
        b"/",
        b"/",
        b".",
        b"..",
        b"index.html",
        b".br",
        b".gz",
        b".zst",
        b" ",
        b"\xe9",
        b"\n",
        b"\"",
        b".well-known",
        b".tarpon",
    ];
    let mut name: Vec<_> = bytes.iter().flat_map(|&byte| WORDS[usize::from(byte) % 16]).copied().collect();
    name.truncate(100);
    name
}

fn noise(len: u16, seed: u64) -> Vec<u8> {
    let words = (0..u64::from(len).div_ceil(8))
        .map(|at| (seed ^ at).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29));
    words.flat_map(|word| word.wrapping_mul(word | 1).to_le_bytes()).take(len.into()).collect()
}

/// Returns a directory in memory if there is one, because each archive is synced to disk.
fn dir() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let root = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    root.join(format!("tarpon-fuzz-pack-{}", std::process::id()))
}
