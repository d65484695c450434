//! Where lines go: a file, standard output, or a Unix socket.
//!
//! A user configures a [`LogTarget`]; opened, it is a [`LogSink`]. The supervisor opens sinks for processes that may not open files.

use super::{
    file::{append, check_append, is_stream},
    rotate::Rotator,
};
use crate::{
    base::{
        error::{UserError, reason},
        log_config::{LogTarget, Rotation},
    },
    sys::socket,
};
use rustix::{
    io::Errno,
    net::{self, AddressFamily, SocketAddrUnix, SocketType, sockopt::socket_type},
};
use std::{
    fmt,
    fs::File,
    io::{self, Write},
    os::{
        fd::OwnedFd,
        unix::net::{UnixDatagram, UnixStream},
    },
    path::Path,
    time::{Duration, Instant},
};

/// The open destination of a log.
pub struct LogSink {
    kind: SinkKind,
    /// The last write ended with a partial line.
    has_partial_line: bool,
    /// Called when the reader has gone.
    on_disconnect: Option<Box<dyn FnMut() + Send>>,
    /// `on_disconnect` is not called again before this time.
    notify_after: Instant,
}

/// The shortest time between two calls of `on_disconnect`.
const DISCONNECT_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug)]
enum SinkKind {
    File(File),
    /// A file that rotates when it is full or old.
    Rotating(File, Rotator),
    Stream(UnixStream),
    Datagrams(UnixDatagram),
}

impl LogTarget {
    /// Opens the target.
    ///
    /// # Errors
    /// The file cannot be created or appended to; no process listens on the socket.
    pub fn open(&self) -> Result<LogSink, UserError> {
        match self {
            LogTarget::Stdout => stdout(),
            LogTarget::File(path) => append(path).map(SinkKind::File),
            LogTarget::Socket(path) => connect(path),
        }
        .map(LogSink::new)
        .map_err(|error| self.open_error(&error))
    }

    /// Checks whether the target can be opened, without creating a file.
    ///
    /// # Errors
    /// Those of [`LogTarget::open`].
    pub(crate) fn check(&self) -> Result<(), UserError> {
        match self {
            LogTarget::Stdout => Ok(()),
            LogTarget::File(path) => check_append(path),
            LogTarget::Socket(path) => connect(path).map(drop),
        }
        .map_err(|error| self.open_error(&error))
    }

    /// Opens the target, and rotates a file: see [`Rotation`]. Other targets do not rotate.
    ///
    /// # Errors
    /// Those of [`LogTarget::open`].
    pub fn open_rotating(&self, rotation: Rotation) -> Result<LogSink, UserError> {
        let LogTarget::File(path) = self else { return self.open() };
        if !self.rotates() {
            return self.open();
        }
        append(path)
            .and_then(|file| {
                Ok(LogSink::new(SinkKind::Rotating(file.try_clone()?, Rotator::new(path, &file, rotation)?)))
            })
            .map_err(|error| self.open_error(&error))
    }

    /// Returns whether the target is a file that can be renamed, so not a standard stream.
    pub(crate) fn rotates(&self) -> bool {
        matches!(self, LogTarget::File(path) if !is_stream(path))
    }

    fn open_error(&self, error: &io::Error) -> UserError {
        let what = format_args!("cannot log to {self}");
        let is_link = |path: &Path| path.symlink_metadata().is_ok_and(|found| found.is_symlink());
        let hint = match self {
            LogTarget::File(path) if !is_stream(path) && is_link(path) => {
                let why = "it is a symbolic link, which is not followed";
                return UserError::new(what, why, "name the target of the link, or - for standard output");
            }
            LogTarget::Socket(_) => "start the log reader first, or name a file with --access-log FILE",
            _ => "name a file in an existing, writable directory, or - for standard output",
        };
        UserError::new(what, reason(error), hint)
    }
}

impl LogSink {
    fn new(kind: SinkKind) -> LogSink {
        LogSink { kind, has_partial_line: false, on_disconnect: None, notify_after: Instant::now() }
    }

    /// Calls `on_disconnect` when the reader of a socket or a pipe has gone, and at intervals while lines are lost. It may set another
    /// sink: [`Handle::log_to`](crate::Handle::log_to).
    #[must_use]
    pub fn on_disconnect(mut self, on_disconnect: impl FnMut() + Send + 'static) -> LogSink {
        self.on_disconnect = Some(Box::new(on_disconnect));
        self
    }

    /// Returns the descriptor, to send it to another process.
    pub(crate) fn into_descriptor(self) -> OwnedFd {
        match self.kind {
            SinkKind::File(file) | SinkKind::Rotating(file, _) => file.into(),
            SinkKind::Stream(stream) => stream.into(),
            SinkKind::Datagrams(socket) => socket.into(),
        }
    }

    /// Writes whole lines. May block until the reader reads.
    pub(super) fn write(&mut self, lines: &[u8]) -> Result<(), LogWriteError> {
        let written = self.try_write(lines);
        if let Err(LogWriteError { error, .. }) = &written
            && is_disconnect(error)
            && let Some(on_disconnect) = &mut self.on_disconnect
            && self.notify_after <= Instant::now()
        {
            self.notify_after = Instant::now() + DISCONNECT_INTERVAL;
            on_disconnect();
        }
        written
    }

    fn try_write(&mut self, lines: &[u8]) -> Result<(), LogWriteError> {
        match &mut self.kind {
            SinkKind::Datagrams(socket) => {
                let mut rest = lines;
                for line in lines.split_inclusive(|&byte| byte == b'\n') {
                    let sent = socket.send(line.strip_suffix(b"\n").unwrap_or(line));
                    sent.map_err(|error| LogWriteError::new(error, rest))?;
                    rest = &rest[line.len()..];
                }
                Ok(())
            }
            SinkKind::File(file) => write_lines(file, lines, &mut self.has_partial_line),
            SinkKind::Stream(stream) => write_lines(stream, lines, &mut self.has_partial_line),
            SinkKind::Rotating(file, rotator) => {
                let (mut rest, mut done) = (lines, Ok(()));
                while !rest.is_empty() {
                    // If the rotation fails, the lines go to the current file.
                    let (len, rotated) = rotator.rotate_before(rest, file);
                    let (now, later) = rest.split_at(len);
                    done = done.and(rotated);
                    write_lines(file, now, &mut self.has_partial_line)
                        .map_err(|error| LogWriteError { lost: error.lost + line_count(later), ..error })?;
                    rest = later;
                }
                done.map_err(|error| LogWriteError::new(error, b""))
            }
        }
    }
}

/// Why lines could not be written.
#[derive(Debug)]
pub(super) struct LogWriteError {
    pub(super) error: io::Error,
    /// The lines that were lost. An error of a rotation loses none.
    pub(super) lost: u64,
}

impl LogWriteError {
    /// Returns the error that has lost these lines.
    fn new(error: io::Error, rest: &[u8]) -> LogWriteError {
        LogWriteError { error, lost: line_count(rest) }
    }
}

fn line_count(lines: &[u8]) -> u64 {
    lines.iter().filter(|&&byte| byte == b'\n').count() as u64
}

/// Returns whether an error means that the reader has gone.
fn is_disconnect(error: &io::Error) -> bool {
    use io::ErrorKind as K;
    matches!(error.kind(), K::BrokenPipe | K::ConnectionRefused | K::ConnectionReset | K::NotConnected)
}

/// Writes lines, and first ends a partial line of an earlier write, as on a full disk.
fn write_lines(to: &mut impl Write, lines: &[u8], has_partial_line: &mut bool) -> Result<(), LogWriteError> {
    if *has_partial_line {
        to.write_all(b"\n").map_err(|error| LogWriteError::new(error, lines))?;
        *has_partial_line = false;
    }
    let mut rest = lines;
    while !rest.is_empty() {
        match to.write(rest) {
            Ok(0) => return Err(LogWriteError::new(io::ErrorKind::WriteZero.into(), rest)),
            Ok(len) => rest = &rest[len..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                *has_partial_line =
                    lines[..lines.len() - rest.len()].last().is_some_and(|&byte| byte != b'\n');
                return Err(LogWriteError::new(error, rest));
            }
        }
    }
    Ok(())
}

impl From<File> for LogSink {
    /// An open file, pipe or terminal.
    fn from(file: File) -> LogSink {
        LogSink::new(SinkKind::File(file))
    }
}

impl From<OwnedFd> for LogSink {
    /// An open file, pipe or terminal, or a connected socket.
    fn from(fd: OwnedFd) -> LogSink {
        match socket_type(&fd) {
            Ok(SocketType::DGRAM) => LogSink::new(SinkKind::Datagrams(fd.into())),
            Ok(_) => LogSink::new(SinkKind::Stream(fd.into())),
            Err(_) => File::from(fd).into(),
        }
    }
}

impl fmt::Debug for LogSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

fn stdout() -> io::Result<SinkKind> {
    use std::os::fd::AsFd;
    Ok(SinkKind::File(io::stdout().as_fd().try_clone_to_owned()?.into()))
}

/// Connects to a socket without blocking: the supervisor does it while it serves. A datagram socket comes first.
fn connect(path: &Path) -> io::Result<SinkKind> {
    let datagrams = UnixDatagram::unbound()?;
    match datagrams.connect(path) {
        Ok(()) => Ok(SinkKind::Datagrams(datagrams)),
        // EPROTOTYPE: a process listens, but for a stream.
        Err(_) => connect_stream(path).map(SinkKind::Stream),
    }
}

fn connect_stream(path: &Path) -> io::Result<UnixStream> {
    let socket = socket::stream(AddressFamily::UNIX)?;
    match net::connect(&socket, &SocketAddrUnix::new(path)?) {
        Ok(()) => {}
        // unix(7): a blocking connect would wait for room in the backlog.
        Err(Errno::AGAIN) => {
            return Err(io::Error::new(
                io::ErrorKind::WouldBlock,
                "its reader accepts no connection: its backlog is full",
            ));
        }
        Err(error) => return Err(error.into()),
    }
    let stream = UnixStream::from(socket);
    // The process that writes the log may block.
    stream.set_nonblocking(false)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_rotates_and_standard_stream_does_not() {
        let cases = [
            ("access.log", true),
            ("/var/log/access.log", true),
            ("/dev/stdout", false),
            ("/dev/stderr", false),
            ("-", false),
            ("unix:/run/log.sock", false),
        ];
        for (text, want) in cases {
            let target: LogTarget = text.parse().unwrap();
            assert_eq!(target.rotates(), want, "{text}");
        }
    }
}
