//! The language of a Caddyfile.
//!
//! ```text
//! line = word *( space word ) [ "{" newline *line "}" ] newline
//! word = "quoted" / `raw` / <<HEREDOC / anything up to a space         # begins a comment
//! ```
//!
//! As the lexer of Caddy 2 reads it. `{$NAME}` and `{$NAME:default}` stand for variables of the environment.

use crate::UserError;
use crate::program::import::{
    report::ImportReport,
    source::{
        DEPTH_MAX, DirectiveOrigin, SourceChars, SourceDirective, SourceFiles, SourcePlace, WORD_LEN_MAX,
    },
};

/// A word, and whether it has quotes: such a brace is text.
struct CaddyWord {
    text: String,
    place: SourcePlace,
    is_quoted: bool,
}

/// Returns the lines of the file that was read last.
pub(super) fn parse(
    files: &mut SourceFiles,
    text: &str,
    report: &mut ImportReport,
) -> Result<Vec<SourceDirective>, UserError> {
    let mut reader = LineReader { chars: SourceChars::new(text, files.last()) };
    let mut open: Vec<(SourceDirective, Vec<SourceDirective>)> = Vec::new();
    let mut done = Vec::new();
    // Addresses with a comma at their end go on in the next line.
    let mut begun: Vec<CaddyWord> = Vec::new();
    while let Some(line) = reader.line(files)? {
        let Some(first) = line.first() else { continue };
        let place = first.place;
        if line.len() == 1 && first.text == "}" && !first.is_quoted {
            let Some((block, before)) = open.pop() else {
                return Err(files.error(place, "no block is open for `}`", "remove it"));
            };
            let inner = std::mem::replace(&mut done, before);
            done.push(SourceDirective { block: Some(inner), ..block });
            continue;
        }
        begun.extend(line);
        let last = begun.last().expect("the line has a word");
        if last.text.ends_with(',') && !last.is_quoted && open.is_empty() {
            continue;
        }
        let mut words = std::mem::take(&mut begun);
        // `{}` is an empty block.
        let opens = words.last().filter(|word| !word.is_quoted).map(|word| word.text.as_str());
        let (opens, is_empty) = (opens == Some("{"), opens == Some("{}"));
        if opens || is_empty {
            words.pop();
        }
        let place = words.first().map_or(place, |word| word.place);
        files.count_directive(place)?;
        let mut texts =
            words.into_iter().map(|word| with_variables(files, word, report)).collect::<Vec<_>>().into_iter();
        let name = texts.next().unwrap_or_default();
        let directive = SourceDirective { place, name, args: texts.collect(), block: None };
        if opens {
            if open.len() == DEPTH_MAX {
                let why = format!("more than {DEPTH_MAX} blocks lie within each other");
                return Err(files.error(place, why, "remove some of them"));
            }
            open.push((directive, std::mem::take(&mut done)));
        } else {
            let block = is_empty.then(Vec::new);
            // A line that is a variable without a value is no line.
            if !directive.name.is_empty() || !directive.args.is_empty() || is_empty {
                done.push(SourceDirective { block, ..directive });
            }
        }
    }
    if let Some(word) = begun.first() {
        return Err(files.error(
            word.place,
            "the list of addresses has no end",
            "remove the comma at its end",
        ));
    }
    match open.pop() {
        None => Ok(done),
        Some((block, _)) => {
            let name: String = block.name.chars().take(60).collect();
            let why = format_args!("the block `{name}` has no end");
            Err(files.error(block.place, why, "close it with } on a line of its own"))
        }
    }
}

/// Returns a word with its variables of the environment replaced.
fn with_variables(files: &SourceFiles, word: CaddyWord, report: &mut ImportReport) -> String {
    let CaddyWord { text, place, .. } = word;
    let mut to = String::new();
    let mut rest = &*text;
    while let Some((before, tail)) = rest.split_once("{$") {
        let Some((name, behind)) = tail.split_once('}') else { break };
        let (name, default) =
            name.split_once(':').map_or((name, None), |(name, default)| (name, Some(default)));
        let origin = DirectiveOrigin { place, directive: format!("{{${name}}}") };
        to += before;
        match files.variable(name).or(default.map(str::to_owned)) {
            Some(value) => {
                report.differs(&origin, format_args!("its value is written into the file; ${{{name}}} in tarpon.toml reads the variable at the start"));
                to.extend(value.chars().map(|char| if char == '\n' { ' ' } else { char }).take(WORD_LEN_MAX));
            }
            None => report.left_out(
                &origin,
                "the variable of the environment is not set",
                format_args!("import again with {name}=…"),
            ),
        }
        rest = behind;
    }
    to + rest
}

struct LineReader<'a> {
    chars: SourceChars<'a>,
}

impl LineReader<'_> {
    /// Returns the words of the next line. `None`: the file has ended.
    fn line(&mut self, files: &SourceFiles) -> Result<Option<Vec<CaddyWord>>, UserError> {
        let mut words = Vec::new();
        loop {
            let place = self.chars.place();
            match self.chars.peek() {
                None => return Ok(Some(words).filter(|words| !words.is_empty())),
                Some('\n') => {
                    self.chars.next();
                    return Ok(Some(words));
                }
                Some(char) if char.is_whitespace() => drop(self.chars.next()),
                Some('#') => self.skip_comment(),
                // A backslash at the end of a line continues it.
                Some('\\')
                    if self
                        .chars
                        .rest()
                        .trim_start_matches('\\')
                        .trim_start_matches('\r')
                        .starts_with('\n') =>
                {
                    while self.chars.next().is_some_and(|char| char != '\n') {}
                }
                Some(quote @ ('"' | '`')) => {
                    self.chars.next();
                    let text = self.quoted(files, place, quote)?;
                    words.push(CaddyWord { text, place, is_quoted: true });
                }
                Some('<') if self.chars.rest().starts_with("<<") && self.heredoc_marker().is_some() => {
                    let text = self.heredoc(files, place)?;
                    words.push(CaddyWord { text, place, is_quoted: true });
                }
                Some(_) => {
                    let mut text = String::new();
                    while let Some(char) = self.chars.peek().filter(|char| !char.is_whitespace()) {
                        text.push(char);
                        self.chars.next();
                        files.check_word(place, text.len())?;
                    }
                    words.push(CaddyWord { text, place, is_quoted: false });
                }
            }
        }
    }

    fn skip_comment(&mut self) {
        while self.chars.peek().is_some_and(|char| char != '\n') {
            self.chars.next();
        }
    }

    fn quoted(&mut self, files: &SourceFiles, place: SourcePlace, quote: char) -> Result<String, UserError> {
        let mut text = String::new();
        loop {
            match self.chars.next() {
                None => {
                    return Err(files.error(
                        place,
                        "the text in quotes has no end",
                        format_args!("close it with {quote}"),
                    ));
                }
                Some(char) if char == quote => return Ok(text),
                Some('\\') if quote == '"' => match self.chars.peek() {
                    Some('"') => {
                        text.push('"');
                        self.chars.next();
                    }
                    _ => text.push('\\'),
                },
                Some(char) => text.push(char),
            }
            files.check_word(place, text.len())?;
        }
    }

    fn heredoc_marker(&self) -> Option<&str> {
        let line = self.chars.rest()[2..].split('\n').next()?.trim_end_matches('\r');
        let is_marker = !line.is_empty()
            && line.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        is_marker.then_some(line)
    }

    fn heredoc(&mut self, files: &SourceFiles, place: SourcePlace) -> Result<String, UserError> {
        let marker = self.heredoc_marker().unwrap_or_default().to_owned();
        while self.chars.next().is_some_and(|char| char != '\n') {}
        let mut lines: Vec<String> = Vec::new();
        let mut len = 0;
        loop {
            let mut line = String::new();
            while let Some(char) = self.chars.peek().filter(|char| *char != '\n') {
                line.push(char);
                self.chars.next();
            }
            if line.trim() == marker {
                let indent = &line[..line.len() - line.trim_start().len()];
                let lines: Vec<_> =
                    lines.iter().map(|line| line.strip_prefix(indent).unwrap_or(line)).collect();
                return Ok(lines.join("\n"));
            }
            len += line.len() + 1;
            if self.chars.next().is_none() {
                let hint = format_args!("end it with {marker} on a line of its own");
                return Err(files.error(place, format_args!("the text from <<{marker} has no end"), hint));
            }
            files.check_word(place, len)?;
            lines.push(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::import::source::SourceAccess;
    use std::path::Path;

    fn parsed(text: &str) -> Result<String, String> {
        let mut files = SourceFiles::new(SourceAccess::Nothing);
        files.add(Path::new("Caddyfile"), text.len()).expect("a small file");
        parse(&mut files, text, &mut ImportReport::default())
            .map(|list| shown(&list))
            .map_err(|error| error.to_string())
    }

    fn shown(list: &[SourceDirective]) -> String {
        let one = |directive: &SourceDirective| {
            let args: String = directive.args.iter().map(|arg| format!(" <{arg}>")).collect();
            let block =
                directive.block.as_ref().map(|block| format!("{{{}}}", shown(block))).unwrap_or_default();
            format!("{}{args}{block};", directive.name)
        };
        list.iter().map(one).collect()
    }

    #[test]
    #[rustfmt::skip]
    fn lines_are_words_and_blocks() {
        let cases: &[(&str, &str, Result<&str, &str>)] = &[
            // case                 the file                        lines, or the error
            ("nothing",             "",                             Ok("")),
            ("lines",               "a b\nc\n",                     Ok("a <b>;c;")),
            ("a block",             "a {\n\tb c\n}\n",              Ok("a{b <c>;};")),
            ("options",             "{\n\tb\n}\n",                  Ok("{b;};")),
            ("an empty block",      "a {}\n",                       Ok("a{};")),
            ("a brace in a word",   "a {path} {$N:b}c\n",           Ok("a <{path}> <bc>;")),
            ("no value",            "{$N}\na\n",                    Ok("a;")),
            ("a comment",           "a # b\nc#d\n",                 Ok("a;c#d;")),
            ("quotes",              "a \"b \\\"c\\d\" `e \"f\"`\n", Ok("a <b \"c\\d> <e \"f\">;")),
            ("a quoted brace",      "a \"{\"\nb\n",                 Ok("a <{>;b;")),
            ("a long line",         "a \\\n  b\n",                  Ok("a <b>;")),
            ("addresses",           "a,\nb {\n}\n",                 Ok("a, <b>{};")),
            ("a heredoc",           "a <<END\n  b\n   c\n  END d\n", Err("cannot import Caddyfile:1:3: the text from <<END has no end; end it with END on a line of its own")),
            ("a heredoc's end",     "a <<END\n  b\n   c\n  END\n",  Ok("a <b\n c>;")),
            ("no end",              "a {\nb\n",                     Err("cannot import Caddyfile:1:1: the block `a` has no end; close it with } on a line of its own")),
            ("no end of quotes",    "a `b",                         Err("cannot import Caddyfile:1:3: the text in quotes has no end; close it with `")),
            ("one brace too many",  "a\n}\n",                       Err("cannot import Caddyfile:2:1: no block is open for `}`; remove it")),
            ("a comma at the end",  "a,\n",                         Err("cannot import Caddyfile:1:1: the list of addresses has no end; remove the comma at its end")),
        ];
        for (name, text, want) in cases {
            let found = parsed(text);
            assert_eq!(found.as_deref().map_err(String::as_str), *want, "{name}");
        }
        let deep = parsed(&"a {\n".repeat(1000)).unwrap_err();
        assert_eq!(deep, "cannot import Caddyfile:33:1: more than 32 blocks lie within each other; remove some of them");
        let long = parsed(&format!("a {}", "b".repeat(100_000))).unwrap_err();
        assert!(long.starts_with("cannot import Caddyfile:1:3: the word is longer than 16384 bytes"), "{long}");
    }
}
