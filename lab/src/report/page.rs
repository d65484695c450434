//! The command `page`: all result files as one page of HTML, with plots, that needs no other file.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use super::report;
use super::table::{LabReport, ReportTable};
use crate::error::LabError;
use crate::records::LabRecord;

/// Options of `tarpon-lab page`.
#[derive(Args)]
pub(crate) struct PageArgs {
    /// Show the result files of this directory
    #[arg(default_value = "lab/results")]
    results: PathBuf,
    /// Write the page to this file
    #[arg(long, value_name = "FILE", default_value = "lab/report.html")]
    out: PathBuf,
    /// Change nothing, but fail if the page is out of date
    #[arg(long)]
    check: bool,
}

/// Writes the page.
pub(crate) fn run(args: &PageArgs) -> Result<(), LabError> {
    let page = page(&sections(&args.results)?);
    let named = |error: std::io::Error| format!("{}: {error}", args.out.display());
    if args.check {
        return match fs::read_to_string(&args.out).map_err(named)? == page {
            true => Ok(()),
            false => {
                Err(format!("{}: out of date with {}", args.out.display(), args.results.display()).into())
            }
        };
    }
    Ok(fs::write(&args.out, page).map_err(named)?)
}

/// What the page says of one result file.
struct PageSection {
    /// The name of the file without extension.
    name: String,
    report: LabReport,
}

/// Reads all result files of a directory that a report exists for, in the order of [`QUESTIONS`].
fn sections(results: &Path) -> Result<Vec<PageSection>, LabError> {
    let mut sections = Vec::new();
    for entry in fs::read_dir(results).map_err(|error| format!("{}: {error}", results.display()))? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        // The accepted numbers of instructions are no measurement of this kind.
        if path.extension().is_none_or(|extension| extension != "json") || name == "cost" {
            continue;
        }
        let text = fs::read_to_string(&path)?;
        let record: LabRecord =
            serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        sections.push(PageSection { name, report: report(&record) });
    }
    let place =
        |name: &str| QUESTIONS.iter().position(|(known, _)| *known == name).unwrap_or(QUESTIONS.len());
    sections.sort_by(|a, b| (place(&a.name), &a.name).cmp(&(place(&b.name), &b.name)));
    Ok(sections)
}

/// The questions that result files answer.
const QUESTIONS: &[(&str, &str)] = &[
    ("race", "How many requests per second does each engine serve, and at what cost?"),
    ("race-sizes", "How many requests per second for contents from 137 bytes to 64 KiB?"),
    ("race-large", "How much does a server send of files of 1 and 100 MiB?"),
    ("race-large-bbr", "And how much with the congestion control BBR?"),
    ("mix", "How many requests per second of visitors of a real site?"),
    ("sizes", "What does a file cost, at each megabyte from 1 to 100?"),
    ("sizes-fine", "And in steps of 20 kB to 10 MB?"),
    ("race-new", "What does a new connection for each request cost?"),
    ("rungs", "What did the first servers of these stories do wrong?"),
    ("stories", "Are the figures of these stories reproduced?"),
    ("race-pipelined", "How many requests per second, with 16 at once on each connection?"),
    ("race-browser", "How many requests per second, with the fields of a browser?"),
    ("connections", "How many requests per second, with 1 to 10,000 connections?"),
    ("sweep", "What does each way to send a file cost, from 1 KiB to 100 MiB?"),
    ("race-gzip", "How many requests per second for content that was compressed before?"),
    ("race-range", "How many requests per second for ranges of bytes?"),
    ("race-conditional", "How many requests per second for content that has not changed?"),
    ("log", "What does the access log cost?"),
    ("pgo", "What do a profile-guided build and another allocator bring?"),
    ("cold", "Do clients of a page in memory wait while other clients read from a slow disk?"),
    ("disk", "How many random reads per second from the disk, with 1 to 64 at once?"),
    ("start", "How soon does a server answer with 100,000 files, and how much memory does it take?"),
    ("tls", "What do handshakes and requests with TLS cost?"),
    ("tls-storm", "Do clients wait for the handshakes of others?"),
    ("ktls", "What does TLS in the kernel save?"),
    ("http2", "What does a request cost over HTTP/2?"),
    ("http2-share", "How many requests per second over HTTP/2, if the server is the limit?"),
    ("http2-share-tls", "And how many with TLS, if the server is the limit?"),
    ("http2-tls-large", "How many responses of 64 KiB over HTTP/2 with TLS?"),
    ("streams", "How much memory do connections and streams of HTTP/2 take?"),
    ("functions", "What does a request cost that a function of a program answers?"),
    ("loads", "Does a program that embeds tarpon answer every request under load?"),
    ("programs", "What does a request cost that starts a program?"),
    ("stalled", "Do other clients wait for programs that never answer?"),
    ("attacks", "What do other clients notice of an attack?"),
    ("proxy", "What does a request cost that an upstream server answers?"),
    ("stalled-upstream", "Do other clients wait for an upstream that never answers?"),
    ("tunnels", "What does an idle tunnel cost?"),
    ("ladder", "What does each optimisation of a published case study bring?"),
    ("pack", "Are compressed files as small as those of the reference encoders?"),
    ("pack-many", "How long does it take to pack 100,000 pages?"),
];

fn page(sections: &[PageSection]) -> String {
    let mut page = format!("{HEAD}<nav aria-label=\"Questions\"><ul>\n");
    for section in sections {
        page += &format!("<li><a href=\"#{0}\">{1}</a></li>\n", section.name, escape(section.question()));
    }
    page += "</ul></nav>\n";
    sections.iter().for_each(|section| page += &section.html());
    page + "</main>\n</body>\n</html>\n"
}

impl PageSection {
    fn question(&self) -> &str {
        let known = QUESTIONS.iter().find(|(name, _)| *name == self.name);
        known.map_or(&self.name, |(_, question)| question)
    }

    fn html(&self) -> String {
        let question = self.question();
        let mut html = format!("<section id=\"{}\">\n<h2>{}</h2>\n", self.name, escape(question));
        for (heading, table) in &self.report.tables {
            if let Some(heading) = heading {
                html += &format!("<h3>{}</h3>\n", escape(heading));
            }
            if let Some(plot) = &table.plot {
                let label =
                    heading.as_ref().map_or(question.to_owned(), |heading| format!("{question} {heading}"));
                html += &format!("<figure>{}</figure>\n", plot.svg(&label));
            }
            html += &table_html(table);
        }
        let LabReport { caption, command, .. } = &self.report;
        html + &format!(
            "<p>{}</p>\n<pre><code>{}</code></pre>\n</section>\n",
            escape(caption),
            escape(command)
        )
    }
}

fn table_html(table: &ReportTable) -> String {
    let row = |cells: &mut dyn Iterator<Item = &str>, kind: &str| {
        let cells = cells.map(|cell| format!("<{kind}>{}</{kind}>", escape(cell)));
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    let shown = || table.columns.iter().enumerate().filter_map(|(at, (_, long))| Some((at, (*long)?)));
    let mut html = String::from("<div class=\"wide\" tabindex=\"0\"><table>\n<thead>");
    html += &row(&mut shown().map(|(_, long)| long), "th");
    html += "</thead>\n<tbody>\n";
    for cells in &table.rows {
        html += &row(&mut shown().map(|(at, _)| &*cells[at]), "td");
    }
    html + "</tbody>\n</table></div>\n"
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

const HEAD: &str = r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>tarpon, measured</title>
<style>
:root { --text: #1b1f24; --page: #fff; --line: #d5dae0; --soft: #f4f6f8; --link: #0b5cad }
@media (prefers-color-scheme: dark) { :root { --text: #dfe4ea; --page: #14181d; --line: #39424d; --soft: #1d232a; --link: #7db8f2 } }
* { box-sizing: border-box }
body { margin: 0; color: var(--text); background: var(--page); font: 16px/1.5 system-ui, sans-serif }
main { max-width: 62rem; margin: 0 auto; padding: 1rem }
a { color: var(--link) }
h1 { line-height: 1.2 } h2 { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: 1.5rem; line-height: 1.25 } h3 { margin: 1.75rem 0 .5rem }
nav ul { columns: 24rem; padding-left: 1.2rem }
figure { margin: 0 0 1rem; overflow-x: auto } figure svg { width: 100%; min-width: 30rem; max-width: 48rem; height: auto }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums }
th, td { padding: .3rem .6rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap }
th { white-space: normal; vertical-align: bottom; background: var(--soft) }
th:first-child, td:first-child { text-align: left }
section > p { font-size: .9rem; max-width: 48rem }
pre { background: var(--soft); padding: .75rem; overflow-x: auto; font-size: .8rem; border-radius: .3rem }
</style>
</head>
<body>
<main>
<h1>tarpon, measured</h1>
<p>Each table and plot comes from a result file, and repeats with the command below it. Servers are measured in turn, on the same core, in one run. A bar is
the median of the clean rounds, and the line on it their range. Absolute numbers hold for one machine on one day; what carries over to other machines are
ratios within a run. Null servers parse nothing and send the same bytes for every request: they are the limit.</p>
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::plot::{BarKind, LabPlot, PlotBar};
    use crate::report::table::ReportColumn;
    use crate::stats::Spread;

    #[test]
    fn page_has_a_plot_a_table_and_the_command() {
        const COLUMNS: &[ReportColumn] = &[("server", Some("server")), ("a", None), ("b", Some("the <b>"))];
        let spread = Spread { median: 1.0, min: 1.0, max: 1.0 };
        let bar = PlotBar { name: "one".into(), spread, value: "1".into(), kind: BarKind::Tarpon };
        let rows = vec![["one", "10", "2 & 3"].map(str::to_owned).to_vec()];
        let table = ReportTable { columns: COLUMNS, rows, plot: Some(LabPlot::Bars(vec![bar])) };
        let report = LabReport {
            tables: vec![(Some("A heading".into()), table)],
            caption: "Why.".into(),
            command: "tarpon-lab race".into(),
        };
        let html = page(&[PageSection { name: "race".into(), report }]);
        for part in [
            "<a href=\"#race\">How many requests",
            "<h3>A heading</h3>",
            "aria-label=\"How many requests per second does each engine serve, and at what cost? A heading\"",
            "<tr><th>server</th><th>the &lt;b&gt;</th></tr>",
            "<tr><td>one</td><td>2 &amp; 3</td></tr>",
            "<code>tarpon-lab race</code>",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
    }
}
