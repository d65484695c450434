//! `tarpon pack`: packs a site into one archive, or into a program with the site embedded.

use super::{CommandResult, flags, read};
use crate::program::output::{messages, progress};
use crate::{CompressionEffort, SitePacking, SiteSource, config::CommandKind};
use clap::{
    ArgMatches, CommandFactory, FromArgMatches, Parser,
    builder::{PossibleValuesParser, TypedValueParser},
};
use std::{path::PathBuf, time::Instant};

/// Pack a site into a tar archive that tarpon serves as it is
///
/// The archive holds compressed forms, response headers and an index besides the files. It is a valid tar archive: it extracts to
/// the site and a directory .tarpon, which is not part of the site. The same site gives the same bytes; SOURCE_DATE_EPOCH is
/// honoured.
#[derive(Debug, Parser)]
#[command(name = "pack")]
struct PackArgs {
    /// Pack this directory or tar archive
    path: PathBuf,

    /// Write the archive to this file
    ///
    /// The file appears when it is complete.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// Select how hard to compress
    ///
    /// The value fast suits experiments; best takes several times as long as balanced and saves a few percent.
    #[arg(long, value_name = "NAME", default_value = "balanced", value_parser = effort())]
    effort: CompressionEffort,

    /// Reuse compressed files of this earlier archive of the site
    ///
    /// A program with the site embedded works too. Files that have not changed are not compressed again. Default: the existing file
    /// at --output.
    #[arg(long, value_name = "FILE")]
    reuse: Option<PathBuf>,

    /// Add deltas against this earlier archive of the site
    ///
    /// A browser that still has an earlier script, style or similar file then gets the new one as a delta. May be given more than
    /// once.
    #[arg(long = "dictionary", value_name = "FILE")]
    dictionaries: Vec<PathBuf>,

    /// Let browsers keep scripts, styles and similar files for later deltas
    ///
    /// --dictionary implies this option.
    #[arg(long)]
    offer_dictionaries: bool,

    /// Write a program that serves the site, instead of an archive
    #[arg(long)]
    executable: bool,
}

pub(super) fn command() -> clap::Command {
    let config = read::config_arg().help("Pack with the options and rules of the site in this configuration file").long_help(
        "Pack with the options and rules of the site in this configuration file\n\nThe file has one [[site]]. Its path and its hosts \
         have no effect here.",
    );
    PackArgs::command().arg(config).args(flags::args(CommandKind::Pack))
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
    let mut sites = read::resolve_for(matches, CommandKind::Pack)?.config.sites;
    if sites.len() > 1 {
        return Err(format!("the configuration has {} sites; name a file with one", sites.len()).into());
    }
    let site = sites.swap_remove(0);
    let source = SiteSource { path, ..site.source };
    let packing = SitePacking { target, effort, reuse, dictionaries, offer_dictionaries: offers, executable };
    let started = Instant::now();
    let report = progress::show_during(|progress| crate::pack(&source, &packing, progress))?;
    messages::packed(&source.path, &packing.target, &report, started.elapsed());
    Ok(())
}

fn effort() -> impl TypedValueParser<Value = CompressionEffort> {
    PossibleValuesParser::new(["fast", "balanced", "best"]).map(|name| match &*name {
        "fast" => CompressionEffort::Fast,
        "balanced" => CompressionEffort::Balanced,
        _ => CompressionEffort::Best,
    })
}
