//! The events of a server, as text for people or as JSON for programs.
//!
//! `notice_text.rs` has the sentences. JSON is one line per event on standard error, with `timestamp`, `level`, `message`, `text` and further
//! fields. `message` is for programs and stays the same; `text` is the sentence of a terminal. Events that the library sends through
//! `tracing` take the same form.

use crate::program::output::{self, OutputForm, loading, messages, notice_text};
use crate::{CompressedFiles, Notice, ServingReport, Site, SiteLabel, config::EventFormat};
use anstream::adapter::strip_str;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fmt::{self, Write},
    io,
    path::Path,
    sync::OnceLock,
    time::{SystemTime, UNIX_EPOCH},
};
use tarpon_http::date::format_rfc3339_ms;
use tarpon_site::Printable;
use tracing::{Event, Level, Subscriber, field, info, warn};
use tracing_subscriber::{
    fmt::{FmtContext, FormatEvent, FormatFields, format::Writer},
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
    match is_json {
        true => builder.event_format(JsonFormat).init(),
        false => builder.event_format(HumanFormat).init(),
    }
}

/// Names a configuration file that no argument names.
pub(crate) fn configuration(name: &str) {
    match IS_JSON.get() {
        Some(true) => {
            let text = notice_text::configuration(name);
            info!(text, file = format!("./{name}"), "configuration");
        }
        _ => messages::configuration(name),
    }
}

/// Prints a notice of the server.
pub(crate) fn notice(notice: Notice<'_>) {
    if !IS_JSON.get().is_some_and(|&is_json| is_json) {
        return messages::notice(notice);
    }
    let text = notice_text::of(&notice).map(|text| text.line());
    match notice {
        Notice::SiteLoadingEnded => loading::end(),
        Notice::SiteLoading(_, done, total) if !loading::update(done, total, true) => {}
        Notice::SiteLoading(of, done, total) => {
            info!(text, site = of.map(name), files = done, total, "site_loading")
        }
        Notice::SiteLoaded(of, site) => {
            let text = notice_text::loaded(of, site);
            info!(
                text,
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
                text,
                site = of.map(name),
                files = site.file_count(),
                bytes = site.content_len(),
                release = release(site),
                digest = site.digest(),
                "site_reloaded"
            );
            warnings(of, site);
        }
        Notice::SiteCompressed(of, site) => {
            let CompressedFiles { files, plain, coded } = site.compressed();
            info!(
                text,
                site = of.map(name),
                files,
                bytes = plain,
                compressed_bytes = coded,
                "site_compressed"
            )
        }
        // These have no values besides their text.
        Notice::SiteReloadFailed(_)
        | Notice::SiteRejected { .. }
        | Notice::ReleaseNotKept(_)
        | Notice::LogReopenFailed(_)
        | Notice::DrainFailed(_)
        | Notice::CertificateWarning(_) => {
            let text = text.unwrap_or_default();
            warn!(text, "{text}");
        }
        Notice::PollingForChanges(of, reason) => {
            warn!(text, site = of.map(name), reason, "the kernel reports no changes; checking every 2 s")
        }
        Notice::ReloadFailed(why) => {
            warn!(text, "not reloaded: {}; still serving the previous configuration", strip_str(why))
        }
        Notice::Upgraded(process) => info!(text, process, "upgraded"),
        Notice::UpgradeFailed(why) => {
            warn!(text, "not upgraded: {}; the old process still serves", strip_str(why))
        }
        Notice::Serving(served) => serving("serving", text, served),
        Notice::Reloaded(served) => serving("reloaded", text, served),
        Notice::Stopping(grace) => info!(text, grace_s = grace.as_secs_f64(), "stopping"),
        Notice::ConnectionLost(how) => {
            warn!(text, role = "worker", "a worker process {how}; its connection is lost")
        }
        Notice::ProcessEnded { role, how, restart_delay } => {
            let (role, restart_delay_s) = (role.to_string(), restart_delay.as_secs_f64());
            warn!(text, role, restart_delay_s, "the {role} process {how}; starting another");
        }
        Notice::StartFailed { role, error, retry_delay } => {
            let (role, retry_delay_s) = (role.to_string(), retry_delay.as_secs_f64());
            warn!(text, role, retry_delay_s, "cannot start a {role} process: {error}");
        }
        Notice::CertificateObtained { names, days } => info!(text, names, days, "certificate_obtained"),
        Notice::CertificateFailed { names, why, hint, retry_delay, days_left } => {
            let retry_delay_s = retry_delay.as_secs();
            warn!(
                text,
                names, retry_delay_s, days_left, hint, "no new certificate for {names}: {why}; {hint}"
            );
        }
        Notice::UpstreamDown { upstream, server, why } => {
            warn!(text, upstream, server, why, "the upstream server {server} is down: {why}");
        }
        Notice::UpstreamUp { upstream, server } => info!(text, upstream, server, "upstream_server_up"),
        Notice::UpstreamUnresolved { upstream, server, why } => {
            warn!(
                text,
                upstream, server, why, "cannot look up the name of the upstream server {server}: {why}"
            );
        }
        Notice::Suppressed(role, count) => {
            let role = role.to_string();
            warn!(text, role, count, "{count} more messages about the {role} process are not shown");
        }
    }
}

fn serving(message: &str, text: Option<String>, served: &ServingReport<'_>) {
    let ServingReport { sites, addresses, settings, fallback_reason, confinement, admin_error, .. } = served;
    if let Some(reason) = fallback_reason {
        warn!(text = notice_text::fallback(reason).line(), reason, "no io_uring; using epoll");
    }
    let addresses: Vec<_> =
        addresses.iter().map(|address| strip_str(&notice_text::url(served, address)).to_string()).collect();
    info!(
        text,
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
        let text = notice_text::fingerprint(fingerprint).line();
        info!(text, fingerprint, "self-signed certificate");
    }
    if let Some(error) = admin_error {
        let text = notice_text::no_admin(error).line();
        info!(text, "{text}");
    }
}

/// Returns the directory or archive that was read, without links: the release that is live.
fn release(site: &Site) -> Option<String> {
    site.real_path().map(|path| path.printable().to_string())
}

fn warnings(of: SiteLabel<'_>, site: &Site) {
    for warning in site.warnings() {
        let text = notice_text::site_warning(of, &warning).line();
        warn!(text, site = of.map(name), "{warning}");
    }
}

/// Returns the path of a site.
fn name(path: &Path) -> String {
    path.printable().to_string()
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

/// The format of events for programs.
struct JsonFormat;

impl<S, N> FormatEvent<S, N> for JsonFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut fields = JsonFields::default();
        event.record(&mut fields);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (time, level) = (format_rfc3339_ms(since.as_millis() as u64), *event.metadata().level());
        let text = match (fields.get("text"), level) {
            (text, _) if !text.is_empty() => text.to_owned(),
            (_, Level::DEBUG) => {
                let mut fields = EventFields::default();
                event.record(&mut fields);
                messages::exchange_line(|name| fields.get(name))
            }
            // Events of the library have no text of their own: their message is one.
            _ => notice_text::one_line(fields.get("message")),
        };
        writeln!(to, "{}", json(str::from_utf8(&time).unwrap_or_default(), level, &text, &fields))
    }
}

/// Returns an event as a JSON object.
fn json(time: &str, level: Level, text: &str, fields: &JsonFields) -> String {
    let (time, level, text) = (Value::from(time), Value::from(level.as_str()), Value::from(text));
    let message = Value::from(fields.get("message"));
    let mut object =
        format!("{{\"timestamp\":{time},\"level\":{level},\"message\":{message},\"text\":{text}");
    for (name, value) in fields.0.iter().filter(|(name, _)| !["message", "text"].contains(name)) {
        let _ = write!(object, ",{}:{value}", Value::from(*name));
    }
    object + "}"
}

/// The fields of an event as JSON, in their order.
#[derive(Default)]
struct JsonFields(Vec<(&'static str, Value)>);

impl JsonFields {
    /// Returns a field that is text.
    fn get(&self, wanted: &str) -> &str {
        let found = self.0.iter().find(|(name, _)| *name == wanted);
        found.and_then(|(_, value)| value.as_str()).unwrap_or_default()
    }
}

impl field::Visit for JsonFields {
    fn record_f64(&mut self, field: &field::Field, value: f64) {
        self.0.push((field.name(), value.into()));
    }

    fn record_i64(&mut self, field: &field::Field, value: i64) {
        self.0.push((field.name(), value.into()));
    }

    fn record_u64(&mut self, field: &field::Field, value: u64) {
        self.0.push((field.name(), value.into()));
    }

    fn record_bool(&mut self, field: &field::Field, value: bool) {
        self.0.push((field.name(), value.into()));
    }

    fn record_str(&mut self, field: &field::Field, value: &str) {
        self.0.push((field.name(), value.into()));
    }

    fn record_debug(&mut self, field: &field::Field, value: &dyn fmt::Debug) {
        self.0.push((field.name(), format!("{value:?}").into()));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_the_text_behind_the_message() {
        let fields = [("files", Value::from(2)), ("message", "a\"b".into()), ("text", "old".into())];
        assert_eq!(
            json("2026-01-14T04:21:21.042Z", Level::INFO, "c", &JsonFields(fields.into())),
            r#"{"timestamp":"2026-01-14T04:21:21.042Z","level":"INFO","message":"a\"b","text":"c","files":2}"#
        );
    }
}
