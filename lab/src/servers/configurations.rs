//! The configuration files of other servers: the fastest for the lab, with connections that stay open and no access log.

use std::path::Path;

use super::programs::StartValues;
use super::proxy_setup::ProxySetup;
use crate::client::tls::SERVER_NAME;
use crate::error::LabError;
use crate::records::server::PeerServer;

/// Returns the fastest configuration of nginx for the lab: a cache of open files, unlimited keep-alive, and no access log or a
/// buffered one. `tcp_nopush` is off, as it would delay the last part of pipelined responses.
pub(super) fn nginx(server: PeerServer, values: &StartValues) -> String {
    let (prefix, site, address) = (values.work_dir.display(), values.site.display(), values.address);
    let log = match server.is_logging() {
        true => format!("{} combined buffer=64k flush=1s", values.access_log.display()),
        false => "off".to_owned(),
    };
    let sendfile = if values.switches.sendfile { "on" } else { "off" };
    let keepalive_requests = if values.switches.keeps_clients { 1_000_000_000 } else { 1 };
    let proxy = values.proxy.as_ref();
    let (upstream, location) = proxy.map_or((String::new(), String::new()), ProxySetup::nginx);
    let aio = if server == PeerServer::NginxThreads { "threads" } else { "off" };
    let (ssl, certificate) = match &values.certificate {
        None => ("", String::new()),
        Some((chain, key)) => (
            " ssl",
            format!(
                "ssl_protocols TLSv1.3; ssl_session_tickets on; ssl_certificate {}; ssl_certificate_key {};",
                chain.display(),
                key.display()
            ),
        ),
    };
    let http2 = if values.has_http2 { " http2" } else { "" };
    let gzip = if values.has_gzip { "on" } else { "off" };
    format!(
        "daemon off;
         user root root;
         worker_processes 1;
         worker_rlimit_nofile {DESCRIPTORS};
         pid {prefix}/nginx.pid;
         error_log {prefix}/nginx.log;
         events {{ worker_connections 32768; }}
         http {{
             access_log {log};
             sendfile {sendfile};
             aio {aio};
             tcp_nopush off;
             tcp_nodelay on;
             keepalive_requests {keepalive_requests};
             keepalive_timeout 1h;
             open_file_cache max=16384 inactive=1h;
             open_file_cache_valid 1h;
             open_file_cache_min_uses 1;
             types {{ text/html html; }}
             gzip_static {gzip};
             client_body_temp_path {prefix}/temp;
             proxy_temp_path {prefix}/temp;
             fastcgi_temp_path {prefix}/temp;
             uwsgi_temp_path {prefix}/temp;
             scgi_temp_path {prefix}/temp;
             {upstream}
             server {{ listen {address}{ssl}{http2} backlog=65535; root {site}; {certificate} {location} }}
         }}\n"
    )
}

/// Returns the configuration of h2o for the lab: one thread, and connections that stay open. h2o keeps open files by itself, and writes no
/// log unless asked.
pub(super) fn h2o(values: &StartValues) -> String {
    // JSON strings are YAML.
    let quoted = |path: &Path| serde_json::Value::from(path.to_string_lossy()).to_string();
    let ssl = values.certificate.as_ref().map_or(String::new(), |(chain, key)| {
        let (chain, key) = (quoted(chain), quoted(key));
        format!(", ssl: {{ certificate-file: {chain}, key-file: {key}, minimum-version: TLSv1.3 }}")
    });
    let gzip = if values.has_gzip { "ON" } else { "OFF" };
    format!(
        "user: root\n\
         num-threads: 1\n\
         max-connections: 32768\n\
         http1-request-timeout: 3600\n\
         http2-idle-timeout: 3600\n\
         error-log: {error_log}\n\
         file.send-compressed: {gzip}\n\
         listen: {{ host: {host}, port: {port}{ssl} }}\n\
         hosts: {{ default: {{ paths: {{ /: {{ file.dir: {site} }} }} }} }}\n",
        error_log = quoted(&values.work_dir.join("h2o.log")),
        host = values.address.ip(),
        port = values.address.port(),
        site = quoted(&values.site),
    )
}

/// Returns the configuration of Caddy for the lab: HTTP/1.1 alone, or HTTP/2 too, and no port but that of the lab. Caddy writes no access log unless asked,
/// and runs on as many threads as it may use cores.
pub(super) fn caddy(values: &StartValues) -> String {
    let quoted = |path: &Path| format!("\"{}\"", path.display());
    let (scheme, tls) = match &values.certificate {
        None => ("http", String::new()),
        Some((chain, key)) => ("https", format!("tls {} {}", quoted(chain), quoted(key))),
    };
    let precompressed = if values.has_gzip { "{\n precompressed gzip\n }" } else { "" };
    let protocols = if values.has_http2 { "h1 h2 h2c" } else { "h1" };
    format!(
        "{{
             admin off
             auto_https disable_redirects
             servers {{
                 protocols {protocols}
             }}
         }}
         {scheme}://{host}:{port} {{
             bind {address}
             {tls}
             root * {site}
             file_server {precompressed}
         }}\n",
        host = if values.certificate.is_some() { SERVER_NAME } else { "" },
        port = values.address.port(),
        address = values.address.ip(),
        site = quoted(&values.site),
    )
}

/// Returns the configuration of Apache httpd for the lab: one process whose threads wait for events, and mod_cgid, whose daemon starts the
/// programs.
pub(super) fn apache(values: &StartValues) -> String {
    let (prefix, site, address) = (values.work_dir.display(), values.site.display(), values.address);
    let programs = values.programs.as_deref().map_or(String::new(), |programs| {
        let programs = programs.display();
        format!(
            "ScriptSock {prefix}/cgid.sock
             ScriptAlias {PROGRAMS_PATH} {programs}/
             <Directory {programs}>
                 Require all granted
             </Directory>"
        )
    });
    format!(
        "ServerName localhost
         ServerRoot {prefix}
         DefaultRuntimeDir {prefix}
         PidFile {prefix}/httpd.pid
         ErrorLog {prefix}/httpd.log
         LoadModule mpm_event_module {APACHE_MODULES}/mod_mpm_event.so
         LoadModule authz_core_module {APACHE_MODULES}/mod_authz_core.so
         LoadModule alias_module {APACHE_MODULES}/mod_alias.so
         LoadModule cgid_module {APACHE_MODULES}/mod_cgid.so
         User {PROGRAM_USER}
         Group {PROGRAM_USER}
         Listen {address}
         ListenBacklog 65535
         StartServers 1
         ServerLimit 1
         ThreadLimit {APACHE_THREADS}
         ThreadsPerChild {APACHE_THREADS}
         MaxRequestWorkers {APACHE_THREADS}
         MinSpareThreads 1
         MaxSpareThreads {APACHE_THREADS}
         KeepAlive On
         MaxKeepAliveRequests 0
         KeepAliveTimeout 3600
         EnableMMAP On
         EnableSendfile On
         DocumentRoot {site}
         <Directory {site}>
             Require all granted
         </Directory>
         {programs}\n"
    )
}

/// Returns the configuration of lighttpd for the lab.
pub(super) fn lighttpd(values: &StartValues) -> String {
    let (site, address) = (values.site.display(), values.address);
    let programs = values.programs.as_deref().map_or(String::new(), |programs| {
        let programs = programs.display();
        format!(
            "alias.url = (\"{PROGRAMS_PATH}\" => \"{programs}/\")
             $HTTP[\"url\"] =~ \"^{PROGRAMS_PATH}\" {{ cgi.assign = (\"\" => \"\") }}"
        )
    });
    // A number of requests is 16 bits long there.
    format!(
        "server.modules = (\"mod_alias\", \"mod_cgi\")
         server.bind = \"{host}\"
         server.port = {port}
         server.username = \"{PROGRAM_USER}\"
         server.groupname = \"{PROGRAM_USER}\"
         server.document-root = \"{site}\"
         server.listen-backlog = 65535
         server.max-connections = 32768
         server.max-fds = 65536
         server.max-keep-alive-requests = 65535
         server.max-keep-alive-idle = 3600
         mimetype.assign = (\".html\" => \"text/html\")
         {programs}\n",
        host = address.ip(),
        port = address.port(),
    )
}

/// Returns the configuration of HAProxy for the lab: one thread, and connections that stay open.
pub(super) fn haproxy(values: &StartValues) -> Result<String, LabError> {
    let proxy = values.proxy.as_ref().ok_or("HAProxy has no pages of its own: it needs an upstream")?;
    Ok(format!(
        "global
             nbthread 1
             maxconn 32768
             no strict-limits
         defaults
             mode http
             timeout connect 5s
             timeout client 1h
             timeout server 1h
             timeout tunnel 1h
             timeout http-keep-alive 1h
         frontend lab
             bind {address} backlog 65535
             default_backend lab
         {backend}\n",
        address = values.address,
        backend = proxy.haproxy(),
    ))
}

/// The descriptors of nginx: two for each of 10,000 tunnels, and more. Its list of connections, half as long, costs memory at the start.
const DESCRIPTORS: u32 = 65536;

/// The path below which CGI programs answer.
pub(super) const PROGRAMS_PATH: &str = "/cgi-bin/";

/// The user of CGI programs. Debian has it.
pub(super) const PROGRAM_USER: &str = "www-data";

/// Where Debian keeps the modules of Apache httpd.
const APACHE_MODULES: &str = "/usr/lib/apache2/modules";

/// Threads of Apache httpd: one for each stalled program, and some.
const APACHE_THREADS: u32 = 256;
