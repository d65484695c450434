//! The configuration of CGI programs.

use std::{path::PathBuf, time::Duration};
use tarpon_conn::PathPrefix;

/// How the CGI programs of all sites run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgiConfig {
    /// The user that they run as. If the server starts as root, there must be one. Default: `None`.
    pub user: Option<String>,
    /// How long a program may take without progress, and wait for a free place. Default: 60 s.
    pub timeout: Duration,
    /// How many programs run at a time. Default: 32.
    pub max_programs: u32,
    /// How many requests wait for a free place. Default: 128.
    pub max_queue: u32,
    /// The maximum length of the content of a request in bytes. Default: 16 MiB.
    pub max_body: u64,
    /// The maximum length of a program's output in bytes. Default: 1 GiB.
    pub max_output: u64,
    /// The maximum time of the processor that a program uses. Default: 60 s.
    pub max_cpu_time: Duration,
    /// The maximum address space of each of its processes in bytes. Default: 1 GiB.
    pub max_memory: u64,
    /// The maximum length of a file that it writes in bytes. Default: 256 MiB.
    pub max_file_size: u64,
    /// The maximum number of files that each of its processes opens. Default: 256.
    pub max_open_files: u32,
    /// The maximum number of processes of the user. `None`: that of the system. Default: `None`.
    pub max_processes: Option<u32>,
    /// Variables of its environment besides those of the request. Without a value: that of the server. Default: none.
    pub environment: Vec<(String, Option<String>)>,
    /// Whether programs get the fields Authorization and Proxy-Authorization. Default: `false`.
    pub passes_authorization: bool,
}

impl Default for CgiConfig {
    /// The defaults of the options: `program/config/cgi.rs` gives the reasons.
    fn default() -> CgiConfig {
        CgiConfig {
            user: None,
            timeout: Duration::from_secs(60),
            max_programs: 32,
            max_queue: 128,
            max_body: 16 << 20,
            max_output: 1 << 30,
            max_cpu_time: Duration::from_secs(60),
            max_memory: 1 << 30,
            max_file_size: 256 << 20,
            max_open_files: 256,
            max_processes: None,
            environment: Vec::new(),
            passes_authorization: false,
        }
    }
}

/// The CGI programs of a site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteCgi {
    /// Directories whose files are programs, each below a path of the site. Default: none.
    pub directories: Vec<(PathPrefix, PathBuf)>,
    /// Files of the site whose names end so are programs. `None`: none are. Default: `None`.
    pub suffix: Option<String>,
}

impl SiteCgi {
    /// Returns whether the site has no programs.
    pub fn is_empty(&self) -> bool {
        self.directories.is_empty() && self.suffix.is_none()
    }
}
