//! A naive server: the first rungs of a ladder, as published stories tell them. Each rung drops one mistake of those before it.
//!
//! ```text
//! accept ─▶ fork ─▶ read a request ─▶ type, log line ─▶ open, fstat, read ─▶ write ─▶ exit      one request for each connection
//! ```

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{self, Command};

use clap::{Args, ValueEnum};
use rustix::process::{Signal, WaitOptions, set_parent_process_death_signal, wait};

use crate::error::LabError;
use crate::measure::machine::now;
use crate::sys::fork;

/// Options of `tarpon-lab naive-server`.
#[derive(Args)]
pub(crate) struct NaiveServerArgs {
    /// Stand on this rung
    #[arg(long, value_enum)]
    rung: NaiveRung,
    /// Listen on this address
    #[arg(long, value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Serve the files of this directory
    #[arg(long, value_name = "DIR")]
    site: PathBuf,
    /// Append a line for each request to this file, on the rungs that do so
    #[arg(long, value_name = "FILE")]
    log: PathBuf,
}

/// The mistakes that are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum NaiveRung {
    /// The type of a file comes from an external program, through a pipe
    Program,
    /// The database of types is read for each request
    Database,
    /// A timestamp is formatted and the log opened for each request
    Log,
    /// Requests are read, and responses written, byte by byte
    Bytes,
    /// A file is opened and read for each request
    Files,
}

/// Serves until the process is killed or its parent exits.
pub(crate) fn run(args: &NaiveServerArgs) -> Result<(), LabError> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let listener = TcpListener::bind(args.listen)?;
    loop {
        let (stream, _) = listener.accept()?;
        if fork()?.is_none() {
            let code = if args.respond(stream).is_ok() { 0 } else { 1 };
            process::exit(code);
        }
        // The kernel adds the times of children that were waited for to those of their parent.
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
    }
}

impl NaiveServerArgs {
    fn respond(&self, mut stream: TcpStream) -> io::Result<()> {
        let request = self.read_request(&mut stream)?;
        let target = request.split(' ').nth(1).unwrap_or("/").trim_start_matches('/').to_owned();
        // No step up: the lab requests a page of its own.
        let path = self.site.join(target.replace("..", ""));
        let Ok(content) = read_file(&path) else {
            return stream
                .write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        };
        let kind = self.media_type(&path)?;
        if self.rung <= NaiveRung::Log {
            let line = format!(
                "{} \"{}\" 200 {}\n",
                now(),
                request.lines().next().unwrap_or_default(),
                content.len()
            );
            File::options().create(true).append(true).open(&self.log)?.write_all(line.as_bytes())?;
        }
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            content.len()
        );
        match self.rung <= NaiveRung::Bytes {
            true => head.bytes().chain(content).try_for_each(|byte| stream.write_all(&[byte])),
            false => stream.write_all(&[head.as_bytes(), &content].concat()),
        }
    }

    /// Reads up to the end of the head.
    fn read_request(&self, stream: &mut TcpStream) -> io::Result<String> {
        let len = if self.rung <= NaiveRung::Bytes { 1 } else { 4096 };
        let (mut head, mut piece) = (Vec::new(), vec![0; len]);
        while !head.ends_with(b"\r\n\r\n") && head.len() < HEAD_LEN_MAX {
            match stream.read(&mut piece)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                len => head.extend_from_slice(&piece[..len]),
            }
        }
        Ok(String::from_utf8_lossy(&head).into_owned())
    }

    fn media_type(&self, path: &Path) -> io::Result<String> {
        match self.rung {
            NaiveRung::Program => {
                let output = Command::new("file").args(["--brief", "--mime-type"]).arg(path).output()?;
                Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
            }
            NaiveRung::Database => {
                // The cost is that of reading it; its content does not matter here.
                let database = fs::read(DATABASE)?;
                Ok(if database.is_empty() { "text/plain" } else { "text/html" }.to_owned())
            }
            _ => Ok("text/html".to_owned()),
        }
    }
}

/// Opens, asks for the length, and reads.
fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut content = Vec::with_capacity(file.metadata()?.len() as usize);
    file.read_to_end(&mut content)?;
    Ok(content)
}

/// The compiled database of libmagic, where Debian has it: about 8 MB.
pub(crate) const DATABASE: &str = "/usr/lib/file/magic.mgc";

/// Longest head that is read.
const HEAD_LEN_MAX: usize = 16 << 10;
