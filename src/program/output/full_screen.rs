//! The whole screen of a terminal, for a live view: keys arrive one by one, and the text before returns at the end.
//!
//! ```text
//! open ─ raw mode, alternate screen, no cursor ─▶ draw … ─▶ drop, panic ─ all of it back
//! ```

use rustix::{
    stdio::{stdin, stdout},
    termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr},
};
use std::{io, panic, sync::Mutex};

/// The screen while a live view has it. Dropping it restores the terminal, and so does a panic before its message.
pub(crate) struct FullScreen(());

/// The settings of the terminal before.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Alternate screen, and no cursor.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l";
/// The cursor, and the screen of before.
const LEAVE: &[u8] = b"\x1b[?25h\x1b[?1049l";

impl FullScreen {
    /// Takes the screen.
    ///
    /// # Errors
    /// Standard input or output is no terminal.
    pub(crate) fn open() -> io::Result<FullScreen> {
        let before = tcgetattr(stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        *BEFORE.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(before);
        let screen = FullScreen(());
        tcsetattr(stdin(), OptionalActions::Flush, &raw)?;
        let hook = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            restore();
            hook(info);
        }));
        write_all(ENTER)?;
        Ok(screen)
    }

    /// Draws lines in place of those before.
    pub(crate) fn draw(&self, lines: &[String]) -> io::Result<()> {
        // Each line clears what was right of it, and the last one what was below.
        let mut frame = String::from("\x1b[H");
        frame += &lines.join("\x1b[K\r\n");
        frame += "\x1b[K\x1b[J";
        write_all(frame.as_bytes())
    }

    /// Returns the columns and rows of the screen.
    pub(crate) fn size(&self) -> (usize, usize) {
        match tcgetwinsize(stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
            _ => (80, 24),
        }
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the terminal, once.
fn restore() {
    let before = BEFORE.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
    if let Some(before) = before {
        // The terminal may have gone.
        let _ = write_all(LEAVE);
        let _ = tcsetattr(stdin(), OptionalActions::Drain, &before);
    }
}

fn write_all(mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(stdout(), bytes) {
            Ok(len) => bytes = &bytes[len..],
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
