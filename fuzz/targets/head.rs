//! Request heads: the result does not depend on how the input is split, and httparse returns the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tarpon_http::fields::Fields;
use tarpon_http::head::{self, HEAD_LEN_MAX, HEAD_LEN_USUAL, Head, HeadError, Method, UsualHead, Version};
use tarpon_http::{FieldName, framing, persist, target};

fuzz_target!(|input: &[u8]| {
    assert_eq!(summary(&head::parse(input)), summary(&head::parse_within(HEAD_LEN_MAX, input)));
    // The last limit lies within most inputs.
    for len_max in [HEAD_LEN_MAX, HEAD_LEN_USUAL, 1 + input.len() / 2] {
        check(input, len_max.min(HEAD_LEN_MAX));
    }
});

fn check(input: &[u8], len_max: usize) {
    let result = head::parse_within(len_max, input);
    splits_change_nothing(input, len_max, &result);
    usual_heads_agree(input, len_max, &result);
    if let Ok(Some((head, len))) = &result {
        assert!(*len <= input.len().min(len_max));
        fields_agree(head);
        httparse_agrees(head, &input[..*len]);
        let _ = (head.host(), framing::framing(head), persist::persists(head.version, &head.fields));
        assert_eq!(head.split_target(), target::parse(head.method, head.target));
        let path = head.target.split(|&byte| byte == b'?').next();
        assert_eq!(head.has_plain_path(), path.is_some_and(target::is_plain));
    }
}

type ParseResult<'a> = Result<Option<(Head<'a>, usize)>, HeadError>;

/// Checks that a result for a prefix of `input` is the result for all of it, and that only a line end, the length limit, or a first
/// byte that cannot begin a request brings a result.
fn splits_change_nothing(input: &[u8], len_max: usize, result: &ParseResult<'_>) {
    let step = 1 + input.len() / PREFIX_COUNT_MAX;
    let mut before = 0;
    for len in (0..=input.len()).step_by(step) {
        let early = head::parse_within(len_max, &input[..len]);
        if !matches!(early, Ok(None)) {
            assert_eq!(summary(&early), summary(result), "after {len} bytes");
            let added = &input[before..len];
            let first = input[..len].iter().position(|byte| !b"\r\n".contains(byte));
            let decisive = added.contains(&b'\n') || len >= len_max || first.is_some_and(|at| at >= before);
            assert!(decisive, "{:?} brought {early:?}", added.escape_ascii().to_string());
            return;
        }
        before = len;
    }
}

/// Checks that a head which is parsed as a usual one has the same parts when it is parsed as any other.
fn usual_heads_agree(input: &[u8], len_max: usize, result: &ParseResult<'_>) {
    let mut fields = Fields::EMPTY;
    let usual = head::parse_usual(&mut fields, len_max, input);
    let Some(UsualHead { method, path, len }) = usual else { return };
    let Ok(Some((head, head_len))) = result else { panic!("usual, but {result:?}") };
    assert_eq!((method, len, head.version), (head.method, *head_len, Version::Http11));
    assert!(head.has_plain_path() && head.target.starts_with(path));
    assert!(fields.is_repeated(FieldName::Host) || matches!(head.host(), Ok(Some(_))));
    assert!(fields.iter().eq(head.fields.iter()));
    for name in FieldName::ALL {
        assert!(fields.all(name).eq(head.fields.all(name)), "{name:?}");
    }
}

/// Converts a result to a form that can be compared.
fn summary(result: &ParseResult<'_>) -> Result<Option<(String, usize)>, HeadError> {
    let text = |head: Head<'_>| {
        let values = FieldName::ALL.map(|name| head.fields.all(name).collect::<Vec<_>>());
        format!("{:?}", (head.method, head.target, head.version, values))
    };
    result.map(|found| found.map(|(head, len)| (text(head), len)))
}

fn fields_agree(head: &Head<'_>) {
    for name in FieldName::ALL {
        let all: Vec<_> = head.fields.all(name).collect();
        assert_eq!(head.fields.first(name), all.first().copied(), "{name:?}");
        assert_eq!(head.fields.has(name), !all.is_empty(), "{name:?}");
        assert_eq!(head.fields.is_repeated(name), all.len() > 1, "{name:?}");
    }
}

/// Checks that httparse accepts the head and returns the same, with one exception: it refuses minor versions above 1, which this
/// crate treats as 1 (RFC 9110, section 2.5).
fn httparse_agrees(head: &Head<'_>, input: &[u8]) {
    let mut fields = [httparse::EMPTY_HEADER; head::FIELD_COUNT_MAX];
    let mut other = httparse::Request::new(&mut fields);
    match other.parse(input) {
        Ok(httparse::Status::Complete(len)) => assert_eq!(len, input.len()),
        Err(httparse::Error::Version) if head.version == Version::Http11 => return,
        refused => panic!("httparse: {refused:?}"),
    }
    // A known method has the name of its variant.
    let method = other.method.expect("a method");
    let known = METHODS.into_iter().find(|known| format!("{known:?}").to_uppercase() == method);
    assert_eq!(head.method, known.unwrap_or(Method::Other), "{method}");
    assert_eq!(other.path.map(str::as_bytes), Some(head.target));
    assert_eq!(other.version == Some(1), head.version == Version::Http11);
    assert!(head.fields.iter().eq(other.headers.iter().map(|field| (field.name.as_bytes(), field.value))));
    for name in FieldName::ALL {
        let theirs = other.headers.iter().filter(|field| field.name.eq_ignore_ascii_case(name.as_str()));
        assert!(theirs.map(|field| field.value).eq(head.fields.all(name)), "{name:?}");
    }
}

const METHODS: [Method; 9] = [
    Method::Get,
    Method::Head,
    Method::Post,
    Method::Put,
    Method::Delete,
    Method::Connect,
    Method::Options,
    Method::Trace,
    Method::Patch,
];

/// The number of prefixes to try. Trying every prefix of a long input would be too slow.
const PREFIX_COUNT_MAX: usize = 256;
