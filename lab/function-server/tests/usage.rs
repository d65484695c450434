//! The program says how it is used. With this test cargo builds the program beside the other tests, and those of the lab find it.

use std::process::Command;

#[test]
fn wrong_arguments_fail_with_the_usage() {
    for arguments in [&[][..], &["127.0.0.1:0"], &["127.0.0.1:0", "poll", "more"]] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_tarpon-function-server")).args(arguments).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && message.contains("ADDRESS ENGINE"), "{arguments:?}: {message}");
    }
}
