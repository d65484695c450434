//! Rotates a log file: renames it when it is full or old, and starts the next.
//!
//! ```text
//! access.log ─▶ access.log.1 ─▶ access.log.2 ─▶ … ─▶ removed
//! ```
//!
//! With logrotate instead, leave rotation off and send SIGUSR1.

use super::file::append;
use crate::base::log_config::Rotation;
use std::{
    ffi::OsString,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// The size and age of the current file, and when to rotate it.
#[derive(Debug)]
pub(super) struct Rotator {
    path: PathBuf,
    rotation: Rotation,
    len: u64,
    created: SystemTime,
}

impl Rotator {
    pub(super) fn new(path: &Path, file: &File, rotation: Rotation) -> io::Result<Rotator> {
        let meta = file.metadata()?;
        // Some file systems store no creation time.
        let created = meta.created().unwrap_or_else(|_| SystemTime::now());
        Ok(Rotator { path: path.to_owned(), rotation, len: meta.len(), created })
    }

    /// Rotates the file if it is due, before `lines` are written. Returns how many bytes of `lines` go into the current file, at least one
    /// line.
    pub(super) fn rotate_before(&mut self, lines: &[u8], file: &mut File) -> (usize, io::Result<()>) {
        let first_len = lines.iter().position(|&byte| byte == b'\n').map_or(lines.len(), |at| at + 1);
        let is_full = self.len + first_len as u64 > self.len_max();
        let due = self.len > 0 && (is_full || self.rotation.is_old(self.created));
        let rotated = if due { self.rotate(file) } else { Ok(()) };
        let room = usize::try_from(self.len_max() - self.len.min(self.len_max())).unwrap_or(usize::MAX);
        let fitting =
            lines[..lines.len().min(room)].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let len = fitting.max(first_len);
        self.len += len as u64;
        (len, rotated)
    }

    fn rotate(&mut self, file: &mut File) -> io::Result<()> {
        // After a failure, the next try comes after as many bytes again.
        (self.len, self.created) = (0, SystemTime::now());
        rotate_files(&self.path, self.rotation.keep)?;
        *file = append(&self.path)?;
        *self = Rotator::new(&self.path, file, self.rotation)?;
        Ok(())
    }

    fn len_max(&self) -> u64 {
        self.rotation.len_max.unwrap_or(u64::MAX)
    }
}

/// Renames a file to `.1` and earlier ones to the next number, and keeps `keep` of them.
///
/// # Errors
/// The directory is not writable. No line is lost: the file keeps its name, or is named `.1`.
pub fn rotate_files(path: &Path, keep: u32) -> io::Result<()> {
    let unless_gone = |done: io::Result<()>| match done {
        // Another process has moved or removed the file: the next one starts anyway.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    };
    if keep == 0 {
        return unless_gone(fs::remove_file(path));
    }
    if !path.exists() {
        return Ok(());
    }
    // The first gap ends the sequence: files after it stay.
    let last = (1..keep).find(|&number| !numbered(path, number).exists()).unwrap_or(keep);
    for number in (1..last).rev() {
        fs::rename(numbered(path, number), numbered(path, number + 1))?;
    }
    unless_gone(fs::rename(path, numbered(path, 1)))
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(format!(".{number}"));
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_takes_the_next_number() {
        #[rustfmt::skip]
        let cases: &[(&str, u32, &[&str], &[&str])] = &[
            // what it shows            keep  files before                              files after, with their old names
            ("none is kept",            0,    &["log"],                                 &[]),
            ("the first",               3,    &["log"],                                 &["log.1=log"]),
            ("several",                  3,    &["log", "log.1", "log.2"],               &["log.1=log", "log.2=log.1", "log.3=log.2"]),
            ("all numbers",             2,    &["log", "log.1", "log.2"],               &["log.1=log", "log.2=log.1"]),
            ("no file",                 3,    &["log.1"],                               &["log.1=log.1"]),
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
