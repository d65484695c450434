//! Requests: each rule of RFC 9113, sections 8.2, 8.3 and 8.5, and RFC 8441, section 4.

extern crate std;
use std::format;
use std::string::String;
use std::vec::Vec;

use proptest::prelude::*;

use super::hpack::{FieldSection, HpackDecoder, SECTION_SIZE_MAX, SectionBytes, encode_field};
use super::*;
use crate::method::Method;
use crate::target::{Scheme, Target, TargetError};
use crate::{FieldName, head};

/// A decoded section, with the bytes of its fields.
struct DecodedSection {
    section: FieldSection,
    bytes: SectionBytes,
}

/// The pseudo-header fields of most rows: method, scheme, authority, path.
const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":authority", "a.example"), (":path", "/")];

#[test]
#[rustfmt::skip]
fn requests_have_their_parts() {
    let path = |path, query| Ok(Target::Origin { path, query });
    type Row = (&'static str, &'static [(&'static str, &'static str)], (Method, Option<Scheme>, &'static str), Result<Target<'static>, TargetError>, Option<u64>);
    let (get, https) = (Method::Get, Some(Scheme::Https));
    let cases: &[Row] = &[
        // case                fields                                                                  method, scheme, authority     target, length of the content
        ("GET",                &GET,                                                                   (get, https, "a.example"),     path(b"/", None), None),
        ("another order",      &[GET[3], GET[2], GET[1], GET[0]],                                      (get, https, "a.example"),     path(b"/", None), None),
        ("a query",            &[GET[0], GET[1], GET[2], (":path", "/a?b?c")],                         (get, https, "a.example"),     path(b"/a", Some(b"b?c")), None),
        ("http",               &[GET[0], (":scheme", "http"), GET[2], GET[3]],                         (get, Some(Scheme::Http), "a.example"), path(b"/", None), None),
        ("another scheme",     &[GET[0], (":scheme", "ftp"), GET[2], GET[3]],                          (get, None, "a.example"),      Err(TargetError::Form), None),
        ("another method",     &[(":method", "BREW"), GET[1], GET[2], GET[3]],                         (Method::Other, https, "a.example"), path(b"/", None), None),
        ("Host alone",         &[GET[0], GET[1], GET[3], ("host", "b:8")],                             (get, https, "b:8"),           path(b"/", None), None),
        ("Host, too",          &[GET[0], GET[1], GET[2], GET[3], ("host", "A.example.:443")],          (get, https, "a.example"),     path(b"/", None), None),
        ("OPTIONS",            &[(":method", "OPTIONS"), GET[1], GET[2], (":path", "*")],              (Method::Options, https, "a.example"), Ok(Target::Asterisk), None),
        ("OPTIONS of a path",  &[(":method", "OPTIONS"), GET[1], GET[2], (":path", "/*")],             (Method::Options, https, "a.example"), path(b"/*", None), None),
        ("CONNECT",            &[(":method", "CONNECT"), (":authority", "b:80")],                      (Method::Connect, None, "b:80"), Ok(Target::Authority(b"b:80")), None),
        ("extended CONNECT",   &[(":method", "CONNECT"), (":protocol", "websocket"), GET[1], GET[2], (":path", "/x?y")], (Method::Connect, https, "a.example"), path(b"/x", Some(b"y")), None),
        ("content",            &[(":method", "POST"), GET[1], GET[2], GET[3], ("content-length", "042")], (Method::Post, https, "a.example"), path(b"/", None), Some(42)),
        ("equal lengths",      &[GET[0], GET[1], GET[2], GET[3], ("content-length", "7"), ("x", "y"), ("content-length", "7, 7")], (get, https, "a.example"), path(b"/", None), Some(7)),
        ("trailers accepted",  &[GET[0], GET[1], GET[2], GET[3], ("te", "trailers")],                  (get, https, "a.example"),     path(b"/", None), None),
    ];
    for &(name, fields, (method, scheme, authority), target, content_length) in cases {
        let decoded = decode(fields);
        let request = H2Request::parse(&decoded.section, &decoded.bytes, true).expect(name);
        let found = (request.method, request.scheme, request.authority, request.target, request.content_length);
        assert_eq!(found, (method, scheme, authority.as_bytes(), target, content_length), "{name}");
        let value = |name| fields.iter().find(|field| field.0 == name).map(|field| field.1.as_bytes());
        assert_eq!(Some(request.method_token), value(":method"), "{name}");
        assert_eq!(request.protocol, value(":protocol"), "{name}");
        assert_eq!(request.has_plain_path, value(":path").is_some_and(|path| path != b"*"), "{name}");
        let others = fields.iter().filter(|field| !field.0.starts_with(':'));
        assert!(request.fields.iter().eq(others.map(|field| (field.0.as_bytes(), field.1.as_bytes()))), "{name}");
    }
}

#[test]
#[rustfmt::skip]
fn malformed_requests_are_refused() {
    use MalformedRequest::*;
    const METHOD: (&str, &str) = GET[0];
    const SCHEME: (&str, &str) = GET[1];
    const AUTHORITY: (&str, &str) = GET[2];
    const PATH: (&str, &str) = GET[3];
    const CONNECT: (&str, &str) = (":method", "CONNECT");
    let cases: &[(&str, &[(&str, &str)], MalformedRequest)] = &[
        // case                        fields                                                              error               RFC 9113
        ("nothing",                    &[],                                                                Missing),           // 8.3.1
        ("no method",                  &[SCHEME, AUTHORITY, PATH],                                         Missing),           // 8.3.1
        ("no scheme",                  &[METHOD, AUTHORITY, PATH],                                         Missing),           // 8.3.1
        ("no path",                    &[METHOD, SCHEME, AUTHORITY],                                       Missing),           // 8.3.1
        ("no authority",               &[METHOD, SCHEME, PATH],                                            NoAuthority),       // 8.3.1
        ("empty path",                 &[METHOD, SCHEME, AUTHORITY, (":path", "")],                        Path),              // 8.3.1
        ("asterisk",                   &[METHOD, SCHEME, AUTHORITY, (":path", "*")],                       Path),              // 8.3.1
        ("relative path",              &[METHOD, SCHEME, AUTHORITY, (":path", "a")],                       Path),              // 8.3.1
        ("empty authority",            &[METHOD, SCHEME, (":authority", ""), PATH],                        Authority),         // 8.3.1
        ("userinfo",                   &[METHOD, SCHEME, (":authority", "me@a.example"), PATH],            Authority),         // 8.3.1
        ("method twice",               &[METHOD, METHOD, SCHEME, AUTHORITY, PATH],                         PseudoRepeated),    // 8.3
        ("scheme twice",               &[METHOD, SCHEME, SCHEME, AUTHORITY, PATH],                         PseudoRepeated),    // 8.3
        ("authority twice",            &[METHOD, SCHEME, AUTHORITY, AUTHORITY, PATH],                      PseudoRepeated),    // 8.3
        ("path twice",                 &[METHOD, SCHEME, AUTHORITY, PATH, PATH],                           PseudoRepeated),    // 8.3
        ("protocol twice",             &[CONNECT, SCHEME, AUTHORITY, PATH, (":protocol", "x"), (":protocol", "x")], PseudoRepeated), // 8.3
        ("after a field",              &[METHOD, SCHEME, AUTHORITY, ("x", "y"), PATH],                     PseudoPlace),       // 8.3
        ("repeated after a field",     &[METHOD, SCHEME, AUTHORITY, PATH, ("x", "y"), PATH],               PseudoPlace),       // 8.3
        ("unknown",                    &[METHOD, SCHEME, AUTHORITY, PATH, (":x", "y")],                    PseudoField),       // 8.3
        (":status",                    &[METHOD, SCHEME, AUTHORITY, PATH, (":status", "200")],             PseudoField),       // 8.3
        ("capital",                    &[METHOD, SCHEME, AUTHORITY, PATH, ("X", "y")],                     Name),              // 8.2.1
        ("space before the value",     &[METHOD, SCHEME, AUTHORITY, PATH, ("x", " y")],                    Value),             // 8.2.1
        ("line end in the value",      &[METHOD, SCHEME, AUTHORITY, PATH, ("x", "y\r\nz: ")],              Value),             // 8.2.1
        ("connection",                 &[METHOD, SCHEME, AUTHORITY, PATH, ("connection", "close")],        ConnectionField),   // 8.2.2
        ("transfer-encoding",          &[METHOD, SCHEME, AUTHORITY, PATH, ("transfer-encoding", "chunked")], ConnectionField), // 8.2.2
        ("te",                         &[METHOD, SCHEME, AUTHORITY, PATH, ("te", "gzip")],                 Te),                // 8.2.2
        ("Host of another",            &[METHOD, SCHEME, AUTHORITY, PATH, ("host", "b.example")],          Host),              // 8.3.1
        ("Host with another port",     &[METHOD, SCHEME, AUTHORITY, PATH, ("host", "a.example:80")],       Host),              // 8.3.1
        ("Host twice",                 &[METHOD, SCHEME, AUTHORITY, PATH, ("host", "a.example"), ("host", "a.example")], Host), // RFC 9112, 3.2
        ("Host, malformed",            &[METHOD, SCHEME, PATH, ("host", "a/b")],                           Host),              // RFC 9110, 7.2
        ("Host, empty",                &[METHOD, SCHEME, PATH, ("host", "")],                              Host),              // RFC 9110, 4.2.1
        ("no number",                  &[METHOD, SCHEME, AUTHORITY, PATH, ("content-length", "+1")],       ContentLength),     // 8.1.1
        ("empty length",               &[METHOD, SCHEME, AUTHORITY, PATH, ("content-length", "")],         ContentLength),     // 8.1.1
        ("lengths differ",             &[METHOD, SCHEME, AUTHORITY, PATH, ("content-length", "1"), ("content-length", "2")], ContentLength), // 8.1.1
        ("65 bits",                    &[METHOD, SCHEME, AUTHORITY, PATH, ("content-length", "18446744073709551616")], ContentLength), // 8.1.1
        ("CONNECT with a path",        &[CONNECT, (":authority", "a:1"), PATH],                            Connect),           // 8.5
        ("CONNECT with a scheme",      &[CONNECT, (":authority", "a:1"), SCHEME],                          Connect),           // 8.5
        ("CONNECT with both",          &[CONNECT, (":authority", "a:1"), SCHEME, PATH],                    Connect),           // 8.5
        ("CONNECT without a port",     &[CONNECT, AUTHORITY],                                              Connect),           // 8.5
        ("CONNECT with Host alone",    &[CONNECT, ("host", "a:1")],                                        Connect),           // 8.5
        ("protocol without CONNECT",   &[METHOD, SCHEME, AUTHORITY, PATH, (":protocol", "websocket")],     Protocol),          // RFC 8441, 4
        ("protocol without a path",    &[CONNECT, SCHEME, AUTHORITY, (":protocol", "websocket")],          Missing),           // RFC 8441, 4
        ("protocol without a scheme",  &[CONNECT, AUTHORITY, PATH, (":protocol", "websocket")],            Missing),           // RFC 8441, 4
    ];
    for &(name, fields, want) in cases {
        let decoded = decode(fields);
        let error = H2Request::parse(&decoded.section, &decoded.bytes, true).expect_err(name);
        assert_eq!((error, error.code()), (want, ErrorCode::PROTOCOL_ERROR), "{name}");
    }
    let decoded = decode(&[CONNECT, SCHEME, AUTHORITY, PATH, (":protocol", "websocket")]);
    let error = H2Request::parse(&decoded.section, &decoded.bytes, false).expect_err("not offered");
    assert_eq!(error, Protocol);
}

#[test]
fn cookies_and_priorities_are_collected() {
    let fields = [
        GET[0],
        GET[1],
        GET[2],
        GET[3],
        ("cookie", "a=1"),
        ("priority", "u=1"),
        ("cookie", "b=2; c=3"),
        ("x", "y"),
        ("cookie", "d=4"),
        ("priority", "i"),
    ];
    let decoded = decode(&fields);
    let request = H2Request::parse(&decoded.section, &decoded.bytes, false).expect("a request");
    let cookies: Vec<_> = request.cookies().collect();
    assert_eq!(cookies.join(&b"; "[..]), b"a=1; b=2; c=3; d=4");
    assert_eq!(request.priority(), Priority { urgency: 1, is_incremental: true });
}

#[test]
#[rustfmt::skip]
fn trailers_have_no_pseudo_fields() {
    let cases: &[(&str, &[(&str, &str)], Option<MalformedRequest>)] = &[
        // case               trailers                                    error
        ("nothing",           &[],                                        None),
        ("fields",            &[("digest", "x"), ("range", "y")],         None),
        ("a pseudo-field",    &[("digest", "x"), (":path", "/")],         Some(MalformedRequest::PseudoInTrailers)),
        ("a method",          &[(":method", "GET")],                      Some(MalformedRequest::PseudoInTrailers)),
        ("a capital",         &[("Digest", "x")],                         Some(MalformedRequest::Name)),
        ("a connection field", &[("connection", "x")],                    Some(MalformedRequest::ConnectionField)),
    ];
    for &(name, trailers, want) in cases {
        let decoded = decode(trailers);
        let fields = parse_trailers(&decoded.section, &decoded.bytes);
        assert_eq!(fields.as_ref().err().copied(), want, "{name}");
        if let Ok(fields) = fields {
            let trailers = trailers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
            assert!(fields.iter().eq(trailers), "{name}");
        }
    }
}

proptest! {
    #[test]
    fn fields_are_those_of_the_same_head_of_http_1(
        list in proptest::collection::vec(
            (proptest::sample::select(&["range", "if-range", "accept", "cookie", "accept-encoding", "expect"][..]), "[a-z]([ -~]{0,20}[a-z])?"),
            0..12,
        )
    ) {
        let lines: String = list.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let wire = format!("GET / HTTP/1.1\r\nHost: a.example\r\n{lines}\r\n");
        let (head, _) = head::parse(wire.as_bytes()).unwrap().unwrap();
        let others = list.iter().map(|(name, value)| (*name, &**value));
        let decoded = decode(&GET.into_iter().chain(others).collect::<Vec<_>>());
        let request = H2Request::parse(&decoded.section, &decoded.bytes, false).unwrap();
        for name in FieldName::ALL.into_iter().filter(|name| *name != FieldName::Host) {
            prop_assert!(head.fields.all(name).eq(request.fields.all(name)));
            prop_assert_eq!(head.fields.is_repeated(name), request.fields.is_repeated(name));
        }
    }
}

/// Returns the section of these fields, each as a literal that is added to the dynamic table, decoded twice: the second time from the table.
fn decode(fields: &[(&str, &str)]) -> DecodedSection {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0x40);
        for text in [name, value] {
            block.extend([text.len() as u8]);
            block.extend(text.as_bytes());
        }
    }
    let mut decoder = HpackDecoder::new();
    let mut decoded = DecodedSection { section: FieldSection::new(), bytes: [0; SECTION_SIZE_MAX] };
    decoder.decode(&block, true, &mut decoded.section, &mut decoded.bytes).expect("literals");
    let literals = decoded.section.classes().to_vec();

    let indexes: Vec<u8> = (0..fields.len()).rev().map(|at| 0x80 | (62 + at) as u8).collect();
    decoded.section.clear();
    decoder.decode(&indexes, true, &mut decoded.section, &mut decoded.bytes).expect("indexes");
    assert_eq!(decoded.section.classes(), literals);
    let found = decoded.section.iter(&decoded.bytes);
    assert!(found.eq(fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()))));

    // The encoder of the server leads to the same classes; it writes names in lower case.
    let mut block = Vec::new();
    for (name, value) in fields {
        encode_field(name.as_bytes(), value.as_bytes(), &mut |byte| block.push(byte));
    }
    let mut section = FieldSection::new();
    decoder.decode(&block, true, &mut section, &mut [0; SECTION_SIZE_MAX]).expect("a block");
    let is_lower = |(name, _): &(&str, &str)| !name.bytes().any(|byte| byte.is_ascii_uppercase());
    if fields.iter().all(is_lower) {
        assert_eq!(section.classes(), literals);
    }
    decoded
}
