//! Reads into memory what a worker is about to send, so that the worker need not wait for the disk.
//!
//! ```text
//! worker ── job ──▶ loader threads ── read, forget the bytes ──▶ mailbox of the worker: loaded
//! ```

use crate::{
    mailbox::{Mailbox, Message},
    site::{Site, Store},
};
use rustix::{fs::sendfile, io::Errno};
use std::{
    fs::File,
    io,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
};
use tarpon_site::Place;

/// Takes jobs from any worker.
#[derive(Clone)]
pub(crate) struct Loader {
    jobs: Sender<Job>,
}

/// A stretch that is to be in memory.
pub(crate) struct Job {
    pub(crate) site: Arc<Site>,
    pub(crate) stretch: Stretch,
    /// Who waits for it: the worker, and its connection.
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// A stretch of what lies on a disk of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) store: Store,
    /// In the store's file.
    pub(crate) place: Place,
}

/// Reads that are under way at once: enough to keep a disk busy with several clients' wishes.
const THREAD_COUNT: usize = 4;

/// Bytes read at once.
const READ_LEN: u64 = 256 * 1024;

impl Loader {
    /// With nobody who works yet.
    ///
    /// # Errors
    /// Descriptors are lacking.
    pub(crate) fn new() -> io::Result<(Loader, Crew)> {
        let (jobs, taken) = channel();
        let nowhere = File::options().write(true).open("/dev/null")?;
        Ok((Loader { jobs }, Crew { jobs: Arc::new(Mutex::new(taken)), nowhere: Arc::new(nowhere) }))
    }

    /// Returns at once. The worker will be told, whatever comes of it.
    pub(crate) fn load(&self, job: Job) {
        // The threads live as long as this does.
        let _ = self.jobs.send(job);
    }
}

/// Who does the jobs.
pub(crate) struct Crew {
    jobs: Arc<Mutex<Receiver<Job>>>,
    nowhere: Arc<File>,
}

impl Crew {
    /// Starts its threads. They end when no [`Loader`] is left, and what they read then has come; nobody waits for them,
    /// as a disk may never answer.
    pub(crate) fn start(self) -> io::Result<()> {
        let start = |number| {
            let (jobs, nowhere) = (Arc::clone(&self.jobs), Arc::clone(&self.nowhere));
            thread::Builder::new()
                .name(format!("loader {number}"))
                .spawn(move || work(&jobs, &nowhere))
                .map(drop)
        };
        (0..THREAD_COUNT).try_for_each(start)
    }
}

fn work(jobs: &Mutex<Receiver<Job>>, nowhere: &File) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { site, stretch, mailbox, index, generation }) = job else { return };
        let Stretch { store, place } = stretch;
        let (file, _) = site.file_of(store);
        // A worker that has ended may leave many jobs behind: the server must not wait for them.
        read(file, place, nowhere, || mailbox.is_open());
        mailbox.post(Message::Loaded { site, stretch, index, generation });
    }
}

/// Reads a stretch, as long as somebody wants it: by sending it nowhere, which needs all of each page, as sending it to a client
/// will. A read can do with the part of a page that has come.
fn read(file: &File, place: Place, nowhere: &File, mut is_wanted: impl FnMut() -> bool) {
    let end = place.at + place.len;
    let mut at = place.at;
    while at < end && is_wanted() {
        let len = (end - at).min(READ_LEN) as usize;
        match sendfile(nowhere, file, Some(&mut at), len) {
            Ok(1..) | Err(Errno::INTR) => {}
            // The send will show it too.
            Ok(0) | Err(_) => break,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_is_read_to_its_end_or_as_long_as_it_is_wanted() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(10 * READ_LEN).unwrap();
        let nowhere = File::options().write(true).open("/dev/null").unwrap();
        #[rustfmt::skip]
        let cases = [
            // what it shows    at  len  wanted  reads
            ("all",             0,  10,  99,     10),
            ("a stretch",       2,   6,  99,      6),
            ("beyond the end",  8,   6,  99,      3),
            ("nobody waits",    0,  10,   2,      2),
            ("nobody ever did", 0,  10,   0,      0),
        ];
        for (name, at, len, wanted, want) in cases {
            let mut read_count = 0;
            read(&file, Place { at: at * READ_LEN, len: len * READ_LEN }, &nowhere, || {
                let goes_on = read_count < wanted;
                read_count += u32::from(goes_on);
                goes_on
            });
            assert_eq!(read_count, want, "{name}");
        }
    }
}
