//! Which site is served, and which earlier ones are kept for what pages of them still ask for.
//!
//! The workers hold the sites; here they are only remembered, so that nothing is kept when the workers have ended.

use crate::site::Site;
use std::sync::{Arc, Weak};

/// What the workers serve from.
#[derive(Clone, Debug)]
pub(crate) struct SiteVersions {
    pub(crate) current: Arc<Site>,
    /// The latest first.
    pub(crate) earlier: Arc<[Arc<Site>]>,
}

/// The sites that were served last.
#[derive(Clone, Debug)]
pub(crate) struct SiteHistory {
    /// The latest first: the current one, and those that are kept.
    sites: Vec<Weak<Site>>,
    /// Earlier sites that are kept, at most.
    kept_max: usize,
    /// Descriptors that earlier sites may have together.
    descriptor_max: usize,
}

impl SiteHistory {
    pub(crate) fn new(kept_max: usize, descriptor_max: usize) -> SiteHistory {
        SiteHistory { sites: Vec::new(), kept_max, descriptor_max }
    }

    /// Another site becomes the current one. One with the same content is not kept beside it: what is read again without
    /// having changed, or comes back, takes no other's place.
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
    use std::fs;

    #[test]
    fn the_latest_others_are_kept_for_as_long_as_somebody_serves_them() {
        let dir = tempfile::tempdir().expect("a directory");
        let site = |content: &str| {
            fs::write(dir.path().join("index.html"), content).expect("a file");
            Site::from_dir(dir.path()).expect("a site")
        };
        #[rustfmt::skip]
        let cases: &[(&str, usize, &str, &[&str])] = &[
            // what it shows           at most  served, in order  kept at last
            ("none is to be kept",     0,       "ab",             &[]),
            ("the one before",         1,       "ab",             &["a"]),
            ("the latest two",         2,       "abcd",           &["c", "b"]),
            ("fewer than there may be", 5,      "abc",            &["b", "a"]),
            ("the same again",         1,       "abb",            &["a"]),
            ("one that comes back",    2,       "aba",            &["b"]),
        ];
        for &(name, kept_max, served, want) in cases {
            let mut recent = SiteHistory::new(kept_max, usize::MAX);
            // What the workers hold.
            let mut lineups = Vec::new();
            for content in served.chars() {
                lineups.push(recent.next(site(&content.to_string())));
            }
            let contents: Vec<_> =
                lineups.last().expect("one").earlier.iter().map(|earlier| content_of(earlier)).collect();
            assert_eq!(contents, want, "{name}");
            drop(lineups);
            assert!(recent.next(site("x")).earlier.is_empty(), "{name}: nobody serves it any more");
        }
        let mut recent = SiteHistory::new(5, 2);
        let lineups: Vec<_> = ["a", "b", "c", "d"].map(|content| recent.next(site(content))).into();
        assert_eq!(lineups[3].earlier.len(), 2, "each has a descriptor");
    }

    fn content_of(site: &Site) -> String {
        let Some(tarpon_site::Entry::File(file)) = site.image().find(b"/") else { panic!("a page") };
        let tarpon_site::Content::Image(place) = file.identity.content else { panic!("a small one") };
        String::from_utf8_lossy(site.image().bytes(place)).into_owned()
    }
}
