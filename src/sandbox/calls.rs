//! seccomp: which system calls a process may make. What is not named here ends it, and is said: see `sys/forbidden.rs`.
//!
//! ```text
//! server   COMMON + SERVING + BEGINNING ─ workers have begun ─▶ COMMON + SERVING
//! keeper   COMMON + KEEPING
//! control  COMMON + SERVING + BEGINNING + DIVIDING ─ forked ─▶ worker: less BEGINNING, DIVIDING
//!                                                           └▶ desk: as a server
//! ```
//!
//! The calls of the hot path are allowed whatever their arguments, which the kernel then knows without running the filter.

use crate::sys::forbidden;
use libc::c_long;
use rustix::process::getpid;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Is, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter, apply_filter_all_threads,
};
use std::{collections::BTreeMap, env::consts::ARCH, io};

/// For a server that has not begun: to make threads and rings.
pub(super) fn allow_beginning() -> io::Result<()> {
    forbidden::say_and_die()?;
    refuse_files()?;
    apply(&allow(&[COMMON, SERVING, FILES, BEGINNING], &[&common_arguments(), &threads()])?)
}

/// For all threads of a server that has begun.
pub(super) fn allow_serving() -> io::Result<()> {
    let rules = allow(&[COMMON, SERVING, FILES], &[&common_arguments()])?;
    apply_filter_all_threads(&rules).map_err(in_io)
}

/// For the process that controls a server's worker processes, for as long as it lives: to make a desk, which has threads, and
/// workers, again and again.
pub(super) fn allow_controlling() -> io::Result<()> {
    forbidden::say_and_die()?;
    refuse_files()?;
    apply(&allow(
        &[COMMON, SERVING, FILES, BEGINNING, DIVIDING],
        &[&common_arguments(), &threads(), &dividing()],
    )?)
}

/// What a worker process is forbidden that its parent may. Made once, for all of them: with few lines, as it is a part of what a
/// process costs.
#[derive(Debug)]
pub(super) struct Narrowing(BpfProgram);

impl Narrowing {
    pub(super) fn new() -> io::Result<Narrowing> {
        // And a signal to itself: that is its parent there, as the number is that of who has made the filter.
        let making = [libc::SYS_clone, libc::SYS_clone3, libc::SYS_tgkill];
        let calls = [BEGINNING, DIVIDING, &making].into_iter().flatten().map(|&call| (call, Vec::new()));
        Ok(Narrowing(compile(calls.collect(), SeccompAction::Allow, SeccompAction::Trap)?))
    }

    /// For this process from now on.
    pub(super) fn apply(&self) -> io::Result<()> {
        apply(&self.0)
    }
}

/// For the keeper.
pub(super) fn allow_keeping() -> io::Result<()> {
    forbidden::say_and_die()?;
    apply(&allow(&[COMMON, KEEPING], &[&common_arguments(), &threads(), &reading()])?)
}

fn apply(rules: &BpfProgram) -> io::Result<()> {
    apply_filter(rules).map_err(in_io)
}

/// A call with conditions on its arguments, of which all must hold.
type Conditional = (c_long, Vec<SeccompCondition>);

/// Whatever a process does.
#[rustfmt::skip]
const COMMON: &[c_long] = &[
    // Memory.
    libc::SYS_munmap, libc::SYS_mremap, libc::SYS_madvise, libc::SYS_mlock, libc::SYS_brk,
    // Threads that wait for each other, and end.
    libc::SYS_futex, libc::SYS_sched_yield, libc::SYS_exit, libc::SYS_exit_group, libc::SYS_restart_syscall,
    libc::SYS_membarrier, libc::SYS_gettid, libc::SYS_getpid, libc::SYS_getppid, libc::SYS_set_robust_list, libc::SYS_rseq,
    // Time and chance.
    libc::SYS_clock_gettime, libc::SYS_clock_getres, libc::SYS_gettimeofday, libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep, libc::SYS_getrandom,
    // Signals to itself: SIGBUS, and the end.
    libc::SYS_rt_sigaction, libc::SYS_rt_sigprocmask, libc::SYS_rt_sigreturn, libc::SYS_sigaltstack,
    // Descriptors that are open.
    libc::SYS_read, libc::SYS_readv, libc::SYS_pread64, libc::SYS_preadv, libc::SYS_preadv2, libc::SYS_write,
    libc::SYS_writev, libc::SYS_lseek, libc::SYS_close, libc::SYS_fcntl, libc::SYS_fstat, libc::SYS_statx, libc::SYS_newfstatat,
    libc::SYS_fadvise64, libc::SYS_dup,
    // The channel to the supervisor.
    libc::SYS_sendmsg, libc::SYS_recvmsg,
    // Waiting.
    libc::SYS_ppoll, libc::SYS_epoll_ctl, libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2,
    #[cfg(target_arch = "x86_64")] libc::SYS_poll,
    #[cfg(target_arch = "x86_64")] libc::SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")] libc::SYS_time,
];

/// Serving clients on sockets that listen already.
#[rustfmt::skip]
const SERVING: &[c_long] = &[
    libc::SYS_accept4, libc::SYS_recvfrom, libc::SYS_sendto, libc::SYS_sendfile, libc::SYS_shutdown,
    libc::SYS_setsockopt, libc::SYS_getsockopt, libc::SYS_getsockname, libc::SYS_getpeername,
    libc::SYS_io_uring_enter, libc::SYS_io_uring_register, CACHESTAT,
    // Threads that are only just beginning ask where their stack lies.
    libc::SYS_sched_getaffinity,
];

/// What a server needs besides until its workers have begun.
#[rustfmt::skip]
const BEGINNING: &[c_long] = &[
    libc::SYS_io_uring_setup, libc::SYS_eventfd2, libc::SYS_epoll_create1, libc::SYS_sched_setaffinity,
    libc::SYS_seccomp,
];

/// Making processes, with a channel to each, and learning how they ended.
#[rustfmt::skip]
const DIVIDING: &[c_long] = &[
    libc::SYS_socketpair, libc::SYS_close_range, libc::SYS_wait4,
    // Of musl.
    #[cfg(target_arch = "x86_64")] libc::SYS_fork,
];

/// Watching and building sites.
#[rustfmt::skip]
const KEEPING: &[c_long] = &[
    // Names and directories; Landlock says which.
    libc::SYS_readlinkat, libc::SYS_getdents64, libc::SYS_faccessat, libc::SYS_faccessat2,
    libc::SYS_getcwd,
    #[cfg(target_arch = "x86_64")] libc::SYS_stat,
    #[cfg(target_arch = "x86_64")] libc::SYS_lstat,
    #[cfg(target_arch = "x86_64")] libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")] libc::SYS_access,
    // Telling of changes.
    libc::SYS_inotify_init1, libc::SYS_inotify_add_watch, libc::SYS_inotify_rm_watch, libc::SYS_epoll_create1,
    libc::SYS_eventfd2,
    // Images, in memory.
    libc::SYS_memfd_create, libc::SYS_ftruncate, libc::SYS_fallocate, libc::SYS_copy_file_range, libc::SYS_sendfile,
    libc::SYS_splice, libc::SYS_pwrite64, libc::SYS_pwritev,
    // How many threads are worth it.
    libc::SYS_sched_getaffinity,
];

/// Linux 6.5; the same on every architecture that Rust knows.
const CACHESTAT: c_long = 451;

/// Allowed to every process, with these arguments alone.
fn common_arguments() -> Vec<Conditional> {
    let not_executable = |call| (call, vec![masked(2, libc::PROT_EXEC as u64, 0)]);
    let ioctl = |request: libc::Ioctl| (libc::SYS_ioctl, vec![equal(1, request as u32 as u64)]);
    vec![
        not_executable(libc::SYS_mmap),
        not_executable(libc::SYS_mprotect),
        ioctl(libc::FIONBIO),
        ioctl(libc::TIOCOUTQ),
        // Whether standard output is a terminal, and how wide.
        ioctl(libc::TCGETS),
        ioctl(libc::TIOCGWINSZ),
        // Its own limits, to be read.
        (libc::SYS_prlimit64, vec![equal(0, 0), equal(2, 0)]),
        // What the kernel told the program when it began: the size of a page.
        (libc::SYS_prctl, vec![equal(0, PR_GET_AUXV)]),
        // What a thread is called.
        (libc::SYS_prctl, vec![equal(0, libc::PR_SET_NAME as u64)]),
        // A signal to itself.
        (libc::SYS_tgkill, vec![equal(0, getpid().as_raw_nonzero().get() as u64)]),
    ]
}

/// Allowed to who makes threads: none of these may have other namespaces, or be a process.
fn threads() -> Vec<Conditional> {
    vec![
        (libc::SYS_clone, vec![masked(0, libc::CLONE_THREAD as u64, libc::CLONE_THREAD as u64)]),
        // Its arguments lie in memory, where a filter cannot look.
        (libc::SYS_clone3, Vec::new()),
        (libc::SYS_prctl, vec![equal(0, PR_SET_VMA)]),
        // Comes with each further filter.
        (libc::SYS_prctl, vec![equal(0, libc::PR_SET_NO_NEW_PRIVS as u64)]),
    ]
}

/// Linux 6.4; before, the kernel says that there is no such thing.
const PR_GET_AUXV: u64 = 0x4155_5856;

/// Names what memory is for, which allocators do.
const PR_SET_VMA: u64 = 0x5356_4d41;

/// Allowed to who makes processes: they have a memory of their own, and the same namespaces.
fn dividing() -> Vec<Conditional> {
    let flags = libc::CLONE_CHILD_SETTID | libc::CLONE_CHILD_CLEARTID;
    let only = |flags: libc::c_int| (libc::SYS_clone, vec![equal(0, (flags | libc::SIGCHLD) as u64)]);
    // As glibc does, and as musl does.
    let follow_into_death = (libc::SYS_prctl, vec![equal(0, libc::PR_SET_PDEATHSIG as u64)]);
    vec![only(flags), only(0), follow_into_death]
}

/// Opens files to read them, and no others.
fn reading() -> Vec<Conditional> {
    // Not O_ACCMODE, which has O_PATH too with musl.
    let mode = (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC) as u64;
    vec![
        (libc::SYS_openat, vec![masked(2, mode, libc::O_RDONLY as u64)]),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_open, vec![masked(1, mode, libc::O_RDONLY as u64)]),
    ]
}

/// A filter by itself: who opens a file by its name is told that it may not. The C library does, to see how much memory there is,
/// and so does who tells of a panic; they go on without. Of several filters the one that refuses counts.
fn refuse_files() -> io::Result<()> {
    let calls = FILES.iter().map(|&call| (call, Vec::new())).collect();
    let refused = SeccompAction::Errno(libc::EACCES as u32);
    let rules = compile(calls, SeccompAction::Allow, refused)?;
    apply(&rules)
}

/// Passed on by the other filters, to be refused by that one.
#[rustfmt::skip]
const FILES: &[c_long] = &[
    libc::SYS_openat, libc::SYS_readlinkat, libc::SYS_getcwd,
    #[cfg(target_arch = "x86_64")] libc::SYS_open,
    #[cfg(target_arch = "x86_64")] libc::SYS_readlink,
];

/// A filter that traps what is in none of these.
fn allow(calls: &[&[c_long]], conditional: &[&[Conditional]]) -> io::Result<BpfProgram> {
    let mut rules: BTreeMap<c_long, Vec<SeccompRule>> = BTreeMap::new();
    for (call, conditions) in conditional.iter().copied().flatten() {
        let rules = rules.entry(*call).or_default();
        if !conditions.is_empty() {
            rules.push(SeccompRule::new(conditions.clone()).map_err(io::Error::other)?);
        }
    }
    // No rule: whatever the arguments.
    rules.extend(calls.iter().copied().flatten().map(|&call| (call, Vec::new())));
    compile(rules, SeccompAction::Trap, SeccompAction::Allow)
}

fn compile(
    rules: BTreeMap<c_long, Vec<SeccompRule>>,
    others: SeccompAction,
    these: SeccompAction,
) -> io::Result<BpfProgram> {
    let arch = ARCH.try_into().map_err(|_| io::Error::from(rustix::io::Errno::NOSYS))?;
    let filter = SeccompFilter::new(rules, others, these, arch).map_err(io::Error::other)?;
    filter.try_into().map_err(io::Error::other)
}

/// An argument that has this value.
fn equal(argument: u8, value: u64) -> SeccompCondition {
    SeccompCondition::new(argument, Len::Dword, Is::Eq, value).expect("calls have six arguments")
}

/// An argument of which these bits are so.
fn masked(argument: u8, mask: u64, value: u64) -> SeccompCondition {
    SeccompCondition::new(argument, Len::Dword, Is::MaskedEq(mask), value).expect("calls have six arguments")
}

fn in_io(error: seccompiler::Error) -> io::Error {
    match error {
        seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error) => error,
        error => io::Error::other(error),
    }
}
