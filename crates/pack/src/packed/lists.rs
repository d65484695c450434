//! The lists of what directories have, in all their codings. They are made anew with each archive, as they name what is
//! in it.

use super::code::{Effort, encode};
use super::plan::Plan;
use super::variants::is_worth;
use super::work::each;
use super::{CODINGS, SiteOptions};
use crate::content::FileContent;
use crate::listing::{ListedFile, Listing, listings};
use crate::rules::is_hidden;
use std::io;
use tarpon_site::Coding;

/// A list in both forms, each as it is and coded.
pub(crate) struct List {
    /// The directory, with the slash behind.
    pub(crate) dir: Vec<u8>,
    html: Vec<(Coding, Vec<u8>)>,
    json: Vec<(Coding, Vec<u8>)>,
    modified_s: u64,
}

/// The lists of a site; none, if it is not to have any.
pub(crate) fn make(plan: &Plan<'_>, options: &SiteOptions<'_>) -> io::Result<Vec<List>> {
    let served = plan.files.iter().filter(|file| !is_hidden(&file.path));
    let listed = served.map(|file| {
        let (path, len) = (&file.path[..], plan.content(file).print.len);
        ListedFile { path, len, modified_s: file.modified_s, is_of_user: false }
    });
    let jobs = listings(listed, &plan.addresses);
    let mut workers = vec![(); options.workers.get()];
    each(&mut workers, &jobs, |(), Listing { dir, html, json, modified_s }| {
        let (html, json) = (coded(html, options.effort)?, coded(json, options.effort)?);
        Ok(List { dir: dir.clone(), html, json, modified_s: *modified_s })
    })
}

/// A text, and what it becomes in each coding that is worth it.
fn coded(text: &str, effort: Effort) -> io::Result<Vec<(Coding, Vec<u8>)>> {
    let plain = text.as_bytes();
    let mut forms = vec![(Coding::Identity, plain.to_vec())];
    for coding in CODINGS {
        let mut to = Vec::new();
        encode(coding, effort, plain, plain.len() as u64, &mut to)?;
        if is_worth(to.len() as u64, plain.len() as u64) {
            forms.push((coding, to));
        }
    }
    Ok(forms)
}

impl List {
    /// The page.
    pub(crate) fn html(&self) -> Vec<(Coding, FileContent)> {
        self.contents(&self.html)
    }

    /// The same for programs.
    pub(crate) fn json(&self) -> Vec<(Coding, FileContent)> {
        self.contents(&self.json)
    }

    fn contents(&self, forms: &[(Coding, Vec<u8>)]) -> Vec<(Coding, FileContent)> {
        let content = |bytes: &Vec<u8>| FileContent {
            last_modified: self.modified_s,
            ..FileContent::of(bytes.clone())
        };
        forms.iter().map(|(coding, bytes)| (*coding, content(bytes))).collect()
    }
}
