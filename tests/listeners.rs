//! The addresses of `--listen` and `[[listener]]`: ports at several addresses.

#![allow(clippy::disallowed_methods, reason = "a test names files of its own")]

mod common;

use common::{
    client::TestClient,
    port::ReservedPort,
    program::{RunningProgram, UpgradedProgram, has_exited, serve, tarpon},
    readable_dir, site, wait_for,
};
use rustix::process::Signal;
use std::{
    fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
};

const V4: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
const V4_LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6_LOOPBACK: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

/// Returns whether this host has IPv6. Prints a message if it has none.
fn has_ipv6() -> bool {
    let has = TcpListener::bind((V6_LOOPBACK, 0)).is_ok();
    if !has {
        println!("skipped: this host has no IPv6");
    }
    has
}

#[test]
fn one_text_listens_at_the_addresses_of_both_families() {
    if !has_ipv6() {
        return;
    }
    let dir = site(&[("index.html", "home")]);
    #[rustfmt::skip]
    let cases: &[(&str, &[IpAddr])] = &[
        ("PORT",           &[V4, V6]),
        (":PORT",          &[V4, V6]),
        ("localhost:PORT", &[V4_LOOPBACK, V6_LOOPBACK]),
        ("0.0.0.0:PORT",   &[V4]),
        ("[::]:PORT",      &[V6]),
        ("[::1]:PORT",     &[V6_LOOPBACK]),
    ];
    for (listen, addresses) in cases {
        let reserved = ReservedPort::new();
        let port = reserved.address.port();
        let listen = listen.replace("PORT", &port.to_string());
        let program = RunningProgram::start_ready(serve(dir.path(), &["--listen", &listen]));
        let want: Vec<SocketAddr> = addresses.iter().map(|&ip| (ip, port).into()).collect();
        assert_eq!(program.addresses(), want, "{listen}");
        for (ip, families) in [(V4_LOOPBACK, [V4, V4_LOOPBACK]), (V6_LOOPBACK, [V6, V6_LOOPBACK])] {
            let is_served = addresses.iter().any(|address| families.contains(address));
            match is_served {
                true => assert_eq!(
                    TestClient::connect((ip, port).into()).get("/").content,
                    b"home",
                    "{listen} {ip}"
                ),
                false => assert!(TcpStream::connect((ip, port)).is_err(), "{listen} {ip}"),
            }
        }
        assert_eq!(program.err(), "", "{listen}");
    }
    // Each family gets a free port of its own.
    let program = RunningProgram::start_ready(serve(dir.path(), &["--listen", "localhost:0"]));
    let [v4, v6] = program.addresses()[..] else { panic!("two addresses: {}", program.out()) };
    assert!(
        (v4.ip(), v6.ip()) == (V4_LOOPBACK, V6_LOOPBACK) && v4.port() != 0 && v6.port() != 0,
        "{v4} {v6}"
    );
}

#[test]
fn both_sockets_outlive_reloads_and_upgrades() {
    if !has_ipv6() {
        return;
    }
    let dir = readable_dir();
    let (file, public) = (dir.path().join("tarpon.toml"), dir.path().join("public"));
    fs::create_dir(&public).expect("a directory");
    fs::write(public.join("index.html"), "home").expect("a file");
    let reserved = ReservedPort::new();
    let port = reserved.address.port();
    let write = |address: &str| {
        let text = format!(
            "[[site]]\npath = \"public\"\n[[listener]]\naddress = \"{address}\"\n[server]\nadmin = \"off\"\n\
             idle-timeout = \"1h\"\n[log]\nlog-format = \"human\"\n"
        );
        fs::write(&file, text).expect("a file");
    };
    write(&format!("localhost:{port}"));
    let mut command = tarpon(["serve", "--config"].map(AsRef::as_ref));
    command.arg(&file);
    let program = RunningProgram::start_ready(command);
    let address = |ip| SocketAddr::new(ip, port);
    let home = |ip| TestClient::connect(address(ip)).get("/").content;
    assert_eq!((home(V4_LOOPBACK), home(V6_LOOPBACK)), (b"home".to_vec(), b"home".to_vec()));
    // The same sockets under another text: two listeners.
    let text = format!("127.0.0.1:{port}\"\n[[listener]]\naddress = \"[::1]:{port}");
    let reloads = [text, format!("127.0.0.1:{port}"), format!("localhost:{port}")];
    for (number, text) in reloads.into_iter().enumerate() {
        write(&text);
        program.signal(Signal::HUP);
        wait_for("a reload", || (program.out().matches("\nreloaded\n").count() == number + 1).then_some(()));
        assert_eq!(home(V4_LOOPBACK), b"home", "{text}");
        let has_both = text.contains("localhost") || text.contains("::1");
        // The server of the former configuration closes its socket when it has drained.
        wait_for("the other family", || {
            (TcpStream::connect(address(V6_LOOPBACK)).is_ok() == has_both).then_some(())
        });
    }
    program.signal(Signal::USR2);
    let next = wait_for("the successor", || {
        let out = program.out();
        let id = out
            .lines()
            .find_map(|line| line.strip_prefix("upgraded: process "))?
            .split(|char: char| !char.is_ascii_digit());
        id.into_iter().next()?.parse().ok()
    });
    let next = UpgradedProgram(rustix::process::Pid::from_raw(next).expect("an id"));
    wait_for("the predecessor exits", || has_exited(program.pid()).then_some(()));
    assert_eq!((home(V4_LOOPBACK), home(V6_LOOPBACK)), (b"home".to_vec(), b"home".to_vec()));
    next.stop();
}
