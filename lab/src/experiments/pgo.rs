//! A profile-guided build: tarpon is built with counters, put under load, and built again by what was counted.
//!
//! ```text
//! cargo build with counters ─▶ races, sites, TLS ─▶ llvm-profdata merge ─▶ cargo build by the counts ─▶ race with the usual build
//! ```
//!
//! The server ends in a sandbox in which it cannot write a file, so the counters lie in a file that it maps from the start on.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use crate::error::LabError;
use crate::servers::programs::run_command;

/// Options of `tarpon-lab pgo`.
#[derive(Args)]
pub(crate) struct PgoArgs {
    /// Build in this directory
    #[arg(long, value_name = "DIR", default_value = "target/pgo")]
    dir: PathBuf,
    /// Write the numbers of the race between both builds to this file, as JSON
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Compare with this build of tarpon [default: the program next to tarpon-lab]
    #[arg(long, value_name = "PATH")]
    tarpon: Option<PathBuf>,
}

/// Builds tarpon by a profile, and races it with the usual build.
pub(crate) fn run(args: &PgoArgs) -> Result<(), LabError> {
    let dir = env::current_dir()?.join(&args.dir);
    let (target, profdata) = tools()?;
    let (counts, merged) = (dir.join("counts"), dir.join("merged.profdata"));
    let _ = fs::remove_dir_all(&counts);
    fs::create_dir_all(&counts)?;
    let program = |build: &str| dir.join(build).join(&target).join("release/tarpon");

    let counting = format!("-Cprofile-generate={} -Cllvm-args=-runtime-counter-relocation", counts.display());
    build(&dir.join("counting"), &target, &counting)?;
    // `%c`: the counters are mapped. All processes of a server share the mapping.
    let file = counts.join("tarpon-%m%c.profraw");
    for load in LOADS {
        let mut race = Command::new(env::current_exe()?);
        race.args(load.split(' ')).arg("--tarpon").arg(program("counting")).env("LLVM_PROFILE_FILE", &file);
        run_command(&mut race)?;
    }
    run_command(Command::new(profdata).arg("merge").arg("--output").arg(&merged).arg(&counts))?;
    build(&dir.join("guided"), &target, &format!("-Cprofile-use={}", merged.display()))?;
    println!("built: {}", program("guided").display());

    let before = match &args.tarpon {
        Some(path) => path.clone(),
        None => env::current_exe()?.with_file_name("tarpon"),
    };
    let mut race = Command::new(env::current_exe()?);
    race.args(RACE.split(' ')).arg("--before").arg(before).arg("--tarpon").arg(program("guided"));
    if let Some(out) = &args.out {
        race.arg("--out").arg(out);
    }
    run_command(&mut race)
}

/// Builds tarpon with these flags. They do not count for programs that run during the build, as a target is given.
fn build(dir: &Path, target: &str, flags: &str) -> Result<(), LabError> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut build = Command::new(cargo);
    build.args([
        "build",
        "--release",
        "--locked",
        "--package",
        "tarpon",
        "--bin",
        "tarpon",
        "--target",
        target,
    ]);
    run_command(build.arg("--target-dir").arg(dir).env("RUSTFLAGS", flags))
}

/// Returns the name of this system for rustc, and the program that merges profiles.
fn tools() -> Result<(String, PathBuf), LabError> {
    let rustc = |argument: &[&str]| -> Result<String, LabError> {
        let output =
            Command::new("rustc").args(argument).output().map_err(|error| format!("rustc: {error}"))?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let version = rustc(&["-vV"])?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).ok_or("rustc -vV: no host")?;
    let tool =
        Path::new(&rustc(&["--print", "sysroot"])?).join(format!("lib/rustlib/{host}/bin/llvm-profdata"));
    match tool.exists() {
        true => Ok((host.to_owned(), tool)),
        false => Err("llvm-profdata is not installed: rustup component add llvm-tools".into()),
    }
}

/// What is counted: the usual requests of a site, on both engines of Linux.
const LOADS: [&str; 6] = [
    "race --rounds 1 --seconds 1 --only tarpon-uring,tarpon-epoll,tarpon-epoll-packed --request browser",
    "race --rounds 1 --seconds 1 --only tarpon-uring,tarpon-epoll --size 1024,65536,1048576",
    "race --rounds 1 --seconds 1 --only tarpon-uring,tarpon-epoll --request conditional",
    "race --rounds 1 --seconds 1 --only tarpon-uring,tarpon-epoll --request range",
    "race --rounds 1 --seconds 1 --only tarpon-uring,tarpon-epoll --reconnect",
    "race --rounds 1 --seconds 1 --only tarpon-uring,tarpon-epoll --pipeline 16",
];

/// The race between both builds.
const RACE: &str = "race --rounds 5 --seconds 1 --only null-epoll,null-uring,tarpon-uring,tarpon-epoll,before-uring,before-epoll";
