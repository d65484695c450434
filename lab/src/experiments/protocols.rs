//! A race over HTTPS or HTTP/2: the experiments `tls` and `http2`, with the options of a race.
//!
//! ```text
//! race --protocol https ─▶ tls       one operation for each length: a request, or with --reconnect a handshake
//! race --protocol h2 ────▶ http2     one load for each number of connections, with --pipeline streams each
//! ```
//!
//! Their records are those of `tls` and `http2`, with commands that repeat them.

use std::path::PathBuf;

use clap::ValueEnum;

use super::http2::{self, Http2RaceArgs};
use super::options::{CommonArgs, IsolationArgs, TwoCoreArgs};
use super::tls::{self, TlsArgs};
use crate::error::LabError;
use crate::records::http2::{Http2Carrier, Http2Load};
use crate::records::server::PeerServer;
use crate::records::tls::TlsOperation;

/// The protocol of a race, if it is not HTTP/1.1 in clear text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum RaceProtocol {
    /// HTTP/1.1 with TLS
    Https,
    /// HTTP/2 with TLS
    H2,
    /// HTTP/2 in clear text
    H2c,
}

/// The options of a race that these experiments share.
pub(super) struct ProtocolRace {
    pub(super) protocol: RaceProtocol,
    pub(super) rounds: u32,
    pub(super) seconds: f64,
    pub(super) connections: Vec<usize>,
    /// Lengths of contents, in bytes.
    pub(super) sizes: Vec<usize>,
    /// Requests at once on each connection.
    pub(super) streams: usize,
    /// Each request has a connection of its own.
    pub(super) reconnects: bool,
    pub(super) before: Option<PathBuf>,
    pub(super) servers: Vec<PeerServer>,
    pub(super) cores: TwoCoreArgs,
    pub(super) isolation: IsolationArgs,
    pub(super) common: CommonArgs,
}

impl ProtocolRace {
    /// Runs the experiment. Fails if it does not have what the options ask for.
    pub(super) fn run(self) -> Result<(), LabError> {
        if self.servers.is_empty() {
            return Err("no server left to measure; change `--only` or `--peers`".into());
        }
        match self.protocol {
            RaceProtocol::Https => {
                let (operations, connections) = (self.operations()?, self.tls_connections()?);
                tls::run(&TlsArgs::of_race(self, operations, connections))
            }
            RaceProtocol::H2 | RaceProtocol::H2c => {
                let (loads, sizes) = (self.loads()?, self.http2_sizes()?);
                let is_clear = self.protocol == RaceProtocol::H2c;
                let carrier = if is_clear { Http2Carrier::Clear } else { Http2Carrier::Tls };
                http2::run(&Http2RaceArgs::of_race(self, loads, sizes, carrier))
            }
        }
    }

    /// Returns an operation of TLS for each length.
    fn operations(&self) -> Result<Vec<TlsOperation>, String> {
        if self.streams > 1 {
            return Err("over HTTPS there is one request at a time: leave `--pipeline` out".into());
        }
        let operation = |size: &usize| match size {
            1024 if self.reconnects => Ok(TlsOperation::Full),
            1024 => Ok(TlsOperation::Small),
            65536 if !self.reconnects => Ok(TlsOperation::Large),
            _ => Err("over HTTPS, `--size` is 1024, or 65536 without `--reconnect`".into()),
        };
        self.sizes.iter().map(operation).collect()
    }

    /// Returns the number of connections with TLS.
    fn tls_connections(&self) -> Result<u16, String> {
        match self.connections[..] {
            [count] if count <= TLS_CONNECTIONS_MAX => Ok(count as u16),
            _ => Err(format!("over HTTPS, `--connections` is one number up to {TLS_CONNECTIONS_MAX}")),
        }
    }

    /// Returns a load of HTTP/2 for each number of connections.
    fn loads(&self) -> Result<Vec<Http2Load>, String> {
        if self.reconnects {
            return Err("over HTTP/2, connections stay open: leave `--reconnect` out".into());
        }
        let load = |connections: &usize| format!("{connections}x{}", self.streams).parse();
        self.connections.iter().map(load).collect()
    }

    fn http2_sizes(&self) -> Result<Vec<u32>, LabError> {
        Ok(self.sizes.iter().map(|size| u32::try_from(*size)).collect::<Result<_, _>>()?)
    }
}

/// The most connections of `tarpon-lab tls`.
const TLS_CONNECTIONS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::options::CoreArgs;

    #[test]
    fn lengths_are_operations_of_tls() {
        use TlsOperation::*;
        #[rustfmt::skip]
        let cases: &[(&str, &[usize], bool, usize, WantedOperations)] = &[
            // case              lengths         reconnects  streams  operations
            ("usual",            &[1024],        false,      1,       Some(&[Small])),
            ("both",             &[1024, 65536], false,      1,       Some(&[Small, Large])),
            ("new connections",  &[1024],        true,       1,       Some(&[Full])),
            ("long, new",        &[65536],       true,       1,       None),
            ("another length",   &[2048],        false,      1,       None),
            ("pipelined",        &[1024],        false,      2,       None),
        ];
        for (name, sizes, reconnects, streams, want) in cases {
            let race = race(&[64], sizes, *streams, *reconnects);
            assert_eq!(race.operations().ok().as_deref(), *want, "{name}");
        }
        assert_eq!(race(&[64], &[1024], 1, false).tls_connections(), Ok(64));
        for connections in [&[1, 2][..], &[1025]] {
            assert!(race(connections, &[1024], 1, false).tls_connections().is_err(), "{connections:?}");
        }
    }

    #[test]
    fn connections_are_loads_of_http2() {
        let load = |connections, streams| Http2Load { connections, streams };
        let loads =
            |connections, streams, reconnects| race(connections, &[9], streams, reconnects).loads().ok();
        assert_eq!(loads(&[64], 1, false), Some(vec![load(64, 1)]));
        assert_eq!(loads(&[1, 32], 16, false), Some(vec![load(1, 16), load(32, 16)]));
        assert_eq!(loads(&[64], 1, true), None);
        assert_eq!(loads(&[10_001], 1, false), None);
        assert_eq!(race(&[1], &[9, 1024], 1, false).http2_sizes().unwrap(), [9, 1024]);
    }

    /// `None`: the options are refused.
    type WantedOperations = Option<&'static [TlsOperation]>;

    fn race(connections: &[usize], sizes: &[usize], streams: usize, reconnects: bool) -> ProtocolRace {
        ProtocolRace {
            protocol: RaceProtocol::Https,
            rounds: 1,
            seconds: 1.0,
            connections: connections.to_vec(),
            sizes: sizes.to_vec(),
            streams,
            reconnects,
            before: None,
            servers: vec![PeerServer::TarponEpoll],
            cores: TwoCoreArgs::with_client_core(&CoreArgs { core: None, idle_wait: 0 }),
            isolation: IsolationArgs { no_isolation: true, congestion_control: String::new() },
            common: CommonArgs { tarpon: None, out: None },
        }
    }
}
