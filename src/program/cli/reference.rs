//! The reference of the configuration file as manual page and as Markdown, generated from the tables of its options.

use super::{manual, manual_sections};
use crate::config::{CommandKind, Opt, OptionDefault, SECTIONS, ValueKind};
use clap_mangen::roff::{Roff, bold, italic, roman};
use std::fmt::Write;

/// Returns the manual page tarpon.toml(5).
pub(super) fn page() -> String {
    let mut roff = Roff::new();
    roff.control("TH", ["tarpon.toml", "5", "", concat!("tarpon ", env!("CARGO_PKG_VERSION")), "tarpon"]);
    roff.control("SH", ["NAME"]);
    roff.text([roman("tarpon.toml - the configuration file of tarpon")]);
    roff.control("SH", ["DESCRIPTION"]);
    for (number, paragraph) in SYNTAX.iter().enumerate() {
        if number > 0 {
            roff.control("PP", []);
        }
        roff.text([roman(*paragraph)]);
    }
    for section in SECTIONS {
        roff.control("SH", [&*section.header()]);
        roff.text([roman(format!("{}.", section.help))]);
        for option in section.options {
            roff.control("TP", []);
            roff.text([
                bold(option.name),
                roman(" = "),
                italic(allowed(option)),
                roman(format!(" [{}]", default(option))),
            ]);
            roff.text([roman(option.description())]);
            if let Some(flag) = flag(option) {
                roff.text([roman("On the command line: "), bold(flag), roman(".")]);
            }
        }
    }
    roff.control("SH", ["EXAMPLES"]);
    roff.text([roman("Two sites on port 80, and an access log:")]);
    roff.control("PP", []);
    roff.control("nf", []);
    for line in EXAMPLE.lines() {
        roff.text([roman(line)]);
    }
    roff.control("fi", []);
    let sections = manual_sections::of("tarpon.toml");
    manual::section(&mut roff, "FILES", sections.files);
    manual::section(&mut roff, "ENVIRONMENT", sections.environment);
    roff.control("SH", ["SEE ALSO"]);
    roff.text([
        bold("tarpon"),
        roman("(1), "),
        bold("tarpon-serve"),
        roman("(1), "),
        bold("tarpon-config"),
        roman("(1)"),
    ]);
    roff.render()
}

/// Returns a heading for each section and a table row for each option.
pub(super) fn markdown() -> String {
    let mut text = String::new();
    for section in SECTIONS {
        let _ = write!(text, "### `{}`\n\n{}.\n\n", section.header(), section.help);
        text += "| option | value | default | flag | effect |\n|---|---|---|---|---|\n";
        for option in section.options {
            let flag = flag(option).map(|flag| format!("`{flag}`")).unwrap_or_default();
            let (name, allowed, help) = (option.name, allowed(option), escaped(&option.description()));
            let default = match option.default {
                OptionDefault::Value(_) => format!("`{}`", default(option)),
                _ => escaped(&default(option)),
            };
            let _ = writeln!(text, "| `{name}` | {} | {default} | {flag} | {help} |", escaped(&allowed));
        }
        text.push('\n');
    }
    text
}

/// Returns the allowed values of an option.
fn allowed(option: &Opt) -> String {
    let one = option.kind.allowed();
    let one = match option.kind {
        ValueKind::Path(_)
        | ValueKind::ArchivePath(_)
        | ValueKind::MountedDirectory(_)
        | ValueKind::Listen(_)
        | ValueKind::AddressOrOff(_)
        | ValueKind::Target(_)
        | ValueKind::Text(..) => {
            format!("{one}, such as \"{}\"", option.example())
        }
        _ => one,
    };
    if option.is_list { format!("a list of {one}") } else { one }
}

fn default(option: &Opt) -> String {
    match (option.default, &option.kind) {
        (OptionDefault::Value(value), _) => value.to_owned(),
        (OptionDefault::Described(text), _) => text.to_owned(),
        (OptionDefault::None, ValueKind::Flag(_)) => "false".to_owned(),
        (OptionDefault::None, _) => "none".to_owned(),
    }
}

fn flag(option: &Opt) -> Option<String> {
    option.is_accepted_by(CommandKind::Serve).then(|| option.flag_usage())
}

/// Escapes text for a table cell.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('*', "\\*").replace("_", "\\_")
}

const EXAMPLE: &str = r#"[[listener]]
address = "80"

[log]
access-log = "/var/log/tarpon/access.log"

[[site]]
path = "/srv/example.org/current"
hosts = ["example.org"]
redirect-hosts = ["www.example.org"]
clean-urls = true

[[site]]
path = "/srv/example.net.tar"
hosts = ["example.net"]
default = true
"#;

const SYNTAX: [&str; 5] = [
    "A TOML file for tarpon serve --config. Everything in it is optional; flags win over it.",
    "Times are strings such as \"20s\", \"1m30s\" or \"500ms\", or numbers of seconds; sizes are strings such as \"64KiB\", or \
     numbers of bytes. Relative paths start at the directory of the file.",
    "A section such as [[site.header]] belongs to the [[site]] above it. include = [\"sites/*.toml\"] above all sections adds the \
     sections of other files. They, and their directories, belong to root or to the user of tarpon, and other users may not write \
     to them.",
    "In a string, ${NAME} stands for a variable of the environment, ${NAME:-default} for one that may be missing, and $${ for the \
     characters ${. Output shows *** in place of such values.",
    "tarpon config check reports all errors of a file; tarpon config show prints the value of every option and its origin.",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{self, CliFlags, ConfigFile};

    #[test]
    fn example_of_the_page_is_valid() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), EXAMPLE).expect("a file");
        let file = ConfigFile::open(file.path()).expect("a file");
        let resolved = config::read(Some(&file), &CliFlags::default(), CommandKind::Serve);
        assert_eq!(
            resolved.map(|resolved| resolved.config.sites.len()).map_err(|error| error.count()),
            Ok(2)
        );
    }
}
