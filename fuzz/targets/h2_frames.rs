//! Frames of HTTP/2: a cut changes nothing, a table of the rules agrees on each error, and the frames that the server writes are read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tarpon_http::h2::{
    ErrorCode, ErrorScope, FRAME_HEADER_LEN, FRAME_PAYLOAD_LEN_MAX, Frame, FrameError, FrameFlags,
    FrameHeader, FrameParts, FrameType, PREFACE, PREFACE_LEN, PrefaceCheck, check_preface, go_away, ping_ack,
    rst_stream, window_update, write_settings,
};

fuzz_target!(|input: &[u8]| {
    preface_is_a_prefix(input);
    let mut rest = input.strip_prefix(PREFACE).unwrap_or(input);
    while let Some(header) = FrameHeader::decode(rest) {
        let behind = &rest[FRAME_HEADER_LEN..];
        let mut encoded = header.encode();
        encoded[5] |= rest[5] & 0x80;
        assert_eq!(encoded, rest[..FRAME_HEADER_LEN]);
        for cut in 0..FRAME_HEADER_LEN {
            assert_eq!(FrameHeader::decode(&rest[..cut]), None);
        }
        let Some(payload) = behind.get(..header.len as usize) else {
            // The header alone decides, or the frame is incomplete.
            let error = header.check().err().map(|error| (error.scope(), error.code()));
            assert!(error.is_none() || error == expected_error(&header, None));
            return;
        };
        frame_agrees(&header, payload);
        rest = &behind[payload.len()..];
    }
});

/// Checks that the preface is found at any length.
fn preface_is_a_prefix(input: &[u8]) {
    let same_count = input.iter().zip(PREFACE).take_while(|(found, want)| found == want).count();
    let want = match same_count {
        PREFACE_LEN => PrefaceCheck::Complete,
        count if count == input.len() => PrefaceCheck::Incomplete,
        _ => PrefaceCheck::Mismatch,
    };
    assert_eq!(check_preface(input), want);
}

/// Checks a frame with its whole payload.
fn frame_agrees(header: &FrameHeader, payload: &[u8]) {
    let frame = Frame::parse(header, payload);
    let error = frame.as_ref().err().map(|error: &FrameError| (error.scope(), error.code()));
    assert_eq!(error, expected_error(header, Some(payload)), "{header:?}");
    if let Err(error) = header.check() {
        assert_eq!(frame, Err(error));
        return;
    }
    let Ok(frame) = frame else { return };
    match frame {
        Frame::Data { content, .. }
        | Frame::Headers { block: content, .. }
        | Frame::Continuation { block: content, .. } => {
            let parts = FrameParts::decode(header, &payload[..payload.len().min(1)]).unwrap();
            let parts = parts.unwrap_or(FrameParts { prefix_len: 0, content_len: 0, padding_len: 0 });
            assert_eq!(&payload[parts.content()], content);
            assert_eq!(parts.content().end + usize::from(parts.padding_len), payload.len());
        }
        Frame::Settings(settings) => {
            let settings: Vec<_> = settings.iter().collect();
            let mut wire = vec![0; FRAME_HEADER_LEN + payload.len()];
            let len = write_settings(&settings, &mut wire);
            let Ok(Frame::Settings(again)) = parse(&wire[..len]) else { panic!("settings") };
            assert!(again.iter().eq(settings));
        }
        Frame::Ping(data) => assert_eq!(parse(&ping_ack(data)), Ok(Frame::PingAck(data))),
        Frame::RstStream(code) => assert_eq!(parse(&rst_stream(header.stream, code)), Ok(frame)),
        Frame::GoAway { last_stream, code } => assert_eq!(parse(&go_away(last_stream, code)), Ok(frame)),
        Frame::WindowUpdate(increment) => {
            assert_eq!(parse(&window_update(header.stream, increment)), Ok(frame))
        }
        Frame::PriorityUpdate { stream, priority } => assert!(stream > 0 && priority.urgency <= 7),
        Frame::Priority | Frame::SettingsAck | Frame::PingAck(_) | Frame::Unknown => {}
    }
}

fn parse(wire: &[u8]) -> Result<Frame<'_>, FrameError> {
    let header = FrameHeader::decode(wire).expect("a header");
    Frame::parse(&header, &wire[FRAME_HEADER_LEN..])
}

/// Returns the error that RFC 9113, section 6, asks for. Without a payload: the error of the header.
fn expected_error(header: &FrameHeader, payload: Option<&[u8]>) -> Option<(ErrorScope, ErrorCode)> {
    const SIZE: (ErrorScope, ErrorCode) = (ErrorScope::Connection, ErrorCode::FRAME_SIZE_ERROR);
    const PROTOCOL: (ErrorScope, ErrorCode) = (ErrorScope::Connection, ErrorCode::PROTOCOL_ERROR);
    let len = header.len as usize;
    let has = |flag: FrameFlags| header.flags.has(flag);
    let word = || {
        payload.map(|payload| {
            payload.iter().take(4).fold(0, |word, byte| word << 8 | u32::from(*byte)) & 0x7fff_ffff
        })
    };
    let is_of_connection = header.stream == 0;
    if len > FRAME_PAYLOAD_LEN_MAX {
        return Some(SIZE);
    }
    match FrameType::from_number(header.type_number)? {
        FrameType::Data
        | FrameType::Headers
        | FrameType::RstStream
        | FrameType::Priority
        | FrameType::Continuation
            if is_of_connection =>
        {
            Some(PROTOCOL)
        }
        FrameType::Settings | FrameType::Ping | FrameType::GoAway | FrameType::PriorityUpdate
            if !is_of_connection =>
        {
            Some(PROTOCOL)
        }
        FrameType::PushPromise => Some(PROTOCOL),
        FrameType::Data if has(FrameFlags::PADDED) && len == 0 => {
            Some((ErrorScope::Stream, ErrorCode::FRAME_SIZE_ERROR))
        }
        FrameType::Headers => {
            let prefix = usize::from(has(FrameFlags::PADDED)) + 5 * usize::from(has(FrameFlags::PRIORITY));
            if len < prefix {
                return Some(SIZE);
            }
            let padding = payload.filter(|_| has(FrameFlags::PADDED)).map_or(0, |payload| payload[0].into());
            (prefix + padding > len).then_some(PROTOCOL)
        }
        FrameType::Data => {
            let padding = payload.filter(|_| has(FrameFlags::PADDED)).map_or(0, |payload| payload[0].into());
            (has(FrameFlags::PADDED) && padding >= len).then_some(PROTOCOL)
        }
        FrameType::Continuation => None,
        FrameType::Priority => (len != 5).then_some((ErrorScope::Stream, ErrorCode::FRAME_SIZE_ERROR)),
        FrameType::RstStream => (len != 4).then_some(SIZE),
        FrameType::Settings if has(FrameFlags::ACK) => (len != 0).then_some(SIZE),
        FrameType::Settings if !len.is_multiple_of(6) => Some(SIZE),
        FrameType::Settings => payload?.chunks(6).find_map(|setting| {
            let value = u32::from_be_bytes([setting[2], setting[3], setting[4], setting[5]]);
            match u16::from_be_bytes([setting[0], setting[1]]) {
                2 | 8 | 9 if value > 1 => Some(PROTOCOL),
                4 if value >= 1 << 31 => Some((ErrorScope::Connection, ErrorCode::FLOW_CONTROL_ERROR)),
                5 if !(1 << 14..1 << 24).contains(&value) => Some(PROTOCOL),
                _ => None,
            }
        }),
        FrameType::Ping => (len != 8).then_some(SIZE),
        FrameType::GoAway => (len < 8).then_some(SIZE),
        FrameType::WindowUpdate if len != 4 => Some(SIZE),
        FrameType::WindowUpdate if word() == Some(0) => {
            let scope = if is_of_connection { ErrorScope::Connection } else { ErrorScope::Stream };
            Some((scope, ErrorCode::PROTOCOL_ERROR))
        }
        FrameType::WindowUpdate => None,
        FrameType::PriorityUpdate if len < 4 => Some(SIZE),
        FrameType::PriorityUpdate => (word() == Some(0)).then_some(PROTOCOL),
    }
}
