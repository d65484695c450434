//! The report of an import: a line for each directive that was left out or differs, and one for each reason why others are not needed.

use super::source::{DirectiveOrigin, SourceFiles, SourcePlace};
use std::{collections::BTreeMap, fmt};
use tarpon_site::printable::{is_invisible, write_escaped};

/// What became of a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RemarkKind {
    /// Nothing: its effect is missing.
    LeftOut,
    /// An option with a somewhat different effect.
    Differs,
    /// Nothing: tarpon does it by itself, or works without it.
    NotNeeded,
}

/// A line of the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// What became of the directive.
    pub kind: RemarkKind,
    /// The name of the file.
    pub file: String,
    /// The line of the file; the first is 1.
    pub line: u32,
    /// The name of the directive.
    pub directive: String,
    /// Why, and what to do instead.
    pub text: String,
    place: SourcePlace,
}

/// What an import reports, in the order of the files.
#[derive(Clone, Debug, Default)]
pub struct ImportReport {
    remarks: Vec<Remark>,
}

impl ImportReport {
    /// Returns all lines: first what was left out, then what differs, then what is not needed.
    pub fn remarks(&self) -> &[Remark] {
        &self.remarks
    }

    /// Returns the number of directives that were left out.
    pub fn left_out_count(&self) -> usize {
        self.remarks.iter().filter(|remark| remark.kind == RemarkKind::LeftOut).count()
    }

    /// Returns what was left out, each with its place, and its line and text.
    pub(super) fn left_out_lines(&self) -> Vec<(SourcePlace, String)> {
        let left_out = self.remarks.iter().filter(|remark| remark.kind == RemarkKind::LeftOut);
        let mut lines: Vec<_> = left_out
            .map(|Remark { line, directive, text, place, .. }| {
                (*place, format!("line {line}: {directive}: {text}"))
            })
            .collect();
        lines.sort();
        lines.dedup();
        lines
    }

    /// Adds that a directive has no counterpart. `hint`: what to do instead.
    pub(super) fn left_out(&mut self, of: &DirectiveOrigin, why: impl fmt::Display, hint: impl fmt::Display) {
        self.add(RemarkKind::LeftOut, of, format!("{why}; {hint}"));
    }

    /// Adds that a directive was carried over with another effect.
    pub(super) fn differs(&mut self, of: &DirectiveOrigin, how: impl fmt::Display) {
        self.add(RemarkKind::Differs, of, how.to_string());
    }

    /// Adds that a directive needs no counterpart.
    pub(super) fn not_needed(&mut self, of: &DirectiveOrigin, why: impl fmt::Display) {
        self.add(RemarkKind::NotNeeded, of, why.to_string());
    }

    fn add(&mut self, kind: RemarkKind, of: &DirectiveOrigin, text: String) {
        let DirectiveOrigin { place, directive } = of;
        let remark = Remark {
            kind,
            file: String::new(),
            line: place.line,
            directive: shortened(directive),
            text: escaped(&text),
            place: *place,
        };
        // Directives of an outer block are read once for each inner one.
        if !self.remarks.contains(&remark) || self.remarks.len() > REMARK_COUNT_COMPARED {
            self.remarks.push(remark);
        }
    }

    /// Sorts the lines and names their files.
    pub(super) fn name_files(&mut self, files: &SourceFiles) {
        self.remarks.sort_by_key(|remark| (remark.kind, remark.place));
        self.remarks.dedup();
        for remark in &mut self.remarks {
            remark.file = files.name(remark.place.file);
        }
    }
}

impl fmt::Display for ImportReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = |kind| self.remarks.iter().filter(move |remark| remark.kind == kind);
        for Remark { file, line, directive, text, .. } in lines(RemarkKind::LeftOut) {
            writeln!(f, "{file}:{line}: {directive}: left out: {text}")?;
        }
        for Remark { file, line, directive, text, .. } in lines(RemarkKind::Differs) {
            writeln!(f, "{file}:{line}: {directive}: differs: {text}")?;
        }
        // By reason: such directives are many.
        let mut reasons: BTreeMap<&str, Vec<&Remark>> = BTreeMap::new();
        for remark in lines(RemarkKind::NotNeeded) {
            reasons.entry(&remark.text).or_default().push(remark);
        }
        let mut reasons: Vec<_> = reasons.into_iter().collect();
        reasons.sort_by_key(|(_, remarks)| remarks[0].place);
        for (reason, remarks) in reasons {
            let Remark { file, line, .. } = remarks[0];
            let mut names: Vec<&str> = remarks.iter().map(|remark| &*remark.directive).collect();
            names.sort_unstable();
            names.dedup();
            writeln!(f, "{file}:{line}: {}: not needed: {reason}", names.join(", "))?;
        }
        Ok(())
    }
}

/// Repeated remarks are looked for among so many, as the time for it grows with the square of their number.
const REMARK_COUNT_COMPARED: usize = 1000;

/// The longest name of a directive that a line shows.
const NAME_LEN_MAX: usize = 60;

fn shortened(name: &str) -> String {
    match name.char_indices().nth(NAME_LEN_MAX) {
        Some((at, _)) => format!("{}…", escaped(&name[..at])),
        None => escaped(name),
    }
}

/// Returns text in one line, with invisible characters escaped.
fn escaped(text: &str) -> String {
    let mut line = String::new();
    let _ = write_escaped(text.as_bytes(), is_invisible, &mut line);
    line
}
