//! Content-Type: from the extension of the name or, without a known extension, from the content. RFC 9110, section 8.3.
//!
//! ```text
//! extension ─ our rows ─ the table of mime-db ────┐ unknown, or application/octet-stream
//!                                                 ▼
//!                        text ─▶ text/plain      content ─ magic number ─ application/octet-stream
//! ```
//!
//! A `text/*` type gets `charset=utf-8` if the content is UTF-8. Other text gets no charset, so that browsers use
//! the charset that the page declares.
//!
//! `media/table.py` generates the table.

mod table;

use std::borrow::Cow;
use table::TABLE;

/// What the bytes of a content show, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SniffedType {
    /// Text in UTF-8, without bytes that only binary data has.
    is_text: bool,
    /// Whether `charset=utf-8` is right.
    is_utf8: bool,
    /// Begins like an HTML document.
    is_html: bool,
    /// The media type of its magic number.
    magic: Option<&'static str>,
}

impl SniffedType {
    /// Examines a whole content.
    pub(crate) fn of(content: &[u8]) -> SniffedType {
        SniffedType::new(content, std::str::from_utf8(content).is_ok())
    }

    /// Examines the first block of a content, which may end within a character.
    pub(crate) fn of_prefix(block: &[u8]) -> SniffedType {
        let valid = std::str::from_utf8(block).map_or_else(|error| error.error_len().is_none(), |_| true);
        SniffedType::new(block, valid)
    }

    /// Returns whether the content begins with the magic number of this media type.
    pub(crate) fn has_magic(&self, media: &str) -> bool {
        self.magic == Some(media)
    }

    fn new(bytes: &[u8], valid: bool) -> SniffedType {
        // The binary data bytes of the WHATWG's MIME Sniffing, section 3: control characters but HT, LF, FF, CR and ESC.
        let is_binary = |byte: u8| {
            (byte < 0x20)
                & (byte != b'\t')
                & (byte != b'\n')
                & (byte != 0x0c)
                & (byte != b'\r')
                & (byte != 0x1b)
        };
        let is_text = valid && !has_byte(bytes, is_binary);
        // ISO-2022-JP and UTF-16 text may look like ASCII with ESC or NUL, and so like UTF-8.
        let is_other_charset = || bytes.is_ascii() && has_byte(bytes, |byte| (byte == 0x1b) | (byte == 0));
        SniffedType {
            is_text,
            is_utf8: valid && !is_other_charset(),
            is_html: is_text && infer::text::is_html(bytes),
            magic: infer::get(bytes).map(|found| found.mime_type()),
        }
    }
}

/// Returns whether a byte is one of those that are looked for. Looks at all bytes of a block: the compiler makes vectors of that, and not of a
/// search that ends at a byte.
fn has_byte(bytes: &[u8], is_wanted: impl Fn(u8) -> bool) -> bool {
    let has = |block: &[u8]| block.iter().fold(0, |found, &byte| found | u8::from(is_wanted(byte))) != 0;
    let (blocks, rest) = bytes.as_chunks::<64>();
    blocks.iter().any(|block| has(block)) || has(rest)
}

/// Returns the value of Content-Type for a file of this name and content.
pub(crate) fn content_type(name: &[u8], sniffed: &SniffedType) -> Cow<'static, str> {
    let media = by_name(name, sniffed).unwrap_or_else(|| by_content(name, sniffed));
    match media.starts_with("text/") && sniffed.is_utf8 {
        true => format!("{media}; charset=utf-8").into(),
        false => media.into(),
    }
}

/// Returns whether the content decides about the type of a file of this name: by its text, or as the name has no type.
pub(crate) fn may_be_text(name: &[u8]) -> bool {
    let unknown = SniffedType { is_text: false, is_utf8: false, is_html: false, magic: None };
    match by_name(name, &unknown) {
        Some("video/mp2t") | None => true,
        Some(media) => media.starts_with("text/"),
    }
}

fn by_name(name: &[u8], sniffed: &SniffedType) -> Option<&'static str> {
    let extension = std::str::from_utf8(extension(name)?).ok()?.to_ascii_lowercase();
    if SOURCE_OR_STREAM.contains(&extension.as_str()) {
        return Some(if sniffed.is_text { "text/plain" } else { "video/mp2t" });
    }
    let find = |rows: &[(&str, &'static str)]| {
        let at = rows.binary_search_by_key(&extension.as_str(), |&(known, _)| known).ok()?;
        Some(rows[at].1)
    };
    find(OURS).or_else(|| find(TABLE).filter(|&media| media != BYTES))
}

/// Checks for text first: text may begin with a magic number of two letters.
fn by_content(name: &[u8], sniffed: &SniffedType) -> &'static str {
    match sniffed {
        // A file with an unknown extension may be the source of a page, so a browser shows it as text.
        SniffedType { is_html: true, .. } if extension(name).is_none() => "text/html",
        SniffedType { is_text: true, .. } => "text/plain",
        SniffedType { magic: Some(media), .. } => media,
        _ => BYTES,
    }
}

/// Returns the part after the last dot, unless the name begins with that dot.
fn extension(name: &[u8]) -> Option<&[u8]> {
    match name.iter().rposition(|&byte| byte == b'.')? {
        0 => None,
        dot => Some(&name[dot + 1..]),
    }
}

/// The type of unknown data.
const BYTES: &str = "application/octet-stream";

/// TypeScript, or an MPEG transport stream: the content decides.
const SOURCE_OR_STREAM: [&str; 2] = ["mts", "ts"];

const SCRIPT: &str = "text/javascript";
/// Source code, which a browser shows as text.
const SOURCE: &str = "text/plain";

/// Types for extensions that the table lacks, or for which the table has an obsolete or uncommon type. Sorted.
#[rustfmt::skip]
const OURS: &[(&str, &str)] = &[
    ("ac3",      "audio/ac3"),                     // RFC 4184
    ("asc",      "application/pgp-signature"),     // beside a download; keys are rarer
    ("asm",      SOURCE),
    ("avifs",    "image/avif"),                    // AVIF, section 8: a sequence too
    ("c",        SOURCE),
    ("cc",       SOURCE),
    ("cjs",      SCRIPT),                          // RFC 9239
    ("cpp",      SOURCE),
    ("cur",      "image/x-icon"),                  // a cursor of CSS
    ("cxx",      SOURCE),
    ("ecma",     SCRIPT),                          // RFC 9239 obsoletes application/ecmascript
    ("es",       SCRIPT),                          // RFC 9239
    ("flac",     "audio/flac"),                    // RFC 9639
    ("h",        SOURCE),
    ("hdr",      "image/vnd.radiance"),
    ("hh",       SOURCE),
    ("java",     SOURCE),
    ("jfif",     "image/jpeg"),                    // image/pjpeg was Internet Explorer's
    ("jsm",      SCRIPT),                          // RFC 9239
    ("jsonl",    "application/jsonl"),
    ("jsx",      SCRIPT),                          // no browser runs text/jsx
    ("mpp",      "application/vnd.ms-project"),    // not a patch of DASH
    ("ndjson",   "application/x-ndjson"),
    ("parquet",  "application/vnd.apache.parquet"),
    ("pdb",      BYTES),                           // debug symbols, not Palm databases
    ("pls",      "audio/x-scpls"),                 // a playlist, not a lexicon
    ("rs",       SOURCE),                          // not services of RFC 4662
    ("s",        SOURCE),
    ("tgz",      "application/gzip"),
    ("topojson", "application/json"),
    ("wave",     "audio/wav"),
    ("yaml",     "application/yaml"),              // RFC 9512
    ("yml",      "application/yaml"),              // RFC 9512
    ("zst",      "application/zstd"),              // RFC 8878
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[rustfmt::skip]
    fn type_comes_from_the_name_or_else_from_the_content() {
        let cases: &[(&str, &[u8], &str)] = &[
            // name               content                        Content-Type
            ("index.html",        b"<p>",                        "text/html; charset=utf-8"),
            ("a.HTM",             b"<p>",                        "text/html; charset=utf-8"),
            ("a.xhtml",           b"<html/>",                    "application/xhtml+xml"),
            ("a.css",             b"p{}",                        "text/css; charset=utf-8"),
            ("a.js",              b"1",                          "text/javascript; charset=utf-8"),
            ("a.min.mjs",         b"1",                          "text/javascript; charset=utf-8"),
            ("a.cjs",             b"1",                          "text/javascript; charset=utf-8"),
            ("a.json",            b"1",                          "application/json"),
            ("a.js.map",          b"{}",                         "application/json"),
            ("a.wasm",            b"\0asm\x01\0\0\0",            "application/wasm"),
            ("a.webmanifest",     b"{}",                         "application/manifest+json"),
            ("a.svg",             b"<svg/>",                     "image/svg+xml"),
            ("favicon.ico",       b"\0\0\x01\0",                 "image/vnd.microsoft.icon"),
            ("a.png",             b"\x89PNG",                    "image/png"),
            ("a.jpg",             b"\xff\xd8",                   "image/jpeg"),
            ("a.avif",            b"",                           "image/avif"),
            ("a.webp",            b"",                           "image/webp"),
            ("a.jxl",             b"",                           "image/jxl"),
            ("a.woff",            b"",                           "font/woff"),
            ("a.woff2",           b"",                           "font/woff2"),
            ("a.ttf",             b"",                           "font/ttf"),
            ("a.otf",             b"",                           "font/otf"),
            ("a.md",              b"# a",                        "text/markdown; charset=utf-8"),
            ("a.txt",             b"a",                          "text/plain; charset=utf-8"),
            ("a.txt",             b"",                           "text/plain; charset=utf-8"),
            ("a.csv",             b"a,b",                        "text/csv; charset=utf-8"),
            ("a.xml",             b"<a/>",                       "application/xml"),
            ("a.xsl",             b"<a/>",                       "application/xml"),
            ("a.atom",            b"<a/>",                       "application/atom+xml"),
            ("a.rss",             b"<a/>",                       "application/rss+xml"),
            ("a.pdf",             b"%PDF-1.7",                   "application/pdf"),
            ("a.mp4",             b"",                           "video/mp4"),
            ("a.webm",            b"",                           "video/webm"),
            ("a.mp3",             b"",                           "audio/mpeg"),
            ("a.toml",            b"a=1",                        "application/toml"),
            ("a.yaml",            b"a: 1",                       "application/yaml"),
            ("a.yml",             b"a: 1",                       "application/yaml"),
            ("a.gz",              b"\x1f\x8b",                   "application/gzip"),
            ("a.tar.zst",         b"",                           "application/zstd"),
            ("a.tar",             b"",                           "application/x-tar"),
            ("a.zip",             b"",                           "application/zip"),
            ("a.pdb",             b"\x01\x02",                   "application/octet-stream"),
            ("a.br",              b"\x0b\x02\x80",               "application/octet-stream"),
            ("a.flac",            b"",                           "audio/flac"),
            ("a.m4a",             b"",                           "audio/mp4"),
            ("a.m3u8",            b"#EXTM3U",                    "application/vnd.apple.mpegurl"),
            ("a.m4s",             b"",                           "video/iso.segment"),
            ("a.usdz",            b"",                           "model/vnd.usdz+zip"),
            ("a.stl",             b"",                           "model/stl"),
            ("a.glb",             b"",                           "model/gltf-binary"),
            ("a.docx",            b"PK",                         "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
            ("a.jfif",            b"",                           "image/jpeg"),
            ("a.cur",             b"\0\0\x02\0",                 "image/x-icon"),
            ("a.rar",             b"",                           "application/vnd.rar"),
            ("a.vtt",             b"WEBVTT",                     "text/vtt; charset=utf-8"),
            ("a.jsx",             b"1",                          "text/javascript; charset=utf-8"),
            ("a.rs",              b"fn main() {}",               "text/plain; charset=utf-8"),
            ("a.h",               b"int a;",                     "text/plain; charset=utf-8"),
            ("a.py",              b"a = 1",                      "text/plain; charset=utf-8"),
            ("a.tar.gz.asc",      b"-----BEGIN PGP",             "application/pgp-signature"),
            // One extension for two formats.
            ("a.ts",              b"let a: A",                   "text/plain; charset=utf-8"),
            ("a.ts",              b"\x47\x40\0\x10\0",           "video/mp2t"),
            // The charset.
            ("latin1.html",       b"<p>caf\xe9",                 "text/html"),
            ("utf8.html",         "<p>café".as_bytes(),          "text/html; charset=utf-8"),
            ("iso-2022-jp.html",  b"<p>\x1b$B%1\x1b(B",          "text/html"),
            ("utf-16.txt",        b"a\0b\0",                     "text/plain"),
            ("colours.txt",       "\x1b[1mé\x1b[0m".as_bytes(),  "text/plain; charset=utf-8"),
            // Without a known extension: the content.
            ("LICENSE",           b"MIT",                        "text/plain; charset=utf-8"),
            ("latin1",            b"caf\xe9",                    "application/octet-stream"),
            ("empty",             b"",                           "text/plain; charset=utf-8"),
            ("page",              b"<!doctype html><p>",         "text/html; charset=utf-8"),
            ("a.vue",             b"<script >",                  "text/plain; charset=utf-8"),
            ("Main.java",         b"class Main {}",              "text/plain; charset=utf-8"),
            ("letter",            b"MZ, my dear",                "text/plain; charset=utf-8"),
            ("picture",           b"\x89PNG\r\n\x1a\n\0\0\0\r",  "image/png"),
            ("trailing.",         b"\x01",                       "application/octet-stream"),
        ];
        for &(name, content, want) in cases {
            assert_eq!(content_type(name.as_bytes(), &SniffedType::of(content)), want, "{name}");
        }
        assert_eq!(content_type(b"caf\xe9.css", &SniffedType::of(b"p{}")), "text/css; charset=utf-8");
        assert_eq!(content_type(b"a.caf\xe9", &SniffedType::of(b"a")), "text/plain; charset=utf-8");
    }

    #[test]
    fn every_binary_byte_is_found_at_every_place() {
        for byte in 0..=u8::MAX {
            let is_binary = matches!(byte, 0..=8 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f);
            for at in [0, 1, 63, 64, 127, 128, 129] {
                let mut text = [b'a'; 130];
                text[at] = byte;
                let sniffed = SniffedType::of(&text);
                assert_eq!(sniffed.is_text, byte.is_ascii() && !is_binary, "{byte} at {at}");
                assert_eq!(sniffed.is_utf8, byte.is_ascii() && byte != 0 && byte != 0x1b, "{byte} at {at}");
            }
        }
    }

    #[test]
    fn block_may_end_within_a_character() {
        let text = "a€".as_bytes();
        for cut in 1..=text.len() {
            assert_eq!(
                content_type(b"a.txt", &SniffedType::of_prefix(&text[..cut])),
                "text/plain; charset=utf-8",
                "{cut}"
            );
        }
        assert_eq!(content_type(b"a.txt", &SniffedType::of(&text[..2])), "text/plain");
        assert_eq!(content_type(b"a.txt", &SniffedType::of_prefix(b"caf\xe9 au lait")), "text/plain");
    }

    #[test]
    fn both_tables_are_sorted_and_in_lower_case() {
        for rows in [OURS, TABLE] {
            assert!(rows.is_sorted_by(|(one, _), (next, _)| one < next));
            let is_lower =
                |text: &str| !text.is_empty() && !text.bytes().any(|byte| byte.is_ascii_uppercase());
            assert!(
                rows.iter()
                    .all(|(extension, media)| is_lower(extension) && media.contains('/') && is_lower(media))
            );
        }
        assert!(TABLE.len() > 1_200, "{}", TABLE.len());
    }

    #[test]
    fn our_rows_differ_from_the_table() {
        assert!(OURS.iter().all(|row| !TABLE.contains(row)));
    }

    /// Compares the table with the pinned version of mime-db, if `tests/setup` has installed it.
    #[test]
    fn table_equals_the_output_of_its_script() {
        let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let beside =
            std::env::current_exe().ok().and_then(|exe| Some(exe.ancestors().nth(3)?.join("tmp/mime-db")));
        let package = beside.map(|dir| dir.join("node_modules/mime-db")).filter(|package| package.is_dir());
        let Some(package) = package else {
            return println!("skipped: mime-db is missing; run tests/setup");
        };
        let script = std::process::Command::new("python3")
            .arg(here.join("src/media/table.py"))
            .arg(&package)
            .output()
            .expect("python3");
        assert!(script.status.success(), "{}", String::from_utf8_lossy(&script.stderr));
        let generated = String::from_utf8(script.stdout).expect("text");
        let current = std::fs::read_to_string(here.join("src/media/table.rs")).expect("the table");
        assert!(generated == current, "generate the table again: see table.py");
    }
}
