//! The faults of each call: only results that the kernel itself may give for this call.

use super::Call::{self, *};
use Fault::{Error, Short};
use rustix::io::Errno as E;

/// The outcome of a call instead of the usual one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The call transfers less, at least one byte.
    Short,
    /// The call does nothing, and fails.
    Error(E),
}

/// A fault of a call.
pub(super) struct FaultRow {
    pub(super) call: Call,
    pub(super) fault: Fault,
    /// How often the call fails so, compared with its other faults.
    pub(super) weight: u64,
    /// The name under which a test finds the count.
    pub(super) name: &'static str,
}

/// All faults. The errors that start an accept back-off are rare, as each costs a test up to a second.
#[rustfmt::skip]
pub(super) const FAULTS: [FaultRow; 35] = [
    // call              fault                     weight  name
    row(Receive,             Short,                    3, "recv short"),
    row(Receive,             Error(E::AGAIN),          1, "recv EAGAIN"),
    row(Send,                Short,                    3, "send short"),
    row(Send,                Error(E::AGAIN),          1, "send EAGAIN"),
    row(SendFile,            Short,                    3, "sendfile short"),
    row(SendFile,            Error(E::AGAIN),          1, "sendfile EAGAIN"),
    row(SendFile,            Error(E::INTR),           1, "sendfile EINTR"),
    row(Accept,              Error(E::CONNABORTED),  400, "accept ECONNABORTED"),
    row(Accept,              Error(E::MFILE),          3, "accept EMFILE"),
    row(Accept,              Error(E::NFILE),          3, "accept ENFILE"),
    row(Accept,              Error(E::NOBUFS),         3, "accept ENOBUFS"),
    row(Accept,              Error(E::NOMEM),          3, "accept ENOMEM"),
    row(BlockingAccept,      Error(E::INTR),           1, "blocking accept EINTR"),
    row(BlockingAccept,      Error(E::CONNABORTED),    1, "blocking accept ECONNABORTED"),
    row(Wait,                Short,                    1, "wait short"),
    row(Wait,                Error(E::INTR),           1, "wait EINTR"),
    row(RingWait,            Error(E::INTR),           2, "ring wait EINTR"),
    row(RingWait,            Error(E::AGAIN),          1, "ring wait EAGAIN"),
    row(RingReceive,         Error(E::NOBUFS),         2, "ring recv ENOBUFS"),
    row(RingReceive,         Error(E::INTR),           1, "ring recv EINTR"),
    row(RingBuffer,          Short,                    1, "ring recv short"),
    row(RingSend,            Short,                    3, "ring send short"),
    row(RingSend,            Error(E::INTR),           1, "ring send EINTR"),
    row(RingAccept,          Error(E::CONNABORTED),    1, "ring accept ECONNABORTED"),
    row(RingAccept,          Error(E::MFILE),          1, "ring accept EMFILE"),
    row(RingAccept,          Error(E::NOBUFS),         1, "ring accept ENOBUFS"),
    row(Load,                Short,                    2, "load short"),
    row(Load,                Error(E::INTR),           1, "load EINTR"),
    row(Probe,               Error(E::AGAIN),          1, "probe EAGAIN"),
    row(ChannelSend,         Error(E::AGAIN),          1, "channel send EAGAIN"),
    row(BlockingChannelSend, Error(E::INTR),           1, "blocking channel send EINTR"),
    row(SendDescriptors,     Error(E::TOOMANYREFS),    1, "channel send ETOOMANYREFS"),
    row(ChannelReceive,      Error(E::INTR),           1, "channel recv EINTR"),
    row(Pair,                Error(E::MFILE),          1, "socketpair EMFILE"),
    row(Pair,                Error(E::NOMEM),          1, "socketpair ENOMEM"),
];

/// Returns how many times rarer than other calls this call fails.
pub(super) fn rarity(call: Call) -> u64 {
    match call {
        // Each failure makes clients of the engine `fork` wait for up to a second.
        Pair => 4,
        _ => 1,
    }
}

const fn row(call: Call, fault: Fault, weight: u64, name: &'static str) -> FaultRow {
    FaultRow { call, fault, weight, name }
}
