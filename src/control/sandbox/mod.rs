//! Confines each process before it meets bytes of strangers: user, capabilities, files, system calls.
//!
//! ```text
//!            user        capabilities   no new       Landlock                 seccomp
//!                                       privileges
//! builder    not root    none           set          reads the sites alone    reading and building
//! server     not root    none           set          no files, no TCP         serving
//! master     not root    none           set          no files, no TCP         serving, forking
//! aux, workers of the master                                                  serving
//! net        not root    none           set          name lookup, few ports   connecting
//! upstreams  not root    none           set          name lookup, few ports   connecting, also to Unix sockets
//! cgi        its own     none           set          for programs: scopes     –
//! ```
//!
//! seccomp does not see the operations of an io_uring; the engine restricts the ring itself. Except for the user, all of this is Linux
//! only: on other systems there is no sandbox, and the start line says so.
//!
//! | file | what |
//! |---|---|
//! | `privileges` | the user that the processes become |
//! | `linux` | confines a process on Linux; the tests try what a confined process can do |
//! | `files` | Landlock: which files a process may open |
//! | `calls` | seccomp: which system calls a process may make |
//! | `none` | the same interface on other systems |

mod privileges;
#[cfg_attr(target_os = "linux", path = "linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "none.rs")]
mod system;

pub(crate) use privileges::Privileges;
pub(crate) use system::{
    WorkerSeccomp, confine_builder, confine_cgi, confine_master, confine_net, confine_running_server,
    confine_server, confine_upstreams,
};

use crate::base::engine::Engine;
use std::io;

/// What a server needs besides the calls of every server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServerNeeds {
    /// io_uring.
    pub(crate) rings: bool,
    /// Giving the keys of TLS to the kernel.
    pub(crate) kernel_tls: bool,
}

/// Returns the message for a server that cannot be confined.
pub(crate) fn unconfined(error: &io::Error) -> String {
    format!("cannot confine the server process: {error}; --no-sandbox turns the sandbox off")
}

/// The restrictions in force for a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Confinement {
    /// Each restriction, or what the host lacks for it, in a few words.
    pub(crate) summary: Vec<String>,
    /// Landlock is in force: the process opens only the files it was given.
    pub(crate) has_landlock: bool,
    /// A seccomp filter is in force. If a later filter fails, the process must exit.
    pub(crate) has_seccomp: bool,
}

impl Confinement {
    /// Returns the summary for a server with this engine.
    pub(crate) fn summary(mut self, engine: Engine) -> Vec<String> {
        if engine == Engine::IoUring {
            self.summary.push("io_uring restricted".to_owned());
        }
        self.summary
    }
}
