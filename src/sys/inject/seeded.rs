//! Draws faults from a seed.
//!
//! ```text
//! seed ─▶ process: the forks that lead to it ─▶ thread: its name ─▶ call: which, and the how many-th ─▶ a fault, or none
//! ```
//!
//! A draw depends on nothing else, so a seed repeats it, however the kernel schedules other threads and other calls.

use super::{
    Call,
    counts::FaultCounts,
    edges,
    table::{FAULTS, Fault, rarity},
};
use rustix::io::Errno;
use std::{
    cell::RefCell,
    env, io,
    os::fd::{AsFd, RawFd},
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
};

/// `SEED` or `SEED:PERCENT`: the seed, and how many of the calls fail.
const FAULTS_VARIABLE: &str = "TARPON_FAULTS";

/// The path of the file for the counts.
const COUNTS_VARIABLE: &str = "TARPON_FAULT_COUNTS";

/// Share of the calls that fail, unless the variable names one.
const PERCENT: u64 = 20;

#[derive(Debug)]
struct FaultSettings {
    percent: u64,
    counts: Option<FaultCounts>,
}

/// Set once, if the environment asks for faults.
static SETTINGS: OnceLock<FaultSettings> = OnceLock::new();

/// Identifies this process: the seed, mixed with the numbers of the forks that lead to it.
static PROCESS_KEY: AtomicU64 = AtomicU64::new(0);

/// Number of forks of this process.
static CHILD_COUNT: AtomicU64 = AtomicU64::new(0);

/// Another process of the program has forked this one.
static IS_CHILD: AtomicBool = AtomicBool::new(false);

thread_local! {
    static STREAM: RefCell<Option<FaultStream>> = const { RefCell::new(None) };
}

/// The draws of one thread.
struct FaultStream {
    key: u64,
    /// Draws so far, by call.
    counts: [u64; CALL_COUNT],
    /// Entries of a ring that the kernel fails, and their errors.
    failing_entries: Vec<(u64, Errno)>,
}

const CALL_COUNT: usize = Call::Pair as usize + 1;

/// Reads the environment. Called once by the program, before it confines itself: an embedded server injects nothing.
///
/// # Errors
/// A variable has no meaning, or its file cannot be used.
pub(crate) fn init() -> io::Result<()> {
    let Ok(text) = env::var(FAULTS_VARIABLE) else { return Ok(()) };
    let invalid = || io::Error::other(format!("{FAULTS_VARIABLE} is not SEED or SEED:PERCENT"));
    let (seed, percent) = match text.split_once(':') {
        None => (text.parse().ok(), Some(PERCENT)),
        Some((seed, percent)) => (seed.parse().ok(), percent.parse().ok()),
    };
    let seed: u64 = seed.ok_or_else(invalid)?;
    // If all calls failed, none would end.
    let percent = percent.filter(|&percent| percent < 100).ok_or_else(invalid)?;
    let counts = env::var_os(COUNTS_VARIABLE).map(|path| FaultCounts::open(path.as_ref())).transpose()?;
    PROCESS_KEY.store(mix(seed), Relaxed);
    SETTINGS.set(FaultSettings { percent, counts }).map_err(|_| io::Error::other("initialised twice"))
}

/// Returns whether faults are injected.
pub(super) fn is_active() -> bool {
    SETTINGS.get().is_some()
}

/// Decides about a call that transfers up to `len` bytes or items: returns how many it may transfer.
///
/// # Errors
/// The call must not be made, and fails so.
pub(crate) fn before(call: Call, descriptor: impl AsFd, len: usize) -> Result<usize, Errno> {
    match draw(call, len) {
        None => Ok(len),
        Some(DrawnFault::Short(len)) => {
            edges::held_back(descriptor);
            Ok(len)
        }
        Some(DrawnFault::Error(error)) => {
            if error == Errno::AGAIN {
                edges::held_back(descriptor);
            }
            Err(error)
        }
    }
}

/// Decides about a call without a length.
///
/// # Errors
/// The call must not be made, and fails so.
pub(crate) fn fails(call: Call) -> Result<(), Errno> {
    match draw(call, 0) {
        Some(DrawnFault::Error(error)) => Err(error),
        _ => Ok(()),
    }
}

/// Decides about the length of an entry of a ring. `None`: it keeps its length.
pub(crate) fn short_len(call: Call, len: impl FnOnce() -> usize) -> Option<usize> {
    if !is_active() {
        return None;
    }
    match draw_among(call, len(), |fault| fault == Fault::Short) {
        Some(DrawnFault::Short(len)) => Some(len),
        _ => None,
    }
}

/// Decides about an entry of a ring: returns its descriptor, or one that makes the kernel complete it at once with EBADF. Then
/// [`completed`] replaces the result.
pub(crate) fn entry(call: Call, user_data: u64, descriptor: RawFd) -> RawFd {
    let Some(DrawnFault::Error(error)) = draw(call, 0) else { return descriptor };
    with_stream(|stream| stream.failing_entries.push((user_data, error)));
    -1
}

/// Returns the result of a completion: the injected error if [`entry`] has chosen one.
pub(crate) fn completed(user_data: u64, result: Result<u32, Errno>) -> Result<u32, Errno> {
    if result != Err(Errno::BADF) || !is_active() {
        return result;
    }
    with_stream(|FaultStream { failing_entries, .. }| {
        match failing_entries.iter().position(|(failing, _)| *failing == user_data) {
            Some(at) => Err(failing_entries.swap_remove(at).1),
            None => result,
        }
    })
}

/// The draws of a child that is about to be forked.
pub(crate) struct ChildStream(u64);

/// Returns the draws of the next child.
pub(crate) fn child_stream() -> ChildStream {
    let number = CHILD_COUNT.fetch_add(1, Relaxed);
    ChildStream(mix(PROCESS_KEY.load(Relaxed) ^ mix(number)))
}

impl ChildStream {
    /// Takes these draws: the first action of a child.
    pub(crate) fn enter(self) {
        PROCESS_KEY.store(self.0, Relaxed);
        CHILD_COUNT.store(0, Relaxed);
        IS_CHILD.store(true, Relaxed);
        STREAM.set(None);
    }
}

/// A fault for one call.
enum DrawnFault {
    Short(usize),
    Error(Errno),
}

/// Draws one of the faults of a call.
fn draw(call: Call, len: usize) -> Option<DrawnFault> {
    draw_among(call, len, |_| true)
}

/// Draws one of the faults of a call that `is_possible`. A call that transfers one byte or item at most is not shortened.
fn draw_among(call: Call, len: usize, is_possible: impl Fn(Fault) -> bool) -> Option<DrawnFault> {
    let settings = SETTINGS.get()?;
    // Without channels the supervisor could not start the first processes, and the program would exit.
    if call == Call::Pair && !IS_CHILD.load(Relaxed) {
        return None;
    }
    let mut random = with_stream(|stream| stream.next(call));
    let mut below = |end: u64| {
        random = mix(random);
        random % end
    };
    if below(100 * rarity(call)) >= settings.percent {
        return None;
    }
    let rows = || {
        let of_call = FAULTS.iter().enumerate().filter(|(_, row)| row.call == call);
        of_call.filter(|(_, row)| is_possible(row.fault) && (row.fault != Fault::Short || len > 1))
    };
    let total: u64 = rows().map(|(_, row)| row.weight).sum();
    let mut left = below(total.max(1));
    let (number, row) = rows().find(|(_, row)| {
        let is_chosen = left < row.weight;
        left = left.saturating_sub(row.weight);
        is_chosen
    })?;
    if let Some(counts) = &settings.counts {
        counts.add(number);
    }
    Some(match row.fault {
        Fault::Error(error) => DrawnFault::Error(error),
        // Often a single byte, as it finds the most.
        Fault::Short if below(2) == 0 => DrawnFault::Short(1),
        Fault::Short => DrawnFault::Short(1 + below(len as u64 - 1) as usize),
    })
}

fn with_stream<T>(f: impl FnOnce(&mut FaultStream) -> T) -> T {
    STREAM.with_borrow_mut(|stream| f(stream.get_or_insert_with(FaultStream::of_thread)))
}

impl FaultStream {
    fn of_thread() -> FaultStream {
        let name = thread::current()
            .name()
            .unwrap_or_default()
            .bytes()
            .fold(0, |hash, byte| mix(hash ^ u64::from(byte)));
        let key = mix(PROCESS_KEY.load(Relaxed) ^ name);
        FaultStream { key, counts: [0; CALL_COUNT], failing_entries: Vec::new() }
    }

    /// Returns the next number for a call.
    fn next(&mut self, call: Call) -> u64 {
        let count = &mut self.counts[call as usize];
        *count += 1;
        self.key ^ mix(*count ^ (call as u64) << 48)
    }
}

/// Mixes the bits of a number: SplitMix64, Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
