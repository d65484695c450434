//! Prepares a generation: reads the configuration, binds what is new, opens the logs.

use super::{
    super::{
        Service,
        event::GenerationId,
        generation::{GenerationPlan, SitePlan},
    },
    Driver,
    logs::OpenLog,
    unix_s,
};
use crate::{
    base::{
        address::Address,
        engine::Engine,
        error::{UserError, reason},
        site_config::SiteSource,
    },
    control::{
        acme::driver::{AcmeDriver, AcmeService},
        cgi::{
            service::{CgiService, program_user},
            stats::CgiStats,
        },
        helpers::HelperKind,
        process::in_child::in_child,
        sandbox::Privileges,
        site_states::{SiteStates, path_text},
        tls::{
            service::{PreparedTls, TlsWarning},
            tickets::{TicketKeys, TicketSecret},
        },
        upstreams::service::UpstreamService,
    },
    sys::process::{SingleThreaded, hide_memory},
};
use std::{error::Error, sync::Arc};
use tarpon_site::Printable;

/// A configuration, and what was opened for it.
pub(super) struct PreparedGeneration {
    pub(super) service: Service,
    pub(super) privileges: Privileges,
    pub(super) logs: Vec<OpenLog>,
    pub(super) tls: PreparedTls,
    /// The certificates that it obtains.
    pub(super) acme: Option<AcmeService>,
    /// Its CGI programs.
    pub(super) cgi: Option<CgiService>,
    /// Its upstreams.
    pub(super) upstreams: Option<UpstreamService>,
    /// What the builder knows of its sites.
    pub(super) states: Arc<SiteStates>,
    /// The addresses that only this generation uses, until it serves.
    pub(super) added: Vec<Address>,
}

impl Driver<'_> {
    /// Prepares a generation, and returns what the supervisor needs to know of it. On failure nothing has changed.
    pub(super) fn prepare(&mut self, id: GenerationId) -> Result<GenerationPlan, Box<dyn Error>> {
        let mut service = (self.read)()?;
        self.listeners.complete(&mut service);
        self.check_engine(&service)?;
        let is_first = self.generations.is_empty() && self.predecessor.is_none();
        if is_first {
            self.listeners.check_lent(&service)?;
        }
        // Before the first private key is read.
        let obtains_certificates = service.sites.iter().any(|site| !site.domains.is_empty());
        if obtains_certificates || !service.tls.listeners.is_empty() {
            hide_memory()?;
        }
        // First of all, so that a port in use is reported at once, not after a long read.
        let added = self.listeners.add(&service)?;
        let opened = OpenLog::open_all(&service.log, &service.sites).and_then(|logs| {
            let acme = self.prepare_acme(&service)?;
            let privileges = self.privileges(&service)?;
            let cgi = self.prepare_cgi(&service, &privileges)?;
            let upstreams = UpstreamService::new(&service.upstreams, &service.sites)?;
            let states = self.site_states(&service)?;
            Ok((logs, privileges, self.tls(&service, acme.is_some())?, acme, cgi, upstreams, states))
        });
        let (logs, privileges, tls, acme, cgi, upstreams, states) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                self.listeners.remove(&added);
                return Err(error.into());
            }
        };
        service.settings.logging = service.log.access.is_some().then_some(service.log.logging);
        let site = |site: &crate::base::site_config::SiteConfig| SitePlan {
            source: source_key(&site.source),
            label: site.source.path.printable().to_string(),
            kept_max: site.keep_releases,
        };
        let plan = GenerationPlan {
            grace: service.grace_period,
            engine: service.settings.engine,
            sites: service.sites.iter().map(site).collect(),
            logs: logs.iter().map(OpenLog::plan).collect(),
            helpers: (acme.iter().map(|_| HelperKind::Net))
                .chain(cgi.iter().map(|_| HelperKind::Cgi))
                .chain(upstreams.iter().map(|_| HelperKind::Upstreams))
                .collect(),
            has_certificates: tls.has_files(),
        };
        let prepared =
            PreparedGeneration { service, privileges, logs, tls, acme, cgi, upstreams, states, added };
        self.generations.insert(id, prepared);
        Ok(plan)
    }

    /// Reads the certificates of a service. A certificate that this program has made stays, unless the hosts have changed.
    fn tls(&self, service: &Service, obtains_certificates: bool) -> Result<PreparedTls, UserError> {
        let former = self.generations.values().rev().find_map(|known| known.tls.self_signed.as_ref());
        if service.tls.listeners.is_empty() {
            return Ok(PreparedTls::default());
        }
        let Service { tls, sites, unknown_host, .. } = service;
        let keys = self.ticket_keys.get_or_init(|| TicketKeys::new(TicketSecret::random()));
        let now = i64::try_from(unix_s()).unwrap_or(i64::MAX);
        let brought = self.acme.as_ref().filter(|_| obtains_certificates).map(AcmeDriver::table);
        let prepared = PreparedTls::new(tls, sites, *unknown_host, keys, brought, former, now)?;
        for TlsWarning { error, .. } in &prepared.warnings {
            tracing::warn!("{error}");
        }
        Ok(prepared)
    }

    /// Returns the privileges of a service. If the server that serves has the same user, this does not ask the user database again: a
    /// database in a network may not answer, and the supervisor must not wait for it.
    fn privileges(&self, service: &Service) -> Result<Privileges, UserError> {
        let is_same = |known: &&PreparedGeneration| known.service.user == service.user;
        match self.generations.values().find(is_same) {
            Some(known) => Ok(Privileges { is_sandboxed: service.sandbox, ..known.privileges.clone() }),
            None => {
                let look_up = || Privileges::new(service.user.as_deref(), service.sandbox);
                let single_threaded = SingleThreaded::new();
                // Without a child, this process has to look the user up itself.
                single_threaded.and_then(|single| in_child(&single, look_up)).unwrap_or_else(|_| look_up())
            }
        }
    }

    /// Returns the states of the sites of a service. Those that an earlier generation serves begin with what is known of them.
    fn site_states(&self, service: &Service) -> Result<Arc<SiteStates>, UserError> {
        let states = SiteStates::new(service.sites.len()).map_err(|error| {
            UserError::new(
                "cannot keep the states of the sites",
                reason(&error),
                "the system is out of memory",
            )
        })?;
        if let Some(earlier) = self.generations.values().next_back() {
            states.inherit(&earlier.states, |number| path_text(&service.sites[number].source.path));
        }
        Ok(Arc::new(states))
    }

    /// Prepares the CGI programs of a service.
    fn prepare_cgi(
        &mut self,
        service: &Service,
        privileges: &Privileges,
    ) -> Result<Option<CgiService>, UserError> {
        // As for the privileges of the server.
        let look_up = || program_user(&service.cgi, privileges);
        let user = || {
            SingleThreaded::new().and_then(|single| in_child(&single, look_up)).unwrap_or_else(|_| look_up())
        };
        let Some(cgi) = CgiService::new(&service.cgi, &service.sites, privileges, user)? else {
            return Ok(None);
        };
        if self.cgi_stats.is_none() {
            let stats = CgiStats::new().map_err(|error| {
                UserError::new("cannot run CGI programs", reason(&error), "the system is out of memory")
            })?;
            self.cgi_stats = Some(Arc::new(stats));
        }
        Ok(Some(cgi))
    }

    /// Checks that the configured engine can use the sockets of the server that serves: one engine would block on them where another must
    /// not.
    fn check_engine(&self, service: &Service) -> Result<(), &'static str> {
        let configured = service.settings.engine;
        let fits = match (self.generations.values().next(), self.machine.inherited_engine()) {
            (Some(serving), _) => serving.service.settings.engine == configured,
            (None, Some(engine)) => {
                engine == configured || configured == Engine::Auto && engine.may_be_auto()
            }
            (None, None) => true,
        };
        match fits {
            true => Ok(()),
            false => Err("a change of the engine needs a restart; see tarpon serve --engine"),
        }
    }
}

/// Returns what tells the source of a site from others: its path and its prefix, without loss.
pub(super) fn source_key(source: &SiteSource) -> String {
    let escaped = |path: &std::path::Path| path.as_os_str().as_encoded_bytes().escape_ascii().to_string();
    // A version that has the source of a program must not serve a configuration with the program.
    let programs = &source.programs;
    format!("{}\n{}\n{}\n{programs:?}", escaped(&source.path), escaped(&source.prefix), source.policy.base)
}
