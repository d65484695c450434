//! Frames that a client of HTTP/2 sends: RFC 9113. Field blocks use the table of HPACK as browsers do: RFC 7541.
//!
//! ```text
//! preface ─ SETTINGS ─ WINDOW_UPDATE ─ HEADERS of the first request, whose fields enter the table ─ HEADERS that name them by index
//! ```

use super::request::RequestForm;

/// The length of a frame without its payload.
pub(crate) const FRAME_HEADER_LEN: usize = 9;

/// The types of frames.
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

/// Flags of frames.
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// Returns a frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u32).to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Returns the first bytes of a client: the preface and its settings, with this window for each stream and the largest one for the connection.
pub(crate) fn opening(stream_window: u32) -> Vec<u8> {
    let settings = [&INITIAL_WINDOW_SIZE.to_be_bytes()[..], &stream_window.to_be_bytes()].concat();
    let increment = (WINDOW_MAX - DEFAULT_WINDOW).to_be_bytes();
    [PREFACE, &frame(SETTINGS, 0, 0, &settings), &frame(WINDOW_UPDATE, 0, 0, &increment)].concat()
}

/// Returns the frame that acknowledges the settings of the server.
pub(crate) fn settings_ack() -> Vec<u8> {
    frame(SETTINGS, ACK, 0, &[])
}

/// Returns the frame that the server sends back.
pub(crate) fn ping() -> Vec<u8> {
    frame(PING, 0, 0, b"tarponlb")
}

/// The requests of a client for one path of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Http2Requests {
    /// The field block of the first request of a connection.
    first: Vec<u8>,
    /// The field block of each later one.
    next: Vec<u8>,
}

impl Http2Requests {
    /// Encodes requests with the fields that such a request has over HTTP/1, except those of the connection.
    pub(crate) fn new(scheme: &str, host: &str, path: &str, form: RequestForm) -> Http2Requests {
        let scheme = if scheme == "https" { HTTPS } else { HTTP };
        let mut blocks = Http2Requests { first: vec![INDEXED | GET, INDEXED | scheme], next: Vec::new() };
        // Each request has another path in a browser, so the path does not enter the table.
        blocks.first.push(PATH);
        push_string(&mut blocks.first, path);
        blocks.next.clone_from(&blocks.first);
        let mut fields = vec![(":authority".to_owned(), host.to_owned())];
        fields.extend(form.fields().filter(|(name, _)| name != "connection"));
        for (number, (name, value)) in fields.iter().enumerate() {
            blocks.first.push(LITERAL_WITH_INDEXING);
            push_string(&mut blocks.first, name);
            push_string(&mut blocks.first, value);
            // The last field that entered the table has the lowest index of it.
            blocks.next.push(INDEXED | (TABLE_START + (fields.len() - 1 - number)) as u8);
        }
        blocks
    }

    /// Returns HEADERS of a request: the first of a connection has the stream 1.
    pub(crate) fn headers(&self, stream: u32) -> Vec<u8> {
        let block = if stream == 1 { &self.first } else { &self.next };
        frame(HEADERS, END_STREAM | END_HEADERS, stream, block)
    }
}

/// Appends a string without Huffman coding.
fn push_string(block: &mut Vec<u8>, text: &str) {
    match text.len().checked_sub(LEN_PREFIX_MAX) {
        None => block.push(text.len() as u8),
        Some(mut rest) => {
            block.push(LEN_PREFIX_MAX as u8);
            while rest >= 128 {
                block.push(rest as u8 | 128);
                rest >>= 7;
            }
            block.push(rest as u8);
        }
    }
    block.extend_from_slice(text.as_bytes());
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The setting of the window of each stream.
const INITIAL_WINDOW_SIZE: u16 = 4;

/// The window of a connection at its start, and the largest one.
const DEFAULT_WINDOW: u32 = 65_535;
const WINDOW_MAX: u32 = (1 << 31) - 1;

/// Representations of fields, RFC 7541, section 6: the first bits of each, or an index in the static table with a literal that is not indexed.
const INDEXED: u8 = 0x80;
const LITERAL_WITH_INDEXING: u8 = 0x40;
const PATH: u8 = 4;

/// Entries of the static table, and the first index after it.
const GET: u8 = 2;
const HTTP: u8 = 6;
const HTTPS: u8 = 7;
const TABLE_START: usize = 62;

/// The first length of a string that takes more than one byte.
const LEN_PREFIX_MAX: usize = 127;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opening_and_requests_have_the_bytes_of_the_rfc() {
        let opening = opening(0);
        let (preface, frames) = opening.split_at(PREFACE.len());
        assert_eq!(preface, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        let settings = [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0];
        let window = [0, 0, 4, 8, 0, 0, 0, 0, 0, 0x7f, 0xff, 0, 0];
        assert_eq!(frames, [&settings[..], &window].concat());
        let requests = Http2Requests::new("http", "a", "/b", RequestForm::Short);
        let first =
            [&[0, 0, 20, 1, 5, 0, 0, 0, 1][..], b"\x82\x86\x04\x02/b\x40\x0a:authority\x01a"].concat();
        assert_eq!(requests.headers(1), first);
        let next = [&[0, 0, 7, 1, 5, 0, 0, 0, 3][..], b"\x82\x86\x04\x02/b\xbe"].concat();
        assert_eq!(requests.headers(3), next);
    }

    #[test]
    fn fields_of_a_browser_are_indexes_after_the_first_request() {
        let requests = Http2Requests::new("https", "www.example.org", "/", RequestForm::Browser);
        let next = [&[0, 0, 17, 1, 5, 0, 0, 0, 5][..], b"\x82\x87\x04\x01/"].concat();
        let indexes: Vec<u8> = (0..12).rev().map(|number| 0x80 | (62 + number)).collect();
        assert_eq!(requests.headers(5), [next, indexes].concat());
    }

    #[test]
    fn long_string_has_its_length_in_several_bytes() {
        for (len, want) in [(126, &[126][..]), (127, &[127, 0]), (128, &[127, 1]), (300, &[127, 0xad, 1])] {
            let mut block = Vec::new();
            push_string(&mut block, &"x".repeat(len));
            assert_eq!(&block[..want.len()], want, "{len}");
            assert_eq!(block.len(), want.len() + len);
        }
    }
}
