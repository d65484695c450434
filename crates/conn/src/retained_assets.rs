//! Assets of earlier releases that pages still ask for: files whose names change with their content.
//!
//! ```text
//! page, loaded before the change ─▶ script-1a2b3c.js ─▶ current image ─ not found ─▶ earlier images, the latest first
//! ```
//!
//! An asset is a script, style sheet, picture, font, sound or film whose name seems to contain a hash, or anything else but a page that its
//! release declared immutable (RFC 8246): a page must be the current one. A name that is wrongly taken for one with a hash keeps a file
//! available for some releases; a hash that is not recognized breaks a page. So names are judged less strictly here than where files are
//! declared immutable.

use crate::{
    plan::{self, Plan, PlanOptions},
    request::Request,
    sites::{ImageId, SiteId, Sites},
};
use tarpon_http::{field, head::Method, target};
use tarpon_site::{Entry, Image, NotResident, Variants};

/// Plans the response from the latest earlier image that has an asset at the path, and sets `image` to it. `None`: none has.
///
/// # Errors
/// The plan needs a page of `image`, which is that earlier image then.
#[cold]
#[inline(never)]
pub(crate) fn plan(
    request: &Request<'_>,
    sites: &Sites,
    site: SiteId,
    options: PlanOptions,
    image: &mut ImageId,
) -> Result<Option<Plan>, NotResident> {
    let Some(path) = request.path().filter(|_| matches!(request.method, Method::Get | Method::Head)) else {
        return Ok(None);
    };
    let mut scratch = [0; target::PATH_LEN_MAX];
    let Ok(path) = target::normalize(path, &mut scratch) else { return Ok(None) };
    for &id in sites.earlier(site) {
        let found = plan_from(request, sites.image(id), path, options).transpose();
        if found.is_some() {
            *image = id;
            return found.transpose();
        }
    }
    Ok(None)
}

fn plan_from(
    request: &Request<'_>,
    image: &Image,
    path: &[u8],
    options: PlanOptions,
) -> Result<Option<Plan>, NotResident> {
    let Some(variants) = find(image, path)? else { return Ok(None) };
    let variant = match variants.is_single() {
        true => variants.identity,
        false => plan::choose(request, variants, image)?,
    };
    if !image.is_framed(&variant)? {
        return Ok(None);
    }
    let plan = plan::file(request, &variant, image, options)?;
    image.check_resident(plan.fields.text)?;
    Ok(Some(plan))
}

/// Returns the asset that an image has at a path.
fn find(image: &Image, path: &[u8]) -> Result<Option<Variants>, NotResident> {
    // A file that a rule sent there belonged to the rule, not to the path.
    let variants = match image.find(path)? {
        Some(Entry::File(variants)) if variants.rule_status.is_none() => variants,
        _ => return Ok(None),
    };
    let fields = image.resident_bytes(variants.identity.fields().text)?;
    let is_of = |media: &[&[u8]]| {
        values(fields, b"Content-Type").any(|value| media.iter().any(|media| value.starts_with(media)))
    };
    let is_immutable = || field::has_token(values(fields, b"Cache-Control"), b"immutable");
    let is_asset = is_of(ASSETS) && may_have_hash(path) || !is_of(PAGES) && is_immutable();
    Ok(is_asset.then_some(variants))
}

/// Returns whether a part of the name may be a hash: 8 letters and digits or more, but no word in small letters and no number.
fn may_have_hash(path: &[u8]) -> bool {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let stem_len = name.iter().rposition(|&byte| byte == b'.').unwrap_or(name.len());
    let stem = &name[..stem_len];
    // A hash in base64url may contain a hyphen.
    let last = stem.split_last_chunk().filter(|(before, _)| before.ends_with(b"-") || before.ends_with(b"."));
    let last = last.map(|(_, hash): (_, &[u8; HASH_LEN_MIN])| &hash[..]);
    stem.split(|byte| b"-.".contains(byte)).chain(last).any(may_be_hash)
}

fn may_be_hash(part: &[u8]) -> bool {
    part.len() >= HASH_LEN_MIN
        && part.iter().all(|&byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        && !part.iter().all(u8::is_ascii_lowercase)
        && !part.iter().all(u8::is_ascii_digit)
        // Longer hashes contain digits, and long words do not.
        && (part.len() == HASH_LEN_MIN || part.iter().any(u8::is_ascii_digit))
}

/// Returns the values of a field in a packed field block.
fn values<'f>(fields: &'f [u8], name: &[u8]) -> impl Iterator<Item = &'f [u8]> {
    fields.split(|&byte| byte == b'\n').filter_map(move |line| {
        let (found, value) = line.split_at_checked(name.len())?;
        let value = value.strip_prefix(b":")?.trim_ascii();
        found.eq_ignore_ascii_case(name).then_some(value)
    })
}

/// The length of the shortest hash that bundlers write.
const HASH_LEN_MIN: usize = 8;
/// Media types of files that pages load by names with a hash.
const ASSETS: &[&[u8]] =
    &[b"text/javascript", b"text/css", b"application/wasm", b"image/", b"font/", b"audio/", b"video/"];
/// Media types of pages.
const PAGES: &[&[u8]] = &[b"text/html", b"application/xhtml+xml"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[rustfmt::skip]
    fn names_with_a_hash_are_recognized() {
        let cases: &[(&str, &str, bool)] = &[
            // whose pattern         path                                           asset
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
    fn values_are_found_by_field_name() {
        let fields =
            b"Content-Length: 5\r\nCONTENT-TYPE:text/css \r\nCache-Control: a\r\ncache-control: b, c\r\n\r\n";
        let of = |name: &[u8]| values(fields, name).collect::<Vec<_>>();
        assert_eq!(of(b"Content-Type"), [b"text/css"]);
        assert_eq!(of(b"Cache-Control"), [&b"a"[..], b"b, c"]);
        assert_eq!(of(b"Cache").len() + of(b"Content-Type-Options").len(), 0);
    }
}
