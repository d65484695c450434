//! The sites of these tests, and simulations of connections to them.

use bytes::Bytes;
use std::{
    fs,
    io::{Cursor, Write},
    sync::{Arc, LazyLock},
};
use tarpon_conn::{
    Hosts, Limits, SiteId, Sites,
    sim::{Cuts, Sim, Through},
};
use tarpon_pack::{BuildCache, PackOptions, Progress, pack_dir, pack_tar};
use tarpon_site::{Image, ResidentPages};

/// The length of the file beside the image.
pub(crate) const LARGE_LEN: usize = 100_000;

/// A site with a small, a medium, an empty and a large file, and a directory.
pub(crate) static IMAGE: LazyLock<Image> = LazyLock::new(|| site("hello"));
pub(crate) static OTHER: LazyLock<Image> = LazyLock::new(|| site_of(&[("/index.html", b"the other one")]));

/// Returns the image of the same site with another start page.
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

/// Returns the image of a site with these files, given with their paths.
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
    let mut sim = Sim::with_sites(Sites::by_host(images, hosts.into()));
    sim.files = vec![distinct_bytes(LARGE_LEN)];
    sim
}

/// No transport in between, and sealing ones with small and with the largest records.
pub(crate) fn throughs() -> [Through; 3] {
    [Through::Plain, Through::Scrambled { seed: 1, record_lens: 1..=100 }, Through::LARGEST]
}

/// Puts a transport into a simulation, and completes its handshake.
pub(crate) fn established(sim: Sim, through: &Through) -> Sim {
    let mut sim = sim.through(through);
    sim.run(Cuts::NONE);
    sim
}

pub(crate) fn sim_of(several: bool) -> Sim {
    if several { sim_of_several() } else { sim() }
}

/// Returns a simulation whose images lie on disk. No page of them is in memory.
pub(crate) fn sim_on_disk(several: bool) -> Sim {
    let mut sim = sim_of(several);
    let resident = Arc::new(ResidentPages::new(IMAGE.len() + OTHER.len()));
    let on_disk = |image: &Image, at| image.clone().with_residency(Arc::clone(&resident), at);
    sim.sites.swap(SiteId::new(0), on_disk(&IMAGE, 0));
    if several {
        sim.sites.swap(SiteId::new(1), on_disk(&OTHER, IMAGE.len()));
    }
    sim.sites.retire().for_each(drop);
    sim.resident_pages = Some(resident);
    sim
}

/// Returns a simulation of a site from an archive, with one file.
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
        pack_tar(
            &file,
            "a.tar".as_ref(),
            "".as_ref(),
            &mut out,
            &PackOptions::new(784_111_777),
            &mut BuildCache::default(),
            &Progress::default(),
        )
        .unwrap();
        (Image::new(Bytes::from(out.into_inner())).unwrap(), archive)
    });
    let mut sim = Sim::new(ARCHIVED.0.clone());
    sim.archive.clone_from(&ARCHIVED.1);
    sim
}

/// Returns bytes in which neighboring ranges differ, so that a wrong offset is noticed.
pub(crate) fn distinct_bytes(len: usize) -> Vec<u8> {
    (0..len as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}
