//! Tar archives: any bytes are refused, or packed to a valid image whose contents are within the archive.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use std::{
    fs::File,
    io::{Cursor, Seek, Write},
    path::Path,
};
use tarpon_pack::{BuildCache, PackOptions, Progress, pack_tar};
use tarpon_site::{Content, Entry, Image};

fuzz_target!(|input: &[u8]| {
    let mut archive = scratch();
    archive.write_all(input).expect("a file for the archive");
    archive.rewind().expect("its start");
    let mut out = Cursor::new(Vec::new());
    let packed = pack_tar(
        &archive,
        Path::new("site.tar"),
        Path::new(""),
        &mut out,
        &PackOptions::new(0),
        &mut BuildCache::default(),
        &Progress::default(),
    );
    let Ok(packed) = packed else { return };
    assert!(packed.files.is_empty(), "all contents lie in the archive");
    let image = Image::new(Bytes::from(out.into_inner())).expect("a packed image is in order");
    for (path, entry) in image.entries() {
        assert_eq!(path.first(), Some(&b'/'));
        let Entry::File(variants) = entry else { continue };
        if let Content::Archive(place) = variants.identity.content {
            let end = place.at.checked_add(place.len).expect("an end");
            assert!(end <= input.len() as u64, "{place:?} of {}", input.len());
        }
    }
});

/// Creates a file without a name, which the kernel deletes when it is closed.
fn scratch() -> File {
    let path = std::env::temp_dir().join(format!("tarpon-fuzz-{}.tar", std::process::id()));
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&path);
    let file = file.expect("a file for the archive");
    std::fs::remove_file(&path).expect("its name is not needed");
    file
}
