//! Functions that the worker calls itself: they respond in the place of a backend, at once, without a pipe.
//!
//! ```text
//! head and content, complete ─▶ InlineRequest ─ call ─▶ InlineResponse ─┬ bytes ─▶ outbox
//!                                                                       └ a payload ─▶ pipe ─▶ backend, which sends the response
//! ```
//!
//! A function must neither wait nor panic: the other connections of the worker wait for it. Its bytes may have an owner whose drop panics.

use crate::{
    backend::BackendId,
    pipe::fields::end_to_end_fields,
    program_value::ProgramValue,
    request::{Request, Resource},
};
use bytes::Bytes;
use std::{
    any::Any,
    borrow::Cow,
    fmt,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tarpon_http::{fields::Fields, status::Status, target::Scheme};

/// A function that responds to requests. It must neither wait nor panic.
pub trait InlineFunction: Send + Sync {
    /// Responds to a request whose content is complete.
    fn call(&self, request: &InlineRequest<'_>) -> InlineResponse;
}

/// A request, with its whole content.
#[derive(Clone, Copy)]
pub struct InlineRequest<'r> {
    /// The method, as received.
    pub method: &'r [u8],
    /// The scheme that the client has used.
    pub scheme: Scheme,
    /// Host and port that the request is for. `None`: a client of HTTP/1.0 named none.
    pub authority: Option<&'r [u8]>,
    /// The path, as received.
    pub path: &'r [u8],
    /// The bytes after the `?` of the target.
    pub query: Option<&'r [u8]>,
    /// The address of the client, if it is known.
    pub client: Option<IpAddr>,
    /// The content.
    pub content: &'r [u8],
    pub(crate) fields: &'r Fields<'r>,
}

impl<'r> InlineRequest<'r> {
    /// Returns the fields, without those that belong to the connection, and without Host and Expect: a backend gets the same.
    pub fn fields(&self) -> impl Iterator<Item = (&'r [u8], &'r [u8])> + use<'r> {
        end_to_end_fields(self.fields)
    }
}

/// Returns a request as functions get it. `method`: as received.
///
/// # Errors
/// Returns the status of the response: the request is for no resource.
pub(crate) fn inline_request<'r>(
    request: &Request<'r>,
    method: &'r [u8],
    content: &'r [u8],
) -> Result<InlineRequest<'r>, Status> {
    let (path, query) = match request.resource {
        Ok(Resource::Path { path, query }) => (path, query),
        Ok(Resource::Server) => (&b"*"[..], None),
        Ok(Resource::Tunnel) => return Err(Status::MethodNotAllowed),
        Err(error) => return Err(error.status()),
    };
    Ok(InlineRequest {
        method,
        scheme: request.client.scheme.unwrap_or(Scheme::Http),
        authority: request.authority,
        path,
        query,
        client: request.client.address,
        content,
        fields: request.fields,
    })
}

impl fmt::Debug for InlineRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InlineRequest")
            .field("method", &self.method.escape_ascii().to_string())
            .field("path", &self.path.escape_ascii().to_string())
            .finish_non_exhaustive()
    }
}

/// The response of a function.
#[derive(Debug)]
pub struct InlineResponse {
    /// The status code of a final response.
    pub code: u16,
    /// Field lines, each with its line end: valid, and none that frames the content, belongs to the connection, or is named Date or Server.
    pub lines: Cow<'static, [u8]>,
    /// The content.
    pub content: InlineContent,
}

/// The content of a response.
#[derive(Debug)]
pub enum InlineContent {
    /// These bytes, which may have an owner in the embedding program.
    Bytes(ProgramValue<Bytes>),
    /// The backend sends the whole response, of which this is a description.
    Later(Payload),
}

/// A value that a pipe carries to the connector of its backend.
pub type Payload = Box<dyn Any + Send>;

/// The functions of a worker.
#[derive(Default)]
pub(crate) struct InlineFunctions {
    /// By the number of the backend.
    by_backend: Vec<Option<Arc<dyn InlineFunction>>>,
    budget: CollectBudget,
}

impl InlineFunctions {
    pub(crate) fn add(
        &mut self,
        BackendId(number): BackendId,
        function: Arc<dyn InlineFunction>,
        budget: &CollectBudget,
    ) {
        let number = number as usize;
        let count = self.by_backend.len().max(number + 1);
        self.by_backend.resize_with(count, || None);
        self.by_backend[number] = Some(function);
        self.budget = budget.clone();
    }

    /// Returns the function in the place of a backend.
    #[inline]
    pub(crate) fn get(&self, BackendId(number): BackendId) -> Option<&dyn InlineFunction> {
        self.by_backend.get(number as usize)?.as_deref()
    }

    /// Returns the budget of the content of requests.
    pub(crate) fn budget(&self) -> &CollectBudget {
        &self.budget
    }
}

/// The memory for the content of requests that is not complete, in all workers.
#[derive(Clone, Debug)]
pub struct CollectBudget(Arc<AtomicU64>);

/// The memory for the content of requests to functions that run on a worker, in bytes: 256 requests of the default limit. A longer content
/// belongs to a function on threads, which reads it as it arrives.
const CONTENT_BUDGET_LEN: u64 = 256 * 1024 * 1024;

impl Default for CollectBudget {
    fn default() -> CollectBudget {
        CollectBudget(Arc::new(AtomicU64::new(CONTENT_BUDGET_LEN)))
    }
}

/// Content that is being collected.
#[derive(Debug)]
pub(crate) struct CollectedContent {
    bytes: Vec<u8>,
    budget: CollectBudget,
    /// The bytes taken from the budget.
    taken: u64,
}

/// The error that the budget is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoBudget;

impl CollectedContent {
    pub(crate) fn new(budget: CollectBudget) -> CollectedContent {
        CollectedContent { bytes: Vec::new(), budget, taken: 0 }
    }

    /// Adds bytes. Memory is taken as they arrive: a client that only announces them costs none.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> Result<(), NoBudget> {
        self.bytes.reserve(bytes.len());
        let wanted = self.bytes.capacity() as u64 - self.taken;
        let take = |left: u64| left.checked_sub(wanted);
        self.budget.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).map_err(|_| NoBudget)?;
        self.taken += wanted;
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for CollectedContent {
    fn drop(&mut self) {
        self.budget.0.fetch_add(self.taken, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_is_returned_with_the_content() {
        let budget = CollectBudget(Arc::new(AtomicU64::new(1_000)));
        let mut one = CollectedContent::new(budget.clone());
        one.add(&[1; 600]).expect("within the budget");
        let mut other = CollectedContent::new(budget.clone());
        assert_eq!(other.add(&[2; 600]), Err(NoBudget));
        assert_eq!(one.bytes(), [1; 600]);
        drop((one, other));
        assert_eq!(budget.0.load(Ordering::Relaxed), 1_000);
    }
}
