//! The report of a race: a table for each number of connections.

use super::phrases;
use super::plot::{BarKind, LabPlot, LinePlot, PlotLine};
use super::table::{LabReport, NONE, ReportColumn, ReportTable, median};
use crate::client::request::RequestForm;
use crate::format::{factor, percent, range, rate, thousands};
use crate::records::cpu::OTHER_SHARE_MAX_FORK;
use crate::records::race::{
    BuildComparison, RaceRecord, RaceSeries, RaceSettings, SERIES_WITH_TABLES_MAX, TimesAndMemory,
};
use crate::records::round::MeasuredServer;
use crate::records::server::{BUILD_RATIO, JEMALLOC_RATIO, PeerServer, RaceAnswer};
use crate::stats::Spread;

/// Returns the report.
pub(super) fn report(race: &RaceRecord) -> LabReport {
    let columns = columns(race);
    let plot = |series: &RaceSeries| {
        let rates = |server| Some(series.summary(server, race.peers())?.rate);
        LabPlot::of_servers(&race.servers, rates, |number| format!("{} requests/s", rate(number)))
    };
    let table = |series| ReportTable { columns, rows: rows(race, series), plot: plot(series) };
    let mut tables = Vec::new();
    // So many tables would hide what the plot of them shows.
    let has_own_tables = race.series.len() <= SERIES_WITH_TABLES_MAX;
    for series in race.series.iter().filter(|_| has_own_tables) {
        tables.push((Some(series.to_string()), table(series)));
        let rows = time_rows(race, series);
        if !rows.is_empty() {
            let heading = format!("{series}: response times, bytes and memory");
            tables.push((Some(heading), ReportTable { columns: TIME_COLUMNS, rows, plot: None }));
        }
    }
    tables.extend(by_connections(race));
    tables.extend(by_size(race));
    LabReport { tables, caption: caption(race), command: race.command.clone() }
}

const TIME_COLUMNS: &[ReportColumn] = &[
    ("server", Some("server")),
    ("p50 µs", Some("p50, µs")),
    ("p99 µs", Some("p99, µs")),
    ("p99.9 µs", Some("p99.9, µs")),
    ("MB/s", Some("MB/s")),
    ("MiB", Some("memory, MiB")),
];

/// Returns a row for each server whose response times, bytes and memory were measured.
fn time_rows(race: &RaceRecord, series: &RaceSeries) -> Vec<Vec<String>> {
    let row = |measured: &MeasuredServer| {
        let TimesAndMemory { times: [p50, p99, p999], byte_rate, memory } =
            series.times_and_memory(measured.server)?;
        let us = |time: Spread| thousands((time.median / 1e3).round() as usize);
        Some(vec![
            measured.name.clone(),
            us(p50),
            us(p99),
            us(p999),
            thousands((byte_rate.median / 1e6).round() as usize),
            format!("{:.1}", memory.median / f64::from(1 << 20)),
        ])
    };
    race.servers.iter().filter_map(row).collect()
}

/// Returns tables with a plot over the number of connections: throughput, p99 and memory. None for fewer numbers than a line needs.
fn by_connections(race: &RaceRecord) -> Vec<(Option<String>, ReportTable)> {
    let is_series = race.series.len() >= 3 && race.series.iter().all(|series| series.size.is_none());
    if !is_series {
        return Vec::new();
    }
    type ConnectionNumber<'a> = &'a dyn Fn(&RaceSeries, PeerServer) -> Option<f64>;
    let first = &race.series[0];
    // The server has taken this memory for itself.
    let memory_per_connection = |series: &RaceSeries, server| {
        let private = |series: &RaceSeries| Some(series.times_and_memory(server)?.memory.median);
        let more = series.connections.checked_sub(first.connections).filter(|more| *more >= 1000)?;
        Some(((private(series)? - private(first)?) / more as f64).max(0.0))
    };
    let numbers: [(&str, &'static str, &'static [ReportColumn], ConnectionNumber<'_>); 3] = [
        ("Requests per second", "requests/s", RATE_COLUMNS, &|series, server| {
            Some(series.summary(server, race.peers())?.rate.median)
        }),
        ("p99", "p99, µs", P99_COLUMNS, &|series, server| {
            Some(series.times_and_memory(server)?.times[1].median / 1e3)
        }),
        ("Memory for each connection more", "bytes", MEMORY_COLUMNS, &memory_per_connection),
    ];
    let table = |(heading, unit, columns, number): (&str, _, _, ConnectionNumber<'_>)| {
        let (mut rows, mut lines) = (Vec::new(), Vec::new());
        for MeasuredServer { server, name } in &race.servers {
            let points = race
                .series
                .iter()
                .filter_map(|series| Some((series.connections as f64, number(series, *server)?)));
            let points: Vec<(f64, f64)> = points.collect();
            rows.extend(points.iter().map(|(connections, number)| {
                let number = thousands(number.round() as usize);
                vec![name.clone(), thousands(*connections as usize), number]
            }));
            if points.len() > 1 {
                lines.push(PlotLine { name: name.clone(), kind: BarKind::of(*server), points });
            }
        }
        let plot =
            (!lines.is_empty()).then_some(LabPlot::Lines(LinePlot { axes: ["connections", unit], lines }));
        (!rows.is_empty()).then(|| {
            (Some(format!("{heading}, by the number of connections")), ReportTable { columns, rows, plot })
        })
    };
    numbers.into_iter().filter_map(table).collect()
}

/// Returns a table with the CPU time of a request over the length of the content, for a race with many lengths.
fn by_size(race: &RaceRecord) -> Option<(Option<String>, ReportTable)> {
    if race.series.len() <= SERIES_WITH_TABLES_MAX {
        return None;
    }
    let (mut rows, mut lines) = (Vec::new(), Vec::new());
    let every = race.series.len().div_ceil(SIZE_ROWS_MAX);
    for MeasuredServer { server, name } in &race.servers {
        let points = race.series.iter().filter_map(|series| {
            Some((series.size? as f64, series.summary(*server, race.peers())?.server_us.median))
        });
        let points: Vec<(f64, f64)> = points.collect();
        rows.extend(points.iter().skip(every - 1).step_by(every).map(|(size, us)| {
            vec![
                name.clone(),
                thousands(*size as usize),
                format!("{us:.0}"),
                format!("{:.1}", us / (size / 1e6)),
            ]
        }));
        let points = points.into_iter().map(|(size, us)| (size / 1e6, us)).collect();
        lines.push(PlotLine { name: name.clone(), kind: BarKind::of(*server), points });
    }
    let plot = Some(LabPlot::Lines(LinePlot { axes: ["MB of content", "CPU µs for a request"], lines }));
    let heading = "CPU time of a request, by the length of the content".to_owned();
    Some((Some(heading), ReportTable { columns: SIZE_COLUMNS, rows, plot }))
}

const SIZE_COLUMNS: &[ReportColumn] = &[
    ("server", Some("server")),
    ("bytes", Some("bytes of content")),
    ("server µs", Some("server CPU µs/request")),
    ("µs/MB", Some("µs/MB")),
];

/// Lengths of a race with many of them that the table shows.
const SIZE_ROWS_MAX: usize = 10;

const RATE_COLUMNS: &[ReportColumn] =
    &[("server", Some("server")), ("connections", Some("connections")), ("req/s", Some("requests/s"))];
const P99_COLUMNS: &[ReportColumn] =
    &[("server", Some("server")), ("connections", Some("connections")), ("p99 µs", Some("p99, µs"))];
const MEMORY_COLUMNS: &[ReportColumn] = &[
    ("server", Some("server")),
    ("connections", Some("connections")),
    ("bytes", Some("bytes for each connection more")),
];

fn columns(race: &RaceRecord) -> &'static [ReportColumn] {
    match race.settings.answer {
        RaceAnswer::Page if !race.has_null() => USUAL_COLUMNS,
        RaceAnswer::Page => PAGE_COLUMNS,
        RaceAnswer::Function => FUNCTION_COLUMNS,
        RaceAnswer::Program => PROGRAM_COLUMNS,
    }
}

const PAGE_COLUMNS: &[ReportColumn] = &[
    ("server", Some("server")),
    ("req/s", Some("requests/s")),
    ("% epoll", Some("median % of null epoll")),
    ("% uring", Some("median % of null io_uring")),
    ("server µs", Some("server CPU µs/request")),
    ("client µs", None),
    ("calls", Some("system calls/request")),
    ("range", Some("range of requests/s")),
];

/// Without null servers.
const USUAL_COLUMNS: &[ReportColumn] = &[
    PAGE_COLUMNS[0],
    PAGE_COLUMNS[1],
    ("of nginx", Some("of nginx")),
    ("of h2o", Some("of h2o")),
    PAGE_COLUMNS[4],
    PAGE_COLUMNS[5],
    PAGE_COLUMNS[6],
    PAGE_COLUMNS[7],
];

const FUNCTION_COLUMNS: &[ReportColumn] = &[
    ("server", Some("server")),
    ("req/s", Some("requests/s")),
    ("of hyper", Some("of hyper")),
    ("of Beast", Some("of Boost.Beast")),
    ("server µs", Some("server CPU µs/request")),
    ("client µs", None),
    ("calls", Some("system calls/request")),
    ("range", Some("range of requests/s")),
];

const PROGRAM_COLUMNS: &[ReportColumn] = &[
    ("server", Some("server")),
    ("req/s", Some("requests/s")),
    ("of Apache", Some("of Apache")),
    ("of lighttpd", Some("of lighttpd")),
    ("CPU µs", Some("CPU µs/request, program included")),
    ("client µs", None),
    ("calls", None),
    ("range", Some("range of requests/s")),
];

/// Returns a row for each server, and after an earlier build of tarpon a row with the comparison.
fn rows(race: &RaceRecord, series: &RaceSeries) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for measured in &race.servers {
        let mut name = measured.name.clone();
        if series.reconnects(measured.server) && !race.settings.reconnect {
            name += RECONNECTS;
        }
        let calls = series.calls_per_request(measured.server);
        let calls = calls.map_or(NONE.into(), |calls| format!("{calls:.2}"));
        let of_peers = match race.settings.answer {
            RaceAnswer::Page if race.has_null() => percent,
            _ => factor,
        };
        rows.push(match series.summary(measured.server, race.peers()) {
            Some(summary) => vec![
                name,
                rate(summary.rate.median),
                median(summary.of_peers[0], of_peers),
                median(summary.of_peers[1], of_peers),
                format!("{:.2}", summary.server_us.median),
                format!("{:.2}", summary.client_us.median),
                calls,
                range(rate(summary.rate.min).trim_end_matches('k'), &rate(summary.rate.max)),
            ],
            None => [&name, NONE, NONE, NONE, NONE, NONE, &calls, NONE].map(str::to_owned).to_vec(),
        });
        rows.extend(series.comparison(measured.server).map(comparison_row));
    }
    rows
}

/// The mark after the name of a server that closed connections.
const RECONNECTS: &str = " †";

fn comparison_row(comparison: BuildComparison) -> Vec<String> {
    let BuildComparison { name, rate, server_us, client_us } = comparison;
    vec![
        name.into(),
        factor(rate.median),
        NONE.into(),
        NONE.into(),
        factor(server_us.median),
        factor(client_us.median),
        NONE.into(),
        range(&factor(rate.min), factor(rate.max).trim_start_matches('×')),
    ]
}

fn caption(race: &RaceRecord) -> String {
    let settings = &race.settings;
    let is_any = |test: &dyn Fn(&RaceSeries) -> bool| race.series.iter().any(test);
    let has_fork = is_any(&|series| series.reconnects(PeerServer::TarponFork));
    let has_reconnects =
        is_any(&|series| race.servers.iter().any(|measured| series.reconnects(measured.server)));
    let compares = |name| {
        let is_compared = |series: &RaceSeries, server| {
            series.comparison(server).is_some_and(|comparison| comparison.name == name)
        };
        is_any(&|series| race.servers.iter().any(|measured| is_compared(series, measured.server)))
    };
    let series: Vec<_> = race.series.iter().map(|series| series.rounds.as_slice()).collect();

    let length = format!("{} s per window", settings.seconds);
    let mut sentences = vec![phrases::rounds(&series, &length, settings.other_share_max)];
    if has_fork {
        let share = percent(OTHER_SHARE_MAX_FORK);
        sentences.push(format!(
            "The limit is {share} for fork, because kernel threads clean up after its processes"
        ));
    }
    let answer = settings.answer;
    if answer == RaceAnswer::Page && race.has_null() {
        sentences.push(
        "The percentages compare within rounds: in each round, the requests/s of the server divided by those of the null server. \
         The table shows the median of these ratios, which can differ from the ratio of the median requests/s"
            .into(),
        );
    } else {
        sentences.push(
            "\"Of\" a server: in each round, the requests/s of the server divided by those of that server. The table shows the median".into(),
        );
    }
    if compares(BUILD_RATIO) {
        sentences.push(format!("{BUILD_RATIO} is the median of the same ratio for two builds"));
    }
    if compares(JEMALLOC_RATIO) {
        sentences.push(format!(
            "{JEMALLOC_RATIO} is that ratio for the same build with jemalloc and with the allocator of the C library"
        ));
    }
    if race.has_null() {
        sentences.push("Null servers parse nothing and send the same bytes for every request".into());
    }
    match answer {
        RaceAnswer::Page => {}
        RaceAnswer::Function => {
            sentences.push("The same function in each program: it sends \"Hello world\" to every request".into())
        }
        RaceAnswer::Program => sentences.push(
            "The program is started for each request, and sends a page. CPU is all time of the core that the client did not use: the \
             server, its helper and the programs"
                .into(),
        ),
    }
    if has_reconnects && !settings.reconnect {
        sentences.push(format!(
            "{}: each worker serves one connection; the server closes connections because there are more of them than workers, \
             and the client reconnects",
            RECONNECTS.trim()
        ));
    }
    if race
        .series
        .iter()
        .any(|series| race.servers.iter().any(|measured| series.times_and_memory(measured.server).is_some()))
    {
        sentences.push(
            "Response times contain the wait for the client, which is on the same core: with so many connections a response takes about as long as a \
             request of each. Memory is what only the exit of the server frees"
                .into(),
        );
    }
    let control = race.machine.congestion_control.as_deref().unwrap_or("unknown");
    let has_one_size = race.settings.site.is_none();
    let sizes = race.series.iter().filter_map(|series| series.size).count();
    let size = if sizes > 0 || !has_one_size {
        String::new()
    } else {
        format!(" {} bytes of content;", thousands(settings.size))
    };
    sentences.push(format!(
        "{}{};{size} server and client share one core, {}; congestion control: {control}",
        if settings.reconnect { "A new connection for each request" } else { "Persistent connections" },
        load(settings),
        phrases::isolation(settings.isolated),
    ));
    if control == "bbr" {
        sentences.push("With bbr, timers of the kernel send a part of the bytes, and their time counts as that of other processes".into());
    }
    sentences.push(race.machine.to_string());
    if let Some(cores) = race.other_cores() {
        sentences.push(format!("Other busy cores: {cores:.1}"));
    }
    sentences.push("Absolute numbers hold for that machine and day; the ratios are the result".into());
    if let Some(error) = &race.syscall_error {
        sentences.push(format!("System calls were not counted: {error}"));
    }
    sentences.join(". ") + "."
}

/// Returns what the client sends, if it is not one short request at a time.
fn load(settings: &RaceSettings) -> String {
    if let Some((site, pages)) = &settings.site {
        return format!(
            "; requests of visitors of the directory {site}, with {} pages: a page, by Zipf's law, then its styles, scripts and pictures, which 40% of the \
             visitors have already (304), with the headers of a browser; files of text lie beside their copies in gzip",
            thousands(*pages)
        );
    }
    let form = match settings.request {
        RequestForm::Short => "",
        RequestForm::Browser => "; requests of a browser",
        RequestForm::Gzip => "; requests for content in gzip, of a file that lies beside the page",
        RequestForm::Range => "; requests for 512 bytes of the content",
        RequestForm::Conditional => "; requests for content that has changed since, answered 304",
    };
    match settings.pipeline {
        1 => form.to_owned(),
        count => format!("; {count} requests at once{form}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::LabRecord;
    use crate::records::cpu::CpuTimes;
    use crate::records::machine::MachineInfo;
    use crate::records::race::{RaceSettings, RaceWindow, SyscallCount};
    use crate::records::round::{MeasuredRound, MeasuredServer};

    #[test]
    fn plain_table_fits_into_80_columns() {
        let text = report(&race()).plain();
        assert!(
            text.starts_with(
                "64 connections\n\n\
                 server        req/s  % epoll  % uring  server µs  client µs  calls     range\n\
             null epoll     300k     100%        –       1.50       1.50   2.20  100–400k\n\
             nginx 1.22.1   100k      33%        –       6.00       2.00      –   80–120k\n"
            ),
            "{text}"
        );
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("Medians of 3 clean rounds, 2 s per window; 1 rejected"), "{text}");
    }

    #[test]
    fn markdown_table_ends_with_its_command() {
        let text = report(&race()).markdown();
        let table = "\
            **64 connections**\n\n\
            | server | requests/s | median % of null epoll | median % of null io_uring | server CPU µs/request | \
            system calls/request | range of requests/s |\n\
            | --- | --: | --: | --: | --: | --: | --: |\n\
            | null epoll | 300k | 100% | – | 1.50 | 2.20 | 100–400k |\n\
            | nginx 1.22.1 | 100k | 33% | – | 6.00 | – | 80–120k |\n\n";
        assert!(text.starts_with(table), "{text}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("6.18.1, A Processor, 2 cores, 2026-01-01. Other busy cores: 0.1."), "{text}");
        assert!(text.ends_with("\n```sh\ntarpon-lab race\n```\n"), "{text}");
    }

    #[test]
    fn table_is_empty_without_clean_rounds() {
        let mut race = race();
        race.series[0].rounds.retain(|round| !round.clean);
        assert!(report(&race).markdown().contains("| null epoll | – | – | – | – | 2.20 | – |"));
    }

    #[test]
    fn builds_are_compared_within_each_round() {
        let mut race = race();
        for round in &mut race.series[0].rounds {
            round.windows[0].server = PeerServer::BeforeEpoll;
            round.windows[1].server = PeerServer::TarponEpoll;
        }
        race.servers[0].server = PeerServer::BeforeEpoll;
        race.servers[1].server = PeerServer::TarponEpoll;
        let text = report(&race).plain();
        // 200/600, 160/200 and 240/800 thousand requests.
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let row = "after/before ×0.333 – – ×4.000 ×1.333 – ×0.300–0.800";
        assert!(words.contains(row), "{text}");
    }

    #[test]
    fn allocators_are_compared_within_each_round() {
        let mut race = race();
        for round in &mut race.series[0].rounds {
            round.windows[0].server = PeerServer::TarponEpoll;
            round.windows[1].server = PeerServer::TarponEpollJemalloc;
        }
        race.servers[0].server = PeerServer::TarponEpoll;
        race.servers[1].server = PeerServer::TarponEpollJemalloc;
        let text = report(&race).plain();
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        // 200/600, 160/200 and 240/800 thousand requests, of 6 µs and 1.5 µs.
        assert!(words.contains("jemalloc/malloc ×0.333 – – ×4.000 ×1.333 – ×0.300–0.800"), "{text}");
        assert!(words.contains("with jemalloc and with the allocator of the C library"), "{text}");
        assert!(!words.contains("after/before"), "{text}");
    }

    #[test]
    fn each_number_of_connections_has_a_table() {
        let mut race = race();
        let many = RaceSeries {
            size: None,
            connections: 1000,
            rounds: vec![race.series[0].rounds[2].clone()],
            syscalls: Vec::new(),
        };
        race.series.push(many);
        let text = report(&race).markdown();
        let (few, many) = text.split_once("**1,000 connections**\n\n| server |").unwrap();
        assert!(few.contains("| null epoll | 300k | 100% | – | 1.50 | 2.20 | 100–400k |"), "{text}");
        assert!(many.contains("| null epoll | 100k | 100% | – | 1.50 | – | 100–100k |"), "{text}");
        assert_eq!(text.matches("Medians of 1 to 3 clean rounds per table").count(), 1, "{text}");
        assert!(report(&race).plain().contains("\n\n1,000 connections\n\nserver "));
    }

    #[test]
    fn record_survives_serialization() {
        let race = LabRecord::Race(race());
        let read: LabRecord = serde_json::from_str(&serde_json::to_string(&race).unwrap()).unwrap();
        assert_eq!(read, race);
    }

    /// Returns a race with three clean rounds, and a dirty one that the report ignores.
    fn race() -> RaceRecord {
        let window = |server, requests, server_ns, client_ns| RaceWindow {
            server,
            requests,
            reconnects: 0,
            response_len: 1246,
            bytes: None,
            times: None,
            memory: None,
            cpu: CpuTimes {
                elapsed_ns: 2_000_000_000,
                server_ns,
                client_ns,
                busy_ns: server_ns + client_ns,
                steal_ns: 0,
                other_cores_ns: 200_000_000,
            },
        };
        let round = |clean, epoll, nginx| MeasuredRound {
            clean,
            windows: vec![
                window(PeerServer::NullEpoll, epoll, epoll * 1500, epoll * 1500),
                window(PeerServer::Nginx, nginx, nginx * 6000, nginx * 2000),
            ],
        };
        RaceRecord {
            command: "tarpon-lab race".into(),
            machine: MachineInfo::example(),
            settings: RaceSettings {
                rounds: 3,
                rounds_max: 9,
                seconds: 2.0,
                warm_up_seconds: 0.3,
                size: 1024,
                answer: RaceAnswer::Page,
                pipeline: 1,
                request: RequestForm::Short,
                reconnect: false,
                site: None,
                core: 1,
                isolated: true,
                other_share_max: 0.03,
            },
            servers: vec![
                MeasuredServer { server: PeerServer::NullEpoll, name: "null epoll".into() },
                MeasuredServer { server: PeerServer::Nginx, name: "nginx 1.22.1".into() },
            ],
            series: vec![RaceSeries {
                size: None,
                connections: 64,
                rounds: vec![
                    round(true, 600_000, 200_000),
                    round(false, 1, 1),
                    round(true, 200_000, 160_000),
                    round(true, 800_000, 240_000),
                ],
                syscalls: vec![SyscallCount { server: PeerServer::NullEpoll, requests: 100, calls: 220 }],
            }],
            syscall_error: None,
        }
    }
}
