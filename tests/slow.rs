//! The slow attacks of slowhttptest: clients that start a request or a response and do not finish it. The server stays available to
//! slowhttptest and to another client, and the server closes the connections of the attack.
//!
//! These attacks need real time, so they belong to `tests/run --soak`. `crates/conn/tests/invariants/time.rs` shows the deadlines with a
//! simulated clock, and `tests/serve/timeouts.rs` that the engines keep them.

use crate::common::{
    ENGINES,
    program::{RunningProgram, serve_exactly},
    site, wait_for,
};
use std::{
    fs,
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread,
    time::Duration,
};
use tarpon::Engine;

#[test]
#[ignore = "soak: attacks for seconds"]
fn unfinished_heads_are_answered_and_closed() {
    let attack = Attack { mode: "-H", options: &["-i", "1"], target: "/", held_min: COUNT / 10 };
    attack.is_survived();
}

#[test]
#[ignore = "soak: attacks for seconds"]
fn slow_request_content_is_not_awaited() {
    // The server refuses the request and closes the connection.
    let attack = Attack { mode: "-B", options: &["-i", "1", "-s", "8192"], target: "/", held_min: 0 };
    attack.is_survived();
}

#[test]
#[ignore = "soak: attacks for seconds"]
fn unread_responses_are_aborted() {
    // The client has a receive window of a few bytes and reads some each second, so it notices the end of the connection.
    let options = &["-w", "1", "-y", "8", "-z", "2048", "-n", "1"];
    let attack = Attack { mode: "-X", options, target: "/large", held_min: COUNT / 10 };
    attack.is_survived();
}

#[test]
#[ignore = "soak: attacks for seconds"]
fn thousand_ranges_in_one_request_are_ignored() {
    // Some ranges of 0-,5-0,5-1,...,5-1300 end before they begin, so the field is invalid and ignored. RFC 9110, section 14.1.1.
    let options = &["-t", "GET", "-a", "5", "-b", "1300"];
    let attack = Attack { mode: "-R", options, target: "/middle", held_min: 0 };
    attack.is_survived();
}

/// Connections of one attack. They start within half a second.
const COUNT: usize = 100;

/// Each timeout of the server, in seconds.
const LIMIT_S: &str = "1.5";

/// How long an attack may last, in seconds. It ends long before, when none of its connections is left.
const LASTS_S: &str = "60";

/// How long a client beside the attack waits for its response, in seconds: shorter than an attack that the server does not end, and
/// longer than a busy machine needs.
const ANSWERED_WITHIN_S: &str = "20";

/// The pause of the client beside the attack between two requests, each of which starts a program.
const PAUSE: Duration = Duration::from_millis(20);

/// An attack by slowhttptest.
struct Attack {
    mode: &'static str,
    options: &'static [&'static str],
    target: &'static str,
    /// The server has at least this number of connections at once, or the attack has failed.
    held_min: usize,
}

/// The report of slowhttptest about one second.
#[derive(Debug)]
struct AttackSecond {
    /// Connections that it has started.
    started: usize,
    /// Whether its probe got a response.
    available: bool,
}

impl Attack {
    /// Runs the attack on every engine, on four at a time, as the test mostly waits.
    fn is_survived(&self) {
        let dir = site(&[
            ("index.html", "home".into()),
            ("middle", vec![7; 64 << 10]),
            ("large", vec![7; 32 << 20]),
        ]);
        for engines in ENGINES.chunks(4) {
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
        let reports = crate::common::readable_dir();
        let url = format!("http://{}", program.address());
        let mut attack = self.start(&url, reports.path());
        let (mut held, mut served) = (0, 0);
        while attack.try_wait().expect("a child").is_none() {
            held = held.max(program.connection_count());
            assert_eq!(ask(&url, engine), "home", "{engine}, after {served} responses");
            served += 1;
            thread::sleep(PAUSE);
        }
        let Output { status, stdout, stderr } = attack.wait_with_output().expect("a child");
        let output = String::from_utf8_lossy(&stdout) + String::from_utf8_lossy(&stderr);
        assert!(status.success() && output.contains("No open connections left"), "{engine}: {output}");
        let seconds = seconds(reports.path());
        assert!(seconds.iter().all(|second| second.available), "{engine}: {seconds:?}");
        assert!(seconds.iter().any(|second| second.started > 0), "{engine}: {seconds:?}");
        assert!(served > 0 && held >= self.held_min, "{engine}: {served} responses, {held} held");
        wait_for("no connection is left", || (program.connection_count() == 0).then_some(()));
        assert_eq!(program.err(), "", "{engine}");
    }

    /// Starts the attack. It reports to files in `reports`.
    fn start(&self, url: &str, reports: &Path) -> Child {
        let (count, rate) = (COUNT.to_string(), (2 * COUNT).to_string());
        let mut command = Command::new("slowhttptest");
        command.args([self.mode, "-c", &count, "-r", &rate, "-l", LASTS_S, "-p", ANSWERED_WITHIN_S]);
        command.args(["-u", &format!("{url}{}", self.target)]).args(self.options);
        // `-v 1`: only the result.
        command.args(["-g", "-o", "report", "-v", "1"]).current_dir(reports);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("slowhttptest is missing: run tests/setup")
    }
}

fn attackable(dir: &Path, engine: Engine) -> RunningProgram {
    let timeouts = ["--header-timeout", "--body-timeout", "--idle-timeout", "--send-timeout"];
    let limits: Vec<&str> = timeouts.iter().flat_map(|timeout| [*timeout, LIMIT_S]).collect();
    // With one connection per worker, each connection of the attack holds a worker until its timeout.
    let workers = if engine.is_blocking() { (2 * COUNT).to_string() } else { "1".to_owned() };
    let options = [&["--engine", engine.name(), "--workers", &workers], &limits[..]].concat();
    RunningProgram::start_ready(serve_exactly(dir, &options))
}

/// Requests a page as a client beside the attack.
fn ask(url: &str, engine: Engine) -> String {
    let options = ["-q", "-sS", "--max-time", ANSWERED_WITHIN_S, "--noproxy", "*"];
    let output = Command::new("curl").args(options).arg(url).output();
    let Output { status, stdout, stderr } = output.expect("curl is missing: run tests/setup");
    assert!(status.success(), "{engine}: curl: {status}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).expect("a page in UTF-8")
}

/// Reads the report of an attack.
fn seconds(reports: &Path) -> Vec<AttackSecond> {
    let report = fs::read_to_string(reports.join("report.csv")).expect("a report");
    let mut lines = report.lines();
    assert_eq!(lines.next(), Some("Seconds,Closed,Pending,Connected,Service Available"));
    let numbers = lines.map(|line| line.split(',').map(|number| number.parse().expect("a number")).collect());
    numbers
        .map(|row: Vec<usize>| AttackSecond { started: row[1..4].iter().sum(), available: row[4] > 0 })
        .collect()
}
