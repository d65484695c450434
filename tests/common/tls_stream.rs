//! The client's end of a TLS connection, by rustls.
//!
//! It tells an end from a cut: only the closing alert of the server is the end. RFC 8446, section 6.1.

use super::{client::Stream, kernel::TcpPair};
use rustls::{ClientConfig, ClientConnection, pki_types::ServerName};
use std::{
    io::{self, ErrorKind, Read, Write},
    sync::Arc,
};

/// A socket whose bytes travel through TLS.
pub(crate) struct TlsStream<S> {
    pub(crate) conn: ClientConnection,
    pub(crate) socket: S,
}

impl<S: Stream> TlsStream<S> {
    /// Shakes hands on a connected socket, and checks the certificate for `localhost`.
    ///
    /// # Errors
    /// The handshake fails.
    pub(crate) fn new(socket: S, config: &Arc<ClientConfig>) -> io::Result<TlsStream<S>> {
        let mut stream = TlsStream::begin(socket, config);
        stream.shake_hands()?;
        Ok(stream)
    }

    /// Begins a handshake on a connected socket, and sends nothing yet.
    pub(crate) fn begin(socket: S, config: &Arc<ClientConfig>) -> TlsStream<S> {
        let name = ServerName::try_from("localhost").expect("a name");
        let mut conn = ClientConnection::new(Arc::clone(config), name).expect("a usable configuration");
        // A long request is sealed as a whole.
        conn.set_buffer_limit(None);
        TlsStream { conn, socket }
    }

    /// Takes what the client sends next, without sending it.
    pub(crate) fn flight(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.conn.wants_write() {
            self.conn.write_tls(&mut bytes).expect("memory");
        }
        bytes
    }

    /// Completes the handshake.
    ///
    /// # Errors
    /// The handshake fails.
    pub(crate) fn shake_hands(&mut self) -> io::Result<()> {
        self.write_records()?;
        while self.conn.is_handshaking() {
            self.read_records()?;
        }
        assert_eq!(self.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
        Ok(())
    }

    /// Receives once, and answers what has arrived.
    fn read_records(&mut self) -> io::Result<()> {
        // At the end of the socket, the next read of plain bytes is an error.
        let len = retry_on_interrupt(|| self.conn.read_tls(&mut self.socket))?;
        let state = self.conn.process_new_packets();
        let written = self.write_records();
        state.map_err(io::Error::other)?;
        if len == 0 && self.conn.is_handshaking() {
            return Err(cut());
        }
        written
    }

    fn write_records(&mut self) -> io::Result<()> {
        while self.conn.wants_write() {
            retry_on_interrupt(|| self.conn.write_tls(&mut self.socket))?;
        }
        Ok(())
    }

    /// Checks that the end of the socket follows the alert. Returns the length of the plain bytes.
    fn end(&mut self) -> io::Result<usize> {
        match retry_on_interrupt(|| self.socket.read(&mut [0]))? {
            0 => Ok(0),
            _ => {
                Err(io::Error::new(ErrorKind::InvalidData, "the server sends bytes after its closing alert"))
            }
        }
    }
}

fn cut() -> io::Error {
    io::Error::new(ErrorKind::ConnectionAborted, "the connection is cut: it ends without the closing alert")
}

fn retry_on_interrupt<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

impl<S: Stream> Read for TlsStream<S> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.conn.reader().read(to) {
                Ok(0) => return self.end(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.read_records()?,
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Err(cut()),
                read => return read,
            }
        }
    }
}

impl<S: Stream> Write for TlsStream<S> {
    /// Sends the bytes in records of their own.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = self.conn.writer().write(bytes)?;
        self.write_records().map(|()| len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<S: Stream> Stream for TlsStream<S> {
    fn send_close_notify(&mut self) -> io::Result<()> {
        self.conn.send_close_notify();
        self.write_records()
    }

    fn shutdown_write(&self) -> io::Result<()> {
        self.socket.shutdown_write()
    }

    fn set_blocking(&self, blocking: bool) -> io::Result<()> {
        self.socket.set_blocking(blocking)
    }

    fn tcp_pair(&self) -> Option<TcpPair> {
        self.socket.tcp_pair()
    }
}
