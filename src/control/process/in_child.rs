//! Computes a value in a child that exits at once.
//!
//! A look-up of a user makes the C library load modules for its databases, and never unload them. In a child of its own it leaves nothing in
//! the memory of this process, and of those that it forks.

use crate::sys::process::SingleThreaded;
use rustix::{
    io::retry_on_intr,
    process::{WaitOptions, waitpid},
};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    io::{self, Read, Write},
    os::fd::AsRawFd,
};

/// Runs `compute` in a child, and returns its result.
///
/// # Errors
/// The child cannot be started, or ended early.
pub(crate) fn in_child<T: Serialize + DeserializeOwned>(
    single_threaded: &SingleThreaded,
    compute: impl FnOnce() -> T,
) -> io::Result<T> {
    let (mut reader, mut writer) = io::pipe()?;
    let mut keep = [writer.as_raw_fd()];
    let child = single_threaded.spawn(&mut keep, || {
        let sent =
            serde_json::to_vec(&compute()).map_err(io::Error::from).and_then(|sent| writer.write_all(&sent));
        i32::from(sent.is_err())
    })?;
    drop(writer);
    let mut received = Vec::new();
    let read = reader.read_to_end(&mut received);
    retry_on_intr(|| waitpid(Some(child), WaitOptions::empty()))?;
    read?;
    Ok(serde_json::from_slice(&received)?)
}
