//! The events of a server, as text for people or as JSON for programs.
//!
//! `messages.rs` has the text. JSON is one line per event on standard error, with `timestamp`, `level`, `message` and further fields.
//! Events that the library sends through `tracing` take the same form.

use crate::program::output::{self, OutputForm, messages};
use crate::{Address, Notice, ServingReport, Site, SiteLabel, config::EventFormat};
use anstream::adapter::strip_str;
use std::{collections::BTreeMap, fmt, io, path::Path, sync::OnceLock};
use tarpon_site::Printable;
use tracing::{Event, Level, Subscriber, field, info, warn};
use tracing_subscriber::{
    fmt::{FmtContext, FormatEvent, FormatFields, format::Writer, time::FormatTime},
    registry::LookupSpan,
};

/// Whether events are JSON.
static IS_JSON: OnceLock<bool> = OnceLock::new();

/// Selects the format of events. Only the first call has an effect.
pub(crate) fn init(format: EventFormat) {
    use std::io::IsTerminal;
    let is_json = match format {
        EventFormat::Human => false,
        EventFormat::Json => true,
        EventFormat::Auto => !io::stderr().is_terminal(),
    };
    if IS_JSON.set(is_json).is_err() {
        return;
    }
    let form = if is_json { OutputForm::Json } else { OutputForm::Text };
    // The library sends events of level DEBUG only with --debug.
    let builder =
        tracing_subscriber::fmt().with_writer(move || output::stderr(form)).with_max_level(Level::DEBUG);
    // If standard error is closed, reporting that on standard error would panic.
    let builder = builder.log_internal_errors(false);
    if is_json {
        builder
            .json()
            .flatten_event(true)
            .with_target(false)
            .with_current_span(false)
            .with_timer(EventClock)
            .init();
    } else {
        builder.event_format(HumanFormat).init();
    }
}

/// Names a configuration file that no argument names.
pub(crate) fn configuration(name: &str) {
    match IS_JSON.get() {
        Some(true) => info!(file = format!("./{name}"), "configuration"),
        _ => messages::configuration(name),
    }
}

/// Prints a notice of the server.
pub(crate) fn notice(notice: Notice<'_>) {
    if !IS_JSON.get().is_some_and(|&is_json| is_json) {
        return messages::notice(notice);
    }
    match notice {
        Notice::SiteLoaded(of, site) => {
            info!(
                site = of.map(name),
                files = site.file_count(),
                bytes = site.content_len(),
                immutable = site.immutable_count(),
                release = release(site),
                digest = site.digest(),
                "site_loaded"
            );
            warnings(of, site);
        }
        Notice::SiteReloaded(of, site) => {
            info!(
                site = of.map(name),
                files = site.file_count(),
                bytes = site.content_len(),
                release = release(site),
                digest = site.digest(),
                "site_reloaded"
            );
            warnings(of, site);
        }
        Notice::SiteReloadFailed(error) => warn!("{error}; still serving the previous version"),
        Notice::SiteRejected { why, retry_delay: None } => warn!("{why}; still serving the previous version"),
        Notice::SiteRejected { why, retry_delay: Some(delay) } => {
            warn!("{why}; still serving the previous version, trying again in {delay:?}");
        }
        Notice::ReleaseNotKept(error) => warn!("{error}; this earlier release is not kept"),
        Notice::PollingForChanges(of, reason) => {
            warn!(site = of.map(name), reason, "the kernel reports no changes; checking every 2 s")
        }
        Notice::LogReopenFailed(error) => warn!("{error}"),
        Notice::ReloadFailed(why) => {
            warn!("not reloaded: {}; still serving the previous configuration", strip_str(why))
        }
        Notice::Upgraded(process) => info!(process, "upgraded"),
        Notice::UpgradeFailed(why) => {
            warn!("not upgraded: {}; the old process still serves", strip_str(why))
        }
        Notice::DrainFailed(why) => warn!("{why}"),
        Notice::Serving(served) => serving("serving", served),
        Notice::Reloaded(served) => serving("reloaded", served),
        Notice::Stopping(grace) => info!(grace_s = grace.as_secs_f64(), "stopping"),
        Notice::ConnectionLost(how) => {
            warn!(role = "worker", "a worker process {how}; its connection is lost")
        }
        Notice::ProcessEnded { role, how, restart_delay } => {
            let (role, restart_delay_s) = (role.to_string(), restart_delay.as_secs_f64());
            warn!(role, restart_delay_s, "the {role} process {how}; starting another");
        }
        Notice::StartFailed { role, error, retry_delay } => {
            let (role, retry_delay_s) = (role.to_string(), retry_delay.as_secs_f64());
            warn!(role, retry_delay_s, "cannot start a {role} process: {error}");
        }
        Notice::CertificateObtained { names, days } => info!(names, days, "certificate_obtained"),
        Notice::CertificateFailed { names, why, hint, retry_delay, days_left } => {
            let retry_delay_s = retry_delay.as_secs();
            warn!(names, retry_delay_s, days_left, hint, "no new certificate for {names}: {why}; {hint}");
        }
        Notice::CertificateWarning(why) => warn!("{why}"),
        Notice::UpstreamDown { upstream, server, why } => {
            warn!(upstream, server, why, "the upstream server {server} is down: {why}");
        }
        Notice::UpstreamUp { upstream, server } => info!(upstream, server, "upstream_server_up"),
        Notice::UpstreamUnresolved { upstream, server, why } => {
            warn!(upstream, server, why, "cannot look up the name of the upstream server {server}: {why}");
        }
        Notice::Suppressed(role, count) => {
            let role = role.to_string();
            warn!(role, count, "{count} more messages about the {role} process are not shown");
        }
    }
}

fn serving(message: &str, served: &ServingReport<'_>) {
    let ServingReport { sites, addresses, settings, fallback_reason, confinement, admin_error, .. } = served;
    if let Some(reason) = fallback_reason {
        warn!(reason, "no io_uring; using epoll");
    }
    let addresses: Vec<_> = addresses.iter().map(|address| url(served.scheme(address), address)).collect();
    info!(
        addresses = addresses.join(" "),
        sites = sites.len(),
        files = sites.iter().map(|(_, file_count, _)| file_count).sum::<u64>(),
        bytes = sites.iter().map(|(.., len)| len).sum::<u64>(),
        engine = settings.engine.name(),
        workers = settings.workers(),
        sandbox = confinement.join(", "),
        version = env!("CARGO_PKG_VERSION"),
        "{message}"
    );
    if let Some(fingerprint) = &served.fingerprint {
        info!(fingerprint, "self-signed certificate");
    }
    if let Some(error) = admin_error {
        info!("admin listener disabled: {error}");
    }
}

/// Returns the directory or archive that was read, without links: the release that is live.
fn release(site: &Site) -> Option<String> {
    site.real_path().map(|path| path.printable().to_string())
}

fn warnings(of: SiteLabel<'_>, site: &Site) {
    for warning in site.warnings() {
        warn!(site = of.map(name), "{warning}");
    }
}

/// Returns the path of a site.
fn name(path: &Path) -> String {
    path.printable().to_string()
}

fn url(scheme: &str, address: &Address) -> String {
    match address {
        Address::Tcp(socket) => format!("{scheme}://{socket}/"),
        Address::Unix(_) => address.to_string(),
    }
}

/// The format of events for people.
struct HumanFormat;

impl<S, N> FormatEvent<S, N> for HumanFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut fields = EventFields::default();
        event.record(&mut fields);
        let text = match *event.metadata().level() {
            Level::DEBUG => messages::exchange(|name| fields.get(name)),
            level => messages::event(level, fields.get("message")),
        };
        writeln!(to, "{text}")
    }
}

/// The fields of an event by name.
#[derive(Default)]
struct EventFields(BTreeMap<&'static str, String>);

impl EventFields {
    fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", |value| value)
    }
}

impl field::Visit for EventFields {
    fn record_str(&mut self, field: &field::Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &field::Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

/// The time of an event in milliseconds.
struct EventClock;

impl FormatTime for EventClock {
    fn format_time(&self, to: &mut Writer<'_>) -> fmt::Result {
        write!(to, "{:.3}", jiff::Timestamp::now())
    }
}
