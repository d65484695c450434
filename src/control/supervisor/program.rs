//! Where the file of this program lies, so that what lies there later can take its place.

use std::{
    env,
    ffi::OsStr,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf, absolute},
};

/// The path by which the program was started: it may lead to another file by the time it is asked for again, as where a link is switched or
/// a package was replaced. To be asked at the start, when it leads to this one.
///
/// # Errors
/// Nobody knows.
pub(super) fn path() -> io::Result<PathBuf> {
    let this = env::current_exe()?;
    let named = env::args_os().next().and_then(|name| candidates(&name).find(|path| is_same(path, &this)));
    // Who starts a program may call it what he likes.
    Ok(named.unwrap_or(this))
}

/// What a name can mean: a path, or a file in one of the directories for programs.
fn candidates(name: &OsStr) -> impl Iterator<Item = PathBuf> + use<> {
    let is_path = Path::new(name).components().count() > 1 || name.as_encoded_bytes().contains(&b'/');
    let dirs = env::var_os("PATH").filter(|_| !is_path).unwrap_or_default();
    let found: Vec<_> = match is_path {
        true => vec![PathBuf::from(name)],
        false => env::split_paths(&dirs).map(|dir| dir.join(name)).collect(),
    };
    found.into_iter().filter_map(|path| absolute(path).ok())
}

fn is_same(a: &Path, b: &Path) -> bool {
    let id = |path: &Path| fs::metadata(path).map(|meta| (meta.dev(), meta.ino()));
    matches!((id(a), id(b)), (Ok(a), Ok(b)) if a == b)
}
