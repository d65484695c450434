//! A worker: a thread, or with prefork and fork a process, that serves connections. An engine runs it; all engines share the code here.
//!
//! ```text
//!                  ┌──────────────────── Worker ────────────────────┐
//! control ─▶ mailbox    slots: fd, Connection, inbox    timer wheel  │
//!                  │    context: sites, buffers, clock, records      │ ─▶ log ring
//!                  └──────▲──────────────────────────────┬───────────┘
//!                       engine                         loader: reads files for the worker
//! ```
//!
//! | file | what |
//! |---|---|
//! | `config` | configuration of one worker |
//! | `slots` | the connections, each with its engine's state |
//! | `context` | state that all connections of the worker share |
//! | `receiving` | hands received bytes to connections, keeps unused ones |
//! | `sending` | bytes of spans; whether they are in memory and intact |
//! | `site_versions` | the versions of each site that the worker serves |
//! | `served_site`, `residency` | which pages of a site's files are in memory |
//! | `handshakes` | threads that run the steps of handshakes |
//! | `loader` | threads that read missing pages |
//! | `mailbox` | messages from the control plane and the loader |
//! | `timer_wheel` | one timer for each connection |
//! | `buffer_holders` | which connections hold buffers, and which holds them longest |
//! | `backends` | connects to backends |
//! | `accept_backoff` | stops accepting while descriptors or memory are short |
//! | `unsent_limit` | how much of a response the kernel takes ahead of a client |
//! | `idle_workers` | which workers are idle, for engines with one connection per worker |
//! | `clock` | clocks and waits |
//!
//! A worker waits only in its engine, and without a loader for the disk. Other threads reach it only through its mailbox.

mod accept_backoff;
mod backends;
mod buffer_holders;
mod clock;
mod config;
mod context;
pub(crate) mod handshakes;
pub(crate) mod idle_workers;
#[cfg_attr(not(feature = "tls"), path = "no_kernel_tls.rs")]
mod kernel_tls;
pub(crate) mod loader;
pub(crate) mod mailbox;
mod receiving;
mod reset_flood;
mod residency;
mod sending;
mod served_site;
mod site_versions;
mod slots;
mod timer_wheel;
mod unsent_limit;

pub(crate) use backends::{BackendConnector, Backends};
#[cfg(target_os = "linux")]
pub(crate) use clock::WAIT_MS_MAX;
pub(crate) use clock::{StartTime, timespec};
pub(crate) use config::{PasswordJobs, SocketSettings, WorkerConfig, WorkerRows};
pub(crate) use context::WorkerContext;
pub(crate) use kernel_tls::KernelSuites;
pub(crate) use sending::{COPY_LEN_MAX, MissingRange, SendLimits, Stage};
pub(crate) use slots::{Slot, SlotId, Slots, idle_len};

use crate::{
    data::{
        connection_limit::{ConnectionLimit, ConnectionOwner, ConnectionVerdict, CountedConnection},
        password_threads::PasswordTask,
        probes,
        upstreams::UpstreamLink,
    },
    sys::socket,
};
use buffer_holders::BufferHolders;
use clock::{SteadyClock, thread_cpu_us, unix_ms};
use context::CpuCount;
use handshakes::{HandshakeJob, Handshakes};
use loader::{LoadJob, Loader};
use mailbox::{Mailbox, ShutdownMode, WorkerMessage};
use reset_flood::ResetFlood;
use rustix::net::{AddressFamily, getpeername, getsockname, sockopt::set_socket_linger};
use served_site::ServedSite;
use std::{
    collections::VecDeque,
    net::SocketAddr,
    num::NonZeroU16,
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
    thread,
    time::Duration,
};
use tarpon_conn::{
    AcceptedClient, Connection, HandshakeStep, PasswordJob, PeerAddress, Pool, Records, ResponsePrefixes,
    SectionBuffer, SiteId, Sites, Tick, Transport,
};
use timer_wheel::TimerWheel;
use unsent_limit::UnsentLimit;

/// One worker. An engine runs it.
pub(crate) struct Worker<S> {
    /// Listening sockets, non-blocking. Empty after shutdown has begun.
    pub(crate) listeners: Vec<OwnedFd>,
    /// For each listener, also after shutdown has begun.
    socket_settings: Vec<SocketSettings>,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) slots: Slots<S>,
    unsent_limit: UnsentLimit,
    reset_flood: ResetFlood,
    pub(crate) context: WorkerContext,
    timers: TimerWheel,
    holders: BufferHolders,
    /// Set when shutdown has begun.
    shutdown_mode: Option<ShutdownMode>,
    /// The worker ends at this time at the latest.
    shutdown_deadline: Option<Tick>,
    /// The worker does not accept before this time: the process was out of descriptors or memory.
    accept_backoff: Option<Tick>,
    /// `None`: the worker reads from disk itself, and blocks.
    loader: Option<Loader>,
    /// `None`: the worker runs handshakes itself.
    handshakes: Option<Handshakes>,
    /// `None`: no path has a password.
    password_jobs: Option<PasswordJobs>,
    /// Slots whose missing pages were read, whose passwords were verified, or whose handshakes go on: the engine drives them next.
    resumed: Vec<u32>,
    /// Steps of handshakes that have run, and how many of them the worker may still handle in this batch.
    stepped: VecDeque<(SlotId, Box<HandshakeStep>)>,
    step_budget: usize,
    backends: Backends,
    /// `None`: no backend has upstream servers.
    upstreams: Option<UpstreamLink>,
    /// The address of a client is logged, or decides whether it is trusted.
    needs_peers: bool,
    /// The limit of the connections of each address.
    connection_limit: Option<ConnectionLimit>,
    /// By slot: what counts towards it. Empty without a limit.
    counted: Vec<Option<CountedConnection>>,
}

/// Limit of buffers per worker: 68 MiB, or 260 MiB with the longest heads, which take memory only once they are used. A connection holds a buffer only for part of a head,
/// for a redirect with a query, for byte ranges, for requests that wait for the disk, or for the rest of a response prefix that the
/// socket took in part.
const BUF_COUNT_MAX: usize = 4096;

/// Buffers per connection in a worker for few connections. A connection holds 4 at most, and a sealing transport 2 more, so that the worker
/// never evicts one. An exchange with a backend holds a share of them, which shrinks with what is left.
const BUF_COUNT_PER_CONNECTION: usize = 16;

/// The worker evicts a connection when less than one in this many buffers is free: the rest is for the connections of one batch.
const BUF_RESERVE: usize = 16;

/// Steps of handshakes that a worker handles in one batch: the records of each take a buffer until they are sent, and fewer than the reserve
/// has. Other connections come between.
const STEPS_PER_BATCH: usize = 64;
const _: () = assert!(STEPS_PER_BATCH < BUF_COUNT_MAX / BUF_RESERVE);

impl<S: Default> Worker<S> {
    pub(crate) fn new(config: WorkerConfig) -> Worker<S> {
        let WorkerConfig {
            listeners,
            mailbox,
            sites,
            routes,
            health_path,
            server_header,
            head_len_max,
            proxy_trust,
            client_limits,
            connection_limit,
            acme,
            loader,
            handshakes,
            password_jobs,
            upstream_row,
            kernel_suites,
            ..
        } = config;
        let WorkerConfig {
            connection_count_max, counters, hot_paths, log, backends, socket_settings, ..
        } = config;
        let mut socket_settings = socket_settings.to_vec();
        socket_settings.iter_mut().for_each(SocketSettings::offer_http2);
        let (mut records, producer) = match log {
            Some((recording, producer)) => (Records::new(recording), Some(producer)),
            None => (Records::off(), None),
        };
        let buf_count = connection_count_max.saturating_mul(BUF_COUNT_PER_CONNECTION).min(BUF_COUNT_MAX);
        let mut pool = Pool::for_heads(buf_count as u32, head_len_max);
        let scratch = pool.take().expect("a new pool has free buffers");
        let blocks_on_disk = loader.is_none();
        let current = sites.iter().map(|(versions, _)| versions.current.clone());
        let served: Vec<_> = current.map(|site| ServedSite::new(site, blocks_on_disk)).collect();
        let images = served.iter().zip(&*sites).map(|(served, (_, limits))| (served.image(), *limits));
        let (pipes, upstreams) = backends.pipes();
        if let (Some(upstreams), Some(row)) = (&upstreams, upstream_row) {
            upstreams.take_row(row);
        }
        let unix_ms = unix_ms();
        records.set_time(unix_ms);
        let prefixes = ResponsePrefixes::new(unix_ms / 1_000);
        let mut context = WorkerContext {
            sites: Sites::by_route(images, Arc::clone(&routes)),
            pool,
            prefixes: if server_header { prefixes } else { prefixes.without_server() },
            now: Tick(0),
            served_sites: served.into_iter().map(Some).collect(),
            any_on_disk: false,
            scratch,
            copy: vec![0; COPY_LEN_MAX].into(),
            pipes,
            sections: SectionBuffer::default(),
            clock: SteadyClock::start(),
            cpu: CpuCount { counted_us: thread_cpu_us(), next_at: Tick(0) },
            blocks_on_disk,
            runs_handshakes: handshakes.is_none(),
            kernel_suites,
            counters,
            hot_paths,
            records,
            producer,
        };
        if let Some(path) = health_path {
            context.sites.set_health_path(path);
        }
        if let Some(acme) = acme {
            let find = move |host: &[u8], token: &[u8], to: &mut [u8]| acme.answer(host, token, to);
            context.sites.set_challenges(Arc::new(find), routes);
        }
        backends.add_functions(&mut context.sites);
        let needs_peers = context.records.is_on()
            || !proxy_trust.proxies.is_empty()
            || !backends.is_empty()
            || client_limits.is_some()
            || connection_limit.is_some();
        if let Some(limits) = client_limits {
            context.sites.set_client_limits(limits, context.clock.start_us());
        }
        context.sites.set_proxy_trust(proxy_trust);
        for (number, (versions, _)) in sites.iter().enumerate() {
            context.update_site(SiteId::new(number), versions.clone());
        }
        let slots = Slots::new(connection_count_max);
        let (timers, resumed, stepped) = (TimerWheel::new(), Vec::new(), VecDeque::new());
        let unsent_limit = UnsentLimit::new(connection_count_max, &listeners);
        let reset_flood = ResetFlood::new(&listeners);
        Worker {
            listeners,
            socket_settings,
            mailbox,
            slots,
            unsent_limit,
            reset_flood,
            context,
            timers,
            holders: BufferHolders::default(),
            shutdown_mode: None,
            shutdown_deadline: None,
            accept_backoff: None,
            loader,
            handshakes,
            password_jobs,
            resumed,
            stepped,
            step_budget: STEPS_PER_BATCH,
            backends,
            upstreams,
            needs_peers,
            connection_limit,
            counted: Vec::new(),
        }
    }

    /// Adds a connection that the listener of this number has accepted. Returns its slot. `None`: its address has too many or is denied, and it is reset.
    pub(crate) fn insert(&mut self, fd: OwnedFd, listener: usize) -> Option<u32> {
        let (peer, peer_port) = if self.needs_peers { peer(&fd) } else { (None, None) };
        let settings = &self.socket_settings[listener];
        let &SocketSettings { routes, expects_proxy_header, ref tls, ref addresses, .. } = settings;
        let mut counted = None;
        if let Some(limit) = &self.connection_limit {
            counted = match limit.count(peer, addresses.as_deref()) {
                ConnectionVerdict::Counted(counted) => Some(counted),
                ConnectionVerdict::Unlimited => None,
                verdict @ (ConnectionVerdict::Refused | ConnectionVerdict::Denied) => {
                    self.reset(fd, verdict);
                    return None;
                }
            };
        }
        let accepted = AcceptedClient {
            number: self.slots.next_index(),
            peer,
            peer_port,
            routes,
            expects_proxy_header,
            has_tls: tls.is_some(),
            versions: settings.versions(),
        };
        let conn = Connection::new(&mut self.context.conn_resources(), accepted);
        let transport = match tls {
            None => Transport::Plain,
            Some(config) => {
                let mut transport =
                    Transport::tls(config).expect("the configuration was used when it was made");
                self.context.offer_to_kernel(&mut transport);
                transport
            }
        };
        probes::connection_open(&fd);
        self.unsent_limit.apply(self.slots.client_count(), &fd);
        let index = self.insert_slot(Slot::new(fd, conn, transport));
        if counted.is_some() {
            let place = index as usize;
            self.counted.resize(self.counted.len().max(place + 1), None);
            self.counted[place] = counted;
        }
        Some(index)
    }

    /// Resets a connection that is not accepted.
    #[cold]
    fn reset(&self, fd: OwnedFd, verdict: ConnectionVerdict) {
        let WorkerContext { clock, counters, .. } = &self.context;
        if let Some(limit) = &self.connection_limit {
            limit.reset(fd, verdict, counters, clock.start_us() + clock.now_us());
        }
    }

    /// Resets a connection that [`insert`](Worker::insert) would reset, before a worker makes room for it. Returns any other.
    pub(crate) fn refuse_early(&self, fd: OwnedFd, listener: usize) -> Option<OwnedFd> {
        let Some(limit) = &self.connection_limit else { return Some(fd) };
        match limit.check(peer(&fd).0, self.socket_settings[listener].addresses.as_deref()) {
            verdict @ (ConnectionVerdict::Refused | ConnectionVerdict::Denied) => {
                self.reset(fd, verdict);
                None
            }
            ConnectionVerdict::Counted(_) | ConnectionVerdict::Unlimited => Some(fd),
        }
    }

    fn insert_slot(&mut self, slot: Slot<S>) -> u32 {
        let deadline = slot.transport.deadline(&slot.conn);
        let index = self.slots.insert(slot);
        self.timers.arm(index, deadline);
        index
    }

    /// Removes a closed connection and frees its resources. Returns its descriptor for the caller to close.
    ///
    /// A connection with unsent bytes is reset. After an orderly close the kernel would keep the sent bytes until the client reads
    /// them, and a client that never reads could hold megabytes.
    pub(crate) fn remove(&mut self, index: u32) -> OwnedFd {
        self.timers.disarm(index);
        self.holders.set(index, false);
        let mut slot = self.slots.remove(index);
        if !slot.conn.outbox().is_empty() {
            // An error means that the client has disconnected already.
            let _ = set_socket_linger(&slot.fd, Some(Duration::ZERO));
        }
        if slot.transport.is_silent(&slot.conn) {
            self.count_silent_reset();
        }
        self.context.release_inbox(&mut slot);
        self.release_counted(index as usize);
        slot.transport.closed(&mut slot.conn, &mut self.context.conn_resources());
        self.accept_backoff = None;
        probes::connection_close(&slot.fd);
        slot.fd
    }

    /// Drives the connection in a slot by `drive`. Then moves its timer to its deadline if that is earlier, and notes whether it holds
    /// buffers. Returns what `drive` returned. `None`: the slot is free.
    ///
    /// After an error the caller closes the connection. It is not noted as a holder: to evict it again would free nothing.
    #[inline(always)]
    pub(crate) fn drive<R, E>(
        &mut self,
        index: u32,
        drive: impl FnOnce(&mut WorkerContext, &mut Slot<S>) -> Result<R, E>,
    ) -> Option<Result<R, E>> {
        let slot = self.slots.get_mut(index)?;
        let driven = drive(&mut self.context, slot);
        if driven.is_ok() {
            self.timers.move_earlier(index, slot.transport.deadline(&slot.conn));
            self.holders.set(index, slot.holds_buffers(&self.context.pipes));
            self.context.flush_records_if_half_full();
        }
        Some(driven)
    }

    /// Ends a batch: the engine has driven all its connections.
    #[inline]
    pub(crate) fn end_batch(&mut self) {
        self.context.drop_retired_sites();
        self.context.flush_records();
    }

    /// Allocates the memory for this many connections.
    pub(crate) fn reserve(&mut self, count: usize) {
        self.slots.reserve(count);
        self.timers.reserve(count);
    }

    /// Renders the response prefixes of this time, unless they are those of the same second.
    pub(crate) fn render_prefixes(&mut self, time: StartTime) {
        self.context.prefixes.set_time(time.unix_ms / 1_000);
    }

    /// Gives a worker that has no connections to another process: its mailbox stays, and its clock starts anew.
    pub(crate) fn assign(&mut self, WorkerRows { number, counters, start, log }: WorkerRows) {
        let Worker { context, upstreams, .. } = self;
        if let Some(upstreams) = upstreams {
            upstreams.take_row(number);
        }
        context.counters.select(counters);
        if let Some((table, sampling)) = &mut context.hot_paths {
            table.select(number);
            sampling.set_seed(start.us() ^ (number as u64) << 48);
        }
        self.connection_limit =
            self.connection_limit.take().map(|limit| limit.of(ConnectionOwner::of_place(counters)));
        if let Some((seed, producer)) = log {
            context.records.set_seed(seed);
            context.producer = Some(producer);
        }
        context.clock = start.steady;
        context.sites.set_limits_start(context.clock.start_us());
        // Each process has a thread of its own.
        context.cpu = CpuCount { counted_us: 0, next_at: Tick(0) };
        self.set_time(start.unix_ms);
    }

    /// Reads the clocks, once per batch. The wall clock moves with the steady clock: it is read only when that has moved, and a step of it
    /// is noticed then.
    #[inline(always)]
    pub(crate) fn update_time(&mut self) {
        if self.context.clock.advance() {
            self.set_time(unix_ms());
        }
    }

    #[inline(never)]
    fn set_time(&mut self, unix_ms: u64) {
        self.context.prefixes.set_time(unix_ms / 1_000);
        self.context.records.set_time(unix_ms);
        self.advance_to(self.context.clock.now());
        self.context.count_cpu_time();
    }

    /// Sets the steady clock.
    pub(crate) fn advance_to(&mut self, now: Tick) {
        self.context.now = now;
        self.accept_backoff = self.accept_backoff.filter(|&until| until > now);
        if self.reset_flood.until().is_some_and(|until| until <= now) {
            self.end_reset_flood();
        }
    }

    /// Calls `expired` on the next connection whose deadline has passed, and returns it for the engine to drive.
    #[inline]
    pub(crate) fn next_expired(&mut self) -> Option<u32> {
        if self.timers.is_due(self.context.now) { self.expire_next() } else { None }
    }

    #[cold]
    fn expire_next(&mut self) -> Option<u32> {
        while self.timers.is_due(self.context.now) {
            let index = self.timers.take(self.context.now)?;
            let slot = self.slots.get_mut(index).expect("only slots in use have a timer");
            let expired = slot.transport.deadline(&slot.conn) <= self.context.now;
            if expired {
                let unacked = socket::unacked(&slot.fd);
                slot.transport.expired(&mut slot.conn, &mut self.context.conn_resources(), unacked);
            }
            self.timers.arm(index, slot.transport.deadline(&slot.conn));
            if expired {
                return Some(index);
            }
        }
        None
    }

    /// If buffers run low, evicts the connection that has held some longest, and returns it for the engine to drive. So clients that send
    /// part of a head and then stall, or do not receive their responses, can take buffers only from each other. `freeing_count`: connections
    /// that are closed, and whose buffers will be free.
    #[inline]
    pub(crate) fn next_evicted(&mut self, freeing_count: usize) -> Option<u32> {
        if self.context.pool.will_have_reserve(BUF_RESERVE, freeing_count) { None } else { self.evict_next() }
    }

    #[cold]
    fn evict_next(&mut self) -> Option<u32> {
        let index = self.holders.longest()?;
        self.holders.set(index, false);
        let slot = self.slots.get_mut(index)?;
        slot.transport.evict(&mut slot.conn, &mut self.context.conn_resources());
        self.context.release_inbox(slot);
        Some(index)
    }

    /// Asks the loader for a range that a connection needs. The connection sends nothing until the range was read; then the engine
    /// drives it.
    #[cold]
    pub(crate) fn load(&mut self, index: u32, MissingRange { image, range }: MissingRange) {
        let (Some(slot), Some(loader)) = (self.slots.get_mut(index), &self.loader) else { return };
        let SlotId { generation, .. } = slot.id(index);
        let waiter = Arc::new(());
        let job = LoadJob {
            site: Arc::clone(&self.context.served(image).site),
            range,
            mailbox: Arc::clone(&self.mailbox),
            index,
            generation,
            waiter: Arc::downgrade(&waiter),
        };
        slot.loading = Some(waiter);
        loader.load(job);
    }

    /// Lets another thread run a step of a handshake. The connection takes no input until then.
    #[cold]
    pub(crate) fn hand_off(&mut self, index: u32, step: Box<HandshakeStep>) {
        let (Some(slot), Some(handshakes)) = (self.slots.get_mut(index), &self.handshakes) else { return };
        let SlotId { generation, .. } = slot.id(index);
        handshakes.push(HandshakeJob { step, mailbox: Arc::clone(&self.mailbox), index, generation });
    }

    /// Lets another thread verify a password, or does it here if there is no other connection. The connection takes no input until then.
    #[cold]
    pub(crate) fn verify(&mut self, index: u32, mut job: Box<PasswordJob>) {
        let Some(slot) = self.slots.get_mut(index) else { return };
        match &self.password_jobs {
            Some(PasswordJobs::Threads(threads)) => {
                let (SlotId { generation, .. }, mailbox) = (slot.id(index), Arc::clone(&self.mailbox));
                threads.push(PasswordTask { job, mailbox, index, generation });
            }
            Some(PasswordJobs::Here(turns)) => {
                turns.run(&mut job);
                slot.conn.verified(&mut self.context.conn_resources(), job);
            }
            None => unreachable!("no path has a password"),
        }
    }

    /// Returns the next connection whose range was read, or whose handshake goes on. The engine drives it.
    #[inline]
    pub(crate) fn next_resumed(&mut self) -> Option<u32> {
        if let Some(index) = self.resumed.pop() {
            return Some(index);
        }
        self.next_stepped()
    }

    /// Handles the next step of a handshake that has run, and returns its slot. `None`: it is the turn of other connections.
    fn next_stepped(&mut self) -> Option<u32> {
        loop {
            if self.stepped.is_empty() || self.step_budget == 0 {
                self.step_budget = STEPS_PER_BATCH;
                return None;
            }
            self.step_budget -= 1;
            let (id, step) = self.stepped.pop_front()?;
            let Some(slot) = self.slots.find(id) else { continue };
            if self.context.stepped(slot, step).is_err() {
                slot.transport.evict(&mut slot.conn, &mut self.context.conn_resources());
            }
            return Some(id.index);
        }
    }

    /// Returns how long the engine may wait for the kernel, in milliseconds. `None`: without limit.
    #[inline]
    pub(crate) fn wait_ms(&self) -> Option<u64> {
        if self.context.pipes.has_work() || !self.stepped.is_empty() {
            return Some(0);
        }
        let mut next = self.timers.earliest();
        for at in [self.shutdown_deadline, self.accept_backoff, self.reset_flood.until()] {
            next = at.map_or(next, |at| next.min(at));
        }
        (next != Tick::NEVER).then(|| next.0.saturating_sub(self.context.now.0))
    }

    /// Handles all messages in the mailbox. Returns the shutdown mode if it has just changed.
    pub(crate) fn read_messages(&mut self) -> Option<ShutdownMode> {
        let before = self.shutdown_mode;
        for message in self.mailbox.take() {
            match message {
                WorkerMessage::UpdateSite(site, versions) => self.context.update_site(site, versions),
                WorkerMessage::Shutdown { mode, grace } => {
                    // Clients that wait would be reset with the listener: the worker tries to accept them once more.
                    self.accept_backoff = None;
                    self.end_reset_flood();
                    // A drain may become a stop, but not the reverse.
                    self.shutdown_mode = self.shutdown_mode.max(Some(mode));
                    let by = self.context.now.after(grace.as_millis().try_into().unwrap_or(u64::MAX));
                    self.shutdown_deadline = Some(self.shutdown_deadline.map_or(by, |former| former.min(by)));
                }
                WorkerMessage::Loaded { site, range, index, generation } => {
                    self.context.mark_read(&site, range);
                    if let Some(slot) = self.slots.find(SlotId { index, generation }) {
                        slot.loading = None;
                        slot.conn.loaded();
                        self.resumed.push(index);
                    }
                }
                WorkerMessage::HandshakeStepped { step, index, generation } => {
                    self.stepped.push_back((SlotId { index, generation }, step));
                }
                WorkerMessage::Verified { job, index, generation } => {
                    if let Some(slot) = self.slots.find(SlotId { index, generation }) {
                        slot.conn.verified(&mut self.context.conn_resources(), job);
                        self.resumed.push(index);
                    }
                }
                WorkerMessage::Connected { unconnected, result } => {
                    if let Some(upstreams) = &mut self.upstreams {
                        upstreams.add(unconnected, result);
                    }
                }
            }
        }
        self.shutdown_mode.filter(|_| self.shutdown_mode != before)
    }

    /// Returns whether shutdown has begun.
    #[inline]
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "io_uring asks"))]
    pub(crate) fn is_shutting_down(&self) -> bool {
        self.shutdown_mode.is_some()
    }

    /// Returns whether the shutdown mode is `Stop`: the worker does not wait for further requests.
    pub(crate) fn is_stopping(&self) -> bool {
        self.shutdown_mode == Some(ShutdownMode::Stop)
    }

    /// Returns whether the worker can end: shutdown has begun, and no connection is left or the deadline has passed.
    #[inline]
    pub(crate) fn is_finished(&self) -> bool {
        self.shutdown_deadline.is_some_and(|by| !self.slots.has_clients() || by <= self.context.now)
    }
}

impl<S> Drop for Worker<S> {
    fn drop(&mut self) {
        self.mailbox.close();
        if !thread::panicking() {
            self.end();
        }
    }
}

impl<S> Worker<S> {
    /// Ends the count of the connection in a slot, if it has one.
    #[inline]
    fn release_counted(&mut self, place: usize) {
        if let Some(limit) = &self.connection_limit
            && let Some(counted) = self.counted.get_mut(place).and_then(Option::take)
        {
            limit.release(counted);
        }
    }

    /// Records the end of open exchanges.
    pub(crate) fn end(&mut self) {
        (0..self.counted.len()).for_each(|place| self.release_counted(place));
        for slot in self.slots.slots.iter_mut().flatten() {
            if !slot.conn.is_client() {
                // The end of this worker is no failure of the backend.
                slot.conn.stop(&mut self.context.conn_resources());
            }
            slot.transport.closed(&mut slot.conn, &mut self.context.conn_resources());
            self.context.flush_records_if_half_full();
        }
        self.context.flush_records();
        self.context.count_cpu_time_now();
        if let Some(upstreams) = &self.upstreams {
            upstreams.end();
        }
    }
}

/// Returns the address and the port of the peer.
pub(crate) fn peer(fd: impl AsFd) -> (Option<PeerAddress>, Option<NonZeroU16>) {
    // The call fails if the client has disconnected already.
    let address = getpeername(&fd).ok().flatten().and_then(|address| SocketAddr::try_from(address).ok());
    match address {
        Some(address) => {
            (Some(PeerAddress::Ip(address.ip().to_canonical())), NonZeroU16::new(address.port()))
        }
        None => {
            let is_unix = getsockname(fd).is_ok_and(|own| own.address_family() == AddressFamily::UNIX);
            (is_unix.then_some(PeerAddress::Unix), None)
        }
    }
}
