//! Builds a site from a directory or an archive.
//!
//! ```text
//! directory ─────────── pack_tree ──▶ image in sealed memory, large files stay open
//! plain tar archive ─── pack_tar ───▶ image in sealed memory, contents in the mapped archive
//! packed site ──────────────────────▶ image and contents in the mapped archive
//! ```

use super::{
    BuildNotes, Site,
    archive::{self, Archive},
    build_error::{denied, pack_error},
    descriptor_budget::DescriptorBudget,
    link_trees,
    trusted_path::SiteRoot,
};
use crate::{
    base::{error::UserError, site_config::SiteSource},
    sys::{cached, memory},
};
use std::{
    fs::File,
    io::{BufWriter, Write},
    path::Path,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};
use tarpon_pack::{
    BuildCache, CompressionJob, DirTree, JobFiles, MadeVariant, Omitted, PackError, PackOptions, PackedImage,
    Policy, Progress, VariantCache, content_hash, pack_tar, pack_tree,
};
use tarpon_site::{Image, ImageError, Printable, format::HEADER_LEN, packed};

/// A builder of one site. It keeps the hashes of large files and the compressed variants, so that a rebuild costs only what has changed.
#[derive(Default)]
pub(crate) struct SiteBuilder {
    cache: BuildCache,
    /// What the last build left to compress.
    to_compress: Option<CompressionBatch>,
    /// The user directories that the last build omitted: the next build does not report them again.
    omitted: Vec<Omitted>,
    /// The open directory or archive to read, even if the path now leads to another one. `None`: open the path.
    root: Option<Arc<SiteRoot>>,
    /// The open trees that links may lead into. `None`: open them by their paths.
    links: Option<Vec<Arc<SiteRoot>>>,
    /// The user that this process has switched to, for messages.
    user: Option<String>,
    /// How many files the current build has read.
    progress: Arc<Progress>,
    /// Whether other processes serve the site: they share its unchanged files, so it may have more of them.
    is_shared: bool,
}

/// The contents of a site that lack compressed variants, and the files that have them.
pub(super) struct CompressionBatch {
    pub(super) jobs: Vec<CompressionJob>,
    pub(super) files: JobFiles,
}

impl SiteBuilder {
    /// Returns a builder that reads a directory or archive that is already open.
    pub(crate) fn with_root(root: Arc<SiteRoot>) -> SiteBuilder {
        SiteBuilder { root: Some(root), ..SiteBuilder::default() }
    }

    /// Sets the trees that links may lead into, which are already open.
    #[must_use]
    pub(crate) fn with_links(self, links: Option<Vec<Arc<SiteRoot>>>) -> SiteBuilder {
        SiteBuilder { links, ..self }
    }

    /// Sets the user that this process has switched to, for messages.
    #[must_use]
    pub(crate) fn with_user(self, user: Option<String>) -> SiteBuilder {
        SiteBuilder { user, ..self }
    }

    /// Allows as many large files as processes can serve that share the unchanged ones.
    #[must_use]
    pub(crate) fn for_other_processes(self) -> SiteBuilder {
        SiteBuilder { is_shared: true, ..self }
    }

    /// Sets an image of an earlier builder, whose compressed variants the next site gets.
    pub(crate) fn use_variants_of(&mut self, store: File) {
        // Without them the contents are compressed anew.
        if let Ok(image) =
            memory::map_sealed(&store).map_err(drop).and_then(|bytes| Image::new(bytes).map_err(drop))
        {
            self.cache.variants = VariantCache::of_image(store, &image);
        }
    }

    /// Adds variants, which the next build uses.
    pub(super) fn add_variants(&mut self, made: Vec<MadeVariant>, source: &SiteSource) {
        if let Some(compression) = source.compression {
            self.cache.variants.insert(made, compression.memory_max);
        }
    }

    /// Returns whether the next build has more to compress, as that of the last one was too much at once.
    pub(super) fn has_more_jobs(&self) -> bool {
        self.cache.variants.has_more_jobs()
    }

    /// Takes what the last build left to compress. `None`: nothing.
    pub(super) fn take_batch(&mut self) -> Option<CompressionBatch> {
        self.to_compress.take()
    }

    /// Returns the progress of the current build, for another thread.
    pub(crate) fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// Builds or rebuilds the site.
    ///
    /// # Errors
    /// The source cannot be read, or its options do not fit it.
    pub(crate) fn build(&mut self, source: &SiteSource) -> Result<Site, UserError> {
        let site = self.read(source)?;
        self.to_compress = site.store.as_ref().filter(|_| source.compression.is_some()).and_then(|store| {
            // Without descriptors the site is served uncompressed.
            let archive = site.archive.as_ref().map(|archive| archive.file.try_clone()).transpose().ok()?;
            self.cache.variants.follow(store.try_clone().ok()?, &site.image);
            let files = JobFiles { image: store.try_clone().ok()?, archive };
            let jobs = self.cache.variants.take_jobs();
            (!jobs.is_empty()).then_some(CompressionBatch { jobs, files })
        });
        Ok(site)
    }

    fn read(&mut self, source: &SiteSource) -> Result<Site, UserError> {
        let &SiteSource { ref path, ref prefix, preload, max_unpacked_len, .. } = source;
        let tree = match &self.root {
            None if path.is_file() => {
                let archive = Archive::new(path, max_unpacked_len, preload)?;
                return from_archive(archive, source, &mut self.cache, &self.progress);
            }
            None => DirTree::open(path).map_err(|error| PackError::Root { path: path.clone(), error }),
            Some(root) => match root.tree() {
                Ok(None) => {
                    let file = root.file().map_err(|error| match root.barrier() {
                        Some(barrier) => denied(path, &barrier, self.user.as_deref()),
                        None => archive::unreadable(path, &error),
                    })?;
                    let archive = Archive::from_file(file, path, max_unpacked_len, preload)?;
                    return from_archive(archive, source, &mut self.cache, &self.progress);
                }
                Ok(Some(tree)) => Ok(tree),
                Err(error) => Err(PackError::Root { path: path.clone(), error }),
            },
        };
        let tree = tree.map_err(|error| pack_error(error, self.user.as_deref()))?;
        if prefix.as_os_str().is_empty() {
            self.dir(tree, source)
        } else {
            Err(UserError::new(
                format_args!("cannot serve {} of {}", prefix.printable(), path.printable()),
                "it is not an archive",
                format_args!("leave --prefix out, as in tarpon serve {}", path.join(prefix).printable()),
            )
            .about("prefix"))
        }
    }

    /// Builds the site of a directory. `omitted` of the result leaves out what the last build omitted too.
    pub(super) fn dir(&mut self, tree: DirTree, source: &SiteSource) -> Result<Site, UserError> {
        let opened;
        let links = match &self.links {
            Some(links) => links,
            None => {
                opened = link_trees::open_all(&source.follow_links)?;
                &opened
            }
        };
        let links = link_trees::trees(links);
        let links = links.map_err(|error| {
            pack_error(PackError::Root { path: source.path.clone(), error }, self.user.as_deref())
        })?;
        let tree = tree.with_links(links);
        let budget = DescriptorBudget::of_process();
        // The image takes one, too.
        let file_count_max =
            if self.is_shared { budget.current_max.saturating_sub(1) } else { budget.unshared_max };
        let mut options = PackOptions { file_count_max, ..options(source) };
        if source.preload {
            options.file_len_min = u64::MAX;
        }
        let root = Some(tree.path().to_owned());
        let (cache, progress) = (&mut self.cache, &self.progress);
        let site = site(cache, |out, cache| pack_tree(tree, out, &options, cache, progress));
        let mut site = site.map_err(|error| pack_error(error, self.user.as_deref()))?;
        let omitted = site.notes.omitted.clone();
        site.notes.omitted.retain(|omitted| !self.omitted.contains(omitted));
        self.omitted = omitted;
        site.notes.root = root;
        Ok(site)
    }
}

fn options(source: &SiteSource) -> PackOptions {
    let (dialect, policy, users) = (source.dialect, source.policy.clone(), source.users.directories.clone());
    let programs = source.programs.clone();
    let &SiteSource { is_strict, compression, .. } = source;
    PackOptions { dialect, policy, users, programs, is_strict, compression, ..PackOptions::new(unix_s()) }
}

/// Builds a site without files.
pub(super) fn empty() -> Result<Site, UserError> {
    let source = SiteSource::default();
    let failed = |error| pack_error(PackError::Root { path: "an empty site".into(), error }, None);
    let archive = memory::file().map_err(failed)?;
    // An archive ends with two blocks of zeros.
    archive.set_len(1024).map_err(failed)?;
    let options = options(&source);
    let (path, prefix) = (Path::new("empty.tar"), Path::new(""));
    let pack = |out: &mut _, cache: &mut _| {
        pack_tar(&archive, path, prefix, out, &options, cache, &Progress::default())
    };
    site(&mut BuildCache::default(), pack).map_err(|error| pack_error(error, None))
}

/// Builds the site of an open archive, with the settings of `source` and the compressed variants of `cache`. Reports to `progress` how many files
/// it has read.
pub(crate) fn from_archive(
    archive: Archive,
    source: &SiteSource,
    cache: &mut BuildCache,
    progress: &Progress,
) -> Result<Site, UserError> {
    let SiteSource { path, prefix, .. } = source;
    let mut errors = Vec::new();
    if source.users.user_database.is_some() || !source.users.directories.is_empty() {
        errors.push(
            UserError::new(
                format_args!("cannot serve directories of users beside {}", path.printable()),
                "it is an archive, and only a directory can have them",
                "leave --user-directories out, or serve a directory",
            )
            .about("user-directories"),
        );
    }
    errors.extend(link_trees::refuse_for_archive(source).err());
    let damaged = |error: ImageError| {
        let what = format_args!("cannot serve {}", path.printable());
        UserError::new(what, error, "see tarpon verify, and pack the site again")
    };
    let image = archive.image().map_err(damaged);
    if let Ok(Some(image)) = &image {
        unfit_for_packed(source, image, &mut errors);
    }
    let (image, errors) = match image {
        Ok(image) => (image, errors),
        Err(error) => (None, errors.into_iter().chain([error]).collect()),
    };
    if let Some(error) = UserError::join(errors) {
        return Err(error);
    }
    let Some(image) = image else {
        // `pack_tar` reads the file from offset 0. The archive begins there: only an embedded site does not, and it has an image.
        let options = options(source);
        let pack = |out: &mut _, cache: &mut _| {
            pack_tar(&archive.file, path, prefix, out, &options, cache, progress)
        };
        let site = site(cache, pack).map_err(|error| pack_error(error, None))?;
        return Ok(Site { archive: Some(archive), ..site });
    };
    // Reading ahead brings the image into memory before the first clients connect.
    let image_at = archive.at + packed::IMAGE_AT;
    cached::read_ahead(&archive.file, image_at, image.len());
    // Without totals, the number of paths and the length of the archive are the best estimate.
    let (file_count, content_len) = match image.totals() {
        Some(totals) => (totals.files, totals.bytes),
        None => (image.record_count(), archive.map.len()),
    };
    let archive = Some(archive);
    let (store, files, notes) = (None, Vec::new(), BuildNotes::default());
    // The header has hashes of all the rest.
    let header = image.as_bytes();
    let content_id = content_hash(&header[..HEADER_LEN.min(header.len())]);
    Ok(Site { image, store, files, archive, file_count, content_len, content_id, notes })
}

/// Adds an error for each option of `source` that a packed site cannot have.
fn unfit_for_packed(source: &SiteSource, image: &Image, errors: &mut Vec<UserError>) {
    let SiteSource { path, prefix, policy, .. } = source;
    if !prefix.as_os_str().is_empty() {
        errors.push(
            UserError::new(
                format_args!("cannot serve {} of {}", prefix.printable(), path.printable()),
                "it is a packed site, whose paths are fixed",
                "leave --prefix out, or pack that directory by itself",
            )
            .about("prefix"),
        );
    }
    // Without `..`, so that no option is forgotten.
    let Policy {
        spa,
        clean_urls,
        trailing_slash,
        listings,
        index,
        allow_sniffing,
        secure_headers,
        hsts,
        cors,
        immutable,
        base,
        rules,
    } = policy;
    if !rules.is_empty() {
        errors.push(UserError::new(
            format_args!("cannot serve {} with rules of the configuration", path.printable()),
            "it is a packed site, which keeps the rules that it was packed with",
            "pack the site with them, as in tarpon pack --config tarpon.toml, and leave them out here",
        ));
    }
    // A mount or a proxy that the site was not packed for would break its redirects.
    if !base.is_empty() && base.as_bytes() != image.base() {
        let packed = String::from_utf8_lossy(image.base()).into_owned();
        errors.push(
            UserError::new(
                format_args!("cannot serve {} below {}", path.printable(), base.printable()),
                match &*packed {
                    "" => "it was packed for the root of a host".to_owned(),
                    packed => format!("it was packed for {}", packed.printable()),
                },
                format_args!("pack it with --base {}", base.printable()),
            )
            .about("mount"),
        );
    }
    let given = [
        ("spa", *spa),
        ("clean-urls", *clean_urls),
        ("trailing-slash", *trailing_slash != Policy::default().trailing_slash),
        ("listings", *listings),
        ("index", !index.is_empty()),
        ("allow-sniffing", *allow_sniffing),
        ("secure-headers", *secure_headers),
        ("hsts", hsts.is_some()),
        ("cors", !cors.is_empty()),
        ("immutable", !immutable.is_empty()),
    ];
    for (option, _) in given.into_iter().filter(|(_, is_given)| *is_given) {
        errors.push(
            UserError::new(
                format_args!("cannot serve {} with --{option}", path.printable()),
                "it is a packed site, which answers as it was packed",
                format_args!("give --{option} to tarpon pack, and leave it out here"),
            )
            .about(option),
        );
    }
}

/// Returns the site whose image `pack` writes into memory.
fn site(
    cache: &mut BuildCache,
    pack: impl FnOnce(&mut BufWriter<File>, &mut BuildCache) -> Result<PackedImage, PackError>,
) -> Result<Site, PackError> {
    let failed = PackError::Write;
    let mut out = BufWriter::with_capacity(WRITE_LEN, memory::file().map_err(failed)?);
    let PackedImage { files, summary, skipped, omitted, content_id } = pack(&mut out, cache)?;
    out.flush().map_err(failed)?;
    let store = out.into_inner().map_err(|error| failed(error.into_error()))?;
    let bytes = memory::seal(&store).map_err(failed)?;
    let image = Image::new(bytes).expect("a packed image is valid");
    let store = Some(Arc::new(store));
    let files = files.into_iter().map(Arc::new).collect();
    let (file_count, content_len) = (summary.files, summary.bytes);
    let (immutable_count, compressed) = (Some(summary.immutable), cache.variants.saved());
    let notes = BuildNotes { skipped, omitted, root: None, immutable_count, compressed };
    Ok(Site { image, store, files, archive: None, file_count, content_len, content_id, notes })
}

fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Size of the write buffer of an image, in bytes.
const WRITE_LEN: usize = 256 * 1024;
