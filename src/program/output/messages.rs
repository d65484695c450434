//! The text messages of the program: notices to standard output, warnings and errors to standard error.
//!
//! Colours appear on terminals only; in a pipe or with `NO_COLOR` the text is the same without them.

use crate::program::output::{
    self, OutputForm, loading,
    notice_text::{self, NoticeText},
};
use crate::{
    Activation, ArchiveSizes, CODINGS, Changes, DELTA_CODINGS, Notice, PackReport, PruneReport, Release,
    Reuse, Savings, ServingReport, UserError, Verification,
    config::{Config, ResolvedConfig},
};
use anstyle::{AnsiColor, Style};
use std::{cmp::Ordering, fmt, path::Path, time::Duration};
use tarpon_site::Printable;

/// Like the macro of `std`, but ignores errors: the server continues even if the disk of its log is full.
macro_rules! println {
    ($($text:tt)*) => { drop(output::stdout(OutputForm::Text).print_line(format_args!($($text)*))) };
}

/// The same to standard error.
macro_rules! eprintln {
    ($($text:tt)*) => { drop(output::stderr(OutputForm::Text).print_line(format_args!($($text)*))) };
}

/// A warning, to standard error.
macro_rules! warn {
    ($($text:tt)*) => { eprintln!("{WARNING}warning{WARNING:#}: {}", format_args!($($text)*)) };
}

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const ERROR: Style = AnsiColor::Red.on_default().bold();

/// Prints a notice of the server.
pub(crate) fn notice(notice: Notice<'_>) {
    match notice {
        Notice::Serving(served) => {
            serving(served);
            let workers = Count(served.settings.workers().get() as u64, "worker");
            println!("{DIM}{}, {workers}; press Ctrl-C to stop{DIM:#}", served.settings.engine.name());
        }
        Notice::Reloaded(served) => {
            println!("{DIM}reloaded{DIM:#}");
            serving(served);
        }
        Notice::SiteLoading(_, done, total) if !loading::update(done, total, false) => {}
        notice => {
            if !matches!(notice, Notice::SiteLoading(..)) {
                loading::end();
            }
            if let Some(text) = notice_text::of(&notice) {
                show(&text);
            }
            if let Notice::SiteLoaded(of, site) | Notice::SiteReloaded(of, site) = notice {
                site.warnings().for_each(|warning| show(&notice_text::site_warning(of, &warning)));
            }
        }
    }
}

/// Prints news to standard output, a warning to standard error.
fn show(text: &NoticeText) {
    match text.is_warning {
        true => warn!("{}", text.shown()),
        false => println!("{}", text.shown()),
    }
}

/// Formats a message that the library sent through `tracing`.
pub(crate) fn event(level: tracing::Level, text: &str) -> String {
    match level {
        tracing::Level::ERROR => format!("{ERROR}error{ERROR:#}: {text}"),
        tracing::Level::WARN => format!("{WARNING}warning{WARNING:#}: {text}"),
        _ => text.to_owned(),
    }
}

/// Formats an event of `--debug` in one line without colours: of heads, the first lines.
pub(crate) fn exchange_line<'f>(field: impl Fn(&str) -> &'f str) -> String {
    if field("message") == "request_end" {
        return notice_text::one_line(&exchange(field));
    }
    let first = |name| field(name).lines().next().unwrap_or_default();
    let (connection, client) = (field("connection"), field("client"));
    format!("{connection} {client}: {} -> {}", first("request"), first("response"))
}

/// Formats an event of `--debug` from its fields. There are two for each exchange: one has both heads, when the response is queued;
/// one has the result, when the response has ended.
pub(crate) fn exchange<'f>(field: impl Fn(&str) -> &'f str) -> String {
    let connection = field("connection");
    if field("message") == "request_end" {
        let (line, status, bytes, ms) =
            (field("line"), field("status"), field("bytes"), field("duration_ms"));
        let aborted = if field("complete") == "true" { "" } else { ", aborted" };
        return format!(
            "{DIM}{connection}{DIM:#} {status}, {bytes} bytes of content in {ms} ms{aborted} {DIM}{line}{DIM:#}"
        );
    }
    let (time, client, site) = (field("time"), field("client"), field("site"));
    let site = if site.is_empty() { String::new() } else { format!(", site {site}") };
    let mut text = format!("{DIM}{connection} {time} {client}{site}{DIM:#}");
    for (sign, head) in [('>', field("request")), ('<', field("response"))] {
        for (number, line) in head.lines().enumerate() {
            let style = if number == 0 { BOLD } else { Style::new() };
            text += &format!("\n  {DIM}{sign}{DIM:#} {style}{line}{style:#}");
        }
    }
    text
}

/// Names a configuration file in the current directory.
pub(crate) fn configuration(name: &str) {
    println!("{}", notice_text::configuration(name));
}

fn serving(served: &ServingReport<'_>) {
    let ServingReport { addresses, fingerprint, fallback_reason, confinement, admin_error, .. } = served;
    if let Some(reason) = fallback_reason {
        show(&notice_text::fallback(reason));
    }
    println!("{}", notice_text::served_sites(served));
    notice_text::site_lines(served).iter().for_each(|line| println!("  {line}"));
    addresses.iter().for_each(|address| println!("  {}", notice_text::url(served, address)));
    if let Some(fingerprint) = fingerprint {
        show(&notice_text::fingerprint(fingerprint));
    }
    let confinement = if confinement.is_empty() { "off".to_owned() } else { confinement.join(", ") };
    println!("{DIM}sandbox: {confinement}{DIM:#}");
    if let Some(error) = admin_error {
        show(&notice_text::no_admin(error));
    }
}

/// Prints the result of packing a site.
pub(crate) fn packed(site: &Path, target: &Path, report: &PackReport, took: Duration) {
    for skipped in &report.skipped {
        warn!("{skipped}");
    }
    match &report.reuse {
        Reuse::None | Reuse::Reused => {}
        Reuse::OtherEncoders => {
            warn!("the earlier archive has another --effort or version; compressing everything again");
        }
        Reuse::Unusable(why) => {
            let target = target.printable();
            warn!("{target}: {why}; compressing everything again and replacing it");
        }
    }
    if report.are_dictionaries_unoffered {
        warn!(
            "browsers do not keep the files of the earlier archive as dictionaries: it was packed without \
             --offer-dictionaries, or caches must revalidate these files before each use"
        );
    }
    let (site, target) = (site.printable(), target.printable());
    let (files, bytes, len) = (Count(report.files, "file"), Bytes(report.bytes), Bytes(report.len));
    println!(
        "{BOLD}{target}{BOLD:#}: {len}, from {files}, {bytes}, in {site}; took {:.1} s",
        took.as_secs_f64()
    );
    let deltas = DELTA_CODINGS.iter().zip(&report.deltas);
    let saved = CODINGS.iter().zip(&report.saved).chain(deltas);
    for (coding, saved) in saved.filter(|(_, saved)| saved.files > 0) {
        let Savings { files, reused: taken, plain, coded } = *saved;
        let (count, percent) = (Count(files, "file"), 100.0 * (1.0 - coded as f64 / plain as f64));
        let taken = if taken > 0 { format!(", {taken} reused") } else { String::new() };
        let name = coding.name();
        println!("  {name:<4} {count}{taken}: {} to {}, {percent:.0}% less", Bytes(plain), Bytes(coded));
    }
    makeup(&report.sizes);
    if let Some(changes) = &report.changes {
        changed(changes, report.len);
    }
}

/// Prints the parts of a packed site, which explain why it is larger than its files.
fn makeup(makeup: &ArchiveSizes) {
    let ArchiveSizes { files, coded, inline: small, program, overhead: rest } = *makeup;
    println!("  content:");
    let rows = [
        (program, "the program"),
        (files, "files, as tar extracts them"),
        (coded, "compressed forms of files"),
        (small, "copies of files up to 16 KiB, beside their response headers"),
        (rest, "response headers, index, tar headers, and padding"),
    ];
    for (len, what) in rows.into_iter().filter(|&(len, _)| len > 0) {
        println!("  {:>11}  {what}", Bytes(len).to_string());
    }
}

/// Prints the changes since the previous archive.
fn changed(changes: &Changes, len: u64) {
    let Changes { len_before, added, removed, changed, ref grown, .. } = *changes;
    let size = match len.cmp(&len_before) {
        Ordering::Equal => "same size".to_owned(),
        Ordering::Greater => format!("{} larger", Bytes(len - len_before)),
        Ordering::Less => format!("{} smaller", Bytes(len_before - len)),
    };
    if changes.is_none() {
        println!("  no file changed since the previous archive; {size}");
        return;
    }
    println!("  since the previous archive, {size}:");
    let rows = [
        (added, Difference(0, changes.added_len), "added"),
        (removed, Difference(changes.removed_len, 0), "removed"),
        (changed, Difference(changes.changed_len_before, changes.changed_len), "changed"),
    ];
    for (count, difference, what) in rows.into_iter().filter(|(count, ..)| *count > 0) {
        println!("  {:>11}  {} {what}", difference.to_string(), Count(count, "file"));
    }
    if !grown.is_empty() {
        println!("  largest growth:");
    }
    for (path, by) in grown {
        let difference = Difference(0, *by).to_string();
        println!("  {difference:>11}  {}", String::from_utf8_lossy(path).escape_debug());
    }
}

/// The change of a number of bytes, with its sign.
struct Difference(u64, u64);

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference(before, now) = *self;
        let sign = if now < before { "-" } else { "+" };
        write!(f, "{sign}{}", Bytes(now.abs_diff(before)))
    }
}

/// Prints the result of checking a packed site.
pub(crate) fn verified(archive: &Path, verified: &Verification) {
    let archive = archive.printable();
    for found in &verified.defects {
        eprintln!("{WARNING}damaged{WARNING:#}: {archive}: {found}");
    }
    if verified.defects.is_empty() {
        let (paths, contents) = (Count(verified.paths, "path"), Count(verified.contents, "content"));
        println!("{BOLD}{archive}{BOLD:#} is valid: {paths}, {contents}, {}", Bytes(verified.len));
        if verified.undecoded > 0 {
            let count = Count(verified.undecoded, "content");
            println!("  not decoded: {count}; name the earlier archive with --dictionary");
        }
    }
}

/// Prints the change of the current release.
pub(crate) fn activated(Activation { to, from }: &Activation) {
    let (to, from) = (to.printable(), from.as_ref().map(|from| from.printable()));
    match from {
        Some(from) if from == to => println!("{BOLD}{to}{BOLD:#} is already current"),
        Some(from) => println!("{BOLD}{to}{BOLD:#} is current; {from} was before"),
        None => println!("{BOLD}{to}{BOLD:#} is current"),
    }
}

/// Prints that no release is active yet, and what to do.
pub(crate) fn none_active(hint: &str) {
    eprintln!("no release is active yet; {hint}");
}

/// Prints which releases were removed, or would be.
pub(crate) fn pruned(report: &PruneReport, is_dry_run: bool) {
    let PruneReport { removed, freed_len, kept_count, damaged } = report;
    for Release { name, files, .. } in damaged {
        if let Err(error) = files {
            warn!("kept {}, which is no valid release: {error}", name.printable());
        }
    }
    let verb = if is_dry_run { "would remove" } else { "removed" };
    for Release { name, len, .. } in removed {
        println!("{verb} {}  {DIM}{}{DIM:#}", name.printable(), Bytes(*len));
    }
    let (count, kept) = (removed.len() as u64, Count(*kept_count as u64, "release"));
    match (count, is_dry_run) {
        (0, _) => println!("nothing to remove; {kept} stay{}", if *kept_count == 1 { "s" } else { "" }),
        (_, true) => println!(
            "{BOLD}would remove {}{BOLD:#}, which frees {}; keeps {kept}",
            Count(count, "release"),
            Bytes(*freed_len)
        ),
        (_, false) => println!(
            "{BOLD}removed {}{BOLD:#}, which frees {}; kept {kept}",
            Count(count, "release"),
            Bytes(*freed_len)
        ),
    }
}

/// Prints that another process holds the lock of the releases.
pub(crate) fn waiting(holder: Option<u32>) {
    let holder = holder.map_or("another process".to_owned(), |pid| format!("process {pid}"));
    eprintln!("waiting for {holder}, which is changing the releases");
}

pub(crate) fn error(error: &dyn std::error::Error) {
    eprintln!("{ERROR}tarpon{ERROR:#}: {error}");
}

/// Prints the warnings of a check.
pub(crate) fn config_warnings(warnings: &[UserError]) {
    for warning in warnings {
        warn!("{warning}");
    }
}

/// Prints that a configuration is valid.
pub(crate) fn config_ok(resolved: &ResolvedConfig) {
    let path = resolved.file.as_ref().map_or("".into(), |file| file.path.printable().to_string());
    let Config { sites, listeners, .. } = &resolved.config;
    let (sites, listeners) = (Count(sites.len() as u64, "site"), listeners.len().max(1));
    let listeners = Count(listeners as u64, "listener");
    println!("{BOLD}{path}{BOLD:#} is valid: {sites}, {listeners}");
}

/// A count with its noun.
pub(crate) struct Count(pub(crate) u64, pub(crate) &'static str);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Count(count, noun) = self;
        write!(f, "{count} {noun}{}", if *count == 1 { "" } else { "s" })
    }
}

/// A number of bytes, in the largest unit that leaves at least one.
pub(crate) struct Bytes(pub(crate) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
        if self.0 < 1024 {
            return write!(f, "{}", Count(self.0, "byte"));
        }
        let mut value = self.0 as f64 / 1024.0;
        let mut unit = 0;
        while value >= 1024.0 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        write!(f, "{value:.1} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_readable_units() {
        #[rustfmt::skip]
        let cases = [
            (0, "0 bytes"), (1, "1 byte"), (1_023, "1023 bytes"), (1_024, "1.0 KiB"), (1_536, "1.5 KiB"),
            (5 << 20, "5.0 MiB"), (3 << 30, "3.0 GiB"), (7 << 50, "7168.0 TiB"),
        ];
        for (bytes, want) in cases {
            assert_eq!(Bytes(bytes).to_string(), want);
        }
    }
}
