//! The permissions on the path to a site: whether the user of the server may enter each directory from `/` on, and read the last one.
//!
//! ```text
//! child, as root ─ opens each step ─▶ becomes the user ─ asks the kernel about each step ─▶ PathWalk ─▶ judge
//! ```
//!
//! The kernel answers for the user, so access control lists and capabilities count. Mode and owner are shown, not interpreted.

use super::finding::{Finding, shell_word};
use crate::{
    base::error::reason,
    control::{process::in_child::in_child, sandbox::Privileges},
    site::trusted_path::{PathBarrier, SiteRoot, TrustedPath, fd_path},
    sys::{process::SingleThreaded, user::User},
};
use rustix::fs::{Access, AtFlags, FileType, accessat, fstat};
use serde::{Deserialize, Serialize};
use std::{
    fs, io,
    os::fd::{AsFd, OwnedFd},
    path::{self, Path, PathBuf},
};
use tarpon_site::Printable;

/// A directory on the path, or the site itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PathStep {
    /// The path, without links.
    path: String,
    owner: u32,
    /// The name of the owner, or the number.
    owner_name: String,
    group: u32,
    mode: u32,
    is_dir: bool,
    /// The user may enter this directory.
    may_enter: bool,
    /// The user may list this directory, or read this file.
    may_read: bool,
}

/// The steps of a path, as far as they can be opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PathWalk {
    steps: Vec<PathStep>,
    /// Why the path ends before the site.
    barrier: Option<String>,
    /// The builder opens the path as root: the directories above the site may be closed to the user.
    is_opened_by_root: bool,
}

/// Examines the path to a site, or to a directory that its links lead into.
pub(super) fn examine(site: &Path, privileges: &Privileges, single_threaded: &SingleThreaded) -> Finding {
    let subject = site.printable().to_string();
    let walked = path::absolute(site)
        .and_then(|path| in_child(single_threaded, || walk(&path, privileges)))
        .and_then(|walked| walked.map_err(io::Error::other));
    match walked {
        Err(error) => Finding::unknown(CHECK, format!("cannot follow the path: {}", reason(&error)), WHY),
        Ok(walk) => {
            let user = privileges.user.clone().map_or_else(User::current, |user| Ok(Some(user)));
            let user = user.ok().flatten();
            judge(&walk, user.as_ref(), &groups_of(privileges))
        }
    }
    .about(subject)
}

/// Returns the groups of the user of the server.
fn groups_of(privileges: &Privileges) -> Vec<u32> {
    if privileges.user.is_some() {
        return privileges.groups.clone();
    }
    let own = rustix::process::getgroups().unwrap_or_default().into_iter();
    own.chain([rustix::process::getegid()]).map(|group| group.as_raw()).collect()
}

const CHECK: &str = "site-path";
const WHY: &str = "The user of the server needs x on each directory from / on, and r on the site.";

/// Opens each step with the rights of this process, becomes the user for good, and asks the kernel about each step.
fn walk(path: &Path, privileges: &Privileges) -> Result<PathWalk, String> {
    let trusted = privileges.trusted();
    let is_opened_by_root =
        trusted.is_some_and(|trusted| TrustedPath::find(path, Some(&trusted), |_, _| ()).end.is_ok());
    let mut opened: Vec<(OwnedFd, PathBuf)> = Vec::new();
    let mut add = |fd: OwnedFd| {
        let at = fs::read_link(fd_path(&fd)).unwrap_or_else(|_| path.to_owned());
        if !opened.iter().any(|(_, known)| *known == at) {
            opened.push((fd, at));
        }
    };
    let found =
        TrustedPath::find(path, None, |dir, _| dir.try_clone_to_owned().into_iter().for_each(&mut add));
    let barrier = match &found.end {
        Ok(root) => {
            root.descriptor().try_clone_to_owned().into_iter().for_each(&mut add);
            None
        }
        Err(PathBarrier::Missing(at)) => Some(format!("{} does not exist", at.printable())),
        Err(PathBarrier::Failed(at, error)) => Some(format!("{}: {}", at.printable(), reason(error))),
        Err(PathBarrier::Denied(at) | PathBarrier::Untrusted(at)) => {
            Some(format!("what lies below {} cannot be seen", at.path.printable()))
        }
    };
    let is_file = found.end.as_ref().is_ok_and(SiteRoot::is_file);
    privileges.assume().map_err(|error| error.found_and_hint().0)?;
    let count = opened.len();
    let steps = opened.iter().enumerate().map(|(number, (fd, at))| {
        let is_dir = !is_file || number + 1 < count;
        step(fd, at, is_dir)
    });
    let steps = steps.collect::<io::Result<Vec<_>>>().map_err(|error| reason(&error))?;
    Ok(PathWalk { steps, barrier, is_opened_by_root })
}

fn step(fd: &OwnedFd, at: &Path, is_dir: bool) -> io::Result<PathStep> {
    let stat = fstat(fd)?;
    let file = fd_path(fd);
    let may = |access| match is_dir {
        true => accessat(fd.as_fd(), ".", access, AtFlags::EACCESS).is_ok(),
        false => accessat(rustix::fs::CWD, &file, access, AtFlags::EACCESS).is_ok(),
    };
    #[allow(clippy::unnecessary_cast, reason = "16 bits on other systems")]
    let mode = stat.st_mode as u32 & 0o7777;
    let owner = User::numbered(stat.st_uid).ok().flatten();
    let owner_name =
        owner.map_or_else(|| stat.st_uid.to_string(), |owner| owner.name().printable().to_string());
    Ok(PathStep {
        path: at.printable().to_string(),
        owner: stat.st_uid,
        owner_name,
        group: stat.st_gid,
        mode,
        is_dir: FileType::from_raw_mode(stat.st_mode).is_dir(),
        may_enter: !is_dir || may(Access::EXEC_OK),
        may_read: may(Access::READ_OK),
    })
}

/// Judges a path for a user. `None`: the user has no name.
fn judge(walk: &PathWalk, user: Option<&User>, groups: &[u32]) -> Finding {
    let name = user.map_or("this user".to_owned(), |user| format!("user {}", user.name().printable()));
    let last = walk.steps.len().saturating_sub(1);
    let is_closed = |(number, step): &(usize, &PathStep)| {
        !step.may_enter || *number == last && walk.barrier.is_none() && !step.may_read
    };
    let closed: Vec<_> = walk.steps.iter().enumerate().filter(is_closed).collect();
    let shown = |step: &PathStep| {
        let verb = if step.may_enter { "read" } else { "enter" };
        format!("{name} may not {verb} {} (owner {}, mode {:04o})", step.path, step.owner_name, step.mode)
    };
    let is_above = |(number, _): &(usize, &PathStep)| *number < last;
    match (&closed[..], &walk.barrier) {
        ([], None) => {
            let count = walk.steps.len();
            Finding::good(CHECK, format!("{name} may use all {count} steps of the path"), WHY)
        }
        ([], Some(barrier)) => {
            let advice = "create it, or name another path; relative paths start at the directory of the file";
            Finding::problem(CHECK, barrier, WHY, advice)
        }
        (closed, None) if walk.is_opened_by_root && closed.iter().all(is_above) => {
            let value = closed.iter().map(|(_, step)| shown(step)).collect::<Vec<_>>().join("; ");
            Finding::good(
                CHECK,
                format!("{value}, but tarpon opens the path as root before it becomes that user"),
                WHY,
            )
        }
        (closed, barrier) => {
            let mut value = closed.iter().map(|(_, step)| shown(step)).collect::<Vec<_>>();
            value.extend(barrier.clone());
            let advice = match user {
                Some(user) => {
                    format!("let {name} in; setfacl -m u:{}:rx does so for it alone", user.name().printable())
                }
                None => format!("let {name} in"),
            };
            let finding = Finding::problem(CHECK, value.join("; "), WHY, advice);
            let site = barrier.is_none().then_some(last);
            match command(closed, site, user, groups) {
                Some(command) => finding.command(command),
                None => finding,
            }
        }
    }
}

/// Returns the command that opens the steps to the user. `site`: the number of the step that is the site. `None`: a name cannot be written
/// in a command.
fn command(
    closed: &[(usize, &PathStep)],
    site: Option<usize>,
    user: Option<&User>,
    groups: &[u32],
) -> Option<String> {
    let commands = closed.iter().map(|(number, step)| {
        // The kernel looks at the first of these that fits.
        let class = match user {
            Some(user) if user.uid() == step.owner => 'u',
            Some(_) if groups.contains(&step.group) => 'g',
            _ => 'o',
        };
        let bits = match (step.may_enter, step.may_read, step.is_dir) {
            (false, false, true) if site == Some(*number) => "rx",
            (false, _, _) => "x",
            _ => "r",
        };
        Some(format!("chmod {class}+{bits} {}", shell_word(&step.path)?))
    });
    Some(commands.collect::<Option<Vec<_>>>()?.join(" && "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::doctor::finding::Verdict::{Good, Problem};

    fn path_step(path: &str, owner: u32, mode: u32, access: &str) -> PathStep {
        PathStep {
            path: path.to_owned(),
            owner,
            owner_name: owner.to_string(),
            group: 5,
            mode,
            is_dir: true,
            may_enter: access.contains('x'),
            may_read: access.contains('r'),
        }
    }

    #[test]
    fn steps_that_a_user_may_not_enter_are_problems_with_a_command() {
        let user = User::of("www", 7, "/");
        let gone = Some("/srv/none does not exist");
        let open = || path_step("/", 0, 0o755, "rx");
        #[rustfmt::skip]
        let cases = [
            // case            steps                                                                      barrier by root verdict  value                                                     command
            ("open",           vec![open(), path_step("/srv", 0, 0o755, "rx")],                           None, false, Good,    "all 2 steps",                                                None),
            ("x above",        vec![open(), path_step("/a", 0, 0o711, "x"), path_step("/a/b", 0, 0o755, "rx")], None, false, Good, "all 3 steps",                                             None),
            ("closed above",   vec![open(), path_step("/a", 0, 0o700, ""), path_step("/a/b", 0, 0o755, "rx")], None, false, Problem, "user www may not enter /a (owner 0, mode 0700)", Some("chmod o+x /a")),
            ("opened by root", vec![open(), path_step("/a", 0, 0o700, ""), path_step("/a/b", 0, 0o755, "rx")], None, true,  Good,    "user www may not enter /a",                               None),
            ("closed site",    vec![open(), path_step("/a", 0, 0o700, "")],                               None, true,  Problem, "user www may not enter /a (owner 0, mode 0700)",    Some("chmod o+rx /a")),
            ("no list",        vec![open(), path_step("/a", 0, 0o711, "x")],                              None, true,  Problem, "user www may not read /a (owner 0, mode 0711)",     Some("chmod o+r /a")),
            ("own",            vec![open(), path_step("/a", 7, 0o055, "")],                               None, false, Problem, "owner 7",                                                    Some("chmod u+rx /a")),
            ("of its group",   vec![open(), PathStep { group: 9, ..path_step("/a", 0, 0o705, "") }],      None, false, Problem, "mode 0705",                                                 Some("chmod g+rx /a")),
            ("with a space",   vec![open(), path_step("/a b", 0, 0o700, "")],                             None, false, Problem, "/a b",                                                       Some("chmod o+rx '/a b'")),
            ("no text",        vec![open(), path_step("/a\\xff", 0, 0o700, "")],                          None, false, Problem, "/a\\xff",                                                    None),
            ("missing",        vec![open()],                                                              gone, true,  Problem, "/srv/none does not exist",                                   None),
            ("unseen",         vec![open(), path_step("/a", 0, 0o700, "")],                               Some("what lies below /a cannot be seen"), false, Problem, "what lies below /a cannot be seen", Some("chmod o+x /a")),
        ];
        for (name, steps, barrier, is_opened_by_root, verdict, value, command) in cases {
            let walk = PathWalk { steps, barrier: barrier.map(str::to_owned), is_opened_by_root };
            let found = judge(&walk, Some(&user), &[9]);
            assert_eq!((found.verdict, found.command.as_deref()), (verdict, command), "{name}: {found:?}");
            assert!(found.value.contains(value), "{name}: {found:?}");
        }
    }
}
