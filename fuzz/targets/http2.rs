//! A client connection of HTTP/2, driven by operations: frames of any kind, raw bytes, partial reads and writes, time, a drain and a stop. `Sim`
//! checks the invariants after every operation. This target also checks that the server sends frames that a client can read, and that the
//! connection closes and releases everything.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::{arbitrary, arbitrary::Arbitrary, fuzz_target};
use std::{fs, io::Cursor, sync::LazyLock};
use tarpon_conn::{
    AcceptedClient, Close, HttpVersions, Limits, Sites,
    sim::{Cuts, Sim},
};
use tarpon_http::h2::{
    FRAME_HEADER_LEN, FrameFlags, FrameHeader, FrameType, PREFACE,
    hpack::{FieldSection, HpackDecoder, SECTION_SIZE_MAX, encode_field},
};
use tarpon_pack::{BuildCache, PackOptions, pack_dir};
use tarpon_site::Image;

fuzz_target!(|ops: Vec<Http2Op<'_>>| {
    let sites = Sites::new(IMAGE.clone(), Limits::default());
    let mut sim =
        Sim::accept(sites, AcceptedClient { versions: HttpVersions::All, ..AcceptedClient::default() });
    sim.files = vec![vec![b'l'; LARGE_LEN]];
    sim.client_sends(PREFACE);
    sim.client_sends(&frame(FrameType::Settings as u8, 0, 0, b""));
    for op in &ops {
        perform(&mut sim, op);
    }
    sim.client_ends();
    sim.run(Cuts::NONE);
    for _ in 0..20 {
        sim.pass(40_000);
        sim.run(Cuts { send: 0, ..Cuts::NONE });
    }
    assert_eq!(sim.close(), Close::Both);
    assert_eq!((sim.bufs_held(), sim.sites.holder_count()), (0, 0));
    read_frames(&sim.wire);
});

#[derive(Arbitrary, Debug)]
enum Http2Op<'a> {
    /// The client sends a frame.
    Frame { kind: u8, flags: u8, stream: u8, payload: &'a [u8] },
    /// The client sends a request of a list.
    Request { stream: u8, path: u8, ends: bool, range: bool },
    /// The client widens a window.
    Widen { stream: u8, by: u16 },
    /// The client sends these bytes.
    Bytes(&'a [u8]),
    /// One step of the engine, with at most so many bytes.
    Step { read: u8, send: u8 },
    /// Steps until the connection makes no progress.
    Run { read: u8, send: u8 },
    /// Time passes.
    Pass { ms: u16 },
    /// Another server takes over.
    Drain,
    /// The server stops.
    Stop,
    /// Other connections need the buffers.
    Evict,
}

fn perform(sim: &mut Sim, op: &Http2Op<'_>) {
    match *op {
        Http2Op::Frame { kind, flags, stream, payload } => {
            sim.client_sends(&frame(kind, flags, stream.into(), payload));
        }
        Http2Op::Request { stream, path, ends, range } => {
            let path = PATHS[path as usize % PATHS.len()];
            let fields = [("range", "bytes=1-2,900-999,-5")];
            let block = block(path, &fields[..usize::from(range)]);
            let flags = FrameFlags::END_HEADERS.0 | u8::from(ends);
            sim.client_sends(&frame(FrameType::Headers as u8, flags, stream.into(), &block));
        }
        Http2Op::Widen { stream, by } => {
            let by = u32::from(by).to_be_bytes();
            sim.client_sends(&frame(FrameType::WindowUpdate as u8, 0, stream.into(), &by));
        }
        Http2Op::Bytes(bytes) => sim.client_sends(bytes),
        Http2Op::Step { read, send } => {
            sim.step(cuts(read, send));
        }
        Http2Op::Run { read, send } => sim.run(cuts(read, send)),
        Http2Op::Pass { ms } => sim.pass(ms.into()),
        Http2Op::Drain => sim.drain(),
        Http2Op::Stop => sim.stop(),
        Http2Op::Evict => sim.evict(),
    }
}

/// Reads all complete frames as a client does.
fn read_frames(mut wire: &[u8]) {
    let mut decoder = HpackDecoder::new();
    while let Some(header) = FrameHeader::decode(wire) {
        let Some(payload) = wire[FRAME_HEADER_LEN..].get(..header.len as usize) else { break };
        assert!(header.len <= 16_384, "no client has allowed longer frames");
        let kind = FrameType::from_number(header.type_number).expect("a known type");
        if kind == FrameType::Headers {
            let (mut section, mut bytes) = (FieldSection::new(), [0; SECTION_SIZE_MAX]);
            decoder.decode(payload, true, &mut section, &mut bytes).expect("a valid block");
            let (name, _) = section.iter(&bytes).next().expect("a status");
            assert_eq!(name, b":status");
        }
        wire = &wire[FRAME_HEADER_LEN + payload.len()..];
    }
}

const PATHS: [&str; 7] = ["/", "/dir", "/dir?q", "/large", "/none", "/%zz", "/x/../large"];

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, high, mid, low] = (payload.len() as u32).to_be_bytes();
    [&[high, mid, low, kind, flags][..], &stream.to_be_bytes(), payload].concat()
}

fn block(path: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let pseudo = [(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", path)];
    let mut block = Vec::new();
    for (name, value) in [&pseudo[..], fields].concat() {
        encode_field(name.as_bytes(), value.as_bytes(), &mut |byte| block.push(byte));
    }
    block
}

/// Limits reads to at least one byte. A limit of 0 for sends means a client that does not read.
fn cuts(read: u8, send: u8) -> Cuts {
    Cuts { read: read as usize + 1, send: send as usize }
}

/// The length of a file whose content is stored beside the image.
const LARGE_LEN: usize = 40_000;

static IMAGE: LazyLock<Image> = LazyLock::new(|| {
    let dir = std::env::temp_dir().join(format!("tarpon-fuzz-http2-{}", std::process::id()));
    fs::create_dir_all(dir.join("dir")).expect("a directory for the site");
    for (name, len) in [("index.html", 5), ("dir/index.html", 300), ("large", LARGE_LEN)] {
        fs::write(dir.join(name), vec![b'l'; len]).expect("a file of the site");
    }
    let mut out = Cursor::new(Vec::new());
    let options = PackOptions { file_len_min: 1_000, ..PackOptions::new(0) };
    pack_dir(&dir, &mut out, &options, &mut BuildCache::default()).expect("an image");
    fs::remove_dir_all(&dir).expect("the site is no longer needed");
    Image::new(Bytes::from(out.into_inner())).expect("an image in order")
});
