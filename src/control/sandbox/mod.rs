//! What is taken from a process for good, before it meets what strangers have made.
//!
//! ```text
//!            user        capabilities      no new    Landlock                       seccomp
//! keeper     not root    none              rights    reads the sites, nothing else  what reading and building takes
//! server     not root    none              rights    no files, no TCP               what serving takes
//! control    not root    none              rights    no files, no TCP               what serving and making processes takes
//! its desk, its workers                                                             what serving takes
//! ```
//!
//! A ring of io_uring is not seen by seccomp; what it may do is restricted by the ring itself, in the engine. All but the user
//! is Linux's: elsewhere there is no sandbox, and that is said.

mod privileges;
#[cfg_attr(target_os = "linux", path = "linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "none.rs")]
mod system;

pub(crate) use privileges::Privileges;
pub(crate) use system::{
    WorkerSeccomp, confine_builder, confine_master, confine_running_server, confine_server,
};

use crate::base::engine::Engine;
use std::io;

/// Returns the message for a server that cannot be confined.
pub(crate) fn unconfined(error: &io::Error) -> String {
    format!("cannot confine the server process: {error}; --no-sandbox turns the sandbox off")
}

/// What a process is confined to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Confinement {
    /// All of it, and what the host does not offer for it: a few words each.
    pub(crate) summary: Vec<String>,
    /// Only files that it was told of can be opened.
    pub(crate) has_landlock: bool,
    /// Its system calls are filtered. Whatever is to be taken from it later is taken, or it does not go on.
    pub(crate) has_seccomp: bool,
}

impl Confinement {
    /// All of it, for a server on this engine.
    pub(crate) fn summary(mut self, engine: Engine) -> Vec<String> {
        if engine == Engine::IoUring {
            self.summary.push("io_uring restricted".to_owned());
        }
        self.summary
    }
}
