//! PHP-FPM and DokuWiki of Debian behind tarpon, in a browser: `tests/browser/dokuwiki.js` walks through the wiki.

use super::proxied::{ProxyClient, get};
use crate::common::{
    ENGINES,
    client::connected,
    page::BrowserPage,
    program::{RunningProgram, serve_config},
    readable_dir, wait_for, workers, write_files,
};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use std::{
    fs,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};
use tarpon::Engine;

/// The user of the wiki. Debian has it on each system.
const USER: &str = "www-data";

#[test]
#[ignore = "soak: tests/setup --soak installs PHP and DokuWiki"]
fn browser_walks_through_a_wiki() {
    for &engine in ENGINES {
        let wiki = Wiki::new();
        let config = wiki.config(engine, workers(engine, 1));
        let served = RunningProgram::start_ready(serve_config(&config, wiki.dir.path(), &[]));
        let url = format!("http://{}/dokuwiki.html", served.address());
        let page = BrowserPage::load(&url, &["--verdict", "#verdict"]);
        // The form leads to the page by PATH_INFO.
        let want = "/doku.php?id=notes\n/doku.php?id=notes&do=edit\n/doku.php/notes\n/doku.php?id=notes\n/doku.php?id=notes\n\
                    /doku.php?id=notes&do=revisions\n/doku.php/notes\n/doku.php?id=notes&do=index\nsource: 200, equal";
        assert_eq!((&*page.verdict, &*page.errors), (want, "[]"), "{engine}: {page:?}");
        assert!(page.resources.len() > 20, "{engine}: {page:?}");
        assert_eq!(served.err(), "", "{engine}");
    }
}

/// A child of PHP serves one connection at a time: idle connections of one worker must not hold up requests of another.
#[test]
#[ignore = "soak: tests/setup --soak installs PHP and DokuWiki"]
fn more_workers_than_children_of_php_get_responses() {
    let wiki = Wiki::new();
    fs::write(wiki.path("wiki/pid.php"), "<?php echo 'good';").expect("a file");
    for &engine in ENGINES {
        let config = wiki.config(engine, workers(engine, 4));
        let served = RunningProgram::start_ready(serve_config(&config, wiki.dir.path(), &[]));
        for number in 0..40 {
            // A new connection each time, so that all workers get some.
            let mut client = ProxyClient::new(connected(served.address()));
            let response = client.ask(get("/pid.php")).response;
            assert_eq!((response.status(), &*response.text()), (200, "good"), "{engine}, request {number}");
        }
    }
}

/// A wiki with a PHP of its own.
struct Wiki {
    php: Child,
    dir: tempfile::TempDir,
}

impl Wiki {
    fn new() -> Wiki {
        let dir = readable_dir();
        let path = |name: &str| dir.path().join(name);
        copy("/usr/share/dokuwiki", &path("wiki"));
        copy("/etc/dokuwiki", &path("wiki/conf"));
        let data = path("data");
        let local = format!(
            "<?php\n$conf['title'] = 'Wiki';\n$conf['useacl'] = 0;\n$conf['userewrite'] = 2;\n$conf['savedir'] = '{}';\n",
            data.display()
        );
        let preload = "<?php define('DOKU_CONF', dirname(__DIR__) . '/conf/');\n";
        let script = include_str!("../browser/dokuwiki.js");
        write_files(
            &path("wiki"),
            &[
                ("conf/local.php", &*local),
                ("inc/preload.php", preload),
                ("dokuwiki.html", include_str!("../browser/dokuwiki.html")),
                ("dokuwiki.js", script),
                ("render.js", include_str!("../browser/render.js")),
            ],
        );
        let names = "pages attic media media_attic media_meta meta cache index locks tmp log";
        for name in names.split(' ') {
            fs::create_dir_all(data.join(name)).expect("a directory");
        }
        let is_root = geteuid().is_root();
        if is_root {
            run(Command::new("chown").arg("-R").arg(USER).arg(&data));
        }
        let user = if is_root { format!("user = {USER}\ngroup = {USER}\n") } else { String::new() };
        let socket = path("php.sock");
        let config = format!(
            "[global]\nerror_log = {}\ndaemonize = no\n[www]\n{user}listen = {}\nlisten.mode = 0666\npm = static\npm.max_children = 3\n",
            path("php.log").display(),
            socket.display(),
        );
        fs::write(path("php.conf"), config).expect("a file");
        let mut command = Command::new(php_fpm());
        command.arg("-F").arg("-y").arg(path("php.conf")).stdin(Stdio::null()).stderr(Stdio::null());
        let php = command.spawn().expect("PHP");
        wait_for("PHP", || UnixStream::connect(&socket).ok());
        Wiki { php, dir }
    }

    fn config(&self, engine: Engine, workers: usize) -> String {
        format!(
            "[[site]]\npath = \"wiki\"\nproxy = [\"*.php=php\"]\n\
             [[listener]]\naddress = \"127.0.0.1:0\"\n[server]\nengine = \"{engine}\"\nworkers = {workers}\n\
             [[upstream]]\nname = \"php\"\nservers = [\"fastcgi://unix:{}\"]\n",
            self.socket().display(),
        )
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn socket(&self) -> PathBuf {
        self.path("php.sock")
    }
}

impl Drop for Wiki {
    fn drop(&mut self) {
        // PHP ends its children then.
        let _ = kill_process(Pid::from_child(&self.php), Signal::TERM);
        let _ = self.php.wait();
    }
}

/// Returns the program of PHP-FPM, whose name has its version.
fn php_fpm() -> PathBuf {
    let programs =
        fs::read_dir("/usr/sbin").expect("a directory").map(|entry| entry.expect("a program").path());
    let is_php =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("php-fpm"));
    programs.into_iter().find(is_php).expect("PHP-FPM is missing: run tests/setup --soak")
}

/// Copies a directory, with the targets of its links, and lets the users of PHP and of the server read it.
fn copy(from: &str, to: &Path) {
    run(Command::new("cp").arg("-rL").arg(from).arg(to));
    // tarpon warns of files that it does not serve, such as `.htaccess`.
    run(Command::new("find").arg(to).args(["-type", "f", "-name", ".*", "-delete"]));
    run(Command::new("chmod").args(["-R", "a+rX"]).arg(to));
}

fn run(command: &mut Command) {
    let status = command.status().expect("a program");
    assert!(status.success(), "{command:?}: {status}; run tests/setup --soak");
}
