//! The configuration of the access log and of the event log.

use std::{
    fmt,
    num::NonZeroU32,
    path::PathBuf,
    str::FromStr,
    time::{Duration, SystemTime},
};
use tarpon_site::Printable;

/// The content and format of the access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logging {
    /// The format of a line. Default: `Combined`.
    pub format: LogFormat,
    /// How much of the client's IP address a line contains. Default: `Full`.
    pub client_ip: LogClientIp,
    /// Logs a random sample of one in this many exchanges. Exchanges with status 400 or above are always logged. Default: 1, all of them.
    pub sample: NonZeroU32,
}

impl Default for Logging {
    fn default() -> Logging {
        Logging { format: LogFormat::default(), client_ip: LogClientIp::default(), sample: NonZeroU32::MIN }
    }
}

/// The format of a line of the access log. Times are UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// The Common Log Format.
    Common,
    /// The Common Log Format with Referer and User-Agent appended.
    #[default]
    Combined,
    /// A JSON object.
    Json,
    /// Address, time, request-line, status, bytes.
    Simple,
}

impl LogFormat {
    /// All formats.
    pub const ALL: [LogFormat; 4] =
        [LogFormat::Common, LogFormat::Combined, LogFormat::Json, LogFormat::Simple];

    /// Returns the name that options and messages use.
    pub fn name(self) -> &'static str {
        match self {
            LogFormat::Common => "common",
            LogFormat::Combined => "combined",
            LogFormat::Json => "json",
            LogFormat::Simple => "simple",
        }
    }
}

impl FromStr for LogFormat {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<LogFormat, &'static str> {
        LogFormat::ALL
            .into_iter()
            .find(|format| format.name() == text)
            .ok_or("expected common, combined, json or simple")
    }
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How much of a client's IP address the access log contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogClientIp {
    /// The whole address.
    #[default]
    Full,
    /// The network: the first three bytes of an IPv4 address, the first six of an IPv6 address.
    Truncated,
    /// No address.
    None,
}

impl LogClientIp {
    /// All modes.
    pub const ALL: [LogClientIp; 3] = [LogClientIp::Full, LogClientIp::Truncated, LogClientIp::None];

    /// Returns the name that options and messages use.
    pub fn name(self) -> &'static str {
        match self {
            LogClientIp::Full => "full",
            LogClientIp::Truncated => "truncated",
            LogClientIp::None => "none",
        }
    }
}

impl FromStr for LogClientIp {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<LogClientIp, &'static str> {
        LogClientIp::ALL
            .into_iter()
            .find(|mode| mode.name() == text)
            .ok_or("expected full, truncated or none")
    }
}

impl fmt::Display for LogClientIp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The access log of one site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SiteLog {
    /// The server's log with the server's settings: see [`Settings::logging`](crate::Settings::logging).
    #[default]
    Server,
    /// No log.
    Off,
    /// The server's log, with these settings.
    Shared(Logging),
    /// A separate log with these settings. [`Handle::log_site_to`](crate::Handle::log_site_to) sets its target.
    Own(Logging),
}

impl SiteLog {
    /// Returns the log settings of the site with this number, and the log that its lines go to, given the settings of the server.
    /// `None`: the site has no log.
    pub(crate) fn resolve(self, number: usize, server: Option<Logging>) -> Option<(Logging, LogOwner)> {
        let shared = |logging| (logging, LogOwner::Server);
        match self {
            SiteLog::Server => server.map(shared),
            SiteLog::Off => None,
            SiteLog::Shared(logging) => server.map(|_| shared(logging)),
            SiteLog::Own(logging) => Some((logging, LogOwner::Site(number))),
        }
    }
}

/// The owner of a log: which lines go to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "program", derive(serde::Serialize, serde::Deserialize))]
pub(crate) enum LogOwner {
    /// The server: lines of all sites without a log of their own.
    Server,
    /// The site with this number.
    Site(usize),
}

/// When the server rotates a log file, and how many rotated files it keeps. A file is rotated when any limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// Maximum size of the file, in bytes. `None`: no limit. Default: `None`.
    pub len_max: Option<u64>,
    /// Maximum age of the file. `None`: no limit. Default: `None`.
    pub age_max: Option<Duration>,
    /// How many rotated files to keep. Default: 7.
    pub keep: u32,
}

impl Default for Rotation {
    /// Returns a rotation that never happens; with a limit set, it keeps seven files: a week of daily logs.
    fn default() -> Rotation {
        Rotation { len_max: None, age_max: None, keep: 7 }
    }
}

impl Rotation {
    /// Returns whether a file of this length and creation time is to be rotated now.
    pub(crate) fn is_due(&self, len: u64, created: SystemTime) -> bool {
        len > 0 && (self.len_max.is_some_and(|len_max| len > len_max) || self.is_old(created))
    }

    /// Returns whether a file with this creation time is old.
    pub(crate) fn is_old(&self, created: SystemTime) -> bool {
        // After the clock was set back, a creation time in the future counts as age zero.
        self.age_max.is_some_and(|age_max| created.elapsed().unwrap_or_default() >= age_max)
    }

    /// Returns whether any limit is set.
    pub(crate) fn is_enabled(&self) -> bool {
        self.len_max.is_some() || self.age_max.is_some()
    }
}

/// The target of an access log. Its text is that of `--access-log`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// Standard output, written `-`.
    Stdout,
    /// A file. The server creates it with mode 0640, or appends to it. It refuses symbolic links, except `/dev/stdout` and
    /// `/dev/stderr`.
    File(PathBuf),
    /// A Unix socket, written `unix:PATH`: a datagram socket receives one datagram per line, a stream socket a stream of lines.
    Socket(PathBuf),
}

impl FromStr for LogTarget {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<LogTarget, &'static str> {
        match (text, text.strip_prefix("unix:")) {
            _ if text.is_empty() || text.contains('\0') => {
                Err("expected a file, - for standard output, or unix:PATH")
            }
            ("-", _) => Ok(LogTarget::Stdout),
            (_, Some("")) => Err("a path must follow unix:, as in unix:/run/log.sock"),
            (_, Some(path)) => Ok(LogTarget::Socket(path.into())),
            (path, None) => Ok(LogTarget::File(path.into())),
        }
    }
}

impl fmt::Display for LogTarget {
    /// Writes the form that `--access-log` takes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogTarget::Stdout => f.write_str("-"),
            LogTarget::File(path) => path.printable().fmt(f),
            LogTarget::Socket(path) => write!(f, "unix:{}", path.printable()),
        }
    }
}

/// The log configuration of the server.
#[derive(Clone, Debug, Default)]
pub struct LogConfig {
    /// The target of the access log. `None`: no access log. Default: `None`.
    pub access: Option<LogTarget>,
    /// The content and format of the access log. Default: that of [`Logging`].
    pub logging: Logging,
    /// When log files are rotated. Default: never.
    pub rotation: Rotation,
    /// The format of events. Default: `Auto`.
    pub events: EventFormat,
}

/// The format of events, such as start, reload and errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventFormat {
    /// `Human` if standard error is a terminal, else `Json`.
    #[default]
    Auto,
    /// Sentences for people.
    Human,
    /// One JSON object per line on standard error.
    Json,
}

/// The log configuration of a site. Each field that is `None` takes the server's setting.
#[derive(Clone, Debug, Default)]
pub struct SiteLogConfig {
    /// The target of the site's access log. `None`: the server's log. `Some(None)`: no log. Default: `None`.
    pub access: Option<Option<LogTarget>>,
    /// Overrides [`Logging::format`]. Default: `None`.
    pub format: Option<LogFormat>,
    /// Overrides [`Logging::client_ip`]. Default: `None`.
    pub client_ip: Option<LogClientIp>,
    /// Overrides [`Logging::sample`]. Default: `None`.
    pub sample: Option<NonZeroU32>,
}

impl SiteLogConfig {
    /// Returns the log of the site, given the settings of the server.
    pub fn resolve(&self, server: Logging) -> SiteLog {
        let logging = Logging {
            format: self.format.unwrap_or(server.format),
            client_ip: self.client_ip.unwrap_or(server.client_ip),
            sample: self.sample.unwrap_or(server.sample),
        };
        match &self.access {
            None => SiteLog::Shared(logging),
            Some(None) => SiteLog::Off,
            Some(Some(_)) => SiteLog::Own(logging),
        }
    }
}
