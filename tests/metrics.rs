//! Metrics go on through a reload, a killed server, and upgrades: each response counts once, and no counter ever decreases.

use crate::common::{
    ENGINES,
    client::{TestClient, get},
    distinct_bytes,
    program::{
        RunningProgram, UpgradedProgram, children, has_exited, process_name, serve, serve_config, tarpon,
    },
    site, wait_for,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    net::{SocketAddr, TcpListener},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// More than the socket buffers of a connection hold.
const BIG_LEN: usize = 30 << 20;

#[test]
fn counters_go_on_through_reload_kill_and_upgrades() {
    for &engine in ENGINES {
        let mut service = ServiceFixture::start(engine.name());
        let (admin, stopping) = (service.admin.clone(), AtomicBool::new(false));
        thread::scope(|scope| {
            let poller = scope.spawn(|| poll_status(&admin, &stopping));
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                service.request();
                service.change_site();
                for event in [
                    ServiceFixture::reload,
                    ServiceFixture::kill_server,
                    ServiceFixture::upgrade,
                    ServiceFixture::kill_server,
                    ServiceFixture::reload,
                    ServiceFixture::upgrade,
                ] {
                    event(&mut service);
                    service.request();
                    service.change_site();
                }
            }));
            stopping.store(true, SeqCst);
            let count = poller.join().expect("a poller that finds no decrease");
            ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            assert!(count > 10, "{engine}: {count} polls");
        });
    }
}

/// A running service, and what its clients have received.
struct ServiceFixture {
    /// Dropped first.
    upgraded: Option<UpgradedProgram>,
    engine: &'static str,
    dir: tempfile::TempDir,
    _admin_dir: tempfile::TempDir,
    admin: PathBuf,
    program: RunningProgram,
    address: SocketAddr,
    start_unix_s: u64,
    file_count: u64,
    loads: u64,
    /// Responses by status and version.
    responses: BTreeMap<(u64, String), u64>,
    accepted: u64,
    received_len: u64,
}

impl ServiceFixture {
    fn start(engine: &'static str) -> ServiceFixture {
        let dir = site(&[("index.html", b"home".to_vec()), ("big", distinct_bytes(BIG_LEN))]);
        let admin_dir = tempfile::tempdir().expect("a directory");
        let admin = admin_dir.path().join("admin");
        let address = format!("unix:{}", admin.display());
        let options = ["--admin", &address, "--engine", engine];
        let program = RunningProgram::start_ready(serve(dir.path(), &options));
        let address = program.address();
        let start_unix_s = status(&admin).expect("a status")["start_unix_s"].as_u64().expect("a time");
        // A server that starts later would report another time.
        wait_for("the next second", || (unix_s() > start_unix_s).then_some(()));
        ServiceFixture {
            upgraded: None,
            engine,
            dir,
            _admin_dir: admin_dir,
            admin,
            program,
            address,
            start_unix_s,
            file_count: 2,
            loads: 1,
            responses: BTreeMap::new(),
            accepted: 0,
            received_len: 0,
        }
    }

    fn supervisor(&self) -> Pid {
        self.upgraded.as_ref().map_or_else(|| self.program.pid(), |upgraded| upgraded.0)
    }

    fn server(&self) -> Pid {
        let is_server = |&pid: &Pid| {
            process_name(pid).is_some_and(|name| name == "tarpon-server" || name == "tarpon-master")
        };
        wait_for("a server", || children(self.supervisor()).into_iter().rfind(is_server))
    }

    fn connect(&mut self) -> TestClient {
        self.accepted += 1;
        TestClient::connect(self.address)
    }

    /// Sends a request, and counts it.
    fn send(&mut self, client: &mut TestClient, request: &str, status: u64, version: &str) {
        assert!(client.send(request));
        self.received_len += request.len() as u64;
        *self.responses.entry((status, version.to_owned())).or_default() += 1;
    }

    /// Sends requests of several kinds, and checks that exactly they are counted.
    fn request(&mut self) {
        for _ in 0..5 {
            let mut client = self.connect();
            for (target, status) in [("/", 200), ("/missing", 404), ("/", 200)] {
                self.send(&mut client, &get(target), status, "1.1");
                assert_eq!(u64::from(client.response().status), status, "{}", self.engine);
            }
            self.send(&mut client, "GET / HTTP/1.0\r\n\r\n", 200, "1.0");
            client.read_to_end();
            let mut client = self.connect();
            self.send(&mut client, "bad\r\n\r\n", 400, "none");
            client.read_to_end();
        }
        self.check(0);
    }

    /// Waits until the metrics are what the clients have seen, with this many open connections.
    fn check(&self, open: u64) {
        let mut last = Value::Null;
        let is_expected = || {
            last = status(&self.admin)?;
            let responses = last["responses"].as_array()?.iter().map(|row| {
                let (status, version) = (row["status"].as_u64()?, row["version"].as_str()?.to_owned());
                Some(((status, version), row["count"].as_u64()?))
            });
            let responses = responses.collect::<Option<BTreeMap<_, _>>>()?;
            let number = |name: &str| last[name].as_u64();
            let count = responses.values().sum::<u64>();
            let is_same = responses == self.responses
                && number("accepted")? == self.accepted
                && number("received_len")? == self.received_len
                && number("open")? == open
                && number("start_unix_s")? == self.start_unix_s
                && number("completed")? == count
                && number("aborted")? == 0;
            is_same.then_some(())
        };
        let found =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| wait_for("the metrics", is_expected)));
        assert!(
            found.is_ok(),
            "{}: {} accepted, {} bytes, {open} open, {:?}, started at {}: {last:#}",
            self.engine,
            self.accepted,
            self.received_len,
            self.responses,
            self.start_unix_s
        );
    }

    /// Adds a file to the site. The number of loads goes on.
    fn change_site(&mut self) {
        self.file_count += 1;
        fs::write(self.dir.path().join(format!("file {}", self.file_count)), "new").expect("a file");
        let loads = wait_for("a changed site", || {
            let status = status(&self.admin)?;
            let site = &status["sites"][0];
            (site["files"] == self.file_count).then(|| site["loads"].as_u64())?
        });
        assert!(loads > self.loads, "{}: {loads} loads, {} before", self.engine, self.loads);
        self.loads = loads;
    }

    /// Sends an order while a download is under way, which ends afterwards.
    fn order(&mut self, order: &str) -> String {
        let mut download = self.connect();
        self.send(&mut download, &get("/big"), 200, "1.1");
        self.wait_for_responses();
        let address = format!("unix:{}", self.admin.display());
        let ended = RunningProgram::run(tarpon([order, "--admin", &address].map(AsRef::as_ref)));
        assert!(ended.status.success(), "{}: {ended:?}", self.engine);
        let mut client = self.connect();
        self.send(&mut client, &get("/"), 200, "1.1");
        assert_eq!(client.response().content, b"home");
        drop(client);
        // The former server drains, and its numbers count.
        self.wait_for_responses();
        assert_eq!(download.response().content.len(), BIG_LEN, "{}", self.engine);
        drop(download);
        self.check(0);
        ended.out
    }

    /// Waits until all responses are counted, in whatever state their connections are.
    fn wait_for_responses(&self) {
        wait_for("all responses", || {
            let responses = status(&self.admin)?["responses"].as_array()?.clone();
            let count: u64 = responses.iter().filter_map(|row| row["count"].as_u64()).sum();
            (count == self.responses.values().sum::<u64>()).then_some(())
        });
    }

    fn reload(&mut self) {
        let former = self.server();
        self.order("reload");
        wait_for("the former server exits", || has_exited(former).then_some(()));
        self.check(0);
    }

    fn upgrade(&mut self) {
        let former = self.supervisor();
        let next = UpgradedProgram::from_output(&self.order("upgrade"));
        wait_for("the predecessor exits", || has_exited(former).then_some(()));
        self.upgraded = Some(next);
        self.check(0);
        // The memory of its counters needs no descriptor any more.
        wait_for("one table", || (table_count(self.supervisor()) == 1).then_some(()));
    }

    /// Kills the server with SIGKILL while clients are connected.
    fn kill_server(&mut self) {
        let server = self.server();
        let mut client = self.connect();
        self.send(&mut client, &get("/"), 200, "1.1");
        client.response();
        self.check(1);
        kill_process(server, Signal::KILL).expect("a server");
        assert_eq!(client.read_to_end(), b"");
        wait_for("the next server", || {
            (status(&self.admin)?["state"] == "serving" && self.server() != server).then_some(())
        });
        self.check(0);
        // With io_uring, the kernel still accepts for the killed server for some milliseconds: no worker counts that.
        wait_for("a connection of the next server", || {
            let mut client = TestClient::connect(self.address);
            client.try_send(get("/")).and_then(|()| client.try_response()).ok()
        });
        self.accepted += 1;
        self.received_len += get("/").len() as u64;
        *self.responses.entry((200, "1.1".to_owned())).or_default() += 1;
        self.check(0);
    }
}

/// Returns the status as JSON. `None`: the server was killed before it had answered.
fn status(admin: &Path) -> Option<Value> {
    let mut client =
        TestClient::new(UnixStream::connect(admin).expect("a socket that the supervisor keeps open"));
    client.try_send(get("/status")).ok()?;
    let response = client.try_response().ok()?;
    assert_eq!(response.status, 200);
    Some(serde_json::from_slice(&response.content).expect("JSON"))
}

/// Reads the status again and again. Returns how often.
///
/// # Panics
/// A counter decreases.
fn poll_status(admin: &Path, stopping: &AtomicBool) -> usize {
    let (mut highest, mut count) = (BTreeMap::<String, u64>::new(), 0);
    while !stopping.load(SeqCst) {
        let Some(status) = status(admin) else { continue };
        for (name, value) in counters(&status) {
            let highest = highest.entry(name.clone()).or_default();
            assert!(value >= *highest, "{name} was {highest}, and is {value}: {status:#}");
            *highest = value;
        }
        count += 1;
    }
    count
}

/// Returns all counters of requests. While one server takes over from another, each reports its own sites.
fn counters(status: &Value) -> Vec<(String, u64)> {
    let names = ["accepted", "received_len", "sent_len", "aborted", "log_dropped", "completed", "latency_us"];
    let number = |value: &Value| value.as_u64().expect("a number");
    let rows = |name: &str| status[name].as_array().expect("rows").clone();
    let plain = names.map(|name| (name.to_owned(), number(&status[name])));
    let responses = rows("responses")
        .into_iter()
        .map(|row| (format!("responses {} {}", row["status"], row["version"]), number(&row["count"])));
    let latencies = rows("latencies").into_iter().map(|row| (format!("latency {}", row[0]), number(&row[1])));
    plain.into_iter().chain(responses).chain(latencies).collect()
}

/// Counts the descriptors of a process for memory of counters. proc(5), /proc/pid/fd.
fn table_count(pid: Pid) -> usize {
    let entries = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())).expect("a process");
    let links = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    links.filter(|link| link.to_string_lossy().contains("tarpon-counters")).count()
}

fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970").as_secs()
}

#[test]
#[cfg(target_os = "linux")]
fn process_is_measured_under_the_usual_names() {
    for &engine in ENGINES {
        let service = ServiceFixture::start(engine.name());
        let value =
            |name: &str| metric(&service.admin, name).unwrap_or_else(|| panic!("{engine}: no {name}"));
        let (resident, all) = (value("process_resident_memory_bytes"), value("process_virtual_memory_bytes"));
        assert!(resident > 1e6 && all > resident, "{engine}: {resident} of {all}");
        // Standard input, output and error, at least.
        assert!(value("process_max_fds") >= value("process_open_fds"), "{engine}");
        assert!(value("process_open_fds") >= 3.0, "{engine}");
        assert!(value("process_start_time_seconds") >= service.start_unix_s as f64 - 1.0, "{engine}");
        // Time goes by only while the server works.
        let before = value("process_cpu_seconds_total");
        wait_for("CPU time", || {
            TestClient::connect(service.address).get("/");
            let [process, workers] =
                ["process_cpu_seconds_total", "tarpon_worker_cpu_seconds_total"].map(value);
            (process > before && workers > 0.0).then_some(())
        });
    }
}

#[test]
fn duration_includes_the_wait_for_an_upstream_server() {
    let upstream = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let to = upstream.local_addr().expect("an address");
    let answer = thread::spawn(move || {
        let (stream, _) = upstream.accept().expect("a connection");
        let mut client = TestClient::new(stream);
        client.read_exact(b"GET / HTTP/1.1\r\n".len());
        // At least as long as a bucket of the histogram.
        thread::sleep(Duration::from_millis(6));
        client.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        client
    });
    let dir = tempfile::tempdir().expect("a directory");
    fs::create_dir(dir.path().join("public")).expect("a directory");
    let admin = dir.path().join("admin");
    let config = format!(
        "[[site]]\npath = \"public\"\nproxy = [\"/=http://{to}\"]\n[[listener]]\naddress = \"127.0.0.1:0\"\n"
    );
    let option = format!("unix:{}", admin.display());
    let program = RunningProgram::start_ready(serve_config(&config, dir.path(), &["--admin", &option]));
    assert_eq!(TestClient::connect(program.address()).get("/").content, b"ok");
    let count =
        |end: &str| metric(&admin, &format!("tarpon_response_duration_seconds_bucket{{le=\"{end}\"}}"));
    wait_for("the response", || (count("+Inf") == Some(1.0)).then_some(()));
    assert_eq!((count("0.0001"), count("0.005")), (Some(0.0), Some(0.0)));
    drop(answer.join());
}

/// Returns the value of a row of the metrics.
fn metric(admin: &Path, name: &str) -> Option<f64> {
    let page = TestClient::connect_unix(admin).get("/metrics").content;
    let page = String::from_utf8(page).expect("text");
    page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}
