//! Directory listings as JSON, for programs.
//!
//! ```text
//! "/a/"       the listing as a page   its record has `checks_rules`, so that the server checks for JSON first
//! "a/ json"   the listing as JSON     a record whose name is not a path, because it does not begin with a slash
//! ```

use crate::entry::{Entry, Variants};
use crate::format::PATH_LEN_MAX;
use crate::image::Image;
use crate::resident_pages::NotResident;

/// The suffix of the record name of a JSON listing. The path of the directory, without its first slash, precedes it.
pub const JSON_SUFFIX: &[u8] = b" json";

impl Image {
    /// Returns the JSON listing of a directory, or `None` if it has none.
    ///
    /// # Errors
    /// A page that the lookup needs is not in memory.
    #[cold]
    pub fn listing_json(&self, path: &[u8]) -> Result<Option<Variants>, NotResident> {
        let Some(bare) = path.strip_prefix(b"/") else { return Ok(None) };
        let mut name = [0; PATH_LEN_MAX];
        let Some(name) = name.get_mut(..bare.len() + JSON_SUFFIX.len()) else { return Ok(None) };
        let (front, back) = name.split_at_mut(bare.len());
        front.copy_from_slice(bare);
        back.copy_from_slice(JSON_SUFFIX);
        Ok(match self.find(name)? {
            Some(Entry::File(variants)) => Some(variants),
            Some(Entry::Redirect(_)) | None => None,
        })
    }
}
