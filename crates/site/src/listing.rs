//! The other form of a listing: a directory as JSON, for programs.
//!
//! ```text
//! "/a/"       the page                asks, so that a request for it comes by here
//! "a/ json"   the same as JSON        a record like others, under a name that no path is
//! ```

use crate::entry::{Entry, Variants};
use crate::format::PATH_LEN_MAX;
use crate::image::Image;

/// What stands behind the path of a listing, without its first slash, in the name of its JSON.
pub const JSON_SUFFIX: &[u8] = b" json";

impl Image {
    /// The listing at a path as JSON. None: there is no listing.
    #[cold]
    pub fn listing_json(&self, path: &[u8]) -> Option<Variants> {
        let bare = path.strip_prefix(b"/")?;
        let mut name = [0; PATH_LEN_MAX];
        let name = name.get_mut(..bare.len() + JSON_SUFFIX.len())?;
        let (front, back) = name.split_at_mut(bare.len());
        front.copy_from_slice(bare);
        back.copy_from_slice(JSON_SUFFIX);
        match self.find(name)? {
            Entry::File(variants) => Some(variants),
            Entry::Redirect(_) => None,
        }
    }
}
