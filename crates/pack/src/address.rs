//! The addresses of pages, and the redirects to them.
//!
//! ```text
//!                       served at            redirects            with clean URLs
//! /about.html           /about.html                               /about    ◀─ /about.html, /about/
//! /guide/index.html     /guide/index.html                         /guide/   ◀─ /guide/index.html, /guide
//!                       /guide/              ◀─ /guide
//! ```
//!
//! If several files claim a path, it goes to the file of that name, then to `about.html`, then to `about/index.html`, and last to a
//! redirect. A page whose address belongs to another file is served at its file name.

use crate::error::PackError;
use crate::policy::{Policy, TrailingSlash};
use crate::skip::{SkipReason, Skipped, skip_path};
use std::collections::{BTreeSet, HashMap};

/// The addresses of all pages of a site.
pub(crate) struct PageAddresses {
    /// By the path of the file, or of the directory that has a listing. Without files that are served at their file names only.
    pages: HashMap<Vec<u8>, PageAddress>,
    /// Pages whose address, with or without a trailing slash, belongs to another file; sorted.
    displaced: Vec<Vec<u8>>,
    /// Directories with a listing, each with its trailing slash.
    listings: Vec<Vec<u8>>,
    /// All paths of the site, and whether a file is served there or a redirect.
    taken: HashMap<Vec<u8>, bool>,
    pub(crate) policy: Policy,
}

/// The page of a single-page application.
const SHELL: &[u8] = b"/index.html";

/// The paths of one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageAddress {
    /// The paths at which the page is served. Redirects lead to the last one.
    pub(crate) served_at: Vec<Vec<u8>>,
    /// The paths that redirect to the page.
    pub(crate) redirects: Vec<Vec<u8>>,
}

/// The candidates for the address of a page.
struct PagePaths {
    canonical: Vec<u8>,
    /// The same path with or without a trailing slash.
    other: Option<Vec<u8>>,
    /// The rank of the file name among those of pages of directories. `None`: the page of a file.
    index_rank: Option<usize>,
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
            pages.extend(PagePaths::of(path, policy).map(|paths| (path, paths)));
        }
        let of_entry = policy.rules.listed()?;
        let mut listed = match policy.listings || !policy.rules.paths.is_empty() {
            true => dirs_to_list(&taken, policy),
            false => BTreeSet::new(),
        };
        listed.retain(|dir| of_entry(dir).unwrap_or(policy.listings));
        pages.extend(listed.iter().map(|dir| (&dir[..], PagePaths::of_dir(dir, policy))));
        pages.sort_by_key(|&(path, PagePaths { index_rank, .. })| (index_rank, path));
        let mut displaced = Vec::new();
        pages.retain(|(path, paths)| {
            let is_free = !taken.contains_key(&paths.canonical);
            taken.insert(paths.canonical.clone(), true);
            // A missing listing is no loss.
            displaced.extend((!is_free && !listed.contains(*path)).then(|| path.to_vec()));
            is_free
        });
        let mut addresses = HashMap::new();
        for (path, PagePaths { canonical, other, index_rank }) in pages {
            let has_other = other.is_some();
            let other = other.filter(|other| !taken.contains_key(other));
            if has_other && other.is_none() && index_rank.is_none() {
                displaced.push(path.to_vec());
            }
            let path = path.to_vec();
            let (served_at, redirects) = match policy.clean_urls {
                _ if listed.contains(&path) => (vec![canonical], other.into_iter().collect::<Vec<_>>()),
                true => (vec![canonical], [path.clone()].into_iter().chain(other).collect::<Vec<_>>()),
                false => (vec![path.clone(), canonical], other.into_iter().collect()),
            };
            taken.extend(redirects.iter().map(|path| (path.clone(), false)));
            addresses.insert(path, PageAddress { served_at, redirects });
        }
        displaced.sort();
        match policy.spa && !taken.contains_key(SHELL) {
            true => Err(PackError::NoShell),
            false => {
                let listings = listed.into_iter().filter(|dir| addresses.contains_key(dir)).collect();
                Ok(PageAddresses { pages: addresses, displaced, listings, taken, policy: policy.clone() })
            }
        }
    }

    /// Returns whether a path is taken by a file or a redirect.
    pub(crate) fn has(&self, path: &[u8]) -> bool {
        self.taken.contains_key(path)
    }

    /// Returns whether a file is served at a path.
    pub(crate) fn has_file(&self, path: &[u8]) -> bool {
        self.taken.get(path).is_some_and(|&is_file| is_file)
    }

    /// Returns the path at which a file is served, given that path or the path of the file.
    pub(crate) fn file(&self, path: &[u8]) -> Option<Vec<u8>> {
        if self.has_file(path) {
            return Some(path.to_vec());
        }
        self.pages.get(path).and_then(|page| page.served_at.last()).cloned()
    }

    /// Returns whether the file at a path is the page of a single-page application.
    pub(crate) fn is_shell(&self, path: &[u8]) -> bool {
        self.policy.spa && path == SHELL
    }

    /// Counts the pages whose address belongs to another file.
    pub(crate) fn report_skipped(&self, skipped: &mut Vec<Skipped>) {
        for path in &self.displaced {
            skip_path(skipped, SkipReason::AddressTaken, path);
        }
    }

    /// Returns the directories with a listing, each with its trailing slash.
    pub(crate) fn listings(&self) -> &[Vec<u8>] {
        &self.listings
    }

    /// Returns the address of a directory, which has a page or a listing or neither. The directory has its trailing slash.
    pub(crate) fn of_dir(&self, dir: &[u8]) -> Vec<u8> {
        let index = |name: &str| self.pages.get(&[dir, name.as_bytes()].concat());
        let page = self.pages.get(dir).or_else(|| self.policy.index_names().find_map(index));
        page.and_then(|page| page.served_at.last()).cloned().unwrap_or(dir.to_vec())
    }

    /// Returns the address of the file at a path.
    pub(crate) fn address_of(&self, path: &[u8]) -> PageAddress {
        let file_name = || PageAddress { served_at: vec![path.to_vec()], redirects: Vec::new() };
        self.pages.get(path).cloned().unwrap_or_else(file_name)
    }
}

impl PagePaths {
    /// For a file. Returns `None` if the file is served at its file name only.
    fn of(path: &[u8], policy: &Policy) -> Option<PagePaths> {
        let bare = match policy.index_dir(path) {
            Some((dir, rank)) => {
                return Some(PagePaths { index_rank: Some(rank), ..PagePaths::of_dir(dir, policy) });
            }
            // No link leads to an error page.
            None if !policy.clean_urls || path.ends_with(b"/404.html") => return None,
            None => path.strip_suffix(b".html").filter(|bare| !bare.ends_with(b"/"))?,
        };
        Some(PagePaths::new(bare, None, policy))
    }

    /// For a directory, with its trailing slash.
    fn of_dir(dir: &[u8], policy: &Policy) -> PagePaths {
        PagePaths::new(dir.strip_suffix(b"/").unwrap_or(dir), Some(usize::MAX), policy)
    }

    fn new(bare: &[u8], index_rank: Option<usize>, policy: &Policy) -> PagePaths {
        let slashed = [bare, b"/"].concat();
        let ends_in_slash = match policy.trailing_slash {
            TrailingSlash::Auto => index_rank.is_some(),
            TrailingSlash::Always => true,
            TrailingSlash::Never => false,
        };
        let (canonical, other) = match ends_in_slash {
            // The root.
            _ if bare.is_empty() => (slashed, None),
            true => (slashed, Some(bare.to_vec())),
            false => (bare.to_vec(), Some(slashed)),
        };
        PagePaths { canonical, other, index_rank }
    }
}

/// Returns the directories without a page of their own, except for hidden ones. The root counts even without files.
fn dirs_to_list(taken: &HashMap<Vec<u8>, bool>, policy: &Policy) -> BTreeSet<Vec<u8>> {
    let dirs = taken.keys().flat_map(|path| {
        let slashes = path.iter().enumerate().filter(|&(_, &byte)| byte == b'/').map(|(at, _)| at);
        slashes.map(|slash| &path[..=slash])
    });
    let dirs: BTreeSet<&[u8]> = dirs.chain([&b"/"[..]]).collect();
    let is_hidden = |dir: &[u8]| dir.windows(2).any(|window| window == b"/.");
    let has_page =
        |dir: &[u8]| policy.index_names().any(|name| taken.contains_key(&[dir, name.as_bytes()].concat()));
    dirs.into_iter().filter(|dir| !is_hidden(dir) && !has_page(dir)).map(<[u8]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use TrailingSlash::{Always, Auto, Never};

    #[test]
    #[rustfmt::skip]
    fn page_has_one_address_and_the_other_paths_redirect_there() {
        type Row<'a> = (&'a str, bool, TrailingSlash, &'a [&'a str], &'a str, &'a [&'a str]);
        const BOTH: &[&str] = &["/about.html", "/about/index.html"];
        let cases: &[Row<'_>] = &[
            // what it shows       clean  slash   files               where each is served < and the redirects to it                                     displaced
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
            ("error pages",        true,  Auto,   &["/404.html", "/a/404.html"], "/404.html; /a/404.html",                                                &[]),
            ("no stem",            true,  Auto,   &["/.well-known/.html"], "/.well-known/.html",                                                          &[]),
        ];
        for &(name, clean_urls, trailing_slash, files, want, displaced) in cases {
            let policy = Policy { clean_urls, trailing_slash, ..Policy::default() };
            let addresses = PageAddresses::new(files.iter().map(|path| path.as_bytes()), &policy).expect("a site");
            let shown = |paths: &[Vec<u8>]| paths.iter().map(|path| String::from_utf8_lossy(path)).collect::<Vec<_>>().join(" ");
            let all = files.iter().map(|path| {
                let PageAddress { served_at, redirects } = addresses.address_of(path.as_bytes());
                if redirects.is_empty() { shown(&served_at) } else { format!("{} < {}", shown(&served_at), shown(&redirects)) }
            });
            assert_eq!(all.collect::<Vec<_>>().join("; "), want, "{name}");
            assert_eq!(shown(&addresses.displaced), displaced.join(" "), "{name}");
        }
    }

    #[test]
    #[rustfmt::skip]
    fn first_name_that_a_directory_has_is_its_page() {
        let cases: &[(&str, &[&str], &[&str], &str)] = &[
            // case          index                          files                          address of each file
            ("the default",  &[],                           &["/a/index.html", "/a/b.htm"], "/a/index.html /a/; /a/b.htm"),
            ("another name", &["home.html"],                &["/index.html", "/home.html"], "/index.html; /home.html /"),
            ("the first",    &["index.html", "index.htm"],  &["/index.htm", "/index.html"], "/index.htm; /index.html /"),
            ("the second",   &["index.html", "index.htm"],  &["/index.htm"],                "/index.htm /"),
        ];
        for &(name, index, files, want) in cases {
            let index = index.iter().map(|name| (*name).to_owned()).collect();
            let policy = Policy { index, ..Policy::default() };
            let addresses = PageAddresses::new(files.iter().map(|path| path.as_bytes()), &policy).expect("a site");
            let shown = |paths: Vec<Vec<u8>>| paths.iter().map(|path| String::from_utf8_lossy(path).into_owned()).collect::<Vec<_>>().join(" ");
            let got: Vec<_> = files.iter().map(|path| shown(addresses.address_of(path.as_bytes()).served_at)).collect();
            assert_eq!(got.join("; "), want, "{name}");
        }
    }

    #[test]
    fn single_page_application_needs_a_page() {
        let policy = Policy { spa: true, ..Policy::default() };
        let of = |path: &'static [u8]| PageAddresses::new([path].into_iter(), &policy);
        assert!(of(b"/index.html").is_ok_and(|site| site.is_shell(b"/index.html") && !site.is_shell(b"/")));
        assert!(matches!(of(b"/a/index.html"), Err(PackError::NoShell)));
    }
}
