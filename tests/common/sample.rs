//! A sample site with common file types: pages, a style sheet, a script, a picture, a sound long enough for range
//! requests, and files compressed in advance.

use super::{distinct_bytes, site, write_files};
use std::{path::Path, process::Command};
use tempfile::TempDir;

/// The file of the site that has a compressed variant for each of [`CODINGS`].
pub(crate) const CODED: &str = "/guide/text.html";

/// A large file.
pub(crate) const LARGE: &str = "/sound.wav";

/// Content codings with the extension of their files and the command that compresses.
pub(crate) const CODINGS: &[(&str, &str, &[&str])] =
    &[("gzip", "gz", &["gzip", "-k"]), ("br", "br", &["brotli", "-k"]), ("zstd", "zst", &["zstd", "-q"])];

/// The URL paths and media types of all files without compressed variants.
pub(crate) const PLAIN: &[(&str, &str)] = &[
    ("/index.html", "text/html; charset=utf-8"),
    ("/style.css", "text/css; charset=utf-8"),
    ("/script.js", "text/javascript; charset=utf-8"),
    ("/picture.png", "image/png"),
    (LARGE, "audio/wav"),
    ("/empty.txt", "text/plain; charset=utf-8"),
];

/// The length of the sound in seconds.
pub(crate) const SOUND_S: usize = 60;

/// Writes the sample site to a new directory.
pub(crate) fn sample_site() -> TempDir {
    let home = format!("<!doctype html><title>Home</title>{}\n", "<p>Welcome. ".repeat(10));
    let words: String = (0..2_000).map(|number| format!("<p>Word {number}. ")).collect();
    let text = format!("<!doctype html><title>Text</title>{words}\n");
    let dir = site(&[
        ("index.html", &home[..]),
        ("guide/text.html", &text),
        ("guide/index.html", "<!doctype html><title>Guide</title>\n"),
        ("style.css", "body { color: rgb(1, 2, 3) }\n"),
        ("script.js", "globalThis.scripted = true;\n"),
        ("empty.txt", ""),
    ]);
    write_files(dir.path(), &[("picture.png", PICTURE), ("sound.wav", &sound())]);
    for (_, _, compress) in CODINGS {
        let status = Command::new(compress[0]).args(&compress[1..]).arg(on_disk(dir.path(), CODED)).status();
        let status = status.unwrap_or_else(|_| panic!("{} is missing: run tests/setup", compress[0]));
        assert!(status.success(), "{compress:?}: {status}");
    }
    dir
}

/// Returns the file behind a URL path.
pub(crate) fn on_disk(dir: &Path, target: &str) -> std::path::PathBuf {
    dir.join(target.trim_start_matches('/'))
}

/// A PNG of one pixel.
pub(crate) const PICTURE: &[u8] =
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0\x3a\x7e\x9b\x55\
    \0\0\0\nIDAT\x78\xda\x63\x68\0\0\0\x82\0\x81\xda\x45\x08\x3b\0\0\0\0IEND\xae\x42\x60\x82";

/// Returns a WAV file of noise: 16 bits, 2 channels, 44,100 samples per second.
fn sound() -> Vec<u8> {
    let (rate, frame_len) = (44_100_u32, 4_u16);
    let len = SOUND_S as u32 * rate * u32::from(frame_len);
    let mut wav = Vec::with_capacity(44 + len as usize);
    wav.extend(b"RIFF");
    wav.extend((36 + len).to_le_bytes());
    wav.extend(b"WAVEfmt \x10\0\0\0\x01\0\x02\0");
    wav.extend(rate.to_le_bytes());
    wav.extend((rate * u32::from(frame_len)).to_le_bytes());
    wav.extend(frame_len.to_le_bytes());
    wav.extend(b"\x10\0data");
    wav.extend(len.to_le_bytes());
    wav.extend(distinct_bytes(len as usize));
    wav
}
