//! `tarpon pack`: packs a site into one archive, or into a program that carries it.

use super::{CommandResult, flags};
use crate::program::output::{messages, progress};
use crate::{
    CompressionEffort, SitePacking, SiteSource,
    config::{self, CommandKind},
};
use clap::{
    ArgMatches, CommandFactory, FromArgMatches, Parser,
    builder::{PossibleValuesParser, TypedValueParser},
};
use std::{path::PathBuf, time::Instant};

/// Pack a site into one tar archive that is served as it is
///
/// Everything is worked out beforehand: compressed forms, response headers and the table that finds them. The archive is
/// a tar archive like any other, which extracts to the site and a directory .tarpon that is no part of it. The same site
/// gives the same bytes; SOURCE_DATE_EPOCH is honoured.
#[derive(Debug, Parser)]
#[command(name = "pack")]
struct PackArgs {
    /// The directory to pack, or a tar archive of it
    path: PathBuf,

    /// The archive to write. It appears under its name when it is whole
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// How hard to compress: fast, to try something out; balanced; or best, which takes several times as long to save a few
    /// percent
    #[arg(long, value_name = "NAME", default_value = "balanced", value_parser = effort())]
    effort: CompressionEffort,

    /// An archive of this site packed before, or a program that carries it: what has not changed since is not compressed
    /// again. Without this option, what lies at the output already is taken
    #[arg(long, value_name = "FILE")]
    reuse: Option<PathBuf>,

    /// An archive of this site served before: browsers that still have a script, style or the like of it get the next one as
    /// a difference. May be given several times
    #[arg(long = "dictionary", value_name = "FILE")]
    dictionaries: Vec<PathBuf>,

    /// Let browsers keep scripts, styles and the like for that; --dictionary does so too
    #[arg(long)]
    offer_dictionaries: bool,

    /// Write a program instead, which carries the site and serves it when it is started
    #[arg(long)]
    executable: bool,
}

pub(super) fn command() -> clap::Command {
    PackArgs::command().args(flags::args(CommandKind::Pack))
}

pub(super) fn run(matches: &ArgMatches) -> CommandResult {
    let PackArgs {
        path,
        output: target,
        effort,
        reuse,
        dictionaries,
        offer_dictionaries: offers,
        executable,
    } = PackArgs::from_arg_matches(matches)?;
    let mut settled = config::read(None, &flags::said(matches, CommandKind::Pack), CommandKind::Pack)?;
    let site = settled.config.sites.swap_remove(0);
    let source = SiteSource { path, ..site.source };
    let packing = SitePacking { target, effort, reuse, dictionaries, offer_dictionaries: offers, executable };
    let began = Instant::now();
    let report = progress::during(|progress| crate::pack(&source, &packing, progress))?;
    messages::packed(&source.path, &packing.target, &report, began.elapsed());
    Ok(())
}

fn effort() -> impl TypedValueParser<Value = CompressionEffort> {
    PossibleValuesParser::new(["fast", "balanced", "best"]).map(|name| match &*name {
        "fast" => CompressionEffort::Fast,
        "balanced" => CompressionEffort::Balanced,
        _ => CompressionEffort::Best,
    })
}
