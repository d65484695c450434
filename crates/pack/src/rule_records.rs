//! The records of rules, and the fields that rules add to each response.
//!
//! ```text
//! record                its content
//! path of a plain rule  the redirect, or the file that the rule sends, with the fields of both paths
//! "rule 7"              the same for the rule at 7 of the table
//! "de/404.html error"   a file that a rule of the table may send as an error
//! "a/", "a/shell"       the response for missing paths below a directory that has a page, or fields, of its own
//! ```
//!
//! The packer writes these records last, when the places of all contents are known.

use crate::address::PageAddresses;
use crate::content::{ContentPlace, FileContent};
use crate::error::PackError;
use crate::fields::{self, Representation, Varies};
use crate::rules::{CompiledRules, Destination, HeaderFields, PathSet, RuleSet, resolve_file};
use crate::url_path::dir_of;
use crate::write::{FileRecord, ImageVariant, ImageWriter, VariantRecords};
use crate::{cache_control, page};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Seek, Write};
use tarpon_site::format::{PATH_LEN_MAX, section};
use tarpon_site::rules::{RULE_NAME_LEN, encode_head, rule_name};
use tarpon_site::{BASE_NAME, Coding, ERROR_SUFFIX, SHELL_NAME, not_found_page_name};

/// Writes the records of rules, and returns the fields of every path.
pub(crate) struct RuleRecords<'r> {
    rules: &'r RuleSet,
    pub(crate) addresses: &'r PageAddresses,
    compiled: CompiledRules<'r>,
    /// The address of the configured page for missing paths, which takes the place of `/404.html`.
    not_found: Option<Vec<u8>>,
    /// The files that rules send at other paths.
    sent_by_rules: BTreeSet<Vec<u8>>,
    /// These files, and error pages, after they were written.
    written: BTreeMap<Vec<u8>, WrittenFile>,
    shell: Option<WrittenFile>,
}

/// A file that was written, for records at other paths.
struct WrittenFile {
    media: String,
    /// Each is [`ContentPlace::Placed`].
    contents: Vec<(Coding, FileContent)>,
}

/// A section of the image: its kind and its bytes.
type ImageSection = (u32, Vec<u8>);

impl<'r> RuleRecords<'r> {
    /// For the rules and the addresses of a site.
    pub(crate) fn new(
        rules: &'r RuleSet,
        addresses: &'r PageAddresses,
    ) -> Result<RuleRecords<'r>, PackError> {
        let base = &addresses.policy.base;
        let compiled = rules.compile(base, |path| addresses.file(path), |path| addresses.has(path))?;
        let not_found = rules.not_found_page(|path| addresses.file(path))?;
        let plain = compiled.records.values().filter_map(|destination| match destination {
            Destination::File { path, .. } => Some(path.clone()),
            Destination::Redirect { .. } => None,
        });
        let table = compiled.table.iter().filter_map(|(_, rule)| {
            let text = rule.target.text().filter(|_| !rule.is_redirect())?;
            resolve_file(text, &|path| addresses.file(path))
        });
        let sent_by_rules = plain.chain(table).collect();
        let (written, shell) = (BTreeMap::new(), None);
        Ok(RuleRecords { rules, addresses, compiled, not_found, sent_by_rules, written, shell })
    }

    /// Returns the fields of the response at a path.
    pub(crate) fn fields(&self, path: &[u8]) -> HeaderFields {
        self.fields_of(&[PathSet::one(path)])
    }

    /// Returns the fields of a response to which the rules for all of these paths apply.
    fn fields_of(&self, paths: &[PathSet]) -> HeaderFields {
        let policy = &self.addresses.policy;
        let fields: BTreeSet<_> = paths.iter().flat_map(|paths| policy.fields(paths.example())).collect();
        self.rules.fields(paths, HeaderFields::of(fields.into_iter()))
    }

    /// Returns whether a rule may override the file at a path.
    pub(crate) fn has_rule(&self, path: &[u8]) -> bool {
        self.compiled.has_forced_rule(path)
    }

    /// Returns whether a path has a file or a record of a rule.
    pub(crate) fn has(&self, path: &[u8]) -> bool {
        self.addresses.has(path) || self.compiled.records.contains_key(path)
    }

    /// Writes the server's page for a status at a path.
    pub(crate) fn error_page<W: Write + Seek>(
        &self,
        writer: &mut ImageWriter<'_, W>,
        path: &[u8],
        status: u16,
    ) -> Result<(), PackError> {
        let page = server_page(status, self.rules.status_page(status), &self.fields(path), &self.home());
        let purpose = FileRecord::Error { status, has_rule: self.has_rule(path) };
        writer.file(path, &mut [page], purpose, &mut Vec::new()).map(drop)
    }

    /// Returns the purpose of the record of the file at a path.
    pub(crate) fn file_record(&self, path: &[u8]) -> FileRecord {
        FileRecord::AtPath { has_rule: self.has_rule(path) }
    }

    /// Notes that the file at `path` was written at this address.
    pub(crate) fn file_written(
        &mut self,
        path: &[u8],
        address: &[u8],
        media: &str,
        variants: &[ImageVariant],
        records: &VariantRecords,
    ) {
        let written = || WrittenFile {
            media: media.to_owned(),
            contents: variants
                .iter()
                .zip(records.places())
                .map(|(variant, (home, at))| (variant.coding, variant.content.at(home, at)))
                .collect(),
        };
        if self.addresses.is_shell(path) {
            self.shell = Some(written());
        }
        let is_page = page_dir(address).is_some() || self.not_found.as_deref() == Some(address);
        if is_page || self.sent_by_rules.contains(address) || self.may_be_error(address) {
            self.written.insert(address.to_vec(), written());
        }
    }

    /// Writes the records, after all files were written. Returns the sections of the rules, of the base and of the paths without a log, if the
    /// site has them.
    pub(crate) fn finish<W: Write + Seek>(
        self,
        writer: &mut ImageWriter<'_, W>,
    ) -> Result<Vec<ImageSection>, PackError> {
        let everywhere = self.fields_of(&[PathSet::below(b"/")]);
        self.plain(writer)?;
        self.table(writer, &everywhere)?;
        self.errors(writer)?;
        self.missing(writer)?;
        let mut sections = self.base(writer)?;
        sections.extend(self.rules.log_paths()?.map(|paths| (section::LOG_PATHS, paths)));
        let (fields, content) = fields::redirect_anywhere(&everywhere);
        let home = self.home();
        writer.set_pages(everywhere, |status| {
            self.rules.status_page(status).map(str::to_owned).or_else(|| page::content(status, &home))
        });
        if self.compiled.table.is_empty() {
            return Ok(sections);
        }
        let head = encode_head(&fields, writer.hpack_block(&fields)?, content);
        let rules = self.compiled.encode_table().map_err(|error| self.rules.redirect_error(error))?;
        sections.push((section::RULES, [head, rules].concat()));
        Ok(sections)
    }

    /// Returns the public path of the root of the site.
    fn home(&self) -> Vec<u8> {
        self.addresses.policy.public_path(&self.addresses.of_dir(b"/"))
    }

    /// Writes the redirect from the base without a slash, which is no path of the site, to the root of the site. Returns the section of the
    /// base.
    fn base<W: Write + Seek>(&self, writer: &mut ImageWriter<'_, W>) -> Result<Vec<ImageSection>, PackError> {
        let policy = &self.addresses.policy;
        if policy.base.is_empty() {
            return Ok(Vec::new());
        }
        let redirect = fields::redirect(&policy.public_path(b"/"), &self.fields(b"/"));
        writer.redirect(BASE_NAME, &redirect, None, false)?;
        Ok(vec![(section::BASE, policy.base.clone().into())])
    }

    /// Writes the records of the plain rules, which depend on the path only.
    fn plain<W: Write + Seek>(&self, writer: &mut ImageWriter<'_, W>) -> Result<(), PackError> {
        let records = self.compiled.records.iter().filter(|(path, _)| path.len() <= PATH_LEN_MAX);
        for (path, destination) in records {
            let paths = PathSet::one(path);
            match destination {
                Destination::Redirect { status, before_query, fragment, keeps_query } => {
                    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
                    let (target, fragment) = (text(before_query), text(fragment));
                    let extra = self.fields_of(&[paths]);
                    let redirect = match keeps_query {
                        true => fields::redirect_to(&target, Some(&fragment), &extra),
                        false => fields::redirect_to(&format!("{target}{fragment}"), None, &extra),
                    };
                    writer.redirect(path, &redirect, Some(*status), false)?;
                }
                Destination::File { status, path: file } => {
                    self.rewrite(writer, path, file, paths, *status)?
                }
            }
        }
        Ok(())
    }

    /// Writes the records of the rules in the table that always send the same response.
    fn table<W: Write + Seek>(
        &self,
        writer: &mut ImageWriter<'_, W>,
        everywhere: &HeaderFields,
    ) -> Result<(), PackError> {
        for &(at, rule) in &self.compiled.table {
            let mut name = [0; RULE_NAME_LEN];
            let (name, paths) = (rule_name(at, &mut name), rule.pattern.paths());
            if rule.is_redirect() {
                let extra = self.fields_of(&[paths]);
                if extra != *everywhere {
                    let (fields, content) = fields::redirect_anywhere(&extra);
                    let redirect =
                        fields::RedirectFields { fields, before_query: 0, content: content.to_vec() };
                    writer.redirect(name, &redirect, Some(rule.status), false)?;
                }
            } else if let Some(file) =
                rule.target.text().and_then(|text| resolve_file(text, &|path| self.addresses.file(path)))
            {
                self.rewrite(writer, name, &file, paths, rule.status)?;
            }
        }
        Ok(())
    }

    /// Writes the files that a rule of the table may send as an error, if the file depends on the request.
    fn errors<W: Write + Seek>(&self, writer: &mut ImageWriter<'_, W>) -> Result<(), PackError> {
        let files = self.written.iter().filter(|(path, _)| self.may_be_error(path));
        for (path, written) in files.filter(|(path, _)| path.len() + ERROR_SUFFIX.len() <= PATH_LEN_MAX) {
            let mut variants = written.as_error(&self.fields(path));
            let name = [path.strip_prefix(b"/").unwrap_or(path), ERROR_SUFFIX].concat();
            writer.file(&name, &mut variants, FileRecord::AtPath { has_rule: false }, &mut Vec::new())?;
        }
        Ok(())
    }

    /// Writes the responses for missing paths, for each directory that has a page, or fields, of its own.
    fn missing<W: Write + Seek>(&self, writer: &mut ImageWriter<'_, W>) -> Result<(), PackError> {
        let purpose = FileRecord::AtPath { has_rule: false };
        let open = self.addresses.policy.open().map(|path| [path, b"/"].concat());
        let mut dirs: BTreeSet<_> = self.rules.dirs().map(<[u8]>::to_vec).chain(open).collect();
        dirs.insert(b"/".to_vec());
        if let Some(shell) = &self.shell {
            for dir in &dirs {
                let extra = self.fields_of(&[PathSet::one(b"/index.html"), PathSet::below(dir)]);
                let name = not_found_page_name(dir).map(|name| [name, SHELL_NAME].concat());
                if let Some(name) = name.filter(|name| name.len() <= PATH_LEN_MAX) {
                    writer.file(&name, &mut shell.as_file(&extra), purpose, &mut Vec::new())?;
                }
            }
        }
        let pages =
            self.written.iter().filter_map(|(path, written)| Some((page_dir(path)?, (path, written))));
        let configured = self.not_found.as_ref().and_then(|path| self.written.get_key_value(path));
        let pages: BTreeMap<_, _> = pages.chain(configured.map(|page| (&b"/"[..], page))).collect();
        dirs.extend(pages.keys().map(|dir| dir.to_vec()));
        for dir in &dirs {
            let Some(name) = not_found_page_name(dir).filter(|name| name.len() <= PATH_LEN_MAX) else {
                continue;
            };
            let mut variants = match with_ancestors(dir).find_map(|dir| pages.get(dir)) {
                Some((path, page)) => {
                    page.as_error(&self.fields_of(&[PathSet::one(path), PathSet::below(dir)]))
                }
                // Every image has a page for 404.
                None if dir == b"/" => continue,
                None => {
                    let extra = self.fields_of(&[PathSet::below(dir)]);
                    vec![server_page(404, None, &extra, &self.home())]
                }
            };
            writer.file(name, &mut variants, purpose, &mut Vec::new())?;
        }
        Ok(())
    }

    /// Writes a file that a rule sends at another path, with the fields of both. Writes nothing if the file no longer exists.
    fn rewrite<W: Write + Seek>(
        &self,
        writer: &mut ImageWriter<'_, W>,
        name: &[u8],
        file: &[u8],
        paths: PathSet,
        status: u16,
    ) -> Result<(), PackError> {
        let Some(written) = self.written.get(file) else { return Ok(()) };
        let extra = self.fields_of(&[paths, PathSet::one(file)]);
        let mut variants = if status == 200 { written.as_file(&extra) } else { written.as_error(&extra) };
        writer.file(name, &mut variants, FileRecord::ByRule { status }, &mut Vec::new()).map(drop)
    }

    /// Returns whether a rule of the table may send the file at an address as an error.
    fn may_be_error(&self, address: &[u8]) -> bool {
        let mut rules =
            self.compiled.table.iter().filter(|(_, rule)| !rule.is_redirect() && rule.status != 200);
        rules.any(|(_, rule)| rule.target.may_be(address))
    }
}

impl WrittenFile {
    /// Returns the file as a representation of another path. Caches revalidate it, unless a rule sets Cache-Control.
    fn as_file(&self, extra: &HeaderFields) -> Vec<ImageVariant> {
        self.variants(extra, ImageVariant::new)
    }

    /// Returns the file as the content of an error.
    fn as_error(&self, extra: &HeaderFields) -> Vec<ImageVariant> {
        self.variants(extra, |representation, content| ImageVariant {
            coding: representation.coding,
            fields: fields::error(representation, content.len),
            content,
        })
    }

    fn variants(
        &self,
        extra: &HeaderFields,
        variant: impl Fn(Representation<'_>, FileContent) -> ImageVariant,
    ) -> Vec<ImageVariant> {
        let varies = Varies::of(self.contents.len(), 0);
        let one = |(coding, content): &(Coding, FileContent)| {
            let (media, last_modified) = (&self.media[..], content.last_modified);
            let (coding, cache, offer) = (*coding, cache_control::REVALIDATE, None);
            let representation = Representation { media, coding, varies, offer, last_modified, cache, extra };
            let ContentPlace::Placed(home, at) = content.source else {
                unreachable!("the writer has placed it")
            };
            variant(representation, content.at(home, at))
        };
        self.contents.iter().map(one).collect()
    }
}

/// Returns the page for a status: the server's own, which links to the page at `home`, unless there is a configured one.
fn server_page(status: u16, configured: Option<&str>, extra: &HeaderFields, home: &[u8]) -> ImageVariant {
    let own = || page::content(status, home).expect("a test checks that each status has a text");
    let content = FileContent::of(configured.map_or_else(own, str::to_owned));
    let fields = fields::FileFields {
        ok: fields::page(status, content.len as usize, extra),
        ..fields::FileFields::default()
    };
    ImageVariant { coding: Coding::Identity, fields, content }
}

/// Returns the directory of an error page.
fn page_dir(path: &[u8]) -> Option<&[u8]> {
    dir_of(path, b"404.html")
}

/// Returns a directory and all directories above it, each with its trailing slash.
fn with_ancestors(dir: &[u8]) -> impl Iterator<Item = &[u8]> {
    (0..dir.len()).rev().filter(|&at| dir[at] == b'/').map(|at| &dir[..=at])
}
