//! systemd: readiness notifications, and socket activation. sd_notify(3), sd_listen_fds(3).
//!
//! | notification | when |
//! |---|---|
//! | `READY=1`, `STATUS=` | the server serves; again after each reload, successful or not |
//! | `RELOADING=1`, `MONOTONIC_USEC=` | a reload or an upgrade starts |
//! | `MAINPID=` | a successor serves from now on |
//! | `STOPPING=1` | the server accepts no more clients |

use crate::{
    base::error::{UserError, reason},
    control::listeners::Listener,
    sys::{inherited, socket::abstract_address},
};
use rustix::{
    process::getpid,
    time::{ClockId, clock_gettime},
};
use std::{
    env,
    ffi::OsStr,
    io,
    os::unix::{
        ffi::OsStrExt,
        net::{SocketAddr, UnixDatagram},
    },
};
use tarpon_site::Printable;

/// The notification socket of systemd, if there is one.
#[derive(Debug)]
pub(crate) struct Systemd {
    socket: Option<(UnixDatagram, SocketAddr)>,
}

impl Systemd {
    /// Finds the socket through the environment. With an invalid address, all notifications are dropped.
    pub(crate) fn find() -> Systemd {
        let socket = env::var_os("NOTIFY_SOCKET").and_then(|path| connect(&path).ok());
        Systemd { socket }
    }

    /// Notifies that the server serves, with a status line.
    pub(crate) fn ready(&self, status: &str) {
        let status = status.lines().next().unwrap_or_default();
        self.send(&format!("READY=1\nSTATUS={status}\n"));
    }

    /// Notifies that a reload or an upgrade starts.
    pub(crate) fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let now_us = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={now_us}\n"));
    }

    /// Notifies that the server accepts no more clients.
    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1\n");
    }

    /// Notifies that this process is the main process of the service now.
    pub(crate) fn main_process(&self, id: u32) {
        self.send(&format!("MAINPID={id}\n"));
    }

    fn send(&self, state: &str) {
        if let Some((socket, address)) = &self.socket {
            // A lost notification does not affect clients.
            let _ = socket.send_to_addr(state.as_bytes(), address);
        }
    }
}

fn connect(path: &OsStr) -> io::Result<(UnixDatagram, SocketAddr)> {
    let address = match path.as_bytes() {
        [b'@', name @ ..] => abstract_address(name)?,
        _ => SocketAddr::from_pathname(path)?,
    };
    let socket = UnixDatagram::unbound()?;
    // The supervisor must not block.
    socket.set_nonblocking(true)?;
    Ok((socket, address))
}

/// The variables of socket activation. They are for this process only; its children must not inherit them.
pub(crate) const LISTEN_VARIABLES: [&str; 3] = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"];

/// The first inherited descriptor: SD_LISTEN_FDS_START.
const FIRST: i32 = 3;

/// Takes the sockets that systemd has handed over. Call it once, before the process opens anything.
///
/// # Errors
/// A socket is not a listening stream socket, or has no configurable address.
pub(crate) fn sockets() -> Result<Vec<Listener>, UserError> {
    let number = |variable| env::var(variable).ok().and_then(|value| value.parse::<i32>().ok());
    let [process, count, _] = LISTEN_VARIABLES.map(number);
    if process != Some(getpid().as_raw_nonzero().get()) {
        return Ok(Vec::new());
    }
    let names = env::var(LISTEN_VARIABLES[2]).unwrap_or_default();
    let mut names = names.split(':');
    let sockets = (FIRST..FIRST.saturating_add(count.unwrap_or(0))).map(|number| {
        let name = names.next().filter(|name| !name.is_empty()).unwrap_or("unknown");
        let what = format_args!("cannot use the socket {} of systemd, descriptor {number}", name.printable())
            .to_string();
        let hint = "set ListenStream= in its socket unit to an address and a port, or to a path";
        let listener = inherited::take(number).and_then(Listener::from_inherited_socket);
        listener.map_err(|error| UserError::new(what, reason(&error), hint))
    });
    sockets.collect()
}
