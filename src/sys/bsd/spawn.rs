//! Starting programs with limits: not supported here. The configuration refuses CGI programs before.

#![allow(dead_code, reason = "the same interface as on Linux, and nothing starts here")]

use libc::c_int;
use rustix::fs::OFlags;
use std::{
    convert::Infallible,
    ffi::{CStr, CString},
    io,
    os::fd::{BorrowedFd, OwnedFd},
};

/// How the directory of a program is opened.
pub(crate) const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);

/// A program to start.
#[derive(Debug)]
pub(crate) struct SpawnPlan<'a> {
    pub(crate) directory: BorrowedFd<'a>,
    pub(crate) program: &'a CStr,
    pub(crate) arguments: &'a [CString],
    pub(crate) environment: &'a [CString],
    pub(crate) streams: [BorrowedFd<'a>; 3],
    pub(crate) limits: &'a [ProgramLimit],
    pub(crate) rules: Option<BorrowedFd<'a>>,
}

/// A limit of a program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProgramLimit;

impl ProgramLimit {
    pub(crate) fn cpu_s(_: u64) -> ProgramLimit {
        ProgramLimit
    }

    pub(crate) fn memory(_: u64) -> ProgramLimit {
        ProgramLimit
    }

    pub(crate) fn open_files(_: u64) -> ProgramLimit {
        ProgramLimit
    }

    pub(crate) fn file_len(_: u64) -> ProgramLimit {
        ProgramLimit
    }

    pub(crate) fn processes(_: u64) -> ProgramLimit {
        ProgramLimit
    }

    pub(crate) fn no_core() -> ProgramLimit {
        ProgramLimit
    }
}

/// A started program: there is none.
#[derive(Debug)]
pub(crate) struct Spawned {
    pub(crate) pidfd: OwnedFd,
    never: Infallible,
}

/// How a program has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProgramEnd {
    Exited(i32),
    Killed(i32),
}

/// Starts no program.
///
/// # Errors
/// Always.
pub(crate) fn spawn(_: &SpawnPlan<'_>) -> io::Result<Spawned> {
    Err(io::ErrorKind::Unsupported.into())
}

impl Spawned {
    pub(crate) fn kill_group(&self, _: c_int) {
        match self.never {}
    }

    pub(crate) fn end(&self) -> Option<ProgramEnd> {
        match self.never {}
    }

    pub(crate) fn reap(self) {
        match self.never {}
    }
}
