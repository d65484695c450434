//! A client connection, driven by operations: input, partial reads and writes, time, a stop, a reload that retains earlier images.
//! `Sim` checks the invariants after every operation. This target also checks that the responses do not depend on how the input is
//! split, and that the connection closes and releases everything.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::{arbitrary, arbitrary::Arbitrary, fuzz_target};
use std::{fs, io::Cursor, sync::LazyLock};
use tarpon_conn::{
    Close, Hosts, Limits, SiteId, Sites,
    sim::{Cuts, Sim},
};
use tarpon_pack::{BuildCache, PackOptions, pack_dir};
use tarpon_site::Image;

fuzz_target!(|ops: Vec<FuzzOp<'_>>| {
    let whole: Vec<u8> = ops.iter().flat_map(|op| op.bytes()).copied().collect();
    for sim in [sim, sim_with_sites, sim_with_earlier] {
        splits_change_nothing(sim, &whole, &ops);
        perform_and_close(sim(), &ops);
    }
});

#[derive(Arbitrary, Debug)]
enum FuzzOp<'a> {
    /// The client sends these bytes.
    Bytes(&'a [u8]),
    /// The client sends a valid request from a list.
    Request(u8),
    /// One step of the engine, with at most so many bytes.
    Step { read: u8, send: u8 },
    /// Steps until the connection makes no progress.
    Run { read: u8, send: u8 },
    /// Time passes.
    Pass { ms: u16 },
    /// A reload serves the other image and retains up to [`EARLIER_COUNT_MAX`] earlier ones.
    Reload,
    /// The server stops.
    Stop,
    /// The client closes its sending side.
    End,
}

impl<'a> FuzzOp<'a> {
    fn bytes(&self) -> &'a [u8] {
        match self {
            FuzzOp::Bytes(bytes) => bytes,
            FuzzOp::Request(number) => REQUESTS[*number as usize % REQUESTS.len()],
            _ => b"",
        }
    }
}

const REQUESTS: [&[u8]; 19] = [
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /dir?q HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /large HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    b"HEAD /none HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
    b"GET /large HTTP/1.1\r\nHost: a\r\nRange: bytes=-7\r\n\r\n",
    b"GET /large HTTP/1.1\r\nHost: a\r\nRange: bytes=0-99,500-\r\n\r\n",
    b"GET /large HTTP/1.1\r\nHost: a\r\nRange: bytes=9-9,7-7,5-5,3-3,1-1,-1\r\n\r\n",
    b"GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\nRange: bytes=9-9,7-7,5-5,3-3,1-1,-1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nRange: bytes=5-\r\n\r\n",
    b"GET /dir?q HTTP/1.1\r\nHost: c.b:80\r\n\r\n",
    b"GET http://x.c.b/dir?q HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /|?q HTTP/1.1\r\nHost: WWW.b.:8080\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: nobody\r\nContent-Length: 2\r\n\r\nab",
    b"GET /app-B4qfzvDp.js HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET http://a/app-B4qfzvDp.css HTTP/1.1\r\nHost: a\r\nRange: bytes=9-9,7-7,5-\r\n\r\n",
    b"HEAD /app-B4qfzvDp.css?q HTTP/1.1\r\nHost: a\r\nConnection: close\r\nIf-None-Match: *\r\n\r\n",
    b"POST /app-B4qfzvDp.js HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab",
];

/// Checks that the same input, at once or split as the operations say, gets the same responses.
fn splits_change_nothing(sim: fn() -> Sim, whole: &[u8], ops: &[FuzzOp<'_>]) {
    let mut at_once = sim();
    at_once.client_sends(whole);
    at_once.run(Cuts::NONE);
    let mut cut = sim();
    cut.client_sends(whole);
    for op in ops {
        if let FuzzOp::Step { read, send } | FuzzOp::Run { read, send } = *op {
            cut.step(cuts(read, send));
        }
    }
    cut.run(Cuts::NONE);
    assert!(at_once.wire == cut.wire, "{}\n{}", at_once.wire.escape_ascii(), cut.wire.escape_ascii());
}

/// Performs all operations. Then checks that nothing is left after the client has closed.
fn perform_and_close(mut sim: Sim, ops: &[FuzzOp<'_>]) {
    for op in ops {
        match *op {
            FuzzOp::Bytes(_) | FuzzOp::Request(_) => sim.client_sends(op.bytes()),
            FuzzOp::Step { read, send } => {
                sim.step(cuts(read, send));
            }
            FuzzOp::Run { read, send } => sim.run(cuts(read, send)),
            FuzzOp::Pass { ms } => sim.pass(ms.into()),
            FuzzOp::Reload => {
                reload(&mut sim);
                sim.sites.retire().for_each(drop);
            }
            FuzzOp::Stop => sim.stop(),
            FuzzOp::End => sim.client_ends(),
        }
    }
    sim.client_ends();
    sim.run(Cuts::NONE);
    assert_eq!(sim.close(), Close::Both);
    assert_eq!((sim.bufs_held(), sim.sites.holder_count()), (0, 0));
}

/// Reloads: serves the image that is not current.
fn reload(sim: &mut Sim) {
    let (before, image) = sim.sites.current(SiteId::FIRST);
    let other = if image.len() == IMAGE.len() { &NEXT } else { &IMAGE };
    let mut earlier = vec![before];
    earlier.extend(sim.sites.earlier(SiteId::FIRST));
    earlier.truncate(EARLIER_COUNT_MAX);
    let id = sim.sites.add(Image::clone(other));
    sim.sites.serve(SiteId::FIRST, id, earlier);
}

/// The maximum number of earlier images.
const EARLIER_COUNT_MAX: usize = 2;

/// Limits reads to at least one byte. A limit of 0 for sends means a client that does not read.
fn cuts(read: u8, send: u8) -> Cuts {
    Cuts { read: read as usize + 1, send: send as usize }
}

fn sim() -> Sim {
    let mut sim = Sim::new(IMAGE.clone());
    sim.files = vec![vec![b'l'; LARGE_LEN]; 2];
    sim
}

/// Creates a server with several sites, without a default site, and with a redirect host.
fn sim_with_sites() -> Sim {
    let [first, second] = [0, 1].map(SiteId::new);
    let mut hosts = Hosts::new(None);
    for (name, site) in [("a", first), ("*.b", second), ("b", second)] {
        hosts.add(name.parse().expect("a name"), site).expect("a name of its own");
    }
    hosts.add_redirect_host("www.b".parse().expect("a name"), second).expect("a site with the name b");
    let images = [IMAGE.clone(), IMAGE.clone()].map(|image| (image, Limits::default()));
    let mut sim = Sim::with_sites(Sites::by_host(images, hosts.into()));
    sim.files = vec![vec![b'l'; LARGE_LEN]; 2];
    sim
}

/// Creates a site with an asset that exists only in an earlier image.
fn sim_with_earlier() -> Sim {
    let mut sim = sim();
    reload(&mut sim);
    sim
}

/// The length of a file whose content is stored beside the image.
const LARGE_LEN: usize = 2_000;

static IMAGE: LazyLock<Image> = LazyLock::new(|| {
    let site = [("index.html", 5), ("dir/index.html", 300), ("app-B4qfzvDp.css", LARGE_LEN)];
    image(&[&site[..], &[("app-B4qfzvDp.js", 50), ("large", LARGE_LEN)]].concat())
});

/// The image after a reload, without the files whose names contain a hash.
static NEXT: LazyLock<Image> =
    LazyLock::new(|| image(&[("index.html", 5), ("dir/index.html", 300), ("large", LARGE_LEN)]));

fn image(files: &[(&str, usize)]) -> Image {
    let dir = std::env::temp_dir().join(format!("tarpon-fuzz-{}", std::process::id()));
    fs::create_dir_all(dir.join("dir")).expect("a directory for the site");
    for &(name, len) in files {
        fs::write(dir.join(name), vec![b'l'; len]).expect("a file of the site");
    }
    let mut out = Cursor::new(Vec::new());
    let options = PackOptions { file_len_min: 1_000, ..PackOptions::new(0) };
    pack_dir(&dir, &mut out, &options, &mut BuildCache::default()).expect("an image");
    fs::remove_dir_all(&dir).expect("the site is no longer needed");
    Image::new(Bytes::from(out.into_inner())).expect("an image in order")
}
