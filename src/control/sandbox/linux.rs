//! What Linux takes from a process: capabilities, files, system calls.

mod calls;
mod files;

use super::{Confinement, Privileges};
use crate::base::error::reason;
use rustix::{
    io::Errno,
    thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs},
};
use std::{io, os::fd::BorrowedFd};
use tarpon_site::Printable;

/// Confines a keeper that has the rights of its user: it reads these files and directories, and what lies below them.
///
/// # Errors
/// Something could not be taken from it that the host offers to take.
pub(crate) fn confine_keeper(rights: &Privileges, roots: &[BorrowedFd<'_>]) -> io::Result<Confinement> {
    let mut confined = take_capabilities(rights, CapabilitySet::DAC_READ_SEARCH)?;
    if rights.is_sandboxed {
        confined.in_files = confined.add("Landlock", files::allow_to_read(roots))?;
        confined.in_calls = confined.add("seccomp", calls::allow_keeping())?;
    }
    Ok(confined)
}

/// Confines a server that has the rights of its user, as far as it can be before it has begun. It needs [`confine_begun_server`] too.
///
/// # Errors
/// As above.
pub(crate) fn confine_server(rights: &Privileges) -> io::Result<Confinement> {
    let mut confined = take_capabilities(rights, CapabilitySet::empty())?;
    if rights.is_sandboxed {
        confined.in_files = confined.add("Landlock", files::allow_to_read(&[]))?;
        confined.in_calls = confined.add("seccomp", calls::allow_beginning())?;
    }
    Ok(confined)
}

/// Confines a process that controls a server's worker processes. What it forks is confined as it is, and needs
/// [`confine_begun_server`], or [`Narrowing::confine`], too.
///
/// # Errors
/// As above.
pub(crate) fn confine_control(rights: &Privileges) -> io::Result<Confinement> {
    let mut confined = take_capabilities(rights, CapabilitySet::empty())?;
    if rights.is_sandboxed {
        confined.in_files = confined.add("Landlock", files::allow_to_read(&[]))?;
        confined.in_calls = confined.add("seccomp", calls::allow_controlling())?;
    }
    Ok(confined)
}

/// What is taken from a worker process of what its parent may.
#[derive(Debug)]
pub(crate) struct WorkerSeccomp(Option<calls::WorkerFilter>);

impl WorkerSeccomp {
    /// For all workers of a process that was confined, and may have a filter of [its system calls](Confined::in_calls).
    ///
    /// # Errors
    /// This processor is not known.
    pub(crate) fn new(in_calls: bool) -> io::Result<WorkerSeccomp> {
        Ok(WorkerSeccomp(in_calls.then(calls::WorkerFilter::new).transpose()?))
    }

    /// Confines this process.
    ///
    /// # Errors
    /// The host has taken the filter of its parent, and refuses this one.
    pub(crate) fn confine(&self) -> io::Result<()> {
        self.0.as_ref().map_or(Ok(()), calls::WorkerFilter::apply)
    }
}

/// Takes from all threads of a server what it needed to begin, if it has a filter of [its system calls](Confined::in_calls). It may
/// have rings of io_uring.
///
/// # Errors
/// The host has taken the first filter, and refuses this one.
pub(crate) fn confine_begun_server(in_calls: bool, has_rings: bool) -> io::Result<()> {
    match in_calls {
        true => calls::allow_serving(has_rings),
        false => Ok(()),
    }
}

/// Leaves no capabilities, but those of root that are kept, and no way to get any.
fn take_capabilities(rights: &Privileges, kept_of_root: CapabilitySet) -> io::Result<Confinement> {
    let mut confined = Confinement::default();
    confined.words.extend(rights.user.as_ref().map(|user| format!("user {}", user.name().printable())));
    let is_root = rights.user.as_ref().is_some_and(|user| user.is_root());
    // Root of a container may lack some of them: what it does not have it cannot keep.
    let kept = if is_root { kept_of_root & capabilities(None)?.permitted } else { CapabilitySet::empty() };
    let inheritable = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable })?;
    set_no_new_privs(true)?;
    Ok(confined)
}

impl Confinement {
    /// One more thing was taken; or the host does not offer to. Returns whether it was taken.
    fn add(&mut self, name: &str, done: io::Result<()>) -> io::Result<bool> {
        let lacking = unless_lacking(done)?;
        let is_taken = lacking.is_none();
        self.words.push(lacking.map_or(name.to_owned(), |why| format!("no {name} ({why})")));
        Ok(is_taken)
    }
}

/// Why the host does not offer something, if it does not: to do without is better than not to serve.
fn unless_lacking(done: io::Result<()>) -> io::Result<Option<String>> {
    let Err(error) = done else { return Ok(None) };
    match Errno::from_io_error(&error) {
        Some(Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL) => {
            Ok(Some("this kernel does not have it".to_owned()))
        }
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
        fs::{Mode, OFlags, fstat, mkdir, open, unlink},
        net::{AddressFamily, Shutdown, SocketType, connect, listen, shutdown, socket},
        process::{Signal, getppid, kill_process},
    };
    use std::{
        env,
        fs::{self, File},
        net::{SocketAddr, TcpListener, TcpStream},
        os::{
            fd::AsFd,
            unix::process::{CommandExt, ExitStatusExt},
        },
        path::PathBuf,
        process::{Command, Output, exit},
        thread,
    };

    /// What a process that was taken over might try, each in a process of its own.
    #[test]
    fn a_process_that_was_taken_over_can_do_nothing_outside() {
        if let Ok(attempt) = env::var(ATTEMPT) {
            let (who, number) = attempt.split_once(' ').unwrap();
            let (_, attempt, ..) = ATTEMPTS[number.parse::<usize>().unwrap()];
            let open = OpenFile::new();
            confine(who);
            exit_with(attempt(&open));
        }
        for (number, (what, _, server, worker, keeper)) in ATTEMPTS.iter().enumerate() {
            for (who, want) in [("server", server), ("worker", worker), ("keeper", keeper)] {
                let name = "a_process_that_was_taken_over_can_do_nothing_outside";
                let (came, output) = again(name, ATTEMPT, &format!("{who} {number}"));
                assert_eq!(came, *want, "{who}: {what}: {output:?}");
                // The C library blocks signals, and so this one, while it makes threads.
                if *what == "make a ring" {
                    let said = String::from_utf8_lossy(&output.stderr);
                    assert!(
                        said.contains("the sandbox forbids system call number "),
                        "{who}: {what}: {said}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_server_with_rings_uses_those_it_has_and_only_that() {
        const RING: &str = "TARPON_TEST_RING";
        let cases: &[(&str, Attempt, AttemptResult)] = &[
            ("use", |_| attempts::use_no_ring(), Done),
            ("register", |_| attempts::register_without_ring(), Killed),
            ("make", |_| io_uring::IoUring::new(4).map(drop), Killed),
        ];
        if let Ok(wanted) = env::var(RING) {
            let (_, attempt, _) = cases.iter().find(|(name, ..)| *name == wanted).unwrap();
            let open = OpenFile::new();
            let confined = confine_server(&RIGHTS).unwrap();
            confine_begun_server(confined.in_calls, true).unwrap();
            exit_with(attempt(&open));
        }
        for (name, _, want) in cases {
            let (came, output) = again("a_server_with_rings_uses_those_it_has_and_only_that", RING, name);
            assert_eq!(came, *want, "{name}: {output:?}");
        }
    }

    /// Whatever it answers: with one filter in force, none of these says that the host has no filters.
    #[test]
    fn a_host_that_takes_one_filter_and_refuses_the_next_is_an_error() {
        const REFUSAL: &str = "TARPON_TEST_REFUSAL";
        if let Ok(refusal) = env::var(REFUSAL) {
            let (who, errno) = refusal.split_once(' ').unwrap();
            let confined = match who {
                "server" => confine_server(&RIGHTS).unwrap(),
                _ => confine_control(&RIGHTS).unwrap(),
            };
            let narrowing = WorkerSeccomp::new(confined.in_calls).unwrap();
            calls::refuse_filters(errno.parse().unwrap());
            let error = match who {
                "server" => confine_begun_server(confined.in_calls, false),
                _ => narrowing.confine(),
            }
            .expect_err("the next is refused");
            let said = error.to_string();
            assert!(said.starts_with("the host took one seccomp filter and refused the next: "), "{said}");
            exit(DONE);
        }
        for who in ["server", "worker"] {
            for errno in [Errno::PERM, Errno::ACCESS, Errno::INVAL, Errno::NOSYS, Errno::OPNOTSUPP] {
                let name = "a_host_that_takes_one_filter_and_refuses_the_next_is_an_error";
                let (came, output) = again(name, REFUSAL, &format!("{who} {}", errno.raw_os_error()));
                assert_eq!(came, Done, "{who}: {errno}: {output:?}");
            }
        }
    }

    /// Runs one of these tests in a process of its own, with a variable in its environment.
    fn again(test: &str, key: &str, value: &str) -> (AttemptResult, Output) {
        let name = format!("control::sandbox::system::tests::{test}");
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", &name, "--test-threads=1", "--nocapture"]);
        let output = command.env(key, value).output().unwrap();
        let came = match (output.status.code(), output.status.signal()) {
            (Some(DONE), _) => AttemptResult::Done,
            (Some(REFUSED), _) => AttemptResult::Refused,
            (_, Some(libc::SIGSYS)) => AttemptResult::Killed,
            _ => panic!("{test}: {value}: {output:?}"),
        };
        (came, output)
    }

    /// Tells [`again`] what came of an attempt.
    fn exit_with(attempted: io::Result<()>) -> ! {
        exit(match attempted {
            Ok(()) => DONE,
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::ACCESS | Errno::PERM | Errno::NOSYS) => REFUSED,
                _ => panic!("neither done nor refused: {error}"),
            },
        })
    }

    /// What comes of an attempt.
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
        // what                                                                       by the server, a worker process, the keeper
        ("read its site",            |open| File::open(&open.site).map(drop),                  Refused, Refused, Done),
        ("read another file",        |_| File::open("/etc/passwd").map(drop),                  Refused, Refused, Refused),
        ("look into a directory",    |_| fs::read_dir("/").map(drop),                     Refused, Refused, Refused),
        ("write its site",           |open| File::create(&open.site).map(drop),                Refused, Refused, Killed),
        ("make a directory",         |_| Ok(mkdir("/tmp/made", Mode::RWXU)?),                  Killed,  Killed,  Killed),
        ("remove a file",            |open| Ok(unlink(&open.site)?),                           Killed,  Killed,  Killed),
        ("run a program",            |_| Err(Command::new("/bin/true").exec()),                Killed,  Killed,  Killed),
        ("make a process",           |_| attempts::fork(),                                               Killed,  Killed,  Killed),
        ("send its parent a signal", |_| Ok(kill_process(getppid().unwrap(), Signal::TERM)?),  Killed,  Killed,  Killed),
        ("signal by its thread who made its filter", |_| attempts::signal_by_thread(), Done,    Killed,  Done),
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
        ("hear of a directory",            |open| open.fcntl(libc::F_NOTIFY, 1), Killed, Killed, Killed),
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

    /// What a process has open, and knows, before.
    struct OpenFile {
        site: PathBuf,
        socket: std::os::fd::OwnedFd,
        address: SocketAddr,
        listener: TcpListener,
        client: TcpStream,
        /// Written to, and appended to.
        log: File,
        memory: File,
        /// A page of a program, as its own code is.
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

    fn confine(who: &str) {
        let confined = match who {
            "keeper" => {
                let site = File::open(env::current_exe().unwrap()).unwrap();
                confine_keeper(&RIGHTS, &[site.as_fd()]).unwrap()
            }
            "worker" => {
                let confined = confine_control(&RIGHTS).unwrap();
                WorkerSeccomp::new(confined.in_calls).unwrap().confine().unwrap();
                confined
            }
            _ => {
                let confined = confine_server(&RIGHTS).unwrap();
                confine_begun_server(confined.in_calls, false).unwrap();
                confined
            }
        };
        assert_eq!(confined.words, ["Landlock", "seccomp"], "what the host of a test offers");
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
    const RIGHTS: Privileges = Privileges { user: None, is_sandboxed: true };
    const ATTEMPT: &str = "TARPON_TEST_ATTEMPT";
    const DONE: i32 = 40;
    const REFUSED: i32 = 41;
}
