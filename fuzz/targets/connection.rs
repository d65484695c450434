//! A whole connection, driven by operations: bytes, cuts, time, a stop, a swap after which earlier images are kept. `Sim` checks the laws after every fact;
//! here it is checked besides that cuts change nothing, and that the connection ends and lets go of everything.

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

fuzz_target!(|acts: Vec<Act<'_>>| {
    let whole: Vec<u8> = acts.iter().flat_map(|act| act.bytes()).copied().collect();
    for sim in [sim, sim_of_several, sim_with_earlier] {
        cuts_change_nothing(sim, &whole, &acts);
        anything_may_happen(sim(), &acts);
    }
});

#[derive(Arbitrary, Debug)]
enum Act<'a> {
    /// The client sends.
    Bytes(&'a [u8]),
    /// The client sends something that is understood.
    Request(u8),
    /// One step, at most so many bytes.
    Step { read: u8, send: u8 },
    /// Steps until nothing happens.
    Run { read: u8, send: u8 },
    /// Time passes.
    Pass { ms: u16 },
    /// The other image. Those before are kept, as far as [`EARLIER_COUNT_MAX`] goes.
    Swap,
    /// The server stops.
    Stop,
    /// The client closes its sending side.
    End,
}

impl<'a> Act<'a> {
    fn bytes(&self) -> &'a [u8] {
        match self {
            Act::Bytes(bytes) => bytes,
            Act::Request(number) => REQUESTS[*number as usize % REQUESTS.len()],
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

/// The same bytes, all at once and cut as the acts say, get the same answer.
fn cuts_change_nothing(sim: fn() -> Sim, whole: &[u8], acts: &[Act<'_>]) {
    let mut at_once = sim();
    at_once.client_sends(whole);
    at_once.run(Cuts::NONE);
    let mut cut = sim();
    cut.client_sends(whole);
    for act in acts {
        if let Act::Step { read, send } | Act::Run { read, send } = *act {
            cut.step(cuts(read, send));
        }
    }
    cut.run(Cuts::NONE);
    assert!(at_once.wire == cut.wire, "{}\n{}", at_once.wire.escape_ascii(), cut.wire.escape_ascii());
}

/// Whatever happens, the laws hold; and when the client is gone, nothing is left.
fn anything_may_happen(mut sim: Sim, acts: &[Act<'_>]) {
    for act in acts {
        match *act {
            Act::Bytes(_) | Act::Request(_) => sim.client_sends(act.bytes()),
            Act::Step { read, send } => {
                sim.step(cuts(read, send));
            }
            Act::Run { read, send } => sim.run(cuts(read, send)),
            Act::Pass { ms } => sim.pass(ms.into()),
            Act::Swap => {
                swap(&mut sim);
                sim.sites.retire().for_each(drop);
            }
            Act::Stop => sim.stop(),
            Act::End => sim.client_ends(),
        }
    }
    sim.client_ends();
    sim.run(Cuts::NONE);
    assert_eq!(sim.close(), Close::Both);
    assert_eq!((sim.bufs_held(), sim.sites.holders()), (0, 0));
}

/// Serves the image that is not served.
fn swap(sim: &mut Sim) {
    let (before, image) = sim.sites.current(SiteId::FIRST);
    let other = if image.len() == IMAGE.len() { &NEXT } else { &IMAGE };
    let mut earlier = vec![before];
    earlier.extend(sim.sites.earlier(SiteId::FIRST));
    earlier.truncate(EARLIER_COUNT_MAX);
    let id = sim.sites.add(Image::clone(other));
    sim.sites.serve(SiteId::FIRST, id, earlier);
}

/// Earlier images that are kept.
const EARLIER_COUNT_MAX: usize = 2;

/// At least a byte is read; 0 bytes sent means a client that takes nothing.
fn cuts(read: u8, send: u8) -> Cuts {
    Cuts { read: read as usize + 1, send: send as usize }
}

fn sim() -> Sim {
    let mut sim = Sim::new(IMAGE.clone());
    sim.files = vec![vec![b'l'; LARGE_LEN]; 2];
    sim
}

/// Several sites, none of which is meant by a name nobody knows, and an alias.
fn sim_of_several() -> Sim {
    let [first, second] = [0, 1].map(SiteId::new);
    let mut hosts = Hosts::new(None);
    for (name, site) in [("a", first), ("*.b", second), ("b", second)] {
        hosts.add(name.parse().expect("a name"), site).expect("a name of its own");
    }
    hosts.add_alias("www.b".parse().expect("a name"), second).expect("it leads to b");
    let images = [IMAGE.clone(), IMAGE.clone()].map(|image| (image, Limits::default()));
    let mut sim = Sim::by_host(Sites::by_host(images, hosts.into()));
    sim.files = vec![vec![b'l'; LARGE_LEN]; 2];
    sim
}

/// A site of which an earlier image, and it alone, has what pages of that time ask for.
fn sim_with_earlier() -> Sim {
    let mut sim = sim();
    swap(&mut sim);
    sim
}

/// A file of this length, in bytes, stays beside the image.
const LARGE_LEN: usize = 2_000;

static IMAGE: LazyLock<Image> = LazyLock::new(|| {
    let site = [("index.html", 5), ("dir/index.html", 300), ("app-B4qfzvDp.css", LARGE_LEN)];
    image(&[&site[..], &[("app-B4qfzvDp.js", 50), ("large", LARGE_LEN)]].concat())
});

/// What replaces it: without the files that are named for their content.
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
