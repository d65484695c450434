//! Configurations of several files, and values of the environment in them.

use crate::common::{
    client::TestClient,
    program::{RunningProgram, has_exited, tarpon, with_long_timeouts},
    site, wait_for,
};
use rustix::process::Signal;
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::Command,
};
use tarpon::config::{self, CliFlags, CommandKind, ConfigFile};

/// Returns the errors of `tarpon.toml` in a directory.
fn errors(dir: &Path) -> Vec<String> {
    let file = ConfigFile::open(dir.join("tarpon.toml")).expect("a file");
    let read = config::read(Some(&file), &CliFlags::default(), CommandKind::Serve);
    let place = format!("{}/", dir.display());
    let lines = read.map_or_else(|errors| errors.lines(), |_| Vec::new());
    lines.into_iter().map(|line| line.replace(&place, "")).collect()
}

#[test]
#[rustfmt::skip]
fn errors_of_included_files_have_their_path_and_position() {
    const ONE: &str = "[[site]]\npath = \"one\"\nhosts = [\"one.example\"]\n";
    type Files = &'static [(&'static str, &'static str)];
    let cases: &[(&str, &str, Files, &[&str])] = &[
        // case             tarpon.toml                           other files   errors
        ("none",            "include = []\n",                     &[],          &[]),
        ("no match",        "include = [\"*.conf\"]\n",           &[],          &[]),
        ("a missing file",  "include = [\"a.conf\"]\n",           &[],
            &["1:12: cannot include a.conf: no such file or directory; expected a file to include; name an existing, readable file, as in --config tarpon.toml"]),
        ("a missing directory", "include = [\"a/*.toml\"]\n",     &[],
            &["1:12: cannot include a/*.toml: no such file or directory; expected a file to include; name an existing directory; paths start at the directory of this file"]),
        ("a directory",     "include = [\"a\"]\n",                &[("a/b", "")],
            &["1:12: cannot include a: is a directory; expected a file to include; name an existing, readable file, as in --config tarpon.toml"]),
        ("no list",         "include = \"a.conf\"\n",             &[],
            &["1:11: `include` is text; expected a list of paths; as in include = [\"sites/*.toml\"]"]),
        ("no text",         "include = [3]\n",                    &[],
            &["1:12: `include` is a whole number; expected a list of paths; as in include = [\"sites/*.toml\"]"]),
        ("in a section",    "[server]\ninclude = [\"a.conf\"]\n", &[],
            &["2:1: unknown option `include`; expected an option of [server]; write it above all sections"]),
        ("an error in it",  "include = [\"sites/*\"]\n",          &[("sites/a", ONE), ("sites/b", "\n[[site]]\npath = 3\nhosts = [\"b.example\"]\n")],
            &["sites/b:3:8: `path` is a whole number; expected a path; as in path = \"public\""]),
        ("no TOML in it",   "include = [\"a\"]\n[server]\nworkers = 0\n", &[("a", "[[site]]\npath = b\n")],
            &["3:11: `workers` cannot be 0; expected a number from 1 to 1024; as in workers = 4",
              "a:2:8: this is not TOML; string values must be quoted, expected literal string; see https://toml.io for the syntax"]),
        ("an error in two", "include = [\"b\", \"a\"]\n[log]\nx = 1\n", &[("a", "[log]\n"), ("b", "x = 1\n")],
            &["3:1: unknown option `x`; expected an option of [log]; run tarpon manual tarpon.toml for the list",
              "b:1:1: unknown section `x`; expected [[site]], [[upstream]], [[listener]], [server], [log]; run tarpon manual tarpon.toml for the list",
              "a:1:1: another file has [log] already; expected it once; write [log] in one file"]),
        ("a host twice",    "include = [\"a\", \"b\"]\n",         &[("a", ONE), ("b", ONE)],
            &["b:3:10: host one.example occurs twice; line 3 of a has it already; remove one of them"]),
        ("itself",          "include = [\"tarpon.toml\"]\n",      &[],
            &["1:12: tarpon.toml is part of the configuration already; expected a file to include; include each file once"]),
        ("a cycle",         "include = [\"a/b\"]\n",              &[("a/b", "include = [\"../c\"]\n"), ("c", "\ninclude = [\n\"a/b\"]\n")],
            &["a/../c:3:1: a/../a/b is part of the configuration already; expected a file to include; include each file once"]),
        ("too deep",        "include = [\"1\"]\n",
            &[("1", "include = [\"2\"]"), ("2", "include = [\"3\"]"), ("3", "include = [\"4\"]"), ("4", "include = [\"5\"]"),
              ("5", "include = [\"6\"]"), ("6", "include = [\"7\"]"), ("7", "include = [\"8\"]"), ("8", "include = [\"9\"]"), ("9", "")],
            &["8:1:12: more than 8 files include each other in a row; expected a file to include; include the file from tarpon.toml"]),
        ("a variable",      "include = [\"a\"]\n",                &[("a", "[[site]]\npath = \"${TARPON_TEST_NONE}\"\n")],
            &["a:2:8: `path` needs the variable TARPON_TEST_NONE, which is not set; expected a variable of the environment; set it where the server starts, or write ${TARPON_TEST_NONE:-default}"]),
    ];
    for (name, text, files, want) in cases {
        let dir = site(files);
        fs::write(dir.path().join("tarpon.toml"), text).unwrap();
        let got = errors(dir.path());
        assert_eq!(got, *want, "{name}");
    }
}

#[test]
fn files_that_other_users_can_change_are_refused() {
    let dir = site(&[("sites/a.toml", "")]);
    fs::write(dir.path().join("tarpon.toml"), "include = [\"sites/*\"]\n").unwrap();
    let (file, sites) = (dir.path().join("sites/a.toml"), dir.path().join("sites"));
    let cases = [
        (0o644, 0o755, ""),
        (0o600, 0o700, ""),
        (0o664, 0o755, "it can be changed by other users"),
        (0o646, 0o755, "it can be changed by other users"),
        (0o644, 0o775, "its directory can be changed by other users"),
        (0o644, 0o1777, "its directory can be changed by other users"),
    ];
    for (file_mode, dir_mode, want) in cases {
        fs::set_permissions(&file, fs::Permissions::from_mode(file_mode)).unwrap();
        fs::set_permissions(&sites, fs::Permissions::from_mode(dir_mode)).unwrap();
        let errors = errors(dir.path());
        assert_eq!(errors.len(), usize::from(!want.is_empty()), "{errors:?}");
        assert!(errors.iter().all(|error| error.contains(want)), "{file_mode:o} {dir_mode:o}: {errors:?}");
    }
    // A link to the file in such a directory counts as its directory.
    fs::set_permissions(&sites, fs::Permissions::from_mode(0o777)).unwrap();
    fs::create_dir(dir.path().join("links")).unwrap();
    symlink("../sites/a.toml", dir.path().join("links/a.toml")).unwrap();
    fs::write(dir.path().join("tarpon.toml"), "include = [\"links/*\"]\n").unwrap();
    assert!(errors(dir.path()).iter().any(|error| error.contains("its directory can be changed")));
}

#[test]
fn reload_reads_included_files_again() {
    let dir = site(&[
        ("tarpon.toml", "include = [\"sites/*.toml\"]\n[server]\nworkers = 1\n"),
        ("sites/b.toml", "[[site]]\npath = \"../${SITE}\"\nhosts = [\"b.example\"]\n"),
        ("sites/a.toml", "[[site]]\npath = \"../one\"\n"),
        ("one/index.html", "one"),
        ("two/index.html", "two"),
        ("three/index.html", "three"),
    ]);
    let mut command =
        tarpon(["serve", "--listen", "127.0.0.1:0", "--admin", "off", "--config"].map(AsRef::as_ref));
    command.arg(dir.path().join("tarpon.toml")).env("SITE", "two");
    with_long_timeouts(&mut command);
    let program = RunningProgram::start_ready(command);
    let home = |host: &str| {
        let mut client = TestClient::connect(program.address());
        client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"));
        String::from_utf8(client.response().content).unwrap()
    };
    // Relative paths start at the directory of the file that has them, and files count in the order of their names.
    assert_eq!(home("other.example"), "one");
    let server = program.server();
    assert_eq!(home("b.example"), "two");
    fs::write(dir.path().join("sites/c.toml"), "[[site]]\npath = \"../three\"\nhosts = [\"c.example\"]\n")
        .unwrap();
    program.signal(Signal::HUP);
    wait_for("the new site", || (home("c.example") == "three").then_some(()));
    wait_for("the first server exits", || has_exited(server).then_some(()));
    assert_eq!(home("b.example"), "two", "the environment stays as at the start");
    let start = program.err().len();
    fs::write(dir.path().join("sites/c.toml"), "[[site]]\npath = 3\n").unwrap();
    program.signal(Signal::HUP);
    wait_for("an error", || {
        program.err()[start..].contains("still serving the previous configuration").then_some(())
    });
    assert!(program.err()[start..].contains("sites/c.toml:2:8"), "{}", program.err());
    assert_eq!(home("c.example"), "three");
}

#[test]
fn no_output_shows_values_of_the_environment() {
    let secret = "s3cr3t.example";
    let text = "[[site]]\npath = \"${DIR}\"\nhosts = [\"${SECRET}\", \"a.example\", \"x.${SECRET}\"]\n\
                [[site.header]]\npath = \"/*\"\nset = [\"X-Key: ${SECRET}\", \"X-Other: ${NONE:-plain}\", \"X-Literal: $${SECRET}\"]\n";
    let twice = "[[site]]\npath = \"b\"\nhosts = [\"${SECRET}\"]\n";
    let invalid =
        "[server]\nworkers = 0\nadmin = \"${SECRET}\"\n[log]\naccess-log = \"${SECRET}/none/log\"\n";
    let missing = "[log]\naccess-log = \"${SECRET}/none/log\"\n";
    let address = "[[listener]]\naddress = \"unix:${SECRET}/none/sock\"\n[server]\nadmin = \"unix:${SECRET}/none/sock\"\n";
    let run = |text: &str, arguments: &[&str]| {
        let dir = site(&[("tarpon.toml", text), ("public/index.html", "")]);
        let mut command: Command = tarpon(arguments.iter().map(AsRef::as_ref));
        command.args(["--config", "tarpon.toml"]).current_dir(dir.path());
        let ended = RunningProgram::run({
            command.env("SECRET", secret).env("DIR", dir.path().join("public"));
            command
        });
        assert!(!ended.out.contains("s3cr3t") && !ended.err.contains("s3cr3t"), "{}{}", ended.out, ended.err);
        ended
    };
    let shown = run(text, &["config", "show"]).out;
    for want in ["***, a.example, ***", "***, X-Other: plain, X-Literal: ${SECRET}"] {
        assert!(shown.contains(want), "{want}: {shown}");
    }
    let shown = run(text, &["config", "show", "--toml"]).out;
    assert!(shown.contains("hosts = [\"${SECRET}\", \"a.example\", \"x.${SECRET}\"]"), "{shown}");
    assert!(shown.contains("\"X-Other: plain\", \"X-Literal: $${SECRET}\""), "{shown}");
    // The shown file has the same meaning in the same environment.
    let again = run(&shown, &["config", "show", "--toml"]).out;
    let values = |text: &str| {
        text.lines().map(|line| line.split("  # ").next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(values(&shown), values(&again));
    assert!(run(text, &["config", "check"]).status.success());
    let cases = [
        (format!("{text}{twice}"), "host *** occurs twice"),
        (invalid.to_owned(), "`admin` cannot be \"${SECRET}\""),
        (missing.to_owned(), "cannot log to ***: no such file or directory"),
        (address.to_owned(), "admin *** is also a listener"),
    ];
    for (text, want) in &cases {
        let ended = run(text, &["config", "check"]);
        assert!(!ended.status.success() && ended.err.contains(want), "{want}: {}", ended.err);
    }
}
