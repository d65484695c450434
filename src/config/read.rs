//! Defaults, file and flags become a configuration: for each option of each section, what is said last and nearest holds.

use super::{
    Config, Fault, Faults, File, Flag, Opt, Program, SECTIONS, Section, Unsaid, conflict,
    file::{self, Table},
};
use std::{collections::BTreeMap, ffi::OsString, ops::Range, path::Path};

/// What is said on a command line: values, by the names of flags without their dashes.
#[derive(Clone, Debug, Default)]
pub struct Flags(pub BTreeMap<&'static str, Vec<OsString>>);

/// A configuration, and where each value of it came from.
#[derive(Clone, Debug)]
pub struct Settled {
    /// What holds.
    pub config: Config,
    /// Option by option.
    pub said: Vec<Said>,
    /// The file that was read.
    pub file: Option<File>,
}

/// An option in one section, with what holds there.
#[derive(Clone, Debug)]
pub struct Said {
    /// The section it is in.
    pub section: &'static Section,
    /// Which of several sections, the first one being 0. `None`: there is none, and a default takes its place.
    pub number: Option<usize>,
    /// The option.
    pub option: &'static Opt,
    /// Each value as it is written at its best. None: what [`Unsaid`] says.
    pub values: Vec<String>,
    /// Who said it.
    pub from: Origin,
    /// Where each value stands in the file.
    pub(super) places: Vec<Range<usize>>,
}

/// Who said what holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody.
    Default,
    /// The file, in this line.
    File(usize),
    /// The command line.
    Flag,
}

impl Said {
    /// What is wrong with the value of this number.
    pub(super) fn fault(
        &self,
        at: usize,
        found: impl Into<String>,
        expected: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Fault {
        match self.places.get(at) {
            Some(place) => Fault::at(place.clone(), found, expected, remedy),
            None => Fault::nowhere(found, expected, remedy),
        }
    }
}

/// Makes a configuration of a file and flags, of which the flags win.
///
/// # Errors
/// All that is wrong with them.
pub fn read(file: Option<&File>, flags: &Flags, program: Program) -> Result<Settled, Faults> {
    let mut faults = Vec::new();
    let tables = file.map(|file| file::tables(file, &mut faults)).unwrap_or_default();
    let mut reader = Reader { file, flags, program, config: Config::default(), said: Vec::new(), faults };
    for section in SECTIONS {
        let tables: Vec<_> = tables.iter().filter(|table| table.section.name == section.name).collect();
        reader.sections(section, &tables);
    }
    let Reader { config, said, mut faults, .. } = reader;
    conflict::find(&said, &mut faults);
    match faults.is_empty() {
        true => Ok(Settled { config, said, file: file.cloned() }),
        false => Err(Faults::new(file, faults)),
    }
}

struct Reader<'a> {
    file: Option<&'a File>,
    flags: &'a Flags,
    program: Program,
    config: Config,
    said: Vec<Said>,
    faults: Vec<Fault>,
}

impl<'a> Reader<'a> {
    /// All sections of a kind.
    fn sections(&mut self, section: &'static Section, tables: &[&Table]) {
        let of_key = section.options.iter().find(|option| section.key == Some(option.name));
        let (tables, count) = match of_key.and_then(|option| self.flag(option)) {
            Some(values) => (&[][..], values.len()),
            None => (tables, tables.len().max(*section.count.start())),
        };
        for number in 0..count {
            (section.begin)(&mut self.config);
            for option in section.options {
                self.option(section, number, option, tables);
            }
        }
        if count == 0 {
            let nobody = |option| Said {
                section,
                number: None,
                option,
                values: vec![],
                from: Origin::Default,
                places: vec![],
            };
            self.said.extend(section.options.iter().map(nobody));
        }
    }

    /// An option of one section.
    fn option(&mut self, section: &'static Section, number: usize, option: &'static Opt, tables: &[&Table]) {
        let table = tables.get(number);
        let given = table.and_then(|table| table.given.iter().find(|given| given.option.name == option.name));
        let mut said = Said {
            section,
            number: Some(number),
            option,
            values: vec![],
            from: Origin::Default,
            places: vec![],
        };
        if let Some(values) = self.flag(option) {
            said.from = Origin::Flag;
            let values = if section.key == Some(option.name) { &values[number..=number] } else { values };
            if matches!(option.flag, Flag::Place) && tables.len() > 1 && number == 0 {
                let found = format!(
                    "{} is of one {}, and the file has {}",
                    option.value_name,
                    section.name,
                    tables.len()
                );
                self.faults.push(Fault::nowhere(
                    found,
                    "expected to find it in the file",
                    "leave it out here",
                ));
            }
            for value in values {
                match option.kind.set(value, Path::new(""), &mut self.config) {
                    Ok(value) => said.values.push(value),
                    Err(expected) => {
                        let found = format!("--{} cannot be {}", option.flag_name(), value.display());
                        self.faults.push(Fault::nowhere(
                            found,
                            expected,
                            format!("such as {}", option.example()),
                        ));
                    }
                }
            }
        } else if let (Some(file), Some(given)) = (self.file, given) {
            said.from = Origin::File(file.line(given.at.start));
            for (value, place) in &given.values {
                match option.kind.set(value.as_ref(), file.base(), &mut self.config) {
                    Ok(value) => {
                        said.values.push(value);
                        said.places.push(place.clone());
                    }
                    Err(expected) => {
                        let found = format!(
                            "`{}` cannot be {}",
                            option.name,
                            file.text.get(place.clone()).unwrap_or(value)
                        );
                        self.faults.push(Fault::at(place.clone(), found, expected, file::as_in(option)));
                    }
                }
            }
        } else if let (true, Some(table)) = (option.required, table) {
            let found = format!("this {} has no `{}`", section.head(), option.name);
            let expected = format!("expected it to have `{}`", option.name);
            self.faults.push(Fault::at(table.at.clone(), found, expected, file::as_in(option)));
        } else if let Unsaid::Value(value) = option.default {
            let set = option.kind.set(value.as_ref(), Path::new(""), &mut self.config);
            said.values.push(set.expect("a default is a value"));
        }
        self.said.push(said);
    }

    /// What the command line says of an option.
    fn flag(&self, option: &Opt) -> Option<&'a [OsString]> {
        let values = self.flags.0.get(option.flag_name()).filter(|_| option.is_on(self.program))?;
        Some(values)
    }
}
