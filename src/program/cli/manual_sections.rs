//! The sections of manual pages that the help of a command does not have: examples, files and variables of the environment.

/// A command line, and what it does.
pub(super) type Example = (&'static str, &'static str);

/// A term, and its description.
pub(super) type Term = (&'static str, &'static str);

/// The sections of a page. An empty section is left out.
pub(super) struct ManualSections {
    /// The name of the page on the command line.
    page: &'static str,
    pub(super) examples: &'static [Example],
    pub(super) files: &'static [Term],
    pub(super) environment: &'static [Term],
}

/// Returns the sections of a page. Pages without an entry have that of the command above them.
pub(super) fn of(page: &str) -> &'static ManualSections {
    let mut name = page;
    loop {
        if let Some(found) = SECTIONS.iter().find(|sections| sections.page == name) {
            return found;
        }
        name = name.rsplit_once('-').map_or("tarpon", |(above, _)| above);
    }
}

const SECTIONS: &[ManualSections] = &[
    ManualSections {
        page: "tarpon",
        examples: &[
            ("tarpon serve public", "Serve a directory at http://127.0.0.1:8080/ and follow its changes."),
            ("tarpon pack public -o site.tar", "Pack it into one archive with all compressed forms."),
            ("tarpon serve site.tar --listen 0.0.0.0:80", "Serve the archive to the network."),
            ("tarpon manual serve | man -l -", "Read the manual page of a command."),
        ],
        files: &[TOML, ADMIN_SOCKET],
        environment: &[NO_COLOR],
    },
    ManualSections {
        page: "serve",
        examples: &[
            ("tarpon serve public", "Serve a directory at http://127.0.0.1:8080/."),
            (
                "tarpon serve public --listen 0.0.0.0:80 --access-log /var/log/tarpon/access.log",
                "Serve it to the network, with an access log.",
            ),
            ("tarpon serve --config /etc/tarpon.toml", "Serve the sites of a configuration file."),
            ("tarpon serve /srv/example/current", "Serve the current release; see tarpon-release(1)."),
            (
                "tarpon serve public --proxy /api/=http://127.0.0.1:9000",
                "Serve a directory, and send requests below /api/ to another server.",
            ),
        ],
        files: &[
            TOML,
            (
                "_headers, _redirects",
                "Rules at the root of a site: response headers, and redirects. They are not served.",
            ),
            ADMIN_SOCKET,
            (
                "/var/lib/tarpon",
                "Certificates and account keys of ACME, if root starts the server; else $XDG_STATE_HOME/tarpon or ~/.local/state/tarpon.",
            ),
        ],
        environment: &[
            RUNTIME_DIRECTORY,
            (
                "STATE_DIRECTORY",
                "The directory for certificates of ACME. systemd sets it for StateDirectory=.",
            ),
            (
                "XDG_RUNTIME_DIR, XDG_STATE_HOME, HOME",
                "Where these directories lie for users other than root.",
            ),
            (
                "NOTIFY_SOCKET",
                "The socket of systemd for the state of the service: ready, reloading, stopping.",
            ),
            ("LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES", "Listening sockets that systemd hands over."),
            (
                "SSL_CERT_FILE, SSL_CERT_DIR",
                "Certificates of authorities to trust instead of those of the system, for upstream servers and ACME.",
            ),
            (
                "any other",
                "The configuration file can use it: ${NAME} in a string stands for the variable NAME.",
            ),
            NO_COLOR,
        ],
    },
    ManualSections {
        page: "pack",
        examples: &[
            (
                "tarpon pack public -o site.tar",
                "Pack a directory. Run again, it compresses only files that have changed.",
            ),
            (
                "tarpon pack public -o site.tar --effort best",
                "Make the compressed forms a few percent smaller.",
            ),
            (
                "tarpon pack public -o new.tar --dictionary old.tar",
                "Add deltas for browsers that have the scripts and styles of the earlier archive.",
            ),
            ("tarpon pack public --executable -o mysite", "Write a program that serves the site."),
        ],
        files: &[
            (
                "_headers, _redirects",
                "Rules at the root of the site: response headers, and redirects. The archive has them compiled.",
            ),
            (
                ".tarpon/",
                "A directory in the archive: response headers, index and compressed forms. It is not served.",
            ),
        ],
        environment: &[
            (
                "SOURCE_DATE_EPOCH",
                "The latest modification time in the archive, in seconds since 1970. Default: the current time.",
            ),
            NO_COLOR,
        ],
    },
    ManualSections {
        page: "inspect",
        examples: &[
            ("tarpon inspect site.tar", "List all paths with types and sizes."),
            ("tarpon inspect --json site.tar", "List them for programs, such as jq(1)."),
        ],
        files: &[],
        environment: &[NO_COLOR],
    },
    ManualSections {
        page: "verify",
        examples: &[
            ("tarpon verify site.tar", "Check an archive after a transfer."),
            ("tarpon verify new.tar --dictionary old.tar", "Decode the deltas of an archive, too."),
        ],
        files: &[],
        environment: &[NO_COLOR],
    },
    ManualSections {
        page: "release",
        examples: &[
            ("tarpon release activate /srv/example 2026-11-21.tar", "Make an archive the current release."),
            ("tarpon release rollback /srv/example", "Return to the previous release."),
            ("tarpon release list /srv/example", "List the releases with sizes and dates."),
            (
                "tarpon release prune /srv/example --keep 5 --dry-run",
                "Print which releases would be removed if the newest five stay.",
            ),
        ],
        files: &[
            ("DIR/*.tar", "The releases: packed sites."),
            ("DIR/current", "A symbolic link to the current release: the site for tarpon serve."),
            ("DIR/.tarpon.history", "The releases that were current before: a line for each change."),
            ("DIR/.tarpon.lock", "Locked by the process that changes the directory; has its process ID."),
        ],
        environment: &[NO_COLOR],
    },
    ManualSections {
        page: "status",
        examples: &[
            ("tarpon status", "Show the state of the server at the default address."),
            ("tarpon status --admin unix:/run/tarpon/admin.sock", "Ask another admin listener."),
            ("tarpon status --ready", "Check the health of a container."),
        ],
        files: &[ADMIN_SOCKET],
        environment: ADMIN_ENVIRONMENT,
    },
    ManualSections {
        page: "top",
        examples: &[
            ("tarpon top", "Show the server at the default address live."),
            ("tarpon top --once", "Print its state once, with the rates of one second."),
        ],
        files: &[ADMIN_SOCKET],
        environment: ADMIN_ENVIRONMENT,
    },
    ManualSections {
        page: "import",
        examples: &[
            (
                "tarpon import nginx /etc/nginx/nginx.conf -o tarpon.toml",
                "Convert the configuration of nginx.",
            ),
            (
                "tarpon import caddy /etc/caddy/Caddyfile",
                "Print that of a Caddyfile, with a report on standard error.",
            ),
        ],
        files: &[TOML],
        environment: &[NO_COLOR],
    },
    ManualSections {
        page: "doctor",
        examples: &[
            ("tarpon doctor", "Examine this machine."),
            (
                "tarpon doctor /etc/tarpon/tarpon.toml",
                "Examine the sites, certificates, names and ports too.",
            ),
            ("tarpon doctor --apply", "Change the settings of the kernel that the table lists."),
            ("tarpon doctor --undo", "Set them back."),
            (
                "tarpon doctor --sysctl",
                "Print them as a file for /etc/sysctl.d, so that they outlast a restart.",
            ),
        ],
        files: &[
            TOML,
            (
                "/var/lib/tarpon/doctor-undo.json",
                "The values of settings before --apply. The state directory of the configuration may be another.",
            ),
        ],
        environment: &[("STATE_DIRECTORY", "The state directory, if the configuration has none."), NO_COLOR],
    },
    ManualSections {
        page: "hash-password",
        examples: &[
            (
                "tarpon hash-password --user ann >> /etc/tarpon/users",
                "Ask for the password of a user, and add a line to the file that users-file names.",
            ),
            ("tarpon hash-password < password.txt", "Read the password from a file of one line."),
            ("tarpon hash-password --algorithm bcrypt", "Make a hash that other web servers read, too."),
        ],
        files: &[],
        environment: &[NO_COLOR],
    },
    ManualSections {
        page: "reload",
        examples: &[("tarpon reload", "Apply a changed configuration file.")],
        files: &[ADMIN_SOCKET],
        environment: ADMIN_ENVIRONMENT,
    },
    ManualSections {
        page: "upgrade",
        examples: &[("tarpon upgrade", "Replace the running program after its file was replaced.")],
        files: &[ADMIN_SOCKET],
        environment: ADMIN_ENVIRONMENT,
    },
    ManualSections {
        page: "config",
        examples: &[
            ("tarpon config check --config /etc/tarpon.toml", "Report all errors of a file before a reload."),
            (
                "tarpon config show --config /etc/tarpon.toml",
                "Show each option with its value and its origin.",
            ),
            ("tarpon config show --toml public --spa", "Turn flags into a configuration file."),
        ],
        files: &[TOML],
        environment: &[
            ("any", "The configuration file can use it: ${NAME} in a string stands for the variable NAME."),
            NO_COLOR,
        ],
    },
    ManualSections {
        page: "manual",
        examples: &[
            ("tarpon manual serve | man -l -", "Read the page of a command."),
            ("tarpon manual tarpon.toml | man -l -", "Read the page of the configuration file."),
            ("tarpon manual --all /usr/local/share/man/man1", "Install all pages."),
        ],
        files: &[],
        environment: &[NO_COLOR],
    },
    ManualSections {
        page: "completions",
        examples: &[(
            "tarpon completions bash > /usr/share/bash-completion/completions/tarpon",
            "Install the completions of bash.",
        )],
        files: &[],
        environment: &[NO_COLOR],
    },
    ManualSections {
        page: "tarpon.toml",
        examples: &[],
        files: &[TOML],
        environment: &[("any", "${NAME} in a string stands for the variable NAME.")],
    },
];

const TOML: Term = (
    "tarpon.toml",
    "The configuration file; see tarpon.toml(5). tarpon serve without a path and without --config reads it in the current directory.",
);
const ADMIN_SOCKET: Term = (
    "/run/tarpon/admin.sock",
    "The socket of the admin listener, if root starts the server; else $XDG_RUNTIME_DIR/tarpon/admin.sock.",
);
const ADMIN_ENVIRONMENT: &[Term] = &[
    RUNTIME_DIRECTORY,
    ("XDG_RUNTIME_DIR", "The directory above that of the admin socket, for users other than root."),
    NO_COLOR,
];
const RUNTIME_DIRECTORY: Term =
    ("RUNTIME_DIRECTORY", "The directory of the admin socket. systemd sets it for RuntimeDirectory=.");
const NO_COLOR: Term = ("NO_COLOR", "If it is set and not empty, output on terminals has no colours.");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::cli;

    #[test]
    fn each_page_has_examples_that_the_command_line_accepts() {
        let mut command = cli::command();
        command.build();
        let names = command.get_subcommands().map(clap::Command::get_name).filter(|name| *name != "help");
        for name in names.chain(["tarpon"]) {
            let sections = of(name);
            assert!(sections.page == name && !sections.examples.is_empty(), "{name}");
        }
        for (example, _) in SECTIONS.iter().flat_map(|sections| sections.examples) {
            let words = example.split(' ').take_while(|word| !["|", ">", ">>", "<"].contains(word));
            let parsed = cli::command().try_get_matches_from(words);
            assert!(
                parsed.is_ok(),
                "{example}: {}",
                parsed.err().map(|error| error.to_string()).unwrap_or_default()
            );
        }
        assert_eq!(of("release-prune").page, "release");
    }
}
