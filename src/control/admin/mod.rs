//! The admin listener: answers monitoring and administrators, on a socket and a thread of its own.
//!
//! | request | answer |
//! |---|---|
//! | `GET /health` | 200: the process is alive |
//! | `GET /ready` | 200 while clients are accepted; 503 before and after that |
//! | `GET /metrics` | [`Metrics`](crate::Metrics) for Prometheus |
//! | `GET /status` | [`Metrics`](crate::Metrics) as JSON |
//! | `GET /dashboard`, `GET /events` | a page for browsers, and the events that keep it current |
//! | `POST /reload`, `POST /upgrade` | the result, if there is a supervisor |
//!
//! ```text
//! listener ─accept─▶ client_table ◀─bytes─ event_loop ─request─▶ answer ─▶ access: may the client ask?
//!                         │                     ▲                   │
//!                         └──── what to do ─────┴──── response ─────┘─ order ─▶ supervisor
//! ```
//!
//! | file | what |
//! |---|---|
//! | `client_table` | which clients to receive from, send to, evict and time out: plain data, without a clock |
//! | `event_loop` | polls the sockets, and makes the system calls |
//! | `answer` | from a request to a response |
//! | `access` | which requests are refused |
//! | `dashboard` | the page, and its events |
//! | `fetch` | the client: `tarpon status`, `reload` and `upgrade` |
//!
//! One request on a connection. Every client that can connect to a Unix socket may read and give orders. Over TCP a token may be asked for; without
//! one every client may read, except the dashboard, and may give orders if it is on this host.
//! The connection of an order goes to the supervisor, which answers when the order is done.

mod access;
mod answer;
mod client_table;
mod dashboard;
mod event_loop;
mod fetch;

pub(crate) use answer::page;
pub use fetch::{fetch_metrics, fetch_metrics_with_token, send_order};

use crate::{
    control::{counters::ServerCounters, listeners::Listener, server::Handle, stats::ServerStats},
    sys::wake::Wake,
};
use answer::Responder;
use event_loop::AdminLoop;
use rustix::io::ioctl_fionbio;
use serde::{Deserialize, Serialize};
use std::{
    io,
    os::fd::OwnedFd,
    sync::{Arc, OnceLock},
    thread::{self, JoinHandle},
};

/// A running admin listener. Dropping it stops it: clients that have connected before get their responses, if they ask within a second.
#[derive(Debug)]
pub struct Admin {
    server: Arc<OnceLock<Arc<ServerStats>>>,
    end: Arc<Wake>,
    thread: Option<JoinHandle<()>>,
}

/// An order to a supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Read the configuration again and serve it.
    Reload,
    /// Start the program file again and hand over to it.
    Upgrade,
}

impl Order {
    /// All orders.
    pub const ALL: [Order; 2] = [Order::Reload, Order::Upgrade];

    /// Returns the request target of the order.
    fn target(self) -> &'static str {
        match self {
            Order::Reload => "/reload",
            Order::Upgrade => "/upgrade",
        }
    }
}

/// Receives orders, each with the connection of its client: a non-blocking socket, to which the receiver writes one response.
type AdminHandler = Box<dyn Fn(Order, OwnedFd) + Send>;

impl Admin {
    /// Starts answering on a listener, which should be [for an admin](Listener::for_admin). Until [`set_server`](Admin::set_server), the
    /// reported state is "starting".
    ///
    /// # Errors
    /// The process is out of threads or descriptors.
    pub fn start(listener: &Listener) -> io::Result<Admin> {
        Admin::start_thread(listener, None, None, None)
    }

    /// Starts answering for a server with a supervisor, which gets the orders. `counters` are those of the service. With `stats`, for a server that already serves.
    pub(crate) fn start_with(
        listener: &Listener,
        counters: &ServerCounters,
        stats: Option<Arc<ServerStats>>,
        orders: impl Fn(Order, OwnedFd) + Send + 'static,
    ) -> io::Result<Admin> {
        Admin::start_thread(listener, Some(counters.clone()), stats, Some(Box::new(orders)))
    }

    fn start_thread(
        listener: &Listener,
        counters: Option<ServerCounters>,
        stats: Option<Arc<ServerStats>>,
        orders: Option<AdminHandler>,
    ) -> io::Result<Admin> {
        let server = Arc::new(stats.map_or_else(OnceLock::new, OnceLock::from));
        let end = Arc::new(Wake::new()?);
        let socket = listener.sockets()[0].try_clone()?;
        // The thread must not wait in accept(2), if another process that shares the listener accepts the client first.
        ioctl_fionbio(&socket, true)?;
        let access = listener.admin_access().clone();
        let responder = Responder { server: Arc::clone(&server), counters, access };
        let event_loop = AdminLoop::new(socket, Arc::clone(&end), responder, orders);
        let thread = thread::Builder::new().name("admin".to_owned()).spawn(move || event_loop.run())?;
        Ok(Admin { server, end, thread: Some(thread) })
    }

    /// Reports on this server, which has started.
    pub fn set_server(&self, server: Handle) {
        self.set_stats(server.stats());
    }

    /// Reports these statistics, for a server without a handle.
    pub(crate) fn set_stats(&self, stats: &Arc<ServerStats>) {
        // The first server stays.
        let _ = self.server.set(Arc::clone(stats));
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        self.end.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
