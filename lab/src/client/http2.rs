//! A client of HTTP/2 on a blocking stream: it checks one response, or lets responses wait for a window.
//!
//! ```text
//! opening ─▶ SETTINGS of the server, and its acknowledgement ─▶ idle ─▶ HEADERS, … ─▶ heads of responses ─▶ contents, if there is a window
//! ```

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use super::http2_frames::{
    ACK, DATA, END_STREAM, FRAME_HEADER_LEN, GOAWAY, HEADERS, Http2Requests, PING, RST_STREAM, SETTINGS,
    opening, ping, settings_ack,
};
use super::request::RequestForm;
use super::tls::{TlsOffer, host};
use super::{ClientError, connect};

/// A connection with the settings of both sides in force.
pub(crate) struct LabHttp2Client {
    stream: Box<dyn ClientStream>,
    requests: Http2Requests,
    /// Bytes that are not read yet.
    wire: Vec<u8>,
    request_count: u32,
}

/// A socket, or TLS on it.
trait ClientStream: Read + Write {}

impl<T: Read + Write> ClientStream for T {}

/// A frame of a server.
struct ServerFrame {
    kind: u8,
    flags: u8,
    payload: Vec<u8>,
}

impl LabHttp2Client {
    /// Connects, with TLS if there is something to offer, and exchanges settings. Requests are for `path`, and each response has this window.
    pub(crate) fn connect(
        server: SocketAddr,
        offer: Option<&TlsOffer>,
        path: &str,
        stream_window: u32,
    ) -> Result<LabHttp2Client, ClientError> {
        let (stream, scheme, host): (Box<dyn ClientStream>, _, _) = match offer {
            None => (Box::new(connect(server, RESPONSE_TIME_MAX)?), "http", server.to_string()),
            Some(offer) => (Box::new(offer.connect(server, RESPONSE_TIME_MAX)?), "https", host(server)),
        };
        let requests = Http2Requests::new(scheme, &host, path, RequestForm::Short);
        LabHttp2Client::open(stream, requests, stream_window)
    }

    fn open(
        mut stream: Box<dyn ClientStream>,
        requests: Http2Requests,
        stream_window: u32,
    ) -> Result<LabHttp2Client, ClientError> {
        stream.write_all(&opening(stream_window))?;
        let mut client = LabHttp2Client { stream, requests, wire: Vec::new(), request_count: 0 };
        let (mut has_settings, mut has_ack) = (false, false);
        while !has_settings || !has_ack {
            let frame = client.read_frame()?;
            if frame.kind == SETTINGS {
                let is_ack = frame.flags & ACK != 0;
                has_ack |= is_ack;
                has_settings |= !is_ack;
            }
        }
        client.stream.write_all(&settings_ack())?;
        Ok(client)
    }

    /// Sends requests, and waits until all their responses have begun. A PING follows the requests: nginx with TLS would keep the heads of
    /// responses in its buffer.
    pub(crate) fn begin(&mut self, count: u32) -> Result<(), ClientError> {
        let requests = self.next_requests(count);
        self.stream.write_all(&[requests, ping()].concat())?;
        let (mut begun, mut has_pong) = (0, false);
        while begun < count || !has_pong {
            let frame = self.read_frame()?;
            match frame.kind {
                HEADERS => {
                    check_head(&frame)?;
                    begun += 1;
                }
                PING => has_pong = true,
                _ => {}
            }
        }
        Ok(())
    }

    /// Sends one request, and returns the content of its response.
    pub(crate) fn content(&mut self) -> Result<Vec<u8>, ClientError> {
        let request = self.next_requests(1);
        self.stream.write_all(&request)?;
        let mut content = Vec::new();
        loop {
            let frame = self.read_frame()?;
            match frame.kind {
                HEADERS => check_head(&frame)?,
                DATA => {
                    content.extend_from_slice(&frame.payload);
                    if frame.flags & END_STREAM != 0 {
                        return Ok(content);
                    }
                }
                _ => {}
            }
        }
    }

    /// Returns the next requests of this connection.
    fn next_requests(&mut self, count: u32) -> Vec<u8> {
        let numbers = self.request_count..self.request_count + count;
        self.request_count += count;
        numbers.flat_map(|number| self.requests.headers(2 * number + 1)).collect()
    }

    fn read_frame(&mut self) -> Result<ServerFrame, ClientError> {
        let mut input = [0; 16 << 10];
        loop {
            if let Some(frame) = take_frame(&mut self.wire) {
                return match frame.kind {
                    RST_STREAM | GOAWAY => {
                        Err(ClientError::Http2("the server ended a stream or the connection"))
                    }
                    _ => Ok(frame),
                };
            }
            match self.stream.read(&mut input)? {
                0 => return Err(ClientError::Closed),
                len => self.wire.extend_from_slice(&input[..len]),
            }
        }
    }
}

/// Takes the first frame, if it is complete.
fn take_frame(wire: &mut Vec<u8>) -> Option<ServerFrame> {
    let &[high, middle, low, kind, flags] = wire.first_chunk()?;
    let end = FRAME_HEADER_LEN + u32::from_be_bytes([0, high, middle, low]) as usize;
    let payload = wire.get(FRAME_HEADER_LEN..end)?.to_vec();
    wire.drain(..end);
    Some(ServerFrame { kind, flags, payload })
}

/// Fails unless a field block begins with the status 200. The size of the table may precede it: RFC 7541, section 6.3.
fn check_head(frame: &ServerFrame) -> Result<(), ClientError> {
    let mut fields = frame.payload.iter().skip_while(|byte| **byte & 0xe0 == 0x20);
    match fields.next() {
        Some(&STATUS_200) if frame.flags & END_STREAM == 0 => Ok(()),
        _ => Err(ClientError::Http2("a response has another status than 200, or no content")),
    }
}

/// Longest wait for a part of a response.
const RESPONSE_TIME_MAX: Duration = Duration::from_secs(10);

/// The index of `:status: 200`, RFC 7541, appendix A.
const STATUS_200: u8 = 0x88;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::http2_frames::frame;
    use std::io;

    #[test]
    fn client_reads_the_content_of_a_complete_response_alone() {
        let settings = [frame(SETTINGS, 0, 0, &[]), settings_ack()].concat();
        // The size of the table precedes the status.
        let [head_200, head_404] = [0x88, 0x8d].map(|status| frame(HEADERS, 4, 1, &[0x20, status]));
        let parts = [frame(DATA, 0, 1, b"he"), frame(DATA, END_STREAM, 1, b"llo")].concat();
        #[rustfmt::skip]
        let cases = [
            // case                 from the server                                              content
            ("two parts",           [&settings[..], &head_200, &parts].concat(),                 Some(&b"hello"[..])),
            ("other status",        [&settings[..], &head_404, &parts].concat(),                 None),
            ("reset",               [&settings[..], &frame(RST_STREAM, 0, 1, &[0; 4])].concat(), None),
            ("no end",              [&settings[..], &head_200, &frame(DATA, 0, 1, b"he")].concat(), None),
            ("settings not acknowledged", frame(SETTINGS, 0, 0, &[]),                            None),
        ];
        for (name, input, want) in cases {
            let stream = Box::new(RecordedServer { input: io::Cursor::new(input) });
            let requests = Http2Requests::new("http", "a", "/", RequestForm::Short);
            let content =
                LabHttp2Client::open(stream, requests, 65_535).and_then(|mut client| client.content());
            assert_eq!(content.ok().as_deref(), want, "{name}");
        }
    }

    /// A stream with what a server sends, which drops what it receives.
    struct RecordedServer {
        input: io::Cursor<Vec<u8>>,
    }

    impl Read for RecordedServer {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            // A few bytes at a time: frames arrive in parts.
            let len = buf.len().min(3);
            self.input.read(&mut buf[..len])
        }
    }

    impl Write for RecordedServer {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            Ok(buf.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
}
