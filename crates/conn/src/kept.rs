//! What pages of an earlier release still ask for: files whose names change with their content.
//!
//! ```text
//! page, loaded before the change ─▶ script-1a2b3c.js ─▶ current image ─ miss ─▶ earlier images, the latest first
//! ```
//!
//! Kept is a script, style, picture, font, sound or film whose name seems to have a hash in it, and whatever its own
//! release has declared immutable (RFC 8246) but pages: a page is to be the current one. Who takes a name wrongly for one
//! with a hash lets a file live on for some releases; who misses one breaks a page. So the names are judged by less than it takes
//! to be declared immutable. What the current image has is never asked for here.

use crate::{
    plan::{self, Plan},
    sites::{ImageId, SiteId, Sites},
};
use tarpon_http::{
    field,
    head::{Head, Method},
    target::{self, Target},
};
use tarpon_site::{Entry, Image, Variants};

/// What is sent for what the current image does not have, and from which image. `None`: none has it either.
#[cold]
#[inline(never)]
pub(crate) fn plan(
    head: &Head<'_>,
    sites: &Sites,
    site: SiteId,
    unix_s: u64,
    with_ranges: bool,
) -> Option<(ImageId, Plan)> {
    let with_content = match head.method {
        Method::Get => true,
        Method::Head => false,
        _ => return None,
    };
    let (Target::Origin { path, .. } | Target::Absolute { path, .. }) =
        target::parse(head.method, head.target).ok()?
    else {
        return None;
    };
    let mut scratch = [0; target::PATH_LEN_MAX];
    let path = if target::is_plain(path) { path } else { target::normalize(path, &mut scratch).ok()? };
    sites.earlier(site).iter().find_map(|&id| {
        let image = sites.image(id);
        let variants = find(image, path)?;
        let variant =
            if variants.is_single() { variants.identity } else { plan::choose(head, variants, image) };
        image
            .is_framed(&variant)
            .then(|| (id, plan::file(head, &variant, image, unix_s, with_content, with_ranges)))
    })
}

/// What an image has at a path, if it is to be kept.
fn find(image: &Image, path: &[u8]) -> Option<Variants> {
    let Entry::File(variants) = image.find(path)? else { return None };
    // What a rule sent there then is the rule's affair, not the path's.
    if variants.rule_status.is_some() {
        return None;
    }
    let fields = image.bytes_if_resident(variants.identity.fields);
    let is_of = |media: &[&[u8]]| {
        values(fields, b"Content-Type").any(|value| media.iter().any(|media| value.starts_with(media)))
    };
    let is_immutable = || field::has_token(values(fields, b"Cache-Control"), b"immutable");
    let is_kept = is_of(ASSETS) && may_have_hash(path) || !is_of(PAGES) && is_immutable();
    is_kept.then_some(variants)
}

/// Whether a part of the name may be a hash: 8 letters and digits or more, but no word in small letters and no number.
fn may_have_hash(path: &[u8]) -> bool {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let stem_len = name.iter().rposition(|&byte| byte == b'.').unwrap_or(name.len());
    let stem = &name[..stem_len];
    // A hash of base64url may have a hyphen itself.
    let last = stem.split_last_chunk().filter(|(before, _)| before.ends_with(b"-") || before.ends_with(b"."));
    let last = last.map(|(_, hash): (_, &[u8; HASH_LEN_MIN])| &hash[..]);
    stem.split(|byte| b"-.".contains(byte)).chain(last).any(may_be_hash)
}

fn may_be_hash(part: &[u8]) -> bool {
    part.len() >= HASH_LEN_MIN
        && part.iter().all(|&byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        && !part.iter().all(u8::is_ascii_lowercase)
        && !part.iter().all(u8::is_ascii_digit)
        // Longer ones have digits, and long words have none.
        && (part.len() == HASH_LEN_MIN || part.iter().any(u8::is_ascii_digit))
}

/// The values of a field among packed ones.
fn values<'f>(fields: &'f [u8], name: &[u8]) -> impl Iterator<Item = &'f [u8]> {
    fields.split(|&byte| byte == b'\n').filter_map(move |line| {
        let (found, value) = line.split_at_checked(name.len())?;
        let value = value.strip_prefix(b":")?.trim_ascii();
        found.eq_ignore_ascii_case(name).then_some(value)
    })
}

/// The shortest hash that bundlers write.
const HASH_LEN_MIN: usize = 8;
/// What pages ask for by names with a hash.
const ASSETS: &[&[u8]] =
    &[b"text/javascript", b"text/css", b"application/wasm", b"image/", b"font/", b"audio/", b"video/"];
const PAGES: &[&[u8]] = &[b"text/html", b"application/xhtml+xml"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[rustfmt::skip]
    fn a_name_that_may_have_a_hash_is_known() {
        let cases: &[(&str, &str, bool)] = &[
            // whose pattern         path                                           kept
            ("Vite",                 "/assets/index-B4qfzvDp.js",                   true),
            ("Vite, without digits", "/assets/index-BTyhCXhF.js",                   true),
            ("Vite, hyphens",        "/assets/my-page-x-3F_g9Q.js",                 true),
            ("VitePress",            "/assets/app.Bk7xQ2dZ.js",                     true),
            ("webpack",              "/main.1f2e3d4c5b6a79880011.js",               true),
            ("webpack, a part",      "/static/js/453.2a77899f.chunk.js",            true),
            ("Parcel",               "/index.8a0c1f3e.css",                         true),
            ("esbuild",              "/chunk-5TTFLM4Y.js",                          true),
            ("esbuild, all letters", "/chunk-QTTFLMAY.js",                          true),
            ("Next.js, bare",        "/_next/static/css/6e6a2b4c5d6e7f80.css",      true),
            ("Nuxt",                 "/_nuxt/Bk7xQ2dZ.js",                          true),
            ("Astro, a picture",     "/_astro/photo.Bk7xQ2dZ_1aBcD2.webp",          true),

            ("a short name",         "/app.js",                                     false),
            ("a word",               "/my-document.js",                             false),
            ("a long word",          "/ThirdPartyNotices.js",                       false),
            ("a date",               "/report-20240101.js",                         false),
            ("a version",            "/jquery-3.7.1.min.js",                        false),
            ("a directory",          "/B4qfzvDp/index.js",                          false),
            ("the extension",        "/index.B4qfzvDp",                             false),
            ("another alphabet",     "/index-B4q$zvDp.js",                          false),
            ("the root",             "/",                                           false),
        ];
        for &(name, path, want) in cases {
            assert_eq!(may_have_hash(path.as_bytes()), want, "{name}: {path}");
        }
    }

    #[test]
    fn fields_are_found_by_name() {
        let fields =
            b"Content-Length: 5\r\nCONTENT-TYPE:text/css \r\nCache-Control: a\r\ncache-control: b, c\r\n\r\n";
        let of = |name: &[u8]| values(fields, name).collect::<Vec<_>>();
        assert_eq!(of(b"Content-Type"), [b"text/css"]);
        assert_eq!(of(b"Cache-Control"), [&b"a"[..], b"b, c"]);
        assert_eq!(of(b"Cache").len() + of(b"Content-Type-Options").len(), 0);
    }
}
