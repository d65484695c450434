//! Texts that cross the boundary.

use std::{
    ffi::{CStr, CString, c_char},
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr, slice,
};

/// Bytes that belong to another value, without a zero at their end. `bytes` is NULL if there are none.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types, reason = "the name in C")]
pub struct tarpon_bytes {
    /// The first byte.
    pub bytes: *const c_char,
    /// The number of bytes.
    pub len: usize,
}

impl tarpon_bytes {
    pub(crate) const NONE: tarpon_bytes = tarpon_bytes { bytes: ptr::null(), len: 0 };

    pub(crate) fn of(bytes: &[u8]) -> tarpon_bytes {
        tarpon_bytes { bytes: bytes.as_ptr().cast(), len: bytes.len() }
    }
}

/// Frees the text of an error. NULL is allowed.
///
/// # Safety
/// A function of this library has returned `error`, and it is freed once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tarpon_error_free(error: *mut c_char) {
    if !error.is_null() {
        // SAFETY: `error_text` has made the pointer by `into_raw`, and the caller passes it here once.
        drop(unsafe { CString::from_raw(error) });
    }
}

/// Returns NULL, or the text of an error, which the caller frees. A panic is an error too.
pub(crate) fn run(act: impl FnOnce() -> Result<(), String>) -> *mut c_char {
    // After a panic the caller gets an error, and may only free the server.
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(Ok(())) => ptr::null_mut(),
        Ok(Err(error)) => error_text(error),
        Err(_) => error_text("a bug in tarpon: it has panicked"),
    }
}

fn error_text(error: impl fmt::Display) -> *mut c_char {
    let text = error.to_string().replace('\0', " ");
    CString::new(text).map_or(ptr::null_mut(), CString::into_raw)
}

/// Returns a text that C has passed.
///
/// # Safety
/// `text` is NULL, or ends with a zero and stays unchanged for `'t`.
pub(crate) unsafe fn text<'t>(text: *const c_char, what: &str) -> Result<&'t str, String> {
    if text.is_null() {
        return Err(format!("{what} is NULL"));
    }
    // SAFETY: not NULL; the caller promises a zero at the end, and that the text does not change.
    unsafe { CStr::from_ptr(text) }.to_str().map_err(|_| format!("{what} is not UTF-8"))
}

/// Returns bytes that C has passed.
///
/// # Safety
/// `bytes` is NULL, or the first of `len` bytes, which stay unchanged for `'b`.
pub(crate) unsafe fn bytes<'b>(bytes: *const c_char, len: usize) -> &'b [u8] {
    match bytes.is_null() {
        true => &[],
        // SAFETY: not NULL; the caller promises `len` bytes that do not change.
        false => unsafe { slice::from_raw_parts(bytes.cast(), len) },
    }
}
