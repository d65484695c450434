//! What every engine shares: slots for connections, their timers, the buffers, the images, the accept gate,
//! and the way a worker ends.
//!
//! A worker is one thread. It waits in one place, never blocks elsewhere, and hears from the others only
//! through its mailbox.

pub(crate) mod idle_workers;
pub(crate) mod loader;
pub(crate) mod mailbox;
mod residency;
mod served_site;
mod timer_wheel;

use crate::{
    data::{
        log_ring::RingProducer,
        worker::{
            idle_workers::IdleWorkers,
            loader::{FileRange, LoadJob, Loader},
            mailbox::{Mailbox, ShutdownMode, WorkerMessage},
            served_site::ServedSite,
            timer_wheel::TimerWheel,
        },
    },
    site::{Site, versions::SiteVersions},
    sys::{clock, shared::SharedRow, socket},
};
use rustix::{
    net::{getpeername, sockopt::set_socket_linger},
    time::{Timespec, clock_gettime},
};
use std::{
    net::{IpAddr, SocketAddr},
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
    thread,
    time::Duration,
};
use tarpon_conn::{
    Accepted, BufId, Connection, Counters, Cx, Hosts, ImageId, Input, Leg, Limits, Pool, RECORDS_LEN,
    Recording, Records, Run, SiteId, Sites, Span, Starts, Tick, Wanted,
};
use tarpon_site::Region;

/// One worker, to be run by an engine.
pub(crate) struct Worker<S> {
    /// Listening sockets, non-blocking. Empty once the worker stops.
    pub(crate) listeners: Vec<OwnedFd>,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) slots: Slots<S>,
    pub(crate) commons: WorkerContext,
    wheel: TimerWheel,
    /// Set when the worker is to end.
    farewell: Option<ShutdownMode>,
    /// When it ends at the latest.
    stop_by: Option<Tick>,
    /// Accept nothing before: the process was out of descriptors or memory.
    gate: Option<Tick>,
    /// `None`: the worker itself waits for the disk.
    loader: Option<Loader>,
    /// Slots whose turn it is, as what they wait for was read.
    loaded: Vec<u32>,
}

/// What a worker is given.
pub(crate) struct WorkerConfig {
    /// Its own, among all of the server.
    pub(crate) number: usize,
    /// Of the server, with this one.
    pub(crate) worker_count: usize,
    /// Who of them is free: for those that serve one connection at a time.
    pub(crate) roster: SharedRow<IdleWorkers>,
    /// Listening sockets, non-blocking.
    pub(crate) listeners: Vec<OwnedFd>,
    pub(crate) mailbox: Arc<Mailbox>,
    /// By number.
    pub(crate) sites: Arc<[(SiteVersions, Limits)]>,
    pub(crate) hosts: Arc<Hosts>,
    /// `None`: the worker itself waits for the disk.
    pub(crate) loader: Option<Loader>,
    /// Connections it holds at most.
    pub(crate) connection_count_max: usize,
    pub(crate) counters: SharedRow<Counters>,
    /// Where load balancers may ask.
    pub(crate) health_path: Option<Arc<[u8]>>,
    /// What to record of exchanges, and where to hand it.
    pub(crate) log: Option<(Recording, RingProducer)>,
}

/// A connection cannot go on: it needs a buffer and none is free, or what it was answered from has been truncated.
pub(crate) struct SendError;

/// What is not in memory, and of which image.
pub(crate) struct NotResident {
    image: ImageId,
    stretch: FileRange,
}

/// What the connections of one worker share.
pub(crate) struct WorkerContext {
    pub(crate) sites: Sites,
    pub(crate) pool: Pool,
    pub(crate) starts: Starts,
    pub(crate) now: Tick,
    /// Sites by image, for their descriptors.
    served: Vec<Option<ServedSite>>,
    /// Some of what was ever served lies in files: it may have to be read first, or be truncated meanwhile.
    in_files: bool,
    /// What is received arrives here; a connection that leaves something of it takes the buffer over.
    pub(crate) scratch: BufId,
    /// Small sends are put together here.
    pub(crate) copy: Box<[u8]>,
    /// The monotonic clock when the worker began.
    epoch: Timespec,
    /// What is not in memory is sent all the same.
    waits_for_disk: bool,
    counters: SharedRow<Counters>,
    records: Records,
    /// Where the records go.
    inlet: Option<RingProducer>,
}

/// Buffers of a worker. A connection holds one only while it has sent a part of a head, asks for a redirect
/// with a query or for a range, waits for what it looks up, or is so slow that the start of a response is cut; other complete heads need none.
/// 64 MiB, touched only when used.
const BUF_COUNT_MAX: usize = 4096;

/// So many are enough for one connection, and half of them are left: it holds what it has received, and two in its outbox.
const BUF_COUNT_EACH: usize = 16;

/// Below one free buffer in so many connections are shed: one batch may need as many.
const BUF_RESERVE: usize = 16;

/// Bytes that are put together for one send: see `engine/ready.rs`.
pub(crate) const COPY_LEN_MAX: usize = 8 * 1024;

/// How long the gate stays shut when the process is out of descriptors, unless a connection ends first.
const GATE_MS: u64 = 1_000;

impl<S: Default> Worker<S> {
    pub(crate) fn new(outfit: WorkerConfig) -> Worker<S> {
        let WorkerConfig { listeners, mailbox, sites, hosts, health_path, loader, .. } = outfit;
        let WorkerConfig { connection_count_max, counters, log, .. } = outfit;
        let (records, inlet) = match log {
            Some((recording, inlet)) => (Records::new(recording), Some(inlet)),
            None => (Records::off(), None),
        };
        let buf_count = connection_count_max.saturating_mul(BUF_COUNT_EACH).min(BUF_COUNT_MAX);
        let mut pool = Pool::new(buf_count as u32);
        let scratch = pool.take().expect("a new pool has free buffers");
        let waits_for_disk = loader.is_none();
        let current = sites.iter().map(|(lineup, _)| lineup.current.clone());
        let served: Vec<_> = current.map(|site| ServedSite::new(site, waits_for_disk)).collect();
        let images = served.iter().zip(&*sites).map(|(served, (_, limits))| (served.image(), *limits));
        let mut commons = WorkerContext {
            sites: Sites::by_host(images, hosts),
            pool,
            starts: Starts::new(unix_ms() / 1_000),
            now: Tick(0),
            served: served.into_iter().map(Some).collect(),
            in_files: false,
            scratch,
            copy: vec![0; COPY_LEN_MAX].into(),
            epoch: clock_gettime(clock::STEADY),
            waits_for_disk,
            counters,
            records,
            inlet,
        };
        if let Some(path) = health_path {
            commons.sites.set_health_path(path);
        }
        for (number, (lineup, _)) in sites.iter().enumerate() {
            commons.swap(SiteId::new(number), lineup.clone());
        }
        let slots = Slots::new(connection_count_max);
        let (wheel, loaded) = (TimerWheel::new(), Vec::new());
        Worker {
            listeners,
            mailbox,
            slots,
            commons,
            wheel,
            farewell: None,
            stop_by: None,
            gate: None,
            loader,
            loaded,
        }
    }

    /// A connection was accepted. Returns its slot.
    pub(crate) fn insert(&mut self, fd: OwnedFd) -> u32 {
        let peer = if self.commons.records.is_on() { peer(&fd) } else { None };
        let accepted = Accepted { number: self.slots.next_index(), peer };
        let conn = Connection::new(&mut self.commons.cx(), accepted);
        let deadline = conn.deadline();
        let index = self.slots.insert(Slot::new(fd, conn));
        self.wheel.arm(index, deadline);
        index
    }

    /// A connection is over: lets go of everything it held but its descriptor, which is to be closed.
    ///
    /// One that is still owed something is reset. A close in order would leave it with the kernel, which keeps what it has
    /// taken until the client reads it; and whoever reads nothing could have it keep megabytes for as long as it likes.
    pub(crate) fn remove(&mut self, index: u32) -> OwnedFd {
        self.wheel.disarm(index);
        let mut slot = self.slots.remove(index);
        if !slot.conn.outbox(Leg::Client).is_empty() {
            // Fails where the client has gone already.
            let _ = set_socket_linger(&slot.fd, Some(Duration::ZERO));
        }
        self.commons.empty_inbox(&mut slot);
        slot.conn.abandon(&mut self.commons.cx());
        self.gate = None;
        slot.fd
    }

    /// After a turn: the timer must not fire later than the connection's deadline.
    #[inline]
    pub(crate) fn mind_deadline(&mut self, index: u32) {
        if let Some(slot) = self.slots.get_mut(index) {
            self.wheel.hasten(index, slot.conn.deadline());
        }
        self.commons.spare_records();
    }

    /// All connections of a batch have had their turns.
    #[inline]
    pub(crate) fn end_batch(&mut self) {
        self.commons.retire();
        self.commons.give_records();
    }

    /// Reads the clocks, once for all connections of a batch.
    #[inline]
    pub(crate) fn tell_time(&mut self) {
        let now = clock_gettime(clock::STEADY);
        let since_s = now.tv_sec - self.commons.epoch.tv_sec;
        let since_ms = since_s * 1_000 + (now.tv_nsec - self.commons.epoch.tv_nsec) / 1_000_000;
        self.commons.now = Tick(since_ms.max(0) as u64);
        let unix_ms = unix_ms();
        self.commons.starts.set_time(unix_ms / 1_000);
        self.commons.records.set_time(unix_ms);
        self.gate = self.gate.filter(|&by| by > self.commons.now);
    }

    /// A connection whose deadline has passed, told so. It wants a turn.
    pub(crate) fn next_expired(&mut self) -> Option<u32> {
        while self.wheel.is_due(self.commons.now) {
            let index = self.wheel.take(self.commons.now)?;
            let slot = self.slots.get_mut(index).expect("only slots in use have a timer");
            let expired = slot.conn.deadline() <= self.commons.now;
            if expired {
                let unacked = socket::unacked(&slot.fd);
                slot.conn.expired(&mut self.commons.cx(), unacked);
            }
            self.wheel.arm(index, slot.conn.deadline());
            if expired {
                return Some(index);
            }
        }
        None
    }

    /// When buffers run low: the connection that has kept one for longest, told that its time is over. It wants a turn.
    /// So clients that send a part of a head and then nothing can keep buffers only from each other.
    #[inline]
    pub(crate) fn next_shed(&mut self) -> Option<u32> {
        if self.commons.pool.is_left(BUF_RESERVE) {
            return None;
        }
        let index = self.slots.first_to_expire_with_inbox()?;
        let slot = self.slots.get_mut(index)?;
        slot.conn.shed(&mut self.commons.cx());
        self.commons.empty_inbox(slot);
        Some(index)
    }

    /// What a connection is to send next is not in memory: it sends nothing until that was read, and then wants a turn.
    #[cold]
    pub(crate) fn load(&mut self, index: u32, NotResident { image, stretch }: NotResident) {
        let generation = self.slots.generation(index);
        let (Some(slot), Some(loader)) = (self.slots.get_mut(index), &self.loader) else { return };
        let waits = Arc::new(());
        let job = LoadJob {
            site: Arc::clone(&self.commons.served(image).site),
            stretch,
            mailbox: Arc::clone(&self.mailbox),
            index,
            generation,
            waits: Arc::downgrade(&waits),
        };
        slot.loading = Some(waits);
        loader.load(job);
    }

    /// A connection whose wait for the disk is over. It wants a turn.
    #[inline]
    pub(crate) fn next_loaded(&mut self) -> Option<u32> {
        self.loaded.pop()
    }

    /// How long to wait for the kernel, in milliseconds. `None`: until something happens.
    #[inline]
    pub(crate) fn wait_ms(&self) -> Option<u64> {
        let until = |by: Tick| by.0.saturating_sub(self.commons.now.0);
        let times = [self.wheel.wait_ms(self.commons.now), self.stop_by.map(until), self.gate.map(until)];
        times.into_iter().flatten().min()
    }

    /// Reads the mailbox. Returns how to part from the clients, if the worker was just told so.
    pub(crate) fn read_mail(&mut self) -> Option<ShutdownMode> {
        let before = self.farewell;
        for message in self.mailbox.take() {
            match message {
                WorkerMessage::Swap(site, lineup) => self.commons.swap(site, lineup),
                WorkerMessage::Leave { farewell, grace } => {
                    // Who was to drain may be stopped, but not the other way round.
                    self.farewell = self.farewell.max(Some(farewell));
                    let by = self.commons.now.after(grace.as_millis().try_into().unwrap_or(u64::MAX));
                    self.stop_by = Some(self.stop_by.map_or(by, |former| former.min(by)));
                }
                WorkerMessage::Loaded { site, stretch, index, generation } => {
                    self.commons.learn(&site, stretch);
                    if self.slots.generation(index) == generation
                        && let Some(slot) = self.slots.get_mut(index)
                    {
                        slot.loading = None;
                        slot.conn.loaded();
                        self.loaded.push(index);
                    }
                }
            }
        }
        self.farewell.filter(|_| self.farewell != before)
    }

    /// Whether it was told to end.
    #[inline]
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "io_uring asks"))]
    pub(crate) fn is_leaving(&self) -> bool {
        self.farewell.is_some()
    }

    /// Whether it is to leave without waiting for what has not begun.
    pub(crate) fn is_stopping(&self) -> bool {
        self.farewell == Some(ShutdownMode::Stop)
    }

    /// Whether the worker has stopped: nothing is left to finish, or the time for it is over.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.stop_by.is_some_and(|by| self.slots.is_empty() || by <= self.commons.now)
    }

    /// Whether another connection may be accepted.
    #[inline]
    pub(crate) fn may_accept(&self) -> bool {
        !self.slots.is_full() && self.gate.is_none()
    }

    /// The process is out of descriptors or memory: accepts again when a connection ends, or a little later.
    /// What waits in the backlog is not lost.
    pub(crate) fn shut_gate(&mut self) {
        self.gate = Some(self.commons.now.after(GATE_MS));
    }
}

impl<S> Drop for Worker<S> {
    /// Nobody reads its mail any more; and what is under way ends here.
    fn drop(&mut self) {
        self.mailbox.close();
        if thread::panicking() {
            return;
        }
        for slot in self.slots.slots.iter_mut().flatten() {
            slot.conn.abandon(&mut self.commons.cx());
            self.commons.spare_records();
        }
        self.commons.give_records();
    }
}

impl WorkerContext {
    /// What a connection may look at and use up.
    #[inline]
    pub(crate) fn cx(&mut self) -> Cx<'_> {
        Cx {
            sites: &mut self.sites,
            pool: &mut self.pool,
            starts: &self.starts,
            now: self.now,
            counters: &self.counters,
            records: &mut self.records,
        }
    }

    /// Hands the records on that have come together.
    #[inline]
    fn give_records(&mut self) {
        if let Some(inlet) = &mut self.inlet
            && !self.records.bytes().is_empty()
        {
            inlet.give(&mut self.records, &self.counters);
        }
    }

    /// The same, once there are so many that one more turn might find no room.
    #[inline]
    fn spare_records(&mut self) {
        if self.records.bytes().len() > RECORDS_LEN / 2 {
            self.give_records();
        }
    }

    /// The site an image belongs to.
    #[inline]
    pub(crate) fn site(&self, image: ImageId) -> &Site {
        &self.served(image).site
    }

    #[inline]
    fn served(&self, image: ImageId) -> &ServedSite {
        self.served[image.index()].as_ref().expect("a site outlives the spans that name its image")
    }

    /// What has to be read before the front of an outbox can be sent: the spans in memory, or the first one, of which
    /// at most `len_max` bytes leave now.
    #[inline]
    pub(crate) fn cold(&mut self, spans: &[Span], file_len_min: u64, len_max: u64) -> Option<NotResident> {
        if !self.in_files || self.waits_for_disk {
            return None;
        }
        for (place, span) in spans.iter().enumerate() {
            if place > 0 && !self.is_in_memory(span, file_len_min) {
                break;
            }
            let (Span::Site { image, .. } | Span::Archive { image, .. } | Span::File { image, .. }) = *span
            else {
                continue;
            };
            let served =
                self.served[image.index()].as_mut().expect("a site outlives the spans that name its image");
            if let Some(stretch) = served.cold(span, len_max, self.now) {
                return Some(NotResident { image, stretch });
            }
        }
        None
    }

    /// Whether a connection can go on with what it wants: it is in memory. Asks the kernel.
    #[cold]
    fn has(&mut self, wanted: Wanted) -> bool {
        self.unknown(wanted).is_none()
    }

    /// What a connection wants and is not in memory. Of an image that is gone nothing is wanted any more.
    #[cold]
    pub(crate) fn unknown(&mut self, Wanted { image, place }: Wanted) -> Option<NotResident> {
        let served = self.served[image.index()].as_mut()?;
        served.unknown(place, self.now).map(|stretch| NotResident { image, stretch })
    }

    /// A stretch of a site was read just now.
    fn learn(&mut self, site: &Arc<Site>, stretch: FileRange) {
        let mut served = self.served.iter_mut().flatten();
        if let Some(served) = served.find(|served| Arc::ptr_eq(&served.site, site)) {
            served.learn(stretch);
        }
    }

    /// Forgets sites that no response under way needs any more.
    #[inline]
    fn retire(&mut self) {
        for image in self.sites.retire() {
            self.served[image.index()] = None;
        }
    }

    /// Whether a span leaves from memory; stretches from `file_len_min` bytes on leave from their descriptor, and so do
    /// files beside an image, and an archive whose map is damaged.
    #[inline]
    pub(crate) fn is_in_memory(&self, span: &Span, file_len_min: u64) -> bool {
        match *span {
            Span::Start(_) | Span::Buf(_) => true,
            Span::Site { len, .. } => len < file_len_min,
            Span::Archive { len, .. } => len < file_len_min && self.is_sound(span),
            Span::File { .. } => false,
        }
    }

    /// The bytes of a span in memory, as of now, to be copied at once; then [`is_sound`](Commons::is_sound) tells
    /// whether they can be sent.
    #[inline]
    pub(crate) fn bytes(&self, span: &Span) -> &[u8] {
        match *span {
            Span::Start(start) => self.starts.bytes(start),
            Span::Site { image, at, len } => self.sites.image(image).bytes(Region { at, len }),
            Span::Buf(run) => self.pool.bytes(run),
            Span::Archive { image, at, len } => {
                self.site(image).archive().map.bytes(Region { at, len }).unwrap_or_default()
            }
            Span::File { .. } => unreachable!("leaves from its descriptor"),
        }
    }

    /// The bytes of a span in memory for the kernel to read, and only for it.
    #[inline]
    pub(crate) fn named(&self, span: &Span) -> &[u8] {
        match *span {
            Span::Archive { image, at, len } => {
                self.site(image).archive().map.named(Region { at, len }).unwrap_or_default()
            }
            Span::Site { image, at, len } => self.site(image).named(Region { at, len }),
            _ => self.bytes(span),
        }
    }

    /// Whether the bytes of a span, when they were read, were those of its home: an archive may be truncated.
    #[inline]
    pub(crate) fn is_sound(&self, span: &Span) -> bool {
        match *span {
            _ if !self.in_files => true,
            Span::Archive { image, .. } => !self.site(image).archive().map.is_damaged(),
            Span::Site { image, .. } => !self.site(image).is_damaged(),
            _ => true,
        }
    }

    /// Offers `run`, which is the inbox or lies in the scratch buffer; keeps what is not used.
    #[inline]
    pub(crate) fn offer<S>(&mut self, slot: &mut Slot<S>, run: Run) -> Result<(), SendError> {
        let mut used = slot.conn.received(&mut self.cx(), Leg::Client, run);
        while let Some(wanted) = slot.conn.wants()
            && self.has(wanted)
        {
            slot.conn.loaded();
            used += slot.conn.received(&mut self.cx(), Leg::Client, run.skip(used));
        }
        if self.is_doubtful() {
            return Err(SendError);
        }
        let rest = run.skip(used);
        match (slot.inbox, rest.len) {
            (None, 0) => {}
            (None, _) => self.keep(slot, rest)?,
            (Some(_), 0) => self.empty_inbox(slot),
            (Some(_), _) => slot.inbox = Some(rest),
        }
        // What waits for room and not for more bytes is offered again as it is.
        slot.fresh = used > 0 || slot.conn.need(Leg::Client).input == Input::Pause;
        Ok(())
    }

    /// Makes a run of the scratch buffer the inbox: the connection keeps that buffer, another takes its place.
    pub(crate) fn keep<S>(&mut self, slot: &mut Slot<S>, run: Run) -> Result<(), SendError> {
        self.scratch = self.pool.take().ok_or(SendError)?;
        slot.inbox = Some(run);
        slot.fresh = true;
        Ok(())
    }

    /// Lets go of what a connection has not used.
    pub(crate) fn empty_inbox<S>(&mut self, slot: &mut Slot<S>) {
        if let Some(run) = slot.inbox.take() {
            self.pool.release(run.buf);
        }
    }

    /// Whether an image that the last answers may have come from has been found truncated.
    #[inline]
    fn is_doubtful(&mut self) -> bool {
        if !self.in_files {
            return false;
        }
        let asked_earlier = self.sites.were_earlier_asked();
        self.sites.chosen().any(|site| {
            let (current, _) = self.sites.current(site);
            self.site(current).is_damaged() || asked_earlier && self.forget_damaged(site)
        })
    }

    /// Answers no longer from earlier images that were truncated. Returns whether there were any.
    #[cold]
    fn forget_damaged(&mut self, site: SiteId) -> bool {
        let (current, _) = self.sites.current(site);
        let (damaged, sound): (Vec<_>, Vec<_>) =
            self.sites.earlier(site).iter().partition(|&&image| self.site(image).is_damaged());
        if damaged.is_empty() {
            return false;
        }
        self.sites.serve(site, current, sound);
        true
    }

    /// From now on these are served.
    fn swap(&mut self, site: SiteId, SiteVersions { current, earlier }: SiteVersions) {
        self.in_files |= earlier.iter().chain([&current]).any(|site| site.is_on_disk());
        let current = self.image_of(site, current);
        let earlier = earlier.iter().map(|earlier| self.image_of(site, Arc::clone(earlier))).collect();
        self.sites.serve(site, current, earlier);
    }

    /// The image of what a site is served from already, or shall be.
    fn image_of(&mut self, site: SiteId, wanted: Arc<Site>) -> ImageId {
        let (current, _) = self.sites.current(site);
        let mut served = [current].into_iter().chain(self.sites.earlier(site).iter().copied());
        let known = served.find(|&image| Arc::ptr_eq(&self.served(image).site, &wanted));
        known.unwrap_or_else(|| {
            let wanted = ServedSite::new(wanted, self.waits_for_disk);
            let image = self.sites.add(wanted.image());
            if self.served.len() <= image.index() {
                self.served.resize_with(image.index() + 1, || None);
            }
            self.served[image.index()] = Some(wanted);
            image
        })
    }
}

/// One connection and what its engine knows of it; `S` is what only that engine knows.
pub(crate) struct Slot<S> {
    pub(crate) fd: OwnedFd,
    pub(crate) conn: Connection,
    /// Received, and not used yet.
    pub(crate) inbox: Option<Run>,
    /// The connection has not seen the inbox as it is now.
    pub(crate) fresh: bool,
    /// Our sending side is closed.
    pub(crate) shut: bool,
    /// What is to be sent is being read into memory, as long as this is there; until then nothing is sent.
    pub(crate) loading: Option<Arc<()>>,
    /// What its engine knows of the socket.
    pub(crate) state: S,
}

impl<S: Default> Slot<S> {
    fn new(fd: OwnedFd, conn: Connection) -> Slot<S> {
        Slot { fd, conn, inbox: None, fresh: false, shut: false, loading: None, state: S::default() }
    }
}

/// The connections of one worker.
pub(crate) struct Slots<S> {
    slots: Vec<Option<Slot<S>>>,
    /// Counts the connections that a slot has seen, so that a late event is not taken for its successor's.
    generations: Vec<u32>,
    free: Vec<u32>,
    count: usize,
    count_max: usize,
}

impl<S> Slots<S> {
    fn new(count_max: usize) -> Slots<S> {
        Slots { slots: Vec::new(), generations: Vec::new(), free: Vec::new(), count: 0, count_max }
    }

    /// Where the next one goes.
    fn next_index(&self) -> u32 {
        self.free.last().copied().unwrap_or(self.slots.len() as u32)
    }

    fn insert(&mut self, slot: Slot<S>) -> u32 {
        self.count += 1;
        if let Some(index) = self.free.pop() {
            self.slots[index as usize] = Some(slot);
            return index;
        }
        self.slots.push(Some(slot));
        self.generations.push(0);
        self.slots.len() as u32 - 1
    }

    fn remove(&mut self, index: u32) -> Slot<S> {
        self.count -= 1;
        self.generations[index as usize] = self.generations[index as usize].wrapping_add(1);
        self.free.push(index);
        self.slots[index as usize].take().expect("a slot is removed once")
    }

    /// The connection in a slot.
    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut Slot<S>> {
        self.slots.get_mut(index as usize)?.as_mut()
    }

    /// Which of the connections that a slot sees is there now.
    pub(crate) fn generation(&self, index: u32) -> u32 {
        self.generations[index as usize]
    }

    /// The slots in use.
    pub(crate) fn indices(&self) -> Vec<u32> {
        (0..self.slots.len()).filter(|&index| self.slots[index].is_some()).map(|index| index as u32).collect()
    }

    /// Of those that keep a buffer for what they have received, the one whose time is over first.
    fn first_to_expire_with_inbox(&self) -> Option<u32> {
        let kept = self.slots.iter().enumerate().filter_map(|(index, slot)| {
            let slot = slot.as_ref().filter(|slot| slot.inbox.is_some())?;
            Some((slot.conn.deadline(), index as u32))
        });
        kept.min().map(|(_, index)| index)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn is_full(&self) -> bool {
        self.count >= self.count_max
    }
}

/// The clock on the wall, in milliseconds since 1970.
fn unix_ms() -> u64 {
    let now = clock_gettime(clock::WALL);
    now.tv_sec.max(0) as u64 * 1_000 + now.tv_nsec as u64 / 1_000_000
}

/// Who connected; clients of Unix sockets have no address.
fn peer(fd: impl AsFd) -> Option<IpAddr> {
    // It fails where the client has gone already.
    let address = getpeername(fd).ok()??;
    SocketAddr::try_from(address).ok().map(|address| address.ip())
}

/// Never waits longer than this at once, in milliseconds: what `epoll_wait` can be told.
pub(crate) const WAIT_MS_MAX: u64 = i32::MAX as u64;

/// A wait as the kernel wants it.
pub(crate) fn timespec(ms: u64) -> Timespec {
    let wait = Duration::from_millis(ms.min(WAIT_MS_MAX));
    Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() }
}
