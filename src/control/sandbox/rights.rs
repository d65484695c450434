//! Whose rights the children have.

use crate::{
    base::error::{UserError, reason},
    site::{missing, trusted_path::PathBarrier},
    sys::{process::follow_into_death, user::User},
};
use std::{io, path::Path};
use tarpon_pack::Barrier;
use tarpon_site::Printable;

/// Whose rights the children have, and whether they are sandboxed.
#[derive(Clone, Debug)]
pub(crate) struct Privileges {
    /// `None`: of whoever has started the program, who is not root.
    pub(crate) user: Option<User>,
    pub(crate) is_sandboxed: bool,
}

/// Whom root becomes where nobody says whom: the first of them that there is.
const DEFAULT_USERS: [&str; 2] = ["tarpon", "nobody"];

impl Privileges {
    /// Those of the user of this name; where root has named none, of one of the usual users.
    ///
    /// # Errors
    /// There is no such user, or this process may not become that user.
    pub(crate) fn new(wanted: Option<&str>, is_sandboxed: bool) -> Result<Privileges, UserError> {
        let current = User::current().map_err(|error| lookup_failed(&error))?;
        let is_root = rustix::process::geteuid().is_root();
        let user = match wanted {
            Some(name) => Some(named(name)?),
            None if is_root => Some(default_user()?),
            None => None,
        };
        match user {
            Some(user) if !is_root && current.as_ref() != Some(&user) => Err(UserError::new(
                format_args!("cannot run as user {}", user.name().printable()),
                "only root can become another user",
                "leave --user out, or start it as root",
            )),
            user => Ok(Privileges { user: user.filter(|_| is_root), is_sandboxed }),
        }
    }

    /// Gives them to this process, for good.
    ///
    /// # Errors
    /// It may not become that user: root of a container may lack the rights to.
    pub(crate) fn assume(&self) -> Result<(), UserError> {
        let Some(user) = &self.user else { return Ok(()) };
        // The kernel forgets it with the rights. If the parent has ended by then, its channel tells.
        user.assume().and_then(|()| follow_into_death()).map_err(|error| {
            UserError::new(
                format_args!("cannot become user {}", user.name().printable()),
                reason(&error),
                "leave the program CAP_SETUID and CAP_SETGID, or say --user root to stay who it is",
            )
        })
    }

    /// The users that may decide where a site lies, if it is opened with root's rights before a process becomes another user: root,
    /// and the user that has started the program. `None`: it becomes none, or this system cannot do it.
    pub(crate) fn trusted(&self) -> Option<[u32; 2]> {
        let becomes_other = self.user.as_ref().is_some_and(|user| !user.is_root());
        (becomes_other && cfg!(target_os = "linux")).then(|| [0, rustix::process::getuid().as_raw()])
    }

    /// The name of the user that the children become.
    pub(crate) fn user_name(&self) -> Option<String> {
        self.user.as_ref().map(User::name)
    }

    /// Returns the message for a site that this process cannot reach. Looks users up.
    pub(crate) fn trouble(&self, path: &Path, stop: &PathBarrier) -> UserError {
        let what = format!("cannot serve {}", path.printable());
        match stop {
            PathBarrier::Missing(at) => missing(path, at),
            PathBarrier::Failed(at, error) => UserError::new(
                what,
                format_args!("{}: {}", at.printable(), reason(error)),
                "name a directory or tar archive, as in tarpon serve DIR",
            ),
            PathBarrier::Denied(barrier) | PathBarrier::Untrusted(barrier) => self.barred(path, barrier),
        }
    }

    /// Returns the message for a site that the user may not read.
    pub(crate) fn barred(&self, path: &Path, barrier: &Barrier) -> UserError {
        let Barrier { path: at, uid, mode, is_dir } = barrier;
        let at = at.printable();
        let name = |user: Option<User>| user.map(|user| user.name());
        let owner = name(User::numbered(*uid).ok().flatten());
        let user = self.user_name().or_else(|| name(User::current().ok().flatten()));
        let user = user.map_or_else(|| "this user".to_owned(), |user| format!("user {}", user.printable()));
        let owner = owner.map(|owner| owner.printable().to_string());
        let (may_not, bits) = if *is_dir { ("enter", "o+rx") } else { ("read", "o+r") };
        let other = owner.as_deref().unwrap_or("NAME");
        UserError::new(
            format_args!("cannot serve {}", path.printable()),
            format_args!(
                "{user} may not {may_not} {at} (owner {}, mode {mode:04o})",
                owner.clone().unwrap_or_else(|| uid.to_string()),
            ),
            format_args!("let it, as with chmod {bits} {at}, or run as the owner with --user {other}"),
        )
    }
}

fn named(name: &str) -> Result<User, UserError> {
    User::named(name).map_err(|error| lookup_failed(&error))?.ok_or_else(|| {
        let name = name.printable();
        UserError::new(
            format_args!("cannot run as user {name}"),
            "there is no such user",
            format_args!("create it, as with useradd --system {name}, or choose another with --user NAME"),
        )
    })
}

fn default_user() -> Result<User, UserError> {
    for name in DEFAULT_USERS {
        if let Some(user) = User::named(name).map_err(|error| lookup_failed(&error))? {
            return Ok(user);
        }
    }
    // A container may hold this program and nothing else.
    if User::all().is_empty() {
        return Ok(User::nobody());
    }
    Err(UserError::new(
        "cannot choose a user to run as instead of root",
        "there is no user tarpon, and no user nobody",
        "choose one with --user NAME, or say that root is meant with --user root",
    ))
}

fn lookup_failed(error: &io::Error) -> UserError {
    UserError::new("cannot look a user up", reason(error), "see /etc/passwd and /etc/nsswitch.conf")
}
