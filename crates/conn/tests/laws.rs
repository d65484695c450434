//! The laws of the seam, as properties: whatever a client sends, however it is cut, whenever time passes.
//! `Sim` checks bounds, frozen front, quiet and idle after every fact, and moves the connection before it.

#![allow(clippy::disallowed_methods, reason = "the ban is for the core, not for those who test it")]

use bytes::Bytes;
use proptest::{
    collection::vec,
    prelude::*,
    sample::{Index, select},
};
use std::{
    fs,
    io::{Cursor, Write},
    ops::Range,
    sync::LazyLock,
};
use tarpon_conn::{
    BUF_LEN, Close, Hosts, Input, Limits, SPAN_COUNT_MAX, SiteId, Sites, Span,
    sim::{Cuts, Sim},
};
use tarpon_pack::{Memo, Options, pack_dir, pack_tar};
use tarpon_site::Image;

/// The file beside the image is this long.
const LARGE_LEN: usize = 100_000;

/// No head of a response is longer: a redirect's, with a query of 8 KiB.
const HEAD_LEN_MAX: usize = 10_000;

/// A site with a small, a middle, an empty and a large file, and a directory.
static IMAGE: LazyLock<Image> = LazyLock::new(|| site("hello"));
static OTHER: LazyLock<Image> = LazyLock::new(|| site_of(&[("/index.html", b"the other one")]));

fn site(greeting: &str) -> Image {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &[u8]| fs::write(dir.path().join(name), content).unwrap();
    fs::create_dir(dir.path().join("dir")).unwrap();
    write("index.html", greeting.as_bytes());
    write("dir/index.html", b"in here");
    write("small", &distinct_bytes(2_000));
    write("middle", &distinct_bytes(20_000));
    write("empty", b"");
    write("large", &distinct_bytes(LARGE_LEN));
    let mut out = Cursor::new(Vec::new());
    pack_dir(dir.path(), &mut out, &Options::new(784_111_777), &mut Memo::default()).unwrap();
    Image::new(Bytes::from(out.into_inner())).unwrap()
}

/// A site of these files, at these paths.
fn site_of(files: &[(&str, &[u8])]) -> Image {
    let dir = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = dir.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).and_then(|()| fs::write(&path, content)).unwrap();
    }
    let mut out = Cursor::new(Vec::new());
    pack_dir(dir.path(), &mut out, &Options::new(784_111_777), &mut Memo::default()).unwrap();
    Image::new(Bytes::from(out.into_inner())).unwrap()
}

fn sim() -> Sim {
    let mut sim = Sim::new(IMAGE.clone());
    sim.files = vec![distinct_bytes(LARGE_LEN)];
    sim
}

/// The same site under one name, another under the rest of them, and an alias.
fn sim_of_several() -> Sim {
    let [first, second] = [0, 1].map(SiteId::new);
    let mut hosts = Hosts::new(None);
    for (name, site) in [("a", first), ("b", second), ("*.b", second)] {
        hosts.add(name.parse().unwrap(), site).unwrap();
    }
    hosts.add_alias("www.b".parse().unwrap(), second).unwrap();
    let images = [IMAGE.clone(), OTHER.clone()].map(|image| (image, Limits::default()));
    let mut sim = Sim::by_host(Sites::by_host(images, hosts.into()));
    sim.files = vec![distinct_bytes(LARGE_LEN)];
    sim
}

fn sim_of(several: bool) -> Sim {
    if several { sim_of_several() } else { sim() }
}

/// Bytes of which no stretch looks like the one beside it.
fn distinct_bytes(len: usize) -> Vec<u8> {
    (0..len as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// Requests, and things that are none, each complete or not.
const PIECES: &[&[u8]] = &[
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nIf-None-Match: *\r\n\r\n",
    b"HEAD /middle HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /middle HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /empty HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /middle HTTP/1.1\r\nHost: a\r\nRange: bytes=19000-\r\n\r\n",
    b"GET /large HTTP/1.1\r\nHost: a\r\nRange: bytes=-9\r\n\r\n",
    b"GET /large HTTP/1.1\r\nHost: a\r\nRange: bytes=5-6,10-19\r\n\r\n",
    b"GET /large HTTP/1.1\r\nHost: a\r\nRange: bytes=5-6,10-19,30-39,50-59,-1,70-79\r\n\r\n",
    b"GET /middle HTTP/1.1\r\nHost: a\r\nConnection: close\r\nRange: bytes=0-0,2-2,4-4,6-6,8-8,-1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nRange: bytes=5-\r\n\r\n",
    b"GET /dir?query=1 HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /d%69r/../nope HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    b"GET / HTTP/1.0\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 30\r\n\r\nGET /none HTTP/1.1\r\nHost: a\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nT: u\r\n\r\n",
    b"PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n",
    b"BREW / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x.b:80\r\n\r\n",
    b"GET http://a/small HTTP/1.1\r\nHost: b\r\n\r\n",
    b"GET /small|?q HTTP/1.1\r\nHost: WWW.b.\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: www.b:8080\r\nContent-Length: 3\r\n\r\nabc",
    b"HEAD / HTTP/1.1\r\nHost: nobody\r\n\r\n",
    b"GET / HTTP/3.0\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\nHost: a\n\n",
    b"\r\n",
    b"GET / HTTP/1.1\r\nHost: a",
    b"\x16\x03\x01",
];

fn requests() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        20 => select(PIECES).prop_map(<[u8]>::to_vec),
        1 => vec(any::<u8>(), 0..40),
        1 => (0usize..20_000).prop_map(|len| [b"GET / HTTP/1.1\r\nHost: a\r\nX: ", vec![b'x'; len].as_slice(), b"\r\n\r\n"].concat()),
    ];
    let whole = vec(piece, 0..12).prop_map(|pieces| pieces.concat());
    let edits = prop_oneof![3 => Just(Vec::new()), 1 => vec(edit(), 1..6)];
    (whole, edits).prop_map(|(mut bytes, edits)| {
        edits.iter().for_each(|edit| edit.apply(&mut bytes));
        bytes
    })
}

/// What spoils a request, at some place in it.
#[derive(Clone, Debug)]
enum Edit {
    Put(Index, u8),
    Remove(Index),
    Double(Index, usize),
    End(Index),
}

fn edit() -> impl Strategy<Value = Edit> {
    let at = any::<Index>;
    let byte = prop_oneof![any::<u8>(), select(b"\r\n \t:,;/%.0fF".as_slice())];
    prop_oneof![
        4 => (at(), byte).prop_map(|(at, byte)| Edit::Put(at, byte)),
        2 => at().prop_map(Edit::Remove),
        2 => (at(), 1usize..60).prop_map(|(at, len)| Edit::Double(at, len)),
        1 => at().prop_map(Edit::End),
    ]
}

impl Edit {
    fn apply(&self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let at = |at: &Index| at.index(bytes.len());
        match self {
            Edit::Put(place, byte) => {
                let place = at(place);
                bytes[place] = *byte;
            }
            Edit::Remove(place) => {
                bytes.remove(at(place));
            }
            Edit::Double(place, len) => {
                let place = at(place);
                let copy = bytes[place..bytes.len().min(place + len)].to_vec();
                bytes.splice(place..place, copy);
            }
            Edit::End(place) => bytes.truncate(at(place)),
        }
    }
}

fn cuts() -> impl Strategy<Value = Cuts> {
    let read = prop_oneof![1usize..40, Just(100), Just(1_460), Just(usize::MAX)];
    let send = prop_oneof![1usize..40, Just(150), Just(1_460), Just(usize::MAX)];
    (read, send).prop_map(|(read, send)| Cuts { read, send })
}

/// All that a client receives for `bytes`, and how the connection ends.
fn answer(mut sim: Sim, bytes: &[u8], cuts: &[Cuts]) -> (Vec<u8>, Close) {
    sim.client_sends(bytes);
    for &cuts in cuts {
        sim.step(cuts);
    }
    sim.run(*cuts.last().unwrap_or(&Cuts::NONE));
    (std::mem::take(&mut sim.wire), sim.close())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn how_bytes_are_cut_never_changes_what_is_sent(bytes in requests(), cuts in vec(cuts(), 1..60), several: bool) {
        let (whole, _) = answer(sim_of(several), &bytes, &[Cuts::NONE]);
        let (cut, _) = answer(sim_of(several), &bytes, &cuts);
        prop_assert!(whole == cut, "{} and {}", whole.escape_ascii(), cut.escape_ascii());
    }

    #[test]
    fn a_client_that_only_stops_sending_still_gets_everything(bytes in requests(), cuts in cuts(), several: bool) {
        let (whole, _) = answer(sim_of(several), &bytes, &[Cuts::NONE]);
        let mut sim = sim_of(several);
        sim.client_sends(&bytes);
        sim.client_ends();
        sim.run(cuts);
        prop_assert!(sim.wire == whole);
        prop_assert_eq!(sim.close(), Close::Both, "and the connection ends");
    }

    /// Any order of bytes, time, sends, a stop and a swap: the laws hold, and in the end the connection ends.
    #[test]
    fn the_laws_hold_whatever_happens(
        bytes in requests(),
        acts in vec((0u8..6, 0usize..200, 0u64..40_000), 0..60),
        several: bool,
    ) {
        let mut sim = sim_of(several);
        let mut bytes = &bytes[..];
        for (act, amount, ms) in acts {
            match act {
                0 | 1 => {
                    let (now, later) = bytes.split_at(amount.min(bytes.len()));
                    sim.client_sends(now);
                    bytes = later;
                }
                2 => sim.run(Cuts { read: amount + 1, send: 0 }),
                3 => { sim.step(Cuts { read: amount + 1, send: amount + 1 }); }
                4 => sim.pass(ms),
                _ if amount < 3 => sim.stop(),
                _ if amount < 6 => sim.drain(),
                _ if amount < 20 => { sim.sites.swap(SiteId::FIRST, site("changed")); }
                _ => sim.run(Cuts { read: amount + 1, send: amount + 1 }),
            }
            sim.sites.retire().for_each(drop);
        }
        sim.client_ends();
        sim.run(Cuts::NONE);
        prop_assert_eq!(sim.close(), Close::Both);
        prop_assert_eq!((sim.bufs_held(), sim.sites.holders()), (0, 0));
    }

    /// A head is answered once, with the largest response at most; what is no head, once and never again. And it costs
    /// no more steps than there are bytes.
    #[test]
    fn no_request_costs_more_than_the_largest_response(bytes in requests(), cuts in cuts(), several: bool) {
        let mut sim = sim_of(several);
        sim.client_sends(&bytes);
        sim.client_ends();
        let heads = bytes.windows(4).filter(|end| end == b"\r\n\r\n").count();
        // A step reads, sends or offers; an offer that nothing is taken of is followed by another of the former.
        let reads = bytes.len().div_ceil(cuts.read);
        let most = (heads + 1) * (LARGE_LEN + HEAD_LEN_MAX);
        let sends = most.div_ceil(cuts.send);
        let steps = (0..2 * (reads + heads + sends) + 9).take_while(|_| sim.step(cuts)).count();
        prop_assert!(!sim.step(cuts), "after {steps} steps there is still something to do");
        prop_assert!(sim.wire.len() <= most, "{} bytes for {heads} heads", sim.wire.len());
        prop_assert_eq!(sim.close(), Close::Both);
        prop_assert_eq!((sim.bufs_held(), sim.sites.holders()), (0, 0));
    }

    /// Nobody waits for ever: time alone ends every connection.
    #[test]
    fn time_ends_every_connection(bytes in requests(), cuts in cuts(), taking: bool, several: bool) {
        let mut sim = sim_of(several);
        sim.client_sends(&bytes);
        sim.run(Cuts { send: if taking { cuts.send } else { 0 }, ..cuts });
        for _ in 0..4 {
            let ms = sim.deadline_ms();
            sim.pass(ms);
            sim.run(Cuts { send: if taking { cuts.send } else { 0 }, ..cuts });
        }
        prop_assert_eq!(sim.close(), Close::Both);
    }
}

/// One range of a field Range.
#[derive(Clone, Copy, Debug)]
enum Asked {
    FromTo(u64, u64),
    From(u64),
    Last(u64),
}

impl Asked {
    fn text(self) -> String {
        match self {
            Asked::FromTo(first, last) => format!("{first}-{last}"),
            Asked::From(first) => format!("{first}-"),
            Asked::Last(len) => format!("-{len}"),
        }
    }

    /// The bytes of a content, as far as there are any.
    fn of(self, len: u64) -> Range<u64> {
        match self {
            Asked::FromTo(first, last) => first..len.min(last + 1),
            Asked::From(first) => first..len,
            Asked::Last(count) => len.saturating_sub(count)..len,
        }
    }
}

/// Ranges near each other, near the ends of contents, and far behind them.
fn asked() -> impl Strategy<Value = Vec<Asked>> {
    let place =
        || prop_oneof![4 => 0_u64..40, 2 => 1_980_u64..2_010, 2 => 19_990_u64..20_005, 1 => 0_u64..200_000];
    let range = prop_oneof![
        4 => (place(), 0_u64..30).prop_map(|(first, more)| Asked::FromTo(first, first + more)),
        1 => (place(), 0_u64..200_000).prop_map(|(first, more)| Asked::FromTo(first, first + more)),
        1 => place().prop_map(Asked::From),
        1 => place().prop_map(Asked::Last),
    ];
    vec(range, 1..9)
}

/// The answer to the ranges, made of the answer to a request for the whole: of strings, in the most obvious way.
fn in_parts(whole: &[u8], asked: &[Asked]) -> Vec<u8> {
    let head_len = whole.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap() + 4;
    let (head, content) = (str::from_utf8(&whole[..head_len]).unwrap(), &whole[head_len..]);
    let line = |name: &str| head.split_inclusive('\n').find(|line| line.starts_with(name)).unwrap();
    let (length, media) = (line("Content-Length: "), line("Content-Type: "));
    let tag = line("ETag: ").split('"').nth(1).unwrap();
    let of = content.len() as u64;
    let ranges: Vec<_> = asked.iter().map(|asked| asked.of(of)).filter(|range| !range.is_empty()).collect();
    let content_range =
        |part: &Range<u64>| format!("Content-Range: bytes {}-{}/{of}\r\n", part.start, part.end - 1);
    let bytes = |part: &Range<u64>| &content[part.start as usize..part.end as usize];
    let too_many = (0..=ranges.len()).any(|count| joined(&ranges[..count]).len() > 6);
    match &joined(&ranges)[..] {
        _ if of == 0 || too_many => whole.to_vec(),
        [] => {
            let page = IMAGE.page(416);
            let start = head.replace("200 OK", "416 Range Not Satisfiable");
            let start = &start[..start.find("Content-Length: ").unwrap()];
            let unsatisfied = format!("{start}Content-Range: bytes */{of}\r\n");
            [unsatisfied.as_bytes(), IMAGE.bytes(page.fields), IMAGE.bytes(page.content)].concat()
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

/// What overlaps or touches is one; in the order of what was asked for first.
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn a_range_is_answered_with_its_part_of_the_whole_wherever_the_content_lies(
        asked in asked(), path in select(&["/", "/small", "/middle", "/large", "/empty", "/a"][..]), cuts in cuts(),
    ) {
        let sim = || if path == "/a" { archived() } else { sim() };
        let [whole, part] = ["", &asked.iter().map(|asked| asked.text()).collect::<Vec<_>>().join(", ")].map(|ranges| {
            let mut sim = sim();
            let range = if ranges.is_empty() { String::new() } else { format!("Range: bytes={ranges}\r\n") };
            sim.client_sends(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{range}\r\n").as_bytes());
            sim.run(cuts);
            std::mem::take(&mut sim.wire)
        });
        let want = in_parts(&whole, &asked);
        prop_assert!(part == want, "{}\nis not\n{}", part.escape_ascii(), want.escape_ascii());
    }
}

#[test]
fn a_part_is_named_by_place_and_only_what_is_said_of_it_is_written() {
    let mut sim = sim();
    sim.client_sends(b"GET /large HTTP/1.1\r\nHost: a\r\nRange: bytes=1000-1999\r\n\r\n");
    sim.run(Cuts { read: usize::MAX, send: 0 });
    let [
        Span::Start(_),
        Span::Buf(_),
        Span::Site { .. },
        Span::File { number: 0, at: 1_000, len: 1_000, .. },
    ] = *sim.outbox()
    else {
        panic!("{:?}", sim.outbox());
    };
    assert_eq!(sim.bufs_held(), 1);
}

#[test]
fn six_parts_fill_the_outbox_and_hold_one_buffer() {
    let mut sim = sim();
    let request = b"GET /large HTTP/1.1\r\nHost: a\r\nRange: bytes=0-0,2-2,4-4,6-6,8-8,10-10\r\n\r\n";
    sim.client_sends(request);
    sim.run(Cuts { read: usize::MAX, send: 0 });
    assert_eq!((sim.outbox().len(), sim.bufs_held(), sim.input()), (SPAN_COUNT_MAX, 1, Input::Pause));
}

/// The outbox has room for a usual response, but not for this one; and nothing more comes from the client.
#[test]
fn a_range_that_needs_more_room_than_there_is_waits_and_is_answered() {
    let mut sim = sim();
    sim.client_sends(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    sim.run(Cuts { read: usize::MAX, send: 0 });
    assert!(matches!(sim.input(), Input::Bytes { .. }), "room for another response");
    sim.client_sends(b"GET /large HTTP/1.1\r\nHost: a\r\nRange: bytes=0-0,2-2,4-4,6-6,8-8,10-10\r\n\r\n");
    sim.run(Cuts { read: usize::MAX, send: 0 });
    assert_eq!((sim.input(), sim.outbox().len()), (Input::Pause, 3));
    sim.run(Cuts::NONE);
    assert!(sim.wire.windows(14).any(|bytes| bytes == b" 206 Partial C"), "{}", sim.wire.escape_ascii());
    assert_eq!(sim.bufs_held(), 0);
}

#[test]
fn a_small_response_is_two_spans_and_copies_nothing() {
    let mut sim = sim();
    sim.client_sends(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    sim.run(Cuts { read: usize::MAX, send: 0 });
    assert!(matches!(sim.outbox(), [Span::Start(_), Span::Site { .. }]), "{:?}", sim.outbox());
    assert_eq!(sim.bufs_held(), 0, "the receive buffer is free once the head is parsed");
}

#[test]
fn a_large_file_is_named_whole() {
    let mut sim = sim();
    sim.client_sends(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    sim.run(Cuts { read: usize::MAX, send: 0 });
    let [Span::Start(_), Span::Site { .. }, Span::File { number: 0, at: 0, len, .. }] = *sim.outbox() else {
        panic!("{:?}", sim.outbox());
    };
    assert_eq!(len, LARGE_LEN as u64);
}

#[test]
fn a_content_in_an_archive_is_named_whole_and_arrives_however_it_is_cut() {
    for send in [1, 7, 100, usize::MAX] {
        let mut sim = archived();
        sim.client_sends(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
        sim.run(Cuts { read: usize::MAX, send: 0 });
        assert!(matches!(
            sim.outbox(),
            [Span::Start(_), Span::Site { .. }, Span::Archive { at: 512, len: 800, .. }]
        ));
        sim.run(Cuts { send, ..Cuts::NONE });
        assert!(sim.wire.ends_with(&distinct_bytes(800)), "{send}");
    }
}

/// A site out of an archive, with one file.
fn archived() -> Sim {
    static ARCHIVED: LazyLock<(Image, Vec<u8>)> = LazyLock::new(|| {
        let content = distinct_bytes(800);
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        let mut builder = tar::Builder::new(Vec::new());
        builder.append_data(&mut header, "a", &content[..]).unwrap();
        let archive = builder.into_inner().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&archive).unwrap();
        let mut out = Cursor::new(Vec::new());
        pack_tar(&file, "a.tar".as_ref(), "".as_ref(), &mut out, &Options::new(784_111_777)).unwrap();
        (Image::new(Bytes::from(out.into_inner())).unwrap(), archive)
    });
    let mut sim = Sim::new(ARCHIVED.0.clone());
    sim.archive.clone_from(&ARCHIVED.1);
    sim
}

#[test]
fn a_burst_waits_in_the_kernel_while_nothing_is_taken() {
    let mut sim = sim();
    sim.client_sends(&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(100));
    sim.run(Cuts { read: 100, send: 0 });
    assert_eq!(sim.input(), Input::Pause);
    assert!(sim.outbox().len() <= SPAN_COUNT_MAX);
    sim.run(Cuts::NONE);
    assert_eq!(sim.wire.windows(9).filter(|bytes| bytes == b"\r\n\r\nhello").count(), 100);
}

#[test]
fn a_burst_of_redirects_with_queries_holds_few_buffers() {
    let mut sim = sim();
    sim.client_sends(&b"GET /dir?query HTTP/1.1\r\nHost: a\r\n\r\n".repeat(20));
    // Each response is cut in the middle of its start, when the next heads have been read.
    while sim.step(Cuts { read: 100, send: 0 }) || sim.step(Cuts { read: 100, send: 60 }) {}
    let locations = sim.wire.windows(24).filter(|bytes| bytes == b"\r\nLocation: /dir/?query\r");
    assert_eq!(locations.count(), 20);
}

#[test]
fn a_start_that_was_cut_keeps_the_date_it_began_with() {
    let mut sim = sim();
    sim.client_sends(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    sim.run(Cuts { read: usize::MAX, send: 0 });
    sim.step(Cuts { read: usize::MAX, send: 60 });
    sim.pass(5_000);
    sim.run(Cuts::NONE);
    let text = String::from_utf8_lossy(&sim.wire);
    assert!(text.contains("\r\nDate: Mon, 07 Nov 1994 08:49:37 GMT\r\n"), "{text}");
}

#[test]
fn an_exchange_under_way_keeps_its_image_and_the_next_gets_the_new_one() {
    let mut sim = sim();
    sim.client_sends(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    sim.run(Cuts { read: usize::MAX, send: 0 });
    sim.sites.swap(SiteId::FIRST, site("changed"));
    assert_eq!(sim.sites.retire().count(), 0, "the old image is still named");
    sim.client_sends(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    sim.run(Cuts { read: usize::MAX, send: 0 });
    sim.run(Cuts::NONE);
    let text = String::from_utf8_lossy(&sim.wire);
    let (old, new) = (text.find("\r\n\r\nhello").unwrap(), text.find("\r\n\r\nchanged").unwrap());
    assert!(old < new);
    assert_eq!(sim.sites.retire().count(), 1, "and then no more");
}

#[test]
fn what_an_earlier_image_has_under_a_name_with_a_hash_is_served_until_it_is_dropped() {
    const OLD: &str = "/assets/app-B4qfzvDp.js";
    const BOTH: &str = "/assets/both-1f2e3d4c.js";
    let release = |number: &str| {
        let content = number.as_bytes();
        site_of(&[(OLD, content), (BOTH, content), ("/page-B4qfzvDp.html", content), ("/plain.js", content)])
    };
    let mut sim = Sim::new(release("1"));
    let (first, _) = sim.sites.current(SiteId::FIRST);
    let second = sim.sites.add(release("2"));
    let third = sim.sites.add(site_of(&[(BOTH, b"3"), ("/other.js", b"3")]));
    sim.sites.serve(SiteId::FIRST, third, vec![second, first]);
    let ask = |sim: &mut Sim, request: &str| {
        let from = sim.wire.len();
        sim.client_sends(format!("{request} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        sim.run(Cuts::NONE);
        let text = String::from_utf8_lossy(&sim.wire[from..]).into_owned();
        let (head, content) = text.split_once("\r\n\r\n").unwrap();
        format!("{} {content}", &head["HTTP/1.1 ".len()..][..3])
    };
    let missing = ask(&mut sim, "GET /nothing");
    assert!(missing.starts_with("404 "), "{missing}");
    let of_name = format!("GET {OLD}?query");
    #[rustfmt::skip]
    let cases = [
        ("the latest of them",    of_name.clone(),                              "200 2"),
        ("normalized",            format!("GET /x/..{OLD}"),                    "200 2"),
        ("absolute",              format!("GET http://a{OLD}"),                 "200 2"),
        ("HEAD",                  format!("HEAD {OLD}"),                        "200 "),
        ("in the current one",    format!("GET {BOTH}"),                        "200 3"),
        ("a page",                "GET /page-B4qfzvDp.html".to_owned(),         &*missing),
        ("a name without a hash", "GET /plain.js".to_owned(),                   &*missing),
        ("only in the current",   "GET /other.js".to_owned(),                   "200 3"),
        ("another method",        format!("DELETE {OLD}"),                      "405"),
    ];
    for (name, request, want) in cases {
        let got = ask(&mut sim, &request);
        assert!(got.starts_with(want) && (want.len() < 5 || got == want), "{name}: {got}");
    }
    // What is being sent is kept until it has left.
    sim.client_sends(format!("{of_name} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
    sim.run(Cuts { read: usize::MAX, send: 0 });
    sim.sites.serve(SiteId::FIRST, third, vec![first]);
    assert_eq!(sim.sites.retire().count(), 0, "it is still named");
    sim.run(Cuts::NONE);
    assert!(sim.wire.ends_with(b"\r\n\r\n2"));
    assert_eq!(sim.sites.retire().collect::<Vec<_>>(), [second]);
    assert_eq!(ask(&mut sim, &of_name), "200 1");
    sim.sites.serve(SiteId::FIRST, third, Vec::new());
    assert_eq!(sim.sites.retire().collect::<Vec<_>>(), [first]);
    assert_eq!(ask(&mut sim, &of_name), missing);
}

#[test]
fn a_rule_for_all_that_is_missing_stands_back_behind_an_earlier_image() {
    const OLD: &str = "/app-B4qfzvDp.js";
    let cases = [
        ("/* /index.html 200", "HTTP/1.1 200 OK\r\n"),
        ("/* https://elsewhere.example/:splat 302", "HTTP/1.1 302 Found\r\n"),
        ("/* /index.html 404", "HTTP/1.1 404 Not Found\r\n"),
    ];
    for (rule, otherwise) in cases {
        let mut sim = Sim::new(site_of(&[(OLD, b"the old one")]));
        let (old, _) = sim.sites.current(SiteId::FIRST);
        let new = sim.sites.add(site_of(&[("/index.html", b"home"), ("/_redirects", rule.as_bytes())]));
        for (earlier, want) in [(vec![old], "HTTP/1.1 200 OK\r\n"), (vec![], otherwise)] {
            sim.sites.serve(SiteId::FIRST, new, earlier.clone());
            let from = sim.wire.len();
            sim.client_sends(format!("GET {OLD} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
            sim.run(Cuts::NONE);
            let got = String::from_utf8_lossy(&sim.wire[from..]);
            assert!(got.starts_with(want), "{rule}: {got}");
            assert_eq!(got.ends_with("\r\n\r\nthe old one"), !earlier.is_empty(), "{rule}: {got}");
        }
    }
}

#[test]
fn a_stop_answers_one_more_of_the_requests_that_had_arrived_and_says_that_it_closes() {
    let mut sim = sim();
    sim.client_sends(&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(20));
    sim.run(Cuts { read: usize::MAX, send: 0 });
    sim.stop();
    sim.client_ends();
    sim.run(Cuts::NONE);
    let text = String::from_utf8_lossy(&sim.wire);
    let last = text.rfind("HTTP/1.1 200 OK").unwrap();
    assert!(text[last..].contains("\r\nConnection: close\r\n"), "{text}");
    assert_eq!(sim.close(), Close::Both);
}

#[test]
fn a_drain_ends_each_connection_with_its_next_response_and_closes_none_that_waits() {
    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    for asked_before in [false, true] {
        let mut sim = sim();
        if asked_before {
            sim.client_sends(REQUEST);
            sim.run(Cuts::NONE);
        }
        let (from, deadline) = (sim.wire.len(), sim.deadline_ms());
        sim.drain();
        sim.run(Cuts::NONE);
        assert_eq!((sim.close(), sim.deadline_ms()), (Close::No, deadline), "it may still ask");
        sim.client_sends(&REQUEST.repeat(3));
        sim.run(Cuts::NONE);
        let text = String::from_utf8_lossy(&sim.wire[from..]);
        assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 1, "{text}");
        assert!(text.contains("\r\nConnection: close\r\n"), "{text}");
        assert_ne!(sim.close(), Close::No);
    }
}

#[test]
fn behind_the_end_nothing_is_read_while_a_response_leaves() {
    let mut sim = sim();
    sim.client_sends(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    sim.client_ends();
    sim.run(Cuts { read: usize::MAX, send: 0 });
    assert_eq!(
        sim.input(),
        Input::Pause,
        "an engine that asked again would be told of the end again and again"
    );
    sim.run(Cuts::NONE);
    assert_eq!(sim.close(), Close::Both);
}

#[test]
fn an_empty_line_behind_a_request_begins_no_head() {
    let mut sim = sim();
    sim.client_sends(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n\r\n");
    sim.run(Cuts::NONE);
    assert_eq!((sim.bufs_held(), sim.deadline_ms()), (0, 75_000));
}

/// What each state waits for, and what happens when it waited in vain.
#[test]
fn deadlines_follow_the_state() {
    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    #[rustfmt::skip]
    let cases: &[(&str, &[u8], usize, u64, &str)] = &[
        // what it shows              bytes                                             send        deadline  then
        ("the first head",            b"",                                              usize::MAX, 20_000,   ""),
        ("a head that has begun",     b"GET / HT",                                      usize::MAX, 20_000,   "HTTP/1.1 408 "),
        ("the next request",          REQUEST,                                          usize::MAX, 75_000,   ""),
        ("a reader who takes nothing", REQUEST,                                         0,          30_000,   ""),
        ("content",                   b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n", usize::MAX, 30_000, ""),
        ("the client's close",        b"GET\r\n\r\n",                                   usize::MAX, 2_000,    ""),
    ];
    for &(name, bytes, send, deadline_ms, then) in cases {
        let mut sim = sim();
        sim.client_sends(bytes);
        sim.run(Cuts { read: usize::MAX, send });
        assert_eq!(sim.deadline_ms(), deadline_ms, "{name}");
        let before = sim.wire.len();
        sim.pass(deadline_ms);
        sim.run(Cuts { read: usize::MAX, send });
        let text = String::from_utf8_lossy(&sim.wire[before..]).into_owned();
        assert!(text.starts_with(then) && (then.is_empty() == text.is_empty()), "{name}: {text}");
        sim.client_ends();
        sim.run(Cuts { read: usize::MAX, send });
        assert_eq!(sim.close(), Close::Both, "{name}");
    }
}

#[test]
fn a_head_in_drops_does_not_put_its_deadline_off() {
    let mut sim = sim();
    for byte in b"GET / HTTP/1.1\r\nHost: a" {
        sim.client_sends(&[*byte]);
        sim.run(Cuts::NONE);
        sim.pass(500);
    }
    assert!(sim.deadline_ms() <= 20_000 - 500 * 23, "{} ms left", sim.deadline_ms());
}

#[test]
fn content_in_drops_does_not_put_its_deadline_off() {
    let mut sim = sim();
    sim.client_sends(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n");
    sim.run(Cuts::NONE);
    let answered = sim.wire.len();
    for left_ms in (1..=30).rev().map(|s| s * 1_000) {
        assert_eq!((sim.deadline_ms(), sim.close()), (left_ms, Close::No));
        sim.client_sends(b"x");
        sim.run(Cuts::NONE);
        sim.pass(1_000);
    }
    sim.run(Cuts::NONE);
    assert_eq!(sim.close(), Close::Write, "what is still under way must not reset the response");
    sim.client_sends(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    sim.pass(2_000);
    sim.run(Cuts::NONE);
    assert_eq!((sim.wire.len(), sim.close()), (answered, Close::Both));
}

#[test]
fn a_refused_client_that_sends_on_is_waited_for_as_long_as_content_is() {
    let mut sim = sim();
    sim.client_sends(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999\r\n\r\n");
    sim.run(Cuts::NONE);
    let answered = sim.wire.len();
    for left_s in (1..=30).rev() {
        assert_eq!((sim.deadline_ms(), sim.close()), (2_000.min(left_s * 1_000), Close::Write));
        sim.pass(1_000);
        sim.client_sends(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        sim.run(Cuts::NONE);
    }
    assert_eq!((sim.wire.len(), sim.close()), (answered, Close::Both));
}

/// When the last response has left, and its end not reached the client: closing would lose that if the client sends on.
#[test]
fn a_slow_reader_of_the_last_response_is_waited_for_at_the_least_rate() {
    type Case<'a> = (&'a str, &'a [(u64, u64)], bool);
    #[rustfmt::skip]
    let cases: &[Case<'_>] = &[
        // what it shows                       windows, each with what is not acknowledged   waited for
        ("all has arrived",                    &[(2_000, 0)],                                false),
        ("not all has",                        &[(2_000, 60_000)],                           true),
        ("then nothing more",                  &[(2_000, 60_000), (30_000, 60_000)],         false),
        ("then at the least rate",             &[(2_000, 60_000), (30_000, 45_000), (30_000, 30_000)], true),
        ("then below it",                      &[(2_000, 60_000), (30_000, 45_000), (30_000, 30_001)], false),
        ("then the rest",                      &[(2_000, 60_000), (30_000, 0)],              false),
    ];
    for &(name, windows, waited_for) in cases {
        let mut sim = sim();
        sim.client_sends(b"GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nmore");
        sim.run(Cuts::NONE);
        for &(window_ms, unacked) in windows {
            assert_eq!((sim.deadline_ms(), sim.close()), (window_ms, Close::Write), "{name}");
            sim.unacked = unacked;
            sim.client_sends(b"and more");
            sim.pass(window_ms);
            sim.run(Cuts::NONE);
        }
        assert_eq!(sim.close() == Close::Write, waited_for, "{name}");
    }
}

#[test]
fn empty_lines_between_requests_do_not_put_the_deadline_off() {
    let mut sim = sim();
    sim.client_sends(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    sim.run(Cuts::NONE);
    for left_s in (1..=75).rev() {
        assert_eq!(sim.deadline_ms(), left_s * 1_000);
        sim.client_sends(b"\r\n");
        sim.run(Cuts::NONE);
        sim.pass(1_000);
    }
    sim.run(Cuts::NONE);
    assert_eq!(sim.close(), Close::Both);
}

/// What a client takes of a long response in each window of 30 seconds, and whether it is served on.
#[test]
fn a_reader_is_served_on_at_the_least_rate_and_cut_off_below_it() {
    type Case<'a> = (&'a str, u32, &'a [(usize, u64)], bool);
    #[rustfmt::skip]
    let cases: &[Case<'_>] = &[
        // what it shows                             rate  sent, of that unacked    served on
        ("the least rate",                            500, &[(15_000, 0); 4],          true),
        ("a byte less",                               500, &[(15_000, 0), (14_999, 0)], false),
        ("a byte now and then",                       500, &[(1, 0)],                  false),
        ("nothing",                                   500, &[(0, 0)],                  false),
        ("another rate",                            1_000, &[(29_999, 0)],             false),
        ("any byte will do",                            0, &[(1, 0); 9],               true),
        ("any byte, but there is none",                 0, &[(1, 0), (0, 0)],          false),
        ("full buffers that the client empties",      500, &[(80_000, 60_000), (0, 45_000), (0, 30_000)], true),
        ("full buffers that it leaves full",          500, &[(80_000, 60_000), (0, 60_000)], false),
        ("full buffers that it empties too slowly",   500, &[(80_000, 60_000), (0, 45_001)], false),
        ("filling buffers is not taking",             500, &[(80_000, 60_000), (15_000, 75_000)], false),
    ];
    for &(name, send_rate_min, windows, served_on) in cases {
        let mut sim = sim();
        sim.sites.limits_mut(SiteId::FIRST).send_rate_min = send_rate_min;
        sim.client_sends(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
        sim.run(Cuts { read: usize::MAX, send: 0 });
        for (number, &(send, unacked)) in windows.iter().enumerate() {
            assert_eq!((sim.deadline_ms(), sim.close()), (30_000, Close::No), "{name}, window {number}");
            // Some time into the window: it is not put off.
            sim.pass(10_000);
            sim.step(Cuts { read: usize::MAX, send });
            sim.unacked = unacked;
            assert_eq!(sim.deadline_ms(), 20_000, "{name}, window {number}");
            sim.pass(20_000);
            sim.run(Cuts { read: usize::MAX, send: 0 });
        }
        assert_eq!(sim.close() == Close::No, served_on, "{name}");
    }
}

#[test]
fn behind_the_last_request_that_a_connection_takes_nothing_is_answered() {
    const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    const OLD: &[u8] = b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    const POST: &[u8] =
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 27\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n";
    type Case<'a> = (&'a str, u32, &'a [&'a [u8]], &'a [&'a str]);
    #[rustfmt::skip]
    let cases: &[Case<'_>] = &[
        // what it shows                     most  requests               responses, up to what tells them apart
        ("one",                              1,    &[GET, GET],           &["200 close"]),
        ("three of five",                    3,    &[GET; 5],             &["200", "200", "200 close"]),
        ("three, and no more come",          3,    &[GET; 3],             &["200", "200", "200 close"]),
        ("one less",                         3,    &[GET; 2],             &["200", "200"]),
        ("content counts with its request",  2,    &[POST, GET, GET],     &["405", "200 close"]),
        ("content of the last",              2,    &[GET, POST, GET],     &["200", "405 close"]),
        ("HTTP/1.0",                         2,    &[OLD, OLD, OLD],      &["200 keep-alive", "200 close"]),
        ("empty lines do not count",         2,    &[b"\r\n", GET, b"\r\n", GET, GET], &["200", "200 close"]),
        ("more than fit into an outbox",     20,   &[GET; 30],            &[&["200"; 19][..], &["200 close"]].concat()),
    ];
    for &(name, most, requests, want) in cases {
        for read in [1, 7, 100, usize::MAX] {
            let mut sim = sim();
            sim.sites.limits_mut(SiteId::FIRST).requests_max = most.try_into().unwrap();
            sim.client_sends(&requests.concat());
            sim.run(Cuts { read, ..Cuts::NONE });
            let text = String::from_utf8_lossy(&sim.wire);
            let heads = text.split("HTTP/1.1 ").skip(1).map(|response| {
                let option =
                    response.split_once("\r\nConnection: ").map(|(_, rest)| rest.lines().next().unwrap());
                [Some(&response[..3]), option].into_iter().flatten().collect::<Vec<_>>().join(" ")
            });
            assert_eq!(heads.collect::<Vec<_>>(), want, "{name}, {read} bytes at a time");
            // What comes behind the last is read, so that it resets nothing, and dropped.
            let close = if want.last().unwrap().ends_with("close") { Close::Write } else { Close::No };
            let input = Input::Bytes { max: BUF_LEN as u32 };
            assert_eq!((sim.input(), sim.close()), (input, close), "{name}, {read} bytes at a time");
        }
    }
}

#[test]
fn a_stop_finishes_what_has_begun() {
    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    #[rustfmt::skip]
    let cases: &[(&str, &[u8], &[u8], &str)] = &[
        // what it shows                before       after          answered
        ("nothing has begun",           b"",         b"",           ""),
        ("idle between requests",       REQUEST,     b"",           ""),
        ("a head has begun",            &REQUEST[..9], &REQUEST[9..], "\r\nConnection: close\r\n"),
    ];
    for &(name, before, after, answered) in cases {
        let mut sim = sim();
        sim.client_sends(before);
        sim.run(Cuts::NONE);
        let begun = sim.wire.len();
        sim.stop();
        sim.client_sends(after);
        sim.client_ends();
        sim.run(Cuts::NONE);
        let text = String::from_utf8_lossy(&sim.wire[begun..]).into_owned();
        assert!(text.contains(answered) && (answered.is_empty() == text.is_empty()), "{name}: {text}");
        assert_eq!(sim.close(), Close::Both, "{name}");
    }
}
