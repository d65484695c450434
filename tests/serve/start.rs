//! What the program says, where it listens, and why it refuses to begin.

use super::{exactly, serve};
use crate::ENGINE;
use crate::common::{
    client::{Client, get},
    program::{Program, tarpon, unprivileged},
    site, wait_for, write_files,
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
fn the_banner_says_what_is_served_where_and_how() {
    let dir = site(&[("index.html", vec![b'x'; 1024]), ("dir/page.html", vec![b'y'; 512])]);
    let program = Program::started(exactly(dir.path(), &["--workers", "3"]));
    let (address, version) = (program.address(), env!("CARGO_PKG_VERSION"));
    assert_ne!(address.port(), 0);
    let want = format!(
        "tarpon {version} serves {}: 2 files, 1.5 KiB\n  http://{address}/\n{ENGINE}, 3 workers; press Ctrl-C to stop\n",
        dir.path().display()
    );
    let said = program.out();
    // What there is of a sandbox, the host decides.
    let (sandbox, others): (Vec<_>, Vec<_>) =
        said.split_inclusive('\n').partition(|line| line.starts_with("sandbox: "));
    // No colour: a pipe is no terminal.
    assert_eq!((sandbox.len(), others.concat()), (1, want));
    assert_eq!(program.err(), "");
    assert_eq!(Client::connect(address).get("/").content, [b'x'; 1024]);
}

#[test]
fn the_banner_counts_in_the_singular_too() {
    let dir = site(&[("a", "x")]);
    let program = Program::started(exactly(dir.path(), &["--workers", "1"]));
    assert!(program.out().contains(": 1 file, 1 byte\n"), "{}", program.out());
    assert!(program.out().contains(&format!("{ENGINE}, 1 worker;")), "{}", program.out());
}

#[test]
fn without_a_directory_it_serves_where_it_is() {
    let dir = site(&[("index.html", "here")]);
    let mut command = tarpon(["serve", "--listen", "127.0.0.1:0"].map(AsRef::as_ref));
    command.current_dir(dir.path());
    let program = Program::started(command);
    assert!(program.out().contains(" serves .: 1 file, 4 bytes"), "{}", program.out());
    assert_eq!(Client::connect(program.address()).get("/").content, b"here");
}

#[test]
fn a_directory_it_cannot_serve_is_told_with_a_remedy() {
    let dir = site(&[("file", ""), ("site/index.html", ""), ("site/closed", "")]);
    let at = |name: &str| dir.path().join(name);
    fs::set_permissions(at("site/closed"), fs::Permissions::from_mode(0o000)).unwrap();
    // Root becomes another user, which is named.
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
        ("file",    "cannot read {}/file: it is no tar archive, at byte 0; name a directory or a tar archive"),
        ("site",    denied),
    ];
    for (name, want) in cases {
        let ended = Program::run(unprivileged(&serve(&at(name), &[])));
        assert_eq!(ended.status.code(), Some(1), "{name}");
        let want = format!("tarpon: {}", want.replace("{}", &dir.path().display().to_string()));
        assert_eq!((ended.error_line(), ended.out.as_str()), (want.as_str(), ""), "{name}");
    }
}

#[test]
fn an_address_it_cannot_have_is_told_with_a_remedy() {
    let dir = site(&[("index.html", "")]);
    let plain = TcpListener::bind("127.0.0.1:0").unwrap();
    let another = Program::started(serve(dir.path(), &[]));
    let live = dir.path().join("live.sock");
    let _live = UnixListener::bind(&live).unwrap();
    let file = dir.path().join("index.html");
    #[rustfmt::skip]
    let cases = [
        (plain.local_addr().unwrap().to_string(), "address already in use; stop the server that listens there, or choose another with --listen ADDR:PORT"),
        // With SO_REUSEPORT the kernel would let both have it.
        (another.address().to_string(),           "address already in use; stop the server that listens there, or choose another with --listen ADDR:PORT"),
        (format!("unix:{}", live.display()),      "address already in use; stop the server that listens there, or choose another with --listen ADDR:PORT"),
        ("192.0.2.1:0".to_owned(),                "cannot assign requested address; name an address of this host, such as 127.0.0.1 or 0.0.0.0 for all of them"),
        (format!("unix:/{}", "x".repeat(200)),    "file name too long; choose another with --listen ADDR:PORT or --listen unix:PATH"),
        ("unix:/nowhere/at/all.sock".to_owned(),  "no such file or directory; make the directory of the socket first"),
    ];
    for (address, want) in cases {
        let ended = Program::run(serve(dir.path(), &["--listen", &address]));
        assert_eq!(ended.status.code(), Some(1), "{address}");
        assert_eq!(ended.error_line(), format!("tarpon: cannot listen on {address}: {want}"));
        assert_eq!(ended.out, "", "{address}");
    }
    // What is no socket is nobody's leftover.
    let address = format!("unix:{}", file.display());
    let ended = Program::run(serve(dir.path(), &["--listen", &address]));
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.error_line().contains("address already in use"), "{ended:?}");
    assert_eq!(fs::read(file).unwrap(), b"", "it is still there");
    assert_eq!(Client::connect(another.address()).get("/").status, 200);
}

#[test]
fn an_option_it_does_not_understand_is_told() {
    let dir = site(&[("index.html", "")]);
    #[rustfmt::skip]
    let cases = [
        ("--listen",              "localhost",  "expected an address and a port, or unix:PATH, such as 127.0.0.1:8080"),
        ("--listen",              "8080",       "expected an address and a port, or unix:PATH, such as 127.0.0.1:8080"),
        ("--listen",              "unix:",      "expected an address and a port, or unix:PATH"),
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
        let ended = Program::run(exactly(dir.path(), &[option, value]));
        assert_eq!(ended.status.code(), Some(2), "{option} {value}: {ended:?}");
        assert!(ended.err.contains(want), "{option} {value}: {ended:?}");
    }
}

#[test]
fn there_is_one_warning_for_each_kind_of_thing_that_is_not_served() {
    let dir = site(&[("index.html", ""), (".env", ""), (".git/config", ""), (".well-known/x", "")]);
    mknodat(CWD, dir.path().join("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", dir.path().join("out")).unwrap();
    let program = Program::started(serve(dir.path(), &[]));
    let want = "warning: skipped 2 dotfiles, such as .env\n\
                warning: skipped 1 FIFO, socket or device: pipe\n\
                warning: skipped 1 symbolic link out of the site: out\n";
    program.wait_for_err(want);
    assert!(program.out().contains("2 files, 0 bytes"), "{}", program.out());
}

#[test]
fn it_listens_at_every_address_it_is_told() {
    let dir = site(&[("index.html", "home")]);
    let socket = dir.path().join("tarpon.sock");
    let unix = format!("unix:{}", socket.display());
    let mut hosts = vec!["127.0.0.1", "127.0.0.2"];
    // Not every host has IPv6.
    hosts.extend(TcpListener::bind("[::1]:0").is_ok().then_some("[::1]"));
    let addresses: Vec<String> = hosts.iter().map(|host| format!("{host}:0")).chain([unix.clone()]).collect();
    let options: Vec<&str> = addresses.iter().flat_map(|address| ["--listen", address]).collect();
    let program = Program::started(serve(dir.path(), &options));
    let told: Vec<String> = program.addresses().iter().map(SocketAddr::to_string).collect();
    assert_eq!(told.len(), hosts.len());
    for (told, host) in told.iter().zip(hosts) {
        assert!(told.starts_with(host), "{told}");
    }
    assert!(program.out().contains(&format!("\n  {unix}\n")), "{}", program.out());
    for address in program.addresses() {
        assert_eq!(Client::connect(address).get("/").content, b"home", "{address}");
    }
    assert_eq!(Client::connect_unix(&socket).get("/").content, b"home");
}

#[test]
fn each_of_several_workers_serves_on_a_port_and_on_a_unix_socket() {
    let dir = site(&[("index.html", "home")]);
    let socket = dir.path().join("tarpon.sock");
    let unix = format!("unix:{}", socket.display());
    let program = Program::started(serve(
        dir.path(),
        &["--workers", "4", "--listen", "127.0.0.1:0", "--listen", &unix],
    ));
    let mut clients: Vec<Client> =
        (0..25).flat_map(|_| [Client::connect(program.address()), Client::connect_unix(&socket)]).collect();
    for client in &mut clients {
        assert_eq!(client.get("/").content, b"home");
    }
}

#[test]
fn a_unix_socket_that_nobody_listens_to_is_taken_over_and_removed_at_the_end() {
    let dir = site(&[("index.html", "home")]);
    let socket = dir.path().join("tarpon.sock");
    drop(UnixListener::bind(&socket).unwrap());
    assert!(socket.exists(), "left behind");
    let program = Program::started(serve(dir.path(), &["--listen", &format!("unix:{}", socket.display())]));
    assert_eq!(Client::connect_unix(&socket).get("/").content, b"home");
    program.signal(Signal::TERM);
    assert_eq!(program.ended().status, ExitStatus::default());
    assert!(!socket.exists());
}

#[test]
fn a_unix_socket_that_a_successor_has_taken_over_is_left_to_it() {
    let dir = site(&[("index.html", "home")]);
    let socket = dir.path().join("tarpon.sock");
    let unix = format!("unix:{}", socket.display());
    // A connection at the socket keeps its inode from being given to the next; one elsewhere does not.
    for drains_at_socket in [true, false] {
        let options =
            ["--listen", &unix, "--listen", "127.0.0.1:0", "--grace-period", "3600", "--workers", "1"];
        let first = Program::started(serve(dir.path(), &options));
        let mut client = match drains_at_socket {
            true => Client::connect_unix(&socket),
            false => Client::connect(first.address()),
        };
        let head = get("/");
        let (begun, rest) = head.split_at(10);
        client.send(begun);
        first.signal(Signal::TERM);
        wait_for("no new client is taken", || UnixStream::connect(&socket).is_err().then_some(()));
        let second = Program::started(serve(dir.path(), &["--listen", &unix]));
        client.send(rest);
        assert_eq!(client.response().content, b"home");
        assert_eq!(first.ended().status, ExitStatus::default());
        assert_eq!(Client::connect_unix(&socket).get("/").content, b"home", "{drains_at_socket}");
        second.signal(Signal::TERM);
        assert_eq!(second.ended().status, ExitStatus::default());
        assert!(!socket.exists(), "{drains_at_socket}");
    }
}

#[test]
fn a_server_that_never_began_leaves_no_socket_behind() {
    let dir = site(&[("index.html", "home")]);
    let socket = dir.path().join("tarpon.sock");
    let ended =
        Program::run(serve(Path::new("/nowhere"), &["--listen", &format!("unix:{}", socket.display())]));
    assert_eq!(ended.status.code(), Some(1));
    assert!(!socket.exists());
}

#[test]
fn a_port_is_free_again_at_once_when_the_server_has_ended() {
    let dir = site(&[("index.html", "home")]);
    let first = Program::started(serve(dir.path(), &[]));
    let address: SocketAddr = first.address();
    // It closes first, so the connection stays in TIME-WAIT on its side.
    let mut client = Client::connect(address);
    client.send("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(client.response().status, 200);
    assert_eq!(client.rest(), b"");
    first.signal(Signal::TERM);
    assert_eq!(first.ended().status, ExitStatus::default());
    write_files(dir.path(), &[("index.html", "again")]);
    let second = Program::started(serve(dir.path(), &["--listen", &address.to_string()]));
    assert_eq!(Client::connect(second.address()).get("/").content, b"again");
}

#[test]
fn help_and_version_are_told() {
    let version = Program::run(tarpon(["--version".as_ref()]));
    assert_eq!(version.out, format!("tarpon {}\n", env!("CARGO_PKG_VERSION")));
    let help = Program::run(tarpon(["serve".as_ref(), "--help".as_ref()]));
    let options = "--listen --workers --cpu-affinity --header-timeout --body-timeout --idle-timeout --send-timeout \
        --min-send-rate --keepalive-requests --grace-period";
    for option in options.split(' ') {
        assert!(help.out.contains(option), "{option}");
    }
    let nothing = Program::run(tarpon([]));
    assert_eq!(nothing.status.code(), Some(2));
    assert!(nothing.err.contains("Usage: tarpon"), "{nothing:?}");
}
