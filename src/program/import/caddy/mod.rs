//! Reads the directives of Caddy.
//!
//! ```text
//! Caddyfile ─ syntax ─▶ lines with blocks ─ snippets ─▶ lines of all files
//!                                                          │
//!                          global options ─ global ────────┤
//!                          addresses ────── address ───────┼─▶ ImportedSite
//!                          directives ───── site ◀─ matcher: which paths
//! ```
//!
//! | file | content |
//! |---|---|
//! | `syntax` | words, lines and blocks |
//! | `snippets` | replaces `import` by the lines of snippets and files |
//! | `global` | the options at the start of the file |
//! | `address` | the addresses of a site: hosts, listeners, certificates |
//! | `site` | the directives of a site |
//! | `matcher` | which paths a directive is for |
//! | `proxy` | reverse_proxy and php_fastcgi |
//! | `known` | directives that need no counterpart, or have none |

mod address;
mod global;
mod known;
mod matcher;
mod proxy;
mod site;
mod snippets;
mod syntax;

use super::{
    plan::ServicePlan,
    report::ImportReport,
    source::{SourceFiles, SourcePlace},
    users::HashOutput,
};
use crate::UserError;
use global::GlobalOptions;
use std::path::Path;

/// Reads the main file, and returns its sites.
pub(super) fn plan(
    files: &mut SourceFiles,
    path: &Path,
    text: &str,
    hashes: HashOutput,
    report: &mut ImportReport,
) -> Result<ServicePlan, UserError> {
    let lines = syntax::parse(files, text, report)?;
    let snippets::CaddyFile { global, sites } = snippets::expand(files, path, lines, report)?;
    if sites.is_empty() {
        let place = SourcePlace { file: 0, line: 1, column: 1 };
        return Err(files.error(
            place,
            "it has no site",
            "name a Caddyfile with an address and its directives",
        ));
    }
    let mut plan = ServicePlan::default();
    let options = GlobalOptions { hashes, ..global::read(&global, &mut plan, report) };
    let sites: Vec<_> = sites.iter().map(|site| site::read(site, &options, &mut plan, report)).collect();
    site::merge(sites, &mut plan);
    Ok(plan)
}
