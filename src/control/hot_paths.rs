//! The paths that are asked for most, of all workers of a server.
//!
//! ```text
//! worker ─ one request in N ─▶ its table ─┐
//! worker ────────────────────▶ its table ─┴─ sum ─▶ the first rows, at the admin listener
//! ```
//!
//! The tables lie in memory that all processes of a server share. They begin anew with the next server, as after a reload.

use crate::{
    control::metrics::{HotPathMetrics, PathMetrics},
    data::worker::StartTime,
    sys::shared::{SharedArray, SharedRow},
};
use std::{collections::HashMap, io, num::NonZeroU32, sync::Arc};
use tarpon_conn::{HOT_PATH_LEN_MAX, PathCount, PathSampling, PathTable};

/// The tables of a server, one for each worker.
#[derive(Clone, Debug)]
pub(crate) struct HotPathTables {
    tables: Arc<SharedArray<PathTable>>,
    one_in: NonZeroU32,
}

/// The paths that are reported: a screen of them.
const HOT_PATH_COUNT_MAX: usize = 20;

impl HotPathTables {
    /// Returns tables, if paths are counted.
    ///
    /// # Errors
    /// The process is out of memory.
    pub(crate) fn new(one_in: Option<NonZeroU32>, worker_count: usize) -> io::Result<Option<HotPathTables>> {
        let tables = |one_in| Ok(HotPathTables { tables: Arc::new(SharedArray::new(worker_count)?), one_in });
        one_in.map(tables).transpose()
    }

    /// Returns the table of a worker, and its sampling.
    pub(crate) fn row(&self, number: usize) -> (SharedRow<PathTable>, PathSampling) {
        // Each worker has random numbers of its own.
        let seed = StartTime::now().us() ^ (number as u64) << 48;
        (self.tables.row(number), PathSampling::new(self.one_in.get(), seed))
    }

    /// Returns the paths of all workers.
    pub(crate) fn metrics(&self) -> HotPathMetrics {
        let mut sums: HashMap<(usize, Vec<u8>), (u64, u64)> = HashMap::new();
        for PathCount { site, path, count, error } in self.tables.iter().flat_map(PathTable::paths) {
            let sum = sums.entry((site, path)).or_default();
            sum.0 += count;
            sum.1 += error;
        }
        let mut paths: Vec<_> = sums.into_iter().collect();
        // Paths that have taken over the row of another are not more frequent for that.
        paths.sort_unstable_by(|(a, (count, error)), (b, (other, other_error))| {
            (other - other_error, b).cmp(&(count - error, a)).then_with(|| a.cmp(b))
        });
        let shown =
            paths.into_iter().take(HOT_PATH_COUNT_MAX).map(|((site, path), (count, error))| PathMetrics {
                site,
                is_cut: path.len() > HOT_PATH_LEN_MAX,
                path: String::from_utf8_lossy(&path[..path.len().min(HOT_PATH_LEN_MAX)]).into_owned(),
                count: count - error,
            });
        HotPathMetrics {
            one_in: self.one_in.get(),
            samples: self.tables.iter().map(PathTable::total).sum(),
            paths: shown.collect(),
        }
    }
}
