//! Faults of a whole system, in a virtual machine (`tests/vm`): its clock jumps both ways, and no file is left in it. Nothing served is wrong.
//!
//! ```text
//! test ── forwarded ports ─▶ tarpon with each engine
//!      ── console ─────────▶ date -s, /proc/sys/fs/file-max, files of the site
//! ```

use crate::common::{
    client::{TestClient, get},
    port::ReservedPort,
    program::RunningProgram,
    wait_for,
};
use std::{
    fs,
    io::{self, PipeWriter, Write},
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Command,
};
use tempfile::TempDir;

const ENGINES: [&str; 5] = ["epoll", "io_uring", "poll", "threads", "prefork"];

#[test]
#[ignore = "soak: boots a virtual machine"]
fn clock_that_jumps_changes_dates_and_nothing_else() {
    let Some(machine) = FaultyMachine::boot() else { return };
    // The first half of a request has arrived when the clock jumps: no deadline passes, and none is forgotten.
    let mut clients: Vec<_> = machine.addresses.iter().map(|address| TestClient::connect(*address)).collect();
    for client in &mut clients {
        assert_eq!(client.get("/").content, b"home");
    }
    let (mut count, warning_count) = (1, machine.out().matches("warning").count());
    for year in ["2044", "2001", "2030", "1975"] {
        for client in &mut clients {
            client.send(REQUEST[0]);
        }
        machine.run(&format!("date -s '{year}-06-15 12:00:00'"));
        let home = format!("home of {year}");
        machine.run(&format!("echo -n '{home}' >/site/index.html"));
        for ((client, address), engine) in clients.iter_mut().zip(&machine.addresses).zip(ENGINES) {
            client.send(REQUEST[1]);
            assert_eq!(client.response().status, 200, "{engine}, {year}: the request that had begun");
            count += usize::from(engine == ENGINES[0]);
            let mut open = TestClient::connect(*address);
            wait_for("the change", || {
                let response = open.get("/");
                count += usize::from(engine == ENGINES[0]);
                (response.content == home.as_bytes()).then_some(())
            });
            let response = client.get("/");
            count += usize::from(engine == ENGINES[0]);
            assert_eq!(response.content, home.as_bytes(), "{engine}, {year}");
            let date = response.field("Date").expect("a date");
            assert!(date.contains(&format!(" Jun {year} 12:0")), "{engine}, {year}: {date}");
            // A validator of this version still means this version.
            let tag = response.field("ETag").expect("a tag").to_owned();
            client.send(get("/").replace("\r\n\r\n", &format!("\r\nIf-None-Match: {tag}\r\n\r\n")));
            assert_eq!(client.response().status, 304, "{engine}, {year}");
        }
        // The log has the time of the clock, and the age of the file loses no line.
        wait_for("lines with the time", || {
            let lines = machine.run(&format!("cat /log.0* | grep -c '{year}-06-15T12:'"));
            (lines.trim() != "0").then_some(())
        });
    }
    let files = machine.run("ls /log.0* | wc -l");
    // One new file for each jump ahead of more than a day.
    assert!(files.trim().parse::<usize>().expect("a number") <= 5, "{files}");
    wait_for("all lines of the log", || {
        (machine.run("cat /log.0* | grep -c '\" 200 '").trim() == count.to_string()).then_some(())
    });
    assert_eq!(machine.out().matches("warning").count(), warning_count, "{}", machine.out());
}

#[test]
#[ignore = "soak: boots a virtual machine"]
fn system_without_files_lets_clients_wait() {
    const COUNT: usize = 20;
    let Some(machine) = FaultyMachine::boot() else { return };
    // Workers of the other engines have made the file of their next connection already.
    for (number, engine) in ENGINES.into_iter().enumerate().take(3) {
        let address = machine.addresses[number];
        let mut open = TestClient::connect(address);
        assert_eq!(open.get("/").content, b"home", "{engine}");
        machine.run("cp /proc/sys/fs/file-max /file-max; echo 1 >/proc/sys/fs/file-max");
        let mut waiting: Vec<_> = (0..COUNT).map(|_| TestClient::connect(address)).collect();
        for client in &mut waiting {
            client.send(get("/"));
        }
        wait_for("the clients in the backlog", || (machine.backlog(number) == COUNT).then_some(()));
        assert_eq!(open.get("/").content, b"home", "{engine}: an open connection");
        assert_eq!(machine.backlog(number), COUNT, "{engine}: a client was accepted without a file");
        machine.run("cat /file-max >/proc/sys/fs/file-max");
        for client in &mut waiting {
            assert_eq!(client.response().content, b"home", "{engine}");
        }
    }
}

/// The port of the first server within the machine.
const PORT: usize = 4_000;

/// A request in two parts.
const REQUEST: [&str; 2] = ["GET / HTTP/1.1\r\nHo", "st: localhost\r\n\r\n"];

/// A running machine, with a server of each engine.
struct FaultyMachine {
    program: RunningProgram,
    console: PipeWriter,
    addresses: Vec<SocketAddr>,
    _ports: Vec<ReservedPort>,
    _root: TempDir,
}

impl FaultyMachine {
    /// Boots a machine. `None`: this system has no emulator or no kernel for it.
    fn boot() -> Option<FaultyMachine> {
        if !Path::new(env!("CARGO_TARGET_TMPDIR")).join("vm/6.12").is_dir() {
            let why = "SKIPPED: no kernel or emulator: run tests/setup --soak";
            // Past the output that a passing test hides.
            writeln!(io::stderr(), "{why}").expect("standard error");
            return None;
        }
        let root = root();
        let ports: Vec<_> = ENGINES.iter().map(|_| ReservedPort::new()).collect();
        let addresses: Vec<_> = ports.iter().map(|port| port.address).collect();
        let mut command = vm(&["boot"]);
        command.arg(root.path());
        for (number, address) in addresses.iter().enumerate() {
            command.args(["--forward", &format!("{}:{}", address.port(), PORT + number)]);
        }
        let (input, console) = io::pipe().expect("a pipe");
        let program = RunningProgram::start_with_stdin(command, input.into());
        for count in 1..=ENGINES.len() {
            wait_for("the machine and its servers", || {
                let out = program.out();
                assert!(!out.contains("vm: exit status"), "{out}");
                (out.matches("Ctrl-C").count() >= count).then_some(())
            });
        }
        Some(FaultyMachine { program, console, addresses, _ports: ports, _root: root })
    }

    /// Runs a command of the shell as root. Returns its output.
    fn run(&self, command: &str) -> String {
        let before = self.out().matches("console: end").count();
        (&self.console).write_all(format!("{command}\n").as_bytes()).expect("the console");
        let out =
            wait_for(command, || Some(self.out()).filter(|out| out.matches("console: end").count() > before));
        let (_, out) = out.rsplit_once("console: begin\n").expect("a begin");
        out.split("console: end").next().expect("a part").to_owned()
    }

    /// Returns how many connections wait for a server to accept them. proc(5), /proc/net/tcp: the queue of received data.
    fn backlog(&self, server: usize) -> usize {
        let table = self.run("cat /proc/net/tcp");
        let port = format!(":{:04X}", PORT + server);
        let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        // Each worker has a listener.
        let listeners = rows.filter(|row| row.len() > 4 && row[1].ends_with(&port) && row[3] == "0A");
        let waiting = listeners.map(|row| {
            let (_, received) = row[4].split_once(':').expect("two queues");
            usize::from_str_radix(received, 16).expect("a number")
        });
        waiting.sum()
    }

    fn out(&self) -> String {
        self.program.out()
    }
}

fn vm(arguments: &[&str]) -> Command {
    let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vm"));
    command.args(arguments);
    command
}

/// Makes the files of the machine.
fn root() -> TempDir {
    let root = tempfile::tempdir().expect("a directory");
    let path = |name: &str| root.path().join(name);
    fs::create_dir(path("site")).expect("a directory");
    fs::write(path("site/index.html"), "home").expect("a file");
    let mut libraries = vm(&["libraries"]);
    libraries.arg(root.path()).arg(env!("CARGO_BIN_EXE_tarpon"));
    assert!(libraries.status().expect("tests/vm").success());
    let mut start = String::from("#!/bin/sh\nexport TARPON_COMPRESS=off\n");
    for (number, engine) in ENGINES.iter().enumerate() {
        start += &format!(
            "tarpon serve /site --engine {engine} --workers {} --listen 0.0.0.0:{} --admin off --log-format human --idle-timeout 600s \
             --header-timeout 600s --access-log /log.{number} --access-log-format simple --access-log-age 1d 2>&1 | cat &\n",
            if number < 3 { 2 } else { 32 },
            PORT + number,
        );
    }
    start += "while read -r line; do echo console: begin; eval \"$line\" 2>&1; echo console: end; done\n";
    fs::write(path("start"), start).expect("a file");
    fs::set_permissions(path("start"), fs::Permissions::from_mode(0o755)).expect("a file of this user");
    root
}
