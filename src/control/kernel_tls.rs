//! What the kernel may do of TLS, as the settings ask and as it can.

use crate::{
    base::{
        error::UserError,
        settings::{KernelTlsUse, Settings},
    },
    data::worker::KernelSuites,
};

/// Finds out what the kernel can seal and open for the engine of these settings. Tries it on sockets, so this comes before the sandbox.
///
/// # Errors
/// The settings insist on it, and it can nothing, or the engine cannot use it.
pub(crate) fn suites(settings: &Settings, has_tls: bool) -> Result<KernelSuites, UserError> {
    if !has_tls || settings.kernel_tls == KernelTlsUse::Off {
        return Ok(KernelSuites::NONE);
    }
    let suites = if settings.engine.is_blocking() { KernelSuites::NONE } else { KernelSuites::probe() };
    if settings.kernel_tls == KernelTlsUse::On && suites.is_empty() {
        let (why, hint) = match settings.engine.is_blocking() {
            true => ("the engine serves one connection at a time", "use the engine io_uring, epoll or poll"),
            false => (
                "the kernel has no TLS, its module tls is not loaded, or this host has no loopback interface",
                "load it with modprobe tls, or use auto: the server then encrypts by itself",
            ),
        };
        return Err(UserError::new("cannot give TLS to the kernel", why, hint).about("ktls"));
    }
    Ok(suites)
}
