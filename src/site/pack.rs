//! Packs a site into one archive: what a user can have, and what a user is told when it fails.

use crate::{
    base::site_config::MAX_UNPACKED_LEN,
    base::{
        error::{UserError, reason},
        site_config::SiteSource,
    },
    site::archive,
    sys::program,
};
use std::{
    env,
    fs::File,
    io::{self, Seek},
    num::NonZeroUsize,
    path::{Path, PathBuf},
    thread,
    time::{SystemTime, UNIX_EPOCH},
};
use tarpon_pack::{
    CompressionEffort, Damage, OpenError, PackError, PackInput, PackReport, Progress, SiteError, SiteOptions,
    embedded_site, pack_site,
};
use tarpon_site::Printable;

/// What a site is packed into, and how.
#[derive(Clone, Debug)]
pub struct SitePacking {
    /// The archive to be written. One that is there is replaced when the new one is whole.
    pub target: PathBuf,
    /// How much time compressing may take.
    pub effort: CompressionEffort,
    /// An earlier archive of the site: what has not changed since is not compressed again. None: what lies at the target, if
    /// that is one.
    pub reuse: Option<PathBuf>,
    /// Earlier archives of the site: clients that still have a file of one get what has changed in it since.
    pub dictionaries: Vec<PathBuf>,
    /// Clients are told that they may use files as dictionaries for later releases; so they are with `dictionaries`.
    pub offer_dictionaries: bool,
    /// The target becomes a program: this one, which carries the site and serves it when it is started.
    pub executable: bool,
}

impl SitePacking {
    /// With the effort that is the default.
    pub fn new(target: &Path) -> SitePacking {
        let (effort, dictionaries) = (CompressionEffort::default(), Vec::new());
        SitePacking {
            target: target.into(),
            effort,
            reuse: None,
            dictionaries,
            offer_dictionaries: false,
            executable: false,
        }
    }
}

/// Packs a site into one archive that can be served as it is, on all cores. Files modified after the time that
/// `SOURCE_DATE_EPOCH` tells, or else after now, count as modified then.
///
/// # Errors
/// The site cannot be read, or changes meanwhile; the archive cannot be written, or would lie within the site.
pub fn pack(
    source: &SiteSource,
    packing: &SitePacking,
    progress: &Progress,
) -> Result<PackReport, UserError> {
    let &SiteSource { ref path, ref prefix, max_unpacked_len, .. } = source;
    let program = packing.executable.then(this_program).transpose()?;
    let options = SiteOptions {
        effort: packing.effort,
        workers: thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
        max_mtime_s: latest_s()?,
        reuse: packing.reuse.as_deref(),
        dictionaries: &packing.dictionaries,
        offer_dictionaries: packing.offer_dictionaries || !packing.dictionaries.is_empty(),
        program: program.as_ref(),
        dialect: source.dialect,
        policy: &source.policy,
    };
    let pack =
        |input| pack_site(input, &packing.target, &options, progress).map_err(|error| trouble(error, path));
    if path.is_file() {
        let file = archive::open_as_file(path, max_unpacked_len)?;
        pack(PackInput::Archive { file: &file, path, prefix })
    } else if prefix.as_os_str().is_empty() {
        pack(PackInput::Dir(path))
    } else {
        Err(UserError::new(
            format_args!("cannot pack {} of {}", prefix.printable(), path.printable()),
            "it is not an archive",
            format_args!("leave --prefix out, as in tarpon pack {}", path.join(prefix).printable()),
        ))
    }
}

/// The program that runs, as a file: also if another one has taken its name.
fn this_program() -> Result<File, UserError> {
    program::open().map_err(|error| {
        UserError::new(
            "cannot read this program",
            reason(&error),
            "pack without --executable, or mount /proc",
        )
    })
}

/// Whether this program carries a site: packed with `--executable`.
pub fn has_embedded_site() -> bool {
    let carried = program::open().and_then(|program| embedded_site(&program));
    carried.is_ok_and(|carried| carried.is_some())
}

/// The tar archive that a program carries, read from its start.
///
/// # Errors
/// It cannot be read, or there is too little memory to copy it into.
pub fn embedded_archive(program: &Path) -> Result<File, UserError> {
    let mut archive = archive::open_as_file(program, MAX_UNPACKED_LEN)?;
    let rewound = archive.rewind().map(|()| archive);
    rewound.map_err(|error| UserError::new("cannot read this program", reason(&error), "pack it anew"))
}

/// <https://reproducible-builds.org/specs/source-date-epoch/>: builders that do not understand its value must fail.
fn latest_s() -> Result<u64, UserError> {
    match env::var_os("SOURCE_DATE_EPOCH") {
        None => Ok(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())),
        Some(value) => value.to_str().and_then(|value| value.parse().ok()).ok_or_else(|| {
            UserError::new(
                format_args!("cannot use SOURCE_DATE_EPOCH={}", value.printable()),
                "it is no number of seconds since 1970",
                "set it as with SOURCE_DATE_EPOCH=$(git log -1 --format=%ct), or unset it",
            )
        }),
    }
}

/// What a user is told of a site that cannot be packed.
fn trouble(error: SiteError, site: &Path) -> UserError {
    match error {
        SiteError::Input(error) => input_trouble(error, site),
        SiteError::Changed { path } => UserError::new(
            format_args!("cannot pack {}", site.printable()),
            format_args!("{} changed meanwhile", path.printable()),
            "pack it when nobody writes to it",
        ),
        SiteError::Inside { path } => UserError::new(
            format_args!("cannot write {}", path.printable()),
            "it would be a part of the site it is packed from",
            "write it beside the directory, as with -o ../site.tar",
        ),
        SiteError::Write { path, error } => UserError::new(
            format_args!("cannot write {}", path.printable()),
            reason(&error),
            "name a file in a directory that exists, with room for the site and its compressed forms",
        ),
        SiteError::Reuse { path, error } => UserError::new(
            format_args!("cannot reuse {}", path.printable()),
            why(error),
            "name an archive that tarpon pack has written, or leave --reuse out",
        ),
        SiteError::Dictionary { path, error } => dictionary_error(&path, error),
    }
}

/// What a user is told of an earlier archive that is of no use.
pub(crate) fn dictionary_error(path: &Path, error: OpenError) -> UserError {
    UserError::new(
        format_args!("cannot take dictionaries from {}", path.printable()),
        why(error),
        "name an archive that tarpon pack has written, or leave --dictionary out",
    )
}

fn why(error: OpenError) -> String {
    match error {
        OpenError::Read(error) => reason(&error),
        error => error.to_string(),
    }
}

fn input_trouble(error: PackError, site: &Path) -> UserError {
    match error {
        PackError::Root { path, error } if error.kind() == io::ErrorKind::NotFound => UserError::new(
            format_args!("cannot pack {}", path.printable()),
            "it does not exist",
            "name a directory or tar archive, as in tarpon pack DIR -o FILE",
        ),
        PackError::Root { path, error } => UserError::new(
            format_args!("cannot pack {}", path.printable()),
            reason(&error),
            "name a directory or tar archive that exists and may be read, as in tarpon pack DIR -o FILE",
        ),
        PackError::Read { path, error } => UserError::new(
            format_args!("cannot read {}", path.printable()),
            reason(&error),
            "make it readable, or move it out of the site",
        ),
        PackError::Denied { path, barrier } => UserError::new(
            format_args!("cannot read {}", path.printable()),
            format_args!("permission denied by {barrier}"),
            "make it readable, or move it out of the site",
        ),
        PackError::Repeats { path } => UserError::new(
            format_args!("cannot pack {}", site.printable()),
            format_args!("its symbolic links lead to {} and others too often", path.printable()),
            "remove links to directories that hold such links themselves",
        ),
        error @ PackError::Archive { .. } => {
            let remedy = match error {
                PackError::Archive { damage: Damage::NotTar, .. } => "name a directory or a tar archive",
                _ => "make it anew, as with tar -cf, or name its directory",
            };
            UserError::new(format_args!("cannot pack {}", site.printable()), error, remedy)
        }
        error @ PackError::Prefix { .. } => UserError::new(
            format_args!("cannot pack {}", site.printable()),
            error,
            "see tar -tf for those it has",
        ),
        PackError::Rules { file, line, column, error } => {
            UserError::new(format_args!("{}:{line}:{column}", file.name()), error, error.hint())
        }
        error @ PackError::NoShell => UserError::new(
            format_args!("cannot pack {} with --spa", site.printable()),
            error,
            "put it at the root of the site, or leave --spa out",
        ),
        error @ (PackError::TooLarge | PackError::FileCount { .. } | PackError::Write(_)) => UserError::new(
            format_args!("cannot pack {}", site.printable()),
            error,
            "pack its parts as several sites",
        ),
    }
}
