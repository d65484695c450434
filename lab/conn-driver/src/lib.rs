//! A connection in memory, for drivers that `tarpon-lab cost` counts: two runs of different lengths. The difference contains only requests:
//! no start, no system call.
//!
//! | program | requests |
//! |---|---|
//! | `tarpon-conn-driver` (`main.rs`) | of HTTP/1, one after the other |
//! | `tarpon-http2-driver` (`bin/`) | of HTTP/2, many at a time |
//!
//! Two programs, because the compiler inlines what a program calls once. A package of its own, because the lab shares no code with tarpon, and
//! because tarpon-conn names no file. It depends on the protocol crates alone, so an optimized build takes seconds.

use std::error::Error;
use std::fs;

use tarpon_conn::{
    AcceptedClient, BufId, BufRange, ConnResources, Connection, Counters, DriveState, Limits, Pipes, Pool,
    Records, ResponsePrefixes, SectionBuffer, Sites, Tick,
};
use tarpon_site::{Image, packed};

/// Lets `run` drive a connection with a client, which requests files of a packed site. It gets a buffer for what the connection receives.
pub fn with_connection(
    site: &str,
    client: AcceptedClient,
    run: impl FnOnce(&mut Connection, &mut ConnResources<'_>, BufId) -> Result<u32, Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let mut sites = Sites::new(image(fs::read(site)?)?, Limits::default());
    let (mut pool, mut records) = (Pool::new(POOL_COUNT), Records::off());
    let (prefixes, counters) = (ResponsePrefixes::new(UNIX_S), Counters::default());
    let now = Tick(0);
    let mut cx = ConnResources {
        sites: &mut sites,
        pool: &mut pool,
        prefixes: &prefixes,
        now,
        now_us: 0,
        counters: &counters,
        records: &mut records,
        pipes: &mut Pipes::default(),
        sections: &mut SectionBuffer::default(),
        hot_paths: None,
    };
    let mut conn = Connection::new(&mut cx, client);
    let buf = cx.pool.take().ok_or("no buffer")?;
    let count = run(&mut conn, &mut cx, buf)?;
    println!("{count} responses, {} bytes", counters.sent_len.get());
    Ok(())
}

/// Puts these bytes into a buffer.
pub fn put(cx: &mut ConnResources<'_>, buf: BufId, bytes: &[u8]) -> BufRange {
    cx.pool.buf_mut(buf)[..bytes.len()].copy_from_slice(bytes);
    BufRange { buf, at: 0, len: bytes.len() as u32 }
}

/// A socket that takes what is sent, and an inbox without new bytes.
pub const IDLE: DriveState =
    DriveState { can_send: true, is_loading: false, has_new_input: false, is_write_shut_down: false };

fn image(archive: Vec<u8>) -> Result<Image, Box<dyn Error>> {
    let region = packed::image_in(&archive, archive.len() as u64)?.ok_or("not a packed site")?;
    let (at, len) = (region.at as usize, region.len as usize);
    Ok(Image::new(archive[at..][..len].to_vec().into())?)
}

/// Enough buffers for a connection, with more than half of them free.
const POOL_COUNT: u32 = 8;

/// The time in the date of each response: Mon, 07 Nov 1994 08:49:37 GMT.
const UNIX_S: u64 = 784_198_177;
