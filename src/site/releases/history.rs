//! The history of active releases: a file with one line per change, the latest last.
//!
//! ```text
//! activate 1795244400 2026-11-20.tar
//! activate 1795330800 2026-11-21.tar
//! rollback 1795331100 2026-11-20.tar
//! ```
//!
//! A rollback undoes the last activation, so that the next rollback goes further back. The link `current` takes precedence: if another
//! program changed the link, the history follows it. Only parses and writes text; does no I/O.

use std::fmt::Write;

/// The recorded changes, oldest first.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ReleaseHistory {
    changes: Vec<HistoryEntry>,
}

#[derive(Debug, PartialEq, Eq)]
struct HistoryEntry {
    kind: ActivationKind,
    /// Seconds since 1970.
    at_s: u64,
    /// The release that became current.
    name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ActivationKind {
    Activate,
    Rollback,
}

/// The number of an invalid line, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DamagedHistory {
    pub(super) line: usize,
}

/// Maximum number of changes in the file, so that it stays small.
const CHANGE_COUNT_MAX: usize = 1_000;

impl ReleaseHistory {
    /// Parses the text of a history file.
    pub(super) fn parse(text: &str) -> Result<ReleaseHistory, DamagedHistory> {
        let rows =
            text.lines().zip(1..).map(|(row, line)| HistoryEntry::parse(row).ok_or(DamagedHistory { line }));
        rows.collect::<Result<_, _>>().map(|changes| ReleaseHistory { changes })
    }

    /// Returns the text of the history file, with the latest changes only.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for HistoryEntry { kind, at_s, name } in
            &self.changes[self.changes.len().saturating_sub(CHANGE_COUNT_MAX)..]
        {
            writeln!(text, "{} {at_s} {name}", kind.word()).expect("writing to a String cannot fail");
        }
        text
    }

    /// Records the current target of the link, if another program has changed it: as a rollback if the target is the release before, else
    /// as an activation.
    pub(super) fn sync_with_link(&mut self, current: Option<&str>, at_s: u64) {
        let Some(current) = current else { return };
        match *self.active() {
            [.., last] if last == current => {}
            [.., before, _] if before == current => {
                self.push(ActivationKind::Rollback, at_s, current.to_owned())
            }
            _ => self.activated(current, at_s),
        }
    }

    /// Records an activation.
    pub(super) fn activated(&mut self, name: &str, at_s: u64) {
        self.push(ActivationKind::Activate, at_s, name.to_owned());
    }

    /// Records a rollback and returns the release that becomes current. `None`: there is no release to return to.
    pub(super) fn rolled_back(&mut self, at_s: u64) -> Option<String> {
        let name = self.previous()?.to_owned();
        self.push(ActivationKind::Rollback, at_s, name.clone());
        Some(name)
    }

    /// Returns the release that a rollback would make current.
    pub(super) fn previous(&self) -> Option<&str> {
        match *self.active() {
            [.., before, _] => Some(before),
            _ => None,
        }
    }

    /// Returns every release that was active, each once, the latest first.
    pub(super) fn latest(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for HistoryEntry { name, .. } in self.changes.iter().rev() {
            if !names.contains(&&**name) {
                names.push(name);
            }
        }
        names
    }

    /// Returns the activations that were not undone, oldest first; the last one is of the current release.
    fn active(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for HistoryEntry { kind, name, .. } in &self.changes {
            if *kind == ActivationKind::Rollback {
                names.pop();
            }
            // After a rollback the name is already on top, unless the file no longer contains its activation.
            if names.last() != Some(&&**name) {
                names.push(name);
            }
        }
        names
    }

    fn push(&mut self, kind: ActivationKind, at_s: u64, name: String) {
        self.changes.push(HistoryEntry { kind, at_s, name });
    }
}

impl HistoryEntry {
    fn parse(row: &str) -> Option<HistoryEntry> {
        let (word, rest) = row.split_once(' ')?;
        let (at_s, name) = rest.split_once(' ')?;
        let kind = [ActivationKind::Activate, ActivationKind::Rollback]
            .into_iter()
            .find(|kind| kind.word() == word)?;
        is_name(name).then_some(HistoryEntry { kind, at_s: at_s.parse().ok()?, name: name.to_owned() })
    }
}

/// Returns whether a text is a valid name of a release: not hidden, not `.` or `..`, without control characters, and not a path, as a
/// path in an edited history could lead out of the directory.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('.')
        && !text.contains(|char: char| char == '/' || char.is_control())
}

impl ActivationKind {
    fn word(self) -> &'static str {
        match self {
            ActivationKind::Activate => "activate",
            ActivationKind::Rollback => "rollback",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type HistoryCase<'c> = (&'c str, &'c [&'c str], Option<&'c str>, &'c [&'c str]);

    #[test]
    fn rollback_returns_to_the_release_before() {
        #[rustfmt::skip]
        let cases: &[HistoryCase] = &[
            // what it shows                  steps                          previous   latest
            ("empty",                         &[],                           None,      &[]),
            ("first release",                 &["+a"],                       None,      &["a"]),
            ("second release",                &["+a", "+b"],                 Some("a"), &["b", "a"]),
            ("same release again",            &["+a", "+b", "+b"],           Some("a"), &["b", "a"]),
            ("rollback",                      &["+a", "+b", "+c", "-"],      Some("a"), &["b", "c", "a"]),
            ("two rollbacks",                 &["+a", "+b", "+c", "-", "-"], None,      &["a", "b", "c"]),
            ("rollback, then activate",       &["+a", "+b", "-", "+c"],      Some("a"), &["c", "a", "b"]),
            ("earlier release activated",     &["+a", "+b", "+a"],           Some("b"), &["a", "b"]),
            ("link unchanged",                &["+a", "+b", "=b"],           Some("a"), &["b", "a"]),
            ("link changed elsewhere",        &["+a", "=c"],                 Some("a"), &["c", "a"]),
            ("link set back elsewhere",       &["+a", "+b", "+c", "=b"],     Some("a"), &["b", "c", "a"]),
            ("link without a history",        &["=a", "+b"],                 Some("a"), &["b", "a"]),
            ("rollback of the first release", &["+a", "-"],                  None,      &["a"]),
        ];
        for (name, steps, previous, latest) in cases {
            let mut history = ReleaseHistory::default();
            for (step, at_s) in steps.iter().zip(100..) {
                match step.split_at(1) {
                    ("+", name) => history.activated(name, at_s),
                    ("=", name) => history.sync_with_link(Some(name), at_s),
                    _ => drop(history.rolled_back(at_s)),
                }
                history = ReleaseHistory::parse(&history.text()).expect(name);
            }
            assert_eq!((history.previous(), &*history.latest()), (*previous, *latest), "{name}");
        }
    }

    #[test]
    fn invalid_line_is_reported_by_number() {
        let good = "activate 5 a b.tar\n";
        #[rustfmt::skip]
        let cases = [
            "activate", "activate 5", "activate 5 ", "activate x a", "remove 5 a", "",
            // Paths, and hidden or unprintable names.
            "activate 5 /etc/x.tar", "activate 5 ../x.tar", "activate 5 a/../../x.tar", "activate 5 a/x.tar", "activate 5 ..",
            "activate 5 .", "activate 5 .x.tar", "rollback 5 /x.tar", "activate 5 x\u{1b}[2J.tar", "activate 5 x\0.tar",
        ];
        for bad in cases {
            let text = format!("{good}{bad}\n{good}");
            assert_eq!(ReleaseHistory::parse(&text), Err(DamagedHistory { line: 2 }), "{bad:?}");
        }
        assert_eq!(ReleaseHistory::parse(good).map(|history| history.text()), Ok(good.to_owned()));
    }

    #[test]
    fn history_has_a_maximum_length() {
        let mut history = ReleaseHistory::default();
        for number in 0..2 * CHANGE_COUNT_MAX {
            history.activated(&number.to_string(), 0);
        }
        let again = ReleaseHistory::parse(&history.text()).expect("a history");
        assert_eq!(again.latest().len(), CHANGE_COUNT_MAX);
        assert_eq!(again.previous(), history.previous());
    }
}
