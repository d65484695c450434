//! The language of `nginx.conf`.
//!
//! ```text
//! directive = word *word ( ";" / "{" *directive "}" )
//! word      = quoted with ' or ", or anything up to a space, ; or {       # begins a comment
//! ```
//!
//! As `ngx_conf_read_token` of nginx reads it. A block of Lua (`…_by_lua_block`) has another language, and is skipped.

use crate::UserError;
use crate::program::import::source::{DEPTH_MAX, SourceChars, SourceDirective, SourceFiles, SourcePlace};

/// What ends a word, or stands for itself.
enum NginxToken {
    Word(String),
    Semicolon,
    Open,
    Close,
    End,
}

/// Returns the directives of the file that was read last.
pub(super) fn parse(files: &mut SourceFiles, text: &str) -> Result<Vec<SourceDirective>, UserError> {
    let mut reader = TokenReader { chars: SourceChars::new(text, files.last()) };
    // The blocks that are open, each with its directives so far; the last is the innermost.
    let mut open: Vec<(SourceDirective, Vec<SourceDirective>)> = Vec::new();
    let mut done = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let mut begin = SourcePlace::default();
    loop {
        let (place, token) = reader.next(files)?;
        match token {
            NginxToken::Word(word) => {
                if words.is_empty() {
                    begin = place;
                    files.count_directive(place)?;
                }
                words.push(word);
            }
            NginxToken::Semicolon if words.is_empty() => {
                return Err(files.error(place, "there is no directive before `;`", "remove it"));
            }
            NginxToken::Semicolon => done.push(directive(begin, std::mem::take(&mut words), None)),
            NginxToken::Open if words.is_empty() => {
                return Err(files.error(
                    place,
                    "there is no directive before `{`",
                    "name the block, as in server {",
                ));
            }
            NginxToken::Open => {
                let block = directive(begin, std::mem::take(&mut words), None);
                if block.name.ends_with("_by_lua_block") {
                    reader.skip_block(files, place)?;
                    done.push(block);
                    continue;
                }
                if open.len() == DEPTH_MAX {
                    let why = format!("more than {DEPTH_MAX} blocks lie within each other");
                    return Err(files.error(place, why, "remove some of them"));
                }
                open.push((block, std::mem::take(&mut done)));
            }
            NginxToken::Close | NginxToken::End if !words.is_empty() => {
                let why = format_args!("the directive `{}` has no end", shortened(&words[0]));
                return Err(files.error(begin, why, "end it with ;"));
            }
            NginxToken::Close => match open.pop() {
                Some((block, before)) => {
                    let inner = std::mem::replace(&mut done, before);
                    done.push(SourceDirective { block: Some(inner), ..block });
                }
                None => return Err(files.error(place, "no block is open for `}`", "remove it")),
            },
            NginxToken::End => match open.pop() {
                None => return Ok(done),
                Some((block, _)) => {
                    let why = format_args!("the block `{}` has no end", shortened(&block.name));
                    return Err(files.error(block.place, why, "close it with }"));
                }
            },
        }
    }
}

fn directive(
    place: SourcePlace,
    mut words: Vec<String>,
    block: Option<Vec<SourceDirective>>,
) -> SourceDirective {
    let args = words.split_off(1);
    SourceDirective { place, name: words.pop().unwrap_or_default(), args, block }
}

fn shortened(name: &str) -> String {
    name.chars().take(60).collect()
}

struct TokenReader<'a> {
    chars: SourceChars<'a>,
}

impl TokenReader<'_> {
    fn next(&mut self, files: &SourceFiles) -> Result<(SourcePlace, NginxToken), UserError> {
        loop {
            let place = self.chars.place();
            let Some(char) = self.chars.peek() else { return Ok((place, NginxToken::End)) };
            let token = match char {
                ' ' | '\t' | '\r' | '\n' => {
                    self.chars.next();
                    continue;
                }
                '#' => {
                    while self.chars.next().is_some_and(|char| char != '\n') {}
                    continue;
                }
                ';' => NginxToken::Semicolon,
                '{' => NginxToken::Open,
                '}' => NginxToken::Close,
                '"' | '\'' => {
                    self.chars.next();
                    return Ok((place, NginxToken::Word(self.quoted(files, place, char)?)));
                }
                _ => return Ok((place, NginxToken::Word(self.word(files, place)?))),
            };
            self.chars.next();
            return Ok((place, token));
        }
    }

    fn quoted(&mut self, files: &SourceFiles, place: SourcePlace, quote: char) -> Result<String, UserError> {
        let mut word = String::new();
        loop {
            match self.chars.next() {
                None => {
                    return Err(files.error(
                        place,
                        "the text in quotes has no end",
                        format_args!("close it with {quote}"),
                    ));
                }
                Some(char) if char == quote => break,
                Some('\\') => self.escape(&mut word),
                Some(char) => word.push(char),
            }
            files.check_word(place, word.len())?;
        }
        match self.chars.peek() {
            None | Some(' ' | '\t' | '\r' | '\n' | ';' | '{' | ')') => Ok(word),
            Some(_) => {
                let at = self.chars.place();
                Err(files.error(at, "text follows a closing quote", "write a space or ; after the quote"))
            }
        }
    }

    fn word(&mut self, files: &SourceFiles, place: SourcePlace) -> Result<String, UserError> {
        let mut word = String::new();
        let mut in_variable = false;
        while let Some(char) = self.chars.peek() {
            match char {
                ' ' | '\t' | '\r' | '\n' | ';' => break,
                // `${name}` is a variable, and any other brace opens a block.
                '{' if !word.ends_with('$') => break,
                '{' => in_variable = true,
                '}' if in_variable => in_variable = false,
                _ => {}
            }
            self.chars.next();
            match char {
                '\\' => self.escape(&mut word),
                char => word.push(char),
            }
            files.check_word(place, word.len())?;
        }
        Ok(word)
    }

    /// Reads what follows a backslash. Only some characters lose it, so regular expressions stay as they are.
    fn escape(&mut self, word: &mut String) {
        match self.chars.next() {
            None => word.push('\\'),
            Some('t') => word.push('\t'),
            Some('r') => word.push('\r'),
            Some('n') => word.push('\n'),
            Some(char @ ('"' | '\'' | '\\')) => word.push(char),
            Some(char) => word.extend(['\\', char]),
        }
    }

    /// Skips a block in another language, up to its brace.
    fn skip_block(&mut self, files: &SourceFiles, place: SourcePlace) -> Result<(), UserError> {
        let mut depth = 1;
        while depth > 0 {
            match self.chars.next() {
                Some('{') => depth += 1,
                Some('}') => depth -= 1,
                Some(_) => {}
                None => return Err(files.error(place, "the block has no end", "close it with }")),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::import::source::SourceAccess;
    use std::path::Path;

    fn parsed(text: &str) -> Result<String, String> {
        let mut files = SourceFiles::new(SourceAccess::Nothing);
        files.add(Path::new("a.conf"), text.len()).expect("a small file");
        parse(&mut files, text).map(|list| shown(&list)).map_err(|error| error.to_string())
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
    fn directives_are_words_and_blocks() {
        let cases: &[(&str, &str, Result<&str, &str>)] = &[
            // case                the file                          directives, or the error
            ("nothing",            "",                               Ok("")),
            ("words",              "a b c;",                         Ok("a <b> <c>;")),
            ("a block",            "a{b;c{}}",                       Ok("a{b;c{};};")),
            ("a comment",          "a; # b;\nc;",                    Ok("a;c;")),
            ("# in a word",        "a b#c;",                         Ok("a <b#c>;")),
            ("quotes",             "a \"b; {c}\" 'd\"';",            Ok("a <b; {c}> <d\">;")),
            ("quotes in a word",   "a b\"c;",                        Ok("a <b\"c>;")),
            ("escapes",            r#"a "\"\\\.\d" \.css$ 'it\'s';"#, Ok(r#"a <"\\.\d> <\.css$> <it's>;"#)),
            ("a variable",         "a ${b}c{d;}",                    Ok("a <${b}c>{d;};")),
            ("an empty word",      "a '';",                          Ok("a <>;")),
            ("lines",              "a\n  b\r\n;",                    Ok("a <b>;")),
            ("Lua",                "content_by_lua_block { if a { b(\"}\") } } c;", Err("cannot import a.conf:1:40: no block is open for `}`; remove it")),
            ("Lua, balanced",      "x_by_lua_block { local t = {} }\nc;", Ok("x_by_lua_block;c;")),
            ("a byte order mark",  "\u{feff}a;",                     Ok("a;")),
            ("no end",             "a b",                            Err("cannot import a.conf:1:1: the directive `a` has no end; end it with ;")),
            ("no end of a block",  "a {\n b;",                       Err("cannot import a.conf:1:1: the block `a` has no end; close it with }")),
            ("no end of a line",   "a {\n b\n}",                     Err("cannot import a.conf:2:2: the directive `b` has no end; end it with ;")),
            ("no end of quotes",   "a 'b;\n",                        Err("cannot import a.conf:1:3: the text in quotes has no end; close it with '")),
            ("behind quotes",      "a 'b'c;",                        Err("cannot import a.conf:1:6: text follows a closing quote; write a space or ; after the quote")),
            ("one brace too many", "a;}",                            Err("cannot import a.conf:1:3: no block is open for `}`; remove it")),
            ("no name",            "{}",                             Err("cannot import a.conf:1:1: there is no directive before `{`; name the block, as in server {")),
            ("nothing to end",     "a;;",                            Err("cannot import a.conf:1:3: there is no directive before `;`; remove it")),
        ];
        for (name, text, want) in cases {
            let found = parsed(text);
            assert_eq!(found.as_deref().map_err(String::as_str), *want, "{name}");
        }
        let deep = parsed(&"a{".repeat(1000)).unwrap_err();
        assert_eq!(deep, "cannot import a.conf:1:66: more than 32 blocks lie within each other; remove some of them");
        let long = parsed(&format!("a {};", "b".repeat(100_000))).unwrap_err();
        assert!(long.starts_with("cannot import a.conf:1:3: the word is longer than 16384 bytes"), "{long}");
        let many = parsed(&"a;\n".repeat(300_000)).unwrap_err();
        assert!(many.starts_with("cannot import a.conf:200001:1: there are more than 200000 directives"), "{many}");
    }
}
