//! Directory listings, in all codings.

use super::codings::{CODINGS, is_worthwhile};
use super::encode::{CompressionEffort, encode};
use super::jobs::run_jobs;
use super::options::SiteOptions;
use crate::address::PageAddresses;
use crate::content::FileContent;
use crate::listing::{ListedFile, Listing, listings};
use std::io;
use tarpon_site::Coding;

/// The listing of a directory as HTML and JSON, each uncompressed and in the codings that are worthwhile.
pub(crate) struct EncodedListing {
    /// The directory. Ends with a slash.
    pub(crate) dir: Vec<u8>,
    html: Vec<(Coding, Vec<u8>)>,
    json: Vec<(Coding, Vec<u8>)>,
    modified_s: u64,
}

/// Returns the listings of a site with these files. There are none if the policy wants none.
pub(crate) fn encode_listings<'f>(
    listed: impl Iterator<Item = ListedFile<'f>>,
    addresses: &PageAddresses,
    options: &SiteOptions<'_>,
) -> io::Result<Vec<EncodedListing>> {
    let jobs = listings(listed, addresses);
    let mut workers = vec![(); options.workers.get()];
    run_jobs(&mut workers, &jobs, |(), Listing { dir, html, json, modified_s }| {
        let (html, json) = (encode_all(html, options.effort)?, encode_all(json, options.effort)?);
        Ok(EncodedListing { dir: dir.clone(), html, json, modified_s: *modified_s })
    })
}

/// Returns a text uncompressed and in each worthwhile coding.
fn encode_all(text: &str, effort: CompressionEffort) -> io::Result<Vec<(Coding, Vec<u8>)>> {
    let plain = text.as_bytes();
    let mut encoded = vec![(Coding::Identity, plain.to_vec())];
    for coding in CODINGS {
        let mut to = Vec::new();
        encode(coding, effort, plain, plain.len() as u64, &mut to)?;
        if is_worthwhile(to.len() as u64, plain.len() as u64) {
            encoded.push((coding, to));
        }
    }
    Ok(encoded)
}

impl EncodedListing {
    /// Returns the HTML page in each coding.
    pub(crate) fn html(&self) -> Vec<(Coding, FileContent)> {
        self.contents(&self.html)
    }

    /// Returns the JSON document in each coding.
    pub(crate) fn json(&self) -> Vec<(Coding, FileContent)> {
        self.contents(&self.json)
    }

    fn contents(&self, encoded: &[(Coding, Vec<u8>)]) -> Vec<(Coding, FileContent)> {
        let content = |bytes: &Vec<u8>| FileContent {
            last_modified: self.modified_s,
            ..FileContent::of(bytes.clone())
        };
        encoded.iter().map(|(coding, bytes)| (*coding, content(bytes))).collect()
    }
}
