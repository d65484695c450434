//! Directives and options of Caddy that need no counterpart, and those that have none.

use crate::program::import::{report::ImportReport, source::DirectiveOrigin};

/// Reports a directive that nothing else has read.
pub(super) fn report_unread(name: &str, origin: &DirectiveOrigin, report: &mut ImportReport) {
    if let Some((_, why)) = NOT_NEEDED.iter().find(|(names, _)| names.contains(&name)) {
        return report.not_needed(origin, why);
    }
    let (why, hint) =
        LEFT_OUT.iter().find(|(known, ..)| *known == name).map_or(UNKNOWN, |(_, why, hint)| (why, hint));
    report.left_out(origin, why, hint);
}

const UNKNOWN: (&str, &str) = (
    "tarpon has no counterpart that this command knows",
    "look for what it does in docs/configuration.md, or in `tarpon manual tarpon.toml`",
);

const NOT_NEEDED: &[(&[&str], &str)] = &[
    (&["encode", "precompressed"], "tarpon compresses each file once, in the background"),
    (&["order"], "tarpon has a fixed order: docs/pages-and-caching.md"),
    (
        &[
            "skip_install_trust",
            "storage",
            "storage_clean_interval",
            "renew_interval",
            "ocsp_interval",
            "ocsp_stapling",
            "key_type",
            "persist_config",
            "cert_lifetime",
        ],
        "tarpon keeps accounts and certificates in its state directory, and renews them by itself",
    ),
    (
        &[
            "strict_sni_host",
            "keepalive_interval",
            "keepalive_idle",
            "keepalive_count",
            "shutdown_delay",
            "enable_full_duplex",
            "log_credentials",
            "name",
        ],
        "tarpon sizes its tables and chooses such values by itself",
    ),
    (
        &[
            "read_buffer",
            "write_buffer",
            "flush_interval",
            "buffer_requests",
            "buffer_responses",
            "request_buffers",
            "response_buffers",
            "stream_close_delay",
            "keepalive_interval",
        ],
        "tarpon passes requests and responses on as they arrive",
    ),
];

const LEFT_OUT: &[(&str, &str, &str)] = &[
    (
        "max_header_size",
        "the limit of tarpon is 16 KiB",
        "set `max-head-size` in [server], up to 64KiB, if heads are longer",
    ),
    ("templates", "tarpon changes no content", "make the pages before they are served"),
    ("request_header", "tarpon adds no headers to requests", "let the server behind work without it"),
    ("method", "requests keep their method", "let the server behind accept it"),
    ("vars", "tarpon has no variables", "write the value where the variable is used"),
    ("map", "tarpon has no variables", "write a rule for each value"),
    ("tracing", "tarpon sends no traces", "the access log and the metrics tell of requests"),
    ("metrics", "the admin listener has metrics", "let Prometheus read them there: docs/admin.md"),
    ("acme_server", "tarpon issues no certificates", "keep such a server beside tarpon"),
    ("push", "browsers have removed server push", "send a header Link with [[site.header]]"),
    ("invoke", "tarpon has no routes with a name", "write the directives of the route here"),
    ("intercept", "responses of upstream servers pass unchanged", "let the server behind send its pages"),
    ("copy_response", "responses of upstream servers pass unchanged", "let the server behind send its pages"),
    (
        "copy_response_headers",
        "responses of upstream servers pass unchanged",
        "let the server behind send them",
    ),
    ("fs", "a site is a directory or an archive", "mount the file system, or pack it: docs/packing.md"),
    ("rate_limit", "it is a module's", "set `request-rate` in [[site.limit]]: docs/limits.md"),
    ("cache", "tarpon has no cache of responses", "let the application send Cache-Control"),
    ("on_demand_tls", "certificates are for names that the file has", "write the names into `domain`"),
    ("on_demand", "certificates are for names that the file has", "write the names into `domain`"),
    ("frankenphp", "tarpon runs no PHP", "use PHP-FPM with `proxy`: docs/upstreams.md#fastcgi"),
    ("php_server", "tarpon runs no PHP", "use PHP-FPM with `proxy`: docs/upstreams.md#fastcgi"),
    ("php", "tarpon runs no PHP", "use PHP-FPM with `proxy`: docs/upstreams.md#fastcgi"),
    ("mercure", "it is a module's", "run the hub as a server, and pass its paths on with `proxy`"),
    ("vulcain", "it is a module's", "let the application do it"),
    ("layer4", "tarpon passes no other protocols than HTTP on", "keep such a server beside tarpon"),
    ("cgi", "it is a module's", "set `cgi` in the [[site]]: docs/cgi.md"),
    ("webdav", "tarpon does not write files", "use a server for WebDAV behind `proxy`"),
    (
        "trusted_proxies",
        "trusted proxies are those of the whole server",
        "set `trusted-proxies` in [server]: docs/proxies.md",
    ),
    ("acme_eab", "the keys are secrets", "set `acme-eab-kid` and `acme-eab-key` in [server]: docs/acme.md"),
    (
        "listener_wrappers",
        "a listener has no layers of its own",
        "set `proxy-protocol` in the [[listener]] if that is one of them: docs/proxies.md",
    ),
];
