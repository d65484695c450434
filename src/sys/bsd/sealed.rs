//! Temporary files without a name, for images that Linux keeps in sealed memory. They are not sealed, but only our processes have the
//! descriptor, and none changes the file.

use std::{
    env, fs,
    fs::File,
    io,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    process,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Creates an empty file.
pub(crate) fn file() -> io::Result<File> {
    file_in(&env::temp_dir())
}

/// Creates an empty file, to be shared.
pub(crate) fn shared_file() -> io::Result<File> {
    file()
}

fn file_in(dir: &Path) -> io::Result<File> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    loop {
        let path = dir.join(format!("tarpon-image.{}.{}", process::id(), NUMBER.fetch_add(1, Relaxed)));
        // Accessible to this user only; `create_new` neither opens an existing file nor follows a link.
        match File::options().read(true).write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => return fs::remove_file(&path).map(|()| file),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// Does nothing: the file is not sealed here.
pub(crate) fn freeze(_file: &File) -> io::Result<()> {
    Ok(())
}

/// Returns true: the processes of one program trust each other.
pub(crate) fn is_frozen(_file: &File) -> io::Result<bool> {
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, Write};

    #[test]
    fn file_has_no_name_and_replaces_none() {
        let dir = tempfile::tempdir().unwrap();
        let mut files: Vec<File> = (0..3).map(|_| file_in(dir.path()).unwrap()).collect();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        for (file, number) in files.iter_mut().zip(0..) {
            write!(file, "{number}").unwrap();
        }
        for (file, number) in files.iter_mut().zip(0..) {
            let mut content = String::new();
            file.rewind().and_then(|()| file.read_to_string(&mut content)).unwrap();
            assert_eq!(content, number.to_string());
        }
        assert!(file_in(&dir.path().join("missing")).is_err());
    }
}
