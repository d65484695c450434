//! The user that the child processes run as.

use crate::{
    base::error::{UserError, reason},
    site::{missing, trusted_path::PathBarrier},
    sys::{process::die_with_parent, user::User},
};
use serde::{Deserialize, Serialize};
use std::{io, path::Path};
use tarpon_pack::Inaccessible;
use tarpon_site::Printable;

/// The user of the child processes, and whether they are sandboxed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Privileges {
    /// `None`: the user that started the program, which is not root.
    pub(crate) user: Option<User>,
    /// The groups of the user.
    pub(crate) groups: Vec<u32>,
    pub(crate) is_sandboxed: bool,
}

/// The users that root becomes without `--user`: the first that exists.
const DEFAULT_USERS: [&str; 2] = ["tarpon", "nobody"];

impl Privileges {
    /// Looks the user up: `wanted`, or, if root has set none, a default user.
    ///
    /// # Errors
    /// The user does not exist, or this process may not become that user.
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
                "leave --user out, or start tarpon as root",
            )),
            user => {
                let user = user.filter(|_| is_root);
                let groups =
                    user.as_ref().map(User::groups).transpose().map_err(|error| lookup_failed(&error))?;
                Ok(Privileges { user, groups: groups.unwrap_or_default(), is_sandboxed })
            }
        }
    }

    /// Makes this process run as the user, irrevocably.
    ///
    /// # Errors
    /// This process may not become that user: root of a container may lack the capabilities.
    pub(crate) fn assume(&self) -> Result<(), UserError> {
        let Some(user) = &self.user else { return Ok(()) };
        // A change of user clears the parent death signal, so it is set again. If the parent has exited meanwhile, its channel is at EOF.
        user.become_user(&self.groups).and_then(|()| die_with_parent()).map_err(|error| {
            UserError::new(
                format_args!("cannot become user {}", user.name().printable()),
                reason(&error),
                "give tarpon CAP_SETUID and CAP_SETGID, or pass --user root to keep running as root",
            )
        })
    }

    /// Returns the users that may decide which directory is a site, if the builder opens the site as root before it becomes another user:
    /// root, and the user that started the program. `None`: the builder becomes no other user, or the system does not support this.
    pub(crate) fn trusted(&self) -> Option<[u32; 2]> {
        let becomes_other = self.user.as_ref().is_some_and(|user| !user.is_root());
        (becomes_other && cfg!(target_os = "linux")).then(|| [0, rustix::process::getuid().as_raw()])
    }

    /// Returns the name of the user that the children become.
    pub(crate) fn user_name(&self) -> Option<String> {
        self.user.as_ref().map(User::name)
    }

    /// Returns the error for a site that this process cannot reach. Looks users up.
    pub(crate) fn site_error(&self, path: &Path, stop: &PathBarrier) -> UserError {
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

    /// Returns the error for a site that the user may not read.
    pub(crate) fn barred(&self, path: &Path, barrier: &Inaccessible) -> UserError {
        let Inaccessible { path: at, uid, mode, is_dir } = barrier;
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
            format_args!("allow it, as with chmod {bits} {at}, or run as the owner with --user {other}"),
        )
    }
}

fn named(name: &str) -> Result<User, UserError> {
    User::named(name).map_err(|error| lookup_failed(&error))?.ok_or_else(|| {
        let name = name.printable();
        UserError::new(
            format_args!("cannot run as user {name}"),
            "the user does not exist",
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
    // A container may have no user database at all.
    if User::all().is_empty() {
        return Ok(User::nobody());
    }
    Err(UserError::new(
        "cannot choose a user to run as instead of root",
        "neither the user tarpon nor the user nobody exists",
        "choose a user with --user NAME, or pass --user root to run as root",
    ))
}

fn lookup_failed(error: &io::Error) -> UserError {
    UserError::new("cannot look up a user", reason(error), "check /etc/passwd and /etc/nsswitch.conf")
}
