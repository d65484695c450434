//! Counts the paths that are asked for most, in memory of a fixed size: the algorithm SpaceSaving (Metwally, Agrawal, El Abbadi, 2005) on a
//! sample of the requests.
//!
//! ```text
//! request ─ one in N ─▶ row of the path, or else the row with the lowest count, which the path takes over ─▶ count + 1
//! many samples ─▶ all counts are halved, so that old requests fade
//! ```
//!
//! A table has one writer, a worker, and any number of readers, in other processes too. It consists of atomics: the writer waits for
//! nothing, and a reader skips a row that changes while it reads.

use crate::SiteId;
use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::atomic::{
        AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
        fence,
    },
};

/// The rows of a table: three times those that are shown, as SpaceSaving is the more exact the more rows it has beyond the frequent ones.
pub const PATH_ROW_COUNT: usize = 64;

/// The bytes of a path that are kept. Most paths are shorter; longer ones with the same beginning share a row.
pub const HOT_PATH_LEN_MAX: usize = 128;

/// The samples after which all counts are halved: enough for shares of a thousandth, and few enough that a row is of the last minutes.
pub const HOT_PATH_WINDOW: u64 = 8 * 1024;

const WORD_LEN: usize = size_of::<u64>();
const TEXT_WORD_COUNT: usize = HOT_PATH_LEN_MAX / WORD_LEN;

/// The most frequent paths of a worker.
#[derive(Debug)]
pub struct PathTable {
    /// The sum of the samples, halved as often as the counts.
    total: AtomicU64,
    /// For each row: the hash of site and path, never 0. 0: the row is free.
    keys: [AtomicU64; PATH_ROW_COUNT],
    counts: [AtomicU64; PATH_ROW_COUNT],
    rows: [PathRow; PATH_ROW_COUNT],
}

/// The path of a row.
#[derive(Debug, Default)]
struct PathRow {
    /// Odd while the writer changes the row.
    version: AtomicU64,
    /// What the count may be too high by: the count of the path that had the row before.
    error: AtomicU64,
    /// The site in the upper half, the length of the text in the lower one.
    site_and_len: AtomicU64,
    text: [AtomicU64; TEXT_WORD_COUNT],
}

/// A path and its count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathCount {
    /// The site.
    pub site: usize,
    /// The path, without a query. At most [`HOT_PATH_LEN_MAX`] bytes; one byte more tells that it is longer.
    pub path: Vec<u8>,
    /// Samples of the path, at most.
    pub count: u64,
    /// How many of these may be samples of other paths.
    pub error: u64,
}

impl Default for PathTable {
    fn default() -> PathTable {
        PathTable {
            total: AtomicU64::new(0),
            keys: std::array::from_fn(|_| AtomicU64::new(0)),
            counts: std::array::from_fn(|_| AtomicU64::new(0)),
            rows: std::array::from_fn(|_| PathRow::default()),
        }
    }
}

impl PathTable {
    /// Counts a sample. Only the writer may call this.
    fn add(&self, site: SiteId, path: &[u8]) {
        let kept = &path[..path.len().min(HOT_PATH_LEN_MAX)];
        let len = path.len().min(HOT_PATH_LEN_MAX + 1);
        let mut hasher = DefaultHasher::new();
        (site.index(), len, kept).hash(&mut hasher);
        let key = hasher.finish().max(1);
        let row = self.keys.iter().position(|known| known.load(Relaxed) == key);
        let row = row.unwrap_or_else(|| self.take_row(key, site, kept, len));
        self.counts[row].store(self.counts[row].load(Relaxed) + 1, Relaxed);
        let total = self.total.load(Relaxed) + 1;
        self.total.store(total, Relaxed);
        if total >= HOT_PATH_WINDOW {
            self.halve();
        }
    }

    /// Gives the row with the lowest count to a path.
    fn take_row(&self, key: u64, site: SiteId, kept: &[u8], len: usize) -> usize {
        // A free row has count 0.
        let row =
            (0..PATH_ROW_COUNT).min_by_key(|&row| self.counts[row].load(Relaxed)).expect("there are rows");
        let PathRow { version, error, site_and_len, text } = &self.rows[row];
        // A writer that was killed here has left it odd.
        let changing = version.load(Relaxed) | 1;
        version.store(changing, Relaxed);
        // A reader that sees any store below sees the odd version, too.
        fence(Release);
        self.keys[row].store(key, Relaxed);
        error.store(self.counts[row].load(Relaxed), Relaxed);
        site_and_len.store((site.index() as u64) << 32 | len as u64, Relaxed);
        for (word, bytes) in text.iter().zip(kept.chunks(WORD_LEN)) {
            let mut all = [0; WORD_LEN];
            all[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_ne_bytes(all), Relaxed);
        }
        version.store(changing + 1, Release);
        row
    }

    fn halve(&self) {
        let halve = |number: &AtomicU64| number.store(number.load(Relaxed) / 2, Relaxed);
        halve(&self.total);
        for ((key, count), row) in self.keys.iter().zip(&self.counts).zip(&self.rows) {
            halve(count);
            halve(&row.error);
            if count.load(Relaxed) == 0 {
                key.store(0, Relaxed);
            }
        }
    }

    /// Returns the sum of the samples.
    pub fn total(&self) -> u64 {
        self.total.load(Relaxed)
    }

    /// Returns the rows, in any order, without those that change now. Any memory has a result: another process may have written it.
    pub fn paths(&self) -> impl Iterator<Item = PathCount> {
        let rows = self.keys.iter().zip(&self.counts).zip(&self.rows);
        rows.filter_map(|((key, count), row)| row.read(key, count))
    }
}

impl PathRow {
    fn read(&self, key: &AtomicU64, count: &AtomicU64) -> Option<PathCount> {
        let PathRow { version, error, site_and_len, text } = self;
        let before = version.load(Acquire);
        if key.load(Relaxed) == 0 || before % 2 == 1 {
            return None;
        }
        let (count, error, site_and_len) =
            (count.load(Relaxed), error.load(Relaxed), site_and_len.load(Relaxed));
        let text: Vec<u8> = text.iter().flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect();
        // The loads above come before the second look at the version.
        fence(Acquire);
        if version.load(Relaxed) != before {
            return None;
        }
        let len = (site_and_len & u64::from(u32::MAX)) as usize;
        let mut path = text;
        path.resize(len.min(HOT_PATH_LEN_MAX + 1), b' ');
        Some(PathCount { site: (site_and_len >> 32) as usize, path, count, error: error.min(count) })
    }
}

/// Chooses the requests whose paths are counted.
///
/// Each request has the same chance, whatever came before: a page that always loads the same eight files is counted like others, and so are
/// the requests of a process that serves only a few.
#[derive(Clone, Copy, Debug)]
pub struct PathSampling {
    /// A request is chosen if a random number is below this.
    below: u32,
    /// The state of the random numbers, xorshift64: never 0.
    state: u64,
}

impl PathSampling {
    /// Chooses one request in this many. Another writer needs another seed.
    pub fn new(one_in: u32, seed: u64) -> PathSampling {
        let mut sampling = PathSampling { below: u32::MAX / one_in.max(1), state: 1 };
        sampling.set_seed(seed);
        sampling
    }

    /// Sets the seed of the random numbers.
    pub fn set_seed(&mut self, seed: u64) {
        // Similar seeds, as of clocks, must not have similar numbers: the finalizer of SplitMix64.
        let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.state = (mixed ^ (mixed >> 31)).max(1);
    }

    #[inline]
    fn chooses(&mut self) -> bool {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 32) as u32 <= self.below
    }
}

/// The table of a worker, and its sampling.
#[derive(Debug)]
pub struct HotPaths<'w> {
    /// The table.
    pub table: &'w PathTable,
    /// The sampling.
    pub sampling: &'w mut PathSampling,
}

impl HotPaths<'_> {
    /// Counts the path of a request, if it is chosen. Not inlined, as the code around must stay short where no path is counted.
    #[cold]
    #[inline(never)]
    pub(crate) fn requested(&mut self, site: SiteId, path: &[u8]) {
        if self.sampling.chooses() {
            // The target may have a query.
            let end = path.iter().position(|&byte| byte == b'?').unwrap_or(path.len());
            self.table.add(site, &path[..end]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::HashMap, sync::atomic::AtomicBool, thread};

    fn sorted(table: &PathTable) -> Vec<PathCount> {
        let mut paths: Vec<_> = table.paths().collect();
        paths.sort_by(|a, b| (b.count, &a.path).cmp(&(a.count, &b.path)));
        paths
    }

    #[test]
    fn path_is_kept_without_its_query_and_up_to_a_length() {
        let long = |len: usize| [b"/".as_slice(), &vec![b'x'; len - 1]].concat();
        #[rustfmt::skip]
        let cases: &[(&str, Vec<u8>, Vec<u8>)] = &[
            // case           asked for                    kept
            ("root",          b"/".to_vec(),               b"/".to_vec()),
            ("query",         b"/a?secret=1?b".to_vec(),   b"/a".to_vec()),
            ("any bytes",     b"/\x1b[31m\xff\0".to_vec(), b"/\x1b[31m\xff\0".to_vec()),
            ("longest",       long(HOT_PATH_LEN_MAX),      long(HOT_PATH_LEN_MAX)),
            ("longer",        long(4_000),                 [&long(HOT_PATH_LEN_MAX)[..], b" "].concat()),
            ("empty",         Vec::new(),                  Vec::new()),
        ];
        for (case, asked, kept) in cases {
            let table = PathTable::default();
            let mut sampling = PathSampling::new(1, 7);
            let mut paths = HotPaths { table: &table, sampling: &mut sampling };
            paths.requested(SiteId::new(3), asked);
            paths.requested(SiteId::new(3), asked);
            let want = PathCount { site: 3, path: kept.clone(), count: 2, error: 0 };
            assert_eq!((sorted(&table), table.total()), (vec![want], 2), "{case}");
        }
    }

    #[test]
    fn frequent_paths_stay_among_many_rare_ones() {
        let table = PathTable::default();
        let mut exact: HashMap<Vec<u8>, u64> = HashMap::new();
        // Every second request is for one of eight paths; the others never repeat. Fewer than a window.
        for number in 0..HOT_PATH_WINDOW - 1 {
            let path =
                if number % 2 == 0 { format!("/hot/{}", number / 2 % 8) } else { format!("/rare/{number}") };
            table.add(SiteId::FIRST, path.as_bytes());
            *exact.entry(path.into_bytes()).or_default() += 1;
        }
        let paths = sorted(&table);
        assert_eq!((paths.len(), table.total()), (PATH_ROW_COUNT, HOT_PATH_WINDOW - 1));
        assert_eq!(
            paths.iter().map(|path| path.count).sum::<u64>(),
            table.total(),
            "SpaceSaving keeps the sum"
        );
        for PathCount { path, count, error, .. } in &paths {
            let exact = exact[path];
            assert!(
                (exact..=exact + error).contains(count),
                "{}: {count} of {exact}, {error}",
                path.escape_ascii()
            );
        }
        assert!(paths[..8].iter().all(|path| path.path.starts_with(b"/hot/")), "{paths:?}");
    }

    #[test]
    fn old_paths_fade() {
        let table = PathTable::default();
        (0..HOT_PATH_WINDOW).for_each(|_| table.add(SiteId::FIRST, b"/old"));
        assert_eq!(table.total(), HOT_PATH_WINDOW / 2);
        for number in 0..20 * HOT_PATH_WINDOW {
            table.add(SiteId::FIRST, format!("/new/{}", number % 10).as_bytes());
        }
        let paths = sorted(&table);
        assert!(table.total() < HOT_PATH_WINDOW && paths.len() == 10, "{paths:?}");
        assert!(paths.iter().all(|path| path.path.starts_with(b"/new/")), "{paths:?}");
    }

    #[test]
    fn sample_has_its_share_whatever_the_rhythm() {
        for one_in in [1, 2, 64] {
            let mut sampling = PathSampling::new(one_in, 1);
            let chosen: Vec<_> = (0..64_000).map(|_| sampling.chooses()).collect();
            // A page with eight files: each of them gets an eighth.
            for file in 0..8 {
                let count = chosen.iter().skip(file).step_by(8).filter(|chosen| **chosen).count() as f64;
                let want = 8_000.0 / f64::from(one_in);
                assert!(
                    (count - want).abs() <= 5.0 * want.sqrt(),
                    "1 in {one_in}, file {file}: {count} of {want}"
                );
            }
        }
        // Processes that serve one request each, with seeds of a clock.
        let count =
            (0..64_000_u64).filter(|us| PathSampling::new(64, 5_000_000 + us * 100).chooses()).count();
        assert!((800..1_200).contains(&count), "{count}");
    }

    #[test]
    fn reader_sees_whole_paths_only() {
        let (table, is_done) = (PathTable::default(), AtomicBool::new(false));
        thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut seen_count = 0;
                while !is_done.load(Acquire) || seen_count == 0 {
                    for PathCount { path, site, .. } in table.paths() {
                        assert!(path.iter().all(|byte| *byte == path[0]), "{}", path.escape_ascii());
                        assert_eq!((path.len(), site), (usize::from(path[0]) % 100 + 1, path[0].into()));
                        seen_count += 1;
                    }
                }
            });
            for round in 0..200_u64 {
                // More paths than rows, so that rows change all the time.
                for byte in 0..=255_u8 {
                    table.add(SiteId::new(byte.into()), &vec![byte; usize::from(byte) % 100 + 1]);
                }
                if round % 10 == 0 {
                    thread::yield_now();
                }
            }
            is_done.store(true, Release);
            reader.join().expect("no path is torn");
        });
    }
}
