//! What a configuration needs for its programs: the mounts, and both ends of the channel between workers and helper.

use super::{connector::CgiConnector, resolve::Distrust};
use crate::{
    base::{
        cgi_config::CgiConfig,
        error::{UserError, reason},
        site_config::SiteConfig,
    },
    control::sandbox::Privileges,
    data::{
        services::{HelperEndpoint, ServiceEndpoint, endpoints},
        worker::Backends,
    },
    sys::user::User,
};
use rustix::fs::{AtFlags, CWD, FileType, statat};
use std::{path::PathBuf, sync::Arc, time::Duration};
use tarpon_conn::{BackendLimits, BackendRoute, HostName, SiteId};
use tarpon_site::Printable;

/// The programs of a configuration.
#[derive(Debug)]
pub(crate) struct CgiService {
    pub(crate) config: CgiConfig,
    pub(crate) mounts: Vec<CgiMount>,
    /// The user that the programs run as. Its `user` is `None` if that is the user that started the server.
    pub(crate) privileges: Privileges,
    pub(crate) distrust: Distrust,
    pub(crate) workers: ServiceEndpoint,
    pub(crate) helper: HelperEndpoint,
}

/// A place of programs. Workers name it by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CgiMount {
    /// The number of the site.
    pub(crate) site: usize,
    pub(crate) kind: CgiMountKind,
    /// What precedes the paths of programs in a normalized path, without a slash at its end.
    pub(crate) url_prefix: String,
    /// The directory of the programs.
    pub(crate) directory: PathBuf,
    /// The directory of the site.
    pub(crate) document_root: PathBuf,
    /// The name of the server for requests that name no host.
    pub(crate) server_name: String,
}

/// Which files of a mount are programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CgiMountKind {
    /// All, at the paths below this one of the site.
    Directory(tarpon_conn::PathPrefix),
    /// Those whose names end so.
    Suffix(String),
}

/// The part of a server: which paths lead to programs, and how workers reach the helper.
#[derive(Clone, Debug)]
pub(crate) struct CgiBackends {
    pub(crate) workers: ServiceEndpoint,
    mounts: Arc<[CgiMount]>,
    limits: BackendLimits,
}

/// How much longer a worker waits than the helper, which knows more about what happens.
const WORKER_MARGIN: Duration = Duration::from_secs(10);

/// How long an idle connection to the helper stays: the next request saves a socket pair.
const IDLE_TIME: Duration = Duration::from_secs(4);

impl CgiService {
    /// Returns the programs of these sites. `None`: there are none. `server`: the user of the server. `user`: looks that of the programs up.
    ///
    /// # Errors
    /// The user or a directory cannot be used.
    pub(crate) fn new(
        config: &CgiConfig,
        sites: &[SiteConfig],
        server: &Privileges,
        user: impl FnOnce() -> Result<Privileges, UserError>,
    ) -> Result<Option<CgiService>, UserError> {
        let mounts = mounts(sites);
        if mounts.is_empty() {
            return Ok(None);
        }
        if !cfg!(target_os = "linux") {
            return Err(UserError::new(
                "cannot run CGI programs",
                "this system is not supported for them",
                "remove cgi and cgi-suffix, or use Linux",
            ));
        }
        let privileges = user()?;
        let distrust = distrust(server);
        mounts.iter().try_for_each(|mount| check(mount, &distrust))?;
        let (workers, helper) = endpoints().map_err(|error| {
            UserError::new(
                "cannot run CGI programs",
                reason(&error.into()),
                "the system is short of descriptors or memory",
            )
        })?;
        Ok(Some(CgiService { config: config.clone(), mounts, privileges, distrust, workers, helper }))
    }

    /// Returns each error of [`new`](CgiService::new), with the number of its site; without one for the user.
    pub(crate) fn errors(
        config: &CgiConfig,
        sites: &[SiteConfig],
        server: &Privileges,
        user: impl FnOnce() -> Result<Privileges, UserError>,
    ) -> Vec<(Option<usize>, UserError)> {
        let (mounts, distrust) = (mounts(sites), distrust(server));
        let of_mount = |mount: &CgiMount| Some((Some(mount.site), check(mount, &distrust).err()?));
        let of_mounts: Vec<_> = mounts.iter().filter_map(of_mount).collect();
        match of_mounts.is_empty() {
            false => {
                let user = user().err().filter(|_| !mounts.is_empty());
                user.map(|error| (None, error)).into_iter().chain(of_mounts).collect()
            }
            true => CgiService::new(config, sites, server, user)
                .err()
                .map(|error| (None, error))
                .into_iter()
                .collect(),
        }
    }

    /// Returns the part of the server.
    pub(crate) fn backends(&self) -> CgiBackends {
        let CgiConfig { timeout, max_body, .. } = self.config;
        // A request may wait for a free place, and then for its program.
        let response_ms = (2 * timeout + WORKER_MARGIN).as_millis() as u64;
        CgiBackends {
            workers: self.workers.clone(),
            mounts: self.mounts.clone().into(),
            limits: BackendLimits {
                content_len_max: max_body,
                first_byte_ms: response_ms,
                response_ms,
                idle_ms: IDLE_TIME.as_millis() as u64,
                ..BackendLimits::default()
            },
        }
    }
}

impl CgiBackends {
    /// Adds connectors and routes to those of a server.
    ///
    /// # Errors
    /// There are too many mounts.
    pub(crate) fn add_to(&self, backends: &mut Backends) -> Result<(), UserError> {
        for (number, mount) in self.mounts.iter().enumerate() {
            let connector = Arc::new(CgiConnector::new(self.workers.clone(), number));
            let route = BackendRoute { backend: backends.add(connector)?, limits: self.limits };
            let of_site = backends.of_site(SiteId::new(mount.site));
            match &mount.kind {
                CgiMountKind::Directory(prefix) => of_site.prefixes.push((prefix.clone(), route)),
                CgiMountKind::Suffix(suffix) => of_site.suffixes.push((suffix.as_str().into(), route)),
            }
        }
        Ok(())
    }
}

/// Returns the mounts of all sites.
fn mounts(sites: &[SiteConfig]) -> Vec<CgiMount> {
    let of_site = |(number, site): (usize, &SiteConfig)| {
        let base = site.mount.as_ref().map_or("", |mount| mount.as_str()).to_owned();
        let named = site.hosts.iter().find(|name| !name.is_wildcard()).map(HostName::to_string);
        let server_name = named.unwrap_or_else(|| "localhost".to_owned());
        let root = absolute(&site.source.path);
        let mount = |kind, url_prefix, directory: PathBuf| CgiMount {
            site: number,
            kind,
            url_prefix,
            directory: absolute(&directory),
            document_root: root.clone(),
            server_name: server_name.clone(),
        };
        let directories = site.cgi.directories.iter().map(|(prefix, directory)| {
            let url_prefix = base.clone() + prefix.as_str();
            mount(CgiMountKind::Directory(prefix.clone()), url_prefix, directory.clone())
        });
        let suffix = site.cgi.suffix.as_ref().map(|suffix| {
            mount(CgiMountKind::Suffix(suffix.clone()), base.clone(), site.source.path.clone())
        });
        directories.chain(suffix).collect::<Vec<_>>()
    };
    sites.iter().enumerate().flat_map(of_site).collect()
}

/// Returns an absolute path: the helper may run elsewhere.
fn absolute(path: &std::path::Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Looks up the user that programs run as. `server`: the user of the server.
///
/// # Errors
/// The user does not exist, may not run programs, or this process may not become that user.
pub(crate) fn program_user(config: &CgiConfig, server: &Privileges) -> Result<Privileges, UserError> {
    const HINT: &str =
        "create a user for them, as with useradd --system cgi, and set cgi-user = \"cgi\" in [server]";
    let is_root = rustix::process::geteuid().is_root();
    let refused = |name: &str, why: &str| {
        UserError::new(format_args!("cannot run CGI programs as {}", name.printable()), why, HINT)
            .about("cgi-user")
    };
    let Some(name) = config.user.as_deref() else {
        return match is_root {
            true => Err(refused("root", "no user is set for them")),
            false => Ok(server.clone()),
        };
    };
    let user = User::named(name).map_err(|error| refused(name, &reason(&error)))?;
    let user = user.ok_or_else(|| refused(name, "the user does not exist"))?;
    if !is_root {
        return match User::current() {
            Ok(Some(current)) if current == user => Ok(server.clone()),
            _ => Err(refused(name, "only root can become another user")),
        };
    }
    if user.is_root() {
        return Err(refused(name, "they must not run as root"));
    }
    if server.user.as_ref().is_some_and(|of_server| of_server.uid() == user.uid()) {
        return Err(refused(name, "that is the user of the server, whose processes they could disturb"));
    }
    let groups = user.groups().map_err(|error| refused(name, &reason(&error)))?;
    Ok(Privileges { user: Some(user), groups, is_sandboxed: server.is_sandboxed })
}

/// Returns which users must not be able to change programs. `server`: the user of the server.
fn distrust(server: &Privileges) -> Distrust {
    let of_server = server.user.as_ref().filter(|user| !user.is_root());
    Distrust { server: of_server.map(|user| (user.uid(), server.groups.clone())) }
}

/// Checks the directory of a mount.
fn check(mount: &CgiMount, distrust: &Distrust) -> Result<(), UserError> {
    let what = format!("cannot run CGI programs in {}", mount.directory.printable());
    let stat = statat(CWD, &mount.directory, AtFlags::empty()).map_err(|error| {
        UserError::new(&what, reason(&error.into()), "create the directory, or correct its name")
    })?;
    if !FileType::from_raw_mode(stat.st_mode).is_dir() {
        return Err(UserError::new(&what, "it is no directory", "name the directory of the programs"));
    }
    if distrust.is_untrusted(&stat) {
        return Err(UserError::new(
            &what,
            "the user of the server or every user may change it",
            "give it to root and take that right away, as with chown root and chmod go-w",
        ));
    }
    Ok(())
}
