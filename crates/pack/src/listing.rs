//! Listings of directories without an `index.html`: a page for people, and JSON for programs.
//!
//! ```text
//! files, sizes, times ─▶ rows of each directory ─ directories first, numbers by value ─┬─▶ HTML
//!                                                                                      └─▶ JSON
//! ```
//!
//! A page sorts its rows by name, size or date without a script and without a request: each row has its place in every order, and a style
//! selects the order of the chosen radio button. Links to sorted variants would multiply the pages of each directory, which all lie in
//! memory.
//!
//! The time of a directory is that of the newest file below it: its own time would change with files that are not served. A listing
//! has only entries that are served, and none whose name begins with a dot. File names are untrusted bytes: they are escaped for HTML
//! and JSON, percent-encoded in links, and isolated from the text around them in either writing direction.

use crate::address::PageAddresses;
use crate::url_path::percent_encode;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::Write;
use tarpon_http::date;

/// The listing of a directory, in both formats.
pub(crate) struct Listing {
    /// The directory, with its trailing slash.
    pub(crate) dir: Vec<u8>,
    pub(crate) html: String,
    pub(crate) json: String,
    /// Seconds since 1970.
    pub(crate) modified_s: u64,
}

/// A served file.
#[derive(Clone, Copy)]
pub(crate) struct ListedFile<'p> {
    pub(crate) path: &'p [u8],
    /// In bytes.
    pub(crate) len: u64,
    /// Seconds since 1970.
    pub(crate) modified_s: u64,
    /// Whether it lies in a user directory. The listing of the root does not show these.
    pub(crate) is_of_user: bool,
}

/// Returns the listings of all directories that have one.
pub(crate) fn listings<'p>(
    files: impl IntoIterator<Item = ListedFile<'p>>,
    addresses: &PageAddresses,
) -> Vec<Listing> {
    let mut dirs: BTreeMap<&[u8], Vec<ListingRow>> =
        addresses.listings().iter().map(|dir| (&dir[..], Vec::new())).collect();
    // By directory and name of its subdirectory: the time of the newest file below.
    let mut inner: BTreeMap<(&[u8], &[u8]), u64> = BTreeMap::new();
    for ListedFile { path, len, modified_s, is_of_user } in files {
        let slashes: Vec<_> = (0..path.len()).filter(|&at| path[at] == b'/').collect();
        let Some(&last) = slashes.last() else { continue };
        if let Some(rows) = dirs.get_mut(&path[..=last]) {
            let href = addresses.address_of(path).served_at.pop().unwrap_or_default();
            let href = addresses.policy.public_path(&href);
            rows.push(ListingRow { name: path[last + 1..].to_vec(), href, len: Some(len), modified_s });
        }
        for pair in slashes.windows(2).skip(usize::from(is_of_user)) {
            let (dir, name) = (&path[..=pair[0]], &path[pair[0] + 1..pair[1]]);
            let newest = inner.entry((dir, name)).or_default();
            *newest = modified_s.max(*newest);
        }
    }
    for ((dir, name), modified_s) in inner {
        if let Some(rows) = dirs.get_mut(dir) {
            let href = addresses.policy.public_path(&addresses.of_dir(&[dir, name, b"/"].concat()));
            rows.push(ListingRow { name: name.to_vec(), href, len: None, modified_s });
        }
    }
    dirs.into_iter().map(|(dir, rows)| listing(dir, rows, addresses)).collect()
}

/// An entry of a listing.
struct ListingRow {
    name: Vec<u8>,
    /// A decoded path.
    href: Vec<u8>,
    /// In bytes. `None`: a directory.
    len: Option<u64>,
    modified_s: u64,
}

fn listing(dir: &[u8], mut rows: Vec<ListingRow>, addresses: &PageAddresses) -> Listing {
    rows.retain(|row| !row.name.starts_with(b"."));
    rows.sort_by(|one, other| {
        (one.len.is_some().cmp(&other.len.is_some())).then_with(|| natural_order(&one.name, &other.name))
    });
    let modified_s = rows.iter().map(|row| row.modified_s).max().unwrap_or_default();
    Listing { dir: dir.to_vec(), html: html(dir, &rows, addresses), json: json(&rows), modified_s }
}

/// Compares names with digits as numbers, and ASCII letters without case. Names that are equal so far compare as bytes.
fn natural_order(one: &[u8], other: &[u8]) -> Ordering {
    let (mut left, mut right) = (one, other);
    while let ([first, ..], [second, ..]) = (left, right) {
        let order = if first.is_ascii_digit() && second.is_ascii_digit() {
            let (number, rest) = number(left);
            let (another, another_rest) = self::number(right);
            (left, right) = (rest, another_rest);
            number.len().cmp(&another.len()).then_with(|| number.cmp(another))
        } else {
            (left, right) = (&left[1..], &right[1..]);
            first.to_ascii_lowercase().cmp(&second.to_ascii_lowercase())
        };
        if order.is_ne() {
            return order;
        }
    }
    left.len().cmp(&right.len()).then_with(|| one.cmp(other))
}

/// Splits off the digits at the front, without leading zeros.
fn number(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(bytes.len());
    let zeros = bytes[..end].iter().take_while(|&&byte| byte == b'0').count();
    (&bytes[zeros..end], &bytes[end..])
}

fn html(dir: &[u8], rows: &[ListingRow], addresses: &PageAddresses) -> String {
    let title = text(dir);
    let mut to = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n<h1>{}</h1>\n",
        breadcrumbs(dir, addresses),
    );
    if rows.is_empty() {
        return to + "<p>There is nothing here.\n";
    }
    let is_sortable = rows.len() > 1;
    if is_sortable {
        to += SORT_BUTTONS;
    }
    to += "<table>\n<thead><tr><th scope=\"col\">Name<th scope=\"col\">Size<th scope=\"col\">Modified (UTC)\n<tbody>\n";
    if let Some(href) = parent_href(dir, addresses) {
        let _ = writeln!(
            to,
            "<tr><td><a href=\"{href}\" aria-label=\"../, the directory above\">../</a><td><td>"
        );
    }
    let places = [places(rows, by_size), places(rows, by_date)];
    for (number, row) in rows.iter().enumerate() {
        let (name, href) = (text(&row.name), escaped(&percent_encode(&row.href)));
        let slash = if row.len.is_none() { "/" } else { "" };
        let size =
            row.len.map(|len| format!("<data value=\"{len}\" title=\"{}\">{}</data>", bytes(len), size(len)));
        let date = iso(row.modified_s);
        let (day, time) = (&date[..10], &date[11..19]);
        let place = match is_sortable {
            true => format!(" style=\"--s:{};--d:{}\"", places[0][number], places[1][number]),
            false => String::new(),
        };
        let _ = writeln!(
            to,
            "<tr{place}><td><a href=\"{href}\"><bdi>{name}</bdi>{slash}</a><td>{}<td><time datetime=\"{date}\" title=\"{day} \
             {time}\">{day} {}</time>",
            size.unwrap_or_default(),
            &time[..5],
        );
    }
    to + "</table>\n"
}

/// Orders files by size, the largest first, behind the directories.
fn by_size(one: &ListingRow, other: &ListingRow) -> Ordering {
    // A directory has no size.
    other.len.is_none().cmp(&one.len.is_none()).then(other.len.cmp(&one.len))
}

/// Orders files and directories by date, the newest first.
fn by_date(one: &ListingRow, other: &ListingRow) -> Ordering {
    other.modified_s.cmp(&one.modified_s)
}

/// Returns the place of each row in another order, from 1. Rows that are equal there stay as they are.
fn places(rows: &[ListingRow], order: fn(&ListingRow, &ListingRow) -> Ordering) -> Vec<usize> {
    let mut sorted: Vec<_> = (0..rows.len()).collect();
    sorted.sort_by(|&one, &other| order(&rows[one], &rows[other]));
    let mut places = vec![0; rows.len()];
    sorted.into_iter().zip(1..).for_each(|(number, place)| places[number] = place);
    places
}

/// Returns the link to the directory above. `None`: the directory is the root of the site.
fn parent_href(dir: &[u8], addresses: &PageAddresses) -> Option<String> {
    let slash = dir[..dir.len() - 1].iter().rposition(|&byte| byte == b'/')?;
    Some(dir_href(&dir[..=slash], addresses))
}

/// Returns the link to a directory.
fn dir_href(dir: &[u8], addresses: &PageAddresses) -> String {
    escaped(&percent_encode(&addresses.policy.public_path(&addresses.of_dir(dir))))
}

/// Returns the path of the directory, with a link to each directory above.
fn breadcrumbs(dir: &[u8], addresses: &PageAddresses) -> String {
    let slashes: Vec<_> = (0..dir.len()).filter(|&at| dir[at] == b'/').collect();
    let mut to = String::new();
    for (number, &slash) in slashes.iter().enumerate() {
        let from = number.checked_sub(1).map_or(0, |before| slashes[before] + 1);
        let name = text(&dir[from..slash]);
        let _ = match slash + 1 == dir.len() {
            true => write!(to, "<bdi>{name}</bdi>/"),
            false => {
                let href = dir_href(&dir[..=slash], addresses);
                write!(to, "<a href=\"{href}\"><bdi>{name}</bdi>/</a>")
            }
        };
    }
    to
}

fn json(rows: &[ListingRow]) -> String {
    let object = |row: &ListingRow| {
        let (name, href, modified) = (
            quoted(&String::from_utf8_lossy(&row.name)),
            quoted(&percent_encode(&row.href)),
            iso(row.modified_s),
        );
        let (kind, size) = match row.len {
            Some(len) => ("file", format!("\"size\":{len},")),
            None => ("directory", String::new()),
        };
        format!("{{\"name\":{name},\"type\":\"{kind}\",{size}\"modified\":\"{modified}\",\"href\":{href}}}")
    };
    let objects: Vec<_> = rows.iter().map(object).collect();
    match objects.is_empty() {
        true => "[]\n".to_owned(),
        false => format!("[\n{}\n]\n", objects.join(",\n")),
    }
}

/// Returns a name as text in HTML. Replaces bytes that are not UTF-8, control characters, and characters that change the writing
/// direction (and show `txt.exe` as `exe.txt`) by the replacement character.
fn text(name: &[u8]) -> String {
    let is_direction = |char| matches!(char, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let is_invisible = |char: char| char.is_control() || is_direction(char);
    escaped(&String::from_utf8_lossy(name).replace(is_invisible, "\u{fffd}"))
}

/// Escapes text for HTML, between tags or in double quotes.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Returns a JSON string. RFC 8259, section 7.
fn quoted(text: &str) -> String {
    let mut to = String::from("\"");
    for char in text.chars() {
        match char {
            '"' | '\\' => to.extend(['\\', char]),
            // Programs that evaluate JSON as JavaScript may take the last two as line ends.
            '\0'..='\x1f' | '\x7f' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(to, "\\u{:04x}", u32::from(char));
            }
            char => to.push(char),
        }
    }
    to.push('"');
    to
}

fn iso(unix_s: u64) -> String {
    String::from_utf8_lossy(&date::format_rfc3339(unix_s)).into_owned()
}

/// Returns the exact length.
fn bytes(len: u64) -> String {
    if len == 1 { "1 byte".to_owned() } else { format!("{len} bytes") }
}

/// Returns a length in the largest unit in which it is at least one.
fn size(len: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if len < 1024 {
        return bytes(len);
    }
    let (mut value, mut unit) = (len as f64 / 1024.0, 0);
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        (value, unit) = (value / 1024.0, unit + 1);
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// Hidden unless the style shows them: without it they would have no effect.
const SORT_BUTTONS: &str = "<fieldset hidden><legend>Sort by</legend>\
<label><input type=\"radio\" name=\"sort\" value=\"name\" checked> name</label>\
<label><input type=\"radio\" name=\"sort\" value=\"size\"> size</label>\
<label><input type=\"radio\" name=\"sort\" value=\"date\"> date</label></fieldset>\n";

/// The page works without it, if a Content-Security-Policy forbids inline styles. The columns of size and date have a fixed width, so that
/// they stand at the same place on every page and in every order. Only a chosen order lays the table out as a grid: assistive programs of
/// some browsers no longer see a table there. On a narrow screen, size and date stand below the name.
const STYLE: &str = "body{max-width:60em;margin:2em auto;padding:0 1em;font:1em/1.5 system-ui,sans-serif}\
h1{font-size:1.2em;overflow-wrap:anywhere}\
fieldset{border:0;padding:0 .5em;margin:0 0 .5em;gap:0 1em;flex-wrap:wrap;font-size:.9em}\
legend{float:left;padding:0;opacity:.7}input{margin:.2em;vertical-align:middle}\
table{width:100%;border-collapse:collapse;table-layout:fixed}\
th,td{box-sizing:border-box;padding:.4em .5em;border-bottom:1px solid #8884;vertical-align:top}\
th{text-align:left;font-weight:normal;opacity:.7}th+th{width:7.5em}th:last-child{width:10.5em}\
td:first-child{overflow-wrap:anywhere}\
th+th,td+td{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}\
h1 a{padding:.3em}td a{display:block}a{text-decoration:none}a:hover,a:focus{text-decoration:underline}\
@supports selector(:has(a)){fieldset{display:flex}\
body:has([value=name]:not(:checked)){& table{display:flex;flex-direction:column}& tbody{display:contents}& tr{order:var(--d,0)}}\
body:has([value=size]:checked){& tr{order:var(--s,0)}}\
@media(min-width:40.01em){body:has([value=name]:not(:checked)) tr{display:grid;grid-template-columns:1fr 7.5em 10.5em}}}\
@media(max-width:40em){thead{display:none}\
tr{display:grid;grid-template-columns:1fr 1fr;border-bottom:1px solid #8884;padding:.3em 0}\
td{border:0;padding:.1em .2em}td:first-child{grid-column:1/3}td+td{text-align:left;font-size:.9em;opacity:.8}\
td:last-child{text-align:right}}";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Policy, TrailingSlash};

    /// Returns the listings of a site with files at these paths. Each file is as long as its path, and a minute newer than the last.
    fn lists(paths: &[&str], policy: &Policy) -> Vec<Listing> {
        let policy = Policy { listings: true, ..policy.clone() };
        let addresses =
            PageAddresses::new(paths.iter().map(|path| path.as_bytes()), &policy).expect("a site");
        let listed = paths.iter().enumerate().map(|(number, path)| {
            let (len, modified_s) = (path.len() as u64, 784_111_777 + 60 * number as u64);
            ListedFile { path: path.as_bytes(), len, modified_s, is_of_user: false }
        });
        listings(listed, &addresses)
    }

    #[test]
    fn json_listing_has_name_type_size_time_and_address() {
        let lists = lists(&["/b.txt", "/a/x", "/a/y/z", "/.well-known/w"], &Policy::default());
        let dirs: Vec<_> = lists.iter().map(|list| String::from_utf8_lossy(&list.dir)).collect();
        assert_eq!(dirs, ["/", "/a/", "/a/y/"]);
        let want = r#"[
{"name":"a","type":"directory","modified":"1994-11-06T08:51:37Z","href":"/a/"},
{"name":"b.txt","type":"file","size":6,"modified":"1994-11-06T08:49:37Z","href":"/b.txt"}
]
"#;
        assert_eq!(lists[0].json, want);
        assert_eq!(lists[0].modified_s, 784_111_777 + 120, "the time of the newest entry");
        assert!(
            lists[1].json.contains(
                r#"{"name":"y","type":"directory","modified":"1994-11-06T08:51:37Z","href":"/a/y/"}"#
            )
        );
    }

    #[test]
    fn directory_with_a_page_has_no_listing_and_an_empty_site_has_one() {
        let dirs = |paths: &[&str]| {
            let lists = lists(paths, &Policy::default());
            lists.iter().map(|list| String::from_utf8_lossy(&list.dir).into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(dirs(&["/index.html", "/a/b/c", "/d/index.html"]), ["/a/", "/a/b/"]);
        assert_eq!(dirs(&["/.well-known/a/b"]), ["/"]);
        let empty = &lists(&[], &Policy::default())[0];
        assert_eq!((&*empty.json, empty.modified_s), ("[]\n", 0));
        assert!(empty.html.contains("There is nothing here."));
    }

    #[test]
    fn links_lead_to_the_address_of_each_page() {
        let hrefs = |policy: &Policy| {
            let lists = lists(&["/about.html", "/dir/page.html", "/sub/index.html"], policy);
            let lines =
                lists[0].json.lines().filter_map(|line| Some(line.split_once(r#""href":""#)?.1.to_owned()));
            lines.map(|rest| rest.split('"').next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
        };
        let clean = |trailing_slash| Policy { clean_urls: true, trailing_slash, ..Policy::default() };
        assert_eq!(hrefs(&Policy::default()), ["/dir/", "/sub/", "/about.html"]);
        assert_eq!(hrefs(&clean(TrailingSlash::Auto)), ["/dir/", "/sub/", "/about"]);
        assert_eq!(hrefs(&clean(TrailingSlash::Always)), ["/dir/", "/sub/", "/about/"]);
        assert_eq!(hrefs(&clean(TrailingSlash::Never)), ["/dir", "/sub", "/about"]);
    }

    #[test]
    #[rustfmt::skip]
    fn names_are_escaped_and_encoded() {
        let cases: &[(&str, &[u8], &str, &str, &str)] = &[
            // what it shows   name                     as text                          as JSON                  in a link
            ("plain",          b"a.txt",                "a.txt",                         r#""a.txt""#,            "a.txt"),
            ("space",          b"a b",                  "a b",                           r#""a b""#,              "a%20b"),
            ("quotes",         b"\"a'",                 "&quot;a'",                      r#""\"a'""#,             "%22a'"),
            ("markup",         b"<script>",             "&lt;script&gt;",                r#""<script>""#,         "%3Cscript%3E"),
            ("ampersand",      b"a&amp;b",              "a&amp;amp;b",                   r#""a&amp;b""#,          "a&amp;amp;b"),
            ("percent",        b"100%25",               "100%25",                        r#""100%25""#,           "100%2525"),
            ("query",          b"a?b",                  "a?b",                           r#""a?b""#,              "a%3Fb"),
            ("fragment",       b"a#b",                  "a#b",                           r#""a#b""#,              "a%23b"),
            ("colon",          b"javascript:x",         "javascript:x",                  r#""javascript:x""#,     "javascript:x"),
            ("backslash",      b"a\\b",                 "a\\b",                          r#""a\\b""#,             "a%5Cb"),
            ("not UTF-8",      b"a\xffb",               "a\u{fffd}b",                    "\"a\u{fffd}b\"",        "a%FFb"),
            ("newline",        b"a\nb",                 "a\u{fffd}b",                    r#""a\u000ab""#,         "a%0Ab"),
            ("delete",         b"a\x7fb",               "a\u{fffd}b",                    r#""a\u007fb""#,         "a%7Fb"),
            ("C1 control",     b"a\xc2\x85b",           "a\u{fffd}b",                    "\"a\u{85}b\"",          "a%C2%85b"),
            ("Hebrew",         "שלום".as_bytes(),        "שלום",                          "\"שלום\"",               "%D7%A9%D7%9C%D7%95%D7%9D"),
            ("right to left",  "\u{202e}txt".as_bytes(), "\u{fffd}txt",                  "\"\u{202e}txt\"",       "%E2%80%AEtxt"),
            ("emoji",          "🦈".as_bytes(),          "🦈",                            "\"🦈\"",                 "%F0%9F%A6%88"),
            ("line separator", "\u{2028}".as_bytes(),    "\u{2028}",                     r#""\u2028""#,           "%E2%80%A8"),
        ];
        for &(name, bytes, in_html, in_json, in_link) in cases {
            assert_eq!(text(bytes), in_html, "{name}");
            assert_eq!(quoted(&String::from_utf8_lossy(bytes)), in_json, "{name}");
            assert_eq!(escaped(&percent_encode(bytes)), in_link, "{name}");
            let path = [b"/", bytes].concat();
            let policy = Policy { listings: true, ..Policy::default() };
            let addresses = PageAddresses::new([&path[..]].into_iter(), &policy).expect("a site");
            let list = listings([ListedFile { path: &path, len: 1, modified_s: 0, is_of_user: false }], &addresses).remove(0);
            let row = format!("<tr><td><a href=\"/{in_link}\"><bdi>{in_html}</bdi></a><td>");
            assert!(list.html.contains(&row), "{name}: {}", list.html);
        }
    }

    #[test]
    fn directories_come_first_and_numbers_sort_by_value() {
        let names =
            ["file10", "File2", "file1", "file 1", "file01", "file1a", "b", "A", "a", "file", "10", "9", "é"];
        let paths: Vec<_> =
            names.iter().map(|name| format!("/{name}")).chain(["/z/a".into(), "/Y/a".into()]).collect();
        let lists = lists(&paths.iter().map(|path| &**path).collect::<Vec<_>>(), &Policy::default());
        let shown: Vec<_> = lists[0].json.lines().filter_map(|line| line.split('"').nth(3)).collect();
        let want = [
            "Y", "z", "9", "10", "A", "a", "b", "file", "file 1", "file01", "file1", "file1a", "File2",
            "file10", "é",
        ];
        assert_eq!(shown, want);
    }

    #[test]
    fn each_row_has_its_place_in_every_order() {
        let row =
            |name: &str, len, modified_s| ListingRow { name: name.into(), href: Vec::new(), len, modified_s };
        let rows = [
            row("dir", None, 5),
            row("other", None, 9),
            row("a", Some(0), 7),
            row("b", Some(30), 9),
            row("c", Some(4), 1),
            row("d", Some(4), 2),
        ];
        assert_eq!(places(&rows, by_size), [1, 2, 6, 3, 4, 5]);
        assert_eq!(places(&rows, by_date), [4, 1, 3, 2, 6, 5]);
    }

    #[test]
    fn rows_are_sortable_and_lead_to_the_directory_above() {
        let lists = lists(&["/a/b.txt", "/a/long name.txt", "/a/d/x"], &Policy::default());
        let html = |dir: &str| &lists.iter().find(|list| list.dir == dir.as_bytes()).expect("a listing").html;
        let rows: Vec<_> = html("/a/").lines().filter(|line| line.starts_with("<tr")).collect();
        let begins = [
            "<tr><td><a href=\"/\" aria-label=\"../, the directory above\">../</a><td><td>",
            "<tr style=\"--s:1;--d:1\"><td><a href=\"/a/d/\">",
            "<tr style=\"--s:3;--d:3\"><td><a href=\"/a/b.txt\">",
            "<tr style=\"--s:2;--d:2\"><td><a href=\"/a/long%20name.txt\">",
        ];
        assert!(
            rows.len() == 4 && rows.iter().zip(begins).all(|(row, begin)| row.starts_with(begin)),
            "{rows:#?}"
        );
        assert!(html("/a/").contains("<title>/a/</title>") && html("/a/").contains("<fieldset hidden>"));
        // The root has no directory above, and a single row no order.
        assert!(
            !html("/").contains("../") && !html("/").contains("<fieldset") && !html("/").contains("--s:")
        );
        assert!(html("/a/d/").contains("<a href=\"/a/\" aria-label"));
    }

    #[test]
    #[rustfmt::skip]
    fn sizes_are_readable_and_exact() {
        let cases = [
            (0, "0 bytes"), (1, "1 byte"), (1_023, "1023 bytes"), (1_024, "1.0 KiB"), (1_048_575, "1.0 MiB"),
            (5 << 20, "5.0 MiB"), (7 << 50, "7168.0 TiB"),
        ];
        for (len, want) in cases {
            assert_eq!(size(len), want, "{len}");
        }
        assert_eq!((&*bytes(1), &*bytes(1_234_567)), ("1 byte", "1234567 bytes"));
    }

    #[test]
    fn breadcrumbs_link_each_directory_above() {
        let lists = lists(&["/a <b>/c/d"], &Policy::default());
        let list = lists.iter().find(|list| list.dir == b"/a <b>/c/").expect("the innermost");
        let want = "<h1><a href=\"/\"><bdi></bdi>/</a><a href=\"/a%20%3Cb%3E/\"><bdi>a &lt;b&gt;</bdi>/</a><bdi>c</bdi>/</h1>";
        assert!(list.html.contains(want), "{}", list.html);
    }
}
