//! The record of streams: the memory of idle connections of HTTP/2, and of streams whose responses wait for a window.

use serde::{Deserialize, Serialize};

use super::http2::Http2Carrier;
use super::machine::MachineInfo;
use super::memory::MemoryUse;
use super::round::{MeasuredRound, MeasuredServer, clean};
use super::server::PeerServer;
use crate::stats::Spread;

/// All numbers of an experiment with streams.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StreamsRecord {
    /// The command that repeats the experiment.
    pub(crate) command: String,
    pub(crate) machine: MachineInfo,
    pub(crate) settings: StreamsSettings,
    pub(crate) servers: Vec<MeasuredServer>,
    /// One for each carrier.
    pub(crate) series: Vec<StreamsSeries>,
}

/// The settings, the same for all servers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StreamsSettings {
    pub(crate) rounds: u32,
    /// Connections that are open at once.
    pub(crate) connections: u32,
    /// Connections of them with streams, and the streams on each.
    pub(crate) busy_connections: u32,
    pub(crate) streams: u32,
    /// Bytes of content in each response.
    pub(crate) size: usize,
    pub(crate) isolated: bool,
}

/// All rounds with one carrier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StreamsSeries {
    pub(crate) carrier: Http2Carrier,
    /// In the order of measurement. All are clean, as other processes change no memory of a server.
    pub(crate) rounds: Vec<MeasuredRound<StreamsWindow>>,
}

/// One measurement of one server: the memory of all its processes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StreamsWindow {
    pub(crate) server: PeerServer,
    /// Before the first connection.
    pub(crate) before: MemoryUse,
    /// With all connections open and idle.
    pub(crate) idle: MemoryUse,
    /// With all streams open.
    pub(crate) open: MemoryUse,
}

impl StreamsWindow {
    /// Returns the growth of a number until all connections were open, for each of them.
    pub(crate) fn per_connection(&self, settings: &StreamsSettings, number: fn(MemoryUse) -> u64) -> f64 {
        growth(number(self.before), number(self.idle), settings.connections)
    }

    /// Returns the growth of a number until all streams were open, for each of them.
    pub(crate) fn per_stream(&self, settings: &StreamsSettings, number: fn(MemoryUse) -> u64) -> f64 {
        growth(number(self.idle), number(self.open), settings.busy_connections * settings.streams)
    }
}

fn growth(before: u64, after: u64, count: u32) -> f64 {
    (after as f64 - before as f64) / f64::from(count)
}

impl StreamsSeries {
    /// Returns the spread of a number of one server over the rounds.
    pub(crate) fn spread(
        &self,
        server: PeerServer,
        number: impl Fn(&StreamsWindow) -> f64,
    ) -> Option<Spread> {
        let windows = clean(&self.rounds).flat_map(|round| &round.windows);
        Spread::of(windows.filter(|window| window.server == server).map(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_counts_for_each_connection_and_each_stream() {
        let settings = StreamsSettings {
            rounds: 1,
            connections: 10,
            busy_connections: 2,
            streams: 5,
            size: 1024,
            isolated: true,
        };
        let pss = |pss| MemoryUse { pss, ..MemoryUse::default() };
        #[rustfmt::skip]
        let cases = [
            // case        before  idle    open    connection  stream
            ("grows",      1000,   2000,   2500,   100.0,      50.0),
            ("stays",      1000,   1000,   1000,   0.0,        0.0),
            ("shrinks",    1000,   900,    800,    -10.0,      -10.0),
        ];
        for (name, before, idle, open, connection, stream) in cases {
            let server = PeerServer::Nginx;
            let window = StreamsWindow { server, before: pss(before), idle: pss(idle), open: pss(open) };
            assert_eq!(window.per_connection(&settings, |memory| memory.pss), connection, "{name}");
            assert_eq!(window.per_stream(&settings, |memory| memory.pss), stream, "{name}");
        }
    }
}
