//! Sentences that several captions share.

use crate::format::percent;
use crate::records::round::{MeasuredRound, clean};

/// Returns a phrase on the isolation of a measurement.
pub(super) fn isolation(isolated: bool) -> &'static str {
    match isolated {
        true => "with batch scheduling, in a private network namespace",
        false => "WITHOUT ISOLATION, for a trial run only",
    }
}

/// The same for an experiment with the usual scheduling.
pub(super) fn isolation_with_usual_policy(isolated: bool) -> &'static str {
    match isolated {
        true => "with the usual scheduling, in a private network namespace",
        false => isolation(false),
    }
}

/// Returns a sentence on the rounds of one or more series: how many count, and how many do not. `length` is that of a window.
pub(super) fn rounds<W>(series: &[&[MeasuredRound<W>]], length: &str, other_share_max: f64) -> String {
    let counts: Vec<usize> = series.iter().map(|rounds| clean(rounds).count()).collect();
    let dirty = series.iter().map(|rounds| rounds.len()).sum::<usize>() - counts.iter().sum::<usize>();
    let per_table = if counts.len() > 1 { " per table" } else { "" };
    let (least, most) = (counts.iter().min().unwrap_or(&0), counts.iter().max().unwrap_or(&0));
    let count = if least == most { most.to_string() } else { format!("{least} to {most}") };
    let plural = if *most == 1 { "" } else { "s" };
    format!(
        "Medians of {count} clean round{plural}{per_table}, {length}; {dirty} rejected because other \
         processes used more than {} of the core",
        percent(other_share_max),
    )
}
