//! The states of the sites, in memory that all processes of a service share: which version of each is live, and whether the last read failed.
//!
//! ```text
//! builder ─ writes ─▶ SiteStates ◀─ reads ─ status, metrics, readiness
//! ```

use crate::{
    control::metrics::{ReadFailure, SiteReading},
    data::record_table::RecordTable,
    site::Site,
};
use std::{
    io,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};
use tarpon_site::Printable;

/// The states of the sites of a configuration.
#[derive(Debug)]
pub(crate) struct SiteStates {
    table: RecordTable,
    count: usize,
}

/// Characters of a path or reason that a record keeps.
const TEXT_LEN_MAX: usize = 1000;
/// Bytes of a record: five texts, in JSON, whose characters may each take six bytes and more.
const RECORD_LEN_MAX: usize = 48 << 10;

impl SiteStates {
    /// Returns the states of this many sites, of which nothing is known yet.
    pub(crate) fn new(count: usize) -> io::Result<SiteStates> {
        Ok(SiteStates { table: RecordTable::new(count, RECORD_LEN_MAX)?, count })
    }

    /// Takes over since when the versions are live that an earlier configuration serves.
    pub(crate) fn inherit(&self, earlier: &SiteStates, path: impl Fn(usize) -> String) {
        for number in 0..self.count {
            let path = path(number);
            let known = (0..earlier.count).filter_map(|number| earlier.get(number));
            if let Some(known) = known.into_iter().find(|known| known.path == path) {
                self.set(number, &known);
            }
        }
    }

    /// Returns the state of a site. `None`: it was not read yet.
    pub(crate) fn get(&self, number: usize) -> Option<SiteReading> {
        let mut record = Vec::new();
        self.table.read_patiently(number, &mut record)?;
        serde_json::from_slice(&record).ok()
    }

    /// Notes that a site was read.
    pub(crate) fn read(&self, number: usize, path: &Path, site: &Site) {
        let (now, digest) = (now_unix_s(), site.digest());
        let former = self.get(number).filter(|former| former.digest == digest);
        let (unreadable, example) = site.unreadable();
        self.set(
            number,
            &SiteReading {
                path: path_text(path),
                release: site.real_path().as_deref().map(path_text),
                digest,
                live_since_unix_s: former.map_or(now, |former| former.live_since_unix_s),
                read_unix_s: now,
                unreadable,
                unreadable_example: example.map(path_text),
                failure: None,
            },
        );
    }

    /// Notes that a site could not be read, for this reason.
    pub(crate) fn failed(&self, number: usize, why: &str) {
        let mut state = self.get(number).unwrap_or_default();
        let since_unix_s = state.failure.map_or_else(now_unix_s, |failure| failure.since_unix_s);
        state.failure = Some(ReadFailure { since_unix_s, why: shortened(why) });
        self.set(number, &state);
    }

    fn set(&self, number: usize, state: &SiteReading) {
        self.table.write(number, &serde_json::to_vec(state).unwrap_or_default());
    }
}

/// Returns a path as text: the same as messages have.
pub(crate) fn path_text(path: &Path) -> String {
    shortened(&path.printable().to_string())
}

fn shortened(text: &str) -> String {
    text.chars().take(TEXT_LEN_MAX).collect()
}

fn now_unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
