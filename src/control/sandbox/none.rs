//! The sandbox on systems other than Linux: there is none, and the summary says so.

use super::{Confinement, Privileges, ServerNeeds};
use std::{
    io,
    os::fd::{BorrowedFd, OwnedFd},
    path::PathBuf,
};
use tarpon_site::Printable;

pub(crate) fn confine_builder(privileges: &Privileges, _roots: &[BorrowedFd<'_>]) -> io::Result<Confinement> {
    Ok(unconfined(privileges))
}

pub(crate) fn confine_server(privileges: &Privileges, _needs: ServerNeeds) -> io::Result<Confinement> {
    Ok(unconfined(privileges))
}

pub(crate) fn confine_master(privileges: &Privileges) -> io::Result<Confinement> {
    Ok(unconfined(privileges))
}

pub(crate) fn confine_net(privileges: &Privileges, _ports: &[u16]) -> io::Result<Confinement> {
    Ok(unconfined(privileges))
}

pub(crate) fn confine_upstreams(
    privileges: &Privileges,
    _ports: &[u16],
    _sockets: &[PathBuf],
) -> io::Result<Confinement> {
    Ok(unconfined(privileges))
}

pub(crate) fn confine_cgi(_privileges: &Privileges) -> io::Result<Option<OwnedFd>> {
    Ok(None)
}

#[derive(Debug)]
pub(crate) struct WorkerSeccomp;

impl WorkerSeccomp {
    pub(crate) fn new(_has_seccomp: bool) -> io::Result<WorkerSeccomp> {
        Ok(WorkerSeccomp)
    }

    pub(crate) fn confine(&self) -> io::Result<()> {
        Ok(())
    }
}

pub(crate) fn confine_running_server(_has_seccomp: bool, _needs: ServerNeeds) -> io::Result<()> {
    Ok(())
}

fn unconfined(privileges: &Privileges) -> Confinement {
    let user = privileges.user.as_ref().map(|user| format!("user {}", user.name().printable()));
    let missing = privileges.is_sandboxed.then(|| "no sandbox (none for this system)".to_owned());
    Confinement { summary: user.into_iter().chain(missing).collect(), ..Confinement::default() }
}
