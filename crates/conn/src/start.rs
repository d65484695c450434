//! How a response starts: status line, `Server`, `Date`, and `Connection` where one is due. RFC 9110, section
//! 6.6.1 (Date); RFC 9112, section 9.3 (Connection).
//!
//! A worker renders one row for each status and each fate of the connection, anew when the second changes.
//! A response then names its row; nothing is formatted while it is made.
//!
//! The rows may be rendered only while no send that names one is under way.

use tarpon_http::{date, status::Status};

/// What becomes of the connection after a response, and what of it must be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It persists, as HTTP/1.1 assumes.
    Persist,
    /// It persists, which a client of HTTP/1.0 must be told.
    PersistSaid,
    /// It ends.
    Close,
}

/// Names a row of [`Starts`], with its length, which never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    row: u8,
    len: u8,
}

impl Start {
    /// Length in bytes.
    #[inline]
    pub fn len(self) -> usize {
        self.len as usize
    }

    /// Never: a start has a status line at least.
    pub fn is_empty(self) -> bool {
        false
    }
}

/// The rendered rows of one worker.
pub struct Starts {
    rows: Box<[Row; ROW_COUNT]>,
    unix_s: u64,
}

#[derive(Clone, Copy)]
struct Row {
    len: u8,
    bytes: [u8; ROW_LEN_MAX],
}

impl Starts {
    /// Rendered for the given time, in seconds since 1970.
    pub fn new(unix_s: u64) -> Starts {
        let mut starts =
            Starts { rows: Box::new([Row { len: 0, bytes: [0; ROW_LEN_MAX] }; ROW_COUNT]), unix_s };
        starts.render();
        starts
    }

    /// Tells the time; renders when the second is another one.
    #[inline]
    pub fn set_time(&mut self, unix_s: u64) {
        if unix_s != self.unix_s {
            self.unix_s = unix_s;
            self.render();
        }
    }

    /// The time in `Date`, in seconds since 1970.
    #[inline]
    pub fn unix_s(&self) -> u64 {
        self.unix_s
    }

    /// The row for a status and a fate.
    #[inline]
    pub fn start(&self, status: Status, fate: Fate) -> Start {
        let row = status.index() * FATES.len() + fate as usize;
        Start { row: row as u8, len: self.rows[row].len }
    }

    /// The bytes of a start, as of now.
    #[inline]
    pub fn bytes(&self, start: Start) -> &[u8] {
        &self.rows[start.row as usize].bytes[..start.len()]
    }

    #[cold]
    fn render(&mut self) {
        let date = date::format(self.unix_s);
        for status in Status::ALL {
            for fate in FATES {
                let row = &mut self.rows[status.index() * FATES.len() + fate as usize];
                *row = Row::render(status, fate, &date);
            }
        }
    }
}

impl Row {
    fn render(status: Status, fate: Fate, date: &[u8; 29]) -> Row {
        let mut row = Row { len: 0, bytes: [0; ROW_LEN_MAX] };
        let code = status.code();
        row.put(b"HTTP/1.1 ");
        row.put(&[100, 10, 1].map(|unit| b'0' + (code / unit % 10) as u8));
        row.put(b" ");
        row.put(status.reason().as_bytes());
        row.put(b"\r\nServer: tarpon\r\nDate: ");
        row.put(date);
        row.put(match fate {
            Fate::Persist => b"\r\n",
            Fate::PersistSaid => b"\r\nConnection: keep-alive\r\n",
            Fate::Close => b"\r\nConnection: close\r\n",
        });
        row
    }

    fn put(&mut self, bytes: &[u8]) {
        let at = self.len as usize;
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len() as u8;
    }
}

const FATES: [Fate; 3] = [Fate::Persist, Fate::PersistSaid, Fate::Close];
const ROW_COUNT: usize = Status::ALL.len() * FATES.len();
/// The longest reason phrase, "Request Header Fields Too Large", makes a row of 124 bytes.
const ROW_LEN_MAX: usize = 135;
const _: () = assert!(ROW_COUNT <= u8::MAX as usize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_status_server_date_and_fate() {
        let starts = Starts::new(784_111_777);
        #[rustfmt::skip]
        let cases = [
            (Status::Ok, Fate::Persist, "HTTP/1.1 200 OK\r\nServer: tarpon\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"),
            (Status::Ok, Fate::PersistSaid, "HTTP/1.1 200 OK\r\nServer: tarpon\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nConnection: keep-alive\r\n"),
            (Status::HttpVersionNotSupported, Fate::Close, "HTTP/1.1 505 HTTP Version Not Supported\r\nServer: tarpon\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nConnection: close\r\n"),
        ];
        for (status, fate, want) in cases {
            assert_eq!(starts.bytes(starts.start(status, fate)), want.as_bytes());
        }
    }

    #[test]
    fn the_length_of_a_row_outlives_its_second() {
        let mut starts = Starts::new(784_111_777);
        let before = starts.start(Status::NotFound, Fate::Close);
        starts.set_time(784_111_778);
        assert_eq!(starts.start(Status::NotFound, Fate::Close), before);
        assert!(starts.bytes(before).windows(8).any(|w| w == b"08:49:38"));
    }
}
