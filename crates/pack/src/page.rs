//! The answers that are about no file: a small page for each status, whole in itself, for light screens and
//! dark ones.

/// The content of the page for `code`; of 204, none: RFC 9110, section 15.3.5.
pub(crate) fn content(code: u16) -> Option<String> {
    if code == 204 {
        return Some(String::new());
    }
    let (_, reason, sentence) = TEXTS.iter().find(|(known, ..)| *known == code)?;
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
"#
    ))
}

/// Status, reason (RFC 9110, section 15), and what happened, to somebody who reads it in a browser.
#[rustfmt::skip]
const TEXTS: [(u16, &str, &str); 15] = [
    (400, "Bad Request",                     "This request is not as HTTP has it, so it was not carried out."),
    (404, "Not Found",                       "There is nothing at this address. It may have moved, or been mistyped."),
    (405, "Method Not Allowed",              "What is here can be read, and nothing else."),
    (408, "Request Timeout",                 "The request did not arrive in time. Please try again."),
    (412, "Precondition Failed",             "What is here is not what the request was meant for. It may have changed."),
    (413, "Content Too Large",               "The request brought more content than is taken here."),
    (414, "URI Too Long",                    "The address is longer than is taken here."),
    (416, "Range Not Satisfiable",           "What was asked for lies behind the end of what is here."),
    (417, "Expectation Failed",              "The request expects something that this server does not offer."),
    (421, "Misdirected Request",             "This server does not answer for this address: not for its host, or not without encryption."),
    (431, "Request Header Fields Too Large", "The header of the request is larger than is taken here."),
    (500, "Internal Server Error",           "Something went wrong on this server. It is not your fault."),
    (501, "Not Implemented",                 "The request asks for something that this server cannot do."),
    (503, "Service Unavailable",             "The server is busy. Please try again in a moment."),
    (505, "HTTP Version Not Supported",      "This server speaks other versions of HTTP than the request."),
];

#[cfg(test)]
mod tests {
    use super::*;
    use tarpon_site::STATUS_PAGE_CODES;

    #[test]
    fn every_status_has_a_small_page() {
        assert_eq!(content(204).as_deref(), Some(""));
        let texts = STATUS_PAGE_CODES.into_iter().filter(|&code| code != 204);
        assert!(texts.clone().eq(TEXTS.map(|(code, ..)| code)));
        for code in texts {
            let page = content(code).expect("a page");
            assert!(page.contains(&format!("<h1>{code} ")), "{code}");
            assert!(page.len() < 600, "{code}: {}", page.len());
        }
        assert_eq!(content(200), None);
    }
}
