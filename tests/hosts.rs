//! Several sites in one server, selected by host.

use crate::common::{
    EMBEDDED, ENGINES,
    client::{Response, TestClient},
    distinct_bytes,
    endpoint::TestTls,
    program::{RunningProgram, tarpon},
    server::{EmbeddedServer, TestServer, settings, settings_with_http2},
    site, wait_for,
};
use std::{fs, process::Command, time::Duration};
use tarpon::{
    CompressionEffort, Engine, HostName, Progress, Settings, Site, SiteLimits, SitePacking, SiteSource,
    UnknownHost, VirtualHost, VirtualHosts, pack,
};
use tempfile::TempDir;

/// Returns a site with its name in the content, with rules and an error page of its own.
fn dir(name: &str) -> TempDir {
    site(&[
        ("index.html", name.to_owned()),
        ("dir/index.html", format!("dir of {name}")),
        ("404.html", format!("missing in {name}")),
        ("_redirects", format!("/old/:page /{name}/:page\n")),
        ("_headers", format!("/*\n  X-Site: {name}\n")),
    ])
}

fn host(dir: &TempDir, names: &[&str], redirect_hosts: &[&str]) -> VirtualHost {
    let site = Site::from_dir(dir.path()).expect("a site");
    VirtualHost { names: parsed(names), redirect_hosts: parsed(redirect_hosts), ..site.into() }
}

fn parsed(names: &[&str]) -> Vec<HostName> {
    names.iter().map(|name| name.parse().expect("a name")).collect()
}

/// Returns sites for `one.example`, `two.example` with redirect hosts, and `*.two.example`.
fn three_hosts(unknown: UnknownHost) -> VirtualHosts {
    let dirs = ["one", "two", "wild"].map(dir);
    let sites = vec![
        host(&dirs[0], &["one.example"], &[]),
        host(&dirs[1], &["two.example", "deux.example"], &["www.two.example", "*.zwei.example"]),
        host(&dirs[2], &["*.two.example"], &[]),
    ];
    VirtualHosts::new(sites, unknown).expect("unique names")
}

fn three_sites(unknown: UnknownHost, settings: &Settings) -> EmbeddedServer {
    EmbeddedServer::sites(settings, three_hosts(unknown))
}

/// Like [`three_sites`] on any engine, with the listeners of `tls`; for engines of processes, the program with a configuration.
fn three_sites_on(unknown: UnknownHost, engine: Engine, tls: &TestTls) -> TestServer {
    if EMBEDDED.contains(&engine) {
        let settings = settings_with_http2(engine, 1);
        return EmbeddedServer::start(tls.listeners(), &settings, three_hosts(unknown)).into();
    }
    let dirs = ["one", "two", "wild"].map(dir);
    let mut config = format!(
        "[[site]]\npath = {:?}\nhosts = [\"one.example\"]\n\
         [[site]]\npath = {:?}\nhosts = [\"two.example\", \"deux.example\"]\n\
         redirect-hosts = [\"www.two.example\", \"*.zwei.example\"]\nDEFAULT\n\
         [[site]]\npath = {:?}\nhosts = [\"*.two.example\"]\n",
        dirs[0].path(),
        dirs[1].path(),
        dirs[2].path(),
    );
    config = config.replace("DEFAULT", if unknown == UnknownHost::Refused { "" } else { "default = true" });
    let configuration = site(&[("tarpon.toml", config)]);
    let mut command = tarpon(["serve", "--config"].map(AsRef::as_ref));
    command.arg(configuration.path().join("tarpon.toml"));
    command.args(["--engine", engine.name(), "--admin", "off"]).args(tls.options());
    if unknown == UnknownHost::Refused {
        command.arg("--refuse-unknown-hosts");
    }
    TestServer::from(RunningProgram::start_ready(command)).keep((configuration, dirs))
}

fn request(client: &mut TestClient, host: &str, target: &str) -> Response {
    client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    client.response()
}

fn summary(response: &Response) -> String {
    let content = String::from_utf8_lossy(&response.content);
    let content = content.lines().next().unwrap_or_default();
    format!("{} {}", response.status, response.field("Location").unwrap_or(content))
}

#[test]
fn host_selects_the_site() {
    #[rustfmt::skip]
    let cases = [
        // host                  target    response
        ("one.example",          "/",      "200 one"),
        ("two.example",          "/",      "200 two"),
        ("deux.example",         "/",      "200 two"),
        ("TWO.example.:8080",    "/",      "200 two"),
        ("a.b.two.example",      "/",      "200 wild"),
        ("www.two.example:81",   "/a|?q",  "301 //two.example:81/a%7C?q"),
        ("a.zwei.example",       "/",      "301 //two.example/"),
        ("one.example",          "/dir?q", "301 /dir/?q"),
        ("two.example",          "/old/a", "301 /two/a"),
        ("one.example",          "/none",  "404 missing in one"),
        ("a.two.example",        "/none",  "404 missing in wild"),
        ("three.example",        "/",      "421 <!doctype html>"),
        ("one.example",          "http://two.example/", "200 two"),
    ];
    let tls = TestTls::new();
    for &engine in ENGINES {
        let served = three_sites_on(UnknownHost::Refused, engine, &tls);
        for endpoint in tls.endpoints_with_http2(engine, &served.addresses) {
            let place = format!("{engine}, {endpoint}");
            // In HTTP/2 the host of an absolute target is the only one.
            let is_sent =
                |(_, target, _): &&(&str, &str, &str)| target.starts_with('/') || !endpoint.is_http2();
            let cases: Vec<_> = cases.iter().filter(is_sent).copied().collect();
            // One connection for all requests, with changing hosts.
            let mut client = endpoint.connect();
            for &(host, target, want) in &cases {
                let response = request(&mut client, host, target);
                assert_eq!(summary(&response), want, "{place}: {host} {target}");
            }
            // Pipelined.
            let requests = cases
                .iter()
                .map(|(host, target, _)| format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            client.send(requests.collect::<String>());
            for (host, target, want) in cases {
                assert_eq!(summary(&client.response()), want, "{place}, pipelined: {host} {target}");
            }
            assert_eq!(
                request(&mut client, "one.example", "/").field("X-Site"),
                Some("one"),
                "{place}: fields of the site"
            );
        }
    }
}

#[test]
fn unknown_host_gets_the_default_site() {
    let tls = TestTls::new();
    for &engine in ENGINES {
        let served = three_sites_on(UnknownHost::Site(1), engine, &tls);
        for endpoint in tls.endpoints_with_http2(engine, &served.addresses) {
            let place = format!("{engine}, {endpoint}");
            let mut client = endpoint.connect();
            assert_eq!(summary(&request(&mut client, "three.example", "/")), "200 two", "{place}");
            assert_eq!(summary(&request(&mut client, "127.0.0.1:8080", "/")), "200 two", "{place}");
            if endpoint.is_http2() {
                continue;
            }
            client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
            assert_eq!(summary(&client.response()), "200 two", "{place}: HTTP/1.0 without a host");
            client.send("GET / HTTP/1.1\r\n\r\n");
            assert_eq!(client.response().status, 400, "{place}: HTTP/1.1 without a host");
        }
    }
}

/// The redirect keeps path, query and port.
#[test]
fn curl_follows_a_redirect_host() {
    let tls = TestTls::for_hosts(&["two.example", "www.two.example", "*.zwei.example"]);
    for &engine in ENGINES {
        let served = three_sites_on(UnknownHost::Refused, engine, &tls);
        let hosts = [("www.two.example", "two.example"), ("x.zwei.example", "two.example")];
        let schemes = served.addresses.iter().zip(["http", "https"]);
        for ((address, scheme), (from, to)) in schemes.flat_map(|scheme| hosts.map(|hosts| (scheme, hosts))) {
            let port = address.port();
            let resolve = [from, to].map(|name| format!("{name}:{port}:{}", address.ip()));
            let out = Command::new("curl")
                .args(["--silent", "--location", "--write-out", "\n%{http_code} %{url_effective}"])
                .args(["--resolve", &resolve[0], "--resolve", &resolve[1], "--cacert"])
                .arg(tls.authority())
                .arg(format!("{scheme}://{from}:{port}/dir/?q=1"))
                .output()
                .expect("curl");
            let want = format!("dir of two\n200 {scheme}://{to}:{port}/dir/?q=1");
            assert_eq!(String::from_utf8_lossy(&out.stdout), want, "{engine:?}: {from}");
        }
    }
}

#[test]
fn swap_replaces_one_site() {
    for &engine in EMBEDDED {
        let settings = Settings { keep_releases: 1, ..settings(engine, 2) };
        let served = three_sites(UnknownHost::Refused, &settings);
        let mut clients: Vec<_> = (0..4).map(|_| TestClient::connect(served.address)).collect();
        let new = site(&[("index.html", "new")]);
        served.handle.swap_at(1, Site::from_dir(new.path()).expect("a site"));
        for client in &mut clients {
            wait_for("the new site", || {
                (summary(&request(client, "two.example", "/")) == "200 new").then_some(())
            });
            assert_eq!(summary(&request(client, "one.example", "/")), "200 one");
            assert_eq!(summary(&request(client, "x.two.example", "/")), "200 wild");
        }
        served.handle.swap(Site::from_dir(new.path()).expect("a site"));
        for client in &mut clients {
            wait_for("the new first site", || {
                (summary(&request(client, "one.example", "/")) == "200 new").then_some(())
            });
            assert_eq!(summary(&request(client, "x.two.example", "/")), "200 wild");
        }
    }
}

#[test]
fn each_site_has_its_own_earlier_releases() {
    const SCRIPT: &str = "app-B4qfzvDp.js";
    for &engine in EMBEDDED {
        let before = site(&[(SCRIPT, "old")]);
        let now = site(&[("index.html", "new")]);
        let both = [before, now].map(|dir| (Site::from_dir(dir.path()).expect("a site"), dir));
        let [(earlier, _before), (current, now)] = both;
        let retaining = VirtualHost {
            earlier: vec![earlier],
            keep_releases: Some(1),
            names: parsed(&["retaining.example"]),
            ..current.into()
        };
        let sites = vec![host(&now, &["other.example"], &[]), retaining];
        let served = EmbeddedServer::sites(
            &settings(engine, 1),
            VirtualHosts::new(sites, UnknownHost::Site(0)).expect("unique names"),
        );
        let mut client = TestClient::connect(served.address);
        let target = format!("/{SCRIPT}");
        assert_eq!(summary(&request(&mut client, "retaining.example", &target)), "200 old");
        assert_eq!(request(&mut client, "other.example", &target).status, 404);
        // A new site replaces the current one, with the same contents.
        served.handle.swap_at(1, Site::from_dir(now.path()).expect("a site"));
        assert_eq!(summary(&request(&mut client, "retaining.example", &target)), "200 old", "after a swap");
    }
}

#[test]
fn each_site_has_its_own_limits() {
    for &engine in EMBEDDED {
        let [short, long] = ["short", "long"].map(dir);
        let limits = SiteLimits {
            idle_timeout: Some(Duration::from_millis(100)),
            keepalive_requests: 2.try_into().ok(),
            ..SiteLimits::default()
        };
        let short = VirtualHost { limits, ..host(&short, &["short.example"], &[]) };
        let sites = vec![host(&long, &["long.example"], &[]), short];
        let served = EmbeddedServer::sites(
            &settings(engine, 1),
            VirtualHosts::new(sites, UnknownHost::Site(0)).expect("unique names"),
        );
        let mut clients = ["short.example", "long.example"].map(|host| {
            let mut client = TestClient::connect(served.address);
            assert_eq!(request(&mut client, host, "/").status, 200);
            client
        });
        assert_eq!(clients[0].read_to_end(), b"", "the idle timeout of the first site");
        assert_eq!(
            request(&mut clients[1], "long.example", "/").status,
            200,
            "no idle timeout of the second site"
        );

        let mut client = TestClient::connect(served.address);
        for host in ["long.example", "long.example", "long.example"] {
            assert_eq!(request(&mut client, host, "/").field("Connection"), None);
        }
        assert_eq!(request(&mut client, "short.example", "/").field("Connection"), Some("close"));
    }
}

/// The server closes connections of the truncated site and keeps serving the other one.
#[test]
fn truncated_archive_affects_only_its_site() {
    for &engine in EMBEDDED {
        let dirs = ["one", "two"].map(|name| {
            let files = (0..50).map(|number| (format!("{number}"), distinct_bytes(9_000 + number)));
            let dir = site(&files.collect::<Vec<_>>());
            fs::write(dir.path().join("index.html"), name).expect("a page");
            dir
        });
        let archives = crate::common::readable_dir();
        let paths = ["one.tar", "two.tar"].map(|name| archives.path().join(name));
        for (dir, path) in dirs.iter().zip(&paths) {
            let source = SiteSource { path: dir.path().to_owned(), ..SiteSource::default() };
            let packing = SitePacking { effort: CompressionEffort::Fast, ..SitePacking::new(path) };
            pack(&source, &packing, &Progress::default()).expect("an archive");
        }
        let names = [["one.example"], ["two.example"]];
        let sites = paths.iter().zip(names).map(|(path, names)| {
            let site = Site::from_archive(path, "").expect("a site");
            VirtualHost { names: parsed(&names), ..site.into() }
        });
        let served = EmbeddedServer::sites(
            &settings(engine, 1),
            VirtualHosts::new(sites.collect(), UnknownHost::Refused).expect("unique names"),
        );
        let mut client = TestClient::connect(served.address);
        assert_eq!(summary(&request(&mut client, "one.example", "/")), "200 one");
        fs::File::options().write(true).open(&paths[0]).and_then(|file| file.set_len(0)).expect("truncated");
        client.send("GET / HTTP/1.1\r\nHost: one.example\r\n\r\n");
        assert!(client.try_response().is_err(), "{engine:?}: a response of a truncated archive");
        let mut client = TestClient::connect(served.address);
        for _ in 0..3 {
            assert_eq!(summary(&request(&mut client, "two.example", "/")), "200 two", "{engine:?}");
        }
    }
}

#[test]
fn invalid_host_names_fail_with_a_hint() {
    let sites = |sites: &[(&[&str], &[&str])], unknown| {
        let dir = dir("any");
        let sites = sites.iter().map(|(names, redirect_hosts)| host(&dir, names, redirect_hosts));
        let checked = VirtualHosts::new(sites.collect(), unknown);
        checked.err().map(|error| error.to_string()).unwrap_or_default()
    };
    #[rustfmt::skip]
    let cases = [
        ("in order",      sites(&[(&["a.org", "*.a.org"], &["b.org"]), (&["c.org"], &[])], UnknownHost::Refused), ""),
        ("no names",      sites(&[(&[], &[])], UnknownHost::Site(0)),                                             ""),
        ("twice",         sites(&[(&["a.org"], &[]), (&["A.org."], &[])], UnknownHost::Site(0)),
            "cannot serve the host a.org: it is named twice, first for site number 1; name each host once, as the host or the redirect host of one site"),
        ("name and alias", sites(&[(&["a.org"], &["b.org"]), (&["b.org"], &[])], UnknownHost::Site(0)),
            "cannot serve the host b.org: it is named twice, first for site number 2; name each host once, as the host or the redirect host of one site"),
        ("leads nowhere", sites(&[(&["*.a.org"], &["b.org"])], UnknownHost::Site(0)),
            "cannot serve the host b.org: it redirects to a site that has no host except wildcards; give the site a host that is not a wildcard, such as www.example.org"),
        ("no such site",  sites(&[(&["a.org"], &[])], UnknownHost::Site(1)),
            "cannot serve these sites: the number of sites is 1, of at most 32768, and the default must be one of them; name at least one site, and one of them as the default"),
        ("none at all",   sites(&[], UnknownHost::Refused),
            "cannot serve these sites: the number of sites is 0, of at most 32768, and the default must be one of them; name at least one site, and one of them as the default"),
    ];
    for (name, got, want) in cases {
        assert_eq!(got, want, "{name}");
    }
}

#[test]
fn thousand_sites_are_served() {
    const COUNT: usize = 1_000;
    for &engine in EMBEDDED {
        let sites = (0..COUNT).map(|number| {
            let dir = site(&[("index.html", number.to_string())]);
            host(&dir, &[&format!("site-{number}.example")], &[&format!("www.site-{number}.example")])
        });
        let sites = VirtualHosts::new(sites.collect(), UnknownHost::Refused).expect("unique names");
        let served = EmbeddedServer::sites(&settings(engine, 1), sites);
        let mut client = TestClient::connect(served.address);
        for number in (0..COUNT).step_by(37) {
            let (own, www) = (format!("site-{number}.example"), format!("www.site-{number}.example"));
            assert_eq!(summary(&request(&mut client, &own, "/")), format!("200 {number}"), "{engine:?}");
            assert_eq!(summary(&request(&mut client, &www, "/")), format!("301 //{own}/"), "{engine:?}");
        }
        assert_eq!(
            summary(&request(&mut TestClient::connect(served.address), "site-0.example", "/")),
            "200 0",
            "a new connection"
        );
    }
}
