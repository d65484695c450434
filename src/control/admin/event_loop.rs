//! The event loop of the admin listener: one thread polls the listener and all its clients, and waits for nothing else.
//!
//! ```text
//! poll ─┬─ a client is ready ─▶ receive once, or send once
//!       ├─ the listener is ready ─▶ accept some clients; serve each at once, as its request is often there
//!       ├─ a second has passed ─▶ send an event to each client that watches
//!       └─ the admin listener ends ─▶ accept no more, end the streams, and run until the last client has gone
//! ```
//!
//! The table of clients decides; this loop makes the system calls that `control/sandbox/calls.rs` allows a server.

use super::{
    AdminHandler,
    access::Peer,
    answer::{AdminReply, Responder, busy, page},
    client_table::{ACCEPT_BACKOFF_MS, ClientNeed, ClientTable, REQUEST_LEN_MAX},
    dashboard::EVENTS_HEAD,
};
use crate::sys::{
    io,
    socket::{self, NO_SIGNAL},
    wake::Wake,
};
use rustix::{
    event::{PollFd, PollFlags},
    io::Errno,
    net::{Shutdown, shutdown},
};
use std::{
    os::fd::OwnedFd,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};
use tarpon_conn::Tick;
use tarpon_http::status::Status;

/// The state of the admin thread.
pub(super) struct AdminLoop {
    listener: OwnedFd,
    /// Readable once the admin listener ends.
    end: Arc<Wake>,
    responder: Responder,
    orders: Option<AdminHandler>,
    clients: ClientTable<OwnedFd>,
    start: Instant,
}

/// The result of a wait.
#[derive(Default)]
struct Ready {
    slots: Vec<usize>,
    listener: bool,
    end: bool,
}

/// The number of clients that the loop accepts in one pass. It is a fraction of the slots: a flood of clients needs several passes to evict a
/// client, and each pass receives from it first.
const ACCEPT_MAX: usize = 16;

impl AdminLoop {
    pub(super) fn new(
        listener: OwnedFd,
        end: Arc<Wake>,
        responder: Responder,
        orders: Option<AdminHandler>,
    ) -> AdminLoop {
        let (clients, start) = (ClientTable::new(), Instant::now());
        AdminLoop { listener, end, responder, orders, clients, start }
    }

    pub(super) fn run(mut self) {
        loop {
            let now = self.now();
            drop(self.clients.expired(now));
            if self.clients.has_ended() {
                return;
            }
            if self.clients.takes_event(now) {
                let event = self.responder.event(now.0);
                self.clients.add_event(&event).into_iter().for_each(|slot| self.send(slot));
            }
            let ready = self.wait(now);
            if ready.end {
                drop(self.clients.end(self.now()));
            }
            for slot in ready.slots {
                self.serve(slot);
            }
            if ready.listener && self.clients.accepts() {
                self.accept();
            }
        }
    }

    /// Waits for an event or until the next deadline.
    fn wait(&self, now: Tick) -> Ready {
        let mut slots = Vec::new();
        let mut polled = Vec::new();
        for (slot, socket, need) in self.clients.clients() {
            let flags = match need {
                ClientNeed::Request | ClientNeed::Discard => PollFlags::IN,
                ClientNeed::Send => PollFlags::OUT,
            };
            slots.push(slot);
            polled.push(PollFd::new(socket, flags));
        }
        // Without flags, poll(2) reports nothing of a descriptor but errors, which these two do not have.
        let flags = |is_wanted| if is_wanted { PollFlags::IN } else { PollFlags::empty() };
        polled.push(PollFd::new(&self.listener, flags(self.clients.accepts())));
        polled.push(PollFd::new(&*self.end, flags(!self.clients.is_ending())));
        let wait = self.clients.deadline().map(|Tick(at)| Duration::from_millis(at.saturating_sub(now.0)));
        match io::wait(&mut polled, wait.map(io::timespec).as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ready::default(),
            // The kernel is out of memory: it would serve no client now, and the loop must not spin.
            Err(_) => {
                thread::sleep(Duration::from_millis(ACCEPT_BACKOFF_MS));
                return Ready::default();
            }
        }
        let is_ready: Vec<bool> = polled.iter().map(|polled| !polled.revents().is_empty()).collect();
        let (of_clients, others) = is_ready.split_at(slots.len());
        let ready_slots = slots.iter().zip(of_clients).filter(|(_, is_ready)| **is_ready);
        Ready { slots: ready_slots.map(|(slot, _)| *slot).collect(), listener: others[0], end: others[1] }
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPT_MAX {
            match socket::accept(&self.listener) {
                Ok(client) => {
                    let (slot, evicted) = self.clients.accepted(client, self.now());
                    drop(evicted);
                    self.serve(slot);
                }
                Err(Errno::AGAIN) => return,
                // The client has gone.
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                // Usually the process is out of descriptors: clients wait in the backlog.
                Err(_) => return self.clients.accept_failed(self.now()),
            }
        }
    }

    /// Receives from a client or sends to it, once. An error of a client ends that client only.
    fn serve(&mut self, slot: usize) {
        let Some((client, need)) = self.clients.client(slot) else { return };
        let mut scratch = [0; REQUEST_LEN_MAX];
        let room = match need {
            ClientNeed::Request => self.clients.room(slot),
            ClientNeed::Discard => scratch.len(),
            ClientNeed::Send => return self.send(slot),
        };
        match io::receive(client, &mut scratch[..room]) {
            Ok(0) => drop(self.clients.closed(slot)),
            Ok(len) => {
                self.clients.received(slot, &scratch[..len]);
                if need == ClientNeed::Request {
                    self.answer(slot);
                }
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => drop(self.clients.closed(slot)),
        }
    }

    /// Answers a request, if it is complete.
    fn answer(&mut self, slot: usize) {
        let Some((client, _)) = self.clients.client(slot) else { return };
        let request = self.clients.request(slot);
        let Some(reply) = self.responder.reply(request, || Peer::of(client)) else { return };
        let answer = match (reply, &self.orders) {
            (AdminReply::Answer(answer), _) => answer,
            (AdminReply::Order(order), Some(orders)) => {
                if let Some(client) = self.clients.closed(slot) {
                    orders(order, client);
                }
                return;
            }
            (AdminReply::Events, _) if self.clients.has_stream_slot() => {
                let now = self.now();
                let bytes = [EVENTS_HEAD.as_bytes(), &self.responder.event(now.0)].concat();
                drop(self.clients.streams(slot, bytes, now));
                return self.send(slot);
            }
            (AdminReply::Events, _) => busy(),
            (AdminReply::Order(_), None) => page(Status::NotImplemented, "no supervisor\n"),
        };
        let bytes = answer.bytes(!request.starts_with(b"HEAD "));
        drop(self.clients.answered(slot, bytes));
        self.send(slot);
    }

    /// Sends as much of a response as the kernel takes.
    fn send(&mut self, slot: usize) {
        let Some((client, _)) = self.clients.client(slot) else { return };
        match io::send(client, self.clients.unsent(slot), NO_SIGNAL) {
            Ok(len) => {
                let now = self.now();
                if self.clients.sent(slot, len, now)
                    && let Some((client, _)) = self.clients.client(slot)
                {
                    // A client that has gone is noticed when the loop receives from it.
                    let _ = shutdown(client, Shutdown::Write);
                }
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => drop(self.clients.closed(slot)),
        }
    }

    fn now(&self) -> Tick {
        Tick(self.start.elapsed().as_millis() as u64)
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        base::engine::Engine,
        control::{
            admin::{Admin, Order, client_table::UNSENT_LEN_MAX},
            counters::ServerCounters,
            listeners::Listener,
            stats::ServerStats,
        },
    };
    use std::{
        io::{Read, Write},
        net::Shutdown,
        os::{
            fd::OwnedFd,
            unix::net::{UnixListener, UnixStream},
        },
        path::PathBuf,
        sync::{Arc, mpsc},
        thread,
        time::{Duration, Instant},
    };

    /// An admin listener on a Unix socket.
    struct AdminFixture {
        admin: Admin,
        orders: mpsc::Receiver<(Order, OwnedFd)>,
        path: PathBuf,
        _dir: tempfile::TempDir,
    }

    impl AdminFixture {
        /// Starts an admin listener for a server with this many sites.
        fn start(site_count: usize) -> AdminFixture {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("admin");
            let listener: Listener = UnixListener::bind(&path).unwrap().try_into().unwrap();
            let counters = ServerCounters::alone(1).unwrap();
            let stats = ServerStats::new(Engine::Poll, 1, counters.clone(), &vec![None; site_count], None);
            let (sender, orders) = mpsc::channel();
            let forward = move |order, client| sender.send((order, client)).unwrap();
            let admin = Admin::start_with(&listener, &counters, Some(Arc::new(stats)), forward).unwrap();
            AdminFixture { admin, orders, path, _dir: dir }
        }

        fn send(&self, request: &str) -> UnixStream {
            let mut client = UnixStream::connect(&self.path).unwrap();
            client.write_all(request.as_bytes()).unwrap();
            client
        }

        fn ask(&self, target: &str) -> String {
            rest(self.send(&get(target)))
        }
    }

    fn get(target: &str) -> String {
        format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")
    }

    fn rest(mut client: UnixStream) -> String {
        let mut response = String::new();
        client.read_to_string(&mut response).unwrap();
        response
    }

    #[test]
    fn clients_that_read_nothing_delay_no_other() {
        let fixture = AdminFixture::start(20_000);
        let response = fixture.ask("/metrics");
        assert!(response.len() > UNSENT_LEN_MAX / 4, "{} bytes are too few", response.len());
        let blocked: Vec<_> = (0..8).map(|_| fixture.send(&get("/metrics"))).collect();
        assert!(fixture.ask("/health").ends_with("\r\n\r\nalive\n"));
        assert_eq!(fixture.ask("/metrics").len(), response.len(), "in many parts");
        // Clients that were not evicted still get all of it, and the first was evicted.
        let lens: Vec<_> = blocked.into_iter().map(|client| rest(client).len()).collect();
        assert!(lens[0] < response.len(), "{lens:?}");
    }

    #[test]
    fn order_goes_to_the_supervisor_with_the_connection() {
        let fixture = AdminFixture::start(1);
        let client = fixture.send("POST /reload HTTP/1.1\r\nHost: a\r\n\r\n");
        let (order, connection) = fixture.orders.recv().unwrap();
        assert_eq!(order, Order::Reload);
        assert!(fixture.ask("/health").ends_with("alive\n"), "an order delays no other client");
        let mut connection = UnixStream::from(connection);
        connection.write_all(b"done").unwrap();
        connection.shutdown(Shutdown::Write).unwrap();
        assert_eq!(rest(client), "done");
    }

    #[test]
    fn client_accepted_before_the_end_gets_its_response() {
        let fixture = AdminFixture::start(1);
        let mut early = fixture.send("GET /hea");
        let silent = UnixStream::connect(&fixture.path).unwrap();
        // Clients are accepted in order, so the two above were, too.
        assert!(fixture.ask("/health").ends_with("alive\n"));
        let AdminFixture { admin, path, .. } = fixture;
        let ending = thread::spawn(move || drop(admin));
        early.write_all(b"lth HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        assert!(rest(early).ends_with("alive\n"));
        assert_eq!(rest(silent), "", "closed");
        ending.join().unwrap();
        // A process that another test forks may hold the listener for a moment.
        let end = Instant::now() + Duration::from_secs(20);
        while UnixStream::connect(&path).is_ok() {
            assert!(Instant::now() < end, "the listener is still open");
            thread::yield_now();
        }
    }

    #[test]
    fn refused_client_gets_its_response_though_it_sends_on() {
        let fixture = AdminFixture::start(1);
        // More than the listener receives. It discards the rest, so no reset destroys the response.
        let client = fixture.send(&format!("GET /{}", "x".repeat(100_000)));
        assert!(rest(client).starts_with("HTTP/1.1 431 "));
    }
}
