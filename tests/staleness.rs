//! A site that cannot be read as a whole: what can be read is served, and the metrics, `status` and the readiness say what is wrong.

use crate::common::{
    ENGINES,
    client::{Response, TestClient},
    program::{RunningProgram, serve, tarpon, unprivileged},
    readable_dir,
    releases::{pack, set_current},
    wait_for, write_files,
};
use serde_json::Value;
use std::{
    fs::{self, Permissions},
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
};
use tarpon::Engine;

#[test]
fn unreadable_files_answer_403_and_the_rest_is_served_and_followed() {
    for &engine in ENGINES {
        let service = StaleService::start(engine, "site", &[]);
        let at = |name: &str| service.dir.path().join("site").join(name);
        // No user may read them, and a server that root has started is another user.
        let set_mode =
            |name: &str, mode| fs::set_permissions(at(name), Permissions::from_mode(mode)).unwrap();
        let large = "l".repeat(100_000);
        write_files(
            &at(""),
            &[("a.css", "a"), ("page.html", "page"), ("deep/file", "deep"), ("large", &large)],
        );
        service.wait_for_status("/deep/file", 200);
        for name in ["a.css", "page.html", "deep", "large"] {
            set_mode(name, 0o000);
        }
        #[rustfmt::skip]
        let cases = [
            ("/a.css", 403), ("/page", 404), ("/page.html", 403), ("/deep", 403), ("/deep/", 403), ("/deep/file", 404), ("/large", 403), ("/", 200),
        ];
        for (target, status) in cases {
            service.wait_for_status(target, status);
        }
        let denied = TestClient::connect(service.address).get("/a.css");
        assert!(String::from_utf8_lossy(&denied.content).contains("<h1>403 Forbidden</h1>"), "{engine}");
        assert_eq!(denied.field("Cache-Control"), Some("no-store"), "{engine}");
        let warning = "skipped 4 unreadable files or directories, such as deep";
        wait_for("the warning", || service.program.err().contains(warning).then_some(()));
        assert_eq!(service.reading("unreadable"), 4, "{engine}");
        assert!(
            service.status().contains("4 unreadable paths, such as deep"),
            "{engine}: {}",
            service.status()
        );
        // The rest is followed, and so is a file that becomes readable.
        fs::write(at("index.html"), "changed").unwrap();
        wait_for("the change", || (service.content("/") == b"changed").then_some(()));
        for name in ["a.css", "page.html", "deep", "large"] {
            set_mode(name, 0o755);
        }
        service.wait_for_status("/a.css", 200);
        service.wait_for_status("/deep/file", 200);
        wait_for("readable files", || (service.reading("unreadable") == 0).then_some(()));
        assert_eq!(service.admin("/ready"), "serving\n", "{engine}");
    }
}

#[test]
fn failed_read_is_visible_until_the_next_one_succeeds() {
    for &engine in ENGINES {
        let service = StaleService::start(engine, "site", &[]);
        assert_eq!(service.admin("/ready"), "serving\n", "{engine}");
        assert!(service.has_metric("tarpon_site_last_load_success", 1), "{engine}");
        let digest = service.reading("digest");
        // Whole from the start: a file that is being written is valid while it is empty.
        let set_rules = |text: &str| {
            let staged = service.dir.path().join("staged");
            fs::write(&staged, text).unwrap();
            fs::rename(&staged, service.dir.path().join("site/_redirects")).unwrap();
        };
        set_rules("/old\n");
        wait_for("degraded", || (service.admin("/ready") == "degraded\n").then_some(()));
        assert!(service.has_metric("tarpon_site_last_load_success", 0), "{engine}");
        let why = service.reading("failure")["why"].as_str().expect("a reason").to_owned();
        assert!(why.starts_with("_redirects:1:"), "{engine}: {why}");
        let status = service.status();
        assert!(status.contains("stale for ") && status.contains(&why), "{engine}: {status}");
        // The version before is served.
        assert_eq!((service.content("/"), service.reading("digest")), (b"home".to_vec(), digest.clone()));
        set_rules("/old /new 301\n");
        wait_for("the next success", || (service.admin("/ready") == "serving\n").then_some(()));
        assert!(service.has_metric("tarpon_site_last_load_success", 1), "{engine}");
        assert_eq!(service.reading("failure"), Value::Null, "{engine}");
        assert_ne!(service.reading("digest"), digest, "{engine}");
    }
}

#[test]
fn release_that_is_live_is_named() {
    for &engine in ENGINES {
        let service = StaleService::start(engine, "releases/current", &[]);
        let release = |name: &str| service.real_path(&format!("releases/{name}"));
        wait_for("the first release", || (service.reading("release") == release("1.tar")).then_some(()));
        let first = service.reading("");
        assert_eq!(first["path"], *service.dir.path().join("releases/current").display().to_string());
        let digest = first["digest"].as_str().expect("a digest").to_owned();
        assert_eq!(digest.len(), 32, "{engine}");
        let named = format!("release=\"{}\",digest=\"{digest}\"}} 1\n", release("1.tar"));
        assert!(service.admin("/metrics").contains(&named), "{engine}: {}", service.admin("/metrics"));
        set_current(&service.dir.path().join("releases"), "2.tar");
        wait_for("the next release", || (service.reading("release") == release("2.tar")).then_some(()));
        assert_ne!(service.reading("digest"), digest, "{engine}");
        let status = service.status();
        assert!(status.contains("live for ") && status.contains(&release("2.tar")), "{engine}: {status}");
        // A reload reads it again; it has been live before.
        let since = service.reading("live_since_unix_s");
        let reloaded =
            RunningProgram::run(tarpon(["reload", "--admin", &service.admin_option()].map(AsRef::as_ref)));
        assert!(reloaded.status.success(), "{engine}: {reloaded:?}");
        wait_for("the reload", || (service.reading("live_since_unix_s") == since).then_some(()));
    }
}

#[test]
fn strict_site_refuses_unreadable_files() {
    let service = StaleService::start(Engine::Epoll, "site", &["--strict"]);
    let file = service.dir.path().join("site/a.css");
    write_files(&service.dir.path().join("site"), &[("a.css", "a")]);
    service.wait_for_status("/a.css", 200);
    fs::set_permissions(&file, Permissions::from_mode(0o000)).unwrap();
    wait_for("degraded", || (service.admin("/ready") == "degraded\n").then_some(()));
    service.wait_for_status("/a.css", 200);
}

/// A server whose site changes.
struct StaleService {
    engine: Engine,
    address: SocketAddr,
    program: RunningProgram,
    dir: tempfile::TempDir,
}

impl StaleService {
    /// Starts a server of a directory `site`, or of the first of two `releases`.
    fn start(engine: Engine, path: &str, options: &[&str]) -> StaleService {
        let dir = readable_dir();
        write_files(&dir.path().join("site"), &[("index.html", "home")]);
        fs::create_dir(dir.path().join("releases")).unwrap();
        for (name, text) in [("1.tar", "one"), ("2.tar", "two")] {
            pack(&[("index.html", text)], &dir.path().join("releases").join(name));
        }
        set_current(&dir.path().join("releases"), "1.tar");
        let admin = format!("unix:{}", dir.path().join("admin.sock").display());
        let usual = ["--engine", engine.name(), "--workers", "1", "--admin", &admin];
        let command = serve(&dir.path().join(path), &[&usual[..], options].concat());
        let program = RunningProgram::start_ready(unprivileged(&command));
        let service = StaleService { engine, address: program.address(), program, dir };
        // With a pool of processes, that of the admin listener may hear last that the server serves.
        wait_for("readiness", || (service.ask("/ready").status == 200).then_some(()));
        service
    }

    fn admin_option(&self) -> String {
        format!("unix:{}", self.dir.path().join("admin.sock").display())
    }

    /// Returns what the admin listener answers.
    #[track_caller]
    fn admin(&self, path: &str) -> String {
        let answer = self.ask(path);
        assert_eq!(answer.status, 200, "{}, {path}", self.engine);
        String::from_utf8(answer.content).expect("text")
    }

    fn ask(&self, path: &str) -> Response {
        TestClient::connect_unix(&self.dir.path().join("admin.sock")).get(path)
    }

    /// Returns a member of what is known of how the site was read; all of it if the name is empty.
    fn reading(&self, name: &str) -> Value {
        let status: Value = serde_json::from_str(&self.admin("/status")).expect("JSON");
        let reading = &status["sites"][0]["reading"];
        if name.is_empty() { reading.clone() } else { reading[name].clone() }
    }

    fn has_metric(&self, name: &str, value: u64) -> bool {
        let row = format!("\n{name}{{site=\"0\",host=\"\"}} {value}\n");
        self.admin("/metrics").contains(&row)
    }

    /// Returns what `tarpon status` prints.
    fn status(&self) -> String {
        let command = tarpon(["status", "--admin", &self.admin_option()].map(AsRef::as_ref));
        let ended = RunningProgram::run(command);
        assert!(ended.status.success(), "{ended:?}");
        ended.out
    }

    fn content(&self, target: &str) -> Vec<u8> {
        TestClient::connect(self.address).get(target).content
    }

    fn wait_for_status(&self, target: &str, status: u16) {
        wait_for(&format!("{status} for {target}, {}", self.engine), || {
            (TestClient::connect(self.address).get(target).status == status).then_some(())
        });
    }

    fn real_path(&self, name: &str) -> String {
        fs::canonicalize(self.dir.path().join(name)).expect("a file").display().to_string()
    }
}
