//! systemd, played by the test: what it is told, and the sockets that it hands over.

#![allow(clippy::disallowed_methods, reason = "a test names files of its own")]

mod common;

use common::{
    ENGINES, TEST_TIMEOUT,
    client::TestClient,
    load::LoadGenerator,
    program::{RunningProgram, UpgradedProgram, has_exited, tarpon, wrap_command},
    readable_dir, site, wait_for,
};
use rustix::process::Signal;
use std::{
    fs,
    net::{SocketAddr, TcpListener, TcpStream},
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr as UnixAddr, UnixDatagram, UnixStream},
    },
    path::Path,
    process::Command,
};

#[test]
fn systemd_is_told_when_it_serves_reloads_upgrades_and_stops() {
    let dir = readable_dir();
    let path = dir.path().join("notify");
    let name = format!("tarpon-test-{}", std::process::id());
    let sockets = [
        (UnixDatagram::bind(&path).unwrap(), path.display().to_string()),
        (UnixDatagram::bind_addr(&UnixAddr::from_abstract_name(&name).unwrap()).unwrap(), format!("@{name}")),
    ];
    for (socket, address) in sockets {
        socket.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        let told = || {
            let mut said = [0; 4096];
            let len = socket.recv(&mut said).expect("systemd is told");
            String::from_utf8(said[..len].to_vec()).unwrap()
        };
        let site = site(&[("index.html", "home")]);
        let file = dir.path().join("tarpon.toml");
        let path = site.path().display();
        let say = |rest: &str| {
            let listener = "[[listener]]\naddress = \"127.0.0.1:0\"\n[server]\nadmin = \"off\"\n";
            fs::write(&file, format!("[[site]]\npath = \"{path}\"\n{listener}{rest}")).unwrap();
        };
        say("");
        let mut command = tarpon(["serve", "--config"].map(AsRef::as_ref));
        command.arg(&file).env("NOTIFY_SOCKET", &address);
        let program = RunningProgram::start_ready(command);
        let served = "READY=1\nSTATUS=sites: 1, files: 1, bytes: 4, at 127.0.0.1:";
        let said = told();
        assert!(said.starts_with(served), "{said}");

        program.signal(Signal::HUP);
        let said = told();
        let (what, since) = said.split_once("\nMONOTONIC_USEC=").expect("both");
        assert!(what == "RELOADING=1" && since.trim_end().parse::<u64>().unwrap() > 0, "{said}");
        let said = told();
        assert!(said.starts_with(served), "{said}");

        say("no-such-option = 1\n");
        program.signal(Signal::HUP);
        assert!(told().starts_with("RELOADING=1\n"));
        let said = told();
        assert!(
            said.starts_with("READY=1\nSTATUS=not reloaded: cannot use ") && said.lines().count() == 2,
            "{said}"
        );

        say("");
        program.signal(Signal::USR2);
        assert!(told().starts_with("RELOADING=1\n"));
        let said = told();
        let id: i32 = said.strip_prefix("MAINPID=").and_then(|id| id.trim_end().parse().ok()).expect(&said);
        let next = UpgradedProgram(rustix::process::Pid::from_raw(id).unwrap());
        let said = told();
        assert!(said.starts_with(served), "{said}");
        wait_for("the end of the program before", || has_exited(program.pid()).then_some(()));

        next.stop();
        assert_eq!(told(), "STOPPING=1\n");
        // Who has left is not heard any more.
        socket.set_nonblocking(true).unwrap();
        assert!(socket.recv(&mut [0; 100]).is_err());
    }
}

/// Begun by `systemd-socket-activate`, when the first client comes.
#[test]
fn its_sockets_are_served_where_they_are_named_or_nothing_is() {
    let dir = site(&[("index.html", "home")]);
    let temp = readable_dir();
    let path = temp.path().join("socket");
    for is_named in [true, false] {
        let address = free_address();
        let mut command = serving(dir.path(), &[]);
        if is_named {
            command.args(["--listen", &address.to_string(), "--listen", &format!("unix:{}", path.display())]);
            // One more, of its own.
            command.args(["--listen", "127.0.0.1:0"]);
        }
        let (tcp, unix) = (address.to_string(), path.display().to_string());
        let activate = ["systemd-socket-activate", "-l", &tcp, "-l", &unix, "--fdname=web:local"];
        let program = RunningProgram::start(wrap_command(&activate, &command));
        let mut client =
            wait_for("systemd listens", || TcpStream::connect(address).ok().map(TestClient::new));
        assert_eq!(client.get("/").content, b"home");
        assert_eq!(TestClient::connect_unix(&path).get("/").content, b"home");
        wait_for("the banner", || program.out().contains("Ctrl-C").then_some(()));
        assert_eq!(program.addresses().len(), if is_named { 2 } else { 1 }, "{}", program.out());
        assert_eq!(program.addresses()[0], address);
        program.signal(Signal::TERM);
        let ended = program.wait();
        assert!(
            ended.status.success() && ended.err.lines().all(|line| !line.contains("warning")),
            "{ended:?}"
        );
        assert!(path.exists(), "it is not the program's");
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_socket_that_nobody_would_serve_ends_the_start() {
    let dir = site(&[("index.html", "home")]);
    let address = free_address();
    let temp = readable_dir();
    let path = temp.path().join("socket");
    let datagrams =
        ["systemd-socket-activate".to_owned(), "--datagram".into(), "-l".into(), address.to_string()];
    let streams = ["systemd-socket-activate".to_owned(), "-l".into(), path.display().to_string()];
    #[rustfmt::skip]
    let cases: [(&[String], String); 2] = [
        (&streams, format!(
            "tarpon: cannot leave the socket of systemd at unix:{} alone: no listener of the configuration is there, and clients would \
             wait for ever; name it, as with --listen unix:{0}, or leave its ListenStream= out of the socket unit; without any listener, \
             all sockets of systemd are served", path.display())),
        (&datagrams,
            "tarpon: cannot use the socket unknown of systemd, descriptor 3: it is not a listening stream socket; set \
             ListenStream= in its socket unit to an address and a port, or to a path".to_owned()),
    ];
    for (activate, want) in cases {
        let activate: Vec<&str> = activate.iter().map(String::as_str).collect();
        let command = serving(dir.path(), &["--listen", "127.0.0.1:0"]);
        let program = RunningProgram::start(wrap_command(&activate, &command));
        let is_stream = !activate.contains(&"--datagram");
        wait_for("the end", || {
            // Whoever comes.
            match is_stream {
                true => drop(UnixStream::connect(&path)),
                false => drop(std::net::UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"x", address)),
            }
            has_exited(program.pid()).then_some(())
        });
        let ended = program.wait();
        assert!(ended.err.lines().any(|line| line == want), "{want}: {ended:?}");
        assert_eq!(ended.status.code(), Some(1));
    }
}

#[test]
fn no_request_fails_and_no_connection_is_reset_while_systemd_restarts_it() {
    let dir = site(&[("index.html", "home")]);
    for &engine in ENGINES {
        // systemd has it all the time.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let start = || {
            let command = serving(dir.path(), &["--engine", engine.name()]);
            let hand = "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\"";
            let command = wrap_command(&["bash", "-c", hand, "systemd"], &command);
            RunningProgram::start_with_stdin(command, listener.try_clone().unwrap().into())
        };
        let mut program = start();
        let load = LoadGenerator::start(address, "/", b"home");
        load.wait_for_responses(50);
        for _ in 0..2 {
            program.signal(Signal::TERM);
            let ended = program.wait();
            assert!(ended.status.success(), "{engine}: {ended:?}");
            program = start();
            load.wait_for_responses(50);
        }
        let failures = load.stop();
        assert!(failures.is_empty(), "{engine}: {failures:?}");
    }
}

/// `tarpon serve`, which says nothing of where to listen by itself.
fn serving(dir: &Path, options: &[&str]) -> Command {
    let mut command = tarpon(["serve".as_ref(), dir.as_os_str()]);
    command.args(["--admin", "off", "--log-format", "human"]).args(options);
    command
}

/// Where nobody listened a moment ago.
fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}
