//! At which paths a page answers, and which paths lead there.
//!
//! ```text
//!                       answers at           leads there            with clean URLs
//! /about.html           /about.html                                 /about    ◀─ /about.html, /about/
//! /guide/index.html     /guide/index.html                           /guide/   ◀─ /guide/index.html, /guide
//!                       /guide/              ◀─ /guide
//! ```
//!
//! A path that two could have goes to the file of that name, then to `about.html`, then to `about/index.html`, and last to
//! what leads elsewhere. A page that does not get its address is at its name.

use crate::error::PackError;
use crate::policy::{Policy, TrailingSlash};
use crate::skip::{SkipReason, Skipped, skip};
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The addresses of all pages of a site.
pub(crate) struct PageAddresses {
    /// By the path of the file; not of those that are at their names alone.
    pages: HashMap<Vec<u8>, PageAddress>,
    /// Pages whose address, with a slash or without, another file has; sorted.
    lost: Vec<Vec<u8>>,
    /// Directories that have an address for a list of what they have; each with the slash behind.
    listings: Vec<Vec<u8>>,
    /// All paths at which there is something, and whether that is a file.
    taken: HashMap<Vec<u8>, bool>,
    pub(crate) policy: Policy,
}

/// The page of an application.
const SHELL: &[u8] = b"/index.html";

/// Where a page is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageAddress {
    /// Where it answers. The last one is where others lead.
    pub(crate) at: Vec<Vec<u8>>,
    /// What leads there.
    pub(crate) from: Vec<Vec<u8>>,
}

/// What a page could be called: with a slash, and without.
struct PagePaths {
    canonical: Vec<u8>,
    other: Option<Vec<u8>>,
    is_index: bool,
}

impl PageAddresses {
    /// For files at these paths.
    pub(crate) fn new<'p>(
        paths: impl Iterator<Item = &'p [u8]>,
        policy: &Policy,
    ) -> Result<PageAddresses, PackError> {
        let mut taken: HashMap<Vec<u8>, bool> = HashMap::new();
        let mut pages = Vec::new();
        for path in paths {
            taken.insert(path.to_vec(), true);
            pages.extend(PagePaths::of(path, policy).map(|names| (path, names)));
        }
        let listed = if policy.listings { listable_dirs(&taken) } else { BTreeSet::new() };
        pages.extend(listed.iter().map(|dir| (&dir[..], PagePaths::of_dir(dir, policy))));
        pages.sort_by_key(|&(path, PagePaths { is_index, .. })| (is_index, path));
        let mut lost = Vec::new();
        pages.retain(|(path, names)| {
            let is_free = !taken.contains_key(&names.canonical);
            taken.insert(names.canonical.clone(), true);
            // Nobody misses a list.
            lost.extend((!is_free && !listed.contains(*path)).then(|| path.to_vec()));
            is_free
        });
        let mut addresses = HashMap::new();
        for (path, PagePaths { canonical, other, is_index }) in pages {
            let had = other.is_some();
            let other = other.filter(|other| !taken.contains_key(other));
            if had && other.is_none() && !is_index {
                lost.push(path.to_vec());
            }
            let path = path.to_vec();
            let (at, from) = match policy.clean_urls {
                _ if listed.contains(&path) => (vec![canonical], other.into_iter().collect::<Vec<_>>()),
                true => (vec![canonical], [path.clone()].into_iter().chain(other).collect::<Vec<_>>()),
                false => (vec![path.clone(), canonical], other.into_iter().collect()),
            };
            taken.extend(from.iter().map(|path| (path.clone(), false)));
            addresses.insert(path, PageAddress { at, from });
        }
        lost.sort();
        match policy.spa && !taken.contains_key(SHELL) {
            true => Err(PackError::NoShell),
            false => {
                let listings = listed.into_iter().filter(|dir| addresses.contains_key(dir)).collect();
                Ok(PageAddresses { pages: addresses, lost, listings, taken, policy: policy.clone() })
            }
        }
    }

    /// Whether there is something at a path: a file, or what leads to one.
    pub(crate) fn has(&self, path: &[u8]) -> bool {
        self.taken.contains_key(path)
    }

    /// Whether a file answers at a path.
    pub(crate) fn has_file(&self, path: &[u8]) -> bool {
        self.taken.get(path).is_some_and(|&is_file| is_file)
    }

    /// Where the file is that a path means, by its address or by its name.
    pub(crate) fn file(&self, path: &[u8]) -> Option<Vec<u8>> {
        if self.has_file(path) {
            return Some(path.to_vec());
        }
        self.pages.get(path).and_then(|page| page.at.last()).cloned()
    }

    /// Whether the file at a path answers for what is not there.
    pub(crate) fn is_shell(&self, path: &[u8]) -> bool {
        self.policy.spa && path == SHELL
    }

    /// Tells of pages that have no address of their own.
    pub(crate) fn report_skipped(&self, skipped: &mut Vec<Skipped>) {
        for path in &self.lost {
            let relative = path.strip_prefix(b"/").unwrap_or(path);
            skip(skipped, SkipReason::AddressTaken, Path::new(OsStr::from_bytes(relative)));
        }
    }

    /// The directories that are answered with a list of what they have, each with the slash behind.
    pub(crate) fn listings(&self) -> &[Vec<u8>] {
        &self.listings
    }

    /// Where the page of a directory is, be it a list or not. The directory has its slash behind.
    pub(crate) fn of_dir(&self, dir: &[u8]) -> Vec<u8> {
        let index = [dir, b"index.html"].concat();
        let page = self.pages.get(dir).or_else(|| self.pages.get(&index));
        page.and_then(|page| page.at.last()).cloned().unwrap_or(dir.to_vec())
    }

    /// Where the file at a path is.
    pub(crate) fn address_of(&self, path: &[u8]) -> PageAddress {
        let at_its_name = || PageAddress { at: vec![path.to_vec()], from: Vec::new() };
        self.pages.get(path).cloned().unwrap_or_else(at_its_name)
    }
}

impl PagePaths {
    /// None: the file is at its name, and nowhere else.
    fn of(path: &[u8], policy: &Policy) -> Option<PagePaths> {
        let bare = match super::directory_of(path, b"index.html") {
            Some(dir) => return Some(PagePaths::of_dir(dir, policy)),
            // The page for what is missing is nobody's destination.
            None if !policy.clean_urls || path.ends_with(b"/404.html") => return None,
            None => path.strip_suffix(b".html").filter(|bare| !bare.ends_with(b"/"))?,
        };
        Some(PagePaths::new(bare, false, policy))
    }

    /// Those of the page of a directory, which has its slash behind.
    fn of_dir(dir: &[u8], policy: &Policy) -> PagePaths {
        PagePaths::new(dir.strip_suffix(b"/").unwrap_or(dir), true, policy)
    }

    fn new(bare: &[u8], is_index: bool, policy: &Policy) -> PagePaths {
        let slashed = [bare, b"/"].concat();
        let ends_in_slash = match policy.trailing_slash {
            TrailingSlash::Auto => is_index,
            TrailingSlash::Always => true,
            TrailingSlash::Never => false,
        };
        let (canonical, other) = match ends_in_slash {
            // The root.
            _ if bare.is_empty() => (slashed, None),
            true => (slashed, Some(bare.to_vec())),
            false => (bare.to_vec(), Some(slashed)),
        };
        PagePaths { canonical, other, is_index }
    }
}

/// The directories that have something to list and no page of their own; none that is hidden, and always the root.
fn listable_dirs(taken: &HashMap<Vec<u8>, bool>) -> BTreeSet<Vec<u8>> {
    let dirs = taken.keys().flat_map(|path| {
        let slashes = path.iter().enumerate().filter(|&(_, &byte)| byte == b'/').map(|(at, _)| at);
        slashes.map(|slash| &path[..=slash])
    });
    let dirs: BTreeSet<&[u8]> = dirs.chain([&b"/"[..]]).collect();
    let is_hidden = |dir: &[u8]| dir.windows(2).any(|window| window == b"/.");
    let has_page = |dir: &[u8]| taken.contains_key(&[dir, b"index.html"].concat());
    dirs.into_iter().filter(|dir| !is_hidden(dir) && !has_page(dir)).map(<[u8]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use TrailingSlash::{Always, Auto, Never};

    #[test]
    #[rustfmt::skip]
    fn a_page_has_one_address_and_everything_else_leads_there() {
        type Row<'a> = (&'a str, bool, TrailingSlash, &'a [&'a str], &'a str, &'a [&'a str]);
        const BOTH: &[&str] = &["/about.html", "/about/index.html"];
        let cases: &[Row<'_>] = &[
            // what it shows       clean  slash   files               where each answers, and what leads there                                          without an address
            ("as they are",        false, Auto,   BOTH,               "/about.html; /about/index.html /about/ < /about",                                  &[]),
            ("the root",           false, Auto,   &["/index.html"],   "/index.html /",                                                                    &[]),
            ("always",             false, Always, BOTH,               "/about.html; /about/index.html /about/ < /about",                                  &[]),
            ("never",              false, Never,  BOTH,               "/about.html; /about/index.html /about < /about/",                                  &[]),
            ("never, the root",    false, Never,  &["/index.html"],   "/index.html /",                                                                    &[]),
            ("clean",              true,  Auto,   &["/about.html"],   "/about < /about.html /about/",                                                     &[]),
            ("clean, below",       true,  Auto,   &["/a/b.html"],     "/a/b < /a/b.html /a/b/",                                                           &[]),
            ("clean, directory",   true,  Auto,   &["/a/index.html"], "/a/ < /a/index.html /a",                                                           &[]),
            ("clean, the root",    true,  Auto,   &["/index.html"],   "/ < /index.html",                                                                  &[]),
            ("clean, always",      true,  Always, &["/about.html"],   "/about/ < /about.html /about",                                                     &[]),
            ("clean, never",       true,  Never,  &["/a/index.html"], "/a < /a/index.html /a/",                                                           &[]),
            ("both",               true,  Auto,   BOTH,               "/about < /about.html; /about/ < /about/index.html",                                &["/about.html"]),
            ("both, always",       true,  Always, BOTH,               "/about/ < /about.html /about; /about/index.html",                                  &["/about/index.html"]),
            ("both, never",        true,  Never,  BOTH,               "/about < /about.html /about/; /about/index.html",                                  &["/about/index.html"]),
            ("a file of the name", true,  Auto,   &["/about", "/about.html"], "/about; /about.html",                                                      &["/about.html"]),
            ("and a directory",    false, Auto,   &["/a", "/a/index.html"], "/a; /a/index.html /a/",                                                      &[]),
            ("no page",            true,  Auto,   &["/a.css", "/a.html.gz", "/a.htm"], "/a.css; /a.html.gz; /a.htm",                                      &[]),
            ("what is missing",    true,  Auto,   &["/404.html", "/a/404.html"], "/404.html; /a/404.html",                                                &[]),
            ("nothing before",     true,  Auto,   &["/.well-known/.html"], "/.well-known/.html",                                                          &[]),
        ];
        for &(name, clean_urls, trailing_slash, files, want, lost) in cases {
            let policy = Policy { clean_urls, trailing_slash, ..Policy::default() };
            let addresses = PageAddresses::new(files.iter().map(|path| path.as_bytes()), &policy).expect("a site");
            let shown = |paths: &[Vec<u8>]| paths.iter().map(|path| String::from_utf8_lossy(path)).collect::<Vec<_>>().join(" ");
            let all = files.iter().map(|path| {
                let PageAddress { at, from } = addresses.address_of(path.as_bytes());
                if from.is_empty() { shown(&at) } else { format!("{} < {}", shown(&at), shown(&from)) }
            });
            assert_eq!(all.collect::<Vec<_>>().join("; "), want, "{name}");
            assert_eq!(shown(&addresses.lost), lost.join(" "), "{name}");
        }
    }

    #[test]
    fn an_application_has_a_page() {
        let policy = Policy { spa: true, ..Policy::default() };
        let of = |path: &'static [u8]| PageAddresses::new([path].into_iter(), &policy);
        assert!(of(b"/index.html").is_ok_and(|site| site.is_shell(b"/index.html") && !site.is_shell(b"/")));
        assert!(matches!(of(b"/a/index.html"), Err(PackError::NoShell)));
    }
}
