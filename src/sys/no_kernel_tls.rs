//! Kernel TLS where this program does not use it: on other systems than Linux, and in a build without TLS.

#[cfg(feature = "tls")]
use {
    rustix::io::Errno,
    std::os::fd::AsFd,
    tarpon_conn::{KernelKeys, KernelSuite},
};

/// The versions and ciphers that the kernel has: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KernelSuites;

impl KernelSuites {
    pub(crate) const NONE: KernelSuites = KernelSuites;

    pub(crate) fn probe() -> KernelSuites {
        KernelSuites
    }

    pub(crate) fn is_empty(self) -> bool {
        true
    }

    #[cfg(feature = "tls")]
    pub(crate) fn has(self, _: KernelSuite) -> bool {
        false
    }
}

#[cfg(feature = "tls")]
pub(crate) fn attach(_: impl AsFd) -> Result<(), Errno> {
    Err(Errno::OPNOTSUPP)
}

#[cfg(feature = "tls")]
pub(crate) fn install(_: impl AsFd, _: &KernelKeys) -> Result<(), Errno> {
    Err(Errno::OPNOTSUPP)
}

#[cfg(feature = "tls")]
pub(crate) fn send_record(_: impl AsFd, _: u8, _: &[u8]) -> Result<(), Errno> {
    Err(Errno::OPNOTSUPP)
}

#[cfg(feature = "tls")]
pub(crate) fn receive_record(_: impl AsFd, _: &mut [u8]) -> Result<(u8, usize), Errno> {
    Err(Errno::OPNOTSUPP)
}
