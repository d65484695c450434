//! Sections and options, and their text.
//!
//! The reader of tarpon checks the text. It names the bytes of what it refuses, and the draft knows which directive these come from: it
//! removes the value, reports the directive, and checks again. So the text that is written is always valid.

use super::{
    report::ImportReport,
    source::{DirectiveOrigin, SourceFiles, SourcePlace},
};
use crate::UserError;
use crate::config::{CliFlags, CommandKind, ConfigFile, ConfigSection, Opt, SECTIONS, read, toml_value};
use std::{collections::BTreeSet, ops::Range};

/// The sections, in the order of the file.
#[derive(Debug, Default)]
pub(super) struct ConfigDraft {
    pub(super) sections: Vec<DraftSection>,
    /// Whether the reader refused what tells clients apart.
    closes_server: bool,
}

/// A section with its options.
#[derive(Clone, Debug)]
pub(super) struct DraftSection {
    section: &'static ConfigSection,
    pub(super) origin: DirectiveOrigin,
    /// Lines above it.
    pub(super) comments: Vec<String>,
    entries: Vec<DraftEntry>,
    /// Whether the section goes at the end of the pass.
    is_removed: bool,
}

/// An option with its values.
#[derive(Clone, Debug)]
struct DraftEntry {
    option: &'static Opt,
    values: Vec<(String, DirectiveOrigin)>,
}

/// The part of the draft that a range of bytes belongs to: a section, an option, and one of its values.
type DraftPart = (usize, Option<(usize, Option<usize>)>);

impl DraftSection {
    pub(super) fn new(name: &str, origin: &DirectiveOrigin) -> DraftSection {
        let section = SECTIONS.iter().find(|section| section.name == name);
        let section = section.unwrap_or_else(|| panic!("no section has the name {name}"));
        DraftSection {
            section,
            origin: origin.clone(),
            comments: Vec::new(),
            entries: Vec::new(),
            is_removed: false,
        }
    }

    /// Adds a value of an option. A second value of an option that is no list replaces the first.
    pub(super) fn set(&mut self, name: &str, value: impl Into<String>, origin: &DirectiveOrigin) {
        let option = self.section.options.iter().find(|option| option.name == name);
        let option =
            option.unwrap_or_else(|| panic!("no option of {} has the name {name}", self.section.name));
        let value = value.into();
        let entry = match self.entries.iter_mut().find(|entry| entry.option.name == name) {
            Some(entry) => entry,
            None => {
                self.entries.push(DraftEntry { option, values: Vec::new() });
                self.entries.last_mut().expect("it was pushed")
            }
        };
        if !option.is_list {
            entry.values.clear();
        }
        if entry.values.iter().all(|(known, _)| *known != value) {
            entry.values.push((value, origin.clone()));
        }
    }

    /// Denies every client.
    pub(super) fn close(&mut self) {
        self.entries.retain(|entry| !["allow", "deny"].contains(&entry.option.name));
        let origin = self.origin.clone();
        self.set("deny", "all", &origin);
    }

    #[must_use]
    pub(super) fn with(
        mut self,
        name: &str,
        value: impl Into<String>,
        origin: &DirectiveOrigin,
    ) -> DraftSection {
        self.set(name, value, origin);
        self
    }

    pub(super) fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        let entry = self.entries.iter().filter(move |entry| entry.option.name == name);
        entry.flat_map(|entry| entry.values.iter().map(|(value, _)| value.as_str()))
    }

    pub(super) fn option_count(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl ConfigDraft {
    pub(super) fn new(sections: Vec<DraftSection>) -> ConfigDraft {
        ConfigDraft { sections, closes_server: false }
    }

    /// Returns the text, without the values that the reader of tarpon refuses, and whether it has hashes of passwords; `report` has what was
    /// refused.
    ///
    /// # Errors
    /// The reader refuses the text, and names no place.
    pub(super) fn checked_text(
        mut self,
        files: &SourceFiles,
        report: &mut ImportReport,
    ) -> Result<(String, bool), UserError> {
        for _ in 0..PASS_COUNT_MAX {
            let (text, parts) = self.render(files);
            let file = ConfigFile::new("tarpon.toml", text.clone());
            let Err(errors) = read(Some(&file), &CliFlags::default(), CommandKind::Serve) else {
                self.comment(report);
                let has_hashes = self.sections.iter().any(|section| section.values("users").next().is_some());
                return Ok((self.render(files).0, has_hashes));
            };
            // The parts that lie in each other follow the outer one.
            let part_at = |at: usize| {
                let found = parts.iter().rev().find(|(range, _)| range.contains(&at));
                found.map(|&(_, part)| part)
            };
            let mut refused: Vec<(DraftPart, String, String)> = Vec::new();
            for (at, found, hint) in errors.refusals() {
                let Some(part) = at.and_then(part_at) else { return Err(unexpected(&found)) };
                if refused.iter().all(|(known, ..)| *known != part) {
                    refused.push((part, found, hint));
                }
            }
            let parts: BTreeSet<DraftPart> = refused.iter().map(|(part, ..)| *part).collect();
            for (part, found, hint) in &refused {
                let origin = self.origin(*part);
                report.left_out(&origin, format_args!("tarpon refuses the value: {found}"), hint);
            }
            // From the end: earlier indices stay valid.
            parts.into_iter().rev().for_each(|part| self.remove(part));
            self.sections.retain(|section| !section.is_removed);
            if std::mem::take(&mut self.closes_server) {
                self.close_server();
            }
        }
        Err(unexpected("it refuses each further form of it"))
    }

    /// Writes what was left out above the site that it belongs to: the last one that begins before it in the same file.
    fn comment(&mut self, report: &ImportReport) {
        for (place, line) in report.left_out_lines() {
            let begins = |section: &DraftSection| {
                section.section.name == "site" && section.origin.place.file == place.file
            };
            let before =
                self.sections.iter_mut().filter(|section| begins(section) && section.origin.place <= place);
            if let Some(section) = before.max_by_key(|section| section.origin.place) {
                section.comments.push(format!("Left out, {line}"));
            }
        }
    }

    fn origin(&self, (section, rest): DraftPart) -> DirectiveOrigin {
        let section = &self.sections[section];
        let entry = rest.map(|(entry, value)| &section.entries[entry].values[value.unwrap_or(0)].1);
        // [server] and [log] come from many directives: the first stands for them.
        let first = section.entries.first().and_then(|entry| entry.values.first()).map(|(_, origin)| origin);
        let own = Some(&section.origin).filter(|origin| origin.place.line > 0);
        entry.or(own).or(first).unwrap_or(&section.origin).clone()
    }

    /// Removes a part. An option without values goes, too, and so do the sections of a site. A removal never opens closed paths.
    fn remove(&mut self, (at, rest): DraftPart) {
        let section = &mut self.sections[at];
        let name = section.section.name;
        if section.is_removed {
            return;
        }
        let Some((entry, value)) = rest else { return self.remove_section(at) };
        // A value that was removed before in the same pass may have ended its option.
        let Some(found) = section.entries.get_mut(entry) else { return };
        let option = found.option.name;
        if let Some(value) = value.filter(|value| *value < found.values.len()) {
            found.values.remove(value);
        }
        if value.is_none() || found.values.is_empty() {
            section.entries.remove(entry);
            // Without them a site would serve another directory, other paths, or clients of other listeners.
            if [("site", "path"), ("site", "mount"), ("site", "listen"), ("site.limit", "path")]
                .contains(&(name, option))
            {
                return self.remove_section(at);
            }
        }
        match option {
            "allow" | "deny" | "users" | "users-file" => section.close(),
            "tls-client-ca" | "tls-client-auth" => self.closes_server = true,
            _ => {}
        }
    }

    fn remove_section(&mut self, at: usize) {
        // Limits protect the site that they belong to.
        let at = match self.sections[at].section.name {
            "site.limit" => {
                (0..at).rev().find(|&before| self.sections[before].section.name == "site").unwrap_or(at)
            }
            _ => at,
        };
        let nested = format!("{}.", self.sections[at].section.name);
        let is_nested = |section: &&mut DraftSection| section.section.name.starts_with(&nested);
        self.sections[at].is_removed = true;
        self.sections[at + 1..]
            .iter_mut()
            .take_while(is_nested)
            .for_each(|section| section.is_removed = true);
    }

    /// Lets no client connect: what would have told them apart is missing.
    fn close_server(&mut self) {
        match self.sections.iter_mut().find(|section| section.section.name == "server") {
            Some(server) => server.close(),
            None => {
                let mut server = DraftSection::new("server", &DirectiveOrigin::default());
                server.close();
                self.sections.insert(0, server);
            }
        }
    }

    /// Returns the text, and what its ranges are; a part follows the part that contains it.
    fn render(&self, files: &SourceFiles) -> (String, Vec<(Range<usize>, DraftPart)>) {
        let mut text = String::new();
        let mut parts = Vec::new();
        for (number, section) in self.sections.iter().enumerate() {
            if number > 0 {
                text.push('\n');
            }
            let start = text.len();
            for comment in &section.comments {
                text += &format!("# {}\n", comment_text(comment));
            }
            let SourcePlace { file, line, .. } = section.origin.place;
            let place = match line {
                0 => String::new(),
                _ => format!("  # {}:{line}", comment_text(&files.name(file))),
            };
            text += &format!("{}{place}\n", section.section.header());
            let header = parts.len();
            parts.push((start..text.len(), (number, None)));
            for (at, entry) in section.entries.iter().enumerate() {
                let start = text.len();
                text += &format!("{} = ", entry.option.name);
                let index = parts.len();
                parts.push((start..start, (number, Some((at, None)))));
                let is_long = entry.values.len() > 2;
                if entry.option.is_list {
                    text.push('[');
                }
                for (value_at, (value, _)) in entry.values.iter().enumerate() {
                    match (value_at, is_long) {
                        (0, false) => {}
                        (_, false) => text += ", ",
                        (_, true) => text += "\n    ",
                    }
                    let start = text.len();
                    text += &toml_value(entry.option, &value.replace("${", "$${"));
                    parts.push((start..text.len(), (number, Some((at, Some(value_at))))));
                    if is_long {
                        text.push(',');
                    }
                }
                if entry.option.is_list {
                    text += if is_long { "\n]" } else { "]" };
                }
                text.push('\n');
                parts[index].0.end = text.len();
            }
            // The reader may point at the end of the section.
            parts[header].0.end = text.len();
        }
        (text, parts)
    }
}

/// Passes until the reader accepts the text. Each removes what it refuses, and few values depend on others.
const PASS_COUNT_MAX: usize = 100;

/// An error that only a defect of this command causes.
fn unexpected(found: &str) -> UserError {
    let why = format!("tarpon refuses what was made of it: {found}");
    UserError::new("cannot import this configuration", why, "please report this as a defect of tarpon")
}

/// Returns text that stays in one line of a comment. TOML allows no control characters there.
fn comment_text(text: &str) -> String {
    text.chars().map(|char| if tarpon_site::printable::is_invisible(char) { '?' } else { char }).collect()
}
