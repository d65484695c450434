//! The payload of SETTINGS. RFC 9113, section 6.5.

use super::frame_header::{FRAME_HEADER_LEN, FrameFlags, FrameHeader, FrameType, MAX_31_BITS};
use super::{CONNECTION, FRAME_PAYLOAD_LEN_MAX, FrameError};

/// The length of a setting on the wire in bytes.
pub const SETTING_LEN: usize = 6;

/// The name of a setting. RFC 9113, section 6.5.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum SettingName {
    /// `SETTINGS_HEADER_TABLE_SIZE`: the size of the dynamic table of the decoder, as HPACK counts it.
    HeaderTableSize = 0x1,
    /// `SETTINGS_ENABLE_PUSH`: whether the server may push.
    EnablePush = 0x2,
    /// `SETTINGS_MAX_CONCURRENT_STREAMS`: how many streams the peer may open at a time.
    MaxConcurrentStreams = 0x3,
    /// `SETTINGS_INITIAL_WINDOW_SIZE`: the window of each new stream in bytes.
    InitialWindowSize = 0x4,
    /// `SETTINGS_MAX_FRAME_SIZE`: the maximum length of a payload in bytes.
    MaxFrameSize = 0x5,
    /// `SETTINGS_MAX_HEADER_LIST_SIZE`: the maximum size of a field section, as HPACK counts it.
    MaxHeaderListSize = 0x6,
    /// `SETTINGS_ENABLE_CONNECT_PROTOCOL`: whether extended CONNECT is allowed. RFC 8441, section 3.
    EnableConnectProtocol = 0x8,
    /// `SETTINGS_NO_RFC7540_PRIORITIES`: whether the sender ignores the priorities of RFC 7540. RFC 9218, section 2.1.
    NoRfc7540Priorities = 0x9,
}

/// A setting with a valid value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The name.
    pub name: SettingName,
    /// The value.
    pub value: u32,
}

impl Setting {
    /// Decodes a setting. `None`: the name is unknown, so the setting is ignored; RFC 9113, section 6.5.2.
    fn decode(bytes: &[u8; SETTING_LEN]) -> Result<Option<Setting>, FrameError> {
        let &[high, low, a, b, c, d] = bytes;
        let value = u32::from_be_bytes([a, b, c, d]);
        let frame_sizes = FRAME_PAYLOAD_LEN_MAX as u32..=0xff_ffff;
        let (name, check) = match u16::from_be_bytes([high, low]) {
            0x1 => (SettingName::HeaderTableSize, Ok(())),
            0x2 => (SettingName::EnablePush, check_switch(value)),
            0x3 => (SettingName::MaxConcurrentStreams, Ok(())),
            0x4 if value > MAX_31_BITS => return Err(FrameError::SettingWindow),
            0x4 => (SettingName::InitialWindowSize, Ok(())),
            0x5 if !frame_sizes.contains(&value) => return Err(FrameError::SettingValue),
            0x5 => (SettingName::MaxFrameSize, Ok(())),
            0x6 => (SettingName::MaxHeaderListSize, Ok(())),
            0x8 => (SettingName::EnableConnectProtocol, check_switch(value)),
            0x9 => (SettingName::NoRfc7540Priorities, check_switch(value)),
            _ => return Ok(None),
        };
        check.map(|()| Some(Setting { name, value }))
    }
}

/// Checks the value of a setting that is on or off.
fn check_switch(value: u32) -> Result<(), FrameError> {
    if value <= 1 { Ok(()) } else { Err(FrameError::SettingValue) }
}

/// The settings of a frame, in order. A later value of the same name replaces an earlier one: RFC 9113, section 6.5.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettingsPayload<'a> {
    settings: &'a [[u8; SETTING_LEN]],
}

impl<'a> SettingsPayload<'a> {
    /// Checks all settings of a payload.
    pub(super) fn parse(payload: &'a [u8]) -> Result<SettingsPayload<'a>, FrameError> {
        let (settings, []) = payload.as_chunks() else { return Err(FrameError::Length) };
        settings.iter().try_for_each(|setting| Setting::decode(setting).map(|_| ()))?;
        Ok(SettingsPayload { settings })
    }

    /// Returns the settings with a known name, in order.
    pub fn iter(&self) -> impl Iterator<Item = Setting> + use<'a> {
        self.settings.iter().filter_map(|setting| Setting::decode(setting).ok().flatten())
    }
}

/// Writes a frame of SETTINGS to the front of `to`. Returns its length.
///
/// # Panics
///
/// Panics if `to` has no room: [`FRAME_HEADER_LEN`], and [`SETTING_LEN`] for each setting.
pub fn write_settings(settings: &[Setting], to: &mut [u8]) -> usize {
    let payload_len = settings.len() * SETTING_LEN;
    let (header, payload) = to[..FRAME_HEADER_LEN + payload_len].split_at_mut(FRAME_HEADER_LEN);
    let len = payload_len as u32;
    header
        .copy_from_slice(&FrameHeader::new(FrameType::Settings, FrameFlags::NONE, CONNECTION, len).encode());
    for (setting, to) in settings.iter().zip(payload.as_chunks_mut::<SETTING_LEN>().0) {
        let ([high, low], [a, b, c, d]) = ((setting.name as u16).to_be_bytes(), setting.value.to_be_bytes());
        *to = [high, low, a, b, c, d];
    }
    FRAME_HEADER_LEN + payload_len
}

/// The frame that acknowledges settings. RFC 9113, section 6.5.3.
pub const SETTINGS_ACK: [u8; FRAME_HEADER_LEN] =
    FrameHeader::new(FrameType::Settings, FrameFlags::ACK, CONNECTION, 0).encode();

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec::Vec;

    use super::*;

    #[test]
    #[rustfmt::skip]
    fn values_are_checked() {
        use SettingName::*;
        let cases: &[(&str, [u8; SETTING_LEN], Result<Option<(SettingName, u32)>, FrameError>)] = &[
            // case                       on the wire                    RFC 9113, section 6.5.2; RFC 8441, section 3; RFC 9218, section 2.1
            ("table size",                [0, 1, 255, 255, 255, 255],    Ok(Some((HeaderTableSize, u32::MAX)))),
            ("push off",                  [0, 2, 0, 0, 0, 0],            Ok(Some((EnablePush, 0)))),
            ("push on",                   [0, 2, 0, 0, 0, 1],            Ok(Some((EnablePush, 1)))),
            ("push 2",                    [0, 2, 0, 0, 0, 2],            Err(FrameError::SettingValue)),
            ("streams",                   [0, 3, 0, 0, 0, 100],          Ok(Some((MaxConcurrentStreams, 100)))),
            ("largest window",            [0, 4, 127, 255, 255, 255],    Ok(Some((InitialWindowSize, MAX_31_BITS)))),
            ("larger window",             [0, 4, 128, 0, 0, 0],          Err(FrameError::SettingWindow)),
            ("shortest frames",           [0, 5, 0, 0, 64, 0],           Ok(Some((MaxFrameSize, 16_384)))),
            ("shorter frames",            [0, 5, 0, 0, 63, 255],         Err(FrameError::SettingValue)),
            ("longest frames",            [0, 5, 0, 255, 255, 255],      Ok(Some((MaxFrameSize, 16_777_215)))),
            ("longer frames",             [0, 5, 1, 0, 0, 0],            Err(FrameError::SettingValue)),
            ("list size",                 [0, 6, 0, 0, 0, 0],            Ok(Some((MaxHeaderListSize, 0)))),
            ("unknown, between",          [0, 7, 0, 0, 0, 9],            Ok(None)),
            ("extended CONNECT",          [0, 8, 0, 0, 0, 1],            Ok(Some((EnableConnectProtocol, 1)))),
            ("extended CONNECT 2",        [0, 8, 0, 0, 0, 2],            Err(FrameError::SettingValue)),
            ("no old priorities",         [0, 9, 0, 0, 0, 1],            Ok(Some((NoRfc7540Priorities, 1)))),
            ("no old priorities 2",       [0, 9, 0, 0, 1, 0],            Err(FrameError::SettingValue)),
            ("a number to be ignored",    [0x0a, 0x0a, 1, 2, 3, 4],      Ok(None)),
            ("number 0",                  [0, 0, 1, 2, 3, 4],            Ok(None)),
        ];
        for (name, wire, want) in cases {
            let want = want.map(|found| found.map(|(name, value)| Setting { name, value }));
            assert_eq!(Setting::decode(wire), want, "{name}");
            // A bad setting refuses the frame, wherever it stands.
            let payload = [*b"\0\x03\0\0\0\x07", *wire, *b"\0\x03\0\0\0\x09"].concat();
            let settings = SettingsPayload::parse(&payload);
            match want {
                Err(error) => assert_eq!(settings, Err(error), "{name}"),
                Ok(found) => {
                    let of_streams = |value| Some(Setting { name: MaxConcurrentStreams, value });
                    let want = [of_streams(7), found, of_streams(9)].into_iter().flatten();
                    assert!(settings.unwrap().iter().eq(want), "{name}");
                }
            }
            for cut in 1..SETTING_LEN {
                assert_eq!(SettingsPayload::parse(&payload[..cut]), Err(FrameError::Length), "{name}, {cut} bytes");
            }
        }
    }

    #[test]
    fn written_settings_are_read_again() {
        let settings: Vec<_> =
            [(SettingName::MaxConcurrentStreams, 128), (SettingName::InitialWindowSize, 65_536)]
                .into_iter()
                .map(|(name, value)| Setting { name, value })
                .collect();
        let mut to = [0xaa; 40];
        let len = write_settings(&settings, &mut to);
        assert_eq!(to[..9], *b"\0\0\x0c\x04\0\0\0\0\0");
        assert!(SettingsPayload::parse(&to[9..len]).unwrap().iter().eq(settings));
        assert_eq!(to[len], 0xaa);
        assert_eq!(SETTINGS_ACK, *b"\0\0\0\x04\x01\0\0\0\0");
    }
}
