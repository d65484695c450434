//! A page in a browser: what `tests/browser/page` tells of it, which says how.

use std::{path::Path, process::Command};

/// What was loaded, and what came of it.
#[derive(Debug)]
pub(crate) struct BrowserPage {
    /// One for each request, as JSON.
    pub(crate) resources: Vec<String>,
    /// The text of the element that was asked for.
    pub(crate) verdict: String,
    /// What the console showed as errors, as a JSON list.
    pub(crate) errors: String,
}

impl BrowserPage {
    /// Loads a page in headless Chromium.
    ///
    /// # Panics
    /// The page did not come.
    #[track_caller]
    pub(crate) fn load(url: &str, options: &[&str]) -> BrowserPage {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser/page");
        let output = Command::new(script).arg(url).args(["--timeout", "60"]).args(options).output();
        let output = output.expect("python3 is missing: run tests/setup");
        let (said, errors) =
            (String::from_utf8(output.stdout).expect("UTF-8"), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{}: {said}{errors}", output.status);
        let between = |before: &str, behind: &str| {
            let (_, text) = said.split_once(before).unwrap_or_else(|| panic!("no {before} in {said}"));
            text.split_once(behind).unwrap_or_else(|| panic!("no {behind} in {said}")).0.to_owned()
        };
        BrowserPage {
            resources: said.lines().filter(|line| line.starts_with("  {")).map(str::to_owned).collect(),
            verdict: between("\"verdict\": ", ",\n").trim_matches('"').replace("\\n", "\n"),
            errors: between("\n \"errors\": ", "}\n"),
        }
    }

    /// How many resources have this in their JSON.
    pub(crate) fn count(&self, part: &str) -> usize {
        self.resources.iter().filter(|resource| resource.contains(part)).count()
    }
}
