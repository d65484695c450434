//! The program `tarpon`, as a child process. It ends with the value that stands for it, whatever happens.

use super::{wait_for, workers};
use rustix::{
    process::{Pid, Signal, kill_process},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
};
use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, Read},
    net::SocketAddr,
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStrExt, fs::PermissionsExt},
    },
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    thread,
};
use tarpon::Engine;

/// A child process that is or was `tarpon`.
pub(crate) struct RunningProgram {
    child: Child,
    out: OutputReader,
    err: OutputReader,
}

/// How a program ended that was to end by itself.
#[derive(Debug)]
pub(crate) struct ProgramExit {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// `tarpon serve`, on a free port of this host unless another address is given; where workers are counted, with so many
/// [`workers`] of the engine.
pub(crate) fn serve(dir: &Path, options: &[&str]) -> Command {
    let value = |name: &str| options.iter().position(|option| *option == name).map(|at| at + 1);
    let engine: Option<Engine> = value("--engine").and_then(|at| options[at].parse().ok());
    let count: Option<usize> = value("--workers").and_then(|at| options[at].parse().ok());
    let (Some(engine), Some(count), Some(at)) = (engine, count, value("--workers")) else {
        return serve_exactly(dir, options);
    };
    let count = workers(engine, count).to_string();
    let mut options = options.to_vec();
    options[at] = &count;
    serve_exactly(dir, &options)
}

/// The same with as many workers as it says.
pub(crate) fn serve_exactly(dir: &Path, options: &[&str]) -> Command {
    let mut command = tarpon(["serve".as_ref(), dir.as_os_str()]);
    if !options.contains(&"--listen") {
        command.args(["--listen", "127.0.0.1:0"]);
    }
    if !options.contains(&"--admin") {
        command.args(["--admin", "off"]);
    }
    command.args(options);
    with_human_log(&mut command);
    command
}

/// Has a server say in words what happens to it, unless it is told otherwise: tests read the banner, and from a pipe.
fn with_human_log(command: &mut Command) {
    if !command.get_args().any(|argument| argument == "--log-format") {
        command.args(["--log-format", "human"]);
    }
}

/// The program with these arguments.
pub(crate) fn tarpon<'a>(arguments: impl IntoIterator<Item = &'a OsStr>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tarpon"));
    command.args(arguments);
    command
}

/// The same command, begun by another program, which puts itself in its place: `prlimit`, `setpriv`.
pub(crate) fn wrap_command(starter: &[&str], command: &Command) -> Command {
    let mut wrapped = Command::new(starter[0]);
    wrapped.args(&starter[1..]).arg(command.get_program()).args(command.get_args());
    if let Some(dir) = command.get_current_dir() {
        wrapped.current_dir(dir);
    }
    wrapped
}

/// Options with which the processes of a program may be changed from outside: those of another user root may not change
/// everywhere.
pub(crate) fn without_user_change() -> &'static [&'static str] {
    if rustix::process::geteuid().is_root() { &["--user", "root"] } else { &[] }
}

/// The same command without the right to read what file modes forbid, which root has.
pub(crate) fn unprivileged(command: &Command) -> Command {
    let probe = tempfile::NamedTempFile::new().expect("a file");
    fs::set_permissions(probe.path(), fs::Permissions::from_mode(0o000)).expect("the owner may");
    let lacking = "-dac_override,-dac_read_search";
    match fs::read(probe.path()) {
        Ok(_) => wrap_command(&["setpriv", "--inh-caps", lacking, "--bounding-set", lacking], command),
        Err(_) => wrap_command(&["env"], command),
    }
}

impl RunningProgram {
    /// Begins to run.
    pub(crate) fn start(command: Command) -> RunningProgram {
        RunningProgram::spawn(command, Stdio::null())
    }

    /// Begins to run, with this as its standard input.
    pub(crate) fn start_with_stdin(command: Command, input: OwnedFd) -> RunningProgram {
        RunningProgram::spawn(command, input.into())
    }

    fn spawn(mut command: Command, input: Stdio) -> RunningProgram {
        command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A program that was just written is busy until the children that another test has begun meanwhile have closed it.
        let mut child = wait_for("a program that is not being written", || match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => None,
            child => Some(child),
        })
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let out = OutputReader::start(child.stdout.take().expect("a pipe"));
        let err = OutputReader::start(child.stderr.take().expect("a pipe"));
        RunningProgram { child, out, err }
    }

    /// Begins to run on a terminal; what it says there is all in [`out`](RunningProgram::out). pty(7).
    pub(crate) fn start_on_terminal(mut command: Command) -> RunningProgram {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&ours).and_then(|()| unlockpt(&ours)).expect("a terminal of our own");
        let path = ptsname(&ours, Vec::new()).expect("its name");
        let theirs = File::options().read(true).write(true).open(OsStr::from_bytes(path.to_bytes()));
        let theirs = theirs.expect("the other end of it");
        command.env("TERM", "xterm").env_remove("NO_COLOR");
        command.stdin(Stdio::null()).stdout(theirs.try_clone().expect("a descriptor")).stderr(theirs);
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        RunningProgram {
            child,
            out: OutputReader::start(File::from(ours)),
            err: OutputReader::start(io::empty()),
        }
    }

    /// Begins to run, and returns when the banner has been said.
    pub(crate) fn start_ready(mut command: Command) -> RunningProgram {
        with_human_log(&mut command);
        let mut program = RunningProgram::start(command);
        wait_for("the banner", || {
            let said = program.out.text();
            if !said.contains("Ctrl-C")
                && let Some(status) = program.child.try_wait().expect("a child")
            {
                panic!("ended, {status}: {} {}", program.out.text(), program.err.text());
            }
            said.contains("Ctrl-C").then_some(())
        });
        program
    }

    /// Runs to its end.
    pub(crate) fn run(command: Command) -> ProgramExit {
        RunningProgram::start(command).wait()
    }

    /// The first TCP address of the banner.
    pub(crate) fn address(&self) -> SocketAddr {
        self.addresses()[0]
    }

    /// All TCP addresses of the banner.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        let said = self.out.text();
        let urls = said.lines().filter_map(|line| line.trim().strip_prefix("http://"));
        urls.map(|url| url.trim_end_matches('/').parse().expect("an address and a port")).collect()
    }

    /// What it has said to standard output.
    pub(crate) fn out(&self) -> String {
        self.out.text()
    }

    /// Waits until it has said this, and nothing else, to standard error.
    #[track_caller]
    pub(crate) fn wait_for_err(&self, want: &str) {
        wait_for(want, || (self.err() == want).then_some(()));
    }

    /// What it has said to standard error.
    pub(crate) fn err(&self) -> String {
        self.err.text()
    }

    /// The process that was started: the supervisor, where the program serves.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// The process that serves.
    pub(crate) fn server(&self) -> Pid {
        self.child_named("tarpon-server")
    }

    /// The process that watches and builds the site.
    pub(crate) fn builder(&self) -> Pid {
        self.child_named("tarpon-keeper")
    }

    /// The child with this name: there is one, or soon will be.
    fn child_named(&self, name: &str) -> Pid {
        wait_for(name, || {
            self.child_pids().into_iter().find(|&pid| process_name(pid).as_deref() == Some(name))
        })
    }

    /// The processes that it has started and that have not ended.
    pub(crate) fn child_pids(&self) -> Vec<Pid> {
        children(self.pid())
    }

    /// Sends a signal. The child has not been waited for, so the number is still its own.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("a child that runs");
    }

    /// Whether it still runs.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_none()
    }

    /// Waits for its end, and for the last of what it says.
    #[track_caller]
    pub(crate) fn wait(mut self) -> ProgramExit {
        let status = wait_for("the program ends", || self.child.try_wait().expect("a child"));
        ProgramExit { status, out: self.out.all(), err: self.err.all() }
    }

    /// How many connections of its first address it has accepted and not closed. proc(5), /proc/net/tcp: a
    /// socket that no process holds has no inode.
    pub(crate) fn connection_count(&self) -> usize {
        const LISTENS: &str = "0A";
        let at = format!(":{:04X}", self.address().port());
        let table = fs::read_to_string("/proc/net/tcp").expect("the table of the kernel");
        let rows = table.lines().skip(1).map(|row| row.split_whitespace().collect::<Vec<_>>());
        rows.filter(|row| row[1].ends_with(&at) && row[3] != LISTENS && row[9] != "0").count()
    }

    /// Processor time it has used, with the processes it has started, in clock ticks: hundredths of a second. proc(5),
    /// fields 14 and 15.
    pub(crate) fn cpu_ticks(&self) -> u64 {
        let ticks = |pid: Pid| {
            let stat =
                fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).expect("one that runs");
            let (_, behind) = stat.rsplit_once(')').expect("the name in parentheses");
            let fields: Vec<&str> = behind.split_whitespace().collect();
            [fields[11], fields[12]].iter().map(|ticks| ticks.parse::<u64>().expect("a number")).sum::<u64>()
        };
        self.child_pids().into_iter().chain([self.pid()]).map(ticks).sum()
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        // It has ended, or is ended now, and with it what it has started.
        let parts = self.child_pids();
        let _ = self.child.kill();
        let _ = self.child.wait();
        for part in parts {
            wait_for("the end of what it has started", || has_exited(part).then_some(()));
        }
    }
}

/// A program that has taken the place of another: no child of the test. It is killed when this is dropped.
pub(crate) struct UpgradedProgram(pub(crate) Pid);

impl UpgradedProgram {
    /// That of which `tarpon upgrade` tells.
    #[track_caller]
    pub(crate) fn from_output(out: &str) -> UpgradedProgram {
        let id = out.strip_prefix("upgraded: process ").and_then(|rest| rest.split_once(',')?.0.parse().ok());
        UpgradedProgram(id.and_then(Pid::from_raw).unwrap_or_else(|| panic!("no process is told: {out}")))
    }

    /// It shall end, and has.
    pub(crate) fn end(self) {
        kill_process(self.0, Signal::TERM).expect("one that runs");
        wait_for("the end of a successor", || has_exited(self.0).then_some(()));
    }
}

impl Drop for UpgradedProgram {
    fn drop(&mut self) {
        // Its processes end with it. It may have ended itself, and its number is not used again so soon.
        let _ = kill_process(self.0, Signal::KILL);
        wait_for("the end of a successor", || has_exited(self.0).then_some(()));
    }
}

/// The children of a process that has one thread. proc(5), /proc/pid/task/tid/children.
pub(crate) fn children(parent: Pid) -> Vec<Pid> {
    let id = parent.as_raw_nonzero();
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    let ids = children.split_whitespace().map(|id| id.parse().expect("a number"));
    ids.filter_map(Pid::from_raw).collect()
}

/// What a process is called. proc(5), /proc/pid/comm.
pub(crate) fn process_name(pid: Pid) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero())).ok()?;
    Some(name.trim_end().to_owned())
}

/// Whether a process is no more, or nothing of it is left but its exit status. proc(5), /proc/pid/stat.
pub(crate) fn has_exited(pid: Pid) -> bool {
    match fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())) {
        Ok(stat) => {
            stat.rsplit_once(')').is_some_and(|(_, behind)| behind.trim_start().starts_with(['Z', 'X']))
        }
        Err(_) => true,
    }
}

impl ProgramExit {
    /// The only line of standard error.
    #[track_caller]
    pub(crate) fn error_line(&self) -> &str {
        let mut lines = self.err.lines();
        let line = lines.next().expect("an error");
        assert_eq!(lines.next(), None, "one line: {self:?}");
        line
    }
}

/// What comes out of a pipe, read as it comes.
struct OutputReader {
    text: Arc<Mutex<Vec<u8>>>,
    reader: thread::JoinHandle<()>,
}

impl OutputReader {
    fn start(mut pipe: impl Read + Send + 'static) -> OutputReader {
        let text = Arc::new(Mutex::new(Vec::new()));
        let to = text.clone();
        let reader = thread::spawn(move || {
            let mut block = [0; 4096];
            while let Ok(len @ 1..) = pipe.read(&mut block) {
                to.lock().expect("a reader").extend_from_slice(&block[..len]);
            }
        });
        OutputReader { text, reader }
    }

    fn text(&self) -> String {
        String::from_utf8(self.text.lock().expect("a reader").clone()).expect("what it says is UTF-8")
    }

    fn all(&mut self) -> String {
        let reader = std::mem::replace(&mut self.reader, thread::spawn(|| ()));
        reader.join().expect("a reader");
        self.text()
    }
}
