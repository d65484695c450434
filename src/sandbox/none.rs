//! The sandbox of a system for which there is none.

use super::{Confined, Rights};
use std::{io, path::PathBuf};

pub(crate) fn confine_keeper(rights: &Rights, _paths: &[PathBuf]) -> io::Result<Confined> {
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
    pub(crate) fn new(_rights: &Rights) -> io::Result<Narrowing> {
        Ok(Narrowing)
    }

    pub(crate) fn confine(&self) -> io::Result<()> {
        Ok(())
    }
}

pub(crate) fn confine_begun_server(_rights: &Rights) -> io::Result<()> {
    Ok(())
}

fn unconfined(rights: &Rights) -> Confined {
    let user = rights.user.as_ref().map(|user| format!("user {}", user.name()));
    let lacking = rights.is_sandboxed.then(|| "no sandbox (there is none for this system)".to_owned());
    Confined { words: user.into_iter().chain(lacking).collect(), in_files: false }
}
