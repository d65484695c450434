//! What answers for a path that leads nowhere: the nearest page 404.html upwards, or the shell of an application; and the
//! form that a file has where it stands for an error.
//!
//! ```text
//! /a/b/missing      ─▶ "a/b/", "a/", ""                  the page of /a/b/, of /a/, of /
//! any, but an asset ─▶ "a/b/shell", "a/shell", "shell"
//! /de/404.html      ─▶ "de/404.html error"               where a rule sends it with such a status
//! ```
//!
//! These are records like others, under names that no path is: a path begins with a slash. They are looked for only
//! where nothing else was found, so what exists pays nothing. Directories have their own where their fields differ.

use crate::asset::is_asset;
use crate::entry::{Entry, Variants};
use crate::format::PATH_LEN_MAX;
use crate::image::Image;

/// The name of the page that is sent, with 200, for whatever path of an application; behind the name of a directory, for
/// those below it.
pub const SHELL_NAME: &[u8] = b"shell";

/// Behind the path of a file, without its slash: the file where it stands for an error.
pub const ERROR_SUFFIX: &[u8] = b" error";

/// How many directories deep a page can be that answers for its directory. A bound on what a path of nothing but slashes
/// costs; no site is so deep.
pub const NOT_FOUND_DEPTH_MAX: usize = 16;

/// What answers for a path that leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// The shell of an application, which knows the path itself: as if it lay there.
    AppShell(Variants),
    /// The page of the nearest directory that has one. Its fields are those of 404.
    NotFoundPage(Variants),
    /// Nothing but the page that an image has for the status.
    StatusPage,
}

/// The name of the page that answers for what is missing below `dir`, which begins and ends with a slash. None if it is too
/// deep.
pub fn not_found_page_name(dir: &[u8]) -> Option<&[u8]> {
    let slashes = dir.iter().filter(|&&byte| byte == b'/').count();
    dir.strip_prefix(b"/").filter(|_| slashes <= NOT_FOUND_DEPTH_MAX + 1)
}

impl Image {
    /// What answers for a path at which there is nothing.
    #[cold]
    pub fn fallback(&self, path: &[u8]) -> Fallback {
        let is_application = self.find(SHELL_NAME).is_some();
        if is_application
            && !is_asset(path)
            && let Some(shell) = self.nearest(path, SHELL_NAME)
        {
            return Fallback::AppShell(shell);
        }
        self.nearest(path, b"").map_or(Fallback::StatusPage, Fallback::NotFoundPage)
    }

    /// The file that stands for an error, of a path that begins with a slash.
    #[cold]
    pub fn error_file(&self, path: &[u8]) -> Option<Variants> {
        self.named(path.strip_prefix(b"/")?, ERROR_SUFFIX)
    }

    /// What the nearest directory upwards has under its name with `behind` behind it.
    fn nearest(&self, path: &[u8], behind: &[u8]) -> Option<Variants> {
        let mut slashes = path.iter().enumerate().filter(|&(_, &byte)| byte == b'/').map(|(at, _)| at);
        let mut end = slashes.nth(NOT_FOUND_DEPTH_MAX).map_or(path.len(), |at| at + 1);
        while let Some(at) = path[..end].iter().rposition(|&byte| byte == b'/') {
            if let Some(found) = self.named(&path[1..at + 1], behind) {
                return Some(found);
            }
            end = at;
        }
        None
    }

    /// The file of this name, which is no path.
    fn named(&self, name: &[u8], behind: &[u8]) -> Option<Variants> {
        let mut whole = [0; PATH_LEN_MAX + 8];
        let whole = whole.get_mut(..name.len() + behind.len())?;
        let (front, back) = whole.split_at_mut(name.len());
        front.copy_from_slice(name);
        back.copy_from_slice(behind);
        match self.find(whole)? {
            // Behind an empty segment it would be a path.
            Entry::File(file) if !name.starts_with(b"/") => Some(file),
            _ => None,
        }
    }
}
