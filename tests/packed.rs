//! Packed sites with the program: `pack`, `serve`, `inspect` and `verify`, and the files that an interrupted `pack` leaves.

use crate::common::{
    ENGINES,
    client::TestClient,
    distinct_bytes,
    endpoint::TestTls,
    program::{ProgramExit, RunningProgram, serve, tarpon, wrap_command},
    site, wait_for,
};
use rustix::{
    fs::{CWD, FileType, Mode, mknodat},
    process::Signal,
};
use std::{
    ffi::OsStr,
    fs,
    os::unix::{
        fs::{chown, symlink},
        process::ExitStatusExt,
    },
    path::Path,
    process::Command,
};
use tempfile::TempDir;

#[test]
fn packed_site_gets_the_responses_of_its_directory() {
    let (dir, out) = (small_site(), out());
    let archive = out.path().join("site.tar");
    let ended = RunningProgram::run(pack(dir.path(), &archive, &[]));
    assert!(ended.status.success(), "{ended:?}");
    assert!(ended.out.contains("from 6 files"), "{ended:?}");
    let tls = TestTls::new();
    for engine in ENGINES {
        let options = ["--engine", engine.name(), "--workers", "1"];
        let from_dir = RunningProgram::start_ready(serve(dir.path(), &options));
        let from_archive = RunningProgram::start_ready(tls.serve(&archive, &options));
        let endpoints = tls.endpoints_with_http2(*engine, &from_archive.addresses());
        let mut clients = [TestClient::connect(from_dir.address()), endpoints[0].connect()];
        let mut others: Vec<_> =
            endpoints[1..].iter().map(|endpoint| (endpoint, endpoint.connect())).collect();
        for target in
            ["/", "/index.html", "/guide", "/guide/", "/large.css", "/link.css", "/picture.png", "/missing"]
        {
            let [want, got] = clients.each_mut().map(|client| client.get(target));
            assert_eq!(got.head.lines().next(), want.head.lines().next(), "{target}");
            assert!(got.content == want.content, "{target}");
            let is_coded = ["/", "/index.html", "/guide/", "/large.css", "/link.css"].contains(&target);
            for (coding, decoder) in [("gzip", ["gzip", "-dc"]), ("zstd", ["zstd", "-dc"])] {
                let request =
                    format!("GET {target} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {coding}\r\n\r\n");
                clients[1].send(&request);
                let got = clients[1].response();
                for (endpoint, client) in &mut others {
                    client.send(&request);
                    let response = client.response();
                    assert_eq!(
                        response.head_without_date(),
                        got.head_without_date(),
                        "{engine}, {endpoint}: {target}"
                    );
                    assert!(response.content == got.content, "{engine}, {endpoint}: {target}");
                }
                let field = format!("Content-Encoding: {coding}\r\n");
                assert_eq!(got.head.contains(&field), is_coded, "{target}: {}", got.head);
                let plain = if is_coded { decoded(decoder, &got.content, out.path()) } else { got.content };
                assert!(plain == want.content, "{target}, {coding}");
            }
        }
    }
}

/// The second build has another owner of the files, umask, time zone, locale and home, one core, and a directory filled in reverse order.
#[test]
fn packed_site_does_not_depend_on_the_environment_of_the_build() {
    let (dir, out) = (small_site(), out());
    let (here, there) = (out.path().join("here.tar"), out.path().join("there.tar"));
    assert!(RunningProgram::run(pack(dir.path(), &here, &[])).status.success());

    let copy = TempDir::new().unwrap();
    copy_backwards(dir.path(), copy.path());
    let one_core = "umask 027; exec taskset -c $(taskset -cp $$ | sed 's/.*: //; s/[-,].*//') \"$@\"";
    let mut elsewhere = wrap_command(&["sh", "-c", one_core, "sh"], &pack(copy.path(), &there, &[]));
    elsewhere.env("TZ", "Asia/Tokyo").env("LC_ALL", "tr_TR.UTF-8").env("HOME", "/");
    let ended = RunningProgram::run(elsewhere);
    assert!(ended.status.success(), "{ended:?}");
    assert!(fs::read(here).unwrap() == fs::read(there).unwrap());
}

/// Copies a tree in reverse order, and gives the copies to another user if the test may do so.
fn copy_backwards(from: &Path, to: &Path) {
    let mut names: Vec<_> = fs::read_dir(from).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort_unstable_by(|one, other| other.cmp(one));
    for name in names {
        let (from, to) = (from.join(&name), to.join(&name));
        let meta = fs::symlink_metadata(&from).unwrap();
        if meta.is_symlink() {
            symlink(fs::read_link(&from).unwrap(), &to).unwrap();
            continue;
        }
        if meta.is_dir() {
            fs::create_dir(&to).unwrap();
            copy_backwards(&from, &to);
        } else {
            fs::copy(&from, &to).unwrap();
        }
        let _ = chown(&to, Some(4_321), Some(4_321));
        fs::set_permissions(&to, meta.permissions()).unwrap();
        date_as(&from, &to);
    }
    date_as(from, to);
}

fn date_as(from: &Path, to: &Path) {
    let modified = fs::metadata(from).unwrap().modified().unwrap();
    fs::File::open(to).unwrap().set_modified(modified).unwrap();
}

#[test]
fn pack_reads_archives() {
    let (dir, out) = (small_site(), out());
    let (plain, gzip, packed) =
        (out.path().join("a.tar"), out.path().join("a.tar.gz"), out.path().join("site.tar"));
    // The same files, below one more directory.
    for (archive, options) in [(&plain, "-cf"), (&gzip, "-czf")] {
        let name = dir.path().file_name().expect("a name");
        let parent = dir.path().parent().expect("a directory");
        let ran = Command::new("tar").arg(options).arg(archive).arg("-C").arg(parent).arg(name).status();
        assert!(ran.expect("tar").success());
        let prefix = name.to_str().expect("ASCII");
        let ended = RunningProgram::run(pack(archive, &packed, &["--prefix", prefix]));
        assert!(ended.status.success() && ended.out.contains("from 6 files"), "{ended:?}");
        let ended = RunningProgram::run(pack(archive, &packed, &["--prefix", "nowhere"]));
        assert!(ended.error_line().contains("there is no directory nowhere"), "{ended:?}");
    }
}

#[test]
fn source_date_epoch_limits_modification_times() {
    let (dir, out) = (small_site(), out());
    let archives = ["one.tar", "other.tar"].map(|name| out.path().join(name));
    for archive in &archives {
        let mut command = pack(dir.path(), archive, &[]);
        command.env("SOURCE_DATE_EPOCH", "784111777");
        assert!(RunningProgram::run(command).status.success());
        // Written after the epoch.
        fs::write(dir.path().join("picture.png"), distinct_bytes(40_000)).expect("a file");
    }
    assert!(fs::read(&archives[0]).expect("an archive") == fs::read(&archives[1]).expect("an archive"));
    let program = RunningProgram::start_ready(serve(&archives[0], &[]));
    let response = TestClient::connect(program.address()).get("/picture.png");
    assert!(response.head.contains("Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT"), "{}", response.head);

    for value in ["", "soon", "-1", "1.5"] {
        let mut command = pack(dir.path(), &out.path().join("bad.tar"), &[]);
        command.env("SOURCE_DATE_EPOCH", value);
        let ended = RunningProgram::run(command);
        assert!(
            !ended.status.success() && ended.error_line().contains("SOURCE_DATE_EPOCH"),
            "{value}: {ended:?}"
        );
    }
    assert_eq!(fs::read_dir(out.path()).expect("a directory").count(), 2);
}

#[test]
fn interrupted_pack_leaves_no_file() {
    let (dir, out) = (small_site(), out());
    let archive = out.path().join("site.tar");
    fs::write(&archive, "earlier content").expect("a file");
    let intact = |name: &str| {
        let names = fs::read_dir(out.path()).expect("a directory").count();
        assert_eq!(names, 1, "{name}: `pack` leaves a file");
        assert_eq!(fs::read(&archive).expect("a file"), b"earlier content", "{name}");
    };

    // A file may have 20 KiB: a write beyond that fails with the `trap`, and kills the program without it.
    for trap in ["trap '' XFSZ;", ""] {
        let script = format!("{trap} ulimit -f 20; exec \"$0\" \"$@\"");
        let ended =
            RunningProgram::run(wrap_command(&["bash", "-c", &script], &pack(dir.path(), &archive, &[])));
        assert!(!ended.status.success(), "{ended:?}");
        match trap {
            "" => assert_eq!(ended.status.signal(), Some(Signal::XFSZ.as_raw()), "{ended:?}"),
            _ => assert!(last_line(&ended).contains("file too large"), "{ended:?}"),
        }
        intact("RLIMIT_FSIZE");
    }

    // So much text that `pack` compresses until the signal comes.
    let text: Vec<u8> =
        distinct_bytes(3 << 20).iter().flat_map(|byte| format!("{byte} ").into_bytes()).collect();
    fs::write(dir.path().join("long.txt"), text).expect("a file");
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        // A shell starts background jobs with SIGINT ignored, and children inherit that.
        let command = pack(dir.path(), &archive, &["--effort", "best"]);
        let program = RunningProgram::start(wrap_command(&["env", "--default-signal=INT,TERM"], &command));
        wait_for("pack compresses", || program.err().contains("compressing").then_some(()));
        program.signal(signal);
        assert!(!program.wait().status.success());
        intact("a signal");
    }
}

#[test]
fn full_disk_is_an_error_and_leaves_no_file() {
    let (dir, out) = (small_site(), out());
    let archive = out.path().join("site.tar");
    let script = "cd \"$(dirname \"$OUT\")\" && mount -t tmpfs -o size=64k none . && cd \"$PWD\" || exit 77; \
        printf earlier >\"$OUT\"; \"$0\" \"$@\"; code=$?; ls -A; cat \"$OUT\"; exit $code";
    let mut command =
        wrap_command(&["unshare", "-rm", "bash", "-c", script], &pack(dir.path(), &archive, &[]));
    command.env("OUT", &archive);
    let ended = RunningProgram::run(command);
    if ended.status.code() == Some(77) || ended.err.contains("unshare failed") {
        eprintln!("skipped, as this system forbids mounts: {}", ended.err);
        return;
    }
    let message = last_line(&ended);
    assert!(
        message.contains(&archive.display().to_string()) && message.contains("no space left on device"),
        "{ended:?}"
    );
    // The earlier archive is whole, and no other file is there.
    assert_eq!((ended.status.code(), &*ended.out), (Some(1), "site.tar\nearlier"), "{ended:?}");
}

#[test]
fn inspect_shows_what_rules_do() {
    let dir = site(&[
        ("index.html", "home"),
        ("guide/index.html", "guide"),
        (
            "_redirects",
            "/old /new?a=b#c 308\n/gone /index.html 410\n/news/:year/* id=:id /b/:id/:year/:splat#d 302!\n/p n=7 /q\n",
        ),
    ]);
    let out = out();
    let archive = out.path().join("site.tar");
    assert!(RunningProgram::run(pack(dir.path(), &archive, &[])).status.success());
    let (shown, json) = (
        RunningProgram::run(of("inspect", &archive, &[])),
        RunningProgram::run(of("inspect", &archive, &["--json"])),
    );
    #[rustfmt::skip]
    let cases: &[(&[&str], &str)] = &[
        (&["/guide", "301", "->", "/guide/"],           r#""path":"/guide","status":301,"location":"/guide/""#),
        (&["/old", "308", "->", "/new?a=b#c"],          r#""path":"/old","status":308,"location":"/new?a=b#c""#),
        (&["/gone", "410", "text/html;"],               r#""path":"/gone","status":410,"listing":false,"type":"text/html"#),
        (&["/news/:1/*", "id=:3", "302!", "/b/:3/:1/:splat#d"], r#""from":"/news/:1/* id=:3","status":302,"forced":true,"to":"/b/:3/:1/:splat#d""#),
        (&["/p", "n=7", "301", "/q"],                   r#""from":"/p n=7","status":301,"forced":false,"to":"/q""#),
    ];
    for &(words, want) in cases {
        let is_row = |line: &str| {
            line.split_whitespace().zip(words).filter(|(one, other)| one == *other).count() == words.len()
        };
        assert!(shown.out.lines().any(is_row), "{words:?}: {}", shown.out);
        assert!(json.out.contains(want), "{want}: {}", json.out);
    }
}

#[test]
fn last_lines_of_pack_show_the_parts_of_the_archive_and_the_changes() {
    let (dir, out) = (small_site(), out());
    let archive = out.path().join("site.tar");
    let packed = || {
        let ended = RunningProgram::run(pack(dir.path(), &archive, &[]));
        assert!(ended.status.success(), "{ended:?}");
        ended
    };
    let first = packed();
    let parts = [
        "files, as tar extracts them",
        "compressed forms of files",
        "copies of files up to 16 KiB, beside their response headers",
        "response headers, index, tar headers, and padding",
    ];
    for part in parts {
        assert!(first.out.lines().any(|line| line.ends_with(part)), "{part}: {}", first.out);
    }
    assert!(!first.out.contains("the previous archive") && !first.out.contains("reused"), "{}", first.out);
    let unchanged = packed();
    assert!(
        unchanged.out.contains("no file changed since the previous archive; same size"),
        "{}",
        unchanged.out
    );
    assert!(!unchanged.err.contains("warning"), "{}", unchanged.err);

    fs::write(dir.path().join("new.bin"), distinct_bytes(50_000)).expect("a file");
    fs::write(dir.path().join("index.html"), "<p>hello, world".repeat(100)).expect("a file");
    fs::remove_file(dir.path().join("robots.txt")).expect("a file");
    let changed = packed();
    let lines: Vec<_> =
        changed.out.lines().skip_while(|line| !line.contains("since the previous archive")).collect();
    #[rustfmt::skip]
    assert_eq!(lines[1..], [
        "    +48.8 KiB  1 file added",
        "    -14 bytes  1 file removed",
        "   +750 bytes  1 file changed",
        "  largest growth:",
        "    +48.8 KiB  /new.bin",
        "   +750 bytes  /index.html",
    ]);
    assert!(lines[0].ends_with(" larger:"), "{}", lines[0]);
    assert!(
        changed.out.lines().all(|line| line.starts_with('/') || line.chars().count() <= 80),
        "{}",
        changed.out
    );

    // `pack` reports once an archive that it cannot use, and replaces it.
    let bytes = fs::read(&archive).expect("an archive");
    for (content, want) in [("a letter", "it is not a packed site"), ("", "")] {
        fs::write(&archive, content).expect("a file");
        let ended = packed();
        let warnings: Vec<_> = ended.err.lines().filter(|line| line.starts_with("warning")).collect();
        assert_eq!(warnings.len(), usize::from(!want.is_empty()), "{ended:?}");
        assert!(warnings.iter().all(|line| line.contains(want)), "{ended:?}");
        assert!(fs::read(&archive).expect("an archive") == bytes);
    }
}

#[test]
fn inspect_shows_a_packed_site_and_verify_checks_it() {
    let (dir, out) = (small_site(), out());
    let archive = out.path().join("site.tar");
    assert!(RunningProgram::run(pack(dir.path(), &archive, &[])).status.success());

    let shown = RunningProgram::run(of("inspect", &archive, &[]));
    let row = shown.out.lines().find(|line| line.starts_with("/picture.png ")).expect("a row");
    assert!(row.contains("image/png") && row.contains("40000"), "{row}");
    assert!(shown.out.lines().any(|line| line.trim_end().ends_with("-> /guide/")), "{shown:?}");

    // On a terminal of 80 columns no line wraps.
    let script = "import fcntl, os, pty, struct, sys, termios\n\
        master, slave = pty.openpty()\n\
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 80, 0, 0))\n\
        if os.fork() == 0:\n    os.dup2(slave, 1)\n    os.execv(sys.argv[1], sys.argv[1:])\n\
        os.close(slave)\n\
        try:\n    while chunk := os.read(master, 4096): os.write(1, chunk)\n\
        except OSError: pass";
    let ended = RunningProgram::run(wrap_command(&["python3", "-c", script], &of("inspect", &archive, &[])));
    let shown = anstream::adapter::strip_str(&ended.out).to_string();
    assert!(shown.lines().count() > 4 && shown.contains("/picture.png"), "{ended:?}");
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");

    // A closed pipe is no error, and a full disk is one.
    for (script, want) in
        [("\"$0\" \"$@\" | true", ""), ("\"$0\" \"$@\" > /dev/full", "cannot write to standard output")]
    {
        let script = format!("set -o pipefail; {script}");
        let ended =
            RunningProgram::run(wrap_command(&["bash", "-c", &script], &of("inspect", &archive, &[])));
        assert_eq!(
            (ended.status.code(), ended.err.lines().count()),
            (Some(i32::from(!want.is_empty())), usize::from(!want.is_empty())),
            "{ended:?}"
        );
        assert!(ended.err.contains(want), "{ended:?}");
    }

    let json = RunningProgram::run(of("inspect", &archive, &["--json"]));
    let file = out.path().join("site.json");
    fs::write(&file, &json.out).expect("a file");
    let script = "import json, sys; site = json.load(open(sys.argv[1])); \
        print(*[f['coding'] for p in site['paths'] if p['path'] == '/large.css' for f in p['forms']])";
    let read = Command::new("python3").args(["-c", script]).arg(&file).output().expect("python3");
    assert_eq!(String::from_utf8_lossy(&read.stdout).trim(), "identity br gzip zstd", "{read:?}");

    let good = RunningProgram::run(of("verify", &archive, &[]));
    assert!(good.status.success() && good.out.contains("is valid"), "{good:?}");
    let mut bytes = fs::read(&archive).expect("an archive");
    let at = bytes.windows(6).position(|window| window == b"hello,").expect("the page");
    bytes[at] ^= 1;
    fs::write(&archive, &bytes).expect("a file");
    let bad = RunningProgram::run(of("verify", &archive, &[]));
    assert!(!bad.status.success() && bad.err.contains("/ (identity): the content is damaged"), "{bad:?}");

    bytes.pop();
    fs::write(&archive, &bytes).expect("a file");
    let fifo = out.path().join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR, 0).expect("a FIFO");
    for command in ["verify", "inspect"] {
        let cut = RunningProgram::run(of(command, &archive, &[]));
        assert!(!cut.status.success() && cut.error_line().contains("cut short"), "{cut:?}");
        for other in [dir.path(), &fifo] {
            let none = RunningProgram::run(of(command, other, &[]));
            assert!(!none.status.success() && none.error_line().contains("cannot open"), "{none:?}");
        }
    }
}

/// Makes a site: a page, a page in a directory, a large text and a link to it, a picture, and a file too small to compress.
fn small_site() -> TempDir {
    let text: Vec<u8> =
        distinct_bytes(20_000).iter().flat_map(|byte| format!(".c{byte}{{}}\n").into_bytes()).collect();
    let dir = site::<&str, Vec<u8>>(&[
        ("index.html", "<p>hello, world".repeat(50).into()),
        ("guide/index.html", "<p>a guide".repeat(50).into()),
        ("large.css", text),
        ("picture.png", distinct_bytes(40_000)),
        ("robots.txt", "User-agent: *\n".into()),
    ]);
    symlink("large.css", dir.path().join("link.css")).expect("a link");
    dir
}

fn out() -> TempDir {
    crate::common::readable_dir()
}

/// Returns a `tarpon pack`, with `--effort fast` unless the options have another.
fn pack(path: &Path, archive: &Path, options: &[&str]) -> Command {
    let mut command = of("pack", path, options);
    command.arg("-o").arg(archive).env_remove("SOURCE_DATE_EPOCH");
    if !options.contains(&"--effort") {
        command.args(["--effort", "fast"]);
    }
    command
}

fn of(action: &str, path: &Path, options: &[&str]) -> Command {
    let mut command = tarpon([OsStr::new(action), path.as_os_str()]);
    command.args(options);
    command
}

/// Returns the line with the error; the lines before it show the progress.
fn last_line(ended: &ProgramExit) -> &str {
    ended.err.lines().last().unwrap_or_default()
}

/// Decodes content with another program.
fn decoded([program, option]: [&str; 2], coded: &[u8], dir: &Path) -> Vec<u8> {
    let file = dir.join("coded");
    fs::write(&file, coded).expect("a file");
    let input = fs::File::open(&file).expect("a file");
    let output = Command::new(program).arg(option).stdin(input).output().expect(program);
    assert!(output.status.success(), "{program}: {output:?}");
    output.stdout
}
