//! What Linux takes from a process: capabilities, files, system calls.

mod calls;
mod files;

use super::{Confined, Rights};
use crate::error::reason;
use rustix::{
    io::Errno,
    thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs},
};
use std::{io, path::PathBuf};

/// Confines a keeper that has the rights of its user: it reads what lies at these paths, and below them.
///
/// # Errors
/// Something could not be taken from it that the host offers to take.
pub(crate) fn confine_keeper(rights: &Rights, paths: &[PathBuf]) -> io::Result<Confined> {
    let mut confined = take_capabilities(rights, CapabilitySet::DAC_READ_SEARCH)?;
    if rights.is_sandboxed {
        confined.in_files = confined.add("Landlock", files::allow_to_read(paths))?;
        confined.add("seccomp", calls::allow_keeping())?;
    }
    Ok(confined)
}

/// Confines a server that has the rights of its user, as far as it can be before it has begun. It needs [`confine_begun_server`] too.
///
/// # Errors
/// As above.
pub(crate) fn confine_server(rights: &Rights) -> io::Result<Confined> {
    let mut confined = take_capabilities(rights, CapabilitySet::empty())?;
    if rights.is_sandboxed {
        confined.in_files = confined.add("Landlock", files::allow_to_read(&[]))?;
        confined.add("seccomp", calls::allow_beginning())?;
    }
    Ok(confined)
}

/// Confines a process that controls a server's worker processes. What it forks is confined as it is, and needs
/// [`confine_begun_server`], or [`Narrowing::confine`], too.
///
/// # Errors
/// As above.
pub(crate) fn confine_control(rights: &Rights) -> io::Result<Confined> {
    let mut confined = take_capabilities(rights, CapabilitySet::empty())?;
    if rights.is_sandboxed {
        confined.in_files = confined.add("Landlock", files::allow_to_read(&[]))?;
        confined.add("seccomp", calls::allow_controlling())?;
    }
    Ok(confined)
}

/// What is taken from a worker process of what its parent may.
#[derive(Debug)]
pub(crate) struct Narrowing(Option<calls::Narrowing>);

impl Narrowing {
    /// For all workers of a process that was confined.
    ///
    /// # Errors
    /// This processor is not known.
    pub(crate) fn new(rights: &Rights) -> io::Result<Narrowing> {
        Ok(Narrowing(rights.is_sandboxed.then(calls::Narrowing::new).transpose()?))
    }

    /// Confines this process.
    ///
    /// # Errors
    /// As above.
    pub(crate) fn confine(&self) -> io::Result<()> {
        match &self.0 {
            Some(narrowing) => unless_lacking(narrowing.apply()).map(drop),
            None => Ok(()),
        }
    }
}

/// Takes from all threads of a server what it needed to begin.
///
/// # Errors
/// As above.
pub(crate) fn confine_begun_server(rights: &Rights) -> io::Result<()> {
    match rights.is_sandboxed {
        true => unless_lacking(calls::allow_serving()).map(drop),
        false => Ok(()),
    }
}

/// Leaves no capabilities, but those of root that are kept, and no way to get any.
fn take_capabilities(rights: &Rights, kept_of_root: CapabilitySet) -> io::Result<Confined> {
    let mut confined = Confined::default();
    confined.words.extend(rights.user.as_ref().map(|user| format!("user {}", user.name())));
    let is_root = rights.user.as_ref().is_some_and(|user| user.is_root());
    // Root of a container may lack some of them: what it does not have it cannot keep.
    let kept = if is_root { kept_of_root & capabilities(None)?.permitted } else { CapabilitySet::empty() };
    let inheritable = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable })?;
    set_no_new_privs(true)?;
    Ok(confined)
}

impl Confined {
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
    use crate::sys::attempts;
    use rustix::{
        event::{EventfdFlags, eventfd},
        fs::{Mode, OFlags, mkdir, open, unlink},
        net::{AddressFamily, SocketType, connect, listen, socket},
        process::{Signal, getppid, kill_process},
    };
    use std::{
        env,
        fs::File,
        net::{SocketAddr, TcpListener, TcpStream},
        os::unix::process::{CommandExt, ExitStatusExt},
        process::{Command, exit},
        thread,
    };

    /// What a process that was taken over might try, each in a process of its own.
    #[test]
    fn a_process_that_was_taken_over_can_do_nothing_outside() {
        if let Ok(attempt) = env::var(ATTEMPT) {
            let (who, number) = attempt.split_once(' ').unwrap();
            let (_, attempt, ..) = ATTEMPTS[number.parse::<usize>().unwrap()];
            let open = Open::new();
            confine(who);
            exit(match attempt(&open) {
                Ok(()) => DONE,
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => REFUSED,
                Err(error) => panic!("neither done nor refused: {error}"),
            });
        }
        let name = "sandbox::system::tests::a_process_that_was_taken_over_can_do_nothing_outside";
        for (number, (what, _, server, worker, keeper)) in ATTEMPTS.iter().enumerate() {
            for (who, want) in [("server", server), ("worker", worker), ("keeper", keeper)] {
                let mut command = Command::new(env::current_exe().unwrap());
                command.args(["--exact", name, "--test-threads=1", "--nocapture"]);
                let output = command.env(ATTEMPT, format!("{who} {number}")).output().unwrap();
                let came = match (output.status.code(), output.status.signal()) {
                    (Some(DONE), _) => Comes::Done,
                    (Some(REFUSED), _) => Comes::Refused,
                    (_, Some(libc::SIGSYS)) => Comes::Killed,
                    _ => panic!("{who}: {what}: {output:?}"),
                };
                assert_eq!(came, *want, "{who}: {what}");
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

    /// What comes of an attempt.
    #[derive(Debug, PartialEq, Eq)]
    enum Comes {
        Done,
        Refused,
        Killed,
    }
    use Comes::{Done, Killed, Refused};

    type Attempt = fn(&Open) -> io::Result<()>;

    #[rustfmt::skip]
    const ATTEMPTS: &[(&str, Attempt, Comes, Comes, Comes)] = &[
        // what                                                                       by the server, a worker process, the keeper
        ("read its site",            |open| File::open(&open.site).map(drop),                  Refused, Refused, Done),
        ("read another file",        |_| File::open("/etc/passwd").map(drop),                  Refused, Refused, Refused),
        ("look into a directory",    |_| std::fs::read_dir("/").map(drop),                     Refused, Refused, Refused),
        ("write its site",           |open| File::create(&open.site).map(drop),                Refused, Refused, Killed),
        ("make a directory",         |_| Ok(mkdir("/tmp/made", Mode::RWXU)?),                  Killed,  Killed,  Killed),
        ("remove a file",            |open| Ok(unlink(&open.site)?),                           Killed,  Killed,  Killed),
        ("run a program",            |_| Err(Command::new("/bin/true").exec()),                Killed,  Killed,  Killed),
        ("make a process",           |_| attempts::divide(),                                             Killed,  Killed,  Killed),
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
    ];

    /// What a process has open, and knows, before.
    struct Open {
        site: PathBuf,
        socket: std::os::fd::OwnedFd,
        address: SocketAddr,
        _listener: TcpListener,
    }

    impl Open {
        fn new() -> Open {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            assert!(TcpStream::connect(address).is_ok());
            let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
            Open { site: env::current_exe().unwrap(), socket, address, _listener: listener }
        }
    }

    fn confine(who: &str) {
        let rights = Rights { user: None, is_sandboxed: true };
        let confined = match who {
            "keeper" => confine_keeper(&rights, &[env::current_exe().unwrap()]).unwrap(),
            "worker" => {
                let confined = confine_control(&rights).unwrap();
                Narrowing::new(&rights).unwrap().confine().unwrap();
                confined
            }
            _ => {
                let confined = confine_server(&rights).unwrap();
                confine_begun_server(&rights).unwrap();
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

    const ATTEMPT: &str = "TARPON_TEST_ATTEMPT";
    const DONE: i32 = 40;
    const REFUSED: i32 = 41;
}
