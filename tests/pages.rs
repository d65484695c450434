//! Responses to paths without a file: error pages, the shell of an application, clean URLs, rules, and their fields.
//!
//! Each test runs on every engine, with a directory, a tar archive and a packed site.

use crate::common::{
    ENGINES,
    client::{Response, TestClient},
    endpoint::TestTls,
    program::{RunningProgram, serve, tarpon},
    site,
};
use std::{ffi::OsStr, path::PathBuf, process::Command};
use tempfile::TempDir;

#[test]
fn missing_path_gets_the_nearest_404_page() {
    let text = "<p>not here ".repeat(200);
    let forms = SiteForms::of(&[
        ("index.html", "home"),
        ("404.html", "of the root"),
        ("guide/index.html", "guide"),
        ("guide/404.html", &text),
        ("guide/deep/er/page.txt", "page"),
    ]);
    #[rustfmt::skip]
    let cases: &[PageCase<'_>] = &[
        // what it shows            request                                           response                                            content
        ("at the root",             "GET /missing",                                   &["404", "no-store", "text/html; charset=utf-8"],   "of the root"),
        ("with a slash",            "GET /missing/",                                  &["404", "no-store"],                               "of the root"),
        ("in a directory",          "GET /guide/missing",                             &["404", "no-store"],                               &text),
        ("below it",                "GET /guide/deep/er/missing.css",                 &["404", "no-store"],                               &text),
        ("below what is missing",   "GET /guide/a/b/c/d/",                            &["404", "no-store"],                               &text),
        ("beside it",               "GET /guided/missing",                            &["404", "no-store"],                               "of the root"),
        ("behind empty segments",   "GET //x/",                                       &["404", "no-store"],                               "of the root"),
        ("escaped",                 "GET /gu%69de/x",                                 &["404", "no-store"],                               &text),
        ("through dots",            "GET /a/../guide/x",                              &["404", "no-store"],                               &text),
        ("with a query",            "GET /guide/x?/y",                                &["404", "no-store"],                               &text),
        ("HEAD",                    "HEAD /guide/x",                                  &["404", "no-store"],                               ""),
        ("OPTIONS",                 "OPTIONS /guide/x",                               &["404", "no-store"],                               &text),
        ("with a condition",        "GET /x\r\nIf-None-Match: *",                     &["404", "no-store"],                               "of the root"),
        ("with a range",            "GET /x\r\nRange: bytes=0-1",                     &["404", "no-store"],                               "of the root"),
        ("another method",          "POST /x",                                        &["405", "no-store"],                               "This address supports GET"),
        ("the page itself",         "GET /404.html",                                  &["200", "no-cache"],                               "of the root"),
        ("an existing file",        "GET /guide/",                                    &["200", "no-cache"],                               "guide"),
    ];
    forms.check(&[], cases);
}

#[test]
fn application_shell_answers_routes_and_not_assets() {
    let forms = SiteForms::of(&[
        ("index.html", "the shell"),
        ("404.html", "not here"),
        ("app.js", "1"),
        ("a/404.html", "nor here"),
    ]);
    #[rustfmt::skip]
    let cases: &[PageCase<'_>] = &[
        // what it shows            request                                           response                                            content
        ("a route",                 "GET /users/7",                                   &["200", "no-cache", "text/html; charset=utf-8"],   "the shell"),
        ("with a dot",              "GET /users/j.doe",                               &["200", "no-cache"],                               "the shell"),
        ("with a slash",            "GET /users/",                                    &["200", "no-cache"],                               "the shell"),
        ("with a query",            "GET /users?q=a.js",                              &["200", "no-cache"],                               "the shell"),
        ("below a 404.html",        "GET /a/b",                                       &["200", "no-cache"],                               "the shell"),
        ("HEAD",                    "HEAD /users/7",                                  &["200", "no-cache"],                               ""),
        ("a validator",             "GET /users/7\r\nIf-None-Match: *",               &["304", "no-cache"],                               ""),
        ("a range",                 "GET /users/7\r\nRange: bytes=0-2",               &["206", "no-cache"],                               "the"),
        ("a missing script",        "GET /assets/app-B4qfzvDp.js",                    &["404", "no-store"],                               "not here"),
        ("below a 404.html",        "GET /a/b.css",                                   &["404", "no-store"],                               "nor here"),
        ("as navigation",           "GET /logo.PNG\r\nAccept: text/html",             &["404", "no-store"],                               "not here"),
        ("an existing file",        "GET /app.js",                                    &["200", "no-cache"],                               "1"),
    ];
    forms.check(&["--spa"], cases);
}

#[test]
fn page_has_one_address() {
    let forms = SiteForms::of(&[
        ("index.html", "home"),
        ("about.html", "about"),
        ("guide/index.html", "guide"),
        ("guide/a&b.html", "a b"),
    ]);
    #[rustfmt::skip]
    let cases: &[PageCase<'_>] = &[
        // what it shows            request                                           response                                            content
        ("the root",                "GET /",                                          &["200", "no-cache"],                               "home"),
        ("by its name",             "GET /index.html",                                &["301", "no-cache", "/"],                          "at"),
        ("a page",                  "GET /about",                                     &["200", "no-cache", "text/html; charset=utf-8"],   "about"),
        ("by its name",             "GET /about.html",                                &["301", "no-cache", "/about"],                     "/about"),
        ("with a slash",            "GET /about/",                                    &["301", "no-cache", "/about"],                     "/about"),
        ("keeps the query",         "GET /about.html?a=/b&c",                         &["301", "no-cache", "/about?a=/b&c"],              "/about"),
        ("HEAD",                    "HEAD /about/?q",                                 &["301", "no-cache", "/about?q"],                   ""),
        ("escaped",                 "GET /guide/a%26b.html",                          &["301", "no-cache", "/guide/a&b"],                 "a&amp;b"),
        ("a directory",             "GET /guide/",                                    &["200", "no-cache"],                               "guide"),
        ("without its slash",       "GET /guide?q",                                   &["301", "no-cache", "/guide/?q"],                  "/guide/"),
        ("by its name",             "GET /guide/index.html",                          &["301", "no-cache", "/guide/"],                    "/guide/"),
        ("a missing page",          "GET /abou",                                      &["404", "no-store"],                               "no page at this address"),
    ];
    forms.check(&["--clean-urls"], cases);
    #[rustfmt::skip]
    let cases: &[PageCase<'_>] = &[
        // what it shows            request                                           response                                            content
        ("a page",                  "GET /about/",                                    &["200", "no-cache"],                               "about"),
        ("without its slash",       "GET /about?q",                                   &["301", "no-cache", "/about/?q"],                  "/about/"),
        ("by its name",             "GET /about.html",                                &["301", "no-cache", "/about/"],                    "/about/"),
    ];
    forms.check(&["--clean-urls", "--trailing-slash", "always"], cases);
    #[rustfmt::skip]
    let cases: &[PageCase<'_>] = &[
        // what it shows            request                                           response                                            content
        ("the root",                "GET /",                                          &["200", "no-cache"],                               "home"),
        ("a directory",             "GET /guide",                                     &["200", "no-cache"],                               "guide"),
        ("with a slash",            "GET /guide/?q",                                  &["301", "no-cache", "/guide?q"],                   "/guide"),
        ("by its name",             "GET /guide/index.html",                          &["200", "no-cache"],                               "guide"),
        ("a page",                  "GET /about.html",                                &["200", "no-cache"],                               "about"),
    ];
    forms.check(&["--trailing-slash", "never"], cases);
}

#[test]
fn fields_of_the_whole_site_are_sent_unless_a_rule_sets_others() {
    let forms = SiteForms::of(&[
        ("index.html", "home"),
        ("fonts/a.woff2", "font"),
        ("fonts/index.html", "fonts"),
        ("framed/index.html", "framed"),
        (
            "_headers",
            "/framed/*\n  X-Frame-Options: ALLOWALL\n/fonts/*\n  Cache-Control: max-age=9, immutable\n/*\n  X-A: 1\n",
        ),
        ("_redirects", "/old /new\n/fonts/old/* /fonts/:splat\n/sent/* /fonts/a.woff2 410\n"),
    ]);
    const SECURE: [&str; 3] = ["SAMEORIGIN", "strict-origin-when-cross-origin", "same-origin-allow-popups"];
    #[rustfmt::skip]
    let cases: &[(&str, &str, &[&str], &str)] = &[
        // what it shows            request                                           response                                content
        ("a page",                  "GET /",                                          &["200", "no-cache", ""],               "home"),
        ("a validator",             "GET /\r\nIf-None-Match: *",                      &["304", "no-cache", ""],               ""),
        ("open",                    "GET /fonts/a.woff2\r\nOrigin: http://b",         &["200", "max-age=9, immutable", "*"],  "font"),
        ("open, a range",           "GET /fonts/a.woff2\r\nRange: bytes=0-1",         &["206", "max-age=9, immutable", "*"],  "fo"),
        ("missing",                 "GET /missing",                                   &["404", "no-store", ""],               "no page at this address"),
        ("missing and open",        "GET /fonts/missing",                             &["404", "no-store", "*"],              "no page at this address"),
        ("an error by a rule",      "GET /sent/a",                                    &["410", "no-store", "*"],              "font"),
        ("a directory's redirect",    "GET /fonts?q",                                   &["301", "no-cache", "*"],              "/fonts/"),
        ("a plain rule",            "GET /old",                                       &["301", "no-cache", ""],               "/new"),
        ("a rule with a splat",     "GET /fonts/old/a",                               &["301", "no-cache", "*"],              "somewhere"),
        ("another method",          "POST /",                                         &["405", "no-store", ""],               "supports"),
        ("an unknown method",       "BREW /",                                         &["501", "no-store", ""],               "501"),
        ("a condition",             "GET /\r\nIf-Match: \"a\"",                       &["412", "no-store", ""],               "412"),
        ("a range beyond the end",  "GET /\r\nRange: bytes=99-",                      &["416", "no-store", ""],               "416"),
        ("an expectation",          "GET /\r\nExpect: a",                             &["417", "no-store", ""],               "417"),
        ("a malformed target",      "GET a",                                          &["400", "no-store", ""],               "400"),
        ("a long target",           &format!("GET /{}", "a".repeat(20_000)),           &["414", "no-store", ""],               "414"),
        ("a long field",            &format!("GET /\r\nA: {}", "a".repeat(20_000)),   &["431", "no-store", ""],               "431"),
        ("long content",            "GET /\r\nContent-Length: 99999999",              &["413", "no-store", ""],               "413"),
    ];
    let with_all = |fields: &[&'static str]| {
        let [status, cache, cors] = fields else { panic!("three") };
        let cors = (!cors.is_empty()).then_some(*cors);
        // A 304 has no `nosniff`: the client received `nosniff` with the stored content.
        let sniffing = (*status != "304").then_some("nosniff");
        [*status, *cache, "1"].into_iter().chain(sniffing).chain(SECURE).chain(cors).collect::<Vec<_>>()
    };
    let answers: Vec<_> = cases.iter().map(|(.., fields, _)| with_all(fields)).collect();
    let cases: Vec<PageCase<'_>> = cases
        .iter()
        .zip(&answers)
        .map(|(&(name, request, _, content), answer)| (name, request, &answer[..], content))
        .collect();
    let options = ["--secure-headers", "--cors", "/fonts"];
    forms.check(&options, &cases);
    #[rustfmt::skip]
    let framed: &[PageCase<'_>] = &[
        ("a rule",                  "GET /framed/",                                   &["200", "no-cache", "nosniff", "ALLOWALL"],   "framed"),
        ("its redirect",            "GET /framed",                                    &["301", "no-cache", "nosniff", "ALLOWALL"],   "/framed/"),
        ("missing in it",           "GET /framed/x",                                  &["404", "no-store", "nosniff", "ALLOWALL"],   "no page at this address"),
    ];
    forms.check(&options, framed);
}

#[test]
fn application_shell_has_the_fields_of_the_requested_path() {
    let forms = SiteForms::of(&[
        ("index.html", "shell"),
        ("_headers", "/app/*\n  X-App: app\n/index.html\n  X-Shell: shell\n/*\n  X-All: all\n"),
    ]);
    #[rustfmt::skip]
    let cases: &[PageCase<'_>] = &[
        // what it shows            request                     response                                        content
        ("a route",                 "GET /users/7",             &["200", "no-cache", "shell", "all"],           "shell"),
        ("below a directory",       "GET /app/users/7",         &["200", "no-cache", "shell", "app", "all"],    "shell"),
        ("open",                    "GET /open/7",              &["200", "no-cache", "shell", "*"],             "shell"),
        ("a missing asset there",   "GET /app/users.js",        &["404", "no-store", "app", "all"],             "no page at this address"),
    ];
    forms.check(&["--spa", "--cors", "/open"], cases);
}

/// `docs/pages-and-caching.md` describes this order.
#[test]
fn rules_pages_and_the_shell_have_one_order() {
    let forms = SiteForms::of(&[
        ("index.html", "shell"),
        ("about.html", "about"),
        ("forced.html", "forced"),
        ("guide/index.html", "guide"),
        ("app.js", "script"),
        ("404.html", "not here"),
        ("a/404.html", "nor here"),
        (
            "_redirects",
            "/forced /app.js 200!\n/forced.html /to 302!\n/about /to\n/about.html /to\n/guide /to\n/guide/index.html /to\n\
             /old /about 308\n/users/* /to/:splat 303\n/sent/* /about 200\n/named/* /about.html 200\n/app/* /index.html 200\n/gone/* /guide 410\n/asset.js /app.js 200\n",
        ),
    ]);
    #[rustfmt::skip]
    let always: &[PageCase<'_>] = &[
        // what it shows                    request                     response                                    content
        ("a rule with ! before a page",     "GET /forced.html",         &["302", "no-cache", "/to"],                "somewhere"),
        ("! before a clean URL",            "GET /forced",              &["200", "no-cache"],                       "script"),
        ("a directory before a rule",       "GET /guide/",              &["200", "no-cache"],                       "guide"),
        ("its redirect",                    "GET /guide?q",             &["301", "no-cache", "/guide/?q"],          "/guide/"),
        ("a rule without a file",           "GET /old?q",               &["308", "no-cache", "/about?q"],           "/about"),
        ("a rule before the shell",         "GET /users/7",             &["303", "no-cache", "/to/7"],              "somewhere"),
        ("a page by a rule",                "GET /sent/x",              &["200", "no-cache"],                       "about"),
        ("a page by its name",              "GET /named/x",             &["200", "no-cache"],                       "about"),
        ("the shell by its name",           "GET /app/x",               &["200", "no-cache"],                       "shell"),
        ("an error by a rule",              "GET /gone/x",              &["410", "no-store"],                       "guide"),
        ("an asset by a rule",              "GET /asset.js",            &["200", "no-cache"],                       "script"),
        ("a missing asset",                 "GET /a/b.css",             &["404", "no-store"],                       "nor here"),
        ("missing in another directory",    "GET /b.css",               &["404", "no-store"],                       "not here"),
    ];
    #[rustfmt::skip]
    let without: &[PageCase<'_>] = &[
        ("a file before a rule",            "GET /about.html",          &["200", "no-cache"],                       "about"),
        ("a rule without a file",           "GET /about",               &["301", "no-cache", "/to"],                "/to"),
        ("the other slash",                 "GET /about/",              &["301", "no-cache", "/to"],                "/to"),
        ("the name of a page",              "GET /guide/index.html",    &["200", "no-cache"],                       "guide"),
    ];
    #[rustfmt::skip]
    let clean: &[PageCase<'_>] = &[
        ("a clean URL before a rule",       "GET /about",               &["200", "no-cache"],                       "about"),
        ("its redirect",                    "GET /about.html",          &["301", "no-cache", "/about"],             "/about"),
        ("the other slash",                 "GET /about/",              &["301", "no-cache", "/about"],             "/about"),
        ("the name of a page",              "GET /guide/index.html",    &["301", "no-cache", "/guide/"],            "/guide/"),
    ];
    let missing: &[PageCase<'_>] = &[("a missing page", "GET /a/b", &["404", "no-store"], "nor here")];
    let shell: &[PageCase<'_>] =
        &[("the shell for a missing page", "GET /a/b", &["200", "no-cache"], "shell")];
    forms.check(&[], &[always, without, missing].concat());
    forms.check(&["--spa"], &[always, without, shell].concat());
    forms.check(&["--clean-urls"], &[always, clean, missing].concat());
    forms.check(&["--spa", "--clean-urls"], &[always, clean, shell].concat());
    #[rustfmt::skip]
    let slashed: &[PageCase<'_>] = &[
        ("a clean URL before a rule",       "GET /about/",              &["200", "no-cache"],                       "about"),
        ("its redirect",                    "GET /about",               &["301", "no-cache", "/about/"],            "/about/"),
        ("a rule with ! before both",       "GET /forced/",             &["200", "no-cache"],                       "script"),
        ("a page by a rule",                "GET /sent/x",              &["200", "no-cache"],                       "about"),
        ("the shell",                       "GET /x",                   &["200", "no-cache"],                       "shell"),
    ];
    forms.check(&["--spa", "--clean-urls", "--trailing-slash", "always"], slashed);
    #[rustfmt::skip]
    let bare: &[PageCase<'_>] = &[
        ("a directory before a rule",       "GET /guide",               &["200", "no-cache"],                       "guide"),
        ("its redirect",                    "GET /guide/",              &["301", "no-cache", "/guide"],             "/guide"),
        ("an error by a rule",              "GET /gone/x",              &["410", "no-store"],                       "guide"),
    ];
    forms.check(&["--trailing-slash", "never"], bare);
}

#[test]
fn cloudflare_rules_come_before_files() {
    let forms = SiteForms::of(&[
        ("index.html", "shell"),
        ("about.html", "about"),
        ("404.html", "not here"),
        ("_redirects", "/about /to\n/about.html /to-html\n/in/* / 200\n"),
    ]);
    #[rustfmt::skip]
    let cases: &[PageCase<'_>] = &[
        ("before a clean URL",              "GET /about",               &["302", "no-cache", "/to"],                "somewhere"),
        ("before a file",                   "GET /about.html",          &["302", "no-cache", "/to-html"],           "somewhere"),
        ("the other slash",                 "GET /about/",              &["301", "no-cache", "/about"],             "/about"),
        ("the shell without a rule",        "GET /other",               &["200", "no-cache"],                       "shell"),
        ("a missing asset",                 "GET /a.css",               &["404", "no-store"],                       "not here"),
    ];
    forms.check(&["--rules", "cloudflare", "--spa", "--clean-urls"], cases);
}

#[test]
fn impossible_options_are_an_error_and_conflicting_pages_a_warning() {
    let forms = SiteForms::of(&[("about.html", "about"), ("about/index.html", "about too")]);
    let ended = RunningProgram::run(serve(forms.dir.path(), &["--spa"]));
    assert!(!ended.status.success() && ended.error_line().contains("index.html"), "{ended:?}");
    let ended = RunningProgram::run(serve(&forms.packed(&["--clean-urls"]), &["--clean-urls"]));
    assert!(!ended.status.success() && ended.error_line().contains("as it was packed"), "{ended:?}");
    let ended = RunningProgram::run(serve(forms.dir.path(), &["--cors", "fonts"]));
    assert!(!ended.status.success() && ended.err.contains("a path that begins with /"), "{ended:?}");
    let program = RunningProgram::start_ready(serve(forms.dir.path(), &["--clean-urls"]));
    let warning = "1 clean URL that belongs to another file: about.html";
    crate::common::wait_for(warning, || program.err().contains(warning).then_some(()));
}

/// What the case shows; the request; the status, the value of Cache-Control and values of other fields; a part of the content.
type PageCase<'c> = (&'c str, &'c str, &'c [&'c str], &'c str);

/// One site as a directory, as a tar archive, and as the source of packed sites.
struct SiteForms {
    dir: TempDir,
    out: TempDir,
}

impl SiteForms {
    fn of(files: &[(&str, &str)]) -> SiteForms {
        let forms = SiteForms { dir: site(files), out: crate::common::readable_dir() };
        let mut tar = Command::new("tar");
        tar.arg("-cf").arg(forms.tar()).arg("-C").arg(forms.dir.path()).arg(".");
        assert!(tar.status().expect("tar").success());
        forms
    }

    fn tar(&self) -> PathBuf {
        self.out.path().join("plain.tar")
    }

    /// Packs the directory with these options.
    fn packed(&self, options: &[&str]) -> PathBuf {
        let packed = self.out.path().join("packed.tar");
        let mut command = tarpon([OsStr::new("pack"), self.dir.path().as_os_str()]);
        command.args(["--effort", "fast", "-o"]).arg(&packed).args(options);
        let ended = RunningProgram::run(command);
        assert!(ended.status.success(), "{ended:?}");
        let checked = RunningProgram::run(tarpon([OsStr::new("verify"), packed.as_os_str()]));
        assert!(checked.status.success(), "{options:?}: {checked:?}");
        packed
    }

    /// Serves each form with these options, and compares the responses.
    fn check(&self, options: &[&str], cases: &[PageCase<'_>]) {
        let (packed, tls) = (self.packed(options), TestTls::new());
        for engine in ENGINES {
            // Each form without TLS, with one version, and with HTTP/2.
            let forms = [(self.dir.path(), options, 1), (&self.tar(), options, 2), (&packed, &[], 1)];
            for (path, options, version) in forms {
                let options = [options, &["--engine", engine.name(), "--workers", "1"]].concat();
                let program = RunningProgram::start_ready(tls.serve(path, &options));
                let endpoints = tls.endpoints_with_http2(*engine, &program.addresses());
                let mut clients = [(); 4].map(|()| None);
                let each = [0, version, 3].into_iter().filter(|number| *number < endpoints.len());
                let each = each.flat_map(|number| cases.iter().map(move |case| (case, number)));
                let each = each.filter(|(case, number)| *number < 3 || !ONLY_HTTP1.contains(&case.0));
                for ((name, request, fields, content), number) in each {
                    let endpoint = &endpoints[number];
                    let response = match number {
                        0 => ask(&mut endpoint.connect(), request),
                        _ => {
                            let mut client = clients[number].take().unwrap_or_else(|| endpoint.connect());
                            let response = ask(&mut client, request);
                            clients[number] = (!response.closes()).then_some(client);
                            response
                        }
                    };
                    let place = format!("{name}, {engine}, {endpoint}, {}: {response:?}", path.display());
                    let (status, rest) = fields.split_first().expect("a status");
                    assert_eq!(response.status.to_string(), *status, "{place}");
                    let (cache, rest) = rest.split_first().expect("a value of Cache-Control");
                    assert_eq!(response.field("Cache-Control").unwrap_or(""), *cache, "{place}");
                    for value in rest {
                        assert!(
                            response.head.lines().any(|line| line.ends_with(&format!(": {value}"))),
                            "{value}: {place}"
                        );
                    }
                    let text = String::from_utf8_lossy(&response.content);
                    assert!(text.contains(content) && (text.is_empty() || !content.is_empty()), "{place}");
                }
            }
        }
    }
}

/// Cases that HTTP/2 cannot express, or answers otherwise.
const ONLY_HTTP1: &[&str] = &[
    // Not a path.
    "a malformed target",
    // The whole section is too large, and not its first line.
    "a long target",
    // The client sends no content, and an HTTP/2 client waits until it has all of it.
    "long content",
];

/// Sends a request: a method and a target, and optional fields.
fn ask(client: &mut TestClient, request: &str) -> Response {
    let (line, fields) = request.split_once("\r\n").unwrap_or((request, "X: x"));
    client.send(format!("{line} HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n"));
    match request.starts_with("HEAD ") {
        true => client.try_head().expect("a head"),
        false => client.response(),
    }
}
