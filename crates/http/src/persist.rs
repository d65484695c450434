//! Whether the connection may carry another request. RFC 9112, section 9.3.

use crate::field::has_token;
use crate::head::{FieldName, Head, Version};

/// Whether the client lets the connection persist after this exchange.
///
/// HTTP/1.1 persists unless it says `close`, HTTP/1.0 only if it says `keep-alive`; `close` wins.
#[inline]
pub fn persists(head: &Head<'_>) -> bool {
    if !head.has(FieldName::Connection) {
        return head.version == Version::Http11;
    }
    let says = |token| has_token(head.all(FieldName::Connection), token);
    !says(b"close") && (head.version == Version::Http11 || says(b"keep-alive"))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::format;

    use super::*;
    use crate::head::parse;

    #[test]
    fn a_connection_persists_as_version_and_connection_options_say() {
        #[rustfmt::skip]
        let cases: &[(&str, &str, &str, bool)] = &[
            // what it shows         version  fields                                               persists
            ("1.1",                  "1.1", "",                                                    true),
            ("1.0",                  "1.0", "",                                                    false),
            ("1.1 close",            "1.1", "Connection: close\r\n",                               false),
            ("1.0 keep-alive",       "1.0", "Connection: Keep-Alive\r\n",                          true),
            ("1.1 keep-alive",       "1.1", "Connection: keep-alive\r\n",                          true),
            ("close in a list",      "1.1", "Connection: upgrade, CLOSE\r\n",                      false),
            ("close in 2nd line",    "1.1", "Connection: upgrade\r\nconnection: close\r\n",        false),
            ("close wins",           "1.0", "Connection: keep-alive\r\nConnection: close\r\n",     false),
            ("another option, 1.1",  "1.1", "Connection: closed\r\n",                              true),
            ("another option, 1.0",  "1.0", "Connection: te\r\n",                                  false),
            ("empty, 1.1",           "1.1", "Connection:\r\n",                                     true),
        ];
        for (name, version, fields, want) in cases {
            let wire = format!("GET / HTTP/{version}\r\n{fields}\r\n");
            let (head, _) = parse(wire.as_bytes()).unwrap().unwrap();
            assert_eq!(persists(&head), *want, "{name}");
        }
    }
}
