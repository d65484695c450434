//! Runs tests of this binary again while the server injects faults by seed: `src/sys/inject`.
//!
//! `TARPON_SEEDS_FACTOR` multiplies the seeds, and adds the tests that take longer.

use super::ENGINE;
use crate::common::{
    faults::{COUNTS_VARIABLE, FAULTS_VARIABLE, counts, seeds},
    seeds_factor,
};
use std::{env, process::Command};
use tarpon::Engine;
use tempfile::NamedTempFile;

/// Seeds in one run of the tests.
const SEED_COUNT: u64 = 1;

/// Tests whose clients must not notice a fault, and which take less than a second.
const TESTS: &[&str] = &[
    "close::client_that_shuts_down_sending",
    "close::requests_after_the_keepalive_limit",
    "close::response_to_oversized_content",
    "hosts::each_site",
    "hosts::unknown_hosts",
    "paths",
];

/// All tests whose clients must not notice a fault.
const ALL_TESTS: &[&str] = &["close", "hosts", "paths", "reload"];

/// A stop of io_uring waits for receives that have bytes. In the other engines EAGAIN at the stop means that no request has arrived.
const STOP_TEST: &str = "stop::stop_serves_requests_that_have_arrived";

/// They keep a connection idle. With `fork`, idle connections give way while no process can start.
const IDLE_TESTS: &[&str] = &["close::reset_in_any_state", "close::requests_after_the_keepalive_limit"];

#[test]
fn tests_pass_with_faults() {
    if env::var_os(FAULTS_VARIABLE).is_some() {
        // This is such a run.
        return;
    }
    let module = format!("serve_{}", ENGINE.name().replace('-', "_"));
    let full_name = |test: &&str| format!("{module}::serve::{test}");
    let mut tests: Vec<String> =
        if seeds_factor() > 1 { ALL_TESTS } else { TESTS }.iter().map(full_name).collect();
    if ENGINE == Engine::IoUring {
        tests.push(full_name(&STOP_TEST));
    }
    if ENGINE == Engine::Fork {
        tests.extend(IDLE_TESTS.iter().flat_map(|test| ["--skip".to_owned(), full_name(test)]));
    }
    for seed in seeds(SEED_COUNT) {
        let counted = NamedTempFile::new().expect("a file");
        let mut run = Command::new(env::current_exe().expect("this program"));
        run.args(&tests).env(FAULTS_VARIABLE, seed.to_string()).env(COUNTS_VARIABLE, counted.path());
        let run = run.output().expect("a run of the tests");
        let out = [run.stdout, run.stderr].concat();
        let out = String::from_utf8_lossy(&out);
        let replay = format!("{FAULTS_VARIABLE}={seed} cargo test --test all -- {}", tests.join(" "));
        assert!(run.status.success(), "{out}\nreplay it with: {replay}");
        let counts = counts(counted.path());
        assert!(counts.values().sum::<u64>() > 0, "no faults: {counts:?}");
    }
}
