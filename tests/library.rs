//! The library: a server embedded in another program.

use crate::common::{
    EMBEDDED, ENGINES,
    client::{TestClient, get},
    distinct_bytes,
    server::{EmbeddedServer, settings},
    site, wait_for,
};
use std::{
    fs,
    net::TcpListener,
    os::unix::net::UnixListener,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::Duration,
};
use tarpon::{Address, Server, Site};

#[test]
fn server_uses_given_listeners_and_stops_from_any_thread() {
    for &engine in EMBEDDED {
        let dir = site(&[("index.html", "home")]);
        let path = dir.path().join("socket");
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let unix = UnixListener::bind(&path).unwrap();
        let address = tcp.local_addr().unwrap();
        let listeners = vec![tcp.try_into().unwrap(), unix.try_into().unwrap()];
        let server =
            Server::start(&settings(engine, 2), listeners, Site::from_dir(dir.path()).unwrap()).unwrap();
        assert_eq!(server.addresses(), [Address::Tcp(address), Address::Unix(path.clone())]);

        let mut clients = [TestClient::connect(address), TestClient::connect_unix(&path)];
        for client in &mut clients {
            assert_eq!(client.get("/").content, b"home");
        }
        let handle = server.handle();
        let stopper = thread::spawn(move || handle.stop(Duration::from_secs(3600)));
        assert!(server.join().is_ok());
        stopper.join().unwrap();
        for client in &mut clients {
            assert_eq!(client.read_to_end(), b"");
        }
        assert!(path.exists(), "the server did not create the socket");
    }
}

#[test]
fn swap_reaches_all_clients_without_mixed_responses() {
    const SWAP_COUNT: usize = 50;
    const CLIENT_COUNT: usize = 6;
    for &engine in EMBEDDED {
        // Content in one buffer with its fields, in a separate one, and outside of the image.
        let lens = [("small", 100), ("middle", 30_000), ("large", 200_000)];
        let content =
            |version: u8, len| distinct_bytes(len).iter().map(|byte| byte ^ version).collect::<Vec<_>>();
        let versions = [1, 2].map(|version| site(&lens.map(|(name, len)| (name, content(version, len)))));
        // The responses of each version on a server of its own.
        let expected = versions.each_ref().map(|dir| {
            let served = EmbeddedServer::dir(&settings(engine, 1), dir.path());
            let mut client = TestClient::connect(served.address);
            lens.map(|(name, _)| without_date(client.get(&format!("/{name}"))))
        });

        let served = EmbeddedServer::dir(&settings(engine, 2), versions[0].path());
        // The number of responses of each version per client.
        let seen = [const { [const { AtomicUsize::new(0) }; 2] }; CLIENT_COUNT];
        let stopping = AtomicBool::new(false);
        let run_client = |seen: &[AtomicUsize; 2]| {
            let mut client = TestClient::connect(served.address);
            for file in (0..lens.len()).cycle() {
                let got = without_date(client.get(&format!("/{}", lens[file].0)));
                let version = expected.iter().position(|version| version[file] == got);
                let version = version.unwrap_or_else(|| panic!("a response of no version: {}", got.head));
                seen[version].fetch_add(1, Ordering::Relaxed);
                if stopping.load(Ordering::Relaxed) {
                    break;
                }
            }
        };
        thread::scope(|scope| {
            let clients = seen.each_ref().map(|seen| scope.spawn(|| run_client(seen)));
            for swap in 1..=SWAP_COUNT {
                let version = swap % 2;
                served.handle.swap(Site::from_dir(versions[version].path()).unwrap());
                for seen in &seen {
                    let before = seen[version].load(Ordering::Relaxed);
                    wait_for("responses of the other version", || {
                        let failed = clients.iter().any(|client| client.is_finished());
                        (failed || seen[version].load(Ordering::Relaxed) > before).then_some(())
                    });
                }
            }
            stopping.store(true, Ordering::Relaxed);
        });
    }
}

#[test]
fn unused_images_are_unmapped() {
    for &engine in EMBEDDED {
        // A size that identifies the mappings of this server, because no other test uses it.
        const LEN: usize = 7 << 20;
        let versions = [1, 2].map(|version: u8| {
            let file = |number: usize| (number.to_string(), vec![version; LEN / 112]);
            site(&(0..112).map(file).collect::<Vec<_>>())
        });
        let served = EmbeddedServer::dir(&settings(engine, 2), versions[0].path());
        let mut clients: Vec<TestClient> = (0..8).map(|_| TestClient::connect(served.address)).collect();
        for swap in 1..=20 {
            served.handle.swap(Site::from_dir(versions[swap % 2].path()).unwrap());
            for client in &mut clients {
                assert_eq!(client.get("/0").status, 200);
            }
        }
        wait_for("a single image", || (image_count(LEN) == 1).then_some(()));
        drop(clients);
        served.stop().unwrap();
        assert_eq!(image_count(LEN), 0);
    }
}

#[test]
fn response_in_progress_keeps_its_site() {
    for &engine in EMBEDDED {
        let len = 24 << 20;
        let versions = [b'1', b'2'].map(|version| site(&[("large", vec![version; len])]));
        let served = EmbeddedServer::dir(&settings(engine, 1), versions[0].path());
        let mut client = TestClient::connect(served.address);
        client.send(get("/large"));
        assert_eq!(client.try_head().unwrap().status, 200);
        served.handle.swap(Site::from_dir(versions[1].path()).unwrap());
        let mut another = TestClient::connect(served.address);
        wait_for("the other site", || (another.get("/large").content[0] == b'2').then_some(()));
        assert!(client.read_exact(len) == vec![b'1'; len]);
        assert!(client.get("/large").content == vec![b'2'; len]);
    }
}

#[test]
fn two_servers_run_in_one_process() {
    for &engine in EMBEDDED {
        let dirs = ["one", "two"].map(|name| site(&[("index.html", name)]));
        let [one, two] = dirs.each_ref().map(|dir| EmbeddedServer::dir(&settings(engine, 1), dir.path()));
        let (mut to_one, mut to_two) = (TestClient::connect(one.address), TestClient::connect(two.address));
        for _ in 0..3 {
            assert_eq!(to_one.get("/").content, b"one");
            assert_eq!(to_two.get("/").content, b"two");
        }
        one.stop().unwrap();
        assert_eq!(to_one.read_to_end(), b"");
        assert_eq!(to_two.get("/").content, b"two");
        two.stop().unwrap();
    }
}

#[test]
fn site_reports_its_contents() {
    let dir = site(&[("index.html", "home"), ("dir/page", "page"), (".hidden", "x")]);
    let site = Site::from_dir(dir.path()).unwrap();
    assert_eq!((site.file_count(), site.content_len()), (2, 8));
    let warnings: Vec<String> = site.warnings().map(|warning| warning.to_string()).collect();
    assert_eq!(warnings, ["skipped 1 dotfile: .hidden"]);
    let error = Site::from_dir(dir.path().join("missing")).unwrap_err().to_string();
    assert!(error.contains("/missing: it does not exist; name a directory"), "{error}");
}

/// Removes the date from a response, which leaves what the site determines.
fn without_date(mut response: crate::common::client::Response) -> crate::common::client::Response {
    response.head = response.head.lines().filter(|line| !line.starts_with("Date: ")).collect();
    response
}

/// Counts the mapped images of this process with `len` to 1.5 `len` bytes.
fn image_count(len: usize) -> usize {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let images = maps.lines().filter(|line| line.contains("memfd:tarpon-image"));
    let lens = images.map(|line| {
        let (from, to) = line.split_whitespace().next().and_then(|range| range.split_once('-')).unwrap();
        usize::from_str_radix(to, 16).unwrap() - usize::from_str_radix(from, 16).unwrap()
    });
    lens.filter(|found| (len..len * 3 / 2).contains(found)).count()
}

#[test]
fn process_engines_are_refused_in_the_library() {
    let dir = site(&[("index.html", "home")]);
    for &engine in ENGINES.iter().filter(|engine| !EMBEDDED.contains(engine)) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap().try_into().unwrap();
        let site = Site::from_dir(dir.path()).unwrap();
        let error =
            Server::start(&settings(engine, 1), vec![listener], site).expect_err("this process has threads");
        assert_eq!(
            error.to_string(),
            format!(
                "cannot run the engine {engine} within another program: its workers are processes, and a process that has \
                 threads cannot fork; use the engine threads, which serves in the same way, or run tarpon serve"
            )
        );
    }
}
