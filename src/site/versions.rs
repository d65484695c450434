//! The versions of one site: the current one, and earlier ones kept for pages that clients loaded before a swap.
//!
//! ```text
//! SiteHistory (weak) ── next(site) ─▶ SiteVersions (strong) ─▶ workers
//! ```
//!
//! Only the workers keep a version alive. The history holds weak references, so that no version outlives the workers.

use crate::site::Site;
use std::{
    iter,
    sync::{Arc, Weak},
};

/// The versions of a site that workers serve.
#[derive(Clone, Debug)]
pub(crate) struct SiteVersions {
    pub(crate) current: Arc<Site>,
    /// Earlier versions, the latest first.
    pub(crate) earlier: Arc<[Arc<Site>]>,
}

impl SiteVersions {
    /// Returns the current version and the earlier ones.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Site>> {
        iter::once(&self.current).chain(&*self.earlier)
    }
}

/// The latest versions of a site.
#[derive(Clone, Debug)]
pub(crate) struct SiteHistory {
    /// The current version and the earlier ones that are kept, the latest first.
    sites: Vec<Weak<Site>>,
    /// Maximum number of earlier versions.
    kept_max: usize,
    /// Maximum number of descriptors of all earlier versions together.
    descriptor_max: usize,
}

impl SiteHistory {
    /// Returns an empty history.
    pub(crate) fn new(kept_max: usize, descriptor_max: usize) -> SiteHistory {
        SiteHistory { sites: Vec::new(), kept_max, descriptor_max }
    }

    /// Returns the versions that workers hold.
    #[cfg(feature = "program")]
    pub(crate) fn held(&self) -> impl Iterator<Item = Arc<Site>> {
        self.sites.iter().filter_map(Weak::upgrade)
    }

    /// Makes a site the current version. Drops an earlier version with the same content, so that a rebuild without a change, or a
    /// return to an earlier state, does not evict another version.
    pub(crate) fn next(&mut self, site: Site) -> SiteVersions {
        let current = Arc::new(site);
        let mut descriptors = 0;
        let earlier: Arc<[_]> = (self.sites.iter().filter_map(Weak::upgrade))
            .filter(|earlier| !earlier.is_same(&current) && !earlier.is_damaged())
            .take(self.kept_max)
            .take_while(|earlier| {
                descriptors += earlier.descriptor_count();
                descriptors <= self.descriptor_max
            })
            .collect();
        self.sites = [&current].into_iter().chain(&*earlier).map(Arc::downgrade).collect();
        SiteVersions { current, earlier }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs::{self, File},
        time::UNIX_EPOCH,
    };

    #[test]
    fn latest_distinct_versions_are_kept_while_workers_hold_them() {
        let dir = tempfile::tempdir().expect("a directory");
        let site = |content: &str| {
            let file = dir.path().join("index.html");
            fs::write(&file, content).expect("a file");
            // The same content at another time is another version.
            File::options()
                .append(true)
                .open(&file)
                .and_then(|file| file.set_modified(UNIX_EPOCH))
                .expect("a time");
            Site::from_dir(dir.path()).expect("a site")
        };
        #[rustfmt::skip]
        let cases: &[(&str, usize, &str, &[&str])] = &[
            // what it shows           maximum  served, in order  kept
            ("keep none",              0,       "ab",             &[]),
            ("keep one",               1,       "ab",             &["a"]),
            ("keep two",               2,       "abcd",           &["c", "b"]),
            ("below the maximum",      5,       "abc",            &["b", "a"]),
            ("same content again",     1,       "abb",            &["a"]),
            ("earlier content again",  2,       "aba",            &["b"]),
        ];
        for &(name, kept_max, served, want) in cases {
            let mut history = SiteHistory::new(kept_max, usize::MAX);
            // The versions that workers hold.
            let mut held = Vec::new();
            for content in served.chars() {
                held.push(history.next(site(&content.to_string())));
            }
            let contents: Vec<_> =
                held.last().expect("one").earlier.iter().map(|earlier| content_of(earlier)).collect();
            assert_eq!(contents, want, "{name}");
            drop(held);
            assert!(history.next(site("x")).earlier.is_empty(), "{name}: no worker holds it any more");
        }
        let mut history = SiteHistory::new(5, 2);
        let held: Vec<_> = ["a", "b", "c", "d"].map(|content| history.next(site(content))).into();
        assert_eq!(held[3].earlier.len(), 2, "each has a descriptor");
    }

    fn content_of(site: &Site) -> String {
        let Some(tarpon_site::Entry::File(file)) = site.image().find(b"/").unwrap() else { panic!("a page") };
        let tarpon_site::Content::Image(place) = file.identity.content else { panic!("a small one") };
        String::from_utf8_lossy(site.image().bytes(place)).into_owned()
    }
}
