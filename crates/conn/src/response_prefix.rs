//! Response prefixes: status line, `Server`, `Date`, and `Connection` if the response needs it. RFC 9110, section 6.6.1 (Date); RFC 9112,
//! section 9.3 (Connection).
//!
//! A worker renders one row for each status and each persistence, again when the second changes. A response then names its row: nothing
//! is formatted while a request is answered.
//!
//! The rows may be rendered only while no send that names one is in flight.
//!
//! For HTTP/2 a worker renders the same fields as HPACK: `:status` once for each status, and Server and Date again each second. A response copies
//! them.

use tarpon_http::{date, h2::hpack::encode_field, status::Status};

/// Whether the connection persists after a response, and what the response says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// It persists, as HTTP/1.1 assumes.
    Persist,
    /// It persists, and the response says so to a client of HTTP/1.0.
    KeepAlive,
    /// It closes, and the response says so.
    Close,
}

/// The name of a row of [`ResponsePrefixes`], with its length, which never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponsePrefix {
    row: u8,
    len: u8,
}

impl ResponsePrefix {
    /// Returns the length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "a prefix has a status line at least")]
    #[inline]
    pub fn len(self) -> usize {
        self.len as usize
    }
}

/// The rendered rows of one worker.
pub struct ResponsePrefixes {
    rows: Box<[PrefixRow; ROW_COUNT]>,
    unix_s: u64,
    date: [u8; 29],
    /// The whole line, or empty.
    server: &'static [u8],
    /// `:status` as HPACK, by [`Status::index`].
    hpack_statuses: [HpackFields<HPACK_STATUS_LEN_MAX>; Status::ALL.len()],
    /// Server and Date as HPACK.
    hpack_fields: HpackFields<HPACK_FIELDS_LEN_MAX>,
}

/// A few fields as HPACK.
#[derive(Clone, Copy)]
struct HpackFields<const LEN_MAX: usize> {
    len: u8,
    bytes: [u8; LEN_MAX],
}

impl<const LEN_MAX: usize> HpackFields<LEN_MAX> {
    const EMPTY: HpackFields<LEN_MAX> = HpackFields { len: 0, bytes: [0; LEN_MAX] };

    fn put(&mut self, name: &[u8], value: &[u8]) {
        encode_field(name, value, &mut |byte| {
            self.bytes[self.len as usize] = byte;
            self.len += 1;
        });
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }
}

#[derive(Clone, Copy)]
struct PrefixRow {
    len: u8,
    bytes: [u8; ROW_LEN_MAX],
}

impl ResponsePrefixes {
    /// Renders the rows for a time in seconds since 1970.
    pub fn new(unix_s: u64) -> ResponsePrefixes {
        let rows = Box::new([PrefixRow { len: 0, bytes: [0; ROW_LEN_MAX] }; ROW_COUNT]);
        let server = b"Server: tarpon\r\n";
        let mut hpack_statuses = [HpackFields::EMPTY; Status::ALL.len()];
        for status in Status::ALL {
            hpack_statuses[status.index()].put(b":status", &digits(status.code()));
        }
        let hpack_fields = HpackFields::EMPTY;
        let date = date::format(unix_s);
        let mut prefixes = ResponsePrefixes { rows, unix_s, date, server, hpack_statuses, hpack_fields };
        prefixes.render();
        prefixes
    }

    /// Leaves the field Server out. The rows are rendered without it, so a response costs the same.
    #[must_use]
    pub fn without_server(mut self) -> ResponsePrefixes {
        self.server = b"";
        self.render();
        self
    }

    /// Sets the time. Renders the rows if the second has changed.
    #[inline]
    pub fn set_time(&mut self, unix_s: u64) {
        if unix_s != self.unix_s {
            self.unix_s = unix_s;
            self.render();
        }
    }

    /// Returns the time in `Date`, in seconds since 1970.
    #[inline]
    pub fn unix_s(&self) -> u64 {
        self.unix_s
    }

    /// Returns the value of `Date`.
    pub(crate) fn date(&self) -> &[u8; 29] {
        &self.date
    }

    /// Returns the line of the field Server, or nothing.
    pub(crate) fn server(&self) -> &'static [u8] {
        self.server
    }

    /// Returns the prefix for a status and a persistence.
    #[inline]
    pub fn prefix(&self, status: Status, persistence: Persistence) -> ResponsePrefix {
        let row = status.index() * PERSISTENCES.len() + persistence as usize;
        ResponsePrefix { row: row as u8, len: self.rows[row].len }
    }

    /// Returns the current bytes of a prefix.
    #[inline]
    pub fn bytes(&self, prefix: ResponsePrefix) -> &[u8] {
        &self.rows[prefix.row as usize].bytes[..prefix.len()]
    }

    /// Returns `:status` as HPACK.
    #[inline]
    pub(crate) fn hpack_status(&self, status: Status) -> &[u8] {
        self.hpack_statuses[status.index()].bytes()
    }

    /// Returns Server and Date as HPACK.
    #[inline]
    pub(crate) fn hpack_fields(&self) -> &[u8] {
        self.hpack_fields.bytes()
    }

    #[cold]
    fn render(&mut self) {
        self.date = date::format(self.unix_s);
        self.hpack_fields = HpackFields::EMPTY;
        if !self.server.is_empty() {
            self.hpack_fields.put(b"server", SERVER_NAME);
        }
        self.hpack_fields.put(b"date", &self.date);
        for status in Status::ALL {
            for persistence in PERSISTENCES {
                let row = &mut self.rows[status.index() * PERSISTENCES.len() + persistence as usize];
                *row = PrefixRow::render(status, persistence, self.server, &self.date);
            }
        }
    }
}

impl PrefixRow {
    fn render(status: Status, persistence: Persistence, server: &[u8], date: &[u8; 29]) -> PrefixRow {
        let mut row = PrefixRow { len: 0, bytes: [0; ROW_LEN_MAX] };
        let code = status.code();
        row.put(b"HTTP/1.1 ");
        row.put(&digits(code));
        row.put(b" ");
        row.put(status.reason().as_bytes());
        row.put(b"\r\n");
        row.put(server);
        row.put(b"Date: ");
        row.put(date);
        row.put(match persistence {
            Persistence::Persist => b"\r\n",
            Persistence::KeepAlive => b"\r\nConnection: keep-alive\r\n",
            Persistence::Close => b"\r\nConnection: close\r\n",
        });
        row
    }

    fn put(&mut self, bytes: &[u8]) {
        let at = self.len as usize;
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len() as u8;
    }
}

/// Returns the three digits of a status code.
pub(crate) fn digits(code: u16) -> [u8; 3] {
    [100, 10, 1].map(|unit| b'0' + (code / unit % 10) as u8)
}

/// The value of Server.
const SERVER_NAME: &[u8] = b"tarpon";

/// An index of a name, and a string of three bytes.
const HPACK_STATUS_LEN_MAX: usize = 6;

/// Two literals with an index of a name: the name of the server and a date, which have no more bytes with the Huffman code.
const HPACK_FIELDS_LEN_MAX: usize = 2 * (2 + 1) + SERVER_NAME.len() + 29;

const PERSISTENCES: [Persistence; 3] = [Persistence::Persist, Persistence::KeepAlive, Persistence::Close];
const ROW_COUNT: usize = Status::ALL.len() * PERSISTENCES.len();
/// The longest reason phrase, "Request Header Fields Too Large", makes a row of 124 bytes.
const ROW_LEN_MAX: usize = 135;
const _: () = assert!(ROW_COUNT <= u8::MAX as usize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_has_status_server_date_and_persistence() {
        let prefixes = ResponsePrefixes::new(784_111_777);
        #[rustfmt::skip]
        let cases = [
            (Status::Ok, Persistence::Persist, "HTTP/1.1 200 OK\r\nServer: tarpon\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"),
            (Status::Ok, Persistence::KeepAlive, "HTTP/1.1 200 OK\r\nServer: tarpon\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nConnection: keep-alive\r\n"),
            (Status::HttpVersionNotSupported, Persistence::Close, "HTTP/1.1 505 HTTP Version Not Supported\r\nServer: tarpon\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nConnection: close\r\n"),
        ];
        for (status, persistence, want) in cases {
            assert_eq!(prefixes.bytes(prefixes.prefix(status, persistence)), want.as_bytes());
        }
    }

    #[test]
    fn prefix_without_server_keeps_the_other_fields() {
        let mut prefixes = ResponsePrefixes::new(784_111_776).without_server();
        prefixes.set_time(784_111_777);
        let want = "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
        assert_eq!(prefixes.bytes(prefixes.prefix(Status::Ok, Persistence::Persist)), want.as_bytes());
    }

    #[test]
    fn length_of_a_prefix_does_not_change_with_the_date() {
        let mut prefixes = ResponsePrefixes::new(784_111_777);
        let before = prefixes.prefix(Status::NotFound, Persistence::Close);
        prefixes.set_time(784_111_778);
        assert_eq!(prefixes.prefix(Status::NotFound, Persistence::Close), before);
        assert!(prefixes.bytes(before).windows(8).any(|w| w == b"08:49:38"));
    }
}
