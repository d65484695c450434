//! A generation: one configuration with its builder, its server, its sites and its logs. Plain data.
//!
//! ```text
//! builder ── versions ─▶ HeldVersions ── when every site is complete ─▶ server ── Serving ─▶ the generation serves
//! ```

use super::{
    Role,
    event::{
        Action, BuilderStart, GenerationId, LogId, ProcessStart, ServingInfo, SiteVersion, SupervisorNotice,
        ToChild, VersionLost,
    },
    held_versions::{HeldVersions, InheritedVersion, Resend, VersionUses},
    log_files::{LogFilePlan, LogFiles},
    machine::Owner,
};
use crate::{
    base::{engine::Engine, error::UserError},
    control::helpers::HelperKind,
    control::process::{ProcessExit, ProcessId, ProcessSlot, ProcessTable, clock},
    site::descriptor_budget::DescriptorBudget,
};
use std::{mem, time::Duration};
use tarpon_conn::Tick;

/// What the supervisor knows of a configuration.
#[derive(Clone, Debug)]
pub(super) struct GenerationPlan {
    /// How long responses under way may take when the server exits.
    pub(super) grace: Duration,
    /// The configured engine.
    pub(super) engine: Engine,
    pub(super) sites: Vec<SitePlan>,
    pub(super) logs: Vec<LogFilePlan>,
    /// The helpers that the workers need.
    pub(super) helpers: Vec<HelperKind>,
    /// Whether it has certificates, whose files may change.
    pub(super) has_certificates: bool,
}

/// What the supervisor knows of a site.
#[derive(Clone, Debug)]
pub(super) struct SitePlan {
    /// What tells the site from others: where it is read.
    pub(super) source: String,
    /// The name of the site in messages.
    pub(super) label: String,
    /// Earlier versions that are kept, at most.
    pub(super) kept_max: usize,
}

/// What a generation shares with the others.
pub(super) struct Context<'a> {
    pub(super) now: Tick,
    pub(super) processes: &'a mut ProcessTable<Owner>,
    pub(super) uses: &'a mut VersionUses,
    pub(super) budget: DescriptorBudget,
    pub(super) actions: &'a mut Vec<Action>,
}

/// One configuration and its processes.
#[derive(Debug)]
pub(super) struct Generation {
    pub(super) id: GenerationId,
    pub(super) grace: Duration,
    builder: ProcessSlot,
    server: ProcessSlot,
    helpers: Vec<(HelperKind, ProcessSlot)>,
    /// Why a process cannot go on, in its own words.
    builder_failure: Option<String>,
    server_failure: Option<String>,
    /// The builder has asked for another one.
    root_replaced: bool,
    sites: Vec<HeldVersions>,
    /// The server process has got the sites.
    is_supplied: bool,
    /// What its first server said. `None`: the generation has not served.
    pub(super) serving: Option<ServingInfo>,
    /// The engine of the server: sockets that two servers share suit one engine only.
    pub(super) engine: Engine,
    pub(super) logs: LogFiles,
    has_certificates: bool,
    /// When to look at the files of the certificates. `None`: it has not served, or has none.
    check_certificates_at: Option<Tick>,
}

/// How often the supervisor looks at the files of certificates. A renewal comes days before the certificate expires.
const CERTIFICATES_INTERVAL: Duration = Duration::from_secs(60);

/// How many sites an error names, those with the most large files.
const NAMED_SITE_COUNT: usize = 5;

/// A builder that asks for its replacement may have lived this long; otherwise the replacement waits: a builder cannot make the supervisor
/// fork in a loop.
const REPLACED_INTERVAL: Duration = Duration::from_millis(50);

impl Generation {
    /// Returns a generation without processes. It inherits versions that were served before, and the engine that serves.
    pub(super) fn new(
        id: GenerationId,
        plan: GenerationPlan,
        inherited: &[InheritedVersion],
        engine: Option<Engine>,
        uses: &mut VersionUses,
    ) -> Generation {
        let GenerationPlan { grace, engine: configured, sites, logs, helpers, has_certificates } = plan;
        let site = |plan| HeldVersions::new(plan, inherited, uses);
        Generation {
            id,
            grace,
            builder: ProcessSlot::default(),
            server: ProcessSlot::default(),
            helpers: helpers.into_iter().map(|kind| (kind, ProcessSlot::default())).collect(),
            builder_failure: None,
            server_failure: None,
            root_replaced: false,
            sites: sites.into_iter().map(site).collect(),
            is_supplied: false,
            serving: None,
            engine: engine.unwrap_or(configured),
            logs: LogFiles::new(id, logs),
            has_certificates,
            check_certificates_at: None,
        }
    }

    /// Starts both processes at once, as reading a site takes time. Until the server serves, another one may.
    pub(super) fn start(&mut self, is_successor: bool, cx: &mut Context<'_>) {
        self.start_builder(BuilderStart::First, cx);
        for number in 0..self.helpers.len() {
            self.start_helper(number, cx);
        }
        self.start_server(is_successor, cx);
    }

    fn start_helper(&mut self, number: usize, cx: &mut Context<'_>) {
        let process = cx.processes.add(Owner::Helper(self.id, number));
        let (kind, slot) = &mut self.helpers[number];
        slot.begin(process);
        cx.actions.push(Action::Start(process, ProcessStart::Helper(self.id, *kind)));
    }

    fn start_builder(&mut self, start: BuilderStart, cx: &mut Context<'_>) {
        let process = cx.processes.add(Owner::Builder(self.id));
        self.builder.begin(process);
        self.builder_failure = None;
        cx.actions.push(Action::Start(process, ProcessStart::Builder(self.id, start)));
    }

    fn start_server(&mut self, is_successor: bool, cx: &mut Context<'_>) {
        let process = cx.processes.add(Owner::Server(self.id));
        self.server.begin(process);
        self.server_failure = None;
        let start = ProcessStart::Server { generation: self.id, engine: self.engine, is_successor };
        cx.actions.push(Action::Start(process, start));
        for (log, of) in self.logs.all() {
            cx.actions.push(Action::Send(process, ToChild::Log { log, of }));
        }
        self.is_supplied = false;
        self.supply(cx.actions);
    }

    /// Sends a new server all sites, when every site is complete.
    fn supply(&mut self, actions: &mut Vec<Action>) {
        let Some(server) = self.server.process() else { return };
        if self.is_supplied || !self.is_complete() {
            return;
        }
        self.is_supplied = true;
        for (site, versions) in self.sites.iter_mut().enumerate() {
            versions.resend = Resend::default();
            for (version, is_earlier) in versions.in_order() {
                let loads = versions.loads;
                let message = ToChild::Site { site, version: version.id, is_earlier, loads };
                actions.push(Action::Send(server, message));
            }
        }
    }

    /// Returns whether every site was built.
    fn is_complete(&self) -> bool {
        self.sites.iter().all(|site| site.current().is_some())
    }

    /// Returns whether the server serves, or has all it needs to.
    pub(super) fn may_serve(&self) -> bool {
        self.serving.is_some() || self.is_supplied
    }

    /// Returns the number of files and of bytes of each site.
    pub(super) fn site_sizes(&self) -> Vec<(u64, u64)> {
        let size = |version: &SiteVersion| (version.file_count, version.content_len);
        self.sites.iter().map(|site| site.current().map(size).unwrap_or_default()).collect()
    }

    /// Returns the versions for the next configuration or successor.
    pub(super) fn inherit(&self) -> Vec<InheritedVersion> {
        self.sites.iter().flat_map(HeldVersions::inherit).collect()
    }

    /// Returns whether this process belongs to the generation.
    pub(super) fn has(&self, process: ProcessId) -> bool {
        let helpers = self.helpers.iter().map(|(_, slot)| slot);
        [&self.builder, &self.server].into_iter().chain(helpers).any(|slot| slot.process() == Some(process))
    }

    /// Notes that a process runs.
    pub(super) fn started(&mut self, process: ProcessId, now: Tick) {
        let helpers = self.helpers.iter_mut().map(|(_, slot)| slot);
        for slot in [&mut self.builder, &mut self.server].into_iter().chain(helpers) {
            if slot.process() == Some(process) {
                slot.started(now);
            }
        }
    }

    /// Notes that a process could not be started. Returns why the generation cannot serve, if it has not served yet.
    pub(super) fn start_failed(
        &mut self,
        owner: Owner,
        error: String,
        cx: &mut Context<'_>,
    ) -> Result<(), String> {
        let (role, slot) = match owner {
            Owner::Builder(_) => (Role::Builder, &mut self.builder),
            Owner::Helper(_, number) => (Role::Helper, &mut self.helpers[number].1),
            _ => (Role::Server, &mut self.server),
        };
        let retry_delay = slot.start_failed(cx.now);
        if self.serving.is_none() {
            return Err(format!("cannot start the {role} process: {error}"));
        }
        cx.actions.push(Action::Emit(SupervisorNotice::StartFailed { role, error, retry_delay }));
        Ok(())
    }

    /// Adds a version of a site that the builder has built, and sends it to the server. Returns why the generation cannot serve, if it has
    /// not served yet. `version`: `Err` if its descriptors were lost.
    pub(super) fn site_built(
        &mut self,
        site: usize,
        version: Result<SiteVersion, VersionLost>,
        is_earlier: bool,
        cx: &mut Context<'_>,
    ) -> Result<(), String> {
        if site >= self.sites.len() {
            cx.actions.extend(version.map(|version| Action::DropVersion(version.id)));
            return Ok(());
        }
        let count = version.map_or_else(|lost| lost.descriptor_count, |version| version.descriptor_count);
        let unfit = || self.unfit(site, version.err()?.unfit_count?, cx.budget);
        if !is_earlier && let Some(error) = self.check_budget(site, count, cx.budget).or_else(unfit) {
            cx.actions.extend(version.map(|version| Action::DropVersion(version.id)));
            if self.serving.is_none() {
                return Err(error.to_string());
            }
            cx.actions.push(Action::Emit(SupervisorNotice::SiteReloadFailed(error)));
            return Ok(());
        }
        let version = match version {
            // A server that has its sites ignores earlier versions.
            Ok(version) if is_earlier && self.is_supplied => {
                cx.actions.push(Action::DropVersion(version.id));
                return Ok(());
            }
            Ok(version) => version,
            Err(_) if is_earlier => return Ok(()),
            Err(lost) => return self.descriptors_lost(lost.descriptor_count, cx),
        };
        let kept_max = cx.budget.kept_max / self.sites.len();
        let versions = &mut self.sites[site];
        // The driver carries actions out in their order: it sends a version before it drops it.
        let mut dropped = Vec::new();
        versions.add(version, is_earlier, kept_max, cx.uses, &mut dropped);
        if !is_earlier {
            versions.resend = Resend::default();
        }
        let loads = versions.loads;
        match self.server.process() {
            Some(server) if self.is_supplied => {
                let message = ToChild::Site { site, version: version.id, is_earlier, loads };
                cx.actions.push(Action::Send(server, message));
            }
            _ => self.supply(cx.actions),
        }
        cx.actions.append(&mut dropped);
        Ok(())
    }

    /// Replaces the builder, as the descriptors of a current version, this many, were lost: the system is short of them for a moment, and
    /// the next builder sends the site again. Returns why the generation cannot serve, if it has not served yet.
    fn descriptors_lost(&mut self, count: usize, cx: &mut Context<'_>) -> Result<(), String> {
        let why = format!("no room for {count} more open files");
        let Some(builder) = self.builder.process().filter(|_| self.serving.is_some()) else {
            return Err(why);
        };
        cx.actions.push(Action::Kill(builder));
        self.builder_failure = Some(why);
        Ok(())
    }

    /// Notes that the server has no room for the current version of a site. Returns the time until it gets the version again. `None`:
    /// there is no such site.
    pub(super) fn site_lost(&mut self, site: usize, now: Tick) -> Option<Duration> {
        let resend = &mut self.sites.get_mut(site)?.resend;
        let delay = resend.backoff.after_failure();
        resend.due = Some(clock::after(now, delay));
        Some(delay)
    }

    /// Sends the server the versions again that it had no room for.
    fn resend_sites(&mut self, now: Tick, actions: &mut Vec<Action>) {
        let Some(server) = self.server.process() else { return };
        for (site, versions) in self.sites.iter_mut().enumerate() {
            if versions.resend.due.take_if(|due| *due <= now).is_none() {
                continue;
            }
            if let Some(version) = versions.current() {
                let (version, loads) = (version.id, versions.loads);
                let message = ToChild::Site { site, version, is_earlier: false, loads };
                actions.push(Action::Send(server, message));
            }
        }
    }

    /// Checks whether a version of a site with this many descriptors fits beside the other sites. Returns the error if it does not.
    fn check_budget(&self, site: usize, count: usize, budget: DescriptorBudget) -> Option<UserError> {
        let count_of = |(number, known): (usize, &HeldVersions)| match number == site {
            true => count,
            false => known.current().map_or(0, |version| version.descriptor_count),
        };
        let mut counts: Vec<_> =
            self.sites.iter().enumerate().map(|site| (count_of(site), &*site.1.label)).collect();
        let sum: usize = counts.iter().map(|(count, _)| count).sum();
        if sum <= budget.current_max {
            return None;
        }
        counts.sort_by(|one, other| other.cmp(one));
        let named = counts.iter().take(NAMED_SITE_COUNT).filter(|(count, _)| *count > 0);
        let named: Vec<_> = named.map(|(count, label)| format!("{label} needs {count}")).collect();
        Some(UserError::new(
            "cannot keep all sites open",
            format_args!(
                "they need {sum} open files, and the limit leaves room for {}: {}",
                budget.current_max,
                named.join(", ")
            ),
            format_args!(
                "pack the sites with tarpon pack, as an archive needs one, or raise the limit, as with ulimit -n {limit} or LimitNOFILE={limit}",
                limit = (2 * sum).next_power_of_two()
            ),
        ))
    }

    /// Returns why a new version of a site, with this many new open files, does not fit beside the versions that are served.
    fn unfit(&self, site: usize, count: usize, budget: DescriptorBudget) -> Option<UserError> {
        let limit = (2 * (budget.total_max + count)).next_power_of_two();
        Some(UserError::new(
            format_args!("cannot load the new version of {}", self.sites[site].label),
            format_args!(
                "{count} of its open files are new, and the limit leaves room for {} of both versions",
                budget.total_max
            ),
            format_args!(
                "restart tarpon, pack the site with tarpon pack, as an archive needs one, or raise the limit, as with ulimit -n {limit} or \
                 LimitNOFILE={limit}"
            ),
        ))
    }

    /// Notes that the builder asks for another one.
    pub(super) fn root_replaced(&mut self) {
        self.root_replaced = true;
    }

    /// Notes why a process cannot go on.
    pub(super) fn failed(&mut self, process: ProcessId, why: String) {
        match self.server.process() == Some(process) {
            true => self.server_failure = Some(why),
            false => self.builder_failure = Some(why),
        }
    }

    /// Notes what the server said when it started to serve. Returns whether it is the first server that serves.
    pub(super) fn serves(&mut self, info: ServingInfo) -> bool {
        let is_first = self.serving.is_none();
        if is_first {
            // Only `auto` leaves the choice to the first server: later ones share its listeners.
            if self.engine == Engine::Auto && info.engine.may_be_auto() {
                self.engine = info.engine;
            }
            self.serving = Some(info);
        }
        is_first
    }

    /// Notes that a process was reaped, and schedules another one. Returns why the generation cannot serve, if it has not served yet.
    pub(super) fn exited(
        &mut self,
        owner: Owner,
        exit: ProcessExit,
        cx: &mut Context<'_>,
    ) -> Result<(), String> {
        let (role, slot, why) = match owner {
            Owner::Builder(_) => (Role::Builder, &mut self.builder, self.builder_failure.take()),
            Owner::Helper(_, number) => (Role::Helper, &mut self.helpers[number].1, None),
            _ => (Role::Server, &mut self.server, self.server_failure.take()),
        };
        let lived = slot.exited(cx.now);
        if role == Role::Builder && self.root_replaced {
            slot.schedule(clock::after(cx.now, REPLACED_INTERVAL.saturating_sub(lived)));
            return Ok(());
        }
        if self.serving.is_none() {
            return Err(why.unwrap_or_else(|| format!("the {role} process {exit}")));
        }
        let restart_delay = slot.restart(cx.now, lived);
        let how = match why {
            Some(why) => format!("{exit}: {why}"),
            None => exit.to_string(),
        };
        cx.actions.push(Action::Emit(SupervisorNotice::ProcessEnded { role, how, restart_delay }));
        Ok(())
    }

    /// Sends the owners of a log its new descriptor.
    pub(super) fn log_opened(&mut self, log: LogId, actions: &mut Vec<Action>) {
        for of in self.logs.opened(log) {
            actions
                .extend(self.server.process().map(|server| Action::Send(server, ToChild::Log { log, of })));
        }
    }

    /// Returns when [`update`](Generation::update) has something to do.
    pub(super) fn deadline(&self) -> Option<Tick> {
        let helpers = self.helpers.iter().map(|(_, slot)| slot.due());
        // Before the generation serves, another server may still own the files.
        let logs = self.logs.deadline().filter(|_| self.serving.is_some());
        let resends =
            self.sites.iter().map(|site| site.resend.due).filter(|_| self.server.process().is_some());
        let own = [self.builder.due(), self.server.due(), logs, self.check_certificates_at];
        helpers.chain(own).chain(resends).flatten().min()
    }

    /// Does what is due.
    pub(super) fn update(&mut self, cx: &mut Context<'_>) {
        if self.serving.is_some() {
            self.logs.update(cx.now, cx.actions);
            self.check_certificates(cx);
        }
        if self.builder.is_due(cx.now) {
            let start = match (mem::take(&mut self.root_replaced), self.is_complete()) {
                (true, true) => BuilderStart::RootReplaced,
                (true, false) => BuilderStart::First,
                (false, _) => BuilderStart::Again,
            };
            self.start_builder(start, cx);
        }
        for number in 0..self.helpers.len() {
            if self.helpers[number].1.is_due(cx.now) {
                self.start_helper(number, cx);
            }
        }
        if self.server.is_due(cx.now) {
            self.start_server(false, cx);
        }
        self.resend_sites(cx.now, cx.actions);
    }

    fn check_certificates(&mut self, cx: &mut Context<'_>) {
        if !self.has_certificates {
            return;
        }
        let at = *self.check_certificates_at.get_or_insert(clock::after(cx.now, CERTIFICATES_INTERVAL));
        if at <= cx.now {
            cx.actions.push(Action::CheckCertificates(self.id));
            self.check_certificates_at = Some(clock::after(cx.now, CERTIFICATES_INTERVAL));
        }
    }

    /// Ends the generation: kills the builder, forgets the sites and the configuration. Returns the server process, which is to be told
    /// to exit, and the helpers, which it needs until then.
    pub(super) fn retire(mut self, cx: &mut Context<'_>) -> (Option<ProcessId>, Vec<ProcessId>) {
        cx.actions.extend(self.builder.process().map(Action::Kill));
        self.sites.iter_mut().for_each(|site| site.clear(cx.uses, cx.actions));
        cx.actions.push(Action::Forget(self.id));
        let helpers = self.helpers.iter().filter_map(|(_, slot)| slot.process());
        (self.server.process(), helpers.collect())
    }

    /// Ends a generation that has not served, with all its processes.
    pub(super) fn abandon(self, cx: &mut Context<'_>) {
        let (server, helpers) = self.retire(cx);
        cx.actions.extend(server.into_iter().chain(helpers).map(Action::Kill));
    }

    /// Returns the versions that the server is to serve, for the invariants of the simulator.
    #[cfg(test)]
    pub(super) fn current_versions(&self) -> Vec<super::event::VersionId> {
        self.sites.iter().filter_map(|site| site.current().map(|version| version.id)).collect()
    }
}
