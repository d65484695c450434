//! Sends requests to a connection in memory, for `tarpon-lab cost`, which counts the instructions of two runs of different
//! lengths. The difference contains only requests: no start, no system call.
//!
//! ```text
//! tarpon-conn-driver SITE REQUEST COUNT       SITE: a packed site;  REQUEST: a file with one request
//! ```
//!
//! A package of its own, because the lab shares no code with tarpon, and because tarpon-conn names no file. It depends on the
//! protocol crates alone, so an optimized build takes seconds.

use std::error::Error;
use std::{env, fs};

use tarpon_conn::{
    AcceptedClient, BufRange, ConnResources, Connection, Counters, DriveState, DriveStep, Limits, Pipes,
    Pool, Records, ResponsePrefixes, SectionBuffer, Sites, Tick, Transport,
};
use tarpon_site::{Image, packed};

fn main() -> Result<(), Box<dyn Error>> {
    let [site, request, count] = env::args().skip(1).collect::<Vec<_>>().try_into().map_err(|_| USAGE)?;
    let mut sites = Sites::new(image(fs::read(site)?)?, Limits::default());
    let (request, count) = (fs::read(request)?, count.parse::<u32>()?);
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
    };
    let mut conn = Connection::new(&mut cx, AcceptedClient::default());
    let buf = cx.pool.take().ok_or("no buffer")?;
    cx.pool.buf_mut(buf)[..request.len()].copy_from_slice(&request);
    let input = BufRange { buf, at: 0, len: request.len() as u32 };
    for _ in 0..count {
        exchange(&mut conn, &mut cx, input)?;
    }
    println!("{count} responses, {} bytes", counters.sent_len.get());
    Ok(())
}

/// Receives one request and sends its response, with the queries of an engine in between.
#[inline(never)]
fn exchange(conn: &mut Connection, cx: &mut ConnResources<'_>, input: BufRange) -> Result<(), &'static str> {
    let mut transport = Transport::Plain;
    if transport.received(conn, cx, input) != Ok(input.len as usize) {
        return Err("the file is not one complete request");
    }
    if conn.next_step(&transport, IDLE) != DriveStep::Send {
        return Err("the connection sends no response");
    }
    transport.sent(conn, cx, conn.outbox_len());
    if !matches!(conn.next_step(&transport, IDLE), DriveStep::Read { .. }) || conn.deadline() == Tick::NEVER {
        return Err("the connection does not persist");
    }
    Ok(())
}

/// A socket that takes what is sent, and an inbox without new bytes.
const IDLE: DriveState =
    DriveState { can_send: true, is_loading: false, has_new_input: false, is_write_shut_down: false };

fn image(archive: Vec<u8>) -> Result<Image, Box<dyn Error>> {
    let region = packed::image_in(&archive, archive.len() as u64)?.ok_or("not a packed site")?;
    let (at, len) = (region.at as usize, region.len as usize);
    Ok(Image::new(archive[at..][..len].to_vec().into())?)
}

const USAGE: &str = "usage: tarpon-conn-driver SITE REQUEST COUNT";

/// Enough buffers for a connection, with more than half of them free.
const POOL_COUNT: u32 = 8;

/// The time in the date of each response: Mon, 07 Nov 1994 08:49:37 GMT.
const UNIX_S: u64 = 784_198_177;
