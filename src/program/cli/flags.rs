//! Command-line flags for the options of the configuration, generated from their tables.

use crate::config::{CliFlags, CommandKind, FlagForm, Opt, OptionDefault, SECTIONS, ValueKind};
use clap::{
    Arg, ArgAction, ArgMatches, ValueHint,
    builder::{PossibleValuesParser, ValueParser},
    parser::ValueSource,
    value_parser,
};
use std::{ffi::OsStr, path::PathBuf};

/// Returns the flags that a command accepts.
pub(super) fn args(command: CommandKind) -> impl Iterator<Item = Arg> {
    options(command).flat_map(|option| match option.kind {
        ValueKind::Flag(_) => switch(option).to_vec(),
        ValueKind::Listen(_) => vec![arg(option), port_arg(option)],
        _ => vec![arg(option)],
    })
}

/// Returns the flag for the most usual value of `--listen`.
fn port_arg(listen: &'static Opt) -> Arg {
    let arg = Arg::new(PORT).long(PORT).short('p').value_name("PORT").value_parser(value_parser!(u16));
    let arg = arg.help("Listen on this port of the loopback addresses: short for --listen localhost:PORT");
    under_heading(listen, arg)
}

const PORT: &str = "port";

/// Returns the values of the flags that were given.
pub(super) fn values(matches: &ArgMatches, command: CommandKind) -> CliFlags {
    let mut flags = CliFlags::default();
    for option in options(command) {
        let name = option.flag_name();
        let is_given = |name: &str| matches.value_source(name) == Some(ValueSource::CommandLine);
        if let ValueKind::Flag(_) = option.kind {
            let switches = [(name.to_owned(), "true"), (format!("no-{name}"), "false")];
            if let Some((_, value)) = switches.into_iter().find(|(name, _)| is_given(name)) {
                flags.0.insert(name, vec![value.into()]);
            }
        } else if is_given(name) {
            let values = matches.get_raw(name).into_iter().flatten();
            flags.0.insert(name, values.map(OsStr::to_owned).collect());
        }
        if let ValueKind::Listen(_) = option.kind
            && let Some(port) = matches.get_one::<u16>(PORT)
        {
            flags.0.entry(name).or_default().push(format!("localhost:{port}").into());
        }
    }
    flags
}

fn options(command: CommandKind) -> impl Iterator<Item = &'static Opt> {
    let options = SECTIONS.into_iter().flat_map(|section| section.options);
    options.filter(move |option| option.is_accepted_by(command))
}

fn arg(option: &'static Opt) -> Arg {
    let name = option.flag_name();
    let arg = match option.flag {
        FlagForm::Long => Arg::new(name).long(name),
        FlagForm::Short(short) | FlagForm::Named(_, short) => Arg::new(name).long(name).short(short),
        FlagForm::Positional => Arg::new(name),
    };
    let is_repeated = option.is_list || matches!(option.flag, FlagForm::Named(..));
    let repeated = if is_repeated { "May be given more than once." } else { "" };
    let default = match option.default {
        OptionDefault::Described(text) => format!(" [default: {text}]"),
        _ => String::new(),
    };
    let details: Vec<_> = [option.details, repeated].into_iter().filter(|text| !text.is_empty()).collect();
    let arg = arg.help(format!("{}{default}", option.help));
    let arg = match &details[..] {
        [] => arg,
        details => arg.long_help(format!("{}\n\n{}{default}", option.help, details.join(" "))),
    };
    let arg = under_heading(option, arg);
    let action = if is_repeated { ArgAction::Append } else { ArgAction::Set };
    let arg = arg.value_name(option.value_name).value_parser(parser(option)).action(action);
    let arg = match option.kind {
        ValueKind::Path(_) => arg.value_hint(ValueHint::AnyPath),
        _ => arg,
    };
    match option.default {
        OptionDefault::Value(value) => arg.default_value(value),
        _ => arg,
    }
}

/// Returns `--NAME` and `--no-NAME`. The one that repeats the default is hidden: only a file makes it useful, and the end of the
/// help explains it.
fn switch(option: &'static Opt) -> [Arg; 2] {
    let (name, off_name) = (option.flag_name(), format!("no-{}", option.flag_name()));
    let is_default = option.is_on_by_default();
    let on = Arg::new(name).long(name).help(option.help).hide(is_default);
    let on = match option.details {
        "" => on,
        details => on.long_help(format!("{}\n\n{details}", option.help)),
    };
    let (first, rest) = option.help.split_at(1);
    let off = Arg::new(off_name.clone()).long(off_name).overrides_with(name).hide(!is_default);
    let off = off.help(format!("Do not {}{rest}", first.to_lowercase()));
    [on, off].map(|arg| under_heading(option, arg.action(ArgAction::SetTrue)))
}

fn under_heading(option: &'static Opt, arg: Arg) -> Arg {
    if option.heading.is_empty() { arg } else { arg.help_heading(option.heading) }
}

/// Returns a parser that rejects the values that the option rejects.
fn parser(option: &'static Opt) -> ValueParser {
    match &option.kind {
        ValueKind::Choice(choices) => PossibleValuesParser::new(choices.iter().map(|(name, _)| *name)).into(),
        ValueKind::Path(_) | ValueKind::ArchivePath(_) => value_parser!(PathBuf),
        _ => ValueParser::new(move |value: &str| option.check(value.as_ref()).map(|()| value.to_owned())),
    }
}
