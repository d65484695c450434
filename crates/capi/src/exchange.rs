//! A request and its response, as a callback sees them.

use crate::{
    stream::{StreamCallback, tarpon_release, tarpon_write},
    text::{bytes, tarpon_bytes, text},
};
use std::{
    borrow::Cow,
    cell::OnceCell,
    ffi::{c_char, c_int, c_void},
    fs::File,
    io::Read,
    mem,
    os::fd::FromRawFd,
};
use tarpon::{Request, Response};

/// A request. It exists until its callback returns.
#[derive(Debug)]
#[allow(non_camel_case_types, reason = "the name in C")]
pub struct tarpon_request<'v, 'r> {
    request: &'v mut Request<'r>,
    path: Cow<'r, str>,
    /// The text of the address, once it was asked for.
    client: OnceCell<Option<String>>,
}

/// A response. It exists until its callback returns.
#[derive(Debug)]
#[allow(non_camel_case_types, reason = "the name in C")]
pub struct tarpon_response {
    response: Response,
    content: CallbackContent,
}

/// The content of a response.
#[derive(Debug)]
enum CallbackContent {
    Bytes(Vec<u8>),
    /// `len` bytes of the file from `at` on.
    File {
        file: File,
        at: u64,
        len: u64,
    },
    Stream(StreamCallback),
    /// The descriptor of no file.
    NoFile(c_int),
}

/// Responds to a request. It must not throw an exception. `context` is the pointer that was passed with the route; callbacks run on several
/// threads at the same time.
#[allow(non_camel_case_types, reason = "the name in C")]
pub type tarpon_callback = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        request: *mut tarpon_request<'_, '_>,
        response: *mut tarpon_response,
    ),
>;

/// Returns the method, such as GET.
///
/// # Safety
/// `request` is that of a callback which has not returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tarpon_request_method(request: *mut tarpon_request<'_, '_>) -> tarpon_bytes {
    // SAFETY: the caller promises a request of a running callback.
    tarpon_bytes::of(unsafe { &*request }.request.method().as_bytes())
}

/// Returns the path, decoded and without dot segments.
///
/// # Safety
/// As for `tarpon_request_method`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tarpon_request_path(request: *mut tarpon_request<'_, '_>) -> tarpon_bytes {
    // SAFETY: as above.
    tarpon_bytes::of(unsafe { &*request }.path.as_bytes())
}

/// Returns what follows the `?` of the target. NULL: there is no `?`.
///
/// # Safety
/// As for `tarpon_request_method`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tarpon_request_query(request: *mut tarpon_request<'_, '_>) -> tarpon_bytes {
    // SAFETY: as above.
    optional(unsafe { &*request }.request.query())
}

/// Returns the host that the request is for, with its port if the client named one. NULL: the client named none.
///
/// # Safety
/// As for `tarpon_request_method`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tarpon_request_host(request: *mut tarpon_request<'_, '_>) -> tarpon_bytes {
    // SAFETY: as above.
    optional(unsafe { &*request }.request.host())
}

/// Returns the scheme that the client has used: http or https.
///
/// # Safety
/// As for `tarpon_request_method`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tarpon_request_scheme(request: *mut tarpon_request<'_, '_>) -> tarpon_bytes {
    // SAFETY: as above.
    tarpon_bytes::of(unsafe { &*request }.request.scheme().as_bytes())
}

/// Returns the IP address of the client. NULL: it is unknown, or a client of a Unix socket.
///
/// # Safety
/// As for `tarpon_request_method`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tarpon_request_client(request: *mut tarpon_request<'_, '_>) -> tarpon_bytes {
    // SAFETY: as above.
    let request = unsafe { &*request };
    let client = request.client.get_or_init(|| request.request.client().map(|client| client.to_string()));
    optional(client.as_deref())
}

/// Returns the value of the first field (header) with this name, in any case. NULL: there is none.
///
/// # Safety
/// As for `tarpon_request_method`; `name` ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tarpon_request_field(
    request: *mut tarpon_request<'_, '_>,
    name: *const c_char,
) -> tarpon_bytes {
    // SAFETY: the caller promises a request of a running callback, and a zero at the end of the name.
    let (request, name) = unsafe { (&*request, text(name, "the name")) };
    let Ok(name) = name else { return tarpon_bytes::NONE };
    let found = request.request.fields().find(|(found, _)| found.eq_ignore_ascii_case(name.as_bytes()));
    found.map_or(tarpon_bytes::NONE, |(_, value)| tarpon_bytes::of(value))
}

/// Returns the whole content. Its length is 0 if there is none. On a thread, waits for all of it, and keeps it in memory; what was read before
/// is missing. `bytes` is NULL if it is incomplete: the client has left, is too slow, or sends too much.
///
/// # Safety
/// As for `tarpon_request_method`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tarpon_request_content(request: *mut tarpon_request<'_, '_>) -> tarpon_bytes {
    // SAFETY: as above.
    unsafe { &mut *request }.request.content().map_or(tarpon_bytes::NONE, tarpon_bytes::of)
}

/// Reads the next part of the content, at most `len` bytes. On a thread, waits for it. Returns its length: 0 after the end, and -1 if the
/// content is incomplete, because the client has left, is too slow, or sends too much.
///
/// # Safety
/// As for `tarpon_request_method`; `to` is the first of `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tarpon_request_read(
    request: *mut tarpon_request<'_, '_>,
    to: *mut c_char,
    len: usize,
) -> isize {
    if to.is_null() || len == 0 {
        return 0;
    }
    // SAFETY: the caller promises a request of a running callback, and `len` bytes that no other thread uses.
    let (request, to) = unsafe { (&mut *request, std::slice::from_raw_parts_mut(to.cast::<u8>(), len)) };
    // A program may pass memory that it has not written before.
    request.request.read(to).map_or(-1, |len| len as isize)
}

/// Sets the status, from 200 to 599. It is 200 otherwise.
///
/// # Safety
/// `response` is that of a callback which has not returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tarpon_response_status(response: *mut tarpon_response, status: u16) {
    // SAFETY: the caller promises a response of a running callback, which no other thread has.
    unsafe { &mut *response }.change(|response| response.status(status));
}

/// Adds a field (header). The server sets Date, and the fields that frame the content or belong to the connection; a response with one of
/// these or with an invalid field is sent as 500.
///
/// # Safety
/// As for `tarpon_response_status`; `name` and `value` end with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tarpon_response_field(
    response: *mut tarpon_response,
    name: *const c_char,
    value: *const c_char,
) {
    // SAFETY: the caller promises a response of a running callback, and zeros at the ends of both texts.
    let (response, name, value) =
        unsafe { (&mut *response, text(name, "the name"), text(value, "the value")) };
    // An invalid text becomes an invalid field.
    response.change(|response| response.field(name.unwrap_or_default(), value.unwrap_or("\0")));
}

/// Adds bytes to the end of the content. They are copied. Replaces a file or a stream.
///
/// # Safety
/// As for `tarpon_response_status`; `content` is NULL or the first of `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tarpon_response_content(
    response: *mut tarpon_response,
    content: *const c_char,
    len: usize,
) {
    // SAFETY: the caller promises a response of a running callback, and `len` bytes.
    let (response, content) = unsafe { (&mut *response, bytes(content, len)) };
    match &mut response.content {
        CallbackContent::Bytes(all) => all.extend_from_slice(content),
        other => *other = CallbackContent::Bytes(content.to_vec()),
    }
}

/// Sets the content: `len` bytes of a file from `at` on. The library closes the descriptor. A thread sends them. With a negative descriptor, as
/// that of a failed open, the response is sent as 500.
///
/// # Safety
/// As for `tarpon_response_status`; `descriptor` is negative, or that of an open file, which the program uses no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tarpon_response_file(
    response: *mut tarpon_response,
    descriptor: c_int,
    at: u64,
    len: u64,
) {
    // SAFETY: the caller promises a response of a running callback.
    let response = unsafe { &mut *response };
    response.content = match descriptor {
        ..0 => CallbackContent::NoFile(descriptor),
        _ => {
            // SAFETY: the caller gives an open descriptor away.
            CallbackContent::File { file: unsafe { File::from_raw_fd(descriptor) }, at, len }
        }
    };
}

/// Sets the content: what `write` writes. It is called on a thread with `context`, after the callback has returned, unless the client leaves
/// before. In any case `release` is called with `context` in the end; it may be NULL.
///
/// # Safety
/// As for `tarpon_response_status`; `write` and `release` may be called with `context` on any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tarpon_response_stream(
    response: *mut tarpon_response,
    write: tarpon_write,
    release: tarpon_release,
    context: *mut c_void,
) {
    let stream = StreamCallback::new(write, release, context);
    // SAFETY: the caller promises a response of a running callback.
    unsafe { &mut *response }.content = CallbackContent::Stream(stream);
}

impl<'v, 'r> tarpon_request<'v, 'r> {
    /// Returns a request for a callback.
    pub(crate) fn new(request: &'v mut Request<'r>) -> tarpon_request<'v, 'r> {
        tarpon_request { path: request.path(), request, client: OnceCell::new() }
    }
}

impl tarpon_response {
    pub(crate) fn new() -> tarpon_response {
        tarpon_response { response: Response::new(200), content: CallbackContent::Bytes(Vec::new()) }
    }

    fn change(&mut self, change: impl FnOnce(Response) -> Response) {
        self.response = change(mem::replace(&mut self.response, Response::new(200)));
    }

    /// Returns the response, or why it cannot be sent.
    pub(crate) fn into_response(self) -> Result<Response, String> {
        Ok(match self.content {
            CallbackContent::Bytes(bytes) => self.response.content(bytes),
            CallbackContent::File { file, at, len } => {
                self.response.content_of_file(file, at..at.saturating_add(len))
            }
            CallbackContent::Stream(stream) => self.response.content_of_stream(move |to| stream.write(to)),
            CallbackContent::NoFile(descriptor) => {
                return Err(format!("{descriptor} is the descriptor of no file; check the result of open"));
            }
        })
    }
}

fn optional(text: Option<&str>) -> tarpon_bytes {
    text.map_or(tarpon_bytes::NONE, |text| tarpon_bytes::of(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptor_of_a_failed_open_is_an_error() {
        let mut response = tarpon_response::new();
        // SAFETY: the response lives, and the descriptor is negative.
        unsafe { tarpon_response_file(&mut response, -1, 0, 9) };
        let error = response.into_response().expect_err("no file");
        assert!(error.starts_with("-1 is the descriptor of no file"), "{error}");
    }
}
