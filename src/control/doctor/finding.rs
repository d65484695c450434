//! Findings: the results of checks.

use serde::Serialize;

/// Findings about the same part of the machine, or about the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct FindingGroup {
    pub(crate) name: &'static str,
    pub(crate) findings: Vec<Finding>,
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// The name of the check.
    pub(crate) check: &'static str,
    /// The path, host or address that the finding is about, if the check examines several.
    pub(crate) subject: Option<String>,
    pub(crate) verdict: Verdict,
    /// The value. For [`Verdict::Unknown`], the reason why it is unknown.
    pub(crate) value: String,
    /// The change that improves it.
    pub(crate) advice: Option<String>,
    /// The reason why the value matters to a web server.
    pub(crate) why: String,
    /// The command that follows the advice.
    pub(crate) command: Option<String>,
    /// The setting of the kernel that `--apply` changes.
    pub(crate) change: Option<SysctlChange>,
}

/// How a check judges what it has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// Nothing to do.
    Good,
    /// The server works, and another value may serve it better.
    Advice,
    /// The server does not start, or clients cannot reach a site.
    Problem,
    /// The value cannot be read, or does not tell.
    Unknown,
}

/// A change of a setting of the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct SysctlChange {
    /// The name, as in `net.core.somaxconn`.
    pub(crate) name: &'static str,
    pub(crate) from: String,
    pub(crate) to: String,
}

impl Finding {
    fn new(verdict: Verdict, check: &'static str, value: impl Into<String>, why: &str) -> Finding {
        let (value, why) = (value.into(), why.to_owned());
        Finding { check, subject: None, verdict, value, advice: None, why, command: None, change: None }
    }

    pub(crate) fn good(check: &'static str, value: impl Into<String>, why: &str) -> Finding {
        Finding::new(Verdict::Good, check, value, why)
    }

    pub(crate) fn unknown(check: &'static str, value: impl Into<String>, why: &str) -> Finding {
        Finding::new(Verdict::Unknown, check, value, why)
    }

    pub(crate) fn advice(
        check: &'static str,
        value: impl Into<String>,
        why: &str,
        advice: impl Into<String>,
    ) -> Finding {
        let advice = Some(advice.into());
        Finding { advice, ..Finding::new(Verdict::Advice, check, value, why) }
    }

    pub(crate) fn problem(
        check: &'static str,
        value: impl Into<String>,
        why: &str,
        advice: impl Into<String>,
    ) -> Finding {
        Finding { verdict: Verdict::Problem, ..Finding::advice(check, value, why, advice) }
    }

    /// Sets what the finding is about.
    #[must_use]
    pub(crate) fn about(self, subject: impl ToString) -> Finding {
        Finding { subject: Some(subject.to_string()), ..self }
    }

    /// Sets the command that follows the advice.
    #[must_use]
    pub(crate) fn command(self, command: impl Into<String>) -> Finding {
        Finding { command: Some(command.into()), ..self }
    }

    /// Sets the change that `--apply` makes, and the command for it.
    #[must_use]
    pub(crate) fn change(self, change: SysctlChange) -> Finding {
        Finding { command: Some(change.command()), change: Some(change), ..self }
    }
}

impl SysctlChange {
    /// Returns the command of sysctl(8) for the change.
    fn command(&self) -> String {
        let SysctlChange { name, to, .. } = self;
        match to.contains(' ') {
            true => format!("sysctl -w {name}='{to}'"),
            false => format!("sysctl -w {name}={to}"),
        }
    }
}

/// Returns a printable path as one word of a shell. `None`: it has escapes, so the shell would take it for another path.
pub(super) fn shell_word(path: &str) -> Option<String> {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "/._-+:@%,=".contains(char);
    match path {
        _ if path.contains('\\') => None,
        _ if path.chars().all(is_plain) && !path.starts_with('-') => Some(path.to_owned()),
        _ => Some(format!("'{}'", path.replace('\'', r"'\''"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_words_of_a_shell() {
        #[rustfmt::skip]
        let cases = [
            ("/srv/www-1", Some("/srv/www-1")),
            ("/a b",       Some("'/a b'")),
            ("/it's",      Some(r"'/it'\''s'")),
            ("/$(x)",      Some("'/$(x)'")),
            ("/a\\nb",     None),
        ];
        for (path, want) in cases {
            assert_eq!(shell_word(path).as_deref(), want);
        }
    }

    #[test]
    fn command_of_a_change_is_one_for_a_shell() {
        let change =
            |to: &str| SysctlChange { name: "net.ipv4.tcp_wmem", from: "1".to_owned(), to: to.to_owned() };
        assert_eq!(change("2").command(), "sysctl -w net.ipv4.tcp_wmem=2");
        assert_eq!(change("1 2 3").command(), "sysctl -w net.ipv4.tcp_wmem='1 2 3'");
    }
}
