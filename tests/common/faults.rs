//! The program with faults injected by seed: `src/sys/inject`. Debug builds alone can inject them.

use super::{
    program::{RunningProgram, serve_exactly},
    seeds_factor, workers,
};
use std::{collections::BTreeMap, env, fs, net::SocketAddr, path::Path};
use tarpon::Engine;
use tempfile::NamedTempFile;

/// Returns the seeds of a test: the one of the environment, or `count` times `TARPON_SEEDS_FACTOR` others.
pub(crate) fn seeds(count: u64) -> Vec<u64> {
    let Ok(faults) = env::var(FAULTS_VARIABLE) else {
        return (0..count * seeds_factor() as u64).collect();
    };
    let seed = faults.split(':').next().and_then(|seed| seed.parse().ok());
    vec![seed.unwrap_or_else(|| panic!("{FAULTS_VARIABLE} is SEED or SEED:PERCENT"))]
}

/// `SEED` or `SEED:PERCENT`.
pub(crate) const FAULTS_VARIABLE: &str = "TARPON_FAULTS";

/// The path of the file with the counts.
pub(crate) const COUNTS_VARIABLE: &str = "TARPON_FAULT_COUNTS";

/// A running program that injects faults.
pub(crate) struct FaultRun {
    program: RunningProgram,
    counts: NamedTempFile,
}

impl FaultRun {
    /// Serves a directory on an engine with the faults of a seed, or with those of the environment.
    pub(crate) fn start(engine: Engine, seed: u64, dir: &Path) -> FaultRun {
        let workers = workers(engine, 2).to_string();
        let mut command =
            serve_exactly(dir, &["--engine", engine.name(), "--workers", &workers, "--http2", "off"]);
        let counts = NamedTempFile::new().expect("a file");
        let faults = env::var(FAULTS_VARIABLE).unwrap_or_else(|_| seed.to_string());
        command.env(FAULTS_VARIABLE, faults).env(COUNTS_VARIABLE, counts.path());
        FaultRun { program: RunningProgram::start_ready(command), counts }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.program.address()
    }

    /// Returns how often each fault was injected so far.
    pub(crate) fn counts(&self) -> BTreeMap<String, u64> {
        counts(self.counts.path())
    }
}

/// Reads a file of counts: rows of a name in 32 bytes, and a number.
pub(crate) fn counts(path: &Path) -> BTreeMap<String, u64> {
    let bytes = fs::read(path).expect("the counts");
    let row = |row: &[u8]| {
        let (name, count) = row.split_at(32);
        let name = String::from_utf8_lossy(name).trim_end_matches('\0').to_owned();
        (name, u64::from_ne_bytes(count.try_into().expect("eight bytes")))
    };
    bytes.chunks_exact(40).map(row).collect()
}
