//! Which releases were active, one after the other: a file with a line for each change, the latest one last.
//!
//! ```text
//! activate 1795244400 2026-11-20.tar
//! activate 1795330800 2026-11-21.tar
//! rollback 1795331100 2026-11-20.tar
//! ```
//!
//! A rollback takes back the activation before it, so that the next one goes further back. The link `current` is what
//! counts: where it was changed by other means, the history is brought in line with it. Knows nothing of files.

use std::fmt::Write;

/// The changes that are remembered.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ReleaseHistory {
    changes: Vec<HistoryEntry>,
}

#[derive(Debug, PartialEq, Eq)]
struct HistoryEntry {
    how: ActivationKind,
    /// Seconds since 1970.
    at_s: u64,
    /// The release that is current from then on.
    name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ActivationKind {
    Activate,
    Rollback,
}

/// A line that no history has; the first one is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DamagedHistory {
    pub(super) line: usize,
}

/// Changes that are remembered: nobody goes back further, and the file stays small.
const CHANGE_COUNT_MAX: usize = 1_000;

impl ReleaseHistory {
    pub(super) fn parse(text: &str) -> Result<ReleaseHistory, DamagedHistory> {
        let rows =
            text.lines().zip(1..).map(|(row, line)| HistoryEntry::parse(row).ok_or(DamagedHistory { line }));
        rows.collect::<Result<_, _>>().map(|changes| ReleaseHistory { changes })
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for HistoryEntry { how, at_s, name } in
            &self.changes[self.changes.len().saturating_sub(CHANGE_COUNT_MAX)..]
        {
            writeln!(text, "{} {at_s} {name}", how.word()).expect("a String takes all");
        }
        text
    }

    /// What the link leads to now. Where somebody else has changed it, that counts as if it had been done here.
    pub(super) fn found(&mut self, current: Option<&str>, at_s: u64) {
        let Some(current) = current else { return };
        match *self.active() {
            [.., last] if last == current => {}
            [.., before, _] if before == current => {
                self.push(ActivationKind::Rollback, at_s, current.to_owned())
            }
            _ => self.activated(current, at_s),
        }
    }

    pub(super) fn activated(&mut self, name: &str, at_s: u64) {
        self.push(ActivationKind::Activate, at_s, name.to_owned());
    }

    /// The release before the current one is current again. `None`: there is none.
    pub(super) fn rolled_back(&mut self, at_s: u64) -> Option<String> {
        let name = self.before()?.to_owned();
        self.push(ActivationKind::Rollback, at_s, name.clone());
        Some(name)
    }

    /// The release that a rollback leads to.
    pub(super) fn before(&self) -> Option<&str> {
        match *self.active() {
            [.., before, _] => Some(before),
            _ => None,
        }
    }

    /// Every release that was active, each once, the latest one first.
    pub(super) fn latest(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for HistoryEntry { name, .. } in self.changes.iter().rev() {
            if !names.contains(&&**name) {
                names.push(name);
            }
        }
        names
    }

    /// The activations that were not taken back, oldest first: the last one is of the current release.
    fn active(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for HistoryEntry { how, name, .. } in &self.changes {
            if *how == ActivationKind::Rollback {
                names.pop();
            }
            // After a rollback it is there, unless its activation is no longer remembered.
            if names.last() != Some(&&**name) {
                names.push(name);
            }
        }
        names
    }

    fn push(&mut self, how: ActivationKind, at_s: u64, name: String) {
        self.changes.push(HistoryEntry { how, at_s, name });
    }
}

impl HistoryEntry {
    fn parse(row: &str) -> Option<HistoryEntry> {
        let (word, rest) = row.split_once(' ')?;
        let (at_s, name) = rest.split_once(' ')?;
        let how = [ActivationKind::Activate, ActivationKind::Rollback]
            .into_iter()
            .find(|how| how.word() == word)?;
        is_name(name).then_some(HistoryEntry { how, at_s: at_s.parse().ok()?, name: name.to_owned() })
    }
}

/// Whether a text is the name of something in the directory itself, and can stand in a line: no path, which a line that others have
/// written could lead out of the directory with; nothing hidden, `.` and `..` among it.
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

    type Case<'c> = (&'c str, &'c [&'c str], Option<&'c str>, &'c [&'c str]);

    #[test]
    fn a_rollback_leads_to_what_was_active_before() {
        #[rustfmt::skip]
        let cases: &[Case] = &[
            // what it shows                  steps                          before     latest
            ("nothing was active",            &[],                           None,      &[]),
            ("the first",                     &["+a"],                       None,      &["a"]),
            ("the second",                    &["+a", "+b"],                 Some("a"), &["b", "a"]),
            ("the same again",                &["+a", "+b", "+b"],           Some("a"), &["b", "a"]),
            ("back",                          &["+a", "+b", "+c", "-"],      Some("a"), &["b", "c", "a"]),
            ("back twice",                    &["+a", "+b", "+c", "-", "-"], None,      &["a", "b", "c"]),
            ("back, and on",                  &["+a", "+b", "-", "+c"],      Some("a"), &["c", "a", "b"]),
            ("an earlier one, activated",     &["+a", "+b", "+a"],           Some("b"), &["a", "b"]),
            ("the link, as it was left",      &["+a", "+b", "=b"],           Some("a"), &["b", "a"]),
            ("the link, changed by others",   &["+a", "=c"],                 Some("a"), &["c", "a"]),
            ("the link, set back by others",  &["+a", "+b", "+c", "=b"],     Some("a"), &["b", "c", "a"]),
            ("a link, and no history",        &["=a", "+b"],                 Some("a"), &["b", "a"]),
            ("back, with nothing before",     &["+a", "-"],                  None,      &["a"]),
        ];
        for (name, steps, before, latest) in cases {
            let mut history = ReleaseHistory::default();
            for (step, at_s) in steps.iter().zip(100..) {
                match step.split_at(1) {
                    ("+", name) => history.activated(name, at_s),
                    ("=", name) => history.found(Some(name), at_s),
                    _ => drop(history.rolled_back(at_s)),
                }
                history = ReleaseHistory::parse(&history.text()).expect(name);
            }
            assert_eq!((history.before(), &*history.latest()), (*before, *latest), "{name}");
        }
    }

    #[test]
    fn what_is_no_history_is_told_by_its_line() {
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
    fn it_does_not_grow_without_end() {
        let mut history = ReleaseHistory::default();
        for number in 0..2 * CHANGE_COUNT_MAX {
            history.activated(&number.to_string(), 0);
        }
        let again = ReleaseHistory::parse(&history.text()).expect("a history");
        assert_eq!(again.latest().len(), CHANGE_COUNT_MAX);
        assert_eq!(again.before(), history.before());
    }
}
