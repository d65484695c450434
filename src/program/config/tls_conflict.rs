//! Conflicts between options of TLS: listeners without certificates, certificates without listeners, files that do not pair up.

use super::{
    ConfigError, ConfigFile, OptionDefault, OptionValue,
    conflict::{entries_of, is_option, place_of, sockets},
};
use crate::ListenValue;
use std::collections::BTreeMap;
use tarpon_site::Printable;

/// Adds an error for each conflict. All values are valid by themselves.
pub(super) fn find(file: Option<&ConfigFile>, entries: &[OptionValue], errors: &mut Vec<ConfigError>) {
    find_two_kinds(file, entries, errors);
    find_unpaired(entries, errors);
    find_unasked(entries, errors);
    find_missing(entries, errors);
    find_unredirected(entries, errors);
    find_unproved(entries, errors);
    if errors.is_empty() {
        find_weaker(entries, errors);
    }
}

/// Adds an error for each redirect that leads nowhere, and for each site that would tell browsers without TLS to use only HTTPS.
fn find_unredirected(entries: &[OptionValue], errors: &mut Vec<ConfigError>) {
    let has_listener = listens(entries).any(|entry| entry.values.iter().any(|value| has_tls(value)));
    let has_domain = |of: &OptionValue| {
        entries_of(entries, "site", &["domain"])
            .any(|entry| entry.number == of.number && !entry.values.is_empty())
    };
    let has_proxy = entries_of(entries, "server", &["client-address-from"]).any(|entry| is_on(&entry));
    for redirect in entries_of(entries, "site", &["redirect-to-https"]).filter(is_on) {
        // A site with domains has listeners with TLS by default.
        if !has_listener && !has_proxy && !has_domain(redirect) {
            let hint = "add --listen tls:443 with a certificate, or name the proxy that ends TLS: trusted-proxies and client-address-from";
            errors.push(redirect.error(0, "nothing answers with TLS", "expected a listener with TLS", hint));
        }
    }
    for hsts in entries_of(entries, "site", &["hsts"]).filter(is_on) {
        let mut redirects = entries_of(entries, "site", &["redirect-to-https"]);
        let redirects = redirects.find(|redirect| redirect.number == hsts.number);
        if !redirects.map_or_else(|| has_domain(hsts), |redirect| is_on(&redirect)) {
            let hint = "add redirect-to-https = true to the site";
            let found = "browsers must not get Strict-Transport-Security without TLS";
            errors.push(hsts.error(0, found, "expected `redirect-to-https` beside it", hint));
        }
    }
}

/// Adds an error for tls-alpn-01 without a listener where the directory could begin a handshake.
fn find_unproved(entries: &[OptionValue], errors: &mut Vec<ConfigError>) {
    let obtains = entries_of(entries, "site", &["domain"]).any(|entry| !entry.values.is_empty());
    let mut values = listens(entries).flat_map(|entry| &entry.values).peekable();
    // Without listeners the server has one with TLS.
    if !obtains || values.peek().is_none() || values.any(|value| has_tls(value)) {
        return;
    }
    let is_alpn = |entry: &&OptionValue| entry.values.first().is_some_and(|value| value == "tls-alpn-01");
    if let Some(challenge) = entries_of(entries, "server", &["acme-challenge"]).find(is_alpn) {
        let hint = "add --listen tls:443, or use --acme-challenge http-01";
        errors.push(challenge.error(0, "nothing answers with TLS", "expected a listener with TLS", hint));
    }
}

/// Returns the options that name listeners.
fn listens(entries: &[OptionValue]) -> impl Iterator<Item = &OptionValue> {
    entries_of(entries, "listener", &["address"]).chain(entries_of(entries, "site", &["listen"]))
}

pub(super) fn has_tls(value: &str) -> bool {
    value.starts_with(ListenValue::TLS)
}

/// Returns whether an option has a value that is not `false`.
fn is_on(entry: &&OptionValue) -> bool {
    entry.values.first().is_some_and(|value| value != "false")
}

/// Adds an error for each address that has TLS at one place and not at another.
fn find_two_kinds(file: Option<&ConfigFile>, entries: &[OptionValue], errors: &mut Vec<ConfigError>) {
    let mut first: BTreeMap<String, (bool, &OptionValue)> = BTreeMap::new();
    for entry in listens(entries) {
        for (at, value) in entry.values.iter().enumerate() {
            for socket in sockets(value) {
                let &mut (is_tls, before) = first.entry(socket).or_insert((has_tls(value), entry));
                if is_tls != has_tls(value) {
                    let found = format!("{} has TLS at one place only", sockets(value).join(" and "));
                    let expected =
                        place_of(file, before, entry).replace("has it already", "names it the other way");
                    errors.push(entry.error(
                        at,
                        found,
                        expected,
                        "write tls: in front of the address at both places, or at none",
                    ));
                    break;
                }
            }
        }
    }
}

/// Adds an error for each key or OCSP response without a certificate, and for certificates of which only some have a key.
fn find_unpaired(entries: &[OptionValue], errors: &mut Vec<ConfigError>) {
    for section in ["server", "site"] {
        for certificates in entries_of(entries, section, &["tls-cert"]) {
            let count = certificates.values.len();
            let of_section = |name| {
                let is_same = |entry: &&OptionValue| {
                    entry.number == certificates.number && is_option(entry, section, name)
                };
                entries.iter().find(is_same).filter(|entry| !entry.values.is_empty())
            };
            let nth = |count: usize| {
                format!(
                    "expected {}",
                    if count == 1 { "one of each".to_owned() } else { format!("{count} of each") }
                )
            };
            if let Some(keys) = of_section("tls-key").filter(|keys| keys.values.len() != count) {
                let found = format!("tls-cert names {count} files, and tls-key {}", keys.values.len());
                let hint = "name a key for each certificate, in the same order; without tls-key, the files of the certificates hold the keys";
                let at = keys.values.len().min(count + 1) - 1;
                errors.push(keys.error(at, found, nth(count.max(1)), hint));
            }
            if let Some(ocsp) = of_section("tls-ocsp").filter(|ocsp| ocsp.values.len() > count) {
                let found = format!("tls-cert names {count} files, and tls-ocsp {}", ocsp.values.len());
                errors.push(ocsp.error(
                    count,
                    found,
                    nth(count.max(1)),
                    "name a certificate for each OCSP response, in the same order",
                ));
            }
        }
    }
}

/// Adds an error for each option about clients of a listener that nothing reads.
fn find_unasked(entries: &[OptionValue], errors: &mut Vec<ConfigError>) {
    // A value that is the default changes nothing: `tarpon config show --toml` writes it.
    let is_set = |entry: &&OptionValue| match (entry.values.first(), entry.option.default) {
        (Some(value), OptionDefault::Value(default)) => value != default,
        (value, _) => value.is_some(),
    };
    for entry in entries_of(entries, "listener", &["tls-client-ca", "tls-client-auth", "tls-min-version"])
        .filter(is_set)
    {
        let of_listener = |name| {
            entries.iter().find(|other| other.number == entry.number && is_option(other, "listener", name))
        };
        let name = entry.option.name;
        if !of_listener("address").is_some_and(|address| address.values.iter().all(|value| has_tls(value))) {
            let hint = format!(
                "write tls: in front of the address, as in address = \"tls:0.0.0.0:443\", or remove {name}"
            );
            errors.push(entry.error(
                0,
                format!("`{name}` is for a listener with TLS"),
                "expected it beside tls:…",
                hint,
            ));
        } else if name == "tls-client-auth"
            && of_listener("tls-client-ca").is_none_or(|ca| ca.values.is_empty())
        {
            let hint = "add tls-client-ca = \"FILE\" with the authorities that sign certificates of clients";
            let found = "this listener asks clients for no certificate";
            errors.push(entry.error(0, found, "expected `tls-client-ca` beside it", hint));
        }
    }
}

/// Adds an error for each listener that requires certificates of clients while one of its sites also answers at a listener without that
/// requirement: every client could read the site there.
fn find_weaker(entries: &[OptionValue], errors: &mut Vec<ConfigError>) {
    let sockets_of =
        |entry: &OptionValue| entry.values.iter().flat_map(|value| sockets(value)).collect::<Vec<_>>();
    let of_listener = |number, name: &'static str| {
        entries.iter().find(|entry| entry.number == number && is_option(entry, "listener", name))
    };
    let mut required: BTreeMap<String, &OptionValue> = BTreeMap::new();
    for ca in entries_of(entries, "listener", &["tls-client-ca"]).filter(|ca| !ca.values.is_empty()) {
        let is_optional = |auth: &OptionValue| auth.values.first().is_some_and(|value| value == "optional");
        if !of_listener(ca.number, "tls-client-auth").is_some_and(is_optional)
            && let Some(address) = of_listener(ca.number, "address")
        {
            required.extend(sockets_of(address).into_iter().map(|socket| (socket, ca)));
        }
    }
    let values = || listens(entries).flat_map(|entry| &entry.values).filter(|value| has_tls(value));
    let with_tls: Vec<String> = values().flat_map(|value| sockets(value)).collect();
    let named: Vec<String> = entries_of(entries, "site", &["listen"]).flat_map(sockets_of).collect();
    let all = listens(entries).flat_map(sockets_of);
    let general: Vec<String> = all.filter(|socket| !named.contains(socket)).collect();
    for listen in entries_of(entries, "site", &["listen"]) {
        let own = sockets_of(listen);
        let reached = if own.is_empty() { &general } else { &own };
        // Without TLS, such a site only redirects.
        let redirects = entries_of(entries, "site", &["redirect-to-https"])
            .any(|entry| entry.number == listen.number && is_on(&entry));
        let is_redirected = |socket: &String| redirects && !with_tls.contains(socket);
        let weaker = reached.iter().find(|socket| !required.contains_key(*socket) && !is_redirected(socket));
        let asked = reached.iter().find_map(|socket| required.get(socket));
        if let (Some(weaker), Some(ca)) = (weaker, asked) {
            let is_this =
                |entry: &&OptionValue| entry.number == listen.number && is_option(entry, "site", "path");
            let site = entries.iter().find(is_this).map_or("a site", |path| path.shown(0));
            let found = format!(
                "site {} also answers at {weaker}, which requires no certificate of clients",
                site.printable()
            );
            let hint =
                "name this listener alone in `listen` of the site, and another site at the other listener";
            errors.push(ca.error(0, found, "expected a site that only such clients can reach", hint));
        }
    }
}

/// Adds an error for a listener with TLS if there is no certificate, and for a certificate if no listener has TLS.
fn find_missing(entries: &[OptionValue], errors: &mut Vec<ConfigError>) {
    let listener = listens(entries)
        .find_map(|entry| Some((entry, entry.values.iter().position(|value| has_tls(value))?)));
    let server = entries_of(entries, "server", &["tls-cert", "tls"]);
    let obtains = entries_of(entries, "site", &["domain"]).any(|entry| !entry.values.is_empty());
    let mut certificates = server.chain(entries_of(entries, "site", &["tls-cert"]));
    let certificate = certificates.find(|entry| !entry.values.is_empty());
    match (listener, certificate) {
        (Some((listener, at)), None) if !obtains => {
            let found = "there is no certificate for this listener";
            let hint = "add --domain NAME to obtain one, name one with --tls-cert FILE --tls-key FILE, or add --tls self-signed for development";
            errors.push(listener.error(at, found, "expected `tls-cert` in [server] or in a [[site]]", hint));
        }
        (None, Some(certificate)) => {
            let found = format!("no listener uses `{}`", certificate.option.name);
            let hint = "add --listen tls:443, or write tls: in front of an address, as in address = \"tls:0.0.0.0:443\"";
            errors.push(certificate.error(0, found, "expected a listener with TLS", hint));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use crate::program::config::{CliFlags, CommandKind, ConfigFile, read};

    #[test]
    #[rustfmt::skip]
    fn conflict_of_tls_options_is_reported_with_its_position() {
        let listener = "[[listener]]\naddress = \"tls::443\"\n";
        let server = "[server]\ntls-cert = [\"a\"]\n";
        let site = "[[site]]\npath = \".\"\n";
        let cases: &[(&str, String, &[&str])] = &[
            // case                       configuration                                                errors
            ("both",                      format!("{listener}{server}"),                               &[]),
            ("of a site",                 format!("{listener}{site}tls-cert = [\"a\"]\ntls-key = [\"b\"]"), &[]),
            ("self-signed",               format!("{listener}[server]\ntls = \"self-signed\""),        &[]),
            ("no certificate",            listener.into(),                                             &["2:11: there is no certificate for this listener; expected `tls-cert` in [server] or in a [[site]]; add --domain NAME to obtain one, name one with --tls-cert"]),
            ("no listener",               server.into(),                                               &["2:13: no listener uses `tls-cert`; expected a listener with TLS; add --listen tls:443"]),
            ("a redirect",                format!("{listener}{server}{site}redirect-to-https = true\nhsts = \"365d\""), &[]),
            ("a redirect to nowhere",     format!("{site}redirect-to-https = true"),                   &["3:21: nothing answers with TLS; expected a listener with TLS; add --listen tls:443"]),
            ("a proxy ends TLS",          format!("{site}redirect-to-https = true\n[server]\ntrusted-proxies = [\"127.0.0.1\"]\nclient-address-from = \"forwarded\""), &[]),
            ("proof without TLS",         format!("{site}domain = [\"a.org\"]\n[[listener]]\naddress = \":80\"\n[server]\nacme-challenge = \"tls-alpn-01\""), &["7:18: nothing answers with TLS; expected a listener with TLS; add --listen tls:443, or use"]),
            ("proof with TLS",            format!("{site}domain = [\"a.org\"]\n{listener}[server]\nacme-challenge = \"tls-alpn-01\""), &[]),
            ("proof by default",          format!("{site}domain = [\"a.org\"]\n[server]\nacme-challenge = \"tls-alpn-01\""), &[]),
            ("HSTS without TLS",          format!("{listener}{server}{site}hsts = \"365d\""),          &["7:8: browsers must not get Strict-Transport-Security without TLS; expected `redirect-to-https` beside it"]),
            ("self-signed, no listener",  "[server]\ntls = \"self-signed\"".into(),                    &["2:7: no listener uses `tls`; expected a listener with TLS;"]),
            ("a key too many",            format!("{listener}{server}tls-key = [\"a\", \"b\"]"),       &["5:17: tls-cert names 1 files, and tls-key 2; expected one of each; name a key for each"]),
            ("a key too few",             format!("{listener}[server]\ntls-cert = [\"a\", \"b\"]\ntls-key = [\"a\"]"), &["5:12: tls-cert names 2 files, and tls-key 1; expected 2 of each;"]),
            ("a response too many",       format!("{listener}{server}tls-ocsp = [\"a\", \"b\"]"),      &["5:18: tls-cert names 1 files, and tls-ocsp 2;"]),
            ("of a site only",            format!("{site}listen = [\"tls::443\"]\n{server}"),          &[]),
            ("tls at one place",          format!("{listener}{site}listen = [\":443\"]\n{server}"),    &["5:11: 0.0.0.0:443 and [::]:443 has TLS at one place only"]),
            ("twice the same socket",     format!("{listener}[[listener]]\naddress = \":443\"\n{server}"), &["4:11: listener 0.0.0.0:443 occurs twice"]),
            ("clients without TLS",       format!("{listener}[[listener]]\naddress = \":80\"\ntls-client-ca = \"a\"\n{server}"), &["5:17: `tls-client-ca` is for a listener with TLS; expected it beside tls:…; write tls: in front"]),
            ("version without TLS",       "[[listener]]\naddress = \":80\"\ntls-min-version = \"1.3\"".into(), &["3:19: `tls-min-version` is for a listener with TLS;"]),
            ("auth without authorities",  format!("{listener}tls-client-auth = \"optional\"\n{server}"), &["3:19: this listener asks clients for no certificate; expected `tls-client-ca` beside it;"]),
            ("clients",                   format!("{listener}tls-client-auth = \"optional\"\ntls-client-ca = \"a\"\n{server}"), &[]),
            ("clients, optional",         format!("[[listener]]\naddress = \"80\"\n{listener}tls-client-auth = \"optional\"\ntls-client-ca = \"a\"\n{server}"), &[]),
            ("clients, required",         format!("{listener}tls-client-ca = \"a\"\n{server}"),       &[]),
            ("another listener",          format!("[[listener]]\naddress = \":80\"\n{listener}tls-client-ca = \"a\"\n{server}"),
                &["5:17: site . also answers at 0.0.0.0:80, which requires no certificate of clients; expected a site that only such clients can reach; name this listener alone"]),
            ("another that redirects",    format!("{site}redirect-to-https = true\n[[listener]]\naddress = \":80\"\n{listener}tls-client-ca = \"a\"\n{server}"), &[]),
            ("a site of its own",         format!("{site}listen = [\"tls::443\"]\n{site}[[listener]]\naddress = \":80\"\n{listener}tls-client-ca = \"a\"\n{server}"), &[]),
            ("a site at both",            format!("{site}listen = [\"tls::443\", \":80\"]\n{listener}tls-client-ca = \"a\"\n{server}"),
                &["6:17: site . also answers at 0.0.0.0:80,"]),
            ("tls = true",                format!("{listener}tls = true\n{server}"),                   &["3:1: unknown option `tls`; expected an option of [[listener]]; write it in front of the address, as in address = \"tls:0.0.0.0:443\""]),
        ];
        for (name, text, want) in cases {
            let file = ConfigFile::new("tarpon.toml", text.clone());
            let found = read(Some(&file), &CliFlags::default(), CommandKind::Serve).map_or_else(|errors| errors.lines(), |_| Vec::new());
            let is_same = found.len() == want.len() && found.iter().zip(*want).all(|(found, want)| found.starts_with(want));
            assert!(is_same, "{name}: {found:#?}");
        }
    }
}
