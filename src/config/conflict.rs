//! What is wrong though each value by itself is right: what two of them claim, or one lacks.

use super::{Fault, Said};
use std::collections::BTreeMap;

/// Finds what contradicts itself.
pub(super) fn find(said: &[Said], faults: &mut Vec<Fault>) {
    twice(said, "listener", &["address"], faults);
    twice(said, "site", &["hosts", "aliases"], faults);
    let defaults: Vec<_> = of(said, "site", "default").filter(|said| is_on(said)).collect();
    if let [_, others @ ..] = &defaults[..] {
        for other in others {
            faults.push(fault(
                other,
                0,
                "there are two default sites",
                "expected one at most",
                "leave it to one of them",
            ));
        }
    }
    let sites: Vec<_> = of(said, "site", "path").collect();
    for (site, (hosts, aliases)) in
        sites.iter().zip(of(said, "site", "hosts").zip(of(said, "site", "aliases")))
    {
        let is_default = defaults.iter().any(|default| default.number == site.number);
        if sites.len() > 1 && hosts.values.is_empty() && !is_default {
            let found = "nobody can reach this site: it has no hosts, and is not the default";
            faults.push(fault(site, 0, found, "expected `hosts` beside it", "add them, or default = true"));
        }
        if !aliases.values.is_empty() && hosts.values.first().is_none_or(|host| host.starts_with("*.")) {
            let found = "these aliases lead nowhere";
            let remedy = "add hosts, of which the first has no *";
            faults.push(fault(aliases, 0, found, "expected the first of `hosts` to be a name", remedy));
        }
    }
}

/// Values of these options that were said before, by the same or another section.
fn twice(said: &[Said], section: &str, options: &[&str], faults: &mut Vec<Fault>) {
    let mut first: BTreeMap<&str, &Said> = BTreeMap::new();
    for said in said.iter().filter(|said| said.section.name == section && options.contains(&said.option.name))
    {
        for (at, value) in said.values.iter().enumerate() {
            if let Some(before) = first.insert(value, said) {
                let where_before = match before.from {
                    super::Origin::File(line) => format!(" in line {line}"),
                    _ => String::new(),
                };
                let found = format!("{value} is said twice");
                faults.push(fault(
                    said,
                    at,
                    found,
                    format!("said before{where_before}"),
                    "leave one of them out",
                ));
            }
        }
    }
}

/// An option in every section that there is.
fn of<'a>(said: &'a [Said], section: &'a str, option: &'a str) -> impl Iterator<Item = &'a Said> {
    said.iter().filter(move |said| {
        said.number.is_some() && said.section.name == section && said.option.name == option
    })
}

fn is_on(said: &Said) -> bool {
    said.values.first().is_some_and(|value| value == "true")
}

/// A fault of the value of this number.
fn fault(
    said: &Said,
    at: usize,
    found: impl Into<String>,
    expected: impl Into<String>,
    remedy: impl Into<String>,
) -> Fault {
    match said.places.get(at) {
        Some(place) => Fault::at(place.clone(), found, expected, remedy),
        None => Fault::nowhere(found, expected, remedy),
    }
}
