//! The event loop of the helper: one thread, which waits in poll(2) and nowhere else.
//!
//! ```text
//! poll ─▶ new connections ─▶ frames, input and output of programs ─▶ ends and deadlines ─▶ programs for free places ─┐
//!   ▲                                                                                                               │
//!   └───────────────────────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```

use super::{
    connection::{CgiConnection, ConnectionEvent, RequestState},
    ending::{EndingProgram, GRACE_TIME, RunningProcess},
    environment::{CommonEnvironment, arguments, environment},
    exchange::{ExchangeProgress, ProgramExchange},
    program_log::ProgramLog,
    request::{CgiRefusal, CgiRequest},
    resolve::{Distrust, resolve},
    service::CgiMount,
    stats::{CgiCount, CgiStats},
};
use crate::{
    base::{cgi_config::CgiConfig, error::reason},
    data::services::HelperEndpoint,
    sys::{
        poll::{PollEntry, PollEvents, poll},
        socket::RDHUP,
        spawn::{ProgramLimit, SpawnPlan, spawn},
    },
};
use libc::{POLLIN, POLLOUT};
use rustix::io::{Errno, ioctl_fionbio};
use std::{
    collections::{BTreeMap, VecDeque},
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};
use tarpon_http::Status;

/// Connections of all workers, at most. Each worker has one for each request in progress, and a few idle ones.
const CONNECTION_COUNT_MAX: usize = 4096;

/// New connections in one turn of the loop.
const ACCEPTS_PER_TURN: usize = 64;

/// How long the loop waits when poll(2) fails: the system is out of memory.
const POLL_RETRY_TIME: Duration = Duration::from_millis(10);

/// The state of the helper.
pub(super) struct CgiHelper<'a> {
    pub(super) config: &'a CgiConfig,
    pub(super) mounts: &'a [CgiMount],
    pub(super) distrust: &'a Distrust,
    pub(super) common: CommonEnvironment,
    pub(super) limits: Vec<ProgramLimit>,
    /// Landlock rules of programs.
    pub(super) rules: Option<OwnedFd>,
    pub(super) stats: &'a CgiStats,
    pub(super) log: ProgramLog,
    connections: BTreeMap<u64, CgiConnection>,
    connection_count: u64,
    /// Connections whose requests wait for a free place.
    queue: VecDeque<u64>,
    /// Programs that have answered, or are to end.
    ending: Vec<EndingProgram>,
    /// Programs that run, with those that are to end.
    running_count: usize,
}

/// What a polled descriptor belongs to.
#[derive(Clone, Copy)]
enum Polled {
    Supervisor,
    Endpoint,
    Socket(u64),
    Input(u64),
    Output(u64),
    Error(u64),
    /// Handled by the update that follows every wait.
    Exit,
    EndingError(usize),
}

impl<'a> CgiHelper<'a> {
    pub(super) fn new(
        config: &'a CgiConfig,
        mounts: &'a [CgiMount],
        distrust: &'a Distrust,
        stats: &'a CgiStats,
        rules: Option<OwnedFd>,
    ) -> CgiHelper<'a> {
        CgiHelper {
            config,
            mounts,
            distrust,
            common: common_environment(config),
            limits: program_limits(config),
            rules,
            stats,
            log: ProgramLog::new(Instant::now()),
            connections: BTreeMap::new(),
            connection_count: 0,
            queue: VecDeque::new(),
            ending: Vec::new(),
            running_count: 0,
        }
    }

    /// Runs until the supervisor ends it. Leaves no program.
    pub(super) fn run(&mut self, endpoint: &HelperEndpoint, supervisor: BorrowedFd<'_>) {
        loop {
            let ready = self.wait(endpoint, supervisor);
            let now = Instant::now();
            for polled in ready {
                match polled {
                    // It says nothing else.
                    Polled::Supervisor => return self.end(now),
                    Polled::Endpoint => self.accept(endpoint, now),
                    Polled::Socket(id) => self.receive(id, now),
                    Polled::Input(id) => self.with_exchange(id, |exchange, _, _| exchange.write_input(now)),
                    Polled::Output(id) => self.read_output(id, now),
                    Polled::Error(id) => {
                        self.with_exchange(id, |exchange, _, log| exchange.process.read_error(log, now));
                    }
                    Polled::EndingError(at) => {
                        if let Some(ending) = self.ending.get_mut(at) {
                            ending.process.read_error(&mut self.log, now);
                        }
                    }
                    Polled::Exit => {}
                }
            }
            self.update(now);
            self.start_waiting(now);
            self.send_all();
        }
    }

    /// Waits for events, or until the next deadline.
    fn wait(&self, endpoint: &HelperEndpoint, supervisor: BorrowedFd<'_>) -> Vec<Polled> {
        let mut polled = vec![Polled::Supervisor];
        let mut entries = vec![PollEntry::new(supervisor, POLLIN)];
        let mut add = |of: Polled, descriptor: BorrowedFd<'_>, wanted: PollEvents| {
            polled.push(of);
            entries.push(PollEntry::new(descriptor, wanted));
        };
        add(Polled::Endpoint, endpoint.as_fd(), POLLIN);
        for (&id, connection) in &self.connections {
            let input = if connection.wants_input() { POLLIN } else { 0 };
            let output = if connection.has_output() { POLLOUT } else { 0 };
            // Polled without a wish, too: it reports that the worker has closed.
            add(Polled::Socket(id), connection.socket(), input | output | RDHUP);
            let RequestState::Running(exchange) = &connection.state else { continue };
            if let Some(input) = exchange.waiting_input() {
                add(Polled::Input(id), input, POLLOUT);
            }
            if let Some(output) = exchange.readable_output(connection.output().len()) {
                add(Polled::Output(id), output, POLLIN);
            }
            if let Some(error) = exchange.process.error() {
                add(Polled::Error(id), error, POLLIN);
            }
            if exchange.waits_for_exit()
                && let Some(pidfd) = exchange.process.pidfd()
            {
                add(Polled::Exit, pidfd, POLLIN);
            }
        }
        for (at, ending) in self.ending.iter().enumerate() {
            if let Some(pidfd) = ending.process.pidfd() {
                add(Polled::Exit, pidfd, POLLIN);
            }
            if let Some(error) = ending.process.error() {
                add(Polled::EndingError(at), error, POLLIN);
            }
        }
        let now = Instant::now();
        let wait = self.deadline().map(|at| at.saturating_duration_since(now).as_millis() as u64 + 1);
        match poll(&mut entries, wait) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => std::thread::sleep(POLL_RETRY_TIME),
        }
        let is_ready = |(entry, _): &(&PollEntry, Polled)| entry.revents() != 0;
        entries.iter().zip(polled).filter(is_ready).map(|(_, of)| of).collect()
    }

    /// Returns when the next deadline is.
    fn deadline(&self) -> Option<Instant> {
        let of_connection = |connection: &CgiConnection| match &connection.state {
            RequestState::Running(exchange) => {
                let timeout = exchange.progress_at + self.config.timeout;
                Some(exchange.exit_deadline().map_or(timeout, |exit| exit.min(timeout)))
            }
            RequestState::Waiting { since, .. } => Some(*since + self.config.timeout),
            _ => None,
        };
        let ending = self.ending.iter().map(|ending| ending.kill_at);
        self.connections.values().filter_map(of_connection).chain(ending).min()
    }

    fn accept(&mut self, endpoint: &HelperEndpoint, now: Instant) {
        for _ in 0..ACCEPTS_PER_TURN {
            let Some((number, socket)) = endpoint.receive_passed::<2>() else { return };
            let mount = usize::from(u16::from_le_bytes(number));
            if mount >= self.mounts.len() {
                continue;
            }
            if self.connections.len() >= CONNECTION_COUNT_MAX {
                self.evict(now);
            }
            self.connection_count += 1;
            self.connections.insert(self.connection_count, CgiConnection::new(socket, mount, now));
        }
    }

    /// Closes the connection that has no request for the longest time, or else the oldest one: workers of ours have fewer.
    fn evict(&mut self, now: Instant) {
        let idle = self.connections.iter().filter(|(_, connection)| !connection.has_request());
        let longest = idle.min_by_key(|(_, connection)| connection.used_at).map(|(&id, _)| id);
        let oldest = || self.connections.keys().next().copied();
        if let Some(id) = longest.or_else(oldest) {
            self.close(id, now);
        }
    }

    fn receive(&mut self, id: u64, now: Instant) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let event = match connection.wants_input() {
            true => connection.receive(now),
            // The peer has closed, as nothing else was asked for; or there is room for output.
            false => match connection.send() {
                true => return self.check_closed(id, now),
                false => ConnectionEvent::Closed,
            },
        };
        self.handle(id, event, now);
    }

    /// Ends a connection whose worker has closed while nothing was read from it.
    fn check_closed(&mut self, id: u64, now: Instant) {
        let Some(connection) = self.connections.get(&id) else { return };
        let mut entries = [PollEntry::new(connection.socket(), RDHUP)];
        if poll(&mut entries, Some(0)).is_ok_and(|count| count > 0) {
            self.close(id, now);
        }
    }

    fn handle(&mut self, id: u64, event: ConnectionEvent, now: Instant) {
        match event {
            ConnectionEvent::Pending => {}
            ConnectionEvent::Closed => self.close(id, now),
            ConnectionEvent::Refused(why) => self.refuse(id, why, now),
            ConnectionEvent::Waiting
                if self.queue.len() >= self.config.max_queue as usize && self.is_full() =>
            {
                self.stats.add(CgiCount::Refused);
                self.refuse(id, CgiRefusal::Full, now);
            }
            ConnectionEvent::Waiting => {
                self.stats.add(CgiCount::Queued);
                self.queue.push_back(id);
            }
        }
    }

    fn is_full(&self) -> bool {
        self.running_count >= self.config.max_programs as usize
    }

    /// Forgets a connection, and ends its program.
    fn close(&mut self, id: u64, now: Instant) {
        self.leave_queue(id);
        let Some(connection) = self.connections.remove(&id) else { return };
        if let RequestState::Running(exchange) = connection.state {
            self.end_program(*exchange, now + GRACE_TIME);
        }
    }

    fn leave_queue(&mut self, id: u64) {
        if let Some(at) = self.queue.iter().position(|waiting| *waiting == id) {
            self.queue.remove(at);
            self.stats.subtract(CgiCount::Queued, 1);
        }
    }

    /// Lets a program end by itself until then. It gets EOF, and SIGPIPE if it writes more.
    fn end_program(&mut self, exchange: ProgramExchange, kill_at: Instant) {
        self.ending.push(EndingProgram { process: exchange.process, kill_at });
    }

    fn refuse(&mut self, id: u64, why: CgiRefusal, now: Instant) {
        self.leave_queue(id);
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if let (Some(message), RequestState::Waiting { request, .. }) = (why.message(), &connection.state) {
            self.log.emit(now, &request.path, message);
        }
        if let Some(exchange) = connection.abort(why.status()) {
            self.end_program(*exchange, now + GRACE_TIME);
        }
    }

    fn with_exchange(
        &mut self,
        id: u64,
        act: impl FnOnce(&mut ProgramExchange, &mut Vec<u8>, &mut ProgramLog),
    ) {
        if let Some((exchange, frames)) = self.connections.get_mut(&id).and_then(CgiConnection::exchange) {
            act(exchange, frames, &mut self.log);
        }
    }

    fn read_output(&mut self, id: u64, now: Instant) {
        let connection = self.connections.get_mut(&id);
        if let Some((exchange, frames)) = connection.and_then(CgiConnection::exchange) {
            let progress = exchange.read_output(frames, now);
            self.handle_progress(id, progress, now);
        }
    }

    fn handle_progress(&mut self, id: u64, progress: ExchangeProgress, now: Instant) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let name = || match &connection.state {
            RequestState::Running(exchange) => exchange.process.name.clone(),
            _ => Vec::new(),
        };
        let (ended, kill_at) = match progress {
            ExchangeProgress::Pending => return,
            ExchangeProgress::Complete => (connection.complete(), now + self.config.timeout),
            ExchangeProgress::Redirected => (connection.finish(), now + self.config.timeout),
            ExchangeProgress::Failed(status, what) => {
                self.log.emit(now, &name(), &what);
                self.stats.add(CgiCount::Failed);
                (connection.abort(status), now + GRACE_TIME)
            }
            ExchangeProgress::TimedOut => {
                let what = format!("killed after {:?} without progress", self.config.timeout);
                self.log.emit(now, &name(), &what);
                self.stats.add(CgiCount::TimedOut);
                (connection.abort(Status::GatewayTimeout), now)
            }
        };
        if let Some(exchange) = ended {
            self.end_program(*exchange, kill_at);
        }
        // The next request may have arrived.
        if let Some(connection) = self.connections.get_mut(&id) {
            let event = connection.advance(now);
            self.handle(id, event, now);
        }
    }

    /// Handles exits, deadlines, and input that had no room.
    fn update(&mut self, now: Instant) {
        let ids: Vec<u64> = self.connections.keys().copied().collect();
        for id in ids {
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            match &connection.state {
                RequestState::Waiting { since, .. } if now >= *since + self.config.timeout => {
                    self.stats.add(CgiCount::Refused);
                    self.refuse(id, CgiRefusal::Full, now);
                }
                RequestState::Running(_) => {
                    let event = connection.advance(now);
                    self.handle(id, event, now);
                    let timeout = self.config.timeout;
                    let Some(connection) = self.connections.get_mut(&id) else { continue };
                    let Some((exchange, frames)) = connection.exchange() else { continue };
                    exchange.write_input(now);
                    let mut progress = exchange.update(frames, now);
                    if exchange.waits_for_worker(frames.len()) {
                        exchange.progress_at = now;
                    } else if progress == ExchangeProgress::Pending && now >= exchange.progress_at + timeout {
                        progress = ExchangeProgress::TimedOut;
                    }
                    self.handle_progress(id, progress, now);
                }
                _ => {}
            }
        }
        let (log, stats, before) = (&mut self.log, self.stats, self.ending.len());
        self.ending.retain_mut(|ending| !ending.update(log, stats, now));
        self.running_count -= before - self.ending.len();
    }

    /// Starts programs for requests that wait, while there are free places.
    fn start_waiting(&mut self, now: Instant) {
        while !self.is_full()
            && let Some(id) = self.queue.pop_front()
        {
            self.stats.subtract(CgiCount::Queued, 1);
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            let mount = &self.mounts[connection.mount];
            let is_complete = connection.is_request_complete();
            let RequestState::Waiting { request, content, .. } = &mut connection.state else { continue };
            let content = std::mem::take(content);
            let length = match (request.content_length, content.len()) {
                (None, 0) => None,
                (None, len) => Some(len as u64),
                (length, _) => length,
            };
            let request = request.clone();
            match self.start(mount, &request, length, content, now) {
                Ok(mut exchange) => {
                    self.stats.add(CgiCount::Started);
                    self.stats.add(CgiCount::Running);
                    self.running_count += 1;
                    exchange.is_content_complete = is_complete;
                    let Some(connection) = self.connections.get_mut(&id) else { continue };
                    connection.state = RequestState::Running(Box::new(exchange));
                    // Content may have arrived behind the head.
                    let event = connection.advance(now);
                    self.handle(id, event, now);
                    self.with_exchange(id, |exchange, _, _| exchange.write_input(now));
                }
                Err(why) => self.refuse(id, why, now),
            }
        }
    }

    fn start(
        &mut self,
        mount: &CgiMount,
        request: &CgiRequest,
        content_length: Option<u64>,
        content: Vec<u8>,
        now: Instant,
    ) -> Result<ProgramExchange, CgiRefusal> {
        let program = resolve(mount, self.distrust, &request.path)?;
        let environment = environment(&self.common, mount, &program, request, content_length)
            .ok_or(CgiRefusal::Malformed)?;
        let arguments = arguments(&program, request);
        let name = request.path[..program.script_len].to_vec();
        let started = pipes().and_then(|[(input, to_input), (from_output, output), (from_error, error)]| {
            let spawned = spawn(&SpawnPlan {
                directory: program.directory.as_fd(),
                program: &program.file,
                arguments: &arguments,
                environment: &environment,
                streams: [input.as_fd(), output.as_fd(), error.as_fd()],
                limits: &self.limits,
                rules: self.rules.as_ref().map(AsFd::as_fd),
            })?;
            Ok((RunningProcess::new(spawned, name.clone(), from_error), [to_input, from_output]))
        });
        match started {
            Ok((process, streams)) => Ok(ProgramExchange::new(
                process,
                request.clone(),
                streams,
                content,
                self.config.max_output,
                now,
            )),
            Err(error) => {
                self.stats.add(CgiCount::Failed);
                let hint = match error.kind() {
                    io::ErrorKind::NotFound => "; does the program after #! in its first line exist?",
                    _ if error.raw_os_error() == Some(libc::ENOEXEC) => {
                        "; does its first line begin with #!?"
                    }
                    _ => "",
                };
                self.log.emit(now, &name, &format!("cannot start: {}{hint}", reason(&error)));
                Err(CgiRefusal::CannotStart)
            }
        }
    }

    fn send_all(&mut self) {
        let now = Instant::now();
        let gone: Vec<u64> = self
            .connections
            .iter_mut()
            .filter_map(|(&id, connection)| (!connection.send()).then_some(id))
            .collect();
        gone.into_iter().for_each(|id| self.close(id, now));
    }

    /// Kills all programs and reaps them.
    fn end(&mut self, now: Instant) {
        let ids: Vec<u64> = self.connections.keys().copied().collect();
        ids.into_iter().for_each(|id| self.close(id, now));
        for mut ending in self.ending.drain(..) {
            ending.process.reap(&mut self.log, now);
            self.stats.subtract(CgiCount::Running, 1);
        }
    }
}

/// Returns pipes for the standard streams: for each, the end to read and the end to write. The ends of the helper do not block.
fn pipes() -> io::Result<[(OwnedFd, OwnedFd); 3]> {
    let pipe = || io::pipe().map(|(reader, writer)| (OwnedFd::from(reader), OwnedFd::from(writer)));
    let pipes = [pipe()?, pipe()?, pipe()?];
    for ours in [&pipes[0].1, &pipes[1].0, &pipes[2].0] {
        ioctl_fionbio(ours, true)?;
    }
    Ok(pipes)
}

/// Returns the variables of the configuration.
fn common_environment(config: &CgiConfig) -> CommonEnvironment {
    use std::os::unix::ffi::OsStringExt;
    let value = |(name, value): &(String, Option<String>)| {
        let value = match value {
            Some(value) => value.clone().into_bytes(),
            None => std::env::var_os(name)?.into_vec(),
        };
        Some((name.clone(), value))
    };
    CommonEnvironment {
        configured: config.environment.iter().filter_map(value).collect(),
        passes_authorization: config.passes_authorization,
    }
}

fn program_limits(config: &CgiConfig) -> Vec<ProgramLimit> {
    let mut limits = vec![
        ProgramLimit::cpu_s(config.max_cpu_time.as_secs().max(1)),
        ProgramLimit::memory(config.max_memory),
        ProgramLimit::open_files(config.max_open_files.into()),
        ProgramLimit::file_len(config.max_file_size),
        ProgramLimit::no_core(),
    ];
    limits.extend(config.max_processes.map(|count| ProgramLimit::processes(count.into())));
    limits
}
