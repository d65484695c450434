//! A site as it is served: its image, and the descriptors that go with it.

use crate::{
    error::{Trouble, reason},
    sys::memory,
};
use rustix::process::{Resource, getrlimit};
use std::{
    fmt,
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};
use tarpon_pack::{Memo, Options, PackError, Packed, Skipped, pack_dir};
use tarpon_site::Image;

/// A site, ready to be served: an immutable image of all it contains.
///
/// What changes on disk later does not change it; make another one and [swap](crate::Handle::swap) it in.
#[derive(Debug)]
pub struct Site {
    image: Image,
    /// The image again, as a descriptor.
    store: File,
    /// Files too large for the image.
    files: Vec<File>,
    file_count: u64,
    len: u64,
    skipped: Vec<Skipped>,
}

impl Site {
    /// Reads a directory.
    ///
    /// # Errors
    /// It is missing, something in it cannot be read, or more files are too large for the image than the limit
    /// on open files leaves room for.
    pub fn from_dir(dir: impl AsRef<Path>) -> Result<Site, Trouble> {
        Builder::default().build(dir.as_ref())
    }

    /// How many files it contains.
    pub fn file_count(&self) -> u64 {
        self.file_count
    }

    /// How many bytes its files have together.
    pub fn content_len(&self) -> u64 {
        self.len
    }

    /// One line for each kind of thing in the directory that is not served.
    pub fn warnings(&self) -> impl Iterator<Item = impl fmt::Display + '_> {
        self.skipped.iter()
    }

    /// Descriptors it keeps open.
    pub(crate) fn descriptor_count(&self) -> usize {
        self.files.len() + 1
    }

    #[inline]
    pub(crate) fn image(&self) -> &Image {
        &self.image
    }

    #[inline]
    pub(crate) fn store(&self) -> &File {
        &self.store
    }

    #[inline]
    pub(crate) fn file(&self, number: u32) -> &File {
        &self.files[number as usize]
    }
}

/// Builds a site again and again, and does not read twice what has not changed.
#[derive(Default)]
pub(crate) struct Builder {
    memo: Memo,
}

impl Builder {
    pub(crate) fn build(&mut self, dir: &Path) -> Result<Site, Trouble> {
        let failed = |error: io::Error| trouble(PackError::Write(error));
        let store = memory::file().map_err(failed)?;
        let mut out = BufWriter::with_capacity(WRITE_LEN, store);
        let options = Options { file_count_max: file_count_max(), ..Options::new(unix_s()) };
        let Packed { files, summary, skipped } =
            pack_dir(dir, &mut out, &options, &mut self.memo).map_err(trouble)?;
        out.flush().map_err(failed)?;
        let store = out.into_inner().map_err(|error| failed(error.into_error()))?;
        let bytes = memory::seal(&store).map_err(failed)?;
        let image = Image::new(bytes).expect("a packed image is in order");
        Ok(Site { image, store, files, file_count: summary.files, len: summary.bytes, skipped })
    }
}

/// What a user is told of a directory that cannot be packed.
fn trouble(error: PackError) -> Trouble {
    match error {
        PackError::Root { path, error } => Trouble::new(
            format_args!("cannot serve {}", path.display()),
            reason(&error),
            "name a directory that exists and may be read, as in tarpon serve DIR",
        ),
        PackError::Read { path, error } => Trouble::new(
            format_args!("cannot read {}", path.display()),
            reason(&error),
            "make it readable, or move it out of the site",
        ),
        PackError::FileCount { count, max } => Trouble::new(
            format_args!("cannot keep {count} large files open"),
            format_args!("the limit on open files leaves room for {max}"),
            format_args!("raise it, as with ulimit -n {}", (4 * count).next_power_of_two()),
        ),
        error @ PackError::TooLarge => {
            Trouble::new("cannot make the site's image", error, "serve its parts as several sites")
        }
        PackError::Write(error) => {
            Trouble::new("cannot make the site's image in memory", reason(&error), "free some memory")
        }
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
