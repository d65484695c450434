//! The content of a packed site as a table for people and as JSON for programs.

use crate::{
    InspectedEntry, InspectedLogPath, InspectedPath, InspectedRule, InspectedVariant, SiteInspection,
};
use anstyle::Style;
use std::{
    fmt::Write as _,
    io::{self, Write},
    ops::RangeInclusive,
};
use tarpon_site::printable::{Printable, is_invisible};

const DIM: Style = Style::new().dimmed();

/// The maximum width of the first column. A longer name shifts its own line only.
const NAME_WIDTH_MAX: usize = 60;
/// The minimum length of a shortened name.
const NAME_WIDTH_MIN: usize = 12;
/// The space between two columns.
const GAP: usize = 2;
/// The index of the column of deltas, and of the last column.
const DELTA: usize = 6;
const TAG: usize = 8;

/// The heads of the table of patterns that decide about the access log.
const LOG_HEADS: [&str; 2] = ["path, the last that matches counts", "access-log"];

/// Writes a line for each path: type, size in each coding, Cache-Control and tag; then a line for each rule, and for each pattern of paths
/// that decides about the access log. The column of deltas has the size of the smallest one; a site without deltas has no such column.
/// `width`: the columns of the terminal. To fit, the table shortens names and leaves out tags.
pub(crate) fn write(site: &SiteInspection, width: Option<usize>, to: &mut impl Write) -> io::Result<()> {
    let mut heads = ["path", "type", "bytes", "br", "gzip", "zstd", "delta", "cache", "tag"];
    let mut rows: Vec<[String; 9]> = site.paths.iter().map(row).collect();
    if rows.iter().all(|row| row[DELTA].is_empty()) {
        heads[DELTA] = "";
    }
    if let Some(width) = width {
        fit(&mut heads, &mut rows, width);
    }
    columns(heads, &rows, 2..=6, to)?;
    let mut rules: Vec<[String; 3]> = site.rules.iter().map(rule).collect();
    if let Some(width) = width {
        let room = width.saturating_sub("status".len() + 2 * GAP) / 2;
        rules
            .iter_mut()
            .for_each(|[from, _, to]| [from, to].into_iter().for_each(|cell| shorten(cell, room)));
    }
    if !rules.is_empty() {
        writeln!(to)?;
        columns(["rule, tried in this order", "status", "leads to, or sends"], &rules, 1..=1, to)?;
    }
    let mut log_paths: Vec<[String; 2]> = site.log_paths.iter().map(log_path).collect();
    if let Some(width) = width {
        let room = width.saturating_sub(LOG_HEADS[1].len() + GAP);
        log_paths.iter_mut().for_each(|[path, _]| shorten(path, room));
    }
    if !log_paths.is_empty() {
        writeln!(to)?;
        // No column has numbers.
        columns(LOG_HEADS, &log_paths, 2..=2, to)?;
    }
    let encoders = site.encoders.as_deref().unwrap_or("unknown");
    writeln!(to, "{DIM}{} bytes, of them {} the image{DIM:#}", site.len, site.image_len)?;
    let encoders = escaped(encoders.as_bytes());
    writeln!(to, "{DIM}{}{DIM:#}", wrapped(&format!("compressed by {encoders}"), width.unwrap_or(usize::MAX)))
}

/// Wraps a list at its separators.
fn wrapped(list: &str, width: usize) -> String {
    let (mut text, mut line) = (String::new(), String::new());
    for part in list.split_inclusive("; ") {
        if line.len() + part.trim_end().len() > width {
            text.extend([line.trim_end(), "\n"]);
            line.clear();
        }
        line.push_str(part);
    }
    text + &line
}

/// Makes a table fit: drops tags first, then parameters of media types, then the middle of names.
fn fit(heads: &mut [&str; 9], rows: &mut [[String; 9]], width: usize) {
    let width_of = |heads: &[&str; 9], rows: &[[String; 9]], at: usize| {
        let cells = rows.iter().filter(|row| at == 0 || is_file(row)).map(|row| row[at].chars().count());
        cells.chain([heads[at].len()]).max().unwrap_or_default()
    };
    let behind = |heads: &[&str; 9], rows: &[[String; 9]]| -> usize {
        (1..9).map(|at| width_of(heads, rows, at)).filter(|&width| width > 0).map(|width| GAP + width).sum()
    };
    let is_narrow = |heads: &[&str; 9], rows: &[[String; 9]]| {
        width_of(heads, rows, 0).min(NAME_WIDTH_MAX) + behind(heads, rows) > width
    };
    if is_narrow(heads, rows) {
        heads[TAG] = "";
        rows.iter_mut().for_each(|row| row[TAG].clear());
    }
    if is_narrow(heads, rows) {
        rows.iter_mut().filter(|row| is_file(row)).for_each(|row| {
            let len = row[1].find(';').unwrap_or(row[1].len());
            row[1].truncate(len);
        });
    }
    let room = width.saturating_sub(behind(heads, rows)).clamp(NAME_WIDTH_MIN, NAME_WIDTH_MAX);
    rows.iter_mut().for_each(|row| shorten(&mut row[0], room));
    let room = width.saturating_sub(width_of(heads, rows, 0) + GAP);
    rows.iter_mut().filter(|row| !is_file(row)).for_each(|row| shorten(&mut row[1], room));
}

/// Whether a row is a file, not a redirect.
fn is_file(row: &[String; 9]) -> bool {
    !row[2].is_empty()
}

/// Whether a cell affects the width of its column. The last cell of a row does not.
fn affects_width(row: &[String], at: usize) -> bool {
    at == 0 || row[at + 1..].iter().any(|cell| !cell.is_empty())
}

/// Leaves out the middle of a long text: both of its ends distinguish names.
pub(super) fn shorten(text: &mut String, width: usize) {
    let count = text.chars().count();
    if count > width {
        let front = width.saturating_sub(1).div_ceil(2);
        let back = width.saturating_sub(1 + front);
        *text = text.chars().take(front).chain(['…']).chain(text.chars().skip(count - back)).collect();
    }
}

/// Writes rows in columns of minimal width. Columns of numbers are aligned right, others left.
pub(crate) fn columns<const COUNT: usize>(
    heads: [&str; COUNT],
    rows: &[[String; COUNT]],
    numbers: RangeInclusive<usize>,
    to: &mut impl Write,
) -> io::Result<()> {
    let heads = heads.map(str::to_owned);
    let all = || [&heads].into_iter().chain(rows);
    let mut widths: [usize; COUNT] = std::array::from_fn(|at| {
        let cells = all().filter(|row| numbers.contains(&at) || affects_width(&row[..], at));
        cells.map(|row| row[at].chars().count()).max().unwrap_or_default()
    });
    widths[0] = widths[0].min(NAME_WIDTH_MAX);
    for (number, row) in all().enumerate() {
        let mut line = String::new();
        for (at, (cell, width)) in row.iter().zip(widths).enumerate() {
            let gap = if at + 1 == COUNT || width == 0 { 0 } else { GAP };
            let _ = match numbers.contains(&at) {
                true => write!(line, "{cell:>width$}{:gap$}", ""),
                false => write!(line, "{cell:<width$}{:gap$}", ""),
            };
        }
        match number {
            0 => writeln!(to, "{DIM}{}{DIM:#}", line.trim_end())?,
            _ => writeln!(to, "{}", line.trim_end())?,
        }
    }
    Ok(())
}

fn row(InspectedPath { path, is_logged, entry: what }: &InspectedPath) -> [String; 9] {
    let path = escaped(path);
    let unlogged = if *is_logged { "" } else { "not logged, " };
    match what {
        InspectedEntry::Redirect { status, to } => {
            let mut row = [const { String::new() }; 9];
            (row[0], row[1]) = (path, format!("{unlogged}{status} -> {}", escaped(to.as_bytes())));
            row
        }
        InspectedEntry::File {
            status,
            is_listing,
            media_type: media,
            cache_control: cache,
            variants: forms,
            ..
        } => {
            let len = |name: &str| {
                let form = forms.iter().find(|form| form.coding.name() == name);
                form.map(|form| form.len.to_string()).unwrap_or_default()
            };
            let deltas = forms.iter().filter(|form| form.dictionary.is_some()).map(|form| form.len);
            let delta = deltas.min().map(|len| len.to_string()).unwrap_or_default();
            let tag = forms.first().map(|form| escaped(form.etag.as_bytes())).unwrap_or_default();
            let media = match status {
                200 if *is_listing => format!("listing, {}", escaped(media.as_bytes())),
                200 => escaped(media.as_bytes()),
                _ => format!("{status} {}", escaped(media.as_bytes())),
            };
            let media = format!("{unlogged}{media}");
            [path, media, len("identity"), len("br"), len("gzip"), len("zstd"), delta, caching(cache), tag]
        }
    }
}

fn rule(InspectedRule { source: from, status, forced, target: to }: &InspectedRule) -> [String; 3] {
    let status = format!("{status}{}", if *forced { "!" } else { "" });
    [escaped(from.as_bytes()), status, escaped(to.as_bytes())]
}

fn log_path(InspectedLogPath { path, is_logged }: &InspectedLogPath) -> [String; 2] {
    [escaped(path.as_bytes()), if *is_logged { "on" } else { "off" }.to_owned()]
}

/// Shortens a value of Cache-Control that contains `immutable` to that word.
fn caching(cache: &str) -> String {
    match cache.split(',').any(|directive| directive.trim() == "immutable") {
        true => "immutable".to_owned(),
        false => escaped(cache.as_bytes()),
    }
}

/// Escapes text for a terminal.
fn escaped(bytes: &[u8]) -> String {
    bytes.printable().to_string()
}

/// Returns the content as one JSON object. A path that is not UTF-8 has replacement characters.
pub(crate) fn json(site: &SiteInspection) -> String {
    let mut to = String::new();
    let encoders = site.encoders.as_deref().map_or("null".to_owned(), string);
    let _ = write!(
        to,
        "{{\"len\":{},\"image_len\":{},\"encoders\":{encoders},\"paths\":[",
        site.len, site.image_len
    );
    for (number, InspectedPath { path, is_logged, entry: what }) in site.paths.iter().enumerate() {
        to.push_str(if number > 0 { ",\n" } else { "\n" });
        let path = string(&String::from_utf8_lossy(path));
        let _ = match what {
            InspectedEntry::Redirect { status, to: location } => {
                write!(
                    to,
                    "{{\"path\":{path},\"status\":{status},\"location\":{},\"logged\":{is_logged}}}",
                    string(location)
                )
            }
            InspectedEntry::File {
                status,
                is_listing,
                media_type: media,
                last_modified,
                cache_control: cache,
                variants: forms,
            } => {
                let forms: Vec<_> = forms.iter().map(form).collect();
                write!(
                    to,
                    "{{\"path\":{path},\"status\":{status},\"listing\":{is_listing},\"type\":{},\"last_modified\":{last_modified},\"cache_control\":{},\"logged\":{is_logged},\"forms\":[{}]}}",
                    string(media),
                    string(cache),
                    forms.join(",")
                )
            }
        };
    }
    to.push_str("\n],\"rules\":[");
    for (number, InspectedRule { source: from, status, forced, target }) in site.rules.iter().enumerate() {
        let comma = if number > 0 { "," } else { "" };
        let (from, target) = (string(from), string(target));
        let _ = write!(
            to,
            "{comma}\n{{\"from\":{from},\"status\":{status},\"forced\":{forced},\"to\":{target}}}"
        );
    }
    to.push_str("\n],\"log_paths\":[");
    for (number, InspectedLogPath { path, is_logged }) in site.log_paths.iter().enumerate() {
        let comma = if number > 0 { "," } else { "" };
        let _ = write!(to, "{comma}\n{{\"path\":{},\"logged\":{is_logged}}}", string(path));
    }
    to.push_str("\n]}");
    to
}

/// Returns a form as JSON. The dictionary has the digest that `sha256sum` prints.
fn form(InspectedVariant { coding, dictionary, len, etag: tag }: &InspectedVariant) -> String {
    let hex = |digest: &[u8; 32]| digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let dictionary = dictionary.as_ref().map(|digest| format!(",\"dictionary\":\"{}\"", hex(digest)));
    let (coding, tag, dictionary) = (string(coding.name()), string(tag), dictionary.unwrap_or_default());
    format!("{{\"coding\":{coding},\"len\":{len},\"tag\":{tag}{dictionary}}}")
}

/// Returns a JSON string. RFC 8259, section 7.
fn string(text: &str) -> String {
    let mut to = String::from('"');
    for char in text.chars() {
        match char {
            '"' | '\\' => to.extend(['\\', char]),
            // A terminal may show the output.
            char if is_invisible(char) => {
                for unit in char.encode_utf16(&mut [0; 2]) {
                    let _ = write!(to, "\\u{unit:04x}");
                }
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
    use crate::{CODINGS, DELTA_CODINGS};
    use tarpon_site::Coding;

    #[test]
    fn json_and_table_have_the_same_content() {
        let form =
            |coding, dictionary, len| InspectedVariant { coding, dictionary, len, etag: "\"t\"".to_owned() };
        let mut forms = CODINGS.map(|coding| form(coding, None, 5)).to_vec();
        forms.extend([9, 3].map(|len| form(DELTA_CODINGS[0], Some([0xab; 32]), len)));
        let cache = "public, immutable".to_owned();
        let file = InspectedEntry::File {
            status: 200,
            is_listing: false,
            media_type: "text/html".to_owned(),
            last_modified: 7,
            cache_control: cache,
            variants: forms,
        };
        let rule = InspectedRule {
            source: "/a/* b=:2".to_owned(),
            status: 302,
            forced: true,
            target: "/:splat".to_owned(),
        };
        let redirect = InspectedEntry::Redirect { status: 308, to: "/b".to_owned() };
        let log_path = |is_logged| InspectedLogPath { path: "/a/*".to_owned(), is_logged };
        let site = SiteInspection {
            len: 1,
            image_len: 2,
            encoders: None,
            paths: vec![
                InspectedPath { path: b"/a\"\\\n\xff".to_vec(), is_logged: false, entry: redirect },
                InspectedPath { path: "/é".into(), is_logged: true, entry: file.clone() },
            ],
            rules: vec![rule.clone(), rule],
            log_paths: vec![log_path(false), log_path(true)],
        };
        let want = concat!(
            "{\"len\":1,\"image_len\":2,\"encoders\":null,\"paths\":[\n",
            "{\"path\":\"/a\\\"\\\\\\u000a\u{fffd}\",\"status\":308,\"location\":\"/b\",\"logged\":false},\n",
            "{\"path\":\"/é\",\"status\":200,\"listing\":false,\"type\":\"text/html\",\"last_modified\":7,",
            "\"cache_control\":\"public, immutable\",\"logged\":true,\"forms\":[",
            "{\"coding\":\"br\",\"len\":5,\"tag\":\"\\\"t\\\"\"},",
            "{\"coding\":\"gzip\",\"len\":5,\"tag\":\"\\\"t\\\"\"},",
            "{\"coding\":\"zstd\",\"len\":5,\"tag\":\"\\\"t\\\"\"},",
            "{\"coding\":\"dcb\",\"len\":9,\"tag\":\"\\\"t\\\"\",\"dictionary\":\"DIGEST\"},",
            "{\"coding\":\"dcb\",\"len\":3,\"tag\":\"\\\"t\\\"\",\"dictionary\":\"DIGEST\"}]}\n],\"rules\":[\n",
            "{\"from\":\"/a/* b=:2\",\"status\":302,\"forced\":true,\"to\":\"/:splat\"},\n",
            "{\"from\":\"/a/* b=:2\",\"status\":302,\"forced\":true,\"to\":\"/:splat\"}\n],\"log_paths\":[\n",
            "{\"path\":\"/a/*\",\"logged\":false},\n{\"path\":\"/a/*\",\"logged\":true}\n]}",
        );
        assert_eq!(json(&site), want.replace("DIGEST", &"ab".repeat(32)));
        assert_eq!(row(&site.paths[0])[..2], ["/a\"\\\\\\n\\xff", "not logged, 308 -> /b"]);
        assert_eq!(row(&site.paths[1])[1..8], ["text/html", "", "5", "5", "5", "3", "immutable"]);
        assert_eq!(super::rule(&site.rules[0]), ["/a/* b=:2", "302!", "/:splat"]);
        assert_eq!([caching("no-cache"), caching("max-age=9")], ["no-cache", "max-age=9"]);
    }

    #[test]
    fn lines_fit_the_terminal_and_keep_both_ends_of_names() {
        let tag = format!("\"{}\"", "0".repeat(32));
        let form = |coding| InspectedVariant { coding, dictionary: None, len: 123_456, etag: tag.clone() };
        let forms: Vec<_> = [Coding::Identity].into_iter().chain(CODINGS).map(form).collect();
        let media = "text/html; charset=utf-8".to_owned();
        let file = InspectedEntry::File {
            status: 200,
            is_listing: false,
            media_type: media,
            last_modified: 7,
            cache_control: "no-cache".to_owned(),
            variants: forms,
        };
        let path = |name: &str| format!("/{}{name}", "long/".repeat(30));
        let rows = |what: &InspectedEntry, name: &str| InspectedPath {
            path: path(name).into(),
            is_logged: true,
            entry: what.clone(),
        };
        let redirect = InspectedEntry::Redirect { status: 301, to: path("target") };
        let rule = InspectedRule { source: path("*"), status: 301, forced: false, target: path(":splat") };
        let site = SiteInspection {
            len: 1,
            image_len: 2,
            encoders: None,
            paths: vec![rows(&file, "name"), rows(&redirect, "old")],
            rules: vec![rule],
            log_paths: vec![InspectedLogPath { path: path("log/*"), is_logged: false }],
        };
        let lines = |width| {
            let mut out = Vec::new();
            write(&site, width, &mut out).expect("memory");
            let text = anstream::adapter::strip_str(&String::from_utf8(out).expect("text")).to_string();
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        for width in [80, 100, 132] {
            let lines = lines(Some(width));
            assert!(lines.iter().all(|line| line.chars().count() <= width), "{width}: {lines:#?}");
            assert!(lines[1].starts_with("/long/") && lines[1].contains("/name "), "{lines:#?}");
            assert!(lines[2].contains("/old ") && lines[2].ends_with("/target"), "{lines:#?}");
            assert!(lines[5].contains("/* ") && lines[5].ends_with("/:splat"), "{lines:#?}");
            assert!(lines[8].contains("/log/* ") && lines[8].ends_with("off"), "{lines:#?}");
        }
        let whole = lines(None).join("\n");
        for shown in [path("name"), path("old"), path("target"), path("*"), tag, "charset".to_owned()] {
            assert!(whole.contains(&shown), "{whole}");
        }
    }
}
