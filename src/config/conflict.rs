//! What is wrong though each value by itself is right: what two of them claim, or one lacks.

use super::{Fault, Origin, Said};
use std::collections::BTreeMap;

/// Finds what contradicts itself.
pub(super) fn find(said: &[Said], faults: &mut Vec<Fault>) {
    // The kernel chooses port 0 anew each time.
    let is_claimed = |address: &str| !address.ends_with(":0");
    twice("listener", of(said, "listener", &["address"]), is_claimed, faults);
    twice("host", of(said, "site", &["hosts", "aliases"]), |_| true, faults);
    defaults(said, faults);
    let site_count = of(said, "site", &["path"]).count();
    for (number, path) in of(said, "site", &["path"]).enumerate() {
        let option = |name| said.iter().find(|said| is(said, "site", name) && said.number == Some(number));
        let (Some(hosts), Some(aliases)) = (option("hosts"), option("aliases")) else { continue };
        if site_count > 1 && hosts.values.is_empty() && !option("default").is_some_and(is_on) {
            let found = "nobody can reach this site: it has no hosts, and is not the default";
            faults.push(path.fault(0, found, "expected `hosts` beside it", "add them, or default = true"));
        }
        if !aliases.values.is_empty() && hosts.values.iter().all(|host| host.starts_with("*.")) {
            let expected = "expected one of `hosts` without a *";
            let remedy = "add the name they lead to, as in hosts = [\"example.org\"]";
            faults.push(aliases.fault(0, "these aliases lead nowhere", expected, remedy));
        }
    }
}

/// Values that were claimed before, by the same section or another one.
fn twice<'a>(
    noun: &str,
    said: impl Iterator<Item = &'a Said>,
    is_claimed: impl Fn(&str) -> bool,
    faults: &mut Vec<Fault>,
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
                format!("{noun} {value} is there twice"),
                before,
                "leave one of them out",
            ));
        }
    }
}

/// More than one site that answers for all others.
fn defaults(said: &[Said], faults: &mut Vec<Fault>) {
    for said in of(said, "site", &["default"]).filter(|said| is_on(said)).skip(1) {
        let remedy = "leave it to one of them";
        faults.push(said.fault(0, "there is a default site already", "expected one at most", remedy));
    }
}

/// Some options in every section that there is.
fn of<'a>(said: &'a [Said], section: &'a str, options: &'a [&str]) -> impl Iterator<Item = &'a Said> {
    let is_one = |said: &Said| options.iter().any(|option| is(said, section, option));
    said.iter().filter(move |said| said.number.is_some() && is_one(said))
}

fn is(said: &Said, section: &str, option: &str) -> bool {
    said.section.name == section && said.option.name == option
}

fn is_on(said: &Said) -> bool {
    said.values.first().is_some_and(|value| value == "true")
}
