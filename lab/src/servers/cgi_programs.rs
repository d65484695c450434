//! The CGI programs of the lab: small programs in C, linked statically, so that the server's part of a request shows.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::programs::run_command;
use crate::error::LabError;

/// Writes the programs `hello` and `stall` in a new directory below `place`, and returns that.
pub(crate) fn build(place: &Path, content: &[u8]) -> Result<PathBuf, LabError> {
    let programs = place.join("cgi-bin");
    fs::create_dir(&programs)?;
    let content = String::from_utf8_lossy(content).into_owned();
    for (name, source) in [(HELLO, hello_source(&content)), (STALL, STALL_SOURCE.to_owned())] {
        let source_file = place.join(name).with_extension("c");
        fs::write(&source_file, source)?;
        run_command(
            Command::new("cc").args(["-O2", "-static", "-o"]).arg(programs.join(name)).arg(source_file),
        )
        .map_err(|error| format!("{error}; install a C compiler (Debian: gcc libc6-dev)"))?;
    }
    Ok(programs)
}

/// A program that answers with the content. Its text needs no escapes but those that Rust and C share.
fn hello_source(content: &str) -> String {
    let len = content.len();
    let answer = format!("Content-Type: text/html\nContent-Length: {len}\n\n{content}");
    format!(
        "#include <unistd.h>
         static const char answer[] = {answer:?};
         int main(void) {{ return write(1, answer, sizeof answer - 1) == sizeof answer - 1 ? 0 : 1; }}\n",
    )
}

/// A program that waits until it is killed.
const STALL_SOURCE: &str = "#include <unistd.h>\nint main(void) { for (;;) pause(); }\n";

/// The names of the programs.
pub(crate) const HELLO: &str = "hello";
pub(crate) const STALL: &str = "stall";
