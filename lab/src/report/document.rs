//! The command `report`: prints the report of a result file, or puts it into a document.

use std::fs;
use std::path::PathBuf;

use clap::Args;

use super::report;
use crate::error::LabError;
use crate::records::LabRecord;

/// Options of `tarpon-lab report`.
#[derive(Args)]
pub(crate) struct ReportArgs {
    /// Read this result file
    file: PathBuf,
    /// Write the report into this Markdown document, between its marks
    ///
    /// The marks are `<!-- NAME:start -->` and `<!-- NAME:end -->`, where NAME is the name of the result file without extension.
    #[arg(long, value_name = "DOCUMENT")]
    into: Option<PathBuf>,
    /// Change nothing, but fail if the document is out of date
    #[arg(long, requires = "into")]
    check: bool,
}

/// Prints the report, or puts it into the document.
pub(crate) fn run(args: &ReportArgs) -> Result<(), LabError> {
    let named = |path: &PathBuf, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = fs::read_to_string(&args.file).map_err(|error| named(&args.file, &error))?;
    let record: LabRecord = serde_json::from_str(&text).map_err(|error| named(&args.file, &error))?;
    let report = report(&record).markdown();
    let Some(path) = &args.into else {
        print!("{report}");
        return Ok(());
    };
    let document = fs::read_to_string(path).map_err(|error| named(path, &error))?;
    let name = args.file.file_stem().unwrap_or_default().to_string_lossy();
    let updated = update(&document, &name, &report).ok_or_else(|| {
        named(path, &format!("no marks `<!-- {name}:start -->` and `<!-- {name}:end -->`; add them"))
    })?;
    if updated == document {
        return Ok(());
    }
    if args.check {
        return Err(named(path, &format!("out of date with {}", args.file.display())).into());
    }
    Ok(fs::write(path, updated)?)
}

/// Returns the document with `report` between the marks of this name. Returns `None` if the document lacks the marks.
pub(super) fn update(document: &str, name: &str, report: &str) -> Option<String> {
    let (start, end) = (format!("<!-- {name}:start -->"), format!("<!-- {name}:end -->"));
    let (before, rest) = document.split_once(&start)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{start}\n{report}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn update_changes_only_the_text_between_the_marks() {
        let document = "a\n<!-- race:start -->\nold\n<!-- race:end -->\nb\n";
        let updated = update(document, "race", "new\n").unwrap();
        assert_eq!(updated, "a\n<!-- race:start -->\nnew\n<!-- race:end -->\nb\n");
        assert_eq!(update(&updated, "race", "new\n").as_deref(), Some(updated.as_str()));
        assert_eq!(update("a\n<!-- race:end -->\n<!-- race:start -->\n", "race", "new\n"), None);
    }
}
