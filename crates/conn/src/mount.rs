//! The part of a path below a mount: what the mounted site looks up.
//!
//! ```text
//! /docs/a/../b.html   one segment belongs to the mount   ─▶ /a/../b.html
//! /x/../%64ocs        the same                           ─▶ (empty: the mount itself, without a slash)
//! ```
//!
//! The rest is a part of the path as received, so that a rule or a record can name it by place.

/// Returns what remains of `path` after the first `count` segments of its normalized form: a path that normalizes to the rest of the
/// normalized path, or nothing if that ends with these segments. `path` is a valid path and has these segments.
pub(crate) fn rest_below(path: &[u8], count: usize) -> &[u8] {
    // The segments of the normalized path so far, and where the rest begins.
    let (mut depth, mut at) = (0_usize, 0);
    let mut rest_at = if count == 0 { 0 } else { path.len() };
    for segment in path.split(|&byte| byte == b'/').skip(1) {
        at += 1 + segment.len();
        match dot_count(segment) {
            Some(1) => {}
            Some(_) => depth = depth.saturating_sub(1),
            None => {
                depth += 1;
                if depth == count {
                    rest_at = at;
                }
            }
        }
    }
    &path[rest_at..]
}

/// Returns the number of dots of a dot segment: 1 or 2, each perhaps escaped. `None`: another segment.
fn dot_count(segment: &[u8]) -> Option<usize> {
    let (mut rest, mut count) = (segment, 0);
    while !rest.is_empty() {
        rest = rest.strip_prefix(b".").or_else(|| {
            let (escape, rest) = rest.split_at_checked(3)?;
            escape.eq_ignore_ascii_case(b"%2e").then_some(rest)
        })?;
        count += 1;
    }
    (1..=2).contains(&count).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tarpon_http::target::{PATH_LEN_MAX, normalize};

    #[test]
    #[rustfmt::skip]
    fn the_rest_is_a_part_of_the_path_as_received() {
        let cases: &[(&str, &str, usize, &str)] = &[
            // case                    path                      segments  rest
            ("the root",               "/a",                     0,        "/a"),
            ("the mount",              "/docs",                  1,        ""),
            ("with a slash",           "/docs/",                 1,        "/"),
            ("below",                  "/docs/a/b",              1,        "/a/b"),
            ("two segments",           "/x/docs/a",              2,        "/a"),
            ("escaped",                "/%64ocs/%61",            1,        "/%61"),
            ("dots before",            "/x/../docs/a",           1,        "/a"),
            ("escaped dots before",    "/x/%2e%2E/docs/a",       1,        "/a"),
            ("dots within",            "/docs/a/../b",           1,        "/a/../b"),
            ("out and in",             "/docs/../docs/a",        1,        "/a"),
            ("one dot",                "/./docs/./a",            1,        "/./a"),
            ("up to the mount",        "/docs/a/..",             1,        "/a/.."),
            ("above the root",         "/../../docs/a",          1,        "/a"),
            ("three dots are a name",  "/docs/.../a",            1,        "/.../a"),
            ("empty segments",         "/docs//a",               1,        "//a"),
        ];
        for &(name, path, count, want) in cases {
            assert_eq!(rest_below(path.as_bytes(), count), want.as_bytes(), "{name}");
        }
    }

    proptest! {
        #[test]
        fn the_rest_normalizes_to_the_rest_of_the_normalized_path(
            segments in prop::collection::vec(
                prop::sample::select(&["a", "b", "", ".", "..", "%2e", ".%2E", "%61", "..."][..]), 1..10),
            count in 1..4usize,
        ) {
            let path = format!("/{}", segments.join("/"));
            let (mut whole, mut part) = ([0; PATH_LEN_MAX], [0; PATH_LEN_MAX]);
            let normalized = normalize(path.as_bytes(), &mut whole).unwrap();
            let mut slashes = (0..normalized.len()).filter(|&at| normalized[at] == b'/').chain([normalized.len()]);
            let Some(end) = slashes.nth(count) else { return Ok(()) };
            // The path of a mount has no empty segment.
            prop_assume!(!normalized[..end].split(|&byte| byte == b'/').skip(1).any(<[u8]>::is_empty));
            let rest = rest_below(path.as_bytes(), count);
            let rest = if rest.is_empty() { rest } else { normalize(rest, &mut part).unwrap() };
            prop_assert_eq!(rest, &normalized[end..], "{} after {}", path, count);
        }
    }
}
