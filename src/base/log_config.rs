//! What a server logs, in which format and where, as values.

use serde::{Deserialize, Serialize};
use std::{
    fmt,
    num::NonZeroU32,
    path::PathBuf,
    str::FromStr,
    time::{Duration, SystemTime},
};
use tarpon_site::Printable;

/// What is logged of exchanges, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logging {
    /// What a line looks like.
    pub format: LogFormat,
    /// What of clients' addresses is told.
    pub client_ip: LogClientIp,
    /// One exchange in so many, by chance; and each that fails, with status 400 or above.
    pub sample: NonZeroU32,
}

impl Default for Logging {
    fn default() -> Logging {
        Logging { format: LogFormat::default(), client_ip: LogClientIp::default(), sample: NonZeroU32::MIN }
    }
}

/// What a line looks like. Times are UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// The Common Log Format.
    Common,
    /// The same with Referer and User-Agent.
    #[default]
    Combined,
    /// An object of JSON.
    Json,
    /// Address, time, request-line, status, bytes.
    Simple,
}

impl LogFormat {
    /// Every form there is.
    pub const ALL: [LogFormat; 4] =
        [LogFormat::Common, LogFormat::Combined, LogFormat::Json, LogFormat::Simple];

    /// The name that users know it by.
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
            .find(|form| form.name() == text)
            .ok_or("expected common, combined, json or simple")
    }
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What of clients' addresses is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogClientIp {
    /// All.
    #[default]
    Full,
    /// The network: of version 4 three bytes, of version 6 six.
    Truncated,
    /// Nothing.
    None,
}

impl LogClientIp {
    /// Every way there is.
    pub const ALL: [LogClientIp; 3] = [LogClientIp::Full, LogClientIp::Truncated, LogClientIp::None];

    /// The name that users know it by.
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
        LogClientIp::ALL.into_iter().find(|way| way.name() == text).ok_or("expected full, truncated or none")
    }
}

impl fmt::Display for LogClientIp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What is logged of one site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SiteLog {
    /// What is logged of the others: see [`Settings::logging`](crate::Settings::logging).
    #[default]
    Server,
    /// Nothing.
    Off,
    /// This, where the lines of the others go.
    Shared(Logging),
    /// This, in a log of its own. Where it goes: [`Handle::log_site_to`](crate::Handle::log_site_to).
    Own(Logging),
}

impl SiteLog {
    /// What is logged of the site of this number where this is logged of the server, and whose log it goes to.
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

/// Whose lines go to a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LogOwner {
    /// Those of all sites that have none of their own.
    Server,
    /// Those of the site of this number.
    Site(usize),
}

/// When a file of the log is replaced by the next one, and how many are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// Bytes it has at most.
    pub len_max: Option<u64>,
    /// How old it is at most.
    pub age_max: Option<Duration>,
    /// Earlier ones that are kept.
    pub keep: u32,
}

impl Default for Rotation {
    /// Never; but where it is asked for, a week of days is kept.
    fn default() -> Rotation {
        Rotation { len_max: None, age_max: None, keep: 7 }
    }
}

impl Rotation {
    /// Whether a file that is so long and was made then has had its time.
    pub(crate) fn is_due(&self, len: u64, made: SystemTime) -> bool {
        // A clock that was set back makes no file old.
        let is_old = |age_max| made.elapsed().unwrap_or_default() >= age_max;
        len > 0 && (self.len_max.is_some_and(|len_max| len > len_max) || self.age_max.is_some_and(is_old))
    }

    /// Whether a file ever has.
    pub(crate) fn is_enabled(&self) -> bool {
        self.len_max.is_some() || self.age_max.is_some()
    }
}

/// Where an access log goes, as a user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// `-`
    Stdout,
    /// A file, which is made if it is not there, with mode 0640, and appended to if it is. A symbolic link is refused, except
    /// `/dev/stdout` and `/dev/stderr`.
    File(PathBuf),
    /// `unix:PATH`: a socket that takes datagrams, one for each line, or a stream of lines.
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
    /// As it is given to `--access-log`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogTarget::Stdout => f.write_str("-"),
            LogTarget::File(path) => path.printable().fmt(f),
            LogTarget::Socket(path) => write!(f, "unix:{}", path.printable()),
        }
    }
}

/// What is said of logs.
#[derive(Clone, Debug, Default)]
pub struct LogConfig {
    /// Where a line of each exchange goes. `None`: nowhere.
    pub access: Option<LogTarget>,
    /// What it looks like.
    pub logging: Logging,
    /// When a file gives its place to the next one.
    pub rotation: Rotation,
    /// For whom what happens in the server's life is said.
    pub events: EventFormat,
}

/// For whom what happens in a server's life is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventFormat {
    /// For people where standard error is a terminal, else for programs.
    #[default]
    Auto,
    /// For people: words.
    Human,
    /// For programs: a line of JSON for each event, on standard error.
    Json,
}

/// What is said of the log of a site.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)] // the others are those of [`Logging`](crate::Logging)
pub struct SiteLogConfig {
    /// Where it goes, or that there is none. `None`: nothing was said, and its lines go where those of others do.
    pub access: Option<Option<LogTarget>>,
    pub format: Option<LogFormat>,
    pub client_ip: Option<LogClientIp>,
    pub sample: Option<NonZeroU32>,
}

impl SiteLogConfig {
    /// What comes of it where the server logs this.
    pub fn resolve(&self, server: Logging) -> SiteLog {
        let SiteLogConfig { access, format: form, client_ip: addresses, sample: one_in } = self;
        let logging = Logging {
            format: form.unwrap_or(server.format),
            client_ip: addresses.unwrap_or(server.client_ip),
            sample: one_in.unwrap_or(server.sample),
        };
        match access {
            None => SiteLog::Shared(logging),
            Some(None) => SiteLog::Off,
            Some(Some(_)) => SiteLog::Own(logging),
        }
    }
}
