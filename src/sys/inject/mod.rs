//! Fault injection: the kernel's rarer answers, by seed, for the black-box tests. `docs/decisions/0031-faults-by-seed.md`.
//!
//! ```text
//! caller ─▶ thin function of sys ─▶ inject: pass, or a shorter length, or an error ─▶ system call
//! ```
//!
//! | module | when | what it does |
//! |---|---|---|
//! | `seeded` | debug builds for Linux | draws faults if `TARPON_FAULTS` is set |
//! | `table` | the same | the faults of each call |
//! | `edges` | the same | raises the events of epoll that belong to the faults |
//! | `counts` | the same | counts the faults in a file that a test reads |
//! | `clock` | the same | moves the clocks that certificates are renewed by, if `TARPON_CLOCK_OFFSET` is set |
//! | `compression` | the same | leaves contents as they are, if `TARPON_COMPRESS` is set |
//! | `none` | all other builds | the same functions, which pass and leave no instruction |

#[cfg(all(debug_assertions, target_os = "linux"))]
mod clock;
#[cfg(all(debug_assertions, target_os = "linux"))]
mod compression;
#[cfg(all(debug_assertions, target_os = "linux"))]
mod counts;
#[cfg(all(debug_assertions, target_os = "linux"))]
mod edges;
#[cfg(not(all(debug_assertions, target_os = "linux")))]
mod none;
#[cfg(all(debug_assertions, target_os = "linux"))]
mod seeded;
#[cfg(all(debug_assertions, target_os = "linux"))]
mod table;

#[cfg(not(all(debug_assertions, target_os = "linux")))]
pub(crate) use none::{before, child_stream, clock_offset, compresses, fails, init, update_clock_offset};
#[cfg(all(debug_assertions, target_os = "linux"))]
pub(crate) use {
    clock::{clock_offset, update_clock_offset},
    compression::compresses,
    seeded::{before, child_stream, fails, init},
};

#[cfg(all(not(debug_assertions), target_os = "linux"))]
pub(crate) use none::{completed, entry, raise_edges, short_len, watched};
#[cfg(all(debug_assertions, target_os = "linux"))]
pub(crate) use {
    edges::{raise_edges, watched},
    seeded::{completed, entry, short_len},
};

/// A call into which faults can be injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "other systems make fewer of these calls"))]
pub(crate) enum Call {
    /// recv(2) of a non-blocking socket.
    Receive,
    /// send(2) and sendmsg(2) to a non-blocking socket.
    Send,
    /// sendfile(2) to a non-blocking socket.
    SendFile,
    /// accept(2).
    Accept,
    /// accept(2) of a blocking listener with a timeout.
    BlockingAccept,
    /// poll(2), epoll_wait(2).
    Wait,
    /// io_uring_enter(2).
    RingWait,
    /// A receive of a ring.
    RingReceive,
    /// A buffer for receives of a ring.
    RingBuffer,
    /// A send of a ring.
    RingSend,
    /// An accept of a ring.
    RingAccept,
    /// sendfile(2) of a loader to `/dev/null`.
    Load,
    /// preadv2(2) with `RWF_NOWAIT`.
    Probe,
    /// sendmsg(2) to the non-blocking end of a channel.
    ChannelSend,
    /// sendmsg(2) to the blocking end of a channel.
    BlockingChannelSend,
    /// sendmsg(2) with descriptors.
    SendDescriptors,
    /// recvmsg(2) from a channel.
    ChannelReceive,
    /// socketpair(2) in a process that a supervisor has forked.
    Pair,
}
