//! Tables and captions as plain text and as Markdown.

use super::plot::LabPlot;
use crate::format::range;
use crate::stats::Spread;

/// The tables of a record, a caption, and the command that repeats the measurement.
pub(crate) struct LabReport {
    /// Each table with its heading; a single table has none.
    pub(super) tables: Vec<(Option<String>, ReportTable)>,
    /// One paragraph with everything that a reader of the tables must know.
    pub(super) caption: String,
    pub(super) command: String,
}

impl LabReport {
    /// Returns a report with one table.
    pub(super) fn single(
        columns: &'static [ReportColumn],
        rows: Vec<Vec<String>>,
        caption: String,
        command: &str,
    ) -> LabReport {
        LabReport {
            tables: vec![(None, ReportTable { columns, rows, plot: None })],
            caption,
            command: command.to_owned(),
        }
    }

    /// Formats the report for a terminal.
    pub(crate) fn plain(&self) -> String {
        let mut text = String::new();
        for (heading, table) in &self.tables {
            text += &heading.as_ref().map_or(String::new(), |heading| format!("{heading}\n\n"));
            text += &table.plain();
            text += "\n";
        }
        text + &fold(&self.caption, 80) + "\n"
    }

    /// Formats the report for a Markdown document.
    pub(crate) fn markdown(&self) -> String {
        let mut text = String::new();
        for (heading, table) in &self.tables {
            text += &heading.as_ref().map_or(String::new(), |heading| format!("**{heading}**\n\n"));
            text += &table.markdown();
            text += "\n";
        }
        format!("{text}{}\n\n```sh\n{}\n```\n", fold(&self.caption, 80), self.command)
    }
}

/// Rows of cells. The first cell of a row is a name.
pub(crate) struct ReportTable {
    pub(super) columns: &'static [ReportColumn],
    /// Each row has as many cells as there are columns.
    pub(super) rows: Vec<Vec<String>>,
    /// The most telling column as a plot, for a page.
    pub(super) plot: Option<LabPlot>,
}

/// The heading of a column on the terminal, and its heading in documents. A column without the latter appears only on the terminal.
pub(super) type ReportColumn = (&'static str, Option<&'static str>);

impl ReportTable {
    fn plain(&self) -> String {
        let headings: Vec<String> = self.columns.iter().map(|(short, _)| (*short).to_owned()).collect();
        let lines: Vec<&Vec<String>> = [&headings].into_iter().chain(&self.rows).collect();
        let width = |at: usize| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let mut text = String::new();
        for line in lines {
            let mut cells = line.iter().zip(&widths);
            let (name, width) = cells.next().expect("a table has columns");
            text += &format!("{name:width$}");
            for (cell, width) in cells {
                text += &format!("  {cell:>width$}");
            }
            text += "\n";
        }
        text
    }

    fn markdown(&self) -> String {
        let shown = || self.columns.iter().enumerate().filter_map(|(at, (_, long))| Some((at, (*long)?)));
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            cells.map(|cell| format!("| {cell} ")).collect::<String>() + "|\n"
        };
        let mut text = line(&mut shown().map(|(_, long)| long));
        text += &line(&mut shown().map(|(at, _)| if at == 0 { "---" } else { "--:" }));
        for row in &self.rows {
            text += &line(&mut shown().map(|(at, _)| &*row[at]));
        }
        text
    }
}

/// Returns a cell with the median, or with [`NONE`].
pub(super) fn median(spread: Option<Spread>, format: impl Fn(f64) -> String) -> String {
    spread.map_or(NONE.into(), |spread| format(spread.median))
}

/// Returns a cell with minimum and maximum, or with [`NONE`].
pub(super) fn min_max(spread: Option<Spread>, format: impl Fn(f64) -> String) -> String {
    spread.map_or(NONE.into(), |spread| range(&format(spread.min), &format(spread.max)))
}

/// Breaks a text into lines of at most so many columns.
pub(super) fn fold(text: &str, columns: usize) -> String {
    let mut folded = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        let len = word.chars().count();
        if column > 0 && column + 1 + len > columns {
            folded += "\n";
            column = 0;
        } else if column > 0 {
            folded += " ";
            column += 1;
        }
        folded += word;
        column += len;
    }
    folded
}

/// A cell without a number.
pub(super) const NONE: &str = "–";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn column_without_a_long_heading_appears_only_on_the_terminal() {
        const COLUMNS: &[ReportColumn] = &[("name", Some("name")), ("a", None), ("b", Some("the letter b"))];
        let row = ["one", "10", "2"].map(str::to_owned).to_vec();
        let report = LabReport::single(COLUMNS, vec![row], "Caption.".into(), "do");
        assert_eq!(report.plain(), "name   a  b\none   10  2\n\nCaption.\n");
        let want = "| name | the letter b |\n| --- | --: |\n| one | 2 |\n\nCaption.\n\n```sh\ndo\n```\n";
        assert_eq!(report.markdown(), want);
    }
}
