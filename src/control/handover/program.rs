//! The path of the program file, so that a later program at the same path can replace this one.

use std::{
    env,
    ffi::OsStr,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf, absolute},
};

/// Returns the path that started the program. When the supervisor starts its successor, the path may lead to another file: a link was
/// switched, or a package replaced. Call it at the start, when the path leads to this program.
///
/// # Errors
/// The system does not report the file of this process.
pub(in crate::control) fn path() -> io::Result<PathBuf> {
    let this = env::current_exe()?;
    let named = env::args_os().next().and_then(|name| candidates(&name).find(|path| is_same(path, &this)));
    // The parent of a program chooses its first argument freely.
    Ok(named.unwrap_or(this))
}

/// Returns the meanings of a name: a path, or a file in one of the directories for programs.
fn candidates(name: &OsStr) -> impl Iterator<Item = PathBuf> + use<> {
    let is_path = name.as_encoded_bytes().contains(&b'/');
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
