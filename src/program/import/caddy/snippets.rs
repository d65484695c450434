//! `import`: the lines of a snippet, or of other files, take its place.
//!
//! Snippets may import others, so a short file can stand for very many lines: each use counts against the limit of directives.

use super::syntax;
use crate::UserError;
use crate::program::import::{
    report::ImportReport,
    source::{INCLUDE_DEPTH_MAX, SourceDirective, SourceFiles},
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// The parts of a file.
#[derive(Debug, Default)]
pub(super) struct CaddyFile {
    /// Options for all sites.
    pub(super) global: Vec<SourceDirective>,
    /// Sites: the first address is the name, the others are arguments.
    pub(super) sites: Vec<SourceDirective>,
}

/// Replaces each `import`, and tells global options, snippets and sites from each other.
pub(super) fn expand(
    files: &mut SourceFiles,
    main: &Path,
    lines: Vec<SourceDirective>,
    report: &mut ImportReport,
) -> Result<CaddyFile, UserError> {
    let dir = main.parent().unwrap_or(Path::new("")).to_owned();
    let mut expander = SnippetExpander { files, dirs: vec![dir], snippets: BTreeMap::new(), report };
    let lines = expander.top(lines, 0)?;
    let mut file = CaddyFile::default();
    let mut lines = lines.into_iter().peekable();
    if let Some(global) =
        lines.next_if(|line| line.name.is_empty() && line.args.is_empty() && line.block.is_some())
    {
        file.global = global.block.unwrap_or_default();
    }
    let Some(first) = lines.peek() else { return Ok(file) };
    if first.block.is_none() {
        // Without braces the whole file is one site: its address, then its directives.
        let Some(mut site) = lines.next() else { return Ok(file) };
        site.block = Some(lines.collect());
        file.sites.push(site);
        return Ok(file);
    }
    for line in lines {
        match &line.block {
            Some(_) if line.name.is_empty() => {
                return Err(expander.files.error(
                    line.place,
                    "global options stand at the start of the file",
                    "move the block to the front",
                ));
            }
            Some(_) if line.name.starts_with("&(") => {
                expander.report.left_out(
                    &line.origin(),
                    "tarpon has no routes with a name",
                    "write the directives where `invoke` names the route",
                );
            }
            Some(_) => file.sites.push(line),
            None => {
                let name: String = line.name.chars().take(60).collect();
                let why = format_args!("the address `{name}` has no block");
                return Err(expander.files.error(line.place, why, "put its directives into braces"));
            }
        }
    }
    Ok(file)
}

struct SnippetExpander<'a> {
    files: &'a mut SourceFiles,
    dirs: Vec<PathBuf>,
    snippets: BTreeMap<String, Vec<SourceDirective>>,
    report: &'a mut ImportReport,
}

impl SnippetExpander<'_> {
    /// Expands the lines of a file, which may have snippets.
    fn top(&mut self, lines: Vec<SourceDirective>, depth: usize) -> Result<Vec<SourceDirective>, UserError> {
        let mut expanded = Vec::new();
        for mut line in lines {
            let is_snippet = line.name.len() > 2 && line.name.starts_with('(') && line.name.ends_with(')');
            match line.block.take() {
                Some(block) if is_snippet => {
                    let name = line.name[1..line.name.len() - 1].to_owned();
                    self.snippets.insert(name, block);
                }
                Some(block) if line.name != "import" => {
                    line.block = Some(self.block(block, depth)?);
                    expanded.push(line);
                }
                _ if line.name == "import" => expanded.extend(self.imported(&line, depth, true)?),
                block => expanded.push(SourceDirective { block, ..line }),
            }
        }
        Ok(expanded)
    }

    fn block(
        &mut self,
        lines: Vec<SourceDirective>,
        depth: usize,
    ) -> Result<Vec<SourceDirective>, UserError> {
        let mut expanded = Vec::new();
        for mut line in lines {
            if line.name == "import" {
                expanded.extend(self.imported(&line, depth, false)?);
                continue;
            }
            if let Some(block) = line.block.take() {
                line.block = Some(self.block(block, depth)?);
            }
            expanded.push(line);
        }
        Ok(expanded)
    }

    fn imported(
        &mut self,
        import: &SourceDirective,
        depth: usize,
        is_top: bool,
    ) -> Result<Vec<SourceDirective>, UserError> {
        if depth == INCLUDE_DEPTH_MAX {
            let why = format!("more than {INCLUDE_DEPTH_MAX} imports lie within each other");
            return Err(self.files.error(import.place, why, "does a snippet or a file import itself?"));
        }
        let Some((name, args)) = import.args.split_first() else {
            self.report.left_out(&import.origin(), "it names nothing", "name a snippet or a file");
            return Ok(Vec::new());
        };
        if let Some(snippet) = self.snippets.get(name).cloned() {
            let mut lines = Vec::new();
            for line in &snippet {
                lines.push(self.with_args(line, args)?);
            }
            return self.block(lines, depth + 1);
        }
        let paths = self.files.matching(&self.dirs, name);
        if paths.is_empty() {
            match name.contains(['*', '?']) {
                true => self.report.not_needed(&import.origin(), format_args!("no file matches {name}")),
                false => {
                    let hint = "import on the machine that has it, or write the snippet above its use";
                    self.report.left_out(
                        &import.origin(),
                        format_args!("there is no snippet or file {name}"),
                        hint,
                    );
                }
            }
        }
        let mut lines = Vec::new();
        for path in paths {
            let text = self.files.open(&path)?;
            let parsed = syntax::parse(self.files, &text, self.report)?;
            lines.extend(match is_top {
                true => self.top(parsed, depth + 1)?,
                false => self.block(parsed, depth + 1)?,
            });
        }
        Ok(lines)
    }

    /// Returns a line of a snippet with the arguments of its use.
    fn with_args(&mut self, line: &SourceDirective, args: &[String]) -> Result<SourceDirective, UserError> {
        self.files.count_directive(line.place)?;
        let mut words = Vec::new();
        for word in [&line.name].into_iter().chain(&line.args) {
            match &**word {
                "{args[:]}" | "{args.*}" => words.extend(args.iter().cloned()),
                word if !word.contains("{args") => words.push(word.to_owned()),
                word => {
                    let mut word = word.to_owned();
                    for (at, arg) in args.iter().enumerate() {
                        word = word
                            .replace(&format!("{{args[{at}]}}"), arg)
                            .replace(&format!("{{args.{at}}}"), arg);
                        self.files.check_word(line.place, word.len())?;
                    }
                    words.push(word);
                }
            }
        }
        let name = if words.is_empty() { String::new() } else { words.remove(0) };
        let mut block = None;
        if let Some(lines) = &line.block {
            let mut inner = Vec::new();
            for line in lines {
                inner.push(self.with_args(line, args)?);
            }
            block = Some(inner);
        }
        Ok(SourceDirective { place: line.place, name, args: words, block })
    }
}
