//! The flags of the options that a configuration has, made from their table.

use crate::config::{CliFlags, CommandKind, FlagForm, Opt, OptionDefault, SECTIONS, ValueKind};
use clap::{
    Arg, ArgAction, ArgMatches, ValueHint,
    builder::{PossibleValuesParser, ValueParser},
    parser::ValueSource,
    value_parser,
};
use std::{ffi::OsStr, path::PathBuf};

/// One for each option that can be said to a program.
pub(super) fn args(program: CommandKind) -> impl Iterator<Item = Arg> {
    options(program).flat_map(|option| match option.kind {
        ValueKind::Flag(_) => switch(option).to_vec(),
        _ => vec![arg(option)],
    })
}

/// What was said.
pub(super) fn said(matches: &ArgMatches, program: CommandKind) -> CliFlags {
    let mut flags = CliFlags::default();
    for option in options(program) {
        let name = option.flag_name();
        let is_said = |name: &str| matches.value_source(name) == Some(ValueSource::CommandLine);
        if let ValueKind::Flag(_) = option.kind {
            let on = [(name.to_owned(), "true"), (format!("no-{name}"), "false")];
            if let Some((_, value)) = on.into_iter().find(|(name, _)| is_said(name)) {
                flags.0.insert(name, vec![value.into()]);
            }
        } else if is_said(name) {
            let values = matches.get_raw(name).into_iter().flatten();
            flags.0.insert(name, values.map(OsStr::to_owned).collect());
        }
    }
    flags
}

fn options(program: CommandKind) -> impl Iterator<Item = &'static Opt> {
    let options = SECTIONS.into_iter().flat_map(|section| section.options);
    options.filter(move |option| option.is_on(program))
}

fn arg(option: &'static Opt) -> Arg {
    let name = option.flag_name();
    let arg = match option.flag {
        FlagForm::Long => Arg::new(name).long(name),
        FlagForm::Short(short) | FlagForm::Named(_, short) => Arg::new(name).long(name).short(short),
        FlagForm::Place => Arg::new(name),
    };
    let mut help = option.help.to_owned();
    let is_repeated = option.many || matches!(option.flag, FlagForm::Named(..));
    if is_repeated {
        help += ". May be given more than once";
    }
    if let OptionDefault::Words(words) = option.default {
        help += &format!(" [default: {words}]");
    }
    let arg = arg.help(help);
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

/// One that switches on, and one that switches off. The one that says what holds anyway is hidden: it is for what a
/// file says otherwise, and a sentence tells of all these.
fn switch(option: &'static Opt) -> [Arg; 2] {
    let (name, off) = (option.flag_name(), format!("no-{}", option.flag_name()));
    let is_on = option.is_on_unsaid();
    let (first, rest) = option.help.split_at(1);
    let on = Arg::new(name).long(name).help(option.help).hide(is_on);
    let off = Arg::new(off.clone()).long(off).overrides_with(name).hide(!is_on);
    let off = off.help(format!("Do not {}{rest}", first.to_lowercase()));
    [on, off].map(|arg| under_heading(option, arg.action(ArgAction::SetTrue)))
}

fn under_heading(option: &'static Opt, arg: Arg) -> Arg {
    if option.heading.is_empty() { arg } else { arg.help_heading(option.heading) }
}

/// Refuses what the option refuses.
fn parser(option: &'static Opt) -> ValueParser {
    match &option.kind {
        ValueKind::Word(words) => PossibleValuesParser::new(words.iter().map(|(word, _)| *word)).into(),
        ValueKind::Path(_) | ValueKind::Inner(_) => value_parser!(PathBuf),
        _ => ValueParser::new(move |value: &str| option.check(value.as_ref()).map(|()| value.to_owned())),
    }
}
