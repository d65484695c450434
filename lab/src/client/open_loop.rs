//! The open-loop client: sends requests at fixed times, whether or not earlier responses have arrived.
//!
//! A response time counts from the scheduled time of its request. A closed-loop client would send fewer requests while a server
//! stalls, and would therefore hide most of the stall (coordinated omission).

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use super::request::RequestForm;
use super::response::{OK, ResponseError};
use super::tls::{LoadTlsStream, TlsOffer, host};
use super::{ClientError, connect, read_response};
use crate::sys::arrival::ArrivalStream;

/// Connections to one server, with or without TLS.
pub(crate) struct OpenLoopClient<S> {
    request: Vec<u8>,
    /// Requests per second on all connections together.
    rate: u32,
    connections: Vec<OpenLoopConnection<S>>,
}

struct OpenLoopConnection<S> {
    stream: S,
    /// A buffer as long as one response.
    response: Vec<u8>,
}

impl OpenLoopClient<TcpStream> {
    /// Opens `count` connections and requests `path` once on each.
    pub(crate) fn connect(
        server: SocketAddr,
        path: &str,
        count: u32,
        rate: u32,
    ) -> Result<OpenLoopClient<TcpStream>, ClientError> {
        let request = RequestForm::Short.request(&server.to_string(), path);
        OpenLoopClient::open(|| Ok(connect(server, RESPONSE_TIME_MAX)?), request, count, rate)
    }
}

impl OpenLoopClient<ArrivalStream> {
    /// The same without the delays of the client itself, whose virtual processor may stand still for milliseconds: if it woke after the scheduled time
    /// of a request, and had waited for no response, then the time counts from there on; and it ends when the kernel has the response.
    pub(crate) fn connect_without_own_delays(
        server: SocketAddr,
        path: &str,
        count: u32,
        rate: u32,
    ) -> Result<OpenLoopClient<ArrivalStream>, ClientError> {
        let request = RequestForm::Short.request(&server.to_string(), path);
        let connect = || Ok(ArrivalStream::new(connect(server, RESPONSE_TIME_MAX)?)?);
        OpenLoopClient::open(connect, request, count, rate)
    }
}

impl OpenLoopClient<LoadTlsStream> {
    /// The same with TLS.
    pub(crate) fn connect_tls(
        server: SocketAddr,
        offer: &TlsOffer,
        path: &str,
        count: u32,
        rate: u32,
    ) -> Result<OpenLoopClient<LoadTlsStream>, ClientError> {
        let request = RequestForm::Short.request(&host(server), path);
        OpenLoopClient::open(|| offer.connect(server, RESPONSE_TIME_MAX), request, count, rate)
    }
}

impl<S: OpenLoopStream> OpenLoopClient<S> {
    fn open(
        connect: impl Fn() -> Result<S, ClientError>,
        request: Vec<u8>,
        count: u32,
        rate: u32,
    ) -> Result<OpenLoopClient<S>, ClientError> {
        let open = |_| {
            let mut stream = connect()?;
            stream.write_all(&request)?;
            let size = read_response(&mut stream, &mut Vec::new())?;
            Ok(OpenLoopConnection { stream, response: vec![0; size.len()] })
        };
        let connections = (0..count).map(open).collect::<Result<_, ClientError>>()?;
        Ok(OpenLoopClient { request, rate, connections })
    }

    /// Sends requests for `time`, on all connections in turn. Returns all response times in nanoseconds.
    pub(crate) fn run(&mut self, time: Duration) -> Result<Vec<u64>, ClientError> {
        let (count, request) = (self.connections.len() as u32, &self.request);
        let interval = Duration::from_secs(1) * count / self.rate;
        let start = Instant::now();
        thread::scope(|scope| {
            let connections = (0..).zip(&mut self.connections);
            let threads = connections.map(|(number, connection)| {
                let first = start + interval * number / count;
                scope.spawn(move || connection.run(request, first, interval, start + time))
            });
            let threads: Vec<_> = threads.collect();
            let times = threads.into_iter().map(|thread| thread.join().expect("a client does not panic"));
            Ok(times.collect::<Result<Vec<_>, _>>()?.concat())
        })
    }
}

/// A connection, and whether the delays of the client itself count.
pub(crate) trait OpenLoopStream: Read + Write + Send {
    /// Whether a response time counts from the scheduled time of its request even if the client woke later.
    const COUNTS_OWN_DELAY: bool = true;

    /// Returns when the last bytes that were read arrived.
    fn arrived(&self) -> Instant {
        Instant::now()
    }
}

impl OpenLoopStream for TcpStream {}
impl OpenLoopStream for LoadTlsStream {}
impl OpenLoopStream for ArrivalStream {
    const COUNTS_OWN_DELAY: bool = false;

    fn arrived(&self) -> Instant {
        ArrivalStream::arrived(self).unwrap_or_else(Instant::now)
    }
}

impl<S: OpenLoopStream> OpenLoopConnection<S> {
    fn run(
        &mut self,
        request: &[u8],
        first: Instant,
        interval: Duration,
        end: Instant,
    ) -> Result<Vec<u64>, ClientError> {
        let mut times = Vec::new();
        let mut scheduled = first;
        while scheduled < end {
            let slept = scheduled.checked_duration_since(Instant::now());
            thread::sleep(slept.unwrap_or_default());
            let from = if slept.is_some() && !S::COUNTS_OWN_DELAY { Instant::now() } else { scheduled };
            self.stream.write_all(request)?;
            self.stream.read_exact(&mut self.response)?;
            times.push(self.stream.arrived().saturating_duration_since(from).as_nanos() as u64);
            if !self.response.starts_with(OK) {
                return Err(ResponseError::Status.into());
            }
            scheduled += interval;
        }
        Ok(times)
    }
}

/// Longest wait for a response. It is long, because a stalled server is a result too.
const RESPONSE_TIME_MAX: Duration = Duration::from_secs(60);
