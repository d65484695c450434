//! Who asks: for the hot page at fixed moments, and for cold files one after the other.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{Setting, cold_name};
use crate::Trouble;
use crate::client::{ClientError, read_response, request};
use crate::response::{Extent, OK, ResponseError};

/// Who asks for the hot page, on connections that were made before anything was cold.
pub(super) struct Hot<'s> {
    setting: &'s Setting,
    request: Vec<u8>,
    connections: Vec<Connection>,
}

struct Connection {
    stream: TcpStream,
    /// As long as a response.
    response: Vec<u8>,
}

impl<'s> Hot<'s> {
    /// Connects, and asks once on each connection.
    pub(super) fn connect(
        address: SocketAddr,
        path: &str,
        setting: &'s Setting,
    ) -> Result<Hot<'s>, ClientError> {
        let request = request(address, path);
        let open = |_| {
            let mut stream = connect(address, ANSWER_TIME_MAX)?;
            stream.write_all(&request)?;
            let extent = read_response(&mut stream, &mut Vec::new())?;
            Ok(Connection { stream, response: vec![0; extent.len()] })
        };
        let connections = (0..setting.hot).map(open).collect::<Result<_, ClientError>>()?;
        Ok(Hot { setting, request, connections })
    }

    /// Asks at fixed moments for `time`, on all connections in turn. Returns how long each answer took, in nanoseconds.
    pub(super) fn ask(&mut self, time: Duration) -> Result<Vec<u64>, ClientError> {
        let (count, request) = (self.setting.hot, &self.request);
        let interval = Duration::from_secs(1) * count / self.setting.rate;
        let start = Instant::now();
        thread::scope(|scope| {
            let connections = (0..).zip(&mut self.connections);
            let asking = connections.map(|(number, connection)| {
                let first = start + interval * number / count;
                scope.spawn(move || connection.ask(request, first, interval, start + time))
            });
            let asking: Vec<_> = asking.collect();
            let times = asking.into_iter().map(|asking| asking.join().expect("a client does not panic"));
            Ok(times.collect::<Result<Vec<_>, _>>()?.concat())
        })
    }
}

impl Connection {
    fn ask(
        &mut self,
        request: &[u8],
        first: Instant,
        interval: Duration,
        end: Instant,
    ) -> Result<Vec<u64>, ClientError> {
        let mut times = Vec::new();
        let mut due = first;
        while due < end {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            self.stream.write_all(request)?;
            self.stream.read_exact(&mut self.response)?;
            times.push(due.elapsed().as_nanos() as u64);
            if !self.response.starts_with(OK) {
                return Err(ResponseError::Status.into());
            }
            due += interval;
        }
        Ok(times)
    }
}

/// Who asks for cold files, each of which is asked for once.
pub(super) struct Reads<'s> {
    address: SocketAddr,
    setting: &'s Setting,
    cold_count: usize,
    next: AtomicUsize,
    completed: AtomicUsize,
    bytes: AtomicU64,
    end: Instant,
}

impl<'s> Reads<'s> {
    /// For `time`, from now on.
    pub(super) fn new(
        address: SocketAddr,
        setting: &'s Setting,
        cold_count: usize,
        time: Duration,
    ) -> Reads<'s> {
        let (next, completed, bytes) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicU64::new(0));
        Reads { address, setting, cold_count, next, completed, bytes, end: Instant::now() + time }
    }

    /// Asks for one after the other on one connection, until its time is over or there are no more.
    pub(super) fn ask(&self) -> Result<(), ClientError> {
        let mut stream = connect(self.address, LOOK_INTERVAL)?;
        let mut input = vec![0; 64 << 10];
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.cold_count {
                return Ok(());
            }
            stream.write_all(&request(self.address, &format!("/{}", cold_name(number))))?;
            let mut head = Vec::new();
            let (mut received, mut response_len) = (0, None);
            while response_len.is_none_or(|len| received < len) {
                match stream.read(&mut input) {
                    Ok(0) => return Err(ClientError::Closed),
                    Ok(len) => {
                        received += len;
                        self.bytes.fetch_add(len as u64, Ordering::Relaxed);
                        if response_len.is_none() {
                            head.extend_from_slice(&input[..len]);
                            let extent = Extent::of(&head)?;
                            if extent.is_some_and(|extent| extent.content_len as u64 != self.setting.large) {
                                return Err(ClientError::Length);
                            }
                            response_len = extent.map(Extent::len);
                        }
                    }
                    Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                    Err(error) => return Err(error.into()),
                }
                if Instant::now() >= self.end {
                    return Ok(());
                }
            }
            self.completed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Files received whole, and bytes of responses, those of unfinished ones too. Fails if there were too few files.
    pub(super) fn received(&self) -> Result<(usize, u64), Trouble> {
        if self.next.load(Ordering::Relaxed) > self.cold_count {
            return Err("all cold files were read too soon: they were in memory".into());
        }
        Ok((self.completed.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed)))
    }
}

fn connect(address: SocketAddr, time_max: Duration) -> Result<TcpStream, ClientError> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(time_max))?;
    Ok(stream)
}

/// Longest wait for an answer: that of a stalled server too is measured.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);

/// How often a client that waits for a cold file looks whether the part is over.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
