//! The content of a response that a function writes: a stream of bytes, or server-sent events.

use std::io::{self, Write};

/// Writes the content of a response. It collects small writes; [`flush`](Write::flush) sends them at once. A write waits while the client
/// does not receive, and fails when the client leaves.
pub struct ResponseWriter<'w> {
    to: &'w mut (dyn SendContent + 'w),
    buf: Vec<u8>,
}

/// Sends parts of the content of a response.
pub(crate) trait SendContent {
    /// Sends a part, of any length.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()>;
}

/// Writes that are shorter than this, in bytes, are sent together: a buffer of the server.
const COLLECTED_LEN: usize = 16 * 1024;

impl<'w> ResponseWriter<'w> {
    pub(crate) fn new(to: &'w mut (dyn SendContent + 'w)) -> ResponseWriter<'w> {
        ResponseWriter { to, buf: Vec::new() }
    }
}

impl Write for ResponseWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buf.len() + bytes.len() > COLLECTED_LEN {
            self.flush()?;
        }
        match bytes.len() >= COLLECTED_LEN {
            true => self.to.send(bytes)?,
            false => self.buf.extend_from_slice(bytes),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.buf.is_empty() {
            self.to.send(&self.buf)?;
            self.buf.clear();
        }
        Ok(())
    }
}

impl std::fmt::Debug for ResponseWriter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResponseWriter").field("collected", &self.buf.len()).finish_non_exhaustive()
    }
}

/// Sends server-sent events, as the HTML standard defines them.
#[derive(Debug)]
pub struct EventWriter<'e, 'w> {
    to: &'e mut ResponseWriter<'w>,
}

impl<'e, 'w> EventWriter<'e, 'w> {
    pub(crate) fn new(to: &'e mut ResponseWriter<'w>) -> EventWriter<'e, 'w> {
        EventWriter { to }
    }

    /// Sends an event with this data.
    ///
    /// # Errors
    /// The client has left.
    pub fn send(&mut self, data: &str) -> io::Result<()> {
        self.put_lines("data", data)?;
        self.end()
    }

    /// Sends an event with this data, a type that clients listen to, and an id from which they continue after a lost connection. A line
    /// break in the type or the id ends it.
    ///
    /// # Errors
    /// The client has left.
    pub fn send_typed(&mut self, event: &str, id: &str, data: &str) -> io::Result<()> {
        for (name, value) in [("event", event), ("id", id)] {
            let line = value.split(['\r', '\n', '\0']).next().unwrap_or_default();
            if !line.is_empty() {
                writeln!(self.to, "{name}: {line}")?;
            }
        }
        self.put_lines("data", data)?;
        self.end()
    }

    /// Sends a comment, which clients ignore. Without an event for a long time, it shows that the connection is alive, and finds out whether
    /// the client has left.
    ///
    /// # Errors
    /// The client has left.
    pub fn comment(&mut self, text: &str) -> io::Result<()> {
        self.put_lines("", text)?;
        self.end()
    }

    fn put_lines(&mut self, name: &str, text: &str) -> io::Result<()> {
        // Each of the three is a line end of the format.
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        text.split('\n').try_for_each(|line| writeln!(self.to, "{name}: {line}"))
    }

    fn end(&mut self) -> io::Result<()> {
        self.to.write_all(b"\n")?;
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Parts(Vec<Vec<u8>>);

    impl SendContent for Parts {
        fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
            self.0.push(bytes.to_vec());
            Ok(())
        }
    }

    #[test]
    fn each_event_is_sent_at_once_and_no_text_ends_it_early() {
        let mut parts = Parts::default();
        let mut writer = ResponseWriter::new(&mut parts);
        let mut events = EventWriter::new(&mut writer);
        events.send("one").unwrap();
        events.send("a\nb\r\n\r\nevent: c\rd").unwrap();
        events.send_typed("tick\ndata: x", "7", "").unwrap();
        events.comment("alive").unwrap();
        let want = [
            "data: one\n\n",
            "data: a\ndata: b\ndata: \ndata: event: c\ndata: d\n\n",
            "event: tick\nid: 7\ndata: \n\n",
            ": alive\n\n",
        ];
        assert_eq!(parts.0, want.map(|part| part.as_bytes().to_vec()));
    }

    #[test]
    fn small_writes_are_sent_together_and_large_ones_alone() {
        let mut parts = Parts::default();
        let mut writer = ResponseWriter::new(&mut parts);
        for _ in 0..3 {
            writer.write_all(&[1; 6_000]).unwrap();
        }
        writer.write_all(&[2; 20_000]).unwrap();
        writer.flush().unwrap();
        assert_eq!(parts.0.iter().map(Vec::len).collect::<Vec<_>>(), [12_000, 6_000, 20_000]);
    }
}
