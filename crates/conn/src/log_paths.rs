//! Decides whether the path of a request keeps it out of the access log.
//!
//! The path of the request counts, not that of the file that answers it: so a missing path, a redirect and an error are kept out as well. Only
//! a server with an access log asks.

use crate::request::Request;
use tarpon_http::target::{self, PATH_LEN_MAX};
use tarpon_site::{Image, rules::LogPaths};

/// Returns whether a site logs a request. `image`: its current image.
#[inline]
pub(crate) fn is_logged(request: &Request<'_>, image: &Image) -> bool {
    image.log_paths().is_none_or(|paths| is_path_logged(request, paths))
}

#[inline(never)]
fn is_path_logged(request: &Request<'_>, paths: &LogPaths) -> bool {
    match request.path() {
        None => true,
        Some(path) if request.has_plain_path => paths.is_logged(path),
        // A mount without its slash, which redirects to the root of the site.
        Some(b"") => paths.is_logged(b"/"),
        // A path that is invalid is no path of the site.
        Some(path) => {
            target::normalize(path, &mut [0; PATH_LEN_MAX]).map_or(true, |path| paths.is_logged(path))
        }
    }
}
