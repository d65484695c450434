//! A table as text: for the terminal, and as Markdown.
//!
//! Knows nothing of what was measured.

use crate::stats::Spread;

/// What a measurement says: tables, what they stand on, and the command that makes them.
pub(crate) struct Report {
    /// Each below its heading; without one, if there is only this one.
    pub(crate) tables: Vec<(Option<String>, Table)>,
    /// What has to be known to read them, in one paragraph.
    pub(crate) caption: String,
    pub(crate) command: String,
}

impl Report {
    /// For a terminal.
    pub(crate) fn plain(&self) -> String {
        let mut text = String::new();
        for (heading, table) in &self.tables {
            text += &heading.as_ref().map_or(String::new(), |heading| format!("{heading}\n\n"));
            text += &table.plain();
            text += "\n";
        }
        text + &fold(&self.caption) + "\n"
    }

    /// For a document.
    pub(crate) fn markdown(&self) -> String {
        let mut text = String::new();
        for (heading, table) in &self.tables {
            text += &heading.as_ref().map_or(String::new(), |heading| format!("**{heading}**\n\n"));
            text += &table.markdown();
            text += "\n";
        }
        format!("{text}{}\n\n```sh\n{}\n```\n", fold(&self.caption), self.command)
    }
}

/// Rows of cells, of which the first is a name.
pub(crate) struct Table {
    pub(crate) columns: &'static [Column],
    /// Each has as many cells as there are columns.
    pub(crate) rows: Vec<Vec<String>>,
}

/// What a column is called in a terminal, and in a document if it stands there.
pub(crate) type Column = (&'static str, Option<&'static str>);

impl Table {
    fn plain(&self) -> String {
        let heads: Vec<String> = self.columns.iter().map(|(short, _)| (*short).to_owned()).collect();
        let lines: Vec<&Vec<String>> = [&heads].into_iter().chain(&self.rows).collect();
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

/// In lines of at most 80 columns.
fn fold(text: &str) -> String {
    let mut folded = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        let len = word.chars().count();
        if column > 0 && column + 1 + len > 80 {
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

/// Of requests a second: to three digits.
pub(crate) fn rate(per_second: f64) -> String {
    match per_second {
        10_000.0.. => format!("{:.0}k", per_second / 1e3),
        1_000.0.. => format!("{:.1}k", per_second / 1e3),
        _ => format!("{per_second:.0}"),
    }
}

/// A share in percent.
pub(crate) fn percent(share: Option<Spread>) -> String {
    share.map_or(NONE.into(), |share| format!("{:.0}%", share.median * 100.0))
}

/// What something was multiplied with.
pub(crate) fn factor(ratio: f64) -> String {
    format!("×{ratio:.3}")
}

/// From the least to the greatest.
pub(crate) fn range(min: &str, max: &str) -> String {
    format!("{min}–{max}")
}

/// A time, in milliseconds, to about three digits.
pub(crate) fn ms(ns: f64) -> String {
    match ns / 1e6 {
        ms @ 100.0.. => format!("{ms:.0}"),
        ms @ 1.0.. => format!("{ms:.1}"),
        ms => format!("{ms:.2}"),
    }
}

/// Bytes, in MiB, to about three digits.
pub(crate) fn mib(bytes: f64) -> String {
    match bytes / (1 << 20) as f64 {
        mib @ 100.0.. => format!("{mib:.0}"),
        mib => format!("{mib:.1}"),
    }
}

/// A count with a comma before each three digits.
pub(crate) fn thousands(count: usize) -> String {
    match count {
        0..1000 => count.to_string(),
        _ => format!("{},{:03}", thousands(count / 1000), count % 1000),
    }
}

/// In place of a number that was not measured.
pub(crate) const NONE: &str = "–";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_told_to_about_three_digits() {
        for (number, want) in [(306_120.4, "306k"), (62_000.0, "62k"), (3_849.0, "3.8k"), (47.2, "47")] {
            assert_eq!(rate(number), want);
        }
        for (ns, want) in [(1.234e9, "1234"), (12.34e6, "12.3"), (1.0e6, "1.0"), (45_600.0, "0.05")] {
            assert_eq!(ms(ns), want);
        }
        for (bytes, want) in [(f64::from(1 << 30), "1024"), (1_572_864.0, "1.5"), (0.0, "0.0")] {
            assert_eq!(mib(bytes), want);
        }
        for (count, want) in [(1, "1"), (1000, "1,000"), (12_034, "12,034"), (1_000_007, "1,000,007")] {
            assert_eq!(thousands(count), want);
        }
    }

    #[test]
    fn a_column_without_a_long_name_is_for_the_terminal_alone() {
        const COLUMNS: &[Column] = &[("name", Some("name")), ("a", None), ("b", Some("the letter b"))];
        let row = ["one", "10", "2"].map(str::to_owned).to_vec();
        let table = Table { columns: COLUMNS, rows: vec![row] };
        let report = Report { tables: vec![(None, table)], caption: "Said.".into(), command: "do".into() };
        assert_eq!(report.plain(), "name   a  b\none   10  2\n\nSaid.\n");
        let want = "| name | the letter b |\n| --- | --: |\n| one | 2 |\n\nSaid.\n\n```sh\ndo\n```\n";
        assert_eq!(report.markdown(), want);
    }
}
