//! Requests: the short one of a load generator, and the long one of a browser.

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

    fn field_lines(self) -> &'static str {
        match self {
            RequestForm::Short => "",
            RequestForm::Browser => BROWSER_FIELDS,
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
}
