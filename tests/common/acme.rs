//! Helpers for tests of certificates by ACME: what is stored, what is said, and simulated time.

use super::{program::RunningProgram, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    cell::Cell,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use x509_parser::{pem::Pem, prelude::GeneralName};

/// Returns the files below a directory whose name ends so.
pub(crate) fn files(dir: &Path, end: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => found.extend(files(&path, end)),
            false if path.to_string_lossy().ends_with(end) => found.push(path),
            false => {}
        }
    }
    found
}

/// Waits for a stored certificate that is not the one of before. Returns its serial number and its names.
pub(crate) fn wait_for_certificate(state: &Path, before: &str) -> (String, Vec<String>) {
    wait_for("a certificate", || {
        let file = files(state, "certificate.pem").pop()?;
        let text = fs::read(file).ok()?;
        let pem = Pem::iter_from_buffer(&text).flatten().find(|pem| pem.label == "CERTIFICATE")?;
        let certificate = pem.parse_x509().expect("a certificate");
        let serial = certificate.raw_serial_as_string();
        let names = certificate.subject_alternative_name().ok()??;
        let names = names.value.general_names.iter().filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        });
        let mut names: Vec<_> = names.collect();
        names.sort();
        (serial != before).then_some((serial, names))
    })
}

/// Waits until standard error contains a text, and returns all of it.
pub(crate) fn wait_for_warning(served: &RunningProgram, text: &str) -> String {
    wait_for(text, || Some(served.err()).filter(|err| err.contains(text)))
}

/// The clocks by which certificates are renewed: those of the system, and an offset. The program looks at it when it wakes up and speaks with
/// no directory.
pub(crate) struct SimulatedClock {
    file: PathBuf,
    offset: Cell<Duration>,
}

impl SimulatedClock {
    pub(crate) fn new(dir: &Path, command: &mut Command) -> SimulatedClock {
        let file = dir.join("offset");
        command.env("TARPON_CLOCK_OFFSET", &file);
        SimulatedClock { file, offset: Cell::default() }
    }

    /// Lets time pass for the program with this supervisor.
    pub(crate) fn pass(&self, time: Duration, supervisor: Pid) {
        self.offset.set(self.offset.get() + time);
        // The program reads the old number or the new one.
        let new = self.file.with_extension("new");
        fs::write(&new, self.offset.get().as_secs().to_string()).expect("a file");
        fs::rename(new, &self.file).expect("a file");
        // Wakes the supervisor up, and says nothing.
        kill_process(supervisor, Signal::CHILD).expect("a running process");
    }

    /// Returns the time in seconds since 1970.
    pub(crate) fn unix_s(&self) -> u64 {
        (SystemTime::now() + self.offset.get()).duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
    }
}

/// The delays in minutes that the warnings about failed orders announce.
pub(crate) fn retry_delays(err: &str) -> Vec<u64> {
    let delay = |text: &str| {
        let words: Vec<_> = text.split_whitespace().collect();
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        if words.get(1) == Some(&"h") { 60 * number(0) + number(2) } else { number(0) }
    };
    let delays = err.split("; next attempt in ").skip(1);
    delays.map(|rest| delay(rest.lines().next().unwrap_or_default())).collect()
}
