//! The record of HTTP/2: requests per second and CPU per request.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::machine::MachineInfo;
use super::round::{MeasuredRound, MeasuredServer, clean};
use super::server::PeerServer;
use super::tls::connection_count;
use super::two_cores::TwoCoreCpu;
use crate::format::thousands;
use crate::stats::Spread;

/// How many requests the client sends at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Http2Load {
    pub(crate) connections: u16,
    /// Streams on each connection.
    pub(crate) streams: u16,
}

/// What carries HTTP/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Http2Carrier {
    /// TCP alone
    Clear,
    /// TLS
    Tls,
}

/// All numbers of an experiment, rejected rounds included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Http2RaceRecord {
    /// The command that repeats the experiment.
    pub(crate) command: String,
    pub(crate) machine: MachineInfo,
    pub(crate) settings: Http2RaceSettings,
    /// Name and version of the client.
    pub(crate) client: String,
    pub(crate) servers: Vec<MeasuredServer>,
    /// One for each carrier, length of content and load.
    pub(crate) series: Vec<Http2RaceSeries>,
}

/// The settings, the same for all servers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Http2RaceSettings {
    /// Clean rounds to run.
    pub(crate) rounds: u32,
    /// How long the client sends requests in a window.
    pub(crate) seconds: f64,
    pub(crate) server_core: usize,
    pub(crate) client_core: usize,
    pub(crate) isolated: bool,
    /// The largest clean [`TwoCoreCpu::other_share`].
    pub(crate) other_share_max: f64,
    /// For how much of the time the server may run.
    #[serde(default = "whole")]
    pub(crate) server_percent: u32,
}

/// The server may run all the time.
pub(crate) const WHOLE: u32 = 100;

/// The value of older records.
fn whole() -> u32 {
    WHOLE
}

/// All rounds with one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Http2RaceSeries {
    pub(crate) carrier: Http2Carrier,
    /// Bytes of content in a response.
    pub(crate) size: usize,
    pub(crate) load: Http2Load,
    /// In the order of measurement.
    pub(crate) rounds: Vec<MeasuredRound<Http2RaceWindow>>,
}

/// One window of one server.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Http2RaceWindow {
    pub(crate) server: PeerServer,
    /// Responses that the client received.
    pub(crate) requests: usize,
    /// Requests per second, as the client counts them: without its start and its end.
    pub(crate) rate: f64,
    /// From the start of the client to its end.
    #[serde(flatten)]
    pub(crate) cpu: TwoCoreCpu,
}

impl Http2RaceWindow {
    /// Returns the CPU time of the server per request, in microseconds.
    pub(crate) fn server_us(&self) -> f64 {
        self.cpu.cpu.server_ns as f64 / 1e3 / self.requests as f64
    }

    /// Returns the CPU time of the client per request, in microseconds.
    pub(crate) fn client_us(&self) -> f64 {
        self.cpu.cpu.client_ns as f64 / 1e3 / self.requests as f64
    }

    /// Returns the share of its core that the server used.
    pub(crate) fn server_share(&self) -> f64 {
        self.cpu.cpu.server_ns as f64 / self.cpu.cpu.elapsed_ns as f64
    }

    /// Returns the share of its core that the client used.
    pub(crate) fn client_share(&self) -> f64 {
        self.cpu.cpu.client_ns as f64 / self.cpu.cpu.elapsed_ns as f64
    }
}

impl Http2RaceSeries {
    /// Returns the spread of a number of one server over the clean rounds.
    pub(crate) fn spread(
        &self,
        server: PeerServer,
        number: impl Fn(&Http2RaceWindow) -> f64,
    ) -> Option<Spread> {
        Spread::of(clean(&self.rounds).filter_map(|round| round.http2_window(server)).map(number))
    }

    /// Returns the spread, over the clean rounds, of the ratio between a number of `server` and that of `base` in the same round.
    pub(crate) fn ratio(
        &self,
        server: PeerServer,
        base: PeerServer,
        number: impl Fn(&Http2RaceWindow) -> f64,
    ) -> Option<Spread> {
        let pairs = clean(&self.rounds)
            .filter_map(|round| Some((round.http2_window(server)?, round.http2_window(base)?)));
        Spread::of_ratios(pairs.map(|(window, base)| (number(window), number(base))))
    }

    /// Returns whether the client, and not the server, limits requests per second.
    pub(crate) fn is_limited_by_client(&self, server: PeerServer) -> bool {
        let median = |number: fn(&Http2RaceWindow) -> f64| {
            self.spread(server, number).map_or(0.0, |spread| spread.median)
        };
        let (server, client) = (median(Http2RaceWindow::server_share), median(Http2RaceWindow::client_share));
        client >= FULL_SHARE && server < FULL_SHARE
    }
}

impl MeasuredRound<Http2RaceWindow> {
    fn http2_window(&self, server: PeerServer) -> Option<&Http2RaceWindow> {
        self.windows.iter().find(|window| window.server == server)
    }
}

impl fmt::Display for Http2RaceSeries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let carrier = if self.carrier == Http2Carrier::Tls { "TLS" } else { "Clear text" };
        let size = match self.size {
            size if size >= 1024 && size.is_multiple_of(1024) => format!("{} KiB", thousands(size / 1024)),
            size => format!("{} bytes", thousands(size)),
        };
        let Http2Load { connections, streams } = self.load;
        let plural = if streams == 1 { "" } else { "s" };
        let connections = connection_count(connections.into());
        write!(f, "{carrier}, {size}, {connections} with {streams} stream{plural} each")
    }
}

impl fmt::Display for Http2Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.connections, self.streams)
    }
}

impl FromStr for Http2Load {
    type Err = String;

    fn from_str(text: &str) -> Result<Http2Load, String> {
        let count = |text: &str| text.parse().ok().filter(|count| (1..=COUNT_MAX).contains(count));
        text.split_once('x')
            .and_then(|(connections, streams)| {
                Some(Http2Load { connections: count(connections)?, streams: count(streams)? })
            })
            .ok_or_else(|| format!("not two numbers from 1 to {COUNT_MAX}, such as 32x32"))
    }
}

impl Http2Carrier {
    /// Returns the name on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned())
    }
}

/// Returns the names of carriers as the command line takes them.
pub(crate) fn carrier_names(carriers: &[Http2Carrier]) -> String {
    carriers.iter().map(|carrier| carrier.name()).collect::<Vec<_>>().join(",")
}

/// The share of a core that counts as all of it: the client takes some of a window to start.
const FULL_SHARE: f64 = 0.9;

/// The largest number of connections, or of streams.
const COUNT_MAX: u16 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_is_read_as_it_is_written() {
        for (text, want) in [
            ("32x32", Some((32, 32))),
            ("1x100", Some((1, 100))),
            ("0x1", None),
            ("1", None),
            ("1x10001", None),
        ] {
            let load = text.parse::<Http2Load>().ok();
            assert_eq!(load.map(|load| (load.connections, load.streams)), want, "{text}");
            assert!(load.is_none_or(|load| load.to_string() == text), "{text}");
        }
    }
}
