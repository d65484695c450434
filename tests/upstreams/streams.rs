//! Contents that pass through without being held: long ones in little memory, events one by one, and no server that stalls another response.

use super::{
    proxied::{Proxied, ProxyClient, get, on_every_engine, request},
    scripted::{ScriptGate, ScriptedServer, ok},
};
use crate::common::{distinct_bytes, program::RunningProgram};
use std::{fs, io::Write, thread};

/// Far more than a proxy may hold.
const LONG: usize = 64 << 20;

/// What a process of the server may need more for [`LONG`] bytes than for none.
const MEMORY_MAX: usize = 12 << 20;

/// How much a test sends at once.
const BLOCK_LEN: usize = 1 << 16;

#[test]
fn long_contents_pass_in_little_memory() {
    let block = distinct_bytes(BLOCK_LEN);
    let sent = block.clone();
    let server = ScriptedServer::start(move |connection| {
        while let Some(head) = connection.head() {
            if head.method() == "GET" {
                connection.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {LONG}\r\n\r\n"));
                (0..LONG / BLOCK_LEN).for_each(|_| assert!(connection.send(&sent), "the client takes all"));
            } else {
                for number in 0..LONG / BLOCK_LEN {
                    let got = connection.raw(BLOCK_LEN).expect("the whole content");
                    assert!(got == sent, "block {number}");
                }
                connection.send(ok("all"));
            }
        }
    });
    on_every_engine(&server, |proxied, engine| {
        let mut client = proxied.connect();
        assert_eq!(client.ask(get("/")).response.text(), "home", "{engine}");
        let before = peak_len(proxied.program());
        client.send(get("/app/"));
        assert_eq!(client.response_head().status(), 200, "{engine}");
        for number in 0..LONG / BLOCK_LEN {
            assert!(client.raw(BLOCK_LEN) == block, "{engine}: block {number}");
        }
        client.send(request("POST", "/app/", &format!("Content-Length: {LONG}\r\n")));
        (0..LONG / BLOCK_LEN).for_each(|_| assert!(client.send(&block), "{engine}"));
        assert_eq!(client.answered("POST").response.text(), "all", "{engine}");
        let after = peak_len(proxied.program());
        assert!(after < before + MEMORY_MAX, "{engine}: {before} bytes before, {after} after");
    });
}

/// Returns the most memory that a process of a program has ever had. proc(5), `VmHWM`.
fn peak_len(program: &RunningProgram) -> usize {
    let peak = |pid: rustix::process::Pid| {
        let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).ok()?;
        let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"))?;
        kib.parse::<usize>().ok().map(|kib| kib << 10)
    };
    program.processes().into_iter().filter_map(peak).max().expect("a process")
}

#[test]
fn slow_client_stops_its_server_and_no_other_one() {
    let block = distinct_bytes(BLOCK_LEN);
    let server = ScriptedServer::start(move |connection| {
        while let Some(head) = connection.head() {
            if head.target() != "/app/long" {
                connection.send(ok(head.target()));
                continue;
            }
            connection.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {LONG}\r\n\r\n"));
            for _ in 0..LONG / BLOCK_LEN {
                if !connection.send(&block) {
                    return;
                }
            }
        }
    });
    on_every_engine(&server, |proxied, engine| {
        let before = peak_len(proxied.program());
        let mut slow: Vec<ProxyClient> = (0..8).map(|_| proxied.connect()).collect();
        for client in &mut slow {
            client.send(get("/app/long"));
            assert_eq!(client.response_head().status(), 200, "{engine}");
        }
        // They read nothing more.
        for number in 0..20 {
            let target = format!("/app/{number}");
            assert_eq!(proxied.get(&target).text(), target, "{engine}");
        }
        assert_eq!(proxied.get("/").text(), "home", "{engine}");
        let after = peak_len(proxied.program());
        assert!(after < before + MEMORY_MAX, "{engine}: {before} bytes before, {after} after");
    });
}

#[test]
fn events_arrive_one_by_one() {
    let gate = ScriptGate::default();
    let passed = gate.clone();
    let server = ScriptedServer::start(move |connection| {
        while let Some(head) = connection.head() {
            let is_chunked = head.target() == "/app/chunked";
            let framing = if is_chunked { "Transfer-Encoding: chunked\r\n" } else { "" };
            connection.send(format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{framing}\r\n"));
            for number in 0..EVENTS {
                passed.pass();
                let event = event(number);
                let wire = if is_chunked { format!("{:x}\r\n{event}\r\n", event.len()) } else { event };
                connection.send(wire);
            }
            if !is_chunked {
                return;
            }
            connection.send("0\r\n\r\n");
        }
    });
    on_every_engine(&server, |proxied, engine| {
        for target in ["/app/chunked", "/app/unlimited"] {
            let mut client = proxied.connect();
            client.send(get(target));
            // The head comes before the first event.
            let head = client.response_head();
            let framing = (head.status(), head.field("Transfer-Encoding"));
            assert_eq!(framing, (200, Some("chunked")), "{engine}, {target}: {head}");
            for number in 0..EVENTS {
                gate.open();
                let (want, mut got) = (event(number), Vec::new());
                while got.len() < want.len() {
                    got.extend(client.chunk());
                }
                assert_eq!(String::from_utf8_lossy(&got), want, "{engine}, {target}");
            }
            assert!(client.chunk().is_empty(), "{engine}, {target}");
        }
    });
}

const EVENTS: usize = 5;

fn event(number: usize) -> String {
    format!("id: {number}\ndata: {}\n\n", "x".repeat(number * 100))
}

#[test]
fn parts_of_a_request_arrive_one_by_one() {
    let server = ScriptedServer::start(|connection| {
        while connection.head().is_some() {
            connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
            // Each part comes back before the client sends the next one.
            for _ in 0..EVENTS {
                let Some(part) = connection.raw(5) else { return };
                connection.send([b"5\r\n", &part[..], b"\r\n"].concat());
            }
            connection.send("0\r\n\r\n");
        }
    });
    on_every_engine(&server, |proxied, engine| {
        let mut client = proxied.connect();
        let fields = format!("Content-Length: {}\r\n", 5 * EVENTS);
        client.send(request("POST", "/app/", &fields) + "part0");
        assert_eq!(client.response_head().status(), 200, "{engine}");
        for number in 0..EVENTS {
            assert_eq!(client.chunk(), format!("part{number}").as_bytes(), "{engine}");
            if number + 1 < EVENTS {
                client.send(format!("part{}", number + 1));
            }
        }
        assert!(client.chunk().is_empty(), "{engine}");
    });
}

#[test]
fn stalled_server_delays_no_other_response() {
    const STALLED: usize = 24;
    let server = ScriptedServer::start(|connection| {
        while let Some(head) = connection.head() {
            match head.target() {
                "/app/silent" => {}
                "/app/begun" => drop(connection.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe")),
                target => drop(connection.send(ok(target))),
            }
        }
    });
    on_every_engine(&server, |proxied, engine| {
        let mut stalled: Vec<ProxyClient> = (0..STALLED).map(|_| proxied.connect()).collect();
        for (number, client) in stalled.iter_mut().enumerate() {
            let target = if number % 2 == 0 { "/app/silent" } else { "/app/begun" };
            client.send(get(target));
            server.next();
        }
        check_others(proxied, engine.name());
        server.next();
    });
}

fn check_others(proxied: &Proxied, case: &str) {
    for _ in 0..5 {
        let response = proxied.get("/");
        assert_eq!((response.status(), &*response.text()), (200, "home"), "{case}");
    }
    assert_eq!(proxied.get("/app/good").text(), "/app/good", "{case}");
}

#[test]
fn server_that_takes_no_content_stops_its_client_only() {
    let gate = ScriptGate::default();
    let passed = gate.clone();
    let server = ScriptedServer::start(move |connection| {
        let Some(mut head) = connection.head() else { return };
        if head.method() == "POST" {
            passed.pass();
        }
        assert!(connection.content(&mut head), "the whole content");
        connection.send(ok(format!("{} {}", head.target(), head.content.len())));
    });
    on_every_engine(&server, |proxied, engine| {
        let mut client = proxied.connect();
        client.send(request("POST", "/app/", &format!("Content-Length: {LONG}\r\n")));
        let mut stream = client.stream();
        thread::scope(|scope| {
            let sender = scope.spawn(move || {
                let block = distinct_bytes(BLOCK_LEN);
                (0..LONG / BLOCK_LEN).try_for_each(|_| stream.write_all(&block))
            });
            server.next();
            for _ in 0..5 {
                assert_eq!(proxied.get("/").text(), "home", "{engine}");
            }
            gate.open();
            assert_eq!(client.answered("POST").response.text(), format!("/app/ {LONG}"), "{engine}");
            assert!(sender.join().expect("no panic").is_ok(), "{engine}");
        });
    });
}
