//! The requests that a function responds to, and where it runs.

use super::{
    request::FunctionRequest,
    response::{FunctionResponse, IntoResponse},
};
use std::{error::Error, fmt, sync::Arc, time::Duration};
use tarpon_conn::{BackendLimits, HostName, HostNameError, PathPrefix, ProgramValue};

/// A route: the requests that a function responds to.
///
/// The function runs on the worker that has received the request, so it must be fast: it must not wait for a lock, a disk or a network,
/// as the other clients of the worker wait with it. [`on_threads`](FunctionRoute::on_threads) is for all other functions.
#[derive(Clone)]
pub struct FunctionRoute {
    pub(crate) path: String,
    pub(crate) host: Option<HostName>,
    pub(crate) limits: BackendLimits,
    pub(crate) is_on_threads: bool,
    pub(crate) function: Function,
}

/// A function with its types erased.
pub(crate) type Function =
    Arc<dyn Fn(&mut FunctionRequest<'_>) -> Result<FunctionResponse, FunctionError> + Send + Sync>;

/// Why a function has no response.
pub(crate) type FunctionError = Box<dyn Error + Send + Sync>;

impl FunctionRoute {
    /// Returns a route for a path and all paths below it, at all hosts: `/api` is for `/api` and `/api/users`, but not for `/apis`. The
    /// path is decoded, and `/` is for all requests.
    ///
    /// A function returns a [`Response`](crate::Response), bytes, text, or a `Result` of these. An error, or a panic, becomes 500 and an
    /// event through `tracing`.
    pub fn new<F, R>(path: impl Into<String>, function: F) -> FunctionRoute
    where
        F: Fn(&mut FunctionRequest<'_>) -> R + Send + Sync + 'static,
        R: IntoResponse,
    {
        let limits = BackendLimits {
            // A connection to a thread carries one exchange: threads do not wait for a second one.
            idle_ms: 0,
            ..BackendLimits::default()
        };
        let function = ProgramValue::new(function);
        let function =
            Arc::new(move |request: &mut FunctionRequest<'_>| (*function)(request).into_response());
        FunctionRoute { path: path.into(), host: None, limits, is_on_threads: false, function }
    }

    /// Limits the route to hosts with this name: a host, or a wildcard such as `*.example.org`.
    ///
    /// # Errors
    /// The name is no host name.
    pub fn host(mut self, name: &str) -> Result<FunctionRoute, HostNameError> {
        self.host = Some(name.parse()?);
        Ok(self)
    }

    /// Runs the function on a thread of a [pool](super::Functions::thread_count), where it may wait. It is called as soon as the head of a
    /// request has arrived, and reads the content as it arrives.
    #[must_use]
    pub fn on_threads(mut self) -> FunctionRoute {
        self.is_on_threads = true;
        self
    }

    /// Sets the maximum length of the content of a request in bytes: 1 MiB by default. The response to a longer one is 413. On a worker, the
    /// content is collected in memory before the function is called.
    #[must_use]
    pub fn content_len_max(mut self, len: u64) -> FunctionRoute {
        self.limits.content_len_max = len;
        self
    }

    /// Sets the minimum rate in bytes per second at which a client must send content, averaged over half a minute: 500 by default.
    #[must_use]
    pub fn min_content_rate(mut self, rate: u32) -> FunctionRoute {
        self.limits.min_content_rate = rate;
        self
    }

    /// Sets how long a function on threads may take to read more of the content, or to send more of its response: a minute by default.
    /// The response is 504 then, or ends incomplete. A function on a worker has no such limit.
    #[must_use]
    pub fn response_timeout(mut self, time: Duration) -> FunctionRoute {
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        (self.limits.first_byte_ms, self.limits.response_ms) = (ms, ms);
        self
    }

    /// Returns the path as a prefix.
    pub(crate) fn prefix(&self) -> Result<PathPrefix, tarpon_conn::PathPrefixError> {
        self.path.parse()
    }
}

impl fmt::Debug for FunctionRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Route")
            .field("path", &self.path)
            .field("host", &self.host)
            .field("is_on_threads", &self.is_on_threads)
            .finish_non_exhaustive()
    }
}
