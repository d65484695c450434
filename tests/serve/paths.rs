//! Paths outside of the site and hidden files are not served, in any spelling.

use super::serve;
use crate::common::{
    client::{TestClient, get},
    program::RunningProgram,
    site,
};
use std::{fs, os::unix::fs::symlink};

#[test]
fn files_outside_the_site_and_hidden_files_get_404() {
    let outer = site(&[("secret", "secret"), ("site/index.html", "home"), ("site/.hidden/file", "secret")]);
    let dir = outer.path().join("site");
    fs::write(dir.join(".env"), "secret").unwrap();
    symlink("/etc/passwd", dir.join("passwd")).unwrap();
    symlink("/etc", dir.join("etc")).unwrap();
    symlink("..", dir.join("up")).unwrap();
    symlink("../secret", dir.join("link")).unwrap();
    let program = RunningProgram::start_ready(serve(&dir, &[]));
    let mut client = TestClient::connect(program.address());
    for target in [
        "/../secret",
        "/../../../../../../../../etc/passwd",
        "/%2e%2e/secret",
        "/%2E%2E/%2e%2e/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
        "/..%2fsecret",
        "/..%2Fsecret",
        "/..%5csecret",
        "/..\\secret",
        "/.%2e/secret",
        "/%252e%252e/secret",
        "/x/../../secret",
        "/./../secret",
        "//etc/passwd",
        "/etc/passwd",
        "/%2fetc%2fpasswd",
        "/etc",
        "/passwd",
        "/link",
        "/up/secret",
        "/up/",
        "/.env",
        "/%2eenv",
        "/.hidden/file",
        "/.hidden/",
        "/index.html%00.txt",
        "/index.html/",
        "/index.html/../../secret",
        "http://localhost/../secret",
    ] {
        let response = client.get(target);
        assert_eq!(response.status, 404, "{target}");
        assert!(!response.content.windows(6).any(|window| window == b"secret"), "{target}");
    }
    assert_eq!(client.get("/").content, b"home");
}

#[test]
fn target_without_a_leading_slash_gets_400() {
    let dir = site(&[("index.html", "home")]);
    let program = RunningProgram::start_ready(serve(dir.path(), &[]));
    for target in ["../secret", "index.html", "file:///etc/passwd", "..", "%2fetc/passwd"] {
        let mut client = TestClient::connect(program.address());
        client.send(get(target));
        assert_eq!(client.response().status, 400, "{target}");
        assert_eq!(client.read_to_end(), b"", "{target}");
    }
}
