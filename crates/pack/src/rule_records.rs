//! A site written by its rules: what they change of each record, and the records they add.
//!
//! ```text
//! path of a plain rule ─▶ where it leads, or the file it sends           with the fields of both, path and file
//! "rule 7"             ─▶ the same for the rule of the table at 7
//! "de/404.html error"  ─▶ a file that such a rule may send with an error
//! "a/", "a/shell"      ─▶ what answers for what is missing below a directory, where it has a page or fields of its own
//! ```
//!
//! These are written last, when it is known where the contents lie.

use crate::address::PageAddresses;
use crate::content::{ContentSource, FileContent};
use crate::error::PackError;
use crate::fields::{self, Representation, Varies};
use crate::rules::{Compiled, Destination, Fields, Paths, RuleFile, Rules, file_at};
use crate::write::{FileRecord, ImageVariant, ImageWriter, VariantRecords};
use crate::{cache_control, directory_of, page};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Seek, Write};
use tarpon_site::format::{PATH_LEN_MAX, section};
use tarpon_site::rules::{RULE_NAME_LEN, rule_name};
use tarpon_site::{Coding, ERROR, SHELL, page_name};

/// The rules of a site, while it is written.
pub(crate) struct RuleRecords<'r> {
    rules: &'r Rules,
    pub(crate) addresses: &'r PageAddresses,
    compiled: Compiled<'r>,
    /// Files that a rule sends for other paths.
    wanted: BTreeSet<Vec<u8>>,
    /// What was written of them, and of the pages that answer for what is missing.
    kept: BTreeMap<Vec<u8>, WrittenFile>,
    shell: Option<WrittenFile>,
}

/// A file that was written: what another answer needs of it.
struct WrittenFile {
    media: String,
    /// Placed.
    contents: Vec<(Coding, FileContent)>,
}

/// Its kind and its bytes, if there is one.
type ImageSection = Option<(u32, Vec<u8>)>;

impl<'r> RuleRecords<'r> {
    /// For a site whose files are at these addresses.
    pub(crate) fn new(rules: &'r Rules, addresses: &'r PageAddresses) -> Result<RuleRecords<'r>, PackError> {
        let compiled = rules.compile(|path| addresses.file(path), |path| addresses.has(path))?;
        let plain = compiled.records.values().filter_map(|destination| match destination {
            Destination::File { path, .. } => Some(path.clone()),
            Destination::Place { .. } => None,
        });
        let table = compiled.table.iter().filter_map(|(_, rule)| {
            let text = rule.target.text().filter(|_| !rule.is_redirect())?;
            file_at(text, &|path| addresses.file(path))
        });
        let wanted = plain.chain(table).collect();
        Ok(RuleRecords { rules, addresses, compiled, wanted, kept: BTreeMap::new(), shell: None })
    }

    /// The fields of what lies at a path.
    pub(crate) fn fields(&self, path: &[u8]) -> Fields {
        self.fields_of(&[Paths::one(path)])
    }

    /// The fields of what is sent for these.
    fn fields_of(&self, asked: &[Paths]) -> Fields {
        let policy = &self.addresses.policy;
        let fields: BTreeSet<_> = asked.iter().flat_map(|paths| policy.fields(paths.example())).collect();
        self.rules.fields(asked, Fields::of(fields.into_iter()))
    }

    /// Whether a rule may come before what lies at a path.
    pub(crate) fn has_rule(&self, path: &[u8]) -> bool {
        self.compiled.asks(path)
    }

    /// How the file at a path answers.
    pub(crate) fn file_record(&self, path: &[u8]) -> FileRecord {
        FileRecord::File { asks: self.has_rule(path) }
    }

    /// The file at `path` was written, for this address of it.
    pub(crate) fn file_written(
        &mut self,
        path: &[u8],
        address: &[u8],
        media: &str,
        variants: &[ImageVariant],
        runs: &VariantRecords,
    ) {
        let kept = || WrittenFile {
            media: media.to_owned(),
            contents: variants
                .iter()
                .zip(runs.places())
                .map(|(variant, (home, at))| (variant.coding, variant.content.at(home, at)))
                .collect(),
        };
        if self.addresses.is_shell(path) {
            self.shell = Some(kept());
        }
        if self.wanted.contains(address) || page_dir(address).is_some() || self.may_be_error(address) {
            self.kept.insert(address.to_vec(), kept());
        }
    }

    /// All files were written: adds the records. Returns the section, if there is one.
    pub(crate) fn finish<W: Write + Seek>(
        self,
        writer: &mut ImageWriter<'_, W>,
    ) -> Result<ImageSection, PackError> {
        let everywhere = self.fields_of(&[Paths::below(b"/")]);
        self.plain(writer)?;
        self.table(writer, &everywhere)?;
        self.errors(writer)?;
        self.missing(writer)?;
        let (fields, content) = fields::redirect_anywhere(&everywhere);
        writer.pages_have(everywhere);
        let bytes = self.compiled.section(&fields, content);
        let bytes = bytes.map_err(|error| error.in_file(RuleFile::Redirects))?;
        Ok(bytes.map(|bytes| (section::RULES, bytes)))
    }

    /// The rules that the path alone settles.
    fn plain<W: Write + Seek>(&self, writer: &mut ImageWriter<'_, W>) -> Result<(), PackError> {
        let records = self.compiled.records.iter().filter(|(path, _)| path.len() <= PATH_LEN_MAX);
        for (path, destination) in records {
            let asked = Paths::one(path);
            match destination {
                Destination::Place { status, before_query, fragment, keeps_query } => {
                    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
                    let (target, fragment) = (text(before_query), text(fragment));
                    let more = self.fields_of(&[asked]);
                    let redirect = match keeps_query {
                        true => fields::redirect_to(&target, Some(&fragment), &more),
                        false => fields::redirect_to(&format!("{target}{fragment}"), None, &more),
                    };
                    writer.redirect(path, &redirect, Some(*status), false)?;
                }
                Destination::File { status, path: file } => self.sends(writer, path, file, asked, *status)?,
            }
        }
        Ok(())
    }

    /// The rules of the table: what each sends, where that is always the same.
    fn table<W: Write + Seek>(
        &self,
        writer: &mut ImageWriter<'_, W>,
        everywhere: &Fields,
    ) -> Result<(), PackError> {
        for &(at, rule) in &self.compiled.table {
            let mut name = [0; RULE_NAME_LEN];
            let (name, asked) = (rule_name(at, &mut name), rule.pattern.paths());
            if rule.is_redirect() {
                let more = self.fields_of(&[asked]);
                if more != *everywhere {
                    let (fields, content) = fields::redirect_anywhere(&more);
                    let redirect =
                        fields::RedirectFields { fields, before_query: 0, content: content.to_vec() };
                    writer.redirect(name, &redirect, Some(rule.status), false)?;
                }
            } else if let Some(file) =
                rule.target.text().and_then(|text| file_at(text, &|path| self.addresses.file(path)))
            {
                self.sends(writer, name, &file, asked, rule.status)?;
            }
        }
        Ok(())
    }

    /// The files that a rule of the table may send with an error, and not always the same one.
    fn errors<W: Write + Seek>(&self, writer: &mut ImageWriter<'_, W>) -> Result<(), PackError> {
        let files = self.kept.iter().filter(|(path, _)| self.may_be_error(path));
        for (path, kept) in files.filter(|(path, _)| path.len() + ERROR.len() <= PATH_LEN_MAX) {
            let mut variants = kept.error(&self.fields(path));
            let name = [path.strip_prefix(b"/").unwrap_or(path), ERROR].concat();
            writer.file(&name, &mut variants, FileRecord::File { asks: false }, &mut Vec::new())?;
        }
        Ok(())
    }

    /// What answers for what is missing, for each directory that has a page, or fields of its own.
    fn missing<W: Write + Seek>(&self, writer: &mut ImageWriter<'_, W>) -> Result<(), PackError> {
        let manner = FileRecord::File { asks: false };
        let open = self.addresses.policy.open().map(|path| [path, b"/"].concat());
        let mut dirs: BTreeSet<_> = self.rules.dirs().map(<[u8]>::to_vec).chain(open).collect();
        dirs.insert(b"/".to_vec());
        if let Some(shell) = &self.shell {
            for dir in &dirs {
                let more = self.fields_of(&[Paths::one(b"/index.html"), Paths::below(dir)]);
                let name = page_name(dir).map(|name| [name, SHELL].concat());
                if let Some(name) = name.filter(|name| name.len() <= PATH_LEN_MAX) {
                    writer.file(&name, &mut shell.whole(&more), manner, &mut Vec::new())?;
                }
            }
        }
        let pages: BTreeMap<_, _> =
            self.kept.iter().filter_map(|(path, kept)| Some((page_dir(path)?, (path, kept)))).collect();
        dirs.extend(pages.keys().map(|dir| dir.to_vec()));
        for dir in &dirs {
            let Some(name) = page_name(dir).filter(|name| name.len() <= PATH_LEN_MAX) else { continue };
            let mut variants = match above(dir).find_map(|dir| pages.get(dir)) {
                Some((path, page)) => page.error(&self.fields_of(&[Paths::one(path), Paths::below(dir)])),
                // The page that the image has anyway.
                None if dir == b"/" => continue,
                None => vec![own(&self.fields_of(&[Paths::below(dir)]))],
            };
            writer.file(name, &mut variants, manner, &mut Vec::new())?;
        }
        Ok(())
    }

    /// A file in place of what was asked for, with the fields of both. What vanished meanwhile is not there.
    fn sends<W: Write + Seek>(
        &self,
        writer: &mut ImageWriter<'_, W>,
        name: &[u8],
        file: &[u8],
        asked: Paths,
        status: u16,
    ) -> Result<(), PackError> {
        let Some(kept) = self.kept.get(file) else { return Ok(()) };
        let more = self.fields_of(&[asked, Paths::one(file)]);
        let mut variants = if status == 200 { kept.whole(&more) } else { kept.error(&more) };
        writer.file(name, &mut variants, FileRecord::Ruled { status }, &mut Vec::new()).map(drop)
    }

    /// Whether a rule may send the file at an address with an error, among others.
    fn may_be_error(&self, address: &[u8]) -> bool {
        let mut rules =
            self.compiled.table.iter().filter(|(_, rule)| !rule.is_redirect() && rule.status != 200);
        rules.any(|(_, rule)| rule.target.may_be(address))
    }
}

impl WrittenFile {
    /// As a representation of what was asked for; what rules do not say may be kept is asked about, whatever its name.
    fn whole(&self, more: &Fields) -> Vec<ImageVariant> {
        self.variants(more, ImageVariant::new)
    }

    /// As an error.
    fn error(&self, more: &Fields) -> Vec<ImageVariant> {
        self.variants(more, |sent, content| ImageVariant {
            coding: sent.coding,
            fields: fields::error(sent, content.len),
            content,
        })
    }

    fn variants(
        &self,
        more: &Fields,
        variant: impl Fn(Representation<'_>, FileContent) -> ImageVariant,
    ) -> Vec<ImageVariant> {
        let varies = Varies::of(self.contents.len(), 0);
        let one = |(coding, content): &(Coding, FileContent)| {
            let (media, last_modified) = (&self.media[..], content.last_modified);
            let (coding, cache, offer) = (*coding, cache_control::REVALIDATE, None);
            let sent = Representation { media, coding, varies, offer, last_modified, cache, more };
            let ContentSource::Placed(home, at) = content.source else {
                unreachable!("placed when it was written")
            };
            variant(sent, content.at(home, at))
        };
        self.contents.iter().map(one).collect()
    }
}

/// The server's own page for what is missing.
fn own(more: &Fields) -> ImageVariant {
    let text = page::content(404).expect("a text for every status: a test compares them");
    let content = FileContent::of(text);
    let fields = fields::FileFields {
        ok: fields::page(404, content.len as usize, more),
        ..fields::FileFields::default()
    };
    ImageVariant { coding: Coding::Identity, fields, content }
}

/// The directory of a page that answers for what is missing there.
fn page_dir(path: &[u8]) -> Option<&[u8]> {
    directory_of(path, b"404.html")
}

/// A directory, and all above it; each with the slash behind.
fn above(dir: &[u8]) -> impl Iterator<Item = &[u8]> {
    (0..dir.len()).rev().filter(|&at| dir[at] == b'/').map(|at| &dir[..=at])
}
