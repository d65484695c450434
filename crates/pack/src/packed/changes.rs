//! The difference between a site and an earlier archive of it.
//!
//! A renamed file does not count: a removed file cancels an added file with the same content.

use super::decode::Print;
use super::plan::Plan;
use crate::rules::is_hidden;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

/// The difference in the files that the site serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Bytes of the archive that was there before.
    pub len_before: u64,
    /// Files that are new.
    pub added: u64,
    /// Bytes of them.
    pub added_len: u64,
    /// Files that are gone.
    pub removed: u64,
    /// Bytes they had.
    pub removed_len: u64,
    /// Files with another content.
    pub changed: u64,
    /// Bytes they had.
    pub changed_len_before: u64,
    /// Bytes they have.
    pub changed_len: u64,
    /// The files that grew most, new ones too, and by how many bytes; three at most.
    pub grown: Vec<(Vec<u8>, u64)>,
}

/// The report names at most this many files.
const GROWN_COUNT_MAX: usize = 3;

impl Changes {
    /// Compares the files that an earlier archive served, by path, with those that are served now.
    pub(super) fn new(before: &HashMap<Vec<u8>, Print>, plan: &Plan<'_>, len_before: u64) -> Changes {
        let mut changes = Changes { len_before, ..Changes::default() };
        let (mut seen, mut new) = (HashSet::new(), Vec::new());
        for file in plan.files.iter().filter(|file| !is_hidden(&file.path)) {
            let print = plan.content(file).print;
            let mut was = None;
            for path in plan.addresses.address_of(&file.path).served_at {
                if let Some((path, &print)) = before.get_key_value(&path) {
                    seen.insert(path);
                    was = Some(print);
                }
            }
            match was {
                None => new.push((&file.path, print)),
                Some(was) if was == print => {}
                Some(was) => {
                    changes.changed += 1;
                    changes.changed_len_before += was.len;
                    changes.changed_len += print.len;
                    changes.grow(&file.path, print.len.saturating_sub(was.len));
                }
            }
        }
        let mut gone: HashMap<Print, u64> = HashMap::new();
        for (path, &print) in before.iter().filter(|(path, _)| !seen.contains(path)) {
            if !is_second_path(before, path, print) {
                *gone.entry(print).or_default() += 1;
            }
        }
        for (path, print) in new {
            match gone.get_mut(&print).filter(|count| **count > 0) {
                Some(count) => *count -= 1,
                None => {
                    changes.added += 1;
                    changes.added_len += print.len;
                    changes.grow(path, print.len);
                }
            }
        }
        for (print, count) in gone {
            changes.removed += count;
            changes.removed_len += count * print.len;
        }
        changes.grown.sort_by(|(one, by), (other, than)| (Reverse(by), one).cmp(&(Reverse(than), other)));
        changes.grown.truncate(GROWN_COUNT_MAX);
        changes
    }

    /// Whether no file is another one than before.
    pub fn is_none(&self) -> bool {
        self.added + self.removed + self.changed == 0
    }

    fn grow(&mut self, path: &[u8], by: u64) {
        if by > 0 {
            self.grown.push((path.to_vec(), by));
        }
    }
}

/// Whether a path is that of a directory whose index has a path of its own too.
fn is_second_path(before: &HashMap<Vec<u8>, Print>, path: &[u8], print: Print) -> bool {
    let dir = path.strip_suffix(b"/").unwrap_or(path);
    before.get(&[dir, b"/index.html"].concat()) == Some(&print)
}
