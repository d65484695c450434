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
mod deltas;
pub mod embedded;
mod entry;
mod error;
mod fallback;
mod find;
pub mod format;
mod framing;
mod image;
mod listing;
pub mod packed;
pub mod printable;
mod region;
mod resident_pages;
pub mod rules;

pub use entry::{Content, Entry, Redirect, StatusPage, Variant, VariantOffer, Variants};
pub use error::ImageError;
pub use fallback::{ERROR_SUFFIX, Fallback, NOT_FOUND_DEPTH_MAX, SHELL_NAME, not_found_page_name};
pub use find::build_index;
pub use format::{Coding, STATUS_PAGE_CODES};
pub use image::Image;
pub use listing::JSON_SUFFIX;
pub use printable::Printable;
pub use region::Region;
pub use resident_pages::{PAGE_LEN, ResidentPages};
