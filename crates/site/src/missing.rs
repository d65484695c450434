//! What answers for a path that leads nowhere: the nearest page 404.html upwards, or the shell of an application.
//!
//! ```text
//! /a/b/missing      ─▶ "a/b/", "a/", ""     the page of /a/b/, of /a/, of /
//! any, but an asset ─▶ "shell"
//! ```
//!
//! These are records like others, under names that no path is: a path begins with a slash. They are looked for only
//! where nothing else was found, so what exists pays nothing.

use crate::asset::is_asset;
use crate::entry::{Entry, Variants};
use crate::image::Image;

/// The name of the page that is sent, with 200, for whatever path of an application.
pub const SHELL: &[u8] = b"shell";

/// How many directories deep a page can be that answers for its directory. A bound on what a path of nothing but slashes
/// costs; no site is so deep.
pub const PAGE_DEPTH_MAX: usize = 16;

/// What answers for a path that leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The shell of an application, which knows the path itself: as if it lay there.
    Shell(Variants),
    /// The page of the nearest directory that has one. Its fields are those of 404.
    Page(Variants),
    /// Nothing but the page that an image has for the status.
    Nothing,
}

/// The name of the page that answers for what is missing below `dir`, which begins and ends with a slash. None if it is too
/// deep.
pub fn page_name(dir: &[u8]) -> Option<&[u8]> {
    let slashes = dir.iter().filter(|&&byte| byte == b'/').count();
    dir.strip_prefix(b"/").filter(|_| slashes <= PAGE_DEPTH_MAX + 1)
}

impl Image {
    /// What answers for a path at which there is nothing.
    #[cold]
    pub fn missing(&self, path: &[u8]) -> Missing {
        if let Some(Entry::File(shell)) = self.find(SHELL)
            && !is_asset(path)
        {
            return Missing::Shell(shell);
        }
        let mut slashes = path.iter().enumerate().filter(|&(_, &byte)| byte == b'/').map(|(at, _)| at);
        let mut end = slashes.nth(PAGE_DEPTH_MAX).map_or(path.len(), |at| at + 1);
        while let Some(at) = path[..end].iter().rposition(|&byte| byte == b'/') {
            let name = &path[1..at + 1];
            // Behind an empty segment it would be a path.
            if !name.starts_with(b"/")
                && let Some(Entry::File(page)) = self.find(name)
            {
                return Missing::Page(page);
            }
            end = at;
        }
        Missing::Nothing
    }
}
