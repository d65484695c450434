//! The program: does what it is told, and says what went wrong.

mod bar;
mod command;
mod events;
mod output;
mod say;
mod status;
mod table;

use std::process::ExitCode;

fn main() -> ExitCode {
    let done = if tarpon::carries_site() { command::run_carrier() } else { command::run() };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say::error(&*error);
            ExitCode::FAILURE
        }
    }
}
