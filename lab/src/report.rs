//! A record as text: printed, or kept in a document.
//!
//! ```text
//! record ─▶ report ─┬▶ plain
//!                   └▶ Markdown ─▶ between the marks of a document
//! ```

mod race;

use std::fs;
use std::path::PathBuf;

use clap::Args;

use crate::record::Record;
use crate::table::Report;
use crate::{Trouble, cold, pack, start};

/// What to report, and where.
#[derive(Args)]
pub(crate) struct Options {
    /// The result file of a measurement.
    file: PathBuf,
    /// Replaces what is between `<!-- NAME:start -->` and `<!-- NAME:end -->` in this document, where NAME is that of the
    /// file, without its extension.
    #[arg(long, value_name = "DOCUMENT")]
    into: Option<PathBuf>,
    /// Changes nothing; fails if the document is not up to date.
    #[arg(long, requires = "into")]
    check: bool,
}

/// Prints the report, or keeps it in a document.
pub(crate) fn main(options: &Options) -> Result<(), Trouble> {
    let named = |path: &PathBuf, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = fs::read_to_string(&options.file).map_err(|error| named(&options.file, &error))?;
    let record: Record = serde_json::from_str(&text).map_err(|error| named(&options.file, &error))?;
    let report = report(&record).markdown();
    let Some(path) = &options.into else {
        print!("{report}");
        return Ok(());
    };
    let document = fs::read_to_string(path).map_err(|error| named(path, &error))?;
    let name = options.file.file_stem().unwrap_or_default().to_string_lossy();
    let renewed =
        renew(&document, &name, &report).ok_or_else(|| named(path, &format!("no place for {name}")))?;
    if renewed == document {
        return Ok(());
    }
    if options.check {
        return Err(named(path, &format!("not up to date with {}", options.file.display())).into());
    }
    Ok(fs::write(path, renewed)?)
}

/// What a record says.
pub(crate) fn report(record: &Record) -> Report {
    match record {
        Record::Race(race) => race::report(race),
        Record::Cold(cold) => cold::report(cold),
        Record::Start(start) => start::report(start),
        Record::Pack(pack) => pack::report(pack),
    }
}

/// The document with `report` between the marks of this name; `None` without marks.
fn renew(document: &str, name: &str, report: &str) -> Option<String> {
    let (start, end) = (format!("<!-- {name}:start -->"), format!("<!-- {name}:end -->"));
    let (before, rest) = document.split_once(&start)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{start}\n{report}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_is_renewed() {
        let document = "a\n<!-- race:start -->\nold\n<!-- race:end -->\nb\n";
        let renewed = renew(document, "race", "new\n").unwrap();
        assert_eq!(renewed, "a\n<!-- race:start -->\nnew\n<!-- race:end -->\nb\n");
        assert_eq!(renew(&renewed, "race", "new\n").as_deref(), Some(renewed.as_str()));
        assert_eq!(renew("a\n<!-- race:end -->\n<!-- race:start -->\n", "race", "new\n"), None);
    }
}
