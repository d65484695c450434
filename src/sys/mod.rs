//! System calls that need a safety argument, and system calls that differ between systems.
//!
//! | module | on Linux | on FreeBSD and macOS |
//! |---|---|---|
//! | `wake` | eventfd | a pipe |
//! | `signals` | signalfd | kqueue, `EVFILT_SIGNAL` |
//! | `process` | prctl, close_range | procctl |
//! | `socket` | accept4, `SOCK_SEQPACKET`, sendfile | the same; on macOS fcntl and `SOCK_DGRAM`, sendfile in their forms |
//! | `sealed` | memfd, sealed | a temporary file without a name |
//! | `cached` | cachestat, `RWF_NOWAIT` | not queried: all pages count as resident |
//! | `name` | `O_PATH` | inode and birth |
//! | `program` | /proc/self/exe | the name of the program |
//! | `cores`, `huge`, `clock`, `priority` | bound threads, huge pages, coarse clocks, threads of low priority | none of these |
//! | `kernel_tls` | keys of TLS in the kernel, with the feature `tls` | none |
//! | `epoll` | epoll | – (`queue`: kqueue) |
//! | `access` | whether a file could be created or written | the same |
//! | `io` | the calls that move bytes over sockets, as thin functions | the same |
//! | `inject` | faults by seed, in debug builds | nothing |
//! | `forbidden` | reports a system call that seccomp refuses | – |
//! | `spawn` | clone, as posix_spawn does, with limits and Landlock | refused |
//! | `seccomp` | adds a filter to this process | – |
//! | `landlock` | the version of Landlock | – |
//! | `interfaces` | the addresses of this machine | the same |

#[cfg(not(any(target_os = "linux", target_os = "freebsd", target_os = "macos")))]
compile_error!("tarpon knows Linux, FreeBSD and macOS");

pub(crate) mod access;
mod fault;
pub(crate) mod inherited;
pub(crate) mod inject;
#[cfg(feature = "program")]
pub(crate) mod interfaces;
pub(crate) mod io;
#[cfg_attr(all(feature = "tls", target_os = "linux"), path = "linux/kernel_tls.rs")]
#[cfg_attr(not(all(feature = "tls", target_os = "linux")), path = "no_kernel_tls.rs")]
pub(crate) mod kernel_tls;
pub(crate) mod mapped;
pub(crate) mod memory;
pub(crate) mod packet;
pub(crate) mod poll;
#[cfg(all(test, target_os = "linux"))]
mod portable;
pub(crate) mod process;
pub(crate) mod shared;
#[cfg_attr(target_os = "linux", path = "linux/mod.rs")]
#[cfg_attr(not(target_os = "linux"), path = "bsd/mod.rs")]
mod system;
pub(crate) mod user;

pub(crate) use system::{cached, clock, cores, name, priority, program, signals, socket, spawn, wake};

#[cfg(all(test, target_os = "linux"))]
pub(crate) use system::attempts;
#[cfg(all(target_os = "linux", feature = "program"))]
pub(crate) use system::landlock;
#[cfg(not(target_os = "linux"))]
pub(crate) use system::queue;
#[cfg(target_os = "linux")]
pub(crate) use system::{epoll, forbidden, seccomp};

/// Limit of a listener's accept queue; the kernel lowers it to `net.core.somaxconn`.
pub(crate) const BACKLOG: i32 = 4096;
