//! The program `tarpon` as a child process that is killed when its value is dropped.

use super::{
    SERVER_TIMEOUT,
    client::{TestClient, get},
    faults::FAULTS_VARIABLE,
    is_disconnect, kernel, wait_for, workers,
};
use rustix::{
    process::{Pid, Signal, kill_process},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};
use std::{
    env,
    ffi::OsStr,
    fs::{self, File},
    io::{self, Read},
    net::{SocketAddr, TcpListener},
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

/// A child process running `tarpon`.
pub(crate) struct RunningProgram {
    child: Child,
    out: OutputReader,
    err: OutputReader,
}

/// The exit status and output of a program.
#[derive(Debug)]
pub(crate) struct ProgramExit {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Returns the command `tarpon serve`, on a free local port unless the options name an address. Scales the `--workers`
/// option with [`workers`].
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

/// Like [`serve`], but leaves the `--workers` option unchanged.
pub(crate) fn serve_exactly(dir: &Path, options: &[&str]) -> Command {
    let mut command = tarpon(["serve".as_ref(), dir.as_os_str()]);
    if !options.contains(&"--listen") {
        command.args(["--listen", "127.0.0.1:0"]);
    }
    if !options.contains(&"--admin") {
        command.args(["--admin", "off"]);
    }
    command.args(options);
    with_long_timeouts(&mut command);
    with_human_log(&mut command);
    command
}

/// Returns the command `tarpon serve` with this text as its configuration file, in this directory. Without an admin listener
/// unless the options name one.
pub(crate) fn serve_config(config: &str, dir: &Path, options: &[&str]) -> Command {
    let file = dir.join("tarpon.toml");
    fs::write(&file, config).expect("a file");
    let mut command = tarpon([OsStr::new("serve"), OsStr::new("--config"), file.as_os_str()]);
    if !options.contains(&"--admin") {
        command.args(["--admin", "off"]);
    }
    command.args(options);
    with_long_timeouts(&mut command);
    command
}

/// Sets each timeout that the command does not name to [`SERVER_TIMEOUT`].
pub(crate) fn with_long_timeouts(command: &mut Command) {
    let timeout = format!("{}s", SERVER_TIMEOUT.as_secs());
    for option in ["--header-timeout", "--body-timeout", "--idle-timeout", "--send-timeout"] {
        if !command.get_args().any(|argument| argument == option) {
            command.args([option, &timeout]);
        }
    }
}

/// Selects the log format for humans unless the command names one, because tests parse the banner.
fn with_human_log(command: &mut Command) {
    if !command.get_args().any(|argument| argument == "--log-format") {
        command.args(["--log-format", "human"]);
    }
}

/// Returns the command `tarpon` with these arguments. Its sites stay as they are: background compression would change responses at any time.
pub(crate) fn tarpon<'a>(arguments: impl IntoIterator<Item = &'a OsStr>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tarpon"));
    command.args(arguments).env("TARPON_COMPRESS", "off");
    command
}

/// Runs a command through a wrapper that executes it in its own place, such as `prlimit` or `setpriv`.
pub(crate) fn wrap_command(wrapper: &[&str], command: &Command) -> Command {
    let mut wrapped = Command::new(wrapper[0]);
    wrapped.args(&wrapper[1..]).arg(command.get_program()).args(command.get_args());
    wrapped.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(dir) = command.get_current_dir() {
        wrapped.current_dir(dir);
    }
    wrapped
}

/// Returns options that keep the server running as the user of the test. Some systems do not let root change the limits
/// of processes of another user.
pub(crate) fn without_user_change() -> &'static [&'static str] {
    if rustix::process::geteuid().is_root() { &["--user", "root"] } else { &[] }
}

/// Removes root's capability to bypass file modes from a command.
pub(crate) fn unprivileged(command: &Command) -> Command {
    let probe = tempfile::NamedTempFile::new().expect("a file");
    fs::set_permissions(probe.path(), fs::Permissions::from_mode(0o000)).expect("a file of this user");
    let dropped = "-dac_override,-dac_read_search";
    match fs::read(probe.path()) {
        Ok(_) => wrap_command(&["setpriv", "--inh-caps", dropped, "--bounding-set", dropped], command),
        Err(_) => wrap_command(&["env"], command),
    }
}

impl RunningProgram {
    /// Starts the program.
    pub(crate) fn start(command: Command) -> RunningProgram {
        RunningProgram::spawn(command, Stdio::null())
    }

    /// Starts the program with this standard input.
    pub(crate) fn start_with_stdin(command: Command, input: OwnedFd) -> RunningProgram {
        RunningProgram::spawn(command, input.into())
    }

    /// Starts the program with this listener, as systemd hands it over. sd_listen_fds(3).
    pub(crate) fn start_with_listener(command: &Command, listener: &TcpListener) -> RunningProgram {
        let hand = "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\"";
        let command = wrap_command(&["bash", "-c", hand, "systemd"], command);
        RunningProgram::start_with_stdin(command, listener.try_clone().expect("a descriptor").into())
    }

    fn spawn(mut command: Command, input: Stdio) -> RunningProgram {
        command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
        // ETXTBSY: a child that another test forked may still hold a descriptor of the executable that this test wrote.
        let mut child = wait_for("an executable that no process writes", || match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => None,
            child => Some(child),
        })
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let out = OutputReader::start(child.stdout.take().expect("a pipe"));
        let err = OutputReader::start(child.stderr.take().expect("a pipe"));
        RunningProgram { child, out, err }
    }

    /// Starts the program on a terminal. [`out`](RunningProgram::out) returns all output. pty(7).
    pub(crate) fn start_on_terminal(command: Command) -> RunningProgram {
        RunningProgram::start_with_keys(command, Some(Stdio::null())).0
    }

    /// Starts the program on a terminal, with this standard input. `None`: that terminal, of 80 columns and 24 rows. Returns the master and
    /// the slave end of the terminal, too.
    pub(crate) fn start_with_keys(
        mut command: Command,
        input: Option<Stdio>,
    ) -> (RunningProgram, File, File) {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&master).and_then(|()| unlockpt(&master)).expect("a terminal of this user");
        let path = ptsname(&master, Vec::new()).expect("a terminal name");
        let slave = File::options().read(true).write(true).open(OsStr::from_bytes(path.to_bytes()));
        let slave = slave.expect("the slave end");
        command.env("TERM", "xterm").env_remove("NO_COLOR");
        let duplicate = || slave.try_clone().expect("a descriptor");
        if input.is_none() {
            let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
            tcsetwinsize(&slave, size).expect("a size");
        }
        command.stdin(input.unwrap_or_else(|| duplicate().into())).stdout(duplicate()).stderr(duplicate());
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        // The program has its own descriptors: the end of the terminal is an error once it has ended.
        drop(command);
        let keys = File::from(master.try_clone().expect("a descriptor"));
        let program = RunningProgram {
            child,
            out: OutputReader::start(File::from(master)),
            err: OutputReader::start(io::empty()),
        };
        (program, keys, slave)
    }

    /// Starts the program and waits for its banner.
    pub(crate) fn start_ready(mut command: Command) -> RunningProgram {
        with_human_log(&mut command);
        let mut program = RunningProgram::start(command);
        wait_for("the banner", || {
            let out = program.out.text();
            if !out.contains("Ctrl-C")
                && let Some(status) = program.child.try_wait().expect("a child")
            {
                panic!("the program exited, {status}: {} {}", program.out.text(), program.err.text());
            }
            out.contains("Ctrl-C").then_some(())
        });
        program
    }

    /// Runs the program until it exits.
    pub(crate) fn run(command: Command) -> ProgramExit {
        RunningProgram::start(command).wait()
    }

    /// Returns the first TCP address of the banner.
    pub(crate) fn address(&self) -> SocketAddr {
        self.addresses()[0]
    }

    /// Returns all TCP addresses of the banner.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        let out = self.out.text();
        let url = |line: &'_ str| {
            let line = line.trim();
            let rest = line.strip_prefix("http://").or_else(|| line.strip_prefix("https://"));
            rest.map(str::to_owned)
        };
        let urls = out.lines().filter_map(url);
        urls.map(|url| url.trim_end_matches('/').parse().expect("an address and a port")).collect()
    }

    /// Returns the standard output so far.
    pub(crate) fn out(&self) -> String {
        self.out.text()
    }

    /// Waits until standard error is exactly `want`.
    #[track_caller]
    pub(crate) fn wait_for_err(&self, want: &str) {
        wait_for(want, || (self.err() == want).then_some(()));
    }

    /// Returns the standard error so far. With injected faults a start may fail, is reported and tried again: then without these lines.
    pub(crate) fn err(&self) -> String {
        let text = self.err.text();
        match env::var_os(FAULTS_VARIABLE) {
            None => text,
            Some(_) => {
                text.split_inclusive('\n').filter(|line| !line.contains("; next attempt in ")).collect()
            }
        }
    }

    /// Returns a client that the server has accepted, after another server process was killed.
    ///
    /// The kernel frees the rings of a killed process later than the process. Until then it may accept a connection for such a ring, and
    /// reset it: then this function tries again.
    pub(crate) fn connect_after_kill(&self) -> TestClient {
        wait_for("a response on a new connection", || {
            let mut client = TestClient::connect(self.address());
            client.send(get("/"));
            match client.try_response() {
                Ok(_) => Some(client),
                Err(error) => {
                    assert!(is_disconnect(&error), "{error}");
                    None
                }
            }
        })
    }

    /// Returns the child process: for `tarpon serve`, the supervisor.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Waits for the server process and returns it.
    pub(crate) fn server(&self) -> Pid {
        self.child_named(&["tarpon-server", "tarpon-master"])
    }

    /// Waits for the builder process and returns it.
    pub(crate) fn builder(&self) -> Pid {
        self.child_named(&["tarpon-builder"])
    }

    /// Waits for a child with one of these names.
    fn child_named(&self, names: &[&str]) -> Pid {
        wait_for(names[0], || {
            let is_named = |pid: &Pid| process_name(*pid).is_some_and(|name| names.contains(&&*name));
            self.child_pids().into_iter().find(is_named)
        })
    }

    /// Returns the running children of the supervisor.
    pub(crate) fn child_pids(&self) -> Vec<Pid> {
        children(self.pid())
    }

    /// Sends a signal. The child is not reaped yet, so the process ID is valid.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("a child that runs");
    }

    /// Returns whether the program is still running.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_none()
    }

    /// Waits until the program exits and returns all output.
    #[track_caller]
    pub(crate) fn wait(mut self) -> ProgramExit {
        let status = wait_for("the program exits", || self.child.try_wait().expect("a child"));
        ProgramExit { status, out: self.out.all(), err: self.err.all() }
    }

    /// Counts the accepted connections on the first address.
    pub(crate) fn connection_count(&self) -> usize {
        kernel::connection_count(self.address().port())
    }

    /// Returns the program and all its descendants.
    pub(crate) fn processes(&self) -> Vec<Pid> {
        [vec![self.pid()], descendants(self.pid())].concat()
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        // The children of a killed supervisor exit on their own.
        let children = self.child_pids();
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("standard error of the server:\n{}", self.err());
        }
        for child in children {
            wait_for("the children exit", || has_exited(child).then_some(()));
        }
    }
}

/// The program after `tarpon upgrade`: not a child of the test. The value kills it when dropped.
pub(crate) struct UpgradedProgram(pub(crate) Pid);

impl UpgradedProgram {
    /// Parses the process ID from the output of `tarpon upgrade`.
    #[track_caller]
    pub(crate) fn from_output(out: &str) -> UpgradedProgram {
        let id = out.strip_prefix("upgraded: process ").and_then(|rest| rest.split_once(',')?.0.parse().ok());
        UpgradedProgram(id.and_then(Pid::from_raw).unwrap_or_else(|| panic!("no process ID in: {out}")))
    }

    /// Terminates the program and waits until it exits.
    pub(crate) fn stop(self) {
        kill_process(self.0, Signal::TERM).expect("a running process");
        wait_for("the upgraded program exits", || has_exited(self.0).then_some(()));
    }
}

impl Drop for UpgradedProgram {
    fn drop(&mut self) {
        // Fails if the program has exited already; the kernel does not reuse a process ID that soon.
        let _ = kill_process(self.0, Signal::KILL);
        wait_for("the upgraded program exits", || has_exited(self.0).then_some(()));
    }
}

/// Suspends a process, and waits until each of its threads has stopped. proc(5), /proc/pid/task/tid/stat.
pub(crate) fn suspend(pid: Pid) {
    kill_process(pid, Signal::STOP).expect("a running process");
    wait_for("all threads stop", || {
        let threads =
            fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())).expect("a running process");
        let is_stopped = |thread: io::Result<fs::DirEntry>| {
            let stat = fs::read_to_string(thread.ok()?.path().join("stat")).ok()?;
            stat.rsplit_once(") ")?.1.starts_with('T').then_some(())
        };
        threads.map(is_stopped).collect::<Option<Vec<()>>>().map(drop)
    });
}

/// Returns the children of a single-threaded process. proc(5), /proc/pid/task/tid/children.
pub(crate) fn children(parent: Pid) -> Vec<Pid> {
    let id = parent.as_raw_nonzero();
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    let ids = children.split_whitespace().map(|id| id.parse().expect("a number"));
    ids.filter_map(Pid::from_raw).collect()
}

/// Returns the children of a process, their children and so on. Reads all processes, as the list of the children of one may lack some
/// while others exit. proc(5), /proc/pid/stat.
fn descendants(parent: Pid) -> Vec<Pid> {
    let of = |entry: fs::DirEntry| {
        let id = entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw)?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let parent = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok().and_then(Pid::from_raw)?;
        Some((id, parent))
    };
    let all: Vec<_> = fs::read_dir("/proc").expect("a directory").flatten().filter_map(of).collect();
    let mut found = vec![parent];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        found.extend(all.iter().filter(|(_, of)| *of == parent).map(|(id, _)| id));
        next += 1;
    }
    found.split_off(1)
}

/// Returns the name of a process. proc(5), /proc/pid/comm.
pub(crate) fn process_name(pid: Pid) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero())).ok()?;
    Some(name.trim_end().to_owned())
}

/// Returns whether a process has exited with all its threads, reaped or not. The kernel closes its descriptors when its last thread exits,
/// which may be later than the first one. proc(5), /proc/pid/stat, /proc/pid/task.
pub(crate) fn has_exited(pid: Pid) -> bool {
    let of = |what: &str| format!("/proc/{}/{what}", pid.as_raw_nonzero());
    let thread_count = fs::read_dir(of("task")).map_or(0, Iterator::count);
    match fs::read_to_string(of("stat")) {
        Ok(stat) => {
            let is_zombie =
                stat.rsplit_once(')').is_some_and(|(_, behind)| behind.trim_start().starts_with(['Z', 'X']));
            is_zombie && thread_count <= 1
        }
        Err(_) => true,
    }
}

impl ProgramExit {
    /// Returns the only line of standard error, but for the step that long work reports after ten seconds on a busy machine.
    #[track_caller]
    pub(crate) fn error_line(&self) -> &str {
        let mut lines = self.err.lines().filter(|line| *line != "reading");
        let line = lines.next().expect("an error message");
        assert_eq!(lines.next(), None, "one line: {self:?}");
        line
    }
}

/// A thread that collects the output of a pipe.
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
            while let Some(len @ 1..) = read_uninterrupted(&mut pipe, &mut block) {
                to.lock().expect("a reader").extend_from_slice(&block[..len]);
            }
        });
        OutputReader { text, reader }
    }

    fn text(&self) -> String {
        let mut bytes = self.text.lock().expect("a reader").clone();
        // The rest of the last character may follow.
        if let Err(error) = str::from_utf8(&bytes)
            && error.error_len().is_none()
        {
            bytes.truncate(error.valid_up_to());
        }
        String::from_utf8(bytes).expect("UTF-8 output")
    }

    fn all(&mut self) -> String {
        let reader = std::mem::replace(&mut self.reader, thread::spawn(|| ()));
        reader.join().expect("a reader");
        self.text()
    }
}

/// Reads once. `None`: an error, but not a signal.
fn read_uninterrupted(from: &mut impl Read, to: &mut [u8]) -> Option<usize> {
    loop {
        match from.read(to) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read.ok(),
        }
    }
}
