//! Ways to send a file to a socket, each as a server can use it.

use std::fs::{self, File};
use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process;
use std::time::Duration;

use io_uring::types::Fd;
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::sendfile;
use rustix::net::{SendFlags, send};
use rustix::pipe::{fcntl_setpipe_size, pipe};

use crate::measure::cpu::{ServerThreads, thread_time};
use crate::records::send_method::SendMethod;

/// Returns the CPU time of this thread, and of those that the kernel has made for its ring.
pub(crate) fn sending_time() -> io::Result<Duration> {
    let of_ring = ServerThreads::of(process::id())?.named(&format!("iou-wrk-{}", process::id()));
    Ok(thread_time() + of_ring.time()?)
}

/// Reads all, and returns how much it was.
pub(crate) fn drain(mut socket: TcpStream) -> io::Result<u64> {
    let (mut buffer, mut received) = (vec![0; PIECE_LEN], 0);
    loop {
        match socket.read(&mut buffer)? {
            0 => return Ok(received),
            len => received += len as u64,
        }
    }
}

/// A file, and what the methods need to send it.
pub(crate) struct FileSender {
    /// Precedes the content. It may be empty.
    head: Vec<u8>,
    file: File,
    size: u64,
    /// The content of the file, and the buffer of reads. A ring may read the former.
    content: Vec<u8>,
    buffer: Vec<u8>,
    /// Dropped before the content: the kernel is then done with it.
    ring: IoUring,
    pipe: (OwnedFd, OwnedFd),
    pub(crate) system_calls: u64,
}

impl FileSender {
    /// Opens a file, and reads it into memory too.
    pub(crate) fn open(path: &Path, head: Vec<u8>) -> io::Result<FileSender> {
        let content = fs::read(path)?;
        let (pipe, ring) = (pipe()?, IoUring::new(RING_LEN)?);
        fcntl_setpipe_size(&pipe.1, PIECE_LEN)?;
        Ok(FileSender {
            head,
            file: File::open(path)?,
            size: content.len() as u64,
            content,
            buffer: vec![0; READ_LEN],
            ring,
            pipe,
            system_calls: 0,
        })
    }

    /// Sends the head and the file once. The socket blocks.
    pub(crate) fn send(&mut self, method: SendMethod, socket: &TcpStream) -> io::Result<()> {
        let has_head_apart = !matches!(method, SendMethod::Read | SendMethod::Memory);
        if has_head_apart && !self.head.is_empty() {
            self.system_calls += 1;
            send(socket, &self.head, SendFlags::MORE)?;
        }
        match method {
            SendMethod::Read => self.send_read(socket),
            SendMethod::Memory => self.send_memory(socket),
            SendMethod::SendFile => self.send_file(socket),
            SendMethod::RingSplice => self.splice(socket),
            SendMethod::RingZeroCopy => self.send_zero_copy(socket),
        }
    }

    fn send_read(&mut self, socket: &TcpStream) -> io::Result<()> {
        let mut at = 0;
        while at < self.size {
            let len = self.file.read_at(&mut self.buffer, at)?;
            let head = if at == 0 { &self.head[..] } else { &[] };
            self.system_calls += 1 + write_all(socket, head, &self.buffer[..len])?;
            at += len as u64;
        }
        Ok(())
    }

    fn send_memory(&mut self, socket: &TcpStream) -> io::Result<()> {
        self.system_calls += write_all(socket, &self.head, &self.content)?;
        Ok(())
    }

    fn send_file(&mut self, socket: &TcpStream) -> io::Result<()> {
        let mut at = 0;
        while at < self.size {
            let rest = (self.size - at) as usize;
            sendfile(socket, &self.file, Some(&mut at), rest)?;
            self.system_calls += 1;
        }
        Ok(())
    }

    fn splice(&mut self, socket: &TcpStream) -> io::Result<()> {
        let (from_pipe, to_pipe) = (Fd(self.pipe.0.as_raw_fd()), Fd(self.pipe.1.as_raw_fd()));
        let (file, socket) = (Fd(self.file.as_raw_fd()), Fd(socket.as_raw_fd()));
        let mut at = 0;
        while at < self.size {
            let len = (self.size - at).min(PIECE_LEN as u64) as u32;
            let fill = opcode::Splice::new(file, at as i64, to_pipe, -1, len).build();
            let empty =
                |len: u32| opcode::Splice::new(from_pipe, -1, socket, -1, len).build().user_data(EMPTY);
            let [filled, emptied] = self
                .complete(&[fill.flags(squeue::Flags::IO_LINK), empty(len)])?
                .map(|result| result.max(0) as u32);
            if filled == 0 {
                return Err(io::Error::other("a splice from the file has failed"));
            }
            // A short splice ends the chain, and leaves the rest in the pipe.
            let mut in_pipe = filled - emptied;
            while in_pipe > 0 {
                let [_, emptied] = self.complete(&[empty(in_pipe)])?;
                in_pipe -=
                    u32::try_from(emptied).ok().filter(|len| *len > 0).ok_or_else(|| failed(emptied))?;
            }
            at += u64::from(filled);
        }
        Ok(())
    }

    fn send_zero_copy(&mut self, socket: &TcpStream) -> io::Result<()> {
        let mut at = 0;
        while at < self.content.len() {
            let rest = &self.content[at..];
            let entry = opcode::SendZc::new(Fd(socket.as_raw_fd()), rest.as_ptr(), rest.len() as u32).build();
            let [sent, _] = self.complete(&[entry])?;
            match sent {
                1.. => at += sent as usize,
                _ => return Err(failed(sent)),
            }
        }
        Ok(())
    }

    /// Runs operations, and waits until the kernel is done with all they name. Returns the results of those without and with [`EMPTY`].
    fn complete(&mut self, entries: &[squeue::Entry]) -> io::Result<[i32; 2]> {
        for entry in entries {
            // SAFETY: the operations name descriptors of this value and of the other end, and the content here, which does not change. This
            // function returns after the last completion of each.
            unsafe { self.ring.submission().push(entry) }.map_err(io::Error::other)?;
        }
        let (mut results, mut waiting) = ([0; 2], entries.len());
        while waiting > 0 {
            self.ring.submit_and_wait(waiting)?;
            self.system_calls += 1;
            for completion in self.ring.completion() {
                if !cqueue::notif(completion.flags()) {
                    results[usize::from(completion.user_data() == EMPTY)] = completion.result();
                }
                // A send without a copy completes again once the kernel is done with the bytes.
                waiting -= usize::from(!cqueue::more(completion.flags()));
            }
        }
        Ok(results)
    }
}

/// Writes both, and returns how many system calls it took.
fn write_all(mut socket: &TcpStream, head: &[u8], content: &[u8]) -> io::Result<u64> {
    let mut parts = &mut [IoSlice::new(head), IoSlice::new(content)][..];
    let mut calls = 0;
    IoSlice::advance_slices(&mut parts, 0);
    while !parts.is_empty() {
        let len = socket.write_vectored(parts)?;
        IoSlice::advance_slices(&mut parts, len);
        calls += 1;
    }
    Ok(calls)
}

fn failed(result: i32) -> io::Error {
    io::Error::from_raw_os_error(-result)
}

/// The user data of a splice from the pipe.
const EMPTY: u64 = 1;

const RING_LEN: u32 = 8;

/// The room of the pipe in bytes: the most that a process without privileges may have.
const PIECE_LEN: usize = 1 << 20;

/// Bytes of a read that a send follows.
const READ_LEN: usize = 128 << 10;
