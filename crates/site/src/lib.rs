//! Reads the site image: a read-only file with every response of a site, prepared before the first request.
//!
//! ```text
//! path ──── find ─────────▶ Entry ──────┬─ fields, not_modified ─ FieldBlock ─┬─ text ──────────┬─ bytes ──▶ the bytes to send
//!                                       ├─ content ─ Region ──────────────────┼─────────────────┤
//! status ── status_page ──▶ StatusPage ─┴─ fields, content                    └─ hpack ─ Region ┘
//! ```
//!
//! A lookup copies nothing: it returns [`Region`]s, that is, offset and length of bytes in the image. The crate checks each region
//! before it returns it, so a forged image cannot make the server read outside of it. [`Image::is_framed`] tells whether a response
//! is safe to send.
//!
//! ```no_run
//! use tarpon_site::{Content, Entry, Image};
//!
//! let image = Image::new(std::fs::read("site.image")?.into())?;
//! match image.find(b"/index.html")? {
//!     // Send a variant only if its fields frame its content.
//!     Some(Entry::File(file)) if image.is_framed(&file.identity)? => {
//!         let fields = image.bytes(file.identity.fields().text);
//!         let content = match file.identity.content {
//!             Content::Image(region) => image.bytes(region),
//!             Content::File { .. } | Content::Archive(_) => return Err("the content lies in a file beside the image".into()),
//!         };
//!         println!("HTTP/1.1 200 OK\r\n{}{}", fields.escape_ascii(), content.escape_ascii());
//!     }
//!     _ => println!("{:?}", image.status_page(404)),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `format.rs` | the layout of an image, for readers and writers |
//! | `image.rs` | a checked view of an image |
//! | `error.rs` | the reasons to refuse an image |
//! | `find.rs` | the hash index from path to entry |
//! | `framing.rs` | checks that the fields of a response frame its content |
//! | `field_block.rs` | the fields of a response, as text or as an HPACK block |
//! | `hpack.rs` | encodes fields as an HPACK block |
//! | `fallback.rs` | responses for unknown paths and for errors |
//! | `listing.rs` | directory listings as JSON |
//! | `asset.rs` | tells assets from pages by their extension |
//! | `deltas.rs` | variants for clients that have a dictionary |
//! | `entry.rs` | the entry of a path: variants or a redirect |
//! | `record.rs` | the record of a path, in place |
//! | `region.rs` | a range of bytes |
//! | `resident_pages.rs` | the pages of an image that are in memory |
//! | `rules.rs` | redirect and rewrite rules with patterns |
//! | `packed.rs` | finds the image in a packed site, which is a tar archive |
//! | `printable.rs` | escapes names for messages |
//! | `embedded.rs` | finds a packed site that is embedded in a program |
//!
//! `docs/site-format.md` specifies the format. This crate does not parse requests and opens no files.

#![forbid(unsafe_code)]

mod asset;
mod deltas;
pub mod embedded;
mod entry;
mod error;
mod fallback;
mod field_block;
mod find;
pub mod format;
mod framing;
pub mod hpack;
mod image;
mod listing;
pub mod packed;
pub mod printable;
mod record;
mod region;
mod resident_pages;
pub mod rules;

pub use entry::{Content, Entry, Redirect, StatusPage, Variant, VariantOffer, Variants};
pub use error::ImageError;
pub use fallback::{BASE_NAME, ERROR_SUFFIX, Fallback, NOT_FOUND_DEPTH_MAX, SHELL_NAME, not_found_page_name};
pub use field_block::FieldBlock;
pub use find::build_index;
pub use format::{Coding, STATUS_PAGE_CODES};
pub use image::Image;
pub use listing::JSON_SUFFIX;
pub use printable::Printable;
pub use record::{RawRecord, ReadyResponse};
pub use region::Region;
pub use resident_pages::{NotResident, PAGE_LEN, ResidentPages};
