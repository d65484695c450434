//! The releases of a directory as a table for people and as JSON for programs.

use crate::program::output::{messages::Bytes, tables};
use crate::{Release, ReleaseState};
use serde_json::Value;
use std::io::{self, Write};
use tarpon_http::date;
use tarpon_site::Printable;

/// Writes a line for each release, and marks the current and the previous one.
pub(crate) fn write(releases: &[Release], to: &mut impl Write) -> io::Result<()> {
    let row = |release: &Release| {
        let date = date::format(release.modified_s);
        // Without the day of the week. The header of the table has the time zone.
        let date = String::from_utf8_lossy(&date[5..25]).into_owned();
        let (files, error) = match &release.files {
            Ok(files) => (files.to_string(), None),
            Err(error) => (String::new(), Some(error.to_string())),
        };
        let remarks: Vec<_> = release.state.map(name).map(str::to_owned).into_iter().chain(error).collect();
        [
            release.name.printable().to_string(),
            date,
            Bytes(release.len).to_string(),
            files,
            remarks.join("; "),
        ]
    };
    let rows: Vec<_> = releases.iter().map(row).collect();
    if rows.is_empty() {
        return Ok(());
    }
    tables::columns(["release", "modified (UTC)", "size", "files", ""], &rows, 2..=3, to)
}

/// Returns the releases as a JSON list.
pub(crate) fn json(releases: &[Release]) -> String {
    let object = |Release { name, modified_s, len, files, state }: &Release| {
        let modified = date::format_rfc3339(*modified_s);
        let (files, error) = match files {
            Ok(files) => (files.to_string(), None),
            Err(error) => ("null".to_owned(), Some(error.to_string())),
        };
        let [name, modified, state, error] = [
            Value::from(&**name),
            Value::from(String::from_utf8_lossy(&modified)),
            Value::from(state.map(self::name)),
            Value::from(error),
        ];
        format!(
            "{{\"name\":{name},\"modified\":{modified},\"size\":{len},\"files\":{files},\"state\":{state},\"error\":{error}}}"
        )
    };
    let objects: Vec<_> = releases.iter().map(object).collect();
    match objects.is_empty() {
        true => "[]".to_owned(),
        false => format!("[\n{}\n]", objects.join(",\n")),
    }
}

fn name(state: ReleaseState) -> &'static str {
    match state {
        ReleaseState::Current => "current",
        ReleaseState::Previous => "previous",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UserError;

    #[test]
    fn json_has_the_state_and_the_error_of_each_release() {
        let release = |name: &str, files, state| Release {
            name: name.to_owned(),
            modified_s: 784_111_777,
            len: 2048,
            files,
            state,
        };
        let damaged = UserError::new("cannot use b.tar", "it is cut short", "pack it again");
        let releases =
            [release("a.tar", Ok(3), Some(ReleaseState::Current)), release("b.tar", Err(damaged), None)];
        let value: Value = serde_json::from_str(&json(&releases)).expect("JSON");
        let want = serde_json::json!([
            {"name": "a.tar", "modified": "1994-11-06T08:49:37Z", "size": 2048, "files": 3, "state": "current", "error": null},
            {"name": "b.tar", "modified": "1994-11-06T08:49:37Z", "size": 2048, "files": null, "state": null,
             "error": "cannot use b.tar: it is cut short; pack it again"},
        ]);
        assert_eq!(value, want);
        assert_eq!(json(&[]), "[]");
    }
}
