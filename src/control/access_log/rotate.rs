//! A file that takes turns with others: when it is full, or old, it is renamed and the next one begins.
//!
//! ```text
//! access.log ─▶ access.log.1 ─▶ access.log.2 ─▶ … ─▶ removed
//! ```
//!
//! Whoever would rather have logrotate do it, leaves this off and sends SIGUSR1.

use super::sink::append;
use crate::base::log_config::Rotation;
use std::{
    ffi::OsString,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// Whose turn it is.
#[derive(Debug)]
pub(super) struct Rotator {
    path: PathBuf,
    rotation: Rotation,
    len: u64,
    made: SystemTime,
}

impl Rotator {
    pub(super) fn new(path: &Path, file: &File, rotation: Rotation) -> io::Result<Rotator> {
        let meta = file.metadata()?;
        // Not every file system knows when a file was made.
        let made = meta.created().unwrap_or_else(|_| SystemTime::now());
        Ok(Rotator { path: path.to_owned(), rotation, len: meta.len(), made })
    }

    /// Before `lines` are written: puts the next file in the place of this one, if its time has come. Returns how many bytes
    /// of them go into this file, a line at least.
    pub(super) fn before(&mut self, lines: &[u8], file: &mut File) -> (usize, io::Result<()>) {
        let first_len = lines.iter().position(|&byte| byte == b'\n').map_or(lines.len(), |at| at + 1);
        let is_full = self.len + first_len as u64 > self.len_max();
        let is_old = self.rotation.age_max.is_some_and(|age_max| {
            // A clock that was set back makes no file old.
            self.made.elapsed().unwrap_or_default() >= age_max
        });
        let due = self.len > 0 && (is_full || is_old);
        let turned = if due { self.rotate(file) } else { Ok(()) };
        let room = usize::try_from(self.len_max() - self.len.min(self.len_max())).unwrap_or(usize::MAX);
        let fitting =
            lines[..lines.len().min(room)].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let len = fitting.max(first_len);
        self.len += len as u64;
        (len, turned)
    }

    fn rotate(&mut self, file: &mut File) -> io::Result<()> {
        // Where that fails, it is tried again with as many lines more.
        (self.len, self.made) = (0, SystemTime::now());
        rotate_files(&self.path, self.rotation.keep)?;
        *file = append(&self.path)?;
        *self = Rotator::new(&self.path, file, self.rotation)?;
        Ok(())
    }

    fn len_max(&self) -> u64 {
        self.rotation.len_max.unwrap_or(u64::MAX)
    }
}

/// Renames a file and those that were renamed before it, of which so many are kept.
///
/// # Errors
/// The directory cannot be written to. Then no line is lost: the file is where it was, or named `.1`.
pub fn rotate_files(path: &Path, keep: u32) -> io::Result<()> {
    let unless_gone = |done: io::Result<()>| match done {
        // Somebody else has moved or removed it: the next one begins all the same.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    };
    if keep == 0 {
        return unless_gone(fs::remove_file(path));
    }
    if !path.exists() {
        return Ok(());
    }
    // The first gap ends the row: what is behind it was there already.
    let last = (1..keep).find(|&number| !earlier(path, number).exists()).unwrap_or(keep);
    for number in (1..last).rev() {
        fs::rename(earlier(path, number), earlier(path, number + 1))?;
    }
    unless_gone(fs::rename(path, earlier(path, 1)))
}

fn earlier(path: &Path, number: u32) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(format!(".{number}"));
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_takes_the_place_of_the_one_before_it() {
        #[rustfmt::skip]
        let cases: &[(&str, u32, &[&str], &[&str])] = &[
            // what it shows            keep  there before                              there then, with what it was
            ("none is kept",            0,    &["log"],                                 &[]),
            ("the first",               3,    &["log"],                                 &["log.1=log"]),
            ("a row",                   3,    &["log", "log.1", "log.2"],               &["log.1=log", "log.2=log.1", "log.3=log.2"]),
            ("a full row",              2,    &["log", "log.1", "log.2"],               &["log.1=log", "log.2=log.1"]),
            ("it is gone",              3,    &["log.1"],                               &["log.1=log.1"]),
            ("a gap",                   4,    &["log", "log.1", "log.3"],               &["log.1=log", "log.2=log.1", "log.3=log.3"]),
        ];
        for &(name, keep, before, want) in cases {
            let dir = tempfile::tempdir().expect("a directory");
            for file in before {
                fs::write(dir.path().join(file), file).expect("a file");
            }
            rotate_files(&dir.path().join("log"), keep).expect("a directory to write to");
            let mut found: Vec<_> = (fs::read_dir(dir.path()).expect("a directory"))
                .map(|entry| entry.expect("an entry"))
                .map(|entry| {
                    let was = fs::read_to_string(entry.path()).expect("a file");
                    format!("{}={was}", entry.file_name().to_string_lossy())
                })
                .collect();
            found.sort();
            assert_eq!(found, want, "{name}");
        }
    }
}
