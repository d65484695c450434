//! The servers of upstreams as a table for a terminal of 80 columns.

use crate::UpstreamMetrics;
use anstyle::Style;
use std::{
    borrow::Cow,
    io::{self, Write},
};
use tarpon_site::Printable;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();

/// The heads of the columns, and their widths. With the gaps they take 79 columns. A longer address shifts its own line only.
const COLUMNS: [(&str, usize); 8] = [
    ("server", 21),
    ("state", 9),
    ("weight", 6),
    ("open", 5),
    ("idle", 5),
    ("busy", 5),
    ("requests", 9),
    ("failures", 8),
];

/// Writes a heading for each upstream, and a line for each of its servers.
pub(super) fn write(servers: &[UpstreamMetrics], to: &mut impl Write) -> io::Result<()> {
    let mut upstream = None;
    for server in servers {
        if upstream != Some(&server.upstream) {
            upstream = Some(&server.upstream);
            writeln!(to, "  {BOLD}upstream {}{BOLD:#}", server.upstream.printable())?;
            let heads = COLUMNS.map(|(head, _)| head.to_owned());
            writeln!(to, "{DIM}{}{DIM:#}", line(&heads))?;
        }
        writeln!(to, "{}", line(&cells(server)))?;
    }
    Ok(())
}

/// Returns the cells of a server.
fn cells(server: &UpstreamMetrics) -> [String; 8] {
    let state: Cow<'_, str> = match server.is_backup {
        // There is no room for both words, and one that is down does not serve as a backup.
        true if server.state == crate::UpstreamState::Up => "backup".into(),
        _ => server.state.name().into(),
    };
    let weight = match server.effective_per_mille {
        1_000 => server.weight.to_string(),
        // During its slow start.
        part => format!("{:.1}", f64::from(server.weight) * part as f64 / 1_000.0),
    };
    let failures = server.failed + server.timed_out + server.connect_failures;
    [
        server.server.printable().to_string(),
        state.into_owned(),
        weight,
        server.open.to_string(),
        server.idle.to_string(),
        server.in_progress.to_string(),
        server.requests.to_string(),
        failures.to_string(),
    ]
}

/// Returns a line: words to the left, numbers to the right.
fn line(cells: &[String; 8]) -> String {
    let mut line = "   ".to_owned();
    for (number, (cell, (_, width))) in cells.iter().zip(COLUMNS).enumerate() {
        line.push(' ');
        line.push_str(&match number {
            0 | 1 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UpstreamState;

    #[test]
    fn table_has_a_heading_for_each_upstream_and_fits_a_terminal() {
        let server = |upstream: &str, server: &str| UpstreamMetrics {
            upstream: upstream.to_owned(),
            server: server.to_owned(),
            weight: 1,
            effective_per_mille: 1_000,
            ..UpstreamMetrics::default()
        };
        let servers = [
            UpstreamMetrics {
                open: 12,
                idle: 10,
                in_progress: 2,
                requests: 123_456_789,
                failed: 1,
                timed_out: 2,
                connect_failures: 3,
                ..server("app", "192.168.100.100:65535")
            },
            UpstreamMetrics { weight: 4, effective_per_mille: 125, ..server("app", "10.0.0.2:80") },
            UpstreamMetrics { is_backup: true, ..server("app", "10.0.0.3:80") },
            UpstreamMetrics { state: UpstreamState::Suspended, ..server("php", "unix:/run/php.sock") },
        ];
        let mut found = Vec::new();
        write(&servers, &mut anstream::StripStream::new(&mut found)).unwrap();
        let found = String::from_utf8(found).unwrap();
        let want = "  upstream app
    server                state     weight  open  idle  busy  requests failures
    192.168.100.100:65535 up             1    12    10     2 123456789        6
    10.0.0.2:80           up           0.5     0     0     0         0        0
    10.0.0.3:80           backup         1     0     0     0         0        0
  upstream php
    server                state     weight  open  idle  busy  requests failures
    unix:/run/php.sock    suspended      1     0     0     0         0        0
";
        assert_eq!(found, want);
        assert!(found.lines().all(|line| line.len() <= 80));
    }
}
