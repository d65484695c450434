//! Opens the trees that symbolic links of a site may lead into.
//!
//! Only a tree that no other user can change is opened: another user's file must not become part of the site by a link.

use crate::{
    base::{
        error::{UserError, reason},
        site_config::SiteSource,
    },
    site::trusted_path::{PathBarrier, SiteRoot, TrustedPath},
};
use rustix::process::geteuid;
use std::{
    ffi::OsStr,
    io,
    os::fd::BorrowedFd,
    path::{self, Path, PathBuf},
    sync::Arc,
};
use tarpon_pack::{DirTree, Inaccessible};
use tarpon_site::Printable;

/// Returns the users that may change a tree: root, and the user that started the program.
pub(crate) fn trusted_users() -> [u32; 2] {
    [0, rustix::process::getuid().as_raw()]
}

/// Opens a directory. Calls `on_step` for each name on its path, with the directory that contains it.
///
/// # Errors
/// The directory does not exist, or users other than the trusted ones can change it or its path.
pub(crate) fn open(
    path: &Path,
    trusted: &[u32],
    on_step: impl FnMut(BorrowedFd<'_>, &OsStr),
) -> Result<Arc<SiteRoot>, UserError> {
    let absolute = path::absolute(path).map_err(|error| failed(path, reason(&error)))?;
    let root = TrustedPath::find(&absolute, Some(trusted), on_step).end.map_err(|barrier| match barrier {
        PathBarrier::Missing(at) => failed(
            path,
            if at == absolute {
                "it does not exist".to_owned()
            } else {
                format!("{} does not exist", at.printable())
            },
        ),
        PathBarrier::Untrusted(at) => changeable(path, &at),
        PathBarrier::Denied(at) => failed(path, format!("permission denied by {at}")),
        PathBarrier::Failed(at, error) => failed(path, format!("{}: {}", at.printable(), reason(&error))),
    })?;
    if root.is_file() {
        return Err(failed(path, "it is not a directory".to_owned()));
    }
    match root.changeable_by_others(trusted) {
        Some(at) => Err(changeable(path, &at)),
        None => Ok(Arc::new(root)),
    }
}

/// Opens directories with the rights of this process.
///
/// # Errors
/// Those of [`open`].
pub(crate) fn open_all(paths: &[PathBuf]) -> Result<Vec<Arc<SiteRoot>>, UserError> {
    let trusted = [trusted_users()[0], trusted_users()[1], geteuid().as_raw()];
    paths.iter().map(|path| open(path, &trusted, |_, _| ())).collect()
}

/// Returns the trees of open directories.
pub(crate) fn trees(roots: &[Arc<SiteRoot>]) -> io::Result<Vec<DirTree>> {
    let trees =
        roots.iter().map(|root| root.tree().and_then(|tree| tree.ok_or(io::ErrorKind::NotADirectory.into())));
    trees.collect()
}

/// Checks that an archive has no trees for links.
///
/// # Errors
/// It has some.
pub(crate) fn refuse_for_archive(source: &SiteSource) -> Result<(), UserError> {
    match &source.follow_links[..] {
        [] => Ok(()),
        _ => Err(UserError::new(
            format_args!("cannot let links of {} lead out of it", source.path.printable()),
            "it is an archive, and only a directory can have such links",
            "leave follow-links out, or name a directory",
        )
        .about("follow-links")),
    }
}

fn failed(path: &Path, why: String) -> UserError {
    let hint = "name an existing directory, or leave it out of follow-links";
    UserError::new(format_args!("cannot let links lead into {}", path.printable()), why, hint)
        .about("follow-links")
}

fn changeable(path: &Path, at: &Inaccessible) -> UserError {
    UserError::new(
        format_args!("cannot let links lead into {}", path.printable()),
        format_args!("other users may change {at}"),
        format_args!(
            "take that away from them, as with chmod go-w {0} and chown root {0}, or name a directory elsewhere",
            at.path.printable()
        ),
    )
    .about("follow-links")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs::{self, Permissions},
        os::unix::fs::{PermissionsExt, symlink},
    };

    #[test]
    fn tree_that_other_users_can_change_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        for (name, mode) in [("safe/in", 0o755), ("group", 0o775), ("sticky", 0o1777), ("group/in", 0o755)] {
            fs::create_dir_all(dir.join(name)).unwrap();
            fs::set_permissions(dir.join(name), Permissions::from_mode(mode)).unwrap();
        }
        fs::write(dir.join("file"), "x").unwrap();
        symlink("safe/in", dir.join("link")).unwrap();
        #[rustfmt::skip]
        let cases = [
            ("safe/in",  None),
            ("link",     None),
            ("safe/../safe", None),
            ("group",    Some("other users may change DIR/group (")),
            ("sticky",   Some("other users may change DIR/sticky (")),
            ("group/in", Some("other users may change DIR/group (")),
            ("none",     Some("it does not exist; ")),
            ("none/in",  Some("DIR/none does not exist; ")),
            ("file",     Some("it is not a directory; ")),
        ];
        for (path, want) in cases {
            let found = open_all(&[dir.join(path)]).err().map(|error| error.to_string());
            let want = want.map(|want| want.replace("DIR", dir.to_str().unwrap()));
            match (&found, &want) {
                (Some(found), Some(want)) => assert!(found.contains(want), "{path}: {found}"),
                _ => assert_eq!(found, want, "{path}"),
            }
        }
        let no_user = open(&dir.join("safe"), &[u32::MAX], |_, _| ()).err().map(|error| error.to_string());
        assert!(no_user.is_some_and(|error| error.contains("other users may change / (")));
    }
}
