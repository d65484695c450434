//! The fields of each response, with the empty line that ends them. RFC 9112, section 2.1.
//!
//! ```text
//! a file    200:  Content-Length  Content-Type  [X-Content-Type-Options]  [Content-Encoding]  Accept-Ranges
//!                 [Use-As-Dictionary]  and the fields of 304
//!           304:                       ETag  Last-Modified  Cache-Control  [Vary]
//! redirect  301:  Location  Content-Type  [X-Content-Type-Options]  Content-Length  Cache-Control
//! error page of the site:     Content-Length  Content-Type  [X-Content-Type-Options]  [Content-Encoding]  Cache-Control  [Vary]
//! error page of the server:   [Content-Type  [X-Content-Type-Options]  Content-Length  Cache-Control]  [Allow]
//! ```
//!
//! The fields of rules and of the policy follow. The server writes the status line, Server, Date and Connection before these fields.
//! A 206 has the fields of 200 without Content-Length and, if it has several parts, without Content-Type. These two come first, so
//! that the server can send the rest unchanged.

use crate::cache_control;
use crate::dictionary::may_be_fresh;
use crate::policy::SNIFFING;
use crate::rules::HeaderFields;
use crate::url_path::percent_encode;
use tarpon_http::date;
use tarpon_site::Coding;

/// The fields of a file.
#[derive(Default)]
pub(crate) struct FileFields {
    /// The fields of 200, or of an error.
    pub(crate) ok: Vec<u8>,
    /// The length of the fields of 304, which are the last of these.
    pub(crate) not_modified_len: u32,
    /// From the start of the fields of 304 to the entity-tag.
    pub(crate) etag_at: u32,
    /// With its quotes.
    pub(crate) etag_len: u32,
}

/// The fields and the content of a redirect.
pub(crate) struct RedirectFields {
    pub(crate) fields: Vec<u8>,
    /// Bytes of `fields` up to the end of the target, where the server inserts the query of the request. 0: the server inserts none.
    pub(crate) before_query: u32,
    pub(crate) content: Vec<u8>,
}

/// The properties of a representation that its fields depend on.
#[derive(Clone, Copy)]
pub(crate) struct Representation<'m> {
    /// The value of Content-Type.
    pub(crate) media: &'m str,
    pub(crate) coding: Coding,
    /// Which request fields select the representation.
    pub(crate) varies: Varies,
    /// The URL pattern of the files that may use this one as a dictionary.
    pub(crate) offer: Option<&'m str>,
    /// Seconds since 1970.
    pub(crate) last_modified: u64,
    /// The value of Cache-Control.
    pub(crate) cache: &'m str,
    /// The fields of rules and of the policy. They override the others.
    pub(crate) extra: &'m HeaderFields,
}

/// The request fields that select the coding of a file: caches must know (RFC 9110, section 12.5.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Varies {
    /// None: the file has one representation.
    No,
    /// Accept-Encoding.
    ByCoding,
    /// Accept-Encoding and Available-Dictionary.
    ByDictionary,
}

impl Varies {
    /// For a file with this many variants, and this many deltas for clients that have a dictionary.
    pub(crate) fn of(variant_count: usize, delta_count: usize) -> Varies {
        match (variant_count, delta_count) {
            (..=1, 0) => Varies::No,
            (_, 0) => Varies::ByCoding,
            (..) => Varies::ByDictionary,
        }
    }

    /// Returns the value of Vary.
    fn names(self) -> Option<&'static str> {
        match self {
            Varies::No => None,
            Varies::ByCoding => Some("Accept-Encoding"),
            Varies::ByDictionary => Some("Accept-Encoding, Available-Dictionary"),
        }
    }
}

/// Returns the fields of a representation with this length and hash, both of the coded content.
pub(crate) fn file(representation: Representation<'_>, len: u64, hash: u128) -> FileFields {
    let etag = format!("\"{hash:032x}\"");
    let date = date::format(representation.last_modified);
    let date = std::str::from_utf8(&date).expect("a date is ASCII");
    let FieldValues { media, sniffing, encoding, offer, cache, vary, extra } =
        FieldValues::of(representation);
    let not_modified =
        format!("ETag: {etag}\r\nLast-Modified: {date}\r\nCache-Control: {cache}\r\n{vary}{extra}\r\n");
    FileFields {
        etag_at: "ETag: ".len() as u32,
        etag_len: etag.len() as u32,
        ok: format!(
            "Content-Length: {len}\r\nContent-Type: {media}\r\n{sniffing}{encoding}Accept-Ranges: bytes\r\n{offer}{not_modified}"
        )
        .into(),
        not_modified_len: not_modified.len() as u32,
    }
}

/// Returns the fields of a file of this length that is the content of an error, such as 404. The file is no representation of the
/// requested resource: the response has no validators, no ranges, and caches must not store it.
pub(crate) fn error(representation: Representation<'_>, len: u64) -> FileFields {
    let FieldValues { media, sniffing, encoding, vary, extra, .. } = FieldValues::of(representation);
    let cache = cache_control::NEVER;
    let ok = format!(
        "Content-Length: {len}\r\nContent-Type: {media}\r\n{sniffing}{encoding}Cache-Control: {cache}\r\n{vary}{extra}\r\n"
    );
    FileFields { ok: ok.into(), ..FileFields::default() }
}

/// The values of a file's fields, after rules and policy.
struct FieldValues {
    media: String,
    /// X-Content-Type-Options, Content-Encoding, Use-As-Dictionary and Vary are whole lines, or empty.
    sniffing: String,
    encoding: &'static str,
    offer: String,
    cache: String,
    vary: String,
    /// Whole lines.
    extra: String,
}

impl FieldValues {
    fn of(representation: Representation<'_>) -> FieldValues {
        let (media, extra) = representation.extra.clone().split_off("Content-Type");
        let (cache, extra) = extra.split_off("Cache-Control");
        let (vary, extra) = extra.split_off("Vary");
        let (sniffing, extra) = split_sniffing(extra);
        let cache = cache.unwrap_or(representation.cache.to_owned());
        let vary: Vec<_> = representation.varies.names().map(str::to_owned).into_iter().chain(vary).collect();
        // A rule of the site may set another pattern.
        let offer = representation.offer.filter(|_| may_be_fresh(&cache) && !extra.has("Use-As-Dictionary"));
        FieldValues {
            media: media.unwrap_or(representation.media.to_owned()),
            sniffing,
            encoding: encoding(representation.coding),
            offer: offer.map_or(String::new(), |of| format!("Use-As-Dictionary: match=\"{of}\"\r\n")),
            cache,
            vary: if vary.is_empty() { String::new() } else { format!("Vary: {}\r\n", vary.join(", ")) },
            extra: extra.text(),
        }
    }
}

/// Splits off X-Content-Type-Options as a line, or an empty string. It belongs to Content-Type, so a 304 does not have it.
fn split_sniffing(fields: HeaderFields) -> (String, HeaderFields) {
    let (value, others) = fields.split_off(SNIFFING);
    (value.map_or(String::new(), |value| format!("{SNIFFING}: {value}\r\n")), others)
}

fn encoding(coding: Coding) -> &'static str {
    match coding {
        Coding::Identity => "",
        Coding::Br => "Content-Encoding: br\r\n",
        Coding::Gzip => "Content-Encoding: gzip\r\n",
        Coding::Zstd => "Content-Encoding: zstd\r\n",
        Coding::Dcb => "Content-Encoding: dcb\r\n",
        Coding::Dcz => "Content-Encoding: dcz\r\n",
    }
}

/// Returns a redirect to a decoded path of the host, which begins with a single slash.
pub(crate) fn redirect(path: &[u8], extra: &HeaderFields) -> RedirectFields {
    // `//host/` would lead to another host (RFC 3986, section 4.2).
    assert!(path.starts_with(b"/") && !path.starts_with(b"//"), "a path of the walk");
    redirect_to(&percent_encode(path), Some(""), extra)
}

/// Returns a redirect to a URI. With a fragment, the server appends the query of the request before the fragment; with `None`, the
/// server appends nothing.
pub(crate) fn redirect_to(target: &str, fragment: Option<&str>, extra: &HeaderFields) -> RedirectFields {
    let mut fields = format!("Location: {target}");
    let before_query = if fragment.is_some() { fields.len() as u32 } else { 0 };
    let fragment = fragment.unwrap_or("");
    let shown =
        format!("{target}{fragment}").replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
    let content =
        format!("<!doctype html><title>Moved</title><p>This is at <a href=\"{shown}\">{shown}</a>.\n");
    fields.push_str(fragment);
    fields.push_str("\r\n");
    fields.push_str(&html(content.len(), cache_control::REVALIDATE, "", extra));
    RedirectFields { fields: fields.into(), before_query, content: content.into() }
}

/// Returns the fields after Location, and the content, of a redirect whose target depends on the request.
pub(crate) fn redirect_anywhere(extra: &HeaderFields) -> (Vec<u8>, &'static [u8]) {
    const CONTENT: &str = "<!doctype html><title>Moved</title><p>This is somewhere else now.\n";
    (html(CONTENT.len(), cache_control::REVALIDATE, "", extra).into(), CONTENT.as_bytes())
}

/// Returns the fields of a page of the server. 405 has Allow; so has 204, which answers OPTIONS and has no content (RFC 9110,
/// sections 8.6, 9.3.7 and 15.5.6). 503 tells when to try again: what is full for a moment often has room after some seconds.
pub(crate) fn page(code: u16, len: usize, extra: &HeaderFields) -> Vec<u8> {
    const ALLOW: &str = "Allow: GET, HEAD, OPTIONS\r\n";
    match code {
        204 => format!("{ALLOW}\r\n").into(),
        405 => html(len, cache_control::NEVER, ALLOW, extra).into(),
        503 => html(len, cache_control::NEVER, "Retry-After: 5\r\n", extra).into(),
        _ => html(len, cache_control::NEVER, "", extra).into(),
    }
}

/// `line`: a whole line, or empty.
fn html(len: usize, cache: &str, line: &str, extra: &HeaderFields) -> String {
    let media = "text/html; charset=utf-8";
    let (sniffing, extra) = split_sniffing(extra.for_generated());
    let extra = extra.text();
    format!(
        "Content-Type: {media}\r\n{sniffing}Content-Length: {len}\r\nCache-Control: {cache}\r\n{line}{extra}\r\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[rustfmt::skip]
    fn fields_of_a_file_end_with_an_empty_line() {
        use Varies::*;
        let year = "max-age=31536000";
        let coded = "Vary: Accept-Encoding\r\n";
        let delta = "Vary: Accept-Encoding, Available-Dictionary\r\n";
        let offer = "Use-As-Dictionary: match=\"/a-*.css\"\r\n";
        let cases = [
            (Coding::Identity, No,           "no-cache", "",                           "",    ""),
            (Coding::Identity, ByCoding,     "no-cache", "",                           "",    coded),
            (Coding::Br,       ByCoding,     "no-cache", "Content-Encoding: br\r\n",   "",    coded),
            (Coding::Gzip,     ByCoding,     "no-cache", "Content-Encoding: gzip\r\n", "",    coded),
            (Coding::Zstd,     ByCoding,     year,       "Content-Encoding: zstd\r\n", offer, coded),
            (Coding::Zstd,     ByDictionary, year,       "Content-Encoding: zstd\r\n", offer, delta),
            (Coding::Dcb,      ByDictionary, year,       "Content-Encoding: dcb\r\n",  offer, delta),
            (Coding::Dcz,      ByDictionary, year,       "Content-Encoding: dcz\r\n",  offer, delta),
        ];
        for ((coding, varies, cache, encoding, offer, vary), nosniff) in
            cases.into_iter().flat_map(|case| [(case, false), (case, true)])
        {
            let sniffing = if nosniff { "X-Content-Type-Options: nosniff\r\n" } else { "" };
            let extra = HeaderFields::of(nosniff.then_some((SNIFFING, "nosniff")).into_iter());
            let (extra, media, last_modified) = (&extra, "text/css", 784_111_777);
            let representation = Representation { media, coding, varies, offer: Some("/a-*.css"), last_modified, cache, extra };
            let fields = file(representation, 12, 0xab);
            let tag = "\"000000000000000000000000000000ab\"";
            let not_modified = format!("ETag: {tag}\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nCache-Control: {cache}\r\n{vary}\r\n");
            let ok = format!("Content-Length: 12\r\nContent-Type: text/css\r\n{sniffing}{encoding}Accept-Ranges: bytes\r\n{offer}{not_modified}");
            assert_eq!(fields.ok, ok.as_bytes());
            let last = &fields.ok[fields.ok.len() - fields.not_modified_len as usize..];
            assert_eq!(last, not_modified.as_bytes());
            assert_eq!(&last[fields.etag_at as usize..][..fields.etag_len as usize], tag.as_bytes());
        }
    }

    #[test]
    #[rustfmt::skip]
    fn location_is_percent_encoded() {
        let cases: &[(&str, &[u8], &str)] = &[
            ("plain",           b"/a/b/",               "/a/b/"),
            ("every pchar",     b"/-._~!$&'()*+,;=:@/", "/-._~!$&'()*+,;=:@/"),
            ("space",           b"/a b/",               "/a%20b/"),
            ("percent",         b"/100%/",              "/100%25/"),
            ("query, fragment", b"/a?b#c/",             "/a%3Fb%23c/"),
            ("unicode",         "/é/".as_bytes(),       "/%C3%A9/"),
            ("not UTF-8",       b"/\xe9/",              "/%E9/"),
            ("new line",        b"/a\r\nb: c/",         "/a%0D%0Ab:%20c/"),
            ("back slash",      b"/\\host/",            "/%5Chost/"),
            ("markup",          b"/<b>\"/",             "/%3Cb%3E%22/"),
        ];
        for &(name, path, want) in cases {
            let redirect = redirect(path, &HeaderFields::default());
            let (before, after) = redirect.fields.split_at(redirect.before_query as usize);
            assert_eq!(before, format!("Location: {want}").as_bytes(), "{name}");
            let rest = format!(
                "\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nCache-Control: no-cache\r\n\r\n",
                redirect.content.len()
            );
            assert_eq!(after, rest.as_bytes(), "{name}");
            assert!(!redirect.content.contains(&b'\r'), "{name}");
        }
    }
}
