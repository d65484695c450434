//! Handles SIGBUS: a read of a mapped file that was truncated must not end the process.
//!
//! ```text
//! read ─▶ no page there ─▶ SIGBUS ─▶ in a watched range?  yes: mark it damaged, put zeros in its place, read on
//!                                                         no:  who was asked before us
//! ```
//!
//! After a read of a watched range, the reader checks [`is_damaged`](MapWatch::is_damaged). System calls raise no signal for such
//! memory: they fail with EFAULT. See sigaction(2), mmap(2).

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use std::{
    ffi::{c_int, c_void},
    io, mem,
    ops::Range,
    ptr,
    sync::{
        OnceLock,
        atomic::{
            AtomicBool, AtomicUsize,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
};

/// A watched address range: faults in it are handled until this is dropped.
#[derive(Debug)]
pub(crate) struct MapWatch {
    row: &'static WatchedMap,
}

/// A row of the table that the handler reads. It may be rewritten only while no thread reads its old range.
#[derive(Debug)]
struct WatchedMap {
    /// Address of the first byte, or `FREE` or `CLAIMED`.
    start: AtomicUsize,
    /// Address behind the last byte, a multiple of the page size.
    end: AtomicUsize,
    damaged: AtomicBool,
}

/// Limit of watched ranges. Each is a mapped archive that is served, or that a response in flight still needs.
const WATCH_COUNT_MAX: usize = 1024;

const FREE: usize = 0;
/// No range begins here: the first page of an address space is never mapped for a process.
const CLAIMED: usize = 1;

static ROWS: [WatchedMap; WATCH_COUNT_MAX] = [const {
    WatchedMap { start: AtomicUsize::new(FREE), end: AtomicUsize::new(0), damaged: AtomicBool::new(false) }
}; WATCH_COUNT_MAX];

/// The action for SIGBUS before ours, or the error of installing ours.
static PREVIOUS_ACTION: OnceLock<Result<SignalAction, c_int>> = OnceLock::new();

struct SignalAction(libc::sigaction);

// SAFETY: plain numbers and addresses of functions, which every thread may read and call.
unsafe impl Send for SignalAction {}
// SAFETY: as above; it is never written.
unsafe impl Sync for SignalAction {}

impl MapWatch {
    /// Watches `range`, whose ends are multiples of the page size.
    ///
    /// # Errors
    /// The handler cannot be installed, or 1,024 ranges are watched already.
    ///
    /// # Safety
    /// The range is a read-only mapping of the caller. It must outlive the watch, and the caller must accept zeros in it.
    pub(crate) unsafe fn new(range: Range<*const c_void>) -> io::Result<MapWatch> {
        PREVIOUS_ACTION.get_or_init(install).as_ref().map_err(|&code| io::Error::from_raw_os_error(code))?;
        let is_ours = |row: &&WatchedMap| row.start.compare_exchange(FREE, CLAIMED, Acquire, Relaxed).is_ok();
        let row = ROWS.iter().find(is_ours).ok_or(io::ErrorKind::QuotaExceeded)?;
        row.damaged.store(false, Relaxed);
        // A handler that sees this end does not see the row's earlier start.
        row.end.store(range.end.addr(), Release);
        row.start.store(range.start.addr(), Release);
        Ok(MapWatch { row })
    }

    /// Returns whether bytes read from the range so far may be zeros that are not in the file.
    #[inline]
    pub(crate) fn is_damaged(&self) -> bool {
        self.row.damaged.load(Acquire)
    }
}

impl Drop for MapWatch {
    fn drop(&mut self) {
        self.row.start.store(FREE, Release);
    }
}

impl WatchedMap {
    /// Returns the range from the page of `at` to the end, if `at` is inside.
    fn tail_from(&self, at: usize, page_len: usize) -> Option<Range<usize>> {
        let start = self.start.load(Acquire);
        let end = self.end.load(Acquire);
        // Another row may be rewritten meanwhile: then its start and end may not match.
        let steady = self.start.load(Relaxed) == start;
        (steady && start > CLAIMED && (start..end).contains(&at)).then(|| at & !(page_len - 1)..end)
    }

    /// Maps zeros in place of the missing pages. Async-signal-safe.
    fn replace_with_zeros(&self, rest: Range<usize>) -> bool {
        // Marked first: a reader of the zeros must find the mark.
        self.damaged.store(true, Release);
        let at = ptr::with_exposed_provenance_mut(rest.start);
        // SAFETY: replaces pages of a mapping that, by the contract of `MapWatch::new`, is read-only and may become zeros. A plain
        // system call.
        unsafe {
            mmap_anonymous(at, rest.len(), ProtFlags::READ, MapFlags::PRIVATE | MapFlags::FIXED).is_ok()
        }
    }
}

fn install() -> Result<SignalAction, c_int> {
    // Cached now: a signal handler may not query it.
    rustix::param::page_size();
    // SAFETY: a sigaction of zeros is valid: the default action, no flags. Both structures live during the calls, and
    // the handler only does what a signal handler may. On a stack of its own where the thread has one.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        let mut before = action;
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigemptyset(&mut action.sa_mask);
        match libc::sigaction(libc::SIGBUS, &action, &mut before) {
            0 => Ok(SignalAction(before)),
            _ => Err(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL)),
        }
    }
}

/// The handler. Async-signal-safe: reads atomics and makes system calls that leave `errno` alone.
extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel calls with a valid siginfo; `si_addr` may be read of any, and means something for a fault.
    let (code, at) = unsafe { ((*info).si_code, (*info).si_addr().addr()) };
    // Above 0: from the kernel, not sent by a process.
    if code > 0 {
        let page_len = rustix::param::page_size();
        let found = ROWS.iter().find_map(|row| Some((row, row.tail_from(at, page_len)?)));
        if found.is_some_and(|(row, rest)| row.replace_with_zeros(rest)) {
            return;
        }
    }
    call_previous_handler(signal, info, context);
}

/// Handles a fault outside all watched ranges as the previous action would.
fn call_previous_handler(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let before = PREVIOUS_ACTION.get().and_then(|before| before.as_ref().ok());
    let handler = before.map_or(libc::SIG_DFL, |action| action.0.sa_sigaction);
    if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
        // SAFETY: both may be called in a signal handler. A fault is not ignored by the kernel either: the process
        // ends when this returns.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    } else if before.is_some_and(|action| action.0.sa_flags & libc::SA_SIGINFO != 0) {
        // SAFETY: the flag says that this function takes three arguments, and these are what the kernel gave.
        let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
            unsafe { mem::transmute(handler) };
        handler(signal, info, context);
    } else {
        // SAFETY: without the flag, it takes the number of the signal.
        let handler: extern "C" fn(c_int) = unsafe { mem::transmute(handler) };
        handler(signal);
    }
}
