//! Confines a process on Linux: drops capabilities, and restricts files and system calls.

mod calls;
mod files;

use super::{Confinement, Privileges, ServerNeeds};
use crate::base::error::reason;
use rustix::{
    fs::{Mode, OFlags, open},
    io::Errno,
    thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs},
};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};
use tarpon_site::Printable;

/// Confines a builder that already runs as its user: it may read these files, and everything below these directories.
///
/// # Errors
/// The host supports a restriction, but applying it failed.
pub(crate) fn confine_builder(privileges: &Privileges, roots: &[BorrowedFd<'_>]) -> io::Result<Confinement> {
    let mut confined = take_capabilities(privileges, CapabilitySet::DAC_READ_SEARCH)?;
    if privileges.is_sandboxed {
        confined.has_landlock = confined.add("Landlock", files::allow_to_read(roots))?;
        confined.has_seccomp = confined.add("seccomp", calls::allow_building())?;
    }
    Ok(confined)
}

/// Confines a server that already runs as its user, as far as its start allows. Call [`confine_running_server`] once it runs.
///
/// # Errors
/// As above.
pub(crate) fn confine_server(privileges: &Privileges, needs: ServerNeeds) -> io::Result<Confinement> {
    let mut confined = take_capabilities(privileges, CapabilitySet::empty())?;
    if privileges.is_sandboxed {
        confined.has_landlock = confined.add("Landlock", files::allow_to_read(&[]))?;
        confined.has_seccomp = confined.add("seccomp", calls::allow_starting(needs))?;
    }
    Ok(confined)
}

/// Confines a master. Its children inherit the restrictions, and add [`confine_running_server`] or [`WorkerSeccomp::confine`].
///
/// # Errors
/// As above.
pub(crate) fn confine_master(privileges: &Privileges) -> io::Result<Confinement> {
    let mut confined = take_capabilities(privileges, CapabilitySet::empty())?;
    if privileges.is_sandboxed {
        confined.has_landlock = confined.add("Landlock", files::allow_to_read(&[]))?;
        confined.has_seccomp = confined.add("seccomp", calls::allow_master())?;
    }
    Ok(confined)
}

/// Confines a helper that looks names up and connects to these TCP ports. It may read what name lookup reads.
///
/// # Errors
/// As above.
pub(crate) fn confine_net(privileges: &Privileges, ports: &[u16]) -> io::Result<Confinement> {
    let mut confined = take_capabilities(privileges, CapabilitySet::empty())?;
    if privileges.is_sandboxed {
        let opened = open_existing(&NAME_LOOKUP);
        let opened: Vec<_> = opened.iter().map(AsFd::as_fd).collect();
        confined.has_landlock =
            confined.add("Landlock", files::allow_to_read_and_connect(&opened, ports, &[]))?;
        confined.has_seccomp = confined.add("seccomp", calls::allow_connecting(false))?;
    }
    Ok(confined)
}

/// Confines a helper as [`confine_net`] does, except that it may also connect to the Unix sockets in these directories.
///
/// # Errors
/// As above.
pub(crate) fn confine_upstreams(
    privileges: &Privileges,
    ports: &[u16],
    sockets: &[PathBuf],
) -> io::Result<Confinement> {
    let mut confined = take_capabilities(privileges, CapabilitySet::empty())?;
    if privileges.is_sandboxed {
        let (opened, directories) = (open_existing(&NAME_LOOKUP), open_existing(sockets));
        let opened: Vec<_> = opened.iter().map(AsFd::as_fd).collect();
        let directories: Vec<_> = directories.iter().map(AsFd::as_fd).collect();
        let limited = files::allow_to_read_and_connect(&opened, ports, &directories);
        confined.has_landlock = confined.add("Landlock", limited)?;
        confined.has_seccomp = confined.add("seccomp", calls::allow_connecting(!sockets.is_empty()))?;
    }
    Ok(confined)
}

/// Opens those paths that exist. They are directories, as the files in them may be replaced.
fn open_existing(paths: &[impl AsRef<Path>]) -> Vec<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    paths.iter().filter_map(|path| open(path.as_ref(), flags, Mode::empty()).ok()).collect()
}

/// Confines a helper that runs programs: it has no capabilities. Returns Landlock rules for each program, if the kernel has them and the
/// configuration wants them: it reaches no process and no abstract Unix socket outside of the program.
///
/// # Errors
/// As above.
pub(crate) fn confine_cgi(privileges: &Privileges) -> io::Result<Option<OwnedFd>> {
    take_capabilities(privileges, CapabilitySet::empty())?;
    match privileges.is_sandboxed {
        true => files::scopes(),
        false => Ok(None),
    }
}

/// Where the C library reads how to look names up: resolv.conf(5), hosts(5), nsswitch.conf(5), and what these link to.
const NAME_LOOKUP: [&str; 4] = ["/etc", "/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager"];

/// The further restriction of a worker process below its master's.
#[derive(Debug)]
pub(crate) struct WorkerSeccomp(Option<calls::WorkerFilter>);

impl WorkerSeccomp {
    /// Compiles the filter of all workers, if the master has [a seccomp filter](Confinement::has_seccomp).
    ///
    /// # Errors
    /// The filter is too long for its jumps.
    pub(crate) fn new(has_seccomp: bool) -> io::Result<WorkerSeccomp> {
        Ok(WorkerSeccomp(has_seccomp.then(calls::WorkerFilter::new).transpose()?))
    }

    /// Confines this process.
    ///
    /// # Errors
    /// The host accepted the filter of the master, but refuses this one.
    pub(crate) fn confine(&self) -> io::Result<()> {
        self.0.as_ref().map_or(Ok(()), calls::WorkerFilter::apply)
    }
}

/// Forbids all threads of a server the calls that only its start needed, if it has [a seccomp filter](Confinement::has_seccomp).
/// `has_rings`: the server uses io_uring.
///
/// # Errors
/// The host accepted the first filter, but refuses this one.
pub(crate) fn confine_running_server(has_seccomp: bool, needs: ServerNeeds) -> io::Result<()> {
    match has_seccomp {
        true => calls::allow_serving(needs),
        false => Ok(()),
    }
}

/// Drops all capabilities, except that root keeps `kept_of_root`, and sets no_new_privs.
fn take_capabilities(privileges: &Privileges, kept_of_root: CapabilitySet) -> io::Result<Confinement> {
    let mut confined = Confinement::default();
    confined.summary.extend(privileges.user.as_ref().map(|user| format!("user {}", user.name().printable())));
    let is_root = privileges.user.as_ref().is_some_and(|user| user.is_root());
    // Root of a container may lack some of them, and a process cannot keep a capability that it lacks.
    let kept = if is_root { kept_of_root & capabilities(None)?.permitted } else { CapabilitySet::empty() };
    let inheritable = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable })?;
    set_no_new_privs(true)?;
    Ok(confined)
}

impl Confinement {
    /// Adds a restriction to the summary, or why the host lacks it. Returns whether the restriction is in force.
    fn add(&mut self, name: &str, done: io::Result<()>) -> io::Result<bool> {
        let missing = reason_missing(done)?;
        let is_taken = missing.is_none();
        self.summary.push(missing.map_or(name.to_owned(), |why| format!("no {name} ({why})")));
        Ok(is_taken)
    }
}

/// Returns why the host lacks a restriction, if it does: serving without it is better than not serving.
fn reason_missing(done: io::Result<()>) -> io::Result<Option<String>> {
    let Err(error) = done else { return Ok(None) };
    match Errno::from_io_error(&error) {
        Some(Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL) => Ok(Some("this kernel lacks it".to_owned())),
        Some(Errno::PERM | Errno::ACCESS) => Ok(Some("this host forbids it".to_owned())),
        _ => Err(io::Error::new(error.kind(), reason(&error))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::{attempts, memory};
    use rustix::{
        event::{EventfdFlags, eventfd},
        fs::{fstat, mkdir, unlink},
        net::{AddressFamily, Shutdown, SocketType, connect, listen, shutdown, socket},
        process::{Signal, getppid, kill_process, setpriority_process},
    };
    use std::{
        env,
        fs::{self, File},
        net::{SocketAddr, TcpListener, TcpStream},
        os::unix::process::{CommandExt, ExitStatusExt},
        process::{Command, Output, exit},
        thread,
    };

    /// What a compromised process might try, each in a process of its own.
    #[test]
    fn compromised_process_can_do_nothing_outside() {
        if let Ok(attempt) = env::var(ATTEMPT) {
            let (process, number) = attempt.split_once(' ').unwrap();
            let (_, attempt, ..) = ATTEMPTS[number.parse::<usize>().unwrap()];
            let open = OpenFile::new();
            confine(process);
            exit_with(attempt(&open));
        }
        for (number, (what, _, server, worker, builder)) in ATTEMPTS.iter().enumerate() {
            for (process, want) in [("server", server), ("worker", worker), ("builder", builder)] {
                let name = "compromised_process_can_do_nothing_outside";
                let (result, output) = rerun(name, ATTEMPT, &format!("{process} {number}"));
                assert_eq!(result, *want, "{process}: {what}: {output:?}");
                // The C library blocks signals, and so this one, while it makes threads.
                if *what == "make a ring" {
                    let message = String::from_utf8_lossy(&output.stderr);
                    assert!(
                        message.contains("the sandbox forbids system call number "),
                        "{process}: {what}: {message}"
                    );
                }
            }
        }
    }

    #[test]
    fn server_with_rings_may_use_its_rings_only() {
        const RING: &str = "TARPON_TEST_RING";
        let cases: &[(&str, Attempt, AttemptResult)] = &[
            ("use", |_| attempts::use_no_ring(), Done),
            ("register", |_| attempts::register_without_ring(), Killed),
            ("make", |_| io_uring::IoUring::new(4).map(drop), Killed),
        ];
        if let Ok(wanted) = env::var(RING) {
            let (_, attempt, _) = cases.iter().find(|(name, ..)| *name == wanted).unwrap();
            let open = OpenFile::new();
            let needs = ServerNeeds { rings: true, kernel_tls: false };
            let confined = confine_server(&PRIVILEGES, needs).unwrap();
            confine_running_server(confined.has_seccomp, needs).unwrap();
            exit_with(attempt(&open));
        }
        for (name, _, want) in cases {
            let (result, output) = rerun("server_with_rings_may_use_its_rings_only", RING, name);
            assert_eq!(result, *want, "{name}: {output:?}");
        }
    }

    #[test]
    fn helper_that_connects_can_look_names_up_and_use_its_ports_only() {
        const NET: &str = "TARPON_TEST_NET";
        let cases: &[(&str, Attempt, AttemptResult)] = &[
            (
                "look a name up",
                |_| std::net::ToSocketAddrs::to_socket_addrs(&("localhost", 1)).map(drop),
                Done,
            ),
            ("connect to its port", |open| TcpStream::connect(open.address).map(drop), Done),
            // Port 9 is not among those that the helper may use.
            ("connect elsewhere", |_| TcpStream::connect("127.0.0.1:9").map(drop), Refused),
            ("listen", |_| TcpListener::bind("127.0.0.1:0").map(drop), Killed),
            ("read the site", |open| File::open(&open.site).map(drop), Refused),
            ("write a file", |open| File::create(&open.site).map(drop), Killed),
            ("make a directory", |_| Ok(mkdir("/tmp/made", Mode::RWXU)?), Killed),
            ("run a program", |_| Err(Command::new("/bin/true").exec()), Killed),
            ("make a process", |_| attempts::fork(), Killed),
            ("look into its parent", |_| attempts::trace_parent(), Killed),
            ("make a ring", |_| io_uring::IoUring::new(4).map(drop), Killed),
            ("make memory executable", |_| attempts::executable(), Killed),
        ];
        if let Ok(wanted) = env::var(NET) {
            let (_, attempt, _) = cases.iter().find(|(name, ..)| *name == wanted).unwrap();
            let open = OpenFile::new();
            confine_net(&PRIVILEGES, &[open.address.port()]).unwrap();
            exit_with(attempt(&open));
        }
        for (name, _, want) in cases {
            let test = "helper_that_connects_can_look_names_up_and_use_its_ports_only";
            let (result, output) = rerun(test, NET, name);
            assert_eq!(result, *want, "{name}: {output:?}");
        }
    }

    /// With one filter in force, none of these errors means that the host lacks seccomp.
    #[test]
    fn host_that_accepts_one_filter_and_refuses_the_next_is_an_error() {
        const REFUSAL: &str = "TARPON_TEST_REFUSAL";
        if let Ok(refusal) = env::var(REFUSAL) {
            let (process, errno) = refusal.split_once(' ').unwrap();
            let confined = match process {
                "server" => confine_server(&PRIVILEGES, ServerNeeds::default()).unwrap(),
                _ => confine_master(&PRIVILEGES).unwrap(),
            };
            let worker_seccomp = WorkerSeccomp::new(confined.has_seccomp).unwrap();
            calls::refuse_filters(errno.parse().unwrap());
            let error = match process {
                "server" => confine_running_server(confined.has_seccomp, ServerNeeds::default()),
                _ => worker_seccomp.confine(),
            }
            .expect_err("the next is refused");
            let message = error.to_string();
            assert!(
                message.starts_with("the host accepted one seccomp filter and refused the next: "),
                "{message}"
            );
            exit(DONE);
        }
        for process in ["server", "worker"] {
            for errno in [Errno::PERM, Errno::ACCESS, Errno::INVAL, Errno::NOSYS, Errno::OPNOTSUPP] {
                let name = "host_that_accepts_one_filter_and_refuses_the_next_is_an_error";
                let (result, output) = rerun(name, REFUSAL, &format!("{process} {}", errno.raw_os_error()));
                assert_eq!(result, Done, "{process}: {errno}: {output:?}");
            }
        }
    }

    /// Runs one of these tests in a process of its own, with an environment variable set.
    fn rerun(test: &str, key: &str, value: &str) -> (AttemptResult, Output) {
        let name = format!("control::sandbox::system::tests::{test}");
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", &name, "--test-threads=1", "--nocapture"]);
        let output = command.env(key, value).output().unwrap();
        let result = match (output.status.code(), output.status.signal()) {
            (Some(DONE), _) => AttemptResult::Done,
            (Some(REFUSED), _) => AttemptResult::Refused,
            (_, Some(libc::SIGSYS)) => AttemptResult::Killed,
            _ => panic!("{test}: {value}: {output:?}"),
        };
        (result, output)
    }

    /// Reports the result of an attempt to [`rerun`] by the exit status.
    fn exit_with(attempted: io::Result<()>) -> ! {
        exit(match attempted {
            Ok(()) => DONE,
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::ACCESS | Errno::PERM | Errno::NOSYS) => REFUSED,
                _ => panic!("neither done nor refused: {error}"),
            },
        })
    }

    /// The result of an attempt.
    #[derive(Debug, PartialEq, Eq)]
    enum AttemptResult {
        Done,
        Refused,
        Killed,
    }
    use AttemptResult::{Done, Killed, Refused};

    type Attempt = fn(&OpenFile) -> io::Result<()>;

    #[rustfmt::skip]
    const ATTEMPTS: &[(&str, Attempt, AttemptResult, AttemptResult, AttemptResult)] = &[
        // what                                                                       by the server, a worker process, the builder
        ("read its site",            |open| File::open(&open.site).map(drop),                  Refused, Refused, Done),
        ("read another file",        |_| File::open("/etc/passwd").map(drop),                  Refused, Refused, Refused),
        ("look into a directory",    |_| fs::read_dir("/").map(drop),                     Refused, Refused, Refused),
        ("write its site",           |open| File::create(&open.site).map(drop),                Refused, Refused, Killed),
        ("make a directory",         |_| Ok(mkdir("/tmp/made", Mode::RWXU)?),                  Killed,  Killed,  Killed),
        ("remove a file",            |open| Ok(unlink(&open.site)?),                           Killed,  Killed,  Killed),
        ("run a program",            |_| Err(Command::new("/bin/true").exec()),                Killed,  Killed,  Killed),
        ("make a process",           |_| attempts::fork(),                                               Killed,  Killed,  Killed),
        ("send its parent a signal", |_| Ok(kill_process(getppid().unwrap(), Signal::TERM)?),  Killed,  Killed,  Killed),
        ("signal the process that compiled its filter", |_| attempts::signal_by_thread(), Done,    Killed,  Done),
        ("lower its priority",       |_| Ok(setpriority_process(None, 19)?),                   Killed,  Killed,  Done),
        ("lower that of its parent", |_| Ok(setpriority_process(getppid(), 19)?),              Killed,  Killed,  Killed),
        ("look into its parent",     |_| attempts::trace_parent(),                                       Killed,  Killed,  Killed),
        ("make a socket",            |_| socket_of(AddressFamily::INET),                       Killed,  Killed,  Killed),
        ("make a netlink socket",    |_| socket_of(AddressFamily::NETLINK),                    Killed,  Killed,  Killed),
        ("connect a socket it has",  |open| Ok(connect(&open.socket, &open.address)?),         Killed,  Killed,  Killed),
        ("listen at a socket",       |open| Ok(listen(&open.socket, 1)?),                      Killed,  Killed,  Killed),
        ("make a ring",              |_| io_uring::IoUring::new(4).map(drop),                  Killed,  Killed,  Killed),
        ("make memory executable",   |_| attempts::executable(),                                         Killed,  Killed,  Killed),
        ("make a thread",            |_| thread::Builder::new().spawn(|| ()).map(drop),        Killed,  Killed,  Done),
        ("make an eventfd",          |_| Ok(eventfd(0, EventfdFlags::CLOEXEC).map(drop)?),     Killed,  Killed,  Done),
        ("raise its limits",         |_| raise_limit(),                                        Killed,  Killed,  Killed),
        ("open a path for later",    |_| Ok(open("/", OFlags::PATH, Mode::empty()).map(drop)?), Refused, Refused, Done),
        ("raise its limits, from above",   |_| attempts::raise_limit_from_above(),             Killed,  Killed,  Killed),
        // docs/decisions/0027-what-stat-tells.md
        ("ask by name about its site",     |open| fs::metadata(&open.site).map(drop),          Refused, Refused, Done),
        ("ask by name about another file", |_| fs::metadata("/etc/passwd").map(drop),          Refused, Refused, Done),
        ("ask by name about a link",       |_| fs::symlink_metadata("/proc/self").map(drop),   Refused, Refused, Done),
        ("the same, as if by descriptor",  |_| attempts::stat_by_name_as_descriptor(c"/etc/passwd"), Refused, Refused, Done),
        ("ask about what it has open",     |open| Ok(fstat(&open.log).map(drop)?),             Done,    Done,    Done),
        // Commands to a descriptor: fcntl(2).
        ("have a descriptor twice",        |open| open.log.try_clone().map(drop),              Done,    Done,    Done),
        ("write a log from its start",     |open| open.fcntl(libc::F_SETFL, 0),                Killed,  Killed,  Killed),
        ("have signals sent",              |open| open.fcntl(libc::F_SETOWN, 1),               Killed,  Killed,  Killed),
        ("choose which signals",           |open| open.fcntl(F_SETSIG, libc::SIGKILL),         Killed,  Killed,  Killed),
        ("lease a file",                   |open| open.fcntl(libc::F_SETLEASE, libc::F_WRLCK), Killed,  Killed,  Killed),
        ("watch a directory",            |open| open.fcntl(libc::F_NOTIFY, 1), Killed, Killed, Killed),
        ("make a pipe larger",             |open| open.fcntl(libc::F_SETPIPE_SZ, 1 << 20),     Killed,  Killed,  Killed),
        ("lock a file",                    |open| open.fcntl(libc::F_SETLK, 0),                Killed,  Killed,  Killed),
        ("lock a file for good",           |open| open.fcntl(libc::F_OFD_SETLK, 0),            Killed,  Killed,  Killed),
        ("keep others from writing",       |open| attempts::fcntl(&open.memory, libc::F_ADD_SEALS, libc::F_SEAL_WRITE), Killed, Killed, Done),
        ("have a descriptor for a program", |open| open.fcntl(libc::F_SETFD, 0),               Killed,  Killed,  Killed),
        // Sockets that it has.
        ("shut a listener down",           |open| Ok(shutdown(&open.listener, Shutdown::Read)?), Killed, Killed, Killed),
        ("shut it down for good",          |open| Ok(shutdown(&open.listener, Shutdown::Both)?), Killed, Killed, Killed),
        ("end what it sends",              |open| Ok(shutdown(&open.client, Shutdown::Write)?), Done,   Done,    Killed),
        ("cut a connection",               |open| open.set_option(libc::SOL_SOCKET, libc::SO_LINGER), Done, Done, Killed),
        ("take less ahead of a client",    |open| open.set_option(libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT), Done, Done, Killed),
        ("choose who gets which client",   |open| open.set_option(libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF), Killed, Killed, Killed),
        ("listen where others do",         |open| open.set_option(libc::SOL_SOCKET, libc::SO_REUSEPORT), Killed, Killed, Killed),
        ("repair a connection",            |open| open.set_option(libc::IPPROTO_TCP, libc::TCP_REPAIR), Killed, Killed, Killed),
        ("ask what kind a socket is",      |open| open.get_option(libc::SOL_SOCKET, libc::SO_TYPE), Done, Done,  Killed),
        ("ask who is at the other end",    |open| open.get_option(libc::SOL_SOCKET, libc::SO_PEERCRED), Killed, Killed, Killed),
        ("map what has come",              |open| open.get_option(libc::IPPROTO_TCP, libc::TCP_ZEROCOPY_RECEIVE), Killed, Killed, Killed),
        // Processes and memory.
        ("make a process by clone3",       |_| attempts::fork_by_clone3(),                     Killed,  Killed,  Refused),
        ("make a process that is root",    |_| attempts::fork_as_root(),                       Killed,  Killed,  Killed),
        ("outlive its parent",             |_| attempts::outlive_parent(),                     Killed,  Killed,  Killed),
        ("ask for its parent's cores",     |_| attempts::cores_of_parent(),                    Refused, Refused, Refused),
        ("make memory larger",             |_| attempts::grow_memory(),                        Done,    Done,    Done),
        ("make its code longer",           |open| attempts::grow_code(open.code),              Refused, Refused, Done),
        ("have memory merged",             |_| attempts::merge_memory(),                       Killed,  Killed,  Killed),
        ("interrupt all processors",       |_| attempts::barrier_for_all(),                    Killed,  Killed,  Killed),
        ("register without a ring",        |_| attempts::register_without_ring(),              Killed,  Killed,  Killed),
        ("use a ring",                     |_| attempts::use_no_ring(),                        Killed,  Killed,  Killed),
    ];

    /// What a process has open before it is confined.
    struct OpenFile {
        site: PathBuf,
        socket: std::os::fd::OwnedFd,
        address: SocketAddr,
        listener: TcpListener,
        client: TcpStream,
        /// Open for appending.
        log: File,
        memory: File,
        /// A page of executable code.
        code: usize,
    }

    impl OpenFile {
        fn new() -> OpenFile {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let client = TcpStream::connect(address).unwrap();
            let log = tempfile::NamedTempFile::new().unwrap();
            let log = File::options().append(true).open(log.path()).unwrap();
            let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
            OpenFile {
                site: env::current_exe().unwrap(),
                socket,
                address,
                listener,
                client,
                log,
                memory: memory::file().unwrap(),
                code: attempts::code().unwrap(),
            }
        }

        fn fcntl(&self, command: i32, argument: i32) -> io::Result<()> {
            attempts::fcntl(&self.log, command, argument)
        }

        fn set_option(&self, level: i32, name: i32) -> io::Result<()> {
            attempts::socket_option(&self.listener, true, level, name)
        }

        fn get_option(&self, level: i32, name: i32) -> io::Result<()> {
            attempts::socket_option(&self.listener, false, level, name)
        }
    }

    fn confine(process: &str) {
        let confined = match process {
            "builder" => {
                let site = File::open(env::current_exe().unwrap()).unwrap();
                confine_builder(&PRIVILEGES, &[site.as_fd()]).unwrap()
            }
            "worker" => {
                let confined = confine_master(&PRIVILEGES).unwrap();
                WorkerSeccomp::new(confined.has_seccomp).unwrap().confine().unwrap();
                confined
            }
            _ => {
                let confined = confine_server(&PRIVILEGES, ServerNeeds::default()).unwrap();
                confine_running_server(confined.has_seccomp, ServerNeeds::default()).unwrap();
                confined
            }
        };
        assert_eq!(confined.summary, ["Landlock", "seccomp"], "a test host supports both");
    }

    fn socket_of(family: AddressFamily) -> io::Result<()> {
        Ok(socket(family, SocketType::DGRAM, None).map(drop)?)
    }

    fn raise_limit() -> io::Result<()> {
        use rustix::process::{Resource, getrlimit, setrlimit};
        Ok(setrlimit(Resource::Core, getrlimit(Resource::Core))?)
    }

    /// As in `asm-generic/fcntl.h`.
    const F_SETSIG: i32 = 10;
    const PRIVILEGES: Privileges = Privileges { user: None, groups: Vec::new(), is_sandboxed: true };
    const ATTEMPT: &str = "TARPON_TEST_ATTEMPT";
    const DONE: i32 = 40;
    const REFUSED: i32 = 41;
}
