//! The findings of the doctor, as a table for people and as JSON for programs.
//!
//! ```text
//! network
//!   ! accept-backlog         128
//!       advice   set net.core.somaxconn to 4096
//!       why      Connections wait in this queue until a worker accepts them.
//!       command  sysctl -w net.core.somaxconn=4096
//!       apply    net.core.somaxconn: 128 -> 4096
//! ```
//!
//! A terminal gets colours, symbols, and lines that fit. A pipe gets words and whole lines.

use crate::control::doctor::{ChangeOutcome, ChangeReport, Finding, FindingGroup, SysctlChange, Verdict};
use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};
use std::io::{self, Write};

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const GREEN: Style = AnsiColor::Green.on_default();
const YELLOW: Style = AnsiColor::Yellow.on_default().bold();
const RED: Style = AnsiColor::Red.on_default().bold();
const CYAN: Style = AnsiColor::Cyan.on_default();

/// How a report is laid out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReportLayout {
    /// The columns of the terminal. `None`: the output is no terminal.
    pub(crate) width: Option<usize>,
}

/// Writes all findings: of those that are good, the value alone.
pub(crate) fn write(groups: &[FindingGroup], layout: ReportLayout, to: &mut dyn Write) -> io::Result<()> {
    for FindingGroup { name, findings } in groups.iter().filter(|group| !group.findings.is_empty()) {
        writeln!(to, "{BOLD}{name}{BOLD:#}")?;
        findings.iter().try_for_each(|finding| write_finding(finding, layout, to))?;
    }
    let counts = counts(groups).map(|(verdict, count)| format!("{count} {}", name(verdict)));
    let changes = groups.iter().flat_map(|group| &group.findings).filter(|finding| finding.change.is_some());
    let changes = match changes.count() {
        0 => String::new(),
        1 => "; tarpon doctor --apply changes one setting".to_owned(),
        count => format!("; tarpon doctor --apply changes {count} settings"),
    };
    write_wrapped(&format!("{}{changes}", counts.join(", ")), 0, layout, to)
}

fn write_finding(finding: &Finding, layout: ReportLayout, to: &mut dyn Write) -> io::Result<()> {
    let Finding { check, subject, verdict, value, advice, why, command, change } = finding;
    let style = style(*verdict);
    let mark = match layout.width {
        Some(_) => symbol(*verdict).to_owned(),
        None => format!("{:<7}", name(*verdict)),
    };
    let subject = subject.as_ref().map(|subject| format!("{subject}: ")).unwrap_or_default();
    let text = format!("{subject}{value}");
    let indent = INDENT + mark.chars().count() + 1 + CHECK_WIDTH + 1;
    let is_narrow = layout.width.is_some_and(|width| width < indent + VALUE_WIDTH_MIN);
    write!(to, "{:INDENT$}{style}{mark}{style:#} ", "")?;
    if is_narrow {
        writeln!(to, "{check}")?;
        write!(to, "{:DETAIL_INDENT$}", "")?;
        write_wrapped(&text, DETAIL_INDENT, layout, to)?;
    } else {
        write!(to, "{check:<CHECK_WIDTH$} ")?;
        write_wrapped(&text, indent, layout, to)?;
    }
    if *verdict == Verdict::Good {
        return Ok(());
    }
    let change = change.as_ref().map(|SysctlChange { name, from, to }| format!("{name}: {from} -> {to}"));
    let details = [
        ("advice", advice.as_ref()),
        ("why", Some(why)),
        ("command", command.as_ref()),
        ("apply", change.as_ref()),
    ];
    for (label, text) in details.into_iter().filter_map(|(label, text)| Some((label, text?))) {
        write!(to, "{:DETAIL_INDENT$}{DIM}{label:<LABEL_WIDTH$}{DIM:#} ", "")?;
        match label {
            // A command stays in one line, to be copied.
            "command" => writeln!(to, "{text}")?,
            _ => write_wrapped(text, DETAIL_INDENT + LABEL_WIDTH + 1, layout, to)?,
        }
    }
    Ok(())
}

/// The columns before a finding.
const INDENT: usize = 2;
/// The columns of the name of a check.
const CHECK_WIDTH: usize = 21;
/// A terminal with less room for the value gets it on a line of its own.
const VALUE_WIDTH_MIN: usize = 24;
/// The columns before a detail, and of its label.
const DETAIL_INDENT: usize = 6;
const LABEL_WIDTH: usize = 8;

/// Writes text that begins in column `indent`, and continues there in further lines.
fn write_wrapped(text: &str, indent: usize, layout: ReportLayout, to: &mut dyn Write) -> io::Result<()> {
    let room = layout.width.map_or(usize::MAX, |width| width.saturating_sub(indent).max(ROOM_MIN));
    for (number, line) in wrap(text, room).iter().enumerate() {
        let indent = if number > 0 { indent } else { 0 };
        writeln!(to, "{:indent$}{line}", "")?;
    }
    Ok(())
}

/// Even a narrow terminal has whole words.
const ROOM_MIN: usize = 10;

/// Breaks text between words. A longer word has a line of its own.
fn wrap(text: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("it begins with one");
        let len = line.chars().count();
        if len == 0 {
            line.push_str(word);
        } else if len + 1 + word.chars().count() <= room {
            line.extend([" ", word]);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// Writes what has become of settings. `verb`: what a success is called.
pub(crate) fn write_changes(
    report: &ChangeReport,
    verb: &str,
    layout: ReportLayout,
    to: &mut dyn Write,
) -> io::Result<()> {
    if report.outcomes.is_empty() {
        return writeln!(to, "no setting {verb}: there is nothing to do");
    }
    for ChangeOutcome { name, from, to: value, failure } in &report.outcomes {
        match failure {
            None => writeln!(to, "{GREEN}{verb}{GREEN:#} {name}: {from} -> {value}")?,
            Some(why) => {
                write!(to, "{RED}failed{RED:#} ")?;
                write_wrapped(&format!("{name}: {from} -> {value}: {why}"), "failed ".len(), layout, to)?;
            }
        }
    }
    if report.record.exists() {
        use tarpon_site::Printable;
        let text = format!(
            "the values before are in {}; tarpon doctor --undo sets them back",
            report.record.printable()
        );
        write_wrapped(&text, 0, layout, to)?;
    }
    Ok(())
}

/// Writes the changes as a file of sysctl.d(5).
pub(crate) fn write_sysctl(changes: &[SysctlChange], to: &mut dyn Write) -> io::Result<()> {
    writeln!(
        to,
        "# Proposed by tarpon doctor for this machine. Save as /etc/sysctl.d/90-tarpon.conf, and run sysctl --system."
    )?;
    changes.iter().try_for_each(|SysctlChange { name, from, to: value }| {
        writeln!(to, "# It was {from}.\n{name} = {value}")
    })
}

/// Returns the findings as JSON, with the changes that were made.
pub(crate) fn json(groups: &[FindingGroup], applied: Option<&ChangeReport>) -> Value {
    let findings = groups.iter().flat_map(|group| {
        group.findings.iter().map(|finding| {
            let mut value = serde_json::to_value(finding).expect("text and numbers");
            value["group"] = group.name.into();
            value
        })
    });
    let counts = counts(groups).map(|(verdict, count)| (name(verdict).to_owned(), Value::from(count)));
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "counts": serde_json::Map::from_iter(counts),
        "findings": findings.collect::<Vec<_>>(),
        "applied": applied,
    })
}

fn counts(groups: &[FindingGroup]) -> [(Verdict, usize); 4] {
    [Verdict::Good, Verdict::Advice, Verdict::Problem, Verdict::Unknown].map(|verdict| {
        let all = groups.iter().flat_map(|group| &group.findings);
        (verdict, all.filter(|finding| finding.verdict == verdict).count())
    })
}

fn name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Good => "good",
        Verdict::Advice => "advice",
        Verdict::Problem => "problem",
        Verdict::Unknown => "unknown",
    }
}

fn symbol(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Good => "✓",
        Verdict::Advice => "!",
        Verdict::Problem => "✗",
        Verdict::Unknown => "?",
    }
}

fn style(verdict: Verdict) -> Style {
    match verdict {
        Verdict::Good => GREEN,
        Verdict::Advice => YELLOW,
        Verdict::Problem => RED,
        Verdict::Unknown => CYAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups() -> Vec<FindingGroup> {
        let change =
            SysctlChange { name: "net.core.somaxconn", from: "128".to_owned(), to: "4096".to_owned() };
        let why =
            "Connections wait in this queue until a worker accepts them, and clients retry if it is full.";
        let network = vec![
            Finding::good("congestion-control", "cubic", "why"),
            Finding::advice("accept-backlog", "128", why, "set it to 4096").change(change),
        ];
        let configuration = vec![
            Finding::problem("site-path", "user www may not enter it", "why", "open it")
                .about("/srv/www")
                .command("chmod o+x /srv"),
            Finding::unknown("name", "no answer", "why").about("example.org"),
        ];
        vec![
            FindingGroup { name: "network", findings: network },
            FindingGroup { name: "empty", findings: Vec::new() },
            FindingGroup { name: "configuration", findings: configuration },
        ]
    }

    fn written(width: Option<usize>) -> String {
        let mut out = Vec::new();
        write(&groups(), ReportLayout { width }, &mut out).expect("memory");
        anstream::adapter::strip_str(&String::from_utf8(out).expect("text")).to_string()
    }

    #[test]
    fn pipe_has_words_and_whole_lines() {
        let want = "\
network
  good    congestion-control    cubic
  advice  accept-backlog        128
      advice   set it to 4096
      why      Connections wait in this queue until a worker accepts them, and clients retry if it is full.
      command  sysctl -w net.core.somaxconn=4096
      apply    net.core.somaxconn: 128 -> 4096
configuration
  problem site-path             /srv/www: user www may not enter it
      advice   open it
      why      why
      command  chmod o+x /srv
  unknown name                  example.org: no answer
      why      why
1 good, 1 advice, 1 problem, 1 unknown; tarpon doctor --apply changes one setting
";
        assert_eq!(written(None), want);
    }

    #[test]
    fn terminal_has_symbols_and_lines_that_fit() {
        for width in [40, 60, 80, 120] {
            let text = written(Some(width));
            for line in text.lines().filter(|line| !line.contains("command  ")) {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
            for shown in ["✓ congestion-control", "! accept-backlog", "✗ site-path", "? name"] {
                assert!(text.contains(shown), "{width}: {text}");
            }
        }
    }

    #[test]
    fn lines_break_between_words() {
        #[rustfmt::skip]
        let cases: &[(&str, usize, &[&str])] = &[
            ("",              5, &[""]),
            ("one two three", 7, &["one two", "three"]),
            ("one two three", 6, &["one", "two", "three"]),
            ("overlong a b",  3, &["overlong", "a b"]),
        ];
        for (text, room, want) in cases {
            assert_eq!(wrap(text, *room), *want, "{text}");
        }
    }

    #[test]
    fn json_has_each_finding_with_its_group() {
        let value = json(&groups(), None);
        assert_eq!(value["counts"], json!({"good": 1, "advice": 1, "problem": 1, "unknown": 1}));
        assert_eq!(
            value["findings"][1],
            json!({
                "group": "network", "check": "accept-backlog", "subject": null, "verdict": "advice", "value": "128",
                "advice": "set it to 4096",
                "why": "Connections wait in this queue until a worker accepts them, and clients retry if it is full.",
                "command": "sysctl -w net.core.somaxconn=4096",
                "change": {"name": "net.core.somaxconn", "from": "128", "to": "4096"},
            })
        );
        assert_eq!(value["findings"].as_array().map(Vec::len), Some(4));
    }

    #[test]
    fn sysctl_file_has_each_change() {
        let mut out = Vec::new();
        let change = groups()[0].findings[1].change.clone().unwrap();
        write_sysctl(&[change], &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.ends_with("# It was 128.\nnet.core.somaxconn = 4096\n"), "{text}");
        assert!(text.lines().all(|line| line.starts_with('#') || line.contains(" = ")), "{text}");
    }
}
