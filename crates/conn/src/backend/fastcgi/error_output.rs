//! What a program writes to its standard error, as lines: bounded in length and number.

/// How many bytes of a line are kept, at most. The rest of a longer one is dropped.
pub const ERROR_LINE_LEN_MAX: usize = 1024;

/// How many lines of one exchange are kept, at most: a program in a loop costs little.
const ERROR_LINE_COUNT_MAX: u32 = 100;

/// The lines of one exchange.
#[derive(Debug, Default)]
pub(in crate::backend) struct ErrorOutput {
    /// Complete lines that were not taken.
    complete: Vec<Vec<u8>>,
    /// The start of the line that is not complete.
    line: Vec<u8>,
    is_cut: bool,
    /// The lines so far.
    count: u32,
}

impl ErrorOutput {
    /// Adds bytes that the program has written. The lines do not depend on how they are split.
    pub(in crate::backend) fn add(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            let text = part.strip_suffix(b"\n").unwrap_or(part);
            let room = ERROR_LINE_LEN_MAX - self.line.len();
            self.is_cut |= text.len() > room;
            self.line.extend_from_slice(&text[..text.len().min(room)]);
            if text.len() < part.len() {
                self.end_line();
            }
        }
    }

    /// Ends the last line, if it has no end.
    pub(in crate::backend) fn finish(&mut self) {
        self.end_line();
    }

    /// Returns the lines that are complete, the oldest first.
    pub(in crate::backend) fn take(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.complete)
    }

    fn end_line(&mut self) {
        let mut line = std::mem::take(&mut self.line);
        let is_cut = std::mem::take(&mut self.is_cut);
        if line.last() == Some(&b'\r') && !is_cut {
            line.pop();
        }
        if line.is_empty() {
            return;
        }
        self.count = self.count.saturating_add(1);
        if is_cut {
            line.extend_from_slice("…".as_bytes());
        }
        match self.count {
            ..=ERROR_LINE_COUNT_MAX => self.complete.push(line),
            count if count == ERROR_LINE_COUNT_MAX + 1 => {
                self.complete.push(b"the program has written further lines, which are not shown".to_vec());
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bounded_at_every_cut() {
        let long = "x".repeat(ERROR_LINE_LEN_MAX);
        let (over, cut) = (long.clone() + "yy\r\n", long.clone() + "…");
        let (many, whole) = ("a\n".repeat(1_000), long.clone() + "\n");
        let first = vec!["a"; ERROR_LINE_COUNT_MAX as usize];
        let many_lines = [first, vec!["the program has written further lines, which are not shown"]].concat();
        #[rustfmt::skip]
        let cases: &[(&str, &str, Vec<&str>)] = &[
            // case               output                    lines
            ("one",               "hello\n",                vec!["hello"]),
            ("without an end",    "hello",                  vec!["hello"]),
            ("two",               "hello\nworld\n",         vec!["hello", "world"]),
            ("CRLF",              "hello\r\nworld\r\n",     vec!["hello", "world"]),
            ("empty lines",       "\n\r\nhello\n\n",        vec!["hello"]),
            ("as long as it may", &whole,                   vec![&long]),
            ("longer",            &over,                    vec![&cut]),
            ("many",              &many,                    many_lines),
        ];
        for (name, text, want) in cases {
            for cut in [1, 2, 3, 1_000, text.len()] {
                let mut output = ErrorOutput::default();
                text.as_bytes().chunks(cut).for_each(|part| output.add(part));
                output.finish();
                let lines = output.take();
                let lines: Vec<_> = lines.iter().map(|line| str::from_utf8(line).unwrap()).collect();
                assert_eq!(lines, *want, "{name}, {cut} bytes at a time");
                assert!(output.take().is_empty());
            }
        }
    }
}
