//! `tarpon hash-password`: prints the hash of a password, as a configuration has it.

use super::{CommandResult, ignore_closed_pipe};
use crate::{
    PasswordUser, UserError,
    base::{
        error::reason,
        password::{PasswordAlgorithm, PasswordHash, SALT_LEN},
    },
};
use clap::{ArgMatches, FromArgMatches, Parser, ValueEnum};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::{
    io::{self, BufRead, IsTerminal, Read, Write},
    os::fd::AsFd,
};
use tarpon_http::basic::CREDENTIALS_LEN_MAX;
use tarpon_site::Printable;
use zeroize::Zeroizing;

/// Print the hash of a password, for users-file and users in the configuration
///
/// Asks for the password twice at a terminal, without showing it, or reads one line from a pipe. It is never an argument, which other users of
/// the machine could read.
#[derive(Debug, Parser)]
#[command(name = "hash-password")]
pub(super) struct HashPasswordArgs {
    /// Print a whole line NAME:HASH for this user
    #[arg(short, long, value_name = "NAME")]
    user: Option<String>,

    /// Make the hash by this algorithm
    #[arg(short, long, value_enum, default_value_t = AlgorithmChoice::Argon2id)]
    algorithm: AlgorithmChoice,
}

/// The algorithms by name.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum AlgorithmChoice {
    /// Argon2id with 19 MiB and two passes
    Argon2id,
    /// Bcrypt with cost 12, which other web servers read too
    Bcrypt,
}

/// The length of a line that is read: longer than any password.
const LINE_LEN_MAX: u64 = 4096;

/// The byte that Ctrl-C sends to a terminal.
const CTRL_C: u8 = 3;

pub(super) fn run(matches: &ArgMatches) -> CommandResult {
    let HashPasswordArgs { user, algorithm } = HashPasswordArgs::from_arg_matches(matches)?;
    let algorithm = match algorithm {
        AlgorithmChoice::Argon2id => PasswordAlgorithm::Argon2id,
        AlgorithmChoice::Bcrypt => PasswordAlgorithm::Bcrypt,
    };
    if let Some(name) = &user {
        check_name(name)?;
    }
    let password = if io::stdin().is_terminal() { ask_twice()? } else { read_line()? };
    check_password(&password, user.as_deref().unwrap_or_default())?;
    let mut salt = [0; SALT_LEN];
    getrandom::fill(&mut salt).map_err(|_| "cannot make a salt: the kernel gives no random bytes")?;
    let hash = PasswordHash::new(&password, algorithm, salt)
        .map_err(|error| UserError::new("cannot hash the password", &error.why, error.hint))?;
    let name = user.map(|name| name + ":").unwrap_or_default();
    ignore_closed_pipe(writeln!(io::stdout(), "{name}{}", hash.as_str()))
}

/// Checks the name of a user before anybody types a password.
fn check_name(name: &str) -> Result<(), UserError> {
    let error = |why: &str| {
        UserError::new(format_args!("cannot use the name {}", name.printable()), why, "choose another name")
    };
    if name.contains(':') {
        return Err(error("a colon ends the name"));
    }
    if name.starts_with('#') {
        return Err(error("a line that begins with # is a comment"));
    }
    // A hash that is valid behind every valid name.
    let line = format!("{name}:$2y$04$......................LAtw7/ohmmBAhnXqmkuIz83Rl5Qdjhm");
    line.parse::<PasswordUser>().map(drop).map_err(|invalid| error(&invalid.why))
}

/// Checks that a request can have the password.
fn check_password(password: &[u8], name: &str) -> Result<(), UserError> {
    let error = |why: &str, hint: &str| Err(UserError::new("cannot use this password", why, hint));
    match password {
        [] => error("it is empty", "type one"),
        _ if password.iter().any(u8::is_ascii_control) => error(
            "it has a control character, which no request can have (RFC 7617)",
            "choose another password",
        ),
        _ if name.len() + 1 + password.len() > CREDENTIALS_LEN_MAX => {
            error("with the name it is longer than 512 bytes", "choose a shorter one")
        }
        _ => Ok(()),
    }
}

/// Reads the only line of standard input.
fn read_line() -> Result<Zeroizing<Vec<u8>>, UserError> {
    let mut text = Zeroizing::new(Vec::new());
    io::stdin().lock().take(LINE_LEN_MAX).read_to_end(&mut text).map_err(|error| unreadable(&error))?;
    without_line_end(&mut text);
    if text.contains(&b'\n') {
        let hint = "pipe one line, as in printf '%s' \"$PASSWORD\" | tarpon hash-password";
        return Err(UserError::new("cannot read the password", "standard input has several lines", hint));
    }
    Ok(text)
}

/// Asks for the password at the terminal, twice.
fn ask_twice() -> Result<Zeroizing<Vec<u8>>, UserError> {
    let [first, second] = [ask("Password: ")?, ask("The same again: ")?];
    match first == second {
        true => Ok(first),
        false => Err(UserError::new("cannot hash the password", "the two are not the same", "try again")),
    }
}

fn ask(question: &str) -> Result<Zeroizing<Vec<u8>>, UserError> {
    let stdin = io::stdin();
    let _silent = SilentTerminal::new(&stdin).map_err(|error| unreadable(&error))?;
    let mut line = Zeroizing::new(Vec::new());
    // Without an answer the terminal shows nothing more.
    let _ = write!(io::stderr(), "{question}").and_then(|()| io::stderr().flush());
    stdin.lock().take(LINE_LEN_MAX).read_until(b'\n', &mut line).map_err(|error| unreadable(&error))?;
    if !line.ends_with(b"\n") || line.contains(&CTRL_C) {
        let _ = writeln!(io::stderr());
        return Err(UserError::new("cannot read the password", "it was cancelled", "try again"));
    }
    without_line_end(&mut line);
    Ok(line)
}

fn without_line_end(line: &mut Vec<u8>) {
    let len =
        line.strip_suffix(b"\n").map_or(line.len(), |line| line.strip_suffix(b"\r").unwrap_or(line).len());
    line.truncate(len);
}

fn unreadable(error: &io::Error) -> UserError {
    UserError::new("cannot read the password", reason(error), "type it at a terminal, or pipe one line")
}

/// A terminal that shows nothing but line ends, until this is dropped. Ctrl-C is a byte like others, so that no signal ends the program before.
struct SilentTerminal<T: AsFd> {
    terminal: T,
    before: Termios,
}

impl<T: AsFd> SilentTerminal<T> {
    fn new(terminal: T) -> io::Result<SilentTerminal<T>> {
        let before = tcgetattr(&terminal)?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO | LocalModes::ISIG);
        silent.local_modes.insert(LocalModes::ECHONL | LocalModes::ICANON);
        // Drops what was typed while it was shown.
        tcsetattr(&terminal, OptionalActions::Flush, &silent)?;
        Ok(SilentTerminal { terminal, before })
    }
}

impl<T: AsFd> Drop for SilentTerminal<T> {
    fn drop(&mut self) {
        // The terminal may be gone.
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}
