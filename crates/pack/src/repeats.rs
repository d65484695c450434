//! Limits how often symbolic links may repeat the entries of a site. Links to directories that contain such links multiply the
//! entries: twelve directories with four links each to the next are 48 entries, and 16 million paths.

/// The number of entries of the directories that were listed, and of those that were listed again.
#[derive(Debug, Default)]
pub(crate) struct RepeatedEntries {
    /// Entries of directories that were listed for the first time.
    first: usize,
    /// Entries of directories that were listed before, at another path.
    repeated: usize,
}

/// The site has more repeated entries than the limit.
#[derive(Debug)]
pub(crate) struct TooManyRepeats;

/// Each entry may be repeated this often on average: five names for one directory, such as `latest` and `stable`.
const PER_ENTRY_MAX: usize = 4;
/// A site of any size may have this many repeated entries more.
const REPEATED_COUNT_MAX: usize = 1 << 15;

impl RepeatedEntries {
    /// Counts the entries of one more directory.
    pub(crate) fn add(&mut self, entries: usize, is_first: bool) -> Result<(), TooManyRepeats> {
        let of = if is_first { &mut self.first } else { &mut self.repeated };
        *of += entries;
        let max = PER_ENTRY_MAX * self.first + REPEATED_COUNT_MAX;
        if self.repeated > max { Err(TooManyRepeats) } else { Ok(()) }
    }
}
