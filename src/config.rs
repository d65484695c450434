//! What a user can say on the command line: each option with its name, its default and its words in one place.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, value_parser};
use std::{
    num::{NonZeroU32, NonZeroUsize},
    path::{Path, PathBuf},
    time::Duration,
};
use tarpon::{Address, Dialect, Effort, Engine, Packing, Policy, Settings, Source, TrailingSlash};

/// A web server for static sites.
#[derive(Debug, Parser)]
#[command(name = "tarpon", version, max_term_width = 100, arg_required_else_help = true)]
pub(crate) struct Command {
    #[command(subcommand)]
    pub(crate) action: Action,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Serve a directory or a tar archive
    ///
    /// All of a directory is read into one image before the first request, and again whenever it changes. Only regular files
    /// are served; dotfiles (other than .well-known), special files and symbolic links that leave the directory are
    /// not. Of an archive only the headers are read; its contents are sent from where they lie.
    Serve(Serve),
    /// Pack a site into one tar archive that is served as it is
    ///
    /// Everything is worked out beforehand: compressed forms, response fields and the table that finds them. The archive is
    /// a tar archive like any other, which extracts to the site and a directory .tarpon that is no part of it. The same site
    /// gives the same bytes; SOURCE_DATE_EPOCH is honoured.
    Pack(Pack),
    /// Show what a packed site has: paths, types, sizes in each coding, entity-tags
    Inspect(Inspect),
    /// Check a packed site: every checksum, and that every compressed form is its file
    ///
    /// Says all that is wrong; the exit status tells whether anything is.
    Verify(Verify),
    /// Manage a directory of packed releases, of which one is current
    ///
    /// DIR holds packed sites (*.tar) and a symbolic link `current` to one of them, to be served with tarpon serve
    /// DIR/current. To deploy, copy another archive into DIR and activate it: the link is replaced from one moment to
    /// the next, and whoever serves it follows.
    #[command(subcommand)]
    Release(ReleaseAction),
}

/// What to do with releases.
#[derive(Debug, Subcommand)]
pub(crate) enum ReleaseAction {
    /// Show the releases, the youngest first: which is current, and which was before
    List {
        /// The directory of releases
        dir: PathBuf,
    },
    /// Make a release the current one, if it is in order
    ///
    /// Checks the tables of the archive, as serving it does; an archive that is cut short or damaged there is refused.
    /// While another process changes the directory, says which, and waits.
    Activate {
        /// The directory of releases
        dir: PathBuf,

        /// The name of the archive in it
        name: String,

        /// Check all of the archive first, as tarpon verify does
        #[arg(long)]
        verify: bool,
    },
    /// Make the release current again that was so before; once more goes further back
    Rollback {
        /// The directory of releases
        dir: PathBuf,
    },
}

/// Serves the site that this program carries.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, args_conflicts_with_subcommands = true)]
pub(crate) struct Carrier {
    #[command(subcommand)]
    pub(crate) action: Option<CarrierAction>,

    #[command(flatten)]
    pub(crate) how: How,
}

/// What else a program that carries its site can do.
#[derive(Debug, Subcommand)]
pub(crate) enum CarrierAction {
    /// Show what the site has: paths, types, sizes in each coding, entity-tags
    Inspect {
        /// Show it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Check the site: every checksum, and that every compressed form is its file
    ///
    /// Says all that is wrong; the exit status tells whether anything is.
    Verify,
    /// Write the site to standard output, as the tar archive it is: extract | tar -x
    Extract,
}

/// What `tarpon inspect` is told.
#[derive(Args, Debug)]
pub(crate) struct Inspect {
    /// The archive
    pub(crate) path: PathBuf,

    /// Show it as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What `tarpon verify` is told.
#[derive(Args, Debug)]
pub(crate) struct Verify {
    /// The archive
    pub(crate) path: PathBuf,
}

/// What `tarpon pack` is told.
#[derive(Args, Debug)]
pub(crate) struct Pack {
    /// The directory to pack, or a tar archive of it
    pub(crate) path: PathBuf,

    /// The archive to write. It appears under its name when it is whole
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// Of an archive, pack only what lies in this directory
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,

    /// Whose form the files _headers and _redirects at the root of the site have: netlify, cloudflare, or off to ignore
    /// them
    #[arg(long, value_name = "NAME", default_value = "netlify", value_parser = dialect())]
    rules: Dialect,

    /// Whether to compress fast, to try something out, or as well as it gets
    #[arg(long, value_name = "NAME", default_value = "best", value_parser = effort())]
    effort: Effort,

    /// An archive of this site packed before: what has not changed since is not compressed again
    #[arg(long, value_name = "FILE")]
    reuse: Option<PathBuf>,

    /// Write a program instead, which carries the site and serves it when it is started
    #[arg(long)]
    executable: bool,

    #[command(flatten)]
    answers: Answers,
}

impl Pack {
    /// What the site is made of.
    pub(crate) fn source(&self) -> Source {
        let prefix = self.prefix.clone().unwrap_or_default();
        let (dialect, policy) = (self.rules, self.answers.policy());
        Source { path: self.path.clone(), prefix, preload: false, dialect, policy }
    }

    /// What it is packed into.
    pub(crate) fn packing(&self) -> Packing {
        let Pack { output, effort, reuse, executable, .. } = self;
        Packing { target: output.clone(), effort: *effort, reuse: reuse.clone(), executable: *executable }
    }
}

fn effort() -> impl TypedValueParser<Value = Effort> {
    PossibleValuesParser::new(["fast", "best"]).map(|name| match &*name {
        "fast" => Effort::Fast,
        _ => Effort::Best,
    })
}

fn dialect() -> impl TypedValueParser<Value = Dialect> {
    PossibleValuesParser::new(["netlify", "cloudflare", "off"]).map(|name| match &*name {
        "netlify" => Dialect::Netlify,
        "cloudflare" => Dialect::Cloudflare,
        _ => Dialect::Off,
    })
}

/// What `tarpon serve` is told.
#[derive(Args, Debug)]
pub(crate) struct Serve {
    /// The directory to serve, or a tar archive of it
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,

    /// Of an archive, serve only what lies in this directory
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,

    /// Whose form the files _headers and _redirects at the root of the site have: netlify, cloudflare, or off to ignore
    /// them. A packed site is as it was packed
    #[arg(long, value_name = "NAME", default_value = "netlify", value_parser = dialect())]
    rules: Dialect,

    #[command(flatten)]
    answers: Answers,

    #[command(flatten)]
    pub(crate) how: How,
}

/// How a site answers, as far as its files do not say. A packed site answers as it was packed.
#[derive(Args, Debug)]
#[command(next_help_heading = "Pages (a packed site answers as it was packed)")]
struct Answers {
    /// Answer what is not there, and is not named as an asset, with /index.html
    #[arg(long)]
    spa: bool,

    /// Show about.html at /about, and dir/index.html at /dir/; their names lead there
    #[arg(long)]
    clean_urls: bool,

    /// Whether addresses of pages end in a slash: auto, of directories only; always; or never. The other form leads to
    /// the one that counts
    #[arg(long, value_name = "WHEN", default_value = "auto", value_parser = trailing_slash())]
    trailing_slash: TrailingSlash,

    /// Send X-Content-Type-Options, Referrer-Policy, X-Frame-Options and Cross-Origin-Opener-Policy, with values that
    /// break no ordinary site
    #[arg(long)]
    secure_headers: bool,

    /// Let scripts of every origin read the files at this path and below it (Access-Control-Allow-Origin: *). May be
    /// given more than once
    #[arg(long, value_name = "PATH", value_parser = open_path)]
    cors: Vec<String>,
}

impl Answers {
    fn policy(&self) -> Policy {
        let &Answers { spa, clean_urls, trailing_slash, secure_headers, ref cors } = self;
        Policy { spa, clean_urls, trailing_slash, secure_headers, cors: cors.clone() }
    }
}

fn open_path(path: &str) -> Result<String, &'static str> {
    if path.starts_with('/') { Ok(path.to_owned()) } else { Err("expected a path that begins with /") }
}

fn trailing_slash() -> impl TypedValueParser<Value = TrailingSlash> {
    PossibleValuesParser::new(["auto", "always", "never"]).map(|name| match &*name {
        "always" => TrailingSlash::Always,
        "never" => TrailingSlash::Never,
        _ => TrailingSlash::Auto,
    })
}

/// How a site is served, whatever it lies in.
#[derive(Args, Debug)]
#[command(next_help_heading = "Server")]
pub(crate) struct How {
    /// Read all of the site into memory first, in huge pages where the system allows
    #[arg(long)]
    preload: bool,

    /// Where to listen: ADDR:PORT, such as 127.0.0.1:8080, 0.0.0.0:80 or [::]:80, or unix:PATH. May be given
    /// more than once [default: 127.0.0.1:8080 and, where there is IPv6, [::1]:8080]
    #[arg(short, long, value_name = "ADDR:PORT")]
    pub(crate) listen: Vec<Address>,

    /// What drives the workers: io_uring (Linux 6.1 and newer), epoll, or auto, the best that this host offers
    #[arg(short, long, value_name = "NAME", default_value_t)]
    pub(crate) engine: Engine,

    /// Threads that serve, at most 1024 [default: one for each core]
    #[arg(short, long, value_name = "COUNT", value_parser = worker_count)]
    workers: Option<NonZeroUsize>,

    /// Bind each worker to a core of its own
    #[arg(long)]
    pin: bool,

    /// How long the head of a request may take to arrive
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "20")]
    head_timeout: Duration,

    /// How long the content of a request may take to arrive
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "30")]
    content_timeout: Duration,

    /// How long a connection may wait for its next request
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "75")]
    idle_timeout: Duration,

    /// How long a client may take less of a response than --send-rate-min
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "30")]
    send_timeout: Duration,

    /// Bytes per second that a client takes of a response, on average over --send-timeout; 0 to cut off only who takes
    /// nothing
    #[arg(long, value_name = "BYTES", default_value = "500")]
    send_rate_min: u32,

    /// Requests that are answered on one connection before it is closed (nginx: keepalive_requests)
    #[arg(long, value_name = "COUNT", default_value = "100000")]
    requests_max: NonZeroU32,

    /// Earlier releases of which scripts, styles and pictures stay, for pages that were loaded before a change: what has a
    /// hash in its name, unless the current release has something else there
    #[arg(long, value_name = "COUNT", value_parser = value_parser!(u8).range(..=100), default_value = "0")]
    keep_releases: u8,

    /// How long responses under way may take to finish when the server is told to stop
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "30")]
    pub(crate) grace: Duration,
}

impl Serve {
    /// What the site is made of.
    pub(crate) fn source(&self) -> Source {
        let prefix = self.prefix.clone().unwrap_or_default();
        let (dialect, policy) = (self.rules, self.answers.policy());
        Source { prefix, dialect, policy, ..self.how.source(&self.path) }
    }
}

impl How {
    /// What a whole site is made of.
    pub(crate) fn source(&self, path: &Path) -> Source {
        Source { path: path.to_owned(), preload: self.preload, ..Source::default() }
    }

    /// Earlier releases that are kept.
    pub(crate) fn keep_releases(&self) -> usize {
        self.keep_releases.into()
    }

    /// What the server is told.
    pub(crate) fn settings(&self, engine: Engine) -> Settings {
        let default = Settings::default();
        Settings {
            engine,
            worker_count: self.workers.unwrap_or(default.worker_count),
            pin: self.pin,
            head_timeout: self.head_timeout,
            content_timeout: self.content_timeout,
            idle_timeout: self.idle_timeout,
            send_timeout: self.send_timeout,
            send_rate_min: self.send_rate_min,
            requests_max: self.requests_max,
            keep_releases: self.keep_releases(),
        }
    }
}

/// More workers than this are a mistake: no machine has so many cores to give.
const WORKER_COUNT_MAX: usize = 1024;

fn worker_count(text: &str) -> Result<NonZeroUsize, &'static str> {
    let count: NonZeroUsize = text.parse().map_err(|_| "expected a number from 1 to 1024")?;
    if count.get() > WORKER_COUNT_MAX { Err("expected a number from 1 to 1024") } else { Ok(count) }
}

/// A day: whoever wants to wait longer wants to wait for ever, and that is not offered.
const SECONDS_MAX: f64 = 86_400.0;

fn seconds(text: &str) -> Result<Duration, &'static str> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.001..=SECONDS_MAX).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("expected seconds, from 0.001 to 86400"),
    }
}
