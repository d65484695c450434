//! Rules of a site: the files `_headers` and `_redirects`, and the responses that follow from them. The examples of Netlify and Cloudflare
//! are cases, named after their headings in the documentation.
//!
//! ```text
//! files, _headers, _redirects ─┬─ directory ─┐            ┌─ in memory, at several cuts ─┐
//!                              ├─ archive ───┼─▶ image ───┤                              ├─▶ responses of the case
//!                              └─ packed ────┘            └─ a server of each engine ────┘
//! ```

use crate::common::{
    EMBEDDED, ENGINES,
    client::TestClient,
    endpoint::TestTls,
    program,
    server::{EmbeddedServer, TestServer, settings_with_http2},
};
use bytes::Bytes;
use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{Cursor, Write},
    num::NonZeroUsize,
    path::Path,
    process::Command,
};
use tarpon::{
    Dialect, Policy, SiteSource, SiteWatcher,
    config::{self, CliFlags, CommandKind, ConfigFile},
};
use tarpon_conn::sim::{Cuts, Sim, UNIX_S};
use tarpon_pack::{
    BuildCache, CompressionEffort, Dictionaries, PackInput, PackOptions, Progress, SiteOptions, pack_dir,
    pack_site, pack_tar, verify,
};
use tarpon_site::{Image, packed};

/// A site with rules, and requests with the expected responses.
struct RuleCase {
    name: &'static str,
    dialect: Dialect,
    /// The content of each file is its path.
    files: &'static [&'static str],
    redirects: &'static str,
    headers: &'static str,
    /// Targets of requests, and each response as a [`summary`].
    requests: &'static [(&'static str, &'static str)],
}

use Dialect::{Cloudflare, Netlify, Off};

const NOTHING: RuleCase = RuleCase {
    name: "",
    dialect: Netlify,
    files: &["index.html"],
    redirects: "",
    headers: "",
    requests: &[],
};

/// <https://docs.netlify.com/routing/redirects/>, <https://docs.netlify.com/routing/redirects/redirect-options/>.
#[rustfmt::skip]
const OF_NETLIFY: &[RuleCase] = &[
    RuleCase {
        name: "Syntax for the _redirects file",
        redirects: "\
            # Redirects from what the browser requests to what we serve\n\
            /home              /\n\
            /blog/my-post.php  /blog/my-post\n\
            /news              /blog\n\
            /cuties            https://www.petsofnetlify.com\n\
            /authors/c%C3%A9line  /authors/about-c%C3%A9line\n",
        requests: &[
            ("/home",                    "301 /"),
            ("/home/",                   "301 /"),
            ("/home?a=b&c",              "301 /?a=b&c"),
            ("/blog/my-post.php",        "301 /blog/my-post"),
            ("/cuties",                  "301 https://www.petsofnetlify.com"),
            ("/cuties?q",                "301 https://www.petsofnetlify.com?q"),
            ("/authors/c%c3%a9line",     "301 /authors/about-c%C3%A9line"),
            ("/_redirects",              "404"),
            ("/other",                   "404"),
        ],
        ..NOTHING
    },
    RuleCase {
        name: "HTTP status codes",
        files: &["index.html", "store-closed.html"],
        redirects: "\
            /home         /              301\n\
            /my-redirect  /              302\n\
            /ecommerce    /store-closed  404\n\
            /pass-through /index.html    200\n",
        requests: &[
            ("/home",         "301 /"),
            ("/my-redirect",  "302 /"),
            ("/ecommerce",    "404 /store-closed.html"),
            ("/pass-through", "200 /index.html"),
        ],
        ..NOTHING
    },
    RuleCase {
        name: "Custom 404 page handling",
        files: &["index.html", "en/404.html", "de/404.html", "en/here.html"],
        redirects: "/en/* /en/404.html 404\n/de/* /de/404.html 404\n",
        requests: &[
            ("/en/not/there", "404 /en/404.html"),
            ("/de/a",         "404 /de/404.html"),
            ("/en/here.html", "200 /en/here.html"),
            ("/fr/a",         "404"),
        ],
        ..NOTHING
    },
    RuleCase {
        name: "Splats",
        redirects: "/news/*  /blog/:splat\n",
        requests: &[
            ("/news/2004/01/10/my-story", "301 /blog/2004/01/10/my-story"),
            ("/news/",                    "301 /blog/"),
            ("/news",                     "301 /blog/"),
            ("/news/a?b=|&c=%7C",         "301 /blog/a?b=%7C&c=%7C"),
            ("/newspaper",                "404"),
        ],
        ..NOTHING
    },
    RuleCase {
        name: "Placeholders",
        redirects: "/news/:month/:date/:year/:slug  /blog/:year/:month/:date/:slug\n",
        requests: &[
            ("/news/02/12/2004/my-story",  "301 /blog/2004/02/12/my-story"),
            ("/news/02/12/2004/my-story/", "301 /blog/2004/02/12/my-story"),
            ("/news/02/12/2004",           "404"),
            ("/news/02/12/2004/a/b",       "404"),
        ],
        ..NOTHING
    },
    RuleCase {
        name: "Query parameters",
        redirects: "\
            /store id=:id  /blog/:id  301\n\
            /articles id=:id tag=:tag /posts/:tag/:id 301\n\
            /path/* param1=:value1 param2=:value2 /otherpath/:value1/:value2/:splat 301\n\
            /path/* param1=:value1 /otherpath/:value1/:splat 301\n\
            /path/* /otherpath/:splat 301\n",
        requests: &[
            ("/store?id=my-blog-post-ID",       "301 /blog/my-blog-post-ID"),
            ("/store?a=1&id=x",                 "301 /blog/x"),
            ("/store?identity=x",               "404"),
            ("/store?id=",                      "404"),
            ("/store?id",                       "404"),
            ("/store",                          "404"),
            ("/articles?tag=t&id=7",            "301 /posts/t/7"),
            ("/articles?id=7",                  "404"),
            ("/path/x?param2=b&param1=a",       "301 /otherpath/a/b/x"),
            ("/path/x?param1=a",                "301 /otherpath/a/x"),
            ("/path/x?param2=b",                "301 /otherpath/x?param2=b"),
            ("/path/x",                         "301 /otherpath/x"),
        ],
        ..NOTHING
    },
    RuleCase {
        name: "Shadowing: a file comes before a rule",
        files: &["index.html", "about.html", "app/index.html"],
        redirects: "/about.html /other\n/app /elsewhere\n/*  /index.html  200\n",
        requests: &[
            ("/about.html", "200 /about.html"),
            ("/app/",       "200 /app/index.html"),
            ("/app",        "301 /app/"),
            ("/any/thing",  "200 /index.html"),
            ("/",           "200 /index.html"),
        ],
        ..NOTHING
    },
    RuleCase {
        name: "Shadowing: ! comes before a file",
        files: &["index.html", "app/index.html", "best-pets/dogs.html", "best-pets/cats.html"],
        redirects: "/best-pets/dogs.html /best-pets/cats.html 200!\n/app/* /new/:splat 302!\n",
        requests: &[
            ("/best-pets/dogs.html", "200 /best-pets/cats.html"),
            ("/best-pets/cats.html", "200 /best-pets/cats.html"),
            ("/app/",                "302 /new/"),
            ("/app/index.html?a",    "302 /new/index.html?a"),
        ],
        ..NOTHING
    },
    RuleCase {
        name: "Trailing slash: the same path with one and without",
        files: &["index.html", "blog/title.html"],
        redirects: "/blog/title-with-typo /blog/typo-free-title\n/blog/typed/ /blog/typed-free\n",
        requests: &[
            ("/blog/title-with-typo",  "301 /blog/typo-free-title"),
            ("/blog/title-with-typo/", "301 /blog/typo-free-title"),
            ("/blog/typed",            "301 /blog/typed-free"),
            ("/blog/typed/",           "301 /blog/typed-free"),
        ],
        ..NOTHING
    },
    RuleCase {
        name: "Rule processing order",
        files: &["index.html"],
        redirects: "/blog/new /a\n/blog/* /b/:splat\n/blog/old /c\n/blog/new /d\n",
        requests: &[("/blog/new", "301 /a"), ("/blog/old", "301 /b/old"), ("/blog/x", "301 /b/x")],
        ..NOTHING
    },
];

/// <https://developers.cloudflare.com/pages/configuration/redirects/>.
#[rustfmt::skip]
const OF_CLOUDFLARE: &[RuleCase] = &[
    RuleCase {
        name: "Per file: a complete example",
        dialect: Cloudflare,
        redirects: "\
            /home301 / 301\n\
            /home302 / 302\n\
            /querystrings /?query=string 301\n\
            /twitch https://twitch.tv\n\
            /trailing /trailing/ 301\n\
            /notrailing/ /nottrailing 301\n\
            /page/ /page2/#fragment 301\n\
            /blog/* https://blog.my.domain/:splat\n\
            /products/:code/:name /products?code=:code&name=:name\n",
        requests: &[
            ("/home301",             "301 /"),
            ("/home301/",            "404"),
            ("/home302",             "302 /"),
            ("/querystrings?a=b",    "301 /?query=string"),
            ("/twitch",              "302 https://twitch.tv"),
            ("/trailing",            "301 /trailing/"),
            ("/trailing/",           "404"),
            ("/notrailing/",         "301 /nottrailing"),
            ("/page/",               "301 /page2/#fragment"),
            ("/page/?q",             "301 /page2/?q#fragment"),
            ("/blog/a/b",            "302 https://blog.my.domain/a/b"),
            ("/blog/",               "302 https://blog.my.domain/"),
            ("/blog",                "404"),
            ("/products/7/a%26b",    "302 /products?code=7&name=a%26b"),
        ],
        ..NOTHING
    },
    RuleCase {
        name: "Advanced redirects: those that are supported",
        dialect: Cloudflare,
        files: &["news/2024/a.html"],
        redirects: "\
            /home / 301\n\
            /blog/:year/:month/:date/:slug /news/:year/:month/:date/:slug\n\
            /posts/* /blog/:splat\n\
            /blog/* /news/:splat 200\n",
        requests: &[
            ("/home",             "301 /"),
            ("/blog/2024/1/2/a",  "302 /news/2024/1/2/a"),
            ("/posts/a/b",        "302 /blog/a/b"),
            ("/blog/2024/a",      "200 /news/2024/a.html"),
            ("/blog/2024/b",      "404"),
        ],
        ..NOTHING
    },
    RuleCase {
        name: "Redirects are always followed, regardless of whether or not an asset matches",
        dialect: Cloudflare,
        files: &["index.html", "here.html"],
        redirects: "/here.html /there 301\n",
        requests: &[("/here.html", "301 /there"), ("/", "200 /index.html")],
        ..NOTHING
    },
    RuleCase {
        name: "Placeholders",
        dialect: Cloudflare,
        redirects: "/movies/:title /media/:title\n",
        requests: &[("/movies/alien", "302 /media/alien"), ("/movies/a/b", "404"), ("/movies/", "404")],
        ..NOTHING
    },
    RuleCase {
        name: "Proxying: only the first redirect applies",
        dialect: Cloudflare,
        files: &["b.html", "c.html"],
        redirects: "/a /b 200\n/b /c 200\n",
        requests: &[("/a", "200 /b.html"), ("/b", "200 /c.html")],
        ..NOTHING
    },
    RuleCase {
        name: "a splat in the middle",
        dialect: Cloudflare,
        redirects: "/blog/*.html /posts/:splat\n",
        requests: &[("/blog/a/b.html", "302 /posts/a/b"), ("/blog/a.htm", "404")],
        ..NOTHING
    },
];

/// Cases that neither documentation describes.
#[rustfmt::skip]
const OURS: &[RuleCase] = &[
    RuleCase {
        name: "each status of a redirect and of a page",
        files: &["page.html"],
        redirects: "\
            /301 /x 301\n/302 /x 302\n/303 /x 303\n/307 /x 307\n/308 /x 308\n\
            /200 /page.html 200\n/403 /page.html 403\n/404 /page.html 404\n/410 /page.html 410\n\
            /451 /page.html 451\n/500 /page.html 500\n/503 /page.html 503\n\
            /p/:a/301 /x 301\n/p/:a/308 /x 308\n/p/:a/410 /page.html 410\n",
        requests: &[
            ("/301", "301 /x"), ("/302", "302 /x"), ("/303", "303 /x"), ("/307", "307 /x"), ("/308", "308 /x"),
            ("/200", "200 /page.html"), ("/403", "403 /page.html"), ("/404", "404 /page.html"),
            ("/410", "410 /page.html"), ("/451", "451 /page.html"), ("/500", "500 /page.html"),
            ("/503", "503 /page.html"),
            ("/p/1/301", "301 /x"), ("/p/1/308", "308 /x"), ("/p/1/410", "410 /page.html"),
        ],
        ..NOTHING
    },
    RuleCase {
        name: "no request makes a redirect lead to another host",
        redirects: "/a/* /:splat\n/q to=:to /:to\n",
        requests: &[
            ("/a//evil.example/b",       "301 /evil.example/b"),
            ("/a////evil.example",       "301 /evil.example"),
            ("/a/%5Cevil.example",       "301 /%5Cevil.example"),
            ("/a/\\evil.example",        "301 /%5Cevil.example"),
            ("/a/x%0d%0aSet-Cookie:%20a", "301 /x%0D%0ASet-Cookie:%20a"),
            ("/q?to=/evil.example",      "301 /%2Fevil.example"),
            ("/q?to=%0d%0a",             "301 /%0d%0a"),
            ("/q?to=a+b%zz",             "301 /a%20b%25zz"),
        ],
        ..NOTHING
    },
    RuleCase {
        name: "a captured value is decoded once and encoded for its place",
        files: &["f/a b.html"],
        redirects: "/x/:a /y/:a?q=:a\n/w/* /f/:splat 200\n/v n=:n /f/:n 200\n",
        requests: &[
            ("/x/a%20b",     "301 /y/a%20b?q=a%20b"),
            ("/x/a%2520b",   "301 /y/a%2520b?q=a%2520b"),
            ("/x/a&b",       "301 /y/a&b?q=a%26b"),
            ("/x/caf%C3%A9", "301 /y/caf%C3%A9?q=caf%C3%A9"),
            ("/w/a%20b",     "200 /f/a b.html"),
            ("/v?n=a+b",     "200 /f/a b.html"),
            ("/v?n=a%20b",   "200 /f/a b.html"),
        ],
        ..NOTHING
    },
    RuleCase {
        name: "a rewrite finds the index of a directory and a page without its extension",
        files: &["docs/index.html", "about.html"],
        redirects: "/d /docs 200\n/a /about 200\n/r/* /:splat 200\n",
        requests: &[
            ("/d",            "200 /docs/index.html"),
            ("/a",            "200 /about.html"),
            ("/r/docs",       "200 /docs/index.html"),
            ("/r/docs/",      "200 /docs/index.html"),
            ("/r/about",      "200 /about.html"),
            ("/r/nothing",    "404"),
            ("/r/../a",       "200 /about.html"),
            ("/r/%2e%2e/a",   "200 /about.html"),
        ],
        ..NOTHING
    },
    RuleCase {
        name: "a rule with a parameter comes before a later rule without one",
        files: &["file.html"],
        redirects: "/p a=1 /one\n/p a=:a /any/:a\n/p /none\n/file.html a=1 /forced 302!\n/file.html b=1 /not\n",
        requests: &[
            ("/p?a=1",         "301 /one"),
            ("/p?a=2",         "301 /any/2"),
            ("/p",             "301 /none"),
            ("/p/?b",          "301 /none?b"),
            ("/file.html",     "200 /file.html"),
            ("/file.html?a=1", "302 /forced"),
            ("/file.html?b=1", "200 /file.html"),
        ],
        ..NOTHING
    },
    RuleCase {
        name: "rule files are not served, nor their compressed forms, nor with rules off",
        dialect: Off,
        files: &["index.html", "_headers.br", "_redirects.gz", "sub/_redirects"],
        redirects: "/a /b\n",
        headers: "/*\n  X-A: b\n",
        requests: &[
            ("/a",              "404"),
            ("/",               "200 /index.html"),
            ("/_headers",       "404"),
            ("/_redirects",     "404"),
            ("/_headers.br",    "404"),
            ("/_redirects.gz",  "404"),
            ("/sub/_redirects", "200 /sub/_redirects"),
        ],
    },
];

/// <https://docs.netlify.com/routing/headers/>, <https://developers.cloudflare.com/pages/configuration/headers/>.
#[rustfmt::skip]
const HEADERS: &[RuleCase] = &[
    RuleCase {
        name: "Netlify: syntax for the _headers file",
        files: &["templates/index.html", "templates/index2.html"],
        headers: "\
            # a path:\n/templates/index.html\n  # headers for that path:\n  X-Frame-Options: DENY\n\
            # another path:\n/templates/index2.html\n  # headers for that path:\n  X-Frame-Options: SAMEORIGIN\n",
        requests: &[
            ("/templates/index.html",  "200 /templates/index.html | X-Frame-Options: DENY"),
            ("/templates/index2.html", "200 /templates/index2.html | X-Frame-Options: SAMEORIGIN"),
            ("/templates/",            "200 /templates/index.html"),
        ],
        ..NOTHING
    },
    RuleCase {
        name: "Netlify: multi-value headers",
        headers: "/*\n  cache-control: max-age=0\n  cache-control: no-cache\n  cache-control: no-store\n  \
            cache-control: must-revalidate\n",
        requests: &[
            ("/",     "200 /index.html | Cache-Control: max-age=0, no-cache, no-store, must-revalidate"),
            ("/none", "404"),
        ],
        ..NOTHING
    },
    RuleCase {
        name: "Netlify: wildcards and placeholders in paths",
        files: &["templates/a/b.html", "css/main.css.txt", "x.html"],
        headers: "/templates/*\n  X-A: 1\n/templates/:name/b.html\n  X-B: 2\n/css/*.txt\n  X-C: 3\n",
        requests: &[
            ("/templates/a/b.html", "200 /templates/a/b.html | X-A: 1; X-B: 2"),
            ("/css/main.css.txt",   "200 /css/main.css.txt | X-C: 3"),
            ("/x.html",             "200 /x.html"),
        ],
        ..NOTHING
    },
    RuleCase {
        name: "Netlify: the later of two rules gives the value",
        files: &["a.html", "b.html"],
        headers: "/*\n  X-A: 1\n  X-B: 1\n/a.html\n  X-A: 2\n",
        requests: &[("/a.html", "200 /a.html | X-B: 1; X-A: 2"), ("/b.html", "200 /b.html | X-A: 1; X-B: 1")],
        ..NOTHING
    },
    RuleCase {
        name: "Cloudflare: attach a header",
        dialect: Cloudflare,
        files: &["secure/page", "static/image.jpg", "static/styles.css", "home"],
        headers: "\
            # This is a comment\n/secure/page\n  X-Frame-Options: DENY\n  X-Content-Type-Options: nosniff\n  \
            Referrer-Policy: no-referrer\n\n/static/*\n  Access-Control-Allow-Origin: *\n  X-Robots-Tag: nosnippet\n\n\
            /static/styles.css\n  X-Robots-Tag: noindex\n",
        requests: &[
            ("/secure/page", "200 /secure/page | X-Frame-Options: DENY; Referrer-Policy: no-referrer"),
            ("/static/styles.css", "200 /static/styles.css | Content-Type: text/css; charset=utf-8; Access-Control-Allow-Origin: *; X-Robots-Tag: nosnippet, noindex"),
            ("/home", "200 /home"),
        ],
        ..NOTHING
    },
    RuleCase {
        name: "Cloudflare: detach a header",
        dialect: Cloudflare,
        files: &["a.html", "a.txt"],
        headers: "/*\n  Content-Security-Policy: default-src 'self';\n\n/*.txt\n  ! Content-Security-Policy\n",
        requests: &[
            ("/a.html", "200 /a.html | Content-Security-Policy: default-src 'self';"),
            ("/a.txt",  "200 /a.txt"),
        ],
        ..NOTHING
    },
    RuleCase {
        name: "Cloudflare: placeholders in values",
        dialect: Cloudflare,
        files: &["movies/alien", "a/b/c"],
        headers: "/movies/:title\n  x-movie-name: You are watching \":title\"\n/a/*\n  X-Rest: :splat at 12:30\n",
        requests: &[
            ("/movies/alien", "200 /movies/alien | x-movie-name: You are watching \"alien\""),
            ("/a/b/c",        "200 /a/b/c | X-Rest: b/c at 12:30"),
        ],
        ..NOTHING
    },
    RuleCase {
        name: "a type, cookies and Vary",
        files: &["a.html", "dir/index.html"],
        headers: "/a.html\n  Content-Type: text/x-own\n  Set-Cookie: a=b\n  Set-Cookie: c=d\n  Vary: Origin\n/dir/\n  X-Dir: yes\n",
        requests: &[
            ("/a.html",         "200 /a.html | Content-Type: text/x-own; Vary: Origin; Set-Cookie: a=b; Set-Cookie: c=d"),
            ("/dir/",           "200 /dir/index.html | X-Dir: yes"),
            ("/dir/index.html", "200 /dir/index.html"),
        ],
        ..NOTHING
    },
    RuleCase {
        name: "Cloudflare: harden security for an application",
        dialect: Cloudflare,
        files: &["app/index.html"],
        headers: "/app/*\n  X-Frame-Options: DENY\n  X-Content-Type-Options: nosniff\n  Referrer-Policy: no-referrer\n  \
            Permissions-Policy: document-domain=()\n  Content-Security-Policy: script-src 'self'; frame-ancestors 'none';\n",
        requests: &[
            ("/app/", "200 /app/index.html | X-Frame-Options: DENY; Referrer-Policy: no-referrer; \
                Permissions-Policy: document-domain=(); Content-Security-Policy: script-src 'self'; frame-ancestors 'none';"),
            ("/app",  "301 /app/"),
        ],
        ..NOTHING
    },
    RuleCase {
        name: "Cloudflare: a rewrite has the fields of the requested path",
        dialect: Cloudflare,
        files: &["about/faqs.html"],
        redirects: "/about/faq/* /about/faqs 200\n",
        headers: "/about/faq/*\n  Link: </about/faqs>; rel=\"canonical\"\n",
        requests: &[
            ("/about/faq/a/b",   "200 /about/faqs.html | Link: </about/faqs>; rel=\"canonical\""),
            ("/about/faqs.html", "200 /about/faqs.html"),
        ],
    },
    RuleCase {
        name: "a redirect has the fields of the requested path, and no longer cache time",
        files: &["dir/index.html"],
        redirects: "/old /new\n/x/* /y/:splat\n/z/* /y/:splat\n/:a/q /r 302\n",
        headers: "/*\n  X-All: 1\n/old\n  X-Old: 2\n/x/*\n  X-X: 3\n/x/a\n  X-Never: 4\n/dir\n  X-Dir: 5\n\
            /:a/q\n  X-Q: 6\n/*\n  Cache-Control: public, immutable\n  Content-Type: text/plain\n",
        requests: &[
            ("/old",  "301 /new | X-All: 1; X-Old: 2"),
            ("/x/a",  "301 /y/a | X-All: 1; X-X: 3"),
            ("/z/a",  "301 /y/a | X-All: 1"),
            ("/s/q",  "302 /r | X-All: 1; X-Q: 6"),
            ("/dir",  "301 /dir/ | X-All: 1; X-Dir: 5"),
            ("/dir/", "200 /dir/index.html | Content-Type: text/plain; Cache-Control: public, immutable; X-All: 1; X-Dir: 5"),
        ],
        ..NOTHING
    },
    RuleCase {
        name: "a rewrite has the fields of its file and of the requested path",
        files: &["page.html", "app-B4qfzvDp.js"],
        redirects: "/sent /page.html 200\n/in/* /page.html 200\n/by/:a/* /:a.html 200\n/app.js /app-B4qfzvDp.js 200\n",
        headers: "/*\n  X-A: 1\n/page.html\n  X-B: 2\n/sent\n  X-C: 3\n/in/*\n  X-D: 4\n/by/*\n  X-E: 5\n",
        requests: &[
            ("/sent",      "200 /page.html | X-A: 1; X-B: 2; X-C: 3"),
            ("/in/a",      "200 /page.html | X-A: 1; X-B: 2; X-D: 4"),
            ("/by/page/x", "200 /page.html | X-A: 1; X-B: 2"),
            ("/app.js",    "200 /app-B4qfzvDp.js | Content-Type: text/javascript; charset=utf-8; X-A: 1"),
        ],
        ..NOTHING
    },
    RuleCase {
        name: "errors have the fields of the path, and are never stored",
        files: &["index.html", "gone.html", "de/404.html", "de/here.html"],
        redirects: "/gone /gone.html 410\n/in/* /gone.html 451\n/:lang/old/* /:lang/404.html 404\n",
        headers: "/*\n  X-A: 1\n  Cache-Control: max-age=9, immutable\n/gone\n  X-B: 2\n/in/*\n  X-C: 3\n/de/*\n  X-D: 4\n\
            /only/this\n  X-E: 5\n",
        requests: &[
            ("/gone",       "410 /gone.html | X-A: 1; X-B: 2"),
            ("/in/a",       "451 /gone.html | X-A: 1; X-C: 3"),
            ("/de/old/a",   "404 /de/404.html | X-A: 1; X-D: 4"),
            ("/de/a/b",     "404 /de/404.html | X-A: 1; X-D: 4"),
            ("/fr/old/a",   "404 | X-A: 1"),
            ("/in",         "451 /gone.html | X-A: 1; X-C: 3"),
            ("/only/this",  "404 | X-A: 1"),
            ("/de/here.html", "200 /de/here.html | Cache-Control: max-age=9, immutable; X-A: 1; X-D: 4"),
        ],
        ..NOTHING
    },
    RuleCase {
        name: "a missing path has the fields of its directory, with and without a 404 page",
        files: &["index.html", "404.html", "a/404.html"],
        headers: "/a/b/*\n  X-B: 1\n/c/*\n  X-C: 2\n/c/:x/d\n  X-D: 3\n/404.html\n  X-P: 4\n/a/404.html\n  X-Q: 5\n",
        requests: &[
            ("/x",     "404 /404.html | X-P: 4"),
            ("/a/x",   "404 /a/404.html | X-Q: 5"),
            ("/a/b/x", "404 /a/404.html | X-B: 1; X-Q: 5"),
            ("/c/x",   "404 /404.html | X-C: 2; X-P: 4"),
            ("/c/x/d", "404 /404.html | X-C: 2; X-P: 4"),
        ],
        ..NOTHING
    },
];

#[test]
fn rules_give_the_expected_responses_in_memory_with_any_cuts() {
    for case in cases() {
        let (image, archive) = case.image();
        for cuts in [Cuts::NONE, Cuts { read: 1, send: usize::MAX }, Cuts { read: 7, send: 1 }] {
            case.check(|request| in_memory(&image, &archive, request, cuts), &format!("{cuts:?}"));
        }
    }
}

#[test]
fn archive_and_packed_site_have_the_rules_of_their_directory() {
    for case in cases() {
        let (dir, temp) = (case.dir(), crate::common::readable_dir());
        let path = temp.path().join("site.tar");
        let tar = Command::new("tar").arg("-cf").arg(&path).arg("-C").arg(dir.path()).arg(".").status();
        assert!(tar.expect("tar").success());
        let mut out = Cursor::new(Vec::new());
        let file = File::open(&path).expect("an archive");
        let options = PackOptions { dialect: case.dialect, ..PackOptions::new(UNIX_S) };
        pack_tar(
            &file,
            &path,
            Path::new(""),
            &mut out,
            &options,
            &mut BuildCache::default(),
            &Progress::default(),
        )
        .expect(case.name);
        let (image, archive) = (image_of(out.into_inner()), fs::read(&path).expect("an archive"));
        case.check(|request| in_memory(&image, &archive, request, Cuts::NONE), "archive");

        let inputs = [
            ("directory", PackInput::Dir(dir.path())),
            ("archive", PackInput::Archive { file: &file, path: &path, prefix: Path::new("") }),
        ];
        for (name, input) in inputs {
            let target = temp.path().join("packed.tar");
            let options = SiteOptions {
                effort: CompressionEffort::Fast,
                workers: NonZeroUsize::MIN,
                max_mtime_s: UNIX_S,
                reuse: None,
                dictionaries: &[],
                offer_dictionaries: false,
                program: None,
                programs: None,
                dialect: case.dialect,
                policy: &tarpon::Policy::default(),
            };
            pack_site(input, &target, &options, &Progress::default()).expect(case.name);
            let bytes = fs::read(&target).expect("an archive");
            let place = packed::image_in(&bytes, bytes.len() as u64).expect("sound").expect("packed");
            let image = image_of(bytes[place.at as usize..][..place.len as usize].to_vec());
            case.check(|request| in_memory(&image, &bytes, request, Cuts::NONE), &format!("packed {name}"));
            let file = File::open(&target).expect("an archive");
            let verified =
                verify(&file, &target, &Dictionaries::default(), NonZeroUsize::MIN, &Progress::default())
                    .expect("packed");
            assert_eq!(verified.defects, [], "{}", case.name);
        }
    }
}

#[test]
fn rules_of_the_configuration_make_the_same_image_as_those_of_files() {
    for case in cases().filter(|case| case.dialect != Off) {
        let (with_files, without) = (case.dir(), case.dir());
        for name in ["_headers", "_redirects"] {
            fs::remove_file(without.path().join(name)).expect(name);
        }
        let file = ConfigFile::new("tarpon.toml", case.toml(without.path()));
        let resolved = config::read(Some(&file), &CliFlags::default(), CommandKind::Serve);
        let resolved = resolved.unwrap_or_else(|errors| panic!("{}: {errors}\n{}", case.name, file.text));
        let SiteSource { policy, dialect, .. } = resolved.config.sites[0].source.clone();
        let packed = |dir: &Path, policy| {
            let mut out = Cursor::new(Vec::new());
            let options = PackOptions { dialect, policy, ..PackOptions::new(UNIX_S) };
            pack_dir(dir, &mut out, &options, &mut BuildCache::default()).expect(case.name);
            out.into_inner()
        };
        let moved = packed(without.path(), policy);
        assert!(packed(with_files.path(), Policy::default()) == moved, "{}: {}", case.name, file.text);
    }
}

#[test]
#[rustfmt::skip]
fn rules_of_the_configuration_come_before_those_of_files() {
    let dir = crate::common::site(&[
        ("site/index.html", "hello"),
        ("site/_redirects", "/a /of-the-file\n/b /of-the-file\n"),
        ("site/_headers", "/*\n  X-A: of the file\n  X-B: of the file\n"),
        ("tarpon.toml", "[[site]]\npath = \"site\"\nsecure-headers = true\n\
            [[site.redirect]]\nfrom = \"/a\"\nto = \"/of-the-configuration\"\nstatus = 302\n\
            [[site.header]]\npath = \"/*\"\nset = [\"X-A: of the configuration\", \"X-C: of the configuration\"]\nremove = [\"X-Frame-Options\"]\n"),
    ]);
    let config = dir.path().join("tarpon.toml");
    let serve_config = || {
        let listen = ["--listen", "127.0.0.1:0", "--admin", "off", "--log-format", "human"].map(OsStr::new);
        program::tarpon(["serve".as_ref(), "--config".as_ref(), config.as_os_str()].into_iter().chain(listen))
    };
    let program = program::RunningProgram::start_ready(serve_config());
    let mut get = requester(TestClient::connect(program.address()));
    let cases: &[(&str, &[&str], &[&str])] = &[
        // target  in the response                                                            not in it
        ("/a",     &["HTTP/1.1 302 ", "Location: /of-the-configuration\r\n"],                 &[]),
        ("/b",     &["HTTP/1.1 301 ", "Location: /of-the-file\r\n"],                          &[]),
        ("/",      &["X-A: of the file\r\n", "X-B: of the file\r\n", "X-C: of the configuration\r\n", "Referrer-Policy: "],
                                                                                              &["X-A: of the configuration", "X-Frame-Options"]),
    ];
    for (target, has, lacks) in cases {
        let response = get(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert!(has.iter().all(|line| response.contains(line)), "{target}: {response}");
        assert!(!lacks.iter().any(|line| response.contains(line)), "{target}: {response}");
    }
    // The target of a rewrite is a file of the site, so the builder finds this error.
    let broken = fs::read_to_string(&config).expect("a file") + "[[site.redirect]]\nfrom = \"/c\"\nto = \"/none\"\nstatus = 200\n";
    fs::write(&config, broken).expect("a file");
    let output = serve_config().output().expect("a program");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && error.contains("tarpon.toml:14:6: the site has no such file"), "{error}");
}

#[test]
fn rules_give_the_expected_responses_on_every_engine() {
    let tls = TestTls::new();
    for &engine in ENGINES {
        for (number, case) in cases().enumerate() {
            let dir = case.dir();
            let served: TestServer = if EMBEDDED.contains(&engine) {
                let source =
                    SiteSource { path: dir.path().into(), dialect: case.dialect, ..SiteSource::default() };
                let (_, site) = SiteWatcher::new(source).expect(case.name);
                EmbeddedServer::start(tls.listeners(), &settings_with_http2(engine, 1), site).into()
            } else {
                let dialect = format!("{:?}", case.dialect).to_lowercase();
                // With one worker, an engine with a process per connection takes an unused connection for one that must give way.
                let options = ["--engine", engine.name(), "--workers", "2", "--rules", &dialect];
                program::RunningProgram::start_ready(tls.serve_exactly(dir.path(), &options)).into()
            };
            // Without TLS, with one version, and with HTTP/2.
            let endpoints = tls.endpoints_with_http2(engine, &served.addresses);
            for endpoint in [&endpoints[0], &endpoints[1 + number % 2]].into_iter().chain(endpoints.get(3)) {
                // The names of fields in a file may be in lower case, which HTTP/2 does not tell.
                let is_same = if endpoint.is_http2() { str::eq_ignore_ascii_case } else { str::eq };
                case.check_as(is_same, requester(endpoint.connect()), &format!("{engine}, {endpoint}"));
            }
        }
    }
}

/// Returns a function that sends a request on one connection and returns the response as text.
fn requester(mut client: TestClient) -> impl FnMut(&str) -> String {
    move |request| {
        client.send(request);
        let response = client.response();
        format!("{}\r\n\r\n{}", response.head, String::from_utf8_lossy(&response.content))
    }
}

#[test]
fn changed_rule_takes_effect_unless_it_is_invalid() {
    let dir = crate::common::site(&[("index.html", "hello"), ("_redirects", "/a /b\n")]);
    let program = program::RunningProgram::start_ready(program::serve(dir.path(), &["--workers", "1"]));
    let mut client = TestClient::connect(program.address());
    let mut location = |want: &str| {
        crate::common::wait_for(want, || {
            client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
            let response = client.response();
            response.head.contains(want).then_some(())
        });
    };
    location("Location: /b\r\n");
    fs::write(dir.path().join("_redirects"), "/a /c 302\n").expect("a file");
    location("Location: /c\r\n");
    fs::write(dir.path().join("_redirects"), "/a /d 302 Country=au\n").expect("a file");
    crate::common::wait_for("a warning", || {
        program.err().contains("_redirects:1:11: Country conditions are not supported").then_some(())
    });
    location("Location: /c\r\n");
    fs::write(dir.path().join("_headers"), "/*\n  X-A: b\n").expect("a file");
    fs::remove_file(dir.path().join("_redirects")).expect("a file");
    location("HTTP/1.1 404 ");
    location("X-A: b");
}

#[test]
fn site_with_invalid_rules_is_not_served() {
    let dir = crate::common::site(&[("index.html", "hello"), ("_headers", "/*\n  Content-Length: 7\n")]);
    let output = program::serve(dir.path(), &[]).output().expect("a program");
    assert!(!output.status.success());
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("_headers:2:3: rules cannot set this header: the server sets it"), "{error}");
    assert!(error.contains("remove it"), "{error}");
}

#[test]
fn too_long_location_gets_414() {
    let case = RuleCase { redirects: "/a/* https://example.net/:splat\n", ..NOTHING };
    let (image, archive) = case.image();
    // Each `{` becomes three bytes, and a head has room for 8 KiB.
    for (len, want) in [(100, "301"), (2_700, "301"), (2_800, "414")] {
        let request = format!("GET /a/{} HTTP/1.1\r\nHost: a\r\n\r\n", "{".repeat(len));
        let response = in_memory(&image, &archive, &request, Cuts::NONE);
        assert!(summary(&response).starts_with(want), "{len}: {}", &response[..60]);
    }
}

fn cases() -> impl Iterator<Item = &'static RuleCase> {
    [OF_NETLIFY, OF_CLOUDFLARE, OURS, HEADERS].into_iter().flatten()
}

impl RuleCase {
    fn dir(&self) -> tempfile::TempDir {
        let content = |path: &&'static str| (*path, format!("/{path}"));
        let dir = crate::common::site(&self.files.iter().map(content).collect::<Vec<_>>());
        for (name, text) in [("_redirects", self.redirects), ("_headers", self.headers)] {
            File::create(dir.path().join(name))
                .and_then(|mut file| file.write_all(text.as_bytes()))
                .expect(name);
        }
        dir
    }

    /// Returns a configuration of the site with the rules of both files.
    fn toml(&self, dir: &Path) -> String {
        let dialect = format!("{:?}", self.dialect).to_lowercase();
        let mut toml = format!("[[site]]\npath = {dir:?}\nrules = {dialect:?}\n");
        let lines = |text: &'static str| {
            text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
        };
        let (mut set, mut remove) = (Vec::new(), Vec::new());
        for line in lines(self.headers).chain(["/end"]) {
            if line.starts_with('/') {
                if toml.contains("[[site.header]]") {
                    toml += &format!("set = {set:?}\nremove = {remove:?}\n");
                }
                (set, remove) = (Vec::new(), Vec::new());
                let path = line.split(' ').next().unwrap_or_default();
                toml += &format!("[[site.header]]\npath = {path:?}\n");
            } else if let Some(name) = line.strip_prefix('!') {
                remove.push(name.trim());
            } else {
                set.push(line);
            }
        }
        for line in lines(self.redirects) {
            let parts: Vec<_> =
                line.split_ascii_whitespace().take_while(|part| !part.starts_with('#')).collect();
            let is_target = |part: &&str| part.starts_with(['/', 'h']) && !part.starts_with("h=");
            let target = 1 + parts[1..].iter().position(is_target).expect("a target");
            let (from, to) = (parts[..target].join(" "), parts[target]);
            toml += &format!("[[site.redirect]]\nfrom = {from:?}\nto = {to:?}\n");
            if let Some(status) = parts.get(target + 1) {
                let force = status.ends_with('!');
                toml += &format!("status = {}\nforce = {force}\n", status.trim_end_matches('!'));
            }
        }
        toml
    }

    /// Returns the image of the directory, with an empty archive.
    fn image(&self) -> (Image, Vec<u8>) {
        let mut out = Cursor::new(Vec::new());
        let options = PackOptions { dialect: self.dialect, ..PackOptions::new(UNIX_S) };
        pack_dir(self.dir().path(), &mut out, &options, &mut BuildCache::default()).expect(self.name);
        (image_of(out.into_inner()), Vec::new())
    }

    #[track_caller]
    fn check(&self, get: impl FnMut(&str) -> String, how: &str) {
        self.check_as(str::eq, get, how);
    }

    #[track_caller]
    fn check_as(&self, is_same: fn(&str, &str) -> bool, mut get: impl FnMut(&str) -> String, how: &str) {
        for (target, want) in self.requests {
            let response = get(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
            let got = summary(&response);
            assert!(is_same(&got, want), "{}: {target} ({how})\n{got}\n{want}\n{response}", self.name);
        }
    }
}

fn image_of(bytes: Vec<u8>) -> Image {
    Image::new(Bytes::from(bytes)).expect("an image")
}

fn in_memory(image: &Image, archive: &[u8], request: &str, cuts: Cuts) -> String {
    let mut sim = Sim::new(image.clone());
    sim.archive = archive.to_vec();
    sim.client_sends(request.as_bytes());
    sim.run(cuts);
    String::from_utf8_lossy(&sim.wire).into_owned()
}

/// Returns the status, the location or the file, and the fields of rules.
fn summary(response: &str) -> String {
    let (head, content) = response.split_once("\r\n\r\n").expect("a response");
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).expect("a status");
    let mut summary = status.to_owned();
    let fields: Vec<&str> = lines.collect();
    if let Some(location) = fields.iter().find_map(|field| field.strip_prefix("Location: ")) {
        summary = format!("{summary} {location}");
    } else if content.starts_with('/') {
        summary = format!("{summary} {content}");
    }
    let given = fields.iter().filter(|field| !USUAL.iter().any(|usual| field.starts_with(usual)));
    let given: Vec<&str> = given.copied().collect();
    if !given.is_empty() {
        summary = format!("{summary} | {}", given.join("; "));
    }
    summary
}

/// Fields of responses without rules.
const USUAL: &[&str] = &[
    "Server: ",
    "Date: ",
    "Connection: close",
    "Location: ",
    "Content-Length: ",
    "Content-Type: text/html; charset=utf-8",
    "Content-Type: text/plain; charset=utf-8",
    "X-Content-Type-Options: nosniff",
    "Accept-Ranges: ",
    "ETag: ",
    "Last-Modified: ",
    "Cache-Control: no-cache",
    "Cache-Control: no-store",
];
