//! The test in the role of systemd: the notifications of the program, and socket activation.

use crate::common::{
    ENGINES, TEST_TIMEOUT,
    client::TestClient,
    load::LoadGenerator,
    port::ReservedPort,
    program::{RunningProgram, UpgradedProgram, has_exited, tarpon, wrap_command},
    readable_dir, site, wait_for,
};
use rustix::process::Signal;
use std::{
    fs,
    net::{TcpListener, TcpStream, UdpSocket},
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr as UnixAddr, UnixDatagram, UnixStream},
    },
    path::Path,
    process::Command,
};

#[test]
fn program_notifies_systemd_when_it_serves_reloads_upgrades_and_stops() {
    let dir = readable_dir();
    let path = dir.path().join("notify");
    let name = format!("tarpon-test-{}", std::process::id());
    let sockets = [
        (UnixDatagram::bind(&path).unwrap(), path.display().to_string()),
        (UnixDatagram::bind_addr(&UnixAddr::from_abstract_name(&name).unwrap()).unwrap(), format!("@{name}")),
    ];
    for (socket, address) in sockets {
        socket.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        let notification = || {
            let mut message = [0; 4096];
            let len = socket.recv(&mut message).expect("a notification");
            String::from_utf8(message[..len].to_vec()).unwrap()
        };
        let site = site(&[("index.html", "home")]);
        let file = dir.path().join("tarpon.toml");
        let path = site.path().display();
        let write_config = |rest: &str| {
            let listener = "[[listener]]\naddress = \"127.0.0.1:0\"\n[server]\nadmin = \"off\"\n";
            fs::write(&file, format!("[[site]]\npath = \"{path}\"\n{listener}{rest}")).unwrap();
        };
        write_config("");
        let mut command = tarpon(["serve", "--config"].map(AsRef::as_ref));
        command.arg(&file).env("NOTIFY_SOCKET", &address);
        let program = RunningProgram::start_ready(command);
        let served = "READY=1\nSTATUS=sites: 1, files: 1, bytes: 4, at 127.0.0.1:";
        let message = notification();
        assert!(message.starts_with(served), "{message}");

        program.signal(Signal::HUP);
        let message = notification();
        let (what, since) = message.split_once("\nMONOTONIC_USEC=").expect("both");
        assert!(what == "RELOADING=1" && since.trim_end().parse::<u64>().unwrap() > 0, "{message}");
        let message = notification();
        assert!(message.starts_with(served), "{message}");

        write_config("no-such-option = 1\n");
        program.signal(Signal::HUP);
        assert!(notification().starts_with("RELOADING=1\n"));
        let message = notification();
        assert!(
            message.starts_with("READY=1\nSTATUS=not reloaded: cannot use ") && message.lines().count() == 2,
            "{message}"
        );

        write_config("");
        program.signal(Signal::USR2);
        assert!(notification().starts_with("RELOADING=1\n"));
        let message = notification();
        let id: i32 =
            message.strip_prefix("MAINPID=").and_then(|id| id.trim_end().parse().ok()).expect(&message);
        let next = UpgradedProgram(rustix::process::Pid::from_raw(id).unwrap());
        let message = notification();
        assert!(message.starts_with(served), "{message}");
        wait_for("the predecessor exits", || has_exited(program.pid()).then_some(()));

        next.stop();
        assert_eq!(notification(), "STOPPING=1\n");
        // The predecessor sends no more notifications.
        socket.set_nonblocking(true).unwrap();
        assert!(socket.recv(&mut [0; 100]).is_err());
    }
}

/// `systemd-socket-activate` starts the program when the first client connects.
#[test]
fn sockets_of_systemd_are_served_with_and_without_matching_listeners() {
    let dir = site(&[("index.html", "home")]);
    let temp = readable_dir();
    let path = temp.path().join("socket");
    for is_named in [true, false] {
        let port = ReservedPort::new();
        let address = port.address;
        let mut command = serving(dir.path(), &[]);
        if is_named {
            command.args(["--listen", &address.to_string(), "--listen", &format!("unix:{}", path.display())]);
            // One more listener, which the program binds itself.
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
        assert!(path.exists(), "the program removed the socket of systemd");
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn unusable_socket_of_systemd_fails_the_start() {
    let dir = site(&[("index.html", "home")]);
    // The client has another port than the socket of systemd, because it has its port first.
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).unwrap();
    let temp = readable_dir();
    let path = temp.path().join("socket");
    let datagrams =
        ["systemd-socket-activate".to_owned(), "--datagram".into(), "-l".into(), address.to_string()];
    let streams = ["systemd-socket-activate".to_owned(), "-l".into(), path.display().to_string()];
    #[rustfmt::skip]
    let cases: [(&[String], String); 2] = [
        (&streams, format!(
            "tarpon: cannot ignore the systemd socket at unix:{}: no listener of the configuration uses it, and its clients would \
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
        wait_for("the program exits", || {
            // A client starts the program.
            match is_stream {
                true => drop(UnixStream::connect(&path)),
                false => drop(client.send_to(b"x", address)),
            }
            has_exited(program.pid()).then_some(())
        });
        let ended = program.wait();
        assert!(ended.err.lines().any(|line| line == want), "{want}: {ended:?}");
        assert_eq!(ended.status.code(), Some(1));
    }
}

#[test]
fn restarts_by_systemd_fail_no_request_and_reset_no_connection() {
    let dir = site(&[("index.html", "home")]);
    for &engine in ENGINES {
        // systemd holds the listener all the time.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let start = || {
            let command = serving(dir.path(), &["--engine", engine.name()]);
            RunningProgram::start_with_listener(&command, &listener)
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

/// A socket unit with `ListenStream=80` has one socket for IPv6 and IPv4.
#[test]
fn socket_of_systemd_for_both_families_fits_a_port() {
    let Ok(listener) = TcpListener::bind("[::]:0") else { return println!("skipped: this host has no IPv6") };
    let port = listener.local_addr().unwrap().port();
    let dir = site(&[("index.html", "home")]);
    let command = serving(dir.path(), &["--listen", &port.to_string()]);
    let program = RunningProgram::start_with_listener(&command, &listener);
    wait_for("the banner", || program.out().contains("Ctrl-C").then_some(()));
    assert_eq!(program.addresses(), [listener.local_addr().unwrap()]);
    for address in [format!("127.0.0.1:{port}"), format!("[::1]:{port}")] {
        assert_eq!(TestClient::connect(address.parse().unwrap()).get("/").content, b"home", "{address}");
    }
}

/// Returns a `tarpon serve` without a listener.
fn serving(dir: &Path, options: &[&str]) -> Command {
    let mut command = tarpon(["serve".as_ref(), dir.as_os_str()]);
    command.args(["--admin", "off", "--log-format", "human"]).args(options);
    command
}
