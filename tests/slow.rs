//! The slow attacks of slowhttptest: clients that begin something and do not go on with it. By its own verdict, and by
//! that of a client beside it, the server stays available, and it is the server that ends them.

mod common;

use common::{
    ENGINES,
    program::{RunningProgram, serve_exactly},
    site, wait_for,
};
use std::{
    fs,
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread,
};
use tarpon::Engine;

#[test]
fn heads_that_do_not_end_are_answered_and_closed() {
    let attack = Attack { mode: "-H", options: &["-i", "1"], target: "/", held_min: COUNT / 10 };
    attack.is_survived();
}

#[test]
fn content_that_comes_in_drops_is_not_waited_for() {
    // A request for it is refused, and with that its connection is over.
    let attack = Attack { mode: "-B", options: &["-i", "1", "-s", "8192"], target: "/", held_min: 0 };
    attack.is_survived();
}

#[test]
fn responses_that_nobody_reads_are_cut() {
    // A window of a few bytes, of which some are read each second: by the end of them it learns that it was cut off.
    let options = &["-w", "1", "-y", "8", "-z", "2048", "-n", "1"];
    let attack = Attack { mode: "-X", options, target: "/large", held_min: COUNT / 10 };
    attack.is_survived();
}

#[test]
fn a_thousand_ranges_in_one_request_do_no_harm() {
    // Of 0-,5-0,5-1,...,5-1300 some end before they begin: as a whole it is invalid, and ignored. RFC 9110, section 14.1.1.
    let options = &["-t", "GET", "-a", "5", "-b", "1300"];
    let attack = Attack { mode: "-R", options, target: "/middle", held_min: 0 };
    attack.is_survived();
}

/// Connections of one attack. They begin within half a second.
const COUNT: usize = 100;

/// How long the server waits for anything, in seconds.
const LIMIT_S: &str = "1.5";

/// How long an attack may last, in seconds. It ends when none of its connections is left, and that is long before.
const LASTS_S: &str = "60";

/// How long a client beside the attack waits for its response, in seconds: shorter than an attack that the server does not end,
/// longer than a busy machine needs.
const ANSWERED_WITHIN_S: &str = "20";

/// What slowhttptest does.
struct Attack {
    mode: &'static str,
    options: &'static [&'static str],
    target: &'static str,
    /// So many of its connections at least the server has at once: without them it would be no attack.
    held_min: usize,
}

/// What slowhttptest saw in one second.
#[derive(Debug)]
struct Second {
    /// Its connections, whatever has become of them.
    begun: usize,
    /// Whether its probe was answered.
    available: bool,
}

impl Attack {
    /// On every engine, on two at the same time: most of it is waiting.
    fn is_survived(&self) {
        let dir = site(&[
            ("index.html", "home".into()),
            ("middle", vec![7; 64 << 10]),
            ("large", vec![7; 32 << 20]),
        ]);
        for engines in ENGINES.chunks(2) {
            thread::scope(|scope| {
                for &engine in engines {
                    let dir = dir.path();
                    scope.spawn(move || self.is_survived_on(engine, dir));
                }
            });
        }
    }

    fn is_survived_on(&self, engine: Engine, dir: &Path) {
        let program = attackable(dir, engine);
        let reports = common::readable_dir();
        let url = format!("http://{}", program.address());
        let mut attack = self.begin(&url, reports.path());
        let (mut held, mut served) = (0, 0);
        while attack.try_wait().expect("a child").is_none() {
            held = held.max(program.connection_count());
            assert_eq!(ask(&url, engine), "home", "{engine}, after {served} answers");
            served += 1;
        }
        let Output { status, stdout, stderr } = attack.wait_with_output().expect("a child");
        let said = String::from_utf8_lossy(&stdout) + String::from_utf8_lossy(&stderr);
        assert!(status.success() && said.contains("No open connections left"), "{engine}: {said}");
        let seconds = seconds(reports.path());
        assert!(seconds.iter().all(|second| second.available), "{engine}: {seconds:?}");
        assert!(seconds.iter().any(|second| second.begun > 0), "{engine}: {seconds:?}");
        assert!(served > 0 && held >= self.held_min, "{engine}: {served} answers, {held} held");
        wait_for("nothing is left", || (program.connection_count() == 0).then_some(()));
        assert_eq!(program.err(), "", "{engine}");
    }

    /// The attack, under way. It reports to files in `reports`.
    fn begin(&self, url: &str, reports: &Path) -> Child {
        let (count, rate) = (COUNT.to_string(), (2 * COUNT).to_string());
        let mut command = Command::new("slowhttptest");
        command.args([self.mode, "-c", &count, "-r", &rate, "-l", LASTS_S, "-p", ANSWERED_WITHIN_S]);
        command.args(["-u", &format!("{url}{}", self.target)]).args(self.options);
        // `-v 1`: how it ended, and nothing else.
        command.args(["-g", "-o", "report", "-v", "1"]).current_dir(reports);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("slowhttptest is missing: run tests/setup")
    }
}

fn attackable(dir: &Path, engine: Engine) -> RunningProgram {
    let timeouts = ["--header-timeout", "--body-timeout", "--idle-timeout", "--send-timeout"];
    let limits: Vec<&str> = timeouts.iter().flat_map(|timeout| [*timeout, LIMIT_S]).collect();
    // Where a worker has one connection at a time, each of the attack holds one until its time is over.
    let workers = if engine.is_blocking() { (2 * COUNT).to_string() } else { "1".to_owned() };
    let options = [&["--engine", engine.name(), "--workers", &workers], &limits[..]].concat();
    RunningProgram::start_ready(serve_exactly(dir, &options))
}

/// Asks as a client that has nothing to do with the attack.
fn ask(url: &str, engine: Engine) -> String {
    let options = ["-q", "-sS", "--max-time", ANSWERED_WITHIN_S, "--noproxy", "*"];
    let output = Command::new("curl").args(options).arg(url).output();
    let Output { status, stdout, stderr } = output.expect("curl is missing: run tests/setup");
    assert!(status.success(), "{engine}: curl: {status}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).expect("a page in UTF-8")
}

/// What the attack has reported, second by second.
fn seconds(reports: &Path) -> Vec<Second> {
    let report = fs::read_to_string(reports.join("report.csv")).expect("a report");
    let mut lines = report.lines();
    assert_eq!(lines.next(), Some("Seconds,Closed,Pending,Connected,Service Available"));
    let numbers = lines.map(|line| line.split(',').map(|number| number.parse().expect("a number")).collect());
    numbers.map(|row: Vec<usize>| Second { begun: row[1..4].iter().sum(), available: row[4] > 0 }).collect()
}
