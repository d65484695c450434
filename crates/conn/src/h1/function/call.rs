//! Calls the function of a route, if its request is complete and valid.

use crate::{
    backend::{BackendLimits, BackendRoute},
    functions::{InlineFunction, InlineResponse, inline_request},
    h1::{RequestContent, request_content::expects_continue},
    plan,
    request::Request,
    sites::Sites,
};
use tarpon_http::{
    FieldName, Method,
    head::{Head, Version},
    persist,
    status::Status,
};

/// The result of a call.
pub(in crate::h1) enum Called {
    Response(InlineCall, InlineResponse),
    /// The request has more content than has arrived. The function was not called.
    Incomplete(IncompleteRequest),
    /// The request is invalid. The function was not called.
    Refused(Status),
}

/// What a connection keeps of a request whose function was called.
#[derive(Clone, Copy, Debug)]
pub(in crate::h1) struct InlineCall {
    pub(super) version: Version,
    pub(super) client_persists: bool,
    /// The response has content, as the method is not HEAD.
    pub(super) with_content: bool,
    /// The length of the request in the input.
    pub(super) used: usize,
}

/// The content of a request that has not arrived.
pub(in crate::h1) struct IncompleteRequest {
    pub(super) content: RequestContent,
    /// The client waits for 100 (Continue) before it sends the content.
    pub(super) awaits_continue: bool,
    /// The length of the head in the input.
    pub(super) head_len: usize,
}

/// Calls the function of a route for a request. `head_len`: the length of its head. `None`: the route has no function.
#[inline(never)]
pub(in crate::h1) fn call(
    sites: &Sites,
    route: &BackendRoute,
    head: &Head<'_>,
    head_len: usize,
    request: &Request<'_>,
) -> Option<Called> {
    let function = sites.functions().get(route.backend)?;
    Some(call_or_refuse(function, &route.limits, head, head_len, request).unwrap_or_else(Called::Refused))
}

fn call_or_refuse(
    function: &dyn InlineFunction,
    limits: &BackendLimits,
    head: &Head<'_>,
    head_len: usize,
    request: &Request<'_>,
) -> Result<Called, Status> {
    if head.fields.has(FieldName::Expect) && !plan::expects_only_continue(&head.fields) {
        return Err(Status::ExpectationFailed);
    }
    let content = match RequestContent::of(head, limits.content_len_max)? {
        None => &[][..],
        Some(RequestContent::Length { left }) if left <= (request.bytes.len() - head_len) as u64 => {
            &request.bytes[head_len..][..left as usize]
        }
        Some(content) => {
            let awaits_continue = expects_continue(head) && request.bytes.len() == head_len;
            return Ok(Called::Incomplete(IncompleteRequest { content, awaits_continue, head_len }));
        }
    };
    let response = function.call(&inline_request(request, method(request), content)?);
    Ok(Called::Response(InlineCall::new(head, request, head_len + content.len()), response))
}

impl InlineCall {
    pub(super) fn new(head: &Head<'_>, request: &Request<'_>, used: usize) -> InlineCall {
        InlineCall {
            version: head.version,
            client_persists: persist::persists(head.version, &head.fields),
            with_content: request.with_content(),
            used,
        }
    }
}

/// Returns the name of the method.
pub(super) fn method<'r>(request: &Request<'r>) -> &'r [u8] {
    match request.method {
        Method::Get => b"GET",
        Method::Head => b"HEAD",
        Method::Post => b"POST",
        // Empty lines may precede it: RFC 9112, section 2.2.
        _ => request.bytes.trim_ascii_start().split(|&byte| byte == b' ').next().unwrap_or_default(),
    }
}
