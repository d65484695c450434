//! The servers that the lab can start, by the names of the command line and of the records.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// A server that the lab can start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PeerServer {
    /// Null server on epoll
    NullEpoll,
    /// Null server on io_uring
    NullUring,
    /// Null server on epoll, with sendfile
    NullSendfile,
    /// tarpon on io_uring
    TarponUring,
    /// tarpon on epoll
    TarponEpoll,
    /// tarpon on poll
    TarponPoll,
    /// tarpon with a pool of threads, one connection each
    TarponThreads,
    /// tarpon with a pool of processes, one connection each
    TarponPrefork,
    /// tarpon with a process per connection
    TarponFork,
    /// The build of --before, on io_uring
    BeforeUring,
    /// The build of --before, on epoll
    BeforeEpoll,
    /// tarpon with the site in a tar archive, on io_uring
    TarponUringTar,
    /// tarpon with the site in a tar archive, on epoll
    TarponEpollTar,
    /// tarpon with the packed site, on io_uring
    TarponUringPacked,
    /// tarpon with the packed site, on epoll
    TarponEpollPacked,
    /// The build of --before with the packed site, on io_uring
    BeforeUringPacked,
    /// The build of --before with the packed site, on epoll
    BeforeEpollPacked,
    /// tarpon with an access log, on io_uring
    TarponUringLog,
    /// tarpon with an access log, on epoll
    TarponEpollLog,
    /// tarpon with the allocator jemalloc, on io_uring
    TarponUringJemalloc,
    /// tarpon with the allocator jemalloc, on epoll
    TarponEpollJemalloc,
    /// nginx with a cache of open files
    Nginx,
    /// nginx with an access log
    NginxLog,
    /// nginx with a pool of threads that read from the disk
    NginxThreads,
    /// h2o
    H2o,
    /// Caddy
    Caddy,
    /// Apache httpd, with mod_cgid for programs
    Apache,
    /// lighttpd, with mod_cgi for programs
    Lighttpd,
    /// The server of Python's standard library
    Python,
    /// static-web-server
    StaticWebServer,
    /// The server of --other
    Other,
    /// A naive server that asks a program for the type of a file
    NaiveProgram,
    /// A naive server that reads a database of types for each request
    NaiveDatabase,
    /// A naive server that opens its log for each request
    NaiveLog,
    /// A naive server that reads and writes byte by byte
    NaiveBytes,
    /// A naive server that opens and reads a file for each request
    NaiveFiles,
    /// HAProxy
    Haproxy,
    /// A function in Rust, embedded with tarpon, on io_uring
    FunctionRust,
    /// A function in C++, embedded with tarpon, on io_uring
    FunctionCppUring,
    /// A function in C++, embedded with tarpon, on epoll
    FunctionCppEpoll,
    /// A function in Rust, embedded with hyper
    Hyper,
    /// A function in C++, embedded with Boost.Beast
    Beast,
}

/// What answers the requests of a race.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RaceAnswer {
    /// A page in memory
    #[default]
    Page,
    /// A function of a program that embeds the server
    Function,
    /// A CGI program, started for each request
    Program,
}

/// A program that embeds a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EmbeddingProgram {
    /// The file, in the directory of these programs.
    pub(crate) file: &'static str,
    /// Arguments after the address.
    pub(crate) arguments: &'static [&'static str],
    /// What the report calls it.
    pub(crate) name: &'static str,
}

/// The form in which a server gets the site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SiteForm {
    /// A directory.
    Directory,
    /// A tar archive.
    Tar,
    /// An archive that `tarpon pack` made.
    Packed,
}

impl PeerServer {
    /// Returns the name on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned())
    }

    /// Returns whether the server answers every request with the same bytes.
    pub(crate) fn is_null(self) -> bool {
        matches!(self, PeerServer::NullEpoll | PeerServer::NullUring | PeerServer::NullSendfile)
    }

    /// Returns the rung of a naive server, and what the report calls it. It forks for each connection, and closes it after a request.
    pub(crate) fn naive_rung(self) -> Option<(&'static str, &'static str)> {
        match self {
            PeerServer::NaiveProgram => Some(("program", "naive: types by a program")),
            PeerServer::NaiveDatabase => Some(("database", "naive: reads a database of types")),
            PeerServer::NaiveLog => Some(("log", "naive: opens its log")),
            PeerServer::NaiveBytes => Some(("bytes", "naive: byte by byte")),
            PeerServer::NaiveFiles => Some(("files", "naive: opens and reads a file")),
            _ => None,
        }
    }

    /// Returns whether the server is a build of tarpon.
    pub(crate) fn is_tarpon(self) -> bool {
        self.engine().is_some() && !self.is_null()
    }

    /// Returns whether the server writes an access log.
    pub(crate) fn is_logging(self) -> bool {
        matches!(self, PeerServer::TarponUringLog | PeerServer::TarponEpollLog | PeerServer::NginxLog)
    }

    /// Returns the current build on the same engine, for an earlier build of tarpon.
    pub(crate) fn current_build(self) -> Option<PeerServer> {
        match self {
            PeerServer::BeforeUring => Some(PeerServer::TarponUring),
            PeerServer::BeforeEpoll => Some(PeerServer::TarponEpoll),
            PeerServer::BeforeUringPacked => Some(PeerServer::TarponUringPacked),
            PeerServer::BeforeEpollPacked => Some(PeerServer::TarponEpollPacked),
            _ => None,
        }
    }

    /// Returns whether jemalloc takes the place of the allocator of the C library.
    pub(crate) fn has_jemalloc(self) -> bool {
        matches!(self, PeerServer::TarponUringJemalloc | PeerServer::TarponEpollJemalloc)
    }

    /// Returns the server whose numbers a report divides by those of another one, that server, and what it calls the ratio: for an earlier
    /// build of tarpon and for another allocator.
    pub(crate) fn comparison(self) -> Option<(PeerServer, PeerServer, &'static str)> {
        match self {
            PeerServer::TarponUringJemalloc => Some((self, PeerServer::TarponUring, JEMALLOC_RATIO)),
            PeerServer::TarponEpollJemalloc => Some((self, PeerServer::TarponEpoll, JEMALLOC_RATIO)),
            _ => self.current_build().map(|current| (current, self, BUILD_RATIO)),
        }
    }

    /// Returns the engine of tarpon or of a null server, by tarpon's name for it.
    pub(crate) fn engine(self) -> Option<&'static str> {
        use PeerServer::*;
        match self {
            NullUring | TarponUring | BeforeUring | TarponUringTar | TarponUringPacked
            | BeforeUringPacked | TarponUringLog | TarponUringJemalloc => Some("io_uring"),
            NullEpoll | TarponEpoll | BeforeEpoll | TarponEpollTar | TarponEpollPacked
            | BeforeEpollPacked | TarponEpollLog | TarponEpollJemalloc => Some("epoll"),
            NullSendfile => Some("sendfile"),
            TarponPoll => Some("poll"),
            TarponThreads => Some("threads"),
            TarponPrefork => Some("prefork"),
            TarponFork => Some("fork"),
            Nginx | NginxLog | NginxThreads | H2o | Caddy | Apache | Lighttpd | Haproxy => None,
            Python | StaticWebServer | Other => None,
            NaiveProgram | NaiveDatabase | NaiveLog | NaiveBytes | NaiveFiles => None,
            FunctionRust | FunctionCppUring | FunctionCppEpoll | Hyper | Beast => None,
        }
    }

    /// Returns the program that embeds the server, if the server is in one.
    pub(crate) fn embedding_program(self) -> Option<EmbeddingProgram> {
        let program = |file, arguments, name| Some(EmbeddingProgram { file, arguments, name });
        match self {
            PeerServer::FunctionRust => program("hello", &[], "tarpon in Rust, io_uring"),
            PeerServer::FunctionCppUring => program("hello_cpp", &["io_uring"], "tarpon in C++, io_uring"),
            PeerServer::FunctionCppEpoll => program("hello_cpp", &["epoll"], "tarpon in C++, epoll"),
            PeerServer::Hyper => program("hello_hyper", &[], "hyper"),
            PeerServer::Beast => program("hello_beast", &[], "Boost.Beast"),
            _ => None,
        }
    }

    /// Returns whether the lab can configure the server as a proxy.
    pub(crate) fn is_proxy(self) -> bool {
        let is_current = self.is_tarpon() && self.site_form() == SiteForm::Directory && !self.is_logging();
        is_current || matches!(self, PeerServer::Nginx | PeerServer::Haproxy)
    }

    /// Returns whether the lab can configure the server for HTTP/2. Engines of tarpon that serve one connection at a time do not offer it.
    pub(crate) fn has_http2(self) -> bool {
        let is_tarpon = self.is_tarpon() && self.pool_size().is_none();
        is_tarpon || matches!(self, PeerServer::Nginx | PeerServer::H2o | PeerServer::Caddy)
    }

    /// Returns the number of workers if each of them serves one connection at a time. All other servers have one worker.
    pub(crate) fn pool_size(self) -> Option<usize> {
        match self {
            PeerServer::TarponThreads | PeerServer::TarponPrefork => Some(POOL_SIZE),
            PeerServer::TarponFork => Some(FORK_COUNT_MAX),
            _ => None,
        }
    }

    /// Returns whether the server can keep this many connections open at once.
    pub(crate) fn keeps(self, connections: usize) -> bool {
        self.pool_size().is_none_or(|size| size >= connections)
    }

    /// Returns the form of the site that the server reads. A null server ignores it.
    pub(crate) fn site_form(self) -> SiteForm {
        use PeerServer::*;
        match self {
            TarponUringTar | TarponEpollTar => SiteForm::Tar,
            TarponUringPacked | TarponEpollPacked | BeforeUringPacked | BeforeEpollPacked => SiteForm::Packed,
            _ => SiteForm::Directory,
        }
    }

    /// Returns whether the server joins a race only if an option names it.
    pub(crate) fn is_optional(self) -> bool {
        use PeerServer::{NullSendfile, TarponFork, TarponPoll, TarponPrefork, TarponThreads};
        let is_rare = matches!(self, TarponPoll | TarponThreads | TarponPrefork | TarponFork | NullSendfile);
        let is_changed = self.site_form() != SiteForm::Directory || self.is_logging() || self.has_jemalloc();
        self.engine().is_none() || is_changed || is_rare
    }
}

impl RaceAnswer {
    /// Returns the name on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned())
    }

    /// Returns the servers of a race without `--only`. `None`: those of a race for a page.
    pub(crate) fn servers(self) -> Option<&'static [PeerServer]> {
        use PeerServer::*;
        match self {
            RaceAnswer::Page => None,
            RaceAnswer::Function => {
                Some(&[NullEpoll, NullUring, FunctionRust, FunctionCppUring, FunctionCppEpoll, Hyper, Beast])
            }
            RaceAnswer::Program => Some(&[TarponUring, TarponEpoll, Apache, Lighttpd]),
        }
    }

    /// Returns whether a server can take part. HAProxy answers nothing by itself.
    pub(crate) fn is_answered_by(self, server: PeerServer) -> bool {
        match self {
            _ if server == PeerServer::Haproxy => false,
            RaceAnswer::Page => server.embedding_program().is_none(),
            RaceAnswer::Function => server.is_null() || server.embedding_program().is_some(),
            RaceAnswer::Program => {
                server.is_tarpon() || matches!(server, PeerServer::Apache | PeerServer::Lighttpd)
            }
        }
    }

    /// Returns the peers that the others are compared with.
    pub(crate) fn peers(self) -> [PeerServer; 2] {
        match self {
            RaceAnswer::Page => [PeerServer::NullEpoll, PeerServer::NullUring],
            RaceAnswer::Function => [PeerServer::Hyper, PeerServer::Beast],
            RaceAnswer::Program => [PeerServer::Apache, PeerServer::Lighttpd],
        }
    }
}

/// Returns the names of servers as the command line takes them.
pub(crate) fn names(servers: &[PeerServer]) -> String {
    servers.iter().map(|server| server.name()).collect::<Vec<_>>().join(",")
}

/// What a report calls the ratio of the numbers of two builds.
pub(crate) const BUILD_RATIO: &str = "after/before";

/// What a report calls the ratio of the numbers with jemalloc and without it.
pub(crate) const JEMALLOC_RATIO: &str = "jemalloc/malloc";

/// Workers with one connection each: tarpon's default.
const POOL_SIZE: usize = 64;

/// Maximum of processes with one connection each: tarpon's default.
const FORK_COUNT_MAX: usize = 256;
