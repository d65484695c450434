//! WebSocket through the proxy, from headless Chromium: an echo in this process, which speaks RFC 6455.

use super::{
    proxied::{Proxied, ProxyConfig},
    scripted::{ScriptedConnection, ScriptedServer},
};
use crate::common::{ENGINES, endpoint::TestTls, has_http2, page::BrowserPage};
use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::{Engine as _, prelude::BASE64_STANDARD};

/// Over HTTP/2 on the engines that have it, which the browser takes with TLS alone, else over HTTP/1.
#[test]
fn browser_speaks_through_a_tunnel() {
    let tls = TestTls::new();
    let [certificate, key] = tls.files();
    let lines = format!(
        "tls-cert = [{certificate:?}]\ntls-key = [{key:?}]\n[[listener]]\naddress = \"tls:127.0.0.2:0\""
    );
    let server = ScriptedServer::start(|connection| {
        while let Some(head) = connection.head() {
            let Some(key) = head.field("Sec-WebSocket-Key") else {
                let page = include_str!("../browser/websocket.html");
                connection.send(format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{page}",
                    page.len()
                ));
                continue;
            };
            connection.send(format!(
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: {}\r\n\r\n",
                accept(key)
            ));
            while echo(connection).is_some() {}
            return;
        }
    });
    for &engine in ENGINES {
        let config = ProxyConfig { server: &lines, ..ProxyConfig::default() };
        let proxied = Proxied::start(engine, &[server.url()], config);
        let is_http2 = has_http2(engine);
        let scheme = if is_http2 { "https" } else { "http" };
        let address = proxied.program().addresses()[usize::from(is_http2)];
        let options = ["--verdict", "#verdict", "--trust-key", &tls.public_key_hash()];
        let page = BrowserPage::load(&format!("{scheme}://{address}/app/page"), &options);
        let want = "open\ntext: hello\ntext: p%C3%A4per\nbinary: 100000 bytes, equal\nclosed: 1000, clean";
        assert_eq!((&*page.verdict, &*page.errors), (want, "[]"), "{engine}: {page:?}");
        drop(proxied);
        let last = server.requests().pop().expect("the last request of the page").message;
        let via = if is_http2 { "2.0 tarpon" } else { "1.1 tarpon" };
        assert_eq!((last.target(), last.field("Via")), ("/app/socket", Some(via)), "{engine}: {last}");
        server.check(engine.name());
    }
}

/// Returns the value that accepts a key. RFC 6455, section 4.2.2.
fn accept(key: &str) -> String {
    let text = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    BASE64_STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes()))
}

/// Sends a frame of the browser back without its mask. `None`: the tunnel has ended. RFC 6455, section 5.2.
fn echo(connection: &mut ScriptedConnection) -> Option<()> {
    let head = connection.raw(2)?;
    let (first, len) = (head[0], head[1] & 0x7f);
    assert!(head[1] & 0x80 != 0, "frames of a browser have a mask");
    let extended = match len {
        126 => connection.raw(2)?,
        127 => connection.raw(8)?,
        _ => Vec::new(),
    };
    let content_len = match extended.len() {
        0 => usize::from(len),
        _ => extended.iter().fold(0, |len, byte| len << 8 | usize::from(*byte)),
    };
    let mask = connection.raw(4)?;
    let mut content = connection.raw(content_len)?;
    content.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
    connection.send([&[first, len][..], &extended, &content].concat());
    // A frame that closes ends the tunnel.
    (first & 0x0f != 8).then_some(())
}

#[test]
fn key_of_rfc_6455_is_accepted() {
    assert_eq!(accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}
