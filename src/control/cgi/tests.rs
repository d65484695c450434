//! The helper in a thread, and a worker that may send it anything: nothing but the programs of its mounts can be reached.

use super::{
    helper::CgiHelper,
    request::CgiRequest,
    resolve::{Distrust, resolve},
    service::{CgiMount, CgiMountKind},
    stats::CgiStats,
};
use crate::{
    base::cgi_config::CgiConfig,
    control::metrics::CgiMetrics,
    data::services::{ServiceEndpoint, endpoints},
};
use std::{
    fs::{self, File},
    io::{Read, Write},
    os::{
        fd::AsFd,
        unix::{
            fs::{PermissionsExt, symlink},
            net::UnixStream,
        },
    },
    path::Path,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};
use tarpon_conn::{FRAME_PREFIX_LEN, FrameKind, FramePrefix, MessageFields, MessageFieldsWriter};

/// A helper that runs in a thread until it is dropped.
struct RunningHelper {
    dir: tempfile::TempDir,
    workers: ServiceEndpoint,
    supervisor: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
    stats: Arc<CgiStats>,
}

/// The answer of the helper to a request.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    /// A status, and the content.
    Response(u16, String),
    Aborted(u16),
    Closed,
}

impl RunningHelper {
    /// Starts a helper with a mount for the directory `bin` and one for the programs of the directory `site`.
    fn start(config: CgiConfig) -> RunningHelper {
        let dir = tempfile::tempdir().unwrap();
        for name in ["bin/deep", "site/.hidden", "other"] {
            fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        let program = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'; env; ls /proc/self/fd; cat\n";
        for path in [
            "bin/a",
            "bin/deep/a",
            "bin/nph-a",
            "bin/.a",
            "site/a.cgi",
            "site/a.sh",
            "other/a",
            "site/.hidden/a.cgi",
        ] {
            write_program(&dir.path().join(path), program);
        }
        symlink("a", dir.path().join("bin/link")).unwrap();
        symlink("../other", dir.path().join("bin/dir-link")).unwrap();
        fs::write(dir.path().join("bin/text"), "text").unwrap();
        write_program(&dir.path().join("bin/open"), program);
        fs::set_permissions(dir.path().join("bin/open"), fs::Permissions::from_mode(0o757)).unwrap();
        let mount = |kind, url_prefix: &str, name: &str| CgiMount {
            site: 0,
            kind,
            url_prefix: url_prefix.to_owned(),
            directory: dir.path().join(name),
            document_root: dir.path().join("site"),
            server_name: "example.org".to_owned(),
        };
        let mounts = vec![
            mount(CgiMountKind::Directory("/cgi-bin".parse().unwrap()), "/cgi-bin", "bin"),
            mount(CgiMountKind::Suffix(".cgi".to_owned()), "", "site"),
        ];
        let (workers, helper) = endpoints().unwrap();
        let (supervisor, channel) = UnixStream::pair().unwrap();
        let stats = Arc::new(CgiStats::new().unwrap());
        let of_thread = Arc::clone(&stats);
        let thread = thread::spawn(move || {
            let distrust = Distrust::default();
            CgiHelper::new(&config, &mounts, &distrust, &of_thread, None).run(&helper, channel.as_fd());
        });
        RunningHelper { dir, workers, supervisor: Some(supervisor), thread: Some(thread), stats }
    }

    fn connect(&self, mount: u16) -> UnixStream {
        let (ours, theirs) = UnixStream::pair().unwrap();
        self.workers.pass(&mount.to_le_bytes(), &theirs.into()).unwrap();
        ours
    }

    /// Sends a GET request for a path, and returns the answer.
    fn get(&self, mount: u16, path: &[u8]) -> Answer {
        let mut worker = self.connect(mount);
        let _ = worker.write_all(&[head(path, &[]), frame(FrameKind::End, b"")].concat());
        answer(&mut worker)
    }
}

impl Drop for RunningHelper {
    fn drop(&mut self) {
        drop(self.supervisor.take());
        self.thread.take().unwrap().join().unwrap();
        let CgiMetrics { running, queued, .. } = self.stats.metrics();
        assert_eq!((running, queued), (0, 0), "a helper leaves no program");
    }
}

fn write_program(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn frame(kind: FrameKind, bytes: &[u8]) -> Vec<u8> {
    [&FramePrefix { kind, len: bytes.len() as u32 }.encode()[..], bytes].concat()
}

/// Returns the frame of a head.
fn head(path: &[u8], fields: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut list = [0; 8192];
    let mut writer = MessageFieldsWriter::new(&mut list);
    writer.put(b":method", b"GET").unwrap();
    writer.put(b":path", path).unwrap();
    fields.iter().for_each(|(name, value)| writer.put(name, value).unwrap());
    let len = writer.len();
    frame(FrameKind::Head, &list[..len])
}

/// Reads the frames of an answer.
fn answer(worker: &mut UnixStream) -> Answer {
    let (mut status, mut content) = (0, Vec::new());
    loop {
        let mut prefix = [0; FRAME_PREFIX_LEN];
        if worker.read_exact(&mut prefix).is_err() {
            return Answer::Closed;
        }
        let FramePrefix { kind, len } = FramePrefix::decode(&prefix).unwrap().unwrap();
        let mut bytes = vec![0; len as usize];
        worker.read_exact(&mut bytes).unwrap();
        match kind {
            FrameKind::Head => {
                let list = MessageFields::parse(&bytes).unwrap();
                status = str::from_utf8(list.get(b":status").unwrap()).unwrap().parse().unwrap();
            }
            FrameKind::Data => content.extend(bytes),
            FrameKind::Abort => return Answer::Aborted(u16::from_le_bytes(bytes[..].try_into().unwrap())),
            FrameKind::End => return Answer::Response(status, String::from_utf8(content).unwrap()),
            FrameKind::Interim | FrameKind::Trailers | FrameKind::Redirect => panic!("{kind:?}"),
        }
    }
}

#[test]
fn captured_worker_reaches_the_programs_of_its_mounts_only() {
    let helper = RunningHelper::start(CgiConfig::default());
    // A file that is open in the process of the helper, and inherited by nothing.
    let _open = File::open("/dev/null").unwrap();
    #[rustfmt::skip]
    let cases: &[(&str, u16, &[u8], Option<u16>)] = &[
        // what it tries               mount  path                               refused
        ("a program",                  0,     b"/cgi-bin/a",                     None),
        ("a path behind it",           0,     b"/cgi-bin/deep/a/b/..%2e?x",      None),
        ("a program by suffix",        1,     b"/a.cgi/x",                       None),
        ("dot segments within",        0,     b"/cgi-bin/deep/../a",             None),
        ("out of the mount",           0,     b"/cgi-bin/../other/a",            Some(404)),
        ("escaped",                    0,     b"/cgi-bin/%2e%2e/other/a",        Some(404)),
        ("escaped twice",              0,     b"/cgi-bin/%252e%252e/other/a",    Some(404)),
        ("an escaped slash",           0,     b"/cgi-bin/..%2fother/a",          Some(404)),
        ("NUL",                        0,     b"/cgi-bin/a%00",                  Some(404)),
        ("an absolute path",           0,     b"/bin/sh",                        Some(404)),
        ("an absolute path, below",    0,     b"/cgi-bin//bin/sh",               Some(404)),
        ("no path",                    0,     b"cgi-bin/a",                      Some(404)),
        ("empty",                      0,     b"",                               Some(404)),
        ("the mount",                  0,     b"/cgi-bin",                       Some(404)),
        ("the mount as a directory",   0,     b"/cgi-bin/",                      Some(404)),
        ("a directory",                0,     b"/cgi-bin/deep",                  Some(404)),
        ("another segment",            0,     b"/cgi-binx/a",                    Some(404)),
        ("a link",                     0,     b"/cgi-bin/link",                  Some(403)),
        ("a link to a directory",      0,     b"/cgi-bin/dir-link/a",            Some(403)),
        ("a dotfile",                  0,     b"/cgi-bin/.a",                    Some(404)),
        ("no program",                 0,     b"/cgi-bin/text",                  Some(403)),
        ("one that all may change",    0,     b"/cgi-bin/open",                  Some(500)),
        ("one that speaks HTTP",       0,     b"/cgi-bin/nph-a",                 Some(403)),
        ("a path of another mount",    1,     b"/cgi-bin/a",                     Some(404)),
        ("without the suffix",         1,     b"/a.sh",                          Some(404)),
        ("hidden",                     1,     b"/.hidden/a.cgi",                 Some(404)),
        ("a long name",                0,     &[b'/'; 5000],                     Some(404)),
    ];
    for (what, mount, path, refused) in cases {
        let found = helper.get(*mount, path);
        match refused {
            Some(status) => assert_eq!(found, Answer::Aborted(*status), "{what}"),
            None => assert!(matches!(found, Answer::Response(200, _)), "{what}: {found:?}"),
        }
    }
    assert_eq!(helper.get(2, b"/cgi-bin/a"), Answer::Closed, "an unknown mount");
    assert_eq!(helper.get(u16::MAX, b"/cgi-bin/a"), Answer::Closed);
}

#[test]
fn captured_worker_chooses_no_variable_and_no_descriptor() {
    let helper = RunningHelper::start(CgiConfig::default());
    let mut worker = helper.connect(0);
    let fields: &[(&[u8], &[u8])] = &[
        (b"proxy", b"http://evil.example/"),
        (b"x_underscore", b"1"),
        (b"x.dot", b"1"),
        (b"path", b"/evil"),
        (b"ld-preload", b"/evil.so"),
        (b"authorization", b"Basic x"),
        (b"cookie", b"a=1"),
        (b"cookie", b"b=2"),
        (b"x-list", b"1"),
        (b"x-list", b"2"),
    ];
    worker.write_all(&[head(b"/cgi-bin/a", fields), frame(FrameKind::End, b"")].concat()).unwrap();
    let Answer::Response(200, output) = answer(&mut worker) else { panic!("a response") };
    let lines: Vec<&str> = output.lines().collect();
    for line in ["HTTP_PATH=/evil", "HTTP_LD_PRELOAD=/evil.so", "HTTP_COOKIE=a=1; b=2", "HTTP_X_LIST=1, 2"] {
        assert!(lines.contains(&line), "{line}: {output}");
    }
    for name in
        ["HTTP_PROXY", "LD_PRELOAD", "HTTP_X_UNDERSCORE", "HTTP_X.DOT", "HTTP_AUTHORIZATION", "HOME", "USER"]
    {
        assert!(!lines.iter().any(|line| line.starts_with(&format!("{name}="))), "{name}: {output}");
    }
    assert!(lines.contains(&"PATH=/usr/local/bin:/usr/bin:/bin"), "{output}");
    // The fourth is that of the directory which ls reads.
    assert!(output.ends_with("\n0\n1\n2\n3\n"), "{output}");
    // A malformed head, of names and of frames.
    for bytes in [
        frame(FrameKind::Head, b"\xff\xff\0\0ab"),
        frame(FrameKind::Data, b"x"),
        vec![9; 5],
        frame(FrameKind::End, b""),
    ] {
        let mut worker = helper.connect(0);
        worker.write_all(&bytes).unwrap();
        assert_eq!(answer(&mut worker), Answer::Aborted(400), "{bytes:?}");
    }
    // A descriptor that is no socket.
    let file = File::open(helper.dir.path().join("bin/text")).unwrap();
    helper.workers.pass(&0_u16.to_le_bytes(), &file.into()).unwrap();
    assert!(matches!(helper.get(0, b"/cgi-bin/a"), Answer::Response(200, _)), "the helper goes on");
}

#[test]
fn connection_serves_one_request_after_the_other_at_every_cut() {
    let helper = RunningHelper::start(CgiConfig::default());
    let length: &[(&[u8], &[u8])] = &[(b"content-length", b"5")];
    let requests = [
        [
            head(b"/cgi-bin/a", length),
            frame(FrameKind::Data, b"he"),
            frame(FrameKind::Data, b"llo"),
            frame(FrameKind::End, b""),
        ],
        // Of unknown length: collected.
        [
            head(b"/cgi-bin/a", &[]),
            frame(FrameKind::Data, b"hello"),
            frame(FrameKind::Trailers, b""),
            frame(FrameKind::End, b""),
        ],
    ];
    let mut worker = helper.connect(0);
    for (request, cut) in requests.iter().flat_map(|request| [1, 7, 1000].map(|cut| (request.concat(), cut)))
    {
        request.chunks(cut).try_for_each(|part| worker.write_all(part)).unwrap();
        let Answer::Response(200, output) = answer(&mut worker) else { panic!("a response") };
        assert!(output.ends_with("hello") && output.contains("\nCONTENT_LENGTH=5\n"), "{output}");
    }
    // Longer than what is collected.
    let content = vec![0; 70_000];
    worker.write_all(&[head(b"/cgi-bin/a", &[]), frame(FrameKind::Data, &content)].concat()).unwrap();
    assert_eq!(answer(&mut worker), Answer::Aborted(411));
}

#[test]
fn full_helper_queues_and_refuses_and_a_worker_that_leaves_frees_its_place() {
    let config =
        CgiConfig { max_programs: 1, max_queue: 1, timeout: Duration::from_secs(60), ..CgiConfig::default() };
    let helper = RunningHelper::start(config);
    // Waits for its content.
    let mut first = helper.connect(0);
    first.write_all(&head(b"/cgi-bin/a", &[(b"content-length", b"5")])).unwrap();
    while helper.stats.metrics().running == 0 {
        thread::yield_now();
    }
    let mut second = helper.connect(0);
    second.write_all(&[head(b"/cgi-bin/a", &[]), frame(FrameKind::End, b"")].concat()).unwrap();
    while helper.stats.metrics().queued == 0 {
        thread::yield_now();
    }
    assert_eq!(helper.get(0, b"/cgi-bin/a"), Answer::Aborted(503));
    assert_eq!(helper.stats.metrics().refused, 1);
    // Its program gets EOF, and ends.
    drop(first);
    assert!(matches!(answer(&mut second), Answer::Response(200, _)));
    assert_eq!(helper.stats.metrics().started, 2);
}

#[test]
fn arguments_are_the_words_of_an_indexed_query_unless_one_looks_like_an_option() {
    let dir = tempfile::tempdir().unwrap();
    write_program(&dir.path().join("a"), "#!/bin/sh\n");
    let mount = CgiMount {
        site: 0,
        kind: CgiMountKind::Directory("/".parse().unwrap()),
        url_prefix: String::new(),
        directory: dir.path().to_owned(),
        document_root: dir.path().to_owned(),
        server_name: "localhost".to_owned(),
    };
    let program = resolve(&mount, &Distrust::default(), b"/a").unwrap();
    #[rustfmt::skip]
    let cases: &[(&str, &[&str])] = &[
        ("/a",              &[]),
        ("/a?",             &[]),
        ("/a?one",          &["one"]),
        ("/a?one+two%20x",  &["one", "two x"]),
        ("/a?a%3Db",        &["a=b"]),
        ("/a?a=b",          &[]),
        ("/a?one+a=b",      &[]),
        ("/a?-s",           &[]),
        ("/a?%2ds",         &[]),
        ("/a?one+-s",       &[]),
        ("/a?one%00",       &[]),
        ("/a?one%zz",       &[]),
        ("/a?;rm+*",        &[";rm", "*"]),
    ];
    for (path, want) in cases {
        let frame = head(path.as_bytes(), &[]);
        let request = CgiRequest::read(&frame[FRAME_PREFIX_LEN..]).unwrap();
        let found = super::environment::arguments(&program, &request);
        let found: Vec<_> = found[1..].iter().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(found, *want, "{path}");
    }
}
