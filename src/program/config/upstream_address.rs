//! The addresses of upstream servers, as URLs.
//!
//! ```text
//! http://HOST[:PORT][/BASE]    https://HOST[:PORT][/BASE]    fastcgi://HOST:PORT
//! http://unix:/PATH            fastcgi://unix:/PATH
//! ```
//!
//! Looks no name up. An error quotes nothing of the text: that may have parts of the environment.

use crate::{HostName, UpstreamAddress, UpstreamProtocol, UpstreamServer};
use UpstreamProtocol::{FastCgi, Http, Https};
use std::{
    fmt,
    net::{Ipv4Addr, Ipv6Addr},
    ops::RangeInclusive,
};

/// The address of an upstream server, and what follows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UpstreamUrl {
    pub(super) protocol: UpstreamProtocol,
    pub(super) address: UpstreamAddress,
    /// The path behind the address, without a slash at its end. `None`: there is none, not even a slash.
    pub(super) base: Option<String>,
}

/// The reason why a text is no address of an upstream server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UrlError {
    /// It has no `://`.
    NoScheme,
    /// Its scheme is none of an upstream.
    Scheme,
    /// Its scheme is `ws` or `wss`.
    WebSocket,
    /// It has a user, and perhaps a password.
    UserInfo,
    /// It has a `?` or `#`.
    Query,
    /// Its host is empty, a pattern, or has other characters than a host.
    Host,
    /// Its host is an IPv6 address without brackets.
    Brackets,
    /// Its port is none.
    Port,
    /// It has no port, and its scheme has no default.
    NoPort,
    /// It names a Unix socket with a scheme that has none.
    UnixScheme,
    /// The path of its Unix socket is none, or too long.
    UnixPath,
    /// The path behind it is none.
    Base,
    /// It has a path where none is allowed.
    NoBase,
}

/// Weights of servers: those of HAProxy.
const WEIGHTS: RangeInclusive<u32> = 1..=256;

/// The longest path of a Unix socket in bytes: that of Linux, `sun_path` of unix(7) without the NUL at its end.
const UNIX_PATH_LEN_MAX: usize = 107;

impl UpstreamUrl {
    /// Parses an address.
    pub(super) fn parse(text: &str) -> Result<UpstreamUrl, UrlError> {
        let (scheme, rest) = text.split_once("://").ok_or(UrlError::NoScheme)?;
        let protocol = match &*scheme.to_ascii_lowercase() {
            "http" => Http,
            "https" => Https,
            "fastcgi" => FastCgi,
            "ws" | "wss" => return Err(UrlError::WebSocket),
            _ => return Err(UrlError::Scheme),
        };
        if let Some(path) = rest.strip_prefix("unix:") {
            return Ok(UpstreamUrl { protocol, address: unix(protocol, path)?, base: None });
        }
        if rest.contains(['?', '#']) {
            return Err(UrlError::Query);
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err(UrlError::UserInfo);
        }
        let (host, port) = host_and_port(authority)?;
        let port = port.or(default_port(protocol)).ok_or(UrlError::NoPort)?;
        let base = if path.is_empty() { None } else { Some(base(path)?) };
        if protocol == FastCgi && base.is_some() {
            return Err(UrlError::NoBase);
        }
        Ok(UpstreamUrl { protocol, address: UpstreamAddress::Tcp { host, port }, base })
    }

    /// Returns the address in its canonical form, without the path behind it.
    pub(super) fn server_text(&self) -> String {
        let scheme = match self.protocol {
            Http => "http",
            Https => "https",
            FastCgi => "fastcgi",
        };
        match &self.address {
            UpstreamAddress::Unix(path) => format!("{scheme}://unix:{}", path.to_string_lossy()),
            UpstreamAddress::Tcp { host, port } => {
                let port = Some(*port).filter(|port| Some(*port) != default_port(self.protocol));
                format!("{scheme}://{}", authority_text(host, port))
            }
        }
    }
}

/// A server of an `[[upstream]]`: its address, and its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerValue {
    pub(super) protocol: UpstreamProtocol,
    pub(super) server: UpstreamServer,
}

impl ServerValue {
    /// Parses `ADDRESS [weight=N] [backup] [drain]`. Returns it with its canonical form.
    ///
    /// # Errors
    /// What was expected.
    pub(super) fn parse(text: &str) -> Result<(ServerValue, String), String> {
        let mut words = text.split_ascii_whitespace();
        let url = UpstreamUrl::parse(words.next().unwrap_or_default()).map_err(|error| error.to_string())?;
        if url.base.is_some() {
            return Err(
                "expected no path behind the address: write it in `proxy`, as in /api/=NAME/BASE".to_owned()
            );
        }
        let (mut weight, mut is_backup, mut is_draining) = (None, false, false);
        for word in words {
            let is_first = match (word, word.strip_prefix("weight=")) {
                ("backup", _) => !std::mem::replace(&mut is_backup, true),
                ("drain", _) => !std::mem::replace(&mut is_draining, true),
                (_, Some(digits)) => {
                    let number = number(digits).filter(|weight| WEIGHTS.contains(weight));
                    let number = number.ok_or_else(|| {
                        format!("expected a weight from {} to {}", WEIGHTS.start(), WEIGHTS.end())
                    })?;
                    weight.replace(number).is_none()
                }
                _ => return Err("expected weight=N, backup or drain behind the address".to_owned()),
            };
            if !is_first {
                return Err("expected each of weight=N, backup and drain once".to_owned());
            }
        }
        let mut canonical = url.server_text();
        let weight = weight.unwrap_or(1);
        if weight != 1 {
            canonical += &format!(" weight={weight}");
        }
        canonical += if is_backup { " backup" } else { "" };
        canonical += if is_draining { " drain" } else { "" };
        let server = UpstreamServer { address: url.address, weight, is_backup, is_draining };
        Ok((ServerValue { protocol: url.protocol, server }, canonical))
    }
}

/// Returns the canonical form of a host with or without a port, as a request names it.
pub(super) fn authority(text: &str) -> Result<String, UrlError> {
    let (host, port) = host_and_port(text)?;
    Ok(authority_text(&host, port))
}

/// Parses a path that replaces a prefix. Returns it without a slash at its end.
pub(super) fn base(path: &str) -> Result<String, UrlError> {
    let segments = path.strip_prefix('/').ok_or(UrlError::Base)?;
    if segments.is_empty() {
        return Ok(String::new());
    }
    // Characters of a path in a request, without escapes: an escaped dot segment would lead elsewhere. RFC 3986, section 3.3.
    let is_char = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+;=:@".contains(&byte);
    let is_segment = |segment: &str| !matches!(segment, "" | "." | "..") && segment.bytes().all(is_char);
    let segments = segments.strip_suffix('/').unwrap_or(segments);
    if segments.split('/').all(is_segment) { Ok(format!("/{segments}")) } else { Err(UrlError::Base) }
}

/// Parses the path of a Unix socket.
fn unix(protocol: UpstreamProtocol, path: &str) -> Result<UpstreamAddress, UrlError> {
    if protocol == Https {
        return Err(UrlError::UnixScheme);
    }
    let is_char = |char: char| !char.is_whitespace() && !char.is_control() && char != ',';
    match path.starts_with('/') && (2..=UNIX_PATH_LEN_MAX).contains(&path.len()) && path.chars().all(is_char)
    {
        true => Ok(UpstreamAddress::Unix(path.into())),
        false => Err(UrlError::UnixPath),
    }
}

/// Parses a host, which it returns without brackets, and a port.
fn host_and_port(text: &str) -> Result<(String, Option<u16>), UrlError> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']').ok_or(UrlError::Host)?;
            let address: Ipv6Addr = address.parse().map_err(|_| UrlError::Host)?;
            (address.to_string(), port)
        }
        None if text.parse::<Ipv6Addr>().is_ok() || text.matches(':').count() > 1 => {
            return Err(UrlError::Brackets);
        }
        None => {
            let (name, port) = text.split_at(text.find(':').unwrap_or(text.len()));
            (host_name(name)?, port)
        }
    };
    let port = match port.strip_prefix(':') {
        Some(digits) => Some(number(digits).filter(|&port| port > 0).ok_or(UrlError::Port)?),
        None if port.is_empty() => None,
        None => return Err(UrlError::Port),
    };
    let port = port.map(|port| u16::try_from(port).map_err(|_| UrlError::Port)).transpose()?;
    Ok((host, port))
}

/// Accepts a name or an IPv4 address.
fn host_name(name: &str) -> Result<String, UrlError> {
    let name = name.parse::<HostName>().map_err(|_| UrlError::Host)?.to_string();
    // The C library reads 127.1 and 0x7f.1 as addresses: no name of the DNS ends so.
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_number = last.strip_prefix("0x").map_or_else(
        || last.bytes().all(|byte| byte.is_ascii_digit()),
        |hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()),
    );
    match name.starts_with("*.") || is_number && name.parse::<Ipv4Addr>().is_err() {
        true => Err(UrlError::Host),
        false => Ok(name),
    }
}

/// Parses digits. The parser of numbers accepts a plus sign, too.
fn number(digits: &str) -> Option<u32> {
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

/// Returns a host and a port as a URL has them.
fn authority_text(host: &str, port: Option<u16>) -> String {
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    port.map_or(host.clone(), |port| format!("{host}:{port}"))
}

fn default_port(protocol: UpstreamProtocol) -> Option<u16> {
    match protocol {
        Http => Some(80),
        Https => Some(443),
        FastCgi => None,
    }
}

impl fmt::Display for UrlError {
    /// Writes what was expected, and what to do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UrlError::NoScheme => "expected http://, https:// or fastcgi:// in front of the address",
            UrlError::Scheme => "expected http://, https:// or fastcgi://",
            UrlError::WebSocket => {
                "expected http:// in place of ws://, or https:// in place of wss://: a WebSocket begins as a request"
            }
            UrlError::UserInfo => "expected an address without a user and a password",
            UrlError::Query => "expected an address without ? and #",
            UrlError::Host => "expected the name of a host, an IPv4 address, or an IPv6 address in brackets",
            UrlError::Brackets => "expected an IPv6 address in brackets, as in [::1]",
            UrlError::Port => "expected a port from 1 to 65535 behind the host",
            UrlError::NoPort => "expected a port behind the host: FastCGI has no default",
            UrlError::UnixScheme => "expected http:// or fastcgi:// in front of unix:",
            UrlError::UnixPath => {
                "expected an absolute path behind unix:, of at most 107 bytes, without spaces and commas"
            }
            UrlError::Base => "expected a path without empty segments, . and .., escapes and spaces",
            UrlError::NoBase => {
                "expected no path behind the address: FastCGI servers get the path of the client"
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The canonical form and the base.
    type ParsedUrl<'a> = Result<(&'a str, Option<&'a str>), UrlError>;

    /// The canonical form, the weight, whether it is a backup and whether it drains, or what was expected.
    type ParsedServer = Result<(&'static str, u32, bool, bool), &'static str>;

    #[test]
    #[rustfmt::skip]
    fn address_has_one_canonical_form() {
        let long = format!("http://unix:/{}", "a".repeat(UNIX_PATH_LEN_MAX));
        let longest = format!("http://unix:/{}", "a".repeat(UNIX_PATH_LEN_MAX - 1));
        let cases: &[(&str, ParsedUrl<'_>)] = &[
            // text                              canonical, base
            ("http://127.0.0.1:9000",            Ok(("http://127.0.0.1:9000", None))),
            ("HTTP://LocalHost.:9000",           Ok(("http://localhost:9000", None))),
            ("http://app",                       Ok(("http://app", None))),
            ("http://app:80",                    Ok(("http://app", None))),
            ("https://app:443",                  Ok(("https://app", None))),
            ("https://app:80",                   Ok(("https://app:80", None))),
            ("http://my_app:8080",               Ok(("http://my_app:8080", None))),
            ("http://xn--bcher-kva.example",     Ok(("http://xn--bcher-kva.example", None))),
            ("http://[::1]",                     Ok(("http://[::1]", None))),
            ("http://[0:0::1]:9000",             Ok(("http://[::1]:9000", None))),
            ("http://app/",                      Ok(("http://app", Some("")))),
            ("http://app:9000/v1/",              Ok(("http://app:9000", Some("/v1")))),
            ("http://app/a/b.c;d=e:@~",          Ok(("http://app", Some("/a/b.c;d=e:@~")))),
            ("http://unix:/run/app.sock",        Ok(("http://unix:/run/app.sock", None))),
            ("fastcgi://unix:/run/php/fpm.sock", Ok(("fastcgi://unix:/run/php/fpm.sock", None))),
            ("fastcgi://127.0.0.1:9000",         Ok(("fastcgi://127.0.0.1:9000", None))),
            ("fastcgi://[::1]:9000",             Ok(("fastcgi://[::1]:9000", None))),
            (&longest,                           Ok((&longest, None))),
            ("",                                 Err(UrlError::NoScheme)),
            ("127.0.0.1:9000",                   Err(UrlError::NoScheme)),
            ("http:app",                         Err(UrlError::NoScheme)),
            ("unix:/run/app.sock",               Err(UrlError::NoScheme)),
            ("ftp://app",                        Err(UrlError::Scheme)),
            ("://app",                           Err(UrlError::Scheme)),
            ("tcp://app:9000",                   Err(UrlError::Scheme)),
            ("ws://app",                         Err(UrlError::WebSocket)),
            ("wss://app",                        Err(UrlError::WebSocket)),
            ("http://a:b@app",                   Err(UrlError::UserInfo)),
            ("http://a@app/b",                   Err(UrlError::UserInfo)),
            ("http://app?a",                     Err(UrlError::Query)),
            ("http://app/a?b=c",                 Err(UrlError::Query)),
            ("http://app#a",                     Err(UrlError::Query)),
            ("http://",                          Err(UrlError::Host)),
            ("http:///a",                        Err(UrlError::Host)),
            ("http://:80",                       Err(UrlError::Host)),
            ("http://*.example",                 Err(UrlError::Host)),
            ("http://bücher.example",            Err(UrlError::Host)),
            ("http://a b",                       Err(UrlError::Host)),
            ("http://a..b",                      Err(UrlError::Host)),
            ("http://127.1",                     Err(UrlError::Host)),
            ("http://2130706433",                Err(UrlError::Host)),
            ("http://0x7f000001",                Err(UrlError::Host)),
            ("http://127.0.0.256",               Err(UrlError::Host)),
            ("http://127.0.0.01",                Err(UrlError::Host)),
            ("http://[::1",                      Err(UrlError::Host)),
            ("http://[127.0.0.1]",               Err(UrlError::Host)),
            ("http://[fe80::1%eth0]",            Err(UrlError::Host)),
            ("http://::1",                       Err(UrlError::Brackets)),
            ("http://::1:9000",                  Err(UrlError::Brackets)),
            ("http://app:0",                     Err(UrlError::Port)),
            ("http://app:",                      Err(UrlError::Port)),
            ("http://app:65536",                 Err(UrlError::Port)),
            ("http://app:+80",                   Err(UrlError::Port)),
            ("http://app:80a",                   Err(UrlError::Port)),
            ("http://[::1]9000",                 Err(UrlError::Port)),
            ("fastcgi://app",                    Err(UrlError::NoPort)),
            ("https://unix:/run/app.sock",       Err(UrlError::UnixScheme)),
            ("http://unix:",                     Err(UrlError::UnixPath)),
            ("http://unix:/",                    Err(UrlError::UnixPath)),
            ("http://unix:run/app.sock",         Err(UrlError::UnixPath)),
            ("http://unix:/a b",                 Err(UrlError::UnixPath)),
            ("http://unix:/a\0",                 Err(UrlError::UnixPath)),
            (&long,                              Err(UrlError::UnixPath)),
            ("http://app/a/../b",                Err(UrlError::Base)),
            ("http://app/..",                    Err(UrlError::Base)),
            ("http://app/./a",                   Err(UrlError::Base)),
            ("http://app//",                     Err(UrlError::Base)),
            ("http://app/a//b",                  Err(UrlError::Base)),
            ("http://app/%2e%2e",                Err(UrlError::Base)),
            ("http://app/a b",                   Err(UrlError::Base)),
            ("http://app/ü",                     Err(UrlError::Base)),
            ("http://app/a\r\nb",                Err(UrlError::Base)),
            ("fastcgi://app:9000/",              Err(UrlError::NoBase)),
            ("fastcgi://app:9000/a",             Err(UrlError::NoBase)),
        ];
        for (text, want) in cases {
            let url = UpstreamUrl::parse(text);
            let found = url.as_ref().map(|url| (url.server_text(), url.base.clone()));
            let want = want.map(|(text, base)| (text.to_owned(), base.map(str::to_owned)));
            assert_eq!(found.map_err(|error| *error), want, "{text:?}");
            if let Ok(url) = url {
                let again = UpstreamUrl::parse(&url.server_text()).expect("the canonical form is valid");
                assert_eq!(again, UpstreamUrl { base: None, ..url }, "{text:?}");
            }
        }
    }

    #[test]
    #[rustfmt::skip]
    fn words_behind_an_address_are_options_of_the_server() {
        let cases: &[(&str, ParsedServer)] = &[
            // text                            canonical, weight, backup, drain
            ("http://a",                       Ok(("http://a", 1, false, false))),
            (" http://a:80  weight=1 ",        Ok(("http://a", 1, false, false))),
            ("http://a weight=256",            Ok(("http://a weight=256", 256, false, false))),
            ("http://a drain backup weight=2", Ok(("http://a weight=2 backup drain", 2, true, true))),
            ("http://a weight=0",              Err("expected a weight from 1 to 256")),
            ("http://a weight=257",            Err("expected a weight from 1 to 256")),
            ("http://a weight=",               Err("expected a weight from 1 to 256")),
            ("http://a weight=+1",             Err("expected a weight from 1 to 256")),
            ("http://a Weight=1",              Err("expected weight=N, backup or drain behind the address")),
            ("http://a down",                  Err("expected weight=N, backup or drain behind the address")),
            ("http://a backup backup",         Err("expected each of weight=N, backup and drain once")),
            ("http://a weight=1 weight=1",     Err("expected each of weight=N, backup and drain once")),
            ("http://a/",                      Err("expected no path behind the address: write it in `proxy`, as in /api/=NAME/BASE")),
            ("weight=1 http://a",              Err("expected http://, https:// or fastcgi:// in front of the address")),
            (" ",                              Err("expected http://, https:// or fastcgi:// in front of the address")),
        ];
        for (text, want) in cases {
            let found = ServerValue::parse(text);
            let found = found.as_ref().map(|(ServerValue { server, .. }, canonical)| {
                (&**canonical, server.weight, server.is_backup, server.is_draining)
            });
            assert_eq!(found.map_err(|error| &**error), *want, "{text:?}");
        }
    }
}
