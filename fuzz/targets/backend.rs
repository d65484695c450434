//! The bytes of a backend: whatever it sends, a response looks complete only if the backend has ended it, and nothing is held afterwards.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::{fs, io::Cursor, sync::Arc, sync::LazyLock};
use tarpon_conn::{
    BackendId, BackendLimits, BackendRoute, BackendSim, FRAME_PREFIX_LEN, FrameKind, FramePrefix, Hosts,
    Limits, RouteTable, RouteTarget, SiteId, Sites, sim::Cuts,
};
use tarpon_pack::{BuildCache, PackOptions, pack_dir};
use tarpon_site::Image;

// The first byte is the length of the pieces in which the engine reads.
fuzz_target!(|input: &[u8]| {
    let Some((&cut, bytes)) = input.split_first() else { return };
    for cuts in [Cuts::NONE, Cuts { read: 1 + cut as usize, send: 1 + cut as usize }] {
        let mut sim = worker();
        sim.script = Some(bytes.to_vec());
        let client = sim.connect();
        sim.client_sends(client, b"GET /app HTTP/1.1\r\nHost: a\r\n\r\n");
        sim.run(cuts);
        let received = sim.take_received(client);
        let is_chunked = received.windows(28).any(|window| window == b"Transfer-Encoding: chunked\r\n");
        if is_chunked && received.ends_with(b"\r\n0\r\n\r\n") {
            assert!(has_end(bytes), "{} for {}", received.escape_ascii(), bytes.escape_ascii());
        }
        if !sim.is_closed(client) {
            sim.client_vanishes(client);
        }
        sim.run(cuts);
        assert_eq!((sim.bufs_held(), sim.pipe_count(), sim.backend_count()), (0, 0, 0));
    }
});

/// Returns whether a frame ends the response.
fn has_end(mut bytes: &[u8]) -> bool {
    while let Ok(Some(FramePrefix { kind, len })) = FramePrefix::decode(bytes) {
        if kind == FrameKind::End {
            return true;
        }
        let Some(rest) = bytes.get(FRAME_PREFIX_LEN + len as usize..) else { return false };
        bytes = rest;
    }
    false
}

fn worker() -> BackendSim {
    static IMAGE: LazyLock<Image> = LazyLock::new(|| {
        let dir = std::env::temp_dir().join(format!("tarpon-fuzz-backend-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory for the site");
        fs::write(dir.join("index.html"), "hello").expect("a file of the site");
        let mut image = Cursor::new(Vec::new());
        pack_dir(&dir, &mut image, &PackOptions::new(0), &mut BuildCache::default()).expect("an image");
        fs::remove_dir_all(&dir).expect("the site is no longer needed");
        Image::new(image.into_inner().into()).expect("a valid image")
    });
    let mut routes = RouteTable::new(Arc::new(Hosts::new(Some(SiteId::FIRST))));
    let route = BackendRoute { backend: BackendId(0), limits: BackendLimits::default() };
    routes.add(None, "/app".parse().expect("a prefix"), RouteTarget::Backend(route)).expect("a free prefix");
    BackendSim::new(Sites::by_route([(IMAGE.clone(), Limits::default())], [routes].into()))
}
