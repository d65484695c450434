//! Clients that download cold files, each file once.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::files::cold_name;
use crate::client::request::RequestForm;
use crate::client::response::ResponseSize;
use crate::client::{ClientError, connect};
use crate::error::LabError;

/// The downloads of all connections to one server.
pub(super) struct ColdDownloads {
    server: SocketAddr,
    cold_size: u64,
    cold_count: usize,
    /// Number of the next file.
    next: AtomicUsize,
    completed: AtomicUsize,
    bytes: AtomicU64,
    end: Instant,
}

impl ColdDownloads {
    /// Prepares downloads that end after `time` from now.
    pub(super) fn new(
        server: SocketAddr,
        cold_size: u64,
        cold_count: usize,
        time: Duration,
    ) -> ColdDownloads {
        let (next, completed, bytes) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicU64::new(0));
        ColdDownloads { server, cold_size, cold_count, next, completed, bytes, end: Instant::now() + time }
    }

    /// Downloads files on one connection, until the time is over or no file is left.
    pub(super) fn run(&self) -> Result<(), ClientError> {
        let mut stream = connect(self.server, READ_TIMEOUT)?;
        let mut input = vec![0; 64 << 10];
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.cold_count {
                return Ok(());
            }
            stream.write_all(
                &RequestForm::Short.request(&self.server.to_string(), &format!("/{}", cold_name(number))),
            )?;
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
                            let size = ResponseSize::parse(&head)?;
                            if size.is_some_and(|size| size.content_len as u64 != self.cold_size) {
                                return Err(ClientError::Length);
                            }
                            response_len = size.map(ResponseSize::len);
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

    /// Returns the number of complete files, and the bytes of all responses, incomplete responses included. Fails if the clients
    /// ran out of files.
    pub(super) fn received(&self) -> Result<(usize, u64), LabError> {
        if self.next.load(Ordering::Relaxed) > self.cold_count {
            return Err(
                "the clients downloaded all cold files before the end: the files were in memory".into()
            );
        }
        Ok((self.completed.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed)))
    }
}

/// How often a waiting client checks whether the time is over.
const READ_TIMEOUT: Duration = Duration::from_millis(50);
