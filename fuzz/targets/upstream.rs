//! The bytes of a server that speaks HTTP/1: whatever it sends, a response looks complete only if the server has ended it, and nothing is held
//! afterwards.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::{fs, io::Cursor, sync::Arc, sync::LazyLock};
use tarpon_conn::{
    BackendId, BackendLimits, BackendProtocol, BackendRoute, BackendServers, BackendSettings, BackendSim,
    Hosts, Limits, RouteTable, RouteTarget, ServerEvent, ServerId, ServerReport, SiteId, Sites, Tick,
    UpstreamReply, sim::Cuts,
};
use tarpon_http::{
    chunked::ChunkedDecoder,
    response_head::{self, ResponseFraming},
};
use tarpon_pack::{BuildCache, PackOptions, pack_dir};
use tarpon_site::Image;

const REQUESTS: [&[u8]; 2] = [
    b"GET /app HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /app HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
];

// The first byte is the length of the pieces in which the engine reads.
fuzz_target!(|input: &[u8]| {
    let Some((&cut, bytes)) = input.split_first() else { return };
    for request in REQUESTS {
        for cuts in [Cuts::NONE, Cuts { read: 1 + cut as usize, send: 1 + cut as usize }] {
            let mut sim = worker(bytes.to_vec());
            let client = sim.connect();
            sim.client_sends(client, request);
            sim.run(cuts);
            let received = sim.take_received(client);
            if is_chunked(&received) && received.ends_with(b"\r\n0\r\n\r\n") {
                assert!(is_complete(bytes), "{} for {}", received.escape_ascii(), bytes.escape_ascii());
            }
            if !sim.is_closed(client) {
                sim.client_vanishes(client);
            }
            sim.run(cuts);
            assert_eq!((sim.bufs_held(), sim.pipe_count(), sim.backend_count()), (0, 0, 0));
        }
    }
});

/// Returns whether a client gets its final response in chunks.
fn is_chunked(mut received: &[u8]) -> bool {
    while let Ok(Some((head, len))) = response_head::parse(received) {
        match head.status {
            101 => return false,
            100..=199 => received = &received[len..],
            _ => return head.framing(false) == Ok(ResponseFraming::Chunked),
        }
    }
    false
}

/// Returns whether the final response is complete.
fn is_complete(mut bytes: &[u8]) -> bool {
    loop {
        let Ok(Some((head, len))) = response_head::parse(bytes) else { return false };
        bytes = &bytes[len..];
        match head.framing(false) {
            _ if head.status < 200 => {}
            Ok(ResponseFraming::Chunked) => {
                let mut decoder = ChunkedDecoder::default();
                while let Ok(decoded) = decoder.decode(bytes)
                    && decoded.used > 0
                {
                    bytes = &bytes[decoded.used..];
                }
                return decoder.is_done();
            }
            framing => return framing == Ok(ResponseFraming::UntilClose),
        }
    }
}

#[derive(Debug)]
struct OneServer;

impl BackendServers for OneServer {
    fn choose(&mut self, _: BackendId, _: u64, tried: &[ServerId], _: Tick) -> Option<ServerId> {
        tried.is_empty().then(|| ServerId::upstream(0))
    }

    fn keeps_idle(&mut self, _: ServerId) -> bool {
        true
    }

    fn note(&mut self, _: ServerId, _: ServerEvent) {}

    fn report(&mut self, _: ServerId, report: ServerReport<'_>) {
        if let ServerReport::Failed { reason, .. } = report {
            assert!(!reason.to_string().is_empty());
        }
    }
}

fn worker(bytes: Vec<u8>) -> BackendSim {
    static IMAGE: LazyLock<Image> = LazyLock::new(|| {
        let dir = std::env::temp_dir().join(format!("tarpon-fuzz-upstream-{}", std::process::id()));
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
    let sites = Sites::by_route([(IMAGE.clone(), Limits::default())], [routes].into());
    let settings = vec![BackendSettings { protocol: BackendProtocol::Http1, ..BackendSettings::default() }];
    let server = move |_, received: &[u8]| match received.windows(4).any(|end| end == b"\r\n\r\n") {
        true => UpstreamReply { bytes: bytes.clone(), ends: true },
        false => UpstreamReply::default(),
    };
    BackendSim::with_upstream(sites, settings, Box::new(OneServer), Box::new(server))
}
