//! Finds the site of a host.
//!
//! ```text
//! WWW.Example.org:8080 ─ HostMap ─┬─ a name or wildcard ─▶ its site, a redirect to its site, or no site: it is one of another listener
//!                                  └─ no match ───────────▶ the default site, if there is one
//! ```
//!
//! Names are compared without case, port and the dot of the root; IPv6 addresses by value. RFC 9110, sections 4.2.3 and 7.2;
//! RFC 3986, section 3.2.2.

use crate::{host_map::HostMap, sites::SiteId};
use std::{collections::HashMap, fmt, net::Ipv6Addr, str::FromStr};
use tarpon_http::host;

/// A name of a site: `example.org`, `*.example.org`, `192.0.2.7`, `[2001:db8::7]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostName(
    /// The normalized name: in lower case, without the dot of the root; an IPv6 address in brackets, in the form of RFC 5952.
    Box<str>,
);

/// The reason why a text is not a [`HostName`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostNameError {
    /// It has a port. Hosts are compared without ports.
    Port,
    /// It has a `*` that is not the whole first label, or that no label follows.
    Wildcard,
    /// It has a character that is not ASCII. Clients send such names in the form of RFC 5891, `xn--…`.
    NotAscii,
    /// A label is empty, is longer than 63 bytes, begins or ends with a hyphen, or has other characters than letters, digits, hyphens and
    /// underscores; or the name is longer than 253 bytes. RFC 1035, section 2.3.4; RFC 1123, section 2.1.
    Syntax,
}

/// A table from host to site.
#[derive(Debug)]
pub struct Hosts {
    /// The match of each name.
    matches: HostMap<HostMatch>,
    /// The first name of each site that is not a wildcard, if it has one. Its redirect hosts redirect there.
    canonical: HashMap<SiteId, HostName>,
    default: Option<SiteId>,
    /// Whether a site of this table has a name.
    is_named: bool,
}

/// The reason why a name cannot be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostsError {
    /// The name was added before, for this site.
    Taken(SiteId),
    /// The redirect has no target: all names of the site are wildcards.
    NoCanonicalName,
}

/// The match of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostMatch {
    /// A name of this site.
    Site(SiteId),
    /// A redirect host of this site.
    RedirectHost(SiteId),
    /// A host of this site, which answers at other listeners only.
    OtherListener(SiteId),
}

impl Hosts {
    /// Returns a table without names. A request whose host matches no name, or that has no host, is for the site `default`.
    pub fn new(default: Option<SiteId>) -> Hosts {
        Hosts { matches: HostMap::default(), canonical: HashMap::new(), default, is_named: false }
    }

    /// Adds a name of a site. The first one that is not a wildcard is the canonical host of the site.
    ///
    /// # Errors
    /// The name was added before.
    pub fn add(&mut self, name: HostName, site: SiteId) -> Result<(), HostsError> {
        self.insert(&name, HostMatch::Site(site))?;
        if !name.is_wildcard() {
            self.canonical.entry(site).or_insert(name);
        }
        Ok(())
    }

    /// Adds a name that redirects to the canonical host of a site. Add that host first.
    ///
    /// # Errors
    /// The name was added before, or the site has no canonical host.
    pub fn add_redirect_host(&mut self, name: HostName, site: SiteId) -> Result<(), HostsError> {
        if !self.canonical.contains_key(&site) {
            return Err(HostsError::NoCanonicalName);
        }
        self.insert(&name, HostMatch::RedirectHost(site))
    }

    /// Adds a name of a site that answers at other listeners only: here no site answers it, not even the default site. If the name was added
    /// before, that stays, so call this after the names of this table were added.
    pub fn add_of_other_listener(&mut self, name: &HostName, site: SiteId) {
        let _ = self.matches.insert(name, HostMatch::OtherListener(site));
    }

    fn insert(&mut self, name: &HostName, host_match: HostMatch) -> Result<(), HostsError> {
        self.is_named = true;
        self.matches.insert(name, host_match).map_err(|taken| HostsError::Taken(taken.site()))
    }

    /// Returns whether every request is for the first site, so that no lookup is needed.
    pub(crate) fn always_match_first_site(&self) -> bool {
        let is_first = |host_match: &HostMatch| *host_match == HostMatch::Site(SiteId::FIRST);
        self.default == Some(SiteId::FIRST) && self.matches.values().all(is_first)
    }

    /// Returns whether no site of this table has a name.
    pub(crate) fn is_unnamed(&self) -> bool {
        !self.is_named
    }

    /// Returns the site of a host that matches no name.
    pub(crate) fn default(&self) -> Option<SiteId> {
        self.default
    }

    /// Returns the canonical host of a site, which its redirect hosts redirect to.
    pub(crate) fn canonical(&self, site: SiteId) -> Option<&[u8]> {
        self.canonical.get(&site).map(|name| name.0.as_bytes())
    }

    /// Finds the match of a valid host, with or without a port.
    pub(crate) fn find(&self, host: &[u8]) -> Option<HostMatch> {
        self.matches.find(host).copied()
    }
}

impl HostMatch {
    fn site(self) -> SiteId {
        let (HostMatch::Site(site) | HostMatch::RedirectHost(site) | HostMatch::OtherListener(site)) = self;
        site
    }
}

impl HostName {
    /// Returns the normalized name.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Returns whether the name is a wildcard, which stands for all names with the same end.
    pub fn is_wildcard(&self) -> bool {
        self.0.starts_with('*')
    }
}

impl FromStr for HostName {
    type Err = HostNameError;

    fn from_str(text: &str) -> Result<HostName, HostNameError> {
        let bare = text.strip_prefix('[').map_or(Some(text), |rest| rest.strip_suffix(']'));
        if let Some(address) = bare.and_then(|bare| bare.parse::<Ipv6Addr>().ok()) {
            return Ok(HostName(format!("[{address}]").into()));
        }
        if !text.is_ascii() {
            return Err(HostNameError::NotAscii);
        }
        let (host, port) = text.split_at(host::split_port(text.as_bytes()).0.len());
        if !port.is_empty() && host.parse::<HostName>().is_ok() {
            return Err(HostNameError::Port);
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let labels = name.strip_prefix("*.").unwrap_or(&name);
        if labels.contains('*') {
            return Err(HostNameError::Wildcard);
        }
        let is_label = |label: &str| {
            let is_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            let is_inner = !label.starts_with('-') && !label.ends_with('-');
            is_inner && (1..=LABEL_LEN_MAX).contains(&label.len()) && label.bytes().all(is_byte)
        };
        let is_name = labels.split('.').all(is_label) && name.len() <= NAME_LEN_MAX;
        if is_name { Ok(HostName(name.into())) } else { Err(HostNameError::Syntax) }
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for HostNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HostNameError::Port => "expected a host without its port",
            HostNameError::Wildcard => {
                "expected * as the whole first label and nowhere else, as in *.example.org"
            }
            HostNameError::NotAscii => {
                "expected the ASCII form of the name, with labels that begin with xn--"
            }
            HostNameError::Syntax => "expected a host, such as example.org, *.example.org or 192.0.2.7",
        })
    }
}

impl std::error::Error for HostNameError {}

/// The maximum length of a label: RFC 1035, section 2.3.4.
const LABEL_LEN_MAX: usize = 63;
/// The maximum length of a name, also of a wildcard: the text that fits in the 255 bytes of RFC 1035, section 2.3.4.
const NAME_LEN_MAX: usize = 253;

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> HostName {
        text.parse().unwrap()
    }

    #[test]
    #[rustfmt::skip]
    fn names_are_validated_and_normalized() {
        use HostNameError::*;
        let label = "a".repeat(63);
        let long = [&*label; 4].join(".");
        let cases: &[(&str, &str, Result<&str, HostNameError>)] = &[
            // case                text                    normalized
            ("name",               "Example.ORG",          Ok("example.org")),
            ("one label",          "localhost",            Ok("localhost")),
            ("dot of the root",    "example.org.",         Ok("example.org")),
            ("underscore, hyphen", "a_b.x--y",             Ok("a_b.x--y")),
            ("wildcard",           "*.Example.org.",       Ok("*.example.org")),
            ("one label after it", "*.localhost",          Ok("*.localhost")),
            ("IPv4",               "192.0.2.7",            Ok("192.0.2.7")),
            ("IPv6",               "[2001:DB8:0::7]",      Ok("[2001:db8::7]")),
            ("IPv6, bare",         "::1",                  Ok("[::1]")),
            ("longest label",      &label,                 Ok(&label)),
            ("longest name",       &long[2..],             Ok(&long[2..])),
            ("empty",              "",                     Err(Syntax)),
            ("root",               ".",                    Err(Syntax)),
            ("port",               "example.org:80",       Err(Port)),
            ("port of an address", "[::1]:80",             Err(Port)),
            ("star alone",         "*",                    Err(Wildcard)),
            ("star, no label",     "*.",                   Err(Wildcard)),
            ("star in a label",    "a*.example.org",       Err(Wildcard)),
            ("star not first",     "a.*.org",              Err(Wildcard)),
            ("two stars",          "*.*.org",              Err(Wildcard)),
            ("not ASCII",          "bücher.example",       Err(NotAscii)),
            ("URI",                "http://example.org",   Err(Syntax)),
            ("path",               "example.org/",         Err(Syntax)),
            ("empty label",        "a..b",                 Err(Syntax)),
            ("empty first label",  ".example.org",         Err(Syntax)),
            ("two dots",           "example.org..",        Err(Syntax)),
            ("space",              "a b",                  Err(Syntax)),
            ("escape",             "ex%41mple",            Err(Syntax)),
            ("half an address",    "[::1",                 Err(Syntax)),
            ("hyphen first",       "-a.org",               Err(Syntax)),
            ("hyphen last",        "a-.org",               Err(Syntax)),
            ("label too long",     &format!("{label}a"),   Err(Syntax)),
            ("name too long",      &long[1..],             Err(Syntax)),
        ];
        for (what, text, want) in cases {
            let name: Result<HostName, _> = text.parse();
            assert_eq!(name.as_ref().map(|name| &*name.0).map_err(|&error| error), *want, "{what}: {text}");
        }
    }

    #[test]
    #[rustfmt::skip]
    fn a_host_matches_its_name_or_the_longest_wildcard() {
        let [first, second, third, fourth] = [0, 1, 2, 3].map(SiteId::new);
        let mut hosts = Hosts::new(Some(first));
        for (text, site) in [
            ("example.org", second), ("*.example.org", third), ("*.b.example.org", fourth), ("x.b.example.org", first),
            ("192.0.2.7", second), ("::1", third), ("localhost", fourth),
        ] {
            hosts.add(name(text), site).unwrap();
        }
        hosts.add_redirect_host(name("www.example.org"), second).unwrap();
        hosts.add_redirect_host(name("*.example.net"), second).unwrap();
        let (site, redirect) = (|site| Some(HostMatch::Site(site)), |site| Some(HostMatch::RedirectHost(site)));
        let many = format!("{}.example.org", ["a"; 100].join("."));
        let cases: &[(&str, &str, Option<HostMatch>)] = &[
            // case                  host                       match
            ("name",                 "example.org",             site(second)),
            ("port",                 "example.org:8080",        site(second)),
            ("empty port",           "example.org:",            site(second)),
            ("any case",             "eXample.ORG",             site(second)),
            ("dot of the root",      "example.org.",            site(second)),
            ("case, dot and port",   "EXAMPLE.org.:80",         site(second)),
            ("one label",            "localhost",               site(fourth)),
            ("IPv4",                 "192.0.2.7:80",            site(second)),
            ("IPv6",                 "[::1]:80",                site(third)),
            ("IPv6, another form",   "[0:0:0::1]",              site(third)),
            ("wildcard",             "a.example.org",           site(third)),
            ("two labels",           "a.c.example.org",         site(third)),
            ("a hundred labels",     &many,                     site(third)),
            ("longer wildcard",      "a.b.example.org",         site(fourth)),
            ("longer, two labels",   "c.a.b.example.org",       site(fourth)),
            ("shorter wildcard",     "b.example.org",           site(third)),
            ("name before wildcard", "x.b.example.org",         site(first)),
            ("redirect host",        "WWW.example.org",         redirect(second)),
            ("redirect by wildcard", "a.b.example.net",         redirect(second)),
            ("label missing",        "example.net",             None),
            ("empty label",          ".example.org",            None),
            ("another name",         "example.com",             None),
            ("no dot before",        "anexample.org",           None),
            ("the star itself",      "*.example.org",           site(third)),
            ("two dots at the end",  "example.org..",           None),
            ("escaped",              "%65xample.org",           None),
            ("another address",      "[::2]",                   None),
            ("future address",       "[v1.a]",                  None),
        ];
        for (what, host, want) in cases {
            assert!(tarpon_http::host::is_valid(host.as_bytes()), "{what}: {host}");
            assert_eq!(hosts.find(host.as_bytes()), *want, "{what}: {host}");
        }
        assert_eq!(hosts.find("a".repeat(257).as_bytes()), None, "longer than any name");
        assert_eq!(hosts.canonical(second), Some(&b"example.org"[..]));
        assert_eq!(hosts.canonical(third), Some(&b"[::1]"[..]), "the first that is not a wildcard");
    }

    #[test]
    fn a_name_is_added_once() {
        let [first, second] = [0, 1].map(SiteId::new);
        let mut hosts = Hosts::new(None);
        hosts.add(name("a.org"), first).unwrap();
        assert_eq!(hosts.add(name("A.org."), second), Err(HostsError::Taken(first)));
        assert_eq!(hosts.add_redirect_host(name("a.org"), first), Err(HostsError::Taken(first)));
        hosts.add(name("*.b.org"), second).unwrap();
        assert_eq!(hosts.add_redirect_host(name("b.org"), second), Err(HostsError::NoCanonicalName));
    }

    #[test]
    fn a_single_site_for_all_hosts_needs_no_lookup() {
        let [first, second] = [0, 1].map(SiteId::new);
        let named = |default, names: &[(&str, SiteId)]| {
            let mut hosts = Hosts::new(default);
            names.iter().for_each(|&(text, site)| hosts.add(name(text), site).unwrap());
            hosts
        };
        assert!(named(Some(first), &[]).always_match_first_site());
        assert!(named(Some(first), &[("a", first), ("*.a", first)]).always_match_first_site());
        assert!(!named(Some(first), &[("a", second)]).always_match_first_site());
        assert!(!named(None, &[("a", first)]).always_match_first_site());
        let mut with_redirect = named(Some(first), &[("a", first)]);
        with_redirect.add_redirect_host(name("b"), first).unwrap();
        assert!(!with_redirect.always_match_first_site());
        let mut with_other = named(Some(first), &[("a", first)]);
        with_other.add_of_other_listener(&name("a"), first);
        assert!(with_other.always_match_first_site(), "the name of this table stays");
        with_other.add_of_other_listener(&name("b"), first);
        assert!(!with_other.always_match_first_site());
    }
}
