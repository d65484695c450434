//! Values of the options about certificates by ACME, and the conflicts between them.

use super::{Config, ConfigError, OptionValue};
use crate::{
    AcmeChallenge, AcmeConfig, Address, ExternalAccount, HostName, LETS_ENCRYPT, LETS_ENCRYPT_STAGING,
    ListenAddress, UserError,
};

/// Names of a certificate, at most: the limit of Let's Encrypt.
const NAME_COUNT_MAX: usize = 100;

/// Where a server listens that obtains certificates and names no listener: plain for redirects and http-01, and with TLS.
pub(crate) const DOMAIN_LISTENERS: [&str; 2] = [":80", "tls:443"];

/// Accepts a name that a certificate may have: no address.
pub(super) fn domain(text: &str) -> Result<String, String> {
    let name: HostName = text.parse().map_err(|error: crate::HostNameError| error.to_string())?;
    let name = name.to_string();
    let is_address = name.contains(':') || name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    match is_address {
        true => {
            Err("expected a name of the DNS, as directories give no certificates for addresses".to_owned())
        }
        false => Ok(name),
    }
}

pub(super) const NO_DOMAINS: &[&str] = &[
    "",
    "*",
    "a..org",
    "example.org:80",
    "https://example.org",
    "b\u{fc}cher.example",
    "192.0.2.1",
    "[::1]",
];

/// Accepts the URL of a directory, or one of two words.
pub(super) fn directory(text: &str) -> Result<String, String> {
    let host =
        text.strip_prefix("https://").map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    let is_visible = text.bytes().all(|byte| byte.is_ascii_graphic());
    match text {
        "production" | "staging" => Ok(text.to_owned()),
        _ if is_visible && host.is_some_and(|host| !host.is_empty() && !host.contains('@')) => {
            Ok(text.to_owned())
        }
        _ => {
            Err("expected production, staging, or the URL of a directory that begins with https://"
                .to_owned())
        }
    }
}

pub(super) const NO_DIRECTORIES: &[&str] =
    &["", "Staging", "http://ca.example/", "https:///", "https://a b/", "https://a@b/", "ca.example"];

/// Returns the URL of a directory.
pub(super) fn directory_url(text: String) -> String {
    match &*text {
        "production" => LETS_ENCRYPT.to_owned(),
        "staging" => LETS_ENCRYPT_STAGING.to_owned(),
        _ => text,
    }
}

/// Accepts an address of mail.
pub(super) fn email(text: &str) -> Result<String, String> {
    let is_part = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_graphic() && !b",;?&<>()\"@".contains(&byte))
    };
    match text.split_once('@') {
        Some((user, host)) if is_part(user) && is_part(host) => Ok(text.to_owned()),
        _ => Err("expected an address of mail".to_owned()),
    }
}

pub(super) const NO_EMAILS: &[&str] =
    &["", "admin", "@example.org", "admin@", "a@b@c", "a b@c", "a@b,c@d", "a@b?c"];

/// Accepts the identifier of an external account.
pub(super) fn key_id(text: &str) -> Result<String, String> {
    match !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(text.to_owned()),
        false => Err("expected the identifier that the operator of the directory has given".to_owned()),
    }
}

/// Accepts the key of an external account.
pub(super) fn key(text: &str) -> Result<String, String> {
    let digits = text.trim_end_matches('=');
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    match !digits.is_empty() && digits.len() % 4 != 1 && digits.bytes().all(is_digit) {
        true => Ok(text.to_owned()),
        false => Err("expected a key in base64url".to_owned()),
    }
}

pub(super) const NO_KEYS: &[&str] = &["", "=", "a", "a+b/", "a b"];

/// Sets a part of the external account.
pub(super) fn external_account(config: &mut AcmeConfig) -> &mut ExternalAccount {
    config
        .external_account
        .get_or_insert_with(|| ExternalAccount { key_id: String::new(), key: String::new() })
}

/// Adds an error for each name that the configured challenge cannot prove, and for options that lack their counterpart.
pub(super) fn conflicts(entries: &[OptionValue], config: &AcmeConfig, errors: &mut Vec<ConfigError>) {
    let of_server = |name: &str| {
        entries.iter().find(|entry| {
            entry.section.name == "server" && entry.option.name == name && !entry.values.is_empty()
        })
    };
    let domains = entries.iter().filter(|entry| {
        entry.section.name == "site" && entry.option.name == "domain" && entry.number.is_some()
    });
    for domain in domains {
        let is_dns = config.challenge == AcmeChallenge::Dns01;
        for (at, _) in domain.values.iter().enumerate().filter(|(_, name)| name.starts_with("*.") && !is_dns)
        {
            let found = "a name with * is proved by dns-01 only";
            let hint = "add acme-challenge = \"dns-01\" and acme-dns-hook to [server], or name each host";
            errors.push(domain.error(at, found, "expected a name without *", hint));
        }
        if domain.values.len() > NAME_COUNT_MAX {
            let found = format!("{} names for one certificate", domain.values.len());
            let hint = "give the site several sections, with some of the names each";
            errors.push(domain.error(NAME_COUNT_MAX, found, "expected at most 100", hint));
        }
    }
    if let Some(challenge) = of_server("acme-challenge")
        && config.challenge == AcmeChallenge::Dns01
        && config.dns_hook.is_none()
    {
        let hint = "add acme-dns-hook = \"PROGRAM\", which publishes the records";
        errors.push(challenge.error(
            0,
            "dns-01 needs a program that publishes records",
            "expected `acme-dns-hook`",
            hint,
        ));
    }
    let pairs = [("acme-eab-kid", "acme-eab-key"), ("acme-eab-key", "acme-eab-kid")];
    for (name, counterpart) in pairs {
        if let (Some(entry), None) = (of_server(name), of_server(counterpart)) {
            let found = format!("{name} without {counterpart}");
            let hint = "add the other one: the operator of the directory gives both";
            errors.push(entry.error(0, found, "expected both of them", hint));
        }
    }
}

/// Returns the warning that a directory may not reach this server: no listener has the port that it connects to. A router or a container may lead
/// that port to another one.
pub(crate) fn unreachable(config: &Config) -> Option<UserError> {
    let (challenge, port, has_tls) = match config.server.acme.challenge {
        AcmeChallenge::Http01 => ("http-01", 80, false),
        AcmeChallenge::TlsAlpn01 => ("tls-alpn-01", 443, true),
        AcmeChallenge::Dns01 => return None,
    };
    let names = config.sites.iter().flat_map(|site| &site.domains).next()?;
    let of_sites = config
        .sites
        .iter()
        .flat_map(|site| site.listen.iter().map(|address| (address, site.tls_listen.contains(address))));
    let of_server = config.listeners.iter().map(|listener| (&listener.address, listener.has_tls));
    let has_port = |address: &ListenAddress| match address {
        ListenAddress::One(Address::Tcp(address)) => address.port() == port,
        ListenAddress::All(number) => *number == port,
        ListenAddress::One(Address::Unix(_)) | ListenAddress::Localhost(_) => false,
    };
    let is_there = of_server.chain(of_sites).any(|(address, tls)| tls == has_tls && has_port(address));
    // Without listeners the server has both ports.
    if config.listeners.is_empty() || is_there {
        return None;
    }
    let with = if has_tls { "with" } else { "without" };
    let listen = if has_tls { "tls:443" } else { ":80" };
    Some(UserError::new(
        format_args!("a directory may not reach {names}"),
        format_args!("by {challenge} it connects to port {port}, where no listener {with} TLS is"),
        format_args!("add --listen {listen}, or lead port {port} of the router or container to a listener"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::config::{CliFlags, CommandKind, ConfigFile, read};

    #[test]
    fn listeners_where_no_directory_connects_cause_a_warning() {
        let site = "[[site]]\npath = \".\"\ndomain = [\"a.test\"]\n";
        let listen = |addresses: &[&str]| {
            addresses.iter().map(|at| format!("[[listener]]\naddress = \"{at}\"\n")).collect::<String>()
        };
        let alpn = "[server]\nacme-challenge = \"tls-alpn-01\"\n";
        let dns = "[server]\nacme-challenge = \"dns-01\"\nacme-dns-hook = \"hook\"\n";
        #[rustfmt::skip]
        let cases = [
            // case                     listeners                  options  warned of
            ("both",                    listen(&[":80", "tls:443"]),   "",      None),
            ("by default",              String::new(),                 "",      None),
            ("one address",             listen(&["192.0.2.1:80"]),     "",      None),
            ("another port",            listen(&[":8080", "tls:443"]), "",      Some("port 80, where no listener without TLS is; add --listen :80, or lead")),
            ("port 80 with TLS",        listen(&["tls:80"]),           "",      Some("port 80,")),
            ("this host only",          listen(&["localhost:80"]),     "",      Some("port 80,")),
            ("tls-alpn-01",             listen(&["tls:443"]),          alpn,    None),
            ("tls-alpn-01, elsewhere",  listen(&[":80", "tls:8443"]),  alpn,    Some("port 443, where no listener with TLS is; add --listen tls:443,")),
            ("dns-01",                  listen(&[":8080"]),            dns,     None),
        ];
        for (name, listeners, options, want) in cases {
            let file = ConfigFile::new("tarpon.toml", format!("{site}{listeners}{options}"));
            let resolved = read(Some(&file), &CliFlags::default(), CommandKind::Serve);
            let resolved = resolved.unwrap_or_else(|errors| panic!("{name}: {:?}", errors.lines()));
            let warning = unreachable(&resolved.config).map(|warning| warning.to_string());
            match (&warning, want) {
                (None, None) => {}
                (Some(warning), Some(want)) => assert!(warning.contains(want), "{name}: {warning}"),
                _ => panic!("{name}: {warning:?}"),
            }
        }
    }
}
