//! Finds the script that a path names.
//!
//! ```text
//! /blog/index.php/2024/05     script /blog/index.php, PATH_INFO /2024/05
//! /blog/                      script /blog/index.php: the index
//! /upload/a.jpg               no script: 404
//! ```
//!
//! No file is looked at: the server may be on another machine. So a path such as `/upload/a.jpg/x.php` names a script that does not exist, and
//! PHP would look for another one above it. That it runs no `a.jpg` is up to `security.limit_extensions` of PHP-FPM, which allows `.php` only.

use crate::backend::FastCgiSettings;

/// The script of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FoundScript<'a> {
    /// `SCRIPT_NAME`, in two parts: of the path, and the index.
    pub(super) name: [&'a [u8]; 2],
    /// What follows it in the path.
    pub(super) path_info: &'a [u8],
}

/// Finds the script of a normalized path: it ends with the first segment that has the suffix. A path without one that ends with a slash names the
/// index. `None`: there is none.
pub(super) fn find<'a>(path: &'a [u8], settings: &'a FastCgiSettings) -> Option<FoundScript<'a>> {
    let (suffix, index) = (settings.suffix.as_bytes(), settings.index.as_bytes());
    if let Some(len) = script_len(path, suffix) {
        let (script, path_info) = path.split_at(len);
        return Some(FoundScript { name: [script, b""], path_info });
    }
    let has_index = path.ends_with(b"/") && is_script(index, suffix);
    has_index.then_some(FoundScript { name: [path, index], path_info: b"" })
}

/// Returns the length of the path up to the end of its script.
fn script_len(path: &[u8], suffix: &[u8]) -> Option<usize> {
    if suffix.is_empty() {
        return (!path.ends_with(b"/")).then_some(path.len());
    }
    let mut end = 0;
    path.split(|&byte| byte == b'/').find_map(|segment| {
        let len = end + segment.len();
        end = len + 1;
        is_script(segment, suffix).then_some(len)
    })
}

/// Returns whether a segment names a script: it has a name before the suffix.
fn is_script(segment: &[u8], suffix: &[u8]) -> bool {
    segment.len() > suffix.len() && segment.ends_with(suffix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[rustfmt::skip]
    fn script_ends_at_the_first_segment_with_the_suffix() {
        let cases = [
            // path                     suffix  index           SCRIPT_NAME, PATH_INFO
            ("/a.php",                  ".php", "index.php",    Some(("/a.php", ""))),
            ("/b/a.php",                ".php", "index.php",    Some(("/b/a.php", ""))),
            ("/a.php/x/y",              ".php", "index.php",    Some(("/a.php", "/x/y"))),
            ("/a.php/",                 ".php", "index.php",    Some(("/a.php", "/"))),
            ("/a.php/b.php",            ".php", "index.php",    Some(("/a.php", "/b.php"))),
            ("/a.php//",                ".php", "index.php",    Some(("/a.php", "//"))),
            ("/a.jpg/x.php",            ".php", "index.php",    Some(("/a.jpg/x.php", ""))),
            ("/a.phpx/b.php",           ".php", "index.php",    Some(("/a.phpx/b.php", ""))),
            ("/",                       ".php", "index.php",    Some(("/index.php", ""))),
            ("/b/",                     ".php", "index.php",    Some(("/b/index.php", ""))),
            ("/b//",                    ".php", "index.php",    Some(("/b//index.php", ""))),
            ("/.php/",                  ".php", "index.php",    Some(("/.php/index.php", ""))),
            ("/b",                      ".php", "index.php",    None),
            ("/a.jpg",                  ".php", "index.php",    None),
            ("/.php",                   ".php", "index.php",    None),
            ("/a.PHP",                  ".php", "index.php",    None),
            ("/aphp",                   ".php", "index.php",    None),
            ("/",                       ".php", "index.html",   None),
            ("/",                       ".php", "",             None),
            ("/a",                      "",     "index",        Some(("/a", ""))),
            ("/a/b",                    "",     "index",        Some(("/a/b", ""))),
            ("/",                       "",     "index",        Some(("/index", ""))),
            ("/",                       "",     "",             None),
        ];
        for (path, suffix, index, want) in cases {
            let settings = FastCgiSettings { suffix: suffix.into(), index: index.into(), ..FastCgiSettings::default() };
            let found = find(path.as_bytes(), &settings).map(|FoundScript { name, path_info }| {
                (String::from_utf8(name.concat()).unwrap(), str::from_utf8(path_info).unwrap())
            });
            assert_eq!(found, want.map(|(name, path_info)| (name.to_owned(), path_info)), "{path}, {suffix}");
        }
    }
}
