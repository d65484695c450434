//! The addresses of `--listen` and `[[listener]]`: ports at several addresses, and the permissions of Unix sockets.

use crate::common::{
    client::TestClient,
    port::ReservedPort,
    program::{RunningProgram, UpgradedProgram, has_exited, serve, tarpon, wrap_command},
    readable_dir, site, wait_for,
};
use rustix::process::Signal;
use std::{
    fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Command,
};
use tarpon::{Address, Listener, Server, Settings, Site, SocketAccess};

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

/// The mode, the user and the group of a file.
type Permissions = (u32, u32, u32);

/// A site with one Unix socket, and a configuration that sets its permissions.
struct UnixConfig {
    dir: tempfile::TempDir,
    socket: PathBuf,
}

impl UnixConfig {
    fn new() -> UnixConfig {
        let dir = readable_dir();
        fs::create_dir(dir.path().join("public")).expect("a directory");
        fs::write(dir.path().join("public/index.html"), "home").expect("a file");
        let socket = dir.path().join("http.sock");
        UnixConfig { dir, socket }
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("tarpon.toml")
    }

    fn write(&self, options: &str) {
        let text = format!(
            "[[site]]\npath = \"public\"\n[[listener]]\naddress = \"unix:http.sock\"\n{options}\n[server]\nadmin = \"off\"\n\
             [log]\nlog-format = \"human\"\n"
        );
        fs::write(self.file(), text).expect("a file");
    }

    fn command(&self) -> Command {
        let mut command = tarpon(["serve", "--config"].map(AsRef::as_ref));
        command.arg(self.file());
        command
    }

    /// Returns the mode, the user and the group of the socket.
    fn permissions(&self) -> Permissions {
        let meta = fs::symlink_metadata(&self.socket).expect("a socket");
        (meta.mode() & 0o7777, meta.uid(), meta.gid())
    }

    /// Returns whether this user, with the user's groups, gets the page.
    fn admits(&self, user: &str) -> bool {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--unix-socket"]).arg(&self.socket).arg("http://localhost/");
        let ended =
            wrap_command(&["setpriv", "--reuid", user, "--regid", user, "--init-groups"], &curl).output();
        let ended = ended.expect("setpriv");
        // CURLE_COULDNT_CONNECT
        assert!([Some(0), Some(7)].contains(&ended.status.code()), "{user}: {ended:?}");
        ended.stdout == b"home"
    }
}

/// Returns the number of a user, whose group has the same name.
fn user_number(name: &str) -> (u32, u32) {
    let passwd = fs::read_to_string("/etc/passwd").expect("users");
    let line = passwd.lines().find(|line| line.starts_with(&format!("{name}:"))).expect(name);
    let mut fields = line.split(':').skip(2).map(|number| number.parse().expect("a number"));
    (fields.next().expect("a user"), fields.next().expect("a group"))
}

#[test]
fn unix_socket_admits_its_owner_and_its_group_only() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root can give a socket to another user");
    }
    let (other, third) = ("daemon", "bin");
    let (uid, gid) = user_number(other);
    let config = UnixConfig::new();
    let (owner_number, group_number) = (format!("owner = \"{uid}\""), format!("group = \"{gid}\""));
    #[rustfmt::skip]
    let cases: &[(&str, Permissions, bool, bool)] = &[
        // options                                         permissions        daemon  bin
        ("",                                               (0o660, 0, 0),     false,  false),
        ("group = \"daemon\"",                             (0o660, 0, gid),   true,   false),
        ("group = \"daemon\"\nmode = \"0600\"",            (0o600, 0, gid),   false,  false),
        ("owner = \"daemon\"\nmode = \"0600\"",            (0o600, uid, 0),   true,   false),
        ("mode = \"0666\"",                                (0o666, 0, 0),     true,   true),
        (&owner_number,                                    (0o660, uid, 0),   true,   false),
        (&group_number,                                    (0o660, 0, gid),   true,   false),
        ("mode = \"0660\"",                                (0o660, 0, 0),     false,  false),
    ];
    // Once at the start, whatever the umask, and once at a reload.
    for umask in ["0", "777"] {
        let (options, permissions, ..) = cases[1];
        config.write(options);
        let shell = format!("umask {umask}; exec \"$@\"");
        let program =
            RunningProgram::start_ready(wrap_command(&["bash", "-c", &shell, "bash"], &config.command()));
        assert_eq!(config.permissions(), permissions, "umask {umask}");
        assert!(config.admits(other) && !config.admits(third), "umask {umask}");
        program.signal(Signal::TERM);
        assert!(program.wait().status.success() && !config.socket.exists());
    }
    config.write("");
    let program = RunningProgram::start_ready(config.command());
    for (number, &(options, permissions, admits_other, admits_third)) in cases.iter().enumerate() {
        config.write(options);
        program.signal(Signal::HUP);
        wait_for("a reload", || (program.out().matches("\nreloaded\n").count() == number + 1).then_some(()));
        assert_eq!(config.permissions(), permissions, "{options}");
        assert_eq!((config.admits(other), config.admits(third)), (admits_other, admits_third), "{options}");
        assert_eq!(TestClient::connect_unix(&config.socket).get("/").content, b"home", "{options}");
    }
    for (options, why) in [
        ("owner = \"no-such-user\"", "the user does not exist"),
        ("group = \"no-such\"", "the group does not exist"),
    ] {
        let before = program.err().len();
        config.write(options);
        program.signal(Signal::HUP);
        wait_for(why, || program.err()[before..].contains("still serving the previous").then_some(()));
        assert!(program.err()[before..].contains(why), "{}", program.err());
        assert_eq!(config.permissions(), cases[7].1, "{options}");
    }
}

#[test]
fn socket_for_an_unknown_or_foreign_user_fails_the_start() {
    let config = UnixConfig::new();
    let is_root = rustix::process::geteuid().is_root();
    #[rustfmt::skip]
    let cases = [
        ("owner = \"no-such-user\"", false,
            "cannot use owner = \"no-such-user\" of a listener: the user does not exist; create it, as with useradd --system no-such-user, or name another"),
        ("group = \"no-such\"",      false,
            "cannot use group = \"no-such\" of a listener: the group does not exist; create it, as with groupadd --system no-such, or name another"),
        ("owner = \"root\"",         true,
            "operation not permitted; name the user that starts tarpon and one of its groups, or start tarpon as root"),
        ("group = \"root\"",         true,
            "operation not permitted; name the user that starts tarpon and one of its groups, or start tarpon as root"),
    ];
    for (options, is_for_another, why) in cases {
        if is_for_another && is_root {
            // Another user may bind in the directory.
            rustix::fs::chmod(config.dir.path(), rustix::fs::Mode::from_raw_mode(0o777))
                .expect("a directory");
        }
        config.write(options);
        let wrapper: &[&str] = match is_for_another && is_root {
            true => &["setpriv", "--reuid", "daemon", "--regid", "daemon", "--clear-groups"],
            false => &["env"],
        };
        let ended = RunningProgram::run(wrap_command(wrapper, &config.command()));
        assert_eq!(ended.status.code(), Some(1), "{options}: {ended:?}");
        assert!(ended.err.contains(why), "{options}: {ended:?}");
        assert!(!config.socket.exists(), "{options}");
    }
}

#[test]
fn embedding_program_sets_the_permissions_of_a_socket() {
    let dir = site(&[("index.html", "home")]);
    let path = dir.path().join("http.sock");
    let mode = |path: &Path| fs::symlink_metadata(path).expect("a socket").mode() & 0o7777;
    let address = Address::Unix(path.clone());
    for (access, want) in [
        (SocketAccess::default(), 0o660),
        (SocketAccess { mode: 0o606, ..SocketAccess::default() }, 0o606),
        (
            SocketAccess {
                owner: Some(rustix::process::geteuid().as_raw().to_string()),
                ..SocketAccess::default()
            },
            0o660,
        ),
    ] {
        let listener = Listener::with_access(&address, 1, &access).expect("a listener");
        assert_eq!(mode(&path), want, "{access:?}");
        let server =
            Server::start(&Settings::default(), vec![listener], Site::from_dir(dir.path()).expect("a site"));
        let server = server.expect("a server");
        assert_eq!(TestClient::connect_unix(&path).get("/").content, b"home");
        drop(server);
    }
    let unknown = SocketAccess { group: Some("no-such".to_owned()), ..SocketAccess::default() };
    let error = Listener::with_access(&address, 1, &unknown).expect_err("no such group");
    assert!(error.to_string().contains("the group does not exist"), "{error}");
}
