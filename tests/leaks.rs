//! The library leaks no thread, no descriptor, no port and no CPU time into its process.
//!
//! Each test runs in a process of its own, where it counts all threads and descriptors.

use crate::common::{
    EMBEDDED, client::TestClient, kernel::wait_until_asleep, server::settings, site, wait_for,
};
use rustix::process::{Resource, Rlimit, getpid, getrlimit, setrlimit};
use std::{
    env, fs,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::fd::AsRawFd,
    path::Path,
    process::{self, Command},
    sync::mpsc::channel,
    time::Duration,
};
use tarpon::{Listener, Server, Site, SiteChange, SiteSource, SiteWatcher};

#[test]
fn failed_start_leaks_no_thread_and_no_port() {
    in_own_process("failed_start_leaks_no_thread_and_no_port", || {
        const WORKER_COUNT: usize = 3;
        const LISTENER_COUNT: usize = 10;
        let dir = site(&[("index.html", "home")]);
        let limit = getrlimit(Resource::Nofile);
        let before = Usage::now();
        for &engine in EMBEDDED {
            // With each additional descriptor, the start fails one step later.
            let mut spare = 0;
            let mut failure_count = 0;
            loop {
                let site = Site::from_dir(dir.path()).unwrap();
                let (addresses, listeners): (Vec<SocketAddr>, Vec<Listener>) =
                    (0..LISTENER_COUNT).map(|_| listener()).unzip();
                let current = Some((Usage::now().descriptor_count + spare) as u64);
                setrlimit(Resource::Nofile, Rlimit { current, ..limit }).unwrap();
                let started = Server::start(&settings(engine, WORKER_COUNT), listeners, site);
                let ended = started.and_then(|server| {
                    server.handle().stop(Duration::ZERO);
                    server.join()
                });
                setrlimit(Resource::Nofile, limit).unwrap();
                // The server has stopped and joined started workers; their loader threads end slightly later.
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
fn dropped_watch_leaks_nothing() {
    in_own_process("dropped_watch_leaks_nothing", || {
        let dir = site(&[("index.html", "home")]);
        let before = Usage::now();
        for round in 0..3 {
            let (watched, _) =
                SiteWatcher::new(SiteSource { path: dir.path().into(), ..SiteSource::default() }).unwrap();
            let (send, changes) = channel();
            let following = watched.follow(move |change| send.send(change).unwrap()).unwrap();
            fs::write(dir.path().join("index.html"), format!("round {round}")).unwrap();
            let change = changes.recv_timeout(crate::common::TEST_TIMEOUT).unwrap();
            assert!(matches!(change, SiteChange::Site(_)));
            drop((change, following));
            // The channel closes after the last change.
            while changes.recv_timeout(crate::common::TEST_TIMEOUT).is_ok() {}
            before.wait_for();
        }
    });
}

#[test]
fn swap_after_the_stop_leaks_no_site() {
    in_own_process("swap_after_the_stop_leaks_no_site", || {
        // A large file has a descriptor.
        let dir = site(&[("index.html", vec![b'x'; 100]), ("large", vec![b'x'; 1 << 20])]);
        let site = || Site::from_dir(dir.path()).unwrap();
        for &engine in EMBEDDED {
            let before = Usage::now();
            let (_, bound) = listener();
            let server = Server::start(&settings(engine, 2), vec![bound], site()).unwrap();
            let handle = server.handle();
            handle.stop(Duration::ZERO);
            server.join().unwrap();
            // The loader threads end after the workers.
            wait_for("the threads to end", || {
                (Usage::now().thread_count == before.thread_count).then_some(())
            });
            let ended = Usage::now().descriptor_count;
            for _ in 0..20 {
                handle.swap(site());
            }
            assert_eq!(Usage::now().descriptor_count, ended, "{engine}");
            drop(handle);
            before.wait_for();
        }
    });
}

#[test]
fn cloned_listener_wakes_no_worker_after_a_stop() {
    in_own_process("cloned_listener_wakes_no_worker_after_a_stop", || {
        let dir = site(&[("index.html", "home")]);
        for &engine in EMBEDDED {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let clone = listener.try_clone().unwrap();
            let address = clone.local_addr().unwrap();
            let site = Site::from_dir(dir.path()).unwrap();
            let server =
                Server::start(&settings(engine, 1), vec![listener.try_into().unwrap()], site).unwrap();
            // The partial request keeps the worker running; EOF on the idle connection shows that the worker handles the stop.
            let mut partial = TestClient::connect(address);
            partial.send("GET / HT");
            let mut idle = TestClient::connect(address);
            assert_eq!(idle.get("/").status, 200);
            server.handle().stop(Duration::from_secs(3600));
            assert_eq!(idle.read_to_end(), b"");
            // A worker that has not handled the stop yet still accepts; the worker of the partial request keeps running.
            wait_for(&format!("the workers of {engine} close the listener"), || {
                (descriptors_of(&clone) == 1).then_some(())
            });
            let _next = TcpStream::connect(address).unwrap();
            let what = format!("every worker of {engine} sleeps while a client waits");
            wait_until_asleep(&what, || vec![getpid()]);
            // io_uring has made the listener blocking with a timeout.
            clone.set_nonblocking(true).unwrap();
            assert!(clone.accept().is_ok(), "{engine}");
            server.handle().stop(Duration::ZERO);
            server.join().unwrap();
        }
    });
}

/// Runs a test in a process of its own without other test threads.
fn in_own_process(test: &str, run: impl FnOnce()) {
    const MARK: &str = "TARPON_TEST_OWN_PROCESS";
    if env::var_os(MARK).is_some() {
        return run();
    }
    let mut command = Command::new(env::current_exe().unwrap());
    let ran = command
        .args(["--exact", &format!("leaks::{test}"), "--test-threads=1"])
        .env(MARK, "")
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && output.contains("1 passed"), "{output}");
}

/// The threads and descriptors of this process.
#[derive(Debug, PartialEq, Eq)]
struct Usage {
    thread_count: usize,
    descriptor_count: usize,
}

impl Usage {
    fn now() -> Usage {
        let count = |dir| fs::read_dir(dir).unwrap().count();
        // Reading the directory opens one descriptor.
        Usage { thread_count: count("/proc/self/task"), descriptor_count: count("/proc/self/fd") - 1 }
    }

    /// Waits until the usage is back to this value: the kernel lists a joined thread for a moment.
    #[track_caller]
    fn wait_for(&self) {
        wait_for(&format!("{self:?} and no more"), || (Usage::now() == *self).then_some(()));
    }
}

/// Returns a listener and its address. On Linux the address belongs to this process: on a shared one, another process may take a port as
/// soon as it is free.
fn listener() -> (SocketAddr, Listener) {
    const LOOPBACK: u32 = Ipv4Addr::new(127, 128, 0, 0).to_bits();
    // Process IDs of Linux have 22 bits.
    let own = Ipv4Addr::from_bits(LOOPBACK | process::id() & 0x7f_ffff);
    let address = if cfg!(target_os = "linux") { own } else { Ipv4Addr::LOCALHOST };
    let listener = TcpListener::bind((address, 0)).unwrap();
    (listener.local_addr().unwrap(), listener.try_into().unwrap())
}

/// Counts the descriptors of this process for a socket.
fn descriptors_of(socket: &TcpListener) -> usize {
    let target = |fd: &Path| fs::read_link(fd).ok();
    let wanted = target(&Path::new("/proc/self/fd").join(socket.as_raw_fd().to_string())).unwrap();
    let entries = fs::read_dir("/proc/self/fd").unwrap();
    entries.filter(|entry| target(&entry.as_ref().unwrap().path()).as_ref() == Some(&wanted)).count()
}
