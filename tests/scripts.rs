//! The scripts of `tests/`, with stubs for the programs that they call: `run` continues after a failing step and lists every failure,
//! `setup` retries a failed download and lists what is missing, and `arch` reports each problem with its place.

use serde_json::Value;
use std::{
    env, fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::Mutex,
};
use tempfile::TempDir;

#[test]
fn run_continues_after_a_failing_step_and_lists_it_at_the_end() {
    let dir = checkout();
    let run = |arguments: &[&str]| ended(&mut command(&dir, "tests/run", arguments));
    let (status, out) = run(&[]);
    assert_eq!(status, 0, "{out}");
    assert!(out.lines().last().unwrap().starts_with("All passed: 12 steps in "), "{out}");
    let (status, out) = run(&["--quick"]);
    assert_eq!(status, 0, "{out}");
    let quick = "(quick: without the slowest tests, fuzz targets and browser)";
    assert!(out.lines().last().unwrap().starts_with(&format!("All passed {quick}: 9 steps in ")), "{out}");

    for failing in ["setup", "arch", "smoke", "cargo-doc"] {
        fs::write(dir.path().join("fails").join(failing), "").unwrap();
    }
    let (status, out) = run(&[]);
    assert_eq!(status, 1, "{out}");
    let headings: Vec<_> = out.lines().filter_map(|line| line.strip_prefix("== FAILED: ")).collect();
    let want = ["setup", "documentation", "architecture", "fuzz targets, from their seeds"];
    assert_eq!(headings, want, "{out}");
    let (_, list) = out.split_once("\nFAILED, 12 steps in ").expect("a summary");
    assert_eq!(list.lines().skip(1).map(str::trim_start).collect::<Vec<_>>(), want, "{out}");
    // Later steps run all the same.
    assert!(out.contains("\n== tests: ") && out.contains("\n== lints of the fuzz targets: "), "{out}");
}

#[test]
fn soak_writes_its_result_and_other_runs_tell_its_age() {
    let dir = checkout();
    let run = |arguments: &[&str]| ended(&mut command(&dir, "tests/run", arguments));
    let age =
        |out: &str| out.lines().find_map(|line| line.strip_prefix("soak: ")).unwrap_or_default().to_owned();
    assert_eq!(age(&run(&["--quick"]).1), "no result yet; run tests/run --soak");
    write(&dir.path().join("fuzz/targets/head.rs"), "");
    fs::write(dir.path().join("fails").join("smoke"), "").unwrap();
    for (failing, ended, status) in [(true, "FAILED", 1), (false, "passed", 0)] {
        if !failing {
            fs::remove_file(dir.path().join("fails").join("smoke")).unwrap();
        }
        let (got, out) = run(&["--soak", "1"]);
        assert_eq!((got, &*age(&out)), (status, "the result is in tests/soak.json; commit it"), "{out}");
        let result = fs::read_to_string(dir.path().join("tests/soak.json")).unwrap();
        let result: Value = serde_json::from_str(&result).unwrap_or_else(|error| panic!("{error}: {result}"));
        let steps = result["steps"].as_array().expect("steps");
        let failed = steps.iter().filter(|step| step["result"] == "failed").count();
        assert_eq!((steps.len(), failed, &result["seeds_factor"]), (7, usize::from(failing), &10.into()));
        let date = result["date"].as_str().expect("a date");
        fs::write(dir.path().join("stubs/commits"), "0\n").unwrap();
        assert_eq!(age(&run(&[]).1), format!("{ended} on {date}, with this code"));
        fs::write(dir.path().join("stubs/commits"), "3\n").unwrap();
        let old = format!(
            "{ended} on {date}, and is older than the code: 3 commits since 0123456789ab change \
             src crates fuzz Cargo.toml Cargo.lock"
        );
        assert_eq!(age(&run(&[]).1), old);
        fs::remove_file(dir.path().join("stubs/commits")).unwrap();
        assert!(age(&run(&["--quick"]).1).ends_with("which this repository lacks"));
    }
    for wrong in [&["--soak", "0"][..], &["--soak", "1", "2"], &["--quick", "1"], &["--fast"]] {
        let (status, out) = run(wrong);
        assert!(status == 2 && out.contains("tests/run --soak [MINUTES]"), "{wrong:?}: {out}");
    }
}

/// With the real cargo, as `run` reads its output.
#[test]
fn run_lists_each_failing_test_with_the_command_that_repeats_it() {
    let dir = checkout();
    let write = |path: &str, text: &str| write(&dir.path().join(path), text);
    write(
        "Cargo.toml",
        "[package]\nname = \"sample\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n",
    );
    write("Cargo.lock", "version = 4\n\n[[package]]\nname = \"sample\"\nversion = \"0.0.0\"\n");
    write("src/lib.rs", "//! ```\n//! panic!();\n//! ```\n");
    // The output of a test may look like a list of failures.
    write(
        "tests/a.rs",
        r#"
        #[test] fn good() {}
        #[test] fn first() { panic!("\nfailures:\n    inner\n\ntest result: ok. of another program") }
        mod deeper { #[test] fn second() { assert_eq!(1, 2, "    indented\n\nfailures:\nmore") } }
        "#,
    );
    write("tests/b.rs", "#[test] fn aborts() { std::process::abort() }");
    write("tests/c.rs", "#[test] fn good() {}");
    write("stubs/real", "");
    remove(&dir, &["cc", "rustc", "python3"]);
    let (status, out) = ended(&mut command(&dir, "tests/run", &["--quick"]));
    assert_eq!(status, 1, "{out}");
    let (_, list) = out.split_once("\nFAILED (quick: ").unwrap_or_else(|| panic!("no summary: {out}"));
    let list: Vec<_> = list.lines().skip(1).collect();
    let want = [
        "  tests",
        "    deeper::second   (cargo test --test a)",
        "    first   (cargo test --test a)",
        "    all tests, as the program ended early   (cargo test --test b)",
        "    src/lib.rs - (line 1)   (cargo test --doc)",
    ];
    assert_eq!(list, want, "{out}");
    assert!(out.contains("test result: ok. 1 passed; 0 failed;"), "the output of cargo is complete: {out}");
}

#[test]
fn arch_reports_each_problem_with_its_place() {
    let dir = sources();
    assert_eq!(ended(&mut command(&dir, "tests/arch", &[])), (0, String::new()));

    write(&dir.path().join("src/base/mod.rs"), "use crate::site::Image;\npub unsafe fn f() {}\n");
    write(&dir.path().join("src/flat.rs"), "pub struct Image;\n");
    let manifest = dir.path().join("crates/http/Cargo.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    write(&manifest, &format!("{text}[dependencies]\ntarpon-site.path = \"../site\"\n"));
    write(&dir.path().join("crates/conn/clippy.toml"), "");
    let (status, out) = ended(&mut command(&dir, "tests/arch", &[]));
    assert_eq!(status, 1, "{out}");
    let want = [
        "src/base/mod.rs:1: `crate::site::Image` leads upwards, from base to site: ",
        "src/flat.rs:1: belongs to no plane: ",
        "src/flat.rs:1: the type name `Image` is defined again in src/site/mod.rs:1: ",
        "src/base/mod.rs:2: unsafe code outside of crates/simd/src/, src/sys/, ",
        "crates/http/Cargo.toml:6: tarpon-http depends on tarpon-site: ",
        "crates/conn/clippy.toml:1: clippy accepts in tarpon-conn what this file should forbid:",
    ];
    let lines: Vec<_> = out.lines().filter(|line| want.iter().any(|want| line.starts_with(want))).collect();
    assert_eq!(lines.len(), want.len(), "{out}");
}

#[test]
fn arch_probes_pass_alone_and_fail_when_a_check_is_broken() {
    let dir = sources();
    // The probes read none of the sources.
    write(&dir.path().join("src/flat.rs"), "");
    assert_eq!(ended(&mut command(&dir, "tests/arch", &["--probe"])), (0, String::new()));

    let arch = fs::read_to_string(dir.path().join("tests/arch")).unwrap();
    for check in [
        "upward_imports(tree)",
        "flat_files(tree)",
        "repeated_type_names(tree)",
        "unsafe_code(tree)",
        "protocol_dependencies(packages, manifests)",
    ] {
        let head = format!("def {check}:\n");
        assert!(arch.contains(&head), "{check}");
        script(&dir.path().join("tests/arch"), &arch.replace(&head, &format!("{head}    return\n")));
        let (status, out) = ended(&mut command(&dir, "tests/arch", &["--probe"]));
        let name = check.split('(').next().unwrap();
        assert!(
            status == 1 && out.starts_with(&format!("tests/arch:1: {name} refuses [] of the probe ")),
            "{check}: {out}"
        );
    }
}

#[test]
fn arch_refuses_an_unknown_option() {
    let dir = sources();
    for arguments in [&["--quick"][..], &["--probe", "more"]] {
        let (status, out) = ended(&mut command(&dir, "tests/arch", arguments));
        assert!(status == 2 && out.contains("tests/arch [--probe]"), "{out}");
    }
}

#[test]
fn setup_does_nothing_if_nothing_is_missing() {
    let dir = checkout();
    assert_eq!(ended(&mut command(&dir, "tests/setup", &["--quick"])), (0, String::new()));
    assert_eq!(calls(&dir), [""; 0]);
}

#[test]
fn setup_updates_the_package_lists_and_retries_a_failed_download() {
    let dir = checkout();
    remove(&dir, &["brotli", "zopfli"]);
    write(&dir.path().join("fails/once-install"), "");
    let (status, out) = ended(&mut command(&dir, "tests/setup", &["--quick"]));
    assert_eq!(status, 0, "{out}");
    assert!(out.contains("tests/setup: failed, retry in 0 s: "), "{out}");
    let install = "install brotli zopfli";
    assert_eq!(calls(&dir), ["update", install, "update", install], "{out}");
}

#[test]
fn setup_installs_packages_and_lists_what_is_missing() {
    let dir = checkout();
    remove(&dir, &["brotli", "cc", "zopfli"]);
    write(&dir.path().join("fails/package-zopfli"), "");
    write(&dir.path().join("stubs/rust-version"), "1.2.3");
    let (status, out) = ended(&mut command(&dir, "tests/setup", &["--quick"]));
    assert_eq!(status, 1, "{out}");
    let (_, missing) = out.split_once("tests/setup: missing:\n").expect("a list");
    let missing: Vec<_> = missing.lines().collect();
    let [packages, rust] = missing[..] else { panic!("{missing:?}") };
    assert!(packages.ends_with(": zopfli"), "{out}");
    assert!(rust.contains("or newer: this one is 1.2.3"), "{out}");
    assert!(dir.path().join("stubs/brotli").exists() && dir.path().join("stubs/cc").exists(), "{out}");
    for package in ["brotli", "gcc", "libc6-dev", "zopfli"] {
        assert!(calls(&dir).contains(&format!("install {package}")), "{:?}", calls(&dir));
    }
}

/// A stub of a script: fails if `fails` has a file of its name.
const STUB: &str = r#"#!/bin/bash
cd "$STUBS/.."
name=${0##*/}
if [[ -e fails/$name ]]; then exit 101; fi
"#;

/// A stub of cargo: prints metadata. If `stubs/real` exists, the real cargo runs the tests.
const CARGO: &str = r#"#!/bin/bash
root=$STUBS/..
if [[ -e $root/fails/cargo-$1 ]]; then exit 101; fi
case $1 in
    metadata) printf '{"target_directory":"%s/target"}' "$root" ;;
    test) [[ ! -e $STUBS/real ]] || exec "$REAL_CARGO" "$@" ;;
esac
"#;

const RUSTC: &str = r#"#!/bin/bash
version=$(cat "$STUBS/rust-version" 2>/dev/null || echo 1.999.0)
echo "rustc $version (0123abcd 2030-01-01)"
if [[ $* == *--verbose* ]]; then echo "host: x86_64-unknown-linux-gnu"; fi
"#;

/// A stub of git: one commit, with as many later commits as `stubs/commits` says.
const GIT: &str = r#"#!/bin/bash
case $1 in
    rev-parse) echo 0123456789abcdef0123456789abcdef01234567 ;;
    rev-list) [[ $3 == 0123456789abcdef0123456789abcdef01234567..HEAD && -e $STUBS/commits ]] && cat "$STUBS/commits" ;;
esac
"#;

/// A stub of Python: makes virtual environments, and succeeds at anything else.
const PYTHON: &str = r#"#!/bin/bash
if [[ $* == "-m venv --clear "* ]]; then mkdir -p "$4/bin"; cp "$0" "$4/bin/python"; fi
"#;

/// A stub of apt-get: records its operands. To install a package, it makes a program of its name.
const APT_GET: &str = r#"#!/bin/bash
words=()
skip=
for word; do
    case $word in
        --option) skip=1; continue ;;
        -*) ;;
        *) [[ $skip ]] || words+=("$word") ;;
    esac
    skip=
done
echo "${words[*]}" >>"$STUBS/calls"
[[ $DEBIAN_FRONTEND == noninteractive && " $* " == *" --yes "* && ! -t 0 ]] || exit 100
if [[ -e $STUBS/../fails/once-${words[0]} ]]; then rm "$STUBS/../fails/once-${words[0]}"; exit 100; fi
if [[ ${words[0]} == update ]]; then exit; fi
for package in "${words[@]:1}"; do
    if [[ -e $STUBS/../fails/package-$package ]]; then echo "E: Unable to locate package $package" >&2; exit 100; fi
done
for package in "${words[@]:1}"; do
    case $package in gcc) program=cc ;; *) program=$package ;; esac
    cp "$STUBS/true" "$STUBS/$program"
done
"#;

/// A stub of `sudo -n COMMAND...`: runs the command.
const SUDO: &str = "#!/bin/bash\nshift\nexec \"$@\"\n";

/// Locked while a test writes programs or starts one. Between fork and exec, a child process has every file of its parent open, and the
/// kernel starts no program that is open for writing.
static WRITING: Mutex<()> = Mutex::new(());

/// Makes a directory with the scripts, and with stubs for the programs that they call.
fn checkout() -> TempDir {
    let _writing = WRITING.lock().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let ours = Path::new(env!("CARGO_MANIFEST_DIR"));
    for path in ["tests/run", "tests/setup", "tests/programs", "tests/clients/requirements.txt", "Cargo.toml"]
    {
        let to = dir.path().join(path);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(ours.join(path), to).unwrap();
    }
    fs::create_dir(dir.path().join("fails")).unwrap();
    let stub = |path: &str, text: &str| script(&dir.path().join(path), text);
    // `run` calls a stub of `setup`.
    let real_setup = dir.path().join("tests/setup");
    fs::rename(&real_setup, dir.path().join("tests/real-setup")).unwrap();
    for name in ["setup", "arch", "features", "targets", "cost", "sanitize", "static"] {
        stub(&format!("tests/{name}"), STUB);
    }
    stub("fuzz/smoke", STUB);
    stub("stubs/cargo", CARGO);
    stub("stubs/rustc", RUSTC);
    stub("stubs/python3", PYTHON);
    stub("stubs/git", GIT);
    stub("stubs/apt-get", APT_GET);
    stub("stubs/sudo", SUDO);
    let programs = "true cc curl nghttp node npm go slowhttptest brotli zopfli bsdtar zstd ip unshare pkg-config nginx haproxy caddy valgrind mandoc zsh perl \
                    fish systemd-analyze logrotate fail2ban-regex";
    for program in programs.split_whitespace() {
        stub(&format!("stubs/{program}"), "#!/bin/sh\n");
    }
    let tools = "awk bash cat cmp cp cut date dirname env getconf grep mapfile mkdir mktemp rm sed sleep sort tee uname";
    for tool in tools.split_whitespace() {
        if let Some(path) = program(tool) {
            symlink(path, dir.path().join("stubs").join(tool)).unwrap();
        }
    }
    dir
}

/// Makes a directory with `arch` and sources that it accepts, for the real cargo and the real Python.
fn sources() -> TempDir {
    let dir = checkout();
    remove(&dir, &["cargo", "rustc", "python3", "cc"]);
    let ours = Path::new(env!("CARGO_MANIFEST_DIR"));
    let copy = |path: &str| fs::read_to_string(ours.join(path)).unwrap();
    script(&dir.path().join("tests/arch"), &copy("tests/arch"));
    let write = |path: &str, text: &str| write(&dir.path().join(path), text);
    write("stubs/real", "");
    write("Cargo.toml", "[workspace]\nmembers = [\"crates/*\"]\nresolver = \"3\"\n");
    for name in ["simd", "http", "site", "conn"] {
        let manifest =
            format!("[package]\nname = \"tarpon-{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n");
        write(&format!("crates/{name}/Cargo.toml"), &manifest);
        write(&format!("crates/{name}/src/lib.rs"), "#![forbid(unsafe_code)]\n");
    }
    write("crates/conn/clippy.toml", &copy("crates/conn/clippy.toml"));
    write("src/lib.rs", "mod base;\nmod site;\n");
    write("src/base/mod.rs", "");
    write("src/site/mod.rs", "pub struct Image;\n");
    dir
}

/// Finds a program of this system.
fn program(name: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH").unwrap()).map(|dir| dir.join(name)).find(|path| path.exists())
}

fn remove(dir: &TempDir, programs: &[&str]) {
    programs.iter().for_each(|program| fs::remove_file(dir.path().join("stubs").join(program)).unwrap());
}

fn command(dir: &TempDir, script: &str, arguments: &[&str]) -> Command {
    let stubs = dir.path().join("stubs");
    // The real cargo needs the other programs of this system.
    let path = match stubs.join("real").exists() {
        true => env::join_paths(
            [stubs.clone()].into_iter().chain(env::split_paths(&env::var_os("PATH").unwrap())),
        ),
        false => env::join_paths([&stubs]),
    };
    let script = if script == "tests/setup" { "tests/real-setup" } else { script };
    let mut command = Command::new(dir.path().join(script));
    command.args(arguments).env("PATH", path.unwrap()).env("STUBS", &stubs);
    command
        .env("RETRY_SECONDS", "0")
        .env("REAL_CARGO", env!("CARGO"))
        .env("CARGO_TARGET_DIR", dir.path().join("target"));
    for name in ["CARGO_TERM_COLOR", "TARPON_SEEDS_FACTOR", "PROPTEST_RNG_SEED", "FUZZ_SECONDS"] {
        command.env_remove(name);
    }
    command
}

/// Runs a command to its end. Returns its status and its output, standard error last.
fn ended(command: &mut Command) -> (i32, String) {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let writing = WRITING.lock().unwrap();
    // `spawn` returns after the exec.
    let child = command.spawn().unwrap();
    drop(writing);
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let output = [stdout, stderr].concat();
    (status.code().expect("a status"), String::from_utf8(output).unwrap())
}

/// Returns the operands of each call of apt-get.
fn calls(dir: &TempDir) -> Vec<String> {
    let calls = fs::read_to_string(dir.path().join("stubs/calls")).unwrap_or_default();
    calls.lines().map(str::to_owned).collect()
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn script(path: &Path, text: &str) {
    write(path, text);
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
