//! The formats of HTTP/2, without the state of a connection. RFC 9113.
//!
//! | module | contents |
//! |---|---|
//! | [`hpack`] | the compression of fields: RFC 7541 |

pub mod hpack;
