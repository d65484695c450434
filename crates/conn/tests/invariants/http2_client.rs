//! A client of HTTP/2 for these tests: writes frames, and reads those of the server.

use tarpon_conn::sim::{Cuts, Sim};
use tarpon_http::h2::{
    FRAME_HEADER_LEN, FrameFlags, FrameHeader, FrameType, PREFACE,
    hpack::{FieldSection, HpackDecoder, SECTION_SIZE_MAX, encode_field},
};

/// Returns a frame.
pub(crate) fn frame(kind: FrameType, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let header = FrameHeader::new(kind, FrameFlags(flags), stream, payload.len() as u32);
    [&header.encode()[..], payload].concat()
}

/// Returns the first bytes of a client: the preface, and these settings.
pub(crate) fn preface(settings: &[(u16, u32)]) -> Vec<u8> {
    let payload: Vec<u8> = settings
        .iter()
        .flat_map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat())
        .collect();
    [&PREFACE[..], &frame(FrameType::Settings, 0, 0, &payload)].concat()
}

/// Returns a field block.
pub(crate) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        encode_field(name.as_bytes(), value.as_bytes(), &mut |byte| block.push(byte));
    }
    block
}

/// Returns the field block of a request.
pub(crate) fn request(method: &str, path: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let pseudo = [(":method", method), (":scheme", "http"), (":authority", "a"), (":path", path)];
    block(&[&pseudo[..], fields].concat())
}

/// Returns HEADERS of a request without content.
pub(crate) fn get(stream: u32, path: &str) -> Vec<u8> {
    frame(FrameType::Headers, END_HEADERS | END_STREAM, stream, &request("GET", path, &[]))
}

/// Returns WINDOW_UPDATE.
pub(crate) fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    frame(FrameType::WindowUpdate, 0, stream, &increment.to_be_bytes())
}

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const ACK: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// The frames that a client has received on a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamReceived {
    /// The fields of each section: of interim responses, of the response, of trailers.
    pub(crate) sections: Vec<Vec<(String, String)>>,
    pub(crate) content: Vec<u8>,
    pub(crate) is_complete: bool,
    pub(crate) reset: Option<u32>,
}

impl StreamReceived {
    pub(crate) fn status(&self) -> &str {
        self.field(":status").unwrap_or("none")
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let fields = self.sections.first()?;
        fields.iter().find(|(found, _)| found == name).map(|(_, value)| &**value)
    }
}

/// A client, with the frames that it has received.
pub(crate) struct Http2Client {
    pub(crate) decoder: HpackDecoder,
    /// The bytes of the wire that were read.
    read: usize,
    pub(crate) streams: std::collections::BTreeMap<u32, StreamReceived>,
    /// The last stream and the code of each GOAWAY.
    pub(crate) go_aways: Vec<(u32, u32)>,
    pub(crate) settings_count: usize,
    pub(crate) settings_ack_count: usize,
    pub(crate) pings: Vec<(bool, [u8; 8])>,
    pub(crate) window_updates: Vec<(u32, u32)>,
    /// Content frames by stream, in order.
    pub(crate) order: Vec<u32>,
    /// The longest payload.
    pub(crate) payload_len_max: usize,
}

impl Default for Http2Client {
    fn default() -> Http2Client {
        Http2Client {
            decoder: HpackDecoder::new(),
            read: 0,
            streams: Default::default(),
            go_aways: Vec::new(),
            settings_count: 0,
            settings_ack_count: 0,
            pings: Vec::new(),
            window_updates: Vec::new(),
            order: Vec::new(),
            payload_len_max: 0,
        }
    }
}

impl Http2Client {
    /// Reads the frames that have arrived since the last call. Returns what the client replies: windows for the content, and acknowledgements.
    pub(crate) fn read(&mut self, wire: &[u8]) -> Vec<u8> {
        let mut replies = Vec::new();
        while let Some(header) = FrameHeader::decode(&wire[self.read..]) {
            let end = self.read + FRAME_HEADER_LEN + header.len as usize;
            let Some(payload) = wire.get(self.read + FRAME_HEADER_LEN..end) else { break };
            self.read = end;
            self.payload_len_max = self.payload_len_max.max(payload.len());
            let kind = FrameType::from_number(header.type_number).expect("a known type");
            if self.settings_count == 0 {
                assert_eq!(kind, FrameType::Settings, "the settings of the server come first");
            }
            let word = || u32::from_be_bytes(*payload.first_chunk().expect("a word"));
            match kind {
                FrameType::Settings if header.flags.has(FrameFlags::ACK) => self.settings_ack_count += 1,
                FrameType::Settings => {
                    self.settings_count += 1;
                    replies.extend(frame(FrameType::Settings, ACK, 0, b""));
                }
                FrameType::Headers => {
                    assert!(
                        header.flags.has(FrameFlags::END_HEADERS),
                        "the server sends blocks in one frame"
                    );
                    let fields = self.decode(payload);
                    let stream = self.streams.entry(header.stream).or_default();
                    assert!(!stream.is_complete, "nothing follows the end of a stream");
                    stream.sections.push(fields);
                    stream.is_complete |= header.flags.has(FrameFlags::END_STREAM);
                }
                FrameType::Data => {
                    let stream = self.streams.get_mut(&header.stream).expect("content follows a head");
                    assert!(!stream.is_complete, "nothing follows the end of a stream");
                    stream.content.extend_from_slice(payload);
                    stream.is_complete |= header.flags.has(FrameFlags::END_STREAM);
                    self.order.push(header.stream);
                    if !payload.is_empty() {
                        replies.extend(window_update(0, header.len));
                        replies.extend(window_update(header.stream, header.len));
                    }
                }
                FrameType::RstStream => self.streams.entry(header.stream).or_default().reset = Some(word()),
                FrameType::GoAway => {
                    let code = u32::from_be_bytes(*payload[4..].first_chunk().expect("a code"));
                    self.go_aways.push((word(), code));
                }
                FrameType::Ping => {
                    let is_ack = header.flags.has(FrameFlags::ACK);
                    self.pings.push((is_ack, payload.try_into().expect("eight bytes")));
                    if !is_ack {
                        replies.extend(frame(FrameType::Ping, ACK, 0, payload));
                    }
                }
                FrameType::WindowUpdate => self.window_updates.push((header.stream, word())),
                other => panic!("a server sends no {other:?}"),
            }
        }
        replies
    }

    /// Lets client and server run until neither has anything to send.
    pub(crate) fn run(&mut self, sim: &mut Sim, cuts: Cuts) {
        loop {
            sim.run(cuts);
            let wire = std::mem::take(&mut sim.wire);
            let replies = self.read(&wire);
            sim.wire = wire;
            if replies.is_empty() {
                break;
            }
            sim.client_sends(&replies);
        }
    }

    fn decode(&mut self, payload: &[u8]) -> Vec<(String, String)> {
        let (mut section, mut bytes) = (FieldSection::new(), [0; SECTION_SIZE_MAX]);
        self.decoder.decode(payload, true, &mut section, &mut bytes).expect("a valid block");
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
        section.iter(&bytes).map(|(name, value)| (text(name), text(value))).collect()
    }
}
