//! Starts programs at a cost that does not depend on the memory of this process: clone(2) with `CLONE_VM | CLONE_VFORK`, as posix_spawn(3)
//! does, which has neither resource limits nor Landlock.
//!
//! ```text
//! parent ─ clone ─▶ waits ──────────────────────────────────────────────▶ goes on, with a pidfd
//!             └──▶ child: streams, limits, directory, Landlock ─ execve ─┘
//! ```
//!
//! The child shares the memory of the parent until execve(2), on a stack of its own, and makes system calls only.

use libc::{c_char, c_int, c_void};
use rustix::fs::OFlags;
use std::{
    ffi::{CStr, CString},
    io, iter,
    mem::{self, MaybeUninit},
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    ptr,
};

/// How the directory of a program is opened: the right to search it is enough.
pub(crate) const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A program to start.
#[derive(Debug)]
pub(crate) struct SpawnPlan<'a> {
    /// The directory in which it runs.
    pub(crate) directory: BorrowedFd<'a>,
    /// Its file, a path that begins at the directory.
    pub(crate) program: &'a CStr,
    /// Its arguments, the first of which is its name.
    pub(crate) arguments: &'a [CString],
    /// Its whole environment: `NAME=value`.
    pub(crate) environment: &'a [CString],
    /// Standard input, output and error, in this order.
    pub(crate) streams: [BorrowedFd<'a>; 3],
    pub(crate) limits: &'a [ProgramLimit],
    /// Landlock rules that the program gets. The caller has set no_new_privs.
    pub(crate) rules: Option<BorrowedFd<'a>>,
}

/// A limit of a program: setrlimit(2).
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProgramLimit {
    resource: LimitedResource,
    value: u64,
}

#[cfg(target_env = "gnu")]
type LimitedResource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type LimitedResource = c_int;

impl ProgramLimit {
    /// Limits the time of the processor, in seconds. A program that catches the first signal is killed a second later.
    pub(crate) fn cpu_s(value: u64) -> ProgramLimit {
        ProgramLimit { resource: libc::RLIMIT_CPU, value }
    }

    /// Limits the address space, in bytes.
    pub(crate) fn memory(value: u64) -> ProgramLimit {
        ProgramLimit { resource: libc::RLIMIT_AS, value }
    }

    /// Limits the number of open files.
    pub(crate) fn open_files(value: u64) -> ProgramLimit {
        ProgramLimit { resource: libc::RLIMIT_NOFILE, value }
    }

    /// Limits the length of files that it writes.
    pub(crate) fn file_len(value: u64) -> ProgramLimit {
        ProgramLimit { resource: libc::RLIMIT_FSIZE, value }
    }

    /// Limits the number of processes of its user.
    pub(crate) fn processes(value: u64) -> ProgramLimit {
        ProgramLimit { resource: libc::RLIMIT_NPROC, value }
    }

    /// Writes no core files: they would lie in the directory of the programs.
    pub(crate) fn no_core() -> ProgramLimit {
        ProgramLimit { resource: libc::RLIMIT_CORE, value: 0 }
    }
}

/// A started program. It leads a session and a process group of its own, and is killed when this process exits.
#[derive(Debug)]
pub(crate) struct Spawned {
    /// Readable once the program has exited.
    pub(crate) pidfd: OwnedFd,
    pid: libc::pid_t,
}

/// How a program has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProgramEnd {
    /// With this exit status.
    Exited(i32),
    /// By this signal.
    Killed(i32),
}

/// What the child works with. Its pointers lead to memory that the caller of [`spawn`] borrows.
struct ChildPlan {
    directory: RawFd,
    program: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
    streams: [RawFd; 3],
    limits: *const ProgramLimit,
    limit_count: usize,
    /// -1: none.
    rules: RawFd,
    /// The error of the child, if it could not run the program.
    error: c_int,
}

/// Bytes of the stack of a child: it calls no function deeply.
const STACK_LEN: usize = 64 * 1024;

/// The alignment of a stack, on every architecture.
const STACK_ALIGN: usize = 16;

/// Starts a program.
///
/// # Errors
/// The system is short of processes or memory, or the program cannot be run: no such file, no permission, an unknown format.
pub(crate) fn spawn(plan: &SpawnPlan<'_>) -> io::Result<Spawned> {
    let pointers = |texts: &[CString]| -> Vec<*const c_char> {
        texts.iter().map(|text| text.as_ptr()).chain(iter::once(ptr::null())).collect()
    };
    let (arguments, environment) = (pointers(plan.arguments), pointers(plan.environment));
    let mut child = ChildPlan {
        directory: plan.directory.as_raw_fd(),
        program: plan.program.as_ptr(),
        arguments: arguments.as_ptr(),
        environment: environment.as_ptr(),
        streams: plan.streams.map(|stream| stream.as_raw_fd()),
        limits: plan.limits.as_ptr(),
        limit_count: plan.limits.len(),
        rules: plan.rules.map_or(-1, |rules| rules.as_raw_fd()),
        error: 0,
    };
    let mut stack = vec![MaybeUninit::<u8>::uninit(); STACK_LEN];
    let top = stack.as_mut_ptr_range().end;
    let top = top.wrapping_sub(top.addr() % STACK_ALIGN);
    let mut pidfd: RawFd = -1;
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD;
    let child_plan = ptr::from_mut(&mut child);
    let blocked = BlockedSignals::all();
    // SAFETY: the child runs `run_child` on `stack`, and this thread waits until the child has run a program or has exited
    // (CLONE_VFORK): so `stack`, `child` and all that they lead to outlive its accesses, and no two threads access them at once. All
    // signals are blocked: no handler runs in the child. The kernel writes the descriptor to `pidfd`.
    let pid = unsafe { libc::clone(run_child, top.cast(), flags, child_plan.cast(), &raw mut pidfd) };
    let failed = io::Error::last_os_error();
    drop(blocked);
    if pid == -1 {
        return Err(failed);
    }
    // SAFETY: the kernel has made this descriptor for this process, and no other code knows it.
    let spawned = Spawned { pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) }, pid };
    // SAFETY: the child accesses it no more. It wrote through a pointer, so the value is read through that, too.
    match unsafe { (*child_plan).error } {
        0 => Ok(spawned),
        error => {
            // It exits at once.
            spawned.reap();
            Err(io::Error::from_raw_os_error(error))
        }
    }
}

/// Runs in the child: makes system calls only, allocates nothing and never returns.
extern "C" fn run_child(plan: *mut c_void) -> c_int {
    let plan = plan.cast::<ChildPlan>();
    // SAFETY: the parent waits, and its plan is valid; see `spawn`. The calls touch the memory of the plan alone; descriptors, signal
    // actions, limits and rules of the child are its own, as it shares memory only.
    unsafe {
        (*plan).error = match prepare_child(&*plan) {
            Ok(()) => {
                libc::execve((*plan).program, (*plan).arguments, (*plan).environment);
                errno()
            }
            Err(error) => error,
        };
        libc::_exit(127)
    }
}

/// Prepares the child for its program. Returns the number of the first error.
///
/// # Safety
/// This is the child of [`spawn`], and the plan is valid.
unsafe fn prepare_child(plan: &ChildPlan) -> Result<(), c_int> {
    let check = |result: c_int| if result == -1 { Err(errno()) } else { Ok(()) };
    // SAFETY: as the caller says. The structures are plain numbers.
    unsafe {
        check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
        check(libc::setsid())?;
        // Rust programs ignore SIGPIPE, nohup(1) ignores SIGHUP, and the supervisor blocks signals: programs expect none of this.
        let mut default: libc::sigaction = mem::zeroed();
        default.sa_sigaction = libc::SIG_DFL;
        for signal in 1..=libc::SIGSYS {
            // Fails for SIGKILL and SIGSTOP, which have no other action.
            libc::sigaction(signal, &default, ptr::null_mut());
        }
        let mut none: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&mut none);
        check(libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut()))?;
        for (number, stream) in plan.streams.iter().enumerate() {
            check(libc::dup2(*stream, number as c_int))?;
        }
        check(libc::fchdir(plan.directory))?;
        for number in 0..plan.limit_count {
            let ProgramLimit { resource, value } = *plan.limits.add(number);
            let mut limit: libc::rlimit = mem::zeroed();
            check(libc::getrlimit(resource, &mut limit))?;
            // A limit that is lower already stays. The second signal for the time of the processor cannot be caught.
            let spare = if resource == libc::RLIMIT_CPU { 1 } else { 0 };
            limit.rlim_max = limit.rlim_max.min((value + spare) as libc::rlim_t);
            limit.rlim_cur = limit.rlim_max.min(value as libc::rlim_t);
            check(libc::setrlimit(resource, &limit))?;
        }
        if plan.rules >= 0 && libc::syscall(libc::SYS_landlock_restrict_self, plan.rules, 0) == -1 {
            return Err(errno());
        }
        if libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) == -1 {
            return Err(errno());
        }
    }
    Ok(())
}

/// Returns the number of the last error.
fn errno() -> c_int {
    // SAFETY: the C library returns a valid pointer.
    unsafe { *libc::__errno_location() }
}

impl Spawned {
    /// Kills the program, and all processes of its group: also after its exit, until it is reaped.
    pub(crate) fn kill_group(&self, signal: c_int) {
        // SAFETY: touches no memory. The kernel does not reuse the number of the group before this process reaps the leader.
        unsafe { libc::kill(-self.pid, signal) };
    }

    /// Returns how the program has ended, without reaping it. `None`: it runs.
    pub(crate) fn end(&self) -> Option<ProgramEnd> {
        // SAFETY: the structure is plain numbers, and the kernel writes it.
        let mut info: libc::siginfo_t = unsafe { mem::zeroed() };
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: as above.
        let done = unsafe { libc::waitid(libc::P_PID, self.pid as libc::id_t, &mut info, flags) };
        // SAFETY: zero without a child that has exited; otherwise the kernel has written these fields.
        let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
        match (done, pid, info.si_code) {
            (0, 0, _) => None,
            (0, _, libc::CLD_EXITED) => Some(ProgramEnd::Exited(status)),
            (0, ..) => Some(ProgramEnd::Killed(status)),
            // No such child: it is gone.
            _ => Some(ProgramEnd::Exited(0)),
        }
    }

    /// Reaps the program, which has exited or does at once.
    pub(crate) fn reap(self) {
        // SAFETY: the kernel writes nothing to a null pointer.
        while unsafe { libc::waitpid(self.pid, ptr::null_mut(), 0) } == -1 && errno() == libc::EINTR {}
    }
}

/// Keeps signals from this thread.
struct BlockedSignals(libc::sigset_t);

impl BlockedSignals {
    fn all() -> BlockedSignals {
        // SAFETY: the sets are plain numbers, which the calls write.
        unsafe {
            let (mut all, mut before) = (mem::zeroed(), mem::zeroed());
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
            BlockedSignals(before)
        }
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: reads the set.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs::File,
        io::Read,
        os::fd::{AsFd, IntoRawFd},
    };

    fn output_of(program: &str, limits: &[ProgramLimit]) -> io::Result<(String, ProgramEnd)> {
        let directory = File::open("/bin").unwrap();
        let null = File::open("/dev/null").unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        let arguments = ["sh", "-c", "ls /proc/self/fd; ulimit -t; ulimit -n; pwd; env; kill -PIPE $$"];
        let arguments = arguments.map(|text| CString::new(text).unwrap());
        let environment = [c"PATH=/usr/bin:/bin".to_owned()];
        let program = CString::new(program).unwrap();
        let spawned = spawn(&SpawnPlan {
            directory: directory.as_fd(),
            program: &program,
            arguments: &arguments,
            environment: &environment,
            streams: [null.as_fd(), writer.as_fd(), null.as_fd()],
            limits,
            rules: None,
        })?;
        drop(writer);
        let mut output = String::new();
        reader.read_to_string(&mut output).unwrap();
        let end = loop {
            match spawned.end() {
                Some(end) => break end,
                None => std::thread::yield_now(),
            }
        };
        spawned.reap();
        Ok((output, end))
    }

    #[test]
    fn program_gets_its_streams_limits_directory_and_environment_alone() {
        // One that a program must not inherit.
        let leaked = File::open("/dev/null").unwrap().into_raw_fd();
        rustix::io::fcntl_setfd(
            // SAFETY: the descriptor stays open.
            unsafe { BorrowedFd::borrow_raw(leaked) },
            rustix::io::FdFlags::empty(),
        )
        .unwrap();
        let limits = [ProgramLimit::cpu_s(7), ProgramLimit::open_files(30)];
        let (output, end) = output_of("./sh", &limits).unwrap();
        // The fourth is that of the directory which ls reads.
        assert!(output.starts_with("0\n1\n2\n3\n7\n30\n"), "{output}");
        assert!(output.contains("PATH=/usr/bin:/bin\n") && !output.contains("HOME="), "{output}");
        assert_eq!(end, ProgramEnd::Killed(libc::SIGPIPE));
    }

    #[test]
    fn program_that_cannot_run_is_an_error_and_leaves_no_process() {
        let error = output_of("./no-such-program", &[]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
