//! docs/guides/a-fleet.md: three servers get a release all or none.

use super::{block, blocks, hosts::RemoteHosts, replaced};
use crate::common::{
    client::TestClient,
    program::{RunningProgram, serve_config},
    readable_dir, wait_for, write_files,
};
use std::process::Output;

const NAMES: [&str; 3] = ["web1", "web2", "web3"];

#[test]
fn release_reaches_all_hosts_or_none() {
    let scripts = blocks("a-fleet", "sh");
    let deploy = scripts.iter().find(|text| text.starts_with("#!/bin/sh\n")).expect("the script");
    assert!(scripts.iter().any(|text| text.contains("./deploy 2026-11-21.tar web1 web2 web3\n")));
    let dir = readable_dir();
    let hosts = RemoteHosts::new(dir.path(), &NAMES);
    for (number, name) in ["one", "two"].iter().enumerate() {
        write_files(dir.path(), &[(format!("public{number}/index.html"), name)]);
        let packed = hosts.run("tarpon pack \"public$1\" -o \"$2.tar\"", &[&number.to_string(), name], &[]);
        assert!(packed.status.success(), "{packed:?}");
    }
    let run = |release: &str, variables: &[(&str, &str)]| -> Output {
        hosts.run(deploy, &[&[release], &NAMES[..]].concat(), variables)
    };
    let first = run("one.tar", &[]);
    assert!(first.status.success(), "{first:?}");

    let served: Vec<_> = NAMES
        .iter()
        .map(|name| {
            let at = hosts.of(name);
            let config = replaced(&block("a-fleet", "toml"), "/srv/example", at.to_str().expect("UTF-8"));
            let config = replaced(&config, "\"80\"", "\"127.0.0.1:0\"");
            RunningProgram::start_ready(serve_config(&config, &at, &[]))
        })
        .collect();
    let all_serve = |text: &str| {
        for program in &served {
            wait_for(text, || {
                (TestClient::connect(program.address()).get("/").content == text.as_bytes()).then_some(())
            });
        }
    };
    let current = |name: &str| std::fs::read_link(hosts.of(name).join("current")).expect("a link");
    all_serve("one");

    let damaged = run("two.tar", &[("DAMAGING", "web3")]);
    assert!(!damaged.status.success(), "{damaged:?}");
    assert!(NAMES.iter().all(|name| current(name).ends_with("one.tar")), "{damaged:?}");

    let failed = run("two.tar", &[("FAILING", "web3")]);
    let err = String::from_utf8_lossy(&failed.stderr);
    assert!(err.contains("web3 did not activate two.tar: the hosts before it go back\n"), "{err}");
    assert!(!failed.status.success());
    assert!(NAMES.iter().all(|name| current(name).ends_with("one.tar")), "{failed:?}");
    all_serve("one");

    let second = run("two.tar", &[]);
    assert!(second.status.success(), "{second:?}");
    all_serve("two");
}
