//! What notices of the server say to people: the same sentences on a terminal and in events.
//!
//! ```text
//! Notice ─▶ NoticeText ─┬─ shown: with colours, perhaps several lines ─▶ terminal
//!                       └─ line: plain, one line ─▶ `text` of a JSON event
//! ```
//!
//! Does not print.

use crate::program::output::messages::{Bytes, Count};
use crate::{Address, CompressedFiles, HostName, Notice, ServingReport, Site, SiteLabel};
use anstream::adapter::strip_str;
use anstyle::{AnsiColor, Style};
use std::{fmt, time::Duration};
use tarpon_site::Printable;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const LINK: Style = AnsiColor::Cyan.on_default().underline();

/// What a notice says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoticeText {
    /// Whether it is a warning, not news.
    pub(crate) is_warning: bool,
    /// The sentence.
    main: String,
    /// Further lines of the reason, for a terminal.
    details: String,
    /// What follows from it: on a terminal, in a line of its own.
    consequence: Option<String>,
}

impl NoticeText {
    fn news(text: fmt::Arguments<'_>) -> NoticeText {
        let (main, details) = (text.to_string(), String::new());
        NoticeText { is_warning: false, main, details, consequence: None }
    }

    fn warning(text: fmt::Arguments<'_>) -> NoticeText {
        NoticeText { is_warning: true, ..NoticeText::news(text) }
    }

    /// Returns a warning whose reason may have several lines.
    fn failure(what: &str, why: &str, consequence: &str) -> NoticeText {
        let (first, details) = why.split_at(why.find('\n').unwrap_or(why.len()));
        NoticeText {
            details: details.to_owned(),
            consequence: Some(consequence.to_owned()),
            ..NoticeText::warning(format_args!("{what}: {first}"))
        }
    }

    /// Returns the text for a terminal.
    pub(crate) fn shown(&self) -> String {
        let NoticeText { is_warning, main, details, consequence } = self;
        let consequence = consequence.as_ref().map_or(String::new(), |text| format!("\n{text}"));
        match is_warning {
            true => format!("{main}{details}{consequence}"),
            false => format!("{DIM}{main}{details}{consequence}{DIM:#}"),
        }
    }

    /// Returns the text in one line, without colours.
    pub(crate) fn line(&self) -> String {
        let consequence = self.consequence.iter().map(String::as_str);
        one_line(&[&*self.main].into_iter().chain(consequence).collect::<Vec<_>>().join("\n"))
    }
}

/// Returns text in one line, without colours.
pub(crate) fn one_line(text: &str) -> String {
    let plain = strip_str(text).to_string();
    plain.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

/// Returns what an event says about a site that was read for the first time.
pub(crate) fn loaded(of: SiteLabel<'_>, site: &Site) -> String {
    let share =
        immutable_share(site).map_or_else(String::new, |share| format!("; cached for a year: {share}"));
    format!("{}read the site: {}{share}", name(of), size(site.file_count(), site.content_len()))
}

/// Returns which share of the files browsers keep for a year. `None`: none or all of them, or it is unknown.
fn immutable_share(site: &Site) -> Option<String> {
    let (count, all) = (site.immutable_count()?, site.file_count());
    (count > 0 && count < all).then(|| format!("{count} of {}", Count(all, "file")))
}

/// Returns what a notice says. `None`: the notice says nothing itself, but the site that it brings may have warnings.
pub(crate) fn of(notice: &Notice<'_>) -> Option<NoticeText> {
    let news = |text: fmt::Arguments<'_>| Some(NoticeText::news(text));
    let warning = |text: fmt::Arguments<'_>| Some(NoticeText::warning(text));
    match *notice {
        Notice::SiteLoadingEnded => None,
        Notice::SiteLoaded(of, site) => {
            let (name, share) = (name(of), immutable_share(site)?);
            news(format_args!("cached for a year: {name}{share}, by a hash in the name or --immutable"))
        }
        Notice::SiteLoading(of, _, 0) => {
            news(format_args!("{}still listing the files of the site", name(of)))
        }
        Notice::SiteLoading(of, done, total) => {
            let files = Count(total, "file");
            news(format_args!("{}still reading the site: {done} of {files}", name(of)))
        }
        Notice::SiteReloaded(of, site) => {
            let name = of.map_or(String::new(), |path| format!(" {}", path.printable()));
            let size = size(site.file_count(), site.content_len());
            news(format_args!("read the site{name} again: {size}"))
        }
        Notice::SiteCompressed(of, site) => {
            let CompressedFiles { files, plain, coded } = site.compressed();
            let (name, files) = (name(of), Count(files, "file"));
            news(format_args!("{name}compressed {files}: {} become {}", Bytes(plain), Bytes(coded)))
        }
        Notice::SiteReloadFailed(error) => {
            warning(format_args!("{error}; still serving the previous version"))
        }
        Notice::SiteRejected { why, retry_delay: None } => {
            warning(format_args!("{why}; still serving the previous version"))
        }
        Notice::SiteRejected { why, retry_delay: Some(delay) } => {
            warning(format_args!("{why}; still serving the previous version, trying again in {delay:?}"))
        }
        Notice::ReleaseNotKept(error) => warning(format_args!("{error}; this earlier release is not kept")),
        Notice::PollingForChanges(of, reason) => {
            let name = name(of);
            warning(format_args!("{name}the kernel reports no changes ({reason}); checking every 2 s"))
        }
        Notice::LogReopenFailed(error) => warning(format_args!("{error}")),
        Notice::Serving(served) => news(format_args!("{}", serving(served))),
        Notice::Reloaded(served) => news(format_args!("reloaded: {}", serving(served))),
        Notice::ReloadFailed(why) => {
            Some(NoticeText::failure("not reloaded", why, "still serving the previous configuration"))
        }
        Notice::Upgraded(process) => news(format_args!("upgraded: process {process} serves now")),
        Notice::UpgradeFailed(why) => {
            Some(NoticeText::failure("not upgraded", why, "the old process still serves"))
        }
        Notice::DrainFailed(why) => warning(format_args!("{why}")),
        Notice::Stopping(Duration::ZERO) => news(format_args!("stopping now")),
        Notice::Stopping(grace) => {
            news(format_args!("stopping within {grace:?}; a second signal stops it at once"))
        }
        Notice::ConnectionLost(how) => {
            warning(format_args!("a worker process {how}; its connection is lost"))
        }
        Notice::ProcessEnded { role, how, restart_delay: Duration::ZERO } => {
            warning(format_args!("the {role} process {how}; starting another"))
        }
        Notice::ProcessEnded { role, how, restart_delay } => {
            warning(format_args!("the {role} process {how}; starting another in {restart_delay:?}"))
        }
        Notice::StartFailed { role, error, retry_delay } => {
            warning(format_args!("cannot start a {role} process: {error}; next attempt in {retry_delay:?}"))
        }
        Notice::CertificateObtained { names, days } => {
            news(format_args!("certificate for {names}: valid for {}", Count(days, "day")))
        }
        Notice::CertificateFailed { names, why, hint, retry_delay, days_left } => {
            let present = match days_left {
                None => "there is none yet".to_owned(),
                Some(days) if days < 0 => {
                    format!("the present one has EXPIRED {} ago", Count(days.unsigned_abs(), "day"))
                }
                Some(days) => format!("the present one is valid for {}", Count(days.unsigned_abs(), "day")),
            };
            let text = NoticeText::warning(format_args!("no new certificate for {names}: {why}; {hint}"));
            let consequence = format!("{present}; next attempt in {}", minutes(retry_delay));
            Some(NoticeText { consequence: Some(consequence), ..text })
        }
        Notice::CertificateWarning(why) => warning(format_args!("{why}")),
        Notice::UpstreamDown { upstream, server, why } => {
            let (upstream, server) = (upstream.printable(), server.printable());
            warning(format_args!("upstream {upstream}: {server} is down: {why}"))
        }
        Notice::UpstreamUp { upstream, server } => {
            let (upstream, server) = (upstream.printable(), server.printable());
            news(format_args!("upstream {upstream}: {server} is up again"))
        }
        Notice::UpstreamUnresolved { upstream, server, why } => {
            let (upstream, server) = (upstream.printable(), server.printable());
            warning(format_args!(
                "upstream {upstream}: cannot look up the name of {server}: {why}; trying again"
            ))
        }
        Notice::Suppressed(role, count) => {
            warning(format_args!("{count} more messages about the {role} process are not shown"))
        }
    }
}

/// Returns what the server serves, and where.
fn serving(served: &ServingReport<'_>) -> String {
    let addresses: Vec<_> = served.addresses.iter().map(|address| url(served, address)).collect();
    format!("{}, at {}", served_sites(served), addresses.join(" "))
}

/// Returns what the server serves: the only site, or the number of sites.
pub(crate) fn served_sites(served: &ServingReport<'_>) -> String {
    match &served.sites[..] {
        [(site, file_count, len)] => {
            let (path, size) = (site.source.path.printable(), size(*file_count, *len));
            format!("{BOLD}tarpon{BOLD:#} {VERSION} serves {BOLD}{path}{BOLD:#}: {size}")
        }
        sites => {
            let count = Count(sites.len() as u64, "site");
            format!("{BOLD}tarpon{BOLD:#} {VERSION} serves {BOLD}{count}{BOLD:#}")
        }
    }
}

/// Returns a line for each of several sites, with its hosts.
pub(crate) fn site_lines(served: &ServingReport<'_>) -> Vec<String> {
    let line = |(site, file_count, len): &(&crate::config::SiteConfig, u64, u64)| {
        let (path, size) = (site.source.path.printable(), size(*file_count, *len));
        let names: Vec<_> = site.hosts.iter().map(HostName::to_string).collect();
        let names = if names.is_empty() { "any other host".to_owned() } else { names.join(", ") };
        format!("{BOLD}{names}{BOLD:#}: {path}, {size}")
    };
    served.sites.iter().filter(|_| served.sites.len() > 1).map(line).collect()
}

/// Returns the URL of a listener, or its address if it is a Unix socket.
pub(crate) fn url(served: &ServingReport<'_>, address: &Address) -> String {
    match address {
        Address::Tcp(socket) => format!("{LINK}{}://{socket}/{LINK:#}", served.scheme(address)),
        Address::Unix(_) => format!("{LINK}{address}{LINK:#}"),
    }
}

/// Returns why the engine is not io_uring.
pub(crate) fn fallback(reason: &str) -> NoticeText {
    NoticeText::warning(format_args!("no io_uring ({reason}); using epoll"))
}

/// Returns the fingerprint of the certificate that the server has made for itself.
pub(crate) fn fingerprint(fingerprint: &str) -> NoticeText {
    NoticeText::news(format_args!("self-signed certificate: SHA-256 {fingerprint}"))
}

/// Returns why there is no admin listener.
pub(crate) fn no_admin(error: &dyn fmt::Display) -> NoticeText {
    NoticeText::news(format_args!("admin listener disabled: {error}"))
}

/// Returns a warning about a site.
pub(crate) fn site_warning(of: SiteLabel<'_>, warning: &dyn fmt::Display) -> NoticeText {
    NoticeText::warning(format_args!("{}{warning}", name(of)))
}

/// Names the configuration file in the current directory.
pub(crate) fn configuration(name: &str) -> String {
    format!("configuration: ./{name}")
}

/// Returns the prefix that names one of several sites.
fn name(of: SiteLabel<'_>) -> String {
    of.map(|path| format!("{}: ", path.printable())).unwrap_or_default()
}

fn size(file_count: u64, len: u64) -> String {
    format!("{}, {}", Count(file_count, "file"), Bytes(len))
}

/// Returns a time in whole minutes, as in "1 h 5 min".
fn minutes(time: Duration) -> String {
    match time.as_secs().div_ceil(60) {
        minutes @ ..60 => format!("{minutes} min"),
        minutes => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_and_event_have_the_same_sentence() {
        let errors =
            "cannot use tarpon.toml: one error\n\n\x1b[1merror\x1b[0m: no such option\n  --> tarpon.toml:3:1";
        let failed = |days_left| Notice::CertificateFailed {
            names: "a.example",
            why: "refused",
            hint: "open port 80",
            retry_delay: Duration::from_secs(3_700),
            days_left,
        };
        #[rustfmt::skip]
        let cases = [
            // notice                                   on a terminal, without colours                   in an event
            (Notice::SiteLoading(None, 0, 0),           "still listing the files of the site".to_owned(), "still listing the files of the site"),
            (Notice::SiteLoading(Some("a".as_ref()), 70, 900), "a: still reading the site: 70 of 900 files".to_owned(), "a: still reading the site: 70 of 900 files"),
            (Notice::Stopping(Duration::ZERO),          "stopping now".to_owned(),                       "stopping now"),
            (Notice::Upgraded(7),                       "upgraded: process 7 serves now".to_owned(),     "upgraded: process 7 serves now"),
            (Notice::ReloadFailed(errors),
                format!("not reloaded: {}\nstill serving the previous configuration", strip_str(errors)),
                "not reloaded: cannot use tarpon.toml: one error; still serving the previous configuration"),
            (Notice::UpgradeFailed("it exited"),
                "not upgraded: it exited\nthe old process still serves".to_owned(),
                "not upgraded: it exited; the old process still serves"),
            (failed(None),
                "no new certificate for a.example: refused; open port 80\nthere is none yet; next attempt in 1 h 2 min".to_owned(),
                "no new certificate for a.example: refused; open port 80; there is none yet; next attempt in 1 h 2 min"),
            (failed(Some(-1)),
                "no new certificate for a.example: refused; open port 80\nthe present one has EXPIRED 1 day ago; next attempt in 1 h 2 min".to_owned(),
                "no new certificate for a.example: refused; open port 80; the present one has EXPIRED 1 day ago; next attempt in 1 h 2 min"),
        ];
        for (notice, shown, line) in cases {
            let text = of(&notice).expect("a sentence");
            assert_eq!(strip_str(&text.shown()).to_string(), shown);
            assert_eq!(text.line(), line);
        }
    }
}
