//! The ways to send a file, by their names in records and reports.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How the bytes of a file reach a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SendMethod {
    /// Reads of 128 KiB, each followed by a send.
    Read,
    /// Sends of a file that is in memory of the process.
    Memory,
    SendFile,
    /// Two linked splices on a ring: from the file to a pipe, and from there to the socket.
    RingSplice,
    /// Sends without a copy on a ring, of a file that is in memory of the process.
    RingZeroCopy,
}

impl SendMethod {
    pub(crate) const ALL: [SendMethod; 5] = [
        SendMethod::Read,
        SendMethod::Memory,
        SendMethod::SendFile,
        SendMethod::RingSplice,
        SendMethod::RingZeroCopy,
    ];
}

impl fmt::Display for SendMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendMethod::Read => "read, send",
            SendMethod::Memory => "send from memory",
            SendMethod::SendFile => "sendfile",
            SendMethod::RingSplice => "linked splices on a ring",
            SendMethod::RingZeroCopy => "zero-copy send on a ring",
        })
    }
}
