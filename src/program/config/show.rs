//! What holds in the end, as a file that says the same.

use super::{OptionDefault, OptionValue, Origin, ResolvedConfig, ValueKind, file::written};
use crate::{Address, LogTarget};
use std::path::absolute;
use tarpon_site::Printable;

impl ResolvedConfig {
    /// A configuration file that says all of it, defaults included, wherever it lies. Who said it stands beside it.
    pub fn toml(&self) -> String {
        let mut text = String::new();
        for (number, said) in self.said.iter().enumerate() {
            let before = number.checked_sub(1).map(|before| &self.said[before]);
            if before
                .is_none_or(|before| before.section.name != said.section.name || before.number != said.number)
            {
                let (gap, remark) =
                    (if text.is_empty() { "" } else { "\n" }, if said.number.is_none() { "# " } else { "" });
                text += &format!("{gap}{remark}{}\n", said.section.head());
            }
            text += &format!("{}  # {}\n", line(said), self.from(said));
        }
        text
    }

    /// Who said it: the default, a line of the file, or a flag.
    pub fn from(&self, said: &OptionValue) -> String {
        match (said.from, &self.file) {
            (Origin::File(line), Some(file)) => format!("{}:{line}", file.path.printable()),
            (Origin::Flag, _) => match (&said.option.kind, &said.values[..]) {
                (ValueKind::Flag(_), [off]) if off == "false" => format!("--no-{}", said.option.flag_name()),
                (ValueKind::Flag(_), _) => format!("--{}", said.option.flag_name()),
                _ => said.option.flag_words(),
            },
            _ => "default".to_owned(),
        }
    }
}

impl OptionValue {
    /// What holds, in words.
    pub fn words(&self) -> String {
        match (&self.values[..], &self.option.default, &self.option.kind) {
            ([], OptionDefault::Words(words), _) => (*words).to_owned(),
            ([], _, ValueKind::Flag(_)) => "false".to_owned(),
            ([], ..) if !self.option.many => "not set".to_owned(),
            (values, ..) => {
                let values: Vec<_> = values.iter().map(|value| value.printable().to_string()).collect();
                values.join(", ")
            }
        }
    }
}

/// An option as it stands in a file; one that has no value as a remark.
fn line(said: &OptionValue) -> String {
    let name = said.option.name;
    let values: Vec<_> =
        said.values.iter().map(|value| written(said.option, &anywhere(said, value))).collect();
    match (&values[..], &said.option.kind) {
        _ if said.number.is_none() => format!("# {name}: {}", said.words()),
        (values, _) if said.option.many => format!("{name} = [{}]", values.join(", ")),
        ([value, ..], _) => format!("{name} = {value}"),
        ([], ValueKind::Flag(_)) => format!("{name} = false"),
        ([], _) => format!("# {name}: {}", said.words()),
    }
}

/// A value that means the same wherever the file lies that says it.
fn anywhere(said: &OptionValue, value: &str) -> String {
    let whole =
        |path: &str| absolute(path).map_or(path.to_owned(), |path| path.to_string_lossy().into_owned());
    match said.option.kind {
        ValueKind::Path(_) => whole(value),
        ValueKind::Address(_) | ValueKind::AddressOrOff(_) => match value.parse() {
            Ok(Address::Unix(path)) => format!("unix:{}", whole(&path.to_string_lossy())),
            _ => value.to_owned(),
        },
        ValueKind::Target(_) => match value.parse() {
            Ok(LogTarget::File(_)) => whole(value),
            Ok(LogTarget::Socket(path)) => format!("unix:{}", whole(&path.to_string_lossy())),
            _ => value.to_owned(),
        },
        _ => value.to_owned(),
    }
}
