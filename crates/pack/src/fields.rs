//! The fields of each answer, with the empty line behind them. RFC 9112, section 2.1.
//!
//! ```text
//! 304:                                                                  ETag  Last-Modified  Cache-Control  [Vary]  ┐ a file
//! 200:  Content-Length  Content-Type  [X-Content-Type-Options]  [Content-Encoding]  Accept-Ranges  [Use-As-Dictionary]  ETag  … as of 304 …   ┘
//! 301:  Location  Content-Type  [X-Content-Type-Options]  Content-Length  Cache-Control         a directory
//! 404:  Content-Length  Content-Type  [X-Content-Type-Options]  [Content-Encoding]  Cache-Control  [Vary]    a file that stands for an error
//! page: [Content-Type  [X-Content-Type-Options]  Content-Length  Cache-Control]  [Allow]        a status
//! ```
//!
//! Behind them come those that rules and the policy add, wherever there is content. Status line, Server, Date and Connection come before; they are the server's to write. A 206 has the fields
//! of 200, but for Content-Length and, where it has several parts, Content-Type. These come first, so that the rest can
//! be sent as it lies.

use crate::cache_control;
use crate::dictionary::may_be_fresh;
use crate::policy::SNIFFING;
use crate::rules::Fields;
use tarpon_http::date;
use tarpon_site::Coding;

/// The fields of a file.
#[derive(Default)]
pub(crate) struct FileFields {
    pub(crate) not_modified: Vec<u8>,
    /// From the start of `not_modified` to the entity-tag.
    pub(crate) etag_at: u32,
    /// With its quotes.
    pub(crate) etag_len: u32,
    pub(crate) ok: Vec<u8>,
}

/// The fields and content of a redirect.
pub(crate) struct RedirectFields {
    pub(crate) fields: Vec<u8>,
    /// Bytes of `fields` up to the end of the target, where a query can go in.
    pub(crate) before_query: u32,
    pub(crate) content: Vec<u8>,
}

/// What a file is sent as.
#[derive(Clone, Copy)]
pub(crate) struct Representation<'m> {
    /// The value of Content-Type.
    pub(crate) media: &'m str,
    pub(crate) coding: Coding,
    /// Whether a client could have got it in another coding.
    pub(crate) varies: Varies,
    /// What it may be the dictionary of, as a pattern.
    pub(crate) offer: Option<&'m str>,
    /// Seconds since 1970.
    pub(crate) last_modified: u64,
    /// The value of Cache-Control.
    pub(crate) cache: &'m str,
    /// What rules add, or say otherwise.
    pub(crate) more: &'m Fields,
}

/// What decides in which coding a client gets a file: caches must know (RFC 9110, section 12.5.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Varies {
    /// Nothing: there is one.
    No,
    /// The codings it takes.
    ByCoding,
    /// These, and the dictionary it has.
    ByDictionary,
}

impl Varies {
    /// Of a file with so many variants, and so many for those who have a dictionary.
    pub(crate) fn of(variant_count: usize, delta_count: usize) -> Varies {
        match (variant_count, delta_count) {
            (..=1, 0) => Varies::No,
            (_, 0) => Varies::ByCoding,
            (..) => Varies::ByDictionary,
        }
    }

    /// A value of Vary.
    fn names(self) -> Option<&'static str> {
        match self {
            Varies::No => None,
            Varies::ByCoding => Some("Accept-Encoding"),
            Varies::ByDictionary => Some("Accept-Encoding, Available-Dictionary"),
        }
    }
}

/// The fields of a file whose content, coded as it is sent, has this length and hash.
pub(crate) fn file(sent: Representation<'_>, len: u64, hash: u128) -> FileFields {
    let etag = format!("\"{hash:032x}\"");
    let date = date::format(sent.last_modified);
    let date = std::str::from_utf8(&date).expect("a date is ASCII");
    let FieldValues { media, sniffing, encoding, offer, cache, vary, more } = FieldValues::of(sent);
    let not_modified =
        format!("ETag: {etag}\r\nLast-Modified: {date}\r\nCache-Control: {cache}\r\n{vary}{more}\r\n");
    FileFields {
        etag_at: "ETag: ".len() as u32,
        etag_len: etag.len() as u32,
        ok: format!(
            "Content-Length: {len}\r\nContent-Type: {media}\r\n{sniffing}{encoding}Accept-Ranges: bytes\r\n{offer}{not_modified}"
        )
        .into(),
        not_modified: not_modified.into(),
    }
}

/// The fields of a file of this length that stands for an error, as that nothing is there. It is no representation of what
/// was asked for: without validators, not in parts, and not kept.
pub(crate) fn error(sent: Representation<'_>, len: u64) -> FileFields {
    let (FieldValues { media, sniffing, encoding, vary, more, .. }, cache) =
        (FieldValues::of(sent), cache_control::NEVER);
    let ok = format!(
        "Content-Length: {len}\r\nContent-Type: {media}\r\n{sniffing}{encoding}Cache-Control: {cache}\r\n{vary}{more}\r\n"
    );
    FileFields { ok: ok.into(), ..FileFields::default() }
}

/// What is said of a file by us and by rules.
struct FieldValues {
    media: String,
    /// X-Content-Type-Options, Content-Encoding, Use-As-Dictionary and Vary are lines, or nothing.
    sniffing: String,
    encoding: &'static str,
    offer: String,
    cache: String,
    vary: String,
    /// Lines.
    more: String,
}

impl FieldValues {
    fn of(sent: Representation<'_>) -> FieldValues {
        let (media, more) = sent.more.clone().split_off("Content-Type");
        let (cache, more) = more.split_off("Cache-Control");
        let (vary, more) = more.split_off("Vary");
        let (sniffing, more) = split_sniffing(more);
        let cache = cache.unwrap_or(sent.cache.to_owned());
        let vary: Vec<_> = sent.varies.names().map(str::to_owned).into_iter().chain(vary).collect();
        // A site may know better what its files are dictionaries of.
        let offer = sent.offer.filter(|_| may_be_fresh(&cache) && !more.has("Use-As-Dictionary"));
        FieldValues {
            media: media.unwrap_or(sent.media.to_owned()),
            sniffing,
            encoding: encoding(sent.coding),
            offer: offer.map_or(String::new(), |of| format!("Use-As-Dictionary: match=\"{of}\"\r\n")),
            cache,
            vary: if vary.is_empty() { String::new() } else { format!("Vary: {}\r\n", vary.join(", ")) },
            more: more.text(),
        }
    }
}

/// The line X-Content-Type-Options, or nothing, and the other fields. It stands beside Content-Type, and so not in a 304.
fn split_sniffing(fields: Fields) -> (String, Fields) {
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

/// The fields and content that lead to `path`: decoded, beginning with a single slash.
pub(crate) fn redirect(path: &[u8], more: &Fields) -> RedirectFields {
    // `//host/` would lead to another host (RFC 3986, section 4.2).
    assert!(path.starts_with(b"/") && !path.starts_with(b"//"), "a path of the walk");
    redirect_to(&encode(path), Some(""), more)
}

/// The fields and content that lead to a URI. `fragment`: what comes behind the query of the request, which goes along;
/// none if it does not.
pub(crate) fn redirect_to(target: &str, fragment: Option<&str>, more: &Fields) -> RedirectFields {
    let mut fields = format!("Location: {target}");
    let before_query = if fragment.is_some() { fields.len() as u32 } else { 0 };
    let fragment = fragment.unwrap_or("");
    let shown =
        format!("{target}{fragment}").replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
    let content =
        format!("<!doctype html><title>Moved</title><p>This is at <a href=\"{shown}\">{shown}</a>.\n");
    fields.push_str(fragment);
    fields.push_str("\r\n");
    fields.push_str(&html(content.len(), cache_control::REVALIDATE, "", more));
    RedirectFields { fields: fields.into(), before_query, content: content.into() }
}

/// What comes behind Location, and the content, where the target is not known beforehand.
pub(crate) fn redirect_anywhere(more: &Fields) -> (Vec<u8>, &'static [u8]) {
    const CONTENT: &str = "<!doctype html><title>Moved</title><p>This is somewhere else now.\n";
    (html(CONTENT.len(), cache_control::REVALIDATE, "", more).into(), CONTENT.as_bytes())
}

/// The fields of a page. Allow with 405, and with 204, which answers OPTIONS and has no content (RFC 9110,
/// sections 8.6, 9.3.7 and 15.5.6).
pub(crate) fn page(code: u16, len: usize, more: &Fields) -> Vec<u8> {
    const ALLOW: &str = "Allow: GET, HEAD, OPTIONS\r\n";
    match code {
        204 => format!("{ALLOW}\r\n").into(),
        405 => html(len, cache_control::NEVER, ALLOW, more).into(),
        _ => html(len, cache_control::NEVER, "", more).into(),
    }
}

/// `allow`: a line, or nothing.
fn html(len: usize, cache: &str, allow: &str, more: &Fields) -> String {
    let media = "text/html; charset=utf-8";
    let (sniffing, more) = split_sniffing(more.beside_ours());
    let more = more.text();
    format!(
        "Content-Type: {media}\r\n{sniffing}Content-Length: {len}\r\nCache-Control: {cache}\r\n{allow}{more}\r\n"
    )
}

/// A path as it stands in a URI: what is not a pchar or a slash is percent-encoded. RFC 3986, section 3.3.
pub(crate) fn encode(path: &[u8]) -> String {
    let mut to = Vec::with_capacity(path.len());
    for &byte in path {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' => to.push(byte),
            _ if b"-._~!$&'()*+,;=:@".contains(&byte) => to.push(byte),
            _ => escape(byte, &mut to),
        }
    }
    String::from_utf8(to).expect("all of it is ASCII")
}

/// Percent-encodes a byte.
pub(crate) fn escape(byte: u8, to: &mut Vec<u8>) {
    to.extend(format!("%{byte:02X}").bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[rustfmt::skip]
    fn the_fields_of_a_file_end_with_an_empty_line() {
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
            let more = Fields::of(nosniff.then_some((SNIFFING, "nosniff")).into_iter());
            let (more, media, last_modified) = (&more, "text/css", 784_111_777);
            let sent = Representation { media, coding, varies, offer: Some("/a-*.css"), last_modified, cache, more };
            let fields = file(sent, 12, 0xab);
            let tag = "\"000000000000000000000000000000ab\"";
            let not_modified = format!("ETag: {tag}\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nCache-Control: {cache}\r\n{vary}\r\n");
            let ok = format!("Content-Length: 12\r\nContent-Type: text/css\r\n{sniffing}{encoding}Accept-Ranges: bytes\r\n{offer}{not_modified}");
            assert_eq!(fields.not_modified, not_modified.as_bytes());
            assert_eq!(fields.ok, ok.as_bytes());
            assert_eq!(&fields.not_modified[fields.etag_at as usize..][..fields.etag_len as usize], tag.as_bytes());
        }
    }

    #[test]
    #[rustfmt::skip]
    fn a_location_is_a_uri() {
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
            let redirect = redirect(path, &Fields::default());
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
