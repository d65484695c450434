//! Turns errors and panics of functions into responses, and into events.

use crate::base::functions::{request::FunctionRequest, response::FunctionResponse, route::Function};
use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};
use tarpon_conn::drop_caught;
use tarpon_site::Printable;
use tracing::error;

/// Calls a function. An error, a panic or an invalid response becomes a response with the status 500.
#[inline]
pub(super) fn call(path: &str, function: &Function, request: &mut FunctionRequest<'_>) -> FunctionResponse {
    // After a panic the worker uses nothing of the request. What a function shares with others, its locks guard.
    let called = catch_unwind(AssertUnwindSafe(|| {
        // The text and the drop of an error are code of the program, too.
        function(request).and_then(FunctionResponse::checked).map_err(|error| error.to_string())
    }));
    match called {
        Ok(Ok(response)) => response,
        Ok(Err(why)) => failed(path, request, &why),
        Err(panic) => failed(path, request, &panic_text(panic)),
    }
}

#[cold]
fn failed(path: &str, request: &FunctionRequest<'_>, why: &str) -> FunctionResponse {
    error!(
        "the function at {} has failed: {} {}: {}",
        path.printable(),
        request.method().printable(),
        request.raw_path().printable(),
        why.printable()
    );
    FunctionResponse::text("Internal Server Error\n").status(500).field("Cache-Control", "no-store")
}

/// Emits an event for a content that could not be written to its end.
#[cold]
pub(super) fn content_failed(path: &str, why: &str) {
    error!("the response of the function at {} is incomplete: {}", path.printable(), why.printable());
}

/// Returns the text of a panic.
#[cold]
pub(super) fn panic_text(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = format!("panic: {}", text.unwrap_or("without a message"));
    drop_caught(panic);
    text
}
