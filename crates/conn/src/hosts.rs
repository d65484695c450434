//! Which site the host of a request means.
//!
//! ```text
//! WWW.Example.org.:8080 ─ key ─▶ www.example.org ─┬─ such a name ──────────────▶ its site, or the site it is an alias of
//!                                                 ├─ *.example.org, then *.org ─▶ the same
//!                                                 └─ none ──────────────────────▶ the default, if there is one
//! ```
//!
//! Names are compared without case, port and the dot of the root; addresses by what they mean. RFC 9110, sections 4.2.3 and
//! 7.2; RFC 3986, section 3.2.2. Knows nothing of images.

use crate::sites::SiteId;
use std::{
    collections::{HashMap, hash_map::Entry},
    fmt,
    io::Write,
    net::Ipv6Addr,
    str::FromStr,
};
use tarpon_http::host;

/// A name that sites are told apart by: `example.org`, `*.example.org`, `192.0.2.7`, `[2001:db8::7]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostName(
    /// As it is compared: in small letters, without the dot of the root; an IPv6 address in brackets and as RFC 5952 has it.
    Box<str>,
);

/// Why something is no [`HostName`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostNameError {
    /// It has a port, and hosts are compared without.
    Port,
    /// It has a `*` that is not all of the first label, or nothing behind it.
    Wildcard,
    /// It has a letter that is not ASCII. Such names travel as RFC 5891 has them, `xn--…`.
    NotAscii,
    /// A label is empty, longer than 63 bytes, begins or ends with a hyphen, or has something else than letters, digits, hyphens
    /// and underscores; or the name is longer than 253 bytes: RFC 1035, section 2.3.4; RFC 1123, section 2.1.
    Syntax,
}

/// Which names mean which site. Sites are told by their numbers.
#[derive(Debug)]
pub struct Hosts {
    /// By the text of the name.
    meanings: HashMap<Box<[u8]>, HostMatch>,
    /// For each site that has any: the first of its names that is no wildcard. Aliases lead there.
    canonical: HashMap<SiteId, HostName>,
    /// Bytes of the longest wildcard.
    wildcard_len_max: usize,
    default: Option<SiteId>,
}

/// Why a name cannot be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostsError {
    /// It means this site already.
    Taken(SiteId),
    /// It is to lead to the name of a site that has none but wildcards.
    LeadsNowhere,
}

/// What a host means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostMatch {
    /// This site.
    Site(SiteId),
    /// The canonical name of this site.
    Alias(SiteId),
}

impl Hosts {
    /// No names at all. A host that none of them fits, and a request without one, means the site `default`.
    pub fn new(default: Option<SiteId>) -> Hosts {
        Hosts { meanings: HashMap::new(), canonical: HashMap::new(), wildcard_len_max: 0, default }
    }

    /// This name means this site. The first that is no wildcard is its canonical one.
    ///
    /// # Errors
    /// The name has a meaning already.
    pub fn add(&mut self, name: HostName, site: SiteId) -> Result<(), HostsError> {
        self.mean(&name, HostMatch::Site(site))?;
        if !name.is_wildcard() {
            self.canonical.entry(site).or_insert(name);
        }
        Ok(())
    }

    /// Who asks for this name is sent to the canonical name of this site, which must have one by now.
    ///
    /// # Errors
    /// The name has a meaning already, or there is nowhere to send them.
    pub fn add_alias(&mut self, name: HostName, site: SiteId) -> Result<(), HostsError> {
        if !self.canonical.contains_key(&site) {
            return Err(HostsError::LeadsNowhere);
        }
        self.mean(&name, HostMatch::Alias(site))
    }

    fn mean(&mut self, name: &HostName, meaning: HostMatch) -> Result<(), HostsError> {
        match self.meanings.entry(name.0.as_bytes().into()) {
            Entry::Occupied(taken) => return Err(HostsError::Taken(taken.get().site())),
            Entry::Vacant(free) => free.insert(meaning),
        };
        if name.is_wildcard() {
            self.wildcard_len_max = self.wildcard_len_max.max(name.0.len());
        }
        Ok(())
    }

    /// Whether any host, or none, means the first site, so that nobody need ask.
    pub(crate) fn are_needless(&self) -> bool {
        let is_first = |meaning: &HostMatch| *meaning == HostMatch::Site(SiteId::FIRST);
        self.default == Some(SiteId::FIRST) && self.meanings.values().all(is_first)
    }

    /// The site of a host that has no name here.
    pub(crate) fn default(&self) -> Option<SiteId> {
        self.default
    }

    /// Where the redirect hosts of a site lead.
    pub fn canonical(&self, site: SiteId) -> Option<&[u8]> {
        self.canonical.get(&site).map(|name| name.0.as_bytes())
    }

    /// What a valid host means, with or without a port.
    pub(crate) fn find(&self, host: &[u8]) -> Option<HostMatch> {
        let mut scratch = [0; KEY_LEN_MAX];
        let key = key(host::split_port(host).0, &mut scratch)?;
        self.meanings.get(&key[..]).copied().or_else(|| self.find_wildcard(key))
    }

    /// The longest wildcard that fits. Writes over what it has looked at.
    fn find_wildcard(&self, key: &mut [u8]) -> Option<HostMatch> {
        // However many dots there are, only so many wildcards can fit.
        let from = (key.len() + 1).saturating_sub(self.wildcard_len_max).max(1);
        (from..key.len()).find_map(|dot| {
            let is_dot = key[dot] == b'.';
            // The star stands for one label or more, so there is something before the dot.
            is_dot.then(|| key[dot - 1] = b'*')?;
            self.meanings.get(&key[dot - 1..]).copied()
        })
    }
}

impl HostMatch {
    fn site(self) -> SiteId {
        let (HostMatch::Site(site) | HostMatch::Alias(site)) = self;
        site
    }
}

/// Longer than any name there can be, and than any address as it is written.
const KEY_LEN_MAX: usize = 256;

/// The form a host without port is compared in. None: it is longer than any name.
fn key<'k>(host: &[u8], scratch: &'k mut [u8; KEY_LEN_MAX]) -> Option<&'k mut [u8]> {
    if let [b'[', address @ .., b']'] = host
        && let Some(address) = str::from_utf8(address).ok().and_then(|text| text.parse::<Ipv6Addr>().ok())
    {
        let mut room = &mut scratch[..];
        write!(room, "[{address}]").ok()?;
        let len = KEY_LEN_MAX - room.len();
        return Some(&mut scratch[..len]);
    }
    let host = host.strip_suffix(b".").unwrap_or(host);
    let key = scratch.get_mut(..host.len())?;
    key.copy_from_slice(host);
    key.make_ascii_lowercase();
    Some(key)
}

impl HostName {
    /// Whether it stands for all names that end so.
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
                "expected * for the whole of the first label alone, as in *.example.org"
            }
            HostNameError::NotAscii => {
                "expected a name in the form of DNS, which for names beyond ASCII begins with xn--"
            }
            HostNameError::Syntax => "expected a host, such as example.org, *.example.org or 192.0.2.7",
        })
    }
}

impl std::error::Error for HostNameError {}

/// RFC 1035, section 2.3.4.
const LABEL_LEN_MAX: usize = 63;
/// What the 255 bytes of RFC 1035, section 2.3.4, leave for the text; and a star.
const NAME_LEN_MAX: usize = 253;

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> HostName {
        text.parse().unwrap()
    }

    #[test]
    #[rustfmt::skip]
    fn a_name_is_one_that_a_host_can_have() {
        use HostNameError::*;
        let label = "a".repeat(63);
        let long = [&*label; 4].join(".");
        let cases: &[(&str, &str, Result<&str, HostNameError>)] = &[
            // what it shows       as it is given          as it is compared
            ("name",               "Example.ORG",          Ok("example.org")),
            ("one label",          "localhost",            Ok("localhost")),
            ("dot of the root",    "example.org.",         Ok("example.org")),
            ("underscore, hyphen", "a_b.x--y",             Ok("a_b.x--y")),
            ("wildcard",           "*.Example.org.",       Ok("*.example.org")),
            ("of one label",       "*.localhost",          Ok("*.localhost")),
            ("IPv4",               "192.0.2.7",            Ok("192.0.2.7")),
            ("IPv6",               "[2001:DB8:0::7]",      Ok("[2001:db8::7]")),
            ("IPv6, bare",         "::1",                  Ok("[::1]")),
            ("longest label",      &label,                 Ok(&label)),
            ("longest name",       &long[2..],             Ok(&long[2..])),
            ("nothing",            "",                     Err(Syntax)),
            ("root",               ".",                    Err(Syntax)),
            ("port",               "example.org:80",       Err(Port)),
            ("port of an address", "[::1]:80",             Err(Port)),
            ("all",                "*",                    Err(Wildcard)),
            ("of nothing",         "*.",                   Err(Wildcard)),
            ("part of a label",    "a*.example.org",       Err(Wildcard)),
            ("not the first",      "a.*.org",              Err(Wildcard)),
            ("twice",              "*.*.org",              Err(Wildcard)),
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
    fn a_host_means_the_site_of_its_name_or_of_the_longest_wildcard() {
        let [first, second, third, fourth] = [0, 1, 2, 3].map(SiteId::new);
        let mut hosts = Hosts::new(Some(first));
        for (text, site) in [
            ("example.org", second), ("*.example.org", third), ("*.b.example.org", fourth), ("x.b.example.org", first),
            ("192.0.2.7", second), ("::1", third), ("localhost", fourth),
        ] {
            hosts.add(name(text), site).unwrap();
        }
        hosts.add_alias(name("www.example.org"), second).unwrap();
        hosts.add_alias(name("*.example.net"), second).unwrap();
        let (site, alias) = (|site| Some(HostMatch::Site(site)), |site| Some(HostMatch::Alias(site)));
        let many = format!("{}.example.org", ["a"; 100].join("."));
        let cases: &[(&str, &str, Option<HostMatch>)] = &[
            // what it shows         host                       meaning
            ("name",                 "example.org",             site(second)),
            ("port",                 "example.org:8080",        site(second)),
            ("empty port",           "example.org:",            site(second)),
            ("any case",             "eXample.ORG",             site(second)),
            ("dot of the root",      "example.org.",            site(second)),
            ("both",                 "EXAMPLE.org.:80",         site(second)),
            ("one label",            "localhost",               site(fourth)),
            ("IPv4",                 "192.0.2.7:80",            site(second)),
            ("IPv6",                 "[::1]:80",                site(third)),
            ("IPv6, another form",   "[0:0:0::1]",              site(third)),
            ("wildcard",             "a.example.org",           site(third)),
            ("two labels",           "a.c.example.org",         site(third)),
            ("a hundred",            &many,                     site(third)),
            ("longer wildcard",      "a.b.example.org",         site(fourth)),
            ("two labels of it",     "c.a.b.example.org",       site(fourth)),
            ("its own name",         "b.example.org",           site(third)),
            ("name before wildcard", "x.b.example.org",         site(first)),
            ("alias",                "WWW.example.org",         alias(second)),
            ("alias by wildcard",    "a.b.example.net",         alias(second)),
            ("not the wildcard's",   "example.net",             None),
            ("no label before",      ".example.org",            None),
            ("another name",         "example.com",             None),
            ("ends so, but no label", "anexample.org",          None),
            ("star itself",          "*.example.org",           site(third)),
            ("two dots at the end",  "example.org..",           None),
            ("escaped",              "%65xample.org",           None),
            ("another address",      "[::2]",                   None),
            ("future address",       "[v1.a]",                  None),
        ];
        for (what, host, want) in cases {
            assert!(tarpon_http::host::is_valid(host.as_bytes()), "{what}: {host}");
            assert_eq!(hosts.find(host.as_bytes()), *want, "{what}: {host}");
        }
        assert_eq!(hosts.find("a".repeat(KEY_LEN_MAX + 1).as_bytes()), None, "longer than any name");
        assert_eq!(hosts.canonical(second), Some(&b"example.org"[..]));
        assert_eq!(hosts.canonical(third), Some(&b"[::1]"[..]), "the first that is no wildcard");
    }

    #[test]
    fn a_name_has_one_meaning() {
        let [first, second] = [0, 1].map(SiteId::new);
        let mut hosts = Hosts::new(None);
        hosts.add(name("a.org"), first).unwrap();
        assert_eq!(hosts.add(name("A.org."), second), Err(HostsError::Taken(first)));
        assert_eq!(hosts.add_alias(name("a.org"), first), Err(HostsError::Taken(first)));
        hosts.add(name("*.b.org"), second).unwrap();
        assert_eq!(hosts.add_alias(name("b.org"), second), Err(HostsError::LeadsNowhere));
    }

    #[test]
    fn one_site_for_all_hosts_needs_no_names() {
        let [first, second] = [0, 1].map(SiteId::new);
        let named = |default, names: &[(&str, SiteId)]| {
            let mut hosts = Hosts::new(default);
            names.iter().for_each(|&(text, site)| hosts.add(name(text), site).unwrap());
            hosts
        };
        assert!(named(Some(first), &[]).are_needless());
        assert!(named(Some(first), &[("a", first), ("*.a", first)]).are_needless());
        assert!(!named(Some(first), &[("a", second)]).are_needless());
        assert!(!named(None, &[("a", first)]).are_needless());
        let mut with_alias = named(Some(first), &[("a", first)]);
        with_alias.add_alias(name("b"), first).unwrap();
        assert!(!with_alias.are_needless());
    }
}
