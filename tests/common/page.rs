//! A page loaded in a browser by the script `tests/browser/page`, which documents its output.

use std::{path::Path, process::Command};

/// The limit for a page, in seconds. On busy processors Chromium alone has taken more than a minute.
const TIMEOUT_S: &str = "300";

/// The report of the script.
#[derive(Debug)]
pub(crate) struct BrowserPage {
    /// One JSON object per request.
    pub(crate) resources: Vec<String>,
    /// The text of the verdict element.
    pub(crate) verdict: String,
    /// The errors on the console, as a JSON list.
    pub(crate) errors: String,
}

impl BrowserPage {
    /// Loads a page in headless Chromium.
    ///
    /// # Panics
    /// The page does not load.
    #[track_caller]
    pub(crate) fn load(url: &str, options: &[&str]) -> BrowserPage {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser/page");
        let output = Command::new(script).arg(url).args(["--timeout", TIMEOUT_S]).args(options).output();
        let output = output.expect("python3 is missing: run tests/setup");
        let (report, errors) =
            (String::from_utf8(output.stdout).expect("UTF-8"), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{}: {report}{errors}{}", output.status, connections_to(url));
        let between = |before: &str, behind: &str| {
            let (_, text) = report.split_once(before).unwrap_or_else(|| panic!("no {before} in {report}"));
            text.split_once(behind).unwrap_or_else(|| panic!("no {behind} in {report}")).0.to_owned()
        };
        BrowserPage {
            resources: report.lines().filter(|line| line.starts_with("  {")).map(str::to_owned).collect(),
            verdict: between("\"verdict\": ", ",\n").trim_matches('"').replace("\\n", "\n"),
            errors: between("\n \"errors\": ", "}\n"),
        }
    }

    /// Returns the number of resources whose JSON contains `part`.
    pub(crate) fn count(&self, part: &str) -> usize {
        self.resources.iter().filter(|resource| resource.contains(part)).count()
    }
}

/// Returns the listeners and connections of the port in a URL, as ss(8) prints them: whether a client waits in an accept queue, or bytes in a
/// socket.
fn connections_to(url: &str) -> String {
    let authority = url.split('/').nth(2).unwrap_or_default();
    let Some((_, port)) = authority.rsplit_once(':') else { return String::new() };
    let output =
        Command::new("ss").args(["-tanpei", &format!("( sport = :{port} or dport = :{port} )")]).output();
    output
        .map_or_else(|error| error.to_string(), |output| String::from_utf8_lossy(&output.stdout).into_owned())
}
