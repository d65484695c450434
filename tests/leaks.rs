//! That the library leaves nothing behind in the process it is used by: no thread, no descriptor, no port, no work.
//!
//! Each test runs in a process of its own, where what is counted belongs to nobody else.

mod common;

use common::{EMBEDDED, client::TestClient, server::settings, site, wait_for};
use rustix::{
    process::{Resource, Rlimit, getrlimit, setrlimit},
    thread::gettid,
};
use std::{
    env,
    ffi::OsString,
    fs,
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::AsRawFd,
    path::Path,
    process::Command,
    sync::mpsc::channel,
    thread,
    time::Duration,
};
use tarpon::{Listener, Server, Site, SiteChange, SiteWatcher, Source};

#[test]
fn a_server_that_cannot_begin_leaves_no_thread_and_no_port() {
    alone("a_server_that_cannot_begin_leaves_no_thread_and_no_port", || {
        const WORKER_COUNT: usize = 3;
        const LISTENER_COUNT: usize = 10;
        let dir = site(&[("index.html", "home")]);
        let limit = getrlimit(Resource::Nofile);
        let before = Held::now();
        for &engine in EMBEDDED {
            // With one descriptor more each time, it fails one step later.
            let mut spare = 0;
            let mut failure_count = 0;
            loop {
                let site = Site::from_dir(dir.path()).unwrap();
                let (addresses, listeners): (Vec<SocketAddr>, Vec<Listener>) =
                    (0..LISTENER_COUNT).map(|_| listener()).unzip();
                let current = Some((Held::now().descriptor_count + spare) as u64);
                setrlimit(Resource::Nofile, Rlimit { current, ..limit }).unwrap();
                let started = Server::start(&settings(engine, WORKER_COUNT), listeners, site);
                let ended = started.and_then(|server| {
                    server.handle().stop(Duration::ZERO);
                    server.join()
                });
                setrlimit(Resource::Nofile, limit).unwrap();
                // A worker that had begun was told to stop, and joined; who reads for it ends behind it.
                before.wait_for();
                for address in addresses {
                    assert!(TcpStream::connect(address).is_err(), "{engine}, {spare} descriptors");
                }
                if ended.is_ok() {
                    break;
                }
                failure_count += 1;
                spare += 1;
            }
            assert!(failure_count > WORKER_COUNT * LISTENER_COUNT, "{engine}: {failure_count} failures");
        }
    });
}

#[test]
fn following_ends_when_it_is_dropped() {
    alone("following_ends_when_it_is_dropped", || {
        let dir = site(&[("index.html", "home")]);
        let before = Held::now();
        for round in 0..3 {
            let (watched, _) =
                SiteWatcher::new(Source { path: dir.path().into(), ..Source::default() }).unwrap();
            let (send, changes) = channel();
            let following = watched.follow(move |change| send.send(change).unwrap()).unwrap();
            fs::write(dir.path().join("index.html"), format!("round {round}")).unwrap();
            let change = changes.recv_timeout(common::TEST_TIMEOUT).unwrap();
            assert!(matches!(change, SiteChange::Site(_)));
            drop((change, following));
            // Whatever is told until then, the end comes.
            while changes.recv_timeout(common::TEST_TIMEOUT).is_ok() {}
            before.wait_for();
        }
    });
}

#[test]
fn a_site_that_is_swapped_in_after_the_end_is_not_kept() {
    alone("a_site_that_is_swapped_in_after_the_end_is_not_kept", || {
        // A large file has a descriptor.
        let dir = site(&[("index.html", vec![b'x'; 100]), ("large", vec![b'x'; 1 << 20])]);
        let site = || Site::from_dir(dir.path()).unwrap();
        for &engine in EMBEDDED {
            let before = Held::now();
            let (_, bound) = listener();
            let server = Server::start(&settings(engine, 2), vec![bound], site()).unwrap();
            let handle = server.handle();
            handle.stop(Duration::ZERO);
            server.join().unwrap();
            // Who reads for the workers ends behind them.
            wait_for("the threads to end", || {
                (Held::now().thread_count == before.thread_count).then_some(())
            });
            let ended = Held::now().descriptor_count;
            for _ in 0..20 {
                handle.swap(site());
            }
            assert_eq!(Held::now().descriptor_count, ended, "{engine}");
            drop(handle);
            before.wait_for();
        }
    });
}

#[test]
fn a_listener_that_somebody_kept_makes_no_work_after_a_stop() {
    alone("a_listener_that_somebody_kept_makes_no_work_after_a_stop", || {
        let dir = site(&[("index.html", "home")]);
        for &engine in EMBEDDED {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let kept = listener.try_clone().unwrap();
            let address = kept.local_addr().unwrap();
            let site = Site::from_dir(dir.path()).unwrap();
            let server =
                Server::start(&settings(engine, 1), vec![listener.try_into().unwrap()], site).unwrap();
            // One that has begun keeps the worker from ending, and one that is idle sees it stop.
            let mut begun = TestClient::connect(address);
            begun.send("GET / HT");
            let mut idle = TestClient::connect(address);
            assert_eq!(idle.get("/").status, 200);
            server.handle().stop(Duration::from_secs(3600));
            assert_eq!(idle.read_to_end(), b"");
            // A worker that has not handled the stop yet still accepts; the one with `request_start` does not end.
            wait_for(&format!("the workers of {engine} close the listener"), || {
                (descriptors_of(&kept) == 1).then_some(())
            });
            let _next = TcpStream::connect(address).unwrap();
            wait_for(&format!("every worker of {engine} sleeps while a client waits"), sleeping_threads);
            // io_uring has made it blocking, with a time limit.
            kept.set_nonblocking(true).unwrap();
            assert!(kept.accept().is_ok(), "{engine}");
            server.handle().stop(Duration::ZERO);
            server.join().unwrap();
        }
    });
}

/// Runs a test in a process of its own, and there without another thread.
fn alone(test: &str, run: impl FnOnce()) {
    const ALONE: &str = "TARPON_TEST_ALONE";
    if env::var_os(ALONE).is_some() {
        return run();
    }
    let mut command = Command::new(env::current_exe().unwrap());
    let ran = command.args(["--exact", test, "--test-threads=1"]).env(ALONE, "").output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && said.contains("1 passed"), "{said}");
}

/// What this process has.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    thread_count: usize,
    descriptor_count: usize,
}

impl Held {
    fn now() -> Held {
        let count = |dir| fs::read_dir(dir).unwrap().count();
        // The directory that is read is one of the descriptors, each time.
        Held { thread_count: count("/proc/self/task"), descriptor_count: count("/proc/self/fd") - 1 }
    }

    /// Waits until there is no more than this: the kernel counts a thread for a moment after it was joined.
    #[track_caller]
    fn wait_for(&self) {
        wait_for(&format!("{self:?} and no more"), || (Held::now() == *self).then_some(()));
    }
}

/// A port and what listens there.
fn listener() -> (SocketAddr, Listener) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    (listener.local_addr().unwrap(), listener.try_into().unwrap())
}

/// Counts the descriptors of this process that lead to a socket.
fn descriptors_of(socket: &TcpListener) -> usize {
    let target = |fd: &Path| fs::read_link(fd).ok();
    let wanted = target(&Path::new("/proc/self/fd").join(socket.as_raw_fd().to_string())).unwrap();
    let entries = fs::read_dir("/proc/self/fd").unwrap();
    entries.filter(|entry| target(&entry.as_ref().unwrap().path()).as_ref() == Some(&wanted)).count()
}

/// Returns whether the other threads of this process sleep, and go on sleeping for a while: the kernel counts how often each
/// thread runs. proc(5), /proc/pid/schedstat.
fn sleeping_threads() -> Option<()> {
    let before = run_counts()?;
    thread::sleep(Duration::from_millis(200));
    (run_counts()? == before).then_some(())
}

/// Returns how long and how often each of the other threads ran. `None`: one of them runs, or wants to.
fn run_counts() -> Option<Vec<(OsString, String)>> {
    let own = gettid().as_raw_nonzero().to_string();
    let threads = fs::read_dir("/proc/self/task").unwrap().map(|thread| thread.unwrap());
    threads
        .filter(|thread| thread.file_name() != *own)
        .map(|thread| {
            let read = |name| fs::read_to_string(thread.path().join(name)).ok();
            let (stat, run) = (read("stat")?, read("schedstat")?);
            let (_, state) = stat.rsplit_once(") ")?;
            state.starts_with('S').then(|| (thread.file_name(), run))
        })
        .collect()
}
