//! The requests of visitors of a site, as a mix: a page, then its assets.
//!
//! ```text
//! visit: GET page ─▶ GET style, script, picture, …      with If-None-Match, if the visitor has them
//! ```
//!
//! Some pages are far more popular than others: a page is visited in inverse proportion to its rank, as in Breslau et al., "Web Caching and
//! Zipf-like Distributions", 1999. The ranks are drawn by chance, with the same result on each machine.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;

use super::closed_loop::SILENCE_MAX;
use super::request::RequestForm;
use super::response::ResponseError;
use super::{ClientError, connect, read_summary};
use crate::error::LabError;
use crate::generated_site::PageRng;

/// A request of a mix, or a batch of equal ones.
pub(crate) struct VisitRequest {
    pub(crate) bytes: Vec<u8>,
    /// The status of each response.
    pub(crate) status: u16,
}

/// A request of a visitor, the same for every server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlannedVisitRequest {
    path: String,
    kind: VisitRequestKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VisitRequestKind {
    Whole,
    /// The visitor has the file.
    Validated,
    Missing,
}

/// Returns the requests of visitors of a site.
pub(crate) fn plan(site: &Path) -> Result<Vec<PlannedVisitRequest>, LabError> {
    let mut pages = pages(site)?;
    if pages.is_empty() {
        return Err(format!("{}: no file whose name ends in .html", site.display()).into());
    }
    let mut random = PageRng::new(SEED);
    // Fisher and Yates.
    for last in (1..pages.len()).rev() {
        pages.swap(last, random.below(last as u64 + 1) as usize);
    }
    let weights: Vec<f64> = (1..=pages.len()).map(|rank| 1.0 / rank as f64).collect();
    let sum: f64 = weights.iter().sum();
    let mut assets_of: HashMap<usize, Vec<String>> = HashMap::new();
    let mut requests = Vec::new();
    while requests.len() < MIX_LEN {
        let mut left = random.fraction() * sum;
        let drawn = weights.iter().position(|weight| {
            left -= weight;
            left <= 0.0
        });
        let rank = drawn.unwrap_or(pages.len() - 1);
        let page = &pages[rank];
        let assets = match assets_of.entry(rank) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(free) => free.insert(assets(site, page)?),
        };
        let kind =
            if random.fraction() < RETURNING { VisitRequestKind::Validated } else { VisitRequestKind::Whole };
        requests.push(PlannedVisitRequest { path: page.clone(), kind: VisitRequestKind::Whole });
        requests.extend(assets.iter().map(|path| PlannedVisitRequest { path: path.clone(), kind }));
        if random.fraction() < BROKEN_LINKS {
            requests.push(PlannedVisitRequest {
                path: format!("{page}.missing"),
                kind: VisitRequestKind::Missing,
            });
        }
    }
    Ok(requests)
}

/// Returns the requests with the validators of this server.
pub(crate) fn requests(
    server: SocketAddr,
    plan: &[PlannedVisitRequest],
) -> Result<Vec<VisitRequest>, ClientError> {
    let host = server.to_string();
    let mut validated: HashMap<&str, (Vec<u8>, u16)> = HashMap::new();
    let mut requests = Vec::with_capacity(plan.len());
    for PlannedVisitRequest { path, kind } in plan {
        let whole = RequestForm::Browser.request(&host, path);
        let (bytes, status) = match kind {
            VisitRequestKind::Whole => (whole, 200),
            VisitRequestKind::Missing => (whole, 404),
            VisitRequestKind::Validated => {
                if !validated.contains_key(&**path) {
                    validated.insert(path, with_validators(server, whole)?);
                }
                validated[&**path].clone()
            }
        };
        requests.push(VisitRequest { bytes, status });
    }
    Ok(requests)
}

/// Returns a request with the validators of the response to it, and the status of the response to that: 304, or 200 from a server without
/// validators for the file.
fn with_validators(server: SocketAddr, whole: Vec<u8>) -> Result<(Vec<u8>, u16), ClientError> {
    let mut stream = connect(server, SILENCE_MAX)?;
    stream.write_all(&whole)?;
    let mut wire = Vec::new();
    let head_len = read_summary(&mut stream, &mut wire)?.size.head_len;
    let fields = RequestForm::validators(&wire[..head_len]);
    let mut request = whole;
    request.truncate(request.len() - 2);
    request.extend_from_slice(format!("{fields}\r\n").as_bytes());
    let mut stream = connect(server, SILENCE_MAX)?;
    stream.write_all(&request)?;
    match read_summary(&mut stream, &mut Vec::new())?.status {
        status @ (200 | 304) => Ok((request, status)),
        _ => Err(ResponseError::Status.into()),
    }
}

/// Returns the paths of all pages below a directory, as a client names them, in order.
pub(crate) fn pages(site: &Path) -> Result<Vec<String>, LabError> {
    let (mut pages, mut directories) = (Vec::new(), vec![String::new()]);
    while let Some(directory) = directories.pop() {
        let path = site.join(directory.trim_start_matches('/'));
        for entry in fs::read_dir(&path).map_err(|error| format!("{}: {error}", path.display()))? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            // Other characters would have to be escaped.
            let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
            let path = format!("{directory}/{name}");
            let kind = entry.file_type()?;
            if kind.is_dir() && is_plain {
                directories.push(path);
            } else if kind.is_file() && is_plain && name.ends_with(".html") && !name.starts_with("404") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    Ok(pages)
}

/// Returns the paths of the styles, scripts, pictures and fonts of a page.
fn assets(site: &Path, page: &str) -> Result<Vec<String>, LabError> {
    let text = fs::read_to_string(site.join(&page[1..]))?;
    let directory = page.rsplit_once('/').map_or("", |(directory, _)| directory);
    let mut assets: Vec<String> = Vec::new();
    for attribute in ["href=\"", "src=\""] {
        for rest in text.split(attribute).skip(1) {
            let link = rest.split(['"', '?', '#']).next().unwrap_or_default();
            let is_asset = ASSET_SUFFIXES.iter().any(|suffix| link.ends_with(suffix));
            let Some(path) = is_asset.then(|| resolve(directory, link)).flatten() else { continue };
            if !assets.contains(&path) && site.join(&path[1..]).is_file() {
                assets.push(path);
            }
        }
    }
    Ok(assets)
}

/// Returns the path that a link in a directory names; `None` for a link to another site, or above the root.
fn resolve(directory: &str, link: &str) -> Option<String> {
    if link.contains(':') || link.starts_with("//") {
        return None;
    }
    let start = if link.starts_with('/') { "" } else { directory };
    let mut parts: Vec<&str> = start.split('/').filter(|part| !part.is_empty()).collect();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(format!("/{}", parts.join("/")))
}

const SEED: u64 = 1;

/// Requests of a mix: enough that popular pages and rare ones are among them.
const MIX_LEN: usize = 2000;

/// The share of visitors that have the assets of a page from an earlier visit.
const RETURNING: f64 = 0.4;

/// The share of visits with a request for a file that is missing.
const BROKEN_LINKS: f64 = 0.02;

const ASSET_SUFFIXES: [&str; 9] = [".css", ".js", ".svg", ".png", ".ico", ".woff2", ".jpg", ".webp", ".gif"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_paths_of_the_site() {
        for (directory, link, want) in [
            ("", "a.css", Some("/a.css")),
            ("/book", "../theme/a.css", Some("/theme/a.css")),
            ("/book", "/x/./y.js", Some("/x/y.js")),
            ("", "../a.css", None),
            ("/book", "https://example.org/a.js", None),
            ("/book", "//example.org/a.js", None),
        ] {
            assert_eq!(resolve(directory, link).as_deref(), want, "{directory} {link}");
        }
    }

    #[test]
    fn visits_are_pages_with_their_assets_and_the_same_each_time() {
        let site = tempfile::tempdir().unwrap();
        fs::create_dir(site.path().join("sub")).unwrap();
        fs::write(site.path().join("a.css"), "a").unwrap();
        fs::write(site.path().join("index.html"), "<link href=\"a.css?v=1\"><img src=\"none.png\">").unwrap();
        fs::write(site.path().join("sub/page.html"), "<link href=\"../a.css\">").unwrap();
        let requests = plan(site.path()).unwrap();
        assert_eq!(requests, plan(site.path()).unwrap());
        let share = |wanted: &dyn Fn(&PlannedVisitRequest) -> bool| {
            requests.iter().filter(|request| wanted(request)).count() as f64 / requests.len() as f64
        };
        assert!((0.47..0.5).contains(&share(&|request| request.path == "/a.css")));
        assert!((0.15..0.25).contains(&share(&|request| request.kind == VisitRequestKind::Validated)));
        assert!((0.002..0.02).contains(&share(&|request| request.kind == VisitRequestKind::Missing)));
        let (first, second) = (
            share(&|request| request.path == "/index.html"),
            share(&|request| request.path == "/sub/page.html"),
        );
        assert!((1.7..2.3).contains(&(first / second).max(second / first)), "{first} {second}");
        assert!(plan(&site.path().join("nothing")).is_err());
    }
}
