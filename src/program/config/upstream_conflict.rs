//! Conflicts between the options of upstreams, and of the sites that name them.

use super::{
    ConfigError, ConfigFile, OptionValue, Origin,
    conflict::{duplicates, entries_of, is_option},
    file::nearest,
    proxy::{ProxyTarget, ProxyValue},
    upstream_address::ServerValue,
};
use crate::{
    ProxyPaths, UpstreamAddress,
    UpstreamProtocol::{self, FastCgi, Https},
    base::upstream_config::UPSTREAM_SERVERS_MAX,
};
use std::{collections::BTreeSet, path::Path};
use tarpon_site::Printable;

/// Adds an error for each conflict. All values are valid by themselves.
pub(super) fn find(file: Option<&ConfigFile>, entries: &[OptionValue], errors: &mut Vec<ConfigError>) {
    let upstreams: Vec<_> =
        entries_of(entries, "upstream", &["name"]).map(|name| UpstreamOptions::new(name, entries)).collect();
    let names = upstreams.iter().map(|upstream| upstream.name);
    duplicates(file, "upstream", names, |name| vec![name.to_owned()], |_| true, errors);
    for upstream in &upstreams {
        upstream.server_conflicts(errors);
        upstream.useless_options(errors);
        upstream.health_conflicts(errors);
    }
    for proxy in entries_of(entries, "site", &["proxy"]) {
        let values: Vec<_> = proxy.values.iter().filter_map(|value| ProxyValue::parse(value).ok()).collect();
        for (at, value) in values.iter().enumerate() {
            target_conflicts(proxy, at, value, &upstreams, entries, errors);
        }
        path_conflicts(proxy, &values, entries, errors);
    }
    unused(&upstreams, entries, errors);
    too_many(&upstreams, entries, errors);
}

/// The options of one `[[upstream]]`.
struct UpstreamOptions<'a> {
    name: &'a OptionValue,
    options: Vec<&'a OptionValue>,
    servers: Vec<ServerValue>,
}

impl<'a> UpstreamOptions<'a> {
    fn new(name: &'a OptionValue, entries: &'a [OptionValue]) -> UpstreamOptions<'a> {
        let is_own = |entry: &&OptionValue| entry.section.name == "upstream" && entry.number == name.number;
        let options: Vec<_> = entries.iter().filter(is_own).collect();
        let servers = options.iter().filter(|entry| entry.option.name == "servers");
        let servers = servers.flat_map(|entry| &entry.values);
        let servers = servers.filter_map(|value| Some(ServerValue::parse(value).ok()?.0)).collect();
        UpstreamOptions { name, options, servers }
    }

    fn text(&self) -> &'a str {
        self.name.values.first().map_or("", String::as_str)
    }

    /// Returns the language of its servers. Those with another one are an error.
    fn protocol(&self) -> UpstreamProtocol {
        self.servers.first().map_or(UpstreamProtocol::Http, |server| server.protocol)
    }

    /// Returns an option.
    fn option(&self, name: &str) -> Option<&'a OptionValue> {
        self.options.iter().copied().find(|entry| entry.option.name == name)
    }

    /// Returns an option that the file sets, unless to false.
    fn given(&self, name: &str) -> Option<&'a OptionValue> {
        let is_set = |entry: &&OptionValue| entry.origin != Origin::Default && !entry.values.is_empty();
        self.option(name).filter(is_set).filter(|entry| entry.values != ["false"])
    }

    fn server_conflicts(&self, errors: &mut Vec<ConfigError>) {
        let Some(entry) = self.option("servers") else { return };
        if self.servers.is_empty() {
            let hint = "add one, as in servers = [\"http://127.0.0.1:9000\"]";
            errors.push(self.name.error(
                0,
                "this upstream has no server",
                "expected a list of `servers`",
                hint,
            ));
            return;
        }
        for (at, ServerValue { protocol, server }) in self.servers.iter().enumerate() {
            if *protocol != self.protocol() {
                let found = "this server has another scheme than the first one";
                let hint = "make an [[upstream]] for each scheme";
                errors.push(entry.error(at, found, "expected servers with one scheme", hint));
            }
            if self.servers[..at].iter().any(|before| before.server.address == server.address) {
                let found = format!("server {} occurs twice", entry.shown(at).printable());
                let hint = "remove one of them; weight=2 gives a server twice as many requests";
                errors.push(entry.error(at, found, "expected each server once", hint));
            }
        }
        if self.servers.iter().all(|ServerValue { server, .. }| server.is_backup || server.is_draining) {
            let found = "all servers have backup or drain";
            let hint = "remove one of these words: such servers get requests only beside others, or none";
            errors.push(entry.error(0, found, "expected a server without them", hint));
        }
        let is_unix = matches!(self.servers[0].server.address, UpstreamAddress::Unix(_));
        if let Some(host) = self.given("host").filter(|host| is_unix && host.values == ["upstream"]) {
            let found = "the first server is a Unix socket, which has no host";
            errors.push(host.error(0, found, "expected a host", "name it, as in host = \"app.internal\""));
        }
    }

    /// Adds an error for each option that has no effect.
    fn useless_options(&self, errors: &mut Vec<ConfigError>) {
        let mut report = |names: &[&str], expected: &str, hint: &str| {
            for entry in names.iter().filter_map(|name| self.given(name)) {
                let found = format!("`{}` has no effect here", entry.option.name);
                errors.push(entry.error(0, found, expected, hint));
            }
        };
        if self.protocol() != Https {
            let hint = "write https:// in front of the servers, or remove it";
            report(&["ca", "tls-name", "insecure"], "expected servers with https", hint);
        } else if self.given("insecure").is_some() {
            let hint = "remove insecure: ca decides which certificates are accepted";
            report(&["ca"], "expected one of ca and insecure", hint);
        }
        if self.protocol() != FastCgi {
            let hint = "write fastcgi:// in front of the servers, or remove it";
            report(&["root", "index", "suffix", "params"], "expected servers with fastcgi", hint);
        }
        if self.given("health-path").is_none() {
            let names = ["health-interval", "health-timeout", "health-rise", "health-fall"];
            report(
                &names,
                "expected `health-path` beside it",
                "add the path of the checks, as in health-path = \"/health\"",
            );
        }
    }

    fn health_conflicts(&self, errors: &mut Vec<ConfigError>) {
        let time = |name| {
            let text = self.option(name)?.values.first()?;
            super::time::parse(text)
        };
        let (Some(interval), Some(timeout)) = (time("health-interval"), time("health-timeout")) else {
            return;
        };
        let given = self.given("health-timeout").or(self.given("health-interval"));
        if let Some(entry) = given.filter(|_| timeout > interval && self.given("health-path").is_some()) {
            let found = "health-timeout is longer than health-interval";
            let hint = "a check ends before the next one begins: set both";
            errors.push(entry.error(0, found, "expected a timeout within the interval", hint));
        }
    }
}

/// How the scripts of an upstream without a section end.
const PHP: &str = ".php";

/// Adds an error if what a value of `proxy` names does not exist or does not fit.
fn target_conflicts(
    proxy: &OptionValue,
    at: usize,
    value: &ProxyValue,
    upstreams: &[UpstreamOptions<'_>],
    entries: &[OptionValue],
    errors: &mut Vec<ConfigError>,
) {
    let upstream = match &value.target {
        ProxyTarget::Servers(_) => None,
        ProxyTarget::Named(name) => {
            let Some(upstream) = upstreams.iter().find(|upstream| upstream.text() == name) else {
                errors.push(unknown(proxy, at, name, upstreams));
                return;
            };
            Some(upstream)
        }
    };
    let protocol = value.protocol().or(upstream.map(UpstreamOptions::protocol));
    if protocol != Some(FastCgi) {
        return;
    }
    if value.base.is_some() {
        let found = "a path behind the name of an upstream with fastcgi";
        let hint = "remove the path: FastCGI servers get that of the client, and `root` is the directory of the scripts";
        errors.push(proxy.error(at, found, "expected the name alone", hint));
    }
    let option = upstream.and_then(|upstream| upstream.option("suffix"));
    let suffix = option.and_then(|option| option.values.first()).map_or(PHP, String::as_str);
    if let ProxyPaths::Suffix(paths) = &value.paths
        && paths != suffix
    {
        let suffix = option.map_or(PHP, |option| option.shown(0));
        let paths = if proxy.source(at).is_some() { proxy.shown(at) } else { paths };
        let found = format!("the scripts of this upstream end with {suffix}, and the paths with {paths}");
        let hint = format!("write *{suffix}, or set suffix = \"{paths}\" in an [[upstream]]");
        errors.push(proxy.error(at, found, "expected the same ending", hint));
    }
    let path = entries.iter().find(|path| is_option(path, "site", "path") && path.number == proxy.number);
    let is_archive = path.is_some_and(|path| path.values.iter().any(|path| Path::new(path).is_file()));
    if is_archive && upstream.is_none_or(|upstream| upstream.given("root").is_none()) {
        let found = "the site is an archive, and has no directory of scripts";
        let hint = "set root = \"DIR\" in an [[upstream]]";
        errors.push(proxy.error(at, found, "expected an upstream with `root`", hint));
    }
}

/// Returns the error about a name that no upstream has.
fn unknown(proxy: &OptionValue, at: usize, name: &str, upstreams: &[UpstreamOptions<'_>]) -> ConfigError {
    let shown = if proxy.source(at).is_some() { proxy.shown(at) } else { name };
    // A name that is from the environment stays secret in hints, too.
    let names: Vec<&str> = upstreams.iter().map(|upstream| upstream.name.shown(0)).collect();
    let hint = match nearest(name, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if names.is_empty() => {
            "add an [[upstream]] of this name, or write an address, as in http://127.0.0.1:9000".to_owned()
        }
        None => format!("the names are {}", names.join(", ")),
    };
    proxy.error(
        at,
        format!("unknown upstream {}", shown.printable()),
        "expected the name of an [[upstream]]",
        hint,
    )
}

/// Adds an error for each path of a site that something else answers.
fn path_conflicts(
    proxy: &OptionValue,
    values: &[ProxyValue],
    entries: &[OptionValue],
    errors: &mut Vec<ConfigError>,
) {
    let of_site = |name| {
        let options = entries
            .iter()
            .filter(move |entry| is_option(entry, "site", name) && entry.number == proxy.number);
        options.flat_map(|entry| &entry.values)
    };
    let directories = of_site("cgi").filter_map(|value| Some(value.split_once('=')?.0.to_owned()));
    let suffixes = of_site("cgi-suffix").map(|suffix| format!("*{suffix}"));
    let programs: BTreeSet<String> = directories.chain(suffixes).collect();
    for (at, value) in values.iter().enumerate() {
        let paths = value.paths_text();
        let shown = if proxy.source(at).is_some() { proxy.shown(at) } else { &paths };
        if values[..at].iter().any(|before| before.paths == value.paths) {
            let found = format!("{} occurs twice", shown.printable());
            let hint = "give each target paths of its own; an [[upstream]] has several servers";
            errors.push(proxy.error(at, found, "expected other paths", hint));
        }
        if programs.contains(&paths) {
            let found = format!("{} has CGI programs already", shown.printable());
            let hint = "give one of them another path";
            errors.push(proxy.error(at, found, "expected other paths", hint));
        }
    }
}

/// Adds an error for each upstream that no site names.
fn unused(upstreams: &[UpstreamOptions<'_>], entries: &[OptionValue], errors: &mut Vec<ConfigError>) {
    // A flag replaces what the sites of the file name.
    if entries_of(entries, "site", &["proxy"]).any(|proxy| proxy.origin == Origin::Flag) {
        return;
    }
    let values = entries_of(entries, "site", &["proxy"]).flat_map(|proxy| &proxy.values);
    let used: BTreeSet<String> =
        values.filter_map(|value| Some(ProxyValue::parse(value).ok()?.upstream())).collect();
    for upstream in upstreams.iter().filter(|upstream| !used.contains(upstream.text())) {
        let name = upstream.name.shown(0);
        let found = format!("no site uses the upstream {}", name.printable());
        let hint =
            format!("add proxy = [\"/PATH/={}\"] to a [[site]], or remove this section", name.printable());
        errors.push(upstream.name.error(0, found, "expected it in `proxy` of a site", hint));
    }
}

/// Adds an error if there are more servers than the processes have room for.
fn too_many(upstreams: &[UpstreamOptions<'_>], entries: &[OptionValue], errors: &mut Vec<ConfigError>) {
    let proxies = entries_of(entries, "site", &["proxy"]);
    let values: Vec<_> =
        proxies.flat_map(|proxy| proxy.values.iter().map(move |value| (proxy, value))).collect();
    let lists: BTreeSet<String> = values
        .iter()
        .filter_map(|(_, value)| ProxyValue::parse(value).ok())
        .filter(|value| value.protocol().is_some())
        .map(|value| value.upstream())
        .collect();
    let in_lists: usize = lists.iter().map(|list| list.split(',').count()).sum();
    let count = in_lists + upstreams.iter().map(|upstream| upstream.servers.len()).sum::<usize>();
    let first = upstreams.last().map(|upstream| upstream.name).or(values.last().map(|(proxy, _)| *proxy));
    if let Some(entry) = first.filter(|_| count > UPSTREAM_SERVERS_MAX) {
        let found = format!("all upstreams together have {count} servers");
        let expected = format!("expected at most {UPSTREAM_SERVERS_MAX}");
        errors.push(entry.error(0, found, expected, "put a load balancer between, or remove servers"));
    }
}

#[cfg(test)]
mod tests {
    use crate::program::config::{CliFlags, CommandKind, ConfigFile, read};
    use std::fs;

    #[test]
    #[rustfmt::skip]
    fn conflicts_are_reported_with_their_position() {
        const NONE: &[&str] = &[];
        let site = |proxies: &str| format!("[[site]]\npath = \".\"\nproxy = [{proxies}]\n");
        let upstream = |options: &str| format!("[[upstream]]\nname = \"app\"\n{options}\n");
        let one = |options: &str| site("\"/a/=app\"") + &upstream(&format!("servers = [\"http://a\"]\n{options}"));
        let secure = |options: &str| site("\"/a/=app\"") + &upstream(&format!("servers = [\"https://a\"]\n{options}"));
        let php = |proxies: &str, options: &str| site(proxies) + &upstream(&format!("servers = [\"fastcgi://a:9000\"]\n{options}"));
        let useless = |at: &str, name: &str, rest: &str| format!("{at}: `{name}` has no effect here; {rest}");
        let (tls, fastcgi) = (
            "expected servers with https; write https:// in front of the servers, or remove it",
            "expected servers with fastcgi; write fastcgi:// in front of the servers, or remove it",
        );
        let health = "expected `health-path` beside it; add the path of the checks, as in health-path = \"/health\"";
        let long = (0..=1024).map(|number| format!("\"http://a{number}\"")).collect::<Vec<_>>().join(",");
        let cases: Vec<(&str, String, Vec<String>)> = [
            ("one",              one(""), NONE),
            ("with all of TLS",  secure("ca = \"a.pem\"\ntls-name = \"b\""), NONE),
            ("with a check",     one("health-path = \"/h\"\nhealth-interval = 2\nhealth-timeout = 2"), NONE),
            ("several",          site("\"/=app\", \"/a=app\", \"*.php=fastcgi://b:1\"") + &upstream("servers = [\"http://a\", \"http://b backup\"]"), NONE),
            ("no name",          site("\"/a/=app\""),
                &["3:10: unknown upstream app; expected the name of an [[upstream]]; add an [[upstream]] of this name, or write an address, as in http://127.0.0.1:9000"]),
            ("near a name",      site("\"/a/=app\", \"/b/=ap\"") + &upstream("servers = [\"http://a\"]"),
                &["3:21: unknown upstream ap; expected the name of an [[upstream]]; did you mean `app`?"]),
            ("far from a name",  site("\"/a/=app\", \"/b/=xyz/c\"") + &upstream("servers = [\"http://a\"]"),
                &["3:21: unknown upstream xyz; expected the name of an [[upstream]]; the names are app"]),
            ("unused",           site("\"/a/=http://a\"") + &upstream("servers = [\"http://a\"]"),
                &["5:8: no site uses the upstream app; expected it in `proxy` of a site; add proxy = [\"/PATH/=app\"] to a [[site]], or remove this section"]),
            ("a name twice",     one("") + &upstream("servers = [\"http://b\"]"),
                &["9:8: upstream app occurs twice; line 5 has it already; remove one of them"]),
            ("paths twice",      site("\"/a/=http://a\", \"/a=http://b\", \"*.php=fastcgi://a:1\", \"*.php=fastcgi://b:1\""),
                &["3:26: /a occurs twice; expected other paths; give each target paths of its own; an [[upstream]] has several servers",
                  "3:64: *.php occurs twice; expected other paths; give each target paths of its own; an [[upstream]] has several servers"]),
            ("CGI programs",     site("\"/a/=http://a\", \"*.php=fastcgi://a:1\"") + "cgi = [\"/a=/b\"]\ncgi-suffix = \".php\"\n",
                &["3:10: /a has CGI programs already; expected other paths; give one of them another path",
                  "3:26: *.php has CGI programs already; expected other paths; give one of them another path"]),
            ("beside CGI",       site("\"/a/b=http://a\"") + "cgi = [\"/a=/b\"]\ncgi-suffix = \".cgi\"\n", NONE),
            ("no server",        site("\"/a/=app\"") + &upstream("servers = []"),
                &["5:8: this upstream has no server; expected a list of `servers`; add one, as in servers = [\"http://127.0.0.1:9000\"]"]),
            ("two schemes",      site("\"/a/=app\"") + &upstream("servers = [\"http://a\", \"https://b\"]"),
                &["6:24: this server has another scheme than the first one; expected servers with one scheme; make an [[upstream]] for each scheme"]),
            ("a server twice",   site("\"/a/=app\"") + &upstream("servers = [\"http://a\", \"http://A:80 weight=2\"]"),
                &["6:24: server http://a weight=2 occurs twice; expected each server once; remove one of them; weight=2 gives a server twice as many requests"]),
            ("no usual server",  site("\"/a/=app\"") + &upstream("servers = [\"http://a backup\", \"http://b drain\"]"),
                &["6:12: all servers have backup or drain; expected a server without them; remove one of these words: such servers get requests only beside others, or none"]),
            ("no host",          site("\"/a/=app\"") + &upstream("servers = [\"http://unix:/a\"]\nhost = \"upstream\""),
                &["7:8: the first server is a Unix socket, which has no host; expected a host; name it, as in host = \"app.internal\""]),
            ("a check that lasts", one("health-path = \"/h\"\nhealth-interval = 1"),
                &["8:19: health-timeout is longer than health-interval; expected a timeout within the interval; a check ends before the next one begins: set both"]),
            ("a base of FastCGI", php("\"/a/=app/b\"", ""),
                &["3:10: a path behind the name of an upstream with fastcgi; expected the name alone; remove the path: FastCGI servers get that of the client, and `root` is the directory of the scripts"]),
            ("another ending",   php("\"*.php=app\"", "suffix = \".phtml\""),
                &["3:10: the scripts of this upstream end with .phtml, and the paths with .php; expected the same ending; write *.phtml, or set suffix = \".php\" in an [[upstream]]"]),
            ("an ending, no section", site("\"*.phtml=fastcgi://a:1\""),
                &["3:10: the scripts of this upstream end with .php, and the paths with .phtml; expected the same ending; write *.php, or set suffix = \".phtml\" in an [[upstream]]"]),
            ("too many",         site("\"/a/=app\"") + &upstream(&format!("servers = [{long}]")),
                &["5:8: all upstreams together have 1025 servers; expected at most 1024; put a load balancer between, or remove servers"]),
        ].into_iter().map(|(name, text, want)| (name, text, want.iter().map(|line| (*line).to_owned()).collect())).chain([
            ("TLS of HTTP",      one("ca = \"a\"\ntls-name = \"b\"\ninsecure = true"),
                vec![useless("7:6", "ca", tls), useless("8:12", "tls-name", tls), useless("9:12", "insecure", tls)]),
            ("TLS off",          one("insecure = false"), vec![]),
            ("any certificate",  secure("ca = \"a\"\ninsecure = true"),
                vec![useless("7:6", "ca", "expected one of ca and insecure; remove insecure: ca decides which certificates are accepted")]),
            ("FastCGI of HTTP",  one("root = \"/a\"\nindex = \"index.php\"\nsuffix = \".php\"\nparams = [\"A=b\"]"),
                vec![useless("7:8", "root", fastcgi), useless("8:9", "index", fastcgi), useless("9:10", "suffix", fastcgi), useless("10:11", "params", fastcgi)]),
            ("nothing checked",  one("health-interval = 1\nhealth-timeout = 2\nhealth-rise = 1\nhealth-fall = 1"),
                vec![useless("7:19", "health-interval", health), useless("8:18", "health-timeout", health), useless("9:15", "health-rise", health), useless("10:15", "health-fall", health)]),
        ]).collect();
        for (name, text, want) in cases {
            let file = ConfigFile::new("tarpon.toml", text);
            let got = read(Some(&file), &CliFlags::default(), CommandKind::Serve);
            assert_eq!(got.map_or_else(|errors| errors.lines(), |_| Vec::new()), want, "{name}");
        }
    }

    #[test]
    fn scripts_of_an_archive_need_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.tar"), "").unwrap();
        let text = "[[site]]\npath = \"a.tar\"\nproxy = [\"*.php=php\"]\n[[upstream]]\nname = \"php\"\nservers = [\"fastcgi://a:1\"]\n";
        for (root, want) in [
            (
                "",
                "3:10: the site is an archive, and has no directory of scripts; expected an upstream with `root`; set root = \"DIR\" in an [[upstream]]",
            ),
            ("root = \"/srv\"", ""),
        ] {
            let file = ConfigFile::new(dir.path().join("tarpon.toml"), format!("{text}{root}"));
            let got = read(Some(&file), &CliFlags::default(), CommandKind::Serve);
            assert_eq!(
                got.map_or_else(|errors| errors.lines().join("\n"), |_| String::new()),
                want,
                "{root}"
            );
        }
    }
}
