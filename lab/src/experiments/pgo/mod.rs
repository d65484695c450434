//! A profile-guided build: the compiler lays out and inlines code by what ran under load.
//!
//! ```text
//! build with counters ─▶ training: clients, packing ─▶ llvm-profdata ─▶ profile ─▶ build with the profile
//! ```
//!
//! The compiler counts only what it compiles: not the C code of aws-lc, zstd and libdeflate. It makes code that no training runs short and slow.
//! `tarpon-lab race --before` then compares the builds.
//!
//! | file | content |
//! |---|---|
//! | `toolchain.rs` | builds of tarpon, and the profile that llvm-profdata makes |
//! | `training.rs` | the loads |
//! | `write_profile.c` | writes the counters of a process that ends by `_exit` |

mod toolchain;
mod training;

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use self::toolchain::{ProfileSummary, Toolchain};
use super::options::parse_seconds;
use crate::error::LabError;
use crate::format::thousands;

/// Options of `tarpon-lab pgo`.
#[derive(Args)]
pub(crate) struct PgoArgs {
    /// Write the program, its profile and the files of both builds to this directory
    #[arg(long, value_name = "DIR", default_value = "target/pgo")]
    out: PathBuf,
    /// Build for this target, whose programs this machine runs [default: that of the compiler]
    #[arg(long, value_name = "TRIPLE")]
    target: Option<String>,
    /// Make the profile, and not the program that is built with it
    #[arg(long)]
    profile_only: bool,
    /// Send the requests of each load for this long
    #[arg(long, default_value_t = 1.0, value_parser = parse_seconds)]
    seconds: f64,
}

/// Builds tarpon with counters, trains that program, and builds tarpon with the profile. Runs in the directory of the source.
pub(crate) fn run(args: &PgoArgs) -> Result<(), LabError> {
    fs::create_dir_all(&args.out).map_err(|error| format!("{}: {error}", args.out.display()))?;
    let files = PgoFiles { directory: args.out.canonicalize()? };
    let toolchain = Toolchain::find(args.target.clone())?;
    let instrumented = files.directory.join("tarpon-instrumented");
    fs::copy(toolchain.build_with_counters(&files)?, &instrumented)?;

    files.remove_counters()?;
    training::train(&instrumented, &files, args.seconds)?;
    toolchain.merge(&files)?;
    for crate_name in SERVING_CRATES {
        let summary = toolchain.summary(&files, crate_name)?;
        println!("{crate_name}: {summary}");
        summary.expect_load(crate_name)?;
    }
    files.remove_counters()?;
    if args.profile_only {
        println!("{}", files.profile().display());
        return Ok(());
    }

    let program = files.directory.join("tarpon-pgo");
    fs::copy(toolchain.build_with_profile(&files)?, &program)?;
    println!("{}\nTo compare it with the usual build:", program.display());
    println!("tarpon-lab race --tarpon {} --before target/release/tarpon", program.display());
    Ok(())
}

/// The files of a profile-guided build, below one directory.
struct PgoFiles {
    directory: PathBuf,
}

impl PgoFiles {
    /// Returns the directory of the files that cargo makes: one for both builds.
    fn build(&self) -> PathBuf {
        self.directory.join("build")
    }

    /// Returns the directory of counters of processes that ended by `_exit`: those that serve, and read the site.
    fn serving(&self) -> PathBuf {
        self.directory.join("counters/serving")
    }

    /// Returns the directory of counters of processes that returned from `main`: the first one of a server, and those that pack.
    fn packing(&self) -> PathBuf {
        self.directory.join("counters/packing")
    }

    /// Returns the file of the profile.
    fn profile(&self) -> PathBuf {
        self.directory.join("tarpon.profdata")
    }

    /// Removes all counters, and creates their directories.
    fn remove_counters(&self) -> Result<(), LabError> {
        for directory in [self.serving(), self.packing()] {
            if directory.exists() {
                fs::remove_dir_all(&directory)?;
            }
            fs::create_dir_all(directory)?;
        }
        Ok(())
    }
}

/// Returns how many files a directory has.
fn file_count(directory: &Path) -> Result<usize, LabError> {
    Ok(fs::read_dir(directory)?.count())
}

/// The crates that answer requests.
const SERVING_CRATES: [&str; 2] = ["tarpon_conn", "tarpon_http"];

impl ProfileSummary {
    /// Fails if a training that sends hundreds of thousands of requests can not have run this code.
    fn expect_load(&self, crate_name: &str) -> Result<(), LabError> {
        match self.count_max {
            count if count >= COUNT_MIN => Ok(()),
            count => Err(format!(
                "{crate_name}: no code ran more than {} times in the training; the profile has no load",
                thousands(count as usize)
            )
            .into()),
        }
    }
}

/// The least count of the hottest code: a fraction of the requests of the shortest useful training.
const COUNT_MIN: u64 = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_without_load_is_refused() {
        for (count_max, want) in [(0, false), (COUNT_MIN - 1, false), (COUNT_MIN, true)] {
            let summary = ProfileSummary { function_count: 1, count_max };
            assert_eq!(summary.expect_load("a").is_ok(), want, "{count_max}");
        }
    }

    #[test]
    fn counters_of_an_earlier_training_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let files = PgoFiles { directory: directory.path().to_owned() };
        for _ in 0..2 {
            files.remove_counters().unwrap();
            assert_eq!(file_count(&files.serving()).unwrap(), 0);
            fs::write(files.serving().join("1.profraw"), "").unwrap();
        }
    }
}
