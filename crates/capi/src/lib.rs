//! tarpon for programs in C and C++: a server with static sites, and routes to functions of the program.
//!
//! ```text
//! tarpon_server_new ─ set_*, listen, add_site, route ─▶ tarpon_server_start ─ tarpon_server_stop ─▶ tarpon_server_join ─▶ tarpon_server_free
//! ```
//!
//! `include/tarpon.h` is made of this crate, and a test compares both. Each function that can fail returns a text of its error, or NULL.
//! No panic leaves the library.
//!
//! | file | what |
//! |---|---|
//! | `text` | texts that C passes, and those that it gets |
//! | `server` | the server: settings, sites, start and stop |
//! | `exchange` | a request and its response, as a callback sees them |
//! | `stream` | the content of a response that a callback writes |

mod exchange;
mod server;
mod stream;
mod text;

pub use exchange::*;
pub use server::*;
pub use stream::*;
pub use text::*;
