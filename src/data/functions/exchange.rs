//! An exchange on a thread: reads the request as frames, calls the function, and sends its response as frames.
//!
//! ```text
//! socket ─ Head, Data …, End ─▶ function ─ Head, Data …, End ─▶ socket
//! ```
//!
//! A response that ends early has no End, so the client sees that it is incomplete.

use super::{catch, inline::SendLater};
use crate::{
    base::functions::{
        request::FunctionRequest,
        response::{FunctionResponse, ResponseContent},
        route::Function,
        stream::{ResponseWriter, SendContent},
    },
    sys::{
        poll::{PollEntry, poll},
        socket::NO_SIGNAL,
    },
};
use rustix::{io::retry_on_intr, net};
use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Write},
    mem,
    os::{
        fd::AsFd,
        unix::{fs::FileExt, net::UnixStream},
    },
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};
use tarpon_conn::{BUF_LEN, FRAME_PREFIX_LEN, FrameKind, FramePrefix, MessageFields, MessageFieldsWriter};

/// What a thread does.
pub(super) enum FunctionJob {
    /// Calls a function for the request that arrives at the socket.
    Call { path: Arc<str>, function: Function, socket: UnixStream },
    /// Sends a response of a function that a worker has called.
    Send { path: Arc<str>, later: Box<SendLater>, socket: UnixStream },
}

/// Runs a job. Errors end the exchange: the worker finds the socket closed.
pub(super) fn run(job: FunctionJob) {
    match job {
        FunctionJob::Call { path, function, socket } => {
            let mut request = FrameReader::new(&socket);
            // If the client has left, or the worker has ended, the function is not called.
            let Ok(list) = request.head() else { return };
            let Some(list) = MessageFields::parse(&list) else { return };
            if is_closed(&socket) {
                return;
            }
            let with_content = list.get(b":method") != Some(b"HEAD");
            let response = catch::call(&path, &function, &mut FunctionRequest::streamed(list, &mut request));
            send(&path, &socket, response, with_content);
            request.drain();
        }
        FunctionJob::Send { path, later, socket } => {
            let SendLater { response, with_content } = *later;
            send(&path, &socket, response, with_content);
            FrameReader::new(&socket).drain();
        }
    }
}

/// Returns whether the worker has closed its end of the socket: what it has sent before can still be read.
fn is_closed(socket: &UnixStream) -> bool {
    let mut entry = [PollEntry::new(socket.as_fd(), libc::POLLHUP)];
    poll(&mut entry, Some(0)).is_ok() && entry[0].revents() & libc::POLLHUP != 0
}

/// Sends a response, and its end if it is complete, or that it is aborted. Emits an event if the function is the reason that it is not.
fn send(path: &str, socket: &UnixStream, response: FunctionResponse, with_content: bool) {
    let mut frames = FrameWriter { socket, buf: Vec::new(), has_ended: false, is_closed: false };
    let sent = catch_unwind(AssertUnwindSafe(|| {
        // The text and the drop of an error are code of the program, too.
        send_parts(&mut frames, response, with_content).map_err(|error| error.to_string())
    }));
    match sent {
        Ok(Ok(())) => {}
        Ok(Err(_)) if frames.is_closed => {}
        Ok(Err(why)) => catch::content_failed(path, &why),
        Err(panic) => catch::content_failed(path, &catch::panic_text(panic)),
    }
    if !frames.has_ended {
        // The client sees that at once, even while it sends content. If this fails, the worker has closed the socket.
        let _ = frames.frame(FrameKind::Abort, &500u16.to_le_bytes()).and_then(|()| frames.flush());
    }
}

fn send_parts(
    frames: &mut FrameWriter<'_>,
    FunctionResponse { code, lines, content, .. }: FunctionResponse,
    with_content: bool,
) -> io::Result<()> {
    let len = match &content {
        ResponseContent::Bytes(bytes) => Some(bytes.len() as u64),
        ResponseContent::File { len, .. } => Some(*len),
        ResponseContent::Stream { len, .. } => *len,
    };
    // RFC 9110, section 8.6.
    frames.head(code, &lines, len.filter(|_| !matches!(code, 204 | 304)))?;
    if with_content && !matches!(code, 204 | 304) {
        match content {
            ResponseContent::Bytes(bytes) => frames.data(&bytes)?,
            ResponseContent::File { file, at, len } => send_file(frames, &file, at, len)?,
            ResponseContent::Stream { write, .. } => {
                // The client gets the head before the first byte of the content.
                frames.flush()?;
                let mut writer = ResponseWriter::new(frames);
                write.into_inner()(&mut writer)?;
                writer.flush()?;
            }
        }
    }
    frames.frame(FrameKind::End, b"")?;
    frames.has_ended = true;
    frames.flush()
}

fn send_file(frames: &mut FrameWriter<'_>, file: &File, mut at: u64, mut left: u64) -> io::Result<()> {
    let mut bytes = vec![0; FILE_READ_LEN.min(left) as usize];
    while left > 0 {
        let max = left.min(bytes.len() as u64) as usize;
        let len = match file.read_at(&mut bytes[..max], at) {
            Ok(0) => return Err(io::Error::other("the file is shorter than its range")),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            len => len?,
        };
        frames.data(&bytes[..len])?;
        (at, left) = (at + len as u64, left - len as u64);
    }
    Ok(())
}

/// How much of a file is read at once, in bytes: the pipe to the client holds as much.
const FILE_READ_LEN: u64 = 64 * 1024;

/// Writes frames. It collects small ones: a response of a few bytes is sent by one system call.
struct FrameWriter<'s> {
    socket: &'s UnixStream,
    buf: Vec<u8>,
    /// The response is complete.
    has_ended: bool,
    /// The worker has closed the socket: the client has left, or was too slow.
    is_closed: bool,
}

impl FrameWriter<'_> {
    fn head(&mut self, code: u16, lines: &[u8], content_len: Option<u64>) -> io::Result<()> {
        let mut bytes = [0; BUF_LEN];
        let mut list = MessageFieldsWriter::new(&mut bytes);
        let mut put = || {
            list.put(b":status", code.to_string().as_bytes())?;
            for line in lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
                let line = line.strip_suffix(b"\r").unwrap_or(line);
                let colon = line.iter().position(|&byte| byte == b':')?;
                list.put(&line[..colon], line[colon + 1..].trim_ascii())?;
            }
            if let Some(len) = content_len {
                list.put(b"content-length", len.to_string().as_bytes())?;
            }
            Some(list.len())
        };
        let len = put().ok_or_else(|| io::Error::other("the fields do not fit into a message"))?;
        self.frame(FrameKind::Head, &bytes[..len])
    }

    /// Adds data, of any length.
    fn data(&mut self, bytes: &[u8]) -> io::Result<()> {
        // The length of a frame has 32 bits.
        bytes.chunks(1 << 30).try_for_each(|part| self.frame(FrameKind::Data, part))
    }

    fn frame(&mut self, kind: FrameKind, bytes: &[u8]) -> io::Result<()> {
        self.buf.extend_from_slice(&FramePrefix { kind, len: bytes.len() as u32 }.encode());
        if bytes.len() <= BUF_LEN {
            self.buf.extend_from_slice(bytes);
            return if self.buf.len() < BUF_LEN { Ok(()) } else { self.flush() };
        }
        self.flush()?;
        self.write_all(bytes)
    }

    /// Sends what was collected.
    fn flush(&mut self) -> io::Result<()> {
        let mut buf = mem::take(&mut self.buf);
        let sent = self.write_all(&buf);
        buf.clear();
        self.buf = buf;
        sent
    }

    /// Writes all bytes. Unlike write(2), never raises SIGPIPE.
    fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match retry_on_intr(|| net::send(self.socket, bytes, NO_SIGNAL)) {
                Ok(len) => bytes = &bytes[len..],
                Err(error) => {
                    self.is_closed = true;
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }
}

impl SendContent for FrameWriter<'_> {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.data(bytes)?;
        self.flush()
    }
}

/// Reads the frames of a request.
struct FrameReader<'s> {
    socket: BufReader<&'s UnixStream>,
    /// The rest of a data frame, in bytes.
    data_left: usize,
    has_ended: bool,
}

impl<'s> FrameReader<'s> {
    fn new(socket: &'s UnixStream) -> FrameReader<'s> {
        FrameReader { socket: BufReader::with_capacity(BUF_LEN, socket), data_left: 0, has_ended: false }
    }

    fn prefix(&mut self) -> io::Result<FramePrefix> {
        let mut bytes = [0; FRAME_PREFIX_LEN];
        self.socket.read_exact(&mut bytes)?;
        match FramePrefix::decode(&bytes) {
            Ok(Some(prefix)) => Ok(prefix),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Reads the head: a list of fields.
    fn head(&mut self) -> io::Result<Vec<u8>> {
        let FramePrefix { kind: FrameKind::Head, len } = self.prefix()? else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let mut list = vec![0; len as usize];
        self.socket.read_exact(&mut list)?;
        Ok(list)
    }

    /// Reads the rest of the request, or until the worker closes the socket: closing earlier could make the worker fail to send, and drop
    /// the response.
    fn drain(&mut self) {
        let _ = io::copy(self, &mut io::sink());
    }
}

impl Read for FrameReader<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while self.data_left == 0 && !self.has_ended {
            match self.prefix()? {
                FramePrefix { kind: FrameKind::Data, len } => self.data_left = len as usize,
                FramePrefix { kind: FrameKind::End, .. } => self.has_ended = true,
                _ => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
        if self.has_ended || to.is_empty() {
            return Ok(0);
        }
        let bytes = self.socket.fill_buf()?;
        if bytes.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let len = bytes.len().min(self.data_left).min(to.len());
        to[..len].copy_from_slice(&bytes[..len]);
        self.socket.consume(len);
        self.data_left -= len;
        Ok(len)
    }
}
