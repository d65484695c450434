//! Sends requests of HTTP/2 to a connection in memory.
//!
//! ```text
//! tarpon-http2-driver SITE OPENING REQUEST STREAMS COUNT      SITE: a packed site;  REQUEST: a file with a HEADERS frame
//! ```
//!
//! OPENING is a file with the frames before the first of these requests: one request among them, on the stream 1. STREAMS requests arrive at a
//! time, and the driver numbers their streams. COUNT is a multiple of STREAMS.

use std::error::Error;
use std::{env, fs};

use tarpon_conn::{
    AcceptedClient, BufRange, ConnResources, Connection, DriveStep, HttpVersions, Tick, Transport,
};
use tarpon_conn_driver::{IDLE, put, with_connection};

fn main() -> Result<(), Box<dyn Error>> {
    let [site, opening, request, streams, count] =
        env::args().skip(1).collect::<Vec<_>>().try_into().map_err(|_| USAGE)?;
    let (opening, request) = (fs::read(opening)?, fs::read(request)?);
    let (streams, count) = (streams.parse::<u32>()?, count.parse::<u32>()?);
    let client = AcceptedClient { versions: HttpVersions::All, ..AcceptedClient::default() };
    with_connection(&site, client, |conn, cx, buf| {
        let input = put(cx, buf, &opening);
        exchange(conn, cx, input)?;
        let input = put(cx, buf, &request.repeat(streams as usize));
        for batch in 0..count / streams {
            let frames = &mut cx.pool.buf_mut(buf)[..input.len as usize];
            number_streams(frames, request.len(), 1 + batch * streams);
            exchange(conn, cx, input)?;
        }
        Ok(1 + count)
    })
}

/// Numbers the streams of frames, each of `frame_len` bytes, that follow this many earlier ones.
fn number_streams(frames: &mut [u8], frame_len: usize, earlier: u32) {
    for (number, frame) in (earlier..).zip(frames.chunks_exact_mut(frame_len)) {
        frame[STREAM_AT..][..4].copy_from_slice(&(2 * number + 1).to_be_bytes());
    }
}

/// Receives frames and sends the responses, with the queries of an engine in between. The outbox has no room for all of them at once.
#[inline(never)]
fn exchange(conn: &mut Connection, cx: &mut ConnResources<'_>, input: BufRange) -> Result<(), &'static str> {
    let (mut transport, mut rest) = (Transport::Plain, input);
    while rest.len > 0 {
        let used = transport.received(conn, cx, rest).map_or(0, |used| used as u32);
        rest = BufRange { at: rest.at + used, len: rest.len - used, ..rest };
        if used == 0 || conn.next_step(&transport, IDLE) != DriveStep::Send {
            return Err("a frame is not complete, or the connection sends no response");
        }
        while conn.next_step(&transport, IDLE) == DriveStep::Send {
            transport.sent(conn, cx, conn.outbox_len());
        }
    }
    if !matches!(conn.next_step(&transport, IDLE), DriveStep::Read) || conn.deadline() == Tick::NEVER {
        return Err("the connection does not persist");
    }
    Ok(())
}

const USAGE: &str = "usage: tarpon-http2-driver SITE OPENING REQUEST STREAMS COUNT";

/// The offset of the stream number in a frame: RFC 9113, section 4.1.
const STREAM_AT: usize = 5;
