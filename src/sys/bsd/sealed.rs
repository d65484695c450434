//! Files for what lies in sealed memory on Linux: without a name, in the directory for temporary files. Nothing seals them; only the
//! processes that have the descriptor could change them, and none of these does.

use std::{
    env, fs,
    fs::File,
    io,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    process,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// An empty file.
pub(crate) fn file() -> io::Result<File> {
    file_in(&env::temp_dir())
}

fn file_in(dir: &Path) -> io::Result<File> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    loop {
        let path = dir.join(format!("tarpon-image.{}.{}", process::id(), NUMBER.fetch_add(1, Relaxed)));
        // For nobody else; and nothing that somebody has put there is taken, nor where it leads.
        match File::options().read(true).write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => return fs::remove_file(&path).map(|()| file),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// It is written, and stays so.
pub(crate) fn freeze(_file: &File) -> io::Result<()> {
    Ok(())
}

/// Whether somebody has done that: the processes of one program believe each other.
pub(crate) fn is_frozen(_file: &File) -> io::Result<bool> {
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, Write};

    #[test]
    fn a_file_has_no_name_and_takes_the_place_of_none() {
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
