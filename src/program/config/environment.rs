//! `${NAME}` in a text of a configuration file: a variable of the environment.

use std::env::VarError;

/// A text with the values of variables in place of their names.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ExpandedText {
    pub(super) text: String,
    /// Whether a part of it is from the environment. Output must not show it: the environment is where programs receive passwords.
    pub(super) is_from_environment: bool,
}

/// Replaces `${NAME}`, `${NAME:-default}`, and `$${`, which stands for `${`. `None`: the text has none of these.
///
/// # Errors
/// The problem, behind the name of the option, and a hint.
pub(super) fn expand(
    text: &str,
    variable: &dyn Fn(&str) -> Result<String, VarError>,
) -> Result<Option<ExpandedText>, (String, String)> {
    if !text.contains("${") {
        return Ok(None);
    }
    let mut expanded = ExpandedText { text: String::new(), is_from_environment: false };
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if let Some(before) = rest[..at].strip_suffix('$') {
            expanded.text += before;
            expanded.text += "${";
            rest = &rest[at + 2..];
            continue;
        }
        expanded.text += &rest[..at];
        let Some((inner, behind)) = rest[at + 2..].split_once('}') else {
            return Err((
                "has ${ without }".to_owned(),
                "close it, or write $${ for the characters ${".to_owned(),
            ));
        };
        let (name, default) =
            inner.split_once(":-").map_or((inner, None), |(name, default)| (name, Some(default)));
        if !is_name(name) {
            let hint = "use letters, digits and _, as in ${HOME}; write $${ for the characters ${".to_owned();
            return Err(("has no name of a variable in ${ }".to_owned(), hint));
        }
        match (variable(name), default) {
            (Ok(value), _) if !(value.is_empty() && default.is_some()) => {
                expanded.text += &value;
                expanded.is_from_environment = true;
            }
            (Ok(_) | Err(VarError::NotPresent), Some(default)) => expanded.text += default,
            (Err(VarError::NotUnicode(_)), _) => {
                return Err((
                    format!("needs the variable {name}, which is not UTF-8"),
                    "set it to text".to_owned(),
                ));
            }
            (Ok(_) | Err(VarError::NotPresent), None) => {
                let hint = format!("set it where the server starts, or write ${{{name}:-default}}");
                return Err((format!("needs the variable {name}, which is not set"), hint));
            }
        }
        rest = behind;
    }
    expanded.text += rest;
    Ok(Some(expanded))
}

/// Returns whether a text is a name of a variable that shells accept.
fn is_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.bytes().all(is_part) && name.bytes().next().is_some_and(|first| !first.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text and whether it is from the environment, nothing, or an error.
    type Expansion = Result<Option<(&'static str, bool)>, &'static str>;

    #[test]
    #[rustfmt::skip]
    fn variables_are_replaced() {
        let cases: &[(&str, Expansion)] = &[
            // text                  result, whether it is from the environment
            ("plain $A {B}",         Ok(None)),
            ("",                     Ok(None)),
            ("${A}",                 Ok(Some(("one", true)))),
            ("x${A}y${B_2}z",        Ok(Some(("xoneytwoz", true)))),
            ("${A}${A}",             Ok(Some(("oneone", true)))),
            ("${EMPTY}",             Ok(Some(("", true)))),
            ("${EMPTY:-c}",          Ok(Some(("c", false)))),
            ("${NONE:-c}",           Ok(Some(("c", false)))),
            ("${NONE:-}",            Ok(Some(("", false)))),
            ("${NONE:-a:-b}",        Ok(Some(("a:-b", false)))),
            ("${A:-c}",              Ok(Some(("one", true)))),
            ("$${A}",                Ok(Some(("${A}", false)))),
            ("$${",                  Ok(Some(("${", false)))),
            ("$$${A}",               Ok(Some(("$${A}", false)))),
            ("$${A}${A}",            Ok(Some(("${A}one", true)))),
            ("${NESTED}",            Ok(Some(("${A}", true)))),
            ("${NONE}",              Err("needs the variable NONE, which is not set")),
            ("${A",                  Err("has ${ without }")),
            ("${}",                  Err("has no name of a variable in ${ }")),
            ("${1}",                 Err("has no name of a variable in ${ }")),
            ("${A B}",               Err("has no name of a variable in ${ }")),
            ("${A:=c}",              Err("has no name of a variable in ${ }")),
            ("${BYTES}",             Err("needs the variable BYTES, which is not UTF-8")),
            ("${BYTES:-c}",          Err("needs the variable BYTES, which is not UTF-8")),
        ];
        let variable = |name: &str| match name {
            "A" => Ok("one".to_owned()),
            "B_2" => Ok("two".to_owned()),
            "EMPTY" => Ok(String::new()),
            "NESTED" => Ok("${A}".to_owned()),
            "BYTES" => Err(VarError::NotUnicode("\u{1}".into())),
            _ => Err(VarError::NotPresent),
        };
        for (text, want) in cases {
            let got = expand(text, &variable).map_err(|(found, _)| found);
            let want = want.map(|some| some.map(|(text, is_from_environment)| {
                ExpandedText { text: text.to_owned(), is_from_environment }
            }));
            assert_eq!(got, want.map_err(str::to_owned), "{text}");
        }
    }
}
