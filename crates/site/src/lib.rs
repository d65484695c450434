//! The site image: everything a request can need, worked out before the first request.
//!
//! ```text
//! path ── find ──▶ Entry ──┬─ fields      Place ─┐
//!                          ├─ not_modified Place ─┼─ bytes ──▶ what leaves
//!                          └─ content      Place ─┘
//! status ── page ─▶ Page ────────────────────────┘
//! ```
//!
//! | file | what |
//! |---|---|
//! | `format.rs` | the image byte by byte, for its reader and its writer |
//! | `image.rs` | a checked view of the bytes of an image |
//! | `find.rs` | path to entry: filling the index, and searching it |
//! | `framing.rs` | whether the fields of a response frame it |
//! | `missing.rs` | what answers for a path that leads nowhere, or for an error |
//! | `listing.rs` | a listing as JSON |
//! | `asset.rs` | which paths are those of assets |
//! | `deltas.rs` | representations for those who have a dictionary |
//! | `entry.rs` | what is known about one path |
//! | `place.rs` | a stretch of an image |
//! | `presence.rs` | which pages of it are in memory, as far as its reader knows |
//! | `rules.rs` | the rules that the path alone does not settle |
//! | `packed.rs` | where the image lies in a packed site, which is a tar archive |
//! | `printable.rs` | names as messages show them |
//! | `carried.rs` | where a packed site lies in a program that carries it |
//!
//! The same layout in prose: `docs/site-format.md`. Knows nothing of requests, of methods, or of where the
//! bytes came from.

#![forbid(unsafe_code)]

mod asset;
pub mod carried;
mod deltas;
mod entry;
mod find;
pub mod format;
mod framing;
mod image;
mod listing;
mod missing;
pub mod packed;
mod place;
mod presence;
pub mod printable;
pub mod rules;

pub use entry::{Content, Entry, Offer, Page, Redirect, Variant, Variants};
pub use find::index;
pub use format::{Coding, PAGE_CODES};
pub use image::{Image, ImageError};
pub use listing::JSON;
pub use missing::{ERROR, Missing, PAGE_DEPTH_MAX, SHELL, page_name};
pub use place::Place;
pub use presence::{PAGE_LEN, Presence};
pub use printable::Printable;
