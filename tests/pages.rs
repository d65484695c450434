//! What answers where there is no file of that name, and with which fields: on every engine, from a directory, from a tar
//! archive, and from a packed site.

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
        ("another method",          "POST /x",                                        &["405", "no-store"],                               "What is here can be read"),
        ("the page itself",         "GET /404.html",                                  &["200", "no-cache"],                               "of the root"),
        ("what is there",           "GET /guide/",                                    &["200", "no-cache"],                               "guide"),
    ];
    made.check(&[], cases);
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
        let made = Made { dir: site(files), out: tempfile::tempdir().expect("a directory") };
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
