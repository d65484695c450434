//! Reports the system call that a seccomp filter has refused, before the process dies: seccomp(2), `SECCOMP_RET_TRAP`.

use std::{
    ffi::{c_int, c_void},
    io, mem, ptr,
};

/// Installs a handler that writes the number of a trapped system call to standard error and kills the process. The call itself is
/// never made.
pub(crate) fn report_and_die() -> io::Result<()> {
    // SAFETY: a sigaction of zeros is valid; it lives during the call, and the handler does only what one may do.
    let done = unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = on_forbidden as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(libc::SIGSYS, &action, ptr::null_mut())
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// First fields of `siginfo_t` for a trapped call; libc has no names for them.
#[repr(C)]
struct Trapped {
    signal: c_int,
    errno: c_int,
    code: c_int,
    at: *mut c_void,
    call: c_int,
}

/// The handler. Async-signal-safe: formats by hand, and makes system calls that every filter of ours allows.
extern "C" fn on_forbidden(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel calls with a siginfo of this form for this signal.
    let mut call = unsafe { (*info.cast::<Trapped>()).call }.unsigned_abs();
    let mut digits = [b'0'; 10];
    let mut first = digits.len();
    while first == digits.len() || call > 0 {
        first -= 1;
        digits[first] += (call % 10) as u8;
        call /= 10;
    }
    // SAFETY: both are bytes of this program. The signal waits until this returns, and then ends the process.
    unsafe {
        for part in [MESSAGE, &digits[first..], b"\n"] {
            libc::write(2, part.as_ptr().cast(), part.len());
        }
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

const MESSAGE: &[u8] = b"tarpon: the sandbox forbids system call number ";
