extern crate std;
use std::string::String;
use std::vec::Vec;
use std::{format, vec};

use proptest::prelude::*;

use super::*;

#[test]
fn head_is_parsed_or_refused_when_the_deciding_line_is_complete() {
    use HeadError as E;
    let get = |target| Ok((Method::Get, target, Version::Http11));
    #[rustfmt::skip]
    let cases: &[(&str, &str, Result<(Method, &str, Version), HeadError>)] = &[
        // case                     input                                               head
        ("least",                   "GET / HTTP/1.1\r\n\r\n",                           get("/")),
        ("field",                   "GET / HTTP/1.1\r\nHost: a\r\n\r\n",                get("/")),
        ("empty lines before",      "\r\n\r\nGET / HTTP/1.1\r\n\r\n",                   get("/")),
        ("1.0",                     "GET / HTTP/1.0\r\n\r\n",                           Ok((Method::Get, "/", Version::Http10))),
        ("higher minor version",    "GET / HTTP/1.2\r\n\r\n",                           get("/")),
        ("any visible target",      "GET *<|>\"%zz HTTP/1.1\r\n\r\n",                   get("*<|>\"%zz")),
        ("method in small letters", "get / HTTP/1.1\r\n\r\n",                           Ok((Method::Other, "/", Version::Http11))),
        ("method unknown",          "M-SEARCH * HTTP/1.1\r\n\r\n",                      Ok((Method::Other, "*", Version::Http11))),
        ("empty value",             "GET / HTTP/1.1\r\na:\r\nb: \t\r\n\r\n",            get("/")),
        ("HTAB and obs-text",       "GET / HTTP/1.1\r\na: b\tc \u{fc}berlang\r\n\r\n",  get("/")),
        ("colons in value",         "GET / HTTP/1.1\r\na:::\r\n\r\n",                   get("/")),
        ("no method",               " / HTTP/1.1\r\n\r\n",                              Err(E::Method)),
        ("method no token",         "G(T / HTTP/1.1\r\n\r\n",                           Err(E::Method)),
        ("HTAB for SP",             "GET\t/ HTTP/1.1\r\n\r\n",                          Err(E::Method)),
        ("method alone",            "GET\r\n\r\n",                                      Err(E::Method)),
        ("bare LF before",          "\nGET / HTTP/1.1\r\n\r\n",                         Err(E::Method)),
        ("bare CR before",          "\rGET / HTTP/1.1\r\n\r\n",                         Err(E::Method)),
        ("NUL first",               "\0GET / HTTP/1.1\r\n\r\n",                         Err(E::Method)),
        ("two SP before target",    "GET  / HTTP/1.1\r\n\r\n",                          Err(E::Target)),
        ("fragment",                "GET /#a HTTP/1.1\r\n\r\n",                         Err(E::Target)),
        ("target not ASCII",        "GET /\u{e9} HTTP/1.1\r\n\r\n",                     Err(E::Target)),
        ("DEL in target",           "GET /\x7f HTTP/1.1\r\n\r\n",                       Err(E::Target)),
        ("HTAB in target",          "GET /\ta HTTP/1.1\r\n\r\n",                        Err(E::Target)),
        ("HTTP/0.9",                "GET /\r\n\r\n",                                    Err(E::Target)),
        ("two SP before version",   "GET /  HTTP/1.1\r\n\r\n",                          Err(E::VersionSyntax)),
        ("SP in target",            "GET /a b HTTP/1.1\r\n\r\n",                        Err(E::VersionSyntax)),
        ("SP after version",        "GET / HTTP/1.1 \r\n\r\n",                          Err(E::VersionSyntax)),
        ("no version",              "GET / \r\n\r\n",                                   Err(E::VersionSyntax)),
        ("version small",           "GET / http/1.1\r\n\r\n",                           Err(E::VersionSyntax)),
        ("two digits",              "GET / HTTP/1.10\r\n\r\n",                          Err(E::VersionSyntax)),
        ("one number",              "GET / HTTP/1\r\n\r\n",                             Err(E::VersionSyntax)),
        ("bare LF, request-line",   "GET / HTTP/1.1\n\r\n",                             Err(E::VersionSyntax)),
        ("bare CR, request-line",   "GET / HTTP/1.1\rHost: a\r\n\r\n",                  Err(E::VersionSyntax)),
        ("HTTP/2",                  "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",                 Err(E::Version)),
        ("major version 0",         "GET / HTTP/0.9\r\n\r\n",                           Err(E::Version)),
        ("no name",                 "GET / HTTP/1.1\r\n: a\r\n\r\n",                    Err(E::FieldName)),
        ("no colon",                "GET / HTTP/1.1\r\nHost\r\n\r\n",                   Err(E::FieldName)),
        ("SP before colon",         "GET / HTTP/1.1\r\nHost : a\r\n\r\n",               Err(E::FieldName)),
        ("HTAB before colon",       "GET / HTTP/1.1\r\nHost\t: a\r\n\r\n",              Err(E::FieldName)),
        ("name no token",           "GET / HTTP/1.1\r\nHo[t: a\r\n\r\n",                Err(E::FieldName)),
        ("name not ASCII",          "GET / HTTP/1.1\r\nH\u{f6}st: a\r\n\r\n",           Err(E::FieldName)),
        ("NUL in value",            "GET / HTTP/1.1\r\na: b\0c\r\n\r\n",                Err(E::FieldValue)),
        ("DEL in value",            "GET / HTTP/1.1\r\na: bcdefghijk\x7f\r\n\r\n",      Err(E::FieldValue)),
        ("fold",                    "GET / HTTP/1.1\r\na: b\r\n c\r\n\r\n",             Err(E::Fold)),
        ("fold with HTAB",          "GET / HTTP/1.1\r\na: b\r\n\tc\r\n\r\n",            Err(E::Fold)),
        ("SP before first field",   "GET / HTTP/1.1\r\n a: b\r\n\r\n",                  Err(E::Fold)),
        ("bare LF, field line",     "GET / HTTP/1.1\r\na: b\n\r\n",                     Err(E::LineEnd)),
        ("bare CR, field line",     "GET / HTTP/1.1\r\na: b\rc: d\r\n\r\n",             Err(E::LineEnd)),
        ("two CR",                  "GET / HTTP/1.1\r\na: b\r\r\n\r\n",                 Err(E::LineEnd)),
        ("bare LF at the end",      "GET / HTTP/1.1\r\na: b\r\n\n",                     Err(E::LineEnd)),
        ("bare CR at the end",      "GET / HTTP/1.1\r\n\rx\r\n",                        Err(E::LineEnd)),
    ];
    for (name, wire, want) in cases {
        let found = parse(wire.as_bytes()).map(|found| {
            let (head, len) = found.expect("the row is a complete head");
            assert_eq!(len, wire.len(), "{name}: the head ends with the row");
            (head.method, str::from_utf8(head.target).unwrap(), head.version)
        });
        assert_eq!(found, *want, "{name}");
        assert_split_does_not_matter(wire.as_bytes());
    }
}

#[test]
fn every_method_is_parsed() {
    use Method::*;
    for method in [Get, Head, Post, Put, Delete, Connect, Options, Trace, Patch] {
        let wire = format!("{method:?} / HTTP/1.1\r\n\r\n").to_uppercase();
        assert_eq!(parse(wire.as_bytes()).unwrap().unwrap().0.method, method);
    }
}

#[test]
fn values_are_found_by_name_in_any_case_and_in_order() {
    let wire = b"GET / HTTP/1.1\r\n\
        X-Host: no\r\nhOST: \t a b \t\r\nHos: no\r\nIf-None-Match:If-None-Match: 1\r\nCookie: if-none-match: no\r\n\
        if-none-match:\r\nHostt: no\r\nIF-NONE-MATCH: \"3\"\r\n\r\nHost: behind";
    let (head, len) = parse(wire).unwrap().unwrap();
    assert_eq!(&wire[len..], b"Host: behind");
    #[rustfmt::skip]
    let cases: &[(FieldName, &[&str])] = &[
        (FieldName::Host,          &["a b"]),
        (FieldName::IfNoneMatch,   &["If-None-Match: 1", "", "\"3\""]),
        (FieldName::ContentLength, &[]),
    ];
    for (name, want) in cases {
        let found: Vec<_> = head.fields.all(*name).map(|value| str::from_utf8(value).unwrap()).collect();
        assert_eq!(&found, want, "{name:?}");
        assert_eq!(head.fields.first(*name), want.first().map(|value| value.as_bytes()), "{name:?}");
        assert_eq!(head.fields.has(*name), !want.is_empty(), "{name:?}");
        assert_eq!(head.fields.is_repeated(*name), want.len() > 1, "{name:?}");
    }
}

#[test]
fn every_name_is_found_in_either_case() {
    for name in FieldName::ALL {
        let text = name.as_str();
        for text in [text.to_ascii_lowercase(), text.to_ascii_uppercase()] {
            let wire = format!("GET / HTTP/1.1\r\n{text}: v\r\n\r\n");
            let (head, _) = parse(wire.as_bytes()).unwrap().unwrap();
            assert_eq!(head.fields.first(name), Some(b"v".as_slice()), "{text}");
        }
    }
}

#[test]
fn exactly_one_valid_host_is_required() {
    #[rustfmt::skip]
    let cases: &[(&str, &str, Result<Option<&str>, HeadError>)] = &[
        // case                head                                                           host
        ("one",                "GET / HTTP/1.1\r\nHost: a:1\r\n\r\n",                         Ok(Some("a:1"))),
        ("empty",              "GET / HTTP/1.1\r\nHost:\r\n\r\n",                             Err(HeadError::Host)),
        ("none in 1.0",        "GET / HTTP/1.0\r\n\r\n",                                      Ok(None)),
        ("one in 1.0",         "GET / HTTP/1.0\r\nHost: a\r\n\r\n",                           Ok(Some("a"))),
        ("none",               "GET / HTTP/1.1\r\n\r\n",                                      Err(HeadError::Host)),
        ("none, absolute",     "GET http://a/ HTTP/1.1\r\n\r\n",                              Err(HeadError::Host)),
        ("two",                "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",                Err(HeadError::Host)),
        ("two equal",          "GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n",                Err(HeadError::Host)),
        ("two in 1.0",         "GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n",                Err(HeadError::Host)),
        ("two, absolute",      "GET http://a/ HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",        Err(HeadError::Host)),
        ("invalid",            "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",                         Err(HeadError::Host)),
        ("invalid in 1.0",     "GET / HTTP/1.0\r\nHost: a b\r\n\r\n",                         Err(HeadError::Host)),
        ("invalid, absolute",  "GET http://a/ HTTP/1.1\r\nHost: @\r\n\r\n",                   Err(HeadError::Host)),
    ];
    for (name, wire, want) in cases {
        let (head, _) = parse(wire.as_bytes()).unwrap().unwrap();
        assert_eq!(head.host(), want.map(|host| host.map(str::as_bytes)), "{name}");
    }
}

proptest! {
    #[test]
    fn host_is_valid_wherever_the_field_lies(
        value in "[a-zA-Z0-9.-]{1,20}|[a-z0-9.,:_%\\[\\]@-]{1,20}",
        before in "(a: [a-z]{0,9}\r\n)?",
        behind in "(\r\nb: [a-z]{0,9})?\r\n\r\n(x:){0,9}",
    ) {
        let wire = format!("GET / HTTP/1.1\r\n{before}Host: {value}{behind}");
        let (head, _) = parse(wire.as_bytes()).unwrap().unwrap();
        let want = if host::is_valid(value.as_bytes()) { Ok(Some(value.as_bytes())) } else { Err(HeadError::Host) };
        prop_assert_eq!(head.host(), want);
    }
}

#[test]
fn length_and_field_count_are_bounded() {
    for len_max in [HEAD_LEN_USUAL, 40_000, HEAD_LEN_MAX] {
        assert_bounds(len_max);
    }
    assert_eq!(parse(&[b'a'; HEAD_LEN_MAX - 1]).map(|found| found.is_some()), Ok(false));
    assert_eq!(parse(&[b'a'; HEAD_LEN_MAX]).err(), Some(HeadError::UriTooLong));
}

/// Asserts what is parsed and what is refused with a limit of the length.
fn assert_bounds(len_max: usize) {
    let fields = |count: usize| format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(count));
    let target = |len: usize| format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(len - 18));
    let value = |len: usize| format!("GET / HTTP/1.1\r\na:{}\r\n\r\n", "v".repeat(len - 22));
    let lines = |len: usize| format!("{}GET / HTTP/1.1\r\n\r\n", "\r\n".repeat(len / 2 - 9));
    #[rustfmt::skip]
    let cases: &[(&str, String, Result<(), HeadError>)] = &[
        // case                       input                        result 
        ("most fields",               fields(FIELD_COUNT_MAX),     Ok(())),
        ("one field more",            fields(FIELD_COUNT_MAX + 1), Err(HeadError::FieldCount)),
        ("longest target",            target(len_max),             Ok(())),
        ("only CRLF beyond",          target(len_max + 1),         Err(HeadError::TooLarge)),
        ("request-line's LF beyond",  target(len_max + 3),         Err(HeadError::UriTooLong)),
        ("longer target",             target(2 * len_max),         Err(HeadError::UriTooLong)),
        ("longest value",             value(len_max),              Ok(())),
        ("longer value",              value(len_max + 1),          Err(HeadError::TooLarge)),
        ("most empty lines",          lines(len_max),              Ok(())),
        ("one empty line more",       lines(len_max + 2),          Err(HeadError::TooLarge)),
        ("nothing but empty lines",   lines(2 * len_max),          Err(HeadError::UriTooLong)),
    ];
    for (name, wire, want) in cases {
        let longer = [wire.as_bytes(), b"\r\n\r\n\0"].concat();
        for wire in [wire.as_bytes(), &longer] {
            let found = parse_within(len_max, wire).map(|found| found.map(|_| ()));
            assert_eq!(found, want.map(Some), "{name}, at most {len_max} bytes");
        }
        for len in wire.len().saturating_sub(30)..wire.len() {
            let found = parse_within(len_max, &wire.as_bytes()[..len]);
            assert!(
                found.is_ok_and(|found| found.is_none()) || found.err() == want.err(),
                "{name}, at most {len_max} bytes, {len} bytes"
            );
        }
    }
}

#[test]
fn the_longest_head_has_its_fields_at_their_places() {
    let value = |len: usize| "v".repeat(len);
    let wire = |query: &str, tag: &str| {
        format!("GET /?{query} HTTP/1.1\r\nHost: a\r\nIf-None-Match: {tag}\r\nRange: bytes=0-9\r\n\r\n")
    };
    let room = HEAD_LEN_MAX - wire("", "").len();
    for query_len in [0, room / 2, room] {
        let (query, tag) = (value(query_len), value(room - query_len));
        let wire = wire(&query, &tag);
        let (head, len) = parse(wire.as_bytes()).unwrap().unwrap();
        let mut usual = Fields::EMPTY;
        let usual_len = parse_usual(&mut usual, HEAD_LEN_MAX, wire.as_bytes()).unwrap().len;
        assert_eq!((len, usual_len), (HEAD_LEN_MAX, HEAD_LEN_MAX));
        for fields in [head.fields, usual] {
            assert_eq!(fields.first(FieldName::Range), Some(&b"bytes=0-9"[..]));
            assert_eq!(fields.first(FieldName::IfNoneMatch), Some(tag.as_bytes()));
            assert_eq!(fields.iter().count(), 3);
        }
        let target = head.split_target();
        assert_eq!(target, Ok(target::Target::Origin { path: b"/", query: Some(query.as_bytes()) }));
    }
    let path = format!("/{}", value(HEAD_LEN_MAX - 18));
    let wire = format!("GET {path} HTTP/1.1\r\n\r\n");
    let (head, _) = parse(wire.as_bytes()).unwrap().unwrap();
    assert_eq!(head.split_target(), Ok(target::Target::Origin { path: path.as_bytes(), query: None }));
}

#[test]
fn another_protocol_is_refused_at_its_first_byte() {
    for byte in 0..=255 {
        let found = parse(&[byte]).map(|found| found.is_some());
        let may_begin = in_class(TCHAR, byte) || byte == b'\r';
        assert_eq!(found, if may_begin { Ok(false) } else { Err(HeadError::Method) }, "{byte:#x}");
    }
}

proptest! {
    #[test]
    fn result_does_not_depend_on_how_the_input_is_split(wire in wire()) {
        assert_split_does_not_matter(&wire);
    }

    #[test]
    fn accepted_heads_agree_with_httparse(wire in wire()) {
        let mut fields = [httparse::EMPTY_HEADER; FIELD_COUNT_MAX];
        let mut oracle = httparse::Request::new(&mut fields);
        if let Ok(Some((head, len))) = parse(&wire) {
            prop_assert_eq!(oracle.parse(&wire), Ok(httparse::Status::Complete(len)));
            prop_assert_eq!(head.target, oracle.path.unwrap().as_bytes());
            prop_assert_eq!(head.split_target(), target::parse(head.method, head.target));
            let path = head.target.split(|&byte| byte == b'?').next().unwrap();
            prop_assert_eq!(head.has_plain_path(), target::is_plain(path));
            prop_assert_eq!(head.version == Version::Http11, oracle.version == Some(1));
            let theirs: Vec<_> = oracle.headers.iter().map(|field| (field.name.as_bytes(), field.value)).collect();
            prop_assert_eq!(head.fields.iter().collect::<Vec<_>>(), theirs);
            for name in FieldName::ALL {
            let text = name.as_str();
                let ours: Vec<_> = head.fields.all(name).collect();
                let theirs: Vec<_> = oracle
                    .headers
                    .iter()
                    .filter(|field| field.name.eq_ignore_ascii_case(text))
                    .map(|field| field.value)
                    .collect();
                prop_assert_eq!(ours, theirs);
            }
        }
    }
}

proptest! {
    #[test]
    fn usual_lines_are_parsed_as_any_others(wire in wire(), behind in "[a-z\r\n]{0,20}") {
        let wire = [&wire, behind.as_bytes()].concat();
        let slow = request_line(&wire);
        if let Some((usual, section)) = usual_request_line(&wire) {
            let (line, rest) = slow.ok().unwrap();
            prop_assert_eq!((usual.method, usual.target, usual.version), (line.method, line.target, line.version));
            prop_assert_eq!(usual.path, line.path);
            prop_assert_eq!(section, rest);
        }
        for from in 0..wire.len() {
            let line = &wire[from..];
            let slow = field_line(line).ok();
            if let Some((name, behind)) = with_widest(UsualFieldLine(line)) {
                let slow = slow.as_ref().unwrap();
                prop_assert_eq!((name, line.len() - behind.len()), (slow.name, slow.len()));
            }
            if let Some((host, behind)) = first_host_line(line) {
                let slow = slow.as_ref().unwrap();
                prop_assert_eq!((HOST_VALUE_AT, host), slow.value(line));
                prop_assert_eq!(line.len() - behind.len(), slow.len());
                prop_assert!(slow_name(&line[..slow.name]) == Some(FieldName::Host) && host::is_valid(host));
            }
            if let Some(last) = last_field_line(&wire, line) {
                let slow = slow.as_ref().unwrap();
                prop_assert_eq!((last.name, last.end), (slow.name, slow.end));
            }
            if let Some(slow) = slow {
                prop_assert_eq!(FieldName::at_start_of(line, slow.name), slow_name(&line[..slow.name]));
            }
        }
    }
}

struct UsualFieldLine<'a>(&'a [u8]);

impl<'a> Work for UsualFieldLine<'a> {
    type Output = Option<(usize, &'a [u8])>;

    fn run(self, simd: impl Simd) -> Self::Output {
        usual_field_line(simd, self.0)
    }
}

proptest! {
    #[test]
    fn usual_heads_are_parsed_as_any_others(wire in prop_oneof![wire(), wire_of_client()]) {
        let mut fields = Fields::EMPTY;
        if let Some(UsualHead { method, path, len }) = parse_usual(&mut fields, HEAD_LEN_USUAL, &wire) {
            let (head, head_len) = parse(&wire).unwrap().unwrap();
            prop_assert_eq!((method, len, head.version), (head.method, head_len, Version::Http11));
            prop_assert!(head.has_plain_path() && head.target.starts_with(path));
            prop_assert!(fields.is_repeated(FieldName::Host) || head.host().is_ok_and(|host| host.is_some()));
            prop_assert!(fields.iter().eq(head.fields.iter()));
            for name in FieldName::ALL {
                prop_assert!(fields.all(name).eq(head.fields.all(name)), "{:?}", name);
            }
        }
    }
}

/// Generates requests with Host first.
fn wire_of_client() -> impl Strategy<Value = Vec<u8>> {
    let host = "[Hh]ost: ([a-z0-9.-]{1,40}(:[0-9]{0,5})?|[a-z:_]{0,9} ?)";
    let lines = "((Host|Connection|Accept-Encoding|If-Match|x-y|a-name-of-more-than-32-bytes-of-a-field): ?[ -~]{0,50}\t?\r\n){0,8}";
    (host, lines, 0..120_usize).prop_map(|(host, lines, more)| {
        format!("GET /a?b HTTP/1.1\r\n{host}\r\n{lines}{}\r\n", "a: b\r\n".repeat(more)).into_bytes()
    })
}

#[test]
fn usual_heads_have_bounded_field_counts() {
    for (more, is_usual) in [(FIELD_COUNT_MAX - 1, true), (FIELD_COUNT_MAX, false)] {
        let wire = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "a: b\r\n".repeat(more));
        assert_eq!(parse(wire.as_bytes()).is_ok(), is_usual);
        assert_eq!(
            parse_usual(&mut Fields::EMPTY.clone(), HEAD_LEN_USUAL, wire.as_bytes()).is_some(),
            is_usual
        );
    }
}

fn slow_name(name: &[u8]) -> Option<FieldName> {
    FieldName::ALL.into_iter().find(|known| name.eq_ignore_ascii_case(known.as_str().as_bytes()))
}

/// A value of more than two windows.
const LONG_VALUE: &str =
    "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8";

/// Generates requests that are mostly valid, with a wrong part now and then.
fn wire() -> impl Strategy<Value = Vec<u8>> {
    let part = |right: &'static [&'static str], wrong: &'static [&'static str]| prop_oneof![20 => proptest::sample::select(right), 1 => proptest::sample::select(wrong)];
    let field = (
        part(
            &[
                "Host",
                "host",
                "Content-Length",
                "If-None-Match",
                "If-Modified-Since",
                "Accept-Encoding",
                "Accept-Language",
                "Upgrade-Insecure-Requests",
                "a-name-that-is-longer-than-one-window-of-the-parser",
                "x-y",
                "x_1",
                "A",
            ],
            &["", " a", "H st", "\r\n", "\u{e9}"],
        ),
        part(&[":", ": ", ":\t "], &["", " :", "\n"]),
        part(
            &["", "a", "\"b\", c", "a value of some length", LONG_VALUE, "\u{fc}\tx", "b "],
            &["\0", "\r", "\n", "\r\n c", "\x7f"],
        ),
        part(&["\r\n"], &["", "\n", "\r", "\r\r\n"]),
    )
        .prop_map(|(name, colon, value, end)| [name, colon, value, end].concat());
    let start = (
        part(&["", "\r\n"], &["\n", "\r", " ", "\x16"]),
        part(&["GET", "HEAD", "POST", "x"], &["", "G T", "\0"]),
        part(&[" "], &["", "  ", "\t"]),
        part(
            &["/", "/a?b", "/a/%2e/b", "/.a", "/a-long-path/to/a-file.html?a=%2e/.", "*", "http://a/"],
            &["", "/#", "/ ", "\u{e9}"],
        ),
        part(&[" "], &["", "  "]),
        part(&["HTTP/1.1", "HTTP/1.0"], &["HTTP/2.0", "HTTP/1", "http/1.1", ""]),
        part(&["\r\n"], &["", "\n", "\r", " \r\n"]),
    )
        .prop_map(|parts| [parts.0, parts.1, parts.2, parts.3, parts.4, parts.5, parts.6].concat());
    let structured = (start, proptest::collection::vec(field, 0..6), part(&["\r\n"], &["", "\n", "\r"]))
        .prop_map(|(start, fields, end)| [start, fields.concat(), end.into()].concat().into_bytes());
    prop_oneof![4 => structured, 1 => proptest::collection::vec(any::<u8>(), 0..60)]
}

/// Parses every prefix of `wire`, and `wire` with bytes after it. Asserts that only an LF or the first byte brings a result, and
/// that the result is that of the whole input.
fn assert_split_does_not_matter(wire: &[u8]) {
    let whole = parsed(wire);
    let mut before = Ok(None);
    for len in 0..=wire.len() {
        let found = parsed(&wire[..len]);
        if before == Ok(None) {
            let may_decide = len == 1 || len > 0 && wire[len - 1] == b'\n';
            assert!(found == Ok(None) || may_decide, "decided without an LF after {len} of {wire:?}");
            assert!(found == Ok(None) || found == whole, "decided otherwise after {len} of {wire:?}");
        } else {
            assert_eq!(found, before, "changed after {len} of {wire:?}");
        }
        before = found;
    }
    for behind in [&b"\r\n"[..], b"\n", b"\0", b"GET / HTTP/1.1\r\n\r\n"] {
        if whole != Ok(None) {
            assert_eq!(parsed(&[wire, behind].concat()), whole, "{wire:?}, then {behind:?}");
        }
    }
}

/// Parses the head at the start of `wire` into a form that tests can compare.
fn parsed(wire: &[u8]) -> Result<Option<(usize, String)>, HeadError> {
    Ok(parse(wire)?.map(|(head, len)| {
        let mut values = vec![];
        for name in FieldName::ALL {
            values.extend(head.fields.all(name).map(<[u8]>::to_vec));
        }
        (len, format!("{head:?} {values:?}"))
    }))
}
