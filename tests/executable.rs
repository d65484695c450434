//! Executables with an embedded site, and mapped archives that are truncated or replaced.

use crate::common::{
    ENGINES,
    client::TestClient,
    program::{RunningProgram, serve, tarpon},
    site, wait_for,
};
use std::{
    ffi::OsStr,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use tempfile::TempDir;

#[test]
fn executable_serves_inspects_verifies_and_extracts_its_site() {
    let (dir, out) = (site(&contents()), crate::common::readable_dir());
    let program = packed(&dir, &out, &["--executable"]);
    for engine in ENGINES {
        for preload in [&[][..], &["--preload"]] {
            let mut command = Command::new(&program);
            command.args(["--listen", "127.0.0.1:0", "--engine", engine.name()]).args(preload);
            let running = RunningProgram::start_ready(command);
            assert_served(&mut TestClient::connect(running.address()));
        }
    }
    // The ordinary program uses the executable as an archive.
    let running = RunningProgram::start_ready(serve(&program, &[]));
    assert_served(&mut TestClient::connect(running.address()));
    for arguments in [&["inspect", "mysite"][..], &["verify", "mysite"]] {
        let ended = RunningProgram::run(tarpon(arguments.iter().map(|word| match *word {
            "mysite" => program.as_os_str(),
            word => word.as_ref(),
        })));
        assert!(ended.status.success(), "{}", ended.err);
    }
    let of = |arguments: &[&str]| RunningProgram::run(command(&program, arguments));
    assert!(of(&["inspect"]).out.contains("/middle.txt"));
    assert!(of(&["verify"]).out.contains("is valid"));
    assert!(of(&["serve"]).err.contains("unrecognized subcommand"));
    for help in ["--help", "-h"] {
        let help = of(&[help]).out;
        assert!(help.starts_with("Serves the embedded site"), "{help}");
    }

    let mut extract = command(&program, &["extract"]).stdout(Stdio::piped()).spawn().unwrap();
    let tar = Command::new("tar")
        .args(["-x", "-C"])
        .arg(out.path())
        .stdin(extract.stdout.take().unwrap())
        .status()
        .unwrap();
    assert!(extract.wait().unwrap().success() && tar.success());
    for (name, content) in contents() {
        assert_eq!(fs::read_to_string(out.path().join(name)).unwrap(), content);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn program_has_its_static_probes() {
    let program = fs::read(tarpon([OsStr::new("--version")]).get_program()).unwrap();
    for name in ["connection_open", "bytes_received", "bytes_sent", "connection_close"] {
        // As the notes of the program have them.
        let note = format!("tarpon\0{name}\0");
        assert!(program.windows(note.len()).any(|bytes| bytes == note.as_bytes()), "{name}");
    }
}

#[test]
fn contents_of_an_executable_are_reused() {
    let (dir, out) = (site(&contents()), tempfile::tempdir().unwrap());
    let program = packed(&dir, &out, &["--executable"]);
    let archive = |name: &str, reuse: Option<&Path>| {
        let path = out.path().join(name);
        let mut command = tarpon([OsStr::new("pack"), dir.path().as_os_str()]);
        command.args(["--effort", "fast", "-o"]).arg(&path);
        if let Some(reuse) = reuse {
            command.arg("--reuse").arg(reuse);
        }
        let ended = RunningProgram::run(command);
        assert!(ended.status.success(), "{ended:?}");
        (fs::read(path).unwrap(), ended.out + &ended.err)
    };
    let ((fresh, _), (reused, output)) = (archive("fresh.tar", None), archive("reused.tar", Some(&program)));
    assert!(fresh == reused, "{output}");
    assert!(output.contains("reused") && !output.contains("compressing everything"), "{output}");

    // An executable at the output is reused too.
    let before = fs::read(&program).unwrap();
    let mut command = tarpon([OsStr::new("pack"), dir.path().as_os_str()]);
    command.args(["--effort", "fast", "--executable", "-o"]).arg(&program);
    let ended = RunningProgram::run(command);
    assert!(ended.out.contains("reused") && ended.out.contains("  the program\n"), "{ended:?}");
    assert!(ended.out.contains("no file changed since the previous archive; same size"), "{ended:?}");
    assert!(fs::read(&program).unwrap() == before);
}

#[test]
fn truncated_executable_has_no_site() {
    let (dir, out) = (site(&contents()), crate::common::readable_dir());
    let program = packed(&dir, &out, &["--executable"]);
    let whole = fs::metadata(&program).unwrap().len();
    File::options().write(true).open(&program).unwrap().set_len(whole - 1).unwrap();
    // The executable behaves like the plain program.
    let ended = RunningProgram::run(command(&program, &["--version"]));
    assert!(ended.out.starts_with("tarpon "), "{}", ended.out);
    let ended = RunningProgram::run(serve(&program, &[]));
    assert!(ended.err.contains("not a tar archive"), "{}", ended.err);
}

#[test]
fn directory_can_be_preloaded() {
    let dir = site(&contents());
    for engine in ENGINES {
        let program =
            RunningProgram::start_ready(serve(dir.path(), &["--preload", "--engine", engine.name()]));
        // Preloading includes large files.
        let large = File::options().write(true).open(dir.path().join("large.txt")).unwrap();
        large.set_len(10).unwrap();
        let large = TestClient::connect(program.address()).get("/large.txt").content.len();
        assert!([10, 300_000].contains(&large), "{engine}: neither the old nor the new file");
        fs::write(dir.path().join("large.txt"), "large ".repeat(50_000)).unwrap();
    }
}

#[test]
fn truncated_archive_aborts_responses_until_it_is_replaced() {
    let (dir, out) = (site(&contents()), crate::common::readable_dir());
    for engine in ENGINES {
        for first in ["/small.txt", "/middle.txt", "/large.txt", "/missing", "/"] {
            let archive = packed(&dir, &out, &[]);
            let program =
                RunningProgram::start_ready(serve(&archive, &["--engine", engine.name(), "--workers", "1"]));
            let mut steady = TestClient::connect(program.address());
            assert_eq!(steady.get("/missing").status, 404);
            File::options().write(true).open(&archive).unwrap().set_len(0).unwrap();
            for target in [first, "/small.txt", "/missing"] {
                let mut client = TestClient::connect(program.address());
                client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
                assert!(client.try_response().is_err(), "{engine}: {target}: a complete response");
            }
            // A valid archive replaces the empty one.
            packed(&dir, &out, &[]);
            // Each worker receives the new site separately.
            let mut client = wait_for("the new site", || {
                let mut client = TestClient::connect(program.address());
                client.send("GET /small.txt HTTP/1.1\r\nHost: a\r\n\r\n");
                client.try_response().is_ok_and(|response| response.status == 200).then_some(client)
            });
            assert_served(&mut client);
        }
    }
}

#[track_caller]
fn assert_served(client: &mut TestClient) {
    for (name, content) in contents() {
        assert!(client.get(&format!("/{name}")).content == content.as_bytes(), "{name}");
    }
    assert_eq!(client.get("/missing").status, 404);
}

/// Returns files that the server copies, gathers, and sends from a descriptor.
fn contents() -> [(&'static str, String); 4] {
    [
        ("index.html", "<title>x</title>".to_owned()),
        ("small.txt", "small ".repeat(20)),
        ("middle.txt", "middle ".repeat(1_200)),
        ("large.txt", "large ".repeat(50_000)),
    ]
}

fn packed(dir: &TempDir, out: &TempDir, options: &[&str]) -> PathBuf {
    let target = out.path().join("mysite");
    let mut command =
        tarpon(["pack".as_ref(), dir.path().as_os_str(), "--output".as_ref(), target.as_os_str()]);
    let ended = RunningProgram::run({
        command.args(["--effort", "fast"]).args(options);
        command
    });
    assert!(ended.status.success(), "{}", ended.err);
    target
}

fn command(program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}
