//! What a site is made of and how it answers, as values.

use super::{log_config::SiteLogConfig, settings::SiteLimits};
use std::path::PathBuf;
use tarpon_conn::HostName;
use tarpon_pack::{Dialect, Policy, UserDirectory};

/// What is said of a site.
#[derive(Clone, Debug, Default)]
pub struct SiteConfig {
    /// What it is made of.
    pub source: SiteSource,
    /// The hosts it is served for. The first that is no wildcard is its canonical name.
    pub hosts: Vec<HostName>,
    /// Hosts that lead to its canonical name.
    pub redirect_hosts: Vec<HostName>,
    /// Whether it answers to names that no site has.
    pub is_default: bool,
    /// What it grants its clients where that is not what the server grants.
    pub limits: SiteLimits,
    /// Earlier releases that are kept.
    pub keep_releases: usize,
    /// Which users have directories below it.
    pub users: UserConfig,
    /// What is logged of it where that is not what is logged of the others.
    pub log: SiteLogConfig,
}

/// What a site is made of.
#[derive(Clone, Debug)]
pub struct SiteSource {
    /// A directory, or a tar archive.
    pub path: PathBuf,
    /// In an archive: the directory to serve; empty for all of it.
    pub prefix: PathBuf,
    /// Bytes that a compressed archive may unpack to: it is unpacked in memory.
    pub max_unpacked_len: u64,
    /// Reads all contents into memory, however large: no request then waits for a disk.
    pub preload: bool,
    /// How `_headers` and `_redirects` at the root of the site are read. A packed site is as it was packed.
    pub dialect: Dialect,
    /// How the site answers. A packed site answers as it was packed.
    pub policy: Policy,
    /// Directories of users that are served too, beside a directory.
    pub users: UserDirectories,
}

impl Default for SiteSource {
    /// Nothing yet, read as usual: [`MAX_UNPACKED_LEN`] is what an archive may unpack to.
    fn default() -> SiteSource {
        SiteSource {
            path: PathBuf::new(),
            prefix: PathBuf::new(),
            max_unpacked_len: MAX_UNPACKED_LEN,
            preload: false,
            dialect: Dialect::default(),
            policy: Policy::default(),
            users: UserDirectories::default(),
        }
    }
}

/// Bytes that a compressed archive may unpack to by default: more than most sites have, and memory that a small host has. A compressed
/// file of a thousandth of that length can reach it, so without a limit a small file could take all memory.
pub const MAX_UNPACKED_LEN: u64 = 1 << 30;

/// Directories of users beside a site.
#[derive(Clone, Debug, Default)]
pub struct UserDirectories {
    /// The directories; those that are not there yet are looked for.
    pub directories: Vec<UserDirectory>,
    /// A file that changes when there are other users.
    pub user_database: Option<PathBuf>,
}

/// Which users are to have them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserConfig {
    /// The directory, from the home of each user. `None`: there are none.
    pub dir: Option<PathBuf>,
    /// These users alone; empty: all but those of the system.
    pub only: Vec<String>,
    /// Not these.
    pub except: Vec<String>,
}
