//! Configuration: what a user can say, from flags and from a file, as one checked value.
//!
//! ```text
//! flags ────────────────────────────┐
//!                                    ▼
//! tarpon.toml ─ file ─▶ tables ─ read, by the options of each section ─▶ Config
//!                          └─ faults, with their places ─┘
//! ```
//!
//! Everything there is to say is a row of a table: [`SECTIONS`] has the sections, each section its options, and each
//! option its name, default, range, words and what it sets. Command line, file, manual page, completions and reference
//! are made from these rows, so that a new option is one row.
//!
//! | module | what |
//! |---|---|
//! | `option` | what an option is, and what its value may be |
//! | `site`, `listener`, `server`, `log` | the sections: what they set, and their rows |
//! | `time`, `size` | how durations and sizes are written |
//! | `file` | what a file says, by sections and options |
//! | `read` | defaults, file and flags become a `Config` |
//! | `conflict` | what no value shows by itself |
//! | `system` | what this system does not have |
//! | `fault` | what is wrong, where, and what to do |
//! | `show` | what holds in the end, and where it came from |
//!
//! Knows nothing of the command line but its words, and asks the system nothing but in `system`.

mod conflict;
mod fault;
mod file;
mod listener;
mod log;
mod option;
mod read;
mod server;
mod show;
mod site;
mod system;
mod time;

pub use crate::base::{
    log_config::{EventFormat, LogConfig, SiteLogConfig},
    site_config::SiteConfig,
};
pub use fault::{ConfigError, ConfigErrors};
pub use file::ConfigFile;
pub use listener::ListenerConfig;
pub use option::{CommandKind, ConfigSection, FlagForm, Opt, OptionDefault, ValueKind, WordList};
pub use read::{CliFlags, OptionValue, Origin, ResolvedConfig, read};
pub use server::{AdminAt, ServerConfig};
pub use system::look;

/// What a server is told. Values are within their ranges and do not contradict each other.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The sites, at least one.
    pub sites: Vec<SiteConfig>,
    /// Where to listen; empty: at those of the [default addresses](crate::default_addresses) that the host has.
    pub listeners: Vec<ListenerConfig>,
    /// What concerns all of them.
    pub server: ServerConfig,
    /// What is logged.
    pub log: LogConfig,
}

/// Every section there is, in the order in which users read of them.
pub const SECTIONS: [&ConfigSection; 4] =
    [&site::SECTION, &listener::SECTION, &server::SECTION, &log::SECTION];
