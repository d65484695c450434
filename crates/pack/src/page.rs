//! The server's own pages: a small, self-contained page for each error status, for light and dark screens, with a link home.

use crate::listing::escaped;
use crate::url_path::percent_encode;

/// Returns the page for a status, or `None` if there is none. The page for 204 is empty: RFC 9110, section 15.3.5. `home`: the public path of
/// the root of the site.
pub(crate) fn content(code: u16, home: &[u8]) -> Option<String> {
    if code == 204 {
        return Some(String::new());
    }
    let (_, reason, sentence) = TEXTS.iter().find(|(known, ..)| *known == code)?;
    let home = escaped(&percent_encode(home));
    Some(format!(
        r#"<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>{code} {reason}</title>
<style>body{{max-width:32em;margin:20vh auto;padding:0 1em;font:1.1em/1.5 system-ui,sans-serif}}
h1{{line-height:1.2;text-wrap:balance}}</style>
<h1>{code} {reason}</h1>
<p>{sentence}
<p><a href="{home}">Home page</a>
"#
    ))
}

/// Status, reason (RFC 9110, section 15), and an explanation for visitors.
#[rustfmt::skip]
const TEXTS: [(u16, &str, &str); 21] = [
    (400, "Bad Request",                     "The server could not understand this request."),
    (401, "Unauthorized",                    "This address asks for a name and a password."),
    (403, "Forbidden",                       "This server does not allow access to this address."),
    (404, "Not Found",                       "There is no page at this address. It may have moved, or the address may be mistyped."),
    (405, "Method Not Allowed",              "This address supports GET, HEAD and OPTIONS requests only."),
    (408, "Request Timeout",                 "The request did not arrive in time. Please try again."),
    (411, "Length Required",                 "The request must say how long its content is."),
    (412, "Precondition Failed",             "A condition of the request does not hold. The content at this address may have changed."),
    (413, "Content Too Large",               "The content of the request is larger than this server accepts."),
    (414, "URI Too Long",                    "The address is longer than this server accepts."),
    (416, "Range Not Satisfiable",           "The requested range begins after the end of the content."),
    (417, "Expectation Failed",              "The request expects something that this server does not support."),
    (421, "Misdirected Request",             "This server does not serve this host, or serves it over HTTPS only."),
    (429, "Too Many Requests",               "Too many requests came from your network address. Please try again in a moment."),
    (431, "Request Header Fields Too Large", "The header of the request is larger than this server accepts."),
    (500, "Internal Server Error",           "Something went wrong on this server. It is not your fault."),
    (501, "Not Implemented",                 "This server does not support this kind of request."),
    (502, "Bad Gateway",                     "The program behind this server gave no valid response. Please try again in a moment."),
    (503, "Service Unavailable",             "The server is busy. Please try again in a moment."),
    (504, "Gateway Timeout",                 "The program behind this server did not respond in time. Please try again in a moment."),
    (505, "HTTP Version Not Supported",      "This server does not support the HTTP version of the request."),
];

#[cfg(test)]
mod tests {
    use super::*;
    use tarpon_site::STATUS_PAGE_CODES;

    #[test]
    fn each_status_has_a_small_page() {
        assert_eq!(content(204, b"/").as_deref(), Some(""));
        let texts = STATUS_PAGE_CODES.into_iter().filter(|&code| code != 204);
        assert!(texts.clone().eq(TEXTS.map(|(code, ..)| code)));
        for code in texts {
            let page = content(code, b"/a \"b\"/").expect("a page");
            assert!(page.contains(&format!("<h1>{code} ")), "{code}");
            assert!(page.contains("<a href=\"/a%20%22b%22/\">Home page</a>"), "{page}");
            assert!(page.len() < 700, "{code}: {}", page.len());
        }
        assert_eq!(content(200, b"/"), None);
    }
}
