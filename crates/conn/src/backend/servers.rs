//! The servers of backends: what a connection sends them, and which of several gets an exchange.
//!
//! ```text
//! exchange ─ BackendServers::choose ─▶ ServerId ─┬─ an idle connection to it
//!                                                └─ a new one, which the engine makes
//! connection ─ ServerEvent ─▶ BackendServers::note      counts, by which the next choice is made
//! ```

use super::{BackendId, ServerReport};
use crate::Tick;
use std::fmt;

/// A server of a backend. Several backends may have the same server, and share its idle connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(u32);

/// Upstream servers have numbers from here on, and backends of this program those below.
const UPSTREAM: u32 = 1 << 16;

impl ServerId {
    /// Returns the only server of a backend that runs in this program or beside it.
    #[must_use]
    pub fn of_backend(BackendId(number): BackendId) -> ServerId {
        ServerId(u32::from(number))
    }

    /// Returns an upstream server by its number among all.
    #[must_use]
    pub fn upstream(number: u16) -> ServerId {
        ServerId(UPSTREAM | u32::from(number))
    }

    /// Returns the number of an upstream server. `None`: it is none.
    #[must_use]
    pub fn upstream_number(self) -> Option<u16> {
        (self.0 >= UPSTREAM).then_some(self.0 as u16)
    }
}

/// The language that the servers of a backend speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendProtocol {
    /// The frames of backends that run in this program or beside it.
    #[default]
    Frames,
    /// HTTP/1.1. RFC 9112.
    Http1,
    /// FastCGI 1.0.
    FastCgi,
}

/// What a backend needs besides its route. The default is that of backends that speak frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackendSettings {
    /// The language of its servers.
    pub protocol: BackendProtocol,
    /// The host in the requests that it gets. `None`: the host that the client has named.
    pub host: Option<Box<str>>,
    /// What stands in requests in the place of a prefix of the path. `None`: the path of the client.
    pub rewrite: Option<PathRewrite>,
    /// The part of a request by which its server is chosen.
    pub hash_key: HashKey,
    /// What requests of FastCGI name besides the fields of the client.
    pub fastcgi: Option<FastCgiSettings>,
}

/// Replaces a prefix of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathRewrite {
    /// The length of the prefix that is removed, in bytes of a normalized path: without a slash at its end.
    pub prefix_len: usize,
    /// What stands in its place: without a slash at its end, so it may be empty.
    pub base: Box<str>,
}

/// The part of a request by which a server is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HashKey {
    /// Nothing: no exchanges belong together.
    #[default]
    Nothing,
    /// The address of the client.
    Client,
    /// The path, without the query.
    Path,
}

/// What requests of FastCGI name besides the fields of the client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FastCgiSettings {
    /// The directory of the scripts: `DOCUMENT_ROOT`, and the start of `SCRIPT_FILENAME`.
    pub root: Box<str>,
    /// The script for paths that end with a slash, such as `index.php`.
    pub index: Box<str>,
    /// How the name of a script ends, such as `.php`: what follows is its `PATH_INFO`. Empty: the whole path names a script.
    pub suffix: Box<str>,
    /// Further parameters.
    pub params: Vec<(Box<str>, Box<str>)>,
}

/// Chooses servers, and counts events at them. All workers share the counts.
pub trait BackendServers: fmt::Debug + Send {
    /// Chooses a server for an exchange, other than those tried. `key`: the hash of the exchange. `None`: no server can take it now.
    fn choose(&mut self, backend: BackendId, key: u64, tried: &[ServerId], now: Tick) -> Option<ServerId>;

    /// Returns whether another idle connection to a server is wanted, of all workers together.
    fn keeps_idle(&mut self, server: ServerId) -> bool;

    /// Counts an event at an upstream server.
    fn note(&mut self, server: ServerId, event: ServerEvent);

    /// Takes a report about an upstream server, without waiting.
    fn report(&mut self, server: ServerId, report: ServerReport<'_>);
}

/// An event at an upstream server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerEvent {
    /// A connection begins.
    Opened,
    /// A connection has closed.
    Closed,
    /// A connection waits for an exchange.
    IdleBegan,
    /// A connection no longer waits: an exchange takes it, or it closes.
    IdleEnded,
    /// An exchange begins on a connection.
    ExchangeBegan,
    /// An exchange has ended.
    ExchangeEnded(ServerOutcome),
    /// An exchange is repeated at this server or another one: its connection closed before the response.
    Retried,
}

/// How an exchange with a server has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerOutcome {
    /// With a whole response of this status.
    Responded(u16),
    /// The server has closed the connection, or its response is invalid.
    Failed,
    /// The server has been silent for too long.
    TimedOut,
    /// The client has left, or this server has ended it: it says nothing about the server.
    Abandoned,
}

/// The servers of a worker without upstream servers.
#[derive(Debug)]
pub(crate) struct NoServers;

impl BackendServers for NoServers {
    fn choose(&mut self, _: BackendId, _: u64, _: &[ServerId], _: Tick) -> Option<ServerId> {
        None
    }

    fn keeps_idle(&mut self, _: ServerId) -> bool {
        false
    }

    fn note(&mut self, _: ServerId, _: ServerEvent) {}

    fn report(&mut self, _: ServerId, _: ServerReport<'_>) {}
}
