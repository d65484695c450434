//! The two sides of a TLS connection, for which rustls has two types: a server with clients, and a client of backends.

use rustls::{
    ClientConfig, CommonState, Error, ServerConfig,
    client::{ClientConnectionData, UnbufferedClientConnection},
    pki_types::ServerName,
    server::{ServerConnectionData, UnbufferedServerConnection},
    unbuffered::{UnbufferedConnectionCommon, UnbufferedStatus},
};
use std::{ops::Deref, sync::Arc};

/// One side of a TLS connection.
pub(super) enum TlsSide {
    Server(UnbufferedServerConnection),
    Client(UnbufferedClientConnection),
}

/// What rustls keeps for one side. Functions over this trait do the same for both.
pub(super) trait SideRecords: Sized {
    /// Lets rustls advance by one state.
    fn process<'c, 'w>(
        conn: &'c mut UnbufferedConnectionCommon<Self>,
        wire: &'w mut [u8],
    ) -> UnbufferedStatus<'c, 'w, Self>;
}

impl TlsSide {
    pub(super) fn server(config: &Arc<ServerConfig>) -> Result<TlsSide, Error> {
        UnbufferedServerConnection::new(Arc::clone(config)).map(TlsSide::Server)
    }

    pub(super) fn client(config: &Arc<ClientConfig>, name: ServerName<'static>) -> Result<TlsSide, Error> {
        UnbufferedClientConnection::new(Arc::clone(config), name).map(TlsSide::Client)
    }
}

impl Deref for TlsSide {
    type Target = CommonState;

    fn deref(&self) -> &CommonState {
        match self {
            TlsSide::Server(conn) => conn,
            TlsSide::Client(conn) => conn,
        }
    }
}

impl SideRecords for ServerConnectionData {
    fn process<'c, 'w>(
        conn: &'c mut UnbufferedConnectionCommon<Self>,
        wire: &'w mut [u8],
    ) -> UnbufferedStatus<'c, 'w, Self> {
        conn.process_tls_records(wire)
    }
}

impl SideRecords for ClientConnectionData {
    fn process<'c, 'w>(
        conn: &'c mut UnbufferedConnectionCommon<Self>,
        wire: &'w mut [u8],
    ) -> UnbufferedStatus<'c, 'w, Self> {
        conn.process_tls_records(wire)
    }
}
