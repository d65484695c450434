//! A site as it is served: its image, and the descriptors that go with it.

pub(crate) mod archive;
pub(crate) mod inspect;
pub(crate) mod pack;
pub(crate) mod releases;
pub(crate) mod set;
pub(crate) mod transfer;
pub(crate) mod trusted_path;
pub(crate) mod user_directories;
pub(crate) mod versions;
pub(crate) mod virtual_hosts;
pub(crate) mod watch;

use crate::{
    base::{
        error::{UserError, reason},
        site_config::SiteSource,
    },
    sys::{cached, memory},
};
use archive::Archive;
use rustix::process::{Resource, getrlimit};
use std::{
    fmt,
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};
use tarpon_pack::{
    Barrier, Damage, LeftOut, Memo, Options, PackError, Packed, Policy, Skipped, Tree, pack_tar, pack_tree,
};
use tarpon_site::Printable;
use tarpon_site::{Image, ImageError, Region, packed};
use trusted_path::SiteRoot;

/// A site, ready to be served: an immutable image of all it contains.
///
/// What changes on disk later does not change it; make another one and [swap](crate::Handle::swap) it in.
#[derive(Debug)]
pub struct Site {
    image: Image,
    /// The image again, as a descriptor. `None`: it lies in the archive.
    store: Option<File>,
    /// Files too large for the image.
    files: Vec<File>,
    /// The archive its contents lie in.
    archive: Option<Archive>,
    file_count: u64,
    len: u64,
    skipped: Vec<Skipped>,
    /// Directories of users that were left out, and were not when it was built before.
    left_out: Vec<LeftOut>,
}

impl Site {
    /// Reads a directory.
    ///
    /// # Errors
    /// It is missing, something in it cannot be read, or more files are too large for the image than the limit
    /// on open files leaves room for.
    pub fn from_dir(dir: impl AsRef<Path>) -> Result<Site, UserError> {
        let source = SiteSource { path: dir.as_ref().to_owned(), ..SiteSource::default() };
        let failed = |error| trouble(PackError::Root { path: source.path.clone(), error });
        SiteBuilder::default().dir(Tree::open(&source.path).map_err(failed)?, &source)
    }

    /// Reads a tar archive, or the directory `prefix` of it if that is not empty. The contents are sent from the
    /// archive itself, which stays mapped: replace it by renaming another one over it, do not write to it. If it is
    /// truncated all the same, that is survived by a handler of SIGBUS, which passes on what does not concern it.
    ///
    /// # Errors
    /// It is missing, is no complete tar archive, has sparse members, or has no such directory.
    pub fn from_archive(path: impl AsRef<Path>, prefix: impl AsRef<Path>) -> Result<Site, UserError> {
        let (path, prefix) = (path.as_ref().to_owned(), prefix.as_ref().to_owned());
        let source = SiteSource { path, prefix, ..SiteSource::default() };
        from_archive(Archive::new(&source.path, source.max_unpacked_len, source.preload)?, &source)
    }

    /// How many files it contains.
    pub fn file_count(&self) -> u64 {
        self.file_count
    }

    /// How many bytes its files have together.
    pub fn content_len(&self) -> u64 {
        self.len
    }

    /// One line for each kind of thing in the directory or archive that is not served.
    pub fn warnings(&self) -> impl Iterator<Item = impl fmt::Display + '_> {
        let skipped = self.skipped.iter().map(Skipped::to_string);
        skipped.chain(self.left_out.iter().map(LeftOut::to_string))
    }

    /// Whether another one has the same content, under the same names and with the same fields: an image has a hash of
    /// whatever lies beside it.
    pub(crate) fn is_same(&self, other: &Site) -> bool {
        self.image.as_bytes() == other.image.as_bytes()
    }

    /// Descriptors it keeps open.
    pub(crate) fn descriptor_count(&self) -> usize {
        self.files.len() + usize::from(self.archive.is_some()) + 1
    }

    /// All of these.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = &File> {
        let archive = self.archive.as_ref().map(|archive| &archive.file);
        self.store.iter().chain(archive).chain(&self.files)
    }

    #[inline]
    pub(crate) fn image(&self) -> &Image {
        &self.image
    }

    /// The descriptor that the image lies in, and where it begins there.
    #[inline]
    pub(crate) fn store(&self) -> (&File, u64) {
        match &self.store {
            Some(store) => (store, 0),
            None => (&self.archive().file, self.archive().at + packed::IMAGE_AT),
        }
    }

    /// A stretch of the image for the kernel to read, and only for it.
    #[inline]
    pub(crate) fn named(&self, place: Region) -> &[u8] {
        match &self.store {
            Some(_) => self.image.bytes(place),
            None => {
                let place = Region { at: place.at + packed::IMAGE_AT, ..place };
                self.archive().map.named(place).unwrap_or_default()
            }
        }
    }

    /// Whether the image lies in an archive that was truncated: nothing it says is to be believed.
    #[inline]
    pub(crate) fn is_damaged(&self) -> bool {
        self.is_packed() && self.archive().map.is_damaged()
    }

    #[inline]
    pub(crate) fn file(&self, number: u32) -> &File {
        &self.files[number as usize]
    }

    /// How long the files beside its image were when they were opened, in bytes.
    pub(crate) fn file_lens(&self) -> impl Iterator<Item = u64> {
        self.files.iter().map(|file| memory::len(file).unwrap_or(0))
    }

    /// Where its archive ends in the file that it lies in; 0: there is none.
    pub(crate) fn archive_end(&self) -> u64 {
        self.archive.as_ref().map_or(0, |archive| archive.at + archive.map.len())
    }

    /// Whether anything of it lies elsewhere than in memory of its own.
    pub(crate) fn is_on_disk(&self) -> bool {
        !self.files.is_empty() || self.archive.is_some()
    }

    /// The files it lies in.
    pub(crate) fn files_on_disk(&self) -> impl Iterator<Item = &File> {
        self.archive.iter().map(|archive| &archive.file).chain(&self.files)
    }

    /// Whether its image lies in its archive.
    pub(crate) fn is_packed(&self) -> bool {
        self.store.is_none()
    }

    /// The descriptor of a store, and where it begins there.
    #[inline]
    pub(crate) fn file_of(&self, store: StoreId) -> (&File, u64) {
        match store {
            StoreId::Archive => (&self.archive().file, self.archive().at),
            StoreId::File(number) => (self.file(number), 0),
        }
    }

    #[inline]
    pub(crate) fn archive(&self) -> &Archive {
        self.archive.as_ref().expect("an image that names an archive came from one")
    }
}

/// Where on a disk a part of a site lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreId {
    /// In its archive.
    Archive,
    /// In the file of this number.
    File(u32),
}

/// Builds a site again and again, and does not read twice what has not changed.
#[derive(Default)]
pub(crate) struct SiteBuilder {
    memo: Memo,
    /// Left out by the last build, and already reported.
    left_out: Vec<LeftOut>,
    /// The directory or archive to read, even if another one lies at the path when the builder reads it.
    root: Option<Arc<SiteRoot>>,
    /// The user this process has become, for messages.
    user: Option<String>,
}

impl SiteBuilder {
    /// A builder that reads a directory or archive that is open already.
    pub(crate) fn with_root(root: Arc<SiteRoot>) -> SiteBuilder {
        SiteBuilder { root: Some(root), ..SiteBuilder::default() }
    }

    /// The builder of a process that has become this user.
    #[must_use]
    pub(crate) fn with_user(self, user: Option<String>) -> SiteBuilder {
        SiteBuilder { user, ..self }
    }

    pub(crate) fn build(&mut self, source: &SiteSource) -> Result<Site, UserError> {
        let &SiteSource { ref path, ref prefix, preload, max_unpacked_len, .. } = source;
        let tree = match &self.root {
            None if path.is_file() => {
                return from_archive(Archive::new(path, max_unpacked_len, preload)?, source);
            }
            None => Tree::open(path).map_err(|error| PackError::Root { path: path.clone(), error }),
            Some(root) => match root.tree() {
                Ok(None) => {
                    let file = root.file().map_err(|error| match root.barrier() {
                        Some(barrier) => self.denied(path, &barrier),
                        None => archive::unreadable(path, &error),
                    })?;
                    let archive = Archive::from_file(file, path, max_unpacked_len, preload)?;
                    return from_archive(archive, source);
                }
                Ok(Some(tree)) => Ok(tree),
                Err(error) => Err(PackError::Root { path: path.clone(), error }),
            },
        };
        let tree = tree.map_err(|error| self.trouble(error))?;
        if prefix.as_os_str().is_empty() {
            self.dir(tree, source)
        } else {
            Err(UserError::new(
                format_args!("cannot serve {} of {}", prefix.printable(), path.printable()),
                "it is no archive",
                format_args!("leave --prefix out, as in tarpon serve {}", path.join(prefix).printable()),
            ))
        }
    }

    fn dir(&mut self, tree: Tree, source: &SiteSource) -> Result<Site, UserError> {
        let mut options = Options { file_count_max: file_count_max(), ..options(source) };
        if source.preload {
            options.file_len_min = u64::MAX;
        }
        let memo = &mut self.memo;
        let site = site(|out| pack_tree(tree, out, &options, memo));
        let mut site = site.map_err(|error| self.trouble(error))?;
        let left_out = site.left_out.clone();
        site.left_out.retain(|left_out| !self.left_out.contains(left_out));
        self.left_out = left_out;
        Ok(site)
    }

    /// Returns the message for a directory that cannot be packed.
    fn trouble(&self, error: PackError) -> UserError {
        match error {
            PackError::Denied { path, barrier } => self.denied(&path, &barrier),
            error => trouble(error),
        }
    }

    /// Returns the message for a path that permissions keep this process from reading.
    fn denied(&self, path: &Path, barrier: &Barrier) -> UserError {
        let (what, bits) = if barrier.is_dir { ("enter", "o+rx") } else { ("read", "o+r") };
        let Some(user) = &self.user else {
            return trouble(PackError::Denied { path: path.to_owned(), barrier: barrier.clone() });
        };
        let user = user.printable();
        UserError::new(
            format_args!("cannot read {}", path.printable()),
            format_args!("user {user} may not {what} {barrier}"),
            format_args!(
                "let it, as with chmod {bits} {}, or move that out of the site",
                barrier.path.printable()
            ),
        )
    }
}

fn options(source: &SiteSource) -> Options {
    let (dialect, policy, users) = (source.dialect, source.policy.clone(), source.users.directories.clone());
    Options { dialect, policy, users, ..Options::new(unix_s()) }
}

/// The site of an archive; `source` says the rest.
pub(crate) fn from_archive(archive: Archive, source: &SiteSource) -> Result<Site, UserError> {
    let SiteSource { path, prefix, policy, .. } = source;
    if source.users.user_database.is_some() || !source.users.directories.is_empty() {
        return Err(UserError::new(
            format_args!("cannot serve directories of users beside {}", path.printable()),
            "it is an archive, to which nothing can be added",
            "leave --user-directories out, or serve a directory",
        ));
    }
    let damaged = |error: ImageError| {
        let what = format_args!("cannot serve {}", path.printable());
        UserError::new(what, error, "see what tarpon verify says, and pack the site anew")
    };
    let Some(image) = archive.image().map_err(damaged)? else {
        // What a program carries was packed, so that an archive without an image is a file of its own.
        let options = options(source);
        let site = site(|out| pack_tar(&archive.file, path, prefix, out, &options)).map_err(trouble)?;
        return Ok(Site { archive: Some(archive), ..site });
    };
    if !prefix.as_os_str().is_empty() {
        return Err(UserError::new(
            format_args!("cannot serve {} of {}", prefix.printable(), path.printable()),
            "it is a packed site, in which every path is settled",
            "leave --prefix out, or pack that directory by itself",
        ));
    }
    if *policy != Policy::default() {
        return Err(UserError::new(
            format_args!("cannot serve {} with these options", path.printable()),
            "it is a packed site, which answers as it was packed",
            "give --spa, --clean-urls and the like to tarpon pack, and leave them out here",
        ));
    }
    // Begun to be read now, it is in memory when the first clients come, or soon after.
    let image_at = archive.at + packed::IMAGE_AT;
    cached::expect(&archive.file, image_at, image.len());
    // An image that does not say has paths, and a length.
    let (file_count, len) = match image.totals() {
        Some(totals) => (totals.files, totals.bytes),
        None => (image.record_count(), archive.map.len()),
    };
    let archive = Some(archive);
    let (files, skipped, left_out) = (Vec::new(), Vec::new(), Vec::new());
    Ok(Site { image, store: None, files, archive, file_count, len, skipped, left_out })
}

/// The site whose image `pack` writes.
fn site(pack: impl FnOnce(&mut BufWriter<File>) -> Result<Packed, PackError>) -> Result<Site, PackError> {
    let failed = PackError::Write;
    let mut out = BufWriter::with_capacity(WRITE_LEN, memory::file().map_err(failed)?);
    let Packed { files, summary, skipped, left_out } = pack(&mut out)?;
    out.flush().map_err(failed)?;
    let store = out.into_inner().map_err(|error| failed(error.into_error()))?;
    let bytes = memory::seal(&store).map_err(failed)?;
    let image = Image::new(bytes).expect("a packed image is in order");
    let store = Some(store);
    let (file_count, len) = (summary.files, summary.bytes);
    Ok(Site { image, store, files, archive: None, file_count, len, skipped, left_out })
}

/// What a user is told of a directory or archive that cannot be packed.
fn trouble(error: PackError) -> UserError {
    match error {
        PackError::Root { path, error } if error.kind() == io::ErrorKind::NotFound => missing(&path, &path),
        PackError::Root { path, error } => UserError::new(
            format_args!("cannot serve {}", path.printable()),
            reason(&error),
            "name a directory or tar archive that exists and may be read, as in tarpon serve DIR",
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
            "cannot make the site's image",
            format_args!("its symbolic links lead to {} and others too often", path.printable()),
            "remove links to directories that hold such links themselves",
        ),
        PackError::FileCount { count, max } => UserError::new(
            format_args!("cannot keep {count} large files open"),
            format_args!("the limit on open files leaves room for {max}"),
            format_args!("raise it, as with ulimit -n {}", (4 * count).next_power_of_two()),
        ),
        PackError::Archive { path, damage, at, member } => {
            let remedy = match damage {
                Damage::NotTar => "name a directory or a tar archive",
                Damage::Truncated => "write it whole under another name, then rename it",
                Damage::Header | Damage::Extension => "make it anew, as with tar -cf",
                Damage::Sparse => "make it anew without --sparse",
                Damage::TooMany => "leave out links to directories",
            };
            let place = match member.is_empty() {
                true => format!("{damage}, at byte {at}"),
                false => format!("{damage}, at byte {at}, {}", member.printable()),
            };
            UserError::new(format_args!("cannot read {}", path.printable()), place, remedy)
        }
        PackError::Prefix { path, prefix } => UserError::new(
            format_args!("cannot serve {} of {}", prefix.printable(), path.printable()),
            "the archive has no such directory",
            "see tar -tf for those it has",
        ),
        PackError::Rules { file, line, column, error } => {
            UserError::new(format_args!("{}:{line}:{column}", file.name()), error, error.hint())
        }
        error @ PackError::NoShell => UserError::new(
            "cannot serve the site with --spa",
            error,
            "put it at the root of the site, or leave --spa out",
        ),
        error @ PackError::TooLarge => {
            UserError::new("cannot make the site's image", error, "serve its parts as several sites")
        }
        PackError::Write(error) => {
            UserError::new("cannot make the site's image in memory", reason(&error), "free some memory")
        }
    }
}

/// There is no site at a path, as there is nothing at `at`, which is the same or on the way to it.
pub(crate) fn missing(path: &Path, at: &Path) -> UserError {
    let (what, remedy) = (
        format!("cannot serve {}", path.printable()),
        "name a directory or tar archive, as in tarpon serve DIR",
    );
    match at == path {
        true => UserError::new(what, "it does not exist", remedy),
        false => UserError::new(what, format_args!("{} does not exist", at.printable()), remedy),
    }
}

/// A quarter of the limit on open files: there may be two sites while one replaces another, and the rest is
/// for connections.
fn file_count_max() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit / 4).unwrap_or(usize::MAX)
}

fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Bytes written to the image at once.
const WRITE_LEN: usize = 256 * 1024;
