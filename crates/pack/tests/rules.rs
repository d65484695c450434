//! The errors of `_headers` and `_redirects`, each with its line and column.

use RuleError::*;
use tarpon_pack::{Dialect, RuleError, RuleFile, RuleFileError, check_rules};

const N: Dialect = Dialect::Netlify;
const C: Dialect = Dialect::Cloudflare;

#[test]
#[rustfmt::skip]
fn unsupported_redirect_is_refused_with_its_line_and_column() {
    let cases: &[(Dialect, &str, u32, u32, RuleError)] = &[
        // _redirects                                  line, column
        (N, "old /new",                                1, 1,  NoSlash),
        (N, "http://blog.example/* /new",              1, 1,  Host),
        (C, "https://example.com/a /new",              1, 1,  Host),
        (N, "/a?b=c /new",                             1, 3,  SourceQuery),
        (N, "/a#b /new",                               1, 3,  SourceFragment),
        (N, "/a%zz /new",                              1, 3,  Escape),
        (N, "/a%2Fb /new",                             1, 3,  Escape),
        (N, "/a%00 /new",                              1, 3,  Escape),
        (C, "/a/*/b/* /new",                           1, 8,  SplatTwice),
        (N, "/a/*/b /new",                             1, 4,  SplatInside),
        (N, "/a/b* /new",                              1, 5,  SplatInside),
        (C, "/a/*/:b /new",                            1, 6,  PlaceholderAfterSplat),
        (N, "/:a-:b /new",                             1, 5,  PlaceholderTwice),
        (C, "/:a* /new",                               1, 4,  PlaceholderTwice),
        (N, "/:a/:a /new",                             1, 5,  NameTwice),
        (N, "/:splat/* /new",                          1, 9,  NameTwice),
        (N, "/a b=:c d=:c /new",                       1, 11, NameTwice),
        (N, "/:a/:b/:c/:d/:e/:f/:g/:h/:i/:j/:k/:l/:m/:n/:o/:p/:q /new", 1, 50, TooManyCaptures),
        (N, "\n\n  /a",                                3, 3,  NoTarget),
        (N, "/a # /b",                                 1, 1,  NoTarget),
        (C, "/a id=:id /b",                            1, 4,  Parameters),
        (N, "/a =b /c",                                1, 4,  Parameter),
        (N, "/a b= /c",                                1, 4,  Parameter),
        (N, "/a /b/:c",                                1, 7,  UnknownName),
        (N, "/a /b/:splat 200",                        1, 7,  UnknownName),
        (N, "/:a https://:a.example/",                 1, 13, PlaceholderInHost),
        (N, "/a/* https://example.com:splat",          1, 25, PlaceholderInHost),
        (N, "/a //example.com/",                       1, 4,  Target),
        (N, "/a https:///b",                           1, 4,  Target),
        (N, "/a ftp://example.com/",                   1, 4,  Target),
        (N, "/a new",                                  1, 4,  Target),
        (N, "/a /b\"c",                                1, 6,  TargetByte),
        (N, "/a /b\\c",                                1, 6,  TargetByte),
        (N, "/a /b%2",                                 1, 6,  Escape),
        (N, "/a /index.html?b 200",                    1, 15, RewriteQuery),
        (N, "/a /index.html#b 404",                    1, 15, RewriteQuery),
        (N, "/api/* https://api.example/:splat 200",   1, 8,  Proxy),
        (N, "/a /.netlify/functions/b 200",            1, 4,  Function),
        (N, "/a /.netlify/functions/b",                1, 4,  Function),
        (N, "/a /b 3o1",                               1, 7,  Status),
        (N, "/a /b 0301",                              1, 7,  Status),
        (N, "/a /b !",                                 1, 7,  Status),
        (N, "/a /b 401",                               1, 7,  StatusUnknown),
        (N, "/a /b 304",                               1, 7,  StatusUnknown),
        (C, "/a /b 404",                               1, 7,  StatusCloudflare),
        (C, "/blog/* /blog/404.html 404",              1, 24, StatusCloudflare),
        (C, "/shop id=:id /blog/:id 301",              1, 7,  Parameters),
        (C, "workers.example.com/* workers.example.com/blog/:splat 301", 1, 1, NoSlash),
        (C, "/ /us 302 Country=us",                    1, 11, Country),
        (C, "/* /preview/:splat 302 Cookie=preview",   1, 24, Cookie),
        (N, "/blog/remove-my-slashes/ /blog/remove-my-slashes 301!", 1, 26, Loop),
        (C, "/a /b 301!",                              1, 10, Force),
        (N, "/ /anz 302 Country=au,nz",                1, 12, Country),
        (N, "/china/* /china/zh-cn/:splat 302 Language=zh", 1, 34, Language),
        (N, "/admin/* /x 200! Role=admin",             1, 18, Role),
        (N, "/* /preview/:splat 302 Cookie=preview",   1, 24, Cookie),
        (N, "/a /b 302 Sign=NAME",                     1, 11, Sign),
        (N, "/a /b Country=us",                        1, 7,  Country),
        (N, "/a /b 302 now",                           1, 11, TrailingWord),
        (C, "/d /e 302 !important",                    1, 11, TrailingWord),
        (N, "/a /none 200",                            1, 4,  NoFile),
        (N, "/* /404.html 404",                        1, 4,  NoFile),
        (N, "/a /b\n/b /c\n/c /a",                     1, 4,  Loop),
        (N, "/a /a/",                                  1, 4,  Loop),
        (N, "/blog/* /blog/:splat",                    1, 9,  Loop),
        (N, "/b/* /b/x/:splat 301!",                   1, 6,  Loop),
        (C, "/x/:a /y/:a\n/y/:a /x/:a",                1, 7,  Loop),
        (C, "/* /index.html 200",                      1, 1,  CatchAll),
        (N, "/a\u{1} /b",                              1, 3,  Text),
    ];
    let mut failed = Vec::new();
    for &(dialect, text, line, column, error) in cases {
        let want = Some((RuleFile::Redirects, line, column, error));
        let got = refused(b"", text.as_bytes(), dialect);
        if got != want {
            failed.push((dialect, text, got));
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
    assert_eq!(refused(b"", b"/a /\xff", N), Some((RuleFile::Redirects, 1, 5, Text)));
    let many = "/:a/x /b\n".repeat(1_001);
    assert_eq!(refused(b"", many.as_bytes(), N), Some((RuleFile::Redirects, 1_001, 7, TooManyRules)));
    let names = |from: usize| (from..from + 600).map(|name| format!("p{name}=1 ")).collect::<String>();
    let many = format!("/a {}/b\n/c {}/d 302", names(0), names(600));
    let at = names(600).len() as u32 + 4;
    assert_eq!(refused(b"", many.as_bytes(), N), Some((RuleFile::Redirects, 2, at, TooManyParameters)));
    let shared = format!("/a {}/b\n/c {}/d 302", names(0), names(0));
    assert_eq!(refused(b"", shared.as_bytes(), N), None);
    let long = format!("/{} /b", ":a/".to_owned() + &"x".repeat(70_000));
    assert_eq!(refused(b"", long.as_bytes(), N), Some((RuleFile::Redirects, 1, 1, RuleLength)));
}

#[test]
#[rustfmt::skip]
fn unsupported_header_rule_is_refused_with_its_line_and_column() {
    let cases: &[(Dialect, &str, u32, u32, RuleError)] = &[
        // _headers                                    line, column
        (N, "  X-A: b",                                1, 3,  NoPath),
        (N, "X-A: b",                                  1, 1,  NoPath),
        (N, "/a b\n  X-A: b",                          1, 4,  NoPath),
        (N, "a\n  X-A: b",                             1, 1,  NoSlash),
        (C, "https://:project.pages.dev/*\n  X-A: b",  1, 1,  Host),
        (N, "/a\n  X-A",                               2, 3,  NoColon),
        (N, "/a\n  X A: b",                            2, 3,  FieldName),
        (N, "/a\n  : b",                               2, 3,  FieldName),
        (N, "/a\n  X-A:",                              2, 7,  FieldValue),
        (N, "/a\n  X-A: b\u{b}c",                      2, 9,  Text),
        (N, "/a\n  X-A: b\rc",                         2, 9,  Text),
        (N, "/a\n  X-A: b\0c",                         2, 9,  Text),
        (N, "/a\n  Basic-Auth: me:secret",             2, 3,  BasicAuth),
        (N, "/a\n  ! X-A",                             2, 3,  Removal),
        (C, "/a\n  ! Content-Length",                  2, 5,  ServerField),
        (C, "/*/b/*\n  X-A: b",                        1, 6,  SplatTwice),
    ];
    for &(dialect, text, line, column, error) in cases {
        let want = Some((RuleFile::Headers, line, column, error));
        assert_eq!(refused(text.as_bytes(), b"", dialect), want, "{dialect:?}: {text}");
    }
    for name in [
        "Accept-Ranges", "age", "Allow", "Alt-Svc", "CONNECTION", "Content-Encoding", "Content-Length", "Content-Range",
        "Date", "ETag", "Keep-Alive", "Last-Modified", "Location", "Server", "TE", "Trailer", "Transfer-Encoding", "Upgrade",
    ] {
        let text = format!("/*\n  {name}: x\n");
        let want = Some((RuleFile::Headers, 2, 3, ServerField));
        assert_eq!(refused(text.as_bytes(), b"", N), want, "{name}");
    }
}

#[test]
#[rustfmt::skip]
fn rules_that_only_look_like_a_loop_are_accepted() {
    let cases: &[(Dialect, &str)] = &[
        (N, "/old /new\n/new/x /old"),
        (N, "/* /en/:splat 302"),
        (N, "/a /index.html"),
        (N, "/index.html /index.html"),
        (N, "/a a=1 /b\n/b /a"),
        (N, "/a https://example.com/a"),
        (N, "/x/:a/* /x/:splat 301!"),
        (C, "/trailing /trailing/"),
        (N, "/a /a.html 200!\n/a.html /a 301\n"),
        (N, "\u{feff}/a /b\r\n\r\n# no rule\r\n\t/c\t/d  301 # why\r\n"),
    ];
    for &(dialect, text) in cases {
        assert_eq!(refused(b"", text.as_bytes(), dialect), None, "{dialect:?}: {text}");
    }
}

#[test]
fn every_error_of_every_line_is_reported() {
    let headers = "X-Early: 1\n/a b\n  X-A: 1\n  X-B\n/b\n  X-C: 1\n  X D: 1\nhttps://example.org/\n  Connection: close\n";
    let redirects =
        "/old /new\nno /new\n/missing /missing.html 200\n/x /y\n/y /x\n/z /new 999\n/\u{7} /new\n/shop\n";
    let errors =
        check_rules(headers.as_bytes(), redirects.as_bytes(), N, &[b"/index.html"]).expect_err("errors");
    let got: Vec<_> = errors.iter().map(|found| (found.file.name(), found.line, found.error)).collect();
    let (headers, redirects) = ("_headers", "_redirects");
    #[rustfmt::skip]
    let want = [
        (headers, 1, NoPath), (headers, 2, NoPath), (headers, 4, NoColon), (headers, 7, FieldName), (headers, 8, Host),
        (headers, 9, ServerField),
        (redirects, 2, NoSlash), (redirects, 3, NoFile), (redirects, 4, Loop), (redirects, 5, Loop), (redirects, 6, StatusUnknown),
        (redirects, 7, Text), (redirects, 8, NoTarget),
    ];
    assert_eq!(got, want);
}

/// Returns the first error of the rules of a site with an index and a page.
fn refused(headers: &[u8], redirects: &[u8], dialect: Dialect) -> Option<(RuleFile, u32, u32, RuleError)> {
    match check_rules(headers, redirects, dialect, &[b"/index.html", b"/a.html"]) {
        Ok(()) => None,
        Err(errors) => {
            let RuleFileError { file, line, column, error } = errors.first().clone();
            Some((file, line, column, error))
        }
    }
}
