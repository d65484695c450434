//! A site in a tar archive gets the responses of its directory, whichever program wrote the archive.

use crate::common::{
    ENGINES,
    client::{TestClient, get},
    endpoint::{Endpoint, TestTls},
    program::{ProgramExit, RunningProgram, serve, tarpon},
    site, wait_for,
};
use std::{
    fs::{self, File},
    io::ErrorKind,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};
use tarpon::Engine;
use tempfile::TempDir;

/// Programs that write archives. `{tar}` stands for the archive, `{dir}` for the directory.
const WRITERS: &[(&str, &[&str])] = &[
    ("GNU tar", &["tar", "-cf", "{tar}", "-C", "{dir}", "."]),
    ("GNU tar, pax", &["tar", "--format=posix", "-cf", "{tar}", "-C", "{dir}", "."]),
    ("GNU tar, ustar", &["tar", "--format=ustar", "-cf", "{tar}", "-C", "{dir}", "."]),
    ("GNU tar, v7", &["tar", "--format=v7", "-cf", "{tar}", "-C", "{dir}", "."]),
    ("bsdtar", &["bsdtar", "-cf", "{tar}", "-C", "{dir}", "."]),
    ("bsdtar, pax", &["bsdtar", "--format", "pax", "-cf", "{tar}", "-C", "{dir}", "."]),
    ("bsdtar, GNU", &["bsdtar", "--format", "gnutar", "-cf", "{tar}", "-C", "{dir}", "."]),
    ("GNU tar, gzip", &["tar", "-czf", "{tar}", "-C", "{dir}", "."]),
    ("GNU tar, zstd", &["tar", "--zstd", "-cf", "{tar}", "-C", "{dir}", "."]),
    ("tarfile, pax", &["python3", "-c", TARFILE, "{tar}", "{dir}", "1", "2"]),
    ("tarfile, GNU", &["python3", "-c", TARFILE, "{tar}", "{dir}", "1"]),
];

/// The number of further arguments is the format: `tarfile.USTAR_FORMAT` is 0, `GNU_FORMAT` 1, `PAX_FORMAT` 2.
const TARFILE: &str = "import sys, tarfile; to = tarfile.open(sys.argv[1], 'w', format=len(sys.argv) - 3); \
    to.add(sys.argv[2], arcname='.'); to.close()";

#[test]
fn archive_gets_the_responses_of_its_directory() {
    let dir = small_site();
    let temp = crate::common::readable_dir();
    // The long name does not fit in these two formats.
    let short = |name: &str| name.ends_with("ustar") || name.ends_with("v7");
    let tls = TestTls::new();
    for engine in ENGINES {
        let options = ["--engine", engine.name(), "--workers", "1"];
        for (name, command) in WRITERS {
            let long = dir.path().join("n".repeat(120));
            let moved = short(name).then(|| fs::rename(&long, temp.path().join("moved")).unwrap());
            let archive = temp.path().join("site.tar");
            write_archive(command, &archive, dir.path());
            let (from_dir, from_tar) = (
                RunningProgram::start_ready(serve(dir.path(), &options)),
                RunningProgram::start_ready(tls.serve(&archive, &options)),
            );
            let mut one = TestClient::connect(from_dir.address());
            // The transport does not depend on which program has written the archive, but on whether it is mapped or unpacked.
            let count = if ["GNU tar", "GNU tar, gzip"].contains(name) { 4 } else { 1 };
            let endpoints = tls.endpoints_with_http2(*engine, &from_tar.addresses());
            let mut others: Vec<_> = endpoints.iter().take(count).map(Endpoint::connect).collect();
            for target in targets() {
                let mut is_coded = false;
                for range in ["", "Range: bytes=2-\r\n", "Range: bytes=20-90, 0-9, -5\r\n"] {
                    let request =
                        format!("GET {target} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n{range}\r\n");
                    let ask = |client: &mut TestClient| {
                        client.send(&request);
                        client.response()
                    };
                    let want = ask(&mut one);
                    for (other, endpoint) in others.iter_mut().zip(&endpoints) {
                        let (got, place) = (ask(other), format!("{engine}, {endpoint}, {name}: {target}"));
                        assert_eq!(got.head_without_date(), want.head_without_date(), "{place}");
                        assert!(got.content == want.content, "{place}");
                    }
                    is_coded |= want.head.contains("Content-Encoding: gzip");
                }
                assert_eq!(is_coded, ["/middle.txt", "/hard.txt"].contains(&&*target), "{name}: {target}");
            }
            drop((from_dir, from_tar));
            if moved.is_some() {
                fs::rename(temp.path().join("moved"), &long).unwrap();
            }
        }
    }
}

#[test]
fn replaced_archive_is_served_and_an_incomplete_one_is_refused() {
    let (old, new) = (site(&[("index.html", "old")]), site(&[("index.html", "new")]));
    let temp = crate::common::readable_dir();
    let (archive, next) = (temp.path().join("site.tar"), temp.path().join("next"));
    write_archive(WRITERS[0].1, &archive, old.path());
    let program = RunningProgram::start_ready(serve(&archive, &[]));
    let mut client = TestClient::connect(program.address());
    assert_eq!(client.get("/").content, b"old");

    write_archive(WRITERS[0].1, &next, new.path());
    let whole = fs::read(&next).unwrap();
    let half = temp.path().join("half");
    fs::write(&half, &whole[..1024]).unwrap();
    fs::rename(&half, &archive).unwrap();
    wait_for("a warning", || program.err().contains("the archive is truncated").then_some(()));
    assert_eq!(client.get("/").content, b"old");

    fs::rename(&next, &archive).unwrap();
    wait_for("the new site", || (client.get("/").content == b"new").then_some(()));
}

#[test]
fn archive_behind_a_link_is_reloaded_when_either_is_replaced() {
    let [old, new, newest] = ["old", "new", "newest"].map(|content| site(&[("index.html", content)]));
    let (temp, releases) = (crate::common::readable_dir(), crate::common::readable_dir());
    let release = |name: &str, dir: &TempDir| {
        let (next, archive) = (releases.path().join("next"), releases.path().join(name));
        write_archive(WRITERS[0].1, &next, dir.path());
        fs::rename(next, &archive).unwrap();
        archive
    };
    let link = temp.path().join("site.tar");
    symlink(release("1.tar", &old), &link).unwrap();
    let program = RunningProgram::start_ready(serve(&link, &[]));
    let mut client = TestClient::connect(program.address());
    assert_eq!(client.get("/").content, b"old");

    release("1.tar", &new);
    wait_for("the new archive", || (client.get("/").content == b"new").then_some(()));

    let next = temp.path().join("next");
    symlink(release("2.tar", &newest), &next).unwrap();
    fs::rename(next, link).unwrap();
    wait_for("the new link", || (client.get("/").content == b"newest").then_some(()));
}

#[test]
fn truncated_archive_aborts_responses_until_it_is_replaced() {
    let tls = TestTls::new();
    let dir = site(&[("a.txt", "small".repeat(100)), ("large.bin", "large".repeat(1 << 20))]);
    let temp = crate::common::readable_dir();
    let (archive, next) = (temp.path().join("site.tar"), temp.path().join("next"));
    for engine in ENGINES {
        // With sorted names, `a.txt` lies before the truncation and `large.bin` across it.
        let write = |to: &Path| {
            let command = Command::new("tar")
                .args(["--sort=name", "-cf"])
                .arg(to)
                .arg("-C")
                .arg(dir.path())
                .arg(".")
                .status();
            assert!(command.expect("tar").success());
        };
        write(&archive);
        let program = RunningProgram::start_ready(tls.serve(&archive, &["--engine", engine.name()]));
        let endpoints = tls.endpoints(&program.addresses());
        let mut clients = endpoints.each_ref().map(Endpoint::connect);
        for client in &mut clients {
            assert_eq!(client.get("/large.bin").content.len(), 5 << 20);
        }

        let file = File::options().write(true).open(&archive).unwrap();
        file.set_len(file.metadata().unwrap().len() / 2).unwrap();
        for (client, endpoint) in clients.iter_mut().zip(&endpoints) {
            assert_aborted(client, endpoint, "/large.bin", engine);
        }
        wait_for("a warning", || program.err().contains("the archive is truncated").then_some(()));
        for endpoint in &endpoints {
            assert_eq!(
                endpoint.connect().get("/a.txt").content,
                "small".repeat(100).as_bytes(),
                "{endpoint}"
            );
        }

        write(&next);
        fs::rename(&next, &archive).unwrap();
        wait_for("the new site", || {
            let mut client = TestClient::connect(program.address());
            client.send("GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
            client.try_response().is_ok_and(|response| response.content.len() == 5 << 20).then_some(())
        });
    }
}

#[test]
fn emptied_archive_aborts_responses_of_every_size_and_the_server_survives() {
    let tls = TestTls::new();
    // Without TLS the server copies the first file into the response, gathers the second, and sends the third from its descriptor.
    let contents = [("small.txt", 100), ("middle.txt", 8 << 10), ("large.txt", 64 << 10)];
    let dir = crate::common::readable_dir();
    for (name, len) in contents {
        fs::write(dir.path().join(name), "x".repeat(len)).unwrap();
    }
    let temp = crate::common::readable_dir();
    let (archive, next) = (temp.path().join("site.tar"), temp.path().join("next"));
    for engine in ENGINES {
        // Each time the first response after the truncation has another size, without TLS and with it.
        for (first, is_tls_first) in (0..contents.len()).flat_map(|first| [(first, false), (first, true)]) {
            write_archive(WRITERS[0].1, &archive, dir.path());
            let options = ["--engine", engine.name(), "--workers", "1"];
            let program = RunningProgram::start_ready(tls.serve(&archive, &options));
            let mut endpoints = tls.endpoints(&program.addresses());
            if is_tls_first {
                // TLS 1.2 for the response that is copied otherwise, and TLS 1.3.
                endpoints.rotate_left(if first == 0 { 2 } else { 1 });
            }
            let mut steady = endpoints.each_ref().map(Endpoint::connect);
            steady.iter_mut().for_each(|client| assert_eq!(client.get("/missing").status, 404));
            for ((name, len), endpoint) in contents.iter().zip(&endpoints) {
                assert_eq!(endpoint.connect().get(&format!("/{name}")).content.len(), *len);
            }
            File::options().write(true).open(&archive).unwrap().set_len(0).unwrap();
            for endpoint in &endpoints {
                for (name, _) in contents.iter().cycle().skip(first).take(contents.len()) {
                    assert_aborted(&mut endpoint.connect(), endpoint, &format!("/{name}"), engine);
                }
            }
            for client in &mut steady {
                assert_eq!(client.get("/missing").status, 404, "{engine}: an earlier connection");
            }

            write_archive(WRITERS[0].1, &next, dir.path());
            fs::rename(&next, &archive).unwrap();
            wait_for("the new site", || {
                let mut client = TestClient::connect(program.address());
                client.send("GET /small.txt HTTP/1.1\r\nHost: a\r\n\r\n");
                client.try_response().is_ok().then_some(())
            });
        }
    }
}

#[test]
fn archive_truncated_within_a_file_sends_no_zeros() {
    let tls = TestTls::new();
    let dir = crate::common::readable_dir();
    // The server copies the first file into the response, and gathers the second.
    let temp = site(&[("site/small.txt", "x".repeat(2_000)), ("site/then.txt", "y".repeat(8 << 10))]);
    let archive = dir.path().join("site.tar");
    for engine in ENGINES {
        // The number of the endpoint: TLS 1.2 for one of the files, and TLS 1.3 for the other.
        let firsts =
            [("small.txt", b'x', 0), ("then.txt", b'y', 0), ("small.txt", b'x', 1), ("then.txt", b'y', 2)];
        for (name, byte, number) in firsts {
            write_archive(WRITERS[0].1, &archive, &temp.path().join("site"));
            let options = ["--engine", engine.name(), "--workers", "1"];
            let program = RunningProgram::start_ready(tls.serve(&archive, &options));
            let at =
                fs::read(&archive).unwrap().windows(100).position(|window| window == [byte; 100]).unwrap();
            File::options().write(true).open(&archive).unwrap().set_len(at as u64 + 100).unwrap();
            let endpoint = &tls.endpoints(&program.addresses())[number];
            assert_aborted(&mut endpoint.connect(), endpoint, &format!("/{name}"), engine);
        }
    }
}

/// Requests a file whose bytes are missing. With TLS, the connection must not end as if the response were whole.
#[track_caller]
fn assert_aborted(client: &mut TestClient, endpoint: &Endpoint, target: &str, engine: &Engine) {
    client.send(get(target));
    let error = client.try_response().expect_err("the response is aborted");
    let ends = endpoint.has_tls() && error.kind() == ErrorKind::UnexpectedEof;
    assert!(
        !ends,
        "{engine}, {endpoint}: {target}: the server announces the end of a response that it has cut"
    );
}

#[test]
fn unusable_archive_fails_with_a_hint() {
    let temp = site(&[("text.tar", "this is no archive"), ("dir/a", "x")]);
    let at = |name: &str| temp.path().join(name);
    write_archive(WRITERS[0].1, &at("site.tar"), &at("dir"));
    File::create(at("dir/hole")).unwrap().set_len(1 << 20).unwrap();
    let sparse = |name: &str, format: &str| {
        let tar = Command::new("tar")
            .args(["-S", format, "-cf"])
            .arg(at(name))
            .arg("-C")
            .arg(at("dir"))
            .arg(".")
            .status();
        assert!(tar.expect("tar").success());
    };
    sparse("sparse.tar", "--format=gnu");
    sparse("sparse-pax.tar", "--format=posix");
    for (name, command) in [("cut.tar.gz", WRITERS[7].1), ("cut.tar.zst", WRITERS[8].1)] {
        write_archive(command, &at(name), &at("dir"));
        let whole = fs::read(at(name)).unwrap();
        fs::write(at(name), &whole[..whole.len() / 2]).unwrap();
    }
    File::create(at("empty.tar")).unwrap();
    fs::write(at("openssl.tar"), b"Salted__\x01\x02\x03\x04").unwrap();
    fs::write(at("age.tar"), b"age-encryption.org/v1\n-> X25519").unwrap();
    fs::write(at("site.tar.xz"), b"\xfd7zXZ\0\0\x04").unwrap();
    #[rustfmt::skip]
    let cases: &[(&str, &[&str], &str)] = &[
        ("empty.tar",      &[],                "not a tar archive, at byte 0; name a directory or a tar archive"),
        ("openssl.tar",    &[],                "it is encrypted; decrypt it, and serve the tar archive in it"),
        ("age.tar",        &[],                "it is encrypted; decrypt it, and serve the tar archive in it"),
        ("site.tar.xz",    &[],                "it is compressed with xz; compress it with gzip or zstd instead"),
        ("text.tar",       &[],                "not a tar archive, at byte 0; name a directory or a tar archive"),
        ("sparse.tar",     &[],                "./hole; create it again without --sparse"),
        ("sparse-pax.tar", &[],                "sparse members are not supported"),
        ("cut.tar.gz",     &[],                "it is incomplete or damaged, and cannot be unpacked"),
        ("cut.tar.zst",    &[],                "it is incomplete or damaged, and cannot be unpacked"),
        ("site.tar",       &["--prefix", "b"], "the archive has no such directory; see tar -tf for those it has"),
        ("dir",            &["--prefix", "b"], "it is not an archive; leave --prefix out"),
        ("missing.tar",    &[],                "it does not exist; name a directory or tar archive"),
    ];
    for (name, options, want) in cases {
        let ended = RunningProgram::run(serve(&at(name), options));
        assert!(!ended.status.success() && ended.err.contains(want), "{name}: {}", ended.err);
    }
}

#[test]
fn compressed_archive_unpacks_up_to_its_limit() {
    let dir = site(&[("index.html", "home"), ("zeros", &"\0".repeat(3 << 20))]);
    let temp = crate::common::readable_dir();
    let at = |name: &str| temp.path().join(name);
    let packed =
        tarpon(["pack".as_ref(), dir.path().as_os_str(), "-o".as_ref(), at("packed.tar").as_os_str()]);
    assert!(RunningProgram::run(packed).status.success());
    for (name, program) in [("packed.tar.gz", &["gzip", "-k"][..]), ("packed.tar.zst", &["zstd", "-q", "-k"])]
    {
        let done = Command::new(program[0]).args(&program[1..]).arg(at("packed.tar")).status();
        assert!(done.expect("a program").success() && at(name).exists());
    }
    for (name, command) in [("site.tar.gz", WRITERS[7].1), ("site.tar.zst", WRITERS[8].1)] {
        write_archive(command, &at(name), dir.path());
    }
    let error = "it unpacks to more than 3MiB, in memory; raise --max-unpacked-size, or unpack it on disk, and name the archive \
                or directory";
    let (too_small, large_enough) = (["--max-unpacked-size", "3MiB"], ["--max-unpacked-size", "4MiB"]);
    for name in ["site.tar.gz", "site.tar.zst", "packed.tar.gz", "packed.tar.zst"] {
        assert!(at(name).metadata().unwrap().len() < 100_000, "{name}");
        let refused = |ended: ProgramExit| {
            assert_eq!(ended.status.code(), Some(1), "{name}: {ended:?}");
            // A program that takes long also prints its progress.
            let last = ended.err.lines().last().map(str::to_owned);
            assert_eq!(last, Some(format!("tarpon: cannot open {}: {error}", at(name).display())));
        };
        refused(RunningProgram::run(serve(&at(name), &too_small)));
        let program = RunningProgram::start_ready(serve(&at(name), &large_enough));
        assert_eq!(TestClient::connect(program.address()).get("/").content, b"home", "{name}");
        let on_archive = |words: &[&str], options: &[&str]| {
            let mut command = tarpon(words.iter().chain(options).map(AsRef::as_ref));
            command.arg(at(name));
            RunningProgram::run(command)
        };
        let packing =
            ["pack", "-o", at("again.tar").to_str().unwrap(), "--effort", "fast"].map(str::to_owned);
        let packing = packing.each_ref().map(|word| &**word);
        let mut commands = vec![&packing[..]];
        if name.starts_with("packed") {
            commands.extend([&["inspect"][..], &["verify"]]);
        }
        for command in commands {
            refused(on_archive(command, &too_small));
            let ended = on_archive(command, &large_enough);
            assert!(ended.status.success(), "{name}: {command:?}: {ended:?}");
        }
    }
    // The same limit in a configuration.
    fs::write(at("tarpon.toml"), "[[site]]\npath = \"site.tar.gz\"\nmax-unpacked-size = \"3MiB\"\n").unwrap();
    let mut command =
        tarpon(["serve", "--listen", "127.0.0.1:0", "--admin", "off", "--config"].map(AsRef::as_ref));
    command.arg(at("tarpon.toml"));
    assert!(RunningProgram::run(command).err.contains(error));
}

/// Makes a site: pages, a large and an empty file, a compressed form, links, a long name, and a name that is not ASCII.
fn small_site() -> TempDir {
    let large = "0123456789".repeat(50_000);
    let middle = "middle ".repeat(3_000);
    let dir = site(&[
        ("index.html", "<!doctype html><title>x</title>"),
        ("guide/index.html", "guide"),
        ("guide/style.css", "p{}"),
        ("empty", ""),
        ("largest.bin", &large),
        ("middle.txt", &middle),
        ("gr\u{fc}n.txt", "umlaut"),
        (".env", "secret"),
        (&long_name(), "long"),
    ]);
    symlink("guide", dir.path().join("link")).unwrap();
    symlink("../empty", dir.path().join("guide/up")).unwrap();
    symlink("/etc/passwd", dir.path().join("out")).unwrap();
    fs::hard_link(dir.path().join("middle.txt"), dir.path().join("hard.txt")).unwrap();
    fs::write(dir.path().join("middle.txt.gz"), b"\x1f\x8b\x08 in few bytes").unwrap();
    symlink("middle.txt.gz", dir.path().join("hard.txt.gz")).unwrap();
    dir
}

fn long_name() -> String {
    format!("{0}/{0}/long.txt", "n".repeat(120))
}

fn targets() -> Vec<String> {
    let mut targets: Vec<_> = [
        "/",
        "/index.html",
        "/guide",
        "/guide/",
        "/guide/style.css",
        "/empty",
        "/largest.bin",
        "/middle.txt",
        "/gr%C3%BCn.txt",
        "/.env",
        "/link",
        "/link/",
        "/link/style.css",
        "/guide/up",
        "/out",
        "/hard.txt",
        "/middle.txt.gz",
        "/missing",
    ]
    .map(str::to_owned)
    .into();
    targets.push(format!("/{}", long_name()));
    targets
}

fn write_archive(command: &[&str], to: &Path, dir: &Path) {
    let argument = |word: &&str| match *word {
        "{tar}" => to.to_owned(),
        "{dir}" => dir.to_owned(),
        word => PathBuf::from(word),
    };
    let words: Vec<_> = command.iter().map(argument).collect();
    let output =
        Command::new(&words[0]).args(&words[1..]).output().expect("an archiver is missing: run tests/setup");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
