//! Actions of a compromised process, for the sandbox tests, and a fork helper for tests.

use rustix::{
    mm::{MapFlags, MremapFlags, ProtFlags, mmap, mmap_anonymous, mremap},
    process::{Pid, getppid},
};
use std::{
    ffi::{CStr, c_int, c_long},
    fs::File,
    io,
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd},
    ptr,
};

/// Makes memory that holds code.
pub(crate) fn executable() -> io::Result<()> {
    // SAFETY: new memory, which no other code has or uses.
    unsafe { mmap_anonymous(ptr::null_mut(), 4096, ProtFlags::EXEC, MapFlags::PRIVATE)? };
    Ok(())
}

/// A page of this program's file that may be executed, and where it is.
pub(crate) fn code() -> io::Result<usize> {
    let program = File::open("/proc/self/exe")?;
    let prot = ProtFlags::READ | ProtFlags::EXEC;
    // SAFETY: a new mapping, at a place that the kernel chooses and no other code uses.
    let start = unsafe { mmap(ptr::null_mut(), 4096, prot, MapFlags::PRIVATE, &program, 0)? };
    Ok(start.addr())
}

/// Makes code longer: the bytes after it in its file become executable too.
pub(crate) fn grow_code(page: usize) -> io::Result<()> {
    let page = ptr::without_provenance_mut(page);
    // SAFETY: the page is that of `code`, which no other code uses.
    unsafe { mremap(page, 4096, 8192, MremapFlags::MAYMOVE)? };
    Ok(())
}

/// Makes memory larger, as a vector does that has more to hold: so much that the C library would rather move pages than copy it.
pub(crate) fn grow_memory() -> io::Result<()> {
    let mut bytes = vec![7_u8; 1 << 20];
    bytes.extend(vec![8; 8 << 20]);
    assert!(bytes[..1 << 20].iter().all(|&byte| byte == 7) && bytes[1 << 20..].iter().all(|&byte| byte == 8));
    Ok(())
}

/// Makes another process.
pub(crate) fn fork() -> io::Result<()> {
    // SAFETY: both go on to end at once.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Asks whether a signal may be sent to this process, by one of its threads: that is the process whose number its filter has, and
/// of a worker process its parent.
pub(crate) fn signal_by_thread() -> io::Result<()> {
    // SAFETY: signal 0 is none.
    match unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Becomes the debugger of its parent.
pub(crate) fn trace_parent() -> io::Result<()> {
    let parent = getppid().map_or(0, |parent| parent.as_raw_nonzero().get());
    // SAFETY: touches nothing of this process.
    match unsafe { libc::ptrace(libc::PTRACE_SEIZE, parent, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Does something in a child of a program that may have threads: it may not allocate, nor wait for another thread.
pub(crate) fn in_child(attempt: impl FnOnce()) -> io::Result<Pid> {
    // SAFETY: the child does what it was promised to, and ends without a word to what the parent has set up.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            attempt();
            // SAFETY: ends this process.
            unsafe { libc::_exit(0) }
        }
        // SAFETY: fork returns the number of the child, which is above 0.
        child => Ok(unsafe { Pid::from_raw_unchecked(child) }),
    }
}

/// Sets its limits to what they are, by a pointer of which the lower half is zero.
pub(crate) fn raise_limit_from_above() -> io::Result<()> {
    const AT: usize = 1 << 36;
    let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE);
    // SAFETY: new memory, where there was none.
    let limit = unsafe { mmap_anonymous(ptr::without_provenance_mut(AT), 4096, prot, flags)? };
    let limit = limit.cast::<libc::rlimit64>();
    // SAFETY: the memory stays mapped for as long as both calls take, and no other code has it.
    unsafe {
        check(libc::syscall(libc::SYS_prlimit64, 0, libc::RLIMIT_CORE, ptr::null::<u8>(), limit))?;
        check(libc::syscall(libc::SYS_prlimit64, 0, libc::RLIMIT_CORE, limit, ptr::null::<u8>()))
    }
}

/// Asks about a file by its name, with the flag for an empty name.
pub(crate) fn stat_by_name_as_descriptor(name: &CStr) -> io::Result<()> {
    let mut stat = MaybeUninit::<libc::statx>::uninit();
    let (at, flags) = (libc::AT_FDCWD, libc::AT_EMPTY_PATH);
    // SAFETY: the name ends in a zero, and the answer has room.
    check(unsafe {
        libc::syscall(libc::SYS_statx, at, name.as_ptr(), flags, libc::STATX_SIZE, stat.as_mut_ptr())
    })
}

/// A command to a descriptor.
pub(crate) fn fcntl(fd: impl AsFd, command: c_int, argument: c_int) -> io::Result<()> {
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: takes numbers alone, as every command does that is tried here.
    check(unsafe { libc::syscall(libc::SYS_fcntl, fd, command, argument) })
}

/// Makes a process by the newer of the two calls. The process shares nothing, and sends no signal to its parent when it ends.
pub(crate) fn fork_by_clone3() -> io::Result<()> {
    let arguments = [0u64; 8];
    // SAFETY: all zeros is what fork(2) means; both go on to end at once.
    check(unsafe { libc::syscall(libc::SYS_clone3, &raw const arguments, size_of_val(&arguments)) })
}

/// Makes a process that has its own user namespace, where it would be root.
pub(crate) fn fork_as_root() -> io::Result<()> {
    let flags = libc::CLONE_NEWUSER | libc::SIGCHLD;
    // SAFETY: as fork(2); both go on to end at once.
    check(unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) })
}

/// No longer ends with its parent.
pub(crate) fn outlive_parent() -> io::Result<()> {
    // SAFETY: takes numbers alone.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, 0, 0, 0, 0) }.into())
}

/// Asks on which cores its parent runs.
pub(crate) fn cores_of_parent() -> io::Result<()> {
    let mut set = MaybeUninit::<libc::cpu_set_t>::uninit();
    let parent = getppid().map_or(1, |parent| parent.as_raw_nonzero().get());
    let len = size_of::<libc::cpu_set_t>();
    // SAFETY: the answer has room.
    check(unsafe { libc::syscall(libc::SYS_sched_getaffinity, parent, len, set.as_mut_ptr()) })
}

/// Has memory merged with equal memory of others.
pub(crate) fn merge_memory() -> io::Result<()> {
    // SAFETY: new memory, which no other code has or uses.
    unsafe {
        let memory = mmap_anonymous(ptr::null_mut(), 4096, ProtFlags::READ, MapFlags::PRIVATE)?;
        check(libc::madvise(memory, 4096, libc::MADV_MERGEABLE).into())
    }
}

/// Interrupts every processor.
pub(crate) fn barrier_for_all() -> io::Result<()> {
    // SAFETY: takes numbers alone.
    check(unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_GLOBAL, 0, 0) })
}

/// Sets or asks for an option of a socket, which is an `int`.
pub(crate) fn socket_option(fd: impl AsFd, set: bool, level: c_int, name: c_int) -> io::Result<()> {
    let (mut value, mut len) = ([0; 16], size_of::<[c_int; 16]>() as libc::socklen_t);
    let fd = fd.as_fd().as_raw_fd();
    let value: *mut c_int = value.as_mut_ptr();
    // SAFETY: `value` has room for `len` bytes, enough for every option that the tests try.
    let done = unsafe {
        match set {
            true => libc::setsockopt(fd, level, name, value.cast(), len),
            false => libc::getsockopt(fd, level, name, value.cast(), &raw mut len),
        }
    };
    check(done.into())
}

/// Registers something with no ring at all.
pub(crate) fn register_without_ring() -> io::Result<()> {
    const IORING_REGISTER_SEND_MSG_RING: c_int = 31;
    // SAFETY: takes nothing from memory, as there is nothing to take.
    check(unsafe {
        libc::syscall(libc::SYS_io_uring_register, -1, IORING_REGISTER_SEND_MSG_RING, ptr::null::<u8>(), 0)
    })
}

/// Cancels what a ring has not done, where there is no ring; and enters it. Both say so.
pub(crate) fn use_no_ring() -> io::Result<()> {
    const IORING_REGISTER_SYNC_CANCEL: c_int = 24;
    // SAFETY: takes nothing from memory, as no descriptor has this number.
    let (cancelled, entered) = unsafe {
        (
            check(libc::syscall(
                libc::SYS_io_uring_register,
                -1,
                IORING_REGISTER_SYNC_CANCEL,
                ptr::null::<u8>(),
                1,
            )),
            check(libc::syscall(libc::SYS_io_uring_enter, -1, 0, 0, 0, ptr::null::<u8>(), 0)),
        )
    };
    for called in [cancelled, entered] {
        let error = called.expect_err("there is no ring");
        assert!(matches!(error.raw_os_error(), Some(libc::EBADF | libc::EINVAL)), "{error}");
    }
    Ok(())
}

fn check(result: c_long) -> io::Result<()> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
