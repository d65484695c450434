//! An offset of the clocks that certificates are renewed by: a day of a test passes in a moment.

use std::{
    env,
    ffi::OsString,
    fs,
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// The path of a file with a number of seconds. A test replaces it as a whole, and never with a smaller number.
const OFFSET_VARIABLE: &str = "TARPON_CLOCK_OFFSET";

static OFFSET_S: AtomicU64 = AtomicU64::new(0);

/// Reads the offset anew, if the variable is set.
pub(crate) fn update_clock_offset() {
    static PATH: LazyLock<Option<OsString>> = LazyLock::new(|| env::var_os(OFFSET_VARIABLE));
    let text = PATH.as_ref().and_then(|path| fs::read_to_string(path).ok());
    OFFSET_S.store(text.and_then(|text| text.trim().parse().ok()).unwrap_or(0), Relaxed);
}

/// Returns the offset of the last update.
pub(crate) fn clock_offset() -> Duration {
    Duration::from_secs(OFFSET_S.load(Relaxed))
}
