//! The banner, the listeners and start errors.

use super::ENGINE;
use super::{serve, serve_exactly};
use crate::common::{
    client::{TestClient, get},
    port::ReservedPort,
    program::{RunningProgram, tarpon, unprivileged, wrap_command},
    readable_dir, site, wait_for, write_files,
};
use rustix::{
    fs::{CWD, FileType, Mode, mknodat},
    process::{Signal, geteuid},
};
use std::{
    fs,
    net::{SocketAddr, TcpListener},
    os::unix::{
        fs::PermissionsExt,
        net::{UnixListener, UnixStream},
    },
    path::Path,
    process::ExitStatus,
};

#[test]
fn banner_shows_site_addresses_engine_and_workers() {
    let dir = site(&[("index.html", vec![b'x'; 1024]), ("dir/page.html", vec![b'y'; 512])]);
    let program = RunningProgram::start_ready(serve_exactly(dir.path(), &["--workers", "3"]));
    let (address, version) = (program.address(), env!("CARGO_PKG_VERSION"));
    assert_ne!(address.port(), 0);
    let want = format!(
        "tarpon {version} serves {}: 2 files, 1.5 KiB\n  http://{address}/\n{ENGINE}, 3 workers; press Ctrl-C to stop\n",
        dir.path().display()
    );
    let banner = program.out();
    // The sandbox line depends on the kernel.
    let (sandbox, others): (Vec<_>, Vec<_>) =
        banner.split_inclusive('\n').partition(|line| line.starts_with("sandbox: "));
    // No colour, because a pipe is not a terminal.
    assert_eq!((sandbox.len(), others.concat()), (1, want));
    assert_eq!(program.err(), "");
    assert_eq!(TestClient::connect(address).get("/").content, [b'x'; 1024]);
}

#[test]
fn banner_uses_the_singular() {
    let dir = site(&[("a", "x")]);
    let program = RunningProgram::start_ready(serve_exactly(dir.path(), &["--workers", "1"]));
    assert!(program.out().contains(": 1 file, 1 byte\n"), "{}", program.out());
    assert!(program.out().contains(&format!("{ENGINE}, 1 worker;")), "{}", program.out());
}

#[test]
fn port_is_one_of_the_loopback_addresses() {
    let dir = site(&[("index.html", "home")]);
    let port = ReservedPort::new().address.port();
    let mut command = tarpon(["serve".as_ref(), dir.path().as_os_str()]);
    command.args(["--port", &port.to_string(), "--engine", ENGINE.name(), "--admin", "off"]);
    let program = RunningProgram::start_ready(command);
    assert_eq!(TestClient::connect(([127, 0, 0, 1], port).into()).get("/").content, b"home");
    assert!(program.out().contains(&format!("http://127.0.0.1:{port}/")), "{}", program.out());
    assert!(!program.out().contains(&format!("0.0.0.0:{port}")), "{}", program.out());
}

#[test]
fn low_port_without_rights_names_what_gives_them() {
    let lowest = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").unwrap_or_default();
    // Every user may use the port, as in some containers.
    if lowest.trim().parse::<u16>().map_or(true, |lowest| lowest <= 80) {
        return;
    }
    let dir = site(&[("index.html", "home")]);
    let command = serve_exactly(dir.path(), &["--port", "80", "--user", "root"]);
    let command = match geteuid().is_root() {
        true => wrap_command(
            &["setpriv", "--inh-caps", "-net_bind_service", "--bounding-set", "-net_bind_service"],
            &command,
        ),
        false => serve_exactly(dir.path(), &["--port", "80"]),
    };
    let ended = RunningProgram::run(command);
    let error = ended.error_line();
    for words in
        ["permission denied", "setcap cap_net_bind_service=+ep /", "/tarpon,", "tarpon.service", "1024"]
    {
        assert!(error.contains(words), "{words}: {error}");
    }
}

#[test]
fn share_of_files_that_are_cached_for_a_year_is_shown() {
    let dir = site(&[("index.html", "home"), ("assets/app-BfqgZQ3x.js", "a"), ("assets/app.1x.js", "b")]);
    let shown = |options: &[&str]| {
        let program = RunningProgram::start_ready(serve(dir.path(), options));
        let get = |target| {
            let response = TestClient::connect(program.address()).get(target);
            response.field("Cache-Control").map(|value| value.contains("immutable"))
        };
        let immutable =
            ["/", "/assets/app-BfqgZQ3x.js", "/assets/app.1x.js"].map(|target| get(target) == Some(true));
        let line =
            program.out().lines().find(|line| line.starts_with("cached for a year")).map(str::to_owned);
        (immutable, line)
    };
    let line =
        |count| Some(format!("cached for a year: {count} of 3 files, by a hash in the name or --immutable"));
    assert_eq!(shown(&[]), ([false, true, false], line(1)));
    assert_eq!(shown(&["--immutable", "/assets/*"]), ([false, true, true], line(2)));
    assert_eq!(shown(&["--immutable", "app.??.js"]), ([false, true, true], line(2)));
    let ended = RunningProgram::run(serve(dir.path(), &["--immutable", "/assets/{js"]));
    assert!(
        ended.err.contains("expected a glob whose braces are closed, such as /assets/**"),
        "{}",
        ended.err
    );
}

#[test]
fn default_directory_is_the_working_directory() {
    let dir = site(&[("index.html", "here")]);
    let mut command = tarpon(["serve", "--listen", "127.0.0.1:0"].map(AsRef::as_ref));
    command.current_dir(dir.path());
    let program = RunningProgram::start_ready(command);
    assert!(program.out().contains(" serves .: 1 file, 4 bytes"), "{}", program.out());
    assert_eq!(TestClient::connect(program.address()).get("/").content, b"here");
}

#[test]
fn unreadable_directory_fails_with_a_hint() {
    let dir = site(&[("file", ""), ("site/index.html", ""), ("site/closed", "")]);
    let at = |name: &str| dir.path().join(name);
    fs::set_permissions(at("site/closed"), fs::Permissions::from_mode(0o000)).unwrap();
    // Started as root, the server runs as another user, which the message names.
    let denied = match geteuid().is_root() {
        true => {
            "cannot read {}/site/closed: user nobody may not read {}/site/closed (owned by root, mode 0000); let it, as with \
                 chmod o+r {}/site/closed, or move that out of the site"
        }
        false => {
            "cannot read {}/site/closed: permission denied by {}/site/closed (owned by user number UID, mode 0000); make it \
                  readable, or move it out of the site"
        }
    };
    let denied = &*denied.replace("UID", &geteuid().as_raw().to_string());
    #[rustfmt::skip]
    let cases = [
        ("missing", "cannot serve {}/missing: it does not exist; name a directory or tar archive, as in tarpon serve DIR"),
        ("file",    "cannot read {}/file: not a tar archive, at byte 0; name a directory or a tar archive"),
        ("site",    denied),
    ];
    for (name, want) in cases {
        let ended = RunningProgram::run(unprivileged(&serve(&at(name), &["--strict"])));
        assert_eq!(ended.status.code(), Some(1), "{name}");
        let want = format!("tarpon: {}", want.replace("{}", &dir.path().display().to_string()));
        assert_eq!((ended.error_line(), ended.out.as_str()), (want.as_str(), ""), "{name}");
    }
}

#[test]
fn unavailable_address_fails_with_a_hint() {
    let dir = site(&[("index.html", "")]);
    let plain = TcpListener::bind("127.0.0.1:0").unwrap();
    let another = RunningProgram::start_ready(serve(dir.path(), &[]));
    let temp = site(&[("file", "")]);
    let live = temp.path().join("live.sock");
    let _live = UnixListener::bind(&live).unwrap();
    let file = temp.path().join("file");
    #[rustfmt::skip]
    let cases = [
        (plain.local_addr().unwrap().to_string(), "address already in use; stop the server that listens there, or choose another with --listen ADDR:PORT"),
        // With SO_REUSEPORT, the kernel would let both servers bind the port.
        (another.address().to_string(),           "address already in use; stop the server that listens there, or choose another with --listen ADDR:PORT"),
        (format!("unix:{}", live.display()),      "address already in use; stop the server that listens there, or choose another with --listen unix:PATH"),
        ("192.0.2.1:0".to_owned(),                "cannot assign requested address; name an address of this host, such as 127.0.0.1 or 0.0.0.0 for all of them"),
        (format!("unix:/{}", "x".repeat(200)),    "file name too long; choose another address with --listen ADDR:PORT or --listen unix:PATH"),
        ("unix:/nowhere/at/all.sock".to_owned(),  "no such file or directory; create the directory of the socket first"),
    ];
    for (address, want) in cases {
        let ended = RunningProgram::run(serve(dir.path(), &["--listen", &address]));
        assert_eq!(ended.status.code(), Some(1), "{address}");
        assert_eq!(ended.error_line(), format!("tarpon: cannot listen on {address}: {want}"));
        assert_eq!(ended.out, "", "{address}");
    }
    // The server must not replace a regular file.
    let address = format!("unix:{}", file.display());
    let ended = RunningProgram::run(serve(dir.path(), &["--listen", &address]));
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.error_line().contains("address already in use"), "{ended:?}");
    assert_eq!(fs::read(file).unwrap(), b"", "the file still exists");
    assert_eq!(TestClient::connect(another.address()).get("/").status, 200);
}

#[test]
fn invalid_option_fails_with_a_hint() {
    let dir = site(&[("index.html", "")]);
    #[rustfmt::skip]
    let cases = [
        ("--listen",              "localhost",  "expected a port, an address and a port, localhost:PORT, or unix:PATH, such as 127.0.0.1:8080"),
        ("--listen",              "a.org:80",   "expected an address of this host in place of a name: hosts in [[site]] selects sites by name"),
        ("--listen",              "unix:",      "expected a port, an address and a port, localhost:PORT, or unix:PATH"),
        ("--workers",             "0",          "expected a number from 1 to 1024"),
        ("--workers",             "1025",       "expected a number from 1 to 1024"),
        ("--workers",             "many",       "expected a number from 1 to 1024"),
        ("--header-timeout",      "0",          "expected a time from 1ms to 1d, such as 1m30s"),
        ("--head-timeout",        "5",          "it is now called --header-timeout"),
        ("--no-pin",              ".",          "it is now called --no-cpu-affinity"),
        ("--header-timeout",      "-1",         "unexpected argument '-1' found"),
        ("--header-timeout",      "nan",        "expected a time from 1ms to 1d"),
        ("--idle-timeout",        "1e9",        "expected a time from 1ms to 1d"),
        ("--send-timeout",        "5 parsecs",  "expected a time from 1ms to 1d"),
        ("--body-timeout",        "",           "expected a time from 1ms to 1d"),
        ("--min-send-rate",       "1k",         "expected a size from 0 to 1GiB, such as 4KiB"),
        ("--keepalive-requests",  "0",          "expected a number from 1 to 4294967295, such as 1000"),
        ("--keep-releases",       "101",        "expected a number from 0 to 100, such as 3"),
        ("--cors",                "fonts",      "expected a path that begins with /, such as /fonts"),
        ("--engine",              "iocp",       "[possible values: auto, io_uring, epoll, kqueue, poll, threads, prefork, fork]"),
        ("--grace-period",        "soon",       "expected a time from 1ms to 1d"),
    ];
    for (option, value, want) in cases {
        let ended = RunningProgram::run(serve_exactly(dir.path(), &[option, value]));
        assert_eq!(ended.status.code(), Some(2), "{option} {value}: {ended:?}");
        assert!(ended.err.contains(want), "{option} {value}: {ended:?}");
    }
}

#[test]
fn each_kind_of_skipped_file_gets_one_warning() {
    let dir = site(&[("index.html", ""), (".env", ""), (".git/config", ""), (".well-known/x", "")]);
    mknodat(CWD, dir.path().join("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", dir.path().join("out")).unwrap();
    let program = RunningProgram::start_ready(serve(dir.path(), &[]));
    let want = "warning: skipped 2 dotfiles, such as .env\n\
                warning: skipped 1 FIFO, socket or device: pipe\n\
                warning: skipped 1 symbolic link out of the site: out, which leads to /etc/hostname; --follow-links /etc would allow it\n";
    program.wait_for_err(want);
    assert!(program.out().contains("2 files, 0 bytes"), "{}", program.out());
}

#[test]
fn server_listens_on_every_address() {
    let dir = site(&[("index.html", "home")]);
    let temp = readable_dir();
    let socket = temp.path().join("tarpon.sock");
    let unix = format!("unix:{}", socket.display());
    let mut hosts = vec!["127.0.0.1", "127.0.0.2"];
    // A host may lack IPv6.
    hosts.extend(TcpListener::bind("[::1]:0").is_ok().then_some("[::1]"));
    let addresses: Vec<String> = hosts.iter().map(|host| format!("{host}:0")).chain([unix.clone()]).collect();
    let options: Vec<&str> = addresses.iter().flat_map(|address| ["--listen", address]).collect();
    let program = RunningProgram::start_ready(serve(dir.path(), &options));
    let bound: Vec<String> = program.addresses().iter().map(SocketAddr::to_string).collect();
    assert_eq!(bound.len(), hosts.len());
    for (bound, host) in bound.iter().zip(hosts) {
        assert!(bound.starts_with(host), "{bound}");
    }
    assert!(program.out().contains(&format!("\n  {unix}\n")), "{}", program.out());
    for address in program.addresses() {
        assert_eq!(TestClient::connect(address).get("/").content, b"home", "{address}");
    }
    assert_eq!(TestClient::connect_unix(&socket).get("/").content, b"home");
}

#[test]
fn several_workers_serve_on_a_port_and_a_unix_socket() {
    let dir = site(&[("index.html", "home")]);
    let temp = readable_dir();
    let socket = temp.path().join("tarpon.sock");
    let unix = format!("unix:{}", socket.display());
    let program = RunningProgram::start_ready(serve(
        dir.path(),
        &["--workers", "4", "--listen", "127.0.0.1:0", "--listen", &unix],
    ));
    let mut clients: Vec<TestClient> = (0..25)
        .flat_map(|_| [TestClient::connect(program.address()), TestClient::connect_unix(&socket)])
        .collect();
    for client in &mut clients {
        assert_eq!(client.get("/").content, b"home");
    }
}

#[test]
fn stale_unix_socket_is_replaced_and_removed_on_exit() {
    let dir = site(&[("index.html", "home")]);
    let temp = readable_dir();
    let socket = temp.path().join("tarpon.sock");
    drop(UnixListener::bind(&socket).unwrap());
    assert!(socket.exists(), "a stale socket");
    let program =
        RunningProgram::start_ready(serve(dir.path(), &["--listen", &format!("unix:{}", socket.display())]));
    assert_eq!(TestClient::connect_unix(&socket).get("/").content, b"home");
    program.signal(Signal::TERM);
    assert_eq!(program.wait().status, ExitStatus::default());
    assert!(!socket.exists());
}

#[test]
fn unix_socket_of_a_successor_is_not_removed() {
    let dir = site(&[("index.html", "home")]);
    let temp = readable_dir();
    let socket = temp.path().join("tarpon.sock");
    let unix = format!("unix:{}", socket.display());
    // An open connection on the Unix socket keeps the kernel from reusing its inode; a TCP connection does not.
    for drains_unix_socket in [true, false] {
        let options =
            ["--listen", &unix, "--listen", "127.0.0.1:0", "--grace-period", "3600", "--workers", "1"];
        let first = RunningProgram::start_ready(serve(dir.path(), &options));
        let mut client = match drains_unix_socket {
            true => TestClient::connect_unix(&socket),
            false => TestClient::connect(first.address()),
        };
        let head = get("/");
        let (start, rest) = head.split_at(10);
        client.send(start);
        first.signal(Signal::TERM);
        wait_for("the socket is closed", || UnixStream::connect(&socket).is_err().then_some(()));
        let second = RunningProgram::start_ready(serve(dir.path(), &["--listen", &unix]));
        client.send(rest);
        assert_eq!(client.response().content, b"home");
        assert_eq!(first.wait().status, ExitStatus::default());
        assert_eq!(TestClient::connect_unix(&socket).get("/").content, b"home", "{drains_unix_socket}");
        second.signal(Signal::TERM);
        assert_eq!(second.wait().status, ExitStatus::default());
        assert!(!socket.exists(), "{drains_unix_socket}");
    }
}

#[test]
fn failed_start_leaves_no_unix_socket() {
    let temp = readable_dir();
    let socket = temp.path().join("tarpon.sock");
    let ended = RunningProgram::run(serve(
        Path::new("/nowhere"),
        &["--listen", &format!("unix:{}", socket.display())],
    ));
    assert_eq!(ended.status.code(), Some(1));
    assert!(!socket.exists());
}

#[test]
fn port_is_free_right_after_the_exit() {
    let dir = site(&[("index.html", "home")]);
    let first = RunningProgram::start_ready(serve(dir.path(), &[]));
    let address: SocketAddr = first.address();
    // The server closes first, so its side of the connection stays in TIME-WAIT.
    let mut client = TestClient::connect(address);
    client.send("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(client.response().status, 200);
    assert_eq!(client.read_to_end(), b"");
    first.signal(Signal::TERM);
    assert_eq!(first.wait().status, ExitStatus::default());
    write_files(dir.path(), &[("index.html", "again")]);
    let second = RunningProgram::start_ready(serve(dir.path(), &["--listen", &address.to_string()]));
    assert_eq!(TestClient::connect(second.address()).get("/").content, b"again");
}

#[test]
fn help_and_version_are_printed() {
    let version = RunningProgram::run(tarpon(["--version".as_ref()]));
    assert_eq!(version.out, format!("tarpon {}\n", env!("CARGO_PKG_VERSION")));
    let help = RunningProgram::run(tarpon(["serve".as_ref(), "--help".as_ref()]));
    let options = "--listen --workers --cpu-affinity --header-timeout --body-timeout --idle-timeout --send-timeout \
        --min-send-rate --keepalive-requests --grace-period";
    for option in options.split(' ') {
        assert!(help.out.contains(option), "{option}");
    }
    let nothing = RunningProgram::run(tarpon([]));
    assert_eq!(nothing.status.code(), Some(2));
    assert!(nothing.err.contains("Usage: tarpon"), "{nothing:?}");
}
