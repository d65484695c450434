//! The configuration: flags and a file become one checked value.
//!
//! ```text
//! flags ────────────────────────────┐
//!                                    ▼
//! tarpon.toml ─ file ─▶ tables ─ read, by the options of each section ─▶ Config
//!                          └─ errors, with their positions ─┘
//! ```
//!
//! Tables define everything: [`SECTIONS`] has the sections, a section its options, and an option its name, default, range, help and
//! effect. Command line, file, manual page, completions and reference are generated from these rows, so a new option is one row.
//!
//! | module | content |
//! |---|---|
//! | `option` | the definition of an option, and the check of its values |
//! | `site`, `upstream`, `listener`, `server`, `log` | the sections and their options |
//! | `location` | the sections of options for parts of a site |
//! | `limit` | the section of limits for some paths of a site, and values of limits |
//! | `rules` | the sections of rules, which belong to a site, and the check of these |
//! | `proxy` | the option `proxy` of sites |
//! | `upstream_address` | the addresses of upstream servers |
//! | `acme` | values of the options about certificates |
//! | `time` | the format of durations |
//! | `file` | parses files into sections and options |
//! | `include` | finds the files that a file includes |
//! | `environment` | replaces `${NAME}` in values |
//! | `read` | merges defaults, file and flags into a `Config` |
//! | `conflict`, `limit_conflict`, `tls_conflict`, `upstream_conflict` | finds options that contradict each other |
//! | `system` | finds files and engines that this system does not have |
//! | `start` | finds what else would keep the server from starting |
//! | `certificates` | checks the files of certificates |
//! | `passwords`, `admin_token` | reads files with secrets |
//! | `exposed` | finds files of the server that a site would serve |
//! | `errors` | errors with their position and a hint |
//! | `show` | prints the resolved configuration as a file |
//!
//! Knows nothing of the command line except the names of its flags. Only `file`, `include`, `system`, `start`, `certificates`, `passwords`, `admin_token` and `exposed` make system calls.

mod acme;
mod admin_token;
mod certificates;
mod cgi;
mod conflict;
mod environment;
mod errors;
mod exposed;
mod file;
mod include;
mod limit;
mod limit_conflict;
mod listener;
mod location;
mod log;
mod option;
mod passwords;
mod proxy;
mod read;
mod rules;
mod server;
mod show;
mod site;
mod start;
mod synonyms;
mod system;
mod time;
mod tls_conflict;
mod upstream;
mod upstream_address;
mod upstream_conflict;

use crate::UserError;

pub(crate) use acme::{DOMAIN_LISTENERS, unreachable};

pub use crate::base::{
    log_config::{EventFormat, LogConfig, SiteLogConfig},
    site_config::SiteConfig,
    upstream_config::UpstreamConfig,
};
pub(crate) use admin_token::read_admin_token;
pub(crate) use certificates::check_certificates;
pub use errors::{ConfigError, ConfigErrors};
pub use exposed::check_exposed;
pub use file::ConfigFile;
pub(crate) use file::toml_value;
pub use listener::ListenerConfig;
pub use option::{Choices, CommandKind, ConfigSection, FlagForm, Opt, OptionDefault, ValueKind};
pub use passwords::UsersFile;
pub(crate) use passwords::{cleartext_warning, read_users};
pub use read::{CliFlags, OptionValue, Origin, ResolvedConfig, read};
pub use server::{AdminAt, ServerConfig};
pub(crate) use start::check_start;
pub(crate) use system::cgi_warnings;
pub use system::check_system;

/// The configuration of a server. Values are within their ranges and do not contradict each other.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The sites, at least one.
    pub sites: Vec<SiteConfig>,
    /// The listeners. Empty: the [default addresses](crate::default_addresses) that the host has.
    pub listeners: Vec<ListenerConfig>,
    /// The upstreams of the sites: those with a section of their own, and one for each list of addresses.
    pub upstreams: Vec<UpstreamConfig>,
    /// Options that apply to all sites and listeners.
    pub server: ServerConfig,
    /// The access log and the messages of the server.
    pub log: LogConfig,
    /// The files of users that [`load_files`] reads into the limits of the sites.
    pub users_files: Vec<UsersFile>,
}

/// Reads the files with secrets into the configuration: users, and the token of the admin listener. Returns warnings.
///
/// # Errors
/// The files that cannot be used.
pub fn load_files(resolved: &mut ResolvedConfig) -> Result<Vec<UserError>, ConfigErrors> {
    let mut warnings = passwords::load_users(resolved)?;
    warnings.extend(admin_token::load_admin_token(resolved)?);
    Ok(warnings)
}

/// All sections, in the order of the documentation. A section follows its parent.
#[rustfmt::skip]
pub const SECTIONS: [&ConfigSection; 10] = [
    &site::SECTION,
    &rules::HEADER,
    &rules::REDIRECT,
    &location::LOCATION,
    &location::ERROR_PAGE,
    &limit::SECTION,
    &upstream::SECTION,
    &listener::SECTION,
    &server::SECTION,
    &log::SECTION,
];
