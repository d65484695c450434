//! Cache-Control: how long a cache may use a response without asking the server. RFC 9111, section 5.2.2; RFC 8246.
//!
//! ```text
//! file ─┬─ its name contains a hash of its content ─▶ a year, without asking
//!       └─ any other ───────────────────────────────▶ stored, with a question before each use: mostly a 304
//! redirect ─────────────────────────────────────────▶ like any other file
//! error ────────────────────────────────────────────▶ not stored
//! ```
//!
//! If the packer mistakes an ordinary name for one with a hash, visitors miss a change for a year; if it misses a hash, each visit
//! costs a 304. So only the patterns of known bundlers count, for types of files that bundlers write, and only if the hash looks
//! random. Names that people choose (`photo-IMG_1234.jpg`, `report-20240101.js`, `notes.05feb2024.png`) do not match.

use fast_glob::glob_match;

/// For a file whose name contains a hash of its content.
pub(crate) const IMMUTABLE: &str = "public, max-age=31536000, immutable";
/// For other files, and for redirects: some caches keep a 301 without Cache-Control for ever.
pub(crate) const REVALIDATE: &str = "no-cache";
/// For errors: the next version of the site may have the missing file.
pub(crate) const NEVER: &str = "no-store";

/// Returns the value for the file at a path. `globs`: the files at these paths change their path with their content, whatever their names.
pub(crate) fn of_file(path: &[u8], globs: &[String]) -> &'static str {
    if is_immutable(path) || globs.iter().any(|glob| matches(glob, path)) { IMMUTABLE } else { REVALIDATE }
}

/// Returns whether a glob matches a path: the path of a file, or its name if the glob has no slash.
fn matches(glob: &str, path: &[u8]) -> bool {
    let path = path.strip_prefix(b"/").unwrap_or(path);
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    match glob.strip_prefix('/') {
        Some(glob) => glob_match(glob, path),
        None if glob.contains('/') => glob_match(glob, path),
        None => glob_match(glob, name),
    }
}

/// Returns whether the path changes when the content does.
fn is_immutable(path: &[u8]) -> bool {
    let name_at = path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    let (dir, name) = path.split_at(name_at);
    // A source map has the name of its script, followed by `.map`.
    let Some((stem, extension)) = split_last(name.strip_suffix(b".map").unwrap_or(name), b'.') else {
        return false;
    };
    let is_code = CODE.contains(&extension);
    if !is_code && !MEDIA.contains(&extension) {
        return false;
    }
    // webpack adds this to chunks that are loaded later.
    let stem = stem.strip_suffix(b".chunk").unwrap_or(stem);
    let lies_in = |part: &[u8]| dir.windows(part.len()).any(|window| window == part);
    let is_random = |hash: &[u8]| is_random(hash, is_code);
    // Vite, Rollup, esbuild, Parcel and webpack, each with a name before the hash.
    if [b'-', b'.'].into_iter().any(|separator| hash_candidates(stem, separator).any(is_random)) {
        return true;
    }
    if lies_in(b"/_app/immutable/") {
        // SvelteKit: every file.
        true
    } else if lies_in(b"/_nuxt/") {
        is_random(stem)
    } else if lies_in(b"/_next/static/") {
        // Next.js: the name is the hash of the content, or the directory has the name of the build.
        is_random(stem) || name.starts_with(b"_") && dir.split(|&byte| byte == b'/').any(is_build)
    } else if lies_in(b"/_astro/") {
        // Astro: an image, `name.hash_options`.
        let (image, options) = split_last(stem, b'_').unwrap_or((stem, b""));
        options.iter().all(u8::is_ascii_alphanumeric) && hash_candidates(image, b'.').any(is_random)
    } else {
        false
    }
}

/// Splits at the last `separator`. Returns `None` if either part is empty.
fn split_last(text: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let at = text.iter().rposition(|&byte| byte == separator)?;
    (at > 0 && at + 1 < text.len()).then(|| (&text[..at], &text[at + 1..]))
}

/// Returns the parts of a stem that may be a hash: the part after the last separator, and the last eight letters after a
/// separator, as a hash in base64url may contain a separator itself.
fn hash_candidates(stem: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let last = split_last(stem, separator).map(|(_, tail)| tail);
    // Twelve letters after a hyphen may be the last part of a UUID, which is no hash of the content.
    let last = last.filter(|tail| separator == b'.' || tail.len() != 12);
    let eight = stem.split_last_chunk::<8>();
    let eight = eight.filter(|(name, _)| name.len() > 1 && name.ends_with(&[separator]));
    last.into_iter().chain(eight.map(|(_, tail)| &tail[..]))
}

/// Returns whether a text has the letters of a hash, and changes between digits, capital and small letters as often as a random text
/// does and names that people choose do not: `Section1` and `2023dec5` change twice.
fn is_random(text: &[u8], is_code: bool) -> bool {
    let all = |is_of: fn(&u8) -> bool| text.iter().all(is_of);
    let any = |is_of: fn(&u8) -> bool| text.iter().any(is_of);
    if !any(u8::is_ascii_digit) {
        return false;
    }
    let class = |byte: u8| (byte.is_ascii_digit(), byte.is_ascii_uppercase(), byte.is_ascii_lowercase());
    let changes = text.windows(2).filter(|pair| class(pair[0]) != class(pair[1])).count();
    // People choose the names of images more often than those of scripts.
    let more = usize::from(!is_code);
    match text.len() {
        8..=20 | 32 | 40 | 64 if all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) => changes >= 3,
        8 if all(|byte| matches!(byte, b'A'..=b'Z' | b'2'..=b'7')) => changes >= 2 + more,
        8 if all(is_base64url) => {
            any(u8::is_ascii_uppercase) && any(u8::is_ascii_lowercase) && changes >= 3 + more
        }
        _ => false,
    }
}

/// Returns whether a name may be that of a Next.js build: random, unless the site configures another name.
fn is_build(name: &[u8]) -> bool {
    let classes: [fn(&u8) -> bool; 3] = [u8::is_ascii_digit, u8::is_ascii_uppercase, u8::is_ascii_lowercase];
    name.len() == 21 && name.iter().all(is_base64url) && classes.iter().all(|&class| name.iter().any(class))
}

/// RFC 4648, section 5.
fn is_base64url(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

/// Extensions of files that bundlers generate.
const CODE: &[&[u8]] = &[b"cjs", b"css", b"js", b"mjs", b"wasm"];
/// Extensions of files that bundlers copy to a name with a hash.
#[rustfmt::skip]
const MEDIA: &[&[u8]] = &[
    b"aac", b"avif", b"eot", b"flac", b"gif", b"ico", b"jpeg", b"jpg", b"jxl", b"m4a", b"mp3", b"mp4", b"ogg", b"opus",
    b"otf", b"png", b"svg", b"ttf", b"wav", b"webm", b"webp", b"woff", b"woff2",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[rustfmt::skip]
    fn only_bundler_names_with_a_hash_are_immutable() {
        let cases: &[(&str, &str, bool)] = &[
            // whose pattern        path                                                    immutable
            ("Vite",                "/assets/index-B4qfzvDp.js",                            true),
            ("Vite, a style",       "/assets/index-DiwrgTda1.css",                          false),
            ("Vite, hyphens",       "/assets/my-page-x-3F_g9Q.js",                          true),
            ("Vite, a picture",     "/assets/logo-Bk7xQ2dZ.svg",                            true),
            ("Vite, a map",         "/assets/index-B4qfzvDp.js.map",                        true),
            ("Vite 4",              "/assets/index-4f3a9b1c.js",                            true),
            ("VitePress",           "/assets/app.Bk7xQ2dZ.js",                              true),
            ("webpack",             "/main.1f2e3d4c5b6a79880011.js",                        true),
            ("webpack, a part",     "/static/js/453.2a77899f.chunk.js",                     true),
            ("Parcel",              "/index.8a0c1f3e.css",                                  true),
            ("Django",              "/static/base.27e20196a850.js",                         true),
            ("Hugo",                "/main.min.1b4f0e9851971998e732078544c96b36c3d01cedf7caa332359d6f1d83567014.css", true),
            ("Gatsby",              "/app-0c8d3b2a1f4e5d6c7b8a.js",                         true),
            ("esbuild",             "/chunk-5TTFLM4Y.js",                                   true),
            ("Angular",             "/media/logo-K3QZ4B5X.png",                             true),
            ("Next.js",             "/_next/static/chunks/framework-64ad27b21261a9ce.js",   true),
            ("Next.js, bare",       "/_next/static/css/6e6a2b4c5d6e7f80.css",               true),
            ("Next.js, a build",    "/_next/static/vY3aBq0X9dKfLmN2pQrS1/_buildManifest.js", true),
            ("Next.js, below",      "/docs/_next/static/chunks/main-1d2c3b4a5f6e7d8c.js",   true),
            ("Nuxt",                "/_nuxt/Bk7xQ2dZ.js",                                   true),
            ("SvelteKit",           "/_app/immutable/entry/start.js",                       true),
            ("Astro",               "/_astro/index.B4qfzvDp.css",                           true),
            ("Astro, a picture",    "/_astro/photo.Bk7xQ2dZ_1aBcD2.webp",                   true),

            ("Next.js, a name",     "/_next/static/chunks/main.js",                         false),
            ("a build by name",     "/_next/static/release-2024-11-21abc/_buildManifest.js", false),
            ("Nuxt, latest",        "/_nuxt/builds/latest.json",                            false),
            ("SvelteKit's version", "/_app/version.json",                                   false),
            ("bare, anywhere",      "/assets/6e6a2b4c5d6e7f80.css",                         false),
            ("a page",              "/notes-B4qfzvDp.html",                                 false),
            ("a download",          "/tool-1a2b3c4d.zip",                                   false),
            ("a document",          "/sales-Q3REPORT.pdf",                                  false),
            ("no extension",        "/index-B4qfzvDp",                                      false),
            ("coded beside",        "/assets/index-B4qfzvDp.js.br",                         false),
            ("a word",              "/my-document.js",                                      false),
            ("a word, capital",     "/app-MyModule.js",                                     false),
            ("a number at the end", "/lesson-Chapter2.js",                                  false),
            ("a section",           "/intro-Section1.png",                                  false),
            ("a product",           "/case-iPhone14.png",                                   false),
            ("a camera",            "/photo-IMG_1234.jpg",                                  false),
            ("a quarter",           "/slides-Q4REPORT.png",                                 false),
            ("a year",              "/party-SUMMER24.js",                                   false),
            ("a date",              "/report-20240101.js",                                  false),
            ("a date and letter",   "/report.20240101a.js",                                 false),
            ("a date in hex",       "/party-2023dec5.jpg",                                  false),
            ("another",             "/party.05feb2024.jpg",                                 false),
            ("a word in hex",       "/logo.deadbeef.svg",                                   false),
            ("a counter",           "/scan.00000001.png",                                   false),
            ("a UUID",              "/550e8400-e29b-41d4-a716-4466554a00f0.jpg",            false),
            ("a version",           "/jquery-3.7.1.min.js",                                 false),
            ("a version, long",     "/lib.1.22.333-beta4.js",                               false),
            ("a size",              "/icon-1024x768.png",                                   false),
            ("a dot file",          "/.B4qfzvDp.js",                                        false),
            ("nothing before",      "/-B4qfzvDp.js",                                        false),
            ("a directory",         "/a.8a0c1f3e/index.js",                                 false),
            ("the root",            "/",                                                    false),
        ];
        for &(name, path, want) in cases {
            assert_eq!(is_immutable(path.as_bytes()), want, "{name}: {path}");
            assert_eq!(of_file(path.as_bytes(), &[]) == IMMUTABLE, want, "{name}");
        }
    }

    /// A random text does not always look random. A missed hash costs a 304; most must be found.
    #[test]
    #[rustfmt::skip]
    fn most_random_hashes_are_found() {
        const HEX: &[u8] = b"0123456789abcdef";
        const BASE32: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
        const BASE64: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        type Row<'a> = (&'a str, &'a [u8], usize, &'a str, &'a str, usize);
        let cases: &[Row<'_>] = &[
            // bundler    letters  length  before            after    of 1000 at least
            ("Vite",      BASE64,  8,      "/assets/a-",     ".js",   550),
            ("webpack",   HEX,     20,     "/a.",            ".js",   990),
            ("Parcel",    HEX,     8,      "/a.",            ".css",  600),
            ("Next.js",   HEX,     16,     "/_next/static/", ".js",   950),
            ("esbuild",   BASE32,  8,      "/a-",            ".js",   550),
        ];
        for &(name, letters, len, before, after, least) in cases {
            let mut state = 0x9e37_79b9_7f4a_7c15_u64;
            let mut letter = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                letters[(state >> 33) as usize % letters.len()]
            };
            let found = (0..1000).filter(|_| {
                let hash: Vec<u8> = (0..len).map(|_| letter()).collect();
                is_immutable(&[before.as_bytes(), &hash, after.as_bytes()].concat())
            });
            let found = found.count();
            assert!(found >= least, "{name}: {found}");
        }
    }

    #[test]
    #[rustfmt::skip]
    fn globs_match_paths_or_names() {
        let cases: &[(&str, &str, bool)] = &[
            // glob                   path                          matches
            ("/assets/*",             "/assets/app.js",             true),
            ("assets/*",              "/assets/app.js",             true),
            ("/assets/*",             "/assets/chunks/app.js",      false),
            ("/assets/**",            "/assets/chunks/app.js",      true),
            ("/assets/**/*.{js,css}", "/assets/chunks/app.css",     true),
            ("/assets/**/*.{js,css}", "/assets/logo.svg",           false),
            ("*.woff2",               "/fonts/a/b.woff2",           true),
            ("*.woff2",               "/fonts.woff2/a",             false),
            ("/*.woff2",              "/fonts/b.woff2",             false),
            ("app.??.js",             "/js/app.1x.js",              true),
            ("/docs/assets/*",        "/assets/app.js",             false),
        ];
        for &(glob, path, want) in cases {
            let value = of_file(path.as_bytes(), &[glob.to_owned()]);
            assert_eq!(value == IMMUTABLE, want, "{glob} {path}");
        }
    }
}
