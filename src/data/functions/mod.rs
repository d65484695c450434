//! Functions of the embedding program, as workers call them.
//!
//! ```text
//!         ┌ a fast function ── inline ─┬ bytes ────────────────────────────────────▶ the client's connection
//! request ┤                            └ a file, a stream ─┐
//!         └ a function on threads ── pipe ── socket pair ──┴─ a thread of the pool ── pipe ──▶ the client's connection
//! ```
//!
//! | file | what |
//! |---|---|
//! | `inline` | calls a function on the worker |
//! | `pool` | the threads, and the requests that wait for one |
//! | `exchange` | an exchange on a thread: frames over a socket |
//! | `catch` | turns errors and panics of functions into responses |

mod catch;
mod exchange;
mod inline;
mod pool;

use crate::{
    base::{
        error::UserError,
        functions::{
            Functions,
            route::{Function, FunctionRoute},
        },
    },
    data::worker::{BackendConnector, Backends},
};
use exchange::FunctionJob;
use inline::FunctionOnWorker;
use pool::ThreadPool;
use rustix::io::ioctl_fionbio;
use std::{
    fmt, io,
    os::{fd::OwnedFd, unix::net::UnixStream},
    sync::Arc,
};
use tarpon_conn::{BackendRoute, Payload};
use tarpon_site::Printable;

/// Adds functions and the routes to them. Returns their threads.
///
/// # Errors
/// A path is invalid, or there are too many routes.
pub(crate) fn add(functions: Functions, backends: &mut Backends) -> Result<FunctionThreads, UserError> {
    let Functions { routes, thread_count, queue_len } = functions;
    let pool = Arc::new(ThreadPool::new(thread_count, queue_len));
    for route in routes {
        let prefix = route.prefix().map_err(|error| {
            UserError::new(
                format_args!("cannot add the route {}", route.path.printable()),
                error,
                "write the path as in /api, decoded and without a query",
            )
        })?;
        let FunctionRoute { path, host, limits, is_on_threads, function } = route;
        let path: Arc<str> = path.into();
        let on_worker = FunctionOnWorker { path: Arc::clone(&path), function: Arc::clone(&function) };
        let backend = backends.add(Arc::new(ThreadConnector { pool: Arc::clone(&pool), path, function }))?;
        if !is_on_threads {
            backends.add_inline(backend, Arc::new(on_worker));
        }
        backends.routes.push((host, prefix, BackendRoute { backend, limits }));
    }
    Ok(FunctionThreads(pool))
}

/// The threads of a server's functions.
pub(crate) struct FunctionThreads(Arc<ThreadPool>);

impl fmt::Debug for FunctionThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionThreads").finish_non_exhaustive()
    }
}

impl FunctionThreads {
    /// Waits until all functions have returned. The workers have ended.
    pub(crate) fn join(self) {
        self.0.join();
    }
}

/// Connects to a thread that runs a function.
struct ThreadConnector {
    pool: Arc<ThreadPool>,
    path: Arc<str>,
    function: Function,
}

impl ThreadConnector {
    fn connect_to(&self, payload: Option<Payload>, is_nonblocking: bool) -> io::Result<OwnedFd> {
        let (own, other) = UnixStream::pair()?;
        ioctl_fionbio(&own, is_nonblocking)?;
        let path = Arc::clone(&self.path);
        let job = match payload.map(inline::later) {
            None => FunctionJob::Call { path, function: Arc::clone(&self.function), socket: other },
            Some(later) => FunctionJob::Send { path, later: later?, socket: other },
        };
        self.pool.submit(job)?;
        Ok(own.into())
    }
}

impl BackendConnector for ThreadConnector {
    fn connect(&self, is_nonblocking: bool) -> io::Result<OwnedFd> {
        self.connect_to(None, is_nonblocking)
    }

    fn connect_with(&self, payload: Payload, is_nonblocking: bool) -> io::Result<OwnedFd> {
        self.connect_to(Some(payload), is_nonblocking)
    }
}
