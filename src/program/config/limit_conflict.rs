//! Conflicts between the limits of clients.

use super::{
    Config, ConfigError, ConfigFile, OptionValue, Origin,
    conflict::{entries_of, place_of},
    passwords,
};
use crate::{LimitChoice, RequestLimit, RequestRate, SendRate};
use std::num::NonZeroU32;
use tarpon_site::Printable;

/// Adds an error for each conflict. All values are valid by themselves.
pub(super) fn find(
    file: Option<&ConfigFile>,
    entries: &[OptionValue],
    config: &Config,
    errors: &mut Vec<ConfigError>,
) {
    let settings = &config.server.settings;
    let rates: Vec<_> = entries_of(entries, "server", &["request-rate"]).collect();
    for burst in entries_of(entries, "server", &["request-burst"]) {
        let rate = rates.first().copied();
        burst_conflicts(burst, rate, settings.request_rate, settings.request_burst, errors);
    }
    let paths: Vec<_> = entries_of(entries, "site.limit", &["path"]).collect();
    for (at, path) in paths.iter().enumerate() {
        let before =
            paths[..at].iter().find(|before| is_same_site(before, path) && before.values == path.values);
        if let Some(before) = before {
            let found = format!("the limits of {} occur twice", path.shown(0).printable());
            errors.push(path.error(0, found, place_of(file, before, path), "merge the two sections"));
        }
    }
    for deny in entries.iter().filter(|entry| entry.option.name == "deny" && entry.number.is_some()) {
        let is_beside = |entry: &&OptionValue| {
            entry.option.name == "allow"
                && entry.section.name == deny.section.name
                && (entry.number, &entry.within) == (deny.number, &deny.within)
        };
        let Some(allow) = entries.iter().find(is_beside) else { continue };
        for (at, value) in deny.values.iter().enumerate().filter(|(_, value)| allow.values.contains(value)) {
            let found = format!("{value} is allowed and denied");
            errors.push(deny.error(
                at,
                found,
                place_of(file, allow, deny),
                "remove it from one of both lists",
            ));
        }
    }
    passwords::find_conflicts(file, entries, errors);
    send_rate_conflicts(entries, config, errors);
    for burst in entries_of(entries, "site.limit", &["request-burst"]) {
        let rate = entries_of(entries, "site.limit", &["request-rate"])
            .find(|rate| (rate.number, &rate.within) == (burst.number, &burst.within));
        let parsed = rate.and_then(|rate| rate.values.first()?.parse().ok());
        let count = burst.values.first().and_then(|count| count.parse().ok());
        burst_conflicts(burst, rate, parsed, count, errors);
    }
}

/// Adds an error for each response that must not leave as fast as its client must take it.
fn send_rate_conflicts(entries: &[OptionValue], config: &Config, errors: &mut Vec<ConfigError>) {
    let rates = config.sites.iter().flat_map(|site| {
        let min = site.limits.min_send_rate.unwrap_or(config.server.settings.min_send_rate);
        site.path_limits.iter().filter_map(move |limit| Some((limit.max_send_rate?, min)))
    });
    for (entry, (choice, min)) in entries_of(entries, "site.limit", &["max-send-rate"]).zip(rates) {
        let LimitChoice::At(SendRate(rate)) = choice else { continue };
        if u64::from(rate.get()) < 2 * u64::from(min) {
            errors.push(entry.error(
                0,
                format!("a client must receive at least {min} bytes per second, min-send-rate"),
                "expected twice as much, so that no client is cut off",
                "raise max-send-rate, or lower min-send-rate of the site",
            ));
        }
    }
}

/// Returns whether two sections belong to one site.
fn is_same_site(one: &OptionValue, another: &OptionValue) -> bool {
    one.within == another.within
}

/// Adds an error for a burst without a rate, or of more than a day.
fn burst_conflicts(
    burst: &OptionValue,
    rate: Option<&OptionValue>,
    parsed: Option<RequestRate>,
    count: Option<NonZeroU32>,
    errors: &mut Vec<ConfigError>,
) {
    let is_given = burst.origin != Origin::Default && !burst.values.is_empty();
    let Some(parsed) = parsed else {
        if is_given {
            let found = "`request-burst` has no rate";
            let hint = "add request-rate, as in request-rate = \"10/s\", or remove request-burst";
            errors.push(burst.error(0, found, "expected `request-rate` beside it", hint));
        }
        return;
    };
    let limit = RequestLimit { rate: parsed, burst: count };
    if let Err(error) = limit.check() {
        let at = if is_given { burst } else { rate.unwrap_or(burst) };
        errors.push(at.error(
            0,
            error.to_string(),
            "expected fewer",
            "lower request-burst, or raise request-rate",
        ));
    }
}
