//! Calls a function on the worker.

use super::catch;
use crate::base::functions::{
    request::FunctionRequest,
    response::{FunctionResponse, ResponseContent},
    route::Function,
};
use std::{io, sync::Arc};
use tarpon_conn::{InlineContent, InlineFunction, InlineRequest, InlineResponse, Payload};

/// A function that workers call.
pub(super) struct FunctionOnWorker {
    pub(super) path: Arc<str>,
    pub(super) function: Function,
}

/// A response whose content a thread sends.
pub(super) struct SendLater {
    pub(super) response: FunctionResponse,
    /// The response has content, as the method is not HEAD.
    pub(super) with_content: bool,
}

impl InlineFunction for FunctionOnWorker {
    fn call(&self, request: &InlineRequest<'_>) -> InlineResponse {
        let response = catch::call(&self.path, &self.function, &mut FunctionRequest::inline(request));
        let FunctionResponse { code, lines, content, .. } = response;
        match content {
            ResponseContent::Bytes(bytes) => {
                InlineResponse { code, lines, content: InlineContent::Bytes(bytes) }
            }
            content => {
                let response = FunctionResponse::from_parts(code, lines, content);
                let later = SendLater { response, with_content: request.method != b"HEAD" };
                InlineResponse {
                    code,
                    lines: (&[][..]).into(),
                    content: InlineContent::Later(Box::new(later)),
                }
            }
        }
    }
}

/// Returns the response that a pipe has carried.
pub(super) fn later(payload: Payload) -> io::Result<Box<SendLater>> {
    payload.downcast().map_err(|_| io::ErrorKind::InvalidInput.into())
}
