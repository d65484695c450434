//! A site written by its rules: what they change of each record, and the records they add.

use crate::address::Addresses;
use crate::error::PackError;
use crate::fields;
use crate::rules::{Compiled, Destination, Fields, Rules};
use crate::write::{Runs, Writer};
use std::collections::{BTreeSet, HashMap};
use std::io::{Seek, Write};
use tarpon_site::format::{PATH_LEN_MAX, section};

/// The rules of a site, while it is written.
pub(crate) struct Ruled<'r> {
    rules: &'r Rules,
    pub(crate) addresses: &'r Addresses,
    compiled: Compiled<'r>,
    /// Files to which a rule leads from a path of its own.
    wanted: BTreeSet<Vec<u8>>,
    /// What was written of them.
    runs: HashMap<Vec<u8>, Runs>,
}

impl<'r> Ruled<'r> {
    /// For a site whose files are at these addresses.
    pub(crate) fn new(rules: &'r Rules, addresses: &'r Addresses) -> Result<Ruled<'r>, PackError> {
        let compiled = rules.compile(|path| addresses.has_file(path), |path| addresses.has(path))?;
        let wanted = compiled.records.values().filter_map(|destination| match destination {
            Destination::File { path, .. } => Some(path.clone()),
            Destination::Place { .. } => None,
        });
        Ok(Ruled { rules, addresses, wanted: wanted.collect(), compiled, runs: HashMap::new() })
    }

    /// The fields of what lies at a path.
    pub(crate) fn fields(&self, path: &[u8]) -> Fields {
        self.rules.fields(path, Fields::of(self.addresses.policy.fields(path)))
    }

    /// Whether a rule may come before what lies at a path.
    pub(crate) fn asks(&self, path: &[u8]) -> bool {
        self.compiled.asks(path)
    }

    /// A file was written.
    pub(crate) fn wrote(&mut self, path: &[u8], runs: &Runs) {
        if self.wanted.contains(path) {
            self.runs.insert(path.to_vec(), runs.clone());
        }
    }

    /// All files were written: adds the records. Returns the section, if there is one.
    pub(crate) fn finish<W: Write + Seek>(
        self,
        writer: &mut Writer<'_, W>,
    ) -> Result<Option<(u32, Vec<u8>)>, PackError> {
        let nothing = Fields::of(self.addresses.policy.fields(b""));
        writer.fields_of_nothing(self.rules.fields_of_nothing(nothing));
        let records = self.compiled.records.iter().filter(|(path, _)| path.len() <= PATH_LEN_MAX);
        for (path, destination) in records {
            match destination {
                Destination::Place { status, before_query, fragment, keeps_query } => {
                    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
                    let (target, fragment) = (text(before_query), text(fragment));
                    let redirect = match keeps_query {
                        true => fields::redirect_to(&target, Some(&fragment)),
                        false => fields::redirect_to(&format!("{target}{fragment}"), None),
                    };
                    writer.redirect(path, &redirect, Some(*status), false)?;
                }
                // What vanished meanwhile is not there.
                Destination::File { status, path: target } => {
                    if let Some(runs) = self.runs.get(target) {
                        writer.ruled_alias(path, runs, *status)?;
                    }
                }
            }
        }
        let (fields, content) = fields::redirect_anywhere();
        let bytes = self.compiled.section(&fields, content);
        let bytes = bytes.map_err(|error| error.in_file(crate::rules::RuleFile::Redirects))?;
        Ok(bytes.map(|bytes| (section::RULES, bytes)))
    }
}
