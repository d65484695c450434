//! Programs in the place of ssh and scp, for scripts of the guides: each host is a directory.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// The hosts that a script reaches. Their /srv/example is a directory below `dir`.
pub(super) struct RemoteHosts<'a> {
    dir: &'a Path,
}

/// Runs a command with the path of the host in place of /srv/example. The host in $FAILING activates nothing.
const SSH: &str = r#"#!/bin/sh
host=$1
shift
if [ "$host" = "${FAILING:-}" ] && [ "${3:-}" = activate ]; then echo "ssh: $host: lost" >&2; exit 255; fi
count=$#
while [ "$count" -gt 0 ]; do
    argument=$(printf %s "$1" | sed "s,/srv/example,$HOSTS/$host,")
    shift
    set -- "$@" "$argument"
    count=$((count - 1))
done
exec "$@"
"#;

/// Copies a file. The copy of the host in $DAMAGING is not whole.
const SCP: &str = r#"#!/bin/sh
host=${2%%:*}
cp "$1" "$HOSTS/$host/"
if [ "$host" = "${DAMAGING:-}" ]; then truncate -s -2000 "$HOSTS/$host/$1"; fi
"#;

impl<'a> RemoteHosts<'a> {
    pub(super) fn new(dir: &'a Path, names: &[&str]) -> RemoteHosts<'a> {
        let programs = dir.join("bin");
        fs::create_dir(&programs).expect("a directory");
        for (name, text) in [("ssh", SSH), ("scp", SCP)] {
            fs::write(programs.join(name), text).expect("a file");
            fs::set_permissions(programs.join(name), fs::Permissions::from_mode(0o755)).expect("a program");
        }
        symlink(env!("CARGO_BIN_EXE_tarpon"), programs.join("tarpon")).expect("a link");
        for name in names {
            fs::create_dir(dir.join(name)).expect("a directory");
        }
        RemoteHosts { dir }
    }

    /// Returns the directory of a host that stands for /srv/example.
    pub(super) fn of(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Runs a script in `dir` with these variables.
    pub(super) fn run(&self, script: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        let path =
            format!("{}:{}", self.dir.join("bin").display(), std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new("sh");
        command.args(["-c", script, "script"]).args(arguments).current_dir(self.dir);
        command.env("PATH", path).env("HOSTS", self.dir).envs(variables.iter().copied());
        command.output().expect("a shell")
    }
}
