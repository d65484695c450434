//! Byte ranges, compared with a simple reference.

use super::{
    properties::{cuts, through},
    sites::{IMAGE, archived, established, sim, throughs},
    twice_the_cases,
};
use proptest::{collection::vec, prelude::*, sample::select};
use std::ops::Range;
use tarpon_conn::{Input, SPAN_COUNT_MAX, Span, sim::Cuts};

proptest! {
    #![proptest_config(twice_the_cases())]

    #[test]
    fn ranges_have_the_bytes_of_the_whole_wherever_the_content_lies(
        requested in requested(), path in select(&["/", "/small", "/middle", "/large", "/empty", "/a"][..]), cuts in cuts(), through in through(),
    ) {
        let sim = || if path == "/a" { archived() } else { sim() };
        let [whole, part] = ["", &requested.iter().map(|requested| requested.text()).collect::<Vec<_>>().join(", ")].map(|ranges| {
            let mut sim = sim().through(&through);
            let range = if ranges.is_empty() { String::new() } else { format!("Range: bytes={ranges}\r\n") };
            sim.client_sends(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{range}\r\n").as_bytes());
            sim.run(cuts);
            std::mem::take(&mut sim.wire)
        });
        let want = in_parts(&whole, &requested);
        prop_assert!(part == want, "{}\nis not\n{}", part.escape_ascii(), want.escape_ascii());
    }
}

#[test]
fn a_part_is_a_span_of_its_file_and_only_its_fields_are_written() {
    for through in &throughs() {
        let mut sim = established(sim(), through);
        sim.client_sends(b"GET /large HTTP/1.1\r\nHost: a\r\nRange: bytes=1000-1999\r\n\r\n");
        sim.run(Cuts { read: usize::MAX, send: 0 });
        let [
            Span::Prefix(_),
            Span::Buf(_),
            Span::Site { .. },
            Span::File { number: 0, at: 1_000, len: 1_000, .. },
        ] = *sim.outbox()
        else {
            panic!("{:?}", sim.outbox());
        };
        assert_eq!(sim.bufs_held(), 1);
    }
}

#[test]
fn six_parts_fill_the_outbox_and_hold_one_buffer() {
    for through in &throughs() {
        let mut sim = established(sim(), through);
        let request = b"GET /large HTTP/1.1\r\nHost: a\r\nRange: bytes=0-0,2-2,4-4,6-6,8-8,10-10\r\n\r\n";
        sim.client_sends(request);
        sim.run(Cuts { read: usize::MAX, send: 0 });
        assert_eq!((sim.outbox().len(), sim.bufs_held(), sim.input()), (SPAN_COUNT_MAX, 1, Input::Pause));
    }
}

/// The outbox has room for a usual response, but not for this one. The client sends nothing more.
#[test]
fn ranges_that_need_more_room_wait_and_are_answered() {
    for through in &throughs() {
        let mut sim = established(sim(), through);
        sim.client_sends(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
        sim.run(Cuts { read: usize::MAX, send: 0 });
        assert!(sim.input() == Input::Bytes, "room for another response");
        sim.client_sends(b"GET /large HTTP/1.1\r\nHost: a\r\nRange: bytes=0-0,2-2,4-4,6-6,8-8,10-10\r\n\r\n");
        sim.run(Cuts { read: usize::MAX, send: 0 });
        assert_eq!((sim.input(), sim.outbox().len()), (Input::Pause, 3));
        sim.run(Cuts::NONE);
        assert!(sim.wire.windows(14).any(|bytes| bytes == b" 206 Partial C"), "{}", sim.wire.escape_ascii());
        assert_eq!(sim.bufs_held(), 0);
    }
}

/// One range of a Range field.
#[derive(Clone, Copy, Debug)]
enum RequestedRange {
    FromTo(u64, u64),
    From(u64),
    Last(u64),
}

impl RequestedRange {
    fn text(self) -> String {
        match self {
            RequestedRange::FromTo(first, last) => format!("{first}-{last}"),
            RequestedRange::From(first) => format!("{first}-"),
            RequestedRange::Last(len) => format!("-{len}"),
        }
    }

    /// Returns the range in a content of this length.
    fn of(self, len: u64) -> Range<u64> {
        match self {
            RequestedRange::FromTo(first, last) => first..len.min(last + 1),
            RequestedRange::From(first) => first..len,
            RequestedRange::Last(count) => len.saturating_sub(count)..len,
        }
    }
}

/// Ranges near each other, near the ends of contents, and far beyond them.
fn requested() -> impl Strategy<Value = Vec<RequestedRange>> {
    let place =
        || prop_oneof![4 => 0_u64..40, 2 => 1_980_u64..2_010, 2 => 19_990_u64..20_005, 1 => 0_u64..200_000];
    let range = prop_oneof![
        4 => (place(), 0_u64..30).prop_map(|(first, more)| RequestedRange::FromTo(first, first + more)),
        1 => (place(), 0_u64..200_000).prop_map(|(first, more)| RequestedRange::FromTo(first, first + more)),
        1 => place().prop_map(RequestedRange::From),
        1 => place().prop_map(RequestedRange::Last),
    ];
    vec(range, 1..9)
}

/// Returns the expected response to ranges, made from the response to a request for the whole with simple operations on strings.
fn in_parts(whole: &[u8], requested: &[RequestedRange]) -> Vec<u8> {
    let head_len = whole.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap() + 4;
    let (head, content) = (str::from_utf8(&whole[..head_len]).unwrap(), &whole[head_len..]);
    let line = |name: &str| head.split_inclusive('\n').find(|line| line.starts_with(name)).unwrap();
    let (length, media) = (line("Content-Length: "), line("Content-Type: "));
    let tag = line("ETag: ").split('"').nth(1).unwrap();
    let of = content.len() as u64;
    let ranges: Vec<_> =
        requested.iter().map(|requested| requested.of(of)).filter(|range| !range.is_empty()).collect();
    let content_range =
        |part: &Range<u64>| format!("Content-Range: bytes {}-{}/{of}\r\n", part.start, part.end - 1);
    let bytes = |part: &Range<u64>| &content[part.start as usize..part.end as usize];
    let too_many = (0..=ranges.len()).any(|count| joined(&ranges[..count]).len() > 6);
    match &joined(&ranges)[..] {
        _ if of == 0 || too_many => whole.to_vec(),
        [] => {
            let page = IMAGE.status_page(416);
            let start = head.replace("200 OK", "416 Range Not Satisfiable");
            let start = &start[..start.find("Content-Length: ").unwrap()];
            let unsatisfied = format!("{start}Content-Range: bytes */{of}\r\n");
            [unsatisfied.as_bytes(), IMAGE.bytes(page.fields.text), IMAGE.bytes(page.content)].concat()
        }
        [part] => {
            let fields = format!("Content-Length: {}\r\n{}", part.end - part.start, content_range(part));
            let head = head.replace("200 OK", "206 Partial Content").replace(length, &fields);
            [head.as_bytes(), bytes(part)].concat()
        }
        parts => {
            let mut content = Vec::new();
            for part in parts {
                let delimiter = format!("\r\n--{tag}\r\n{media}{}\r\n", content_range(part));
                content.extend_from_slice(&[delimiter.as_bytes(), bytes(part)].concat());
            }
            content.extend_from_slice(format!("\r\n--{tag}--\r\n").as_bytes());
            let content = content.strip_prefix(b"\r\n").unwrap();
            if content.len() as u64 >= of {
                return whole.to_vec();
            }
            let head = head
                .replace("200 OK", "206 Partial Content")
                .replace(length, &format!("Content-Length: {}\r\n", content.len()))
                .replace(media, &format!("Content-Type: multipart/byteranges; boundary={tag}\r\n"));
            [head.as_bytes(), content].concat()
        }
    }
}

/// Joins ranges that overlap or touch. The result is in the order of the requested ranges.
fn joined(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut sorted = ranges.to_vec();
    sorted.sort_by_key(|range| (range.start, range.end));
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in sorted {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined.sort_by_key(|part| {
        ranges.iter().position(|range| part.start <= range.start && range.end <= part.end)
    });
    joined
}
