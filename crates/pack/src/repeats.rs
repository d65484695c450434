//! How often a site may have the same entries again: links to directories that hold such links multiply what there is.
//!
//! Twelve directories with four links each to the next are 48 entries, and 16 million paths.

/// Entries that were found, of directories as of archives.
#[derive(Debug, Default)]
pub(crate) struct RepeatedEntries {
    /// Of directories that were listed for the first time.
    entries: usize,
    /// Of directories that were listed before, by another path.
    repeated: usize,
}

/// There are more repeated entries than a site may have.
#[derive(Debug)]
pub(crate) struct TooManyRepeats;

/// A site may have each of its entries again so often: five names for one tree, such as `latest` and `stable`.
const PER_ENTRY_MAX: usize = 4;
/// So many more a site may have, however small it is.
const REPEATED_COUNT_MAX: usize = 1 << 15;

impl RepeatedEntries {
    /// Counts the entries of one more directory.
    pub(crate) fn add(&mut self, entries: usize, is_first: bool) -> Result<(), TooManyRepeats> {
        let of = if is_first { &mut self.entries } else { &mut self.repeated };
        *of += entries;
        let max = PER_ENTRY_MAX * self.entries + REPEATED_COUNT_MAX;
        if self.repeated > max { Err(TooManyRepeats) } else { Ok(()) }
    }
}
