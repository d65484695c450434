//! The server's end of a TLS connection, whose client is rustls behind a wire that an attacker changes: bytes are added, changed, lost and
//! repeated, and cut anywhere. `Sim` checks the invariants after every operation. This target also checks that the client gets a prefix of the
//! responses that it asked for, and that the connection closes and releases everything.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::{arbitrary, arbitrary::Arbitrary, fuzz_target};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    crypto::aws_lc_rs,
    pki_types::PrivateKeyDer,
    version::{TLS12, TLS13},
};
use std::{
    fs,
    io::Cursor,
    sync::{Arc, LazyLock},
};
use tarpon_conn::{
    Close,
    sim::{Cuts, Sim, Through},
};
use tarpon_pack::{BuildCache, PackOptions, pack_dir};
use tarpon_site::Image;

fuzz_target!(|input: (bool, Vec<WireOp<'_>>)| {
    let (is_tls12, ops) = input;
    let mut sim = Sim::new(IMAGE.clone()).through(&ENDS[usize::from(is_tls12)]);
    let (mut is_honest, mut has_ended) = (true, false);
    for op in &ops {
        // A client of rustls that has announced its end must not fail afterwards.
        if has_ended && op.changes_wire() {
            continue;
        }
        has_ended |= matches!(op, WireOp::End);
        is_honest &= op.apply(&mut sim);
    }
    if is_honest {
        // What an honest wire carries is answered, however it was cut.
        sim.client_sends(REQUEST);
        sim.run(Cuts::NONE);
        assert!(sim.close() != Close::No || sim.wire.starts_with(b"HTTP/1.1 "), "{ops:?}");
    }
    // Nothing is shown to the client but responses.
    assert!(sim.wire.is_empty() || sim.wire.starts_with(b"HTTP/1.1 "), "{}", sim.wire.escape_ascii());
    // Without a word, for the same reason.
    sim.answer_in_plain();
    sim.client_ends();
    for _ in 0..10 {
        sim.run(Cuts::NONE);
        sim.pass(100_000);
    }
    sim.run(Cuts::NONE);
    assert_eq!((sim.close(), sim.bufs_held()), (Close::Both, 0), "{ops:?}");
});

#[derive(Arbitrary, Debug)]
enum WireOp<'a> {
    /// The client sends a request.
    Request,
    /// The client sends plain bytes.
    Plain(&'a [u8]),
    /// These bytes follow on the wire.
    Add(&'a [u8]),
    /// A record with these bytes follows on the wire.
    Record { kind: u8, bytes: &'a [u8] },
    /// A byte on the wire changes.
    Change { at: u16, by: u8 },
    /// Bytes on the wire are lost.
    Lose { at: u16, len: u8 },
    /// The first bytes on the wire follow once more.
    Repeat { len: u16 },
    /// Steps of the engine, with at most so many bytes.
    Steps { count: u8, read: u8, send: u8 },
    /// Time passes.
    Pass { ms: u16 },
    /// The connection must free its buffers.
    Evict,
    /// The client sends its closing alert.
    End,
}

impl WireOp<'_> {
    /// Returns whether the attacker does it.
    fn changes_wire(&self) -> bool {
        use WireOp::{Add, Change, Lose, Record, Repeat};
        matches!(self, Add(_) | Record { .. } | Change { .. } | Lose { .. } | Repeat { .. })
    }

    /// Does the operation. Returns whether the wire is still that of the client.
    fn apply(&self, sim: &mut Sim) -> bool {
        let wire = &mut sim.socket;
        match *self {
            WireOp::Request => sim.client_sends(REQUEST),
            WireOp::Plain(bytes) => sim.client_sends(bytes),
            WireOp::Add(bytes) => wire.extend_from_slice(bytes),
            WireOp::Record { kind, bytes } => {
                wire.extend([kind, 3, 3]);
                wire.extend((bytes.len() as u16).to_be_bytes());
                wire.extend_from_slice(bytes);
            }
            WireOp::Change { at, by } => {
                let len = wire.len().max(1);
                if let Some(byte) = wire.get_mut(usize::from(at) % len) {
                    *byte ^= by;
                }
            }
            WireOp::Lose { at, len } => {
                let at = usize::from(at).min(wire.len());
                wire.drain(at..(at + usize::from(len)).min(wire.len()));
            }
            WireOp::Repeat { len } => wire.extend_from_within(..usize::from(len).min(wire.len())),
            WireOp::Steps { count, read, send } => {
                let cuts = Cuts { read: usize::from(read) * 4 + 1, send: usize::from(send) * 64 };
                (0..count).take_while(|_| sim.step(cuts)).for_each(drop);
            }
            WireOp::Pass { ms } => sim.pass(ms.into()),
            WireOp::Evict => sim.evict(),
            WireOp::End => sim.client_ends(),
        }
        matches!(self, WireOp::Request | WireOp::Steps { .. } | WireOp::End)
    }
}

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// Both ends, with TLS 1.3 and with TLS 1.2.
static ENDS: LazyLock<[Through; 2]> = LazyLock::new(|| {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&TLS12, &TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let server = Arc::new(server);
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    [&TLS13, &TLS12].map(|version| {
        let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots.clone())
            .with_no_client_auth();
        Through::Tls(Arc::clone(&server), client.into())
    })
});

static IMAGE: LazyLock<Image> = LazyLock::new(|| {
    let dir = std::env::temp_dir().join(format!("tarpon-fuzz-tls-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("index.html"), "hello").unwrap();
    let mut packed = Cursor::new(Vec::new());
    pack_dir(&dir, &mut packed, &PackOptions::new(0), &mut BuildCache::default()).unwrap();
    fs::remove_dir_all(&dir).unwrap();
    Image::new(Bytes::from(packed.into_inner())).unwrap()
});
