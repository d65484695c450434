//! The options of CGI programs, their values, and the conflicts between them.

use super::{
    CommandKind::Serve,
    ConfigError, Opt, OptionDefault, OptionValue, ValueKind,
    conflict::{entries_of, is_option},
    option::OPT,
    server,
};
use std::{ops::RangeInclusive, time::Duration};
use tarpon_site::Printable;

/// The fields that all options in `[server]` share.
const CGI: Opt = Opt { commands: &[Serve], heading: "CGI programs", ..OPT };

/// A day: a program that needs longer is no answer to a request.
const TIMES: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(86_400);

/// Sizes of what programs use: from a page of memory to more than any program needs.
const SIZES: RangeInclusive<u64> = 4 << 10..=1 << 40;

/// Variables that requests set.
const RESERVED: [&str; 24] = [
    "AUTH_TYPE",
    "CONTENT_LENGTH",
    "CONTENT_TYPE",
    "DOCUMENT_ROOT",
    "GATEWAY_INTERFACE",
    "HTTPS",
    "PATH_INFO",
    "PATH_TRANSLATED",
    "QUERY_STRING",
    "REMOTE_ADDR",
    "REMOTE_HOST",
    "REMOTE_IDENT",
    "REMOTE_PORT",
    "REMOTE_USER",
    "REQUEST_METHOD",
    "REQUEST_SCHEME",
    "REQUEST_URI",
    "SCRIPT_FILENAME",
    "SCRIPT_NAME",
    "SERVER_ADDR",
    "SERVER_NAME",
    "SERVER_PORT",
    "SERVER_PROTOCOL",
    "SERVER_SOFTWARE",
];

/// Accepts a variable of the environment: `NAME`, or `NAME=value`.
pub(super) fn variable(text: &str) -> Result<String, String> {
    let name = text.split_once('=').map_or(text, |(name, _)| name);
    let is_start = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let is_name = name.bytes().next().is_some_and(is_start)
        && name.bytes().all(|byte| is_start(byte) || byte.is_ascii_digit());
    let is_free = !name.starts_with("HTTP_") && !RESERVED.contains(&name);
    match is_name && is_free && !text.contains('\0') {
        true => Ok(text.to_owned()),
        false => Err("expected NAME or NAME=value, and not a variable that requests set".to_owned()),
    }
}

/// Accepts the end of a file name.
pub(super) fn suffix(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix('.').unwrap_or_default();
    match !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    {
        true => Ok(text.to_owned()),
        false => Err("expected a dot and an extension".to_owned()),
    }
}

pub(super) const USER: Opt = Opt {
    name: "cgi-user",
    value_name: "USER",
    kind: ValueKind::Text(server::user, |config, name| config.server.cgi.user = Some(name)),
    default: OptionDefault::Described("the user that starts the server, if that is not root"),
    example: "cgi",
    invalid: &["", "a:b", "a b"],
    help: "Run CGI programs as this user",
    details: "Required if the server starts as root. The user must differ from root and from the user of the server.",
    ..CGI
};

pub(super) const TIMEOUT: Opt = Opt {
    name: "cgi-timeout",
    value_name: "TIME",
    kind: ValueKind::Time(TIMES, |config, time| config.server.cgi.timeout = time),
    default: OptionDefault::Value("1m"),
    example: "1m30s",
    help: "Kill a CGI program that neither reads nor writes for this long",
    details: "Its client gets 504. A request that waits so long for a free place gets 503.",
    ..CGI
};

pub(super) const MAX_PROGRAMS: Opt = Opt {
    name: "cgi-max-programs",
    value_name: "COUNT",
    kind: ValueKind::Count(1..=1_000, "programs", |config, count| config.server.cgi.max_programs = count),
    default: OptionDefault::Value("32"),
    example: "8",
    help: "Run at most this many CGI programs at a time",
    ..CGI
};

pub(super) const MAX_QUEUE: Opt = Opt {
    name: "cgi-max-queue",
    value_name: "COUNT",
    kind: ValueKind::Count(0..=2_000, "requests", |config, count| config.server.cgi.max_queue = count),
    default: OptionDefault::Value("128"),
    example: "32",
    help: "Let at most this many requests wait for a CGI program",
    details: "Further requests get 503.",
    ..CGI
};

pub(super) const MAX_BODY: Opt = Opt {
    name: "cgi-max-body",
    value_name: "BYTES",
    kind: ValueKind::Size(0..=1 << 40, "", |config, len| config.server.cgi.max_body = len),
    default: OptionDefault::Value("16MiB"),
    example: "1GiB",
    help: "Refuse a request for a CGI program whose body is longer than this",
    details: "It gets 413.",
    ..CGI
};

pub(super) const MAX_OUTPUT: Opt = Opt {
    name: "cgi-max-output",
    value_name: "BYTES",
    kind: ValueKind::Size(SIZES, "", |config, len| config.server.cgi.max_output = len),
    default: OptionDefault::Value("1GiB"),
    example: "64MiB",
    help: "Abort the response of a CGI program that writes more than this",
    ..CGI
};

pub(super) const MAX_CPU_TIME: Opt = Opt {
    name: "cgi-max-cpu-time",
    value_name: "TIME",
    kind: ValueKind::Time(TIMES, |config, time| config.server.cgi.max_cpu_time = time),
    default: OptionDefault::Value("1m"),
    example: "10s",
    help: "Kill a CGI program that uses the processor for longer than this",
    details: "In whole seconds, for each of its processes: RLIMIT_CPU.",
    ..CGI
};

pub(super) const MAX_MEMORY: Opt = Opt {
    name: "cgi-max-memory",
    value_name: "BYTES",
    kind: ValueKind::Size(1 << 20..=1 << 40, "", |config, len| config.server.cgi.max_memory = len),
    default: OptionDefault::Value("1GiB"),
    example: "256MiB",
    help: "Limit the address space of each process of a CGI program",
    details: "RLIMIT_AS. Programs in Go and Java need more address space than memory.",
    ..CGI
};

pub(super) const MAX_FILE_SIZE: Opt = Opt {
    name: "cgi-max-file-size",
    value_name: "BYTES",
    kind: ValueKind::Size(SIZES, "", |config, len| config.server.cgi.max_file_size = len),
    default: OptionDefault::Value("256MiB"),
    example: "1GiB",
    help: "Limit the length of each file that a CGI program writes",
    details: "RLIMIT_FSIZE.",
    ..CGI
};

pub(super) const MAX_OPEN_FILES: Opt = Opt {
    name: "cgi-max-open-files",
    value_name: "COUNT",
    kind: ValueKind::Count(16..=1 << 20, "files", |config, count| config.server.cgi.max_open_files = count),
    default: OptionDefault::Value("256"),
    example: "64",
    help: "Limit the open files of each process of a CGI program",
    details: "RLIMIT_NOFILE.",
    ..CGI
};

pub(super) const MAX_PROCESSES: Opt = Opt {
    name: "cgi-max-processes",
    value_name: "COUNT",
    kind: ValueKind::Count(1..=1 << 20, "processes", |config, count| {
        config.server.cgi.max_processes = Some(count);
    }),
    default: OptionDefault::Described("the limit of the system"),
    example: "200",
    help: "Limit the processes of the user of the CGI programs",
    details: "RLIMIT_NPROC: it counts all processes of the user, so the user should run nothing else.",
    ..CGI
};

pub(super) const ENVIRONMENT: Opt = Opt {
    name: "cgi-env",
    value_name: "NAME[=VALUE]",
    kind: ValueKind::Text(variable, |config, text| {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => (text, None),
        };
        config.server.cgi.environment.push((name, value));
    }),
    is_list: true,
    example: "TZ=Europe/Berlin",
    invalid: &["", "=", "A B", "1A", "HTTP_PROXY", "HTTP_X=1", "QUERY_STRING=a", "A-B"],
    help: "Add a variable to the environment of CGI programs",
    details: "NAME without a value passes that of the server on. Nothing else of the server's environment reaches programs.",
    ..CGI
};

pub(super) const AUTHORIZATION: Opt = Opt {
    name: "cgi-authorization",
    kind: ValueKind::Flag(|config, on| config.server.cgi.passes_authorization = on),
    help: "Give CGI programs the headers Authorization and Proxy-Authorization",
    details: "As HTTP_AUTHORIZATION, for programs that check passwords by themselves.",
    ..CGI
};

/// Adds an error for each prefix that a site names twice, and for programs in an archive.
pub(super) fn conflicts(entries: &[OptionValue], errors: &mut Vec<ConfigError>) {
    for entry in entries_of(entries, "site", &["cgi"]) {
        let prefix = |value: &str| value.split_once('=').map(|(prefix, _)| prefix.to_owned());
        for (at, value) in entry.values.iter().enumerate() {
            if entry.values[..at].iter().any(|before| prefix(before) == prefix(value)) {
                let found = format!("{} occurs twice", prefix(value).unwrap_or_default().printable());
                errors.push(entry.error(
                    at,
                    found,
                    "expected another path",
                    "give each directory a path of its own",
                ));
            }
        }
    }
    for entry in entries_of(entries, "site", &["cgi-suffix"]).filter(|entry| !entry.values.is_empty()) {
        let path = entries.iter().find(|path| is_option(path, "site", "path") && path.number == entry.number);
        if path.is_some_and(|path| path.values.iter().any(|path| std::path::Path::new(path).is_file())) {
            let found = "the site is an archive, whose files cannot run";
            errors.push(entry.error(
                0,
                found,
                "expected a site that is a directory",
                "unpack the archive, or use cgi",
            ));
        }
    }
}
