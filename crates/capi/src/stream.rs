//! The content of a response that a callback writes.

use crate::text::bytes;
use std::{
    ffi::{c_char, c_void},
    io::{self, Write},
};
use tarpon::ResponseWriter;

/// Writes the content of a response. It exists until its callback returns.
#[derive(Debug)]
#[allow(non_camel_case_types, reason = "the name in C")]
pub struct tarpon_writer<'v, 'w>(&'v mut ResponseWriter<'w>);

/// Writes the content of a response. Returns false if it is incomplete: the client sees that. It must not throw an exception.
#[allow(non_camel_case_types, reason = "the name in C")]
pub type tarpon_write =
    Option<unsafe extern "C" fn(context: *mut c_void, writer: *mut tarpon_writer<'_, '_>) -> bool>;

/// Releases a context. It must not throw an exception.
#[allow(non_camel_case_types, reason = "the name in C")]
pub type tarpon_release = Option<unsafe extern "C" fn(context: *mut c_void)>;

/// Writes bytes. Waits while the client does not receive. Small writes are collected. Returns false if the client has left.
///
/// # Safety
/// `writer` is that of a callback which has not returned; `content` is NULL or the first of `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tarpon_writer_write(
    writer: *mut tarpon_writer<'_, '_>,
    content: *const c_char,
    len: usize,
) -> bool {
    // SAFETY: the caller promises a writer of a running callback, and `len` bytes.
    let (writer, content) = unsafe { (&mut *writer, bytes(content, len)) };
    writer.0.write_all(content).is_ok()
}

/// Sends at once what was written. Returns false if the client has left.
///
/// # Safety
/// `writer` is that of a callback which has not returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tarpon_writer_flush(writer: *mut tarpon_writer<'_, '_>) -> bool {
    // SAFETY: the caller promises a writer of a running callback.
    unsafe { &mut *writer }.0.flush().is_ok()
}

/// A callback that writes a content, and its context, which is released with it.
#[derive(Debug)]
pub(crate) struct StreamCallback {
    write: tarpon_write,
    release: tarpon_release,
    context: *mut c_void,
}

// SAFETY: this library only passes the pointer on. The caller of `tarpon_response_stream` promises that both callbacks may get it on any thread.
unsafe impl Send for StreamCallback {}

impl StreamCallback {
    pub(crate) fn new(write: tarpon_write, release: tarpon_release, context: *mut c_void) -> StreamCallback {
        StreamCallback { write, release, context }
    }

    /// Writes the content.
    pub(crate) fn write(&self, to: &mut ResponseWriter<'_>) -> io::Result<()> {
        let write = self.write.ok_or_else(|| io::Error::other("the callback is NULL"))?;
        // SAFETY: the caller of `tarpon_response_stream` promises that the callback may be called with the context on any thread. The writer lives
        // until it returns.
        match unsafe { write(self.context, &mut tarpon_writer(to)) } {
            true => Ok(()),
            false => Err(io::Error::other("the callback has failed, or the client has left")),
        }
    }
}

impl Drop for StreamCallback {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: as above. It is called once, and `write` has returned.
            unsafe { release(self.context) }
        }
    }
}
