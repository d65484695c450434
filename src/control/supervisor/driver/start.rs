//! Starts processes: forks the builder and the server of a generation, or starts a successor.

use super::{
    super::event::{BuilderStart, GenerationId, ProcessStart},
    Driver,
    prepare::source_key,
};
use crate::{
    base::{engine::Engine, error::reason, settings::Settings, site_config::SiteConfig},
    control::{
        acme::net::{self, NetStart},
        builder_process::{self, BuilderProcessStart},
        cgi::{self, CgiStart, service::CgiService},
        handover::successor,
        helpers::HelperKind,
        process::{
            ProcessId,
            channel::{Channel, unshared},
            fork::fork,
            message::{InheritedSite, ToSuccessor},
        },
        server_process::{self, ServerStart},
        upstreams::{self, UpstreamStart, service::UpstreamService},
    },
    sys::process::SingleThreaded,
};
use rustix::process::Pid;
use std::{
    fs::File,
    io,
    os::fd::{AsFd, AsRawFd},
    sync::Arc,
};
use tarpon_site::Printable;

impl Driver<'_> {
    /// Starts a process. On failure, returns the reason for a user.
    pub(super) fn start(&mut self, id: ProcessId, start: ProcessStart) -> Result<(), String> {
        let started = match start {
            ProcessStart::Builder(generation, start) => self.start_builder(generation, start),
            ProcessStart::Server { generation, engine, is_successor } => {
                self.start_server(id, generation, engine, is_successor)
            }
            ProcessStart::Helper(generation, kind) => match kind {
                HelperKind::Net => self.start_net(generation),
                HelperKind::Cgi => self.start_cgi(generation),
                HelperKind::Upstreams => self.start_upstreams(generation),
                #[cfg(test)]
                HelperKind::StandIn => unreachable!("only simulators start it"),
            },
            ProcessStart::Successor(engine) => return self.start_successor(id, start, engine),
        };
        let (pid, mut channel) = started.map_err(|error| reason(&error).to_string())?;
        channel.receiver.share_files(&self.files);
        self.add_child(id, pid, channel, start);
        self.helper_started(id, start);
        Ok(())
    }

    fn start_net(&mut self, id: GenerationId) -> io::Result<(Pid, Channel)> {
        let generation = self.generations.get(&id).ok_or_else(forgotten)?;
        let acme = generation.acme.as_ref().ok_or_else(forgotten)?;
        let (roots, privileges) = (acme.roots.as_deref(), &generation.privileges);
        let start = NetStart { config: &acme.config, roots, names: &acme.sets, privileges };
        let (single_threaded, channel) = (SingleThreaded::new()?, Channel::pair()?);
        fork(&single_threaded, c"tarpon-net", channel, Vec::new(), |channel| net::run(start, channel))
    }

    fn start_cgi(&mut self, id: GenerationId) -> io::Result<(Pid, Channel)> {
        let generation = self.generations.get(&id).ok_or_else(forgotten)?;
        let service = generation.cgi.as_ref().ok_or_else(forgotten)?;
        let stats = self.cgi_stats.as_ref().ok_or_else(forgotten)?;
        let (single_threaded, channel) = (SingleThreaded::new()?, Channel::pair()?);
        let keep = vec![service.helper.as_fd().as_raw_fd()];
        let start = CgiStart { service, stats };
        fork(&single_threaded, c"tarpon-cgi", channel, keep, |channel| cgi::run(start, channel))
    }

    fn start_upstreams(&mut self, id: GenerationId) -> io::Result<(Pid, Channel)> {
        let generation = self.generations.get(&id).ok_or_else(forgotten)?;
        let service = generation.upstreams.as_ref().ok_or_else(forgotten)?;
        let (single_threaded, channel) = (SingleThreaded::new()?, Channel::pair()?);
        let keep = service.descriptors();
        let start = UpstreamStart { service, privileges: &generation.privileges };
        fork(&single_threaded, c"tarpon-net", channel, keep, |channel| upstreams::run(start, channel))
    }

    fn add_child(&mut self, id: ProcessId, pid: Pid, channel: Channel, start: ProcessStart) {
        self.children.add(id, pid, channel);
        self.starts.insert(id, start);
    }

    fn start_builder(&mut self, id: GenerationId, start: BuilderStart) -> io::Result<(Pid, Channel)> {
        let generation = self.generations.get(&id).ok_or_else(forgotten)?;
        let (sites, privileges, emit) = (&generation.service.sites, &generation.privileges, self.emit);
        let states = Arc::clone(&generation.states);
        let images = self.images(sites);
        let keep = images.iter().flatten().map(|image| image.as_raw_fd()).collect();
        let (single_threaded, channel) = (SingleThreaded::new()?, Channel::pair()?);
        let start = BuilderProcessStart { sites, privileges, start, images, states, emit };
        fork(&single_threaded, c"tarpon-builder", channel, keep, |channel| {
            builder_process::run(start, channel)
        })
    }

    /// Returns the image of the latest version of each site: the next one uses its compressed variants.
    fn images(&self, sites: &[SiteConfig]) -> Vec<Option<File>> {
        let known = self.machine.known_versions();
        let image = |site: &SiteConfig| {
            let source = source_key(&site.source);
            let of_source = known.iter().rev().filter(|known| known.source == source);
            let (transfer, descriptors) =
                of_source.filter_map(|known| self.versions.get(&known.version.id)).next()?;
            let store =
                descriptors.first().filter(|_| transfer.has_store && site.source.compression.is_some())?;
            // Without a descriptor the contents are compressed anew.
            store.try_clone().ok()
        };
        sites.iter().map(image).collect()
    }

    fn start_server(
        &mut self,
        process: ProcessId,
        id: GenerationId,
        engine: Engine,
        is_successor: bool,
    ) -> io::Result<(Pid, Channel)> {
        let generation = self.generations.get(&id).ok_or_else(forgotten)?;
        let (service, tls, privileges, emit) =
            (&generation.service, &generation.tls, &generation.privileges, self.emit);
        let acme = generation.acme.as_ref().and(self.acme.as_ref()).map(|acme| Arc::clone(acme.table()));
        let settings = &Settings { engine, ..service.settings.clone() };
        let (single_threaded, channel) = (SingleThreaded::new()?, Channel::pair()?);
        let mut numbers = self.listeners.numbers();
        let cgi = generation.cgi.as_ref().map(CgiService::backends);
        numbers.extend(cgi.iter().map(|cgi| cgi.workers.as_fd().as_raw_fd()));
        let upstreams = generation.upstreams.as_ref().map(UpstreamService::backends);
        let endpoints = upstreams.iter().flat_map(|upstreams| upstreams.endpoints());
        numbers.extend(endpoints.map(|endpoint| endpoint.as_fd().as_raw_fd()));
        let (cgi_stats, states) = (self.cgi_stats.clone(), Arc::clone(&generation.states));
        let limit_tables = self.limit_tables.clone();
        let (all, counters) = (&mut self.listeners, self.counters.assign(process)?);
        limit_tables.forget_connections(counters.places());
        let started = fork(&single_threaded, c"tarpon-server", channel, numbers, |channel| {
            let (listeners, admin) = all.take(service, tls);
            let start = ServerStart {
                settings,
                listeners,
                admin,
                is_successor,
                sites: &service.sites,
                unknown_host: service.unknown_host,
                log: &service.log,
                privileges,
                counters,
                limit_tables,
                acme,
                cgi,
                cgi_stats,
                upstreams,
                states,
                emit,
            };
            server_process::run(start, channel)
        });
        started.inspect_err(|_| {
            self.counters.free(process);
        })
    }

    /// Starts the program file, and sends what the program takes over.
    fn start_successor(&mut self, id: ProcessId, start: ProcessStart, engine: Engine) -> Result<(), String> {
        let program =
            self.program.as_ref().map_err(|error| format!("cannot find the file of the program: {error}"))?;
        let failed = |error: io::Error| format!("cannot start {}: {}", program.printable(), reason(&error));
        let (listeners, mut descriptors) = self.listeners.hand_over().map_err(failed)?;
        let (counters, tables) = self.counters.hand_over().map_err(failed)?;
        descriptors.extend(tables);
        let (pid, channel) = successor::start(program).map_err(failed)?;
        self.add_child(id, pid, channel, start);
        let sites: Vec<_> = (self.machine.inherit().into_iter())
            .filter_map(|inherited| Some((self.versions.get(&inherited.version.id)?, inherited)))
            .map(|((transfer, descriptors), inherited)| {
                let (source, loads) = (inherited.source, inherited.loads);
                (InheritedSite { source, transfer: transfer.clone(), loads }, descriptors)
            })
            .collect();
        let (site_count, start_unix_s) = (sites.len(), self.counters.start_unix_s());
        let tickets = self.ticket_keys.get().map(|keys| keys.secret());
        let message = ToSuccessor::Sockets { engine, listeners, site_count, start_unix_s, counters, tickets };
        self.children.send(id, None, &message, &unshared(descriptors));
        for (site, descriptors) in sites {
            self.children.send(id, None, &ToSuccessor::Site(site), descriptors);
        }
        Ok(())
    }
}

fn forgotten() -> io::Error {
    io::Error::other("its configuration is not in use any more")
}
