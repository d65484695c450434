//! Looks the names of servers up, on a thread of its own: the C library waits for name servers.
//!
//! ```text
//! names ─▶ thread: getaddrinfo, every 30 s or when a connection fails ─▶ addresses ─▶ inbox of the event loop
//! ```

use crate::base::error::reason;
use std::{
    io,
    net::{SocketAddr, ToSocketAddrs},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// A name to look up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LookUp {
    /// The number of the server.
    pub(super) server: usize,
    pub(super) host: String,
    pub(super) port: u16,
}

/// The addresses of a name, or why there are none.
pub(super) type Addresses = Result<Vec<SocketAddr>, String>;

/// Asks the thread to look names up sooner.
#[derive(Clone, Debug, Default)]
pub(super) struct Resolver(Arc<ResolverState>);

#[derive(Debug, Default)]
struct ResolverState {
    /// The servers whose names are to be looked up sooner.
    wanted: Mutex<Vec<usize>>,
    wake: Condvar,
}

/// When a name is due.
#[derive(Debug)]
struct NameSchedule {
    last: Instant,
    next: Instant,
}

/// A name is looked up again after this time.
const INTERVAL: Duration = Duration::from_secs(30);
/// And after this one, if it could not be looked up, or connecting has failed.
const INTERVAL_MIN: Duration = Duration::from_secs(2);

/// Addresses of a name that are used.
const ADDRESS_COUNT_MAX: usize = 16;

impl Resolver {
    /// Starts the thread, which reports each result. It ends with the process.
    ///
    /// # Errors
    /// The system is out of threads.
    pub(super) fn start(
        names: Vec<LookUp>,
        report: impl FnMut(usize, Addresses) + Send + 'static,
    ) -> io::Result<Resolver> {
        let resolver = Resolver::default();
        if !names.is_empty() {
            let state = Arc::clone(&resolver.0);
            thread::Builder::new().name("names".to_owned()).spawn(move || run(&state, &names, report))?;
        }
        Ok(resolver)
    }

    /// Asks for a name again: a connection to its server has failed.
    pub(super) fn look_up_soon(&self, server: usize) {
        let mut wanted = self.0.lock();
        if !wanted.contains(&server) {
            wanted.push(server);
            self.0.wake.notify_one();
        }
    }
}

impl ResolverState {
    fn lock(&self) -> MutexGuard<'_, Vec<usize>> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a name is due.
    fn wait(&self, names: &[LookUp], schedules: &mut [NameSchedule]) {
        let mut wanted = self.lock();
        loop {
            for (name, schedule) in names.iter().zip(&mut *schedules) {
                if wanted.contains(&name.server) {
                    schedule.next = schedule.next.min(schedule.last + INTERVAL_MIN);
                }
            }
            wanted.clear();
            let now = Instant::now();
            let Some(next) = schedules.iter().map(|schedule| schedule.next).min() else { return };
            if next <= now {
                return;
            }
            wanted = match self.wake.wait_timeout(wanted, next - now) {
                Ok((wanted, _)) => wanted,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }
}

fn run(state: &ResolverState, names: &[LookUp], mut report: impl FnMut(usize, Addresses)) {
    let now = Instant::now();
    let mut schedules: Vec<_> = names.iter().map(|_| NameSchedule { last: now, next: now }).collect();
    loop {
        for (name, schedule) in names.iter().zip(&mut schedules) {
            let now = Instant::now();
            if schedule.next > now {
                continue;
            }
            let found = look_up(name);
            let interval = if found.is_ok() { INTERVAL } else { INTERVAL_MIN };
            *schedule = NameSchedule { last: now, next: Instant::now() + interval };
            report(name.server, found);
        }
        state.wait(names, &mut schedules);
    }
}

/// Looks a name up.
fn look_up(LookUp { host, port, .. }: &LookUp) -> Addresses {
    let found = (host.as_str(), *port).to_socket_addrs().map_err(|error| reason(&error))?;
    let mut addresses: Vec<SocketAddr> = found.take(ADDRESS_COUNT_MAX).collect();
    addresses.dedup();
    match addresses.is_empty() {
        true => Err("it has no address".to_owned()),
        false => Ok(addresses),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn names_are_looked_up_and_reported() {
        let (sender, receiver) = channel();
        let name = |server, host: &str| LookUp { server, host: host.to_owned(), port: 80 };
        // No name of the domain `invalid` exists: RFC 6761, section 6.4.
        let names = vec![name(3, "localhost"), name(5, "a.invalid")];
        let report = move |server, addresses| drop(sender.send((server, addresses)));
        let resolver = Resolver::start(names, report).unwrap();
        let (server, addresses) = receiver.recv().unwrap();
        assert!(server == 3 && addresses.unwrap().iter().all(|address| address.ip().is_loopback()));
        let (server, addresses) = receiver.recv().unwrap();
        assert!(server == 5 && addresses.is_err());
        resolver.look_up_soon(3);
    }
}
