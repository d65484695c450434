//! docs/guides/in-a-container.md: the command of the image as its user, in namespaces, with a root file system that nothing can write to.

use super::{block, root};
use crate::common::{
    client::TestClient,
    program::{RunningProgram, children},
    readable_dir, wait_for, write_files,
};
use rustix::process::{Signal, geteuid, kill_process};
use std::{
    fs,
    net::Ipv4Addr,
    path::Path,
    process::{Command, Output},
};

/// What the Containerfile says.
struct ImageConfig {
    user: String,
    environment: Vec<(String, String)>,
    command: Vec<String>,
    health: Vec<String>,
}

#[test]
fn container_serves_reports_its_health_and_stops() {
    if !geteuid().is_root() {
        return println!("skipped: only root makes a container with another user");
    }
    let image = image_config();
    let dir = readable_dir();
    let rootfs = dir.path().join("root");
    let made = Command::new(root().join("packaging/container/context"))
        .arg(&rootfs)
        .arg(env!("CARGO_BIN_EXE_tarpon"))
        .output()
        .expect("a script");
    assert!(made.status.success(), "{made:?}");
    copy_libraries(&rootfs);
    let config = block("in-a-container", "toml");
    write_files(
        &rootfs,
        &[("etc/tarpon/tarpon.toml", &*config), ("srv/www/index.html", "home"), ("dev/null", "")],
    );
    fs::create_dir(rootfs.join("proc")).expect("a directory");

    let mounts = "mount --bind $0 $0 && mount --bind /dev/null $0/dev/null && mount -t proc proc $0/proc && \
        mount -t tmpfs -o mode=700,uid=65532,gid=65532 tmpfs $0/run/tarpon && mount -o remount,bind,ro $0 && \
        user=$1 && shift && exec chroot --userspec=$user $0 \"$@\"";
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c", mounts])
        .arg(&rootfs)
        .arg(&image.user);
    command.args(&image.command).envs(image.environment.clone());
    // The environment chooses a free port, as it would another one in a container.
    command.env("PORT", "0");
    let container = RunningProgram::start_ready(command);
    let first = wait_for("process 1", || children(container.pid()).first().copied());
    let health = || -> Output {
        let mut command = Command::new("nsenter");
        command.args(["--target", &first.as_raw_nonzero().to_string(), "--mount", "--pid", "--root", "--wd"]);
        command.args(["--setuid", "65532", "--setgid", "65532", "--"]).args(&image.health);
        command.envs(image.environment.clone()).output().expect("nsenter")
    };
    let healthy = health();
    assert!(healthy.status.success() && healthy.stdout == b"serving\n", "{healthy:?} {}", container.err());
    let address = (Ipv4Addr::LOCALHOST, container.address().port()).into();
    let mut client = TestClient::connect(address);
    assert_eq!(client.get("/").content, b"home");
    assert_eq!(client.get("/any/route").content, b"home", "a single-page application");
    assert_eq!(client.get("/healthz").content, b"ok\n");
    wait_for("the access log", || container.out().contains("\"/any/route\"").then_some(()));

    kill_process(first, Signal::TERM).expect("process 1");
    let ended = container.wait();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
}

/// Without a server, and with one that no admin socket leads to, the container is not healthy.
#[test]
fn health_check_fails_without_a_server() {
    let image = image_config();
    let dir = readable_dir();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tarpon"));
    let [program, arguments @ ..] = &image.health[..] else { panic!("a command") };
    assert_eq!(program, "/usr/bin/tarpon");
    command.args(arguments).args(["--admin", &format!("unix:{}", dir.path().join("admin").display())]);
    let ended = command.output().expect("it runs");
    let err = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{err}");
    assert!(err.contains("cannot reach the server at ") && err.contains("start a server"), "{err}");
}

fn image_config() -> ImageConfig {
    let text = fs::read_to_string(root().join("packaging/container/Containerfile")).expect("the file");
    let value = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        lines.next().unwrap_or_else(|| panic!("no {name}")).to_owned()
    };
    let list = |text: &str| -> Vec<String> { serde_json::from_str(text).expect("a list") };
    let health = value("HEALTHCHECK");
    let (_, health) = health.split_once(" CMD ").expect("a command");
    let (name, content) = value("ENV")
        .split_once('=')
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .expect("a variable");
    ImageConfig {
        user: value("USER"),
        environment: vec![(name, content)],
        command: [list(&value("ENTRYPOINT")), list(&value("CMD"))].concat(),
        health: list(health),
    }
}

/// Copies the libraries of the program, as that of the tests is not static. ldd(1)
fn copy_libraries(rootfs: &Path) {
    let libraries = Command::new("ldd").arg(env!("CARGO_BIN_EXE_tarpon")).output().expect("ldd");
    let output = String::from_utf8_lossy(&libraries.stdout);
    for path in output.split_whitespace().filter(|word| word.starts_with('/')) {
        let copy = rootfs.join(path.trim_start_matches('/'));
        fs::create_dir_all(copy.parent().expect("a directory")).expect("a directory");
        fs::copy(path, copy).expect("a copy");
    }
}
