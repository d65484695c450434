//! The examples of the README work: its lines for a container start a server, and its dependency line leads to the library. The texts for
//! users use the words that users search for. The documentation test of the library compiles the example in Rust.

use crate::common::{
    client::TestClient,
    program::{RunningProgram, tarpon},
    readable_dir, site, write_files,
};
use std::{fs, net::Ipv4Addr, os::unix::fs::symlink, path::Path, process::Command};

#[test]
fn container_example_starts_a_server_that_is_reachable_from_outside() {
    let block = block("dockerfile");
    let lines: Vec<_> = block.lines().collect();
    let [from, copy, entry] = lines[..] else { panic!("three lines: {lines:?}") };
    assert_eq!((from, copy), ("FROM scratch", "COPY mysite /"));
    let entry: Vec<String> =
        serde_json::from_str(entry.strip_prefix("ENTRYPOINT ").expect("ENTRYPOINT")).expect("a list");
    let [program, option, listen] = &entry[..] else { panic!("{entry:?}") };
    assert_eq!((&**program, &**option), ("/mysite", "--listen"));
    let (address, port) = listen.split_once(':').expect("an address and a port");
    assert_eq!(address, "0.0.0.0", "other addresses are not reachable from outside of the container");
    assert!(port.parse::<u16>().is_ok_and(|port| port >= 1024), "{port}");

    let root = readable_dir();
    let site = site(&[("index.html", "in a container")]);
    let mut pack = tarpon(["pack".as_ref(), site.path().as_os_str()]);
    pack.args(["--executable", "--effort", "fast", "-o"]).arg(root.path().join("mysite"));
    assert!(RunningProgram::run(pack).status.success());
    copy_libraries(root.path());
    // A container has /proc and /dev/null, and no other file: no users, no shell.
    fs::create_dir(root.path().join("proc")).expect("a directory");
    write_files(root.path(), &[("dev/null", "")]);
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--kill-child"]);
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-current-user", "--keep-caps"]);
    }
    let begin = "mount --bind /dev/null $0/dev/null && mount -t proc proc $0/proc && exec chroot $0 \"$@\"";
    command.args(["sh", "-c", begin]).arg(root.path());
    // A free port of this host.
    command.args([program, option, "0.0.0.0:0"]);
    let container = RunningProgram::start_ready(command);
    let address = (Ipv4Addr::LOCALHOST, container.address().port()).into();
    assert_eq!(TestClient::connect(address).get("/").content, b"in a container", "{}", container.out());
}

#[test]
fn dependency_line_leads_to_this_library() {
    let line = block("toml");
    assert_eq!(line.lines().count(), 1, "{line}");
    // The package of a user beside a clone of the repository.
    let parent = tempfile::tempdir().expect("a directory");
    symlink(env!("CARGO_MANIFEST_DIR"), parent.path().join("tarpon")).expect("a clone");
    let manifest = format!(
        "[package]\nname = \"example\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[dependencies]\n{line}"
    );
    write_files(
        parent.path(),
        &[("example/Cargo.toml", &*manifest), ("example/src/main.rs", "fn main() {}")],
    );
    let package = parent.path().join("example");
    fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.lock"), package.join("Cargo.lock"))
        .expect("versions");
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--depth", "1", "--prefix", "none", "--manifest-path"])
        .arg(package.join("Cargo.toml"))
        .output()
        .expect("cargo");
    let (out, err) = (String::from_utf8_lossy(&tree.stdout), String::from_utf8_lossy(&tree.stderr));
    assert!(
        out.lines().any(|line| line.starts_with(concat!("tarpon v", env!("CARGO_PKG_VERSION")))),
        "{out} {err}"
    );
}

#[test]
fn texts_for_users_say_headers_and_etags() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut texts = vec![here.join("README.md"), here.join("packaging/README.md")];
    for dir in ["docs", "example/site", "example/site/articles", "example/site/guide"] {
        let entries =
            fs::read_dir(here.join(dir)).expect("a directory").map(|entry| entry.expect("a file").path());
        texts.extend(
            entries.filter(|path| path.extension().is_some_and(|kind| kind == "md" || kind == "html")),
        );
    }
    let mut read: Vec<(String, String)> = texts
        .iter()
        .map(|path| (path.to_str().expect("text").to_owned(), fs::read_to_string(path).expect("text")))
        .collect();
    let commands = [
        "serve",
        "pack",
        "inspect",
        "verify",
        "release",
        "status",
        "reload",
        "upgrade",
        "config",
        "manual",
        "completions",
    ];
    for name in commands {
        let ended = RunningProgram::run(tarpon([name, "--help"].map(AsRef::as_ref)));
        read.push((format!("{name} --help"), ended.out));
        let ended = RunningProgram::run(tarpon(["manual", name].map(AsRef::as_ref)));
        read.push((format!("manual {name}"), ended.out));
    }
    let is_word = |text: &str, wanted: &str| {
        text.split(|char: char| !char.is_ascii_alphanumeric() && char != '-')
            .any(|word| word.eq_ignore_ascii_case(wanted))
    };
    for (name, text) in &read {
        // The name of a file keeps its words.
        let text = text.replace("0019-fields-of-the-path-asked-for", "");
        for word in ["field", "fields", "entity-tag", "entity-tags"] {
            assert!(!is_word(&text, word), "{name}: {word}");
        }
        assert!(!text.contains("entity tag"), "{name}");
    }
    let readme = &read[0].1;
    assert!(is_word(readme, "headers") && is_word(readme, "ETags"));
}

/// Returns the code of the only block of the README in a language.
fn block(language: &str) -> String {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).expect("text");
    let mut blocks = readme.split("\n```").skip(1).step_by(2).filter_map(|block| {
        let (head, code) = block.split_once('\n')?;
        (head.split(',').next() == Some(language)).then(|| format!("{code}\n"))
    });
    let only = blocks.next().unwrap_or_else(|| panic!("no block of {language}"));
    assert!(blocks.next().is_none(), "the README has two blocks of {language}");
    only
}

/// Copies the libraries of the program into a root directory: a static program has none. ldd(1)
fn copy_libraries(root: &Path) {
    let libraries = Command::new("ldd").arg(env!("CARGO_BIN_EXE_tarpon")).output().expect("ldd");
    let output = String::from_utf8_lossy(&libraries.stdout);
    for path in output.split_whitespace().filter(|word| word.starts_with('/')) {
        let copy = root.join(path.trim_start_matches('/'));
        fs::create_dir_all(copy.parent().expect("a directory")).expect("a directory");
        fs::copy(path, copy).expect("a copy");
    }
}
