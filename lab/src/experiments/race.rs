//! The race: server and client share one core, and take turns on it.
//!
//! ```text
//! round 1   epoll   uring   tarpon  nginx      each: new process, check, warm-up, timed window
//! round 2   uring   epoll   nginx   tarpon     a dirty window ends the round, and another round follows
//! …
//! then      system calls of each server, counted in separate windows
//! ```
//!
//! On one core, placement and wake-ups cost all servers the same. The client cannot be an unnoticed bottleneck, because the lab
//! measures its CPU time too. Each microsecond that a server uses appears as one microsecond of server CPU.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::options::{
    CommonArgs, CoreArgs, IsolationArgs, TwoCoreArgs, command_line, file_name, parse_seconds, with_isolation,
};
use super::output::RecordFile;
use super::protocols::{ProtocolRace, RaceProtocol};
use super::rounds::{RoundPlan, WARM_UP_TIME, expect_clean, pin_to_core, rounds_max};
use crate::client::closed_loop::{ClosedLoopClient, OnClose, RequestBatch, ResponseLengths};
use crate::client::request::RequestForm;
use crate::client::visits::{self, PlannedVisitRequest};
use crate::error::LabError;
use crate::generated_site;
use crate::measure::cpu::{self, CpuMeter};
use crate::measure::machine::this_machine;
use crate::measure::memory::memory_of;
use crate::measure::syscalls::SyscallCounter;
use crate::null_server::BATCH_MAX;
use crate::records::LabRecord;
use crate::records::cpu::OTHER_PERCENT_MAX;
use crate::records::race::{
    RaceRecord, RaceSeries, RaceSettings, RaceWindow, SERIES_WITH_TABLES_MAX, SyscallCount, other_share_max,
};
use crate::records::server::{PeerServer, RaceAnswer, names};
use crate::servers::process::ServerProcess;
use crate::servers::test_bed::TestBed;

/// Options of `tarpon-lab race`.
#[derive(Args)]
pub(crate) struct RaceArgs {
    /// Run this many clean rounds
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Time each window for this long
    #[arg(long, default_value_t = 2.0, value_parser = parse_seconds)]
    seconds: f64,
    /// Open this many connections, each with one batch of requests at a time; several counts run in turn
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_value = "64", value_parser = parse_count)]
    connections: Vec<usize>,
    /// Request a page with this many bytes of content; several lengths run in turn, as 1024,4096 or FROM..TO/STEP
    #[arg(long, value_name = "BYTES", default_value = "1024", value_parser = parse_sizes)]
    size: RaceSizes,
    /// Send this many requests at once on each connection
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = parse_pipeline)]
    pipeline: usize,
    /// Send the requests of visitors of the site in this directory, a mix of pages and their assets, in the place of one page
    #[arg(long, value_name = "DIR", conflicts_with_all = ["size", "pipeline", "request", "reconnect", "answer"])]
    site: Option<PathBuf>,
    /// Send requests of this form
    #[arg(long, value_enum, default_value_t)]
    request: RequestForm,
    /// Open a new connection for each request; without null servers, which close none
    #[arg(long, conflicts_with = "pipeline")]
    reconnect: bool,
    /// Race over this protocol, as `tls` and `http2` do: server and client have a core each, and --pipeline is the number of streams
    #[arg(long, value_enum, conflicts_with_all = ["site", "request", "answer", "other", "other_max"])]
    protocol: Option<RaceProtocol>,
    /// Race with this kind of answer: a page in memory, a function or a CGI program that sends the same content
    #[arg(long, value_enum, default_value_t)]
    answer: RaceAnswer,
    /// Take the programs that embed a server from this directory [default: `hello` next to tarpon-lab]
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
    /// Also race this earlier build of tarpon, in the same rounds
    #[arg(long, value_name = "PATH")]
    before: Option<PathBuf>,
    /// Race these servers besides the null servers and tarpon; for the names see --only. Those that are not installed are named, and left out
    #[arg(long, value_enum, hide_possible_values = true, value_delimiter = ',', default_value = "nginx")]
    peers: Vec<PeerServer>,
    /// Start the server `other` with this command, in which {address}, {host}, {port} and {site} are replaced
    #[arg(long, value_name = "COMMAND")]
    other: Option<String>,
    /// Run only these of all servers
    #[arg(long, value_enum, value_delimiter = ',', value_name = "SERVERS")]
    only: Vec<PeerServer>,
    /// Reject a round if other processes used more than this percentage of the core
    #[arg(long, value_name = "PERCENT", default_value_t = OTHER_PERCENT_MAX, value_parser = clap::value_parser!(u16).range(1..))]
    other_max: u16,
    #[command(flatten)]
    core: CoreArgs,
    #[command(flatten)]
    isolation: IsolationArgs,
    #[command(flatten)]
    common: CommonArgs,
}

/// Runs a race, prints its report and writes its record. Fails if too few rounds were clean.
pub(crate) fn run(args: &RaceArgs) -> Result<(), LabError> {
    if let Some(protocol) = args.protocol {
        return args.over(protocol).run();
    }
    args.isolation.enter()?;
    let output = RecordFile::open(args.common.out.as_deref())?;
    let race = measure(args)?;
    let too_few = race
        .series
        .iter()
        .find_map(|series| expect_clean(&format!("{series}: "), &series.rounds, args.rounds).err());
    output.finish(&LabRecord::Race(race))?;
    too_few.map_or(Ok(()), |error| Err(error.into()))
}

fn measure(args: &RaceArgs) -> Result<RaceRecord, LabError> {
    let machine = this_machine();
    let core = pin_to_core(&args.core)?;
    raise_descriptor_limit(args.connections.iter().copied().max().unwrap_or_default())?;

    let visits = args.site.as_deref().map(visits::plan).transpose()?;
    let pages = args.pages()?;
    let page = (pages[0].0.as_str(), pages[0].1.content()?);
    let (tarpon, before) = (args.common.tarpon.as_deref(), args.before.as_deref());
    let mut bed = TestBed::new(&env::temp_dir(), page, tarpon, before)?;
    if let Some(programs) = &args.programs {
        bed.use_embedding_programs(programs);
    }
    if let Some(command) = &args.other {
        bed.use_other(command);
    }
    for (name, content) in &pages[1..] {
        fs::write(bed.site().join(name), content.content()?)?;
    }
    if let Some(site) = &args.site {
        bed.add_site(site)?;
    }
    if args.request == RequestForm::Gzip || args.site.is_some() {
        bed.use_gzip()?;
    }
    if args.answer == RaceAnswer::Program {
        bed.use_cgi_programs()?;
        bed.use_path("cgi-bin/hello");
    }
    let servers = bed.prepare(bed.installed(args.servers()))?;
    let is_like_null = |server: PeerServer| server.is_tarpon() || server.embedding_program().is_some();
    let has_null = servers.iter().any(|measured| measured.server.is_null());
    let null_like =
        servers.iter().map(|measured| measured.server).find(|server| has_null && is_like_null(*server));
    let settings = RaceSettings {
        rounds: args.rounds,
        rounds_max: rounds_max(args.rounds),
        seconds: args.seconds,
        warm_up_seconds: WARM_UP_TIME.as_secs_f64(),
        size: pages[0].1.content()?.len(),
        answer: args.answer,
        pipeline: args.pipeline,
        request: args.request,
        reconnect: args.reconnect,
        site: args.site_name()?,
        core,
        isolated: !args.isolation.no_isolation,
        other_share_max: f64::from(args.other_max) / 100.0,
    };
    let command = args.command();
    let mut race =
        RaceRecord { command, machine, settings, servers, series: Vec::new(), syscall_error: None };
    for (name, content) in pages {
        let content = content.content()?;
        let size = content.len();
        if args.answer == RaceAnswer::Page {
            bed.use_content(name, content);
        }
        if let Some(server) = null_like {
            bed.match_null_response(server, args.batch())?;
        }
        for connections in &args.connections {
            let load = RaceLoad { batch: args.batch(), connections: *connections, visits: visits.as_deref() };
            let series = measure_series(&bed, args, &mut race, load, size)?;
            race.series.push(series);
        }
    }
    Ok(race)
}

/// The content of a page. All of them together may be larger than the memory.
enum PageContent {
    Lines(usize),
    HelloWorld,
    File(PathBuf),
}

impl PageContent {
    fn content(&self) -> Result<Vec<u8>, LabError> {
        Ok(match self {
            PageContent::Lines(len) => generated_site::lines(*len),
            PageContent::HelloWorld => HELLO_WORLD.to_vec(),
            PageContent::File(path) => fs::read(path)?,
        })
    }
}

/// What the clients of a series send.
#[derive(Clone, Copy)]
struct RaceLoad<'a> {
    batch: RequestBatch,
    connections: usize,
    /// The requests of visitors, in the place of those of the batch.
    visits: Option<&'a [PlannedVisitRequest]>,
}

/// Runs all rounds with this load, then counts system calls.
fn measure_series(
    bed: &TestBed,
    args: &RaceArgs,
    race: &mut RaceRecord,
    load: RaceLoad<'_>,
    size: usize,
) -> Result<RaceSeries, LabError> {
    let connections = load.connections;
    let of_several = args.size.sizes.len() > 1;
    let mut series = RaceSeries {
        connections,
        size: of_several.then_some(size),
        rounds: Vec::new(),
        syscalls: Vec::new(),
    };
    let plan = RoundPlan {
        label: format!("{series}, "),
        servers: &race.servers,
        core: race.settings.core,
        idle_wait: Duration::from_secs(args.core.idle_wait.into()),
        clean: args.rounds,
    };
    series.rounds = plan.run(
        |server| measure_window(bed, &race.settings, server, load),
        |window| {
            let share = window.cpu.other_share();
            let max = race.settings.other_share_max.max(other_share_max(window.server));
            (share > max).then_some(share)
        },
    )?;
    // The calls of a program are not those of a thread that exists now. The report of many series does not show them.
    let is_counted = args.answer != RaceAnswer::Program && args.size.sizes.len() <= SERIES_WITH_TABLES_MAX;
    let counted = race.servers.iter().filter(|_| is_counted);
    for measured in counted {
        match count_syscalls(bed, measured.server, load) {
            Ok(count) => series.syscalls.push(count),
            Err(error) => race.syscall_error = Some(error.to_string()),
        }
    }
    Ok(series)
}

/// Starts, times and stops one server.
fn measure_window(
    bed: &TestBed,
    settings: &RaceSettings,
    server: PeerServer,
    load: RaceLoad<'_>,
) -> Result<RaceWindow, LabError> {
    let lengths = match settings.answer {
        // Apache sends some contents of a program in chunks, and others with their length.
        RaceAnswer::Program => ResponseLengths::Differ,
        _ => ResponseLengths::Equal,
    };
    let (process, mut client) = start_and_warm_up(bed, lengths, server, load)?;
    let threads = process.threads()?;
    threads.expect_pinned_to(settings.core)?;

    let meter = CpuMeter::start(settings.core, &threads, cpu::thread_time)?;
    let result = client.run(Duration::from_secs_f64(settings.seconds))?;
    // Lists the threads again: the server may have forked processes during the window.
    let mut cpu = meter.finish(result.elapsed, || Ok(process.threads()?.time()?))?;
    if settings.answer == RaceAnswer::Program {
        // The kernel forgets the times of programs whose parent ignores their end, as mod_cgid does.
        cpu.server_ns = cpu.busy_ns.saturating_sub(cpu.client_ns);
    }
    Ok(RaceWindow {
        server,
        requests: result.requests,
        reconnects: result.reconnects,
        response_len: client.response_len(),
        bytes: Some(result.bytes),
        times: result.times,
        memory: memory_of(&process.processes()?).ok(),
        cpu,
    })
}

/// Counts the system calls of one server.
fn count_syscalls(bed: &TestBed, server: PeerServer, load: RaceLoad<'_>) -> Result<SyscallCount, LabError> {
    let (process, mut client) = start_and_warm_up(bed, ResponseLengths::Equal, server, load)?;
    let mut counter = SyscallCounter::of(&process.threads()?)?;
    counter.start()?;
    let result = client.run(COUNT_TIME)?;
    Ok(SyscallCount { server, requests: result.requests, calls: counter.stop()? })
}

/// Starts a server and a client, and sends requests until both have settled.
fn start_and_warm_up(
    bed: &TestBed,
    lengths: ResponseLengths,
    server: PeerServer,
    RaceLoad { batch, connections, visits }: RaceLoad<'_>,
) -> Result<(ServerProcess, ClosedLoopClient), LabError> {
    let process = bed.start(server)?;
    // A server with fewer workers than connections must close connections.
    let keeps = server.keeps(connections) && !batch.closes;
    // A pool of processes that is still starting has fewer workers than it will have.
    let keeps = keeps && (server.pool_size().is_none() || batch.count > 1);
    let on_close = if keeps { OnClose::Fail } else { OnClose::Reconnect };
    if batch.count > 1 && on_close == OnClose::Reconnect {
        let names = names(&[server]);
        return Err(format!("{names} closes connections: race it without --pipeline").into());
    }
    let mut client = ClosedLoopClient::connect(process.address(), &bed.path(), batch, connections, on_close)?;
    client.expect(lengths);
    if let Some(plan) = visits {
        client.send_mix(visits::requests(process.address(), plan)?);
    }
    client.run(WARM_UP_TIME)?;
    Ok((process, client))
}

/// Raises the limit on open files, for this process and the servers, if the connections need it.
pub(super) fn raise_descriptor_limit(connections: usize) -> Result<(), LabError> {
    raise_descriptor_limit_to(connections as u64 + OTHER_DESCRIPTORS)
}

/// Raises the limit on open files to at least `needed`.
pub(super) fn raise_descriptor_limit_to(needed: u64) -> Result<(), LabError> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < needed) {
        let maximum = limit.maximum.map(|maximum| maximum.max(needed));
        setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum })
            .map_err(|error| format!("cannot raise the limit on open files to {needed}: {error}"))?;
    }
    Ok(())
}

impl RaceArgs {
    /// Returns the race over another protocol. The null servers take no part.
    fn over(&self, protocol: RaceProtocol) -> ProtocolRace {
        let mut servers = self.servers();
        servers.retain(|server| !server.is_null());
        ProtocolRace {
            protocol,
            rounds: self.rounds,
            seconds: self.seconds,
            connections: self.connections.clone(),
            sizes: self.size.sizes.clone(),
            streams: self.pipeline,
            reconnects: self.reconnect,
            before: self.before.clone(),
            servers,
            cores: TwoCoreArgs::with_client_core(&self.core),
            isolation: self.isolation.clone(),
            common: self.common.clone(),
        }
    }

    /// Returns what the client sends.
    fn batch(&self) -> RequestBatch {
        RequestBatch { form: self.request, count: self.pipeline, closes: self.reconnect }
    }

    /// Returns the name and the content of each page.
    fn pages(&self) -> Result<Vec<(String, PageContent)>, LabError> {
        if let Some(site) = &self.site {
            let page = visits::pages(site)?.into_iter().next().ok_or("the site has no page")?;
            return Ok(vec![(page[1..].to_owned(), PageContent::File(site.join(&page[1..])))]);
        }
        if self.answer == RaceAnswer::Function {
            return Ok(vec![(PAGE.to_owned(), PageContent::HelloWorld)]);
        }
        let page = |size: &usize| (format!("page-{size}.html"), PageContent::Lines(*size));
        let mut pages: Vec<_> = self.size.sizes.iter().map(page).collect();
        PAGE.clone_into(&mut pages[0].0);
        Ok(pages)
    }

    /// Returns the name of the site whose visitors send the requests, and how many pages it has.
    fn site_name(&self) -> Result<Option<(String, usize)>, LabError> {
        let Some(site) = &self.site else { return Ok(None) };
        Ok(Some((file_name(Some(site)), visits::pages(site)?.len())))
    }

    /// Returns the servers of the race: the null servers, tarpon and its peers, reduced to those of `--only`.
    fn servers(&self) -> Vec<PeerServer> {
        if let Some(servers) = self.answer.servers() {
            let mut servers = servers.to_vec();
            servers.extend(self.only.iter().filter(|server| !servers.contains(server)).collect::<Vec<_>>());
            servers.retain(|server| self.only.is_empty() || self.only.contains(server));
            servers.retain(|server| self.answer.is_answered_by(*server));
            return servers;
        }
        let mut servers = vec![
            PeerServer::NullEpoll,
            PeerServer::NullUring,
            PeerServer::TarponUring,
            PeerServer::TarponEpoll,
        ];
        if self.before.is_some() {
            servers.extend([PeerServer::BeforeUring, PeerServer::BeforeEpoll]);
        }
        let named = self.peers.iter().chain(self.only.iter().filter(|server| !self.peers.contains(server)));
        servers.extend(named.filter(|server| server.is_optional()));
        if self.other.is_some() && !servers.contains(&PeerServer::Other) {
            servers.push(PeerServer::Other);
        }
        servers.retain(|server| self.only.is_empty() || self.only.contains(server));
        servers.retain(|server| self.answer.is_answered_by(*server));
        // They send the whole page, and close nothing.
        let has_null = self.site.is_none()
            && !self.reconnect
            && matches!(self.request, RequestForm::Short | RequestForm::Browser);
        servers.retain(|server| has_null || !server.is_null());
        // They answer one request on each connection.
        servers.retain(|server| self.reconnect || server.naive_rung().is_none());
        servers
    }

    /// Returns the command that repeats the race on any machine.
    fn command(&self) -> String {
        let connections = self.connections.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let is_usual = self.other_max == OTHER_PERCENT_MAX;
        let other_max = if is_usual { String::new() } else { self.other_max.to_string() };
        let command = command_line(
            "race",
            &[
                ("rounds", self.rounds.to_string()),
                ("seconds", self.seconds.to_string()),
                ("connections", connections),
                ("size", if self.site.is_none() { self.size.text.clone() } else { String::new() }),
                ("pipeline", if self.pipeline > 1 { self.pipeline.to_string() } else { String::new() }),
                ("site", file_name(self.site.as_deref())),
                ("request", self.request.option()),
                ("answer", if self.answer == RaceAnswer::Page { String::new() } else { self.answer.name() }),
                ("peers", if self.answer == RaceAnswer::Page { names(&self.peers) } else { String::new() }),
                ("only", names(&self.only)),
                ("other-max", other_max),
                ("tarpon", file_name(self.common.tarpon.as_deref())),
                ("before", file_name(self.before.as_deref())),
                ("core", self.core.core.map_or_else(String::new, |core| core.to_string())),
            ],
        );
        let command = if self.reconnect { command + " --reconnect" } else { command };
        let other = self.other.as_ref().map_or(String::new(), |other| format!(" --other '{other}'"));
        with_isolation(command + &other, &self.isolation)
    }
}

/// Parses a number of connections.
fn parse_count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count) if (1..=CONNECTIONS_MAX).contains(&count) => Ok(count),
        _ => Err(format!("not a number of connections between 1 and {CONNECTIONS_MAX}")),
    }
}

/// The lengths of contents of a race.
#[derive(Clone)]
struct RaceSizes {
    /// As the option has them.
    text: String,
    /// At least one.
    sizes: Vec<usize>,
}

/// Parses lengths of content.
fn parse_sizes(text: &str) -> Result<RaceSizes, String> {
    let size = |text: &str| match text.parse() {
        Ok(size) if (1..=SIZE_MAX).contains(&size) => Ok(size),
        _ => Err(format!("{text}: not a number of bytes between 1 and {SIZE_MAX}")),
    };
    let range = text.split_once("..").and_then(|(from, rest)| Some((from, rest.split_once('/')?)));
    let sizes: Vec<usize> = match range {
        Some((from, (to, step))) => (size(from)?..=size(to)?).step_by(size(step)?).collect(),
        None => text.split(',').map(size).collect::<Result<_, _>>()?,
    };
    match sizes.len() {
        1..=SIZE_COUNT_MAX => Ok(RaceSizes { text: text.to_owned(), sizes }),
        count => Err(format!("{count} lengths; give 1 to {SIZE_COUNT_MAX}")),
    }
}

/// The most lengths of a race: a file for each of them has to fit on the disk.
const SIZE_COUNT_MAX: usize = 500;

/// Parses a number of pipelined requests. Together, short ones fit in a buffer of the null server on io_uring.
fn parse_pipeline(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count) if (1..=BATCH_MAX).contains(&count) => Ok(count),
        _ => Err(format!("not a number of requests between 1 and {BATCH_MAX}")),
    }
}

/// What functions answer.
pub(super) const HELLO_WORLD: &[u8] = b"Hello world\n";

/// The requested page.
const PAGE: &str = "page.html";

/// Maximum of connections: half of the ports of the loopback address.
const CONNECTIONS_MAX: usize = 14_000;

/// Maximum length of content.
const SIZE_MAX: usize = 1 << 30;

/// Length of a window in which the tracepoint is on.
const COUNT_TIME: Duration = Duration::from_millis(500);

/// Descriptors that a server needs in addition to its connections.
const OTHER_DESCRIPTORS: u64 = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn null_servers_come_first_and_only_selects() {
        use PeerServer::*;
        #[rustfmt::skip]
        let cases: &[(&str, &[&str], &[PeerServer])] = &[
            // case            arguments                                   servers
            ("defaults",       &[],                                        &[NullEpoll, NullUring, TarponUring, TarponEpoll, Nginx]),
            ("some",           &["--only", "nginx,null-epoll"],            &[NullEpoll, Nginx]),
            ("no duplicates",  &["--peers", "tarpon-epoll,null-uring"],    &[NullEpoll, NullUring, TarponUring, TarponEpoll]),
            ("two builds",     &["--before", "old/tarpon"],                &[NullEpoll, NullUring, TarponUring, TarponEpoll, BeforeUring, BeforeEpoll, Nginx]),
            ("one engine",     &["--before=old", "--only=tarpon-epoll,before-epoll"], &[TarponEpoll, BeforeEpoll]),
            ("tar archive",    &["--peers=tarpon-epoll-tar", "--only=tarpon-epoll,tarpon-epoll-tar"], &[TarponEpoll, TarponEpollTar]),
            ("no --before",    &["--only", "before-uring"],                &[]),
            ("packed, before", &["--before=old", "--only=tarpon-uring-packed,before-uring-packed"], &[TarponUringPacked, BeforeUringPacked]),
            ("functions",      &["--answer=function"],                     &[NullEpoll, NullUring, FunctionRust, FunctionCppUring, FunctionCppEpoll, Hyper, Beast]),
            ("some of them",   &["--answer=function", "--only=hyper,function-rust,nginx"], &[FunctionRust, Hyper]),
            ("programs",       &["--answer=program"],                      &[TarponUring, TarponEpoll, Apache, Lighttpd]),
            ("on one engine",  &["--answer=program", "--only=tarpon-poll,apache"], &[Apache, TarponPoll]),
            ("no null",        &["--reconnect", "--peers=python,other", "--other=s {port}"], &[TarponUring, TarponEpoll, Python, Other]),
            ("access log",     &["--only", "tarpon-epoll,tarpon-epoll-log,nginx"], &[TarponEpoll, Nginx, TarponEpollLog]),
        ];
        for (name, arguments, want) in cases {
            let args = RaceCli::parse_from([&["race"], *arguments].concat()).args;
            assert_eq!(args.servers(), *want, "{name}");
        }
    }

    #[test]
    fn command_contains_no_directories() {
        #[rustfmt::skip]
        let cases: &[(&str, &[&str], &str)] = &[
            // case            arguments                                              after the numbers
            ("defaults",       &[],                                                   " --peers nginx"),
            ("programs",       &["--tarpon", "/a/b/new", "--before=../c/old"],        " --peers nginx --tarpon new --before old"),
            ("functions",      &["--answer=function"],                                " --answer function"),
            ("record",         &["--out", "/a/race.json"],                            " --peers nginx"),
            ("pipelined",      &["--pipeline=16", "--request=browser"],                " --pipeline 16 --request browser --peers nginx"),
            ("other",          &["--reconnect", "--request=range", "--other=s {port}"],  " --request range --peers nginx --reconnect --other 's {port}'"),
            ("congestion",     &["--congestion-control=bbr", "--other-max=10"],       " --peers nginx --other-max 10 --congestion-control bbr"),
            ("conditions",     &["--only=null-epoll,tarpon-epoll", "--core=1", "--no-isolation"], " --peers nginx --only null-epoll,tarpon-epoll --core 1 --no-isolation"),
        ];
        for (name, arguments, want) in cases {
            let args = RaceCli::parse_from([&["race"], *arguments].concat()).args;
            let numbers = "tarpon-lab race --rounds 5 --seconds 2 --connections 64 --size 1024";
            assert_eq!(args.command(), format!("{numbers}{want}"), "{name}");
        }
    }

    #[derive(Parser)]
    struct RaceCli {
        #[command(flatten)]
        args: RaceArgs,
    }
}
