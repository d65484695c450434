//! Whose rights the children have.

use crate::{
    error::{Trouble, reason},
    sys::{process::follow_into_death, user::User},
};
use rustix::{
    fs::{Access, access},
    io::Errno,
};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Whose rights the children have, and whether they are sandboxed.
#[derive(Clone, Debug)]
pub(crate) struct Rights {
    /// `None`: of whoever has started the program, who is not root.
    pub(crate) user: Option<User>,
    pub(crate) is_sandboxed: bool,
}

/// Whom root becomes where nobody says whom: the first of them that there is.
const DEFAULT_USERS: [&str; 2] = ["tarpon", "nobody"];

impl Rights {
    /// Those of the user of this name; where root has named none, of one of the usual users.
    ///
    /// # Errors
    /// There is no such user, or this process may not become that user.
    pub(crate) fn new(wanted: Option<&str>, is_sandboxed: bool) -> Result<Rights, Trouble> {
        let current = User::current().map_err(|error| lookup_failed(&error))?;
        let is_root = rustix::process::geteuid().is_root();
        let user = match wanted {
            Some(name) => Some(named(name)?),
            None if is_root => Some(default_user()?),
            None => None,
        };
        match user {
            Some(user) if !is_root && current.as_ref() != Some(&user) => Err(Trouble::new(
                format_args!("cannot run as user {}", user.name()),
                "only root can become another user",
                "leave --user out, or start it as root",
            )),
            user => Ok(Rights { user: user.filter(|_| is_root), is_sandboxed }),
        }
    }

    /// Gives them to this process, for good.
    ///
    /// # Errors
    /// It may not become that user: root of a container may lack the rights to.
    pub(crate) fn assume(&self) -> Result<(), Trouble> {
        let Some(user) = &self.user else { return Ok(()) };
        // The kernel forgets it with the rights. If the parent has ended by then, its channel tells.
        user.assume().and_then(|()| follow_into_death()).map_err(|error| {
            Trouble::new(
                format_args!("cannot become user {}", user.name()),
                reason(&error),
                "leave the program CAP_SETUID and CAP_SETGID, or say --user root to stay who it is",
            )
        })
    }

    /// Asked once this process has these rights: whether it can come to what lies at a path at all, and read that.
    ///
    /// # Errors
    /// It cannot, because of the user that it has become.
    pub(crate) fn check_way(&self, path: &Path) -> Result<(), Trouble> {
        let Some(user) = &self.user else { return Ok(()) };
        let barred = |what: &str, mode: &str, at: &Path| {
            let (name, at) = (user.name(), at.display());
            Trouble::new(
                format_args!("cannot serve {}", path.display()),
                format_args!("user {name} may not {what} {at}"),
                format_args!("let it, as with chmod {mode} {at}, or choose another user with --user NAME"),
            )
        };
        let error = match fs::metadata(path) {
            Ok(meta) => {
                // A directory is searched too.
                let (wanted, mode) = match meta.is_dir() {
                    true => (Access::READ_OK | Access::EXEC_OK, "o+rx"),
                    false => (Access::READ_OK, "o+r"),
                };
                return match access(path, wanted) {
                    Err(Errno::ACCESS) => Err(barred("read", mode, path)),
                    // What else is wrong, who reads it will tell.
                    Ok(()) | Err(_) => Ok(()),
                };
            }
            Err(error) => error,
        };
        if error.kind() != io::ErrorKind::PermissionDenied {
            return Ok(());
        }
        let way: Vec<PathBuf> = path.ancestors().map(Path::to_owned).collect();
        let mut steps = way.iter().rev().zip(way.iter().rev().skip(1));
        let dir = steps.find(|(_, next)| fs::symlink_metadata(next).is_err()).map_or(path, |(dir, _)| dir);
        Err(barred("enter", "o+x", dir))
    }
}

fn named(name: &str) -> Result<User, Trouble> {
    User::named(name).map_err(|error| lookup_failed(&error))?.ok_or_else(|| {
        Trouble::new(
            format_args!("cannot run as user {name}"),
            "there is no such user",
            format_args!("create it, as with useradd --system {name}, or choose another with --user NAME"),
        )
    })
}

fn default_user() -> Result<User, Trouble> {
    for name in DEFAULT_USERS {
        if let Some(user) = User::named(name).map_err(|error| lookup_failed(&error))? {
            return Ok(user);
        }
    }
    Err(Trouble::new(
        "cannot choose a user to run as instead of root",
        "there is no user tarpon, and no user nobody",
        "choose one with --user NAME, or say that root is meant with --user root",
    ))
}

fn lookup_failed(error: &io::Error) -> Trouble {
    Trouble::new("cannot look a user up", reason(error), "see /etc/passwd and /etc/nsswitch.conf")
}
