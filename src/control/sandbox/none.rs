//! The sandbox of a system for which there is none.

use super::{Confinement, Privileges};
use std::{io, os::fd::BorrowedFd};
use tarpon_site::Printable;

pub(crate) fn confine_keeper(rights: &Privileges, _roots: &[BorrowedFd<'_>]) -> io::Result<Confinement> {
    Ok(unconfined(rights))
}

pub(crate) fn confine_server(rights: &Privileges) -> io::Result<Confinement> {
    Ok(unconfined(rights))
}

pub(crate) fn confine_control(rights: &Privileges) -> io::Result<Confinement> {
    Ok(unconfined(rights))
}

#[derive(Debug)]
pub(crate) struct WorkerSeccomp;

impl WorkerSeccomp {
    pub(crate) fn new(_in_calls: bool) -> io::Result<WorkerSeccomp> {
        Ok(WorkerSeccomp)
    }

    pub(crate) fn confine(&self) -> io::Result<()> {
        Ok(())
    }
}

pub(crate) fn confine_begun_server(_in_calls: bool, _has_rings: bool) -> io::Result<()> {
    Ok(())
}

fn unconfined(rights: &Privileges) -> Confinement {
    let user = rights.user.as_ref().map(|user| format!("user {}", user.name().printable()));
    let lacking = rights.is_sandboxed.then(|| "no sandbox (there is none for this system)".to_owned());
    Confinement { words: user.into_iter().chain(lacking).collect(), ..Confinement::default() }
}
