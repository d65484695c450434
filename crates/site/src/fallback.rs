//! The response for an unknown path: the 404.html of the nearest parent directory, or the shell of a single-page application. Also
//! the variants of a file that the server sends with an error status.
//!
//! ```text
//! unknown path      record names, in order of lookup
//! /a/b/missing      "a/b/shell", "a/shell", "shell"      the shell of an application, unless the path is an asset
//! /a/b/missing      "a/b/", "a/", ""                     the 404.html of /a/b/, /a/ and /
//! /de/404.html      "de/404.html error"                  for a rule that sends the file with an error status
//! ```
//!
//! Each is a record whose name is not a path, because it does not begin with a slash. The server looks them up only after a lookup of
//! the path failed.

use crate::asset::is_asset;
use crate::entry::{Entry, Variants};
use crate::format::PATH_LEN_MAX;
use crate::image::Image;
use crate::resident_pages::NotResident;

/// The record name of the application shell, which the server sends with status 200 for every unknown path. With the name of a
/// directory before it, the shell of the paths below that directory.
pub const SHELL_NAME: &[u8] = b"shell";

/// The record name of the redirect from the base of the site, which is the path of a mount without a slash, to its root.
pub const BASE_NAME: &[u8] = b"base";

/// The suffix of the record name of a file that the server sends with an error status. The path, without its first slash, precedes
/// it.
pub const ERROR_SUFFIX: &[u8] = b" error";

/// The maximum depth of a directory with its own 404.html or shell. It limits the cost of a request for a path that consists of slashes.
pub const NOT_FOUND_DEPTH_MAX: usize = 16;

/// The response for an unknown path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// The shell of a single-page application, sent with status 200.
    AppShell(Variants),
    /// The 404.html of the nearest directory that has one. Its fields are those of a 404 response.
    NotFoundPage(Variants),
    /// The status page of the image.
    StatusPage,
}

/// Returns the record name of the 404.html of `dir`, which begins and ends with a slash. Returns `None` if `dir` is too deep.
///
/// ```
/// assert_eq!(tarpon_site::not_found_page_name(b"/a/b/"), Some(&b"a/b/"[..]));
/// ```
pub fn not_found_page_name(dir: &[u8]) -> Option<&[u8]> {
    let slashes = dir.iter().filter(|&&byte| byte == b'/').count();
    dir.strip_prefix(b"/").filter(|_| slashes <= NOT_FOUND_DEPTH_MAX + 1)
}

impl Image {
    /// Returns the response for a path that [`Image::find`] does not find.
    ///
    /// # Errors
    /// A page that a lookup needs is not in memory.
    #[cold]
    pub fn fallback(&self, path: &[u8]) -> Result<Fallback, NotResident> {
        let is_application = self.find(SHELL_NAME)?.is_some();
        if is_application
            && !is_asset(path)
            && let Some(shell) = self.nearest(path, SHELL_NAME)?
        {
            return Ok(Fallback::AppShell(shell));
        }
        Ok(self.nearest(path, b"")?.map_or(Fallback::StatusPage, Fallback::NotFoundPage))
    }

    /// Returns the variants of the file at `path`, which begins with a slash, for an error status.
    ///
    /// # Errors
    /// A page that the lookup needs is not in memory.
    #[cold]
    pub fn error_file(&self, path: &[u8]) -> Result<Option<Variants>, NotResident> {
        match path.strip_prefix(b"/") {
            Some(name) => self.named(name, ERROR_SUFFIX),
            None => Ok(None),
        }
    }

    /// Looks up the name of each parent directory, the nearest first, with `suffix` appended.
    fn nearest(&self, path: &[u8], suffix: &[u8]) -> Result<Option<Variants>, NotResident> {
        let mut slashes = path.iter().enumerate().filter(|&(_, &byte)| byte == b'/').map(|(at, _)| at);
        let mut end = slashes.nth(NOT_FOUND_DEPTH_MAX).map_or(path.len(), |at| at + 1);
        while let Some(at) = path[..end].iter().rposition(|&byte| byte == b'/') {
            if let Some(found) = self.named(&path[1..at + 1], suffix)? {
                return Ok(Some(found));
            }
            end = at;
        }
        Ok(None)
    }

    /// Returns the file with this record name, which is not a path.
    fn named(&self, name: &[u8], suffix: &[u8]) -> Result<Option<Variants>, NotResident> {
        let mut whole = [0; PATH_LEN_MAX + 8];
        let Some(whole) = whole.get_mut(..name.len() + suffix.len()) else { return Ok(None) };
        let (front, back) = whole.split_at_mut(name.len());
        front.copy_from_slice(name);
        back.copy_from_slice(suffix);
        Ok(match self.find(whole)? {
            // A name that begins with a slash, after an empty segment, is a path.
            Some(Entry::File(file)) if !name.starts_with(b"/") => Some(file),
            _ => None,
        })
    }
}
