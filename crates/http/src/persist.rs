//! Decides whether a connection persists. RFC 9112, section 9.3.

use crate::field::has_token;
use crate::field_name::FieldName;
use crate::fields::Fields;
use crate::head::Version;

/// Returns whether the client allows another request on this connection.
///
/// An HTTP/1.1 connection persists unless the Connection field contains `close`; an HTTP/1.0 connection persists only if the
/// field contains `keep-alive`. `close` takes precedence.
#[inline]
pub fn persists(version: Version, fields: &Fields<'_>) -> bool {
    if fields.has(FieldName::Connection) {
        options_persist(version, fields)
    } else {
        version == Version::Http11
    }
}

#[inline]
fn options_persist(version: Version, fields: &Fields<'_>) -> bool {
    // What browsers send.
    let keeps_alive = fields.first(FieldName::Connection).is_some_and(|value| value == b"keep-alive");
    keeps_alive && !fields.is_repeated(FieldName::Connection) || listed_options_persist(version, fields)
}

#[inline(never)]
fn listed_options_persist(version: Version, fields: &Fields<'_>) -> bool {
    let has_option = |token| has_token(fields.all(FieldName::Connection), token);
    !has_option(b"close") && (version == Version::Http11 || has_option(b"keep-alive"))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::format;

    use super::*;
    use crate::head::parse;

    #[test]
    fn persistence_follows_version_and_connection_options() {
        #[rustfmt::skip]
        let cases: &[(&str, &str, &str, bool)] = &[
            // case                  version  fields                                               persists
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
            assert_eq!(persists(head.version, &head.fields), *want, "{name}");
        }
    }
}
