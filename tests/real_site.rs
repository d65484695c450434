//! A site that was not made for tests: the documentation of Python, from its Debian package.

use crate::common::{
    ENGINES,
    client::TestClient,
    page::BrowserPage,
    program::{RunningProgram, serve},
};
use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    thread,
};
use tempfile::TempDir;

#[test]
fn every_file_of_the_python_documentation_arrives_unchanged() {
    const CLIENT_COUNT: usize = 4;
    let dir = documentation();
    let mut files = Vec::new();
    list(dir.path(), &mut files);
    assert!(files.len() > 500, "{} files", files.len());
    for_each_source_and_engine(dir.path(), |program| {
        assert!(program.out().contains(&format!(": {} files, ", files.len())), "{}", program.out());
        thread::scope(|scope| {
            for part in files.chunks(files.len().div_ceil(CLIENT_COUNT)) {
                let (root, address) = (dir.path(), program.address());
                scope.spawn(move || compare(root, part, address));
            }
        });
    });
}

#[test]
fn page_of_the_python_documentation_loads_completely_in_a_browser() {
    let dir = documentation();
    for_each_source_and_engine(dir.path(), |program| {
        let url = format!("http://{}/library/functions.html", program.address());
        let page = BrowserPage::load(&url, &[]);
        for resource in &page.resources {
            assert!(
                resource.contains(r#""status": 200"#) && resource.contains(r#""error": null"#),
                "{resource}"
            );
            assert!(resource.contains(&format!(r#""url": "http://{}/"#, program.address())), "{resource}");
        }
        assert_eq!(page.count(&format!(r#""url": "{url}""#)), 1, "{page:?}");
        assert!(page.count(r#""mimeType": "text/css""#) >= 1, "{page:?}");
        assert!(page.count(r#""mimeType": "text/javascript""#) >= 1, "{page:?}");
        assert_eq!(page.errors, "[]");
    });
}

/// Serves the directory, and a tar archive of it, on every engine.
fn for_each_source_and_engine(dir: &Path, check: impl Fn(&RunningProgram)) {
    let place = crate::common::readable_dir();
    let archive = place.path().join("site.tar");
    let tar = Command::new("tar").arg("-cf").arg(&archive).arg("-C").arg(dir).arg(".").status();
    assert!(tar.expect("tar").success());
    for source in [dir, &archive] {
        for engine in ENGINES {
            // The test harness shows it if the test fails.
            println!("{source:?} on {}", engine.name());
            check(&RunningProgram::start_ready(serve(source, &["--engine", engine.name()])));
        }
    }
}

/// Requests each file on one connection, and compares the content.
fn compare(root: &Path, files: &[PathBuf], address: SocketAddr) {
    let mut client = TestClient::connect(address);
    for file in files {
        let path = file.strip_prefix(root).unwrap().to_str().expect("a name in UTF-8");
        let content = fs::read(file).unwrap();
        let response = client.get(&format!("/{}", escaped(path)));
        assert_eq!(response.status, 200, "{path}");
        assert_eq!(response.field("Content-Length"), Some(&*content.len().to_string()), "{path}");
        assert!(response.content == content, "{path}");
        if let Some(dir) = path.strip_suffix("index.html")
            && (dir.is_empty() || dir.ends_with('/'))
        {
            assert!(client.get(&format!("/{}", escaped(dir))).content == content, "{dir}");
        }
    }
}

/// Percent-encodes a path.
fn escaped(path: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(byte);
    path.bytes()
        .map(|byte| if plain(&byte) { (byte as char).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// Copies the documentation without symbolic links, as some lead to other packages.
fn documentation() -> TempDir {
    let packages = fs::read_dir("/usr/share/doc").expect("a Debian system: run tests/setup");
    let mut dirs: Vec<PathBuf> = packages.map(|entry| entry.unwrap().path().join("html")).collect();
    dirs.retain(|dir| {
        dir.to_string_lossy().contains("/python3") && dir.join("library/functions.html").is_file()
    });
    let from = dirs.first().expect("the package python3-doc is missing: run tests/setup");
    let to = crate::common::readable_dir();
    let status = Command::new("cp").arg("-rL").arg(from.join(".")).arg(to.path()).status().expect("cp");
    assert!(status.success(), "cp: {status}");
    to
}

/// Appends all files that the program serves: all but dotfiles.
fn list(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match () {
            () if path.file_name().unwrap().to_string_lossy().starts_with('.') => {}
            () if path.is_dir() => list(&path, files),
            () => files.push(path),
        }
    }
}
