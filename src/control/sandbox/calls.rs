//! seccomp: which system calls a process may make. What is not named here ends it, and is said: see `sys/forbidden.rs`.
//!
//! ```text
//! server   COMMON + SERVING + BEGINNING + RINGS ─ workers have begun ─▶ COMMON + SERVING, and of RINGS what a ring in use needs
//! keeper   COMMON + KEEPING
//! control  COMMON + SERVING + BEGINNING + DIVIDING ─ forked ─▶ worker: less BEGINNING, DIVIDING
//!                                                           └▶ desk: as a server
//! ```
//!
//! The calls of the hot path are allowed whatever their arguments, which the kernel then knows without running the filter.
//!
//! An argument is compared as the kernel reads it: a pointer by all 64 bits, a number that the kernel takes for an `int` by the low
//! 32, since a caller may put anything above them. A filter cannot see what lies behind a pointer, so a call that takes a path is
//! refused as a whole: docs/decisions/0027-what-stat-tells.md.

use crate::{base::error::reason, sys::forbidden};
use libc::c_long;
use rustix::process::getpid;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Is, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter, apply_filter_all_threads,
};
use std::{collections::BTreeMap, env::consts::ARCH, io};

/// For a server that has not begun: to make threads and rings.
pub(super) fn allow_beginning() -> io::Result<()> {
    forbidden::report_and_die()?;
    apply_all(&[
        refuse_with_eacces()?,
        refuse_with_nosys()?,
        allow(&[COMMON, SERVING, REFUSED, BEGINNING, RINGS], &[&common(), &serving(), &threads()])?,
    ])
}

/// For all threads of a server that has begun, with rings of io_uring or without.
pub(super) fn allow_serving(has_rings: bool) -> io::Result<()> {
    let (enter, cancel) = rings_in_use();
    let (enter, cancel) = if has_rings { (&enter[..], &cancel[..]) } else { (&[][..], &[][..]) };
    let filter = allow(&[COMMON, SERVING, REFUSED, enter], &[&common(), &serving(), cancel])?;
    apply_filter_all_threads(&filter).map_err(after_another)
}

/// For the process that controls a server's worker processes, for as long as it lives: to make a desk, which has threads, and
/// workers, again and again.
pub(super) fn allow_controlling() -> io::Result<()> {
    forbidden::report_and_die()?;
    apply_all(&[
        refuse_with_eacces()?,
        refuse_with_nosys()?,
        allow(
            &[COMMON, SERVING, REFUSED, BEGINNING, DIVIDING],
            &[&common(), &serving(), &threads(), &dividing()],
        )?,
    ])
}

/// What a worker process is forbidden that its parent may. Made once, for all of them: with few lines, as it is a part of what a
/// process costs.
#[derive(Debug)]
pub(super) struct WorkerFilter(BpfProgram);

impl WorkerFilter {
    pub(super) fn new() -> io::Result<WorkerFilter> {
        // And a signal to itself: that is its parent there, as the number is that of who has made the filter.
        let making = [libc::SYS_clone, libc::SYS_clone3, libc::SYS_tgkill];
        let calls = [BEGINNING, DIVIDING, &making].into_iter().flatten().map(|&call| (call, Vec::new()));
        let others = [follow_into_death()];
        Ok(WorkerFilter(filter(calls.chain(others), SeccompAction::Allow, SeccompAction::Trap)?))
    }

    /// For this process from now on.
    pub(super) fn apply(&self) -> io::Result<()> {
        apply_filter(&self.0).map_err(after_another)
    }
}

/// For the keeper.
pub(super) fn allow_keeping() -> io::Result<()> {
    forbidden::report_and_die()?;
    apply_all(&[refuse_with_nosys()?, allow(&[COMMON, KEEPING], &[&common(), &threads(), &reading()])?])
}

/// Applies filters, one behind the other. The first shows whether the host has seccomp at all.
///
/// # Errors
/// That of the first tells what the host does not offer. That of another is never of that kind.
fn apply_all(filters: &[BpfProgram]) -> io::Result<()> {
    let (first, others) = filters.split_first().expect("some filters");
    apply_filter(first).map_err(in_io)?;
    others.iter().try_for_each(|filter| apply_filter(filter).map_err(after_another))
}

/// A host that accepts one filter offers seccomp: a process that goes on without the next has more rights than the start line says.
fn after_another(error: seccompiler::Error) -> io::Error {
    let why = reason(&in_io(error));
    io::Error::other(format!("the host took one seccomp filter and refused the next: {why}"))
}

/// A call with conditions on its arguments, of which all must hold.
type Conditional = (c_long, Vec<SeccompCondition>);

/// Whatever a process does.
#[rustfmt::skip]
const COMMON: &[c_long] = &[
    // Memory.
    libc::SYS_munmap, libc::SYS_mlock, libc::SYS_brk,
    // Threads that wait for each other, and end.
    libc::SYS_futex, libc::SYS_sched_yield, libc::SYS_exit, libc::SYS_exit_group, libc::SYS_restart_syscall,
    libc::SYS_gettid, libc::SYS_getpid, libc::SYS_getppid, libc::SYS_set_robust_list, libc::SYS_rseq,
    // Time and chance.
    libc::SYS_clock_gettime, libc::SYS_clock_getres, libc::SYS_gettimeofday, libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep, libc::SYS_getrandom,
    // Signals to itself: SIGBUS, and the end.
    libc::SYS_rt_sigaction, libc::SYS_rt_sigprocmask, libc::SYS_rt_sigreturn, libc::SYS_sigaltstack,
    // Descriptors that are open.
    libc::SYS_read, libc::SYS_readv, libc::SYS_pread64, libc::SYS_preadv, libc::SYS_preadv2, libc::SYS_write,
    libc::SYS_writev, libc::SYS_lseek, libc::SYS_close, libc::SYS_fstat, libc::SYS_fadvise64,
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
    libc::SYS_accept4, libc::SYS_recvfrom, libc::SYS_sendto, libc::SYS_sendfile,
    libc::SYS_getsockname, libc::SYS_getpeername, CACHESTAT,
    // Threads that are only just beginning ask where their stack lies.
    libc::SYS_sched_getaffinity,
];

/// What a server needs besides until its workers have begun.
#[rustfmt::skip]
const BEGINNING: &[c_long] = &[
    libc::SYS_eventfd2, libc::SYS_epoll_create1, libc::SYS_sched_setaffinity, libc::SYS_seccomp,
];

/// Making rings, setting them up, and using them.
const RINGS: &[c_long] = &[libc::SYS_io_uring_setup, libc::SYS_io_uring_register, libc::SYS_io_uring_enter];

/// Returns the calls that a ring in use still needs: calls, and calls with conditions. The restrictions of the ring refuse other
/// registrations too, but some registrations need no ring at all.
fn rings_in_use() -> ([c_long; 1], [Conditional; 1]) {
    let cancel = (libc::SYS_io_uring_register, vec![equal(1, IORING_REGISTER_SYNC_CANCEL)]);
    ([libc::SYS_io_uring_enter], [cancel])
}

/// As in `linux/io_uring.h`.
const IORING_REGISTER_SYNC_CANCEL: u64 = 24;

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
    libc::SYS_getcwd, libc::SYS_statx, libc::SYS_newfstatat,
    #[cfg(target_arch = "x86_64")] libc::SYS_stat,
    #[cfg(target_arch = "x86_64")] libc::SYS_lstat,
    #[cfg(target_arch = "x86_64")] libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")] libc::SYS_access,
    // Memory that grows without being copied: an image may be large.
    libc::SYS_mremap,
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

/// Returns the calls that every process may make, with these arguments alone.
fn common() -> Vec<Conditional> {
    let not_executable = |call| (call, vec![masked(2, libc::PROT_EXEC as u64, 0)]);
    let ioctl = |request: libc::Ioctl| (libc::SYS_ioctl, vec![equal(1, request as u32 as u64)]);
    let fcntl = |command: libc::c_int| (libc::SYS_fcntl, vec![equal(1, command as u64)]);
    let mut calls = vec![
        not_executable(libc::SYS_mmap),
        not_executable(libc::SYS_mprotect),
        ioctl(libc::FIONBIO),
        ioctl(libc::TIOCOUTQ),
        // Whether standard output is a terminal, and how wide.
        ioctl(libc::TCGETS),
        ioctl(libc::TIOCGWINSZ),
        // Open descriptors: duplicate one, read its flags and its seals. Not F_SETFL, which would allow writing a log from its start,
        // nor the commands that request signals (F_SETOWN, F_SETLEASE, F_NOTIFY).
        fcntl(libc::F_DUPFD_CLOEXEC),
        fcntl(libc::F_GETFD),
        fcntl(libc::F_GETFL),
        fcntl(libc::F_GET_SEALS),
        // As musl does behind F_DUPFD_CLOEXEC.
        (libc::SYS_fcntl, vec![equal(1, libc::F_SETFD as u64), equal(2, libc::FD_CLOEXEC as u64)]),
        // Its own limits, to be read.
        (libc::SYS_prlimit64, vec![equal(0, 0), null(2)]),
        // What the kernel told the program when it began: the size of a page.
        (libc::SYS_prctl, vec![equal(0, PR_GET_AUXV)]),
        // What a thread is called.
        (libc::SYS_prctl, vec![equal(0, libc::PR_SET_NAME as u64)]),
        // A signal to itself.
        (libc::SYS_tgkill, vec![equal(0, getpid().as_raw_nonzero().get() as u64)]),
    ];
    calls.extend(ADVICE.iter().map(|&advice| (libc::SYS_madvise, vec![equal(2, advice as u64)])));
    // As musl does: memory barriers among the threads of this process, and what of them there are.
    calls.extend([0, 1 << 3, 1 << 4].map(|command| (libc::SYS_membarrier, vec![equal(0, command)])));
    calls
}

/// What may be said of memory, by this program and by allocators and thread libraries of today. Not that it may be merged with equal
/// memory of other processes, which tells by its times what these have.
#[rustfmt::skip]
const ADVICE: &[libc::c_int] = &[
    libc::MADV_NORMAL, libc::MADV_WILLNEED, libc::MADV_DONTNEED, libc::MADV_FREE,
    libc::MADV_HUGEPAGE, libc::MADV_NOHUGEPAGE, MADV_COLLAPSE, libc::MADV_DONTDUMP,
    MADV_GUARD_INSTALL, MADV_GUARD_REMOVE,
];

/// Linux 6.1 and 6.13; the libc crate does not know them with every C library.
const MADV_COLLAPSE: libc::c_int = 25;
const MADV_GUARD_INSTALL: libc::c_int = 102;
const MADV_GUARD_REMOVE: libc::c_int = 103;

/// Returns the calls that a server may make, with these arguments alone.
fn serving() -> Vec<Conditional> {
    let option = |call, name| (call, vec![equal(1, libc::SOL_SOCKET as u64), equal(2, name)]);
    let mut calls = vec![
        // Ends sending. Ending reception would close a listener for every process that has it, and turn it into a socket that can
        // connect to an address: sendto(2) with MSG_FASTOPEN.
        (libc::SYS_shutdown, vec![equal(1, libc::SHUT_WR as u64)]),
        // The kind of the socket that a log goes to.
        option(libc::SYS_getsockopt, libc::SO_TYPE as u64),
    ];
    // Timeouts, by their current and their former names; and the reset of a connection.
    let set = [libc::SO_LINGER as u64, SO_RCVTIMEO_OLD, SO_SNDTIMEO_OLD, SO_RCVTIMEO_NEW, SO_SNDTIMEO_NEW];
    calls.extend(set.map(|name| option(libc::SYS_setsockopt, name)));
    calls
}

/// As in `asm-generic/socket.h`: with 32 bits of seconds on some machines, and with 64 on all.
const SO_RCVTIMEO_OLD: u64 = 20;
const SO_SNDTIMEO_OLD: u64 = 21;
const SO_RCVTIMEO_NEW: u64 = 66;
const SO_SNDTIMEO_NEW: u64 = 67;

/// Returns the calls of a process that makes threads: no thread may have other namespaces, or be a process.
fn threads() -> Vec<Conditional> {
    // Exactly the flags that the C libraries pass, except a flag of musl's that has no meaning.
    let thread = libc::CLONE_VM
        | libc::CLONE_FS
        | libc::CLONE_FILES
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD
        | libc::CLONE_SYSVSEM
        | libc::CLONE_SETTLS
        | libc::CLONE_PARENT_SETTID
        | libc::CLONE_CHILD_CLEARTID;
    vec![
        (libc::SYS_clone, vec![masked(0, !libc::CLONE_DETACHED as u32 as u64, thread as u64)]),
        // Refused by another filter.
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

/// Returns the calls of a process that makes processes: these have a memory of their own, and the same namespaces.
fn dividing() -> Vec<Conditional> {
    let flags = libc::CLONE_CHILD_SETTID | libc::CLONE_CHILD_CLEARTID;
    let only = |flags: libc::c_int| (libc::SYS_clone, vec![equal(0, (flags | libc::SIGCHLD) as u64)]);
    // As glibc does, and as musl does.
    vec![only(flags), only(0), follow_into_death()]
}

/// Returns the call by which a process ends with its parent, or no longer does.
fn follow_into_death() -> Conditional {
    (libc::SYS_prctl, vec![equal(0, libc::PR_SET_PDEATHSIG as u64)])
}

/// Returns the calls that open files for reading alone, and that seal what a process has written.
fn reading() -> Vec<Conditional> {
    // Not O_ACCMODE, which has O_PATH too with musl.
    let mode = (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC) as u64;
    vec![
        (libc::SYS_openat, vec![masked(2, mode, libc::O_RDONLY as u64)]),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_open, vec![masked(1, mode, libc::O_RDONLY as u64)]),
        (libc::SYS_fcntl, vec![equal(1, libc::F_ADD_SEALS as u64)]),
    ]
}

/// Returns a filter by itself: it refuses calls that a library may make in a server, and can go on without. If several filters judge a
/// call, the refusal counts.
fn refuse_with_eacces() -> io::Result<BpfProgram> {
    let calls = REFUSED.iter().map(|&call| (call, Vec::new()));
    filter(calls, SeccompAction::Allow, SeccompAction::Errno(libc::EACCES as u32))
}

/// Calls that the other filters pass on, and that filter refuses.
#[rustfmt::skip]
const REFUSED: &[c_long] = &[
    // A mapping that grows keeps its rights: a larger mapping of the program's code would make the bytes after it in the file
    // executable, up to a site that the program carries. Without the call, the C libraries copy memory that they enlarge.
    libc::SYS_mremap,
    // Files by their names: the C library opens some to learn how much memory the machine has, the standard library to report a panic.
    // `statx` and `newfstatat` answer for a descriptor too, but the name lies in memory, where a filter cannot look: `fstat` remains.
    libc::SYS_openat, libc::SYS_readlinkat, libc::SYS_getcwd, libc::SYS_statx, libc::SYS_newfstatat,
    #[cfg(target_arch = "x86_64")] libc::SYS_open,
    #[cfg(target_arch = "x86_64")] libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")] libc::SYS_stat,
    #[cfg(target_arch = "x86_64")] libc::SYS_lstat,
];

/// Returns a filter by itself: it answers as if the kernel lacked these calls, and the C library does without them.
fn refuse_with_nosys() -> io::Result<BpfProgram> {
    let calls = [
        // Its arguments lie in memory, where a filter cannot look; of `clone` it sees them.
        (libc::SYS_clone3, Vec::new()),
        // Of another process, or of another thread: glibc asks for each that begins, and needs no answer.
        (libc::SYS_sched_getaffinity, vec![not_equal(0, 0)]),
    ];
    filter(calls, SeccompAction::Allow, SeccompAction::Errno(libc::ENOSYS as u32))
}

/// A filter that traps what is in none of these.
fn allow(calls: &[&[c_long]], conditional: &[&[Conditional]]) -> io::Result<BpfProgram> {
    // No condition: whatever the arguments.
    let calls = calls.iter().copied().flatten().map(|&call| (call, Vec::new()));
    let all = conditional.iter().copied().flatten().cloned().chain(calls);
    filter(all, SeccompAction::Trap, SeccompAction::Allow)
}

/// A filter that does one thing with these calls, and another with all others. A call that is named with conditions and without them is
/// one without.
fn filter(
    calls: impl IntoIterator<Item = Conditional>,
    others: SeccompAction,
    these: SeccompAction,
) -> io::Result<BpfProgram> {
    let mut rules: BTreeMap<c_long, Option<Vec<SeccompRule>>> = BTreeMap::new();
    for (call, conditions) in calls {
        let of_call = rules.entry(call).or_insert_with(|| Some(Vec::new()));
        match of_call {
            Some(rules) if !conditions.is_empty() => {
                rules.push(SeccompRule::new(conditions).map_err(io::Error::other)?);
            }
            _ => *of_call = None,
        }
    }
    compile(rules.into_iter().map(|(call, rules)| (call, rules.unwrap_or_default())).collect(), others, these)
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

/// An argument that has this value, where the kernel reads an `int`.
fn equal(argument: u8, value: u64) -> SeccompCondition {
    SeccompCondition::new(argument, Len::Dword, Is::Eq, value).expect("calls have six arguments")
}

/// An argument that is no pointer to anything, by all its bits: the kernel reads them all.
fn null(argument: u8) -> SeccompCondition {
    SeccompCondition::new(argument, Len::Qword, Is::Eq, 0).expect("calls have six arguments")
}

/// An argument that has another value.
fn not_equal(argument: u8, value: u64) -> SeccompCondition {
    SeccompCondition::new(argument, Len::Dword, Is::Ne, value).expect("calls have six arguments")
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

/// From now on the host refuses every further filter, with this error.
#[cfg(test)]
pub(super) fn refuse_filters(errno: i32) {
    let refused = SeccompAction::Errno(errno as u32);
    let calls = [(libc::SYS_seccomp, Vec::new())];
    apply_filter(&filter(calls, SeccompAction::Allow, refused).unwrap()).unwrap();
}
