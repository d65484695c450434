//! A storm of full handshakes at a fixed rate, beside another client.
//!
//! The threads of the storm run only while the core of the client has nothing else to do: otherwise the cryptography of the storm would
//! delay the other client, and its response times would show the wrong core.

use std::io::Write;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::gettid;
use rustls::HandshakeKind;

use super::request::RequestForm;
use super::tls::{TlsOffer, handshake_kind, host};
use super::{ClientError, read_response};
use crate::error::LabError;

/// A client that connects, completes a full handshake, requests a page and closes, at a fixed rate.
pub(crate) struct TlsStorm {
    server: SocketAddr,
    offer: TlsOffer,
    request: Vec<u8>,
    content_len: usize,
    /// Handshakes per second, of all threads together.
    rate: u32,
}

impl TlsStorm {
    /// Prepares a storm on this server. The content of the path has `content_len` bytes.
    pub(crate) fn new(
        server: SocketAddr,
        offer: TlsOffer,
        (path, content_len): (&str, usize),
        rate: u32,
    ) -> TlsStorm {
        let request = RequestForm::Short.request(&host(server), path);
        TlsStorm { server, offer, request, content_len, rate }
    }

    /// Runs the storm for `time`, and `beside` at the same time, once all threads are ready. Returns the number of handshakes, and what
    /// `beside` returns.
    pub(crate) fn run<T>(
        &self,
        time: Duration,
        beside: impl FnOnce() -> Result<T, LabError>,
    ) -> Result<(u64, T), LabError> {
        let interval = Duration::from_secs(1) * THREAD_COUNT / self.rate;
        let ready = Barrier::new(THREAD_COUNT as usize + 1);
        thread::scope(|scope| {
            let threads: Vec<_> = (0..THREAD_COUNT)
                .map(|number| {
                    let ready = &ready;
                    scope.spawn(move || {
                        let idle = run_when_idle();
                        ready.wait();
                        idle?;
                        self.run_thread(interval * number / THREAD_COUNT, interval, time)
                    })
                })
                .collect();
            ready.wait();
            let result = beside()?;
            let mut handshakes = 0;
            for thread in threads {
                handshakes += thread.join().expect("the storm does not panic")?;
            }
            Ok((handshakes, result))
        })
    }

    fn run_thread(&self, first: Duration, interval: Duration, time: Duration) -> Result<u64, ClientError> {
        let start = Instant::now();
        let mut handshakes = 0;
        loop {
            let scheduled = first + interval.mul_f64(f64::from(handshakes) + jitter(handshakes));
            if scheduled >= time || start.elapsed() >= time {
                return Ok(handshakes.into());
            }
            thread::sleep(scheduled.saturating_sub(start.elapsed()));
            self.operate()?;
            handshakes += 1;
        }
    }

    fn operate(&self) -> Result<(), ClientError> {
        let mut stream = self.offer.connect(self.server, RESPONSE_TIME_MAX)?;
        if handshake_kind(&stream.conn)? != HandshakeKind::Full {
            return Err(ClientError::Handshake("the handshake was not a full one"));
        }
        stream.write_all(&self.request)?;
        if read_response(&mut stream, &mut Vec::new())?.content_len != self.content_len {
            return Err(ClientError::Length);
        }
        stream.conn.send_close_notify();
        stream.flush()?;
        Ok(())
    }
}

/// Returns a number from 0 to 1 for each handshake, evenly distributed. Without it, handshakes would always keep the same distance to the
/// requests of the other client, and delay all of them or none.
fn jitter(number: u32) -> f64 {
    (f64::from(number) * GOLDEN_RATIO).fract()
}

/// The multiples of this number are evenly distributed between whole numbers.
const GOLDEN_RATIO: f64 = 0.618_033_988_749_895;

/// Lets this thread run only while its core is otherwise idle.
fn run_when_idle() -> Result<(), ClientError> {
    let thread = gettid().as_raw_nonzero().to_string();
    let status = Command::new("chrt").args(["--idle", "--pid", "0", &thread]).status()?;
    match status.success() {
        true => Ok(()),
        false => Err(ClientError::Io(std::io::Error::other("`chrt --idle` fails"))),
    }
}

/// Threads of a storm: enough that a slow handshake delays no other.
const THREAD_COUNT: u32 = 8;

/// Longest wait for a byte.
const RESPONSE_TIME_MAX: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_is_evenly_distributed() {
        let mut tenths = [0; 10];
        (0..1000).for_each(|number| tenths[(jitter(number) * 10.0) as usize] += 1);
        assert!(tenths.iter().all(|count| (95..=105).contains(count)), "{tenths:?}");
    }
}
