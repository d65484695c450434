//! `tarpon serve`: serves sites until a signal stops the server.

use super::{CommandResult, flags, local_file, read};
use crate::program::output::events;
use crate::{
    Address, ListenAddress, Listener, Service, ServiceTls, TlsPolicy, UserError,
    config::{
        AdminAt, CommandKind, Config, DOMAIN_LISTENERS, ListenerConfig, ServerConfig, SiteConfig,
        cleartext_warning,
    },
    default_admin_address,
    sys::inject,
};
use clap::{ArgMatches, Command};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::{error::Error, sync::Once};

pub(super) fn command() -> Command {
    Command::new("serve")
        .about("Serve a directory or a tar archive")
        .long_about(
            "Serve a directory or a tar archive\n\nThe server reads the whole directory into one image before the first \
             request, and again after each change. It serves regular files only: no dotfiles (except .well-known), no special \
             files, and symbolic links that leave the directory only with --follow-links. Of an archive it reads only the headers; it sends contents \
             directly from the archive.",
        )
        .arg(read::config_arg())
        .args(flags::args(CommandKind::Serve))
        .after_help(
            "Options of the command line win over those of the configuration file. --NAME switches an option on that the file \
             switches off; --no-NAME switches it off.",
        )
}

pub(super) fn run(matches: &ArgMatches) -> CommandResult {
    serve(&|| {
        let mut resolved = read::resolve(matches)?;
        read::check_exposed(&resolved)?;
        let warnings = read::load_files(&mut resolved)?;
        if read::is_local_file(matches, &resolved) {
            events::init(resolved.config.log.events);
            LOCAL_FILE.call_once(|| events::configuration(local_file::NAME));
        }
        Ok((resolved.config, warnings))
    })
}

/// Names `./tarpon.toml` at the start, not at each reload.
static LOCAL_FILE: Once = Once::new();

/// Serves a configuration; `read` reads it, with warnings, at the start and at each reload.
pub(super) fn serve(read: &dyn Fn() -> Result<(Config, Vec<UserError>), Box<dyn Error>>) -> CommandResult {
    inject::init()?;
    raise_limits();
    let read = || {
        let (config, warnings) = read()?;
        // Only the first call has an effect: a reload does not change the format of events.
        events::init(config.log.events);
        let service = service(config);
        for warning in warnings.into_iter().chain(cleartext_warning(&service)) {
            tracing::warn!("{warning}");
        }
        Ok(service)
    };
    crate::supervise(&read, events::notice)
}

/// Returns what a configuration serves.
pub(super) fn service(config: Config) -> Service {
    let unknown_host = config.unknown_host();
    let Config { mut sites, mut listeners, upstreams, server, log, .. } = config;
    if listeners.is_empty() && sites.iter().any(|site| !site.domains.is_empty()) {
        listeners = DOMAIN_LISTENERS.iter().flat_map(|at| at.parse().map(ListenerConfig::at)).collect();
    }
    let tls = tls(&sites, &listeners, &server);
    set_https_ports(&mut sites, &listeners);
    let ServerConfig { settings, grace_period, user, sandbox, admin, admin_access, cgi, acme, .. } = server;
    let proxied = listeners.iter().filter(|listener| listener.proxy_protocol);
    let proxy_protocol = proxied.flat_map(|listener| Listener::addresses(&listener.address)).collect();
    let socket_access = listeners.iter().filter_map(|listener| match &listener.address {
        ListenAddress::One(Address::Unix(path)) => Some((path.clone(), listener.access.clone())),
        _ => None,
    });
    let socket_access = socket_access.collect();
    let options_of = |listener: &ListenerConfig| {
        let options = listener.options.clone();
        Listener::addresses(&listener.address).into_iter().map(move |address| (address, options.clone()))
    };
    let listener_options = listeners.iter().flat_map(options_of).collect();
    let addresses = listeners.iter().flat_map(|listener| Listener::addresses(&listener.address)).collect();
    let admin_is_default = admin == AdminAt::Default;
    let admin = match admin {
        AdminAt::Default => default_admin_address(),
        AdminAt::At(address) => Some(address),
        AdminAt::Off => None,
    };
    Service {
        settings,
        addresses,
        socket_access,
        proxy_protocol,
        listener_options,
        tls,
        acme,
        cgi,
        upstreams,
        sites,
        unknown_host,
        grace_period,
        log,
        user,
        sandbox,
        admin,
        admin_is_default,
        admin_access,
    }
}

/// Returns the listeners with TLS and their certificates. A listener that only a site names has the default policy.
fn tls(sites: &[SiteConfig], listeners: &[ListenerConfig], server: &ServerConfig) -> ServiceTls {
    let configured = listeners.iter().filter(|listener| listener.has_tls);
    let configured = configured.map(|listener| (&listener.address, listener.tls.clone()));
    let named = sites.iter().flat_map(|site| &site.tls_listen).map(|address| (address, TlsPolicy::default()));
    let mut all: Vec<(Address, TlsPolicy)> = Vec::new();
    for (address, policy) in configured.chain(named) {
        for address in Listener::addresses(address) {
            if !all.iter().any(|(known, _)| *known == address) {
                all.push((address, policy.clone()));
            }
        }
    }
    let (certificates, is_self_signed) = (server.certificates.clone(), server.is_self_signed);
    ServiceTls { listeners: all, certificates, is_self_signed }
}

/// Sets the port that each site redirects to: that of its first listener with TLS.
fn set_https_ports(sites: &mut [SiteConfig], listeners: &[ListenerConfig]) {
    let shared: Vec<_> = listeners.iter().filter(|listener| listener.has_tls).map(|at| &at.address).collect();
    for site in sites {
        let own = site.tls_listen.iter().collect();
        let listeners = if site.listen.is_empty() { shared.clone() } else { own };
        // A site with a certificate from ACME is for HTTPS, unless its configuration says otherwise.
        site.redirects_to_https.get_or_insert(!site.domains.is_empty() && !listeners.is_empty());
        site.https_port = listeners.into_iter().find_map(ListenAddress::port).unwrap_or(HTTPS_PORT);
    }
}

/// The port of https URIs without one. RFC 9110, section 4.2.2.
const HTTPS_PORT: u16 = 443;

/// Raises the limits of open files and of locked memory. Each client and each large file needs a descriptor. The kernel counts the
/// rings of io_uring as locked memory, for all processes of a user together; only root may remove that limit.
pub(super) fn raise_limits() {
    let unlimited = Rlimit { current: None, maximum: None };
    let is_unlimited = setrlimit(Resource::Memlock, unlimited).is_ok();
    let limits = if is_unlimited { &[Resource::Nofile][..] } else { &[Resource::Nofile, Resource::Memlock] };
    for &resource in limits {
        let Rlimit { maximum, .. } = getrlimit(resource);
        // A process may raise its limit up to the maximum. If the call fails, the server serves fewer clients at once.
        let _ = setrlimit(resource, Rlimit { current: maximum, maximum });
    }
}
