//! Instructions in user space, counted by callgrind.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::LabError;

/// Counts the instructions of a program and of the processes that it forks.
pub(crate) struct Callgrind {
    directory: PathBuf,
}

impl Callgrind {
    /// Writes the counts into a directory, which must exist.
    pub(crate) fn new(directory: PathBuf) -> Callgrind {
        Callgrind { directory }
    }

    /// Returns a command that runs `program` under callgrind.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("valgrind");
        command.arg("--tool=callgrind").arg("--quiet");
        command.arg(format!("--callgrind-out-file={}/%p", self.directory.display())).arg(program);
        command
    }

    /// Returns the count of a process that has exited.
    pub(crate) fn count(&self, process: u32) -> Result<u64, LabError> {
        read_count(&self.directory.join(process.to_string()))
    }

    /// Runs a program to its end, and returns its count.
    pub(crate) fn run(&self, program: &Path, arguments: &[&OsStr]) -> Result<u64, LabError> {
        let hint = "install it (Debian: valgrind)";
        let mut command = self.command(program);
        command.args(arguments).stdout(Stdio::null());
        let child = command.spawn().map_err(|error| format!("valgrind: {error}; {hint}"))?;
        let process = child.id();
        let output = child.wait_with_output()?;
        if !output.status.success() {
            return Err(format!("{}: {}", program.display(), output.status).into());
        }
        self.count(process)
    }
}

/// Reads the sum of all counts from a file of callgrind.
fn read_count(path: &Path) -> Result<u64, LabError> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    parse_count(&text).ok_or_else(|| format!("{}: callgrind wrote no total", path.display()).into())
}

fn parse_count(text: &str) -> Option<u64> {
    text.lines().rev().find_map(|line| line.strip_prefix("totals: "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn count_is_the_last_total() {
        let text = "# callgrind format\nevents: Ir\nfn=(1) main\n1 20\n\ntotals: 20\n";
        assert_eq!(parse_count(text), Some(20));
        assert_eq!(parse_count("fn=(1) main\n1 20\n"), None);
    }
}
