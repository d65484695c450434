//! A parser for HTTP requests, as far as a static server needs it. It borrows from the caller's buffer, does no I/O, reads
//! no clock and allocates nothing.
//!
//! | module | parses | specification |
//! |---|---|---|
//! | [`head`] | request line and field section | RFC 9112, sections 2 to 5 |
//! | [`fields`] | the fields of a request, of any protocol | RFC 9110, section 5 |
//! | [`host`] | the value of the Host field | RFC 9110, section 7.2; RFC 3986, section 3.2.2 |
//! | [`target`] | the request target; normalizes its path | RFC 9112, section 3.2; RFC 3986, section 5.2.4 |
//! | [`sent_path`] | the path that a gateway sends on | RFC 3986, section 5.2.4 |
//! | [`field`] | lists in field values | RFC 9110, section 5.6.1 |
//! | [`framing`] | the framing of the request content | RFC 9112, section 6 |
//! | [`chunked`] | the chunked transfer coding | RFC 9112, section 7.1 |
//! | [`persist`] | Connection: whether the connection persists | RFC 9112, section 9.3 |
//! | [`precondition`] | If-Match, If-None-Match, If-Modified-Since, If-Unmodified-Since, If-Range | RFC 9110, section 13 |
//! | [`negotiate`] | Accept-Encoding | RFC 9110, section 12.5.3 |
//! | [`dictionary`] | Available-Dictionary | RFC 9842, section 2.2; RFC 9651, section 3.3.5 |
//! | [`media`] | Accept | RFC 9110, section 12.5.1 |
//! | [`range`] | Range | RFC 9110, section 14 |
//! | [`forwarded`] | Forwarded, X-Forwarded-For, X-Forwarded-Proto | RFC 7239 |
//! | [`proxy_header`] | the header of the PROXY protocol, before the first request | the specification of HAProxy |
//! | [`response_head`] | the head of a response from a server | RFC 9112, sections 4 to 6 |
//! | [`cgi`] | the head of a response of a CGI program | RFC 3875, section 6 |
//! | [`h2`] | the formats of HTTP/2: frames, compressed fields | RFC 9113; RFC 7541; RFC 9218 |
//! | [`fastcgi`] | the records of FastCGI | FastCGI Specification 1.0 |
//! | [`trace_context`] | traceparent | W3C Trace Context, section 3.2 |
//! | [`date`] | HTTP-date | RFC 9110, section 5.6.7 |
//! | [`status`] | status codes | RFC 9110, section 15 |
//!
//! Where the RFCs leave a choice, the crate is strict about everything that decides where a message ends, because two parsers
//! that disagree there make request smuggling possible. It is tolerant elsewhere.
//!
//! # Example
//!
//! ```
//! use tarpon_http::framing::{Framing, framing};
//! use tarpon_http::negotiate::{AcceptEncoding, ContentCoding};
//! use tarpon_http::target::{self, PATH_LEN_MAX, Target};
//! use tarpon_http::{FieldName, Method, head};
//!
//! let input = b"GET /a/%62?q HTTP/1.1\r\nHost: example.org\r\nAccept-Encoding: gzip, br;q=0.5\r\n\r\n";
//! // `None` means that the head is incomplete: read more bytes and parse again.
//! let (head, len) = head::parse(input)?.expect("a complete head");
//! assert_eq!((head.method, len), (Method::Get, input.len()));
//! assert_eq!(head.host()?, Some(&b"example.org"[..]));
//! assert_eq!(head.fields.first(FieldName::AcceptEncoding), Some(&b"gzip, br;q=0.5"[..]));
//! assert_eq!(framing(&head), Ok(Framing::None));
//!
//! let Ok(Target::Origin { path, query }) = head.split_target() else { panic!() };
//! let mut scratch = [0; PATH_LEN_MAX];
//! assert_eq!(target::normalize(path, &mut scratch), Ok(&b"/a/b"[..]));
//! assert_eq!(query, Some(&b"q"[..]));
//!
//! // Each offer is a coding, its length in bytes, and a value of the caller.
//! let offers = [(ContentCoding::Identity, 900, "page.html"), (ContentCoding::Gzip, 300, "page.html.gz")];
//! assert_eq!(AcceptEncoding::parse(&head.fields).choose(offers), Some("page.html.gz"));
//! # Ok::<(), tarpon_http::HeadError>(())
//! ```

#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::type_complexity))] // the type of a test table documents its columns

pub mod basic;
pub mod cgi;
pub mod chunked;
pub mod date;
pub mod dictionary;
pub mod fastcgi;
pub mod field;
mod field_name;
pub mod fields;
pub mod forwarded;
pub mod framing;
pub mod h2;
pub mod head;
pub mod host;
pub mod media;
mod method;
pub mod negotiate;
pub mod persist;
pub mod precondition;
pub mod proxy_header;
pub mod range;
pub mod response_head;
pub mod sent_path;
pub mod status;
mod structured;
pub mod target;
mod token;
pub mod trace_context;

pub use field_name::FieldName;
pub use fields::Fields;
pub use head::{Head, HeadError, Version};
pub use method::Method;
pub use status::Status;
pub use tarpon_simd::detect_processor;
