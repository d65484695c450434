//! Directives that need no counterpart, and those that have none.

/// Returns why a directive needs no counterpart. `None`: it needs one.
pub(super) fn not_needed(name: &str) -> Option<&'static str> {
    let found = NOT_NEEDED.iter().find(|(names, _)| names.contains(&name));
    found.map(|(_, why)| *why).or_else(|| {
        let prefix = NOT_NEEDED_PREFIXES.iter().find(|(prefix, _)| name.starts_with(prefix));
        prefix.map(|(_, why)| *why)
    })
}

/// Returns why a directive has no counterpart, and what to do instead.
pub(super) fn left_out(name: &str) -> (&'static str, &'static str) {
    let found = LEFT_OUT
        .iter()
        .find(|(prefix, ..)| name == *prefix || prefix.ends_with('_') && name.starts_with(prefix));
    found.map_or(UNKNOWN, |(_, why, hint)| (*why, *hint))
}

const UNKNOWN: (&str, &str) = (
    "tarpon has no counterpart that this command knows",
    "look for what it does in docs/configuration.md, or in `tarpon manual tarpon.toml`",
);

const PROCESSES: &str = "tarpon chooses engine, workers and limits of the machine by itself";
const SENDING: &str = "tarpon has no such setting: it sends files the best way that the kernel has";
const TABLES: &str = "tarpon sizes its tables and buffers by itself";
const COMPRESSION: &str = "tarpon compresses each file once, in the background";
const TYPES: &str = "tarpon has a table of 1,239 extensions, and sends charset=utf-8";
const TLS: &str = "tarpon offers TLS 1.2 and 1.3 with the ciphers of rustls, and makes its tickets by itself";
const PROXY: &str = "tarpon passes requests and responses on as they arrive, and sizes its buffers by itself";
const MESSAGES: &str = "messages go to standard error, as for journald";

const NOT_NEEDED: &[(&[&str], &str)] = &[
    (
        &[
            "accept_mutex",
            "accept_mutex_delay",
            "daemon",
            "debug_points",
            "env",
            "lock_file",
            "master_process",
            "multi_accept",
            "pcre_jit",
            "pid",
            "ssl_engine",
            "thread_pool",
            "timer_resolution",
            "use",
            "worker_aio_requests",
            "worker_connections",
            "worker_cpu_affinity",
            "worker_priority",
            "worker_processes",
            "worker_rlimit_core",
            "worker_rlimit_nofile",
            "worker_shutdown_timeout",
            "working_directory",
            "load_module",
            "aio_write",
        ],
        PROCESSES,
    ),
    (
        &[
            "aio",
            "directio",
            "directio_alignment",
            "chunked_transfer_encoding",
            "etag",
            "if_modified_since",
            "keepalive_disable",
            "limit_rate_after",
            "max_ranges",
            "msie_padding",
            "msie_refresh",
            "output_buffers",
            "postpone_output",
            "read_ahead",
            "reset_timedout_connection",
            "send_lowat",
            "sendfile",
            "sendfile_max_chunk",
            "tcp_nodelay",
            "tcp_nopush",
            "open_file_cache",
            "open_file_cache_errors",
            "open_file_cache_min_uses",
            "open_file_cache_valid",
            "open_log_file_cache",
            "disable_symlinks",
            "http2_push_preload",
            "http2_push",
            "server_tokens",
        ],
        SENDING,
    ),
    (
        &[
            "client_body_buffer_size",
            "client_body_in_file_only",
            "client_body_in_single_buffer",
            "client_body_temp_path",
            "client_header_buffer_size",
            "connection_pool_size",
            "map_hash_bucket_size",
            "map_hash_max_size",
            "request_pool_size",
            "server_names_hash_bucket_size",
            "server_names_hash_max_size",
            "subrequest_output_buffer_size",
            "types_hash_bucket_size",
            "types_hash_max_size",
            "variables_hash_bucket_size",
            "variables_hash_max_size",
            "http2_chunk_size",
            "http2_max_concurrent_streams",
            "http2_max_field_size",
            "http2_max_header_size",
            "http2_max_requests",
            "http2_idle_timeout",
            "http2_recv_timeout",
            "http2_body_preread_size",
            "lingering_close",
            "lingering_time",
            "lingering_timeout",
            "limit_req_log_level",
            "limit_conn_log_level",
            "limit_req_status",
            "limit_conn_status",
        ],
        TABLES,
    ),
    (
        &["absolute_redirect", "port_in_redirect", "server_name_in_redirect"],
        "a Location of tarpon is relative to the origin",
    ),
    (
        &["merge_slashes", "ignore_invalid_headers", "underscores_in_headers"],
        "tarpon refuses requests that two servers could read differently",
    ),
    (&["charset", "charset_types", "override_charset", "source_charset", "default_type", "types"], TYPES),
    (
        &["error_log", "log_not_found", "log_subrequest", "rewrite_log", "uninitialized_variable_warn"],
        MESSAGES,
    ),
    (&["resolver", "resolver_timeout"], "tarpon uses the resolver of the system"),
    (&["recursive_error_pages", "fastcgi_catch_stderr"], "tarpon does so by itself"),
    (
        &[
            "proxy_http_version",
            "proxy_redirect",
            "proxy_max_temp_file_size",
            "proxy_temp_path",
            "proxy_headers_hash_bucket_size",
            "proxy_headers_hash_max_size",
            "proxy_pass_header",
            "proxy_pass_request_body",
            "proxy_pass_request_headers",
            "proxy_ssl_server_name",
            "proxy_ssl_session_reuse",
            "proxy_ssl_protocols",
            "proxy_ssl_ciphers",
            "proxy_ssl_verify_depth",
            "proxy_request_buffering",
            "proxy_ignore_client_abort",
            "proxy_socket_keepalive",
            "proxy_force_ranges",
            "proxy_cache_bypass",
            "proxy_no_cache",
            "proxy_cache_convert_head",
            "proxy_limit_rate",
            "proxy_next_upstream",
            "proxy_next_upstream_tries",
            "proxy_next_upstream_timeout",
        ],
        PROXY,
    ),
    (
        &[
            "fastcgi_split_path_info",
            "fastcgi_keep_conn",
            "fastcgi_buffer_size",
            "fastcgi_buffers",
            "fastcgi_busy_buffers_size",
            "fastcgi_buffering",
            "fastcgi_request_buffering",
            "fastcgi_temp_path",
            "fastcgi_temp_file_write_size",
            "fastcgi_max_temp_file_size",
            "fastcgi_ignore_client_abort",
            "fastcgi_intercept_errors",
            "fastcgi_pass_header",
            "fastcgi_next_upstream",
            "fastcgi_no_cache",
            "fastcgi_cache_bypass",
        ],
        PROXY,
    ),
    (
        &["zone", "hash_bucket_size", "keepalive_requests_upstream", "ntlm"],
        "all workers share the state of upstream servers",
    ),
    (
        &[
            "ssl_buffer_size",
            "ssl_ciphers",
            "ssl_conf_command",
            "ssl_dhparam",
            "ssl_early_data",
            "ssl_ecdh_curve",
            "ssl_prefer_server_ciphers",
            "ssl_session_cache",
            "ssl_session_ticket_key",
            "ssl_session_tickets",
            "ssl_session_timeout",
            "ssl_verify_depth",
        ],
        TLS,
    ),
    (&["http2"], "clients may speak HTTP/2 at every listener"),
    (
        &["autoindex_exact_size", "autoindex_format", "autoindex_localtime"],
        "a listing of tarpon has exact sizes and times, and a form in JSON",
    ),
    (&["stub_status"], "`tarpon status` and the admin listener have counters: docs/admin.md"),
    (&["default"], "it sets a variable"),
];

const NOT_NEEDED_PREFIXES: &[(&str, &str)] = &[
    ("gzip", COMPRESSION),
    ("gunzip", COMPRESSION),
    ("brotli", COMPRESSION),
    ("zstd", COMPRESSION),
    ("proxy_buffer", PROXY),
    ("proxy_busy_buffers", PROXY),
    ("proxy_temp_file", PROXY),
];

/// Names, or the starts of names with `_` at their end.
const LEFT_OUT: &[(&str, &str, &str)] = &[
    (
        "large_client_header_buffers",
        "tarpon has one limit for the whole head of a request, 16 KiB",
        "set `max-head-size` in [server], up to 64KiB, if heads are longer",
    ),
    ("stream", "tarpon passes no other protocols than HTTP on", "keep such a server beside tarpon"),
    ("mail", "tarpon passes no mail on", "keep such a server beside tarpon"),
    ("ssi", "tarpon processes no server-side includes", "make the pages before they are served"),
    ("ssi_", "tarpon processes no server-side includes", "make the pages before they are served"),
    ("sub_filter", "tarpon changes no content", "change the files, or the server behind"),
    ("sub_filter_", "tarpon changes no content", "change the files, or the server behind"),
    ("add_before_body", "tarpon changes no content", "make the pages before they are served"),
    ("add_after_body", "tarpon changes no content", "make the pages before they are served"),
    ("add_trailer", "tarpon adds no trailers", "send a header with [[site.header]]"),
    ("map", "tarpon has no variables", "write a rule for each value where the variable is used"),
    ("geo", "tarpon has no variables", "use `allow` and `deny` in [[site.limit]]"),
    ("split_clients", "tarpon has no variables", "give the servers of an [[upstream]] weights"),
    ("set", "tarpon has no variables", "write the value where the variable is used"),
    ("if", "tarpon has no conditions of this kind", "write a rule for the path: docs/rules.md"),
    (
        "proxy_cache",
        "tarpon has no cache of responses",
        "let the application send Cache-Control, or put the files into the site",
    ),
    (
        "proxy_cache_",
        "tarpon has no cache of responses",
        "let the application send Cache-Control, or put the files into the site",
    ),
    ("proxy_store", "tarpon keeps no responses", "put the files into the site"),
    ("fastcgi_cache", "tarpon has no cache of responses", "let the application send Cache-Control"),
    ("fastcgi_cache_", "tarpon has no cache of responses", "let the application send Cache-Control"),
    (
        "proxy_hide_header",
        "responses of upstream servers pass unchanged",
        "let the server behind leave the header out",
    ),
    (
        "proxy_ignore_headers",
        "responses of upstream servers pass unchanged",
        "let the server behind leave the header out",
    ),
    (
        "proxy_cookie_",
        "responses of upstream servers pass unchanged",
        "let the server behind set its cookies for the paths of clients",
    ),
    ("proxy_method", "requests keep their method", "let the server behind accept it"),
    ("proxy_set_body", "requests keep their body", "let the server behind accept it"),
    ("proxy_bind", "the system chooses the address", "set a route on the machine"),
    (
        "proxy_intercept_errors",
        "error pages of upstream servers pass unchanged",
        "let the server behind send its pages",
    ),
    (
        "proxy_ssl_certificate",
        "tarpon has no certificates for upstream servers",
        "use a Unix socket, or a network that only both can reach",
    ),
    (
        "proxy_ssl_certificate_key",
        "tarpon has no certificates for upstream servers",
        "use a Unix socket, or a network that only both can reach",
    ),
    (
        "fastcgi_hide_header",
        "responses of upstream servers pass unchanged",
        "let the program leave the header out",
    ),
    (
        "uwsgi_",
        "tarpon speaks HTTP and FastCGI to upstream servers",
        "let uWSGI listen with http-socket, and use proxy = [\"/=http://…\"]",
    ),
    (
        "scgi_",
        "tarpon speaks HTTP and FastCGI to upstream servers",
        "let the server behind speak one of these",
    ),
    ("grpc_", "tarpon speaks HTTP/1.1 to upstream servers", "keep such a server beside tarpon"),
    (
        "memcached_",
        "tarpon speaks HTTP and FastCGI to upstream servers",
        "put an HTTP server before memcached",
    ),
    (
        "ssl_stapling",
        "tarpon fetches no OCSP responses",
        "name a file with `tls-ocsp`, or leave it: most directories have ended OCSP",
    ),
    (
        "ssl_stapling_",
        "tarpon fetches no OCSP responses",
        "name a file with `tls-ocsp`, or leave it: most directories have ended OCSP",
    ),
    (
        "ssl_trusted_certificate",
        "tarpon fetches no OCSP responses",
        "name a file with `tls-ocsp`, or leave it: most directories have ended OCSP",
    ),
    ("ssl_crl", "tarpon reads no revocation lists", "issue certificates of clients for a short time"),
    (
        "ssl_reject_handshake",
        "every handshake gets a certificate",
        "set refuse-unknown-hosts = true in [server]: such requests get 421",
    ),
    ("http3", "tarpon does not speak HTTP/3 yet", "nothing: clients use HTTP/2"),
    ("http3_", "tarpon does not speak HTTP/3 yet", "nothing: clients use HTTP/2"),
    ("quic_", "tarpon does not speak HTTP/3 yet", "nothing: clients use HTTP/2"),
    (
        "limit_except",
        "tarpon serves GET and HEAD from files, and passes every method to upstream servers",
        "let the server behind refuse methods",
    ),
    ("mirror", "requests are not copied", "keep such a server beside tarpon"),
    ("dav_", "tarpon does not write files", "use a server for WebDAV behind `proxy`"),
    ("image_filter", "tarpon changes no content", "make the pictures before they are served"),
    ("image_filter_", "tarpon changes no content", "make the pictures before they are served"),
    ("mp4", "tarpon sends ranges of the file unchanged", "nothing: players ask for ranges"),
    ("flv", "tarpon sends ranges of the file unchanged", "nothing: players ask for ranges"),
    ("random_index", "a directory has one page", "choose the page in a script"),
    ("userid", "tarpon sets no cookies", "set them in a script"),
    ("userid_", "tarpon sets no cookies", "set them in a script"),
    (
        "perl_",
        "tarpon runs no scripts of nginx",
        "write a function (docs/embedding.md) or a server behind `proxy`",
    ),
    (
        "js_",
        "tarpon runs no scripts of nginx",
        "write a function (docs/embedding.md) or a server behind `proxy`",
    ),
    ("more_", "it is a module's; tarpon has its own headers", "use [[site.header]] with `set` and `remove`"),
    ("modsecurity", "tarpon has no such filter", "keep such a server in front of tarpon"),
    ("modsecurity_", "tarpon has no such filter", "keep such a server in front of tarpon"),
    ("post_action", "tarpon sends no further requests", "read the access log"),
    ("satisfy", "addresses alone decide", "see docs/limits.md"),
];

/// Included files that tarpon needs nothing of, by their names.
pub(super) const NOT_NEEDED_FILES: &[&str] = &[
    "mime.types",
    "fastcgi_params",
    "fastcgi.conf",
    "fastcgi-php.conf",
    "proxy_params",
    "uwsgi_params",
    "scgi_params",
    "koi-utf",
    "koi-win",
    "win-utf",
    "options-ssl-nginx.conf",
];
