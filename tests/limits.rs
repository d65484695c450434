//! The limits of clients, on every engine: requests per second.

use crate::common::{
    EMBEDDED, ENGINES,
    client::{TestClient, connect_on},
    program::{RunningProgram, serve_config},
    server::{EmbeddedServer, settings_with_http2},
    site, wait_for, workers,
};
use rustix::process::Signal;
use std::num::NonZeroU32;
use tarpon::{
    Engine, Functions, LimitChoice, PathLimit, Request, Route, Site, UnknownHost, VirtualHost, VirtualHosts,
};

/// One request in an hour, after a burst of 3: no test takes so long that another one would pass.
const SERVER: &str = "request-rate = \"1/h\"\nrequest-burst = 3";

#[test]
fn requests_of_all_workers_count_together() {
    for &engine in ENGINES {
        let served = Limited::start(engine, SERVER, "");
        for (_, connect) in connect_on(engine) {
            let mut client = connect(served.program.address());
            let statuses: Vec<_> = (0..5).map(|_| client.get("/").status).collect();
            // Each client has a connection of its own, which another worker may have accepted.
            let others: Vec<_> = (0..3).map(|_| connect(served.program.address()).get("/").status).collect();
            assert_eq!(others, [429; 3], "{engine}");
            let is_first = statuses[0] == 200;
            assert_eq!(statuses, if is_first { [200, 200, 200, 429, 429] } else { [429; 5] }, "{engine}");
            let refused = client.get("/");
            let wait: u32 = refused.field("Retry-After").expect("Retry-After").parse().expect("seconds");
            assert!((1..=3_600).contains(&wait), "{engine}: {wait}");
            assert!(
                String::from_utf8_lossy(&refused.content).contains("<h1>429 Too Many Requests</h1>"),
                "{engine}"
            );
            assert!(!refused.closes(), "{engine}: the connection stays usable");
        }
        wait_for("the line of the log", || {
            served.program.err().contains("more than 1/h to all sites").then_some(())
        });
        let lines = served.program.err().matches("requests are refused with 429").count();
        assert_eq!(lines, 1, "{engine}: one line, of all workers together");
    }
}

#[test]
fn paths_have_limits_of_their_own() {
    let paths = "[[site.limit]]\npath = \"/api\"\nrequest-rate = \"1/h\"\n\
                 [[site.limit]]\npath = \"/api/free\"\nrequest-rate = \"off\"\n";
    for &engine in ENGINES {
        let served = Limited::start(engine, SERVER, paths);
        let mut client = TestClient::connect(served.program.address());
        let mut statuses =
            |targets: &[&str]| -> Vec<_> { targets.iter().map(|target| client.get(target).status).collect() };
        // A path with a limit of its own does not count for the server.
        assert_eq!(statuses(&["/api/", "/api/", "//api/", "/x/..%2fapi/"]), [200, 429, 429, 429], "{engine}");
        assert_eq!(statuses(&["/api/free/"; 5]), [200; 5], "{engine}");
        assert_eq!(statuses(&["/", "/", "/", "/"]), [200, 200, 200, 429], "{engine}");
    }
}

#[test]
fn a_reload_and_a_new_worker_process_forgive_nothing() {
    for &engine in ENGINES {
        let served = Limited::start(engine, SERVER, "");
        let mut client = TestClient::connect(served.program.address());
        assert_eq!(
            (0..4).map(|_| client.get("/").status).collect::<Vec<_>>(),
            [200, 200, 200, 429],
            "{engine}"
        );
        drop(client);
        served.program.signal(Signal::HUP);
        wait_for("the reload", || served.program.out().contains("\nreloaded\n").then_some(()));
        assert_eq!(TestClient::connect(served.program.address()).get("/").status, 429, "{engine}");
        // The server process, with all its workers.
        let before = served.program.server();
        rustix::process::kill_process(before, Signal::KILL).expect("a server");
        assert_eq!(served.program.connect_after_kill().get("/").status, 429, "{engine}");
    }
}

#[test]
fn functions_of_a_program_count_too() {
    for &engine in EMBEDDED {
        let dir = site(&[("index.html", "home")]);
        let functions = Functions::new()
            .route(Route::new("/fast", |_: &mut Request<'_>| "fast"))
            .route(Route::new("/slow", |_: &mut Request<'_>| "slow").on_threads());
        let rate = |path: &str| PathLimit {
            path: Some(path.parse().expect("a prefix")),
            request_rate: Some(LimitChoice::At("1/h".parse().expect("a rate"))),
            request_burst: NonZeroU32::new(2),
        };
        let host = VirtualHost {
            path_limits: vec![rate("/fast"), rate("/slow")],
            ..VirtualHost::from(Site::from_dir(dir.path()).expect("a site"))
        };
        let hosts =
            VirtualHosts::new(vec![host], UnknownHost::Site(0)).expect("a site").with_functions(functions);
        let server = EmbeddedServer::sites(&settings_with_http2(engine, 2), hosts);
        for (number, (_, connect)) in connect_on(engine).enumerate() {
            let mut client = connect(server.address);
            for path in ["/fast", "/slow"] {
                let statuses: Vec<_> = (0..4).map(|_| client.get(path).status).collect();
                let want = if number == 0 { [200, 200, 429, 429] } else { [429; 4] };
                assert_eq!(statuses, want, "{engine}: {path}");
            }
            assert_eq!(client.get("/").status, 200, "{engine}");
        }
        let limited = 4 * connect_on(engine).count() as u64 + 4 * (connect_on(engine).count() as u64 - 1);
        wait_for("the metrics", || (server.handle.metrics().requests_limited == limited).then_some(()));
    }
}

/// A program with limits.
struct Limited {
    program: RunningProgram,
    _dir: tempfile::TempDir,
}

impl Limited {
    /// Serves a site with these options of the server, and these sections of the site.
    fn start(engine: Engine, server: &str, paths: &str) -> Limited {
        let page = |path: &str| (format!("site/{path}index.html"), "home");
        let dir = site(&["", "api/", "api/free/"].map(page));
        let config = format!(
            "[[site]]\npath = \"site\"\n{paths}\
             [[listener]]\naddress = \"127.0.0.1:0\"\n\
             [server]\nengine = \"{engine}\"\nworkers = {}\n{server}\n",
            workers(engine, 2)
        );
        Limited { program: RunningProgram::start_ready(serve_config(&config, dir.path(), &[])), _dir: dir }
    }
}
