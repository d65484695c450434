//! What helpers count and note: CGI programs, upstream servers, certificates, how sites were read, and what the process takes. A server within
//! another program has none of it.

/// The metrics of CGI programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "program", derive(serde::Serialize, serde::Deserialize))]
pub struct CgiMetrics {
    /// Programs that run now.
    pub running: u64,
    /// Requests that wait for a free place now.
    pub queued: u64,
    /// Programs that were started.
    pub started: u64,
    /// Programs that gave no valid response, or only a part of one.
    pub failed: u64,
    /// Programs that were killed because they took too long.
    pub timed_out: u64,
    /// Requests that got 503 because too many waited.
    pub refused: u64,
}

/// The metrics of an upstream server. A reload begins them anew.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "program", derive(serde::Serialize, serde::Deserialize))]
pub struct UpstreamMetrics {
    /// The name of its upstream.
    pub upstream: String,
    /// Its address.
    pub server: String,
    /// Whether it gets requests.
    pub state: UpstreamState,
    /// Whether it gets requests only while no other server can take them.
    pub is_backup: bool,
    /// Its weight, as configured.
    pub weight: u32,
    /// The part of its weight that counts during its slow start, in per mille.
    pub effective_per_mille: u64,
    /// Open connections.
    pub open: u64,
    /// Open connections that wait for a request.
    pub idle: u64,
    /// Requests in progress.
    pub in_progress: u64,
    /// Requests that have begun.
    pub requests: u64,
    /// Requests whose connection has closed, or whose response was invalid.
    pub failed: u64,
    /// Requests to which the server did not respond in time.
    pub timed_out: u64,
    /// Requests that were repeated as their connection had closed.
    pub retried: u64,
    /// Responses with a status of 500 or more.
    pub server_errors: u64,
    /// Connections that were opened.
    pub connects: u64,
    /// Connections that could not be opened.
    pub connect_failures: u64,
}

/// Whether an upstream server gets requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "program",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "lowercase")
)]
pub enum UpstreamState {
    /// It does.
    #[default]
    Up,
    /// Requests have failed: it gets some only if no other server can take them.
    Suspended,
    /// Checks have failed: it gets none.
    Down,
    /// It is to be stopped: it gets none.
    Draining,
}

impl UpstreamState {
    /// Returns the name that texts have for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            UpstreamState::Up => "up",
            UpstreamState::Suspended => "suspended",
            UpstreamState::Down => "down",
            UpstreamState::Draining => "draining",
        }
    }
}

/// The state of a certificate that is obtained by ACME. Times are in seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "program", derive(serde::Serialize, serde::Deserialize))]
pub struct CertificateMetrics {
    /// Its names.
    pub names: Vec<String>,
    /// Until when it is valid. `None`: there is none yet.
    pub not_after_unix_s: Option<u64>,
    /// When it is to be renewed.
    pub renewal_unix_s: Option<u64>,
    /// Failed orders since the last success.
    pub failures: u64,
    /// Why the last order failed.
    pub failure: Option<String>,
    /// When the next order is tried after one that failed.
    pub retry_unix_s: Option<u64>,
}

/// How a site was read. Times are in seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "program", derive(serde::Serialize, serde::Deserialize), serde(default))]
pub struct SiteReading {
    /// The configured path of the directory or archive.
    pub path: String,
    /// The file or directory that the path led to, without links: the release that is live.
    pub release: Option<String>,
    /// A hash of what is live, in hexadecimal: the same for the same paths, fields and contents.
    pub digest: String,
    /// Since when it has been live.
    pub live_since_unix_s: u64,
    /// When it was read last with success.
    pub read_unix_s: u64,
    /// Files and directories that cannot be read, and answer 403 or 500.
    pub unreadable: u64,
    /// The first of them.
    pub unreadable_example: Option<String>,
    /// Why later reads have failed: the server keeps what it read before.
    pub failure: Option<ReadFailure>,
}

/// Why a site cannot be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "program", derive(serde::Serialize, serde::Deserialize))]
pub struct ReadFailure {
    /// Since when, in seconds since 1970.
    pub since_unix_s: u64,
    /// The reason, for a user.
    pub why: String,
}

/// What a process takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "program", derive(serde::Serialize, serde::Deserialize))]
pub struct ProcessMetrics {
    /// CPU time of the process since it started, in microseconds. Of worker processes, that of the workers is in it.
    pub cpu_us: u64,
    /// Bytes of memory that are resident. `None`: the system does not tell.
    pub resident_len: Option<u64>,
    /// Bytes of address space.
    pub virtual_len: Option<u64>,
    /// Open descriptors. `None`: the system does not tell, as Linux before 6.2.
    pub open_descriptors: Option<u64>,
    /// The limit on descriptors. `None`: there is none.
    pub descriptor_max: Option<u64>,
    /// When the process started, in seconds since 1970.
    pub start_unix_s: u64,
}
