//! Packs a site into one archive, with messages for the user.

use crate::{
    base::{
        error::{UserError, reason},
        site_config::SiteSource,
    },
    site::{archive, build_error::rule_errors, link_trees},
    sys::program,
};
use std::{
    env,
    fs::File,
    io,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{SystemTime, UNIX_EPOCH},
};
use tarpon_pack::{
    CompressionEffort, Damage, DirTree, OpenError, PackError, PackInput, PackReport, Progress, SiteError,
    SiteOptions, pack_site,
};
use tarpon_site::Printable;

/// The target and the options of packing a site.
#[derive(Clone, Debug)]
pub struct SitePacking {
    /// The archive to write. The complete new archive replaces an existing file by a rename. Default: that of [`new`](SitePacking::new).
    pub target: PathBuf,
    /// How much time compression may take. Default: `Balanced`.
    pub effort: CompressionEffort,
    /// An earlier archive of the site, from which unchanged files are copied instead of compressed again. `None`: the existing file at
    /// the target, if it is such an archive. Default: `None`.
    pub reuse: Option<PathBuf>,
    /// Earlier archives of the site. A client that has a file of one receives only the difference to the new file. Default: none.
    pub dictionaries: Vec<PathBuf>,
    /// Offers files to clients as dictionaries for later releases. Implied by `dictionaries`. Default: `false`.
    pub offer_dictionaries: bool,
    /// Writes a program instead of an archive: a copy of this program with the site embedded, which serves it when started. Default: `false`.
    pub executable: bool,
}

impl SitePacking {
    /// Returns the default options for a target.
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

/// Packs a site into one archive that the server can serve directly. Uses all CPU cores. Modification times after the time in
/// `SOURCE_DATE_EPOCH`, or after the current time without that variable, are set to that time.
///
/// # Errors
/// The site cannot be read, or changes during packing; the archive cannot be written, or would be inside the site.
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
        programs: Some(&source.programs),
        dialect: source.dialect,
        policy: &source.policy,
    };
    let pack = |input| {
        pack_site(input, &packing.target, &options, progress).map_err(|error| site_error(error, path))
    };
    if path.is_file() {
        link_trees::refuse_for_archive(source)?;
        let file = archive::open_as_file(path, max_unpacked_len)?;
        pack(PackInput::Archive { file: &file, path, prefix })
    } else if prefix.as_os_str().is_empty() {
        if source.follow_links.is_empty() {
            return pack(PackInput::Dir(path));
        }
        let root = |error| input_error(PackError::Root { path: path.clone(), error }, path);
        let links = link_trees::open_all(&source.follow_links)?;
        let links = link_trees::trees(&links).map_err(root)?;
        let tree = DirTree::open(path).map_err(root)?.with_links(links);
        pack(PackInput::Tree(&Arc::new(tree)))
    } else {
        Err(UserError::new(
            format_args!("cannot pack {} of {}", prefix.printable(), path.printable()),
            "it is not an archive",
            format_args!("leave --prefix out, as in tarpon pack {}", path.join(prefix).printable()),
        ))
    }
}

/// Opens the file of the running program, even if another file has replaced it at its path.
fn this_program() -> Result<File, UserError> {
    program::open().map_err(|error| {
        UserError::new(
            "cannot read this program",
            reason(&error),
            "pack without --executable, or mount /proc",
        )
    })
}

/// Returns the latest modification time that an archive may contain. An invalid `SOURCE_DATE_EPOCH` is an error, as
/// <https://reproducible-builds.org/specs/source-date-epoch/> requires.
fn latest_s() -> Result<u64, UserError> {
    match env::var_os("SOURCE_DATE_EPOCH") {
        None => Ok(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())),
        Some(value) => value.to_str().and_then(|value| value.parse().ok()).ok_or_else(|| {
            UserError::new(
                format_args!("cannot use SOURCE_DATE_EPOCH={}", value.printable()),
                "it is not a number of seconds since 1970",
                "set it as with SOURCE_DATE_EPOCH=$(git log -1 --format=%ct), or unset it",
            )
        }),
    }
}

/// Returns the message for a site that cannot be packed.
fn site_error(error: SiteError, site: &Path) -> UserError {
    match error {
        SiteError::Input(error) => input_error(error, site),
        SiteError::Changed { path } => UserError::new(
            format_args!("cannot pack {}", site.printable()),
            format_args!("{} changed while it was read", path.printable()),
            "pack the site while no program writes to it",
        ),
        SiteError::Inside { path } => UserError::new(
            format_args!("cannot write {}", path.printable()),
            "the target is inside the site",
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

/// Returns the message for an earlier archive that cannot serve as a dictionary.
pub(crate) fn dictionary_error(path: &Path, error: OpenError) -> UserError {
    UserError::new(
        format_args!("cannot read dictionaries from {}", path.printable()),
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

/// Returns the message for a directory or archive that cannot be packed.
fn input_error(error: PackError, site: &Path) -> UserError {
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
        PackError::Denied { path, denied_by } => UserError::new(
            format_args!("cannot read {}", path.printable()),
            format_args!("permission denied by {denied_by}"),
            "make it readable, or move it out of the site",
        ),
        PackError::Repeats { path } => UserError::new(
            format_args!("cannot pack {}", site.printable()),
            format_args!("its symbolic links lead to {} and other directories too often", path.printable()),
            "remove links to directories that contain such links",
        ),
        error @ PackError::Archive { .. } => {
            let hint = match error {
                PackError::Archive { damage: Damage::NotTar, .. } => "name a directory or a tar archive",
                _ => "create it again, as with tar -cf, or name its directory",
            };
            UserError::new(format_args!("cannot pack {}", site.printable()), error, hint)
        }
        error @ PackError::Prefix { .. } => UserError::new(
            format_args!("cannot pack {}", site.printable()),
            error,
            "see tar -tf for those it has",
        ),
        PackError::Rules(errors) => rule_errors(&errors),
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
