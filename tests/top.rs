//! `tarpon top`: a live view on a terminal, and a snapshot without one.

use crate::common::{
    client::{TestClient, get},
    program::{RunningProgram, serve, tarpon},
    site, wait_for,
};
use rustix::{
    process::Signal,
    termios::{Termios, Winsize, tcgetattr, tcsetwinsize},
};
use std::{ffi::OsStr, fs::File, io::Write, os::unix::process::ExitStatusExt, path::Path, process::Command};

const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

fn top(socket: &str, options: &[&str]) -> Command {
    tarpon(["top", "--admin", socket].iter().chain(options).map(OsStr::new))
}

fn socket_in(dir: &Path) -> String {
    format!("unix:{}", dir.join("admin.sock").display())
}

/// The view on a terminal.
struct TopScreen {
    program: RunningProgram,
    keys: File,
    terminal: File,
    before: Termios,
}

impl TopScreen {
    fn start(socket: &str) -> TopScreen {
        let (program, keys, terminal) = RunningProgram::start_with_keys(top(socket, &[]), None);
        // A new terminal: the program may have changed it already, so the settings are those of another one.
        let before = fresh_settings();
        TopScreen { program, keys, terminal, before }
    }

    /// Returns what the last whole frame shows, without its sequences.
    fn frame(&self) -> String {
        let out = self.program.out();
        let frames: Vec<_> = out.split("\x1b[H").collect();
        let last =
            frames.iter().skip(1).rev().find(|frame| frame.contains("\x1b[J")).copied().unwrap_or_default();
        let text = last.split("\x1b[J").next().unwrap_or_default().replace("\x1b[K", "").replace('\r', "");
        anstream::adapter::strip_str(&text).to_string()
    }

    #[track_caller]
    fn wait_for_frame(&self, what: &str, is_it: impl Fn(&str) -> bool) {
        wait_for(what, || is_it(&self.frame()).then_some(()));
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("a terminal");
    }

    /// The terminal is as it was before.
    #[track_caller]
    fn assert_restored(self, code: Option<i32>, signal: Option<Signal>) {
        let TopScreen { program, keys, terminal, before } = self;
        let after = wait_for("the settings of before", || {
            let after = tcgetattr(&terminal).expect("a terminal");
            (after.local_modes == before.local_modes).then_some(after)
        });
        assert_eq!((after.input_modes, after.output_modes), (before.input_modes, before.output_modes));
        // The reader ends with the last descriptor of the terminal.
        drop(terminal);
        let exit = program.wait();
        drop(keys);
        assert_eq!(
            (exit.status.code(), exit.status.signal()),
            (code, signal.map(Signal::as_raw)),
            "{exit:?}"
        );
        let begin = exit.out.find(ENTER).expect("the alternate screen");
        let end = exit.out.rfind(LEAVE).expect("the screen of before");
        assert!(begin < end && exit.out[end..].trim() == LEAVE, "{:?}", &exit.out[end..]);
    }
}

/// Returns the settings of a terminal that no program has changed.
fn fresh_settings() -> Termios {
    let (program, _keys, terminal) = RunningProgram::start_with_keys(Command::new("true"), None);
    let settings = tcgetattr(&terminal).expect("a terminal");
    drop(terminal);
    drop(program);
    settings
}

#[test]
fn keys_change_the_view_and_quit_restores_the_terminal() {
    let dir = site(&[("index.html", "home")]);
    let run = tempfile::TempDir::new().expect("a directory");
    let socket = socket_in(run.path());
    let server = RunningProgram::start_ready(serve(dir.path(), &["--admin", &socket]));
    for (quit, status) in [("q", Some(0)), ("\x03", Some(0))] {
        let mut screen = TopScreen::start(&socket);
        screen.wait_for_frame("the state", |frame| {
            frame.starts_with("tarpon ") && frame.contains("serving for") && frame.contains("site 1")
        });
        let mut client = TestClient::connect(server.address());
        client.send(get("/?secret=1"));
        assert_eq!(client.try_response().expect("a response").status, 200);
        screen.wait_for_frame("rates", |frame| !frame.contains("requests/s              -"));
        screen.press("s");
        screen.wait_for_frame("another order", |frame| frame.contains("by errors (s)"));
        screen.press("?");
        screen.wait_for_frame("help", |frame| frame.contains("Ctrl-C") && !frame.contains("serving"));
        screen.press("?");
        screen.wait_for_frame("the state", |frame| frame.contains("serving for"));
        // A narrower terminal has shorter lines.
        let size = Winsize { ws_row: 20, ws_col: 46, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&screen.keys, size).expect("a size");
        screen.program.signal(Signal::WINCH);
        screen.wait_for_frame("a narrow view", |frame| frame.lines().all(|line| line.chars().count() <= 46));
        assert!(!screen.program.out().contains("secret") && !screen.program.out().contains("127.0.0.1"));
        screen.press(quit);
        screen.assert_restored(status, None);
    }
}

#[test]
fn signals_restore_the_terminal() {
    let run = tempfile::TempDir::new().expect("a directory");
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let screen = TopScreen::start(&socket_in(run.path()));
        screen.wait_for_frame("a frame", |frame| frame.contains("no server"));
        screen.program.signal(signal);
        screen.assert_restored(None, Some(signal));
    }
}

#[test]
fn server_may_leave_and_return() {
    let dir = site(&[("index.html", "home")]);
    let run = tempfile::TempDir::new().expect("a directory");
    let socket = socket_in(run.path());
    let mut screen = TopScreen::start(&socket);
    for _ in 0..2 {
        screen.wait_for_frame("the missing server", |frame| {
            frame.contains("cannot reach the server") && frame.contains("trying again")
        });
        let server = RunningProgram::start_ready(serve(dir.path(), &["--admin", &socket]));
        screen.wait_for_frame("the server", |frame| {
            frame.contains("serving for") && !frame.contains("trying again")
        });
        server.signal(Signal::TERM);
        assert!(server.wait().status.success());
    }
    screen.press("q");
    screen.assert_restored(Some(0), None);
}

#[test]
fn snapshot_without_a_terminal_is_plain_text() {
    let dir = site(&[("index.html", "home")]);
    let run = tempfile::TempDir::new().expect("a directory");
    let socket = socket_in(run.path());
    let server = RunningProgram::start_ready(serve(dir.path(), &["--admin", &socket]));
    for options in [&[][..], &["--once"]] {
        let exit = RunningProgram::run(top(&socket, options));
        assert!(exit.status.success() && exit.err.is_empty(), "{exit:?}");
        assert!(
            exit.out.starts_with("tarpon ") && exit.out.contains("requests/s              0"),
            "{exit:?}"
        );
        assert!(
            !exit.out.contains('\x1b') && exit.out.lines().all(|line| line.chars().count() <= 80),
            "{exit:?}"
        );
    }
    drop(server);
    let exit = RunningProgram::run(top(&socket_in(Path::new("/nonexistent")), &[]));
    assert!(
        exit.status.code() == Some(1)
            && exit.err.starts_with("tarpon: cannot reach the server at unix:/nonexistent"),
        "{exit:?}"
    );
}
