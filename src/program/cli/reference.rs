//! The reference of the configuration file, made of the table of its options: as a page of the manual, and as Markdown.

use crate::config::{CommandKind, Opt, OptionDefault, SECTIONS, ValueKind};
use clap_mangen::roff::{Roff, bold, italic, roman};
use std::fmt::Write;

/// tarpon.toml(5).
pub(super) fn page() -> String {
    let mut roff = Roff::new();
    roff.control("TH", ["tarpon.toml", "5", "", concat!("tarpon ", env!("CARGO_PKG_VERSION")), "tarpon"]);
    roff.control("SH", ["NAME"]);
    roff.text([roman("tarpon.toml - the configuration file of tarpon")]);
    roff.control("SH", ["DESCRIPTION"]);
    for (number, paragraph) in FORM.iter().enumerate() {
        if number > 0 {
            roff.control("PP", []);
        }
        roff.text([roman(*paragraph)]);
    }
    for section in SECTIONS {
        roff.control("SH", [&*section.head()]);
        roff.text([roman(format!("{}.", section.help))]);
        for option in section.options {
            roff.control("TP", []);
            roff.text([
                bold(option.name),
                roman(" = "),
                italic(written(option)),
                roman(format!(" [{}]", default(option))),
            ]);
            roff.text([roman(format!("{}.", option.help))]);
            if let Some(flag) = flag(option) {
                roff.text([roman("On the command line: "), bold(flag), roman(".")]);
            }
        }
    }
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

/// A part for each section, with a row for each option.
pub(super) fn markdown() -> String {
    let mut text = String::new();
    for section in SECTIONS {
        let _ = write!(text, "### `{}`\n\n{}.\n\n", section.head(), section.help);
        text += "| option | value | default | flag | what |\n|---|---|---|---|---|\n";
        for option in section.options {
            let flag = flag(option).map(|flag| format!("`{flag}`")).unwrap_or_default();
            let (name, written, help) = (option.name, written(option), escaped(option.help));
            let default = match option.default {
                OptionDefault::Value(_) => format!("`{}`", default(option)),
                _ => escaped(&default(option)),
            };
            let _ = writeln!(text, "| `{name}` | {} | {default} | {flag} | {help} |", escaped(&written));
        }
        text.push('\n');
    }
    text
}

/// What may be written behind the name of an option.
fn written(option: &Opt) -> String {
    let one = option.kind.words();
    let one = match option.kind {
        ValueKind::Path(_)
        | ValueKind::Inner(_)
        | ValueKind::Address(_)
        | ValueKind::AddressOrOff(_)
        | ValueKind::Target(_)
        | ValueKind::Text(..) => {
            format!("{one}, such as \"{}\"", option.example())
        }
        _ => one,
    };
    if option.many { format!("a list; each {one}") } else { one }
}

fn default(option: &Opt) -> String {
    match (option.default, &option.kind) {
        (OptionDefault::Value(value), _) => value.to_owned(),
        (OptionDefault::Words(words), _) => words.to_owned(),
        (OptionDefault::Nothing, ValueKind::Flag(_)) => "false".to_owned(),
        (OptionDefault::Nothing, _) => "none".to_owned(),
    }
}

fn flag(option: &Opt) -> Option<String> {
    option.is_on(CommandKind::Serve).then(|| option.flag_words())
}

/// Text in a cell of a table.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('*', "\\*").replace("_", "\\_")
}

const FORM: [&str; 3] = [
    "A TOML file, which tarpon serve --config reads. Everything in it is optional; what a flag says wins.",
    "Times are written as \"20s\", \"1m30s\" or \"500ms\", or as a plain number of seconds; sizes as \"64KiB\", or as a plain \
     number of bytes. Paths begin in the directory of the file.",
    "tarpon config check says all that is wrong with a file; tarpon config show, what holds and who said it.",
];
