//! Requests: the short one of a load generator, the long one of a browser, and those for something else than the whole file.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// The form of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RequestForm {
    /// Host alone, as wrk sends it
    #[default]
    Short,
    /// The fields of a browser
    Browser,
    /// For content in gzip, if the server has it
    Gzip,
    /// For 512 bytes of the content
    Range,
    /// For content that has changed since: the server answers 304
    Conditional,
}

impl RequestForm {
    /// Returns a request for a path of a host.
    pub(crate) fn request(self, host: &str, path: &str) -> Vec<u8> {
        let fields = self.field_lines();
        format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n").into_bytes()
    }

    /// Returns the fields after Host, with names in small letters.
    pub(crate) fn fields(self) -> impl Iterator<Item = (String, String)> {
        let fields = self.field_lines().lines().filter_map(|line| line.split_once(": "));
        fields.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
    }

    /// Returns a request for a path of a host, with the validators of an earlier response.
    pub(crate) fn conditional_request(host: &str, path: &str, response: &[u8]) -> Vec<u8> {
        let fields = RequestForm::validators(response);
        format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n").into_bytes()
    }

    /// Returns the lines of a request with the validators of an earlier response.
    pub(super) fn validators(response: &[u8]) -> String {
        let head = String::from_utf8_lossy(response);
        let mut fields = String::new();
        for line in head.split("\r\n").take_while(|line| !line.is_empty()) {
            let Some((name, value)) = line.split_once(": ") else { continue };
            match name.to_ascii_lowercase().as_str() {
                "etag" => fields += &format!("If-None-Match: {value}\r\n"),
                "last-modified" => fields += &format!("If-Modified-Since: {value}\r\n"),
                _ => {}
            }
        }
        fields
    }

    /// Returns the first bytes of a response to the request.
    pub(crate) fn first_bytes(self) -> &'static [u8; 12] {
        match self {
            RequestForm::Short | RequestForm::Browser | RequestForm::Gzip => b"HTTP/1.1 200",
            RequestForm::Range => b"HTTP/1.1 206",
            RequestForm::Conditional => b"HTTP/1.1 304",
        }
    }

    /// Returns the status of a response to the request.
    pub(crate) fn status(self) -> u16 {
        match self {
            RequestForm::Short | RequestForm::Browser | RequestForm::Gzip => 200,
            RequestForm::Range => 206,
            RequestForm::Conditional => 304,
        }
    }

    /// Returns whether a response is what the request asked for.
    pub(crate) fn is_answered_by(self, head: &[u8]) -> bool {
        const GZIP: &[u8] = b"\r\ncontent-encoding: gzip\r\n";
        head.starts_with(self.first_bytes())
            && (self != RequestForm::Gzip
                || head.to_ascii_lowercase().windows(GZIP.len()).any(|field| field == GZIP))
    }

    /// Returns the name on the command line; nothing for the default.
    pub(crate) fn option(self) -> String {
        let value = self.to_possible_value().filter(|_| self != RequestForm::default());
        value.map_or(String::new(), |value| value.get_name().to_owned())
    }

    fn field_lines(self) -> &'static str {
        match self {
            RequestForm::Short | RequestForm::Conditional => "",
            RequestForm::Browser => BROWSER_FIELDS,
            RequestForm::Gzip => "Accept-Encoding: gzip\r\n",
            RequestForm::Range => "Range: bytes=0-511\r\n",
        }
    }
}

/// The fields that a browser sends after Host: 12 of them.
const BROWSER_FIELDS: &str = "Connection: keep-alive\r\n\
    sec-ch-ua: \"Chromium\";v=\"140\", \"Not=A?Brand\";v=\"24\", \"Google Chrome\";v=\"140\"\r\n\
    sec-ch-ua-mobile: ?0\r\n\
    sec-ch-ua-platform: \"Linux\"\r\n\
    Upgrade-Insecure-Requests: 1\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8\r\n\
    Sec-Fetch-Site: none\r\n\
    Sec-Fetch-Mode: navigate\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\n\
    Accept-Language: en-US,en;q=0.9\r\n\
    Cookie: session=0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef; theme=dark; tz=utc\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browser_sends_thirteen_fields_in_680_bytes() {
        let request = RequestForm::Browser.request("www.example.org", "/index.html");
        let line_count = request.iter().filter(|&&byte| byte == b'\n').count();
        assert_eq!((request.len(), line_count), (680, 1 + 13 + 1));
        assert_eq!(RequestForm::Short.request("a", "/b"), b"GET /b HTTP/1.1\r\nHost: a\r\n\r\n");
    }

    #[test]
    fn conditional_request_has_the_validators_of_the_response() {
        let response = b"HTTP/1.1 200 OK\r\netag: \"x\"\r\nDate: d\r\nLast-Modified: l\r\n\r\nETag: content";
        let request = RequestForm::conditional_request("a", "/b", response);
        let want = b"GET /b HTTP/1.1\r\nHost: a\r\nIf-None-Match: \"x\"\r\nIf-Modified-Since: l\r\n\r\n";
        assert_eq!(request, want);
    }
}
