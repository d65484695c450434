//! The configuration of a site: its source, hosts, limits and user directories.

use super::{
    address::ListenAddress, cgi_config::SiteCgi, client_limits::PathLimit, log_config::SiteLogConfig,
    settings::SiteLimits, tls_config::CertificateFiles, upstream_config::SiteProxy,
};
use std::path::PathBuf;
use tarpon_conn::{HostName, PathPrefix};
use tarpon_pack::{BackgroundCompression, Dialect, Policy, ProgramFiles, UserDirectory};

/// The configuration of one site.
#[derive(Clone, Debug, Default)]
pub struct SiteConfig {
    /// The directory or archive to serve. Default: that of [`SiteSource`], without a path.
    pub source: SiteSource,
    /// The hosts that the site answers for. The first one that is not a wildcard is its canonical host. Default: none.
    pub hosts: Vec<HostName>,
    /// The names of a certificate that is obtained by ACME. They belong to the hosts, too. Empty: none is. Default: none.
    pub domains: Vec<HostName>,
    /// Hosts that redirect to the canonical host. Default: none.
    pub redirect_hosts: Vec<HostName>,
    /// The path that the site is mounted at: requests below it at these hosts, or at every host if there are none, are for this site.
    /// Default: `None`.
    pub mount: Option<PathPrefix>,
    /// The only listeners that the site answers at. Empty: those that no site names. Default: none.
    pub listen: Vec<ListenAddress>,
    /// Those of `listen` that have TLS. Default: none.
    pub tls_listen: Vec<ListenAddress>,
    /// Certificates besides those of the server. Default: none.
    pub certificates: Vec<CertificateFiles>,
    /// Whether the site answers requests for hosts that belong to no site. Default: `false`.
    pub is_default: bool,
    /// Whether requests without TLS are redirected to https. Default: `None`.
    pub redirects_to_https: Option<bool>,
    /// The port of the redirects: that of a listener with TLS. Default: 0, to be set with the redirects.
    pub https_port: u16,
    /// Limits that override those of the server. Default: those of the server.
    pub limits: SiteLimits,
    /// Limits of clients for its paths. Default: none.
    pub path_limits: Vec<PathLimit>,
    /// How many earlier versions of the site to keep. Default: 0.
    pub keep_releases: usize,
    /// Which users have directories below the site. Default: no user.
    pub users: UserConfig,
    /// Its CGI programs. Default: none.
    pub cgi: SiteCgi,
    /// The paths that upstream servers answer. Default: none.
    pub proxies: Vec<SiteProxy>,
    /// Log settings that override those of the server. Default: those of the server.
    pub log: SiteLogConfig,
}

impl SiteConfig {
    /// Returns the hosts whose certificates come from files: all but the names of a certificate that is obtained.
    pub(crate) fn hosts_of_files(&self) -> impl Iterator<Item = &HostName> {
        let hosts = self.hosts.iter().chain(&self.redirect_hosts);
        hosts.filter(|host| !self.domains.contains(host))
    }

    /// Adds the path of the mount to what precedes the paths of redirects and listings.
    pub fn add_mount_to_base(&mut self) {
        if let Some(mount) = &self.mount {
            self.source.policy.base.push_str(mount.as_str());
        }
    }
}

/// The directory or archive that a site is built from, and how to read it.
#[derive(Clone, Debug)]
pub struct SiteSource {
    /// A directory, or a tar archive. Default: empty.
    pub path: PathBuf,
    /// The directory within an archive to serve. Empty: the whole archive. Default: empty.
    pub prefix: PathBuf,
    /// Maximum size in bytes of a compressed archive once unpacked into memory. Default: [`MAX_UNPACKED_LEN`].
    pub max_unpacked_len: u64,
    /// Reads all files into memory, whatever their size, so that no request waits for a disk. Default: `false`.
    pub preload: bool,
    /// Whether a file or directory that cannot be read refuses the whole site. Otherwise it answers 403. A packed site ignores it.
    /// Default: `false`.
    pub is_strict: bool,
    /// How a watcher compresses the contents of a directory or tar archive while it is served. `None`: it does not. A packed site ignores it,
    /// and so does a build without the feature `pack`. Default: `None`.
    pub compression: Option<BackgroundCompression>,
    /// The dialect of `_headers` and `_redirects` at the root of the site. A packed site ignores it. Default: that of Netlify.
    pub dialect: Dialect,
    /// How paths map to responses. A packed site has its policy built in and accepts only the default here. Default: that of [`Policy`].
    pub policy: Policy,
    /// The directories that symbolic links in the site may lead into, besides the site. Only a site that is a directory can have them.
    /// Each of them and its path must belong to root or to the user that started the program, and no other user may change them. Default: none.
    pub follow_links: Vec<PathBuf>,
    /// Files that are programs, which the site does not have. Default: none.
    pub programs: ProgramFiles,
    /// Directories of users to serve below `/~name/`. Only a site that is a directory can have them. Default: none.
    pub users: UserDirectories,
}

impl Default for SiteSource {
    /// Returns a source without a path, with default settings.
    fn default() -> SiteSource {
        SiteSource {
            path: PathBuf::new(),
            prefix: PathBuf::new(),
            max_unpacked_len: MAX_UNPACKED_LEN,
            preload: false,
            is_strict: false,
            compression: None,
            dialect: Dialect::default(),
            policy: Policy::default(),
            follow_links: Vec::new(),
            programs: ProgramFiles::default(),
            users: UserDirectories::default(),
        }
    }
}

/// Default maximum size of an unpacked archive, in bytes: more than most sites need, and within the memory of a small host. A compressed
/// file can be a thousand times smaller than its content, so without a limit a small file could fill the memory.
pub const MAX_UNPACKED_LEN: u64 = 1 << 30;

/// The directories of users of a site, as the site builder reads and watches them.
#[derive(Clone, Debug, Default)]
pub struct UserDirectories {
    /// The directories. The watcher polls for those that do not exist yet. Default: none.
    pub directories: Vec<UserDirectory>,
    /// The file that changes when a user is added or removed, such as `/etc/passwd`. Default: `None`.
    pub user_database: Option<PathBuf>,
}

/// Which users have directories below a site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserConfig {
    /// The path of the directory relative to the home of each user. `None`: no user has one. Default: `None`.
    pub dir: Option<PathBuf>,
    /// Only these users. Empty: all users except system accounts. Default: empty.
    pub only: Vec<String>,
    /// Users to leave out. Default: none.
    pub except: Vec<String>,
}
