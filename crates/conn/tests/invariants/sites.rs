//! Sites to ask, and the connections that do.

use bytes::Bytes;
use std::{
    fs,
    io::{Cursor, Write},
    sync::{Arc, LazyLock},
};
use tarpon_conn::{Hosts, Limits, SiteId, Sites, sim::Sim};
use tarpon_pack::{BuildCache, PackOptions, pack_dir, pack_tar};
use tarpon_site::{Image, ResidentPages};

/// The file beside the image is this long.
pub(crate) const LARGE_LEN: usize = 100_000;

/// A site with a small, a middle, an empty and a large file, and a directory.
pub(crate) static IMAGE: LazyLock<Image> = LazyLock::new(|| site("hello"));
pub(crate) static OTHER: LazyLock<Image> = LazyLock::new(|| site_of(&[("/index.html", b"the other one")]));

pub(crate) fn site(greeting: &str) -> Image {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &[u8]| fs::write(dir.path().join(name), content).unwrap();
    fs::create_dir(dir.path().join("dir")).unwrap();
    write("index.html", greeting.as_bytes());
    write("dir/index.html", b"in here");
    write("small", &distinct_bytes(2_000));
    write("middle", &distinct_bytes(20_000));
    write("empty", b"");
    write("large", &distinct_bytes(LARGE_LEN));
    let mut out = Cursor::new(Vec::new());
    pack_dir(dir.path(), &mut out, &PackOptions::new(784_111_777), &mut BuildCache::default()).unwrap();
    Image::new(Bytes::from(out.into_inner())).unwrap()
}

/// A site of these files, at these paths.
pub(crate) fn site_of(files: &[(&str, &[u8])]) -> Image {
    let dir = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = dir.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).and_then(|()| fs::write(&path, content)).unwrap();
    }
    let mut out = Cursor::new(Vec::new());
    pack_dir(dir.path(), &mut out, &PackOptions::new(784_111_777), &mut BuildCache::default()).unwrap();
    Image::new(Bytes::from(out.into_inner())).unwrap()
}

pub(crate) fn sim() -> Sim {
    let mut sim = Sim::new(IMAGE.clone());
    sim.files = vec![distinct_bytes(LARGE_LEN)];
    sim
}

/// Returns a simulation of two sites: the first has one name, the second has two others and a redirect host.
pub(crate) fn sim_of_several() -> Sim {
    let [first, second] = [0, 1].map(SiteId::new);
    let mut hosts = Hosts::new(None);
    for (name, site) in [("a", first), ("b", second), ("*.b", second)] {
        hosts.add(name.parse().unwrap(), site).unwrap();
    }
    hosts.add_redirect_host("www.b".parse().unwrap(), second).unwrap();
    let images = [IMAGE.clone(), OTHER.clone()].map(|image| (image, Limits::default()));
    let mut sim = Sim::by_host(Sites::by_host(images, hosts.into()));
    sim.files = vec![distinct_bytes(LARGE_LEN)];
    sim
}

pub(crate) fn sim_of(several: bool) -> Sim {
    if several { sim_of_several() } else { sim() }
}

/// The same with images that lie on a disk, of which nothing is in memory yet.
pub(crate) fn sim_on_disk(several: bool) -> Sim {
    let mut sim = sim_of(several);
    let disk = Arc::new(ResidentPages::new(IMAGE.len() + OTHER.len()));
    let watched = |image: &Image, at| image.clone().with_residency(Arc::clone(&disk), at);
    sim.sites.swap(SiteId::new(0), watched(&IMAGE, 0));
    if several {
        sim.sites.swap(SiteId::new(1), watched(&OTHER, IMAGE.len()));
    }
    sim.sites.retire().for_each(drop);
    sim.disk = Some(disk);
    sim
}

/// A site out of an archive, with one file.
pub(crate) fn archived() -> Sim {
    static ARCHIVED: LazyLock<(Image, Vec<u8>)> = LazyLock::new(|| {
        let content = distinct_bytes(800);
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        let mut builder = tar::Builder::new(Vec::new());
        builder.append_data(&mut header, "a", &content[..]).unwrap();
        let archive = builder.into_inner().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&archive).unwrap();
        let mut out = Cursor::new(Vec::new());
        pack_tar(&file, "a.tar".as_ref(), "".as_ref(), &mut out, &PackOptions::new(784_111_777)).unwrap();
        (Image::new(Bytes::from(out.into_inner())).unwrap(), archive)
    });
    let mut sim = Sim::new(ARCHIVED.0.clone());
    sim.archive.clone_from(&ARCHIVED.1);
    sim
}

/// Bytes of which no stretch looks like the one beside it.
pub(crate) fn distinct_bytes(len: usize) -> Vec<u8> {
    (0..len as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}
