//! Where lines go: a file, standard output, or a Unix socket on which somebody listens.
//!
//! What a user names is a [`LogTarget`]; opened, it is a [`LogSink`]. Whoever may not open files is handed a sink that
//! somebody else has opened.

use super::rotate::Rotator;
use crate::base::{
    error::{UserError, reason},
    log_config::{LogTarget, Rotation},
};
use rustix::{
    io::ioctl_fionbio,
    net::{SocketType, sockopt::socket_type},
};
use std::{
    fmt,
    fs::File,
    io::{self, Write},
    os::{
        fd::OwnedFd,
        unix::{
            fs::OpenOptionsExt,
            net::{UnixDatagram, UnixStream},
        },
    },
    path::Path,
    time::{Duration, Instant},
};

/// Where lines go.
pub struct LogSink {
    way: SinkKind,
    /// The last write ended within a line.
    torn: bool,
    /// Told when nobody listens any more.
    broken: Option<Box<dyn FnMut() + Send>>,
    /// Not told again before.
    next: Instant,
}

/// Whoever is told that nobody listens is not told again before so much time.
const BROKEN_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug)]
enum SinkKind {
    File(File),
    /// A file that is replaced by the next one when it is full or old.
    Turning(File, Rotator),
    Stream(UnixStream),
    Datagrams(UnixDatagram),
}

impl LogTarget {
    /// Opens it.
    ///
    /// # Errors
    /// The file cannot be made or appended to; nobody listens on the socket.
    pub fn open(&self) -> Result<LogSink, UserError> {
        match self {
            LogTarget::Stdout => stdout(),
            LogTarget::File(path) => append(path).map(SinkKind::File),
            LogTarget::Socket(path) => connect(path),
        }
        .map(LogSink::new)
        .map_err(|error| self.trouble(&error))
    }

    /// Opens it, and has a file take turns with others: see [`Rotation`]. Of other targets it is nothing to ask.
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
                Ok(LogSink::new(SinkKind::Turning(file.try_clone()?, Rotator::new(path, &file, rotation)?)))
            })
            .map_err(|error| self.trouble(&error))
    }

    /// Whether it is a file that can be renamed: not the name of a standard stream.
    pub(crate) fn rotates(&self) -> bool {
        matches!(self, LogTarget::File(path) if !is_stream(path))
    }

    fn trouble(&self, error: &io::Error) -> UserError {
        let what = format_args!("cannot log to {self}");
        let is_link = |path: &Path| path.symlink_metadata().is_ok_and(|found| found.is_symlink());
        let remedy = match self {
            LogTarget::File(path) if !is_stream(path) && is_link(path) => {
                let why = "it is a symbolic link, which is not followed";
                return UserError::new(what, why, "name the file that it leads to, or - for standard output");
            }
            LogTarget::Socket(_) => "start what listens there first, or name a file with --access-log FILE",
            _ => "name a file in a directory that exists and may be written to, or - for standard output",
        };
        UserError::new(what, reason(error), remedy)
    }
}

impl LogSink {
    fn new(way: SinkKind) -> LogSink {
        LogSink { way, torn: false, broken: None, next: Instant::now() }
    }

    /// Has `broken` told when nobody listens any more on a socket or a pipe, now and then while lines are lost. Another sink
    /// may take the place of this one then: [`Handle::log_to`](crate::Handle::log_to).
    #[must_use]
    pub fn on_disconnect(mut self, broken: impl FnMut() + Send + 'static) -> LogSink {
        self.broken = Some(Box::new(broken));
        self
    }

    /// For a process that opens it for another one.
    pub(crate) fn into_descriptor(self) -> OwnedFd {
        match self.way {
            SinkKind::File(file) | SinkKind::Turning(file, _) => file.into(),
            SinkKind::Stream(stream) => stream.into(),
            SinkKind::Datagrams(socket) => socket.into(),
        }
    }

    /// Writes whole lines. It may have to wait for whoever reads.
    pub(super) fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        let written = self.try_write(lines);
        if let Err(error) = &written
            && is_broken(error)
            && let Some(broken) = &mut self.broken
            && self.next <= Instant::now()
        {
            self.next = Instant::now() + BROKEN_INTERVAL;
            broken();
        }
        written
    }

    fn try_write(&mut self, lines: &[u8]) -> io::Result<()> {
        match &mut self.way {
            SinkKind::Datagrams(socket) => lines
                .split_inclusive(|&byte| byte == b'\n')
                .try_for_each(|line| socket.send(line.strip_suffix(b"\n").unwrap_or(line)).map(drop)),
            SinkKind::File(file) => write_lines(file, lines, &mut self.torn),
            SinkKind::Stream(stream) => write_lines(stream, lines, &mut self.torn),
            SinkKind::Turning(file, turns) => {
                let (mut rest, mut done) = (lines, Ok(()));
                while !rest.is_empty() {
                    // Where no other file can be had, the lines go on in this one.
                    let (len, turned) = turns.before(rest, file);
                    let (now, later) = rest.split_at(len);
                    done = done.and(turned);
                    write_lines(file, now, &mut self.torn)?;
                    rest = later;
                }
                done
            }
        }
    }
}

/// Whether an error says that nobody listens.
fn is_broken(error: &io::Error) -> bool {
    use io::ErrorKind as K;
    matches!(error.kind(), K::BrokenPipe | K::ConnectionRefused | K::ConnectionReset | K::NotConnected)
}

/// Ends a line that an earlier write has left unfinished, as on a disk that was full, before it writes more.
fn write_lines(to: &mut impl Write, lines: &[u8], torn: &mut bool) -> io::Result<()> {
    if *torn {
        to.write_all(b"\n")?;
        *torn = false;
    }
    let mut rest = lines;
    while !rest.is_empty() {
        match to.write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(len) => rest = &rest[len..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                *torn = lines[..lines.len() - rest.len()].last().is_some_and(|&byte| byte != b'\n');
                return Err(error);
            }
        }
    }
    Ok(())
}

impl From<File> for LogSink {
    /// A file, a pipe or a terminal that somebody else has opened.
    fn from(file: File) -> LogSink {
        LogSink::new(SinkKind::File(file))
    }
}

impl From<OwnedFd> for LogSink {
    /// The same, or a socket that is connected.
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
        self.way.fmt(f)
    }
}

fn stdout() -> io::Result<SinkKind> {
    use std::os::fd::AsFd;
    Ok(SinkKind::File(io::stdout().as_fd().try_clone_to_owned()?.into()))
}

/// For appending: several may write, and logrotate may cut it short. Does not wait for a reader where it is a pipe: without one
/// it cannot be had. fifo(7).
///
/// Does not follow a link at the end of the path: the supervisor may be root, and a log may lie in a directory that other users write
/// to. Makes a new file for its owner and group only, as the log names clients and their requests.
pub(super) fn append(path: &Path) -> io::Result<File> {
    let links = if is_stream(path) { 0 } else { libc::O_NOFOLLOW };
    let mut options = File::options();
    options.append(true).create(true).mode(MODE).custom_flags(libc::O_NONBLOCK | links);
    let file = options.open(path)?;
    // To write to it may wait.
    ioctl_fionbio(&file, false)?;
    Ok(file)
}

/// The mode of a new file; the umask may take more of it.
const MODE: u32 = 0o640;

/// Names that are links on every system, and lead to what the program was started with.
fn is_stream(path: &Path) -> bool {
    [Path::new("/dev/stdout"), Path::new("/dev/stderr")].contains(&path)
}

fn connect(path: &Path) -> io::Result<SinkKind> {
    let datagrams = UnixDatagram::unbound()?;
    match datagrams.connect(path) {
        Ok(()) => Ok(SinkKind::Datagrams(datagrams)),
        // EPROTOTYPE: somebody listens, but for a stream.
        Err(_) => UnixStream::connect(path).map(SinkKind::Stream),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_renamed_and_a_standard_stream_is_not() {
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
