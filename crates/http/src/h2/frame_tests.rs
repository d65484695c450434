//! Frames as a client sends them: each rule of RFC 9113, section 6, with its error.

extern crate std;
use std::format;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

/// A frame on the wire: type, flags, stream, payload.
type FrameRow = (u8, u8, u32, &'static [u8]);

#[test]
#[rustfmt::skip]
fn frames_are_parsed() {
    let block: &[u8] = b"\x82";
    let cases: &[(&str, FrameRow, Frame<'_>)] = &[
        // case                     type, flags, stream, payload                        frame
        ("DATA",                    (0x0, 0x0, 1, b"content"),                          Frame::Data { content: b"content", ends_stream: false }),
        ("DATA, empty",             (0x0, 0x1, 1, b""),                                 Frame::Data { content: b"", ends_stream: true }),
        ("DATA with padding",       (0x0, 0x9, 3, b"\x02abc\0\0"),                      Frame::Data { content: b"abc", ends_stream: true }),
        ("DATA, all padding",       (0x0, 0x8, 3, b"\x03\0\0\0"),                       Frame::Data { content: b"", ends_stream: false }),
        ("DATA, padding not zero",  (0x0, 0x8, 3, b"\x02axx"),                          Frame::Data { content: b"a", ends_stream: false }),
        ("DATA, unknown flags",     (0x0, 0xf6, 3, b"\x02"),                            Frame::Data { content: b"\x02", ends_stream: false }),
        ("HEADERS",                 (0x1, 0x5, 1, b"\x82"),                             Frame::Headers { block, ends_stream: true, ends_block: true }),
        ("HEADERS, empty",          (0x1, 0x0, 1, b""),                                 Frame::Headers { block: b"", ends_stream: false, ends_block: false }),
        ("HEADERS with priority",   (0x1, 0x24, 1, b"\x80\0\0\x03\xff\x82"),            Frame::Headers { block, ends_stream: false, ends_block: true }),
        ("HEADERS, on itself",      (0x1, 0x24, 1, b"\0\0\0\x01\x0f\x82"),              Frame::Headers { block, ends_stream: false, ends_block: true }),
        ("HEADERS with both",       (0x1, 0x2c, 1, b"\x01\0\0\0\x03\x0f\x82\0"),        Frame::Headers { block, ends_stream: false, ends_block: true }),
        ("PRIORITY",                (0x2, 0x0, 9, b"\x80\0\0\x03\xff"),                 Frame::Priority),
        ("RST_STREAM",              (0x3, 0xff, 9, b"\0\0\0\x08"),                      Frame::RstStream(ErrorCode::CANCEL)),
        ("RST_STREAM, unknown",     (0x3, 0x0, 9, b"\xff\0\0\0"),                       Frame::RstStream(ErrorCode(0xff00_0000))),
        ("SETTINGS, acknowledged",  (0x4, 0x1, 0, b""),                                 Frame::SettingsAck),
        ("PING",                    (0x6, 0x0, 0, b"12345678"),                         Frame::Ping(*b"12345678")),
        ("PING, acknowledged",      (0x6, 0x1, 0, b"12345678"),                         Frame::PingAck(*b"12345678")),
        ("GOAWAY",                  (0x7, 0x0, 0, b"\xff\xff\xff\xff\0\0\0\x01"),       Frame::GoAway { last_stream: MAX_31_BITS, code: ErrorCode::PROTOCOL_ERROR }),
        ("GOAWAY with debug data",  (0x7, 0x0, 0, b"\0\0\0\0\0\0\0\0bye"),              Frame::GoAway { last_stream: 0, code: ErrorCode::NO_ERROR }),
        ("WINDOW_UPDATE",           (0x8, 0x0, 0, b"\x80\0\0\x01"),                     Frame::WindowUpdate(1)),
        ("WINDOW_UPDATE, the most", (0x8, 0x0, 5, b"\x7f\xff\xff\xff"),                 Frame::WindowUpdate(MAX_31_BITS)),
        ("CONTINUATION",            (0x9, 0x4, 1, b"\x82"),                             Frame::Continuation { block, ends_block: true }),
        ("CONTINUATION, unpadded",  (0x9, 0x2b, 1, b"\x82"),                            Frame::Continuation { block, ends_block: false }),
        ("PRIORITY_UPDATE",         (0x10, 0x0, 0, b"\x80\0\0\x05u=1, i"),              Frame::PriorityUpdate { stream: 5, priority: Priority { urgency: 1, is_incremental: true } }),
        ("PRIORITY_UPDATE, bare",   (0x10, 0x0, 0, b"\0\0\0\x05"),                      Frame::PriorityUpdate { stream: 5, priority: Priority::default() }),
        ("PRIORITY_UPDATE, bad",    (0x10, 0x0, 0, b"\0\0\0\x05\xff"),                  Frame::PriorityUpdate { stream: 5, priority: Priority::default() }),
        ("an unknown type",         (0xa, 0xff, 0, b"anything"),                        Frame::Unknown),
        ("another on a stream",     (0xff, 0x0, 7, b""),                                Frame::Unknown),
    ];
    for &(name, row, want) in cases {
        let (header, payload) = frame(row);
        assert_eq!(Frame::parse(&header, payload), Ok(want), "{name}");
    }
}

#[test]
fn settings_are_parsed() {
    let (header, payload) = frame((0x4, 0x0, 0, b"\0\x03\0\0\0\x64\0\x04\0\x01\0\0"));
    let Ok(Frame::Settings(settings)) = Frame::parse(&header, payload) else { panic!("settings") };
    let settings: Vec<_> = settings.iter().map(|setting| (setting.name, setting.value)).collect();
    assert_eq!(
        settings,
        [(SettingName::MaxConcurrentStreams, 100), (SettingName::InitialWindowSize, 0x1_0000)]
    );
}

#[test]
#[rustfmt::skip]
fn malformed_frames_are_refused() {
    use ErrorScope::{Connection, Stream};
    let cases: &[(&str, FrameRow, ErrorScope, ErrorCode, &str)] = &[
        // case                         type, flags, stream, payload               error                                    RFC 9113
        ("DATA without a stream",       (0x0, 0x0, 0, b"x"),                       Connection, ErrorCode::PROTOCOL_ERROR,     "6.1"),
        ("DATA, too much padding",      (0x0, 0x8, 1, b"\x02x"),                   Connection, ErrorCode::PROTOCOL_ERROR,     "6.1"),
        ("DATA, padding of all",        (0x0, 0x8, 1, b"\x01"),                    Connection, ErrorCode::PROTOCOL_ERROR,     "6.1"),
        ("DATA, padding without len",   (0x0, 0x8, 1, b""),                        Stream,     ErrorCode::FRAME_SIZE_ERROR,   "4.2"),
        ("HEADERS without a stream",    (0x1, 0x4, 0, b"\x82"),                    Connection, ErrorCode::PROTOCOL_ERROR,     "6.2"),
        ("HEADERS, too much padding",   (0x1, 0xc, 1, b"\xff\x82"),                Connection, ErrorCode::PROTOCOL_ERROR,     "6.2"),
        ("HEADERS, padding in priority", (0x1, 0x2c, 1, b"\x01\0\0\0\0\x01"),      Connection, ErrorCode::PROTOCOL_ERROR,     "6.2"),
        ("HEADERS, padding without len", (0x1, 0xc, 1, b""),                       Connection, ErrorCode::FRAME_SIZE_ERROR,   "4.2"),
        ("HEADERS, half a priority",    (0x1, 0x24, 1, b"\0\0\0\x01"),             Connection, ErrorCode::FRAME_SIZE_ERROR,   "4.2"),
        ("PRIORITY without a stream",   (0x2, 0x0, 0, b"\0\0\0\x01\x0f"),          Connection, ErrorCode::PROTOCOL_ERROR,     "6.3"),
        ("PRIORITY, short",             (0x2, 0x0, 1, b"\0\0\0\x03"),              Stream,     ErrorCode::FRAME_SIZE_ERROR,   "6.3"),
        ("PRIORITY, long",              (0x2, 0x0, 1, b"\0\0\0\x03\0\0"),          Stream,     ErrorCode::FRAME_SIZE_ERROR,   "6.3"),
        ("RST_STREAM without a stream", (0x3, 0x0, 0, b"\0\0\0\x08"),              Connection, ErrorCode::PROTOCOL_ERROR,     "6.4"),
        ("RST_STREAM, short",           (0x3, 0x0, 1, b"\0\0\x08"),                Connection, ErrorCode::FRAME_SIZE_ERROR,   "6.4"),
        ("RST_STREAM, long",            (0x3, 0x0, 1, b"\0\0\0\0\x08"),            Connection, ErrorCode::FRAME_SIZE_ERROR,   "6.4"),
        ("SETTINGS on a stream",        (0x4, 0x0, 1, b""),                        Connection, ErrorCode::PROTOCOL_ERROR,     "6.5"),
        ("SETTINGS, cut",               (0x4, 0x0, 0, b"\0\x03\0\0\0"),            Connection, ErrorCode::FRAME_SIZE_ERROR,   "6.5"),
        ("SETTINGS, acknowledged long", (0x4, 0x1, 0, b"\0\x03\0\0\0\x64"),        Connection, ErrorCode::FRAME_SIZE_ERROR,   "6.5"),
        ("SETTINGS, push of 2",         (0x4, 0x0, 0, b"\0\x02\0\0\0\x02"),        Connection, ErrorCode::PROTOCOL_ERROR,     "6.5.2"),
        ("SETTINGS, a large window",    (0x4, 0x0, 0, b"\0\x04\x80\0\0\0"),        Connection, ErrorCode::FLOW_CONTROL_ERROR, "6.5.2"),
        ("SETTINGS, short frames",      (0x4, 0x0, 0, b"\0\x05\0\0\x3f\xff"),      Connection, ErrorCode::PROTOCOL_ERROR,     "6.5.2"),
        ("PUSH_PROMISE",                (0x5, 0x4, 1, b"\0\0\0\x02\x82"),          Connection, ErrorCode::PROTOCOL_ERROR,     "8.4"),
        ("PING on a stream",            (0x6, 0x0, 1, b"12345678"),                Connection, ErrorCode::PROTOCOL_ERROR,     "6.7"),
        ("PING, short",                 (0x6, 0x0, 0, b"1234567"),                 Connection, ErrorCode::FRAME_SIZE_ERROR,   "6.7"),
        ("PING, long",                  (0x6, 0x1, 0, b"123456789"),               Connection, ErrorCode::FRAME_SIZE_ERROR,   "6.7"),
        ("GOAWAY on a stream",          (0x7, 0x0, 1, b"\0\0\0\0\0\0\0\0"),        Connection, ErrorCode::PROTOCOL_ERROR,     "6.8"),
        ("GOAWAY, short",               (0x7, 0x0, 0, b"\0\0\0\0\0\0\0"),          Connection, ErrorCode::FRAME_SIZE_ERROR,   "4.2"),
        ("WINDOW_UPDATE, short",        (0x8, 0x0, 1, b"\0\0\x01"),                Connection, ErrorCode::FRAME_SIZE_ERROR,   "6.9"),
        ("WINDOW_UPDATE of nothing",    (0x8, 0x0, 1, b"\x80\0\0\0"),              Stream,     ErrorCode::PROTOCOL_ERROR,     "6.9"),
        ("the same, of the connection", (0x8, 0x0, 0, b"\0\0\0\0"),                Connection, ErrorCode::PROTOCOL_ERROR,     "6.9"),
        ("CONTINUATION without stream", (0x9, 0x4, 0, b"\x82"),                    Connection, ErrorCode::PROTOCOL_ERROR,     "6.10"),
        ("PRIORITY_UPDATE on a stream", (0x10, 0x0, 1, b"\0\0\0\x01u=1"),          Connection, ErrorCode::PROTOCOL_ERROR,     "RFC 9218, 7.1"),
        ("PRIORITY_UPDATE of 0",        (0x10, 0x0, 0, b"\x80\0\0\0u=1"),          Connection, ErrorCode::PROTOCOL_ERROR,     "RFC 9218, 7.1"),
        ("PRIORITY_UPDATE, short",      (0x10, 0x0, 0, b"\0\0\0"),                 Connection, ErrorCode::FRAME_SIZE_ERROR,   "4.2"),
    ];
    for &(name, row, scope, code, section) in cases {
        let (header, payload) = frame(row);
        let error = Frame::parse(&header, payload).expect_err(name);
        assert_eq!((error.scope(), error.code()), (scope, code), "{name}: {section}, {error:?}");
    }
}

#[test]
fn frame_that_is_too_long_is_refused_by_its_header() {
    for type_number in 0..=u8::MAX {
        let len = FRAME_PAYLOAD_LEN_MAX as u32 + 1;
        let header = FrameHeader { len, type_number, flags: FrameFlags::NONE, stream: 1 };
        let error = header.check().expect_err("longer than the maximum");
        assert_eq!((error.scope(), error.code()), (ErrorScope::Connection, ErrorCode::FRAME_SIZE_ERROR));
    }
}

#[test]
fn parts_are_known_with_the_first_byte() {
    let (header, payload) = frame((0x1, 0x2c, 1, b"\x02\0\0\0\x03\x0f\x82\x86\0\0"));
    assert_eq!(FrameParts::decode(&header, b""), Ok(None));
    let want = FrameParts { prefix_len: 6, content_len: 2, padding_len: 2 };
    for cut in 1..=payload.len() {
        assert_eq!(FrameParts::decode(&header, &payload[..cut]), Ok(Some(want)), "{cut} bytes");
    }
    assert_eq!(want.content(), 6..8);
    let (header, _) = frame((0x0, 0x0, 1, b"content"));
    let want = FrameParts { prefix_len: 0, content_len: 7, padding_len: 0 };
    assert_eq!(FrameParts::decode(&header, b""), Ok(Some(want)));
}

#[test]
#[rustfmt::skip]
fn written_frames_are_read_again() {
    let cases: &[(&str, Vec<u8>, &str)] = &[
        ("DATA",          data_header(1, 0, true).into(),                                   "Ok(Data { content: [], ends_stream: true })"),
        ("HEADERS",       headers_header(3, 0, false, true).into(),                         "Ok(Headers { block: [], ends_stream: true, ends_block: false })"),
        ("HEADERS, all",  headers_header(3, 0, true, false).into(),                         "Ok(Headers { block: [], ends_stream: false, ends_block: true })"),
        ("CONTINUATION",  continuation_header(3, 0, true).into(),                           "Ok(Continuation { block: [], ends_block: true })"),
        ("RST_STREAM",    rst_stream(5, ErrorCode::REFUSED_STREAM).into(),                  "Ok(RstStream(ErrorCode(7)))"),
        ("WINDOW_UPDATE", window_update(0, MAX_31_BITS).into(),                             "Ok(WindowUpdate(2147483647))"),
        ("PING",          ping_ack(*b"\x01\x02\x03\x04\x05\x06\x07\x08").into(),            "Ok(PingAck([1, 2, 3, 4, 5, 6, 7, 8]))"),
        ("GOAWAY",        go_away(7, ErrorCode::ENHANCE_YOUR_CALM).into(),                  "Ok(GoAway { last_stream: 7, code: ErrorCode(11) })"),
        ("SETTINGS",      SETTINGS_ACK.into(),                                              "Ok(SettingsAck)"),
    ];
    for (name, wire, want) in cases {
        let header = FrameHeader::decode(wire).expect(name);
        assert_eq!(header.len as usize, wire.len() - FRAME_HEADER_LEN, "{name}");
        assert_eq!(&format!("{:?}", Frame::parse(&header, &wire[FRAME_HEADER_LEN..])), want, "{name}");
    }
}

proptest! {
    #[test]
    fn any_frame_is_parsed_or_refused(
        type_number in 0..=0x11_u8, flags: u8, stream in 0..4_u32, payload in proptest::collection::vec(any::<u8>(), 0..40)
    ) {
        let header = FrameHeader { len: payload.len() as u32, type_number, flags: FrameFlags(flags), stream };
        let frame = Frame::parse(&header, &payload);
        if let Err(error) = header.check() {
            prop_assert_eq!(frame, Err(error));
        }
        let is_in_parts = matches!(type_number, 0x0 | 0x1 | 0x9);
        if let (true, Ok(Frame::Data { content, .. } | Frame::Headers { block: content, .. } | Frame::Continuation { block: content, .. })) =
            (is_in_parts, frame)
        {
            let parts = FrameParts::decode(&header, &payload[..payload.len().min(1)]).unwrap().unwrap();
            let len = usize::from(parts.prefix_len) + content.len() + usize::from(parts.padding_len);
            prop_assert_eq!(len, payload.len());
            prop_assert_eq!(&payload[parts.content()], content);
        }
    }
}

fn frame((type_number, flags, stream, payload): FrameRow) -> (FrameHeader, &'static [u8]) {
    let flags = FrameFlags(flags);
    (FrameHeader { len: payload.len() as u32, type_number, flags, stream }, payload)
}
