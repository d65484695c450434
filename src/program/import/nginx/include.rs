//! `include`: the directives of other files take its place.
//!
//! nginx looks for relative paths in the directory of its main file. A file such as `sites-enabled/a.conf` is not that, so its parent counts, too.

use super::{known::NOT_NEEDED_FILES, syntax};
use crate::UserError;
use crate::program::import::{
    report::ImportReport,
    source::{INCLUDE_DEPTH_MAX, SourceDirective, SourceFiles},
};
use std::path::{Path, PathBuf};

/// Replaces each `include` in the directives of the main file, and in those of the included ones.
pub(super) fn expand(
    files: &mut SourceFiles,
    main: &Path,
    directives: Vec<SourceDirective>,
    report: &mut ImportReport,
) -> Result<Vec<SourceDirective>, UserError> {
    let dir = main.parent().unwrap_or(Path::new("")).to_owned();
    let parent = dir.canonicalize().ok().and_then(|dir| dir.parent().map(Path::to_owned));
    let dirs = [dir].into_iter().chain(parent).collect();
    Expander { files, dirs, report }.expand(directives, 0)
}

struct Expander<'a> {
    files: &'a mut SourceFiles,
    dirs: Vec<PathBuf>,
    report: &'a mut ImportReport,
}

impl Expander<'_> {
    fn expand(
        &mut self,
        directives: Vec<SourceDirective>,
        depth: usize,
    ) -> Result<Vec<SourceDirective>, UserError> {
        let mut expanded = Vec::with_capacity(directives.len());
        for mut directive in directives {
            if directive.name == "include" && directive.block.is_none() {
                expanded.extend(self.included(&directive, depth)?);
                continue;
            }
            if let Some(block) = directive.block.take() {
                directive.block = Some(self.expand(block, depth)?);
            }
            expanded.push(directive);
        }
        Ok(expanded)
    }

    fn included(
        &mut self,
        include: &SourceDirective,
        depth: usize,
    ) -> Result<Vec<SourceDirective>, UserError> {
        let pattern = include.arg(0);
        let origin = include.origin();
        let name = pattern.rsplit('/').next().unwrap_or(pattern);
        if NOT_NEEDED_FILES.contains(&name) {
            self.report.not_needed(&origin, format_args!("tarpon needs nothing of {name}"));
            return Ok(Vec::new());
        }
        let paths = self.files.matching(&self.dirs, pattern);
        if paths.is_empty() {
            match pattern.contains(['*', '?']) {
                true => self.report.not_needed(&origin, format_args!("no file matches {pattern}")),
                false => {
                    let hint = "import on the machine that has it, or name the file here";
                    self.report.left_out(&origin, format_args!("there is no file {pattern}"), hint);
                }
            }
            return Ok(Vec::new());
        }
        if depth == INCLUDE_DEPTH_MAX {
            let why = format!("more than {INCLUDE_DEPTH_MAX} files include each other in a row");
            return Err(self.files.error(include.place, why, "does a file include itself?"));
        }
        let mut directives = Vec::new();
        for path in paths {
            let text = self.files.open(&path)?;
            let parsed = syntax::parse(self.files, &text)?;
            directives.extend(self.expand(parsed, depth + 1)?);
        }
        Ok(directives)
    }
}
