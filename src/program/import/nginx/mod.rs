//! Reads the directives of nginx.
//!
//! ```text
//! nginx.conf ─ syntax ─▶ directives ─ include ─▶ directives of all files
//!                                                   │
//!             main, http ─ http ─▶ upstreams, zones, formats of logs
//!                                                   ▼
//!                        server ─▶ ImportedSite ◀─ location ◀─ scope: what a block inherits
//! ```
//!
//! | file | content |
//! |---|---|
//! | `syntax` | words and blocks |
//! | `include` | replaces `include` by the directives of the files |
//! | `http` | the blocks main and http: what servers share |
//! | `server` | a block server: hosts, listeners, redirects of whole hosts |
//! | `location` | a block location: paths, and what answers them |
//! | `scope` | directives that inner blocks inherit |
//! | `protection` | passwords, and permissions of other servers |
//! | `proxy` | proxy_pass, fastcgi_pass and their options |
//! | `merge` | joins servers that only redirect with those that they redirect to |
//! | `known` | directives that need no counterpart, or have none |

mod http;
mod include;
mod known;
mod location;
mod merge;
mod protection;
mod proxy;
mod scope;
mod server;
mod syntax;

use super::{
    plan::ServicePlan,
    report::ImportReport,
    source::{SourceDirective, SourceFiles, SourcePlace},
    users::UsersFiles,
};
use crate::UserError;
use std::path::Path;

/// Reads the main file, and returns its sites.
pub(super) fn plan(
    files: &mut SourceFiles,
    path: &Path,
    text: &str,
    report: &mut ImportReport,
) -> Result<ServicePlan, UserError> {
    let directives = syntax::parse(files, text)?;
    let directives = include::expand(files, path, directives, report)?;
    let (plan, servers) = http::read(&directives, UsersFiles::new(files.access(), path), report);
    if servers.is_empty() {
        let why = "it has no `server` block";
        let hint = "name nginx.conf, or a file with such a block, as in /etc/nginx/sites-enabled";
        return Err(files.error(SourcePlace { file: 0, line: 1, column: 1 }, why, hint));
    }
    Ok(merge::merge(plan, servers, report))
}

/// Reports a directive that nothing else has read.
fn report_unread(directive: &SourceDirective, report: &mut ImportReport) {
    let origin = directive.origin();
    match known::not_needed(&directive.name) {
        Some(why) => report.not_needed(&origin, why),
        None => {
            let (why, hint) = known::left_out(&directive.name);
            report.left_out(&origin, why, hint);
        }
    }
}
