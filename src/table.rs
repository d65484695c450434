//! A packed site as a table, for people, and as JSON, for programs.

use anstyle::Style;
use std::{
    fmt::Write as _,
    io::{self, Write},
    ops::RangeInclusive,
};
use tarpon::{Form, Inspected, PathRow, What};

const DIM: Style = Style::new().dimmed();

/// A name in the first column that is longer pushes its own line to the right, and no other.
const NAME_WIDTH_MAX: usize = 60;

/// Writes a line for each path: what it is, its size as it is and in each coding, how caches keep it, its tag.
pub(crate) fn write(site: &Inspected, to: &mut impl Write) -> io::Result<()> {
    let rows: Vec<[String; 8]> = site.paths.iter().map(row).collect();
    columns(["path", "type", "bytes", "br", "gzip", "zstd", "cache", "tag"], &rows, 2..=5, to)?;
    let encoders = site.encoders.as_deref().unwrap_or("unknown");
    writeln!(
        to,
        "{DIM}{} bytes, of them {} the image; compressed by {encoders}{DIM:#}",
        site.len, site.image_len
    )
}

/// Writes rows in columns as wide as they must be: those of numbers to the right, words to the left.
pub(crate) fn columns<const COUNT: usize>(
    heads: [&str; COUNT],
    rows: &[[String; COUNT]],
    numbers: RangeInclusive<usize>,
    to: &mut impl Write,
) -> io::Result<()> {
    let heads = heads.map(str::to_owned);
    let all = || [&heads].into_iter().chain(rows);
    let mut widths: [usize; COUNT] =
        std::array::from_fn(|at| all().map(|row| row[at].chars().count()).max().unwrap_or_default());
    widths[0] = widths[0].min(NAME_WIDTH_MAX);
    for (number, row) in all().enumerate() {
        let mut line = String::new();
        for (at, (cell, width)) in row.iter().zip(widths).enumerate() {
            // The last one is as long as it is.
            let _ = match at {
                _ if numbers.contains(&at) => write!(line, "{cell:>width$}  "),
                _ if at + 1 == COUNT => write!(line, "{cell}"),
                _ => write!(line, "{cell:<width$}  "),
            };
        }
        match number {
            0 => writeln!(to, "{DIM}{}{DIM:#}", line.trim_end())?,
            _ => writeln!(to, "{}", line.trim_end())?,
        }
    }
    Ok(())
}

fn row(PathRow { path, what }: &PathRow) -> [String; 8] {
    let path = shown(path);
    match what {
        What::Redirect { to } => [
            path,
            format!("-> {}", shown(to.as_bytes())),
            String::new(),
            String::new(),
            String::new(),
            String::new(),
            String::new(),
            String::new(),
        ],
        What::File { media, cache, forms, .. } => {
            let len = |name: &str| {
                let form = forms.iter().find(|form| form.coding.name() == name);
                form.map(|form| form.len.to_string()).unwrap_or_default()
            };
            let tag = forms.first().map(|form| form.tag.clone()).unwrap_or_default();
            let media = shown(media.as_bytes());
            [path, media, len("identity"), len("br"), len("gzip"), len("zstd"), kept(cache), tag]
        }
    }
}

/// A value of Cache-Control; of what is immutable, that alone.
fn kept(cache: &str) -> String {
    match cache.split(',').any(|directive| directive.trim() == "immutable") {
        true => "immutable".to_owned(),
        false => shown(cache.as_bytes()),
    }
}

/// Text as a terminal can have it: no control characters, whatever a name says.
fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars()
        .flat_map(|char| if char.is_control() { char.escape_default().collect() } else { vec![char] })
        .collect()
}

/// The same as one JSON object. A path that is not UTF-8 is given with replacement characters.
pub(crate) fn json(site: &Inspected) -> String {
    let mut to = String::new();
    let encoders = site.encoders.as_deref().map_or("null".to_owned(), string);
    let _ = write!(
        to,
        "{{\"len\":{},\"image_len\":{},\"encoders\":{encoders},\"paths\":[",
        site.len, site.image_len
    );
    for (number, PathRow { path, what }) in site.paths.iter().enumerate() {
        to.push_str(if number > 0 { ",\n" } else { "\n" });
        let path = string(&String::from_utf8_lossy(path));
        let _ = match what {
            What::Redirect { to: location } => {
                write!(to, "{{\"path\":{path},\"location\":{}}}", string(location))
            }
            What::File { media, last_modified, cache, forms } => {
                let forms: Vec<_> = forms.iter().map(form).collect();
                write!(
                    to,
                    "{{\"path\":{path},\"type\":{},\"last_modified\":{last_modified},\"cache_control\":{},\"forms\":[{}]}}",
                    string(media),
                    string(cache),
                    forms.join(",")
                )
            }
        };
    }
    to.push_str("\n]}");
    to
}

fn form(Form { coding, len, tag }: &Form) -> String {
    format!("{{\"coding\":{},\"len\":{len},\"tag\":{}}}", string(coding.name()), string(tag))
}

/// RFC 8259, section 7.
fn string(text: &str) -> String {
    let mut to = String::from('"');
    for char in text.chars() {
        match char {
            '"' | '\\' => to.extend(['\\', char]),
            '\0'..='\x1f' => {
                let _ = write!(to, "\\u{:04x}", u32::from(char));
            }
            _ => to.push(char),
        }
    }
    to.push('"');
    to
}

#[cfg(test)]
mod tests {
    use super::*;
    use tarpon::CODINGS;

    #[test]
    fn json_says_what_the_table_says() {
        let forms = CODINGS.map(|coding| Form { coding, len: 5, tag: "\"t\"".to_owned() }).to_vec();
        let cache = "public, immutable".to_owned();
        let file = What::File { media: "text/html".to_owned(), last_modified: 7, cache, forms };
        let site = Inspected {
            len: 1,
            image_len: 2,
            encoders: None,
            paths: vec![
                PathRow { path: b"/a\"\\\n\xff".to_vec(), what: What::Redirect { to: "/b".to_owned() } },
                PathRow { path: "/é".into(), what: file.clone() },
            ],
        };
        let want = concat!(
            "{\"len\":1,\"image_len\":2,\"encoders\":null,\"paths\":[\n",
            "{\"path\":\"/a\\\"\\\\\\u000a\u{fffd}\",\"location\":\"/b\"},\n",
            "{\"path\":\"/é\",\"type\":\"text/html\",\"last_modified\":7,\"cache_control\":\"public, immutable\",\"forms\":[",
            "{\"coding\":\"br\",\"len\":5,\"tag\":\"\\\"t\\\"\"},",
            "{\"coding\":\"gzip\",\"len\":5,\"tag\":\"\\\"t\\\"\"},",
            "{\"coding\":\"zstd\",\"len\":5,\"tag\":\"\\\"t\\\"\"}]}\n]}",
        );
        assert_eq!(json(&site), want);
        assert_eq!(row(&site.paths[0])[0], "/a\"\\\\n\u{fffd}");
        assert_eq!(row(&site.paths[1])[1..7], ["text/html", "", "5", "5", "5", "immutable"]);
        assert_eq!([kept("no-cache"), kept("max-age=9")], ["no-cache", "max-age=9"]);
    }
}
