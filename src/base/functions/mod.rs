//! Functions of the embedding program: which requests they respond to, and what they get and return.
//!
//! ```text
//! Functions ─ FunctionRoute: path, host, limits ─ FunctionRequest ─▶ function ─▶ FunctionResponse
//! ```
//!
//! The library exports the types as `Route`, `Request` and `Response`.
//!
//! | file | contents |
//! |---|---|
//! | `route` | the requests that a function responds to, and where it runs |
//! | `request` | a request, as a function gets it |
//! | `response` | a response, and what a function may return instead |
//! | `stream` | the content of a response that a function writes: a stream, or server-sent events |

pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod route;
pub(crate) mod stream;

use route::FunctionRoute;
use std::num::NonZeroUsize;

/// The functions of a program, beside the static sites of its server.
///
/// ```
/// use tarpon::{Functions, Response, Route};
///
/// let functions = Functions::new()
///     .route(Route::new("/hello", |_| "Hello world"))
///     .route(Route::new("/report", |_| Response::text("took long")).on_threads());
/// # let _ = functions;
/// ```
#[derive(Debug)]
pub struct Functions {
    pub(crate) routes: Vec<FunctionRoute>,
    pub(crate) thread_count: NonZeroUsize,
    pub(crate) queue_len: usize,
}

/// Threads for functions, at most. They mostly wait: for a database, a disk, or a slow client.
const THREAD_COUNT: NonZeroUsize = NonZeroUsize::new(16).unwrap();

/// Requests that wait for a thread. With functions that take 50 ms, the last of them waits for a quarter of a second.
const QUEUE_LEN: usize = 64;

impl Default for Functions {
    fn default() -> Functions {
        Functions { routes: Vec::new(), thread_count: THREAD_COUNT, queue_len: QUEUE_LEN }
    }
}

impl Functions {
    /// Returns no functions.
    pub fn new() -> Functions {
        Functions::default()
    }

    /// Adds a route to a function. Of the routes that match a request, the one with the longest path wins, and of those the one with a
    /// host.
    #[must_use]
    pub fn route(mut self, route: FunctionRoute) -> Functions {
        self.routes.push(route);
        self
    }

    /// Sets the maximum number of threads for functions [on threads](FunctionRoute::on_threads), and for the content of files and streams:
    /// 16 by default. They start when they are needed.
    #[must_use]
    pub fn thread_count(mut self, count: NonZeroUsize) -> Functions {
        self.thread_count = count;
        self
    }

    /// Sets how many requests wait for a thread: 64 by default. The response to a further one is 503, with Retry-After.
    #[must_use]
    pub fn queue_len(mut self, len: usize) -> Functions {
        self.queue_len = len;
        self
    }
}
