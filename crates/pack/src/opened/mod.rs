//! A packed site that is open: finds its image, and lists what is in it. `packed` makes such a site, and `docs/site-format.md` describes it.
//!
//! | file | content |
//! |---|---|
//! | `open.rs` | opens a packed site |
//! | `embed.rs` | a program with an embedded site |
//! | `inspect.rs` | lists a packed site |
//! | `codings.rs` | the codings, and when a variant is worthwhile |
//! | `fingerprint.rs` | length and hash of a content |
//! | `error.rs` | errors of opening |

pub(crate) mod codings;
pub(crate) mod embed;
mod error;
pub(crate) mod fingerprint;
mod inspect;
pub(crate) mod open;

pub use codings::{CODINGS, DELTA_CODINGS};
pub use embed::embedded_site;
pub use error::OpenError;
pub use inspect::{
    InspectedEntry, InspectedLogPath, InspectedPath, InspectedRule, InspectedVariant, SiteInspection, inspect,
};
