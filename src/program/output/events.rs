//! What happens in a server's life, for people or for programs.
//!
//! People read words, `say.rs` has them. Programs read a line of JSON for each event on standard error: `timestamp`, `level`,
//! `message`, and what belongs to it. What the library says through `tracing` comes out the same way.

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

/// Whether it is programs that read.
static IS_JSON: OnceLock<bool> = OnceLock::new();

/// From now on events are shown in this form.
pub(crate) fn begin(form: EventFormat) {
    use std::io::IsTerminal;
    let is_json = match form {
        EventFormat::Human => false,
        EventFormat::Json => true,
        EventFormat::Auto => !io::stderr().is_terminal(),
    };
    if IS_JSON.set(is_json).is_err() {
        return;
    }
    let form = if is_json { OutputForm::Json } else { OutputForm::Words };
    // Nothing is told at the lowest of these levels unless it is asked for.
    let builder =
        tracing_subscriber::fmt().with_writer(move || output::stderr(form)).with_max_level(Level::DEBUG);
    // Where nobody listens any more, nobody can be told that either: the attempt would panic.
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

/// What happens while sites are served.
pub(crate) fn told(told: Notice<'_>) {
    if !IS_JSON.get().is_some_and(|&is_json| is_json) {
        return messages::told(told);
    }
    match told {
        Notice::SiteLoaded(of, site) => warnings(of, site),
        Notice::SiteReloaded(of, site) => {
            info!(
                site = of.map(name),
                files = site.file_count(),
                bytes = site.content_len(),
                "site_reloaded"
            );
            warnings(of, site);
        }
        Notice::SiteReloadFailed(trouble) => warn!("{trouble}; what was read before is still served"),
        Notice::SiteRejected(why) => warn!("{why}; what was read before is still served"),
        Notice::ReleaseNotKept(trouble) => warn!("{trouble}; nothing of this earlier release is kept"),
        Notice::PollingForChanges(of, reason) => {
            warn!(site = of.map(name), reason, "the kernel does not tell of changes; looking every 2 s")
        }
        Notice::LogReopenFailed(trouble) => warn!("{trouble}"),
        Notice::ReloadFailed(why) => {
            warn!("not reloaded: {}; what was served before still is", strip_str(why))
        }
        Notice::Upgraded(process) => info!(process, "upgraded"),
        Notice::UpgradeFailed(why) => {
            warn!("not upgraded: {}; the program that runs still serves", strip_str(why))
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
            warn!(role, restart_delay_s, "the {role} process {how}; another takes its place");
        }
    }
}

fn serving(message: &str, served: &ServingReport<'_>) {
    let ServingReport { sites, addresses, settings, fallback_reason, confinement, admin_in_use } = served;
    if let Some(reason) = fallback_reason {
        warn!(reason, "no io_uring; using epoll");
    }
    let addresses: Vec<_> = addresses.iter().map(|address| url(address)).collect();
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
    if let Some(address) = admin_in_use {
        info!("no admin listener: {address} is not to be had");
    }
}

fn warnings(of: SiteLabel<'_>, site: &Site) {
    for warning in site.warnings() {
        warn!(site = of.map(name), "{warning}");
    }
}

/// Where a site lies.
fn name(path: &Path) -> String {
    path.printable().to_string()
}

fn url(address: &Address) -> String {
    match address {
        Address::Tcp(socket) => format!("http://{socket}/"),
        Address::Unix(_) => address.to_string(),
    }
}

/// An event as people read it.
struct HumanFormat;

impl<S, N> FormatEvent<S, N> for HumanFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut fields = EventFields::default();
        event.record(&mut fields);
        let words = match *event.metadata().level() {
            Level::DEBUG => messages::exchange(|name| fields.get(name)),
            level => messages::event(level, fields.get("message")),
        };
        writeln!(to, "{words}")
    }
}

/// What an event says, by the names of its fields.
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

/// The time of an event, to the millisecond.
struct EventClock;

impl FormatTime for EventClock {
    fn format_time(&self, to: &mut Writer<'_>) -> fmt::Result {
        write!(to, "{:.3}", jiff::Timestamp::now())
    }
}
