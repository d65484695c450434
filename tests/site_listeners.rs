//! Sites that answer at listeners of their own.

use crate::common::{
    ENGINES,
    client::TestClient,
    port::ReservedPort,
    program::{RunningProgram, serve_config, tarpon},
    site,
};
use std::{ffi::OsStr, fs};
use tempfile::TempDir;

fn dir(name: &str) -> TempDir {
    site(&[("index.html", name.to_owned())])
}

fn get(client: &mut TestClient, host: &str) -> String {
    client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    let response = client.response();
    let content = String::from_utf8_lossy(&response.content).lines().next().unwrap_or_default().to_owned();
    format!("{} {content}", response.status)
}

#[test]
fn site_answers_at_its_listeners_only_on_every_engine() {
    for &engine in ENGINES {
        let [main, staging, shared] = ["main", "staging", "shared"].map(dir);
        let work = crate::common::readable_dir();
        let reserved = ReservedPort::new();
        let config = format!(
            "[[listener]]\naddress = \"127.0.0.1:0\"\n\
             [[site]]\npath = {:?}\nhosts = [\"a.example\"]\ndefault = true\n\
             [[site]]\npath = {:?}\nhosts = [\"a.example\"]\nlisten = [\"127.0.0.1:{port}\", \"unix:staging.sock\"]\n\
             [[site]]\npath = {:?}\nhosts = [\"b.example\"]\nlisten = [\"unix:staging.sock\", \"unix:shared.sock\"]\n",
            main.path(),
            staging.path(),
            shared.path(),
            port = reserved.address.port(),
        );
        let program =
            RunningProgram::start_ready(serve_config(&config, work.path(), &["--engine", engine.name()]));
        let unix = |name: &str| TestClient::connect_unix(&work.path().join(name));
        let addresses = program.addresses();
        assert_eq!(addresses.len(), 2, "{engine}: {addresses:?}");
        #[rustfmt::skip]
        let cases = [
            // listener                                      a.example      b.example      x.example
            ("the others",  TestClient::connect(addresses[0]), ["200 main",    "200 main",    "200 main"]),
            ("TCP",         TestClient::connect(addresses[1]), ["200 staging", "200 staging", "200 staging"]),
            ("two sites",   unix("staging.sock"),              ["200 staging", "200 shared",  "200 staging"]),
            ("the third",   unix("shared.sock"),               ["200 shared",  "200 shared",  "200 shared"]),
        ];
        for (name, mut client, want) in cases {
            let got = ["a.example", "b.example", "x.example"].map(|host| get(&mut client, host));
            assert_eq!(got, want, "{engine}: {name}");
        }
    }
}

#[test]
fn server_has_no_other_listeners_if_each_site_names_its_own() {
    let (main, work, reserved) = (dir("main"), crate::common::readable_dir(), ReservedPort::new());
    let config = format!("[[site]]\npath = {:?}\nlisten = [\"{}\"]\n", main.path(), reserved.address);
    let program = RunningProgram::start_ready(serve_config(&config, work.path(), &[]));
    assert_eq!(program.addresses(), [reserved.address]);
    assert_eq!(get(&mut TestClient::connect(program.address()), "a"), "200 main");
}

#[test]
fn conflicts_count_among_the_sites_of_a_listener() {
    let work = crate::common::readable_dir();
    let site = |options: &str| format!("[[site]]\npath = \".\"\n{options}\n");
    #[rustfmt::skip]
    let cases = [
        // case                        sites                                                                                         error
        ("hosts of another listener",  [site("hosts = [\"a\"]"), site("hosts = [\"a\"]\nlisten = [\":81\"]")],                       None),
        ("hosts of one listener",      [site("hosts = [\"a\"]\nlisten = [\":81\", \":82\"]"), site("hosts = [\"a\"]\nlisten = [\":82\"]")], Some("host a occurs twice")),
        ("mounts of another listener", [site("mount = \"/a\""), site("mount = \"/a\"\nlisten = [\":81\"]")],                        None),
        ("mounts of one listener",     [site("mount = \"/a\"\nlisten = [\":81\"]"), site("mount = \"/a\"\nlisten = [\"0.0.0.0:81\"]")], Some("mount /a of every host occurs twice")),
        ("no request",                 [site("listen = [\":81\"]"), site("listen = [\":81\"]")],                                      Some("no request reaches this site")),
        ("any port",                   [site(""), site("listen = [\"127.0.0.1:0\"]")],                                               Some("port 0 in `listen`")),
    ];
    for (name, sites, want) in cases {
        let file = work.path().join("check.toml");
        fs::write(&file, sites.concat()).expect("a file");
        let check = [OsStr::new("config"), OsStr::new("check"), OsStr::new("--config"), file.as_os_str()];
        let exit = RunningProgram::run(tarpon(check));
        match want {
            None => assert!(
                !exit.err.contains("twice") && !exit.err.contains("no request"),
                "{name}: {}",
                exit.err
            ),
            Some(want) => assert!(exit.err.contains(want), "{name}: {}", exit.err),
        }
    }
}
