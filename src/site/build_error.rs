//! Messages for sites that cannot be built.

use super::releases::{NONE_ACTIVE, Releases};
use crate::base::error::{UserError, reason};
use std::{io, path::Path};
use tarpon_pack::{Damage, Inaccessible, PackError, RuleFileError, RuleFileErrors};
use tarpon_site::Printable;

/// Returns the message for a directory or archive that cannot be packed into an image. `user`: the user that the process has switched to.
pub(super) fn pack_error(error: PackError, user: Option<&str>) -> UserError {
    match error {
        PackError::Root { path, error } if error.kind() == io::ErrorKind::NotFound => missing(&path, &path),
        PackError::Root { path, error } => UserError::new(
            format_args!("cannot serve {}", path.printable()),
            reason(&error),
            "name a directory or tar archive that exists and may be read, as in tarpon serve DIR",
        ),
        PackError::Read { path, error } => UserError::new(
            format_args!("cannot read {}", path.printable()),
            reason(&error),
            "make it readable, or move it out of the site",
        ),
        PackError::Denied { path, denied_by: barrier } => denied(&path, &barrier, user),
        PackError::Repeats { path } => UserError::new(
            "cannot make the site's image",
            format_args!("its symbolic links lead to {} and other directories too often", path.printable()),
            "remove links to directories that contain such links",
        ),
        PackError::FileCount { count, max } => UserError::new(
            format_args!("cannot keep {count} large files open"),
            format_args!("the limit on open files leaves room for {max}"),
            format_args!(
                "raise it, as with ulimit -n {limit} or LimitNOFILE={limit}, or pack the site with tarpon pack, as an archive needs one",
                limit = (4 * count).next_power_of_two()
            ),
        ),
        PackError::Archive { path, damage, at, member } => {
            let hint = match damage {
                Damage::NotTar => "name a directory or a tar archive",
                Damage::Truncated => "write it whole under another name, then rename it",
                Damage::Header | Damage::Extension => "create it again, as with tar -cf",
                Damage::Sparse => "create it again without --sparse",
                Damage::TooMany => "leave out links to directories",
            };
            let place = match member.is_empty() {
                true => format!("{damage}, at byte {at}"),
                false => format!("{damage}, at byte {at}, {}", member.printable()),
            };
            UserError::new(format_args!("cannot read {}", path.printable()), place, hint)
        }
        PackError::Prefix { path, prefix } => UserError::new(
            format_args!("cannot serve {} of {}", prefix.printable(), path.printable()),
            "the archive has no such directory",
            "see tar -tf for those it has",
        )
        .about("prefix"),
        PackError::Rules(errors) => rule_errors(&errors),
        error @ PackError::NoShell => UserError::new(
            "cannot serve the site with --spa",
            error,
            "put it at the root of the site, or leave --spa out",
        )
        .about("spa"),
        error @ PackError::TooLarge => {
            UserError::new("cannot make the site's image", error, "serve its parts as several sites")
        }
        PackError::Write(error) => {
            UserError::new("cannot make the site's image in memory", reason(&error), "free some memory")
        }
    }
}

/// Returns the message for rules that have errors.
pub(super) fn rule_errors(errors: &RuleFileErrors) -> UserError {
    let errors = errors.iter().map(|RuleFileError { file, line, column, error }| {
        let what = format_args!("{}:{line}:{column}", file.name().printable());
        UserError::new(what, error, error.hint())
    });
    UserError::join(errors).unwrap_or_else(|| unreachable!("there is at least one"))
}

/// Returns the message for a site that does not exist. `at` is the missing path: `path` itself or one of its parents.
pub(crate) fn missing(path: &Path, at: &Path) -> UserError {
    let (what, hint) = (
        format!("cannot serve {}", path.printable()),
        "name a directory or tar archive, as in tarpon serve DIR",
    );
    if let Some(hint) = Releases::inactive(path) {
        return UserError::new(what, NONE_ACTIVE, hint);
    }
    match at == path {
        true => UserError::new(what, "it does not exist", hint),
        false => UserError::new(what, format_args!("{} does not exist", at.printable()), hint),
    }
}

/// Returns the message for a path that permissions keep this process from reading. `user`: the user that the process has switched to.
pub(super) fn denied(path: &Path, barrier: &Inaccessible, user: Option<&str>) -> UserError {
    let what = format_args!("cannot read {}", path.printable());
    let Some(user) = user else {
        return UserError::new(
            what,
            format_args!("permission denied by {barrier}"),
            "make it readable, or move it out of the site",
        );
    };
    let user = user.printable();
    let (verb, bits) = if barrier.is_dir { ("enter", "o+rx") } else { ("read", "o+r") };
    UserError::new(
        what,
        format_args!("user {user} may not {verb} {barrier}"),
        format_args!(
            "let it, as with chmod {bits} {}, or move that out of the site",
            barrier.path.printable()
        ),
    )
}
