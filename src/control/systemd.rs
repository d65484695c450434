//! systemd, where it has started the program: what it is told, and the sockets it hands over. sd_notify(3), sd_listen_fds(3).
//!
//! | told | when |
//! |---|---|
//! | `READY=1`, `STATUS=` | clients are served; also again, after a reload, whatever came of it |
//! | `RELOADING=1`, `MONOTONIC_USEC=` | another configuration, or another program, begins |
//! | `MAINPID=` | another program serves from now on |
//! | `STOPPING=1` | nobody new is served |

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

/// Whom systemd has to be told by, if there is one.
#[derive(Debug)]
pub(crate) struct Systemd {
    socket: Option<(UnixDatagram, SocketAddr)>,
}

impl Systemd {
    /// As the environment says. Where it says something that cannot be, nobody is told.
    pub(crate) fn find() -> Systemd {
        let socket = env::var_os("NOTIFY_SOCKET").and_then(|path| connect(&path).ok());
        Systemd { socket }
    }

    /// Clients are served, by what these words say.
    pub(crate) fn ready(&self, status: &str) {
        let status = status.lines().next().unwrap_or_default();
        self.say(&format!("READY=1\nSTATUS={status}\n"));
    }

    /// Something else shall be served, or by something else.
    pub(crate) fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let now_us = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
        self.say(&format!("RELOADING=1\nMONOTONIC_USEC={now_us}\n"));
    }

    /// Nobody new is served.
    pub(crate) fn stopping(&self) {
        self.say("STOPPING=1\n");
    }

    /// From now on that process speaks for the service.
    pub(crate) fn main_process(&self, id: u32) {
        self.say(&format!("MAINPID={id}\n"));
    }

    fn say(&self, state: &str) {
        if let Some((socket, address)) = &self.socket {
            // Who does not listen is not served worse for it.
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
    // The supervisor waits for nobody.
    socket.set_nonblocking(true)?;
    Ok((socket, address))
}

/// Variables by which sockets are handed over. They are for this process alone: whom it starts is not to have them.
pub(crate) const LISTEN_VARIABLES: [&str; 3] = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"];

/// The first of them, by definition.
const FIRST: i32 = 3;

/// The sockets that were handed over, where they listen. To be asked once, before anything is opened.
///
/// # Errors
/// One of them is none that listens for connections at an address that has a name.
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
        let remedy = "have ListenStream= of its socket unit name an address and a port, or a path";
        let bound = inherited::take(number).and_then(Listener::lent);
        bound.map_err(|error| UserError::new(what, reason(&error), remedy))
    });
    sockets.collect()
}
