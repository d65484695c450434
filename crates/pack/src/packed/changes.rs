//! The difference between a site and its previous archive.
//!
//! A renamed file does not count: a removed file cancels an added file with the same content.

use super::fingerprint::Fingerprint;
use super::plan::PackPlan;
use crate::rules::is_hidden;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

/// The difference in the files that the server sends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Length of the previous archive.
    pub len_before: u64,
    /// Number of new files.
    pub added: u64,
    /// Their total length.
    pub added_len: u64,
    /// Number of removed files.
    pub removed: u64,
    /// Their total length.
    pub removed_len: u64,
    /// Number of files with another content.
    pub changed: u64,
    /// Their total length before.
    pub changed_len_before: u64,
    /// Their total length now.
    pub changed_len: u64,
    /// The files that grew most, including new ones, and by how many bytes. Three at most.
    pub grown: Vec<(Vec<u8>, u64)>,
}

/// The largest number of files in [`Changes::grown`].
const GROWN_COUNT_MAX: usize = 3;

impl Changes {
    /// Compares the files of the previous archive, by path, with the files of a plan.
    pub(super) fn new(
        before: &HashMap<Vec<u8>, Fingerprint>,
        plan: &PackPlan<'_>,
        len_before: u64,
    ) -> Changes {
        let mut changes = Changes { len_before, ..Changes::default() };
        let (mut seen, mut new) = (HashSet::new(), Vec::new());
        for file in plan.files.iter().filter(|file| !is_hidden(&file.path)) {
            let fingerprint = plan.content(file).fingerprint;
            let mut was = None;
            for path in plan.addresses.address_of(&file.path).served_at {
                if let Some((path, &fingerprint)) = before.get_key_value(&path) {
                    seen.insert(path);
                    was = Some(fingerprint);
                }
            }
            match was {
                None => new.push((&file.path, fingerprint)),
                Some(was) if was == fingerprint => {}
                Some(was) => {
                    changes.changed += 1;
                    changes.changed_len_before += was.len;
                    changes.changed_len += fingerprint.len;
                    changes.grow(&file.path, fingerprint.len.saturating_sub(was.len));
                }
            }
        }
        let mut gone: HashMap<Fingerprint, u64> = HashMap::new();
        for (path, &fingerprint) in before.iter().filter(|(path, _)| !seen.contains(path)) {
            if !is_second_path(before, path, fingerprint) {
                *gone.entry(fingerprint).or_default() += 1;
            }
        }
        for (path, fingerprint) in new {
            match gone.get_mut(&fingerprint).filter(|count| **count > 0) {
                Some(count) => *count -= 1,
                None => {
                    changes.added += 1;
                    changes.added_len += fingerprint.len;
                    changes.grow(path, fingerprint.len);
                }
            }
        }
        for (fingerprint, count) in gone {
            changes.removed += count;
            changes.removed_len += count * fingerprint.len;
        }
        changes.grown.sort_by(|(one, by), (other, than)| (Reverse(by), one).cmp(&(Reverse(than), other)));
        changes.grown.truncate(GROWN_COUNT_MAX);
        changes
    }

    /// Returns whether all files are the same as before.
    pub fn is_none(&self) -> bool {
        self.added + self.removed + self.changed == 0
    }

    fn grow(&mut self, path: &[u8], by: u64) {
        if by > 0 {
            self.grown.push((path.to_vec(), by));
        }
    }
}

/// Returns whether a path is that of a directory whose index file also has a path of its own, which counts instead.
fn is_second_path(before: &HashMap<Vec<u8>, Fingerprint>, path: &[u8], fingerprint: Fingerprint) -> bool {
    let dir = path.strip_suffix(b"/").unwrap_or(path);
    before.get(&[dir, b"/index.html"].concat()) == Some(&fingerprint)
}
