//! What is wrong though each value by itself is right: what two of them claim, or one lacks.

use super::{ConfigError, OptionValue, Origin};
use std::collections::BTreeMap;
use tarpon_site::Printable;

/// Finds what contradicts itself.
pub(super) fn find(said: &[OptionValue], faults: &mut Vec<ConfigError>) {
    // The kernel chooses port 0 anew each time.
    let is_claimed = |address: &str| !address.ends_with(":0");
    twice("listener", of(said, "listener", &["address"]), is_claimed, faults);
    admins(said, is_claimed, faults);
    twice("host", of(said, "site", &["hosts", "redirect-hosts"]), |_| true, faults);
    defaults(said, faults);
    // Where none says that it is the default, the first is.
    let is_default_said = of(said, "site", &["default"]).any(is_on);
    let is_refusing = of(said, "server", &["refuse-unknown-hosts"]).any(is_on);
    let is_first_default = !is_default_said && !is_refusing;
    for (number, path) in of(said, "site", &["path"]).enumerate() {
        let option = |name| said.iter().find(|said| is(said, "site", name) && said.number == Some(number));
        let (Some(hosts), Some(redirect_hosts)) = (option("hosts"), option("redirect-hosts")) else {
            continue;
        };
        let is_default = number == 0 && is_first_default || option("default").is_some_and(is_on);
        if hosts.values.is_empty() && !is_default {
            let found = "nobody can reach this site: it has no hosts, and is not the default";
            faults.push(path.fault(0, found, "expected `hosts` beside it", "add them, or default = true"));
        }
        if !redirect_hosts.values.is_empty() && hosts.values.iter().all(|host| host.starts_with("*.")) {
            let expected = "expected one of `hosts` without a *";
            let remedy = "add the name they lead to, as in hosts = [\"example.org\"]";
            faults.push(redirect_hosts.fault(
                0,
                "`redirect-hosts` have no host to redirect to",
                expected,
                remedy,
            ));
        }
    }
}

/// Values that were claimed before, by the same section or another one.
fn twice<'a>(
    noun: &str,
    said: impl Iterator<Item = &'a OptionValue>,
    is_claimed: impl Fn(&str) -> bool,
    faults: &mut Vec<ConfigError>,
) {
    let mut first: BTreeMap<&str, Origin> = BTreeMap::new();
    for said in said {
        for (at, value) in said.values.iter().enumerate().filter(|(_, value)| is_claimed(value)) {
            let Some(&before) = first.get(&**value) else {
                first.insert(value, said.from);
                continue;
            };
            let before = match before {
                Origin::File(line) => format!("it is there in line {line} already"),
                Origin::Flag | Origin::Default => "it is there already".to_owned(),
            };
            faults.push(said.fault(
                at,
                format!("{noun} {} is there twice", value.printable()),
                before,
                "leave one of them out",
            ));
        }
    }
}

/// An admin listener where sites are served: of one socket there is one use.
fn admins(said: &[OptionValue], is_claimed: impl Fn(&str) -> bool, faults: &mut Vec<ConfigError>) {
    for admin in of(said, "server", &["admin"]) {
        for (at, value) in admin.values.iter().enumerate().filter(|(_, value)| is_claimed(value)) {
            if of(said, "listener", &["address"]).any(|listener| listener.values.contains(value)) {
                let found = format!("admin {} is a listener as well", value.printable());
                let remedy = "take another port, as in admin = \"127.0.0.1:9000\", a Unix socket, or off";
                faults.push(admin.fault(at, found, "expected an address of its own", remedy));
            }
        }
    }
}

/// More than one site that answers for all others, or one where nobody is to.
fn defaults(said: &[OptionValue], faults: &mut Vec<ConfigError>) {
    let mut defaults = of(said, "site", &["default"]).filter(|said| is_on(said));
    if of(said, "server", &["refuse-unknown-hosts"]).any(is_on)
        && let Some(default) = defaults.next()
    {
        let found = "there is a default site, and hosts that no site has are refused";
        let remedy = "leave out default, or refuse-unknown-hosts";
        faults.push(default.fault(0, found, "expected one of the two", remedy));
    }
    for said in of(said, "site", &["default"]).filter(|said| is_on(said)).skip(1) {
        let remedy = "leave it to one of them";
        faults.push(said.fault(0, "there is a default site already", "expected one at most", remedy));
    }
}

/// Some options in every section that there is.
fn of<'a>(
    said: &'a [OptionValue],
    section: &'a str,
    options: &'a [&str],
) -> impl Iterator<Item = &'a OptionValue> {
    let is_one = |said: &OptionValue| options.iter().any(|option| is(said, section, option));
    said.iter().filter(move |said| said.number.is_some() && is_one(said))
}

fn is(said: &OptionValue, section: &str, option: &str) -> bool {
    said.section.name == section && said.option.name == option
}

fn is_on(said: &OptionValue) -> bool {
    said.values.first().is_some_and(|value| value == "true")
}
