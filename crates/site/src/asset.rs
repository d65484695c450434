//! Tells assets, such as scripts and images, from pages by their extension.

/// Returns whether a path has the extension of an asset. A dot in a name is not enough: `/users/j.doe` and `/docs/v1.2` are pages.
pub(crate) fn is_asset(path: &[u8]) -> bool {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    let Some(dot) = name.iter().rposition(|&byte| byte == b'.') else { return false };
    let extension = &name[dot + 1..];
    let mut lower = [0; EXTENSION_LEN_MAX];
    let Some(lower) = lower.get_mut(..extension.len()) else { return false };
    lower.copy_from_slice(extension);
    lower.make_ascii_lowercase();
    EXTENSIONS.binary_search_by(|known| known.as_bytes().cmp(lower)).is_ok()
}

/// The length of the longest extension.
const EXTENSION_LEN_MAX: usize = 11;

/// The extensions, sorted. They include those of programs that a static site does not have but that scanners request.
#[rustfmt::skip]
const EXTENSIONS: &[&str] = &[
    "7z", "aac", "apk", "asp", "aspx", "atom", "avi", "avif", "bak", "bin", "bmp", "br", "bz2", "cgi", "cjs", "css", "csv",
    "cur", "deb", "dmg", "doc", "docx", "env", "eot", "epub", "exe", "flac", "gif", "glb", "gltf", "gz", "heic", "ico", "ics",
    "iso", "jpeg", "jpg", "js", "json", "jsonl", "jsp", "jxl", "m3u8", "m4a", "m4s", "m4v", "map", "md", "mjs", "mkv", "mov",
    "mp3", "mp4", "mpd", "mpeg", "msi", "ndjson", "odp", "ods", "odt", "oga", "ogg", "ogv", "opus", "otf", "pdf", "php",
    "png", "ppt", "pptx", "rar", "rss", "sql", "svg", "svgz", "tar", "tgz", "tif", "tiff", "toml", "ttf", "txt", "vtt",
    "wasm", "wav", "weba", "webm", "webmanifest", "webp", "woff", "woff2", "xls", "xlsx", "xml", "xz", "yaml", "yml", "zip",
    "zst",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[rustfmt::skip]
    fn asset_is_recognized_by_its_extension() {
        let cases: &[(&str, &str, bool)] = &[
            // case                 path                      asset
            ("a script",            "/app.js",                true),
            ("in a directory",      "/assets/app.B4qfz.css",  true),
            ("capital letters",     "/LOGO.PNG",              true),
            ("the longest",         "/app.webmanifest",       true),
            ("a compressed file",   "/app.js.br",             true),
            ("of a scanner",        "/wp-login.php",          true),
            ("a route",             "/users/7",               false),
            ("a directory",         "/users/",                false),
            ("the root",            "/",                      false),
            ("a page",              "/about.html",            false),
            ("the name of a user",  "/users/j.doe",           false),
            ("a version",           "/docs/v1.2",             false),
            ("a dot at the end",    "/what.",                 false),
            ("a dot before",        "/a.js/b",                false),
            ("longer than any",     "/a.javascriptsource",    false),
            ("an extension alone",  "/js",                    false),
        ];
        for &(name, path, want) in cases {
            assert_eq!(is_asset(path.as_bytes()), want, "{name}: {path}");
        }
    }

    #[test]
    fn extensions_are_sorted_and_fit() {
        assert!(EXTENSIONS.is_sorted());
        assert_eq!(EXTENSIONS.iter().map(|extension| extension.len()).max(), Some(EXTENSION_LEN_MAX));
    }
}
