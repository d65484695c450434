//! Directory listings as JSON, for programs.
//!
//! ```text
//! "/a/"       the listing as a page   its record has `checks_rules`, so that the server checks for JSON first
//! "a/ json"   the listing as JSON     a record whose name is not a path, because it does not begin with a slash
//! ```

use crate::entry::{Entry, Variants};
use crate::format::PATH_LEN_MAX;
use crate::image::Image;

/// The suffix of the record name of a JSON listing. The path of the directory, without its first slash, precedes it.
pub const JSON_SUFFIX: &[u8] = b" json";

impl Image {
    /// Returns the JSON listing of a directory, or `None` if it has none.
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
