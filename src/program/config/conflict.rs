//! Conflicts between options whose values are valid by themselves: duplicates, contradictions and missing counterparts.

use super::{
    Config, ConfigError, ConfigFile, OptionValue, Origin, acme, cgi, limit_conflict, tls_conflict,
    upstream_conflict,
};
use crate::{AcmeChallenge, Http2Use, ListenAddress, ListenValue};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};
use tarpon_site::Printable;

/// Adds an error for each conflict.
pub(super) fn find(
    file: Option<&ConfigFile>,
    entries: &[OptionValue],
    config: &Config,
    errors: &mut Vec<ConfigError>,
) {
    // Port 0 never conflicts: the kernel chooses a free port each time.
    let is_fixed = |address: &str| !address.ends_with(":0");
    duplicates(file, "listener", entries_of(entries, "listener", &["address"]), sockets, is_fixed, errors);
    admin_conflicts(entries, is_fixed, errors);
    port_conflicts(file, entries, errors);
    access_conflicts(entries, errors);
    default_conflicts(entries, errors);
    limit_conflict::find(file, entries, config, errors);
    // An invalid value is missing among the entries.
    if errors.is_empty() {
        proxy_conflicts(entries, errors);
        tls_conflict::find(file, entries, errors);
        cgi::conflicts(entries, errors);
        upstream_conflict::find(file, entries, errors);
        acme::conflicts(entries, &config.server.acme, errors);
        http2_conflicts(entries, config, errors);
    }
    for listen in entries_of(entries, "site", &["listen"]) {
        for (at, _) in listen.values.iter().enumerate().filter(|(_, value)| !is_fixed(value)) {
            let found = "port 0 in `listen`: the port is not known before the server listens";
            errors.push(listen.error(
                at,
                found,
                "expected another port",
                "name the port, as in listen = [\"127.0.0.1:8081\"]",
            ));
        }
    }
    for group in site_groups(entries) {
        host_conflicts(file, &group, errors);
        mount_conflicts(file, &group, errors);
    }
}

/// Adds errors if clients must speak HTTP/2, and an option needs HTTP/1.
fn http2_conflicts(entries: &[OptionValue], config: &Config, errors: &mut Vec<ConfigError>) {
    let only: Vec<&OptionValue> = entries_of(entries, "server", &["http2"])
        .chain(entries_of(entries, "listener", &["http2"]))
        .filter(|entry| entry.values.first().is_some_and(|value| value == "only"))
        .collect();
    let engine = config.server.settings.engine;
    for http2 in only.iter().filter(|_| engine.is_blocking()) {
        let found = format!("the engine {engine} does not offer HTTP/2");
        let hint = "set engine = \"auto\", or remove http2";
        errors.push(http2.error(0, found, "expected another engine beside it", hint));
    }
    let has_domains = config.sites.iter().any(|site| !site.domains.is_empty());
    let is_http01 = config.server.acme.challenge == AcmeChallenge::Http01;
    if has_domains && is_http01 && !has_plain_http1(config) {
        let has_tls = |http2: &&&OptionValue| {
            let of_listener = |entry: &&OptionValue| entry.number == http2.number;
            let address = entries_of(entries, "listener", &["address"]).find(of_listener);
            address.is_some_and(|address| address.values.iter().all(|value| tls_conflict::has_tls(value)))
        };
        if let Some(http2) = only.iter().find(|http2| http2.section.name == "server" || !has_tls(http2)) {
            let found = "a directory that checks a name by http-01 speaks HTTP/1";
            let hint = "set acme-challenge = \"tls-alpn-01\", or remove http2";
            errors.push(http2.error(0, found, "expected another challenge beside it", hint));
        }
    }
}

/// Returns whether a client without TLS may speak HTTP/1 at a listener.
fn has_plain_http1(config: &Config) -> bool {
    let own = config.listeners.iter().map(|listener| (listener.has_tls, listener.options.http2));
    let of_sites = config
        .sites
        .iter()
        .flat_map(|site| site.listen.iter().map(|address| (address, site.tls_listen.contains(address))))
        .filter(|(address, _)| config.listeners.iter().all(|known| known.address != **address))
        .map(|(_, has_tls)| (has_tls, None));
    // Without listeners the server has one without TLS.
    let default = config.listeners.is_empty().then_some((false, None));
    let may = |http2: Option<Http2Use>| http2.unwrap_or(config.server.settings.http2) != Http2Use::Only;
    own.chain(of_sites).chain(default).any(|(has_tls, http2)| !has_tls && may(http2))
}

/// Returns the options of the sites that answer at the same listeners: those that name no listener, and those of each listener that a site names.
fn site_groups(entries: &[OptionValue]) -> Vec<Vec<&OptionValue>> {
    let listen = |number| {
        entries.iter().find(move |entry| is_option(entry, "site", "listen") && entry.number == Some(number))
    };
    let sockets_of = |number| -> Vec<String> {
        listen(number).iter().flat_map(|entry| &entry.values).flat_map(|value| sockets(value)).collect()
    };
    let numbers: BTreeSet<usize> =
        entries_of(entries, "site", &["path"]).filter_map(|entry| entry.number).collect();
    let named: BTreeSet<String> = numbers.iter().flat_map(|&number| sockets_of(number)).collect();
    let general: BTreeSet<usize> =
        numbers.iter().copied().filter(|&number| sockets_of(number).is_empty()).collect();
    let of_socket = |socket: &String| {
        numbers.iter().copied().filter(|&number| sockets_of(number).contains(socket)).collect()
    };
    let groups: BTreeSet<BTreeSet<usize>> =
        [general].into_iter().chain(named.iter().map(of_socket)).collect();
    let options = |group: BTreeSet<usize>| {
        let is_in_group = |entry: &&OptionValue| match entry.section.name {
            "site" => entry.number.is_some_and(|number| group.contains(&number)),
            _ => true,
        };
        entries.iter().filter(is_in_group).collect()
    };
    groups.into_iter().map(options).collect()
}

/// Adds an error for each host that two sites have, and for each site that no request reaches.
fn host_conflicts(file: Option<&ConfigFile>, group: &[&OptionValue], errors: &mut Vec<ConfigError>) {
    let of = |section: &'static str, names: &'static [&'static str]| {
        let is_wanted = move |entry: &&OptionValue| names.iter().any(|name| is_option(entry, section, name));
        group.iter().copied().filter(move |entry| entry.number.is_some() && is_wanted(entry))
    };
    let is_mounted = |entry: &OptionValue| entry.number.and_then(|number| mount_of(group, number)).is_some();
    let itself = |host: &str| vec![host.to_owned()];
    let hosts = of("site", &["hosts", "redirect-hosts", "domain"]);
    duplicates(file, "host", hosts.filter(|entry| !is_mounted(entry)), itself, |_| true, errors);
    // The first site is the default unless an option decides otherwise.
    let has_default = of("site", &["default"]).any(is_on);
    let refuses_unknown = of("server", &["refuse-unknown-hosts"]).any(is_on);
    let mut is_first_default = !has_default && !refuses_unknown;
    for path in of("site", &["path"]).filter(|entry| !is_mounted(entry)) {
        let option =
            |name| group.iter().find(|entry| is_option(entry, "site", name) && entry.number == path.number);
        let (Some(hosts), Some(redirect_hosts)) = (option("hosts"), option("redirect-hosts")) else {
            continue;
        };
        let is_default = is_first_default || option("default").is_some_and(|entry| is_on(entry));
        is_first_default = false;
        let domains = option("domain").map_or(&[][..], |entry| &entry.values);
        if hosts.values.is_empty() && domains.is_empty() && !is_default {
            let found = "no request reaches this site: it has no `hosts` and is not the default";
            errors.push(path.error(0, found, "expected `hosts` beside it", "add `hosts`, or default = true"));
        }
        let mut names = hosts.values.iter().chain(domains);
        if !redirect_hosts.values.is_empty() && names.all(|host| host.starts_with("*.")) {
            let found = "`redirect-hosts` have no host to redirect to";
            let expected = "expected one of `hosts` without a *";
            let hint = "add the target of the redirects, as in hosts = [\"example.org\"]";
            errors.push(redirect_hosts.error(0, found, expected, hint));
        }
    }
}

/// Adds an error for each mount that occurred before at the same host, and for options that a site with a mount cannot have.
fn mount_conflicts(file: Option<&ConfigFile>, group: &[&OptionValue], errors: &mut Vec<ConfigError>) {
    let mut first: BTreeMap<(&str, &str), &OptionValue> = BTreeMap::new();
    for mount in group.iter().copied().filter(|entry| is_option(entry, "site", "mount")) {
        let Some((number, path)) = mount.number.and_then(|number| Some((number, mount_of(group, number)?)))
        else {
            continue;
        };
        let of_site = |option| {
            group.iter().find(move |entry| is_option(entry, "site", option) && entry.number == Some(number))
        };
        let hosts = of_site("hosts").map_or(&[][..], |hosts| &hosts.values);
        let every_host = hosts.is_empty().then_some("every host");
        for host in hosts.iter().map(String::as_str).chain(every_host) {
            let Some(before) = first.insert((host, path), mount) else { continue };
            let found = format!("mount {} of {} occurs twice", mount.shown(0).printable(), host.printable());
            let before = place_of(file, before, mount);
            errors.push(mount.error(0, found, before, "give each site another mount, or other hosts"));
        }
        if let Some(redirect_hosts) = of_site("redirect-hosts").filter(|entry| !entry.values.is_empty()) {
            let found = "a site with a mount cannot have `redirect-hosts`";
            let hint = "move redirect-hosts to the site of the host that has no mount";
            errors.push(redirect_hosts.error(0, found, "expected one of the two", hint));
        }
        if let Some(default) = of_site("default").filter(|entry| is_on(entry)) {
            let found = "a site with a mount cannot be the default";
            let hint = "remove default: without hosts, a mount answers at every host";
            errors.push(default.error(0, found, "expected one of the two", hint));
        }
    }
}

/// Returns the mount of the site with this number. `None`: it has none, or that of the root.
fn mount_of<'a>(group: &[&'a OptionValue], number: usize) -> Option<&'a str> {
    let mount =
        group.iter().find(|entry| is_option(entry, "site", "mount") && entry.number == Some(number))?;
    mount.values.first().map(String::as_str).filter(|path| *path != "/")
}

/// Adds an error for each value that occurred before, in the same section or another one. `parts`: the things that a value names.
pub(super) fn duplicates<'a>(
    file: Option<&ConfigFile>,
    noun: &str,
    entries: impl Iterator<Item = &'a OptionValue>,
    parts: impl Fn(&str) -> Vec<String>,
    is_checked: impl Fn(&str) -> bool,
    errors: &mut Vec<ConfigError>,
) {
    let mut first: BTreeMap<String, &OptionValue> = BTreeMap::new();
    for entry in entries {
        for (at, value) in entry.values.iter().enumerate().filter(|(_, value)| is_checked(value)) {
            let parts = parts(value);
            let Some((part, &before)) = parts.iter().find_map(|part| Some((part, first.get(part)?))) else {
                first.extend(parts.into_iter().map(|part| (part, entry)));
                continue;
            };
            let is_shown = entry.shown(at) == &**value;
            let shown = if is_shown { &**part } else { entry.shown(at) };
            let found = format!("{noun} {} occurs twice", shown.printable());
            let before = place_of(file, before, entry);
            errors.push(entry.error(at, found, before, "remove one of them"));
        }
    }
}

/// Returns the addresses of the sockets that a value of `address` names.
pub(super) fn sockets(value: &str) -> Vec<String> {
    let value = ListenValue::address_text(value);
    match value.parse() {
        Ok(both @ (ListenAddress::All(_) | ListenAddress::Localhost(_))) => {
            both.addresses().iter().map(|address| address.to_string()).collect()
        }
        _ => vec![value.to_owned()],
    }
}

/// Adds an error for each permission of a listener that is no Unix socket.
fn access_conflicts(entries: &[OptionValue], errors: &mut Vec<ConfigError>) {
    let addresses: Vec<_> = entries_of(entries, "listener", &["address"]).collect();
    for entry in entries_of(entries, "listener", &["mode", "owner", "group"]) {
        let address = addresses.iter().find(|address| address.number == entry.number);
        let is_unix = address
            .is_some_and(|address| address.values.iter().all(|value| sockets(value)[0].starts_with("unix:")));
        if !entry.values.is_empty() && entry.origin != Origin::Default && !is_unix {
            let found = format!("`{}` is for a Unix socket", entry.option.name);
            let hint = format!("remove `{}`, or set address = \"unix:PATH\"", entry.option.name);
            errors.push(entry.error(0, found, "expected it beside a unix:PATH", hint));
        }
    }
}

/// Describes where an option stands, for an error about another one.
pub(super) fn place_of(file: Option<&ConfigFile>, before: &OptionValue, after: &OptionValue) -> String {
    match before.origin {
        Origin::File(line) if before.place == after.place => format!("line {line} has it already"),
        Origin::File(line) => {
            let path = before.path_in(file).map(|path| path.printable().to_string());
            format!("line {line} of {} has it already", path.unwrap_or_default())
        }
        Origin::Flag | Origin::Default => "an earlier value is the same".to_owned(),
    }
}

/// Adds an error if the admin listener has the address of a listener.
fn admin_conflicts(entries: &[OptionValue], is_fixed: impl Fn(&str) -> bool, errors: &mut Vec<ConfigError>) {
    for admin in entries_of(entries, "server", &["admin"]) {
        for (at, value) in admin.values.iter().enumerate().filter(|(_, value)| is_fixed(value)) {
            let mut listeners = entries_of(entries, "listener", &["address"]).flat_map(|entry| &entry.values);
            if listeners.any(|listener| sockets(listener).contains(value)) {
                let found = format!("admin {} is also a listener", admin.shown(at).printable());
                let hint = "use another port, as in admin = \"127.0.0.1:9000\", a Unix socket, or off";
                errors.push(admin.error(at, found, "expected an address of its own", hint));
            }
        }
    }
}

/// Adds an error for each listener whose port another listener has at all addresses of the host: only one of them could bind it.
fn port_conflicts(file: Option<&ConfigFile>, entries: &[OptionValue], errors: &mut Vec<ConfigError>) {
    let named = entries_of(entries, "listener", &["address"])
        .chain(entries_of(entries, "site", &["listen"]))
        .chain(entries_of(entries, "server", &["admin"]));
    let mut before: Vec<(SocketAddr, &OptionValue)> = Vec::new();
    for entry in named {
        for (at, value) in entry.values.iter().enumerate() {
            let addresses: Vec<SocketAddr> =
                sockets(value).iter().filter_map(|text| text.parse().ok()).collect();
            let shared = before.iter().find(|(known, _)| addresses.iter().any(|at| shares_port(*known, *at)));
            if let Some((known, other)) = shared {
                let found = format!("{} uses the port of {known}", entry.shown(at).printable());
                let hint = "keep the one at all addresses, or use another port";
                errors.push(entry.error(at, found, place_of(file, other, entry), hint));
            }
            before.extend(addresses.into_iter().map(|address| (address, entry)));
        }
    }
}

/// Returns whether a program can listen at only one of these, as one of them is the port of all addresses of the family.
fn shares_port(one: SocketAddr, other: SocketAddr) -> bool {
    one != other
        && one.port() != 0
        && one.port() == other.port()
        && one.is_ipv4() == other.is_ipv4()
        && (one.ip().is_unspecified() || other.ip().is_unspecified())
}

/// Adds an error for each default site after the first, and for a default site whose requests the server refuses.
fn default_conflicts(entries: &[OptionValue], errors: &mut Vec<ConfigError>) {
    let mut defaults = entries_of(entries, "site", &["default"]).filter(|entry| is_on(entry));
    if entries_of(entries, "server", &["refuse-unknown-hosts"]).any(is_on)
        && let Some(default) = defaults.next()
    {
        let found = "this site is the default, but refuse-unknown-hosts refuses what it would answer";
        let hint = "remove default or refuse-unknown-hosts";
        errors.push(default.error(0, found, "expected one of the two", hint));
    }
    for entry in entries_of(entries, "site", &["default"]).filter(|entry| is_on(entry)).skip(1) {
        let hint = "keep `default` in one site";
        errors.push(entry.error(0, "another site is the default already", "expected one default site", hint));
    }
}

/// Adds an error for trusted proxies that nothing reads, and for options that read what no proxy is trusted to send.
fn proxy_conflicts(entries: &[OptionValue], errors: &mut Vec<ConfigError>) {
    let server_option =
        |name| entries.iter().find(|entry| is_option(entry, "server", name) && !entry.values.is_empty());
    let (proxies, field) = (server_option("trusted-proxies"), server_option("client-address-from"));
    let mut proxied =
        entries_of(entries, "listener", &["proxy-protocol"]).filter(|entry| is_on(entry)).peekable();
    match (proxies, field) {
        (Some(proxies), None) if proxied.peek().is_none() => {
            let hint = "add client-address-from = \"x-forwarded-for\" or \"forwarded\", whichever header your proxies set";
            let found = "nothing reads what the trusted proxies send";
            errors.push(proxies.error(0, found, "expected `client-address-from` beside it", hint));
        }
        (Some(_), _) => {}
        (None, field) => {
            let hint =
                "add the addresses of your proxies, as in trusted-proxies = [\"10.0.0.0/8\", \"unix\"]";
            for (entry, found) in field
                .map(|field| (field, "this header is never read, as no proxy is trusted to send it"))
                .into_iter()
                .chain(
                    proxied.map(|listener| (listener, "every connection is refused, as no proxy is trusted")),
                )
            {
                errors.push(entry.error(0, found, "expected `trusted-proxies` in [server]", hint));
            }
        }
    }
}

/// Returns some options in every section of the configuration.
pub(super) fn entries_of<'a>(
    entries: &'a [OptionValue],
    section: &'a str,
    options: &'a [&str],
) -> impl Iterator<Item = &'a OptionValue> {
    let is_wanted = |entry: &OptionValue| options.iter().any(|option| is_option(entry, section, option));
    entries.iter().filter(move |entry| entry.number.is_some() && is_wanted(entry))
}

pub(super) fn is_option(entry: &OptionValue, section: &str, option: &str) -> bool {
    entry.section.name == section && entry.option.name == option
}

fn is_on(entry: &OptionValue) -> bool {
    entry.values.first().is_some_and(|value| value == "true")
}
