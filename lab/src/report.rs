//! A record as a table: for the terminal, and for a document that keeps it.
//!
//! ```text
//! record ─▶ standings ─▶ table ─┬▶ plain
//!                               └▶ Markdown ─▶ between the marks of a document
//! ```

use std::fs;
use std::path::PathBuf;

use clap::Args;

use crate::Trouble;
use crate::record::{Change, Heat, Race};
use crate::stats::Spread;

/// What to report, and where.
#[derive(Args)]
pub(crate) struct Options {
    /// The result file of a race.
    file: PathBuf,
    /// Replaces what is between `<!-- race:start -->` and `<!-- race:end -->` in this document.
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
    let race: Race = serde_json::from_str(&text).map_err(|error| named(&options.file, &error))?;
    let report = markdown(&race);
    let Some(path) = &options.into else {
        print!("{report}");
        return Ok(());
    };
    let document = fs::read_to_string(path).map_err(|error| named(path, &error))?;
    let renewed =
        renew(&document, &report).ok_or_else(|| named(path, &format!("no {START} with {END} behind it")))?;
    if renewed == document {
        return Ok(());
    }
    if options.check {
        return Err(named(path, &format!("not up to date with {}", options.file.display())).into());
    }
    Ok(fs::write(path, renewed)?)
}

/// The tables for a terminal, one for each number of connections.
pub(crate) fn plain(race: &Race) -> String {
    let tables: String =
        race.heats.iter().map(|heat| format!("{heat}\n\n{}\n", plain_table(race, heat))).collect();
    tables + &caption(race) + "\n"
}

fn plain_table(race: &Race, heat: &Heat) -> String {
    let mut lines = vec![COLUMNS.map(|(short, _)| short.to_owned())];
    lines.extend(rows(race, heat));
    let widths: [usize; COLUMNS.len()] =
        std::array::from_fn(|at| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0));
    let mut text = String::new();
    for line in lines {
        let mut cells = line.iter().zip(widths);
        let (name, width) = cells.next().expect("a table has columns");
        text += &format!("{name:width$}");
        for (cell, width) in cells {
            text += &format!("  {cell:>width$}");
        }
        text += "\n";
    }
    text
}

/// The tables for a document, with what they stand on and the command that makes them.
fn markdown(race: &Race) -> String {
    let tables: String =
        race.heats.iter().map(|heat| format!("**{heat}**\n\n{}\n", markdown_table(race, heat))).collect();
    format!("{tables}{}\n\n```sh\n{}\n```\n", caption(race), race.command)
}

fn markdown_table(race: &Race, heat: &Heat) -> String {
    let mut text = String::new();
    let mut line = |cells: [&str; COLUMNS.len()]| {
        for (cell, (_, long)) in cells.into_iter().zip(COLUMNS) {
            if long.is_some() {
                text += &format!("| {cell} ");
            }
        }
        text += "|\n";
    };
    line(COLUMNS.map(|(_, long)| long.unwrap_or_default()));
    line(std::array::from_fn(|at| if at == 0 { "---" } else { "--:" }));
    for row in rows(race, heat) {
        line(row.each_ref().map(String::as_str));
    }
    text
}

/// What each column is called in a terminal, and in a document if it stands there.
const COLUMNS: [(&str, Option<&str>); 8] = [
    ("server", Some("server")),
    ("req/s", Some("requests/s")),
    ("of epoll", Some("of null epoll")),
    ("of uring", Some("of null io_uring")),
    ("server µs", Some("server CPU µs/request")),
    ("client µs", None),
    ("calls", Some("system calls/request")),
    ("range", Some("range of requests/s")),
];

/// A row for each server, and below an earlier build of tarpon what has changed.
fn rows(race: &Race, heat: &Heat) -> Vec<[String; COLUMNS.len()]> {
    let mut rows = Vec::new();
    for entrant in &race.entrants {
        let name = entrant.name.clone();
        let calls = heat.calls_per_request(entrant.server);
        let calls = calls.map_or(NONE.into(), |calls| format!("{calls:.2}"));
        rows.push(match heat.standing(entrant.server) {
            Some(standing) => [
                name,
                rate(standing.rate.median),
                percent(standing.of_epoll),
                percent(standing.of_uring),
                format!("{:.2}", standing.server_us.median),
                format!("{:.2}", standing.client_us.median),
                calls,
                range(rate(standing.rate.min).trim_end_matches('k'), &rate(standing.rate.max)),
            ],
            None => [&name, NONE, NONE, NONE, NONE, NONE, &calls, NONE].map(str::to_owned),
        });
        rows.extend(heat.change(entrant.server).map(change));
    }
    rows
}

fn change(change: Change) -> [String; COLUMNS.len()] {
    [
        "after/before".into(),
        factor(change.rate.median),
        NONE.into(),
        NONE.into(),
        factor(change.server_us.median),
        factor(change.client_us.median),
        NONE.into(),
        range(&factor(change.rate.min), factor(change.rate.max).trim_start_matches('×')),
    ]
}

/// In lines of at most 80 columns.
fn caption(race: &Race) -> String {
    let setting = &race.setting;
    let clean = race.heats.iter().map(|heat| heat.clean().count()).sum::<usize>();
    let run = race.heats.iter().map(|heat| heat.rounds.len()).sum::<usize>();
    let control = race.machine.congestion_control.as_deref().unwrap_or("unknown congestion control");
    let conditions = match setting.made_conditions {
        true => format!("on one core as batch tasks, in a private network with {control}"),
        false => "on one core, OTHERWISE UNDER CONDITIONS AS FOUND: for trying out only".into(),
    };
    let dirty_share = setting.foreign_share_max * 100.0;
    let kernel = race.machine.kernel.split('-').next().unwrap_or_default();
    let elsewhere =
        race.elsewhere().map_or(String::new(), |cores| format!(" Other cores busy beside it: {cores:.1}."));
    let uncounted =
        race.uncounted.as_ref().map_or(String::new(), |why| format!(" System calls uncounted: {why}."));
    fold(&format!(
        "Medians of {clean} clean round{} of {} s; {} rejected, in which others had more than \
         {dirty_share}% of the core. Ratios are taken within each round. Kept connections; {} bytes of content; server and client {conditions}. The null servers parse nothing and always answer the same \
         bytes. Linux {kernel}, {}, {} cores, {}.{elsewhere} Absolute numbers hold for that machine and day; the ratios \
         are the result.{uncounted}",
        if clean == 1 { "" } else { "s" },
        setting.seconds,
        run - clean,
        setting.size,
        race.machine.processor,
        race.machine.core_count,
        race.machine.began.split('T').next().unwrap_or_default(),
    ))
}

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

fn rate(per_second: f64) -> String {
    match per_second {
        10_000.0.. => format!("{:.0}k", per_second / 1e3),
        1_000.0.. => format!("{:.1}k", per_second / 1e3),
        _ => format!("{per_second:.0}"),
    }
}

fn percent(share: Option<Spread>) -> String {
    share.map_or(NONE.into(), |share| format!("{:.0}%", share.median * 100.0))
}

fn factor(ratio: f64) -> String {
    format!("×{ratio:.3}")
}

fn range(min: &str, max: &str) -> String {
    format!("{min}–{max}")
}

/// The document with `report` between the marks; `None` without marks.
fn renew(document: &str, report: &str) -> Option<String> {
    let (before, rest) = document.split_once(START)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{START}\n{report}{END}{after}"))
}

/// In place of a number that was not measured.
const NONE: &str = "–";

const START: &str = "<!-- race:start -->";
const END: &str = "<!-- race:end -->";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::peer::Server;
    use crate::record::{Calls, Entrant, Round, Setting, Window};

    #[test]
    fn a_table_is_plain_and_narrow_in_a_terminal() {
        let text = plain(&race());
        assert!(
            text.starts_with(
                "64 connections\n\n\
                 server        req/s  of epoll  of uring  server µs  client µs  calls     range\n\
             null epoll     300k      100%         –       1.50       1.50   2.20  100–400k\n\
             nginx 1.22.1   100k       33%         –       6.00       2.00      –   80–120k\n"
            ),
            "{text}"
        );
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("Medians of 3 clean rounds of 2 s; 1 rejected"), "{text}");
    }

    #[test]
    fn a_table_in_a_document_brings_its_command() {
        let text = markdown(&race());
        let table = "\
            **64 connections**\n\n\
            | server | requests/s | of null epoll | of null io_uring | server CPU µs/request | \
            system calls/request | range of requests/s |\n\
            | --- | --: | --: | --: | --: | --: | --: |\n\
            | null epoll | 300k | 100% | – | 1.50 | 2.20 | 100–400k |\n\
            | nginx 1.22.1 | 100k | 33% | – | 6.00 | – | 80–120k |\n\n";
        assert!(text.starts_with(table), "{text}");
        assert!(
            text.contains("6.18.1, A Processor, 2 cores, 2026-01-01. Other cores busy beside it: 0.1."),
            "{text}"
        );
        assert!(text.ends_with("\n```sh\ntarpon-lab race\n```\n"), "{text}");
    }

    #[test]
    fn without_a_clean_round_there_is_no_number() {
        let mut race = race();
        race.heats[0].rounds.retain(|round| !round.clean);
        assert!(markdown(&race).contains("| null epoll | – | – | – | – | 2.20 | – |"));
    }

    #[test]
    fn a_change_is_told_within_each_round() {
        let mut race = race();
        for round in &mut race.heats[0].rounds {
            round.windows[0].server = Server::BeforeEpoll;
            round.windows[1].server = Server::TarponEpoll;
        }
        race.entrants[0].server = Server::BeforeEpoll;
        race.entrants[1].server = Server::TarponEpoll;
        let text = plain(&race);
        // 200/600, 160/200 and 240/800 thousand requests.
        let row = "after/before  ×0.333         –         –     ×4.000     ×1.333      –  ×0.300–0.800\n";
        assert!(text.contains(row), "{text}");
    }

    #[test]
    fn each_number_of_connections_has_a_table() {
        let mut race = race();
        let many =
            Heat { connections: 1000, rounds: vec![race.heats[0].rounds[2].clone()], calls: Vec::new() };
        race.heats.push(many);
        let text = markdown(&race);
        let (few, many) = text.split_once("**1,000 connections**\n\n| server |").unwrap();
        assert!(few.contains("| null epoll | 300k | 100% | – | 1.50 | 2.20 | 100–400k |"), "{text}");
        assert!(many.contains("| null epoll | 100k | 100% | – | 1.50 | – | 100–100k |"), "{text}");
        assert_eq!(text.matches("Medians of 4 clean rounds").count(), 1, "{text}");
        assert!(plain(&race).contains("\n\n1,000 connections\n\nserver "));
    }

    #[test]
    fn only_what_is_between_the_marks_is_renewed() {
        let document = "a\n<!-- race:start -->\nold\n<!-- race:end -->\nb\n";
        let renewed = renew(document, "new\n").unwrap();
        assert_eq!(renewed, "a\n<!-- race:start -->\nnew\n<!-- race:end -->\nb\n");
        assert_eq!(renew(&renewed, "new\n").as_deref(), Some(renewed.as_str()));
        assert_eq!(renew("a\n<!-- race:end -->\n<!-- race:start -->\n", "new\n"), None);
    }

    #[test]
    fn a_record_survives_its_file() {
        let race = race();
        let read: Race = serde_json::from_str(&serde_json::to_string(&race).unwrap()).unwrap();
        assert_eq!(read, race);
    }

    #[test]
    fn a_rate_is_told_to_three_digits() {
        for (number, want) in [(306_120.4, "306k"), (62_000.0, "62k"), (3_849.0, "3.8k"), (47.2, "47")] {
            assert_eq!(rate(number), want);
        }
    }

    /// Three clean rounds and a dirty one, whose numbers count for nobody.
    fn race() -> Race {
        let window = |server, requests, server_ns, client_ns| Window {
            server,
            requests,
            response_len: 1246,
            elapsed_ns: 2_000_000_000,
            server_ns,
            client_ns,
            busy_ns: server_ns + client_ns,
            steal_ns: 0,
            elsewhere_ns: 200_000_000,
        };
        let round = |clean, epoll, nginx| Round {
            clean,
            windows: vec![
                window(Server::NullEpoll, epoll, epoll * 1500, epoll * 1500),
                window(Server::Nginx, nginx, nginx * 6000, nginx * 2000),
            ],
        };
        Race {
            command: "tarpon-lab race".into(),
            machine: Machine {
                kernel: "6.18.1-generic".into(),
                processor: "A Processor".into(),
                core_count: 2,
                congestion_control: Some("reno".into()),
                began: "2026-01-01T00:00:00Z".into(),
            },
            setting: Setting {
                rounds: 3,
                rounds_max: 9,
                seconds: 2.0,
                warm_up_seconds: 0.3,
                size: 1024,
                core: 1,
                made_conditions: true,
                foreign_share_max: 0.03,
            },
            entrants: vec![
                Entrant { server: Server::NullEpoll, name: "null epoll".into() },
                Entrant { server: Server::Nginx, name: "nginx 1.22.1".into() },
            ],
            heats: vec![Heat {
                connections: 64,
                rounds: vec![
                    round(true, 600_000, 200_000),
                    round(false, 1, 1),
                    round(true, 200_000, 160_000),
                    round(true, 800_000, 240_000),
                ],
                calls: vec![Calls { server: Server::NullEpoll, requests: 100, calls: 220 }],
            }],
            uncounted: None,
        }
    }
}
