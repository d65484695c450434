//! The sandbox of a system for which there is none.

use super::{Confined, Rights};
use std::{io, os::fd::BorrowedFd};
use tarpon_site::Printable;

pub(crate) fn confine_keeper(rights: &Rights, _roots: &[BorrowedFd<'_>]) -> io::Result<Confined> {
    Ok(unconfined(rights))
}

pub(crate) fn confine_server(rights: &Rights) -> io::Result<Confined> {
    Ok(unconfined(rights))
}

pub(crate) fn confine_control(rights: &Rights) -> io::Result<Confined> {
    Ok(unconfined(rights))
}

#[derive(Debug)]
pub(crate) struct Narrowing;

impl Narrowing {
    pub(crate) fn new(_in_calls: bool) -> io::Result<Narrowing> {
        Ok(Narrowing)
    }

    pub(crate) fn confine(&self) -> io::Result<()> {
        Ok(())
    }
}

pub(crate) fn confine_begun_server(_in_calls: bool, _has_rings: bool) -> io::Result<()> {
    Ok(())
}

fn unconfined(rights: &Rights) -> Confined {
    let user = rights.user.as_ref().map(|user| format!("user {}", user.name().printable()));
    let lacking = rights.is_sandboxed.then(|| "no sandbox (there is none for this system)".to_owned());
    Confined { words: user.into_iter().chain(lacking).collect(), ..Confined::default() }
}
