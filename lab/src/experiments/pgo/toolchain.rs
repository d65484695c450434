//! The builds of tarpon, and the profile between them.

use std::env;
use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::PgoFiles;
use crate::error::LabError;
use crate::format::thousands;
use crate::servers::programs::run_command;

/// The compiler, and its program for profiles.
pub(super) struct Toolchain {
    /// The target of builds, named so that cargo builds neither build scripts nor procedural macros with these flags.
    target: String,
    profdata: PathBuf,
}

/// What ran of a crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProfileSummary {
    /// Functions with a part that ran.
    pub(super) function_count: usize,
    /// How often the hottest part of a function ran.
    pub(super) count_max: u64,
}

impl Toolchain {
    /// Finds the compiler of the PATH, whose own target is the default. Fails if llvm-profdata is not installed.
    pub(super) fn find(target: Option<String>) -> Result<Toolchain, LabError> {
        let version = rustc(&["-vV"])?;
        let host = version.lines().find_map(|line| line.strip_prefix("host: "));
        let host = host.ok_or("`rustc -vV` names no host")?.to_owned();
        let sysroot = rustc(&["--print", "sysroot"])?;
        let profdata =
            PathBuf::from(sysroot.trim()).join("lib/rustlib").join(&host).join("bin/llvm-profdata");
        if !profdata.exists() {
            let hint = "install it with `rustup component add llvm-tools`";
            return Err(format!("{}: no such program; {hint}", profdata.display()).into());
        }
        Ok(Toolchain { target: target.unwrap_or(host), profdata })
    }

    /// Builds tarpon with counters, which each process writes as it ends. Returns the program.
    pub(super) fn build_with_counters(&self, files: &PgoFiles) -> Result<PathBuf, LabError> {
        let (source, object) =
            (files.directory.join("write_profile.c"), files.directory.join("write_profile.o"));
        fs::write(&source, WRITE_PROFILE)?;
        let directory = format!("-DPROFILE_DIRECTORY=\"{}\"", files.serving().display());
        let mut compile = Command::new("cc");
        compile.args(["-O2", "-c", &directory, "-o"]).arg(&object).arg(&source);
        run_command(&mut compile)
            .map_err(|error| format!("{error}; install a C compiler (Debian: gcc libc6-dev)"))?;
        let flags = [
            format!("-Cprofile-generate={}", files.packing().display()),
            format!("-Clink-arg={}", object.display()),
            "-Clink-arg=-Wl,--wrap=_exit".to_owned(),
        ];
        self.build(files, &flags)
    }

    /// Builds tarpon with the profile. Returns the program.
    pub(super) fn build_with_profile(&self, files: &PgoFiles) -> Result<PathBuf, LabError> {
        self.build(files, &[format!("-Cprofile-use={}", files.profile().display())])
    }

    fn build(&self, files: &PgoFiles, flags: &[String]) -> Result<PathBuf, LabError> {
        let flags = env::var("RUSTFLAGS").into_iter().chain(flags.iter().cloned()).collect::<Vec<_>>();
        let mut cargo = Command::new("cargo");
        cargo.args(["build", "--release", "--locked", "--package=tarpon", "--bin=tarpon"]);
        cargo.arg(format!("--target={}", self.target)).arg("--target-dir").arg(files.build());
        // An incremental build divides a crate into parts that are optimised apart.
        run_command(cargo.env("CARGO_INCREMENTAL", "0").env("RUSTFLAGS", flags.join(" ")))?;
        Ok(files.build().join(&self.target).join("release/tarpon"))
    }

    /// Makes the profile from all counters.
    pub(super) fn merge(&self, files: &PgoFiles) -> Result<(), LabError> {
        let mut merge = Command::new(&self.profdata);
        merge.args(["merge", "--sparse", "--output"]).arg(files.profile());
        merge.arg(format!("--weighted-input={SERVING_WEIGHT},{}", files.serving().display()));
        run_command(merge.arg(files.packing()))
    }

    /// Returns what ran of a crate.
    pub(super) fn summary(&self, files: &PgoFiles, crate_name: &str) -> Result<ProfileSummary, LabError> {
        let mut show = Command::new(&self.profdata);
        show.args(["show", "--counts", &format!("--function={crate_name}")]).arg(files.profile());
        let output = show.output()?;
        if !output.status.success() {
            return Err(format!("llvm-profdata: {}", String::from_utf8_lossy(&output.stderr).trim()).into());
        }
        Ok(ProfileSummary::parse(&String::from_utf8_lossy(&output.stdout)))
    }
}

impl ProfileSummary {
    /// Reads the counts of all functions that `llvm-profdata show --counts` prints.
    fn parse(text: &str) -> ProfileSummary {
        let counts = text.lines().filter_map(|line| line.trim().strip_prefix("Block counts: ["));
        let hottest = counts.map(|counts| {
            let counts = counts.trim_end_matches(']').split(", ");
            counts.filter_map(|count| count.parse().ok()).max().unwrap_or(0)
        });
        let ran = hottest.filter(|count| *count > 0).collect::<Vec<u64>>();
        ProfileSummary { function_count: ran.len(), count_max: ran.into_iter().max().unwrap_or(0) }
    }
}

impl fmt::Display for ProfileSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (functions, count) = (thousands(self.function_count), thousands(self.count_max as usize));
        write!(f, "{functions} functions ran, the hottest part {count} times")
    }
}

fn rustc(arguments: &[&str]) -> Result<String, LabError> {
    let output = Command::new("rustc").args(arguments).output();
    let output = output.map_err(|error| format!("rustc: {error}; install it with rustup"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Writes the counters of a process that ends by `_exit`.
const WRITE_PROFILE: &str = include_str!("write_profile.c");

/// How much more a run of code counts while serving than while packing. Code is hot if it has a share of all counts, and a site is packed once.
const SERVING_WEIGHT: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_functions_are_read() {
        let text = "\
            Counters:\n  \
              _RNvCs1_11tarpon_conn3run:\n    Hash: 0x0a\n    Counters: 3\n    Block counts: [0, 1234567, 12]\n  \
              _RNvCs1_11tarpon_conn4idle:\n    Hash: 0x0b\n    Counters: 2\n    Block counts: [0, 0]\n  \
              _RNvCs1_11tarpon_conn5close:\n    Hash: 0x0c\n    Counters: 1\n    Block counts: [7]\n\
            Instrumentation level: IR\nFunctions shown: 3\n";
        let summary = ProfileSummary::parse(text);
        assert_eq!(summary, ProfileSummary { function_count: 2, count_max: 1_234_567 });
        assert_eq!(summary.to_string(), "2 functions ran, the hottest part 1,234,567 times");
        assert_eq!(ProfileSummary::parse(""), ProfileSummary { function_count: 0, count_max: 0 });
    }

    #[test]
    fn forked_process_that_ends_by_exit_writes_a_file_of_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::create_dir(path("serving")).unwrap();
        fs::write(path("write_profile.c"), WRITE_PROFILE).unwrap();
        fs::write(path("main.c"), FORKING_PROGRAM).unwrap();
        let built = Command::new("cc")
            .arg(format!("-DPROFILE_DIRECTORY=\"{}\"", path("serving").display()))
            .args(["-Wl,--wrap=_exit", "-o"])
            .arg(path("main"))
            .args([path("main.c"), path("write_profile.c")])
            .status();
        assert!(built.unwrap().success());
        let child = Command::new(path("main")).output().unwrap();
        let child = String::from_utf8(child.stdout).unwrap();
        let files: Vec<_> =
            fs::read_dir(path("serving")).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(files, [path("serving").join(format!("{}.profraw", child.trim()))]);
        assert_eq!(fs::read(&files[0]).unwrap(), b"counters");
    }

    /// A program that prints the number of its child, which ends by `_exit`. It has functions of the runtime that stand for those of LLVM.
    const FORKING_PROGRAM: &str = r#"
        #include <stdio.h>
        #include <sys/wait.h>
        #include <unistd.h>
        static const char *file;
        void __llvm_profile_set_filename(const char *name) { file = name; }
        int __llvm_profile_write_file(void) {
            FILE *out = fopen(file, "w");
            fputs("counters", out);
            return fclose(out);
        }
        int main(void) {
            int child = fork(), status = 0;
            if (child == 0) _exit(3);
            waitpid(child, &status, 0);
            printf("%d\n", child);
            return WEXITSTATUS(status) == 3 ? 0 : 1;
        }
    "#;
}
