//! docs/guides/from-apache.md: Apache and tarpon serve with the files of the page. The answers are the same, except for what the page lists.

use super::{block, replaced};
use crate::common::{
    client::{Response, TestClient},
    other_server::OtherServer,
    port::ReservedPort,
    program::{RunningProgram, serve_config},
    site, wait_for,
};
use std::{fs, net::SocketAddr};

const GUIDE: &str = "from-apache";
const MAIN: &str = "example.org";
const WWW: &str = "www.example.org";

/// What differs in an answer: nothing, the content, or the status and the content.
#[derive(Clone, Copy, PartialEq)]
enum AnswerDifference {
    Nothing,
    Content,
    Status { apache: u16, tarpon: u16 },
}
use AnswerDifference::{Content, Nothing, Status};

#[rustfmt::skip]
const REQUESTS: &[(&str, &str, AnswerDifference)] = &[
    // host  request                  differs
    (MAIN, "GET /",                    Nothing),
    (MAIN, "HEAD /about.html",         Nothing),
    (MAIN, "GET /about.html?q=1",      Nothing),
    (MAIN, "GET /none",                Nothing),
    (MAIN, "GET /old.html",            Nothing),
    (MAIN, "GET /old.html?q=1",        Nothing),
    (MAIN, "GET /news/post.html?q=1",  Nothing),
    (MAIN, "GET /secret.html",         Content),
    (MAIN, "GET /assets/style.css",    Nothing),
    (MAIN, "GET /assets/",             Status { apache: 403, tarpon: 404 }),
    (MAIN, "GET /files/a.txt",         Nothing),
    (MAIN, "GET /files/",              Content),
    (MAIN, "GET /files",               Nothing),
    (MAIN, "GET /app/",                Nothing),
    (MAIN, "GET /app/route/7",         Nothing),
    (MAIN, "GET /app/app.js",          Nothing),
    (MAIN, "GET /media/logo.txt",      Nothing),
    (MAIN, "GET /media",               Nothing),
    (MAIN, "GET /.htaccess",           Status { apache: 403, tarpon: 404 }),
    (WWW,  "GET /about.html?q=1",      Nothing),
];

/// The part of Debian's own configuration that the sites need.
const PREAMBLE: &str = "
ServerRoot {dir}
DefaultRuntimeDir {dir}
PidFile {dir}/apache.pid
ErrorLog {dir}/apache.err
ServerName localhost
User nobody
Group nogroup
StartServers 1
ServerLimit 1
ThreadsPerChild 4
MaxRequestWorkers 4
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule alias_module /usr/lib/apache2/modules/mod_alias.so
LoadModule autoindex_module /usr/lib/apache2/modules/mod_autoindex.so
LoadModule dir_module /usr/lib/apache2/modules/mod_dir.so
LoadModule headers_module /usr/lib/apache2/modules/mod_headers.so
LoadModule mime_module /usr/lib/apache2/modules/mod_mime.so
LoadModule rewrite_module /usr/lib/apache2/modules/mod_rewrite.so
TypesConfig /dev/null
AddType text/html .html
AddType text/css .css
AddType text/javascript .js
AddType text/plain .txt
LogFormat \"%h %l %u %t \\\"%r\\\" %>s %O \\\"%{Referer}i\\\" \\\"%{User-Agent}i\\\"\" combined
<FilesMatch \"^\\.ht\">
    Require all denied
</FilesMatch>
";

#[test]
fn answers_are_those_of_apache_but_for_the_listed_differences() {
    let dir = site(&[
        ("srv/www/example.org/index.html", "<p>home"),
        ("srv/www/example.org/about.html", "<p>about"),
        ("srv/www/example.org/404.html", "<p>not here"),
        ("srv/www/example.org/gone.html", "<p>gone"),
        ("srv/www/example.org/assets/style.css", "p { color: red }\n"),
        ("srv/www/example.org/files/a.txt", "a file"),
        ("srv/www/example.org/blog/post.html", "<p>post"),
        ("srv/www/example.org/app/index.html", "<p>app"),
        ("srv/www/example.org/app/app.js", "app()"),
        ("srv/www/example.org/.htaccess", &block(GUIDE, "htaccess")),
        ("srv/media/logo.txt", "a logo"),
        ("log/none", ""),
    ]);
    let at = dir.path().display().to_string();
    let adapted = |language: &str, log: &str| {
        let text = replaced(&block(GUIDE, language), "/srv/", &format!("{at}/srv/"));
        replaced(&text, log, &format!("{at}/log"))
    };
    let config = replaced(&adapted("toml", "/var/log/tarpon"), "\"80\"", "\"127.0.0.1:0\"");
    let program = RunningProgram::start_ready(serve_config(&config, dir.path(), &[]));
    let port = ReservedPort::new();
    let config = adapted("apache", "/var/log/apache2").replace("access.log", "apache.log");
    let config = replaced(&config, "Listen 80", &format!("Listen {}", port.address));
    let config = replaced(&config, "*:80>", &format!("*:{}>", port.address.port()));
    let mut apache = OtherServer::start("apache2", &(PREAMBLE.replace("{dir}", &at) + &config), dir.path());
    drop(apache.connect("127.0.0.1:0", port.address, "Apache"));

    for (host, request, difference) in REQUESTS {
        let [theirs, own] = [port.address, program.address()].map(|address| ask(address, host, request));
        let case = format!("{host}, {request}:\n{}\n\n{}\n", theirs.head, own.head);
        match *difference {
            Status { apache, tarpon } => assert_eq!((theirs.status, own.status), (apache, tarpon), "{case}"),
            _ => assert_eq!(theirs.status, own.status, "{case}"),
        }
        assert_eq!(location(&theirs, host), location(&own, host), "{case}");
        let is_redirect = own.status / 100 == 3;
        // The text of a redirect is each server's own.
        if *difference == Nothing && !is_redirect {
            assert_eq!(theirs.content, own.content, "{case}");
            assert_eq!(media_type(&theirs), media_type(&own), "{case}");
        }
        if *difference == Nothing && *host == MAIN {
            assert_eq!(theirs.field("X-Frame-Options"), own.field("X-Frame-Options"), "{case}");
        }
        if *difference == Content {
            assert_ne!(theirs.content, own.content, "{case}");
        }
        let cached = match own.status {
            _ if request.contains("style.css") => "max-age=3600",
            200..400 => "no-cache",
            _ => "no-store",
        };
        assert_eq!(own.field("Cache-Control"), Some(cached), "{case}");
        assert_eq!(
            theirs.field("Cache-Control"),
            Some(cached).filter(|value| *value == "max-age=3600"),
            "{case}"
        );
        let sniffing = |response: &Response| response.field("X-Content-Type-Options").map(str::to_owned);
        // A redirect host has no headers of the site.
        let own_sniffing = (*host == MAIN).then(|| "nosniff".to_owned());
        assert_eq!((sniffing(&theirs), sniffing(&own)), (None, own_sniffing), "{case}");
        assert!(
            !is_redirect || theirs.field("Location").is_some_and(|value| value.starts_with("http://")),
            "{case}"
        );
    }
    assert_eq!(ask(program.address(), MAIN, "GET /secret.html").content, b"<p>gone");
    let log = dir.path().join("log/access.log");
    let line = "\"GET /about.html?q=1 HTTP/1.1\" 200 8 ";
    wait_for("the line of the log", || {
        fs::read_to_string(&log).unwrap_or_default().contains(line).then_some(())
    });
}

/// Sends one request on a connection of its own.
fn ask(address: SocketAddr, host: &str, request: &str) -> Response {
    let mut client = TestClient::connect(address);
    client.send(format!("{request} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"));
    let head = client.try_head().expect("a head");
    let content = client.read_to_end();
    Response { content, ..head }
}

/// Returns the target of a redirect: a path of the host, or another host with a path.
fn location(response: &Response, host: &str) -> Option<String> {
    let value = response.field("Location")?;
    let value = value.strip_prefix("http:").unwrap_or(value);
    Some(value.strip_prefix(&format!("//{host}")).unwrap_or(value).to_owned())
}

fn media_type(response: &Response) -> &str {
    response.field("Content-Type").unwrap_or_default().split(';').next().unwrap_or_default()
}
