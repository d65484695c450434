//! The grammar of HTTP/1.x, as far as a static server needs it. Bytes in, meaning out: no I/O, no
//! clock, no allocation, no state beyond what a message needs.
//!
//! | module | what | where it is written |
//! |---|---|---|
//! | [`head`] | request-line and field section | RFC 9112, sections 2 to 5 |
//! | [`host`] | the host of a request | RFC 9110, section 7.2; RFC 3986, section 3.2.2 |
//! | [`target`] | forms of request-target, path normalization | RFC 9112, section 3.2; RFC 3986, section 5.2.4 |
//! | [`field`] | lists in field values | RFC 9110, section 5.6.1 |
//! | [`framing`] | where content ends | RFC 9112, section 6 |
//! | [`chunked`] | chunked transfer coding | RFC 9112, section 7.1 |
//! | [`persist`] | whether the connection stays open | RFC 9112, section 9.3 |
//! | [`precondition`] | If-Match, If-None-Match, If-Modified-Since, If-Unmodified-Since, If-Range | RFC 9110, section 13 |
//! | [`negotiate`] | Accept-Encoding | RFC 9110, section 12.5.3 |
//! | [`dictionary`] | Available-Dictionary | RFC 9842, section 2.2; RFC 9651, section 3.3.5 |
//! | [`media`] | Accept | RFC 9110, section 12.5.1 |
//! | [`range`] | Range | RFC 9110, section 14 |
//! | [`date`] | HTTP-date | RFC 9110, section 5.6.7 |
//! | [`status`] | status codes | RFC 9110, section 15 |
//!
//! Where the RFCs leave a choice, the stricter reading is taken wherever two readers of the same
//! bytes could disagree about where a message ends, and the tolerant one elsewhere.

#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::type_complexity))] // the type of a table is its legend

pub mod chunked;
pub mod date;
pub mod dictionary;
pub mod field;
pub mod framing;
pub mod head;
pub mod host;
pub mod media;
pub mod negotiate;
pub mod persist;
pub mod precondition;
pub mod range;
pub mod status;
pub mod target;
mod token;

pub use head::{FieldName, Head, HeadError, Method, Version};
pub use status::Status;
