//! A ClientHello of which a test can change every part. RFC 8446, section 4.1.2.

use super::record_forge::HANDSHAKE;

/// A ClientHello that the server answers, unless a test changes it.
#[derive(Clone)]
pub(crate) struct ClientHello {
    pub(crate) legacy_version: u16,
    pub(crate) suites: Vec<u16>,
    /// In order, each with its number.
    pub(crate) extensions: Vec<(u16, Vec<u8>)>,
}

/// Numbers of extensions.
pub(crate) const SERVER_NAME: u16 = 0;
pub(crate) const SUPPORTED_GROUPS: u16 = 10;
pub(crate) const SIGNATURE_ALGORITHMS: u16 = 13;
pub(crate) const ALPN: u16 = 16;
pub(crate) const PADDING: u16 = 21;
pub(crate) const SUPPORTED_VERSIONS: u16 = 43;
pub(crate) const KEY_SHARE: u16 = 51;

impl ClientHello {
    /// Returns one for TLS 1.3 and 1.2, with the name `localhost` and HTTP by ALPN.
    pub(crate) fn new() -> ClientHello {
        const X25519: [u8; 2] = [0, 29];
        ClientHello {
            legacy_version: 0x303,
            suites: vec![0x1301, 0x1302, 0x1303, 0xc02b, 0xc02f, 0xcca9, 0xcca8],
            extensions: vec![
                (SERVER_NAME, server_name(b"localhost")),
                (SUPPORTED_GROUPS, with_len16(&X25519)),
                (SIGNATURE_ALGORITHMS, with_len16(&[4, 3, 8, 4, 4, 1])),
                (ALPN, protocols(&[b"http/1.1"])),
                (SUPPORTED_VERSIONS, with_len8(&[3, 4, 3, 3])),
                (KEY_SHARE, with_len16(&[&X25519[..], &with_len16(&[7; 32])].concat())),
            ],
        }
    }

    /// Returns it with another content of an extension, which follows the others if it is new.
    pub(crate) fn with(mut self, number: u16, content: Vec<u8>) -> ClientHello {
        match self.extensions.iter_mut().find(|(known, _)| *known == number) {
            Some((_, known)) => *known = content,
            None => self.extensions.push((number, content)),
        }
        self
    }

    pub(crate) fn without(mut self, number: u16) -> ClientHello {
        self.extensions.retain(|(known, _)| *known != number);
        self
    }

    /// Returns the handshake message.
    pub(crate) fn message(&self) -> Vec<u8> {
        let suites: Vec<u8> = self.suites.iter().flat_map(|suite| suite.to_be_bytes()).collect();
        let extension =
            |(number, content): &(u16, Vec<u8>)| [&number.to_be_bytes()[..], &with_len16(content)].concat();
        let extensions: Vec<u8> = self.extensions.iter().flat_map(extension).collect();
        let body = [
            &self.legacy_version.to_be_bytes()[..],
            &[9; 32],
            &with_len8(&[5; 32]),
            &with_len16(&suites),
            &with_len8(&[0]),
            &with_len16(&extensions),
        ];
        handshake_message(1, &body.concat())
    }

    /// Returns it in records of at most this length.
    pub(crate) fn records(&self, len_max: usize) -> Vec<u8> {
        self.message().chunks(len_max).flat_map(|part| record(HANDSHAKE, part)).collect()
    }
}

/// Returns the content of an extension with one name.
pub(crate) fn server_name(name: &[u8]) -> Vec<u8> {
    with_len16(&[&[0][..], &with_len16(name)].concat())
}

/// Returns the content of an extension with the names of protocols.
pub(crate) fn protocols(names: &[&[u8]]) -> Vec<u8> {
    with_len16(&names.iter().flat_map(|name| with_len8(name)).collect::<Vec<u8>>())
}

/// Returns a record that is not sealed.
pub(crate) fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    [&[kind, 3, 3][..], &with_len16(content)].concat()
}

pub(crate) fn handshake_message(kind: u8, body: &[u8]) -> Vec<u8> {
    let [_, high, middle, low] = (body.len() as u32).to_be_bytes();
    [&[kind, high, middle, low][..], body].concat()
}

pub(crate) fn with_len8(bytes: &[u8]) -> Vec<u8> {
    [&[bytes.len() as u8][..], bytes].concat()
}

pub(crate) fn with_len16(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat()
}
