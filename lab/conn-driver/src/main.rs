//! Sends requests of HTTP/1 to a connection in memory.
//!
//! ```text
//! tarpon-conn-driver SITE REQUEST COUNT       SITE: a packed site;  REQUEST: a file with one request
//! ```

use std::error::Error;
use std::{env, fs};

use tarpon_conn::{AcceptedClient, BufRange, ConnResources, Connection, DriveStep, Tick, Transport};
use tarpon_conn_driver::{IDLE, put, with_connection};

fn main() -> Result<(), Box<dyn Error>> {
    let [site, request, count] = env::args().skip(1).collect::<Vec<_>>().try_into().map_err(|_| USAGE)?;
    let (request, count) = (fs::read(request)?, count.parse::<u32>()?);
    with_connection(&site, AcceptedClient::default(), |conn, cx, buf| {
        let input = put(cx, buf, &request);
        for _ in 0..count {
            exchange(conn, cx, input)?;
        }
        Ok(count)
    })
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
    if !matches!(conn.next_step(&transport, IDLE), DriveStep::Read) || conn.deadline() == Tick::NEVER {
        return Err("the connection does not persist");
    }
    Ok(())
}

const USAGE: &str = "usage: tarpon-conn-driver SITE REQUEST COUNT";
