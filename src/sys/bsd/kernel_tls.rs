//! Kernel TLS: this program uses it on Linux only.

use rustix::io::Errno;
use std::os::fd::AsFd;
use tarpon_conn::{KernelKeys, KernelSuite};

/// The versions and ciphers that the kernel has: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KernelSuites;

impl KernelSuites {
    pub(crate) fn probe() -> KernelSuites {
        KernelSuites
    }

    pub(crate) fn has(self, _: KernelSuite) -> bool {
        false
    }

    pub(crate) fn is_empty(self) -> bool {
        true
    }
}

pub(crate) fn attach(_: impl AsFd) -> Result<(), Errno> {
    Err(Errno::OPNOTSUPP)
}

pub(crate) fn install(_: impl AsFd, _: &KernelKeys) -> Result<(), Errno> {
    Err(Errno::OPNOTSUPP)
}

pub(crate) fn send_record(_: impl AsFd, _: u8, _: &[u8]) -> Result<(), Errno> {
    Err(Errno::OPNOTSUPP)
}

pub(crate) fn receive_record(_: impl AsFd, _: &mut [u8]) -> Result<(u8, usize), Errno> {
    Err(Errno::OPNOTSUPP)
}
