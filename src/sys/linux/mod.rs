//! Linux. `../bsd/` has the same modules for other systems.

#[cfg(test)]
pub(crate) mod attempts;
pub(crate) mod cached;
pub(crate) mod clock;
pub(crate) mod cores;
pub(crate) mod epoll;
pub(crate) mod forbidden;
pub(crate) mod huge;
#[cfg(feature = "program")]
pub(crate) mod landlock;
pub(crate) mod name;
pub(crate) mod priority;
pub(crate) mod process;
pub(crate) mod program;
pub(crate) mod sealed;
pub(crate) mod seccomp;
pub(crate) mod signals;
pub(crate) mod socket;
pub(crate) mod spawn;
pub(crate) mod wake;
