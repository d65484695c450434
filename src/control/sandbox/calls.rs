//! seccomp: which system calls a process may make. Any other call kills the process with a message: see `sys/linux/forbidden.rs`.
//!
//! ```text
//! server    COMMON + SERVING + STARTING + RINGS ─ workers run ─▶ COMMON + SERVING, and of RINGS what a ring in use needs
//! builder   COMMON + BUILDING
//! net       COMMON + CONNECTING
//! master    COMMON + SERVING + STARTING + FORKING ─ fork ─▶ worker: without STARTING, FORKING
//!                                                       └▶ aux: as a server
//! ```
//!
//! The filters allow the calls of the hot path with any arguments: the kernel then caches the answer and skips the filter.
//!
//! The filters compare an argument as the kernel reads it: a pointer by all 64 bits, an `int` by the low 32, since a caller may put
//! anything above them. A filter cannot dereference a pointer, so the filters refuse every call that takes a path:
//! docs/decisions/0027-what-stat-tells.md.

use super::ServerNeeds;
use crate::{
    base::error::reason,
    sys::{
        forbidden,
        seccomp::{FilterInstruction, add_filter},
    },
};
use libc::c_long;
use rustix::process::getpid;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Is, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter, apply_filter_all_threads,
};
use std::{collections::BTreeMap, env::consts::ARCH, io};

/// Allows the calls of a server that is starting: it may create threads and rings.
pub(super) fn allow_starting(needs: ServerNeeds) -> io::Result<()> {
    forbidden::report_and_die()?;
    apply_all(&[
        refuse_with_eacces()?,
        refuse_with_nosys()?,
        allow(
            &[COMMON, SERVING, REFUSED, STARTING, RINGS],
            &[&common(), &serving(), &threads(), &kernel_tls(needs)],
        )?,
    ])
}

/// Allows only the calls of a running server, for all its threads.
pub(super) fn allow_serving(needs: ServerNeeds) -> io::Result<()> {
    let (enter, cancel) = rings_in_use();
    let (enter, cancel) = if needs.rings { (&enter[..], &cancel[..]) } else { (&[][..], &[][..]) };
    let filter =
        allow(&[COMMON, SERVING, REFUSED, enter], &[&common(), &serving(), cancel, &kernel_tls(needs)])?;
    apply_filter_all_threads(&filter).map_err(after_another)
}

/// Allows the calls of a master for its whole life: it forks workers, and an aux process, which creates threads.
pub(super) fn allow_master() -> io::Result<()> {
    forbidden::report_and_die()?;
    apply_all(&[
        refuse_with_eacces()?,
        refuse_with_nosys()?,
        allow(
            &[COMMON, SERVING, REFUSED, STARTING, FORKING],
            &[&common(), &serving(), &threads(), &forking()],
        )?,
    ])
}

/// The filter that a worker process adds to the filters of its master. Compiled once, and short, as its length adds to the cost of a fork.
#[derive(Debug)]
pub(super) struct WorkerFilter(Vec<FilterInstruction>);

impl WorkerFilter {
    pub(super) fn new() -> io::Result<WorkerFilter> {
        // `common` allows `tgkill` with the process ID of the master, which would let the worker signal its parent.
        let making = [libc::SYS_clone, libc::SYS_clone3, libc::SYS_tgkill, libc::SYS_kill];
        // A worker connects to a helper by a socket pair, as `serving` allows.
        let calls = [STARTING, FORKING, &making].into_iter().flatten().copied();
        let calls: Vec<_> = calls.filter(|call| *call != libc::SYS_socketpair).collect();
        Ok(WorkerFilter(trap(&calls, libc::PR_SET_PDEATHSIG)?))
    }

    /// Applies the filter to this process.
    pub(super) fn apply(&self) -> io::Result<()> {
        add_filter(&self.0).map_err(refused_after_another)
    }
}

/// Allows the calls of the builder.
pub(super) fn allow_building() -> io::Result<()> {
    forbidden::report_and_die()?;
    apply_all(&[
        refuse_with_nosys()?,
        allow(&[COMMON, BUILDING], &[&common(), &threads(), &reading(), &yielding()])?,
    ])
}

/// Allows the calls of a helper that looks names up and connects. `has_unix`: also to Unix sockets.
pub(super) fn allow_connecting(has_unix: bool) -> io::Result<()> {
    forbidden::report_and_die()?;
    // The C library asks the kernel for the addresses of this host, and a daemon for cached names. It can do without both.
    let others =
        [libc::AF_NETLINK, libc::AF_UNIX].into_iter().filter(|&family| !has_unix || family != libc::AF_UNIX);
    let others = others.map(|family| (libc::SYS_socket, vec![equal(0, family as u64)]));
    apply_all(&[
        refuse_with_nosys()?,
        filter(others, SeccompAction::Allow, SeccompAction::Errno(libc::EAFNOSUPPORT as u32))?,
        allow(&[COMMON, CONNECTING], &[&common(), &threads(), &reading(), &connecting()])?,
    ])
}

/// Applies filters in order. The first shows whether the host supports seccomp at all.
///
/// # Errors
/// An error of the first filter keeps its kind, from which the caller sees that the host lacks seccomp. An error of a later filter has the
/// kind `Other`.
fn apply_all(filters: &[BpfProgram]) -> io::Result<()> {
    let (first, others) = filters.split_first().expect("some filters");
    apply_filter(first).map_err(in_io)?;
    others.iter().try_for_each(|filter| apply_filter(filter).map_err(after_another))
}

/// Wraps the error of a later filter. A host that accepts one filter supports seccomp, and a process that continued without the next would
/// have more privileges than the start line reports.
fn after_another(error: seccompiler::Error) -> io::Error {
    refused_after_another(in_io(error))
}

fn refused_after_another(error: io::Error) -> io::Error {
    let why = reason(&error);
    io::Error::other(format!("the host accepted one seccomp filter and refused the next: {why}"))
}

/// A call with conditions on its arguments, all of which must hold.
type Conditional = (c_long, Vec<SeccompCondition>);

/// Calls of every process.
#[rustfmt::skip]
const COMMON: &[c_long] = &[
    // Memory.
    libc::SYS_munmap, libc::SYS_mlock, libc::SYS_brk,
    // Threads.
    libc::SYS_futex, libc::SYS_sched_yield, libc::SYS_exit, libc::SYS_exit_group, libc::SYS_restart_syscall,
    libc::SYS_gettid, libc::SYS_getpid, libc::SYS_getppid, libc::SYS_set_robust_list, libc::SYS_rseq,
    // Time and random numbers.
    libc::SYS_clock_gettime, libc::SYS_clock_getres, libc::SYS_gettimeofday, libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep, libc::SYS_getrandom,
    // Signal handlers: SIGBUS, and shutdown.
    libc::SYS_rt_sigaction, libc::SYS_rt_sigprocmask, libc::SYS_rt_sigreturn, libc::SYS_sigaltstack,
    // Open descriptors.
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

/// Calls that serve clients on listening sockets.
#[rustfmt::skip]
const SERVING: &[c_long] = &[
    libc::SYS_accept4, libc::SYS_recvfrom, libc::SYS_sendto, libc::SYS_sendfile,
    libc::SYS_getsockname, libc::SYS_getpeername, CACHESTAT,
    // A new thread looks up its stack.
    libc::SYS_sched_getaffinity,
];

/// Calls that a server needs until its workers run.
#[rustfmt::skip]
const STARTING: &[c_long] = &[
    libc::SYS_eventfd2, libc::SYS_epoll_create1, libc::SYS_sched_setaffinity, libc::SYS_getpriority, libc::SYS_setpriority,
    libc::SYS_sched_getattr, libc::SYS_sched_setattr, libc::SYS_seccomp,
];

/// Calls that create, set up and use rings.
const RINGS: &[c_long] = &[libc::SYS_io_uring_setup, libc::SYS_io_uring_register, libc::SYS_io_uring_enter];

/// Returns the calls that a ring in use needs, without and with conditions. The ring's own restrictions refuse other registrations too, but
/// some registrations need no ring at all.
fn rings_in_use() -> ([c_long; 1], [Conditional; 1]) {
    let cancel = (libc::SYS_io_uring_register, vec![equal(1, IORING_REGISTER_SYNC_CANCEL)]);
    ([libc::SYS_io_uring_enter], [cancel])
}

/// As in `linux/io_uring.h`.
const IORING_REGISTER_SYNC_CANCEL: u64 = 24;

/// Calls that fork processes, create a channel to each, and reap them.
#[rustfmt::skip]
const FORKING: &[c_long] = &[
    libc::SYS_socketpair, libc::SYS_close_range, libc::SYS_wait4,
    // musl forks with the first, and calls the second in the new process.
    #[cfg(target_arch = "x86_64")] libc::SYS_fork,
    libc::SYS_set_tid_address,
];

/// Calls that watch and build sites.
#[rustfmt::skip]
const BUILDING: &[c_long] = &[
    // Names and directories; Landlock limits which.
    libc::SYS_readlinkat, libc::SYS_getdents64, libc::SYS_faccessat, libc::SYS_faccessat2,
    libc::SYS_getcwd, libc::SYS_statx, libc::SYS_newfstatat,
    #[cfg(target_arch = "x86_64")] libc::SYS_stat,
    #[cfg(target_arch = "x86_64")] libc::SYS_lstat,
    #[cfg(target_arch = "x86_64")] libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")] libc::SYS_access,
    // Growing memory without a copy: an image may be large.
    libc::SYS_mremap,
    // Watching files.
    libc::SYS_inotify_init1, libc::SYS_inotify_add_watch, libc::SYS_inotify_rm_watch, libc::SYS_epoll_create1,
    libc::SYS_eventfd2,
    // Images in memory.
    libc::SYS_memfd_create, libc::SYS_ftruncate, libc::SYS_fallocate, libc::SYS_copy_file_range, libc::SYS_sendfile,
    libc::SYS_splice, libc::SYS_pwrite64, libc::SYS_pwritev,
    // The number of build threads.
    libc::SYS_sched_getaffinity,
];

/// Calls that look names up and connect.
#[rustfmt::skip]
const CONNECTING: &[c_long] = &[
    // Sockets; Landlock limits the ports.
    libc::SYS_connect, libc::SYS_getsockname, libc::SYS_getpeername, libc::SYS_getsockopt, libc::SYS_setsockopt,
    libc::SYS_sendto, libc::SYS_recvfrom, libc::SYS_sendmmsg, libc::SYS_recvmmsg, libc::SYS_shutdown,
    // Waiting.
    libc::SYS_epoll_create1, libc::SYS_eventfd2,
    // The files of name lookup; Landlock limits which.
    libc::SYS_readlinkat, libc::SYS_faccessat, libc::SYS_faccessat2, libc::SYS_statx, libc::SYS_newfstatat,
    libc::SYS_uname, libc::SYS_sched_getaffinity, libc::SYS_mremap,
    #[cfg(target_arch = "x86_64")] libc::SYS_stat,
    #[cfg(target_arch = "x86_64")] libc::SYS_lstat,
    #[cfg(target_arch = "x86_64")] libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")] libc::SYS_access,
];

/// Linux 6.5; the same on every architecture that Rust knows.
const CACHESTAT: c_long = 451;

/// Returns the calls that every process may make with these arguments only.
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
        // musl calls it after F_DUPFD_CLOEXEC.
        (libc::SYS_fcntl, vec![equal(1, libc::F_SETFD as u64), equal(2, libc::FD_CLOEXEC as u64)]),
        // Reading its own limits.
        (libc::SYS_prlimit64, vec![equal(0, 0), null(2)]),
        // The auxiliary vector: the page size.
        (libc::SYS_prctl, vec![equal(0, PR_GET_AUXV)]),
        // Naming a thread.
        (libc::SYS_prctl, vec![equal(0, libc::PR_SET_NAME as u64)]),
        // A signal to itself.
        (libc::SYS_tgkill, vec![equal(0, getpid().as_raw_nonzero().get() as u64)]),
    ];
    calls.extend(ADVICE.iter().map(|&advice| (libc::SYS_madvise, vec![equal(2, advice as u64)])));
    // musl calls it: memory barriers among the threads of this process, and the query which kinds exist.
    calls.extend([0, 1 << 3, 1 << 4].map(|command| (libc::SYS_membarrier, vec![equal(0, command)])));
    calls
}

/// Advice on memory that this program, allocators and thread libraries give. Not MADV_MERGEABLE: the timing of merged pages leaks what other
/// processes have in memory.
#[rustfmt::skip]
const ADVICE: &[libc::c_int] = &[
    libc::MADV_NORMAL, libc::MADV_WILLNEED, libc::MADV_DONTNEED, libc::MADV_FREE,
    libc::MADV_HUGEPAGE, libc::MADV_NOHUGEPAGE, MADV_COLLAPSE, libc::MADV_DONTDUMP,
    MADV_GUARD_INSTALL, MADV_GUARD_REMOVE,
];

/// Linux 6.1 and 6.13; the libc crate lacks them for some C libraries.
const MADV_COLLAPSE: libc::c_int = 25;
const MADV_GUARD_INSTALL: libc::c_int = 102;
const MADV_GUARD_REMOVE: libc::c_int = 103;

/// Returns the calls that a server may make with these arguments only.
fn serving() -> Vec<Conditional> {
    let option = |call, name| (call, vec![equal(1, libc::SOL_SOCKET as u64), equal(2, name)]);
    let mut calls = vec![
        // Only for writing. SHUT_RD would close a listener for every process that has it, and turn it into a socket that can connect:
        // sendto(2) with MSG_FASTOPEN.
        (libc::SYS_shutdown, vec![equal(1, libc::SHUT_WR as u64)]),
        // The type of a log's socket.
        option(libc::SYS_getsockopt, libc::SO_TYPE as u64),
    ];
    // The timeout of a listener, by its new and old name; and SO_LINGER, to reset a connection.
    let set = [libc::SO_LINGER as u64, SO_RCVTIMEO_OLD, SO_RCVTIMEO_NEW];
    calls.extend(set.map(|name| option(libc::SYS_setsockopt, name)));
    // How much the kernel takes ahead of a client, and whether a listener holds silent ones back.
    calls.extend([libc::TCP_NOTSENT_LOWAT, libc::TCP_DEFER_ACCEPT].map(|name| {
        let option = [equal(1, libc::IPPROTO_TCP as u64), equal(2, name as u64)];
        (libc::SYS_setsockopt, option.into())
    }));
    // A connection to a helper: the server passes one end to the helper.
    let stream = (libc::SOCK_STREAM | libc::SOCK_CLOEXEC) as u64;
    // A session with a helper.
    let packets = (libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC) as u64;
    calls.extend([stream, packets].map(|kind| {
        (libc::SYS_socketpair, vec![equal(0, libc::AF_UNIX as u64), masked(1, u32::MAX.into(), kind)])
    }));
    calls
}

/// Returns the calls that give keys of TLS to the kernel. The filter cannot see the name of the protocol. A process without the right to load
/// modules can choose only one whose module is loaded.
fn kernel_tls(needs: ServerNeeds) -> Vec<Conditional> {
    let set = |level: libc::c_int, name: libc::c_int| {
        (libc::SYS_setsockopt, vec![equal(1, level as u64), equal(2, name as u64)])
    };
    match needs.kernel_tls {
        true => vec![
            set(libc::SOL_TCP, libc::TCP_ULP),
            set(libc::SOL_TLS, libc::TLS_TX),
            set(libc::SOL_TLS, libc::TLS_RX),
        ],
        false => Vec::new(),
    }
}

/// As in `asm-generic/socket.h`: the old one has 32-bit seconds on some architectures, the new one has 64 bits on all.
const SO_RCVTIMEO_OLD: u64 = 20;
const SO_RCVTIMEO_NEW: u64 = 66;

/// Returns the calls of a process that creates threads: no new namespaces, and no new process.
fn threads() -> Vec<Conditional> {
    // Exactly the flags that the C libraries pass; CLONE_DETACHED, which musl adds, has no effect.
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
        // Another filter refuses it.
        (libc::SYS_clone3, Vec::new()),
        (libc::SYS_prctl, vec![equal(0, PR_SET_VMA)]),
        // Applying a further filter calls it.
        (libc::SYS_prctl, vec![equal(0, libc::PR_SET_NO_NEW_PRIVS as u64)]),
    ]
}

/// Linux 6.4; older kernels return EINVAL.
const PR_GET_AUXV: u64 = 0x4155_5856;

/// Names a memory area, as allocators do.
const PR_SET_VMA: u64 = 0x5356_4d41;

/// Returns the calls of a process that forks: the children have their own memory and the same namespaces.
fn forking() -> Vec<Conditional> {
    let flags = libc::CLONE_CHILD_SETTID | libc::CLONE_CHILD_CLEARTID;
    let only = |flags: libc::c_int| (libc::SYS_clone, vec![equal(0, (flags | libc::SIGCHLD) as u64)]);
    vec![
        // The flags of glibc, and of musl.
        only(flags),
        only(0),
        (libc::SYS_prctl, vec![equal(0, libc::PR_SET_PDEATHSIG as u64)]),
        // A child that does not end by itself in time.
        (libc::SYS_kill, vec![equal(1, libc::SIGKILL as u64)]),
    ]
}

/// Returns the calls that a helper which connects may make with these arguments only.
fn connecting() -> Vec<Conditional> {
    let families = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK, libc::AF_UNIX];
    let mut calls: Vec<_> =
        families.map(|family| (libc::SYS_socket, vec![equal(0, family as u64)])).into_iter().collect();
    // How many bytes a reply of a name server has.
    calls.push((libc::SYS_ioctl, vec![equal(1, libc::FIONREAD as u32 as u64)]));
    // The cryptographic library keeps random numbers from being copied by fork(2), and checks first that the kernel refuses advice that
    // does not exist.
    for advice in [libc::MADV_WIPEONFORK as u64, u32::MAX.into()] {
        calls.push((libc::SYS_madvise, vec![equal(2, advice)]));
    }
    calls
}

/// Returns the calls that open files read-only, and that seal a memfd.
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

/// Returns the call by which a thread lowers its own priority: compressing gives way to serving. Raising it needs a right that no process here has.
fn yielding() -> Vec<Conditional> {
    vec![(libc::SYS_setpriority, vec![equal(0, libc::PRIO_PROCESS as u64), equal(1, 0)])]
}

/// Returns a separate filter that refuses calls which a library may try in a server and can do without. If several filters judge a call, the
/// strictest answer counts.
fn refuse_with_eacces() -> io::Result<BpfProgram> {
    let calls = REFUSED.iter().map(|&call| (call, Vec::new()));
    filter(calls, SeccompAction::Allow, SeccompAction::Errno(libc::EACCES as u32))
}

/// Calls that the other filters allow and [`refuse_with_eacces`] refuses.
#[rustfmt::skip]
const REFUSED: &[c_long] = &[
    // A mapping that grows keeps its permissions: a larger mapping of the program's code would make the following bytes of the file
    // executable, including an embedded site. Without the call, the C libraries copy memory to enlarge it.
    libc::SYS_mremap,
    // Files by name: the C library opens some to learn the size of the memory, the standard library to report a panic. `statx` and
    // `newfstatat` work for a descriptor too, but a filter cannot read the name, which is in memory: `fstat` remains.
    libc::SYS_openat, libc::SYS_readlinkat, libc::SYS_getcwd, libc::SYS_statx, libc::SYS_newfstatat,
    #[cfg(target_arch = "x86_64")] libc::SYS_open,
    #[cfg(target_arch = "x86_64")] libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")] libc::SYS_stat,
    #[cfg(target_arch = "x86_64")] libc::SYS_lstat,
];

/// Returns a separate filter that answers as if the kernel lacked these calls; the C library then avoids them.
fn refuse_with_nosys() -> io::Result<BpfProgram> {
    let calls = [
        // Its arguments are in memory, which a filter cannot read; those of `clone` are in registers.
        (libc::SYS_clone3, Vec::new()),
        // For another process or thread: glibc asks for each new thread, and needs no answer.
        (libc::SYS_sched_getaffinity, vec![not_equal(0, 0)]),
    ];
    filter(calls, SeccompAction::Allow, SeccompAction::Errno(libc::ENOSYS as u32))
}

/// Returns a filter that allows these calls and traps all others.
fn allow(calls: &[&[c_long]], conditional: &[&[Conditional]]) -> io::Result<BpfProgram> {
    // No condition: any arguments.
    let calls = calls.iter().copied().flatten().map(|&call| (call, Vec::new()));
    let all = conditional.iter().copied().flatten().cloned().chain(calls);
    filter(all, SeccompAction::Trap, SeccompAction::Allow)
}

/// Returns a filter that traps these calls and prctl(2) with this command, and allows all others. It checks no architecture, as another filter
/// does.
///
/// One instruction for each call: the filter compiler needs six, and with them applying the filter takes a forked process twice as long.
fn trap(calls: &[c_long], command: libc::c_int) -> io::Result<Vec<FilterInstruction>> {
    let statement = |code, k| FilterInstruction { code, jt: 0, jf: 0, k };
    let load = |offset| statement((libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16, offset);
    let jump = |k, jt: usize, jf: u8| -> io::Result<FilterInstruction> {
        let code = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
        Ok(FilterInstruction { code, jt: jt.try_into().map_err(io::Error::other)?, jf, k })
    };
    let answer = |answer| statement((libc::BPF_RET | libc::BPF_K) as u16, answer);
    // Between the calls and the trap: whether it is prctl, its command, whether that is the one, allow.
    let before_trap = 4;
    let mut filter = vec![load(NUMBER_AT)];
    for (place, &call) in calls.iter().enumerate() {
        filter.push(jump(call as u32, calls.len() - place - 1 + before_trap, 0)?);
    }
    filter.extend([
        jump(libc::SYS_prctl as u32, 0, 2)?,
        load(FIRST_ARGUMENT_AT),
        jump(command as u32, 1, 0)?,
        answer(libc::SECCOMP_RET_ALLOW),
        answer(libc::SECCOMP_RET_TRAP),
    ]);
    Ok(filter)
}

/// The offsets of the number of a call, and of the low half of its first argument. seccomp(2), `struct seccomp_data`
const NUMBER_AT: u32 = 0;
const FIRST_ARGUMENT_AT: u32 = if cfg!(target_endian = "little") { 16 } else { 20 };

/// Returns a filter that applies `these` to these calls and `others` to all others. A call that appears both with and without conditions
/// counts as one without.
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

/// Matches an `int` argument with this value.
fn equal(argument: u8, value: u64) -> SeccompCondition {
    SeccompCondition::new(argument, Len::Dword, Is::Eq, value).expect("calls have six arguments")
}

/// Matches a null pointer, by all 64 bits.
fn null(argument: u8) -> SeccompCondition {
    SeccompCondition::new(argument, Len::Qword, Is::Eq, 0).expect("calls have six arguments")
}

/// Matches an `int` argument with any other value.
fn not_equal(argument: u8, value: u64) -> SeccompCondition {
    SeccompCondition::new(argument, Len::Dword, Is::Ne, value).expect("calls have six arguments")
}

/// Matches an argument whose bits under `mask` equal `value`.
fn masked(argument: u8, mask: u64, value: u64) -> SeccompCondition {
    SeccompCondition::new(argument, Len::Dword, Is::MaskedEq(mask), value).expect("calls have six arguments")
}

fn in_io(error: seccompiler::Error) -> io::Error {
    match error {
        seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error) => error,
        error => io::Error::other(error),
    }
}

/// Makes the host refuse every further filter with this error.
#[cfg(test)]
pub(super) fn refuse_filters(errno: i32) {
    let refused = SeccompAction::Errno(errno as u32);
    let calls = [(libc::SYS_seccomp, Vec::new())];
    apply_filter(&filter(calls, SeccompAction::Allow, refused).unwrap()).unwrap();
}
