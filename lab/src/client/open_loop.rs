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

/// Connections to one server, with or without TLS.
pub(crate) struct OpenLoopClient<S> {
    request: Vec<u8>,
    /// Requests per second on all connections together.
    rate: u32,
    connections: Vec<OpenLoopConnection<S>>,
    counts_own_delay: bool,
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

impl<S: Read + Write + Send> OpenLoopClient<S> {
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
        Ok(OpenLoopClient { request, rate, connections, counts_own_delay: true })
    }

    /// Leaves out the delay of the client itself: if it woke after the scheduled time of a request, and had waited for no response, then the time
    /// counts from there on. A virtual processor may stand still for milliseconds.
    #[must_use]
    pub(crate) fn without_own_delay(self) -> OpenLoopClient<S> {
        OpenLoopClient { counts_own_delay: false, ..self }
    }

    /// Sends requests for `time`, on all connections in turn. Returns all response times in nanoseconds.
    pub(crate) fn run(&mut self, time: Duration) -> Result<Vec<u64>, ClientError> {
        let (count, request) = (self.connections.len() as u32, &self.request);
        let counts_own_delay = self.counts_own_delay;
        let interval = Duration::from_secs(1) * count / self.rate;
        let start = Instant::now();
        thread::scope(|scope| {
            let connections = (0..).zip(&mut self.connections);
            let threads = connections.map(|(number, connection)| {
                let first = start + interval * number / count;
                scope.spawn(move || connection.run(request, first, interval, start + time, counts_own_delay))
            });
            let threads: Vec<_> = threads.collect();
            let times = threads.into_iter().map(|thread| thread.join().expect("a client does not panic"));
            Ok(times.collect::<Result<Vec<_>, _>>()?.concat())
        })
    }
}

impl<S: Read + Write> OpenLoopConnection<S> {
    fn run(
        &mut self,
        request: &[u8],
        first: Instant,
        interval: Duration,
        end: Instant,
        counts_own_delay: bool,
    ) -> Result<Vec<u64>, ClientError> {
        let mut times = Vec::new();
        let mut scheduled = first;
        while scheduled < end {
            let slept = scheduled.checked_duration_since(Instant::now());
            thread::sleep(slept.unwrap_or_default());
            let from = if slept.is_some() && !counts_own_delay { Instant::now() } else { scheduled };
            self.stream.write_all(request)?;
            self.stream.read_exact(&mut self.response)?;
            times.push(from.elapsed().as_nanos() as u64);
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
