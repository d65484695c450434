//! Guesses from their names which file may serve as the dictionary of which later file. RFC 9842, section 2.1.
//!
//! ```text
//! /assets/app.B4qfzvDp.js ─ pattern ─▶ /assets/app.*.js ─▶ Use-As-Dictionary: match="/assets/app.*.js"
//! /style.css ───────────────────────▶ /style.css          the field of a file; in the next release the pattern is the same
//! ```
//!
//! If the packer mistakes an ordinary name for one with a hash, the pattern matches too many files, and the dictionary may help
//! little. So the check is less strict than that of `cache_control.rs`.

use crate::url_path::percent_encode;
use std::ops::Range;

/// Returns the URL pattern of a path. It matches the path itself, and the names of the file before and after a change of its
/// content. Returns `None` if the path contains characters with a special meaning in patterns.
pub(crate) fn pattern(path: &[u8]) -> Option<String> {
    let text = match hash_in(path) {
        Some(Range { start, end }) => [percent_encode(&path[..start]), percent_encode(&path[end..])],
        None => [percent_encode(path), String::new()],
    };
    // A parser that follows the URL Pattern standard takes even an escaped colon as the end of the scheme.
    if text.iter().any(|text| text.contains([':', '*', '+', '(', ')'])) {
        return None;
    }
    Some(text.join(if hash_in(path).is_some() { "*" } else { "" }))
}

/// Returns whether a client may use a response with this Cache-Control as a dictionary for some time. A response that needs
/// revalidation before each use is no dictionary: RFC 9842, section 2.2.1.
pub(crate) fn may_be_fresh(cache_control: &str) -> bool {
    let directives = || cache_control.split(',').map(|directive| directive.trim().to_ascii_lowercase());
    let forbids = |directive: String| matches!(directive.split('=').next(), Some("no-cache" | "no-store"));
    let age = directives().find_map(|directive| directive.strip_prefix("max-age=")?.parse().ok());
    age.is_some_and(|age: u64| age > 0) && !directives().any(forbids)
}

/// Returns the part of a path that seems to be the hash of a content.
fn hash_in(path: &[u8]) -> Option<Range<usize>> {
    let name_at = path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    let name = &path[name_at..];
    // A source map has the name of its script, followed by `.map`; webpack adds `.chunk` to chunks that are loaded later.
    let stem = name.strip_suffix(b".map").unwrap_or(name);
    let stem = &stem[..stem.iter().rposition(|&byte| byte == b'.')?];
    let stem = stem.strip_suffix(b".chunk").unwrap_or(stem);
    // A hash in base64url may contain a hyphen itself.
    let eight = stem.len().checked_sub(HASH_LEN_MIN + 1);
    let eight = eight.filter(|&at| is_separator(&stem[at]));
    let last = |separator| stem.iter().rposition(|&byte| byte == separator);
    let found =
        [eight, last(b'.'), last(b'-')].into_iter().flatten().find(|&at| may_be_hash(&stem[at + 1..]));
    found.filter(|&at| at > 0).map(|at| name_at + at + 1..name_at + stem.len())
}

/// Returns whether a part of a name may be a hash: at least eight letters and digits, but no word in small letters and no number.
fn may_be_hash(part: &[u8]) -> bool {
    part.len() >= HASH_LEN_MIN
        && part.iter().all(|&byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        && !part.iter().all(u8::is_ascii_lowercase)
        && !part.iter().all(u8::is_ascii_digit)
        // A longer hash contains digits, and a long word does not.
        && (part.len() == HASH_LEN_MIN || part.iter().any(u8::is_ascii_digit))
}

fn is_separator(byte: &u8) -> bool {
    matches!(byte, b'-' | b'.')
}

/// The shortest hash that bundlers write.
const HASH_LEN_MIN: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[rustfmt::skip]
    fn hash_in_a_name_becomes_a_wildcard() {
        let cases: &[(&str, &str, Option<&str>)] = &[
            // bundler or case      path                                    pattern
            ("Vite",                "/assets/index-B4qfzvDp.js",            Some("/assets/index-*.js")),
            ("Vite, no digit",      "/assets/index-BTyhCXhF.js",            Some("/assets/index-*.js")),
            ("Vite, hyphens",       "/assets/my-page-x-3F_g9Q.js",          Some("/assets/my-page-*.js")),
            ("VitePress",           "/assets/app.Bk7xQ2dZ.js",              Some("/assets/app.*.js")),
            ("webpack",             "/main.1f2e3d4c5b6a79880011.js",        Some("/main.*.js")),
            ("webpack, a part",     "/static/js/453.2a77899f.chunk.js",     Some("/static/js/453.*.chunk.js")),
            ("a map",               "/main.1f2e3d4c5b6a79880011.js.map",    Some("/main.*.js.map")),
            ("esbuild",             "/chunk-5TTFLM4Y.js",                   Some("/chunk-*.js")),
            ("a minified one",      "/main.min.1f2e3d4c.css",               Some("/main.min.*.css")),
            ("escaped",             "/é/a b-5TTFLM4Y.js",                   Some("/%C3%A9/a%20b-*.js")),

            ("no hash",             "/app.js",                              Some("/app.js")),
            ("a word",              "/my-document.js",                      Some("/my-document.js")),
            ("a date",              "/report-20240101.js",                  Some("/report-20240101.js")),
            ("nothing before",      "/-B4qfzvDp.js",                        Some("/-B4qfzvDp.js")),
            ("nothing but a hash",  "/_nuxt/Bk7xQ2dZ.js",                   Some("/_nuxt/Bk7xQ2dZ.js")),
            ("in a directory",      "/a-B4qfzvDp/app.js",                   Some("/a-B4qfzvDp/app.js")),
            ("no extension",        "/index-B4qfzvDp",                      Some("/index-B4qfzvDp")),
            ("a page",              "/about/",                              Some("/about/")),

            ("a colon",             "/a:b.js",                              None),
            ("a group",             "/a(b).js",                             None),
            ("a star",              "/a*.js",                               None),
            ("a plus",              "/c++/app-B4qfzvDp.js",                 None),
        ];
        for &(name, path, want) in cases {
            assert_eq!(pattern(path.as_bytes()).as_deref(), want, "{name}: {path}");
        }
    }

    #[test]
    #[rustfmt::skip]
    fn only_a_response_that_may_be_fresh_is_a_dictionary() {
        let cases = [
            ("public, max-age=31536000, immutable", true),
            ("Max-Age=60",                          true),
            ("no-cache",                            false),
            ("max-age=60, no-cache",                false),
            ("max-age=60, No-Store",                false),
            ("max-age=60, no-cache=\"Set-Cookie\"", false),
            ("max-age=0",                           false),
            ("max-age=soon",                        false),
            ("public",                              false),
            ("",                                    false),
        ];
        for (cache_control, want) in cases {
            assert_eq!(may_be_fresh(cache_control), want, "{cache_control}");
        }
    }
}
