//! What a race says: a table for each number of connections.

use crate::peer::Server;
use crate::race::FOREIGN_SHARE_MAX_OF_FORK;
use crate::record::{Change, Heat, Race};
use crate::table::{Column, NONE, Report, Table, factor, percent, range, rate};

/// The tables of a race.
pub(crate) fn report(race: &Race) -> Report {
    let table = |heat| Table { columns: COLUMNS, rows: rows(race, heat) };
    Report {
        tables: race.heats.iter().map(|heat| (Some(heat.to_string()), table(heat))).collect(),
        caption: caption(race),
        command: race.command.clone(),
    }
}

const COLUMNS: &[Column] = &[
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
fn rows(race: &Race, heat: &Heat) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for entrant in &race.entrants {
        let mut name = entrant.name.clone();
        if heat.reopens(entrant.server) {
            name += REOPENED;
        }
        let calls = heat.calls_per_request(entrant.server);
        let calls = calls.map_or(NONE.into(), |calls| format!("{calls:.2}"));
        rows.push(match heat.standing(entrant.server) {
            Some(standing) => vec![
                name,
                rate(standing.rate.median),
                percent(standing.of_epoll),
                percent(standing.of_uring),
                format!("{:.2}", standing.server_us.median),
                format!("{:.2}", standing.client_us.median),
                calls,
                range(rate(standing.rate.min).trim_end_matches('k'), &rate(standing.rate.max)),
            ],
            None => [&name, NONE, NONE, NONE, NONE, NONE, &calls, NONE].map(str::to_owned).to_vec(),
        });
        rows.extend(heat.change(entrant.server).map(change));
    }
    rows
}

/// Behind the name of a server that did not keep all connections.
const REOPENED: &str = " †";

fn change(change: Change) -> Vec<String> {
    vec![
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
    let elsewhere =
        race.elsewhere().map_or(String::new(), |cores| format!(" Other cores busy beside it: {cores:.1}."));
    let uncounted =
        race.uncounted.as_ref().map_or(String::new(), |why| format!(" System calls uncounted: {why}."));
    let reopens = |heat: &Heat| race.entrants.iter().any(|entrant| heat.reopens(entrant.server));
    let forks = |heat: &Heat| heat.reopens(Server::TarponFork);
    let of_fork = match race.heats.iter().any(forks) {
        true => format!(
            " (beside fork {}%: threads of the kernel clear away what its processes leave)",
            FOREIGN_SHARE_MAX_OF_FORK * 100.0
        ),
        false => String::new(),
    };
    let reopened = match race.heats.iter().any(reopens) {
        true => {
            format!(
                "{}: each worker serves one connection, and there are more of these, which are closed for others \
                 and opened anew. ",
                REOPENED.trim()
            )
        }
        false => String::new(),
    };
    format!(
        "Medians of {clean} clean round{} of {} s; {} rejected, in which others had more than \
         {dirty_share}% of the core{of_fork}. Ratios are taken within each round. Kept connections; {} bytes of content; server and client {conditions}. The null servers parse nothing and always answer the same \
         bytes. {}{}.{elsewhere} Absolute numbers hold for that machine and day; the ratios \
         are the result.{uncounted}",
        if clean == 1 { "" } else { "s" },
        setting.seconds,
        run - clean,
        setting.size,
        reopened,
        race.machine,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::peer::Server;
    use crate::record::{Calls, Entrant, Record, Round, Setting, Window};

    #[test]
    fn a_table_is_plain_and_narrow_in_a_terminal() {
        let text = report(&race()).plain();
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
        let text = report(&race()).markdown();
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
        assert!(report(&race).markdown().contains("| null epoll | – | – | – | – | 2.20 | – |"));
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
        let text = report(&race).plain();
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
        let text = report(&race).markdown();
        let (few, many) = text.split_once("**1,000 connections**\n\n| server |").unwrap();
        assert!(few.contains("| null epoll | 300k | 100% | – | 1.50 | 2.20 | 100–400k |"), "{text}");
        assert!(many.contains("| null epoll | 100k | 100% | – | 1.50 | – | 100–100k |"), "{text}");
        assert_eq!(text.matches("Medians of 4 clean rounds").count(), 1, "{text}");
        assert!(report(&race).plain().contains("\n\n1,000 connections\n\nserver "));
    }

    #[test]
    fn a_record_survives_its_file() {
        let race = Record::Race(race());
        let read: Record = serde_json::from_str(&serde_json::to_string(&race).unwrap()).unwrap();
        assert_eq!(read, race);
    }

    /// Three clean rounds and a dirty one, whose numbers count for nobody.
    fn race() -> Race {
        let window = |server, requests, server_ns, client_ns| Window {
            server,
            requests,
            reopened: 0,
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
