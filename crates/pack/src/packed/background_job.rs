//! Compresses a content of a site while it is served.

use super::codings::{CODINGS, is_worthwhile};
use super::decode::decodes_to;
use super::encode::encode;
use super::fingerprint::Fingerprint;
use super::plan::is_compressible;
use crate::background::{CompressionJob, JobFiles, MadeVariant};
use crate::content::content_hash;
use crate::effort::CompressionEffort;
use std::io;

impl CompressionJob {
    /// Compresses the content in each coding that is missing. Returns nothing if the content has changed.
    ///
    /// # Errors
    /// The content cannot be read.
    pub fn run(&self, files: &JobFiles, effort: CompressionEffort) -> io::Result<Vec<MadeVariant>> {
        let Some(plain) = self.read(files)? else { return Ok(Vec::new()) };
        let of_plain = Fingerprint { len: plain.len() as u64, hash: content_hash(&plain) };
        let is_worth_an_attempt = is_compressible(of_plain.len, |at, len| {
            let from = &plain[(at as usize).min(plain.len())..];
            Ok(from[..len.min(from.len())].to_vec())
        })?;
        let mut made = Vec::new();
        for (number, coding) in CODINGS.into_iter().enumerate().filter(|(number, _)| self.codings[*number]) {
            let mut coded = Vec::new();
            if is_worth_an_attempt {
                encode(coding, effort, &plain[..], of_plain.len, &mut coded)?;
            }
            let is_good = !coded.is_empty()
                && is_worthwhile(coded.len() as u64, of_plain.len)
                && decodes_to(coding, &coded[..], of_plain);
            coded.shrink_to_fit();
            made.push(MadeVariant { key: (self.content, number), coded: is_good.then_some(coded) });
        }
        Ok(made)
    }
}
