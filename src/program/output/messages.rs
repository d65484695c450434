//! The text messages of the program: notices to standard output, warnings and errors to standard error.
//!
//! Colours appear on terminals only; in a pipe or with `NO_COLOR` the text is the same without them.

use crate::program::output::{self, OutputForm, tables};
use crate::{
    Activation, Address, ArchiveSizes, CODINGS, Changes, DELTA_CODINGS, HostName, Notice, PackReport,
    Release, ReleaseState, Reuse, Savings, ServingReport, Site, SiteLabel, UserError, Verification,
    config::{Config, ResolvedConfig},
};
use anstyle::{AnsiColor, Style};
use std::{
    cmp::Ordering,
    fmt,
    io::{self, Write},
    path::Path,
    time::Duration,
};
use tarpon_http::date;
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
const LINK: Style = AnsiColor::Cyan.on_default().underline();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const ERROR: Style = AnsiColor::Red.on_default().bold();

/// Prints a notice of the server.
pub(crate) fn notice(notice: Notice<'_>) {
    match notice {
        Notice::SiteLoaded(of, site) => warnings(of, site),
        Notice::SiteReloaded(of, site) => {
            let size = size(site.file_count(), site.content_len());
            println!("{DIM}changed{DIM:#}: {}{size}", name(of));
            warnings(of, site);
        }
        Notice::SiteReloadFailed(error) => warn!("{error}; still serving the previous version"),
        Notice::SiteRejected { why, retry_delay: None } => warn!("{why}; still serving the previous version"),
        Notice::SiteRejected { why, retry_delay: Some(delay) } => {
            warn!("{why}; still serving the previous version, trying again in {delay:?}");
        }
        Notice::ReleaseNotKept(error) => warn!("{error}; this earlier release is not kept"),
        Notice::PollingForChanges(of, reason) => {
            let name = name(of);
            warn!("{name}the kernel reports no changes ({reason}); checking every 2 s");
        }
        Notice::LogReopenFailed(error) => warn!("{error}"),
        Notice::Serving(served) => {
            serving(served);
            let workers = Count(served.settings.workers().get() as u64, "worker");
            println!("{DIM}{}, {workers}; press Ctrl-C to stop{DIM:#}", served.settings.engine.name());
        }
        Notice::Reloaded(served) => {
            println!("{DIM}reloaded{DIM:#}");
            serving(served);
        }
        Notice::ReloadFailed(why) => warn!("not reloaded: {why}\nstill serving the previous configuration"),
        Notice::Upgraded(id) => println!("{DIM}upgraded: process {id} serves now{DIM:#}"),
        Notice::UpgradeFailed(why) => warn!("not upgraded: {why}\nthe old process still serves"),
        Notice::DrainFailed(why) => warn!("{why}"),
        Notice::Stopping(Duration::ZERO) => println!("{DIM}stopping now{DIM:#}"),
        Notice::Stopping(grace) => {
            println!("{DIM}stopping within {grace:?}; a second signal stops it at once{DIM:#}");
        }
        Notice::ConnectionLost(how) => warn!("a worker process {how}; its connection is lost"),
        Notice::ProcessEnded { role, how, restart_delay: Duration::ZERO } => {
            warn!("the {role} process {how}; starting another");
        }
        Notice::ProcessEnded { role, how, restart_delay } => {
            warn!("the {role} process {how}; starting another in {restart_delay:?}");
        }
        Notice::StartFailed { role, error, retry_delay } => {
            warn!("cannot start a {role} process: {error}; next attempt in {retry_delay:?}");
        }
        Notice::CertificateObtained { names, days } => {
            println!("{DIM}certificate for {names}: valid for {}{DIM:#}", Count(days, "day"));
        }
        Notice::CertificateFailed { names, why, hint, retry_delay, days_left } => {
            let present = match days_left {
                None => "there is none yet".to_owned(),
                Some(days) if days < 0 => {
                    format!("the present one has EXPIRED {} ago", Count(days.unsigned_abs(), "day"))
                }
                Some(days) => format!("the present one is valid for {}", Count(days.unsigned_abs(), "day")),
            };
            warn!(
                "no new certificate for {names}: {why}; {hint}\n{present}; next attempt in {}",
                minutes(retry_delay)
            );
        }
        Notice::CertificateWarning(why) => warn!("{why}"),
        Notice::UpstreamDown { upstream, server, why } => {
            warn!("upstream {}: {} is down: {why}", upstream.printable(), server.printable());
        }
        Notice::UpstreamUp { upstream, server } => {
            let (upstream, server) = (upstream.printable(), server.printable());
            println!("{DIM}upstream {upstream}: {server} is up again{DIM:#}");
        }
        Notice::UpstreamUnresolved { upstream, server, why } => {
            let (upstream, server) = (upstream.printable(), server.printable());
            warn!("upstream {upstream}: cannot look up the name of {server}: {why}; trying again");
        }
        Notice::Suppressed(role, count) => {
            warn!("{count} more messages about the {role} process are not shown")
        }
    }
}

/// Returns a time in whole minutes, as in "1 h 5 min".
fn minutes(time: Duration) -> String {
    match time.as_secs().div_ceil(60) {
        minutes @ ..60 => format!("{minutes} min"),
        minutes => format!("{} h {} min", minutes / 60, minutes % 60),
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
    println!("configuration: ./{name}");
}

fn serving(served: &ServingReport<'_>) {
    let ServingReport { sites, addresses, fingerprint, fallback_reason, confinement, admin_error, .. } =
        served;
    if let Some(reason) = fallback_reason {
        warn!("no io_uring ({reason}); using epoll");
    }
    match &sites[..] {
        [(site, file_count, len)] => {
            let (path, size) = (site.source.path.printable(), size(*file_count, *len));
            println!("{BOLD}tarpon{BOLD:#} {VERSION} serves {BOLD}{path}{BOLD:#}: {size}");
        }
        sites => {
            let count = Count(sites.len() as u64, "site");
            println!("{BOLD}tarpon{BOLD:#} {VERSION} serves {BOLD}{count}{BOLD:#}");
            for (site, file_count, len) in sites {
                let (path, size) = (site.source.path.printable(), size(*file_count, *len));
                let names: Vec<_> = site.hosts.iter().map(HostName::to_string).collect();
                let names = if names.is_empty() { "any other host".to_owned() } else { names.join(", ") };
                println!("  {BOLD}{names}{BOLD:#}: {path}, {size}");
            }
        }
    }
    for address in addresses {
        match address {
            Address::Tcp(socket) => println!("  {LINK}{}://{socket}/{LINK:#}", served.scheme(address)),
            Address::Unix(_) => println!("  {LINK}{address}{LINK:#}"),
        }
    }
    if let Some(fingerprint) = fingerprint {
        println!("{DIM}self-signed certificate: SHA-256 {fingerprint}{DIM:#}");
    }
    let confinement = if confinement.is_empty() { "off".to_owned() } else { confinement.join(", ") };
    println!("{DIM}sandbox: {confinement}{DIM:#}");
    if let Some(error) = admin_error {
        println!("{DIM}admin listener disabled: {error}{DIM:#}");
    }
}

fn warnings(of: SiteLabel<'_>, site: &Site) {
    let name = name(of);
    for warning in site.warnings() {
        warn!("{name}{warning}");
    }
}

/// Returns the prefix that names one of several sites.
fn name(of: SiteLabel<'_>) -> String {
    of.map(|path| format!("{}: ", path.printable())).unwrap_or_default()
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

/// Prints the releases of a directory and marks the current and the previous one.
pub(crate) fn releases(releases: &[Release], to: &mut impl Write) -> io::Result<()> {
    let row = |release: &Release| {
        let date = date::format(release.modified_s);
        // Without the day of the week. The header of the table has the time zone.
        let date = String::from_utf8_lossy(&date[5..25]).into_owned();
        let (files, error) = match &release.files {
            Ok(files) => (files.to_string(), None),
            Err(error) => (String::new(), Some(error.to_string())),
        };
        let turn = match release.state {
            Some(ReleaseState::Current) => Some("current".to_owned()),
            Some(ReleaseState::Previous) => Some("previous".to_owned()),
            None => None,
        };
        let remarks: Vec<_> = turn.into_iter().chain(error).collect();
        [
            release.name.printable().to_string(),
            date,
            Bytes(release.len).to_string(),
            files,
            remarks.join("; "),
        ]
    };
    let rows: Vec<_> = releases.iter().map(row).collect();
    tables::columns(["release", "modified (UTC)", "size", "files", ""], &rows, 2..=3, to)
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

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn size(file_count: u64, len: u64) -> String {
    format!("{}, {}", Count(file_count, "file"), Bytes(len))
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
