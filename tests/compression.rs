//! A directory, or a plain archive, is served at once, and compressed in the background.

use crate::common::{
    ENGINES,
    client::{Response, TestClient},
    has_http2,
    program::{RunningProgram, children, serve, wrap_command},
    readable_dir, wait_for, write_files,
};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
};
use tarpon::Engine;

#[test]
fn directory_is_served_at_once_and_compressed_soon() {
    for &engine in ENGINES {
        let dir = readable_dir();
        let (script, page) = (text(200_000), text(3_000));
        write_files(
            &dir.path().join("site"),
            &[("index.html", &*page), ("app.js", &*script), ("short.txt", "short")],
        );
        let service = Compressing::start(engine, dir.path(), "site");
        service.wait_for_coding("/app.js", "br");
        for (target, content) in [("/", &page), ("/app.js", &script)] {
            for coding in ["br", "gzip", "zstd"] {
                let response = service.get(target, &format!("Accept-Encoding: {coding}\r\n"));
                assert_eq!(response.field("Content-Encoding"), Some(coding), "{engine}: {target}");
                if has_http2(engine) {
                    assert_eq!(
                        service.get_over_http2(target, coding),
                        response.content,
                        "{engine}: {target}"
                    );
                }
                assert!(
                    service.decoded(target, coding) == content.as_bytes(),
                    "{engine}: {target}, {coding}"
                );
            }
            let plain = service.get(target, "");
            assert_eq!(
                (plain.field("Content-Encoding"), plain.field("Vary")),
                (None, Some("Accept-Encoding"))
            );
            assert!(plain.content == content.as_bytes(), "{engine}: {target}");
        }
        let short = service.get("/short.txt", "Accept-Encoding: br\r\n");
        assert_eq!((short.field("Content-Encoding"), &short.content[..]), (None, &b"short"[..]), "{engine}");
        wait_for("the message", || {
            service.program.out().contains("compressed 2 files: 198.2 KiB become ").then_some(())
        });
        // It is the same version of the site.
        assert!(
            service.admin("/metrics").contains("\ntarpon_site_loads_total{site=\"0\",host=\"\"} 1\n"),
            "{engine}"
        );
        assert!(!service.program.out().contains("again"), "{engine}: {}", service.program.out());
    }
}

#[test]
fn more_large_files_than_jobs_hold_open_are_compressed() {
    let dir = readable_dir();
    // Jobs hold up to 35 of them open; the first ones do not gain from compression.
    let mut state = 1u64;
    let mut noise = || -> Vec<u8> {
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        (0..70_000).map(|_| next()).collect()
    };
    let mut files: Vec<_> = (10..70).map(|number| (format!("noise{number}"), noise())).collect();
    files.extend((10..30).map(|number| (format!("text{number}"), text(70_000 + number).into_bytes())));
    write_files(&dir.path().join("site"), &files);
    let service = Compressing::start_in(&["prlimit", "--nofile=256:256"], ENGINES[0], dir.path(), "site");
    for number in 10..30 {
        service.wait_for_coding(&format!("/text{number}"), "br");
    }
    assert!(!service.program.out().contains("again"), "{}", service.program.out());
    assert_eq!(service.program.err(), "");
}

#[test]
fn download_goes_on_across_the_compression() {
    for &engine in ENGINES {
        let dir = readable_dir();
        let script = text(200_000);
        write_files(&dir.path().join("site"), &[("app.js", &script)]);
        let service = Compressing::start(engine, dir.path(), "site");
        // Before the compression, most likely.
        let tag = service.get("/app.js", "").field("ETag").expect("a tag").to_owned();
        service.wait_for_coding("/app.js", "br");
        let rest = service.get("/app.js", &format!("Range: bytes=100000-\r\nIf-Range: {tag}\r\n"));
        assert_eq!(rest.status, 206, "{engine}");
        assert!(rest.content == script.as_bytes()[100_000..], "{engine}");
    }
}

#[test]
fn change_or_reload_keeps_the_variants_of_other_files() {
    for &engine in ENGINES {
        let dir = readable_dir();
        let site = dir.path().join("site");
        write_files(&site, &[("index.html", &text(3_000)), ("app.js", &text(200_000))]);
        let service = Compressing::start(engine, dir.path(), "site");
        service.wait_for_coding("/app.js", "br");
        fs::write(site.join("index.html"), text(4_000)).unwrap();
        wait_for("the change", || (service.get("/", "").content.len() == 4_000).then_some(()));
        let coding = |target: &str| {
            service.get(target, "Accept-Encoding: br\r\n").field("Content-Encoding").map(str::to_owned)
        };
        assert_eq!(coding("/app.js").as_deref(), Some("br"), "{engine}");
        service.wait_for_coding("/", "br");
        // The next builder is another process.
        let builder = service.builder();
        kill_process(service.program.pid(), Signal::HUP).unwrap();
        wait_for("another builder", || {
            (service.builders().len() == 1 && service.builder() != builder).then_some(())
        });
        assert_eq!(
            (coding("/app.js").as_deref(), coding("/").as_deref()),
            (Some("br"), Some("br")),
            "{engine}"
        );
    }
}

#[test]
fn plain_archive_is_compressed_too() {
    for &engine in ENGINES {
        let dir = readable_dir();
        let page = text(30_000);
        write_files(&dir.path().join("site"), &[("index.html", &page)]);
        let packed =
            Command::new("tar").args(["-cf", "site.tar", "-C", "site", "."]).current_dir(dir.path()).status();
        assert!(packed.expect("tar").success());
        let service = Compressing::start(engine, dir.path(), "site.tar");
        service.wait_for_coding("/", "gzip");
        assert!(service.decoded("/", "gzip") == page.as_bytes(), "{engine}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn compression_has_the_lowest_priority() {
    let dir = readable_dir();
    write_files(&dir.path().join("site"), &[("index.html", &text(3_000))]);
    let service = Compressing::start(Engine::Epoll, dir.path(), "site");
    service.wait_for_coding("/", "br");
    let tasks = fs::read_dir(format!("/proc/{}/task", service.builder().as_raw_nonzero())).unwrap();
    let nice = tasks.filter_map(|task| {
        let stat = fs::read_to_string(task.ok()?.path().join("stat")).ok()?;
        // proc(5): the name in parentheses is the second field, the nice value the 19th.
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
        Some((name.to_owned(), rest.split_whitespace().nth(16)?.to_owned()))
    });
    let nice: Vec<_> = nice.filter(|(name, _)| name == "compress").collect();
    assert_eq!(nice, [("compress".to_owned(), "19".to_owned())]);
}

/// A server that compresses its site.
struct Compressing {
    address: SocketAddr,
    program: RunningProgram,
    admin: PathBuf,
}

impl Compressing {
    fn start(engine: Engine, dir: &Path, site: &str) -> Compressing {
        Compressing::start_in(&["env"], engine, dir, site)
    }

    /// Starts the program through a wrapper.
    fn start_in(wrapper: &[&str], engine: Engine, dir: &Path, site: &str) -> Compressing {
        let admin = dir.join("admin.sock");
        let option = format!("unix:{}", admin.display());
        let options = ["--engine", engine.name(), "--workers", "1", "--admin", &option];
        let mut command = serve(&dir.join(site), &options);
        command.env_remove("TARPON_COMPRESS");
        let program = RunningProgram::start_ready(wrap_command(wrapper, &command));
        Compressing { address: program.address(), program, admin }
    }

    fn get(&self, target: &str, fields: &str) -> Response {
        let mut client = TestClient::connect(self.address);
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n"));
        client.response()
    }

    /// Returns the content that a client of HTTP/2 gets in this coding.
    fn get_over_http2(&self, target: &str, coding: &str) -> Vec<u8> {
        let mut client = TestClient::connect_http2(self.address);
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {coding}\r\n\r\n"));
        let response = client.response();
        assert_eq!(response.field("Content-Encoding"), Some(coding), "{target}");
        response.content
    }

    fn wait_for_coding(&self, target: &str, coding: &str) {
        let accept = format!("Accept-Encoding: {coding}\r\n");
        wait_for(&format!("{coding} of {target}"), || {
            (self.get(target, &accept).field("Content-Encoding") == Some(coding)).then_some(())
        });
    }

    /// Returns what curl decodes.
    fn decoded(&self, target: &str, coding: &str) -> Vec<u8> {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--fail", "--compressed", "--header", &format!("Accept-Encoding: {coding}")]);
        let output = curl.arg(format!("http://{}{target}", self.address)).output().expect("curl");
        assert!(output.status.success(), "{output:?}");
        output.stdout
    }

    fn admin(&self, path: &str) -> String {
        let answer = TestClient::connect_unix(&self.admin).get(path);
        String::from_utf8(answer.content).expect("text")
    }

    /// Returns the builder processes.
    fn builders(&self) -> Vec<Pid> {
        let name = |pid: &Pid| fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero())).ok();
        let mut children = children(self.program.pid());
        children.retain(|pid| name(pid).is_some_and(|name| name.trim() == "tarpon-builder"));
        children
    }

    fn builder(&self) -> Pid {
        wait_for("a builder", || self.builders().first().copied())
    }
}

/// Returns a text of this length that compresses well.
fn text(len: usize) -> String {
    (0u32..).flat_map(|at| format!("{} ", at * 7 % 5_000).into_bytes()).map(char::from).take(len).collect()
}
