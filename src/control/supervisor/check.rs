//! Checks a service without starting it: whatever the start would refuse, all at once.
//!
//! ```text
//! listeners, logs, certificates, CGI programs, upstreams ─▶ this process, as the supervisor
//! user of the server, sites ──────────────────────────────▶ a child, as the site builder
//! ```
//!
//! It runs the code of the start, and changes nothing: it creates no file, and binds a port for a moment only.

use super::{
    Service,
    driver::{acme_sets, complete_addresses, log_targets},
};
use crate::{
    base::{
        address::Address,
        error::{UserError, reason},
        log_config::LogOwner,
    },
    control::{
        acme::driver::AcmeService,
        builder_process,
        cgi::service::{CgiService, program_user},
        listeners::Listener,
        process::in_child::in_child,
        sandbox::Privileges,
        socket_permissions::SocketPermissions,
        tls::{
            service::PreparedTls,
            tickets::{TicketKeys, TicketSecret},
        },
        upstreams::service::{UpstreamError, UpstreamService},
    },
    data::acme_table::AcmeTable,
    sys::process::SingleThreaded,
};
use std::{io, sync::Arc};

/// Why a service would not start.
#[derive(Debug)]
pub(crate) struct StartError {
    pub(crate) part: ServicePart,
    /// It may name the option that it is about.
    pub(crate) error: UserError,
}

/// The part of a service that an error is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServicePart {
    /// The server as a whole: its user, its sandbox.
    Server,
    /// The listener at this address.
    Listener(Address),
    /// The listener for administrators.
    Admin,
    /// A log.
    Log(LogOwner),
    /// The site with this number.
    Site(usize),
    /// The CGI programs of the site with this number.
    Cgi(usize),
    /// The upstream with this name. `None`: all of them.
    Upstream(Option<String>),
    /// The listeners with TLS.
    Tls,
}

/// Returns why a service would not start: nothing if it would. The caller has read its certificates already. Sets the addresses that the
/// service has by default.
pub(crate) fn start_errors(service: &mut Service, unix_s: i64) -> Vec<StartError> {
    complete_addresses(service);
    let mut errors = StartErrors::default();
    check_listeners(service, &mut errors);
    for (owner, target) in log_targets(&service.log, &service.sites) {
        errors.add(ServicePart::Log(owner), target.check());
    }
    let (sets, state) = acme_sets(service);
    let of_acme = AcmeService::errors(&service.acme, &sets, &state);
    of_acme.into_iter().for_each(|error| errors.add(ServicePart::Server, Err::<(), _>(error)));
    let of_upstreams = UpstreamService::checked(&service.upstreams, &service.sites).err().unwrap_or_default();
    for UpstreamError { upstream, error } in of_upstreams {
        errors.add(ServicePart::Upstream(upstream), Err::<(), _>(error));
    }
    errors.add(ServicePart::Tls, prepare_tls(service, !sets.is_empty(), unix_s));
    let privileges = look_up(|| Privileges::new(service.user.as_deref(), service.sandbox));
    let privileges = privileges.or_else(|error| {
        errors.add(ServicePart::Server, Err::<(), _>(error.about("user")));
        // Other errors of the sites are found without that user, too.
        look_up(|| Privileges::new(None, service.sandbox))
    });
    if let Ok(privileges) = privileges {
        check_sites(service, &privileges, &mut errors);
    }
    errors.0
}

#[derive(Default)]
struct StartErrors(Vec<StartError>);

impl StartErrors {
    /// Adds the errors of a result.
    fn add<T>(&mut self, part: ServicePart, result: Result<T, UserError>) {
        let errors = result.err().map(UserError::split).unwrap_or_default();
        self.0.extend(errors.into_iter().map(|error| StartError { part: part.clone(), error }));
    }
}

fn check_listeners(service: &Service, errors: &mut StartErrors) {
    for address in service.addresses.iter().filter(|address| service.admin.as_ref() != Some(address)) {
        let part = || ServicePart::Listener(address.clone());
        let permissions = SocketPermissions::new(&service.socket_access(address)).unwrap_or_else(|error| {
            errors.add(part(), Err::<(), _>(error));
            SocketPermissions::of_process(service.socket_access(address).mode)
        });
        errors.add(part(), Listener::check(address, &permissions, false));
    }
    // Without the default address the server starts without the listener.
    if let Some(address) = service.admin.as_ref().filter(|_| !service.admin_is_default) {
        let permissions = SocketPermissions::of_process(service.admin_access.mode);
        errors.add(ServicePart::Admin, Listener::check(address, &permissions, true));
    }
}

fn prepare_tls(service: &Service, obtains_certificates: bool, unix_s: i64) -> Result<(), UserError> {
    let Service { tls, sites, unknown_host, .. } = service;
    let no_memory = |error: io::Error| {
        UserError::new("cannot share certificates", reason(&error), "the system is out of memory")
    };
    let brought = obtains_certificates.then(AcmeTable::new).transpose().map_err(no_memory)?.map(Arc::new);
    let keys = TicketKeys::new(TicketSecret::random());
    PreparedTls::new(tls, sites, *unknown_host, &keys, brought.as_ref(), None, unix_s).map(drop)
}

fn check_sites(service: &Service, privileges: &Privileges, errors: &mut StartErrors) {
    let user = || look_up(|| program_user(&service.cgi, privileges));
    for (site, error) in CgiService::errors(&service.cgi, &service.sites, privileges, user) {
        errors.add(site.map_or(ServicePart::Server, ServicePart::Cgi), Err::<(), _>(error));
    }
    // The child becomes the user of the server for good.
    let checked = SingleThreaded::new().and_then(|single_threaded| {
        in_child(&single_threaded, || builder_process::check_sites(&service.sites, privileges))
    });
    let checked = checked.unwrap_or_else(|error| {
        let hint = "try again; if it ends again, look at the log of the kernel";
        Err(UserError::new("cannot check the sites in a process of their own", reason(&error), hint))
    });
    match checked {
        Ok(found) => found
            .into_iter()
            .for_each(|(site, error)| errors.add(ServicePart::Site(site), Err::<(), _>(error))),
        Err(error) => errors.add(ServicePart::Server, Err::<(), _>(error)),
    }
}

/// Looks a user up in a child, as the start does.
pub(crate) fn look_up(compute: impl Fn() -> Result<Privileges, UserError>) -> Result<Privileges, UserError> {
    SingleThreaded::new().and_then(|single| in_child(&single, &compute)).unwrap_or_else(|_| compute())
}
