//! What answers where there is no file of that name, and with which fields: on every engine, from a directory, from a tar
//! archive, and from a packed site.

#![allow(clippy::disallowed_methods, reason = "a test names files of its own")]

mod common;

use common::{
    ENGINES,
    client::{Client, Response},
    program::{Program, serve, tarpon},
    site,
};
use std::{ffi::OsStr, path::PathBuf, process::Command};
use tempfile::TempDir;

#[test]
fn the_nearest_404_answers_for_what_is_missing() {
    let text = "<p>not here ".repeat(200);
    let made = Made::of(&[
        ("index.html", "home"),
        ("404.html", "of the root"),
        ("guide/index.html", "guide"),
        ("guide/404.html", &text),
        ("guide/deep/er/page.txt", "page"),
    ]);
    #[rustfmt::skip]
    let cases: &[Case<'_>] = &[
        // what it shows            request                                           answer                                              content
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
        ("not asked conditions",    "GET /x\r\nIf-None-Match: *",                     &["404", "no-store"],                               "of the root"),
        ("not in parts",            "GET /x\r\nRange: bytes=0-1",                     &["404", "no-store"],                               "of the root"),
        ("another method",          "POST /x",                                        &["405", "no-store"],                               "This address supports GET"),
        ("the page itself",         "GET /404.html",                                  &["200", "no-cache"],                               "of the root"),
        ("what is there",           "GET /guide/",                                    &["200", "no-cache"],                               "guide"),
    ];
    made.check(&[], cases);
}

#[test]
fn an_application_answers_for_its_routes_and_not_for_assets() {
    let made = Made::of(&[
        ("index.html", "the shell"),
        ("404.html", "not here"),
        ("app.js", "1"),
        ("a/404.html", "nor here"),
    ]);
    #[rustfmt::skip]
    let cases: &[Case<'_>] = &[
        // what it shows            request                                           answer                                              content
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
        ("as a browser asks",       "GET /logo.PNG\r\nAccept: text/html",             &["404", "no-store"],                               "not here"),
        ("what is there",           "GET /app.js",                                    &["200", "no-cache"],                               "1"),
    ];
    made.check(&["--spa"], cases);
}

#[test]
fn a_page_has_one_address() {
    let made = Made::of(&[
        ("index.html", "home"),
        ("about.html", "about"),
        ("guide/index.html", "guide"),
        ("guide/a&b.html", "a b"),
    ]);
    #[rustfmt::skip]
    let cases: &[Case<'_>] = &[
        // what it shows            request                                           answer                                              content
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
        ("not there",               "GET /abou",                                      &["404", "no-store"],                               "nothing"),
    ];
    made.check(&["--clean-urls"], cases);
    #[rustfmt::skip]
    let cases: &[Case<'_>] = &[
        // what it shows            request                                           answer                                              content
        ("a page",                  "GET /about/",                                    &["200", "no-cache"],                               "about"),
        ("without",                 "GET /about?q",                                   &["301", "no-cache", "/about/?q"],                  "/about/"),
        ("by its name",             "GET /about.html",                                &["301", "no-cache", "/about/"],                    "/about/"),
    ];
    made.check(&["--clean-urls", "--trailing-slash", "always"], cases);
    #[rustfmt::skip]
    let cases: &[Case<'_>] = &[
        // what it shows            request                                           answer                                              content
        ("the root",                "GET /",                                          &["200", "no-cache"],                               "home"),
        ("a directory",             "GET /guide",                                     &["200", "no-cache"],                               "guide"),
        ("with a slash",            "GET /guide/?q",                                  &["301", "no-cache", "/guide?q"],                   "/guide"),
        ("by its name",             "GET /guide/index.html",                          &["200", "no-cache"],                               "guide"),
        ("a page",                  "GET /about.html",                                &["200", "no-cache"],                               "about"),
    ];
    made.check(&["--trailing-slash", "never"], cases);
}

#[test]
fn fields_for_all_of_a_site_are_sent_unless_a_rule_says_otherwise() {
    let made = Made::of(&[
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
        // what it shows            request                                           answer                                  content
        ("a page",                  "GET /",                                          &["200", "no-cache", ""],               "home"),
        ("known",                   "GET /\r\nIf-None-Match: *",                      &["304", "no-cache", ""],               ""),
        ("open",                    "GET /fonts/a.woff2\r\nOrigin: http://b",         &["200", "max-age=9, immutable", "*"],  "font"),
        ("open, in parts",          "GET /fonts/a.woff2\r\nRange: bytes=0-1",         &["206", "max-age=9, immutable", "*"],  "fo"),
        ("what is missing",         "GET /missing",                                   &["404", "no-store", ""],               "nothing"),
        ("missing, and open",       "GET /fonts/missing",                             &["404", "no-store", "*"],              "nothing"),
        ("an error by a rule",      "GET /sent/a",                                    &["410", "no-store", "*"],              "font"),
        ("a directory's redirect",    "GET /fonts?q",                                   &["301", "no-cache", "*"],              "/fonts/"),
        ("a plain rule",            "GET /old",                                       &["301", "no-cache", ""],               "/new"),
        ("a rule with a splat",     "GET /fonts/old/a",                               &["301", "no-cache", "*"],              "somewhere"),
        ("another method",          "POST /",                                         &["405", "no-store", ""],               "read"),
        ("no method at all",        "BREW /",                                         &["501", "no-store", ""],               "501"),
        ("a condition",             "GET /\r\nIf-Match: \"a\"",                       &["412", "no-store", ""],               "412"),
        ("no such part",            "GET /\r\nRange: bytes=99-",                      &["416", "no-store", ""],               "416"),
        ("an expectation",          "GET /\r\nExpect: a",                             &["417", "no-store", ""],               "417"),
        ("a target of no form",     "GET a",                                          &["400", "no-store", ""],               "400"),
        ("a long one",              &format!("GET /{}", "a".repeat(20_000)),           &["414", "no-store", ""],               "414"),
        ("a field too many",        &format!("GET /\r\nA: {}", "a".repeat(20_000)),   &["431", "no-store", ""],               "431"),
        ("content too long",        "GET /\r\nContent-Length: 99999999",              &["413", "no-store", ""],               "413"),
    ];
    let with_all = |fields: &[&'static str]| {
        let [status, cache, cors] = fields else { panic!("three") };
        let cors = (!cors.is_empty()).then_some(*cors);
        // A 304 has no `nosniff`: the client got it with the content that the 304 is about.
        let sniffing = (*status != "304").then_some("nosniff");
        [*status, *cache, "1"].into_iter().chain(sniffing).chain(SECURE).chain(cors).collect::<Vec<_>>()
    };
    let answers: Vec<_> = cases.iter().map(|(.., fields, _)| with_all(fields)).collect();
    let cases: Vec<Case<'_>> = cases
        .iter()
        .zip(&answers)
        .map(|(&(name, request, _, content), answer)| (name, request, &answer[..], content))
        .collect();
    let options = ["--secure-headers", "--cors", "/fonts"];
    made.check(&options, &cases);
    #[rustfmt::skip]
    let framed: &[Case<'_>] = &[
        ("a rule",                  "GET /framed/",                                   &["200", "no-cache", "nosniff", "ALLOWALL"],   "framed"),
        ("what leads there",        "GET /framed",                                    &["301", "no-cache", "nosniff", "ALLOWALL"],   "/framed/"),
        ("what is missing there",   "GET /framed/x",                                  &["404", "no-store", "nosniff", "ALLOWALL"],   "nothing"),
    ];
    made.check(&options, framed);
}

#[test]
fn an_application_has_the_fields_of_the_path_asked_for() {
    let made = Made::of(&[
        ("index.html", "shell"),
        ("_headers", "/app/*\n  X-App: app\n/index.html\n  X-Shell: shell\n/*\n  X-All: all\n"),
    ]);
    #[rustfmt::skip]
    let cases: &[Case<'_>] = &[
        // what it shows            request                     answer                                          content
        ("a route",                 "GET /users/7",             &["200", "no-cache", "shell", "all"],           "shell"),
        ("below a directory",       "GET /app/users/7",         &["200", "no-cache", "shell", "app", "all"],    "shell"),
        ("open",                    "GET /open/7",              &["200", "no-cache", "shell", "*"],             "shell"),
        ("a missing asset there",   "GET /app/users.js",        &["404", "no-store", "app", "all"],             "nothing"),
    ];
    made.check(&["--spa", "--cors", "/open"], cases);
}

/// The order is told in `docs/pages-and-caching.md`.
#[test]
fn rules_pages_and_the_shell_answer_in_one_order() {
    let made = Made::of(&[
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
    let always: &[Case<'_>] = &[
        // what it shows                    request                     answer                                      content
        ("a rule with ! before a page",     "GET /forced.html",         &["302", "no-cache", "/to"],                "somewhere"),
        ("and before what stands for it",   "GET /forced",              &["200", "no-cache"],                       "script"),
        ("a directory before a rule",       "GET /guide/",              &["200", "no-cache"],                       "guide"),
        ("what leads there, too",           "GET /guide?q",             &["301", "no-cache", "/guide/?q"],          "/guide/"),
        ("a rule where nothing is",         "GET /old?q",               &["308", "no-cache", "/about?q"],           "/about"),
        ("a rule before the shell",         "GET /users/7",             &["303", "no-cache", "/to/7"],              "somewhere"),
        ("a page by a rule",                "GET /sent/x",              &["200", "no-cache"],                       "about"),
        ("a page by its name",              "GET /named/x",             &["200", "no-cache"],                       "about"),
        ("the shell by its name",           "GET /app/x",               &["200", "no-cache"],                       "shell"),
        ("an error by a rule",              "GET /gone/x",              &["410", "no-store"],                       "guide"),
        ("an asset by a rule",              "GET /asset.js",            &["200", "no-cache"],                       "script"),
        ("a missing asset",                 "GET /a/b.css",             &["404", "no-store"],                       "nor here"),
        ("elsewhere",                       "GET /b.css",               &["404", "no-store"],                       "not here"),
    ];
    #[rustfmt::skip]
    let without: &[Case<'_>] = &[
        ("a file before a rule",            "GET /about.html",          &["200", "no-cache"],                       "about"),
        ("a rule where nothing is",         "GET /about",               &["301", "no-cache", "/to"],                "/to"),
        ("its slash",                       "GET /about/",              &["301", "no-cache", "/to"],                "/to"),
        ("the name of a page",              "GET /guide/index.html",    &["200", "no-cache"],                       "guide"),
    ];
    #[rustfmt::skip]
    let clean: &[Case<'_>] = &[
        ("a clean URL before a rule",       "GET /about",               &["200", "no-cache"],                       "about"),
        ("what leads there, too",           "GET /about.html",          &["301", "no-cache", "/about"],             "/about"),
        ("its slash",                       "GET /about/",              &["301", "no-cache", "/about"],             "/about"),
        ("the name of a page",              "GET /guide/index.html",    &["301", "no-cache", "/guide/"],            "/guide/"),
    ];
    let missing: &[Case<'_>] = &[("nothing", "GET /a/b", &["404", "no-store"], "nor here")];
    let shell: &[Case<'_>] = &[("the shell before a page for it", "GET /a/b", &["200", "no-cache"], "shell")];
    made.check(&[], &[always, without, missing].concat());
    made.check(&["--spa"], &[always, without, shell].concat());
    made.check(&["--clean-urls"], &[always, clean, missing].concat());
    made.check(&["--spa", "--clean-urls"], &[always, clean, shell].concat());
    #[rustfmt::skip]
    let slashed: &[Case<'_>] = &[
        ("a clean URL before a rule",       "GET /about/",              &["200", "no-cache"],                       "about"),
        ("what leads there, too",           "GET /about",               &["301", "no-cache", "/about/"],            "/about/"),
        ("a rule with ! before both",       "GET /forced/",             &["200", "no-cache"],                       "script"),
        ("a page by a rule",                "GET /sent/x",              &["200", "no-cache"],                       "about"),
        ("the shell",                       "GET /x",                   &["200", "no-cache"],                       "shell"),
    ];
    made.check(&["--spa", "--clean-urls", "--trailing-slash", "always"], slashed);
    #[rustfmt::skip]
    let bare: &[Case<'_>] = &[
        ("a directory before a rule",       "GET /guide",               &["200", "no-cache"],                       "guide"),
        ("what leads there, too",           "GET /guide/",              &["301", "no-cache", "/guide"],             "/guide"),
        ("an error by a rule",              "GET /gone/x",              &["410", "no-store"],                       "guide"),
    ];
    made.check(&["--trailing-slash", "never"], bare);
}

#[test]
fn rules_as_cloudflare_has_them_come_before_all_else() {
    let made = Made::of(&[
        ("index.html", "shell"),
        ("about.html", "about"),
        ("404.html", "not here"),
        ("_redirects", "/about /to\n/about.html /to-html\n/in/* / 200\n"),
    ]);
    #[rustfmt::skip]
    let cases: &[Case<'_>] = &[
        ("before a clean URL",              "GET /about",               &["302", "no-cache", "/to"],                "somewhere"),
        ("before a file",                   "GET /about.html",          &["302", "no-cache", "/to-html"],           "somewhere"),
        ("the other one leads on",          "GET /about/",              &["301", "no-cache", "/about"],             "/about"),
        ("the shell where no rule is",      "GET /other",               &["200", "no-cache"],                       "shell"),
        ("a missing asset",                 "GET /a.css",               &["404", "no-store"],                       "not here"),
    ];
    made.check(&["--rules", "cloudflare", "--spa", "--clean-urls"], cases);
}

#[test]
fn what_cannot_be_as_it_is_wished_is_told() {
    let made = Made::of(&[("about.html", "about"), ("about/index.html", "about too")]);
    let ended = Program::run(serve(made.dir.path(), &["--spa"]));
    assert!(!ended.status.success() && ended.error_line().contains("index.html"), "{ended:?}");
    let ended = Program::run(serve(&made.packed(&["--clean-urls"]), &["--clean-urls"]));
    assert!(!ended.status.success() && ended.error_line().contains("as it was packed"), "{ended:?}");
    let ended = Program::run(serve(made.dir.path(), &["--cors", "fonts"]));
    assert!(!ended.status.success() && ended.err.contains("a path that begins with /"), "{ended:?}");
    let program = Program::started(serve(made.dir.path(), &["--clean-urls"]));
    let warning = "1 clean URL that another file has: about.html";
    common::wait_for(warning, || program.err().contains(warning).then_some(()));
}

/// What it shows; the request; the status, the value of Cache-Control, and values of other fields; what is in the content.
type Case<'c> = (&'c str, &'c str, &'c [&'c str], &'c str);

/// The same site as a directory, as a tar archive, and as what it is packed from.
struct Made {
    dir: TempDir,
    out: TempDir,
}

impl Made {
    fn of(files: &[(&str, &str)]) -> Made {
        let made = Made { dir: site(files), out: common::open_dir() };
        let mut tar = Command::new("tar");
        tar.arg("-cf").arg(made.tar()).arg("-C").arg(made.dir.path()).arg(".");
        assert!(tar.status().expect("tar").success());
        made
    }

    fn tar(&self) -> PathBuf {
        self.out.path().join("plain.tar")
    }

    /// Packs it with these options.
    fn packed(&self, options: &[&str]) -> PathBuf {
        let packed = self.out.path().join("packed.tar");
        let mut command = tarpon([OsStr::new("pack"), self.dir.path().as_os_str()]);
        command.args(["--effort", "fast", "-o"]).arg(&packed).args(options);
        let ended = Program::run(command);
        assert!(ended.status.success(), "{ended:?}");
        let checked = Program::run(tarpon([OsStr::new("verify"), packed.as_os_str()]));
        assert!(checked.status.success(), "{options:?}: {checked:?}");
        packed
    }

    /// Serves it in all its forms, with these options, and compares the answers.
    fn check(&self, options: &[&str], cases: &[Case<'_>]) {
        let packed = self.packed(options);
        for engine in ENGINES {
            for (path, options) in [(self.dir.path(), options), (&self.tar(), options), (&packed, &[])] {
                let options = [options, &["--engine", engine.name(), "--workers", "1"]].concat();
                let program = Program::started(serve(path, &options));
                for (name, request, fields, content) in cases {
                    let response = ask(&program, request);
                    let place = format!("{name}, {engine}, {}: {response:?}", path.display());
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

/// Asks on a connection of its own. A request is its method and target, and perhaps fields.
fn ask(program: &Program, request: &str) -> Response {
    let (line, fields) = request.split_once("\r\n").unwrap_or((request, "X: x"));
    let mut client = Client::connect(program.address());
    client.send(format!("{line} HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n"));
    match request.starts_with("HEAD ") {
        true => client.try_head().expect("a head"),
        false => client.response(),
    }
}
