use super::*;
use crate::pipe::fields::MessageFieldsWriter;
use std::collections::BTreeMap;
use tarpon_http::head::HEAD_LEN_MAX;

fn settings() -> BackendSettings {
    let fastcgi = FastCgiSettings {
        root: "/srv/www/".into(),
        index: "index.php".into(),
        suffix: ".php".into(),
        params: Vec::new(),
    };
    BackendSettings { fastcgi: Some(fastcgi), ..BackendSettings::default() }
}

/// Returns the list of a request with these fields, pseudo-fields first.
fn list(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = vec![0; 64 * 1024];
    let mut writer = MessageFieldsWriter::new(&mut bytes);
    for (name, value) in fields {
        writer.put(name.as_bytes(), value.as_bytes()).unwrap();
    }
    let len = writer.len();
    bytes.truncate(len);
    bytes
}

fn get(path: &str) -> Vec<u8> {
    list(&[(":method", "GET"), (":scheme", "http"), (":authority", "a.test"), (":path", path)])
}

/// Returns the records of a request.
fn records(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut records = Vec::new();
    while let Some(header) = FastCgiHeader::decode(bytes).unwrap() {
        let (content, rest) = bytes[FASTCGI_HEADER_LEN..].split_at(header.content_len.into());
        assert_eq!((header.request, header.padding_len), (1, 0));
        records.push((header.kind, content.to_vec()));
        bytes = rest;
    }
    assert_eq!(bytes, b"");
    records
}

fn decode_len(bytes: &mut &[u8]) -> usize {
    let (len, rest) = match *bytes {
        [short @ ..=127, rest @ ..] => (usize::from(*short), rest),
        [a, b, c, d, rest @ ..] => (u32::from_be_bytes([a & 127, *b, *c, *d]) as usize, rest),
        _ => panic!("a length"),
    };
    *bytes = rest;
    len
}

/// Returns the parameters of a request. Each name occurs once.
fn params(bytes: &[u8]) -> BTreeMap<String, String> {
    let mut params = BTreeMap::new();
    let records = records(bytes);
    let content: Vec<u8> =
        records.iter().filter(|(kind, _)| *kind == 4).flat_map(|(_, content)| content).copied().collect();
    let mut rest = &content[..];
    while !rest.is_empty() {
        let (name_len, value_len) = (decode_len(&mut rest), decode_len(&mut rest));
        let (name, behind) = rest.split_at(name_len);
        let (value, behind) = behind.split_at(value_len);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(params.insert(text(name), text(value)), None, "{}", text(name));
        rest = behind;
    }
    params
}

fn written(list: &[u8], settings: &BackendSettings, length: Option<u64>) -> Result<Vec<u8>, FastCgiRefusal> {
    let mut to = vec![0xff; request_len_max(HEAD_LEN_MAX)];
    let list = MessageFields::parse(list).unwrap();
    let len = write_request(list, settings, length, true, &mut to)?;
    to.truncate(len);
    Ok(to)
}

#[test]
fn request_begins_and_its_streams_end() {
    #[rustfmt::skip]
    let cases: &[(Option<u64>, &[u8])] = &[
        // content  kinds of records
        (None,      &[1, 4, 4, 5]),
        (Some(0),   &[1, 4, 4, 5]),
        (Some(5),   &[1, 4, 4]),
    ];
    for (length, kinds) in cases {
        let records = records(&written(&get("/a.php"), &settings(), *length).unwrap());
        let found: Vec<u8> = records.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(found, *kinds, "{length:?}");
        assert_eq!(records[0].1, [0, 1, 1, 0, 0, 0, 0, 0], "a responder that keeps the connection");
        assert!(!records[1].1.is_empty() && records[2].1.is_empty(), "{length:?}");
    }
}

#[test]
fn parameters_are_those_of_cgi() {
    let request = list(&[
        (":method", "POST"),
        (":scheme", "https"),
        (":authority", "a.test:8443"),
        (":path", "/b%20c/a.php/x%2By?q=%31"),
        (":version", "1.0"),
        (":client", "2001:db8::1"),
        (":client-port", "4711"),
        ("content-type", "text/plain"),
        ("content-length", "5"),
        ("accept", "text/html"),
        ("x-list", "a"),
        ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        ("cookie", "a=1"),
        ("x-list", "b"),
        ("cookie", "b=2"),
        ("authorization", "Basic YTpi"),
        ("proxy", "http://evil.test/"),
        ("proxy-authorization", "Basic YTpi"),
        ("x_list", "c"),
        ("x-forwarded-for", "127.0.0.1"),
        ("forwarded", "for=127.0.0.1"),
        ("x!", "d"),
    ]);
    let found = params(&written(&request, &settings(), Some(5)).unwrap());
    #[rustfmt::skip]
    let want = [
        ("CONTENT_LENGTH",     "5"),
        ("CONTENT_TYPE",       "text/plain"),
        ("DOCUMENT_ROOT",      "/srv/www"),
        ("DOCUMENT_URI",       "/b c/a.php/x+y"),
        ("GATEWAY_INTERFACE",  "CGI/1.1"),
        ("HTTPS",              "on"),
        ("HTTP_ACCEPT",        "text/html"),
        ("HTTP_AUTHORIZATION", "Basic YTpi"),
        ("HTTP_COOKIE",        "a=1; b=2"),
        ("HTTP_HOST",          "a.test:8443"),
        ("HTTP_TRACEPARENT",   "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        ("HTTP_X_LIST",        "a, b"),
        ("PATH_INFO",          "/x+y"),
        ("PATH_TRANSLATED",    "/srv/www/x+y"),
        ("QUERY_STRING",       "q=%31"),
        ("REDIRECT_STATUS",    "200"),
        ("REMOTE_ADDR",        "2001:db8::1"),
        ("REMOTE_HOST",        "2001:db8::1"),
        ("REMOTE_PORT",        "4711"),
        ("REQUEST_METHOD",     "POST"),
        ("REQUEST_SCHEME",     "https"),
        ("REQUEST_URI",        "/b%20c/a.php/x%2By?q=%31"),
        ("SCRIPT_FILENAME",    "/srv/www/b c/a.php"),
        ("SCRIPT_NAME",        "/b c/a.php"),
        ("SERVER_NAME",        "a.test"),
        ("SERVER_PORT",        "8443"),
        ("SERVER_PROTOCOL",    "HTTP/1.0"),
        ("SERVER_SOFTWARE",    concat!("tarpon/", env!("CARGO_PKG_VERSION"))),
    ];
    assert_eq!(found, want.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
}

#[test]
fn least_request_has_what_cgi_requires() {
    let found = params(&written(&list(&[(":method", "GET"), (":path", "?q")]), &settings(), None).unwrap());
    #[rustfmt::skip]
    let cases = [
        ("SERVER_NAME",     Some("localhost")),
        ("SERVER_PORT",     Some("80")),
        ("SERVER_PROTOCOL", Some("HTTP/1.1")),
        ("REMOTE_ADDR",     Some("unix:")),
        ("SCRIPT_NAME",     Some("/index.php")),
        ("REQUEST_URI",     Some("?q")),
        ("QUERY_STRING",    Some("q")),
        ("HTTP_HOST",       None),
        ("HTTPS",           None),
        ("PATH_INFO",       None),
        ("CONTENT_LENGTH",  None),
    ];
    for (name, want) in cases {
        assert_eq!(found.get(name).map(String::as_str), want, "{name}");
    }
}

#[test]
fn script_lies_below_the_root_or_is_refused() {
    #[rustfmt::skip]
    let cases = [
        // path                        SCRIPT_FILENAME, PATH_INFO
        ("/a.php",                     Ok(("/srv/www/a.php", None))),
        ("/a.php?x=/b.php",            Ok(("/srv/www/a.php", None))),
        ("/%61.p%68p",                 Ok(("/srv/www/a.php", None))),
        ("/",                          Ok(("/srv/www/index.php", None))),
        ("/b/?c",                      Ok(("/srv/www/b/index.php", None))),
        ("/b/../a.php",                Ok(("/srv/www/a.php", None))),
        ("/../../a.php",               Ok(("/srv/www/a.php", None))),
        ("/%2e%2e/a.php",              Ok(("/srv/www/a.php", None))),
        ("/a.php/../../etc/x.php",     Ok(("/srv/www/etc/x.php", None))),
        ("/a.php/b",                   Ok(("/srv/www/a.php", Some("/b")))),
        ("/upload/a.jpg/x.php",        Ok(("/srv/www/upload/a.jpg/x.php", None))),
        ("/a.php%00.jpg",              Err(FastCgiRefusal::NotFound)),
        ("/a%2fb.php",                 Err(FastCgiRefusal::NotFound)),
        ("/a.ph%",                     Err(FastCgiRefusal::NotFound)),
        ("/a.jpg",                     Err(FastCgiRefusal::NotFound)),
        ("/a",                         Err(FastCgiRefusal::NotFound)),
        ("*",                          Err(FastCgiRefusal::NotFound)),
    ];
    for (path, want) in cases {
        let found = written(&get(path), &settings(), None).map(|bytes| {
            let params = params(&bytes);
            (params["SCRIPT_FILENAME"].clone(), params.get("PATH_INFO").cloned())
        });
        let want = want.map(|(file, info)| (file.to_owned(), info.map(str::to_owned)));
        assert_eq!(found, want, "{path}");
    }
}

#[test]
fn configuration_replaces_parameters() {
    let mut settings = settings();
    settings.host = Some("b.test:81".into());
    let configured = [("SERVER_NAME", "c.test"), ("APP", "1"), ("HTTP_X", "own"), ("APP", "2")];
    settings.fastcgi.as_mut().unwrap().params =
        configured.map(|(name, value)| (name.into(), value.into())).into();
    let fields = [(":method", "GET"), (":path", "/"), ("x", "of the client"), ("y", "z")];
    let found = params(&written(&list(&fields), &settings, None).unwrap());
    #[rustfmt::skip]
    let cases = [
        ("SERVER_NAME", "c.test"),
        ("SERVER_PORT", "81"),
        ("HTTP_HOST",   "b.test:81"),
        ("APP",         "2"),
        ("HTTP_X",      "own"),
        ("HTTP_Y",      "z"),
    ];
    for (name, want) in cases {
        assert_eq!(found.get(name).map(String::as_str), Some(want), "{name}");
    }
}

#[test]
fn content_has_a_known_length() {
    #[rustfmt::skip]
    let cases = [
        // Content-Length  complete  length
        (None,             true,     Ok(None)),
        (Some("0"),        true,     Ok(Some(0))),
        (Some("5"),        false,    Ok(Some(5))),
        (None,             false,    Err(FastCgiRefusal::LengthRequired)),
        (Some("5"),        true,     Err(FastCgiRefusal::Malformed)),
        (Some("+5"),       false,    Err(FastCgiRefusal::Malformed)),
        (Some(""),         false,    Err(FastCgiRefusal::Malformed)),
    ];
    for (field, is_complete, want) in cases {
        let bytes = list(&field.map(|value| ("content-length", value)).into_iter().collect::<Vec<_>>());
        let list = MessageFields::parse(&bytes).unwrap();
        assert_eq!(content_length(list, is_complete), want, "{field:?}");
    }
}

/// The longest path, as the longest head has it, fits; what fits nowhere is refused.
#[test]
fn long_parameters_take_several_records() {
    let kinds = |bytes: &[u8]| records(bytes).iter().map(|(kind, _)| *kind).collect::<Vec<_>>();
    for len in (20_000..62_000).step_by(4_111).chain([32_500, 32_600, 32_700]) {
        let (query, value) = ("q".repeat(len), "v".repeat(HEAD_LEN_MAX - len - 100));
        let target = format!("/a.php?{query}");
        let list = list(&[(":method", "GET"), (":path", &target), ("x-long", &value)]);
        let whole = written(&list, &settings(), None).unwrap();
        let params = params(&whole);
        assert_eq!((&params["QUERY_STRING"], &params["HTTP_X_LONG"]), (&query, &value), "{len}");
        let sizes: Vec<_> = records(&whole)[1..].iter().map(|(_, content)| content.len()).collect();
        let count = sizes.iter().position(|&size| size == 0).expect("the end of the parameters");
        assert!(
            count >= 2 && sizes[..count - 1].iter().all(|&size| size == RECORD_LEN_MAX),
            "{len}: {sizes:?}"
        );
        assert_eq!(kinds(&whole), [vec![1], vec![4; count + 1], vec![5]].concat(), "{len}");
    }
}

#[test]
fn start_of_a_request_has_a_limit() {
    let (path, query) = ("a".repeat(2_000), "q".repeat(11_000));
    let fields = (0..100).map(|number| (format!("x-{number}"), "v".repeat(20))).collect::<Vec<_>>();
    let target = format!("/{path}.php/{path}?{query}");
    let mut all = vec![(":method", "GET"), (":path", &target)];
    all.extend(fields.iter().map(|(name, value)| (&**name, &**value)));
    let list = list(&all);
    let whole = written(&list, &settings(), None).unwrap();
    assert_eq!(params(&whole)["QUERY_STRING"], query);
    let list = MessageFields::parse(&list).unwrap();
    for len in (0..whole.len()).step_by(101).chain([whole.len() - 1]) {
        let found = write_request(list, &settings(), None, true, &mut vec![0; len]);
        assert_eq!(found, Err(FastCgiRefusal::TooLong), "{len}");
    }
}
